"""Sessions and stores as Python's own containers: iterated, indexed, sliced, asked what is in them; and asked by the form."""

from __future__ import annotations

import pytest

import trails
from tests.support.sessions import say
from trails import InvalidInput, Repository, Session, SessionNotFound, TurnNotFound
from trails.history.transcript import Transcript

pytestmark = pytest.mark.any_store


@pytest.fixture
def fork(store: Repository) -> Session:
    """Three inherited turns, one of its own, and one that is pending."""
    plan = say(store.create(id="plan"), "a", "b", "c", "x")
    made = say(plan.fork(at=3, id="fork"), "d")
    made.append("user", "e")
    return made


def test_a_session_is_iterated_indexed_and_sliced_as_a_tuple_of_its_turns_is(fork: Session) -> None:
    assert [turn.content for turn in fork] == ["a", "b", "c", "d", "e"]
    assert [turn.content for turn in reversed(fork)] == ["e", "d", "c", "b", "a"]
    assert (fork[0].content, fork[-1].content, fork[-5].content) == ("a", "e", "a")
    assert isinstance(fork[:3], tuple)
    assert [turn.content for turn in fork[:3]] == ["a", "b", "c"]
    assert [turn.content for turn in fork[1::2]] == ["b", "d"]
    assert [turn.content for turn in fork[::-1]] == ["e", "d", "c", "b", "a"]
    assert fork[7:] == ()
    fork.discard_pending()


@pytest.mark.parametrize(("count", "texts"), [(0, []), (1, ["e"]), (2, ["d", "e"]), (50, ["a", "b", "c", "d", "e"])])
def test_the_tail_is_the_last_turns_and_all_where_there_are_fewer(fork: Session, count: int, texts: list[str]) -> None:
    assert [turn.content for turn in fork.tail(count)] == texts
    fork.discard_pending()


def test_the_tail_of_a_session_with_a_window_reads_no_more_than_it_shows(memory: Repository) -> None:
    say(memory.create(id="plan"), *(f"turn {number}" for number in range(400)))
    held = memory.load("plan", max_tokens=10)
    turns = held.worktree.turns
    assert isinstance(turns, Transcript)
    assert [turn.index for turn in held.tail(3)] == [397, 398, 399]
    assert held[-1].index == 399
    assert turns.stored.made < 100


@pytest.mark.parametrize("index", [5, -6, 10**9])
def test_an_index_past_an_end_is_an_index_error_that_says_what_there_is(fork: Session, index: int) -> None:
    with pytest.raises(IndexError, match=f"session 'fork' has no turn {index}: its 5 turns are 0 to 4") as raised:
        fork[index]
    assert isinstance(raised.value, TurnNotFound)
    fork.discard_pending()


@pytest.mark.parametrize("index", ["0", None, 1.0, True, slice("a", None), slice(None, None, 0), (1, 2)])
def test_what_is_no_index_is_refused(fork: Session, index: object) -> None:
    with pytest.raises(InvalidInput, match="turns"):
        fork[index]  # type: ignore[call-overload] # that is the test
    fork.discard_pending()


def test_a_turn_is_in_every_session_that_shares_or_copied_it(store: Repository, fork: Session) -> None:
    plan = store.load("plan")
    assert fork[0] in plan
    assert fork[3] not in plan
    assert plan[3] not in fork
    assert "a" not in plan
    fork.detach()
    assert plan[2] in fork


def test_a_store_has_sessions_by_their_ids_counts_them_and_yields_their_records(store: Repository) -> None:
    assert (len(store), list(store), bool(store)) == (0, [], True)
    say(store.create(id="plan", label="trip"), "a")
    say(store.create(id="other"), "b")
    assert len(store) == 2
    assert [record.id for record in store] == ["other", "plan"]
    assert [turn.content for turn in store["plan"]] == ["a"]
    assert "plan" in store
    assert "trip" not in store
    assert store["urn:trails:session:other"].id == "other"
    for name, message in (("trip", "no session has the id 'trip'; it names 'plan'"), ("nobody", "there is no session")):
        with pytest.raises(KeyError, match=message) as raised:
            store[name]
        assert isinstance(raised.value, SessionNotFound)
        assert not str(raised.value).startswith("'")


def test_more_sessions_than_a_page_are_all_yielded(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trails.history.lookup.summaries.MAX_PAGE", 2)
    for name in "abcde":
        memory.create(id=name).persist()
    assert [record.id for record in memory] == ["e", "d", "c", "b", "a"]


def test_each_form_of_query_has_its_method_and_any_other_names_the_right_one(memory: Repository) -> None:
    memory.create(id="plan").persist()
    select, ask = "SELECT ?s { ?s a trails:Session }", "ASK { ?s a trails:Session }"
    construct = "CONSTRUCT { ?s a trails:Session } WHERE { ?s a trails:Session }"
    assert memory.select(select).to_dicts() == [{"s": "urn:trails:session:plan"}]
    assert memory.select("transcript", session="plan").to_dicts() == []
    assert memory.ask(ask) is True
    assert len(memory.construct(construct)) == 1
    assert len(memory.construct("DESCRIBE <urn:trails:session:plan>")) > 3
    for method, text, right in (
        (memory.select, ask, "ask"),
        (memory.select, construct, "construct"),
        (memory.ask, select, "select"),
        (memory.ask, construct, "construct"),
        (memory.construct, select, "select"),
        (memory.construct, ask, "ask"),
    ):
        with pytest.raises(InvalidInput, match=rf"use store\.{right}\(\)"):
            method(text)


def test_a_session_deletes_itself_as_the_store_would(store: Repository, fork: Session) -> None:
    plan = store.load("plan")
    with pytest.raises(trails.HasChildren):
        plan.delete()
    assert fork.delete(by="alice", reason="done") == ["fork"]
    assert fork.pending == 0
    assert "fork" not in store
    assert plan.delete() == ["plan"]
    with pytest.raises(InvalidInput, match="was never persisted, so there is nothing to delete"):
        store.create(id="new").delete()


def test_a_session_that_may_not_be_deleted_keeps_what_is_pending(memory: Repository) -> None:
    plan = say(memory.create(id="plan"), "a")
    plan.fork(id="fork").persist()
    plan.append("user", "b")
    with pytest.raises(trails.HasChildren):
        plan.delete()
    assert plan.pending == 1
    assert plan.delete(children="detach") == ["plan"]
    assert [turn.content for turn in memory["fork"]] == ["a"]
