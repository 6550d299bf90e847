"""Refs: names that move, and what is appended and taken back through them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

import trails
from tests.support.pasts import mark_of
from trails import Repository
from trails.errors import HasChildren, HeadConflict, InvalidInput
from trails.rdf import vocab
from trails.rdf.ref_records import move_quads, ref_quads
from trails.session import store_restore
from trails.session.checkout import Checkout
from trails.store.contract import Change

pytestmark = pytest.mark.any_store


def _filled(store: Repository, texts: str = "abc") -> Checkout:
    """Return a checkout of a new ref, "main", with a stored turn for each letter."""
    main = store.checkout("main", create=True)
    for text in texts:
        main.append("user", text)
    main.persist()
    return main


def _texts(turns: object) -> str:
    return "".join(turn.content for turn in turns)  # type: ignore[attr-defined]


# --- refs


def test_a_ref_is_made_moved_listed_and_removed(store: Repository) -> None:
    with store.session("plan") as plan:
        plan.append("user", "a"), plan.append("user", "b")
    made = store.refs.set("main", "plan")
    assert (made.session_id, made.at, made.moves) == ("plan", None, 1)
    moved = store.refs.move("main", "plan", 1)
    assert (moved.at, moved.digest, moved.moves) == (1, plan[0].digest, 2)
    assert store.refs["main"] == moved
    assert [ref.revision for ref in store.refs] == ["plan@1"]
    assert [(move.number, move.revision) for move in store.refs.history("main")] == [(1, "plan"), (2, "plan@1")]
    assert store.refs.remove("main") == moved
    assert "main" not in store.refs
    assert store.verify().ok


def test_setting_a_ref_where_it_is_writes_nothing(store: Repository) -> None:
    store.session("plan")
    first, number = store.refs.set("main", "plan"), store.store.number
    assert store.refs.set("main", "plan") == first
    assert store.store.number == number


def test_a_ref_is_moved_only_from_where_it_is_expected(store: Repository) -> None:
    with store.session("plan") as plan:
        plan.append("user", "a")
    first = store.refs.set("main", "plan", expected=None)
    second = store.refs.set("main", "plan", 1, expected=first)
    with pytest.raises(HeadConflict, match="moved by another writer") as raised:
        store.refs.set("main", "plan", 0, expected=first)
    assert (raised.value.expected, raised.value.actual) == ("plan", "plan@1")
    with pytest.raises(HeadConflict):
        store.refs.set("main", "plan", 0, expected=None)
    with pytest.raises(HeadConflict):
        store.refs.remove("main", expected=first)
    assert store.refs["main"] == second


def test_a_ref_that_went_away_and_came_back_is_not_where_it_was(store: Repository) -> None:
    with store.session("plan") as plan:
        plan.append("user", "a")
    first = store.refs.set("main", "plan")
    store.refs.set("main", "plan", 0)
    store.refs.set("main", "plan")
    with pytest.raises(HeadConflict):
        store.refs.set("main", "plan", 1, expected=first)


def test_a_name_is_one_things(store: Repository) -> None:
    store.create(id="plan", label="trip").persist()
    store.refs.set("main", "plan")
    store.tags.add("v1", "plan")
    for name in ("plan", "trip", "v1"):
        with pytest.raises(InvalidInput, match="choose another name"):
            store.refs.set(name, "plan")
    with pytest.raises(InvalidInput, match="is the name of a ref"):
        store.tags.add("main", "plan")
    with pytest.raises(InvalidInput, match="a tag or a ref"):
        store.create(id="main")
    with pytest.raises(InvalidInput, match="a tag or a ref"):
        store.set_label("plan", "main")


def test_a_ref_stands_for_its_session_where_a_name_does(store: Repository) -> None:
    main = _filled(store)
    main.rewind(2)
    assert store.load("main").id == main.session_id
    assert store.resolve("main") == main.session_id
    assert store.diff("main", f"{main.session_id}@2").kinds["right"] == 0
    assert store.refs.set("other", "main").revision == f"{main.session_id}@2"


def test_what_a_ref_names_is_kept(store: Repository) -> None:
    main = _filled(store)
    with pytest.raises(HasChildren, match="refs that name it"):
        store.delete(main.session_id)
    store.delete(main.session_id, children="cascade")
    assert list(store.refs) == []
    assert store.verify().ok


# --- checkouts


def test_what_is_appended_to_a_new_ref_is_stored_with_it_in_one_commit(store: Repository) -> None:
    main, number = store.checkout("main", create=True, principal="alice"), store.store.number
    main.append("user", "a")
    assert "main" not in store.refs
    assert main.persist() == 1
    assert store.store.number == number + 1
    assert (store.refs["main"].revision, store.load("main").principal) == (main.session_id, "alice")


def test_turns_are_taken_back_by_moving_the_ref(store: Repository) -> None:
    main = _filled(store, "abcd")
    number = store.store.number
    assert _texts(main.pop(2)) == "cd"
    assert store.store.number == number + 1
    assert (_texts(main), _texts(store.load(main.session_id))) == ("ab", "abcd")
    assert _texts(main.pop(5)) == "ab"
    assert _texts(main.pop()) == ""
    assert [move.at for move in store.refs.history("main")] == [None, 2, 0]


def test_what_is_appended_behind_a_rewound_ref_goes_to_a_fork_in_one_commit(store: Repository) -> None:
    main = _filled(store, "abc")
    first = main.session_id
    main.pop()
    number = store.store.number
    main.append("user", "x")
    assert main.persist() == 1
    assert store.store.number == number + 1
    assert (_texts(main), _texts(store.load("main")), _texts(store.load(first))) == ("abx", "abx", "abc")
    assert (store.record("main").parent_session_id, store.record("main").forked_at_index) == (first, 2)
    assert store.verify().ok


def test_taking_back_and_appending_again_makes_no_chain(store: Repository) -> None:
    main = _filled(store, "abc")
    first = main.session_id
    for text in "uvwxyz":
        main.pop()
        main.append("user", text)
        main.persist()
        assert store.record("main").parent_session_id == first
    assert _texts(main) == "abz"


def test_pending_turns_are_taken_back_first(store: Repository) -> None:
    main, number = _filled(store, "ab"), store.store.number
    main.append("user", "c")
    main.append("user", "d")
    assert _texts(main.pop()) == "d"
    assert (store.store.number, _texts(main), main.pending) == (number, "abc", 1)
    assert _texts(main.pop(2)) == "bc"
    assert (_texts(main), main.pending, store.refs["main"].at) == ("a", 0, 1)


def test_a_cleared_ref_begins_anew(store: Repository) -> None:
    main = _filled(store, "abc")
    main.clear()
    assert (len(main), _texts(main)) == (0, "")
    main.append("user", "x")
    main.persist()
    assert _texts(store.load("main")) == "x"


def test_a_fork_behind_a_rewound_ref_is_like_the_session_that_it_goes_on_from(store: Repository) -> None:
    fields: dict[str, Any] = {
        "principal": "alice",
        "agent": "planner",
        "meta": {"topic": "salt"},
        "expires": timedelta(days=1),
    }
    main = store.checkout("main", create=True, system="Be brief.", **fields)
    main.append("user", "a")
    main.append("user", "b")
    main.persist()
    before = store.record("main")
    main.pop()
    main.append("user", "c")
    main.persist()
    after = store.record("main")
    assert after.id != before.id
    for name in ("principal", "agent", "meta", "expires"):
        assert getattr(after, name) == getattr(before, name) is not None
    assert store.load("main").system == "Be brief."


def test_two_checkouts_of_one_ref_conflict_and_lose_nothing(store: Repository) -> None:
    one = _filled(store, "ab")
    other = store.checkout("main")
    one.append("user", "c")
    one.persist()
    other.append("user", "d")
    with pytest.raises(HeadConflict):
        other.persist()
    with pytest.raises(HeadConflict):
        other.pop(2)
    assert (_texts(other), other.pending) == ("abd", 1)
    assert other.refresh() == 1
    assert _texts(other) == "abcd"
    other.persist()
    one.append("user", "e")
    other.pop(3)
    with pytest.raises(HeadConflict, match="moved by another writer"):
        one.persist()
    assert one.refresh() == 0
    one.persist()
    assert _texts(store.checkout("main")) == "ae"


def test_an_update_is_one_commit_and_tries_again(store: Repository) -> None:
    main = _filled(store, "ab")
    number = store.store.number
    calls = []

    def change(checkout: Checkout) -> None:
        calls.append(1)
        if len(calls) == 1:
            with store.checkout("main") as other:
                other.append("user", "c")
        checkout.pop()
        checkout.append("user", "x")

    main.update(change)
    assert (len(calls), _texts(main), _texts(store.checkout("main"))) == (2, "abx", "abx")
    assert store.store.number == number + 2


def test_a_failed_update_leaves_nothing(store: Repository) -> None:
    main = _filled(store, "ab")

    def change(checkout: Checkout) -> None:
        checkout.pop()
        checkout.append("user", "x")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        main.update(change)
    assert (_texts(main), main.pending, store.refs["main"].at) == ("ab", 0, None)


def test_a_ref_that_is_not_there_is_named(store: Repository) -> None:
    _filled(store)
    with pytest.raises(InvalidInput, match="did you mean 'main'"):
        store.checkout("mian")
    with pytest.raises(InvalidInput, match="did you mean 'main'"):
        store.refs["mian"]


def test_what_an_altered_store_says_of_a_ref_is_found(memory: Repository) -> None:
    main = _filled(memory, "abc")
    main.pop()
    move = memory.select("SELECT ?move ?to { ?move trails:movedTo ?to ; trails:number 1 }")[0]
    old = Quad(move["move"], vocab.MOVED_TO, move["to"], vocab.CATALOG)
    new = Quad(move["move"], vocab.MOVED_TO, NamedNode("urn:trails:session:other"), vocab.CATALOG)
    memory.store.commit(Change(add=[new], remove=[old]))
    assert [(found.code, found.session_id) for found in memory.verify().findings] == [("bad-ref", main.session_id)]


def test_the_moves_of_a_ref_are_kept_by_a_store_that_is_opened_again(tmp_path: object) -> None:
    with trails.open(f"{tmp_path}/s.trails", create=True) as store:
        _filled(store).pop()
    with trails.open(f"{tmp_path}/s.trails") as store:
        assert _texts(store.checkout("main")) == "ab"
        assert store.verify().ok


def test_a_ref_that_was_set_back_in_the_quads_is_found(memory: Repository) -> None:
    main = _filled(memory, "abc")
    before = ref_quads(memory.refs["main"])
    main.pop()
    after = ref_quads(memory.refs["main"])
    moves = memory.store.quads((NamedNode("urn:trails:tag:main/move/2"), None, None, vocab.CATALOG))
    memory.store.commit(Change(add=before, remove=[*(quad for quad in after if quad not in before), *moves]))
    assert [(found.code, "when it was logged last" in found.message) for found in memory.verify().findings] == [
        ("bad-ref", True)
    ]


def test_a_ref_that_is_taken_out_of_the_quads_is_missed(memory: Repository) -> None:
    _filled(memory, "abc")
    gone = [*ref_quads(memory.refs["main"]), *move_quads(memory.refs.history("main")[0])]
    memory.store.commit(Change(remove=gone))
    assert [found.code for found in memory.verify().findings] == ["rolled-back"]


def test_a_store_as_it_was_has_the_refs_where_they_were(memory: Repository) -> None:
    main = _filled(memory, "ab")
    first = main.session_id
    main.pop()
    then = memory.compare(first).as_of or ""
    main.append("user", "c")
    main.persist()
    memory.refs.set("late", "main")
    with memory.at(then) as past:
        assert [ref.revision for ref in past.refs] == [f"{first}@1"]
        assert [move.revision for move in past.refs.history("main")] == [first, f"{first}@1"]
        assert (_texts(past.checkout("main")), past.resolve("main")) == ("a", first)
        report = past.verify()
        assert (report.ok, report.findings) == (True, ())


def test_refs_are_in_a_dump_and_in_a_backup(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s.trails", create=True) as store:
        main = _filled(store, "ab")
        main.pop()
        store.maintenance.dump(tmp_path / "all.nq")
        store.maintenance.backup(tmp_path / "backup")
        moves = store.refs.history("main")
    assert store_restore.load_dump(tmp_path / "all.nq", tmp_path / "loaded.trails").ok
    assert store_restore.restore_store(tmp_path / "backup", tmp_path / "restored.trails").ok
    for name in ("loaded.trails", "restored.trails"):
        with trails.open(tmp_path / name) as store:
            again = store.checkout("main")
            assert (_texts(again), store.refs.history("main")) == ("a", moves)
            again.append("user", "c")
            again.persist()
            report = store.verify()
            assert (report.ok, report.findings) == (True, ())


@pytest.mark.parametrize("text", ["alice", "thread-7"])
def test_a_name_that_is_taken_out_of_a_ref_is_gone_and_the_ref_holds(memory: Repository, text: str) -> None:
    with memory.checkout("thread-7", create=True) as thread:
        thread.append("user", "a")
    memory.refs.set("thread-7", "thread-7@0", by="alice")
    memory.refs.set("thread-7", thread.session_id, by="bob")
    memory.refs.set("other", "thread-7", by="bob")
    salts = {ref.id: ref.salt for ref in memory.refs}
    places = memory.redact_matching(text).places
    assert sorted(salts[ref.id] == ref.salt for ref in memory.refs) == [False, True]
    assert {place.kind for place in places} - {"name"} == {"ref"}
    name = "thread" if text == "alice" else "redacted"
    found = [(ref.name.partition("-")[0], ref.author, ref.moves) for ref in memory.refs]
    assert found == [("other", "bob", 1), (name, "bob", 3)]
    assert text not in str(memory.store.quads((None, None, None, None)))
    report = memory.verify()
    assert (report.ok, report.findings) == (True, ())
    memory.refs.set(memory.refs.list()[1].name, thread.session_id, 1)
    assert memory.verify().ok


# --- reading again


def test_a_refresh_sees_every_change_and_reads_nothing_where_there_is_none(store: Repository) -> None:
    main, other = _filled(store), store.checkout("main")
    assert (main.refresh(), main.refresh()) == (0, 0)
    number = store.store.number
    main.append("user", "d"), main.persist()
    assert store.store.number == number + 1
    assert (other.refresh(), _texts(other), main.refresh()) == (1, "abcd", 0)
    other.pop()
    assert (main.refresh(), _texts(main)) == (0, "abc")
    main.append("user", "e"), main.persist()
    assert (other.refresh(), _texts(other)) == (1, "abce")
    with store.session("elsewhere") as elsewhere:
        elsewhere.append("user", "x")
    other.append("user", "f"), other.persist()
    assert (main.refresh(), _texts(main)) == (1, "abcef")
    store.redact(main.session_id, 0)
    main.refresh()
    assert (main.turns[0].redacted, main.turns[0].content) == (True, "")
    store.redact(main.session_id, 1)
    main.append("user", "g"), main.persist()
    main.refresh()
    assert (main.turns[1].redacted, main.turns[-1].content) == (True, "g")


def test_a_store_as_it_was_before_a_ref_was_removed_is_whole(memory: Repository) -> None:
    with memory.create(id="plan") as plan:
        plan.append("user", "a")
    memory.refs.set("main", "plan")
    then = mark_of(memory)
    memory.refs.remove("main")
    with memory.at(then) as past:
        assert past.verify().findings == ()
    assert memory.verify().findings == ()


@pytest.mark.parametrize("name", ["none", "plan@1", "a@b@22"])
def test_a_ref_is_not_called_what_means_something_else(memory: Repository, name: str) -> None:
    memory.create(id="plan").persist()
    with pytest.raises(InvalidInput, match="called neither"):
        memory.refs.set(name, "plan")
    assert memory.refs.set("ann@example.org", "plan").name == "ann@example.org"
