"""Encode turns as quads, and decode them.

What is written is exactly what can be read back: `verify` encodes what it decoded and compares the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError, TrailsError
from trails.model import iris, validation
from trails.model.validation import decodes, stored_object
from trails.model.values import (
    MAIN,
    NO_FACTS,
    Call,
    Compaction,
    ContextUsed,
    Derivation,
    Facts,
    ModelCall,
    PayloadReference,
    Quote,
    SealedTurn,
    ToolCall,
    ToolResult,
    Turn,
)
from trails.rdf import vocab
from trails.rdf import vocab as v
from trails.rdf.codec import Row, known_node, parse_time, short_literal, time_literal
from trails.usage import figures_of, older_figures_of

_JSON: Final = v.JSON.value
_REDACTED: Final = v.REDACTED.value


FIGURES: Final = {
    each.value.removeprefix(v.TRAILS): each
    for each in (
        v.INPUT_TOKENS,
        v.CACHE_READ_TOKENS,
        v.CACHE_WRITE_TOKENS,
        v.CACHE_WRITE_HOUR_TOKENS,
        v.OUTPUT_TOKENS,
        v.REASONING_TOKENS,
        v.TOTAL_TOKENS,
        v.COST,
    )
}
"""What is stored of a model call's usage beside its JSON text, by name."""


Field = tuple[str, NamedNode, Callable[[Any], NamedNode | Literal], Callable[[str], Any], NamedNode | None]
"""A field's name, its property, how it is written and read, and its property in a copy where that is another."""
_TEXT: Final = (Literal, str, None)
_NUMBER: Final = (v.integer, int, None)
_TIME: Final = (time_literal, parse_time, None)
_SUMMARY: Final[Sequence[Field]] = (
    ("summarised_through", v.SUMMARISED_THROUGH, *_NUMBER),
    ("first_kept", v.FIRST_KEPT, *_NUMBER),
    ("tokens_before", v.TOKENS_BEFORE, *_NUMBER),
    ("tokens_after", v.TOKENS_AFTER, *_NUMBER),
    ("summarised_from", v.SUMMARISED_FROM, *_NUMBER),
    ("summarised_turns", v.SUMMARISED_TURNS, *_NUMBER),
    ("trigger", v.TRIGGER, *_TEXT),
)
"""What stands with a summary,"""
_COMPACTION: Final[Sequence[Field]] = (
    ("previous_summary", v.USED, NamedNode, str, v.PREVIOUS_SUMMARY),
    ("max_summary_tokens", v.MAX_SUMMARY_TOKENS, *_NUMBER),
    ("max_summary_rule", v.MAX_SUMMARY_RULE, *_TEXT),
    ("duration_ms", v.DURATION_MS, *_NUMBER),
)
"""with the activity that made it,"""
_MODEL_CALL: Final[Sequence[Field]] = (
    ("model", v.MODEL, *_TEXT),
    ("stop_reason", v.STOP_REASON, *_TEXT),
    ("usage_json", v.USAGE, lambda text: Literal(text, datatype=v.JSON), str, None),
)
"""with a model call,"""
_CALL: Final[Sequence[Field]] = (
    ("started", v.STARTED_AT, time_literal, parse_time, v.KEPT_START),
    ("ended", v.ENDED_AT, time_literal, parse_time, v.KEPT_END),
    ("provider", v.PROVIDER, *_TEXT),
)
"""with what a host told of it,"""
_RESULT: Final[Sequence[Field]] = (
    ("started", v.TOOL_STARTED_AT, *_TIME),
    ("ended", v.TOOL_ENDED_AT, *_TIME),
    ("outcome", v.TOOL_OUTCOME, short_literal, str, None),
    ("approved_by", v.APPROVED_BY, known_node, str, None),
    ("refused_by", v.REFUSED_BY, known_node, str, None),
    ("tool_iri", v.TOOL_USED, known_node, str, None),
)
"""and with an answer of a tool."""


