"""Command lines that run in this process, as `trails` would run them: a program of its own takes ten times as long."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from trails.cli import main

Run = Callable[..., Result]
"""`invoke`, or what sets some of its arguments; the fixture `run` is it for the store at the fixture `place`."""


def invoke(
    *words: object, store: Path | str | None = None, stdin: str | bytes | None = None, width: int | None = None
) -> Result:
    """Run a command line: on the store at `store`, else on the one that it or TRAILS_STORE names.

    `width` is that of a terminal, to which output is cut; without it nothing is cut. What is no
    error of ours, and no end of the program, is raised.
    """
    line = [*([] if store is None else ["--store", str(store)]), *map(str, words)]
    environment = None if width is None else {"COLUMNS": str(width)}
    return CliRunner().invoke(main, line, stdin, environment, catch_exceptions=False, prog_name="trails")


def ok(result: Result) -> str:
    """What a command that went well wrote to stdout."""
    assert result.exit_code == 0, (result.stdout, result.stderr)
    return result.stdout


def ok_json(result: Result) -> Any:
    """What a command that went well answered, as JSON."""
    return json.loads(ok(result))
