"""PROV out of a store: what is in it, what it rests on, and that it is a stream."""

from __future__ import annotations

import io
import resource
import sys
from pathlib import Path
from typing import BinaryIO, cast

import pytest

import trails
from tests.support.nine_sessions import fill
from tests.support.places import SHARED
from tests.support.prov_records import said_by, said_by_prov
from trails import InvalidInput, Repository, SessionNotFound
from trails.exchange.file_import import import_path
from trails.provenance import Bundle, Document, Statement, export, validate
from trails.provenance.serializations import WRITERS, read_prov
from trails.provenance.session_export import ExportScope, export_parts
from trails.provenance.statements import ELEMENTS
from trails.rdf import vocab

pytestmark = pytest.mark.any_store

EVIDENCE = vocab.TRAILS + "evidence"
PLAN = "urn:trails:session:plan"
DINNER = "urn:trails:session:dinner"


def exported(store: Repository, format_: str = "jsonld", **wanted: object) -> Document:
    out = io.BytesIO()
    export(store, out, format=format_, **wanted)  # type: ignore[arg-type]
    return read_prov(out.getvalue(), format_)


def by_name(document: Document) -> dict[str | None, list[Statement]]:
    return {bundle.name: list(bundle.statements) for bundle in document.bundles}


def evidence(statement: Statement) -> str:
    return next((value.text for name, value in statement.attributes if name == EVIDENCE), "")


@pytest.mark.parametrize("format_", WRITERS)
@pytest.mark.sample(2)
def test_what_is_written_of_a_store_is_what_its_rows_say(store: Repository, format_: str) -> None:
    fill(store)
    rows = Document([Bundle(part.name, list(part.statements)) for part in export_parts(store.workspace, ExportScope())])
    again = exported(store, format_)
    ours = {(name, said_by(name, each)) for name, said in by_name(rows).items() for each in said}
    theirs = {(name, said_by(name, each)) for name, said in by_name(again).items() for each in said}
    if format_ == "turtle":
        assert {each[1][1:] for each in theirs} == {each[1][1:] for each in ours}
    else:
        assert theirs == ours
        assert again.statements == rows.statements


def test_a_whole_store_is_valid_prov(store: Repository) -> None:
    fill(store)
    out = io.BytesIO()
    export(store, out, format="provn")
    verdict = validate(out.getvalue(), format="provn")
    assert list(verdict.findings) == []
    assert verdict.bundles >= 9


def test_a_turn_is_an_entity_generated_by_its_model_call_at_its_time_in_the_bundle_of_its_session(
    memory: Repository,
) -> None:
    session = memory.create(id="s", principal="alice", agent="planner")
    session.append("assistant", "Hello", model="m-1")
    session.persist()
    (turn,) = session.turns
    assert turn.time is not None
    said = by_name(exported(memory, "provn", session="s"))["urn:trails:session:s"]
    call = f"{turn.iri}/model"
    assert [(each.kind, each.id) for each in said if each.kind in ("entity", "activity")] in (
        [("entity", turn.iri), ("activity", call)],
        [("activity", call), ("entity", turn.iri)],
    )
    relations = {(each.kind, each.arguments[:2]) for each in said if each.kind not in ("entity", "activity")}
    assert relations == {
        ("wasGeneratedBy", (turn.iri, call)),
        ("wasAttributedTo", (turn.iri, "urn:trails:agent:planner")),
        ("wasAssociatedWith", (call, "urn:trails:agent:planner")),
    }


def test_a_fork_comes_with_the_turns_that_it_inherits_and_no_more(store: Repository) -> None:
    fill(store)
    # plan <- dinner (at 3) <- solo (at 2, inside what dinner inherits): solo has two turns of plan and none of dinner
    bundles = by_name(exported(store, "provn", session="solo"))
    inherited = {each.id for each in bundles[PLAN] if each.kind == "entity" and "/call/" not in str(each.id)}
    assert {str(iri).partition("/")[2].partition("-")[0] for iri in inherited} == {"0", "1"}
    whole = by_name(exported(store, "provn", session="plan"))
    assert len(whole[PLAN]) > len(bundles[PLAN])


def test_one_turn_is_written_with_what_belongs_to_it(store: Repository) -> None:
    fill(store)
    turn = store.load("plan").turns[1]
    said = by_name(exported(store, "provn", session="plan", turn=1))[PLAN]
    assert {str(each.id or each.arguments[0]).partition("/")[2].partition("-")[0] for each in said} == {"1"}
    assert by_name(exported(store, "provn", session=turn.iri))[PLAN] == said


def test_texts_and_salts_stay_in_the_store(memory: Repository) -> None:
    session = memory.create(id="s", principal="alice", agent="planner", meta={"k": "v"})
    session.append("user", "a secret text")
    session.append("assistant", "x", tool_calls=[{"id": "c", "name": "t", "arguments": {"a": "secret"}}])
    session.persist()
    for format_ in WRITERS:
        out = io.BytesIO()
        export(memory, out, format=format_)
        assert b"secret" not in out.getvalue()
        assert b"alt>" not in out.getvalue()
        assert b'alt"' not in out.getvalue()


