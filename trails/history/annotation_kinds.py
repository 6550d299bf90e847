"""Store and verify tags, notes, scores and signatures.

They stand in the catalog. Each names (session, index, digest), never a turn's IRI: copies of a turn share its digest. What
they say is logged with the row of the session that they name, except the text of a note, for which its salted digest stands
there: a note that is gone leaves nothing behind by which its text could be guessed. Of scores and signatures, of which a
session may have thousands, the log covers which there are, by digests that cover the rest.

A signature of a head covers all turns before it, inherited ones too. A copy of a turn is nobody's: whoever signed the
original did not sign the session that the copy stands in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput, TrailsError
from trails.history.reader import Reader
from trails.history.records import refs
from trails.history.records.record_kind import (
    Arriving,
    Checks,
    Evidence,
    Leaving,
    RecordKind,
    about,
    new_of,
    unknown_of,
    with_authors,
)
from trails.history.records.text_matcher import Erasure
from trails.integrity import digests
from trails.integrity.signed_notes import HeadSignature, is_signature_true
from trails.model import iris, lineage, validation
from trails.model.validation import decodes
from trails.model.values import Finding, Note, SessionRecord, Tag, Turn, Unsigned
from trails.rdf import vocab
from trails.rdf.annotation_records import (
    ANNOTATION_REMOVAL,
    annotation_quads_as_written,
    note_of,
    signature_of,
    signature_quads_as_written,
    tag_of,
)
from trails.rdf.codec import subject_of
from trails.rdf.ref_records import ref_of
from trails.rdf.score_records import Score, compute_score, score_of, score_quads, seal_score
from trails.store.contract import Matching, QuadStore
from trails.store.postgres.thin import ThinStore


@dataclass(frozen=True, slots=True)
class _Sort:
    """What the rules must know of one sort of annotation."""

    type: NamedNode
    link: NamedNode
    """What names the session."""
    read: Callable[[str, Iterable[Quad]], Any]
    author: NamedNode
    code: str
    """The code of findings about it."""
    place: Callable[[Any], tuple[int | None, str]]
    """How many turns of the transcript it names (None: all, however many), and the digest of the last."""
    shown: Callable[[Any], tuple[int | None, str]]
    """The index of the turn that it is of, and what it is called."""
    fault: Callable[[Any], str | None] = lambda _: None
    """What is wrong with it by itself."""
    copied: Callable[[Any], tuple[str, int] | None] | None = None
    """The digest and the index of the turn whose copies keep it; None: it goes with its session."""


def _note_fault(note: Note) -> str | None:
    right = note.salt if note.redacted else digests.salted_digest("note", note.salt, note.text)
    return None if note.digest == right else "was altered: its text does not have its digest"


def _score_fault(score: Score) -> str | None:
    if score.digest != compute_score(score):
        return "was altered: it does not have its digest"
    if (score.start is not None or score.end != 0) and not 0 <= (score.start or 0) < score.end:
        return f"says that it is of turns {score.start} to {score.end}, which no turns are"
    return None


def _signature_fault(said: HeadSignature) -> str | None:
    is_whole = said.is_taken_out or is_signature_true(said)
    return None if is_whole else "does not hold: it was forged, or something of it was altered"


_TAG: Final = _Sort(
    vocab.TAG,
    vocab.TAG_OF,
    tag_of,
    vocab.ATTRIBUTED_TO,
    "bad-tag",
    place=lambda tag: (tag.length, tag.digest),
    shown=lambda tag: (None, f"the tag {tag.name!r}"),
)
_REF: Final = _Sort(
    vocab.REF,
    vocab.TAG_OF,
    ref_of,
    vocab.ATTRIBUTED_TO,
    "bad-ref",
    place=lambda ref: (ref.at, ref.digest),
    shown=lambda ref: (None, f"the ref {ref.name!r}"),
)
_NOTE: Final = _Sort(
    vocab.NOTE,
    vocab.NOTE_ON,
    note_of,
    vocab.ATTRIBUTED_TO,
    "bad-note",
    place=lambda note: (note.index + 1, note.turn_digest),
    shown=lambda note: (note.index, f"the note {note.id!r} on turn {note.index}"),
    fault=_note_fault,
    copied=lambda note: (note.turn_digest, note.index),
)
_SCORE: Final = _Sort(
    vocab.SCORE,
    vocab.SCORED,
    score_of,
    vocab.ASSOCIATED_WITH,
    "bad-score",
    place=lambda score: (score.end, score.turn_digest),
    shown=lambda score: (None if score.start is None else score.end - 1, f"the score {score.id!r}"),
    fault=_score_fault,
    copied=lambda score: None if score.start is None else (score.turn_digest, score.end - 1),
)
_SIGNATURE: Final = _Sort(
    vocab.HEAD_SIGNATURE,
    vocab.SIGNATURE_OF,
    signature_of,
    vocab.ATTRIBUTED_TO,
    "bad-signature",
    place=lambda said: (said.index + 1, said.head),
    shown=lambda said: (said.index, f"the signature of {said.principal!r} over turn {said.index}"),
    fault=_signature_fault,
)


# --- found


def _subjects(store: Matching, link: NamedNode, session_id: str | None) -> list[str]:
    node = None if session_id is None else NamedNode(iris.session(session_id))
    return [subject_of(quad) for quad in store.quads((None, link, node, vocab.CATALOG))]


def _subjects_of(store: Matching, sort: _Sort, session_id: str | None) -> list[str]:
    """Return the nodes of one sort of annotation: tags and refs name sessions by the same property."""
    found = _subjects(store, sort.link, session_id)
    if sort.link != vocab.TAG_OF:
        return found
    return [each for each in found if refs.is_ref(store, each) is (sort is _REF)]


@decodes
def _read(store: Matching, sort: _Sort, subjects: Iterable[str], order: Callable[[Any], Any]) -> list[Any]:
    return sorted((sort.read(each, about(store, each)) for each in subjects), key=order)


def _on_turn(store: Matching, turn_digest: str, id_of: Callable[[str], str | None]) -> list[str]:
    quads = store.quads((None, vocab.NAMED_DIGEST, Literal(turn_digest), vocab.CATALOG))
    return [subject for quad in quads if id_of(subject := subject_of(quad)) is not None]


@decodes
def find_tag(store: Matching, name: str) -> Tag | None:
    """Return the tag with a name or an IRI, or None."""
    plain = validation.text(name, "the tag's name")
    subject = iris.tag(iris.tag_name(plain) or plain)
    quads = about(store, subject)
    return tag_of(subject, quads) if quads and not refs.is_ref(store, subject) else None


def tags(store: Matching, session_id: str | None = None) -> list[Tag]:
    """Return the tags of one session, or of all, by name."""
    return _read(store, _TAG, _subjects_of(store, _TAG, session_id), lambda tag: tag.name)


def notes(store: Matching, session_id: str | None = None) -> list[Note]:
    """Return the notes that name one session, or all, in order of index and time."""
    subjects = _subjects(store, vocab.NOTE_ON, session_id)
    return _read(store, _NOTE, subjects, lambda note: (note.session_id, note.index, note.time, note.id))


def notes_on(store: QuadStore, turn_digest: str) -> list[Note]:
    """Return the notes on a turn and its copies, oldest first."""
    return _read(store, _NOTE, _on_turn(store, turn_digest, iris.note_id), lambda note: (note.time, note.id))


@decodes
def notes_in(store: QuadStore, reader: Reader, chain: Sequence[SessionRecord]) -> list[Note]:
    """Return the notes on the turns of a transcript, given its session's lineage, in order of index and time."""
    if not isinstance(store, ThinStore) and not store.quads((None, vocab.TYPE, vocab.NOTE, vocab.CATALOG)):
        return []
    runs = {run.record.iri: run for run in lineage.segments(chain)}
    found: set[str] = set()
    for row in reader.select("notes_in", sessions=[record.id for record in chain]):
        run, index = runs.get(row["session"].value), int(row["index"].value)
        if run and run.start <= index and (run.end is None or index < run.end):
            found.add(row["note"].value)
    return _read(store, _NOTE, found, lambda note: (note.index, note.time, note.id))


