"""Read lists of messages: records for tuning chat models, and bare lists.

A record is `{"messages": [...]}`, ShareGPT's `{"conversations": [...]}` or Gemini's `{"contents": [...]}`, on a line of its
own or in an array. A bare list is an array of messages, or a file with a message a line. Each is a session. Messages may be
those of OpenAI's chat and Responses APIs, of Anthropic, Gemini and Bedrock, LangChain's, pydantic-ai's, and the UI messages of
Vercel's AI SDK (`trails.model.message_shapes`).

Nothing has an id. A record is named by a hash of what it says, so that a file that grew or was sorted anew adds only what is
new. A bare list is named by its opening, so that it may grow. What a record prefers to something else (`chosen` and
`rejected`, `preferred_output` and `non_preferred_output`) makes two endings: the second one is a fork.

Calls without an id (ShareGPT's `function_call`, `tool_call` parts, the old `function_call` of a message, Gemini's) get one by
their place, and the answers that follow them are theirs in order, or by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import IO, Any, Final

from trails.exchange import json_files
from trails.exchange.format_detection import Outline, guess_origin, outline_of_first, outline_of_listed
from trails.exchange.json_files import Json, as_list, as_listed, as_object, as_text, value_at, without_keys
from trails.exchange.record_checks import Reading, combine_files
from trails.exchange.source_transcript import Piece, Problem, SourceTurn, Transcript, distinct_paths
from trails.exchange.source_values import as_content, common_length, leftover, parse_time, valid_name, without_empty
from trails.model import message_shapes, validation
from trails.model.content_parts import calls_in, results_in

SOURCE: Final = "messages"

_LISTS: Final = ("messages", "conversations", "conversation", "contents")
_ENDINGS: Final = (("chosen", "rejected"), ("preferred_output", "non_preferred_output"))
_INPUT: Final = "input"
_HOLDERS: Final = frozenset({*_LISTS, *(name for pair in _ENDINGS for name in pair)})
_SYSTEMS: Final = ("system", "systemInstruction", "system_instruction")
_SIGNS: Final = re.compile(rb'[{,]\s*"(?:role|from|type|parts)"\s*:')
_SAYING: Final = frozenset({"content", "value", "text", "parts", "tool_calls", "function_call", "toolInvocations"})
_TOGETHER: Final = 20
"""Records that are read before their sessions are brought in."""
_HEAD: Final = 1 << 16
_TIMES: Final = ("timestamp", "createdAt", "created_at")
_CUSTOM: Final = "custom"
_MESSAGE_OWN: Final = {"role", "content", "tool_calls", "tool_call_id", "function_call", "refusal", "is_error"}
_CALL_OWN: Final = {"id", "type", "function", "name", "arguments", "input", _CUSTOM}


def sniff(head: bytes) -> bool:
    """Tell whether a file holds conversations.

    >>> sniff(b'{"messages": [{"role": "user", "content": "a"}]}'), sniff(b'[{"conversations": [{"from": "human", "value": "a"')
    (True, True)
    >>> sniff(b'[{"role": "user", "content": "a"}]'), sniff(b'{"messages": [{"info": {"role": "user"}, "parts": []}]}')
    (True, False)
    """
    first = outline_of_first(head.replace(b"[[", b"[", 1) if head.lstrip().startswith(b"[[") else head)
    held = [name for name in _HOLDERS if name in first and first[name] is None]
    if held or (_INPUT in first and b'"messages"' in head):
        listed = outline_of_listed(head, {*held, "messages"})
        return bool(_SIGNS.search(head)) if not listed else _says(listed) or not listed.keys() - {"id", "name"}
    known = validation.standard_role(first.get("role", first.get("from", first.get("type")))) is not None
    is_known = known or first.get("type") == "constructor" or "kind" in first or message_shapes.is_item(first)
    return is_known and _says(first)


def _says(message: Outline) -> bool:
    """Tell whether an outline, which may be cut off, is that of a message."""
    keys = message.keys()
    if message.get("role", message.get("from")) is not None:
        return bool(keys & _SAYING) and "info" not in keys
    if message_shapes.is_item(message):
        return True
    if message.get("type") == "constructor":
        return "lc" in keys
    if message.get("kind") in ("request", "response") or ("role" not in keys and "type" not in keys):
        return "parts" in keys and "info" not in keys
    return message.get("type") in message_shapes.LANGCHAIN and bool(keys & {"content", "data"})


def stream(files: Sequence[tuple[str, IO[bytes]]]) -> Iterator[Transcript]:
    """Read open files, some records at a time.

    Each file is read twice: what comes out of it first is to say how many of its lines cannot be used.
    """
    for name, file in files:
        refused = sum(problem.line > 0 for reading in _read(file) for problem in reading.problems)
        file.seek(0)
        for reading in _read(file):
            yield replace(combine_files([(name, reading)]), refused_lines=refused)


def turns_of(messages: Sequence[Any], line: int, reading: Reading, own_roles: Set[str]) -> list[SourceTurn]:
    """Return the turns of a list of messages in another format."""
    odd: Counter[str] = Counter()
    turns = _Record(line, {}, 0, reading, odd, own_roles).turns(messages, "", 0)
    reading.note_counts(odd)
    return turns


def _read(file: IO[bytes]) -> Iterator[Reading]:
    reading, records, sessions = Reading(), 0, 0
    taken: Counter[str] = Counter()
    odd: Counter[str] = Counter()
    for records, each in enumerate(_records_in(file), start=1):
        if isinstance(each, Problem):
            reading.problems.append(each)
        else:
            _Record(each.line, each.value, each.array, reading, odd).read(taken)
        if records % _TOGETHER == 0:
            sessions += len(reading.sessions)
            yield reading
            reading = Reading()
    reading.note_counts(odd)
    if not records:
        reading.refuse(0, "holds no records", "")
    elif not sessions and not reading.sessions:
        file.seek(0)
        if (what := guess_origin(file.read(_HEAD))) is not None:
            reading.refuse(0, f"seems to be {what}, of which `{SOURCE}` reads nothing", "")
    yield reading


def _records_in(file: IO[bytes]) -> Iterator[json_files.Element | Problem]:
    """Yield the records of a file; bare lists become records with a number."""
    bare, line, array, lists = list[Any](), 0, -1, 0

    def ended() -> Iterator[json_files.Element]:
        nonlocal bare, lists
        if bare:
            lists += 1
            yield json_files.Element(line, {"messages": bare}, lists)
            bare = []

    for each in json_files.iter_elements(file, lists=True):
        if isinstance(each, Problem):
            yield each
        elif isinstance(each.value, dict) and not _holds_messages(each.value) and message_shapes.is_message(each.value):
            if each.array != array:
                yield from ended()
                line, array = each.line, each.array
            bare.append(each.value)
        elif isinstance(each.value, dict) and bare and each.array == array > 0:
            bare.append(each.value)  # an element of a bare list that is no message: its record says so
        else:
            yield from ended()
            array = -1
            if isinstance(each.value, dict):
                yield each._replace(array=0)
            else:
                lists += 1
                yield json_files.Element(each.line, {"messages": each.value}, lists)
    yield from ended()


def _holds_messages(value: Json) -> bool:
    """Tell whether an object is a record: one that holds messages, and is none."""
    held = (*map(value.get, _HOLDERS), value_at(value, _INPUT, "messages"))
    return any(isinstance(each, list) for each in held)


@dataclass(slots=True)
class _Record:
    """One record on its way to a session."""

    line: int
    data: Json
    bare: int
    """Which bare list of the file it is, from 1; 0 for a record."""
    reading: Reading
    odd: Counter[str]
    own_roles: Set[str] = frozenset()
    """Roles that the format has beside the known ones."""
    waiting: dict[str, str | None] = field(default_factory=dict)
    """Calls that are not answered yet, and their tools' names."""
    calls: int = 0
    has_answered: bool = False
    """Whether an answer came since the last call: then no later one is for the calls before it."""

    def read(self, taken: Counter[str]) -> None:
        self.reading.count("record")
        begin, endings = self._conversation()
        if begin is None:
            self.reading.refuse(self.line, "holds no conversation: it has no list of messages", self.data)
            return
        shared = self.turns(begin, "", 0)
        open_calls, calls = dict(self.waiting), self.calls
        paths = []
        for number, ending in enumerate(endings or [[]]):
            self.waiting, self.calls, self.has_answered = dict(open_calls), calls, False
            scope = f"ending/{number}/" if endings else ""
            paths.append((*shared, *self.turns(ending, scope, len(begin))))
        if not any(paths):
            self.reading.refuse(self.line, "holds no message that can be read, and makes no session", self.data)
            return
        identity = self._identity(begin)
        taken[identity] += 1
        if taken[identity] > 1:
            if not self.bare:
                self.odd["record(s) say the same as one before, and are sessions of their own"] += 1
            identity = f"{identity}-{taken[identity]}"
        system, told = self._system()
        both = distinct_paths(paths)
        self.reading.add_session(SOURCE, identity, both, self._meta(told), self.line, system=system, agent=None)

    def _identity(self, messages: Sequence[Any]) -> str:
        """Return the session's id: a hash of the record, or of a list's opening."""
        said: Any = self.data
        if self.bare:
            models = (n for n, each in enumerate(messages) if isinstance(each, dict) and _role(each) == "assistant")
            said = messages[: next(models, len(messages)) + 1]
        written = json.dumps(said, sort_keys=True)
        return hashlib.sha256(written.encode("utf-8", errors="surrogatepass")).hexdigest()[:32]

    def _conversation(self) -> tuple[list[Any] | None, list[list[Any]]]:
        """Return the shared messages, and the two endings if there are any.

        The messages are None if the record has no conversation.
        """
        data = self.data
        held = (*map(data.get, _LISTS), value_at(data, _INPUT, "messages"))
        begin = next((each for each in held if isinstance(each, list)), None)
        for pair in _ENDINGS:
            if all(isinstance(data.get(name), list | dict) for name in pair):
                endings = [as_listed(data[name]) for name in pair]
                if begin is None:
                    at = common_length(*endings)
                    return endings[0][:at], [each[at:] for each in endings]
                return begin, endings
        return begin, []

    def _system(self) -> tuple[str | None, str | None]:
        """Return the system prompt beside the messages, and its field; None for none."""
        for name in _SYSTEMS:
            held = self.data.get(name)
            blocks = held.get("parts") if isinstance(held, dict) else held
            if isinstance(blocks, list):
                plain = [each["text"] if isinstance(each, dict) and _is_text(each) else each for each in blocks]
                held = "\n".join(plain) if all(isinstance(text, str) for text in plain) else None
            if as_text(held):
                return held, name
        return None, None

    def _meta(self, system: str | None) -> dict[str, Any]:
        """Return a record's other fields; `tools` becomes a list."""
        left = leftover(self.data, {*_HOLDERS, system or ""})
        if isinstance(held := left.get(_INPUT), dict):
            left[_INPUT] = without_keys(held, "messages")
        if isinstance(tools := left.get("tools"), str) and isinstance(found := json_files.parse_json(tools), list):
            left["tools"] = found
        return without_empty(left)

    # --- messages

    def turns(self, messages: Sequence[Any], scope: str, start: int) -> list[SourceTurn]:
        """Return the turns of messages, named by `scope` and their places."""
        placed = list(enumerate(messages, start=start))
        found = ((n, each, turn) for n, each in placed for turn in self._of_message(each, f"{scope}{n}"))
        return [turn for n, each, turn in found if self.reading.keeps(turn, self.line, f"message {n}", each)]

    def _of_message(self, message: object, name: str) -> Iterator[SourceTurn]:
        """Yield the turns of a message: several if it holds calls with results."""
        if not isinstance(message, dict) or _role(message) is None:
            keys = ", ".join(map(repr, list(as_object(message))[:5]))
            reason = f"message {name} has no role{keys and f'; it has {keys}'}"
            self.reading.refuse(self.line, reason, message)
            return
        if message_shapes.is_item(message):
            yield self._of_item(message, name)
            return
        for number, each in enumerate(message_shapes.chat(message)):
            yield self._turn(each, f"{name}/{number}" if number else name)

    def _of_item(self, item: Json, name: str) -> SourceTurn:
        """Return the turn of an item of OpenAI's Responses API."""
        role, content = _role(item) or "assistant", item.get("content")
        self.reading.count(item["type"])
        self.waiting |= {call.id: call.name for call in calls_in([item])}
        if item["type"] != "message" or not isinstance(content, str | list):
            return SourceTurn(role, (Piece(name, (item,)),))
        return SourceTurn(role, (Piece(name, as_content(content)),), meta=leftover(item, ("role", "content")))

    def _turn(self, message: Json, name: str) -> SourceTurn:
        said = message["role"]
        self.reading.count(said)
        content, calls = message.get("content"), list[Json]()
        if said == "function_call":
            calls, content = self._named(content)
        elif isinstance(content, list):
            content, calls = self._parts(content)
        asked = calls_in(as_list(content))
        calls += self._given(message, {call.id for call in asked})
        if refusal := message.get("refusal"):
            said_before = [{"type": "text", "text": content}] if as_text(content) else as_list(content)
            content = [*said_before, {"type": "refusal", "refusal": refusal}]
        if (calls or asked) and self.has_answered:
            self.waiting, self.has_answered = {}, False
        self.waiting |= {call.id: call.name for call in asked}
        self.waiting |= {str(call["id"]): _name_of(call) for call in calls}
        role = self._role_of(said, content)
        content, answered = self._answered(message, role, content)
        spoken = message if role == "assistant" else {}
        told: dict[str, Any] = {key: valid_name(spoken.get(key)) for key in ("model", "stop_reason")}
        told["usage"] = as_object(spoken.get("usage")) or None
        meta = leftover(message, {*_MESSAGE_OWN, *json_files.without_null(told)})
        if message.get("content") == "" and (calls or refusal):  # where others have null, which is the same turn
            meta["content"] = ""
        if beside := without_empty({str(call["id"]): _beside(call) for call in calls}):
            meta["tool_calls"] = beside
        if role != said and validation.standard_role(said) is None:
            meta["role"] = said
        return SourceTurn(
            role=role,
            pieces=(Piece(name, as_content(content)),),
            time=next((time for key in _TIMES if (time := parse_time(message.get(key))) is not None), None),
            tool_calls=tuple(calls),
            tool_call_id=answered,
            is_error=answered is not None and message.get("is_error") is True,
            meta=meta,
            **told,
        )

    def _role_of(self, said: str, content: object) -> str:
        """Return a turn's standard role, or the source's own with a note."""
        role = validation.standard_role(said)
        if role is None and said in self.own_roles:
            role = said
        elif role is None:
            role = "_".join(said.split())[:64]
            self.odd[f"message(s) have the role {role!r}, which is not known; it is kept"] += 1
        if role == "user" and isinstance(content, list) and content and len(results_in(content)) == len(content):
            return "tool"
        return role

    def _given(self, message: Json, told: set[str]) -> list[Json]:
        """Return a message's calls that are not among its parts, with ids."""
        calls: list[Json] = []
        for call in as_list(message.get("tool_calls")):
            if not isinstance(call, dict):
                self.reading.refuse(self.line, "has a tool call that cannot be read", call)
            elif (identity := valid_name(call.get("id"))) is None or identity not in told:
                named = call if identity else {**call, "id": self._new_id()}
                if isinstance(custom := named.get(_CUSTOM), dict):
                    named = {**named, "name": custom.get("name"), "arguments": custom.get("input")}
                calls.append(named)
        if isinstance(old := message.get("function_call"), dict):
            calls.append({**old, "id": self._new_id()})
        return calls

    def _named(self, content: object) -> tuple[list[Json], object]:
        """Return the calls in a JSON text, or the whole text if there are none."""
        found: Any = json_files.parse_json(content) if isinstance(content, str) else content
        listed = as_listed(found)
        if not listed or not all(isinstance(each, dict) and valid_name(each.get("name")) for each in listed):
            self.odd["call(s) are told as a text that names no tool; the text is kept"] += 1
            return [], content
        return [{"id": self._new_id(), "name": each["name"], "arguments": each.get("arguments")} for each in listed], ""

    def _parts(self, parts: Sequence[Any]) -> tuple[list[Any] | str, list[Json]]:
        """Return parts in the usual shape, and the calls among them."""
        kept: list[Any] = []
        calls: list[Json] = []
        for part in parts:
            value, kind = as_object(part).get("value"), as_object(part).get("type")
            if kind == "tool_call" and value is not None:
                found, left = self._named(value)
                calls += found
                kept += [part] if left else []
            elif kind in ("text", "reasoning") and isinstance(value, str) and "text" not in part:
                kept.append({"type": kind, "text": value} | without_keys(part, "type", "value"))
            else:
                kept.append(part)
        only = as_object(kept[0]) if len(kept) == 1 else {}
        return (str(only["text"]) if only.keys() == {"type", "text"} and only["type"] == "text" else kept), calls

    def _answered(self, message: Json, role: str, content: object) -> tuple[object, str | None]:
        """Return content, and the call that it answers: by id, or the first open one."""
        parts = as_list(content)
        for each in results_in(parts):
            self.waiting.pop(each.call_id, None)
            self.has_answered = True
        if role != "tool" or results_in(parts):
            return content, None
        self.has_answered = True
        named = valid_name(message.get("tool_call_id"))
        if named is None:
            same = [call for call, tool in self.waiting.items() if tool is not None and tool == message.get("name")]
            named = next(iter(same or self.waiting), None)
        if named is not None:
            self.waiting.pop(named, None)
        if len(parts) == 1 and as_object(parts[0]).get("type") == "tool_call_response":
            return [{**parts[0], "id": named}], None
        return content, named

    def _new_id(self) -> str:
        self.calls += 1
        return f"call-{self.calls}"


