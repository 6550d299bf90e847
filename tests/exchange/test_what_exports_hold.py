"""What each format keeps of a store with something of every kind, and what it leaves out: as the guide says."""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path

import pytest
from pyoxigraph import Literal

import trails
from tests.support.everything import everything
from trails import Repository
from trails.exchange.file_import import import_path
from trails.exchange.openclaw.pi_export import export_session as export_pi
from trails.exchange.rdf_files import export_session, import_rdf
from trails.rdf import vocab
from trails.rdf.register_records import REGISTER_TYPES


@pytest.fixture(scope="module")
def whole() -> Repository:
    store = trails.open(":memory:")
    everything(store)
    return store


@pytest.mark.parametrize("form", ["nquads", pytest.param("trig", marks=pytest.mark.slow)])
@pytest.mark.sample(1)
def test_an_exact_export_of_all_sessions_leaves_out_what_is_beside_them_and_nothing_else(
    whole: Repository, memory: Repository, form: str
) -> None:
    for record in whole.list():
        out = io.BytesIO()
        export_session(whole, record.id, form, out)
        assert import_rdf(memory, out.getvalue(), form).problems == []
    here, there = (set(each.store.quads((None, None, None, None))) for each in (whole, memory))
    types: dict[object, set[object]] = defaultdict(set)
    for quad in here | there:
        if quad.predicate == vocab.TYPE:
            types[quad.subject].add(quad.object)
    beside = {vocab.RUN, vocab.READING, vocab.DELETION, vocab.TOMBSTONE, vocab.PROV_DOCUMENT, vocab.REF, vocab.REF_MOVE}
    beside |= REGISTER_TYPES
    lost = {quad for quad in here - there if quad.predicate not in (vocab.ROW_SALT, vocab.LEAF_SALT)}
    documents = {quad for quad in lost if "urn:trails:prov:" in str(quad.graph_name)}
    pulls: set[object] = {
        quad.subject for quad in here if quad.predicate == vocab.IMPORTER and quad.object == Literal("pull")
    }
    pulls |= {quad.object for quad in here if quad.subject in pulls and quad.predicate == vocab.USED}
    rest = {quad for quad in lost - documents if not types[quad.subject] & beside and quad.subject not in pulls}
    assert {(quad.predicate, quad.object) for quad in rest} <= {(vocab.TYPE, vocab.AGENT)}  # who did nothing but those
    assert {kind for quad in lost for kind in types[quad.subject] & beside} == beside
    came = {quad for quad in there - here if quad.predicate != vocab.ROW_SALT}
    assert {frozenset(types[quad.subject]) for quad in came} == {  # that it was imported, and from what
        frozenset({vocab.ACTIVITY, vocab.IMPORT}),
        frozenset({vocab.ENTITY, vocab.SOURCE_FILE}),
    }
    assert memory.verify().ok


def test_a_tool_that_wrote_a_turn_is_the_same_tool_after_a_journey_through_pi(
    memory: Repository, tmp_path: Path
) -> None:
    plan = memory.create(id="plan")
    for author in ("urn:trails:tool:ls/files/1.2", "urn:trails:tool:ls", "agent:ls", "ls"):
        plan.append("tool", "Nothing", author=author)
    plan.persist()
    (tmp_path / "session.jsonl").write_bytes(export_pi(memory, "plan"))
    with trails.open(":memory:") as other:
        import_path(other, tmp_path / "session.jsonl")
        [record] = other.list()
        assert [turn.author_iri for turn in other.load(record.id).turns] == [
            *("urn:trails:tool:ls/files/1.2", "urn:trails:tool:ls", "urn:trails:agent:ls", "urn:trails:principal:ls")
        ]


def test_pi_keeps_of_turns_all_but_their_place_in_a_store(whole: Repository, tmp_path: Path) -> None:
    lost: set[str] = set()
    for number, record in enumerate(whole.list()):
        file = tmp_path / str(number) / "session.jsonl"
        file.parent.mkdir()
        file.write_bytes(export_pi(whole, record.id))
        with trails.open(":memory:") as other:
            assert import_path(other, file).problems == []
            there = max((other.load(each.id).turns for each in other.list()), key=len, default=())
        here = whole.load(record.id).turns
        assert len(there) == len(here)
        for one, two in zip(here, there, strict=True):
            lost |= {name for name in type(one).model_fields if getattr(one, name) != getattr(two, name)}
            lost |= {
                name for name in type(one.facts).model_fields if getattr(one.facts, name) != getattr(two.facts, name)
            }
    assert lost == {
        *("session_id", "branch", "digest", "facts", "source_ids"),  # a session of its own, with digests of its own
        "model_call",  # which version of the system prompt was sent
        *("quoted_from", "derived_from"),  # which turn or result of another session it was
        *("redacted", "withheld", "content_digest"),  # that something was taken out
        "payloads",  # what is left of redacted ones
    }
