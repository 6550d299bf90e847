"""A large store: opening it, appending to it, a page of its sessions, searches, and every query of the catalogue."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import trails
from benchmarks import asking, million, peers
from benchmarks.audit import QUICK, values
from benchmarks.data import add, messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Repository

_PAGE: Final = 50
_BY_HAND: Final = "sqlite3, tables and FTS5 by hand"
_FREQUENT: Final = "ba"
"""Two letters that nearly every turn has: no index of runs of three characters helps."""
_BARS: Final = {True: 0.1, False: 2.0}
"""The most seconds that a query may take which is asked of one session, and any other."""
_TABLES: Final = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, created TEXT, turns INTEGER);
CREATE INDEX newest ON sessions (created);
CREATE TABLE messages (session TEXT, place INTEGER, said TEXT, PRIMARY KEY (session, place));
CREATE VIRTUAL TABLE texts USING fts5 (said, content = messages, tokenize = 'trigram');
"""
_LISTED: Final = """
SELECT s.id, s.turns, m.said FROM (SELECT * FROM sessions ORDER BY created DESC LIMIT 50) s
LEFT JOIN messages m ON m.session = s.id AND m.place = (SELECT min(place) FROM messages WHERE session = s.id)
"""
_FOUND: Final = """
SELECT session, place, said FROM messages WHERE rowid IN (SELECT rowid FROM texts WHERE said MATCH ?)
ORDER BY rowid DESC LIMIT 50
"""
_LOOKED: Final = "SELECT session, place, said FROM messages WHERE said LIKE ? LIMIT 50"


