"""Finding out what a PROV file is and reading it: one table of formats, by name and by the end of a file's name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from trails.errors import InvalidInput
from trails.files import as_path, in_words, read_whole
from trails.prov.mapping import trails_terms
from trails.prov.readers import jsonld, provjson, provn, provxml, rdf
from trails.prov.readers.bounds import MAX_BYTES
from trails.prov.statements import Document

Reader = Callable[[bytes], Document]

FORMATS: Final[Mapping[str, tuple[str, ...]]] = {
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


def read(data: bytes, format: str) -> Document:  # noqa: A002 - the public name
    """Return what a PROV document says; `format` is a name of `FORMATS`.

    RDF is read by the terms of Trails too, so that an export of a session is PROV. Raises `InvalidInput`, with the place,
    for a document that is none.

    >>> read(b"document entity(prov:x) endDocument", "provn").statements
    1
    """
    readers: dict[str, Reader] = {
        "provn": provn.read,
        "json": provjson.read,
        "jsonld": jsonld.read,
        "xml": provxml.read,
        **{name: partial(rdf.read, format=name, terms=trails_terms()) for name in rdf.FORMATS},
    }
    if format not in readers:
        raise InvalidInput(f"{format!r} is no PROV format; there are: {', '.join(readers)}")
    return readers[format](data)


def read_file(path: str | os.PathLike[str], format: str | None = None) -> Document:  # noqa: A002 - the public name
    """Return what a PROV file says, by the format that its name ends in unless one is given.

    Raises `InvalidInput` for a file that is too large, or whose name says nothing, or that cannot be read as PROV.
    """
    place = as_path(path, "the file to read")
    chosen = format_of(place) if format is None else format
    with in_words(place, "read"):
        if place.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{place} has more than {MAX_BYTES:,} bytes, which is the most that is read; split it")
        data = read_whole(place)
    try:
        return read(data, chosen)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from error


def format_of(path: Path) -> str:
    """Return the format that a file's name says."""
    found = next((name for name, ends in FORMATS.items() if path.suffix.lower() in ends), None)
    if found is None:
        known = ", ".join(end for ends in FORMATS.values() for end in ends)
        raise InvalidInput(f"the name {path.name!r} says no PROV format ({known}); give one: {', '.join(FORMATS)}")
    return found
