"""A commit of which no answer came may have been done: what is persisted next goes on from there, and conflicts with no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trails import HeadConflict, Repository, Session, StoreFailed
from trails.store.contract import Change, Committed

Losing = Callable[..., None]


@pytest.fixture
def lose(store: Repository, monkeypatch: pytest.MonkeyPatch) -> Losing:
    """Has the next commit's answer be lost, as where a server went away: after it was done, or before it."""
    kind = type(store.store)
    commit = kind.commit

    def losing(*, done: bool) -> None:
        def lost(each: object, change: Change) -> Committed:
            monkeypatch.setattr(kind, "commit", commit)
            if done:
                commit(each, change)  # type: ignore[arg-type] # a store
            raise StoreFailed("the server cannot be used; what is pending is kept, try again")

        monkeypatch.setattr(kind, "commit", lost)

    return losing


def _said(store: Repository, session_id: str) -> list[object]:
    return [turn.content for turn in store.load(session_id, fresh=True).turns]


def _left(store: Repository, lose: Losing, *, done: bool) -> Session:
    """Return a session with a turn that is stored, and one whose commit got no answer."""
    session = store.create(id="plan")
    session.append("user", "zero")
    session.persist()
    session.append("user", "mine")
    lose(done=done)
    with pytest.raises(StoreFailed):
        session.persist()
    return session


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_what_is_appended_after_a_lost_answer_is_stored_behind_what_was_pending(
    store: Repository, lose: Losing, done: bool
) -> None:
    session = _left(store, lose, done=done)
    session.set_system("Be brief.")
    session.append("user", "mine too")
    assert session.persist() == 2
    assert session.pending == 0
    assert _said(store, "plan") == ["zero", "mine", "mine too"]
    assert store.load("plan", fresh=True).system == "Be brief."
    assert store.verify().ok


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_a_session_that_was_made_by_a_commit_whose_answer_was_lost_goes_on(
    store: Repository, lose: Losing, done: bool
) -> None:
    session = store.create(id="plan", label="the plan")
    session.append("user", "mine")
    lose(done=done)
    with pytest.raises(StoreFailed):
        session.persist()
    session.append("user", "mine too")
    session.persist()
    assert _said(store, "plan") == ["mine", "mine too"]
    assert store.verify().ok


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_what_another_writer_added_meanwhile_is_a_conflict_all_the_same(
    store: Repository, lose: Losing, done: bool
) -> None:
    session = _left(store, lose, done=done)
    other = store.load("plan", fresh=True)
    other.append("user", "theirs")
    other.persist()
    session.append("user", "mine too")
    with pytest.raises(HeadConflict):
        session.persist()
    assert _said(store, "plan") == (["zero", "mine", "theirs"] if done else ["zero", "theirs"])
    assert session.pending == (1 if done else 2)
    fork = session.keep_as_fork(id="kept")
    assert [turn.content for turn in fork.turns] == ["zero", "mine", "mine too"]
    assert store.verify().ok


def test_turns_that_were_given_up_after_a_lost_answer_are_not_stored_by_what_comes_next(
    store: Repository, lose: Losing
) -> None:
    session = _left(store, lose, done=True)
    assert session.discard_pending() == 1
    session.append("user", "something else")
    with pytest.raises(HeadConflict):
        session.persist()
    assert session.discard_pending() == 1
    assert _said(store, "plan") == ["zero", "mine"]
