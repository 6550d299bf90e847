"""What is answered at `/sparql`, `/graphs` and `/queries`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus
from weakref import WeakKeyDictionary

import orjson
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from trails.errors import InvalidInput, QueryEnded, TrailsError
from trails.rdf import query_files
from trails.rdf.query_files import QueryFile
from trails.serve import problems
from trails.serve.access import remember_sent, require, view_of
from trails.serve.service import Service
from trails.serve.sparql import answers, description, negotiation, protocol
from trails.serve.sparql.answers import IN_MEMORY, LimitExceeded, Question, TimeExceeded, Written
from trails.serve.sparql.negotiation import ROWS, TRIPLES
from trails.serve.sparql.outbox import Outbox
from trails.serve.sparql.turnstile import Busy, Gone, turnstile_of
from trails.store.dataset_description import Counts, counts_of
from trails.store.queries.query_pool import NoProcess
from trails.store.queries.written_answers import Formats

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from trails.session.repository import Repository
    from trails.store.contract import QuadStore

Handler = Callable[["Request"], Awaitable[Response]]

_ALL_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_READ_ONLY: Final = (
    "graphs are only read here: the log of the store is the truth, and sessions are written through the API"
)
_RETRY: Final = {"Retry-After": "2"}
_ENDED: Final = "the query was ended: its process went away, or the store is being closed or vacuumed; ask again"
_WELL_KNOWN: Final = "/.well-known/void"
_FIGURES_PATIENCE: Final = 2.0
"""Seconds for the figures of the service description, which goes without them where they take longer."""


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the endpoint, of the graphs and of the catalogue."""
    endpoint = _Endpoint(service)
    origins = service.settings.allowed_origins
    elsewhere = [Middleware(CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"])]
    answers = {
        "/sparql": _answering(endpoint.sparql, "GET", "HEAD", "POST"),
        _WELL_KNOWN: _answering(endpoint.void, "GET", "HEAD"),
        "/graphs": _answering(endpoint.graph, "GET", "HEAD", refusal=_READ_ONLY),
        "/queries": _answering(endpoint.catalogue, "GET", "HEAD"),
        "/queries/{name}": _answering(endpoint.of_catalogue, "GET", "HEAD"),
    }
    middleware = elsewhere if origins else []
    return [Route(path, answer, methods=_ALL_METHODS, middleware=middleware) for path, answer in answers.items()]


class _Endpoint:
    """Answers requests; each query waits for its turn."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turnstile = turnstile_of(service)
        self._outbox = Outbox(service)
        self._figures: WeakKeyDictionary[QuadStore, tuple[int, Counts]] = WeakKeyDictionary()

    async def sparql(self, request: Request) -> Response:
        """Answer a query; without one, describe the endpoint."""
        require(request, "read")
        body = await _body(request) if request.method == "POST" else b""
        query = protocol.query(request.method, request.url.query, request.headers.get("content-type", ""), body)
        if query is None:
            return await self._description(request)
        request.scope["trails.query"] = query.text  # of which the register of reads keeps a digest
        formats = _formats(request, query.format)
        base = str(request.url.replace(query=""))
        return await self._answer(
            request, Question(query.text, formats, query.graphs, base=base, seconds=query.seconds)
        )

    async def graph(self, request: Request) -> Response:
        """Answer with the triples of one graph, as SPARQL 1.1 Graph Store HTTP Protocol has it."""
        require(request, "read")
        asked = protocol.parameters(request.url.query)
        name = protocol.one(asked, "graph")
        if (name is None) == ("default" not in asked):
            raise HTTPException(
                400, "say which graph: `?graph=IRI` is one session's, `?default` the catalog of sessions"
            )
        formats = (None, _formats(request, protocol.format_name(asked), (), TRIPLES)[1])
        graphs = None if name is None else ([protocol.graph(name, "graph")], ())
        text = query_files.find("graph").bind()
        question = Question(text, formats, graphs, union=False, seconds=protocol.seconds(asked), is_ours=True)
        ask = partial(answers.of_graph, await view_of(request), question, self._service.settings)
        found = await self._turnstile.run(request, ask)
        if found is None:
            raise HTTPException(404, f"there is no graph <{name}>, or you may not see it")
        return self._response(request, found)

    async def catalogue(self, request: Request) -> Response:
        """List the queries of the catalogue."""
        require(request, "read")
        listed = [_told(query) for query in query_files.catalogue().values()]
        return Response(orjson.dumps({"queries": listed}), media_type="application/json")

    async def of_catalogue(self, request: Request) -> Response:
        """Answer a query of the catalogue; or give its text to whoever accepts that alone."""
        require(request, "read")
        query = query_files.catalogue().get(request.path_params["name"])
        if query is None:
            raise HTTPException(404, f"there is no query {request.path_params['name']!r:.80}; `/queries` lists them")
        if request.headers.get("accept") == protocol.QUERY:
            return Response(query.text, media_type=protocol.QUERY)
        asked = protocol.parameters(request.url.query)
        formats, seconds = _formats(request, protocol.format_name(asked)), protocol.seconds(asked)
        values = {name: given for name, given in asked.items() if name not in ("format", "timeout")}
        text = query.bind(**_bound(query, values))
        return await self._answer(request, Question(text, formats, union=False, seconds=seconds, is_ours=True))

    async def _description(self, request: Request) -> Response:
        media_type = _formats(request, protocol.format_name(protocol.parameters(request.url.query)), (), TRIPLES)[1]
        assert media_type is not None  # noqa: S101 - there is no other form
        figures = await self._figures_of(request, await view_of(request))
        endpoint = str(request.url.replace(query=""))
        return Response(
            description.described(endpoint, figures, media_type),
            headers={"Content-Type": _with_charset(media_type), "Vary": "Accept"},
        )

    async def _figures_of(self, request: Request, view: Repository) -> Counts | None:
        """Return how much a view holds, counted once for each commit.

        None where that takes too long; without classes and properties where these do.
        """
        number, figures = self._figures.get(view.store, (-1, None))
        if number == (now := view.store.number):
            return figures
        (totals,) = await self._rows_of(request, view, "void") or (None,)
        if totals is None:
            return None
        figures = counts_of(totals, await self._rows_of(request, view, "void_partitions") or ())
        self._figures[view.store] = now, figures
        return figures

    async def _rows_of(self, request: Request, view: Repository, name: str) -> list[dict[str, Any]] | None:
        text = query_files.find(name).bind()
        count = partial(answers.figures, view, text, self._service.settings, _FIGURES_PATIENCE)
        try:
            return await self._turnstile.run(request, count)
        except (QueryEnded, NoProcess, Busy):
            return None

    async def void(self, request: Request) -> Response:
        """Lead to the description, as VoID has it (https://www.w3.org/TR/void/, 7.2)."""
        require(request, "read")
        return RedirectResponse(request.url.path.removesuffix(_WELL_KNOWN) + "/sparql", 303)

    async def _answer(self, request: Request, question: Question) -> Response:
        return self._response(request, await self._written(request, question))

    async def _written(self, request: Request, question: Question) -> Written:
        view = await view_of(request)
        ask = partial(answers.written, view, question, self._service.settings)
        found = await self._turnstile.run(request, ask)
        if found.media_type is None:
            found.file.close()
            raise HTTPException(406, _not_acceptable(TRIPLES if question.formats[1] is None else ROWS))
        return found

    def _response(self, request: Request, found: Written) -> Response:
        assert found.media_type is not None  # noqa: S101 - it was looked at before
        headers = {"Content-Type": _with_charset(found.media_type), "Vary": "Accept", "Content-Length": str(found.size)}
        if request.method == "HEAD":
            found.file.close()
            return Response(headers=headers)
        if found.size <= IN_MEMORY:
            with found.file as file:
                return Response(file.read(), headers=headers)
        return self._outbox.response(found, headers)


def _answering(handler: Handler, *methods: str, refusal: str = "") -> Handler:
    """Return a handler that answers other methods, and what is raised within, with what the client can do about it."""
    allowed = {"Allow": ", ".join((*methods, "OPTIONS"))}

    async def answer(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allowed)
        if request.method not in methods:
            return _refused(
                405, "MethodNotAllowed", refusal or f"{request.method} is not offered here", headers=allowed
            )
        try:
            return await handler(request)
        except Gone:
            return Response(status_code=499)  # nobody reads it
        except (Busy, NoProcess, QueryEnded, InvalidInput) as error:
            return _refusal(error)

    return answer


def _refusal(error: TrailsError) -> Response:
    """Return the answer for a query that is malformed, took too much, was ended, or has no place; it names the limit."""
    title = type(error).__name__
    if isinstance(error, InvalidInput):  # a query that is malformed is a 400 (SPARQL 1.1 Protocol, 2.1.6)
        return _refused(400, title, error.message, page=error.page)
    if isinstance(error, LimitExceeded):  # it is the same again when it is asked again
        return _refused(422, title, error.message, page=error.page, limit=error.limit, allowed=error.allowed)
    if isinstance(error, TimeExceeded):
        return _refused(503, title, error.message, page=error.page, limit=error.limit, allowed=error.allowed)
    if isinstance(error, Busy):
        return _refused(503, title, error.message, page=error.page, headers=_RETRY)
    return _refused(503, title, _ENDED, page=error.page, headers=_RETRY)  # its own text names the store's folder


def _refused(
    status: int,
    title: str,
    detail: str,
    *,
    page: str = TrailsError.page,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Response:
    response = problems.problem(status, title, detail, kind=f"urn:trails:guide:{page}", **fields)
    response.headers.update(headers or {})
    return response


async def _body(request: Request) -> bytes:
    """Return the body of a request; raise `HTTPException` where it is longer than a query is."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > protocol.MAX_BODY:
            detail = f"the body has more than {protocol.MAX_BODY:,} bytes; a query has up to 65,536"
            raise HTTPException(413, detail, headers={"Connection": "close"})
    remember_sent(request, unquote_plus(body.decode("utf-8", "replace")) + "\n" + body.decode("utf-8", "replace"))
    return bytes(body)


def _formats(
    request: Request,
    name: str | None,
    rows: Sequence[negotiation.Format] = ROWS,
    triples: Sequence[negotiation.Format] = TRIPLES,
) -> Formats:
    """Return the media types in which an answer may be given; raise `HTTPException` where there is none."""
    accept = ",".join(request.headers.getlist("accept"))
    found = tuple(negotiation.chosen(accept, each, name) if each else None for each in (rows, triples))
    if found == (None, None):
        raise HTTPException(406, _not_acceptable((*rows, *triples)))
    return found[0], found[1]


def _not_acceptable(formats: Sequence[negotiation.Format]) -> str:
    return f"the answer can be had as {negotiation.offered(formats)}: ask for one of them in Accept, or by format="


def _with_charset(media_type: str) -> str:
    return f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type


def _bound(query: QueryFile, given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the values of parameters by name, numbers as such."""
    numbers = {each.name for each in query.parameters if each.kind == "integer"}
    return {
        name: [int(each) if name in numbers and each.isascii() and each.isdecimal() else each for each in values]
        for name, values in given.items()
    }


def _told(query: QueryFile) -> dict[str, Any]:
    """Return what the list says of a query."""
    return {
        "name": query.name,
        "href": f"/queries/{query.name}",
        "folder": query.folder,
        "theme": query.theme or None,
        "purpose": query.purpose,
        "about": query.about or None,
        "parameters": [
            {"name": each.name, "kind": each.kind, "optional": each.optional, "description": each.description}
            for each in query.parameters
        ],
        "columns": [{"name": each.name, "kind": each.kind, "description": each.description} for each in query.columns],
    }
