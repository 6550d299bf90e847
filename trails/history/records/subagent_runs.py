"""Store, verify and redact the runs of sub-agents.

The operations on runs (spawn, announce, clean up) are in `trails.runtime.runs`. This module has what deletion, redaction and
verification of a session must know of its runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import TrailsError
from trails.history.records.record_kind import Checks, Evidence, Leaving, RecordKind, Withheld, about
from trails.history.records.text_matcher import LOGGED_IDS, Erasure
from trails.history.transaction import Proposal, Transaction
from trails.integrity import digests, leaves
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.values import Finding
from trails.rdf import subagent_records as runentry
from trails.rdf import vocab
from trails.rdf.activity_records import Deed, deed_quads
from trails.rdf.codec import parse_time, subject_of
from trails.rdf.subagent_records import Run
from trails.store.contract import Matching, QuadStore

REMOVAL: Final = frozenset(
    {vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.RULE, vocab.REASON, vocab.REMOVED_RUN, vocab.LEAF_SALT}
)
"""What the catalog may say of a run's removal; the log says whether it is as it was."""
_SHORTEST: Final = 4
"""Characters below which a text says too little to be taken for another one's."""


@dataclass(slots=True)
class RunLog:
    """What the log says of one run."""

    digest: str | None = None
    """The digest of the run as it was logged last, or of the record of its removal."""
    task: str | None = None
    """The digest of what it was registered with; None where an older version registered it."""
    revision: int = 0
    removed: bool = False
    faults: list[str] = field(default_factory=list)
    """What the log says of it that Trails never logs."""

    def take(self, kind: str, count: int, digest: str, number: int) -> None:
        """Take note of a leaf."""
        if self.removed:
            self.faults.append(f"leaf {number}: it was taken out, and logged again")
        elif kind == "task":
            if self.task is not None or self.digest is not None:
                self.faults.append(f"leaf {number}: what it was registered with was logged again")
            self.task = self.task or digest
            return
        elif kind == "run" and self.task is not None and count <= self.revision:
            self.faults.append(f"leaf {number}: its revision {count} was logged again")
        if not self.removed:
            self.digest, self.revision, self.removed = digest, count, kind == "remove"


LoggedRun = dict[str, RunLog]
"""By run IRI, what the log says of the run."""


# --- reading


def read_runs(store: Matching, predicate: NamedNode = vocab.TYPE, value: NamedNode | Literal = vocab.RUN) -> list[Run]:
    """Return the runs with a property, or all, in the order in which they were registered."""
    return _decoded(store, {subject_of(quad) for quad in store.quads((None, predicate, value, vocab.CATALOG))})


def unfinished_runs(store: QuadStore) -> list[Run]:
    """Return the runs that are not announced yet, in the same order; the others are not read."""
    every = {subject_of(quad) for quad in store.quads((None, vocab.TYPE, vocab.RUN, vocab.CATALOG))}
    done = {subject_of(quad) for quad in store.quads((None, vocab.CLEANUP_COMPLETED_AT, None, vocab.CATALOG))}
    return _decoded(store, every - done)


def archive_times(store: QuadStore) -> Iterator[tuple[str, datetime]]:
    """Give the id of each run that is to be archived, and when."""
    for quad in store.quads((None, vocab.ARCHIVE_AT, None, vocab.CATALOG)):
        run_id = iris.run_id(subject_of(quad))
        if run_id is not None:
            yield run_id, parse_time(str(getattr(quad.object, "value", "")))


def _decoded(store: Matching, subjects: Iterable[str]) -> list[Run]:
    named = [iri for iri in subjects if iris.run_id(iri) is not None]
    # A run may be taken out while others are read.
    found = [runentry.decode_runs(iri, quads) for iri in named if (quads := about(store, iri))]
    return sorted(found, key=lambda run: (run.created is None, run.created or 0, run.run_id))


def read_run(store: QuadStore, run_id: str) -> Run | None:
    """Return a run by its id, or None where the registry has none."""
    return next(iter(read_runs(store, vocab.RUN_ID, Literal(run_id))), None)


def runs_of_session(store: QuadStore, session_id: str) -> list[Run]:
    """Return the runs in a session, and those that it asked for."""
    node = NamedNode(iris.session(session_id))
    found = {run.iri: run for link in _LINKS for run in read_runs(store, link, node)}
    return list(found.values())


_LINKS: Final = (vocab.GENERATED, vocab.STARTED_BY)