@decodes
def note_counts(store: QuadStore) -> Counter[str]:
    """Return how many notes there are on each turn that has any, by the turn's digest."""
    quads = store.quads((None, vocab.NAMED_DIGEST, None, vocab.CATALOG))
    return Counter(str(getattr(q.object, "value", "")) for q in quads if iris.note_id(subject_of(q)) is not None)


def find_score(store: Matching, score_id: str) -> Score | None:
    """Return the score with an id, or None."""
    subject = iris.score(score_id)
    quads = about(store, subject)
    return score_of(subject, quads) if quads else None


def _scores(store: Matching, subjects: Iterable[str]) -> list[Score]:
    return _read(
        store, _SCORE, subjects, lambda each: (each.session_id, each.start or -1, each.end, each.time, each.id)
    )


def all_scores(store: Matching) -> list[Score]:
    """Return all scores, in order of session, place and time."""
    return _scores(store, _subjects(store, vocab.SCORED, None))


def scores_of_session(store: Matching, session_id: str) -> list[Score]:
    """Return the scores that name a session, in order of place and time."""
    return _scores(store, _subjects(store, vocab.SCORED, session_id))


def session_scores(store: Matching, session_id: str) -> list[Score]:
    """Return the scores of a session itself, those of its turns left unread: there may be thousands."""
    subjects = _subjects(store, vocab.SCORED, session_id)
    of_turns = (vocab.SCORED_FROM, None, vocab.CATALOG)
    return _scores(store, (each for each in subjects if not store.quads((NamedNode(each), *of_turns))))


