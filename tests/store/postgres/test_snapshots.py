"""Snapshots in the database: made and read in pieces, by one process of many."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from tests.support.clusters import log_of
from trails import StoreFailed
from trails.store import Change, engines
from trails.store.postgres import cache, server, snapshots
from trails.store.postgres import log as postgres_log
from trails.store.postgres.server import Server
from trails.store.postgres.snapshots import Unpacking, packed
from trails.store.postgres.store import open_store

_CHANCE = Random(5)


def _quad(number: int) -> Quad:
    return Quad(
        NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal(_CHANCE.randbytes(100).hex()), NamedNode("urn:g")
    )


def _counted(count: int, seen: list[int]) -> Iterator[Quad]:
    for number in range(count):
        seen.append(number)
        yield _quad(number)


def test_the_first_part_is_there_long_before_the_last_quad_is_asked_for() -> None:
    seen: list[int] = []
    parts = packed(_counted(40_000, seen), 100_000)
    assert len(next(parts)) >= 100_000
    assert len(seen) <= 6_000
    assert len(list(parts)) >= 5
    assert len(seen) == 40_000


def test_the_text_is_read_without_all_parts_at_once() -> None:
    parts, asked = list(packed((_quad(number) for number in range(10_000)), 100_000)), list[int]()

    def one_by_one() -> Iterator[bytes]:
        for number, part in enumerate(parts):
            asked.append(number)
            yield part

    text = Unpacking(one_by_one())
    assert text.read(20).startswith(b"<urn:s0> <urn:p>")
    assert asked == [0]
    assert (text.read() or b"").count(b"\n") == 10_000
    assert asked == list(range(len(parts)))


def test_no_parts_are_an_empty_text_and_cut_or_altered_ones_raise() -> None:
    assert Unpacking([]).read() == b""
    parts = list(packed((_quad(number) for number in range(10_000)), 100_000))
    for wrong in (
        parts[:-1],
        [*parts[:-1], parts[-1][:-1]],
        [parts[0][:50] + b"xx" + parts[0][52:], *parts[1:]],
        parts[1:],
    ):
        text = Unpacking(wrong)
        with pytest.raises(zlib.error):
            text.read()
        assert text.damage is not None


@pytest.mark.parametrize("whose", ["own", "another's"])
def test_a_snapshot_that_is_being_made_is_given_up_for_a_vacuum(
    url: str, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """It holds the engine, which the vacuum exchanges for another: the store took no more work after that."""
    monkeypatch.setattr(engines, "_LINGERING", 0.5)
    monkeypatch.setattr(postgres_log, "_SNAPSHOT_EVERY", 2)
    monkeypatch.setattr(postgres_log, "_SPREAD", 1)
    monkeypatch.setattr(snapshots, "_PIECE", 1)
    monkeypatch.setattr(server, "PART", 1)
    begun = threading.Event()

    def slowly(_: Server, __: int, parts: Iterator[bytes]) -> None:
        for _part in parts:
            begun.set()
            time.sleep(1.5)

    monkeypatch.setattr(Server, "keep_snapshot", slowly)
    with closing(open_store(url, create=True)) as first, closing(open_store(url)) as second:
        first.commit(Change(add=[_quad(number) for number in range(200)]))
        for number in (200, 201):
            first.commit(Change(add=[_quad(number)]))
        assert begun.wait(10)
        (first if whose == "own" else second).vacuum()
        first.sync()
        assert first.commit(Change(add=[_quad(202)])).written
        assert len(first) == 203


def while_another_is_kept(other: Server, part: bytes) -> Iterator[bytes]:
    """A snapshot's part, and then a later snapshot that another process keeps before the first one is there."""
    yield part
    keeping = threading.Thread(target=lambda: other.keep_snapshot(3, [b"three"]), daemon=True)
    keeping.start()
    keeping.join(10)
    assert not keeping.is_alive()


def test_who_keeps_a_snapshot_waits_for_nobody_who_keeps_another(url: str) -> None:
    """Each waited for the rows that the other had dropped: one of them was ended by the server, a second later."""
    with closing(open_store(url, create=True)) as store:
        for number in range(3):
            store.commit(Change(add=[_quad(number)]))
        first, second = log_of(store).server.another(), log_of(store).server.another()
        first.keep_snapshot(1, [b"one"])
        first.keep_snapshot(2, while_another_is_kept(second, b"two"))
        assert first.snapshot() == (3, [b"three"])
        first.keep_snapshot(3, [b"again", b"three"])
        assert first.snapshot() == (3, [b"again", b"three"])
        first.close()
        second.close()


