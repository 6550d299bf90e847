"""Sessions: what is appended is kept exactly, persisted once, and found again."""

from __future__ import annotations

import gc
import linecache
import subprocess
import sys
import warnings
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from trails import HeadConflict, InvalidInput, Repository, SessionNotFound, ToolCall
from trails.model.content_parts import holds_anything


def test_nothing_is_stored_until_persist_and_persist_writes_only_what_is_new(store: Repository) -> None:
    session = store.create(id="plan")
    session.append("user", "Plan a trip")
    assert "plan" not in store
    assert session.persist() == 1
    session.append("assistant", "Where to?")
    session.append("user", "Rome")
    assert [turn.content for turn in store.load("plan").turns] == ["Plan a trip"]
    assert session.persist() == 2
    assert session.persist() == 0
    assert [turn.content for turn in store.load("plan").turns] == ["Plan a trip", "Where to?", "Rome"]


def test_a_session_without_turns_can_be_stored(store: Repository) -> None:
    session = store.create(id="empty", principal="alice", agent="planner", label="my label", meta={"run": 1})
    assert session.persist() == 0
    loaded = store.load("empty")
    assert (len(loaded), loaded.principal, loaded.agent, loaded.label, loaded.meta) == (
        0, "alice", "planner", "my label", {"run": 1},
    )  # fmt: skip


def test_a_plain_turn_is_ten_quads_and_the_index_is_not_copied_anywhere(store: Repository) -> None:
    session = store.create()
    session.persist()
    before = len(store.store)
    session.append("user", "hello")
    session.persist()
    assert len(store.store) - before == 10


def test_everything_given_with_a_turn_comes_back(store: Repository) -> None:
    session = store.create(id="s", principal="alice", agent="planner")
    when = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    session.append("user", "Plan", time=when)
    session.append(
        "assistant",
        "Thinking",
        model="m-1",
        usage={"input_tokens": 12, "output_tokens": 4, "cost": 0.0165, "extra": {"tier": "x"}},
        stop_reason="tool_use",
        tool_calls=[
            {"id": "c1", "name": "ls", "arguments": {"path": "/"}},
            ToolCall(id="c2", name="cat", arguments="{}"),
        ],
        meta={"request": "r-1", "list": [1, None, True]},
    )
    session.append("tool", "not found", tool_call_id="c1", is_error=True)
    session.append("user", "carry on", author="bob")
    session.append("assistant", "done", author="agent:helper")
    session.persist()
    plan, thinking, answer, on, done = store.load("s").turns
    assert plan.time == when
    assert plan.time is not None
    assert plan.time.tzinfo == UTC
    assert (plan.role, plan.author, plan.branch, plan.session_id, plan.index) == ("user", "alice", "main", "s", 0)
    assert (thinking.model, thinking.facts.model_call.stop_reason) == ("m-1", "tool_use")  # type: ignore[union-attr] # is one
    assert thinking.usage == {"input_tokens": 12, "output_tokens": 4, "cost": 0.0165, "extra": {"tier": "x"}}
    assert [(call.id, call.name, call.input) for call in thinking.tool_calls] == [
        ("c1", "ls", {"path": "/"}),
        ("c2", "cat", {}),
    ]
    assert thinking.meta == {"request": "r-1", "list": [1, None, True]}
    assert (answer.tool_results[0].call_id, answer.tool_results[0].is_error, answer.author_iri) == (
        *("c1", True),
        "urn:trails:tool:ls",
    )
    assert (on.author, done.author) == ("bob", "helper")
    assert store.load("s").turns == session.turns


