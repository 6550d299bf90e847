"""Between frozen values and quads: both directions, pure. What is written is exactly what can be read back.

Turns go to their session's graph, session records to the catalog. `verify` relies on this module being exact: it
encodes what it decoded and compares the two.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from trails import iris, validate
from trails import vocab as v
from trails.decoding import decodes
from trails.errors import IntegrityError
from trails.model import (
    INPUT_TOKEN_NAMES,
    MAIN,
    NO_FACTS,
    OUTPUT_TOKEN_NAMES,
    Compaction,
    Derivation,
    Facts,
    ModelCall,
    Quote,
    SealedTurn,
    SessionRecord,
    SystemPrompt,
    ToolCall,
    ToolResult,
    Turn,
)

Term = NamedNode | Literal | BlankNode | Triple
Graph = NamedNode | DefaultGraph | BlankNode

_TOKEN_FIELDS: Final = (
    (v.INPUT_TOKENS, INPUT_TOKEN_NAMES),
    (v.OUTPUT_TOKENS, OUTPUT_TOKEN_NAMES),
    (
        v.CACHE_READ_TOKENS,
        (
            "cache_read_input_tokens",
            "cache_read_tokens",
            "cacheRead",
            "cached",
            "cached_input_tokens",
            "cache_read.input_tokens",
        ),
    ),
    (
        v.CACHE_WRITE_TOKENS,
        ("cache_creation_input_tokens", "cache_write_tokens", "cacheWrite", "cache_creation.input_tokens"),
    ),
    (v.TOTAL_TOKENS, ("total_tokens", "totalTokens", "total")),
)
"""Which names of token counts, as their sources report them, become which property."""


def time_literal(time: datetime) -> Literal:
    """Return a time as xsd:dateTime in the engine's own canonical form: UTC, `Z`, no trailing zeros."""
    plain = (time if time.tzinfo is UTC else time.astimezone(UTC)).isoformat(timespec="microseconds")
    return Literal(plain[:-6].rstrip("0").rstrip(".") + "Z", datatype=v.DATE_TIME)


def parse_time(lexical: str) -> datetime:
    """Return the aware UTC time that an xsd:dateTime stands for; raise `IntegrityError` for what Trails never writes."""
    try:
        time = datetime.fromisoformat(lexical)
        return time if time.tzinfo is UTC else validate.time(time)
    except ValueError as error:
        raise IntegrityError(f"{lexical!r} is stored as a time and is none in UTC: the store was altered") from error


@lru_cache(maxsize=4096)
def _short(text: str) -> Literal:
    return Literal(text)


@lru_cache(maxsize=4096)
def _node(iri: str) -> NamedNode:
    return NamedNode(iri)


def turn_type(turn: Turn) -> Quad:
    """Return the quad that says that a turn is there: what the writer of the next turn requires."""
    return Quad(NamedNode(turn.iri), v.TYPE, v.TURN, _node(iris.session(turn.session_id)))


def content_literal(turn: Turn) -> Literal:
    """Return a turn's content as it is stored: xsd:string, rdf:JSON for parts, trails:Redacted after a redaction."""
    if turn.redacted:
        return Literal("", datatype=v.REDACTED)
    return Literal(turn.text, datatype=v.JSON) if turn.structured else Literal(turn.text)


def turn_quads(sealed: SealedTurn, answers: Mapping[str, str] | None = None) -> list[Quad]:
    """Return the quads of a turn in its session's graph: ten for a plain one.

    `answers` gives the IRI of the tool call that each of the turn's results answers, by call id, where it is known.
    """
    turn = sealed.turn
    session_iri = iris.session(turn.session_id)
    graph = _node(session_iri)
    iri = iris.turn(session_iri, turn.index, turn.digest)
    node = NamedNode(iri)
    quads = [
        Quad(node, v.TYPE, v.TURN, graph),
        Quad(node, v.TYPE, v.ENTITY, graph),
        Quad(node, v.INDEX, v.integer(turn.index), graph),
        Quad(node, v.ROLE, _short(turn.role), graph),
        Quad(node, v.BRANCH, _short(turn.branch), graph),
        Quad(node, v.VALUE, content_literal(turn), graph),
        Quad(node, v.ATTRIBUTED_TO, _node(turn.author_iri), graph),
        Quad(node, v.DIGEST, Literal(turn.digest), graph),
        Quad(node, v.SALT, Literal(sealed.salt), graph),
    ]
    if turn.time is not None:
        quads.append(Quad(node, v.TIME, time_literal(turn.time), graph))
    if not turn.facts.is_empty():
        quads += [Quad(s, p, o, graph) for s, p, o in _fact_triples(iri, turn, answers or {})]
    return quads


