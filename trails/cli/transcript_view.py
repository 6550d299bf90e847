"""Draw values and query results with rich, for people. Nothing here reads a store.

On a terminal, text is wrapped to its width; in a pipe every row stays one line, so that `grep` and `cut` work.
"""

from __future__ import annotations

import csv
import io
import math
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click
import pyoxigraph as ox
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from trails.cli.terminal import COLOUR, clean_csv, colours, echo_tsv, escaped, note, to_json
from trails.display import markdown
from trails.display.progress import DRAWN, moving
from trails.display.tables import inert
from trails.display.terminal_text import cells, clean, count, one_line, shorten
from trails.display.text_table import fit
from trails.errors import InvalidInput
from trails.integrity import digests
from trails.model import content_parts
from trails.model.file_versions import file_line
from trails.model.values import CUT
from trails.rdf import vocab

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from trails.history.lookup.forest import Twig
    from trails.model.values import PayloadReference, SessionRecord, ToolCall, ToolResult, Turn, VerifyReport
    from trails.store.contract import Result, Solutions

WIDTH: Final = "trails.width"
"""Where a command that runs others says how wide they print when stdout is no terminal."""
ENDLESS: Final = 100_000
_CUT, _FOLDED = 20, 12
"""A column that is cut, or folded, gets no fewer cells."""
_ROLE_STYLES: Final = {"user": "cyan", "human": "cyan", "assistant": "green", "tool": "yellow", "summary": "magenta"}
_SHORT_LINES: Final = 12
_MOST_FILES: Final = 8
_LONGEST: Final = 2000
"""Characters of a line that is shown whole in a pipe, where no line is wrapped."""
_GUTTER: Final = "│ "
"""What stands before each line of a thought."""
_INDENT: Final = "     "


class Screen(Console):
    """A console that leaves a vanished reader to the caller, and never takes brackets in content for markup."""

    def on_broken_pipe(self) -> None:
        """Let the command end as any other whose reader went away."""
        raise BrokenPipeError


def screen(*, stderr: bool = False) -> Screen:
    """Return a console on stdout or stderr; colours only on a terminal, unless `--color` or the environment says otherwise."""
    stream = sys.stderr if stderr else sys.stdout
    context = click.get_current_context(silent=True)
    width = context.meta.get(WIDTH) if context else None
    if width is None and "COLUMNS" in os.environ:
        width = shutil.get_terminal_size().columns  # COLUMNS=0 says nothing, and would leave room for nothing
    elif width is None and not stream.isatty():
        width = ENDLESS
    has_colours = colours(context.meta.get(COLOUR, "auto") if context else "auto", os.environ)
    system: Literal["auto", "standard"] | None = "auto" if has_colours is None else "standard" if has_colours else None
    return Screen(
        file=stream, width=width, color_system=system, force_terminal=has_colours, no_color=has_colours is False,
        markup=False, highlight=False, emoji=False,
    )  # fmt: skip


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
    for name in columns:
        justify: JustifyMethod = "right" if name in right else "left"
        made.add_column(name, overflow="fold", no_wrap=name not in fold, justify=justify)
    return made


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    main: Collection[str] | None = None,
    fold: Iterable[str] = (),
    right: Iterable[str] = (),
    least: Mapping[str, int] = MappingProxyType({}),
    styles: Mapping[str, str] = MappingProxyType({}),
    most: int | None = None,
    rule: bool = True,
    on: Console | None = None,
) -> None:
    """Print rows as a table on stdout, or on a console; `fold` and `right` are as for `table`. In a pipe, tabs part them.

    If there is no room, text is cut with an ellipsis, to no fewer cells than `least` says; then columns are left out, the
    last first, but for those in `main` (default: the first, and those in `fold`). Where these have no room, each value gets
    a line. A first cell of more than `most` cells stands on a line of its own, above its row. Without `rule`, no line is
    under the names.
    """
    console, above, fold = on or screen(), dict[int, Text](), list(fold)
    lines = [[cell if isinstance(cell, Text) else Text(clean(cell)) for cell in row] for row in rows]
    if console.width >= ENDLESS:
        echo_tsv(columns, ([cell.plain for cell in line] for line in lines))
        return
    for number, line in enumerate(lines if most is not None else ()):
        if line[0].cell_len > (most or 0):
            line[0].style = styles.get(columns[0], "")
            above[number], line[0] = line[0], Text()
    narrow = dict.fromkeys(columns, _CUT) | dict.fromkeys(fold, _FOLDED) | dict.fromkeys(right, ENDLESS) | dict(least)
    widths = _widths(
        columns, lines, narrow, [columns[0], *fold] if main is None else main, console.width, gap=3 if rule else 2
    )
    if widths is None:
        _print_blocks(console, columns, lines)
        return
    made = table(*widths, fold=fold, right=right)
    made.box = made.box if rule else None
    for column in made.columns:
        name = str(column.header)
        column.style, column.width = styles.get(name, ""), widths[name]
        column.overflow = "fold" if name in fold else "ellipsis"
    for line in lines:
        made.add_row(*(cell for name, cell in zip(columns, line, strict=True) if name in widths))
    with console.capture() as printed:
        console.print(made)
    for number, drawn in enumerate(printed.get().splitlines(), -1 if made.box is None else -2):
        if number in above:
            console.print(above[number], soft_wrap=True)
        console.file.write(f"{drawn.rstrip()}\n")  # which escapes what the terminal cannot show
    if left_out := [name for name in columns if name not in widths]:
        note(f"no room for {', '.join(left_out)}; a wider terminal or a pipe shows all")


