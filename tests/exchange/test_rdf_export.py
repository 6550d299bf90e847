"""Sessions as RDF: what is exported comes back exactly, and nothing that is not whole comes in."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.machines import examples
from trails import Compaction, InvalidInput, ParentMissing, Repository, Session, SessionNotFound
from trails.exchange.rdf_files import export_session, import_rdf
from trails.rdf import vocab
from trails.rdf.derived_quads import DERIVED
from trails.store.contract import Change
from trails.store.embedded import drop_graph

pytestmark = pytest.mark.any_store

A_CALL = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/"}}
AN_ANSWER = {"type": "tool_result", "tool_use_id": "t1", "content": "bin"}


def exported(store: Repository, session_id: str, form: str = "nquads") -> bytes:
    out = io.BytesIO()
    export_session(store, session_id, form, out)
    return out.getvalue()


def quads_in(store: Repository) -> set[Quad]:
    """Everything in a store but what salts the newest leaf of a row, which is the log's, and that it was imported here."""
    every = store.store.quads((None, None, None, None))
    here = {quad.subject for quad in every if quad.object in (vocab.IMPORT, vocab.SOURCE_FILE)}
    here.add(NamedNode("urn:trails:agent:unknown"))
    return {quad for quad in every if quad.predicate != vocab.ROW_SALT and quad.subject not in here}


@pytest.fixture
def other() -> Iterator[Repository]:
    """A second, empty store."""
    with trails.open(":memory:") as opened:
        yield opened


def family(store: Repository) -> tuple[Session, Session, Session]:
    """Store a root of five turns, a fork of it at 3 with two turns, and a fork of that at 4 with one."""
    root = store.create(id="root", principal="alice", agent="planner", label="Trip", system="Be brief", meta={"n": 1.5})
    root.append(
        "user",
        'Plan a trip\u2028\r\n"now" \\ \N{WAVING HAND SIGN}',
        time=datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC),
    )
    root.append(
        "assistant", [{"type": "text", "text": "Look"}, A_CALL], model="m", usage={"input_tokens": 3, "cost": 0.25}
    )
    root.append("user", [AN_ANSWER], meta={"k": [None, 1.0]})
    root.append("summary", "All said", compaction=Compaction(summarised_through=1, first_kept=2, trigger="manual"))
    root.append("user", "and?", author="carol")
    root.persist()
    child = root.fork(at=3, id="child", meta={"why": "try"})
    child.append("user", [AN_ANSWER])
    child.append("assistant", "Done")
    child.persist()
    grandchild = child.fork(at=4, id="grandchild", principal="bob")
    grandchild.append("user", "Other")
    grandchild.persist()
    return root, child, grandchild


def without_rows(store: Repository, session_id: str) -> None:
    """Take a session's row out of the catalog behind the session layer's back."""
    node = NamedNode(store.record(session_id).iri)
    store.store.commit(Change(remove=store.store.quads((node, None, None, vocab.CATALOG))))


# --- there and back


@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_an_export_imported_into_an_empty_store_is_exported_again_byte_for_byte(
    store: Repository, other: Repository, form: str
) -> None:
    family(store)
    report = import_rdf(other, exported(store, "grandchild", form), form)
    assert (report.sessions_created, report.forks_created) == (["root"], ["child", "grandchild"])
    assert (report.turns_added, report.problems) == (8, [])
    assert report.records == {"trails:Session": 3, "trails:Turn": 8}
    for kind in ("nquads", "trig"):
        assert exported(other, "grandchild", kind) == exported(store, "grandchild", kind)
    assert quads_in(other) == quads_in(store)
    assert other.verify().ok
    assert other.load("grandchild").turns == store.load("grandchild").turns
    assert other.load("grandchild").system == "Be brief"


def test_n_quads_are_sorted_lines_without_blank_nodes_with_turns_in_their_sessions_graphs(memory: Repository) -> None:
    s = memory.create(id="one")
    s.append("user", "hi")
    s.persist()
    lines = exported(memory, "one").decode().splitlines()
    assert lines == sorted(lines)
    assert not any(line.startswith("_:") or " _:" in line for line in lines)
    in_graph = [
        line
        for line in lines
        if line.endswith("<urn:trails:session:one> .") and line.startswith("<urn:trails:session:one/0-")
    ]
    assert len(in_graph) == 10
    assert sum('http://www.w3.org/ns/prov#value> "hi"' in line for line in in_graph) == 1


def test_trig_declares_the_prefixes_that_it_uses(memory: Repository) -> None:
    family(memory)
    text = exported(memory, "child", "trig").decode()
    assert "@prefix trails: <https://w3id.org/trails#> ." in text
    assert "@prefix prov: <http://www.w3.org/ns/prov#> ." in text
    assert "trails:index" in text


