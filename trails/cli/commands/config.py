"""`trails config`: every setting, and where its value comes from."""

from __future__ import annotations

from typing import Any

import click

from trails.cli import config_file
from trails.cli import options as cli
from trails.cli.program import Commands
from trails.store.postgres.address import shown


@cli.command("config")
def show_config() -> None:
    """Show every setting, its value, and where that comes from.

    The command line goes before the environment, and that before the config file: the one that TRAILS_CONFIG names, or
    trails/config.toml in the user's folder of such files (an empty TRAILS_CONFIG names none). The file also holds defaults
    for the options of commands, and aliases; `trails guide command-line` shows one. All of it is checked.
    """
    context = click.get_current_context()
    config: config_file.ConfigFile = context.meta[config_file.CONFIG]
    program = context.find_root().command
    assert isinstance(program, Commands)  # noqa: S101 - there is one program
    rows = [*config_file.sources(context.meta), *config_file.command_rows(config, program.every())]
    for row in rows:
        if row["name"] == "store":
            row["value"] = shown(row["value"])  # no password
    is_there = config.path is not None and config.path.is_file()
    value = {"file": str(config.path) if is_there else None, "settings": rows}
    said = None if is_there or config.path is None else f"there is no file {config.path} yet"
    cli.answer(value, rows, cli.table("setting,value,from", _row, fold=("value", "from")), said=said)


def _row(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["name"], "-" if row["value"] is None else str(row["value"]), row["source"]
