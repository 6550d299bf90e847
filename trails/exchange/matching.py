"""Compare the turns of a source with the turns that a store has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from trails.errors import InvalidInput
from trails.exchange.import_secrets import same_but_redacted
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.exchange.text_coverage import KeptTexts, long_strings
from trails.model import validation
from trails.model.values import Turn
from trails.usage import EXACT, MAX_USAGE


@dataclass(frozen=True, slots=True)
class Match:
    """How far a stored session and a path agree."""

    length: int
    """Turns of the stored session's transcript that the path confirms, those before `offset` included."""
    rest: tuple[SourceTurn, ...]
    """What the path has beyond those turns: whole turns, or the later records of a turn that is there in part."""
    altered: bool
    """Whether the stored session's next turn comes from a record of this path that now says something else."""
    uncounted: int = 0
    """Turns that are there whole, and whose usage the source tells otherwise now, or only now."""
    continued: int = 0
    """Turns that are there in part."""


def match_turns(stored: Sequence[Turn], path: Sequence[SourceTurn], offset: int) -> Match:
    """Compare stored turns from index `offset` on with a path of the source.

    A stored turn is confirmed when one source turn holds all its records and says the same with those alone: what a
    message got from records that came later is then the rest of it, and goes on the end as a turn of its own.
    """
    place = {source_id: (i, turn) for i, turn in enumerate(path) for source_id in turn.source_ids}
    confirmed: set[str] = set()
    counted: dict[int, list[dict[str, Any]]] = {}
    """The usages that the stored parts of a source turn carry: its rest must not count them again."""
    length, reached, altered = offset, -1, False
    for turn in stored[offset:]:
        position, source = place.get(turn.source_ids[0], (-1, None)) if turn.source_ids else (-1, None)
        ids = frozenset(turn.source_ids)
        if source is None or not ids <= frozenset(source.source_ids):
            break
        # a whole turn of the source, between those confirmed and this one, that is not stored
        skipped = any(not confirmed & set(each.source_ids) for each in path[reached + 1 : position])
        if skipped or not _is_same(turn, source.restricted(ids)):
            altered = True
            break
        confirmed |= ids
        counted.setdefault(position, []).append(turn.usage)
        reached = max(reached, position)
        length += 1
    rest, uncounted, continued = [], 0, 0
    for position, source in enumerate(path):
        missing = frozenset(source.source_ids) - confirmed
        if len(missing) == len(source.source_ids):
            rest.append(source)
        elif missing:
            rest.append(rest_of(source.restricted(missing), counted.get(position, [])))
            continued += 1
        elif source.usage and position in counted and any(usage_numbers(usage_beyond(source.usage, counted[position]))):
            uncounted += 1
    return Match(length, tuple(shift_summaries(rest, offset)), altered, uncounted, continued)


def rest_of(turn: SourceTurn, counted: Sequence[dict[str, Any]]) -> SourceTurn:
    """Return the new part of a turn, without usage that is counted already."""
    left = usage_beyond(turn.usage or {}, counted)
    if any(number > 0 for number in usage_numbers(left)) or not any(counted):
        return replace(turn, usage=clamp_usage(left) or None)
    said = {} if turn.stop_reason is None else {"stop_reason": turn.stop_reason}
    return replace(turn, model=None, usage=None, stop_reason=None, call=None, meta=said | dict(turn.meta))


def _is_same(turn: Turn, source: SourceTurn) -> bool:
    if turn.redacted:  # what it said is gone on purpose: its records are known, and that is all that can be compared
        return True
    try:
        text, structured = validation.content(source.content)
    except InvalidInput:
        return False
    return _has_role(turn, source) and turn.structured == structured and same_but_redacted(turn.text, text)


def _has_role(turn: Turn, source: SourceTurn) -> bool:
    """Tell whether roles agree.

    Earlier versions stored error notices of the program with the role `assistant`.
    """
    return turn.role == source.role or (turn.role, source.role) == ("assistant", "error")


def holds_path(stored: Sequence[Turn], path: Sequence[SourceTurn]) -> bool:
    """Tell whether stored turns hold a whole path, in its order."""
    homes = {source_id: turn for turn in stored for source_id in turn.source_ids}
    reached = -1
    for source in path:
        for piece in source.pieces:
            home = homes.get(piece.source_id)
            if home is None or home.index < reached or not _has_role(home, source) or not _contains(home, piece):
                return False
            reached = home.index
    return True


def _contains(home: Turn, piece: Piece) -> bool:
    """Tell whether a stored turn holds the content of one of its records."""
    if home.redacted:
        return True
    content = piece.content if isinstance(piece.content, str) else list(piece.content)
    if len(home.source_ids) == 1:
        return bool(home.content == content)
    run = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = home.content if isinstance(home.content, list) else []
    return any(parts[at : at + len(run)] == run for at in range(len(parts) - len(run) + 1))


def shift_summaries(path: Sequence[SourceTurn], offset: int) -> list[SourceTurn]:
    """Return a path with the indices in its summaries moved by an offset."""

    def moved(index: int) -> int | None:
        return None if index + offset < 0 else index + offset

    return [turn.renumbered(moved, moved) if offset else turn for turn in path]


# --- turns of a session that repeat those of the session that spawned it


def are_repeats_of(turns: Iterable[SourceTurn], stored: Iterable[Turn]) -> bool:
    """Tell whether stored turns hold all texts of some turns.

    A program that tells a history again leaves out some of it and tells some in another form.
    """
    kept = KeptTexts()
    kept.add_values([[turn.role, turn.content, turn.meta] for turn in stored])
    return all(kept.has(text) for turn in turns for _, text in long_strings(turn.content))


def without_usage(turn: SourceTurn) -> SourceTurn:
    """Return a turn whose usage counts elsewhere, with it as metadata."""
    if turn.usage is None and turn.model is None:
        return turn
    usage = {"repeatedUsage": dict(turn.usage)} if turn.usage else {}
    return replace(turn, model=None, usage=None, meta={**turn.meta, **usage})


# --- usage of which a part is counted already


def usage_beyond(usage: Mapping[str, Any], counted: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Subtract from a usage what is counted already; numbers may be negative.

    >>> usage_beyond({"input": 8, "output": 61, "tier": "x"}, [{"input": 8, "output": 14}])
    {'input': 0, 'output': 47, 'tier': 'x'}
    """
    left = dict(usage)
    for each in counted:
        left = {name: _subtract(value, each.get(name)) for name, value in left.items()}
    return left


def _subtract(value: Any, counted: Any) -> Any:
    if isinstance(value, Mapping):
        return usage_beyond(value, [counted] if isinstance(counted, Mapping) else [])
    if not (_is_count(value) and _is_count(counted)):
        return value
    if isinstance(value, int) and isinstance(counted, int):
        return value - counted
    return float(EXACT.subtract(Decimal(str(value)), Decimal(str(counted))))


def _is_count(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MAX_USAGE


def usage_numbers(usage: Mapping[str, Any]) -> Iterator[float]:
    """Yield all numbers of a usage, nested ones too."""
    for value in usage.values():
        if isinstance(value, Mapping):
            yield from usage_numbers(value)
        elif _is_count(value):
            yield value


def clamp_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a usage with 0 for each negative number.

    >>> clamp_usage({"input": -3, "cost": {"total": 0.5}})
    {'input': 0, 'cost': {'total': 0.5}}
    """
    return {
        name: clamp_usage(value) if isinstance(value, Mapping) else max(value, 0) if _is_count(value) else value
        for name, value in usage.items()
    }
