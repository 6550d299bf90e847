"""`trails tail`: what happens in a store, as its log tells it; also while another process has the store open.

Only the log is read, which is safe from outside: it is append-only, and a crash cuts off at most a torn end. The engine's
files are opened only where nobody else has them, for the texts of the first lines.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trails.cli.base import command, note, open_store, store_location
from trails.cli.text import count, one_line, shorten
from trails.errors import InvalidInput, SessionNotFound, StoreLocked, TrailsError

if TYPE_CHECKING:
    from trails.session.feed import Notice

_POLL: Final = 0.2
"""Seconds between two looks at the log."""
_CHUNK: Final = 1 << 20
_TEXT: Final = 100


@dataclass(slots=True)
class _Line:
    """A notice, and the first of the turns that came with it, where it tells of turns."""

    notice: Notice
    first: int
    texts: tuple[str, ...] = ()


@command("tail")
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until interrupted, with what comes then.")
@click.option(
    "-n", "last", type=click.IntRange(min=0), default=10, show_default=True, help="How many lines at the start."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def tail(session: str | None, follow: bool, last: int, as_json: bool) -> None:
    """Show the latest turns, forks and changes of state, as the store's log has them.

    Without SESSION (an id, an IRI or a label), those of all sessions. With -f it goes on, also while another process
    works with the store; Ctrl-C ends it. Texts are shown for the first lines only, and only where no other process has
    the store open.
    """
    try:
        _tail(session, follow=follow, last=last, as_json=as_json)
    except KeyboardInterrupt:
        if not follow:
            raise


def _tail(session: str | None, *, follow: bool, last: int, as_json: bool) -> None:
    log = _log_of(store_location() or "")
    lines, position = _whole_lines(log)
    shown, wanted = _start(session, lines, last)
    for line in shown:
        _print(line, as_json=as_json)
    if follow:
        for line in _read(_follow(log, position), {}):
            if wanted is None or line.notice.session_id == wanted:
                _print(line, as_json=as_json)


def _log_of(location: str) -> Path:
    from trails.store import maintenance, marker

    folder = Path(location)
    if location == ":memory:" or not (folder / marker.NAME).is_file():
        raise InvalidInput(f"there is no Trails store at {location}; --store PATH or TRAILS_STORE names the store")
    return folder / maintenance.LOG


def _whole_lines(log: Path) -> tuple[list[str], int]:
    """Return the lines that are whole, and where the next one begins."""
    data = log.read_bytes() if log.is_file() else b""
    end = data.rfind(b"\n") + 1
    return data[:end].decode("utf-8", "replace").splitlines(), end


def _start(session: str | None, lines: Iterable[str], last: int) -> tuple[list[_Line], str | None]:
    """Return the last lines to show, with texts where the store is free, and the id of the session asked for."""
    every = list(_read(lines, {}))
    try:
        with open_store() as store:
            wanted = None if session is None else store.resolve(session)
            shown = _last(every, wanted, last)
            for line in shown:
                try:
                    turns = store.load(line.notice.session_id).turns if line.notice.kind == "turns" else ()
                except TrailsError:  # deleted since, or not whole: what the log says is shown all the same
                    continue
                line.texts = tuple(
                    f"{turn.role}: {'[redacted]' if turn.redacted else shorten(turn.text, _TEXT)}"
                    for turn in turns[line.first : line.notice.count]
                )
    except StoreLocked:
        wanted = None if session is None else _named(session, every)
        shown = _last(every, wanted, last)
    return shown, wanted


def _last(every: Iterable[_Line], wanted: str | None, last: int) -> list[_Line]:
    return list(deque((line for line in every if wanted in (None, line.notice.session_id)), maxlen=last))


def _named(session: str, every: Iterable[_Line]) -> str:
    """Return the id of a session that the log knows; labels are in the store, which another process has open."""
    from trails import iris

    wanted = iris.session_id(session) if iris.is_session(session) else session
    if not any(line.notice.session_id == wanted for line in every):
        raise SessionNotFound(
            f"the log knows no session {wanted!r}; another process has the store open, so name it by its id, not its label"
        )
    return wanted


def _read(lines: Iterable[str], lengths: dict[str, int]) -> Iterator[_Line]:
    """Give what lines tell of sessions; `lengths` keeps how long each transcript was after its last line."""
    from trails.integrity import leaves
    from trails.session.feed import notice_of

    for text in lines:
        try:
            leaf, _ = leaves.parse(text)
        except TrailsError as error:
            note(str(error))
            continue
        if leaf.kind in ("sync", "close"):
            continue
        made = notice_of(leaf)
        first = lengths.get(made.session_id, 0)
        if made.kind in ("fork", "turns"):
            lengths[made.session_id] = made.count
        yield _Line(made, first)


def _follow(log: Path, position: int) -> Iterator[str]:
    """Give the lines that come after a position, for ever: waits for each, and never gives half of one."""
    rest = b""
    with log.open("rb") as file:
        while True:
            size = os.fstat(file.fileno()).st_size
            if size < position:  # a torn end was cut off when the store was opened again
                position, rest = size, b""
            data = os.pread(file.fileno(), _CHUNK, position)
            position += len(data)
            *whole, rest = (rest + data).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in whole)
            if not data:
                if not log.is_file() or not os.path.samestat(log.stat(), os.fstat(file.fileno())):
                    raise InvalidInput(f"the store at {log.parent} is gone or was replaced; run `trails tail` again")
                time.sleep(_POLL)


def _print(line: _Line, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(line.notice.to_dict() | ({"texts": line.texts} if line.texts else {})))
        return
    click.echo(f"{one_line(line.notice.session_id)}  {told(line.notice)}")
    for text in line.texts:
        click.echo(f"    {text}")


def told(notice: Notice) -> str:
    """Return what happened, for people."""
    if notice.kind == "turns":
        return f"{count(notice.count, 'turn')}, head {notice.digest[:8]}"
    return _TOLD.get(notice.kind, "entry {} of its ledger: {}").format(notice.count, notice.kind)


_TOLD: Final = {
    "create": "created",
    "fork": "forked at {}",
    "change": "its row changed",
    "redact": "turn {} redacted",
    "delete": "deleted",
    "received": "message {} received",
    "sent": "answer {} made",
    "delivered": "delivery {} noted",
} | dict.fromkeys(("pending", "streaming", "completed", "failed"), "exchange {} {}")
