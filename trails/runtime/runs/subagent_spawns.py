"""Spawn sub-agents, and define the tools that models are offered.

The two tools that a model is offered, `sessions_spawn` and `sessions_send`: their schemas, and reading a call's parameters.

Starting a sub-agent: who may, of which agent, with which model, and all of it in one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from trails.errors import InvalidInput, RequestRefused
from trails.history.records import subagent_runs
from trails.model import validation
from trails.model.values import SessionRecord, Value
from trails.rdf.subagent_records import Run
from trails.runtime import keys
from trails.runtime.config_values import Section
from trails.runtime.ledger import inbox
from trails.runtime.policy.entry_patches import apply_patch
from trails.runtime.policy.run_records import SpawnRequest, new_run
from trails.runtime.policy.session_entry import check_label
from trails.runtime.policy.subagents import spawn_target
from trails.runtime.runs import run_registry
from trails.runtime.runs.agent_messages import DEFAULT_TIMEOUT, SendRequest
from trails.runtime.runs.run_engine import TASK_SOURCE, Engine, agent_of
from trails.runtime.runs.run_registry import run_exists_error

_TEXT: Final = {"type": "string"}

SPAWN_TOOL: Final[Mapping[str, Any]] = {
    "name": "sessions_spawn",
    "description": "Start a sub-agent on a task in a session of its own. Its result is announced to you when it ends.",
    "parameters": {
        "type": "object",
        "properties": {
            "task": _TEXT | {"description": "What the sub-agent is to do."},
            "label": _TEXT | {"description": "What people call it, up to 64 characters.", "maxLength": 64},
            "agentId": _TEXT | {"description": "The agent that runs it, where that is another one."},
            "model": _TEXT | {"description": "The model, in place of the usual one."},
            "thinking": _TEXT | {"description": "The thinking level, in place of the usual one."},
            "runTimeoutSeconds": {"type": "number", "minimum": 0, "description": "How long it may take; 0: no limit."},
            "cleanup": {"type": "string", "enum": ["delete", "keep"], "description": "What becomes of its session."},
        },
        "required": ["task"],
    },
}
SEND_TOOL: Final[Mapping[str, Any]] = {
    "name": "sessions_send",
    "description": "Send a message to another session, named by its key or its label, and wait for the answer.",
    "parameters": {
        "type": "object",
        "properties": {
            "sessionKey": _TEXT | {"description": "The session's key."},
            "label": _TEXT | {"description": "The session's label, where you have no key."},
            "agentId": _TEXT | {"description": "The agent whose session has the label."},
            "message": _TEXT | {"description": "What to say."},
            "timeoutSeconds": {
                "type": "number",
                "minimum": 0,
                "description": f"How long to wait for an answer; 0: not at all. {DEFAULT_TIMEOUT} by default.",
            },
        },
        "required": ["message"],
    },
}


def read_send_call(parameters: Mapping[str, Any], *, sandboxed: bool, channel: str | None) -> SendRequest:
    """Read the parameters of `sessions_send`; wrong and unknown ones raise `RequestRefused`.

    >>> read_send({"message": "Hello", "label": "desk", "timeoutSeconds": 2.9}, sandboxed=False, channel=None).timeout_seconds
    2
    """
    fields = Section(parameters, "sessions_send").fields
    names = SEND_TOOL["parameters"]["properties"]
    for name in fields:
        if name not in names:
            raise RequestRefused(f"sessions_send has no parameter {name}; it has {', '.join(names)}")
    return SendRequest.of(
        message=fields.get("message", ""),
        session_key=fields.get("sessionKey"),
        label=fields.get("label"),
        agent_id=fields.get("agentId"),
        timeout_seconds=fields.get("timeoutSeconds", DEFAULT_TIMEOUT),
        sandboxed=sandboxed,
        requester_channel=channel,
    )


_MODEL_REFUSALS: Final = ("invalid model", "model not allowed")
"""What makes a model a warning: the run then goes on with the usual one."""


class Spawned(Value):
    """The answer to a spawn. Where it is not accepted, nothing was changed, and `error` says why."""

    status: Literal["accepted", "forbidden", "error"]
    child_session_key: str | None = None
    run_id: str | None = None
    model_applied: bool | None = None
    warning: str | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as the tool gives it; what is not known is left out."""
        plain = {
            "status": self.status,
            "childSessionKey": self.child_session_key,
            "runId": self.run_id,
            "modelApplied": self.model_applied,
            "warning": self.warning,
            "error": self.error,
        }
        return {name: value for name, value in plain.items() if value is not None}


