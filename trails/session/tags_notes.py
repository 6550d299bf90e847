"""Add and remove tags and notes.

A tag names a session at an index and is never moved. A note is text about a turn, beside the chain. When a tag, a note
or a score is removed, a record of who removed it, and when, takes its place.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput
from trails.history import annotation_kinds, log_leaves
from trails.history.lookup import names
from trails.history.reader import Reader
from trails.history.records import refs
from trails.history.records.record_kind import about
from trails.history.transaction import Transaction
from trails.history.workspace import Facet, Workspace
from trails.integrity import digests
from trails.model import iris, validation
from trails.model.values import Note, SessionRecord, Tag, Turn
from trails.rdf import vocab
from trails.rdf.activity_records import author_type
from trails.rdf.annotation_records import note_of, note_quads, removal_quads, tag_quads
from trails.rdf.score_records import Score, score_quads
from trails.rdf.turn_quads import turn_type
from trails.store.contract import PreconditionFailed


def remove_annotation(workspace: Workspace, gone: Tag | Note | Score, by: str | None) -> None:
    """Remove a tag, a note or a score that is stored; `by` is who does it, the process's own actor for None.

    Raises `InvalidInput` where another writer was first.
    """
    who = workspace.who(by)
    name, quads = _told(gone)
    record = removal_quads(gone, who, datetime.now(UTC), secrets.token_hex(4))
    tx = Transaction()
    tx.take(quads, lambda _: InvalidInput(f"{name} was removed by another writer meanwhile"))
    tx.add([*record, author_type(who)])
    tx.log(log_leaves.row_states("change", [gone.session_id]))
    tx.commit(workspace.store)


def _told(gone: Tag | Note | Score) -> tuple[str, list[Quad]]:
    """Return what it is called, and its quads."""
    if isinstance(gone, Tag):
        return f"the tag {gone.name!r}", tag_quads(gone)
    if isinstance(gone, Score):
        return f"the score {gone.id!r}", score_quads(gone)
    return f"the note {gone.id!r}", note_quads(gone)


_Notes = list[Note]  # inside the class, `list` is the method


class Notes(Facet, public=True, reached="store.notes"):
    """The notes of a store: `store.notes`.

    A note is about one turn, and is seen from every session whose transcript has that turn or a copy of it: forks that
    inherit it, and what `detach` and `flatten` copied.
    """

    def add(
        self,
        session: names.Name,
        index: int,
        text: str,
        *,
        by: str | None = None,
        id: str | None = None,  # noqa: A002 - the public name
    ) -> Note:
        """Write a note on a turn and return it; stored at once. A turn may have many.

        `session` is an id or an IRI, `index` a turn of its transcript, inherited ones included. `by` names who writes
        it, as for `Repository.delete`. `id` is made up, or what tells the note from all others: it must not be in use.

        Raises `InvalidInput` where there is no such turn or the text is empty, and for an id in use.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); written = plan.persist()
        ...     note = store.notes.add("plan", 0, "Which trip?", by="bob")
        ...     [(note.index, note.author, note.text) for note in store.notes.list("plan")]
        [(0, 'bob', 'Which trip?')]
        """
        if not validation.text(text, "a note").strip():
            raise InvalidInput("a note needs a text that is more than spaces")
        author = self._workspace.who(by)
        reader = self._workspace.reader
        chain = names.find_lineage(self._workspace, session)
        turn = annotation_kinds.annotated_turn(reader, chain, index)
        salt = digests.new_salt()
        made = Note(
            id=secrets.token_hex(6) if id is None else validation.name(id, "a note's id"),
            session_id=turn.session_id,
            index=turn.index,
            turn_digest=turn.digest,
            text=text,
            author_iri=author,
            time=datetime.now(UTC),
            digest=digests.salted_digest("note", salt, text),
            salt=salt,
        )
        tx = Transaction()
        tx.session(made.session_id)
        tx.require([turn_type(turn)])
        tx.new(note_quads(made))
        tx.add([author_type(made.author_iri)])
        tx.log(log_leaves.row_states("change", [made.session_id]))
        if id is not None and self.find(made.id) is not None:
            raise InvalidInput(f"there is a note {made.id!r} already; choose another id")
        gone = f"turn {index} of session {chain[0].id!r} was deleted meanwhile"
        tx.commit(self._workspace.store, otherwise=lambda _: InvalidInput(gone))
        return made

    def find(self, note_id: str) -> Note | None:
        """Return the note with an id, or None."""
        subject = iris.note(validation.text(note_id, "the note's id"))
        quads = about(self._workspace.store, subject)
        return note_of(subject, quads) if quads else None

    def get(self, note_id: str) -> Note:
        """Return the note with an id; raise `InvalidInput` where there is none."""
        found = self.find(note_id)
        if found is None:
            raise InvalidInput(f"there is no note {note_id!r}; `trails notes SESSION` lists those on a session's turns")
        return found

    def list(self, session: names.Name, index: int | None = None) -> _Notes:
        """Return the notes on a session's turns, or on one of them, in order of index and then of time.

        `session` is an id or an IRI; inherited turns count. Raises `InvalidInput` where there is no turn `index`.
        """
        reader = self._workspace.reader
        chain = names.find_lineage(self._workspace, session)
        self._workspace.note_read("notes", chain[0].id)
        if index is not None:
            turn = annotation_kinds.annotated_turn(reader, chain, index)
            return annotation_kinds.notes_on(self._workspace.store, turn.digest)
        return annotation_kinds.notes_in(self._workspace.store, reader, chain)

    def remove(self, note_id: str, *, by: str | None = None) -> Note:
        """Remove a note and return what it was; a record stays of who removed it when, and nothing of its text.

        The text stays in the store's files until `vacuum`, and in backups. `by` is as for `add`. Raises `InvalidInput`
        where there is no such note.
        """
        gone = self.get(note_id)
        remove_annotation(self._workspace, gone, by)
        return gone


_Tags = list[Tag]  # inside the class, `list` is the method


class Tags(Facet, public=True, reached="store.tags"):
    """The tags of a store: `store.tags`.

    A tag names the first turns of a session's transcript, up to an index, with the digest of the last of them. It is
    not moved by what is appended afterwards, nor by `detach`.
    """

    def add(self, name: str, ref: str, *, by: str | None = None) -> Tag:
        """Make a tag and return it; making the same again changes nothing and returns the one that is there.

        `name` has 1 to 64 characters without spaces or "@", and is no session's id or label. `ref` is a session's id,
        IRI or label, which stands for all the turns that are stored, or another tag, or such a name with "@" and how
        many turns of it the tag stands for (0 to all of them). `by` names who makes it, as for `Repository.delete`.

        Raises `InvalidInput` for a name that is in use for something else, an index out of range, or bad characters.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.append("user", "Soon")
        ...     written = plan.persist()
        ...     tag = store.tags.add("v1", "plan@1")
        ...     tag.session_id, tag.length, store.tags.get("v1") == tag
        ('plan', 1, True)
        """
        wanted = validation.tag_name(name)
        author = self._workspace.who(by)
        target = names.parse_revision(self._workspace, ref)
        reader = self._workspace.reader
        chain = reader.lineage(target.session_id)
        length, last = _head(reader, chain, target.end)
        made = Tag(
            name=wanted,
            session_id=chain[0].id,
            length=length,
            digest=digests.GENESIS if last is None else last.digest,
            author_iri=author,
            time=datetime.now(UTC),
        )
        return self._add(made, last) if self.find(wanted) is None else self._same(made)

    def _add(self, made: Tag, last: Turn | None) -> Tag:
        if refs.find_ref(self._workspace.store, made.name) is not None:
            raise InvalidInput(f"{made.name!r} is the name of a ref; choose another name for the tag")
        names.refuse_taken(self._workspace, made.name)
        reader = self._workspace.reader
        tx = Transaction(reader)
        tx.session(made.session_id)
        if last is not None:
            tx.require([turn_type(last)], lambda _: reader.not_found(made.session_id))
        self._forbid_name(tx, made.name)
        tx.new(tag_quads(made))
        tx.add([author_type(made.author_iri)])
        tx.log(log_leaves.row_states("change", [made.session_id]))
        try:
            tx.commit(self._workspace.store)
        except PreconditionFailed:  # another writer was first
            return self._same(made)
        return made

    @staticmethod
    def _forbid_name(tx: Transaction, name: str) -> None:
        """Let a commit happen only while no session has a tag's name: what was looked up may have changed since."""
        taken = InvalidInput(f"{name!r} is by now the name of a session; choose another name for the tag")
        tx.forbid((None, vocab.LABEL, Literal(name), vocab.CATALOG), lambda _: taken)
        if validation.is_session_id(name):
            tx.forbid((NamedNode(iris.session(name)), vocab.TYPE, vocab.SESSION, vocab.CATALOG), lambda _: taken)

    def _same(self, made: Tag) -> Tag:
        """Return the tag that is there, if it names the same."""
        stored = self.get(made.name)
        if (stored.session_id, stored.length, stored.digest) != (made.session_id, made.length, made.digest):
            raise InvalidInput(
                f"the tag {made.name!r} names {stored.session_id!r} at {stored.length} and never anything else; choose "
                "another name, or remove it first"
            )
        return stored

    def find(self, name: str) -> Tag | None:
        """Return the tag with a name or an IRI, or None."""
        return annotation_kinds.find_tag(self._workspace.store, name)

    def get(self, name: str) -> Tag:
        """Return the tag with a name; raise `InvalidInput` where there is none."""
        found = self.find(name)
        if found is None:
            near = names.hint(name, lambda: [tag.name for tag in self.list()])
            raise InvalidInput(f"there is no tag {name!r}{near}; `trails tags` lists those there are")
        return found

    def list(self, session: names.Name | None = None) -> _Tags:
        """Return the tags of one session (an id or an IRI), or of all, by name."""
        wanted = None if session is None else names.find_record(self._workspace, session).id
        return annotation_kinds.tags(self._workspace.store, wanted)

    def remove(self, name: str, *, by: str | None = None) -> Tag:
        """Remove a tag and return what it was; the turns stay, and so does a record of who removed it when.

        The name may then be used again. `by` is as for `add`. Raises `InvalidInput` where there is no such tag.
        """
        gone = self.get(name)
        remove_annotation(self._workspace, gone, by)
        return gone


def _head(reader: Reader, chain: tuple[SessionRecord, ...], length: int | None) -> tuple[int, Turn | None]:
    """Return how many turns a tag stands for, and the last of them."""
    count = reader.length(chain) if length is None else length
    return count, annotation_kinds.annotated_turn(reader, chain, count - 1) if count else None