class Links(NamedTuple):
    """The IRIs of what a turn's model call was shown, as far as they are known: the turn holds an index and a version."""

    summary: str | None = None
    prompt: str | None = None


NO_LINKS: Final = Links()


def turn_type(turn: Turn) -> Quad:
    """Return the quad that says that a turn is there: what the writer of the next turn requires."""
    return Quad(NamedNode(turn.iri), v.TYPE, v.TURN, known_node(iris.session(turn.session_id)))


def content_literal(turn: Turn) -> Literal:
    """Return a turn's content as it is stored: xsd:string, rdf:JSON for parts, trails:Redacted after a redaction."""
    if turn.redacted:
        return Literal("", datatype=v.REDACTED)
    return Literal(turn.text, datatype=v.JSON) if turn.structured else Literal(turn.text)


def turn_quads(
    sealed: SealedTurn,
    answers: Mapping[str, str] | None = None,
    *,
    links: Links = NO_LINKS,
    copied: bool | None = None,
    of_copies: Collection[str] = (),
) -> list[Quad]:
    """Return the quads of a turn in its session's graph: ten for a plain one.

    `answers` gives the IRI of the tool call that each of the turn's results answers, by call id, where it is known;
    `of_copies` are those of them that stand with copied turns, `links` what its model call was shown. With `copied` (None:
    for a turn that quotes another), what is recorded of its model call and tool calls hangs on records that are no
    activities: those happened once, before.
    """
    turn = sealed.turn
    session_iri = iris.session(turn.session_id)
    graph = known_node(session_iri)
    iri = iris.turn(session_iri, turn.index, turn.digest)
    node = NamedNode(iri)
    quads = [
        Quad(node, v.TYPE, v.TURN, graph),
        Quad(node, v.TYPE, v.ENTITY, graph),
        Quad(node, v.INDEX, v.integer(turn.index), graph),
        Quad(node, v.ROLE, short_literal(turn.role), graph),
        Quad(node, v.BRANCH, short_literal(turn.branch), graph),
        Quad(node, v.VALUE, content_literal(turn), graph),
        Quad(node, v.ATTRIBUTED_TO, known_node(turn.author_iri), graph),
        Quad(node, v.DIGEST, Literal(turn.digest), graph),
        Quad(node, v.SALT, Literal(sealed.salt), graph),
    ]
    if turn.time is not None:
        quads.append(Quad(node, v.TIME, time_literal(turn.time), graph))
    if not turn.facts.is_empty():
        again = turn.facts.quoted_from is not None if copied is None else copied
        made_by = MadeBy(iri, turn.author_iri, turn.time)
        found = fact_triples(made_by, turn.facts, answers or {}, of_copies, links, copied=again)
        quads += [Quad(s, p, o, graph) for s, p, o in found]
    return quads


class MadeBy(NamedTuple):
    """A turn as its facts name it."""

    iri: str
    author_iri: str
    time: datetime | None


def fact_triples(
    turn: MadeBy,
    facts: Facts,
    answers: Mapping[str, str],
    of_copies: Collection[str] = (),
    links: Links = NO_LINKS,
    *,
    copied: bool = False,
) -> Iterator[Row]:
    """Yield what `turn_quads` writes of what is recorded with a turn beyond its text."""
    iri, node = turn.iri, NamedNode(turn.iri)
    for source_id in facts.source_ids:
        yield node, v.SOURCE_ID, Literal(source_id)
    if facts.meta_withheld:
        yield node, v.META, Literal(facts.meta_withheld, datatype=v.REDACTED)
    elif facts.meta_json is not None:
        yield node, v.META, Literal(facts.meta_json, datatype=v.JSON)
    yield from _origin_triples(node, facts)
    yield from _kept_digests(node, facts)
    if facts.compaction:
        yield from _compaction_triples(turn, facts.compaction, copied=copied)
    if facts.model_call:
        yield from _model_call_triples(iri, turn.author_iri, facts.model_call, links, copied=copied)
    for position, call in enumerate(facts.tool_calls):
        yield from _tool_call_triples(iri, position, call, copied=copied)
    for position, result in enumerate(facts.tool_results):
        asked = answers.get(result.call_id)
        again = copied or asked in of_copies
        yield from _tool_result_triples(iri, position, result, asked, copied=again)
    for position, payload in enumerate(facts.payloads):
        yield from _payload_triples(iri, position, payload)


