"""Commands that explain: help, guide, demo, and the manual.

The command `help`: all commands, one of them, or the manual's pages.

Man pages of all commands, in the macros of man(7), made from what `--help` says.

`trails guide`: the pages of the guide, which ships inside the package.

`trails demo`: the sample transcript imported, forked, compared, asked about and verified, command by command.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import trails
from trails.cli.examples import EXAMPLES
from trails.cli.options import answer, command, json_option, note, refuse, store_folder, store_location, through_pager
from trails.cli.program import Commands, Group
from trails.errors import InvalidInput
from trails.suggestions import did_you_mean

if TYPE_CHECKING:
    from trails.cli.drawing import Screen


def _commands(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of commands that go on from what was typed, within the group that was named before."""
    found: click.Command | None = ctx.find_root().command
    for word in ctx.params.get("words") or ():
        found = found.commands.get(word) if isinstance(found, click.Group) else None
    return [name for name in found.commands if name.startswith(incomplete)] if isinstance(found, click.Group) else []


@click.command("help")
@click.argument("words", metavar="[COMMAND]", nargs=-1, shell_complete=_commands)
@click.option("--man", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Write man pages there.")
@through_pager
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
        note(f"wrote {written} pages into {man / 'man1'}")
        return
    if not words:
        formatter = context.make_formatter()
        program.format_everything(context, formatter)
        click.echo(formatter.getvalue().rstrip())
        return
    command: click.Command = program
    inner = context
    for word in words:
        if not isinstance(command, click.Group):
            refuse(f"`{inner.command_path}` is no group: it has no command {word!r}")
        name, found, _ = command.resolve_command(inner, [word])
        assert found is not None  # noqa: S101 - what is not found raises
        parent = context if isinstance(command, Group) or command is program else inner
        inner = click.Context(found, info_name=name, parent=parent if command is program else inner)
        command = found
    click.echo(command.get_help(inner))


_SECTION: Final = "1"


def write_pages(program: Commands, folder: Path) -> int:
    """Write `trails.1`, one page for each group and one for each command into a folder; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    root = click.Context(program, info_name="trails")
    pages = {"trails": _program_page(program, root)}
    for path, made in program.every().items():
        pages[f"trails-{path.replace(' ', '-')}"] = command_page(path, made, root)
    for name, made in program.commands.items():
        if isinstance(made, Group):
            pages[f"trails-{name}"] = _group_page(name, made)
    for name, text in pages.items():
        (folder / f"{name}.{_SECTION}").write_text(text, encoding="utf-8")
    return len(pages)


def command_page(path: str, command: click.Command, root: click.Context) -> str:
    """Return the page of one command; `path` is what is typed for it after `trails`."""
    context = click.Context(command, info_name=path, parent=root)
    usage = " ".join(command.collect_usage_pieces(context))
    options = [each for parameter in command.params if (each := parameter.get_help_record(context))]
    return "\n".join(
        [
            *_title(f"trails-{path.replace(' ', '-')}", command.get_short_help_str(1000)),
            ".SH SYNOPSIS",
            rf"\fBtrails {_roff_text(path)}\fR {_roff_text(usage)}",
            ".SH DESCRIPTION",
            *_paragraphs(command.help or ""),
            ".SH OPTIONS",
            *(line for names, says in options for line in (".TP", rf"\fB{_roff_text(names)}\fR", _roff_text(says))),
            ".SH EXAMPLES",
            *_verbatim(EXAMPLES[path]),
            *_see_also(),
            "",
        ]
    )


def _program_page(program: Commands, root: click.Context) -> str:
    options = [each for parameter in program.get_params(root) if (each := parameter.get_help_record(root))]
    lines = [
        *_title("trails", (program.help or "").partition("\n")[0]),
        ".SH SYNOPSIS",
        r"\fBtrails\fR [OPTIONS] COMMAND [ARGS]...",
        ".SH DESCRIPTION",
        *_paragraphs((program.help or "").partition("\n")[2]),
        ".SH OPTIONS",
        *(line for names, says in options for line in (".TP", rf"\fB{_roff_text(names)}\fR", _roff_text(says))),
        ".SH COMMANDS",
    ]
    for path, made in program.every().items():
        lines += [".TP", rf"\fB{_roff_text(path)}\fR", _roff_text(made.get_short_help_str(1000))]
    return "\n".join([*lines, ""])


def _group_page(name: str, group: Group) -> str:
    lines = [
        *_title(f"trails-{name}", group.get_short_help_str(1000)),
        ".SH SYNOPSIS",
        rf"\fBtrails {_roff_text(name)}\fR COMMAND [ARGS]...",
        ".SH COMMANDS",
    ]
    for each, made in group.commands.items():
        lines += [".TP", rf"\fB{_roff_text(each)}\fR", _roff_text(made.get_short_help_str(1000))]
    return "\n".join([*lines, *_see_also(), ""])


def _title(name: str, says: str) -> list[str]:
    heading = f'.TH "{name.upper()}" "{_SECTION}" "" "trails {trails.__version__}" "Trails"'
    return [heading, ".SH NAME", rf"{_roff_text(name)} \- {_roff_text(says.rstrip('.'))}"]


def _paragraphs(text: str) -> list[str]:
    """Return a help text's paragraphs; one that opens with `\\b` keeps its lines."""
    lines: list[str] = []
    for paragraph in filter(None, (each.strip("\n") for each in re.split(r"\n\s*\n", text.strip()))):
        kept = paragraph.lstrip().startswith("\b")
        lines += (
            _verbatim(paragraph.replace("\b", "").strip("\n").splitlines()) if kept else [".PP", _roff_text(paragraph)]
        )
    return lines


def _verbatim(lines: tuple[str, ...] | list[str]) -> list[str]:
    return [".PP", ".nf", *map(_roff_text, lines), ".fi"]


def _see_also() -> list[str]:
    return [".SH SEE ALSO", r"\fBtrails\fR(1), \fBtrails-help\fR(1), \fBtrails-guide\fR(1)"]


def _roff_text(text: str) -> str:
    r"""Return text that no formatter takes for a request: one line where it was several, `\`, `-` and a first dot escaped."""
    plain = text if "\n" not in text else " ".join(text.split())
    escaped = plain.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


FOLDER: Final = Path(__file__).parent.parent / "guide"
PAGES: Final = (
    *("python", "command-line", "branches", "notebooks", "context"),
    *("rerun", "pipeline", "messages", "agents", "keys", "async"),
    *(
        "graph",
        "provenance",
        "transcripts",
        "proofs",
        "as-of-then",
        "audit",
        "redaction",
        "durability",
        "moving",
        "postgres",
        "mirrors",
        "compared",
    ),
)
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


@click.command("guide")
@click.argument("page", metavar="[PAGE]", required=False, shell_complete=_complete)
@json_option
def guide(page: str | None, as_json: bool) -> None:
    """Show a page of the guide, or list the pages.

    A page is about one task, with examples; each error has one too, which its message names, and `trails guide errors`
    lists those. On a terminal a page is laid out for reading; in a pipe it is Markdown.
    """
    if page is None or page == ERRORS:
        pages = [read_page(name) for name in (PAGES if page is None else error_pages())]
        value = {"pages": [_described(each) for each in pages]}
        said = f"`trails guide PAGE` shows a page, `trails guide {ERRORS}` lists those of errors"
        answer(value, pages, _draw_pages, said=said, as_json=as_json)
    else:
        found = read_page(page)
        answer(_described(found) | {"text": found.text}, found, _draw_page, as_json=as_json)


def _draw_pages(pages: Sequence[GuidePage]) -> None:
    from trails.cli import drawing

    drawing.print_table(("page", "what it is for"), [(p.name, p.summary) for p in pages], fold=("what it is for",))


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

    from trails.cli import drawing

    screen = drawing.screen()
    sessions = with_commands(page.text).replace("```python\n", "```pycon\n")  # lines after >>>, and what they give
    laid_out = Markdown(sessions, code_theme="ansi_dark")  # on the terminal's own background, whatever it is
    with screen.use_theme(Theme({"markdown.code": "bold cyan"})):
        screen.print(laid_out, width=min(screen.width, _PAGE_WIDTH))


SAMPLES: Final = Path(__file__).parent.parent / "_samples"
_SAMPLE: Final = "{sample}"
_SHOWN: Final = {_SAMPLE: '"$(trails demo --sample-path)"'}
_PLAN: Final = "plan"
_WHAT_IF: Final = "what-if"
_IMPORTED: Final = "claude-code:release-plan"
_DEMO_WIDTH: Final = 100
"""How wide the demo prints where stdout is no terminal."""

_QUESTION: Final = "What if the alias goes, and we call it 2.0?"
_ANSWER: Final = "Then the changelog needs a migration section, and Thursday is still possible."


@dataclass(frozen=True, slots=True)
class _Step:
    """A command of the demo and what to say before it."""

    text: str
    arguments: Sequence[str]


_STEPS: Final = (
    _Step(
        "A coding agent's transcript comes in: its user went back once, and a sub-agent checked the docs.",
        ("import", "--create", _SAMPLE),
    ),
    _Step("A label is easier to type than an id.", ("label", _IMPORTED, _PLAN)),
    _Step("Three sessions came of it: the conversation, the path that was given up, and the sub-agent.", ("list",)),
    _Step("How they hang together: the index that a fork starts at, the first digits of each head.", ("tree",)),
    _Step("The conversation itself.", ("show", _PLAN)),
    _Step(
        "Now go back to index 4 and try another way. The fork shares turns 0 to 3 and copies none.",
        ("fork", _PLAN, "--at", "4", "--label", _WHAT_IF),
    ),
    _Step("The fork goes on by itself.", ("append", _WHAT_IF, "user", _QUESTION)),
    _Step("", ("append", _WHAT_IF, "assistant", _ANSWER, "--model", "m-1")),
    _Step("What differs? Only what comes after the fork is read.", ("diff", _PLAN, _WHAT_IF, "--side-by-side")),
    _Step("All branches of the conversation in one table.", ("compare", _PLAN)),
    _Step("And as a graph, newest turns first.", ("log", "--graph")),
    _Step(
        "It is all RDF. Who and what influenced the fork's answer?",
        ("query", "influences", "-p", f"session={_WHAT_IF}", "-p", "index=5"),
    ),
    _Step("What did all of it cost? (`trails queries` lists what else can be asked.)", ("cost",)),
    _Step("And nothing was altered since it was written.", ("verify",)),
    _Step("What else there is stands in a guide, a page a task.", ("guide",)),
)


@command("demo")
@click.option("--create", is_flag=True, help="With --store: create the store if it is not there.")
@click.option("--sample-path", is_flag=True, help="Only print where the sample transcript is.")
def demo(create: bool, sample_path: bool) -> None:
    """Show what Trails does, with a sample transcript.

    It takes a few seconds. Everything happens in a temporary store that is removed at the end, unless --store names one
    to use and keep; the environment's TRAILS_STORE is left alone. Each step prints the command that repeats it.
    """
    if sample_path:
        click.echo(SAMPLES)
        return
    named = store_location(named_only=True)
    if named is None:
        with tempfile.TemporaryDirectory(prefix="trails-demo-") as folder:
            _run(str(Path(folder) / "demo.trails"))
        return
    store_folder()  # the steps are for a folder
    if not create and not Path(named).is_dir():
        refuse(f"there is no store at {named}; give --create to make one there, or leave --store out")
    _refuse_if_seen(named)
    _run(named)
    note(f"the store {named} keeps all this")


def _refuse_if_seen(location: str) -> None:
    import trails

    if not (Path(location) / "trails.json").exists():
        return
    with trails.open(location) as store:
        for label in (_PLAN, _WHAT_IF):
            if store.list(label=label):
                refuse(
                    f"the store {location} has a session labelled {label!r} already; name another store for the demo"
                )


def _run(location: str) -> None:
    from trails.cli import drawing

    context = click.get_current_context()
    if not sys.stdout.isatty():
        context.meta[drawing.WIDTH] = _DEMO_WIDTH
    screen = drawing.screen()
    _heading(screen, "Every command below can be repeated like this:", "export TRAILS_STORE=./demo.trails")
    for step in _STEPS:
        _take(step, screen, context, location)


def _take(step: _Step, screen: Screen, context: click.Context, location: str) -> None:
    """Print a command as one would type it, then run it, in this process."""
    shown = " ".join(_SHOWN.get(each) or shlex.quote(each) for each in step.arguments)
    _heading(screen, step.text, f"trails {shown}")
    real = ["--store", location, *(str(SAMPLES) if each == _SAMPLE else each for each in step.arguments)]
    sys.stdout.flush()
    program = context.find_root().command
    program.main(real, prog_name="trails", standalone_mode=False, parent=context)
    sys.stdout.flush()


def _heading(screen: Screen, text: str, *commands: str) -> None:
    from rich.text import Text

    screen.print()
    if text:
        screen.print(Text(text, style="italic"))
    for each in commands:
        screen.print(Text(f"$ {each}", style="bold magenta"), soft_wrap=True)  # one line, as one would paste it
