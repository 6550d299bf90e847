"""Refs of a store in PostgreSQL: beside plain lists, and by several handles with an index each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest

import trails
from tests.support.clusters import Cluster
from tests.support.machines import Size, walk
from tests.support.ref_machine import RefMachine
from tests.support.ref_writers import race, whats_left
from trails import Repository


class OnServer(RefMachine):
    """In PostgreSQL, closed and opened again."""

    url: ClassVar[Callable[[str], str]]
    place: ClassVar[str]

    @classmethod
    def begun(cls) -> Repository:
        cls.place = cls.url(f"s{uuid4().hex}")
        return trails.open(cls.place, create=True)

    @classmethod
    def again(cls, store: Repository) -> Repository:
        store.close()
        return trails.open(cls.place)


def test_refs_on_a_server_hold_what_lists_hold(
    cluster: Cluster, size: Size, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    OnServer.url = cluster.url
    walk(OnServer, size, quick=(2, 10), all=(6, 30), long=(50, 100))


def test_writers_on_one_ref_of_a_server_lose_and_double_nothing(url: str, size: Size) -> None:
    steps = {"quick": 2, "all": 10, "long": 100}[size]
    trails.open(url, create=True).close()

    def work(name: int) -> tuple[list[str], list[str]]:
        with trails.open(url) as store:
            return race(store, f"w{name}", steps)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    with trails.open(url) as store:
        assert {turn.text: 1 for turn in store.checkout("main")} == +whats_left(results)
        report = store.verify()
        assert (report.ok, report.findings) == (True, ())
