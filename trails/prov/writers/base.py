"""What all writers share: names with prefixes, and the order in which they are called."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import BinaryIO, Final

from trails import vocab
from trails.errors import InvalidInput
from trails.prov.statements import BLANK, Statement

PREFIXES: Final[Mapping[str, str]] = {
    "prov": vocab.PROV,
    "xsd": vocab.XSD,
    "rdf": vocab.RDF,
    "rdfs": vocab.RDFS,
    "trails": vocab.TRAILS,
    "session": "urn:trails:session:",
    "principal": "urn:trails:principal:",
    "agent": "urn:trails:agent:",
    "tool": "urn:trails:tool:",
    "urn": "urn:",
    "http": "http:",
    "https": "https:",
}
"""The prefixes that an export declares; the last three stand for whatever the others do not cover."""


_ENOUGH: Final = 1 << 16


class Pieces:
    """Text for a binary file, in UTF-8, in pieces large enough to be worth a call."""

    def __init__(self, out: BinaryIO) -> None:
        """Nothing is held back yet."""
        self._out = out
        self._held: list[str] = []
        self._size = 0

    def write(self, text: str) -> None:
        """Take text; it goes to the file when there is enough of it."""
        self._held.append(text)
        self._size += len(text)
        if self._size >= _ENOUGH:
            self.flush()

    def flush(self) -> None:
        """Bring what is held to the file."""
        self._out.write("".join(self._held).encode())
        self._held.clear()
        self._size = 0


class Names:
    """IRIs as names with prefixes, the longest namespace first."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        """Take the prefixes of a document and, beside them, those of every export."""
        known = {**PREFIXES, **{prefix: iri for prefix, iri in prefixes.items() if prefix and prefix not in PREFIXES}}
        self.prefixes = known
        self._prefix_of = {iri: prefix for prefix, iri in reversed(known.items())}
        longest = sorted(self._prefix_of, key=len, reverse=True)
        self._namespace = re.compile("|".join(map(re.escape, longest))).match
        self.split = lru_cache(maxsize=4096)(self._split)
        self.name = lru_cache(maxsize=4096)(self._name)

    def _split(self, iri: str) -> tuple[str, str]:
        """Return prefix and local part of an IRI; raise `InvalidInput` for one that no prefix covers."""
        if iri.startswith(BLANK):
            return "_", iri[2:]
        found = self._namespace(iri)
        if found is None:
            raise InvalidInput(f"no prefix of the document covers {iri[:200]!r}; declare one for it")
        return self._prefix_of[found.group()], iri[found.end() :]

    def _name(self, iri: str) -> str:
        return ":".join(self._split(iri))


class Writer(ABC):
    """Writes one document: `begin`, then statements, each bundle's between `open` and `close`, then `end`."""

    def __init__(self, out: Pieces, prefixes: Mapping[str, str] | None = None) -> None:
        """Nothing is written yet."""
        self.out = out
        self.names = Names(prefixes or {})

    @abstractmethod
    def begin(self) -> None:
        """Write what comes before all statements."""

    @abstractmethod
    def open(self, bundle: str) -> None:
        """Begin a bundle."""

    @abstractmethod
    def close(self) -> None:
        """End a bundle."""

    @abstractmethod
    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements where the document is."""

    @abstractmethod
    def end(self) -> None:
        """Write what comes after all statements."""
