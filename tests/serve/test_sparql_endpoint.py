"""The SPARQL endpoint: the protocol, the formats, what a query may take, and clients that others wrote."""

from __future__ import annotations

import csv
import io
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pyoxigraph as ox
import pytest
from pyoxigraph import NamedNode, Quad

import trails
from trails import Repository
from trails.rdf import query_files
from trails.store.contract import Change
from trails.store.queries import query_pool

pytest.importorskip("starlette")
pytest.importorskip("orjson")
httpx = pytest.importorskip("httpx2")

from starlette.testclient import TestClient  # noqa: E402

from trails.serve.app import create_app  # noqa: E402
from trails.serve.service import Settings  # noqa: E402
from trails.serve.sparql import outbox  # noqa: E402

pytestmark = pytest.mark.any_store

if TYPE_CHECKING:
    from httpx2 import Response

W3C = "sparql/sparql11/protocol"
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
HT = "http://www.w3.org/2011/http#"
CNT = "http://www.w3.org/2011/content#"
TEXTS = "SELECT ?text { ?turn prov:value ?text } ORDER BY ?text"
SLOW = "SELECT (COUNT(*) AS ?n) { " + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(9)) + " }"
"""Nine times all triples, each with each: some 10 to the 13th rows, with two turns."""
EVERYTHING = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
AWKWARD = 'a "quoted" line}},{"\n,<result>, \\"and\\\\ another'


Ask = Callable[..., "Response"]


def _filled(store: Repository) -> Repository:
    session = store.create(id="s", principal="alice")
    session.append("user", "Hello")
    session.append("assistant", AWKWARD)
    session.persist()
    return store


def _client(store: Repository, **settings: Any) -> TestClient:
    return TestClient(create_app(store, Settings(**settings)), base_url="http://localhost")


@pytest.fixture
def client(store: Repository) -> Iterator[TestClient]:
    with _client(_filled(store)) as client:
        yield client


def ask(client: TestClient, query: str, accept: str = "", **parameters: str) -> Response:
    headers = {"Accept": accept} if accept else {}
    return client.get("/sparql", params={"query": query, **parameters}, headers=headers)


# --- the protocol


def test_a_query_comes_by_get_by_form_or_as_the_body(client: TestClient) -> None:
    body = {"Content-Type": "application/sparql-query; charset=UTF-8"}
    given = [
        ask(client, TEXTS),
        client.post("/sparql", data={"query": TEXTS}),
        client.post("/sparql", content=TEXTS.encode(), headers=body),
    ]
    for response in given:
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/sparql-results+json"
        rows = response.json()["results"]["bindings"]
        assert [row["text"]["value"] for row in rows] == ["Hello", AWKWARD]


