"""What is wrong with this machine or with a store, and what to do about it.

It can be asked while the store is open elsewhere: the engine is then left alone, and its LOCK file always is (closing
it would free the lock of the process that holds it).
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from trails.errors import StoreFailed, StoreLocked
from trails.files import as_path, in_words
from trails.integrity import leaves
from trails.store import capture, commitlog, maintenance, marker, staging
from trails.store.lockfile import describe_holder, is_held, unlocked
from trails.store.tables import Tables

_FILES: Final = 1024
"""Files that a process should be able to open: the engine keeps all of a store's files open."""
_FREE_BYTES: Final = 500 * 1024 * 1024
_FREE_SHARE: Final = 0.05
_ENGINE: Final = ((0, 5, 13), (0, 6))
"""The versions of the engine that this package was tested with: from, and up to but not including."""

_EXTRAS: Final = {
    "checkpoint": "cryptography",
    "timestamps": "rfc3161_client",
    "pandas": "pandas",
    "arrow": "pyarrow",
    "plot": "matplotlib",
    "shacl": "pyshacl",
    "aio": "anyio",
    "stats": "scipy",
    "zstd": "zstandard",
    "postgres": "psycopg",
    "secrets": "detect_secrets",
    "prices": "genai_prices",
}
"""The package's extras, and the module that each brings."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `remedy` says what to do where it is not well."""

    name: str
    ok: bool
    message: str
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain values, ready for JSON."""
        return asdict(self)


def doctor(folder: str | os.PathLike[str]) -> list[Check]:
    """Look at this machine, and at the store in a folder, and return what was found, good and bad; change nothing."""
    place = as_path(folder, "the store's folder")
    with in_words(place, "looked at"):
        return _checks(place)


def _checks(folder: Path) -> list[Check]:
    checks = [_python(), _engine_version(), _file_limit(), _extras()]
    if not (folder / marker.NAME).is_file():
        remedy = "check the path (--store, TRAILS_STORE), or make a store with `trails init`"
        return [*checks, Check("store", False, f"there is no store at {folder}", remedy)]
    try:
        with unlocked(folder / maintenance.LOCK):
            of_store = [*_files(folder), Check("lock", True, "nobody has the store open"), *_closed(folder)]
    except StoreLocked:
        holder = describe_holder(folder / maintenance.LOCK)
        remedy = "close it there to use it here, or wait until that process ends"
        of_store = [*_files(folder), Check("lock", False, f"the store is open in {holder}", remedy)]
    return [*checks, *of_store]


# --- this machine


def _python() -> Check:
    return Check("python", True, f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")


def _engine_version() -> Check:
    try:
        found = version("pyoxigraph")
    except PackageNotFoundError:
        found = ox.__version__
    low, high = _ENGINE
    numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdecimal())
    wanted = f"{'.'.join(map(str, low))} up to {'.'.join(map(str, high))}"
    remedy = f'pip install "pyoxigraph>={".".join(map(str, low))},<{".".join(map(str, high))}"'
    ok = low <= numbers < high
    return Check("engine", ok, f"pyoxigraph {found} (tested: from {wanted})", "" if ok else remedy)


def _extras() -> Check:
    """Say which extras are here; none is needed, so that one which is missing is nothing wrong."""
    missing = [extra for extra, module in _EXTRAS.items() if find_spec(module) is None]
    here = ", ".join(extra for extra in _EXTRAS if extra not in missing) or "none"
    return Check("extras", True, f"installed: {here}" + (f"; not installed: {', '.join(missing)}" if missing else ""))


def _file_limit() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FILES:
        return Check("files", True, f"this process may open {'any number of' if soft < 0 else soft} files")
    more = (
        ""
        if hard == resource.RLIM_INFINITY or hard >= 4 * _FILES
        else f" (an administrator must raise the limit of {hard})"
    )
    what = f"this process may open {soft} files, and the engine keeps all of a store's files open"
    return Check("files", False, what, f"ulimit -n {4 * _FILES}{more}")


# --- a store's files


def _files(folder: Path) -> Iterator[Check]:
    yield _format(folder)
    yield _space(folder)
    yield _permissions(folder)
    yield _leftovers(folder)
    yield _readers(folder)


def _format(folder: Path) -> Check:
    try:
        marker.check(folder)
    except StoreFailed as error:
        return Check(
            "format", False, f"{error}", "trails store upgrade, or another version of Trails, or a backup: as it says"
        )
    return Check("format", True, f"format {marker.FORMAT}, which this version reads and writes")


def _space(folder: Path) -> Check:
    disk = shutil.disk_usage(folder)
    used = maintenance.size_of(folder)
    said = f"{_size(disk.free)} of {_size(disk.total)} are free; the store has {_size(used)}"
    if disk.free < _FREE_BYTES or disk.free < _FREE_SHARE * disk.total:
        remedy = "free some space, or move the store: a write to a full disk fails, and the store with it"
        return Check("space", False, said, remedy)
    return Check("space", True, said)


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def _permissions(folder: Path) -> Check:
    """Look at the folder and its own files; what is below is out of reach for others where the folder is."""
    remedies = []
    for path in (
        folder,
        *(folder / name for name in (maintenance.QUADS, marker.NAME, maintenance.LOG, maintenance.LOCK)),
    ):
        if path.exists():
            found = path.stat()
            if stat.S_IMODE(found.st_mode) & 0o077:
                remedies.append(f"chmod {'700' if path.is_dir() else '600'} {path}")
            if found.st_uid != os.geteuid():
                remedies.append(f"chown {os.geteuid()} {path}")
    if remedies:
        return Check("permissions", False, "others may read or own files of the store", "; ".join(remedies))
    return Check("permissions", True, "only this user can read the store")


def _leftovers(folder: Path) -> Check:
    in_use = {folder / maintenance.PAST} if is_held(folder / maintenance.LOCK) else set()
    names = [path.name for path in maintenance.left_over(folder) if path not in in_use]
    if names:
        what = f"a vacuum, a backup or a query of what was (`--as-of`) was cut short and left {', '.join(names)}"
        return Check("leftovers", False, what, "opening the store clears them away: `trails info`")
    beside = [str(path) for path in staging.abandoned(folder.parent)]
    if beside:
        what = f"a backup, restore, load or dump that was killed left {', '.join(beside)}"
        return Check("leftovers", False, what, "the next such command in that folder clears it away; or remove it")
    return Check("leftovers", True, "nothing was cut short")


def _readers(folder: Path) -> Check:
    """Look for links to the store's files, or copies, that readers keep beside it: what is redacted stays in them."""
    found = [str(each) for each in capture.readers_beside(folder)]
    if found:
        what = f"readers have what they saw of the store in {', '.join(found)}, text that was redacted since included"
        return Check(
            "readers", False, what, "close them there; `trails store vacuum` removes what killed ones have left"
        )
    return Check("readers", True, "no reader has a copy of the store's text on disk")


