"""Gemini CLI's chats: `~/.gemini/tmp/<project>/chats/session-*.json`, rewritten whole on each save, or `.jsonl`.

==========================  ==============================  ===========================================================
message                     role                            content of the turn
==========================  ==============================  ===========================================================
user                        user                            its text or parts
gemini                      assistant                       its thoughts, its text or parts, its calls (`tool_use`)
results of a message        tool                            a `tool_result` for each call that has a result
info, warning, error        info, warning, error            its text or parts
==========================  ==============================  ===========================================================

A message of Gemini may get calls and results after it was saved first: each is a record of its own here, so what is new
in a grown file is added, and what was there stays. A result that is one text (`output`, or `error` of a call that failed)
stands as that text; any other as the file has it.

Rules that are followed, and noted where they decide something: in a `.jsonl` file a later line for a message counts in
place of the earlier one; what `$rewindTo` or a new list of messages (`$set`) takes back is kept as a fork.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trails.exchange import json_files, source_values
from trails.exchange.format_detection import outline_of_first
from trails.exchange.json_files import Json, as_list, as_listed, as_object, as_text, objects_in, value_at, without_keys
from trails.exchange.record_checks import Reading, combine_files
from trails.exchange.source_transcript import Piece, SourceTurn, Transcript, group_files
from trails.exchange.source_values import as_content, call_part, leftover, parse_time, valid_name, without_empty
from trails.usage import with_source

SOURCE: Final = "gemini-cli"
_ROLES: Final = {"user": "user", "gemini": "assistant", "info": "info", "warning": "warning", "error": "error"}
_GOING_ON: Final = ("validating", "scheduled", "awaiting_approval", "executing")
"""The states of a call that has no result yet."""
_MESSAGE_OWN: Final = frozenset({"id", "timestamp", "type", "content", "thoughts", "tokens", "model", "toolCalls"})
_CALL_OWN: Final = frozenset({"id", "name", "args", "result", "status", "timestamp"})
_SESSION_OWN: Final = frozenset({"sessionId", "startTime", "lastUpdated", "messages"})

_NEVER: Final = datetime.min.replace(tzinfo=UTC)

_Lines = dict[str, tuple[int, Json]]
"""Messages by id, each with its line."""


def sniff(head: bytes) -> bool:
    """Tell whether a file is a chat of Gemini CLI.

    >>> sniff(b'{"sessionId": "s", "projectHash": "p", "messages": ['), sniff(b'{"sessionId": "s", "uuid": "u"}')
    (True, False)
    """
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return begin.startswith(b"{") and outline_of_first(head).keys() >= {"sessionId", "projectHash"}


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what chats (name and bytes of each) say; nothing that they hold raises.

    Of several states of one chat the one saved last comes first (`lastUpdated`, else the time of its last message): what
    earlier ones hold beyond it, and it took back, is then what the merge keeps as forks, and nothing else.
    """
    found = combine_files([(name, _Chat(name).read(data)) for name, data in files])
    order: dict[str, int] = {}
    for session in found.sessions:
        order.setdefault(session.id, len(order))
    newest = sorted(found.sessions, key=lambda session: session.saved or _NEVER, reverse=True)
    return replace(found, sessions=tuple(sorted(newest, key=lambda session: order[session.id])))


def groups(files: Sequence[Path]) -> Iterable[Sequence[Path]]:
    """Return the files that are read together: all chats of a project."""
    return group_files(files, lambda file: file.parents[file.parent.parent.name == "chats"])


