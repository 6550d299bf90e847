"""Export a session and its forks as a log of Inspect AI (JSON, version 2), which `inspect_ai`'s own reader opens.

A message is made of what a model is shown of a turn, or as it was where it came from a log. A score is one a scorer, with
criteria within it, and edits with their authors.

The log has one sample. Its conversation is the session; each fork is a branch of it: a span with a `branch` event, and an
anchor before it that names the last message that it shares. What a branch says stands in its model calls, each of which names
what it was given by ranges of one pool, so that no message is written twice. What a session spawned is a span of an agent.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, BinaryIO, Final

from trails.context.messages import HEADINGS, Message, Picture, Piece, Thought, messages_of, text_of
from trails.exchange.exporters.session_family import Family, Member, SessionExport, author_name, prompt_text, report
from trails.exchange.json_files import as_object, as_text, objects_in, without_keys, without_null
from trails.exchange.traces.inspect_log import SAMPLE_META
from trails.model import iris
from trails.model.values import Call, ToolCall, ToolResult, Turn
from trails.rdf.score_records import Score
from trails.usage import source_of

_Json = dict[str, Any]

ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
"""The roles that Inspect knows."""
_NOT_A_MESSAGE: Final = frozenset({"branch", "from_anchor", "tool_calls"})
FORMAT: Final = "inspect"
_SOURCE: Final = "inspect:"
"""What the source of a session begins with that was imported from such a log."""
_NO_MODEL: Final = "none/none"
"""What Inspect calls no model."""
_BY_PLACE: Final = "messages"
"""What the name of a message begins with that had no id in its log; of others with a slash that is the span's id."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STATUSES: Final = ("success", "error", "cancelled")
_STOP_REASONS: Final = {
    **{reason: reason for reason in ("stop", "max_tokens", "model_length", "tool_calls", "content_filter", "unknown")},
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "toolUse": "tool_calls",
    "length": "max_tokens",
}  # fmt: skip
_ALWAYS: Final = ("authors, salts, tags, notes, scores of turns, and metadata of turns that Inspect has no place for",)
_LOST: Final = {
    "payload": "bytes beside the content",
    "turn": "of branches, no model answered, so in `info` events",
    "summary turn": "as what a user said",
    "time": "not known, so an earlier one",
    "system prompt": "of branches, not the conversation's, so left out",
    "score": "of branches, so in their `info` events",
}


def imported_message(turn: Turn, name: str) -> _Json:
    """Return the message that an imported turn was made from, under its id."""
    beside = as_object(turn.meta.get("tool_calls"))
    message: _Json = {"id": name, "content": turn.content, "role": turn.role}
    if turn.tool_calls:
        message["tool_calls"] = [_call(call) | as_object(beside.get(call.id)) for call in turn.tool_calls]
    if turn.tool_results:
        message["tool_call_id"] = turn.tool_results[0].call_id
    if turn.model is not None:
        message["model"] = turn.model
    return message | without_keys(turn.meta, *_NOT_A_MESSAGE)


def was_generated(turn: Turn) -> bool:
    """Tell whether an imported answer came of a model call that the log told of; a model alone is only who spoke."""
    made = turn.facts.model_call
    return made is not None and any((made.usage_json, made.stop_reason, made.call))


def shown_message(message: Message, turn: Turn) -> _Json:
    """Return a message that a model is shown of a turn, without an id."""
    made: _Json = {"role": message.role, "content": _message_content(message.pieces)}
    if message.role == "assistant":
        made |= {"source": "generate"} | ({} if turn.model is None else {"model": turn.model})
        if message.calls:
            made["tool_calls"] = [_call(call) for call in message.calls]
    if message.role == "tool":
        made |= {} if message.call_id is None else {"tool_call_id": message.call_id}
        made |= {"error": {"type": "unknown", "message": message.text}} if message.is_error else {}
    return made


def _message_content(pieces: Sequence[Piece]) -> str | list[_Json]:
    if len(pieces) == 1 and isinstance(pieces[0], str):
        return pieces[0]
    return [_message_part(piece) for piece in pieces] if pieces else ""


