"""Import RO-Crates: the sessions of an evidence pack of Trails, the provenance of all others."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from trails.errors import InvalidInput
from trails.exchange.file_import import import_bytes
from trails.exchange.source_transcript import ImportReport
from trails.files import in_words, read_whole
from trails.integrity.verifier.archive import Altered, NoPack, read_files
from trails.provenance import ImportedDocument, import_document
from trails.provenance.crate_reader import CRATE, RECORDS, crate_content, has_records
from trails.provenance.statements import MAX_BYTES
from trails.session import Repository


class CrateImport(NamedTuple):
    """What came of a crate: the report of its sessions, or the document of its provenance and what that left out."""

    sessions: ImportReport | None
    document: ImportedDocument | None = None
    left_out: Mapping[str, int] = {}


def import_crate(
    repository: Repository,
    path: Path,
    *,
    restore: bool = False,
    redact_secrets: bool = False,
    keep_invalid: bool = False,
) -> CrateImport:
    """Import an RO-Crate: its folder, its zip or its `ro-crate-metadata.json`.

    Of an evidence pack of Trails the sessions come in from `records.nq`, exactly, as from an export; what the pack says beside
    them adds nothing. Of another crate the actions come in as a PROV document, by `import_document`. `left_out` counts the
    properties that PROV has no place for; the file itself is kept whole. `restore` and `redact_secrets` are as for `import_path`.

    Raises `InvalidInput` for what is no crate, for one without actions, and for a pack without its records.
    """
    metadata, records = _parts(path)
    if not has_records(metadata):
        left_out = crate_content(metadata).left_out
        name = path.parent.name if path.name == CRATE else path.name
        document = import_document(
            repository, metadata, format="ro-crate", name=name or CRATE, keep_invalid=keep_invalid
        )
        return CrateImport(None, document, left_out)
    if records is None:
        raise InvalidInput(
            f"{path} says that the sessions are in {RECORDS}, which is not there: give the whole pack, or import what it says "
            "of actions alone, by --format prov-ro-crate"
        )
    return CrateImport(
        import_bytes(repository, records, format="nquads", restore=restore, redact_secrets=redact_secrets)
    )


def _parts(path: Path) -> tuple[bytes, bytes | None]:
    """Return the metadata of a crate, and our own records where they are beside it."""
    if path.is_dir() or path.name == CRATE:
        folder = path if path.is_dir() else path.parent
        if not (folder / CRATE).is_file():
            raise InvalidInput(f"{path} is no RO-Crate: it holds no {CRATE}")
        records = folder / RECORDS
        with in_words(folder / CRATE, "read"):
            return read_whole(folder / CRATE), read_whole(records) if records.is_file() else None
    try:
        files = read_files(str(path)).files
        return files[CRATE], files.get(RECORDS)
    except Altered as error:
        raise InvalidInput(f"{path} cannot be imported: {error}") from None
    except (NoPack, KeyError):
        return _metadata_of_zip(path), None


def _metadata_of_zip(path: Path) -> bytes:
    """Return the metadata of a crate that somebody else zipped, and read nothing else of it."""
    try:
        with zipfile.ZipFile(path) as opened:
            names = [each for each in opened.infolist() if each.filename.rpartition("/")[2] == CRATE]
            if not names:
                raise InvalidInput(f"{path} is no RO-Crate: it holds no {CRATE}")
            entry = min(names, key=lambda each: each.filename.count("/"))
            if entry.file_size > MAX_BYTES:
                raise InvalidInput(
                    f"{path} has metadata of more than {MAX_BYTES:,} bytes, which is the most that is read"
                )
            return opened.read(entry)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise InvalidInput(f"{path} is no RO-Crate: it is no zip that holds {CRATE} ({error})") from None
