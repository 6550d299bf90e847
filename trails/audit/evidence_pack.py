"""Make, read and check evidence packs for auditors.

A pack has the records, their proofs, the report, and a verifier that needs nothing but Python. Equal stores, times and keys
give equal bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import pyoxigraph as ox

from trails.audit import report as documents
from trails.audit.agent_definitions import AGENTS, agent_definitions
from trails.audit.report import Report, report_extension
from trails.audit.run_crate import run_crate
from trails.errors import IntegrityError, InvalidInput
from trails.files import read_whole
from trails.history.export_records import record_export
from trails.history.lookup.session_quads import session_quads
from trails.integrity.signed_notes import sign
from trails.integrity.signed_statements import Form, open_payload, sign_envelope, sign_statement
from trails.integrity.verifier.archive import MANIFEST, Altered, NoPack, PackFiles, read_files, zipped
from trails.integrity.verifier.joined import VERIFIER_NAME, standalone_verifier
from trails.integrity.verifier.pack import NOTE, PREDICATE, STATEMENT, PackAnswer, check_files, signed_text
from trails.provenance import export as export_prov
from trails.provenance.crate_reader import CRATE
from trails.session import Repository

_RECORDS: Final = "records.nq"
_AGAIN: Final = "get it again from whoever made it"


def make_pack(
    repository: Repository,
    report: Report,
    *,
    checkpoint: str | None = None,
    timestamp: bytes | None = None,
    signer: str | None = None,
    recipients: Sequence[str] = (),
) -> dict[str, bytes]:
    """Return the files of a pack by their names, the manifest too.

    `report` says what is packed: a session with its ancestors, or the whole store. `checkpoint` is the one that the report
    was held against, `timestamp` the time-stamp response over it. With `signer`, the log's secret key, the log vouches for
    the report, and proofs are against that. Without either there are no proofs, which the manifest says. `recipients` says
    for whom it is made, as for `trails.exchange.file_import.export_session`.
    """
    read = [session_id for session_id, _, _ in report.sessions]
    files = {
        "README.txt": read_whole(Path(__file__).with_name("pack-readme.txt")),
        VERIFIER_NAME: standalone_verifier(),
    }
    with record_export(repository.workspace, read, "pack", recipients) as made:
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
        agents = agent_definitions(repository, read)
        if agents is not None:
            files[AGENTS] = agents
        files[CRATE] = run_crate(repository, report, files, [MANIFEST] if signer is None else [MANIFEST, NOTE])
        files[MANIFEST] = _manifest(files, report, missing)
        if signer is not None:
            files[NOTE] = sign(signed_text(files[MANIFEST]), signer).encode()
        made(hashlib.sha256(files[MANIFEST]).hexdigest(), sum(map(len, files.values())))
    return files


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
    return zipped((zipfile.ZipInfo(name, moment.timetuple()[:6]), files[name]) for name in sorted(files))


# --- and read


def read_pack(place: Path) -> PackFiles:
    """Return the files of a pack in a folder or a zip, with how they came and what was ignored beside them.

    Raises `InvalidInput` if there is no pack, `IntegrityError` if there is something that no pack holds and that
    others would read otherwise: links, devices, a zip with two files of one name or with bytes that belong to none.
    """
    try:
        return read_files(str(place))
    except NoPack as error:
        raise InvalidInput(f"{place} is no audit pack: {error}") from None
    except Altered as error:
        raise IntegrityError(f"the pack was altered: {error}: {_AGAIN}") from None


def check_pack(files: Mapping[str, bytes], verifiers: Sequence[str]) -> PackAnswer:
    """Return what the program that goes out finds in a pack in which nothing was altered, by one of the given keys.

    Its records may still not hold: a store with a gap is packed as it stands. Raises `IntegrityError` that names what was
    altered, is missing or is not named in the manifest.
    """
    answer = check_files(files, verifiers)
    if answer.altered:
        wrong = "; ".join(dict.fromkeys(each.message for each in answer.altered[:5]))
        raise IntegrityError(f"the pack does not hold: {wrong}: {_AGAIN}")
    return answer


def signed_statement(files: Mapping[str, bytes], signer: str, form: Form) -> bytes:
    """Return the manifest of a pack as a signed statement, by the log's secret key: a DSSE envelope, or COSE for SCITT."""
    if form == "dsse":
        return sign_envelope(files[MANIFEST], signer)
    report = json.loads(files[MANIFEST])["predicate"]["report"]
    return sign_statement(files[MANIFEST], report_extension(report), signer)


def check_statement(files: Mapping[str, bytes], statement: bytes, verifiers: Sequence[str]) -> None:
    """Accept a signed statement that holds the very manifest of a pack; `IntegrityError` for any other."""
    if open_payload(statement, verifiers) != files[MANIFEST]:
        raise IntegrityError("the signed statement is of another pack: it holds another manifest")


def pack_notes(packed: PackFiles, answer: PackAnswer) -> list[str]:
    """Return what people are told of a pack that holds: that it was repacked, what was ignored, if records do not hold."""
    notes = (
        ["repacked: the zip is not the one that Trails wrote, and its files are"] if packed.form == "repacked" else []
    )
    notes += [f"ignored, as macOS leaves it beside files: {name}" for name in packed.ignored]
    findings = answer.records["findings"]
    if findings:
        notes.append(f"the records are as they were packed, and {len(findings)} statements about turns do not hold")
    return notes
