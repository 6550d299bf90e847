"""The alignments with P-Plan and the Open Provenance Model: what a reasoner concludes by them, and that it agrees with PROV-O."""

from __future__ import annotations

from functools import cache

import pytest
from rdflib import OWL, PROV, RDF, RDFS, SKOS, Graph, Namespace, URIRef
from rdflib.term import Node

from ontology.generate import load_ontology
from trails.provenance.ontology import ontology_folder
from trails.rdf import vocab

owlrl = pytest.importorskip("owlrl", reason="owlrl is not installed: it comes with pySHACL")
OPMV, P_PLAN = Namespace("http://purl.org/net/opmv/ns#"), Namespace("http://purl.org/net/p-plan#")
TRAILS = Namespace(vocab.TRAILS)
THING = Namespace("urn:t:")

# the ends of OPM's edges (http://purl.org/net/opmv/ns-20101006) and what P-Plan says of its classes (version 1.3)
OTHERS = """
@prefix opmv: <http://purl.org/net/opmv/ns#> .
@prefix p-plan: <http://purl.org/net/p-plan#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
opmv:used rdfs:domain opmv:Process ; rdfs:range opmv:Artifact .
opmv:wasGeneratedBy rdfs:domain opmv:Artifact ; rdfs:range opmv:Process .
opmv:wasDerivedFrom rdfs:domain opmv:Artifact ; rdfs:range opmv:Artifact .
opmv:wasTriggeredBy rdfs:domain opmv:Process ; rdfs:range opmv:Process .
opmv:wasControlledBy rdfs:domain opmv:Process ; rdfs:range opmv:Agent .
p-plan:Activity rdfs:subClassOf prov:Activity .
p-plan:Entity rdfs:subClassOf prov:Entity .
p-plan:Plan rdfs:subClassOf p-plan:Entity, prov:Plan .
"""
DATA = """
@prefix trails: <https://w3id.org/trails#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix t: <urn:t:> .
t:answer a trails:ToolResult ; trails:answers t:search ; trails:tool t:tool .
t:asked a trails:ModelCall ; trails:usedPrompt t:prompt .
t:again a trails:Exchange ; trails:retryOf t:first .
t:work a trails:Run ; prov:used t:told .
t:told a trails:ContextSummary .
t:turn a trails:SummaryTurn ; prov:wasAttributedTo t:planner .
t:planner a trails:Agent .
"""
KINDS = (OPMV.Artifact, OPMV.Process, OPMV.Agent)
IN_PROV: dict[Node, URIRef] = {
    OPMV.Artifact: PROV.Entity,
    OPMV.Process: PROV.Activity,
    OPMV.Agent: PROV.Agent,
    OPMV.used: PROV.used,
    OPMV.wasGeneratedBy: PROV.wasGeneratedBy,
    OPMV.wasTriggeredBy: PROV.wasInformedBy,
    P_PLAN.Activity: PROV.Activity,
    P_PLAN.Entity: PROV.Entity,
}


@cache
def alignments() -> Graph:
    return Graph().parse(ontology_folder() / "alignments.ttl", format="turtle")


def concluded(extra: str = "") -> Graph:
    """What follows by RDFS from the data, the ontology and the alignments, a wider match read as what stands above."""
    graph = Graph().parse(data=DATA + extra, format="turtle").parse(data=OTHERS, format="turtle")
    for triple in Graph().parse(ontology_folder() / "trails.ttl", format="turtle"):
        if triple[1] in (RDFS.subClassOf, RDFS.subPropertyOf) and isinstance(triple[2], URIRef):
            graph.add(triple)
    for term, other in alignments().subject_objects(SKOS.broadMatch):
        is_class = str(term).removeprefix(vocab.TRAILS)[0].isupper()
        graph.add((term, RDFS.subClassOf if is_class else RDFS.subPropertyOf, other))
    owlrl.DeductiveClosure(owlrl.RDFS_Semantics).expand(graph)
    return graph


