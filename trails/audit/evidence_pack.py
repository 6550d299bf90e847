"""Make, read and check evidence packs for auditors.

A pack has the records, their proofs, the report, and a verifier that needs nothing but Python. Equal stores, times and keys
give equal bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from inspect import getsource
from pathlib import Path
from typing import Final

import pyoxigraph as ox

from trails import usage
from trails.audit import report as documents
from trails.audit.report import Report, report_extension
from trails.errors import IntegrityError, InvalidInput
from trails.files import read_whole
from trails.history import import_records
from trails.history.lookup.session_quads import session_quads
from trails.integrity import verify_export
from trails.integrity.signed_notes import open_note, sign
from trails.provenance import export as export_prov
from trails.session import Repository

VERIFIER_NAME: Final = "verify_export.py"
"""What the file is called where it goes out."""
_VERIFIER_MODULES: Final = (usage, usage)
_VERIFIER_HEAD: Final = ("from __future__", "from trails.")


def standalone_verifier() -> bytes:
    """Return `verify_export.py` as it goes out beside an export."""
    text = getsource(verify_export)
    for module in _VERIFIER_MODULES:
        lines = [line for line in getsource(module).splitlines() if not line.startswith(_VERIFIER_HEAD)]
        before, _, after = text.partition(f"from {module.__name__} import ")
        text = before + "\n".join(lines) + "\n" + after.partition("\n")[2]
    return text.encode()


STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://w3id.org/trails/audit-pack/v1"
MANIFEST: Final = "manifest.json"
"""The in-toto statement that names every other file with its SHA-256."""
MANIFEST_NOTE: Final = "manifest.note"
"""A note by the log's key with the SHA-256 of the manifest."""
_RECORDS: Final = "records.nq"
_AGAIN: Final = "get it again from whoever made it"


def make_pack(
    repository: Repository,
    report: Report,
    *,
    checkpoint: str | None = None,
    timestamp: bytes | None = None,
    signer: str | None = None,
) -> dict[str, bytes]:
    """Return the files of a pack by their names, the manifest too.

    `report` says what is packed: a session with its ancestors, or the whole store. `checkpoint` is the one that the report
    was held against, `timestamp` the time-stamp response over it. With `signer`, the log's secret key, the log vouches for
    the report, and proofs are against that. Without either there are no proofs, which the manifest says.
    """
    read = [session_id for session_id, _, _ in report.sessions]
    files = {
        "README.txt": read_whole(Path(__file__).with_name("pack-readme.txt")),
        VERIFIER_NAME: standalone_verifier(),
    }
    with import_records.record_reading(repository.workspace, read, "export"):
        if checkpoint is not None:
            files["kept.checkpoint"] = checkpoint.encode()
        if timestamp is not None:
            files["kept.checkpoint.tsr"] = timestamp
        signed = None if signer is None else repository.proofs.checkpoint(signer, [report_extension(report.digest)])
        proven, missing = _proofs(repository, report, signed or checkpoint)
        provenance = io.BytesIO()
        export_prov(repository, provenance, format="json", session=report.subject)
        files |= {
            "report.json": (json.dumps(report.to_dict(), ensure_ascii=False, indent=2) + "\n").encode(),
            "report.md": documents.report_markdown(report).encode(),
            "report.html": documents.report_html(report).encode(),
            _RECORDS: _records(repository, report),
            "provenance.json": provenance.getvalue(),
            **proven,
        }
        if signed is not None:
            files["report.checkpoint"] = signed.encode()
        if signed is not None and checkpoint is not None:
            files["growth.proof"] = repository.proofs.growth(checkpoint, signed).to_json().encode()
        files[MANIFEST] = _manifest(files, report, missing)
        if signer is not None:
            files[MANIFEST_NOTE] = sign(_said_of(files[MANIFEST]), signer).encode()
    return files


def _said_of(manifest: bytes) -> str:
    """Return what the log signs of a manifest."""
    return f"{PREDICATE}\n{hashlib.sha256(manifest).hexdigest()}\n"


def _records(repository: Repository, report: Report) -> bytes:
    """Return the sessions as they stand, whole or not: what is wrong with them is for the auditor to see."""
    quads = {
        quad
        for session_id, _, _ in report.sessions
        for quad in session_quads(repository.store, repository.record(session_id))
    }
    data = ox.serialize(quads, format=ox.RdfFormat.N_QUADS) or b""
    return b"".join(sorted(line + b"\n" for line in data.split(b"\n") if line))


def _proofs(repository: Repository, report: Report, checkpoint: str | None) -> tuple[dict[str, bytes], list[str]]:
    """Return the proof of each session's last turn, without its content, and why some have none."""
    if checkpoint is None:
        return {}, ["proofs: no checkpoint was given, and the log did not sign the report"]
    files: dict[str, bytes] = {}
    missing = []
    for number, (session_id, turns, _) in enumerate(report.sessions, 1):
        if not turns:
            missing.append(f"a proof of {session_id!r}: it has no turns that can be read")
            continue
        try:
            proof = repository.proofs.turn(session_id, turns - 1, checkpoint, reveal=False)
        except InvalidInput as why:  # written after the checkpoint, or by somebody whose name was taken out
            missing.append(f"a proof of {session_id!r}: {why}")
        else:
            files[f"proofs/{number:05}.proof"] = proof.to_json().encode()
    return files, missing


