"""Diffs of stored sessions and open handles: the common ancestor is found, and nothing of the shared prefix is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.machines import examples
from tests.support.sessions import say
from trails import (
    MAX_FORK_DEPTH,
    Compaction,
    IndexGap,
    IntegrityError,
    InvalidInput,
    Repository,
    Session,
    SessionNotFound,
)
from trails.compare import Diff, diff, patch
from trails.history.lookup import names
from trails.model import iris
from trails.model.lineage import Segment
from trails.rdf import vocab
from trails.session.diff import _last_true
from trails.store import Change

pytestmark = pytest.mark.any_store


def kinds(found: Diff) -> list[str]:
    return [entry.kind for entry in found.entries]


def sides(found: Diff) -> tuple[list[Any], list[Any]]:
    """What the two tails say."""
    return (
        [entry.left.content for entry in found.entries if entry.left],
        [entry.right.content for entry in found.entries if entry.right],
    )


@contextmanager
def watched(store: Repository) -> Iterator[set[str]]:
    """Everything that comes out of the store meanwhile, each term as text."""
    seen: set[str] = set()
    engine: Any = store.store
    query, quads = engine.query, engine.quads

    def watched_query(text: str, **options: Any) -> Any:
        rows = query(text, **options)
        seen.update(str(term) for row in rows for term in row)
        if "index" in getattr(rows, "variables", ()):
            seen.update(f"turn {row['index'].value}" for row in rows)
        return rows

    def watched_quads(pattern: Any) -> Any:
        found = quads(pattern)
        seen.update(str(term) for quad in found for term in (quad.subject, quad.object))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "query", watched_query)
        patched.setattr(engine, "quads", watched_quads)
        yield seen


def turns_read(seen: set[str]) -> set[int]:
    """The indices of all turns of which anything was read."""
    named = {term[1:-1] for term in seen if term.startswith("<urn:trails:session:") and "/" in term}
    numbered = {int(term.removeprefix("turn ")) for term in seen if re.fullmatch(r"turn \d+", term)}
    return numbered | {iris.turn_index(iri) for iri in named if "/system/" not in iri}


# --- the common ancestor


def test_two_forks_share_what_lineage_says_and_only_their_tails_are_read(store: Repository) -> None:
    plan = say(store.create(id="plan"), *(f"shared {n}" for n in range(300)))
    say(plan.fork(at=280, id="a"), "only a", "both")
    say(plan.fork(at=290, id="b"), "only b", "both")
    with watched(store) as seen:
        found = store.diff("a", "b")
    assert found.ancestor is not None
    assert (found.common, found.ancestor.session_id, found.ancestor.found_by) == (280, "plan", "lineage")
    assert found.ancestor.digest == plan.turns[279].digest
    assert sides(found) == (["only a", "both"], [*(f"shared {n}" for n in range(280, 290)), "only b", "both"])
    assert not {f'"shared {n}"' for n in range(280)} & seen


def test_a_session_and_its_fork_are_read_from_the_fork_point_on(store: Repository) -> None:
    plan = say(store.create(id="plan"), *(f"shared {n}" for n in range(600)))
    say(plan.fork(at=590, id="fork"), "new")
    found = store.diff("plan", "fork")
    assert found.common == 590
    assert sides(found) == ([f"shared {n}" for n in range(590, 600)], ["new"])


def test_a_session_does_not_differ_from_itself_and_none_of_its_texts_is_read(store: Repository) -> None:
    say(store.create(id="plan", label="trip"), *(f"shared {n}" for n in range(300)))
    with watched(store) as seen:
        found = store.diff("plan", "trip")
    assert (found.entries, found.common, found.is_empty, bool(found)) == ((), 300, True, False)
    assert found.left.head == store.load("plan").head
    assert not any("shared" in term for term in seen)


def test_a_fork_of_a_fork_inside_the_inherited_prefix_shares_by_the_lowest_fork_index(store: Repository) -> None:
    plan = say(store.create(id="plan"), "0", "1", "2", "3", "4")
    dinner = say(plan.fork(at=3, id="dinner"), "d3", "d4")
    say(dinner.fork(at=2, id="solo"), "s2")
    say(dinner.fork(at=4, id="late"), "l4")
    assert store.diff("solo", "dinner").common == 2
    assert store.diff("solo", "plan").common == 2
    assert store.diff("late", "plan").common == 3
    assert sides(store.diff("late", "plan")) == (["d3", "l4"], ["3", "4"])
    assert store.diff("late", "dinner").common == 4
    assert sides(store.diff("solo", "late")) == (["s2"], ["2", "d3", "l4"])


def test_one_side_may_be_the_beginning_of_the_other(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a", "b")
    plan.fork(id="same").persist()
    say(plan, "c")
    assert store.diff("plan", "same").kinds == {"equal": 0, "changed": 0, "left": 1, "right": 0}
    assert store.diff("same", "plan").kinds == {"equal": 0, "changed": 0, "left": 0, "right": 1}
    assert store.diff("plan@2", "same").is_empty


def test_a_fork_at_the_start_and_empty_sessions_share_nothing(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a")
    say(plan.fork(at=0, id="start"), "b")
    store.create(id="none").persist()
    found = store.diff("plan", "start")
    assert (found.ancestor, kinds(found)) == (None, ["changed"])
    assert store.diff("none", "none").to_dict()["ancestor"] is None
    assert store.diff("none", "plan").kinds["right"] == 1


def test_forks_at_the_greatest_depth_share_their_whole_lineage(store: Repository) -> None:
    session = say(store.create(id="s0"), "0")
    for number in range(1, MAX_FORK_DEPTH):
        session = say(session.fork(id=f"s{number}"), str(number))
    say(session.fork(id="left"), "left")
    say(session.fork(id="right"), "right", "more")
    found = store.diff("left", "right")
    assert (found.common, kinds(found)) == (MAX_FORK_DEPTH, ["changed", "right"])
    assert store.diff("left", "s3").common == 4


def test_sessions_with_nothing_in_common_are_aligned_from_the_start(store: Repository) -> None:
    say(store.create(id="one"), "Plan a trip", "Thanks")
    say(store.create(id="two"), "Plan a trip", "No", "Thanks")
    found = store.diff("one", "two")
    assert (found.ancestor, kinds(found)) == (None, ["equal", "right", "equal"])


# --- copies


def test_a_detached_copy_shares_its_prefix_by_digests_found_by_halving(store: Repository) -> None:
    plan = say(store.create(id="plan"), *(f"shared {n}" for n in range(100)))
    fork = say(plan.fork(at=77, id="fork"), "own")
    fork.detach()
    with watched(store) as seen:
        found = store.diff("plan", "fork")
    assert found.ancestor is not None
    assert (found.common, found.ancestor.found_by) == (77, "digests")
    assert sides(found) == ([f"shared {n}" for n in range(77, 100)], ["own"])
    assert len(turns_read(seen) & set(range(77))) <= 14


def test_a_flattened_copy_is_the_same_until_it_goes_on(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a", "b", "c")
    copy = plan.flatten(id="copy")
    assert store.diff("plan", "copy").entries == ()
    say(copy, "d")
    assert store.diff("plan", "copy").kinds["right"] == 1
    say(copy.fork(at=2, id="of-copy"), "e")
    found = store.diff("plan", "of-copy")
    assert (found.common, sides(found)) == (2, (["c"], ["e"]))


def test_forks_of_a_session_and_of_its_copy_share_more_than_their_lineage_says(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a", "b", "c")
    fork = say(plan.fork(at=1, id="fork"), "x", "y")
    copy = fork.flatten(id="copy")
    say(copy.fork(at=3, id="late"), "z")
    found = store.diff("late", "fork")
    assert (found.common, sides(found)) == (3, (["z"], []))


def test_sessions_of_two_stores_are_compared_by_their_digests_never_by_their_ids(store: Repository) -> None:
    mine = say(store.create(id="plan"), "a", "b")
    with trails.open(":memory:") as other:
        theirs = say(other.create(id="plan"), "a", "c")
        found = mine.diff(theirs)
    assert (found.ancestor, kinds(found)) == (None, ["equal", "changed"])


@pytest.mark.parametrize("length", range(6))
def test_the_last_index_where_something_holds_is_found_wherever_it_is(length: int) -> None:
    asked: list[int] = []

    def holds(index: int) -> bool:
        asked.append(index)
        return index < int(2**length)

    assert _last_true(holds, 0) == 2**length - 1
    assert len(asked) <= 2 * length + 4
    assert _last_true(lambda index: False, 3) is None


# --- handles


def test_pending_turns_of_a_handle_are_part_of_it(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a", "b")
    fork = plan.fork(at=1, id="fork")
    fork.append("user", "pending")
    found = fork.diff(plan)
    assert (found.common, sides(found)) == (1, (["pending"], ["b"]))
    assert sides(plan.diff(fork)) == (["b"], ["pending"])
    plan.append("user", "more")
    assert sides(plan.diff("plan")) == (["more"], [])
    assert fork.diff(fork).entries == ()
    assert "fork" not in store
    plan.persist(), fork.persist()


def test_two_handles_on_one_session_with_different_pending_turns_differ(store: Repository) -> None:
    say(store.create(id="plan"), "a")
    one, two = store.load("plan"), store.load("plan")
    one.append("user", "same")
    one.append("user", "this")
    two.append("user", "same")
    two.append("user", "that")
    found = one.diff(two)
    assert (found.common, kinds(found)) == (1, ["equal", "changed"])
    one.persist(), two.keep_as_fork()


def test_a_handle_that_was_overtaken_lacks_what_the_other_has(store: Repository) -> None:
    say(store.create(id="plan"), "a")
    old = store.load("plan")
    say(store.load("plan"), "b")
    assert sides(old.diff("plan")) == ([], ["b"])


# --- what turns say


def test_branches_that_said_the_same_are_equal_though_their_digests_differ(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a")
    for name, model in (("one", "m-1"), ("two", "m-2")):
        fork = plan.fork(id=name)
        fork.append("assistant", "Yes", model=model, tool_calls=[{"id": name, "name": "ls", "arguments": {}}])
        fork.append("tool", "files", tool_call_id=name)
        fork.persist()
    found = store.diff("one", "two")
    assert (kinds(found), found.is_empty) == (["equal", "equal"], True)
    assert found.left.head != found.right.head


def test_redacted_turns_are_not_compared_and_show_no_text(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a")
    say(plan.fork(id="one"), "secret one")
    say(plan.fork(id="two"), "secret two")
    store.redact("one", 1)
    found = store.diff("one", "two")
    assert kinds(found) == ["changed"]
    assert found.entries[0].detail.to_dict() == {"withheld": True}
    store.redact("two", 1)
    assert "secret" not in str(store.diff("one", "two").to_dict())
    store.redact("plan", 0)
    assert store.diff("one", "two").common == 1


def test_a_copy_of_a_redacted_turn_is_the_same_turn(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a", "b")
    plan.flatten(id="copy")
    store.redact("plan", 1)
    assert store.diff("plan", "copy").entries == ()


# --- reading tails


def every_fact(session: Session) -> None:
    session.append("user", "hi", meta={"k": 1}, time=datetime(2026, 3, 1, tzinfo=UTC))
    session.append("assistant", [{"type": "tool_use", "id": "t", "name": "ls", "input": {"p": 1}}], model="m-1")
    session.append("assistant", "", usage={"input_tokens": 3, "cost": 0.5}, stop_reason="end")
    session.append("tool", "x", tool_call_id="t", is_error=True)
    session.append("tool", [{"type": "tool_result", "tool_use_id": "t", "content": "y"}], author="bob")
    session.append("assistant", "two", tool_calls=[{"id": n, "name": n, "arguments": {n: n}} for n in ("p", "q")])
    session.append("summary", "all", compaction=Compaction(summarised_through=3, first_kept=4, trigger="manual"))


def test_a_tail_has_the_very_turns_that_loading_gives(store: Repository) -> None:
    plan = say(store.create(id="plan"), *("x" * 100))
    every_fact(plan)
    plan.persist()
    chain = store.reader.lineage("plan")
    runs = trails.model.lineage.segments(chain)
    for start in (0, 1, 40, 99, 100, 103, 107):
        assert store.reader.tail(runs, start, "plan") == list(store.load("plan").turns[start:])
    assert store.reader.turns_at("plan", [101, 5, 900]) == [plan.turns[5], plan.turns[101]]
    assert store.reader.length_of(runs) == 107


def test_a_run_that_is_small_beside_its_session_has_the_very_turns_that_loading_gives(store: Repository) -> None:
    plan = say(store.create(id="plan"), *("x" * 100))
    every_fact(plan)
    plan.persist()
    plan.extend([{"role": "assistant", "content": f"{n}"} for n in range(80)])
    plan.persist()
    loaded = list(store.load("plan").turns)
    for start, end in ((100, 107), (104, 110), (3, 40), (150, None), (100, None)):
        run = Segment(plan.record, start, end)
        assert store.reader.own_turns(run) == loaded[start:end]


def test_a_tail_far_behind_a_long_beginning_is_whole(store: Repository) -> None:
    plan = say(store.create(id="plan"), *(str(n) for n in range(900)))
    plan.append("assistant", "", tool_calls=[{"id": "c", "name": "look", "arguments": {"at": 1}}], model="m-1")
    plan.persist()
    runs = trails.model.lineage.segments(store.reader.lineage("plan"))
    found = store.reader.tail(runs, 500, "plan")
    assert [turn.content for turn in found[:-1]] == [str(n) for n in range(500, 900)]
    assert (found[-1].model, found[-1].tool_calls[0].name) == ("m-1", "look")


def test_a_long_tail_after_a_short_beginning_is_whole(store: Repository) -> None:
    plan = say(store.create(id="plan"), *(str(n) for n in range(700)))
    say(plan.fork(at=40, id="fork"), "f")
    found = store.diff("plan", "fork")
    assert sides(found) == ([str(n) for n in range(40, 700)], ["f"])


@pytest.mark.parametrize("missing", [95, 150])
def test_a_gap_in_a_tail_is_an_error_never_a_shorter_tail(store: Repository, missing: int) -> None:
    plan = say(store.create(id="plan"), *(str(n) for n in range(250)))
    say(plan.fork(at=90, id="fork"), "f")
    turn = plan.turns[missing]
    gone = store.store.quads((NamedNode(turn.iri), None, None, NamedNode(plan.iri)))
    store.store.commit(Change(remove=gone))
    with pytest.raises(IndexGap, match=f"turn {missing}"):
        store.diff("plan", "fork")


def test_a_block_of_turns_that_vanished_is_an_error_too(store: Repository) -> None:
    plan = say(store.create(id="plan"), *(str(n) for n in range(250)))
    say(plan.fork(at=90, id="fork"), "f")
    for turn in plan.turns[100:170]:
        gone = store.store.quads((NamedNode(turn.iri), None, None, NamedNode(plan.iri)))
        store.store.commit(Change(remove=gone))
    with pytest.raises(IndexGap, match="turn 100"):
        store.diff("plan", "fork")


def test_a_fork_whose_parent_was_rewritten_at_the_fork_point_is_an_error(store: Repository) -> None:
    plan = say(store.create(id="plan"), "a", "b")
    say(plan.fork(at=1, id="fork"), "c")
    node = NamedNode(iris.session("fork"))
    (head,) = store.store.quads((node, vocab.FORK_HEAD, None, vocab.CATALOG))
    other = Quad(node, vocab.FORK_HEAD, Literal("00" * 32), vocab.CATALOG)
    store.store.commit(Change(add=[other], remove=[head]))
    with pytest.raises(IntegrityError, match="session 'fork' was forked after turn 0"):
        store.diff("plan", "fork")


# --- references


def test_a_reference_is_an_id_a_label_an_iri_a_tag_or_one_of_these_at_an_index(store: Repository) -> None:
    plan = say(store.create(id="plan", label="my trip"), "a", "b", "c")
    store.tags.add("v1", "plan@2")
    for ref, end in (
        ("plan", None),
        ("my trip", None),
        (plan.iri, None),
        ("plan@0", 0),
        ("plan@3", 3),
        ("my trip@2", 2),
        (f"{plan.iri}@1", 1),
        ("v1", 2),
        ("v1@1", 1),
    ):
        assert names.parse_revision(store.workspace, ref) == names.Revision(ref, "plan", end)
    assert sides(store.diff("v1", "plan")) == ([], ["c"])
    assert sides(store.diff("plan@1", "plan@3")) == ([], ["b", "c"])


def test_an_id_with_an_at_sign_is_that_id_before_anything_else(store: Repository) -> None:
    say(store.create(id="plan"), "a", "b")
    say(store.create(id="plan@1"), "c")
    say(store.create(id="me@example.org"), "d")
    assert names.parse_revision(store.workspace, "plan@1") == names.Revision("plan@1", "plan@1", None)
    assert names.parse_revision(store.workspace, "plan@2") == names.Revision("plan@2", "plan", 2)
    assert names.parse_revision(store.workspace, "plan@1@1") == names.Revision("plan@1@1", "plan@1", 1)
    assert names.parse_revision(store.workspace, "me@example.org@0") == names.Revision(
        "me@example.org@0", "me@example.org", 0
    )


@pytest.mark.parametrize("ref", ["plan@3", "plan@99", "trip@3", "v1@2", "fork@3"])
def test_an_index_past_the_end_is_refused_and_the_length_named(store: Repository, ref: str) -> None:
    plan = say(store.create(id="plan", label="trip"), "a", "b")
    say(plan.fork(at=1, id="fork"), "c")
    store.tags.add("v1", "plan@1")
    with pytest.raises(InvalidInput, match=r"has (1 turn|2 turns), so there is no"):
        store.diff(ref, "plan")


@pytest.mark.parametrize("ref", ["nope", "nope@1", "plan@", "plan@-1", "plan@x", "plan@1@1", "@1", "@", "plan@٣"])
def test_an_unknown_reference_is_refused_and_says_what_there_is(store: Repository, ref: str) -> None:
    say(store.create(id="plan", label="trip"), "a", "b")
    with pytest.raises(SessionNotFound, match=r"there is no session, label or tag .*; `trails list`"):
        store.diff(ref, "plan")


@pytest.mark.parametrize("ref", ["", "a b", "<plan>"])
def test_what_can_name_nothing_is_refused_as_input(store: Repository, ref: str) -> None:
    with pytest.raises(InvalidInput, match="there is no session, label or tag"):
        store.diff(ref, "plan")


def test_a_deleted_session_and_an_ambiguous_name_are_told_as_such(store: Repository) -> None:
    say(store.create(id="gone"), "a")
    store.delete("gone")
    say(store.create(id="plan"), "a")
    say(store.create(id="other", label="plan"), "b")
    with pytest.raises(SessionNotFound, match="was deleted"):
        store.diff("gone", "other")
    with pytest.raises(InvalidInput, match="is the id of one session and the label of 'other'"):
        store.diff("plan", "other")
    with pytest.raises(InvalidInput, match="give a Session or a reference"):
        store.diff(3, "other")  # type: ignore[arg-type]


# --- any tree of forks

role = st.sampled_from(["user", "assistant"])
content = st.sampled_from(["", "yes", "Plan a trip", "Plan a dinner", [{"type": "text", "text": "yes"}]])
calls = st.lists(st.tuples(st.sampled_from(["ls", "cat"]), st.integers(0, 2), st.sampled_from("xyz")), max_size=2)
message = st.tuples(role, content, calls)
branch = st.tuples(
    st.integers(0, 5),
    st.integers(0, 8),
    st.sampled_from(["fork", "fork", "flatten", "detach"]),
    st.lists(message, max_size=4),
)


def grow(store: Repository, root: Any, branches: Any) -> list[str]:
    """Store a tree of forks and copies; return the ids of its sessions."""
    made = [store.create(id="s0")]
    extend(made[0], root)
    for number, (parent, at, how, said) in enumerate(branches, 1):
        source = made[parent % len(made)]
        start, name = at % (len(source) + 1), f"s{number}"
        grown = source.flatten(id=name) if how == "flatten" else source.fork(at=start, id=name)
        extend(grown, said)
        made.append(grown.detach() if how == "detach" else grown)
    return [session.id for session in made]


def extend(session: Session, said: Any) -> None:
    for who, text, asked in said:
        what = text or ("" if asked else "nothing")  # a turn may be without a text where it calls tools
        session.append(who, what, tool_calls=[{"id": i, "name": name, "arguments": {"n": n}} for name, n, i in asked])
    session.persist()


@examples(40)
@given(st.lists(message, max_size=5), st.lists(branch, max_size=4))
def test_on_any_tree_of_forks_a_patched_session_is_the_other_one(root: Any, branches: Any) -> None:
    with trails.open(":memory:") as store:
        ids = grow(store, root, branches)
        loaded = {each: store.load(each).turns for each in ids}
        for one in ids:
            for two in ids:
                found, whole = store.diff(one, two), diff(loaded[one], loaded[two])
                left = patch(loaded[one], found)
                assert [(t.index, t.role, t.content, t.tool_calls) for t in left] == [
                    (t.index, t.role, t.content, t.tool_calls) for t in loaded[two]
                ]
                assert found.common == whole.common
                assert kinds(found) == kinds(whole)
                back = store.diff(two, one)
                assert (found.left.counts, found.right.counts) == (back.right.counts, back.left.counts)
                if one == two:
                    assert found.entries == ()