def test_tool_calls_among_structured_parts_are_found_and_linked_to_their_answers(store: Repository) -> None:
    session = store.create(id="s")
    parts = [{"type": "text", "text": "Look"}, {"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": [1]}}]
    session.append("assistant", parts)
    session.append("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "files", "is_error": False}])
    session.persist()
    asked, answered = store.load("s").turns
    assert asked.content == parts
    row = store.query(
        "SELECT ?name ?arguments ?asked ?answered ?error { GRAPH ?g {"
        " ?call a trails:ToolCall ; trails:toolName ?name ; trails:arguments ?arguments ; prov:wasStartedBy ?asked ."
        " ?answered prov:wasGeneratedBy ?call ; trails:toolResult ?result ."
        " ?result trails:answers ?call ; trails:isError ?error } }"
    ).to_dicts()  # type: ignore[union-attr] # a SELECT
    assert row == [
        {"name": "ls", "arguments": {"a": [1]}, "asked": asked.iri, "answered": answered.iri, "error": False}
    ]


def test_token_counts_and_cost_are_numbers_that_queries_can_add(store: Repository) -> None:
    session = store.create()
    session.append("assistant", "a", model="m", usage={"input_tokens": 10, "output_tokens": 1})
    session.append("assistant", "b", model="m", usage={"input": 5, "output": 2, "cost": {"total": 0.25}})
    session.append("assistant", "c", model="m", usage={"prompt_tokens": 3, "completion_tokens": 4})
    session.persist()
    sums = store.query(
        "SELECT (SUM(?i) AS ?in) (SUM(?o) AS ?out) { GRAPH ?g { ?c trails:inputTokens ?i ; trails:outputTokens ?o } }"
    ).to_dicts()  # type: ignore[union-attr] # a SELECT
    assert sums == [{"in": 18, "out": 7}]
    assert store.query("ASK { GRAPH ?g { ?c trails:cost 0.25 } }") is True


def test_content_given_as_parts_cannot_be_changed_from_outside(store: Repository) -> None:
    session = store.create()
    turn = session.append("user", [{"type": "text", "text": "a"}])
    session.persist()
    turn.content[0]["text"] = "changed"
    assert turn.content == [{"type": "text", "text": "a"}]
    with pytest.raises(Exception, match="frozen"):
        turn.index = 5


def test_the_principal_can_be_assigned_until_the_first_persist_and_then_not(store: Repository) -> None:
    session = store.create(principal="alice")
    session.append("user", "hi")
    provisional = session.head
    session.principal = "bob"
    assert session.turns[0].author == "bob"
    assert session.head != provisional
    session.persist()
    with pytest.raises(InvalidInput, match="fork it with another principal"):
        session.principal = "carol"
    assert store.load(session.id).principal == "bob"
    assert store.verify().ok


def test_an_imported_line_without_a_time_has_none(store: Repository) -> None:
    from trails.history import turn_builder

    session = store.create(id="s")
    session.worktree.append(turn_builder.make_draft("user", "old", timed=False))
    session.append("user", "new")
    session.persist()
    first, second = store.load("s").turns
    assert first.time is None
    assert second.time is not None


def test_an_unclosed_session_warns_and_its_pending_turns_are_not_written(tmp_path: Path) -> None:
    store = trails.open(tmp_path / "x", create=True)
    session = store.create(id="s")
    session.persist()
    session.append("user", "a")
    session.append("user", "b")
    with pytest.warns(trails.PendingTurnsWarning, match="'s' is left with 2 turns") as caught:
        store.close()
    assert caught[0].filename == __file__
    assert 'session.append("user", "a")' in linecache.getline(__file__, caught[0].lineno)
    del session  # which warns no second time
    with trails.open(tmp_path / "x") as store:
        assert len(store.load("s")) == 0


def test_a_store_that_is_open_when_the_program_ends_is_flushed_closed_and_warns_of_what_is_pending(
    tmp_path: Path,
) -> None:
    code = (
        "import sys, trails; store = trails.open(sys.argv[1], create=True); s = store.create(id='s');"
        "s.append('user', 'kept'); s.persist(); s.append('user', 'pending')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "PendingTurnsWarning: session 's' is left with 1 turn that was appended" in done.stderr
    assert not (tmp_path / "x" / "trails.db-wal").exists()  # it was closed
    with trails.open(tmp_path / "x") as store:
        assert store.replay("s")[0]["content"] == "kept"


def test_an_unclosed_store_warns(tmp_path: Path) -> None:
    store = trails.open(tmp_path / "x", create=True)
    with pytest.warns(ResourceWarning, match="was not closed") as caught:
        del store
    assert caught[0].filename == __file__
    trails.open(tmp_path / "x").close()


@pytest.mark.filterwarnings("ignore:the store:ResourceWarning")
def test_a_session_keeps_its_store_open_and_lets_it_go(tmp_path: Path) -> None:
    def opened() -> trails.Session:
        return trails.open(tmp_path / "x", create=True).session("c")

    session = opened()
    gc.collect()
    session.append("user", "a")
    assert session.persist() == 1
    assert trails.open(tmp_path / "x", read_only=True).replay("c")[0]["content"] == "a"
    del session
    trails.open(tmp_path / "x").close()  # nobody has it open any more


@pytest.mark.filterwarnings("ignore:the store:ResourceWarning")
@pytest.mark.parametrize("autopersist", [False, True])
def test_a_turn_that_is_appended_in_one_expression_is_stored_or_warned_of(tmp_path: Path, autopersist: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trails.open(tmp_path / "x", create=True).session("c", autopersist=autopersist).append("user", "a")
    told = [(str(each.message)[:38], each.filename) for each in caught if each.category is not ResourceWarning]
    assert told == ([] if autopersist else [("session 'c' is left with 1 turn that w", __file__)])
    with trails.open(tmp_path / "x") as store:
        assert len(store.load("c")) == autopersist


def test_a_fork_that_is_refused_is_one_error_and_no_warning_of_a_fork_that_nobody_has(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(InvalidInput, match="belongs to session 'plan'") as raised:  # noqa: SIM117, PT012 - it leaves the block
        with trails.open(tmp_path / "x", create=True) as store:
            plan = store.create(id="plan", label="trip")
            plan.persist()
            plan.append("user", "a")
            plan.fork(label="trip")
    assert raised.traceback  # which holds on to the fork that was refused, as a notebook does
    (warning,) = recwarn
    assert str(warning.message).startswith("session 'plan' is left with 1 turn that was appended and not persisted;")


def test_a_handle_that_is_dropped_with_pending_turns_warns_while_its_store_is_open(tmp_path: Path) -> None:
    with trails.open(tmp_path / "x", create=True) as store:
        with pytest.warns(trails.PendingTurnsWarning, match="'c' is left with 1 turn"):
            store.session("c").append("user", "a")
        session = store.session("c")
        session.append("user", "b")
        session.discard_pending()
        del session  # nothing is pending


def test_a_system_prompt_that_is_set_and_not_persisted_warns(tmp_path: Path) -> None:
    store = trails.open(tmp_path / "x", create=True)
    session = store.session("c")
    session.set_system("Be brief.")
    with pytest.warns(trails.PendingTurnsWarning, match="a system prompt that was set"):
        store.close()


EXITS = {
    "at its end": ("", 1),
    "by an exception": ("raise ValueError('meant')", 1),
    "by sys.exit": ("sys.exit(0)", 1),
    "by os._exit": ("os._exit(0)", 0),
    "beside a daemon thread": ("import threading as t; t.Thread(target=t.Event().wait, daemon=True).start()", 1),
    "after a forked child": ("p = m.get_context('fork').Process(target=int); p.start(); p.join()", 1),
    "where warnings are errors": (
        "other = trails.open(sys.argv[1] + '2', create=True); warnings.simplefilter('error')",
        1,
    ),
    "within a circle": ("class A: pass\na = A(); a.me, a.store, a.s = a, store, s; del a, store, s", 1),
    "opened when all else was closed": ("w._OPEN.clear()", 0),
}


QUICK = ("by an exception", "opened when all else was closed")


@pytest.mark.parametrize(
    "exit_", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in EXITS]
)
def test_a_store_that_is_open_at_exit_ends_in_order(tmp_path: Path, exit_: str) -> None:
    ending, warned = EXITS[exit_]
    code = (
        "import os, sys, warnings, trails, multiprocessing as m, trails.history.workspace as w\n"
        "store = trails.open(sys.argv[1], create=True); s = store.create(id='s')\n"
        "s.append('user', 'kept'); s.persist(); s.append('user', 'pending')\n" + ending
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True, check=False, timeout=60
    )
    assert "AttributeError" not in done.stderr
    assert done.stderr.count("is left with 1 turn") == warned, done.stderr
    with trails.open(tmp_path / "x") as store:
        assert store.replay("s")[0]["content"] == "kept"


def test_two_handles_on_one_session_conflict_and_the_later_tail_can_be_kept_as_a_fork(store: Repository) -> None:
    store.create(id="s").persist()
    first, second = store.load("s"), store.load("s")
    first.append("user", "from the first")
    second.append("user", "from the second")
    first.persist()
    with pytest.raises(HeadConflict, match="keep_as_fork") as conflict:
        second.persist()
    assert conflict.value.actual == first.head
    assert conflict.value.expected != first.head
    assert second.pending == 1
    kept = second.keep_as_fork(id="kept")
    assert [turn.content for turn in store.load("s").turns] == ["from the first"]
    assert [turn.content for turn in store.load("kept").turns] == ["from the second"]
    assert (kept.parent_session_id, kept.forked_at_index) == ("s", 0)
    assert store.verify().ok


def test_persisting_again_after_a_lost_reply_writes_nothing_twice(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "once")
    change = session.worktree._transaction(session.worktree.turns[:], []).change()
    assert change.commit(store.store).written
    assert session.persist() == 1
    assert [turn.content for turn in store.load("s").turns] == ["once"]


def test_an_id_in_use_and_a_label_in_use_are_refused_with_the_owner_named(store: Repository) -> None:
    store.create(id="a", label="mine").persist()
    with pytest.raises(InvalidInput, match="there is a session 'a' already"):
        store.create(id="a").persist()
    with pytest.raises(InvalidInput, match="the label 'mine' belongs to session 'a'"):
        store.create(id="b", label="mine").persist()
    assert "b" not in store


def test_a_label_is_set_moved_and_cleared(store: Repository) -> None:
    store.create(id="a").persist()
    store.create(id="b").persist()
    store.set_label("a", "best run")
    assert [record.id for record in store.list(label="best run")] == ["a"]
    with pytest.raises(InvalidInput, match="belongs to session 'a'"):
        store.set_label("b", "best run")
    store.set_label("a", "other")
    store.set_label("b", "best run")
    assert store.resolve("best run") == "b"
    store.set_label("b", None)
    assert store.list(label="best run") == []
    with pytest.raises(SessionNotFound):
        store.resolve("best-run")


def test_list_pages_by_creation_newest_first_and_a_new_session_does_not_shift_the_pages(store: Repository) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(7):
        # Two sessions of each hour: pages must not lose or double those of one moment.
        store.create(id=f"s{number}", created=start + timedelta(hours=number // 2)).persist()
    first = store.list(limit=3)
    store.create(id="new", created=start + timedelta(days=1)).persist()
    second = store.list(limit=3, cursor=first.cursor)
    third = store.list(limit=3, cursor=second.cursor)
    assert [record.id for record in [*first, *second, *third]] == ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]
    assert third.cursor is None


def test_list_filters_by_principal_agent_and_time(store: Repository) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number, (principal, agent) in enumerate([("alice", "p"), ("bob", "p"), ("alice", "q")]):
        store.create(
            id=f"s{number}", principal=principal, agent=agent, created=start + timedelta(days=number)
        ).persist()

    def ids(**filters: Any) -> list[str]:
        return [record.id for record in store.list(**filters)]

    assert ids(principal="alice") == ["s2", "s0"]
    assert ids(agent="p") == ["s1", "s0"]
    assert ids(principal="alice", agent="q") == ["s2"]
    assert ids(since=start + timedelta(days=1)) == ["s2", "s1"]
    assert ids(until=start + timedelta(days=1)) == ["s0"]
    assert ids(since="2026-01-02", until="2026-01-03T00:00Z") == ["s1"]
    store.create(id="now").persist()
    assert ids(since="1h") == ids(since="yesterday", sort="activity") == ["now"]
    assert [each.id for each in store.summaries(since="7d")] == ["now"]
    for text in ("7 days", "2026-13-01", "2026-01-01T12:00", "", "999999y"):
        with pytest.raises(InvalidInput, match="since: "):
            ids(since=text)
    with pytest.raises(InvalidInput, match="no cursor"):
        store.list(cursor="yesterday")
    with pytest.raises(InvalidInput, match="limit"):
        store.list(limit=0)


def test_the_system_prompt_is_versioned_and_forks_inherit_what_was_in_force(store: Repository) -> None:
    session = store.create(id="s", system="Be brief")
    session.append("user", "a")
    session.append("user", "b")
    session.persist()
    session.set_system("Be long")
    session.append("user", "c")
    session.persist()
    early, late = session.fork(at=1, id="early"), session.fork(id="late")
    early.persist()
    late.persist()
    session.set_system("Be quiet")
    session.persist()
    late.set_system("Be loud")
    late.persist()
    prompts = {name: store.load(name).system_prompt for name in ("s", "early", "late")}
    assert {name: (p.version, p.text) for name, p in prompts.items() if p} == {
        "s": (3, "Be quiet"), "early": (1, "Be brief"), "late": (3, "Be loud"),
    }  # fmt: skip
    grandchild = store.load("late").fork(at=2, id="grandchild")
    grandchild.persist()
    assert store.load("grandchild").system == "Be long"
    assert store.verify().ok


def test_metadata_is_stored_as_typed_facts_that_queries_can_find(store: Repository) -> None:
    meta = {"temperature": 0.7, "run": 12, "ok": True, "name": "x y", "nested": {"a": [1]}, "none": None}
    store.create(id="s", meta=meta).persist()
    assert store.load("s").meta == meta
    assert (
        store.query(
            "ASK { ?s <urn:trails:meta:run> 12 ; <urn:trails:meta:temperature> 7e-1 ; <urn:trails:meta:ok> true }"
        )
        is True
    )


def test_replay_gives_plain_dicts_takes_an_iri_and_changes_nothing(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "a")
    session.append("assistant", [{"type": "text", "text": "b"}])
    session.persist()
    before = sorted(map(str, store.store.quads((None, None, None, None))))
    assert store.replay("s") == [
        {"role": "user", "content": "a", "index": 0, "branch": "main"},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}], "index": 1, "branch": "main"},
    ]
    assert store.replay(session.iri, up_to_index=1) == store.replay("s")[:1]
    assert store.replay("s", up_to_index=0) == []
    assert store.replay("s", up_to_index=99) == store.replay("s")
    assert [len(store.replay("s", up_to_index=end)) for end in (2**63 - 1, 2**63, 10**400)] == [2, 2, 2]
    assert sorted(map(str, store.store.quads((None, None, None, None)))) == before


_text = st.text(st.characters(exclude_categories=["Cs"]))
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)


_said = _text.filter(bool)


_parts = st.lists(st.dictionaries(_text, _json, max_size=3) | _text, max_size=3).filter(holds_anything)


@given(contents=st.lists(_said | _parts, max_size=5))
def test_any_text_and_any_parts_come_back_exactly(contents: list[Any]) -> None:
    with trails.open(":memory:") as store:
        session = store.create(id="s")
        for content in contents:
            session.append("user", content)
        session.persist()
        assert [turn.content for turn in store.load("s").turns] == contents
        assert store.verify().ok
