"""Writing PROV: one table of formats, and a stream of bundles that goes through the writer of one of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import BinaryIO, Final

from trails.errors import InvalidInput
from trails.prov.statements import Document, Statement
from trails.prov.writers.base import Pieces, Writer
from trails.prov.writers.jsonld import JsonLdWriter
from trails.prov.writers.provjson import ProvJsonWriter
from trails.prov.writers.provn import ProvNWriter
from trails.prov.writers.provxml import ProvXmlWriter
from trails.prov.writers.rdf import RdfWriter

WRITERS: Final[Mapping[str, Callable[[Pieces, Mapping[str, str]], Writer]]] = {
    "provn": ProvNWriter,
    "json": ProvJsonWriter,
    "jsonld": JsonLdWriter,
    "xml": ProvXmlWriter,
    "turtle": partial(RdfWriter, graphs=False),
    "trig": partial(RdfWriter, graphs=True),
}
"""The formats that can be written, by their names."""


def write(
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
        _write_one(writer, name, iter(statements))
    writer.end()
    text.flush()


def _write_one(writer: Writer, name: str | None, statements: Iterable[Statement]) -> None:
    if name is None:
        writer.write(statements)
        return
    first = next(iter(statements), None)
    if first is not None:
        writer.open(name)
        writer.write(chain([first], statements))
        writer.close()


def to_bytes(document: Document, format: str) -> bytes:  # noqa: A002 - the public name
    """Return a document as the bytes of a file in a format.

    >>> to_bytes(Document([Bundle(None, [Statement("entity", "urn:x:e")])]), "provn").splitlines()[-2]
    b'entity(urn:x\\\\:e)'
    """
    out = io.BytesIO()
    write([(bundle.name, bundle.statements) for bundle in document.bundles], format, out, document.prefixes)
    return out.getvalue()
