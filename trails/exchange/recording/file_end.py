"""Read the end of a transcript that grew, with as much before it as tells where it goes on.

What is new is found in proportion to itself: nothing before the records that overlap is read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from trails.exchange.formats import PartRules
from trails.exchange.json_files import Json, json_line

OVERLAP: Final = 64
"""Records before the new ones that are read again: what a record may still change stands within them."""
_STEP: Final = 128 << 10
_FARTHEST: Final = 8 << 20
"""Bytes before the new ones in which a place to begin is looked for."""
_CHECKED: Final = 1 << 10
PART: Final = 1 << 20
"""Bytes of a file that are brought in at once: a file of any length is never held in memory."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines of a file, from one place to another."""

    data: bytes
    end: int
    """Where the file is read up to."""
    lines: int
    """How many lines come before that."""
    check: str
    """What stands before that, see `checksum`."""
    is_cut: bool = False
    """Whether the file goes on with lines that are whole."""
    first_line: int = 1
    """The number of the first line."""
    first: Json | None = None
    """The record that it begins with; None if these are all lines from the file's own beginning on."""


def checksum(file: BinaryIO, end: int) -> str:
    """Return a digest of a file's beginning, and of what stands before a place."""
    hasher = hashlib.sha256(f"{end}".encode())
    for start in (0, max(0, end - _CHECKED)):
        file.seek(start)
        hasher.update(file.read(min(_CHECKED, end - start)))
    return hasher.hexdigest()


def read_beginning(path: str, size: int | None = PART) -> Lines:
    """Return a file's first lines, of so many bytes or, with None, all; a last line that is not written whole is left out."""
    with Path(path).open("rb") as file:
        data = _read_lines(file, 0, size)
        return Lines(data, len(data), data.count(b"\n"), checksum(file, len(data)), _has_line(file, len(data)))


def read_end(path: str, rules: PartRules, offset: int, line: int, check: str) -> Lines | None:
    """Return what comes after a place in a file, with the records before it that overlap; None if the whole file tells.

    `line` is the number of line ends before `offset`, and `check` what stood before that when it was read.
    """
    with Path(path).open("rb") as file:
        if checksum(file, offset) != check:
            return None
        begin = _beginning(file, rules, offset)
        if begin is None:
            return None
        new = _read_lines(file, offset, PART)
        end = offset + len(new)
        file.seek(begin[0])
        overlap = file.read(offset - begin[0])
        lines, first_line = line + new.count(b"\n"), line - overlap.count(b"\n") + 1
        return Lines(
            overlap + new, end, lines, checksum(file, end), _has_line(file, end), first_line=first_line, first=begin[1]
        )


def _read_lines(file: BinaryIO, start: int, size: int | None) -> bytes:
    """Return the whole lines from a place on: of so many bytes or the first one, or with None all."""
    while True:
        file.seek(start)
        data = file.read() if size is None else file.read(size)
        is_end = not file.read(1)
        lines = _whole(data, is_end=is_end)
        if lines or is_end or size is None:
            return lines
        size *= 4


def with_record_before(part: Lines, rules: PartRules, source_id: str, meta: Mapping[str, Any]) -> bytes:
    """Return the lines of a part behind a record that stands for all before them."""
    assert part.first is not None  # noqa: S101 - of ends alone
    return json_line(rules.before(part.first, source_id, meta)) + part.data


def _beginning(file: BinaryIO, rules: PartRules, offset: int) -> tuple[int, Json | None] | None:
    """Return where to begin, at least `OVERLAP` records before a place, and the record there; None if that is too far.

    In a short file it is the file's beginning, without a record.
    """
    start, size = offset, _STEP
    while start and offset - start < _FARTHEST:
        start = max(0, offset - size)
        file.seek(start)
        data = file.read(offset - start)
        found = _last_beginning(data, rules, is_start=start == 0)
        if found is not None:
            return start + found[0], found[1]
        size *= 4
    return None if start else (0, None)


def _last_beginning(data: bytes, rules: PartRules, *, is_start: bool) -> tuple[int, Json] | None:
    """Return the last place in lines to begin at that has enough records behind it."""
    after, place = 0, len(data)
    records: list[tuple[int, Json | None]] = []
    while place > 0:
        begin = data.rfind(b"\n", 0, place - 1) + 1
        if not begin and not is_start:
            return None  # a line that is cut
        line = data[begin:place]
        record: Json | None = None
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
            record = value if isinstance(value, dict) else None
        if records and after >= OVERLAP:
            at, candidate = records[-1]
            if candidate is not None and rules.begins(candidate, record):
                return at, candidate
        records.append((begin, record))
        after += 1
        place = begin
    return None


def _whole(data: bytes, *, is_end: bool) -> bytes:
    """Return data without a last line that is not whole: one without an end, unless it is a record as it stands."""
    end = data.rfind(b"\n") + 1
    rest = data[end:]
    if rest.strip() and is_end and len(rest) <= _STEP * 8:
        with suppress(ValueError, RecursionError):
            json.loads(rest)
            return data
    return data[:end]


def _has_line(file: BinaryIO, start: int) -> bool:
    """Tell whether a file has a whole line after a place."""
    file.seek(start)
    while part := file.read(_STEP):
        if b"\n" in part:
            return True
    return False
