"""Statements as PROV-N."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from trails.prov.statements import ELEMENTS, INTERNATIONALIZED, KINDS, QUALIFIED_NAME, STRING, Statement, Value
from trails.prov.writers.base import Writer

_ESCAPED: Final = re.compile(r"""[='(),:;\[\]"]|^[-.]|\.$""")
_TEXT: Final = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
)
_PREDECLARED: Final = ("prov", "xsd")


class ProvNWriter(Writer):
    """Writes PROV-N, a statement a line."""

    def begin(self) -> None:
        """Write the prefixes; prov and xsd hold without."""
        self._name = lru_cache(maxsize=4096)(self._escaped)
        self.out.write("document\n")
        for prefix, iri in self.names.prefixes.items():
            if prefix not in _PREDECLARED:
                self.out.write(f"prefix {prefix} <{iri}>\n")

    def open(self, bundle: str) -> None:
        """Begin a bundle."""
        self.out.write(f"bundle {self._name(bundle)}\n")

    def close(self) -> None:
        """End a bundle."""
        self.out.write("endBundle\n")

    def end(self) -> None:
        """End the document."""
        self.out.write("endDocument\n")

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements, each on its line."""
        for statement in statements:
            self.out.write(self._line(statement))

    def _escaped(self, iri: str) -> str:
        prefix, local = self.names.split(iri)
        return prefix + ":" + _ESCAPED.sub(r"\\\g<0>", local)

    def _line(self, statement: Statement) -> str:
        places = KINDS[statement.kind].places
        arguments = [
            "-" if value is None else value if place.is_time else self._name(value)
            for value, place in zip(statement.arguments, places, strict=True)
        ]
        id_ = "" if statement.id is None else self._name(statement.id)
        if statement.kind in ELEMENTS:
            arguments, id_ = [id_, *arguments], ""
        if statement.attributes:
            said = ", ".join(f"{self._name(name)}={self._value(value)}" for name, value in statement.attributes)
            arguments.append(f"[{said}]")
        return f"{statement.kind}({id_}{'; ' if id_ else ''}{', '.join(arguments)})\n"

    def _value(self, value: Value) -> str:
        text, datatype, language = value
        if datatype == QUALIFIED_NAME:
            return f"'{self._name(text)}'"
        quoted = f'"{text.translate(_TEXT)}"'
        if datatype == STRING:
            return quoted
        if datatype == INTERNATIONALIZED and language:
            return f"{quoted}@{language}"
        return f"{quoted} %% {self._name(datatype)}"
