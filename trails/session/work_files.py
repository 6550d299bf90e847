"""Tell what a session's turns did to files, and give the files back as they were."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from trails.display.terminal_text import count
from trails.errors import IntegrityError, InvalidInput
from trails.files import as_path
from trails.handles import Handle
from trails.history.pending_session import Worktree
from trails.model import file_versions, validation
from trails.model.file_versions import FileChange
from trails.model.values import Value
from trails.session import file_blame, tree_writer
from trails.session.file_blame import LineBlame

if TYPE_CHECKING:
    from trails.session.work_folder import FolderChanges


class WrittenTree(Value):
    """What came of writing a tree of files."""

    folder: str
    files: int
    """How many files were written, links included."""
    missing: tuple[str, ...] = ()
    """The paths of those whose content is not kept: they are not there."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {"folder": self.folder, "files": self.files, "missing": list(self.missing)}


_Changes = list[FileChange]  # inside the class, `list` is the method
_Lines = list[LineBlame]


class WorkFiles(Handle, public=True):
    """The files that a session's turns worked on: `session.files`. Pending turns count, and inherited ones.

    `append(files=...)` says what a turn made of them, and `trails watch --files` sees it while an agent runs. A fork has the
    files of its parent as they were where it begins.
    """

    def __init__(self, worktree: Worktree) -> None:
        """Not for callers: a session has it."""
        self._worktree = worktree

    def list(self, at: int | None = None) -> _Changes:
        """Return the files that there are after the first `at` turns (None: all), by path, each with its last change.

        Raises `InvalidInput` for more turns than there are.

        >>> import trails
        >>> with trails.open(":memory:") as store, store.create() as s:
        ...     turn = s.append("assistant", "Written.", files={"a.py": b"x = 1", "b.py": b""})
        ...     turn = s.append("assistant", "Deleted.", files={"b.py": None})
        ...     [file.path for file in s.files.list()], [file.path for file in s.files.list(at=1)]
        (['a.py'], ['a.py', 'b.py'])
        """
        return file_versions.files_after(self._changes(at))

    def history(self, path: str | None = None, at: int | None = None) -> _Changes:
        """Return what became of files, or of one by its path, at the first `at` turns (None: all), oldest first."""
        wanted = None if path is None else file_versions.check_path(path)
        return [change for change in self._changes(at) if wanted in (None, change.path)]

    def read(self, path: str, at: int | None = None) -> bytes:
        """Return the content of a file after the first `at` turns (None: all); of a symlink, the path that it names.

        Raises `InvalidInput` where there is no such file then, or its content is not kept, and `IntegrityError` for content
        that was altered.
        """
        wanted = file_versions.check_path(path)
        found = next((each for each in self.list(at) if each.path == wanted), None)
        if found is None:
            raise InvalidInput(
                f"session {self._worktree.id!r} has no file {path!r} then; `trails files` lists those it has"
            )
        return self._read(found)

    def patch(self, change: FileChange) -> str:
        """Return what became of a file at a turn, one of `history`, as a unified diff that `git apply` takes.

        Of content that is no text, or is not kept, it says so in place of the lines.
        """
        return file_blame.unified_patch(change, self.history(change.path), self._read)

    def changes(
        self, folder: str | os.PathLike[str], *, outside: bool | None = None, max_bytes: int | None = None
    ) -> FolderChanges:
        """Return how the files in a folder differ from those that the turns recorded, for `append(files=...)`.

        The folder is the root of the work. What `.gitignore` files name is left out, `.git` and stores of Trails, too; files
        with more than `max_bytes` (1 MiB by default) are recorded without their content. `left_out` of the answer says what
        was left out and why. `outside` says that no turn did it; by default that is so while no turn has recorded a file: what
        is there then was there before.

        Raises `InvalidInput` for what is no folder, `TrailsError` without the extra `files`.
        """
        from trails.session.work_folder import MAX_BYTES, WorkFolder  # noqa: PLC0415 - few sessions record a folder

        limit = MAX_BYTES if max_bytes is None else validation.index(max_bytes, "max_bytes")
        recorded = self._changes(None)
        is_outside = not recorded if outside is None else validation.flag(outside, "outside")
        work = WorkFolder(as_path(folder, "the folder of the work"), limit)
        return work.changes(file_versions.files_after(recorded), outside=is_outside)

    def checkout(
        self, folder: str | os.PathLike[str], at: int | None = None, *, partial: bool = False, trusted: bool = False
    ) -> WrittenTree:
        """Write the files as they were after the first `at` turns (None: all) into a new or an empty folder.

        All of it is written, or nothing. Each content's digest is checked first. A file whose content is not kept is an error;
        `partial` leaves it out and names it. Names that some systems cannot have, or would take for one, and links that lead
        out of the folder are refused, unless the session is `trusted`; paths that lead out, and git's own folder, always are.

        Raises `InvalidInput` for all of that and for a folder that holds anything, `IntegrityError` for altered content.
        """
        files = self.list(at)
        if not files:
            raise InvalidInput(
                f"session {self._worktree.id!r} has no files then: its turns recorded none; record them with "
                "append(files=...) or `trails watch --files`"
            )
        kept = [each for each in files if each.is_kept]
        missing = tuple(each.path for each in files if not each.is_kept)
        if missing and not partial:
            named = ", ".join(map(repr, missing[:5]))
            raise InvalidInput(
                f"the content of {count(len(missing), 'file')} is not kept ({named}): they were too large, or "
                "redacted; say partial=True (--partial) to have the others. Nothing was written"
            )
        tree_writer.check_tree(kept, lambda link: os.fsdecode(self._read(link)), trusted=trusted)
        written = tree_writer.write_tree(folder, kept, self._read)
        return WrittenTree(folder=str(written), files=len(kept), missing=missing)

    def blame(self, path: str, at: int | None = None) -> _Lines:
        """Return which turn wrote each line of a file, as it is after the first `at` turns (None: all).

        A line's turn is None where it was there before recording began, where somebody else wrote it, and where a version in
        between is not kept. Raises `InvalidInput` where there is no such file then, or it is no text.

        >>> import trails
        >>> with trails.open(":memory:") as store, store.create() as s:
        ...     turn = s.append("assistant", "Written.", files={"a.py": b"x = 1\\ny = 2\\n"})
        ...     turn = s.append("assistant", "Changed.", files={"a.py": b"x = 1\\ny = 3\\n"})
        ...     [(line.text, line.index) for line in s.files.blame("a.py")]
        [('x = 1', 0), ('y = 3', 1)]
        """
        return blame_versions(self._worktree, self.history(path, at))

    def _changes(self, at: int | None) -> _Changes:
        tree = self._worktree
        length = len(tree.turns)
        end = length if at is None else validation.index(at, "at")
        if end > length:
            raise InvalidInput(f"session {tree.id!r} has {length} turns, so there is nothing after {end}")
        encrypted = tree.record.encryption is not None
        return [*file_versions.file_changes(tree.turns[:end], tree.payload, encrypted=encrypted)]

    def _read(self, change: FileChange) -> bytes:
        return read_content(self._worktree, change)


