"""What the program in a pack finds with the public key alone: a hundred alterations, and none in five ways to zip."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from inspect import getsource
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import trails
from tests.support.authority import certified, response, signed, token_info
from trails.audit import audit, evidence_pack
from trails.integrity.signed_notes import is_signed, new_key, sign, sign_bytes, signature_line, signer_key
from trails.integrity.verifier import archive, ed25519, joined, pack
from trails.integrity.verifier.notes import verifier_key

NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
SIGNER, KEY = new_key("example.com/log")
SAME_NAME_SIGNER, SAME_NAME = new_key("example.com/log")
Files = dict[str, bytes]


class Packs(NamedTuple):
    """A pack of two sessions with all that a pack can have, an older one, and one of another store by the same key."""

    whole: Files
    older: Files
    other: Files


def packed(store: trails.Repository, kept: str) -> Files:
    authority = certified("authority")
    token = response(signed(token_info(hashlib.sha256(kept.encode()).digest(), 5, time=NOON), authority))
    report = audit(store, checkpoint=kept, verifiers=[KEY], time=NOON)
    return evidence_pack.make_pack(store, report, checkpoint=kept, timestamp=token, signer=SIGNER)


def filled(store: trails.Repository, text: str) -> str:
    """Store two sessions, one a fork of the other with a turn of its own; return the checkpoint after the first."""
    plan = store.create(id="plan", principal="alice", agent="planner", created=NOON)
    plan.append("user", text, time=NOON)
    plan.append("assistant", "Where to?", model="m-1", time=NOON)
    plan.append("user", "The Alps", time=NOON)
    plan.persist()
    kept = store.proofs.checkpoint(SIGNER)
    fork = plan.fork(at=2, id="dinner", created=NOON)
    fork.append("user", "To dinner", time=NOON)
    fork.persist()
    return kept


@pytest.fixture(scope="module")
def packs() -> Packs:
    with trails.open(":memory:") as store, trails.open(":memory:") as other:
        kept = filled(store, "Plan a trip")
        older = packed(store, kept)
        plan = store.load("plan")
        plan.append("assistant", "By train", time=NOON)
        plan.persist()
        return Packs(packed(store, kept), older, packed(other, filled(other, "Plan a feast")))


def holds(files: Files) -> bool:
    return pack.check_files(files, [KEY]).ok


def manifest_of(files: Files) -> bytes:
    """Return the manifest with the hashes that the files have now."""
    statement = json.loads(files["manifest.json"])
    names = sorted(files.keys() - {"manifest.json", "manifest.note"})
    statement["subject"] = [
        {"name": name, "digest": {"sha256": hashlib.sha256(files[name]).hexdigest()}} for name in names
    ]
    return (json.dumps(statement, ensure_ascii=False, indent=2) + "\n").encode()


def signed_again(files: Files, signer: str = SIGNER) -> Files:
    """Return files with a manifest and a note made anew: what only who has the key, or another key, can do."""
    made = {**files, "manifest.json": manifest_of(files)}
    return {**made, "manifest.note": sign(pack.signed_text(made["manifest.json"]), signer).encode()}


def changed(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value.replace("A", "B", 1) if "A" in value else f"{value}x"
    if isinstance(value, list):
        return value[1:] if value else ["x"]
    return {**value, "more": 1}


def with_fields_changed(data: bytes) -> Iterator[tuple[str, bytes]]:
    fields = json.loads(data)
    for name in fields:
        yield name, json.dumps({**fields, name: changed(fields[name])}).encode()
        yield f"{name} left out", json.dumps({each: fields[each] for each in fields if each != name}).encode()


def forged(note: bytes) -> bytes:
    """Return a note with a signature by another key, under the name and the id of the log's."""
    text = note.rpartition(b"\n\n")[0] + b"\n"
    value = sign_bytes(signer_key(SAME_NAME_SIGNER).material, text)
    return text + b"\n" + signature_line(verifier_key(KEY), value).encode()