def _beside(call: Json) -> Json:
    """Return a call's other fields, and arguments that are a JSON string."""
    more = {key[:100]: value for key, value in without_keys(call, *_CALL_OWN).items()}
    if _CUSTOM in call:
        more["type"] = _CUSTOM
    given = as_object(call.get("function")).get("arguments")
    is_text = isinstance(given, str) and given.startswith('"') and isinstance(json_files.parse_json(given), str)
    return more | ({"arguments": given} if is_text else {})


def _role(message: Json) -> str | None:
    """Return the role of a message in any known shape; None if it has none."""
    if message_shapes.is_item(message):
        kind, held = message["type"], message.get("role")
        if kind == "message":
            return (validation.standard_role(held) or held) if isinstance(held, str) else "assistant"
        return "tool" if kind.endswith("_output") else "assistant"
    said = message.get("role", message.get("from"))
    said = said if isinstance(said, str) else message_shapes.chat(message)[0].get("role")
    return (validation.standard_role(said) or said) if isinstance(said, str) and said.strip() else None


def _is_text(block: Json) -> bool:
    return "text" in block and block.keys() <= {"type", "text"}


def _name_of(call: Json) -> str | None:
    function = call.get("function")
    return valid_name((function if isinstance(function, dict) else call).get("name"))
