"""Commands about the store itself: init, info, vacuum, upgrade, doctor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trails.cli.base import (
    IN_OLDER_COPIES,
    answer,
    command,
    echo_each,
    end,
    json_option,
    note,
    open_at,
    open_store,
    store_folder,
    store_location,
)
from trails.cli.terminal import count, one_line

if TYPE_CHECKING:
    from trails.store.doctor import Check


@command("init")
@click.argument("place", required=False)
def init(place: str | None) -> None:
    """Create an empty store.

    PLACE is a folder, or postgresql://HOST/DATABASE?store=NAME; without it, what --store or TRAILS_STORE names. A store that
    is there already is left as it is.
    """
    with open_store(create=True) if place is None else open_at(place, create=True) as store:
        sessions, place = store.info()["sessions"], store.store.location
    note(f"the store {place} is ready and holds {count(sessions, 'session')}")


@command("info")
@json_option
def info(as_json: bool) -> None:
    """Say where the store is and what it holds."""
    with open_store(reading=True) as store:
        facts = store.info()
    answer(facts, facts, _draw_facts, as_json=as_json)


def _draw_facts(facts: Mapping[str, Any]) -> None:
    from trails.cli import render

    shown = {name: f"{value:,}" if type(value) is int else value for name, value in facts.items()}
    render.screen().print(render.grid(shown))


@command("vacuum")
@json_option
def vacuum(as_json: bool) -> None:
    """Rebuild the store without what was deleted or redacted.

    Then no file of it holds any of that. It needs as much free space again as the store has. Cut short, it leaves the
    store as it was or rebuilt.
    """
    from trails.cli import render

    with open_store() as store, render.working("rebuilding"):
        report = store.maintenance.vacuum()
    sizes = f"{report.bytes_before:,} bytes before, {report.bytes_after:,} after"
    answer(report, sizes, click.echo, as_json=as_json)
    if not report.behind:
        note(f"what was deleted or redacted is in no file of the store any more; {IN_OLDER_COPIES}")
        return
    note(f"what was deleted or redacted is in the store no more; {IN_OLDER_COPIES}")
    for each in report.behind:
        note(f"it may still be in the files of {each}")
    note("`sync` there, or close it and delete that folder in the cache of its machine (`trails guide postgres`)")


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
    """Bring a store of an older format up to this version's.

    A backup is made first. A store that is there already is left as it is. Cut short, it goes on when it is run again.
    """
    from trails.plumbing.migrations import upgrade
    from trails.store.postgres.address import is_address

    if is_address(place := store_location() or ""):
        from trails.store.postgres.upkeep import upgrade as upgrade_tables

        report = upgrade_tables(place)
    else:
        report = upgrade(store_folder(), backup=backup_folder)
    said = f"the store has format {report.after} now; as it was, it is at {report.backup}"
    if report.backup is None and report.steps:
        said = f"the store has format {report.after}; its sessions are as they were"
    elif report.backup is None:
        said = f"the store has format {report.before}, the newest; nothing was to do"
    answer(report, (*report.steps, *report.notes), echo_each, said=said, as_json=as_json)


@command("doctor")
@json_option
def check_machine(as_json: bool) -> None:
    """Say what is wrong with this machine or the store.

    It says what to do about it too. It changes nothing, and may run while the store is open elsewhere, which it then
    tells as what is wrong: the store cannot be used here. The exit code is 1 where something is wrong.
    """
    from trails.plumbing import pack_upkeep as packs
    from trails.plumbing import recounting
    from trails.plumbing.index import checks as index_checks
    from trails.store import marker
    from trails.store.doctor import doctor
    from trails.store.postgres.address import is_address

    if is_address(location := store_location() or ""):
        from trails.store.postgres.upkeep import look as look_at_server

        _tell(look_at_server(location), as_json=as_json)
        return
    place = store_folder()
    checks = doctor(place)
    if (place / marker.NAME).is_file():
        checks = [*checks, index_checks.look(place), packs.look(place)]
        if any(check.ok and check.name == "opens" for check in checks):  # nobody has it open, and the engine can
            checks.append(recounting.look(place))
    _tell(checks, as_json=as_json)


def _tell(checks: Sequence[Check], *, as_json: bool) -> None:
    well = all(check.ok for check in checks)
    answer({"ok": well, "checks": checks}, checks, _draw_checks, as_json=as_json)
    if not well:
        end(1)


def _draw_checks(checks: Iterable[Check]) -> None:
    for check in checks:
        click.echo(f"{'ok' if check.ok else 'wrong':<6} {check.name:<12} {one_line(check.message)}")
        if check.remedy:
            click.echo(f"{'':<6} {'':<12} -> {one_line(check.remedy)}")
