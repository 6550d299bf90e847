"""Tags and notes in the catalog: found by the session that they name, moved or dropped with it, held against its turns.

Both name (session, index, digest), never a turn's IRI: copies of a turn share its digest. What they say is logged with
the row of the session that they name, except the text of a note, for which its salted digest stands there: a note that
is gone leaves nothing behind by which its text could be guessed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, lineage, validate, vocab
from trails.decoding import decodes
from trails.errors import TrailsError
from trails.integrity import digests
from trails.model import Finding, Note, SessionRecord, Tag, Turn
from trails.plumbing.kind import Arriving, Checks, Evidence, Growth, Kind, Leaving
from trails.plumbing.reader import Reader
from trails.records.annotations import REMOVAL, note_of, quads_as_written, tag_of
from trails.records.deeds import author_type
from trails.store.contract import Matching, QuadStore

_LINKS: Final = (vocab.TAG_OF, vocab.NOTE_ON, vocab.REMOVED_FROM)

# --- found


@decodes
def find_tag(store: Matching, name: str) -> Tag | None:
    """Return the tag with a name or an IRI, or None."""
    plain = validate.text(name, "the tag's name")
    subject = iris.tag(iris.tag_name(plain) or plain)
    quads = about(store, subject)
    return tag_of(subject, quads) if quads else None


def about(store: Matching, subject: str) -> list[Quad]:
    """Return all that the catalog says of a tag, a note or a removal."""
    return store.quads((NamedNode(subject), None, None, vocab.CATALOG))


def tags(store: Matching, session_id: str | None = None) -> list[Tag]:
    """Return the tags of one session, or of all, by name."""
    found = [tag_of(subject, about(store, subject)) for subject in _subjects(store, vocab.TAG_OF, session_id)]
    return sorted(found, key=lambda tag: tag.name)


def notes(store: Matching, session_id: str | None = None) -> list[Note]:
    """Return the notes that name one session, or all, in order of index and time."""
    found = [note_of(subject, about(store, subject)) for subject in _subjects(store, vocab.NOTE_ON, session_id)]
    return sorted(found, key=lambda note: (note.session_id, note.index, note.time, note.id))


@decodes
def notes_on(store: QuadStore, turn_digest: str) -> list[Note]:
    """Return the notes on a turn and its copies, oldest first."""
    quads = store.quads((None, vocab.NAMED_DIGEST, Literal(turn_digest), vocab.CATALOG))
    subjects = [subject for quad in quads if iris.note_id(subject := _iri(quad)) is not None]
    found = [note_of(subject, about(store, subject)) for subject in subjects]
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
    return sorted((note_of(each, about(store, each)) for each in found), key=lambda n: (n.index, n.time, n.id))


@decodes
def note_counts(store: QuadStore) -> Counter[str]:
    """Return how many notes there are on each turn that has any, by the turn's digest."""
    quads = store.quads((None, vocab.NAMED_DIGEST, None, vocab.CATALOG))
    return Counter(str(getattr(q.object, "value", "")) for q in quads if iris.note_id(_iri(q)) is not None)


def _subjects(store: Matching, link: NamedNode, session_id: str | None) -> list[str]:
    node = None if session_id is None else NamedNode(iris.session(session_id))
    return [_iri(quad) for quad in store.quads((None, link, node, vocab.CATALOG))]


def _iri(quad: Quad) -> str:
    return str(getattr(quad.subject, "value", quad.subject))


# --- with the session that they name


def of_session(store: Matching, node: NamedNode) -> list[Quad]:
    """Return all quads of the tags, the notes and the removals of such that name a session."""
    named = [_iri(quad) for link in _LINKS for quad in store.quads((None, link, node, vocab.CATALOG))]
    return [quad for subject in named for quad in about(store, subject)]


def logged(store: Matching, node: NamedNode, _: Sequence[Quad] = ()) -> list[Quad]:
    """Return the same as the log covers it: without the texts of notes, whose salted digests are there."""
    return [quad for quad in of_session(store, node) if quad.predicate != vocab.VALUE]


def leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
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
        for quad in of_session(store, node):
            home = moved.get(iris.note_id(_iri(quad)) or "")
            if home is None:
                remove.append(quad)
            elif quad.predicate == vocab.NOTE_ON:
                remove.append(quad)
                add.append(Quad(quad.subject, quad.predicate, NamedNode(iris.session(home)), quad.graph_name))
                homes.add(home)
    return Leaving(remove=remove, add=add, rows=sorted(homes))


@decodes
def exported(store: QuadStore, node: NamedNode) -> list[Quad]:
    """Return the quads of the tags and notes that name a session, with what their authors are; no removals."""
    named = [
        _iri(quad) for link in (vocab.TAG_OF, vocab.NOTE_ON) for quad in store.quads((None, link, node, vocab.CATALOG))
    ]
    quads = [quad for subject in named for quad in about(store, subject)]
    authors = {str(getattr(q.object, "value", "")) for q in quads if q.predicate == vocab.ATTRIBUTED_TO}
    return [*quads, *(author_type(author) for author in sorted(authors))]


