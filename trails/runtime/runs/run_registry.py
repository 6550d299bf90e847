"""Store sub-agent runs, find their sessions by key, and read and write `runs.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from trails.errors import InvalidInput, RequestRefused
from trails.history.records import subagent_runs
from trails.history.removal import redaction
from trails.history.transaction import Proposal, Transaction
from trails.model import iris, validation
from trails.model.values import SessionRecord, Value
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import Event
from trails.rdf.subagent_records import Run, RunContent, RunOrigin, RunStatus
from trails.runtime import keys
from trails.runtime.config_values import Json, Section, from_ms, moment_of, to_ms
from trails.runtime.keys import KeySettings
from trails.runtime.policy.session_entry import delivery_context
from trails.runtime.routing import Router
from trails.runtime.routing.access_rules import visible_sessions
from trails.runtime.routing.key_directory import Keyring
from trails.session import Repository
from trails.store.contract import PreconditionFailed, QuadStore


class Places:
    """The sessions of a store by their keys.

    A session without a key has one all the same: its agent's, with its own id.
    """

    def __init__(self, repository: Repository, router: Router, settings: KeySettings) -> None:
        self._repository = repository
        self.store = repository.store
        self._router = router
        self._keyring = Keyring(repository)
        self._settings = settings

    def session_of(self, key: str) -> str | None:
        """Return the id of the session that a key names now, aliases followed.

        None if there is none.
        """
        match = self._keyring.find(key)
        if match is not None:
            return match[0].session_id
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

    def entry(self, key: str) -> Json:
        """Return what is kept of the session of a key beside its turns.

        Empty if nothing is.
        """
        match = self._keyring.find(key)
        return {} if match is None else self._keyring.held(match[0]).to_json()

    def resolve(self, *, label: str, agent_id: str | None = None, spawned_by: str | None = None) -> str:
        """Return the key of the one session with a label.

        Raise `RequestRefused`.
        """
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
        self, run: Run, requester: SessionRecord, fields: Json, task: Event, *, label: str | None
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
    """The runs of a store.

    Several registries of one store are one.
    """

    def __init__(self, repository: Repository) -> None:
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

    def change(self, run_id: str, step: Step, also: Callable[[Run], Proposal] | None = None) -> Run | None:
        """Change a run in one commit (with what `also` gives for the run as it becomes); return it as it became.

        The step is taken on the run as it stands; if another writer was quicker, again on what that left. None if
        the run is gone or the step changes nothing.
        """

        def propose(run: Run) -> tuple[Run, Proposal] | None:
            fields = step(run)
            return None if fields is None else subagent_runs.change_run(run, run.model_copy(update=fields))

        return self._commit(run_id, propose, also)

    def _commit(
        self,
        run_id: str,
        propose: Callable[[Run], tuple[Run, Proposal] | None],
        also: Callable[[Run], Proposal] | None = None,
    ) -> Run | None:
        while (run := self.find(run_id)) is not None and (proposed := propose(run)) is not None:
            new, change = proposed
            try:
                (change if also is None else change.joined(also(new))).commit(self._store)
            except PreconditionFailed as failure:
                if failure.missing not in change.require:
                    raise
            else:
                return new
        return None

    def remove(self, run_id: str, deed: Deed) -> bool:
        """Take a run out, as it stands.

        False if it is gone already.
        """
        return self._commit(run_id, lambda run: (run, subagent_runs.remove_run(run, deed))) is not None

    def withhold(self, run_id: str, deed: Deed) -> bool:
        """Remove the texts of a run for good.

        False if they were out already.
        """
        self.get(run_id)

        def propose(run: Run) -> tuple[Run, Proposal] | None:
            remove, add = subagent_runs.withhold_run([run])
            tx = Transaction()
            tx.take(remove)
            tx.add(add)
            redaction.redaction_record(tx, [run.iri], deed, place="run")
            return (run, tx.change()) if remove else None

        return self._commit(run_id, propose) is not None


def run_exists_error(run_id: str) -> InvalidInput:
    """Return the error for a run's id that is in use, or was."""
    return InvalidInput(f"the registry has, or had, a run {run_id!r}; an id stands for one run: choose another")