def _origin_triples(node: NamedNode, facts: Facts) -> Iterator[Row]:
    if facts.quoted_from:
        yield node, v.QUOTED_FROM, NamedNode(facts.quoted_from.iri)
        yield node, v.QUOTED_DIGEST, Literal(facts.quoted_from.digest)
    if facts.derived_from:
        yield node, v.DERIVED_FROM, NamedNode(facts.derived_from.iri)
        yield node, v.RESULT_DIGEST, Literal(facts.derived_from.digest)


def _kept_digests(node: NamedNode, facts: Facts) -> Iterator[Row]:
    for predicate, digest in ((v.FACTS_DIGEST, facts.withheld), (v.CONTENT_DIGEST, facts.content_digest)):
        if digest:
            yield node, predicate, Literal(digest)


def _written(node: NamedNode, value: object, fields: Sequence[Field], *, copied: bool = False) -> Iterator[Row]:
    """Yield the fields of a value that are set."""
    for name, predicate, write, _, kept in fields:
        field = getattr(value, name)
        if field is not None:
            yield node, kept if copied and kept is not None else predicate, write(field)


def _compaction_triples(turn: MadeBy, compaction: Compaction, *, copied: bool) -> Iterator[Row]:
    """Yield a summary, and the activity that made it. Which turns it used follows from the indices, and is not stored."""
    yield NamedNode(turn.iri), v.TYPE, v.SUMMARY_TURN
    yield from _written(NamedNode(turn.iri), compaction, _SUMMARY)
    if not compaction.has_activity:
        return
    node = NamedNode(iris.compaction(turn.iri))
    yield from _made_by(turn.iri, node, v.COMPACTION_COPY if copied else v.COMPACTION, turn.author_iri, copied=copied)
    if turn.time is not None and not copied:
        yield node, v.ENDED_AT, time_literal(turn.time)
    if compaction.request_withheld:
        yield node, v.REQUEST, Literal(compaction.request_withheld, datatype=v.REDACTED)
    elif compaction.request is not None:
        yield node, v.REQUEST, Literal(compaction.request)
    yield from _written(node, compaction, _COMPACTION, copied=copied)


def _made_by(iri: str, node: NamedNode, kind: NamedNode, author_iri: str, *, copied: bool) -> Iterator[Row]:
    """Yield the edges of the activity that generated a turn, or of what a copied turn keeps of it."""
    yield node, v.TYPE, kind
    if copied:
        yield node, v.KEPT_WITH, NamedNode(iri)
    else:
        yield NamedNode(iri), v.GENERATED_BY, node
        yield node, v.ASSOCIATED_WITH, known_node(author_iri)


def _model_call_triples(iri: str, author_iri: str, call: ModelCall, links: Links, *, copied: bool) -> Iterator[Row]:
    """Yield a model call. A copy is no activity, so its times and its prompt have other names."""
    node = NamedNode(iris.model_call(iri))
    yield from _made_by(iri, node, v.MODEL_CALL_COPY if copied else v.MODEL_CALL, author_iri, copied=copied)
    yield from _written(node, call, _MODEL_CALL)
    if call.usage_json is not None:
        yield from ((node, predicate, number) for predicate, number in usage_facts(call.usage_json))
    if (told := call.call) is None:
        return
    yield from _written(node, told, _CALL, copied=copied)
    if told.prompt is not None and links.prompt is not None:
        yield node, v.KEPT_PROMPT if copied else v.USED_PROMPT, NamedNode(links.prompt)
    if (context := told.context) is None:
        return
    if context.through is not None:
        yield node, v.CONTEXT_THROUGH, v.integer(context.through)
    if context.summary is not None and links.summary is not None:
        yield node, v.SUMMARY_SHOWN, NamedNode(links.summary)
    for index in context.left_out:
        yield node, v.LEFT_OUT, v.integer(index)


