"""Set, move and remove refs: names that move, as git's branches do.

A ref stands for a session, or for the first turns of its transcript. Each move is one commit, refused if another writer
moved the ref meanwhile, and stays on record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from trails.errors import InvalidInput
from trails.history import ref_moves
from trails.history.lookup import names
from trails.history.records import refs
from trails.history.workspace import Facet, Workspace
from trails.integrity import digests
from trails.model import lineage, validation
from trails.rdf.ref_records import Ref, RefMove

_ANYWHERE: Final = "anywhere"
Expected = Ref | None | Literal["anywhere"]
"""Where a ref must be to be moved: as it was read; None: nowhere yet; "anywhere": wherever it is."""

_Refs = list[Ref]  # inside the class, `list` is the method
_Moves = list[RefMove]


class Refs(Facet, public=True, reached="store.refs"):
    """The refs of a store: `store.refs`.

    A ref's name is no tag's, and no session's id or label. `Repository.load` takes it.
    """

    def set(
        self,
        name: str,
        session: names.Name,
        at: int | None = None,
        *,
        expected: Expected = _ANYWHERE,
        by: str | None = None,
    ) -> Ref:
        """Make a ref, or move it to another place, in one commit; return it. Where it is there already, nothing is written.

        `name` has 1 to 200 characters, as a session's id. `session` is any name of a session, or such a name with
        `@` and an end; `at` is how many turns of its transcript the ref stands for, 0 to all of them. By default the ref
        follows the session's end, also as that grows. `expected` is the ref as it
        was read, or None where there must be none yet. `by` names who moves it, as for `Repository.delete`.

        Raises `HeadConflict` if the ref is elsewhere, or another writer moves it first, and `InvalidInput` for a name that is
        in use for something else or an index out of range. Nothing is written then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="plan"); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     _ = s.persist(); first = store.refs.set("main", "plan"); second = store.refs.set("main", "plan", 1)
        ...     first.revision, second.revision, [move.revision for move in store.refs.history("main")]
        ('plan', 'plan@1', ['plan', 'plan@1'])
        """
        wanted = validation.ref_name(name)
        before = refs.find_ref(self._workspace.store, wanted)
        if isinstance(expected, Ref) and expected.name != wanted:
            raise InvalidInput(f"expected= is the ref {expected.name!r}, not {wanted!r}")
        if expected != _ANYWHERE and expected != before:  # noqa: PLR1714 - so that type checkers know it
            raise ref_moves.conflict_error(self._workspace.store, expected, wanted)
        place = find_place(self._workspace, session, at)
        if before is not None and (before.session_id, before.at) == place[:2]:
            return before
        tx, after = ref_moves.move_transaction(
            self._workspace.reader, self._workspace.store, before, place, self._workspace.deed(by), name=wanted
        )
        tx.commit(self._workspace.store)
        return after

    def move(
        self,
        name: str,
        session: names.Name,
        at: int | None = None,
        *,
        expected: Expected = _ANYWHERE,
        by: str | None = None,
    ) -> Ref:
        """Move a ref that is there, as `set` does; raise `InvalidInput` where there is none."""
        return self.set(name, session, at, expected=self.get(name) if expected == _ANYWHERE else expected, by=by)

    def find(self, name: str) -> Ref | None:
        """Return the ref with a name, or None."""
        return refs.find_ref(self._workspace.store, validation.text(name, "the ref's name"))

    def get(self, name: str) -> Ref:
        """Return the ref with a name; raise `InvalidInput` where there is none."""
        found = self.find(name)
        if found is None:
            near = names.hint(name, lambda: [ref.name for ref in self.list()])
            way = f"load({name!r}) opens a session, and checkout({name!r}, create=True) begins a ref"
            raise InvalidInput(f"there is no ref {name!r}{near}; `trails refs` lists those there are; {way}")
        return found

    def list(self, session: names.Name | None = None) -> _Refs:
        """Return the refs that stand for one session (any name of it), or all, by name."""
        wanted = None if session is None else names.find_record(self._workspace, session).id
        return refs.read_refs(self._workspace.store, wanted)

    def history(self, name: str) -> _Moves:
        """Return all moves of a ref, the first one first; raise `InvalidInput` where there is no such ref."""
        return refs.read_moves(self._workspace.store, self.get(name).name)

    def remove(self, name: str, *, expected: Ref | None = None, by: str | None = None) -> Ref:
        """Remove a ref and return what it was; the sessions stay. The name may then be used again.

        `expected` is the ref as it was read, and `by` as for `set`. Raises `InvalidInput` where there is no such ref, and
        `HeadConflict` where it is elsewhere.
        """
        gone = expected or self.get(name)
        tx = ref_moves.removal_transaction(self._workspace.store, gone, self._workspace.deed(by))
        tx.commit(self._workspace.store)
        return gone

    def __getitem__(self, name: str) -> Ref:
        """Return the ref with a name, as `get` does."""
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a ref with a name."""
        return isinstance(name, str) and self.find(name) is not None

    def __iter__(self) -> Iterator[Ref]:
        return iter(self.list())

    def __len__(self) -> int:
        """Return how many refs there are."""
        return len(self.list())

    def __bool__(self) -> bool:
        """The refs of a store are there, also where there are none."""
        return True


def find_place(workspace: Workspace, session: names.Name, at: int | None) -> tuple[str, int | None, str | None]:
    """Return where a ref is to be: a stored session's id, how many of its turns, and the digest of the last of these."""
    named = names.parse_revision(workspace, names.name_text(session))
    chain = workspace.reader.lineage(named.session_id)
    at = named.end if at is None else at
    if at is None:
        return chain[0].id, None, None
    end = validation.fork_index(at, workspace.reader.length(chain), chain[0].id)
    digest = workspace.reader.digest_in(lineage.segments(chain, end), end - 1) if end else digests.GENESIS
    return chain[0].id, end, digest
