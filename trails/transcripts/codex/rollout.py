"""Codex's rollout files: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, a thread each.

A line has a time, a type and a payload; files of before September 2025 have the payloads alone, and those of before June 2025
(`rollout-<date>-<thread>.json`) are one object with the session and its items, written anew with each save. A response
item makes a turn, as it stands: messages, reasoning, calls, their outputs. Visible text stands in a file twice, as a response
item and as an event; it becomes one turn. An event whose item is missing makes the turn itself. `items.py` has the
details.

Rules of the format that are followed, and noted where they matter: a forked file begins with its own header and repeats its
parent's lines with the parent's header, and the first header counts; a rollback (`thread_rolled_back`) takes back the user's
last turns, so what comes after it is a fork; a reverted thread goes on in a file of its own from a line of the one before it
(`history_base`), and what the earlier file has beyond that line is a fork; an agent that was spawned, a guardian or a review
names who spawned it, and may begin with that thread's lines, which are no turns of its own; the last `turn_context` before a
turn names its model; a `token_count` is of the model's last turn before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trails.transcripts import checked, jsonl, outline
from trails.transcripts.checked import Reading
from trails.transcripts.codex.files import NAMED, Chains, Lines, unwrapped
from trails.transcripts.codex.header import (
    SOURCE,
    agent_of,
    base_instructions,
    is_replay,
    spawn_of,
    spawner_of,
    text_of,
)
from trails.transcripts.codex.items import Thread
from trails.transcripts.source import SourceSession, Transcript, files_at

_TYPES: Final = frozenset(
    {
        *("session_meta", "response_item", "event_msg", "turn_context", "compacted"),
        *("inter_agent_communication", "inter_agent_communication_metadata", "token_usage_record", "world_state"),
        *("retained_context", "security_risk_score", "realtime_item"),
    }
)
_BARE: Final = re.compile(rb'\{\s*"id"\s*:\s*"[^"]*"\s*,\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"(?:instructions|git)"\s*:')
_WHOLE: Final = re.compile(rb'\{\s*"session"\s*:\s*\{\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"id"\s*:\s*"')
_HEADER_OWN: Final = frozenset({"id", "timestamp", "base_instructions"})

_Json = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is a rollout of Codex; the last line may be cut.

    >>> sniff(b'{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{"id":"t"'), sniff(b'{"type":"user"}')
    (True, False)
    """
    if any(each.get("type") in _TYPES and "payload" in each for each in outline.of_lines(head)):
        return True
    return bool(_BARE.match(head.removeprefix(b"\xef\xbb\xbf").lstrip())) or _is_whole(head)