def _manifest(files: Mapping[str, bytes], report: Report, missing: list[str]) -> bytes:
    statement = {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": hashlib.sha256(files[name]).hexdigest()}} for name in sorted(files)
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "report": report.digest,
            "session": report.subject,
            "time": report.time,
            "log": {"lines": report.lines, "root": report.root},
            "missing": missing,
        },
    }
    return (json.dumps(statement, ensure_ascii=False, indent=2) + "\n").encode()


# --- written


def write_pack(files: Mapping[str, bytes], place: Path, time: str) -> None:
    """Write the files of a pack into a new folder, or into a new file if the name ends in `.zip`.

    A zip has the report's `time` for each of its files, and holds them as they are: how they are packed differs between
    machines. What is written is for its owner alone. Raises `FileExistsError` for a place that is there.
    """
    if place.suffix == ".zip":
        with place.open("xb") as out:
            place.chmod(0o600)
            out.write(zip_pack(files, time))
        return
    place.mkdir(mode=0o700)
    for name, data in files.items():
        path = place / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(data)


def zip_pack(files: Mapping[str, bytes], time: str) -> bytes:
    """Return the files as a zip."""
    moment = max(datetime.fromisoformat(time), datetime.fromisoformat("1980-01-01T00:00:00+00:00"))  # as a zip can tell
    return _zipped((zipfile.ZipInfo(name, moment.timetuple()[:6]), files[name]) for name in sorted(files))


def _zipped(entries: Iterable[tuple[zipfile.ZipInfo, bytes]]) -> bytes:
    """Return a zip that every program unpacks alike: plain files, one after the other, stored as they are, and no more."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for given, data in entries:
            entry = zipfile.ZipInfo(given.filename, given.date_time)
            entry.create_system, entry.external_attr = 3, 0o100600 << 16
            archive.writestr(entry, data)
    return out.getvalue()


# --- and read


def read_pack(place: Path) -> dict[str, bytes]:
    """Return the files of a pack in a folder or a zip.

    Raises `InvalidInput` if there is no pack, `IntegrityError` if there is something that no pack holds and that
    others would read otherwise: links, devices, a zip with two files of one name or with bytes that belong to none.
    """
    files = _of_folder(place) if place.is_dir() else _of_zip(place)
    if MANIFEST not in files or "report.json" not in files:
        raise InvalidInput(f"{place} is no audit pack: it holds no {MANIFEST} and report.json")
    return files


def _of_folder(place: Path) -> dict[str, bytes]:
    files = {}
    for path in sorted(place.rglob("*")):
        kind, name = path.lstat().st_mode, path.relative_to(place).as_posix()
        if stat.S_ISREG(kind):
            files[name] = read_whole(path)
        elif not stat.S_ISDIR(kind):
            raise IntegrityError(f"the pack was altered: {name} is no file, and a pack holds files alone: {_AGAIN}")
    return files


def _of_zip(place: Path) -> dict[str, bytes]:
    data = read_whole(place)
    try:
        opened = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise InvalidInput(f"{place} is no audit pack: {error}") from None
    with opened:
        try:
            if any(entry.file_size > len(data) for entry in opened.infolist()):  # nothing is packed, so nothing unfolds
                raise zipfile.BadZipFile("a file in it is larger than the zip")
            entries = [(entry, opened.read(entry)) for entry in opened.infolist()]
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise IntegrityError(f"the pack was altered: {error}: {_AGAIN}") from None
    files = {entry.filename: content for entry, content in entries}
    if len(files) < len(entries) or _zipped(entries) != data:
        raise IntegrityError(f"the pack was altered: the zip is none that Trails writes: {_AGAIN}")
    return files


def check_pack(files: Mapping[str, bytes], verifiers: Sequence[str]) -> None:
    """Accept the files of a pack that fit its manifest, if the log signed that with one of the given keys.

    Raises IntegrityError that names what was altered, is missing or is not named in it; InvalidInput for another manifest.
    """
    wrong = list(_wrong(files))
    if wrong:
        raise IntegrityError(f"the pack does not fit its manifest: {'; '.join(wrong[:5])}: {_AGAIN}")
    if MANIFEST_NOTE not in files:
        what = "the pack was not signed, so whoever passed it on could change all of it"
        raise IntegrityError(f"{what}: ask for one with --key")
    if open_note(files[MANIFEST_NOTE], verifiers).text != _said_of(files[MANIFEST]):
        raise IntegrityError("the manifest was altered: it is not the one that the log signed")


def _wrong(files: Mapping[str, bytes]) -> Iterator[str]:
    try:
        statement = json.loads(files[MANIFEST])
        if statement["_type"] != STATEMENT or statement["predicateType"] != PREDICATE:
            raise InvalidInput("this is no manifest of an audit pack: it is a statement of another type")
        named = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(f"this is no manifest of an audit pack: {error}") from None
    for name in sorted((named.keys() | files.keys()) - {MANIFEST, MANIFEST_NOTE}):
        if name not in files:
            yield f"{name} is missing"
        elif name not in named:
            yield f"{name} is not named in the manifest"
        elif hashlib.sha256(files[name]).hexdigest() != named[name]:
            yield f"{name} was altered"
