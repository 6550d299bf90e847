"""Whatever is altered, added, removed, reordered, truncated or rolled back in a closed store's files, `verify` finds it.

The tampering goes past Trails, straight into the engine's files, as anyone with the folder could do it.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyoxigraph as ox
import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.everything import everything
from tests.support.killed import left_by_a_kill
from tests.support.machines import Size
from tests.support.tampering import altered
from trails import Repository
from trails.history.records import subagent_runs
from trails.rdf import vocab
from trails.rdf.subagent_records import Run, RunContent
from trails.store import Change

NOT_STORED = frozenset({"STRING", "INTEGER", "DECIMAL", "DOUBLE", "BOOLEAN", "DATE_TIME", "JSON", "REDACTED"}) | {
    "ENCRYPTION",  # only in a store that was opened with keys
    "PENDING_KEY",  # only while the key of a deleted session is still to be destroyed
    "PENDING_SWEEP",  # only while turns of a deleted session are still to be swept
    "UNFINISHED_COPY",  # only while a session is copied
    *("PREVIOUS_TURN", "PARENT_SESSION_ID", "FORKED_AT_INDEX_WORD"),  # derived, and never stored
    *("CONTEXT_END", "IN_RUN"),  # follow, and are constructed
    *("EVIDENCE", "EVIDENCE_SOURCE", "EVIDENCE_FILE", "EVIDENCE_RULE"),  # only in exports
}
"""Terms that are datatypes, and those that a store holds only in between."""


@dataclass(frozen=True)
class Victim:
    """A closed store, and its quads as they were before some of its leaves were written."""

    store: Path
    older: tuple[tuple[Quad, ...], ...]


def _conversation(store: Repository) -> None:
    root = store.create(
        id="root", principal="alice", agent="planner", system="Be brief", label="the plan", meta={"k": 1}
    )
    root.append("user", "Plan a trip")
    root.append("assistant", "Where?", model="m", usage={"input_tokens": 2, "output_tokens": 1}, meta={"k": [1]})
    root.append("assistant", [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": 1}}])
    root.append("tool", [{"type": "tool_result", "tool_use_id": "t1", "content": "files"}])
    root.persist()


def _forks(store: Repository) -> None:
    fork = store.load("root").fork(at=3, id="fork")
    fork.append("tool", "other files", tool_call_id="t1", is_error=True)
    fork.persist()
    deep = fork.fork(at=2, id="deep", principal="bob")
    deep.append("user", "Elsewhere")
    deep.set_system("Be long")
    deep.persist()


def _more_turns(store: Repository) -> None:
    for name in ("root", "fork", "plain"):
        session = store.load(name) if name in store else store.create(id=name)
        for number in range(6):
            session.append("user", f"turn {number}")
            session.persist()


def _rows(store: Repository) -> None:
    store.set_label("fork", "a fork")
    store.load("deep").detach()
    store.load("fork").flatten(id="flat", label="a copy")


def _deletion(store: Repository) -> None:
    gone = store.load("plain").fork(at=2, id="gone")
    gone.append("user", "never mind")
    gone.persist()
    store.delete("gone")


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    folder, older = tmp_path / "store", list[tuple[Quad, ...]]()
    for step in (_conversation, _forks, _more_turns, _rows, _deletion):
        if folder.exists():
            with trails.open(folder) as store:
                older.append(tuple(store.store.quads((None, None, None, None))))
        with trails.open(folder, create=True) as store:
            step(store)
    return Victim(folder, tuple(older))


class Tamperer:
    """Random alterations of the quads in a folder. Each returns what it did, or None where chance left nothing changed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def alter(self, quads: ox.Store) -> str | None:
        quad = self._any(quads)
        changed = Quad(quad.subject, quad.predicate, self.other(quad), quad.graph_name)
        quads.remove(quad)
        quads.add(changed)
        return f"altered {quad} to {changed}"

    def add(self, quads: ox.Store) -> str | None:
        quad = self._any(quads)
        extra = Quad(quad.subject, quad.predicate, self.other(quad), quad.graph_name)
        if extra in quads:
            return None
        quads.add(extra)
        return f"added {extra}"

    def retype(self, quads: ox.Store) -> str | None:
        quad = self._any(quads)
        text = str(getattr(quad.object, "value", quad.object))
        kind = self._chance.choice((vocab.STRING, vocab.JSON, NamedNode("urn:example:type")))
        changed = Quad(quad.subject, quad.predicate, Literal(text, datatype=kind), quad.graph_name)
        if changed == quad:
            return None
        quads.remove(quad)
        quads.add(changed)
        return f"retyped {quad} to {changed}"

    def add_elsewhere(self, quads: ox.Store) -> str | None:
        quad, other = self._any(quads), self._any(quads)
        extra = Quad(quad.subject, other.predicate, other.object, quad.graph_name)
        if extra in quads:
            return None
        quads.add(extra)
        return f"added {extra}"

    def remove(self, quads: ox.Store) -> str | None:
        quad = self._any(quads)
        quads.remove(quad)
        return f"removed {quad}"

    def remove_row(self, quads: ox.Store) -> str | None:
        row = self._chance.choice(
            sorted({str(quad.subject) for quad in quads.quads_for_pattern(None, None, None, vocab.CATALOG)})
        )
        for quad in list(quads.quads_for_pattern(NamedNode(row[1:-1]), None, None, vocab.CATALOG)):
            quads.remove(quad)
        return f"removed the row of {row}"

    def reorder(self, quads: ox.Store) -> str | None:
        first = self._any(quads)
        others = [
            quad
            for quad in quads.quads_for_pattern(None, first.predicate, None, first.graph_name)
            if quad.object != first.object and quad.subject != first.subject
        ]
        if not others:
            return None
        second = self._chance.choice(sorted(others, key=str))
        for one, two in ((first, second), (second, first)):
            quads.remove(one)
            quads.add(Quad(one.subject, one.predicate, two.object, one.graph_name))
        return f"exchanged the objects of {first} and {second}"

    def move(self, quads: ox.Store) -> str | None:
        quad, other = self._any(quads), self._any(quads)
        if quad.graph_name == other.graph_name:
            return None
        quads.remove(quad)
        quads.add(Quad(quad.subject, quad.predicate, quad.object, other.graph_name))
        return f"moved {quad} to {other.graph_name}"

    def truncate(self, quads: ox.Store) -> str | None:
        graph = self._chance.choice(sorted(quads.named_graphs(), key=str))
        indices = [(int(q.object.value), q.subject) for q in quads.quads_for_pattern(None, vocab.INDEX, None, graph)]  # type: ignore[union-attr] # literals
        last = max(indices, key=lambda each: each[0])[1]
        for quad in list(quads.quads_for_pattern(last, None, None, graph)):
            quads.remove(quad)
        return f"removed the last turn of {graph}"

    def _any(self, quads: ox.Store) -> Quad:
        return self._chance.choice(sorted(quads.quads_for_pattern(None, None, None, None), key=str))

    def other(self, quad: Quad) -> NamedNode | Literal:
        if not isinstance(quad.object, Literal):
            return NamedNode(str(getattr(quad.object, "value", "urn")) + self._chance.choice("x1"))
        value = quad.object.value
        if quad.object.datatype in (vocab.INTEGER, vocab.DECIMAL):
            return Literal(str(int(float(value)) + self._chance.choice((1, 7))), datatype=quad.object.datatype)
        if quad.object.datatype == vocab.DATE_TIME:
            return Literal(value.replace("20", "19", 1), datatype=vocab.DATE_TIME)
        if quad.object.datatype == vocab.BOOLEAN:
            return Literal("false" if value == "true" else "true", datatype=vocab.BOOLEAN)
        return Literal(
            self._chance.choice((value + "0", value[1:] or "ab", value.swapcase() + "A")), datatype=quad.object.datatype
        )


