"""Store and verify tags, notes and scores.

Tags and notes in the catalog: found by the session that they name, moved or dropped with it, held against its turns.

Both name (session, index, digest), never a turn's IRI: copies of a turn share its digest. What they say is logged with
the row of the session that they name, except the text of a note, for which its salted digest stands there: a note that
is gone leaves nothing behind by which its text could be guessed.

Scores in the catalog: found by what they are of, moved or dropped with it, held against its turns.

A score names (session, turns, digest of the last one), never a turn's IRI: copies of a turn share its digest. It is logged
with the row of the session that it names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import TrailsError
from trails.history.reader import Reader
from trails.history.records.erasure import Erasure
from trails.history.records.record_kind import Arriving, Checks, Evidence, Growth, Leaving, RecordKind
from trails.integrity import digests
from trails.model import iris, lineage, validation
from trails.model.validation import decodes
from trails.model.values import Finding, Note, SessionRecord, Tag, Turn
from trails.rdf import vocab
from trails.rdf.activity_records import author_type
from trails.rdf.annotation_records import ANNOTATION_REMOVAL, annotation_quads_as_written, note_of, tag_of
from trails.rdf.score_records import Score, compute_score, score_of, score_quads, seal_score
from trails.store.contract import Matching, QuadStore

_LINKS: Final = (vocab.TAG_OF, vocab.NOTE_ON, vocab.REMOVED_FROM)

# --- found


@decodes
def find_tag(store: Matching, name: str) -> Tag | None:
    """Return the tag with a name or an IRI, or None."""
    plain = validation.text(name, "the tag's name")
    subject = iris.tag(iris.tag_name(plain) or plain)
    quads = read_annotations(store, subject)
    return tag_of(subject, quads) if quads else None


def read_annotations(store: Matching, subject: str) -> list[Quad]:
    """Return all that the catalog says of a tag, a note or a removal."""
    return store.quads((NamedNode(subject), None, None, vocab.CATALOG))


def tags(store: Matching, session_id: str | None = None) -> list[Tag]:
    """Return the tags of one session, or of all, by name."""
    found = [
        tag_of(subject, read_annotations(store, subject)) for subject in _subjects(store, vocab.TAG_OF, session_id)
    ]
    return sorted(found, key=lambda tag: tag.name)


def notes(store: Matching, session_id: str | None = None) -> list[Note]:
    """Return the notes that name one session, or all, in order of index and time."""
    found = [
        note_of(subject, read_annotations(store, subject)) for subject in _subjects(store, vocab.NOTE_ON, session_id)
    ]
    return sorted(found, key=lambda note: (note.session_id, note.index, note.time, note.id))


@decodes
def notes_on(store: QuadStore, turn_digest: str) -> list[Note]:
    """Return the notes on a turn and its copies, oldest first."""
    quads = store.quads((None, vocab.NAMED_DIGEST, Literal(turn_digest), vocab.CATALOG))
    subjects = [subject for quad in quads if iris.note_id(subject := _annotation_iri(quad)) is not None]
    found = [note_of(subject, read_annotations(store, subject)) for subject in subjects]
    return sorted(found, key=lambda note: (note.time, note.id))


@decodes
def notes_in(store: QuadStore, reader: Reader, chain: Sequence[SessionRecord]) -> list[Note]:
    """Return the notes on the turns of a transcript, given its session's lineage, in order of index and time."""
    if not store.quads((None, vocab.TYPE, vocab.NOTE, vocab.CATALOG)):
        return []
    runs = {run.record.iri: run for run in lineage.segments(chain)}
    found: set[str] = set()
    for row in reader.select("notes_in", sessions=[record.id for record in chain]):
        run = runs.get(row["session"].value)
        if run and run.start <= int(row["index"].value) and (run.end is None or int(row["index"].value) < run.end):
            found.add(row["note"].value)
    return sorted(
        (note_of(each, read_annotations(store, each)) for each in found), key=lambda n: (n.index, n.time, n.id)
    )


@decodes
def note_counts(store: QuadStore) -> Counter[str]:
    """Return how many notes there are on each turn that has any, by the turn's digest."""
    quads = store.quads((None, vocab.NAMED_DIGEST, None, vocab.CATALOG))
    return Counter(str(getattr(q.object, "value", "")) for q in quads if iris.note_id(_annotation_iri(q)) is not None)


