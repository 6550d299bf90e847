"""One server for many: reading and appending over HTTP beside the embedded calls, hostile requests, and the console's pages."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

import trails
from benchmarks.data import Message, add, filled, messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians
from tests.support.hostile_requests import Lurkers, attack, attacks
from tests.support.servers import Client, Server, serving
from trails import Session

_LAST: Final = 50
_CLIENTS: Final = 16
_EMBEDDED: Final = "embedded, one thread"
_ONE: Final = "one client"
_MANY: Final = f"{_CLIENTS} clients"
_SLOW_QUERY: Final = "SELECT (COUNT(*) AS ?n) {GRAPH ?g {?a ?b ?c} GRAPH ?h {?d ?e ?f}}"
_MISSING: Final = "trails serve (pip install 'trails[serve]')"


def run(setting: Setting) -> list[Result]:
    """Measure reads, appends, appends beside queries, hostile requests, and pages; CPU seconds are those of the server."""
    if find_spec("uvicorn") is None:
        return [Result("serve", "a server", _EMBEDDED, {_EMBEDDED: math.inf}, missing=[_MISSING])]
    return [_last(setting), _append(setting), _append_beside_queries(setting), _hostile(setting), *_pages(setting)]


# --- reading


def _last(setting: Setting) -> Result:
    """Measure the CPU seconds of reading the last turns of a session."""
    folder = setting.folder / "last"
    texts = messages(setting.size.turns, setting.seed)
    with trails.open(folder, create=True, durability="process") as store:
        filled(store, "s", texts)
    calls = max(20, setting.size.turns // 10)
    with trails.open(folder, read_only=True) as view:
        view.load("s", last=_LAST)

        def embedded() -> float:
            begun = time.process_time()
            for _ in range(calls):
                assert len(view.load("s", last=_LAST).tail(_LAST)) == _LAST
            return (time.process_time() - begun) / calls

        with serving(folder, setting.folder / "last.log") as server:
            contestants = [
                Contestant(_EMBEDDED, embedded),
                Contestant(_ONE, lambda: _cpu(server, lambda: _read(server, 1, calls)) / calls),
                Contestant(_MANY, lambda: _cpu(server, lambda: _read(server, _CLIENTS, calls)) / calls),
            ]
            seconds = medians(contestants, setting.size.rounds)
    return Result(
        name="serve last",
        title=f"the last {_LAST} of {setting.size.turns:,} turns as JSON; CPU seconds of a request",
        baseline=_EMBEDDED,
        medians=seconds,
        targets=[Target("1,500 requests a CPU second, so one of them", seconds[_MANY] * 1e6, 1e6 / 1500, "us")],
    )


def _read(server: Server, clients: int, calls: int) -> None:
    def work(client: Client, number: int) -> None:
        for _ in range(number, calls, clients):
            answer = client.last_turns("s", _LAST)
            assert answer.status == 200, answer.status

    _together(server, clients, work)


# --- appending


def _append(setting: Setting) -> Result:
    """Measure the CPU seconds of appending a turn, each commit on disk before it is answered."""
    texts = messages(max(_CLIENTS * 2, setting.size.turns // 10), setting.seed)
    embedded_folder, served = setting.folder / "embedded", setting.folder / "served"
    wall: dict[str, list[float]] = {_EMBEDDED: [], _ONE: [], _MANY: []}
    with trails.open(served, create=True) as store:
        for number in range(_CLIENTS):
            store.create(id=f"s{number}").persist()
    with (
        trails.open(embedded_folder, create=True) as store,
        serving(served, setting.folder / "append.log") as server,
    ):
        session = store.create(id="s")
        session.persist()

        def embedded() -> float:
            begun, began = time.process_time(), time.perf_counter()
            _one_by_one(session, texts)
            wall[_EMBEDDED].append((time.perf_counter() - began) / len(texts))
            return (time.process_time() - begun) / len(texts)

        def over_http(name: str, clients: int) -> float:
            began = time.perf_counter()
            seconds = _cpu(server, lambda: _write(server, clients, texts)) / len(texts)
            wall[name].append((time.perf_counter() - began) / len(texts))
            return seconds

        contestants = [
            Contestant(_EMBEDDED, embedded),
            Contestant(_ONE, lambda: over_http(_ONE, 1)),
            Contestant(_MANY, lambda: over_http(_MANY, _CLIENTS)),
        ]
        seconds = medians(contestants, setting.size.rounds)
    rates = {
        f"turns a second of the clock, {name}": round(1 / sorted(each)[len(each) // 2]) for name, each in wall.items()
    }
    return Result(
        name="serve append",
        title="append one turn at a time, each on disk before the next; CPU seconds of a turn",
        baseline=_EMBEDDED,
        medians=seconds,
        counts=rates,
        targets=[
            Target(f"{_CLIENTS} clients, against the embedded writer", seconds[_MANY] / seconds[_EMBEDDED], 2.0, "x")
        ],
    )


def _one_by_one(session: Session, texts: Sequence[Message]) -> None:
    for message in texts:
        add(session, [message])


def _write(server: Server, clients: int, texts: Sequence[Message], took: list[float] | None = None) -> None:
    """Append all texts, each client to a session of its own."""

    def work(client: Client, number: int) -> None:
        for message in texts[number::clients]:
            begun = time.perf_counter()
            answer = client.append(f"s{number}", [{"role": message.role, "content": message.text}])
            assert answer.status in (200, 201), answer
            if took is not None:
                took.append(time.perf_counter() - begun)

    _together(server, clients, work)


def _append_beside_queries(setting: Setting) -> Result:
    """Measure how long an append takes while two clients ask queries that take all the time they are given."""
    folder = setting.folder / "beside"
    texts = messages(max(_CLIENTS * 4, setting.size.turns // 3), setting.seed)
    with trails.open(folder, create=True) as store:
        for number in range(_CLIENTS):
            filled(store, f"s{number}", texts[:100])
    quiet, busy = list[float](), list[float]()
    with serving(folder, setting.folder / "beside.log", "--query-timeout", "5") as server:
        _write(server, _CLIENTS, texts, quiet)
        with _querying(server, 2) as statuses:
            _write(server, _CLIENTS, texts, busy)
    medians_of = {
        "quiet, p50": _share(quiet, 0.5),
        "quiet, p99": _share(quiet, 0.99),
        "beside queries, p50": _share(busy, 0.5),
        "beside queries, p99": _share(busy, 0.99),
    }
    return Result(
        name="serve beside queries",
        title=f"an append of {_CLIENTS} clients, alone and while two others ask queries without end",
        baseline="quiet, p50",
        medians=medians_of,
        counts={"appends": len(busy), **{f"queries answered {status}": count for status, count in statuses.items()}},
        targets=[Target("p99 beside queries", medians_of["beside queries, p99"] * 1000, 50.0, "ms")],
    )


@contextmanager
def _querying(server: Server, clients: int) -> Any:
    """Have clients ask slow queries while the block runs; gives how often which status came back."""
    statuses: dict[int, int] = {}
    ended = threading.Event()

    def ask() -> None:
        with closing(Client(server.port)) as client:
            while not ended.is_set():
                status = client.ask("GET", f"/sparql?query={quote(_SLOW_QUERY)}").status
                statuses[status] = statuses.get(status, 0) + 1

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        for thread in threads:
            thread.join()


# --- hostile requests


def _hostile(setting: Setting) -> Result:
    """Send hostile requests, two a turn of the setting, and measure what others wait, and what the server keeps."""
    folder = setting.folder / "hostile"
    count = setting.size.turns * 2
    with trails.open(folder, create=True, durability="process") as store:
        filled(store, "a", messages(min(1_000, setting.size.turns), setting.seed))
    others, statuses = list[float](), dict[str, int]()
    with serving(folder, setting.folder / "hostile.log", "--query-timeout", "2") as server:
        with closing(Client(server.port)) as client:
            for _ in range(200):
                client.last_turns("a")
        quiet = list[float]()
        _others(server, quiet, threading.Event(), 200)
        before = server.resident()
        lurkers = Lurkers(server.port, 100)
        ended = threading.Event()
        other = threading.Thread(target=_others, args=(server, others, ended, None))
        other.start()
        try:
            _attack(server, islice(attacks(setting.seed), count), statuses)
        finally:
            ended.set()
            other.join()
            lurkers.close()
        after = server.resident()
        alive = server.process.poll() is None
    grown = max(1, after - before)
    assert alive, "the server ended"
    return Result(
        name="serve hostile",
        title=f"reading the last turns while {count:,} hostile requests come in",
        baseline="quiet, p50",
        medians={
            "quiet, p50": _share(quiet, 0.5),
            "quiet, p95": _share(quiet, 0.95),
            "others, p50": _share(others, 0.5),
            "others, p95": _share(others, 0.95),
        },
        counts={
            "requests of others": len(others),
            "MB more than before": grown >> 20,
            **dict(sorted(statuses.items())),
        },
        targets=[
            Target("others, p95", _share(others, 0.95) * 1000, 100.0, "ms"),
            Target("memory beyond that before", grown / 1e6, 300.0, "MB"),
            Target("answers of 500", statuses.get("status 500", 0), 0, ""),
        ],
    )


def _others(server: Server, took: list[float], ended: threading.Event, count: int | None) -> None:
    with closing(Client(server.port)) as client:
        while not ended.wait(0.01) and (count is None or len(took) < count):
            begun = time.perf_counter()
            answer = client.last_turns("a")
            took.append(time.perf_counter() - begun)
            assert answer.status == 200, answer


def _attack(server: Server, hostile: Any, statuses: dict[str, int]) -> None:
    """Send attacks from eight threads."""
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                what = next(hostile, None)
            if what is None:
                return
            outcome = attack(server.port, what)
            key = f"status {outcome.status}" if outcome.status else "closed"
            with lock:
                statuses[key] = statuses.get(key, 0) + 1
                if outcome.status is not None and outcome.status not in what.allowed:
                    wrong = f"wrong: {what.name} {outcome.status}"
                    statuses[wrong] = statuses.get(wrong, 0) + 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- pages


def _pages(setting: Setting) -> list[Result]:
    """Measure the list of many sessions and the page of a long one: CPU seconds of the server, and bytes as sent."""
    folder = setting.folder / "pages"
    with trails.open(folder, create=True, durability="process") as store:
        for number in range(setting.size.sessions):
            session = store.create(id=f"s{number}", principal=f"p{number % 10}")
            session.append("user", f"Plan a trip to place {number}, by train and on foot")
            session.append("assistant", "Where from?", model="m-1", usage={"input_tokens": 900})
            session.persist()
        filled(store, "long", messages(setting.size.turns, setting.seed))
    empty, listing, long = "an empty answer (/health)", "the list of sessions", "the page of a session"
    paths = {empty: "/health", listing: "/", long: "/session?id=long"}
    sizes: dict[str, int] = {}
    with serving(folder, setting.folder / "pages.log") as server, closing(Client(server.port)) as client:

        def one(path: str, name: str) -> float:
            begun = time.perf_counter()
            answer = client.ask("GET", path, Accept="text/html", Accept_Encoding="gzip")
            seconds = time.perf_counter() - begun
            assert answer.status == 200, answer
            sizes[name] = len(answer.body)
            return seconds

        contestants = [Contestant(name, partial(one, path, name)) for name, path in paths.items()]
        seconds = medians(contestants, setting.size.rounds)
    targets = [Target(f"{name}, as sent", sizes[name] / 1e3, 300.0, "kB") for name in (listing, long)] + [
        Target(f"{name}, from the server", seconds[name] * 1e3, 300.0, "ms") for name in (listing, long)
    ]
    return [
        Result(
            name="serve pages",
            title=f"pages of the console: {setting.size.sessions:,} sessions, and one of {setting.size.turns:,} turns",
            baseline=empty,
            medians=seconds,
            counts={f"bytes, {name}": size for name, size in sizes.items()},
            targets=targets,
        )
    ]


# --- all of them


def _together(server: Server, clients: int, work: Callable[[Client, int], None]) -> None:
    """Run work for each of some clients at the same time; an error of one is raised."""
    failed = list[BaseException]()

    def one(number: int) -> None:
        try:
            with closing(Client(server.port)) as client:
                work(client, number)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def _cpu(server: Server, work: Callable[[], object]) -> float:
    """Return the CPU seconds that a server takes for some work."""
    before = server.cpu_seconds()
    work()
    return server.cpu_seconds() - before


def _share(took: Sequence[float], share: float) -> float:
    return sorted(took)[min(len(took) - 1, int(len(took) * share))]