def _tamper(store: Path, older: tuple[tuple[Quad, ...], ...], chance: random.Random) -> str | None:
    """Tamper once with a store's quads; return how, or None where nothing came of it."""
    hand = Tamperer(chance)
    kinds: tuple[Callable[[ox.Store], str | None] | None, ...] = (
        hand.alter,
        hand.alter,
        hand.add,
        hand.retype,
        hand.add_elsewhere,
        hand.remove,
        hand.remove,
        hand.remove_row,
        hand.reorder,
        hand.move,
        hand.truncate,
        None,
    )
    kind = chance.choice(kinds)
    with altered(store) as quads:
        if kind is not None:
            return kind(quads)
        old = chance.randrange(len(older))
        quads.clear()
        quads.extend(older[old])
        return f"put back to step {old}"


def test_every_single_tampering_with_a_closed_store_is_found(victim: Victim, tmp_path: Path, size: Size) -> None:
    seed = int(os.environ.get("TRAILS_SEED", "20260730"))
    chance = random.Random(seed)
    wanted, done, unnoticed = {"quick": 8, "all": 60, "long": 1000}[size], 0, []
    while done < wanted:
        copy = tmp_path / "copy"
        shutil.copytree(victim.store, copy)
        what = _tamper(copy, victim.older, chance)
        if what is not None:
            done += 1
            with trails.open(copy) as store:
                if store.verify().ok:
                    unnoticed.append(f"{done}: {what}")
        shutil.rmtree(copy)
    assert not unnoticed, f"seed {seed}: {unnoticed}"


