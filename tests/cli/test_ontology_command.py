"""trails ontology: each file in each format, as another reader of RDF understands it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result
from rdflib import RDF, RDFS, Graph, Literal, URIRef
from rdflib.term import BNode

from trails.cli import main
from trails.provenance.ontology import ontology_folder

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated, use Dataset:DeprecationWarning")
"""rdflib's own readers of JSON-LD and N3 use what rdflib calls deprecated."""

READERS = {"turtle": "turtle", "ntriples": "nt", "jsonld": "json-ld", "rdfxml": "xml", "n3": "n3"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["ontology", *arguments])


def named(graph: Graph) -> set[tuple[object, ...]]:
    """The triples without blank nodes."""
    return {triple for triple in graph if not any(isinstance(each, BNode) for each in triple)}


@pytest.mark.parametrize("format_", READERS)
@pytest.mark.parametrize(
    ("file", "options"), [("trails.ttl", ()), ("alignments.ttl", ("--alignments",)), ("concepts.ttl", ("--concepts",))]
)
def test_every_format_says_what_the_file_says(file: str, options: tuple[str, ...], format_: str) -> None:
    printed = run("--format", format_, *options)
    assert printed.exit_code == 0, printed.output
    graph = Graph().parse(data=printed.stdout_bytes, format=READERS[format_])
    wanted = Graph().parse(ontology_folder() / file, format="turtle")
    assert len(graph) == len(wanted)
    assert named(graph) == named(wanted)


def test_one_term_by_hand_in_json_ld() -> None:
    graph = Graph().parse(data=run("--format", "jsonld").stdout_bytes, format="json-ld")
    index = URIRef("https://w3id.org/trails#index")
    assert graph.value(index, RDFS.label) == Literal("index", lang="en")
    assert graph.value(index, RDFS.range) == URIRef("http://www.w3.org/2001/XMLSchema#integer")


@pytest.mark.parametrize(
    ("options", "file"), [((), "trails.ttl"), (("--shapes",), "shapes.ttl"), (("--alignments",), "alignments.ttl")]
)
def test_turtle_is_the_file_to_the_byte(options: tuple[str, ...], file: str) -> None:
    assert run(*options).stdout_bytes == (ontology_folder() / file).read_bytes()


def test_the_shapes_are_shapes_in_n_triples() -> None:
    graph = Graph().parse(data=run("--shapes", "--format", "ntriples").stdout_bytes, format="nt")
    shape = URIRef("https://w3id.org/trails/shapes#index")
    assert (shape, RDF.type, URIRef("http://www.w3.org/ns/shacl#PropertyShape")) in graph


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shapes", "--alignments"), "--shapes, --alignments and --concepts exclude each other"),
        (("--format", "yaml"), "'yaml' is not one of 'turtle', 'ntriples', 'jsonld', 'rdfxml', 'n3'"),
    ],
)
def test_what_it_cannot_print_is_refused(options: tuple[str, ...], said: str) -> None:
    refused = run(*options)
    assert refused.exit_code == 2
    assert said in refused.output
