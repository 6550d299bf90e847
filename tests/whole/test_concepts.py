"""The concepts: one for each value of a closed list that the code has, with the literal that a store writes as its notation."""

from __future__ import annotations

from functools import cache
from typing import Final, get_args

import pyoxigraph as ox
import pytest
from rdflib import DCTERMS, RDF, SKOS, Graph, Literal, URIRef

import trails
from ontology.generate import load_ontology
from trails.model import validation, values
from trails.provenance.ontology import ontology_folder
from trails.rdf import ledger_records, register_records, subagent_records, vocab
from trails.runtime import tree_state

SPACE: Final = "https://w3id.org/trails/concepts#"
IN_CODE: Final = {
    "role": validation.KNOWN_ROLES,
    "kind": get_args(tree_state.Kind),
    "trigger": get_args(values.Trigger),
    "toolOutcome": get_args(values.ToolOutcome),
    "direction": ("inbound", "outbound"),
    "outcome": get_args(ledger_records.Outcome),
    "status": get_args(ledger_records.Status),
    "artifactChange": get_args(ledger_records.ArtifactChange),
    "runOutcome": get_args(subagent_records.RunStatus),
    "incidentKind": tuple(register_records.INCIDENT_DAYS),
    "legalBasis": tuple(register_records.LEGAL_BASES.values()),
}
COUNTS: Final = {
    "role": 12,
    "kind": 3,
    "trigger": 4,
    "toolOutcome": 5,
    "direction": 2,
    "outcome": 3,
    "status": 4,
    "artifactChange": 3,
    "runOutcome": 4,
    "incidentKind": 4,
    "legalBasis": 6,
}
"""How many values each has, counted by hand in the comments of the ontology."""


@cache
def concepts() -> Graph:
    return Graph().parse(ontology_folder() / "concepts.ttl", format="turtle")


def notations(scheme: str) -> list[str]:
    members = concepts().subjects(SKOS.inScheme, URIRef(SPACE + scheme))
    return [str(each) for member in members for each in concepts().objects(member, SKOS.notation)]


def test_there_is_a_scheme_for_each_property_with_a_closed_list_and_the_ontology_has_the_property() -> None:
    schemes = set(concepts().subjects(RDF.type, SKOS.ConceptScheme))
    assert schemes == {URIRef(SPACE + name) for name in IN_CODE}
    properties = {term.iri for term in load_ontology().of("datatype property")}
    for scheme in schemes:
        about = concepts().value(scheme, DCTERMS.subject)
        assert str(about) == str(scheme).replace(SPACE, vocab.TRAILS)
        assert str(about) in properties


@pytest.mark.parametrize("scheme", IN_CODE)
def test_the_notations_of_a_scheme_are_the_values_that_the_code_writes(scheme: str) -> None:
    assert sorted(notations(scheme)) == sorted(IN_CODE[scheme])
    assert len(notations(scheme)) == COUNTS[scheme]


def test_every_concept_is_in_one_scheme_and_has_a_label_and_a_definition_in_english() -> None:
    found = set(concepts().subjects(RDF.type, SKOS.Concept))
    assert len(found) == 50  # the sum of the counts above
    for concept in found:
        [scheme] = concepts().objects(concept, SKOS.inScheme)
        [notation] = concepts().objects(concept, SKOS.notation)
        assert str(concept) == f"{scheme}-{notation}"
        assert concepts().value(concept, SKOS.topConceptOf) == scheme
        for predicate in (SKOS.prefLabel, SKOS.definition):
            [text] = concepts().objects(concept, predicate)
            assert isinstance(text, Literal)
            assert text.language == "en"


def test_a_query_joins_the_roles_of_a_store_with_their_concepts() -> None:
    with trails.open(":memory:") as store:
        with store.create(id="plan", principal="alice") as plan:
            plan.append("user", "Plan a trip")
            plan.append("assistant", "Where to?")
            plan.append("game:narrator", "Nobody.")
        joined = ox.Store()
        joined.extend(ox.Quad(quad.subject, quad.predicate, quad.object) for quad in store.store.quads((None,) * 4))
        before = len(joined)
        joined.load(path=ontology_folder() / "concepts.ttl", format=ox.RdfFormat.TURTLE)
        rows = joined.query(
            "PREFIX trails: <https://w3id.org/trails#> PREFIX skos: <http://www.w3.org/2004/02/skos/core#> "
            "SELECT ?index ?label { ?turn trails:role ?role ; trails:index ?index . "
            "?concept skos:inScheme <https://w3id.org/trails/concepts#role> ; skos:notation ?role ; skos:prefLabel ?label } "
            "ORDER BY ?index"
        )
        assert [(row["index"].value, row["label"].value) for row in rows] == [("0", "user"), ("1", "assistant")]  # type: ignore[union-attr]
        assert before < len(joined)
        assert "skos" not in "".join(str(quad) for quad in store.store.quads((None,) * 4))
