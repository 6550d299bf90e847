"""What is derived and not stored: the turn before each turn, across forks, and forks in the words of Python."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from tests.support.forks_of_forks import fill
from tests.support.pasts import mark_of
from tests.support.served import served
from trails import Repository, workers
from trails.errors import TrailsError
from trails.exchange.rdf_files import export_session, import_rdf
from trails.exchange.remotes.store_copy import copy_store
from trails.integrity.verifier.export import Export
from trails.rdf import vocab
from trails.serve.scoped_views import ScopedViews
from trails.session import store_restore
from trails.store.contract import Change
from trails.store.queries import query_pool

rdflib = pytest.importorskip("rdflib")

OPENINGS = ("memory", "disk", "files", "postgres")
LENGTHS = {"root": 8, "middle": 6, "late": 6, "early": 3}
"""root has 8 turns; middle left it at 3 and has 3; late left middle at 5, and early at 2, each with one."""
EDGES = 7 + 3 + 1 + 1
"""Each turn has one before it, but the first of root."""
FORKS = [
    {"fork": "urn:trails:session:early", "parent": "urn:trails:session:middle", "at": 2},
    {"fork": "urn:trails:session:late", "parent": "urn:trails:session:middle", "at": 5},
    {"fork": "urn:trails:session:middle", "parent": "urn:trails:session:root", "at": 3},
]
WORDS = (
    "SELECT ?fork ?parent ?at { ?fork trails:parent_session_id ?parent ; trails:forked_at_index ?at } ORDER BY ?fork"
)
ALL_EDGES = f"SELECT ?turn ?before {{ ?turn <{vocab.TRAILS}previousTurn> ?before }}"
PLACE = "SELECT ?before WHERE { <TURN> trails:previousTurn* ?before }"


@contextmanager
def opened(kind: str, request: pytest.FixtureRequest, tmp_path: Path, fill: Callable[[Repository], Any]) -> Any:
    where = {"memory": ":memory:", "postgres": None}.get(kind, tmp_path / "store.trails")
    with trails.open(where or request.getfixturevalue("url"), create=True) as store:
        fill(store)
        if kind in ("files", "postgres"):
            store.store.snapshot()  # type: ignore[attr-defined] # its engine is in files from then on
        yield store


@pytest.fixture(params=OPENINGS)
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A filled store of every kind: its engine in memory, and in files; its log in a folder, and in a database."""
    with opened(request.param, request, tmp_path, fill) as store:
        yield store


def places(found: Any) -> set[str]:
    """Return turns as their session and index: `middle#3`."""
    iris = [str(next(iter(row)) if isinstance(row, tuple | rdflib.query.ResultRow) else row) for row in found]
    return {iri.strip("<>").removeprefix("urn:trails:session:").replace("/", "#").partition("-")[0] for iri in iris}


def walked(store: Repository, name: str) -> set[str]:
    """Return the turns from the last one of a session back, as a path walks them."""
    last = store.load(name).turns[-1].iri
    return places(row["before"] for row in store.select(PLACE.replace("TURN", last)))


EARLY = {"root#0", "root#1", "early#2"}
LATE = {"root#0", "root#1", "root#2", "middle#3", "middle#4", "late#5"}


def test_a_path_walks_a_transcript_across_forks_in_every_store(filled: Repository) -> None:
    assert {name: len(walked(filled, name)) for name in LENGTHS} == LENGTHS
    assert (walked(filled, "early"), walked(filled, "late")) == (EARLY, LATE)
    assert len(filled.select(ALL_EDGES)) == EDGES


def test_a_fork_is_asked_for_in_the_words_of_python(filled: Repository) -> None:
    assert filled.select(WORDS).to_dicts() == FORKS
    assert len(filled.select("SELECT ?fork { ?fork trails:parent_session_id ?p ; trails:branch ?branch }")) == 3


