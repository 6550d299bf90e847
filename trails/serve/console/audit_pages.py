"""Pages of the audit: the questions of the catalogue with forms, the verdict of verify, audits, and evidence packs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.exceptions import HTTPException

from trails.audit import audit
from trails.audit.evidence_pack import make_pack, zip_pack
from trails.audit.report import report_facts, report_html, report_title, shown_cell, verdict_word
from trails.display import tables
from trails.display.tables import PlainTable
from trails.history.verification import checkpoints
from trails.integrity.verifier.notes import to_base64
from trails.model import iris
from trails.rdf import query_files
from trails.rdf.query_files import THEMES, Parameter, QueryFile
from trails.rows import query_twins
from trails.serve.access import Forbidden, require, view_of
from trails.serve.console.rendering import address, download, page, route, session_address
from trails.serve.service import Service, service_of
from trails.serve.sparql.turnstile import Busy, Gone, turnstile_of
from trails.store.contract import Result, Solutions, Triples
from trails.store.queries import user_queries
from trails.store.queries.query_pool import NoProcess, QueryLimits

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from trails.audit.report import Report
    from trails.model.values import Finding, VerifyReport
    from trails.session import Repository

MOST_ROWS: Final = 500
"""Rows of an answer on a page; files have all."""
_MOST_FINDINGS: Final = 500
_SUGGESTIONS: Final = 100
_SESSION: Final = "urn:trails:session:"
_TURN: Final = re.compile(r"urn:trails:session:[^/]+/([0-9]{1,12})-[0-9a-f]{16}")
_CSV: Final = "text/csv; charset=utf-8"
_JSON: Final = "application/json"
_INPUTS: Final = {"integer": "number", "time": "text"}
_HINTS: Final = {
    "session": "a session's id or label",
    "turn": "a turn's IRI",
    "principal": "a name",
    "time": "2026-01-31T12:00:00Z",
    "iri": "urn:...",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form, made from a parameter of a query, and what was put in."""

    name: str
    kind: str
    description: str
    is_required: bool
    value: str = ""

    @property
    def input_type(self) -> str:
        """The type of the input: numbers have one of their own."""
        return _INPUTS.get(self.kind, "text")

    @property
    def hint(self) -> str:
        """What stands in the empty input."""
        return _HINTS.get(self.kind, "") or self.kind


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of an answer as it is shown, and the page that it stands for, if any."""

    text: str
    link: str | None = None
    is_number: bool = False


def fields(parameters: Sequence[Parameter], given: Mapping[str, str]) -> list[Field]:
    """Return the fields of a query's form, with what was given.

    >>> [(field.name, field.input_type, field.is_required) for field in fields(query_files.find("influences").parameters, {})]
    [('session', 'text', True), ('index', 'number', True)]
    """
    return [
        Field(each.name, each.kind, each.description, not each.optional, given.get(each.name, ""))
        for each in parameters
    ]


def is_complete(form: Sequence[Field]) -> bool:
    """Tell whether all fields that a query needs are filled in."""
    return all(field.value for field in form if field.is_required)


def cell(value: Any) -> Cell:
    """Return a value of an answer for a page: an IRI of a session or of a turn is a link, a name is plain.

    >>> cell("urn:trails:session:a%20b"), cell("urn:trails:principal:bob").text, cell(3).is_number
    (Cell(text='a b', link='/session?id=a+b', is_number=False), 'bob', True)
    """
    if isinstance(value, str) and value.startswith("urn:trails:"):
        return _linked(value)
    if isinstance(value, datetime):
        return Cell(value.astimezone(UTC).isoformat().replace("+00:00", "Z"))
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return Cell(str(value) if is_number else shown_cell(value), None, is_number)


def _linked(iri: str) -> Cell:
    if iri.startswith(_SESSION):
        session_id = iris.session_id(iri)
        place = _TURN.match(iri)
        index = int(place[1]) if place else None
        return Cell(session_id if index is None else f"{session_id}#{index}", session_address(session_id, index))
    kind, _, rest = iri.removeprefix("urn:trails:").partition(":")
    return Cell(iris.author_name(iri) if kind in ("principal", "agent", "tool") and rest else iri)


def questions() -> dict[str, dict[str, QueryFile]]:
    """Return the queries of the catalogue by theme, then those without one as "everything else"."""
    themes = {theme: query_files.by_theme(theme) for theme in THEMES}
    return themes | {"": {name: query for name, query in query_files.catalogue().items() if not query.theme}}


async def audit_page(request: Request) -> Response:
    """Show what can be asked and checked."""
    view = await view_of(request)
    state = await service_of(request).run(_log_state, view) if view is service_of(request).store else None
    records = await service_of(request).run(_names, view)
    return page(
        request, "audit.html", section="audit", questions=questions(), themes=THEMES, state=state, records=records
    )


def _log_state(view: Repository) -> dict[str, Any]:
    state = checkpoints.log_state(view.store)
    return {"lines": state.size, "root": to_base64(state.root)}


def _names(view: Repository) -> list[tuple[str, str]]:
    return [(record.id, record.label or record.principal) for record in view.list(limit=_SUGGESTIONS)]


async def verify_page(request: Request) -> Response:
    """Show the verdict of verify on a session, or on all of them, with its findings."""
    view = await view_of(request)
    wanted = request.query_params.get("session", "").strip() or None
    report = await service_of(request).run(_verified, view, wanted)
    match request.query_params.get("format"):
        case "json":
            return download(orjson.dumps(report.to_dict(), default=str), _JSON, "verify.json")
        case "csv":
            return download(tables.to_csv(findings_table(report.findings)), _CSV, "verify.csv")
    findings = report.findings[:_MOST_FINDINGS]
    return page(
        request, "audit_verify.html", section="audit", report=report, wanted=wanted, findings=findings,
        left_out=len(report.findings) - len(findings),
    )  # fmt: skip


def findings_table(findings: Sequence[Finding]) -> PlainTable:
    """Return the findings of verify as a table."""
    rows = [
        {"code": each.code, "session": each.session_id, "index": each.index, "message": each.message}
        for each in findings
    ]
    return PlainTable({"code": "text", "session": "text", "index": "place", "message": "text"}, rows)


def _verified(view: Repository, wanted: str | None) -> VerifyReport:
    return view.verify(None if wanted is None else view.resolve(wanted))


async def report_page(request: Request) -> Response:
    """Audit a session or the whole store: as a page, as JSON, or as an evidence pack."""
    require(request, "read")
    view, service = await view_of(request), service_of(request)
    if view is not service.store:
        raise Forbidden("an audit is held against the whole store's log, and you see a part of it; ask an auditor")
    form = await request.form()
    asked = {name: str(form.get(name, "")).strip() for name in ("session", "checkpoint", "keys", "output")}
    report = await service.run(_audited, view, asked)
    match asked["output"]:
        case "json":
            plain = orjson.dumps(report.to_dict(), option=orjson.OPT_INDENT_2)
            return download(plain, _JSON, "audit-report.json")
        case "html":
            return download(report_html(report), "text/html; charset=utf-8", "audit-report.html")
        case "pack":
            packed = await service.run(_packed, view, report, asked["checkpoint"] or None)
            return download(packed, "application/zip", "evidence-pack.zip")
    return page(
        request, "audit_report.html", section="audit", report=report, title=report_title(report),
        facts=report_facts(report), word=verdict_word, asked=asked, cell=cell, most=MOST_ROWS,
    )  # fmt: skip


def _audited(view: Repository, asked: Mapping[str, str]) -> Report:
    checkpoint = asked["checkpoint"].replace("\r\n", "\n") + "\n" if asked["checkpoint"] else None
    keys = [line.strip() for line in asked["keys"].splitlines() if line.strip()]
    return audit(view, asked["session"] or None, checkpoint=checkpoint, verifiers=keys)


def _packed(view: Repository, report: Report, checkpoint: str | None) -> bytes:
    kept = None if checkpoint is None else checkpoint.replace("\r\n", "\n") + "\n"
    return zip_pack(make_pack(view, report, checkpoint=kept), report.time)


class _Questions:
    """Asks the queries of the catalogue, so many at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turnstile = turnstile_of(service)

    async def page(self, request: Request) -> Response:
        """Show a question with its form, and the answer once what it needs is filled in."""
        name = request.path_params["name"]
        query = query_files.catalogue().get(name)
        if query is None:
            raise HTTPException(
                HTTPStatus.NOT_FOUND, f"there is no question {name!r:.80}; the page of the audit lists them"
            )
        given = {key: value.strip() for key, value in request.query_params.items() if value.strip()}
        form = fields(query.parameters, given)
        view = await view_of(request)
        asked = is_complete(form) and (not form or "ask" in request.query_params or any(field.value for field in form))
        answer = await self._answer(request, view, query, form) if asked else None
        records = await self._service.run(_names, view)
        files = {form_name: _file(query, form, form_name) for form_name in ("csv", "json")} if asked else {}
        return page(
            request, "audit_question.html", section="audit", query=query, fields=form, answer=answer, records=records,
            files=files, theme=THEMES.get(query.theme),
        )  # fmt: skip

    async def _answer(
        self, request: Request, view: Repository, query: QueryFile, form: Sequence[Field]
    ) -> dict[str, Any]:
        values = await self._service.run(_values, view, form)
        settings = self._service.settings
        limits = QueryLimits(settings.query_timeout, MOST_ROWS, settings.query_memory)

        def ask(on_begin: Callable[[], object]) -> Result:
            on_begin()
            rows = query_twins.answer(view.workspace.rows.reading, query, values)
            if rows is not None:
                return rows.first(MOST_ROWS)
            return user_queries.answer(view.store, query.bind(**values), limits, is_ours=True)

        try:
            found = await self._turnstile.run(request, ask)
        except (Busy, Gone, NoProcess) as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, error.message) from error
        assert isinstance(found, Solutions | Triples)  # noqa: S101 - no query of the catalogue is an ASK
        table = await self._service.run(found.table)
        return {"columns": list(table.kinds), "rows": list(rows_of(table)), "is_cut": found.truncated}


def rows_of(table: PlainTable) -> Iterator[list[Cell]]:
    """Yield the rows of an answer as cells."""
    for row in table.rows:
        yield [cell(value) for value in row.values()]


def _values(view: Repository, form: Sequence[Field]) -> dict[str, Any]:
    """Return the values of a query's parameters; a session may be named by its label."""
    values: dict[str, Any] = {}
    for field in form:
        if not field.value:
            continue
        if field.kind == "session" and not field.value.startswith("urn:"):
            values[field.name] = view.resolve(field.value)
        elif field.kind == "integer" and field.value.isascii() and field.value.isdecimal():
            values[field.name] = int(field.value)
        else:
            values[field.name] = field.value
    return values


def _file(query: QueryFile, form: Sequence[Field], form_name: str) -> str:
    return address(f"/queries/{query.name}", **{field.name: field.value or None for field in form}, format=form_name)


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the audit."""
    return [
        route("/audit", audit_page),
        route("/audit/verify", verify_page),
        route("/audit/report", report_page, methods=("POST",)),
        route("/audit/questions/{name}", _Questions(service).page),
    ]
