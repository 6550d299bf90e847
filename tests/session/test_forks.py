"""Forks share their prefix and copy nothing; detaching, flattening and deleting keep every other session whole."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.machines import examples
from tests.support.sessions import contents, say
from trails import HasChildren, InvalidInput, Repository, Session, SessionNotFound
from trails.model import iris
from trails.rdf import vocab


def test_a_fork_stores_at_most_12_quads_however_long_its_parent(store: Repository) -> None:
    sizes = []
    for length in (1, 300):
        parent = say(store.create(principal="alice", agent="planner", system="Be brief"), *"x" * length)
        before = len(store.store)
        parent.fork().persist()
        sizes.append(len(store.store) - before)
    assert sizes[0] == sizes[1] <= 12


def test_ten_forks_of_a_5000_turn_session_with_one_turn_each_write_ten_turns() -> None:
    with trails.open(":memory:") as store:
        parent = store.create()
        for number in range(5000):
            parent.append("user", str(number))
        parent.persist()
        before = len(store.store)
        for number in range(10):
            say(parent.fork(at=2500), f"branch {number}")
        assert store.info()["turns"] == 5010
        assert len(store.store) - before <= 10 * (12 + 10)


def test_a_fork_has_a_branch_name_of_its_own_and_the_parents_principal_and_agent(store: Repository) -> None:
    parent = say(store.create(id="p", principal="alice", agent="planner"), "a", "b")
    fork = parent.fork(at=1, meta={"temperature": 0.5})
    fork.persist()
    loaded = store.load(fork.id)
    assert (loaded.parent_session_id, loaded.forked_at_index, loaded.principal, loaded.agent) == (
        "p",
        1,
        "alice",
        "planner",
    )
    assert loaded.branch.startswith("fork-")
    assert len(loaded.branch) == len("fork-") + 8
    assert loaded.meta == {"temperature": 0.5}
    other = parent.fork(principal="bob")
    say(other, "hi")
    assert store.load(other.id).turns[2].author == "bob"


def test_a_fork_at_the_end_at_the_start_and_of_an_empty_session(store: Repository) -> None:
    parent = say(store.create(id="p"), "a", "b")
    assert parent.fork().forked_at_index == 2
    start = say(parent.fork(at=0, id="start"), "z")
    assert [turn.content for turn in start.turns] == ["z"]
    empty = store.create(id="empty")
    child = say(empty.fork(id="child"), "first")
    assert (child.forked_at_index, contents(store, "child"), contents(store, "empty")) == (0, ["first"], [])


def test_forking_persists_what_the_parent_has_pending(store: Repository) -> None:
    parent = store.create(id="p")
    parent.append("user", "pending")
    fork = parent.fork()
    assert parent.pending == 0
    assert contents(store, "p") == ["pending"]
    assert fork.id not in store
    assert fork.persist() == 0
    assert contents(store, fork.id) == ["pending"]


def test_the_second_fork_of_a_parent_and_a_fork_of_a_fork_have_their_contents(store: Repository) -> None:
    parent = say(store.create(id="p"), "a", "b", "c")
    first = say(parent.fork(at=2, id="first"), "d", "e")
    say(parent.fork(at=2, id="second"), "f")
    say(first.fork(at=3, id="third"), "g")
    say(first.fork(at=1, id="fourth"), "h")
    assert {name: contents(store, name) for name in ("first", "second", "third", "fourth")} == {
        "first": ["a", "b", "d", "e"],
        "second": ["a", "b", "f"],
        "third": ["a", "b", "d", "g"],
        "fourth": ["a", "h"],
    }
    assert [record.id for record in store.branches("p")] == ["first", "second"]
    assert [record.id for record in store.branches("first")] == ["third", "fourth"]


def test_what_a_parent_appends_after_the_fork_never_shows_in_the_child(store: Repository) -> None:
    parent = say(store.create(id="p"), "a")
    say(parent.fork(id="child"), "b")
    say(parent, "later", "still later")
    assert contents(store, "child") == ["a", "b"]


def test_the_head_of_a_fork_commits_to_the_shared_history(store: Repository) -> None:
    parent = say(store.create(), "a", "b")
    fork = parent.fork(at=1)
    assert fork.head == parent.turns[0].digest
    one, two = say(parent.fork(), "same words"), say(parent.fork(at=1), "same words")
    assert one.head != two.head


def test_a_fork_deep_in_a_long_parent_reads_only_the_shared_part(store: Repository) -> None:
    parent = store.create(id="p")
    for number in range(400):
        parent.append("user", f"t{number}", meta={"n": number})
    parent.persist()
    fork = say(parent.fork(at=5, id="f"), "own")
    assert store.load("f").turns == fork.turns
    assert [turn.meta for turn in store.load("f").turns[:5]] == [{"n": n} for n in range(5)]


# --- detach and flatten


def _family(store: Repository) -> dict[str, list[str]]:
    root = say(store.create(id="root", system="Be brief"), "a", "b", "c")
    child = say(root.fork(at=2, id="child"), "d", "e")
    say(child.fork(at=3, id="grandchild"), "f")
    say(child.fork(at=1, id="early"), "g")
    return {
        "root": ["a", "b", "c"],
        "child": ["a", "b", "d", "e"],
        "grandchild": ["a", "b", "d", "f"],
        "early": ["a", "g"],
    }


def test_detaching_cuts_the_parent_off_and_changes_no_transcript_and_no_head(store: Repository) -> None:
    expected = _family(store)
    heads = {name: store.load(name).head for name in expected}
    child = store.load("child").detach()
    assert (child.parent_session_id, child.forked_at_index) == (None, None)
    assert {name: contents(store, name) for name in expected} == expected
    assert {name: store.load(name).head for name in expected} == heads
    assert store.load("child").system == store.load("grandchild").system == "Be brief"
    assert {turn.session_id for turn in store.load("child").turns} == {"child"}
    assert store.verify().ok
    store.delete("root")
    assert contents(store, "grandchild") == expected["grandchild"]
    assert contents(store, "early") == expected["early"]
    assert store.verify().ok


def test_copies_name_their_originals_and_keep_author_and_time(store: Repository) -> None:
    _family(store)
    originals = store.load("child").turns
    copies = store.load("child").detach().turns
    assert [(t.author, t.time, t.branch, t.digest) for t in copies] == [
        (t.author, t.time, t.branch, t.digest) for t in originals
    ]
    pairs = store.query(
        "SELECT ?copy ?original { GRAPH ?g { ?copy prov:alternateOf ?original } } ORDER BY ?copy"
    ).to_dicts()  # type: ignore[union-attr] # a SELECT
    assert pairs == [{"copy": copies[n].iri, "original": originals[n].iri} for n in (0, 1)]


def test_detaching_a_root_and_detaching_twice_change_nothing(store: Repository) -> None:
    _family(store)
    store.load("child").detach()
    before = sorted(map(str, store.store.quads((None, None, None, None))))
    store.load("child").detach()
    store.load("root").detach()
    assert sorted(map(str, store.store.quads((None, None, None, None)))) == before


def test_a_detach_that_was_cut_short_shows_nowhere_and_can_be_repeated(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _family(store)

    def cut(*_: object) -> NoReturn:  # the copies are there, the last commit is not
        raise InvalidInput("cut short")

    with monkeypatch.context() as patch:
        patch.setattr("trails.history.removal.detach._batch_leaf", cut)
        with pytest.raises(InvalidInput, match="cut short"):
            store.load("child").detach()
    assert {name: contents(store, name) for name in expected} == expected
    assert store.verify().ok
    store.load("child").detach()
    assert {name: contents(store, name) for name in expected} == expected
    assert store.verify().ok


def test_flattening_makes_a_root_with_the_same_turns_and_leaves_the_source_alone(store: Repository) -> None:
    expected = _family(store)
    source = store.load("grandchild")
    flat = source.flatten(id="flat", label="flattened")
    assert (flat.parent_session_id, flat.label, flat.head) == (None, "flattened", source.head)
    assert contents(store, "flat") == expected["grandchild"]
    assert flat.system == "Be brief"
    assert store.load("grandchild").parent_session_id == "child"
    with pytest.raises(InvalidInput, match="choose another id"):
        source.flatten(id="flat")
    assert store.verify().ok


def test_tool_calls_answered_across_the_fork_point_stay_answered_after_detaching(store: Repository) -> None:
    root = store.create(id="root")
    root.append("assistant", [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}])
    fork = root.fork(id="fork")
    fork.append("tool", "files", tool_call_id="t1")
    fork.persist()
    fork.detach()
    store.delete("root")
    [row] = store.query(
        "SELECT ?made ?copy ?turn { GRAPH ?g { ?turn prov:wasGeneratedBy ?made ; trails:toolResult ?result . "
        "?result trails:answers ?made ; trails:answersCopy ?copy . ?copy a trails:ToolCallCopy } }"
    ).to_dicts()  # type: ignore[union-attr] # a SELECT
    asked, answered = store.load("fork").turns
    made = iris.tool_call(asked.iri.replace(":fork/", ":root/"), 0)  # it was made once, in the parent
    assert row == {"made": made, "copy": iris.tool_call(asked.iri, 0), "turn": answered.iri}
    assert store.query("unanswered-tool-calls").to_dicts() == []  # type: ignore[union-attr] # a SELECT
    assert store.verify().ok


# --- delete


def test_a_session_with_forks_is_not_deleted_and_the_forks_are_named(store: Repository) -> None:
    expected = _family(store)
    with pytest.raises(HasChildren, match=r"'root' has 1 dependent sessions \('child'\)"):
        store.delete("root")
    with pytest.raises(HasChildren, match="'early', 'grandchild'"):
        store.delete("child")
    assert {name: contents(store, name) for name in expected} == expected


def test_a_session_that_spawned_another_is_not_deleted_either(store: Repository) -> None:
    say(store.create(id="boss"), "a")
    say(store.create(id="worker", spawned_by="boss"), "b")
    with pytest.raises(HasChildren, match="worker"):
        store.delete("boss")
    with pytest.raises(HasChildren, match="worker"):
        store.delete("boss", children="detach")
    assert store.delete("boss", children="cascade") == ["boss", "worker"]


def test_cascading_deletes_everything_below_and_nothing_else(store: Repository) -> None:
    expected = _family(store)
    assert sorted(store.delete("child", children="cascade")) == ["child", "early", "grandchild"]
    assert contents(store, "root") == expected["root"]
    assert store.info() | {"location": "", "quads": 0} == {
        "location": "", "quads": 0, "sessions": 1, "forks": 0, "deleted": 3, "turns": 3,
    }  # fmt: skip
    assert store.verify().ok


def test_detaching_the_children_on_deletion_keeps_their_transcripts(store: Repository) -> None:
    expected = _family(store)
    assert store.delete("root", children="detach") == ["root"]
    assert {name: contents(store, name) for name in ("child", "grandchild", "early")} == {
        name: expected[name] for name in ("child", "grandchild", "early")
    }
    assert store.verify().ok


def test_a_deleted_session_leaves_a_tombstone_that_says_who_and_when_and_its_id_is_not_used_again(
    store: Repository,
) -> None:
    say(store.create(id="s", principal="alice", label="mine"), "secret")
    store.delete("s", by="bob")
    with pytest.raises(SessionNotFound, match="was deleted"):
        store.load("s")
    with pytest.raises(InvalidInput, match="was deleted, and its id is not used again"):
        store.create(id="s").persist()
    assert (
        store.query(
            "ASK { ?s a trails:Tombstone ; prov:wasInvalidatedBy [ prov:wasAssociatedWith <urn:trails:principal:bob> ] }"
        )
        is True
    )
    assert store.query('ASK { GRAPH ?g { ?t prov:value "secret" } }') is False
    store.create(id="other", label="mine").persist()


def test_a_handle_on_a_deleted_session_cannot_write_to_it(store: Repository) -> None:
    session = say(store.create(id="s"), "a")
    store.delete("s")
    session.append("user", "too late")
    with pytest.raises(SessionNotFound, match="was deleted"):
        session.persist()
    fork = session.fork(at=0, id="f") if session.discard_pending() else None
    assert fork is not None
    with pytest.raises(SessionNotFound, match="'s' was deleted"):
        fork.persist()
    fork.discard_pending()
    assert store.info()["turns"] == 0


def test_an_interrupted_sweep_goes_on_when_the_store_is_opened_again(opener: Any) -> None:
    store = opener("sweep")
    if store.store.location == ":memory:":
        pytest.skip("a store in memory is never opened again")
    from trails.history.removal import deletion

    say(store.create(id="s"), "a")
    deletion.delete_session(store.store, store.reader, "s", deed=store.workspace.deed("alice"), cascade=False)
    assert store.store.quads((None, None, None, vocab.TYPE)) == []
    assert store.verify().ok
    store.close()
    with trails.open(store.store.location) as again:
        assert again.info()["turns"] == 0
        assert again.query("ASK { ?s trails:pendingSweep true }") is False


# --- properties


@st.composite
def _fork_trees(draw: Any) -> list[tuple[int, int, int]]:
    """A list of sessions, each as (parent's place in the list or -1, fork index in percent, turns of its own)."""
    size = draw(st.integers(1, 8))
    return [(draw(st.integers(-1, n - 1)), draw(st.integers(0, 100)), draw(st.integers(0, 4))) for n in range(size)]


@given(tree=_fork_trees(), detached=st.integers(0, 7))
@examples(30)
def test_any_fork_tree_loads_as_prefix_and_tail_before_and_after_detaching_any_of_its_sessions(
    tree: list[tuple[int, int, int]], detached: int
) -> None:
    model: list[list[str]] = []
    with trails.open(":memory:") as store:
        handles: list[Session] = []
        for number, (parent, percent, own) in enumerate(tree):
            if parent < 0:
                prefix, session = [], store.create(id=f"s{number}")
            else:
                at = len(model[parent]) * percent // 100
                prefix, session = model[parent][:at], handles[parent].fork(at=at, id=f"s{number}")
            tail = [f"s{number} turn {n}" for n in range(own)]
            say(session, *tail)
            handles.append(session)
            model.append(prefix + tail)
        assert [contents(store, f"s{n}") for n in range(len(tree))] == model
        assert store.info()["turns"] == sum(own for _, _, own in tree)
        store.load(f"s{detached % len(tree)}").detach()
        assert [contents(store, f"s{n}") for n in range(len(tree))] == model
        assert store.verify().ok


@pytest.mark.parametrize("call", [{"id": ""}, {"label": []}, {"by": 0}, {"detach": 0}], ids=str)
def test_a_refused_flatten_or_detach_stores_no_pending_turns(store: Repository, call: dict[str, Any]) -> None:
    parent = store.create(id="parent")
    parent.append("user", "a")
    parent.persist()
    fork = parent.fork(at=1, id="fork")
    fork.persist()
    fork.append("user", "pending")
    with pytest.raises(InvalidInput):
        fork.detach(by=call["detach"]) if "detach" in call else fork.flatten(**call)
    assert (fork.pending, len(store.load("fork"))) == (1, 1)
    fork.discard_pending()
