"""PROV documents of others: kept as they came, apart from all that Trails recorded, and seen when they are altered."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.everything import everything
from tests.support.histories import EX, History
from tests.support.prov_records import Said, prov_bytes, said_by
from trails import IntegrityError, InvalidInput, Repository
from trails.history.lookup import session_quads
from trails.model.values import VerifyReport
from trails.provenance import (
    Bundle,
    Document,
    ImportedDocument,
    delete_document,
    document_bytes,
    documents,
    export,
    import_document,
    read_document,
    validate,
)
from trails.provenance.serializations import WRITERS, read_prov
from trails.rdf import query_files, vocab
from trails.session.store_restore import load_dump
from trails.store import Change

SMALL = b"document prefix ex <http://example.org/> wasDerivedFrom(ex:chart, ex:table) endDocument"
WRONG = b"document prefix ex <http://example.org/> specializationOf(ex:a, ex:a) endDocument"


def said(document: Document) -> Counter[Said]:
    return Counter(said_by(bundle.name, each) for bundle in document.bundles for each in bundle.statements)


def of_documents(store: Repository) -> list[Quad]:
    """All quads that speak of a document, wherever they stand."""
    return [quad for quad in store.store.quads((None, None, None, None)) if "urn:trails:prov:" in str(quad)]


# --- what is kept


def test_a_file_is_kept_with_its_name_size_digest_and_who_brought_it(store: Repository, tmp_path: Path) -> None:
    file = tmp_path / "chart.provn"
    file.write_bytes(SMALL)
    made = import_document(store, file, by="alice")
    assert (made.name, made.size, made.format) == ("chart.provn", 87, "provn")
    assert made.sha256 == hashlib.sha256(SMALL).hexdigest()
    assert (made.by_iri, made.valid, made.broken, made.statements) == ("urn:trails:principal:alice", True, (), 1)
    assert made.iri == f"urn:trails:prov:{made.sha256}"
    assert documents(store) == [made]
    assert document_bytes(store, "chart.provn") == document_bytes(store, made.sha256[:8]) == SMALL
    assert store.verify().findings == ()


def test_what_it_says_stands_in_a_graph_of_its_own_and_in_one_for_each_bundle(store: Repository) -> None:
    text = SMALL.replace(b"endDocument", b"bundle ex:b used(ex:a, ex:table, -) endBundle endDocument")
    made = import_document(store, text, format="provn")
    rows = store.query(
        "SELECT ?g ?s ?p ?o { GRAPH ?g { ?s ?p ?o } VALUES ?p { prov:wasDerivedFrom prov:used } } ORDER BY ?p"
    )
    assert [list(row.values()) for row in rows.to_dicts()] == [  # type: ignore[union-attr] # a SELECT
        [f"{made.iri}/bundle/http%3A%2F%2Fexample.org%2Fb", EX + "a", vocab.PROV + "used", EX + "table"],
        [made.iri, EX + "chart", vocab.PROV + "wasDerivedFrom", EX + "table"],
    ]


@pytest.mark.parametrize("format_", WRITERS)
def test_a_document_comes_back_as_the_statements_that_went_in(memory: Repository, format_: str) -> None:
    bundles = [Bundle(None, History(1).statements), Bundle(EX + "b", History(2).statements)]
    data = prov_bytes(Document(bundles[: 1 if format_ == "turtle" else 2]), format_)
    made = import_document(memory, data, format=format_)
    assert document_bytes(memory, made.iri) == data
    assert said(read_document(memory, made.iri)) == said(read_prov(data, format_))
    for other in WRITERS:
        out = io.BytesIO()
        export(memory, out, format=other, session=made.iri)
        again, wanted = said(read_prov(out.getvalue(), other)), said(read_prov(data, format_))
        if other != "turtle":  # has no bundles: what is said of one thing in two is one there
            assert set(again) == set(wanted), other
    assert memory.verify().findings == ()


def test_what_the_engine_writes_in_its_own_way_comes_back_as_it_was(memory: Repository) -> None:
    text = b'document prefix ex <http://example.org/> entity(ex:e, [ex:n="01" %% xsd:int, ex:t="x\\u0000"]) endDocument'
    text = text.replace(b"\\u0000", "\u202eé".encode())
    made = import_document(memory, text, format="provn")
    assert said(read_document(memory, made.iri)) == said(read_prov(text, "provn"))
    assert memory.verify().findings == ()


@pytest.mark.slow
def test_a_large_file_is_kept_in_pieces(memory: Repository) -> None:
    long = b"x" * (7 << 20)
    text = SMALL.replace(b"endDocument", b'entity(ex:e, [ex:said="' + long + b'"]) endDocument')
    made = import_document(memory, text, format="provn")
    parts = memory.store.quads((None, vocab.FILE_PART, None, None))
    assert len(parts) == 3
    assert document_bytes(memory, made.iri) == text
    assert memory.verify().findings == ()
    memory.store.commit(Change(remove=parts[1:2]))
    with pytest.raises(IntegrityError, match="was altered"):
        document_bytes(memory, made.iri)


def test_the_same_file_again_adds_nothing(store: Repository) -> None:
    first = import_document(store, SMALL, format="provn", name="a", by="alice")
    before = len(store.store), len(store.store.log.lines())
    assert import_document(store, SMALL, format="provn", name="b", by="bob") == first
    assert (len(store.store), len(store.store.log.lines())) == before


def test_a_document_that_is_not_valid_is_refused_or_kept_with_the_verdict(store: Repository) -> None:
    with pytest.raises(InvalidInput, match=r"bad\.provn.*impossible-specialization-reflexive.*keep_invalid"):
        import_document(store, WRONG, format="provn", name="bad.provn")
    assert len(store.store) == 0
    made = import_document(store, WRONG, format="provn", keep_invalid=True)
    assert (made.valid, made.broken) == (False, ("impossible-specialization-reflexive",))
    assert documents(store) == [made]
    assert store.verify().findings == ()


def test_what_rdf_cannot_say_is_kept_in_the_file(memory: Repository) -> None:
    data = json.dumps({"wasInformedBy": {"_:i": {"prov:informant": "ex:a"}}, "prefix": {"ex": EX}}).encode()
    made = import_document(memory, data, format="json", keep_invalid=True)
    assert (made.valid, made.statements) == (False, 1)
    assert document_bytes(memory, made.iri) == data
    assert memory.verify().findings == ()


@pytest.mark.parametrize(
    ("data", "options", "reason"),
    [
        (b"no PROV at all", {"format": "provn"}, "PROV-N"),
        (SMALL, {}, "give their format"),
        (SMALL, {"format": "word"}, "no PROV format"),
        (SMALL, {"format": "provn", "name": "a\ud800"}, "name"),
        (b"", {"format": "provn"}, "PROV-N"),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_kept(
    memory: Repository, data: bytes, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        import_document(memory, data, **options)  # type: ignore[arg-type] # texts
    assert len(memory.store) == 0
    assert memory.store.log.lines() == []


def test_a_name_says_one_document_or_none(memory: Repository) -> None:
    for text in (SMALL, SMALL + b"\n"):
        import_document(memory, text, format="provn", name="same")
    for name, reason in (
        ("same", "says 2"),
        ("other", "there is no"),
        ("", "there is no"),
        ("urn:trails:prov:", "there is no"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            document_bytes(memory, name)


# --- apart from what Trails recorded

HOSTILE_HEAD = """@prefix prov: <http://www.w3.org/ns/prov#> . @prefix t: <https://w3id.org/trails#> .
@prefix s: <urn:trails:session:> . @prefix ex: <http://example.org/> ."""


