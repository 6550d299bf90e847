"""Build, check and screen new turns.

A turn is checked and frozen at `append`, and its digest is made anew whenever what it chains to changes. The turns
before it say whose answer it is, and whether the context that its model was shown is there. A turn with a secret is
refused, or a mark replaces the secret, before anything is hashed or stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from trails.errors import InvalidInput, SecretFound
from trails.integrity import digests
from trails.model import content_parts, iris, lineage, validation
from trails.model.file_versions import check_path, is_file
from trails.model.validation import InvalidFields
from trails.model.values import (
    NO_FACTS,
    Call,
    Compaction,
    ContextUsed,
    Derivation,
    Facts,
    ModelCall,
    Payload,
    PayloadReference,
    SessionRecord,
    ToolCall,
    ToolResult,
    Turn,
)
from trails.rdf import activity_records

if TYPE_CHECKING:
    from trails.secrets import Secret

_ALL: Final = ContextUsed()
_FIELDS: Final = frozenset(ToolResult.model_fields)


def check_call_metadata(given: Call | None) -> Call | None:
    """Return what is told of a model call as it is kept, None for nothing; raise `InvalidInput` for what cannot be."""
    if given is None:
        return None
    if not isinstance(given, Call):
        raise InvalidInput(f"call must be a trails.Call, not {type(given).__name__}")
    started, ended = _span(given.started, given.ended, "the model call")
    if given.prompt is not None and validation.index(given.prompt, "the version of the system prompt") == 0:
        raise InvalidInput("the versions of a system prompt are counted from 1; leave prompt out where there was none")
    values = {
        "started": started,
        "ended": ended,
        "provider": None if given.provider is None else validation.name(given.provider, "provider"),
        "prompt": given.prompt,
        "context": None if given.context is None else _context(given.context),
    }
    return None if all(value is None for value in values.values()) else Call.trusted(values)


def _context(given: ContextUsed) -> ContextUsed | None:
    if given == _ALL:
        return None
    for index in (given.through, given.summary, *given.left_out):
        if index is not None:
            validation.index(index, "the index of a turn in the context")
    return given.model_copy(update={"left_out": tuple(sorted(set(given.left_out)))})


def _span(started: datetime | None, ended: datetime | None, what: str) -> tuple[datetime | None, datetime | None]:
    """Return two times in UTC; raise `InvalidInput` where the end comes before the start."""
    first = None if started is None else validation.time(started, "started")
    last = None if ended is None else validation.time(ended, "ended")
    if first is not None and last is not None and first > last:
        raise InvalidInput(f"{what} ended at {last.isoformat()}, before it started at {first.isoformat()}")
    return first, last


# --- answers to tool calls


def check_result_metadata(
    given: Iterable[ToolResult | Mapping[str, Any]], found: Sequence[ToolResult]
) -> tuple[ToolResult, ...]:
    """Return a turn's answers: those `found` in its content, with what is told of them, then the others that are `given`."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"tool results must be several mappings or ToolResults, not {type(given).__name__}")
    told: dict[str, ToolResult] = {}
    for each in map(_result, given):
        if each.call_id in told:
            raise InvalidInput(f"the tool results tell of the call {each.call_id!r} twice; tell all of it in one")
        told[each.call_id] = each
    joined = []
    for answer in found:
        more = told.pop(answer.call_id, None)
        is_error = answer.is_error or (more is not None and more.is_error)
        joined.append(answer if more is None else more.model_copy(update={"is_error": is_error}))
    return (*joined, *told.values())


