"""Import Codex's rollouts, `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, a thread each.

A line has a time, a type and a payload; files of before September 2025 have the payloads alone, and those of before June 2025
(`rollout-<date>-<thread>.json`) are one object with the session and its items, written anew with each save. A response
item makes a turn, as it stands: messages, reasoning, calls, their outputs. Visible text stands in a file twice, as a response
item and as an event; it becomes one turn. An event whose item is missing makes the turn itself. `codex_items` has
the details.

Rules of the format that are followed, and noted where they matter: a forked file begins with its own header and repeats its
parent's lines with the parent's header, and the first header counts; a rollback (`thread_rolled_back`) takes back the user's
last turns, so what comes after it is a fork; a reverted thread goes on in a file of its own from a line of the one before it
(`history_base`), and what the earlier file has beyond that line is a fork; an agent that was spawned, a guardian or a review
names who spawned it, and may begin with that thread's lines, which are no turns of its own; the last `turn_context` before a
turn names its model; a `token_count` is of the model's last turn before it.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from trails.exchange import format_detection, json_files
from trails.exchange.coding_agents.codex_items import ITEMS, Thread
from trails.exchange.json_files import Json, as_object, as_text, value_at, without_keys, without_null
from trails.exchange.record_checks import Reading, combine_files
from trails.exchange.source_transcript import SourceSession, SourceTurn, Transcript, group_files
from trails.exchange.source_values import parse_time, valid_name
from trails.model.values import Turn

SOURCE: Final = "codex"
_AGENT_THREADS: Final = {"subagent", "review", "guardian", "guardian_review"}
"""The sources of threads that another thread spawned."""

_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
ROLLOUT_NAME: Final = re.compile(rf"rollout-.*?({_UUID})(?:_(.+?))?\.jsonl?(?:\.zst)?", re.DOTALL)
"""A file's name: the thread's id, and that of the file where a reverted thread goes on in it."""
_TYPES: Final = {
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "inter_agent_communication",
    "inter_agent_communication_metadata", "token_usage_record", "world_state", "retained_context",
    "security_risk_score", "realtime_item",
}  # fmt: skip
_BARE: Final = re.compile(rb'\{\s*"id"\s*:\s*"[^"]*"\s*,\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"(?:instructions|git)"\s*:')
_WHOLE: Final = re.compile(rb'\{\s*"session"\s*:\s*\{\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"id"\s*:\s*"')
_HEADER_OWN: Final = frozenset({"id", "timestamp", "base_instructions"})


def header_spawn(header: Json) -> Json:
    """Return what a header says of how its thread was spawned, empty for a thread of its own."""
    return as_object(value_at(_subagent(header), "thread_spawn"))


def _subagent(header: Json) -> object:
    source = as_object(header.get("source"))
    return source.get("subagent", source.get("subAgent"))


def header_spawner(header: Json) -> str | None:
    """Return the thread that spawned this one, as an agent, a guardian or a review; None for a thread of its own."""
    root, own = as_text(header.get("session_id")), as_text(header.get("id"))
    is_agent = _subagent(header) is not None or str(header.get("thread_source")) in _AGENT_THREADS
    named = (header_spawn(header).get("parent_thread_id"), header.get("parent_thread_id"))
    others = (header.get("forked_from_id"), root if root != own else None) if is_agent else ()
    return next((found for each in (*named, *others) if (found := as_text(each)) not in (None, own)), None)


def header_agent(header: Json, spawn: Json) -> str:
    """Return the name of the agent of a thread: its role, or what it was spawned to be."""
    subagent = _subagent(header)
    other = subagent.get("other") if isinstance(subagent, dict) else subagent
    roles = (spawn.get("agent_role"), spawn.get("agent_type"), header.get("agent_role"), other)
    return next((name for each in roles if (name := valid_name(each)) is not None), SOURCE)


def is_replay(header: Json, payload: Json, line: Json, time: datetime | None) -> bool:
    """Tell whether a line of a thread that was spawned is one of the thread that spawned it, told again."""
    if header_spawner(header) is None:
        return False
    start, ordinal = header.get("subagent_history_start_ordinal"), line.get("ordinal")
    if isinstance(start, int) and isinstance(ordinal, int):
        return ordinal < start
    created = parse_time(header.get("timestamp"))
    turn = payload.get("turn_id") or value_at(payload, "internal_chat_message_metadata_passthrough", "turn_id")
    began, own = _uuid_time(turn), _uuid_time(header.get("id"))
    return (
        value_at(line, "metadata", "inherited_user_message") is True
        or (began is not None and own is not None and began < own)  # also if each line has the time of its copy
        or (time is not None and created is not None and time < created)
    )


def _uuid_time(identity: object) -> int | None:
    """Return when an id was made, in milliseconds since 1970: UUIDs of version 7 begin with it. None for any other id."""
    named = re.fullmatch(r"([0-9a-f]{8})-([0-9a-f]{4})-7.{3}-.{4}-.{12}", as_text(identity) or "")
    return int(named[1] + named[2], 16) if named else None


def _ids_in_name(name: str) -> tuple[str | None, str | None]:
    """Return the id of the thread that a file's name has, and the one of the file if a reverted thread goes on in it."""
    named = ROLLOUT_NAME.fullmatch(re.split(r"[/\\]", name)[-1])
    return (named[1], named[2]) if named else (None, None)


