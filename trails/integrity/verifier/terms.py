"""What the terms of an export stand for: times, numbers, and the IRIs of sessions, authors, tools and payloads."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote

from trails.integrity.verifier.quads import (
    DATE_TIME,
    DECIMAL,
    INTEGER,
    PROV,
    TRAILS,
    TYPE,
    Properties,
    Term,
    typed_value,
)

SESSION = "urn:trails:session:"
_AUTHORS = {"urn:trails:principal:": "principal:", "urn:trails:agent:": "agent:"}
TOOL = "urn:trails:tool:"
UNNAMED = ("urn:trails:principal:redacted", "urn:trails:agent:redacted", "urn:trails:tool:redacted")
PAYLOAD = "urn:trails:payload:"
_SAFE = "-._~:@+=,!*;$&()"


_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6})0*)?(?:Z|\+00:00)")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+")


_EPOCH = date(1970, 1, 1).toordinal()


def microseconds(lexical: str) -> int:
    """Return an xsd:dateTime in UTC as whole microseconds since 1970; ValueError for any other."""
    found = _TIME.fullmatch(lexical)
    if found is None:
        raise ValueError(f"{lexical!r} is no time in UTC")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{lexical!r} is no time")
    days = date(year, month, day).toordinal() - _EPOCH
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + int((found[7] or "").ljust(6, "0"))


def comparable(term: Term) -> tuple[Any, str]:
    """Return a term by its value where it is a number or a time: stores write these in forms of their own."""
    text, datatype = term
    try:
        if datatype == DATE_TIME:
            return microseconds(text), datatype
        if datatype in (INTEGER, DECIMAL) and _NUMBER.fullmatch(text):
            return Decimal(text), datatype
    except ValueError:
        pass
    return term


def session_id_of(iri: str) -> str:
    """Return the id of the session that an IRI names; ValueError for one that names none in the one right way."""
    name = unquote(iri[len(SESSION) :])
    if not iri.startswith(SESSION) or not name or SESSION + quote(name, safe=_SAFE) != iri:
        raise ValueError(f"{iri} is not the IRI of a session")
    return name


def author_key(iri: str) -> str:
    """Return what a digest covers of an author; ValueError for an IRI that is not the one of its name."""
    if iri.startswith(TOOL):
        tool_of(iri)
        return iri[len("urn:trails:") :]
    for start, kind in _AUTHORS.items():
        name = unquote(iri[len(start) :])
        if iri.startswith(start) and start + quote(name, safe=_SAFE) == iri:
            return kind + name
    raise ValueError(f"{iri} is not the IRI of a principal, an agent or a tool")


def tool_of(iri: str) -> tuple[str, str | None, str | None]:
    """Return the name, server and version that the IRI of a tool has; ValueError where it is not the one of those."""
    parts = iri[len(TOOL) :].split("/")
    named = (TOOL + "/".join(quote(unquote(part), safe=_SAFE) for part in parts)).rstrip("/")
    if not iri.startswith(TOOL) or not parts[0] or len(parts) > 3 or named != iri:
        raise ValueError(f"{iri} is not the IRI of a tool")
    name, server, version = (unquote(part) or None for part in (*parts, "", "")[:3])
    return name or "", server, version


def payload_digest(iri: str) -> str:
    """Return the SHA-256 that the IRI of a payload's bytes names; ValueError for any other IRI."""
    digest = iri[len(PAYLOAD) :]
    if not iri.startswith(PAYLOAD) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"{iri} is not the IRI of a payload")
    return digest


def payload_bytes(iri: str, subjects: dict[str, Properties]) -> bytes:
    """Return the bytes that the graph of a payload keeps; ValueError where it says anything else."""
    pieces: list[bytes] = []
    more = dict(subjects)
    own = more.pop(iri, {})
    while (piece := more.pop(f"{iri}/{len(pieces)}", None)) is not None:
        if piece.keys() != {TYPE, TRAILS + "bytesPart"} or piece[TYPE] != [(PROV + "Entity", "")]:
            raise ValueError("a piece of it is none that Trails writes")
        pieces.append(base64.b64decode(typed_value(piece, "bytesPart"), validate=True))
    data = b"".join(pieces)
    expected = {TYPE: [(TRAILS + "Payload", "")], TRAILS + "byteCount": [(str(len(data)), INTEGER)]}
    if more or own != expected or hashlib.sha256(data).hexdigest() != payload_digest(iri):
        raise ValueError("it does not have the bytes that its name says")
    return data


def iri_of(iri: str) -> str:
    """Return the session's IRI that a turn's begins with."""
    return iri.partition("/")[0]