def _widths(
    columns: Sequence[str],
    lines: Sequence[Sequence[Text]],
    narrow: Mapping[str, int],
    main: Collection[str],
    width: int,
    *,
    gap: int,
) -> dict[str, int] | None:
    """Return the columns for which the terminal has room, with their widths; None where it has none for the main ones."""
    texts = {name: [name, *(line[place].plain for line in lines)] for place, name in enumerate(columns)}
    natural = {name: max(cells(part) for text in texts[name] for part in text.split("\n")) for name in columns}
    widths = fit(natural, narrow, width, gap=gap, main=main)
    return None if sum(widths.values()) + gap * (len(widths) - 1) > width else widths


def _print_blocks(console: Console, names: Sequence[str], lines: Sequence[Sequence[Text]]) -> None:
    """Print a line for each value that is there, with its name before it, and an empty one between rows."""
    for number, line in enumerate(lines):
        if number:
            console.print()
        for name, cell in zip(names, line, strict=True):
            if cell.plain:
                console.print(Text.assemble((f"{name} ", "bold"), cell), overflow="fold")


def print_grid(rows: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line; in a pipe with a tab between them."""
    console = screen()
    if console.width >= ENDLESS:
        for name, value in rows.items():
            click.echo(f"{name}\t{clean(str(value))}")
        return
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows.items():
        made.add_row(Text(name), value if isinstance(value, Text) else Text(clean(str(value))))
    console.print(made)


def sessions(records: Sequence[SessionRecord]) -> None:
    """Print session records; an id is broken into lines where there is no room, never cut."""
    labels = {record.id: record.label for record in records if record.label}
    columns = ("id", "label", "branch", "parent@index", "created (UTC)", "agent")
    print_table(columns, (_session_cells(record, labels) for record in records), fold=("id", "parent@index"))


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


def session_head(record: SessionRecord, turns: Sequence[Turn], system: str | None, *, full: bool) -> None:
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
    print_grid({name: value for name, value in rows.items() if value is not None})


def transcript(session_id: str, turns: Iterable[Turn], *, full: bool) -> None:
    """Print turns one after the other: a line on each, its text indented below; inherited turns name their owner."""
    console, names = screen(), dict[str, str]()
    is_whole: bool | None = None
    for turn in turns:
        is_whole = turn.index == 0 if is_whole is None else is_whole
        names |= {call.id: call.name for call in turn.tool_calls}
        console.print()
        console.print(turn_line(session_id, turn))
        _print_parts(console, turn_parts(turn, names, None if full else _room(console)), full=full)
        stray = [result.call_id for result in turn.tool_results if is_whole and result.call_id not in names]
        _print_parts(console, (Part(f"(answers {each}, which no turn calls)", "red") for each in stray), full=full)


def turn_line(session_id: str, turn: Turn) -> Text:
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


class Part(NamedTuple):
    """Something that a turn says: a text, which may hold line ends, and how it is drawn."""

    text: str
    style: str = ""
    gutter: str = ""
    is_prose: bool = False
    """Whether it was written for people to read, so that Markdown in it is drawn on a terminal."""


def turn_parts(turn: Turn, names: Mapping[str, str], room: int | None) -> Iterator[Part]:
    """Yield what a turn says; `room` is the length that a tool call's line is cut to, None for no cut."""
    if turn.redacted:
        yield Part("(redacted)", "dim")
    else:
        yield from _said_parts(turn, names, room)
    lines = [(payload, file_line(payload)) for payload in turn.payloads]
    for payload in (payload for payload, line in lines if line is None):
        yield Part(_payload_line(payload), "dim")
    files = [line for _, line in lines if line is not None]
    most = len(files) if room is None or len(files) <= _MOST_FILES else _MOST_FILES
    for line in files[:most]:
        yield Part(f"~ {line}", "dim")
    if most < len(files):
        yield Part(f"~ and {len(files) - most:,} more files: `trails files {turn.session_id}` lists them", "dim")


def _said_parts(turn: Turn, names: Mapping[str, str], room: int | None) -> Iterator[Part]:
    content = turn.content
    shown: set[str] = set()
    if isinstance(content, str):
        for result in turn.tool_results:
            yield Part(_result_line(result, names), "yellow")
        yield Part(content, is_prose=turn.role != "tool")
    else:
        for part in content:
            shown |= {call.id for call in content_parts.calls_in([part])}
            yield from _drawn_part(part, names, room, is_prose=turn.role != "tool")
    for call in turn.tool_calls:
        if call.id not in shown:
            yield Part(_call_line(call, room), "yellow")


def _drawn_part(part: Any, names: Mapping[str, str], room: int | None, *, is_prose: bool) -> Iterator[Part]:
    calls, results = content_parts.calls_in([part]), content_parts.results_in([part])
    for call in calls:
        yield Part(_call_line(call, room), "yellow")
    for result in results:
        yield Part(_result_line(result, names), "yellow")
    text = content_parts.plain_text([part])
    if content_parts.is_thought(part):
        yield Part(text.strip(), "dim italic", _GUTTER)
    elif not calls and (text.strip() or results):
        yield Part(text, "dim" if results else "", is_prose=is_prose and not results)


def _call_line(call: ToolCall, room: int | None) -> str:
    line = f"-> {call.name} {'(redacted)' if call.arguments is None else call.arguments}"
    return line if room is None else shorten(line, room)


def _payload_line(payload: PayloadReference) -> str:
    named = "payload" if payload.name is None else f"payload {payload.name}"
    gone = ", redacted" if payload.digest is None else ""
    return f"+ {named} ({payload.media_type}, {count(payload.size, 'byte')}{gone})"


def _result_line(result: ToolResult, names: Mapping[str, str]) -> str:
    return f"<- {names.get(result.call_id, result.call_id)} {result.came_out}".rstrip()


def _room(console: Console) -> int:
    return max(20, min(console.width, 160) - len(_INDENT))


def _print_parts(console: Console, parts: Iterable[Part], *, full: bool) -> None:
    """Print what a turn says; unless `full`, the first lines of each part, and how many more there are."""
    for part in parts:
        indent = Text(_INDENT) + Text(part.gutter, style=part.style)
        text = clean(part.text).rstrip("\n")
        is_markdown = part.is_prose and console.file.isatty() and len(text) <= markdown.MOST
        lines: Sequence[Text | str] = markdown_lines(console, text) if is_markdown else text.split("\n")
        room, shown = math.inf if full else _SHORT_LINES, 0
        for number, line in enumerate(lines):
            if shown >= room:
                _note_more(console, len(lines) - number, "more line")
                break
            styled = line if isinstance(line, Text) else Text(line, style=part.style)
            kept = styled if full else styled[:_LONGEST]
            for whole in _wrapped(console, kept, indent):
                console.print(whole)
                shown += 1
            if len(kept) < len(styled):
                _note_more(console, len(styled) - len(kept), "more character")


def _note_more(console: Console, number: int, what: str) -> None:
    them = "it" if number == 1 else "them"
    console.print(Text(f"{_INDENT}… {count(number, what)}; --full shows {them}", style="dim italic"))


def markdown_lines(console: Console, text: str) -> list[Text]:
    """Return Markdown as lines for a terminal. Line ends, addresses and HTML stay as they were written."""
    from rich.markdown import Markdown

    made = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    parser = markdown.new_parser().disable("image")  # rich shows nothing of it
    made.parsed = parser.parse(text)
    if markdown.loses_cells(text, made.parsed):
        made.parsed = parser.disable("table").parse(text)
    for token in made.parsed:
        for child in token.children or ():
            child.type = "hardbreak" if child.type == "softbreak" else child.type
    width = max(20, console.width - len(_INDENT))
    lines = console.render_lines(made, console.options.update(width=width), pad=False)
    drawn = [Text.assemble(*((part.text, part.style or "") for part in line if not part.control)) for line in lines]
    while drawn and not drawn[-1].plain.strip():
        drawn.pop()
    return drawn


def print_wrapped(console: Console, line: Text, indent: Text) -> None:
    """Print a line as long as it may be, wrapped and indented."""
    for whole in _wrapped(console, line, indent):
        console.print(whole)


def _wrapped(console: Console, line: Text, indent: Text) -> list[Text]:
    lines = [indent + piece for piece in line.wrap(console, max(20, console.width - len(indent)))]
    for whole in lines:
        whole.rstrip()
    return lines


def replay(turns: Iterable[Mapping[str, Any]]) -> None:
    """Print replayed turns: index, role and whole text."""
    console = screen()
    for turn in turns:
        style = _ROLE_STYLES.get(turn["role"], "blue")
        console.print(Text.assemble((f"{turn['index']:>3}  ", "bold"), (clean(turn["role"]), f"bold {style}")))
        _print_parts(console, [Part(content_parts.plain_text(turn["content"]))], full=True)


# --- the forest

_GUIDE: Final = 4
"""Cells of the lines that lead to a branch, for each that it stands below."""
_LEAST_TITLE: Final = 12


def forest(trees: Sequence[Twig], titles: Mapping[str, str]) -> None:
    """Print trees of forks and spawned sessions, each with what it is about: by id, behind it or below."""
    console = screen()

    def label(twig: Twig, deep: int) -> Text:
        line, title = _twig_label(twig), titles.get(twig.node.id, "")
        room = console.width - _GUIDE * deep
        if not title:
            return line
        if line.cell_len + _LEAST_TITLE < room:
            return line.append("  ").append(shorten(title, room - line.cell_len - 2), style="dim")
        return line.append("\n").append(shorten(title, max(_LEAST_TITLE, room)), style="dim")

    for top in trees:
        drawn = Tree(label(top, 0), guide_style="dim")
        open_twigs = [(top, drawn, 1)]
        while open_twigs:
            twig, branch, deep = open_twigs.pop()
            open_twigs += [(child, branch.add(label(child, deep)), deep + 1) for child in twig.children]
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


def verdict(report: VerifyReport) -> None:
    """Print what `verify` read and found."""
    console = screen()
    counted = {"session": report.sessions, "turn": report.turns, "log line": report.log_lines}
    if report.records:
        counted = {"session": report.sessions, "turn": report.turns, "catalog record": report.records} | counted
    read = f"{', '.join(count(number, noun) for noun, number in counted.items())} read"
    if report.ok:
        console.print(Text.assemble(("ok", "bold green"), f": {read}; nothing is wrong"))
    else:
        console.print(Text.assemble((count(len(report.findings), "finding"), "bold red"), f": {read}"))
        rows = [(e.code, e.session_id or "", _index(e.index), one_line(e.message)) for e in report.findings]
        print_table(("code", "session", "turn", "what"), rows, fold=("session", "what"))
    for line in _remarks(report):
        console.print(line)
    if report.history:
        console.print(f"since the checkpoint, as the log tells ({count(len(report.history), 'line')}):")
        events = [
            (
                e.session_id,
                e.what,
                str(e.count),
                _index(e.index),
                e.by or "",
                e.time.isoformat(timespec="minutes") if e.time else "",
            )
            for e in report.history
        ]
        print_table(("session", "what", "times", "turn", "by", "when"), events, fold=("session",))


def _index(index: int | None) -> str:
    return "" if index is None else str(index)


def _remarks(report: VerifyReport) -> Iterator[str]:
    """Yield what limits a verdict: where reading ended, who signed, and that nothing was changed since a checkpoint."""
    if report.since is not None:
        yield f"turns were read only of sessions that changed since line {report.since:,} of the log: the checkpoint's last"
    if report.up_to is not None:
        yield f"up to commit {report.up_to:,}: the store is open elsewhere, and what comes later was not looked at"
    for witness in report.witnessed or ():
        yield f"cosigned by {one_line(witness.name)}, {witness.time.isoformat()}"
    if (stamp := report.timestamped) is not None:
        yield f"the checkpoint was there by {stamp.time.isoformat()}, as {one_line(stamp.authority)} says"
    if report.unsigned is not None and not report.unsigned:
        yield "every turn is signed"
    for each in report.unsigned or ():
        place = str(each.first) if each.first == each.last else f"{each.first} to {each.last}"
        yield f"nobody signed {one_line(each.session_id)}: {place}"
    if report.ok and report.history is not None and not report.history:  # else the findings say what the log does not
        yield "since the checkpoint: nothing that it covers was changed, deleted or redacted"


# --- results of queries

_RESULT_CELL: Final = 400
_NUMBERS: Final = frozenset(ox.NamedNode(f"{vocab.XSD}{name}") for name in ("integer", "decimal", "double", "float"))
_ARABIC_MARK: Final = "\N{ARABIC LETTER MARK}"
_SHORT_IRIS: Final = {
    **{iri: f"{name}:" for name, iri in vocab.PREFIXES.items()},
    **{f"urn:trails:{kind}:": f"{kind}:" for kind in ("session", "principal", "agent", "tool", "meta")},
}
_GRAPH_FORMATS: Final = {
    "table": ox.RdfFormat.TURTLE,
    "turtle": ox.RdfFormat.TURTLE,
    "ntriples": ox.RdfFormat.N_TRIPLES,
    "json": ox.RdfFormat.JSON_LD,
}


def format_result(result: Result, form: str, *, csv_safe: bool = False) -> str:
    """Return a result in one of the formats (not rows as "table"; a graph is then Turtle).

    JSON of a graph is JSON-LD. What could steer a terminal is escaped if the format has escapes, so that values stay equal;
    CSV, which has none, shows it as pictures. With `csv_safe`, no text in CSV is a formula for a spreadsheet. Raises
    `InvalidInput` for a format that has no place for this kind of result.
    """
    if isinstance(result, list):
        return escaped(_graph(result, form))
    if isinstance(result, bool):
        answer = str(result).lower()
        if form == "json":
            return to_json({"head": {}, "boolean": result}) + "\n"
        if form != "table":
            kind = "rows" if form in ("csv", "tsv") else "CONSTRUCT and DESCRIBE"
            raise InvalidInput(f"{form} is for {kind}; ASK gives yes or no (here: {answer}): use table or json")
        return f"{answer}\n"
    names = result.variables
    match form:
        case "csv":
            out = io.StringIO()
            writer = csv.writer(out, lineterminator="\r\n")
            writer.writerow(names)
            writer.writerows([_csv_cell(row[name], safe=csv_safe) for name in names] for row in result)
            return clean_csv(out.getvalue())
        case "tsv":
            lines = ["\t".join(f"?{name}" for name in names)]
            lines += ["\t".join(_tsv_cell(row[name]) for name in names) for row in result]
            return escaped("\n".join(lines) + "\n")
        case "json":
            rows = [{name: _json_term(row[name]) for name in names if row[name] is not None} for row in result]
            return to_json({"head": {"vars": list(names)}, "results": {"bindings": rows}}, ascii_only=True) + "\n"
    raise InvalidInput(f"{form} is for CONSTRUCT and DESCRIBE; this query gives rows: use table, json, csv or tsv")


def _graph(triples: list[ox.Triple], form: str) -> str:
    if form not in _GRAPH_FORMATS:
        raise InvalidInput(f"{form} is for rows; this query gives triples: use turtle, ntriples or json")
    prefixes = None if form == "ntriples" else vocab.PREFIXES
    text = (ox.serialize(triples, format=_GRAPH_FORMATS[form], prefixes=prefixes) or b"").decode("utf-8")
    if prefixes and _ARABIC_MARK in text:  # names with a prefix may hold this mark, and there it cannot be escaped
        return (ox.serialize(triples, format=_GRAPH_FORMATS[form]) or b"").decode("utf-8")
    return text


def _json_term(term: Any) -> dict[str, Any]:
    match term:
        case ox.NamedNode():
            return {"type": "uri", "value": term.value}
        case ox.BlankNode():
            return {"type": "bnode", "value": term.value}
        case ox.Triple():
            parts = {name: _json_term(getattr(term, name)) for name in ("subject", "predicate", "object")}
            return {"type": "triple", "value": parts}
    literal = {"type": "literal", "value": term.value}
    if term.language:
        return literal | {"xml:lang": term.language}
    return literal if term.datatype == vocab.STRING else literal | {"datatype": term.datatype.value}


def _csv_cell(term: Any, *, safe: bool) -> str:
    is_number = isinstance(term, ox.Literal) and term.datatype in _NUMBERS
    return inert(_plain(term)) if safe and not is_number else _plain(term)


def _plain(term: Any) -> str:
    if term is None:
        return ""
    return term.value if isinstance(term, ox.NamedNode | ox.Literal) else str(term)


def _tsv_cell(term: Any) -> str:
    return "" if term is None else str(term).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def print_result(rows: Solutions) -> None:
    """Print rows as a table: IRIs shortened, long values cut; the other formats give everything."""
    names = rows.variables
    right = [name for name in names if all(_is_number(row[name]) for row in rows)]
    cells = [[shorten(_shown(row[name]), _RESULT_CELL) for name in names] for row in rows]
    print_table(names, cells, fold=names, right=right)


def _shown(term: Any) -> str:
    return short_iri(term.value) if isinstance(term, ox.NamedNode) else _plain(term)


def _is_number(term: Any) -> bool:
    return isinstance(term, ox.Literal) and term.datatype in (vocab.INTEGER, vocab.DECIMAL, vocab.DOUBLE)


def short_iri(iri: str) -> str:
    """Return an IRI with its prefix abbreviated, for people.

    >>> short_iri("http://www.w3.org/ns/prov#value"), short_iri("urn:trails:session:a")
    ('prov:value', 'session:a')
    """
    start = next((start for start in _SHORT_IRIS if iri.startswith(start)), "")
    return _SHORT_IRIS.get(start, "") + iri.removeprefix(start)
