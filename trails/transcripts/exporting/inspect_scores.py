"""The scores of a session as an Inspect sample has them: one a scorer, criteria within it, edits with their authors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from trails import iris
from trails.records.scores import Score

_Json = dict[str, Any]


def of_session(scores: Iterable[Score], details: Mapping[str, Any]) -> dict[str, _Json]:
    """Return scores by the scorer's name; `details` is what came with them from a log (answers, metadata), by the same.

    A score that nobody but its scorer gave stands alone; of others all states stand in `history`, the newest last.
    """
    ordered = sorted(scores, key=lambda score: (score.time, score.id))
    names = {score.by for score in ordered if iris.is_agent(score.by_iri) and _is_of(score.name, score.by)}
    groups: dict[str, list[Score]] = {}
    for score in ordered:
        fitting = [name for name in names if _is_of(score.name, name)]
        groups.setdefault(max(fitting, key=len, default=score.name), []).append(score)
    return {name: _score(name, found, details.get(name)) for name, found in groups.items()}


def _is_of(name: str, scorer: str) -> bool:
    return name == scorer or name.startswith(f"{scorer}.")


def _score(name: str, found: Sequence[Score], details: object) -> _Json:
    values: dict[str, Any] = {}
    states: list[_Json] = []
    for (time, by_iri, reason, version), each in groupby(found, key=lambda s: (s.time, s.by_iri, s.reason, s.version)):
        values |= {score.name: score.value for score in each}
        own = by_iri == iris.agent(name)
        told: _Json = {"value": _value(name, values), **({"metadata": {"version": version}} if version else {})}
        if own:
            told |= {"explanation": reason} if reason else {}
        else:
            author = iris.author_name(by_iri)
            author = f"agent:{author}" if iris.is_agent(by_iri) else author
            told["provenance"] = {"timestamp": time.isoformat(), "author": author, "reason": reason}
        states.append(told)
    last = {key: value for key, value in states[-1].items() if key != "provenance"}
    history = states if len(states) > 1 or "provenance" in states[-1] else []
    return {**last, **(details if isinstance(details, dict) else {}), "history": history}


def _value(name: str, values: Mapping[str, Any]) -> Any:
    """Return one value, or those of several criteria by name; a list of them where they are numbered."""
    if values.keys() == {name}:
        return values[name]
    criteria = {key.removeprefix(f"{name}."): value for key, value in values.items()}
    numbered = list(criteria) == [str(place) for place in range(len(criteria))]
    return list(criteria.values()) if numbered else criteria
