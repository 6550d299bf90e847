"""Whatever is altered, added, removed, reordered, truncated or rolled back in a closed store's files, `verify` finds it.

The tampering goes past Trails, straight into the engine's files, as anyone with the folder could do it.
"""

from __future__ import annotations

import gc
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
from trails import Repository, vocab


@dataclass(frozen=True)
class Victim:
    """A closed store, and older copies of its quads, each from before a leaf that was synced later."""

    store: Path
    older: tuple[Path, ...]


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
    store.label("fork", "a fork")
    store.load("deep").detach()
    store.load("fork").flatten(id="flat", label="a copy")


def _deletion(store: Repository) -> None:
    gone = store.load("plain").fork(at=2, id="gone")
    gone.append("user", "never mind")
    gone.persist()
    store.delete("gone")


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    folder, older = tmp_path / "store", []
    for step in (_conversation, _forks, _more_turns, _rows, _deletion):
        if folder.exists():
            older.append(tmp_path / f"before{step.__name__}")
            shutil.copytree(folder / "quads", older[-1])
        with trails.open(folder, create=True) as store:
            step(store)
    return Victim(folder, tuple(older))


class Tamperer:
    """Random alterations of the quads in a folder. Each returns what it did, or None where chance left nothing changed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def alter(self, quads: ox.Store) -> str | None:
        quad = self._any(quads)
        changed = Quad(quad.subject, quad.predicate, self._other(quad), quad.graph_name)
        quads.remove(quad)
        quads.add(changed)
        return f"altered {quad} to {changed}"

    def add(self, quads: ox.Store) -> str | None:
        quad = self._any(quads)
        extra = Quad(quad.subject, quad.predicate, self._other(quad), quad.graph_name)
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

    def _other(self, quad: Quad) -> NamedNode | Literal:
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
            self._chance.choice((value + "0", value[1:] or "a", value.swapcase() + "A")), datatype=quad.object.datatype
        )


def _tamper(store: Path, older: tuple[Path, ...], chance: random.Random) -> str | None:
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
    if kind is None:
        old = chance.choice(older)
        shutil.rmtree(store / "quads")
        shutil.copytree(old, store / "quads")
        return f"rolled back to {old.name}"
    quads = ox.Store(str(store / "quads"))
    done = kind(quads)
    quads.flush()
    del quads
    gc.collect()
    return done


def test_every_single_tampering_with_a_closed_store_is_found(victim: Victim, tmp_path: Path, long: bool) -> None:
    seed = int(os.environ.get("TRAILS_SEED", "20260730"))
    chance = random.Random(seed)
    wanted, done, unnoticed = (1000 if long else 60), 0, []
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
    victim: Victim, tmp_path: Path
) -> None:
    for number in range(5):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(victim.store, copy)
        quads = ox.Store(str(copy / "quads"))
        quads.optimize()  # the files change, what is in them does not
        del quads
        gc.collect()
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


def test_a_deletion_that_was_rolled_back_is_found_also_after_a_crash(tmp_path: Path) -> None:
    store = trails.open(tmp_path / "s", create=True)
    _conversation(store)
    store.store.flush()
    store.close()
    shutil.copytree(tmp_path / "s" / "quads", tmp_path / "older")
    store = trails.open(tmp_path / "s")
    store.delete("root")
    store.store.flush()
    # Without the engine's own files, which it goes on tidying while they are copied; older ones take their place.
    shutil.copytree(tmp_path / "s", tmp_path / "crashed", ignore=shutil.ignore_patterns("quads"))
    store.close()
    shutil.copytree(tmp_path / "older", tmp_path / "crashed" / "quads")
    with trails.open(tmp_path / "crashed") as rolled_back:
        assert not rolled_back.verify().ok