CHANGING: Final = (b'"thread_rolled_back"', b'"session_meta"')
"""Words of records that change what came before them: the end of a file that has one does not tell enough."""


def begins_part(record: Json, before: Json | None) -> bool:
    """Tell whether the end of a rollout can be read from a record on: the context of a turn, which names its model."""
    return before is not None and record.get("type") == "turn_context" and isinstance(record.get("payload"), dict)


def session_of(_: Json, path: Path) -> str | None:
    """Return the thread of a rollout by its name; None if a reverted thread goes on in it."""
    thread, continued = _ids_in_name(path.name)
    return None if continued else thread


def before_part(record: Json, thread: str, _: Mapping[str, Any]) -> Json:
    """Return a header to read in the place of all before a record."""
    return {"timestamp": record.get("timestamp"), "type": "session_meta", "payload": {"id": thread}}


def align_part(path: Sequence[SourceTurn], stored: Sequence[Turn]) -> list[SourceTurn] | None:
    """Return turns of a part with the ids that they have in the whole rollout; None if the stored turns do not say them.

    An id is a turn's place. The stored turns end with those that the part begins with, told by their roles and times.
    """
    for shared in range(min(len(path), len(stored)), 0, -1):
        same = stored[-shared:]
        if all(turn.role == each.role and turn.time == each.time for turn, each in zip(same, path, strict=False)):
            _, _, generation = same[-1].source_ids[0].partition("~")
            behind = f"~{generation}" if generation else ""
            new = [f"item-{same[0].index + at}{behind}" for at in range(shared, len(path))]
            ids = [*(turn.source_ids[0] for turn in same), *new]
            return [
                replace(turn, pieces=(replace(turn.pieces[0], source_id=each),))
                for turn, each in zip(path, ids, strict=True)
            ]
    return None


def groups(files: Sequence[Path]) -> Iterable[Sequence[Path]]:
    """Return the files that are read together: those of a folder, and of a thread that goes on in several files."""
    ids = {file: _ids_in_name(file.name) for file in files}
    reverted = {thread for thread, continued in ids.values() if continued}
    return group_files(files, lambda file: ids[file][0] or "" if ids[file][0] in reverted else file.parent)


class RolloutLines:
    """The lines of a rollout, with their numbers."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.lines, self.problems = json_files.read_lines(data)
        found = (unwrap_line(line, first=True) for _, line in self.lines)
        self.header = next((payload for kind, payload in found if kind == "session_meta" and payload is not None), {})
        """The first header."""
        thread, file = _ids_in_name(name)
        self.thread = as_text(self.header.get("id"))
        self.id = file or self.thread or thread
        """The id of the file: the thread's, or one of its own if a reverted thread goes on in it."""
        base = as_object(self.header.get("history_base"))
        earlier, end = as_text(base.get("thread_id")), base.get("end_ordinal_exclusive")
        self.base = (earlier, end) if earlier is not None and isinstance(end, int) else None
        """The id of the file that this one goes on from, and the ordinal of the first line there that it leaves out."""


class RolloutChains:
    """The order in which some files go on from each other."""

    def __init__(self, files: Iterable[RolloutLines]) -> None:
        self._files = {file.id: file for file in files}

    def is_left(self, file: RolloutLines) -> bool:
        """Tell whether the thread of a file goes on in another one, which tells the whole thread."""
        later = (each for each in self._files.values() if each.base and each.base[0] == file.id != each.id)
        return any(each.thread == file.thread for each in later)

    def before(self, file: RolloutLines) -> list[tuple[RolloutLines, int]]:
        """Return the files that a file goes on from, the first one first, each with the ordinal that it is left at."""
        found: list[tuple[RolloutLines, int]] = []
        while file.base is not None and (earlier := self._files.get(file.base[0])) is not None:
            if earlier is file or any(earlier is each for each, _ in found):
                break
            found.insert(0, (earlier, file.base[1]))
            file = earlier
        return found