# --- what anyone can do, who has no key


def by_anyone(packs: Packs) -> Iterator[tuple[str, Files]]:
    files = packs.whole
    for name, data in files.items():
        middle = len(data) // 2
        yield f"{name}: a bit", {**files, name: data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]}
        yield f"{name}: cut short", {**files, name: data[:-1]}
        yield f"{name}: more", {**files, name: data + b"\n"}
        if name != "manifest.json":  # without one there is no pack, which is said another way
            yield f"{name}: left out", {each: files[each] for each in files if each != name}
    first, second = "proofs/00001.proof", "proofs/00002.proof"
    for left, right in (("report.json", "report.md"), (first, second), ("kept.checkpoint", "report.checkpoint")):
        yield f"{left} and {right} swapped", {**files, left: files[right], right: files[left]}
    for name in ("more.txt", "proofs/00003.proof", "a/b.txt"):
        yield f"{name} added", {**files, name: b"{}"}
    for name in files.keys() & packs.older.keys():
        if files[name] != packs.older[name]:
            yield f"{name} of an older pack", {**files, name: packs.older[name]}
    for name, data in with_fields_changed(files["manifest.json"]):
        yield f"manifest: {name}", {**files, "manifest.json": data}
    altered = {**files, "report.md": b"All is well.\n"}
    yield "a manifest made anew", {**altered, "manifest.json": manifest_of(altered)}
    yield "signed by another key of the log's name", signed_again(altered, SAME_NAME_SIGNER)
    both = signed_again(altered, SAME_NAME_SIGNER)["manifest.note"]
    yield (
        "with another key's line added",
        {**files, "manifest.note": files["manifest.note"] + both.rpartition(b"\n\n")[2] * 2},
    )
    for name in ("manifest.note", "report.checkpoint", "kept.checkpoint"):
        yield f"{name}: signed by another, under the log's name and key id", {**files, name: forged(files[name])}
    yield (
        "altered, and signed by another under the log's key id",
        {**signed_again(altered), "manifest.note": forged(both)},
    )
    yield "unsigned", {name: files[name] for name in files if name != "manifest.note"}


# --- what only who has the log's key can do: the manifest fits, and it is the proofs that do not


def by_the_log(packs: Packs) -> Iterator[tuple[str, Files]]:
    files = packs.whole
    for name in ("proofs/00001.proof", "proofs/00002.proof", "growth.proof"):
        for field, data in with_fields_changed(files[name]):
            yield f"{name}: {field}", {**files, name: data}
        yield f"{name} of another store", {**files, name: packs.other[name]}
        yield f"{name} of an older pack", {**files, name: packs.older[name]}
        yield f"{name} left out", {each: files[each] for each in files if each != name}
        said = json.loads(files[name])
        other = {**said, "checkpoint": forged(said["checkpoint"].encode()).decode()}
        yield f"{name} with a checkpoint signed by another", {**files, name: json.dumps(other).encode()}
    for name in ("report.checkpoint", "kept.checkpoint"):
        yield f"{name} signed by another", {**files, name: forged(files[name])}
    proof = json.loads(files["proofs/00001.proof"])
    for field in proof["turn"]:
        other = {**proof["turn"], field: changed(proof["turn"][field])}
        yield f"the proof's {field}", {**files, "proofs/00001.proof": json.dumps({**proof, "turn": other}).encode()}
    for field, data in with_fields_changed(files["report.json"]):
        yield f"report: {field}", {**files, "report.json": data}
    for name in ("report.json", "report.checkpoint", "kept.checkpoint", "kept.checkpoint.tsr", "records.nq"):
        if packs.other[name] != files[name]:
            yield f"{name} of another store", {**files, name: packs.other[name]}
    yield "the older checkpoint for the newer one", {**files, "report.checkpoint": files["kept.checkpoint"]}
    yield "the newer checkpoint for the older one", {**files, "kept.checkpoint": files["report.checkpoint"]}
    yield "no kept checkpoint", {name: files[name] for name in files if name != "kept.checkpoint"}
    yield "a token cut short", {**files, "kept.checkpoint.tsr": files["kept.checkpoint.tsr"][:40]}
    lines = files["records.nq"].splitlines(keepends=True)
    yield (
        "a session's records left out",
        {**files, "records.nq": b"".join(e for e in lines if b"session:dinner" not in e)},
    )
    for text, wording in ((b"The Alps", b"The Andes"), (b"Where to?", b"Who pays?"), (b"planner", b"plotter")):
        yield f"another text for {text!r}", {**files, "records.nq": files["records.nq"].replace(text, wording)}
    twice = files["growth.proof"].replace(b'"old_size"', b'"old_size": 1, "old_size"')
    yield "a proof that says something twice", {**files, "growth.proof": twice}


