"""Commands that search turns and query the store.

The command that finds turns: search.

Commands that ask the store: query, queries.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trails.cli import terminal
from trails.cli.options import (
    Named,
    answer,
    as_of_option,
    command,
    end,
    first_of,
    is_as_of,
    json_option,
    left_out,
    limit_option,
    note,
    one_format,
    one_of,
    open_store,
    page_options,
    paged,
    pairs,
    read_stdin,
    read_text,
    refuse,
    store_location,
    there_is_more,
    tsv_option,
)
from trails.cli.terminal import Column, count, one_line
from trails.errors import InvalidInput
from trails.model import validation

if TYPE_CHECKING:
    from trails import Repository
    from trails.history.lookup.search import Hit
    from trails.plumbing.index import alone
    from trails.rdf.query_files import QueryFile
    from trails.store.contract import Result

FIELDS: Final = ("session", "index", "role", "author", "time", "digest", "tools", "snippet")
"""The columns of tab-separated values."""
_INDENT: Final = "    "


@command("search", pager=True)
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--tool", metavar="NAME", help="Only turns that call this tool; TEXT may be in the arguments too.")
@click.option("--session", metavar="SESSION", help="Only the transcript of this session.")
@click.option("--role", metavar="ROLE", help="Only turns in this role.")
@click.option("--author", metavar="NAME", help="Only turns by this principal or agent; agent:NAME for an agent.")
@page_options()
@tsv_option
@as_of_option
@json_option
def search(
    *,
    text: str | None,
    tool: str | None,
    session: str | None,
    role: str | None,
    author: str | None,
    limit: int,
    page: int,
    cursor: str | None,
    as_tsv: bool,
    as_json: bool,
) -> None:
    """Find turns by text, tool, role or author, newest first.

    TEXT is looked for as it is, upper and lower case alike (and "ß" as "ss"), in what was said and in the arguments of tool
    calls. A turn that was copied is found once. A hit takes two lines: the session that owns the turn, the turn's index, who
    spoke and when; and what stands around the text. The exit code is 1 where nothing is found, as grep's is.
    """
    one_of(as_tsv, as_json)
    looks = functools.partial(_draw_hits, text=text)
    is_plain = not (is_as_of() or as_tsv or as_json or session or author or cursor or page > 1)
    at_once = _at_once(text, tool, role, limit) if is_plain else None
    if at_once is not None:
        hits, after = at_once
        found: Sequence[Hit] | None = None
    else:
        with open_store(reading=True) as store:
            session_id = None if session is None else store.resolve(session)
            asked: dict[str, Any] = {
                "tool": tool,
                "session": session_id,
                "role": role,
                "author": author,
                "limit": limit,
            }
            found = paged(lambda each: store.search(text, **asked, cursor=each), page, cursor)
            after = found.cursor
    options = {"tool": tool, "session": session, "role": role, "author": author}
    more = there_is_more(after, "search", text, **options, limit=None if limit == 50 else str(limit))
    if found is None:
        answer(None, hits, looks, empty="nothing found", said=more, as_json=False)
    elif as_tsv:
        terminal.tsv_lines(FIELDS, ([each[name] for name in FIELDS] for each in map(_plain, found)))
    else:
        answer({"turns": found, "cursor": after}, found, looks, empty="nothing found", said=more, as_json=as_json)
    if not (hits if found is None else found):
        end(1)


def _at_once(
    text: str | None, tool: str | None, role: str | None, limit: int
) -> tuple[Sequence[alone.Hit], str | None] | None:
    """Return the first page without opening the store; None where it must be opened, to know for sure or to say what is wrong."""
    from trails.plumbing.index import alone

    try:
        for given, name, check in ((text, "the text", validation.text), (tool, "a tool's name", validation.name)):
            if given is not None and not check(given, name):
                return None
        if role is not None:
            validation.role(role)
    except InvalidInput:
        return None
    if text is None and tool is None and role is None:
        return None
    file = alone.texts_of(Path(store_location() or ""))
    wanted = alone.Wanted(text, tool, role)
    return None if file is None else alone.asked(file, lambda told: alone.hits(told, wanted, limit, None))


def _plain(hit: Hit) -> dict[str, Any]:
    return hit.to_dict() | {"tools": " ".join(hit.tools)}


def _draw_hits(hits: Sequence[Hit | alone.Hit], text: str | None) -> None:
    from trails.plumbing.index.moments import moment as moment_of

    width, colours = terminal.room(), terminal.coloured()
    for hit in hits:
        time = moment_of(hit.time) if isinstance(hit.time, int) else hit.time
        moment = "-" if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
        facts = [hit.role, moment, one_line(hit.author), *(f"calls {one_line(tool)}" for tool in hit.tools)]
        head = f"{one_line(hit.session_id)}  {hit.index}"
        rest = terminal.fitted(" · ".join(facts), max(1, width - terminal.width_of(head) - 2))
        shown = terminal.painted(one_line(hit.session_id), "cyan", colours=colours)
        index = terminal.painted(str(hit.index), "bold", colours=colours)
        terminal.put_columns(f"{shown}  {index}  {terminal.painted(rest, 'dim', colours=colours)}")
        terminal.put_columns(_INDENT + highlighted(hit.snippet, text, width - len(_INDENT), colours=colours))


def highlighted(snippet: str, text: str | None, width: int, *, colours: bool) -> str:
    """Return one line of a snippet around the first place where a text stands in it, each such place in colour.

    >>> highlighted("We went to the Alps by train", "alps", 16, colours=False)
    '…the Alps by t…'
    """
    line = one_line(snippet)
    wanted = re.compile(re.escape(one_line(text or "")) or r"(?!)", re.IGNORECASE)
    first = wanted.search(line)
    if terminal.width_of(line) > width:
        start, end = first.span() if first else (0, 0)
        line = _window(line, start, end, width)
    return wanted.sub(lambda found: terminal.painted(found[0], "bold red", colours=colours), line)


def _window(line: str, start: int, end: int, width: int) -> str:
    """Return the part of a line that has what stands between two places in its middle, with ellipses where it was cut."""
    left, right = start, min(end, start + width)
    taken = terminal.width_of(line[left:right]) + 2
    while taken < width and (left > 0 or right < len(line)):
        if left > 0 and (right >= len(line) or start - left <= right - end):
            left -= 1
            taken += terminal.width_of(line[left])
        else:
            right += 1
            taken += terminal.width_of(line[right - 1])
    before, after = "…" if left > 0 else "", "…" if right < len(line) else ""
    return terminal.fitted(f"{before}{line[left:right].strip()}{after}", width)


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
    from trails.cli import drawing

    form = one_format(format_, as_json=as_json) or "table"
    if csv_safe and form != "csv":
        refuse("--csv-safe goes with --format csv")
    with open_store(reading=True) as store:
        result = _ask(store, query, _grouped(params), {"timeout": timeout, "max_rows": max_rows})
    is_cut = getattr(result, "truncated", False)
    if form == "table" and not isinstance(result, bool | list):
        from trails.cli import drawing

        if result:
            drawing.screen().print(drawing.result_table(result))
    else:
        sys.stdout.write(drawing.format_result(result, form, csv_safe=csv_safe))
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
    from trails.rdf import query_files

    if query == "-":
        text = read_stdin()
    elif query.endswith(".rq"):
        text = read_text(query)
    elif query in query_files.load_all():
        return store.query(query, **limits, **_bound(store, query_files.find(query), values))
    else:
        text = query
    if values:
        parsed = query_files.parse("of your own", "", text)
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
    from trails.model import validation

    if validation.is_session_id(name) and (name in store or store.reader.is_deleted(name)):
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
    from trails.rdf import query_files

    if name is not None:
        asked = query_files.find(name)
        answer(_described(asked) | {"text": asked.text}, asked.text, partial(click.echo, nl=False), as_json=as_json)
        return
    found, more = first_of(list(query_files.catalogue().values()), limit)
    value, said = {"queries": [_described(each) for each in found], "more": more}, left_out(len(found), more)
    answer(value, found, _draw_queries, said=said, as_json=as_json)


def _draw_queries(found: Sequence[QueryFile]) -> None:
    """Draw a line for each; parameters that may be left out stand in brackets."""
    made = [Column("name", style="cyan"), Column("purpose", least=24), Column("parameters", least=10)]
    terminal.draw_columns(
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
