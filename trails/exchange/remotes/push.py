"""Single sessions from one store to another, as git pushes and pulls branches: nothing at the other side is overwritten."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from pyoxigraph import NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput, OnHold, TrailsError
from trails.exchange import rdf_files
from trails.exchange.merge import begin_import
from trails.exchange.remotes import push_plan
from trails.exchange.remotes.push_plan import WRITES, Outcome, PushPlan, Step
from trails.exchange.source_transcript import ImportReport
from trails.handles import Handle
from trails.history import encryption, import_records
from trails.history.export_records import record_export
from trails.history.import_records import ImportedFiles, ImportSource
from trails.history.lookup.names import Name
from trails.history.lookup.session_quads import session_quads
from trails.history.removal import detach, redaction
from trails.integrity import digests
from trails.model import iris
from trails.model.values import MAIN, SessionRecord, Value
from trails.rdf import vocab
from trails.rdf.activity_records import Copying, Deed, SourceFile, activity_quads
from trails.rdf.codec import parse_time
from trails.rdf.session_records import prompt_quads
from trails.rdf.session_records import session_quads as row_quads
from trails.session import Repository
from trails.session.repository import opened, redact_turn
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore
from trails.suggestions import checked


class MovedSession(Value):
    """What became of one session that went to another store."""

    session_id: str
    outcome: Outcome
    """`created`, `forwarded`, `forked`, `unchanged`, `behind` (the other side has more), `deleted` or `refused`."""
    there: str
    """The id of the session that has its turns at the other side: another one where its tail became a fork."""
    asked: bool
    """Whether it was asked for; else it came as an ancestor of one that was."""
    turns_added: int
    at: int | None = None
    """The index from which on the two sides differ, where its tail stands in a fork."""
    head: str | None = None
    """The digest of its last turn: the same at both sides once it went."""
    redacted: tuple[int, ...] = ()
    """The indices of turns that were redacted at the other side now, because they are where the session comes from."""
    said: tuple[str, ...] = ()
    """What did not go, and why."""


class Moved(Value):
    """What a push or a pull did, or would do."""

    source: str
    target: str
    dry_run: bool
    sessions: tuple[MovedSession, ...]
    """Those that were asked for and the ancestors that they need, ancestors first."""

    @property
    def ok(self) -> bool:
        """Whether everything that was asked for is at the other side now, in one session or another."""
        return not any(each.asked and each.outcome in ("deleted", "refused") for each in self.sessions)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {**self.model_dump(mode="json"), "ok": self.ok}


@checked
def push(
    store: Repository,
    sessions: Name | Iterable[Name],
    other: Repository,
    *,
    restore: bool = False,
    dry_run: bool = False,
    by: str | None = None,
) -> Moved:
    """Bring sessions of a store, with the ancestors that they need, into another one; return what became of each.

    A session that is not there is made, with its tags, notes and records. One that is the beginning of ours goes on there. Where
    both went on, our tail becomes a fork of it there, named after the session and the first turn that differs; that is the
    same name each time, so that pushing again adds nothing. Where the other side has more, nothing happens. A turn that was
    redacted at either side is redacted there afterwards. Forks and spawned sessions come only where they are asked for.

    Each session that got something says who pushed it (`by` is as for `Repository.delete`), when, from which store, and where it
    stands in that one's log: see `origins`. One that was deleted there comes back only with `restore`. With `dry_run`, nothing is
    written. `refused` is what does not verify, and what another writer changed meanwhile, of which nothing is written then: push
    again.

    Raises as `Repository.load` does where a session is missing or not whole, `InvalidInput` where the stores are one,
    `ForkDepthExceeded` where a fork would have too many ancestors there; nothing is written then.

    >>> import trails
    >>> with trails.open(":memory:") as laptop, trails.open(":memory:") as team:
    ...     plan = laptop.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
    ...     done = trails.push(laptop, "plan", team)
    ...     [(each.session_id, each.outcome, each.turns_added) for each in done.sessions], team.load("plan").head == plan.head
    ([('plan', 'created', 1)], True)
    """
    return _move(store, sessions, other, "push", restore=restore, dry_run=dry_run, by=by)


@checked
def pull(
    store: Repository,
    sessions: Name | Iterable[Name],
    other: Repository,
    *,
    restore: bool = False,
    dry_run: bool = False,
    by: str | None = None,
) -> Moved:
    """Bring sessions of another store into a store: what `push` does, from there to here; `sessions` are names there.

    >>> import trails
    >>> with trails.open(":memory:") as laptop, trails.open(":memory:") as team:
    ...     plan = team.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
    ...     done = trails.pull(laptop, "plan", team); mine = laptop.load("plan")
    ...     _ = mine.append("user", "By train"); _ = mine.persist(); _ = plan.append("user", "By bus"); _ = plan.persist()
    ...     [(each.outcome, each.there == "plan", each.at) for each in trails.pull(laptop, "plan", team).sessions]
    [('forked', False, 1)]
    """
    return _move(other, sessions, store, "pull", restore=restore, dry_run=dry_run, by=by)


def _move(
    source: Repository,
    sessions: Name | Iterable[Name],
    target: Repository,
    how: str,
    *,
    restore: bool,
    dry_run: bool,
    by: str | None,
) -> Moved:
    source, target = opened(source, how), opened(target, how)
    push_plan.refuse_same(source, target)
    named = list(sessions) if isinstance(sessions, list | tuple | set | frozenset) else [sessions]
    wanted = [source.resolve(each) for each in named]  # type: ignore[arg-type] # names
    steps = PushPlan(source, target, restore=restore).steps(wanted)
    at: dict[str, Any] = {"source": source.store.location, "target": target.store.location, "dry_run": dry_run}
    if dry_run:
        due = [_redactions_due(source, target, step) for step in steps]
        found = tuple(_told(step, [index for index, _ in mine]) for step, mine in zip(steps, due, strict=True))
        return Moved(**at, sessions=found)
    if target.read_only:
        raise InvalidInput(f"{target.store.location} was opened to be read, and takes nothing; open it to write")
    who = (source if how == "push" and source.workspace.actor else target).workspace.who(by)
    with record_export(source.workspace, wanted, how) as made:
        moved = _Moving(source, target, begin_import(target, how, who), restore=restore).run(steps)
        made(None, None)
    return Moved(**at, sessions=moved)


class _Moving(Handle):
    """The carrying out of a plan."""

    def __init__(self, source: Repository, target: Repository, began: ImportSource, *, restore: bool) -> None:
        self._source = source
        self._target = target
        self._began = began
        self._restore = restore
        self._log = push_plan.SourceLog(source.store.log.lines())
        self._standing = redaction.current_redactions(source.store)

    def run(self, steps: Sequence[Step]) -> tuple[MovedSession, ...]:
        """Do all steps, ancestors first; one that cannot be done is told, and the others go on."""
        families: dict[str, list[Step]] = {}
        for step in steps:
            root = self._source.reader.lineage(step.record.id)[-1].id
            families.setdefault(root, []).append(step)
        told = {each.session_id: each for family in families.values() for each in self._family(family)}
        return tuple(told[step.record.id] for step in steps)

    def _family(self, steps: Sequence[Step]) -> list[MovedSession]:
        """Do the steps of sessions with one root: only they are in memory at once."""
        going = [step for step in steps if step.outcome in WRITES or self._has_news(step)]
        if not going:
            return [self._redacted(step, _told(step)) for step in steps]
        quads = {quad for step in steps for quad in session_quads(self._source.store, step.record)}
        try:
            scratch = rdf_files.check_sessions(self._target, list(quads), restore=self._restore)[0]
        except InvalidInput as error:
            return [_refused(_told(step), error) if step in going else _told(step) for step in steps]
        came = import_records.source_file(b"".join(sorted(map(rdf_files.line, quads))), self._source.store.location)
        return [
            self._redacted(step, self._arrived(step, scratch, came) if step in going else _told(step)) for step in steps
        ]

    def _has_news(self, step: Step) -> bool:
        """Tell whether there are records of a session, as tags and notes, that the other side may lack."""
        if not (step.is_asked and step.outcome in ("unchanged", "behind") and step.there == step.record.id):
            return False
        own = NamedNode(step.record.iri)
        mine = {quad for quad in session_quads(self._source.store, step.record) if quad.graph_name != own}
        return not mine <= set(session_quads(self._target.store, self._target.record(step.there)))

    def _arrived(self, step: Step, scratch: Repository, came: SourceFile) -> MovedSession:
        read = ImportedFiles(self._began, {"": came}, origin=self._log.evidence(step.record.iri))
        report = ImportReport()
        file = self._with_tail(step, scratch) if step.is_tail else scratch
        parent = self._fork_point(step)[0] if step.is_tail else step.parent
        record = file.reader.record(step.there)
        try:
            rdf_files.Arrival(self._target, file, record, report, read, self._restore, parent).run()
        except (InvalidInput, IntegrityError) as error:
            return _refused(_told(step), error)
        said = (*step.said, *(problem.reason for problem in report.problems))
        arrived = {*report.sessions_created, *report.forks_created, *report.grown}
        changes: dict[str, Any] = {"said": said}
        if step.outcome in WRITES and step.there not in arrived | set(report.unchanged):
            changes |= {"outcome": "refused", "turns_added": 0}
        return _told(step).model_copy(update=changes)

    # --- what differs from what the source has

    def _with_tail(self, step: Step, scratch: Repository) -> Repository:
        """Return a copy of a session in which a fork of it has the turns that the other side's session does not have."""
        reader = scratch.reader
        chain = reader.lineage(step.record.id)
        encryption.refuse_encrypted(chain, *encryption.NO_COPIES)
        turns = reader.as_stored.turns(chain)
        parent, at = self._fork_point(step)
        tail = reader.sealed(turns[at:])
        prompt = reader.prompt(chain, at - 1) if parent is not None and at else None
        version = 0 if prompt is None else prompt.version
        owned = reader.prompts([record.id for record in chain])
        kept, by, time = step.record, self._began.by_iri, self._began.started
        fork: dict[str, Any] = {"branch": MAIN}
        if parent is not None:
            head = turns[at - 1].digest if at else digests.GENESIS
            fork = {"parent_session_id": kept.id, "forked_at_index": at, "fork_head": head, "forked_by": by}
            fork |= {"branch": turns[at].branch}
        row: dict[str, Any] = {"principal": kept.principal, "agent": kept.agent, "meta_json": kept.meta_json}
        record = SessionRecord(id=step.there, created=time, system_version=version, **row, **fork)
        action, token = self._began.importer, secrets.token_hex(8)
        used = tuple(sorted({each.turn.session_id for each in tail}))
        copying = Copying(session_id=step.there, token=token, by_iri=by, time=time, action=action, used=used)
        inherited = {
            each.version: iris.system_prompt(iris.session(owner), each.version)
            for (owner, _), each in owned.items()
            if each.version <= version
        }
        batches = detach.copy_turns(scratch.store, copying, tail, before=turns[:at], prompts=inherited)
        later = [each for each in owned.values() if each.version > version]
        prompts = (prompt_quads(each.model_copy(update={"session_id": step.there})) for each in later)
        made = [
            *row_quads(record),
            *activity_quads(copying),
            *(quad for batch in (*prompts, *batches) for quad in batch),
        ]
        copy = EmbeddedStore(None)
        copy.commit(Change(add=[*made, *(quad for each in chain for quad in session_quads(scratch.store, each))]))
        return Repository(copy)

    def _fork_point(self, step: Step) -> tuple[str | None, int]:
        """Return what a tail is a fork of, and where: nothing and 0 where it stands with its whole transcript."""
        if step.there in self._target:
            record = self._target.record(step.there)
            return record.parent_session_id, record.starts_at
        return step.parent, step.start

    # --- what was redacted

    def _redacted(self, step: Step, told: MovedSession) -> MovedSession:
        """Redact at the other side what the source has redacted, as done by who did it and when."""
        due = _redactions_due(self._source, self._target, step)
        done: list[int] = []
        held: list[str] = []
        for index, deed in due:
            try:
                redact_turn(self._target, step.there, index, deed)
            except OnHold as error:
                held.append(f"turn {index} was redacted at the source, and keeps its text here: {error}")
            else:
                done.append(index)
        said = (*told.said, *held, *self._names_left(step))
        return told.model_copy(update={"redacted": tuple(done), "said": said})

    def _names_left(self, step: Step) -> list[str]:
        """Say which turns lost a name or a fact at the source that the other side still has: that is taken out by its text."""
        here = self._standing
        if not here or step.outcome in ("deleted", "refused") or step.there not in self._target:
            return []
        there = redaction.current_redactions(self._target.store)
        theirs = rdf_files.transcript_digests(self._target, step.there)
        left = [index for index, digest in enumerate(theirs) if digest in here and digest not in there]
        what = "has a name or a fact that was redacted at the source; redact it there too (`trails redact --matching`)"
        return [f"turn {index} of session {step.there!r} {what}" for index in left]