def test_nothing_derived_is_stored_or_counted_where_no_query_names_it(filled: Repository) -> None:
    total = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
    before = filled.select(total).to_dicts()
    assert len(filled.select(ALL_EDGES)) == EDGES
    assert filled.select(total).to_dicts() == before == [{"n": len(filled.store.quads((None, None, None, None)))}]
    assert filled.store.quads((None, vocab.PREVIOUS_TURN, None, None)) == []
    assert filled.verify().ok


@pytest.mark.parametrize(
    "text",
    [
        "PREFIX t: <https://w3id.org/trails#> SELECT ?turn { ?turn t:previousTurn ?before }",
        "SELECT ?turn { ?turn <https://w3id.org/trails#previous\\u0054urn> ?before }",
        "SELECT ?turn { ?turn ?any ?before FILTER(?any = trails:previousTurn) }",
        "SELECT ?turn { ?before ^trails:previousTurn ?turn }",
        "SELECT ?turn { GRAPH ?session { ?turn trails:role 'user' } ?turn trails:previousTurn ?before }",
    ],
)
def test_however_a_query_names_the_property_it_finds_it(memory: Repository, text: str) -> None:
    assert len(fill(memory).select(text)) == EDGES


def test_a_fork_is_asked_for_where_words_are_escaped(memory: Repository) -> None:
    text = "SELECT ?fork { ?fork trails:parent\\_session\\_id ?parent }"
    assert len(fill(memory).select(text)) == 3


def test_a_query_over_the_default_graph_alone_walks_too(filled: Repository) -> None:
    last = filled.load("late").turns[-1].iri
    assert places(row["before"] for row in filled.query(PLACE.replace("TURN", last), union=False)) == LATE  # type: ignore[union-attr]


def test_a_limit_and_rows_one_by_one_change_nothing(filled: Repository) -> None:
    text = PLACE.replace("TURN", filled.load("late").turns[-1].iri)
    assert len(filled.select(text, timeout=20, max_rows=100)) == 6
    with filled.rows(text) as rows:
        assert places(row["before"] for row in rows) == LATE


# --- what happens to sessions


def test_an_appended_turn_and_a_new_fork_are_walked_at_once(filled: Repository) -> None:
    assert len(walked(filled, "root")) == 8
    root = filled.load("root")
    root.append("user", "more")
    root.persist()
    assert len(walked(filled, "root")) == 9
    assert len(walked(filled, "middle")) == 6
    fork = root.fork(at=9, id="end")
    fork.append("user", "on")
    fork.persist()
    assert len(walked(filled, "end")) == 10


def test_after_a_detach_a_path_walks_the_copies_and_forks_of_it_do_too(filled: Repository) -> None:
    filled.load("middle").detach()
    own = {f"middle#{index}" for index in range(6)}
    assert walked(filled, "middle") == own
    # late and early left middle at 5 and at 2: what they inherit stands in middle now
    assert walked(filled, "late") == {*(f"middle#{index}" for index in range(5)), "late#5"}
    assert walked(filled, "early") == {"middle#0", "middle#1", "early#2"}
    assert [row["fork"] for row in filled.select(WORDS).to_dicts()] == [
        "urn:trails:session:early",
        "urn:trails:session:late",
    ]


def test_after_a_deletion_nothing_of_it_is_before_anything(filled: Repository) -> None:
    filled.delete("late")
    assert len(filled.select(ALL_EDGES)) == EDGES - 1
    filled.delete("root", children="cascade")
    assert len(filled.select(ALL_EDGES)) == 0
    assert filled.select(WORDS).to_dicts() == []


def test_after_a_redaction_and_a_vacuum_the_same_turns_follow_each_other(filled: Repository) -> None:
    filled.redact("middle", 4)
    assert walked(filled, "late") == LATE
    filled.maintenance.vacuum()
    assert walked(filled, "late") == LATE
    assert filled.verify().ok


def test_a_deleted_session_that_is_restored_is_walked_again(memory: Repository) -> None:
    fill(memory)
    kept = io.BytesIO()
    export_session(memory, "early", "nquads", kept)
    memory.delete("early")
    assert len(memory.select(ALL_EDGES)) == EDGES - 1
    import_rdf(memory, kept.getvalue(), "nquads", restore=True)
    assert walked(memory, "early") == EARLY