def test_a_store_that_nobody_tampered_with_has_no_findings_however_often_it_is_opened(
    victim: Victim, tmp_path: Path, size: Size
) -> None:
    for number in range(2 if size == "quick" else 5):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(victim.store, copy)
        if number:
            shutil.rmtree(copy / "index", ignore_errors=True)
        with trails.open(copy) as store:
            report = store.verify()
            assert report.ok, report.findings
            assert report.sessions == 5


def test_deleting_a_session_that_holds_copies_is_no_tampering(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        _conversation(store)
        store.load("root").fork(at=2, id="copy").detach()
        store.delete("copy")
        assert store.verify().ok
    with trails.open(tmp_path / "s") as store:
        assert store.verify().ok


# --- every kind of thing, every property


def kind_of(store: Repository, quad: Quad) -> tuple[str, str, str]:
    """What a quad's subject is, its property, and what kind of graph it stands in."""
    types = sorted(str(each.object) for each in store.store.quads((quad.subject, vocab.TYPE, None, quad.graph_name)))  # type: ignore[arg-type] # IRIs
    place = "catalog" if quad.graph_name == vocab.CATALOG else str(quad.graph_name).rpartition("/")[2][:6]
    return " ".join(types), quad.predicate.value, place if place in ("catalog", "ledger", "entry>") else "graph"


def alterations(hand: Tamperer, quad: Quad) -> list[Change]:
    """A quad taken out, altered, doubled with another value, and given another type."""
    other = Quad(quad.subject, quad.predicate, hand.other(quad), quad.graph_name)
    text = str(getattr(quad.object, "value", quad.object))
    retyped = Quad(quad.subject, quad.predicate, Literal(text, datatype=NamedNode("urn:example:type")), quad.graph_name)
    return [
        Change(remove=[quad]),
        Change(add=[other], remove=[quad]),
        Change(add=[other]),
        Change(add=[retyped], remove=[quad]),
    ]


def test_a_store_of_everything_holds_every_kind_and_property_that_is_written(memory: Repository) -> None:
    everything(memory)
    assert memory.verify().findings == ()
    quads = memory.store.quads((None, None, None, None))
    written = {quad.predicate.value for quad in quads} | {str(getattr(quad.object, "value", "")) for quad in quads}
    terms = {node.value for name, node in vars(vocab).items() if isinstance(node, NamedNode) and name not in NOT_STORED}
    assert terms - written == set()


def test_what_says_that_somebody_whom_only_a_run_names_is_an_agent_is_missed(memory: Repository) -> None:
    subagent_runs.register_run(Run(run_id="r1", agent="ops", said=RunContent.of("task"))).commit(memory.store)
    [kind] = memory.store.quads((NamedNode("urn:trails:agent:ops"), vocab.TYPE, None, vocab.CATALOG))
    assert memory.verify().ok
    memory.store.commit(Change(remove=[kind]))
    assert [finding.code for finding in memory.verify().findings] == ["missing"]


@pytest.mark.slow
def test_no_quad_of_any_kind_and_property_is_altered_removed_or_added_unnoticed(memory: Repository, size: Size) -> None:
    everything(memory)
    chance = random.Random(int(os.environ.get("TRAILS_SEED", "20260730")))
    hand, by_kind = Tamperer(chance), dict[tuple[str, str, str], list[Quad]]()
    for quad in sorted(memory.store.quads((None, None, None, None)), key=str):
        by_kind.setdefault(kind_of(memory, quad), []).append(quad)
    assert len(by_kind) > 250
    chosen = [quad for quads in by_kind.values() for quad in (quads if size == "long" else [chance.choice(quads)])]
    unnoticed = []
    for quad in chosen if size == "long" else chance.sample(chosen, 60 if size == "all" else 8):
        changes = alterations(hand, quad)
        for change in changes if size == "long" else [chance.choice(changes)]:
            memory.store.commit(change)
            if memory.verify().ok:
                unnoticed.append(f"{kind_of(memory, quad)}: {change}")
            memory.store.commit(Change(add=change.remove, remove=change.add))
    assert unnoticed == []
    assert memory.verify().ok


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, set[Quad]]]:
    """A store with everything in it, as its process left it when it was killed, and a backup that was made in use; each
    with its quads. What stands in the killed one partly is in the engine's files, partly in records only.
    """
    tmp_path = tmp_path_factory.mktemp("ended")
    with trails.open(tmp_path / "store", create=True) as store:
        everything(store)
        store.store.flush()
        late = store.load("root") if "root" in store else store.create(id="late", principal="zoe", label="late")
        late.append("user", "Just in time")
        late.persist()
        store.notes.add(late.id, 0, "Is that so?", by="bob")
        saved = set(store.store.quads((None, None, None, None)))
        store.maintenance.backup(tmp_path / "backup")
        left_by_a_kill(tmp_path / "store", tmp_path / "killed")
        quads = set(store.store.quads((None, None, None, None)))
    return {"killed": (tmp_path / "killed", quads), "backup": (tmp_path / "backup", saved)}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "backup"])
