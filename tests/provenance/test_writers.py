"""What is written is what is read again, by us and by the package `prov`, less what each format cannot hold."""

from __future__ import annotations

import io
import json
import warnings
from collections import Counter
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prov.model import ProvDocument

from tests.support.histories import EX, History
from tests.support.prov_records import Said, prov_bytes, said_by, said_by_prov
from trails.errors import InvalidInput
from trails.provenance import Bundle, Document, Statement, Value
from trails.provenance.serializations import WRITERS, read_prov
from trails.provenance.statements import INTERNATIONALIZED, QUALIFIED_NAME
from trails.rdf import vocab

PROV = vocab.PROV
ALL = tuple(WRITERS)
BY_PROV = {"json": {"format": "json"}, "jsonld": {"format": "jsonld"}, "provn": {"format": "provn"}}
BY_PROV |= {"trig": {"format": "rdf", "rdf_format": "trig"}, "turtle": {"format": "rdf", "rdf_format": "turtle"}}
if find_spec("lxml") is not None:
    BY_PROV["xml"] = {"format": "xml"}

ATTRIBUTES = (
    (PROV + "type", Value(vocab.TRAILS + "Turn", QUALIFIED_NAME)),
    (PROV + "label", Value("bon jour", INTERNATIONALIZED, "fr")),
    (PROV + "location", Value(EX + "here", QUALIFIED_NAME)),
    (vocab.TRAILS + "index", Value("3", vocab.XSD + "integer")),
    (vocab.TRAILS + "isError", Value("false", vocab.XSD + "boolean")),
    (vocab.TRAILS + "role", Value('a "quoted"\n\\ text é \U0001f600')),
    (EX + "twice", Value("one")),
    (EX + "twice", Value("two")),
)
EVERYTHING = (
    Statement("entity", EX + "e1", (), ATTRIBUTES),
    Statement("entity", EX + "e2"),
    Statement("activity", EX + "a1", ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), ATTRIBUTES[3:5]),
    Statement("activity", EX + "a2", (None, None)),
    Statement("agent", EX + "ag", (), ((PROV + "type", Value(PROV + "Person", QUALIFIED_NAME)),)),
    Statement("agent", EX + "boss"),
    Statement("wasGeneratedBy", EX + "g", (EX + "e1", EX + "a1", "2026-01-01T12:00:00Z"), ATTRIBUTES[3:4]),
    Statement("wasGeneratedBy", None, (EX + "e2", EX + "a1", None)),
    Statement("used", EX + "u", (EX + "a2", EX + "e1", "2026-01-03T00:00:00Z")),
    Statement("wasInformedBy", None, (EX + "a2", EX + "a1"), ATTRIBUTES[6:]),
    Statement("wasStartedBy", EX + "s", (EX + "a2", EX + "e1", EX + "a1", "2026-01-03T00:00:00Z")),
    Statement("wasEndedBy", None, (EX + "a2", EX + "e1", None, None)),
    Statement("wasInvalidatedBy", EX + "i", (EX + "e1", EX + "a2", "2026-01-04T00:00:00Z")),
    Statement("wasDerivedFrom", EX + "d", (EX + "e2", EX + "e1", EX + "a1", EX + "g2", EX + "u2")),
    Statement("wasAttributedTo", None, (EX + "e1", EX + "ag"), ATTRIBUTES[3:4]),
    Statement("wasAssociatedWith", EX + "as", (EX + "a1", EX + "ag", EX + "e2")),
    Statement("actedOnBehalfOf", None, (EX + "ag", EX + "boss", EX + "a1")),
    Statement("wasInfluencedBy", None, (EX + "e2", EX + "boss")),
    Statement("alternateOf", None, (EX + "e1", EX + "e2")),
    Statement("specializationOf", None, (EX + "e1", EX + "e3")),
    Statement("hadMember", None, (EX + "e3", EX + "e2")),
)
DOCUMENT = Document([Bundle(None, EVERYTHING), Bundle("urn:trails:session:a%2Fb", EVERYTHING[:4])])


def said(document: Document) -> Counter[Said]:
    return Counter(said_by(bundle.name, each) for bundle in document.bundles for each in bundle.statements)


def flat(said_: Counter[Said]) -> set[tuple[str, str | None, tuple[Any, ...], frozenset[Any]]]:
    """Return what is said without the bundles that it is said in."""
    return {each[1:] for each in said_}


@pytest.mark.parametrize("format_", ALL)
def test_what_is_written_in_a_format_is_read_again(format_: str) -> None:
    again = read_prov(prov_bytes(DOCUMENT, format_), format_)
    if format_ == "turtle":  # has no bundles
        assert flat(said(again)) == flat(said(DOCUMENT))
    else:
        assert said(again) == said(DOCUMENT)


