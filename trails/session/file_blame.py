"""Find out which turn wrote each line of a file, from its versions."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trails.compare.text_diff import match_sequences
from trails.errors import InvalidInput
from trails.model.file_versions import MODE_NUMBERS, FileChange
from trails.model.values import Turn, Value


class LineBlame(Value):
    """Which turn wrote a line of a file."""

    line: int
    """From 1."""
    text: str
    index: int | None = None
    """The turn that wrote the line; None where that is not known: the line was there before recording began, somebody else
    wrote it, or a version in between is not kept."""
    turns: int = 1
    """How many turns, up to that one, may have written it."""
    session_id: str | None = None
    """The session that owns the turn."""
    role: str | None = None
    author: str | None = None
    model: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, ready for JSON."""
        return self.model_dump(exclude={"session_id"}) | {"session": self.session_id}


def blame_lines(
    versions: Iterable[FileChange], read: Callable[[FileChange], bytes]
) -> list[tuple[str, FileChange | None]]:
    r"""Return each line of the last version of a file, and the change that wrote it; None where that is not known.

    `versions` are all of the file's, oldest first. A line that two versions have in common, by a longest common subsequence,
    is as old as it was in the first. Raises `InvalidInput` for a last version that is no text, or is not kept.
    """
    lines: list[str] = []
    owners: list[FileChange | None] = []
    is_gap, data, last = False, b"", None
    for change in versions:
        last = change
        if change.mode != "deleted" and not change.is_kept:
            is_gap = True  # the next version may have lines of this one
            continue
        data = b"" if change.mode == "deleted" else read(change)
        new = split_lines(data)
        owner = None if change.outside or is_gap else change
        new_owners: list[FileChange | None] = [owner] * len(new)
        for before, after in match_sequences(lines, new):
            new_owners[after] = owners[before]
        lines, owners, is_gap = new, new_owners, False
    if last is None or last.mode == "deleted":
        raise InvalidInput("there is no such file after these turns; `trails files` lists those there are")
    if not last.is_kept:
        why = "was redacted" if last.redacted else "was too large to be kept"
        raise InvalidInput(f"the content of {last.path!r} {why} at turn {last.index}, so its lines cannot be told")
    if is_binary(data) or last.mode == "symlink":
        raise InvalidInput(f"{last.path!r} is no text, so it has no lines; `trails files --history` lists its versions")
    return list(zip(lines, owners, strict=True))


def split_lines(data: bytes) -> list[str]:
    r"""Return the lines of a file with their ends, one character a byte: a line ends with a newline alone, as in git.

    >>> split_lines(b"a\r\nb")
    ['a\r\n', 'b']
    """
    return _lines(data.decode("latin-1"))


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])


def unified_patch(change: FileChange, versions: Sequence[FileChange], read: Callable[[FileChange], bytes]) -> str:
    """Return what became of a file as a patch of git's form, given all versions of it."""
    earlier = [each for each in versions if each.index < change.index]
    before = earlier[-1] if earlier and earlier[-1].mode != "deleted" else None
    old, new = _git_mode(before), _git_mode(change)
    if not (old or new):
        return ""
    head = [f"diff --git a/{change.path} b/{change.path}"]
    if old is None:
        head.append(f"new file mode {new}")
    elif new is None:
        head.append(f"deleted file mode {old}")
    elif old != new:
        head += [f"old mode {old}", f"new mode {new}"]
    names = tuple("/dev/null" if mode is None else f"{side}/{change.path}" for side, mode in (("a", old), ("b", new)))
    kept = [None if each is None or each.mode == "deleted" else each for each in (before, change)]
    if any(each is not None and not each.is_kept for each in kept):
        return "\n".join([*head, "(a content is not kept)", ""])
    contents = [b"" if each is None else read(each) for each in kept]
    if any(is_binary(each) for each in contents):
        return "\n".join([*head, f"Binary files {names[0]} and {names[1]} differ", ""])
    left, right = (_lines(each.decode("utf-8", "replace")) for each in contents)
    left_name, right_name = (f"{name}\t" if " " in name else name for name in names)
    lines = difflib.unified_diff(left, right, left_name, right_name)
    body = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "\n".join([*head, ""]) + body


def _git_mode(change: FileChange | None) -> str | None:
    return None if change is None or change.mode == "deleted" else MODE_NUMBERS[change.mode]


def is_binary(data: bytes) -> bool:
    """Tell whether a content is no text, as git tells it: by a NUL among the first 8,000 bytes."""
    return b"\0" in data[:8000]


def described(lines: Sequence[tuple[str, FileChange | None]], turn_at: Callable[[int], Turn]) -> list[LineBlame]:
    """Return who wrote lines, with what is known of the turns."""
    found = []
    for number, (line, change) in enumerate(lines, 1):
        text = line.rstrip("\n").encode("latin-1").decode("utf-8", "replace")
        if change is None:
            found.append(LineBlame(line=number, text=text))
            continue
        turn = turn_at(change.index)
        found.append(
            LineBlame(
                line=number, text=text, index=turn.index, turns=change.turns, session_id=turn.session_id, role=turn.role,
                author=turn.author, model=turn.model,
            )
        )  # fmt: skip
    return found