# --- what zips can do


def zip_of(
    entries: list[tuple[zipfile.ZipInfo | str, bytes]], how: int = zipfile.ZIP_STORED, comment: bytes = b""
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as made:
        for entry, data in entries:
            made.writestr(entry, data, how)
        made.comment = comment
    return out.getvalue()


def entry_of(name: str, **settings: Any) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, (2026, 4, 1, 12, 0, 0))
    entry.external_attr = 0o100600 << 16
    for each, value in settings.items():
        setattr(entry, each, value)
    return entry


def by_zipping(files: Files) -> Iterator[tuple[str, bytes]]:
    plain: list[tuple[zipfile.ZipInfo | str, bytes]] = [(entry_of(name), data) for name, data in files.items()]
    whole, deflated = zip_of(plain), zip_of(plain, zipfile.ZIP_DEFLATED)
    names = (
        "../evil",
        "/etc/passwd",
        "a\\b",
        "C:evil",
        "./more",
        "a//b",
        "REPORT.json",
        "report.json.",
        "more.txt",
        "x\ny",
    )
    for name in (*names, "__MACOSX/evil.sh", "._report.json", ".DS_Store", "report.json/x"):
        yield f"the name {name!r}", zip_of([*plain, (entry_of(name), b"forged")])
    for name in ("report.json", "manifest.json"):
        with pytest.warns(UserWarning, match="Duplicate"):
            yield f"{name} twice", zip_of([(entry_of(name), b"{}"), *plain])
    for kind in (0o120777, 0o010600, 0o020600):
        linked = [
            (entry_of(n, external_attr=kind << 16) if n == "report.html" else e, d)
            for (e, d), n in zip(plain, files, strict=True)
        ]
        yield f"an entry of the kind {kind:o}", zip_of(linked)
    for extra in (b"\x75\x70\x05\x00\x01evil", b"\xfe\xca\x00\x00", b"\x55\x54\xff\x00" + bytes(255), b"\x01"):
        yield (
            f"the extra field {extra[:4]!r}",
            zip_of(
                [
                    (entry_of("README.txt", extra=extra), files["README.txt"]),
                    *[p for p, n in zip(plain, files, strict=True) if n != "README.txt"],
                ]
            ),
        )
    yield "a comment", zip_of(plain, comment=b"forged")
    yield (
        "a comment of an entry",
        zip_of(
            [
                (entry_of(n, comment=b"forged") if n == "report.html" else e, d)
                for (e, d), n in zip(plain, files, strict=True)
            ]
        ),
    )
    yield "bytes before it", b"MZ forged" + whole
    yield "another zip before it", whole + whole
    yield "bytes after it", whole + b"forged"
    yield "the last byte gone", whole[:-1]
    yield "half of it", whole[: len(whole) // 2]
    yield "a folder with content", zip_of([*plain, (entry_of("proofs/", external_attr=0o040700 << 16), b"forged")])
    yield "two folders", zip_of([*[(entry_of(f"pack/{n}"), d) for n, d in files.items()], (entry_of("other/x"), b"")])
    yield "packed by bzip2", zip_of(plain, zipfile.ZIP_BZIP2)
    yield "a bomb", zip_of([*plain, (entry_of("bomb"), bytes(200_000_000))], zipfile.ZIP_DEFLATED)
    at = whole.index(b"report.html")
    yield "another name in its own header", whole[:at] + b"report.htmm" + whole[at + 11 :]
    yield "called encrypted", _with_flag(whole, 0x1)
    yield (
        "another CRC in the list",
        whole[: whole.rindex(b"PK\x01\x02") + 16] + b"\0\0\0\0" + whole[whole.rindex(b"PK\x01\x02") + 20 :],
    )
    yield "a packed file with a byte of another", _bit(deflated, deflated.index(b"records.nq") + 200)
    at = whole.index(b"records.nq") + 500
    yield "a bit of a stored file", _bit(whole, at)
    directory = whole.index(b"PK\x01\x02")
    yield "an entry that is not in the list", _without_first_entry(whole, directory)
    yield "more after a packed file", _with_rest(files)


def _bit(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _with_flag(data: bytes, flag: int) -> bytes:
    made = bytearray(data)
    made[6] |= flag
    made[data.index(b"PK\x01\x02") + 8] |= flag
    return bytes(made)


def _without_first_entry(data: bytes, directory: int) -> bytes:
    """Return a zip whose first file stands there, but not in the list of its files."""
    second = data.index(b"PK\x01\x02", directory + 4)
    made = bytearray(data[:directory] + data[second:])
    end = made.rindex(b"PK\x05\x06")
    count, size = struct.unpack_from("<HI", made, end + 10)
    struct.pack_into("<HHI", made, end + 8, count - 1, count - 1, size - (second - directory))
    return bytes(made)


def _with_rest(files: Files) -> bytes:
    """Return a zip whose one packed file has more bytes than its content takes."""
    names = [*files]
    data = zip_of([(entry_of(name), files[name]) for name in names], zipfile.ZIP_DEFLATED)
    first = data.index(b"PK\x03\x04", 4)
    made = bytearray(data[:first] + b"evil" + data[first:])
    directory = made.index(b"PK\x01\x02")
    for at in (18, directory + 20):
        struct.pack_into("<I", made, at, struct.unpack_from("<I", made, at)[0] + 4)
    at = directory
    for number in range(len(names)):
        if number:
            struct.pack_into("<I", made, at + 42, struct.unpack_from("<I", made, at + 42)[0] + 4)
        at = made.find(b"PK\x01\x02", at + 4)
    end = made.rindex(b"PK\x05\x06")
    struct.pack_into("<I", made, end + 16, directory)
    return bytes(made)


# --- the tests


def test_a_pack_holds_with_the_public_key_alone(packs: Packs) -> None:
    for files in packs:
        answer = pack.check_files(files, [KEY])
        assert (answer.ok, answer.altered) == (True, ())
    assert [each for each in answer.checked if each.startswith("the last turn")] == [
        "the last turn of 2 of 2 sessions was in the log"
    ]
    assert any(
        each.startswith("the time stamp is over kept.checkpoint, and says 2026-04-01T12:00:00")
        for each in answer.checked
    )
    for what in (
        "who signed the time stamp",
        "what was written after the checkpoint",
        "registers of the store",
        "mirrors,",
    ):
        assert any(each.startswith(what) for each in answer.not_seen)


def test_it_holds_with_no_other_key(packs: Packs) -> None:
    answer = pack.check_files(packs.whole, [SAME_NAME])
    assert any(
        each.message.startswith("none of the given keys signed this note; it names example.com/log")
        for each in answer.altered
    )


def test_some_alterations_are_found(packs: Packs) -> None:
    """A quick look: the next test tries all."""
    assert [what for what, files in [*by_anyone(packs)][::12] if holds(files)] == []
    assert [what for what, files in [*by_the_log(packs)][::12] if holds(signed_again(files))] == []


@pytest.mark.slow
def test_every_alteration_by_who_has_no_key_is_found(packs: Packs) -> None:
    alterations = [*by_anyone(packs)]
    assert [what for what, files in alterations if holds(files)] == []
    assert len(alterations) >= 80


@pytest.mark.slow
def test_every_alteration_by_who_has_the_log_s_key_is_found_that_a_proof_can_show(packs: Packs) -> None:
    alterations = [*by_the_log(packs)]
    assert holds(signed_again(packs.whole))
    assert [what for what, files in alterations if holds(signed_again(files))] == []
    assert len(alterations) >= 60


def test_every_trick_of_a_zip_is_found(packs: Packs, tmp_path: Path) -> None:
    place, missed, count = tmp_path / "pack.zip", [], 0
    for what, data in by_zipping(packs.whole):
        count += 1
        place.write_bytes(data)
        try:
            if holds(archive.read_files(str(place)).files):
                missed.append(what)
        except (archive.Altered, archive.NoPack):
            pass
    assert (missed, count >= 35) == ([], True)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("REPORT.json", "are one file on some machines"),
        ("../evil", "does not lead to a file within the pack"),
        ("/evil", "does not lead to a file within the pack"),
        ("a//b", "does not lead to a file within the pack"),
        ("report.json.", "does not lead to a file within the pack|are one file"),
    ],
)
def test_a_name_that_machines_read_differently_is_refused_before_the_manifest_is_read(
    packs: Packs, tmp_path: Path, name: str, why: str
) -> None:
    place = tmp_path / "pack.zip"
    place.write_bytes(zip_of([*packs.whole.items(), (name, b"")]))
    with pytest.raises(archive.Altered, match=why):
        archive.read_files(str(place))


