"""Readers of PROV files: what the package `prov` writes, they read as `prov` itself does; what is hostile, they refuse."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable

import pytest
from prov.model import ProvDocument
from prov.tests import examples

from tests.support.prov_records import said_by, said_by_prov
from trails.errors import InvalidInput
from trails.provenance import Document, Statement, Value, validate
from trails.provenance.serializations import read_prov
from trails.provenance.statements import QUALIFIED_NAME

MADE: dict[str, Callable[[], ProvDocument]] = dict(examples.tests)
EX = "http://example.org/"


def statements(text: str | bytes, format: str) -> list[Statement]:  # noqa: A002
    return list(read_prov(text.encode() if isinstance(text, str) else text, format).bundles[0].statements)


def said(document: Document) -> Counter[object]:
    return Counter(said_by(bundle.name, each) for bundle in document.bundles for each in bundle.statements)


WRITTEN = [
    (name, form) for name in MADE for form in ("provn", "json", "jsonld") if (name, form) != ("Bundle2", "jsonld")
]
"""What `prov` can write: PROV-JSONLD has no mentions."""


@pytest.mark.parametrize(("name", "format_"), WRITTEN)
def test_a_document_that_prov_wrote_says_to_us_what_it_says_to_prov(name: str, format_: str) -> None:
    document = MADE[name]()
    out = io.StringIO()
    document.serialize(out, format=format_)
    theirs = ProvDocument.deserialize(io.StringIO(out.getvalue()), format=format_)
    assert said(read_prov(out.getvalue().encode(), format_)) == said_by_prov(theirs)


def test_all_of_the_grammar_of_provn_is_read() -> None:
    text = (
        r"""document
      default <http://example.org/>
      prefix ex <http://example.org/ns#> // a comment <not an iri>
      entity(e1, [prov:type='ex:T', ex:n=-7, ex:l="bon\"jour"@fr-CA, ex:d="1.5" %% xsd:double, ex:q="ex:v" %% xsd:QName])
      activity(ex:a\,1, 2026-01-01T00:00:00.5+01:00, -) /* another
      comment */
      used(ex:u; ex:a\,1, e1, -, [ex:long="""
        '"""two\nlines "quoted" """'
        r"""])
      wasGeneratedBy(-; e1, ex:a\,1, -)
      wasDerivedFrom(ex:e%20x, e1)
      bundle ex:b
        prefix other <http://other.example/>
        prov:mentionOf(other:x, e1, ex:b)
      endBundle
      ex:extension(ex:a; {("k", e1)}, 4)
    endDocument"""
    )
    document = read_prov(text.encode(), "provn")
    entity, activity, used, generated, derived, extension = document.bundles[0].statements
    ns = EX + "ns#"
    assert entity.attributes == (
        ("http://www.w3.org/ns/prov#type", Value(ns + "T", QUALIFIED_NAME)),
        (ns + "n", Value("-7", "http://www.w3.org/2001/XMLSchema#int")),
        (ns + "l", Value('bon"jour', "http://www.w3.org/ns/prov#InternationalizedString", "fr-CA")),
        (ns + "d", Value("1.5", "http://www.w3.org/2001/XMLSchema#double")),
        (ns + "q", Value(ns + "v", QUALIFIED_NAME)),
    )
    assert activity == Statement("activity", ns + "a,1", ("2026-01-01T00:00:00.5+01:00", None))
    assert used == Statement(
        "used", ns + "u", (ns + "a,1", EX + "e1", None), ((ns + "long", Value('two\nlines "quoted" ')),)
    )
    assert generated == Statement("wasGeneratedBy", None, (EX + "e1", ns + "a,1", None))
    assert derived == Statement("wasDerivedFrom", None, (ns + "e%20x", EX + "e1", None, None, None))
    assert extension.kind == ns + "extension"
    assert document.bundles[1].name == ns + "b"
    assert document.bundles[1].statements == [
        Statement("mentionOf", None, ("http://other.example/x", EX + "e1", ns + "b"))
    ]


def test_a_qualified_generation_in_rdf_is_one_statement_with_its_id_time_and_role() -> None:
    text = """@prefix prov: <http://www.w3.org/ns/prov#> . @prefix ex: <http://example.org/> .
      ex:e a prov:Entity ; prov:wasGeneratedBy ex:a ; prov:qualifiedGeneration ex:g .
      ex:g a prov:Generation ; prov:activity ex:a ; prov:hadRole ex:output ;
        prov:atTime "2026-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> ."""
    role = ("http://www.w3.org/ns/prov#role", Value(EX + "output", QUALIFIED_NAME))
    assert statements(text, "turtle") == [
        Statement("entity", EX + "e"),
        Statement("wasGeneratedBy", EX + "g", (EX + "e", EX + "a", "2026-01-01T00:00:00Z"), (role,)),
    ]


def test_a_qualified_derivation_in_rdf_keeps_its_activity_generation_and_usage() -> None:
    text = """@prefix prov: <http://www.w3.org/ns/prov#> . @prefix ex: <http://example.org/> .
      ex:e2 prov:qualifiedRevision [
        prov:entity ex:e1 ; prov:hadActivity ex:a ; prov:hadGeneration ex:g ; prov:hadUsage ex:u ] ."""
    revision = ("http://www.w3.org/ns/prov#type", Value("http://www.w3.org/ns/prov#Revision", QUALIFIED_NAME))
    wanted = (EX + "e2", EX + "e1", EX + "a", EX + "g", EX + "u")
    assert statements(text, "turtle") == [Statement("wasDerivedFrom", None, wanted, (revision,))]


