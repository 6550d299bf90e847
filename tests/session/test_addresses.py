"""Sessions are found by their metadata, listed in either order, and pruned by metadata and by their time to live."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import trails
from tests.support.commands import Run
from trails import InvalidInput, Repository

EARLY = datetime(2026, 1, 1, tzinfo=UTC)


def fill(store: Repository) -> None:
    for number in range(5):
        with store.create(
            id=f"s{number}",
            created=EARLY + timedelta(days=number),
            meta={"thread": f"t{number}", "odd": number % 2 == 1},
        ) as session:
            session.append("user", "hello", time=EARLY + timedelta(days=number))


def test_a_session_is_found_by_its_metadata(store: Repository) -> None:
    fill(store)
    found = store.find({"thread": "t3"})
    assert found is not None
    assert found.id == "s3"
    assert store.find({"thread": "t3", "odd": True}) == found
    assert store.find({"thread": "t3", "odd": False}) is None
    assert store.find({"thread": "none"}) is None


def test_values_that_begin_alike_are_told_apart(store: Repository) -> None:
    long = "x" * 100
    for name in ("a", "b"):
        store.create(id=name, meta={"thread": long + name}).persist()
    found = store.find({"thread": long + "b"})
    assert found is not None
    assert found.id == "b"


def test_several_sessions_with_the_metadata_are_an_error_that_names_them(store: Repository) -> None:
    fill(store)
    with pytest.raises(InvalidInput, match="'s3' and 's1'"):
        store.find({"odd": True})


@pytest.mark.parametrize("meta", [{}, None, "thread", {1: 2}])
def test_what_is_no_metadata_finds_nothing_but_an_error(memory: Repository, meta: object) -> None:
    with pytest.raises(InvalidInput):
        memory.find(meta)  # type: ignore[arg-type]


def test_a_deleted_session_is_not_found(store: Repository) -> None:
    fill(store)
    store.delete("s3")
    assert store.find({"thread": "t3"}) is None


def test_the_oldest_come_first_on_every_page(store: Repository) -> None:
    fill(store)
    first = store.list(order="oldest", limit=2)
    second = store.list(order="oldest", limit=2, cursor=first.cursor)
    third = store.list(order="oldest", limit=2, cursor=second.cursor)
    assert [[each.id for each in page] for page in (first, second, third)] == [["s0", "s1"], ["s2", "s3"], ["s4"]]
    assert third.cursor is None
    assert [each.id for each in store.summaries(order="oldest", sort="turns", limit=3)] == ["s0", "s1", "s2"]


def test_a_cursor_of_one_order_is_refused_in_the_other(memory: Repository) -> None:
    fill(memory)
    page = memory.list(order="oldest", limit=2)
    with pytest.raises(InvalidInput, match="another order"):
        memory.list(limit=2, cursor=page.cursor)
    with pytest.raises(InvalidInput, match="newest, oldest"):
        memory.list(order="upwards")  # type: ignore[arg-type]


def test_no_metadata_at_all_prunes_nothing(store: Repository) -> None:
    fill(store)
    with pytest.raises(InvalidInput, match="every session has what is in"):
        store.prune(meta={})
    assert len(store) == 5


def test_pruning_by_metadata_deletes_these_sessions_alone(store: Repository) -> None:
    fill(store)
    assert store.prune(meta={"odd": True}, dry_run=True).sessions == ("s1", "s3")
    assert store.prune(meta={"odd": True}).sessions == ("s1", "s3")
    assert {each.id for each in store.list()} == {"s0", "s2", "s4"}


def test_limits_are_of_the_sessions_with_the_metadata_alone(store: Repository) -> None:
    fill(store)
    assert store.prune(meta={"odd": False}, keep_count=1).sessions == ("s0", "s2")
    assert {each.id for each in store.list()} == {"s1", "s3", "s4"}


def test_what_others_depend_on_stays_when_its_metadata_is_pruned(store: Repository) -> None:
    fill(store)
    store.load("s1").fork(id="child").persist()
    report = store.prune(meta={"odd": True})
    assert report.sessions == ("s3",)
    assert report.needed == ("s1",)


def test_a_session_whose_time_is_over_is_pruned(store: Repository) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    store.create(id="over", created=long_ago, expires=timedelta(hours=1)).persist()
    store.create(id="on", created=long_ago, expires=timedelta(hours=9)).persist()
    store.create(id="at", expires=EARLY).persist()
    store.create(id="ever").persist()
    assert store.load("over").record.expires == long_ago + timedelta(hours=1)
    assert sorted(store.prune(expired=True).sessions) == ["at", "over"]
    assert {each.id for each in store.list()} == {"on", "ever"}
    assert store.proofs.verify().ok


@pytest.mark.parametrize("expires", [timedelta(0), timedelta(days=-1), datetime(2026, 1, 1), 3, timedelta.max])  # noqa: DTZ001
def test_what_is_no_time_to_live_is_refused(memory: Repository, expires: object) -> None:
    with pytest.raises(InvalidInput):
        memory.create(expires=expires)  # type: ignore[arg-type]


def test_the_command_prunes_by_metadata_and_lists_the_oldest_first(run: Run, place: object) -> None:
    with trails.open(place, create=True) as store:  # type: ignore[arg-type]
        fill(store)
    listed = json.loads(run("list", "--order", "oldest", "--limit", "2", "--json").stdout)
    assert [each["id"] for each in listed["sessions"]] == ["s0", "s1"]
    assert run("prune", "--meta", "odd=true", "--yes").stdout.split() == ["s1", "s3"]
    assert run("prune", "--expired", "--yes").exit_code == 0


def test_parts_that_are_given_as_content_are_kept_and_called_no_call(store: Repository) -> None:
    call: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    with store.create(id="s") as session:
        parts: list[dict[str, Any]] = [call, {"type": "text", "text": ""}, {"choices": []}, {}]
        for part in parts:
            session.append("user", part, as_content=True)
        session.append("user", [], as_content=True)
    turns = store.load("s").turns
    assert [turn.content for turn in turns] == [[call], [{"type": "text", "text": ""}], [{"choices": []}], [{}], []]
    assert [turn.tool_calls for turn in turns] == [()] * 5
    shown: Any = store.load("s").context().anthropic()["messages"]
    assert [block["type"] for message in shown for block in message["content"]] == ["text"] * 3
    assert store.proofs.verify().ok
