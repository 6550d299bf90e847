"""Several processes that take texts out of one store, or copy turns there: each goes on from what the one before it left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.clusters import log_of
from tests.support.places import ROOT
from trails import Repository
from trails.history.removal import detach
from trails.store import Change, EmbeddedStore
from trails.store.log import erasing
from trails.store.log.records import Row
from trails.store.postgres.log import open_store
from trails.store.postgres.server import Server

_OPERATIONS: dict[str, Callable[[Repository], object]] = {
    "redact": lambda store: store.redact("fork", 2, by="bob"),
    "redact a name": lambda store: store.redact_matching("ahura", by="bob"),
    "detach": lambda store: store.detach("fork"),
    "flatten": lambda store: store.flatten("fork", id="flat"),
    "delete": lambda store: store.delete("main", children="detach"),
}


@pytest.fixture
def both(url: str) -> Iterator[tuple[Repository, Repository]]:
    """Two that have one store open, as two processes have, each with its own index; and a fork in it."""
    with trails.open(url, create=True) as one, trails.open(url) as other:
        main = one.create(id="main", principal="zarathustra")
        for text in ("Plan a trip", "By train"):
            main.append("user", text, author="zarathustra")
        main.persist()
        fork = main.fork(at=2, id="fork", principal="ahura")
        fork.append("user", "By bike", author="zarathustra")
        fork.persist()
        other.sync()
        yield one, other


@pytest.mark.parametrize("second", sorted(_OPERATIONS))
def test_a_name_that_another_process_took_out_is_gone_for_whoever_rewrites_next(
    both: tuple[Repository, Repository], second: str
) -> None:
    one, other = both
    one.redact_matching("zarathustra", by="alice")
    _OPERATIONS[second](other)
    for store in both:
        store.sync()
        assert store.verify().findings == ()
        turns = [turn for each in store.list(limit=9) for turn in store.load(each.id).turns]
        assert not any("zarathustra" in f"{turn.author}" for turn in turns)


@pytest.mark.parametrize("second", ["redact", "detach", "flatten"])
def test_a_turn_that_another_process_redacted_is_so_in_every_copy(
    both: tuple[Repository, Repository], second: str
) -> None:
    one, other = both
    one.redact("main", 0, by="alice")
    _OPERATIONS[second](other)
    for store in both:
        store.sync()
        assert store.verify().findings == ()
        assert not any(turn.text == "Plan a trip" for each in store.list(limit=9) for turn in store.load(each.id).turns)


def test_what_another_process_is_just_copying_is_no_finding(
    both: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both
    written, begun, may_end = detach._write_copies, threading.Event(), threading.Event()

    def and_wait(*args: Any, **named: Any) -> None:
        written(*args, **named)
        begun.set()
        may_end.wait(30)

    monkeypatch.setattr(detach, "_write_copies", and_wait)
    copying = threading.Thread(target=other.detach, args=("fork",))
    copying.start()
    assert begun.wait(30)
    one.sync()
    threading.Timer(0.5, may_end.set).start()
    assert one.verify().findings == ()
    copying.join()
    assert one.load("fork").parent_session_id is None


_KILLED = """
import os, sys, trails
from trails.history.removal import detach
written = detach._write_copies
def and_die(*args, **named):
    written(*args, **named)
    os._exit(9)
detach._write_copies = and_die
trails.open(sys.argv[1]).detach("fork")
"""


def test_what_a_killed_process_was_copying_is_swept_by_who_verifies(
    both: tuple[Repository, Repository], url: str
) -> None:
    one, _ = both
    killed = subprocess.run([sys.executable, "-c", _KILLED, url], cwd=ROOT, check=False, env=dict(os.environ))
    assert killed.returncode == 9
    one.sync()
    assert one.verify().findings == ()
    assert one.load("fork").parent_session_id == "main"


# --- two that rewrite the records of one log, one store with its own copy of the log each


def _quad(name: str) -> Quad:
    return Quad(NamedNode(f"urn:{name}"), NamedNode("urn:p"), Literal(f"text of {name}"), NamedNode("urn:g"))


def _erase(store: EmbeddedStore, name: str) -> None:
    with store.erasing():
        store.commit(Change(remove=[_quad(name)]))


def _texts(rows: Sequence[Row]) -> bytes:
    return b"".join(each.unpack().record.add for each in rows)


@pytest.fixture
def stores(url: str) -> Iterator[tuple[EmbeddedStore, EmbeddedStore]]:
    with closing(open_store(url, create=True)) as one, closing(open_store(url)) as other:
        one.commit(Change(add=[_quad("a"), _quad("b"), _quad("c")]))
        other.sync()
        yield one, other


def test_what_another_process_erases_from_a_record_meanwhile_does_not_come_back(
    stores: tuple[EmbeddedStore, EmbeddedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = stores
    without, left = erasing.without, ["b"]

    def and_erase(*args: Any, **named: Any) -> Row | None:
        new = without(*args, **named)
        if left:
            _erase(other, left.pop())
        return new

    monkeypatch.setattr(erasing, "without", and_erase)
    _erase(one, "a")
    texts = _texts(log_of(one).server.tail(0, 10))
    assert [name for name in "abc" if f"text of {name}".encode() in texts] == ["c"]
    assert log_of(other).trouble(other) is None


def test_what_another_process_erases_meanwhile_does_not_come_back_to_the_copy_on_this_machine(
    stores: tuple[EmbeddedStore, EmbeddedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = stores
    rows, threads = Server.rows, list[threading.Thread]()

    def and_wait(server: Server, numbers: Sequence[int]) -> list[Row]:
        found = rows(server, numbers)
        if server is log_of(one).server and not threads:
            threads.append(threading.Thread(target=_erase, args=(other, "b")))
            threads[0].start()
            threads[0].join(1.5)
        return found

    monkeypatch.setattr(Server, "rows", and_wait)
    _erase(one, "a")
    threads[0].join()
    texts = _texts(one.commits.home.tail(0))
    assert [name for name in "abc" if f"text of {name}".encode() in texts] == ["c"]
