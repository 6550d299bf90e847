"""Proofs of absence by hand: a log of five lines whose tree and digests are written out, and proofs that must not pass.

Each proof is judged twice, by the package and by the program that needs nothing but Python.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from trails.errors import IntegrityError, InvalidInput
from trails.integrity.absence_proofs import AbsenceProof
from trails.integrity.proofs import read_proof
from trails.integrity.signed_notes import Checkpoint, new_key, sign_checkpoint
from trails.integrity.verifier.absence import check_absence_proof
from trails.integrity.verifier.proof_checks import SignedNotes

LOG = "example.com/log"
SIGNER, KEY = new_key(LOG)
OTHER_SIGNER, OTHER_KEY = new_key(LOG)


def hashed(tag: str, *fields: str) -> str:
    """Return a digest as the table of the guide has it: a tag, and each field after its length in eight bytes."""
    framed = b"".join(len(each.encode()).to_bytes(8, "big") + each.encode() for each in fields)
    return sha256(tag.encode() + framed).hexdigest()


def turn(index: int, role: str, author: str, facts: str = "") -> dict[str, Any]:
    """Return what the digest of a turn covers, without a time."""
    digest = hashed("trails/facts/1", facts) if facts else ""
    content = hashed("trails/salted/1", "text", "00ff", f"text {index}")
    return {
        "index": index,
        "branch": "main",
        "role": role,
        "author": author,
        "time": None,
        "content": content,
        "facts": digest,
    }


def after(before: str, covered: dict[str, Any]) -> str:
    fields = (str(covered["index"]), covered["branch"], covered["role"], covered["author"], "")
    return hashed("trails/turn/1", before, *fields, covered["content"], covered["facts"])


START = hashed("trails/genesis/1")
CALLED = '{"calls":[["c","search","' + "0" * 64 + '"]],"model":["m-1",null,null]}'
T0 = turn(0, "user", "principal:alice")
T1 = turn(1, "assistant", "agent:planner", '{"model":["m-0",null,null]}')
T2 = turn(2, "user", "principal:bob")
T3 = turn(3, "assistant", "agent:planner", CALLED)
D0 = after(START, T0)
D1 = after(D0, T1)
D2 = after(D1, T2)
D3 = after(D2, T3)


def linked(*fields: str) -> list[str]:
    """Return lines of a log: each ends with the beginning of the SHA-256 of the one before's end and its own fields."""
    lines, link = [], "0" * 16
    for each in fields:
        link = sha256(f"{link} {each}".encode()).hexdigest()[:16]
        lines.append(f"{each} {link}")
    return lines


LINES = linked(
    f"create urn:trails:session:plan 0 ~{'1' * 64}",
    f"turns urn:trails:session:plan 2 {D1}",
    f"change urn:trails:session:plan 0 ~{'2' * 64}",
    f"turns urn:trails:session:plan 4 {D3}",
    f"delete urn:trails:session:old 0 ~{'3' * 64}",
)


def leaf(number: int) -> bytes:
    return sha256(b"\x00" + LINES[number].encode()).digest()


def node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


FIRST_TWO = node(leaf(0), leaf(1))
ROOT_3 = node(FIRST_TWO, leaf(2))
ROOT_5 = node(node(FIRST_TWO, node(leaf(2), leaf(3))), leaf(4))


def signed(size: int, root: bytes, signer: str = SIGNER, origin: str = LOG) -> str:
    return sign_checkpoint(Checkpoint(origin=origin, size=size, root=root), signer)


A, B = signed(3, ROOT_3), signed(5, ROOT_5)
BEFORE = {
    "leaf": LINES[1],
    "leaf_index": 1,
    "hashes": [base64.b64encode(each).decode() for each in (leaf(0), leaf(2))],
    "links": [],
}