def _result(given: ToolResult | Mapping[str, Any]) -> ToolResult:
    if isinstance(given, Mapping):
        if unknown := sorted(str(key) for key in given if key not in _FIELDS):
            raise InvalidInput(f"a tool result has no {unknown[0]!r}; it has {', '.join(sorted(_FIELDS))}")
        try:
            given = ToolResult(**given)
        except InvalidFields as error:
            raise InvalidInput(f"a tool result cannot be kept: {error}") from error
    if not isinstance(given, ToolResult):
        raise InvalidInput(f"a tool result must be a mapping or a ToolResult, not {type(given).__name__}")
    call_id = validation.name(given.call_id, "a tool result's call_id")
    started, ended = _span(given.started, given.ended, f"the tool call {call_id!r}")
    names = {
        name: None if text is None else validation.name(text, f"a tool's {name}")
        for name, text in (("server", given.server), ("version", given.version), ("tool", given.tool))
    }
    people = {
        "approved_by": activity_records.named_actor(given.approved_by, "approved_by"),
        "refused_by": activity_records.named_actor(given.refused_by, "refused_by"),
    }
    return given.model_copy(update={"started": started, "ended": ended, **names, **people})


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
    payloads: tuple[Payload, ...] = ()
    """The bytes of its payloads, in their order; none where the store has them already."""

    def says_nothing(self, content: object) -> bool:
        """Tell whether nothing is in its content, as it was given, and nothing else tells what happened.

        What tells it is a call, an answer, a compaction, a payload, or what a model was asked.
        """
        if content_parts.holds_anything(content) or self.role in ANSWERING:
            return False
        facts = self.facts
        call = facts.model_call
        asked = call is not None and (call.usage_json is not None or call.stop_reason is not None)
        return not (asked or facts.tool_calls or facts.tool_results or facts.compaction or facts.payloads)

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

    What answers a call of a tool known from the turns before is that tool's: see `settle_draft`.
    """
    return iris.principal(record.principal) if role in _HUMAN_ROLES else iris.agent(record.agent)


def make_draft(
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
    as_content: bool = False,
    payloads: Iterable[Payload] = (),
) -> Draft:
    """Check everything about a turn and return it as a draft; raise `InvalidInput` for what cannot be kept.

    Tool calls and results that stand among structured parts are found there, unless they are given `as_content`;
    `tool_calls` and `tool_call_id` give those of a turn whose content is plain text. `tool_results` tells more of results,
    or gives them. `timed=False` is for imported records that have no time.
    """
    text, structured = validation.content(content)
    calls = content_parts.given_calls(tool_calls) if tool_calls else ()
    results: tuple[ToolResult, ...] = ()
    if structured and not isinstance(content, str) and not as_content:
        found: Any = content
        calls = (*content_parts.calls_in(found), *calls)
        results = content_parts.results_in(found)
    if tool_call_id is not None:
        results = (*results, ToolResult(call_id=validation.name(tool_call_id, "tool_call_id"), is_error=bool(is_error)))
    if tool_results:
        results = check_result_metadata(tool_results, results)
    if compaction is not None and not isinstance(compaction, Compaction):
        raise InvalidInput(f"compaction must be a Compaction, not {type(compaction).__name__}")
    sources = validation.source_ids(source_ids) if source_ids else ()
    for said in (compaction.request, compaction.trigger, compaction.max_summary_rule) if compaction else ():
        validation.text(said or "", "what is said of a compaction")
    made_by, meta_json = _model_call(model, usage, stop_reason, call), validation.meta(meta)
    carried = check_payloads(payloads) if payloads != () else ()
    facts = NO_FACTS
    if made_by or calls or results or compaction or sources or carried or meta_json is not None:
        facts = Facts(
            model_call=made_by,
            tool_calls=calls,
            tool_results=results,
            compaction=compaction,
            source_ids=sources,
            meta_json=meta_json,
            payloads=tuple(map(_reference, carried)),
        )
    if time is not None:
        moment: datetime | None = validation.time(time)
    else:
        moment = datetime.now(UTC) if timed else None
    return Draft(
        role=validation.role(role),
        text=text,
        structured=structured,
        time=moment,
        author_iri=activity_records.named_actor(author),
        facts=facts,
        salt=digests.new_salt(),
        is_now=timed and time is None,
        payloads=carried,
    )


MAX_PAYLOAD: Final = 256 << 20
"""Bytes that one payload may have: a commit holds all of it in memory several times."""


def check_payloads(given: object) -> tuple[Payload, ...]:
    """Return the payloads of a turn; raise `InvalidInput` for what is none, or is too large."""
    if isinstance(given, Payload | bytes | str | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"payloads must be several trails.Payload, not {type(given).__name__}")
    carried = tuple(given)
    for each in carried:
        if not isinstance(each, Payload):
            raise InvalidInput(f"a payload must be a trails.Payload, not {type(each).__name__}")
        if len(each.data) > MAX_PAYLOAD:
            raise InvalidInput(
                f"a payload has at most {MAX_PAYLOAD:,} bytes, and this one has {len(each.data):,}; keep it in a file, and "
                "its name in the turn"
            )
        validation.name(each.media_type, "the media type of a payload")
        if is_file(each):
            check_path(each.name)
        elif each.name is not None:
            validation.name(each.name, "the name of a payload")
    return carried


def _reference(payload: Payload) -> PayloadReference:
    return PayloadReference(
        name=payload.name, media_type=payload.media_type, digest=payload.digest, size=len(payload.data)
    )


def check_fields(session_id: str, role: str, content: Any, options: Mapping[str, Any]) -> Draft:
    """Return a turn that may be appended; raise `InvalidInput` for what cannot be kept, and for an empty one."""
    validation.usage_counts(options.get("usage"))
    validation.check_role(role, content)
    made = make_draft(role, content, **options)
    if made.says_nothing(content) and not options.get("as_content"):
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
        model=None if model is None else validation.name(model, "model"),
        usage_json=validation.usage(usage),
        stop_reason=None if stop_reason is None else validation.name(stop_reason, "stop_reason"),
        call=check_call_metadata(call),
    )


def check_derivation(
    role: str, content: object, source: Derivation, *, author: str | None = None, time: datetime | None = None
) -> Draft:
    """Return the draft of a turn that was made from a result or from the outcome of a branch (prov:wasDerivedFrom)."""
    made = make_draft(role, content, author=author, time=time)
    return made._replace(facts=made.facts.model_copy(update={"derived_from": source}))


def settle_draft(made: Draft, turns: Sequence[Turn], newest_prompt: Callable[[], int]) -> Draft:
    """Return a draft that comes after some turns, with all that follows of these: its tool, its author, its time.

    An answer in the role of a tool is its tool's where it answers calls of one tool, and nobody else is named. A turn of
    which it is told when its call, or all of its tools, ended is from then, unless it has a time. Raises `InvalidInput` for
    a context that is not among the turns before it, for a system prompt that is not there, and for a time that the model
    call does not span.
    """
    made_by = made.facts.model_call
    if made_by is not None and made_by.call is not None and made.facts.quoted_from is None:
        made = _during(made, made_by.call)
        _check_shown(made_by.call, turns, newest_prompt)
    return _answering(made, turns) if made.facts.tool_results else made


def _during(made: Draft, told: Call) -> Draft:
    if made.is_now and told.ended is not None:
        made = made._replace(time=told.ended)
    if made.time is None:
        return made
    early = told.started is not None and made.time < told.started
    if early or (told.ended is not None and made.time > told.ended):
        told_of = told.started if early else told.ended
        raise InvalidInput(
            f"the turn is from {made.time.isoformat()}, and the model call that generated it "
            f"{'started' if early else 'ended'} at {told_of.isoformat() if told_of else ''}: give it a time in between, or none"
        )
    return made


def _check_shown(told: Call, turns: Sequence[Turn], newest_prompt: Callable[[], int]) -> None:
    if told.prompt is not None and told.prompt > (newest := newest_prompt()):
        there = f"its newest is {newest}" if newest else "it has none"
        raise InvalidInput(f"the session has no version {told.prompt} of its system prompt to have been sent; {there}")
    if (context := told.context) is None:
        return
    last = len(turns) - 1 if context.through is None else context.through
    for what, index in (
        ("through", context.through),
        ("summary", context.summary),
        *(("left_out", i) for i in context.left_out),
    ):
        if index is not None and index >= len(turns):
            raise InvalidInput(
                f"the context says {what} {index}, and only {len(turns)} turns come before the answer, counted from 0"
            )
    first = context.summary or 0
    if context.summary is not None and turns[first].compaction is None:
        raise InvalidInput(f"the context says that it begins at summary {first}, and turn {first} is no summary")
    outside = [i for i in context.left_out if not first <= i <= last or i == context.summary]
    if first > last or outside:
        wrong = f"left out {outside[0]}" if outside else f"the summary {first}"
        raise InvalidInput(
            f"the context ends with turn {last}, and begins with turn {first}, which it shows: {wrong} does not fit that"
        )


def _answering(made: Draft, turns: Sequence[Turn]) -> Draft:
    answers = made.facts.tool_results
    asked = lineage.asked_for(turns, {each.call_id for each in answers})
    named = tuple(_with_tool(each, asked[each.call_id].name if each.call_id in asked else None) for each in answers)
    if named != answers:
        made = made._replace(facts=made.facts.model_copy(update={"tool_results": named}))
    if made.role not in ANSWERING:
        return made
    if made.author_iri is None:
        made = made._replace(author_iri=_only_tool(named, asked))
    ends = [each.ended for each in named if each.ended is not None]
    return made._replace(time=max(ends)) if made.is_now and len(ends) == len(named) else made


def author_by_role(record: SessionRecord, turn: Turn, before: Sequence[Turn]) -> str:
    """Return the IRI of whom a turn would be attributed to after some turns if nobody were named for it."""
    asked = lineage.asked_for(before, {each.call_id for each in turn.tool_results}) if turn.role in ANSWERING else {}
    return (_only_tool(turn.tool_results, asked) if turn.role in ANSWERING else None) or default_author(
        record, turn.role
    )


def _only_tool(answers: Iterable[ToolResult], asked: Mapping[str, ToolCall]) -> str | None:
    """Return the IRI of the tool whose answers these are, where it is one and known."""
    tools = {_tool(each, asked[each.call_id].name if each.call_id in asked else None) for each in answers}
    return tools.pop() if len(tools) == 1 else None


def _with_tool(answer: ToolResult, name: str | None) -> ToolResult:
    """Return an answer with its tool's name, where its server or its version is told."""
    if answer.tool is not None or (answer.server is None and answer.version is None):
        return answer
    if name is None:
        raise InvalidInput(
            f"the server or version of a tool is told with the answer to {answer.call_id!r}, which no turn before it called: "
            "give the tool's name too (tool=)"
        )
    return answer.model_copy(update={"tool": name})


