"""Output that is longer than the screen goes through a pager, as git's does: on a terminal only."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

_DEFAULT: Final = "less"
_FLAGS: Final = {"LESS": "FRX", "LV": "-c"}
"""What less and lv are told where the environment says nothing: leave at once what fits, let colours through."""
_SHELLS: Final = frozenset("|&;<>()$`")
"""Signs by which git takes a pager for a line of the shell's."""
NO_PAGER: Final = "trails.no-pager"
"""Where a run says that it wants none."""


class _ToPager(io.TextIOWrapper):
    """The pager's input: what is written there ends on the terminal, in its colours and width."""

    def isatty(self) -> bool:
        """Return that it is shown on a terminal."""
        return True


class _Pipe(io.RawIOBase):
    """Bytes to a pager, which is started with the first of them: one that has nothing to show would cover the screen."""

    def __init__(self, program: list[str], screen: TextIO) -> None:
        self._program = program
        self._screen = screen
        self.process: subprocess.Popen[bytes] | None = None

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, data: Any) -> int:
        """Hand bytes to the pager, or to the screen where none can be started; return how many."""
        if self.process is None:
            with suppress(OSError):
                self.process = subprocess.Popen(  # noqa: S603 - the user's own choice
                    self._program, stdin=subprocess.PIPE, env=_FLAGS | dict(os.environ)
                )
        to = self._screen.buffer if self.process is None else self.process.stdin
        assert to is not None  # noqa: S101 - a pipe was asked for
        to.write(data)
        to.flush()
        return len(data)


@contextmanager
def paging(*, wanted: bool = True) -> Iterator[None]:
    """Send what is printed meanwhile through a pager where stdout and stdin are a terminal; else change nothing.

    The pager is what TRAILS_PAGER or PAGER names, else `less`; an empty name or `cat` is none. Whoever leaves it early ends
    the run in silence, and well.
    """
    program = _program() if wanted and _on_terminal() else None
    if program is None:
        yield
        return
    screen = sys.stdout
    pipe = _Pipe(program, screen)
    sys.stdout = _ToPager(io.BufferedWriter(pipe), encoding="utf-8", errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # left early
    finally:
        paged, sys.stdout = sys.stdout, screen
        _finish(paged, pipe.process)
        for say in _WAITING:
            say()
        _WAITING.clear()


_WAITING: Final[list[Callable[[], object]]] = []


def after_paging(say: Callable[[], object]) -> None:
    """Say something once nothing is being paged, which may be now: the screen is the pager's meanwhile."""
    if isinstance(sys.stdout, _ToPager):
        _WAITING.append(say)
    else:
        say()


def _program() -> list[str] | None:
    """Return what to run: a name with its options, or a line that only a shell reads, as git has it."""
    named = os.environ.get("TRAILS_PAGER", os.environ.get("PAGER", _DEFAULT))
    with suppress(ValueError):  # quotes that do not match
        words = shlex.split(named)
        if not words or words == ["cat"] or shutil.which(words[0]) is None:
            return None
        return ["sh", "-c", named] if _SHELLS & set(named) else words
    return None


def _on_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    return os.environ.get("TERM", "dumb") != "dumb" and all(each is not None and each.isatty() for each in streams)


def _finish(paged: TextIO, process: subprocess.Popen[bytes] | None) -> None:
    """Close the pager's input and wait until people have read: Ctrl-C is the pager's own then."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError, ValueError):
            paged.close()
        if process is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()  # type: ignore[union-attr] # a pipe was asked for
            process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