@dataclass(slots=True)
class _Chat:
    """One chat on its way to a session."""

    name: str
    reading: Reading = field(default_factory=Reading)
    head: dict[str, Any] = field(default_factory=dict)
    messages: _Lines = field(default_factory=dict)
    """The messages that count."""
    taken_back: list[_Lines] = field(default_factory=list)

    def read(self, data: bytes) -> Reading:
        values = self.reading.values(data)
        self.reading.notes += json_files.shared_line_notes(values)
        for line, value in values:
            self._record(line, value)
        if (own := as_text(self.head.get("sessionId"))) is None:
            self.reading.refuse(0, "is no chat of Gemini CLI: it says no sessionId", self.name)
            return self.reading
        paths = self._paths()
        # a sub-agent's chat stands in a folder that is named after its session
        spawner = re.split(r"[/\\]", self.name)[-2:][0] if self.head.get("kind") == "subagent" else None
        more = {"open_turns": self._open_turns(paths[0]), "open_in": self.name, "open_surely": True}
        more |= {"title": as_text(self.head.get("summary")), "created": parse_time(self.head.get("startTime"))}
        meta = leftover(self.head, _SESSION_OWN)
        self.reading.add_session(SOURCE, own, paths, meta, 1, spawned_by=spawner, saved=self._saved(), **more)
        return self.reading

    def _saved(self) -> datetime:
        times = (parse_time(message.get("timestamp")) for _, message in self.messages.values())
        told = parse_time(self.head.get("lastUpdated"))
        return told or max((time for time in times if time), default=_NEVER)

    # --- lines

    def _record(self, line: int, value: Json) -> None:
        if isinstance(value.get("$rewindTo"), str):
            self.reading.count("$rewindTo")
            self._rewind(line, value["$rewindTo"])
        elif isinstance(value.get("$set"), dict):
            self.reading.count("$set")
            self._set(line, value["$set"])
        elif "sessionId" in value and "type" not in value:
            self._set(line, value)
        else:
            self._message(line, value, self.messages, "the line")

    def _set(self, line: int, values: Json) -> None:
        self.head |= without_keys(values, "messages")
        if "messages" not in values:
            return
        found = values["messages"]
        if not isinstance(found, list):
            self.reading.refuse(line, "has messages that are no list", {"messages": found})
            return
        fresh: _Lines = {}
        for number, message in enumerate(found, start=1):
            _, earlier = fresh.get(as_text(value_at(message, "id")) or "", (0, message))
            if earlier != message:
                self.reading.refuse(line, f"message {number} has the id of an earlier one and takes its place", earlier)
            self._message(line, message, fresh, f"message {number}")
        if any(message_id not in fresh for message_id in self.messages):
            self._keep_branch(line, "the list of messages is replaced by one that leaves some out")
        self.messages = fresh

    def _message(self, line: int, message: object, into: _Lines, where: str) -> None:
        held = as_object(message)
        own, kind = as_text(held.get("id")), held.get("type")
        if own is None:
            self.reading.refuse(line, f"{where} is no message: it has no id", message)
        elif not isinstance(kind, str):
            self.reading.refuse(line, f"{where} ({own[:80]!r}) has no type", message)
        else:
            if own not in into:
                self.reading.count(kind)
            into[own] = (line, held)

    def _rewind(self, line: int, message_id: str) -> None:
        ids = list(self.messages)
        at = ids.index(message_id) if message_id in self.messages else 0
        if at < len(ids):
            self._keep_branch(line, f"goes back to before message {message_id!r}")
        self.messages = {each: self.messages[each] for each in ids[:at]}

    def _keep_branch(self, line: int, why: str) -> None:
        self.taken_back.append(dict(self.messages))
        self.reading.notes.append(f"line {line}: {why}; what is taken back is kept as a fork")

    # --- turns

    def _paths(self) -> tuple[tuple[SourceTurn, ...], ...]:
        made: dict[int, list[SourceTurn]] = {}
        states = (self.messages, *self.taken_back)
        told = [_ids_of("functionResponse", each.get("content")) for state in states for _, each in state.values()]
        paths: list[tuple[SourceTurn, ...]] = []
        for state in states:
            for line, message in state.values():
                if id(message) not in made:
                    made[id(message)] = list(self._turns(line, message, frozenset().union(*told)))
            path = tuple(turn for _, message in state.values() for turn in made[id(message)])
            if not any(other[: len(path)] == path for other in paths):
                paths.append(path)
        return tuple(paths)

    def _open_turns(self, path: Sequence[SourceTurn]) -> int:
        """Return the number of turns at the end that come from a running call."""
        _, last = next(reversed(self.messages.values()), (0, {}))
        if not any(call.get("status") in _GOING_ON for call in objects_in(last.get("toolCalls"))):
            return 0
        own = str(last["id"])
        return sum(any(each == own or each.startswith(f"{own}/") for each in turn.source_ids) for turn in path)

    def _turns(self, line: int, message: Json, answered: frozenset[str]) -> Iterator[SourceTurn]:
        kind, where = message["type"], f"message {message['id'][:80]!r}"
        for turn in (self._spoken(message), self._results(line, message, answered)):
            if turn.pieces and not self.reading.keeps(turn, line, where, message):
                return
            if turn.pieces:
                yield turn
        if kind not in _ROLES:
            self.reading.notes.append(f"{where} has the unknown type {kind[:80]!r}, kept as its role")

    def _spoken(self, message: Json) -> SourceTurn:
        kind, own, content = message["type"], message["id"], message.get("content")
        left = without_keys(message, *_MESSAGE_OWN)
        pieces = [Piece(own, _content(content, kind, left))]
        if kind == "gemini":
            if thoughts := objects_in(message.get("thoughts")):
                pieces.insert(0, Piece(f"{own}/thoughts", tuple({"type": "thought"} | each for each in thoughts)))
            elif message.get("thoughts"):
                left["thoughts"] = message["thoughts"]
            told, calls = _ids_of("functionCall", content), objects_in(message.get("toolCalls"))
            asked = {name: each for name, each in _usable(calls).items() if name not in told}
            parts = {name: call_part(name, each["name"], each.get("args", {})) for name, each in asked.items()}
            pieces += [Piece(f"{own}/call/{name}", (part,)) for name, part in parts.items()]
            left["toolCalls"] = [beside for each in calls if (beside := _beside(each))]
        tokens = message.get("tokens")
        if tokens is not None and not isinstance(tokens, dict):
            left["tokens"] = tokens
        return SourceTurn(
            role=_ROLES.get(kind, str(kind)),
            pieces=tuple(pieces),
            time=parse_time(message.get("timestamp")),
            model=valid_name(message.get("model")) if kind == "gemini" else None,
            usage=with_source(tokens, "gemini-cli") if isinstance(tokens, dict) and tokens else None,
            meta=without_empty(left),
        )

    def _results(self, line: int, message: Json, answered: frozenset[str]) -> SourceTurn:
        calls = as_list(message.get("toolCalls"))
        usable = _usable(objects_in(calls))
        if len(usable) < len(calls):
            reason = f"message {message['id'][:80]!r} has a tool call without an id of its own and a name"
            self.reading.refuse(line, reason, calls)
        given = {name: each for name, each in usable.items() if each.get("result") is not None and name not in answered}
        parts = ((name, _result(name, each)) for name, each in given.items())
        pieces = tuple(Piece(f"{message['id']}/result/{name}", (part,)) for name, part in parts)
        times = [time for each in usable.values() if (time := parse_time(each.get("timestamp")))]
        return SourceTurn("tool", pieces, time=max(times, default=None))


