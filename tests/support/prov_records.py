"""The statements of a document of the package `prov`: another reader of the same files, to hold ours against."""

from __future__ import annotations

import io
from collections import Counter
from datetime import datetime
from typing import Any

from prov.constants import PROV_N_MAP
from prov.identifier import Identifier, QualifiedName
from prov.model import Literal, ProvBundle, ProvDocument, ProvRecord

from trails.provenance import Document, Statement, Value
from trails.provenance.serializations import read_prov, write_prov
from trails.provenance.statements import INTERNATIONALIZED, KINDS, QUALIFIED_NAME
from trails.provenance.uniqueness import moment
from trails.rdf import vocab


def prov_bytes(document: Document, format_: str) -> bytes:
    """A document as the bytes of a file in a format."""
    out = io.BytesIO()
    write_prov([(bundle.name, bundle.statements) for bundle in document.bundles], format_, out, document.prefixes)
    return out.getvalue()


def parsed(text: str) -> list[Statement]:
    """The statements of PROV-N in three namespaces: a history's, that of what is new in it, and `urn:` for all else."""
    prefixes = "prefix old <http://example.org/> prefix new <http://example.org/new/> default <urn:>"
    return list(read_prov(f"document {prefixes} {text} endDocument".encode(), "provn").bundles[0].statements)


Said = tuple[str | None, str, str | None, tuple[Any, ...], frozenset[Any]]


def said_by_prov(document: ProvDocument) -> Counter[Said]:
    """Return what a document of `prov` says, statement by statement, bundle by bundle."""
    found = Counter(_said(None, record) for record in document.get_records())
    for bundle in document.bundles:
        found += Counter(_said(_uri(bundle), record) for record in bundle.get_records())
    return found


def _uri(bundle: ProvBundle) -> str:
    assert bundle.identifier is not None
    return str(bundle.identifier.uri)


def _said(bundle: str | None, record: ProvRecord) -> Said:
    kind = PROV_N_MAP[record.get_type()]
    id_ = None if record.identifier is None else record.identifier.uri
    formal = dict(record.formal_attributes)
    arguments = tuple(_argument(formal.get(name)) for name in record.FORMAL_ATTRIBUTES)
    attributes = frozenset((name.uri, _normal(_value(value))) for name, value in record.extra_attributes)
    return bundle, kind, id_, arguments, attributes


def _argument(value: Any) -> Any:
    if isinstance(value, datetime):
        return moment(value.isoformat())
    return None if value is None else value.uri


def _value(value: Any) -> Value:
    if isinstance(value, QualifiedName):
        return Value(value.uri, QUALIFIED_NAME)
    if isinstance(value, Literal):
        assert value.datatype is not None
        typed = Value(str(value.value), value.datatype.uri)
        return Value(value.value, INTERNATIONALIZED, value.langtag) if value.langtag else typed
    if isinstance(value, Identifier):
        return Value(value.uri, vocab.XSD + "anyURI")
    kinds = {bool: "boolean", int: "int", float: "double", datetime: "dateTime", str: "string"}
    text = str(moment(value.isoformat())) if isinstance(value, datetime) else str(value)
    return Value(text.lower() if isinstance(value, bool) else text, vocab.XSD + kinds[type(value)])


def said_by(bundle: str | None, statement: Statement) -> Said:
    """Return what one of our statements says, in the same form."""
    places = KINDS[statement.kind].places
    arguments = tuple(
        moment(value) if value is not None and place.is_time else value
        for value, place in zip(statement.arguments, places, strict=True)
    )
    attributes = frozenset((name, _normal(value)) for name, value in statement.attributes)
    return bundle, statement.kind, statement.id, arguments, attributes


def _normal(value: Value) -> Value:
    """Return a value as `prov` keeps it: moments and numbers by what they are, not by how they were written."""
    local = value.type.removeprefix(vocab.XSD)
    if local == "dateTime":
        return Value(str(moment(value.text)), value.type)
    if local in ("double", "float"):
        return Value(str(float(value.text)), vocab.XSD + "double")
    if local in ("int", "integer", "long", "boolean") and value.text.lstrip("-").isdecimal():
        return Value(str(int(value.text)), vocab.XSD + "int")
    return value
