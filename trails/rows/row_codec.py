"""Between the quads of a turn or of a session and its row: both directions, pure."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import TrailsError
from trails.model import iris
from trails.model.validation import DECODING_ERRORS, stored_object
from trails.model.values import MAIN, Facts
from trails.rdf import vocab as v
from trails.rdf.codec import known_node, parse_time, time_literal
from trails.rdf.turn_quads import FACT_PREDICATES, PAYLOAD_PREDICATES, facts_of_parts
from trails.usage import cost_of, counts_of

Term = NamedNode | Literal
Statement = tuple[str, str, Term]
"""What follows on a turn's IRI in the subject ("" for the turn itself), the predicate's IRI, and the object."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
FAR_PAST: Final = -62_135_596_800_000_000
"""Stands for an unknown time: the year 1, in microseconds since 1970."""
COPY: Final = 1
LACKS: Final = 2
ODD: Final = 4
"""Flags of a turn: it is a copy; it lacks a time, its model or its usage; it holds quads that Trails never writes together."""
PLAIN, JSON, REDACTED = range(3)
"""Forms of a turn's content."""
_Properties = Mapping[str, list[Term]]
Parts = Mapping[str, _Properties]
"""By what follows on a turn's IRI in the subject, and by predicate, the objects of its statements."""
_FORMS: Final = {v.STRING: PLAIN, v.JSON: JSON, v.REDACTED: REDACTED}
DATATYPES: Final = (v.STRING, v.JSON, v.REDACTED)
_TYPED: Final = (
    (v.INDEX.value, v.INTEGER),
    (v.ROLE.value, v.STRING),
    (v.BRANCH.value, v.STRING),
    (v.DIGEST.value, v.STRING),
    (v.TIME.value, v.DATE_TIME),
)
"""What the literals of a row are, which are written again from its columns."""
_DIGEST: Final = 64

# --- terms, in short

_SHORT_PREDICATES: Final[tuple[NamedNode, ...]] = (
    *FACT_PREDICATES, v.TYPE, v.ALTERNATE_OF, v.GENERATED_BY, v.HAS_RESULT, v.TOOL_RESULT_OF, v.ANSWERS_COPY, v.STARTED_BY,
    v.KEPT_WITH, v.CALL_DIGEST, v.CALLED_IN, v.CALLED_FOR, v.ASSOCIATED_WITH, *PAYLOAD_PREDICATES, v.HAS_PAYLOAD,
)  # fmt: skip
"""Predicates that rows name by their place here. Append to it only."""
_CODES: Final = {node.value: code for code, node in enumerate(_SHORT_PREDICATES)}
_SHORT_TYPES: Final = (v.JSON, v.REDACTED, v.INTEGER, v.DATE_TIME, v.DECIMAL, v.BOOLEAN)
"""Datatypes that rows name by their place here. Append to it only."""
_TYPE_CODES: Final = {node: code for code, node in enumerate(_SHORT_TYPES)}
_OWN: Final = "~"
"""Stands for the turn's own IRI at the beginning of another."""
_TERM: Final = "#"
"""Stands for the namespace of Trails' vocabulary."""
_UNNAMED: Final = "urn:trails:turn"
"""Stands for a turn's IRI where nobody needs it."""
DERIVED: Final = frozenset(
    each.value
    for each in (
        v.INPUT_TOKENS, v.CACHE_READ_TOKENS, v.CACHE_WRITE_TOKENS, v.CACHE_WRITE_HOUR_TOKENS, v.OUTPUT_TOKENS,
        v.REASONING_TOKENS, v.TOTAL_TOKENS, v.COST, v.ASSOCIATED_WITH,
    )
)  # fmt: skip
"""What follows from the rest of a turn's quads, and is not kept in its row."""


def _short_term(term: Term, iri: str) -> Any:
    if isinstance(term, NamedNode):
        value = term.value
        if iri and value.startswith(iri):
            return [_OWN + value[len(iri) :]]
        return [_TERM + value[len(v.TRAILS) :] if value.startswith(v.TRAILS) else value]
    if term.datatype == v.STRING:
        return term.value
    if term.language:
        return [term.value, "", term.language]
    return [term.value, _TYPE_CODES.get(term.datatype, term.datatype.value)]


