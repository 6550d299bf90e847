"""Read and write PROV by the name of a format."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from trails.errors import InvalidInput
from trails.files import as_path, in_words, read_whole
from trails.provenance import json_readers, text_readers
from trails.provenance.crate_reader import CRATE, read_crate
from trails.provenance.rdf_mapping import read_rdf
from trails.provenance.statements import MAX_BYTES, Document, Statement
from trails.provenance.writers import (
    JsonLdWriter,
    ProvJsonWriter,
    ProvNWriter,
    ProvXmlWriter,
    TrigWriter,
    TurtleWriter,
    Writer,
)


class Format(NamedTuple):
    """A format: the ends of the names of files that hold it, what reads it, and what writes it, if anything does."""

    endings: tuple[str, ...]
    read: Callable[[bytes], Document]
    writer: type[Writer] | None = None


READ_FORMATS: Final[Mapping[str, Format]] = {
    "provn": Format((".provn",), text_readers.read_provn, ProvNWriter),
    "json": Format((".json",), json_readers.read_provjson, ProvJsonWriter),
    "jsonld": Format((".jsonld",), json_readers.read_jsonld, JsonLdWriter),
    "xml": Format((".xml", ".provx"), text_readers.read_provxml, ProvXmlWriter),
    "turtle": Format((".ttl",), partial(read_rdf, format="turtle"), TurtleWriter),
    "trig": Format((".trig",), partial(read_rdf, format="trig"), TrigWriter),
    "ntriples": Format((".nt",), partial(read_rdf, format="ntriples")),
    "nquads": Format((".nq",), partial(read_rdf, format="nquads")),
    "ro-crate": Format((CRATE,), read_crate),
}
"""The formats by their names."""
WRITERS: Final = {name: each.writer for name, each in READ_FORMATS.items() if each.writer is not None}
"""The formats that can be written, by their names."""


def read_prov(data: bytes, format: str) -> Document:  # noqa: A002 - the public name
    """Return what a PROV document says; `format` is a name of `READ_FORMATS`.

    RDF is read by the terms of Trails too, so that an export of a session is PROV. Raises `InvalidInput`, with the place,
    for a document that is none.

    >>> read_prov(b"document entity(prov:x) endDocument", "provn").statements
    1
    """
    return READ_FORMATS[format].read(data)


def read_source(
    source: str | os.PathLike[str] | bytes,
    format: str | None = None,  # noqa: A002 - the public name
) -> tuple[bytes, str, Path | None]:
    """Return the bytes of a document, their format, and the path of the file that they come from.

    By default the end of the file's name says the format. Raises `InvalidInput` for a file that is too large, for a name
    that says nothing, for bytes without a format, and for a format that is none.
    """
    if isinstance(source, bytes):
        if format is None:
            raise InvalidInput("the bytes of a document do not say what they are; give their format")
        data, chosen, place = source, format, None
    else:
        place = as_path(source, "the file to read")
        chosen = _format_of(place) if format is None else format
        with in_words(place, "read"):
            if place.stat().st_size > MAX_BYTES:
                raise InvalidInput(
                    f"{place} has more than {MAX_BYTES:,} bytes, which is the most that is read; split it"
                )
            data = read_whole(place)
    if chosen not in READ_FORMATS:
        raise InvalidInput(f"{chosen!r} is no PROV format; there are: {', '.join(READ_FORMATS)}")
    return data, chosen, place


def _format_of(path: Path) -> str:
    """Return the format that a file's name says."""
    ends = (path.name, path.suffix.lower())  # a crate's file has a name of its own, which ends as one of PROV-JSON does
    format_ = next((name for end in ends for name, each in READ_FORMATS.items() if end in each.endings), None)
    if format_ is None:
        endings = ", ".join(end for each in READ_FORMATS.values() for end in each.endings)
        names = ", ".join(READ_FORMATS)
        raise InvalidInput(f"the name {path.name!r} says no PROV format ({endings}); give one: {names}")
    return format_


def write_prov(
    bundles: Iterable[tuple[str | None, Iterable[Statement]]],
    format: str,  # noqa: A002 - the public name
    out: BinaryIO,
    prefixes: Mapping[str, str] | None = None,
) -> None:
    """Write bundles as they come, the document's own statements (named None) first, to a binary file.

    A bundle without statements is left out. Raises `InvalidInput` for a format that is none, and for an IRI that no
    prefix covers.
    """
    if format not in WRITERS:
        raise InvalidInput(f"{format!r} is no PROV format that can be written; there are: {', '.join(WRITERS)}")
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    try:
        writer = WRITERS[format](text, prefixes or {})
        writer.begin()
        for name, statements in bundles:
            rest = iter(statements)
            if name is None:
                writer.write(rest)
            elif (first := next(rest, None)) is not None:
                writer.open(name)
                writer.write(chain([first], rest))
                writer.close()
        writer.end()
    finally:
        text.detach()
