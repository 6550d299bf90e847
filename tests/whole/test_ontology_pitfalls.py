"""The ontology has none of the pitfalls of OOPS! that a machine finds offline; each check finds the one that it is for."""

from __future__ import annotations

from functools import cache

import pytest
from rdflib import Graph

from ontology.pitfalls import CHECKS, pitfalls, without_inverse
from trails.provenance.ontology import ontology_folder
from trails.rdf import vocab

HEAD = """
@prefix trails: <https://w3id.org/trails#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix dcterms: <http://purl.org/dc/terms/> .
@prefix vann: <http://purl.org/vocab/vann/> .
"""
ABOUT = "<https://w3id.org/trails>"
LICENCE = "<https://www.apache.org/licenses/LICENSE-2.0>"
NEW_CLASS = (
    'trails:{0} a owl:Class ; rdfs:label "{1}"@en ; rdfs:comment "Some new kind of a thing."@en ; '
    "rdfs:subClassOf prov:Entity ; owl:disjointWith trails:Turn ."
)
NEW_VALUE = (
    'trails:{0} a owl:DatatypeProperty ; rdfs:label "{1}"@en ; rdfs:comment "Some new value of a turn."@en ; '
    "rdfs:domain trails:Turn ; rdfs:range xsd:string ."
)


@cache
def ontology() -> Graph:
    return Graph().parse(ontology_folder() / "trails.ttl", format="turtle")


def changed(taken: str = "", given: str = "") -> Graph:
    """The ontology without some triples, and with others."""
    graph = Graph() + ontology()
    for triple in Graph().parse(data=HEAD + taken, format="turtle"):
        assert triple in graph, triple
        graph.remove(triple)
    return graph + Graph().parse(data=HEAD + given, format="turtle")


def found(graph: Graph, only: str | None = None) -> list[str]:
    return [each for each in pitfalls(graph, vocab.TRAILS) if only is None or each.startswith(only)]


@pytest.mark.slow
def test_the_ontology_has_no_pitfall() -> None:
    assert found(changed()) == []


MUTATIONS = {
    "P02": ("", NEW_CLASS.format("Talk", "Session"), "Session and Talk have the same label"),
    "P04": (
        "",
        'trails:Thing a owl:Class ; rdfs:label "thing"@en ; rdfs:comment "It stands alone."@en .',
        "Thing is related to nothing",
    ),
    "P05": (
        "trails:fork owl:inverseOf trails:parentSession .",
        "trails:note owl:inverseOf trails:parentSession .",
        "note is no inverse of parentSession: their ends differ",
    ),
    "P06": ("", "trails:Turn rdfs:subClassOf trails:SummaryTurn .", "Turn stands above itself"),
    "P08": (
        'trails:branch rdfs:label "branch"@en .',
        'trails:branch rdfs:label "branch" .',
        "branch has no rdfs:label",
    ),
    "P10": ("trails:UnfinishedCopy owl:disjointWith trails:Turn .", "", "UnfinishedCopy is disjoint with nothing"),
    "P11": ("trails:index rdfs:domain trails:Turn .", "", "index has no rdfs:domain"),
    "P19": ("", "trails:index rdfs:domain trails:Note .", "index has several of rdfs:domain"),
    "P20": (
        'trails:index rdfs:label "index"@en .',
        'trails:index rdfs:label "The place of a turn."@en .',
        "index has a label that reads as a comment: 'The place of a turn.'",
    ),
    "P22": ("", NEW_CLASS.format("odd_name", "odd name"), "odd_name is not named as others of its kind"),
    "P24": (
        "",
        "trails:Note owl:equivalentClass [ a owl:Class ; owl:unionOf ( trails:Tag trails:Note ) ] .",
        "Note is defined by itself",
    ),
    "P25": ("", "trails:nextTurn owl:inverseOf trails:nextTurn .", "nextTurn is its own inverse"),
    "P30": (
        "",
        NEW_VALUE.format("one", "one") + NEW_VALUE.format("other", "other"),
        "one and other have one comment, and are not said to be equivalent",
    ),
    "P31": ("", "trails:index owl:equivalentProperty trails:tagLength .", "index is no equivalent of tagLength"),
    "P34": ("", "trails:Note trails:unheardOf trails:Tag .", "unheardOf is used and has no type"),
    "P36": (
        f"{ABOUT} a owl:Ontology .",
        "<https://w3id.org/trails.ttl> a owl:Ontology .",
        "<https://w3id.org/trails.ttl> has a file's extension",
    ),
    "P38": (f"{ABOUT} a owl:Ontology .", "", "there are 0 of owl:Ontology"),
    "P39": (
        f'{ABOUT} vann:preferredNamespaceUri "https://w3id.org/trails#" .',
        f'{ABOUT} vann:preferredNamespaceUri "https://w3id.org/trails/" .',
        "<https://w3id.org/trails> names its namespace as ['https://w3id.org/trails/']",
    ),
    "P40": (
        "",
        "prov:Entity rdfs:subClassOf trails:Turn .",
        "<http://www.w3.org/ns/prov#Entity> is another one's, and is defined here",
    ),
    "P41": (
        f"{ABOUT} dcterms:license {LICENCE} .",
        f'{ABOUT} dcterms:license "Apache" .',
        "<https://w3id.org/trails> has no licence",
    ),
}


def test_every_check_has_a_change_of_the_ontology_that_it_finds() -> None:
    assert set(MUTATIONS) == set(CHECKS)


@pytest.mark.parametrize("number", MUTATIONS)
def test_a_pitfall_is_found_when_the_ontology_has_it(number: str) -> None:
    taken, given, finding = MUTATIONS[number]
    assert f"{number} {finding}" in found(changed(taken, given), number)


@pytest.mark.parametrize(
    ("given", "finding"),
    [
        ("trails:Note owl:equivalentClass trails:Score .", "P02 Note and Score are two classes for one thing"),
        ("trails:model rdfs:subPropertyOf trails:provider . trails:provider rdfs:subPropertyOf trails:model .", "P06"),
        ("trails:index rdfs:range xsd:string .", "P19 index has several of rdfs:range"),
        (NEW_VALUE.format("Odd", "odd"), "P22 Odd is not named as others of its kind"),
        (NEW_VALUE.format("odd_name", "odd name"), "P22 odd_name is not named as others of its kind"),
        ("trails:Turn owl:equivalentClass trails:SummaryTurn .", "P31 Turn is no equivalent of SummaryTurn"),
        ("trails:Note rdfs:subClassOf trails:Unheard .", "P34 Unheard is used and has no type"),
        ("<urn:other> a owl:Ontology .", "P38 there are 2 of owl:Ontology"),
    ],
)
def test_other_forms_of_a_pitfall_are_found_too(given: str, finding: str) -> None:
    assert any(each.startswith(finding) for each in found(changed(given=given)))


def test_what_is_no_pitfall_is_not_found() -> None:
    said = NEW_CLASS.format("Fine", "fine") + NEW_VALUE.format("fine", "fine value")
    assert found(changed(given=said)) == []


@pytest.mark.slow
def test_edges_without_an_inverse_are_reported_and_those_with_one_are_not() -> None:
    names = set(without_inverse(changed(), vocab.TRAILS))
    assert names >= {"agent", "approvedBy", "usedPrompt", "payloadBytes", "retryOf"}
    assert names.isdisjoint({"parentSession", "fork", "answers", "answeredBy", "previousTurn", "nextTurn"})
    lost = without_inverse(changed("trails:fork owl:inverseOf trails:parentSession ."), vocab.TRAILS)
    assert set(lost) - names == {"parentSession", "fork"}
