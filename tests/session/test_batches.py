"""Several sessions, forks, labels and refs in one commit."""

from __future__ import annotations

import anyio
import pytest

import trails
from trails import Repository
from trails.errors import HeadConflict, InvalidInput

pytestmark = pytest.mark.any_store


def _texts(turns: object) -> str:
    return "".join(turn.content for turn in turns)  # type: ignore[attr-defined]


def test_all_that_sessions_have_pending_is_one_commit(store: Repository) -> None:
    with store.session("old") as old:
        old.append("user", "a")
    number, lines = store.store.number, len(store.store.log.lines())
    with store.commit() as batch:
        batch.add(old)
        new = batch.add(store.create(id="new", label="trip", system="Be brief."))
        old.append("user", "b")
        new.append("user", "x")
        new.append("user", "y")
        batch.set_label("old", "first")
        batch.set_ref("main", new, 1)
        batch.set_ref("other", "old")
        assert (store.store.number, "new" in store) == (number, False)
    assert (store.store.number, batch.written) == (number + 1, 3)
    assert (_texts(store.load("old")), _texts(store.load("trip")), store.load("new").system) == (
        "ab",
        "xy",
        "Be brief.",
    )
    assert (store.resolve("first"), store.refs["main"].revision, store.refs["other"].revision) == (
        "old",
        "new@1",
        "old",
    )
    kinds = sorted(line.split(" ")[0] for line in store.store.log.lines()[lines:])
    assert kinds == ["change", "change", "create", "ref", "ref", "turns", "turns"]
    assert store.verify().ok
    old.append("user", "c")
    assert (old.persist(), new.persist()) == (1, 0)


def test_a_fork_of_a_session_that_is_not_stored_yet_goes_with_it(store: Repository) -> None:
    with store.commit() as batch:
        plan = batch.add(store.create(id="plan", system="Be brief."))
        plan.append("user", "a")
        trial = batch.add(plan.fork(id="trial"))
        trial.append("user", "b")
        again = batch.add(trial.fork(at=1, id="again"))
        again.append("user", "c")
        plan.append("user", "d")
    assert [_texts(store.load(name)) for name in ("plan", "trial", "again")] == ["ad", "ab", "ac"]
    assert [store.load(name).system for name in ("plan", "trial", "again")] == ["Be brief."] * 3
    assert (store.load("again").parent_session_id, store.verify().ok) == ("trial", True)


def test_an_error_in_the_block_writes_nothing(store: Repository) -> None:
    plan, number = store.create(id="plan"), store.store.number
    with pytest.raises(RuntimeError), store.commit() as batch:  # noqa: PT012
        batch.add(plan).append("user", "a")
        batch.set_ref("main", plan)
        raise RuntimeError
    assert (store.store.number, plan.pending, batch.written) == (number, 1, 0)
    assert plan.persist() == 1


def test_a_head_that_moved_keeps_all_of_it_pending(store: Repository) -> None:
    one, two = store.session("one"), store.session("two")
    with store.session("two") as other:
        other.append("user", "x")
    one.append("user", "a")
    two.append("user", "b")
    with pytest.raises(HeadConflict, match="session 'two' moved on"), store.commit() as batch:  # noqa: PT012
        batch.add(one)
        batch.add(two)
    assert (one.pending, two.pending, _texts(store.load("one"))) == (1, 1, "")
    assert one.persist() == 1
    two.discard_pending()


def test_checkouts_store_turns_moves_and_new_refs_together(store: Repository) -> None:
    with store.checkout("main", create=True) as main:
        main.append("user", "a"), main.append("user", "b")
    left = store.checkout("left", create=True)
    right = store.checkout("right", create=True)
    right.append("user", "r")
    right.persist()
    number = store.store.number
    with store.commit() as batch:
        for each in (main, left, right):
            batch.add(each)
        main.pop()
        main.append("user", "c")
        left.append("user", "l")
        right.clear()
        with pytest.raises(InvalidInput, match="stored by a batch"):
            main.persist()
    assert store.store.number == number + 1
    assert [_texts(store.checkout(name)) for name in ("main", "left", "right")] == ["ac", "l", ""]
    assert [_texts(each) for each in (main, left, right)] == ["ac", "l", ""]
    main.append("user", "d")
    assert main.persist() == 1
    assert store.verify().ok


