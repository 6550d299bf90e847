"""Write to a terminal: safe text, columns and the pager.

Text made fit for a terminal: nothing that a transcript or a file name holds may steer it.

Output that is longer than the screen goes through a pager, as git's does: on a terminal only.

Rows in columns that fit a width, drawn without any framework: what answers at once does not wait for one.

Narrow columns stay whole and the widest give way, with an ellipsis; in a pipe nothing is cut. As lines of tab-separated
values (`--tsv`) every value is whole, in its machine-readable form.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, BinaryIO, Final, TextIO, cast

from trails.display.terminal_text import HARMLESS, PICTURES, STEERING, clean, count, one_line, shorten

__all__ = [
    "Escaping",
    "clean",
    "clean_csv",
    "count",
    "escaped",
    "escaping",
    "is_utf8",
    "one_line",
    "shorten",
    "to_json",
]

_ESCAPES: Final = {code: f"\\u{code:04x}" for code in {*PICTURES, *STEERING} - {ord("\r")}}


def clean_csv(text: str) -> str:
    """Return CSV that is as clean; all line ends stay, those of its rows and those in its cells.

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

    What is not plain in it stands as its `to_dict` has it.

    >>> to_json({"a": "\\x9b2J\\u202e"}, indent=None)
    '{"a": "\\\\u009b2J\\\\u202e"}'
    """
    return escaped(json.dumps(value, ensure_ascii=ascii_only, indent=indent, default=methodcaller("to_dict")))


class Escaping:
    """A file that writes UTF-8 of JSON lines, N-Quads or TriG to another as `escaped` returns it, however it is cut."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def write(self, data: bytes) -> int:
        """Write bytes; those of a character that is not whole yet wait for the rest of it. Returns how many were taken."""
        self._out.write(escaped(self._decoder.decode(data)).encode())
        return len(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        """Write several pieces."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the file below."""
        self._out.flush()


def escaping(out: BinaryIO) -> BinaryIO:
    """Return a file that writes to `out` what means the same and steers no terminal; see `Escaping`."""
    return cast(BinaryIO, Escaping(out))


def is_utf8(stream: Any) -> bool:
    """Tell whether a stream takes every character."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


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


_GAP: Final = 2
ENDLESS: Final = 100_000
"""How wide a pipe is."""
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, how it is aligned, and how narrow it may become (None: it stays whole)."""

    heading: str
    right: bool = False
    least: int | None = None
    style: str = ""
    most: int | None = None
    """What is wider than so many cells stands whole on a line of its own, above the rest of its row."""


def room() -> int:
    """Return how wide the output may be: the terminal's width, or no end where it goes into a pipe."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return ENDLESS
    return shutil.get_terminal_size().columns


def coloured() -> bool:
    """Tell whether to use colours: on a terminal that has some, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def painted(text: str, style: str, *, colours: bool) -> str:
    """Return a text in a style, which is names of colours and weights with blanks between them.

    >>> painted("a", "bold red", colours=True), painted("a", "bold red", colours=False)
    ('\\x1b[1;31ma\\x1b[0m', 'a')
    """
    if not colours or not style or not text:
        return text
    return f"\x1b[{';'.join(_CODES[name] for name in style.split())}m{text}\x1b[0m"


def width_of(text: str) -> int:
    """Return how many cells of a terminal a text takes.

    >>> width_of("abc"), width_of("日本"), width_of("e\\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, width: int) -> str:
    """Return one clean line that takes `width` cells at most, with an ellipsis where it was cut.

    >>> fitted("a long line", 7), fitted("日本語です", 6)
    ('a long…', '日本…')
    """
    line = one_line(text)
    if width_of(line) <= width:
        return line
    taken = 0
    for number, character in enumerate(line):
        taken += _cells(character)
        if taken > width - 1:
            return f"{line[:number].rstrip()}…"
    return line


def put_columns(line: str) -> None:
    """Print a line on stdout; what its encoding does not have is escaped there."""
    sys.stdout.write(f"{line}\n")


def draw_columns(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, heading: bool = True) -> None:
    """Print rows on stdout; the columns that may become narrow share what the others leave, the widest giving way first."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [
        max([width_of(column.heading) if heading else 0, *_widths(column, [row[place] for row in cells])])
        for place, column in enumerate(columns)
    ]
    fit_columns(columns, widths, room())
    colours = coloured()
    if heading:
        head = _line(columns, widths, [column.heading for column in columns])
        put_columns(painted(head, "bold", colours=colours))
    for row in cells:
        for place, column in enumerate(columns):
            if column.most is not None and width_of(row[place]) > widths[place]:
                put_columns(painted(row[place], column.style, colours=colours))
                row[place] = ""
        put_columns(_line(columns, widths, row, colours=colours))


def _widths(column: Column, cells: Iterable[str]) -> list[int]:
    """Return how wide the cells of a column are that stand in it."""
    return [width for width in map(width_of, cells) if column.most is None or width <= column.most]


def fit_columns(columns: Sequence[Column], widths: list[int], most: int) -> None:
    """Make columns narrower until their line fits, the widest of those that may be first, none below its least."""
    over = sum(widths) + _GAP * (len(widths) - 1) - most
    while over > 0:
        free = [
            place for place, column in enumerate(columns) if column.least is not None and widths[place] > column.least
        ]
        if not free:
            return
        widest = max(free, key=widths.__getitem__)
        widths[widest] -= 1
        over -= 1


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str], *, colours: bool = False) -> str:
    made = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        text = fitted(cell, width)
        pad = " " * (width - width_of(text))
        shown = painted(text, column.style, colours=colours)
        made.append(f"{pad}{shown}" if column.right else f"{shown}{pad}")
    return (" " * _GAP).join(made).rstrip()


def tsv_lines(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as tab-separated values with a line of names; tabs and line ends in values become blanks."""
    put_columns("\t".join(names))
    for row in rows:
        put_columns("\t".join("" if value is None else one_line(str(value)) for value in row))
