"""The live store as an rdflib dataset: what rdflib reads is what is stored, and no way of rdflib to write changes it."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyoxigraph as ox
import pytest
import rdflib
from rdflib import RDF, XSD, BNode, Dataset, Graph, Literal, Namespace, URIRef
from rdflib.collection import Collection
from rdflib.plugins.sparql import prepareQuery

import trails
from trails import InvalidInput, Repository, SessionNotFound, StoreFailed, TrailsError
from trails.rdf import vocab
from trails.rdflib_view import to_pyoxigraph, to_rdflib

pytestmark = [
    pytest.mark.any_store,
    pytest.mark.filterwarnings("ignore:.*is deprecated, use Dataset:DeprecationWarning"),  # rdflib warns of itself
]

T = Namespace(vocab.TRAILS)
PROV = Namespace(vocab.PROV)
PLAN, DINNER = URIRef("urn:trails:session:plan"), URIRef("urn:trails:session:dinner")


def fill(store: Repository) -> None:
    """Store a session of two turns and a fork of it with one turn of its own."""
    plan = store.create(id="plan", principal="alice", agent="planner", label="trip")
    plan.append("user", "Plan a trip")
    plan.append("assistant", [{"type": "text", "text": "Where to?"}])
    plan.persist()
    dinner = plan.fork(at=1, id="dinner")
    dinner.append("user", "Book a table")
    dinner.persist()


@pytest.fixture
def filled(store: Repository) -> Repository:
    fill(store)
    return store


# --- reading


def test_the_default_graph_has_the_sessions_and_a_named_graph_the_turns_that_one_owns(filled: Repository) -> None:
    view = filled.graph()
    assert isinstance(view, Dataset)
    assert set(view.subjects(RDF.type, T.Session)) == {PLAN, DINNER}
    assert not list(view.subjects(RDF.type, T.Turn))
    assert {graph.identifier for graph in view.graphs()} >= {PLAN, DINNER}
    assert {int(str(i)) for i in view.graph(PLAN).objects(None, T["index"])} == {0, 1}
    assert {int(str(i)) for i in view.graph(str(DINNER)).objects(None, T["index"])} == {1}


@pytest.mark.parametrize("name", ["plan", "trip", str(PLAN)])
def test_one_graph_is_found_by_id_label_and_iri_and_sees_nothing_else(filled: Repository, name: str) -> None:
    graph = filled.graph(name)
    assert graph.identifier == PLAN
    assert sorted(map(str, graph.objects(None, T.role))) == ["assistant", "user"]
    for text in ("ASK { ?s a trails:Session }", "ASK { GRAPH ?g { ?s ?p ?o } }"):
        assert not graph.query(text).askAnswer
        assert graph.query(text.replace("ASK {", "ASK FROM <urn:trails:session:dinner> {")).askAnswer is False
    assert graph.query("ASK { ?turn trails:role 'user' }").askAnswer


def test_a_session_that_is_not_there_has_no_graph(filled: Repository) -> None:
    with pytest.raises(SessionNotFound, match="nobody"):
        filled.graph("nobody")


def test_a_union_sees_all_graphs_by_pattern_and_by_query(filled: Repository) -> None:
    view = filled.graph()
    text = "SELECT ?turn { ?turn a trails:Turn }"
    assert len(view.query(text)) == 0
    view.default_union = True
    assert len(view.query(text)) == len(list(view.subjects(RDF.type, T.Turn))) == 3
    assert [len(view.query(text.replace("{", f"FROM <{of}> {{", 1))) for of in (PLAN, "urn:nowhere")] == [2, 0]


def test_what_rdflib_reads_is_what_an_export_gives_it(filled: Repository) -> None:
    quads = filled.store.quads((None, None, None, None))
    parsed = Dataset().parse(data=ox.serialize(quads, format=ox.RdfFormat.N_QUADS), format="nquads")
    view = filled.graph()
    assert set(view) == set(parsed)
    assert len(view) == len(parsed) == len(quads)
    assert len(view.graph(PLAN)) == len(parsed.graph(PLAN)) == len([q for q in quads if str(q.graph_name) == PLAN.n3()])
    assert set(Dataset().parse(data=view.serialize(format="trig"), format="trig")) == set(parsed)


def test_a_view_is_live_and_every_answer_a_snapshot(filled: Repository) -> None:
    graph = filled.graph("plan")
    before = len(graph)
    roles = graph.subject_objects(T.role)
    first = next(roles)
    plan = filled.load("plan")
    plan.append("user", "To the sea")
    plan.persist()
    others: list[Any] = []
    thread = threading.Thread(target=lambda: others.extend(roles))  # the engine's own iterators abort the process there
    thread.start()
    thread.join()
    assert len({first, *others}) == 2
    assert len(list(graph.subject_objects(T.role))) == 3
    assert len(graph) > before


def test_a_pattern_is_answered_whatever_terms_it_has(filled: Repository) -> None:
    graph = filled.graph("plan")
    (turn,) = graph.subjects(T.role, Literal("user"))
    (time,) = graph.objects(turn, PROV.generatedAtTime)
    assert (turn, PROV.generatedAtTime, Literal(cast(Literal, time).toPython())) in graph
    assert (turn, PROV.value, Literal("Plan a trip")) in graph
    assert (turn, T["index"], Literal(0)) in graph
    nowhere: list[tuple[Any, Any, Any]] = [
        (turn, T["index"], Literal(1)),
        (Literal("Plan a trip"), None, None),
        (None, BNode(), None),
        (None, None, BNode()),
        (URIRef("not an iri"), None, None),
        (None, None, Literal("user", lang="en")),
    ]
    assert [triple for triple in nowhere if list(graph.triples(triple))] == []
    assert len(list(graph.triples((turn, T.role | PROV.value, None)))) == 2
    assert list(filled.graph().quads((None, T.role, Literal("user"), filled.graph().graph("no graph")))) == []
    for wrong in ("plan", 5):
        with pytest.raises(InvalidInput, match="rdflib's terms"):
            list(graph.triples((None, None, wrong)))  # type: ignore[arg-type] # what is no term


def test_the_graphs_of_a_triple_are_named(filled: Repository) -> None:
    view = filled.graph()
    (turn,) = view.graph(DINNER).subjects(T.role, None)
    assert [graph.identifier for graph in view.contexts((turn, RDF.type, T.Turn))][:1] == [DINNER]
    assert {graph for *_, graph in view.quads((turn, None, None, None))} == {DINNER}
    assert cast(Graph, view.get_graph(PLAN)).identifier == PLAN


def test_terms_come_back_as_they_went() -> None:
    for node in (
        URIRef("urn:a"),
        BNode("b1"),
        Literal("Snow"),
        Literal("Schnee", lang="de"),
        Literal(5),
        Literal("{}", datatype=RDF.JSON),
    ):
        there = to_pyoxigraph(node)
        assert there is not None
        assert to_rdflib(there) == node
    assert to_rdflib(ox.Literal("a", datatype=ox.NamedNode(str(XSD.string)))) == Literal("a")
    with pytest.raises(InvalidInput, match=r"store\.query"):
        to_rdflib(ox.Triple(ox.NamedNode("urn:a"), ox.NamedNode("urn:b"), ox.Literal("c")))


# --- queries


def test_a_query_of_every_form_is_answered(filled: Repository) -> None:
    view = filled.graph()
    assert view.query("ASK { ?s a trails:Session }").askAnswer
    rows = view.query("SELECT ?s ?label { ?s a trails:Session OPTIONAL { ?s trails:label ?label } } ORDER BY ?s")
    assert [(row.s, row.label) for row in rows] == [(DINNER, None), (PLAN, Literal("trip"))]  # type: ignore[union-attr] # rows
    made = view.query("CONSTRUCT { ?s a <urn:Thing> } { ?s a trails:Session }").graph
    assert made is not None
    assert set(made) == {(PLAN, RDF.type, URIRef("urn:Thing")), (DINNER, RDF.type, URIRef("urn:Thing"))}
    told = view.query("DESCRIBE <urn:trails:session:plan>").graph
    assert told is not None
    assert (PLAN, T.label, Literal("trip")) in told


def test_a_query_may_use_the_prefixes_of_the_view_and_its_own(filled: Repository) -> None:
    view = filled.graph()
    view.bind("mine", vocab.TRAILS)
    assert view.query("ASK { ?s a mine:Session }").askAnswer
    assert view.query("ASK { ?s a my:Session }", initNs={"my": T}).askAnswer
    assert view.query("ASK { ?s a <Session> }", base=vocab.TRAILS + "x").askAnswer is False
    assert view.query("ASK { ?s a <#Session> }", base=vocab.TRAILS).askAnswer
    assert view.query("PREFIX mine: <urn:none:> ASK { ?s a mine:Session }").askAnswer is False
    prepared = prepareQuery("ASK { ?s a q:Session }", initNs={"q": T})
    assert view.query(prepared).askAnswer


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("ASK { SERVICE <http://localhost:1/> { ?s ?p ?o } }",), {}, "reaches other servers"),
        ((prepareQuery("ASK { SERVICE <http://localhost:1/> { ?s ?p ?o } }"),), {}, "reaches other servers"),
        (("ASK {",), {}, "not valid SPARQL"),
        (("ASK { ?s ?p ?o }",), {"initBindings": {"s": PLAN}}, "VALUES"),
        (("ASK { ?s ?p ?o }",), {"use_store_provided": False}, "own engine"),
        (("ASK { ?s ?p ?o }",), {"colour": "red"}, "takes no colour"),
        (("ASK { ?s a x:y }",), {"initNs": {"x": "no iri"}}, "no IRI"),
    ],
)
def test_a_query_that_the_engine_should_not_or_cannot_answer_is_refused(
    memory: Repository, arguments: Any, options: Any, message: str
) -> None:
    for view in (memory.graph(), memory.graph().default_graph):
        with pytest.raises(InvalidInput, match=message):
            view.query(*arguments, **options)


# --- nothing is written

READS = frozenset(
    """
    absolutize all_nodes base bind cbd close collection compute_qname connected context_aware context_id contexts
    default_context default_graph default_union de_skolemize formula_aware get_context get_graph graph graphs
    identifier isomorphic items n3 namespace_manager namespaces objects predicate_objects predicates print qname quads
    query resource serialize skolemize store subject_objects subject_predicates subjects toPython
    transitiveClosure transitive_objects transitive_subjects triples triples_choices value
    """.split()  # noqa: SIM905 - shorter than a list
)
"""What rdflib's datasets have that reads, or whose writing is by way of what is refused."""

