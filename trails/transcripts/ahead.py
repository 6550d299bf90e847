"""Files that are parsed ahead, in a process beside the one that writes what the files before them say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import repeat
from pathlib import Path
from typing import Final, NamedTuple

from trails import workers
from trails.plumbing import imports
from trails.records.acts import SourceFile
from trails.transcripts import accounting, zstd
from trails.transcripts.known import TRANSCRIPTS, Format
from trails.transcripts.source import SourceTurn, Transcript
from trails.transcripts.withholding import Withholding

MANY: Final = 4 << 20
"""Bytes of all files from which on a process is started: that takes as long as some hundred kilobytes."""
_AHEAD: Final = 2
"""How many groups of files wait to be written: each is in memory as a whole."""
Group = tuple[str, Sequence[Path]]
"""A format, and files that belong together."""


class Parsed(NamedTuple):
    """What a group of files says."""

    transcript: Transcript
    files: dict[str, SourceFile]
    """By name."""
    clean: Sequence[SourceTurn] = ()
    """Turns of the transcript in which no secret was found."""


def parsed(groups: Sequence[Group]) -> Iterator[Parsed | None]:
    """Yield what each group of files says, in order, then None without end.

    None stands for a group that is to be read here, where whatever is wrong with it can be said.
    """
    if len(groups) > 1 and workers.count() and sum(map(_size, groups)) >= MANY:
        with suppress(workers.WorkersFailed):
            answers = workers.each(f"{__name__}:begin", None, list(groups), 1, ahead=_AHEAD)
            with closing(answers):  # type: ignore[type-var] # a generator
                for _, answer in answers:
                    yield answer
    yield from repeat(None)


def _size(group: Group) -> int:
    found = 0
    for file in group[1]:
        with suppress(OSError):
            found += file.stat().st_size
    return found


def begin(_: None) -> Callable[[Group], Parsed | None]:
    """Return what reads and parses groups of files, in a process of its own."""
    return _parse


def _parse(group: Group) -> Parsed | None:
    try:
        name, files = group
        if known(name).rows is not None and len(files) == 1:  # it may be a database
            return None
        if known(name).stream is not None and _size(group) >= MANY:  # it is to be read a part at a time
            return None
        found = read(name, [(str(file), zstd.content(file.read_bytes())) for file in files])
    except Exception:  # noqa: BLE001 - it is read once more where it can be said
        return None
    looking = Withholding()
    turns = {id(turn): turn for session in found.transcript.sessions for path in session.paths for turn in path}
    clean = [turn for turn in turns.values() if not any(True for _ in looking.in_turn(turn, "", 0))]
    return found._replace(clean=clean)


def read(name: str, contents: Sequence[tuple[str, bytes]]) -> Parsed:
    """Return what files of a format say, each the name of a file, empty for none, and its bytes."""
    transcript_format = known(name)
    transcript = accounting.accounted(transcript_format.parse, contents, transcript_format.reasons)
    return Parsed(transcript, source_files(contents))


def source_files(contents: Sequence[tuple[str, bytes]]) -> dict[str, SourceFile]:
    """Return what an import records of files, by their names."""
    return {file: imports.source_file(data, Path(file).name or None) for file, data in contents}


def known(name: str) -> Format:
    """Return a format by its name."""
    return next(each for each in TRANSCRIPTS if each.name == name)