def spawn_subagent(
    engine: Engine, requester: str, request: SpawnRequest, origin: Mapping[str, Any] | None = None
) -> Spawned:
    """Start a sub-agent for a session; `origin` says where the request came from (channel, to, accountId, threadId)."""
    validation.text(request.task, "the task")
    key, record = engine.places.named(requester)
    try:
        target = spawn_target(key, request.agent_id, settings=engine.settings.spawn)
    except RequestRefused as refused:
        return Spawned(status="forbidden", error=f"{refused}")
    child_key = keys.subagent_key(target, engine.host.new_id())
    now = engine.now()
    try:
        label = None if request.label is None else check_label(request.label)
        model = engine.settings.spawn.model_for(target, request.model)
        entry, warning = _entry(engine, key, child_key, model, _thinking(engine, target, request))
    except RequestRefused as refused:
        return Spawned(status="error", error=f"{refused}")
    run = _run(engine, key, child_key, request, origin=origin, now=now, target=target)
    run = run.model_copy(update={"model": _model_in(entry), "thinking": entry.get("thinkingLevel")})
    engine.prompt(run)  # a builder that fails does so before anything is written
    if record is None:
        record = engine.repository.record(engine.places.ensure(key))
    warnings = [warning] if warning else []
    if label is not None and not engine.places.is_free(label):
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


def _thinking(engine: Engine, target: str, request: SpawnRequest) -> str | None:
    return request.thinking or engine.settings.spawn.of(target).thinking or engine.settings.spawn.defaults.thinking


def _entry(
    engine: Engine, key: str, child_key: str, model: str | None, thinking: str | None
) -> tuple[dict[str, Any], str | None]:
    """Return the entry of the child's session, and a warning where the model cannot be had."""
    now = engine.now()
    plain: dict[str, Any] = {"spawnedBy": key} | ({"thinkingLevel": thinking} if thinking else {})
    wanted = plain | ({"model": model} if model else {})
    try:
        return apply_patch({}, child_key, wanted, now=now, new_id="", models=engine.models), None
    except RequestRefused as refused:
        if not model or not any(each in f"{refused}" for each in _MODEL_REFUSALS):
            raise
        return apply_patch({}, child_key, plain, now=now, new_id="", models=engine.models), f"{refused}"


def _model_in(entry: Mapping[str, Any]) -> str | None:
    provider, model = entry.get("providerOverride"), entry.get("modelOverride")
    return f"{provider}/{model}" if provider and model else model


def _run(
    engine: Engine,
    key: str,
    child_key: str,
    request: SpawnRequest,
    *,
    origin: Mapping[str, Any] | None,
    now: datetime,
    target: str,
) -> Run:
    made = new_run(
        run_id=engine.host.new_id(),
        child_session_key=child_key,
        requester_session_key=key,
        requester_display_key=engine.places.shown(key),
        requester_origin=origin,
        task=request.task,
        cleanup=request.cleanup,
        label=request.label,
        now=now,
        archive_after_minutes=engine.settings.spawn.defaults.archive_after_minutes,
    )
    return run_registry.run_of(made, agent=target, run_timeout_seconds=request.run_timeout_seconds)


def _store(engine: Engine, run: Run, requester: SessionRecord, entry: Mapping[str, Any], label: str | None) -> Run:
    """Store the child's session, its task in its inbox and the run in one commit; return the run as stored."""
    key = run.child_session_key or ""
    child = engine.places.child(key, requester, run.created or engine.now())
    run = run.model_copy(update={"child_session": child.id, "requester_session": requester.id})
    task = inbox.inbound_event(
        child.id,
        run.task or "",
        now=engine.now(),
        source=TASK_SOURCE,
        event_id=run.run_id,
        author=agent_of(run.requester_session_key),
    )
    made = [task.model_copy(update={"number": 1})]
    if engine.places.begin(child, entry, made=made, also=subagent_runs.register_run(run), label=label):
        engine.registry.note(run)
        return run
    if engine.registry.find(run.run_id) is not None or engine.registry.was_removed(run.run_id):
        raise run_exists_error(run.run_id)
    if requester.id not in engine.repository:
        raise engine.repository.reader.not_found(requester.id)
    raise InvalidInput(f"the key {key!r} names a session already; nothing was changed, try again")
