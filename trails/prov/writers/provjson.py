"""Statements as PROV-JSON (W3C member submission, 2013).

The format has all statements of a kind together, which a stream has not: those of each kind go to a temporary file of its
own, and the files into the document when the bundle ends. What has no id gets the name of a blank node, which the format
needs as a key.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as quoted
from typing import IO, Final

from trails.prov.statements import INTERNATIONALIZED, KINDS, QUALIFIED_NAME, STRING, Statement, Value
from trails.prov.writers.base import Writer

_PIECE: Final = 1 << 16


class ProvJsonWriter(Writer):
    """Writes PROV-JSON."""

    def begin(self) -> None:
        """Write the prefixes."""
        self._kinds: dict[str, IO[str]] = {}
        self._bundles = 0
        self._count = 0
        self._seen: set[str] = set()
        self.out.write(f'{{"prefix": {json.dumps(dict(self.names.prefixes))}')

    def open(self, bundle: str) -> None:
        """Begin a bundle; the document's own statements are over with the first."""
        self._flush(", ")
        self.out.write(', "bundle": {\n' if not self._bundles else ",\n")
        self._bundles += 1
        self.out.write(f"{quoted(self.names.name(bundle))}: {{")

    def close(self) -> None:
        """End a bundle."""
        self._flush("")
        self.out.write("}")

    def end(self) -> None:
        """End the document."""
        if self._bundles:
            self.out.write("}")
        else:
            self._flush(", ")
        self.out.write("}\n")

    def _flush(self, joint: str) -> None:
        for kind, spool in self._kinds.items():
            self.out.write(f'{joint}\n"{kind}": {{')
            joint = ", "
            with spool:
                spool.seek(0)
                while piece := spool.read(_PIECE):
                    self.out.write(piece)
            self.out.write("}")
        self._kinds = {}

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements to the file of their kind."""
        for statement in statements:
            spool = self._kinds.get(statement.kind)
            if spool is None:
                spool = self._kinds[statement.kind] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - _flush closes it
                joint = "\n"
            else:
                joint = ",\n"
            spool.write(f"{joint}{self._key(statement)}: {{{self._record(statement)}}}")

    def _key(self, statement: Statement) -> str:
        if statement.id is not None:
            return quoted(self.names.name(statement.id))
        self._count += 1
        return f'"_:n{self._count}"'

    def _record(self, statement: Statement) -> str:
        name = self.names.name
        pieces = [
            f'"prov:{place.name}": {quoted(value if place.is_time else name(value))}'
            for value, place in zip(statement.arguments, KINDS[statement.kind].places, strict=True)
            if value is not None
        ]
        grouped: dict[str, list[str]] = {}
        for attribute, value in statement.attributes:
            grouped.setdefault(name(attribute), []).append(self._value(value))
        for key, values in grouped.items():
            pieces.append(f"{quoted(key)}: {values[0] if len(values) == 1 else '[' + ', '.join(values) + ']'}")
        return ", ".join(pieces)

    def _value(self, value: Value) -> str:
        text, datatype, language = value
        if datatype == QUALIFIED_NAME:
            return f'{{"$": {quoted(self.names.name(text))}, "type": "prov:QUALIFIED_NAME"}}'
        if datatype == STRING:
            return quoted(text)
        if datatype == INTERNATIONALIZED and language:
            return f'{{"$": {quoted(text)}, "lang": {quoted(language)}}}'
        return f'{{"$": {quoted(text)}, "type": {quoted(self.names.name(datatype))}}}'