def test_tampering_with_a_killed_store_or_with_a_backup_made_in_use_is_found_or_undone(
    ended: dict[str, tuple[Path, set[Quad]]], tmp_path: Path, how: str, size: Size
) -> None:
    """Opening believes the records: what one of them says is put right, anything else is a finding."""
    folder, before = ended[how]
    chance = random.Random(int(os.environ.get("TRAILS_SEED", "20260730")))
    hand, unnoticed = Tamperer(chance), []
    chosen = sorted(before, key=str)
    for number, quad in enumerate(chosen if size == "long" else chance.sample(chosen, 12 if size == "all" else 2)):
        changes = alterations(hand, quad)
        for change in changes if size == "long" else [chance.choice(changes)]:
            copy = tmp_path / f"copy{number}"
            shutil.copytree(folder, copy)
            with altered(copy) as quads:
                for gone in change.remove:
                    quads.remove(gone)
                quads.extend(change.add)
            with trails.open(copy) as store:
                if store.verify().ok and set(store.store.quads((None, None, None, None))) != before:
                    unnoticed.append(str(change))
            shutil.rmtree(copy)
    assert unnoticed == []


@pytest.mark.parametrize("how", ["killed", "backup"])
def test_a_killed_store_and_a_backup_made_in_use_that_nobody_tampered_with_have_no_findings(
    ended: dict[str, tuple[Path, set[Quad]]], tmp_path: Path, how: str
) -> None:
    folder, before = ended[how]
    copy = shutil.copytree(folder, tmp_path / "copy")
    with trails.open(copy) as store:
        assert store.verify().findings == ()
        assert set(store.store.quads((None, None, None, None))) == before


# --- what was found by looking


def test_a_mark_that_a_living_session_is_to_be_swept_takes_nothing_and_is_found(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        _conversation(store)
    with altered(tmp_path / "s") as quads:
        quads.add(Quad(NamedNode("urn:trails:session:root"), vocab.PENDING_SWEEP, Literal(True), vocab.CATALOG))
    for _ in range(2):
        with trails.open(tmp_path / "s") as store:
            assert len(store.load("root").turns) == 4
            assert {finding.code for finding in store.verify().findings} == {"stray", "row-altered"}


@pytest.mark.parametrize("act", ["root/act/00ff", "other/act/00ff", "root/import", "root/import/7"])
def test_a_turn_that_is_said_to_come_from_an_act_that_never_was_is_found(memory: Repository, act: str) -> None:
    _conversation(memory)
    turn = NamedNode(memory.load("root").turns[0].iri)
    graph = NamedNode("urn:trails:session:root")
    forged = Quad(turn, vocab.GENERATED_BY, NamedNode(f"urn:trails:session:{act}"), graph)
    memory.store.commit(Change(add=[forged]))
    assert not memory.verify().ok
    memory.store.commit(Change(remove=[forged]))
    assert memory.verify().ok


def test_a_turn_of_ones_own_that_is_said_to_be_a_copy_is_found(memory: Repository) -> None:
    _conversation(memory)
    fork = memory.load("root").fork(at=1, id="fork")
    fork.append("user", "my own")
    fork.persist()
    fork.detach()
    [act] = memory.store.quads((None, vocab.TYPE, vocab.COPYING, vocab.CATALOG))
    own, graph = NamedNode(memory.load("fork").turns[1].iri), NamedNode("urn:trails:session:fork")
    memory.store.commit(Change(add=[Quad(own, vocab.GENERATED_BY, act.subject, graph)]))
    assert not memory.verify().ok
