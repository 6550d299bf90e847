"""`trails guide`: the pages of the guide, which ships inside the package."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from trails.cli.base import answer, json_option
from trails.errors import InvalidInput
from trails.nearest import did_you_mean

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
_WIDTH: Final = 120
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
    from trails.cli import render

    render.print_table(("page", "what it is for"), [(p.name, p.summary) for p in pages], fold=("what it is for",))


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

    from trails.cli import render

    screen = render.screen()
    sessions = with_commands(page.text).replace("```python\n", "```pycon\n")  # lines after >>>, and what they give
    laid_out = Markdown(sessions, code_theme="ansi_dark")  # on the terminal's own background, whatever it is
    with screen.use_theme(Theme({"markdown.code": "bold cyan"})):
        screen.print(laid_out, width=min(screen.width, _WIDTH))
