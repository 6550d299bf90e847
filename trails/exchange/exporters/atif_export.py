"""A session as an ATIF trajectory (Harbor's RFC 0001, version 1.7), with the sessions that it spawned as its sub-agents'.

A step is what was said and what came back, so answers stand with the step that asked. A fork is a trajectory of its own, which
begins with the steps that it inherits, marked as copied. What came from a trajectory goes back into the fields that it had.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

from trails.context.messages import HEADINGS, Message, Picture, Thought, messages_of, text_of
from trails.errors import InvalidInput
from trails.exchange.exporters.session_family import Family, Member, SessionExport, author_name, prompt_text, report
from trails.exchange.json_files import as_object, without_null
from trails.history.annotation_kinds import newest_scores
from trails.model.values import ToolCall, Turn
from trails.rdf.score_records import Score
from trails.usage import total

FORMAT: Final = "atif"
VERSION: Final = "ATIF-v1.7"
_SOURCE: Final = "atif:"
"""What the source of a session begins with that was imported from a trajectory."""
_SOURCES: Final = {"assistant": "agent", "user": "user", "system": "system"}
_OF_A_ROOT: Final = ("session_id", "trajectory_id", "notes", "final_metrics", "continued_trajectory_ref", "extra")
_OF_A_STEP: Final = ("reasoning_effort", "llm_call_count", "extra")
_ALWAYS: Final = (
    "authors, times of results, salts, tags, notes, earlier scores, and forks (each is a trajectory of its own)",
)
_LOST: Final = {
    "payload": "bytes beside the content",
    "summary turn": "as what a user said",
    "image": "as the word [image]",
    "argument": "no object, so under the name `value`",
    "result": "apart from the step that asked, the call's id beside it",
    "score of several turns": "left out",
    "spawned session": "without turns, so without a trajectory",
}

_Json = dict[str, Any]


def export(family: Family, out: BinaryIO) -> SessionExport:
    """Write the session that was asked for as one JSON file and return what was written.

    Raises `InvalidInput` for one without turns: a trajectory has one step at least.
    """
    lost: Counter[str] = Counter()
    (member,) = family.asked()
    root = _trajectory(family, member, lost)
    if not root["steps"]:
        raise InvalidInput(f"session {member.record.id!r} has no turns, and a trajectory has one step at least")
    out.write(json.dumps(root, ensure_ascii=False, indent=1).encode() + b"\n")
    return report(FORMAT, family, _ALWAYS, _LOST, lost)


def _trajectory(family: Family, member: Member, lost: Counter[str]) -> _Json:
    record, turns = member.record, family.transcript(member)
    came = (record.source_session or "").startswith(_SOURCE)
    meta: Mapping[str, Any] = record.meta if came else {}
    models = Counter(turn.model for turn in turns if turn.model)
    model = meta.get("model") or (models.most_common(1)[0][0] if models else None)
    agent = {"name": record.agent, "version": "unknown", **({"model_name": model} if model else {})}
    root: _Json = {"schema_version": VERSION, "session_id": record.id, "trajectory_id": record.id}
    root["agent"] = agent | as_object(meta.get("agent"))
    if isinstance(tools := record.meta.get("tools"), list):
        root["agent"].setdefault("tool_definitions", tools)
    steps = _Steps(record.id, came=came, lost=lost)
    if member.prompt is not None:
        steps.say("system", prompt_text(member.prompt))
    places: dict[int, tuple[int, int | None]] = {}
    for turn in turns:
        steps.add(turn)
        places[turn.index] = steps.place(turn)
    root["steps"] = steps.steps
    root |= {name: meta[name] for name in _OF_A_ROOT if name in meta}
    if "final_metrics" not in root:
        root["final_metrics"] = _totals(turns, len(steps.steps))
    is_fork = record.parent_session_id is not None
    fork = {"forked_from": record.parent_session_id, "forked_at_turn": record.starts_at} if is_fork else {}
    given = list(_scores(family, member, turns, places, lost))
    if own := fork | ({"scores": given} if given else {}):
        root["extra"] = {**as_object(root.get("extra")), "trails": own}
    inner = [_trajectory(each, one, lost) for each in family.spawned.get(record.id, ()) for one in each.asked()]
    lost["spawned session"] += sum(not each["steps"] for each in inner)
    if inner := [each for each in inner if each["steps"]]:
        root["subagent_trajectories"] = inner
    return root


def _scores(
    family: Family,
    member: Member,
    turns: Sequence[Turn],
    places: Mapping[int, tuple[int, int | None]],
    lost: Counter[str],
) -> Iterator[_Json]:
    """Yield the scores of a session and its turns that count; `places` says at which step, and result of it, a turn stands."""
    yield from (_score(score) for score in newest_scores(member.scores))
    for turn in turns:
        for score in newest_scores(family.scores.get(turn.digest, ())):
            if score.start != score.end - 1:
                lost["score of several turns"] += 1
                continue
            step, result = places[turn.index]
            yield _score(score) | {"step_id": step} | ({} if result is None else {"result": result})


def _score(score: Score) -> _Json:
    told = {"name": score.name, "value": score.value, "by": author_name(score.by_iri), "time": score.time.isoformat()}
    return without_null(told | {"version": score.version, "reason": score.reason})


def _totals(turns: Sequence[Turn], steps: int) -> _Json:
    calls = [turn.facts.model_call for turn in turns if turn.facts.model_call]
    counts = [call.counts for call in calls]
    cost = total(call.reported[2] for call in calls)
    names = {"prompt": "prompt", "completion": "output", "cached": "cache_read"}
    tokens = {f"total_{name}_tokens": total(getattr(each, own) for each in counts) for name, own in names.items()}
    return without_null({**tokens, "total_cost_usd": None if cost is None else float(cost), "total_steps": steps})


class _Steps:
    """The steps of one trajectory, as they are made turn by turn."""

    def __init__(self, session_id: str, *, came: bool, lost: Counter[str]) -> None:
        self.steps: list[_Json] = []
        self._owner, self._came, self._lost = session_id, came, lost
        self._asking: _Json | None = None
        """The last step, while what follows may be what came back of it."""

    def say(self, source: str, text: str) -> _Json:
        """Add a step that says a text, and return it."""
        made = {"step_id": len(self.steps) + 1, "source": source, "message": text}
        self.steps.append(made)
        self._asking = made
        return made

    def place(self, turn: Turn) -> tuple[int, int | None]:
        """Return the step at which the turn that was added last ends, and which of its results that is, from 1."""
        results = self.steps[-1].get("observation", {}).get("results", ())
        return len(self.steps), len(results) if turn.role == "tool" and results else None

    def add(self, turn: Turn) -> None:
        """Add what a turn makes: a step, or a result of the last one, or several."""
        self._lost["summary turn"] += turn.role in HEADINGS
        self._lost["payload"] += len(turn.payloads)
        messages = messages_of(turn)
        if not messages and turn.role == "tool":
            messages = [Message("tool", call_id=turn.tool_results[0].call_id if turn.tool_results else None)]
        has_spoken = False
        for message in messages:
            if message.role == "tool":
                self._answer(turn, message)
            else:
                self._step(turn, message, first=not has_spoken)
                has_spoken = True
        if not messages:  # nothing is shown of it, and it is a step all the same
            self._step(turn, Message("assistant" if turn.role == "assistant" else "user"), first=True)

    def _step(self, turn: Turn, message: Message, *, first: bool) -> None:
        role = turn.role if turn.role in _SOURCES and not message.calls else message.role
        step = self.say(_SOURCES[role], self._text(message))
        if turn.time is not None:
            step["timestamp"] = turn.time.isoformat().replace("+00:00", "Z")
        if turn.session_id != self._owner:
            step["is_copied_context"] = True
        if step["source"] == "agent":
            self._of_an_agent(step, turn, message, first=first)
        meta = turn.meta
        if self._came:
            step |= {name: meta[name] for name in _OF_A_STEP if name in meta}
        elif turn.role not in _SOURCES or meta:
            step["extra"] = {"trails": {"role": turn.role, **({"meta": meta} if meta else {})}}

    def _of_an_agent(self, step: _Json, turn: Turn, message: Message, *, first: bool) -> None:
        if turn.model is not None:
            step["model_name"] = turn.model
        if thoughts := [text for piece in message.pieces if isinstance(piece, Thought) for text in _thought(piece)]:
            step["reasoning_content"] = "\n".join(thoughts)
        beside = as_object(turn.meta.get("tool_calls")) if self._came else {}
        if message.calls:
            step["tool_calls"] = [self._call(call) | as_object(beside.get(call.id)) for call in message.calls]
        if first and turn.session_id == self._owner and (metrics := self._metrics(turn)):
            step["metrics"] = metrics

    def _metrics(self, turn: Turn) -> _Json:
        made: _Json = {}
        if turn.facts.model_call is not None and turn.usage:
            counts, cost = turn.facts.model_call.counts, turn.facts.model_call.reported[2]
            told = {"prompt_tokens": counts.prompt, "completion_tokens": counts.output}
            made = without_null(told | {"cached_tokens": counts.cache_read})
            if cost is not None:
                price = turn.usage.get("cost")
                made["cost_usd"] = price if isinstance(price, int | float) else float(cost)
            beside = {"cache_creation_input_tokens": counts.cache_write, "reasoning_tokens": counts.reasoning}
            if extra := {name: tokens for name, tokens in beside.items() if tokens}:
                made["extra"] = extra
        return made | (as_object(turn.meta.get("metrics")) if self._came else {})

    def _call(self, call: ToolCall) -> _Json:
        arguments = call.input
        if call.arguments is None:
            arguments = {}
        elif not isinstance(arguments, dict):
            self._lost["argument"] += 1
            arguments = {"value": arguments}
        return {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments}

    def _answer(self, turn: Turn, message: Message) -> None:
        """Put an answer to the step that asked, where nothing was said since; else to a step of its own."""
        copied = turn.session_id != self._owner
        step = self._asking
        asked = set() if step is None else {call["tool_call_id"] for call in step.get("tool_calls", ())}
        fits = step is not None and bool(step.get("is_copied_context")) is copied
        if step is None or not fits or (message.call_id is not None and message.call_id not in asked):
            self._lost["result"] += message.call_id is not None
            step = self.say("system", "")
            step |= {"is_copied_context": True} if copied else {}
            asked = set()
        result: _Json = {"source_call_id": message.call_id} if message.call_id in asked else {}
        meta = turn.meta if self._came else {}
        refs = meta.get("subagents")
        result |= {"subagent_trajectory_ref": refs} if isinstance(refs, list) else {}
        if (text := self._text(message)) or not isinstance(refs, list):
            result["content"] = text
        extra = dict(as_object(meta.get("extra")))
        if message.is_error:
            extra["is_error"] = True
        if message.call_id is not None and not asked:
            extra["call_id"] = message.call_id
        step.setdefault("observation", {"results": []})["results"].append(result | ({"extra": extra} if extra else {}))

    def _text(self, message: Message) -> str:
        self._lost["image"] += sum(isinstance(piece, Picture) for piece in message.pieces)
        said = ("[image]" if isinstance(piece, Picture) else text_of(piece) for piece in message.pieces)
        return "\n".join(filter(None, said))


def _thought(thought: Thought) -> list[str]:
    return [value for key in ("thinking", "text", "content") if isinstance(value := thought.part.get(key), str)][:1]
