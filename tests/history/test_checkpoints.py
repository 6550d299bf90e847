"""Checkpoints and proofs of a store's log: made by the store, checked by anyone, and fooled by no rewriting."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.authority import FOR_STAMPS, Holder, certified, nonce_of, response, signed, token_info
from tests.support.commands import Run, invoke, ok
from tests.support.killed import left_by_a_kill
from tests.support.machines import examples
from tests.support.places import IMPORTED
from trails import Repository, Session
from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.integrity.proofs import ConsistencyProof, TurnProof, read_proof
from trails.integrity.signed_notes import claimed_checkpoint, new_key, sign_checkpoint
from trails.rdf import vocab
from trails.store import Change

LOG = "example.com/trails"
SIGNER, VERIFIER = new_key(LOG)


def wrote(session: Session, *texts: str) -> Session:
    """Write turns in one batch."""
    for text in texts:
        session.append("user", text)
    session.persist()
    return session


def size_of(note: str) -> int:
    return int(note.split("\n")[1])


def codes(store: Repository, note: str) -> list[str]:
    return [finding.code for finding in store.verify(checkpoint=note, verifiers=[VERIFIER]).findings]


def merkle_root(data: list[bytes]) -> bytes:
    """The Merkle tree hash, word for word as RFC 6962, section 2.1 defines it."""
    if not data:
        return sha256(b"").digest()
    if len(data) == 1:
        return sha256(b"\x00" + data[0]).digest()
    split = 1
    while split * 2 < len(data):
        split *= 2
    return sha256(b"\x01" + merkle_root(data[:split]) + merkle_root(data[split:])).digest()


# --- checkpoints


def test_a_checkpoint_is_the_merkle_root_over_the_lines_of_the_log(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        plan = wrote(store.create(id="plan"), "one", "two")
        wrote(plan.fork(at=1), "three")
    with trails.open(tmp_path / "s") as store:
        note = store.proofs.checkpoint(SIGNER)
    with trails.open(tmp_path / "s") as store:
        lines = store.store.log.text().encode().split(b"\n")[:-1]
    origin, size, root, empty, signature = note.split("\n")[:5]
    assert (origin, empty) == (LOG, "")
    assert int(size) == len(lines)
    assert base64.b64decode(root) == merkle_root(lines)
    assert signature.startswith(f"\N{EM DASH} {LOG} ")


def test_a_store_without_a_commit_has_a_checkpoint_of_nothing_that_all_grows_from(store: Repository) -> None:
    empty = store.proofs.checkpoint(SIGNER)
    assert size_of(empty) == 0
    wrote(store.create(), "one")
    assert codes(store, empty) == []
    assert store.proofs.growth(empty, store.proofs.checkpoint(SIGNER)).verify(empty, [VERIFIER]).size == 2


def test_what_a_checkpoint_covers_is_there_when_the_process_is_killed_right_after_it(tmp_path: Path) -> None:
    place, killed = tmp_path / "s", tmp_path / "killed"
    with trails.open(place, create=True) as store:
        wrote(store.create(id="a"), "one")
        note = store.proofs.checkpoint(SIGNER)
        left_by_a_kill(place, killed)
        assert size_of(note) == len(store.store.log.lines()) == 2
    with trails.open(killed) as store:
        assert codes(store, note) == []
        wrote(store.load("a"), "two")
        assert codes(store, note) == []


def test_only_a_signer_key_signs(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="not a signer key"):
        memory.proofs.checkpoint(VERIFIER)


# --- what a kept checkpoint finds


def test_verify_is_silent_where_the_log_only_grew_since_the_checkpoint(store: Repository) -> None:
    plan = wrote(store.create(id="plan"), "one", "two")
    kept = store.proofs.checkpoint(SIGNER)
    assert codes(store, kept) == []
    wrote(plan, "three")
    wrote(plan.fork(at=1, id="fork"), "other")
    store.delete("fork")
    assert codes(store, kept) == []
    assert store.verify("plan", checkpoint=kept, verifiers=[VERIFIER]).ok


def test_a_store_and_log_that_were_rewritten_together_are_caught_only_by_a_kept_checkpoint(
    opener: Callable[[str], Repository],
) -> None:
    with opener("honest") as store:
        wrote(store.create(id="plan", principal="alice"), "pay 10", "done")
        kept = store.proofs.checkpoint(SIGNER)
    with opener("rewritten") as store:
        wrote(store.create(id="plan", principal="alice"), "pay 10000", "done")
        wrote(store.create(id="more"), "so that the log is longer")
        assert store.verify().ok
        [finding] = store.verify(checkpoint=kept, verifiers=[VERIFIER]).findings
        assert finding.code == "checkpoint"
        assert "rewritten" in finding.message
        [alone] = store.verify("plan", checkpoint=kept, verifiers=[VERIFIER]).findings
        assert alone.code == "checkpoint"


def test_copies_of_store_and_log_that_were_put_back_are_caught_only_by_a_kept_checkpoint(tmp_path: Path) -> None:
    place, old = tmp_path / "s", tmp_path / "old"
    with trails.open(place, create=True) as store:
        wrote(store.create(id="plan"), "one")
    shutil.copytree(place, old)
    with trails.open(place) as store:
        wrote(store.load("plan"), "two")
    with trails.open(place) as store:
        kept = store.proofs.checkpoint(SIGNER)
    shutil.rmtree(place)
    shutil.copytree(old, place)
    with trails.open(place) as store:
        assert store.verify().ok
        [finding] = store.verify(checkpoint=kept, verifiers=[VERIFIER]).findings
        assert finding.code == "checkpoint"
        assert "rolled back" in finding.message
        for number in range(10):  # a log that has grown past the checkpoint again is no better
            wrote(store.load("plan"), f"instead {number}")
        assert store.verify().ok
        [finding] = store.verify(checkpoint=kept, verifiers=[VERIFIER]).findings
        assert "rewritten" in finding.message


def test_what_verify_finds_by_itself_is_reported_with_the_checkpoint_s_finding(memory: Repository) -> None:
    wrote(memory.create(id="a"), "one")
    kept = memory.proofs.checkpoint(SIGNER)
    other = sign_checkpoint(claimed_checkpoint(kept).model_copy(update={"root": bytes(32)}), SIGNER)
    [quad] = memory.store.quads((None, vocab.VALUE, None, None))
    memory.store.commit(
        Change(remove=[quad], add=[Quad(quad.subject, quad.predicate, Literal("two"), quad.graph_name)])
    )
    assert codes(memory, other) == ["checkpoint", "digest-mismatch"]
    assert codes(memory, kept) == ["digest-mismatch"]


def test_a_checkpoint_is_believed_only_with_a_signature_of_a_given_key(memory: Repository) -> None:
    wrote(memory.create(id="a"), "one")
    kept = memory.proofs.checkpoint(SIGNER)
    with pytest.raises(IntegrityError, match="none of the given keys"):
        memory.verify(checkpoint=kept, verifiers=[new_key(LOG)[1]])
    with pytest.raises(IntegrityError, match="is wrong"):
        memory.verify(checkpoint=kept.replace("\n2\n", "\n1\n"), verifiers=[VERIFIER])
    with pytest.raises(InvalidInput, match="no verifier key"):
        memory.verify(checkpoint=kept)
    with pytest.raises(InvalidInput, match="none was given"):
        memory.verify(verifiers=[VERIFIER])


# --- proofs of a turn


def a_family(store: Repository) -> dict[str, list[str]]:
    """Forks, a fork of a fork, a detached and a flattened one; return the owner of each turn of each transcript."""
    root = wrote(store.create(id="root", principal="alice", agent="planner"), "r0", "r1")
    root.append("assistant", "r2", model="m-1", usage={"input_tokens": 3}, meta={"k": "v"})
    root.append("assistant", [{"type": "tool_use", "id": "c", "name": "ls", "input": {"at": "secret"}}])
    root.append("tool", "r4", tool_call_id="c")
    root.persist()
    fork = wrote(root.fork(at=3, id="fork"), "f3", "f4")
    wrote(fork.fork(at=2, id="deep"), "d2")
    wrote(root, "r5")
    wrote(root.fork(at=4, id="loose"), "l4").detach()
    fork.flatten(id="flat")
    return {
        "root": ["root"] * 6,
        "fork": ["root", "root", "root", "fork", "fork"],
        "deep": ["root", "root", "deep"],
        "loose": ["loose"] * 5,
        "flat": ["flat"] * 5,
    }


def test_every_turn_of_every_transcript_can_be_proven_as_its_owner_s(store: Repository) -> None:
    owners = a_family(store)
    note = store.proofs.checkpoint(SIGNER)
    for session_id, expected in owners.items():
        turns = store.load(session_id).turns
        assert len(turns) == len(expected)
        for turn, owner in zip(turns, expected, strict=True):
            for reveal in (True, False):
                proof = read_proof(store.proofs.turn(session_id, turn.index, note, reveal=reveal).to_json())
                assert isinstance(proof, TurnProof)
                assert proof.verify([VERIFIER]) == claimed_checkpoint(note)
                assert (proof.session_id, proof.turn.index, proof.digest) == (owner, turn.index, turn.digest)
                assert (proof.content.text if proof.content else None) == (turn.text if reveal else None)


def test_a_turn_is_proven_by_the_first_batch_that_holds_it(memory: Repository) -> None:
    plan = wrote(memory.create(id="plan"), "one", "two")  # leaf 0: the session, leaf 1: two turns
    wrote(plan, "three")  # leaf 2
    wrote(plan, "four", "five")  # leaf 3
    note = memory.proofs.checkpoint(SIGNER)
    found = [memory.proofs.turn("plan", index, note) for index in range(5)]
    assert [proof.leaf_index for proof in found] == [1, 1, 2, 3, 3]
    assert [len(proof.links) for proof in found] == [1, 0, 0, 1, 0]
    assert {proof.size for proof in found} == {4}


def test_the_proof_of_a_turn_says_what_was_recorded_and_hides_arguments_and_metadata(memory: Repository) -> None:
    a_family(memory)
    note = memory.proofs.checkpoint(SIGNER)
    answer = json.loads(memory.proofs.turn("root", 2, note).to_json())
    assert answer["format"] == "trails-turn-proof/1"
    assert (answer["turn"]["role"], answer["turn"]["author"]) == ("assistant", "agent:planner")
    assert (answer["content"]["text"], answer["content"]["structured"]) == ("r2", False)
    assert json.loads(answer["facts"])["model"] == ["m-1", '{"input_tokens":3}', None]
    assert len(json.loads(answer["facts"])["meta"]) == 64
    withheld = memory.proofs.turn("root", 3, note, reveal=False).to_json()
    assert json.loads(json.loads(withheld)["facts"])["calls"][0][:2] == ["c", "ls"]
    assert "secret" not in withheld
    assert "salt" not in withheld


def test_the_content_can_be_taken_out_of_a_proof_later_and_the_rest_still_holds() -> None:
    fields = json.loads(a_proof())
    proof = read_proof(json.dumps(fields | {"content": None}))
    assert isinstance(proof, TurnProof)
    assert proof.verify([VERIFIER]).size == fields["size"]


def test_a_redacted_turn_is_proven_by_the_digest_of_what_stood_there(memory: Repository) -> None:
    session = memory.create(id="a")
    session.append("assistant", "secret", tool_calls=[{"id": "c", "name": "ls", "arguments": {"at": "secret"}}])
    wrote(session, "after")
    before = memory.proofs.turn("a", 0, memory.proofs.checkpoint(SIGNER))
    memory.redact("a", 0)
    proof = memory.proofs.turn("a", 0, memory.proofs.checkpoint(SIGNER))
    assert (proof.content, proof.turn, proof.digest) == (None, before.turn, before.digest)
    assert "secret" not in proof.to_json()
    proof.verify([VERIFIER])
    memory.proofs.turn("a", 1, memory.proofs.checkpoint(SIGNER)).verify([VERIFIER])


def test_a_proof_goes_on_holding_whatever_becomes_of_the_session(memory: Repository) -> None:
    plan = wrote(memory.create(id="plan"), "one", "two")
    wrote(plan.fork(at=1, id="fork"), "other")
    note = memory.proofs.checkpoint(SIGNER)
    inherited, own = memory.proofs.turn("fork", 0, note), memory.proofs.turn("fork", 1, note)
    memory.detach("fork")
    again = memory.proofs.turn("fork", 0, note)
    assert (inherited.session_id, again.session_id) == ("plan", "fork")
    memory.delete("plan")
    memory.delete("fork")
    for proof in (inherited, own, again):
        proof.verify([VERIFIER])
    with pytest.raises(trails.SessionNotFound):
        memory.proofs.turn("plan", 0, note)


def test_a_turn_that_is_not_there_or_is_newer_than_the_checkpoint_is_not_proven(memory: Repository) -> None:
    plan = wrote(memory.create(id="plan"), "one")
    note = memory.proofs.checkpoint(SIGNER)
    wrote(plan, "two")
    with pytest.raises(InvalidInput, match="has 2 turns, so no turn 2"):
        memory.proofs.turn("plan", 2, note)
    with pytest.raises(InvalidInput, match=r"after this checkpoint .* make a new one"):
        memory.proofs.turn("plan", 1, note)
    with pytest.raises(InvalidInput, match="0 or more"):
        memory.proofs.turn("plan", -1, note)


def test_nothing_is_proven_against_the_checkpoint_of_another_store(memory: Repository) -> None:
    wrote(memory.create(id="plan"), "one")
    with trails.open(":memory:") as other:
        wrote(other.create(id="plan"), "one")
        theirs = other.proofs.checkpoint(SIGNER)
    with pytest.raises(IntegrityError, match="of no state of this log"):
        memory.proofs.turn("plan", 0, theirs)
    with pytest.raises(IntegrityError, match="of no state of this log"):
        memory.proofs.growth(theirs, memory.proofs.checkpoint(SIGNER))
    with pytest.raises(IntegrityError, match="malformed"):
        memory.proofs.turn("plan", 0, "no checkpoint")


@pytest.mark.parametrize("altered", [0, 1, 2])
def test_an_altered_store_proves_nothing_and_says_so(memory: Repository, altered: int) -> None:
    plan = wrote(memory.create(id="plan"), "t0", "t1", "t2")
    note = memory.proofs.checkpoint(SIGNER)
    node = NamedNode(plan.turns[altered].iri)
    [quad] = memory.store.quads((node, vocab.VALUE, None, None))
    memory.store.commit(Change(remove=[quad], add=[Quad(node, quad.predicate, Literal("x"), quad.graph_name)]))
    for index in range(altered + 1):  # all turns whose way to the head leads over it
        with pytest.raises(IntegrityError, match="does not fit its log"):
            memory.proofs.turn("plan", index, note)


# --- proofs that were altered


@cache
def a_proof() -> str:
    """The proof of a turn with facts, followed by two others in its batch, in a log of several leaves."""
    with trails.open(":memory:") as store:
        wrote(store.create(id="before"), "b")
        plan = wrote(store.create(id="plan", principal="alice", agent="planner"), "t\u00e9xt 0")
        plan.append(
            "assistant", "a line\n\u2028 \x1f", model="m-1", tool_calls=[{"id": "c", "name": "ls", "arguments": {}}]
        )
        wrote(plan, "t2", "t3")
        wrote(store.create(id="after"), "a")
        return store.proofs.turn("plan", 1, store.proofs.checkpoint(SIGNER)).to_json()


def verified(text: str | bytes) -> TurnProof:
    proof = read_proof(text)
    assert isinstance(proof, TurnProof)
    proof.verify([VERIFIER])
    return proof


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in places(item, (*path, key)))]


def changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    return at(value[path[0]], path[1:]) if path else value


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3),
    max_leaves=4,
)


def test_the_proof_that_is_altered_below_holds_as_it_is() -> None:
    proof = verified(a_proof())
    assert (len(proof.links), proof.leaf_index, proof.size) == (2, 4, 7)
    assert json.loads(proof.facts or "")["model"][0] == "m-1"


@given(st.data())
def test_no_proof_with_any_value_replaced_holds(draw: st.DataObject) -> None:
    fields = json.loads(a_proof())
    place = draw.draw(st.sampled_from(places(fields)))
    old = at(fields, place)
    near: st.SearchStrategy[Any] = st.nothing()
    if isinstance(old, str) and old:
        near = st.integers(0, len(old) - 1).map(lambda n: old[:n] + ("0" if old[n] != "0" else "1") + old[n + 1 :])
    elif type(old) is int:
        near = st.sampled_from([old - 1, old + 1, -old, old + 2**64])
    elif isinstance(old, list):
        near = st.sampled_from([old[1:], old[::-1], old + old[:1], []])
    new = draw.draw(near | anything)
    if new == old or (place in (("content",), ("facts",)) and new is None):
        return  # a proof may withhold these
    with pytest.raises((IntegrityError, InvalidInput)):
        verified(json.dumps(changed(fields, place, new)))


@given(st.data())
def test_a_proof_with_any_byte_changed_does_not_hold_or_says_the_very_same(draw: st.DataObject) -> None:
    data = a_proof().encode()
    place = draw.draw(st.integers(0, len(data) - 1))
    byte = data[place] ^ draw.draw(st.integers(1, 255))
    try:
        found = verified(data[:place] + bytes([byte]) + data[place + 1 :])
    except (IntegrityError, InvalidInput):
        return
    assert found == verified(a_proof())  # white space between values, or the case of a digit in an escape
    assert data[place : place + 1].isspace() or data[:place].endswith((b"\\u001", b"\\u00", b"\\u0", b"\\u"))


def test_a_forger_who_computes_all_digests_anew_fails_at_the_tree() -> None:
    fields = json.loads(a_proof())
    with trails.open(":memory:") as store:
        wrote(store.create(id="plan"), "t0", "forged")
        forged = json.loads(store.proofs.turn("plan", 1, store.proofs.checkpoint(SIGNER)).to_json())
    kept = {name: fields[name] for name in ("checkpoint", "leaf", "leaf_index", "size", "hashes")}
    with pytest.raises(IntegrityError, match="the log says"):
        verified(json.dumps(forged | kept))
    del kept["leaf"]
    with pytest.raises(IntegrityError, match="leads to the root"):
        verified(json.dumps(forged | kept))


def test_a_leaf_that_is_no_batch_of_turns_proves_no_turn(memory: Repository) -> None:
    wrote(memory.create(id="plan"), "one")
    proof = memory.proofs.turn("plan", 0, memory.proofs.checkpoint(SIGNER))
    for leaf in (memory.store.log.lines()[0], "nonsense", f"turns urn:trails:session:plan {'1' * 5000} - {'0' * 16}"):
        with pytest.raises(IntegrityError, match=r"batch of turns|no leaf|counts no turns"):
            proof.model_copy(update={"leaf": leaf}).check_chain()


# --- proofs of growth


@examples(20)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=6), st.data())
def test_the_growth_between_any_two_checkpoints_can_be_proven(batches: list[int], draw: st.DataObject) -> None:
    with trails.open(":memory:") as store:
        notes = [store.proofs.checkpoint(SIGNER)]
        for count in batches:
            wrote(store.create(), *map(str, range(count)))
            notes.append(store.proofs.checkpoint(SIGNER))
        first = draw.draw(st.integers(0, len(notes) - 1))
        last = draw.draw(st.integers(first, len(notes) - 1))
        proof = read_proof(store.proofs.growth(notes[first], notes[last]).to_json())
    assert isinstance(proof, ConsistencyProof)
    assert (proof.old_size, proof.new_size) == (2 * first, 2 * last)
    assert proof.verify(notes[first], [VERIFIER]) == claimed_checkpoint(notes[last])


def test_growth_is_not_proven_backwards_or_between_two_logs(memory: Repository) -> None:
    plan = wrote(memory.create(id="plan"), "one")
    old = memory.proofs.checkpoint(SIGNER)
    wrote(plan, "two")
    with pytest.raises(InvalidInput, match="the other way round"):
        memory.proofs.growth(memory.proofs.checkpoint(SIGNER), old)
    with pytest.raises(InvalidInput, match="of two logs"):
        memory.proofs.growth(old, memory.proofs.checkpoint(new_key("example.com/other")[0]))


def test_a_rewritten_log_cannot_prove_that_it_grew_from_a_kept_checkpoint(memory: Repository) -> None:
    wrote(memory.create(id="plan"), "one")
    kept = memory.proofs.checkpoint(SIGNER)
    with trails.open(":memory:") as other:
        wrote(other.create(id="plan"), "two")
        old = other.proofs.checkpoint(SIGNER)
        wrote(other.create(id="more"), "three")
        proof = other.proofs.growth(old, other.proofs.checkpoint(SIGNER))
    assert proof.verify(old, [VERIFIER]).size == 4
    with pytest.raises(IntegrityError, match="the proof leads to another new root"):
        proof.verify(kept, [VERIFIER])


# --- the command line


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs a command line where the store and the keys are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAILS_STORE", raising=False)
    with trails.open(tmp_path / ".trails", create=True) as store:
        wrote(store.create(id="plan", label="trip", principal="alice"), "Plan a trip \u00fc", "To the sea")
    return invoke


def failed(result: Result, code: int, why: str) -> None:
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    assert why in result.stderr
    assert "PRIVATE" not in result.output


def with_keys(run: Run) -> str:
    """Make the log's key in `key`, a checkpoint in `first`, and return the public key."""
    verifier = ok(run("proof", "checkpoint", "--new-key", LOG, "--key", "key")).strip()
    ok(run("proof", "checkpoint", "--key", "key", "-o", "first"))
    return verifier


