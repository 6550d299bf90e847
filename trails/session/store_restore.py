"""Make a store from a backup or a dump: it is verified before it takes its place, and never replaces a store."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from trails.display.progress import Progress, moving
from trails.errors import IntegrityError, InvalidInput
from trails.files import as_path, in_words
from trails.history import backup_records, log_leaves
from trails.model.values import Finding, VerifyReport
from trails.session.repository import Repository
from trails.store import dumping, folders, upgrade
from trails.store.embedded import EmbeddedStore, ViewStore
from trails.store.log import log_maintenance

_SHOWN: Final = 3
"""How many findings an error names."""


def restore_store(
    backup: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    original: str | os.PathLike[str] | None = None,
    with_erased: bool = False,
) -> VerifyReport:
    """Copy a backup to a new store and return what `verify` says of it; the backup is only read.

    A backup that holds what was deleted or redacted since raises `InvalidInput` that says so; `with_erased` brings that back
    all the same. It is known by the notice that the erasing store left in the backup's folder, and by the log of `original`,
    the store that the backup is of, where that is there still. Without either nothing is known, and nothing is said.

    A backup of an older format is copied as it is, and the report says that it needs `trails store upgrade`. One in which
    `verify` finds something is restored all the same: it may be the only one there is.

    Raises `InvalidInput` where something stands at `destination` or the backup is none, `StoreFailed` for a backup that
    cannot be opened; nothing is left at `destination` then.
    """
    source, place = as_path(backup, "the backup"), as_path(destination, "the place of the store")
    if not with_erased:
        _refuse_erased(source, None if original is None else as_path(original, "the store that the backup is of"))
    with in_words(place, "written"):
        return _restore(source, place)


def _refuse_erased(backup: Path, original: Path | None) -> None:
    """Raise `InvalidInput` where it is known that a backup holds what was erased since."""
    if original is None:
        found = backup_records.erased_since_backup(backup, None)
    else:
        with contextlib.closing(ViewStore(original)) as store:
            found = backup_records.erased_since_backup(backup, store)
    if found:
        shown = ", ".join(found[:_SHOWN]) + (" and more" if len(found) > _SHOWN else "")
        raise InvalidInput(
            f"{backup} holds what was erased after it was made, by {len(found)} deletions or redactions ({shown}); restoring it "
            "brings that back. Restore another backup, or give with_erased=True (--with-erased) and erase it again"
        )


def _restore(backup: Path, destination: Path) -> VerifyReport:
    log_maintenance.refuse_inside(backup, destination)
    with log_maintenance.staged(destination) as part:
        if folders.is_old(backup):
            upgrade.copy_old(backup, part)
            what = "the backup has an earlier format; run `trails store upgrade` on the restored store"
            return VerifyReport(sessions=0, turns=0, findings=(Finding(code="old-format", message=what),))
        log_maintenance.copy_store(backup, part)
        return _verified(part)


def load_dump(
    file: str | os.PathLike[str], destination: str | os.PathLike[str], progress: Progress | bool | None = None
) -> VerifyReport:
    """Make a store from a dump and return what `verify` says of it; `destination` may be a store that is empty.

    Raises `InvalidInput` for a file that is no whole dump or a place that is not empty, `IntegrityError` where `verify`
    finds anything in what was loaded; nothing is left at `destination` then, or the empty store that was there.
    `progress` is as for `Maintenance.dump`.
    """
    source, place = as_path(file, "the dump"), as_path(destination, "the place of the store")
    with in_words(place, "written"), moving(progress, "loading") as move:
        return _load(source, place, move)


def _load(file: Path, destination: Path, progress: Progress | None) -> VerifyReport:
    empty = folders.is_store(destination)
    if empty:
        _require_empty(destination)
    with log_maintenance.staged(destination, over_empty_store=empty) as part:
        dumping.load(file, part, progress)
        report = _verified(part, new=True)
        if not report.ok:
            shown = "; ".join(finding.message for finding in report.findings[:_SHOWN])
            raise IntegrityError(
                f"{file} does not hold a whole, unaltered store ({len(report.findings)} findings: {shown}); nothing was "
                "loaded. Use another dump or a backup"
            )
    return report


def _require_empty(folder: Path) -> None:
    with Repository(EmbeddedStore(folder)) as store:
        if len(store.store):
            raise InvalidInput(f"the store {folder} is not empty; load into a new one")


def _verified(folder: Path, *, new: bool = False) -> VerifyReport:
    """Return what `verify` says of a store; a `new` one, which came from a dump, begins its log first."""
    with Repository(EmbeddedStore(folder)) as store:
        if new:
            log_leaves.begin_session(store.store)
        return store.verify()
