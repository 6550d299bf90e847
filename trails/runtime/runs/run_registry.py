"""Store sub-agent runs, find their sessions by key, and read and write `runs.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from pyoxigraph import NamedNode

from trails.errors import InvalidInput, RequestRefused
from trails.history.records import subagent_runs
from trails.history.removal import redaction
from trails.history.transaction import Proposal, Transaction
from trails.model import iris, validation
from trails.model.values import SessionRecord, Value
from trails.rdf import vocab
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import Event
from trails.rdf.subagent_records import Run, RunContent, RunOrigin
from trails.runtime import keys
from trails.runtime.config_values import from_ms, to_ms
from trails.runtime.keys import KeySettings
from trails.runtime.policy.run_records import RUN_FIELDS, RunOutcome, RunRecord, read_runs, write_runs
from trails.runtime.routing import Router
from trails.runtime.routing.access_rules import visible_sessions
from trails.runtime.routing.key_directory import Keyring
from trails.session import Repository
from trails.store.contract import PreconditionFailed


class Places:
    """The sessions of a store by their keys.

    A session without a key has one all the same: its agent's, with its own id.
    """

    def __init__(self, repository: Repository, router: Router, settings: KeySettings) -> None:
        self._repository = repository
        self._router = router
        self._keyring = Keyring(repository)
        self._settings = settings

    def session_of(self, key: str) -> str | None:
        """Return the id of the session that a key names now, aliases followed; None if there is none."""
        found = self._keyring.find(key)
        if found is not None:
            return found[0].session_id
        orphan = self._keyring.orphan(key)
        if orphan is not None:
            return orphan.id
        parsed = keys.parse_agent_key(key)
        names = [key] if parsed is None else [key, parsed.rest]
        records = (self._record(name) for name in names)
        return next((each.id for each in records if each is not None and self.key_of(each) == key), None)

    def _record(self, session_id: str) -> SessionRecord | None:
        return self._repository.reader.records([session_id]).get(session_id)

    def key_of(self, record: SessionRecord) -> str:
        """Return the key of a session."""
        own = record.id if keys.parse_agent_key(record.id) else None
        return record.key or own or f"agent:{keys.normalize_agent_id(record.agent)}:{record.id}"

    def named(self, name: str) -> tuple[str, SessionRecord | None]:
        """Return the key that a caller means, by a key or a session's id or IRI, and the session, if there is one.

        Raises `SessionNotFound` for a name that is no key, the main session's included, and no session's either.
        """
        plain = iris.session_id(name) if iris.is_session(name) else name
        record = self._record(plain)
        if record is not None:
            return self.key_of(record), record
        key = keys.canonical_key(name, self._settings)
        session_id = self.session_of(key)
        is_main = key in ("global", "unknown") or keys.is_main_key(key, self._settings)
        if session_id is None and (iris.is_session(name) or (":" not in name and not is_main)):
            raise self._repository.reader.not_found(plain)
        return key, None if session_id is None else self._record(session_id)

    def shown(self, key: str) -> str:
        """Return a key as tools show it: the main session as "main"."""
        settings = self._settings
        if key == settings.main_session_key:
            return keys.DEFAULT_MAIN_KEY
        return keys.display_key(key, alias=settings.alias, main_key=settings.main_key)

    def entry(self, key: str) -> Mapping[str, Any]:
        """Return what is kept of the session of a key beside its turns; empty if nothing is."""
        found = self._keyring.find(key)
        return {} if found is None else self._keyring.held(found[0]).to_json()

    def resolve(self, *, label: str, agent_id: str | None = None, spawned_by: str | None = None) -> str:
        """Return the key of the one session with a label, or raise `RequestRefused`."""
        try:
            return self._router.resolve(label=label, agent=agent_id, spawned_by=spawned_by)
        except RequestRefused:
            session_id = self._repository.reader.labelled(label)
            record = None if session_id is None else self._record(session_id)
            if record is None or record.key is not None or spawned_by is not None:
                raise
            key = self.key_of(record)  # a session without a key, which the keys know nothing of
            if agent_id is not None and keys.agent_id_from_key(key) != agent_id:
                raise
            return key

    def sees(self, requester: SessionRecord, key: str) -> bool:
        """Return whether a sandboxed session sees the session of a key: itself, and what it spawned."""
        session_id = self.session_of(key)
        return session_id is not None and session_id in visible_sessions(self._repository, requester.id)

    def ensure(self, key: str) -> str:
        """Return the id of the session of a key, which is made if there is none."""
        return self.session_of(key) or self._router.session(key).id

    def begin_child(
        self, run: Run, requester: SessionRecord, fields: Mapping[str, Any], task: Event, *, label: str | None
    ) -> Run | None:
        """Store a sub-agent's session, its entry, its task and the run in one commit; return the run.

        None if another writer used the key or the run's id, or deleted the requester.
        """
        key, created = run.child_session_key or "", run.created or task.time
        session = self._repository.create(
            id=task.session_id,
            principal=requester.principal,
            agent=keys.agent_id_from_key(key),
            key=key,
            kind="subagent",
            created=created,
            spawned_by=requester.id,
        )
        run = run.model_copy(update={"child_session": session.id, "requester_session": requester.id})
        also = subagent_runs.register_run(run)
        is_begun = self._keyring.begin(key, session, fields, now=created, label=label, made=[task], also=also)
        return run if is_begun else None


Step = Callable[[Run], dict[str, Any] | None]
"""What a run's change is: the fields that become others, or None for no change."""