def run(setting: Setting) -> list[Result]:
    """Measure a store that `benchmarks.million` makes, or a copy of one that it has made."""
    place = setting.folder / "store"
    if setting.large is not None:
        shutil.copytree(setting.large, place)
    else:
        with trails.open(place, create=True, durability="process") as store:
            for _ in million.make(store, turns=setting.size.scale, sessions=max(20, setting.size.scale // 100)):
                pass
    with trails.open(place) as store:
        counts = store.info()
        what = f"{counts['turns']:,} turns in {counts['sessions']:,} sessions"
        made = timed(lambda: (store.summaries(limit=1), store.search(million.RARE, limit=1)))
        results = [_appending(setting, store, what), *_pages(setting, store, what)]
        given = values(store)
    return [*results, _opening(setting, place, what, made), _catalogue(place, given, what)]


def _appending(setting: Setting, store: Repository, what: str) -> Result:
    texts = messages(50, setting.seed)
    with trails.open(setting.folder / "new", create=True) as new:
        large, small = store.create(id="appended"), new.create(id="appended")

        def one_by_one(session: trails.Session) -> None:
            for message in texts:
                add(session, [message])

        def seconds_of_one(session: trails.Session) -> float:
            return timed(lambda: one_by_one(session)) / len(texts)

        there, alone = "to the large store", "to a new one"
        contestants = [
            Contestant(there, lambda: seconds_of_one(large)),
            Contestant(alone, lambda: seconds_of_one(small)),
        ]
        seconds = medians(contestants, setting.size.rounds)
    return Result(
        name="scale append",
        title=f"append one plain turn of 400 bytes where there are {what}",
        baseline=alone,
        medians=seconds,
        targets=[Target("appending, against a new store", seconds[there] / seconds[alone], 1.2, "x")],
    )


def _pages(setting: Setting, store: Repository, what: str) -> Iterator[Result]:
    lines = setting.folder / "lines"
    with closing(sqlite3.connect(setting.folder / "tables.db")) as tables:
        _given_to_peers(store, lines, tables)
        ours = peers.OURS
        figures = f"{ours}, with titles and figures"
        listed: dict[str, Callable[[], Any]] = {
            f"{ours}, records": lambda: store.list(limit=_PAGE),
            figures: lambda: store.summaries(limit=_PAGE),
            f"{ours}, by tokens": lambda: store.summaries(limit=_PAGE, sort="tokens"),
            f"{ours}, stats by model": lambda: store.stats(by="model"),
            _BY_HAND: lambda: tables.execute(_LISTED).fetchall(),
            peers.JSON_LINES: lambda: _first_lines(lines),
        }
        yield _page(setting, "scale list", f"a page of {_PAGE} sessions among {what}", listed, (figures, 0.02))
        for name, text in (("a rare word", million.RARE), ("two letters", _FREQUENT), ("no hit", "quixotic zeppelin")):
            sought: dict[str, Callable[[], Any]] = {
                ours: partial(store.search, text, limit=_PAGE),
                _BY_HAND: partial(_searched, tables, text),
                peers.JSON_LINES: partial(_lines_with, lines, text),
            }
            title = f"the first page of a search, {name}, among {what}"
            yield _page(setting, f"scale search {name}", title, sought, (ours, 0.1))


def _page(
    setting: Setting, name: str, title: str, asked: Mapping[str, Callable[[], Any]], bar: tuple[str, float]
) -> Result:
    rounds = min(setting.size.rounds, 5)
    seconds = medians([Contestant(who, partial(timed, done)) for who, done in asked.items()], rounds)
    who, most = bar
    return Result(
        name=name,
        title=title,
        baseline=_BY_HAND,
        medians=seconds,
        targets=[Target(who, seconds[who] * 1e3, most * 1e3, "ms")],
    )


def _given_to_peers(store: Repository, lines: Path, tables: sqlite3.Connection) -> None:
    """Write what each session owns into a file of its own, and into tables with an index of their texts."""
    lines.mkdir()
    tables.executescript(_TABLES)
    cursor = None
    while True:
        page = store.list(limit=1_000, cursor=cursor)
        for record in page:
            own = [turn for turn in store.load(record.id).turns if turn.session_id == record.id]
            said = [json.dumps({"role": turn.role, "content": turn.content}) for turn in own]
            (lines / f"{re.sub('[^a-z0-9-]', '_', record.id)}.jsonl").write_text(
                "".join(f"{one}\n" for one in said), "utf-8"
            )
            rows = [(record.id, turn.index, text) for turn, text in zip(own, said, strict=True)]
            tables.executemany("INSERT INTO messages VALUES (?, ?, ?)", rows)
            tables.execute("INSERT INTO sessions VALUES (?, ?, ?)", (record.id, str(record.created), len(own)))
        cursor = page.cursor
        if cursor is None:
            break
    tables.execute("INSERT INTO texts (texts) VALUES ('rebuild')")
    tables.commit()


def _searched(tables: sqlite3.Connection, text: str) -> list[Any]:
    if len(text) < 3:
        return tables.execute(_LOOKED, (f"%{text}%",)).fetchall()
    return tables.execute(_FOUND, (f'"{text}"',)).fetchall()


def _first_lines(lines: Path) -> list[Any]:
    """Return the first line of the newest files: a list by creation that nobody keeps."""
    newest = sorted(lines.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)[:_PAGE]
    return [_first_line(path) for path in newest]


def _first_line(path: Path) -> Any:
    with path.open("rb") as file:
        return json.loads(file.readline() or b"null")


def _lines_with(lines: Path, text: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    sought = text.encode()
    for path in lines.iterdir():
        data = path.read_bytes()
        if sought in data:
            found += [(path.stem, n) for n, line in enumerate(data.splitlines()) if sought in line]
        if len(found) >= _PAGE:
            break
    return found[:_PAGE]


def _opening(setting: Setting, place: Path, what: str, made: float) -> Result:
    grown: list[int] = []

    def as_a_view() -> float:
        seconds, more = asking.opening(place)
        grown.append(more)
        return seconds

    view, owner = "as a view", "as its owner"
    contestants = [Contestant(view, as_a_view), Contestant(owner, lambda: _opened(place))]
    seconds = medians(contestants, min(setting.size.rounds, 5))
    resident = max(grown)
    return Result(
        name="scale opening",
        title=f"open a store of {what}",
        baseline=view,
        medians={**seconds, "bringing the index of texts and figures up to date, once": made},
        counts={"bytes by which a process grows that opens a view": resident},
        targets=[
            Target("opening", max(seconds.values()) * 1e3, 500, "ms"),
            Target("memory of a view", resident / 1e6, 150, "MB"),
        ],
    )


def _opened(place: Path) -> float:
    opened: list[Repository] = []
    seconds = timed(lambda: opened.append(trails.open(place)))
    opened[0].close()
    return seconds


def _catalogue(place: Path, given: dict[str, dict[str, Any]], what: str) -> Result:
    loading = "loading the transcript of ten forks"
    with trails.open(place, read_only=True) as store:
        seconds = {loading: timed(lambda: list(store.load(million.DEEP).turns))}
    seconds |= asking.ask(place, given)
    kinds: dict[bool, list[str]] = {
        alone: [name for name in given if (name in QUICK or "session" in given[name]) is alone] for alone in _BARS
    }
    slowest = {alone: max(names, key=lambda name: seconds[name]) for alone, names in kinds.items()}
    missed = [name for alone, names in kinds.items() for name in names if seconds[name] > _BARS[alone]]
    words = {True: "asked of one session", False: "asked of the store"}
    return Result(
        name="scale catalogue",
        title=f"every query of the catalogue over {what}, in a view; given up after {asking.PATIENCE} s of CPU",
        baseline=loading,
        medians=seconds,
        counts={"queries that take longer than is promised": len(missed)},
        targets=[
            Target(f"the slowest {words[alone]}: {name}", seconds[name] * 1e3, _BARS[alone] * 1e3, "ms")
            for alone, name in slowest.items()
        ],
    )