def _whole_term(short: Any, iri: str) -> Term:
    match short:
        case str():
            return Literal(short)
        case [name]:
            if name.startswith(_OWN):
                return NamedNode((iri or _UNNAMED) + name[1:])
            return known_node(v.TRAILS + name[1:] if name.startswith(_TERM) else name)
        case [value, int() as code]:
            return Literal(value, datatype=_SHORT_TYPES[code])
        case [value, datatype]:
            return Literal(value, datatype=NamedNode(datatype))
        case [value, _, language]:
            return Literal(value, language=language)
    raise ValueError("a row holds a term of no kind")


def encode_statements(statements: Iterable[Statement], iri: str = "") -> str | None:
    """Return statements of a turn with an IRI as JSON in a fixed order; None for none.

    >>> encode_statements([("model", v.MODEL.value, Literal("m-1"))])
    '[["model",7,"m-1"]]'
    """
    short = [[part, _CODES.get(predicate, predicate), _short_term(term, iri)] for part, predicate, term in statements]
    if not short:
        return None
    return _compact(sorted(short, key=str))


_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def decode_statements(text: str | None, iri: str = "") -> list[Statement]:
    """Return the statements that `encode_statements` wrote; without an IRI none may be needed."""
    return [
        (part, predicate if isinstance(predicate, str) else _SHORT_PREDICATES[predicate].value, _whole_term(term, iri))
        for part, predicate, term in (json.loads(text) if text else ())
    ]


def micros(time: datetime | None) -> int | None:
    """Return a time as microseconds since 1970 in UTC, exactly.

    >>> micros(datetime(1, 1, 1, tzinfo=UTC)) == FAR_PAST, micros(None)
    (True, None)
    """
    if time is None:
        return None
    since = time - EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def moment(time: int) -> datetime:
    """Return the time that so many microseconds since 1970 are."""
    return EPOCH + MICROSECOND * time


# --- turns


class Kind(NamedTuple):
    """What many turns have in common: a row of `kinds`."""

    role: str
    branch: str
    author: str
    form: int


class TurnCalls(NamedTuple):
    """The model calls, tool calls and tools' answers that a turn tells of, as rows."""

    model: Sequence[tuple[Any, ...]] = ()
    tools: Sequence[tuple[Any, ...]] = ()
    answers: Sequence[tuple[Any, ...]] = ()


NO_CALLS: Final = TurnCalls()


class TurnRow(NamedTuple):
    """A row of `turns`, without its number."""

    iri: str
    place: int
    kind: Kind
    time: int | None
    text: str
    digest: bytes
    flags: int
    more: str | None
    """All that is recorded with the turn beyond its text; of an odd turn all of its quads."""
    statements: Sequence[Statement] = ()
    calls: TurnCalls = NO_CALLS
    """What is written beside a row that is new."""


_PLAIN: Final = frozenset(
    each.value for each in (v.INDEX, v.ROLE, v.BRANCH, v.VALUE, v.ATTRIBUTED_TO, v.DIGEST, v.TIME)
)
_SALT: Final = v.SALT.value
_IMPLIED: Final = {(v.TYPE.value, v.TURN), (v.TYPE.value, v.ENTITY)}


def turn_statements(quads: Iterable[Quad]) -> dict[str, list[Statement]]:
    """Return by IRI what quads of one session's graph say of turns, and of whatever else has a name there."""
    found: dict[str, list[Statement]] = defaultdict(list)
    current, part, statements = "", "", list[Statement]()
    for quad in quads:
        iri = getattr(quad.subject, "value", "")
        if iri != current:  # the quads of a subject follow on one another
            current = iri
            session_part, _, rest = iri.partition("/")
            name, _, part = rest.partition("/")
            statements = found[f"{session_part}/{name}"] if name else []
        statements.append((part, quad.predicate.value, quad.object))  # type: ignore[arg-type] # no triples
    return found


