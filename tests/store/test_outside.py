"""Queries from outside end when they must, take no more than they may, and see what was committed before them."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support import greedy
from tests.support.machines import Size
from tests.support.places import ROOT
from tests.support.sessions import say
from trails import InvalidInput, QueryEnded, QueryTimeout, QueryTooLarge, Repository, TrailsError, workers
from trails.runtime.routing import Router
from trails.store import tsv
from trails.store.queries import query_pool

TURNS = 40
CROSS = "?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l"
ENDLESS = f"SELECT (COUNT(*) AS ?n) {{ {CROSS} }}"
TEXTS = "SELECT ?x { ?t prov:value ?x } ORDER BY ?x"


def filled(store: Repository) -> Repository:
    """A store with a session of 40 turns, "step 00" to "step 39"."""
    say(store.create(id="plan"), *(f"step {number:02}" for number in range(TURNS)))
    return store


KINDS = ("memory", "disk", "large", "reader", "past", "view")


@pytest.fixture(params=KINDS)
def asked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Whatever takes queries in SPARQL: stores of each kind, and a view of one."""
    kind = request.param
    if kind != "disk":  # whose quads are few, and are sent
        monkeypatch.setattr("trails.store.index.engine._SMALL_FILE", 0)
    with ExitStack() as stack:
        place = tmp_path / "s.trails"
        owner = stack.enter_context(
            trails.open(":memory:") if kind in ("memory", "view") else trails.open(place, create=True)
        )
        if kind == "view":
            router = Router(owner)
            say(router.session("main"), *(f"step {number:02}" for number in range(TURNS)))
            yield router.view("main")
            return
        filled(owner)
        if kind == "reader":
            yield stack.enter_context(trails.open(place, read_only=True))
        elif kind == "past":
            then = owner.compare("plan").as_of or ""
            say(owner.load("plan"), "later")
            yield stack.enter_context(owner.at(then))
        else:
            yield owner


def test_rows_are_the_ones_that_the_engine_gives(asked: Any) -> None:
    found = asked.select(TEXTS, timeout=20)
    assert [row["x"].value for row in found] == [f"step {number:02}" for number in range(TURNS)]
    assert (found[3][0].value, found[-1]["x"].value, len(found), found.truncated) == ("step 03", "step 39", 40, False)
    assert found.to_dicts()[:2] == [{"x": "step 00"}, {"x": "step 01"}]
    assert asked.ask("ASK { ?t prov:value 'step 07' }", timeout=20) is True
    assert len(asked.construct("CONSTRUCT { ?t a prov:Plan } { ?t a trails:Turn }", timeout=20)) == TURNS


