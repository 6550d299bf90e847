"""LangGraph's long-term store: what it finds, what it keeps as turns, and what is left of what was deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import InvalidInput, Repository

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import GetOp, IndexConfig, Op, PutOp, SearchOp

from trails.adapters.langgraph import TrailsStore

ALICE = ("users", "alice")


@pytest.fixture(params=["memory", "disk"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Repository]:
    """A store of sessions of each kind."""
    with trails.open(":memory:" if request.param == "memory" else tmp_path / "store", create=True) as opened:
        yield opened


def value(store: TrailsStore, key: str = "diet", namespace: tuple[str, ...] = ALICE) -> object:
    """Return an item's value, or None."""
    item = store.get(namespace, key)
    return None if item is None else item.value


def test_another_handle_finds_what_was_put_and_when(repository: Repository) -> None:
    store = TrailsStore(repository)
    store.put(ALICE, "diet", {"likes": "fish"})
    first = store.get(ALICE, "diet")
    store.put(ALICE, "diet", {"likes": "rice"})

    found = TrailsStore(repository).get(ALICE, "diet")
    assert first is not None and found is not None  # noqa: PT018
    assert found.value == {"likes": "rice"}
    assert found.created_at == first.created_at < found.updated_at
    assert TrailsStore(repository).search(("users",), filter={"likes": "rice"})[0].key == "diet"
    assert TrailsStore(repository).list_namespaces() == [ALICE]


def test_each_value_is_a_turn_of_the_namespaces_session(repository: Repository) -> None:
    store = TrailsStore(repository)
    for likes in ("fish", "rice"):
        store.put(ALICE, "diet", {"likes": likes})

    session = repository.load(repository.list()[0].id)
    assert [turn.content for turn in session] == ['{"likes": "fish"}', '{"likes": "rice"}']
    assert session.meta["langgraph_items"] == '["users", "alice"]'


def test_a_batch_is_one_commit_and_reads_what_was_there_before(repository: Repository) -> None:
    store = TrailsStore(repository)
    store.put(ALICE, "diet", {"likes": "fish"})
    before = repository.store.number
    ops: list[Op] = [
        PutOp(ALICE, "diet", {"likes": "rice"}),
        PutOp(("other",), "k", {"a": 1}),
        GetOp(ALICE, "diet"),
        SearchOp(()),
    ]
    answers = store.batch(ops)

    assert repository.store.number == before + 1
    assert answers[2].value == {"likes": "fish"}  # type: ignore[union-attr]
    assert value(store) == {"likes": "rice"}


def test_a_value_that_is_no_json_is_refused_and_nothing_is_stored(repository: Repository) -> None:
    store = TrailsStore(repository)
    with pytest.raises(InvalidInput, match="no JSON"):
        store.batch([PutOp(ALICE, "good", {"a": 1}), PutOp(ALICE, "bad", {"a": {1, 2}})])

    assert (value(store, "good"), value(store, "bad"), list(repository.list())) == (None, None, [])


@pytest.mark.parametrize("ttl", [5e9, 1e300, float("inf"), float("nan"), "60"])
def test_a_time_to_live_without_an_end_in_the_calendar_is_refused(repository: Repository, ttl: Any) -> None:
    store = TrailsStore(repository)
    with pytest.raises(InvalidInput, match="ttl is a number of minutes"):
        store.put(ALICE, "diet", {"likes": "fish"}, ttl=ttl)

    assert len(repository.list()) == 0
    assert store.search(()) == []


def test_a_value_that_is_a_list_and_a_key_that_is_a_number_are_refused_and_nothing_is_stored(
    repository: Repository,
) -> None:
    with pytest.raises(InvalidInput, match="a mapping"):
        TrailsStore(repository).put(ALICE, "diet", [1, 2])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="a text"):
        TrailsStore(repository).batch([PutOp(ALICE, 5, {"a": 1})])  # type: ignore[arg-type]
    assert len(repository.list()) == 0