def test_a_store_of_then_is_walked_as_it_was(memory: Repository) -> None:
    then = mark_of(fill(memory))
    root = memory.load("root")
    root.append("user", "later")
    root.persist()
    with memory.at(then) as past:
        assert len(walked(past, "root")) == 8
        assert walked(past, "late") == LATE
        assert past.select(WORDS).to_dicts() == FORKS
    with memory.at(then) as past:  # which has copied no session's graph yet
        assert len(past.select(ALL_EDGES, union=False)) == EDGES
    assert len(walked(memory, "root")) == 9


def test_a_damaged_store_gives_no_turn_before_a_turn_that_no_transcript_shows(memory: Repository) -> None:
    fill(memory)
    node = ox.NamedNode("urn:trails:session:middle")
    other = ox.Quad(node, vocab.PARENT_SESSION, ox.NamedNode("urn:trails:session:late"), vocab.CATALOG)
    memory.store.commit(Change(add=[other]))  # two parents: nobody can say which turn is before middle's first one
    assert len(memory.select(ALL_EDGES)) == EDGES - 1 - 1  # and early's is root's turn 1, by way of middle
    (own,) = memory.store.quads((node, vocab.PARENT_SESSION, ox.NamedNode("urn:trails:session:root"), None))
    memory.store.commit(Change(remove=[own]))  # middle and late are each other's parent
    assert len(memory.select(ALL_EDGES)) == EDGES - 2


def test_a_turn_of_an_ancestor_that_is_gone_is_before_none(memory: Repository) -> None:
    fill(memory)
    root = ox.NamedNode("urn:trails:session:root")
    memory.store.commit(Change(remove=[ox.Quad(root, vocab.TYPE, vocab.SESSION, vocab.CATALOG)]))  # its turns stay
    assert len(memory.select(ALL_EDGES)) == 2 + 1  # within middle, and from late into middle


# --- a long session


LONG = {"long": 5_000, "a": 4_500, "b": 4_600, "c": 4_110}
"""a left long at 4,000 and has 500 turns; b left a at 4,300 and has 300; c left b at 4,100, in a's part, and has 10."""


def fill_long(store: Repository) -> None:
    """Store a session of 5,000 turns with a fork, a fork of that, and a fork of that."""
    tip = store.create(id="long", principal="alice", agent="planner")
    for name, at, count in (("long", 0, 5_000), ("a", 4_000, 500), ("b", 4_300, 300), ("c", 4_100, 10)):
        tip = tip if name == "long" else tip.fork(at=at, id=name)
        for number in range(count):
            tip.append("user", f"{name} {number}")
        tip.persist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPENINGS)
