"""Which graphs a query can read, by its text: never fewer than it does."""

from __future__ import annotations

import pytest

from trails.store.index.historical_store import graphs_of


@pytest.mark.parametrize(
    ("text", "graphs"),
    [
        ("SELECT * { ?s ?p ?o }", []),
        ("SELECT * { GRAPH <urn:a> { ?s ?p ?o } graph <urn:b> { ?s ?p ?o } }", ["urn:a", "urn:b"]),
        ('SELECT * { ?s ?p "GRAPH ?g {" } # GRAPH ?g { }', []),
        ("SELECT * { ?s prov:wasDerivedFrom <urn:GRAPH> . ?graph a ?from }", []),
        ("SELECT * { VALUES ?g { <urn:a> } { SELECT * { VALUES ?g { <urn:b> } GRAPH ?g { ?s ?p ?o } } } }", ["urn:b"]),
    ],
)
def test_what_is_plain_is_told(text: str, graphs: list[str]) -> None:
    assert graphs_of(text) == graphs


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { GRAPH ?g { ?s ?p ?o } }",
        "SELECT * { GRAPH a:b { ?s ?p ?o } }",
        "SELECT * { GRAPH:b { ?s ?p ?o } }",
        "SELECT * { VALUES ?g { <urn:a> } OPTIONAL { GRAPH ?g { ?s ?p ?o } } }",
        "SELECT * { VALUES ?g { UNDEF } GRAPH ?g { ?s ?p ?o } }",
        "SELECT * { VALUES (?g ?h) { (<urn:a> 1) } GRAPH ?g { ?s ?p ?o } }",
        "SELECT * { VALUES ?g { <urn:a> } GRAPH ?h { ?s ?p ?o } }",
        "SELECT * FROM <urn:a> { ?s ?p ?o }",
        "SELECT * FROM NAMED <urn:a> { ?s ?p ?o }",
        "SELECT * { FILTER(?x<1)GRAPH ?g { ?s ?p ?o } }",
        "SELECT * { ?s ?p 1e5GRAPH ?g { ?s ?p ?o } }",
        r"SELECT * { \u0047RAPH ?g { ?s ?p ?o } }",
        "SELECT * { ?s ?p 'it does not end } GRAPH ?g { ?s ?p ?o }",
        "SELECT * { GRAPH",
        "GRAPH <urn:a>",
    ],
)
def test_what_is_not_plain_is_all_graphs(text: str) -> None:
    assert graphs_of(text) is None