def a_proof(subject: str, name: str | None, **others: Any) -> dict[str, Any]:
    """Return the fields of a proof about the two last lines."""
    opens, facts = subject in ("turn", "tool", "model", "author"), subject in ("tool", "model")
    batch = {
        "place": 3,
        "previous": D1,
        "before": BEFORE,
        "turns": [T2, T3],
        "facts": ["", CALLED] if facts else [],
    }
    return {
        "format": "trails-absence-proof/1",
        "origin": LOG,
        "hashes": [base64.b64encode(each).decode() for each in (FIRST_TWO, leaf(2))],
        "checkpoint": B,
        "since": A,
        "subject": subject,
        "name": name,
        "old_size": 3,
        "new_size": 5,
        "lines": LINES[3:],
        "opened": [batch] if opens else [],
        "entries": {},
    } | others


def verdicts(fields: dict[str, Any], key: str = KEY) -> tuple[bool, bool]:
    """Return whether the package and the stand-alone program accept a proof."""
    text = json.dumps(fields)
    try:
        proof = read_proof(text)
        assert isinstance(proof, AbsenceProof)
        proof.verify([key])
        package = True
    except (IntegrityError, InvalidInput):
        package = False
    try:
        check_absence_proof(text.encode(), SignedNotes([key]))
        alone = True
    except IntegrityError:
        alone = False
    return package, alone


@pytest.mark.parametrize(
    ("subject", "name", "is_absent"),
    [
        ("session", "other", True),
        ("session", "plan", False),  # line 3
        ("session", "old", False),  # line 4: deleted
        ("turn", D0, True),  # from before
        ("turn", D1, True),
        ("turn", D2, False),
        ("turn", D3, False),
        ("turn", "f" * 64, True),
        ("turn", "F" * 64, False),  # no digest is written so
        ("tool", "shell", True),
        ("tool", "Search", True),  # names are compared as they stand
        ("tool", "search", False),
        ("model", "m-0", True),  # only before
        ("model", "m-1", False),
        ("author", "principal:alice", True),  # only before
        ("author", "principal:bob", False),
        ("author", "agent:planner", False),
        ("author", "planner", False),  # neither a principal nor an agent
        ("removal", None, False),
        ("removal", "old", False),
        ("removal", "plan", True),
        ("read", None, True),
        ("read", "plan", True),
        ("session", None, False),  # of which one?
        ("session", "", False),
    ],
)
def test_what_is_absent_from_two_lines_is_proven_and_what_is_there_is_not(
    subject: str, name: str | None, is_absent: bool
) -> None:
    assert verdicts(a_proof(subject, name)) == (is_absent, is_absent)


def with_batch(**changes: Any) -> dict[str, Any]:
    fields = a_proof("tool", "shell")
    return {**fields, "opened": [fields["opened"][0] | changes]}


def reordered() -> dict[str, Any]:
    return a_proof("tool", "shell", lines=LINES[:2:-1])


