"""What an outside auditor is given: every file named by its hash, the same bytes each time, and checked without the store."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prov.model import ProvDocument
from pyoxigraph import Literal

import trails
from tests.support.nine_sessions import fill
from trails import Repository
from trails.audit import audit, evidence_pack
from trails.cli import main
from trails.errors import IntegrityError, InvalidInput
from trails.integrity.proofs import ConsistencyProof, TurnProof, read_proof
from trails.integrity.signed_notes import new_key, open_checkpoint, sign
from trails.integrity.verifier import answers, export, pack, quads
from trails.integrity.verifier.archive import PackFiles
from trails.rdf import vocab
from trails.store.contract import Change

pytestmark = pytest.mark.any_store

NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
SIGNER, KEY = new_key("example.com/log")
OTHER_SIGNER, OTHER = new_key("example.com/other")


def packed(store: Repository, session: str | None = None, *, kept: str | None = None) -> dict[str, bytes]:
    report = audit(store, session, checkpoint=kept, verifiers=[KEY] if kept else [], time=NOON)
    return evidence_pack.make_pack(store, report, checkpoint=kept, signer=SIGNER)


def test_a_pack_holds_records_proofs_report_and_what_checks_them(store: Repository, tmp_path: Path) -> None:
    fill(store)
    kept = store.proofs.checkpoint(SIGNER)
    store.delete("recipes", by="dave")
    files = packed(store, "tail", kept=kept)
    assert sorted(files) == [
        *("README.txt", "agents.json", "growth.proof", "kept.checkpoint", "manifest.json", "manifest.note"),
        *("proofs/00001.proof", "proofs/00002.proof", "proofs/00003.proof", "proofs/00004.proof"),
        *("provenance.json", "records.nq", "report.checkpoint", "report.html", "report.json", "report.md"),
        *("ro-crate-metadata.json", "verify_export.py"),
    ]
    evidence_pack.write_pack(files, tmp_path / "pack", NOON.isoformat())
    program, records = (str(tmp_path / "pack" / name) for name in ("verify_export.py", "records.nq"))
    command = [sys.executable, "-I", program, records, "--json"]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert [each["session"] for each in said["sessions"]] == ["dinner", "plan", "solo", "tail"]
    heads = {each["session"]: each["head"] for each in json.loads(files["report.json"])["sessions"]}
    assert {each["session"]: each["head"] for each in said["sessions"]} == heads
    for name in sorted(name for name in files if name.startswith("proofs/")):
        proof = read_proof(files[name])
        assert isinstance(proof, TurnProof)
        proof.verify([KEY])
        assert (proof.digest in heads.values(), proof.content) == (True, None)
    growth = read_proof(files["growth.proof"])
    assert isinstance(growth, ConsistencyProof)
    assert growth.verify(kept, [KEY]) == open_checkpoint(files["report.checkpoint"], [KEY])
    assert list(ProvDocument.deserialize(content=files["provenance.json"].decode(), format="json").get_records())


def test_the_manifest_is_an_in_toto_statement_with_the_hash_of_each_file(store: Repository) -> None:
    fill(store)
    files = packed(store)
    statement = json.loads(files["manifest.json"])
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    said = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    rest = files.keys() - {"manifest.json", "manifest.note"}
    assert said == {name: hashlib.sha256(files[name]).hexdigest() for name in rest}
    assert statement["predicate"]["report"] == json.loads(files["report.json"])["digest"]


def test_the_same_store_time_and_key_give_the_same_bytes(store: Repository, tmp_path: Path) -> None:
    fill(store)
    first, second = packed(store), packed(store)
    assert first == second
    for name, files in (("one.zip", first), ("two.zip", second)):
        evidence_pack.write_pack(files, tmp_path / name, NOON.isoformat())
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == first
        assert {entry.date_time for entry in opened.infolist()} == {(2026, 4, 1, 12, 0, 0)}


def test_no_file_of_a_pack_can_be_altered_added_or_left_out(memory: Repository) -> None:
    memory.create(id="plan").persist()
    files = packed(memory)
    evidence_pack.check_pack(files, [KEY])
    for name in files:
        with pytest.raises((IntegrityError, InvalidInput)):
            evidence_pack.check_pack({**files, name: files[name] + b" "}, [KEY])
    for name in files.keys() - {"manifest.json"}:
        with pytest.raises(IntegrityError):
            evidence_pack.check_pack({each: data for each, data in files.items() if each != name}, [KEY])
    with pytest.raises(IntegrityError, match=r"more\.txt is not named"):
        evidence_pack.check_pack({**files, "more.txt": b""}, [KEY])
    with pytest.raises(IntegrityError, match="none of the given keys"):
        evidence_pack.check_pack(files, [OTHER])


def test_a_manifest_made_anew_is_not_the_one_that_was_signed(memory: Repository) -> None:
    memory.create(id="plan").persist()
    files = packed(memory)
    files["report.md"] = b"all is well\n"
    statement = json.loads(files["manifest.json"])
    for each in statement["subject"]:
        each["digest"]["sha256"] = hashlib.sha256(files[each["name"]]).hexdigest()
    files["manifest.json"] = json.dumps(statement).encode()
    with pytest.raises(IntegrityError, match="not the one that the log signed"):
        evidence_pack.check_pack(files, [KEY])
    digest = hashlib.sha256(files["manifest.json"]).hexdigest()
    forged = sign(f"{pack.PREDICATE}\n{digest}\n", OTHER_SIGNER).encode()
    with pytest.raises(IntegrityError, match="none of the given keys"):
        evidence_pack.check_pack({**files, "manifest.note": forged}, [KEY])


def test_without_key_and_checkpoint_the_manifest_says_that_there_are_no_proofs(memory: Repository) -> None:
    memory.create(id="plan").persist()
    files = evidence_pack.make_pack(memory, audit(memory, time=NOON))
    assert not any(name.endswith((".proof", ".checkpoint", ".note")) for name in files)
    [missing] = json.loads(files["manifest.json"])["predicate"]["missing"]
    assert missing.startswith("proofs: no checkpoint was given")


def test_a_store_with_a_gap_is_packed_as_it_stands(store: Repository) -> None:
    """An auditor is given what is there: what is wrong with it is in the report, and the verifier finds it too."""
    plan = store.create(id="plan")
    for number in range(3):
        plan.append("user", f"turn {number}")
    plan.persist()
    [value] = store.store.quads((None, vocab.VALUE, Literal("turn 1"), None))
    assert store.store.commit(Change(remove=store.store.quads((value.subject, None, None, None)))).written  # type: ignore[arg-type] # an IRI
    files = packed(store)
    found = answers.report(export.Export(io.BytesIO(files["records.nq"])))["findings"]
    assert ("index-gap", 1) in [(each["code"], each["index"]) for each in found]
    assert any("plan" in each for each in json.loads(files["manifest.json"])["predicate"]["missing"])
    answer = evidence_pack.check_pack(files, [KEY])  # the pack is as it was made: what is wrong was wrong in the store
    assert (answer.altered, answer.ok) == ((), False)
    notes = evidence_pack.pack_notes(PackFiles(files, "folder", ()), answer)
    assert [note.partition(",")[0] for note in notes] == ["the records are as they were packed"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


@pytest.mark.parametrize("name", ["pack", "pack.zip"])
def test_a_pack_is_written_and_checked_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAILS_STORE", raising=False)
    with trails.open(tmp_path / ".trails", create=True, durability="process") as store:
        plan = store.create(id="plan", label="trip")
        plan.append("user", "Plan a trip")
        plan.persist()
    assert run("proof", "checkpoint", "--new-key", "example.com/log", "--key", "key").exit_code == 0
    how: tuple[Any, ...] = ("audit", "pack", "trip", "--key", "key", "-o", name)
    done = run(*how, "--json")
    assert (done.exit_code, "records.nq" in json.loads(done.stdout)["files"]) == (0, True)
    assert (tmp_path / name).stat().st_mode & 0o077 == 0
    assert run(*how).exit_code == 2  # it is there
    (tmp_path / ".trails").rename(tmp_path / "away")
    assert (
        "valid: the log example.com/log vouches for it" in run("audit", "check", name, "--verifier", "key.pub").stdout
    )
    assert run("audit", "check", name, "--verifier", OTHER).exit_code == 1
    assert run("audit", "check", name).exit_code == 2


def rewritten(files: dict[str, bytes], change: str) -> bytes:
    """The zip of a pack, altered so that programs that unpack zips differ in what they find."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100600 << 16
            if name == "report.html" and change == "twice":
                made.writestr(name, b"forged")
                with pytest.warns(UserWarning, match="Duplicate"):
                    made.writestr(entry, data)
                continue
            if name == "records.nq":
                entry.external_attr = (0o120777 if change == "link" else 0o100600) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED if change == "packed" else zipfile.ZIP_STORED
            made.writestr(entry, data)
        made.comment = b"forged" if change == "comment" else b""
    data = out.getvalue()
    return {"before": data + data, "after": data + b"forged"}.get(change, data)