@lru_cache(maxsize=512)
def usage_facts(usage_json: str) -> Sequence[tuple[NamedNode, Literal]]:
    """Return what is stored of a model call's usage beside its JSON text, so that queries can add it up.

    What is no count (see `token_count`), as an imported transcript may hold it, stays in the JSON text alone.
    """
    return figure_facts(figures_of(stored_object(usage_json)))


def figure_facts(figures: Mapping[str, int | Decimal]) -> list[tuple[NamedNode, Literal]]:
    """Return figures of a usage, by the names of their properties, as they are stored."""
    return [
        (FIGURES[name], v.integer(n) if isinstance(n, int) else Literal(validation.decimal(n), datatype=v.DECIMAL))
        for name, n in figures.items()
    ]


def _tool_call_triples(iri: str, position: int, call: ToolCall, *, copied: bool) -> Iterator[Row]:
    node = NamedNode(iris.tool_call(iri, position))
    yield node, v.TYPE, v.TOOL_CALL_COPY if copied else v.TOOL_CALL
    yield node, v.KEPT_WITH if copied else v.STARTED_BY, NamedNode(iri)
    yield node, v.CALL_ID, Literal(call.id)
    yield node, v.TOOL_NAME, short_literal(call.name)
    if call.withheld:
        yield node, v.ARGUMENTS, Literal(call.withheld, datatype=v.REDACTED)
    else:
        yield node, v.ARGUMENTS, Literal(call.arguments or "", datatype=v.JSON)


def _tool_result_triples(
    iri: str, position: int, result: ToolResult, call_iri: str | None, *, copied: bool
) -> Iterator[Row]:
    node = NamedNode(iris.tool_result(iri, position))
    yield NamedNode(iri), v.HAS_RESULT, node
    yield node, v.TYPE, v.TOOL_RESULT
    yield node, v.CALL_ID, Literal(result.call_id)
    yield node, v.IS_ERROR, Literal(result.is_error)
    if result.told:
        yield from _written(node, result, _RESULT)
    if call_iri is not None and copied:
        yield node, v.ANSWERS_COPY, NamedNode(call_iri)
    elif call_iri is not None:
        yield NamedNode(iri), v.GENERATED_BY, NamedNode(call_iri)
        yield node, v.TOOL_RESULT_OF, NamedNode(call_iri)


def _payload_triples(iri: str, position: int, payload: PayloadReference) -> Iterator[Row]:
    node = NamedNode(iris.payload_reference(iri, position))
    yield NamedNode(iri), v.HAS_PAYLOAD, node
    yield node, v.TYPE, v.PAYLOAD_REFERENCE
    if payload.name is not None:
        yield node, v.PAYLOAD_NAME, short_literal(payload.name)
    yield node, v.MEDIA_TYPE, short_literal(payload.media_type)
    yield node, v.BYTE_COUNT, v.integer(payload.size)
    if payload.withheld:
        yield node, v.PAYLOAD_DIGEST, Literal(payload.withheld, datatype=v.REDACTED)
    else:
        yield node, v.PAYLOAD_OF, NamedNode(iris.payload(payload.digest or ""))


