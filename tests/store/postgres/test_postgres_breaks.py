"""What happens when the server goes away, an answer is lost, the log turns out to be another, or text is to be erased."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.clusters import Cluster, log_of
from tests.support.machines import Size
from trails import InvalidInput, StoreFailed, StoreLocked
from trails.integrity.leaves import Leaf
from trails.store import Change, Committed
from trails.store.leaflog import lines_after
from trails.store.log.commit_log import StoreDiverged
from trails.store.log.records import Row
from trails.store.postgres.link import Unreachable
from trails.store.postgres.log import open_store
from trails.store.postgres.server import Server

_GRAPH = NamedNode("urn:g")
_ROUNDS = """
import sys
from pyoxigraph import Literal, NamedNode, Quad
from trails.store import Change, PreconditionFailed
from trails.store.postgres.log import open_store
graph, p, store = NamedNode("urn:g"), NamedNode("urn:p"), open_store(sys.argv[1])
for number in range(int(sys.argv[3])):
    node = NamedNode(f"urn:s{number}")
    try:
        store.commit(Change(add=[Quad(node, p, Literal(sys.argv[2]), graph)], forbid=[(node, p, None, graph)]))
        print(number)
    except PreconditionFailed:
        pass
store.close()
"""


def _quad(number: int, text: str = "v") -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal(text), _GRAPH)


def test_a_commit_after_a_restart_of_the_server_is_written(cluster: Cluster, url: str) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    cluster.restart()
    assert store.commit(Change(add=[_quad(2)])).written
    assert store.number == 2
    store.close()


def test_sync_goes_on_after_a_restart_of_the_server(cluster: Cluster, url: str) -> None:
    store, other = open_store(url, create=True), open_store(url)
    other.commit(Change(add=[_quad(1)]))
    cluster.restart()
    assert store.sync()
    store.close()
    other.close()


def _end_connections(url: str) -> None:
    import psycopg

    with psycopg.connect(url.rpartition("&store=")[0]) as owner:
        owner.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'trails'"
        ).fetchall()


@pytest.mark.parametrize("how", ["close", "commit", "commit under the lock", "sync", "snapshot"])
def test_a_connection_that_the_server_ended_is_made_anew_and_nothing_is_printed(
    url: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    if how.endswith("lock"):
        log_of(store)._alone = 0
    _end_connections(url)
    if how.startswith("commit"):
        assert store.commit(Change(add=[_quad(2)])).written
    elif how != "close":
        getattr(store, how)()
    store.close()
    assert [record.getMessage() for record in caplog.records] == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["append", "append_at_once"])
def test_a_commit_whose_answer_was_lost_is_found_and_not_written_twice(
    url: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    store = open_store(url, create=True)
    if how == "append":
        log_of(store)._alone = 0
    append, lost = getattr(Server, how), [True]

    def lose(self: Server, rows: Sequence[Row], *known: Any) -> Any:
        done = append(self, rows, *known)
        if lost.pop() if lost else False:
            self.close()
            raise Unreachable("cut")
        return done

    monkeypatch.setattr(Server, how, lose)
    assert store.commit(Change(add=[_quad(1)])).written
    assert not lost
    assert store.number == 1
    assert store.quads((None, None, None, None)) == [_quad(1)]
    store.close()


def test_a_commit_that_the_server_never_got_fails_and_reading_goes_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    monkeypatch.setattr("trails.store.postgres.link.PATIENCE", 0.0)

    def away(*_: object) -> None:
        raise Unreachable("away")

    with monkeypatch.context() as patched:
        patched.setattr(Server, "lock", away)
        patched.setattr(Server, "append_at_once", away)
        with pytest.raises(StoreFailed, match="away"):
            store.commit(Change(add=[_quad(2)]))
        assert store.quads((None, None, None, None)) == [_quad(1)]
    assert store.commit(Change(add=[_quad(2)])).written
    store.close()


def test_a_log_with_another_history_is_said_and_nothing_is_merged(cluster: Cluster, url: str) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    store.commit(Change(add=[_quad(2)]))
    before = _forget_last(url)
    with pytest.raises(StoreDiverged, match="another history"):
        store.commit(Change(add=[_quad(3)]))
    store.close()
    again = open_store(url)
    assert again.number == before
    assert again.quads((None, None, None, None)) == [_quad(1)]
    again.close()


def _forget_last(url: str) -> int:
    """Take the last record out of the log, as a standby that lagged by one would not have it; return how many are left."""
    import psycopg

    conninfo, _, name = url.rpartition("&store=")
    with psycopg.connect(conninfo) as connection:
        connection.execute(
            """DELETE FROM trails_records r USING trails_stores s
               WHERE r.store = s.id AND s.name = %s AND r.number = s.head""",
            (name,),
        )
        connection.execute(
            """UPDATE trails_stores s SET head = s.head - 1, digest = r.digest FROM trails_records r
               WHERE r.store = s.id AND r.number = s.head - 1 AND s.name = %s""",
            (name,),
        )
        left = connection.execute("SELECT head FROM trails_stores WHERE name = %s", (name,)).fetchone()
    assert left is not None
    return int(left[0])


def test_vacuum_takes_removed_text_out_of_the_log_and_every_other_index_goes_on(url: str) -> None:
    first, second = open_store(url, create=True), open_store(url)
    first.commit(Change(add=[_quad(1, "secret"), _quad(2)]))
    first.commit(Change(remove=[_quad(1, "secret")]))
    second.sync()
    first.vacuum()
    assert not [row for row in log_of(first).server.tail(0, 10) if b"secret" in row.unpack().record.add]
    first.commit(Change(add=[_quad(3)]))
    assert second.sync()
    assert len(second) == 2
    first.close()
    second.close()
    third = open_store(url)
    assert sorted(quad.subject.value for quad in third.quads((None, None, None, None))) == ["urn:s2", "urn:s3"]  # type: ignore[union-attr]
    third.close()


@pytest.mark.slow
def test_of_eight_processes_one_wins_each_round(url: str, size: Size) -> None:
    open_store(url, create=True).close()
    rounds = 2_000 if size == "long" else 100
    command = [sys.executable, "-c", _ROUNDS, url]
    started = [
        subprocess.Popen([*command, f"writer {n}", str(rounds)], stdout=subprocess.PIPE, text=True) for n in range(8)
    ]
    wins = [int(line) for each in started for line in each.communicate()[0].split()]
    assert [each.returncode for each in started] == [0] * 8
    assert sorted(wins) == list(range(rounds))
    store = open_store(url)
    assert (store.number, len(store)) == (rounds, rounds)
    store.close()


def _remove(caches: Path, _patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(caches)


def _fill_disk(_caches: Path, patch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreFailed("its disk is full")

    patch.setattr("trails.store.log.sqlite.SqliteHome.put", full)


@pytest.mark.parametrize("harm", [_remove, _fill_disk])
def test_a_turn_that_is_in_the_log_is_stored_whatever_becomes_of_the_index_and_is_never_written_twice(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    with trails.open(url, create=True) as store:
        chat = store.create(id="chat")
        chat.append("user", "Hello")
        chat.persist()
        with monkeypatch.context() as patch:
            harm(tmp_path / "cache", patch)
            chat.append("user", "Pay 100 euro")
            assert chat.persist() == 1
            assert (chat.pending, chat.persist()) == (0, 0)
    with trails.open(url) as store:
        assert [turn.content for turn in store.load("chat").turns] == ["Hello", "Pay 100 euro"]


@pytest.mark.slow
def test_who_follows_goes_on_once_the_copy_is_no_longer_in_use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_store(url, create=True)) as writer, closing(open_store(url)) as follower:
        sync, tries = follower.sync, list[int]()

        def locked_at_first() -> bool:
            tries.append(1)
            if len(tries) == 1:
                raise StoreLocked("the copy is in use by another process")
            return sync()

        monkeypatch.setattr(follower, "sync", locked_at_first)
        follower.follow_others()
        writer.commit(Change(add=[_quad(1)]))
        end = time.monotonic() + 30
        while follower.number < 1 and time.monotonic() < end:
            time.sleep(0.05)
        assert follower.number == 1


def test_what_follows_on_an_index_that_was_removed_is_refused_before_it_is_written(url: str, tmp_path: Path) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    shutil.rmtree(tmp_path / "cache")
    assert store.commit(Change(add=[_quad(2)])) == Committed(True, 2, "0" * 16)
    with pytest.raises(StoreFailed, match=r"cannot be written .* open the store again"):
        store.commit(Change(add=[_quad(3)]))
    store.close()
    again = open_store(url)
    assert set(again.quads((None, None, None, None))) == {_quad(1), _quad(2)}
    again.close()


def test_what_another_process_committed_is_not_shown_by_an_index_that_was_removed_and_the_next_one_has_it(
    url: str, tmp_path: Path
) -> None:
    store, other = open_store(url, create=True), open_store(url)
    other.commit(Change(add=[_quad(1)]))
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(StoreFailed, match="open the store again"):
        store.sync()
    store.close()
    other.close()
    again = open_store(url)
    assert again.quads((None, None, None, None)) == [_quad(1)]
    again.close()


def test_a_store_whose_index_was_removed_closes_without_a_word_since_all_is_in_the_log(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    other = open_store(url)
    shutil.rmtree(tmp_path / "cache")
    store.close()
    other.close()
    again = open_store(url)
    assert again.quads((None, None, None, None)) == [_quad(1)]
    again.close()
    assert not caplog.text


def test_a_cache_that_cannot_be_written_is_named(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(url, create=True).close()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreFailed, match="XDG_CACHE_HOME"):
        open_store(url)


@pytest.mark.parametrize(
    "leaf",
    [
        Leaf("turns", "urn:elsewhere", 1, "ab" * 32),
        Leaf("turns", "urn:trails:session:a\nb", 1, "ab" * 32),
        Leaf("turns", "urn:trails:session:a", 1, "no digest"),
        Leaf("none", "urn:trails:session:a", 1, "ab" * 32),  # type: ignore[arg-type] # that is what is tried
        Leaf("turns", "urn:trails:session:\ud800", 1, "ab" * 32),
        Leaf("turns", "urn:trails:session:a", -1, "ab" * 32),
        Leaf("turns", "urn:trails:session:a", 10**20, "ab" * 32),
    ],
)
def test_a_leaf_that_no_log_may_hold_is_refused_and_the_store_opens_as_before(url: str, leaf: Leaf) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)], leaves=[Leaf("turns", "urn:trails:session:a", 1, "ab" * 32)]))
    with pytest.raises(InvalidInput, match="a leaf that no log may hold"):
        store.commit(Change(add=[_quad(2)], leaves=[leaf]))
    assert store.number == 1
    other = open_store(url)
    assert other.quads((None, None, None, None)) == store.quads((None, None, None, None)) == [_quad(1)]
    other.close()
    store.close()


def test_a_record_with_a_leaf_that_no_log_may_hold_is_named(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    with monkeypatch.context() as patch:
        patch.setattr("trails.store.log.commit_batch._lines", lines_after)
        store.commit(Change(add=[_quad(2)], leaves=[Leaf("turns", "urn:elsewhere", 1, "ab" * 32)]))
    store.close()
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(
        StoreFailed, match=r"record 2 of the log .* no leaf: 'turns urn:elsewhere 1 .*before that record"
    ):
        open_store(url)


@pytest.mark.parametrize("body", [zlib.compress(b"another"), b"no compressed text"])
def test_a_record_that_was_altered_in_the_database_is_named(url: str, tmp_path: Path, body: bytes) -> None:
    import psycopg

    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    store.commit(Change(add=[_quad(2)]))
    store.close()
    with psycopg.connect(url.rpartition("&store=")[0]) as owner:
        owner.execute(
            "UPDATE trails_records SET body = %s WHERE store = %s AND number = 2", (body, log_of(store).server.id)
        )
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(StoreFailed, match=r"record 2 of the log .* was altered"):
        open_store(url)