def turn_scores(store: Matching, turn_digest: str) -> list[Score]:
    """Return the scores of turns and spans that end with a turn or a copy of it, in order of place and time."""
    found = _scores(store, _on_turn(store, turn_digest, iris.score_id))
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


def is_removed_score(store: Matching, score_id: str) -> bool:
    """Tell whether a score with an id was stored here and taken away again."""
    return bool(store.quads((None, vocab.REMOVED_SCORE, Literal(score_id), vocab.CATALOG)))


def read_signatures(store: Matching, session_id: str) -> list[HeadSignature]:
    """Return what was signed of a session itself, in order of index and time."""
    subjects = _subjects(store, vocab.SIGNATURE_OF, session_id)
    return _read(store, _SIGNATURE, subjects, lambda each: (each.index, each.time, each.key))


def has_signatures(store: Matching) -> bool:
    """Tell whether anything in a store is signed."""
    return bool(store.quads((None, vocab.TYPE, vocab.HEAD_SIGNATURE, vocab.CATALOG)))


def annotated_turn(reader: Reader, chain: Sequence[SessionRecord], index: int) -> Turn:
    """Return the turn at an index of a transcript, given its session's lineage; raise `InvalidInput` if there is none."""
    runs = lineage.segments(chain, validation.index(index, "index") + 1)
    found = reader.own_turns(lineage.Segment(runs[-1].record, index, index + 1)) if runs else []
    if not found:
        raise InvalidInput(f"session {chain[0].id!r} has no turn {index} that is stored")
    return found[0]


# --- what nobody signed


