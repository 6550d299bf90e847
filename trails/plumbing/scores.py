"""Scores in the catalog: found by what they are of, moved or dropped with it, held against its turns.

A score names (session, turns, digest of the last one), never a turn's IRI: copies of a turn share its digest. It is logged
with the row of the session that it names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, lineage, vocab
from trails.decoding import decodes
from trails.errors import TrailsError
from trails.integrity import digests
from trails.model import Finding, SessionRecord
from trails.plumbing import marks
from trails.plumbing.kind import Arriving, Checks, Evidence, Growth, Kind, Leaving
from trails.plumbing.reader import Reader
from trails.plumbing.taking import Taking
from trails.records.deeds import author_type
from trails.records.scores import Score, reckoned, score_of, score_quads, sealed
from trails.store.contract import Matching, QuadStore

# --- found


def find(store: Matching, score_id: str) -> Score | None:
    """Return the score with an id, or None."""
    subject = iris.score(score_id)
    quads = marks.about(store, subject)
    return score_of(subject, quads) if quads else None


def every(store: Matching) -> list[Score]:
    """Return all scores, in order of session, place and time."""
    return _read(store, (_iri(quad) for quad in store.quads((None, vocab.SCORED, None, vocab.CATALOG))))


def of_session(store: Matching, session_id: str) -> list[Score]:
    """Return the scores that name a session, in order of place and time."""
    node = NamedNode(iris.session(session_id))
    return _read(store, (_iri(quad) for quad in store.quads((None, vocab.SCORED, node, vocab.CATALOG))))


def of_itself(store: Matching, session_id: str) -> list[Score]:
    """Return the scores of a session itself, those of its turns left unread: there may be thousands."""
    node = NamedNode(iris.session(session_id))
    subjects = [quad.subject for quad in store.quads((None, vocab.SCORED, node, vocab.CATALOG))]
    own = (each for each in subjects if not store.quads((each, vocab.SCORED_FROM, None, vocab.CATALOG)))  # type: ignore[arg-type] # IRIs
    return _read(store, (str(getattr(each, "value", each)) for each in own))


def on_turns(store: Matching, turn_digest: str) -> list[Score]:
    """Return the scores of turns and spans that end with a turn or a copy of it, in order of place and time."""
    quads = store.quads((None, vocab.NAMED_DIGEST, Literal(turn_digest), vocab.CATALOG))
    found = _read(store, (_iri(quad) for quad in quads if iris.score_id(_iri(quad)) is not None))
    return [score for score in found if score.start is not None]


def in_transcript(store: Matching, reader: Reader, chain: Sequence[SessionRecord]) -> list[Score]:
    """Return the scores of a session, given its lineage, and those of the turns and spans of its transcript."""
    own = of_itself(store, chain[0].id)
    seen = (digest for run in lineage.segments(chain) for _, digest in reader.digests(run))
    return own + [score for digest in seen for score in on_turns(store, digest)]


def newest(scores: Iterable[Score]) -> list[Score]:
    """Return of each thing, name, scorer and version the score that counts: the newest, where several were given."""
    found: dict[tuple[object, ...], Score] = {}
    for score in scores:
        before = found.setdefault(_what(score), score)
        if (score.time, score.id) > (before.time, before.id):
            found[_what(score)] = score
    return list(found.values())


def same(a: Score, b: Score) -> bool:
    """Tell whether two scores are of the same thing, name, scorer and version, so that only the newer one counts."""
    return _what(a) == _what(b)


def _what(score: Score) -> tuple[object, ...]:
    of = (score.session_id,) if score.start is None else (score.turn_digest, score.start)
    return (*of, score.name, score.by_iri, score.version)


@decodes
def _read(store: Matching, subjects: Iterable[str]) -> list[Score]:
    found = [score_of(subject, marks.about(store, subject)) for subject in subjects]
    return sorted(found, key=lambda score: (score.session_id, score.start or -1, score.end, score.time, score.id))


def _iri(quad: Quad) -> str:
    return str(getattr(quad.subject, "value", quad.subject))


# --- with the session that they name


def _quads(store: Matching, node: NamedNode) -> list[Quad]:
    named = store.quads((None, vocab.SCORED, node, vocab.CATALOG))
    return [each for quad in named for each in marks.about(store, _iri(quad))]


def _logged(store: Matching, node: NamedNode, _: Sequence[Quad] = ()) -> list[Quad]:
    """Return what the log covers: which scores there are, by digests that cover the rest. A session may have thousands."""
    named = store.quads((None, vocab.SCORED, node, vocab.CATALOG))
    digests = (store.quads((quad.subject, vocab.DIGEST, None, vocab.CATALOG)) for quad in named)  # type: ignore[arg-type] # IRIs
    return [*named, *(quad for each in digests for quad in each)]


def _exported(store: QuadStore, node: NamedNode) -> list[Quad]:
    quads = _quads(store, node)
    scorers = {str(getattr(q.object, "value", "")) for q in quads if q.predicate == vocab.ASSOCIATED_WITH}
    return [*quads, *map(author_type, sorted(scorers))]


def _leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
    """Return what goes and what comes when sessions are deleted.

    A score of a session goes with it. One of turns goes with the last copy of the last of them: while another session owns
    one, the score names that.
    """
    remove: list[Quad] = []
    add: list[Quad] = []
    homes: set[str] = set()
    for session_id in doomed:
        for score in of_session(store, session_id):
            home = None if score.start is None else marks.other_owner(store, score.turn_digest, score.end - 1, doomed)
            if home is None:
                remove += score_quads(score)
                continue
            node = NamedNode(iris.score(score.id))
            remove.append(Quad(node, vocab.SCORED, NamedNode(iris.session(session_id)), vocab.CATALOG))
            add.append(Quad(node, vocab.SCORED, NamedNode(iris.session(home)), vocab.CATALOG))
            homes.add(home)
    return Leaving(remove=remove, add=add, rows=sorted(homes))


def _arriving(store: QuadStore, _: str, quads: Sequence[Quad]) -> Arriving:
    """Return quads of an arriving session without the scores that are here already, or were removed here."""
    subjects = {_iri(quad) for quad in quads if quad.object == vocab.SCORE}
    known = {each for each in subjects if marks.about(store, each) or was_removed(store, iris.score_id(each) or "")}
    return Arriving([quad for quad in quads if _iri(quad) not in known])


def was_removed(store: Matching, score_id: str) -> bool:
    """Tell whether a score with an id was stored here and taken away again."""
    return bool(store.quads((None, vocab.REMOVED_SCORE, Literal(score_id), vocab.CATALOG)))


def _growing(store: QuadStore, file: QuadStore, session_id: str, _: bool) -> Growth:
    found = _arriving(store, session_id, _exported(file, NamedNode(iris.session(session_id))))
    is_new = any(quad.object == vocab.SCORE for quad in found.quads)
    return Growth(add=found.quads if is_new else ())


def _repeated(store: QuadStore, digest: str, needles: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the scores with a reason that are of a turn, and of all others that hold one of the texts."""
    found: list[str] = []
    for score in every(store):
        texts = [each for each in (score.value, score.reason) if isinstance(each, str)]
        is_of_it = score.turn_digest == digest and score.start is not None and score.reason is not None
        if is_of_it or any(needle in text for needle in needles for text in texts):
            found.append(score.id)
    return {"scores": found}


