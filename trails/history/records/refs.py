"""Find and verify refs: names that move from one place in the sessions to another.

Each move of a ref is logged, so that a move needs no other line of the log than its own. The moves stay when it moves on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails.errors import TrailsError
from trails.history.records.record_kind import Checks, Evidence, Leaving, RecordKind, about
from trails.history.records.text_matcher import Erasure
from trails.integrity import digests
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Finding, SessionRecord
from trails.rdf import vocab
from trails.rdf.codec import subject_of, term_text
from trails.rdf.ref_records import (
    Ref,
    RefMove,
    chain_moves,
    move_of,
    move_quads,
    quads_as_written,
    ref_leaf,
    ref_of,
    ref_quads,
    removal_leaf,
)
from trails.store.contract import Matching, QuadStore

# --- found


def is_ref(store: Matching, subject: str) -> bool:
    """Tell whether a name's node is a ref, and not a tag."""
    is_name = iris.tag_name(subject) is not None
    return is_name and bool(store.quads((NamedNode(subject), vocab.TYPE, vocab.REF, vocab.CATALOG)))


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


# --- logged and verified


_GONE: Final = "-"
"""What the log has in the place of the digest of a ref that was removed."""


class _Log:
    """What the log says of refs, by the IRIs under which it does: (moves, digest) of each line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.moves: dict[str, list[tuple[int, str]]] = {}
        for line in lines:
            fields = line.split(" ") if line.startswith("ref ") else ()
            if len(fields) == 5 and fields[2].isdecimal():
                self.moves.setdefault(fields[1], []).append((int(fields[2]), fields[3]))

    def fault(self, ref: Ref, moves: Sequence[RefMove]) -> str | None:
        """Return what is wrong with a ref by the log, given its moves."""
        logged = self.moves.get(iris.ref_log(ref.id), [])
        if not logged:
            return "is in the store and not in its log"
        if logged[-1] != (ref.moves, ref.moves_digest):
            return "is not where it was when it was logged last"
        counts = [count for count, _ in logged]
        again = max((at for at, (a, b) in enumerate(pairwise(counts), 1) if b <= a), default=0)
        if again and not _is_renamed(ref, moves):
            return "was logged again, and nothing was redacted in it"
        digest, wanted = ref.salt, dict(logged[again:])
        for move in moves:
            digest = chain_moves(digest, [move])
            if wanted.get(move.number, digest) != digest:
                return f"was altered: its move {move.number} is not the one that was logged"
        return None


def refs_at(
    store: Matching, lines: Iterable[str], until: datetime | None = None
) -> Iterator[tuple[Ref, list[RefMove]]]:
    """Give each ref as it was when the log had some lines, with its moves until then; none that was made or removed since.

    Moves with a later time than `until` are left out, too.
    """
    log = _Log(lines)
    for ref in read_refs(store):
        number, digest = log.moves.get(iris.ref_log(ref.id), [(0, _GONE)])[-1]
        moves = [each for each in read_moves(store, ref.name)[:number] if until is None or each.time <= until]
        if digest != _GONE and moves:
            at = {name: getattr(moves[-1], name) for name in ("session_id", "at", "digest", "author_iri", "time")}
            state = {"moves": len(moves), "moves_digest": chain_moves(ref.salt, moves)}
            yield ref.model_copy(update={**at, **state}), moves


def _is_renamed(ref: Ref, moves: Iterable[RefMove]) -> bool:
    """Tell whether a name was taken out of a ref or its moves."""
    return ref.name.startswith(iris.UNNAMED) or any(iris.is_unnamed(each.author_iri) for each in (ref, *moves))


def _checks(evidence: Evidence) -> Checks:
    log = _Log(evidence.lines)
    return Checks(store=lambda records, whole: _findings(evidence.store, log, records, whole))


def _findings(store: QuadStore, log: _Log, records: Mapping[str, SessionRecord], whole: bool) -> Iterator[Finding]:
    names = {iris.tag_name(subject_of(quad)) for quad in store.quads((None, vocab.TYPE, vocab.REF, vocab.CATALOG))}
    for name in sorted(each for each in names if each):
        try:
            ref, moves = find_ref(store, name), read_moves(store, name)
        except (TrailsError, ValueError):
            continue  # named by the check of the catalog
        if ref is None or not (whole or ref.session_id in records):
            continue
        if (what := _misfit(ref, moves) or log.fault(ref, moves)) is not None:
            yield _finding(f"the ref {name!r} {what}", ref.session_id)
    if whole:
        yield from _missing(store, log, names)


def _missing(store: QuadStore, log: _Log, names: Collection[str | None]) -> Iterator[Finding]:
    """Find the moves of refs that are not there, and the refs that were logged and are not there."""
    for quad in store.quads((None, vocab.TYPE, vocab.REF_MOVE, vocab.CATALOG)):
        name, _ = iris.moved_ref(subject_of(quad)) or (None, 0)
        if name not in names:
            yield _finding(f"{subject_of(quad)} is the move of a ref that is not in the store")
    ids = {term_text(quad.object) for quad in store.quads((None, vocab.REF_ID, None, vocab.CATALOG))}
    for iri, logged in log.moves.items():
        if logged[-1][1] != _GONE and iri.removeprefix(iris.ref_log("")) not in ids:
            yield _finding(f"the ref of which the log tells as {iri} was logged and is gone", code="rolled-back")


def _finding(what: str, session_id: str | None = None, code: str = "bad-ref") -> Finding:
    owner = "" if session_id is None else f"session {session_id!r}: "
    return Finding(code=code, session_id=session_id, message=owner + what)


def _misfit(ref: Ref, moves: Sequence[RefMove]) -> str | None:
    """Return what is wrong with a ref by its moves; where it is, is held against the turns as for a tag."""
    if [move.number for move in moves] != list(range(1, ref.moves + 1)):
        return f"was moved {ref.moves} times, and not all of its moves are there"
    if chain_moves(ref.salt, moves) != ref.moves_digest:
        return "was altered: its moves do not have its digest"
    return None if moves[-1] == ref.last_move else "is not where its last move went"


def _all_leaves(store: Matching) -> list[Leaf]:
    """Return the leaves of all refs, for a log that begins with them."""
    return [ref_leaf(ref) for ref in read_refs(store)]


# --- with the sessions that they name


def _leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
    """Return what goes with sessions: the moves of the refs that name them, which go as tags do."""
    refs = [ref for session_id in doomed for ref in read_refs(store, session_id)]
    moves = [quad for ref in refs for quad in move_records(store, NamedNode(iris.tag(ref.name)))]
    return Leaving(remove=moves, leaves=[removal_leaf(ref) for ref in refs])


# --- taking texts out


def _purge(taking: Erasure, subject: str, _: Sequence[Quad], __: Sequence[Quad]) -> None:
    """Take a text out of a ref and its moves, together: they get other random bits, and another digest."""
    node = iris.tag((iris.moved_ref(subject) or (iris.tag_name(subject) or "", 0))[0])
    before = [*taking.about[node], *_moves_among(taking.about, node)]
    after: dict[str, list[Quad]] = {}
    for quad in taking.without(before):
        after.setdefault(subject_of(quad), []).append(quad)
    renamed = taking.new.iri(NamedNode(node)).value
    old, ref = ref_of(node, taking.about[node]), ref_of(renamed, after.pop(renamed))
    moves = sorted((move_of(each, quads) for each, quads in after.items()), key=lambda move: move.number)
    salt = taking.salts.setdefault(node, digests.new_salt())
    new = ref.model_copy(update={"salt": salt, "moves_digest": chain_moves(salt, moves)})
    taking.found.swap(before, [*ref_quads(new), *(quad for move in moves for quad in move_quads(move))])
    taking.place(old.session_id, "ref", subject)
    taking.found.note(old.session_id, renamed)
    if ref_leaf(new) not in taking.found.leaves:
        taking.found.leaves.append(ref_leaf(new))


def _moves_among(about: Mapping[str, Sequence[Quad]], node: str) -> list[Quad]:
    """Return the quads of the moves of a ref among all that the catalog says."""
    return [quad for subject, quads in about.items() if subject.startswith(f"{node}/move/") for quad in quads]


REFS: Final = RecordKind(
    name="refs",
    types=frozenset({vocab.REF, vocab.REF_MOVE}),
    links=frozenset({vocab.MOVE_OF}),
    leaves=_all_leaves,
    own_leaf=lambda quad: quad.object in (vocab.REF, vocab.REF_MOVE),
    as_written=quads_as_written,
    checks=_checks,
    leaving=_leaving,
    purges_all=True,
    purge=_purge,
)
