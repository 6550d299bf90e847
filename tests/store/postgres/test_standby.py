"""A primary dies and its standby is promoted: a synchronous one has all that was acknowledged, of one that lagged it is said."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import trails
from tests.support import clusters
from tests.support.clusters import Cluster
from tests.support.commands import invoke, ok, ok_json
from trails import InvalidInput, StoreFailed
from trails.store.postgres import connection, link, upkeep
from trails.store.postgres.address import parse
from trails.store.postgres.log import folder_of
from trails.store.postgres.server import Server


@pytest.fixture
def pair(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Cluster, Cluster]]:
    """A primary and its standby, of this test alone; `cluster` says whether PostgreSQL is there."""
    assert cluster.programs.is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    primary = clusters.make()
    standby = clusters.standby_of(primary)
    yield primary, standby
    for each in (primary, standby):
        clusters.remove(each)


def url_of(primary: Cluster, standby: Cluster) -> str:
    hosts = f"{primary.folder},{standby.folder}"
    return f"postgresql:///postgres?host={hosts}&user=postgres&target_session_attrs=read-write&store=team"


def persisted(session: trails.Session) -> None:
    """Persist, and again where the primary said, as it died, that its standby may not have it: that is not acknowledged."""
    try:
        session.persist()
    except StoreFailed as error:
        if "commit again" not in error.message:
            raise
        session.persist()


@pytest.mark.slow
def test_what_was_acknowledged_is_there_after_a_synchronous_standby_took_over(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, standby = pair
    monkeypatch.setattr(link, "PATIENCE", 60.0)  # a busy machine promotes slowly
    primary.wait_for_standby()
    acknowledged: list[str] = []
    failed: list[BaseException] = []
    enough, more = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with trails.open(url_of(primary, standby), create=True) as store:
                session = store.create(id="plan")
                number = 0
                while not more.is_set():
                    session.append("user", f"turn {number}")
                    persisted(session)
                    acknowledged.append(f"turn {number}")
                    number += 1
                    if number >= 50:
                        enough.set()
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failed.append(error.__context__ or error)
            enough.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert enough.wait(60)
    before = len(acknowledged)
    primary.stop("immediate")
    standby.promote()
    _until(lambda: len(acknowledged) > before + 20 or bool(failed))
    more.set()
    writer.join(60)
    assert failed == []
    with trails.open(url_of(primary, standby)) as store:
        assert [turn.text for turn in store.load("plan").turns] == acknowledged
        assert store.verify().ok


def _until(done: object) -> None:
    pause = threading.Event()
    for _ in range(1_200):
        if done():  # type: ignore[operator]
            return
        pause.wait(0.05)
    pytest.fail("nothing went on")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::trails.PendingTurnsWarning")
def test_a_standby_that_lagged_is_said_and_nothing_is_merged(pair: tuple[Cluster, Cluster]) -> None:
    primary, standby = pair
    primary.wait_for_standby(synchronous=False)
    url = url_of(primary, standby)
    store, other = trails.open(url, create=True), trails.open(url)
    session = store.create(id="plan")
    session.append("user", "kept")
    session.persist()
    _caught_up(primary)
    standby.stop()
    for text in ("lost", "lost, too"):
        session.append("user", text)
        session.persist()
    other.sync()
    primary.stop("immediate")
    standby.start()
    standby.promote()
    session.append("user", "pending")
    with pytest.raises(StoreFailed, match=r"another history .*record 3"):
        session.persist()
    assert [turn.text for turn in session.turns] == ["kept", "lost", "lost, too", "pending"]
    with pytest.raises(StoreFailed, match="another history"):
        other.sync()
    store.close()
    other.close()
    with trails.open(url) as again:
        assert [turn.text for turn in again.load("plan").turns] == ["kept"]
        assert again.verify().ok


@pytest.mark.slow
def test_a_standby_that_lags_is_read_on_the_machine_of_a_writer_and_spoils_nothing(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, standby = pair
    primary.wait_for_standby(synchronous=False)
    url, lagging = primary.url("team"), standby.url("team")
    with trails.open(url, create=True) as store:
        session = store.create(id="plan")
        session.append("user", "early")
        session.persist()
        _caught_up(primary)
        with psycopg.connect(f"host={standby.folder} user=postgres dbname=postgres", autocommit=True) as there:
            there.execute("SELECT pg_wal_replay_pause()")
            session.append("user", "late")
            session.persist()
            with trails.open(lagging, read_only=True) as view:
                assert [turn.text for turn in view.load("plan")] == ["early"]
                session.append("user", "later")
                session.persist()
                assert [turn.text for turn in store.load("plan")] == ["early", "late", "later"]
                there.execute("SELECT pg_wal_replay_resume()")
                _caught_up(primary)
                view.refresh()
                assert [turn.text for turn in view.load("plan")] == ["early", "late", "later"]
        with trails.open(lagging, read_only=True) as view:
            assert view.verify().ok
    with psycopg.connect(f"host={standby.folder} user=postgres dbname=postgres", autocommit=True) as there:
        there.execute("SELECT pg_wal_replay_pause()")
        copy = folder_of(_cache_name(url)).with_name(f"{_cache_name(url)}-standby")
        with trails.open(url) as store:
            session = store.load("plan")
            session.append("user", "last")
            session.persist()
        shutil.rmtree(copy)  # as if another standby, which does not lag, had been read here
        shutil.copytree(folder_of(_cache_name(url)), copy)
        with pytest.raises(StoreFailed, match=r"lags: it has 3 commits, and this machine's copy has 4"):
            trails.open(lagging, read_only=True)
        there.execute("SELECT pg_wal_replay_resume()")
    _caught_up(primary)
    with trails.open(lagging, read_only=True) as view:
        assert [turn.text for turn in view.load("plan")] == ["early", "late", "later", "last"]
    assert ["a standby: every write is refused" in upkeep.look(each)[0].message for each in (url, lagging)] == [
        False,
        True,
    ]


def _cache_name(url: str) -> str:
    with closing(Server(parse(url))) as server:
        server.find()
        return server.cache_name()


def _caught_up(primary: Cluster) -> None:
    with psycopg.connect(f"host={primary.folder} user=postgres dbname=postgres", autocommit=True) as owner:
        asked = "SELECT bool_and(replay_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication"
        _until(lambda: owner.execute(asked).fetchone() == (True,))


def test_reading_waits_for_no_standby_though_who_reads_says_so(cluster: Cluster, url: str) -> None:
    trails.open(url, create=True).close()
    with psycopg.connect(f"host={cluster.folder} user=postgres dbname=postgres", autocommit=True) as owner:
        try:
            owner.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            owner.execute("SELECT pg_reload_conf()")
            _until(lambda: owner.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",))
            begun = time.monotonic()
            with trails.open(url) as store:
                assert list(store.list(fresh=True)) == []
            assert time.monotonic() - begun < connection.SILENCE / 2
        finally:
            owner.execute("ALTER SYSTEM RESET synchronous_standby_names")
            owner.execute("SELECT pg_reload_conf()")
            _until(lambda: owner.execute("SHOW synchronous_standby_names").fetchone() == ("",))


@pytest.mark.slow
def test_a_standby_is_read_by_who_opens_it_to_read(pair: tuple[Cluster, Cluster]) -> None:
    primary, standby = pair
    with trails.open(primary.url("team"), create=True) as store:
        store.create(id="plan").persist()

        def is_there() -> bool:
            try:
                with trails.open(standby.url("team"), read_only=True) as view:
                    return "plan" in view
            except InvalidInput:  # its tables have not come there yet
                return False

        _until(is_there)
        with trails.open(standby.url("team"), read_only=True) as view:
            store.create(id="later").persist()
            _until(lambda: view.refresh() or "later" in view)
            assert view.verify().ok


@pytest.mark.slow
def test_an_auditor_verifies_on_a_standby_and_each_server_tells_how_far_the_standby_is(
    pair: tuple[Cluster, Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, standby = pair
    with trails.open(primary.url("team"), create=True) as store:
        store.create(id="plan").persist()
        granted = ok(invoke("store", "grants", "auditor", "trails_auditor", store=primary.url("team")))
        with psycopg.connect(f"host={primary.folder} user=postgres dbname=postgres", autocommit=True) as owner:
            owner.execute(granted.encode())
        primary.wait_for_standby(synchronous=False)
        _caught_up(primary)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "auditor"))
        there = standby.url("team").replace("user=postgres", "user=trails_auditor")
        with trails.open(there, read_only=True) as view:
            assert "plan" in view
            assert view.verify().ok
            store.create(id="later").persist()
            _caught_up(primary)
            found = ok_json(invoke("store", "status", "--json", store=there))
            assert (found["log"]["is_standby"], found["log"]["commits"], found["here"]["lag_commits"]) == (True, 2, 1)
            assert 0 <= found["log"]["replayed_seconds"] < 60
            assert view.refresh()
            assert ok_json(invoke("store", "status", "--json", store=there))["here"]["lag_commits"] == 0
        assert [check.name for check in upkeep.look(there) if not check.ok] == ["durability"]  # tests sync nothing
        (told,) = ok_json(invoke("store", "status", "--json", store=primary.url("team")))["standbys"]
        assert (told["state"], told["sync"]) == ("streaming", "async")
        assert "is a standby" not in ok(invoke("store", "status", store=primary.url("team")))
        assert "a standby, which only reads" in ok(invoke("store", "status", store=there))
