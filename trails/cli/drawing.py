"""Draw values and query results for people.

Drawing with rich: tables, transcripts and trees, for people. Nothing here reads a store.

On a terminal, text is wrapped to its width; in a pipe every row stays one line, so that `grep` and `cut` work.

Query results as text: the SPARQL 1.1 result formats (JSON, CSV, TSV), and a table for people.

What could steer a terminal is escaped where the format has escapes, so that values stay equal; CSV, which has none, shows it
as pictures.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click
import pyoxigraph as ox
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from trails.cli.terminal import clean, clean_csv, count, escaped, one_line, shorten, to_json
from trails.display.progress import DRAWN, moving
from trails.display.tables import inert
from trails.errors import InvalidInput
from trails.integrity import digests
from trails.model import content_parts
from trails.model.values import CUT
from trails.rdf import vocab

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from trails.history.lookup.forest import Twig
    from trails.model.values import SessionRecord, ToolCall, ToolResult, Turn, VerifyReport
    from trails.store.contract import Result, Solutions

WIDTH: Final = "trails.width"
"""Where a command that runs others says how wide they print when stdout is no terminal."""
_ENDLESS: Final = 100_000
_ROLE_STYLES: Final = {"user": "cyan", "human": "cyan", "assistant": "green", "tool": "yellow", "summary": "magenta"}
_SHORT_LINES: Final = 12
_SHORT_TEXT: Final = 2000
_INDENT: Final = "     "


class Screen(Console):
    """A console that leaves a vanished reader to the caller, and never takes brackets in content for markup."""

    def on_broken_pipe(self) -> None:
        """Let the command end as any other whose reader went away."""
        raise BrokenPipeError


def screen(*, stderr: bool = False) -> Screen:
    """Return a console on stdout or stderr; colours only on a terminal, and none where NO_COLOR is set."""
    stream = sys.stderr if stderr else sys.stdout
    context = click.get_current_context(silent=True)
    width = context.meta.get(WIDTH) if context else None
    if width is None and "COLUMNS" in os.environ:
        width = shutil.get_terminal_size().columns  # COLUMNS=0 says nothing, and would leave room for nothing
    elif width is None and not stream.isatty():
        width = _ENDLESS
    return Screen(file=stream, width=width, markup=False, highlight=False, emoji=False)


def progress(what: str) -> AbstractContextManager[Callable[[int, int, str], None] | None]:
    """Give a function (done, total, name) that moves a bar on stderr, or None where stderr is no terminal."""
    return moving(True, what)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on stderr that something takes its time, where stderr is a terminal."""
    if not sys.stderr.isatty() or not DRAWN.acquire(blocking=False):
        yield
        return
    try:
        with screen(stderr=True).status(what):
            yield
    finally:
        DRAWN.release()


def role_style(role: str) -> str:
    """Return the colour of those who speak in a role."""
    return _ROLE_STYLES.get(role, "blue")


def moment(time: datetime | None, *, seconds: bool = False) -> str:
    """Return a time in UTC as people read it, or a dash where there is none."""
    if time is None:
        return "-"
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def table(*columns: str, fold: Iterable[str] = (), right: Iterable[str] = ()) -> Table:
    """Return an empty table; cells of the columns in `fold` may wrap, those of the columns in `right` are numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    folding, numbers = set(fold), set(right)
    for name in columns:
        justify: JustifyMethod = "right" if name in numbers else "left"
        made.add_column(name, overflow="fold", no_wrap=name not in folding, justify=justify)
    return made


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, fold: Iterable[str] = (), right: Iterable[str] = ()
) -> None:
    """Print rows of bare texts as a table on stdout; see `table`."""
    made = table(*columns, fold=fold, right=right)
    for row in rows:
        made.add_row(*(Text(clean(cell)) for cell in row))
    screen().print(made)


def grid(rows: Mapping[str, Any]) -> Table:
    """Return names and values, one pair a line."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows.items():
        made.add_row(Text(name), value if isinstance(value, Text) else Text(clean(str(value))))
    return made


