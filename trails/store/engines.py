"""Opening the engine in a folder, and being sure that an earlier one there is gone.

The engine has no close: it goes when nothing refers to it, or to an iterator of it, any more. Until then it writes, by
their names, to files of its folder, the last time on its way out. Were other files put there meanwhile, it would write
over those: a store that was rebuilt beside an exception, kept by somebody, whose frames held an iterator, was lost.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
import time
import traceback
from collections.abc import Callable
from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import pyoxigraph as ox

from trails.errors import StoreFailed
from trails.store.tables import Tables

_LINGERING: Final = 10.0
"""Seconds that an engine on its way out is waited for."""
_OPEN_FILES: Final = "/dev/fd"
"""The files that this process has open, on Linux and macOS."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


def open_at(folder: Path) -> ox.Store:
    """Open the engine, waiting for a moment where an earlier one of this process is still on its way out."""
    deadline = time.monotonic() + _LINGERING
    while True:
        try:
            return ox.Store(str(folder))
        except OSError as error:
            if "lock hold by current process" not in str(error) or time.monotonic() > deadline:
                raise
        gc.collect()
        time.sleep(0.01)


def refuse_damaged(path: Path, tables: Tables) -> None:
    """Raise `StoreFailed` where a table was touched since a store was closed and is not what was written."""
    damage = tables.damage(touched=True)
    if damage is not None:
        raise unreadable(path, OSError(damage))


def keep_for_ever(engine: ox.Store | None) -> None:
    """Keep an engine from being ended in a forked child: that would wait for ever for threads that only the parent has."""
    if engine is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))


def see_out(folder: Path) -> None:
    """Have the engine of a folder gone, and its files closed, once the last reference to it is dropped.

    As a rule it goes with that. But an iterator of it may stand in a circle of objects, such as an error and the frame
    that it came through, which only the collector finds. That looks at all objects of the process, for some 100 ms in a
    large one: so it is asked only where the engine stays, or where the system does not tell.
    """
    if _is_open_here(folder) is not False:
        gc.collect()


def wait_until_gone(folder: Path) -> None:
    """Return once no engine of this process has a folder open any more.

    Raises `StoreFailed` where one stays: something refers to it, such as an exception that somebody keeps.
    """
    deadline = time.monotonic() + _LINGERING
    see_out(folder)
    while _is_open_here(folder):
        if time.monotonic() > deadline:
            raise StoreFailed(
                f"{folder} is still in use in this process, by something that was interrupted in the middle of a read: let go "
                "of the exception (`sys.last_value` may hold it), or end the process; nothing was replaced"
            )
        time.sleep(0.01)
        gc.collect()


def _is_open_here(folder: Path) -> bool | None:
    """Tell by the file that an engine keeps open as long as it lives; None where the system does not tell.

    It is not opened for that: closing it again would take the lock away that the engine has on it.
    """
    try:
        lock = (folder / "LOCK").stat()
    except OSError:
        return False  # there was never an engine
    try:
        return any(_is(int(number), lock) for number in os.listdir(_OPEN_FILES))  # noqa: PTH208 - may be thousands
    except OSError:
        return None


def _is(number: int, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(number), file)
    except OSError:
        return False  # closed since it was listed


def let_go(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Empty the frames that an exception leaves behind, so that whoever keeps it does not keep the engine."""

    @functools.wraps(function)
    def emptied(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        outer = sys.exception()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            try:
                _empty(error, but=outer)
            except BaseException as interrupt:
                _empty(interrupt, but=outer)
                raise
            raise

    return emptied


def _empty(error: BaseException, *, but: BaseException | None) -> None:
    """Clear the frames of an exception, and of those that it came from; not of one that somebody else is handling."""
    seen = {id(but)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if each.__traceback__ is not None:
            traceback.clear_frames(each.__traceback__)  # those still at work stay
        waiting += [each.__cause__, each.__context__]


class TooManyFiles(StoreFailed):
    """This process may open no more files."""


def unreadable(path: Path, error: Exception) -> StoreFailed:
    """Return the error for a store whose engine does not open its files, with what to do."""
    full = (EMFILE, ENFILE)
    if getattr(error, "errno", None) in full or "Too many open files" in f"{error}":
        return TooManyFiles(
            f"the store {path} cannot be opened: this process has too many files open; close stores that you read no more, "
            "or raise its limit (`ulimit -n`)"
        )
    if getattr(error, "errno", None) in (ENOSPC, EDQUOT, EFBIG) or "No space left on device" in f"{error}":
        return StoreFailed(
            f"the store {path} cannot be opened: its disk is full; make room there and open it again, nothing of it is lost"
        )
    return StoreFailed(f"the store {path} cannot be opened: {error}; restore a backup, or load its newest export")