# --- five ways to zip, and more


def info_zip(files: Files, folder: Path) -> bytes:
    evidence_pack.write_pack(files, folder / "pack", NOON.isoformat())
    subprocess.run(["zip", "-q", "-r", "../info.zip", "."], cwd=folder / "pack", check=True)
    return (folder / "info.zip").read_bytes()


def info_zip_of_folder(files: Files, folder: Path) -> bytes:
    evidence_pack.write_pack(files, folder / "pack", NOON.isoformat())
    subprocess.run(["zip", "-q", "-r", "info.zip", "pack"], cwd=folder, check=True)
    return (folder / "info.zip").read_bytes()


def python_stored(files: Files, _: Path) -> bytes:
    return zip_of([*files.items()])


def python_deflated(files: Files, _: Path) -> bytes:
    return zip_of([*reversed(files.items())], zipfile.ZIP_DEFLATED)


def as_7z(files: Files, _: Path) -> bytes:
    """Folders last, with NTFS times, as 7-Zip on Windows: no Unix mode."""
    times = struct.pack("<HHIHH3Q", 0x000A, 32, 0, 1, 24, *[134_000_000_000_000_000] * 3)
    entries: list[Any] = [
        (entry_of(n, extra=times, create_system=0, external_attr=0x20), files[n]) for n in sorted(files)
    ]
    return zip_of([*entries, (entry_of("proofs/", create_system=0, external_attr=0x10), b"")], zipfile.ZIP_DEFLATED)


