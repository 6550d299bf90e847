"""Report the texts of a file that no session keeps.

Report the texts of a file that no session keeps, by place.

A parser decides what of a record becomes a turn. This module checks the outcome: it walks every string of a file and looks
it up among the strings of the transcript that the parser made. So a field that no parser knows is reported, not lost.

Turns of a session that repeat those of the session that spawned it. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from io import BytesIO
from typing import Final

from pydantic import BaseModel

from trails.exchange.containers import Document, json_documents
from trails.exchange.source_transcript import LeftOut, Transcript
from trails.exchange.source_values import utc_time

MIN_TEXT: Final = 20
"""Characters that a string has at least to be looked up: shorter ones are names, numbers and words of the format."""
_NO_REASONS: Final[Mapping[str, str]] = {}
DEFAULT_REASON: Final = "no turn and no metadata has this field"
REFUSED_REASON: Final = "the record is refused; see the problems"
_CALL_FIELDS: Final = ("id", "name", "arguments", "input")
"""What of a tool call, or of its `function` or `custom`, a session keeps; see `trails.model.content_parts`."""
_UNSTORED: Final = frozenset({"tool_calls", "saved", "open_in"})
"""Fields of what a parser returns that no store keeps as they are."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_DATA_KEY: Final = re.compile(r"(?=.*\d)[\w:~-]{16,}|.*[\s/\\\\].*|.{60,}", re.DOTALL)
"""A key that is data and no name of a field: a long id, a path, a text."""
_NUMBER: Final = re.compile(r"\.\d+(?=\.|$)")
_SEPARATORS: Final = re.compile(r"[/:#|]")
_SEARCHED: Final = 2 << 30
"""Characters that are searched for texts that stand inside of others, per file: one second or two."""


def parse_and_account(
    parse: Callable[[Sequence[tuple[str, bytes]]], Transcript],
    contents: Sequence[tuple[str, bytes]],
    reasons: Mapping[str, str] = _NO_REASONS,
) -> Transcript:
    """Parse files, and add the strings that the transcript does not keep.

    `reasons` says why by the beginning of a place; other places have `DEFAULT_REASON`.
    """
    transcript = parse(contents)
    kept = KeptTexts()
    kept.add(transcript)
    found = (each for file, data in contents for each in json_documents(BytesIO(data), file))
    return replace(transcript, left_out=kept.missing(found, reasons))


def account_parts(
    parts: Iterable[Transcript], reread: Callable[[], Iterable[Document]], reasons: Mapping[str, str]
) -> Iterator[Transcript]:
    """Yield the parts of a transcript, last one with the strings none keeps.

    Only hashes of the parts' strings stay in memory. A text that stands inside of a longer one is not recognised.
    """
    kept = KeptTexts(searches=False)
    for part in parts:
        kept.add(part)
        yield part
    if missing := kept.missing(reread(), reasons):
        yield Transcript(sessions=(), left_out=missing, refused_lines=0)


