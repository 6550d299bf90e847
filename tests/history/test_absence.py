"""Absence between two checkpoints of a store: proven, checked without the store, and never where something was there."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.commands import Run
from tests.support.machines import examples
from trails import Repository
from trails.errors import IntegrityError, InvalidInput
from trails.exchange.file_import import export_session
from trails.integrity.absence_proofs import AbsenceProof
from trails.integrity.proofs import read_proof
from trails.integrity.signed_notes import new_key
from trails.integrity.verifier.absence import check_absence_proof
from trails.integrity.verifier.joined import standalone_verifier
from trails.integrity.verifier.proof_checks import SignedNotes

LOG = "example.com/trails"
SIGNER, VERIFIER = new_key(LOG)


def holds(proof: AbsenceProof) -> bool:
    """Tell whether a proof holds by both verifiers, as it reads when it was written to a file."""
    text = proof.to_json()
    read = read_proof(text)
    assert read == proof
    proof.verify([VERIFIER])
    check_absence_proof(text.encode(), SignedNotes([VERIFIER]))
    return True


def is_absent(store: Repository, subject: Any, name: str | None, since: str, until: str) -> bool:
    """Tell whether absence is proven, or refused because there is something."""
    try:
        proof = store.proofs.absence(subject, name, since, until)
    except InvalidInput as present:
        if "is not absent" not in str(present):
            raise
        return False
    return holds(proof)


def called(session: trails.Session, tool: str) -> None:
    session.append("assistant", "", model="m-1", tool_calls=[{"id": "c", "name": tool, "arguments": {"secret": 1}}])


def test_absence_is_proven_of_what_came_neither_in_a_session_nor_in_its_forks(memory: Repository) -> None:
    plan = memory.create(id="plan", principal="alice")
    plan.append("user", "one")
    called(plan, "search")
    plan.append("user", "two")
    plan.persist()
    since = memory.proofs.checkpoint(SIGNER)
    fork = plan.fork(at=2, id="fork", principal="bob")  # in the middle of the batch of three
    fork.append("user", "three")
    fork.persist()
    twig = fork.fork(at=3, id="twig")
    twig.append("assistant", "four", model="m-2")
    twig.persist()
    copy = memory.load("plan").flatten()
    until = memory.proofs.checkpoint(SIGNER)
    named: list[tuple[str, str, bool]] = [
        ("tool", "search", True),  # the call is from before, and what flatten() copied is no new one
        ("model", "m-1", True),
        ("model", "m-2", False),
        ("author", "principal:alice", True),
        ("author", "principal:bob", False),
        ("session", "plan", True),
        ("session", copy.id, False),
        ("session", "fork", False),
        ("turn", plan.turns[1].digest, True),
        ("turn", twig.turns[3].digest, False),
    ]
    assert [is_absent(memory, subject, name, since, until) for subject, name, _ in named] == [each[2] for each in named]
    assert is_absent(memory, "removal", None, since, until)
    assert is_absent(memory, "read", None, since, until)


def test_a_proof_has_no_text_and_no_arguments(memory: Repository) -> None:
    since = memory.proofs.checkpoint(SIGNER)
    plan = memory.create(id="plan")
    plan.append("user", "a secret text")
    called(plan, "search")
    plan.persist()
    proof = memory.proofs.absence("tool", "shell", since, memory.proofs.checkpoint(SIGNER))
    assert "secret" not in proof.to_json()
    assert json.loads(proof.opened[0].facts[1])["calls"][0][:2] == ["c", "search"]


def test_removals_are_told_from_all_else_and_of_the_session_that_they_were_in(memory: Repository) -> None:
    for session_id in ("a", "b", "c"):
        session = memory.create(id=session_id)
        session.append("user", "text")
        session.persist()
    zero = memory.proofs.checkpoint(SIGNER)
    memory.load("c").set_label("kept")
    one = memory.proofs.checkpoint(SIGNER)
    memory.redact("a", 0)
    two = memory.proofs.checkpoint(SIGNER)
    memory.delete("b")
    three = memory.proofs.checkpoint(SIGNER)
    assert is_absent(memory, "removal", None, zero, one)
    assert [is_absent(memory, "removal", name, one, two) for name in (None, "a", "b")] == [False, False, True]
    assert [is_absent(memory, "removal", name, two, three) for name in (None, "a", "b")] == [False, True, False]


def test_a_read_on_record_is_not_absent_and_an_incident_is_no_read() -> None:
    with trails.open(":memory:", actor="eve", record_reads=True) as store:
        for session_id in ("a", "b"):
            session = store.create(id=session_id)
            session.append("user", "text")
            session.persist()
        zero = store.proofs.checkpoint(SIGNER)
        store.registers.flag_incident("serious", session="a", reason="wrong answer")
        one = store.proofs.checkpoint(SIGNER)
        store.replay("a")
        assert len(store.registers.reads()) == 1
        two = store.proofs.checkpoint(SIGNER)
        assert is_absent(store, "read", None, zero, one)
        export_session(store, "b", "nquads", io.BytesIO())
        three = store.proofs.checkpoint(SIGNER)
        assert [is_absent(store, "read", name, one, two) for name in (None, "a", "b")] == [False, False, True]
        assert [is_absent(store, "read", name, two, three) for name in (None, "a", "b")] == [False, True, False]


def test_what_was_deleted_since_can_no_longer_be_shown_absent_of_tools_and_a_proof_from_before_holds(
    memory: Repository,
) -> None:
    since = memory.proofs.checkpoint(SIGNER)
    plan = memory.create(id="plan")
    called(plan, "search")
    plan.persist()
    until = memory.proofs.checkpoint(SIGNER)
    before = memory.proofs.absence("tool", "shell", since, until)
    memory.delete("plan")
    with pytest.raises(InvalidInput, match=r"session 'plan' was deleted, .* can no longer be shown"):
        memory.proofs.absence("tool", "shell", since, until)
    assert is_absent(memory, "session", "other", since, until)
    assert holds(before)


def test_a_redacted_turn_is_opened_as_it_was_made(memory: Repository) -> None:
    since = memory.proofs.checkpoint(SIGNER)
    plan = memory.create(id="plan")
    called(plan, "search")
    plan.persist()
    memory.redact("plan", 0)
    until = memory.proofs.checkpoint(SIGNER)
    assert [is_absent(memory, "tool", name, since, until) for name in ("shell", "search")] == [True, False]


def test_what_is_asked_wrongly_is_refused(memory: Repository) -> None:
    old = memory.proofs.checkpoint(SIGNER)
    memory.create(id="plan").persist()
    new = memory.proofs.checkpoint(SIGNER)
    for subject, name, said in [
        ("tool", None, "give the tool"),
        ("turn", "00ff", "64 hex digits"),
        ("author", "alice", "principal:NAME or agent:NAME"),
        ("dream", "x", "cannot be proven absent"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            memory.proofs.absence(subject, name, old, new)  # type: ignore[arg-type] # one of them is none
    with pytest.raises(InvalidInput, match="the older and the newer one"):
        memory.proofs.absence("removal", None, new, old)
    with trails.open(":memory:") as other:
        other.create(id="other").persist()
        theirs = other.proofs.checkpoint(SIGNER)
    with pytest.raises(IntegrityError, match="of no state of this log"):
        memory.proofs.absence("removal", None, old, theirs)


# --- any history


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, str]]:
    """Draw steps: (what, of which session by its number, by which tool or at which turn)."""
    steps = st.tuples(
        st.sampled_from(["append", "append", "append", "fork", "flatten"]),
        st.integers(0, 9),
        st.sampled_from(["", "t0", "t1", "t2"]),
    )
    return draw(st.lists(steps, min_size=1, max_size=14))


@examples(60)
@given(history=histories(), ends=st.tuples(st.integers(0, 14), st.integers(0, 14)), cut=st.integers(0, 10**6))
def test_what_any_history_has_between_two_of_its_states_is_told_from_what_it_has_not(
    history: list[tuple[str, int, str]], ends: tuple[int, int], cut: int
) -> None:
    with trails.open(":memory:") as store:
        sessions = [store.create(id="s0")]
        sessions[0].append("user", "start")
        sessions[0].persist()
        notes, tools, touched = [store.proofs.checkpoint(SIGNER)], [set[str]()], [set[str]()]
        for number, (what, which, tool) in enumerate(history, 1):
            session = sessions[which % len(sessions)]
            if what == "append":
                for more in range(which % 3 + 1):
                    session.append("user", f"{number} {more}")
                if tool:
                    called(session, tool)
                session.persist()
            elif what == "fork":
                session = session.fork(at=which % (len(session) + 1), id=f"s{len(sessions)}")
                session.persist()
                sessions.append(session)
            else:
                session = session.flatten(id=f"s{len(sessions)}")
                sessions.append(session)
            notes.append(store.proofs.checkpoint(SIGNER))
            tools.append({tool} if what == "append" and tool else set())
            touched.append({session.id})
        old, new = sorted(min(end, len(history)) for end in ends)
        there = set[str]().union(*tools[old + 1 : new + 1])
        ids = set[str]().union(*touched[old + 1 : new + 1])
        for tool in ("t0", "t1", "t2", "t3"):
            assert is_absent(store, "tool", tool, notes[old], notes[new]) == (tool not in there)
        for session_id in ("s0", "s1", "s2", "nobody"):
            assert is_absent(store, "session", session_id, notes[old], notes[new]) == (session_id not in ids)
        text = store.proofs.absence("tool", "t3", notes[old], notes[new]).to_json()
    altered_at = cut % (len(text) - 2)
    letter = "1" if text[altered_at] != "1" else "2"
    altered = text[:altered_at] + letter + text[altered_at + 1 :]
    assert not _holds_unless_another_name(text, altered)


def _holds_unless_another_name(text: str, altered: str) -> bool:
    """Tell whether an altered proof still holds, other than as a true one about a tool of another name, or signed anew."""
    same = ("name",)
    try:
        check_absence_proof(altered.encode(), SignedNotes([VERIFIER]))
        proof = read_proof(altered)
        assert isinstance(proof, AbsenceProof)
        proof.verify([VERIFIER])
    except (IntegrityError, InvalidInput):
        return False
    before, now = json.loads(text), json.loads(altered)
    return any(before[field] != now[field] for field in before if field not in same)


# --- by commands, and with nothing but Python


def test_a_proof_is_made_by_a_command_and_checked_by_one_and_by_the_stand_alone_program(
    tmp_path: Path, run: Run
) -> None:
    key, public = tmp_path / "log.key", tmp_path / "log.key.pub"
    run("proof", "checkpoint", "--new-key", LOG, "--key", str(key))
    run("import", "--create", trails.__path__[0] + "/_samples/release-plan.jsonl")
    old, new, made = tmp_path / "old", tmp_path / "new", tmp_path / "absence.proof"
    run("proof", "checkpoint", "--key", str(key), "-o", str(old))
    run("proof", "checkpoint", "--key", str(key), "-o", str(new))
    run("proof", "absence", "removal", "--since", str(old), "--checkpoint", str(new), "-o", str(made))
    checked = run("proof", "check", str(made), "--verifier", str(public), "--kept", str(old), "--json")
    assert (json.loads(checked.stdout)["proves"], json.loads(checked.stdout)["subject"]) == ("absence", "removal")
    program = tmp_path / "verify_export.py"
    program.write_bytes(standalone_verifier())
    command = [sys.executable, "-I", str(program), str(made), "--verifier", str(public)]
    done = subprocess.run([*command, "--kept", str(old)], capture_output=True, text=True, check=False)
    assert (done.returncode, "the proof holds" in done.stdout) == (0, True)
    made.write_text(made.read_text().replace('"removal"', '"session"'))
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (1, False)
