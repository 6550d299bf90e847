"""A proposal's leaves are made before the commit, from what the store then holds, and again where that has changed."""

from __future__ import annotations

import threading

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from tests.support.distant import Distant
from trails import TrailsError
from trails.history import transaction
from trails.history.transaction import Proposal
from trails.integrity.leaves import Leaf
from trails.store import Change, EmbeddedStore, PreconditionFailed
from trails.store.log.commit_batch import Waiting
from trails.store.pattern import Preview

_GRAPH = NamedNode("urn:g")
_SESSION = "urn:trails:session:s"


def _quad(number: int, text: str = "v") -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal(text), _GRAPH)


def _of(number: int) -> tuple[NamedNode, None, None, NamedNode]:
    return NamedNode(f"urn:s{number}"), None, None, _GRAPH


def _count(after: Preview) -> list[Leaf]:
    return [Leaf("turns", _SESSION, len(after.quads(_of(1))), "00" * 32)]


def _counts(store: Distant | EmbeddedStore) -> list[str]:
    return [line.split(" ")[2] for line in store.log.lines()]


def test_leaves_are_of_the_store_as_it_is_with_the_commit() -> None:
    store = Distant()
    store.commit(Change(add=[_quad(1, "a"), _quad(1, "b")]))
    assert Proposal(add=[_quad(1, "c")], remove=[_quad(1, "a")], makers=[_count]).commit(store).written
    assert _counts(store) == ["2"]


def test_leaves_are_made_again_where_another_writer_changed_what_they_were_made_from() -> None:
    store, others = EmbeddedStore(None), [_quad(1, "theirs")]

    def overtaken(after: Preview) -> list[Leaf]:
        made = _count(after)
        if others:
            store.commit(Change(add=[others.pop()]))
        return made

    Proposal(add=[_quad(1, "mine")], makers=[overtaken]).commit(store)
    assert _counts(store) == ["2"], "theirs and mine"
    assert store.number == 2


def test_leaves_are_made_once_where_another_writer_changed_something_else() -> None:
    store, calls = EmbeddedStore(None), [0]

    def overtaken(after: Preview) -> list[Leaf]:
        calls[0] += 1
        store.commit(Change(add=[_quad(2, f"{calls[0]}")]))
        return _count(after)

    Proposal(add=[_quad(1)], makers=[overtaken]).commit(store)
    assert calls == [1]


def test_what_a_maker_adds_goes_into_the_commit_and_not_into_what_a_repeat_is_told_by() -> None:
    store = EmbeddedStore(None)
    salts = iter(("first", "second"))

    def salted(after: Preview) -> list[Leaf]:
        after.add([_quad(2, next(salts))])
        return _count(after)

    proposal = Proposal(add=[_quad(1)], forbid=[_of(1)], makers=[salted])
    assert proposal.commit(store).written
    assert not proposal.commit(store).written
    assert set(store.quads((None, None, None, None))) == {_quad(1), _quad(2, "first")}


def test_leaves_are_made_while_others_may_write() -> None:
    store, free = EmbeddedStore(None), []

    def made(after: Preview) -> list[Leaf]:
        def write() -> None:
            store.commit(Change(add=[_quad(2)]))
            free.append(True)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join(10)
        return _count(after)

    Proposal(add=[_quad(1)], makers=[made]).commit(store)
    assert free == [True]


def test_of_a_store_in_which_it_may_not_be_done_the_precondition_is_what_is_said() -> None:
    def lost(after: Preview) -> list[Leaf]:
        return [Leaf("turns", _SESSION, 1, after.quads(_of(7))[0].object.value)]  # type: ignore[union-attr] # a literal

    with pytest.raises(PreconditionFailed) as failed:
        Proposal(add=[_quad(1)], require=[_quad(7)], makers=[lost]).commit(EmbeddedStore(None))
    assert failed.value.missing == _quad(7)
    with pytest.raises(IndexError):
        Proposal(add=[_quad(1)], makers=[lost]).commit(EmbeddedStore(None))


def test_where_others_never_stop_it_ends_with_an_error_and_nothing_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "_TRIES", 3)
    store, numbers = EmbeddedStore(None), iter(range(9))

    def overtaken(after: Preview) -> list[Leaf]:
        made = _count(after)
        store.commit(Change(add=[_quad(1, f"{next(numbers)}")]))
        return made

    with pytest.raises(TrailsError, match="nothing was written, try again"):
        Proposal(add=[_quad(3)], makers=[overtaken]).commit(store)
    assert store.number == 3
    assert not store.quads(_of(3))


def test_leaves_made_of_all_of_a_store_are_made_again_after_any_commit() -> None:
    store, others = EmbeddedStore(None), [_quad(2)]

    def overtaken(after: Preview) -> list[Leaf]:
        if others:
            store.commit(Change(add=[others.pop()]))
        return [Leaf("turns", _SESSION, len(after.quads((None, None, None, _GRAPH))), "00" * 32)]

    Proposal(makers=[overtaken], reads_all=True).commit(store)
    assert store.number == 2
    assert _counts(store) == ["1"]


def test_of_two_commits_that_are_decided_together_the_second_is_held_to_what_the_first_leaves() -> None:
    store = EmbeddedStore(None)
    first = Waiting(Change(add=[_quad(1)]))
    second = Waiting(Change(add=[_quad(2)], read={_of(1): []}, as_of=store.number))
    third = Waiting(Change(add=[_quad(3)], read={_of(3): []}, as_of=store.number))
    batch = store.new_batch()
    for each in (first, second, third):
        batch.decide(each)
    assert [each.waiting for each in batch.settled] == [first, third]
    assert isinstance(second.error, PreconditionFailed)
    assert second.error.is_outdated
