"""Pages of a log: where one ended, and what the store held when the first was read, so that pages do not shift.

A cursor is the IRI of a page's last turn, a "#", and how many lines the store's own log had at the first page. Sessions and
turns that came after those lines are left out of the pages that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trails.cli.base import refuse

if TYPE_CHECKING:
    from trails import Repository
    from trails.cli.forest import Node
    from trails.cli.lanes import Line

_ENDLESS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ended: its last turn's owner and index, and the lines that the store's log had at the first page."""

    owner: str
    index: int
    seen: int


def parse(cursor: str) -> Place:
    """Return the place that a cursor stands for, or end the command as wrong usage."""
    from trails import InvalidInput, iris

    turn, _, seen = cursor.rpartition("#")
    try:
        place = Place(iris.session_id(turn), iris.turn_index(turn), int(seen) if seen.isdecimal() else -1)
    except InvalidInput:
        place = None
    if place is None or place.seen < 0:
        refuse(f"{cursor!r} is no cursor; give the one that the page before ended with")
    return place


def page(lines: Iterator[Line], limit: int, after: Place | None) -> tuple[list[Line], bool]:
    """Return the lines of one page, and whether there are more turns after it."""
    if after is not None and not any((line.strand, line.index) == (after.owner, after.index) for line in lines):
        refuse(f"turn {after.index} of {after.owner!r}, where the page before ended, is not in this log")
    found: list[Line] = []
    led_back: list[Line] = []  # these lines belong to the turn below them
    for line in lines:
        led_back.append(line)
        if line.strand is None:
            continue
        if limit == 0:
            return found, True
        limit -= 1
        found += led_back
        led_back.clear()
    return found, False


def last_turn(lines: Iterable[Line]) -> tuple[str, int]:
    """Return owner and index of the last turn of a page."""
    turns = [(line.strand, line.index) for line in lines if line.strand is not None]
    return turns[-1] if turns else ("", 0)


def as_it_was(nodes: Mapping[str, Node], then: Mapping[str, int | None]) -> dict[str, Node]:
    """Return sessions with the turns that they had then; without those that were not there. `then` is of `changes`."""
    found = {}
    for session_id, node in nodes.items():
        end = then.get(session_id, _ENDLESS)
        if end is None:
            continue
        last = None if node.last is None else min(node.last, end - 1)
        found[session_id] = replace(node, last=None if last is None or last < (node.forked_at or 0) else last)
    return found


def newest_first(store: Repository, nodes: Mapping[str, Node], then: Mapping[str, int | None]) -> dict[str, Node]:
    """Return sessions with the time of their last turn for that of their creation: the newest is drawn first."""
    from trails import iris

    found = dict(nodes)
    for row in store.reader.select("newest_turns", end=_ENDLESS):
        session_id, last = iris.session_id(row["session"].value), row["last"].value
        if session_id not in found:
            continue
        if (end := then.get(session_id)) is not None:
            older = store.reader.select("newest_turns", session=session_id, end=end)
            last = next((each["last"].value for each in older), found[session_id].created)
        found[session_id] = replace(found[session_id], created=last)
    return found


def changes(store: Repository, seen: int | None) -> dict[str, int | None]:
    """Return what changed since the store's log had so many lines (None: nothing did).

    By session: how many turns its transcript had then, or None for one that was not there.
    """
    if seen is None:
        return {}
    from trails.plumbing import logged

    lines = store.store.log.lines()
    now, before = logged.by_session(lines[seen:]), logged.by_session(lines[:seen])
    then: dict[str, int | None] = {}
    for session_id, log in now.items():
        earlier = before.get(session_id)
        if earlier is None or earlier.deleted:
            then[session_id] = None
        elif log.heads:
            then[session_id] = earlier.heads[-1][0] if earlier.heads else 0
    return then
