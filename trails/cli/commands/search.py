"""Commands that search turns and query the store: search, query, queries."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import clean, count, one_line
from trails.model import validation

if TYPE_CHECKING:
    from rich.text import Text

    from trails.history.lookup.search import Hit
    from trails.rdf.query_files import QueryFile
    from trails.store.contract import Result

FIELDS: Final = ("session", "index", "role", "author", "time", "digest", "tools", "snippet")
"""The columns of tab-separated values."""
_INDENT: Final = "    "


@cli.command("search", pager=True, as_of=True)
@click.argument("text", metavar="[TEXT]", required=False)
@cli.option("--tool NAME", "Only turns that call this tool; TEXT may be in the arguments too.")
@cli.option("--session SESSION", "Only the transcript of this session.")
@cli.option("--role ROLE", "Only turns in this role.")
@cli.option("--author NAME", "Only turns by this principal or agent; agent:NAME for an agent.")
@cli.option("--model NAME", "Only turns that this model generated.")
@cli.option("--project NAME", "Only turns of sessions of this project: a name, or the whole path.")
@cli.time_option("--since", "Only what was said at this time or later, such as 7d for the last seven days.")
@cli.option("--semantic", "Also what means the same in other words, best first (trails[semantic]).")
@cli.option("--embedder DIR", "With --semantic: the folder of a model; default: the one in use.")
@cli.page_options()
@cli.tsv_option
def search(
    *,
    text: str | None,
    session: str | None,
    semantic: bool,
    embedder: str | None,
    page: int,
    cursor: str | None,
    as_tsv: bool,
    **wanted: Any,
) -> None:
    """Find turns by text, tool, role, author or model, newest first.

    TEXT is looked for as it is, upper and lower case alike (and "ß" as "ss"), in what was said and in the arguments of tool
    calls. A turn that was copied is found once. A hit takes two lines: the session that owns the turn, the turn's index, who
    spoke and when; and what stands around the text. With --semantic, vectors that are missing are made first, and one page comes,
    the best turns first; nothing is fetched (`trails guide branches`). The exit code is 1 where nothing is found, as
    grep's is.
    """
    cli.one_of(as_tsv)
    cli.check_options((embedder is not None and not semantic, "--embedder goes with --semantic"))
    wanted["semantic"] = embedder or semantic
    with cli.open_store(reading=not semantic or cli.is_as_of()) as store:
        session_id = None if session is None else store.resolve(session)
        found = cli.paged(lambda each: store.search(text, session=session_id, **wanted, cursor=each), page, cursor)
    if as_tsv:
        values = [each.to_dict() | {"tools": " ".join(each.tools)} for each in found]
        cli.echo_tsv(FIELDS, ([each[name] for name in FIELDS] for each in values))
    else:
        more = cli.there_is_more(found.cursor)
        value = {"turns": found, "cursor": found.cursor}
        cli.answer(value, found, partial(_draw_hits, text=text), empty="nothing found", said=more)
    if not found:
        cli.end(1)


def _draw_hits(hits: Sequence[Hit], text: str | None) -> None:
    from rich.text import Text

    console = cli.view.screen()
    for hit in hits:
        tools = (f"calls {one_line(tool)}" for tool in hit.tools)
        facts = " · ".join([hit.role, cli.view.moment(hit.time), one_line(hit.author), *tools])
        head = Text.assemble((one_line(hit.session_id), "cyan"), "  ", (str(hit.index), "bold"), "  ")
        rest = Text(facts, style="dim")
        rest.truncate(max(1, console.width - head.cell_len), overflow="ellipsis")
        console.print(head + rest, soft_wrap=True)
        console.print(Text(_INDENT) + highlighted(hit.snippet, text, console.width - len(_INDENT)), soft_wrap=True)


def highlighted(snippet: str, wanted: str | None, width: int) -> Text:
    """Return one line of a snippet around the first place that has a text, each such place in colour.

    >>> highlighted("We went to the Alps by train", "alps", 16).plain
    '…to the Alps by…'
    """
    from rich.cells import cell_len
    from rich.text import Text

    line = clean(one_line(snippet))
    places = re.compile(re.escape(one_line(wanted or "")) or r"(?!)", re.IGNORECASE)
    if cell_len(line) > width:
        first = places.search(line)
        left, right = first.span() if first else (0, 0)
        middle, right = left, min(right, left + width)
        while cell_len(line[left:right]) + 2 < width and (left > 0 or right < len(line)):
            if left > 0 and (right >= len(line) or middle - left <= right - middle):
                left -= 1
            else:
                right += 1
        line = f"{'…' if left else ''}{line[left:right].strip()}{'…' if right < len(line) else ''}"
    shown = Text(line)
    shown.highlight_regex(places, "bold red")
    shown.truncate(width, overflow="ellipsis")
    return shown


_FORMATS = click.Choice(["table", "json", "csv", "tsv", "turtle", "ntriples"])


@cli.command("query", pager=True, as_of=True)
@click.argument("query", metavar="QUERY")
@cli.option("-p --param NAME=VALUE", "A parameter's value; again for a list.", name="params", multiple=True)
@cli.option("--format", "How to print the result; default: a table for people.", name="format_", type=_FORMATS)
@cli.option("--timeout SECONDS", "End the query after so many seconds; default: 300.", type=float)
@cli.option("--max-rows N", "Print so many rows at most, and say when there are more.", type=int)
@cli.option("--csv-safe", "Put ' before texts of CSV that a spreadsheet takes for formulas.")
def query(*, query: str, params: tuple[str, ...], format_: str | None, csv_safe: bool, **limits: Any) -> None:
    """Ask a SPARQL query.

    QUERY is the name of a ready-made query (`trails queries` lists them), a file ending in .rq, the query itself, or
    "-" for stdin. The prefixes trails, prov, rdf, rdfs and xsd are declared already. A session's parameter may be an
    id, an IRI or a label. json, csv and tsv are the SPARQL 1.1 result formats; a CONSTRUCT is printed as turtle,
    ntriples or JSON-LD. ASK prints true or false, and the exit code of false is 1; no rows are an answer, with 0. The table
    shortens IRIs and cuts long values; the other formats do not.
    """
    form = cli.one_format(format_) or "table"
    cli.refuse_fields("the query names what it gives: write the variables after its SELECT, and --json alone")
    if csv_safe and form != "csv":
        cli.refuse("--csv-safe goes with --format csv")
    with cli.open_store(reading=True) as store:
        result = _ask(store, query, _grouped(params), limits)
    if is_table := form == "table" and not isinstance(result, bool | list):
        if result:
            cli.view.print_result(result)
    else:
        sys.stdout.write(cli.view.format_result(result, form, csv_safe=csv_safe))
    if getattr(result, "truncated", False):
        cli.note(f"first {count(limits['max_rows'] or 0, 'row')}, there are more")
    elif is_table and not isinstance(result, bool):
        cli.note(count(len(result), "row"))
    if result is False:
        cli.end(1)


def _grouped(params: tuple[str, ...]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in cli.pairs(params, "--param"):
        values.setdefault(name, []).append(value)
    return values


def _ask(store: trails.Repository, query: str, values: dict[str, list[str]], limits: dict[str, Any]) -> Result:
    from trails.rdf import query_files

    if query == "-":
        text = cli.text_of("-")
    elif query.endswith(".rq"):
        text = cli.read_text(query)
    elif query_files.exists(query):
        return store.query(query, **limits, **_bound(store, query_files.find(query), values))
    else:
        text = query
    if values:
        parsed = query_files.parse("of your own", "", text)
        text = parsed.bind(**_bound(store, parsed, values))
    return store.query(text, **limits)


def _bound(store: trails.Repository, query: QueryFile, values: dict[str, list[str]]) -> dict[str, Any]:
    """Return parameters as the query takes them: numbers as such, labels as session ids, one value not as a list."""
    kinds = {parameter.name: parameter.kind for parameter in query.parameters}
    bound: dict[str, Any] = {}
    for name, given in values.items():
        converted = [_converted(store, name, kinds.get(name, ""), value) for value in given]
        bound[name] = converted if len(converted) > 1 else converted[0]
    return bound


def _converted(store: trails.Repository, name: str, kind: str, value: str) -> Any:
    if kind == "integer":
        if not value.isdecimal():
            cli.refuse(f"the parameter {name} takes a whole number, not {value!r}")
        return int(value)
    if kind == "session" and not value.startswith("urn:trails:"):
        return _session_of(store, value)
    return value


def _session_of(store: trails.Repository, name: str) -> str:
    """Return the id of a session that is there, or was; raise `SessionNotFound` for one that never was."""

    if validation.is_session_id(name) and (name in store or store.reader.is_deleted(name)):
        return name
    return store.resolve(name)


@cli.command("queries", pager=True, limit=True)
@click.argument("name", metavar="[NAME]", required=False, type=cli.Named("query"))
@cli.option("--search QUESTION", "Only those that fit a question in your words, best first.", name="question")
def list_queries(*, name: str | None, question: str | None) -> None:
    """List the ready-made queries, or print one of them.

    With NAME, the query's own text: it runs as it stands in any SPARQL console.
    """
    from trails.rdf import query_files, query_search

    if name is not None and question is not None:
        cli.refuse("a NAME prints one query, --search QUESTION lists those that fit; give one of the two")

    if name is not None:
        asked = query_files.find(name)
        cli.answer(_described(asked) | {"text": asked.text}, asked.text, partial(click.echo, nl=False))
        return
    every = list(query_files.catalogue().values())
    none = "there are none"
    if question is not None:
        every, none = query_search.ranked(question, every), "no query is about that; `trails queries` lists them all"
    draw = cli.table(
        "name,purpose,parameters", _row, least={"purpose": 24, "parameters": 10}, styles={"name": "cyan"}, rule=False
    )
    cli.answer_list("queries", every, draw, none, describe=_described)


def _row(query: QueryFile) -> tuple[str, str, str]:
    """Return a line of the list; parameters that may be left out stand in brackets."""
    names = (f"[{each.name}]" if each.optional else each.name for each in query.parameters)
    return query.name, query.purpose, " ".join(names) or "-"


def _described(query: QueryFile) -> dict[str, Any]:
    return {
        "name": query.name,
        "theme": query.theme,
        "purpose": query.purpose,
        "about": query.about,
        "parameters": [asdict(each) for each in query.parameters],
        "columns": [asdict(each) for each in query.columns],
    }