def _message_part(piece: Piece) -> _Json:
    if isinstance(piece, Picture):
        return {"type": "image", "image": piece.url or f"data:{piece.media_type};base64,{piece.data}"}
    if isinstance(piece, Thought):
        part = piece.part
        thoughts = (part[key] for key in ("thinking", "text", "reasoning", "content") if isinstance(part.get(key), str))
        return {"type": "reasoning", "reasoning": next(thoughts, "")}
    return {"type": "text", "text": text_of(piece)}


def message_text(message: _Json) -> str:
    """Return the texts of a message."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in objects_in(content) if part.get("type") == "text")


def call_arguments(call: ToolCall) -> _Json:
    """Return a call's arguments as the object that Inspect wants."""
    given = call.input
    return given if isinstance(given, dict) else {} if given is None else {"value": given}


def _call(call: ToolCall) -> _Json:
    return {"id": call.id, "function": call.name, "arguments": call_arguments(call), "type": "function"}


def usage_counts(turn: Turn) -> _Json | None:
    """Return what a call used under Inspect's names; what came under them stays as it is."""
    if turn.facts.model_call is None or not turn.usage:
        return None
    is_own = {"input_tokens", "output_tokens", "total_tokens"} <= turn.usage.keys()
    if is_own and source_of(turn.usage) in ("inspect", "generic"):
        return {name: number for name, number in turn.usage.items() if isinstance(number, int | float)}
    counts, cost = turn.facts.model_call.counts, turn.facts.model_call.reported[2]
    read, written = counts.input or 0, counts.output or 0
    used = {"input_tokens": read, "output_tokens": written, "total_tokens": (counts.prompt or 0) + written}
    cached = {"input_tokens_cache_read": counts.cache_read, "input_tokens_cache_write": counts.cache_write}
    beside = {"reasoning_tokens": counts.reasoning, "total_cost": None if cost is None else float(cost)}
    return without_null({**used, **cached, **beside})


def session_scores(scores: Iterable[Score], details: Mapping[str, Any]) -> dict[str, _Json]:
    """Return scores by the scorer's name; `details` is what came with them from a log (answers, metadata), by the same.

    A score that nobody but its scorer gave stands alone; of others all states stand in `history`, the newest last.
    """
    ordered = sorted(scores, key=lambda score: (score.time, score.id))
    names = {score.by for score in ordered if iris.is_agent(score.by_iri) and _is_of(score.name, score.by)}
    groups: dict[str, list[Score]] = {}
    for score in ordered:
        fitting = [name for name in names if _is_of(score.name, name)]
        groups.setdefault(max(fitting, key=len, default=score.name), []).append(score)
    return {name: _score(name, found, details.get(name)) for name, found in groups.items()}


def _is_of(name: str, scorer: str) -> bool:
    return name == scorer or name.startswith(f"{scorer}.")


def _score(name: str, found: Sequence[Score], details: object) -> _Json:
    values: dict[str, Any] = {}
    states: list[_Json] = []
    for (time, by_iri, reason, version), each in groupby(found, key=lambda s: (s.time, s.by_iri, s.reason, s.version)):
        values |= {score.name: score.value for score in each}
        own = by_iri == iris.agent(name)
        told: _Json = {"value": _value(name, values), **({"metadata": {"version": version}} if version else {})}
        if own:
            told |= {"explanation": reason} if reason else {}
        else:
            told["provenance"] = {"timestamp": time.isoformat(), "author": author_name(by_iri), "reason": reason}
        states.append(told)
    last = without_keys(states[-1], "provenance")
    history = states if len(states) > 1 or "provenance" in states[-1] else []
    return {**last, **as_object(details), "history": history}


def _value(name: str, values: Mapping[str, Any]) -> Any:
    """Return one value, or those of several criteria by name; a list of them where they are numbered."""
    if values.keys() == {name}:
        return values[name]
    criteria = {key.removeprefix(f"{name}."): value for key, value in values.items()}
    numbered = list(criteria) == [str(place) for place in range(len(criteria))]
    return list(criteria.values()) if numbered else criteria


def export(family: Family, out: BinaryIO) -> SessionExport:
    """Write a log with the session that was asked for, its branches those forks that were, and return what was written."""
    lost: Counter[str] = Counter()
    log = _Sample(family, lost).log()
    out.write(json.dumps(log, ensure_ascii=False).encode() + b"\n")
    return report(FORMAT, family, _ALWAYS, _LOST, lost)


def _id(*said: object) -> str:
    """Return an id that is the same for the same words."""
    return hashlib.sha256("\n".join(map(str, said)).encode()).hexdigest()[:22]


