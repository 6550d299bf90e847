"""Commands that explain: help, guide, demo, and the manual."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

import trails
from trails.cli import options as cli
from trails.cli.program import Commands, Group
from trails.errors import InvalidInput
from trails.suggestions import did_you_mean


def _commands(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of commands that go on from what was typed, within the group that was named before."""
    found: click.Command | None = ctx.find_root().command
    for word in ctx.params.get("words") or ():
        found = found.get_command(ctx, word) if isinstance(found, click.Group) else None
    names = found.list_commands(ctx) if isinstance(found, click.Group) else []
    return [name for name in names if name.startswith(incomplete)]


@cli.command("help", json=False, store=False, pager=True)
@click.argument("words", metavar="[COMMAND]", nargs=-1, shell_complete=_commands)
@cli.option("--man DIR", "Write man pages there.", type=click.Path(file_okay=False, path_type=Path))
def help_(words: tuple[str, ...], man: Path | None) -> None:
    """Explain a command, or list all of them.

    With --man, a page for each command is written into DIR/man1: `trails help --man ~/.local/share/man`, then
    `man trails-fork`.
    """
    context = click.get_current_context().find_root()
    program = context.command
    assert isinstance(program, Commands)  # noqa: S101 - there is one program
    if man is not None:
        written = write_pages(program, man / "man1")
        cli.note(f"wrote {written} pages into {man / 'man1'}")
        return
    if not words:
        formatter = context.make_formatter()
        program.format_everything(context, formatter)
        click.echo(formatter.getvalue().rstrip())
        return
    found: click.Command = program
    inner = context
    for word in words:
        if not isinstance(found, click.Group):
            cli.refuse(f"`{inner.command_path}` is no group: it has no command {word!r}")
        _, below, _ = found.resolve_command(inner, [word])
        assert below is not None  # noqa: S101 - what is not found raises
        is_top = found is program
        inner = click.Context(below, info_name=word, parent=context if is_top else inner)
        found = below
    click.echo(found.get_help(inner))


# --- man pages, in the macros of man(7)