def as_macos(files: Files, _: Path) -> bytes:
    """One folder, sizes behind the files, and what Finder leaves beside them."""

    class Unseekable(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

    out = Unseekable()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(entry_of("pack/", external_attr=0o040755 << 16), b"")
        for name, data in files.items():
            made.writestr(entry_of(f"pack/{name}"), data, zipfile.ZIP_DEFLATED)
        made.writestr(entry_of("pack/.DS_Store"), b"\0\0\0\1Bud1" + bytes(20))
        made.writestr(entry_of("__MACOSX/pack/._report.json"), b"\0\5\x16\7" + bytes(20))
    return out.getvalue()


WAYS: tuple[Callable[[Files, Path], bytes], ...] = (
    info_zip, info_zip_of_folder, python_stored, python_deflated, as_7z, as_macos,
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_pack_that_was_packed_again_unaltered_is_accepted_and_called_so(
    packs: Packs, tmp_path: Path, way: Callable[[Files, Path], bytes]
) -> None:
    if way in {info_zip, info_zip_of_folder} and not Path("/usr/bin/zip").exists():
        pytest.skip("Info-ZIP is not installed")
    place = tmp_path / "again.zip"
    place.write_bytes(way(packs.whole, tmp_path))
    read = archive.read_files(str(place))
    ignored = ("__MACOSX/pack/._report.json", "pack/.DS_Store") if way is as_macos else ()
    assert (read.files, read.form, read.ignored) == (packs.whole, "repacked", ignored)
    assert holds(read.files)


def test_the_zip_that_trails_writes_is_not_called_repacked(packs: Packs, tmp_path: Path) -> None:
    place = tmp_path / "pack.zip"
    evidence_pack.write_pack(packs.whole, place, NOON.isoformat())
    assert archive.read_files(str(place)) == (packs.whole, "as written", ())


# --- the program itself


def test_the_program_in_the_pack_checks_it_and_an_altered_one(packs: Packs, tmp_path: Path) -> None:
    evidence_pack.write_pack(packs.whole, tmp_path / "pack", NOON.isoformat())
    place = tmp_path / "again.zip"
    place.write_bytes(python_deflated(packs.whole, tmp_path))
    command = [sys.executable, "-I", str(tmp_path / "pack" / "verify_export.py"), str(place)]
    done = subprocess.run([*command, "--verifier", KEY, "--json"], capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    assert (done.returncode, said["ok"], said["form"], said["altered"]) == (0, True, "repacked", [])
    without = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (without.returncode, "give --verifier KEY" in without.stderr) == (2, True)
    place.write_bytes(python_deflated({**packs.whole, "report.md": b"All is well.\n"}, tmp_path))
    done = subprocess.run([*command, "--verifier", KEY], capture_output=True, text=True, check=False)
    assert (done.returncode, "ALTERED: report.md: report.md was altered" in done.stdout) == (1, True)


def test_the_program_in_the_pack_runs_on_python_3_9(packs: Packs, tmp_path: Path) -> None:
    oldest = shutil.which("python3.9") or ""
    if not oldest or subprocess.run([oldest, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("there is no Python 3.9 on this machine")
    evidence_pack.write_pack(packs.whole, tmp_path / "pack", NOON.isoformat())
    program = str(tmp_path / "pack" / "verify_export.py")
    command = [oldest, "-I", program, str(tmp_path / "pack"), "--verifier", KEY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:], done.stderr) == (0, ["the pack holds"], "")


def test_no_two_modules_of_the_program_give_one_name_to_two_things() -> None:
    names: list[str] = []
    for module in joined.MODULES:
        for node in ast.parse(getsource(module)).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names += [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    assert sorted({each for each in names if names.count(each) > 1}) == []


def test_signatures_are_judged_as_the_package_cryptography_judges_them() -> None:
    """Test 1 of RFC 8032, section 7.1, and keys of our own."""
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    signature = bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b"
    )
    assert ed25519.is_signed_by(public, signature, b"")
    for number in range(5):
        message, own = bytes([number]) * number, verifier_key(KEY).material
        value = sign_bytes(signer_key(SIGNER).material, message)
        for case in (value, _bit(value, number), _bit(value, 40 + number)):
            assert ed25519.is_signed_by(own, case, message) == is_signed(own, case, message)
    assert not ed25519.is_signed_by(public, signature[:-1], b"")