# --- a store that nobody has open


def _closed(folder: Path) -> Iterator[Check]:
    yield _opens(folder)
    yield _log(folder)


def _opens(folder: Path) -> Check:
    remedy = "restore a backup (`trails store restore`), or load a dump (`trails store load`)"
    trouble = maintenance.missing_files(folder) or Tables(folder / maintenance.QUADS).damage()
    if trouble is None:
        try:
            next(iter(ox.Store.read_only(str(folder / maintenance.QUADS))), None)
        except (OSError, RuntimeError) as error:
            trouble = f"{error}"
    if trouble is not None:
        return Check("opens", False, f"the engine cannot open the store: {trouble}", remedy)
    told = "the engine can open the store, and its tables are as they were written"
    return Check("opens", True, f"{told}; `trails verify` checks what is in it")


def _log(folder: Path) -> Check:
    file = folder / maintenance.LOG
    lines = file.read_bytes().decode("utf-8", "replace").split("\n") if file.exists() else [""]
    try:
        waiting = commitlog.unflushed(folder / maintenance.COMMITS, marker.store_id(folder))
    except StoreFailed as error:
        return Check(
            "log", False, f"{error}", "restore a backup (`trails store restore`), or load a dump (`trails store load`)"
        )
    if waiting:
        what = (
            f"the store was not closed in good order (the process ended, or the power went); {waiting:,} commits are in "
            "its commit log"
        )
        return Check(
            "log", False, what, "the next one who opens it to write puts that right; who reads it is right already"
        )
    wrong = [f"line {number} of the log: {what}" for number, what in leaves.check_links(lines[:-1])]
    if lines[-1]:
        wrong.append("the log ends within a line")
    if wrong:
        return Check("log", False, wrong[0], "`trails verify` says what it means; a backup or a dump has the true one")
    return Check("log", True, f"the log has {len(lines) - 1:,} lines and ends in good order")
