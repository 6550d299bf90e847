"""Write to a terminal: text that cannot steer it, and the pager."""

from __future__ import annotations

import codecs
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import methodcaller
from typing import Any, BinaryIO, Final, cast

import click

from trails.display.terminal_text import HARMLESS, PICTURES, STEERING, one_line

_ESCAPES: Final = {code: f"\\u{code:04x}" for code in {*PICTURES, *STEERING} - {ord("\r")}}


def clean_csv(text: str) -> str:
    """Return CSV that cannot steer a terminal; all line ends stay, those of its rows and those in its cells.

    >>> clean_csv('a,b\\x1b\\rc\\r\\n')
    'a,b␛␍c\\r\\n'
    """
    return "\r\n".join(line.translate(HARMLESS) for line in text.split("\r\n"))


def escaped(text: str) -> str:
    """Return JSON, Turtle, N-Triples or TSV that means the same, with what could steer a terminal as `\\uXXXX`.

    >>> escaped('"a\\u202eb"')
    '"a\\\\u202eb"'
    """
    return text.translate(_ESCAPES)


def to_json(value: Any, *, ascii_only: bool = False, indent: int | None = 2) -> str:
    """Return a value as JSON that no terminal obeys: equal to it, with what could steer one escaped.

    A value that is not plain stands as its `to_dict` has it.

    >>> to_json({"a": "\\x9b2J\\u202e"}, indent=None)
    '{"a": "\\\\u009b2J\\\\u202e"}'
    """
    return escaped(json.dumps(value, ensure_ascii=ascii_only, indent=indent, default=methodcaller("to_dict")))


class _Escaping(io.RawIOBase):
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write bytes; those of a character that is not whole yet wait for the rest of it. Returns how many were taken."""
        self._out.write(escaped(self._decoder.decode(data)).encode())
        return len(data)


def escaping(out: BinaryIO) -> BinaryIO:
    """Return a file that writes UTF-8 of JSON lines, N-Quads or TriG to `out` as `escaped` returns it, however it is cut."""
    return cast(BinaryIO, _Escaping(out))


def is_utf8(stream: Any) -> bool:
    """Tell whether a stream takes every character."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


COLOUR: Final = "trails.colour"
"""Where a run keeps when output has colours."""
WHEN: Final = ("auto", "always", "never")


def colours(wanted: str, environment: Mapping[str, str]) -> bool | None:
    """Tell whether output has colours whatever it goes to, or None where that is for the terminal to say.

    NO_COLOR and CLICOLOR_FORCE count for "auto" alone, the first before the second, as https://bixense.com/clicolors has it.

    >>> colours("auto", {}), colours("auto", {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}), colours("always", {"NO_COLOR": "1"})
    (None, False, True)
    """
    if wanted != "auto":
        return wanted == "always"
    if environment.get("NO_COLOR"):
        return False
    return True if environment.get("CLICOLOR_FORCE", "0") not in ("", "0") else None


def echo_tsv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as tab-separated values with a line of names; tabs and line ends in values become blanks."""
    for row in (names, *rows):
        line = "\t".join("" if value is None else one_line(str(value)) for value in row)
        sys.stdout.write(f"{line}\n")


# --- the pager

PAGER: Final = "trails.pager"
"""Where a run keeps which pager a config file names."""
_FLAGS: Final = {"LESS": "FRX", "LV": "-c"}
"""Options of less and lv if the environment has none: leave at once if all fits, let colours through."""
_WAITING: Final[list[Callable[[], object]]] = []


class _Page(io.StringIO):
    """Output for the pager: it ends on the terminal, in its colours and width."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Return that it is shown on a terminal."""
        return True


@contextmanager
def paging(otherwise: str = "less") -> Iterator[None]:
    """Send what is printed meanwhile through a pager if stdout and stdin are a terminal; else change nothing.

    TRAILS_PAGER or PAGER name the pager, as a shell reads it, or else `otherwise`. An empty name or `cat` is none.
    """
    program = os.environ.get("TRAILS_PAGER", os.environ.get("PAGER", otherwise)).split()
    is_terminal = all(each is not None and each.isatty() for each in (sys.stdin, sys.stdout))
    if (
        not is_terminal
        or program in ([], ["cat"])
        or os.environ.get("TERM", "dumb") == "dumb"
        or not shutil.which(program[0])
    ):
        yield
        return
    screen, page = sys.stdout, _Page()
    sys.stdout = page
    try:
        yield
    finally:
        sys.stdout = screen
        if page.getvalue():
            _show(" ".join(program), page.getvalue())
        for say in _WAITING:
            say()
        _WAITING.clear()


def _show(program: str, text: str) -> None:
    """Wait until people have read a text in a pager: Ctrl-C is the pager's own then."""
    process = subprocess.Popen(["sh", "-c", program], stdin=subprocess.PIPE, env=_FLAGS | dict(os.environ))  # noqa: S603, S607
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.communicate(text.encode(errors="backslashreplace"))
    finally:
        signal.signal(signal.SIGINT, before)


def after_paging(say: Callable[[], object]) -> None:
    """Say something once nothing is being paged, which may be now: the screen is the pager's meanwhile."""
    if isinstance(sys.stdout, _Page):
        _WAITING.append(say)
    else:
        say()


def note(message: str) -> None:
    """Tell a person what was done, on stderr: stdout carries only results. Output in a pager comes first."""
    after_paging(lambda: click.echo(one_line(message), err=True))
