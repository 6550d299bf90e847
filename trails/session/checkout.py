"""Work on the session that a ref stands for: append, take turns back, go on from an earlier one.

A turn that is taken back stays where it is, and the ref is moved before it: one small commit. What is then appended goes to a
fork, which is stored in one commit with the ref's next move. The fork is one of the session that owns the last turn before it,
so taking back and appending again makes no chain of forks.
"""

from __future__ import annotations

import random
import time as clocks
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count as counting
from typing import Any, Final, TypeVar

from trails.errors import HeadConflict, InvalidInput
from trails.handles import Handle
from trails.history import ref_moves, squash
from trails.history.joint_commit import Part, commit_together
from trails.history.pending_session import Worktree
from trails.history.records import refs
from trails.history.transcript import Transcript, Turns
from trails.history.workspace import Workspace
from trails.integrity import digests
from trails.model import iris, validation
from trails.model.values import Turn
from trails.rdf.ref_records import Ref
from trails.session.session import Session, load_session
from trails.store.contract import PreconditionFailed
from trails.store.embedded import EmbeddedStore

_TRIES: Final = 100
_PAUSE: Final = 0.002
"""Seconds that `update` waits at most after the first conflict; a little longer after each further one."""
_Answer = TypeVar("_Answer")


class Checkout(Handle, public=True):
    """The transcript that a ref stands for, to be read and gone on with. Made by `Repository.checkout`.

    What is appended stays in memory until `persist`; used with `with`, it is persisted where the block ends. Each move of the
    ref is stored at once. Another writer who moves the ref, or appends, makes `persist` and moves raise `HeadConflict`.
    """

    def __init__(self, workspace: Workspace, name: str, ref: Ref | None, named: Session) -> None:
        """Not for callers: `Repository.checkout` makes it. `ref` is None where the ref is made with its first commit."""
        self._workspace = workspace
        self._name = name
        self._ref = ref
        self._named = named
        """The session that the ref names."""
        self._kept = None if ref is None else ref.at
        """How many of its turns count; None: all."""
        self._fork: Session | None = None
        """Where what is appended goes, if turns of the session do not count."""
        self._is_moved_later = False
        """Whether moves wait for the next `persist`."""
        self._seen: tuple[int, object] | None = None
        """The state of the store when this handle last read it: nothing has to be read again while it is the same."""
        self._is_in_batch = False
        self._left: list[Session] = []
        """Forks that are given up once the next commit is done."""
        self._attempt: tuple[Ref, Session] | None = None
        """Where a commit moved the ref, if it was done: no answer came."""
        self._hold(named)

    def _hold(self, session: Session) -> None:
        session.worktree.held = f"the checkout of {self._name!r}"
        if not session.worktree.stored:
            session.worktree.discard_pending()  # one that gets no turns is not missed

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Persist what is new, also where the block raises; its error goes on, with what kept the turns from being stored."""
        if error is None:
            self.persist()
            return
        try:
            self.persist()
        except Exception as failure:  # noqa: BLE001 - the block's own error is the one that its caller waits for
            self._session.worktree.note_unstored(error, failure)

    # --- what it is

    @property
    def name(self) -> str:
        """The ref's name."""
        return self._name

    @property
    def ref(self) -> Ref | None:
        """The ref as it was last seen; None until the first `persist` makes it."""
        return self._ref

    @property
    def session(self) -> Session:
        """The session to which the next turn goes, with just the turns that count: to be read. It is stored by `persist` here."""
        return self._writing()

    @property
    def session_id(self) -> str:
        """The id of the session that the ref names."""
        return self._named.id

    @property
    def turns(self) -> Turns:
        """All turns that the ref stands for, pending ones last, as they are now."""
        return self._transcript().as_turns() if self._is_cut else self._session.turns

    def _transcript(self) -> Transcript:
        """Return the turns that count, as they are worked on."""
        if self._is_cut:
            return self._named.worktree.turns.below(self._kept or 0)
        return self._session.worktree.turns

    @property
    def _is_cut(self) -> bool:
        """Whether turns of the session do not count, and nothing was appended in their place."""
        return self._kept is not None and self._fork is None

    @property
    def _session(self) -> Session:
        return self._named if self._fork is None else self._fork

    @property
    def head(self) -> str:
        """The digest of the last turn; provisional while turns are pending."""
        return self._transcript().head

    @property
    def pending(self) -> int:
        """How many turns are appended and not persisted."""
        return 0 if self._is_cut else self._session.pending

    @property
    def system(self) -> str | None:
        """The text of the system prompt in force, or None."""
        return self._session.system

    def tail(self, count: int = 10) -> tuple[Turn, ...]:
        """Return the last `count` turns (0 or more; all where there are fewer), and read no others."""
        turns = self._transcript()
        return tuple(turns[max(0, len(turns) - validation.index(count, "count")) :])

    def __len__(self) -> int:
        return (self._kept or 0) if self._is_cut else len(self._session)

    def __iter__(self) -> Iterator[Turn]:
        """Yield the turns, as they are now: what is appended meanwhile is not among them."""
        return iter(self.turns)

    def __bool__(self) -> bool:
        """A checkout is there, also without turns."""
        return True

    def __repr__(self) -> str:
        pending = f", {self.pending} pending" if self.pending else ""
        return f"<Checkout {self._name!r} of {self._named.id!r}: {len(self)} turns{pending}>"

    # --- writing

    def append(self, role: str, content: Any = None, **options: Any) -> Turn:
        """Add a turn at the end and return it, as `Session.append` does, with its options; `persist` stores it.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     with store.checkout("main", create=True) as main:
        ...         turns = [main.append("user", "Plan a trip"), main.append("assistant", "Where to?")]
        ...     taken = main.pop()
        ...     turn = main.append("assistant", "By train?"); written = main.persist()
        ...     [turn.content for turn in store.checkout("main").turns], [turn.content for turn in taken]
        (['Plan a trip', 'By train?'], ['Where to?'])
        """
        return self._writing().append(role, content, **options)

    def append_message(self, message: object, **options: Any) -> Turn:
        """Add one message of an SDK as a turn, as `Session.append_message` does, with its options; `persist` stores it."""
        return self._writing().append_message(message, **options)

    def extend(self, messages: Iterable[object], **options: Any) -> tuple[Turn, ...]:
        """Add a history, each message as one turn, as `Session.extend` does; `persist` stores them."""
        return self._writing().extend(messages, **options)

    def discard_pending(self) -> int:
        """Forget the turns that were appended and not persisted; return how many."""
        discarded = 0 if self._is_cut else self._session.discard_pending()
        if self._fork is not None:
            self._fork = None
        return discarded

    def _writing(self) -> Session:
        """Return the session that the next turn goes to: a new fork, where turns of the one that the ref names don't count."""
        if self._is_cut:
            self._fork = Session(self._fork_at(self._kept or 0))
            self._hold(self._fork)
        return self._session

    def _fork_at(self, at: int) -> Worktree:
        """Return a fork for what comes after the first `at` turns; it is not stored. See `squash.find_fork_place`."""
        workspace, tree = self._workspace, self._named.worktree
        place, kept = squash.find_fork_place(tree.chain, at), tree.turns.below(at)
        parent = Worktree(workspace, place.above[0], ancestors=place.above[1:], turns=kept, stored=True)
        own = tree.record
        made = parent.child(
            place.start, turns=kept.below(place.start), principal=own.principal, agent=own.agent, meta=own.meta
        )
        prompt = workspace.reader.prompt(tree.chain, at=at)
        version = 0 if prompt is None else prompt.version
        if place.merged:
            made.make_copies = partial(squash.make_copies, workspace, place, kept, made.id, version)
            made.turns = kept.followed_by(())
            version = min(version, place.merged[-1].system_version)
        made.record = made.record.model_copy(update={"system_version": version, "expires": own.expires})
        return made

    def persist(self) -> int:
        """Write what is new in one commit, all or nothing; return the number of turns written.

        Raises `HeadConflict` when another writer moved the ref or appended: nothing is written, and nothing here is lost.
        Call `refresh` then, which puts the pending turns behind what the other one wrote, or use `update`.
        """
        if self._is_in_batch:
            if not self._has_news:
                return 0
            raise InvalidInput(f"the turns of the ref {self._name!r} are stored by a batch where its block ends")
        is_one_commit = self._has_news and self._attempt is None
        written = self._persist_news()
        store = self._workspace.store
        if is_one_commit and self._seen is not None and store.number == self._seen[0] + 1:  # nothing else came since
            self._seen = store.number, store.token
        return written

    def _persist_news(self) -> int:
        tree = self._session.worktree
        if self._ref is None or self._attempt is not None or tree is not self._named.worktree or self._is_cut:
            return commit_together(self._workspace.store, lambda: [part for part in [self.part()] if part is not None])
        if not tree.has_news:
            return 0
        tx = ref_moves.stay_transaction(self._workspace.store, self._ref)
        try:
            return tree.persist(tx.change(seen=tree.seen))
        except PreconditionFailed as failure:
            raise tx.error(failure) from failure

    def part(self) -> Part | None:
        """Return what there is to be written, None for nothing (internal)."""
        self._settle_lost()
        if self._ref is None or self._has_turns_to_store:
            session = self._session
            if self._ref is not None and session is self._named:
                return Part(ref_moves.stay_transaction(self._workspace.store, self._ref), session.worktree)
            place, tree = (session.id, None, None), session.worktree
            return self._moving(place, session, tree, is_new=not tree.stored)
        if self._kept == self._ref.at:
            return None
        at, turns = self._kept or 0, self._named.worktree.turns
        return self._moving((self._named.id, at, turns.digest_at(at - 1) if at else digests.GENESIS), self._named)

    @property
    def _has_news(self) -> bool:
        return self._ref is None or self._has_turns_to_store or self._kept != self._ref.at

    @property
    def _has_turns_to_store(self) -> bool:
        tree = self._session.worktree
        return not self._is_cut and bool(tree.pending or tree.has_new_prompts or (tree.stored and tree.has_news))

    def _moving(
        self,
        place: tuple[str, int | None, str | None],
        session: Session,
        tree: Worktree | None = None,
        *,
        is_new: bool = False,
    ) -> Part:
        """Return what moves the ref, while nobody went on from where it was, and stores the turns of a session with that."""
        workspace, named = self._workspace, self._named.worktree
        deed = workspace.deed(None)
        tx, after = ref_moves.move_transaction(
            workspace.reader, workspace.store, self._ref, place, deed, name=self._name, is_new=is_new
        )
        if self._ref is not None and self._ref.at is None:
            tx.forbid(named.next_turn, lambda _: self._grown())
        self._attempt = after, session
        seen = None if self._seen is None else self._seen[1]
        return Part(tx, tree, lambda: self._arrive(after, session), seen=seen)

    def _settle_lost(self) -> None:
        """Go where a commit of which no answer came has moved the ref, if it was done."""
        if self._attempt is not None and refs.find_ref(self._workspace.store, self._name) == self._attempt[0]:
            self._attempt[1].worktree.settle_lost()
            self._arrive(*self._attempt)

    def _arrive(self, ref: Ref, session: Session) -> None:
        for left in (*self._left, self._named):
            if left is not session or ref.at is not None:
                left.discard_pending()
        self._left.clear()
        self._ref, self._named, self._kept, self._fork, self._attempt = ref, session, ref.at, None, None

    # --- in a batch

    def enter_batch(self, workspace: Workspace) -> Worktree:
        """Let a batch of a store write what is new, and return the session that its turns go to now (internal)."""
        if workspace is not self._workspace:
            raise InvalidInput(f"the checkout of {self._name!r} is of another store: a commit is one store's")
        if self._is_in_batch:
            raise InvalidInput(f"the checkout of {self._name!r} is in a batch already")
        self._is_in_batch = self._is_moved_later = True
        return self._session.worktree

    def leave_batch(self) -> None:
        """Let the checkout store its turns and moves itself again (internal)."""
        self._is_in_batch = self._is_moved_later = False

    # --- taking turns back

    def pop(self, count: int = 1) -> tuple[Turn, ...]:
        """Take the last turns back, pending ones first, and return them, the oldest first; fewer where there are fewer.

        Stored turns stay in their session; the ref is moved before them, in one commit. Raises `HeadConflict` when another
        writer moved the ref or appended: nothing is taken back then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     with store.checkout("main", create=True) as main: _ = main.append("user", "a"), main.append("user", "b")
        ...     [turn.content for turn in main.pop()], len(main), len(store.load("main"))
        (['b'], 1, 2)
        """
        taken = self.tail(count)
        self.rewind(len(self) - len(taken))
        return taken

    def clear(self) -> None:
        """Take all turns back, as `pop` does."""
        self.rewind(0)

    def rewind(self, at: int) -> None:
        """Take all turns back from an index on, as `pop` does: 0 to all of them stay.

        Raises `InvalidInput` for an index past the end, and `HeadConflict` as `pop` does.
        """
        end = validation.fork_index(at, len(self), self._named.id)
        stored = self._kept if self._kept is not None else self._named.worktree.first_pending
        if end < stored:
            self._move_back(end)
            return
        for _ in range(len(self) - end):
            self._session.worktree.take_back()

    def _move_back(self, at: int) -> None:
        """Let stored turns from an index on count no more, and forget the pending ones; the move is stored now or later."""
        before = self._kept, self._fork
        if self._fork is not None:
            self._left.append(self._fork)
        self._kept, self._fork = at, None
        if self._is_moved_later:
            return
        try:
            self.persist()
        except BaseException:
            self._kept, self._fork = before
            self._left.clear()
            raise

    def _grown(self) -> HeadConflict:
        return HeadConflict(
            f"session {self._named.id!r}, for which the ref {self._name!r} stands, was appended to by another writer; nothing "
            "was written. Call refresh() and do it again",
            expected=self.head,
            actual=None,
        )

    # --- others

    def refresh(self) -> int:
        """See where the ref is by now, and what it stands for; return how many turns there are that were not here.

        Pending turns stay pending, behind those. Raises `InvalidInput` where the ref was removed, and `StoreFailed` if a
        store in PostgreSQL cannot be reached.
        """
        self._workspace.catch_up()
        state = self._store_state()
        if state is not None and state == self._seen:
            return 0
        ref = refs.find_ref(self._workspace.store, self._name)
        if ref is None:
            if self._ref is None:
                return 0
            raise InvalidInput(f"the ref {self._name!r} was removed; store.refs.set() makes it again")
        is_whole = self._seen is not None and state is not None and self._seen[1] == state[1]
        self._seen = state
        if ref == self._ref and is_whole:  # nothing was removed since
            return 0 if ref.at is not None else self._named.refresh()
        before, drafts = self._stored_turns(), () if self._is_cut else self._session.worktree.drafts
        named = load_session(self._workspace, iris.session(ref.session_id), last=0)
        made = Checkout(self._workspace, self._name, ref, named)
        if drafts:
            made._writing().worktree.append_again(drafts)
        if drafts:
            self._session.discard_pending()
        self._ref, self._named, self._kept, self._fork = made._ref, made._named, made._kept, made._fork
        stored = self._stored_turns()
        return len(stored) - _shared(before, stored)

    def _store_state(self) -> tuple[int, object] | None:
        """Return the number of the store's last commit, of whatever process, and the token of its last removal."""
        store = self._workspace.store
        return (store.poll(), store.token) if isinstance(store, EmbeddedStore) else None

    def _stored_turns(self) -> Transcript:
        turns = self._transcript()
        return turns if self._is_cut else turns.below(self._session.worktree.first_pending)

    def update(self, change: Callable[[Checkout], _Answer]) -> _Answer:
        """Refresh, let a function append and take back, write all that in one commit, and return what it returned.

        After a conflict, the function is called once more: it must do all of its work anew. Raises `InvalidInput` where turns
        are pending already, `HeadConflict` after 100 conflicts, and whatever the function raises. What it did is forgotten then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     main = store.checkout("main", create=True)
        ...     turn = main.update(lambda main: main.append("user", f"turn {len(main)}"))
        ...     turn = main.update(lambda main: (main.pop(), main.append("user", "another"))[1])
        ...     [turn.content for turn in main], main.ref.moves
        (['another'], 2)
        """
        if self.pending:
            raise InvalidInput(
                f"the checkout of {self._name!r} has {self.pending} pending turns: persist() or discard_pending() first"
            )
        for attempt in counting(1):
            self.refresh()
            try:
                return self._at_once(change)
            except HeadConflict:
                if attempt == _TRIES:
                    raise
            clocks.sleep(random.random() * _PAUSE * min(attempt, 20))  # noqa: S311 - no secret
        raise AssertionError  # the loop has no end

    def _at_once(self, change: Callable[[Checkout], _Answer]) -> _Answer:
        """Store what a function does in one commit; where that fails, forget it."""
        if self._is_in_batch:
            raise InvalidInput(
                f"the checkout of {self._name!r} is in a batch, which is one commit already: no update()"
            )
        kept, fork = self._kept, self._fork
        self._is_moved_later = True
        try:
            answer = change(self)
            self.persist()
        except BaseException:
            for left in (*self._left, self._session):
                left.discard_pending()
            self._left.clear()
            self._kept, self._fork = kept, fork
            raise
        finally:
            self._is_moved_later = False
        return answer


def _shared(one: Transcript, other: Transcript) -> int:
    """Return how many turns two transcripts have in common: a digest stands for all turns before it."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.digest_at(middle - 1) == other.digest_at(middle - 1):
            low = middle
        else:
            high = middle - 1
    return low