def unsigned_sessions(
    store: QuadStore, reader: Reader, session_ids: Collection[str] | None, keys: Collection[str] | None
) -> list[Unsigned]:
    """Return the own turns of sessions, or (None) of all, that no true signature covers, by one of some keys or (None) by any."""

    @cache
    def chain_of(session_id: str) -> tuple[SessionRecord, ...] | None:
        try:
            return reader.lineage(session_id)
        except TrailsError:
            return None  # named by the check of the lineage

    signed: dict[str, int] = defaultdict(int)
    for said in _readable(store, _SIGNATURE):
        chain = chain_of(said.session_id)
        if chain is None or said.is_taken_out or _misfit(reader, chain, _SIGNATURE, said):
            continue
        if keys is None or said.key in keys:
            for run in lineage.segments(chain, said.index + 1):
                signed[run.record.id] = max(signed[run.record.id], said.index + 1 if run.end is None else run.end)
    found = []
    for session_id in sorted(reader.ids() if session_ids is None else session_ids):
        chain = chain_of(session_id)
        if chain is not None:
            first, end = max(signed[session_id], chain[0].starts_at), reader.length(chain)
            found += [Unsigned(session_id=session_id, first=first, last=end - 1)] if first < end else []
    return found


def missing_signatures(ranges: Iterable[Unsigned]) -> list[Finding]:
    """Return turns that nobody signed as findings, for those who demand that all are."""
    return [
        Finding(
            code="unsigned",
            session_id=each.session_id,
            index=each.first,
            message=f"session {each.session_id!r}: nobody signed its turns {each.first} to {each.last}",
        )
        for each in ranges
    ]


# --- held against the turns


def _readable(store: Matching, sort: _Sort) -> Iterator[Any]:
    for subject in _subjects_of(store, sort, None):
        try:
            yield sort.read(subject, about(store, subject))
        except (TrailsError, ValueError):
            continue  # named by the check of the catalog


def _checks(*sorts: _Sort) -> Callable[[Evidence], Checks]:
    """Return the check of some sorts against the turns that they name; in a whole store also those of no session."""

    def findings(store: QuadStore, records: Mapping[str, SessionRecord], whole_store: bool) -> Iterator[Finding]:
        reader = Reader(store)
        for sort, each in ((kind, each) for kind in sorts for each in _readable(store, kind)):
            what: str | None = "names a session that is not stored" if whole_store else None
            if each.session_id in records:
                try:
                    what = _misfit(reader, lineage.lineage(each.session_id, records), sort, each)
                except TrailsError:
                    what = None  # named by the check of the lineage
            if what is not None:
                index, name = sort.shown(each)
                message = f"session {each.session_id!r}: {name} {what}"
                yield Finding(code=sort.code, session_id=each.session_id, index=index, message=message)

    return lambda evidence: Checks(store=lambda records, whole: findings(evidence.store, records, whole))


def _misfit(reader: Reader, chain: Sequence[SessionRecord], sort: _Sort, each: Any) -> str | None:
    """Return what is wrong with an annotation, given the lineage of its session; None where nothing is."""
    if (fault := sort.fault(each)) is not None:
        return fault
    count, digest = sort.place(each)
    if count is None:
        return None
    runs = lineage.segments(chain, count)
    right = digests.GENESIS if count == 0 else reader.digest_at(runs[-1].record.id, count - 1) if runs else None
    return None if right == digest else "names a turn that is not there, or has another digest"


# --- with the session that they name


def _exported(*sorts: _Sort) -> Callable[[QuadStore, NamedNode], list[Quad]]:
    """Return what gives the annotations of a session, with what their authors are; no removals."""

    @decodes
    def exported(store: QuadStore, node: NamedNode) -> list[Quad]:
        named = [each for sort in sorts for each in _subjects_of(store, sort, iris.session_id(node.value))]
        quads = [quad for subject in named for quad in about(store, subject)]
        return with_authors(quads, sorts[0].author)

    return exported


def _leaving(*sorts: _Sort) -> Callable[[QuadStore, Collection[str], set[str]], Leaving]:
    """Return what goes and what comes when sessions are deleted.

    What is of a turn goes with the last copy of that: while another session owns one, it names that.
    """

    @decodes
    def leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
        remove: list[Quad] = []
        add: list[Quad] = []
        homes: set[str] = set()
        for session_id, each in product(doomed, sorts):
            for subject in _subjects(store, each.link, session_id):
                quads = about(store, subject)
                turn = None if each.copied is None else each.copied(each.read(subject, quads))
                home = None if turn is None else _other_owner(store, *turn, doomed)
                if home is None:
                    remove += quads
                    continue
                node = NamedNode(subject)
                remove.append(Quad(node, each.link, NamedNode(iris.session(session_id)), vocab.CATALOG))
                add.append(Quad(node, each.link, NamedNode(iris.session(home)), vocab.CATALOG))
                homes.add(home)
        return Leaving(remove=remove, add=add, rows=sorted(homes))

    return leaving


