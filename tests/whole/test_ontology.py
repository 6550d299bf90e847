"""The ontology says what the package writes: no term more, no term less, and nothing that PROV-O does not know."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pyoxigraph as ox
import pytest
from rdflib import DCTERMS, OWL, RDF, RDFS, SDO, SKOS, VANN, XSD, BNode, Graph, Literal, URIRef
from rdflib.term import Node

import trails
from ontology.generate import load_ontology
from tests.support.everything import everything
from trails.rdf import query_files, vocab
from trails.rdf.derived_quads import DERIVED

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


ONTOLOGY = load_ontology()
PROPERTIES = {term.iri: term for term in ONTOLOGY.terms if term.kind.endswith("property") and not term.inverse_of}
INVERSES = {URIRef(term.iri): term for term in ONTOLOGY.inverses()}


def ontology_file() -> Path:
    return query_files.folder().parent / "ontology" / "trails.ttl"


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
    assert set(DEFINED) - set(INVERSES) == written()


def test_a_name_of_an_inverse_turns_the_ends_of_its_property_round_and_no_store_writes_it() -> None:
    assert {str(iri).removeprefix(vocab.TRAILS): term.inverse_of for iri, term in INVERSES.items()} == {
        name: vocab.TRAILS + of
        for name, of in (
            ("answeredBy", "answers"),
            ("artifact", "artifactOf"),
            ("closedBy", "closes"),
            ("delivery", "deliveryOf"),
            ("fork", "parentSession"),
            ("move", "moveOf"),
            ("nextTurn", "previousTurn"),
            ("note", "noteOn"),
            ("prompt", "promptOf"),
            ("resultOf", "toolResult"),
            ("runTurn", "inRun"),
            ("score", "scored"),
            ("spawned", "spawnedBy"),
            ("tag", "tagOf"),
        )
    }
    for term in INVERSES.values():
        turned = PROPERTIES[term.inverse_of or ""]
        assert (set(term.domains), set(term.ranges)) == (set(turned.ranges), set(turned.domains)), term.name
        assert f"^trails:{turned.name}." in term.comment
    assert set(INVERSES) & written() == set()


EXAMPLES = {node: str(text) for node, text in ontology().subject_objects(SKOS.example) if isinstance(node, URIRef)}


def test_the_main_terms_have_an_example() -> None:
    names = {str(node).removeprefix(vocab.TRAILS) for node in EXAMPLES}
    assert names >= set(
        """
        Session Turn SummaryTurn Compaction ModelCall ToolCall ToolResult SystemPrompt Principal Agent Tool Tag Tombstone
        index role branch parentSession forkedAtIndex previousTurn spawnedBy model toolName answers
        """.split()  # noqa: SIM905 - shorter than a list
    )


@pytest.mark.parametrize("node", EXAMPLES)
def test_an_example_is_turtle_that_uses_its_term_and_keeps_to_domains_and_ranges(node: URIRef) -> None:
    graph = Graph()
    for prefix, namespace in vocab.PREFIXES.items():
        graph.bind(prefix, namespace)
    graph.parse(data="".join(f"@prefix {k}: <{v}> .\n" for k, v in vocab.PREFIXES.items()) + EXAMPLES[node])
    assert node in {*graph.predicates(), *graph.objects(None, RDF.type)}
    assert {term for triple in graph for term in triple if ours(term)} <= set(DEFINED)
    classes = {
        each: {above for name in graph.objects(each, RDF.type) for above in ONTOLOGY.over(str(name))}
        for each in graph.subjects()
    }
    for subject, predicate, value in graph:
        if ours(predicate):
            term = PROPERTIES[str(predicate)]
            assert classes[subject] & set(term.domains), predicate
            if isinstance(value, Literal):
                assert str(value.datatype or vocab.XSD + "string") in term.ranges, predicate
            else:
                assert not term.ranges or value not in classes or classes[value] & set(term.ranges), predicate


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
        assert kinds - {OWL.FunctionalProperty} in ({OWL.ObjectProperty}, {OWL.DatatypeProperty})


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
        ("Tool", "SoftwareAgent"),
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


@pytest.fixture(scope="module")
def quads() -> list[ox.Quad]:
    """All that a store with everything in it holds."""
    with trails.open(":memory:") as store:
        everything(store)
        return store.store.quads((None, None, None, None))


@pytest.fixture(scope="module")
def types(quads: list[ox.Quad]) -> dict[str, set[str]]:
    """The classes of each node, with those above them."""
    found: dict[str, set[str]] = defaultdict(set)
    for quad in quads:
        if quad.predicate == vocab.TYPE:
            found[str(quad.subject)] |= ONTOLOGY.over(quad.object.value)  # type: ignore[union-attr] # classes are IRIs
    return found


@pytest.mark.slow
def test_what_is_written_keeps_to_the_domains_and_ranges(quads: list[ox.Quad], types: dict[str, set[str]]) -> None:
    seen: set[str] = set()
    for quad in quads:
        term = PROPERTIES.get(quad.predicate.value)
        if term is None:
            continue
        seen.add(term.name)
        assert types[str(quad.subject)] & set(term.domains), quad
        if isinstance(quad.object, ox.Literal):
            assert term.kind == "datatype property", quad
            assert quad.object.datatype.value in {*term.ranges, vocab.REDACTED.value}, quad
            assert quad.object.datatype != vocab.REDACTED or vocab.REDACTED.value in term.ranges, quad
        else:
            assert term.kind == "object property", quad
            left = str(quad.object) not in types  # what was deleted, or is not made yet
            assert left or not term.ranges or types[str(quad.object)] & set(term.ranges), quad
    exported = (vocab.EVIDENCE, vocab.EVIDENCE_SOURCE, vocab.EVIDENCE_FILE, vocab.EVIDENCE_RULE)  # in PROV files alone
    constructed = (vocab.CONTEXT_END, vocab.IN_RUN, *DERIVED)
    unwritten = {
        vocab.PENDING_SWEEP.value,
        vocab.PENDING_KEY.value,
        vocab.ENCRYPTION.value,  # in stores with keys alone
        *(node.value for node in (*exported, *constructed)),
        *(node.value for node in vocab.ENTRY_FIELDS.values()),
    }
    assert {term.name for term in PROPERTIES.values() if term.iri not in unwritten} - seen == set()


def test_the_words_of_python_for_a_fork_are_the_stored_properties_and_stand_before_them() -> None:
    for word, stored in (("parent_session_id", "parentSession"), ("forked_at_index", "forkedAtIndex")):
        here, there = URIRef(vocab.TRAILS + word), URIRef(vocab.TRAILS + stored)
        assert ontology().value(here, OWL.equivalentProperty) == there
        assert set(ontology().objects(here, RDF.type)) == set(ontology().objects(there, RDF.type))
        for said in (RDFS.domain, RDFS.range, RDFS.subPropertyOf):
            assert ontology().value(here, said) == ontology().value(there, said)
        text = ontology_file().read_text("utf-8")
        assert 0 < text.index(f"trails:{word} a ") < text.index(f"trails:{stored} a ")
    assert (URIRef(vocab.BRANCH.value), RDF.type, OWL.DatatypeProperty) in ontology()  # is that word as it stands


def test_what_has_one_value_by_the_ontology_has_one_in_a_store(quads: list[ox.Quad]) -> None:
    counts = Counter((str(quad.subject), quad.predicate.value) for quad in quads)
    several = {predicate for (_, predicate), count in counts.items() if count > 1 and predicate in PROPERTIES}
    assert [iri for iri in several if PROPERTIES[iri].functional] == []
    assert {PROPERTIES[iri].name for iri in several} >= {"sourceId", "memoryId"}


def test_what_everything_of_a_class_has_one_of_is_in_a_store_once(
    quads: list[ox.Quad], types: dict[str, set[str]]
) -> None:
    counts = Counter((str(quad.subject), quad.predicate.value) for quad in quads)
    for term in ONTOLOGY.of("class"):
        for node in [node for node, classes in types.items() if term.iri in classes]:
            assert {iri: counts[node, iri] for iri in term.one_of} == dict.fromkeys(term.one_of, 1), node


def test_nothing_in_a_store_is_of_two_classes_that_are_disjoint(types: dict[str, set[str]]) -> None:
    assert ONTOLOGY.disjoint
    for node, classes in types.items():
        for apart in ONTOLOGY.disjoint:
            assert len(classes & apart) < 2, (node, classes & apart)


def test_every_property_has_a_domain_and_a_range_and_every_edge_a_property_of_prov_o_above_it() -> None:
    assert [term.name for term in PROPERTIES.values() if not term.domains] == []
    assert [term.name for term in PROPERTIES.values() if not term.ranges] == []
    for term in (*ONTOLOGY.of("object property"), *INVERSES.values()):
        assert any(iri.startswith(vocab.PROV) for iri in ONTOLOGY.over(term.iri)), term.name


def test_every_class_has_a_class_of_prov_o_above_it() -> None:
    for term in ONTOLOGY.of("class"):
        assert any(iri.startswith(vocab.PROV) for iri in ONTOLOGY.over(term.iri)), term.name


def test_every_term_says_which_ontology_defines_it() -> None:
    about = URIRef("https://w3id.org/trails")
    assert {term.iri for term in ONTOLOGY.terms} == {str(term) for term in DEFINED}
    assert set(ontology().objects(None, RDFS.isDefinedBy)) == {about}


def test_the_ontology_says_its_version_its_licence_who_made_it_and_what_it_builds_on() -> None:
    about = URIRef("https://w3id.org/trails")
    assert ontology().value(about, OWL.versionInfo) == Literal(trails.__version__)
    assert ontology().value(about, OWL.versionIRI) == URIRef(f"{about}/{trails.__version__}")
    assert ontology().value(about, OWL.imports) == URIRef("http://www.w3.org/ns/prov-o")
    assert ontology().value(about, DCTERMS.license) == URIRef("https://www.apache.org/licenses/LICENSE-2.0")
    assert ontology().value(about, OWL.priorVersion) == URIRef(f"{about}/0.1.0")
    assert ontology().value(about, DCTERMS.creator) == Literal("The authors of Trails", lang="en")
    assert ontology().value(about, DCTERMS.created) == Literal("2026-11-21", datatype=XSD.date)
    modified = ontology().value(about, DCTERMS.modified)
    assert isinstance(modified, Literal)
    assert modified.datatype == XSD.date
    assert str(modified) > "2026-11-21"
    assert f"version {trails.__version__}." in str(ontology().value(about, DCTERMS.bibliographicCitation))
    assert str(ontology().value(about, DCTERMS.description)).startswith("Terms for what software agents did")
    assert ontology().value(about, VANN.preferredNamespacePrefix) == Literal("trails")
    assert ontology().value(about, VANN.preferredNamespaceUri) == Literal(vocab.TRAILS)
    assert (RDF.JSON, RDF.type, RDFS.Datatype) in ontology()


def test_the_alignments_map_terms_that_there_are_and_claim_nothing_of_data() -> None:
    graph = Graph().parse(ontology_file().with_name("alignments.ttl"), format="turtle")
    mapped = {term for term in graph.subjects() if ours(term)}
    assert mapped - set(DEFINED) == set()
    about = {predicate for term in mapped for predicate in graph.predicates(term)}
    assert about <= {
        SKOS.exactMatch,
        SKOS.closeMatch,
        SKOS.broadMatch,
        SKOS.narrowMatch,
        SKOS.relatedMatch,
        SKOS.notation,
    }
    others = {str(term).rpartition("#")[0] or str(term).rpartition("/")[0] for term in _objects_of(graph, mapped)}
    assert others == {
        "http://rdfs.org/sioc/ns",
        "https://schema.org",
        "https://www.w3.org/ns/activitystreams",
        "http://purl.dataone.org/provone/2015/01/15/ontology",
        "https://w3id.org/security",
        "http://purl.org/net/p-plan",
        "http://purl.org/net/opmv/ns",
    }
    notations = {term.datatype for term in graph.objects(None, SKOS.notation) if isinstance(term, Literal)}
    assert notations == {URIRef(f"https://w3id.org/trails/notation/{name}") for name in ("opentelemetry", "prov-agent")}


def test_the_alignments_name_terms_that_the_others_have_classes_for_classes_and_properties_for_properties() -> None:
    graph = Graph().parse(ontology_file().with_name("alignments.ttl"), format="turtle")
    known = {
        # as the published files of the vocabularies have them
        "http://rdfs.org/sioc/ns#": {"Thread", "Item", "Container", "UserAccount"},
        "https://www.w3.org/ns/activitystreams#": (
            {"OrderedCollection", "Object", "Tombstone", "Person", "Organization", "Application", "Delete", "Move"}
            | {"name", "result", "url"}
        ),
        "http://purl.dataone.org/provone/2015/01/15/ontology#": {"User", "Execution", "Data"},
        "http://purl.org/net/p-plan#": {"Activity", "Bundle", "Entity", "MultiStep", "Plan", "Step", "Variable"},
        "http://purl.org/net/opmv/ns#": (
            {"Artifact", "Process", "Agent", "used", "wasGeneratedBy", "wasDerivedFrom", "wasTriggeredBy"}
            | {"wasControlledBy"}
        ),
        "https://w3id.org/security#": {"DataIntegrityProof", "proofValue", "verificationMethod"},
    }
    for term in {term for term in graph.subjects() if ours(term)}:
        for other in _objects_of(graph, {term}):
            space, name = next(
                ((each, str(other)[len(each) :]) for each in (*known, str(SDO)) if str(other).startswith(each)),
                ("", ""),
            )
            assert name in known.get(space, SDO), other
            assert name[0].isupper() == str(term).removeprefix(vocab.TRAILS)[0].isupper(), (term, other)


def _objects_of(graph: Graph, terms_: set[Node]) -> set[Node]:
    return {each for term in terms_ for each in graph.objects(term) if isinstance(each, URIRef)}


def test_the_only_blank_nodes_are_unions_and_lists() -> None:
    for node in {node for triple in ontology() for node in triple if isinstance(node, BNode)}:
        said = set(ontology().predicates(node))
        restricts = said == {RDF.type, OWL.onProperty, OWL.cardinality}
        assert restricts or said & {OWL.unionOf, OWL.members} or {RDF.first, RDF.rest} <= said