def _is_whole(data: bytes) -> bool:
    """Tell whether a file is one object, as the first versions of Codex wrote it."""
    return _WHOLE.match(data.removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


def find_files(path: Path) -> list[Path]:
    """Return the file itself, or all rollouts in a folder and below; raise `InvalidInput` where there is neither.

    A file of a reverted thread brings the thread's other files, in all days' folders.
    """
    found = files_at(path, "*.jsonl", "*.jsonl.zst", "rollout-*.json")
    named = NAMED.fullmatch(path.name)
    if path.is_dir() or named is None or named[2] is None:
        return found
    is_dated = all(folder.name.isdigit() for folder in path.absolute().parents[:3])
    root = path.absolute().parents[3] if is_dated else path.parent
    return [path, *sorted(each for each in root.rglob(f"rollout-*{named[1]}*.jsonl*") if not each.samefile(path))]


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what rollouts (name and bytes of each) say; nothing that they hold raises.

    A thread that was forked repeats its parent's turns: what is equal to a parent that is here or in the store is shared.
    """
    read = {name: Lines.of(name, data) for name, data in files if not _is_whole(data)}
    chains = Chains(read)
    return checked.together(
        [
            (name, _Rollout(name).read(read[name], chains) if name in read else _Rollout(name).read_whole(data))
            for name, data in files
        ]
    )


class _Rollout:
    """One rollout on its way to a session."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reading = Reading()
        self._thread = Thread(self._reading)
        self._headers: list[tuple[int, _Json]] = []

    def read(self, file: Lines, chains: Chains) -> Reading:
        self._reading.problems += file.problems
        self._reading.notes += jsonl.shared_lines(file.lines)
        self._feed_earlier(file, chains.before(file))
        unknown: dict[str, int] = {}
        for number, line in file.lines:
            kind, payload = unwrapped(line, first=not self._headers)
            inner = payload.get("type") if payload is not None else None
            self._reading.count(f"{kind}/{inner}" if isinstance(inner, str) else kind)
            if payload is None:
                self._reading.refuse(number, "is no line of a rollout: it has no type, or no payload", line)
            elif kind == "session_meta":
                self._headers.append((number, payload))
            elif kind != "record_type":
                self._add(number, kind, payload, line)
                if kind not in _TYPES:
                    unknown[kind] = unknown.get(kind, 0) + 1
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

    def _feed_earlier(self, file: Lines, earlier: Sequence[tuple[Lines, int]]) -> None:
        """Take the lines of the files that a file goes on from; where the thread was reverted, the rest of them is left."""
        if file.base is not None and not earlier:
            self._reading.notes.append(
                f"goes on from line {file.base[1]} of the rollout {file.base[0][:80]!r}, which was not read with it"
            )
        self._thread.reading = Reading()  # what is wrong in them is said with them
        for each, end in earlier:
            is_fork = text_of(each.header.get("id")) != text_of(file.header.get("id"))
            cut: int | None = None
            for number, line in each.lines:
                kind, payload = unwrapped(line, first=False)
                ordinal = line.get("ordinal")
                if cut is None and isinstance(ordinal, int) and ordinal >= end:
                    cut = len(self._thread)
                    if is_fork:
                        break
                self._thread.timestamp = text_of(line.get("timestamp"))
                if payload is not None and kind not in ("session_meta", "record_type"):
                    self._thread.add(number, kind, payload, checked.text_time(line.get("timestamp")))
            if cut is not None and cut < len(self._thread):
                self._thread.return_to(cut)
        self._thread.reading = self._reading

    def _add(self, number: int, kind: str, payload: _Json, line: _Json) -> None:
        time = checked.text_time(line.get("timestamp"))
        metadata = line.get("metadata")
        self._thread.timestamp = text_of(line.get("timestamp"))
        if isinstance(metadata, dict) and metadata:
            self._thread.add(number, "metadata", metadata, time)
        self._thread.add(number, kind, payload, time)
        if self._headers and is_replay(self._headers[0][1], payload, line, time):
            self._thread.replayed = len(self._thread)

    def read_whole(self, data: bytes) -> Reading:
        """Read a file that is one object: a session, whose time is that of the last save, and items without times."""
        values, problems = jsonl.read_values(data)
        self._reading.problems += problems
        for number, value in values:
            header, items = value.get("session"), value.get("items")
            if not isinstance(header, dict) or not isinstance(items, list):
                self._reading.refuse(number, "is no rollout: it has no session, or no items", value)
                continue
            self._headers.append((number, header))
            for each in items:
                self._reading.count(f"response_item/{each.get('type') if isinstance(each, dict) else '?'}")
                if isinstance(each, dict):
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
            self._reading.refuse(
                0, "is no rollout of Codex: neither a header nor its name says its thread's id", self._name
            )
            return
        if not any(paths):
            self._reading.notes.append(f"thread {thread_id} has no message: nothing to keep")
            return
        for number, later in self._headers[1:]:
            what = f"thread {str(later.get('id'))[:80]}"
            self._reading.notes.append(
                f"line {number} is a second header ({what}), as forked files have; the first counts"
            )
        spawn, spawner = spawn_of(header), spawner_of(header)
        parent = self._parent(thread_id, header, spawn)
        line = self._headers[0][0] if self._headers else 0
        self._reading.sessions.append(
            SourceSession(
                source=SOURCE,
                id=thread_id,
                paths=paths,
                title=self._thread.title,
                created=checked.text_time(header.get("timestamp")),
                agent=agent_of(header, spawn),
                system=base_instructions(header),
                meta=self._reading.meta(line, self._meta(header)),
                spawned_by=spawner,
                copied_from=parent or spawner,
                is_surely_copied=parent is not None or self._thread.replayed > 0,
                repeats=self._thread.replayed if spawner is not None else 0,
                open_turns=self._thread.open_turns() if by_lines else 0,
                open_in=self._name,
            )
        )

    def _meta(self, header: _Json) -> dict[str, Any]:
        """Return what the header says, without the user's instructions where the thread tells them as a message too."""
        meta = {key: value for key, value in header.items() if key not in _HEADER_OWN and value is not None}
        told = text_of(meta.get("instructions"))
        if told is not None and self._thread.says(told):
            del meta["instructions"]
        if after := self._thread.events_after():
            meta["eventsAfter"] = after
        return meta

    def _thread_id(self, header: _Json) -> str | None:
        if (found := text_of(header.get("id"))) is not None:
            return found
        named = NAMED.fullmatch(re.split(r"[/\\]", self._name)[-1])
        if named is None:
            return None
        self._reading.notes.append(f"has no header with an id; the thread's id {named[1]} is from the file's name")
        return named[1]

    def _parent(self, thread_id: str, header: _Json, spawn: _Json) -> str | None:
        """Return the thread whose turns this one says to repeat: which it was forked from, by its header or a repeated one."""
        base = header.get("history_base")
        if isinstance(base, dict) and (based := text_of(base.get("thread_id"))) not in (None, thread_id):
            return text_of(header.get("forked_from_id")) or spawner_of(header) or based
        if (forked := text_of(header.get("forked_from_id"))) is not None:
            return forked
        if spawn.get("forked_from_id") is not None:
            return text_of(spawn.get("parent_thread_id"))
        others = (
            found for _, later in self._headers[1:] if (found := text_of(later.get("id"))) not in (None, thread_id)
        )
        return next(others, None)
