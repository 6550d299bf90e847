"""What of a session is too long to be kept, found before it is merged: it costs itself, and not the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trails import validate
from trails.errors import InvalidInput
from trails.model import Compaction
from trails.transcripts import checked
from trails.transcripts.source import SourceSession, SourceTurn


def keepable(session: SourceSession) -> tuple[SourceSession, list[str]]:
    """Return a session without what is too long to be kept, and what to say of that.

    Parsers find what else a store refuses; a turn that they made of several records may be too long only as a whole.
    """
    faults: dict[tuple[str, ...], str] = {}
    for path in session.paths:
        for turn in path:
            if not validate.is_surely_short(_values(turn)) and (reason := checked.fault(turn)) is not None:
                faults[turn.source_ids] = reason
    problems = [f"session {session.id!r}: the turn of {_named(ids)} {_cannot(why)}" for ids, why in faults.items()]
    if faults:
        session = replace(session, paths=tuple(_without(path, faults) for path in session.paths))
    return _beside_turns(session, problems), problems


def _values(turn: SourceTurn) -> list[Any]:
    request = turn.compaction.request if turn.compaction else None
    pieces = [piece.content for piece in turn.pieces]
    return [pieces, turn.meta, turn.usage, turn.tool_calls, turn.source_ids, request]


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"the record {ids[0][:80]!r}{more}" if ids else "a record without an id"


def _cannot(why: str) -> str:
    return f"cannot be kept: {why}"


def _without(path: Sequence[SourceTurn], faults: Mapping[tuple[str, ...], str]) -> tuple[SourceTurn, ...]:
    """Return a path without turns, the indices that its summaries name moved along."""
    gone = [index for index, turn in enumerate(path) if turn.source_ids in faults]
    if not gone:
        return tuple(path)

    def moved(index: int | None) -> int | None:
        return None if index is None else index - sum(place < index for place in gone)

    def through(index: int | None) -> int | None:
        return None if index is None else max(0, index - sum(place <= index for place in gone))

    return tuple(
        replace(turn, compaction=_renumbered(turn.compaction, moved, through))
        for turn in path
        if turn.source_ids not in faults
    )


def _renumbered(
    compaction: Compaction | None,
    moved: Callable[[int | None], int | None],
    through: Callable[[int | None], int | None],
) -> Compaction | None:
    if compaction is None:
        return None
    return compaction.model_copy(
        update={
            "summarised_through": through(compaction.summarised_through),
            "first_kept": moved(compaction.first_kept),
            "summarised_from": moved(compaction.summarised_from),
        }
    )


def _beside_turns(session: SourceSession, problems: list[str]) -> SourceSession:
    """Return a session without a title, a system prompt and metadata that are too long; `problems` is added to."""

    def too_long(what: str, value: Any) -> bool:
        if validate.is_surely_short(value):
            return False
        try:
            validate.to_json(value, what)
        except InvalidInput as error:
            problems.append(f"session {session.id!r}: {_cannot(f'{error}')}")
            return True
        return False

    meta = {key: value for key, value in session.meta.items() if not too_long(f"the metadata {key[:80]!r}", value)}
    title, system = (
        None if too_long(what, value) else value
        for what, value in (("its title", session.title), ("its prompt", session.system))
    )
    return replace(session, meta=meta, title=title, system=system) if problems else session