class _Sample:
    """One sample, as it is put together."""

    def __init__(self, family: Family, lost: Counter[str]) -> None:
        self._family, self._lost = family, lost
        self._root = next(family.asked())
        self._came = (self._root.record.source_session or "").startswith(_SOURCE)
        self._pool: list[_Json] = []
        self._events: list[_Json] = []
        self._time = self._root.record.created or _EPOCH
        self._begin = self._time
        self._usage: Counter[tuple[str, str]] = Counter()
        self._places: dict[tuple[str, int], tuple[int, ...]] = {}
        """Where in the pool the messages of each turn stand, by its owner and its index."""
        self._generated: set[int] = set()
        """Where those stand that a model call made."""

    def log(self) -> _Json:
        """Return the whole log."""
        record, prompt = self._root.record, self._root.prompt
        meta: Mapping[str, Any] = record.meta if self._came else {}
        if prompt is not None:
            self._pool.append({"id": _id("prompt", prompt.digest), "role": "system", "content": prompt_text(prompt)})
        line, scored = self._conversation(meta)
        sample = {**self._sample(line, scored, meta), **{key: meta[key] for key in SAMPLE_META if key in meta}}
        model, task = self._model(), meta.get("task") or record.label or record.id
        began, ended = self._begin.isoformat(), self._time.isoformat()
        name = str(meta.get("dataset") or record.agent)
        names = ("eval_id", "run_id")  # old logs have none
        known = {name: meta[name] for name in names if name in meta}
        spec = {
            **(known if self._came else {name: _id(name, record.id) for name in names}),
            "created": meta.get("created") or began,
            "task": task,
            "task_id": _id("task", task),
            "dataset": as_object(meta.get("dataset")) or {"name": name, "samples": 1, "sample_ids": [sample["id"]]},
            "model": meta.get("model") or model,
            "config": {},
            **as_object(meta.get("eval")),
        }
        return {
            "version": 2,
            "status": meta["status"] if meta.get("status") in _STATUSES else "success",
            "eval": spec,
            "plan": meta.get("plan") or {"name": "plan", "steps": [], "config": {}},
            "results": {"total_samples": 1, "completed_samples": 1, "scores": []},
            "stats": {"started_at": began, "completed_at": ended, "model_usage": sample["model_usage"]},
            "samples": [sample],
        }

    def _sample(self, line: list[int], scored: _Json, meta: Mapping[str, Any]) -> _Json:
        record = self._root.record
        messages = [self._pool[place] for place in line]
        given = next((n for n, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
        answered = next((m for m in reversed(messages) if m["role"] == "assistant"), None)
        output: _Json = {"model": self._model(), "choices": [], "completion": ""}
        if answered is not None:
            completion = answered["content"] if isinstance(answered["content"], str) else ""
            output |= {"choices": [{"message": answered, "stop_reason": "stop"}], "completion": completion}
        used: dict[str, _Json] = {}
        for (model, name), number in self._usage.items():
            used.setdefault(model, {})[name] = number
        own = meta.get("sample_metadata") if self._came else dict(record.meta)
        return {
            "id": meta.get("sample_id", record.id),
            "epoch": meta.get("epoch", 1),
            "input": messages[:given],
            "target": "",
            "messages": messages,
            "output": output,
            "scores": scored,
            "metadata": as_object(own),
            "store": {},
            "events": self._events,
            "model_usage": used,
            "uuid": _id("sample", record.id),
            "attachments": {},
            "events_data": {"messages": self._pool, "calls": []},
        }

    def _model(self) -> str:
        models = Counter(turn.model for member in self._family.members for turn in member.turns if turn.model)
        return str(models.most_common(1)[0][0]) if models else _NO_MODEL

    def _scored(self, meta: Mapping[str, Any], span: str) -> _Json:
        """Return the scores of the session, and write when each was given."""
        scores = session_scores(self._root.scores, as_object(meta.get("score_details")))
        times = {score.name: score.time for score in sorted(self._root.scores, key=lambda score: score.time)}
        for name, score in scores.items():
            given = [time for each, time in times.items() if each == name or each.startswith(f"{name}.")]
            self._event("score", span, timestamp=min(given).isoformat(), score=score, scorer=name, intermediate=False)
        return scores

    # --- the conversation and its branches

    def _conversation(self, meta: Mapping[str, Any]) -> tuple[list[int], _Json]:
        """Write all events, and return the places in the pool of what the conversation says, and its scores."""
        span = _id("span", self._root.record.id)
        self._span(span, None, "agent", self._root.record.agent)
        line = _Line(list(range(len(self._pool))))
        self._line(self._family, self._root, span, line)
        self._branches(self._family, self._root, span)
        self._agents(self._family, self._root, span)
        self._event("span_end", span, id=span)
        return line.places, self._scored(meta, span)

    def _line(self, family: Family, member: Member, span: str, line: _Line) -> list[int]:
        """Write what a member's own turns make, and return the places of what it says that no model answered."""
        unanswered: list[int] = []
        calls: dict[str, ToolCall] = {}
        for turn in family.transcript(member):
            places = self._places.get((turn.session_id, turn.index))
            if places is None:
                places = self._say(turn, span, line, calls)
                for place in places:
                    unanswered = [] if place in self._generated else [*unanswered, place]
            else:
                line.add(places)
            self._places[turn.session_id, turn.index] = places
            calls |= {call.id: call for call in turn.tool_calls}
        return unanswered

    def _branches(self, family: Family, above: Member, outer: str) -> None:
        """Write the forks of a member, and theirs within them, each after an anchor at what it shares last."""
        for member in family.asked():
            record = member.record
            if record.parent_session_id != above.record.id or member is self._root:
                continue
            first = member.turns[0] if member.turns else None
            told = first.meta if self._came and first is not None else {}
            span = self._span_of(member)
            anchor = told.get("from_anchor") or self._anchor(family, member)
            self._event("anchor", outer, record.id, anchor_id=anchor)
            self._span(span, outer, "branch", str(told.get("branch") or record.label or record.id))
            self._event("branch", span, from_anchor=anchor)
            line = _Line([0] if self._root.prompt is not None else [])
            scored = session_scores(member.scores, {})
            self._lost["score"] += len(scored)
            self._lost["system prompt"] += member.prompt != self._root.prompt
            self._turns(family, member, span, line, scores=scored)
            self._branches(family, member, span)
            self._agents(family, member, span)
            self._event("span_end", span, id=span)

    def _turns(self, family: Family, member: Member, span: str, line: _Line, **more: _Json) -> None:
        """Write what a member's own turns make, and in an event what no model answered, with `more` of the member."""
        unanswered = [self._pool[place] for place in self._line(family, member, span, line)]
        self._lost["turn"] += len(unanswered)
        if unanswered or any(more.values()):
            data = {"session": member.record.id, "unanswered": unanswered, **more}
            self._event("info", span, source="trails", data=data)

    def _agents(self, owner: Family, above: Member, outer: str) -> None:
        """Write what a member spawned, each as an agent that ran as a tool."""
        for family in owner.spawned.get(above.record.id, ()):
            for member in family.asked():
                name, tool = member.record.agent, _id("tool", member.record.id)
                span = str(member.record.meta.get("agent_span") or _id("span", member.record.id))
                self._span(tool, outer, "tool", name)
                self._span(span, tool, "agent", name)
                said: list[int] = []
                if member.prompt is not None and not member.prompt.redacted:
                    said = [len(self._pool)]
                    self._pool.append({"id": _id(member.record.id), "role": "system", "content": member.prompt.text})
                self._turns(family, member, span, _Line(said))
                self._agents(family, member, span)
                self._event("span_end", span, id=span)
                self._event("span_end", tool, id=tool)

    def _span_of(self, member: Member) -> str:
        """Return the id of a branch's span: the one that it had, where it came from a log."""
        source = member.turns[0].source_ids[:1] if self._came and member.turns else ()
        had, slash, _ = source[0].partition("/") if source else ("", "", "")
        return had if slash and had != _BY_PLACE else _id("span", member.record.id)

    def _anchor(self, family: Family, member: Member) -> str:
        """Return the id of the last message that a fork shares."""
        shared = [turn for turn in family.transcript(member) if turn.index < member.record.starts_at]
        places = [place for turn in shared for place in self._places[turn.session_id, turn.index]]
        return str(self._pool[places[-1]]["id"]) if places else _id("start", self._root.record.id)

    # --- events

    def _event(self, kind: str, span: str, *said: object, **fields: Any) -> None:
        stamp = {"timestamp": self._time.isoformat(), "working_start": (self._time - self._begin).total_seconds()}
        made = {"uuid": _id(kind, span, len(self._events), *said), "span_id": span, **stamp, "event": kind}
        self._events.append(made | fields)

    def _span(self, span: str, outer: str | None, kind: str, name: str) -> None:
        self._event("span_begin", span, id=span, parent_id=outer, type=kind, name=name)

    def _say(self, turn: Turn, span: str, line: _Line, calls: Mapping[str, ToolCall]) -> tuple[int, ...]:
        """Write what a turn says, put it into the pool and on its line, and return its places."""
        self._lost["summary turn"] += turn.role in HEADINGS
        self._lost["payload"] += len(turn.payloads)
        self._time = turn.time or self._time
        if not self._places:
            self._begin = self._time
        made = []
        for message in self._messages(turn):
            if message["role"] == "assistant" and (not self._came or was_generated(turn)):
                self._model_event(turn, message, span, line)
                self._generated.add(len(self._pool))
            elif (
                message["role"] == "tool"
                and (call := calls.get(as_text(message.get("tool_call_id")) or "")) is not None
            ):
                self._tool_event(turn, message, call, span)
            made.append(len(self._pool))
            self._pool.append(message)
            line.add(made[-1:])
        return tuple(made)

    def _model_event(self, turn: Turn, message: _Json, span: str, line: _Line) -> None:
        self._lost["time"] += turn.time is None
        called = turn.facts.model_call
        model, usage = turn.model or _NO_MODEL, usage_counts(turn)
        reason = _STOP_REASONS.get(str(called.stop_reason), "unknown") if called and called.stop_reason else "stop"
        for name, number in (usage or {}).items():
            if isinstance(number, int) and not isinstance(number, bool):
                self._usage[model, name] += number
        choices = [{"message": message, "stop_reason": reason}]
        output: _Json = {"model": model, "choices": choices, "completion": message_text(message)}
        output |= {"usage": usage} if usage else {}
        given: _Json = {"input": [], "input_refs": line.ranges(), "tools": [], "tool_choice": "auto", "config": {}}
        self._event("model", span, turn.digest, **self._times(turn.call), model=model, **given, output=output)

    def _tool_event(self, turn: Turn, message: _Json, call: ToolCall, span: str) -> None:
        error = {"error": message["error"]} if message.get("error") else {}
        result = next((each for each in turn.tool_results if each.call_id == call.id), None)
        asked = {"type": "function", "id": call.id, "function": call.name, "arguments": call_arguments(call)}
        answer = {"result": message_text(message), "message_id": message["id"], **error}
        self._event("tool", span, turn.digest, **self._times(result), **asked, **answer)

    def _times(self, told: Call | ToolResult | None) -> _Json:
        """Return when a call began and ended, as far as that is known."""
        started = (told.started if told else None) or self._time
        ended = {"completed": told.ended.isoformat()} if told and told.ended else {}
        return {"timestamp": started.isoformat(), **ended}

    # --- messages

    def _messages(self, turn: Turn) -> list[_Json]:
        """Return the messages that a turn makes: the one that it came from, or what a model is shown of it."""
        name = _id("message", turn.digest)
        if self._came and turn.source_ids:
            span, slash, rest = turn.source_ids[0].partition("/")
            name = rest if slash and span != _BY_PLACE else turn.source_ids[0]
        if self._came and not turn.redacted and turn.role in ROLES:
            return [imported_message(turn, name)]
        shown = [shown_message(each, turn) for each in messages_of(turn)]
        return [{"id": name if n == 0 else f"{name}-{n}", **each} for n, each in enumerate(shown)]


class _Line:
    """Where in the pool stands what one conversation says, in order."""

    def __init__(self, places: Sequence[int] = ()) -> None:
        self.places: list[int] = []
        self._ranges: list[list[int]] = []
        self.add(places)

    def add(self, places: Sequence[int]) -> None:
        """Say something more."""
        for place in places:
            self.places.append(place)
            if self._ranges and self._ranges[-1][1] == place:
                self._ranges[-1][1] += 1
            else:
                self._ranges.append([place, place + 1])

    def ranges(self) -> list[list[int]]:
        """Return the places as half-open ranges (a fresh copy each time)."""
        return [list(each) for each in self._ranges]
