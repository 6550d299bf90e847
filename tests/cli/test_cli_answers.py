"""How commands answer: as JSON where it was asked for, else drawn for people; and how their help reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from trails.cli import main, options
from trails.cli.options import STORE, TYPED, answer, there_is_more

ONE_LINE = 62
"""How many characters of a command's first line stand beside the longest name on a terminal of 80."""


class Plan:
    """A value that is not plain; `asked` counts how often it was made so."""

    asked = 0

    def to_dict(self) -> dict[str, Any]:
        self.asked += 1
        return {"turns": 3}


def run(command: Callable[[], None], *arguments: str) -> Result:
    return CliRunner().invoke(options.command("try", store=False)(command), arguments)


def test_json_is_the_whole_answer_and_nothing_is_drawn() -> None:
    drawn: list[object] = []
    result = run(lambda: answer({"plan": Plan()}, [1], drawn.append, said="three turns"), "--json")
    assert (json.loads(result.stdout), result.stderr, drawn) == ({"plan": {"turns": 3}}, "", [])


def test_people_get_the_drawing_on_stdout_and_what_is_said_on_stderr() -> None:
    plan = Plan()
    result = run(lambda: answer(plan, "a drawing", click.echo, empty="nothing", said="three turns"))
    assert (result.stdout, result.stderr, plan.asked) == ("a drawing\n", "three turns\n", 0)


@pytest.mark.parametrize("shown", [None, []])
def test_people_who_are_shown_nothing_are_told_so_on_stderr(shown: list[str] | None) -> None:
    result = run(lambda: answer({}, shown, click.echo, empty="there is nothing"))
    assert (result.stdout, result.stderr) == ("", "there is nothing\n")


def test_what_is_none_is_not_drawn() -> None:
    assert run(lambda: answer({}, None, click.echo)).output == ""


def test_the_next_page_is_a_command_that_can_be_pasted() -> None:
    place = "postgresql://u:secret@h/d?store=s"
    with click.Context(main).scope() as context:
        context.meta.update({TYPED: [f"--store={place}", "search", "--cursor", "x", "--page=2", "it's"], STORE: place})
        assert there_is_more(None) is None
        said = there_is_more("a;b")
    assert said == """there is more: trails '--store=postgresql://h/d?store=s' search 'it'"'"'s' --cursor 'a;b'"""


@pytest.mark.parametrize("name", sorted(main.every()))
def test_the_help_has_one_line_for_a_command(name: str) -> None:
    assert len(main.every()[name].get_short_help_str(limit=1000)) <= ONE_LINE