def read_content(tree: Worktree, change: FileChange) -> bytes:
    """Return the content of a file as a change left it.

    Raises `InvalidInput` where it is not kept, and `IntegrityError` where it was altered.
    """
    if not change.is_kept:
        raise InvalidInput(f"the content of {change.path!r} is not kept: it was too large, or redacted")
    data = tree.payload(change.payload)
    if hashlib.sha256(data).hexdigest() != change.after:
        raise IntegrityError(
            f"{change.path!r} was altered: its content does not have its digest; restore from a backup"
        )
    return data


def versions_by_path(changes: Iterable[FileChange]) -> dict[str, list[FileChange]]:
    """Return the changes of each file, in their order: of many files, those of all are read once."""
    versions: dict[str, list[FileChange]] = {}
    for change in changes:
        versions.setdefault(change.path, []).append(change)
    return versions


def blame_versions(tree: Worktree, versions: Sequence[FileChange]) -> list[LineBlame]:
    """Return which turn wrote each line of a file, given all of its changes; raises as `WorkFiles.blame` does."""
    lines = file_blame.blame_lines(versions, partial(read_content, tree))
    return file_blame.described(lines, lambda index: tree.turns[index])


def patches(tree: Worktree, changes: Sequence[FileChange]) -> list[str]:
    """Return a patch of each change, given all changes of their files: as `WorkFiles.patch`, for many."""
    versions = versions_by_path(changes)
    return [file_blame.unified_patch(change, versions[change.path], partial(read_content, tree)) for change in changes]