def is_removed_run(store: QuadStore, run_id: str) -> bool:
    """Tell whether a run with an id was in the registry and was taken out."""
    return bool(store.quads((None, vocab.REMOVED_RUN, Literal(run_id), vocab.CATALOG)))


# --- writing


def register_run(run: Run) -> Proposal:
    """Return the commit that enters a run; its id must be new."""
    name = Literal(run.run_id)
    run = run.with_task_sealed().salted_anew()
    tx = Transaction()
    tx.add([*runentry.run_quads(run), *runentry.agent_quads(run)])
    tx.forbid((None, vocab.RUN_ID, name, vocab.CATALOG))
    tx.forbid((None, vocab.REMOVED_RUN, name, vocab.CATALOG))
    tx.log_leaves([runentry.task_leaf(run), runentry.run_leaf(run)])
    return tx.change()


def change_run(old: Run, new: Run) -> tuple[Run, Proposal]:
    """Return a run as it becomes, and the commit that changes it: only from the revision, and with the texts, that were read."""
    new = new.model_copy(update={"revision": old.revision + 1}).salted_anew()
    remove, add = _difference(old, new)
    tx = Transaction()
    tx.add(add)
    tx.remove(remove)
    tx.require(_held(runentry.run_quads(old)))
    tx.log_leaves([runentry.run_leaf(new)])
    return new, tx.change()


def _difference(old: Run, new: Run) -> tuple[set[Quad], set[Quad]]:
    """Return what goes and what comes of a run's quads."""
    before, after = set(runentry.run_quads(old)), set(runentry.run_quads(new))
    return before - after, after - before


def _held(quads: Iterable[Quad]) -> list[Quad]:
    """Return what of a run tells that it is as it was read: its revision, and which texts it has."""
    return [quad for quad in quads if quad.predicate in (vocab.REVISION, vocab.SALT, vocab.DIGEST)]


def remove_run(run: Run, deed: Deed) -> Proposal:
    """Return the commit that takes a run out of the registry, leaving word of who did it, when and by which rule."""
    node = NamedNode(iris.run_removal(run.iri))
    rows: list[tuple[NamedNode, NamedNode | Literal]] = [
        (vocab.TYPE, vocab.DELETION),
        (vocab.REMOVED_RUN, Literal(run.run_id)),
        (vocab.LEAF_SALT, Literal(digests.new_salt())),
    ]
    record = [Quad(node, predicate, term, vocab.CATALOG) for predicate, term in rows] + deed_quads(node, deed)
    quads = runentry.run_quads(run)
    tx = Transaction()
    tx.add(record)
    tx.remove(quads)
    tx.require(_held(quads))
    tx.log_leaves([_removal_leaf(run.iri, run.revision + 1, [quad for quad in record if quad.subject == node])])
    return tx.change()


def _removal_leaf(run_iri: str, count: int, quads: Iterable[Quad]) -> Leaf:
    return Leaf("remove", run_iri, count, leaves.row_digest(quads))


# --- the log


def logged_runs(lines: Iterable[str]) -> LoggedRun:
    """Return what the log says of runs; lines that are no leaves are left to `check_links`."""
    found: LoggedRun = {}
    for number, line in enumerate(lines):
        if line.startswith(("run ", "task ", "remove ")):
            fields = line.split(" ")
            if len(fields) == 5 and fields[2].isdecimal():
                found.setdefault(fields[1], RunLog()).take(fields[0], int(fields[2]), fields[3], number)
    return found


def run_leaves(store: Matching) -> list[Leaf]:
    """Return the leaves of all runs and of what is left of removed ones, for a log that begins with them."""
    new_leaves: list[Leaf] = []
    for run in read_runs(store):
        new_leaves += (
            [runentry.task_leaf(run), runentry.run_leaf(run)]
            if run.task_digest is not None
            else [runentry.run_leaf(run)]
        )
    return [*new_leaves, *(_removal_leaf(run_iri, 1, quads) for run_iri, quads in _removals(store).items())]


def _removals(store: Matching) -> dict[str, list[Quad]]:
    found = {}
    for quad in store.quads((None, vocab.REMOVED_RUN, None, vocab.CATALOG)):
        run_iri = iris.removed_run(subject_of(quad))
        if run_iri is not None:
            found[run_iri] = about(store, subject_of(quad))
    return found


# --- verifying


def quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a run would have if it were written from what it says."""
    return runentry.run_quads(runentry.decode_runs(subject, quads))


def run_findings(evidence: Evidence) -> Iterator[Finding]:
    """Give everything that is wrong with the registry, held against the log."""
    store, log = evidence.store, logged_runs(evidence.lines)
    gone = set(log)
    present: dict[str, tuple[str, str]] = {}
    for run_iri, quads in _removals(store).items():
        present[run_iri] = (leaves.row_digest(quads), "the record of its removal")
    for quad in store.quads((None, vocab.TYPE, vocab.RUN, vocab.CATALOG)):
        subject = subject_of(quad)
        try:
            run = runentry.decode_runs(subject, about(store, subject))
        except TrailsError:
            gone.discard(subject)
            continue  # named by the check of the catalog
        for code, fault in _faults(evidence, run, subject, log.get(run.iri)):
            yield _finding(code, run.run_id, fault, run.child_session)
        present[run.iri] = (runentry.run_row_digest(run), "what the registry says of it")
    yield from _against_log(present, log)
    for run_iri in gone - present.keys():
        yield _finding("rolled-back", iris.run_id(run_iri), ", which was logged, is gone")


def _against_log(present: Mapping[str, tuple[str, str]], log: LoggedRun) -> Iterator[Finding]:
    for run_iri, (digest, what) in present.items():
        if run_iri not in log:
            yield _finding("unlogged", iris.run_id(run_iri), " is in the store and not in its log")
        elif log[run_iri].digest != digest:
            yield _finding("row-altered", iris.run_id(run_iri), f": {what} is not as it was logged last")
    for run_iri, logged in log.items():
        for fault in logged.faults:
            yield _finding("logged-twice", iris.run_id(run_iri), f": {fault}")


def _finding(code: str, run_id: str | None, what: str, session_id: str | None = None) -> Finding:
    where = "" if session_id is None else f"session {session_id!r}: "
    return Finding(code=code, session_id=session_id, message=f"{where}the run {run_id!r}{what}")


def _faults(evidence: Evidence, run: Run, subject: str, logged: RunLog | None) -> Iterator[tuple[str, str]]:
    if run.iri != subject:
        yield "bad-row", f" stands at {subject}, not at its own IRI"
    if not (run.said.is_true() and run.has_true_task()):
        yield "digest-mismatch", ": its texts were altered"
    if logged is not None and logged.task != runentry.registration_digest(run):
        yield "row-altered", " is not the one that was registered: its task, its id or the time is another"
    if run.said.withheld and run.iri not in evidence.taken and not _was_deleted(evidence.store, run):
        yield "unlogged", " lost its texts, and no redaction was logged"


def _was_deleted(store: QuadStore, run: Run) -> bool:
    """Tell whether a session of a run was deleted: its texts went with that."""
    ids = [each for each in (run.child_session, run.requester_session) if each is not None]
    nodes = [NamedNode(iris.session(each)) for each in ids]
    return any(store.quads((node, vocab.TYPE, vocab.TOMBSTONE, vocab.CATALOG)) for node in nodes)


def _checks(evidence: Evidence) -> Checks:
    return Checks(store=lambda _, every: run_findings(evidence) if every else ())


# --- taking texts out


def withhold_run(runs: Iterable[Run]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when the texts of runs are taken out."""
    swaps = [_difference(run, runentry.run_without_texts(run)) for run in runs if not run.said.withheld]
    return [quad for remove, _ in swaps for quad in remove], [quad for _, add in swaps for quad in add]


def runs_leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
    """Return what becomes of the runs in sessions that are deleted, and of those that they asked for.

    With either session go the texts of a run and its label. With its own go its key, its model and why it was kept; with
    the requester's its keys and the address that it was heard of under, but for the channel. The key from which the IRI of a
    run without a session is made stays, as the log does.
    """
    remove: list[Quad] = []
    add: list[Quad] = []
    new_leaves: list[Leaf] = []
    for run in {run.iri: run for session_id in doomed for run in runs_of_session(store, session_id)}.values():
        left = runentry.run_without_sessions(
            run,
            child=not _stands(store, run.child_session, doomed),
            requester=not _stands(store, run.requester_session, doomed),
        )
        if runentry.run_row_digest(left) != runentry.run_row_digest(run):
            left = left.model_copy(update={"revision": run.revision + 1}).salted_anew()
            new_leaves.append(runentry.run_leaf(left))
        gone, come = _difference(run, left)
        remove += gone
        add += come
    return Leaving(remove=remove, add=add, leaves=new_leaves)


