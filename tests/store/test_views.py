"""A view of a store that other processes write to: what it sees, until it is refreshed, is of one moment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.machines import Size
from trails.errors import InvalidInput, StoreFailed, StoreReadOnly
from trails.integrity.leaves import Leaf
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore, ViewStore, drop_graph
from trails.testing import StoreConformance

GRAPH = NamedNode("https://example.org/graph")
BULK = 4_000
"""Quads that go through the engine's bulk loader (`commit_batch.BULK_FROM`)."""


def quad(number: int) -> Quad:
    subject = NamedNode(f"https://example.org/s{number}")
    return Quad(subject, NamedNode("https://example.org/p"), Literal(f"v{number}"), GRAPH)


class Beside:
    """A store of which all that is read comes from a view beside the owner, refreshed just before."""

    def __init__(self, path: Path) -> None:
        self._owner = EmbeddedStore(path, create=True)
        self._view = ViewStore(path)

    def __getattr__(self, name: str) -> Any:
        if name in ("commit", "flush", "token"):
            return getattr(self._owner, name)
        self._owner.number  # noqa: B018 - raises where it is closed
        self._view.refresh()
        return getattr(self._view, name)

    def __len__(self) -> int:
        self._owner.number  # noqa: B018 - raises where it is closed
        self._view.refresh()
        return len(self._view)

    def close(self) -> None:
        self._view.close()
        self._owner.close()


