"""Commands that draw history: log and tree."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from trails.cli import options as cli
from trails.display.terminal_text import clean, count, shorten

if TYPE_CHECKING:
    from rich.text import Text

    from trails import Repository
    from trails.history.lookup.forest import ForestNode
    from trails.model.values import Turn

# --- the lanes of a graph of turns, newest first, as `git log --graph` draws commits
#
# A strand is the run of turns that a session owns. Above the turn that a fork leaves, first come the newer turns of its
# parent, then the fork's, on a lane further right, then the line that leads it back. So a drawing is as wide as forks are
# nested, however many leave one turn.

_TURN: Final = "●"
_DOWN: Final = "│"
_BACK: Final = "├─╯"
_PLAIN: Final = str.maketrans({"●": "*", "│": "|", "├": "|", "─": "-", "╯": "'"})


@dataclass(frozen=True, slots=True)
class Strand:
    """A session in the drawing: it owns the turns from `start` (inclusive) to `end` (exclusive).

    `parent` is the strand that owns the turn before `start`; None where there is no such turn, or it is not drawn.
    `newness` orders strands: the greatest comes first.
    """

    id: str
    parent: str | None
    start: int
    end: int
    newness: str = ""


@dataclass(frozen=True, slots=True)
class LaneLine:
    """One line of the drawing: what stands left of it, and the turn that it is of (None for a line that leads back)."""

    graph: str
    strand: str | None = None
    index: int = 0
    lane: int = 0

    def plain(self) -> str:
        """Return the graph in ASCII, for where nothing else can be printed.

        >>> LaneLine("│ ├─╯").plain()
        "| |-'"
        """
        return self.graph.translate(_PLAIN)


def draw_lanes(strands: Iterable[Strand]) -> Iterator[LaneLine]:
    """Give the lines of all strands; those that no root leads to (their lineage goes in a circle) come last.

    >>> [line.graph for line in draw_lanes([Strand("plan", None, 0, 3), Strand("fork", "plan", 1, 2)])]
    ['●', '●', '│ ●', '├─╯', '●']
    """
    every = {strand.id: strand for strand in strands if strand.start < strand.end}
    ordered = _strands_newest_first(every)
    below: _Forks = defaultdict(list)
    for strand in ordered:
        if strand.parent in every:
            below[strand.parent, min(strand.start, every[strand.parent].end)].append(strand)
    seen: set[str] = set()
    roots = [strand for strand in ordered if strand.parent not in every]
    for root in [*roots, *ordered]:
        if root.id not in seen:
            yield from _start_strand(root, 0, below, seen)


_Forks = dict[tuple[str | None, int], list[Strand]]
"""The strands that leave a strand at an index, newest first."""


def _strands_newest_first(every: dict[str, Strand]) -> list[Strand]:
    """Return strands in the order in which those that leave one turn are drawn: each is as new as the newest above it."""
    newest = {strand.id: strand.newness for strand in every.values()}
    for strand in every.values():
        above, seen = strand.parent, {strand.id}
        while above is not None and above in every and above not in seen:
            newest[above] = max(newest[above], strand.newness)
            seen.add(above)
            above = every[above].parent
    by_name = sorted(every.values(), key=lambda strand: strand.id)
    return sorted(by_name, key=lambda strand: newest[strand.id], reverse=True)


def _start_strand(strand: Strand, lane: int, below: _Forks, seen: set[str]) -> Iterator[LaneLine]:
    """Give the lines of a strand and of what leaves it; lanes further left belong to strands that go on below."""
    seen.add(strand.id)
    left = f"{_DOWN} " * lane
    open_above = False
    for end in range(strand.end, strand.start - 1, -1):
        for fork in below.get((strand.id, end), []):
            if fork.id in seen:
                continue
            yield from _start_strand(fork, lane + open_above, below, seen)
            if open_above:
                yield LaneLine(left + _BACK)
            open_above = True
        if end > strand.start:
            yield LaneLine(left + _TURN, strand.id, end - 1, lane)
            open_above = True


_ENDLESS: Final = 1_000_000_000
_SHORTEST: Final = 20
"""A text gets so many characters at least, before the whole line is cut to the terminal's width."""