def hostile(store: Repository) -> bytes:
    """A document that says, under other people's names and under ours, all that a store says of itself and more."""
    lines = [HOSTILE_HEAD]
    for quad in store.store.quads((None, None, None, None)):
        if quad.predicate == vocab.TYPE or isinstance(quad.object, NamedNode | Literal):
            lines.append(f"{quad.subject} {quad.predicate} {quad.object} .")
            lines.append(f"{quad.subject} a prov:Entity .")
            foreign = f"<http://example.org/{abs(hash(str(quad.subject)))}>"
            lines.append(f"{foreign} a prov:Entity ; {quad.predicate} {quad.object} .")
            if isinstance(quad.object, NamedNode):
                lines.append(f"{foreign} prov:wasDerivedFrom {quad.object} ; prov:wasQuotedFrom {quad.object} .")
                lines.append(f"{quad.object} prov:wasDerivedFrom {foreign} ; prov:wasAttributedTo ex:eve .")
    lines.append(
        'ex:turn a t:Turn, prov:Entity ; t:index 0 ; t:role "user" ; prov:value "Forged" ; prov:wasGeneratedBy ex:c .'
    )
    lines.append(
        's:plan a t:Session, prov:Entity ; t:label "Forged" . ex:c a t:ModelCall, prov:Activity ; t:model "forged" .'
    )
    lines.append("<urn:trails:prov:" + "0" * 64 + "> a t:ProvDocument, prov:Entity .")
    return "\n".join(lines).encode()


