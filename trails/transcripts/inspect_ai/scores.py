"""The scores of an Inspect sample: by scorer, by criterion where a scorer judges several, and each edit of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from trails.transcripts import checked
from trails.transcripts.scoring import score_id
from trails.transcripts.source import SourceScore

_UNCHANGED: Final = "UNCHANGED"
"""What an edit says of a field that it leaves as it was."""
_SCORER: Final = "score"
"""What the one score of old logs is called, which names no scorer."""

_Json = Mapping[str, Any]


def given(sample: _Json) -> dict[str, _Json]:
    """Return a sample's scores by the scorer's name."""
    found = sample.get("scores")
    if isinstance(found, dict):
        return {name: score for name, score in found.items() if isinstance(score, dict)}
    old = sample.get("score")
    return {_SCORER: old} if isinstance(old, dict) else {}


def unreadable(sample: _Json) -> int:
    """Return how many of a sample's scores are no objects, and so say nothing of what they are."""
    found, old = sample.get("scores"), sample.get("score")
    if isinstance(found, dict):
        return sum(not isinstance(score, dict) for score in found.values())
    return int(bool(found)) + int(bool(old) and not isinstance(old, dict))


def details(scores: Mapping[str, _Json]) -> dict[str, Any]:
    """Return what scores say beside their value and their reason."""
    told = (
        (name, checked.filled({key: score.get(key) for key in ("answer", "metadata")}))
        for name, score in scores.items()
    )
    return {name: each for name, each in told if each}


def of_sample(session: str, scores: Mapping[str, _Json], times: Mapping[str, datetime | None]) -> Iterator[SourceScore]:
    """Yield the scores of a sample; `times` says when a scorer scored, the name "" when any other did.

    An edited score comes once for each state of it, the newest last; an edit is by its author, for the author's reason.
    """
    for name, score in scores.items():
        when = times.get(name) or times.get("")
        history = score.get("history")
        states: list[_Json] = [each for each in history if isinstance(each, dict)] if isinstance(history, list) else []
        value: Any = None
        for state in states or [score]:
            value = value if state.get("value", _UNCHANGED) == _UNCHANGED else state["value"]
            yield from _of_state(session, name, value, state, when)
        if states and value != score.get("value"):
            yield from _of_state(session, name, score.get("value"), score, when)


def _of_state(session: str, name: str, value: Any, state: _Json, when: datetime | None) -> Iterator[SourceScore]:
    held = state.get("provenance")
    provenance: _Json = held if isinstance(held, dict) else {}
    author = checked.name(provenance.get("author"))
    reason = provenance.get("reason") or state.get("explanation")
    edited = checked.text_time(provenance.get("timestamp"))
    for criterion, each in _parts(name, value):
        yield SourceScore(
            id=score_id("inspect", session, criterion, each, author, edited.isoformat() if edited else None),
            name=criterion,
            value=each,
            by=author or f"agent:{name}",
            reason=reason if isinstance(reason, str) and reason != _UNCHANGED and reason else None,
            time=edited or when,
        )


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{name}.{key}", each) for key, each in value.items())
    elif isinstance(value, list):
        yield from ((f"{name}.{place}", each) for place, each in enumerate(value))
    else:
        yield name, value