def _purge(taking: Taking, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take a text out of a score, which has another digest then."""
    after = score_quads(sealed(score_of(subject, taking.without(before))))
    session_id = score_of(subject, before).session_id
    for quad in hits:
        taking.place(session_id, _PLACES.get(quad.predicate, "name"), subject)
    taking.found.swap(before, after)
    taking.found.note(session_id, subject)
    taking.found.rows.add(session_id)


_PLACES: Final = {
    vocab.SCORE_NAME: "score name",
    vocab.SCORE_VALUE: "score",
    vocab.SCORER_VERSION: "scorer version",
    vocab.REASON: "reason",
}


# --- held against the turns


@decodes
def _findings(
    store: QuadStore, reader: Reader, records: Mapping[str, SessionRecord], whole_store: bool
) -> list[Finding]:
    found: list[Finding] = []
    for quad in store.quads((None, vocab.SCORED, None, vocab.CATALOG)):
        try:
            score = score_of(_iri(quad), marks.about(store, _iri(quad)))
        except (TrailsError, ValueError):
            continue  # named by the check of the catalog
        if score.session_id in records:
            found += _misfit(reader, records, score)
        elif whole_store:
            found.append(_finding(score, "names a session that is not stored"))
    return found


def _misfit(reader: Reader, records: Mapping[str, SessionRecord], score: Score) -> list[Finding]:
    try:
        chain = lineage.lineage(score.session_id, records)
    except TrailsError:
        return []  # named by the check of the lineage
    if score.digest != reckoned(score):
        return [_finding(score, "was altered: it does not have its digest")]
    is_empty = score.start is None and score.end == 0
    if not is_empty and not 0 <= (score.start or 0) < score.end:
        return [_finding(score, f"says that it is of turns {score.start} to {score.end}, which no turns are")]
    right = digests.GENESIS if is_empty else marks.digest_at(reader, chain, score.end - 1)
    if right == score.turn_digest:
        return []
    return [_finding(score, "names a turn that is not there, or has another digest")]


def _finding(score: Score, what: str) -> Finding:
    return Finding(
        code="bad-score",
        session_id=score.session_id,
        index=None if score.start is None else score.end - 1,
        message=f"session {score.session_id!r}: the score {score.id!r} {what}",
    )


def _checks(evidence: Evidence) -> Checks:
    store = evidence.store
    return Checks(store=lambda records, whole_store: _findings(store, Reader(store), records, whole_store))


SCORES: Final = Kind(
    name="scores",
    types=frozenset({vocab.SCORE}),
    links=frozenset({vocab.SCORED}),
    logged=_logged,
    as_written=lambda subject, quads: score_quads(score_of(subject, quads)),
    checks=_checks,
    repeated=_repeated,
    places=_PLACES | {vocab.REMOVED_SCORE: "score"},
    purges=lambda subject: iris.score_id(subject) is not None,
    purge=_purge,
    leaving=_leaving,
    exported=_exported,
    arriving=_arriving,
    growing=_growing,
)