Write = Callable[[Any, Any], object]
ONE: Any = (PLAN, T.label, Literal("forged"))
WRITES: dict[str, Write] = {
    "add": lambda view, graph: view.add(ONE),
    "add to a graph": lambda view, graph: graph.add(ONE),
    "add a quad": lambda view, graph: view.add((*ONE, PLAN)),
    "addN": lambda view, graph: view.addN([(*ONE, graph)]),
    "addN to a graph": lambda view, graph: graph.addN([(*ONE, graph)]),
    "remove": lambda view, graph: view.remove((None, None, None)),
    "remove from a graph": lambda view, graph: graph.remove((None, None, None)),
    "set": lambda view, graph: view.set(ONE),
    "set in a graph": lambda view, graph: graph.set(ONE),
    "update": lambda view, graph: view.update("CLEAR ALL"),
    "update of a graph": lambda view, graph: graph.update("DELETE WHERE { ?s ?p ?o }"),
    "parse": lambda view, graph: view.parse(data="<urn:a> <urn:b> <urn:c> .", format="turtle"),
    "parse what is far away": lambda view, graph: view.parse("http://localhost:1/"),
    "parse into a graph": lambda view, graph: graph.parse(data="", format="turtle"),
    "+=": lambda view, graph: view.__iadd__(Dataset()),
    "+= to a graph": lambda view, graph: graph.__iadd__(Graph().add(ONE)),
    "-=": lambda view, graph: view.__isub__(Graph()),
    "-= from a graph": lambda view, graph: graph.__isub__(graph),
    "commit": lambda view, graph: view.commit(),
    "rollback": lambda view, graph: graph.rollback(),
    "open": lambda view, graph: view.open("elsewhere", create=True),
    "destroy": lambda view, graph: view.destroy("elsewhere"),
    "graph": lambda view, graph: view.graph(),
    "graph of another": lambda view, graph: view.graph(Graph().add(ONE)),
    "add_graph": lambda view, graph: view.add_graph(URIRef("urn:new")),
    "remove_graph": lambda view, graph: view.remove_graph(PLAN),
    "remove_context": lambda view, graph: view.remove_context(graph),
    "a resource": lambda view, graph: graph.resource(PLAN).add(T.label, Literal("forged")),
    "a collection": lambda view, graph: Collection(graph, BNode(), [PLAN]),
    "the store's add": lambda view, graph: view.store.add(ONE, graph),
    "the store's addN": lambda view, graph: view.store.addN([(*ONE, graph)]),
    "the store's remove": lambda view, graph: view.store.remove((None, None, None), None),
    "the store's update": lambda view, graph: view.store.update("CLEAR ALL", {}, {}, ""),
    "the store's open": lambda view, graph: view.store.open("elsewhere", create=True),
    "the store's create": lambda view, graph: view.store.create("elsewhere"),
    "the store's destroy": lambda view, graph: view.store.destroy("elsewhere"),
    "the store's graphs": lambda view, graph: view.store.add_graph(graph),
    "the store's graph removed": lambda view, graph: view.store.remove_graph(graph),
    "the store's commit": lambda view, graph: view.store.commit(),
    "the store's rollback": lambda view, graph: view.store.rollback(),
    "a graph of rdflib's own": lambda view, graph: Graph(store=view.store, identifier=PLAN).add(ONE),
    "a dataset of rdflib's own": lambda view, graph: Dataset(store=view.store).update("CLEAR ALL"),
    "a description into it": lambda view, graph: graph.cbd(next(graph.subjects()), target_graph=graph),
    "skolemize into it": lambda view, graph: Graph().add(ONE).skolemize(new_graph=graph),
    "de_skolemize into it": lambda view, graph: Graph().add(ONE).de_skolemize(new_graph=graph),
    "a graph that it lists": lambda view, graph: next(iter(view.graphs())).add(ONE),
    "its default graph": lambda view, graph: view.default_graph.add(ONE),
    "a copy of the view": lambda view, graph: copy.copy(view).add(ONE),
}


