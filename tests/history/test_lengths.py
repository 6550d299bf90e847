"""A transcript that lost turns at its end is never given for a whole one: the log has its length on record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode

import trails
from trails import IndexGap, Repository
from trails.exchange.file_import import export_session, import_path
from trails.model import iris
from trails.rdf import vocab
from trails.store.contract import Change


def fill(store: Repository, session_id: str = "s", count: int = 5) -> None:
    session = store.create(id=session_id)
    session.persist()
    for number in range(count):
        session.append("user" if number % 2 == 0 else "assistant", f"turn {number}")
        session.persist()


def lose(store: Repository, session_id: str, *indexes: int) -> None:
    """Take turns out of the graph, as nothing of Trails ever does."""
    graph = NamedNode(iris.session(session_id))
    gone = [
        quad
        for index in indexes
        for turn in store.store.quads((None, vocab.INDEX, vocab.integer(index), graph))
        for quad in store.store.quads((turn.subject, None, None, graph))  # type: ignore[arg-type] # an IRI
    ]
    assert gone
    store.store.commit(Change(remove=gone))


READS: dict[str, Callable[[Repository], Any]] = {
    "load": lambda store: store.load("s"),
    "len": lambda store: len(store["s"]),
    "the last ones": lambda store: store.load("s", last=2),
    "a window": lambda store: store.load("s", max_tokens=1000),
    "session": lambda store: store.session("s"),
    "replay": lambda store: store.replay("s"),
    "replay up to the end": lambda store: store.replay("s", up_to_index=5),
    "context": lambda store: store.context("s"),
    "context of a budget": lambda store: store.context("s", max_tokens=1000),
    "diff": lambda store: store.diff("s", "other"),
    "a place past the end": lambda store: store.diff("s@5", "other"),
    "player": lambda store: store.player("s"),
    "flatten": lambda store: store.flatten("s"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("gone", [(4,), (3, 4), (0, 1, 2, 3, 4)], ids=str)
@pytest.mark.sample(20)
def test_whoever_reads_a_session_that_lost_its_last_turns_is_told(
    store: Repository, read: Callable[[Repository], Any], gone: tuple[int, ...]
) -> None:
    fill(store)
    fill(store, "other", 2)
    lose(store, "s", *gone)
    place = f"turn {gone[0]} is" if len(gone) == 1 else f"turns {gone[0]} to 4 are"
    with pytest.raises(
        IndexGap, match=f"'s' cannot be read: {place} missing at its end, .* has 5 turns .* restore 's'"
    ):
        read(store)
    assert len(store.load("other")) == 2


def test_what_comes_before_the_loss_can_be_replayed(store: Repository) -> None:
    fill(store)
    lose(store, "s", 4)
    assert [each["content"] for each in store.replay("s", up_to_index=4)] == [f"turn {number}" for number in range(4)]


def test_a_fork_tells_of_what_it_or_its_parent_lost_and_of_nothing_else(store: Repository) -> None:
    fill(store)
    session = store.load("s")
    for name, at in (("before", 3), ("behind", 5), ("own", 3)):
        with session.fork(at=at, id=name) as fork:
            if name == "own":
                fork.append("user", "tail 1"), fork.append("user", "tail 2")
    lose(store, "s", 4)
    lose(store, "own", 4)
    assert len(store.load("before")) == 3  # what the parent lost is not part of it
    with pytest.raises(IndexGap, match="'behind' cannot be read: turn 4, which 's' owns, is missing"):
        store.load("behind")
    with pytest.raises(IndexGap, match="'own' cannot be read: turn 4 is missing at its end"):
        store.load("own")


def test_a_list_says_how_many_turns_are_on_record_and_warns(store: Repository) -> None:
    fill(store)
    lose(store, "s", 4)
    with pytest.warns(RuntimeWarning, match="'s' cannot be read: turn 4 is missing"):
        (summary,) = store.summaries()
    assert (summary.turns, summary.own_turns) == (5, 5)


def test_a_session_that_a_pack_holds_is_told_of_too(tmp_path: Path) -> None:
    with trails.open(tmp_path / "x", create=True) as store:
        session = store.create(id="s")
        for number in range(100):
            session.append("user", f"turn {number}")
        session.persist()
    with trails.open(tmp_path / "x") as store:
        assert len(store.load("s")) == 100
        lose(store, "s", 99)
        for last in (None, 3):
            with pytest.raises(IndexGap, match="turn 99 is missing"):
                store.load("s", last=last)
    with trails.open(tmp_path / "x") as store:
        with trails.open(tmp_path / "x", read_only=True) as view, pytest.raises(IndexGap, match="turn 99 is missing"):
            view.load("s")
        with pytest.raises(IndexGap, match="turn 99 is missing"):
            store.load("s")


def test_a_session_that_was_deleted_and_came_back_with_fewer_turns_is_whole(store: Repository, tmp_path: Path) -> None:
    fill(store, count=3)
    with (tmp_path / "s.trig").open("wb") as file:
        export_session(store, "s", "trig", file)
    session = store.load("s")
    session.append("user", "more")
    session.persist()
    store.delete("s")
    assert store.reader.turn_reader.recorded("s") == 0
    import_path(store, tmp_path / "s.trig", restore=True)
    assert len(store.load("s")) == 3
    assert store.reader.turn_reader.recorded("s") == 3


def test_detached_flattened_redacted_and_compacted_sessions_are_whole(store: Repository) -> None:
    fill(store)
    fork = store.load("s").fork(at=3, id="fork")
    fork.persist()
    fork.detach()
    store.flatten("s", id="flat")
    store.redact("s", 4)
    compacted = store.load("flat")
    compacted.compact(lambda _: "in short", keep_turns=1)
    assert [len(store.load(name)) for name in ("fork", "flat", "s")] == [3, 6, 5]
    assert [each.turns for each in store.summaries(sort="created")] == [6, 3, 5]