def _tool(answer: ToolResult, name: str | None) -> str | None:
    """Return the IRI of the tool whose answer it is, as far as that is known."""
    if answer.tool_iri is not None:
        return answer.tool_iri
    return None if name is None else iris.tool(name)


Screening = Literal["refuse", "redact", "off"]
"""What becomes of a turn in which a secret is found."""
_KINDS: Final = get_args(Screening)


def check_screening(scan: object) -> Screening | None:
    """Return how turns are screened, or None where that is not said; raise `InvalidInput` for anything else."""
    for kind in _KINDS:
        if scan == kind:
            return kind  # type: ignore[no-any-return] # one of the literals
    if scan is not None:
        raise InvalidInput(f'scan is "refuse", "redact" or "off", not {scan!r:.80}')
    return None


def screen_draft(made: Draft, scan: Screening | None, session_id: str) -> Draft:
    """Return a turn without its secrets; with "refuse", raise `SecretFound` for the first of them."""
    if scan is None or scan == "off" or (found := next(_secrets(made), None)) is None:
        return made
    if made.facts.quoted_from is not None:
        raise _found(*found, session_id, "redact the turn that it repeats")
    if scan == "refuse":
        raise _found(*found, session_id, 'take it out, or append with scan="redact"')
    return _redacted(made)


