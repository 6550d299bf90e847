"""All of a store as it was, read out of a copy of its files: the same as what is copied a graph at a time, and soon gone."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from textwrap import dedent

import pyoxigraph as ox
import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad

import trails
from tests.support.machines import Size
from tests.support.pasts import mark_of, said, take_out, walk
from trails import Repository
from trails.errors import IntegrityError, StoreFailed
from trails.rdf import vocab
from trails.store import engines, maintenance
from trails.store.contract import Change, Solutions
from trails.store.doctor import doctor
from trails.store.frozen import Frozen
from trails.store.past import PastStore

_COUNT = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?turn a trails:Turn } }"
_EVERY = "SELECT ?g ?s ?p ?o { GRAPH ?g { ?s ?p ?o } }"


@pytest.fixture
def store(place: Path) -> Iterator[Repository]:
    """An empty store in a folder."""
    with trails.open(place, create=True, durability="process") as opened:
        yield opened


def _plan(store: Repository) -> str:
    """Make plan, with three turns, and other, with one; return the mark of then, after which plan got one more."""
    plan = store.create(id="plan", label="trip")
    for text in ("Plan a trip", "Where to?", "To the sea"):
        plan.append("user", text)
    plan.persist()
    with store.session("other") as other:
        other.append("user", "secret")
    then = mark_of(store)
    plan.append("user", "To the Alps")
    plan.persist()
    return then


def _copies(place: Path) -> list[Path]:
    folder = place / maintenance.PAST
    return list(folder.iterdir()) if folder.exists() else []


def _of(past: Repository) -> PastStore:
    assert isinstance(past.store, PastStore)
    return past.store


def _is_read_from_files(past: Repository) -> bool:
    return _of(past)._frozen is not None


def _is_copied(past: Repository) -> Repository:
    """Have a store as it was copied a graph at a time, as one in memory is."""
    store = _of(past)
    store._hold(replace(store.held, freeze=lambda: None))
    return past


def _everything(past: Repository) -> list[object]:
    """Return what a store says in each of the ways in which all of it can be asked for."""
    out = io.BytesIO()
    past.store.dump(out)  # type: ignore[attr-defined] # of a store as it was
    union, graphs = (
        past.store.query("SELECT ?s ?p ?o { ?s ?p ?o }", union=True),
        past.store.query("SELECT ?g { GRAPH ?g {} }"),
    )
    assert isinstance(union, Solutions)
    assert isinstance(graphs, Solutions)
    return [
        {str(quad) for quad in past.store.quads((None, None, None, None))},
        {str(quad) for quad in past.store.quads((None, vocab.TYPE, vocab.TURN, None))},
        sorted(out.getvalue().splitlines()),
        len(past.store),
        sorted(past.store.table(_EVERY)),
        sorted(past.store.rows(_EVERY)),
        sorted(str(row) for row in union),
        sorted(str(row) for row in graphs),
    ]


def _forge(store: Repository, seed: int) -> None:
    """Write past the log what it knows nothing of: graphs, subjects, and more of a turn."""
    dice = Random(seed)
    names = sorted(record.id for record in store)
    graph = NamedNode(f"urn:trails:session:{dice.choice(names)}")
    subjects = [graph, NamedNode(f"{graph.value}/99-00ff00ff00ff00ff"), NamedNode("urn:x")]
    turns = [quad.subject for quad in store.store.quads((None, vocab.TYPE, vocab.TURN, graph))]
    said = [Quad(each, NamedNode("urn:said"), Literal("forged"), graph) for each in (*subjects, *turns[:1])]
    said += [Quad(subjects[2], vocab.TYPE, vocab.TURN, NamedNode(f"urn:trails:session:no{seed}"))]
    said += [Quad(BlankNode("b"), vocab.TYPE, vocab.TURN, NamedNode(f"urn:graph:{seed}"))]
    said += [
        Quad(turn, vocab.ANSWERS_COPY, NamedNode(f"{graph.value}/0-00ff00ff00ff00ff/call/0"), graph)
        for turn in turns[-1:]
    ]
    store.store.commit(Change(add=said))


# --- the same as what is copied


@pytest.mark.parametrize("seed", range(4))
def test_at_every_place_of_a_history_the_files_say_what_copying_each_graph_says(
    store: Repository, size: Size, seed: int
) -> None:
    marks = list(walk(store, 40 + seed, {"quick": 25, "all": 60, "long": 300}[size]))
    ways = set()
    for number, mark in enumerate(marks[:: {"quick": 3, "all": 2, "long": 1}[size]]):
        if number % 3 == 1:
            take_out(store, seed + number, 1)
        if number % 3 == 2:
            _forge(store, number)
        with store.at(mark) as past, _is_copied(store.at(mark)) as copied:
            assert _everything(past) == _everything(copied), mark
            ways.add(_is_read_from_files(past))
    assert ways == {True, False}  # at the beginning of a history nearly all of it came later


def test_what_is_asked_of_all_is_read_from_files_and_is_what_was(store: Repository, place: Path) -> None:
    then = _plan(store)
    with store.at(then) as past:
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        assert (_is_read_from_files(past), len(_copies(place))) == (True, 1)
        assert not past.select("SELECT ?t { GRAPH ?g { ?t ?p 'To the Alps' } }")
        assert past.verify().findings == ()
    assert store.select(_COUNT).to_dicts() == [{"n": 5}]


def test_what_comes_to_the_store_while_it_is_read_is_not_seen(store: Repository) -> None:
    then = _plan(store)
    with store.at(then) as past:
        before = said(past)
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        with store.session("late") as late:
            late.append("user", "Too late")
        assert said(past) == before
        assert _is_read_from_files(past)


def test_what_the_log_does_not_know_of_a_session_is_not_shown(store: Repository) -> None:
    with store.session("long") as long:
        for number in range(9):
            long.append("user", f"turn {number}")
    then = _plan(store)
    with store.at(then) as past:
        honest = said(past)
    graph = NamedNode("urn:trails:session:plan")
    later = NamedNode(f"{graph.value}/3-00ff00ff00ff00ff")
    subjects: list[NamedNode | BlankNode] = [graph, later, NamedNode("urn:x"), BlankNode("b")]
    forged = [Quad(each, NamedNode("urn:said"), Literal("forged"), graph) for each in subjects]
    forged.append(Quad(NamedNode("urn:x"), vocab.TYPE, vocab.TURN, NamedNode("urn:trails:session:nobody")))
    store.store.commit(Change(add=forged))
    with store.at(then) as past:
        assert said(past) == honest
        graphs = past.store.table("SELECT ?g { GRAPH ?g {} }")
        assert sorted(graphs) == [[f"<urn:trails:session:{name}>"] for name in ("long", "other", "plan")]
        assert _is_read_from_files(past)


def test_a_fork_that_was_detached_since_answers_the_call_of_its_parent_again(store: Repository) -> None:
    with store.session("long") as long:
        for number in range(9):
            long.append("user", f"turn {number}")
    plan = store.create(id="plan")
    plan.append("assistant", "Looking", tool_calls=[{"id": "c", "name": "look", "arguments": {}}])
    plan.persist()
    fork = plan.fork(id="fork")
    fork.append("tool", "Seen", tool_call_id="c")
    fork.persist()
    then, honest = mark_of(store), said(store)
    store.detach("fork")
    assert any("answersCopy" in text for text in said(store) - honest)
    with store.at(then) as past:
        assert said(past) == honest
        assert _is_read_from_files(past)


def test_a_last_turn_that_was_altered_past_the_log_is_refused(store: Repository) -> None:
    then = _plan(store)
    graph = NamedNode("urn:trails:session:plan")
    [last] = store.store.quads((None, vocab.INDEX, vocab.integer(2), graph))
    [old] = store.store.quads((last.subject, vocab.DIGEST, None, graph))  # type: ignore[arg-type] # an IRI
    store.store.commit(Change(remove=[old], add=[Quad(old.subject, old.predicate, Literal("0" * 64), graph)]))
    with store.at(then) as past, pytest.raises(IntegrityError, match="is gone, or another one"):
        past.select(_COUNT)


# --- what pays for it, and what does not


def test_a_session_and_the_catalog_are_read_without_it(store: Repository, place: Path) -> None:
    then = _plan(store)
    with store.at(then) as past:
        assert len(past.load("plan")) == 3
        assert past.store.query("SELECT ?s { ?s a trails:Session }")
        assert past.store.query("SELECT ?s { GRAPH <urn:trails:session:plan> { ?s a trails:Turn } }")
        assert _copies(place) == []


def test_what_mostly_came_later_is_copied(store: Repository, place: Path) -> None:
    then = _plan(store)
    with store.session("long") as long:
        for number in range(30):
            long.append("user", f"turn {number}")
    with store.at(then) as past:
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        assert (_is_read_from_files(past), _copies(place)) == (False, [])


def test_where_the_files_cannot_be_linked_to_it_is_copied(
    store: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = _plan(store)
    (place / maintenance.PAST).write_text("in the way")
    with store.at(then) as past:
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        assert not _is_read_from_files(past)
    (place / maintenance.PAST).unlink()

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trails.plumbing.asof.whole._exchange", full)
    with store.at(then) as past:
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        assert _copies(place) == []


def test_whoever_holds_the_store_is_answered_too(store: Repository) -> None:
    then = _plan(store)
    with store.at(then) as past, store.store.hold():  # type: ignore[attr-defined] # of a store in this process
        assert len(past.store.quads((None, vocab.TYPE, vocab.TURN, None))) == 4
        assert not _is_read_from_files(past)


# --- when it goes


def test_it_goes_when_it_is_closed_and_when_nobody_has_it_any_more(store: Repository, place: Path) -> None:
    then = _plan(store)
    past, left = store.at(then), store.at(then)
    assert past.select(_COUNT).to_dicts() == left.select(_COUNT).to_dicts() == [{"n": 4}]
    assert len(_copies(place)) == 2
    past.close()
    assert len(_copies(place)) == 1
    del left
    gc.collect()
    assert not (place / maintenance.PAST).exists()


def test_it_goes_when_the_store_is_closed(place: Path) -> None:
    with trails.open(place, create=True) as store:
        then = _plan(store)
        past = store.at(then)
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
    assert not (place / maintenance.PAST).exists()
    with pytest.raises(StoreFailed, match="is closed"):
        past.select(_COUNT)
    past.close()


@pytest.mark.parametrize("way", ["redact", "redact_matching", "delete", "vacuum"])
def test_it_goes_before_an_erasure_returns(store: Repository, place: Path, way: str) -> None:
    then = _plan(store)
    with store.at(then) as past:
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        assert len(_copies(place)) == 1
        if way == "redact":
            store.redact("other", 0)
        elif way == "redact_matching":
            store.redact_matching("secret")
        elif way == "delete":
            store.delete("other")
        else:
            store.maintenance.vacuum()
        assert _copies(place) == []
        assert past.select(_COUNT).to_dicts() == [{"n": 3 if way == "delete" else 4}]
        is_erased = way != "vacuum"
        assert len(past.select("SELECT ?t { GRAPH ?g { ?t ?p 'secret' } }")) == (0 if is_erased else 1)
        assert _is_read_from_files(past)


def test_what_a_killed_process_left_is_named_and_goes_with_the_next_owner(place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        then = _plan(store)
    script = f"""
        import os, signal, trails
        store = trails.open({str(place)!r})
        assert store.at({then!r}).select({_COUNT!r}).to_dicts() == [{{"n": 4}}]
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", dedent(script)], check=False)
    assert (killed.returncode, len(_copies(place))) == (-signal.SIGKILL, 1)
    assert [check.ok for check in doctor(place) if check.name == "leftovers"] == [False]
    with trails.open(place) as store:
        assert not (place / maintenance.PAST).exists()
        assert store.verify().ok


