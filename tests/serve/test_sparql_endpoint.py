"""The SPARQL endpoint: the protocol, the formats, what a query may take, and clients that others wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox
import pytest
from pyoxigraph import NamedNode, Quad

from trails import Repository
from trails.store.contract import Change

pytest.importorskip("starlette")
pytest.importorskip("orjson")
httpx = pytest.importorskip("httpx")

from starlette.testclient import TestClient  # noqa: E402

from trails.serve.app import create_app  # noqa: E402
from trails.serve.service import Settings  # noqa: E402

if TYPE_CHECKING:
    from httpx import Response

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
                quad.object.value[-3]
                for quad in store.quads_for_pattern(response, NamedNode(f"{MF}expectedStatus"), None)
            },
            "boolean": one(response, f"{MF}expectedBoolean"),
            "format": one(response, f"{MF}expectedFormat"),
        }

    for test in listed(one(NamedNode("http://manifest/"), f"{MF}entries")):
        requests = one(one(test, f"{MF}action"), f"{HT}requests")
        yield test.value.rpartition("#")[2], [told(each) for each in listed(requests)]


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
    wrong, names = [], []
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
