"""A session in a notebook: its transcript, cut sensibly, and as a table of turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from trails import html, parts
from trails.legible import count
from trails.model import Turn
from trails.plumbing.worktree import Worktree
from trails.tables import Kind, PlainTable
from trails.usage import counts_of

_FIRST: Final = 5
_LAST: Final = 35
_COLUMNS: Final[dict[str, Kind]] = {
    "index": "place",
    "role": "text",
    "author": "text",
    "time": "time",
    "text": "text",
    "model": "text",
    "input_tokens": "integer",
    "output_tokens": "integer",
    "tools": "names",
    "session": "text",
    "digest": "text",
}


def table(turns: Iterable[Turn]) -> PlainTable:
    """Return turns as a table, a row a turn; `text` is what a person reads of it, `tools` those that it asks for."""
    return PlainTable(_COLUMNS, [_row(turn) for turn in turns])


def _row(turn: Turn) -> dict[str, Any]:
    counts = counts_of(turn.usage)
    return {
        "index": turn.index,
        "role": turn.role,
        "author": turn.author,
        "time": turn.time,
        "text": None if turn.redacted else parts.plain_text(turn.content),
        "model": turn.model,
        "input_tokens": counts.input,
        "output_tokens": counts.output,
        "tools": [call.name for call in turn.tool_calls],
        "session": turn.session_id,
        "digest": turn.digest,
    }


def transcript(tree: Worktree) -> str:
    """Return a transcript as HTML: its first 5 and last 35 turns, with the fork point between what is inherited and its own.

    No other turn is read.
    """
    record = tree.record
    turns = len(tree.turns)
    told = {
        "branch": record.branch,
        "forked from": None
        if record.parent_session_id is None
        else f"{record.parent_session_id} at {record.forked_at_index}",
        "turns": f"{turns:,}" + (f", {tree.pending} not persisted" if tree.pending else ""),
        "principal": record.principal,
        "agent": record.agent,
        **record.meta,
    }
    name = html.inline(f"{record.label} ({record.id})" if record.label else record.id)
    return html.box(f"session {name}", [html.facts(told), *_turns(tree)])


def _turns(tree: Worktree) -> Iterator[str]:
    total = len(tree.turns)
    hidden = max(0, total - _FIRST - _LAST)
    first = min(_FIRST, total) if hidden else total
    for index in chain(range(first), range(first + hidden, total)):
        if hidden and index == first + hidden:
            yield html.note(f"{count(hidden, 'turn')} not shown")
        turn = tree.turns[index]
        if 0 < tree.record.starts_at == index:
            yield html.note(f"forked here: the turns above are those of {tree.record.parent_session_id}")
        yield turn.as_html(faint=turn.session_id != tree.record.id)