def _stands(store: QuadStore, session_id: str | None, doomed: Collection[str]) -> bool:
    """Tell whether a session is there, and stays."""
    if session_id is None or session_id in doomed:
        return False
    return bool(store.quads((NamedNode(iris.session(session_id)), vocab.TYPE, vocab.SESSION, vocab.CATALOG)))


def runs_of_turns(store: QuadStore, turns: Iterable[NamedNode]) -> list[Run]:
    """Return the runs whose task the given turns say, each turn in the run's own session."""
    found: dict[str, Run] = {}
    for turn in turns:
        session_id = iris.session_id(turn.value)
        runs = [run for run in read_runs(store, vocab.GENERATED, NamedNode(iris.session(session_id))) if run.task]
        for quad in store.quads((turn, vocab.VALUE, None, None)) if runs else []:
            text = str(getattr(quad.object, "value", ""))
            found |= {run.iri: run for run in runs if _same(text, run.task or "")}
    return list(found.values())


def _same(one: str, other: str) -> bool:
    """Tell whether one of two texts holds the other."""
    return one == other or (min(len(one), len(other)) >= _SHORTEST and (one in other or other in one))


def runs_holding(store: QuadStore, needles: Sequence[str]) -> list[str]:
    """Return the ids of the runs whose texts hold one of the texts."""
    if not needles or not store.quads((None, vocab.TYPE, vocab.RUN, vocab.CATALOG)):
        return []
    found = []
    for run in read_runs(store):
        texts = [text for text in (run.said.task, run.said.error, run.said.extra_json) if text]
        if any(needle in text for needle in needles for text in texts):
            found.append(run.run_id)
    return sorted(found)


def _withheld(store: QuadStore, turns: Sequence[NamedNode], _: Sequence[str]) -> Withheld:
    """Take the texts out of the runs whose task redacted turns say."""
    said = runs_of_turns(store, turns)
    remove, add = withhold_run(said)
    return Withheld(
        remove, add, parts=[subject_of(quad) for quad in add], report={"runs": [run.run_id for run in said]}
    )


def _purge(taking: Erasure, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take a text out of a run; its id stays, as the log does."""
    session_id = iris.session_id(subject)
    after = list(before)
    if any(quad.predicate in runentry.RUN_TEXTS for quad in hits):
        gone = {*runentry.RUN_TEXTS, vocab.SALT, vocab.TASK_SALT}
        after = [quad for quad in before if quad.predicate not in gone]
        after.append(Quad(NamedNode(subject), vocab.TASK, Literal("", datatype=vocab.REDACTED), vocab.CATALOG))
    fixed = {vocab.RUN_ID}
    if not any(quad.predicate == vocab.GENERATED for quad in before):
        fixed.add(vocab.CHILD_KEY)  # the run's IRI, which is in the log, is made from it
    stays = {quad for quad in hits if quad.predicate in fixed}
    for quad in hits:
        if quad in stays:
            taking.leave(session_id, "run id", subject, LOGGED_IDS["run id"])
        else:
            taking.place(session_id, "run", subject)
    swapped = [quad if quad in stays else taking.new.quad(quad) for quad in after]
    after = [quad for quad in swapped if quad is not None]
    if set(after) == set(before):
        return
    old, new = runentry.decode_runs(subject, before), runentry.decode_runs(subject, after)
    if runentry.run_row_digest(old) != runentry.run_row_digest(new):
        new = new.model_copy(update={"revision": old.revision + 1}).salted_anew()
        after = runentry.run_quads(new)
        taking.found.leaves.append(runentry.run_leaf(new))
    taking.found.swap(before, after)
    taking.found.note(session_id, subject)


RUNS: Final = RecordKind(
    name="runs of sub-agents",
    types=frozenset({vocab.RUN}),
    leaves=run_leaves,
    as_written=quads_as_written,
    own_leaf=lambda quad: quad.object == vocab.RUN or quad.predicate == vocab.REMOVED_RUN,
    removal=lambda iri: REMOVAL if iris.removed_run(iri) else frozenset(),
    checks=_checks,
    withheld=_withheld,
    repeated=lambda store, _, needles: {"run_quotes": runs_holding(store, needles)},
    purges=lambda iri: iris.run_id(iri) is not None,
    purge=_purge,
    leaving=runs_leaving,
)
