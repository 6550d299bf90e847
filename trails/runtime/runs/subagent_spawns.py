"""Spawn sub-agents, and define the tools that models are offered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal
from uuid import uuid4

from pyoxigraph import Literal as RdfLiteral

from trails.errors import InvalidInput, RequestRefused
from trails.model import validation
from trails.model.values import SessionRecord, Value
from trails.rdf import vocab
from trails.rdf.subagent_records import Run
from trails.runtime import keys
from trails.runtime.ledger import inbox
from trails.runtime.policy.entry_patches import apply_patch
from trails.runtime.policy.run_records import SpawnRequest, new_run
from trails.runtime.policy.session_entry import check_label
from trails.runtime.policy.subagents import spawn_target
from trails.runtime.runs import run_registry
from trails.runtime.runs.agent_messages import DEFAULT_TIMEOUT
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
    key, record = engine.places.named(requester)
    try:
        target = spawn_target(key, request.agent_id, settings=engine.settings.spawn)
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
    made = new_run(
        run_id=engine.host.new_id(),
        child_session_key=child_key,
        requester_session_key=key,
        requester_display_key=engine.places.shown(key),
        requester_origin=origin,
        task=validation.text(request.task, "the task"),
        cleanup=request.cleanup,
        label=request.label,
        now=engine.now(),
        archive_after_minutes=spawn.defaults.archive_after_minutes,
    )
    run = run_registry.run_of(
        made,
        agent=target,
        run_timeout_seconds=request.run_timeout_seconds,
        model=_model_in(entry),
        thinking=entry.get("thinkingLevel"),
    )
    engine.prompt(run)  # a builder that fails does so before anything is written
    if record is None:
        record = engine.repository.record(engine.places.ensure(key))
    warnings = [warning] if warning else []
    if label is not None and engine.repository.store.quads((None, vocab.LABEL, RdfLiteral(label), vocab.CATALOG)):
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


def _store(engine: Engine, run: Run, requester: SessionRecord, entry: Mapping[str, Any], label: str | None) -> Run:
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
    if engine.registry.find(run.run_id) is not None or engine.registry.was_removed(run.run_id):
        raise run_exists_error(run.run_id)
    if requester.id not in engine.repository:
        raise engine.repository.reader.not_found(requester.id)
    raise InvalidInput(f"the key {run.child_session_key!r} names a session already; nothing was changed, try again")
