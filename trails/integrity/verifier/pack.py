"""Check a whole evidence pack with the log's public key: what was altered, what holds, and what is not seen."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from trails.errors import IntegrityError
from trails.integrity.verifier.answers import report
from trails.integrity.verifier.archive import MANIFEST
from trails.integrity.verifier.export import Export
from trails.integrity.verifier.notes import LogState
from trails.integrity.verifier.proof_checks import (
    SignedNotes,
    base64_bytes,
    check_growth_proof,
    check_turn_proof,
    json_object,
    token_time,
)
from trails.integrity.verifier.quads import Unreadable
from trails.integrity.verifier.terms import iri_of

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://w3id.org/trails/audit-pack/v1"
NOTE = "manifest.note"
"""A note by the log's key with the SHA-256 of the manifest."""
_KEPT, _SIGNED, _GROWTH, _TOKEN = "kept.checkpoint", "report.checkpoint", "growth.proof", "kept.checkpoint.tsr"
_RECORDS, _REPORT = "records.nq", "report.json"
_OPAQUE = ("report.md", "report.html", "provenance.json", "agents.json", "ro-crate-metadata.json")

NOT_SEEN = (
    "whether the store's log was rewritten before its first checkpoint that you know: hold kept.checkpoint against your own",
    "whether a newer pack or a newer checkpoint of this log exists: an older pack is as true as it was",
    "what was written after the checkpoint of the report, whatever of it stands in the records: nothing here vouches for it",
    "registers of the store (incidents, purposes, exports, backups, reads, holds): a pack holds none of them",
    "mirrors, backups and other copies of the store: whether they say the same, and what they still hold",
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

    def __init__(self, files: Mapping[str, bytes], verifiers: Iterable[str]) -> None:
        self._files, self._notes = files, SignedNotes(verifiers)
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
            except IntegrityError as wrong:
                self._altered.append(Alteration(name, f"{wrong}"))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self._altered.append(Alteration(name, f"it is not as Trails writes it: {error}"))
        others = [f"the lines by {', '.join(self._notes.others)}: no key of theirs is known here"]
        shown = ", ".join(name for name in _OPAQUE if name in self._files)
        same = f"whether {shown} say the same as {_REPORT} and {_RECORDS}: they have the bytes that were signed"
        not_seen = (*self._not_seen, *(others if self._notes.others else []), same, *NOT_SEEN)
        return PackAnswer(tuple(self._altered), self._records, tuple(self._checked), not_seen)

    def _file(self, name: str) -> bytes:
        if name not in self._files:
            raise IntegrityError(f"{name} is missing")
        return self._files[name]

    def _check_manifest(self) -> None:
        statement = json_object(self._files[MANIFEST], {"_type", "subject", "predicateType", "predicate"})
        if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
            raise IntegrityError("this is no manifest of an audit pack: it is a statement of another type")
        pairs = [(each["name"], each["digest"]["sha256"]) for each in statement["subject"]]
        named = dict(pairs)
        if len(named) < len(pairs):
            raise IntegrityError("the manifest names a file twice")
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
            raise IntegrityError(
                "the pack was not signed, so whoever passed it on could change all of it: ask for one with --key"
            )
        text, names = self._notes.opened(self._files[NOTE])
        if text != signed_text(self._files[MANIFEST]):
            raise IntegrityError("the manifest was altered: it is not the one that the log signed")
        if self._files[NOTE].count(b"\n") != text.count("\n") + 2:  # witnesses sign checkpoints, never this
            raise IntegrityError("the note has a line that the log did not add")
        self._checked.append(f"the manifest is signed by {', '.join(names)}")

    def _check_report(self) -> None:
        audited = json_object(self._file(_REPORT))
        plain = {name: value for name, value in audited.items() if name != "digest"}
        text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != audited["digest"]:
            raise IntegrityError("the audit report was altered: its digest does not fit it")
        log = {"lines": audited["lines"], "root": audited["root"]}
        said = {"report": audited["digest"], "session": audited["subject"], "time": audited["time"], "log": log}
        if any(self._manifest.get(name) != value for name, value in said.items()):
            raise IntegrityError("the manifest is of another report")
        self._report = audited
        self._checked.append(f"the report of {audited['time']} has the digest {audited['digest']}")

    def _check_states(self) -> None:
        """Check both checkpoints, and that the log grew from the one that was kept to the one that vouches for the report."""
        state = self._notes.checkpoint(self._file(_SIGNED))
        if f"audit-report-sha256 {self._report.get('digest')}" not in state.extensions:
            raise IntegrityError("the checkpoint does not vouch for this report: it is of another one")
        if (self._report["lines"], base64_bytes(self._report["root"])) != (state.size, state.root):
            raise IntegrityError("the report was made at another state of the log than the checkpoint")
        self._checked.append(f"the log {state.origin} vouches for the report at {state.size} lines")
        if _KEPT in self._files:
            self._check_growth(self._notes.checkpoint(self._files[_KEPT]))
        elif _GROWTH in self._files or _TOKEN in self._files:
            raise IntegrityError(f"{_KEPT} is missing")
        else:
            self._not_seen.append("that the log only grew: the pack has no checkpoint that was kept elsewhere")

    def _check_growth(self, kept: LogState) -> None:
        reached, note = check_growth_proof(self._file(_GROWTH), kept, self._notes)
        if note != self._files[_SIGNED]:
            raise IntegrityError("the proof of growth leads to another checkpoint than the one of the report")
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
            except IntegrityError as wrong:
                self._altered.append(Alteration(name, f"{wrong}"))
        count = len(expected.keys() & self._files.keys())
        self._checked.append(f"the last turn of {count} of {len(expected)} sessions was in the log")
        self._not_seen.extend(missing)

    def _check_proof(self, name: str, session: dict[str, Any], owners: set[str]) -> None:
        proven, _, note = check_turn_proof(self._files[name], self._notes)
        if note != self._files.get(_SIGNED):
            raise IntegrityError("the proof is of another checkpoint than the one of the report")
        if (proven.index + 1, proven.digest) != (session["turns"], session["head"]):
            raise IntegrityError(f"the proof is not of the last turn of session {session['session']!r}")
        if session_name(proven.session) not in owners:
            raise IntegrityError("the proof is of a session that is not in the report")

    def _check_records(self) -> None:
        """Check the records by themselves, and that they are of the sessions of the report."""
        try:
            self._records = report(Export(io.BytesIO(self._file(_RECORDS)), may_be_empty=True))
        except Unreadable as error:
            raise IntegrityError(str(error)) from None
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


def check_files(files: Mapping[str, bytes], verifiers: Iterable[str]) -> PackAnswer:
    """Return what is found in the files of a pack, given the public keys of its log; InvalidInput for what is no key."""
    return Pack(files, verifiers).answer()