def _subjects(store: Matching, link: NamedNode, session_id: str | None) -> list[str]:
    node = None if session_id is None else NamedNode(iris.session(session_id))
    return [_annotation_iri(quad) for quad in store.quads((None, link, node, vocab.CATALOG))]


def _annotation_iri(quad: Quad) -> str:
    return str(getattr(quad.subject, "value", quad.subject))


# --- with the session that they name


def annotations_of_session(store: Matching, node: NamedNode) -> list[Quad]:
    """Return all quads of the tags, the notes and the removals of such that name a session."""
    named = [_annotation_iri(quad) for link in _LINKS for quad in store.quads((None, link, node, vocab.CATALOG))]
    return [quad for subject in named for quad in read_annotations(store, subject)]


def logged_annotations(store: Matching, node: NamedNode, _: Sequence[Quad] = ()) -> list[Quad]:
    """Return the same as the log covers it: without the texts of notes, whose salted digests are there."""
    return [quad for quad in annotations_of_session(store, node) if quad.predicate != vocab.VALUE]


def annotations_leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
    """Return what goes and what comes when sessions are deleted, and the sessions that notes move to.

    Tags go. A note goes with the last copy of its turn: while another session owns one, the note names that.
    """
    remove: list[Quad] = []
    add: list[Quad] = []
    homes: set[str] = set()
    for session_id in doomed:
        node = NamedNode(iris.session(session_id))
        moved: dict[str, str | None] = {
            note.id: other_owner(store, note.turn_digest, note.index, doomed) for note in notes(store, session_id)
        }
        for quad in annotations_of_session(store, node):
            home = moved.get(iris.note_id(_annotation_iri(quad)) or "")
            if home is None:
                remove.append(quad)
            elif quad.predicate == vocab.NOTE_ON:
                remove.append(quad)
                add.append(Quad(quad.subject, quad.predicate, NamedNode(iris.session(home)), quad.graph_name))
                homes.add(home)
    return Leaving(remove=remove, add=add, rows=sorted(homes))


@decodes
def exported_annotations(store: QuadStore, node: NamedNode) -> list[Quad]:
    """Return the quads of the tags and notes that name a session, with what their authors are; no removals."""
    named = [
        _annotation_iri(quad)
        for link in (vocab.TAG_OF, vocab.NOTE_ON)
        for quad in store.quads((None, link, node, vocab.CATALOG))
    ]
    quads = [quad for subject in named for quad in read_annotations(store, subject)]
    authors = {str(getattr(q.object, "value", "")) for q in quads if q.predicate == vocab.ATTRIBUTED_TO}
    return [*quads, *(author_type(author) for author in sorted(authors))]


def annotations_arriving(store: QuadStore, session_id: str, quads: Sequence[Quad]) -> Arriving:
    """Return the quads of an arriving session without the tags and notes that may not come into a store.

    What is there already, was removed there, or lost its name there, does not come again; of tags whose names are in use for
    something else, that is said.
    """
    refused: set[str] = set()
    clashes: list[tuple[str, str]] = []
    subjects = {_annotation_iri(quad) for quad in quads if quad.object in (vocab.TAG, vocab.NOTE)}
    unnamed = {_named(tag) for tag in tags(store, session_id) if tag.name.startswith(iris.UNNAMED)}
    for subject in subjects:
        name, note_id, mine = iris.tag_name(subject), iris.note_id(subject), read_annotations(store, subject)
        link, named = (vocab.REMOVED_NOTE, note_id) if name is None else (vocab.REMOVED_TAG, name)
        gone = store.quads((None, link, Literal(named or ""), vocab.CATALOG))
        there = None if name is None else tag_of(subject, [quad for quad in quads if _annotation_iri(quad) == subject])
        if not (mine or gone or (there is not None and _named(there) in unnamed)):
            continue
        refused.add(subject)
        if mine and name is not None and there is not None:
            here = tag_of(subject, mine)
            if (here.session_id, here.length, here.digest) != (there.session_id, there.length, there.digest):
                clashes.append((name, here.session_id))
    said = [
        f"session {session_id!r} was imported without its tag {name!r}, which is in use for {owner!r} here"
        for name, owner in sorted(clashes)
    ]
    return Arriving([quad for quad in quads if _annotation_iri(quad) not in refused], said)