def test_a_ref_that_moved_meanwhile_keeps_all_of_it_pending(store: Repository) -> None:
    with store.checkout("main", create=True) as main:
        main.append("user", "a")
    plan = store.create(id="plan")
    plan.append("user", "x")
    store.checkout("main").clear()
    main.append("user", "b")
    with pytest.raises(HeadConflict, match="the ref 'main' was moved"), store.commit() as batch:  # noqa: PT012
        batch.add(plan)
        batch.add(main)
    assert ("plan" in store, plan.pending, main.pending) == (False, 1, 1)
    plan.discard_pending()
    main.discard_pending()


def test_one_name_for_two_things_is_refused(store: Repository) -> None:
    one, two, three = store.create(id="a", label="trip"), store.create(id="b", label="trip"), store.create(id="c")
    with pytest.raises(InvalidInput, match="label 'trip'"), store.commit() as batch:  # noqa: PT012
        batch.add(one)
        batch.add(two)
    with pytest.raises(InvalidInput, match="'a' is the name of a tag or a ref"), store.commit() as batch:  # noqa: PT012
        batch.add(one)
        batch.set_ref("a", batch.add(three))
    assert len(store) == 0
    for each in (one, two, three):
        each.discard_pending()


def test_a_commit_that_no_block_enters_warns_where_it_was_asked_for_and_a_used_one_does_not(memory: Repository) -> None:
    with pytest.warns(trails.PendingTurnsWarning, match=r"store.commit\(\) alone writes nothing") as caught:
        memory.commit()
    assert caught[0].filename == __file__
    with memory.commit() as batch:
        batch.add(memory.create(id="plan"))
    del batch
    refused = memory.commit()
    with pytest.raises(InvalidInput, match="within its block"):
        refused.add(memory.create(id="other"))
    del refused


def test_what_a_batch_does_not_take_in_is_said(store: Repository, memory: Repository) -> None:
    plan, main = store.create(id="plan"), store.checkout("main", create=True)
    plan.append("user", "a")
    with store.commit() as batch:
        batch.add(plan)
        with pytest.raises(InvalidInput, match="in the block of another batch"), store.commit():
            pass
        with memory.commit() as other, pytest.raises(InvalidInput, match="of another store"):
            other.add(store.create())
        with pytest.raises(InvalidInput, match="stored by a batch"):
            batch.add(plan)
        with pytest.raises(InvalidInput, match="stored by a batch"):
            plan.persist()
        with pytest.raises(InvalidInput, match="stored by the checkout of 'main'"):
            batch.add(main.session)
        with pytest.raises(InvalidInput, match="takes a Session or a Checkout"):
            batch.add("plan")  # type: ignore[type-var]
    with pytest.raises(InvalidInput, match="within its block"):
        batch.add(store.create())
    with pytest.raises(InvalidInput, match="one block"), batch:
        pass
    again = store.load("plan")
    with store.commit() as batch:
        batch.add(plan)
        with pytest.raises(InvalidInput, match="already, by another handle"):
            batch.add(again)


def test_a_batch_of_nothing_writes_nothing(store: Repository) -> None:
    plan, number = store.session("plan"), store.store.number
    with store.commit() as batch:
        batch.add(plan)
    assert (store.store.number, batch.written) == (number, 0)


def test_a_batch_in_an_event_loop_is_one_commit() -> None:
    async def main() -> None:
        async with trails.aio.open(":memory:") as store:
            async with store.commit() as batch:
                plan = batch.add(await store.create(id="plan"))
                plan.append("user", "a")
                await batch.set_ref("main", plan)
            assert batch.written == 1
            assert await store.resolve("main") == "plan"

    anyio.run(main)


def test_a_new_session_gets_its_label_in_the_batch_that_stores_it(store: Repository) -> None:
    with store.commit() as batch:
        made = batch.add(store.create(id="a"))
        batch.set_label(made, "trip")
    assert store.load("trip").id == "a"
    with pytest.raises(InvalidInput, match="label 'trip'"), store.commit() as batch:  # noqa: PT012
        other = batch.add(store.create(id="b"))
        batch.set_label(other, "trip")
    other.discard_pending()
    assert "b" not in store
