"""Spawn sub-agents, send messages between sessions, and define these two tools."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Self
from uuid import uuid4

from pydantic import AliasGenerator
from pydantic.alias_generators import to_camel

from trails.errors import InvalidInput, RequestRefused, SessionNotFound
from trails.history.records.subagent_runs import is_removed_run
from trails.model import validation
from trails.model.values import SessionRecord, Value
from trails.rdf.ledger_records import Outcome
from trails.rdf.subagent_records import Run, RunContent
from trails.runtime import inbox, keys
from trails.runtime.config_values import Json, Section, is_number
from trails.runtime.policy import subagents
from trails.runtime.policy.run_rules import SpawnRequest, archive_time, tool_texts
from trails.runtime.policy.send_policy import resolve_send_policy
from trails.runtime.policy.session_entry import apply_patch, check_label, delivery_context
from trails.runtime.runs import run_registry
from trails.runtime.runs.host import Outgoing
from trails.runtime.runs.run_engine import TASK_SOURCE, Engine, Reply, Then, agent_of
from trails.runtime.runs.run_registry import run_exists_error

DEFAULT_TIMEOUT: Final = 30
ANNOUNCE_STEP: Final = "Agent-to-agent announce step."
_DISABLED: Final = (
    "Agent-to-agent messaging is disabled. Set tools.agentToAgent.enabled=true to allow cross-agent sends."
)
_DENIED: Final = "Agent-to-agent messaging denied by tools.agentToAgent.allow."
_report = logging.getLogger("trails.runtime.runs")
_HIDDEN: Final = "Session not visible from this sandboxed agent session"


class ToolAnswer(Value):
    """The answer to a call of a tool."""

    model_config = Value.model_config | {"alias_generator": AliasGenerator(serialization_alias=to_camel)}

    def to_json(self) -> dict[str, Any]:
        """Return the answer as the tool gives it.

        What is not known is left out.
        """
        return self.model_dump(by_alias=True, exclude_none=True)


class Sent(ToolAnswer):
    """The answer to a sending: "ok" with the reply, "accepted" if nobody waits for one, or why there is none."""

    run_id: str
    status: Literal["ok", "accepted", "timeout", "error", "forbidden"]
    reply: str | None = None
    error: str | None = None
    session_key: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as the tool gives it, with what becomes of the reply."""
        pending = {"delivery": {"status": "pending", "mode": "announce"}}
        return super().to_json() | (pending if self.status in ("ok", "accepted") else {})


@dataclass(frozen=True, slots=True)
class SendRequest:
    """What is to be sent, and how the target is named."""

    message: str
    session_key: str | None = None
    label: str | None = None
    agent_id: str | None = None
    timeout_seconds: int = DEFAULT_TIMEOUT
    sandboxed: bool = False
    """Whether the requester sees only itself and what it spawned."""
    requester_channel: str | None = None

    @classmethod
    def from_json(cls, parameters: Json, *, sandboxed: bool = False, channel: str | None = None) -> Self:
        """Read the parameters of `sessions_send`.

        Wrong and unknown ones raise `RequestRefused`.

        >>> SendRequest.from_json({"message": "Hello", "label": "desk", "timeoutSeconds": 2.9}).timeout_seconds
        2
        """
        fields = Section(parameters, "sessions_send").fields
        texts = tool_texts("sessions_send", fields, ("sessionKey", "label", "agentId", "message"), ("timeoutSeconds",))
        if not fields.get("message"):
            raise RequestRefused("message required")
        return cls(
            message=fields["message"],
            session_key=texts["sessionKey"],
            label=texts["label"],
            agent_id=texts["agentId"],
            timeout_seconds=whole_seconds(fields.get("timeoutSeconds", DEFAULT_TIMEOUT)),
            sandboxed=sandboxed,
            requester_channel=channel,
        )


def whole_seconds(value: float) -> int:
    """Return a time-out in whole seconds: floored, 0 to a day.

    What is no finite number raises `RequestRefused`.
    """
    if not is_number(value):
        raise RequestRefused("timeoutSeconds must be a number")
    return max(0, min(86_400, int(value)))


class _RefusedError(Exception):
    """A sending that is refused, and how the tool says so."""

    def __init__(self, status: Literal["error", "forbidden"], words: str, key: str | None = None) -> None:
        super().__init__(words)
        self.status: Literal["error", "forbidden"] = status
        self.key = key