def _refused(told: MovedSession, error: TrailsError) -> MovedSession:
    return told.model_copy(update={"outcome": "refused", "turns_added": 0, "said": (*told.said, error.message)})


def _told(step: Step, redacted: Sequence[int] = ()) -> MovedSession:
    return MovedSession(
        session_id=step.record.id,
        outcome=step.outcome,
        there=step.there,
        asked=step.is_asked,
        turns_added=step.turns - step.start if step.outcome in WRITES else 0,
        at=step.start if step.is_tail and step.outcome in WRITES else None,
        head=step.head,
        redacted=tuple(redacted),
        said=step.said,
    )


def _redactions_due(source: Repository, target: Repository, step: Step) -> list[tuple[int, Deed]]:
    """Return which turns the other side still has that are redacted at the source, and who redacted them there."""
    if step.outcome in ("deleted", "refused") or step.there not in target:
        return []
    mine = source.reader.as_stored.turns(source.reader.lineage(step.record.id))
    gone = {turn.index: turn.digest for turn in mine if turn.redacted}
    if not gone:
        return []
    theirs = {turn.index: turn for turn in target.reader.as_stored.turns(target.reader.lineage(step.there))}
    records = redaction.redactions_by_digest(source.store)
    return [
        (index, _deed(records[digest]))
        for index, digest in gone.items()
        if digest in records and index in theirs and theirs[index].digest == digest and not theirs[index].redacted
    ]


def _deed(made: Sequence[tuple[NamedNode, Sequence[Quad]]]) -> Deed:
    """Return who redacted a turn first, when and why."""
    said = {quad.predicate: str(getattr(quad.object, "value", "")) for quad in made[0][1]}
    time = parse_time(said[vocab.ENDED_AT])
    return Deed(said[vocab.ASSOCIATED_WITH], time, said.get(vocab.REASON), said.get(vocab.RULE))