class _ManPage(click.HelpFormatter):
    """Takes what `--help` says of a command, and writes it as a page."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write how the command is called."""
        self.write(f".SH SYNOPSIS\n\\fB{_roff_text(prog)}\\fR {_roff_text(args)}\n.SH DESCRIPTION\n")

    def write_heading(self, heading: str) -> None:
        """Write what stands above a section."""
        self.write(f".SH {heading.upper()}\n")

    def write_paragraph(self) -> None:
        """Write nothing: each paragraph begins with a macro."""

    def write_text(self, text: str) -> None:
        """Write paragraphs; one that begins with `\\b` keeps its lines, and its title is a heading."""
        for paragraph in re.split(r"\n\s*\n", text.strip(" \n")):
            kept, lines = paragraph.startswith("\b"), paragraph.removeprefix("\b\n").splitlines()
            if kept and lines[0] == "Examples:":
                self.write_heading(lines.pop(0).removesuffix(":"))
            if kept:
                indents = (line[: len(line) - len(line.lstrip())] for line in lines)
                shown = "".join(f"{indent}{_roff_text(line)}\n" for indent, line in zip(indents, lines, strict=True))
                self.write(f".PP\n.nf\n{shown}.fi\n")
            else:
                self.write(f".PP\n{_roff_text(' '.join(lines))}\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names with what they are."""
        self.write("".join(f".TP\n\\fB{_roff_text(name)}\\fR\n{_roff_text(text)}\n" for name, text in rows))


def write_pages(program: Commands, folder: Path) -> int:
    """Write `trails.1`, one page for each group and one for each command into a folder; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    root = click.Context(program, info_name="trails")
    every = program.every()
    groups = {name: made for name, made in program.commands.items() if isinstance(made, Group)}
    for path, made in {"": program, **groups, **every}.items():
        page, name = _ManPage(), f"trails {path}".strip()
        title = name.replace(" ", "-")
        context = root if made is program else click.Context(made, info_name=path, parent=root)
        page.write(f'.TH "{title.upper()}" "1" "" "trails {trails.__version__}" "Trails"\n.SH NAME\n')
        page.write(f"{_roff_text(title)} \\- {_roff_text(made.get_short_help_str(1000).rstrip('.'))}\n")
        program.format_everything(context, page) if made is program else made.format_help(context, page)
        if made is not program:
            page.write(".SH SEE ALSO\n\\fBtrails\\fR(1), \\fBtrails-help\\fR(1), \\fBtrails-guide\\fR(1)\n")
        (folder / f"{title}.1").write_text(page.getvalue(), encoding="utf-8")
    return 1 + len(groups) + len(every)


def _roff_text(text: str) -> str:
    r"""Return text that no formatter takes for a request: one line, with `\`, `-` and a first dot escaped."""
    escaped = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


# --- the guide

FOLDER: Final = Path(__file__).parent.parent / "guide"
_NAMES: Final = """
    install python command-line cheat-sheet branches notebooks context rerun pipeline messages agents keys async graph
    provenance transcripts recording proofs as-of-then audit redaction durability moving postgres postgres-operations
    mirrors serve console access remote sparql-endpoint mcp langgraph claude-agent-sdk openai-agents google-adk
    langchain pydantic-ai agent-framework opentelemetry compared
"""
PAGES: Final = tuple(_NAMES.split())
"""In the order in which one would read them."""
TUTORIALS: Final = tuple(
    f"tutorials/{name}" for name in ("transcripts-on-disk", "python-program", "compare-arms", "audit", "shared-server")
)
"""The tutorials, each for another reader; `tutorials` by itself lists them."""
ERRORS: Final = "errors"
"""What the pages of errors have in common: `errors/head-conflict`; by itself, it lists them."""
_PAGE_WIDTH: Final = 120
"""No line of a page is wider: longer ones are hard to read."""
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)?((?:errors/|tutorials/)?[a-z-]+)\.md\)")


@dataclass(frozen=True, slots=True)
class GuidePage:
    """A page of the guide: Markdown that opens with a title and a line that says what the page is for."""

    name: str
    text: str

    @property
    def title(self) -> str:
        """The heading of the page."""
        return self.text.split("\n", 1)[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """The line under the heading."""
        return self.text.split("\n", 3)[2]


def error_pages() -> tuple[str, ...]:
    """Return the names of the pages of errors and warnings, in alphabetical order."""
    return tuple(sorted(f"{ERRORS}/{file.stem}" for file in (FOLDER / ERRORS).glob("*.md")))


def _lists() -> dict[str, tuple[str, ...]]:
    """Return what each name lists that is a folder of pages."""
    return {"tutorials": TUTORIALS, ERRORS: error_pages()}


def read_page(name: str) -> GuidePage:
    """Return a page by its name, or raise `InvalidInput` with the names there are and the nearest of them."""
    names = (*PAGES, *TUTORIALS, *error_pages())
    if name not in names:
        near = did_you_mean(name, names, most=1, cutoff=0.5)
        raise InvalidInput(
            f"the guide has no page {name!r}{near}; its pages are: {', '.join(PAGES)}, and those that "
            f"`trails guide tutorials` and `trails guide {ERRORS}` list"
        )
    return GuidePage(name, (FOLDER / f"{name}.md").read_text("utf-8"))


def with_commands(text: str) -> str:
    """Return a page whose links to other pages are the commands that show them: a terminal cannot follow the links.

    >>> with_commands("told in [proofs](proofs.md), and [how to delete](redaction.md)")
    'told in `trails guide proofs`, and how to delete (`trails guide redaction`)'
    """
    return _LINK.sub(_as_command, text)


def _as_command(link: re.Match[str]) -> str:
    words, name = link.groups()
    shown = f"`trails guide {name}`"
    return shown if words == name else f"{words} ({shown})"


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    lists = _lists()
    names = lists.get(incomplete.partition("/")[0], ()) if "/" in incomplete else (*PAGES, *lists)
    return [name for name in names if name.startswith(incomplete)]


@cli.command("guide", store=False)
@click.argument("page", metavar="[PAGE]", required=False, shell_complete=_complete)
def guide(page: str | None) -> None:
    """Show a page of the guide, or list the pages.

    A page is about one task, with examples. `trails guide tutorials` lists the tutorials. Each error has a page too, which its
    message names: `trails guide errors` lists those. On a terminal a page is laid out for reading; in a pipe it is Markdown.
    """
    lists = _lists()
    if page is None or page in lists:
        pages = [read_page(name) for name in (PAGES if page is None else lists[page])]
        value = {"pages": [_described(each) for each in pages]}
        said = f"`trails guide PAGE` shows a page, `trails guide tutorials` lists tutorials, `trails guide {ERRORS}` the errors"
        column = "what it is for"
        draw = cli.table(f"page,{column}", lambda page: (page.name, page.summary), fold=(column,))
        cli.answer(value, pages, draw, said=said)
    else:
        found = read_page(page)
        cli.answer(_described(found) | {"text": found.text}, found, _draw_page)


def _draw_page(page: GuidePage) -> None:
    if sys.stdout.isatty():
        _lay_out(page)
    else:
        click.echo(page.text, nl=False)


def _described(page: GuidePage) -> dict[str, Any]:
    return {"name": page.name, "title": page.title, "summary": page.summary}


def _lay_out(page: GuidePage) -> None:
    from rich.markdown import Markdown
    from rich.theme import Theme

    screen = cli.view.screen()
    sessions = with_commands(page.text).replace("```python\n", "```pycon\n")  # lines after >>>, and what they give
    laid_out = Markdown(sessions, code_theme="ansi_dark")  # on the terminal's own background, whatever it is
    with screen.use_theme(Theme({"markdown.code": "bold cyan"})):
        screen.print(laid_out, width=min(screen.width, _PAGE_WIDTH))


SAMPLES: Final = Path(__file__).parent.parent / "_samples"
_STEPS: Final = Path(__file__).with_name("demo.txt")
"""The steps of the demo: what to say, and after "$ " the command."""
_SAMPLE: Final = "{sample}"
_SHOWN: Final = '"$(trails demo --sample-path)"'
_LABELS: Final = ("plan", "what-if")
_DEMO_WIDTH: Final = 100
"""How wide the demo prints if stdout is no terminal."""


@cli.command("demo", json=False)
@cli.option("--create", "With --store: create the store if it is not there.")
@cli.option("--sample-path", "Only print where the sample transcript is.")
def demo(create: bool, sample_path: bool) -> None:
    """Show what Trails does, with a sample transcript.

    It takes a few seconds. Everything happens in a temporary store that is removed at the end, unless --store names one
    to use and keep; the environment's TRAILS_STORE is left alone. Each step prints the command that repeats it.
    """
    if sample_path:
        click.echo(SAMPLES)
        return
    named = cli.store_location(named_only=True)
    if named is None:
        with tempfile.TemporaryDirectory(prefix="trails-demo-") as folder:
            _run(str(Path(folder) / "demo.trails"))
        return
    cli.store_folder()  # the steps are for a folder
    if not create and not Path(named).is_dir():
        cli.refuse(f"there is no store at {named}; give --create to make one there, or leave --store out")
    _refuse_if_seen(named)
    _run(named)
    cli.note(f"the store {named} keeps all this")


def _refuse_if_seen(location: str) -> None:
    try:
        store = trails.open(location, read_only=True)
    except InvalidInput:  # there is none yet
        return
    with store:
        for label in _LABELS:
            if store.list(label=label):
                cli.refuse(
                    f"the store {location} has a session labelled {label!r} already; name another store for the demo"
                )


def _run(location: str) -> None:
    context = click.get_current_context()
    if not sys.stdout.isatty():
        context.meta[cli.view.WIDTH] = _DEMO_WIDTH
    _heading("Every command below can be repeated like this:", "export TRAILS_STORE=./demo.trails")
    program, text = context.find_root().command, ""
    for line in _STEPS.read_text("utf-8").splitlines():
        if not line.startswith("$ "):
            text = line
            continue
        words = line.removeprefix("$ ")
        _heading(text, f"trails {words.replace(_SAMPLE, _SHOWN)}")
        sys.stdout.flush()
        arguments = [str(SAMPLES) if each == _SAMPLE else each for each in shlex.split(words)]
        program.main(["--store", location, *arguments], prog_name="trails", standalone_mode=False, parent=context)
        sys.stdout.flush()
        text = ""


def _heading(text: str, command: str) -> None:
    """Print what a step is for, and its command on one line, as one would paste it."""
    from rich.text import Text

    screen = cli.view.screen()
    screen.print()
    if text:
        screen.print(Text(text, style="italic"))
    screen.print(Text(f"$ {command}", style="bold magenta"), soft_wrap=True)