@dataclass(slots=True)
class KeptTexts:
    """The strings that transcripts keep, for looking others up."""

    searches: bool = True
    """Whether the texts themselves are held, to find what stands inside of them."""
    _hashes: set[int] = field(default_factory=set)
    _texts: list[str] = field(default_factory=list)
    _joined: str | None = None
    _left: int = _SEARCHED
    _times: set[datetime] = field(default_factory=set)
    _lines: set[int] = field(default_factory=set)
    """Lines that the report names as problems."""

    def add(self, transcript: Transcript) -> None:
        """Add the strings of a transcript, and the lines of its problems."""
        self.add_values(transcript.sessions)
        self.add_values([problem.text for problem in transcript.problems])
        self._lines.update(problem.line for problem in transcript.problems if problem.line)

    def missing(self, documents: Iterable[Document], reasons: Mapping[str, str]) -> list[LeftOut]:
        """Return which strings of documents are not kept, counted by file and place."""
        rows: dict[tuple[str, str], LeftOut] = {}
        for document in documents:
            refused = {"": REFUSED_REASON} if document.line in self._lines else {}
            for place, text in long_strings(document.value, document.place):
                if self.has(text):
                    continue
                row = rows.get((document.file, place))
                if row is None:
                    reason = next(
                        (why for start, why in {**refused, **reasons}.items() if place.startswith(start)),
                        DEFAULT_REASON,
                    )
                    row = LeftOut(file=document.file, place=place or "(whole)", line=document.line, reason=reason)
                    rows[document.file, place] = row
                row.count += 1
                row.characters += len(text)
                row.is_prose = row.is_prose or _is_prose(text)
        return list(rows.values())

    def has(self, text: str) -> bool:
        """Tell whether a string is kept: whole, as a time, as JSON, or in a text."""
        if hash(text) in self._hashes or hash(text.strip()) in self._hashes:
            return True
        if _TIME.match(text) and (time := utc_time(text)) is not None:
            return time in self._times
        if (inner := _as_json(text)) is not None:
            return all(self.has(each) for _, each in long_strings(inner, ""))
        if not text.isascii() and (whole := text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) != text:
            return self.has(whole)
        if _is_prose(text):
            return self.searches and self._is_inside(text.strip())
        pieces = [each for each in _SEPARATORS.split(text) if len(each) >= MIN_TEXT]
        return bool(pieces) and all(hash(each) in self._hashes for each in pieces)

    def _is_inside(self, text: str) -> bool:
        self._joined = self._joined if self._joined is not None else "\0".join(self._texts)
        self._left -= len(self._joined)
        return self._left > 0 and text in self._joined

    def add_values(self, root: object) -> None:
        """Add the strings of values: of mappings, lists and the records of a transcript."""
        self._joined = None
        stack, seen = [root], set[int]()
        while stack:
            value = stack.pop()
            if isinstance(value, str):
                if len(value) >= MIN_TEXT:
                    self._add_text(value, stack)
            elif isinstance(value, datetime):
                self._times.add(value)
            elif isinstance(value, Mapping):
                stack += value.values()
                stack += (key for key in value if isinstance(key, str) and len(key) >= MIN_TEXT)
            elif isinstance(value, list | tuple):
                stack += value
            elif id(value) not in seen:  # paths share their common turns
                seen.add(id(value))
                stack += _values_of(value)

    def _add_text(self, text: str, stack: list[object]) -> None:
        key = hash(text)
        if key in self._hashes:
            return
        self._hashes |= {key, hash(text.strip())}
        if self.searches:
            self._texts.append(text)
        inner = _as_json(text)
        if inner is not None:
            stack.append(inner)
        elif len(text) < 1_000 and not _is_prose(text):
            self._hashes.update(hash(each) for each in _SEPARATORS.split(text) if len(each) >= MIN_TEXT)


def _values_of(value: object) -> Iterator[object]:
    """Yield the parts of a transcript's value that a session keeps."""
    if isinstance(value, BaseModel):
        yield from (getattr(value, name) for name in type(value).model_fields)
    elif is_dataclass(value):
        yield from (getattr(value, each.name) for each in fields(value) if each.name not in _UNSTORED)
    for call in getattr(value, "tool_calls", ()):
        for holder in (call, call.get("function"), call.get("custom")):
            if isinstance(holder, Mapping):
                yield from (holder.get(name) for name in _CALL_FIELDS)


def long_strings(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the long strings of a JSON value with their places.

    >>> list(long_strings({"message": {"content": [{"text": "twenty characters, or more"}]}}))
    [('message.content[].text', 'twenty characters, or more')]
    """
    stack = [(place, value)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, str):
            if len(value) >= MIN_TEXT:
                yield place, value
        elif isinstance(value, list):
            stack += ((f"{place}[]", inner) for inner in value if isinstance(inner, str | dict | list))
        elif isinstance(value, dict):
            for key, inner in value.items():
                under, is_data = _place_under(place, key)
                if is_data:
                    yield under, key
                if isinstance(inner, str | dict | list):
                    stack.append((under, inner))


def _place_under(place: str, key: str) -> tuple[str, bool]:
    """Return a field's place, and whether its key is data."""
    is_data = len(key) >= MIN_TEXT and _DATA_KEY.fullmatch(key) is not None
    name = "*" if is_data else _NUMBER.sub("[]", key)
    return (f"{place}.{name}" if place else name), is_data


def _is_prose(text: str) -> bool:
    return len(text.split(None, 2)) > 1 and not _TIME.match(text)


def _as_json(text: str) -> object:
    if text[:1] in '{["' and text.rstrip()[-1:] in '}]"':
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            return value if isinstance(value, dict | list | str) else None
    return None
