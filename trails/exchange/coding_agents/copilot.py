"""Import sessions of GitHub Copilot CLI: its event logs, and the files of its first versions.

Files of the first versions are `~/.copilot/history-session-state/<session>.json`, each rewritten on each save.

`chatMessages` are the messages that the model was shown, in OpenAI's shape, without ids and times: a message is named by its
place. `timeline` is what a user was shown. It repeats them: what it says beyond them stands in the metadata of the last turn.

Event logs are `~/.copilot/session-state/<session>/events.jsonl`, or `<session>.jsonl` there before.

=====================================  ============  =======================================================
event                                  turn          content
=====================================  ============  =======================================================
user.message                           user          the text as it was typed, and each attachment
system.message                         system        the text, the first time
assistant.message                      assistant     reasoning, text and calls; chunks of one call are one turn
tool.execution_complete                tool          what the model was shown of the result, or the error
tool.user_requested                    user          the call
session.compaction_complete            summary       the summary
session.shutdown                       usage         none: what each model used beyond what its turns say
any other                              none          metadata `copilot` of the next turn
=====================================  ============  =======================================================

What an event says beside that stands in the metadata `copilot` of its turn. A sub-agent's events (`agentId`, or the call that it
was started by) make a session of its own, spawned by the one that started it.

The events are those of github/copilot-sdk's `session-events.ts` (2026), and of logs of the versions 0.0.369 to 1.0.54.

A rule that is followed: the counts of a shutdown are those of the whole session, so what was counted before it is taken off;
where they are lower than those of an earlier shutdown, they are taken for what was used since.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from trails.exchange import format_detection, json_files, source_values
from trails.exchange.json_files import Json, as_list, as_listed, as_object, as_text, objects_in, value_at, without_keys
from trails.exchange.record_checks import Reading, combine_files, unrepeated_records
from trails.exchange.source_transcript import Piece, SourceTurn, Transcript
from trails.exchange.source_values import call_part, parse_time, result_part, run_times, valid_name, without_empty
from trails.model.values import Compaction
from trails.usage import with_source

SOURCE: Final = "copilot-cli"
META: Final = "copilot"
"""The key of a turn's metadata for what its own fields do not hold."""
_HISTORY_OWN: Final = frozenset({"sessionId", "startTime", "chatMessages", "timeline"})
_MESSAGE_OWN: Final = frozenset({"role", "content", "tool_calls", "tool_call_id"})
AFTER: Final = "after"
"""The key of a session's metadata for events that no turn follows, and that make none."""
_TYPES: Final = re.compile(r"(?:session|user|assistant|tool|system|hook|subagent|permission|skill)\.[a-z_.]+|abort")
_BEGINS: Final = frozenset(
    {"session.start", "session.resume", "user.message", "assistant.message", "assistant.turn_start"}
)
_COUNTS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_OLD_COUNTS: Final = {"input": "inputTokens", "output": "outputTokens", "cachedInput": "cacheReadTokens"}


