"""`trails tail`: what happens in a store, as its log tells it; also while another process has the store open.

Only the log is read, which is safe from outside: it is append-only, and a crash cuts off at most a torn end. The engine's
files are opened only where nobody else has them, for the texts of the first lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trails.cli.base import command, note, open_store, store_folder, store_location
from trails.cli.terminal import count, one_line, shorten, to_json
from trails.errors import IntegrityError, InvalidInput, SessionNotFound, StoreLocked, TrailsError

if TYPE_CHECKING:
    from trails import Repository
    from trails.plumbing.watch import Notice

_TEXT: Final = 100


@command("tail")
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until interrupted, with what comes then.")
@click.option(
    "-n", "last", type=click.IntRange(min=0), default=10, show_default=True, help="How many lines at the start."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def tail(session: str | None, follow: bool, last: int, as_json: bool) -> None:
    """Show the latest turns, forks and changes of state.

    They are shown as the store's log has them. Without SESSION (an id, an IRI or a label), those of all sessions. With
    -f it goes on, also while another process works with the store; Ctrl-C ends it, with exit code 0. Texts are shown
    for the first lines only.
    """
    try:
        _tail(session, follow=follow, last=last, as_json=as_json)
    except KeyboardInterrupt:
        if not follow:
            raise


def _tail(session: str | None, *, follow: bool, last: int, as_json: bool) -> None:
    from trails.store.logtail import LogFollower, whole_lines

    with ExitStack() as stack:
        shared = _of_many(stack)
        log = _log_of(store_folder()) if shared is None else _brought_in(shared)
        lines, position = whole_lines(log)
        try:
            with open_store(reading=True) if shared is None else nullcontext(shared) as store:
                wanted = None if session is None else store.resolve(session)
                shown = [(each, _texts(store, lines, at, each)) for at, each in _last(lines, wanted, last)]
        except StoreLocked:  # the log alone has to do
            wanted = None if session is None else _named(session, lines)
            shown = [(each, ()) for _, each in _last(lines, wanted, last)]
        for each, texts in shown:
            _print(each, texts, as_json=as_json)
        for line in LogFollower(log, position, lines).lines() if follow else ():
            notice = _notice(line)
            if notice is not None and wanted in (None, notice.session_id):
                _print(notice, (), as_json=as_json)


def _of_many(stack: ExitStack) -> Repository | None:
    """Return the store where it is one in PostgreSQL, open until the end; None for a folder."""
    from trails.store.postgres.address import is_address

    return stack.enter_context(open_store(reading=True)) if is_address(store_location() or "") else None


def _brought_in(shared: Repository) -> Path:
    """Return the log of a store in PostgreSQL as this process has it, which from now on gets what others commit."""
    from trails.store import maintenance
    from trails.store.embedded import EmbeddedStore

    store = shared.store
    assert isinstance(store, EmbeddedStore)  # noqa: S101 - of that address
    assert store.beside is not None  # noqa: S101 - it has a folder
    store.follow_others()
    return store.beside / maintenance.LOG


def _log_of(folder: Path) -> Path:
    from trails.store import maintenance, marker

    if str(folder) == ":memory:" or not (folder / marker.NAME).is_file():
        raise InvalidInput(f"there is no Trails store at {folder}; --store PATH or TRAILS_STORE names the store")
    return folder / maintenance.LOG


def _notice(line: str) -> Notice | None:
    """Return what a line tells of a session; None for one that tells of the log itself, or nothing new."""
    from trails.integrity import leaves
    from trails.plumbing.watch import is_told, notice_of

    try:
        leaf, _ = leaves.parse(line)
    except IntegrityError as error:
        note(f"{error}")
        return None
    return notice_of(leaf) if is_told(leaf) else None


def _last(lines: Sequence[str], wanted: str | None, last: int) -> list[tuple[int, Notice]]:
    """Return the last lines that tell of a session (of the one that is wanted), with their places."""
    from trails import iris

    part = " " if wanted is None else f" {iris.session(wanted)} "
    found: list[tuple[int, Notice]] = []
    for at in range(len(lines) - 1, -1, -1):
        if len(found) == last:
            break
        notice = _notice(lines[at]) if part in lines[at] else None
        if notice is not None:
            found.append((at, notice))
    return found[::-1]


def _texts(store: Repository, lines: Sequence[str], at: int, notice: Notice) -> tuple[str, ...]:
    """Return the texts of the turns that came with a line; none where they are gone since."""
    if notice.kind != "turns":
        return ()
    from trails import iris

    before = (f"turns {iris.session(notice.session_id)} ", f"fork {iris.session(notice.session_id)} ")
    first = next((int(lines[n].split(" ")[2]) for n in range(at - 1, -1, -1) if lines[n].startswith(before)), 0)
    try:
        turns = store.load(notice.session_id).turns[first : notice.count]
    except TrailsError:  # deleted since, or not whole: what the log says is shown all the same
        return ()
    return tuple(f"{turn.role}: {'[redacted]' if turn.redacted else shorten(turn.text, _TEXT)}" for turn in turns)


def _named(session: str, lines: Sequence[str]) -> str:
    """Return the id of a session that the log knows; labels are in the store, which another process has open."""
    from trails import iris

    wanted = iris.session_id(session) if iris.is_session(session) else session
    if not _last(lines, wanted, 1):
        raise SessionNotFound(
            f"the log knows no session {wanted!r}; another process has the store open, so name it by its id, not its label"
        )
    return wanted


def _print(notice: Notice, texts: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        line = notice.to_dict() | ({"texts": list(texts)} if texts else {})
        click.echo(to_json(line, ascii_only=True, indent=None))
        return
    click.echo(f"{one_line(notice.session_id)}  {one_line(told(notice))}")
    for text in texts:
        click.echo(f"    {one_line(text)}")


def told(notice: Notice) -> str:
    """Return what happened, for people."""
    if notice.kind == "turns":
        return f"{count(notice.count, 'turn')}, head {notice.digest[:8]}"
    return _TOLD.get(notice.kind, "entry {} of its ledger: {}").format(notice.count, notice.kind)


_TOLD: Final = {
    "create": "created",
    "fork": "forked at {}",
    "change": "its row changed",
    "detach": "cut loose from its parent, forked at {}",
    "redact": "turn {} redacted",
    "delete": "deleted",
    "received": "message {} received",
    "sent": "answer {} made",
    "delivered": "delivery {} noted",
    "remove": "a run taken out of the registry, at revision {}",
} | dict.fromkeys(("pending", "streaming", "completed", "failed"), "exchange {} {}")