def stands_in(node: Node, namespace: object) -> bool:
    return str(node).startswith(str(namespace))


def clashes(graph: Graph) -> set[Node]:
    """What is of two kinds of OPM at once, or an entity and an activity."""
    kinds = {node: set(graph.objects(node, RDF.type)) for node in graph.subjects(RDF.type) if stands_in(node, THING)}
    return {
        node for node, types in kinds.items() if len(types & set(KINDS)) > 1 or {PROV.Entity, PROV.Activity} <= types
    }


def test_a_reasoner_finds_the_artifacts_processes_and_agents_and_the_edges_between_them() -> None:
    graph = concluded()
    assert {node for node in graph.subjects(RDF.type, OPMV.Artifact) if stands_in(node, THING)} == {
        THING.answer,
        THING.prompt,
        THING.told,
        THING.turn,
    }
    assert {node for node in graph.subjects(RDF.type, OPMV.Process) if stands_in(node, THING)} == {
        THING.search,
        THING.asked,
        THING.again,
        THING.first,
        THING.work,
    }
    assert {node for node in graph.subjects(RDF.type, OPMV.Agent) if stands_in(node, THING)} == {THING.planner}
    assert set(graph.subject_objects(OPMV.wasGeneratedBy)) == {(THING.answer, THING.search)}
    assert set(graph.subject_objects(OPMV.used)) == {(THING.asked, THING.prompt)}
    assert set(graph.subject_objects(OPMV.wasTriggeredBy)) == {(THING.again, THING.first)}
    assert clashes(graph) == set()


def test_a_reasoner_finds_what_executes_a_step_and_what_went_into_it() -> None:
    graph = concluded()
    assert {node for node in graph.subjects(RDF.type, P_PLAN.Activity) if stands_in(node, THING)} == {THING.work}
    assert {node for node in graph.subjects(RDF.type, P_PLAN.Entity) if stands_in(node, THING)} == {THING.told}
    assert not set(graph.subjects(RDF.type, P_PLAN.Plan))
    assert (THING.work, RDF.type, PROV.Activity) in graph
    assert (THING.told, RDF.type, PROV.Entity) in graph


def test_the_clash_of_a_wrong_alignment_is_found() -> None:
    wrong = "trails:ToolCall <http://www.w3.org/2000/01/rdf-schema#subClassOf> <http://purl.org/net/opmv/ns#Artifact> ."
    assert clashes(concluded(wrong + " t:search a trails:ToolCall .")) == {THING.search}


@pytest.mark.parametrize("match", [SKOS.exactMatch, SKOS.broadMatch])
def test_what_is_wider_there_is_wider_in_prov_o_too(match: URIRef) -> None:
    ontology = load_ontology()
    pairs = [
        pair for pair in alignments().subject_objects(match) if stands_in(pair[1], OPMV) or stands_in(pair[1], P_PLAN)
    ]
    assert len(pairs) == (0 if match == SKOS.exactMatch else 20)  # by hand: 7 + 5 + 3 + 3 of OPM, 2 of P-Plan
    for term, other in pairs:
        assert str(IN_PROV[other]) in ontology.over(str(term)), (term, other)


def test_prov_o_s_own_terms_are_aligned_with_all_eight_of_opm() -> None:
    pairs = {(term, other) for term, _, other in alignments() if stands_in(term, vocab.PROV) and stands_in(other, OPMV)}
    names = {(str(term).rpartition("#")[2], str(other).rpartition("#")[2]) for term, other in pairs}
    assert names == {
        ("Entity", "Artifact"),
        ("Activity", "Process"),
        ("Agent", "Agent"),
        ("used", "used"),
        ("wasGeneratedBy", "wasGeneratedBy"),
        ("wasDerivedFrom", "wasDerivedFrom"),
        ("wasInformedBy", "wasTriggeredBy"),
        ("wasAssociatedWith", "wasControlledBy"),
    }
    assert OWL.equivalentClass not in set(alignments().predicates())