def test_each_statement_says_what_it_rests_on_and_what_is_derived_can_be_left_out(store: Repository) -> None:
    fill(store)
    said = [each for bundle in exported(store, "provn").bundles for each in bundle.statements]
    able = [each for each in said if each.kind not in ("alternateOf", "specializationOf", "mentionOf", "hadMember")]
    assert {evidence(each) for each in able} == {"recorded", "imported", "derived"}
    rules = {value.text for each in able for name, value in each.attributes if name == vocab.TRAILS + "evidenceRule"}
    assert rules == {
        *("derived_agent_for_principal", "derived_tool_informed_by_model"),
        *("derived_child_for_requester", "derived_result_by_agent", "derived_tool_ran"),
    }
    recorded = [each for bundle in exported(store, "provn", recorded_only=True).bundles for each in bundle.statements]
    assert sorted(map(repr, recorded)) == sorted(repr(each) for each in said if evidence(each) != "derived")


def test_a_tool_call_was_informed_by_the_model_call_that_asked_for_it(memory: Repository) -> None:
    session = memory.create(id="s", principal="alice", agent="planner")
    session.append("assistant", "x", model="m", tool_calls=[{"id": "c", "name": "t", "arguments": {}}])
    session.persist()
    (turn,) = session.turns
    said = by_name(exported(memory, "provn", session="s"))["urn:trails:session:s"]
    (informed,) = [each for each in said if each.kind == "wasInformedBy"]
    assert informed.arguments == (f"{turn.iri}/call/0", f"{turn.iri}/model")
    assert evidence(informed) == "derived"


def test_what_was_imported_names_the_record_of_its_source(shared: object, memory: Repository) -> None:
    (path, *_) = sorted((SHARED / "data" / "claude-code-jsonl").rglob("*.jsonl"))
    import_path(memory, path)
    said = [each for bundle in exported(memory, "provn").bundles for each in bundle.statements]
    imported = [each for each in said if evidence(each) == "imported"]
    assert imported
    assert all(vocab.TRAILS + "evidenceSource" in dict(each.attributes) for each in imported)


def test_a_session_is_a_document_of_prov(store: Repository) -> None:
    fill(store)
    document = store.load("dinner").prov()
    said = said_by_prov(document)
    ours = exported(store, "jsonld", session="dinner")
    assert set(said) == {said_by(bundle.name, each) for bundle in ours.bundles for each in bundle.statements}
    assert {str(bundle.identifier) for bundle in document.bundles} >= {"session:plan", "session:dinner"}


def test_a_session_whose_id_is_the_label_of_another_is_a_document_of_its_own(store: Repository) -> None:
    for name in ("one", "two"):
        store.create(id=name, principal="alice").persist()
    store.load("two").set_label("one")
    said = store.load("one").prov().get_provn()
    assert ("session:one" in said, "session:two" in said) == (True, False)


def test_what_is_not_there_is_refused(store: Repository) -> None:
    fill(store)
    out = io.BytesIO()
    with pytest.raises(SessionNotFound):
        export(store, out, format="provn", session="nowhere")
    with pytest.raises(InvalidInput, match="no turn 99"):
        export(store, out, format="provn", session="plan", turn=99)
    with pytest.raises(InvalidInput, match="no PROV format"):
        export(store, out, format="word", session="plan")
    assert out.getvalue() == b""


class _Nowhere(io.RawIOBase):
    size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.size += len(data)  # type: ignore[arg-type]
        return len(data)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
def test_a_hundred_thousand_statements_take_little_more_memory_than_the_store(tmp_path: Path) -> None:
    with trails.open(tmp_path / "large.trails", create=True, durability="process") as store:
        session = store.create(id="s", principal="alice", agent="planner")
        for number in range(20_000):
            session.append("assistant", f"answer {number}", model="m-1")
            if number % 1000 == 999:
                session.persist()
        small = store.create(id="small", principal="alice", agent="planner")
        small.append("user", "Hello")
        small.persist()
        for format_ in WRITERS:
            export(store, cast(BinaryIO, _Nowhere()), format=format_, session="small")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for format_ in WRITERS:
            out = _Nowhere()
            export(store, cast(BinaryIO, out), format=format_)
            assert out.size > 10_000_000
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < 50 << 10, (format_, grown)


def test_each_subject_is_described_once_whatever_the_order_of_the_engine(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s.trails", create=True) as store:
        fill(store)
        parts = [[*statements] for _, statements in export_parts(store.workspace, ExportScope())]
    for statements in parts:
        described = [(each.kind, each.id) for each in statements if each.kind in ELEMENTS]
        assert len(described) == len(set(described))
    assert max(map(len, parts)) > 5
