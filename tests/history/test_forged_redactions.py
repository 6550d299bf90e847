"""With a checkpoint that was kept, no later redaction lets the owner of disk and key put other things in the place of old ones.

What a redaction takes out is not proven any more, so whatever it seems to explain has to be told. Each attack writes what
Trails itself would write, leaves and all; the values that it puts there are the forger's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pyoxigraph import Literal, NamedNode, Quad

from trails import Ledger, Repository
from trails.history import log_leaves
from trails.history.removal import redaction
from trails.integrity import digests
from trails.integrity.leaves import Leaf
from trails.integrity.signed_notes import new_key
from trails.model import iris
from trails.rdf import ledger_records, vocab
from trails.rdf.activity_records import Deed
from trails.store.contract import Change

DEED = Deed(iris.principal("alice"), datetime(2026, 11, 22, tzinfo=UTC))
SIGNER, VERIFIER = new_key("example.com/trails")
MALLORY = NamedNode(iris.principal("mallory"))


def unproven(store: Repository, checkpoint: str) -> set[tuple[str, str | None, int | None]]:
    found = store.verify(checkpoint=checkpoint, verifiers=[VERIFIER]).findings
    return {(each.code, each.session_id, each.index) for each in found}


def swap(store: Repository, old: Iterable[Quad], new: Iterable[Quad], *made: Leaf) -> None:
    store.store.commit(Change(add=list(new), remove=list(old), leaves=list(made)))


def forged(session: str, part: str, place: str, token: str) -> tuple[list[Quad], Leaf]:
    """The record of a redaction that never was, and its leaf."""
    node = NamedNode(iris.redaction(iris.session(session), token * 8))
    rows = redaction.redactions_of_parts(node, DEED, places=[place], parts=[part])
    return rows, log_leaves.redaction_leaf(node, [row for row in rows if row.subject == node])


def with_mallory(quads: Iterable[Quad], predicate: NamedNode) -> list[Quad]:
    return [Quad(q.subject, q.predicate, MALLORY, q.graph_name) if q.predicate == predicate else q for q in quads]


def forge_turn(store: Repository, index: int, change: Mapping[NamedNode, str], place: str) -> None:
    graph = NamedNode(iris.session("plan"))
    turn = store.store.quads((None, vocab.INDEX, vocab.integer(index), graph))[0].subject
    assert isinstance(turn, NamedNode)
    quads = redaction.parts_of_redaction(store.store, turn)
    before = redaction.stored_turn(turn.value, quads)
    new = [
        Quad(q.subject, q.predicate, Literal(change[q.predicate], datatype=q.object.datatype), graph)  # type: ignore[union-attr] # literals
        if q.predicate in change
        else q
        for q in quads
    ]
    if vocab.ROLE not in change:
        whole = digests.facts_digest(before.facts, before.salt)
        new.append(Quad(turn, vocab.FACTS_DIGEST, Literal(whole), graph))
    stands = digests.check_standing(
        redaction.stored_turn(turn.value, new), redaction.digest_before(store.store, graph, index)
    )
    node = redaction.next_redactions(store.store, turn.value)
    rows = redaction.redactions_of_turn(node, before.digest, DEED, places=[place], stands_as=stands)
    swap(store, quads, [*new, *rows], log_leaves.redaction_leaf(node, [row for row in rows if row.subject == node]))


def test_a_turn_is_not_replaced_behind_a_redaction_of_its_role_or_of_a_fact(memory: Repository) -> None:
    plan = memory.create(id="plan", principal="alice")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "I look.", model="m-1", tool_calls=[{"id": "c1", "name": "weather", "arguments": {}}])
    plan.persist()
    kept = memory.proofs.checkpoint(SIGNER)
    forge_turn(memory, 0, {vocab.VALUE: "Wire 1M to Mallory", vocab.ROLE: iris.UNNAMED}, "role")
    forge_turn(memory, 1, {vocab.TOOL_NAME: "wire_money", vocab.MODEL: "m-evil"}, "stop reason")
    assert unproven(memory, kept) == {("unproven", "plan", 0), ("unproven", "plan", 1)}


def test_who_a_session_is_of_is_not_replaced_behind_a_redaction_of_something_in_its_row(memory: Repository) -> None:
    plan = memory.create(id="plan", principal="alice")
    plan.append("user", "x")
    plan.persist()
    kept = memory.proofs.checkpoint(SIGNER)
    node = NamedNode(iris.session("plan"))
    row = memory.store.quads((node, None, None, vocab.CATALOG))
    rows, leaf = forged("plan", node.value, "label", "ab")
    known = Quad(MALLORY, vocab.TYPE, vocab.PRINCIPAL, vocab.CATALOG)
    swap(memory, row, [*with_mallory(row, vocab.ATTRIBUTED_TO), known, *rows], leaf)
    swap(memory, [], [], Leaf("create", node.value, 0, log_leaves.row_of(memory.store, "plan").made_with))
    assert ("unproven", "plan", None) in unproven(memory, kept)


def test_a_session_without_turns_is_not_made_anew_as_anothers(memory: Repository) -> None:
    memory.create(id="empty", principal="carol").persist()
    kept = memory.proofs.checkpoint(SIGNER)
    node = NamedNode(iris.session("empty"))
    row = memory.store.quads((node, None, None, vocab.CATALOG))
    source = Quad(node, vocab.SOURCE_SESSION, Literal("pi:1"), vocab.CATALOG)
    known = Quad(MALLORY, vocab.TYPE, vocab.PRINCIPAL, vocab.CATALOG)
    swap(memory, row, [*with_mallory(row, vocab.ATTRIBUTED_TO), source, known])
    swap(memory, [], [], Leaf("create", node.value, 0, log_leaves.row_of(memory.store, "empty").made_with))
    assert ("unproven", "empty", None) in unproven(memory, kept)


def test_who_deleted_is_not_replaced_behind_a_redaction_of_a_name(memory: Repository) -> None:
    gone = memory.create(id="gone")
    gone.append("user", "x")
    gone.persist()
    memory.delete("gone", by="zed")
    kept = memory.proofs.checkpoint(SIGNER)
    node = NamedNode(iris.session("gone"))
    deletion = NamedNode(iris.deletion(node.value))
    old = memory.store.quads((deletion, vocab.ASSOCIATED_WITH, None, vocab.CATALOG))
    rows, leaf = forged("gone", deletion.value, "name", "cd")
    known = Quad(MALLORY, vocab.TYPE, vocab.PRINCIPAL, vocab.CATALOG)
    swap(memory, old, [*with_mallory(old, vocab.ASSOCIATED_WITH), known, *rows], leaf)
    swap(memory, [], [], Leaf("delete", node.value, 0, log_leaves.row_of(memory.store, "gone").made_with))
    assert ("unproven", "gone", None) in unproven(memory, kept)


def test_a_message_is_not_replaced_behind_a_redaction_of_its_text(memory: Repository) -> None:
    memory.create(id="plan").persist()
    Ledger(memory).receive("plan", "Is it open?", source="mail", event_id="m", peer="eve")
    kept = memory.proofs.checkpoint(SIGNER)
    graph = ledger_records.ledger_graph("plan")
    entry = NamedNode(f"{graph.value}/1")
    quads = memory.store.quads((entry, None, None, graph))
    [salt] = [str(q.object.value) for q in quads if q.predicate == vocab.SALT]  # type: ignore[union-attr] # a literal
    text = "Send me the keys"
    new = {vocab.VALUE: text, vocab.DIGEST: digests.salted_digest("text", salt, text), vocab.PEER: "bob"}
    after = [Quad(entry, q.predicate, Literal(new[q.predicate]), graph) if q.predicate in new else q for q in quads]
    rows, leaf = forged("plan", entry.value, "ledger text", "ef")
    made = ledger_records.entry_leaf(
        ledger_records.decode_entries("plan", entry.value, ledger_records.entries_by_subject(after)[entry.value])
    )
    swap(memory, quads, [*after, *rows], leaf, made)
    assert ("unproven", "plan", None) in unproven(memory, kept)


def test_a_deleted_session_does_not_come_back_as_another_one_that_was_made_anew(memory: Repository) -> None:
    solo = memory.create(id="solo", principal="alice")
    solo.append("user", "pay bob 10")
    solo.persist()
    kept = memory.proofs.checkpoint(SIGNER)
    node = NamedNode(iris.session("solo"))
    first = log_leaves.row_of(memory.store, "solo").made_with
    old = memory.store.quads((node, None, None, vocab.CATALOG)) + memory.store.quads((None, None, None, node))
    other = memory.create(id="other")
    other.append("user", "pay MALLORY 999")
    other.persist()
    other.fork(at=1, id="fork", principal="mallory").persist()
    row = memory.store.quads((NamedNode(iris.session("fork")), None, None, vocab.CATALOG))
    source = Quad(node, vocab.SOURCE_SESSION, Literal("pi:1"), vocab.CATALOG)
    swap(memory, old, [*(Quad(node, q.predicate, q.object, vocab.CATALOG) for q in row), source])
    now = log_leaves.row_of(memory.store, "solo").made_with
    swap(
        memory,
        [],
        [],
        Leaf("delete", node.value, 0, "~" + "0" * 64),
        Leaf("create", node.value, 0, first),
        Leaf("create", node.value, 0, now),
    )
    assert ("unproven", "solo", None) in unproven(memory, kept)


def test_an_honest_redaction_of_a_name_is_told_by_an_older_checkpoint_and_proven_by_a_new_one(
    memory: Repository,
) -> None:
    plan = memory.create(id="plan", principal="alice")
    plan.append("user", "Hello", author="Eve Adams")
    plan.append("user", "Hello too")
    plan.persist()
    kept = memory.proofs.checkpoint(SIGNER)
    memory.redact("plan", 1, by="officer")  # of content: what stands there now is nothing, which is proven
    assert unproven(memory, kept) == set()
    memory.redact_matching("Eve Adams", by="officer")
    assert unproven(memory, kept) == {("unproven", "plan", 0)}
    assert unproven(memory, memory.proofs.checkpoint(SIGNER)) == set()
    assert memory.verify().ok


def test_a_redaction_whose_record_was_redacted_is_proven_by_a_checkpoint_from_after_that(memory: Repository) -> None:
    plan = memory.create(id="plan", principal="bob")
    plan.append("user", "pw")
    plan.persist()
    memory.redact("plan", 0, by="alice", reason="for carol")
    first = memory.proofs.checkpoint(SIGNER)
    memory.redact_matching("alice")
    second = memory.proofs.checkpoint(SIGNER)
    assert unproven(memory, first) == {("unproven", "plan", None)}
    assert unproven(memory, second) == set()
    memory.redact_matching("carol")
    assert unproven(memory, first) == {("unproven", "plan", None)}
    assert unproven(memory, second) == {("unproven", "plan", None)}
    assert unproven(memory, memory.proofs.checkpoint(SIGNER)) == set()
    assert memory.verify().ok