class TestReadingBesideTheOwner(StoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: Beside(tmp_path / "store")


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore(tmp_path / "store", create=True)
    yield opened
    opened.close()


@pytest.fixture
def view(owner: EmbeddedStore) -> Iterator[ViewStore]:
    commit(owner, 1)
    opened = ViewStore(Path(owner.location))
    yield opened
    opened.close()


def commit(store: EmbeddedStore, *numbers: int, remove: Sequence[int] = ()) -> None:
    store.commit(Change(add=[quad(each) for each in numbers], remove=[quad(each) for each in remove]))


def seen(store: EmbeddedStore | ViewStore) -> set[Quad]:
    return set(store.quads((None, None, None, None)))


# --- what is seen


def test_a_view_sees_what_was_acknowledged_before_it_opened_and_the_rest_after_a_refresh(
    owner: EmbeddedStore, view: ViewStore
) -> None:
    assert seen(view) == {quad(1)}
    commit(owner, 2, remove=[1])
    assert seen(view) == {quad(1)}
    assert (view.number, view.refresh(), view.number) == (1, True, 2)
    assert seen(view) == {quad(2)}
    assert view.refresh() is False


def test_every_look_at_once_after_a_commit_sees_it(owner: EmbeddedStore, view: ViewStore) -> None:
    for number in range(2, 40):
        commit(owner, number)
        assert view.refresh()
        assert (view.number, len(view)) == (number, number)


def test_the_log_of_a_view_ends_where_its_quads_do(owner: EmbeddedStore, view: ViewStore) -> None:
    owner.commit(Change(add=[quad(2)], leaves=[Leaf("turns", "urn:trails:session:a", 1, "00" * 32)]))
    assert view.log.lines() == []
    view.refresh()
    owner.commit(Change(add=[quad(3)], leaves=[Leaf("turns", "urn:trails:session:a", 2, "11" * 32)]))
    assert len(view.log.lines()) == 1
    assert view.log.lines() == owner.log.lines()[:1]
    view.refresh()
    assert view.log.lines() == owner.log.lines()


def test_a_view_keeps_what_it_saw_while_the_owner_replaces_deletes_and_ends(
    owner: EmbeddedStore, view: ViewStore
) -> None:
    commit(owner, *range(2, 500))
    owner.snapshot()
    view.refresh()
    assert len(view) == 499
    for number in range(4):
        commit(owner, 1000 + number)
        owner.snapshot()
    drop_graph(owner, GRAPH)
    owner.vacuum()
    assert seen(view) == {quad(each) for each in range(1, 500)}
    owner.close()
    shutil.rmtree(owner.location)
    assert seen(view) == {quad(each) for each in range(1, 500)}
    assert view.query("ASK { GRAPH ?g { ?s ?p ?o } }") is True
    with pytest.raises(StoreFailed):
        view.refresh()
    assert len(view) == 499


def test_an_owner_that_comes_later_is_seen_by_a_refresh(owner: EmbeddedStore) -> None:
    commit(owner, 1)
    owner.close()
    view = ViewStore(Path(owner.location))
    again = EmbeddedStore(Path(owner.location))
    commit(again, 2)
    assert (view.refresh(), seen(view)) == (True, {quad(1), quad(2)})
    again.close()
    assert view.refresh() is False
    view.close()


# --- what cannot be seen


def test_a_folder_that_is_no_store_is_none_to_a_view_either(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no Trails store"):
        ViewStore(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


# --- handles


def test_whatever_writes_is_refused_before_the_engine_is_asked(
    view: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ViewStore, "_engine", lambda _: pytest.fail("the engine was asked"))
    for change in (Change(add=[quad(9)]), Change(drop=[GRAPH])):
        with pytest.raises(StoreReadOnly, match="read_only=True"):
            view.commit(change)


def test_a_closed_view_refuses_everything_and_closes_twice(view: ViewStore) -> None:
    view.close()
    view.close()
    uses: list[Callable[[], object]] = [lambda: view.query("ASK {}"), lambda: len(view)]
    uses += [view.refresh, lambda: view.commit(Change(add=[quad(1)]))]
    for use in uses:
        with pytest.raises(StoreFailed, match="closed"):
            use()


def test_many_views_in_one_process_each_keep_their_moment(owner: EmbeddedStore) -> None:
    views = []
    for number in range(12):
        commit(owner, number)
        views.append(ViewStore(Path(owner.location)))
    assert [len(each) for each in views] == list(range(1, 13))
    for each in views:
        each.close()


def test_a_view_is_refreshed_under_queries_that_run(owner: EmbeddedStore, view: ViewStore, size: Size) -> None:
    commits = 10 if size == "quick" else 29
    done = threading.Event()
    wrong: list[object] = []

    def ask() -> None:
        least = 0
        while not done.is_set():
            count = len(view.quads((None, None, None, None)))
            rows = view.table("SELECT ?s { GRAPH ?g { ?s ?p ?o } }")
            if not least <= count <= len(rows):
                wrong.append((least, count, len(rows)))
            least = count

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(2, commits + 1):
        commit(owner, number)
        assert view.refresh()
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(view) == commits


def test_a_forked_child_is_told_to_open_the_store_itself_and_takes_nothing_from_its_parent(
    view: ViewStore, owner: EmbeddedStore
) -> None:
    child = os.fork()
    if not child:  # pragma: no cover - another process
        code = 1
        try:
            view.quads((None, None, None, None))
        except StoreFailed as error:
            code = 0 if "forked" in str(error) else 2
        view.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert seen(view) == {quad(1)}
    commit(owner, 2)
    assert view.refresh()


def test_a_view_that_was_not_read_yet_when_text_was_erased_shows_what_is_left(owner: EmbeddedStore) -> None:
    commit(owner, 1, 2)
    view = ViewStore(Path(owner.location))
    with owner.erasing():
        commit(owner, remove=[1])
    assert seen(view) == {quad(2)}
    view.close()


def test_a_view_that_was_refreshed_stays_at_its_moment_while_more_is_erased(tmp_path: Path) -> None:
    with trails.open(tmp_path / "chats", create=True) as owner, trails.open(tmp_path / "chats", read_only=True) as view:
        chat = owner.create(id="plan")
        for text in "ab":
            chat.append("user", text)
            chat.persist()
            owner.redact("plan", len(chat) - 1)
            view.refresh()
            owner.maintenance.vacuum()
            view.refresh()
        chat.append("user", "c")
        chat.persist()
        owner.redact("plan", 2)
        owner.maintenance.vacuum()
        assert len(view.load("plan")) == 2
        assert (view.refresh(), len(view.load("plan"))) == (True, 3)


def test_the_folder_of_a_killed_process_is_removed_by_whoever_opens_the_store_next(owner: EmbeddedStore) -> None:
    commit(owner, *range(2_000))
    owner.snapshot()
    index = Path(owner.location) / "index"
    code = f"""
import os, signal
from pathlib import Path
from trails.store.embedded import ViewStore
view = ViewStore(Path({owner.location!r}))
print(len(view), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout == "2000\n"
    assert len([*index.glob("*.engine")]) == 2
    view = ViewStore(Path(owner.location))
    assert len(view) == 2000
    assert len([*index.glob("*.engine")]) == 2  # the owner's, which lives, and its own
    view.close()
    assert len([*index.glob("*.engine")]) == 1


def test_a_store_whose_folder_cannot_be_written_is_read_all_the_same(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    tmp_path.chmod(0o755)
    for up in tmp_path.parents:
        if up.owner() == "root" and up.stat().st_mode & 0o005 != 0o005:
            pytest.skip("another user may not look into the folders above")
    store = EmbeddedStore(tmp_path / "store", create=True)
    commit(store, *range(2_000))
    store.snapshot()
    store.close()
    subprocess.run(["chmod", "-R", "a+rX", str(tmp_path / "store")], check=True)
    code = f"""
import os
from pathlib import Path
from trails.store.embedded import ViewStore
os.setuid(65534)
view = ViewStore(Path({str(tmp_path / "store")!r}))
print(len(view))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout == "2000\n", ended.stderr
