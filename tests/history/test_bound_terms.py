"""No query is bound to more values than the engine plans well for: longer lists are asked in batches, long runs as a range."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

import trails
from tests.support.everything import everything
from tests.support.sessions import say
from trails import InvalidInput, Repository
from trails.rdf import query_files

_LINEAGES: Final = {("own_turns", "sessions"), ("notes_in", "sessions")}
"""What is asked of a lineage alone, which has 33 sessions at most."""


def test_a_query_takes_a_thousand_values_and_no_more() -> None:
    query = query_files.find("records")
    ids = [f"s{number}" for number in range(1001)]
    assert query.bind(sessions=ids[:1000]).count("urn:trails:session:s") == 1000
    with pytest.raises(InvalidInput, match="takes up to 1,000 values, not 1,001; ask in portions"):
        query.bind(sessions=ids)


def test_values_beyond_the_bound_are_asked_in_batches(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_files, "MAX_TERMS", 2)
    for number in range(5):
        say(memory.create(id=f"s{number}", system=f"Be {number}"), "a")
    wanted = ["s4", "s0", "none", "s3", "s1", "s2"]
    assert sorted(memory.reader.records(wanted)) == ["s0", "s1", "s2", "s3", "s4"]
    assert len(memory.reader.prompts(wanted)) == 5
    assert memory.reader.select_each("records", "sessions", []) == []


def test_turns_and_their_facts_are_looked_up_in_batches(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_files, "MAX_TERMS", 2)
    session = memory.create(id="s")
    for number in range(7):
        session.append("assistant", f"answer {number}", model=f"m-{number}")
    session.persist()
    found = memory.reader.turns_at("s", range(1, 6))
    assert [(turn.content, turn.model) for turn in found] == [(f"answer {n}", f"m-{n}") for n in range(1, 6)]


def test_branches_are_compared_in_batches(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    root = say(memory.create(id="root"), "a", "b")
    for number in range(5):
        fork = root.fork(at=1, id=f"f{number}")
        call = {"id": "c", "name": f"t{number}", "arguments": {}}
        fork.append("assistant", f"answer {number}", model="m-1", usage={"input_tokens": number}, tool_calls=[call])
        fork.persist()
    monkeypatch.setattr(query_files, "MAX_TERMS", 2)
    found = {row["session"]: row for row in memory.compare("root").rows}
    assert [found[f"f{number}"]["input_tokens"] for number in range(5)] == [0, 1, 2, 3, 4]
    assert [found[f"f{number}"]["own_turns"] for number in range(5)] == [1] * 5
    assert [found[f"f{number}"]["tools"] for number in range(5)] == [{f"t{number}": 1} for number in range(5)]
    assert [found[f"f{number}"]["last_answer"] for number in range(5)] == [f"answer {number}" for number in range(5)]


def test_texts_are_redacted_in_batches(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_files, "MAX_TERMS", 2)
    parts = [{"type": "text", "text": f"secret number {number}"} for number in range(5)]
    session = memory.create(id="s")
    session.append("user", parts)
    session.append("assistant", "You said: secret number 4")
    session.persist()
    found = memory.redact("s", 0)
    assert found.quotes == (("s", 1),)


def test_a_store_with_something_of_everything_is_made_with_a_lineage_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_files, "MAX_TERMS", trails.MAX_FORK_DEPTH + 1)
    with trails.open(":memory:") as store:
        everything(store)
        assert store.verify().ok


def test_no_query_of_the_program_is_given_a_list_that_is_not_asked_in_batches() -> None:
    given = {
        (name.value, keyword.arg)
        for path in Path(trails.__file__).parent.rglob("*.py")
        if re.search(r"\.(select|table)\(", text := path.read_text("utf-8"))
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("select", "table")
        if call.args and isinstance(name := call.args[0], ast.Constant) and isinstance(name.value, str)
        for keyword in call.keywords
        if keyword.arg in {"sessions", "turns", "indices"} and not isinstance(keyword.value, ast.List)
    }
    assert given == _LINEAGES