def is_history(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is such a file."""
    first = format_detection.outline_of_first(head)
    return first.keys() >= {"sessionId"} and bool(first.keys() & {"chatMessages", "timeline"})


def read_history(name: str, data: bytes) -> Reading:
    """Return what a file says."""
    reading = Reading()
    if (held := reading.one_object(data)) is None:
        return reading
    session_id, messages = as_text(held.get("sessionId")), held.get("chatMessages", [])
    if session_id is None or not isinstance(messages, list):
        reading.refuse(0, "is no session of Copilot CLI: it has no sessionId, or no list of messages", held)
        return reading
    turns: list[SourceTurn] = []
    for n, message in enumerate(messages):
        reading.count("message")
        if (turn := _history_turn(f"{session_id}/{n}", as_object(message))) is None:
            reading.refuse(0, f"message {n} cannot be kept: has no role", message)
        elif reading.keeps(turn, 0, f"message {n}", message):
            turns.append(turn)
    meta = without_keys(held, *_HISTORY_OWN)
    if left := unrepeated_records(held.get("timeline"), messages):
        if turns:
            turns[-1] = replace(turns[-1], meta={META: {**turns[-1].meta.get(META, {}), "timeline": left}})
        else:
            meta["timeline"] = left
    reading.add_session(SOURCE, session_id, (turns,), meta, created=parse_time(held.get("startTime")), open_in=name)
    return reading


def _history_turn(own: str, message: Mapping[str, Any]) -> SourceTurn | None:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        return None
    left = without_keys(message, *_MESSAGE_OWN)
    calls = message.get("tool_calls")
    parts = [] if content in (None, "") else as_listed(content)
    parts = [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts]
    for call in as_list(calls):
        if made := _history_call(as_object(call)):
            parts.append(made)
        else:
            left.setdefault("tool_calls", []).append(call)
    if not all(isinstance(each, dict) for each in parts):
        left["content"], parts = content, []
    answers = message.get("tool_call_id")
    is_answer = role == "tool" and valid_name(answers) is not None
    if answers is not None and not is_answer:
        left["tool_call_id"] = answers
    said = content if isinstance(content, str) and not calls else tuple(parts) or ""
    answered = answers if is_answer else None
    return SourceTurn(role, (Piece(own, said),), tool_call_id=answered, meta={META: left} if left else {})


def _history_call(call: Mapping[str, Any]) -> dict[str, Any] | None:
    own, tool = as_text(call.get("id")), valid_name(value_at(call, "function", "name"))
    if own is None or tool is None:
        return None
    arguments = as_object(call.get("function")).get("arguments", {})
    read = json_files.parse_json(arguments)
    is_null = isinstance(arguments, str) and arguments.strip() == "null"
    return call_part(own, tool, arguments if read is None and not is_null else read)


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is a session of Copilot CLI.

    >>> sniff(b'{"type":"session.start","data":{"sessionId":"s"},"id":"e"}'), sniff(b'{"sessionId": "s", "chatMessages": [')
    (True, True)
    >>> sniff(b'{"type":"session","id":"s"}')
    False
    """
    lines = format_detection.outline_of_lines(head)
    if any(line.get("type") in _BEGINS and "data" in line and line["data"] is None for line in lines):
        return all(_TYPES.fullmatch(line.get("type") or "abort") for line in lines)
    return is_history(head)


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what sessions (name and bytes of each) say; nothing that they hold raises."""
    return combine_files(
        (name, read_history(name, data) if is_history(data[: 1 << 16]) else _Log(name).read(data))
        for name, data in files
    )


@dataclass(slots=True)
class _Agent:
    """The main agent, or a sub-agent, on its way to a session."""

    key: str
    """What names it among the log's agents; empty for the main one."""
    started: dict[str, Any] = field(default_factory=dict)
    """What was said of its start."""
    turns: list[SourceTurn] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)
    """Events that make no turn, and go with the next one."""
    model: str | None = None
    calls: set[str] = field(default_factory=set)
    call_id: str | None = None
    """The model call that the last turn came from, where it may have more chunks."""
    is_open: bool = False
    """Whether chunks of the last turn are yet to come."""