OF_QUADS = {"graphs", "subjects", "quad_count", "distinct_triples", "prov_catalog", "prov_pairs", "triples"}
OF_QUADS |= {"graph", "graph_exists", "void", "void_partitions"}  # of a graph as such, and of the dataset


def answers(store: Repository) -> dict[str, list[str]]:
    """What every query of the catalogue and of the package says, with the parameters that stand in its file."""
    found = {}
    for name, query in query_files.load_all().items():
        if name in OF_QUADS or name.startswith("mirror_"):
            continue  # they tell of quads and graphs as such, and of the document's own record
        text = query.text.replace("urn:trails:session:demo", "urn:trails:session:plan")
        answer = store.store.query(text)
        found[name] = sorted(map(str, answer)) if not isinstance(answer, bool) else [str(answer)]
    return found


def recorded_by_trails(store: Repository) -> dict[str, bytes]:
    out = {}
    for format_ in ("provn", "trig"):
        data = io.BytesIO()
        export(store, data, format=format_, session="plan")
        out[format_] = data.getvalue()
    return out


def grown_by(report: VerifyReport, lines: int) -> VerifyReport:
    """The report of a store in which a document came, or came and went: it counts its record and the log's lines."""
    return report.model_copy(update={"records": report.records + 1, "log_lines": report.log_lines + lines})


@pytest.mark.slow
def test_no_query_no_export_and_no_check_takes_a_document_for_what_was_recorded(memory: Repository) -> None:
    store = memory
    everything(store)
    import_document(store, SMALL, format="provn", by="dave")  # so that whoever brings the hostile one is known
    text = hostile(store)
    before = answers(store), recorded_by_trails(store), validate(store), session_quads.scan_sessions(store.workspace)
    info, texts = store.info(), [hit.snippet for hit in store.search("trip")]
    verified = store.verify()
    sessions = {record.id: store.replay(record.id) for record in store.list(limit=1000)}
    made = import_document(store, text, format="turtle", by="dave", keep_invalid=True)
    assert made.statements > 1000
    after = answers(store)
    assert {name for name in after if after[name] != before[0][name]} == set()
    assert recorded_by_trails(store) == before[1]
    found = validate(store)
    assert list(found.findings) == list(before[2].findings) == []
    # that there is a document, who brought it and when, is our own
    assert found.statements == before[2].statements + 3
    assert {record.id: store.replay(record.id) for record in store.list(limit=1000)} == sessions
    assert [hit.snippet for hit in store.search("trip")] == texts
    assert {**store.info(), "quads": 0} == {**info, "quads": 0}
    assert store.verify() == grown_by(verified, 1)
    assert session_quads.scan_sessions(store.workspace) == before[3]
    whole = io.BytesIO()
    export(store, whole, format="provn")
    assert b"Forged" not in whole.getvalue()
    assert b"example.org/turn" not in whole.getvalue()
    delete_document(store, made.iri, by="dave")
    left = answers(store)
    assert len(left.pop("removals")) == len(before[0].pop("removals")) + 1
    assert left == before[0]
    assert store.verify() == grown_by(verified, 2)


@pytest.mark.slow
def test_nothing_in_the_graphs_of_a_document_is_one_of_our_names(memory: Repository) -> None:
    everything(memory)
    made = import_document(memory, hostile(memory), format="turtle", keep_invalid=True)
    ours = ("urn:trails:", vocab.TRAILS)
    found = 0
    for quad in memory.store.quads((None, None, None, None)):
        graph = getattr(quad.graph_name, "value", "")
        if graph.startswith(made.iri) and not graph.endswith("/file"):
            for term in (quad.subject, quad.predicate, quad.object, getattr(quad.object, "datatype", None)):
                name = getattr(term, "value", "") if isinstance(term, NamedNode) else ""
                assert not name.startswith(ours) or name.startswith(f"{made.iri}/"), quad
                found += name.startswith(f"{made.iri}/as/")
    assert found > 1000


@pytest.mark.slow
def test_a_store_that_has_a_document_exports_and_imports_its_sessions_as_before(memory: Repository) -> None:
    from trails.exchange.rdf_files import export_session, import_rdf

    everything(memory)
    out = io.BytesIO()
    export_session(memory, "plan", "nquads", out)
    import_document(memory, hostile(memory), format="turtle", keep_invalid=True)
    again = io.BytesIO()
    export_session(memory, "plan", "nquads", again)
    assert again.getvalue() == out.getvalue()
    with trails.open(":memory:") as other:
        import_rdf(other, again.getvalue(), "nquads")
        assert documents(other) == []


# --- seen when it is altered


