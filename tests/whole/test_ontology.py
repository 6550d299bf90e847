"""The ontology says what the package writes: no term more, no term less, and nothing that PROV-O does not know."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pyoxigraph as ox
import pytest
from rdflib import OWL, RDF, RDFS, BNode, Graph, URIRef

import trails
from tests.support.nine_sessions import fill
from trails import queries, vocab

# Classes and properties of PROV-O, from the tables of section 3 of https://www.w3.org/TR/2013/REC-prov-o-20130430/
PROV_O = frozenset(
    """
    Activity ActivityInfluence Agent AgentInfluence Association Attribution Bundle Collection Communication
    Delegation Derivation EmptyCollection End Entity EntityInfluence Generation Influence InstantaneousEvent
    Invalidation Location Organization Person Plan PrimarySource Quotation Revision Role SoftwareAgent Start
    Usage actedOnBehalfOf activity agent alternateOf atLocation atTime endedAtTime entity generated
    generatedAtTime hadActivity hadGeneration hadMember hadPlan hadPrimarySource hadRole hadUsage influenced
    influencer invalidated invalidatedAtTime qualifiedAssociation qualifiedAttribution qualifiedCommunication
    qualifiedDelegation qualifiedDerivation qualifiedEnd qualifiedGeneration qualifiedInfluence
    qualifiedInvalidation qualifiedPrimarySource qualifiedQuotation qualifiedRevision qualifiedStart
    qualifiedUsage specializationOf startedAtTime used value wasAssociatedWith wasAttributedTo wasDerivedFrom
    wasEndedBy wasGeneratedBy wasInfluencedBy wasInformedBy wasInvalidatedBy wasQuotedFrom wasRevisionOf
    wasStartedBy
    """.split()  # noqa: SIM905 - shorter than a list
)


def ontology_file() -> Path:
    return queries.folder().parent / "ontology" / "trails.ttl"


@cache
def ontology() -> Graph:
    return Graph().parse(ontology_file(), format="turtle")


def ours(term: object) -> bool:
    return isinstance(term, URIRef) and str(term).startswith(vocab.TRAILS)


def written() -> set[URIRef]:
    """The terms of our namespace that the code can write."""
    nodes = {URIRef(node.value) for node in vars(vocab).values() if isinstance(node, ox.NamedNode)}
    nodes |= {URIRef(node.value) for node in vocab.ENTRY_FIELDS.values()}
    return {node for node in nodes if ours(node)}


DEFINED = sorted(
    {subject for subject in ontology().subjects(RDF.type) if isinstance(subject, URIRef) and ours(subject)}
)


def test_every_term_that_is_written_is_defined_and_every_defined_term_is_written() -> None:
    assert set(DEFINED) == written()


@pytest.mark.parametrize("term", DEFINED)
def test_a_term_has_one_label_and_one_comment(term: URIRef) -> None:
    for annotation in (RDFS.label, RDFS.comment):
        values = list(ontology().objects(term, annotation))
        assert len(values) == 1
        assert str(values[0]).strip()
        assert values[0].language == "en"  # type: ignore[attr-defined] # a literal


@pytest.mark.parametrize("term", DEFINED)
def test_a_term_is_one_kind_of_thing_and_its_name_shows_which(term: URIRef) -> None:
    kinds = set(ontology().objects(term, RDF.type))
    name = str(term).removeprefix(vocab.TRAILS)
    if name[0].isupper():
        assert kinds in ({OWL.Class}, {RDFS.Datatype})
    else:
        assert kinds in ({OWL.ObjectProperty}, {OWL.DatatypeProperty})


def test_every_term_that_the_ontology_refers_to_is_defined() -> None:
    mentioned = {term for triple in ontology() for term in triple if ours(term)}
    assert mentioned == set(DEFINED)


def test_ontology_and_code_use_no_term_that_prov_o_lacks() -> None:
    in_code = {node.value for node in vars(vocab).values() if isinstance(node, ox.NamedNode)}
    in_ontology = {str(term) for triple in ontology() for term in triple if isinstance(term, URIRef)}
    used = {iri.removeprefix(vocab.PROV) for iri in in_code | in_ontology if iri.startswith(vocab.PROV)}
    assert used - PROV_O == set()
    assert {"Collection", "Bundle", "Plan", "SoftwareAgent", "wasDerivedFrom"} <= used


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("Session", "Collection"),
        ("Session", "Bundle"),
        ("Turn", "Entity"),
        ("SummaryTurn", "Entity"),
        ("ToolResult", "Entity"),
        ("Tombstone", "Entity"),
        ("ToolCall", "Activity"),
        ("ModelCall", "Activity"),
        ("Compaction", "Activity"),
        ("Deletion", "Activity"),
        ("Principal", "Agent"),
        ("Agent", "SoftwareAgent"),
        ("SystemPrompt", "Plan"),
        ("Ledger", "Bundle"),
        ("Event", "Entity"),
        ("Exchange", "Activity"),
        ("Delivery", "Entity"),
    ],
)
def test_a_class_stands_under_the_class_of_prov_o_that_it_is(name: str, above: str) -> None:
    chain = ontology().transitive_objects(URIRef(vocab.TRAILS + name), RDFS.subClassOf)
    assert URIRef(vocab.PROV + above) in set(chain)


@pytest.mark.parametrize(
    ("name", "above"),
    [("parentSession", "wasDerivedFrom"), ("spawnedBy", "wasInfluencedBy"), ("answers", "wasGeneratedBy")],
)
def test_an_edge_stands_under_the_edge_of_prov_o_that_it_is(name: str, above: str) -> None:
    assert (URIRef(vocab.TRAILS + name), RDFS.subPropertyOf, URIRef(vocab.PROV + above)) in ontology()


def test_what_is_written_keeps_to_the_domains_and_ranges() -> None:
    with trails.open(":memory:") as store:
        fill(store)
        quads = store.store.quads((None, None, None, None))
    types: dict[str, set[URIRef]] = defaultdict(set)
    for quad in quads:
        if quad.predicate == vocab.TYPE:
            kind = URIRef(quad.object.value)  # type: ignore[union-attr] # classes are IRIs
            types[str(quad.subject)] |= {kind, *ontology().objects(kind, RDFS.subClassOf)}  # type: ignore[arg-type] # IRIs
    seen: set[str] = set()
    for quad in quads:
        term = URIRef(quad.predicate.value)
        if not ours(term):
            continue
        seen.add(quad.predicate.value.removeprefix(vocab.TRAILS))
        domain, range_ = ontology().value(term, RDFS.domain), ontology().value(term, RDFS.range)
        assert domain is None or domain in types[str(quad.subject)], quad
        if isinstance(quad.object, ox.Literal):
            assert (term, RDF.type, OWL.DatatypeProperty) in ontology(), quad
            assert range_ is None or str(range_) == quad.object.datatype.value, quad
        else:
            assert (term, RDF.type, OWL.ObjectProperty) in ontology(), quad
            assert range_ in types[str(quad.object)], quad
    assert {"index", "digest", "toolName", "answers", "inputTokens", "cost", "promptOf", "summarisedThrough"} <= seen


def test_the_ontology_has_no_blank_nodes() -> None:
    assert not [triple for triple in ontology() if any(isinstance(term, BNode) for term in triple)]
