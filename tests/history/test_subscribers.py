"""Subscribers: every commit once, in order, after it is stored; and no subscriber can stop a writer."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.ledgers import echo, session_of
from tests.support.places import IMPORTED
from trails import InvalidInput, Ledger, Notice, Repository
from trails.history.watch import NOTICE_KINDS


def short(notices: list[Notice]) -> list[tuple[str, str, int]]:
    return [(notice.kind, notice.session_id, notice.count) for notice in notices]


def test_new_turns_forks_and_changes_of_state_are_told_in_order(store: Repository) -> None:
    got: list[Notice] = []
    subscription = store.subscribe(got.append)
    session = session_of(store, "a", "b")
    session.fork(at=1, id="fork").persist()
    store.set_label("main", "front")
    ledger = Ledger(store)
    ledger.receive("fork", "hello")
    ledger.process("fork", echo)
    store.redact("main", 1)
    store.delete("fork")
    assert subscription.drain()
    assert short(got) == [
        ("create", "main", 0),
        ("turns", "main", 2),
        ("fork", "fork", 1),
        ("change", "main", 0),
        ("received", "fork", 1),
        ("pending", "fork", 2),
        ("streaming", "fork", 2),
        ("turns", "fork", 3),
        ("sent", "fork", 3),
        ("completed", "fork", 2),
        ("redact", "main", 1),
        ("delete", "fork", 0),
    ]
    assert got[1].digest == session.head
    assert got[1].iri == session.turns[1].iri
    assert got[4].iri == "urn:trails:session:fork/ledger/1"
    assert got[0].iri == "urn:trails:session:main"


def test_a_notice_comes_when_what_it_tells_is_stored(store: Repository) -> None:
    seen: list[int] = []
    subscription = store.subscribe(lambda notice: seen.append(len(store.load(notice.session_id))), kinds=["turns"])
    session = session_of(store, "a")
    assert subscription.drain()
    session.append("user", "b")
    assert subscription.drain()
    session.persist()
    assert subscription.drain()
    assert seen == [1, 2]


def test_kinds_and_session_narrow_what_is_told(store: Repository) -> None:
    turns: list[Notice] = []
    other: list[Notice] = []
    store.subscribe(turns.append, kinds=["turns"])
    subscription = store.subscribe(other.append, session="urn:trails:session:other")
    session_of(store, "a")
    session_of(store, "b", name="other")
    assert subscription.drain()
    assert short(turns) == [("turns", "main", 1), ("turns", "other", 1)]
    assert short(other) == [("create", "other", 0), ("turns", "other", 1)]


def test_what_was_before_and_what_comes_after_is_not_told(store: Repository) -> None:
    got: list[Notice] = []
    session = session_of(store, "a")
    with store.subscribe(got.append) as subscription:
        session.append("user", "b")
        session.persist()
        assert subscription.drain()
    session.append("user", "c")
    session.persist()
    subscription.close()
    assert short(got) == [("turns", "main", 2)]


def test_a_refused_commit_is_not_told(store: Repository) -> None:
    session_of(store, "a")
    first, second = store.load("main"), store.load("main")
    got: list[Notice] = []
    subscription = store.subscribe(got.append)
    for handle in (first, second):
        handle.append("user", "b")
    first.persist()
    with pytest.raises(trails.HeadConflict):
        second.persist()
    second.discard_pending()
    assert subscription.drain()
    assert short(got) == [("turns", "main", 2)]


def test_a_failing_subscriber_is_reported_and_stops_nobody(store: Repository, caplog: pytest.LogCaptureFixture) -> None:
    got: list[Notice] = []

    def failing(notice: Notice) -> None:
        raise RuntimeError("a subscriber's own fault")

    store.subscribe(failing)
    subscription = store.subscribe(got.append)
    with caplog.at_level(logging.ERROR, "trails.feed"):
        session_of(store, "a")
        assert subscription.drain()
    assert short(got) == [("create", "main", 0), ("turns", "main", 1)]
    assert "a subscriber's own fault" in caplog.text
    assert caplog.text.count("failed on turns of session 'main'") == 1


def test_a_subscriber_may_write_and_is_told_of_that_too(store: Repository) -> None:
    got: list[str] = []
    done = threading.Event()

    def answer(notice: Notice) -> None:
        got.append(notice.session_id)
        if notice.session_id == "main":
            store.create(id="echo").persist()
        else:
            done.set()

    store.subscribe(answer, kinds=["create"])
    session_of(store)
    assert done.wait(10)
    assert got == ["main", "echo"]


def test_writers_in_many_threads_are_told_in_the_order_of_the_log(store: Repository) -> None:
    got: list[Notice] = []
    subscription = store.subscribe(got.append)

    def write(name: str) -> None:
        session = store.create(id=name)
        for number in range(10):
            session.append("user", str(number))
            session.persist()

    threads = [threading.Thread(target=write, args=(f"s{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert subscription.drain()
    logged = [line.split() for line in store.store.log.lines() if line.startswith(("create ", "turns "))]
    assert [(n.kind, f"urn:trails:session:{n.session_id}", str(n.count), n.digest) for n in got] == [
        tuple(fields[:4]) for fields in logged
    ]
    assert len(got) == 4 * 11


def test_closing_the_store_tells_what_is_left_and_then_no_more(tmp_path: Path) -> None:
    got: list[Notice] = []
    with trails.open(tmp_path / "s", create=True, durability="process") as store:
        subscription = store.subscribe(got.append)
        session_of(store, "a")
    assert short(got) == [("create", "main", 0), ("turns", "main", 1)]
    subscription.close()
    with pytest.raises(InvalidInput, match="closed"):
        store.subscribe(got.append)


def test_a_subscriber_can_close_the_store(memory: Repository) -> None:
    closed = threading.Event()

    def close(notice: Notice) -> None:
        memory.close()
        closed.set()

    memory.subscribe(close, kinds=["create"])
    session_of(memory)
    assert closed.wait(10)


@pytest.mark.parametrize("kinds", ["turns", ["turn"], ["sync"]])
def test_unknown_kinds_are_refused(memory: Repository, kinds: Any) -> None:
    with pytest.raises(InvalidInput, match="turns"):
        memory.subscribe(print, kinds=kinds)
    assert "turns" in NOTICE_KINDS


def test_what_is_no_function_is_refused(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="function"):
        memory.subscribe("print")  # type: ignore[arg-type] # the point of it


def test_without_a_subscriber_nothing_listens_and_no_thread_runs(memory: Repository) -> None:
    subscription = memory.subscribe(print)
    subscription.close()
    assert memory.store.log.listener is None
    code = "import sys, threading, trails\nwith trails.open(':memory:') as s: s.create().persist()\n"
    code += (
        "sys.exit('asyncio' in sys.modules or 'trails.history.watch' in sys.modules or threading.active_count() > 1)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=IMPORTED).returncode == 0


# --- async


def test_an_async_iterator_gives_what_other_threads_store(store: Repository) -> None:
    session = session_of(store)

    def write() -> None:
        for text in ("a", "b", "c"):
            session.append("user", text)
            session.persist()

    async def follow() -> list[Notice]:
        got = []
        async with store.changes(kinds=["turns"], session="main") as changes:
            await asyncio.to_thread(write)
            async for notice in changes:
                got.append(notice)
                if len(got) == 3:
                    break
        return got

    assert short(asyncio.run(follow())) == [("turns", "main", 1), ("turns", "main", 2), ("turns", "main", 3)]


def test_an_async_iterator_ends_when_the_store_closes(tmp_path: Path) -> None:
    async def follow() -> list[Notice]:
        store = trails.open(tmp_path / "s", create=True, durability="process")
        changes = store.changes()
        session_of(store, "a")
        await asyncio.to_thread(store.close)
        got = [notice async for notice in changes]
        assert [notice async for notice in changes] == []
        return got

    assert short(asyncio.run(follow())) == [("create", "main", 0), ("turns", "main", 1)]


def test_two_async_iterators_do_not_take_from_each_other(memory: Repository) -> None:
    async def follow() -> list[list[Notice]]:
        async with memory.changes() as first, memory.changes(kinds=["turns"]) as second:
            session_of(memory, "a")
            return [[await anext(first), await anext(first)], [await anext(second)]]

    one, two = asyncio.run(follow())
    assert (short(one), short(two)) == ([("create", "main", 0), ("turns", "main", 1)], [("turns", "main", 1)])


def test_an_async_iterator_that_nobody_holds_any_more_is_forgotten(memory: Repository) -> None:
    async def follow() -> None:
        async for _ in memory.changes():
            break

    async def begin() -> None:
        task = asyncio.create_task(follow())
        await asyncio.sleep(0)
        session_of(memory)
        await task

    asyncio.run(begin())
    assert memory.store.log.listener is None


def test_outside_an_event_loop_changes_says_what_to_use(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="subscribe"):
        memory.changes()