def send_message(engine: Engine, requester: str | None, request: SendRequest) -> Sent:
    """Send a message to a session, and wait for its answer as long as the request says."""
    message = validation.text(request.message, "the message")
    run_id = engine.host.new_id()
    requester_key, asking = (None, None) if requester is None else engine.places.named(requester)
    try:
        target_key = _send_target(engine, requester_key, asking, request)
    except _RefusedError as refused:
        return Sent(run_id=run_id, status=refused.status, error=f"{refused}", session_key=refused.key)
    shown = engine.places.shown(target_key)
    if requester_key is not None and asking is None:
        engine.places.ensure(requester_key)  # it is answered there
    talk = Talk(engine, run_id, requester_key, target_key, request)
    session_id = engine.places.ensure(target_key)
    if request.timeout_seconds == 0:
        talk.send(session_id, message, talk.begin)
        return Sent(run_id=run_id, status="accepted", session_key=shown)
    reply = _wait(engine, partial(talk.send, session_id, message), request.timeout_seconds)
    if reply is None:
        return Sent(run_id=run_id, status="timeout", session_key=shown)
    if reply.status == "error":
        return Sent(run_id=run_id, status="error", error=reply.error or "agent error", session_key=shown)
    talk.begin(reply)
    return Sent(run_id=run_id, status="ok", reply=reply.text, session_key=shown)


# --- the target


def _send_target(engine: Engine, requester_key: str | None, asking: SessionRecord | None, request: SendRequest) -> str:
    """Return the key of the session that is meant and may be sent to, or raise `_RefusedError`."""
    label, named = request.label, request.session_key
    if label and named:
        raise _RefusedError("error", "Provide either sessionKey or label (not both).")
    restricted = bool(
        request.sandboxed
        and not engine.settings.sandbox_sees_all
        and requester_key
        and not keys.is_subagent_key(requester_key)
    )
    if label:
        key = _by_label(engine, requester_key, label, request.agent_id, restricted=restricted)
    elif named:
        try:
            key = engine.places.named(named)[0]
        except SessionNotFound as missing:
            raise _RefusedError("error", f"No session found: {named}") from missing
        if restricted and not (asking is not None and engine.places.sees(asking, key)):
            raise _RefusedError("forbidden", f"{_HIDDEN}: {named}", engine.places.shown(key))
    else:
        raise _RefusedError("error", "Either sessionKey or label is required")
    _check_agents(engine, requester_key, keys.agent_id_from_key(key), shown=engine.places.shown(key))
    return key


def _by_label(engine: Engine, requester_key: str | None, label: str, agent_id: str | None, *, restricted: bool) -> str:
    agent = keys.normalize_agent_id(agent_id) if agent_id else None
    if agent and requester_key and agent != keys.agent_id_from_key(requester_key):
        if restricted:
            raise _RefusedError("forbidden", "Sandboxed sessions_send label lookup is limited to this agent")
        _check_agents(engine, requester_key, agent)
    try:
        return engine.places.resolve(label=label, agent_id=agent, spawned_by=requester_key if restricted else None)
    except RequestRefused as refused:
        if restricted:
            raise _RefusedError("forbidden", f"{_HIDDEN}.") from refused
        raise _RefusedError("error", f"{refused}") from refused


def _check_agents(engine: Engine, requester_key: str | None, target: str, *, shown: str | None = None) -> None:
    requester = keys.agent_id_from_key(requester_key)
    policy = engine.settings.agent_to_agent
    if not policy.allows(requester, target):
        raise _RefusedError("forbidden", _DENIED if policy.enabled else _DISABLED, shown)


# --- waiting


def _wait(engine: Engine, send: Callable[[Then], None], seconds: int) -> Reply | None:
    """Send a message and return what came of it, or None if the time was up.

    Where threads or an event loop work on the lanes, they do it; else it is done here, if the lane has a place left.
    """
    replies: list[Reply | None] = []
    done = threading.Event()

    def then(reply: Reply | None) -> None:
        replies.append(reply)
        done.set()

    send(then)
    if engine.lanes.listener is not None:
        done.wait(seconds)
    else:
        while not done.is_set() and engine.lanes.drain(1, ["nested"]):
            pass
    engine.drop(then)
    return replies[0] if replies else None


# --- the talk


