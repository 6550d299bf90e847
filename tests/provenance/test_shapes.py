"""Shapes, ontology and what is written agree; shapes find what does not belong, and what is made from the ontology is current."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from pyoxigraph import Literal, NamedNode, Quad
from rdflib import SH, Graph, URIRef

import trails
from ontology.generate import load_ontology, write_generated
from tests.support.everything import everything
from trails import TrailsError
from trails.provenance import ontology as shapes
from trails.rdf import vocab

SESSION = NamedNode("urn:trails:session:plan")


@pytest.fixture(scope="module")
def quads() -> list[Quad]:
    with trails.open(":memory:") as store:
        everything(store)
        return store.store.quads((None, None, None, None))


@pytest.fixture(scope="module")
def few() -> list[Quad]:
    """What a store with one session of two turns, a tool call and its answer holds."""
    with trails.open(":memory:") as store:
        plan = store.create(id="plan", principal="alice", agent="planner", system="Be brief.")
        plan.append("user", "Plan a trip")
        plan.append("assistant", "I look.", model="m", tool_calls=[{"id": "c1", "name": "weather", "arguments": {}}])
        plan.append("tool", "Snow", tool_call_id="c1")
        plan.persist()
        return store.store.quads((None, None, None, None))


@pytest.fixture
def shacl() -> Any:
    if os.environ.get("CI"):
        import_module("pyshacl")  # CI must have it
    return pytest.importorskip("pyshacl", reason="pySHACL is not installed (the extra `shacl`)")


def prefixed(name: str) -> NamedNode:
    return NamedNode(vocab.PREFIXES[name.partition(":")[0]] + name.partition(":")[2])


def subject_of(quads: list[Quad], name: str) -> Quad:
    """Return the first quad of a property."""
    return next(quad for quad in sorted(quads, key=str) if quad.predicate == prefixed(name))


# --- what is made


@pytest.mark.slow
def test_the_files_that_are_made_from_the_ontology_are_current(tmp_path: Path) -> None:
    write_generated(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"shapes.ttl", "README.md"}
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (shapes.ontology_folder() / path.name).read_bytes(), "run `make ontology`"


def test_every_property_and_every_class_has_a_shape() -> None:
    graph = Graph().parse(shapes.ontology_folder() / "shapes.ttl", format="turtle")
    ontology = load_ontology()
    properties = {term.iri for term in ontology.terms if term.kind.endswith("property") and not term.inverse_of}
    assert {str(each) for each in graph.objects(None, SH.targetSubjectsOf)} == properties
    edges = [term for term in ontology.of("object property") if term.ranges]
    assert edges
    assert all((URIRef(f"{shapes.NAMESPACE}{term.name}-class"), SH["in"], None) in graph for term in edges)
    assert {str(each) for each in graph.objects(None, SH.targetClass)} == {term.iri for term in ontology.of("class")}
    index = URIRef(shapes.NAMESPACE + "index-values")
    assert (index, SH.maxCount, None) in graph
    assert (URIRef(shapes.NAMESPACE + "sourceId-values"), SH.maxCount, None) not in graph


def test_the_page_names_every_term_once_and_every_link_in_it_leads_somewhere() -> None:
    page = (shapes.ontology_folder() / "README.md").read_text("utf-8")
    anchors = re.findall(r'<a id="(\w+)">', page)
    assert sorted(anchors) == sorted(term.name for term in load_ontology().terms)
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= set(anchors)
    for file in re.findall(r"\]\((\w+\.ttl)\)", page):
        assert (shapes.ontology_folder() / file).is_file()
    for words in ("```mermaid", "gen_ai.usage.output_tokens", "schema:Message", "# purpose: "):
        assert words in page


# --- what is checked


@pytest.mark.slow
def test_a_store_with_everything_in_it_keeps_to_the_shapes(shacl: Any, quads: list[Quad]) -> None:
    assert shapes.violations(quads) == ()


Fault = tuple[str, str, str, str | None]
FAULTS: list[Fault] = [
    ("take out", "trails:index", "Turn-index", None),
    ("take out", "trails:role", "Turn-role", None),
    ("take out", "prov:value", "Turn-value", None),
    ("take out", "trails:toolName", "ToolCall-toolName", None),
    ("take out", "trails:state", "Session-state", None),
    ("add", "trails:index", "index-values", "7"),
    ("add", "trails:digest", "digest-values", "other"),
    ("alter", "trails:index", "index-values", "first"),
    ("alter", "trails:role", "role-values", "5"),
    ("alter", "trails:toolResult", "toolResult-values", "a literal"),
    ("alter", "trails:agent", "agent-class", "the principal"),
    ("alter", "trails:answers", "answers-class", "the session"),
    ("move", "trails:toolResult", "toolResult", None),
    ("move", "trails:role", "role", None),
    ("type", "trails:Turn", "Session", None),
    ("type", "trails:Principal", "Agent", None),
]
"""What is done to the small store, the property or class that it is done with, the shape that finds it, the value then."""


VALUES: dict[str | None, NamedNode | Literal] = {
    "7": vocab.integer(7),
    "5": vocab.integer(5),
    "other": Literal("other"),
    "first": Literal("first"),
    "a literal": Literal("a literal"),
    "the principal": NamedNode("urn:trails:principal:alice"),
    "the session": SESSION,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]} {fault[1]}")
def test_a_planted_fault_is_found_by_the_shape_that_it_breaks(shacl: Any, few: list[Quad], fault: Fault) -> None:
    how, name, shape, value = fault
    where: NamedNode = SESSION
    if how == "type":
        where = NamedNode("urn:trails:agent:planner") if name == "trails:Principal" else SESSION
        changed = [*few, Quad(where, vocab.TYPE, prefixed(name))]
    else:
        quad = subject_of(few, name)
        where = quad.subject  # type: ignore[assignment] # an IRI
        rest = few if how == "add" else [each for each in few if each != quad]
        if how in ("add", "alter"):
            rest = [*rest, Quad(where, quad.predicate, VALUES[value], quad.graph_name)]
        elif how == "move":
            where = SESSION
            rest = [*rest, Quad(SESSION, quad.predicate, quad.object, quad.graph_name)]
        changed = list(rest)
    found = shapes.violations(changed)
    assert (shape, where.value) in {(each.shape, each.node) for each in found}
    assert all(each.message for each in found if each.shape == shape)


def test_a_literal_that_is_none_of_its_datatype_is_found_and_nothing_is_logged(
    shacl: Any, few: list[Quad], caplog: pytest.LogCaptureFixture
) -> None:
    wrong = Literal("not a time", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#dateTime"))
    (found,) = shapes.violations([*few, Quad(SESSION, vocab.ENDED_AT, wrong)])
    assert (found.shape, found.node, found.value) == ("lexical", SESSION.value, "not a time")
    assert caplog.records == []


def test_what_was_deleted_and_is_still_named_is_no_fault(shacl: Any, few: list[Quad]) -> None:
    call = subject_of(few, "trails:toolName").subject
    assert shapes.violations([quad for quad in few if quad.subject != call]) == ()


def test_without_pyshacl_the_error_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyshacl", None)
    with pytest.raises(TrailsError, match=r"trails\[shacl\]"):
        shapes.violations([ox.Quad(SESSION, vocab.TYPE, vocab.SESSION)])