_Row = tuple[NamedNode, NamedNode, NamedNode | Literal]


def _fact_triples(iri: str, turn: Turn, answers: Mapping[str, str]) -> Iterator[_Row]:
    facts, node = turn.facts, NamedNode(iri)
    for source_id in facts.source_ids:
        yield node, v.SOURCE_ID, Literal(source_id)
    if facts.meta_withheld:
        yield node, v.META, Literal(facts.meta_withheld, datatype=v.REDACTED)
    elif facts.meta_json is not None:
        yield node, v.META, Literal(facts.meta_json, datatype=v.JSON)
    yield from _origin_triples(node, facts)
    if facts.withheld:
        yield node, v.FACTS_DIGEST, Literal(facts.withheld)
    if facts.compaction:
        yield from _compaction_triples(node, facts.compaction)
        if facts.compaction.has_activity:
            yield from _compacting_triples(iri, turn, facts.compaction)
    if facts.model_call:
        yield from _model_call_triples(iri, turn.author_iri, facts.model_call)
    for position, call in enumerate(facts.tool_calls):
        yield from _tool_call_triples(iri, position, call)
    for position, result in enumerate(facts.tool_results):
        yield from _tool_result_triples(iri, position, result, answers.get(result.call_id))


def _origin_triples(node: NamedNode, facts: Facts) -> Iterator[_Row]:
    if facts.quoted_from:
        yield node, v.QUOTED_FROM, NamedNode(facts.quoted_from.iri)
        yield node, v.QUOTED_DIGEST, Literal(facts.quoted_from.digest)
    if facts.derived_from:
        yield node, v.DERIVED_FROM, NamedNode(facts.derived_from.iri)
        yield node, v.RESULT_DIGEST, Literal(facts.derived_from.digest)


def _compaction_triples(node: NamedNode, compaction: Compaction) -> Iterator[_Row]:
    yield node, v.TYPE, v.SUMMARY_TURN
    for predicate, number in (
        (v.SUMMARISED_THROUGH, compaction.summarised_through),
        (v.FIRST_KEPT, compaction.first_kept),
        (v.TOKENS_BEFORE, compaction.tokens_before),
        (v.TOKENS_AFTER, compaction.tokens_after),
        (v.SUMMARISED_FROM, compaction.summarised_from),
        (v.SUMMARISED_TURNS, compaction.summarised_turns),
    ):
        if number is not None:
            yield node, predicate, v.integer(number)
    if compaction.trigger is not None:
        yield node, v.TRIGGER, Literal(compaction.trigger)


def _compacting_triples(iri: str, turn: Turn, compaction: Compaction) -> Iterator[_Row]:
    """Yield the activity that made a summary. Which turns it used follows from the indices, and is not stored."""
    node = NamedNode(iris.compaction(iri))
    yield NamedNode(iri), v.GENERATED_BY, node
    yield node, v.TYPE, v.COMPACTION
    yield node, v.ASSOCIATED_WITH, _node(turn.author_iri)
    if turn.time is not None:
        yield node, v.ENDED_AT, time_literal(turn.time)
    if compaction.previous_summary is not None:
        yield node, v.USED, NamedNode(compaction.previous_summary)
    if compaction.request_withheld:
        yield node, v.REQUEST, Literal(compaction.request_withheld, datatype=v.REDACTED)
    elif compaction.request is not None:
        yield node, v.REQUEST, Literal(compaction.request)
    if compaction.max_summary_tokens is not None:
        yield node, v.MAX_SUMMARY_TOKENS, v.integer(compaction.max_summary_tokens)
    if compaction.max_summary_rule is not None:
        yield node, v.MAX_SUMMARY_RULE, _short(compaction.max_summary_rule)
    if compaction.duration_ms is not None:
        yield node, v.DURATION_MS, v.integer(compaction.duration_ms)


