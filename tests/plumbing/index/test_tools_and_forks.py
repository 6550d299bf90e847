"""Tool calls and forks: told from the figures with the very rows that the queries give over the turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.plumbing.index.test_figures import START, _over_turns, _steps
from tests.support.machines import examples
from trails import Repository, TrailsError
from trails.plumbing import branched, failing, figured, tooled
from trails.rdf import query_files
from trails.store import Solutions

QUESTIONS = {**tooled.QUERIES, **branched.QUERIES}


def told(store: Repository, name: str, **values: Any) -> Solutions | None:
    return figured.answer(store.workspace, query_files.find(name), values, QUESTIONS)


def _with_tools(random: Random) -> list[Callable[[Repository], object]]:
    """Things that are done to a store, a third of them with tools: ids come again, answers come late, twice or never."""

    def work(store: Repository) -> None:
        session = store.load(random.choice(sorted(record.id for record in store.list(limit=100))))
        for _ in range(random.randint(1, 4)):
            time = START + timedelta(hours=random.randint(0, 60))
            if random.random() < 0.5:
                asked = [
                    {"id": random.choice("abc"), "name": random.choice(["bash", "read it", "é"]), "arguments": {"n": n}}
                    for n in range(random.randint(1, 2))
                ]
                with suppress(TrailsError):  # one id twice in a turn
                    session.append("assistant", random.choice(["", "I look", "naïve 🦉"]), tool_calls=asked, time=time)
                continue
            result: dict[str, Any] = {"call_id": random.choice("abcd"), "is_error": random.random() < 0.3}
            if random.random() < 0.5:
                result["started"] = time - timedelta(microseconds=random.randint(0, 3_000_000))
            if random.random() < 0.7:
                result["ended"] = time
            if random.random() < 0.2:
                result |= {"outcome": "rejected", "refused_by": "alice"}
            with suppress(TrailsError):
                session.append("tool", "so", tool_results=[result], time=time)
        session.persist()

    def fork(store: Repository) -> None:
        parent = store.load(random.choice(sorted(record.id for record in store.list(limit=100))))
        at = random.randint(0, len(parent))
        parent.fork(at=at, created=START + timedelta(hours=random.randint(0, 3))).persist()

    return [*_steps(random), work, work, work, work, fork, fork]


@pytest.mark.parametrize("name", sorted(QUESTIONS))
@given(seed=st.integers(0, 2**32))
@examples(60)
def test_the_rows_are_those_of_the_query_over_the_turns(name: str, seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store:
        steps = _with_tools(random)
        steps[0](store)
        for _ in range(30):
            with suppress(TrailsError, IndexError):  # what cannot be done just then
                random.choice(steps)(store)
        store.summaries()
        assert [finding for finding in store.verify().findings if finding.code.startswith("index")] == []
        parameters = {each.name for each in query_files.find(name).parameters}
        ids = [record.id for record in store.list(limit=100)]
        asked: list[dict[str, Any]] = [{}]
        if "principal" in parameters:
            asked += [{"principal": "bob"}, {"principal": ["bob", "alice"]}, {"principal": "nobody"}]
        if "session" in parameters:
            asked += [{"session": each} for each in ids[:4]] + ([{"session": ids}] if ids else [])
        if "index" in parameters:
            asked += [{"index": 0}, {"index": [1, 2]}]
        for values in asked:
            found = told(store, name, **values)
            assert found is not None, values
            expected = _over_turns(store, name, **values)
            assert [tuple(row) for row in found] == [tuple(row) for row in expected], values
            assert found.variables == expected.variables


@given(seed=st.integers(0, 2**32))
@examples(60)
def test_failed_calls_are_those_of_the_query_over_the_turns(seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store:
        steps = _with_tools(random)
        steps[0](store)
        for _ in range(40):
            with suppress(TrailsError, IndexError):
                random.choice(steps)(store)
        store.summaries()
        found = figured.answer(store.workspace, query_files.find("failed-tool-calls"), {}, failing.QUERIES)
        assert found is not None
        expected = _over_turns(store, "failed-tool-calls")
        assert Counter(tuple(row) for row in found) == Counter(tuple(row) for row in expected)
        order = [(row["session"], row["index"], row["name"]) for row in found]
        assert order == [(row["session"], row["index"], row["name"]) for row in expected]


def test_a_result_answers_the_latest_call_with_its_id_before_it_on_its_own_branch(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    for at in (0, 1):  # both ask under one id: the second is answered
        chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {"n": at}}], time=START)
    chat.persist()
    fork = chat.fork(at=1, id="fork")
    fork.append("tool", "late", tool_results=[{"call_id": "k"}], time=START)
    fork.persist()
    chat.append("tool", "so", tool_results=[{"call_id": "k"}], time=START)
    chat.persist()
    memory.summaries()
    found = told(memory, "open-tool-calls")
    assert found is not None
    rows = [(row["session"][-4:], row["index"], row["elsewhere"]) for row in found.to_dicts()]
    assert rows == [("chat", 0, True)]


def test_a_fork_between_a_call_and_its_answer_leaves_the_call_open_until_it_answers_itself(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {}}], time=START)
    chat.append("tool", "so", tool_results=[{"call_id": "k"}], time=START)
    chat.persist()
    chat.fork(at=2, id="late").persist()
    early = chat.fork(at=1, id="early")
    early.append("user", "And?", time=START)
    early.persist()
    own = early.fork(at=2, id="own")
    own.append("tool", "so", tool_results=[{"call_id": "k"}], time=START)
    own.persist()
    memory.summaries()
    found = told(memory, "open-tool-calls")
    assert found is not None
    assert [(row["session"], row["index"]) for row in found.to_dicts()] == [("urn:trails:session:early", 0)]


def test_what_is_answered_before_it_is_asked_stays_open(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    chat.append("tool", "so", tool_results=[{"call_id": "k"}], time=START)
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {}}], time=START)
    chat.persist()
    memory.summaries()
    found = told(memory, "open-tool-calls")
    assert found is not None
    assert [(row["session"][-4:], row["index"]) for row in found.to_dicts()] == [("chat", 1)]


def test_what_no_branch_answers_is_told_with_its_arguments(memory: Repository) -> None:
    chat = memory.create(id="chat")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {"n": 1}}], time=START)
    chat.append("assistant", "", tool_calls=[{"id": "l", "name": "read", "arguments": {"n": 2}}], time=START)
    chat.append("tool", "so", tool_results=[{"call_id": "k"}], time=START)
    chat.persist()
    memory.summaries()
    for values in ({}, {"session": "chat"}):
        found = told(memory, "unanswered-tool-calls", **values)
        assert found is not None
        assert [(row["name"], row["arguments"]) for row in found.to_dicts()] == [("read", {"n": 2})]
    memory.redact("chat", 1)
    found = told(memory, "unanswered-tool-calls")
    assert found is not None
    assert "2" not in [str(row["arguments"]) for row in found.to_dicts()]


def test_who_asks_for_most_sessions_is_told_of_these_alone(memory: Repository) -> None:
    for name in ("a", "b", "c"):
        chat = memory.create(id=name)
        chat.append("assistant", "", tool_calls=[{"id": "k", "name": name, "arguments": {}}], time=START)
        chat.persist()
    memory.summaries()
    found = told(memory, "unanswered-tool-calls", session=["a", "c"])
    assert found is not None
    assert [row["name"] for row in found.to_dicts()] == ["a", "c"]


def test_a_tool_is_known_by_name_where_a_fork_answers_what_its_parent_asked(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {}}], time=START)
    chat.persist()
    fork = chat.fork(id="fork")
    fork.append("tool", "so", tool_results=[{"call_id": "k"}], time=START)
    fork.persist()
    memory.summaries()
    found = told(memory, "tool-time")
    assert found is not None
    assert [(row["tool"], row["answers"]) for row in found.to_dicts()] == [("bash", 1)]
    open_still = told(memory, "unanswered-tool-calls")
    assert open_still is not None
    assert open_still.to_dicts() == []


def test_a_failed_call_is_told_of_each_copy_too_with_what_is_left_of_it(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {"n": 1}}], time=START)
    chat.append("tool", "no", tool_results=[{"call_id": "k", "is_error": True}], time=START)
    chat.persist()
    other = memory.create(id="other")
    other.append("user", "Look", time=START)
    other.cherry_pick("chat", [0, 1])
    other.persist()
    memory.redact("chat", 1)
    memory.summaries()
    found = figured.answer(memory.workspace, query_files.find("failed-tool-calls"), {}, failing.QUERIES)
    assert found is not None
    rows = [
        (row["session"][19:], row["index"], row["name"], row["arguments"], row["answer"]) for row in found.to_dicts()
    ]
    assert rows == [("chat", 1, "bash", {"n": 1}, ""), ("other", 2, "bash", {"n": 1}, "no")]


def test_a_failed_answer_is_told_once_where_the_call_is_gone_of_which_its_session_has_a_copy(
    memory: Repository,
) -> None:
    chat = memory.create(id="chat", principal="alice")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {"n": 1}}], time=START)
    chat.persist()
    fork = chat.fork(id="fork")
    fork.append("tool", "no", tool_results=[{"call_id": "k", "is_error": True}], time=START)
    fork.persist()
    fork.detach()
    memory.delete("chat")
    memory.summaries()
    found = figured.answer(memory.workspace, query_files.find("failed-tool-calls"), {}, failing.QUERIES)
    assert found is not None
    assert [tuple(row) for row in found] == [tuple(row) for row in _over_turns(memory, "failed-tool-calls")]
    assert [(row["session"][19:], row["index"], row["name"]) for row in found.to_dicts()] == [("fork", 1, "bash")]


def test_the_id_of_a_fork_may_be_the_beginning_of_that_of_its_parent(memory: Repository) -> None:
    chat = memory.create(id="chats", principal="alice")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {}}], time=START)
    chat.persist()
    fork = chat.fork(id="chat")
    fork.append("tool", "so", tool_results=[{"call_id": "k", "is_error": True}], time=START)
    fork.persist()
    memory.summaries()
    for name, column in (("tool-time", "tool"), ("failed-tool-calls", "name")):
        assert [row[column] for row in memory.select(name).to_dicts()] == ["bash"], name


def test_a_tool_counts_once_with_its_seconds_however_often_its_answer_was_copied(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {}}], time=START)
    ran = {"call_id": "k", "is_error": True, "started": START, "ended": START + timedelta(milliseconds=2500)}
    chat.append("tool", "so", tool_results=[ran])
    chat.persist()
    other = memory.create(id="other", principal="bob")
    other.cherry_pick("chat", [0, 1])
    other.persist()
    memory.summaries()
    found = told(memory, "tool-time")
    assert found is not None
    (row,) = found.to_dicts()
    told_of = (row["tool"], row["answers"], row["failed"], row["refused"], row["timed"], float(row["seconds"]))
    assert (row["principal"][-5:], *told_of) == ("alice", "bash", 1, 1, 0, 1, 2.5)


def test_a_fork_shares_what_stands_before_it_and_no_more(memory: Repository) -> None:
    chat = memory.create(id="chat")
    for text in ("one", "four", "é🦉"):
        chat.append("user", text, time=START)
    chat.persist()
    first = chat.fork(at=2, id="first")
    first.append("assistant", "seven!!", time=START)
    first.persist()
    memory.load("first").fork(at=1, id="second").persist()
    memory.summaries()
    found = told(memory, "shared-turns")
    assert found is not None
    assert [tuple(row.values())[2:] for row in found.to_dicts()] == [(2, 1, 2, 7), (1, 0, 1, 3)]
    after = told(memory, "forks-after")
    assert after is not None
    rows = [(row["index"], row["fork"], row["place"], row["content"]) for row in after.to_dicts()]
    assert (1, "urn:trails:session:first", 2, "seven!!") in rows
