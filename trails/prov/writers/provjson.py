"""Statements as PROV-JSON (W3C member submission, 2013).

The format has all statements of a kind together, which a stream has not: those of each kind go to a temporary file of its
own, and the files into the document when the bundle ends. What has no id gets the name of a blank node, which the format
needs as a key; statements of a kind with the same id are a list under it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from json.decoder import JSONDecoder
from json.encoder import encode_basestring_ascii as quoted
from typing import IO, Final

from trails.prov.statements import INTERNATIONALIZED, KINDS, QUALIFIED_NAME, STRING, Statement, Value
from trails.prov.writers.base import Writer

_PIECE: Final = 1 << 16
_END: Final = JSONDecoder().raw_decode


class ProvJsonWriter(Writer):
    """Writes PROV-JSON."""

    def begin(self) -> None:
        """Write the prefixes."""
        self._kinds: dict[str, IO[str]] = {}
        self._bundles = 0
        self._count = 0
        self._seen: dict[str, set[int]] = {}
        self._again: dict[str, dict[str, list[str]]] = {}
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
                again = self._again.get(kind)
                if again:
                    self._joined(spool, again)
                else:
                    while piece := spool.read(_PIECE):
                        self.out.write(piece)
            self.out.write("}")
        self._kinds, self._seen, self._again = {}, {}, {}

    def _joined(self, spool: IO[str], again: dict[str, list[str]]) -> None:
        """Write the records of a file, one a line, and those that have the same key as one of them in a list with it."""
        joint = "\n"
        for line in spool:
            record = line.strip(",\n")
            if record:
                key = record[: _END(record)[1]]
                more = again.pop(key, None)
                if more is not None:
                    record = f"{key}: [{', '.join([record[len(key) + 2 :], *more])}]"
                self.out.write(joint + record)
                joint = ",\n"
        for key, records in again.items():  # their keys only have the hash of one that was seen
            self.out.write(f"{joint}{key}: [{', '.join(records)}]")

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements to the file of their kind."""
        for statement in statements:
            kind = statement.kind
            spool = self._kinds.get(kind)
            key, record = self._key(statement), f"{{{self._record(statement)}}}"
            if spool is None:
                spool = self._kinds[kind] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - _flush closes it
                self._seen[kind] = set()
                joint = "\n"
            else:
                joint = ",\n"
            if statement.id is not None:
                seen = hash(key)  # a document may have very many keys
                if seen in self._seen[kind]:
                    self._again.setdefault(kind, {}).setdefault(key, []).append(record)
                    continue
                self._seen[kind].add(seen)
            spool.write(f"{joint}{key}: {record}")

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