def everything(store: Repository) -> tuple[set[str], int, str, list[str]]:
    quads = store.store.quads((None, None, None, None))
    graphs = store.store.query("SELECT ?g { GRAPH ?g {} }")
    return {str(quad) for quad in quads}, len(quads), store.store.log.text(), sorted(map(str, graphs))  # type: ignore[arg-type] # rows


def test_no_way_of_rdflib_to_write_changes_the_store(filled: Repository) -> None:
    before = everything(filled)
    view = filled.graph()
    graph = view.graph(PLAN)
    for way, write in WRITES.items():
        with pytest.raises(TrailsError, match=r"refused.*`persist`"):
            write(view, graph)
        assert everything(filled) == before, way
    assert filled.verify().ok


def test_a_view_is_neither_pickled_nor_copied_with_its_store(filled: Repository) -> None:
    for view in (filled.graph(), filled.graph("plan")):
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TrailsError, match="cannot be copied or pickled"):
                copied(view)


def test_an_answer_that_was_begun_ends_as_it_was_though_the_store_is_written_to_or_closed(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s.trails", create=True) as store:
        fill(store)
        graph, plan = store.graph("plan"), store.load("plan")
        length, rows, number = len(graph), iter(graph), 1
        next(rows)
        for _ in graph:
            number += 1
            if number < 4:
                plan.append("user", "More")
                plan.persist()
    assert number - 1 == length
    assert len(list(rows)) == length - 1


def test_what_belongs_to_the_view_alone_changes_no_store(filled: Repository) -> None:
    before = everything(filled)
    view = filled.graph()
    view.bind("mine", "urn:mine:")
    view.namespace_manager.bind("trails", "urn:other:", replace=True)
    view.default_union = True
    view.default_graph = view.graph(PLAN)
    view.default_context = Graph()
    view.skolemize()
    view.graph(PLAN).de_skolemize()
    view.graph(URIRef("urn:nothing"))
    view.store.gc()
    view.close()
    assert everything(filled) == before
    assert dict(filled.graph().namespaces())["trails"] == URIRef(vocab.TRAILS)


def test_every_method_that_rdflib_has_is_known_to_read_or_is_refused() -> None:
    public = {name for name in {*dir(Dataset), *dir(Graph)} if not name.startswith("_")}
    with trails.open(":memory:") as store:
        view = store.graph()
        refused = {name for name in public - READS if _refuses(getattr(view, name))}
    assert public - READS == refused


def _refuses(method: Any) -> bool:
    try:
        method(Graph())
    except TrailsError as error:
        return "refused" in str(error)
    return False


# --- its end


def test_a_view_of_a_closed_store_says_so(tmp_path: Path) -> None:
    store = trails.open(tmp_path / "s.trails", create=True)
    fill(store)
    view, graph = store.graph(), store.graph("plan")
    store.close()
    for use in (
        lambda: list(view),
        lambda: len(graph),
        lambda: graph.query("ASK {}"),
        lambda: list(view.graphs()),
        lambda: PLAN in graph.subjects(),
        store.graph().__len__,
        lambda: store.graph("plan"),
    ):
        with pytest.raises(StoreFailed, match="is closed; open it again"):
            use()


def test_a_view_that_was_closed_says_so_and_the_store_stays_open(filled: Repository) -> None:
    view = filled.graph()
    view.close()
    for use in (lambda: list(view), lambda: view.query("ASK {}"), lambda: len(view)):
        with pytest.raises(StoreFailed, match=r"store\.graph\(\)"):
            use()
    assert len(filled.graph()) == len(filled.store)


def test_a_copy_of_a_graph_is_ones_own_to_change(filled: Repository) -> None:
    mine = rdflib.Graph()
    mine += filled.graph("plan")
    mine.add(ONE)
    assert len(mine) == len(filled.graph("plan")) + 1
    both = filled.graph("plan") + filled.graph("dinner")
    assert type(both) is Graph
    assert len(both) == len(filled.graph("plan")) + len(filled.graph("dinner"))
