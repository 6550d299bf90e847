"""The formats that can be imported and exported: a new one is a parser module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from trails.errors import InvalidInput
from trails.session import Repository
from trails.transcripts import claude_code, pi, pi_export, rdf
from trails.transcripts.merge import Progress, merge
from trails.transcripts.report import FileProblem, ImportReport
from trails.transcripts.source import Transcript

_HEAD: Final = 1 << 16
"""Bytes of a file that tell its format."""


@dataclass(frozen=True, slots=True)
class Format:
    """A transcript format: how to recognise a file by its beginning, which files belong together, how to read them."""

    name: str
    sniff: Callable[[bytes], bool]
    find_files: Callable[[Path], list[Path]]
    parse: Callable[[Sequence[tuple[str, bytes]]], Transcript]


TRANSCRIPTS: Final = (
    Format("claude-code", claude_code.sniff, claude_code.find_files, claude_code.parse),
    Format("pi", pi.sniff, pi.find_files, pi.parse),
)
_RDF: Final = {".nq": "nquads", ".trig": "trig"}
IMPORT_FORMATS: Final = (*(known.name for known in TRANSCRIPTS), *_RDF.values())
EXPORT_FORMATS: Final = ("pi", *_RDF.values())


def import_path(
    repository: Repository,
    path: Path,
    *,
    format: str | None = None,  # noqa: A002 - the public name
    restore: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import a file, or every transcript in a folder and below, and return what was done.

    The format is told from each file's content unless given. In a folder, files of no known format are reported as
    problems; a single file of no known format raises `InvalidInput`, as an empty one does. `restore` lets an exported
    session come back that was deleted here. Importing the same again adds nothing.
    """
    if format is not None and format not in IMPORT_FORMATS:
        raise InvalidInput(f"{format!r} is no format to import; there are: {', '.join(IMPORT_FORMATS)}")
    if not path.exists():
        raise InvalidInput(f"there is no file or folder {path}")
    report = ImportReport()
    groups = list(_groups(path, format, report))
    total = sum(len(files) for _, files in groups)
    for name, files in groups:
        if progress:
            progress(report.files, total, str(files[0]))
        report.add(_import_group(repository, name, files, restore=restore))
        report.files += len(files)
    if progress:
        progress(total, total, "")
    return report


def _groups(path: Path, wanted: str | None, report: ImportReport) -> Iterator[tuple[str, list[Path]]]:
    """Yield (format, files that belong together), folder by folder: a whole projects tree is never in memory at once."""
    if path.is_file():
        name = wanted or _format_of(path)
        if name is None:
            size = path.stat().st_size
            raise InvalidInput(
                f"{path} is empty"
                if size == 0
                else f"{path} is no transcript of a known format ({', '.join(IMPORT_FORMATS)})"
            )
        yield name, _companions(name, path)
        return
    found: dict[tuple[str, Path], list[Path]] = {}
    for file in sorted(each for each in path.rglob("*") if each.suffix in {".jsonl", *_RDF} and each.is_file()):
        name = wanted or _format_of(file)
        if name is None:
            report.problems.append(
                FileProblem(file=str(file), line=0, reason="is no transcript of a known format", text="")
            )
        else:
            found.setdefault((name, _folder_of(file)), []).append(file)
    if not found and not report.problems:
        raise InvalidInput(f"the folder {path} holds no transcripts (*.jsonl, *.nq, *.trig)")
    for (name, _), files in found.items():
        if name in _RDF.values():
            yield from ((name, [file]) for file in files)
        else:
            yield name, files


def _companions(name: str, path: Path) -> list[Path]:
    for known in TRANSCRIPTS:
        if known.name == name:
            return known.find_files(path)
    return [path]


def _folder_of(file: Path) -> Path:
    """Return the folder whose files are read together: sub-agents' files go with their session's."""
    return file.parent.parent.parent if file.parent.name == "subagents" else file.parent


def _format_of(file: Path) -> str | None:
    if file.suffix in _RDF:
        return _RDF[file.suffix]
    with file.open("rb") as opened:
        head = opened.read(_HEAD)
    return next((known.name for known in TRANSCRIPTS if known.sniff(head)), None)


def _import_group(repository: Repository, name: str, files: Sequence[Path], *, restore: bool) -> ImportReport:
    if name in _RDF.values():
        return rdf.import_rdf(repository, files[0].read_bytes(), name, restore=restore)
    known = next(each for each in TRANSCRIPTS if each.name == name)
    transcript = known.parse([(str(file), file.read_bytes()) for file in files])
    return merge(repository, transcript, file=str(files[0]) if len(files) == 1 else str(files[0].parent))


def export_session(repository: Repository, session_id: str, format: str, out: BinaryIO) -> None:  # noqa: A002
    """Write a session with its lineage to a binary file: `pi` JSONL, or exact `nquads` or `trig`."""
    if format == "pi":
        out.write(pi_export.export_session(repository, session_id))
    elif format in _RDF.values():
        rdf.export_session(repository, session_id, format, out)
    else:
        raise InvalidInput(f"{format!r} is no format to export; there are: {', '.join(EXPORT_FORMATS)}")