def make_turn_row(session_iri: str, iri: str, statements: Iterable[Statement]) -> TurnRow | None:
    """Return the row of a turn with all that is said of it, or None where that is nothing."""
    plain: dict[str, Term] = {}
    more: list[Statement] = []
    is_odd = False
    for statement in statements:
        part, predicate, term = statement
        if part or predicate not in _PLAIN:
            if predicate not in DERIVED and predicate != _SALT and (part or (predicate, term) not in _IMPLIED):
                more.append(statement)
        elif predicate in plain:
            is_odd = True
            more.append(statement)
        else:
            plain[predicate] = term
    if not plain and not more:
        return None
    try:
        row = None if is_odd else _regular(session_iri, iri, plain, more)
    except (*DECODING_ERRORS, OverflowError, TrailsError):
        row = None
    if row is None:
        whole = [*(("", predicate, term) for predicate, term in plain.items()), *more]
        return _odd(iri, plain, whole)
    return row


def _regular(session_iri: str, iri: str, plain: Mapping[str, Term], more: list[Statement]) -> TurnRow | None:
    if any((term := plain.get(name)) is not None and getattr(term, "datatype", None) != kind for name, kind in _TYPED):
        return None
    content: Any = plain[v.VALUE.value]
    digest, place = plain[v.DIGEST.value].value, int(plain[v.INDEX.value].value)
    if iri != iris.turn(session_iri, place, digest) or len(digest) != _DIGEST:
        return None
    branch, time = plain.get(v.BRANCH.value), plain.get(v.TIME.value)
    author = plain[v.ATTRIBUTED_TO.value]
    if branch is None or not isinstance(author, NamedNode) or content.language:
        return None
    kind = Kind(plain[v.ROLE.value].value, branch.value, author.value, _FORMS[content.datatype])
    raw = bytes.fromhex(digest)
    if raw.hex() != digest:
        return None
    if more:
        facts_of(more)  # raises for what Trails never writes
    when = None if time is None else _canonical_time(time.value)
    return regular_row(iri, place, kind, when, content.value, raw, more)


def regular_row(  # noqa: PLR0917 - the columns in their order
    iri: str, place: int, kind: Kind, time: int | None, text: str, digest: bytes, more: Sequence[Statement]
) -> TurnRow:
    """Return the row of a turn as Trails writes them, given its columns and what is recorded with it beyond its text."""
    if not more:
        return TurnRow(iri, place, kind, time, text, digest, LACKS * (time is None or kind.role == "assistant"), None)
    parts = by_part(more)
    flags = COPY * _is_copy(parts) | LACKS * (time is None or lacks(kind.role, parts) != "")
    row = TurnRow(iri, place, kind, time, text, digest, flags, encode_statements(more, iri), more)
    calls = TurnCalls([*_model_calls(row, parts)], [*_tool_calls(parts)], [*_tool_answers(row, parts)])
    return row._replace(calls=calls)


@lru_cache(maxsize=64)
def _canonical_time(lexical: str) -> int | None:
    time = parse_time(lexical)
    if time_literal(time).value != lexical:
        raise ValueError(lexical)
    return micros(time)


def _is_copy(parts: Parts) -> bool:
    return v.ALTERNATE_OF.value in parts.get("", ())


def lacks(role: str, parts: Parts) -> str:
    """Return what a turn lacks beside its time: its model, or the usage of its model call; nothing if it has both."""
    is_made = any(each.value.endswith("/model") for each in parts.get("", {}).get(v.GENERATED_BY.value, ()))
    model = parts.get("model", {}) if is_made else {}
    if v.MODEL.value not in model:
        return "model" if role == "assistant" else ""
    return "" if v.USAGE.value in model else "usage"


def _odd(iri: str, plain: Mapping[str, Term], whole: Sequence[Statement]) -> TurnRow:
    """Return the row of a turn that holds what Trails never writes: with as much of it as can be read."""

    def text(predicate: NamedNode) -> str:
        return str(getattr(plain.get(predicate.value), "value", ""))

    number, digest = text(v.INDEX), text(v.DIGEST)
    try:
        raw = bytes.fromhex(digest)
    except ValueError:
        raw = b""
    try:
        when = micros(parse_time(text(v.TIME))) if v.TIME.value in plain else None
    except (*DECODING_ERRORS, TrailsError):
        when = None
    content: Any = plain.get(v.VALUE.value)
    form = _FORMS.get(getattr(content, "datatype", None), PLAIN)  # type: ignore[arg-type] # None is in no dict
    place = int(number) if number.isdecimal() and len(number) < 16 else -1
    kind = Kind(text(v.ROLE), text(v.BRANCH) or MAIN, text(v.ATTRIBUTED_TO), form)
    is_copy = _is_copy(by_part(whole))
    more = encode_statements([*whole, ("", "iri", Literal(iri))])
    return TurnRow(iri, place, kind, when, text(v.VALUE), raw, ODD | LACKS | COPY * is_copy, more, whole)


