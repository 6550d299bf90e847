"""Pages of branches side by side: two with the words that differ, or a first one with several others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException

from trails.compare.diff_documents import count_rows, diff_summary, document
from trails.compare.session_diff import Block, block_place, block_title, blocks_of, readable_blocks, runs_of
from trails.compare.text_diff import Span
from trails.serve.access import view_of
from trails.serve.console.rendering import download, page, route, whole_number
from trails.serve.service import Service, service_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from trails.compare import Diff, Entry
    from trails.model.values import SessionRecord
    from trails.session import Repository

MOST_RUNS: Final = 150
"""Turns, or runs of equal ones, on one page."""
MOST_ROWS: Final = 60
"""Rows of several branches on one page."""
MOST_BRANCHES: Final = 8
"""Branches side by side; more of them are a table of figures."""
MOST_TEXT: Final = 4_000
"""Characters of an equal text that are shown."""
_SUGGESTIONS: Final = 200
_PATCH: Final = "text/x-diff; charset=utf-8"
_WORDS: Final = {"equal": "", "changed": "changed", "left": "only left", "right": "only right"}


@dataclass(frozen=True, slots=True)
class Row:
    """A turn of the first of several branches, or a place between two of its turns, and what each branch has there."""

    index: int | None
    """The turn's index; None for turns that the first branch has not."""
    cells: tuple[tuple[Entry, ...], ...]
    """What each other branch has there."""

    @property
    def is_equal(self) -> bool:
        """Tell whether all branches say the same there."""
        return all(entry.kind == "equal" for cell in self.cells for entry in cell)


def aligned(diffs: Sequence[Diff]) -> list[Row]:
    """Return the rows of several branches beside one: each diff has that one as its left side.

    A turn that a branch shares with the first, and that others have no more, has no entry in the cell of that branch.
    """
    places: dict[tuple[int, int], dict[int, list[Entry]]] = {}
    for column, diff in enumerate(diffs):
        last, behind = diff.common - 1, 0
        for entry in diff.entries:
            last, behind = (entry.left.index, 0) if entry.left is not None else (last, behind + 1)
            places.setdefault((last, behind), {}).setdefault(column, []).append(entry)
    return [
        Row(None if place[1] else place[0], tuple(tuple(cells.get(column, ())) for column in range(len(diffs))))
        for place, cells in sorted(places.items())
    ]


async def compare_page(request: Request) -> Response:
    """Show two sessions side by side, several of them beside the first, or a form that asks which."""
    chosen = [name for name in request.query_params.getlist("of") if name.strip()]
    sides = [request.query_params.get(side, "").strip() for side in ("left", "right")]
    if len(chosen) > 1 and not any(sides):
        sides = chosen if len(chosen) == 2 else []
    if len(sides) == 2 and all(sides):
        return await _two(request, *sides)
    return await _many(request, chosen) if len(chosen) > 2 else await _ask(request, sides)


async def _ask(request: Request, sides: Sequence[str]) -> Response:
    view = await view_of(request)
    families = await service_of(request).run(_families, view)
    return page(
        request,
        "compare_form.html",
        section="compare",
        left=(sides or [""])[0],
        right=(sides or ["", ""])[-1],
        **families,
    )


def _families(view: Repository) -> dict[str, Any]:
    """Return the newest sessions, and of the forks among them the places where they were made."""
    records = list(islice(view.list(limit=_SUGGESTIONS), _SUGGESTIONS))
    forks: dict[tuple[str, int], list[SessionRecord]] = {}
    for record in records:
        if record.parent_session_id is not None and record.forked_at_index is not None:
            forks.setdefault((record.parent_session_id, record.forked_at_index), []).append(record)
    return {"records": records, "forks": forks}


async def _two(request: Request, left: str, right: str) -> Response:
    view = await view_of(request)
    form = request.query_params.get("format", "")
    diff = await service_of(request).run(view.diff, left, right)
    if form == "patch":
        return download(document(diff, "patch"), _PATCH, "comparison.diff")
    start = whole_number(request, "start")
    everything = "all" in request.query_params
    shown = await service_of(request).run(_page_of_runs, diff, start, everything=everything)
    facts: dict[str, Any] = {
        "summary": diff_summary(diff),
        "counts": count_rows(diff),
        "titles": [block_title(diff.left), block_title(diff.right)],
    }
    return page(
        request, "compare_two.html", section="compare", diff=diff, left=left, right=right, everything=everything, start=start,
        place=block_place, words=_WORDS, most=MOST_TEXT, **(shown | facts)
    )  # fmt: skip


def _page_of_runs(diff: Diff, start: int, *, everything: bool) -> dict[str, Any]:
    """Return a page of a diff's turns with their blocks; a number stands for equal turns that are far from a difference."""
    runs = [(entry,) for entry in diff.entries] if everything else list(runs_of(diff.entries))
    some = runs[start : start + MOST_RUNS]
    shown = [run if isinstance(run, int) else (run[0], blocks_of(run[0])) for run in some]
    return {"runs": shown, "more": start + MOST_RUNS if start + MOST_RUNS < len(runs) else None, "total": len(runs)}


async def _many(request: Request, names: Sequence[str]) -> Response:
    if len(names) > MOST_BRANCHES:
        raise HTTPException(
            400, f"up to {MOST_BRANCHES} branches fit side by side, and {len(names)} were chosen; choose fewer of them"
        )
    view = await view_of(request)
    start, everything = whole_number(request, "start"), "all" in request.query_params
    beside = await service_of(request).run(_beside, view, names, start, everything=everything)
    return page(
        request,
        "compare_many.html",
        section="compare",
        names=names,
        start=start,
        everything=everything,
        most=MOST_TEXT,
        **beside,
    )


def _beside(view: Repository, names: Sequence[str], start: int, *, everything: bool) -> dict[str, Any]:
    """Return a page of the rows of several sessions beside the first of them."""
    first = view.load(names[0], last=0)
    diffs = [view.diff(names[0], name) for name in names[1:]]
    rows = aligned(diffs)
    common = min(diff.common for diff in diffs)
    kept = [row for row in rows if everything or not row.is_equal]
    some = kept[start : start + MOST_ROWS]
    return {
        "common": common,
        "hidden": len(rows) - len(kept),
        "rows": [_cells(row, first) for row in some],
        "ends": [diffs[0].left, *(diff.right for diff in diffs)],
        "more": start + MOST_ROWS if start + MOST_ROWS < len(kept) else None,
        "title": block_title,
    }


def _cells(row: Row, first: Any) -> Mapping[str, Any]:
    """Return the cells of a row: what the first branch says, and of each other one the blocks with what differs."""
    turn = None if row.index is None else first[row.index]
    others = [[(entry, blocks_of(entry)) for entry in cell] for cell in row.cells]
    own = () if turn is None else (Block("", (Span("equal", readable_blocks(turn)),)),)
    return {"turn": turn, "role": turn.role if turn else "", "first": own, "others": others, "index": row.index}


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of branches side by side."""
    return [route("/compare", compare_page)]
