"""What stands in a store and was logged by no commit is a finding; what an operation has not finished yet is none.

The forgeries are put in past the session layer, as the process or the owner of the disk could.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.sessions import contents, say
from tests.support.tampering import altered
from trails import IntegrityError, Repository
from trails.history.removal import deletion, detach
from trails.history.removal.redaction import parts_of_redaction
from trails.model import iris
from trails.rdf import vocab
from trails.store import Change

GHOST, PLAN, GONE, FORK = (NamedNode(iris.session(name)) for name in ("ghost", "plan", "gone", "fork"))
ALICE = NamedNode(iris.principal("alice"))
NOW = Literal("2026-01-01T00:00:00Z", datatype=vocab.DATE_TIME)
Forge = Callable[[Repository], list[Quad]]


@pytest.fixture
def filled(store: Repository) -> Repository:
    """ "plan" of three turns, "fork" of it at 2 with one of its own, and "gone", which was deleted."""
    plan = say(store.create(id="plan", principal="alice"), "a", "b", "c")
    say(plan.fork(at=2, id="fork"), "mine")
    say(store.create(id="gone", principal="alice"), "x")
    store.delete("gone", by="alice")
    return store


def found(store: Repository) -> set[tuple[str, str | None]]:
    return {(each.code, each.session_id) for each in store.verify().findings}


def put(store: Repository, quads: list[Quad]) -> None:
    store.store.commit(Change(add=quads))


def turns_of(store: Repository, home: NamedNode, below: int = 99, text: str | None = "FORGED") -> list[Quad]:
    """The turns of "plan" below an index as turns of another session, each an alternate of the true one."""
    made = []
    for quad in store.store.quads((None, vocab.INDEX, None, PLAN)):
        assert isinstance(quad.object, Literal)
        assert isinstance(quad.subject, NamedNode)
        if int(quad.object.value) >= below:
            continue
        turn = NamedNode(quad.subject.value.replace(PLAN.value, home.value))
        made.append(Quad(turn, vocab.ALTERNATE_OF, quad.subject, home))
        for part in parts_of_redaction(store.store, quad.subject):
            said = Literal(text) if text and part.predicate == vocab.VALUE else part.object
            made.append(Quad(turn, part.predicate, said, home))
    return made


def mark(home: NamedNode, predicate: NamedNode, value: NamedNode | Literal) -> Quad:
    return Quad(home, predicate, value, vocab.CATALOG)


def swept(home: NamedNode) -> Quad:
    return mark(home, vocab.PENDING_SWEEP, Literal(True))


def copied(home: NamedNode) -> Quad:
    return mark(home, vocab.TYPE, vocab.UNFINISHED_COPY)


def deletion_of(home: NamedNode) -> list[Quad]:
    """What the catalog says of a deletion: its tombstone, who and when."""
    act = NamedNode(iris.deletion(home.value))
    return [
        mark(home, vocab.TYPE, vocab.TOMBSTONE),
        mark(home, vocab.INVALIDATED_BY, act),
        mark(home, vocab.DELETED_AT, NOW),
        mark(act, vocab.TYPE, vocab.DELETION),
        mark(act, vocab.ASSOCIATED_WITH, ALICE),
        mark(act, vocab.ENDED_AT, NOW),
    ]


def removal_of_a_tag() -> list[Quad]:
    act = NamedNode(iris.tag("v1") + "/deletion/00ff00ff00ff00ff")
    assert iris.is_removal(act.value)
    return [
        mark(act, vocab.TYPE, vocab.DELETION),
        mark(act, vocab.REMOVED_FROM, GHOST),
        mark(act, vocab.REMOVED_TAG, Literal("v1")),
        mark(act, vocab.ASSOCIATED_WITH, ALICE),
        mark(act, vocab.ENDED_AT, NOW),
    ]


def alteration() -> list[Quad]:
    """That alice changed the label of a session that never was."""
    act = NamedNode(f"{GHOST.value}/act/00ff00ff00ff00ff")
    return [
        mark(act, vocab.TYPE, vocab.ACTIVITY),
        mark(act, vocab.TYPE, vocab.ALTERATION),
        mark(act, vocab.DONE_TO, GHOST),
        mark(act, vocab.ALTERED_FIELD, Literal("label")),
        mark(act, vocab.NEW_VALUE, Literal("x")),
        mark(act, vocab.ASSOCIATED_WITH, ALICE),
        mark(act, vocab.ENDED_AT, NOW),
    ]


FORGERIES: dict[str, tuple[Forge, set[tuple[str, str | None]]]] = {
    "turns below a fork's index": (lambda s: turns_of(s, FORK, 2), {("unlogged", "fork")}),
    "true copies below a fork's index": (lambda s: turns_of(s, FORK, 2, None), {("unlogged", "fork")}),
    "the same with the mark of a copy": (
        lambda s: [*turns_of(s, FORK, 2), copied(FORK)],
        {("unlogged", "fork"), ("stray", "fork")},
    ),
    "a tombstone": (lambda _: deletion_of(GHOST)[:1], {("unlogged", "ghost")}),
    "a deletion, whole": (lambda _: deletion_of(GHOST), {("unlogged", "ghost")}),
    "who deleted, without a tombstone": (lambda _: deletion_of(GHOST)[3:], {("unlogged", "ghost")}),
    "a redaction of no turn": (
        lambda _: [mark(NamedNode(f"{PLAN.value}/0-00ff00ff00ff00ff/deletion"), vocab.TYPE, vocab.DELETION)],
        {("unlogged", "plan")},
    ),
    "the removal of a tag of no session": (lambda _: removal_of_a_tag(), {("unlogged", None)}),
    "an alteration of no session": (lambda _: alteration(), {("unlogged", "ghost")}),
    "turns that wait to be swept, under a forged tombstone": (
        lambda s: [*deletion_of(GHOST), swept(GHOST), *turns_of(s, GHOST)],
        {("stray", "ghost"), ("stray-graph", None), ("unlogged", "ghost")},
    ),
    "turns that wait to be swept, under a true tombstone": (
        lambda s: [swept(GONE), *turns_of(s, GONE)],
        {("stray", "gone"), ("stray-graph", None)},
    ),
    "turns in an unfinished copy": (
        lambda s: [copied(GHOST), *turns_of(s, GHOST)],
        {("stray", "ghost"), ("stray-graph", None)},
    ),
    "the mark of a copy at a root": (lambda _: [copied(PLAN)], {("stray", "plan")}),
    "the mark of a copy at a fork": (lambda _: [copied(FORK)], {("stray", "fork")}),
    "the mark of a sweep at a tombstone": (lambda _: [swept(GONE)], {("stray", "gone")}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_no_commit_logged_is_a_finding(filled: Repository, name: str) -> None:
    forge, expected = FORGERIES[name]
    assert found(filled) == set()
    put(filled, forge(filled))
    assert found(filled) == expected


@pytest.mark.parametrize(
    "name", ["turns below a fork's index", "true copies below a fork's index", "a deletion, whole"]
)
def test_the_owner_of_the_disk_puts_nothing_in_that_stays_unseen(tmp_path: Path, name: str) -> None:
    forge, expected = FORGERIES[name]
    with trails.open(tmp_path / "store", create=True) as store:
        say(say(store.create(id="plan", principal="alice"), "a", "b", "c").fork(at=2, id="fork"), "mine")
        quads = forge(store)
    with altered(tmp_path / "store") as engine:
        engine.extend(quads)
    for _ in range(2):
        with trails.open(tmp_path / "store") as store:
            assert found(store) == expected


@pytest.mark.parametrize("text", ["FORGED", None])
def test_a_fork_with_turns_below_its_index_is_not_detached_and_goes_on_as_it_was(
    filled: Repository, text: str | None
) -> None:
    put(filled, turns_of(filled, FORK, 2, text))
    with pytest.raises(IntegrityError, match="'fork' holds a turn 0 of its own below its fork index 2"):
        filled.detach("fork")
    assert contents(filled, "fork") == ["a", "b", "mine"]
    assert filled.record("fork").parent_session_id == "plan"


def test_a_name_that_nothing_mentions_is_no_finding_and_goes_with_a_vacuum(filled: Repository) -> None:
    mallory = NamedNode(iris.principal("mallory"))
    put(filled, [mark(mallory, vocab.TYPE, vocab.PRINCIPAL)])
    assert found(filled) == set()
    filled.maintenance.vacuum()
    assert filled.store.quads((mallory, None, None, None)) == []


# --- what is not finished


def test_a_deletion_whose_graph_is_not_swept_yet_is_no_finding_until_it_is(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(deletion, "sweep_pending", lambda _: 0)
        filled.delete("fork")
    assert filled.store.quads((FORK, vocab.PENDING_SWEEP, None, None))
    assert found(filled) == set()
    deletion.sweep_pending(filled.store)
    assert found(filled) == set()
    put(filled, [swept(FORK)])
    assert found(filled) == {("stray", "fork")}


@pytest.mark.parametrize("what", ["detach", "flatten"])
def test_copies_that_could_not_be_taken_out_again_are_no_finding_until_they_are(
    filled: Repository, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def refused(*_: object) -> int:
        raise trails.StoreFailed("no")

    write = detach._write_copies

    def cut(*args: Any) -> None:
        write(*args)
        monkeypatch.setattr(detach, "sweep_copies", refused)
        raise KeyboardInterrupt

    monkeypatch.setattr(detach, "_write_copies", cut)
    with pytest.raises(KeyboardInterrupt):
        filled.detach("fork") if what == "detach" else filled.flatten("plan", id="ghost")
    monkeypatch.undo()
    home = FORK if what == "detach" else GHOST
    assert filled.store.quads((None, vocab.ALTERNATE_OF, None, home))
    assert found(filled) == set()
    detach.sweep_copies(filled.store)
    assert found(filled) == set()


def test_a_refused_deletion_excuses_no_mark(filled: Repository) -> None:
    with pytest.raises(trails.HasChildren):
        filled.delete("plan")
    put(filled, [swept(PLAN)])
    assert ("stray", "plan") in found(filled)
