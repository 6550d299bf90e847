"""Find and verify refs: names that move from one place in the sessions to another.

A ref is logged with the row of the session that it names, as a tag is. Its moves stay when it moves on. They are not logged one
by one: a digest over all of them stands with the ref.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails.errors import TrailsError
from trails.history.records.record_kind import Checks, Evidence, Leaving, RecordKind, about
from trails.history.records.text_matcher import Erasure
from trails.integrity import digests
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Finding, SessionRecord
from trails.rdf import vocab
from trails.rdf.codec import subject_of
from trails.rdf.ref_records import Ref, RefMove, chain_moves, move_of, move_quads, quads_as_written, ref_of, ref_quads
from trails.store.contract import Matching, QuadStore

# --- found


def is_ref(store: Matching, subject: str) -> bool:
    """Tell whether a name's node is a ref, and not a tag."""
    return bool(store.quads((NamedNode(subject), vocab.TYPE, vocab.REF, vocab.CATALOG)))


@decodes
def find_ref(store: Matching, name: str) -> Ref | None:
    """Return the ref with a name, or None."""
    subject = iris.tag(name)
    quads = about(store, subject)
    return ref_of(subject, quads) if any(quad.object == vocab.REF for quad in quads) else None


@decodes
def read_refs(store: Matching, session_id: str | None = None) -> list[Ref]:
    """Return the refs that name a session, or all, by name."""
    if session_id is None:
        found = store.quads((None, vocab.TYPE, vocab.REF, vocab.CATALOG))
    else:
        found = store.quads((None, vocab.TAG_OF, NamedNode(iris.session(session_id)), vocab.CATALOG))
    subjects = [each for quad in found if is_ref(store, each := subject_of(quad))]
    return sorted((ref_of(each, about(store, each)) for each in subjects), key=lambda ref: ref.name)


@decodes
def read_moves(store: Matching, name: str) -> list[RefMove]:
    """Return the moves of a ref, in order."""
    found = store.quads((None, vocab.MOVE_OF, NamedNode(iris.tag(name)), vocab.CATALOG))
    return sorted((move_of(subject_of(q), about(store, subject_of(q))) for q in found), key=lambda move: move.number)


def move_records(store: Matching, subject: NamedNode) -> list[Quad]:
    """Return the quads of all moves of a ref, given its node."""
    found = store.quads((None, vocab.MOVE_OF, subject, vocab.CATALOG))
    return [each for quad in found for each in about(store, subject_of(quad))]


# --- verified


def _checks(evidence: Evidence) -> Checks:
    return Checks(store=lambda records, whole: _findings(evidence.store, records, whole))


def _findings(store: QuadStore, records: Mapping[str, SessionRecord], whole: bool) -> Iterator[Finding]:
    names = {iris.tag_name(subject_of(quad)) for quad in store.quads((None, vocab.TYPE, vocab.REF, vocab.CATALOG))}
    for name in sorted(each for each in names if each):
        try:
            ref, moves = find_ref(store, name), read_moves(store, name)
        except (TrailsError, ValueError):
            continue  # named by the check of the catalog
        if ref is None or not (whole or ref.session_id in records):
            continue
        if (what := _misfit(ref, moves)) is not None:
            yield Finding(
                code="bad-ref",
                session_id=ref.session_id,
                message=f"session {ref.session_id!r}: the ref {name!r} {what}",
            )
    if whole:
        for quad in store.quads((None, vocab.TYPE, vocab.REF_MOVE, vocab.CATALOG)):
            name, _ = iris.moved_ref(subject_of(quad)) or ("", 0)
            if name not in names:
                yield Finding(
                    code="bad-ref", message=f"{subject_of(quad)} is the move of a ref that is not in the store"
                )


def _misfit(ref: Ref, moves: Sequence[RefMove]) -> str | None:
    """Return what is wrong with a ref by its moves; where it is, is held against the turns as for a tag."""
    if [move.number for move in moves] != list(range(1, ref.moves + 1)):
        return f"was moved {ref.moves} times, and not all of its moves are there"
    if chain_moves(digests.GENESIS, moves) != ref.moves_digest:
        return "was altered: its moves do not have its digest"
    return None if moves[-1] == ref.last_move else "is not where its last move went"


# --- with the sessions that they name


def _leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
    """Return what goes with sessions: the moves of the refs that name them, which go as tags do."""
    refs = [ref for session_id in doomed for ref in read_refs(store, session_id)]
    return Leaving(remove=[quad for ref in refs for quad in move_records(store, NamedNode(iris.tag(ref.name)))])


# --- taking texts out


def _purge(taking: Erasure, subject: str, _: Sequence[Quad], __: Sequence[Quad]) -> None:
    """Take a text out of a ref and its moves, together: the ref gets the digest that they have then."""
    named = iris.moved_ref(subject)
    node = subject if named is None else iris.tag(named[0])
    before = taking.about[node]
    moves = [
        each
        for quads in taking.about.values()
        for each in quads
        if any(quad.predicate == vocab.MOVE_OF and quad.object == NamedNode(node) for quad in quads)
    ]
    ref = ref_of(node, before)
    renamed = taking.new.iri(NamedNode(node)).value
    after = taking.without([*before, *moves])
    by_subject: dict[str, list[Quad]] = {}
    for quad in after:
        by_subject.setdefault(subject_of(quad), []).append(quad)
    made = sorted(
        (move_of(each, quads) for each, quads in by_subject.items() if each != renamed), key=lambda move: move.number
    )
    digest = chain_moves(digests.GENESIS, made)
    new = ref_of(renamed, by_subject[renamed]).model_copy(update={"moves_digest": digest})
    taking.found.swap([*before, *moves], [*ref_quads(new), *(quad for move in made for quad in move_quads(move))])
    taking.place(ref.session_id, "ref", subject)
    taking.found.note(ref.session_id, renamed)
    taking.found.rows.add(ref.session_id)


def _is_of_ref(subject: str) -> bool:
    return iris.moved_ref(subject) is not None


REFS: Final = RecordKind(
    name="refs",
    types=frozenset({vocab.REF, vocab.REF_MOVE}),
    links=frozenset({vocab.MOVE_OF}),
    own_leaf=lambda quad: quad.object == vocab.REF_MOVE,
    as_written=quads_as_written,
    checks=_checks,
    leaving=_leaving,
)
