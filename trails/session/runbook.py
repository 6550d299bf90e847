"""What the rules of sessions say of sub-agents' runs: reading and writing them, the log, verifying, taking texts out.

The registry's own doings (spawning, announcing, cleaning up) are `trails.runs`'; this is what deleting, redacting and
verifying a session must know of runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, mapping, vocab
from trails.errors import TrailsError
from trails.integrity import leaves
from trails.integrity.leaves import Leaf
from trails.session import runentry
from trails.session.runentry import Run
from trails.store.contract import Change, QuadStore

REMOVAL: Final = frozenset({vocab.TYPE, vocab.ENDED_AT, vocab.REMOVED_RUN})
"""What the catalog may say of a run's removal; the log says whether it is as it was."""
_SHORTEST: Final = 4
"""Characters below which a text says too little to be taken for another one's."""

Logged = dict[str, list[str]]
"""By run IRI, the digests that the log has of the run (and, last, of its removal), in order."""


# --- reading


def _iri(quad: Quad) -> str:
    return str(getattr(quad.subject, "value", quad.subject))


def _about(store: QuadStore, iri: str) -> list[Quad]:
    return store.quads((NamedNode(iri), None, None, vocab.CATALOG))


def read(store: QuadStore, predicate: NamedNode = vocab.TYPE, value: NamedNode | Literal = vocab.RUN) -> list[Run]:
    """Return the runs with a property, or all, in the order in which they were registered."""
    return _decoded(store, {_iri(quad) for quad in store.quads((None, predicate, value, vocab.CATALOG))})


def unfinished(store: QuadStore) -> list[Run]:
    """Return the runs that are not announced yet, in the same order; the others are not read."""
    every = {_iri(quad) for quad in store.quads((None, vocab.TYPE, vocab.RUN, vocab.CATALOG))}
    done = {_iri(quad) for quad in store.quads((None, vocab.CLEANUP_COMPLETED_AT, None, vocab.CATALOG))}
    return _decoded(store, every - done)


def archive_times(store: QuadStore) -> Iterator[tuple[str, datetime]]:
    """Give the id of each run that is to be archived, and when."""
    for quad in store.quads((None, vocab.ARCHIVE_AT, None, vocab.CATALOG)):
        run_id = iris.run_id(_iri(quad))
        if run_id is not None:
            yield run_id, mapping.parse_time(str(getattr(quad.object, "value", "")))


def _decoded(store: QuadStore, subjects: Iterable[str]) -> list[Run]:
    named = [iri for iri in subjects if iris.run_id(iri) is not None]
    # A run may be taken out while others are read.
    found = [runentry.decode(iri, quads) for iri in named if (quads := _about(store, iri))]
    return sorted(found, key=lambda run: (run.created is None, run.created or 0, run.run_id))


def read_one(store: QuadStore, run_id: str) -> Run | None:
    """Return a run by its id, or None where the registry has none."""
    return next(iter(read(store, vocab.RUN_ID, Literal(run_id))), None)


def of_session(store: QuadStore, session_id: str) -> list[Run]:
    """Return the runs in a session, and those that it asked for."""
    node = NamedNode(iris.session(session_id))
    found = {run.iri: run for link in _LINKS for run in read(store, link, node)}
    return list(found.values())


_LINKS: Final = (vocab.GENERATED, vocab.STARTED_BY)


def was_removed(store: QuadStore, run_id: str) -> bool:
    """Tell whether a run with an id was in the registry and was taken out."""
    return bool(store.quads((None, vocab.REMOVED_RUN, Literal(run_id), vocab.CATALOG)))


# --- writing


def registered(run: Run) -> Change:
    """Return the commit that enters a run; its id must be new."""
    name = Literal(run.run_id)
    return Change(
        add=[*runentry.quads(run), *runentry.agent_quads(run)],
        forbid=[(None, vocab.RUN_ID, name, vocab.CATALOG), (None, vocab.REMOVED_RUN, name, vocab.CATALOG)],
        leaves=lambda _: [runentry.leaf(run)],
    )


def changed(old: Run, new: Run) -> tuple[Run, Change]:
    """Return a run as it becomes, and the commit that changes it: only from the revision, and with the texts, that were read."""
    new = new.model_copy(update={"revision": old.revision + 1})
    before, after = set(runentry.quads(old)), set(runentry.quads(new))
    held = [quad for quad in before if quad.predicate in (vocab.REVISION, vocab.SALT, vocab.DIGEST)]
    change = Change(
        add=list(after - before),
        remove=list(before - after),
        require=held,
        leaves=lambda _: [runentry.leaf(new)],
    )
    return new, change


def removed(run: Run, at: datetime) -> Change:
    """Return the commit that takes a run out of the registry, leaving word of when."""
    node = NamedNode(iris.run_removal(run.iri))
    rows: list[tuple[NamedNode, NamedNode | Literal]] = [
        (vocab.TYPE, vocab.DELETION),
        (vocab.ENDED_AT, mapping.time_literal(at)),
        (vocab.REMOVED_RUN, Literal(run.run_id)),
    ]
    made = [Quad(node, predicate, term, vocab.CATALOG) for predicate, term in rows]
    quads = runentry.quads(run)
    held = [quad for quad in quads if quad.predicate in (vocab.REVISION, vocab.SALT, vocab.DIGEST)]
    last = _removal_leaf(run.iri, run.revision + 1, made)
    return Change(add=made, remove=quads, require=held, leaves=lambda _: [last])