def test_an_export_holds_the_ancestors_and_nothing_beside_or_below(store: Repository, other: Repository) -> None:
    root, child, _ = family(store)
    root.fork(at=1, id="sibling").persist()
    import_rdf(other, exported(store, "child"), "nquads")
    assert sorted(record.id for record in other.list()) == ["child", "root"]
    assert other.load("root").head == root.head
    assert other.load("child").head == child.head


def test_a_detached_fork_and_a_flattened_copy_come_back_too(memory: Repository, other: Repository) -> None:
    _, _, grandchild = family(memory)
    grandchild.detach()
    flat = memory.load("child").flatten(id="flat")
    for session_id in ("grandchild", "flat"):
        import_rdf(other, exported(memory, session_id), "nquads")
        assert exported(other, session_id) == exported(memory, session_id)
    assert other.load("flat").head == flat.head
    assert other.verify().ok


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.one_of(
            st.tuples(st.just("say"), TEXT),
            st.tuples(st.just("part"), st.sampled_from((A_CALL, AN_ANSWER, {"type": "text", "text": "x", "n": 1e300}))),
            st.tuples(st.just("fork"), st.integers(0, 5)),
            st.tuples(st.just("detach"), st.none()),
        ),
    ),
    max_size=14,
)


def grown(store: Repository, operations: list[tuple[int, tuple[str, Any]]]) -> list[str]:
    """Grow a tree of forks by operations on the sessions there are; return the sessions' ids."""
    sessions = [store.create(id="s0", meta={"big": 2**40, "small": 1e-9, "flag": True})]
    sessions[0].persist()
    for which, (verb, value) in operations:
        session = sessions[which % len(sessions)]
        if verb == "fork":
            sessions.append(session.fork(at=min(value, len(session)), id=f"s{len(sessions)}"))
        elif verb == "detach":
            session.detach()
        else:
            session.append(
                "user", value if verb == "say" else [value], meta={"said": value}, usage={"input": 1, "cost": 0.1}
            )
        for each in sessions:
            each.persist()
    return [session.id for session in sessions]