def _w3c_requests(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the name of each test of a query, and its requests."""
    store = ox.Store()
    store.load(path=folder / "manifest.ttl", format=ox.RdfFormat.TURTLE, base_iri="http://manifest/")

    def one(node: Any, name: str) -> Any:
        return next((quad.object for quad in store.quads_for_pattern(node, NamedNode(name), None)), None)

    def listed(node: Any) -> Iterator[Any]:
        while node is not None and (first := one(node, f"{RDF}first")) is not None:
            yield first
            node = one(node, f"{RDF}rest")

    def told(request: Any) -> dict[str, Any]:
        body, headers = one(request, f"{HT}body"), one(request, f"{HT}headers")
        response = one(request, f"{HT}resp")
        charset = one(body, f"{CNT}characterEncoding").value if body else "utf-8"
        return {
            "method": one(request, f"{HT}methodName").value,
            "url": one(request, f"{HT}absolutePath").value.replace("/sparql/", "/sparql"),
            "content": one(body, f"{CNT}chars").value.encode(charset) if body else None,
            "headers": {
                one(each, f"{HT}fieldName").value: one(each, f"{HT}fieldValue").value for each in listed(headers)
            },
            "status": {
                str(quad.object)[-4]  # <...StatusCode2xx>
                for quad in store.quads_for_pattern(response, NamedNode(f"{MF}expectedStatus"), None)
            },
            "boolean": one(response, f"{MF}expectedBoolean"),
            "format": one(response, f"{MF}expectedFormat"),
        }

    for test in listed(one(NamedNode("http://manifest/"), f"{MF}entries")):
        requests = one(one(test, f"{MF}action"), f"{HT}requests")
        yield str(test).rpartition("#")[2].rstrip(">"), [told(each) for each in listed(requests)]


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
FORMS = {
    "boolean": {"application/sparql-results+json", "application/sparql-results+xml"},
    "tabular": {"application/sparql-results+json", "application/sparql-results+xml", "text/csv"},
    "RDF": {"text/turtle", "application/rdf+xml", "application/n-triples"},
}


def test_the_w3cs_tests_of_queries_pass_and_those_of_updates_are_refused(store: Repository, shared: Path) -> None:
    folder = shared / "w3c-sparql" / W3C
    if not folder.is_dir():
        pytest.skip("the W3C's tests are not there")
    document, foaf = f"{RDF}type", "http://xmlns.com/foaf/0.1/Document"
    graphs = [f"http://kasei.us/2009/09/sparql/data/data{n}.rdf" for n in (1, 2, 3)]
    kind, type_ = NamedNode(document), NamedNode(foaf)
    store.store.commit(Change(add=[Quad(NamedNode(each), kind, type_, NamedNode(each)) for each in graphs]))
    wrong: list[tuple[str, object]] = []
    names: list[str] = []
    with _client(store) as client:
        for name, requests in _w3c_requests(folder):
            names.append(name)
            for request in requests:
                expected = request["status"] if "update" not in name else {"4"}
                given = request["method"], request["url"]
                response = client.request(*given, content=request["content"], headers=request["headers"])
                if str(response.status_code)[0] not in expected:
                    if "update" in name and request["boolean"] is not None:
                        continue  # it asks what an update has done
                    wrong.append((name, response.status_code))
                elif response.status_code == 200 and "update" not in name:
                    if (
                        request["format"]
                        and response.headers["content-type"].partition(";")[0] not in FORMS[request["format"].value]
                    ):
                        wrong.append((name, response.headers["content-type"]))
                    if request["boolean"] and response.json()["boolean"] != (request["boolean"].value == "true"):
                        wrong.append((name, response.text))
    assert wrong == []
    assert len([name for name in names if "update" not in name]) == 20  # counted in the manifest
    assert len(store.store) == 3


@pytest.mark.parametrize(
    ("query_string", "status"),
    [
        ("query=ASK%20%7B%7D&default-graph-uri=not%20an%20iri", 400),
        ("query=ASK%20%7B%7D&named-graph-uri=relative", 400),
        ("query=ASK%20%7B%7D&timeout=soon", 400),
        ("query=ASK%20%7B%7D&timeout=0", 400),
        ("query=ASK%20%7B%7D&timeout=nan", 400),
        ("query=%FF", 400),
        ("query=", 400),
        ("query=ASK%20%7B%7D&update=CLEAR%20ALL", 403),
        ("update=CLEAR%20ALL", 403),
        ("query=CLEAR%20ALL", 400),
        ("query=SELECT%20*%20%7B%20SERVICE%20%3Chttp%3A//localhost/%3E%20%7B%7D%20%7D", 400),
        ("query=ASK%20%7B%7D&format=pdf", 406),
        ("query=ASK%20%7B%7D&" + "&".join(f"named-graph-uri=urn:{n}" for n in range(1001)), 400),
    ],
)
def test_what_is_no_query_is_refused_with_a_problem_document(
    client: TestClient, query_string: str, status: int
) -> None:
    response = client.get(f"/sparql?{query_string}")
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert response.json()["status"] == status
    assert response.json()["detail"]


@pytest.mark.parametrize(
    ("media_type", "body", "status"),
    [
        ("application/sparql-query; charset=iso-8859-1", b"ASK {}", 415),
        ("application/sparql-query", b"ASK { ?s ?p '\xff' }", 400),
        ("application/sparql-update", b"CLEAR ALL", 403),
        ("application/json", b"{}", 415),
        ("application/sparql-query", b" " * ((1 << 20) + 1), 413),
        ("application/sparql-query", b"#" * 70_000, 400),
    ],
)
def test_a_body_that_is_no_query_is_refused(client: TestClient, media_type: str, body: bytes, status: int) -> None:
    response = client.post("/sparql", content=body, headers={"Content-Type": media_type})
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")


def test_a_dataset_is_that_of_the_request_then_that_of_the_query_then_all_graphs(store: Repository) -> None:
    graphs = [NamedNode(f"urn:g{n}") for n in (1, 2)]
    store.store.commit(Change(add=[Quad(graph, graph, graph, graph) for graph in graphs]))
    everywhere, named = "SELECT ?s { ?s ?p ?o }", "SELECT ?s { GRAPH ?g { ?s ?p ?o } }"
    counts: list[int] = []
    with _client(store) as client:
        for query, given in (
            (everywhere, {}),
            (everywhere.replace("{", "FROM <urn:g1> {", 1), {}),
            (everywhere.replace("{", "FROM <urn:g1> {", 1), {"default-graph-uri": ["urn:g1", "urn:g2"]}),
            (everywhere, {"named-graph-uri": ["urn:g1"]}),
            (named, {"named-graph-uri": ["urn:g1"]}),
            (named, {"default-graph-uri": ["urn:g1"]}),
            (everywhere, {"default-graph-uri": ["urn:g3"]}),
        ):
            response = client.get("/sparql", params={"query": query, **given})
            counts.append(len(response.json()["results"]["bindings"]))
    assert counts == [2, 1, 2, 0, 1, 0, 0]


# --- formats


def test_rows_come_in_each_format_of_the_w3c(client: TestClient) -> None:
    expected = ["Hello", AWKWARD]
    assert [row["text"]["value"] for row in ask(client, TEXTS).json()["results"]["bindings"]] == expected
    written = ask(client, TEXTS, "text/csv")
    assert written.headers["content-type"] == "text/csv; charset=utf-8"
    assert [row["text"] for row in csv.DictReader(io.StringIO(written.text, newline=""))] == expected
    for media_type in ("application/sparql-results+xml", "text/tab-separated-values"):
        response = ask(client, TEXTS, media_type)
        form = ox.QueryResultsFormat.from_media_type(media_type)
        assert form is not None
        read = ox.parse_query_results(response.content, form)
        assert isinstance(read, ox.QuerySolutions)
        assert [row["text"].value for row in read] == expected
        assert response.headers["content-type"].partition(";")[0] == media_type
    assert ask(client, "ASK {}", "application/sparql-results+xml").text.count("<boolean>true</boolean>") == 1


@pytest.mark.parametrize(
    "media_type",
    [
        "text/turtle",
        "application/n-triples",
        "application/rdf+xml",
        "application/ld+json",
        "application/n-quads",
        "application/trig",
        "text/n3",
    ],
)
def test_triples_come_in_each_format(client: TestClient, media_type: str) -> None:
    query = "CONSTRUCT { ?turn prov:value ?text } WHERE { ?turn prov:value ?text }"
    response = ask(client, query, media_type)
    read = ox.parse(response.content, format=ox.RdfFormat.from_media_type(media_type))
    assert sorted(quad.object.value for quad in read) == ["Hello", AWKWARD]
    assert response.headers["content-type"].partition(";")[0] == media_type


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/sparql-results+json"),
        ("*/*", "application/sparql-results+json"),
        ("text/*", "text/csv"),
        ("text/csv;q=0.4, application/sparql-results+xml;q=0.6", "application/sparql-results+xml"),
        ("application/sparql-results+json;q=0, */*;q=0.1", "application/sparql-results+xml"),
        ("application/json", "application/json"),
        ("text/turtle, text/tab-separated-values;q=0.1", "text/tab-separated-values"),
        ("text/turtle", None),
        ("image/png", None),
        ("text/csv;q=0", None),
    ],
)
def test_the_format_is_the_one_that_is_preferred(client: TestClient, accept: str, expected: str | None) -> None:
    response = ask(client, TEXTS, accept)
    if expected is None:
        assert response.status_code == 406
        assert "application/sparql-results+json" in response.json()["detail"]
    else:
        assert response.headers["content-type"].partition(";")[0] == expected
    assert response.status_code == 406 or "Accept" in response.headers["vary"].split(", ")


def test_head_answers_as_get_without_a_body_and_options_says_what_is_offered(client: TestClient) -> None:
    plain = {"Accept-Encoding": "identity"}
    got = client.get("/sparql", params={"query": TEXTS}, headers=plain)
    head = client.head("/sparql", params={"query": TEXTS}, headers=plain)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"] == str(len(got.content))
    assert client.options("/sparql").headers["allow"] == "GET, HEAD, POST, OPTIONS"
    refused = client.delete("/sparql")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST, OPTIONS")


# --- the description, graphs, the catalogue


def test_without_a_query_the_endpoint_describes_itself(client: TestClient) -> None:
    sd, void = "http://www.w3.org/ns/sparql-service-description#", "http://rdfs.org/ns/void#"
    response = client.get("/sparql", headers={"Accept": "application/n-triples"})
    told = {
        (quad.predicate.value, getattr(quad.object, "value", ""))
        for quad in ox.parse(response.content, ox.RdfFormat.N_TRIPLES)
    }
    assert (f"{sd}endpoint", "http://localhost/sparql") in told
    assert (f"{sd}supportedLanguage", f"{sd}SPARQL11Query") in told
    assert (f"{sd}supportedLanguage", f"{sd}SPARQL11Update") not in told
    assert (f"{void}entities", "1") in told
    count = ask(client, "SELECT (COUNT(*) AS ?n) { { ?s ?p ?o } }").json()["results"]["bindings"][0]["n"]["value"]
    assert (f"{void}triples", count) in told


def test_the_description_counts_each_class_and_each_property_and_says_where_to_ask() -> None:
    with trails.open(":memory:") as store:
        with store.create(id="plan", principal="alice", agent="planner") as plan:
            plan.append("user", "Plan a trip")
            plan.append("assistant", "Where to?")
        with _client(store) as client:
            led = client.get("/.well-known/void", headers={"Accept": "application/n-triples"}, follow_redirects=False)
            assert (led.status_code, led.headers["location"]) == (303, "/sparql")
            text = client.get("/.well-known/void", headers={"Accept": "application/n-triples"}).content
    graph = ox.Store()
    graph.load(text, ox.RdfFormat.N_TRIPLES)
    head = "PREFIX void: <http://rdfs.org/ns/void#> PREFIX dcat: <http://www.w3.org/ns/dcat#> "
    rows = graph.query(
        head
        + "SELECT ?of ?n { { ?part void:class ?of ; void:entities ?n } UNION { ?part void:property ?of ; void:triples ?n } }"
    )
    assert isinstance(rows, ox.QuerySolutions)
    counts = {row["of"].value.rpartition("#")[2]: int(row["n"].value) for row in rows}
    # by hand: one session, one principal, one agent and two turns, each of which is an entity too
    assert {name: counts[name] for name in ("Session", "Principal", "Agent", "Turn", "Entity")} == {
        "Session": 1,
        "Principal": 1,
        "Agent": 1,
        "Turn": 2,
        "Entity": 2,
    }
    assert {name: counts[name] for name in ("type", "index", "value", "branch", "wasAttributedTo")} == {
        "type": 7,
        "index": 2,
        "value": 2,
        "branch": 3,
        "wasAttributedTo": 3,
    }
    asked = "{ ?dataset a dcat:Dataset ; dcat:distribution/dcat:accessURL <http://localhost/sparql> ; void:triples 29 }"
    assert graph.query(head + "ASK " + asked)
    assert graph.query(head + "ASK { ?service a dcat:DataService ; dcat:servesDataset [ a void:Dataset ] }")
    assert not graph.query("ASK { ?s <http://purl.org/dc/terms/license> ?o }")


def test_the_description_counts_again_what_was_written_since(store: Repository) -> None:
    accept, two = {"Accept": "application/n-triples"}, '#dataset> <http://rdfs.org/ns/void#entities> "2"'
    with _client(_filled(store)) as client:
        assert [two in client.get("/sparql", headers=accept).text for _ in range(2)] == [False, False]
        store.create(id="another").persist()
        assert [two in client.get("/sparql", headers=accept).text for _ in range(2)] == [True, True]


def test_a_graph_is_read_by_its_iri_and_never_written(client: TestClient) -> None:
    iri = "urn:trails:session:s"
    response = client.get("/graphs", params={"graph": iri}, headers={"Accept": "application/n-triples"})
    texts = [
        quad.object.value
        for quad in ox.parse(response.content, ox.RdfFormat.N_TRIPLES)
        if quad.predicate.value.endswith("#value")
    ]
    assert sorted(texts) == ["Hello", AWKWARD]
    catalog = client.get("/graphs?default").text
    assert "trails:Session" in catalog
    assert "Hello" not in catalog
    assert client.head("/graphs", params={"graph": iri}).status_code == 200
    assert client.get("/graphs", params={"graph": "urn:nothing"}).status_code == 404
    assert client.get("/graphs").status_code == 400
    assert client.get("/graphs", params={"graph": iri, "default": ""}).status_code == 400
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        refused = client.request(method, "/graphs?default", content=b"")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert "only read" in refused.json()["detail"]


def test_a_query_of_the_catalogue_is_answered_by_its_name(client: TestClient) -> None:
    listed = client.get("/queries").json()["queries"]
    assert [each["name"] for each in listed] == list(query_files.catalogue())
    response = client.get("/queries/refs", params={"format": "csv"})
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    bound = client.get("/queries/metadata", params={"session": "s", "timeout": "5"})
    assert bound.json()["results"]["bindings"] == []
    assert client.get("/queries/refs", headers={"Accept": "application/sparql-query"}).text == (
        query_files.find("refs").text
    )
    assert client.get("/queries/no-such").status_code == 404
    assert client.get("/queries/counts").status_code == 404  # one of those that Trails asks itself
    assert client.get("/queries/refs", params={"sesion": "s"}).status_code == 400
    assert client.get("/queries/model-time", params={"months": "x"}).status_code == 400


# --- what a query may take


@pytest.mark.slow
def test_each_limit_is_refused_whole_and_by_its_name(memory: Repository) -> None:
    _filled(memory)
    limits = {"query_timeout": 0.5, "query_max_rows": 1_000, "query_max_bytes": 10_000, "query_memory": 64}
    values = " ".join(f"?x{n}" for n in range(12))
    pairs = " ".join(f"VALUES ?x{n} {{ 1 2 3 4 5 6 7 8 9 }}" for n in range(12))
    refused: list[tuple[int, str, float]] = []
    with _client(memory, **limits) as client:
        for query, media_type in (
            (SLOW, "text/csv"),
            ("SELECT ?a { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }", "text/csv"),
            (EVERYTHING, "application/sparql-results+json"),
            (f"SELECT {values} {{ {pairs} }} ORDER BY {values}", "text/csv"),
        ):
            response = ask(client, query, media_type)
            told = response.json()
            assert response.headers["content-type"] == "application/problem+json"
            refused.append((response.status_code, told["limit"], told["allowed"]))
        assert ask(client, TEXTS).status_code == 200
    assert refused[:3] == [
        (503, "query_timeout", 0.5),
        (422, "query_max_bytes", 10_000),
        (422, "query_max_bytes", 10_000),
    ]
    assert refused[3][1] in ("query_memory", "query_timeout")


@pytest.mark.parametrize("media_type", ["application/sparql-results+json", "text/csv", "application/n-triples"])
def test_an_answer_with_more_rows_than_it_may_have_is_refused(memory: Repository, media_type: str) -> None:
    _filled(memory)
    query = TEXTS if media_type != "application/n-triples" else "CONSTRUCT { ?s prov:value ?o } { ?s prov:value ?o }"
    with _client(memory, query_max_rows=2) as client:
        assert ask(client, query, media_type).status_code == 200
    with _client(memory, query_max_rows=1) as client:
        response = ask(client, query, media_type)
        assert (response.status_code, response.json()["limit"]) == (422, "query_max_rows")


def test_a_client_may_ask_for_less_time_than_the_server_allows_and_never_for_more(memory: Repository) -> None:
    _filled(memory)
    with _client(memory, query_timeout=0.4) as client:
        for given, allowed in (("0.2", 0.2), ("60", 0.4)):
            response = ask(client, SLOW, timeout=given)
            assert (response.status_code, response.json()["allowed"]) == (503, allowed)


def test_a_query_whose_process_goes_away_is_told_so_without_the_place_of_the_store(tmp_path: Path) -> None:
    with trails.open(tmp_path / "secret-place", create=True) as store, _Served(_filled(store)) as server:
        answers: list[Response] = []
        thread = threading.Thread(target=lambda: answers.append(server.ask(SLOW)))
        thread.start()
        assert _until(lambda: _busy() == 1)
        time.sleep(0.2)
        query_pool.end(store.store, trails.QueryEnded("the query in secret-place was ended"))
        thread.join(20)
        assert answers[0].status_code == 503
        assert "secret-place" not in answers[0].text
        assert "retry-after" in answers[0].headers


# --- what a caller may see

OF_BOB = "the plan that is nobody else's"
THERE = "urn:trails:session:of-bob"
NAMING = [
    "SELECT * { ?s ?p ?o }",
    "SELECT * { GRAPH ?g { ?s ?p ?o } }",
    f"SELECT * {{ GRAPH <{THERE}> {{ ?s ?p ?o }} }}",
    f"SELECT * FROM <{THERE}> {{ ?s ?p ?o }}",  # noqa: S608 - it is SPARQL
    f"SELECT * FROM NAMED <{THERE}> {{ GRAPH ?g {{ ?s ?p ?o }} }}",  # noqa: S608
    f"SELECT * {{ ?s ?p ?o FILTER EXISTS {{ GRAPH <{THERE}> {{ ?s ?p ?o }} }} }}",
    f"SELECT * {{ <{THERE}> (!rdf:nil|^!rdf:nil)* ?o . ?o ?p ?q }}",
    "SELECT ?o { { SELECT ?o { GRAPH ?g { ?s prov:value ?o } } } MINUS { ?x ?y ?o FILTER(?o = 1) } }",
    f"DESCRIBE <{THERE}>",
    f"CONSTRUCT {{ ?s ?p ?o }} FROM <{THERE}> WHERE {{ ?s ?p ?o }}",
]


def test_nothing_outside_of_the_view_is_shown_by_any_name(tmp_path: Path) -> None:
    tokens = pytest.importorskip("trails.serve.tokens")
    with trails.open(tmp_path / "store", create=True) as store:
        for name in ("alice", "bob"):
            session = store.create(id=f"of-{name}", principal=name)
            session.append("user", OF_BOB if name == "bob" else "Hello")
            session.persist()
        kept = tokens.TokenFile(tmp_path / "store" / tokens.NAME)
        headers = {
            who: {"Authorization": f"Bearer {kept.make(who, who, role)[1]}", "Accept": "*/*"}
            for who, role in (("alice", "reader"), ("eve", "auditor"))
        }
        hers = {"query": "SELECT ?t { ?s prov:value ?t }"}
        with _client(store) as client:

            def shown(who: str) -> list[bool]:
                """Tell of each request whether its answer shows what bob wrote, or that he was there."""
                asked = [("/sparql", {"query": query}) for query in NAMING]
                asked += [("/sparql", hers | {f"{kind}-graph-uri": THERE}) for kind in ("default", "named")]
                asked += [("/graphs", {"graph": THERE}), ("/graphs", {"default": ""})]
                asked += [("/queries/metadata", {"session": "of-bob"}), ("/queries/forest", {})]
                given = [client.get(path, params=parameters, headers=headers[who]) for path, parameters in asked]
                assert all(each.status_code in (200, 400, 404) for each in given), [each.text for each in given]
                return [OF_BOB in each.text or f"{THERE}/" in each.text for each in given if each.status_code == 200]

            assert not any(shown("alice"))
            assert sum(shown("eve")) >= 9  # the requests do find it, for one who may see it
            rows = client.get("/sparql", params=hers, headers=headers["alice"]).json()["results"]["bindings"]
            assert [row["t"]["value"] for row in rows] == ["Hello"]
            figures = client.get("/sparql", headers=headers["alice"] | {"Accept": "application/n-triples"}).text
            assert 'http://rdfs.org/ns/void#entities> "1"' in figures
            assert client.get("/sparql", params=hers).status_code == 401


# --- beside others


class _Served:
    """A server on a port of its own, in a thread."""

    def __init__(self, store: Repository, **settings: Any) -> None:
        uvicorn = pytest.importorskip("uvicorn")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = uvicorn.Config(create_app(store, Settings(**settings)), port=port, log_level="warning", lifespan="off")
        self.address = ("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client()
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> _Served:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._server.should_exit = True
        self._thread.join(10)

    def ask(self, query: str) -> Response:
        response: Response = self._client.get(f"{self.url}/sparql", params={"query": query}, timeout=30)
        return response

    @contextmanager
    def asked(self, *queries: str) -> Iterator[None]:
        """Have some queries under way, each of a client that leaves in the end without having read its answer."""
        clients = []
        before = _busy()
        for query in queries:
            clients.append(socket.create_connection(self.address))
            line = f"GET /sparql?{urlencode({'query': query})} HTTP/1.1"
            clients[-1].sendall(f"{line}\r\nHost: localhost\r\n\r\n".encode())
        try:
            assert _until(lambda: _busy() >= before + len(queries))
            yield
        finally:
            for client in clients:
                client.close()


def _busy() -> int:
    return len(query_pool._pool._busy)


def _until(condition: Callable[[], bool], patience: float = 10.0) -> bool:
    deadline = time.monotonic() + patience
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_slow_queries_keep_no_small_one_from_its_answer(memory: Repository) -> None:
    begun = _memory()
    with _Served(_filled(memory), query_max_rows=100_000_000, query_max_bytes=100 << 20) as server:
        with server.asked(SLOW, SLOW.replace("COUNT(*)", "MAX(?a1)"), EVERYTHING):
            answers = [server.ask(TEXTS) for _ in range(20)]
            assert _busy() >= 2  # the joins are still under way
        assert [len(answer.json()["results"]["bindings"]) for answer in answers] == [2] * 20
        assert _memory() - begun < 50 << 20  # what everything is, is not held here
        assert _until(lambda: _busy() == 0)


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_client_that_leaves_ends_its_query(memory: Repository) -> None:
    with _Served(_filled(memory)) as server:
        with server.asked(SLOW):
            pass
        assert _until(lambda: _busy() == 0, patience=5.0)


def test_a_query_waits_for_a_place_no_longer_than_it_may(memory: Repository) -> None:
    with _Served(_filled(memory), query_workers=1, query_wait=0.2) as server:
        with server.asked(SLOW):
            refused = server.ask(TEXTS)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert "query_workers" in refused.json()["detail"]
        assert _until(lambda: _busy() == 0)
        assert server.ask(TEXTS).status_code == 200


@pytest.mark.slow
def test_a_long_query_too_many_is_ended_so_that_short_ones_have_a_place(memory: Repository) -> None:
    with _Served(_filled(memory), query_workers=2) as server, server.asked(SLOW):
        refused = server.ask(SLOW)
        assert (refused.status_code, refused.json()["title"]) == (503, "Busy")
        assert _busy() == 1
        figures = httpx.get(f"{server.url}/metrics").text
        assert "trails_queries_running 1.0" in figures
        assert 'trails_queries_total{outcome="Busy"} 1.0' in figures


LONG = "SELECT ?x ?y { VALUES ?x { 1 2 3 } ?a ?b ?c . ?d ?e ?f . ?g ?h ?y }"
"""An answer of some megabytes."""


def test_a_long_answer_comes_whole(memory: Repository) -> None:
    with _Served(_filled(memory)) as server:
        response = server.ask(LONG)
        triples = len(memory.store)
        assert len(response.json()["results"]["bindings"]) == 3 * triples**3
        assert len(response.content) > 1 << 20


@pytest.mark.slow
def test_answers_that_nobody_reads_are_bounded_and_given_up(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "PATIENCE", 1.5)
    with _Served(_filled(memory), query_max_held=16 << 20) as server:
        size = len(server.ask(LONG).content)
        assert 8 << 20 < size < 16 << 20
        with server.asked(LONG):
            assert _until(lambda: _busy() == 0)
            time.sleep(0.1)  # until it is being sent
            refused = server.ask(LONG)
            assert (refused.status_code, refused.json()["title"]) == (503, "Busy")
            assert "query_max_held" in refused.json()["detail"]
            assert _until(lambda: server.ask(LONG).status_code == 200)


# --- clients that others wrote


def test_sparqlwrapper_reads_each_form(memory: Repository) -> None:
    wrapper = pytest.importorskip("SPARQLWrapper")
    with _Served(_filled(memory)) as server:
        client = wrapper.SPARQLWrapper(f"{server.url}/sparql")
        for method in (wrapper.GET, wrapper.POST):
            client.setMethod(method)
            for request_method in (wrapper.URLENCODED, wrapper.POSTDIRECTLY) if method == "POST" else ("urlencoded",):
                client.setRequestMethod(request_method)
                client.setQuery(f"PREFIX prov: <http://www.w3.org/ns/prov#> {TEXTS}")
                client.setReturnFormat(wrapper.JSON)
                rows = client.queryAndConvert()["results"]["bindings"]
                assert [row["text"]["value"] for row in rows] == ["Hello", AWKWARD]
        client.setMethod(wrapper.GET)
        client.setReturnFormat(wrapper.XML)
        client.setQuery("ASK { ?s a <https://w3id.org/trails#Session> }")
        assert "true" in client.queryAndConvert().toxml()
        client.setQuery("CONSTRUCT { ?s a ?c } WHERE { ?s a ?c }")
        for form in (wrapper.TURTLE, wrapper.RDFXML, wrapper.JSONLD, wrapper.N3):
            client.setReturnFormat(form)
            assert client.query().response.status == 200
        client.setReturnFormat(wrapper.JSON)
        client.setQuery("SELECT ?s { ?s ")
        with pytest.raises(wrapper.SPARQLExceptions.QueryBadFormed):
            client.query()


def test_rdflibs_store_reads_the_endpoint(memory: Repository) -> None:
    rdflib = pytest.importorskip("rdflib")
    sparqlstore = pytest.importorskip("rdflib.plugins.stores.sparqlstore")
    prov = rdflib.Namespace("http://www.w3.org/ns/prov#")
    with _Served(_filled(memory)) as server:
        for method in ("GET", "POST"):
            graph = rdflib.Graph(sparqlstore.SPARQLStore(f"{server.url}/sparql", method=method))
            assert sorted(str(text) for text in graph.objects(None, prov.value)) == ["Hello", AWKWARD]
            assert [str(row.text) for row in graph.query(f"PREFIX prov: <{prov}> {TEXTS}")] == ["Hello", AWKWARD]
            assert graph.query("ASK { ?s ?p ?o }").askAnswer
            assert len(graph.query("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }").graph) > 5


@pytest.mark.slow
def test_every_question_of_the_catalogue_is_answered_within_the_usual_limits(client: TestClient) -> None:
    values = {
        "session": "s",
        "index": "1",
        "turn": "urn:trails:session:s",
        "text": "Hello",
        "key": "urn:trails:meta:team",
    }
    refused = {}
    for query in client.get("/queries", headers={"Accept": "application/json"}).json()["queries"]:
        given = {each["name"]: values.get(each["name"], "1") for each in query["parameters"] if not each["optional"]}
        answer = client.get(f"/queries/{query['name']}", params=given)
        if answer.status_code != 200:
            refused[query["name"]] = answer.text
    assert refused == {}


def test_a_page_of_another_site_asks_only_if_that_site_is_allowed(store: Repository) -> None:
    site, form = "https://yasgui.example.org", {"query": "ASK { ?s ?p ?o }"}
    with _client(_filled(store), allowed_origins=(site,)) as client:
        asked = client.options("/sparql", headers={"Origin": site, "Access-Control-Request-Method": "POST"})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, site)
        answer = client.post("/sparql", data=form, headers={"Origin": site})
        assert (answer.json()["boolean"], answer.headers["access-control-allow-origin"]) == (True, site)
        refused = client.post("/sparql", data={"query": "ASK {"}, headers={"Origin": site})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (400, site)
        assert client.post("/sparql", data=form, headers={"Origin": "https://evil.example"}).status_code == 403
        assert client.post("/api/sessions", json={"id": "x"}, headers={"Origin": site}).status_code == 403
        assert "access-control-allow-origin" not in client.get("/api/sessions", headers={"Origin": site}).headers
    with _client(store) as client:
        assert client.post("/sparql", data=form, headers={"Origin": site}).status_code == 403
