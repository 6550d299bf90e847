"""A deletion says what the session was, and what the log was just before; the log is held against it."""

from __future__ import annotations

import base64
import io
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, parse

import trails
from trails import Repository
from trails.history import log_leaves
from trails.history.removal import deletion
from trails.history.transaction import Proposal
from trails.rdf import vocab
from trails.store import Change
from trails.store.embedded import EmbeddedStore


def tree_hash(entries: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, word for word."""
    if not entries:
        return sha256(b"").digest()
    if len(entries) == 1:
        return sha256(b"\0" + entries[0]).digest()
    k = 1
    while k * 2 < len(entries):
        k *= 2
    return sha256(b"\1" + tree_hash(entries[:k]) + tree_hash(entries[k:])).digest()


def deletions(store: Repository) -> dict[str, Any]:
    """(turns, head, size of the log) of each deleted session."""
    rows = store.query("deletions").to_dicts()  # type: ignore[union-attr] # a SELECT
    return {row["session"].rpartition(":")[2]: (row["turns"], row["head"], row["log_size"]) for row in rows}


def grow(store: Repository, session_id: str, turns: int, **where: Any) -> list[str]:
    """Append some turns to a new session, or a fork of one, and return the digests of its transcript."""
    session = store.load(where["of"]).fork(at=where["at"], id=session_id) if where else store.create(id=session_id)
    for number in range(turns):
        session.append("user", f"{session_id} {number}")
    session.persist()
    return [turn.digest for turn in session.turns]


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 5, 7, 8, 9, 33])
def test_a_deletion_says_how_many_turns_there_were_and_the_last_ones_digest(store: Repository, turns: int) -> None:
    digests = grow(store, "s", turns)
    store.delete("s")
    assert deletions(store) == {"s": (turns, digests[-1] if turns else None, min(turns, 1) + 1)}
    assert store.verify().ok


def test_of_a_fork_the_turns_that_it_inherits_do_not_count_and_its_head_may_be_one_of_them(store: Repository) -> None:
    root = grow(store, "root", 5)  # leaves 0 and 1: create, turns
    fork = grow(store, "fork", 2, of="root", at=3)  # 2 and 3
    grow(store, "bare", 0, of="root", at=4)  # 4
    store.delete("fork")  # 5
    store.delete("bare")  # 6
    assert deletions(store) == {"fork": (2, fork[4], 5), "bare": (0, root[3], 6)}
    store.delete("root")
    assert deletions(store)["root"] == (5, root[4], 7)
    assert store.verify().ok


def test_sessions_that_go_together_name_the_same_log(store: Repository) -> None:
    grow(store, "root", 2)
    grow(store, "fork", 1, of="root", at=1)
    store.delete("root", children="cascade")
    assert [size for _, _, size in deletions(store).values()] == [4, 4]


def test_a_fork_that_was_detached_had_all_turns_of_its_own(store: Repository) -> None:
    grow(store, "root", 3)
    fork = grow(store, "fork", 1, of="root", at=2)
    store.detach("fork")
    store.delete("fork")
    assert deletions(store)["fork"][:2] == (3, fork[2])
    assert store.verify().ok


def test_the_root_is_that_of_rfc_6962_over_the_lines_before(store: Repository) -> None:
    for number in range(5):
        grow(store, f"s{number}", number)
    for number in (4, 1):  # the second one goes on from what was hashed for the first
        before = [line.encode() for line in store.store.log.lines()]
        store.delete(f"s{number}")
        rows = store.query("deletions").to_dicts()  # type: ignore[union-attr] # a SELECT
        [row] = [row for row in rows if row["session"].endswith(f"s{number}")]
        assert (row["log_size"], base64.b64decode(row["root"])) == (len(before), tree_hash(before))


def test_a_log_that_was_opened_again_has_the_same_root(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        grow(store, "a", 3)
        before = store.store.log.root()
    with trails.open(tmp_path / "s") as store:
        assert store.store.log.root() == before == (2, tree_hash([line.encode() for line in store.store.log.lines()]))


@pytest.mark.parametrize(
    "term", [vocab.DELETED_TURNS, vocab.DELETED_HEAD, vocab.DELETED_AT_LOG_SIZE, vocab.DELETED_AT_ROOT]
)
def test_what_a_deletion_says_is_missed_and_cannot_be_another(store: Repository, term: NamedNode) -> None:
    grow(store, "s", 3)
    store.delete("s")
    [said] = store.store.quads((None, term, None, vocab.CATALOG))
    assert isinstance(said.object, Literal)
    value = "7" if said.object.datatype == vocab.INTEGER else "ab" * 32
    other = Quad(said.subject, term, Literal(value, datatype=said.object.datatype), vocab.CATALOG)
    for forged in ([], [other]):
        store.store.commit(Change(add=forged, remove=[said]))
        assert "row-altered" in {finding.code for finding in store.verify().findings}
        store.store.commit(Change(add=[said], remove=forged))
        assert store.verify().ok


@pytest.mark.parametrize("value", ["2", "99", "many"])
def test_a_deletion_that_was_logged_anew_with_another_log_is_found(memory: Repository, value: str) -> None:
    grow(memory, "s", 3)
    grow(memory, "t", 3)
    memory.delete("s")
    [said] = memory.store.quads((None, vocab.DELETED_AT_LOG_SIZE, None, vocab.CATALOG))
    other = Quad(said.subject, said.predicate, Literal(value, datatype=vocab.INTEGER), vocab.CATALOG)
    Proposal(add=[other], remove=[said], makers=[log_leaves.row_states("delete", ["s"])]).commit(memory.store)
    found = [finding.message for finding in memory.verify().findings]
    assert "session 's': its deletion says that the log before it was another one" in found


def test_a_deletion_that_was_logged_anew_with_another_end_is_found(memory: Repository) -> None:
    grow(memory, "s", 3)
    memory.delete("s")
    [said] = memory.store.quads((None, vocab.DELETED_HEAD, None, vocab.CATALOG))
    other = Quad(said.subject, said.predicate, Literal("ab" * 32), vocab.CATALOG)
    Proposal(add=[other], remove=[said], makers=[log_leaves.row_states("delete", ["s"])]).commit(memory.store)
    found = [finding.message for finding in memory.verify().findings]
    assert "session 's': its deletion says that it ended with another turn than was logged" in found


def test_a_store_that_was_loaded_from_a_dump_keeps_what_was_said_of_the_other_log(tmp_path: Path) -> None:
    with trails.open(tmp_path / "a", create=True) as store:
        grow(store, "kept", 2)
        grow(store, "gone", 2)
        store.delete("gone")
        before = deletions(store)
        dumped = io.BytesIO()
        assert isinstance(store.store, EmbeddedStore)
        store.store.dump(dumped)
    with trails.open(tmp_path / "b", create=True) as store:
        assert isinstance(store.store, EmbeddedStore)
        store.store.commit(Change(add=list(parse(dumped.getvalue(), format=RdfFormat.N_QUADS))))
        log_leaves.begin_session(store.store)
        assert deletions(store) == before
        assert store.verify().ok, store.verify().findings
        store.delete("kept")
        assert store.verify().ok


def test_what_has_no_log_to_be_held_against_is_left_alone(memory: Repository) -> None:
    grow(memory, "s", 1)
    memory.delete("s")
    assert list(deletion.false_tombstone(memory.store, [], {})) == []
