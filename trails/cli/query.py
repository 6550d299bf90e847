"""Commands that ask the store: query, queries."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from trails.cli import columns
from trails.cli.base import (
    Named,
    answer,
    as_of_option,
    command,
    end,
    first_of,
    json_option,
    left_out,
    limit_option,
    note,
    one_format,
    open_store,
    pairs,
    read_stdin,
    read_text,
    refuse,
)
from trails.cli.columns import Column
from trails.cli.terminal import count

if TYPE_CHECKING:
    from trails import Repository
    from trails.queries import QueryFile
    from trails.store.contract import Result

_FORMATS = click.Choice(["table", "json", "csv", "tsv", "turtle", "ntriples"])


@command("query", pager=True)
@click.argument("query", metavar="QUERY")
@click.option(
    "-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter's value; again for a list."
)
@click.option("--format", "format_", type=_FORMATS, help="How to print the result; default: a table for people.")
@click.option("--timeout", type=float, metavar="SECONDS", help="End the query after so many seconds; default: 300.")
@click.option("--max-rows", type=int, metavar="N", help="Print so many rows at most, and say when there are more.")
@click.option("--csv-safe", is_flag=True, help="Put ' before texts of CSV that a spreadsheet takes for formulas.")
@as_of_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def query(  # noqa: PLR0917 - click gives them by name
    query: str,
    params: tuple[str, ...],
    format_: str,
    timeout: float | None,
    max_rows: int | None,
    csv_safe: bool,
    as_json: bool,
) -> None:
    """Ask a SPARQL query.

    QUERY is the name of a ready-made query (`trails queries` lists them), a file ending in .rq, the query itself, or
    "-" for stdin. The prefixes trails, prov, rdf, rdfs and xsd are declared already. A session's parameter may be an
    id, an IRI or a label. json, csv and tsv are the SPARQL 1.1 result formats; a CONSTRUCT is printed as turtle,
    ntriples or JSON-LD. ASK prints true or false, and the exit code of false is 1; no rows are an answer, with 0. The table
    shortens IRIs and cuts long values; the other formats do not.
    """
    from trails.cli import results

    form = one_format(format_, as_json=as_json) or "table"
    if csv_safe and form != "csv":
        refuse("--csv-safe goes with --format csv")
    with open_store(reading=True) as store:
        result = _ask(store, query, _grouped(params), {"timeout": timeout, "max_rows": max_rows})
    is_cut = getattr(result, "truncated", False)
    if form == "table" and not isinstance(result, bool | list):
        from trails.cli import render

        if result:
            render.screen().print(results.table(result))
    else:
        sys.stdout.write(results.write(result, form, csv_safe=csv_safe))
    if is_cut:
        note(f"first {count(max_rows or 0, 'row')}, there are more")
    elif form == "table" and not isinstance(result, bool | list):
        note(count(len(result), "row"))
    if result is False:
        end(1)


def _grouped(params: tuple[str, ...]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in pairs(params, "--param"):
        values.setdefault(name, []).append(value)
    return values


def _ask(store: Repository, query: str, values: dict[str, list[str]], limits: dict[str, Any]) -> Result:
    from trails import queries

    if query == "-":
        text = read_stdin()
    elif query.endswith(".rq"):
        text = read_text(query)
    elif query in queries.load_all():
        return store.query(query, **limits, **_bound(store, queries.find(query), values))
    else:
        text = query
    if values:
        parsed = queries.parse("of your own", "", text)
        text = parsed.bind(**_bound(store, parsed, values))
    return store.query(text, **limits)


def _bound(store: Repository, query: QueryFile, values: dict[str, list[str]]) -> dict[str, Any]:
    """Return parameters as the query takes them: numbers as such, labels as session ids, one value not as a list."""
    kinds = {parameter.name: parameter.kind for parameter in query.parameters}
    bound: dict[str, Any] = {}
    for name, given in values.items():
        converted = [_converted(store, name, kinds.get(name, ""), value) for value in given]
        bound[name] = converted if len(converted) > 1 else converted[0]
    return bound


def _converted(store: Repository, name: str, kind: str, value: str) -> Any:
    if kind == "integer":
        if not value.isdecimal():
            refuse(f"the parameter {name} takes a whole number, not {value!r}")
        return int(value)
    if kind == "session" and not value.startswith("urn:trails:"):
        return _session_of(store, value)
    return value


def _session_of(store: Repository, name: str) -> str:
    """Return the id of a session that is there, or was; raise `SessionNotFound` for one that never was."""
    from trails import validate

    if validate.is_session_id(name) and (name in store or store.reader.is_deleted(name)):
        return name
    return store.resolve(name)


@command("queries", pager=True)
@click.argument("name", metavar="[NAME]", required=False, type=Named("query"))
@limit_option(None, most=1_000_000)
@json_option
def list_queries(*, name: str | None, limit: int | None, as_json: bool) -> None:
    """List the ready-made queries, or print one of them.

    With NAME, the query's own text: it runs as it stands in any SPARQL console.
    """
    from trails import queries

    if name is not None:
        asked = queries.find(name)
        answer(_described(asked) | {"text": asked.text}, asked.text, partial(click.echo, nl=False), as_json=as_json)
        return
    found, more = first_of(list(queries.catalogue().values()), limit)
    value, said = {"queries": [_described(each) for each in found], "more": more}, left_out(len(found), more)
    answer(value, found, _draw_queries, said=said, as_json=as_json)


def _draw_queries(found: Sequence[QueryFile]) -> None:
    """Draw a line for each; parameters that may be left out stand in brackets."""
    made = [Column("name", style="cyan"), Column("purpose", least=24), Column("parameters", least=10)]
    columns.draw(
        made,
        [
            (each.name, each.purpose, " ".join(f"[{p.name}]" if p.optional else p.name for p in each.parameters) or "-")
            for each in found
        ],
    )


def _described(query: QueryFile) -> dict[str, Any]:
    return {
        "name": query.name,
        "theme": query.theme,
        "purpose": query.purpose,
        "parameters": [
            {"name": p.name, "kind": p.kind, "optional": p.optional, "description": p.description}
            for p in query.parameters
        ],
        "columns": [{"name": c.name, "kind": c.kind, "description": c.description} for c in query.columns],
    }