def screen_prompt(text: str, scan: Screening | None, session_id: str) -> str:
    """Return a system prompt without its secrets; with "refuse", raise `SecretFound` for the first of them."""
    if scan is None or scan == "off":
        return text
    from trails.secrets import detector, redact  # noqa: PLC0415 - see `_secrets`

    if scan == "refuse" and (found := detector()(text)):
        raise _found("system prompt", found[0], session_id, "take it out")
    return redact(text, detector())


def _found(where: str, secret: Secret, session_id: str, remedy: str) -> SecretFound:
    return SecretFound(
        f"session {session_id!r} was given what looks like a secret ({secret.kind}), in the {where}; nothing was appended: "
        f'{remedy}. What is no secret is appended with scan="off"',
        kind=secret.kind,
        where=where,
    )


def _secrets(made: Draft) -> Iterator[tuple[str, Secret]]:
    """Yield the secrets of a turn, each with where it stands."""
    from trails.secrets import detector, secrets_in_json  # noqa: PLC0415 - its patterns take a while to compile
    from trails.secrets.hidden_texts import secrets_hidden  # noqa: PLC0415 - as above

    look, facts = detector(), made.facts
    yield from (("content", secret) for secret in ([] if made.structured else look(made.text)))
    model_call = facts.model_call
    for where, text in (
        ("content", made.text if made.structured else None),
        *((f"arguments of a call of {call.name!r:.40}", call.arguments) for call in facts.tool_calls),
        ("metadata", facts.meta_json),
        ("usage", model_call and model_call.usage_json),
        ("model's name", model_call and model_call.model),
        ("stop reason", model_call and model_call.stop_reason),
        ("request for a summary", facts.compaction and facts.compaction.request),
    ):
        yield from ((where, secret) for _, secret in secrets_in_json(text or "", look))
    for payload in made.payloads:
        where = "payload" if payload.name is None else f"payload {payload.name!r:.40}"
        yield from ((where, secret) for _, secret in secrets_hidden(payload.data, look))


def _redacted(made: Draft) -> Draft:
    from trails.secrets import detector, redact, redact_json  # noqa: PLC0415 - see `_secrets`
    from trails.secrets.hidden_texts import without_secrets  # noqa: PLC0415 - as above

    look, facts = detector(), made.facts

    def without(text: str | None) -> str | None:
        return text and redact_json(text, look)

    changes: dict[str, Any] = {
        "meta_json": without(facts.meta_json),
        "tool_calls": tuple(
            call.model_copy(update={"arguments": without(call.arguments)}) for call in facts.tool_calls
        ),
    }
    if (call := facts.model_call) is not None:
        names = ("usage_json", "model", "stop_reason")
        changes["model_call"] = call.model_copy(update={name: without(getattr(call, name)) for name in names})
    if (compaction := facts.compaction) is not None:
        changes["compaction"] = compaction.model_copy(update={"request": without(compaction.request)})
    if made.payloads:
        carried = tuple(each.model_copy(update={"data": without_secrets(each.data, look)}) for each in made.payloads)
        made = made._replace(payloads=carried)
        changes["payloads"] = tuple(map(_reference, carried))
    text = redact_json(made.text, look) if made.structured else redact(made.text, look)
    return made._replace(text=text, facts=facts if facts is NO_FACTS else facts.model_copy(update=changes))