@dataclass(slots=True)
class _Listing:
    """What a log is of: the strands to draw, and the names that stand at turns, by (owner, index)."""

    strands: list[Strand]
    heads: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    tags: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    refs: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    notes: Mapping[str, int] = field(default_factory=dict)
    """How many notes there are on a turn, by its digest."""


@cli.command("log", pager=True, as_of=True)
@click.argument("ref", metavar="[REF]", required=False)
@cli.option("--graph", "Draw the forks: with REF, also what was forked from it.")
@cli.page_options(most=10_000)
def log(*, ref: str | None, graph: bool, limit: int, page: int, cursor: str | None) -> None:
    """List turns newest first, a line each.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it: then its
    transcript is listed, and without REF all sessions, the newest first. A line gives the first 8 digits of the turn's
    digest and its index; in brackets the sessions whose last turn it is, tags, refs, notes, and what it was picked from;
    role, author, time in UTC, and the first line of the text. On a terminal each is cut at its width, elsewhere they are whole.
    """
    from trails.history.lookup.summaries import make_cursor
    from trails.rows import row_codec

    if page > 1 and cursor is not None:
        cli.refuse("--page counts from the beginning, and --cursor goes on from elsewhere; give one")
    after = None if cursor is None else _page_end(cursor)
    with cli.open_store(reading=True) as store:
        listing = _listing(store, ref, forks=graph, seen=None if after is None else after.seen)
        lines, more = _page(draw_lanes(listing.strands), limit, after, skip=(page - 1) * limit)
        if page > 1 and not lines:
            cli.refuse(f"there is no page {page}: the log has fewer turns")
        turns = _turns(store, lines)
        seen = len(store.store.log.lines()) if after is None and more else after.seen if after else 0
    last = turns.get(_last_turn(lines)) if more else None
    onward = None if last is None else make_cursor(row_codec.tie(last.session_id), last.index, seen)
    shown = [line for line in lines if (graph if line.strand is None else (line.strand, line.index) in turns)]
    rows = [_plain(listing, line, turns) for line in shown if line.strand is not None]

    def draw(lines: Sequence[LaneLine]) -> None:
        console = cli.view.screen()
        for line in lines:
            console.print(_line(listing, line, turns, graph=graph, width=console.width), soft_wrap=True)

    value = {"turns": rows, "cursor": onward}
    cli.answer(value, shown, draw, empty="there are no turns", said=cli.there_is_more(onward))


# --- pages


@dataclass(frozen=True, slots=True)
class _PageEnd:
    """Where a page ended: its last turn's owner and index, and how many lines the store's log had at the first page.

    In a cursor a number stands for the owner (`row_codec.tie`). Sessions and turns that came after those lines are left out
    of the pages that follow, so that they do not shift.
    """

    owner: int
    index: int
    seen: int


def _page_end(cursor: str) -> _PageEnd:
    """Return the place that a cursor stands for; raise `InvalidInput` for one that no page gave."""
    from trails.history.lookup.summaries import parse_cursor

    place = _PageEnd(*parse_cursor(cursor, 3))
    if place.seen < 0:
        cli.refuse(f"{cursor!r} is no cursor; give the one that the page before ended with")
    return place


def _is_at(line: LaneLine, end: _PageEnd) -> bool:
    from trails.rows import row_codec

    return line.strand is not None and line.index == end.index and row_codec.tie(line.strand) == end.owner


def _page(lines: Iterator[LaneLine], limit: int, after: _PageEnd | None, *, skip: int) -> tuple[list[LaneLine], bool]:
    """Return the lines of one page, `skip` turns left out before it, and whether there are more turns after it."""
    if after is not None and not any(_is_at(line, after) for line in lines):
        cli.refuse(f"the turn where the page before ended, number {after.index} of its session, is not in this log")
    found: list[LaneLine] = []
    led_back: list[LaneLine] = []  # these lines belong to the turn below them
    for line in lines:
        led_back.append(line)
        if line.strand is None:
            continue
        if skip:
            skip -= 1
            led_back.clear()
            continue
        if limit == 0:
            return found, True
        limit -= 1
        found += led_back
        led_back.clear()
    return found, False