def _other_owner(store: QuadStore, turn_digest: str, index: int, doomed: Collection[str]) -> str | None:
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


# --- tags and notes


def _logged_texts(store: Matching, node: NamedNode, _: Sequence[Quad] = ()) -> list[Quad]:
    """Return the tags and notes, and the removals of any: without the texts of notes, whose salted digests are there."""
    links = (vocab.NOTE_ON, vocab.REMOVED_FROM)
    named = [subject_of(quad) for link in links for quad in store.quads((None, link, node, vocab.CATALOG))]
    named += _subjects_of(store, _TAG, iris.session_id(node.value))
    return [q for subject in named for q in about(store, subject) if q.predicate != vocab.VALUE]


def _texts_leaving(store: QuadStore, doomed: Collection[str], kept: set[str]) -> Leaving:
    """Return what becomes of tags and notes; with a session go the removals of what named it, too."""
    found = _leaving(_TAG, _NOTE)(store, doomed, kept)
    removals = [subject for each in doomed for subject in _subjects(store, vocab.REMOVED_FROM, each)]
    gone = [quad for subject in removals for quad in about(store, subject)]
    return Leaving(remove=[*found.remove, *gone], add=found.add, rows=found.rows)


def _texts_arriving(store: QuadStore, session_id: str, quads: Sequence[Quad]) -> Arriving:
    """Return the quads of an arriving session without the tags and notes that may not come into a store.

    What is there already, was removed there, or lost its name there, does not come again; of tags whose names are in use for
    something else, that is said.
    """
    refused: set[str] = set()
    clashes: list[tuple[str, str]] = []
    subjects = {subject_of(quad) for quad in quads if quad.object in (vocab.TAG, vocab.NOTE)}
    unnamed = {_named(tag) for tag in tags(store, session_id) if tag.name.startswith(iris.UNNAMED)}
    for subject in subjects:
        name, note_id, mine = iris.tag_name(subject), iris.note_id(subject), about(store, subject)
        link, named = (vocab.REMOVED_NOTE, note_id) if name is None else (vocab.REMOVED_TAG, name)
        gone = store.quads((None, link, Literal(named or ""), vocab.CATALOG))
        there = None if name is None else tag_of(subject, [quad for quad in quads if subject_of(quad) == subject])
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
    return Arriving([quad for quad in quads if subject_of(quad) not in refused], said)


def _named(tag: Tag) -> tuple[object, ...]:
    """Return by what a tag is known again that lost its name: what it names, and when it was made."""
    return tag.length, tag.digest, tag.time


