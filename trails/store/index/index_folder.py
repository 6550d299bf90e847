"""The engine's files of a store: snapshots that are never changed, and for each process an engine of its own.

`index/` in the store's folder can be deleted at any time: all of it is derived from the log. A snapshot holds the quads as
they were after one record, in files that were synced before it got its name. Whoever needs an engine links to the files of
the newest snapshot, in a folder of its own, and brings in the records that follow. So there is one way for everybody: the
first writer, a second one, a reader, and a store as it was. A folder is locked while its process lives; what nobody
holds was left by a process that was killed, and is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trails.files import PRIVATE, sum_of, sync_folder
from trails.store.log import log_maintenance

NAME: Final = "index"
_SNAPSHOT: Final = ".snapshot"
_ENGINE: Final = ".engine"
_NOTE: Final = "note.json"
_LIVE: Final = "live"
_QUADS: Final = "quads"
_TRIES: Final = 3
"""How often a folder is made in which something is to be made, while others delete it."""
_NOT_LINKED: Final = frozenset({"LOCK", _NOTE})


@dataclass(frozen=True, slots=True)
class Mark:
    """Which state quads are of: the record up to which they have all, its digest, and the last vacuum before."""

    number: int
    digest: bytes
    erased: int
    read_at: int
    """The end of the log when they were read from it: what others rewrote after that they have as it was before."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folder of engine files that is never changed, and what they hold."""

    folder: Path
    mark: Mark
    sums: dict[str, list[int]]
    """Size, time of change and CRC-32 of each table."""


