"""`trails demo`: the sample transcript imported, forked, compared, asked about and verified, command by command."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trails.cli.base import command, note, refuse, store_folder, store_location

if TYPE_CHECKING:
    from trails.cli.render import Screen

SAMPLES: Final = Path(__file__).parent.parent / "_samples"
_SAMPLE: Final = "{sample}"
_SHOWN: Final = {_SAMPLE: '"$(trails demo --sample-path)"'}
_PLAN: Final = "plan"
_WHAT_IF: Final = "what-if"
_IMPORTED: Final = "claude-code:release-plan"
_WIDTH: Final = 100
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
    from trails.cli import render

    context = click.get_current_context()
    if not sys.stdout.isatty():
        context.meta[render.WIDTH] = _WIDTH
    screen = render.screen()
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
