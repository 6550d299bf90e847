"""A turn on its way in: checked and frozen at `append`, its digest made anew whenever what it chains to changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from trails import iris, parts, roles, validate
from trails.errors import InvalidInput
from trails.integrity import digests
from trails.model import (
    NO_FACTS,
    Call,
    Compaction,
    Derivation,
    Facts,
    ModelCall,
    SessionRecord,
    ToolCall,
    ToolResult,
    Turn,
)
from trails.plumbing import actors, told

_HUMAN_ROLES = frozenset({"user", "human"})
ANSWERING: Final = frozenset({"tool", "toolResult"})
"""The roles of answers to tool calls: many tools have nothing to say."""


class Draft(NamedTuple):
    """Everything about a turn but its place in a session. Salt and time are drawn once, so a retry writes the same turn."""

    role: str
    text: str
    structured: bool
    time: datetime | None
    author_iri: str | None
    facts: Facts
    salt: str
    is_now: bool = False
    """Whether nobody gave its time, so that it has that of its making."""

    def says_nothing(self, content: object) -> bool:
        """Tell whether nothing is in its content, as it was given, and nothing else tells what happened.

        What tells it is a call, an answer, a compaction, or what a model was asked.
        """
        if parts.holds_anything(content) or self.role in ANSWERING:
            return False
        facts = self.facts
        call = facts.model_call
        asked = call is not None and (call.usage_json is not None or call.stop_reason is not None)
        return not (asked or facts.tool_calls or facts.tool_results or facts.compaction)

    def turn(self, record: SessionRecord, index: int, previous: str) -> Turn:
        """Return the turn that this draft is at an index of a session, after the turn with the digest `previous`."""
        author_iri = self.author_iri or default_author(record, self.role)
        return Turn.trusted(
            {
                "session_id": record.id,
                "index": index,
                "role": self.role,
                "branch": record.branch,
                "author_iri": author_iri,
                "time": self.time,
                "text": self.text,
                "structured": self.structured,
                "redacted": False,
                "old_iri": None,
                "facts": self.facts,
                "digest": digests.turn_digest(
                    previous=previous,
                    index=index,
                    branch=record.branch,
                    role=self.role,
                    author=iris.author_key(author_iri),
                    time=self.time,
                    content=digests.content_digest(self.text, self.salt, structured=self.structured),
                    facts=digests.facts_digest(self.facts, self.salt),
                ),
            }
        )


def default_author(record: SessionRecord, role: str) -> str:
    """Return whom a turn is attributed to: what a human says to the session's principal, else to its agent.

    What answers a call of a tool known from the turns before is that tool's: see `settling.settled`.
    """
    return iris.principal(record.principal) if role in _HUMAN_ROLES else iris.agent(record.agent)


def make(
    role: object,
    content: object,
    *,
    author: str | None = None,
    time: datetime | None = None,
    timed: bool = True,
    model: str | None = None,
    usage: Mapping[str, Any] | None = None,
    stop_reason: str | None = None,
    tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
    tool_call_id: str | None = None,
    is_error: bool = False,
    tool_results: Iterable[ToolResult | Mapping[str, Any]] = (),
    call: Call | None = None,
    compaction: Compaction | None = None,
    source_ids: Iterable[str] = (),
    meta: Mapping[str, Any] | None = None,
) -> Draft:
    """Check everything about a turn and return it as a draft; raise `InvalidInput` for what cannot be kept.

    Tool calls and results that stand among structured parts are found there; `tool_calls` and `tool_call_id` give
    those of a turn whose content is plain text. `tool_results` tells more of results, or gives them. `timed=False` is for
    imported records that have no time.
    """
    text, structured = validate.content(content)
    calls = parts.given_calls(tool_calls) if tool_calls else ()
    results: tuple[ToolResult, ...] = ()
    if structured and not isinstance(content, str):
        found: Any = content
        calls = (*parts.calls_in(found), *calls)
        results = parts.results_in(found)
    if tool_call_id is not None:
        results = (*results, ToolResult(call_id=validate.name(tool_call_id, "tool_call_id"), is_error=bool(is_error)))
    if tool_results:
        results = told.results(tool_results, results)
    if compaction is not None and not isinstance(compaction, Compaction):
        raise InvalidInput(f"compaction must be a Compaction, not {type(compaction).__name__}")
    sources = validate.source_ids(source_ids) if source_ids else ()
    for said in (compaction.request, compaction.trigger, compaction.max_summary_rule) if compaction else ():
        validate.text(said or "", "what is said of a compaction")
    made_by, meta_json = _model_call(model, usage, stop_reason, call), validate.meta(meta)
    facts = NO_FACTS
    if made_by or calls or results or compaction or sources or meta_json is not None:
        facts = Facts(
            model_call=made_by,
            tool_calls=calls,
            tool_results=results,
            compaction=compaction,
            source_ids=sources,
            meta_json=meta_json,
        )
    if time is not None:
        moment: datetime | None = validate.time(time)
    else:
        moment = datetime.now(UTC) if timed else None
    return Draft(
        role=validate.role(role),
        text=text,
        structured=structured,
        time=moment,
        author_iri=actors.named(author),
        facts=facts,
        salt=digests.new_salt(),
        is_now=timed and time is None,
    )


def checked(session_id: str, role: str, content: Any, options: Mapping[str, Any]) -> Draft:
    """Return a turn that may be appended; raise `InvalidInput` for what cannot be kept, and for an empty one."""
    validate.usage_counts(options.get("usage"))
    roles.checked(role, content)
    made = make(role, content, **options)
    if made.says_nothing(content):
        raise InvalidInput(
            f"the turn for session {session_id!r} is empty: give it a text, parts, or the tool calls that it makes"
        )
    return made


def _model_call(
    model: str | None, usage: Mapping[str, Any] | None, stop_reason: str | None, call: Call | None
) -> ModelCall | None:
    if model is None and usage is None and stop_reason is None and call is None:
        return None
    return ModelCall(
        model=None if model is None else validate.name(model, "model"),
        usage_json=validate.usage(usage),
        stop_reason=None if stop_reason is None else validate.name(stop_reason, "stop_reason"),
        call=told.call(call),
    )


def derived(
    role: str, content: object, source: Derivation, *, author: str | None = None, time: datetime | None = None
) -> Draft:
    """Return the draft of a turn that was made from a result or from the outcome of a branch (prov:wasDerivedFrom)."""
    made = make(role, content, author=author, time=time)
    return made._replace(facts=made.facts.model_copy(update={"derived_from": source}))