@pytest.mark.parametrize("format_", BY_PROV)
def test_prov_opens_what_is_written_and_finds_the_same_in_it(format_: str) -> None:
    text = io.StringIO(prov_bytes(DOCUMENT, format_).decode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of rdflib, in what `prov` calls
        theirs = said_by_prov(ProvDocument.deserialize(text, **BY_PROV[format_]))
    if format_ not in ("turtle", "trig"):
        assert theirs == said(DOCUMENT)
        return
    ours = flat(said(DOCUMENT))
    assert ours <= flat(theirs)
    # what has an id stands in PROV-O's short form too, which `prov` takes for a statement of its own
    pairs = {(kind, *arguments[:2]) for kind, id_, arguments, _ in ours if id_ is not None}
    for kind, id_, arguments, attributes in flat(theirs) - ours:
        assert (id_, attributes) == (None, frozenset())
        assert (kind, *arguments[:2]) in pairs


@pytest.mark.parametrize("format_", ALL)
@pytest.mark.parametrize("seed", range(3))
def test_a_history_survives_every_format(seed: int, format_: str) -> None:
    document = Document([Bundle(None, History(seed).statements)])
    again = said(read_prov(prov_bytes(document, format_), format_))
    # RDF has no second one of the same statement
    assert (again if format_ not in ("turtle", "trig") else set(again)) == (
        said(document) if format_ not in ("turtle", "trig") else set(said(document))
    )


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(ALL))
def test_any_text_survives_every_format(text: str, format_: str) -> None:
    document = Document([Bundle(None, [Statement("entity", EX + "e", (), ((EX + "said", Value(text)),))])])
    (again,) = read_prov(prov_bytes(document, format_), format_).bundles[0].statements
    wanted = text
    if format_ == "xml":  # XML 1.0 has no such characters
        wanted = "".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in text)
    assert again.attributes == ((EX + "said", Value(wanted)),)


@given(st.text(st.characters(codec="ascii", exclude_characters='<>"{}|^`\\ '), min_size=1).filter(str.isprintable))
def test_any_name_survives_provn(local: str) -> None:
    document = Document([Bundle(None, [Statement("entity", EX + local)])])
    percent = local.replace("%", "%25")  # an IRI has its percent signs encoded
    document = Document([Bundle(None, [Statement("entity", EX + percent)])])
    (again,) = read_prov(prov_bytes(document, "provn"), "provn").bundles[0].statements
    assert again.id == EX + percent


def test_jsonld_leaves_mentions_out_and_all_else_keeps_them() -> None:
    mention = Statement("mentionOf", None, (EX + "e", EX + "f", EX + "b"))
    document = Document([Bundle(None, [mention])])
    for format_ in ALL:
        found = read_prov(prov_bytes(document, format_), format_).bundles[0].statements
        assert list(found) == ([] if format_ == "jsonld" else [mention])


def test_rdf_says_nothing_of_a_relation_whose_subject_is_missing() -> None:
    document = Document([Bundle(None, [Statement("wasInformedBy", None, (None, EX + "a"))])])
    with pytest.raises(InvalidInput, match="what it is about is missing"):
        prov_bytes(document, "trig")


def test_a_bundle_without_statements_is_left_out() -> None:
    document = Document([Bundle(None, []), Bundle("urn:b", []), Bundle("urn:c", EVERYTHING[:1])])
    for format_ in ("json", "jsonld", "provn", "xml", "trig"):
        assert [each.name for each in read_prov(prov_bytes(document, format_), format_).bundles] == [None, "urn:c"]


def test_statements_of_one_kind_with_one_id_stay_apart_in_json() -> None:
    times = (None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    odd = EX + 'a": {'
    same = [Statement("activity", name, (time, None)) for time in times for name in (EX + "a", odd, EX + f"b{time}")]
    document = Document([Bundle(None, same), Bundle("urn:b", same[:4]), Bundle("urn:c", same[:1])])
    data = prov_bytes(document, "json")
    assert said(read_prov(data, "json")) == said(document)
    plain = Document([Bundle(None, [each for each in same if each.id != odd])])
    theirs = ProvDocument.deserialize(io.StringIO(prov_bytes(plain, "json").decode()), format="json")
    assert said_by_prov(theirs) == said(plain)


def test_json_is_json_with_no_and_with_many_bundles() -> None:
    for names in ([], ["urn:a"], ["urn:a", "urn:b"]):
        document = Document([Bundle(name, EVERYTHING) for name in [None, *names]])
        for format_ in ("json", "jsonld"):
            assert json.loads(prov_bytes(document, format_))