FACT_PREDICATES: Final = (
    v.SOURCE_ID, v.META, v.SUMMARISED_THROUGH, v.FIRST_KEPT, v.TOKENS_BEFORE, v.TOKENS_AFTER, v.TRIGGER, v.MODEL,
    v.STOP_REASON, v.USAGE, v.CALL_ID, v.TOOL_NAME, v.ARGUMENTS, v.IS_ERROR, v.QUOTED_FROM, v.QUOTED_DIGEST,
    v.SUMMARISED_FROM, v.SUMMARISED_TURNS, v.REQUEST, v.MAX_SUMMARY_TOKENS, v.MAX_SUMMARY_RULE, v.DURATION_MS, v.USED,
    v.PREVIOUS_SUMMARY, v.DERIVED_FROM, v.RESULT_DIGEST, v.FACTS_DIGEST, v.STARTED_AT, v.ENDED_AT, v.KEPT_START, v.KEPT_END,
    v.PROVIDER, v.USED_PROMPT, v.KEPT_PROMPT, v.CONTEXT_THROUGH, v.SUMMARY_SHOWN, v.LEFT_OUT, v.TOOL_STARTED_AT,
    v.TOOL_ENDED_AT, v.TOOL_OUTCOME, v.APPROVED_BY, v.REFUSED_BY, v.TOOL_USED,
)  # fmt: skip
"""The predicates that `decode_facts` needs; the other quads of a turn's facts follow from these (and types)."""
PAYLOAD_PREDICATES: Final = (
    v.PAYLOAD_NAME, v.MEDIA_TYPE, v.BYTE_COUNT, v.PAYLOAD_OF, v.PAYLOAD_DIGEST, v.CONTENT_DIGEST,
)  # fmt: skip
"""The same of payloads, and of what was taken out of them or of metadata."""


