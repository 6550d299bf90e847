"""The session tree: who may spawn what, what flows between sessions, how they end, rest, and come back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from tests.support.clocks import START, Clock
from tests.support.commands import invoke, ok
from trails import (
    HasChildren,
    HeadConflict,
    IllegalTransition,
    InvalidInput,
    LimitReached,
    Limits,
    Repository,
    SessionNotFound,
    Tree,
)
from trails.exchange.rdf_files import export_session, import_rdf
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.ledger_records import Transition
from trails.runtime.tree import Artifact, Node
from trails.runtime.tree_lifecycle import Lifecycle
from trails.runtime.tree_state import runtime_of
from trails.store.contract import Change, Committed, Solutions

pytestmark = pytest.mark.any_store

SHA = "ab" * 32


@pytest.fixture
def tree(store: Repository, clock: Clock) -> Iterator[Tree]:
    """A tree on an empty store, of which everything verifies whatever a test does with it."""
    yield Tree(store, clock=clock)
    report = store.verify()
    assert report.ok, report.findings


@pytest.fixture
def main(tree: Tree) -> Node:
    return tree.main("planner", "chat", id="main", principal="alice", system="Be brief.", tier="large")


def dicts(store: Repository, name: str, **parameters: Any) -> list[dict[str, Any]]:
    found = store.query(name, **parameters)
    assert isinstance(found, Solutions)
    return found.to_dicts()


def rows(store: Repository, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in dicts(store, name, **parameters)]


def branch(parent: Node, name: str, **more: Any) -> Node:
    return parent.spawn("branch", f"task of {name}", id=name, **more)


def worker(parent: Node, name: str, **more: Any) -> Node:
    return parent.spawn("worker", f"task of {name}", id=name, **more)


def everything(store: Repository) -> set[ox.Quad]:
    return set(store.store.quads((None, None, None, None)))


# --- what a session of the tree is


def test_a_session_has_an_identity(tree: Tree, main: Node) -> None:
    made = main.spawn("branch", "Find a train", "Two friends", id="trains")
    expected = ("trains", "planner", "main", "branch", "active", 1)
    assert (made.id, made.agent, made.parent_id, made.kind, made.state, made.depth) == expected
    assert (made.created, made.ttl, made.expires) == (START, timedelta(minutes=30), START + timedelta(minutes=30))
    assert (made.task, made.context_summary) == ("Find a train", "Two friends")
    record = tree.store.record("trains")
    assert (record.kind, record.state, record.spawned_by, record.principal) == ("branch", "active", "main", "alice")
    assert record.parent_session_id is None


def test_a_branch_lives_30_minutes_a_worker_5_and_a_main_for_ever(main: Node) -> None:
    assert main.ttl is None
    assert branch(main, "b").ttl == timedelta(minutes=30)
    assert worker(main, "w").ttl == timedelta(minutes=5)
    assert worker(main, "long", ttl=timedelta(hours=2)).ttl == timedelta(hours=2)


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), 30, timedelta.max])
def test_a_time_to_live_that_is_none_is_refused(main: Node, ttl: Any) -> None:
    with pytest.raises(InvalidInput, match="ttl"):
        branch(main, "b", ttl=ttl)


def test_a_branch_inherits_the_persona_and_the_tier_and_a_worker_neither(main: Node) -> None:
    made, helper = branch(main, "b"), worker(main, "w")
    assert (made.session.system, made.tier) == ("Be brief.", "large")
    assert (helper.session.system, helper.tier) == (None, "cheapest")
    assert branch(made, "below").session.system == "Be brief."


def test_a_tier_can_be_asked_for_and_the_cheapest_can_be_named(store: Repository, main: Node) -> None:
    assert worker(main, "w", tier="large").tier == "large"
    assert branch(main, "b", tier="small").tier == "small"
    assert Tree(store, cheapest="tiny").spawn(main, "worker", "Count").tier == "tiny"


def test_a_branch_inherits_the_persona_in_force_also_one_that_is_not_stored(main: Node) -> None:
    main.session.set_system("Be very brief.")
    assert branch(main, "b").session.system == "Be very brief."
    main.session.persist()


def test_context_flows_only_as_the_summary(main: Node) -> None:
    main.append("user", "A secret")
    made = main.spawn("branch", "Find a train", "Two friends")
    made.append("user", "go")
    shown = [message["content"] for message in made.context().openai()]
    assert shown == ["Be brief.", "Your task:\n\nFind a train", "What is known so far:\n\nTwo friends", "go"]
    assert len(made.session) == 1
    made.complete()


@pytest.mark.parametrize("kind", ["branch", "worker"])
@pytest.mark.parametrize("task", ["", "  ", "\n\t", "\u3000"])
def test_a_task_that_says_nothing_is_refused_and_spawns_nothing(main: Node, kind: str, task: str) -> None:
    with pytest.raises(InvalidInput, match="needs a task"):
        main.spawn(kind, task)
    assert main.children() == []


def test_a_worker_gets_no_summary(tree: Tree, main: Node) -> None:
    before = everything(tree.store)
    with pytest.raises(InvalidInput, match="a worker gets no context_summary"):
        main.spawn("worker", "Count", context_summary="Two friends")
    assert everything(tree.store) == before


def test_a_child_belongs_to_its_parents_agent(tree: Tree, main: Node) -> None:
    assert tree.spawn(main, "branch", "Find", agent="planner").agent == "planner"
    for kind in ("branch", "worker"):
        with pytest.raises(InvalidInput, match="another agent"):
            tree.spawn(main, kind, "Find", agent="cook")


def test_a_spawn_with_anything_wrong_changes_nothing(tree: Tree, main: Node) -> None:
    before = everything(tree.store)
    wrongs: list[dict[str, Any]] = [
        {"kind": "twig"},
        {"kind": None},
        {"task": None},
        {"task": "\ud800"},
        {"task": 7},
        {"context_summary": 7},
        {"tier": ""},
        {"id": "two words"},
        {"label": ""},
        {"channel": "chat"},
        {"system": "Be long."},
        {"principal": "bob"},
        {"parent": None},
    ]
    good: dict[str, Any] = {"parent": main, "kind": "branch", "task": "Find"}
    for wrong in wrongs:
        with pytest.raises(InvalidInput):
            tree.spawn(**good | wrong)
    assert everything(tree.store) == before
    assert main.children() == []


def test_an_id_or_a_label_in_use_is_refused(tree: Tree, main: Node) -> None:
    branch(main, "b", label="trains")
    with pytest.raises(InvalidInput, match="choose another id"):
        branch(main, "b")
    with pytest.raises(InvalidInput, match="the label 'trains' belongs to session 'b'"):
        branch(main, "c", label="trains")
    assert [node.id for node in main.children()] == ["b"]


# --- mains


def test_there_is_one_main_for_an_agent_and_a_channel(tree: Tree, main: Node) -> None:
    assert tree.main("planner", "chat") == main
    assert tree.main("planner", "mail") != main
    assert tree.main("cook", "chat") != main
    assert len(tree.mains()) == 3
    assert main.channel == "chat"


def test_a_second_main_is_refused(tree: Tree, main: Node) -> None:
    before = everything(tree.store)
    with pytest.raises(LimitReached, match="one main at most") as refused:
        tree.spawn(None, "main", agent="planner", channel="chat")
    assert (refused.value.limit, refused.value.allowed, refused.value.wanted) == ("mains", 1, 2)
    assert everything(tree.store) == before


def test_a_second_main_is_refused_by_the_commit_where_the_index_does_not_know_the_first(tree: Tree, main: Node) -> None:
    del runtime_of(tree.store).index[main.id]
    with pytest.raises(LimitReached, match="'main' on channel 'chat'"):
        tree.spawn(None, "main", agent="planner", channel="chat")


def test_a_main_that_has_ended_leaves_its_place_to_another(tree: Tree, main: Node) -> None:
    main.complete("Bye")
    again = tree.main("planner", "chat")
    assert (again.id != main.id, main.state, again.state) == (True, "completed", "active")


def test_a_main_that_was_deleted_leaves_its_place_to_another(tree: Tree, main: Node) -> None:
    tree.store.delete("main")
    assert tree.main("planner", "chat").id != "main"


def test_a_fork_takes_no_main_slot(tree: Tree, main: Node) -> None:
    main.append("user", "hi")
    fork = tree.store.load("main").fork(id="fork")
    fork.persist()
    assert (fork.record.slot, fork.record.kind, fork.record.channel) == (None, None, None)
    assert tree.main("planner", "chat") == main
    with pytest.raises(InvalidInput, match="not part of the session tree"):
        tree.spawn("fork", "branch", "Find")
    assert tree.store.flatten("main").record.slot is None


def test_a_main_has_no_parent_and_needs_agent_and_channel(tree: Tree, main: Node) -> None:
    good: dict[str, Any] = {"parent": None, "kind": "main", "agent": "a", "channel": "c"}
    for wrong in ({"parent": main}, {"agent": None}, {"channel": None}, {"context_summary": "x"}):
        with pytest.raises(InvalidInput, match="a main"):
            tree.spawn(**good | wrong)


# --- limits


def test_main_branch_branch_branch_worker_is_as_deep_as_it_gets(main: Node) -> None:
    third = branch(branch(branch(main, "b1"), "b2"), "b3")
    assert worker(third, "w").depth == 4
    with pytest.raises(LimitReached, match="4 spawns deep, and branch_depth is limited to 3") as refused:
        branch(third, "b4")
    assert (refused.value.limit, refused.value.allowed, refused.value.wanted) == ("branch_depth", 3, 4)


def test_the_depth_of_all_is_limited(store: Repository, main: Node) -> None:
    tree = Tree(store, limits=Limits(depth=1))
    first = tree.spawn(main, "branch", "Find", id="b1")
    with pytest.raises(LimitReached, match="2 spawns deep, and depth is limited to 1") as refused:
        worker(first, "w")
    assert (refused.value.limit, refused.value.allowed, refused.value.wanted) == ("depth", 1, 2)


def test_workers_are_leaves(main: Node) -> None:
    leaf = worker(main, "w")
    for make in (branch, worker):
        with pytest.raises(LimitReached, match="workers are leaves") as refused:
            make(leaf, "below")
        assert (refused.value.limit, refused.value.allowed, refused.value.wanted) == ("leaf", 0, 1)


def test_a_session_has_eight_active_children_at_most(tree: Tree, main: Node) -> None:
    for number in range(8):
        (branch if number % 2 else worker)(main, f"c{number}")
    before = everything(tree.store)
    with pytest.raises(LimitReached, match="8 active children, and children is limited to 8") as refused:
        worker(main, "c8")
    assert (refused.value.limit, refused.value.allowed, refused.value.wanted) == ("children", 8, 9)
    assert everything(tree.store) == before


def test_limits_are_set_for_each_agent(store: Repository) -> None:
    tree = Tree(store, limits=Limits(children=1), agent_limits={"cook": Limits(children=2)})
    cook, planner = tree.main("cook", "chat"), tree.main("planner", "chat")
    worker(cook, "w1")
    worker(cook, "w2")
    worker(planner, "w3")
    for main in (cook, planner):
        with pytest.raises(LimitReached):
            worker(main, "another")


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"children": True}, {"slots": -2}])
def test_a_limit_is_a_whole_number(store: Repository, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="the limit"):
        Tree(store, limits=Limits.model_construct(**wrong))


def test_an_agent_has_so_many_slots_in_all_its_trees(store: Repository) -> None:
    tree = Tree(store, limits=Limits(slots=2))
    one, two = tree.main("planner", "chat"), tree.main("planner", "mail")
    first = branch(one, "b1")
    worker(two, "w")
    with pytest.raises(LimitReached, match="2 active branches and workers, and slots is limited to 2"):
        branch(two, "b2")
    first.suspend()
    branch(two, "b2")
    with pytest.raises(LimitReached, match="slots"):
        first.resume()
    assert [node.id for node in tree.at_work("planner")] == ["b2", "w"]
    assert worker(tree.main("cook", "chat"), "other").state == "active"


def test_limits_hold_where_many_spawn_at_once(store: Repository, main: Node) -> None:
    made: list[str] = []
    refused: list[str] = []
    ready = threading.Barrier(4)

    def spawn(name: str) -> None:
        tree = Tree(store)
        ready.wait()
        for number in range(5):
            try:
                made.append(tree.spawn(main.id, "worker", "Count", id=f"{name}-{number}").id)
            except LimitReached as error:
                refused.append(error.limit)

    threads = [threading.Thread(target=spawn, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), refused) == (8, ["children"] * 12)
    assert len(store.store.quads((None, vocab.SLOT, None, None))) == 1 + 8


def test_the_commit_itself_keeps_the_limit_where_the_index_knows_nothing(tree: Tree, main: Node) -> None:
    for number in range(8):
        worker(main, f"w{number}")
    runtime = runtime_of(tree.store)
    for number in range(8):
        del runtime.index[f"w{number}"]
    with pytest.raises(LimitReached, match="8 active children"):
        worker(main, "w8")


def test_a_child_that_something_else_deleted_leaves_room(tree: Tree, main: Node) -> None:
    for number in range(8):
        worker(main, f"w{number}")
    tree.store.delete("w3")
    worker(main, "w8")
    with pytest.raises(SessionNotFound):
        tree.get("w3").complete()


# --- results


def test_a_result_goes_to_the_parent(tree: Tree, main: Node, clock: Clock) -> None:
    made = branch(main, "b")
    clock.pass_by(minutes=1)
    result = made.complete(
        "Take the 9:04.",
        artifacts=[("file:///a", "created", SHA), Artifact(uri="file:///b", change="deleted")],
        memory_ids=["m2", "m1", "m2"],
    )
    expected = ("b", "main", "completed", "Take the 9:04.", None)
    assert (result.session_id, result.parent_id, result.status, result.summary, result.error) == expected
    artifacts = (Artifact(uri="file:///a", change="created", sha256=SHA), Artifact(uri="file:///b", change="deleted"))
    assert result.artifacts == artifacts
    assert (result.memory_ids, result.time) == (("m1", "m2"), START + timedelta(minutes=1))
    assert main.results() == [result] == [made.result]
    assert made.state == "completed"


def test_a_result_is_there_on_failing_expiring_and_cancelling_too(tree: Tree, main: Node, clock: Clock) -> None:
    branch(main, "b1").fail("no trains", summary="I looked everywhere")
    branch(main, "b2")
    worker(main, "w")
    clock.pass_by(minutes=10)
    tree.sweep()
    tree.get("b2").cancel("not needed")
    clock.pass_by(seconds=30)
    tree.sweep()
    assert [(result.session_id, result.status, result.summary, result.error) for result in main.results()] == [
        ("b1", "failed", "I looked everywhere", "no trains"),
        ("w", "expired", None, "its time to live was over"),
        ("b2", "cancelled", None, "it did not wrap up in time after it was asked to end (not needed)"),
    ]
    assert [tree.get(each).state for each in ("b1", "w", "b2")] == ["failed", "expired", "failed"]


def test_a_worker_returns_no_memory_ids(tree: Tree, main: Node) -> None:
    made = worker(main, "w")
    with pytest.raises(InvalidInput, match="no memory ids"):
        made.complete("done", memory_ids=["m1"])
    assert made.state == "active"
    made.complete("done")


@pytest.mark.parametrize("error", ["", " \n", None, 7])
def test_a_failure_without_a_word_why_is_refused_and_ends_nothing(tree: Tree, main: Node, error: Any) -> None:
    made = branch(main, "b")
    before = everything(tree.store)
    with pytest.raises(InvalidInput, match="error"):
        made.fail(error)
    assert (made.state, everything(tree.store)) == ("active", before)


def test_a_result_that_cannot_be_kept_ends_nothing(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    before = everything(tree.store)
    wrongs: list[dict[str, Any]] = [
        {"summary": 7},
        {"summary": "\ud800"},
        {"artifacts": [("", "created", SHA)]},
        {"artifacts": [("file:///a", "moved", SHA)]},
        {"artifacts": [("file:///a", "created", "AB" * 32)]},
        {"artifacts": [("file:///a", "created", "ab")]},
        {"artifacts": [("file:///a",)]},
        {"artifacts": ["file:///a"]},
        {"artifacts": "file:///a"},
        {"artifacts": [{"uri": "file:///a"}]},
        {"memory_ids": "m1"},
        {"memory_ids": [""]},
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidInput):
            made.complete(**{"summary": "done"} | wrong)
    assert (made.state, everything(tree.store)) == ("active", before)


def test_artifacts_may_be_mappings(main: Node) -> None:
    result = branch(main, "b").complete(artifacts=[{"uri": "file:///a", "change": "modified", "sha256": SHA}])
    assert result.artifacts == (Artifact(uri="file:///a", change="modified", sha256=SHA),)


def test_the_parent_decides_to_take_a_result_in(tree: Tree, main: Node) -> None:
    main.append("user", "Plan a trip")
    result = branch(main, "b").complete("Take the 9:04.")
    turn = tree.incorporate(result)
    expected = (1, "user", "The branch b completed.\n\nTake the 9:04.", "planner")
    assert (turn.index, turn.role, turn.content, turn.author) == expected
    stored = tree.store.load("main").turns[1]
    assert stored == turn
    assert stored.derived_from == result.derivation
    derived = tree.store.store.quads((ox.NamedNode(turn.iri), vocab.DERIVED_FROM, None, ox.NamedNode(main.session.iri)))
    assert result.derivation.number is not None
    assert [str(quad.object) for quad in derived] == [
        f"<{iris.ledger_entry(iris.session('b'), result.derivation.number)}>"
    ]
    assert main.results() == []
    assert trails.Ledger(tree.store).inbox("main") == []


def test_the_parent_says_a_result_in_words_of_its_own(tree: Tree, main: Node) -> None:
    result = branch(main, "b").complete("Take the 9:04.")
    turn = tree.incorporate(result, [{"type": "text", "text": "9:04"}], role="assistant")
    assert (turn.role, turn.content) == ("assistant", [{"type": "text", "text": "9:04"}])


def test_a_result_is_decided_on_once(tree: Tree, main: Node) -> None:
    first, second = branch(main, "b1").complete("one"), branch(main, "b2").complete("two")
    tree.incorporate(first)
    tree.dismiss(second, "not needed")
    for result in (first, second):
        with pytest.raises(InvalidInput, match="decided on the result"):
            tree.incorporate(result)
        with pytest.raises(InvalidInput, match="decided on the result"):
            tree.dismiss(result)
    assert [turn.content for turn in main.session.turns] == ["The branch b1 completed.\n\none"]
    assert main.results() == []
    assert tree.get("b2").result == second


@pytest.mark.parametrize("decide", ["incorporate", "dismiss"])
def test_what_is_no_result_is_refused_with_the_way_to_one(tree: Tree, main: Node, decide: str) -> None:
    node = branch(main, "b")
    for wrong in (None, "b", node):
        with pytest.raises(InvalidInput, match=r"as complete.* gives it"):
            getattr(tree, decide)(wrong)
    assert node.state == "active"


def test_a_message_loop_leaves_results_for_the_parent_to_decide(tree: Tree, main: Node) -> None:
    ledger = trails.Ledger(tree.store)
    branch(main, "b").complete("Take the 9:04.")
    ledger.receive("main", "Hello")
    assert len(ledger.process("main", lambda running: "Hi")) == 1
    assert [turn.content for turn in tree.store.load("main").turns] == ["Hello", "Hi"]
    assert [result.session_id for result in main.results()] == ["b"]
    assert ledger.due("main") is None


def test_a_branch_takes_results_in_with_the_turns_that_it_holds(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    made.append("assistant", "I ask somebody")
    tree.incorporate(worker(made, "w").complete("42"))
    made.append("assistant", "It is 42")
    made.complete("42")
    expected = ["I ask somebody", "The worker w completed.\n\n42", "It is 42"]
    assert [turn.content for turn in tree.store.load("b").turns] == expected


def test_a_session_that_is_not_active_takes_nothing_in(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    result = worker(made, "w").complete("42")
    made.suspend()
    with pytest.raises(InvalidInput, match="'b' is suspended, and only an active one takes a result in"):
        tree.incorporate(result)
    made.resume()
    tree.incorporate(result)
    ended = main.complete("Bye")
    with pytest.raises(InvalidInput, match="has no parent to decide"):
        tree.incorporate(ended)


def test_a_result_that_cannot_be_taken_in_leaves_the_chain_as_it_is(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    result = worker(made, "w").complete("42")
    made.append("assistant", "mine")
    other = tree.store.load("b")
    other.append("user", "theirs")
    other.persist()
    with pytest.raises(HeadConflict):
        tree.incorporate(result)
    assert [turn.content for turn in made.session.turns] == ["mine"]
    assert made.results() == [result]
    made.complete()


def test_a_main_goes_on_from_where_a_message_loop_left_it(tree: Tree, main: Node) -> None:
    ledger = trails.Ledger(tree.store)
    main.append("user", "one")
    ledger.receive("main", "two")
    ledger.process("main", lambda running: "three")
    tree.incorporate(branch(main, "b").complete("done"), "four")
    ledger.receive("main", "five")
    ledger.process("main", lambda running: None)
    main.append("user", "six")
    assert [turn.content for turn in main.session.turns] == ["one", "two", "three", "four", "five", "six"]


# --- states


def test_every_change_of_state_is_recorded(store: Repository, tree: Tree, main: Node, clock: Clock) -> None:
    made = branch(main, "b", by="bob")
    clock.pass_by(minutes=1)
    made.suspend(by="agent:cortex")
    clock.pass_by(minutes=1)
    made.resume()
    made.fail("no trains", by="carol")
    found = rows(store, "transitions", session="b")
    assert [row[1:6] for row in found] == [
        (None, "active", "urn:trails:principal:bob", START, None),
        ("active", "suspended", "urn:trails:agent:cortex", START + timedelta(minutes=1), None),
        ("suspended", "active", "urn:trails:agent:unknown", START + timedelta(minutes=2), None),
        ("active", "failed", "urn:trails:principal:carol", START + timedelta(minutes=2), "no trains"),
    ]
    first = ox.NamedNode(found[0][6])
    graph = ox.NamedNode(iris.ledger(iris.session("b")))
    expected = {str(vocab.TRANSITION), str(vocab.ACTIVITY)}
    assert {str(quad.object) for quad in store.store.quads((first, vocab.TYPE, None, graph))} == expected
    assert [str(quad.object)[-3:] for quad in store.store.quads((first, vocab.USED, None, graph))] == ["/2>"]
    states = [(None, "active"), ("active", "suspended"), ("suspended", "active"), ("active", "failed")]
    assert [(each.before, each.after) for each in made.history if isinstance(each, Transition)] == states


@pytest.mark.parametrize("state", ["completed", "failed", "expired"])
def test_an_end_is_final(tree: Tree, main: Node, clock: Clock, state: str) -> None:
    made = branch(main, "b")
    if state == "completed":
        made.complete("done")
    elif state == "failed":
        made.fail("no")
    else:
        clock.pass_by(hours=1)
        tree.sweep()
    before = everything(tree.store)
    steps: list[tuple[Callable[[], object], str]] = [
        (made.suspend, "suspended"),
        (made.resume, "active"),
        (made.complete, "completed"),
        (lambda: made.fail("why"), "failed"),
        (made.cancel, "failed"),
    ]
    for step, to in steps:
        with pytest.raises(IllegalTransition, match=f"is {state} and cannot become {to}") as refused:
            step()
        assert (refused.value.before, refused.value.after) == (state, to)
    assert everything(tree.store) == before


def test_the_idlest_branches_are_suspended(tree: Tree, main: Node, clock: Clock) -> None:
    cook = tree.main("cook", "chat")
    names = ["b0", "b1", "b2", "b3"]
    for name in names:
        branch(main, name)
        clock.pass_by(seconds=1)
    worker(main, "w")
    branch(cook, "other")
    tree.get("b3").cancel()
    clock.pass_by(seconds=1)
    tree.get("b0").append("user", "I am busy")
    assert tree.suspend_idlest(1) == ["b1"]
    assert tree.suspend_idlest(9, agent="planner") == ["b2", "b0"]
    assert [tree.get(name).state for name in [*names, "other"]] == ["suspended"] * 3 + ["active"] * 2
    assert tree.suspend_idlest(0) == []


# --- ends of parents


def test_when_a_parent_ends_its_children_are_asked_to_end(tree: Tree, main: Node, clock: Clock) -> None:
    made = branch(main, "b")
    below, helper, resting = branch(made, "below"), worker(made, "w"), branch(made, "resting")
    deeper = branch(resting, "deeper")
    resting.suspend()
    made.complete("done")
    assert (below.state, helper.state, resting.state, deeper.state) == ("active", "active", "expired", "active")
    for node in (below, helper, deeper):
        asked = node.cancelled
        assert asked is not None
        assert asked.ends_by == START + timedelta(seconds=30)
    assert main.cancelled is None
    clock.pass_by(seconds=10)
    below.complete("just in time")
    clock.pass_by(seconds=19.9)
    assert tree.sweep() == []
    clock.pass_by(seconds=0.1)
    assert tree.sweep() == ["deeper", "w"]
    assert (helper.state, deeper.state) == ("failed", "failed")
    expected = [("resting", "expired"), ("below", "completed"), ("w", "cancelled")]
    assert [(result.session_id, result.status) for result in made.results()] == expected
    assert [result.session_id for result in tree.get("resting").results()] == ["deeper"]


def test_a_session_that_was_asked_to_end_does_not_rest(main: Node) -> None:
    made = branch(main, "b")
    made.cancel("not needed")
    made.cancel("again")
    with pytest.raises(IllegalTransition, match="was asked to end"):
        made.suspend()
    assert [type(each).__name__ for each in made.history] == ["Transition", "Cancellation"]
    assert made.cancelled is not None
    assert made.cancelled.reason == "not needed"


def test_a_request_to_end_can_be_subscribed_to(tree: Tree, main: Node) -> None:
    made, other = branch(main, "b"), branch(main, "other")
    all_of_them: list[tuple[str, str | None]] = []
    one: list[str] = []
    with (
        tree.on_cancel(lambda asked: all_of_them.append((asked.session_id, asked.reason))) as every,
        tree.on_cancel(lambda asked: one.append(asked.session_id), session=other) as single,
    ):
        made.cancel("stop")
        main.complete("Bye")
        assert every.drain()
        assert single.drain()
    assert all_of_them == [("b", "stop"), ("other", "its parent main ended")]
    assert one == ["other"]


def test_a_grace_longer_than_the_calendar_ends_nothing(store: Repository, main: Node, clock: Clock) -> None:
    tree = Tree(store, clock=clock, grace=timedelta.max)
    made = tree.spawn(main, "branch", "Find", id="b", ttl=timedelta(days=999_999))
    worker(made, "w", ttl=timedelta(days=999_999))
    other = tree.spawn(main, "branch", "Look", id="other", ttl=timedelta(days=999_999))
    made.complete("done")
    other.cancel("not needed")
    clock.pass_by(days=99_999)
    assert tree.sweep() == []


def test_no_session_is_deleted_by_the_tree(tree: Tree, main: Node, clock: Clock) -> None:
    branch(main, "b")
    clock.pass_by(days=9)
    tree.tick()
    main.complete()
    clock.pass_by(days=900)
    tree.tick()
    assert sorted(record.id for record in tree.store.list()) == ["b", "main"]


# --- turns, by kind


def test_a_main_stores_each_turn_at_once(tree: Tree, main: Node) -> None:
    turn = main.append("user", "hi")
    assert turn.time == START
    assert [each.content for each in tree.store.load("main").turns] == ["hi"]


@pytest.mark.parametrize("end", ["suspend", "complete", "fail", "expire", "cancel", "persist"])
def test_a_branchs_turns_are_in_memory_until_it_rests_or_ends(tree: Tree, main: Node, clock: Clock, end: str) -> None:
    made = branch(main, "b")
    made.append("user", "one")
    made.append("assistant", "two")
    assert len(tree.store.load("b")) == 0
    if end == "persist":
        assert made.persist() == 2
    elif end == "expire":
        clock.pass_by(hours=1)
        tree.sweep()
    elif end == "cancel":
        made.cancel()
        clock.pass_by(minutes=1)
        tree.sweep()
    else:
        getattr(made, end)(*(["no"] if end == "fail" else []))
    assert [turn.content for turn in tree.store.load("b").turns] == ["one", "two"]
    assert [turn.content for turn in made.session.turns] == ["one", "two"]


def test_a_branch_goes_on_with_its_turns_after_it_rested(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    made.append("user", "one")
    made.suspend()
    with pytest.raises(InvalidInput, match="is suspended and takes no turns; resume it first"):
        made.append("user", "two")
    made.resume()
    made.append("user", "two")
    made.complete()
    assert [turn.content for turn in tree.store.load("b").turns] == ["one", "two"]
    with pytest.raises(InvalidInput, match="is completed and takes no turns"):
        made.append("user", "three")


def test_a_workers_turns_are_never_stored(tree: Tree, main: Node) -> None:
    made = worker(main, "w")
    made.append("user", "count")
    with pytest.raises(InvalidInput, match="turns of workers are never stored"):
        made.persist()
    with pytest.raises(InvalidInput, match="turns of workers are never stored"):
        made.session.persist()
    assert len(made.session) == 1
    made.complete("42")
    assert len(tree.store.load("w")) == 0
    copy = tree.store.load("w")
    copy.append("user", "by the back door")
    with pytest.raises(InvalidInput, match="turns of workers are never stored"):
        copy.persist()


def test_rows_tasks_and_results_of_a_worker_are_stored_at_once(tree: Tree, main: Node) -> None:
    made = worker(main, "w")
    assert tree.store.record("w").state == "active"
    assert (tree.get("w").task, tree.get("w").context_summary) == ("task of w", None)
    made.complete("42")
    assert tree.store.record("w").state == "completed"


def test_turns_that_another_writer_stands_in_the_way_of_are_kept_as_a_fork(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    made.append("user", "mine")
    other = tree.store.load("b")
    other.append("user", "theirs")
    other.persist()
    made.complete("done")
    end = made.history[-1]
    assert isinstance(end, Transition)
    assert [turn.content for turn in tree.store.load("b").turns] == ["theirs"]
    kept = tree.store.branches("b")[0].id
    assert (end.kept_as, [turn.content for turn in tree.store.load(kept).turns]) == (kept, ["mine"])


# --- messages


def test_messages_go_between_parent_and_child_only(tree: Tree, main: Node) -> None:
    one, two = branch(main, "one"), branch(main, "two")
    below = branch(one, "below")
    ledger = trails.Ledger(tree.store)
    tree.send(main, one, "How far are you?")
    tree.send(one, main, "Half way")
    assert [event.content for event in ledger.inbox("one")] == ["How far are you?"]
    assert [(event.content, event.author_iri) for event in ledger.inbox("main")] == [
        ("Half way", "urn:trails:agent:planner")
    ]
    before = everything(tree.store)
    with pytest.raises(InvalidInput, match="are siblings; route it through their parent 'main'"):
        tree.send(one, two, "psst")
    with pytest.raises(InvalidInput, match="are not parent and child"):
        tree.send(below, two, "psst")
    assert everything(tree.store) == before
    two.complete()
    with pytest.raises(InvalidInput, match="'two' is completed"):
        tree.send(main, two, "late")


def test_a_worker_gets_and_sends_no_messages(tree: Tree, main: Node) -> None:
    made = worker(main, "w")
    for pair in ((main, made), (made, main)):
        with pytest.raises(InvalidInput, match="a worker gets its task"):
            tree.send(*pair, "more")


# --- the clock


def test_a_main_with_a_time_to_live_expires(tree: Tree) -> None:
    made = tree.spawn(None, "main", agent="cook", channel="chat", ttl=timedelta(minutes=1))
    assert tree.sweep(START + timedelta(minutes=1)) == [made.id]
    assert made.result is not None
    assert (made.result.status, made.result.parent_id) == ("expired", None)


def test_a_naive_time_is_refused(store: Repository, tree: Tree, main: Node) -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        tree.sweep(datetime(2026, 3, 1))  # noqa: DTZ001 - on purpose
    with pytest.raises(InvalidInput, match="the clock's time"):
        Tree(store, clock=lambda: datetime(2026, 3, 1))  # noqa: DTZ001 - on purpose


def test_the_host_ticks_the_export(store: Repository, clock: Clock, tmp_path: Path, main: Node) -> None:
    file = tmp_path / "canonical.nq"
    tree = Tree(store, clock=clock, export_to=file)
    assert tree.tick().exported == file
    lines = file.read_bytes().splitlines(keepends=True)
    assert lines == sorted(lines)
    assert {str(quad) for quad in ox.parse(file.read_bytes(), format=ox.RdfFormat.N_QUADS)} == {
        str(quad) for quad in everything(store)
    }
    branch(main, "b", ttl=timedelta(minutes=50))
    assert (tree.tick(START + timedelta(minutes=59)).exported, tree.get("b").state) == (None, "expired")
    assert file.read_bytes() == b"".join(lines)
    clock.pass_by(minutes=60)
    assert tree.tick().exported == file
    assert file.read_bytes() != b"".join(lines)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".", "canonical"))] == ["canonical.nq"]


def test_an_export_every_so_often(store: Repository, clock: Clock, tmp_path: Path) -> None:
    tree = Tree(store, clock=clock, export_to=tmp_path / "a.nq.gz", export_every=timedelta(minutes=5))
    found = [tree.tick(START + timedelta(minutes=minute)).exported is not None for minute in range(11)]
    assert [minute for minute, written in enumerate(found) if written] == [0, 5, 10]
    with pytest.raises(InvalidInput, match="export_every"):
        Tree(store, export_to=tmp_path / "a.nq", export_every=timedelta(0))


# --- restarts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "restarted.trails"


def reopened(folder: Path, clock: Clock) -> tuple[Repository, Tree]:
    store = trails.open(folder, create=True, durability="process")
    return store, Tree(store, clock=clock)


def test_a_restart_brings_mains_and_resting_branches_back_and_fails_the_rest(folder: Path, clock: Clock) -> None:
    store, tree = reopened(folder, clock)
    with store:
        main = tree.main("planner", "chat", id="main", system="Be brief.")
        main.append("user", "Plan a trip")
        resting, at_work = branch(main, "resting"), branch(main, "at-work")
        resting.append("user", "half done")
        resting.suspend()
        at_work.append("user", "lost")
        worker(at_work, "w")
        at_work.session.discard_pending()
        branch(at_work, "below").suspend()
    store, tree = reopened(folder, clock)
    with store:
        assert tree.recovered == ("at-work", "w")
        expected = {"main": "active", "resting": "suspended", "at-work": "failed", "w": "failed", "below": "expired"}
        assert {name: tree.get(name).state for name in ("main", "resting", "at-work", "w", "below")} == expected
        main = tree.main("planner", "chat")
        assert (main.id, [turn.content for turn in main.session.turns]) == ("main", ["Plan a trip"])
        told = [(result.session_id, result.status, result.error) for result in main.results()]
        why = "it was at work when its process ended, and what it had not stored is gone"
        assert told == [("at-work", "failed", why)]
        assert [result.session_id for result in tree.get("at-work").results()] == ["below", "w"]
        tree.get("resting").resume()
        tree.get("resting").append("user", "done now")
        tree.get("resting").complete()
        assert [turn.content for turn in store.load("resting").turns] == ["half done", "done now"]
        assert store.verify().ok
    store, tree = reopened(folder, clock)
    with store:
        assert tree.recovered == ()
        assert [result.session_id for result in tree.get("main").results()] == ["at-work", "resting"]


def test_a_second_tree_on_an_open_store_fails_nothing(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    again = Tree(tree.store)
    assert (again.recovered, again.get(made).state, made.state) == ((), "active", "active")
    again.get("b").complete()
    assert made.state == "completed"


@pytest.mark.slow
def test_a_restart_of_many_tells_each_parent_once(folder: Path, clock: Clock) -> None:
    store, tree = reopened(folder, clock)
    with store:
        tree = Tree(store, clock=clock, limits=Limits(children=250))
        main = tree.main("planner", "chat", id="main")
        for number in range(250):
            worker(main, f"w{number}")
    store, tree = reopened(folder, clock)
    with store:
        assert len(tree.recovered) == 250
        assert len({result.session_id for result in tree.get("main").results()}) == 250
        assert len(trails.Ledger(store).inbox("main")) == 250
        assert store.verify().ok


def test_the_next_restart_finishes_one_that_was_cut_short(
    folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trails.runtime.tree._BATCH", 2)
    store, tree = reopened(folder, clock)
    with store:
        main = tree.main("planner", "chat", id="main")
        for number in range(5):
            worker(main, f"w{number}")
    store = trails.open(folder)
    commits, commit = [], store.store.commit

    def fail_at_the_third(change: Change) -> Committed:
        commits.append(change)
        if len(commits) == 3:
            raise trails.StoreFailed("the power went out")
        return commit(change)

    monkeypatch.setattr(store.store, "commit", fail_at_the_third)
    with store, pytest.raises(trails.StoreFailed):
        Tree(store, clock=clock)
    store, tree = reopened(folder, clock)
    with store:
        assert tree.recovered == ("w4",)
        assert [result.session_id for result in tree.get("main").results()] == ["w0", "w1", "w2", "w3", "w4"]
        assert store.verify().ok


def test_a_session_that_something_else_made_is_left_alone(folder: Path, clock: Clock) -> None:
    with trails.open(folder, create=True) as store:
        store.create(id="plain", kind="worker").persist()
    store, tree = reopened(folder, clock)
    with store:
        assert (tree.recovered, store.record("plain").state) == ((), "active")
        with pytest.raises(IllegalTransition, match="takes no slot of the session tree"):
            tree.get("plain").complete()


# --- deleting, redacting, moving


def test_a_session_is_not_deleted_while_it_has_children(tree: Tree, main: Node) -> None:
    branch(main, "b")
    with pytest.raises(HasChildren):
        tree.store.delete("main")
    assert sorted(tree.store.delete("main", children="cascade")) == ["b", "main"]
    assert tree.mains() == [] or tree.main("planner", "chat").id != "main"


def test_a_session_that_was_deleted_is_no_hindrance_to_a_sweep(tree: Tree, main: Node, clock: Clock) -> None:
    branch(main, "b1")
    branch(main, "b2")
    tree.store.delete("b1")
    clock.pass_by(hours=1)
    assert tree.sweep() == ["b2"]


HIDDEN = "the code is 1234"


def texts(store: Repository) -> str:
    return "\n".join(str(quad) for quad in everything(store))


def test_redacting_a_turn_reaches_the_result_that_it_was_made_from(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    tree.incorporate(made.fail(HIDDEN, summary=HIDDEN))
    tree.store.redact("main", 0)
    assert HIDDEN not in texts(tree.store)
    result = made.result
    assert result is not None
    assert (result.status, result.summary, result.error) == ("failed", None, None)


def test_redacting_a_turn_names_the_tasks_that_repeat_it(tree: Tree, main: Node) -> None:
    main.append("user", HIDDEN)
    main.spawn("branch", HIDDEN, HIDDEN, id="b")
    found = tree.store.redact("main", 0)
    assert [entry[-8:] for entry in found.ledger_quotes] == ["ledger/2", "ledger/3"]


def test_a_branch_inherits_no_prompt_that_is_redacted_meanwhile(
    tree: Tree, main: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Thread(target=tree.store.redact_matching, args=("Be brief",))
    read = Lifecycle._persona

    def read_and_wait(tending: Lifecycle, live: Any) -> Any:
        found = read(tending, live)
        if not begun.ident:
            begun.start()
            begun.join(5)
        return found

    monkeypatch.setattr(Lifecycle, "_persona", read_and_wait)
    made = branch(main, "b")
    begun.join()
    assert "Be brief" not in texts(tree.store)
    assert made.id == "b"


def test_texts_can_be_taken_out(tree: Tree, main: Node) -> None:
    made = main.spawn("branch", HIDDEN, HIDDEN, id="b")
    made.cancel(HIDDEN)
    made.fail(HIDDEN, summary=HIDDEN)
    assert tree.withhold("b") == 6
    assert HIDDEN not in texts(tree.store)
    assert tree.withhold("b") == 0
    (result,) = main.results()
    assert result.summary is None
    with pytest.raises(InvalidInput, match="was taken out; say what to write instead"):
        tree.incorporate(result)
    assert tree.incorporate(result, "It failed").content == "It failed"


def exported(store: Repository, name: str) -> bytes:
    out = BytesIO()
    export_session(store, name, "nquads", out)
    return out.getvalue()


def test_a_session_of_the_tree_moves_to_another_store_whole(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    made.append("user", "hello")
    tree.incorporate(made.complete("done", artifacts=[("file:///a", "created", SHA)], memory_ids=["m1"]))
    with trails.open(":memory:") as other:
        for name in ("main", "b"):
            assert import_rdf(other, exported(tree.store, name), "nquads").problems == []
            assert exported(other, name) == exported(tree.store, name)
            assert import_rdf(other, exported(tree.store, name), "nquads").unchanged == [name]
        assert other.verify().ok
        there = Tree(other)
        assert there.main("planner", "chat").id == "main"
        assert there.get("b").result == made.result


def test_a_main_that_is_imported_takes_no_place_that_is_taken(tree: Tree, main: Node) -> None:
    with trails.open(":memory:") as other:
        theirs = Tree(other).main("planner", "chat", id="theirs")
        report = import_rdf(other, exported(tree.store, "main"), "nquads")
        assert "without its slot of the session tree, which 'theirs' takes here" in report.problems[0].reason
        assert other.verify().ok
        assert Tree(other).main("planner", "chat") == theirs


def test_two_in_one_slot_are_found(tmp_path: Path) -> None:
    with trails.open(":memory:") as store:
        tree = Tree(store, clock=Clock())
        tree.main("planner", "chat", id="one")
        tree.main("planner", "mail", id="two")
        node = ox.NamedNode(iris.session("two"))
        swapped = [
            (vocab.SLOT, iris.main_slot("planner", "mail"), iris.main_slot("planner", "chat")),
            (vocab.CHANNEL, "mail", "chat"),
        ]
        for predicate, old, new in swapped:
            store.store.commit(
                Change(
                    add=[ox.Quad(node, predicate, ox.Literal(new))], remove=[ox.Quad(node, predicate, ox.Literal(old))]
                )
            )
        assert rows(store, "tree-two-mains") == [
            ("urn:trails:agent:planner", "chat", "urn:trails:session:one", START),
            ("urn:trails:agent:planner", "chat", "urn:trails:session:two", START),
        ]
        assert "bad-row" in {finding.code for finding in store.verify().findings}


@pytest.mark.parametrize(
    ("predicate", "old", "new", "code"),
    [
        (vocab.TO_STATE, "completed", "failed", "row-altered"),
        (vocab.STATUS, "completed", "failed", "row-altered"),
        (vocab.VALUE, "done", "other", "digest-mismatch"),
        (vocab.URI, "file:///a", "file:///b", "row-altered"),
        (vocab.TIER, "large", "small", "row-altered"),
    ],
)
def test_verify_finds_what_was_altered_in_the_tree(predicate: ox.NamedNode, old: str, new: str, code: str) -> None:
    with trails.open(":memory:") as store:
        made = branch(Tree(store, clock=Clock()).main("planner", "chat", id="main"), "b", tier="large")
        made.complete("done", artifacts=[("file:///a", "created")])
        (quad,) = store.store.quads((None, predicate, ox.Literal(old), None))
        altered = ox.Quad(quad.subject, quad.predicate, ox.Literal(new), quad.graph_name)
        store.store.commit(Change(remove=[quad], add=[altered]))
        assert code in {finding.code for finding in store.verify().findings}


# --- looking at it


def test_a_handle_says_what_it_is(tree: Tree, main: Node) -> None:
    made = branch(main, "b")
    assert repr(made) == "<Node 'b': branch of 'planner', active>"
    assert "1 sessions" not in repr(tree)
    assert {made, tree.get("b")} == {made}
    assert made != main
    with pytest.raises(SessionNotFound):
        tree.get("nobody")


def test_the_tree_is_seen_from_outside(store: Repository, tree: Tree, main: Node, clock: Clock) -> None:
    from trails.runtime.tree import tree_overview

    made = branch(main, "b")
    below = branch(made, "below")
    for number in range(6):
        worker(main, f"w{number}")
    made.append("assistant", "hm", model="m-1", usage={"input_tokens": 12, "output_tokens": 4})
    clock.pass_by(minutes=2)
    made.complete()
    seen = {each.id: each for each in tree_overview(store)}
    assert list(seen) == ["main", "b", "below", *(f"w{number}" for number in range(6))]
    assert (seen["below"].depth, seen["below"].orphan, seen["b"].orphan) == (2, True, False)
    assert (seen["b"].tokens, seen["main"].tokens) == (16, None)
    assert (seen["b"].last, seen["below"].last) == (START + timedelta(minutes=2), START)
    assert seen["below"].due == START + timedelta(minutes=2, seconds=30)
    assert seen["below"].is_stuck(clock(), timedelta(minutes=2))
    assert not seen["below"].is_stuck(clock(), timedelta(minutes=3))
    assert not seen["main"].is_stuck(clock(), timedelta(0))
    assert (seen["main"].near(Limits()), seen["main"].near(Limits(children=7))) == ((), ("children 6/7",))
    assert [each.id for each in tree_overview(store, "b")] == ["b", "below"]
    below.fail("no")


def test_an_empty_store_has_no_tree(store: Repository) -> None:
    from trails.runtime.tree import tree_overview

    assert tree_overview(store) == []
    assert Tree(store).mains() == []


# --- the command


def shown(store_folder: Path, *arguments: str) -> str:
    result = invoke("runs", "tree", *arguments, "--store", store_folder, width=200)
    ok(result)
    return result.output


@pytest.fixture
def filled(folder: Path) -> Path:
    """A store with a main and three below it, made an hour ago; the second branch has outlived its main."""
    clock = Clock()
    clock.now = datetime.now(UTC) - timedelta(hours=1)
    store, tree = reopened(folder, clock)
    with store:
        main = tree.main("planner", "chat", id="main")
        made = branch(main, "b", ttl=timedelta(hours=9))
        worker(made, "w", ttl=timedelta(hours=9))
        made.append("assistant", "hm", model="m-1", usage={"input_tokens": 1200, "output_tokens": 34})
        made.suspend()
        clock.pass_by(seconds=1)
        branch(tree.main("planner", "mail", id="mail"), "left", ttl=timedelta(hours=9))
        tree.get("mail").complete()
        tree.main("cook", "chat", id="ended").complete()
    return folder


def test_the_command_draws_what_has_not_ended_and_what_stands_above_it(filled: Path) -> None:
    drawn = [line.split()[:3] for line in shown(filled).splitlines()[2:]]
    assert drawn == [
        ["main", "main", "active"],
        ["└─", "b", "branch"],
        ["└─", "w", "worker"],
        ["mail", "main", "completed"],
        ["└─", "left", "branch"],
    ]
    assert "orphan" in shown(filled)
    assert "ended " in shown(filled, "--all")
    assert [line.split()[0] for line in shown(filled, "b").splitlines()[2:]] == ["b", "└─"]


def test_the_command_finds_what_is_stuck_what_is_left_over_and_what_costs_most(filled: Path) -> None:
    def ids(*arguments: str) -> list[str]:
        return [each["id"] for each in json.loads(shown(filled, *arguments, "--json"))]

    assert ids("--stuck", "30") == ["w", "left"]
    assert ids("--stuck", "90") == []
    assert ids("--orphans") == ["left"]
    assert ids("--top", "tokens")[0] == "b"
    assert "nothing in the session tree is stuck" in shown(filled, "--stuck", "90")
    assert "1,234" in shown(filled, "--top", "tokens")
    (found,) = json.loads(shown(filled, "--orphans", "--json"))
    assert (found["parent_id"], found["state"], found["depth"], found["orphan"]) == ("mail", "active", 1, True)
    assert 3590 < found["age_seconds"] < 7200  # made an hour ago less a second, some moments before


def test_the_command_says_where_there_is_no_tree(folder: Path) -> None:
    trails.open(folder, create=True).close()
    assert "no session of the session tree is active or suspended" in shown(folder)
    assert json.loads(shown(folder, "--json")) == []