def test_a_path_walks_five_thousand_turns_and_three_levels_of_forks_wherever_it_is_asked(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    httpx = pytest.importorskip("httpx2")
    with opened(kind, request, tmp_path, fill_long) as store, served(store) as url:
        store.maintenance.dump(tmp_path / "all.nq.gz")
        console = elsewhere(gzip.decompress((tmp_path / "all.nq.gz").read_bytes()), ox.RdfFormat.N_QUADS)
        export = io.BytesIO()
        export_session(store, "c", "nquads", export)
        exported, view = elsewhere(export.getvalue(), ox.RdfFormat.N_QUADS), store.graph()
        for name, length in LONG.items():
            text = PLACE.replace("TURN", store.load(name).turns[-1].iri)
            assert (len(store.select(text)), len(store.query(text, union=False))) == (length, length)
            assert len(view.query(text)) == length
            answer = httpx.get(f"{url}sparql", params={"query": text}, timeout=60)
            assert len(answer.json()["results"]["bindings"]) == length
            for engine in (console, exported):
                rows: Any = engine.query(text, prefixes=vocab.PREFIXES)
                assert len(list(rows)) == length


# --- who sees less of a store


def test_who_sees_some_sessions_walks_those_alone(memory: Repository) -> None:
    fill(memory)
    other = memory.load("root").fork(at=2, id="hers", principal="carol")
    other.append("user", "hers")
    other.persist()
    own = memory.create(id="own", principal="carol")
    own.append("user", "one")
    own.append("user", "two")
    own.persist()
    seen = ScopedViews(memory).of("carol")
    assert [(row["turn"][:22], row["before"][:22]) for row in seen.select(ALL_EDGES).to_dicts()] == [
        ("urn:trails:session:own", "urn:trails:session:own")
    ]
    assert len(ScopedViews(memory).of("alice").select(ALL_EDGES)) == EDGES


# --- rdflib, and a server


def test_rdflib_walks_it_by_query_and_by_pattern(filled: Repository) -> None:
    view, last = filled.graph(), filled.load("late").turns[-1].iri
    previous = rdflib.URIRef(vocab.PREVIOUS_TURN.value)
    assert places(view.query(PLACE.replace("TURN", last))) == LATE
    assert places(view.objects(rdflib.URIRef(last), previous * "*")) == LATE
    assert len(list(view.triples((None, previous, None)))) == EDGES
    root = filled.load("root")
    root.append("user", "more")
    root.persist()
    assert len(list(view.triples((None, previous, None)))) == EDGES + 1
    assert list(view.triples((None, previous, rdflib.URIRef("urn:x")))) == []


def test_one_graph_of_rdflib_has_nothing_of_the_default_graph(memory: Repository) -> None:
    graph = fill(memory).graph("root")
    assert list(graph.triples((None, rdflib.URIRef(vocab.PREVIOUS_TURN.value), None))) == []


def test_a_served_store_walks_it_at_its_endpoint_and_from_afar(memory: Repository) -> None:
    httpx = pytest.importorskip("httpx2")
    fill(memory)
    last = memory.load("late").turns[-1].iri
    with served(memory) as url:
        answer = httpx.get(f"{url}sparql", params={"query": PLACE.replace("TURN", last)})
        assert places(row["before"]["value"] for row in answer.json()["results"]["bindings"]) == LATE
        with trails.open(url) as afar:
            assert walked(afar, "late") == LATE
            assert afar.select(WORDS).to_dicts() == FORKS


def test_where_no_process_can_be_started_it_is_refused_and_never_left_out(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise workers.WorkersFailed("no process can be started: gone")

    fill(memory)
    query_pool._pool.close()
    monkeypatch.setattr(workers, "started", refuse)
    assert len(memory.select("SELECT ?t { ?t a trails:Turn }")) == 13
    with pytest.raises(TrailsError, match=r"names what is derived .*trails:previousTurn.* process"):
        memory.select(ALL_EDGES)


# --- files


def elsewhere(data: bytes, form: ox.RdfFormat) -> ox.Store:
    """Return a fresh Oxigraph that a file was loaded into."""
    engine = ox.Store()
    engine.load(data, format=form)
    return engine


def test_a_dump_is_walked_in_a_fresh_oxigraph_and_comes_back_the_same(filled: Repository, tmp_path: Path) -> None:
    dump, again = tmp_path / "a.nq.gz", tmp_path / "b.nq.gz"
    filled.maintenance.dump(dump)
    console = elsewhere(gzip.decompress(dump.read_bytes()), ox.RdfFormat.N_QUADS)
    for name, length in LENGTHS.items():
        text = PLACE.replace("TURN", filled.load(name).turns[-1].iri)
        for union in (False, True):
            rows: Any = console.query(text, prefixes=vocab.PREFIXES, use_default_graph_as_union=union)
            assert len(list(rows)) == length
    rows = console.query(WORDS, prefixes=vocab.PREFIXES)
    assert [(str(row["fork"])[1:-1], int(row["at"].value)) for row in rows] == [
        (fork["fork"], fork["at"]) for fork in FORKS
    ]
    assert store_restore.load_dump(dump, tmp_path / "loaded").ok
    with trails.open(tmp_path / "loaded") as loaded:
        assert loaded.store.quads((None, vocab.PREVIOUS_TURN, None, None)) == []
        assert walked(loaded, "late") == LATE
        loaded.maintenance.dump(again)
    assert again.read_bytes() == dump.read_bytes()


def test_a_dump_that_is_copied_into_a_store_leaves_out_what_is_derived(memory: Repository, tmp_path: Path) -> None:
    fill(memory).maintenance.dump(tmp_path / "all.nq")
    copy_store(tmp_path / "all.nq", tmp_path / "copy.trails")
    with trails.open(tmp_path / "copy.trails") as copy:
        assert copy.store.quads((None, vocab.PREVIOUS_TURN, None, None)) == []
        assert walked(copy, "late") == LATE


@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_an_export_is_walked_elsewhere_and_comes_back_the_same(memory: Repository, form: str) -> None:
    fill(memory)
    out, again = io.BytesIO(), io.BytesIO()
    export_session(memory, "late", form, out)
    console = elsewhere(out.getvalue(), {"nquads": ox.RdfFormat.N_QUADS, "trig": ox.RdfFormat.TRIG}[form])
    rows: Any = console.query(PLACE.replace("TURN", memory.load("late").turns[-1].iri), prefixes=vocab.PREFIXES)
    assert places(row["before"] for row in rows) == LATE
    rows = console.query(WORDS, prefixes=vocab.PREFIXES)
    assert [int(row["at"].value) for row in rows] == [5, 3]  # late and middle; early is not in the file
    with trails.open(":memory:") as other:
        assert import_rdf(other, out.getvalue(), form).problems == []
        assert other.store.quads((None, vocab.PREVIOUS_TURN, None, None)) == []
        assert other.verify().ok
        export_session(other, "late", form, again)
    assert again.getvalue() == out.getvalue()


def test_a_file_comes_in_the_same_whatever_is_said_there_of_what_is_derived(memory: Repository) -> None:
    fill(memory)
    out = io.BytesIO()
    export_session(memory, "late", "nquads", out)
    lines = out.getvalue().splitlines(keepends=True)
    plain = [line for line in lines if b"#previousTurn>" not in line and b"_" not in line]
    assert len(lines) - len(plain) == 7 + 3 + 1 + 2 * 2
    edge = next(line for line in lines if line.startswith(b"<urn:trails:session:late/5-") and b"#previousTurn>" in line)
    for altered in (plain, [*plain, edge.replace(b"session:middle/4-", b"session:middle/3-")]):
        with trails.open(":memory:") as other:
            assert import_rdf(other, b"".join(altered), "nquads").problems == []
            assert walked(other, "late") == LATE
            assert other.verify().ok


def test_the_verifier_of_exports_finds_what_does_not_follow_and_needs_nothing_of_it(memory: Repository) -> None:
    fill(memory)
    out = io.BytesIO()
    export_session(memory, "late", "nquads", out)
    lines = out.getvalue().splitlines(keepends=True)

    def findings(changed: list[bytes]) -> list[str]:
        return [each.message for each in Export(io.BytesIO(b"".join(changed))).findings]

    assert findings(lines) == []
    assert findings([line for line in lines if b"#previousTurn>" not in line and b"_" not in line]) == []
    edge = next(line for line in lines if line.startswith(b"<urn:trails:session:late/5-") and b"#previousTurn>" in line)
    word = next(
        line for line in lines if line.startswith(b"<urn:trails:session:late>") and b"#forked_at_index>" in line
    )
    for line, other, message in (
        (edge, edge.replace(b"/4-", b"/3-"), "previousTurn of urn:trails:session:late/5-"),
        (edge, edge + edge.replace(b"/4-", b"/3-"), "previousTurn of urn:trails:session:late/5-"),
        (edge, edge.replace(b"late/5-", b"late/6-"), "previousTurn of urn:trails:session:late/6-"),
        (word, word.replace(b'"5"', b'"4"'), "forked_at_index of urn:trails:session:late is not what follows"),
    ):
        (found,) = findings([other if each == line else each for each in lines])
        assert found.startswith(message)
