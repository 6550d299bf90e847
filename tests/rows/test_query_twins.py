"""The SQL beside a query of the catalogue gives the very rows that the query gives over the turns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.rows.test_session_lists import START, over_turns, random_steps
from tests.rows.test_text_index import WORDS, filled
from tests.support.machines import examples
from trails import Repository, TrailsError
from trails.rdf import query_files, vocab
from trails.rows import query_twins, text_index
from trails.store import Change, Solutions

ODD = (
    "ı dotless", "K kelvin", "e\u0301 é", "nul\0byte", "ΟΔΟΣ", "ſharp", "\ttab", 'type":"text', "n\\nstraße", "[]", "data",
    '"n":3',
)  # fmt: skip
"""Texts that case, Unicode and JSON have ways of their own with."""


def told(store: Repository, name: str, **values: Any) -> Solutions | None:
    """The rows of a query: those of its twin if it has one that answers this."""
    query = query_files.find(name)
    found = query_twins.answer(store.workspace.rows.reading, query, values)
    return over_turns(store, name, **values) if found is None else found


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

    return [*random_steps(random), work, work, work, work, fork, fork]


def with_texts(random: Random) -> list[Callable[[Repository], object]]:
    """Things that are done to texts: odd ones, structured ones, redacted ones."""

    def said(store: Repository) -> None:
        session = store.load(random.choice(sorted(record.id for record in store.list(limit=100))))
        word = random.choice((*WORDS, *ODD))
        parts = [
            {"type": "text", "text": word},
            {"type": word or "data", word: [random.choice([3, 2.5, True, None]), word]},
        ]
        session.append("user", word if random.random() < 0.4 else parts, time=START)
        session.persist()

    return [*_with_tools(random), said, said]


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@examples(90)
def test_a_twin_gives_the_rows_of_its_query_on_any_store(seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(text_index, "WAITING", random.choice([1, 3, 256]))
        filled(store, random)
        steps = with_texts(random)
        for _ in range(30):
            with suppress(TrailsError, IndexError):  # what cannot be done just then
                random.choice(steps)(store)
        word = random.choice((*WORDS, *ODD))
        start = random.randrange(len(word))
        wanted: dict[str, list[dict[str, Any]]] = {
            "principal": [{"principal": "bob"}, {"principal": ["bob", "alice"]}, {"principal": "nobody"}],
            "gap": [{"gap": 1}, {"gap": 36_000}, {"gap": 3_600}],
        }
        texts = [word, word.swapcase(), word[start : start + 3], word[start : start + 6], '"type', "ta"]
        for name in query_twins.names():
            query = query_files.find(name)
            asked = [each for parameter in query.parameters for each in wanted.get(parameter.name, [])]
            if name == "search-text":
                asked = [{"text": text} for text in texts if text]
            elif all(parameter.optional for parameter in query.parameters):
                asked.append({})
            for values in asked:
                found, expected = (
                    query_twins.answer(store.workspace.rows.reading, query, values),
                    over_turns(store, name, **values),
                )
                text = values.get("text", "abc")
                assert (found is None) == (not text.isascii() or len(text) < 3 or "\0" in text), (name, values)
                if found is not None:
                    assert [tuple(row) for row in found] == [tuple(row) for row in expected], (name, values)
                    assert found.variables == expected.variables


def test_a_query_of_some_sessions_has_no_twin(memory: Repository) -> None:
    memory.create(id="s").persist()
    for name in query_twins.names():
        query = query_files.find(name)
        if any(parameter.name == "session" for parameter in query.parameters):
            values = {"text": "until six"} if name == "search-text" else {}
            assert query_twins.answer(memory.workspace.rows.reading, query, values | {"session": "s"}) is None


def test_what_the_index_may_not_find_all_of_is_asked_of_the_quads(memory: Repository) -> None:
    query = query_files.find("search-text")
    for text in ("ab", "ƛ and more", "\ua7dc and more", ["one", "other"]):
        assert query_twins.answer(memory.workspace.rows.reading, query, {"text": text}) is None


def test_a_store_that_holds_what_is_never_written_is_asked_itself(memory: Repository) -> None:
    session = memory.create(id="s", principal="alice")
    session.append("user", "Hello", time=START)
    session.persist()
    (quad,) = memory.store.quads((None, vocab.ROLE, None, None))
    memory.store.commit(Change(remove=[quad]))
    assert query_twins.answer(memory.workspace.rows.reading, query_files.find("two-principals"), {}) is None


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
    found = told(memory, "open-tool-calls")
    assert found is not None
    assert [(row["session"], row["index"]) for row in found.to_dicts()] == [("urn:trails:session:early", 0)]


def test_what_is_answered_before_it_is_asked_stays_open(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    chat.append("tool", "so", tool_results=[{"call_id": "k"}], time=START)
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {}}], time=START)
    chat.persist()
    found = told(memory, "open-tool-calls")
    assert found is not None
    assert [(row["session"][-4:], row["index"]) for row in found.to_dicts()] == [("chat", 1)]


def test_what_no_branch_answers_is_told_with_its_arguments(memory: Repository) -> None:
    chat = memory.create(id="chat")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {"n": 1}}], time=START)
    chat.append("assistant", "", tool_calls=[{"id": "l", "name": "read", "arguments": {"n": 2}}], time=START)
    chat.append("tool", "so", tool_results=[{"call_id": "k"}], time=START)
    chat.persist()
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
    found = told(memory, "failed-tool-calls")
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
    found = told(memory, "failed-tool-calls")
    assert found is not None
    assert [tuple(row) for row in found] == [tuple(row) for row in over_turns(memory, "failed-tool-calls")]
    assert [(row["session"][19:], row["index"], row["name"]) for row in found.to_dicts()] == [("fork", 1, "bash")]


def test_the_id_of_a_fork_may_be_the_beginning_of_that_of_its_parent(memory: Repository) -> None:
    chat = memory.create(id="chats", principal="alice")
    chat.append("assistant", "", tool_calls=[{"id": "k", "name": "bash", "arguments": {}}], time=START)
    chat.persist()
    fork = chat.fork(id="chat")
    fork.append("tool", "so", tool_results=[{"call_id": "k", "is_error": True}], time=START)
    fork.persist()
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
    found = told(memory, "shared-turns")
    assert found is not None
    assert [tuple(row.values())[2:] for row in found.to_dicts()] == [(2, 1, 2, 7), (1, 0, 1, 3)]
    after = told(memory, "forks-after")
    assert after is not None
    rows = [(row["index"], row["fork"], row["place"], row["content"]) for row in after.to_dicts()]
    assert (1, "urn:trails:session:first", 2, "seven!!") in rows


def test_a_turn_before_the_one_that_it_follows_and_a_fork_before_what_it_inherits(memory: Repository) -> None:
    chat = memory.create(id="chat", created=START)
    for hours in (2, 1, 5):  # the second is earlier than the first
        chat.append("user", "Hello", time=START + timedelta(hours=hours))
    chat.persist()
    fork = chat.fork(at=3, id="fork", created=START + timedelta(hours=4))
    fork.append("user", "Hi", time=START + timedelta(hours=6))
    fork.persist()
    rows = [(row["what"], row["session"][-4:], row["index"]) for row in memory.select("times-backwards").to_dicts()]
    assert rows == [("turn", "chat", 1), ("fork", "fork", 3)]


def test_a_sitting_ends_after_a_longer_gap_and_not_at_the_gap(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    for seconds in (0, 1800, 3601, 3601 + 1801):
        chat.append("user", "Hello", time=START + timedelta(seconds=seconds))
    chat.persist()
    rows = memory.select("periods-of-use").to_dicts()
    assert [((row["last"] - row["first"]).total_seconds(), row["turns"]) for row in rows] == [(1800, 2), (0, 1), (0, 1)]


def test_a_key_within_structured_content_is_found_as_are_its_types(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("user", [{"type": "opening hours", "until six": True}], time=START)
    session.append("user", "no", time=START)
    session.persist()
    for text in ("opening hours", "until six", '"until six":true'):
        found = told(memory, "search-text", text=text)
        assert found is not None
        assert [row["index"] for row in found.to_dicts()] == [0], text