def _model_call_triples(iri: str, author_iri: str, call: ModelCall) -> Iterator[_Row]:
    node = NamedNode(iris.model_call(iri))
    yield NamedNode(iri), v.GENERATED_BY, node
    yield node, v.TYPE, v.MODEL_CALL
    yield node, v.ASSOCIATED_WITH, _node(author_iri)
    if call.model is not None:
        yield node, v.MODEL, Literal(call.model)
    if call.stop_reason is not None:
        yield node, v.STOP_REASON, Literal(call.stop_reason)
    if call.usage_json is not None:
        yield node, v.USAGE, Literal(call.usage_json, datatype=v.JSON)
        yield from ((node, predicate, number) for predicate, number in usage_facts(call.usage))


def _number(value: Any) -> Literal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Literal(value) if isinstance(value, int) else Literal(validate.decimal(value), datatype=v.DECIMAL)


def usage_facts(usage: Mapping[str, Any]) -> Iterator[tuple[NamedNode, Literal]]:
    """Yield what is stored of a model call's usage beside its JSON text, so that queries can add it up."""
    for predicate, names in _TOKEN_FIELDS:
        found = next((usage[name] for name in names if isinstance(usage.get(name), int)), None)
        if (literal := _number(found)) is not None:
            yield predicate, literal
    cost = usage.get("cost")
    if (literal := _number(cost.get("total") if isinstance(cost, Mapping) else cost)) is not None:
        yield v.COST, literal


def _tool_call_triples(iri: str, position: int, call: ToolCall) -> Iterator[_Row]:
    node = NamedNode(iris.tool_call(iri, position))
    yield node, v.TYPE, v.TOOL_CALL
    yield node, v.STARTED_BY, NamedNode(iri)
    yield node, v.CALL_ID, Literal(call.id)
    yield node, v.TOOL_NAME, _short(call.name)
    if call.withheld:
        yield node, v.ARGUMENTS, Literal(call.withheld, datatype=v.REDACTED)
    else:
        yield node, v.ARGUMENTS, Literal(call.arguments or "", datatype=v.JSON)


def _tool_result_triples(iri: str, position: int, result: ToolResult, call_iri: str | None) -> Iterator[_Row]:
    node = NamedNode(iris.tool_result(iri, position))
    yield NamedNode(iri), v.HAS_RESULT, node
    yield node, v.TYPE, v.TOOL_RESULT
    yield node, v.CALL_ID, Literal(result.call_id)
    yield node, v.IS_ERROR, Literal(result.is_error)
    if call_iri is not None:
        yield NamedNode(iri), v.GENERATED_BY, NamedNode(call_iri)
        yield node, v.TOOL_RESULT_OF, NamedNode(call_iri)


FACT_PREDICATES: Final = (
    v.SOURCE_ID, v.META, v.SUMMARISED_THROUGH, v.FIRST_KEPT, v.TOKENS_BEFORE, v.TOKENS_AFTER, v.TRIGGER, v.MODEL,
    v.STOP_REASON, v.USAGE, v.CALL_ID, v.TOOL_NAME, v.ARGUMENTS, v.IS_ERROR, v.QUOTED_FROM, v.QUOTED_DIGEST,
    v.SUMMARISED_FROM, v.SUMMARISED_TURNS, v.REQUEST, v.MAX_SUMMARY_TOKENS, v.MAX_SUMMARY_RULE, v.DURATION_MS, v.USED,
    v.DERIVED_FROM, v.RESULT_DIGEST, v.FACTS_DIGEST,
)  # fmt: skip
"""The predicates that `decode_facts` needs; the other quads of a turn's facts follow from these (and types)."""


