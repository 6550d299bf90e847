"""Commands that keep a store well: redact, vacuum, prune, backup, restore, dump, load, upgrade, doctor."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trails.cli.base import (
    command,
    json_option,
    note,
    open_store,
    print_json,
    refuse,
    store_location,
)
from trails.cli.terminal import count, one_line

if TYPE_CHECKING:
    from trails.model import VerifyReport
    from trails.plumbing.pruning import Pruning

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PREFIXES: Final = ("k", "m", "g", "t")
_BYTES: Final[dict[str, int]] = (
    {"b": 1}
    | {f"{prefix}b": int(1000**power) for power, prefix in enumerate(_PREFIXES, 1)}
    | {f"{prefix}ib": int(1024**power) for power, prefix in enumerate(_PREFIXES, 1)}
)
OLDER: Final = "older backups, dumps and exports still hold it"

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirmed(question: str, what: str) -> bool:
    """Ask on a terminal; elsewhere end the command as wrong usage. `what` is what asks, at the start of a sentence."""
    if not sys.stdin.isatty():
        refuse(f"{what} asks first, and stdin is no terminal; give --yes")
    return click.confirm(question, err=True)


def stop(message: str) -> None:
    note(message)
    click.get_current_context().exit(1)


# --- erasure


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
    note(f"what was deleted or redacted is in no file of the store any more; {OLDER}")


def _parse_age(ctx: click.Context, parameter: click.Parameter, value: str | None) -> timedelta | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", value)
    if not found:
        raise click.BadParameter(f"{value!r} is no age; write 90d, 12h, 30m, 45s or 8w", ctx, parameter)
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def _parse_size(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,15})([A-Za-z]*)", value)
    factor = _BYTES.get(found[2].lower() or "b") if found else None
    if found is None or factor is None:
        raise click.BadParameter(f"{value!r} is no size; write 500MB, 1GB, 2GiB or a number of bytes", ctx, parameter)
    return int(found[1]) * factor


@command("prune")
@click.option(
    "--older-than", metavar="AGE", callback=_parse_age, help="Delete sessions unused for longer: 90d, 12h, 8w."
)
@click.option("--keep-count", metavar="N", type=click.IntRange(min=0), help="Delete the oldest until N are left.")
@click.option("--keep-size", metavar="SIZE", callback=_parse_size, help="Delete the oldest until their text fits: 1GB.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--by", metavar="NAME", help="Who deletes; default: each session's principal.")
@yes_option
@json_option
def prune(
    *,
    older_than: timedelta | None,
    keep_count: int | None,
    keep_size: int | None,
    dry_run: bool,
    by: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete sessions that nobody uses any more; print their ids.

    A session's age is that of its last turn. One that others depend on stays while they do; tombstones stay, as with
    `trails delete`. At least one limit is needed; all that are given are kept. It asks first on a terminal; elsewhere
    it needs --yes or --dry-run.
    """
    if older_than is None and keep_count is None and keep_size is None:
        refuse("say what may go: --older-than, --keep-count or --keep-size")
    with open_store() as store:

        def run(dry: bool) -> Pruning:
            return store.prune(older_than=older_than, keep_count=keep_count, keep_bytes=keep_size, dry_run=dry, by=by)

        if not dry_run and not yes:
            doomed = len(run(True).sessions)
            if doomed and not confirmed(f"Delete {count(doomed, 'session')}?", "pruning"):
                stop("nothing was deleted")
        report = run(dry_run)
    if as_json:
        print_json(report.to_dict())
    for session_id in () if as_json else report.sessions:
        click.echo(one_line(session_id))
    done = "would go" if dry_run else "went"
    note(f"{count(len(report.sessions), 'session')} {done}, with {report.text_bytes:,} bytes of text")
    if report.needed:
        note(f"{count(len(report.needed), 'session')} of that age stay: others depend on them, or tags name them")
    if report.sessions and not dry_run:
        note(f"the text is in the store's files until `trails vacuum`; {OLDER}")


