"""`verify` since a checkpoint reads the turns of the sessions that changed, and says what of the rest it did not look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

import trails
from tests.support.commands import Run
from trails import Repository
from trails.errors import InvalidInput
from trails.integrity.signed_notes import new_key
from trails.rdf import vocab
from trails.store import EmbeddedStore

SIGNER, VERIFIER = new_key("example.com/trails")


@pytest.fixture
def store(place: Path) -> Iterator[Repository]:
    with trails.open(place, create=True, durability="process") as opened:
        for name in ("old", "grown", "parent"):
            session = opened.create(id=name)
            for number in range(3):
                session.append("user", f"{name} {number}")
            session.persist()
        yield opened


@pytest.fixture
def monday(store: Repository) -> str:
    return store.proofs.checkpoint(SIGNER)


def alter(store: Repository, digest: str) -> None:
    assert isinstance(store.store, EmbeddedStore)
    engine = store.store.settled_engine()
    (found,) = engine.quads_for_pattern(None, vocab.DIGEST, ox.Literal(digest), None)
    (text,) = engine.quads_for_pattern(found.subject, vocab.VALUE, None, found.graph_name)
    engine.remove(text)
    engine.add(ox.Quad(text.subject, text.predicate, ox.Literal("something else"), text.graph_name))


def more(store: Repository) -> None:
    """One session gets a turn, one a fork of two turns, and one is new with one turn: those have 4 + 2 + 1 of their own."""
    grown = store.load("grown")
    grown.append("user", "more")
    grown.persist()
    fork = store.load("parent").fork(at=1, id="fork")
    for text in ("a", "b"):
        fork.append("user", text)
    fork.persist()
    new = store.create(id="new")
    new.append("user", "hi")
    new.persist()


def test_with_nothing_new_no_turn_is_read(store: Repository, monday: str) -> None:
    report = store.verify(since=monday, verifiers=[VERIFIER])
    assert (report.ok, report.sessions, report.turns, report.since) == (True, 0, 0, len(store.store.log.lines()))
    assert store.verify(checkpoint=monday, verifiers=[VERIFIER]).since is None


def test_turns_of_sessions_that_changed_are_read_and_no_others(store: Repository, monday: str) -> None:
    more(store)
    report = store.verify(since=monday, verifiers=[VERIFIER])
    assert (report.ok, report.sessions, report.turns) == (True, 3, 7), report.findings


def test_what_was_altered_in_a_session_that_changed_is_found_also_what_is_old_of_it(
    store: Repository, monday: str
) -> None:
    more(store)
    alter(store, store.load("grown").turns[0].digest)
    found = store.verify(since=monday, verifiers=[VERIFIER]).findings
    assert [(each.code, each.session_id, each.index) for each in found] == [("digest-mismatch", "grown", 0)]


def test_what_was_altered_in_turns_of_another_is_left_to_a_look_at_all(store: Repository, monday: str) -> None:
    more(store)
    alter(store, store.load("old").turns[0].digest)
    assert store.verify(since=monday, verifiers=[VERIFIER]).ok
    assert not store.verify(checkpoint=monday, verifiers=[VERIFIER]).ok


def test_a_row_of_the_catalog_that_was_altered_is_found_of_every_session(store: Repository, monday: str) -> None:
    assert isinstance(store.store, EmbeddedStore)
    node = ox.NamedNode("urn:trails:session:old")
    store.store.settled_engine().add(ox.Quad(node, vocab.LABEL, ox.Literal("mine"), vocab.CATALOG))
    found = store.verify(since=monday, verifiers=[VERIFIER]).findings
    assert {each.session_id for each in found} == {"old"}


def test_what_the_catalog_says_of_a_tool_is_found_where_some_of_it_is_gone(store: Repository) -> None:
    asked = store.create(id="asked")
    asked.append("assistant", "I look", tool_calls=[{"id": "c", "name": "weather", "arguments": "{}"}])
    asked.append("tool", "sunny", tool_results=[{"call_id": "c", "server": "files", "version": "1.2"}])
    asked.persist()
    monday = store.proofs.checkpoint(SIGNER)
    assert isinstance(store.store, EmbeddedStore)
    engine = store.store.settled_engine()
    said = [
        quad
        for quad in engine.quads_for_pattern(None, None, None, vocab.CATALOG)
        if "trails:tool:" in str(quad.subject)
    ]
    assert len(said) >= 3
    for quad in said:
        engine.remove(quad)
        assert "missing" in {each.code for each in store.verify(since=monday, verifiers=[VERIFIER]).findings}
        engine.add(quad)
    assert store.verify(since=monday, verifiers=[VERIFIER]).ok


def test_a_checkpoint_of_another_store_is_a_finding(store: Repository, monday: str) -> None:
    with trails.open(":memory:") as other:
        other.create(id="x").persist()
        assert [each.code for each in other.verify(since=monday, verifiers=[VERIFIER]).findings][:1] == ["checkpoint"]


def test_a_session_or_another_checkpoint_does_not_go_with_it(store: Repository, monday: str) -> None:
    with pytest.raises(InvalidInput, match="by that checkpoint alone"):
        store.verify("old", since=monday, verifiers=[VERIFIER])
    with pytest.raises(InvalidInput, match="by that checkpoint alone"):
        store.verify(checkpoint=monday, since=monday, verifiers=[VERIFIER])


def test_the_command_says_what_was_not_read(store: Repository, monday: str, run: Run, tmp_path: Path) -> None:
    more(store)
    store.close()
    (tmp_path / "monday").write_text(monday)
    (tmp_path / "key").write_text(VERIFIER)
    done = run("verify", "--since", tmp_path / "monday", "--verifier", tmp_path / "key")
    assert done.exit_code == 0, done.output
    assert "3 sessions, 7 turns" in done.output
    assert "since line" in done.output