def test_a_detached_session_that_answers_a_call_of_its_former_parent_comes_back(store: Repository) -> None:
    parent = store.create(id="parent")
    parent.append("assistant", [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/"}}])
    parent.persist()
    fork = parent.fork(at=1, id="fork")
    fork.append("tool", [{"type": "tool_result", "tool_use_id": "t1", "content": "bin"}])
    fork.persist()
    fork.detach()
    with trails.open(":memory:") as other:
        import_rdf(other, exported(store, "fork", "trig"), "trig")
        assert other.load("fork").head == store.load("fork").head
        assert other.verify().ok


@examples(30)
@given(OPERATIONS, st.data())
def test_any_session_of_any_tree_of_forks_comes_back_byte_for_byte(
    operations: list[tuple[int, tuple[str, Any]]], data: st.DataObject
) -> None:
    with trails.open(":memory:") as store, trails.open(":memory:") as other:
        ids = grown(store, operations)
        chosen = data.draw(st.sampled_from(ids))
        written = exported(store, chosen)
        report = import_rdf(other, written, "nquads")
        assert report.problems == []
        assert exported(other, chosen) == written
        assert other.load(chosen).turns == store.load(chosen).turns
        for session_id in ids:  # all other sessions join: what is there already stays as it is
            import_rdf(other, exported(store, session_id, "trig"), "trig")
        assert quads_in(other) == quads_in(store)
        assert other.verify().ok


# --- again, and more


def test_importing_again_adds_nothing(store: Repository) -> None:
    family(store)
    before = quads_in(store)
    report = import_rdf(store, exported(store, "grandchild"), "nquads")
    assert report.unchanged == ["root", "child", "grandchild"]
    assert (report.turns_added, report.sessions_created, report.forks_created) == (0, [], [])
    assert quads_in(store) == before


def test_a_session_that_has_grown_since_gets_only_what_is_new(store: Repository, other: Repository) -> None:
    root, _, _ = family(store)
    first = exported(store, "child")
    import_rdf(other, first, "nquads")
    root.append("user", "more")
    root.set_system("Be long")
    root.persist()
    later = exported(store, "child")
    report = import_rdf(other, later, "nquads")
    assert (report.grown, report.unchanged, report.turns_added) == (["root"], ["child"], 1)
    assert exported(other, "child") == later
    assert other.verify().ok
    report = import_rdf(other, first, "nquads")
    assert (report.unchanged, report.grown) == (["root", "child"], [])
    assert exported(other, "child") == later


def test_a_session_with_other_turns_is_reported_as_changed_and_left_alone(
    memory: Repository, other: Repository
) -> None:
    family(memory)
    different = other.create(id="root")
    different.append("user", "Something else")
    different.persist()
    before = quads_in(other)
    report = import_rdf(other, exported(memory, "child"), "nquads")
    assert report.changed == ["root", "child"]
    assert len(report.problems) == 2
    assert "other turns" in report.problems[0].reason
    assert quads_in(other) == before


def test_a_fork_joins_a_parent_that_went_another_way_only_after_the_fork_point(
    memory: Repository, other: Repository
) -> None:
    s = memory.create(id="root")
    s.append("user", "one")
    s.persist()
    import_rdf(other, exported(memory, "root"), "nquads")
    s.append("user", "two here")
    s.fork(at=1, id="child").persist()
    there = other.load("root")
    there.append("user", "two there")
    there.persist()
    report = import_rdf(other, exported(memory, "child"), "nquads")
    assert (report.changed, report.forks_created) == (["root"], ["child"])
    assert [turn.content for turn in other.load("child").turns] == ["one"]


def test_a_fork_alone_joins_ancestors_that_only_the_store_has(memory: Repository, other: Repository) -> None:
    family(memory)
    import_rdf(other, exported(memory, "root"), "nquads")
    whole = exported(memory, "child").splitlines(keepends=True)
    alone = b"".join(line for line in whole if b"session:root" not in line.split(b" ")[0])
    report = import_rdf(other, alone, "nquads")
    assert (report.forks_created, report.turns_added) == (["child"], 2)
    assert exported(other, "child") == b"".join(whole)


def test_a_label_in_use_stays_where_it_is_and_the_session_comes_without_it(
    memory: Repository, other: Repository
) -> None:
    family(memory)
    other.create(id="mine", label="Trip").persist()
    report = import_rdf(other, exported(memory, "root"), "nquads")
    assert report.sessions_created == ["root"]
    assert "without its label 'Trip'" in report.problems[0].reason
    assert other.record("root").label is None
    assert other.record("mine").label == "Trip"


# --- what was deleted, and what went missing


def test_restoring_a_deleted_parents_export_makes_its_children_load_again(store: Repository) -> None:
    _, child, grandchild = family(store)
    saved = exported(store, "root")
    before = quads_in(store)
    without_rows(store, "root")
    for session_id in ("child", "grandchild"):
        with pytest.raises(ParentMissing):
            store.load(session_id)
    report = import_rdf(store, saved, "nquads")
    assert report.sessions_created == ["root"]
    assert store.load("child").turns == child.turns
    assert store.load("grandchild").turns == grandchild.turns
    assert quads_in(store) == before


def test_restoring_a_parent_whose_turns_are_gone_too_brings_both_back(store: Repository) -> None:
    _, child, _ = family(store)
    saved = exported(store, "root", "trig")
    without_rows(store, "root")
    drop_graph(store.store, NamedNode("urn:trails:session:root"))
    import_rdf(store, saved, "trig")
    assert store.load("child").turns == child.turns
    assert store.verify().ok


def test_a_deleted_session_stays_deleted_unless_restoring_is_asked_for(store: Repository) -> None:
    family(store)
    saved, before = exported(store, "grandchild"), quads_in(store)
    store.delete("root", children="cascade")
    report = import_rdf(store, saved, "nquads")
    assert (report.deleted, report.turns_added) == (["root", "child", "grandchild"], 0)
    with pytest.raises(SessionNotFound):
        store.load("root")
    report = import_rdf(store, saved, "nquads", restore=True)
    assert (report.sessions_created, report.forks_created, report.deleted) == (["root"], ["child", "grandchild"], [])
    assert exported(store, "grandchild") == saved
    assert quads_in(store) == before
    assert store.verify().ok


def test_a_fork_does_not_come_back_without_its_deleted_parent(memory: Repository, other: Repository) -> None:
    family(memory)
    import_rdf(other, exported(memory, "root"), "nquads")
    other.delete("root")
    report = import_rdf(other, exported(memory, "child"), "nquads")
    assert report.deleted == ["root"]
    assert "its parent 'root' is not in the store" in report.problems[0].reason
    assert "child" not in other


# --- what may not come in


def refused(data: bytes, match: str, *, error: type[Exception] = InvalidInput) -> None:
    with trails.open(":memory:") as store:
        with pytest.raises(error, match=match):
            import_rdf(store, data, "nquads")
        assert len(store.store) == 0


def test_a_file_that_is_no_rdf_or_holds_no_session_is_refused() -> None:
    refused(b"{}", "not valid")
    refused(b"\xff", "not valid")
    refused(b"", "holds no session")
    with trails.open(":memory:") as store, pytest.raises(InvalidInput, match="no RDF format"):
        import_rdf(store, b"", "turtle")


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("_:b <urn:p> <urn:o> .", "blank nodes"),
        ("<urn:trails:session:root> <urn:p> _:b .", "blank nodes"),
        ("<urn:x> <urn:p> <urn:o> .", "belongs to no session"),
        ("<urn:x> <urn:p> <urn:o> <urn:graph> .", "belongs to no session"),
        ("<urn:x> <urn:p> <urn:o> <urn:trails:session:elsewhere> .", "belongs to no session"),
        ("<urn:trails:session:root> <urn:p> <urn:o> .", "belongs to nothing"),
        ("<urn:x> <urn:p> <urn:o> <urn:trails:session:root> .", "whole, unaltered"),
        (f"<urn:trails:session:root> {vocab.TYPE} {vocab.TOMBSTONE} .", "deletions"),
        (f'<urn:trails:session:root> {vocab.PENDING_SWEEP} "true" .', "deletions"),
        (f"<urn:trails:session:root> {vocab.SPAWNED_BY} <urn:x> .", "names no session"),
        (f'<urn:trails:session:root> {vocab.STATE} "other" .', "values for"),
    ],
)
def test_a_quad_that_no_export_holds_is_refused_and_nothing_is_imported(
    memory: Repository, line: str, match: str
) -> None:
    family(memory)
    refused(exported(memory, "root") + line.encode() + b"\n", match, error=trails.TrailsError)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"Done"', b'"Gone"'),
        (b'"Look\\"', b'"Lock\\"'),
        (b'prov#value> "and?"', b'prov#value> "and!"'),
        (b"principal:carol", b"principal:mallory"),
        (b"03:04:05.0006", b"03:04:05.0007"),
        (b'model> "m"', b'model> "n"'),
        (b'"assistant"', b'"user"'),
        (b"Be brief", b"Be frank"),
    ],
)
def test_a_file_in_which_anything_was_altered_is_refused(memory: Repository, old: bytes, new: bytes) -> None:
    family(memory)
    data = exported(memory, "child")
    altered = data.replace(old, new)
    assert altered != data
    refused(altered, "whole, unaltered")


