"""Tags: names for a session at an index that stay where they are until they are taken away."""

from __future__ import annotations

from datetime import UTC, datetime

from pyoxigraph import Literal, NamedNode

from trails import iris, validate, vocab
from trails.errors import InvalidInput
from trails.handles import Handle
from trails.integrity import digests
from trails.model import SessionRecord, Tag, Turn
from trails.nearest import did_you_mean
from trails.plumbing import leaves, marks, names, refs
from trails.plumbing.reader import Reader
from trails.plumbing.transaction import Transaction
from trails.plumbing.workspace import Workspace
from trails.records.annotations import tag_quads
from trails.records.deeds import author_type
from trails.records.turns import turn_type
from trails.session import unmarking
from trails.store.contract import PreconditionFailed

_Tags = list[Tag]  # inside the class, `list` is the method


class Tags(Handle, public=True):
    """The tags of a store: `store.tags`.

    A tag names the first turns of a session's transcript, up to an index, with the digest of the last of them. It is
    not moved by what is appended afterwards, nor by `detach`.
    """

    def __init__(self, workspace: Workspace, owner: object) -> None:
        """Not for callers: `store.tags` is there."""
        self._workspace = workspace
        self._owner = owner  # a store that nobody holds is closed

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
        wanted = validate.tag_name(name)
        author = self._workspace.who(by)
        target = refs.place(self._workspace, ref)
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
        self._refuse_taken(made.name)
        reader = self._workspace.reader
        tx = Transaction(reader)
        tx.session(made.session_id)
        if last is not None:
            tx.require([turn_type(last)], lambda _: reader.not_found(made.session_id))
        self._forbid_name(tx, made.name)
        tx.new(tag_quads(made))
        tx.add([author_type(made.author_iri)])
        tx.log(leaves.rows("change", [made.session_id]))
        try:
            tx.commit(self._workspace.store)
        except PreconditionFailed:  # another writer was first
            return self._same(made)
        return made

    def _refuse_taken(self, name: str) -> None:
        reader = self._workspace.reader
        if reader.labelled(name) is not None:
            raise InvalidInput(f"{name!r} is the label of session {reader.labelled(name)!r}; choose another name")
        if not validate.is_session_id(name):
            return
        if reader.records([name]):
            raise InvalidInput(f"{name!r} is the id of a session; choose another name for the tag")

    @staticmethod
    def _forbid_name(tx: Transaction, name: str) -> None:
        """Let a commit happen only while no session has a tag's name: what was looked up may have changed since."""
        taken = InvalidInput(f"{name!r} is by now the name of a session; choose another name for the tag")
        tx.forbid((None, vocab.LABEL, Literal(name), vocab.CATALOG), lambda _: taken)
        if validate.is_session_id(name):
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
        return marks.find_tag(self._workspace.store, name)

    def get(self, name: str) -> Tag:
        """Return the tag with a name; raise `InvalidInput` where there is none."""
        found = self.find(name)
        if found is None:
            near = did_you_mean(name, [tag.name for tag in self.list()])
            raise InvalidInput(f"there is no tag {name!r}{near}; `trails tags` lists those there are")
        return found

    def list(self, session: names.Name | None = None) -> _Tags:
        """Return the tags of one session (an id or an IRI), or of all, by name."""
        wanted = None if session is None else names.record(self._workspace, session).id
        return marks.tags(self._workspace.store, wanted)

    def remove(self, name: str, *, by: str | None = None) -> Tag:
        """Remove a tag and return what it was; the turns stay, and so does a record of who removed it when.

        The name may then be used again. `by` is as for `add`. Raises `InvalidInput` where there is no such tag.
        """
        gone = self.get(name)
        unmarking.take_away(self._workspace, gone, by)
        return gone


def _head(reader: Reader, chain: tuple[SessionRecord, ...], length: int | None) -> tuple[int, Turn | None]:
    """Return how many turns a tag stands for, and the last of them."""
    if length is None:
        turns = reader.turns(chain)
        return len(turns), turns[-1] if turns else None
    if length == 0:
        return 0, None
    last = marks.turn_at(reader, chain, length - 1)
    if last is None:
        raise InvalidInput(f"session {chain[0].id!r} has fewer turns than {length}, so it cannot be tagged there")
    return length, last
