"""How far something is that takes long: one callback for all, and a bar that a terminal or a notebook draws of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from trails.display.terminal_text import shorten

Progress = Callable[[int, int, str], None]
"""Called with how much is done, how much there is (0 where that is not known) and what is worked on ("" for nothing)."""
DRAWN: Final = threading.Lock()
"""Held while a bar, or that something works, is drawn on the terminal: of work within work only the outer one is seen there."""
ANEW: Final = ContextVar("trails.anew", default=False)
"""Whether a bar is drawn while what is derived from the log is made anew; the command line says so for its own process."""
_SOON: Final = 0.5
"""Seconds after which such a bar appears: most of this work is done by then."""
_OFTEN: Final = 0.1
"""Seconds between two changes of a bar in a notebook, each of which is a message to the browser."""


@contextmanager
def made_anew(what: str) -> Iterator[Progress | None]:
    """Give what moves a bar on the terminal of a command that has to wait for something to be made anew; else None."""
    with moving(ANEW.get() and _notebook() is None, what, after=_SOON) as move:
        yield move


@contextmanager
def moving(progress: Progress | bool | None, what: str, *, after: float = 0.0) -> Iterator[Progress | None]:
    """Give the callback to work with: the one given, a bar's for True, None for False and None.

    On a terminal, the bar appears `after` so many seconds.

    A bar, called `what`, is drawn in a notebook, or on stderr where that is a terminal; elsewhere there is none. It goes
    away on a terminal when the work ends, and says in a notebook how long it took, also where the work fails.
    """
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        yield progress
    elif (shell := _notebook()) is not None:
        yield from _in_notebook(shell, what)
    elif sys.stderr is not None and sys.stderr.isatty():
        yield from _on_terminal(what, after)
    else:
        yield None


def _notebook() -> Any:
    """Return what shows HTML in a notebook, if this process runs in one; nothing is imported to find out."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    return None if shell is None or type(shell).__name__ != "ZMQInteractiveShell" else python


def _on_terminal(what: str, after: float) -> Iterator[Progress | None]:
    if not DRAWN.acquire(blocking=False):
        yield None
        return
    try:
        yield from _drawn(what, after)
    finally:
        DRAWN.release()


def _drawn(what: str, after: float) -> Iterator[Progress]:
    from rich.console import Console  # noqa: PLC0415 - only a bar needs it
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
    bar, due = Bar(*columns, console=console, transient=True), time.monotonic() + after
    task = bar.add_task(what, total=None)

    def move(done: int, total: int, name: str) -> None:
        shown = f"{what} {shorten(name, 40)}" if name else what
        bar.update(task, completed=done, total=total or None, description=shown)
        if time.monotonic() >= due:
            bar.start()

    try:
        if not after:
            bar.start()
        yield move
    finally:
        bar.stop()


def _in_notebook(python: Any, what: str) -> Iterator[Progress]:
    began = shown = time.monotonic()
    last = (0, 0, "")
    handle = python.display.display(_Shown(bar_html(what, 0, 0, "")), display_id=True)

    def move(done: int, total: int, name: str) -> None:
        nonlocal last, shown
        last = (done, total, name)
        if time.monotonic() - shown >= _OFTEN:
            shown = time.monotonic()
            handle.update(_Shown(bar_html(what, *last)))

    try:
        yield move
    finally:
        took = f"{time.monotonic() - began:.1f} s"
        handle.update(_Shown(bar_html(what, last[0], last[1], took)))


class _Shown:
    def __init__(self, html: str) -> None:
        self._html = html

    def _repr_html_(self) -> str:
        return self._html


def bar_html(what: str, done: int, total: int, name: str) -> str:
    """Return a bar as HTML for a notebook: what is done, how far it is, and what is worked on."""
    from trails.display import html  # noqa: PLC0415 - only a notebook needs it

    share = min(100.0, 100 * done / total) if total else 0.0
    bar = (
        '<div style="width:240px;height:8px;border-radius:4px;background:rgba(128,128,128,.25);display:inline-block">'
        f'<div style="width:{share:.1f}%;height:8px;border-radius:4px;background:#2a9d4a"></div></div>'
    )
    counted = f"{done:,} of {total:,}" if total else f"{done:,}"
    return f'<div style="font-size:13px">{html.text(what)} {bar} {counted} {html.inline(name, limit=60)}</div>'