def _named(tag: Tag) -> tuple[object, ...]:
    """Return by what a tag is known again that lost its name: what it names, and when it was made."""
    return tag.length, tag.digest, tag.time


def _annotations_growing(store: QuadStore, file: QuadStore, session_id: str, _: bool) -> Growth:
    """Return the tags and notes of a file that are new to a session that is there, with what their authors are."""
    found = annotations_arriving(store, session_id, exported_annotations(file, NamedNode(iris.session(session_id))))
    is_new = any(quad.object in (vocab.TAG, vocab.NOTE) for quad in found.quads)
    return Growth(add=found.quads if is_new else (), said=found.said)


def other_owner(store: QuadStore, turn_digest: str, index: int, doomed: Collection[str]) -> str | None:
    """Return a session that stays and has a copy of a turn among its own turns, given its digest and index; or None."""
    for quad in store.quads((None, vocab.DIGEST, Literal(turn_digest), None)):
        if not isinstance(quad.graph_name, NamedNode):
            continue
        owner = iris.session_id(quad.graph_name.value)
        row = store.quads((quad.graph_name, None, None, vocab.CATALOG))
        start = next((int(q.object.value) for q in row if q.predicate == vocab.FORKED_AT_INDEX), 0)  # type: ignore[union-attr] # a literal
        if owner not in doomed and any(q.object == vocab.SESSION for q in row) and index >= start:
            return owner
    return None


