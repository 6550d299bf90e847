"""Commands that explain: help, guide, demo, and the manual."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

import trails
from trails.cli import options as cli
from trails.cli.program import Commands, Group, examples
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


# --- man pages, in the macros of man(7), made from what `--help` says


def write_pages(program: Commands, folder: Path) -> int:
    """Write `trails.1`, one page for each group and one for each command into a folder; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    root = click.Context(program, info_name="trails")
    pages = {"trails": _program_page(program, root)}
    pages |= {
        f"trails-{path.replace(' ', '-')}": command_page(path, made, root) for path, made in program.every().items()
    }
    for name, made in program.commands.items():
        if isinstance(made, Group):
            usage, listed = f"{name}\\fR COMMAND [ARGS]...", _entries(_shorts(made.commands))
            pages[f"trails-{name}"] = _page(f"trails-{name}", _short(made), rf"\fBtrails {usage}", COMMANDS=listed)
    for name, text in pages.items():
        (folder / f"{name}.1").write_text(text, encoding="utf-8")
    return len(pages)


def command_page(path: str, made: click.Command, root: click.Context) -> str:
    """Return the page of one command; `path` is what is typed for it after `trails`."""
    context = click.Context(made, info_name=path, parent=root)
    usage = " ".join(made.collect_usage_pieces(context))
    return _page(
        f"trails-{path.replace(' ', '-')}",
        _short(made),
        rf"\fBtrails {_roff_text(path)}\fR {_roff_text(usage)}",
        DESCRIPTION=_paragraphs(made.help or ""),
        OPTIONS=_entries(each for one in made.params if (each := one.get_help_record(context))),
        EXAMPLES=_verbatim(examples()[path]),
    )


def _program_page(program: Commands, root: click.Context) -> str:
    summary, _, rest = (program.help or "").partition("\n")
    return _page(
        "trails",
        summary,
        r"\fBtrails\fR [OPTIONS] COMMAND [ARGS]...",
        DESCRIPTION=_paragraphs(rest),
        OPTIONS=_entries(each for one in program.get_params(root) if (each := one.get_help_record(root))),
        COMMANDS=_entries(_shorts(program.every())),
    )


def _page(name: str, summary: str, usage: str, **sections: list[str]) -> str:
    lines = [f'.TH "{name.upper()}" "1" "" "trails {trails.__version__}" "Trails"']
    lines += [".SH NAME", rf"{_roff_text(name)} \- {_roff_text(summary.rstrip('.'))}", ".SH SYNOPSIS", usage]
    for title, text in sections.items():
        lines += [f".SH {title}", *text]
    if name != "trails":
        lines += [".SH SEE ALSO", r"\fBtrails\fR(1), \fBtrails-help\fR(1), \fBtrails-guide\fR(1)"]
    return "\n".join([*lines, ""])


def _short(made: click.Command) -> str:
    return made.get_short_help_str(1000)


def _shorts(commands: Mapping[str, click.Command]) -> Iterable[tuple[str, str]]:
    return ((name, _short(made)) for name, made in commands.items())


def _entries(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, text in pairs for line in (".TP", rf"\fB{_roff_text(name)}\fR", _roff_text(text))]


def _paragraphs(text: str) -> list[str]:
    """Return a help text's paragraphs; one that opens with `\\b` keeps its lines."""
    lines: list[str] = []
    for paragraph in filter(None, (each.strip("\n") for each in re.split(r"\n\s*\n", text.strip()))):
        if paragraph.lstrip().startswith("\b"):
            lines += _verbatim(paragraph.replace("\b", "").strip("\n").splitlines())
        else:
            lines += [".PP", _roff_text(paragraph)]
    return lines


def _verbatim(lines: Iterable[str]) -> list[str]:
    return [".PP", ".nf", *map(_roff_text, lines), ".fi"]


def _roff_text(text: str) -> str:
    r"""Return text that no formatter takes for a request: one line, with `\`, `-` and a first dot escaped."""
    plain = text if "\n" not in text else " ".join(text.split())
    escaped = plain.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


# --- the guide

FOLDER: Final = Path(__file__).parent.parent / "guide"
_NAMES: Final = """
    python command-line branches notebooks context rerun pipeline messages agents keys async graph provenance transcripts
    proofs as-of-then audit redaction durability moving postgres mirrors compared
"""
PAGES: Final = tuple(_NAMES.split())
"""In the order in which one would read them."""
ERRORS: Final = "errors"
"""What the pages of errors have in common: `errors/head-conflict`; by itself, it lists them."""
_PAGE_WIDTH: Final = 120
"""No line of a page is wider: longer ones are hard to read."""
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)?((?:errors/)?[a-z-]+)\.md\)")


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


def read_page(name: str) -> GuidePage:
    """Return a page by its name, or raise `InvalidInput` with the names there are and the nearest of them."""
    if name not in PAGES and name not in error_pages():
        near = did_you_mean(name, (*PAGES, *error_pages()), most=1, cutoff=0.5)
        raise InvalidInput(
            f"the guide has no page {name!r}{near}; its pages are: {', '.join(PAGES)}, and those that "
            f"`trails guide {ERRORS}` lists"
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
    names = error_pages() if incomplete.startswith(f"{ERRORS}/") else (*PAGES, ERRORS)
    return [name for name in names if name.startswith(incomplete)]


@cli.command("guide", store=False)
@click.argument("page", metavar="[PAGE]", required=False, shell_complete=_complete)
def guide(page: str | None) -> None:
    """Show a page of the guide, or list the pages.

    A page is about one task, with examples; each error has one too, which its message names, and `trails guide errors`
    lists those. On a terminal a page is laid out for reading; in a pipe it is Markdown.
    """
    if page is None or page == ERRORS:
        pages = [read_page(name) for name in (PAGES if page is None else error_pages())]
        value = {"pages": [_described(each) for each in pages]}
        said = f"`trails guide PAGE` shows a page, `trails guide {ERRORS}` lists those of errors"
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