# --- the file `runs.json`

_VERSION: Final = 2
_TEXTS: Final = {
    "run_id": "runId",
    "child_session_key": "childSessionKey",
    "requester_session_key": "requesterSessionKey",
}
_TIMES: Final = {
    "created": "createdAt",
    "started": "startedAt",
    "ended": "endedAt",
    "archive_at": "archiveAtMs",
    "cleanup_completed": "cleanupCompletedAt",
}
_LEGACY: Final = frozenset(
    {"announceCompletedAt", "announceHandled", "requesterChannel", "requesterAccountId", "requesterTo"}
)
_INSIDE: Final[Mapping[str, frozenset[str]]] = {
    "requesterOrigin": frozenset({"channel", "to", "accountId", "threadId"}),
    "outcome": frozenset({"status", "error"}),
}


def run_to_json(run: Run) -> dict[str, Any]:
    """Return a run as `runs.json` of version 2 has it, with everything that its record held when it was imported."""
    times = {its: None if (time := getattr(run, mine)) is None else to_ms(time) for mine, its in _TIMES.items()}
    outcome = None if run.outcome is None else {"status": run.outcome, "error": run.error}
    plain: dict[str, Any] = {
        "runId": run.run_id,
        "childSessionKey": run.child_session_key or "",
        "requesterSessionKey": run.requester_session_key or "",
        "requesterOrigin": run.requester_origin.to_json() or None,
        "requesterDisplayKey": run.requester_display_key or "",
        "task": run.task or "",
        "cleanup": run.cleanup or "keep",
        "label": run.label,
        "createdAt": times.pop("createdAt") or 0,
        "startedAt": times.pop("startedAt"),
        "endedAt": times.pop("endedAt"),
        "outcome": outcome and {name: value for name, value in outcome.items() if value is not None},
        **times,
        "cleanupHandled": run.cleanup_handled,
    }
    plain = {name: value for name, value in plain.items() if value is not None}
    for name, value in run.extra.items():
        inside = name in _INSIDE and isinstance(plain.get(name), Mapping) and isinstance(value, Mapping)
        plain[name] = {**plain[name], **value} if inside else value
    return plain


def origin_of(value: Json | None) -> RunOrigin:
    """Return where a request came from, of `channel`, `to`, `accountId` and `threadId`."""
    return RunOrigin.model_validate(delivery_context(value) or {})


def run_from_json(value: Any, *, legacy: bool = False) -> Run:
    """Read one record of a `runs.json`.

    `legacy` maps the names of version 1. Wrong ids raise `InvalidInput`.

    What a run has no place for, or in a shape that it has no place for, is kept as it is.
    """
    fields = Section(value, "run").fields
    validation.to_json(fields, "a record of a run")  # no lone surrogates, no numbers that are none
    for name in _TEXTS.values():
        if not isinstance(fields.get(name, ""), str | None):
            raise InvalidInput(f"a run's {name} must be a text, not {fields[name]!r}")
    if not fields.get("runId"):
        raise InvalidInput("a run needs a runId, a text")
    times: dict[str, Any] = {mine: moment_of(fields.get(its)) for mine, its in _TIMES.items()}
    handled, origin = fields.get("cleanupHandled"), fields.get("requesterOrigin")
    if legacy:
        times["cleanup_completed"] = times["cleanup_completed"] or moment_of(fields.get("announceCompletedAt"))
        origin = origin or {"channel": fields.get("requesterChannel"), "accountId": fields.get("requesterAccountId")}
        if not isinstance(handled, bool):
            announced = fields.get("announceHandled")
            handled = bool(times["cleanup_completed"] if announced is None else announced)
    status, error = outcome_of(fields.get("outcome"))
    task = _text(fields, "task") or ""
    texts: dict[str, Any] = {mine: fields.get(its) or "" for mine, its in _TEXTS.items()}
    run = Run(
        **texts,
        **times | {"created": times["created"] or from_ms(0)},
        requester_display_key=_text(fields, "requesterDisplayKey") or None,
        requester_origin=origin_of(origin),
        said=RunContent.of(task, error),
        cleanup="delete" if fields.get("cleanup") == "delete" else "keep",
        label=_text(fields, "label"),
        outcome=status,
        cleanup_handled=handled if isinstance(handled, bool) else None,
    )
    extra = _extra(run_to_json(run), fields)
    if not extra:
        return run
    return run.model_copy(update={"said": RunContent.of(task, error, validation.to_json(extra, "a record of a run"))})


