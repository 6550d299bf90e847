"""Write a tree of files into a new folder: all of it or nothing, and never over or outside of anything.

What is written comes from transcripts, which anybody may have made. So each path is checked again, links are written last, and
the whole tree is made in a private folder beside its place, and moved there in one step.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from trails.errors import InvalidInput
from trails.files import as_path, in_words, part_folder
from trails.model.file_versions import FileChange, path_fault, tree_faults

_TURNING: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE)
"""Names of devices on Windows (Microsoft, Naming Files, Paths, and Namespaces), with any suffix."""
_REFUSED: Final = frozenset('<>:"|?*')
_SHOWN: Final = 5


def check_tree(files: Sequence[FileChange], links: Callable[[FileChange], str], *, trusted: bool = False) -> None:
    """Raise `InvalidInput` for files that may not be written together.

    `links` gives what a symlink names. `trusted` allows names that some systems cannot have, or would take for one, and links
    that lead out of the tree.
    """
    faults = [f"{change.path!r} {fault}" for change in files if (fault := path_fault(change.path))]
    faults += [f"{change.path!r} would be part of a git repository" for change in files if _is_of_git(change.path)]
    faults += tree_faults(files)
    if faults:
        raise InvalidInput(f"the files cannot be written: {_listed(faults)}; nothing was written")
    if not trusted:
        faults = [*_name_faults(files), *_link_faults(files, links)]
    if faults:
        raise InvalidInput(
            f"the files are not written: {_listed(faults)}; nothing was written. If you trust whoever made the session, say "
            "trusted=True (--trusted)"
        )


def write_tree(
    folder: str | os.PathLike[str], files: Sequence[FileChange], read: Callable[[FileChange], bytes]
) -> Path:
    """Write files, checked by `check_tree`, into a folder that is not there or is empty; return it.

    Raises `InvalidInput` for a folder that holds anything, a link, and a place where none can be made.
    """
    place = as_path(folder, "the folder to write to").absolute()
    if os.path.lexists(place) and (place.is_symlink() or not place.is_dir() or any(place.iterdir())):
        raise InvalidInput(f"{place} is there and is no empty folder; name a new one. Nothing was written")
    with in_words(place, "written"), part_folder(place) as part:
        tree = part / "tree"
        tree.mkdir()
        for change in sorted(
            files, key=lambda each: each.mode == "symlink"
        ):  # links last: nothing is written through one
            path = tree.joinpath(*change.path.split("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            data = read(change)
            if change.mode == "symlink":
                path.symlink_to(os.fsdecode(data))
                continue
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o777 if change.mode == "executable" else 0o666)
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
        tree.rename(place)  # the system refuses this for a folder that got something meanwhile, and for a link
    return place


def _listed(faults: Sequence[str]) -> str:
    more = len(faults) - _SHOWN
    return "; ".join(faults[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _is_of_git(path: str) -> bool:
    """Tell whether a name in a path is that of git's own folder, on some system: git runs programs that are named there."""
    for part in path.split("/"):
        plain = "".join(each for each in part if unicodedata.category(each) != "Cf").casefold()
        if plain.split(":")[0].rstrip(". ") in (".git", "git~1"):
            return True
    return False


def _name_faults(files: Sequence[FileChange]) -> Iterator[str]:
    """Yield why names cannot stand on systems that tell no upper from lower case, or that keep some names for themselves."""
    seen: dict[str, str] = {}
    told: set[str] = set()
    for change in files:
        if any(unicodedata.bidirectional(each) in _TURNING for each in change.path):
            yield f"{change.path!r} has marks in it that turn the direction of writing, so that it looks like another name"
        parts = change.path.split("/")
        for number, part in enumerate(parts, 1):
            if _RESERVED.fullmatch(part.rstrip(" ")) or part[-1] in ". " or not _REFUSED.isdisjoint(part):
                yield f"{change.path!r} has a name in it that Windows keeps for itself"
            path = "/".join(parts[:number])
            other = seen.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
            if other != path and path not in told:
                told.add(path)
                yield f"{path!r} and {other!r} are one name where case and the form of accents make no difference"


def _link_faults(files: Sequence[FileChange], links: Callable[[FileChange], str]) -> Iterator[str]:
    """Yield why links lead out of the tree: up from where they are they go first, and no further than to the root."""
    for change in files:
        if change.mode != "symlink":
            continue
        parts = [part for part in links(change).split("/") if part != "."]
        up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
        if parts[:1] == [""] or ".." in parts[up:] or up > change.path.count("/") or "\\" in links(change):
            yield f"{change.path!r} is a link that leads out of the tree, or may"
