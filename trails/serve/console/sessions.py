"""The list of sessions: filters, sorting, search as you type, pages that go on while one scrolls, and rows that stay live."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from trails.errors import InvalidInput
from trails.history.lookup.summaries import Order, Summaries
from trails.rows.session_lists import SORTS, Sort
from trails.serve.access import view_of
from trails.serve.console.rendering import HEADERS, address, page, render, route
from trails.serve.service import Service, service_of
from trails.session.repository import Repository

_ROWS: Final = 60
_HITS: Final = 50
_DAY: Final = timedelta(days=1)
_TEXTS: Final = ("text", "principal", "agent", "model", "label")
_DATES: Final = ("since", "until")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions a page shows, as its address says: texts by filter, dates (until is inclusive), and the order."""

    texts: Mapping[str, str]
    dates: Mapping[str, date]
    sort: Sort = "activity"
    order: Order = "newest"

    def options(self) -> dict[str, Any]:
        """Return what to ask of `Repository.summaries`."""
        since, until = self.dates.get("since"), self.dates.get("until")
        return {
            **self.texts,
            "active_since": None if since is None else _midnight(since),
            "active_until": None if until is None else _midnight(until) + _DAY,
            "sort": self.sort,
            "order": self.order,
        }

    def parameters(self, **others: object) -> dict[str, object]:
        """Return the parameters of an address that wants the same, with others in their place."""
        own: dict[str, object] = {**self.texts, **self.dates}
        own |= {"sort": None if self.sort == "activity" else self.sort}
        own |= {"order": None if self.order == "newest" else self.order}
        return own | others


def parse_wanted(given: Mapping[str, str]) -> Wanted:
    """Return what the parameters of an address ask for; raise `InvalidInput` for what cannot be.

    >>> parse_wanted({"text": " trip ", "agent": "", "since": "2026-01-31"}).parameters()["text"]
    'trip'
    """
    texts = {name: given[name].strip() for name in _TEXTS if given.get(name, "").strip()}
    dates = {name: _date(given[name], name) for name in _DATES if given.get(name)}
    sort, order = given.get("sort") or "activity", given.get("order") or "newest"
    if sort not in SORTS:
        raise InvalidInput(f"sort is one of {', '.join(SORTS)}, not {sort!r}")
    if order not in ("newest", "oldest"):
        raise InvalidInput(f"order is newest or oldest, not {order!r}")
    return Wanted(texts, dates, sort, cast("Order", order))


def _date(text: str, name: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{name} is a date as 2026-01-31, not {text!r:.40}") from error


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _list_of(view: Repository, wanted: Wanted, cursor: str | None) -> Summaries:
    return view.summaries(**wanted.options(), limit=_ROWS, cursor=cursor, fresh=cursor is None)


def _values(wanted: Wanted, found: Summaries, cursor: str | None) -> dict[str, Any]:
    """Return what the templates of the list take."""
    more = None if found.cursor is None else wanted.parameters(cursor=found.cursor)
    sorts = {sort: _sort_link(wanted, sort) for sort in SORTS}
    here = wanted.parameters()
    digest = hashlib.sha256(repr((here, list(found))).encode("utf-8", "replace")).hexdigest()[:16]
    live = None if cursor else address("/sessions/rows", **here, seen=digest)
    return {"wanted": wanted, "found": found, "more": more, "sorts": sorts, "digest": digest, "live": live}


def _sort_link(wanted: Wanted, sort: Sort) -> str:
    turned: Order = "oldest" if sort == wanted.sort and wanted.order == "newest" else "newest"
    return address("/", **wanted.parameters(sort=sort, order=turned))


async def sessions_page(request: Request) -> Response:
    """Show the sessions that the address asks for; for a filter that changes, the table alone."""
    wanted, cursor = parse_wanted(request.query_params), request.query_params.get("cursor")
    found = await service_of(request).run(_list_of, await view_of(request), wanted, cursor)
    values = _values(wanted, found, cursor)
    if request.headers.get("hx-target") == "list":
        pushed = {"hx-push-url": address("/", **wanted.parameters())}
        return HTMLResponse(render("session_list.html", **values), headers=HEADERS | pushed)
    return page(request, "sessions.html", section="sessions", **values)


async def session_rows(request: Request) -> Response:
    """Answer with one page of rows; with nothing if they are those that the caller has (`seen`)."""
    wanted, cursor = parse_wanted(request.query_params), request.query_params.get("cursor")
    found = await service_of(request).run(_list_of, await view_of(request), wanted, cursor)
    values = _values(wanted, found, cursor)
    if request.query_params.get("seen") == values["digest"]:
        return Response(status_code=204, headers=HEADERS)
    if "seen" in request.query_params:
        values["more"] = None  # what comes after the first page stays as it is
    return HTMLResponse(render("session_rows.html", **values), headers=HEADERS)


async def session_figures(request: Request) -> Response:
    """Answer with the figures of all sessions: they take longer than the list, which does not wait for them."""
    view = await view_of(request)

    def figures() -> dict[str, Any]:
        return {"sessions": len(view), "total": view.stats(by="principal").total}

    return HTMLResponse(render("session_figures.html", **await service_of(request).run(figures)), headers=HEADERS)


async def search_page(request: Request) -> Response:
    """Show the turns that hold a text."""
    text = request.query_params.get("text", "").strip()
    options = {name: request.query_params.get(name) or None for name in ("session", "role", "author", "tool", "cursor")}
    found = None
    if text or options["tool"]:
        view = await view_of(request)
        found = await service_of(request).run(view.search, text or None, **options, limit=_HITS, fresh=True)
    values: dict[str, Any] = {"sought": text, "options": options, "found": found}
    if request.headers.get("hx-target") == "hits":
        return HTMLResponse(render("search_hits.html", **values), headers=HEADERS)
    return page(request, "search.html", section="sessions", **values)


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the list and of the search."""
    return [
        route("/", sessions_page),
        route("/sessions/rows", session_rows),
        route("/sessions/figures", session_figures),
        route("/search", search_page),
    ]