def sessions(console: Console, records: Sequence[SessionRecord]) -> None:
    """Print session records: as a table where it fits, else two lines each, so that an id is never cut or broken."""
    labels = {record.id: record.label for record in records if record.label}
    made = table("id", "label", "branch", "parent@index", "created (UTC)", "agent")
    for record in records:
        made.add_row(*_session_cells(record, labels))
    if console.measure(made, options=console.options.update(max_width=_ENDLESS)).maximum <= console.width:
        console.print(made)
        return
    for record in records:
        name, label, *facts = (cell for cell in _session_cells(record, labels) if cell.plain)
        console.print(Text("  ").join([name, label]) if record.label else name, soft_wrap=True)
        console.print(Text("    ") + Text("  ").join(facts if record.label else [label, *facts]), soft_wrap=True)


def _session_cells(record: SessionRecord, labels: Mapping[str, str]) -> tuple[Text, ...]:
    return (
        Text(clean(record.id), style="cyan"),
        Text(clean(record.label or ""), style="bold green"),
        Text(clean(record.branch)),
        Text(clean(origin(record, labels)), style="yellow"),
        Text(moment(record.created)),
        Text(clean(record.agent)),
    )


def origin(record: SessionRecord, labels: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return where a session comes from: `parent@index` for a fork, `by parent` where spawned, else nothing.

    A parent is called by its label where `labels` (by session id) has one.
    """
    if record.parent_session_id is not None:
        return f"{labels.get(record.parent_session_id, record.parent_session_id)}@{record.forked_at_index}"
    return "" if record.spawned_by is None else f"by {labels.get(record.spawned_by, record.spawned_by)}"


# --- transcripts


def session_head(
    console: Console, record: SessionRecord, turns: Sequence[Turn], system: str | None, *, full: bool
) -> None:
    """Print what a session is, above its transcript."""
    last = turns[-1].digest if turns else digests.GENESIS
    rows = {
        "session": record.id,
        "label": record.label,
        "branch": record.branch,
        "from": origin(record) or None,
        "principal": record.principal,
        "agent": record.agent,
        "created": None if record.created is None else f"{moment(record.created, seconds=True)} UTC",
        "turns": f"{len(turns)} ({max(0, len(turns) - record.starts_at)} its own)"
        if record.starts_at
        else str(len(turns)),
        "head": last if full else last[:8],
        "system": None if system is None else system if full else shorten(system, 200),
        "meta": ", ".join(f"{key}={value}" for key, value in record.meta.items()) or None,
    }
    console.print(grid({name: value for name, value in rows.items() if value is not None}))


def transcript(console: Console, session_id: str, turns: Iterable[Turn], *, full: bool) -> None:
    """Print turns one after the other: a line on each, its text indented below; inherited turns name their owner."""
    names: dict[str, str] = {}
    is_whole: bool | None = None
    for turn in turns:
        is_whole = turn.index == 0 if is_whole is None else is_whole
        names |= {call.id: call.name for call in turn.tool_calls}
        console.print()
        console.print(_turn_line(session_id, turn))
        _print_lines(console, _turn_lines(turn, names, None if full else _room(console)), full=full)
        stray = [result.call_id for result in turn.tool_results if is_whole and result.call_id not in names]
        _print_lines(console, ((f"(answers {each}, which no turn calls)", "red") for each in stray), full=full)


def _turn_line(session_id: str, turn: Turn) -> Text:
    style = _ROLE_STYLES.get(turn.role, "blue")
    line = Text.assemble((f"{turn.index:>3}  ", "bold"), (clean(turn.role), f"bold {style}"))
    facts = [turn.author, turn.model, None if turn.time is None else moment(turn.time, seconds=True)]
    line.append("  ").append(" · ".join(clean(fact) for fact in facts if fact), style="dim")
    if turn.is_cut:
        line.append(f"  {CUT}", style="red")
    if turn.derived_from:
        line.append(f"  outcome of {clean(turn.derived_from.session_id)}", style="magenta")
    if turn.session_id != session_id:
        line.append(f"  from {clean(turn.session_id)}", style="italic blue")
    return line


_Line = tuple[str, str]
"""A text, which may hold line ends, and its style."""


def _turn_lines(turn: Turn, names: Mapping[str, str], room: int | None) -> Iterator[_Line]:
    """Yield what a turn says; `room` is the length that a tool call's line is cut to, None for no cut."""
    if turn.redacted:
        yield "(redacted)", "dim"
        return
    content = turn.content
    shown: set[str] = set()
    if isinstance(content, str):
        for result in turn.tool_results:
            yield _result_line(result, names), "yellow"
        yield content, ""
    else:
        for part in content:
            shown |= {call.id for call in content_parts.calls_in([part])}
            yield from _part_lines(part, names, room)
    for call in turn.tool_calls:
        if call.id not in shown:
            yield _call_line(call, room), "yellow"


def _part_lines(part: Any, names: Mapping[str, str], room: int | None) -> Iterator[_Line]:
    calls, results = content_parts.calls_in([part]), content_parts.results_in([part])
    for call in calls:
        yield _call_line(call, room), "yellow"
    for result in results:
        yield _result_line(result, names), "yellow"
    if not calls:
        yield content_parts.plain_text([part]), "dim" if results else ""


def _call_line(call: ToolCall, room: int | None) -> str:
    line = f"-> {call.name} {'(redacted)' if call.arguments is None else call.arguments}"
    return line if room is None else shorten(line, room)


def _result_line(result: ToolResult, names: Mapping[str, str]) -> str:
    return f"<- {names.get(result.call_id, result.call_id)} {result.came_out}".rstrip()


def _room(console: Console) -> int:
    return max(20, min(console.width, 160) - len(_INDENT))


def _print_lines(console: Console, lines: Iterable[_Line], *, full: bool) -> None:
    for text, style in lines:
        kept = text if full else "\n".join(text[:_SHORT_TEXT].split("\n", _SHORT_LINES)[:_SHORT_LINES])
        for line in clean(kept).rstrip("\n").split("\n"):
            for piece in Text(line, style=style).wrap(console, max(20, console.width - len(_INDENT))):
                piece.rstrip()
                console.print(Text(_INDENT) + piece if piece else "")
        if left := len(text[len(kept) :].strip()):
            console.print(Text(f"{_INDENT}… {count(left, 'more character')}; --full shows them", style="dim italic"))


def replay(console: Console, turns: Iterable[Mapping[str, Any]]) -> None:
    """Print replayed turns: index, role and whole text."""
    for turn in turns:
        style = _ROLE_STYLES.get(turn["role"], "blue")
        console.print(Text.assemble((f"{turn['index']:>3}  ", "bold"), (clean(turn["role"]), f"bold {style}")))
        _print_lines(console, [(content_parts.plain_text(turn["content"]), "")], full=True)


# --- the forest


def forest(console: Console, trees: Sequence[Twig]) -> None:
    """Print trees of forks and spawned sessions."""
    for top in trees:
        drawn = Tree(_twig_label(top), guide_style="dim")
        open_twigs = [(top, drawn)]
        while open_twigs:
            twig, branch = open_twigs.pop()
            open_twigs += [(child, branch.add(_twig_label(child))) for child in twig.children]
        console.print(drawn)


def _twig_label(twig: Twig) -> Text:
    node = twig.node
    line = Text()
    if node.relation == "fork":
        line.append(f"@{node.forked_at} ", style="yellow")
    elif node.relation == "spawned":
        line.append("spawned ", style="magenta")
    line.append(clean(node.label or node.id), style="bold cyan")
    if node.label:
        line.append(f" ({clean(node.id)})", style="cyan")
    if node.status != "stored":
        return line.append(f"  {node.status}", style="bold red")
    line.append(f"  {count(node.turns, 'turn')}")
    if node.forked_at:
        line.append(f", {node.own_turns} own")
    line.append(f"  {node.head[:8] if node.head else 'empty' if not node.turns else '-'}", style="green")
    if twig.depth == 0 and node.relation != "root":
        line.append(f"  of {clean(node.parent or node.spawner or '')}", style="dim")
    if twig.again:
        line.append("  (its lineage goes in a circle, or it has two parents: drawn once)", style="bold red")
    return line


# --- verdicts


def verdict(console: Console, report: VerifyReport) -> None:
    """Print what `verify` read and found."""
    counted = [
        (report.sessions, "session"),
        (report.turns, "turn"),
        (report.records, "catalog record"),
        (report.log_lines, "log line"),
    ]
    read = f"{', '.join(count(number, noun) for number, noun in counted if number or noun != 'catalog record')} read"
    if report.ok:
        console.print(Text.assemble(("ok", "bold green"), f": {read}; nothing is wrong"))
        _since(console, report)
        return
    console.print(Text.assemble((count(len(report.findings), "finding"), "bold red"), f": {read}"))
    made = table("code", "session", "turn", "what", fold=("session", "what"))
    for finding in report.findings:
        index = "" if finding.index is None else str(finding.index)
        cells = (finding.code, finding.session_id or "", index, one_line(finding.message))
        made.add_row(*(Text(clean(cell)) for cell in cells))
    console.print(made)
    _since(console, report)


def _unsigned(console: Console, report: VerifyReport) -> None:
    """Print which turns nobody signed."""
    if report.unsigned is None:
        return
    if not report.unsigned:
        console.print("every turn is signed")
    for each in report.unsigned:
        place = str(each.first) if each.first == each.last else f"{each.first} to {each.last}"
        console.print(f"nobody signed {one_line(each.session_id)}: {place}")


def _since(console: Console, report: VerifyReport) -> None:
    """Print up to where it was looked, and what was changed, and logged, of what a checkpoint covers."""
    if report.since is not None:
        console.print(
            f"turns were read only of sessions that changed since line {report.since:,} of the log: the checkpoint's last"
        )
    if report.up_to is not None:
        console.print(
            f"up to commit {report.up_to:,}: the store is open elsewhere, and what comes later was not looked at"
        )
    for each in report.witnessed or ():
        console.print(f"cosigned by {one_line(each.name)}, {each.time.isoformat()}")
    if report.timestamped is not None:
        stamp = report.timestamped
        console.print(f"the checkpoint was there by {stamp.time.isoformat()}, as {one_line(stamp.authority)} says")
    _unsigned(console, report)
    if report.history is None:
        return
    if not report.history:
        if not report.ok:
            return  # the log tells of nothing, and the findings say what was done without it
        console.print("since the checkpoint: nothing that it covers was changed, deleted or redacted")
        return
    console.print(f"since the checkpoint, as the log tells ({count(len(report.history), 'line')}):")
    made = table("session", "what", "times", "turn", "by", "when", fold=("session",))
    for event in report.history:
        index = "" if event.index is None else str(event.index)
        when = "" if event.time is None else event.time.isoformat(timespec="minutes")
        cells = (event.session_id, event.what, str(event.count), index, event.by or "", when)
        made.add_row(*(Text(clean(cell)) for cell in cells))
    console.print(made)


RESULT_FORMATS: Final = ("table", "json", "csv", "tsv", "turtle", "ntriples")
_RESULT_CELL: Final = 400
_NUMBERS: Final = frozenset(
    ox.NamedNode(f"http://www.w3.org/2001/XMLSchema#{name}") for name in ("integer", "decimal", "double", "float")
)
_ARABIC_MARK: Final = "\N{ARABIC LETTER MARK}"
_SHORT_IRIS: Final = {
    **{iri: f"{name}:" for name, iri in vocab.PREFIXES.items()},
    **{f"urn:trails:{kind}:": f"{kind}:" for kind in ("session", "principal", "agent", "tool", "meta")},
}


def format_result(result: Result, form: str, *, csv_safe: bool = False) -> str:
    """Return a result in one of the formats (not "table", unless it is a graph, which then is Turtle).

    JSON of a graph is JSON-LD. With `csv_safe`, no text in CSV is a formula for a spreadsheet. Raises `InvalidInput` for a
    format that has no place for this kind of result.
    """
    if isinstance(result, list):
        return escaped(_result_graph(result, form))
    if isinstance(result, bool):
        return _boolean(result, form)
    if form in ("turtle", "ntriples"):
        raise InvalidInput(f"{form} is for CONSTRUCT and DESCRIBE; this query gives rows: use table, json, csv or tsv")
    if form == "csv":
        return _result_csv(result, safe=csv_safe)
    return {"json": _result_json, "tsv": _result_tsv}[form](result)


def _result_graph(triples: list[ox.Triple], form: str) -> str:
    formats = {
        "table": ox.RdfFormat.TURTLE,
        "turtle": ox.RdfFormat.TURTLE,
        "ntriples": ox.RdfFormat.N_TRIPLES,
        "json": ox.RdfFormat.JSON_LD,
    }
    if form not in formats:
        raise InvalidInput(f"{form} is for rows; this query gives triples: use turtle, ntriples or json")
    prefixes = None if form == "ntriples" else vocab.PREFIXES
    written = _serialized(triples, formats[form], prefixes)
    # Names with a prefix may hold this one, and there it cannot be escaped.
    return _serialized(triples, formats[form], None) if prefixes and _ARABIC_MARK in written else written


def _serialized(triples: list[ox.Triple], form: ox.RdfFormat, prefixes: dict[str, str] | None) -> str:
    written = ox.serialize(triples, format=form, prefixes=prefixes)
    return "" if written is None else written.decode("utf-8")


def _boolean(answer: bool, form: str) -> str:
    if form == "json":
        return to_json({"head": {}, "boolean": answer}) + "\n"
    if form != "table":
        kind = "rows" if form in ("csv", "tsv") else "CONSTRUCT and DESCRIBE"
        raise InvalidInput(f"{form} is for {kind}; ASK gives yes or no (here: {_yes_or_no(answer)}): use table or json")
    return f"{_yes_or_no(answer)}\n"


def _yes_or_no(answer: bool) -> str:
    return "true" if answer else "false"


def _result_json(rows: Solutions) -> str:
    bindings = [{name: _term_json(row[name]) for name in rows.variables if row[name] is not None} for row in rows]
    found = {"head": {"vars": list(rows.variables)}, "results": {"bindings": bindings}}
    return to_json(found, ascii_only=True) + "\n"


def _term_json(term: Any) -> dict[str, Any]:
    if isinstance(term, ox.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, ox.BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, ox.Triple):
        inside = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
        return {"type": "triple", "value": {name: _term_json(part) for name, part in inside.items()}}
    if term.language:
        return {"type": "literal", "value": term.value, "xml:lang": term.language}
    if term.datatype == vocab.STRING:
        return {"type": "literal", "value": term.value}
    return {"type": "literal", "value": term.value, "datatype": term.datatype.value}


def _result_csv(rows: Solutions, *, safe: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(rows.variables)
    cell = _inert if safe else _plain
    writer.writerows([cell(row[name]) for name in rows.variables] for row in rows)
    return clean_csv(out.getvalue())


def _inert(term: Any) -> str:
    is_number = isinstance(term, ox.Literal) and term.datatype in _NUMBERS
    return _plain(term) if is_number else inert(_plain(term))


def _plain(term: Any) -> str:
    if term is None:
        return ""
    return term.value if isinstance(term, ox.NamedNode | ox.Literal) else str(term)


def _result_tsv(rows: Solutions) -> str:
    lines = ["\t".join(f"?{name}" for name in rows.variables)]
    lines += ["\t".join("" if row[name] is None else _tsv_term(row[name]) for name in rows.variables) for row in rows]
    return escaped("\n".join(lines) + "\n")


def _tsv_term(term: Any) -> str:
    return str(term).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def result_table(rows: Solutions) -> Table:
    """Return rows as a table: IRIs shortened, long values cut; the other formats give everything."""
    from rich.text import Text

    numbers = [name for name in rows.variables if all(_is_number(row[name]) for row in rows)]
    made = table(*rows.variables, fold=rows.variables, right=numbers)
    for row in rows:
        made.add_row(*(Text(_cell(row[name])) for name in rows.variables))
    return made


def _is_number(term: Any) -> bool:
    return isinstance(term, ox.Literal) and term.datatype in (vocab.INTEGER, vocab.DECIMAL, vocab.DOUBLE)


def _cell(term: Any) -> str:
    if isinstance(term, ox.NamedNode):
        return shorten(short_iri(term.value), _RESULT_CELL)
    return shorten(_plain(term), _RESULT_CELL)


def short_iri(iri: str) -> str:
    """Return an IRI with its prefix abbreviated, for people.

    >>> short_iri("http://www.w3.org/ns/prov#value"), short_iri("urn:trails:session:a")
    ('prov:value', 'session:a')
    """
    for start, short in _SHORT_IRIS.items():
        if iri.startswith(start):
            return short + iri[len(start) :]
    return iri