@pytest.mark.parametrize("change", ["none", "packed", "twice", "link", "comment", "before", "after"])
def test_a_zip_that_programs_unpack_in_different_ways_is_refused(
    memory: Repository, tmp_path: Path, change: str
) -> None:
    fill(memory)
    files = packed(memory)
    place = tmp_path / "pack.zip"
    place.write_bytes(rewritten(files, change))
    if change in {"none", "packed"}:
        form = "as written" if change == "none" else "repacked"
        assert evidence_pack.read_pack(place) == (files, form, ())
    else:
        with pytest.raises((IntegrityError, InvalidInput)):
            evidence_pack.read_pack(place)


def test_a_bit_that_flipped_in_a_zip_is_an_alteration(memory: Repository, tmp_path: Path) -> None:
    fill(memory)
    files = packed(memory)
    data = bytearray(evidence_pack.zip_pack(files, NOON.isoformat()))
    data[data.index(files["records.nq"]) + 9] ^= 1
    (tmp_path / "pack.zip").write_bytes(data)
    with pytest.raises(IntegrityError, match=r"the pack was altered: Bad CRC-32 for file 'records\.nq'"):
        evidence_pack.read_pack(tmp_path / "pack.zip")


def test_a_zip_that_unfolds_to_far_more_than_it_is_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "pack.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("report.json", bytes(100_000_000))
    monkeypatch.setattr(zlib, "decompressobj", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(IntegrityError, match=r"the pack was altered: the zip of .* bytes would unfold to 100000000"):
        evidence_pack.read_pack(place)


@pytest.mark.parametrize("what", ["link", "folder", "nowhere", "pipe"])
def test_a_folder_with_anything_but_files_is_refused(memory: Repository, tmp_path: Path, what: str) -> None:
    fill(memory)
    evidence_pack.write_pack(packed(memory), tmp_path / "pack", NOON.isoformat())
    (tmp_path / "forged").mkdir()
    (tmp_path / "forged" / "report.html").write_text("forged")
    added = tmp_path / "pack" / "corrected"
    if what == "pipe":
        os.mkfifo(added)
    else:
        places = {"link": "forged/report.html", "folder": "forged", "nowhere": "missing"}
        added.symlink_to(tmp_path / places[what])
    with pytest.raises(IntegrityError, match="corrected is no file"):
        evidence_pack.read_pack(tmp_path / "pack")


def test_the_pack_of_a_store_whose_sessions_are_all_gone_holds(memory: Repository, tmp_path: Path) -> None:
    memory.create(id="plan").persist()
    memory.delete("plan")
    files = packed(memory)
    evidence_pack.check_pack(files, [KEY])
    program = tmp_path / "check.py"
    program.write_bytes(files["verify_export.py"])
    evidence_pack.write_pack(files, tmp_path / "pack", NOON.isoformat())
    done = subprocess.run(
        [sys.executable, program, tmp_path / "pack", "--verifier", KEY], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(quads.Unreadable, match="no session"):
        export.Export(io.BytesIO(b""))