HOSTILE: dict[str, Callable[[], dict[str, Any]]] = {
    "a line was left out": lambda: a_proof("removal", None, lines=LINES[3:4]),
    "a line was left out, and the size said to be less": lambda: a_proof("removal", None, lines=LINES[3:4], new_size=4),
    "a line was left out, and the older size said to be more": lambda: a_proof(
        "session", "plan", lines=LINES[4:], old_size=4
    ),
    "another line stands in its place": lambda: a_proof("removal", None, lines=[LINES[3], LINES[3]]),
    "two lines were swapped": reordered,
    "the session in a line was altered": lambda: a_proof(
        "session", "plan", lines=[LINES[3].replace(":plan", ":plam"), LINES[4]]
    ),
    "the edge was cut": lambda: a_proof(
        "session", "other", hashes=[base64.b64encode(node(FIRST_TWO, leaf(2))).decode()]
    ),
    "the edge was swapped": lambda: a_proof(
        "session", "other", hashes=[base64.b64encode(each).decode() for each in (leaf(2), FIRST_TWO)]
    ),
    "the older checkpoint is of another range": lambda: a_proof("session", "other", since=signed(2, FIRST_TWO)),
    "the older checkpoint is of another history of as many lines": lambda: a_proof(
        "session", "other", since=signed(3, sha256(b"another history").digest())
    ),
    "the older checkpoint is the newer one": lambda: a_proof("session", "other", since=B),
    "the checkpoints were swapped": lambda: a_proof("session", "other", since=B, checkpoint=A),
    "another key signed the older checkpoint": lambda: a_proof(
        "session", "other", since=signed(3, ROOT_3, OTHER_SIGNER)
    ),
    "another key signed the newer checkpoint": lambda: a_proof(
        "session", "other", checkpoint=signed(5, ROOT_5, OTHER_SIGNER)
    ),
    "it is said to be of another log": lambda: a_proof("session", "other", origin="example.com/else"),
    "it is replayed with the checkpoint of another store": lambda: a_proof(
        "session", "other", checkpoint=signed(5, sha256(b"another store").digest())
    ),
    "the question was changed to another key": lambda: a_proof("tool", "search"),
    "the question was changed to one that opens less": lambda: a_proof(
        "session", "other", opened=a_proof("turn", D0)["opened"]
    ),
    "the turns of a line are not opened": lambda: a_proof("tool", "search", opened=[]),
    "a turn was left out": lambda: with_batch(turns=[T2], facts=[""]),
    "the first turn was left out": lambda: with_batch(previous=D2, turns=[T3], facts=[CALLED]),
    "the turns before were left out, and begin at a head of nowhere": lambda: with_batch(before=None),
    "a turn was altered": lambda: with_batch(turns=[T2, T3 | {"author": "agent:other"}]),
    "the facts of a turn were taken away": lambda: with_batch(facts=["", ""]),
    "the facts of a turn were altered": lambda: with_batch(facts=["", CALLED.replace("search", "shell2")]),
    "the facts were cut": lambda: with_batch(facts=[""]),
    "turns are opened twice": lambda: a_proof("tool", "shell", opened=a_proof("tool", "shell")["opened"] * 2),
    "turns of a line from before are opened": lambda: with_batch(place=1),
    "the line before is of a place that it does not have": lambda: with_batch(before=BEFORE | {"leaf_index": 2}),
    "the line before is between the checkpoints": lambda: with_batch(
        previous=D3, turns=[], facts=[], before=BEFORE | {"leaf": LINES[3], "leaf_index": 3}
    ),
    "the way to the line before was cut": lambda: with_batch(before=BEFORE | {"hashes": BEFORE["hashes"][:1]}),  # type: ignore[index] # a list
    "a field is missing": lambda: {
        name: value for name, value in a_proof("session", "other").items() if name != "since"
    },
    "a field was added": lambda: a_proof("session", "other", more=1),
    "the subject is unknown": lambda: a_proof("dream", "other"),
    "the format is another": lambda: a_proof("session", "other", format="trails-turn-proof/1"),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_proof_is_refused(how: str) -> None:
    assert verdicts(HOSTILE[how]()) == (False, False)


def test_a_truncated_proof_is_refused_wherever_it_was_cut() -> None:
    text = json.dumps(a_proof("tool", "shell"))
    for cut in range(0, len(text), 97):
        with pytest.raises(InvalidInput):
            read_proof(text[:cut])
        with pytest.raises(IntegrityError):
            check_absence_proof(text[:cut].encode(), SignedNotes([KEY]))


def test_a_proof_holds_for_no_other_key_and_for_no_other_kept_checkpoint() -> None:
    fields = a_proof("session", "other")
    assert verdicts(fields) == (True, True)
    assert verdicts(fields, OTHER_KEY) == (False, False)
    proof = read_proof(json.dumps(fields))
    assert isinstance(proof, AbsenceProof)
    assert proof.verify([KEY], A).size == 5
    with pytest.raises(IntegrityError, match="since another checkpoint than the one that was kept"):
        proof.verify([KEY], signed(2, FIRST_TWO))


def test_a_turn_of_a_fork_is_opened_from_the_turn_that_was_there_before() -> None:
    """A fork at 1 of a batch of two: its first turn follows turn 0, and turn 1 leads to the head that the log had."""
    other = turn(1, "user", "principal:carol")
    lines = linked(LINES[0][:-17], LINES[1][:-17], f"turns urn:trails:session:fork 2 {after(D0, other)}")
    old_root, new_leaf = FIRST_TWO, sha256(b"\x00" + lines[2].encode()).digest()
    before = {"leaf": LINES[1], "leaf_index": 1, "hashes": [base64.b64encode(leaf(0)).decode()], "links": [T1]}
    shown = {
        "hashes": [base64.b64encode(old_root).decode()],
        "old_size": 2,
        "new_size": 3,
        "lines": [lines[2]],
        "since": signed(2, old_root),
        "checkpoint": signed(3, node(old_root, new_leaf)),
        "opened": [{"place": 2, "previous": D0, "before": before, "turns": [other], "facts": []}],
    }
    assert verdicts(a_proof("author", "agent:planner", **shown)) == (True, True)  # turn 1 of the parent is from before
    assert verdicts(a_proof("author", "principal:carol", **shown)) == (False, False)
    cut = [shown["opened"][0] | {"before": before | {"links": []}}]  # type: ignore[index] # a list
    assert verdicts(a_proof("author", "agent:planner", **shown | {"opened": cut})) == (False, False)


def test_a_line_of_another_session_from_before_does_not_stand_for_turns_that_are_left_out() -> None:
    """Another session had three turns before: with its line, turn 2, which is new, could be passed over."""
    lines = linked(
        LINES[0][:-17], f"turns urn:trails:session:other 3 {'e' * 64}", f"turns urn:trails:session:plan 4 {D3}"
    )
    first, second, third = (sha256(b"\x00" + line.encode()).digest() for line in lines)
    old_root = node(first, second)
    before = {"leaf": lines[1], "leaf_index": 1, "hashes": [base64.b64encode(first).decode()], "links": []}
    shown = {
        "hashes": [base64.b64encode(old_root).decode()],
        "old_size": 2,
        "new_size": 3,
        "lines": [lines[2]],
        "since": signed(2, old_root),
        "checkpoint": signed(3, node(old_root, third)),
        "opened": [{"place": 2, "previous": D2, "before": before, "turns": [T3], "facts": []}],
    }
    assert verdicts(a_proof("author", "principal:bob", **shown)) == (False, False)
    whole = [{"place": 2, "previous": START, "before": None, "turns": [T0, T1, T2, T3], "facts": []}]
    assert verdicts(a_proof("author", "principal:carol", **shown | {"opened": whole})) == (True, True)


def entry_of(kind: str, *used: str) -> tuple[str, str, str]:
    """Return the IRI of an entry of a register, its text and its digest."""
    iri = "urn:trails:register:00ff"
    a = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    lines = [f"<{iri}> {a} <https://w3id.org/trails#{kind}> .\n"]
    lines += [f"<{iri}> <http://www.w3.org/ns/prov#used> <urn:trails:session:{each}> .\n" for each in used]
    text = "".join(sorted(lines))
    return iri, text, sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("kind", "used", "name", "is_absent"),
    [
        ("RecordReading", ["plan"], None, False),
        ("RecordReading", ["plan"], "plan", False),
        ("RecordReading", ["plan"], "other", True),
        ("RecordReading", ["pl%61n"], "plan", False),  # the same id
        ("RecordReading", [], "other", False),  # it names no session, and may be of any
        ("Export", ["plan"], "plan", False),
        ("Export", [], "plan", False),  # of the whole store
        ("Incident", ["plan"], None, True),
    ],
)
def test_a_read_is_told_from_other_entries_of_registers_by_what_their_lines_cover(
    kind: str, used: list[str], name: str | None, is_absent: bool
) -> None:
    iri, text, digest = entry_of(kind, *used)
    [line] = linked(f"register {iri} 0 {digest}")
    root = sha256(b"\x00" + line.encode()).digest()
    empty = signed(0, sha256(b"").digest())
    sizes = {"old_size": 0, "new_size": 1, "lines": [line], "hashes": [], "since": empty, "checkpoint": signed(1, root)}
    assert verdicts(a_proof("read", name, **sizes, entries={iri: text})) == (is_absent, is_absent)
    assert verdicts(a_proof("read", name, **sizes, entries={})) == (False, False)
    hidden = text.replace(kind, "Hold", 1)
    assert verdicts(a_proof("read", name, **sizes, entries={iri: hidden})) == (False, False)
