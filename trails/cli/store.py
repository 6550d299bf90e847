"""Commands about the store itself: init, info, vacuum, upgrade, doctor."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from trails.cli.base import (
    IN_OLDER_COPIES,
    command,
    end,
    json_option,
    note,
    open_store,
    print_json,
    store_location,
)
from trails.cli.terminal import count, one_line


@command("init")
def init() -> None:
    """Create an empty store.

    The folder is the one that --store or TRAILS_STORE names. A store that is there already is left as it is.
    """
    with open_store(create=True) as store:
        sessions = store.info()["sessions"]
    note(f"the store {store_location()} is ready and holds {count(sessions, 'session')}")


@command("info")
@json_option
def info(as_json: bool) -> None:
    """Say where the store is and what it holds."""
    with open_store() as store:
        facts = store.info()
    if as_json:
        print_json(facts)
        return
    from trails.cli import render

    render.screen().print(
        render.grid({name: f"{value:,}" if type(value) is int else value for name, value in facts.items()})
    )


@command("vacuum")
@json_option
def vacuum(as_json: bool) -> None:
    """Rebuild the store's files, so that nothing deleted or redacted is in any of them.

    It needs as much free space again as the store has. Cut short, it leaves the store as it was or rebuilt.
    """
    from trails.cli import render

    with open_store() as store, render.working("rebuilding"):
        report = store.vacuum()
    if as_json:
        print_json(report.to_dict())
    else:
        click.echo(f"{report.bytes_before:,} bytes before, {report.bytes_after:,} after")
    note(f"what was deleted or redacted is in no file of the store any more; {IN_OLDER_COPIES}")


@command("upgrade")
@click.option(
    "--backup",
    "backup_folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Where the backup goes; default: beside.",
)
@json_option
def upgrade_store(backup_folder: Path | None, as_json: bool) -> None:
    """Bring a store of an older format up to this version's, after a backup.

    A store that is there already is left as it is. Cut short, it goes on when it is run again.
    """
    from trails.plumbing.migrations import upgrade

    report = upgrade(Path(store_location() or ""), backup=backup_folder)
    if as_json:
        print_json(report.to_dict())
        return
    if report.backup is None:
        note(f"the store has format {report.before}, the newest; nothing was to do")
        return
    for line in (*report.steps, *report.notes):
        click.echo(line)
    note(f"the store has format {report.after} now; as it was, it is at {report.backup}")


@command("doctor")
@json_option
def check_machine(as_json: bool) -> None:
    """Say what is wrong with this machine or the store, and what to do about it.

    It changes nothing, and may run while the store is open elsewhere. The exit code is 1 where something is wrong.
    """
    from trails.store.doctor import doctor

    checks = doctor(Path(store_location() or ""))
    well = all(check.ok for check in checks)
    if as_json:
        print_json({"ok": well, "checks": [check.to_dict() for check in checks]})
    else:
        _print_checks((check.name, check.ok, check.message, check.remedy) for check in checks)
    if not well:
        end(1)


def _print_checks(checks: Iterable[tuple[str, bool, str, str]]) -> None:
    for name, ok, message, remedy in checks:
        click.echo(f"{'ok' if ok else 'wrong':<6} {name:<12} {one_line(message)}")
        if remedy:
            click.echo(f"{'':<6} {'':<12} -> {one_line(remedy)}")
