"""Codex's rollout files: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, a thread each.

A line has a time, a type and a payload; files of before September 2025 have the payloads alone, and those of before June 2025
(`rollout-<date>-<thread>.json`) are one object with the session and its items, written anew with each save. A response
item makes a turn, as it stands: messages, reasoning, calls, their outputs. Visible text stands in a file twice, as a response
item and as an event; it becomes one turn. An event whose item is missing makes the turn itself. `codex_items.py` has the
details.

Rules of the format that are followed, and noted where they matter: a forked file begins with its own header and repeats its
parent's lines with the parent's header, and the first header counts; a rollback (`thread_rolled_back`) takes back the user's
last turns, so what comes after it is a fork; the last `turn_context` before a turn names its model; a `token_count` is of
the model's last turn before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trails.transcripts import checked, jsonl, outline
from trails.transcripts.checked import Reading
from trails.transcripts.codex.items import ITEMS, Thread
from trails.transcripts.source import SourceSession, Transcript, files_at

SOURCE: Final = "codex"

_TYPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_BARE: Final = re.compile(rb'\{\s*"id"\s*:\s*"[^"]*"\s*,\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"(?:instructions|git)"\s*:')
_WHOLE: Final = re.compile(rb'\{\s*"session"\s*:\s*\{\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"id"\s*:\s*"')
_NAMED: Final = re.compile(r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl?", re.DOTALL)
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
    """Return the file itself, or all rollouts in a folder and below; raise `InvalidInput` where there is neither."""
    return files_at(path, "*.jsonl", "rollout-*.json")


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what rollouts (name and bytes of each) say; nothing that they hold raises.

    A thread that was forked repeats its parent's turns: what is equal to a parent that is here or in the store is shared.
    """
    return checked.together(
        [
            (name, _Rollout(name).read_whole(data) if _is_whole(data) else _Rollout(name).read(data))
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

    def read(self, data: bytes) -> Reading:
        lines, problems = jsonl.read_lines(data)
        self._reading.problems += problems
        self._reading.notes += jsonl.shared_lines(lines)
        unknown: dict[str, int] = {}
        for number, line in lines:
            kind, payload = _unwrapped(line, first=not self._headers)
            inner = payload.get("type") if payload is not None else None
            self._reading.count(f"{kind}/{inner}" if isinstance(inner, str) else kind)
            if payload is None:
                self._reading.refuse(number, "is no line of a rollout: it has no type, or no payload", line)
            elif kind == "session_meta":
                self._headers.append((number, payload))
            elif kind in _TYPES:
                self._thread.add(number, kind, payload, checked.text_time(line.get("timestamp")))
            elif kind != "record_type":
                unknown[kind] = unknown.get(kind, 0) + 1
        self._reading.notes += [
            f"{n} record(s) of the unknown type {kind[:80]!r} made no turn" for kind, n in unknown.items()
        ]
        self._finish(by_lines=True)
        self._reading.problems.sort(key=lambda problem: problem.line)
        return self._reading

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
        spawn = _spawn(header)
        line = self._headers[0][0] if self._headers else 0
        self._reading.sessions.append(
            SourceSession(
                source=SOURCE,
                id=thread_id,
                paths=paths,
                title=self._thread.title,
                created=checked.text_time(header.get("timestamp")),
                agent=checked.name(spawn.get("agent_role")) or SOURCE,
                system=_base_instructions(header),
                meta=self._reading.meta(line, self._meta(header)),
                spawned_by=_text(spawn.get("parent_thread_id")),
                copied_from=self._parent(thread_id, header, spawn),
                open_turns=self._thread.open_turns() if by_lines else 0,
                open_in=self._name,
            )
        )

    def _meta(self, header: _Json) -> dict[str, Any]:
        """Return what the header says, without the user's instructions where the thread tells them as a message too."""
        meta = {key: value for key, value in header.items() if key not in _HEADER_OWN and value is not None}
        told = _text(meta.get("instructions"))
        if told is not None and self._thread.says(told):
            del meta["instructions"]
        return meta

    def _thread_id(self, header: _Json) -> str | None:
        if (found := _text(header.get("id"))) is not None:
            return found
        named = _NAMED.fullmatch(re.split(r"[/\\]", self._name)[-1])
        if named is None:
            return None
        self._reading.notes.append(f"has no header with an id; the thread's id {named[1]} is from the file's name")
        return named[1]

    def _parent(self, thread_id: str, header: _Json, spawn: _Json) -> str | None:
        """Return the thread whose turns this one repeats: the one it was forked from, by its header or a repeated one."""
        if (forked := _text(header.get("forked_from_id"))) is not None:
            return forked
        if spawn.get("forked_from_id") is not None:
            return _text(spawn.get("parent_thread_id"))
        others = (found for _, later in self._headers[1:] if (found := _text(later.get("id"))) not in (None, thread_id))
        return next(others, None)


def _unwrapped(line: _Json, *, first: bool) -> tuple[str, _Json | None]:
    """Return a line's type and payload; those of a bare line too, and no payload where it is neither."""
    kind, payload = line.get("type"), line.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        return kind, payload
    if kind is None and "payload" not in line:
        if first and _text(line.get("id")) and "timestamp" in line:
            return "session_meta", line
        if isinstance(line.get("record_type"), str):
            return "record_type", {"type": line["record_type"]}
    if isinstance(kind, str) and kind in ITEMS and "payload" not in line:
        return "response_item", {key: value for key, value in line.items() if key != "timestamp"}
    return str(kind), None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _spawn(header: _Json) -> _Json:
    """Return what a header says of how its thread was spawned, empty for a thread of its own."""
    source = header.get("source")
    subagent = source.get("subagent") if isinstance(source, dict) else None
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    return spawn if isinstance(spawn, dict) else {}


def _base_instructions(header: _Json) -> str | None:
    found = header.get("base_instructions")
    return _text(found.get("text") if isinstance(found, dict) else found)
