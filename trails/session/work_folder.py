"""See how the files in a folder differ from those that are recorded.

What `.gitignore` files name is left out, as git leaves it out; so are `.git`, stores of Trails, and what is no file. What is
left out is told.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trails.display.tables import optional
from trails.errors import InvalidInput
from trails.files import as_path
from trails.model.file_versions import FileChange, FileVersion, Mode, path_fault
from trails.store.folders import is_store

MAX_BYTES: Final = 1 << 20
"""Bytes above which a file's content is not kept, unless another limit is given."""
MAX_FILES: Final = 20_000
"""Files of a folder that are recorded at once; a turn carries a reference to each that changed."""

_ALL_BELOW: Final = re.compile(r"/\*\*\s*$")


@dataclass(frozen=True, slots=True)
class FileLeftOut:
    """A file or a folder that is not recorded, or whose content is not kept, and why."""

    path: str
    reason: str


class FolderChanges(list[FileVersion]):
    """What changed in a folder, as `append(files=...)` takes it, and what was left out."""

    def __init__(self, versions: Sequence[FileVersion], left_out: Sequence[FileLeftOut]) -> None:
        super().__init__(versions)
        self.left_out = tuple(left_out)
        """What is not recorded, or not with its content."""


@dataclass(slots=True)
class _Seen:
    """A file as it is on disk. Its content is read where it is needed."""

    path: str
    mode: Mode
    size: int
    changed: float
    """When it was changed, by the system's clock (ctime)."""
    digest: str
    data: bytes | None


@dataclass(slots=True)
class WorkFolder:
    """A folder in which agents work. Files that did not change since the last look are not read again."""

    root: Path
    max_bytes: int = MAX_BYTES
    _digests: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = as_path(self.root, "the folder of the work").resolve()
        if not self.root.is_dir():
            raise InvalidInput(f"{self.root} is no folder; name the one that the agent works in")

    def changes(self, recorded: Sequence[FileChange], *, outside: bool = False) -> FolderChanges:
        """Return how the files differ from what is recorded of them, and what was left out."""
        left_out: list[FileLeftOut] = []
        versions = [version for version, _ in self.look(recorded, left_out)]
        return FolderChanges([each.model_copy(update={"outside": outside}) for each in versions], left_out)

    def look(
        self, recorded: Sequence[FileChange], left_out: list[FileLeftOut]
    ) -> list[tuple[FileVersion, float | None]]:
        """Return what changed, each with when: None for what is gone. What is left out is added to a list."""
        before = {change.path: change for change in recorded}
        found: list[tuple[FileVersion, float | None]] = []
        there = set[str]()
        for path in self._walk("", [], left_out):
            if len(there) >= MAX_FILES:
                raise InvalidInput(
                    f"{self.root} has more than {MAX_FILES:,} files, the most that are recorded; name a folder below it, or "
                    "more in .gitignore"
                )
            there.add(path)
            known = before.get(path)
            try:
                seen = self._seen(path, known)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR):
                    there.discard(path)  # it went while it was looked at
                else:
                    left_out.append(FileLeftOut(path, f"cannot be read: {error.strerror}"))
                continue
            if seen.size > self.max_bytes:
                left_out.append(FileLeftOut(path, f"has more than {self.max_bytes:,} bytes: its content is not kept"))
            if known is None or (known.mode, known.after) != (seen.mode, seen.digest):
                found.append((self._version(seen), seen.changed))
        gone = filter(self._is_gone, sorted(before.keys() - there))
        return [*found, *((FileVersion(path=path, mode="deleted"), None) for path in gone)]

    def _is_gone(self, path: str) -> bool:
        """Tell whether a file is surely not there; one that cannot be looked at may be."""
        try:
            (self.root / path).lstat()
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.ENOTDIR)
        return False

    def _version(self, seen: _Seen) -> FileVersion:
        if seen.data is None:
            said = json.dumps({"sha256": seen.digest, "size": seen.size}).encode()
            return FileVersion(path=seen.path, data=said, mode=seen.mode, left_out="too large")
        return FileVersion(path=seen.path, data=seen.data, mode=seen.mode)

    def _seen(self, path: str, known: FileChange | None) -> _Seen:
        """Look at a file or a link; its content comes along where it is not what is known."""
        place = self.root / path
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode):
            data = os.fsencode(place.readlink())
            return _Seen(path, "symlink", len(data), status.st_ctime, hashlib.sha256(data).hexdigest(), data)
        stamp = _stamp(status)
        if (kept := self._digests.get(path)) is not None and kept[0] == stamp:
            mode = _mode(status)
            if known is not None and (known.mode, known.after) == (mode, kept[1]):
                return _Seen(path, mode, status.st_size, status.st_ctime, kept[1], b"")
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "is no file", str(place))
            is_kept = status.st_size <= self.max_bytes
            data = file.read(self.max_bytes + 1) if is_kept else b""
            if len(data) > self.max_bytes or not is_kept:
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                found = _Seen(path, _mode(status), max(status.st_size, len(data)), status.st_ctime, digest, None)
            else:
                digest = hashlib.sha256(data).hexdigest()
                found = _Seen(path, _mode(status), len(data), status.st_ctime, digest, data)
            if _stamp(os.fstat(file.fileno())) == stamp:
                self._digests[path] = (stamp, digest)
        return found

    def _walk(self, folder: str, ignoring: list[tuple[str, Any]], left_out: list[FileLeftOut]) -> Iterator[str]:
        """Yield the paths of files and links, those left out apart; links to folders are links."""
        ignoring = [*ignoring, *self._ignoring(folder)]
        try:
            entries = sorted(os.scandir(self.root / folder), key=lambda entry: entry.name)
        except OSError as error:
            left_out.append(FileLeftOut(folder or ".", f"cannot be read: {error.strerror}"))
            return
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git":
                left_out.append(FileLeftOut(path, "is git's own"))
            elif fault := path_fault(path):
                left_out.append(FileLeftOut(os.fsencode(path).decode("utf-8", "backslashreplace"), f"its path {fault}"))
            elif _is_ignored(path, is_folder, ignoring):
                left_out.append(FileLeftOut(path, "is ignored by .gitignore"))
            elif is_folder and is_store(Path(entry.path)):
                left_out.append(FileLeftOut(path, "is a store of Trails"))
            elif is_folder:
                yield from self._walk(path, ignoring, left_out)
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield path
            else:
                left_out.append(FileLeftOut(path, "is no file: a pipe, a socket or a device"))

    def _ignoring(self, folder: str) -> list[tuple[str, Any]]:
        """Return the rules of a folder's .gitignore, with the folder."""
        try:
            lines = (self.root / folder / ".gitignore").read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        pathspec = optional("pathspec", "files", "leaving out what .gitignore names")
        # What `a/**` names, `a/*` names too, folder by folder; for pathspec the first one names `a` itself.
        lines = [_ALL_BELOW.sub("/*", line) for line in lines]
        return [(f"{folder}/" if folder else "", pathspec.GitIgnoreSpec.from_lines(lines))]


def _is_ignored(path: str, is_folder: bool, ignoring: Sequence[tuple[str, Any]]) -> bool:
    """Tell whether rules ignore a path: those of the deepest folder that say anything decide."""
    for folder, spec in reversed(ignoring):
        asked = path.removeprefix(folder) + ("/" if is_folder else "")
        if (said := spec.check_file(asked).include) is not None:
            return bool(said)
    return False


def _mode(status: os.stat_result) -> Mode:
    return "executable" if status.st_mode & stat.S_IXUSR else "file"


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
