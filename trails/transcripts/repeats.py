"""Turns of a session that repeat those of the session that spawned it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trails.model import Turn
from trails.transcripts.accounting import Kept, strings
from trails.transcripts.source import SourceTurn


def are_said_by(turns: Iterable[SourceTurn], stored: Iterable[Turn]) -> bool:
    """Tell whether stored turns have all texts of some turns, in their content or their metadata.

    A program that tells a history again leaves out some of it and tells some in another form.
    """
    kept = Kept()
    kept.add_values([[turn.role, turn.content, turn.meta] for turn in stored])
    return all(kept.has(text) for turn in turns for _, text in strings(turn.content))


def uncounted(turn: SourceTurn) -> SourceTurn:
    """Return a turn that another session's model call made: the usage, which counts there, is kept as metadata."""
    if turn.usage is None and turn.model is None:
        return turn
    usage = {"repeatedUsage": dict(turn.usage)} if turn.usage else {}
    return replace(turn, model=None, usage=None, meta={**turn.meta, **usage})
