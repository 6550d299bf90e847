"""Output that is longer than the screen goes through a pager, as git's does: on a terminal only."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_DEFAULT: Final = "less"
_FLAGS: Final = {"LESS": "FRX", "LV": "-c"}
"""What less and lv are told where the environment says nothing: leave at once what fits, let colours through."""
NO_PAGER: Final = "trails.no-pager"
"""Where a run says that it wants none."""


class _ToPager(io.TextIOWrapper):
    """The pager's input: what is written there ends on the terminal, in its colours and width."""

    def isatty(self) -> bool:
        """Return that it is shown on a terminal."""
        return True


@contextmanager
def paging(*, wanted: bool = True) -> Iterator[None]:
    """Send what is printed meanwhile through a pager where stdout and stdin are a terminal; else change nothing.

    The pager is what TRAILS_PAGER or PAGER names, else `less`; an empty name or `cat` is none. Whoever leaves it early ends
    the run in silence, and well.
    """
    program = _program() if wanted and _on_terminal() else None
    process = None if program is None else _start(program)
    if process is None:
        yield
        return
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    screen, sys.stdout = sys.stdout, _ToPager(process.stdin, encoding="utf-8", errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # left early
    finally:
        _finish(process)
        sys.stdout = screen


def _program() -> list[str] | None:
    named = os.environ.get("TRAILS_PAGER", os.environ.get("PAGER", _DEFAULT))
    with suppress(ValueError):  # quotes that do not match
        words = shlex.split(named)
        if words and words != ["cat"] and shutil.which(words[0]) is not None:
            return words
    return None


def _on_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    return os.environ.get("TERM", "dumb") != "dumb" and all(each is not None and each.isatty() for each in streams)


def _start(program: list[str]) -> subprocess.Popen[bytes] | None:
    """Start a pager; None where it cannot be: then the terminal itself is written to."""
    with suppress(OSError):
        return subprocess.Popen(program, stdin=subprocess.PIPE, env=_FLAGS | dict(os.environ))  # noqa: S603 - the user's own choice
    return None


def _finish(process: subprocess.Popen[bytes]) -> None:
    """Close the pager's input and wait until people have read: Ctrl-C is the pager's own then."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError, ValueError):
            sys.stdout.close()
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