def _last_turn(lines: Iterable[LaneLine]) -> tuple[str, int]:
    """Return owner and index of the last turn of a page."""
    turns = [(line.strand, line.index) for line in lines if line.strand is not None]
    return turns[-1] if turns else ("", 0)


def _as_it_was(nodes: Mapping[str, ForestNode], then: Mapping[str, int | None]) -> dict[str, ForestNode]:
    """Return sessions with the turns that they had then; without those that were not there. `then` is of `_changes`."""
    found = {}
    for session_id, node in nodes.items():
        end = then.get(session_id, _ENDLESS)
        if end is None:
            continue
        last = None if node.last is None else min(node.last, end - 1)
        found[session_id] = replace(node, last=None if last is None or last < (node.forked_at or 0) else last)
    return found


def _newest_first(
    store: Repository, nodes: Mapping[str, ForestNode], then: Mapping[str, int | None]
) -> dict[str, ForestNode]:
    """Return sessions with the time of their last turn for that of their creation: the newest is drawn first."""
    from trails.model import iris

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


def _changes(store: Repository, seen: int | None) -> dict[str, int | None]:
    """Return what changed since the store's log had so many lines (None: nothing did).

    By session: how many turns its transcript had then, or None for one that was not there.
    """
    if seen is None:
        return {}
    from trails.history import log_history

    lines = store.store.log.lines()
    now, before = log_history.logs_by_session(lines[seen:]), log_history.logs_by_session(lines[:seen])
    then: dict[str, int | None] = {}
    for session_id, log in now.items():
        earlier = before.get(session_id)
        if earlier is None or earlier.deleted:
            then[session_id] = None
        elif log.heads:
            then[session_id] = earlier.heads[-1][0] if earlier.heads else 0
    return then


# --- reading


def _listing(store: Repository, ref: str | None, *, forks: bool, seen: int | None) -> _Listing:
    """Return what is to be listed; with `seen`, as it was when the store's log had so many lines."""
    from trails.history.annotation_kinds import note_counts
    from trails.history.lookup import forest, names

    then = _changes(store, seen)

    def all_sessions() -> dict[str, ForestNode]:
        return _newest_first(store, _as_it_was(forest.read_forest(store.reader), then), then)

    if ref is None:
        nodes = all_sessions()
        listing = _Listing([_strand(nodes, node) for node in nodes.values() if node.status == "stored"])
    else:
        place = names.parse_revision(store.workspace, ref)
        nodes = all_sessions() if forks else _as_it_was(_lineage(store, place.session_id), then)
        listing = _Listing(_transcript(store, nodes, place.session_id, place.end))
        if forks:
            listing.strands += _forked(nodes, place.session_id, place.end)
    for node in nodes.values():
        if node.status == "stored":
            listing.heads[_owner(nodes, node, _end(node) - 1)].append(node.label or node.id)
    _name_places(store, nodes, listing)
    listing.notes = note_counts(store.store)
    return listing


def _name_places(store: Repository, nodes: Mapping[str, ForestNode], listing: _Listing) -> None:
    """Note the tags and refs at the turns that they stand for."""
    named = [(listing.tags, tag.name, tag.session_id, tag.length) for tag in store.tags.list()]
    for found, name, session_id, end in [
        *named,
        *((listing.refs, ref.name, ref.session_id, ref.at) for ref in store.refs.list()),
    ]:
        if session_id in nodes and (length := _end(nodes[session_id]) if end is None else end):
            found[_owner(nodes, nodes[session_id], length - 1)].append(name)


