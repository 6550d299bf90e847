"""Conversations as records: `{"messages": [...]}` as chat models are tuned on, and ShareGPT's `{"conversations": [...]}`.

Each record of a file, JSON lines or one array, is a session. Records have no ids: one is named by a hash of what it says, so
that a file that grew or was sorted anew adds only what is new. What a record prefers to something else (`chosen` and
`rejected`, `preferred_output` and `non_preferred_output`) makes two endings: the second one is a fork.

Calls without an id (ShareGPT's `function_call`, `tool_call` parts, the old `function_call` of a message) get one by their place,
and the answers that follow them are theirs in order.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

from trails.transcripts import checked, jsonl, outline
from trails.transcripts.checked import Reading
from trails.transcripts.source import Piece, Problem, SourceSession, SourceTurn, Transcript, distinct, files_at

SOURCE: Final = "messages"

_LISTS: Final = ("messages", "conversations", "conversation")
_ENDINGS: Final = (("chosen", "rejected"), ("preferred_output", "non_preferred_output"))
_INPUT: Final = "input"
_HOLDERS: Final = frozenset({*_LISTS, *(name for pair in _ENDINGS for name in pair)})
_SIGNS: Final = re.compile(rb'[{,]\s*"(?:role|from)"\s*:')
_ROLES: Final = {"human": "user", "gpt": "assistant", "observation": "tool", "function_call": "assistant"}
"""ShareGPT's names of roles; others are roles already."""
_TOGETHER: Final = 20
"""Records that are read before their sessions are brought in."""
_ANSWERS: Final = frozenset({"tool", "function"})
_MESSAGE_OWN: Final = frozenset(
    {"role", "from", "content", "value", "tool_calls", "tool_call_id", "function_call", "refusal"}
)
_CALL_OWN: Final = frozenset({"id", "type", "function", "name", "arguments", "input"})
_TEXT_PARTS: Final = frozenset({"text", "reasoning"})

_Json = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes holds conversations as records.

    >>> sniff(b'{"messages": [{"role": "user", "content": "a"}]}'), sniff(b'[{"conversations": [{"from": "human", "value": "a"')
    (True, True)
    >>> sniff(b'{"messages": 3}')
    False
    """
    first = outline.of_first(head)
    held = [name for name in _HOLDERS if name in first and first[name] is None]
    return bool((held or (_INPUT in first and b'"messages"' in head)) and _SIGNS.search(head))


def find_files(path: Path) -> list[Path]:
    """Return the file itself, or all JSON files in a folder and below; raise `InvalidInput` where there is neither."""
    return files_at(path, "*.jsonl", "*.json")


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files of records (name and bytes of each) say; nothing that they hold raises."""
    return checked.joined(stream([(name, BytesIO(data)) for name, data in files]))


def stream(files: Sequence[tuple[str, IO[bytes]]]) -> Iterator[Transcript]:
    """Yield what files of records (name of each, and the open file) say, some records at a time.

    Each file is read twice: what comes out of it first is to say how many of its lines cannot be used.
    """
    for name, file in files:
        refused = sum(problem.line > 0 for reading in _read(file) for problem in reading.problems)
        file.seek(0)
        for reading in _read(file):
            yield replace(checked.together([(name, reading)]), refused_lines=refused)


def _read(file: IO[bytes]) -> Iterator[Reading]:
    reading, records = Reading(), 0
    taken: Counter[str] = Counter()
    odd: Counter[str] = Counter()
    for records, each in enumerate(jsonl.values_in(file), start=1):
        if isinstance(each, Problem):
            reading.problems.append(each)
        else:
            _Record(*each, reading, odd).read(taken)
        if records % _TOGETHER == 0:
            yield reading
            reading = Reading()
    reading.notes += [f"{count} {what}" for what, count in odd.items()]
    if not records:
        reading.refuse(0, "holds no records", "")
    yield reading


