"""Between the registry's runs and records of runs as `runs.json` has them, all fields of which are kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from trails import keys, validate
from trails.errors import InvalidInput
from trails.model import Value
from trails.policy.run import RUN_FIELDS, RunOutcome, RunRecord, read_runs, write_runs
from trails.policy.times import from_ms, to_ms
from trails.records.run import Origin, Run, Said
from trails.runs.addresses import Places
from trails.runs.registry import Registry

_LEGACY: Final = frozenset(
    {"announceCompletedAt", "announceHandled", "requesterChannel", "requesterAccountId", "requesterTo"}
)
_INSIDE: Final[Mapping[str, frozenset[str]]] = {
    "requesterOrigin": frozenset({"channel", "to", "accountId", "threadId"}),
    "outcome": frozenset({"status", "error"}),
}


def record_of(run: Run) -> RunRecord:
    """Return a run as a record, for the rules that are made over records."""
    return RunRecord(
        run_id=run.run_id,
        child_session_key=run.child_session_key or "",
        requester_session_key=run.requester_session_key or "",
        requester_display_key=run.requester_display_key or "",
        task=run.task or "",
        cleanup=run.cleanup or "keep",
        created_at=_ms(run.created) or 0,
        requester_origin=None if run.requester_origin.is_empty() else run.requester_origin.to_json(),
        label=run.label,
        started_at=_ms(run.started),
        ended_at=_ms(run.ended),
        outcome=None if run.outcome is None else RunOutcome(status=run.outcome, error=run.error),
        archive_at_ms=_ms(run.archive_at),
        cleanup_completed_at=_ms(run.cleanup_completed),
        cleanup_handled=run.cleanup_handled,
    )


def changes(before: RunRecord, after: RunRecord) -> dict[str, Any]:
    """Return the fields of a run that a rule over its record changed, under the names of `Run`."""
    found: dict[str, Any] = {}
    for mine, its in _TIMES.items():
        if getattr(before, its) != getattr(after, its):
            found[mine] = _moment(getattr(after, its))
    if before.cleanup_handled != after.cleanup_handled:
        found["cleanup_handled"] = after.cleanup_handled
    if before.outcome != after.outcome:
        found["outcome"] = None if after.outcome is None else after.outcome.status
    return found


_TIMES: Final = {
    "created": "created_at",
    "started": "started_at",
    "ended": "ended_at",
    "archive_at": "archive_at_ms",
    "cleanup_completed": "cleanup_completed_at",
}


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else from_ms(ms)


def run_of(record: RunRecord, *, extra: Mapping[str, Any] | None = None, **ours: Any) -> Run:
    """Return a run from a record, with what else its record held, and with what only the registry knows."""
    origin = record.requester_origin or {}
    error = record.outcome.error if record.outcome else None
    return Run(
        run_id=record.run_id,
        child_session_key=record.child_session_key,
        requester_session_key=record.requester_session_key,
        requester_display_key=record.requester_display_key or None,
        requester_origin=Origin(
            channel=origin.get("channel"),
            to=origin.get("to"),
            account_id=origin.get("accountId"),
            thread_id=origin.get("threadId"),
        ),
        said=Said.of(record.task, error, validate.to_json(extra, "a record of a run") if extra else None),
        cleanup=record.cleanup,
        label=record.label,
        created=_moment(record.created_at),
        started=_moment(record.started_at),
        ended=_moment(record.ended_at),
        outcome=record.outcome.status if record.outcome else None,
        archive_at=_moment(record.archive_at_ms),
        cleanup_completed=_moment(record.cleanup_completed_at),
        cleanup_handled=record.cleanup_handled,
        **ours,
    )


# --- the file


class Imported(Value):
    """What became of the records of a file of runs."""

    added: tuple[str, ...]
    """The ids of the runs that were entered."""
    known: tuple[str, ...]
    """Those that the registry has, or had: they are left as they are."""
    dropped: tuple[str, ...]
    """What could not be read, each with the reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump()


def import_file(registry: Registry, places: Places, value: Any) -> Imported:
    """Enter the runs of a file `runs.json` (version 1 or 2, parsed) that are not known yet."""
    file = read_runs(value)
    raw = value.get("runs", {}) if file.version else {}
    added: list[str] = []
    known: list[str] = []
    dropped = list(file.dropped)
    found = (one for one in raw.values() if isinstance(one, Mapping))
    by_id = {one["runId"]: one for one in found if isinstance(one.get("runId"), str)}
    for run_id, record in file.runs.items():
        if registry.find(run_id) is not None or registry.was_removed(run_id):
            known.append(run_id)
            continue
        try:
            registry.register(_run(record, by_id[run_id], places))
        except (InvalidInput, ValueError, OverflowError) as wrong:
            dropped.append(f"{run_id}: {wrong}")
        else:
            added.append(run_id)
    return Imported(added=tuple(added), known=tuple(known), dropped=tuple(dropped))


def _run(record: RunRecord, raw: Mapping[str, Any], places: Places) -> Run:
    validate.to_json(raw, "a record of a run")  # no lone surrogates, no numbers that are none
    child, requester = record.child_session_key, record.requester_session_key
    return run_of(
        record,
        extra=_extra(record, raw),
        agent=keys.agent_id_from_key(child) if child else None,
        child_session=places.session_of(child) if child else None,
        requester_session=places.session_of(requester) if requester else None,
    )


def _extra(record: RunRecord, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record holds that a run has no place for, or in a shape that it has no place for."""
    kept, names = record.to_json(), set(RUN_FIELDS.values())
    extra: dict[str, Any] = {}
    for name, value in raw.items():
        if name in _LEGACY:
            continue
        if name not in names or (value is not None and name not in kept):
            extra[name] = value
        elif name in _INSIDE and isinstance(value, Mapping):
            inner = {part: each for part, each in value.items() if part not in _INSIDE[name]}
            extra |= {name: inner} if inner else {}
    return extra


def export_file(registry: Registry) -> dict[str, Any]:
    """Return all runs as a file `runs.json` of version 2, with everything that their records held when they came in."""
    runs = {run.run_id: run for run in registry.all()}
    made = write_runs({run_id: record_of(run) for run_id, run in runs.items()})
    for run_id, plain in made["runs"].items():
        for name, value in runs[run_id].extra.items():
            inside = name in _INSIDE and isinstance(plain.get(name), Mapping) and isinstance(value, Mapping)
            plain[name] = {**plain[name], **value} if inside else value
    return made