@decodes
def decode_facts(rows: Iterable[tuple[str, str, Literal | NamedNode]]) -> dict[str, Facts]:
    """Return the facts of each turn, by the turn's IRI, from (subject, predicate, object) rows of a session's graph.

    Rows of a type are needed for `trails:SummaryTurn`, `trails:ModelCall` and `trails:ModelCallCopy` (they may carry
    nothing else).
    """
    turns: dict[str, dict[str, dict[str, list[Literal | NamedNode]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for subject, predicate, value in rows:
        turn_iri = iris.turn_of(subject)
        turns[turn_iri][subject[len(turn_iri) + 1 :]][predicate].append(value)
    return {turn_iri: facts_of_parts(parts) for turn_iri, parts in turns.items()}


def decode_turn(session_id: str, row: Iterable[Any], facts: Mapping[str, Facts]) -> Turn:
    """Return a turn from the terms that say its index, role, content, author, digest, time and branch, and its facts by its IRI.

    The last three may be None, in records from before there were any. Raises `ValueError` or `AttributeError` for terms of
    another kind.
    """
    index, role, value, author, digest, time, branch = row
    number = int(index.value)
    datatype = value.datatype.value
    hexadecimal = digest.value if digest is not None else ""
    return Turn.trusted(
        {
            "session_id": session_id,
            "index": number,
            "role": role.value,
            "branch": MAIN if branch is None else branch.value,
            "author_iri": author.value,
            "time": None if time is None else parse_time(time.value),
            "text": value.value,
            "structured": datatype == _JSON,
            "redacted": datatype == _REDACTED,
            "digest": hexadecimal,
            "old_iri": None,
            "facts": facts.get(iris.turn(iris.session(session_id), number, hexadecimal), NO_FACTS)
            if facts
            else NO_FACTS,
        }
    )


_Properties = Mapping[str, list[Literal | NamedNode]]


def _one(properties: _Properties, predicate: NamedNode) -> str | None:
    values = properties.get(predicate.value)
    return values[0].value if values else None


def _withheld(properties: _Properties, predicate: NamedNode) -> tuple[str | None, str | None]:
    """Return (text, None), or (None, digest) of a redacted one, or (None, None)."""
    for value in properties.get(predicate.value, []):
        if isinstance(value, Literal) and value.datatype == v.REDACTED:
            return None, value.value
        return value.value, None
    return None, None


def _numbered(parts: Mapping[str, _Properties], kind: str) -> list[_Properties]:
    if not parts:  # nearly all turns
        return []
    found = {int(name[len(kind) :]): properties for name, properties in parts.items() if name.startswith(kind)}
    return [found[position] for position in sorted(found)]


@decodes
def facts_of_parts(parts: Mapping[str, _Properties]) -> Facts:
    """Return the facts of a turn, given by what follows on its IRI in the subject, and by predicate, the objects."""
    own = parts.get("", {})
    meta, meta_withheld = _withheld(own, v.META)
    calls = []
    numbered = {name: properties for name, properties in parts.items() if "/" in name}
    for properties in _numbered(numbered, "call/"):
        arguments, withheld = _withheld(properties, v.ARGUMENTS)
        calls.append(
            ToolCall.trusted(
                {
                    "id": _one(properties, v.CALL_ID) or "",
                    "name": _one(properties, v.TOOL_NAME) or "",
                    "arguments": arguments,
                    "withheld": withheld,
                }
            )
        )
    facts = Facts.trusted(  # each part was checked when it was made, and the others are texts
        {
            "model_call": _model_call_of(parts["model"]) if "model" in parts else None,
            "tool_calls": tuple(calls),
            "tool_results": tuple(_tool_result_of(properties) for properties in _numbered(numbered, "result/")),
            "compaction": _compaction_of(own, parts.get("compaction", {})),
            "source_ids": tuple(sorted(value.value for value in own.get(v.SOURCE_ID.value, []))),
            "meta_json": meta,
            "meta_withheld": meta_withheld,
            "quoted_from": _quote_of(own),
            "derived_from": _derivation_of(own),
            "withheld": _one(own, v.FACTS_DIGEST),
            "content_digest": _one(own, v.CONTENT_DIGEST),
            "payloads": tuple(_payload_of(properties) for properties in _numbered(numbered, "payload/")),
        }
    )
    return NO_FACTS if facts.is_empty() else facts


def _read(properties: _Properties, fields: Sequence[Field]) -> dict[str, Any]:
    """Return the fields of a value that are stored."""
    found: dict[str, Any] = {}
    for name, predicate, _, read, kept in fields:
        lexical = _one(properties, predicate) or (None if kept is None else _one(properties, kept))
        if lexical is not None:
            found[name] = read(lexical)
    return found


def _model_call_of(properties: _Properties) -> ModelCall:
    call = None if _TOLD_OF_CALLS.isdisjoint(properties) else _call_of(properties)
    nothing = dict.fromkeys(("model", "usage_json", "stop_reason"))  # in the order of the fields
    return ModelCall.trusted({**nothing, **_read(properties, _MODEL_CALL), "call": call})


_TOLD_OF_CALLS: Final = frozenset(
    predicate.value
    for predicate in (
        v.STARTED_AT, v.ENDED_AT, v.KEPT_START, v.KEPT_END, v.PROVIDER, v.USED_PROMPT, v.KEPT_PROMPT, v.CONTEXT_THROUGH,
        v.SUMMARY_SHOWN, v.LEFT_OUT,
    )
)  # fmt: skip


def _call_of(properties: _Properties) -> Call:
    prompt = _one(properties, v.USED_PROMPT) or _one(properties, v.KEPT_PROMPT)
    summary, through = _one(properties, v.SUMMARY_SHOWN), _one(properties, v.CONTEXT_THROUGH)
    context = ContextUsed(
        through=None if through is None else int(through),
        summary=None if summary is None else iris.turn_index(summary),
        left_out=tuple(sorted(int(value.value) for value in properties.get(v.LEFT_OUT.value, []))),
    )
    return Call(
        **_read(properties, _CALL),
        prompt=None if prompt is None else iris.position(prompt),
        context=None if context == ContextUsed() else context,
    )


def _tool_result_of(properties: _Properties) -> ToolResult:
    call_id, is_error = _one(properties, v.CALL_ID) or "", _one(properties, v.IS_ERROR) == "true"
    told = _read(properties, _RESULT)
    if not told:
        return ToolResult.plain(call_id, is_error=is_error)
    tool = told.pop("tool_iri", None)
    name, server, version = (None, None, None) if tool is None else iris.tool_parts(tool)
    return ToolResult(call_id=call_id, is_error=is_error, tool=name, server=server, version=version, **told)


def _payload_of(properties: _Properties) -> PayloadReference:
    bytes_iri = _one(properties, v.PAYLOAD_OF)
    return PayloadReference.trusted(
        {
            "name": _one(properties, v.PAYLOAD_NAME),
            "media_type": _one(properties, v.MEDIA_TYPE) or "",
            "digest": None if bytes_iri is None else iris.payload_digest(bytes_iri),
            "size": int(_one(properties, v.BYTE_COUNT) or -1),
            "withheld": _one(properties, v.PAYLOAD_DIGEST),
        }
    )


def _compaction_of(properties: _Properties, activity: _Properties) -> Compaction | None:
    if not any(value == v.SUMMARY_TURN for value in properties.get(v.TYPE.value, [])):
        return None
    request, withheld = _withheld(activity, v.REQUEST)
    stored = _read(properties, _SUMMARY) | _read(activity, _COMPACTION)
    return Compaction(**stored, request=request, request_withheld=withheld)


def _source(properties: _Properties, link: NamedNode, digest: NamedNode, what: str) -> tuple[str, str] | None:
    source, said = _one(properties, link), _one(properties, digest)
    if source is None and said is None:
        return None
    if source is None or said is None:
        raise IntegrityError(f"a turn says only half of what it was {what} from ({source or said}): it was altered")
    return source, said


def _quote_of(properties: _Properties) -> Quote | None:
    if (found := _source(properties, v.QUOTED_FROM, v.QUOTED_DIGEST, "quoted")) is None:
        return None
    return Quote(session_id=iris.session_id(found[0]), index=iris.turn_index(found[0]), digest=found[1])


def _derivation_of(properties: _Properties) -> Derivation | None:
    if (found := _source(properties, v.DERIVED_FROM, v.RESULT_DIGEST, "made")) is None:
        return None
    result, digest = found
    owner, number = iris.session_id(result), iris.entry_number(result)
    if number is not None:
        return Derivation(session_id=owner, number=number, digest=digest)
    head = Derivation(session_id=owner, index=iris.turn_index(result), digest=digest)
    if head.iri != result:
        raise IntegrityError(f"a turn was made from {result}, which has not the digest that it names: it was altered")
    return head


_Fact = tuple[NamedNode, Literal]
_FIGURES: Final = frozenset(FIGURES.values())
COUNTED_USAGE: Final = (vocab.USAGE, *_FIGURES)
"""The properties that `recounts` reads."""


class Recount(NamedTuple):
    """A model call whose figures an earlier version counted."""

    call: Any
    """The call, as it was given."""
    usage: str
    """The reported usage, as JSON text."""
    stored: Sequence[_Fact]
    right: Sequence[_Fact]


def find_recounts(facts: Iterable[tuple[Any, NamedNode, Any]]) -> Iterator[Recount]:
    """Yield the calls among some facts whose figures stand as an earlier version counted them, and no longer are right.

    `facts` are (subject, property, value). Figures that no version counts so were altered: they are not among these.
    """
    usages: dict[Any, str] = {}
    stored: dict[Any, list[_Fact]] = defaultdict(list)
    for subject, prop, value in facts:
        if prop == vocab.USAGE and value.datatype == vocab.JSON:
            usages[subject] = value.value
        elif prop in _FIGURES:
            stored[subject].append((prop, value))
    for subject, usage in usages.items():
        figures = stored.get(subject, [])
        try:
            right = usage_facts(usage)
            if set(figures) != set(right) and set(figures) == set(figure_facts(older_figures_of(stored_object(usage)))):
                yield Recount(subject, usage, figures, right)
        except (TrailsError, ValueError):  # a usage that Trails never writes
            continue
