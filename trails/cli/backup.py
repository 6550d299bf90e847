"""Commands that copy a store and bring it back: backup, restore, dump, load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trails.cli.base import (
    EXISTING_FILE,
    NEW_FILE,
    answer,
    command,
    json_option,
    note,
    open_store,
    refuse,
    refuse_in_store,
    store_folder,
)
from trails.cli.terminal import count
from trails.cli.verify import answer_report

if TYPE_CHECKING:
    pass


@command("backup")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@json_option
def backup(folder: Path, as_json: bool) -> None:
    """Write a whole copy of the store into a new folder.

    The copy is a store: `trails store restore` brings it back. On the store's own disk it takes hardly any space or time.
    """
    with open_store() as store:
        store.maintenance.backup(folder)
    answer({"output": str(folder)}, None, click.echo, as_json=as_json)
    note(f"backed up to {folder}")


@command("restore")
@click.argument("backup_folder", metavar="BACKUP", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
def restore_backup(backup_folder: Path, as_json: bool) -> None:
    """Make a new store from a backup, and verify it.

    The store that --store or TRAILS_STORE names must not be there yet. The exit code is 1 where something was found.
    """
    from trails.cli import render
    from trails.session import restore

    with render.working("restoring"):
        report = restore.restore(backup_folder, store_folder())
    answer_report(report, as_json=as_json)


@command("dump")
@click.argument("file", metavar="FILE", type=NEW_FILE)
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@json_option
def dump(file: Path, force: bool, as_json: bool) -> None:
    """Write everything that the store holds to a file.

    The file holds sorted N-Quads, compressed with gzip. `trails store load` makes a store of it, in this version or another.
    Equal stores give equal files. The log is not in it: only a backup can be held against older checkpoints.
    """
    from trails.cli import render

    if str(file) == "-":
        refuse("a dump is compressed, and never written to stdout; name a file")
    refuse_in_store(file)
    with open_store(reading=True) as store, render.progress("dumping") as progress:
        quads = store.maintenance.dump(file, replace=force, progress=progress)
    answer({"output": str(file), "quads": quads}, None, click.echo, as_json=as_json)
    note(f"wrote {count(quads, 'quad')} to {file}")


@command("load")
@click.argument("file", metavar="FILE", type=EXISTING_FILE)
@json_option
def load_dump(file: Path, as_json: bool) -> None:
    """Make a new store from a dump, and verify it.

    The store that --store or TRAILS_STORE names must not be there yet, or be empty. A file that does not hold a whole,
    unaltered store leaves nothing behind.
    """
    from trails.cli import render
    from trails.session import restore

    with render.progress("loading") as progress:
        report = restore.load(file, store_folder(), progress)
    answer_report(report, as_json=as_json)