def elsewhere(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a folder of its own, where there is no store."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAILS_")}
    return subprocess.run(
        [sys.executable, "-m", "trails", *arguments],
        cwd=folder,
        env=kept | {"PYTHONPATH": str(IMPORTED)} | environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_whole_life_of_a_proof_on_the_command_line(run: Run, tmp_path: Path) -> None:
    verifier = with_keys(run)
    ok(run("proof", "make", "trip", "0", "--checkpoint", "first", "-o", "turn.proof"))
    ok(run("append", "plan", "user", "And back"))
    ok(run("proof", "checkpoint", "--key", "key", "-o", "second"))
    ok(run("proof", "make", "--since", "first", "--checkpoint", "second", "-o", "growth.proof"))
    ok(run("verify", "--checkpoint", "first", "--verifier", "key.pub"))

    auditor = tmp_path / "auditor"
    auditor.mkdir()
    for name in ("turn.proof", "growth.proof", "first"):
        shutil.copy(tmp_path / name, auditor)
    turn = elsewhere(auditor, "proof", "check", "turn.proof", "--verifier", verifier, "--json")
    assert turn.returncode == 0, turn.stderr
    shown = json.loads(turn.stdout)
    assert (shown["valid"], shown["session"], shown["index"], shown["author"]) == (True, "plan", 0, "principal:alice")
    assert (shown["content"], shown["log"]) == ("Plan a trip \u00fc", LOG)
    growth = elsewhere(auditor, "proof", "check", "growth.proof", "--kept", "first", "--verifier", verifier)
    assert growth.returncode == 0, growth.stderr
    assert growth.stdout.startswith("valid\n")
    assert sorted(path.name for path in auditor.iterdir()) == ["first", "growth.proof", "turn.proof"]

    proof = (auditor / "turn.proof").read_text("utf-8")
    (auditor / "turn.proof").write_text(proof.replace("Plan a trip", "Plan a war"), "utf-8")
    forged = elsewhere(auditor, "proof", "check", "turn.proof", "--verifier", verifier)
    assert (forged.returncode, forged.stderr) == (1, "")
    assert forged.stdout.startswith("not valid: the content of turn 0")


def test_verify_proof_says_what_a_proof_of_a_turn_withholds(run: Run, tmp_path: Path) -> None:
    with_keys(run)
    with trails.open(tmp_path / ".trails") as store:
        plan = store.load("plan")
        plan.append("assistant", "By train.", model="m-1", tool_calls=[{"id": "c", "name": "book", "arguments": {}}])
        plan.persist()
        index = len(plan.turns) - 1
    ok(run("proof", "checkpoint", "--key", "key", "-o", "second"))
    ok(run("proof", "make", "plan", str(index), "--checkpoint", "second", "-o", "whole"))
    ok(run("proof", "make", "plan", "0", "--checkpoint", "second", "-o", "plain"))

    def shown(name: str) -> tuple[object, bool]:
        found = run("proof", "check", name, "--verifier", "key.pub", "--json")
        text = run("proof", "check", name, "--verifier", "key.pub").stdout
        assert text.startswith("valid\n")
        return json.loads(found.stdout)["withheld"], "only its digest is proven" in text

    assert shown("whole") == ([], False)
    for name, source in (("without facts", "whole"), ("nothing to withhold", "plain")):
        (tmp_path / name).write_text(json.dumps(json.loads((tmp_path / source).read_text()) | {"facts": None}))
    assert shown("without facts") == (["facts"], True)
    assert shown("nothing to withhold") == ([], False)
    ok(run("proof", "make", "plan", str(index), "--checkpoint", "second", "--without-content", "-o", "without text"))
    assert shown("without text") == (["content"], True)


def test_witnesses_cosign_a_checkpoint_and_are_demanded_on_the_command_line(run: Run, tmp_path: Path) -> None:
    with_keys(run)
    for name in ("one", "two"):
        ok(run("proof", "cosign", "--new-key", f"{name}.example", "--key", name))
    ok(run("proof", "cosign", "first", "--key", "one", "--verifier", "key.pub", "-o", "seen"))
    how = ("--checkpoint", "seen", "--verifier", "key.pub", "--witness", "one.pub")
    shown = json.loads(ok(run("verify", *how, "--json")))
    assert [each["name"] for each in shown["witnessed"]] == ["one.example"]
    assert "cosigned by one.example, 20" in ok(run("verify", *how))
    both = (*how, "--witness", "two.pub")
    failed(run("verify", *both), 1, "2 are needed (not 'two.example')")
    ok(run("verify", *both, "--quorum", "1"))

    ok(run("append", "plan", "user", "And back"))
    ok(run("proof", "checkpoint", "--key", "key", "-o", "second"))
    ok(run("proof", "make", "--since", "first", "--checkpoint", "second", "-o", "growth.proof"))
    grown = ("--verifier", "key.pub", "--kept", "first", "--growth", "growth.proof")
    ok(run("proof", "cosign", "second", "--key", "two", *grown, "-o", "second.two"))
    failed(run("proof", "cosign", "first", "--key", "two", *grown), 2, "no proof that the log grew to this checkpoint")
    (tmp_path / "line").write_text((tmp_path / "second.two").read_text("utf-8").splitlines()[-1] + "\n", "utf-8")
    assert ok(run("proof", "cosign", "second", "--add", "line")) == (tmp_path / "second.two").read_text("utf-8")

    ok(run("proof", "make", "plan", "0", "--checkpoint", "seen", "-o", "turn.proof"))
    proven = ok(run("proof", "check", "turn.proof", "--verifier", "key.pub", "--witness", "one.pub", "--json"))
    assert [each["name"] for each in json.loads(proven)["witnessed"]] == ["one.example"]
    assert run("proof", "check", "turn.proof", "--verifier", "key.pub", "--witness", "two.pub").exit_code == 1


def test_a_witness_cosigns_nothing_that_the_log_did_not_sign(run: Run, tmp_path: Path) -> None:
    with_keys(run)
    ok(run("proof", "cosign", "--new-key", "one.example", "--key", "one"))
    _, other = new_key(LOG)
    failed(run("proof", "cosign", "first", "--key", "one", "--verifier", other), 1, "none of the given keys signed")
    failed(run("proof", "cosign", "first", "--key", "one"), 2, "no verifier key")
    failed(run("proof", "cosign", "first"), 2, "--key to cosign it or --add")
    failed(
        run("proof", "cosign", "first", "--key", "one", "--verifier", "key.pub", "--kept", "first"), 2, "go together"
    )
    failed(run("verify", "--witness", "one.pub"), 2, "none was given")
    failed(run("verify", "--checkpoint", "first", "--verifier", "key.pub", "--quorum", "1"), 2, "of witnesses")


def stamp(folder: Path, name: str, authority: Holder) -> None:
    """Let an authority answer the request in NAME.tsq."""
    asked = (folder / f"{name}.tsq").read_bytes()
    info = token_info(sha256((folder / name).read_bytes()).digest(), nonce_of(asked))
    (folder / f"{name}.answer").write_bytes(response(signed(info, authority)))


def test_an_authority_stamps_a_checkpoint_and_its_token_is_demanded_on_the_command_line(
    run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("rfc3161_client", reason="rfc3161-client is not installed (the extra `timestamps`)")
    with_keys(run)
    tsa, other = certified("Stamps", usages=FOR_STAMPS), certified("Stamps", usages=FOR_STAMPS)
    for name, holder in (("tsa.pem", tsa), ("other.pem", other)):
        (tmp_path / name).write_text(holder.pem)
    ok(run("proof", "timestamp", "request", "first", "-o", "first.tsq"))
    stamp(tmp_path, "first", tsa)
    adding = ("timestamp", "add", "first", "first.answer", "--request", "first.tsq")
    failed(run(*adding, "--tsa-cert", "other.pem"), 1, "does not hold")
    assert not (tmp_path / "first.tsr").exists()
    ok(run(*adding, "--tsa-cert", "tsa.pem"))
    assert (tmp_path / "first.tsr").read_bytes() == (tmp_path / "first.answer").read_bytes()
    failed(run(*adding), 2, "is there already")

    noon = {"authority": "CN=Stamps", "time": "2026-06-01T12:00:01+00:00"}
    trust = ("--timestamp", "first.tsr", "--tsa-cert", "tsa.pem")
    how = ("verify", "--checkpoint", "first", "--verifier", "key.pub")
    assert json.loads(ok(run(*how, *trust, "--json")))["timestamped"] == noon
    assert "there by 2026-06-01T12:00:01+00:00, as CN=Stamps says" in ok(run(*how, *trust))
    assert json.loads(ok(run(*how, "--json")))["timestamped"] is None
    failed(run(*how, "--timestamp", "first.tsr", "--tsa-cert", "other.pem"), 1, "does not hold")
    failed(run(*how, "--timestamp", "first.tsr"), 2, "give both")
    failed(run("verify", *trust), 2, "none was given")

    ok(run("proof", "make", "plan", "0", "--checkpoint", "first", "-o", "turn"))
    proven = ("proof", "check", "turn", "--verifier", "key.pub", "--json")
    assert json.loads(ok(run(*proven, *trust)))["timestamped"] == noon
    refused = run(*proven, "--timestamp", "first.tsr", "--tsa-cert", "other.pem")
    assert (refused.exit_code, json.loads(refused.stdout)["valid"]) == (1, False)


def test_a_signed_report_and_a_pack_have_a_time_stamp_each(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("rfc3161_client", reason="rfc3161-client is not installed (the extra `timestamps`)")
    with_keys(run)
    tsa = certified("Stamps", usages=FOR_STAMPS)
    (tmp_path / "tsa.pem").write_text(tsa.pem)
    audit = ("audit", "report", "--all", "--format", "json", "-o", "report.json", "--key", "key", "--signed", "said")
    ok(run(*audit))
    for name in ("first", "said"):
        ok(run("proof", "timestamp", "request", name, "-o", f"{name}.tsq"))
        stamp(tmp_path, name, tsa)
        ok(run("proof", "timestamp", "add", name, f"{name}.answer", "--request", f"{name}.tsq"))
    check = ("audit", "check", "report.json", "--checkpoint", "said", "--verifier", "key.pub", "--tsa-cert", "tsa.pem")
    assert "by 2026-06-01T12:00:01+00:00, as CN=Stamps says" in ok(run(*check, "--timestamp", "said.tsr"))
    failed(run(*check, "--timestamp", "first.tsr"), 1, "another text")
    trust = ("--checkpoint", "first", "--verifier", "key.pub", "--timestamp", "first.tsr", "--tsa-cert", "tsa.pem")
    ok(run("audit", "pack", "--all", "-o", "pack", "--key", "key", *trust))
    assert (tmp_path / "pack" / "kept.checkpoint.tsr").read_bytes() == (tmp_path / "first.tsr").read_bytes()
    report = json.loads((tmp_path / "pack" / "report.json").read_text())
    [said] = [each["said"] for each in report["verdicts"] if each["name"] == "integrity"]
    assert said.endswith("; there by 2026-06-01T12:00:01+00:00, as CN=Stamps says")
    ok(run("audit", "check", "pack", "--verifier", "key.pub"))


def test_a_store_that_was_replaced_fails_verify_with_the_kept_checkpoint(run: Run, tmp_path: Path) -> None:
    with_keys(run)
    shutil.rmtree(tmp_path / ".trails")
    with trails.open(tmp_path / ".trails", create=True) as store:
        for number in range(5):
            wrote(store.create(id=f"plan{number}"), "Plan a war")
    ok(run("verify"))
    found = run("verify", "--checkpoint", "first", "--verifier", "key.pub", "--json")
    assert found.exit_code == 1
    assert [finding["code"] for finding in json.loads(found.stdout)["findings"]] == ["checkpoint"]
    assert "rewritten" in run("verify", "--checkpoint", "first", "--verifier", "key.pub").stdout


def test_a_new_key_is_secret_in_its_file_and_never_replaced_or_shown(run: Run, tmp_path: Path) -> None:
    made = run("proof", "checkpoint", "--new-key", LOG, "--key", "key", "--json")
    shown = json.loads(ok(made))
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert (tmp_path / "key").read_text().startswith("PRIVATE+KEY+")
    assert (tmp_path / "key.pub").read_text() == shown["verifier"] + "\n"
    assert "PRIVATE" not in made.output
    before = (tmp_path / "key").read_bytes()
    failed(run("proof", "checkpoint", "--new-key", LOG, "--key", "key"), 2, "there already")
    (tmp_path / "other.pub").touch()
    failed(run("proof", "checkpoint", "--new-key", LOG, "--key", "other"), 2, "there already")
    failed(run("proof", "checkpoint", "--new-key", "no name", "--key", "third"), 2, "cannot name a key")
    assert (tmp_path / "key").read_bytes() == before
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "third").exists()


def test_checkpoints_and_proofs_go_to_stdout_or_to_a_file_that_is_not_there_yet(run: Run, tmp_path: Path) -> None:
    with_keys(run)
    note = (tmp_path / "first").read_text("utf-8")
    assert ok(run("proof", "checkpoint", "--key", "key")) == note
    as_json = json.loads(ok(run("proof", "checkpoint", "--key", "key", "--json")))
    assert (as_json["checkpoint"], as_json["origin"], as_json["size"]) == (note, LOG, size_of(note))
    failed(run("proof", "checkpoint", "--key", "key", "-o", "first"), 2, "there already")
    proof = ok(run("proof", "make", "plan", "1", "--checkpoint", "first"))
    assert proof == ok(run("proof", "make", "plan", "1", "--checkpoint", "first", "--json"))
    assert verified_by(proof, "key.pub").content is not None
    withheld = ok(run("proof", "make", "plan", "1", "--checkpoint", "first", "--without-content"))
    assert "To the sea" not in withheld
    assert verified_by(withheld, "key.pub").content is None
    failed(run("proof", "make", "plan", "1", "--checkpoint", "first", "-o", "first"), 2, "there already")
    assert (tmp_path / "first").read_text("utf-8") == note


def verified_by(text: str, key_file: str) -> TurnProof:
    proof = read_proof(text)
    assert isinstance(proof, TurnProof)
    proof.verify([Path(key_file).read_text().strip()])
    return proof


@pytest.mark.slow
def test_a_note_stays_a_note_where_the_terminal_knows_only_ascii(run: Run, tmp_path: Path) -> None:
    with_keys(run)
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    printed = elsewhere(tmp_path, "proof", "checkpoint", "--key", "key", **plain)
    assert printed.stdout == (tmp_path / "first").read_text("utf-8")
    proof = elsewhere(tmp_path, "proof", "make", "plan", "0", "--checkpoint", "first", **plain)
    said = verified_by(proof.stdout, str(tmp_path / "key.pub")).content
    assert said is not None
    assert said.text == "Plan a trip \u00fc"


def test_wrong_usage_of_proofs_ends_with_2_and_a_proof_that_does_not_hold_with_1(run: Run, tmp_path: Path) -> None:
    verifier = with_keys(run)
    ok(run("proof", "make", "plan", "0", "--checkpoint", "first", "-o", "turn"))
    ok(run("proof", "make", "--since", "first", "--checkpoint", "first", "-o", "growth"))
    failed(run("proof", "make", "plan", "0"), 2, "--checkpoint FILE")
    failed(run("proof", "make", "--checkpoint", "first"), 2, "SESSION and INDEX")
    failed(run("proof", "make", "plan", "--checkpoint", "first"), 2, "SESSION and INDEX")
    failed(run("proof", "make", "plan", "0", "--since", "first", "--checkpoint", "first"), 2, "SESSION and INDEX")
    failed(run("proof", "make", "--since", "first", "--checkpoint", "first", "--without-content"), 2, "no content")
    failed(run("proof", "checkpoint", "--key", "nosuch"), 2, "--new-key")
    failed(run("proof", "check", "turn"), 2, "--verifier KEY")
    failed(run("proof", "check", "nosuch", "--verifier", verifier), 2, "does not exist")
    failed(run("proof", "check", "turn", "--verifier", "nosuch"), 2, "no verifier key")
    failed(run("proof", "check", "turn", "--verifier", "key"), 2, "secret signer key")
    failed(run("proof", "check", "turn", "--verifier", (tmp_path / "key").read_text().strip()), 2, "secret signer key")
    failed(run("proof", "check", "growth", "--verifier", verifier), 2, "--kept FILE")
    failed(run("proof", "check", "turn", "--kept", "first", "--verifier", verifier), 2, "leave it out")
    for name in ("first", "key.pub"):
        no_proof = run("proof", "check", name, "--verifier", verifier, "--json")
        assert no_proof.exit_code == 1
        assert json.loads(no_proof.stdout)["valid"] is False
    stranger = run("proof", "check", "turn", "--verifier", new_key(LOG)[1])
    assert stranger.exit_code == 1
    assert stranger.stdout.startswith("not valid: none of the given keys")


def test_without_the_package_for_signatures_the_remedy_is_named(
    run: Run, memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = with_keys(run)
    ok(run("proof", "make", "plan", "0", "--checkpoint", "first", "-o", "turn"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    remedy = "pip install 'trails[checkpoint]'"
    with pytest.raises(TrailsError, match=r"trails\[checkpoint\]"):
        memory.proofs.checkpoint(SIGNER)
    failed(run("proof", "checkpoint", "--new-key", LOG, "--key", "another"), 1, remedy)
    failed(run("proof", "checkpoint", "--key", "key"), 1, remedy)
    failed(run("verify", "--checkpoint", "first", "--verifier", verifier), 1, remedy)
    failed(run("proof", "check", "turn", "--verifier", verifier), 1, remedy)
    ok(run("proof", "make", "plan", "0", "--checkpoint", "first"))
    ok(run("verify"))