@decodes
def decode_facts(rows: Iterable[tuple[str, str, Literal | NamedNode]]) -> dict[str, Facts]:
    """Return the facts of each turn, by the turn's IRI, from (subject, predicate, object) rows of a session's graph.

    Rows of a type are needed for `trails:SummaryTurn` and `trails:ModelCall` (they may carry nothing else).
    """
    turns: dict[str, dict[str, dict[str, list[Literal | NamedNode]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for subject, predicate, value in rows:
        turn_iri = iris.turn_of(subject)
        turns[turn_iri][subject[len(turn_iri) + 1 :]][predicate].append(value)
    return {turn_iri: _facts_of(parts) for turn_iri, parts in turns.items()}


_Properties = Mapping[str, list[Literal | NamedNode]]


def _one(properties: _Properties, predicate: NamedNode) -> str | None:
    values = properties.get(predicate.value)
    return values[0].value if values else None


def _int(properties: _Properties, predicate: NamedNode) -> int | None:
    lexical = _one(properties, predicate)
    return None if lexical is None else int(lexical)


def _withheld(properties: _Properties, predicate: NamedNode) -> tuple[str | None, str | None]:
    """Return (text, None), or (None, digest) of a redacted one, or (None, None)."""
    for value in properties.get(predicate.value, []):
        if isinstance(value, Literal) and value.datatype == v.REDACTED:
            return None, value.value
        return value.value, None
    return None, None


def _numbered(parts: Mapping[str, _Properties], kind: str) -> list[_Properties]:
    found = {int(name[len(kind) :]): properties for name, properties in parts.items() if name.startswith(kind)}
    return [found[position] for position in sorted(found)]


def _facts_of(parts: Mapping[str, _Properties]) -> Facts:
    own = parts.get("", {})
    meta, meta_withheld = _withheld(own, v.META)
    calls = []
    for properties in _numbered(parts, "call/"):
        arguments, withheld = _withheld(properties, v.ARGUMENTS)
        calls.append(
            ToolCall(
                id=_one(properties, v.CALL_ID) or "",
                name=_one(properties, v.TOOL_NAME) or "",
                arguments=arguments,
                withheld=withheld,
            )
        )
    facts = Facts(
        model_call=_model_call_of(parts["model"]) if "model" in parts else None,
        tool_calls=tuple(calls),
        tool_results=tuple(
            ToolResult(call_id=_one(properties, v.CALL_ID) or "", is_error=_one(properties, v.IS_ERROR) == "true")
            for properties in _numbered(parts, "result/")
        ),
        compaction=_compaction_of(own, parts.get("compaction", {})),
        source_ids=tuple(sorted(value.value for value in own.get(v.SOURCE_ID.value, []))),
        meta_json=meta,
        meta_withheld=meta_withheld,
        quoted_from=_quote_of(own),
        derived_from=_derivation_of(own),
        withheld=_one(own, v.FACTS_DIGEST),
    )
    return NO_FACTS if facts.is_empty() else facts


def _model_call_of(properties: _Properties) -> ModelCall:
    return ModelCall(
        model=_one(properties, v.MODEL),
        usage_json=_one(properties, v.USAGE),
        stop_reason=_one(properties, v.STOP_REASON),
    )


def _compaction_of(properties: _Properties, activity: _Properties) -> Compaction | None:
    if not any(value == v.SUMMARY_TURN for value in properties.get(v.TYPE.value, [])):
        return None
    request, withheld = _withheld(activity, v.REQUEST)
    return Compaction(
        summarised_through=_int(properties, v.SUMMARISED_THROUGH),
        first_kept=_int(properties, v.FIRST_KEPT),
        tokens_before=_int(properties, v.TOKENS_BEFORE),
        tokens_after=_int(properties, v.TOKENS_AFTER),
        trigger=_one(properties, v.TRIGGER),
        summarised_from=_int(properties, v.SUMMARISED_FROM),
        summarised_turns=_int(properties, v.SUMMARISED_TURNS),
        previous_summary=_one(activity, v.USED),
        request=request,
        request_withheld=withheld,
        max_summary_tokens=_int(activity, v.MAX_SUMMARY_TOKENS),
        max_summary_rule=_one(activity, v.MAX_SUMMARY_RULE),
        duration_ms=_int(activity, v.DURATION_MS),
    )


def _quote_of(properties: _Properties) -> Quote | None:
    source, digest = _one(properties, v.QUOTED_FROM), _one(properties, v.QUOTED_DIGEST)
    if source is None and digest is None:
        return None
    if source is None or digest is None:
        raise IntegrityError(f"a turn says only half of what it was quoted from ({source or digest}): it was altered")
    return Quote(session_id=iris.session_id(source), index=iris.turn_index(source), digest=digest)


def _derivation_of(properties: _Properties) -> Derivation | None:
    result, digest = _one(properties, v.DERIVED_FROM), _one(properties, v.RESULT_DIGEST)
    if result is None and digest is None:
        return None
    number = None if result is None else iris.entry_number(result)
    if result is None or digest is None or number is None:
        raise IntegrityError(f"a turn says only half of the result that it was made from ({result or digest})")
    return Derivation(session_id=iris.session_id(result), number=number, digest=digest)


def session_quads(record: SessionRecord) -> list[Quad]:
    """Return a session's row in the catalog, with its principal and agent: at most 12 quads for a fork (design),
    beside its label, metadata and, where they are new, two quads that say what the principal and the agent are.
    """
    node, catalog = NamedNode(record.iri), v.CATALOG
    principal, agent = _node(iris.principal(record.principal)), _node(iris.agent(record.agent))
    rows: list[_Row] = [
        (node, v.TYPE, v.SESSION),
        (node, v.BRANCH, Literal(record.branch)),
        (node, v.ATTRIBUTED_TO, principal),
        (node, v.SESSION_AGENT, agent),
        (node, v.STATE, _short(record.state)),
        (principal, v.TYPE, v.PRINCIPAL),
        (agent, v.TYPE, v.AGENT),
    ]
    if record.parent_session_id is not None:
        rows.append((node, v.PARENT_SESSION, NamedNode(iris.session(record.parent_session_id))))
        rows.append((node, v.FORKED_AT_INDEX, v.integer(record.forked_at_index or 0)))
        rows.append((node, v.FORK_HEAD, Literal(record.fork_head or "")))
    if record.spawned_by is not None:
        rows.append((node, v.SPAWNED_BY, NamedNode(iris.session(record.spawned_by))))
    if record.created is not None:
        rows.append((node, v.TIME, time_literal(record.created)))
    if record.system_version:
        rows.append((node, v.SYSTEM_VERSION, v.integer(record.system_version)))
    rows += [
        (node, predicate, time_literal(moment))
        for predicate, moment in ((v.EXPIRES_AT, record.expires), (v.ENDS_BY, record.ends_by))
        if moment is not None
    ]
    rows += [
        (node, predicate, Literal(text))
        for predicate, text in (
            (v.KIND, record.kind),
            (v.LABEL, record.label),
            (v.KEY, record.key),
            (v.SOURCE_SESSION, record.source_session),
            (v.CHANNEL, record.channel),
            (v.SLOT, record.slot),
            (v.TIER, record.tier),
        )
        if text is not None
    ]
    rows += [(node, NamedNode(iris.meta(key)), meta_literal(value)) for key, value in record.meta.items()]
    return [Quad(s, p, o, catalog) for s, p, o in rows]


def meta_literal(value: Any) -> Literal:
    """Return a metadata value as a typed literal: string, boolean, integer, double, or rdf:JSON for anything nested."""
    if isinstance(value, int) and not isinstance(value, bool):
        return v.integer(value)
    if isinstance(value, str | bool | float):
        return Literal(value)
    return Literal(validate.to_json(value, "meta"), datatype=v.JSON)


@decodes
def meta_value(literal: Literal) -> Any:
    """Return the Python value of a metadata literal."""
    match literal.datatype:
        case v.BOOLEAN:
            return literal.value == "true"
        case v.INTEGER:
            return int(literal.value)
        case v.DOUBLE:
            return float(literal.value)
        case v.JSON:
            return json.loads(literal.value)
        case _:
            return literal.value


@decodes
def decode_records(rows: Iterable[tuple[str, str, Term]]) -> dict[str, SessionRecord]:
    """Return session records by session id from (session IRI, predicate IRI, object) rows of the catalog.

    A subject without the type `trails:Session` is left out (a parent that is gone). Records from before forks existed
    have no parent, fork index or branch: they are roots on "main". Two parents raise `IntegrityError`.
    """
    subjects: dict[str, dict[str, list[Term]]] = defaultdict(lambda: defaultdict(list))
    for subject, predicate, value in rows:
        subjects[subject][predicate].append(value)
    return {
        iris.session_id(subject): _record(iris.session_id(subject), properties)
        for subject, properties in subjects.items()
        if v.SESSION in properties.get(v.TYPE.value, [])
    }


def _record(session_id: str, properties: Mapping[str, list[Term]]) -> SessionRecord:
    def one(predicate: NamedNode) -> str | None:
        values = properties.get(predicate.value, [])
        if len(values) > 1:
            shown = ", ".join(sorted(str(value) for value in values))
            raise IntegrityError(
                f"session {session_id!r} has {len(values)} values for {predicate.value}: {shown}; one is right: "
                "restore the session from an export or a backup, or remove the wrong ones"
            )
        return getattr(values[0], "value", str(values[0])) if values else None

    def number(predicate: NamedNode) -> int | None:
        lexical = one(predicate)
        if lexical is None:
            return None
        if not lexical.isdecimal():
            raise IntegrityError(f"session {session_id!r} has {lexical!r} for {predicate.value}, not a number from 0")
        return int(lexical)

    def session_ref(predicate: NamedNode) -> str | None:
        iri = one(predicate)
        return None if iri is None else iris.session_id(iri)

    parent, forked_at = session_ref(v.PARENT_SESSION), number(v.FORKED_AT_INDEX)
    if (parent is None) != (forked_at is None):
        raise IntegrityError(
            f"session {session_id!r} has {'no parent' if parent is None else 'a parent'} and "
            f"{'no fork index' if forked_at is None else 'a fork index'}: its row was altered; restore it from an export"
        )

    def moment(predicate: NamedNode) -> datetime | None:
        lexical = one(predicate)
        return None if lexical is None else parse_time(lexical)

    meta = {
        key: meta_value(values[0])
        for predicate, values in sorted(properties.items())
        if (key := iris.meta_key(predicate)) is not None and isinstance(values[0], Literal)
    }
    return SessionRecord(
        id=session_id,
        parent_session_id=parent,
        forked_at_index=forked_at,
        fork_head=one(v.FORK_HEAD),
        spawned_by=session_ref(v.SPAWNED_BY),
        branch=one(v.BRANCH) or MAIN,
        principal=iris.author_name(one(v.ATTRIBUTED_TO) or iris.principal(DEFAULT_PRINCIPAL)),
        agent=iris.author_name(one(v.SESSION_AGENT) or iris.agent(DEFAULT_AGENT)),
        kind=one(v.KIND),
        state=one(v.STATE) or "active",
        created=moment(v.TIME),
        label=one(v.LABEL),
        key=one(v.KEY),
        system_version=number(v.SYSTEM_VERSION) or 0,
        source_session=one(v.SOURCE_SESSION),
        channel=one(v.CHANNEL),
        slot=one(v.SLOT),
        tier=one(v.TIER),
        expires=moment(v.EXPIRES_AT),
        ends_by=moment(v.ENDS_BY),
        meta_json=validate.meta(meta),
    )


DEFAULT_PRINCIPAL: Final = "anonymous"
DEFAULT_AGENT: Final = "agent"


def prompt_quads(prompt: SystemPrompt) -> list[Quad]:
    """Return the quads of one version of a system prompt, in the catalog."""
    session_iri = iris.session(prompt.session_id)
    node = NamedNode(iris.system_prompt(session_iri, prompt.version))
    rows: list[_Row] = [
        (node, v.TYPE, v.SYSTEM_PROMPT),
        (node, v.PROMPT_OF, NamedNode(session_iri)),
        (node, v.VERSION, v.integer(prompt.version)),
        (node, v.EFFECTIVE_FROM, v.integer(prompt.effective_from)),
        (node, v.VALUE, Literal("", datatype=v.REDACTED) if prompt.redacted else Literal(prompt.text)),
        (node, v.DIGEST, Literal(prompt.digest)),
        (node, v.SALT, Literal(prompt.salt)),
    ]
    if prompt.time is not None:
        rows.append((node, v.TIME, time_literal(prompt.time)))
    return [Quad(s, p, o, v.CATALOG) for s, p, o in rows]


def tombstone_quads(session_id: str, time: datetime, by: str) -> list[Quad]:
    """Return what stays of a deleted session: a tombstone, and the Deletion activity that says who and when."""
    session_iri = iris.session(session_id)
    node, deletion = NamedNode(session_iri), NamedNode(iris.deletion(session_iri))
    who, when = _node(iris.principal(by)), time_literal(time)
    rows: list[_Row] = [
        (node, v.TYPE, v.TOMBSTONE),
        (node, v.DELETED_AT, when),
        (node, v.INVALIDATED_BY, deletion),
        (deletion, v.TYPE, v.DELETION),
        (deletion, v.ENDED_AT, when),
        (deletion, v.ASSOCIATED_WITH, who),
        (who, v.TYPE, v.PRINCIPAL),
    ]
    return [Quad(s, p, o, v.CATALOG) for s, p, o in rows]