def _removal_leaf(run_iri: str, count: int, quads: Iterable[Quad]) -> Leaf:
    return Leaf("run", run_iri, count, leaves.row_digest(quads))


# --- the log


def logged(lines: Iterable[str]) -> Logged:
    """Return what the log says of runs; lines that are no leaves are left to `check_links`."""
    found: Logged = {}
    for line in lines:
        if line.startswith("run "):
            fields = line.split(" ")
            if len(fields) == 5:
                found.setdefault(fields[1], []).append(fields[3])
    return found


def missing_leaves(store: QuadStore, log_text: str) -> list[Leaf]:
    """Return the leaves that a crash kept from the log (and all, for a log that is new)."""
    runs, removals = read(store), _removals(store)
    if not runs and not removals:
        return []
    known = logged(log_text.split("\n"))
    # A digest that is there and not the last one is a run that was put back, for `verify` to find.
    made = [runentry.leaf(run) for run in runs if runentry.row_digest(run) not in known.get(run.iri, [])]
    for run_iri, quads in removals.items():
        leaf = _removal_leaf(run_iri, len(known.get(run_iri, [])) + 1, quads)
        if leaf.digest not in known.get(run_iri, []):
            made.append(leaf)
    return made


def _removals(store: QuadStore) -> dict[str, list[Quad]]:
    found = {}
    for quad in store.quads((None, vocab.REMOVED_RUN, None, vocab.CATALOG)):
        run_iri = iris.removed_run(_iri(quad))
        if run_iri is not None:
            found[run_iri] = _about(store, _iri(quad))
    return found


# --- verifying


def quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a run would have if it were written from what it says."""
    return runentry.quads(runentry.decode(subject, quads))


def findings(store: QuadStore, log: Logged) -> Iterator[tuple[str, str | None, str]]:
    """Give (code, session id, what) for everything that is wrong with the registry, held against the log."""
    gone = dict(log)
    present: dict[str, tuple[str, str]] = {}
    for run_iri, quads in _removals(store).items():
        present[run_iri] = (leaves.row_digest(quads), "the record of its removal")
    for quad in store.quads((None, vocab.TYPE, vocab.RUN, vocab.CATALOG)):
        try:
            run = runentry.decode(_iri(quad), _about(store, _iri(quad)))
        except TrailsError:
            gone.pop(_iri(quad), None)
            continue  # named by the check of the catalog
        if run.iri != _iri(quad):
            yield "bad-row", run.child_session, f"the run {run.run_id!r} stands at {_iri(quad)}, not at its own IRI"
        if not run.said.is_true():
            yield "digest-mismatch", run.child_session, f"the texts of the run {run.run_id!r} were altered"
        present[run.iri] = (runentry.row_digest(run), "what the registry says of it")
    for run_iri, (digest, what) in present.items():
        name = iris.run_id(run_iri)
        if run_iri not in log:
            yield "unlogged", None, f"the run {name!r} is in the store and not in its log"
        elif log[run_iri][-1] != digest:
            yield "row-altered", None, f"the run {name!r}: {what} is not as it was logged last"
    for run_iri in gone.keys() - present.keys():
        yield "rolled-back", None, f"the run {iris.run_id(run_iri)!r}, which was logged, is gone"


# --- taking texts out


def withhold(runs: Iterable[Run]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when the texts of runs are taken out."""
    remove: list[Quad] = []
    add: list[Quad] = []
    for run in runs:
        if run.said.withheld:
            continue
        before, after = set(runentry.quads(run)), set(runentry.quads(run.model_copy(update={"said": run.said.gone()})))
        remove += before - after
        add += after - before
    return remove, add


def leaving(store: QuadStore, doomed: Collection[str]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when sessions are deleted: the texts of their runs, and of those they asked for."""
    found = {run.iri: run for session_id in doomed for run in of_session(store, session_id)}
    return withhold(found.values())


def of_turns(store: QuadStore, turns: Iterable[NamedNode]) -> list[Run]:
    """Return the runs whose task the given turns say, each turn in the run's own session."""
    found: dict[str, Run] = {}
    for turn in turns:
        session_id = iris.session_id(turn.value)
        runs = [run for run in read(store, vocab.GENERATED, NamedNode(iris.session(session_id))) if run.task]
        for quad in store.quads((turn, vocab.VALUE, None, None)) if runs else []:
            text = str(getattr(quad.object, "value", ""))
            found |= {run.iri: run for run in runs if _same(text, run.task or "")}
    return list(found.values())


def _same(one: str, other: str) -> bool:
    """Tell whether one of two texts holds the other."""
    return one == other or (min(len(one), len(other)) >= _SHORTEST and (one in other or other in one))


def holding(store: QuadStore, needles: Sequence[str]) -> list[str]:
    """Return the ids of the runs whose texts hold one of the texts."""
    if not needles or not store.quads((None, vocab.TYPE, vocab.RUN, vocab.CATALOG)):
        return []
    found = []
    for run in read(store):
        texts = [text for text in (run.said.task, run.said.error, run.said.extra_json) if text]
        if any(needle in text for needle in needles for text in texts):
            found.append(run.run_id)
    return sorted(found)