class Talk:
    """What follows a sending: the two answer each other a few times, then the target may tell its channel."""

    def __init__(
        self, engine: Engine, run_id: str, requester_key: str | None, target_key: str, request: SendRequest
    ) -> None:
        self._engine = engine
        self._run_id = run_id
        self._requester_key = requester_key
        self._target_key = target_key
        self._message = request.message
        self._patience = timedelta(seconds=request.timeout_seconds or DEFAULT_TIMEOUT)
        self._turns = subagents.ping_pong_turns(engine.settings.ping_pong)
        self._order = iter(subagents.ping_pong_order(requester_key, target_key, self._turns))
        self._first: str | None = None
        self._latest: str | None = None
        self._channel = _channel_of(engine, target_key)
        self._parties = subagents.Parties(
            target_session_key=engine.places.shown(target_key),
            requester_session_key=requester_key,
            requester_channel=request.requester_channel,
            target_channel=self._channel.channel if self._channel else "unknown",
        )

    def send(self, session_id: str, message: str, then: Then) -> None:
        """Send the target its first message."""
        first = (message, self._run_id, agent_of(self._requester_key))
        self._engine.ask(session_id, first, subagents.message_context(self._parties), then, self._patience)

    def begin(self, reply: Reply | None) -> None:
        """Begin with the target's first reply.

        Without one there is no talk.
        """
        if reply is None or reply.status != "ok" or not reply.text:
            return
        self._first = self._latest = reply.text
        self._next()

    def _next(self) -> None:
        """Let whose turn it is answer what was said last."""
        turn = next(self._order, None)
        if turn is None:
            self._announce()
            return
        instructions = subagents.reply_context(self._parties, role=turn.role, turn=turn.number, turns=self._turns)
        message = (self._latest or "", f"{self._run_id}:turn-{turn.number}", agent_of(turn.partner_key))
        self._step(turn.session_key, message, instructions, self._answered)

    def _answered(self, reply: Reply | None) -> None:
        text = reply.text if reply is not None and reply.status == "ok" else None
        if text is None or subagents.ends_ping_pong(text):
            self._announce()
            return
        self._latest = text
        self._next()

    def _announce(self) -> None:
        instructions = subagents.announce_context(
            self._parties, original=self._message, first_reply=self._first, latest_reply=self._latest
        )
        message = (ANNOUNCE_STEP, f"{self._run_id}:announce", agent_of(self._target_key))
        self._step(self._target_key, message, instructions, self._post)

    def _step(self, key: str, message: tuple[str, str, str], instructions: str, then: Then) -> None:
        """Have a session answer a message of the other one."""
        session_id = self._engine.places.session_of(key)
        if session_id is None:
            then(None)  # it was deleted meanwhile
        else:
            self._engine.ask(session_id, message, instructions, then, self._patience)

    def _post(self, reply: Reply | None) -> None:
        """Post what the target tells its channel, if there is one and it may."""
        engine, channel = self._engine, self._channel
        if channel is None or engine.host.send is None or reply is None or not reply.text or reply.turn_iri is None:
            return
        entry, key = engine.places.entry(self._target_key), self._target_key
        outcome: Outcome = "skipped"
        reason: str | None = None
        if subagents.is_announce_skip(reply.text):
            reason = subagents.ANNOUNCE_SKIP
        elif resolve_send_policy(engine.settings.send, entry=entry, session_key=key, strip_agent=True) == "deny":
            reason = "the send policy denies it"
        else:
            try:
                engine.host.send(replace(channel, text=reply.text, idempotency_key=f"send:{self._run_id}"))
                outcome = "sent"
            except Exception as error:  # noqa: BLE001 - whatever a host's own code raises, the talk is over
                _report.exception("sending to %s failed", channel.channel)
                outcome, reason = "failed", type(error).__name__
        engine.ledger.delivered(reply.turn_iri, channel=channel.channel, outcome=outcome, reason=reason)


def _channel_of(engine: Engine, key: str) -> Outgoing | None:
    """Return where a session is heard: by its key, for groups and channels, else by what its entry says."""
    parsed = keys.parse_key(key)
    if parsed.kind in ("group", "channel") and parsed.channel and parsed.id:
        return Outgoing(parsed.channel, f"{parsed.kind}:{parsed.id}", "", key, "", thread_id=parsed.thread_id)
    entry = engine.places.entry(key)
    last = {"channel": entry.get("lastChannel"), "to": entry.get("lastTo"), "accountId": entry.get("lastAccountId")}
    address = delivery_context(entry.get("deliveryContext")) or delivery_context(last) or {}
    if not address.get("channel") or not address.get("to"):
        return None
    return Outgoing(address["channel"], address["to"], "", key, "", address.get("accountId"), address.get("threadId"))