def _lineage(store: Repository, session_id: str) -> dict[str, ForestNode]:
    """Return a session and its ancestors, as `forest.read_forest` gives them; nothing else is read."""
    from trails.history.lookup.forest import ForestNode
    from trails.model import iris

    chain = store.reader.lineage(session_id)
    rows = store.reader.select("own_turns", sessions=[record.id for record in chain])
    last = {iris.session_id(row["session"].value): int(row["last"].value) for row in rows}
    return {
        each.id: ForestNode(
            id=each.id,
            label=each.label,
            parent=each.parent_session_id,
            forked_at=each.forked_at_index,
            last=last.get(each.id),
        )
        for each in chain
    }


def _end(node: ForestNode) -> int:
    """Return how many turns the transcript of a session has."""
    return max(node.forked_at or 0, -1 if node.last is None else node.last + 1)


def _above(nodes: Mapping[str, ForestNode], node: ForestNode) -> Iterator[ForestNode]:
    """Give a session's parent, the parent of that, and so on, as long as they are stored."""
    seen = {node.id}
    while node.parent is not None and node.parent in nodes and node.parent not in seen:
        node = nodes[node.parent]
        seen.add(node.id)
        yield node


def _owner(nodes: Mapping[str, ForestNode], node: ForestNode, index: int) -> tuple[str, int]:
    """Return (owner, index) of the turn at an index of a session's transcript."""
    for above in (node, *_above(nodes, node)):
        if index >= (above.forked_at or 0):
            return above.id, index
    return "", index


def _strand(nodes: Mapping[str, ForestNode], node: ForestNode) -> Strand:

    start = node.forked_at or 0
    above = next(_above(nodes, node), None)
    parent = _owner(nodes, above, start - 1)[0] if start and above else ""
    return Strand(node.id, parent or None, start, _end(node), node.created.removesuffix("Z"))


def _transcript(store: Repository, nodes: Mapping[str, ForestNode], session_id: str, end: int | None) -> list[Strand]:
    """Return the runs of turns that make up a transcript, or the first `end` turns of it."""
    from trails.model import lineage

    found: list[Strand] = []
    for run in lineage.segments(store.reader.lineage(session_id), end):
        last = _end(nodes[run.record.id])
        parent = found[-1].id if found else None
        found.append(Strand(run.record.id, parent, run.start, last if run.end is None else min(run.end, last)))
    return found


def _forked(nodes: Mapping[str, ForestNode], session_id: str, end: int | None) -> list[Strand]:
    """Return what was forked from the first `end` turns of a session, and from that, and so on."""
    found = []
    for node in nodes.values():
        lowest = node.forked_at or 0
        for above in _above(nodes, node):
            if above.id == session_id:
                if node.status == "stored" and (end is None or lowest <= end):
                    found.append(_strand(nodes, node))
                break
            lowest = min(lowest, above.forked_at or 0)
    return found


def _turns(store: Repository, lines: Iterable[LaneLine]) -> dict[tuple[str, int], Turn]:
    """Return the turns that lines are of, by (owner, index): only these are read."""
    wanted: dict[str, list[int]] = defaultdict(list)
    for line in lines:
        if line.strand is not None:
            wanted[line.strand].append(line.index)
    return {
        (owner, turn.index): turn for owner, indices in wanted.items() for turn in store.reader.turns_at(owner, indices)
    }


# --- showing


def _plain(listing: _Listing, line: LaneLine, turns: Mapping[tuple[str, int], Turn]) -> dict[str, Any]:
    """Return a line as plain values, ready for JSON."""
    place = str(line.strand), line.index
    turn = turns[place]
    return {
        "index": turn.index,
        "session": turn.session_id,
        "digest": turn.digest,
        "iri": turn.iri,
        "role": turn.role,
        "author": turn.author,
        "time": turn.time.isoformat() if turn.time else None,
        "text": _first_line(turn),
        "heads": listing.heads.get(place, []),
        "tags": listing.tags.get(place, []),
        "refs": listing.refs.get(place, []),
        "notes": listing.notes.get(turn.digest, 0),
        "quoted_from": turn.quoted_from.model_dump() if turn.quoted_from else None,
        "derived_from": turn.derived_from.model_dump(exclude_none=True) if turn.derived_from else None,
        "lane": line.lane,
    }