def _repeated_notes(store: QuadStore, digest: str, needles: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the notes on a turn, and of all others that hold one of the texts."""
    found = [n.id for n in notes(store) if n.turn_digest == digest or any(needle in n.text for needle in needles)]
    return {"notes": found}


ANNOTATIONS: Final = RecordKind(
    name="tags and notes",
    types=frozenset({vocab.TAG, vocab.NOTE}),
    links=frozenset({vocab.TAG_OF, vocab.NOTE_ON, vocab.REMOVED_FROM}),
    logged=_logged_texts,
    as_written=annotation_quads_as_written,
    removal=lambda iri: ANNOTATION_REMOVAL if iris.is_removal(iri) else frozenset(),
    checks=_checks(_TAG, _REF, _NOTE),
    repeated=_repeated_notes,
    text="note",
    places={vocab.TAG_NAME: "tag", vocab.REMOVED_TAG: "tag"},
    leaving=_texts_leaving,
    exported=_exported(_TAG, _NOTE),
    arriving=_texts_arriving,
    growing=new_of((vocab.TAG, vocab.NOTE), _texts_arriving, _exported(_TAG, _NOTE)),
)


# --- scores


def _logged_scores(store: Matching, node: NamedNode, _: Sequence[Quad] = ()) -> list[Quad]:
    named = store.quads((None, vocab.SCORED, node, vocab.CATALOG))
    digests_of = (store.quads((quad.subject, vocab.DIGEST, None, vocab.CATALOG)) for quad in named)  # type: ignore[arg-type] # IRIs
    return [*named, *(quad for each in digests_of for quad in each)]


def _repeated_scores(store: QuadStore, digest: str, needles: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the scores with a reason that are of a turn, and of all others that hold one of the texts."""
    found: list[str] = []
    for score in all_scores(store):
        texts = [each for each in (score.value, score.reason) if isinstance(each, str)]
        is_of_it = score.turn_digest == digest and score.start is not None and score.reason is not None
        if is_of_it or any(needle in text for needle in needles for text in texts):
            found.append(score.id)
    return {"scores": found}


def _purge_score(taking: Erasure, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take a text out of a score, which has another digest then."""
    after = score_quads(seal_score(score_of(subject, taking.without(before))))
    session_id = score_of(subject, before).session_id
    for quad in hits:
        taking.place(session_id, _SCORE_PLACES.get(quad.predicate, "name"), subject)
    taking.found.swap(before, after)
    taking.found.note(session_id, subject)
    taking.found.rows.add(session_id)


_SCORE_PLACES: Final = {
    vocab.SCORE_NAME: "score name",
    vocab.SCORE_VALUE: "score",
    vocab.SCORER_VERSION: "scorer version",
    vocab.REASON: "reason",
}
_scores_arriving: Final = unknown_of(
    (vocab.SCORE,), lambda store, subject: is_removed_score(store, iris.score_id(subject) or "")
)

SCORES: Final = RecordKind(
    name="scores",
    types=frozenset({vocab.SCORE}),
    links=frozenset({vocab.SCORED}),
    logged=_logged_scores,
    as_written=lambda subject, quads: score_quads(score_of(subject, quads)),
    checks=_checks(_SCORE),
    repeated=_repeated_scores,
    places=_SCORE_PLACES | {vocab.REMOVED_SCORE: "score"},
    purges=lambda subject: iris.score_id(subject) is not None,
    purge=_purge_score,
    leaving=_leaving(_SCORE),
    exported=_exported(_SCORE),
    arriving=_scores_arriving,
    growing=new_of((vocab.SCORE,), _scores_arriving, _exported(_SCORE)),
)


# --- signatures


def _logged_signatures(store: Matching, node: NamedNode, _: Sequence[Quad] = ()) -> list[Quad]:
    """Return which signatures there are; of one whose key was taken out, nothing else says how the rest was."""
    named = store.quads((None, vocab.SIGNATURE_OF, node, vocab.CATALOG))
    taken_out = (vocab.SIGNER_KEY, Literal(iris.UNNAMED), vocab.CATALOG)
    gone = [said for quad in named if store.quads((NamedNode(said := subject_of(quad)), *taken_out))]
    return [*named, *(each for said in gone for each in about(store, said))]


_signatures_arriving: Final = unknown_of((vocab.HEAD_SIGNATURE,))

SIGNATURES: Final = RecordKind(
    name="signatures",
    types=frozenset({vocab.HEAD_SIGNATURE}),
    links=frozenset({vocab.SIGNATURE_OF}),
    logged=_logged_signatures,
    as_written=signature_quads_as_written,
    checks=_checks(_SIGNATURE),
    leaving=_leaving(_SIGNATURE),
    exported=_exported(_SIGNATURE),
    arriving=_signatures_arriving,
    growing=new_of((vocab.HEAD_SIGNATURE,), _signatures_arriving, _exported(_SIGNATURE)),
    places={vocab.SIGNER_KEY: "signer's key"},
)
