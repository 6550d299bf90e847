"""A commit is written in one way: each precondition that does not hold raises the error that it means, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from trails import InvalidInput, Repository, SessionNotFound, TrailsError
from trails.history import log_leaves
from trails.history.transaction import Transaction, is_stored
from trails.rdf import vocab
from trails.store.contract import PreconditionFailed

NODE = NamedNode("https://example.org/thing")


def thing(value: str) -> Quad:
    return Quad(NODE, vocab.REASON, Literal(value), vocab.CATALOG)


def other(failure: PreconditionFailed) -> TrailsError:
    return InvalidInput(f"refused: {failure}")


@pytest.fixture
def plan(memory: Repository) -> Repository:
    """A store with a session "plan" that is labelled "mine", and one "gone" that was deleted."""
    memory.create(id="plan", label="mine").persist()
    memory.create(id="gone").persist()
    memory.delete("gone")
    return memory


REFUSED: dict[str, tuple[Callable[[Transaction], object], type[Exception], str]] = {
    "a session that never was": (lambda tx: tx.session("none"), SessionNotFound, "there is no session 'none'"),
    "a session that was deleted": (lambda tx: tx.session("gone"), SessionNotFound, "session 'gone' was deleted"),
    "an id in use": (lambda tx: tx.forbid_id("plan"), InvalidInput, "there is a session 'plan' already"),
    "an id that was used": (lambda tx: tx.forbid_id("gone"), InvalidInput, "its id is not used again"),
    "a label in use": (lambda tx: tx.label("mine"), InvalidInput, "the label 'mine' belongs to session 'plan'"),
    "what is not there": (lambda tx: tx.require([thing("a")], other), InvalidInput, "refused: required but missing"),
    "what was to go": (lambda tx: tx.take([thing("a")], other), InvalidInput, "refused: required but missing"),
    "what was to move": (lambda tx: tx.move([thing("a")], [thing("b")], other), InvalidInput, "refused: required"),
    "what is there": (lambda tx: tx.new([is_stored("plan")], other), InvalidInput, "refused: forbidden but present"),
    "what nobody worded": (lambda tx: tx.new([is_stored("plan")]), PreconditionFailed, "forbidden but present"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_precondition_that_does_not_hold_raises_what_it_means_and_nothing_is_written(
    plan: Repository, case: str
) -> None:
    ask, error, message = REFUSED[case]
    tx = Transaction(plan.reader)
    tx.add([thing("new")])
    ask(tx)
    before = len(plan.store), plan.store.log.lines()
    with pytest.raises(error, match=message):
        tx.commit(plan.store)
    assert (len(plan.store), plan.store.log.lines()) == before


def test_what_no_precondition_words_is_worded_by_the_caller(plan: Repository) -> None:
    tx = Transaction()
    tx.session("none")
    with pytest.raises(InvalidInput, match="refused: required but missing"):
        tx.commit(plan.store, otherwise=other)


def test_of_two_that_do_not_hold_the_first_is_told(plan: Repository) -> None:
    tx = Transaction(plan.reader)
    tx.session("gone")
    tx.session("none")
    with pytest.raises(SessionNotFound, match="'gone' was deleted"):
        tx.commit(plan.store)


def test_what_moves_leaves_what_stays_alone(plan: Repository) -> None:
    first, second = Transaction(), Transaction()
    first.new([thing("stays"), thing("goes")])
    second.move([thing("stays"), thing("goes")], [thing("stays"), thing("comes")])
    assert first.commit(plan.store)
    assert second.commit(plan.store)
    assert set(plan.store.quads((NODE, None, None, None))) == {thing("stays"), thing("comes")}
    change = second.change()
    assert (change.add, change.remove, change.require) == ([thing("comes")], [thing("goes")], [thing("goes")])


def test_joined_transactions_happen_in_one_commit_and_keep_their_refusals(plan: Repository) -> None:
    whole, part = Transaction(plan.reader), Transaction(plan.reader)
    whole.add([thing("a")])
    whole.log(log_leaves.row_states("change", ["plan"]))
    part.session("gone")
    whole.join(part)
    with pytest.raises(SessionNotFound, match="'gone' was deleted"):
        whole.commit(plan.store)
    assert plan.store.quads((NODE, None, None, None)) == []


def test_without_anything_to_log_the_log_stays_as_it_is(plan: Repository) -> None:
    before = plan.store.log.lines()
    tx = Transaction()
    tx.add([thing("a")])
    assert tx.commit(plan.store)
    assert plan.store.log.lines() == before