def unwrap_line(line: Json, *, first: bool) -> tuple[str, Json | None]:
    """Return a line's type and payload; those of a bare line too, and no payload where it is neither."""
    kind, payload = line.get("type"), line.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        return kind, payload
    if kind is None and "payload" not in line:
        if first and as_text(line.get("id")) and "timestamp" in line:
            return "session_meta", line
        if isinstance(line.get("record_type"), str):
            return "record_type", {"type": line["record_type"]}
    if isinstance(kind, str) and kind in ITEMS and "payload" not in line:
        return "response_item", without_keys(line, "timestamp")
    return str(kind), None


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is a rollout of Codex; the last line may be cut.

    >>> sniff(b'{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{"id":"t"'), sniff(b'{"type":"user"}')
    (True, False)
    """
    if any(each.get("type") in _TYPES and "payload" in each for each in format_detection.outline_of_lines(head)):
        return True
    return any(sign.match(head.removeprefix(BOM_UTF8).lstrip()) for sign in (_BARE, _WHOLE))


def _is_whole(data: bytes) -> bool:
    """Tell whether a file is one object, as the first versions of Codex wrote it."""
    return _WHOLE.match(data.removeprefix(BOM_UTF8).lstrip()) is not None


def companions(path: Path) -> list[Path]:
    """Return a file, with the other files of its thread, in all days' folders, if that goes on in several."""
    thread, continued = _ids_in_name(path.name)
    if continued is None:
        return [path]
    is_dated = all(folder.name.isdigit() for folder in path.absolute().parents[:3])
    root = path.absolute().parents[3] if is_dated else path.parent
    return [path, *sorted(each for each in root.rglob(f"rollout-*{thread}*.jsonl*") if not each.samefile(path))]


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what rollouts (name and bytes of each) say; nothing that they hold raises.

    A thread that was forked repeats its parent's turns: what is equal to a parent that is here or in the store is shared.
    """
    read = {name: RolloutLines(name, data) for name, data in files if not _is_whole(data)}
    chains = RolloutChains(read.values())
    return combine_files(
        (name, _Rollout(name).read(read[name], chains) if name in read else _Rollout(name).read_whole(data))
        for name, data in files
    )


class _Rollout:
    """One rollout on its way to a session."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reading = Reading()
        self._thread = Thread(self._reading)
        self._headers: list[tuple[int, Json]] = []

    def read(self, file: RolloutLines, chains: RolloutChains) -> Reading:
        self._reading.problems += file.problems
        self._reading.notes += json_files.shared_line_notes(file.lines)
        self._feed_earlier(file, chains.before(file))
        unknown: Counter[str] = Counter()
        for number, line in file.lines:
            kind, payload = unwrap_line(line, first=not self._headers)
            inner = payload.get("type") if payload is not None else None
            self._reading.count(f"{kind}/{inner}" if isinstance(inner, str) else kind)
            if payload is None:
                self._reading.refuse(number, "is no line of a rollout: it has no type, or no payload", line)
            elif kind == "session_meta":
                self._headers.append((number, payload))
            elif kind != "record_type":
                self._add(number, kind, payload, line)
                unknown.update([kind] if kind not in _TYPES else [])
        self._reading.notes += [
            f"{n} record(s) of the unknown type {kind[:80]!r} made no turn; their texts are kept as metadata"
            for kind, n in unknown.items()
        ]
        self._finish(by_lines=True)
        if chains.is_left(file):
            self._reading.sessions.clear()
            self._reading.notes.append("its thread was reverted, and goes on in another file, which is read with it")
        self._reading.problems.sort(key=lambda problem: problem.line)
        return self._reading

    def _feed_earlier(self, file: RolloutLines, earlier: Sequence[tuple[RolloutLines, int]]) -> None:
        """Take the lines of the files that a file goes on from; where the thread was reverted, the rest of them is left."""
        if file.base is not None and not earlier:
            place = f"line {file.base[1]} of the rollout {file.base[0][:80]!r}"
            self._reading.notes.append(f"goes on from {place}, which was not read with it")
        self._thread.reading = Reading()  # what is wrong in them is said with them
        for each, end in earlier:
            is_fork = each.thread != file.thread
            cut: int | None = None
            for number, line in each.lines:
                kind, payload = unwrap_line(line, first=False)
                ordinal = line.get("ordinal")
                if cut is None and isinstance(ordinal, int) and ordinal >= end:
                    cut = len(self._thread)
                    if is_fork:
                        break
                self._thread.timestamp = as_text(line.get("timestamp"))
                if payload is not None and kind not in ("session_meta", "record_type"):
                    self._thread.add(number, kind, payload, parse_time(line.get("timestamp")))
            if cut is not None and cut < len(self._thread):
                self._thread.return_to(cut)
        self._thread.reading = self._reading

    def _add(self, number: int, kind: str, payload: Json, line: Json) -> None:
        time = parse_time(line.get("timestamp"))
        self._thread.timestamp = as_text(line.get("timestamp"))
        if metadata := as_object(line.get("metadata")):
            self._thread.add(number, "metadata", metadata, time)
        self._thread.add(number, kind, payload, time)
        if self._headers and is_replay(self._headers[0][1], payload, line, time):
            self._thread.replayed = len(self._thread)

    def read_whole(self, data: bytes) -> Reading:
        """Read a file that is one object: a session, whose time is that of the last save, and items without times."""
        values, problems = json_files.read_values(data)
        self._reading.problems += problems
        for number, value in values:
            header, items = value.get("session"), value.get("items")
            if not isinstance(header, dict) or not isinstance(items, list):
                self._reading.refuse(number, "is no rollout: it has no session, or no items", value)
                continue
            self._headers.append((number, header))
            for each in items:
                is_item = isinstance(each, dict)
                self._reading.count(f"response_item/{each.get('type') if is_item else '?'}")
                if is_item:
                    self._thread.add(number, "response_item", each, None)
                else:
                    self._reading.refuse(number, "has an item that is no object", each)
        self._finish(by_lines=False)
        return self._reading

    def _finish(self, *, by_lines: bool) -> None:
        paths = self._thread.paths()
        header = self._headers[0][1] if self._headers else {}
        thread_id = self._thread_id(header)
        if thread_id is None:
            reason = "is no rollout of Codex: neither a header nor its name says its thread's id"
            self._reading.refuse(0, reason, self._name)
            return
        if not any(paths):
            self._reading.notes.append(f"thread {thread_id} has no message: nothing to keep")
            return
        for number, later in self._headers[1:]:
            what = f"is a second header (thread {str(later.get('id'))[:80]}), as forked files have; the first counts"
            self._reading.notes.append(f"line {number} {what}")
        spawn, spawner = header_spawn(header), header_spawner(header)
        instructions = header.get("base_instructions")
        system = as_text(instructions.get("text") if isinstance(instructions, dict) else instructions)
        parent, replayed = self._parent(thread_id, header, spawn), self._thread.replayed
        line, meta = self._headers[0][0] if self._headers else 0, self._meta(header)
        about: dict[str, Any] = {"title": self._thread.title, "created": parse_time(header.get("timestamp"))}
        about |= {"agent": header_agent(header, spawn), "system": system, "spawned_by": spawner}
        about |= {"copied_from": parent or spawner, "is_surely_copied": parent is not None or replayed > 0}
        about |= {"repeats": replayed if spawner is not None else 0, "open_in": self._name}
        about |= {"open_turns": self._thread.open_turns() if by_lines else 0}
        self._reading.sessions.append(
            SourceSession(SOURCE, thread_id, paths, meta=self._reading.meta(line, meta), **about)
        )

    def _meta(self, header: Json) -> dict[str, Any]:
        """Return what the header says, without the user's instructions where the thread tells them as a message too."""
        meta = without_null(without_keys(header, *_HEADER_OWN))
        told = as_text(meta.get("instructions"))
        if told is not None and self._thread.says(told):
            del meta["instructions"]
        if after := self._thread.events_after():
            meta["eventsAfter"] = after
        return meta

    def _thread_id(self, header: Json) -> str | None:
        if (found := as_text(header.get("id"))) is not None:
            return found
        if (thread := _ids_in_name(self._name)[0]) is not None:
            self._reading.notes.append(f"has no header with an id; the thread's id {thread} is from the file's name")
        return thread

    def _parent(self, thread_id: str, header: Json, spawn: Json) -> str | None:
        """Return the thread whose turns this one says to repeat: which it was forked from, by its header or a repeated one."""
        forked = as_text(header.get("forked_from_id"))
        based = as_text(value_at(header, "history_base", "thread_id"))
        if based not in (None, thread_id):
            return forked or header_spawner(header) or based
        if forked is None and spawn.get("forked_from_id") is not None:
            return as_text(spawn.get("parent_thread_id"))
        others = (as_text(later.get("id")) for _, later in self._headers[1:])
        return forked or next((each for each in others if each not in (None, thread_id)), None)
