"""Write what several sessions have to store in one commit: their turns, new sessions and forks, labels and refs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Self, TypeVar, cast

from trails.errors import InvalidInput, PendingTurnsWarning
from trails.handles import Handle
from trails.history import ref_moves
from trails.history.joint_commit import Part, commit_together
from trails.history.lookup import names
from trails.history.records import refs
from trails.history.workspace import Workspace
from trails.model import validation
from trails.session.checkout import Checkout
from trails.session.refs import find_place
from trails.session.session import Session
from trails.suggestions import calling_line

_Item = TypeVar("_Item", Session, Checkout)
_OPEN: Final[ContextVar[tuple[Batch, ...]]] = ContextVar("open batches", default=())
_NAME: Final = "a batch (store.commit())"


class Batch(Handle, public=True):
    """What is written in one commit at the end of a `with` block: see `Repository.commit`."""

    def __init__(self, workspace: Workspace) -> None:
        """Not for callers: `Repository.commit` makes it."""
        self._workspace = workspace
        self._items: list[Session | Checkout] = []
        self._changes: list[Callable[[], Part]] = []
        self._refs: set[str] = set()
        self._made_at: tuple[str, int] | None = calling_line()
        """Where it was asked for, until it is used, rightly or not."""
        self._is_open: bool | None = None
        """None before the block, False after it."""
        self.written = 0
        """How many turns were written, once the block has ended."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def open(self) -> None:
        """Begin the block (internal)."""
        self._made_at = None
        if self._is_open is not None:
            raise InvalidInput("a batch is one block: ask store.commit() for another one")
        self._workspace.check_writable()
        if any(batch._workspace is self._workspace for batch in _OPEN.get()):
            raise InvalidInput(
                "this block is in the block of another batch of the same store: add to that one, it is one commit already"
            )
        _OPEN.set((*_OPEN.get(), self))
        self._is_open = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write all of it in one commit; after an error in the block, nothing: what is pending stays so."""
        try:
            if error is None:
                self.write()
        finally:
            self.close()

    def write(self) -> None:
        """Write all of it (internal)."""
        self.written = commit_together(self._workspace.store, self._parts)

    def close(self) -> None:
        """Let go of the sessions (internal)."""
        _OPEN.set(tuple(batch for batch in _OPEN.get() if batch is not self))
        self._is_open = False
        for item in self._items:
            if isinstance(item, Checkout):
                item.leave_batch()
            else:
                item.worktree.held, item.worktree.is_in_batch = None, False

    def _parts(self) -> list[Part]:
        found = [part for item in self._items if (part := _part_of(item)) is not None]
        return [*found, *(make() for make in self._changes)]

    def __del__(self) -> None:
        """Warn of a batch that no block used: who has it wrote nothing, and may believe otherwise."""
        if getattr(self, "_made_at", None) is not None:
            warnings.warn_explicit(
                "store.commit() alone writes nothing: it begins a block, `with store.commit() as batch:`; a session's own "
                "turns are stored by its persist()",
                PendingTurnsWarning,
                *cast("tuple[str, int]", self._made_at),
            )

    def __repr__(self) -> str:
        return f"<Batch of {len(self._items)} sessions and {len(self._changes)} changes>"

    # --- what is written

    def add(self, item: _Item) -> _Item:
        """Take a session, new or stored, or a checkout in; return it. All that it has pending at the end of the block is written.

        Until then, its `persist` is refused, and a checkout's moves wait. A fork of a session that is taken in need not wait
        for that to be stored: take it in, too. Raises `InvalidInput` for a session of another store, and for one that the
        batch or something else stores already.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     with store.commit() as batch:
        ...         plan = batch.add(store.create(id="plan")); _ = plan.append("user", "Plan a trip")
        ...         trial = batch.add(plan.fork(id="trial")); _ = trial.append("assistant", "By train?")
        ...     batch.written, [record.id for record in store.list()], len(trial)
        (2, ['trial', 'plan'], 2)
        """
        self._check_open()
        if isinstance(item, Checkout):
            self._take_ref(item.name)
            tree = item.enter_batch(self._workspace)
        elif isinstance(item, Session):
            tree = item.worktree
            if tree.workspace is not self._workspace:
                raise InvalidInput(f"session {tree.id!r} is of another store: a commit is one store's")
            if tree.held is not None:
                raise InvalidInput(f"the turns of session {tree.id!r} are stored by {tree.held}, and not by this batch")
        else:
            raise InvalidInput(f"a batch takes a Session or a Checkout in, not {item!r:.80}: load the session first")
        other = next((each for each in self._items if _id_of(each) == tree.id), None)
        if other is not None:
            if isinstance(item, Checkout):
                item.leave_batch()
            raise InvalidInput(f"session {tree.id!r} is in this batch already, by another handle: append to that one")
        if isinstance(item, Session):
            tree.held, tree.is_in_batch = _NAME, True
        self._items.append(item)
        return item

    def set_label(self, session: names.Name, label: str | None, *, by: str | None = None) -> None:
        """Give a session a label with the same commit, or take it away with None, as `Repository.set_label` does.

        `session` may be a new one that this batch stores.
        """
        self._check_open()
        wanted = None if label is None else validation.label(label)
        if isinstance(session, Session) and session in self._items and not session.worktree.stored:
            session.worktree.change_record(label=wanted)
            return
        record = names.find_record(self._workspace, session)
        deed = self._workspace.deed(by)
        tx, changed = names.label_transaction(self._workspace, record, wanted, deed)
        if record.label != wanted:
            self._changes.append(lambda: Part(tx, otherwise=changed))

    def set_ref(
        self, name: str, session: Session | names.Name, at: int | None = None, *, by: str | None = None
    ) -> None:
        """Make or move a ref with the same commit, as `store.refs.set` does; `session` may be one that this batch stores."""
        self._check_open()
        wanted = validation.ref_name(name)
        self._take_ref(wanted)
        store, deed = self._workspace.store, self._workspace.deed(by)
        before = refs.find_ref(store, wanted)
        tree = session.worktree if isinstance(session, Session) and session in self._items else None
        if at is not None and tree is not None:
            at = validation.fork_index(at, len(tree.turns), tree.id)

        def part() -> Part:
            if tree is None:
                place = find_place(self._workspace, session, at)
            else:
                place = (tree.id, at, None if at is None else tree.turns.below(at).head)
            tx, _ = ref_moves.move_transaction(
                self._workspace.reader,
                store,
                before,
                place,
                deed,
                name=wanted,
                is_new=tree is not None and not tree.stored,
            )
            return Part(tx)

        self._changes.append(part)

    def _take_ref(self, name: str) -> None:
        if name in self._refs:
            raise InvalidInput(f"the ref {name!r} is in this batch already, and moves once in a commit")
        self._refs.add(name)

    def _check_open(self) -> None:
        if not self._is_open:
            self._made_at = None
            raise InvalidInput("a batch takes something in within its block: with store.commit() as batch: ...")


def _id_of(item: Session | Checkout) -> str:
    return item.session_id if isinstance(item, Checkout) else item.id


def _part_of(item: Session | Checkout) -> Part | None:
    """Return what a handle has to write, or None where that is nothing."""
    if isinstance(item, Checkout):
        return item.part()
    return Part(tree=item.worktree) if item.worktree.has_news else None
