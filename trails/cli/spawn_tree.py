"""The command that shows the session tree: mains, branches and workers, and what is wrong with them. It writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from trails.cli.base import Number, answer, command, json_option, open_store
from trails.cli.terminal import clean, count

if TYPE_CHECKING:
    from trails.tree.overview import Seen

_TOP = 10
_STATES = {"active": "green", "suspended": "yellow", "completed": "dim", "failed": "red", "expired": "dim"}


@command("tree", pager=True)
@click.argument("session", required=False, metavar="[SESSION]")
@click.option("--all", "ended", is_flag=True, help="Also the sessions that have ended.")
@click.option(
    "--stuck",
    type=Number(min=0, max=5_256_000),
    metavar="MIN",
    help="Only active ones not heard of for MIN minutes.",
)
@click.option("--orphans", is_flag=True, help="Only those that go on although what spawned them has ended.")
@click.option("--top", type=click.Choice(["tokens"]), help=f"Only the {_TOP} that used most, the greatest first.")
@json_option
def spawn_tree(
    session: str | None, *, ended: bool, stuck: float | None, orphans: bool, top: str | None, as_json: bool
) -> None:
    """Show the session tree: mains, branches and workers.

    Shown are those that have not ended, with states, ages and limits near. SESSION (an id, an IRI or a label) shows one
    session and those below it. A session was last heard of when a turn of it was stored, a message came to it, or its
    state changed: the turns of a branch are stored when it rests or ends. Limits are the defaults: 3 for the depth of
    branches, 4 for that of workers, 8 active children.
    """
    from trails.tree.overview import overview

    with open_store(reading=True) as store:
        found = overview(store, None if session is None else store.resolve(session))
    now = datetime.now(UTC)
    wanted = _wanted(found, now, ended=ended or top is not None, stuck=stuck, orphans=orphans)
    if top is not None:
        wanted = sorted(wanted, key=lambda each: (-(each.tokens or 0), each.id))[:_TOP]
    whole = stuck is None and not orphans and top is None
    answer(
        [_plain(each, now) for each in wanted],
        wanted,
        lambda wanted: _draw(found, wanted, now, whole=whole, tokens=top is not None),
        empty=_nothing(found, stuck=stuck, orphans=orphans),
        as_json=as_json,
    )


def _wanted(found: Sequence[Seen], now: datetime, *, ended: bool, stuck: float | None, orphans: bool) -> list[Seen]:
    from trails.records.tree_entries import ENDED

    kept = [each for each in found if ended or each.state not in ENDED]
    if stuck is not None:
        kept = [each for each in kept if each.is_stuck(now, timedelta(minutes=stuck))]
    return [each for each in kept if each.orphan] if orphans else kept


def _plain(each: Seen, now: datetime) -> dict[str, object]:
    from trails.tree.limits import Limits

    ages = {
        "age_seconds": round((now - each.created).total_seconds()),
        "silent_seconds": round((now - each.last).total_seconds()),
    }
    return each.to_dict() | ages | {"near": list(each.near(Limits()))}


def _nothing(found: Sequence[Seen], *, stuck: float | None, orphans: bool) -> str:
    if stuck is not None or orphans:
        return f"nothing in the session tree is {'stuck' if stuck is not None else 'an orphan'}"
    ended = f"; {count(len(found), 'session')} ended, --all shows them" if found else ""
    return f"no session of the session tree is active or suspended{ended}"


def _draw(found: Sequence[Seen], wanted: Sequence[Seen], now: datetime, *, whole: bool, tokens: bool) -> None:
    """Print a table; where it is of the whole tree, with what stands above and lines that show what spawned what."""
    from rich.text import Text

    from trails.cli import render
    from trails.tree.overview import with_ancestors

    shown = with_ancestors(found, wanted) if whole else list(wanted)
    indents = _indents(shown) if whole else {}
    used = ("tokens",) if tokens else ()
    numbers = ("age", "silent", "due", "depth", *used)
    made = render.table("session", "kind", "state", *numbers, "notes", right=numbers, fold=("notes",))
    for each in shown:
        made.add_row(
            Text(indents.get(each.id, ""), style="dim").append(clean(each.id), style="cyan"),
            each.kind,
            Text(each.state, style=_STATES.get(each.state, "")),
            _span(now - each.created),
            _span(now - each.last),
            _when(each.due, now),
            str(each.depth),
            *(("-" if each.tokens is None else f"{each.tokens:,}",) if tokens else ()),
            Text(_notes(each), style="yellow"),
        )
    render.screen().print(made)


def _indents(shown: Sequence[Seen]) -> dict[str, str]:
    """Return the lines that are drawn before each session, to show what spawned it."""
    ids = {each.id for each in shown}
    last_child: dict[str | None, str] = {}
    for each in shown:
        last_child[each.parent_id] = each.id
    found: dict[str, str] = {}
    stems: dict[str, str] = {}
    for each in shown:
        if each.parent_id is None or each.parent_id not in ids:
            found[each.id] = stems[each.id] = ""
            continue
        is_last = last_child[each.parent_id] == each.id
        found[each.id] = stems[each.parent_id] + ("└─ " if is_last else "├─ ")
        stems[each.id] = stems[each.parent_id] + ("   " if is_last else "│  ")
    return found


def _notes(each: Seen) -> str:
    from trails.tree.limits import Limits

    found = [*each.near(Limits())]
    if each.due is not None and each.ends_by is not None:
        found.append("asked to end")
    if each.orphan:
        found.append("orphan")
    return ", ".join(found)


def _when(due: datetime | None, now: datetime) -> str:
    if due is None:
        return ""
    return f"{_span(due - now)}" if due >= now else f"{_span(now - due)} late"


def _span(span: timedelta) -> str:
    """Return a span of time in the largest unit that it fills twice, or in seconds.

    >>> _span(timedelta(seconds=59)), _span(timedelta(minutes=90)), _span(timedelta(days=3))
    ('59s', '90m', '3d')
    """
    seconds = int(span.total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