def _repeated_annotations(store: QuadStore, digest: str, needles: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the notes on a turn, and of all others that hold one of the texts."""
    found = [
        note.id for note in notes(store) if note.turn_digest == digest or any(needle in note.text for needle in needles)
    ]
    return {"notes": found}


# --- held against the turns


@decodes
def annotation_findings(
    store: QuadStore, reader: Reader, records: Mapping[str, SessionRecord], *, every: bool
) -> list[Finding]:
    """Return the tags and notes that do not fit the turns that they name; with `every`, those of no session too."""
    found: list[Finding] = []
    named: dict[str, list[Tag | Note]] = defaultdict(list)
    for link, read in ((vocab.TAG_OF, tag_of), (vocab.NOTE_ON, note_of)):
        for subject in _subjects(store, link, None):
            try:
                each = read(subject, read_annotations(store, subject))
            except (TrailsError, ValueError):
                continue  # named by the check of the catalog
            named[each.session_id].append(each)
    for session_id, each_of in named.items():
        if session_id in records:
            found += [f for each in each_of if (f := _annotation_misfit(reader, records, each)) is not None]
        elif every:
            found += [_annotation_finding(each, "names a session that is not stored") for each in each_of]
    return found


def _annotation_misfit(reader: Reader, records: Mapping[str, SessionRecord], each: Tag | Note) -> Finding | None:
    if isinstance(each, Note) and each.digest != (
        each.salt if each.redacted else digests.salted_digest("note", each.salt, each.text)
    ):
        return _annotation_finding(each, "was altered: its text does not have its digest")
    try:
        chain = lineage.lineage(each.session_id, records)
    except TrailsError:
        return None  # named by the check of the lineage
    if isinstance(each, Tag) and each.length == 0:
        right: str | None = digests.GENESIS
    else:
        right = annotation_digest_at(reader, chain, each.length - 1 if isinstance(each, Tag) else each.index)
    wanted = each.digest if isinstance(each, Tag) else each.turn_digest
    return (
        None if right == wanted else _annotation_finding(each, "names a turn that is not there, or has another digest")
    )


def annotation_digest_at(reader: Reader, chain: Sequence[SessionRecord], index: int) -> str | None:
    """Return the digest of the turn at an index of a transcript, given its session's lineage; None where none is."""
    runs = lineage.segments(chain, index + 1)
    return reader.digest_at(runs[-1].record.id, index) if runs else None


def annotated_turn(reader: Reader, chain: Sequence[SessionRecord], index: int) -> Turn | None:
    """Return the turn at an index of a transcript, given its session's lineage; None where none is."""
    runs = lineage.segments(chain, index + 1)
    found = reader.own_turns(lineage.Segment(runs[-1].record, index, index + 1)) if runs else []
    return found[0] if found else None


def _annotation_finding(each: Tag | Note, what: str) -> Finding:
    is_tag = isinstance(each, Tag)
    name = f"the tag {each.name!r}" if isinstance(each, Tag) else f"the note {each.id!r} on turn {each.index}"
    return Finding(
        code="bad-tag" if is_tag else "bad-note",
        session_id=each.session_id,
        index=None if isinstance(each, Tag) else each.index,
        message=f"session {each.session_id!r}: {name} {what}",
    )


def _annotation_checks(evidence: Evidence) -> Checks:
    store = evidence.store
    return Checks(store=lambda records, every: annotation_findings(store, Reader(store), records, every=every))


ANNOTATIONS: Final = RecordKind(
    name="tags and notes",
    types=frozenset({vocab.TAG, vocab.NOTE}),
    links=frozenset(_LINKS),
    logged=logged_annotations,
    as_written=annotation_quads_as_written,
    removal=lambda iri: ANNOTATION_REMOVAL if iris.is_removal(iri) else frozenset(),
    checks=_annotation_checks,
    repeated=_repeated_annotations,
    text="note",
    places={vocab.TAG_NAME: "tag", vocab.REMOVED_TAG: "tag"},
    leaving=annotations_leaving,
    exported=exported_annotations,
    arriving=annotations_arriving,
    growing=_annotations_growing,
)


# --- found


def find_score(store: Matching, score_id: str) -> Score | None:
    """Return the score with an id, or None."""
    subject = iris.score(score_id)
    quads = read_annotations(store, subject)
    return score_of(subject, quads) if quads else None


def all_scores(store: Matching) -> list[Score]:
    """Return all scores, in order of session, place and time."""
    return _read(store, (_score_iri(quad) for quad in store.quads((None, vocab.SCORED, None, vocab.CATALOG))))


def scores_of_session(store: Matching, session_id: str) -> list[Score]:
    """Return the scores that name a session, in order of place and time."""
    node = NamedNode(iris.session(session_id))
    return _read(store, (_score_iri(quad) for quad in store.quads((None, vocab.SCORED, node, vocab.CATALOG))))


def session_scores(store: Matching, session_id: str) -> list[Score]:
    """Return the scores of a session itself, those of its turns left unread: there may be thousands."""
    node = NamedNode(iris.session(session_id))
    subjects = [quad.subject for quad in store.quads((None, vocab.SCORED, node, vocab.CATALOG))]
    own = (each for each in subjects if not store.quads((each, vocab.SCORED_FROM, None, vocab.CATALOG)))  # type: ignore[arg-type] # IRIs
    return _read(store, (str(getattr(each, "value", each)) for each in own))


def turn_scores(store: Matching, turn_digest: str) -> list[Score]:
    """Return the scores of turns and spans that end with a turn or a copy of it, in order of place and time."""
    quads = store.quads((None, vocab.NAMED_DIGEST, Literal(turn_digest), vocab.CATALOG))
    found = _read(store, (_score_iri(quad) for quad in quads if iris.score_id(_score_iri(quad)) is not None))
    return [score for score in found if score.start is not None]


def transcript_scores(store: Matching, reader: Reader, chain: Sequence[SessionRecord]) -> list[Score]:
    """Return the scores of a session, given its lineage, and those of the turns and spans of its transcript."""
    own = session_scores(store, chain[0].id)
    seen = (digest for run in lineage.segments(chain) for _, digest in reader.digests(run))
    return own + [score for digest in seen for score in turn_scores(store, digest)]


def newest_scores(scores: Iterable[Score]) -> list[Score]:
    """Return of each thing, name, scorer and version the score that counts: the newest, where several were given."""
    found: dict[tuple[object, ...], Score] = {}
    for score in scores:
        before = found.setdefault(_what(score), score)
        if (score.time, score.id) > (before.time, before.id):
            found[_what(score)] = score
    return list(found.values())


def is_same_score(a: Score, b: Score) -> bool:
    """Tell whether two scores are of the same thing, name, scorer and version, so that only the newer one counts."""
    return _what(a) == _what(b)


def _what(score: Score) -> tuple[object, ...]:
    of = (score.session_id,) if score.start is None else (score.turn_digest, score.start)
    return (*of, score.name, score.by_iri, score.version)


@decodes
def _read(store: Matching, subjects: Iterable[str]) -> list[Score]:
    found = [score_of(subject, read_annotations(store, subject)) for subject in subjects]
    return sorted(found, key=lambda score: (score.session_id, score.start or -1, score.end, score.time, score.id))


def _score_iri(quad: Quad) -> str:
    return str(getattr(quad.subject, "value", quad.subject))


# --- with the session that they name


def _quads(store: Matching, node: NamedNode) -> list[Quad]:
    named = store.quads((None, vocab.SCORED, node, vocab.CATALOG))
    return [each for quad in named for each in read_annotations(store, _score_iri(quad))]


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
        for score in scores_of_session(store, session_id):
            home = None if score.start is None else other_owner(store, score.turn_digest, score.end - 1, doomed)
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
    subjects = {_score_iri(quad) for quad in quads if quad.object == vocab.SCORE}
    known = {
        each for each in subjects if read_annotations(store, each) or is_removed_score(store, iris.score_id(each) or "")
    }
    return Arriving([quad for quad in quads if _score_iri(quad) not in known])


def is_removed_score(store: Matching, score_id: str) -> bool:
    """Tell whether a score with an id was stored here and taken away again."""
    return bool(store.quads((None, vocab.REMOVED_SCORE, Literal(score_id), vocab.CATALOG)))


def _scores_growing(store: QuadStore, file: QuadStore, session_id: str, _: bool) -> Growth:
    found = _arriving(store, session_id, _exported(file, NamedNode(iris.session(session_id))))
    is_new = any(quad.object == vocab.SCORE for quad in found.quads)
    return Growth(add=found.quads if is_new else ())


def _repeated_scores(store: QuadStore, digest: str, needles: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the scores with a reason that are of a turn, and of all others that hold one of the texts."""
    found: list[str] = []
    for score in all_scores(store):
        texts = [each for each in (score.value, score.reason) if isinstance(each, str)]
        is_of_it = score.turn_digest == digest and score.start is not None and score.reason is not None
        if is_of_it or any(needle in text for needle in needles for text in texts):
            found.append(score.id)
    return {"scores": found}


def _purge(taking: Erasure, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take a text out of a score, which has another digest then."""
    after = score_quads(seal_score(score_of(subject, taking.without(before))))
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
            score = score_of(_score_iri(quad), read_annotations(store, _score_iri(quad)))
        except (TrailsError, ValueError):
            continue  # named by the check of the catalog
        if score.session_id in records:
            found += _score_misfit(reader, records, score)
        elif whole_store:
            found.append(_score_finding(score, "names a session that is not stored"))
    return found


def _score_misfit(reader: Reader, records: Mapping[str, SessionRecord], score: Score) -> list[Finding]:
    try:
        chain = lineage.lineage(score.session_id, records)
    except TrailsError:
        return []  # named by the check of the lineage
    if score.digest != compute_score(score):
        return [_score_finding(score, "was altered: it does not have its digest")]
    is_empty = score.start is None and score.end == 0
    if not is_empty and not 0 <= (score.start or 0) < score.end:
        return [_score_finding(score, f"says that it is of turns {score.start} to {score.end}, which no turns are")]
    right = digests.GENESIS if is_empty else annotation_digest_at(reader, chain, score.end - 1)
    if right == score.turn_digest:
        return []
    return [_score_finding(score, "names a turn that is not there, or has another digest")]


def _score_finding(score: Score, what: str) -> Finding:
    return Finding(
        code="bad-score",
        session_id=score.session_id,
        index=None if score.start is None else score.end - 1,
        message=f"session {score.session_id!r}: the score {score.id!r} {what}",
    )


def _score_checks(evidence: Evidence) -> Checks:
    store = evidence.store
    return Checks(store=lambda records, whole_store: _findings(store, Reader(store), records, whole_store))


SCORES: Final = RecordKind(
    name="scores",
    types=frozenset({vocab.SCORE}),
    links=frozenset({vocab.SCORED}),
    logged=_logged,
    as_written=lambda subject, quads: score_quads(score_of(subject, quads)),
    checks=_score_checks,
    repeated=_repeated_scores,
    places=_PLACES | {vocab.REMOVED_SCORE: "score"},
    purges=lambda subject: iris.score_id(subject) is not None,
    purge=_purge,
    leaving=_leaving,
    exported=_exported,
    arriving=_arriving,
    growing=_scores_growing,
)
