"""Fifty branches of 200 turns as one HTML page: written, and shown by a browser, beside reading their transcripts."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

import trails
from benchmarks.data import messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Repository
from trails.exchange.file_import import export_session

_READING: Final = "loading every branch"
_WRITING: Final = "writing the page"
_EMPTY: Final = "Chromium, an empty page"
_SHOWING: Final = "Chromium, the page, from its start to a picture"
_TURNS: Final = 200
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


def run(setting: Setting) -> list[Result]:
    """Measure the page of branches that share half of their turns: its size, and the time to write and to show it."""
    turns, page = min(setting.size.turns, _TURNS), setting.folder / "page.html"
    empty = setting.folder / "empty.html"
    empty.write_text("<!DOCTYPE html><title>empty</title><p>nothing</p>")
    with trails.open(setting.folder / "store", create=True, durability="process") as store:
        _fill(store, turns, setting.size.forks, setting.seed)
        ids = [twig.node.id for twig in store.forest()]
        contestants = [
            Contestant(_READING, lambda: timed(lambda: [list(store.load(one).turns) for one in ids])),
            Contestant(_WRITING, lambda: timed(lambda: _write(store, page))),
        ]
        seconds = medians(contestants, setting.size.rounds)
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is not None:
        shown = {_EMPTY: empty, _SHOWING: page}
        takes = [Contestant(name, partial(_show, browser, file, setting.folder)) for name, file in shown.items()]
        seconds |= medians(takes, setting.size.rounds)
    size = page.stat().st_size
    targets = [Target("the page, in all", size / 1e6, 5.0, "MB")]
    if browser is not None:
        targets.append(
            Target("a picture of it, beside an empty page", (seconds[_SHOWING] - seconds[_EMPTY]) * 1000, 1000.0, "ms")
        )
    return [
        Result(
            name="page",
            title=f"{setting.size.forks} branches of {turns} turns as one HTML page",
            baseline=_READING,
            medians=seconds,
            missing=[] if browser is not None else [_EMPTY, _SHOWING],
            counts={"bytes": size},
            targets=targets,
        )
    ]


def _fill(store: Repository, turns: int, forks: int, seed: int) -> None:
    root = store.create(id="root")
    for message in messages(turns, seed):
        root.append(message.role, message.text)
    root.persist()
    for number in range(forks - 1):
        fork = root.fork(at=turns // 2, id=f"fork-{number}")
        for message in messages(turns - turns // 2, seed + number + 1):
            fork.append(message.role, message.text)
        fork.persist()


def _write(store: Repository, page: Path) -> None:
    with page.open("wb") as out:
        export_session(store, "root", "html", out, forks=True)


def _show(browser: str, page: Path, folder: Path) -> float:
    """Return how long a browser takes, from its start, to a picture of a page."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder / 'profile'}"]
    command = [browser, *flags, f"--screenshot={folder / 'page.png'}", page.as_uri()]
    return timed(lambda: subprocess.run(command, check=True, capture_output=True))
