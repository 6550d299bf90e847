"""Stores are copied, and sessions pushed and pulled, between folders, PostgreSQL and dumps."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

import trails
from tests.support.clusters import Cluster
from tests.support.commands import invoke
from tests.support.everything import everything
from trails import InvalidInput, StoreFailed
from trails.exchange.remotes import store_copy
from trails.exchange.remotes.store_copy import copy_store, discard_copy
from trails.history import transaction
from trails.store import QuadStore
from trails.store.postgres.log import open_store


@pytest.fixture
def source(filled_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled_once, tmp_path / filled_once.name))


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filled") / "source.trails"
    with trails.open(place, create=True, durability="process") as store:
        everything(store)
    return place


def held(location: str | Path) -> tuple[set[Any], list[str]]:
    with trails.open(location) as store:
        return set(store.store.quads((None, None, None, None))), store.store.log.lines()


@pytest.mark.slow
def test_a_store_goes_to_postgresql_to_another_one_to_a_dump_and_back_equal(
    source: Path, tmp_path: Path, url: str
) -> None:
    places = [url, f"{url}-2", str(tmp_path / "all.nq.gz"), str(tmp_path / "back.trails"), f"{url}-3"]
    for here, there in zip([str(source), *places], places, strict=False):
        done = copy_store(here, there)
        assert done.written
        assert done.report is None or done.report.ok
    assert held(url) == held(tmp_path / "back.trails") == held(f"{url}-3") == held(source)
    assert not copy_store(source, url).written


def test_a_copy_to_postgresql_that_was_cut_short_is_no_store_and_goes_on(
    source: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile = store_copy._reconcile

    def cut_short(*given: Any) -> int:
        reconcile(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store_copy, "_reconcile", cut_short)
        with pytest.raises(KeyboardInterrupt):
            copy_store(source, url)
    with pytest.raises(StoreFailed, match="not finished"):
        trails.open(url)
    copy_store(source, url)
    assert held(url) == held(source)


@pytest.mark.parametrize(
    "at",
    [
        pytest.param("_reconcile", marks=pytest.mark.slow),
        pytest.param("_lines_of", marks=pytest.mark.slow),
        "_verified",
    ],
)
def test_of_two_copies_into_one_store_one_ends_and_the_other_is_whole(
    source: Path, url: str, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    real, numbers = getattr(store_copy, at), list[int]()

    def beside(*given: Any) -> Any:
        if not numbers:
            numbers.append(0)
            copy_store(source, url)
            with trails.open(url) as store:
                numbers.append(store.store.number)
        return real(*given)

    monkeypatch.setattr(store_copy, at, beside)
    with pytest.raises(StoreFailed, match=r"another process writes to .* while it is copied to"):
        copy_store(source, url)
    with trails.open(url) as store:
        assert store.store.number == numbers[-1] > 0
    assert held(url) == held(source)
    assert not copy_store(source, url).written


def test_a_store_in_postgresql_is_not_copied_into_itself_nor_over_another(source: Path, url: str) -> None:
    with trails.open(url, create=True) as store:
        store.create(id="mine").persist()
    before = held(url)
    with pytest.raises(InvalidInput, match="the store itself"):
        copy_store(url, url)
    with pytest.raises(InvalidInput, match="no copy of"):
        copy_store(source, url)
    assert held(url) == before


def test_a_source_that_is_not_there_makes_no_store_in_the_database(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match="no Trails store"):
        copy_store(tmp_path / "nowhere", url)
    with pytest.raises(InvalidInput, match="no Trails store"):
        trails.open(url)


def test_sessions_are_pushed_to_postgresql_and_pulled_from_it(tmp_path: Path, url: str) -> None:
    with trails.open(tmp_path / "mine", create=True) as mine, trails.open(url, create=True) as team:
        plan = mine.create(id="plan")
        plan.append("user", "Plan a trip")
        plan.persist()
        assert [each.outcome for each in trails.push(mine, "plan", team).sessions] == ["created"]
        theirs = team.load("plan")
        theirs.append("assistant", "Where to?")
        theirs.persist()
        assert [each.outcome for each in trails.pull(mine, "plan", team).sessions] == ["forwarded"]
        assert mine.load("plan").head == theirs.head
        assert team.verify().ok


def test_a_store_of_another_process_is_copied_as_it_is_now(tmp_path: Path, url: str, cluster: Cluster) -> None:
    with trails.open(url, create=True) as store:
        store.create(id="first").persist()
        copy_store(url, tmp_path / "there")
        with trails.open(tmp_path / "there") as there:
            assert [each.id for each in there.list()] == ["first"]


def cut_short(source: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store_copy, "_checked", interrupt)
        with pytest.raises(KeyboardInterrupt):
            copy_store(source, url)


def rows_of(url: str, name: str) -> list[int]:
    """Return how many rows a database has of all stores, by table; a name may stand for one store."""
    with psycopg.connect(url.rpartition("&store=")[0]) as owner:
        found = owner.execute("SELECT count(*) FROM trails_stores WHERE name = %s", (name,)).fetchone()
        assert found is not None
        counts = [int(found[0])]
        for table in ("records", "readers"):
            left = owner.execute(
                f"SELECT count(*) FROM trails_{table} WHERE store NOT IN (SELECT id FROM trails_stores)".encode()  # noqa: S608 - three names
            ).fetchone()
            assert left is not None
            counts.append(int(left[0]))
    return counts


def test_a_copy_that_was_cut_short_is_discarded_and_its_name_is_free(
    source: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(source, url, monkeypatch)
    name = url.rpartition("store=")[2]
    with psycopg.connect(url.rpartition("&store=")[0]) as owner:
        owner.execute(
            """INSERT INTO trails_readers SELECT id, 'elsewhere', 'other:1', 1, 0, true, now() FROM trails_stores
               WHERE name = %s""",
            (name,),
        )
    assert rows_of(url, name) == [1, 0, 0]
    done = invoke("store", "discard", url)
    assert (done.exit_code, "is there no more" in done.stderr) == (0, True)
    assert rows_of(url, name) == [0, 0, 0]
    assert not list((tmp_path / "cache").glob("trails/*/*")), "no index of it is left here"
    with pytest.raises(InvalidInput, match="no Trails store"):
        trails.open(url)
    copy_store(source, url)
    assert held(url) == held(source)


def test_a_whole_store_is_never_discarded(source: Path, url: str) -> None:
    copy_store(source, url)
    before = held(url)
    for _ in range(2):
        done = invoke("store", "discard", url)
        assert (done.exit_code, "is a whole store" in done.stderr) == (2, True)
    assert held(url) == before


def test_a_store_beside_the_one_that_is_discarded_stays(
    source: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(f"{url}-2", create=True) as store:
        store.create(id="mine").persist()
    before = held(f"{url}-2")
    cut_short(source, url, monkeypatch)
    discard_copy(url)
    assert held(f"{url}-2") == before


def test_a_copy_that_goes_on_just_then_is_not_discarded(
    source: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(source, url, monkeypatch)
    is_half_copied = transaction.is_half_copied

    def overtaken(store: QuadStore) -> bool:
        found = is_half_copied(store)
        with monkeypatch.context() as patch:
            patch.setattr(transaction, "is_half_copied", is_half_copied)
            copy_store(source, url)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(transaction, "is_half_copied", overtaken)
        with pytest.raises(StoreFailed, match="nothing was removed"):
            discard_copy(url)
    assert held(url) == held(source)


def test_a_copy_that_was_cut_short_before_its_first_commit_is_discarded(url: str) -> None:
    open_store(url, create=True).close()
    assert discard_copy(url).commits == 0
    with pytest.raises(InvalidInput, match="no Trails store"):
        trails.open(url)


_COPYING = """
import sys, time
from trails.exchange.remotes.store_copy import copy_store as copy
def wait(done, of, what):
    if done and what == "copying":
        print(what, flush=True)
        time.sleep(600)
copy(sys.argv[1], sys.argv[2], progress=wait)
"""
_OPENING = """
import sys, time
from trails.store.postgres.log import open_store
store = open_store(sys.argv[1], create=True)
print("open", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a copy that goes on", "a store in which nothing was committed yet"])
def test_what_another_process_has_open_is_not_discarded_until_that_has_ended(source: Path, url: str, what: str) -> None:
    given = ["-c", _COPYING, str(source), url] if "copy" in what else ["-c", _OPENING, url]
    with subprocess.Popen([sys.executable, *given], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            with pytest.raises(StoreFailed, match=r"open in another process.*nothing was removed"):
                discard_copy(url)
        finally:
            process.kill()
    assert discard_copy(url).commits == (2 if "copy" in what else 0)
    with pytest.raises(InvalidInput, match="no Trails store"):
        trails.open(url)


def test_what_is_in_no_database_is_not_discarded(source: Path) -> None:
    with pytest.raises(InvalidInput, match="is in no database"):
        discard_copy(source)
    assert source.is_dir()
