"""What a new turn is by the turns before it: whose answer it is, and whether what its model was shown is there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from trails import iris, lineage
from trails.errors import InvalidInput
from trails.model import Call, SessionRecord, ToolCall, ToolResult, Turn
from trails.plumbing.draft import ANSWERING, Draft, default_author


def settled(made: Draft, turns: Sequence[Turn], newest_prompt: Callable[[], int]) -> Draft:
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


def author(record: SessionRecord, turn: Turn, before: Sequence[Turn]) -> str:
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