class Registry:
    """The runs of a store. Several registries of one store are one."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._store = repository.store

    def find(self, run_id: str) -> Run | None:
        """Return a run by its id, or None."""
        return subagent_runs.read_run(self._store, validation.text(run_id, "the run's id"))

    def get(self, run_id: str) -> Run:
        """Return a run by its id, or raise `InvalidInput`."""
        run = self.find(run_id)
        if run is None:
            gone = subagent_runs.is_removed_run(self._store, run_id)
            what = "was cleaned up or archived" if gone else "is not in the registry"
            raise InvalidInput(f"the run {run_id!r} {what}; see `trails runs list`")
        return run

    def all(self) -> list[Run]:
        """Return all runs, in the order in which they were registered."""
        return subagent_runs.read_runs(self._store)

    def of_session(self, session_id: str) -> list[Run]:
        """Return the runs in a session, and those that it asked for."""
        return subagent_runs.runs_of_session(self._store, session_id)

    def in_session(self, session_id: str) -> list[Run]:
        """Return the runs in a session."""
        return subagent_runs.read_runs(self._store, vocab.GENERATED, NamedNode(iris.session(session_id)))

    def due(self, now: datetime) -> list[Run]:
        """Return the runs whose time in the registry is over; only those are read."""
        times = list(subagent_runs.archive_times(self._store))
        found = [self.find(run_id) for run_id, moment in times if moment <= now]
        return sorted((run for run in found if run is not None), key=lambda run: (run.archive_at or now, run.run_id))

    def unfinished(self) -> list[Run]:
        """Return the runs that are not announced yet, in the order in which they were registered; only those are read."""
        return subagent_runs.unfinished_runs(self._store)

    def was_removed(self, run_id: str) -> bool:
        """Return whether a run was in the registry and was taken out."""
        return subagent_runs.is_removed_run(self._store, run_id)

    def register(self, run: Run) -> None:
        """Enter a run, or raise `InvalidInput` if its id is known."""
        try:
            subagent_runs.register_run(run).commit(self._repository.store)
        except PreconditionFailed as failure:
            raise run_exists_error(run.run_id) from failure

    def change(self, run_id: str, step: Step, also: Callable[[Run], Proposal] | None = None) -> Run | None:
        """Change a run in one commit (with what `also` gives for the run as it becomes); return it as it became.

        The step is taken on the run as it stands; if another writer was quicker, again on what that left. None if
        the run is gone or the step changes nothing.
        """
        while True:
            run = self.find(run_id)
            fields = None if run is None else step(run)
            if run is None or fields is None:
                return None
            new, change = subagent_runs.change_run(run, run.model_copy(update=fields))
            try:
                (change if also is None else change.joined(also(new))).commit(self._repository.store)
            except PreconditionFailed as failure:
                if failure.missing in change.require:
                    continue
                raise
            return new

    def remove(self, run_id: str, deed: Deed) -> bool:
        """Take a run out, as it stands; False if it is gone already."""
        while True:
            run = self.find(run_id)
            if run is None:
                return False
            try:
                subagent_runs.remove_run(run, deed).commit(self._repository.store)
            except PreconditionFailed:
                continue
            return True

    def withhold(self, run_id: str, deed: Deed) -> bool:
        """Remove the texts of a run for good; False if they were out already."""
        while True:
            run = self.get(run_id)
            remove, add = subagent_runs.withhold_run([run])
            if not remove:
                return False
            tx = Transaction()
            tx.take(remove)
            tx.add(add)
            redaction.redaction_record(tx, [run.iri], deed, place="run")
            try:
                tx.commit(self._repository.store)
            except PreconditionFailed:
                continue
            return True


def run_exists_error(run_id: str) -> InvalidInput:
    """Return the error for a run's id that is in use, or was."""
    return InvalidInput(f"the registry has, or had, a run {run_id!r}; an id stands for one run: choose another")