@pytest.mark.parametrize(
    "word", ["alice", "users", "diet", "langgraph", "items", "created", "key", "fish", "read", "ttl"]
)
def test_the_store_goes_on_after_a_redaction_of_any_word(repository: Repository, word: str) -> None:
    store = TrailsStore(repository)
    store.put(ALICE, "diet", {"likes": "fish"}, ttl=60)
    store.put(("people", "bob"), "home", {"place": "Bern"}, index=["place"])
    repository.redact_matching(word)

    for handle in (store, TrailsStore(repository)):
        assert value(handle, "home", ("people", "bob")) == {"place": "Bern"}
        handle.put(ALICE, "city", {"in": "Chur"})
        assert value(handle, "city") == {"in": "Chur"}
        handle.search(())
        handle.delete(ALICE, "diet")
        assert value(handle) is None


def test_the_text_of_a_deleted_item_is_in_no_file(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as repository:
        store = TrailsStore(repository)
        store.put(ALICE, "diet", {"likes": "gone words"})
        store.put(ALICE, "diet", {"likes": "gone words too"})
        store.put(ALICE, "home", {"city": "kept words"})
        store.delete(ALICE, "diet")
        repository.maintenance.vacuum()

        assert (value(TrailsStore(repository)), value(store, "home")) == (None, {"city": "kept words"})
        assert repository.verify().ok
    held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert (b"gone words" in held, b"kept words" in held) == (False, True)


def test_an_item_whose_time_is_over_is_not_given_out_and_is_swept(repository: Repository) -> None:
    store = TrailsStore(repository, ttl={"default_ttl": 0.0, "refresh_on_read": False})
    store.put(ALICE, "diet", {"likes": "fish"})
    store.put(ALICE, "home", {"city": "Bern"}, ttl=None)

    assert (value(store), value(store, "home")) == (None, {"city": "Bern"})
    assert [item.key for item in store.search(ALICE)] == ["home"]
    assert (store.sweep_ttl(), store.sweep_ttl()) == (1, 0)
    assert [turn.redacted for turn in repository.load(repository.list()[0].id)] == [True, False]


def test_two_handles_see_each_others_items(tmp_path: Path) -> None:
    with trails.open(tmp_path, create=True) as one, trails.open(tmp_path) as other:
        first, second = TrailsStore(one), TrailsStore(other)
        first.put(ALICE, "diet", {"likes": "fish"})
        assert value(second) == {"likes": "fish"}
        second.put(ALICE, "diet", {"likes": "rice"})
        assert value(first) == {"likes": "rice"}
        first.delete(ALICE, "diet")
        assert value(second) is None


def test_threads_that_put_lose_nothing(repository: Repository) -> None:
    stores = [TrailsStore(repository) for _ in range(4)]

    def work(number: int) -> None:
        for step in range(5):
            stores[number].put(ALICE, f"{number}-{step}", {"n": step})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    keys = {item.key for item in TrailsStore(repository).search(ALICE, limit=100)}
    assert keys == {f"{number}-{step}" for number in range(4) for step in range(5)}


def test_a_query_finds_by_meaning_if_there_is_an_index(repository: Repository) -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[float("fish" in text), float("car" in text)] for text in texts]

    TrailsStore(repository).put(ALICE, "diet", {"text": "likes fish"})
    TrailsStore(repository).put(ALICE, "travel", {"text": "has a car"})
    index: IndexConfig = {"dims": 2, "embed": embed, "fields": ["text"]}
    store = TrailsStore(repository, index=index)

    assert [item.key for item in store.search(ALICE, query="a car")] == ["travel", "diet"]


def test_an_event_loop_has_the_same_calls(tmp_path: Path) -> None:
    async def run() -> object:
        async with TrailsStore.afrom_path(tmp_path) as store:
            await store.aput(ALICE, "diet", {"likes": "fish"})
            return [item.value for item in await store.asearch(ALICE)]

    assert asyncio.run(run()) == [{"likes": "fish"}]