def test_one_in_use_is_no_leftover_and_in_no_backup(store: Repository, place: Path, tmp_path: Path) -> None:
    then = _plan(store)
    with store.at(then) as past:
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        assert [check.ok for check in doctor(place) if check.name == "leftovers"] == [True]
        store.maintenance.backup(tmp_path / "backup")
        assert not (tmp_path / "backup" / maintenance.PAST).exists()


def test_a_forked_child_lets_it_be(store: Repository, place: Path) -> None:
    then = _plan(store)
    with store.at(then) as past:
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        [folder] = _copies(place)
        child = os.fork()
        if not child:  # pragma: no cover - another process
            code = 1
            try:
                past.select(_COUNT)
            except StoreFailed as error:
                code = 0 if "forked" in str(error) else 2
            past.close()
            _of(past)._frozen = None
            gc.collect()
            os._exit(code if engines._is_open_here(folder) else 3)  # ending it would wait for the parent's threads
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(_copies(place)) == 1
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]


def test_many_ask_while_texts_are_erased(store: Repository, place: Path) -> None:
    then = _plan(store)
    found: list[object] = []
    with store.at(then) as past:

        def ask() -> None:
            found.extend(past.select(_COUNT).to_dicts() for _ in range(10))

        asking = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for each in asking:
            each.start()
        for index in range(3):
            store.redact("plan", index)
        for each in asking:
            each.join(60)
        assert found == [[{"n": 4}]] * 40
    assert _copies(place) == []


def test_one_that_goes_before_it_is_asked_is_made_again(store: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    then = _plan(store)
    with store.at(then) as past:
        real = _of(past)._whole

        def whole() -> Frozen | None:
            found = real()
            assert found is not None
            found.let_go()
            monkeypatch.undo()
            return found

        monkeypatch.setattr(past.store, "_whole", whole)
        assert past.select(_COUNT).to_dicts() == [{"n": 4}]
        assert _is_read_from_files(past)


def test_a_copy_that_was_let_go_or_not_made_whole_says_so(tmp_path: Path) -> None:
    engine = ox.Store(str(tmp_path / "engine"))
    for work in (None, lambda engine: False):
        copy = Frozen(engine, tmp_path / "copies", "then", None)
        if work is None:
            copy.let_go()
            copy.let_go()
        else:
            assert not copy.change(work)
        assert not (tmp_path / "copies").exists()
        with pytest.raises(trails.TrailsError, match="was let go"):
            len(copy)
        with pytest.raises(trails.TrailsError, match="was let go"):
            copy.change(lambda engine: True)


def test_a_file_with_two_names_takes_its_bytes_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 1000)
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    assert maintenance.size_of(tmp_path) == 1000