def _first_line(turn: Turn) -> str:
    from trails.model import content_parts
    from trails.model.values import CUT

    if turn.redacted:
        return "(redacted)"
    first = next((line for line in content_parts.plain_text(turn.content).splitlines() if line.strip()), "").strip()
    return f"[{CUT}] {first}" if turn.is_cut else first


def _line(listing: _Listing, line: LaneLine, turns: Mapping[tuple[str, int], Turn], *, graph: bool, width: int) -> Text:
    from rich.text import Text

    drawn = line.graph if "utf" in (sys.stdout.encoding or "").lower() else line.plain()
    made = Text().append(f"{drawn} " if graph else "", style="bright_black")
    if line.strand is None:
        made.rstrip()
        made.truncate(width, overflow="ellipsis")
        return made
    place = line.strand, line.index
    turn = turns[place]
    made.append(turn.digest[:8], style="yellow").append(f" {turn.index}", style="bold")
    names = _names(listing, place, turn)
    if names:
        made.append(" (").append_text(Text(", ").join(names)).append(")")
    made.append(f" {clean(turn.role)}", style=cli.view.role_style(turn.role))
    made.append(f" {clean(turn.author)} {cli.view.moment(turn.time)}  ", style="dim")
    made.append(shorten(_first_line(turn), max(_SHORTEST, width - made.cell_len)))
    made.truncate(width, overflow="ellipsis")
    return made


def _names(listing: _Listing, place: tuple[str, int], turn: Turn) -> list[Text]:
    from rich.text import Text

    names = [Text(clean(name), style="bold green") for name in listing.heads.get(place, [])]
    names += [Text(f"tag: {clean(name)}", style="bold yellow") for name in listing.tags.get(place, [])]
    names += [Text(f"ref: {clean(name)}", style="bold cyan") for name in listing.refs.get(place, [])]
    if turn.quoted_from:
        names.append(Text(f"from {clean(turn.quoted_from.session_id)}@{turn.quoted_from.index}", style="magenta"))
    if turn.derived_from:
        at = "" if turn.derived_from.index is None else f"@{turn.derived_from.index}"
        names.append(Text(f"outcome of {clean(turn.derived_from.session_id)}{at}", style="magenta"))
    if noted := listing.notes.get(turn.digest):
        names.append(Text(count(noted, "note"), style="cyan"))
    return names


@cli.command("tree", pager=True, as_of=True)
@click.argument("session", metavar="[SESSION]", required=False)
def tree(session: str | None) -> None:
    """Draw the forest of forks and spawned sessions.

    Without SESSION (an id, an IRI or a label), all trees of the store. Each line gives: @ the index that a fork starts
    at, or "spawned"; label and id; how many turns its transcript has, and how many of them it owns; the first 8 digits
    of its head; its title, else its first prompt. A parent that was deleted or is missing is drawn as such.
    """
    from trails.history.lookup import forest

    with cli.open_store(reading=True) as store:
        top = None if session is None else store.resolve(session)
        grown = forest.build_forest(store.reader, top)
        titles = {} if cli.as_json() else _titles(store, None if top is None else [twig.node.id for twig in grown])
    draw = partial(cli.view.forest, titles=titles)
    cli.answer({"sessions": list(grown)}, grown.trees, draw, empty="the store holds no sessions")


def _titles(store: Repository, session_ids: Sequence[str] | None) -> dict[str, str]:
    """Return by id what sessions are about: some of them, or all."""
    from trails.history.lookup import summaries

    if session_ids is not None:
        found = [summaries.find_summary(store.workspace, each) for each in session_ids]
        return {each.id: each.title or each.first_prompt or "" for each in found if each is not None}
    titles: dict[str, str] = {}
    cursor = None
    while True:
        page = store.summaries(limit=1000, cursor=cursor)
        titles |= {each.id: each.title or each.first_prompt or "" for each in page}
        if (cursor := page.cursor) is None:
            return titles