@pytest.mark.slow
def test_a_file_that_lacks_a_turn_a_parent_or_any_line_of_a_turn_is_refused(memory: Repository) -> None:
    _, child, _ = family(memory)
    lines = exported(memory, "child").splitlines(keepends=True)
    gap = child.turns[1].iri.encode()
    refused(b"".join(line for line in lines if gap not in line), "whole, unaltered")
    alone = b"".join(line for line in lines if not line.startswith(b"<urn:trails:session:root"))
    refused(alone, "import an export that holds both", error=ParentMissing)
    of_turns = [
        line for line in lines if line.startswith(b"<urn:trails:session:child/") and b"#previousTurn" not in line
    ]
    assert len(of_turns) >= 20
    for left_out in of_turns:
        refused(b"".join(line for line in lines if line != left_out), "whole, unaltered")


def test_the_row_of_a_session_that_was_spawned_comes_back_without_its_spawner(
    memory: Repository, other: Repository
) -> None:
    memory.create(id="boss").persist()
    memory.create(id="worker", spawned_by="boss").persist()
    report = import_rdf(other, exported(memory, "worker"), "nquads")
    assert report.problems == []
    assert other.record("worker").spawned_by == "boss"
    assert exported(other, "worker") == exported(memory, "worker")


def test_an_unknown_format_or_session_is_refused_before_anything_is_written(memory: Repository) -> None:
    out = io.BytesIO()
    memory.create(id="s").persist()
    with pytest.raises(InvalidInput, match="no RDF format"):
        export_session(memory, "s", "turtle", out)
    with pytest.raises(SessionNotFound):
        export_session(memory, "t", "nquads", out)
    assert out.getvalue() == b""


def test_an_export_parses_as_standard_n_quads(memory: Repository) -> None:
    family(memory)
    parsed = set(ox.parse(exported(memory, "grandchild"), format=ox.RdfFormat.N_QUADS))
    derived = {quad for quad in parsed if quad.predicate in DERIVED}
    assert len(derived) == 4 + 2 + 1 + 2 * 2  # a turn before all but the root's first one, and two words for each fork
    stored = parsed - derived
    assert {quad for quad in stored if quad.subject != NamedNode("urn:trails:agent:unknown")} == quads_in(memory)
    assert Quad(NamedNode("urn:trails:session:child"), vocab.FORKED_AT_INDEX, Literal(3), vocab.CATALOG) in parsed