def outcome_of(value: Any) -> tuple[RunStatus | None, str | None]:
    """Return how a run ended (ok, error, timeout, or unknown for any other word) and the error; None for no outcome."""
    if not isinstance(value, Mapping):
        return None, None
    status = value.get("status")
    return status if status in ("ok", "error", "timeout") else "unknown", _text(value, "error")


def _text(fields: Json, name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _extra(kept: Json, raw: Json) -> dict[str, Any]:
    """Return the fields of a record that are not in what is kept of it."""
    extra: dict[str, Any] = {}
    for name, value in raw.items():
        if name in _INSIDE and name in kept and isinstance(value, Mapping):
            inner = {part: each for part, each in value.items() if part not in _INSIDE[name]}
            extra |= {name: inner} if inner else {}
        elif name not in kept and name not in _LEGACY and (value is not None or name not in _FIELDS):
            extra[name] = value
    return extra


_FIELDS: Final = frozenset(
    {*_TEXTS.values(), *_TIMES.values(), *_INSIDE, "requesterDisplayKey", "task", "cleanup", "label", "cleanupHandled"}
)


def read_file(value: Any) -> tuple[dict[str, Run], tuple[str, ...]]:
    """Return the runs of a parsed `runs.json` by id, and what could not be read, each with the reason.

    An unknown version has no runs, as in OpenClaw.
    """
    fields = Section(value, "runs.json").fields
    version = fields.get("version")
    if version not in (1, _VERSION) or isinstance(version, bool):
        return {}, (f"version {version!r} is unknown; 1 and 2 are read",)
    runs: dict[str, Run] = {}
    dropped: list[str] = []
    for name, record in Section(fields.get("runs"), "runs.json: runs").fields.items():
        try:
            run = run_from_json(record, legacy=version == 1)
        except (InvalidInput, ValueError, OverflowError) as wrong:
            dropped.append(f"{name}: {wrong}")
        else:
            runs[run.run_id] = run
    return runs, tuple(dropped)


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


def import_file(places: Places, value: Any) -> Imported:
    """Enter the runs of a parsed `runs.json` (version 1 or 2) that are not known yet."""
    runs, dropped = read_file(value)
    store = places.store
    known = [
        run_id
        for run_id in runs
        if subagent_runs.read_run(store, run_id) is not None or subagent_runs.is_removed_run(store, run_id)
    ]
    added = [run_id for run_id in runs if run_id not in known]
    for run in map(runs.__getitem__, added):
        child, requester = run.child_session_key, run.requester_session_key
        ours = {
            "agent": keys.agent_id_from_key(child) if child else None,
            "child_session": places.session_of(child) if child else None,
            "requester_session": places.session_of(requester) if requester else None,
        }
        try:
            subagent_runs.register_run(run.model_copy(update=ours)).commit(store)
        except PreconditionFailed as failure:
            raise run_exists_error(run.run_id) from failure
    return Imported(added=tuple(added), known=tuple(known), dropped=dropped)


def export_file(store: QuadStore) -> dict[str, Any]:
    """Return all runs as a `runs.json` of version 2."""
    return {"version": _VERSION, "runs": {run.run_id: run_to_json(run) for run in subagent_runs.read_runs(store)}}