SPAWN_TOOL, SEND_TOOL = json.loads(Path(__file__).with_name("tools.json").read_text("utf-8"))
"""The two tools as a model is told of them."""
_MODEL_REFUSALS: Final = ("invalid model", "model not allowed")
"""What makes a model a warning: the run then goes on with the usual one."""


class Spawned(ToolAnswer):
    """The answer to a spawn.

    Where it is not accepted, nothing was changed, and `error` says why.
    """

    status: Literal["accepted", "forbidden", "error"]
    child_session_key: str | None = None
    run_id: str | None = None
    model_applied: bool | None = None
    warning: str | None = None
    error: str | None = None


def spawn_subagent(engine: Engine, requester: str, request: SpawnRequest, origin: Json | None = None) -> Spawned:
    """Start a sub-agent for a session.

    `origin` says where the request came from (channel, to, accountId, threadId).
    """
    key, record = engine.places.named(requester)
    try:
        target = subagents.spawn_target(key, request.agent_id, settings=engine.settings.spawn)
    except RequestRefused as refused:
        return Spawned(status="forbidden", error=f"{refused}")
    child_key = keys.subagent_key(target, engine.host.new_id())
    spawn = engine.settings.spawn
    thinking = request.thinking or spawn.of(target).thinking or spawn.defaults.thinking
    model = spawn.model_for(target, request.model)
    try:
        label = None if request.label is None else check_label(request.label)
        entry, warning = _entry(engine, key, child_key, model, thinking)
    except RequestRefused as refused:
        return Spawned(status="error", error=f"{refused}")
    now = engine.now()
    run = Run(
        run_id=engine.host.new_id(),
        child_session_key=child_key,
        requester_session_key=key,
        requester_display_key=engine.places.shown(key) or None,
        requester_origin=run_registry.origin_of(origin),
        said=RunContent.of(validation.text(request.task, "the task")),
        cleanup=request.cleanup,
        label=request.label,
        created=now,
        started=now,
        archive_at=archive_time(now, spawn.defaults.archive_after_minutes),
        cleanup_handled=False,
        agent=target,
        model=_model_in(entry),
        thinking=entry.get("thinkingLevel"),
        run_timeout_seconds=request.run_timeout_seconds,
    )
    engine.prompt(run)  # a builder that fails does so before anything is written
    if record is None:
        record = engine.repository.record(engine.places.ensure(key))
    warnings = [warning] if warning else []
    if label is not None and engine.repository.reader.labelled(label) is not None:
        warnings.append(f"label already in use: {label}")
        label = None
    stored = _store(engine, run, record, entry, label)
    engine.queue_run(stored)
    return Spawned(
        status="accepted",
        child_session_key=child_key,
        run_id=stored.run_id,
        model_applied=None if model is None else warning is None,
        warning="; ".join(warnings) or None,
    )


def _entry(
    engine: Engine, key: str, child_key: str, model: str | None, thinking: str | None
) -> tuple[dict[str, Any], str | None]:
    """Return the entry of the child's session, and a warning if the model cannot be had."""
    now = engine.now()
    plain: dict[str, Any] = {"spawnedBy": key} | ({"thinkingLevel": thinking} if thinking else {})
    wanted = plain | ({"model": model} if model else {})
    try:
        return apply_patch({}, child_key, wanted, now=now, new_id="", models=engine.models), None
    except RequestRefused as refused:
        if not model or not any(each in f"{refused}" for each in _MODEL_REFUSALS):
            raise
        return apply_patch({}, child_key, plain, now=now, new_id="", models=engine.models), f"{refused}"


def _model_in(entry: Json) -> str | None:
    provider, model = entry.get("providerOverride"), entry.get("modelOverride")
    return f"{provider}/{model}" if provider and model else model


def _store(engine: Engine, run: Run, requester: SessionRecord, entry: Json, label: str | None) -> Run:
    """Store the child's session, its task in its inbox and the run in one commit; return the run as stored."""
    task = inbox.inbound_event(
        uuid4().hex,
        run.task or "",
        now=engine.now(),
        source=TASK_SOURCE,
        event_id=run.run_id,
        author=agent_of(run.requester_session_key),
    )
    task = task.model_copy(update={"number": 1})
    begun = engine.places.begin_child(run, requester, entry, task, label=label)
    if begun is not None:
        return begun
    if engine.registry.find(run.run_id) is not None or is_removed_run(engine.repository.store, run.run_id):
        raise run_exists_error(run.run_id)
    if requester.id not in engine.repository:
        raise engine.repository.reader.not_found(requester.id)
    raise InvalidInput(f"the key {run.child_session_key!r} names a session already; nothing was changed, try again")
