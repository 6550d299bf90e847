"""A commit is written in one way: each precondition that does not hold raises the error that it means, and nothing is written."""

from __future__ import annotations

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from trails import InvalidInput, Repository, SessionNotFound, TrailsError
from trails.history import log_leaves
from trails.history.transaction import Transaction
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


def test_what_no_precondition_words_is_worded_by_the_caller(plan: Repository) -> None:
    tx = Transaction()
    tx.session("none")
    with pytest.raises(InvalidInput, match="refused: required but missing"):
        tx.commit(plan.store, otherwise=other)


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
