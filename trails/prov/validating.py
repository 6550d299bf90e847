"""The public way to a verdict: a file, the bytes of one, or an open store."""

from __future__ import annotations

import math
from os import PathLike
from typing import Protocol

from trails.errors import InvalidInput
from trails.prov.constraints import Validation, check
from trails.prov.reading import read, read_file
from trails.prov.rows import recorded
from trails.store.contract import QuadStore


class Stored(Protocol):
    """An open store, as `trails.open` returns it."""

    @property
    def store(self) -> QuadStore:
        """The quads of it."""
        ...


def validate(
    source: str | PathLike[str] | bytes | Stored,
    *,
    format: str | None = None,  # noqa: A002 - the public name
    timed: bool = False,
    skew: float = 0.0,
) -> Validation:
    """Check whether PROV is valid by PROV-CONSTRAINTS (W3C, 2013), and say what clashes where it is not.

    `source` is a file (its path), a document (its bytes, which need `format`) or an open store. `format` is one of
    provn, json, jsonld, xml, turtle, trig, ntriples and nquads; by default the end of the file's name says which. With
    `timed`, the orders that the statements imply are compared by the times that are stated too, which W3C's constraints
    never do; clocks may differ by `skew` seconds, from 0. That is a verdict of its own, `Validation.timing`.

    The bundles of a file are checked one by one, as the Recommendation has it; the graphs of a store together, as the one
    history that they are. Nothing is written, and nothing fetched.

    Raises `InvalidInput` for what cannot be read as PROV, with the place.

    >>> validate(b"document endDocument", format="provn").ok
    True
    """
    if timed and not (math.isfinite(skew) and skew >= 0):
        raise InvalidInput(f"a clock skew of {skew} seconds cannot be; give a number from 0")
    if isinstance(source, bytes):
        if format is None:
            raise InvalidInput("the bytes of a document do not say what they are; give their format")
        document = read(source, format)
    elif isinstance(source, str | PathLike):
        document = read_file(source, format)
    else:
        document = recorded(source.store)
    return check(document, skew=skew if timed else None)
