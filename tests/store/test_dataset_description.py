"""A store as a dataset in VoID and DCAT: what is counted, what is said when it is told, and by the command."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from click.testing import CliRunner
from rdflib import DCAT, DCTERMS, FOAF, RDF, VOID, Graph, Literal, URIRef

import trails
from trails.cli import main
from trails.cli import options as cli
from trails.errors import InvalidInput
from trails.rdf.triple_formats import FORMATS
from trails.store.dataset_description import describe

STORE = URIRef("urn:trails:store")
LICENCE = "https://spdx.org/licenses/CC-BY-4.0"

# A session row is of 7 triples (class, principal, agent, branch, state, time, salt); a turn of 10 (two classes, index, role,
# branch, content, author, time, digest, salt); the principal and the agent have one each.
CLASSES = {"Session": 1, "Principal": 1, "Agent": 1, "Turn": 2, "Entity": 2}
PROPERTIES = {
    "type": 7,
    "wasAttributedTo": 3,
    "generatedAtTime": 3,
    "branch": 3,
    "agent": 1,
    "state": 1,
    "leafSalt": 1,
    "index": 2,
    "role": 2,
    "value": 2,
    "digest": 2,
    "salt": 2,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with (
        trails.open(tmp_path / "s.trails", create=True) as store,
        store.create(id="plan", principal="alice", agent="planner") as plan,
    ):
        plan.append("user", "Plan a trip")
        plan.append("assistant", "Where to?")
    return tmp_path / "s.trails"


def partitions(graph: Graph, part: URIRef, of: URIRef, counted: URIRef) -> dict[str, int]:
    nodes = graph.objects(STORE, part)
    return {str(graph.value(each, of)).rpartition("#")[2]: int(str(graph.value(each, counted))) for each in nodes}


def read(data: bytes, format_: str = "turtle") -> Graph:
    return Graph().parse(data=data, format=format_)


def test_classes_and_properties_are_counted_as_by_hand(place: Path) -> None:
    with trails.open(place) as store:
        graph = read(describe(store.store))
    assert partitions(graph, VOID.classPartition, VOID["class"], VOID.entities) == CLASSES
    assert partitions(graph, VOID.propertyPartition, VOID.property, VOID.triples) == PROPERTIES
    assert sum(PROPERTIES.values()) == 7 + 2 * 10 + 2 == 29
    assert graph.value(STORE, VOID.triples) == Literal(29)
    assert graph.value(STORE, VOID.entities) == Literal(1)
    assert set(graph.objects(STORE, RDF.type)) == {VOID.Dataset, DCAT.Dataset}


def test_licence_publisher_and_dumps_are_said_only_when_they_are_told(place: Path) -> None:
    with trails.open(place) as store:
        plain = read(describe(store.store))
        told = read(describe(store.store, licence=LICENCE, publisher="ACME", downloads=("https://example.org/all.nq",)))
    for predicate in (DCTERMS.license, DCTERMS.publisher, DCAT.distribution, VOID.dataDump):
        assert plain.value(STORE, predicate) is None
    assert told.value(STORE, DCTERMS.license) == URIRef(LICENCE)
    publisher = told.value(STORE, DCTERMS.publisher)
    assert told.value(publisher, FOAF.name) == Literal("ACME")
    distribution = told.value(STORE, DCAT.distribution)
    assert told.value(distribution, DCAT.downloadURL) == URIRef("https://example.org/all.nq")
    assert str(told.value(distribution, DCAT.mediaType)).endswith("/application/n-quads")


def test_what_is_no_iri_is_refused(place: Path) -> None:
    with trails.open(place) as store, pytest.raises(InvalidInput, match="the licence is named by an IRI"):
        describe(store.store, licence="CC BY")


def test_a_description_writes_nothing(place: Path) -> None:
    with trails.open(place) as store:
        before = sorted(map(str, store.store.quads((None,) * 4)))
        describe(store.store, licence=LICENCE, publisher="ACME")
        assert sorted(map(str, store.store.quads((None,) * 4))) == before


def test_the_command_describes_the_store(place: Path) -> None:
    arguments = ["info", "--store", str(place), "--format", "ntriples", "--publisher", "ACME"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    graph = read(result.stdout_bytes, "nt")
    assert partitions(graph, VOID.classPartition, VOID["class"], VOID.entities) == CLASSES
    refused = CliRunner().invoke(main, ["info", "--store", str(place), "--publisher", "ACME"])
    assert refused.exit_code == 2
    assert "--licence, --publisher and --download go with --format" in refused.output


def test_the_commands_name_the_formats_that_there_are() -> None:
    assert tuple(FORMATS) == cli.TRIPLE_FORMATS
    assert all(isinstance(each, ox.RdfFormat) for each in FORMATS.values())
