"""Links between spans and turns, both ways, and what spans that start in a block name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, TraceFlags
from pyoxigraph import Literal

from trails.exchange.merge import imported_id
from trails.exchange.traces import otlp
from trails.model import iris, validation
from trails.model.values import Turn
from trails.rdf import vocab
from trails.session import Repository, Session

SESSION: Final = "trails.session.id"
TURN: Final = "trails.turn.iri"
INDEX: Final = "trails.turn.index"
KEPT: Final = "trails.session.kept_by_program"
"""Stamped on spans of a session that the program writes itself: the exporter makes no turns of them."""
_CONVERSATIONS: Final = ("gen_ai.conversation.id", "session.id")
_SESSION_KEY: Final = contexts.create_key("trails-session")
_CONVERSATION_KEY: Final = contexts.create_key("trails-conversation")


def turn_attributes(turn: Turn) -> dict[str, str | int]:
    """Return the attributes that name a turn on a span: `trails.session.id`, `trails.turn.index` and `trails.turn.iri`.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     session = store.create(id="plan"); turn = session.append("user", "Plan a trip"); _ = session.persist()
    ...     {name: value for name, value in turn_attributes(turn).items() if name != "trails.turn.iri"}
    {'trails.session.id': 'plan', 'trails.turn.index': 0}
    """
    return {SESSION: turn.session_id, INDEX: turn.index, TURN: turn.iri}


def turn_link(turn: Turn) -> Link | None:
    """Return a link to the span that a turn comes from, with `turn_attributes`; None if its metadata names no span."""
    place = turn.meta.get("trace"), turn.meta.get("span")
    try:
        trace_id, span_id = (int(str(each), 16) for each in place)
    except ValueError:
        return None
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return Link(context, turn_attributes(turn)) if context.is_valid else None


def span_meta(span: Span | None = None) -> dict[str, str]:
    """Return the metadata that names a span, by default the current one, on a turn: `append(..., meta=span_meta())`.

    It is empty if there is no span.
    """
    context = (trace.get_current_span() if span is None else span).get_span_context()
    return {"trace": f"{context.trace_id:032x}", "span": f"{context.span_id:016x}"} if context.is_valid else {}


def find_turn(store: Repository, trace_id: int | str, span_id: int | str) -> Turn | None:
    """Return the turn that the exporter made of a span: a model's first answer, or a tool's result; None if there is none.

    Ids are numbers, or hexadecimal digits.
    """
    place = "/".join(
        each if isinstance(each, str) else f"{each:0{digits}x}" for each, digits in ((trace_id, 32), (span_id, 16))
    )
    for source_id in (f"{place}/out/0", place):
        for quad in store.store.quads((None, vocab.SOURCE_ID, Literal(source_id), None)):
            iri: str = quad.subject.value  # type: ignore[union-attr] # a turn's IRI
            return store.load(iris.session_id(iri))[iris.turn_index(iri)]
    return None


@contextmanager
def in_conversation(conversation_id: str) -> Iterator[None]:
    """Let the spans that start in the block name this conversation, if they name no other one. Needs `TrailsSpanProcessor`.

    Raises `InvalidInput` for an id that is empty or no text.
    """
    name = validation.name(conversation_id, "conversation_id")
    token = contexts.attach(contexts.set_value(_CONVERSATION_KEY, name))
    try:
        yield
    finally:
        contexts.detach(token)


@contextmanager
def in_session(session: Session) -> Iterator[None]:
    """Let the spans that start in the block name a session that the program writes itself, and the turn that comes next.

    The exporter makes no turns of these spans: the program stores what they say. Needs `TrailsSpanProcessor`.
    """
    token = contexts.attach(contexts.set_value(_SESSION_KEY, session))
    try:
        yield
    finally:
        contexts.detach(token)


def stamps(span: Span, parent_context: Context | None) -> dict[str, Any]:
    """Return the attributes that a span gets as it starts: its conversation and session, as what is around it says."""
    session = contexts.get_value(_SESSION_KEY, parent_context)
    if isinstance(session, Session):
        return {SESSION: session.id, INDEX: len(session), KEPT: True}
    own, above = _attributes(span), _attributes(trace.get_current_span(parent_context))
    given = contexts.get_value(_CONVERSATION_KEY, parent_context)
    named = next((str(own[key]) for key in _CONVERSATIONS if own.get(key)), None)
    inherited = given or next((above[key] for key in _CONVERSATIONS if above.get(key)), None)
    found: dict[str, Any] = {}
    if named is None and isinstance(inherited, str):
        named = found["gen_ai.conversation.id"] = inherited
    return found if named is None else {**found, SESSION: imported_id(otlp.SOURCE, named)}


def _attributes(span: object) -> Any:
    return getattr(span, "attributes", None) or {}
