"""A new kind of record takes one value: it is logged, verified, redacted, exported, imported and deleted by that alone."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import Repository
from trails.exchange.rdf_files import export_session, import_rdf
from trails.history import log_leaves, record_registry
from trails.history.records.record_kind import Checks, Evidence, Growth, Leaving, RecordKind, Withheld
from trails.history.transaction import Proposal
from trails.integrity import digests
from trails.model import iris
from trails.model.values import Finding, SessionRecord
from trails.rdf import vocab
from trails.store.contract import Change, Matching, QuadStore

BOOKMARK = NamedNode("https://example.org/Bookmark")
BOOKMARK_OF = NamedNode("https://example.org/bookmarkOf")
GONE = Literal("", datatype=vocab.REDACTED)
TEXT = "Book the trip to Ferrara"

# --- the kind: a text beside a session, of which the log covers the salted digest


def node_of(name: str) -> NamedNode:
    return NamedNode(f"https://example.org/bookmark/{name}")


def written(name: str, session_id: str, text: str) -> list[Quad]:
    salt = digests.new_salt()
    digest = digests.salted_digest("bookmark", salt, text)
    return bookmark(node_of(name), NamedNode(iris.session(session_id)), Literal(text), salt, digest)


def bookmark(node: NamedNode, session: NamedNode, text: Literal, salt: str, digest: str) -> list[Quad]:
    rows: list[tuple[NamedNode, NamedNode | Literal]] = [
        (vocab.TYPE, BOOKMARK),
        (BOOKMARK_OF, session),
        (vocab.VALUE, text),
        (vocab.SALT, Literal(salt)),
        (vocab.DIGEST, Literal(digest)),
    ]
    return [Quad(node, predicate, term, vocab.CATALOG) for predicate, term in rows]


def of_session(store: Matching, node: NamedNode) -> list[Quad]:
    subjects = [quad.subject for quad in store.quads((None, BOOKMARK_OF, node, vocab.CATALOG))]
    return [quad for each in subjects for quad in store.quads((each, None, None, vocab.CATALOG))]  # type: ignore[arg-type] # IRIs


def said(quads: Sequence[Quad]) -> dict[NamedNode, str]:
    return {quad.predicate: str(getattr(quad.object, "value", "")) for quad in quads}


def as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    told = said(quads)
    text = next(quad.object for quad in quads if quad.predicate == vocab.VALUE)
    assert isinstance(text, Literal)
    session = NamedNode(told[BOOKMARK_OF])
    return bookmark(NamedNode(subject), session, text, told[vocab.SALT], told[vocab.DIGEST])


def checks(evidence: Evidence) -> Checks:
    def findings(records: Mapping[str, SessionRecord], _: bool) -> Iterator[Finding]:
        for session_id in records:
            told = said(of_session(evidence.store, NamedNode(iris.session(session_id))))
            true = {
                told.get(vocab.SALT),
                digests.salted_digest("bookmark", told.get(vocab.SALT, ""), told.get(vocab.VALUE, "")),
            }
            if told and told[vocab.DIGEST] not in true:
                yield Finding(code="bad-bookmark", session_id=session_id, message="its bookmark was altered")

    return Checks(store=findings)


def withheld(store: QuadStore, turns: Sequence[NamedNode], needles: Sequence[str]) -> Withheld:
    remove: list[Quad] = []
    add: list[Quad] = []
    rows: set[str] = set()
    for session_id in {iris.session_id(turn.value) for turn in turns}:
        quads = of_session(store, NamedNode(iris.session(session_id)))
        if any(needle in said(quads).get(vocab.VALUE, "") for needle in needles):
            gone = {vocab.VALUE: GONE, vocab.SALT: Literal(said(quads)[vocab.DIGEST])}
            remove += [quad for quad in quads if quad.predicate in gone]
            add += [Quad(q.subject, q.predicate, gone[q.predicate], q.graph_name) for q in quads if q.predicate in gone]
            rows.add(session_id)
    return Withheld(remove, add, rows=rows)


def leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
    return Leaving(remove=[quad for each in doomed for quad in of_session(store, NamedNode(iris.session(each)))])


def growing(store: QuadStore, file: QuadStore, session_id: str, _: bool) -> Growth:
    node = NamedNode(iris.session(session_id))
    here = set(of_session(store, node))
    return Growth(add=[quad for quad in of_session(file, node) if quad not in here])


BOOKMARKS = RecordKind(
    name="bookmarks",
    types=frozenset({BOOKMARK}),
    links=frozenset({BOOKMARK_OF}),
    logged=lambda store, node, _: [quad for quad in of_session(store, node) if quad.predicate != vocab.VALUE],
    as_written=as_written,
    checks=checks,
    withheld=withheld,
    text="bookmark",
    leaving=leaving,
    exported=of_session,
    growing=growing,
)

# --- what happens to one


@pytest.fixture
def marked(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A store of two sessions, of which "plan" has a bookmark."""
    monkeypatch.setattr(record_registry, "KINDS", (*record_registry.KINDS, BOOKMARKS))
    for name in ("plan", "other"):
        session = memory.create(id=name)
        session.append("user", TEXT)
        session.append("assistant", "Done")
        session.persist()
    put(memory, "first")
    return memory


