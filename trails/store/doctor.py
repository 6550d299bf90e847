"""What is wrong with this machine or with a store, and what to do about it.

It can be asked while the store is open elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from trails.errors import StoreFailed, TrailsError
from trails.files import as_path, in_words
from trails.integrity import leaves
from trails.store import folders
from trails.store.embedded import ViewStore
from trails.store.index import index_folder
from trails.store.index.index_folder import IndexFolder
from trails.store.log import log_maintenance, sqlite

_FILES: Final = 1024
"""Files that a process should be able to open: the engine keeps all of a store's files open."""
_FREE_BYTES: Final = 500 * 1024 * 1024
_FREE_SHARE: Final = 0.05
_ENGINE: Final = ((0, 5, 13), (0, 6))
"""The versions of the engine that this package was tested with: from, and up to but not including."""

_EXTRAS: Final = {
    "checkpoint": "cryptography",
    "encryption": "cryptography",
    "timestamps": "rfc3161_client",
    "scitt": "cbor2",
    "pandas": "pandas",
    "arrow": "pyarrow",
    "plot": "matplotlib",
    "shacl": "pyshacl",
    "aio": "anyio",
    "stats": "scipy",
    "semantic": "model2vec",
    "zstd": "zstandard",
    "files": "pathspec",
    "postgres": "psycopg",
    "secrets": "detect_secrets",
    "prices": "genai_prices",
    "langgraph": "langgraph.checkpoint",
    "openai-agents": "agents",
    "claude-agent-sdk": "claude_agent_sdk",
    "google-adk": "google.adk",
    "langchain": "langchain_core",
    "pydantic-ai": "pydantic_ai",
    "agent-framework": "agent_framework",
    "opentelemetry": "opentelemetry.sdk",
    "mcp": "mcp",
    "serve": "starlette",
    "remote": "httpx",
    "tui": "textual",
    "html": "nh3",
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
    if not folders.is_store(folder):
        remedy = "check the path (--store, TRAILS_STORE), or make a store with `trails init`"
        return [*checks, Check("store", False, f"there is no store at {folder}", remedy)]
    if folders.is_old(folder):
        what = "the store has the format of an earlier version of Trails"
        return [*checks, Check("format", False, what, f"trails store upgrade --store {folder}")]
    return [*checks, *_files(folder), *_log(folder)]


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
    missing = [extra for extra, module in _EXTRAS.items() if not _is_installed(module)]
    here = ", ".join(extra for extra in _EXTRAS if extra not in missing) or "none"
    return Check("extras", True, f"installed: {here}" + (f"; not installed: {', '.join(missing)}" if missing else ""))


def _is_installed(module: str) -> bool:
    with suppress(ModuleNotFoundError):  # the package that the module is in is not there
        return find_spec(module) is not None
    return False


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
    yield Check("format", True, f"format {sqlite.FORMAT}, which this version reads and writes")
    yield _disk(folder)
    yield _space(folder)
    yield _permissions(folder)
    yield _leftovers(folder)
    yield _readers(folder)


def _disk(folder: Path) -> Check:
    kind = sqlite.file_system(folder / sqlite.NAME)
    if kind in sqlite.REMOTE:
        what = f"the store is on a network file system ({kind}), where several processes cannot share a SQLite file"
        return Check("disk", False, what, "put it on a local disk, or in PostgreSQL (`trails guide postgres`)")
    return Check("disk", True, f"the store is on a local disk{f' ({kind})' if kind else ''}")


def _space(folder: Path) -> Check:
    disk = shutil.disk_usage(folder)
    used = log_maintenance.size_of(folder)
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
        *(folder / name for name in (sqlite.NAME, index_folder.NAME)),
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
    names = [path.name for path in IndexFolder(folder).abandoned()]
    if names:
        what = f"processes that were killed left {', '.join(names)} in {index_folder.NAME}"
        return Check("leftovers", False, what, "whoever opens the store next removes them; or remove them")
    beside = [str(path) for path in log_maintenance.abandoned(folder.parent)]
    if beside:
        what = f"a backup, restore, load or dump that was killed left {', '.join(beside)}"
        return Check("leftovers", False, what, "the next such command in that folder removes it; or remove it")
    return Check("leftovers", True, "nothing was cut short")


def _readers(folder: Path) -> Check:
    """Look for processes that have engine files of their own: what was redacted since stays in them."""
    found = IndexFolder(folder).others(None)
    if found:
        said = ", ".join(f"process {each['pid']} on host {each['host']}" for each in found)
        return Check("processes", True, f"the store is open in {said}")
    return Check("processes", True, "no other process has the store's engine open")


def _log(folder: Path) -> Iterator[Check]:
    remedy = "restore a backup (`trails store restore`), or load a dump (`trails store load`)"
    try:
        with contextlib.closing(ViewStore(folder)) as view:
            with view.read_connection() as connection:
                damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            trouble = (None if damage == "ok" else damage) or view.commits.trouble(view)
            if trouble is not None:
                yield Check("log", False, trouble, remedy)
                return
            due = view.commits.home.head().due
            lines = view.log.lines()
            count = len(view)
    except (TrailsError, StoreFailed) as error:
        yield Check("opens", False, f"{error}", remedy)
        return
    yield Check("opens", True, f"the store can be opened, and has {count:,} quads; `trails verify` checks them")
    wrong = [f"line {number} of the log: {what}" for number, what in leaves.check_links(lines)]
    if wrong:
        yield Check("log", False, wrong[0], "`trails verify` says what it means; a backup or a dump has the true one")
    elif due:
        what = f"what commit {due:,} erased is still in the log: the process that did it was killed"
        yield Check("log", False, what, "open the store once to write, which finishes that")
    else:
        yield Check(
            "log", True, f"the log has {view.number:,} commits and {len(lines):,} lines, and is as it was written"
        )
