"""Read and write PROV by the name of a format."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from trails.errors import InvalidInput
from trails.files import as_path, in_words, read_whole
from trails.provenance import json_readers, rdf_mapping, text_readers
from trails.provenance.statements import MAX_BYTES, Document, Statement
from trails.provenance.writers import (
    JsonLdWriter,
    Pieces,
    ProvJsonWriter,
    ProvNWriter,
    ProvXmlWriter,
    TrigWriter,
    TurtleWriter,
    Writer,
)

READ_FORMATS: Final[Mapping[str, tuple[str, ...]]] = {
    "provn": (".provn",),
    "json": (".json",),
    "jsonld": (".jsonld",),
    "xml": (".xml", ".provx"),
    "turtle": (".ttl",),
    "trig": (".trig",),
    "ntriples": (".nt",),
    "nquads": (".nq",),
}
"""The formats by their names, and the ends of the names of files that hold them."""


def read_prov(data: bytes, format: str) -> Document:  # noqa: A002 - the public name
    """Return what a PROV document says; `format` is a name of `READ_FORMATS`.

    RDF is read by the terms of Trails too, so that an export of a session is PROV. Raises `InvalidInput`, with the place,
    for a document that is none.

    >>> read_prov(b"document entity(prov:x) endDocument", "provn").statements
    1
    """
    readers: dict[str, Callable[[bytes], Document]] = {
        "provn": text_readers.read_provn,
        "json": json_readers.read_provjson,
        "jsonld": json_readers.read_jsonld,
        "xml": text_readers.read_provxml,
        **{name: partial(rdf_mapping.read_rdf, format=name) for name in rdf_mapping.RDF_FORMATS},
    }
    return readers[format](data)


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
    format_ = next((name for name, ends in READ_FORMATS.items() if path.suffix.lower() in ends), None)
    if format_ is None:
        endings = ", ".join(end for ends in READ_FORMATS.values() for end in ends)
        raise InvalidInput(
            f"the name {path.name!r} says no PROV format ({endings}); give one: {', '.join(READ_FORMATS)}"
        )
    return format_


WRITERS: Final[Mapping[str, Callable[[Pieces, Mapping[str, str]], Writer]]] = {
    "provn": ProvNWriter,
    "json": ProvJsonWriter,
    "jsonld": JsonLdWriter,
    "xml": ProvXmlWriter,
    "turtle": TurtleWriter,
    "trig": TrigWriter,
}
"""The formats that can be written, by their names."""


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
    text = Pieces(out)
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
    text.flush()


def prov_bytes(document: Document, format: str) -> bytes:  # noqa: A002 - the public name
    """Return a document as the bytes of a file in a format.

    >>> from trails.provenance.statements import Bundle
    >>> prov_bytes(Document([Bundle(None, [Statement("entity", "urn:x:e")])]), "provn").splitlines()[-2]
    b'entity(urn:x\\\\:e)'
    """
    out = io.BytesIO()
    write_prov([(bundle.name, bundle.statements) for bundle in document.bundles], format, out, document.prefixes)
    return out.getvalue()
