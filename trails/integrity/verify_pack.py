"""Check a whole evidence pack, or an export, with nothing but Python 3.9 and the log's public key.

This is the program that goes out as `verify_export.py`. Of a pack it checks the manifest and its signature, every file, the
report, the checkpoints, that the log only grew between them, the proof of each session's last turn, the records, and what a
time stamp is over. It says what it does not see.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from trails.integrity.verify_archive import MANIFEST, Altered, NoPack, PackFiles, read_files
from trails.integrity.verify_export import CANNOT_SHOW, Export, Unreadable, answer_lines, iri_of, printable, report
from trails.integrity.verify_log import (
    BadKey,
    DoesNotHold,
    LogState,
    PublicKey,
    SignedNotes,
    base64_bytes,
    check_growth_proof,
    check_turn_proof,
    json_object,
    read_key,
    token_time,
)

PACK_FORMAT = "trails-pack-verification/1"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://w3id.org/trails/audit-pack/v1"
NOTE = "manifest.note"
"""A note by the log's key with the SHA-256 of the manifest."""
_KEPT, _SIGNED, _GROWTH, _TOKEN = "kept.checkpoint", "report.checkpoint", "growth.proof", "kept.checkpoint.tsr"
_RECORDS, _REPORT = "records.nq", "report.json"
_OPAQUE = ("report.md", "report.html", "provenance.json", "ro-crate-metadata.json")

NOT_SEEN = (
    "whether the store's log was rewritten before its first checkpoint that you know: hold kept.checkpoint against your own",
    "whether a newer pack or a newer checkpoint of this log exists: an older pack is as true as it was",
    "what the log's lines say but those of the proofs, and turns below the last one of a session but by its digest",
    "whether this program is the one that Trails ships: take it from Trails, not from the pack",
)


class Alteration(NamedTuple):
    """What of a pack was altered or does not hold: the file, and a sentence."""

    file: str
    message: str