def test_a_query_over_its_time_ends_and_the_next_one_is_answered(asked: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(QueryTimeout, match=r"ended after 0\.[23] seconds, of 0\.2 that it may take: .*timeout="):
        asked.select(ENDLESS, timeout=0.2)
    assert time.monotonic() - begun < 1.2
    assert asked.ask("ASK { ?t prov:value 'step 39' }", timeout=20) is True


def test_a_query_that_takes_too_much_memory_is_told_so(asked: Any) -> None:
    with pytest.raises(QueryTooLarge, match=r"took more than 128 MiB of memory .*query_memory"):
        asked.select(f"SELECT * {{ {CROSS} }} ORDER BY ?l", timeout=20)
    assert asked.ask("ASK { ?t prov:value 'step 39' }") is True


def test_the_stack_that_a_long_query_gets_is_none_of_its_memory(asked: Any) -> None:
    long = f"SELECT ?x {{ ?t prov:value ?x FILTER(?x != '{'x' * 40_000}') }}"  # a stack of 640 MiB
    assert len(asked.select(long, timeout=20)) == 40


@pytest.mark.parametrize(
    ("most", "count", "truncated"), [(1, 1, True), (39, 39, True), (40, 40, False), (41, 40, False)]
)
def test_an_answer_is_cut_after_so_many_rows_and_says_so(asked: Any, most: int, count: int, truncated: bool) -> None:
    found = asked.select(TEXTS, max_rows=most)
    assert (len(found), found.truncated, "there are more" in repr(found)) == (count, truncated, truncated)
    made = asked.construct("CONSTRUCT { ?t a prov:Plan } { ?t a trails:Turn }", max_rows=most)
    assert (len(made), made.truncated) == (count, truncated)


def test_rows_beyond_the_limit_are_never_made(asked: Any) -> None:
    begun = time.monotonic()
    assert len(asked.select(f"SELECT * {{ {CROSS} }}", max_rows=2000, timeout=20)) == 2000
    assert time.monotonic() - begun < 5


def test_an_answer_that_is_too_large_to_be_held_is_told_so(memory: Repository) -> None:
    with pytest.raises(QueryTooLarge, match=r"an answer of more than 32 MiB .*store\.rows"):
        filled(memory).select(f"SELECT * {{ {CROSS} }}", timeout=30)


# --- what is seen


def test_what_was_committed_before_is_seen_and_what_was_deleted_is_not(store: Repository) -> None:
    filled(store)
    for number in range(3):
        say(store.load("plan"), f"new {number}")
        assert store.ask(f"ASK {{ ?t prov:value 'new {number}' }}", timeout=20) is True
    store.redact("plan", 0)
    assert store.ask("ASK { ?t prov:value 'step 00' }", timeout=20) is False
    store.delete("plan")
    assert store.ask("ASK { ?t prov:value ?x }") is False


def test_a_reader_sees_the_moment_that_it_has_until_it_refreshes(tmp_path: Path) -> None:
    with (
        filled(trails.open(tmp_path / "s", create=True)) as owner,
        trails.open(tmp_path / "s", read_only=True) as reader,
    ):
        say(owner.load("plan"), "later")
        asking = "ASK { ?t prov:value 'later' }"
        assert (reader.ask(asking), reader.ask(asking, timeout=9), owner.ask(asking)) == (False, False, True)
        reader.refresh()
        assert (reader.ask(asking), reader.ask(asking, timeout=9)) == (True, True)


def test_commits_beside_queries_are_seen_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trails.store.index.engine._SMALL_FILE", 0)
    with filled(trails.open(tmp_path / "s", create=True, durability="process")) as store:
        seen: list[int] = []
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                seen.append(store.select("SELECT (COUNT(?t) AS ?n) { ?t a trails:Turn }").to_dicts()[0]["n"])

        thread = threading.Thread(target=look)
        thread.start()
        plan = store.load("plan")
        for number in range(60):
            say(plan, f"more {number}")
            if number % 20 == 0:
                store.store.flush()
                assert store.ask(f"ASK {{ ?t prov:value 'more {number}' }}") is True
        over.set()
        thread.join()
        assert seen == sorted(seen)


# --- closing


def _asked_beside(ask: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """Ask on a thread, and return once the query is under way."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            ask()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            errors.append(error)

    thread = threading.Thread(target=work)
    before = len(query_pool._pool._busy)
    thread.start()
    for _ in range(500):
        if len(query_pool._pool._busy) > before:
            break
        time.sleep(0.01)
    time.sleep(0.1)
    return thread, errors


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
def test_a_long_query_lets_others_have_the_processor_first(memory: Repository) -> None:
    thread, _ = _asked_beside(lambda: filled(memory).ask(ENDLESS, timeout=1.5))
    (process,) = query_pool._pool._busy
    threads = Path(f"/proc/{process.process.pid}/task")

    def priorities() -> set[int]:
        return {os.getpriority(os.PRIO_PROCESS, int(each.name)) for each in threads.iterdir()}

    assert priorities() == {0}
    time.sleep(1.2)
    assert priorities() == {0, 10}  # the thread that answers, and the one that waits for the next query
    thread.join()


@pytest.mark.parametrize("ending", ["close", "vacuum", "redact"])
def test_a_query_under_way_holds_nobody_up_and_whoever_asked_is_told(tmp_path: Path, ending: str) -> None:
    with filled(trails.open(tmp_path / "s", create=True)) as store:
        thread, errors = _asked_beside(lambda: store.select(ENDLESS))
        begun = time.monotonic()
        endings: dict[str, Callable[[], object]] = {
            "close": store.close,
            "vacuum": store.maintenance.vacuum,
            "redact": lambda: store.redact("plan", 0),
        }
        endings[ending]()
        assert time.monotonic() - begun < 2
        thread.join(2)
        assert not thread.is_alive()
        (error,) = errors
        assert type(error) is QueryEnded
        assert "was ended" in str(error)


def test_a_reader_refreshes_and_closes_beside_a_query(tmp_path: Path) -> None:
    with filled(trails.open(tmp_path / "s", create=True)) as owner:
        reader = trails.open(tmp_path / "s", read_only=True)
        thread, errors = _asked_beside(lambda: reader.select(ENDLESS))
        say(owner.load("plan"), "later")
        begun = time.monotonic()
        assert reader.refresh() is True
        assert reader.ask("ASK { ?t prov:value 'later' }") is True
        assert (time.monotonic() - begun < 1, thread.is_alive()) == (True, True)
        reader.close()
        assert time.monotonic() - begun < 2
        thread.join(2)
        assert [type(error) for error in errors] == [QueryEnded]


_LEFT = """
import sys, threading, time, trails
store = trails.open(sys.argv[1])
threading.Thread(target=lambda: store.select(sys.argv[2]), daemon=sys.argv[3] == "daemon").start()
time.sleep(0.5)
store.close()
print("closed")
"""


@pytest.mark.parametrize("kind", ["daemon", "joined"])
def test_a_process_ends_beside_a_query_that_its_caller_left(tmp_path: Path, kind: str) -> None:
    filled(trails.open(tmp_path / "s", create=True)).close()
    command = [sys.executable, "-c", _LEFT, str(tmp_path / "s"), ENDLESS, kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout.strip()) == (0, "closed")


_KILLED = """
import os, sys, threading, time, trails
from trails.store.queries import query_pool
store = trails.open(sys.argv[1])
threading.Thread(target=lambda: store.select(sys.argv[2], timeout=60), daemon=True).start()
while not query_pool._pool._busy:
    time.sleep(0.01)
time.sleep(0.3)
print(next(iter(query_pool._pool._busy)).process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_process_beside_ends_with_the_one_that_is_killed(tmp_path: Path) -> None:
    filled(trails.open(tmp_path / "s", create=True)).close()
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "s"), ENDLESS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    for _ in range(200):
        if not Path(f"/proc/{int(done.stdout)}").exists():
            return
        time.sleep(0.02)
    raise AssertionError("the process goes on")


def test_the_next_query_gets_another_process_where_one_was_killed(store: Repository) -> None:
    assert filled(store).ask("ASK { ?t prov:value ?x }") is True
    for each in query_pool._pool._idle:
        os.kill(each.process.pid, signal.SIGKILL)
        each.process.wait()
    assert store.ask("ASK { ?t prov:value ?x }") is True


def test_the_next_query_is_answered_if_an_interrupt_comes_while_a_process_lets_go_of_a_store(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    query_pool._pool.close()
    assert filled(memory).ask("ASK { ?t prov:value ?x }") is True
    with monkeypatch.context() as patched:
        patched.setattr(query_pool._Process, "received", interrupt)
        with pytest.raises(KeyboardInterrupt):
            query_pool.end(memory.store, QueryEnded("the store was closed"))
    assert memory.ask("ASK { ?t prov:value ?x }") is True


# --- row by row


def test_rows_come_while_they_are_found(store: Repository) -> None:
    filled(store)
    with store.rows(f"SELECT * {{ {CROSS} }}", timeout=60) as rows:
        assert len([row["a"] for row, _ in zip(rows, range(5), strict=False)]) == 5
        assert rows.truncated is False
    with store.rows(TEXTS, max_rows=7) as rows:
        assert [row[0].value for row in rows] == [f"step {number:02}" for number in range(7)]
        assert rows.truncated is True
    with pytest.raises(InvalidInput, match="rows\\(\\) takes a SELECT"):
        store.rows("ASK {}")


def test_a_query_of_the_catalogue_has_limits_where_they_are_asked_for(store: Repository) -> None:
    filled(store)
    whole = store.select("transcript", session="plan").to_dicts()
    assert store.select("transcript", session="plan", timeout=20).to_dicts() == whole
    assert store.select("transcript", session="plan", max_rows=3).to_dicts() == whole[:3]
    assert [row["content"].value for row in store.rows("transcript", session="plan", max_rows=2)] == [
        "step 00",
        "step 01",
    ]


# --- limits


@pytest.mark.parametrize(
    "wrong",
    [{"timeout": 0}, {"timeout": -1}, {"timeout": "2"}, {"timeout": math.nan}, {"max_rows": 0}, {"max_rows": 1.5}],
)
def test_what_is_no_limit_is_refused(memory: Repository, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        memory.query("ASK {}", **wrong)
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        trails.open(":memory:", **{f"query_{name}": value for name, value in wrong.items()})


def test_a_store_has_limits_for_queries_that_say_none() -> None:
    with filled(trails.open(":memory:", query_timeout=0.2, query_max_rows=3)) as store:
        assert len(store.select(TEXTS)) == 3
        assert len(store.select(TEXTS, max_rows=5)) == 5
        with pytest.raises(QueryTimeout, match=r"of 0\.2 that"):
            store.select(ENDLESS)
        assert len(store.select("transcript", session="plan")) == TURNS
    with (
        filled(trails.open(":memory:", query_memory=1)) as store,
        pytest.raises(QueryTooLarge, match="more than 1 MiB"),
    ):
        store.select("SELECT * { ?a ?b ?c . ?d ?e ?f } ORDER BY ?f")


def test_without_a_process_a_query_runs_in_this_one_and_none_has_a_limit(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise workers.WorkersFailed("no process can be started: gone")

    query_pool._pool.close()
    monkeypatch.setattr(workers, "started", refuse)
    assert len(filled(memory).select(TEXTS)) == TURNS
    with pytest.raises(TrailsError, match="queries with a limit run in a process of their own, and no process can be"):
        memory.select(TEXTS, timeout=2)


# --- values


def test_every_kind_of_term_comes_back_as_the_engine_gives_it(memory: Repository) -> None:
    terms = r"""<a:b> "x" "tab\t nl\n cr\r q\" b\\ " "l"@en 1 -1 1.0 1e0 "INF"^^xsd:double true "x"^^<a:t> "" UNDEF
        "2020-01-01T00:00:00Z"^^xsd:dateTime <<( <a:a> <a:b> "t\t" )>> "\u2028 \u0000" """
    text = f"SELECT * {{ VALUES ?v {{ {terms} }} }}"
    assert [row[0] for row in memory.select(text)] == [row[0] for row in memory.store.query(text)]  # type: ignore[union-attr]
    assert memory.select("SELECT * {}").to_dicts() == [{}]
    (row,) = memory.select("SELECT (BNODE() AS ?n) {}")
    assert row["n"].value.isalnum()


def test_a_text_that_the_engine_does_not_read_again_comes_back(memory: Repository) -> None:
    text = '"' + "x" * (1 << 14) + '"'
    longer = "CONCAT(" + ",".join(["?a"] * 1040) + ")"
    (row,) = memory.select(f"SELECT (1 AS ?n) (<a:b> AS ?i) ({longer} AS ?b) {{ BIND({text} AS ?a) }}")
    assert (row["n"].value, row["i"].value, len(row["b"].value)) == ("1", "a:b", 1040 << 14)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_lines_are_the_table_that_they_are_written_as(count: int) -> None:
    data = b"?a\t?b\n" + b"".join(b"%d\t%s\n" % (number, b'"x"' * (number % 3 > 0)) for number in range(count))
    lines = tsv.Lines(data)
    assert (list(lines), len(lines)) == (tsv.table(data), count)
    assert lines[: count // 2] == tsv.table(data)[: count // 2]
    for index in {*range(-count, count)} & {0, 63, 64, 199, -1, -count}:
        assert lines[index] == tsv.table(data)[index]
    with pytest.raises(IndexError):
        lines[count]


# --- queries that take all they can get


@pytest.mark.slow
def test_hostile_queries_end_in_their_time_and_take_little_memory(tmp_path: Path, size: Size) -> None:
    count, timeout = {"quick": (24, 0.3), "all": (60, 0.5), "long": (12_000, 2.0)}[size]
    store = trails.open(tmp_path / "s", create=True, durability="process")
    greedy.fill(store, 20, 50)
    told = greedy.ask_all(store, 29, count, timeout)
    begun = time.monotonic()
    store.close()
    assert time.monotonic() - begun < 1
    assert told["longest"][0][0] < timeout + 1, told["longest"][0][1]
    assert told["memory"] < 300
    assert sum(told["outcomes"].values()) == count
    assert told["outcomes"]["QueryTimeout"] + told["outcomes"]["QueryTooLarge"] > count / 4