class Private:
    """The folder of one engine of this process. It is removed when this is closed, or after the process died."""

    def __init__(self, folder: Path, descriptor: int, mark: Mark) -> None:
        self.folder = folder
        self.mark = mark
        """What the files held when it was made."""
        self.sums: dict[str, list[int]] = {}
        """What is known of the tables that it links to."""
        self._descriptor = descriptor

    @property
    def quads(self) -> Path:
        """Where the engine is."""
        return self.folder / _QUADS

    def close(self) -> None:
        """Remove it; the engine is gone. Closing twice is allowed."""
        self.let_go()
        shutil.rmtree(self.folder, ignore_errors=True)

    def let_go(self) -> None:
        """Let go of the lock alone."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class IndexFolder:
    """The folder of all engine files of a store; nothing is made before it is needed."""

    def __init__(self, store: Path) -> None:
        self.path = store / NAME

    # --- reading

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots that say what they hold, the newest first."""
        found = []
        for folder in self._folders(_SNAPSHOT):
            with suppress(OSError, ValueError, KeyError, TypeError):
                note = json.loads((folder / _NOTE).read_text("utf-8"))
                mark = Mark(int(note["number"]), bytes.fromhex(note["digest"]), int(note["erased"]), _read_at(note))
                found.append(Snapshot(folder, mark, dict(note["sums"])))
        return sorted(found, key=lambda each: each.mark.number, reverse=True)

    def _folders(self, suffix: str) -> list[Path]:
        with suppress(OSError):
            return [Path(entry.path) for entry in os.scandir(self.path) if entry.name.endswith(suffix)]
        return []

    def is_whole(self, snapshot: Snapshot) -> bool:
        """Tell whether a snapshot's tables are as they were written: those that were touched since are read."""
        for name, (size, modified, crc) in snapshot.sums.items():
            try:
                status = (snapshot.folder / name).stat()
                if (status.st_size, status.st_mtime_ns) != (size, modified) and sum_of(snapshot.folder / name) != (
                    size,
                    crc,
                ):
                    return False
            except OSError:
                return False
        return (snapshot.folder / "CURRENT").is_file()

    # --- engines

    def open_private(self, snapshot: Snapshot | None) -> Private:
        """Return a new private folder with links to the files of a snapshot (None: with nothing).

        It is in `index/`, or among temporary files if nothing can be written there. Raises OSError if there is no place.
        """
        for _ in range(_TRIES):
            try:
                self.path.mkdir(mode=0o700, exist_ok=True)
                with self._locked():
                    self._sweep()
                    return _linked(self.path, snapshot)
            except OSError as error:
                failure = error
                if snapshot is not None and not snapshot.folder.is_dir():
                    raise
                if not isinstance(error, FileNotFoundError):  # else somebody deleted the folder just now
                    break
        with suppress(OSError):
            return _linked(Path(tempfile.gettempdir()), snapshot)
        raise failure

    def _sweep(self) -> None:
        """Remove what processes that were killed have left."""
        for folder in self._left():
            shutil.rmtree(folder, ignore_errors=True)

    def _left(self) -> Iterator[Path]:
        """Return the engine folders that processes that were killed have left, each locked while it is looked at."""
        return log_maintenance.each_abandoned(self._folders(_ENGINE), _held)

    def sweep(self) -> None:
        """Remove what processes that were killed have left. Raises OSError if the disk does not let us look."""
        with suppress(FileNotFoundError):
            os.listdir(self.path)  # noqa: PTH208 - to raise
            with self._locked():
                self._sweep()

    def abandoned(self) -> list[Path]:
        """Return the engine folders that processes that were killed have left."""
        return list(self._left())

    def others(self, own: Private | None) -> list[dict[str, Any]]:
        """Return what the engines of other living processes, or other stores of this one, say of themselves."""
        found, passed = [], {*self.abandoned(), None if own is None else own.folder}
        for folder in self._folders(_ENGINE):
            if folder not in passed:
                with suppress(OSError, ValueError):
                    found.append(json.loads((folder / _LIVE).read_text("utf-8")) | {"name": folder.name})
        return found

    # --- snapshots

    def publish(self, files: Path, mark: Mark, known: dict[str, list[int]]) -> Snapshot:
        """Sync engine files and make them the newest snapshot; older ones are removed. `known` are sums of tables.

        Raises OSError if the disk refuses.
        """
        sums: dict[str, list[int]] = {}
        for entry in os.scandir(files):
            if entry.name in _NOT_LINKED or entry.name.startswith("LOG"):
                os.unlink(entry.path)  # noqa: PTH108 - of a scan
                continue
            status = entry.stat()
            if status.st_mode & 0o077:
                os.chmod(entry.path, PRIVATE)  # noqa: PTH101
            if entry.name.endswith(".sst"):
                old = known.get(entry.name)
                is_known = old is not None and old[:2] == [status.st_size, status.st_mtime_ns]
                if not is_known:
                    _sync(entry.path)
                    old = [status.st_size, status.st_mtime_ns, sum_of(Path(entry.path))[1]]
                sums[entry.name] = old or []
            else:
                _sync(entry.path)
        note = {
            "number": mark.number,
            "digest": mark.digest.hex(),
            "erased": mark.erased,
            "read_at": mark.read_at,
            "sums": sums,
        }
        place = files / _NOTE
        place.touch(PRIVATE)
        place.write_text(json.dumps(note), "utf-8")
        _sync(str(place))
        sync_folder(files)
        with self._locked():
            target = self.path / f"{mark.number}-{secrets.token_hex(4)}{_SNAPSHOT}"
            for other in self.snapshots():
                if (
                    other.mark.number > mark.number and other.mark.erased >= mark.erased
                ) or other.mark.erased > mark.erased:
                    shutil.rmtree(files, ignore_errors=True)
                    return other
            files.rename(target)
            sync_folder(self.path)
            for each in self._folders(_SNAPSHOT):
                if each != target:
                    shutil.rmtree(each, ignore_errors=True)
        return Snapshot(target, mark, sums)

    def discard(self, snapshot: Snapshot) -> None:
        """Remove a snapshot that is damaged, or of another log."""
        with suppress(OSError), self._locked():
            shutil.rmtree(snapshot.folder, ignore_errors=True)

    def discard_all(self) -> None:
        """Remove all snapshots."""
        for each in self.snapshots():
            self.discard(each)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from making, removing or naming folders here meanwhile: for some milliseconds."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _read_at(note: dict[str, Any]) -> int:
    return int(note.get("read_at", note["number"]))  # earlier versions did not note it


def _linked(parent: Path, snapshot: Snapshot | None) -> Private:
    """Make a private folder that is locked, with links to the files of a snapshot, or copies."""
    folder = parent / f"{secrets.token_hex(6)}{_ENGINE}"
    folder.mkdir(mode=0o700)
    live = os.open(folder / _LIVE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        with suppress(OSError):
            fcntl.flock(live, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(live, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        (folder / _QUADS).mkdir(mode=0o700)
        if snapshot is not None:
            for entry in os.scandir(snapshot.folder):
                if entry.name not in _NOT_LINKED:
                    _link(entry, folder / _QUADS / entry.name)
        made = Private(folder, live, Mark(0, bytes(32), 0, 0) if snapshot is None else snapshot.mark)
        made.sums = {} if snapshot is None else dict(snapshot.sums)
        return made
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(live)
        raise


def _link(entry: os.DirEntry[str], place: Path) -> None:
    """Link to a table, which is never changed; copy what the engine writes to, and tables on another device."""
    if entry.name.endswith(".sst"):
        with suppress(OSError):
            os.link(entry.path, place)
            return
    shutil.copy2(entry.path, place)
    place.chmod(PRIVATE)


def _held(folder: Path) -> int | None:
    """Lock a private folder whose process is gone; return the descriptor, or None if its process lives."""
    try:
        descriptor = os.open(folder / _LIVE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        # Its process was killed while it made the folder (nobody else makes one now), or removes it just now.
        with suppress(OSError):
            return os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        return None
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