@dataclass(slots=True)
class _Log:
    """One log on its way to sessions."""

    name: str
    reading: Reading = field(default_factory=Reading)
    head: dict[str, Any] = field(default_factory=dict)
    agents: dict[str, _Agent] = field(default_factory=lambda: {"": _Agent("")})
    children: dict[str, str] = field(default_factory=dict)
    """The sub-agents that calls started."""
    starts: dict[str, Json] = field(default_factory=dict)
    """Tools that were started, by the id of the call."""
    assets: dict[str, Json] = field(default_factory=dict)
    prompts: set[str] = field(default_factory=set)
    title: str | None = None
    last_shutdown: dict[str, dict[str, int]] = field(default_factory=dict)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The tokens that turns told at the last shutdown, by model and kind."""
    seen: dict[str, Json] = field(default_factory=dict)

    def read(self, data: bytes) -> Reading:
        values, problems = json_files.read_lines(data)
        self.reading.problems += problems
        self.reading.notes += json_files.shared_line_notes(values)
        for _, event in values:
            self._look_ahead(event)
        for line, event in values:
            kind, own = event.get("type"), event.get("id")
            if not isinstance(kind, str) or not isinstance(event.get("data", {}), dict):
                reason = "is no event of Copilot CLI: it has no type, or data that is no object"
                self.reading.refuse(line, reason, event)
                continue
            self.reading.count(kind)
            named = as_text(own) or f"line-{line}"
            if self.seen.get(named) == event:
                self.reading.notes.append(f"line {line} repeats the event {named[:80]!r}; it was left out")
                continue
            named = f"{named}~{line}" if named in self.seen else named
            self.seen[named] = event
            self._event(line, kind, named, event, as_object(event.get("data")))
        self._finish()
        session_id = as_text(self.head.get("sessionId"))
        if session_id is None:
            session_id = _id_in(self.name)
            self.reading.notes.append("no event names the session; it is named after its file")
        if not session_id:
            self.reading.refuse(0, "is no session of Copilot CLI: nothing names it", self.name)
            return self.reading
        for agent in self.agents.values():
            if agent.turns or not agent.key:
                self._add_session(session_id, agent)
        return self.reading

    def _finish(self) -> None:
        """Keep what was started and never ended, and what was said of sub-agents of which nothing is told."""
        main = self.agents[""]
        for start in self.starts.values():
            self._wait(0, self._agent_of(start, as_object(start.get("data"))), start)
        for agent in self.agents.values():
            if agent is not main and not agent.turns:
                main.waiting += agent.waiting

    def _look_ahead(self, event: Json) -> None:
        """Note what events are looked up for that come before it."""
        data, kind = as_object(event.get("data")), event.get("type")
        if kind == "session.start" and not self.head:
            self.head = dict(data)
        elif kind == "session.binary_asset" and isinstance(data.get("assetId"), str):
            self.assets[data["assetId"]] = data
        elif kind == "subagent.started" and isinstance(data.get("toolCallId"), str):
            self.children.setdefault(data["toolCallId"], as_text(event.get("agentId")) or data["toolCallId"])

    def _add_session(self, session_id: str, agent: _Agent) -> None:
        meta: dict[str, Any] = without_keys(self.head, "sessionId", "startTime")
        spawned_by = as_text(self.head.get("detachedFromSpawningParentSessionId"))
        created, title, own = parse_time(self.head.get("startTime")), self.title, session_id
        if agent.key:
            meta, created, title = {"subagent": agent.started}, None, as_text(agent.started.get("agentDisplayName"))
            parent = as_text(agent.started.get("parentId"))
            spawned_by = f"{session_id}/{parent}" if parent in self.agents and parent != agent.key else session_id
            own = f"{session_id}/{agent.key}"
        about: dict[str, Any] = {"title": title, "created": created, "spawned_by": spawned_by, "open_in": self.name}
        meta |= {AFTER: agent.waiting}
        self.reading.add_session(SOURCE, own, (agent.turns,), meta, open_turns=int(agent.is_open), **about)

    # --- events

    def _event(self, line: int, kind: str, own: str, event: Json, data: Json) -> None:
        agent = self._agent_of(event, data)
        if kind == "subagent.started" and (key := as_text(event.get("agentId")) or as_text(data.get("toolCallId"))):
            self.agents.setdefault(key, _Agent(key)).started = dict(data)
            agent = self.agents[""]
        self._note(agent, kind, data)
        reader = _READERS.get(kind)
        time = parse_time(event.get("timestamp"))
        turns = list(reader(self, agent, own, time, data)) if reader else []
        if kind == "tool.execution_start" and as_text(data.get("toolCallId")):
            self.starts[data["toolCallId"]] = event
        for turn in turns:
            self._keep(line, agent, turn, event)
        if not turns and not _is_bookkeeping(event):
            self._wait(line, agent, event)

    def _note(self, agent: _Agent, kind: str, data: Json) -> None:
        """Note what an event says of the turns around it."""
        if kind in ("session.model_change", "assistant.turn_start", "subagent.configured"):
            agent.model = as_text(data.get("newModel") or data.get("model")) or agent.model
        elif kind == "session.title_changed":
            self.title = as_text(data.get("title")) or self.title
        elif kind == "assistant.usage":
            self._usage(agent, data)
        elif kind == "abort" and agent.turns and agent.turns[-1].role == "assistant":
            agent.turns[-1] = replace(agent.turns[-1], stop_reason="aborted")

    def _agent_of(self, event: Json, data: Json) -> _Agent:
        key = as_text(event.get("agentId")) or ""
        if not key and (call := as_text(data.get("parentToolCallId"))):
            key = self.children.get(call, call)
        return self.agents.setdefault(key, _Agent(key))

    def _wait(self, line: int, agent: _Agent, event: Json) -> None:
        kept = without_keys(event, "parentId")
        data = as_object(kept.get("data"))
        is_repeated = kept.get("type") == "system.message" and (as_text(data.get("content")) or "") in self.prompts
        if is_repeated:
            kept["data"] = without_keys(data, "content")
        if self.reading.meta(line, {"event": kept}):
            agent.waiting.append(kept)

    def _keep(self, line: int, agent: _Agent, turn: SourceTurn, event: Json) -> None:
        if agent.waiting:
            noted = as_object(turn.meta.get(META))
            turn = replace(turn, meta={META: noted | {"before": [*agent.waiting, *noted.get("before", [])]}})
        if self.reading.keeps(turn, line, "the event", event):
            agent.waiting = []
            agent.turns.append(turn)

    # --- turns

    def _prompt(self, _: _Agent, own: str, time: datetime | None, data: Json) -> Iterator[SourceTurn]:
        if not isinstance(data.get("content"), str):
            return
        left = without_keys(data, "content")
        pieces = [Piece(own, data["content"])]
        attached = data.get("attachments")
        if isinstance(attached, list) and all(isinstance(each, dict) for each in attached):
            del left["attachments"]
            pieces += [Piece(f"{own}/{n}", (self._attachment(each),)) for n, each in enumerate(attached)]
        if left.get("transformedContent") == data["content"]:
            del left["transformedContent"]
        is_typed = as_text(data.get("source")) in (None, "user") and not data.get("isAutopilotContinuation")
        yield SourceTurn(
            "user", tuple(pieces), time=time, author=None if is_typed else f"agent:{SOURCE}", meta=_noted(left)
        )

    def _attachment(self, attached: Json) -> dict[str, Any]:
        """Return what was attached: an image as the model was shown it."""
        held = {**as_object(self.assets.get(str(attached.get("assetId")))), **attached}
        mime, data = held.get("mimeType"), held.get("data")
        if isinstance(mime, str) and mime.startswith("image/") and isinstance(data, str):
            return source_values.image_part(mime, data) | without_keys(attached, "type", "data", "mimeType")
        return {"type": "attachment", "attachment": dict(attached)}

    def _system(self, _: _Agent, own: str, time: datetime | None, data: Json) -> Iterator[SourceTurn]:
        if as_text(data.get("content")) is None or data["content"] in self.prompts:
            return
        self.prompts.add(data["content"])
        left = without_keys(data, "content", "role")
        yield SourceTurn("system", (Piece(own, data["content"]),), time=time, meta=_noted(left))

    def _answer(self, agent: _Agent, own: str, time: datetime | None, data: Json) -> Iterator[SourceTurn]:
        left = without_keys(data, "content", "toolRequests", "reasoningText", "model", "outputTokens", "turnId")
        told = {"reasoning": as_text(data.get("reasoningText")), "text": as_text(data.get("content"))}
        parts: list[dict[str, Any]] = [{"type": kind, "text": text} for kind, text in told.items() if text]
        if data.get("content") and not told["text"]:
            left["content"] = data["content"]
        for request in objects_in(data.get("toolRequests")):
            call, tool = as_text(request.get("toolCallId")), valid_name(request.get("name"))
            has_begun = call in agent.calls and call in self.starts  # its start, which came first, made a turn of it
            if call and tool and not has_begun:
                agent.calls.add(call)
                parts.append(call_part(call, tool, request.get("arguments", {})))
            beyond = without_keys(request, "toolCallId", "name", "arguments", "type")
            begun = as_object(self.starts[call].get("data")).get("arguments") if call and has_begun else None
            is_told = call and tool and (not has_begun or request.get("arguments") == begun)
            if beyond or not is_told:
                left.setdefault("requests", []).append({"id": call} | (beyond if is_told else dict(request)))
        if data.get("toolRequests") and not isinstance(data["toolRequests"], list):
            left["toolRequests"] = data["toolRequests"]
        model = valid_name(data.get("model")) or valid_name(agent.model)
        tokens = data.get("outputTokens")
        usage = {"outputTokens": tokens} if type(tokens) is int and tokens >= 0 else None
        if usage is None and tokens is not None:
            left["outputTokens"] = tokens
        call_id, chunks = as_text(data.get("apiCallId")), data.get("chunkCount")
        index = data.get("chunkIndex")
        piece = Piece(own, tuple(parts) if parts else "")
        last = agent.turns[-1] if agent.turns else None
        is_chunk = last is not None and last.role == "assistant" and call_id is not None and call_id == agent.call_id
        agent.call_id = call_id
        agent.is_open = type(chunks) is int and type(index) is int and index + 1 < chunks
        if last is not None and is_chunk:
            agent.turns.pop()
            before, agent.waiting = without_empty({"before": agent.waiting}), []
            noted = as_object(last.meta.get(META))
            used = max(filter(None, (last.usage, usage)), key=lambda each: each["outputTokens"], default=None)
            meta = {META: noted | {"chunks": [*noted.get("chunks", []), {"id": own} | left | before]}}
            yield replace(last, pieces=(*last.pieces, piece), usage=used, meta=meta)
        else:
            yield SourceTurn("assistant", (piece,), time=time, model=model, usage=usage, meta=_noted(left))

    def _asked(
        self, agent: _Agent, own: str, time: datetime | None, data: Json, role: str = "assistant"
    ) -> Iterator[SourceTurn]:
        """Yield a call that no answer asked for before."""
        call, tool = as_text(data.get("toolCallId")), valid_name(data.get("toolName"))
        if call is None or tool is None or call in agent.calls:
            return
        agent.calls.add(call)
        yield SourceTurn(role, (Piece(own, (call_part(call, tool, data.get("arguments", {})),)),), time=time)

    def _result(self, _: _Agent, own: str, time: datetime | None, data: Json) -> Iterator[SourceTurn]:
        call = as_text(data.get("toolCallId"))
        if call is None:
            return
        start = self.starts.pop(call, {})
        began = as_object(start.get("data"))
        left = without_keys(data, "toolCallId", "success", "result")
        result = data.get("result")
        beyond = without_keys(as_object(result), "content")
        content: Any = result.get("content") if isinstance(result, dict) else result
        if beyond.get("detailedContent", "") == content:
            beyond.pop("detailedContent", None)
        failed = data.get("success") is False
        if content in (None, "") and failed:
            content = as_text(value_at(data, "error", "message")) or content
        images = [self._attachment(each) for each in objects_in(beyond.get("binaryResultsForLlm"))]
        if any(each["type"] == "image" for each in images):
            content = [{"type": "text", "text": content or ""}, *images]
            del beyond["binaryResultsForLlm"]
        ran = run_times(parse_time(start.get("timestamp")), time)
        told = ({"call_id": call, "is_error": failed, **ran},) if len(ran) > 1 else ()
        more = without_keys(began, "toolCallId", "toolName", "arguments", "turnId")
        part = result_part(call, content if content is not None else "", failed=failed)
        meta = _noted(left | without_empty({"result": beyond, "start": more}))
        yield SourceTurn("tool", (Piece(own, (part,)),), time=time, tool_results=told, meta=meta)

    def _summary(self, agent: _Agent, own: str, time: datetime | None, data: Json) -> Iterator[SourceTurn]:
        if data.get("success") is False or as_text(data.get("summaryContent")) is None:
            return
        left = without_keys(data, "summaryContent")
        used = as_object(left.get("compactionTokensUsed"))
        counts = _counts_of(used) or {new: used[old] for old, new in _OLD_COUNTS.items() if type(used.get(old)) is int}
        before, after = (_whole(data.get(f"{when}CompactionTokens")) for when in ("pre", "post"))
        through, trigger = len(agent.turns) - 1 if agent.turns else None, valid_name(data.get("trigger"))
        summed = Compaction(summarised_through=through, tokens_before=before, tokens_after=after, trigger=trigger)
        usage, model = with_source(counts, "copilot") if counts else None, valid_name(used.get("model"))
        pieces, meta = (Piece(own, data["summaryContent"]),), _noted(left)
        yield SourceTurn("summary", pieces, time=time, model=model, usage=usage, compaction=summed, meta=meta)

    # --- usage

    def _usage(self, agent: _Agent, data: Json) -> None:
        """Let the last answer have what its call used, where the log tells it."""
        counts = _counts_of(data)
        at = next((n for n in range(len(agent.turns) - 1, -1, -1) if agent.turns[n].role == "assistant"), None)
        if at is not None and counts:
            turn = agent.turns[at]
            model = valid_name(data.get("model")) or turn.model
            agent.turns[at] = replace(turn, usage=with_source(counts, "copilot"), model=model)

    def _shutdown(self, _: _Agent, own: str, time: datetime | None, data: Json) -> Iterator[SourceTurn]:
        """Yield for each model what it used beyond what is counted with turns before."""
        metrics = {model: each for model, each in as_object(data.get("modelMetrics")).items() if isinstance(each, dict)}
        now = {model: _counts_of(as_object(metric.get("usage"))) for model, metric in metrics.items()}
        told = self._told()
        before = self.last_shutdown.items()
        if any(now.get(model, {}).get(name, 0) < n for model, counts in before for name, n in counts.items()):
            told -= self.counted
        left, new = dict(data), Counter[tuple[str, str]]()
        for n, (model, counts) in enumerate(now.items()):
            rest = {name: max(0, count - told[model, name]) for name, count in counts.items()}
            if "reasoningTokens" in rest:  # a part of the output
                rest["reasoningTokens"] = min(rest["reasoningTokens"], rest.get("outputTokens", 0))
            if not any(rest.values()) or valid_name(model) is None:
                continue
            turn = SourceTurn("usage", (Piece(f"{own}/{n}", ""),), time=time, model=model, meta=_noted(left))
            yield replace(turn, usage=with_source(rest, "copilot"))
            left = {}
            new.update({(model, name): count for name, count in rest.items()})
        self.last_shutdown, self.counted = now, self._told() + new

    def _told(self) -> Counter[tuple[str, str]]:
        """Return the tokens that turns tell so far, by model and kind."""
        told = Counter[tuple[str, str]]()
        for turn in (turn for agent in self.agents.values() for turn in agent.turns):
            told.update({(turn.model or "", name): count for name, count in _counts_of(turn.usage or {}).items()})
        return told


_READERS: Final[Mapping[str, Callable[[_Log, _Agent, str, datetime | None, Json], Iterator[SourceTurn]]]] = {
    "user.message": _Log._prompt, "system.message": _Log._system, "assistant.message": _Log._answer,
    "tool.user_requested": partial(_Log._asked, role="user"), "tool.execution_start": _Log._asked,
    "tool.execution_complete": _Log._result, "session.compaction_complete": _Log._summary,
    "session.shutdown": _Log._shutdown,
}  # fmt: skip
"""What makes the turns of an event, by its type; none for events that no model was shown."""


def _counts_of(used: Json) -> dict[str, int]:
    return {name: used[name] for name in _COUNTS if type(used.get(name)) is int}


def _is_bookkeeping(event: Json) -> bool:
    """Tell whether an event says nothing that its neighbours do not: a start whose call is told, a turn's bounds."""
    if event.get("type") in ("assistant.turn_start", "assistant.turn_end"):
        return as_object(event.get("data")).keys() <= {"turnId", "interactionId"}
    return event.get("type") == "tool.execution_start"  # it goes with what the tool answered


def _noted(left: Json) -> dict[str, Any]:
    kept = without_empty(left)
    return {META: kept} if kept else {}


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None


def _id_in(name: str) -> str:
    """Return what a log's path names its session: its folder, or the file itself."""
    parts = [part for part in re.split(r"[/\\]", name) if part]
    if not parts:
        return ""
    return parts[-2] if parts[-1] == "events.jsonl" and len(parts) > 1 else parts[-1].removesuffix(".jsonl")
