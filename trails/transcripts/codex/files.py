"""The files of Codex threads: their lines, the ids in their names, and which file goes on from which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trails.transcripts import jsonl
from trails.transcripts.codex.header import text_of
from trails.transcripts.codex.items import ITEMS
from trails.transcripts.source import Problem

_Json = Mapping[str, Any]
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NAMED: Final = re.compile(rf"rollout-.*?({_UUID})(?:_(.+?))?\.jsonl?(?:\.zst)?", re.DOTALL)
"""A file's name: the thread's id, and that of the file where a reverted thread goes on in it."""


def reverted_threads(names: Iterable[str]) -> set[str]:
    """Return the ids of the threads that go on in several files, by the files' names: those are read together."""
    found = (NAMED.fullmatch(name) for name in names)
    return {named[1] for named in found if named and named[2]}


def thread_in(name: str) -> str | None:
    """Return the id of the thread that a file's name tells; None where it tells none."""
    named = NAMED.fullmatch(name)
    return named[1] if named else None


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a rollout, with their numbers."""

    name: str
    lines: list[tuple[int, dict[str, Any]]]
    problems: list[Problem]

    @classmethod
    def of(cls, name: str, data: bytes) -> Lines:
        lines, problems = jsonl.read_lines(data)
        return cls(name, lines, problems)

    @property
    def header(self) -> _Json:
        """The first header."""
        found = (unwrapped(line, first=True) for _, line in self.lines)
        return next((payload for kind, payload in found if kind == "session_meta" and payload is not None), {})

    @property
    def id(self) -> str | None:
        """The id of the file: the thread's, or one of its own where a reverted thread goes on in it."""
        named = NAMED.fullmatch(re.split(r"[/\\]", self.name)[-1])
        return (named[2] if named else None) or text_of(self.header.get("id")) or (named[1] if named else None)

    @property
    def base(self) -> tuple[str, int] | None:
        """The id of the file that this one goes on from, and the ordinal of the first line there that it leaves out."""
        base = self.header.get("history_base")
        if not isinstance(base, dict):
            return None
        file, end = text_of(base.get("thread_id")), base.get("end_ordinal_exclusive")
        return (file, end) if file is not None and isinstance(end, int) else None


class Chains:
    """Which of some files goes on from which."""

    def __init__(self, files: Mapping[str, Lines]) -> None:
        self._files = {file.id: file for file in files.values()}
        threads = {file.id: text_of(file.header.get("id")) for file in files.values()}
        self._left = {
            base
            for file in files.values()
            for base, _ in [file.base or (None, 0)]
            if base != file.id and threads.get(base) == threads[file.id]
        }

    def is_left(self, file: Lines) -> bool:
        """Tell whether the thread of a file goes on in another one, which tells the whole thread."""
        return file.id in self._left

    def before(self, file: Lines) -> list[tuple[Lines, int]]:
        """Return the files that a file goes on from, the first one first, each with the ordinal that it is left at."""
        found: list[tuple[Lines, int]] = []
        while (base := file.base) is not None and (earlier := self._files.get(base[0])) is not None:
            if earlier is file or any(earlier is each for each, _ in found):
                break
            found.insert(0, (earlier, base[1]))
            file = earlier
        return found


def unwrapped(line: _Json, *, first: bool) -> tuple[str, _Json | None]:
    """Return a line's type and payload; those of a bare line too, and no payload where it is neither."""
    kind, payload = line.get("type"), line.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        return kind, payload
    if kind is None and "payload" not in line:
        if first and text_of(line.get("id")) and "timestamp" in line:
            return "session_meta", line
        if isinstance(line.get("record_type"), str):
            return "record_type", {"type": line["record_type"]}
    if isinstance(kind, str) and kind in ITEMS and "payload" not in line:
        return "response_item", {key: value for key, value in line.items() if key != "timestamp"}
    return str(kind), None