def put(store: Repository, name: str) -> None:
    Proposal(add=written(name, "plan", f"see {TEXT}"), makers=[log_leaves.row_states("change", ["plan"])]).commit(
        store.store
    )


def stored(store: Repository) -> list[Quad]:
    return of_session(store.store, NamedNode(iris.session("plan")))


def swap(store: Repository, predicate: NamedNode, value: str) -> None:
    """Alter a bookmark as whoever owns the disk can: behind the log."""
    [old] = [quad for quad in stored(store) if quad.predicate == predicate]
    new = Quad(old.subject, predicate, Literal(value), vocab.CATALOG)
    store.store.commit(Change(add=[new], remove=[old]))


def exported(store: Repository) -> bytes:
    out = io.BytesIO()
    export_session(store, "plan", "nquads", out)
    return out.getvalue()


def codes(store: Repository) -> list[str]:
    return [finding.code for finding in store.verify().findings]


def test_it_is_logged_with_the_row_of_its_session(marked: Repository) -> None:
    assert marked.store.log.lines()[-1].startswith("change urn:trails:session:plan 0 ~")
    assert marked.verify().ok


def test_a_kind_that_is_not_known_is_a_finding(marked: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_registry, "KINDS", record_registry.KINDS[:-1])
    assert codes(marked) == ["stray", "stray", "stray", "stray", "stray", "row-altered"]


@pytest.mark.parametrize(
    ("predicate", "code"), [(vocab.VALUE, "bad-bookmark"), (vocab.DIGEST, "bad-bookmark row-altered")]
)
def test_an_altered_quad_of_it_is_found(marked: Repository, predicate: NamedNode, code: str) -> None:
    swap(marked, predicate, "altered")
    assert codes(marked) == code.split()


def test_a_quad_beside_it_is_found(marked: Repository) -> None:
    marked.store.commit(Change(add=[Quad(node_of("first"), vocab.LABEL, Literal("more"), vocab.CATALOG)]))
    assert codes(marked) == ["stray", "row-altered"]


def test_one_that_is_gone_behind_the_log_is_found(marked: Repository) -> None:
    marked.store.commit(Change(remove=stored(marked)))
    assert codes(marked) == ["row-altered"]


def test_its_text_goes_with_the_turn_that_it_repeats(marked: Repository) -> None:
    assert marked.redact("plan", 0).turns == (("plan", 0),)
    told = said(stored(marked))
    assert (told[vocab.VALUE], told[vocab.SALT]) == ("", told[vocab.DIGEST])
    assert marked.verify().ok


def test_its_text_goes_with_a_text_that_is_taken_out_everywhere(marked: Repository) -> None:
    places = [(p.session_id, p.kind, p.index) for p in marked.redact_matching("Ferrara").places]
    assert places == [("other", "content", 0), ("plan", "bookmark", None), ("plan", "content", 0)]
    assert said(stored(marked))[vocab.VALUE] == ""
    assert marked.verify().ok


def test_it_travels_in_an_export_and_gives_the_same_bytes_again(marked: Repository) -> None:
    with trails.open(":memory:") as copy:
        report = import_rdf(copy, exported(marked), "nquads")
        assert (report.sessions_created, report.problems) == (["plan"], [])
        assert set(stored(copy)) == set(stored(marked))
        assert exported(copy) == exported(marked)
        assert copy.verify().ok


def test_one_that_was_made_later_comes_with_the_next_import(marked: Repository) -> None:
    with trails.open(":memory:") as copy:
        import_rdf(copy, exported(marked), "nquads")
        put(marked, "second")
        assert import_rdf(copy, exported(marked), "nquads").grown == ["plan"]
        assert len(stored(copy)) == 2 * 5
        assert copy.verify().ok
        assert import_rdf(copy, exported(marked), "nquads").unchanged == ["plan"]


def test_an_export_in_which_it_was_altered_is_refused(marked: Repository) -> None:
    forged = exported(marked).replace(f"see {TEXT}".encode(), b"see nothing")
    with trails.open(":memory:") as copy, pytest.raises(trails.InvalidInput, match="bookmark was altered"):
        import_rdf(copy, forged, "nquads")


def test_it_goes_with_its_session(marked: Repository) -> None:
    assert marked.delete("plan") == ["plan"]
    assert marked.store.quads((node_of("first"), None, None, None)) == []
    assert marked.verify().ok