class PackAnswer(NamedTuple):
    """What was found in a pack: alterations, the answer about its records, what holds, and what was not seen."""

    altered: tuple[Alteration, ...]
    records: dict[str, Any]
    checked: tuple[str, ...]
    not_seen: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was altered and the records hold."""
        return not self.altered and bool(self.records.get("ok"))


def signed_text(manifest: bytes) -> str:
    """Return what the log signs of a manifest."""
    return f"{PREDICATE}\n{hashlib.sha256(manifest).hexdigest()}\n"


class Pack:
    """The files of a pack and what is found in them; `answer` is the whole of it."""

    def __init__(self, files: Mapping[str, bytes], keys: Iterable[PublicKey]) -> None:
        self._files, self._notes = files, SignedNotes(keys)
        self._altered: list[Alteration] = []
        self._checked: list[str] = []
        self._not_seen: list[str] = []
        self._manifest: dict[str, Any] = {}
        self._report: dict[str, Any] = {}
        self._records: dict[str, Any] = {}

    def answer(self) -> PackAnswer:
        """Check everything and return what was found; the first finding about a file ends what is asked of that file."""
        for name, check in (
            (MANIFEST, self._check_manifest),
            (NOTE, self._check_note),
            (_REPORT, self._check_report),
            (_SIGNED, self._check_states),
            ("proofs/", self._check_proofs),
            (_RECORDS, self._check_records),
            (_TOKEN, self._check_token),
        ):
            if name in (_SIGNED, "proofs/", _RECORDS) and not self._report:
                continue
            try:
                check()
            except DoesNotHold as wrong:
                self._altered.append(Alteration(name, str(wrong)))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self._altered.append(Alteration(name, f"it is not as Trails writes it: {error}"))
        others = [f"the lines by {', '.join(self._notes.others)}: no key of theirs is known here"]
        shown = [name for name in _OPAQUE if name in self._files]
        same = (
            f"whether {', '.join(shown)} say the same as {_REPORT} and {_RECORDS}: they have the bytes that were signed"
        )
        not_seen = (*self._not_seen, *(others if self._notes.others else []), same, *NOT_SEEN)
        return PackAnswer(tuple(self._altered), self._records, tuple(self._checked), not_seen)

    def _file(self, name: str) -> bytes:
        if name not in self._files:
            raise DoesNotHold(f"{name} is missing")
        return self._files[name]

    def _check_manifest(self) -> None:
        statement = json_object(self._files[MANIFEST], {"_type", "subject", "predicateType", "predicate"})
        if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
            raise DoesNotHold("this is no manifest of an audit pack: it is a statement of another type")
        pairs = [(each["name"], each["digest"]["sha256"]) for each in statement["subject"]]
        named = dict(pairs)
        if len(named) < len(pairs):
            raise DoesNotHold("the manifest names a file twice")
        for name in sorted((named.keys() | self._files.keys()) - {MANIFEST, NOTE}):
            if name not in self._files:
                self._altered.append(Alteration(name, f"{name} is missing"))
            elif name not in named:
                self._altered.append(Alteration(name, f"{name} is not named in the manifest"))
            elif hashlib.sha256(self._files[name]).hexdigest() != named[name]:
                self._altered.append(Alteration(name, f"{name} was altered"))
        self._manifest = statement["predicate"]
        self._checked.append(f"the manifest names {len(named)} files, and no other is there")

    def _check_note(self) -> None:
        if NOTE not in self._files:
            raise DoesNotHold(
                "the pack was not signed, so whoever passed it on could change all of it: ask for one with --key"
            )
        text, names = self._notes.opened(self._files[NOTE])
        if text != signed_text(self._files[MANIFEST]):
            raise DoesNotHold("the manifest was altered: it is not the one that the log signed")
        if self._files[NOTE].count(b"\n") != text.count("\n") + 2:  # witnesses sign checkpoints, never this
            raise DoesNotHold("the note has a line that the log did not add")
        self._checked.append(f"the manifest is signed by {', '.join(names)}")

    def _check_report(self) -> None:
        audited = json_object(self._file(_REPORT))
        plain = {name: value for name, value in audited.items() if name != "digest"}
        text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != audited["digest"]:
            raise DoesNotHold("the audit report was altered: its digest does not fit it")
        log = {"lines": audited["lines"], "root": audited["root"]}
        said = {"report": audited["digest"], "session": audited["subject"], "time": audited["time"], "log": log}
        if any(self._manifest.get(name) != value for name, value in said.items()):
            raise DoesNotHold("the manifest is of another report")
        self._report = audited
        self._checked.append(f"the report of {audited['time']} has the digest {audited['digest']}")

    def _check_states(self) -> None:
        """Check both checkpoints, and that the log grew from the one that was kept to the one that vouches for the report."""
        state = self._notes.checkpoint(self._file(_SIGNED))
        if f"audit-report-sha256 {self._report.get('digest')}" not in state.extensions:
            raise DoesNotHold("the checkpoint does not vouch for this report: it is of another one")
        if (self._report["lines"], base64_bytes(self._report["root"])) != (state.size, state.root):
            raise DoesNotHold("the report was made at another state of the log than the checkpoint")
        self._checked.append(f"the log {state.origin} vouches for the report at {state.size} lines")
        if _KEPT in self._files:
            self._check_growth(self._notes.checkpoint(self._files[_KEPT]))
        elif _GROWTH in self._files or _TOKEN in self._files:
            raise DoesNotHold(f"{_KEPT} is missing")
        else:
            self._not_seen.append("that the log only grew: the pack has no checkpoint that was kept elsewhere")

    def _check_growth(self, kept: LogState) -> None:
        reached, note = check_growth_proof(self._file(_GROWTH), kept, self._notes)
        if note != self._files[_SIGNED]:
            raise DoesNotHold("the proof of growth leads to another checkpoint than the one of the report")
        self._checked.append(f"the log grew from {kept.size} to {reached.size} lines and nothing before was changed")

    def _check_proofs(self) -> None:
        """Check for each session of the report that its last turn was in the log, or that the manifest says why not."""
        sessions = self._report["sessions"]
        owners = {each["session"] for each in sessions}
        missing = self._manifest["missing"]
        expected = {f"proofs/{number:05}.proof": each for number, each in enumerate(sessions, 1)}
        for name in self._files:
            if name.startswith("proofs/") and name not in expected:
                self._altered.append(Alteration(name, "it is of no session of the report"))
        for name, each in expected.items():
            if name not in self._files:
                if not any(why.startswith(f"a proof of {each['session']!r}: ") for why in missing):
                    self._altered.append(Alteration(name, f"the proof of session {each['session']!r} is missing"))
                continue
            try:
                self._check_proof(name, each, owners)
            except DoesNotHold as wrong:
                self._altered.append(Alteration(name, str(wrong)))
        count = len(expected.keys() & self._files.keys())
        self._checked.append(f"the last turn of {count} of {len(expected)} sessions was in the log")
        self._not_seen.extend(missing)

    def _check_proof(self, name: str, session: dict[str, Any], owners: set[str]) -> None:
        proven, _, note = check_turn_proof(self._files[name], self._notes)
        if note != self._files.get(_SIGNED):
            raise DoesNotHold("the proof is of another checkpoint than the one of the report")
        if (proven.index + 1, proven.digest) != (session["turns"], session["head"]):
            raise DoesNotHold(f"the proof is not of the last turn of session {session['session']!r}")
        if session_name(proven.session) not in owners:
            raise DoesNotHold("the proof is of a session that is not in the report")

    def _check_records(self) -> None:
        """Check the records by themselves, and that they are of the sessions of the report."""
        try:
            self._records = report(Export(io.BytesIO(self._file(_RECORDS))))
        except Unreadable as error:
            raise DoesNotHold(str(error)) from None
        heads = {each["session"]: (each["turns"], each["head"]) for each in self._records["sessions"]}
        for each in self._report["sessions"]:
            turns, head = heads.pop(each["session"], (None, None))
            if turns is None or (each["head"] and (turns, head) != (each["turns"], each["head"])):
                what = f"they do not hold the session {each['session']!r} as the report has it"
                self._altered.append(Alteration(_RECORDS, what))
        if heads:
            what = f"they hold sessions that are not in the report: {', '.join(sorted(heads)[:5])}"
            self._altered.append(Alteration(_RECORDS, what))
        count = len(self._records["sessions"])
        self._checked.append(f"the records have the {count} sessions of the report, with the heads that it names")

    def _check_token(self) -> None:
        if _TOKEN not in self._files:
            return
        time = token_time(self._files[_TOKEN], self._file(_KEPT))
        self._checked.append(f"the time stamp is over {_KEPT}, and says {time.isoformat()}")
        openssl = f"openssl ts -verify -data {_KEPT} -in {_TOKEN} -CAfile AUTHORITY.pem"
        self._not_seen.append(f"who signed the time stamp, and whether the signature holds: {openssl}")


def session_name(iri: str) -> str:
    """Return the id of the session that an IRI names."""
    return unquote(iri_of(iri)[len("urn:trails:session:") :])


def check_files(files: Mapping[str, bytes], keys: Iterable[str]) -> PackAnswer:
    """Return what is found in the files of a pack, given the public keys of its log."""
    return Pack(files, [read_key(each) for each in keys]).answer()


# --- the program


def pack_answer(read: PackFiles, keys: Iterable[str]) -> dict[str, Any]:
    """Return the answer about a pack as plain values."""
    answer = check_files(read.files, keys)
    return {
        "format": PACK_FORMAT,
        "ok": answer.ok,
        "form": read.form,
        "ignored": list(read.ignored),
        "checked": list(answer.checked),
        "altered": [each._asdict() for each in answer.altered],
        "records": answer.records,
        "cannot_show": [*answer.not_seen, *CANNOT_SHOW],
    }


_FORMS = {
    "folder": "a folder",
    "as written": "the zip as Trails wrote it",
    "repacked": "repacked: the zip is not the one that Trails wrote, and its files are those of the manifest or are named below",
}


def _pack_lines(said: dict[str, Any]) -> Iterator[str]:
    yield f"read from {_FORMS[said['form']]}"
    yield from (f"ignored, as macOS leaves it beside files: {name}" for name in said["ignored"])
    yield from (f"holds: {each}" for each in said["checked"])
    yield from (f"ALTERED: {each['file']}: {each['message']}" for each in said["altered"])
    if said["records"]:
        yield from answer_lines({**said["records"], "cannot_show": []})
    yield "This cannot show:"
    yield from (f"- {each}" for each in said["cannot_show"])
    yield "the pack holds" if said["ok"] else "THE PACK DOES NOT HOLD"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="verify_export.py", description="Check an export (N-Quads) or an evidence pack (folder or zip) of Trails."
    )
    parser.add_argument("file", help="the export (- for stdin), or the pack's folder or zip")
    parser.add_argument(
        "--head", action="append", default=[], help="a digest that must be in an export, as it was kept elsewhere"
    )
    parser.add_argument(
        "--verifier", action="append", default=[], help="the log's public key, or a file with it: needed for a pack"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    try:
        said, lines = _answer(given.file, given.head, given.verifier)
    except Altered as error:
        said = {"format": PACK_FORMAT, "ok": False, "altered": [{"file": given.file, "message": str(error)}]}
        lines = iter([f"ALTERED: {error}", "THE PACK DOES NOT HOLD"])
    except (Unreadable, NoPack, BadKey, OSError) as error:
        sys.stderr.write(f"error: {printable(str(error))}\n")
        return 2
    shown = [json.dumps(said, indent=2)] if given.json else [printable(line) for line in lines]
    try:
        for line in shown:
            sys.stdout.write(line.encode("ascii", "backslashreplace").decode() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the answer went away
        sys.stderr.close()
    return 0 if said["ok"] else 1


def _answer(place: str, heads: list[str], verifiers: list[str]) -> tuple[dict[str, Any], Iterator[str]]:
    if place == "-":
        said = report(Export(sys.stdin.buffer), heads)
        return said, answer_lines(said)
    if not _is_pack(place):
        with open(place, "rb") as file:  # noqa: PTH123 - as plain as can be
            said = report(Export(file), heads)
        return said, answer_lines(said)
    if not verifiers:
        raise BadKey("without the log's public key no signature can be trusted: give --verifier KEY")
    said = pack_answer(read_files(place), [_key_text(each) for each in verifiers])
    return said, _pack_lines(said)


def _is_pack(place: str) -> bool:
    try:
        with open(place, "rb") as file:  # noqa: PTH123
            return file.read(2) == b"PK" or place.endswith(".zip")
    except IsADirectoryError:
        return True


def _key_text(given: str) -> str:
    try:
        with open(given, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return given


if __name__ == "__main__":
    sys.exit(main())