_LEGACY: Final = frozenset(
    {"announceCompletedAt", "announceHandled", "requesterChannel", "requesterAccountId", "requesterTo"}
)
_INSIDE: Final[Mapping[str, frozenset[str]]] = {
    "requesterOrigin": frozenset({"channel", "to", "accountId", "threadId"}),
    "outcome": frozenset({"status", "error"}),
}


def record_of(run: Run) -> RunRecord:
    """Return a run as a record, for the rules that are made over records."""
    texts: dict[str, Any] = {name: getattr(run, name) or "" for name in _TEXTS}
    times: dict[str, Any] = {
        its: None if (time := getattr(run, mine)) is None else to_ms(time) for mine, its in _TIMES.items()
    }
    return RunRecord(
        **texts,
        **times | {"created_at": times["created_at"] or 0},
        run_id=run.run_id,
        cleanup=run.cleanup or "keep",
        requester_origin=None if run.requester_origin.is_empty() else run.requester_origin.to_json(),
        label=run.label,
        outcome=None if run.outcome is None else RunOutcome(status=run.outcome, error=run.error),
        cleanup_handled=run.cleanup_handled,
    )


def run_changes(before: RunRecord, after: RunRecord) -> dict[str, Any]:
    """Return the fields of a run that a rule over its record changed, under the names of `Run`."""
    found: dict[str, Any] = {
        mine: _moment(getattr(after, its))
        for mine, its in _TIMES.items()
        if getattr(before, its) != getattr(after, its)
    }
    if before.cleanup_handled != after.cleanup_handled:
        found["cleanup_handled"] = after.cleanup_handled
    if before.outcome != after.outcome:
        found["outcome"] = None if after.outcome is None else after.outcome.status
    return found


_TEXTS: Final = ("child_session_key", "requester_session_key", "requester_display_key", "task")
_TIMES: Final = {
    "created": "created_at",
    "started": "started_at",
    "ended": "ended_at",
    "archive_at": "archive_at_ms",
    "cleanup_completed": "cleanup_completed_at",
}


def _moment(ms: int | None) -> Any:
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
        requester_origin=RunOrigin(
            channel=origin.get("channel"),
            to=origin.get("to"),
            account_id=origin.get("accountId"),
            thread_id=origin.get("threadId"),
        ),
        said=RunContent.of(record.task, error, validation.to_json(extra, "a record of a run") if extra else None),
        cleanup=record.cleanup,
        label=record.label,
        outcome=record.outcome.status if record.outcome else None,
        cleanup_handled=record.cleanup_handled,
        **{mine: _moment(getattr(record, its)) for mine, its in _TIMES.items()},
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
            raw_run = by_id[run_id]
            validation.to_json(raw_run, "a record of a run")  # no lone surrogates, no numbers that are none
            child, requester = record.child_session_key, record.requester_session_key
            run = run_of(
                record,
                extra=_extra(record, raw_run),
                agent=keys.agent_id_from_key(child) if child else None,
                child_session=places.session_of(child) if child else None,
                requester_session=places.session_of(requester) if requester else None,
            )
            registry.register(run)
        except (InvalidInput, ValueError, OverflowError) as wrong:
            dropped.append(f"{run_id}: {wrong}")
        else:
            added.append(run_id)
    return Imported(added=tuple(added), known=tuple(known), dropped=tuple(dropped))


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
