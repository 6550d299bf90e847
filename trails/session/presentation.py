"""Present sessions and answers of queries: a transcript as a sequence, a table and HTML, and an answer in the form
asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, overload

from pyoxigraph import Triple

from trails.display import html
from trails.display.tables import Kind, PlainTable
from trails.display.terminal_text import count
from trails.errors import InvalidInput, TurnNotFound
from trails.history.pending_session import Worktree
from trails.model import content_parts
from trails.model.values import Turn
from trails.rdf.query_files import QueryFile
from trails.store import tsv
from trails.store.contract import QuadStore, Result, Solutions
from trails.usage import counts_of


@overload
def turn_at(turns: Sequence[Turn], index: int, session_id: str) -> Turn: ...
@overload
def turn_at(turns: Sequence[Turn], index: slice, session_id: str) -> tuple[Turn, ...]: ...
@overload
def turn_at(turns: Sequence[Turn], index: int | slice, session_id: str) -> Turn | tuple[Turn, ...]: ...
def turn_at(turns: Sequence[Turn], index: int | slice, session_id: str) -> Turn | tuple[Turn, ...]:
    """Return the turn at an index, or those of a slice; turns that are read when they are asked for are not read before."""
    if isinstance(index, slice):
        if not all(bound is None or type(bound) is int for bound in (index.start, index.stop, index.step)):
            raise InvalidInput(f"a slice of a session's turns has whole numbers, as in session[2:5], not {index!r}")
        if index.step == 0:
            raise InvalidInput("a slice of a session's turns cannot have the step 0")
        return tuple(turns[index])
    if type(index) is not int:
        raise InvalidInput(
            f"a session's turns are asked for by index (session[-1]) or slice (session[:3]), not by {index!r:.60}"
        )
    if not -len(turns) <= index < len(turns):
        has = f"its {len(turns)} turns are 0 to {len(turns) - 1}" if turns else "it has no turns yet"
        raise TurnNotFound(f"session {session_id!r} has no turn {index}: {has}")
    return turns[index]


def has_turn(turns: Sequence[Turn], turn: Turn) -> bool:
    """Tell whether a transcript has a turn: at its index, the same digest, which copies share."""
    return turn.index < len(turns) and turns[turn.index].digest == turn.digest


def catalogue_answer(store: QuadStore, query: QueryFile, bound: str) -> Result:
    """Return the answer of a query of the catalogue with its parameters set: rows as text, which is the quickest to read."""
    if query.folder == "core" or not query.columns:
        return store.query(bound)
    written = store.table(bound)
    if max(map(len, chain.from_iterable(written)), default=0) > tsv.LONGEST:
        return store.query(bound)
    return Solutions(tuple(column.name for column in query.columns), written=written)


def solution_rows(result: Result) -> Solutions:
    """Return the rows of a SELECT; raise `InvalidInput` for the answer of another form."""
    if isinstance(result, Solutions):
        return result
    raise _other(result, "select() takes a SELECT")


def query_answer(result: Result) -> bool:
    """Return the answer of an ASK; raise `InvalidInput` for that of another form."""
    if isinstance(result, bool):
        return result
    raise _other(result, "ask() takes an ASK")


def triple_rows(result: Result) -> list[Triple]:
    """Return the triples of a CONSTRUCT or DESCRIBE; raise `InvalidInput` for the answer of another form."""
    if isinstance(result, list):
        return result
    raise _other(result, "construct() takes a CONSTRUCT or DESCRIBE")


def _other(result: Result, wanted: str) -> InvalidInput:
    if isinstance(result, Solutions):
        return InvalidInput(f"{wanted}, and this query is a SELECT: use store.select()")
    if isinstance(result, bool):
        return InvalidInput(f"{wanted}, and this query is an ASK: use store.ask()")
    return InvalidInput(f"{wanted}, and this query is a CONSTRUCT or DESCRIBE: use store.construct()")


_FIRST: Final = 5
_LAST: Final = 35
_COLUMNS: Final[dict[str, Kind]] = {
    "index": "place", "role": "text", "author": "text", "time": "time", "text": "text", "model": "text",
    "input_tokens": "integer", "output_tokens": "integer", "tools": "names", "session": "text", "digest": "text",
}  # fmt: skip


def turn_table(turns: Iterable[Turn]) -> PlainTable:
    """Return turns as a table, a row a turn; `text` is what a person reads of it, `tools` those that it asks for."""
    return PlainTable(_COLUMNS, [_row(turn) for turn in turns])


def _row(turn: Turn) -> dict[str, Any]:
    counts = counts_of(turn.usage)
    return {
        "index": turn.index,
        "role": turn.role,
        "author": turn.author,
        "time": turn.time,
        "text": None if turn.redacted else content_parts.plain_text(turn.content),
        "model": turn.model,
        "input_tokens": counts.input,
        "output_tokens": counts.output,
        "tools": [call.name for call in turn.tool_calls],
        "session": turn.session_id,
        "digest": turn.digest,
    }


def transcript_html(tree: Worktree) -> str:
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