# --- copies

_NEW_PLACE: Final = click.Path(path_type=Path)


@command("backup")
@click.argument("folder", metavar="FOLDER", type=_NEW_PLACE)
@json_option
def backup(folder: Path, as_json: bool) -> None:
    """Write a whole copy of the store into a new folder.

    The copy is a store: `trails restore` brings it back. On the store's own disk it takes hardly any space or time.
    """
    with open_store() as store:
        store.backup(folder)
    if as_json:
        print_json({"output": str(folder)})
    note(f"backed up to {folder}")


@command("restore")
@click.argument("backup_folder", metavar="BACKUP", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
def restore(backup_folder: Path, as_json: bool) -> None:
    """Make a new store from a backup, and verify it.

    The store that --store or TRAILS_STORE names must not be there yet. The exit code is 1 where something was found.
    """
    from trails.cli import render
    from trails.session import restore as recovery

    with render.working("restoring"):
        report = recovery.restore(backup_folder, Path(store_location() or ""))
    _verdict(report, as_json=as_json)


@command("dump")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@json_option
def dump(file: Path, force: bool, as_json: bool) -> None:
    """Write everything that the store holds to a file of sorted N-Quads, compressed with gzip.

    `trails load` makes a store of it, in this version or another. Equal stores give equal files. The log is not in it:
    only a backup can be held against older checkpoints.
    """
    from trails.cli import render

    with open_store() as store, render.progress("dumping") as progress:
        quads = store.dump(file, replace=force, progress=progress)
    if as_json:
        print_json({"output": str(file), "quads": quads})
    note(f"wrote {count(quads, 'quad')} to {file}")


@command("load")
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def load(file: Path, as_json: bool) -> None:
    """Make a new store from a dump, and verify it.

    The store that --store or TRAILS_STORE names must not be there yet, or be empty. A file that does not hold a whole,
    unaltered store leaves nothing behind.
    """
    from trails.cli import render
    from trails.session import restore as recovery

    with render.progress("loading") as progress:
        report = recovery.load(file, Path(store_location() or ""), progress)
    _verdict(report, as_json=as_json)


def _verdict(report: VerifyReport, *, as_json: bool) -> None:
    from trails.cli import render

    if as_json:
        print_json(report.to_dict())
    else:
        render.verdict(render.screen(), report)
    if not report.ok:
        click.get_current_context().exit(1)


@command("upgrade")
@click.option(
    "--backup", "backup_folder", metavar="FOLDER", type=_NEW_PLACE, help="Where the backup goes; default: beside."
)
@json_option
def upgrade(backup_folder: Path | None, as_json: bool) -> None:
    """Bring a store of an older format up to this version's, after a backup.

    A store that is there already is left as it is. Cut short, it goes on when it is run again.
    """
    from trails.plumbing.migrations import upgrade as run

    report = run(Path(store_location() or ""), backup=backup_folder)
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
def doctor(as_json: bool) -> None:
    """Say what is wrong with this machine or the store, and what to do about it.

    It changes nothing, and may run while the store is open elsewhere. The exit code is 1 where something is wrong.
    """
    from trails.store.doctor import doctor as look

    checks = look(Path(store_location() or ""))
    well = all(check.ok for check in checks)
    if as_json:
        print_json({"ok": well, "checks": [check.to_dict() for check in checks]})
    else:
        _print_checks((check.name, check.ok, check.message, check.remedy) for check in checks)
    if not well:
        click.get_current_context().exit(1)


def _print_checks(checks: Iterable[tuple[str, bool, str, str]]) -> None:
    for name, ok, message, remedy in checks:
        click.echo(f"{'ok' if ok else 'wrong':<6} {name:<12} {one_line(message)}")
        if remedy:
            click.echo(f"{'':<6} {'':<12} -> {one_line(remedy)}")