def _usable(calls: Sequence[Json]) -> dict[str, Json]:
    """Return the calls with a name and a unique id, by id."""
    found: dict[str, Json] = {}
    for call in calls:
        if (own := as_text(call.get("id"))) is not None and valid_name(call.get("name")) is not None:
            found.setdefault(own, call)
    return found


def _ids_of(kind: str, content: object) -> frozenset[str]:
    """Return the ids of calls or answers among a message's parts."""
    found = (part.get(kind) for part in objects_in(content))
    return frozenset(str(each.get("id")) for each in found if isinstance(each, dict))


def _content(content: object, kind: str, left: dict[str, Any]) -> str | tuple[Any, ...]:
    """Return a message's content.

    Gemini's is always in parts, so that it stays the same if calls are added.
    """
    if isinstance(content, str) and kind == "gemini":
        return ({"type": "text", "text": content},) if content else ()
    if isinstance(content, str | dict | list) and all(isinstance(part, str | dict) for part in as_listed(content)):
        return as_content(content)
    left["content"] = content
    return ""


def _has_failed(call: Json) -> bool:
    return call.get("status") in ("error", "cancelled")


def _result(name: str, call: Json) -> dict[str, Any]:
    return source_values.result_part(name, _output(call), failed=_has_failed(call))


def _output(call: Json) -> Any:
    """Return a result's text if it is all of it, else the result."""
    key = "error" if _has_failed(call) else "output"
    match call["result"]:
        case [{"functionResponse": {"id": call_id, "name": name, "response": {**response}} as answer} as part]:
            alone = (len(part), len(answer), list(response)) == (1, 3, [key])
            if alone and (call_id, name) == (call["id"], call["name"]) and isinstance(response[key], str):
                return response[key]
    return call["result"]


def _beside(call: Json) -> dict[str, Any]:
    """Return a call's fields other than its arguments and result."""
    said = leftover(call, _CALL_OWN) | ({"status": call.get("status")} if call.get("status") != "success" else {})
    return {"id": call.get("id")} | said if said else {}
