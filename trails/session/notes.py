"""Notes: what somebody writes about a turn afterwards, beside the chain and never in it."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from trails import iris, validate
from trails.errors import InvalidInput
from trails.handles import Handle
from trails.integrity import digests
from trails.model import Note
from trails.plumbing import leaves, marks, names
from trails.plumbing.transaction import Transaction
from trails.plumbing.workspace import Workspace
from trails.records.annotations import note_of, note_quads
from trails.records.deeds import author_type
from trails.records.turns import turn_type
from trails.session import unmarking

_Notes = list[Note]  # inside the class, `list` is the method


class Notes(Handle, public=True):
    """The notes of a store: `store.notes`.

    A note is about one turn, and is seen from every session whose transcript has that turn or a copy of it: forks that
    inherit it, and what `detach` and `flatten` copied.
    """

    def __init__(self, workspace: Workspace, owner: object) -> None:
        """Not for callers: `store.notes` is there."""
        self._workspace = workspace
        self._owner = owner  # a store that nobody holds is closed

    def add(self, session: names.Name, index: int, text: str, *, by: str | None = None) -> Note:
        """Write a note on a turn and return it; stored at once. A turn may have many.

        `session` is an id or an IRI, `index` a turn of its transcript, inherited ones included. `by` names who writes
        it, as for `Repository.delete`.

        Raises `InvalidInput` where there is no such turn or the text is empty.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); written = plan.persist()
        ...     note = store.notes.add("plan", 0, "Which trip?", by="bob")
        ...     [(note.index, note.author, note.text) for note in store.notes.list("plan")]
        [(0, 'bob', 'Which trip?')]
        """
        if not validate.text(text, "a note").strip():
            raise InvalidInput("a note needs a text that is more than spaces")
        author = self._workspace.who(by)
        reader = self._workspace.reader
        chain = names.lineage(self._workspace, session)
        turn = marks.turn_at(reader, chain, validate.index(index, "index"))
        if turn is None:
            raise InvalidInput(f"session {chain[0].id!r} has no turn {index} that is stored")
        salt = digests.new_salt()
        made = Note(
            id=secrets.token_hex(6),
            session_id=turn.session_id,
            index=turn.index,
            turn_digest=turn.digest,
            text=text,
            author_iri=author,
            time=datetime.now(UTC),
            digest=digests.salted("note", salt, text),
            salt=salt,
        )
        tx = Transaction()
        tx.session(made.session_id)
        tx.require([turn_type(turn)])
        tx.new(note_quads(made))
        tx.add([author_type(made.author_iri)])
        tx.log(leaves.rows("change", [made.session_id]))
        gone = f"turn {index} of session {chain[0].id!r} was deleted meanwhile"
        tx.commit(self._workspace.store, otherwise=lambda _: InvalidInput(gone))
        return made

    def find(self, note_id: str) -> Note | None:
        """Return the note with an id, or None."""
        subject = iris.note(validate.text(note_id, "the note's id"))
        quads = marks.about(self._workspace.store, subject)
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
        chain = names.lineage(self._workspace, session)
        if index is not None:
            turn = marks.turn_at(reader, chain, validate.index(index, "index"))
            if turn is None:
                raise InvalidInput(f"session {chain[0].id!r} has no turn {index} that is stored")
            return marks.notes_on(self._workspace.store, turn.digest)
        return marks.notes_in(self._workspace.store, reader, chain)

    def remove(self, note_id: str, *, by: str | None = None) -> Note:
        """Remove a note and return what it was; a record stays of who removed it when, and nothing of its text.

        The text stays in the store's files until `vacuum`, and in backups. `by` is as for `add`. Raises `InvalidInput`
        where there is no such note.
        """
        gone = self.get(note_id)
        unmarking.take_away(self._workspace, gone, by)
        return gone
