"""Check the proof that something was not recorded between two checkpoints.

`trails.integrity.absence_proofs` makes the same judgement of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from trails.errors import IntegrityError
from trails.integrity.verifier.digest_rules import GENESIS, facts_json_digest
from trails.integrity.verifier.merkle_checks import EMPTY_ROOT, check_proof, leaf_hash, node_hash, verify_inclusion
from trails.integrity.verifier.notes import LogState
from trails.integrity.verifier.proof_checks import SignedNotes, base64_bytes, json_object, opened_digest

ABSENCE = "trails-absence-proof/1"
_ABSENCE_FIELDS = {
    "format", "origin", "hashes", "checkpoint", "since", "subject", "name",
    "old_size", "new_size", "lines", "opened", "entries",
}  # fmt: skip
_KINDS = (
    "create fork turns change detach redact delete sync close received sent delivered pending streaming completed failed "
    "said brief transition cancel result artifact run task remove decision document discard ref register"
)
_LOG_LINE = re.compile(
    f"({_KINDS.replace(' ', '|')})"
    r" (urn:trails:(?:session|prov|ref|register):[^ \n]+|-) ([0-9]{1,19}) (~?[0-9a-f]{64}|-) ([0-9a-f]{16})"
)
_SESSION_IRI = "urn:trails:session:"
_A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_READINGS = ("<https://w3id.org/trails#RecordReading>", "<https://w3id.org/trails#Export>")
_USED = "<http://www.w3.org/ns/prov#used>"


def check_absence_proof(data: bytes, notes: SignedNotes) -> tuple[str, str | None, LogState, LogState]:
    """Return what a proof shows to be absent (what, and which), and the two states of the log that it is absent between."""
    proof = json_object(data, _ABSENCE_FIELDS)
    try:
        old, new = notes.checkpoint(proof["since"].encode()), notes.checkpoint(proof["checkpoint"].encode())
        named = (proof["format"], proof["origin"], proof["old_size"], proof["new_size"])
        if named != (ABSENCE, old.origin, old.size, new.size) or old.origin != new.origin:
            raise IntegrityError("the proof and its checkpoints do not belong together")
        leaves = _checked_lines(proof, old, new)
        _check_kinds(proof, leaves, old.size)
        if proof["subject"] in ("turn", "tool", "model", "author"):
            _check_opened(proof, leaves, old)
        elif proof["opened"] or proof["subject"] not in ("session", "removal", "read"):
            raise IntegrityError("the proof is about nothing that this program knows")
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise IntegrityError(f"it is no proof of absence: {error}") from None
    return proof["subject"], proof["name"], old, new


def _edge_root(edge: list[tuple[int, bytes]]) -> bytes:
    if not edge:
        return EMPTY_ROOT
    root = edge[-1][1]
    for _, left in reversed(edge[:-1]):
        root = node_hash(left, root)
    return root


def _checked_lines(proof: dict[str, Any], old: LogState, new: LogState) -> list[tuple[str, str, int, str]]:
    """Return kind, IRI, count and digest of every line, which with the older tree must make the newer one."""
    heights = [bit for bit in range(old.size.bit_length() - 1, -1, -1) if old.size >> bit & 1]
    hashes = [base64_bytes(each) for each in proof["hashes"]]
    check_proof(hashes, len(heights), "the edge of the older tree")
    edge = list(zip(heights, hashes))  # noqa: B905 - Python 3.9
    if _edge_root(edge) != old.root:
        raise IntegrityError("the edge of the older tree does not lead to its root")
    if len(proof["lines"]) != new.size - old.size:
        raise IntegrityError("lines of the log were left out or added")
    leaves = []
    for line in proof["lines"]:
        height, node = 0, leaf_hash(line.encode())
        while edge and edge[-1][0] == height:
            node = node_hash(edge.pop()[1], node)
            height += 1
        edge.append((height, node))
        found = _LOG_LINE.fullmatch(line)
        if found is None:
            raise IntegrityError(f"a line of the log cannot be read: {line[:80]!r}")
        leaves.append((found[1], found[2], int(found[3]), found[4]))
    if _edge_root(edge) != new.root:
        raise IntegrityError("the lines do not lead to the newer root: a line was altered, moved, left out or added")
    return leaves


def _check_kinds(proof: dict[str, Any], leaves: list[tuple[str, str, int, str]], size: int) -> None:
    subject, name = proof["subject"], proof["name"]
    form = {"turn": "[0-9a-f]{64}", "author": "(principal|agent):.+"}.get(subject, ".+")
    if not (subject in ("removal", "read") if name is None else re.fullmatch(form, name, re.DOTALL)):
        raise IntegrityError("the proof does not say what is absent")
    for place, (kind, iri, _, digest) in enumerate(leaves, size):
        mine = name is None or _session_of(iri) == name
        if subject == "session":
            present = mine
        elif subject == "removal":
            anywhere = kind == "redact" and not iri.startswith(_SESSION_IRI)
            present = kind in ("delete", "redact", "remove", "discard") and (mine or anywhere)
        else:
            present = subject == "read" and kind == "register" and _is_reading(proof["entries"][iri], iri, digest, name)
        if present:
            raise IntegrityError(f"it is not absent: line {place} of the log ({kind} {iri}) has it")


def _session_of(iri: str) -> str | None:
    """Return the id of the session that an IRI names or is within, None for any other IRI."""
    return unquote(iri[len(_SESSION_IRI) :].partition("/")[0]) if iri.startswith(_SESSION_IRI) else None


def _is_reading(text: str, iri: str, digest: str, name: str | None) -> bool:
    lines = text.split("\n")
    if hashlib.sha256(text.encode()).hexdigest() != digest or lines.pop():
        raise IntegrityError(f"the entry {iri} of a register is not the one of the log")
    if any(not line.startswith(f"<{iri}> ") for line in lines):
        raise IntegrityError(f"the entry {iri} of a register has lines of something else")
    if not any(f"<{iri}> {_A} {each} ." in lines for each in _READINGS):
        return False
    start = f"<{iri}> {_USED} <"
    used = [_session_of(line[len(start) : -len("> .")]) for line in lines if line.startswith(start)]
    return name is None or not used or name in used


def _check_opened(proof: dict[str, Any], leaves: list[tuple[str, str, int, str]], old: LogState) -> None:
    opened = {each["place"]: each for each in proof["opened"]}
    if len(opened) != len(proof["opened"]):
        raise IntegrityError("the proof opens the turns of a line twice")
    known = {GENESIS: 0}
    for place, (kind, _, count, digest) in enumerate(leaves, old.size):
        if kind != "turns":
            continue
        batch = opened.pop(place, None)
        if batch is None and known.get(digest) != count:
            raise IntegrityError(f"the turns of line {place} of the log are not opened")
        if batch is not None and (count, digest) != _follow(proof, batch, old, known):
            raise IntegrityError(f"the turns of line {place} do not lead to the head that the log names")
    if opened:
        raise IntegrityError("the proof opens turns of a line that is not between the checkpoints")


def _take_before(batch: dict[str, Any], old: LogState, known: dict[str, int]) -> None:
    before, head = batch["before"], batch["previous"]
    hashes = [base64_bytes(each) for each in before["hashes"]]
    verify_inclusion(leaf_hash(before["leaf"].encode()), before["leaf_index"], old.size, hashes, old.root)
    leaf = _LOG_LINE.fullmatch(before["leaf"])
    if leaf is None or leaf[1] != "turns":
        raise IntegrityError("what is before opened turns is no batch of turns")
    count = int(leaf[3]) - len(before["links"])
    chain = [(head, count)]
    for turn in before["links"]:
        if turn["index"] != count:
            raise IntegrityError(f"the proof has turn {turn['index']} where turn {count} belongs")
        head, count = opened_digest(turn, head), count + 1
        chain.append((head, count))
    if head != leaf[4]:
        raise IntegrityError("the turns before opened ones do not lead to the head that the log named")
    known.update(chain)


def _follow(proof: dict[str, Any], batch: dict[str, Any], old: LogState, known: dict[str, int]) -> tuple[int, str]:
    """Return how many turns opened ones lead to, and the head; IntegrityError where one is what is said to be absent."""
    if batch.keys() != {"place", "previous", "before", "turns", "facts"}:
        raise IntegrityError("opened turns do not have the fields that belong there")
    if batch["before"] is not None:
        _take_before(batch, old, known)
    if batch["previous"] not in known:
        raise IntegrityError(f"the turns before line {batch['place']} are not shown to have been in the log before")
    subject, name = proof["subject"], proof["name"]
    has_facts = subject in ("tool", "model")
    if len(batch["facts"]) != (len(batch["turns"]) if has_facts else 0):
        raise IntegrityError("the facts of opened turns are not there")
    head = batch["previous"]
    count = known[head]
    for number, turn in enumerate(batch["turns"]):
        if turn["index"] != count:
            raise IntegrityError(f"the proof has turn {turn['index']} where turn {count} belongs")
        head, count = opened_digest(turn, head), count + 1
        facts: dict[str, Any] = {}
        if has_facts:
            text = batch["facts"][number]
            if facts_json_digest(text) != turn["facts"]:
                raise IntegrityError(f"the facts of turn {turn['index']} do not have the digest that is proven")
            facts = json_object(text.encode()) if text else {}
        has = {
            "turn": head == name,
            "author": turn["author"] == name,
            "tool": name in [call[1] for call in facts.get("calls", [])],
            "model": (facts.get("model") or [None])[0] == name,
        }
        if head not in known and has[subject]:
            raise IntegrityError(f"it is not absent: turn {turn['index']} of line {batch['place']} of the log has it")
        known[head] = count
    return count, head


# --- the answer


def absence_answer(data: bytes, verifiers: Iterable[str], kept: bytes | None) -> dict[str, Any]:
    """Return the answer about a proof of absence, as JSON; `kept` is the older checkpoint, as it was kept."""
    said: dict[str, Any] = {"format": "trails-absence-verification/1", "ok": False}
    notes = SignedNotes(verifiers)
    try:
        subject, name, old, new = check_absence_proof(data, notes)
        if kept is not None and notes.checkpoint(kept) != old:
            raise IntegrityError("the proof is since another checkpoint than the one that was kept")
    except IntegrityError as wrong:
        return {**said, "reason": f"{wrong}"}
    sizes = {"log": old.origin, "old_size": old.size, "size": new.size}
    return {**said, "ok": True, "subject": subject, "name": name, **sizes, "since_is_as_kept": kept is not None}


def absence_lines(said: dict[str, Any]) -> Iterator[str]:
    """Give the answer about a proof of absence in words."""
    if not said["ok"]:
        yield f"THE PROOF DOES NOT HOLD: {said['reason']}"
        return
    which = "" if said["name"] is None else f" {said['name']!r}"
    yield f"absent between lines {said['old_size']} and {said['size']} of the log {said['log']}: {said['subject']}{which}"
    if not said["since_is_as_kept"]:
        yield "the older checkpoint is the one in the proof: give the one that you kept with --kept FILE"
    yield "the proof holds; what was never recorded it cannot show"
