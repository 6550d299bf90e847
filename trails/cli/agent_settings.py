"""Change an agent's settings with its user's consent: show what changes, ask, keep a copy, write."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import click

from trails.cli import options as cli
from trails.display.terminal_text import one_line
from trails.errors import InvalidInput
from trails.exchange.recording import agent_hook, claude_settings
from trails.files import read_whole, write_whole
from trails.opening import as_location
from trails.store import folders
from trails.store.postgres.address import is_address, parse

_MOST = 16 << 20
"""Bytes that settings may have."""


def lasting(location: str) -> str:
    """Return a store's location as it may stand in settings: a whole path, or a URL without a password."""
    place = as_location(location)
    if not is_address(place):
        return str(folders.absolute(place))
    if parse(place).secrets:
        raise InvalidInput(
            "the store's URL holds a password, which would stand in the settings; put it into ~/.pgpass or PGPASSFILE, and "
            "give the URL without it"
        )
    return place


def change_claude_code(store: str | None, project: Path | None, *, yes: bool) -> None:
    """Let Claude Code record into a store, or with None no more; for a project, or for all of the user's."""
    file = claude_settings.settings_file(project=project)
    before = _read(file)
    try:
        if store is None:
            after = claude_settings.without_hooks(before or "")
        else:
            command = claude_settings.hook_command(agent_hook.own_program(), store)
            after = claude_settings.with_hooks(before or "", command)
    except InvalidInput as error:
        raise InvalidInput(f"{file} {error.message}; nothing was changed") from error
    if after == (before or ""):
        what = "has no hooks of Trails" if store is None else "lets Claude Code record into this store already"
        cli.note(f"{file} {what}; nothing was changed")
        return
    _show(file, before or "", after)
    if not yes:
        cli.confirm(f"Write this to {file}?", "changing an agent's settings", "nothing was changed")
    if _read(file) != before:
        raise click.ClickException(f"{file} was changed meanwhile; nothing was written: run this again")
    _write(file, before, after)
    cli.note(f"wrote {file}; Claude Code reads it when a session begins")


def _read(file: Path) -> str | None:
    """Return what settings hold, None if there are none."""
    try:
        data = read_whole(file, _MOST)
    except FileNotFoundError:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8; nothing was changed") from error


def _show(file: Path, before: str, after: str) -> None:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"{file}", f"{file} (new)", lineterm="", n=2)
    cli.echo_each(one_line(line) for line in lines)


def _write(file: Path, before: str | None, after: str) -> None:
    """Write settings, in the place that a link names, and leave a copy of what was there beside it."""
    place = file.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    mode = place.stat().st_mode & 0o777 if before is not None else 0o600
    if before is not None:
        copy = place.with_name(f"{place.name}.before-trails")
        write_whole(copy, lambda out: out.write(before.encode()))
        cli.note(f"what was there is in {copy}")
    write_whole(place, lambda out: out.write(after.encode()))
    os.chmod(place, mode)  # noqa: PTH101