def row_statements(row: TurnRow) -> list[Statement]:
    """Return what a turn's row says as statements: what `make_turn_row` made it from, without the salt."""
    if row.flags & ODD:
        return [each for each in decode_statements(row.more) if each[1] != "iri"]
    plain: list[Statement] = [
        ("", v.INDEX.value, v.integer(row.place)),
        ("", v.ROLE.value, Literal(row.kind.role)),
        ("", v.BRANCH.value, Literal(row.kind.branch)),
        ("", v.VALUE.value, Literal(row.text, datatype=DATATYPES[row.kind.form])),
        ("", v.ATTRIBUTED_TO.value, known_node(row.kind.author)),
        ("", v.DIGEST.value, Literal(row.digest.hex())),
    ]
    if row.time is not None:
        plain.append(("", v.TIME.value, time_literal(moment(row.time))))
    return plain + decode_statements(row.more, row.iri)


def read_turn_row(session_iri: str, row: Sequence[Any], *, whole: bool = True) -> TurnRow:
    """Return a turn's row as SQL has it: place, role, branch, author, form, time, text, digest, flags, more.

    With `whole`, its statements are read, too.
    """
    place, role, branch, author, form, time, text, digest, flags, more = row
    iri = _odd_iri(more) if flags & ODD else iris.turn(session_iri, place, digest.hex())
    kind = Kind(role, branch, author, form)
    statements = decode_statements(more, "" if flags & ODD else iri) if whole else ()
    return TurnRow(iri, place, kind, time, text, digest, flags, more, statements)


def _odd_iri(more: str) -> str:
    """Return the IRI of an odd turn by what its row holds."""
    return next(term.value for _, predicate, term in decode_statements(more) if predicate == "iri")


def facts_of(statements: Iterable[Statement]) -> Facts:
    """Return what is recorded with a turn beyond its text."""
    parts: dict[str, dict[str, list[Term]]] = {}
    for part, predicate, term in statements:
        parts.setdefault(part, {}).setdefault(predicate, []).append(term)
    return facts_of_parts(parts)


# --- calls


_MOST: Final = 1 << 53
"""Tokens of one call that are counted: an older version may have stored more than SQLite adds up."""


def _model_calls(row: TurnRow, parts: Parts) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `calls` that a turn tells of: of calls made for it, and of one made elsewhere that a copy keeps.

    Home and principal are None for those of the turn's own session.

    Of rows with one digest that of the least rank counts: 0 where the call was made, 1 for what a copy says of where it was
    made, 2 for a copy that does not.
    """
    own, model = parts.get("", {}), parts.get("model", {})
    if not model:
        return
    made: list[tuple[Any, ...]] = []
    is_made = any(term.value == f"{row.iri}/model" for term in own.get(v.GENERATED_BY.value, ()))
    if is_made and v.MODEL_CALL in model.get(v.TYPE.value, ()):
        made.append((*_origin(row, parts), None, None, _moment(model, v.STARTED_AT), _moment(model, v.ENDED_AT)))
    for digest in model.get(v.CALL_DIGEST.value, ()):
        for place in model.get(v.CALLED_IN.value, ()):
            whom = next((iris.author_name(each.value) for each in model.get(v.CALLED_FOR.value, ())), None)
            ends = _moment(model, v.KEPT_START), _moment(model, v.KEPT_END)
            made.append((_brief(digest.value), 1, iris.session_id(place.value), whom, *ends))
    spent = (row.kind.author, text_of(model, v.MODEL), row.time, *_spent(model), text_of(model, v.PROVIDER))
    yield from ((*call[:4], *spent, *call[4:]) for call in made)


def _origin(row: TurnRow, parts: Parts) -> tuple[bytes | str, int]:
    """Return the digest of the turn that a call or an answer came with first, and its rank."""
    quoted = text_of(parts.get("", {}), v.QUOTED_DIGEST)
    return _brief(quoted) if quoted else row.digest, 2 if quoted or _is_copy(parts) else 0


def _tool_calls(parts: Parts) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `tool_calls` that a turn asks for: id, name and position of each."""
    for part, own in parts.items():
        if part.startswith("call/"):
            for call_id in own.get(v.CALL_ID.value, ()):
                yield call_id.value, text_of(own, v.TOOL_NAME), iris.position(part)


