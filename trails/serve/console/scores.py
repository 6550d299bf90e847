"""Pages of scores, and of the figures of branches: as tables, as pictures, and as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.exceptions import HTTPException

from trails.compare.comparison import META, SCORE, Scored, scorer_name
from trails.display import tables
from trails.display.tables import NUMERIC, PlainTable
from trails.errors import InvalidInput
from trails.serve.access import view_of
from trails.serve.console.plots import Bar, Plot, bars, strips
from trails.serve.console.rendering import download, page, route, whole_number
from trails.serve.service import Service, service_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from trails.compare.comparison import Comparison
    from trails.rdf.score_records import Score
    from trails.session import Repository

MOST_SCORES: Final = 200
"""Scores on one page."""
MOST_BRANCHES: Final = 300
"""Branches in the table of a page; files have all."""
_CSV: Final = "text/csv; charset=utf-8"
_JSON: Final = "application/json"
_GROUPABLE: Final = NUMERIC | {"text", "boolean", "names"}
_FIRST: Final = ("turns", "own_turns", "tokens", "cost", "tool_calls", "models")
"""Columns of figures that a page shows unless others are chosen; then metadata, scores and the last answer."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The scores of one name: numbers as strips of each scorer, texts and truth values as bars of each."""

    name: str
    numbers: Plot | None
    bars: Mapping[str, Sequence[Bar]]


def pictures(scores: Iterable[Score]) -> list[Picture]:
    """Return a picture for each name that scores have, in order."""
    by_name: dict[str, dict[str, list[Score]]] = {}
    for score in scores:
        by_name.setdefault(score.name, {}).setdefault(scorer(score), []).append(score)
    return [_picture(name, dict(sorted(scorers.items()))) for name, scorers in sorted(by_name.items())]


def _picture(name: str, scorers: Mapping[str, Sequence[Score]]) -> Picture:
    numbers = {
        each: [float(score.value) for score in given if not isinstance(score.value, bool | str)]
        for each, given in scorers.items()
    }
    words = {
        each: bars(tables.text(score.value, tables.kind_of([score.value])) for score in rest)
        for each, given in scorers.items()
        if (rest := [score for score in given if isinstance(score.value, bool | str)])
    }
    return Picture(name, strips(numbers), words)


def scorer(score: Score) -> str:
    """Return who scored, and in which version: `agent:grader/2`."""
    return scorer_name(Scored(score.name, score.by_iri, score.version))


async def scores_page(request: Request) -> Response:
    """Show the scores of the store: by name and scorer as pictures, each in a table, all of it as CSV or JSON."""
    view = await view_of(request)
    asked = {name: request.query_params.get(name, "").strip() for name in ("of", "name", "by")}
    found = await service_of(request).run(
        view.scores, asked["of"] or None, asked["name"] or None, by=asked["by"] or None
    )
    match request.query_params.get("format"):
        case "csv":
            return download(await service_of(request).run(tables.to_csv, found.table()), _CSV, "scores.csv")
        case "json":
            plain = await service_of(request).run(orjson.dumps, [score.to_dict() for score in found])
            return download(plain, _JSON, "scores.json")
    start = whole_number(request, "start")
    shown = await service_of(request).run(pictures, found)
    agreed = await service_of(request).run(_agreement, view, found, asked["name"])
    ordered = sorted(found, key=lambda score: score.time, reverse=True)
    return page(
        request, "scores.html", section="scores", asked=asked, pictures=shown, agreement=agreed, start=start,
        scores=ordered[start : start + MOST_SCORES], total=len(found), scorer=scorer,
        more=start + MOST_SCORES if start + MOST_SCORES < len(found) else None,
    )  # fmt: skip


def _agreement(view: Repository, scores: Sequence[Score], name: str) -> list[str]:
    """Return in words how far two scorers agree; nothing unless just two gave scores of one name."""
    scorers = sorted({score.by_iri for score in scores})
    if not name or len(scorers) != 2:
        return []
    try:
        return view.agreement(name, *scorers).sentences()
    except InvalidInput:  # they scored too few of the same
        return []


