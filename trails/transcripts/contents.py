"""The JSON values of a file, whatever holds them: lines, one document, the members of a zip, the rows of a database."""

from __future__ import annotations

import io
import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple

from trails.errors import InvalidInput
from trails.transcripts import archives, jsonl
from trails.transcripts.databases import Database

_MUCH: Final = 8 << 20
"""Bytes up to which a file is read as one document; greater ones value by value."""


class Document(NamedTuple):
    """A JSON value of a file."""

    file: str
    line: int
    """Where it begins, from 1; 0 where it is not one of several lines."""
    place: str
    """Where in the file it stands, beside its line: a member of a zip, a table and its column."""
    value: Any


def documents(file: IO[bytes], name: str) -> Iterator[Document]:
    """Yield the JSON values of an open file; what is none is left out. At most one member or value is in memory."""
    if file.read(len(archives.SIGNATURE)) == archives.SIGNATURE:
        yield from _members(file, name)
        return
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if size <= _MUCH and (value := _value(file.read())) is not None:
        yield Document(name, 0, "", value)
        return
    file.seek(0)
    if file.readline().lstrip(BOM_UTF8).lstrip()[:1] == b"[":
        file.seek(0)
        for each in jsonl.elements_in(file, lists=True):
            if isinstance(each, jsonl.Element):
                yield Document(name, each.line, "[]", each.value)
        return
    file.seek(0)
    for number, line in enumerate(file, 1):
        if (value := _value(line)) is not None:
            yield Document(name, number, "", value)


def rows(database: Database, name: str) -> Iterator[Document]:
    """Yield the texts of a database's tables, as JSON where they are."""
    for table in database.tables:
        quoted = table.replace('"', '""')
        for row in database.rows(f'SELECT * FROM "{quoted}"'):  # noqa: S608 - a table's name cannot be bound
            for column, held in row.items():
                if isinstance(held, str):
                    value = _value(held.encode("utf-8", "replace")) if held[:1] in "{[" else None
                    yield Document(name, 0, f"{table}.{column}", held if value is None else value)


def _members(file: IO[bytes], name: str) -> Iterator[Document]:
    file.seek(0)
    try:
        archive = archives.Archive(file)
        for member in archive.names:
            if member.endswith(".json") and (value := _value(archive.read(member))) is not None:
                folder, _, own = member.rpartition("/")
                yield Document(name, 0, f"{folder.split('/')[0]}/*" if folder else own, value)
    except (InvalidInput, *archives.FAULTS):  # the parser has said so
        return


def _value(data: bytes) -> Any:
    try:
        return json.loads(data.removeprefix(BOM_UTF8))
    except (ValueError, RecursionError):
        return None