def test_an_rdf_node_with_two_values_for_one_place_is_two_statements_of_one_id() -> None:
    text = """@prefix prov: <http://www.w3.org/ns/prov#> . @prefix ex: <http://example.org/> .
    ex:e prov:qualifiedGeneration ex:g . ex:g a prov:Generation ; prov:activity ex:a, ex:b .
    ex:a prov:startedAtTime "2011-01-01T00:00:00Z", "2012-01-01T00:00:00Z" ."""
    said = {(each.kind, each.id, each.arguments) for each in statements(text, "turtle")}
    assert {each for each in said if each[0] == "wasGeneratedBy"} == {
        ("wasGeneratedBy", EX + "g", (EX + "e", EX + "a", None)),
        ("wasGeneratedBy", EX + "g", (EX + "e", EX + "b", None)),
    }
    assert {each for each in said if each[1] == EX + "a"} == {
        ("activity", EX + "a", ("2011-01-01T00:00:00Z", None)),
        ("activity", EX + "a", ("2012-01-01T00:00:00Z", None)),
    }
    verdict = validate(text.encode(), format="turtle")
    assert {finding.constraint for finding in verdict.findings} == {22, 23}


def test_the_graphs_of_an_rdf_document_are_its_bundles() -> None:
    text = "@prefix prov: <http://www.w3.org/ns/prov#> . <urn:b> { <urn:e> a prov:Entity }"
    document = read_prov(text.encode(), "trig")
    assert [bundle.name for bundle in document.bundles] == [None, "urn:b"]
    assert document.bundles[1].statements == [Statement("entity", "urn:e")]


def test_a_membership_of_several_in_xml_is_a_statement_each_and_a_subtype_is_a_type() -> None:
    text = """<prov:document xmlns:prov="http://www.w3.org/ns/prov#" xmlns:ex="http://example.org/"
        xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
      <prov:collection prov:id="ex:c"><ex:n xsi:type="xsd:int">3</ex:n></prov:collection>
      <prov:hadMember><prov:collection prov:ref="ex:c"/>
        <prov:entity prov:ref="ex:1"/><prov:entity prov:ref="ex:2"/></prov:hadMember>
      <prov:activity prov:id="ex:a"><prov:startTime>2026-01-01T00:00:00Z</prov:startTime></prov:activity>
      <prov:other><anything><at all="1"/></anything></prov:other>
    </prov:document>"""
    collection = ("http://www.w3.org/ns/prov#type", Value("http://www.w3.org/ns/prov#Collection", QUALIFIED_NAME))
    count = (EX + "n", Value("3", "http://www.w3.org/2001/XMLSchema#int"))
    assert statements(text, "xml") == [
        Statement("entity", EX + "c", (), (collection, count)),
        Statement("hadMember", None, (EX + "c", EX + "1")),
        Statement("hadMember", None, (EX + "c", EX + "2")),
        Statement("activity", EX + "a", ("2026-01-01T00:00:00Z", None)),
    ]


HOSTILE: dict[str, tuple[str, str | bytes, str]] = {
    "entities": (
        "xml",
        '<!DOCTYPE d [<!ENTITY a "b">]><prov:document xmlns:prov="http://www.w3.org/ns/prov#"/>',
        "document type",
    ),
    "a deep element": (
        "xml",
        '<prov:document xmlns:prov="http://www.w3.org/ns/prov#"><prov:other>' + "<a>" * 100 + "</a>" * 100,
        "nested deeper than 64",
    ),
    "deep JSON": ("json", '{"entity": ' + "[" * 200_000 + "]" * 200_000 + "}", "cannot be read"),
    "a key twice": ("json", '{"entity": {"a:b": {}, "a:b": {}}}', "twice"),
    "NaN": ("json", '{"entity": NaN}', "NaN"),
    "a context to fetch": ("jsonld", '{"@context": ["http://evil.example/c"], "@graph": []}', "fetched"),
    "a context that is imported": (
        "jsonld",
        '{"@context": [{"@import": "http://evil.example/c"}], "@graph": []}',
        "fetched",
    ),
    "an encoding that nobody knows": ("xml", '<?xml version="1.0" encoding="bogus-9"?><d/>', "encoding"),
    "bytes that are no text": ("provn", b"document \xff endDocument", "not UTF-8"),
    "a prefix that is nowhere": ("provn", "document\nentity(ex:a)\nendDocument", "line 2"),
    "a statement that is none": ("provn", "document\n\nmadeUp(a)\nendDocument", "line 3"),
    "half an escape": ("provn", 'document default <urn:x:> entity(a, [b="\\ud800"]) endDocument', "no character"),
    "what is not closed": ("provn", "document entity(", "the end"),
    "a literal where a thing is": ("turtle", '<urn:e> <http://www.w3.org/ns/prov#wasGeneratedBy> "text" .', "literal"),
    "broken RDF": ("turtle", "<urn:e> <urn:p>", "Turtle"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused_and_the_error_says_where(name: str) -> None:
    format_, text, reason = HOSTILE[name]
    with pytest.raises(InvalidInput, match=reason):
        read_prov(text.encode() if isinstance(text, str) else text, format_)