async def branches_page(request: Request) -> Response:
    """Show the figures of a session and all its forks, or of several: a row a branch, a picture, groups, and files."""
    query = request.query_params
    roots = [name for name in query.getlist("of") if name.strip()]
    if not roots:
        raise HTTPException(400, "name the session whose branches are to be shown: /branches?of=SESSION")
    at = whole_number(request, "at") if query.get("at") else None
    group_by = [name for name in query.getlist("group_by") if name]
    view = await view_of(request)
    known = await service_of(request).run(view.compare, roots[0] if len(roots) == 1 else roots, at=at)
    found = known.arranged(
        group_by=group_by or None,
        sort_by=query.get("sort_by") or None,
        descending=query.get("order") == "descending",
    )
    if (form := query.get("format")) in ("csv", "json"):
        content = found.to_csv(groups="groups" in query and bool(group_by)) if form == "csv" else found.to_json()
        return download(content, _CSV if form == "csv" else _JSON, f"branches.{form}")
    chosen = [name for name in query.getlist("column") if name]
    facts = await service_of(request).run(branch_figures, found, chosen, query.get("plot") or None)
    sides = (query.get("left", ""), query.get("right", ""))
    tested = await service_of(request).run(_test, found, facts["column"], *sides)
    facts |= {"tested": tested, "sides": sides}
    return page(
        request, "branches.html", section="compare", roots=roots, at=at, group_by=group_by, query=query, **facts
    )


def branch_figures(found: Comparison, chosen: Sequence[str], drawn: str | None) -> dict[str, Any]:
    """Return what the page of branches shows: a table of the columns chosen, a picture of one, and the groups.

    Raises `InvalidInput` for a column that is not known.
    """
    every = found.showing(tuple(found.kinds)).table()
    columns = found.known(chosen) if chosen else usual_columns(every)
    numeric = [name for name, kind in found.kinds.items() if kind in NUMERIC and name != "fork_index"]
    column = drawn or next(iter([*(name for name in numeric if name.startswith(SCORE)), "tokens"]))
    found.known([column])
    names = ["session", *(name for name in columns if name != "session")]
    by_name: dict[str, list[Any]] = {}
    for group in found.groups:
        by_name.setdefault(group.name, []).extend(row[column] for row in group.rows)
    return {
        "found": found,
        "kinds": found.kinds,
        "cells": [
            [(name, tables.text(row[name], found.kinds[name])) for name in names] for row in every.rows[:MOST_BRANCHES]
        ],
        "columns": names,
        "left_out": max(0, len(every.rows) - MOST_BRANCHES),
        "numeric": numeric,
        "right": NUMERIC,
        "column": column,
        "plot": strips(_floats(by_name or {"all branches": every.column(column)})),
        "groups": list(by_name),
        "groupable": [name for name, kind in found.kinds.items() if kind in _GROUPABLE],
    }


def usual_columns(every: PlainTable) -> tuple[str, ...]:
    """Return the columns that a page shows unless others are chosen: those in which some branch has something."""
    filled = {name for name in every.kinds if any(cell not in (None, [], {}) for cell in every.column(name))}
    extra = [name for name in every.kinds if name.startswith((META, SCORE))]
    return tuple(name for name in ("label", *_FIRST, *extra, "last_answer") if name in filled)


def _test(found: Comparison, column: str, left: str, right: str) -> list[str]:
    """Return in words whether two groups differ in a column; nothing unless two groups are named."""
    if not left or not right or not found.groups:
        return []
    return found.test(column, left, right).sentences()


def _floats(groups: Mapping[str, Sequence[Any]]) -> dict[str, list[float | None]]:
    return {name: [None if cell is None else float(cell) for cell in cells] for name, cells in groups.items()}


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of scores and of the figures of branches."""
    return [route("/scores", scores_page), route("/branches", branches_page)]