@pytest.mark.slow
def test_every_quad_of_a_document_that_is_altered_added_or_taken_out_is_seen(memory: Repository) -> None:
    import_document(memory, SMALL, format="provn", name="chart.provn", by="alice")
    gone = import_document(memory, SMALL + b"\n", format="provn")
    delete_document(memory, gone.iri, by="bob", reason="twice")
    assert memory.verify().findings == ()
    quads = [quad for quad in of_documents(memory) if quad.object not in (vocab.PRINCIPAL, vocab.AGENT)]
    assert len(quads) > 20
    for quad in quads:
        term = Literal("other") if isinstance(quad.object, Literal) else NamedNode("urn:other")
        other = Quad(quad.subject, quad.predicate, term, quad.graph_name)
        for change in (Change(remove=[quad]), Change(add=[other]), Change(remove=[quad], add=[other])):
            memory.store.commit(change)
            assert not memory.verify().ok, change
            memory.store.commit(Change(remove=change.add, add=change.remove))
            assert memory.verify().ok, change


def test_a_document_that_was_never_brought_in_or_is_gone_is_seen(memory: Repository) -> None:
    made = import_document(memory, SMALL, format="provn", by="alice")
    quads = of_documents(memory)
    memory.store.commit(Change(remove=quads))
    assert [each.code for each in memory.verify().findings] == ["rolled-back"]
    memory.store.commit(Change(add=quads))
    assert memory.verify().ok
    delete_document(memory, made.iri)
    memory.store.commit(Change(add=quads))
    assert "unlogged" in {each.code for each in memory.verify().findings}
    with trails.open(":memory:") as other:
        other.store.commit(Change(add=[quad for quad in quads if quad.graph_name != vocab.CATALOG]))
        assert {each.code for each in other.verify().findings} == {"stray-graph"}


def test_a_document_may_be_deleted_and_brought_in_again(store: Repository) -> None:
    for _ in range(2):
        made = import_document(store, SMALL, format="provn", by="alice")
        assert store.verify().findings == ()
        assert delete_document(store, made.iri[:40], by="bob", reason="not ours") == made
        assert documents(store) == []
        assert store.verify().findings == ()
    removals = store.query(
        "SELECT ?who ?why { ?d trails:removedDocument ?sha ; prov:wasAssociatedWith ?who ; trails:reason ?why }"
    ).to_dicts()  # type: ignore[union-attr] # a SELECT
    assert removals == [{"who": "urn:trails:principal:bob", "why": "not ours"}] * 2
    graphs = {str(quad.graph_name) for quad in of_documents(store)}
    assert graphs == {"DEFAULT"}


@pytest.mark.slow
def test_a_document_goes_with_dumps_and_backups(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s.trails", create=True) as store:
        everything(store)
        made = import_document(store, SMALL, format="provn", name="chart.provn", by="alice")
        kept = documents(store)
        store.maintenance.dump(tmp_path / "dump.gz")
        store.maintenance.backup(tmp_path / "backup")
        store.maintenance.vacuum()
        assert documents(store) == kept
    assert load_dump(tmp_path / "dump.gz", tmp_path / "loaded").ok
    for place in ("s.trails", "loaded", "backup"):
        with trails.open(tmp_path / place) as store:
            assert documents(store) == kept
            assert document_bytes(store, made.iri) == SMALL
            assert store.verify().findings == ()


def test_redacting_a_text_tells_that_it_stays_in_a_document_and_takes_names_out_of_its_record(
    memory: Repository,
) -> None:
    made = import_document(memory, SMALL, format="provn", name="about-zenobia.provn", by="Zenobia")
    session = memory.create(id="s")
    session.append("user", "a chart of zenobia's")
    session.persist()
    left = memory.redact_matching("chart").left
    assert {(place.kind, place.iri) for place in left} == {("PROV document", made.iri)}
    memory.redact_matching("enobia")
    (record,) = documents(memory)
    assert "enobia" not in "\n".join(map(str, memory.store.quads((None, None, None, None))))
    assert record.by_iri == "urn:trails:principal:redacted"
    assert document_bytes(memory, made.iri) == SMALL
    assert memory.verify().findings == ()


def test_two_that_bring_the_same_file_at_once_have_one(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    from trails.provenance import document_import

    def late(store: Repository, *_: object) -> None:
        monkeypatch.undo()
        import_document(memory, SMALL, format="provn", by="first")

    monkeypatch.setattr(document_import, "_known", late)
    made = import_document(memory, SMALL, format="provn", by="second")
    assert [each.by_iri for each in documents(memory)] == [made.by_iri] == ["urn:trails:principal:first"]
    assert isinstance(made, ImportedDocument)
    assert memory.verify().findings == ()