@dataclass(slots=True)
class _Record:
    """One record on its way to a session."""

    line: int
    data: _Json
    reading: Reading
    odd: Counter[str]
    waiting: list[str] = field(default_factory=list)
    """Calls that are not answered yet."""
    calls: int = 0
    has_answered: bool = False
    """Whether an answer came since the last call: then no later one is for the calls before it."""

    def read(self, taken: Counter[str]) -> None:
        self.reading.count("record")
        begin, endings = self._conversation()
        if begin is None:
            self.reading.refuse(self.line, "holds no conversation: it has no list of messages", self.data)
            return
        written = json.dumps(self.data, sort_keys=True)
        identity = hashlib.sha256(written.encode("utf-8", errors="surrogatepass")).hexdigest()[:32]
        taken[identity] += 1
        if taken[identity] > 1:
            self.odd["record(s) say the same as one before, and are sessions of their own"] += 1
            identity = f"{identity}-{taken[identity]}"
        shared = self._turns(begin, "", 0)
        open_calls, calls = list(self.waiting), self.calls
        paths = []
        for number, ending in enumerate(endings or [[]]):
            self.waiting, self.calls, self.has_answered = list(open_calls), calls, False
            scope = f"ending/{number}/" if endings else ""
            paths.append((*shared, *self._turns(ending, scope, len(begin))))
        system = self.data.get("system")
        self.reading.sessions.append(
            SourceSession(
                source=SOURCE,
                id=identity,
                paths=distinct(paths),
                system=system if isinstance(system, str) and system else None,
                meta=self.reading.meta(self.line, self._meta(system)),
            )
        )

    def _conversation(self) -> tuple[list[Any] | None, list[list[Any]]]:
        """Return the messages that all endings share, and the endings where a record has two; None for no conversation."""
        data = self.data
        begin = next((data[name] for name in _LISTS if isinstance(data.get(name), list)), None)
        held = data.get(_INPUT)
        if begin is None and isinstance(held, dict) and isinstance(held.get("messages"), list):
            begin = held["messages"]
        for pair in _ENDINGS:
            if all(isinstance(data.get(name), list | dict) for name in pair):
                endings = [list(data[n]) if isinstance(data[n], list) else [data[n]] for n in pair]
                if begin is None:
                    at = next(
                        (n for n, (a, b) in enumerate(zip(*endings, strict=False)) if a != b), min(map(len, endings))
                    )
                    return endings[0][:at], [each[at:] for each in endings]
                return begin, endings
        return begin, []

    def _meta(self, system: object) -> dict[str, Any]:
        """Return what a record says beside its messages; `tools` is a list, though some write it as a text."""
        own = {*_HOLDERS, "system"} if isinstance(system, str) else _HOLDERS
        left = {key[:100]: value for key, value in self.data.items() if key not in own}
        if isinstance(held := left.get(_INPUT), dict):
            left[_INPUT] = {key: value for key, value in held.items() if key != "messages"}
        if isinstance(tools := left.get("tools"), str) and isinstance(found := _value(tools), list):
            left["tools"] = found
        return checked.filled(left)

    # --- messages

    def _turns(self, messages: Sequence[Any], scope: str, start: int) -> list[SourceTurn]:
        made = []
        for place, message in enumerate(messages):
            turn = self._turn(message, f"{scope}{start + place}")
            if turn is None:
                continue
            if (reason := checked.fault(turn)) is None:
                made.append(turn)
            else:
                self.reading.refuse(self.line, f"message {start + place} cannot be kept: {reason}", message)
        return made

    def _turn(self, message: object, name: str) -> SourceTurn | None:
        said = message.get("role", message.get("from")) if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(said, str):
            self.reading.refuse(self.line, f"message {name} has no role", message)
            return None
        self.reading.count(said)
        content = message.get("content", message.get("value"))
        calls: list[_Json] = []
        if said == "function_call":
            calls, content = self._named(content)
        elif isinstance(content, list):
            content, inner = self._parts(content)
            calls += inner
        calls += self._given(message)
        if refusal := message.get("refusal"):
            content = [*_as_parts(content), {"type": "refusal", "refusal": refusal}]
        if calls and self.has_answered:
            self.waiting, self.has_answered = [], False
        self.waiting += [str(call["id"]) for call in calls]
        meta = checked.filled({key[:100]: value for key, value in message.items() if key not in _MESSAGE_OWN})
        if message.get("content") == "" and (calls or refusal):  # where others have null, which is the same turn
            meta["content"] = ""
        if beside := checked.filled({str(call["id"]): _beside(call) for call in calls}):
            meta["tool_calls"] = beside
        return SourceTurn(
            role=_ROLES.get(said, said),
            pieces=(Piece(name, _content(content)),),
            tool_calls=tuple(calls),
            tool_call_id=self._answered(message, said),
            meta=meta,
        )

    def _given(self, message: _Json) -> list[_Json]:
        """Return the calls of a message in OpenAI's shapes; one without an id gets one by its place."""
        found = message.get("tool_calls")
        calls: list[_Json] = []
        for call in found if isinstance(found, list) else []:
            if isinstance(call, dict):
                calls.append(call if checked.name(call.get("id")) else {**call, "id": self._new_id()})
            else:
                self.reading.refuse(self.line, "has a tool call that cannot be read", call)
        if isinstance(old := message.get("function_call"), dict):
            calls.append({**old, "id": self._new_id()})
        return calls

    def _named(self, content: object) -> tuple[list[_Json], object]:
        """Return the calls that a JSON text names, one or a list, and what is left of the text: all, where it names none."""
        found: Any = _value(content) if isinstance(content, str) else content
        listed: list[Any] = found if isinstance(found, list) else [found]
        if not listed or not all(isinstance(each, dict) and checked.name(each.get("name")) for each in listed):
            self.odd["call(s) are told as a text that names no tool; the text is kept"] += 1
            return [], content
        return [{"id": self._new_id(), "name": each["name"], "arguments": each.get("arguments")} for each in listed], ""

    def _parts(self, parts: Sequence[Any]) -> tuple[list[Any] | str, list[_Json]]:
        """Return parts with their texts where others have them too, and the calls among them."""
        kept: list[Any] = []
        calls: list[_Json] = []
        for part in parts:
            value = part.get("value") if isinstance(part, dict) else None
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "tool_call" and value is not None:
                found, left = self._named(value)
                calls += found
                if left:
                    kept.append(part)
            elif (
                isinstance(part, dict)
                and isinstance(kind, str)
                and kind in _TEXT_PARTS
                and isinstance(value, str)
                and "text" not in part
            ):
                kept.append(
                    {"type": kind, "text": value} | {k: v for k, v in part.items() if k not in ("type", "value")}
                )
            else:
                kept.append(part)
        only = kept[0] if len(kept) == 1 and isinstance(kept[0], dict) else {}
        return (str(only["text"]) if only.keys() == {"type", "text"} and only["type"] == "text" else kept), calls

    def _answered(self, message: _Json, said: str) -> str | None:
        """Return the call that a message answers: the one that it names, or the first that waits."""
        if _ROLES.get(said, said) not in _ANSWERS:
            return None
        self.has_answered = True
        named = checked.name(message.get("tool_call_id"))
        if named is None:
            return self.waiting.pop(0) if self.waiting else None
        if named in self.waiting:
            self.waiting.remove(named)
        return named

    def _new_id(self) -> str:
        self.calls += 1
        return f"call-{self.calls}"


def _beside(call: _Json) -> _Json:
    """Return what a call says beside what it asks for; its arguments too where they look like a text that is no JSON."""
    more = {key[:100]: value for key, value in call.items() if key not in _CALL_OWN}
    function = call.get("function")
    given = function.get("arguments") if isinstance(function, dict) else None
    is_text = isinstance(given, str) and given.startswith('"') and isinstance(_value(given), str)
    return more | ({"arguments": given} if is_text else {})


def _content(content: object) -> str | tuple[Any, ...]:
    if content is None:
        return ""
    return content if isinstance(content, str) else tuple(content) if isinstance(content, list) else (content,)


def _as_parts(content: object) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, list) else []


def _value(text: str) -> Any:
    """Return what a JSON text stands for; None for what is none."""
    found = jsonl.read_object(b'{"value":' + text.encode("utf-8", errors="surrogatepass") + b"}")
    return found.get("value") if isinstance(found, dict) and found.keys() == {"value"} else None