def test_who_keeps_a_snapshot_in_place_of_one_of_the_same_record_waits_for_nobody_either(url: str) -> None:
    with closing(open_store(url, create=True)) as store:
        for number in range(3):
            store.commit(Change(add=[_quad(number)]))
        first, second = log_of(store).server.another(), log_of(store).server.another()
        first.keep_snapshot(2, [b"two", b"of it"])
        first.rewrite(2, lambda _: None, while_another_is_kept(second, b"two again"), vacuumed=False)
        assert first.snapshot() == (3, [b"three"])
        first.keep_snapshot(3, [b"again"])
        assert first.snapshot() == (3, [b"again"])
        first.close()
        second.close()


def test_a_snapshot_that_is_kept_without_the_text_takes_the_place_of_one_of_the_same_record(url: str) -> None:
    with closing(open_store(url, create=True)) as store:
        store.commit(Change(add=[_quad(0)]))
        there = log_of(store).server
        there.keep_snapshot(1, [b"with the text", b"and more"])
        there.rewrite(1, lambda _: None, [b"without"], vacuumed=False)
        assert there.snapshot() == (1, [b"without"])
        there.rewrite(1, lambda _: None, None, vacuumed=False)
        assert there.snapshot() == (0, [])


def test_a_process_keeps_no_snapshot_where_another_has_just_kept_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_log, "_SNAPSHOT_EVERY", 10)
    monkeypatch.setattr(postgres_log, "_SPREAD", 1)
    kept: list[int] = []
    keep = Server.keep_snapshot

    def noted(self: Server, number: int, parts: Iterator[bytes]) -> None:
        kept.append(number)
        keep(self, number, parts)

    monkeypatch.setattr(Server, "keep_snapshot", noted)
    first, second = open_store(url, create=True), open_store(url)
    for number in range(12):
        first.commit(Change(add=[_quad(number)]))
    first.close()  # waits for what it keeps in the background
    assert len(kept) == 1
    second.sync()
    for number in range(12, 18):
        second.commit(Change(add=[_quad(number)]))
    second.close()
    assert len(kept) == 1
    third = open_store(url)
    assert len(third) == 18
    for number in range(18, 30):
        third.commit(Change(add=[_quad(number)]))
    third.close()
    assert len(kept) == 2


def test_a_snapshot_that_is_being_kept_is_given_up_by_who_removes_the_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two held rows that the other one waited for, until the server ended one of them."""
    monkeypatch.setattr(postgres_log, "_SNAPSHOT_EVERY", 2)
    monkeypatch.setattr(postgres_log, "_SPREAD", 1)
    begun, go_on = threading.Event(), threading.Event()

    def slowly(parts: Iterator[bytes]) -> Iterator[bytes]:
        begun.set()
        go_on.wait(10)
        yield from parts

    with closing(open_store(url, create=True)) as store:
        store.commit(Change(add=[_quad(0)]))
        assert store.snapshot() == 1
        log = log_of(store)
        taken = log._taken
        monkeypatch.setattr(log, "_taken", lambda index: (taken(index)[0], slowly(iter([b""]))))
        for number in range(1, 5):
            store.commit(Change(add=[_quad(number)]))
        assert begun.wait(10)
        threading.Timer(0.5, go_on.set).start()
        assert log.remove_store(store)
        assert log._snapshots is not None
        log._snapshots.join()
        left = log.server.another()
        assert left.newest_snapshot() == 0
        with pytest.raises(StoreFailed, match="was taken out of its database"):
            left.since(0, 1)
        left.close()


def test_an_index_that_another_process_throws_away_meanwhile_is_passed_over(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(url, create=True)) as store:
        store.commit(Change(add=[_quad(0)]))
    there = cache.found
    monkeypatch.setattr(cache, "found", lambda store_id: [tmp_path / "gone", *there(store_id)])
    with closing(open_store(url)) as store:
        assert len(store) == 1