def arriving(store: QuadStore, session_id: str, quads: Sequence[Quad]) -> Arriving:
    """Return the quads of an arriving session without the tags and notes that may not come into a store.

    What is there already, was removed there, or lost its name there, does not come again; of tags whose names are in use for
    something else, that is said.
    """
    refused: set[str] = set()
    clashes: list[tuple[str, str]] = []
    subjects = {_iri(quad) for quad in quads if quad.object in (vocab.TAG, vocab.NOTE)}
    unnamed = {_named(tag) for tag in tags(store, session_id) if tag.name.startswith(iris.UNNAMED)}
    for subject in subjects:
        name, note_id, mine = iris.tag_name(subject), iris.note_id(subject), about(store, subject)
        link, named = (vocab.REMOVED_NOTE, note_id) if name is None else (vocab.REMOVED_TAG, name)
        gone = store.quads((None, link, Literal(named or ""), vocab.CATALOG))
        there = None if name is None else tag_of(subject, [quad for quad in quads if _iri(quad) == subject])
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
    return Arriving([quad for quad in quads if _iri(quad) not in refused], said)


def _named(tag: Tag) -> tuple[object, ...]:
    """Return by what a tag is known again that lost its name: what it names, and when it was made."""
    return tag.length, tag.digest, tag.time


def _growing(store: QuadStore, file: QuadStore, session_id: str, _: bool) -> Growth:
    """Return the tags and notes of a file that are new to a session that is there, with what their authors are."""
    found = arriving(store, session_id, exported(file, NamedNode(iris.session(session_id))))
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


def _repeated(store: QuadStore, digest: str, needles: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the notes on a turn, and of all others that hold one of the texts."""
    found = [
        note.id for note in notes(store) if note.turn_digest == digest or any(needle in note.text for needle in needles)
    ]
    return {"notes": found}


# --- held against the turns


@decodes
def findings(store: QuadStore, reader: Reader, records: Mapping[str, SessionRecord], *, every: bool) -> list[Finding]:
    """Return the tags and notes that do not fit the turns that they name; with `every`, those of no session too."""
    found: list[Finding] = []
    named: dict[str, list[Tag | Note]] = defaultdict(list)
    for link, read in ((vocab.TAG_OF, tag_of), (vocab.NOTE_ON, note_of)):
        for subject in _subjects(store, link, None):
            try:
                each = read(subject, about(store, subject))
            except (TrailsError, ValueError):
                continue  # named by the check of the catalog
            named[each.session_id].append(each)
    for session_id, each_of in named.items():
        if session_id in records:
            found += [f for each in each_of if (f := _misfit(reader, records, each)) is not None]
        elif every:
            found += [_finding(each, "names a session that is not stored") for each in each_of]
    return found


def _misfit(reader: Reader, records: Mapping[str, SessionRecord], each: Tag | Note) -> Finding | None:
    if isinstance(each, Note) and each.digest != (
        each.salt if each.redacted else digests.salted("note", each.salt, each.text)
    ):
        return _finding(each, "was altered: its text does not have its digest")
    try:
        chain = lineage.lineage(each.session_id, records)
    except TrailsError:
        return None  # named by the check of the lineage
    if isinstance(each, Tag) and each.length == 0:
        right: str | None = digests.GENESIS
    else:
        right = digest_at(reader, chain, each.length - 1 if isinstance(each, Tag) else each.index)
    wanted = each.digest if isinstance(each, Tag) else each.turn_digest
    return None if right == wanted else _finding(each, "names a turn that is not there, or has another digest")


def digest_at(reader: Reader, chain: Sequence[SessionRecord], index: int) -> str | None:
    """Return the digest of the turn at an index of a transcript, given its session's lineage; None where none is."""
    runs = lineage.segments(chain, index + 1)
    return reader.digest_at(runs[-1].record.id, index) if runs else None


def turn_at(reader: Reader, chain: Sequence[SessionRecord], index: int) -> Turn | None:
    """Return the turn at an index of a transcript, given its session's lineage; None where none is."""
    runs = lineage.segments(chain, index + 1)
    found = reader.own_turns(lineage.Segment(runs[-1].record, index, index + 1)) if runs else []
    return found[0] if found else None


def _finding(each: Tag | Note, what: str) -> Finding:
    is_tag = isinstance(each, Tag)
    name = f"the tag {each.name!r}" if isinstance(each, Tag) else f"the note {each.id!r} on turn {each.index}"
    return Finding(
        code="bad-tag" if is_tag else "bad-note",
        session_id=each.session_id,
        index=None if isinstance(each, Tag) else each.index,
        message=f"session {each.session_id!r}: {name} {what}",
    )


def _checks(evidence: Evidence) -> Checks:
    store = evidence.store
    return Checks(store=lambda records, every: findings(store, Reader(store), records, every=every))


ANNOTATIONS: Final = Kind(
    name="tags and notes",
    types=frozenset({vocab.TAG, vocab.NOTE}),
    links=frozenset(_LINKS),
    logged=logged,
    as_written=quads_as_written,
    removal=lambda iri: REMOVAL if iris.is_removal(iri) else frozenset(),
    checks=_checks,
    repeated=_repeated,
    text="note",
    places={vocab.TAG_NAME: "tag", vocab.REMOVED_TAG: "tag"},
    leaving=leaving,
    exported=exported,
    arriving=arriving,
    growing=_growing,
)