def _tool_answers(row: TurnRow, parts: Parts) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `tool_answers` that a turn brings, the last value the IRI of the call that each answers.

    An answer counts once for each call id and digest: that of the turn that brought it first.
    """
    for part, result in sorted(parts.items()):
        if not part.startswith("result/") or v.TOOL_RESULT not in result.get(v.TYPE.value, ()):
            continue
        answered = [*result.get(v.TOOL_RESULT_OF.value, ()), *result.get(v.ANSWERS_COPY.value, ())]
        ends = _moment(result, v.TOOL_STARTED_AT), _moment(result, v.TOOL_ENDED_AT)
        told = *_origin(row, parts), text_of(result, v.IS_ERROR) == "true", v.REFUSED_BY.value in result, *ends
        for call_id in result.get(v.CALL_ID.value, ()):
            for call in [each.value for each in answered] or [None]:
                yield call_id.value, *told, call


def _brief(digest: str) -> bytes | str:
    """Return a digest as the bytes that its digits stand for; anything else as it is.

    >>> len(_brief("00ff" * 16)), _brief("urn:x")
    (32, 'urn:x')
    """
    return bytes.fromhex(digest) if len(digest) == _DIGEST and not set(digest) - _HEX else digest


_HEX: Final = frozenset("0123456789abcdef")


def by_part(statements: Iterable[Statement]) -> Parts:
    """Return statements of one turn by their part and predicate."""
    parts: dict[str, dict[str, list[Term]]] = {}
    for part, predicate, term in statements:
        parts.setdefault(part, {}).setdefault(predicate, []).append(term)
    return parts


def text_of(properties: _Properties, predicate: NamedNode) -> str:
    """Return the text that a property has; nothing for a redacted one."""
    for term in properties.get(predicate.value, ()):
        if isinstance(term, Literal) and term.datatype != v.REDACTED:
            return term.value
    return ""


def _moment(properties: _Properties, predicate: NamedNode) -> int | None:
    return next((micros(parse_time(each.value)) for each in properties.get(predicate.value, ())), None)


def _spent(model: _Properties) -> tuple[Any, ...]:
    usage = next((each for each in model.get(v.USAGE.value, ()) if each.datatype == v.JSON), None)  # type: ignore[union-attr] # literals
    return (None,) * 7 if usage is None else _reported(usage.value)


@lru_cache(maxsize=512)
def _reported(usage_json: str) -> tuple[Any, ...]:
    """Return the tokens of a usage, in the order of `Counts`, and the cost that it reports."""
    usage = stored_object(usage_json)
    cost = cost_of(usage)
    counts = counts_of(usage)
    return *(each and min(each, _MOST) for each in counts), None if cost is None else float(cost)


# --- sessions

PROMPT_LENGTH: Final = 200
"""Characters of a first prompt that are kept."""


def tie(session_id: str) -> int:
    """Return a short number that tells a session from others that are sorted by the same."""
    return int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:_TIE])


_TIE: Final = 5


def first_text(meta: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first text under some keys of metadata, on one line."""
    texts = (meta.get(key) for key in keys)
    return next((one_line(text) for text in texts if isinstance(text, str) and text.strip()), None)


def one_line(text: str) -> str:
    """Return a text with every run of white space as one space.

    >>> one_line(" a\\n  b ")
    'a b'
    """
    return " ".join(text.split())


def as_json(value: Any) -> str:
    """Return a metadata value as it is kept."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def project_name(project: str | None) -> str | None:
    """Return the name of a project's folder, which finds it, too.

    >>> project_name("/home/ada/tidepool"), project_name("/"), project_name(None)
    ('tidepool', '/', None)
    """
    return None if project is None else PurePath(project).name or project
