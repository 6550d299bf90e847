"""The open store as its users see it: sessions made, found, replayed, queried, deleted and verified."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from importlib import import_module
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload
from uuid import uuid4

from pyoxigraph import Triple

from trails.display.progress import Progress
from trails.errors import InvalidInput
from trails.handles import Handle, verb
from trails.history import encryption, near_copies, transaction
from trails.history.lookup import forest, names, search, summaries, usage_statistics
from trails.history.lookup.forest import Forest
from trails.history.lookup.model_prices import prices_of
from trails.history.lookup.names import Name
from trails.history.lookup.summaries import Page
from trails.history.lookup.usage_statistics import Statistics
from trails.history.pending_session import Worktree, new_prompt, record_fields
from trails.history.records import payloads
from trails.history.removal import deletion, derived_erasure, detach, redaction, text_erasure
from trails.history.removal.deletion import Pruning
from trails.history.removal.derived_erasure import DerivedErasure
from trails.history.removal.redaction import Redaction
from trails.history.removal.text_erasure import TextRedaction
from trails.history.transaction import check_free_names
from trails.history.workspace import Workspace
from trails.integrity.erasure_receipts import ErasureReceipt, check_size, sign_receipt
from trails.integrity.key_ring import Keys
from trails.integrity.signed_notes import signer_key
from trails.model import iris, validation
from trails.model.values import PayloadReference, SessionRecord
from trails.rdf import query_files, query_guard
from trails.rdf.activity_records import Deed
from trails.rdf.session_records import DEFAULT_AGENT, DEFAULT_PRINCIPAL
from trails.rows import query_twins
from trails.rows.usage_sums import By
from trails.session import maintenance, presentation, scoring
from trails.session.batch import Batch
from trails.session.checkout import Checkout
from trails.session.console import Console
from trails.session.holds import Holds
from trails.session.maintenance import Maintenance
from trails.session.proofs import Proofs
from trails.session.refs import Refs
from trails.session.registers import Registers
from trails.session.retention import Retention
from trails.session.scoring import ScoreRef
from trails.session.session import (
    Session,
    context_window_of,
    flatten_to_session,
    load_session,
    parse_place,
    replay_session,
)
from trails.session.tags_notes import Notes, Tags
from trails.store.contract import QuadStore, Result, Solutions
from trails.store.embedded import EmbeddedStore, ViewStore, at_one_moment
from trails.store.index.historical_store import PastStore
from trails.store.queries import user_queries
from trails.store.queries.query_pool import NO_LIMITS, QueryLimits, Rows

if TYPE_CHECKING:
    from trails.compare import Diff
    from trails.compare.agreement import Agreement
    from trails.compare.alignment import Alignment
    from trails.compare.comparison import Comparison
    from trails.context import Context
    from trails.context.messages import Counter
    from trails.history.as_of.past_view import AsOf
    from trails.history.watch import Callback, Changes, Feed, Subscription
    from trails.integrity.signed_notes import Checkpoint
    from trails.rdflib_view import GraphView, StoreView
    from trails.session.recorded_calls import Player
    from trails.session.scoring import Scorer, Scoring

_Ids = list[str]  # inside the class, `list` is the method
_Refs = list[ScoreRef | None]
_Triples = list[Triple]


class Repository(Handle, public=True, reached="store"):
    """A store of sessions. Get one from `trails.open`, and close it with `with` or `close`."""

    def __init__(
        self,
        store: QuadStore,
        *,
        actor: str | None = None,
        record_reads: bool = False,
        scan: str | None = None,
        limits: QueryLimits = NO_LIMITS,
        keys: Keys | None = None,
    ) -> None:
        """Wrap a store of quads; `trails.open` does this for the stores that ship, and gives the IRI of its `actor`.

        `limits` are those of queries that say none, `keys` those of its sessions.
        """
        if isinstance(store, str | os.PathLike) or not hasattr(store, "commit"):
            raise InvalidInput(
                f"a Repository is not made of {store!r:.80}: trails.open(path) opens the store in a folder"
            )
        self.workspace = Workspace(store, actor, record_reads=record_reads, scan=scan, keys=keys)
        """The store as the other parts of this package work on it (internal)."""
        self.reader = self.workspace.reader
        self.limits = limits
        """What a query in SPARQL may take where it does not say so itself."""
        self._console: Console | None = None
        try:
            transaction.refuse_half_copied(store)
            if self.read_only:
                self.workspace.rows.refresh()
            else:
                self.workspace.rows.erase()
                self._sweep()
                self._recover_streams()
        except BaseException:  # an interrupt too: nobody else could close it
            self.close()
            raise

    def _sweep(self) -> None:
        """Take out what a process that was killed left half done; what another one is doing just now is waited for."""
        if transaction.work_marks(self.store):
            self.workspace.sweep()

    def _recover_streams(self) -> None:
        place = self.store.location
        if place != ":memory:" and os.path.isdir(os.path.join(place, "streams")):  # noqa: PTH112, PTH118 - at every opening
            from trails.session import streaming  # noqa: PLC0415 - only where a stream was

            streaming.recover_streams(self.workspace)

    def __repr__(self) -> str:
        return f"<Repository {self.store.location}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers know what there is

        def __aenter__(self):
            """Say which store an event loop takes."""
            raise InvalidInput("this store is not for `async with`: use `async with trails.aio.open(...) as store`")

        async def __aexit__(self, *_):
            """Never reached."""

    def close(self) -> None:
        """Close the store. Turns that were appended and not persisted warn (`PendingTurnsWarning`); they are not written."""
        if self._console is not None:
            self._console.close()
        self.workspace.close()

    @property
    def store(self) -> QuadStore:
        """The store of quads below: the place to read raw quads; writing past the session layer breaks its promises."""
        return self.workspace.store

    @property
    def read_only(self) -> bool:
        """Whether the store was opened to be read: what was there then is seen, and what came since after `refresh`.

        True also of a store that `at` shows as it was.
        """
        return self.workspace.read_only

    @property
    def as_of(self) -> AsOf | None:
        """Of when a store is that `at` shows as it was, and what of then is not to be seen any more; None for all others."""
        store = self.store
        if not isinstance(store, PastStore):
            return None
        from trails.history.as_of import past_view  # noqa: PLC0415 - only those who look back need it

        return past_view.as_of_store(store)

    def at(self, moment: datetime | Checkpoint | str | bytes, *, verifiers: Iterable[str] = ()) -> Repository:
        """Return the store as it was at a moment, to be read as any other: list, load, replay, query, compare, verify.

        `moment` is an aware time; a checkpoint, as its text or read; or a mark, as `as_of.mark` and `Comparison.as_of`
        show it. A checkpoint or mark stands for just the lines of the log that it names; with `verifiers`, public keys,
        one of them must have signed the checkpoint. The log has no times: a time stands for its longest beginning in which
        no turn was made, and no session created or deleted, later than that, by the times that are recorded with them.

        Turns and forks are those of then, held against the log. What is deleted or redacted now stays gone (`as_of.gone`).
        Of sessions in `as_of.changed`, label, notes, tags, scores and acts are those of then by the times recorded with
        them; metadata, state and what a ledger's records say are as they are now: their older states are kept nowhere.
        It is held in memory, each session once it is asked for, and all of them for a query over all graphs. What the store
        gets later is not seen, and what is deleted or redacted later is not seen any more. Writing raises `StoreReadOnly`.
        Close this store last: it is read through it.

        Raises `InvalidInput` for a time in the future or before the store, for what is no moment, and on a store that is
        shown as it was already; `IntegrityError` for a checkpoint or a mark of another store, or of a log that was
        rewritten or put back.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
        ...     then = store.compare("plan").as_of
        ...     _ = plan.append("assistant", "Where to?"); _ = plan.persist()
        ...     with store.at(then) as past:
        ...         [turn.content for turn in past.load("plan").turns], past.as_of.lines, len(store.load("plan"))
        (['Plan a trip'], 2, 2)
        """
        from trails.history.as_of import log_moment, past_view  # noqa: PLC0415 - only those who look back need it

        if self.as_of is not None:
            raise InvalidInput(f"this is {self.store.location} already; ask the store itself for another moment")
        found = log_moment.find_moment(self.store, self.reader, moment, verifiers)
        store = past_view.past_store(self.store, self.reader, found)
        keys = self.workspace.encryption
        made = Repository(
            store,
            actor=self.workspace.actor,
            record_reads=self.workspace.record_reads,
            limits=self.limits,
            keys=None if keys is None else keys.keys,
        )
        store.origin, made.workspace.rows.later = self, self.workspace.rows
        made.workspace.reads = self.workspace.reads
        store.follow(made.workspace.start_anew)
        return made

    def refresh(self) -> bool:
        """See everything that was acknowledged before this call; return whether there is something new.

        Sessions that were loaded before stay as they are. A store in PostgreSQL brings in what others committed, with one trip
        to the server if that is not much. A store in a folder that was not opened with `read_only` sees it at each call, without
        this. With `fresh=True`, `load`, `list`, `summaries`, `search` and `query` do this first. Raises what opening with
        `read_only` does, or `StoreFailed` if no server can be reached; what was seen stays.

        >>> import tempfile, trails
        >>> place = tempfile.mkdtemp()
        >>> with trails.open(place, create=True) as store, trails.open(place, read_only=True) as view:
        ...     s = store.create(id="chat"); _ = s.append("user", "Hello"); _ = s.persist()
        ...     "chat" in view, view.refresh(), "chat" in view
        (False, True, True)
        """
        return self.workspace.refresh()

    def sync(self) -> bool:
        """Bring in everything that was committed anywhere before this call: `refresh`, as stores with many writers name it."""
        return self.refresh()

    # --- sessions

    def create(
        self,
        *,
        id: str | None = None,  # noqa: A002 - the public name
        principal: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        meta: Mapping[str, Any] | None = None,
        system: str | None = None,
        created: datetime | None = None,
        spawned_by: str | None = None,
        source_session: Name | None = None,
        expires: datetime | timedelta | None = None,
        max_tokens: int | None = None,
        pinned_count: int = 1,
        counter: Callable[[str], float] | None = None,
    ) -> Session:
        """Return a new session; nothing is stored until its first `persist`.

        `id` is made up unless given (1 to 200 characters without spaces). `principal` is whom it runs for and `agent`
        what runs it. `label` (1 to 64 characters) is unique in the store. `meta` holds typed facts that queries can
        find. `system` is the system prompt. `created` defaults to now. `spawned_by` is the id of the stored session that
        started this one, which shares nothing with it. `source_session` names the session that this one is imported from.
        `expires` is when its time is over, or how long after its creation that is: `prune(expired=True)` deletes it then.
        `max_tokens`, `pinned_count` and `counter` give it a window, as for `load`.

        Raises `InvalidInput` for values that cannot be kept and for an id or label in use, at once; for one that another
        writer was quicker to take, at `persist`.
        """
        session_id = uuid4().hex if id is None else validation.session_id(id)
        self.workspace.check_open(session_id)
        given: dict[str, Any] = {
            "principal": principal,
            "agent": agent,
            "label": label,
            "meta": meta,
            "key": key,
            "kind": kind,
        }
        given |= {"created": created, "source_session": source_session}
        fields: dict[str, Any] = {"principal": self._principal, "agent": DEFAULT_AGENT, "created": datetime.now(UTC)}
        parent = None if spawned_by is None else self.record(spawned_by).id
        fields |= record_fields(**given)
        record = SessionRecord(id=session_id, spawned_by=parent, expires=_expiry(expires, fields["created"]), **fields)
        who, keys = self.workspace.who(None), self.workspace.encryption
        prompt = (
            None
            if system is None
            else new_prompt(
                self.workspace,
                session_id,
                validation.text(system, "system"),
                1,
                0,
                by_iri=who,
                cipher=None if keys is None else keys.cipher_of_new(session_id),
            )
        )
        if id is not None or label is not None:
            with self.workspace.ahead("free_names", session_id, record.label):
                check_free_names(self.store, self.reader, session_id, record.label)
        made = Worktree(self.workspace, record, stored=False, prompt=prompt)
        made.give_window(context_window_of(max_tokens, pinned_count, counter))
        return Session(made)

    def session(
        self,
        id: str,  # noqa: A002 - the public name
        *,
        autopersist: bool = False,
        principal: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        key: str | None = None,
        kind: str | None = None,
        meta: Mapping[str, Any] | None = None,
        system: str | None = None,
        max_tokens: int | None = None,
        pinned_count: int = 1,
        counter: Counter | None = None,
    ) -> Session:
        """Return the session with an id: the stored one with its whole transcript, else a new one, whose row is stored at once.

        It has all that was committed before this call, also by other machines. If two writers ask for the same new session
        at once, one makes it and the other gets it as it is stored.
        With `autopersist`, each `append` and each `extend` is stored before it returns; else what was appended is stored
        by `persist`, or at the end of a `with` block. The other options are those of `create`, and `load`'s window. What
        is given of them must be so: a new session gets it, and of a stored one it must be true (`meta`: of each key that
        is given; `system`: of the prompt in force).

        Raises `InvalidInput` where a stored session says something else, before anything is written, and for the label or
        tag of another session and a deleted session's id; `load`'s errors, and `StoreFailed` if a store in PostgreSQL
        cannot be reached.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     with store.session("chat", principal="alice") as chat:
        ...         turn = chat.append("user", "Plan a trip")
        ...     [turn.content for turn in store.session("chat").turns]
        ['Plan a trip']
        """
        asked = {"principal": principal, "agent": agent, "label": label, "key": key, "kind": kind, "system": system}
        window: dict[str, Any] = {"max_tokens": max_tokens, "pinned_count": pinned_count, "counter": counter}
        session_id = self.workspace.session_id(id)
        self.workspace.catch_up()
        made: Session | None = None
        if session_id not in self:
            try:
                made = self.create(id=session_id, **asked, meta=meta, **window)  # type: ignore[arg-type] # each has its own type
                self._refuse_label(session_id)
                made.persist()
            except InvalidInput:
                self.refresh()
                if session_id not in self:
                    raise
                made = None  # another writer began it meanwhile
        if made is None:
            made = self.load(iris.session(session_id), **window)
            maintenance.check_existing(made.worktree, asked, meta)
        made.autopersist = autopersist
        return made

    def checkout(
        self,
        name: str,
        *,
        create: bool = False,
        principal: str | None = None,
        agent: str | None = None,
        kind: str | None = None,
        meta: Mapping[str, Any] | None = None,
        system: str | None = None,
        expires: datetime | timedelta | None = None,
        fresh: bool = False,
    ) -> Checkout:
        """Return what a ref stands for, to append to it and to take turns back: see `Checkout`.

        Turns are read when they are touched. With `create`, a ref that is not there is made, with a new session, by the first
        `persist`; the other options are those of `create` for that session. With `fresh`, `refresh` comes first.

        Raises `InvalidInput` where there is no such ref, and what `load` raises.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     with store.checkout("main", create=True) as main:
        ...         turn = main.append("user", "Plan a trip")
        ...     [turn.content for turn in store.load("main")], store.refs["main"].moves
        (['Plan a trip'], 1)
        """
        self.workspace.refresh(fresh)
        wanted = validation.ref_name(name)
        found = self.refs.find(wanted) if create else self.refs.get(wanted)
        if found is None:
            names.refuse_taken(self.workspace, wanted)
            made = self.create(principal=principal, agent=agent, kind=kind, meta=meta, system=system, expires=expires)
            return Checkout(self.workspace, wanted, None, made)
        named = load_session(self.workspace, iris.session(found.session_id), last=0)
        return Checkout(self.workspace, wanted, found, named)

    def commit(self) -> Batch:
        """Return a batch for a `with` block, at the end of which all that was added to it is written in one durable commit.

        Sessions and checkouts are taken in with `add`: new ones, forks of those, and stored ones, with what they have pending.
        `set_label` and `set_ref` go into the same commit. After an error in the block nothing is written, and all stays pending.

        Raises what `persist` does where the block ends, naming the session: `HeadConflict` where another writer moved one of the
        heads, `InvalidInput` for a name in use. Then nothing is written either. A batch in the block of another one of the same
        store, and a session of another store, are refused (`InvalidInput`).

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     with store.commit() as batch:
        ...         for name in ("plan", "notes"):
        ...             session = batch.add(store.create(id=name)); _ = session.append("user", f"On {name}")
        ...         batch.set_ref("main", session)
        ...     batch.written, len(store), store.resolve("main")
        (2, 2, 'notes')
        """
        return Batch(self.workspace)

    def _refuse_label(self, name: str) -> None:
        found = self.reader.labelled(name)
        if found is not None:
            raise InvalidInput(f"{name!r} is the label of session {found!r}; ask for it by its id, or load({name!r})")

    def load(
        self,
        session: Name,
        *,
        last: int | None = None,
        max_tokens: int | None = None,
        pinned_count: int = 1,
        counter: Counter | None = None,
        fresh: bool = False,
    ) -> Session:
        """Return a session with its whole transcript, inherited turns stitched in, ready to append to.

        `session` is any name of it, see `resolve`. With `last`, so many of the last turns are read (0 or more), and
        others when something asks for them. With `max_tokens` (1 or more) the session has a `window`: the first
        `pinned_count` turns and the newest that fit, by a `counter` of the tokens of a text. Only those are read then,
        the newest first, and others when something asks for them. With `fresh`, `refresh` comes first: what was committed
        anywhere before this call is seen, also turns of others in a store in PostgreSQL.

        Raises `SessionNotFound`, `ParentMissing`, `ForkCycle`, `ForkDepthExceeded`, `IndexGap` or `IntegrityError`; a
        transcript that is not whole is never returned. Turns that are read later raise the last two then. With `fresh` it
        raises what `refresh` does, too.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s"); turns = [s.append("user", text) for text in ("a", "b", "c")]; _ = s.persist()
        ...     s = store.load("s", last=2); [turn.content for turn in s.tail(2)], len(s), s[0].content
        (['b', 'c'], 3, 'a')
        """
        bounds = context_window_of(max_tokens, pinned_count, counter)
        self.workspace.refresh(fresh)
        return load_session(self.workspace, session, bounds, last)

    def forest(self, session: Name | None = None) -> Forest:
        """Return the forest of forks and spawned sessions, all of it or a session's own tree; two queries, no transcript.

        `session` is any name of it, see `resolve`. A notebook draws it, `print` too; `to_pandas` has a row a session.

        Raises `SessionNotFound`.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="plan"); _ = s.append("user", "Go"); _ = s.fork(id="other").persist()
        ...     [(twig.depth, twig.node.id, twig.node.turns) for twig in store.forest()]
        [(0, 'plan', 1), (1, 'other', 1)]
        """
        return forest.build_forest(self.reader, None if session is None else self.resolve(session))

    replay = verb(replay_session)

    def player(self, session: Name, *, upto: int | None = None) -> Player:
        """Return what answers calls of models and tools from a session's stored transcript, below `upto`; write nothing.

        `session` is any name of it, see `resolve`; `upto` runs from 0 to its length and is exclusive, default all.
        An answer is found by what the transcript before it says, by the call's name and arguments, and by how many equal
        calls came before. `trails.rerun` runs a whole agent so.

        Raises `InvalidInput` for an `upto` out of range, and `load`'s errors.

        >>> import trails
        >>> with trails.open(":memory:") as store, store.create(id="plan") as plan:
        ...     _ = plan.append("user", "Plan a trip"), plan.append("assistant", "Where to?"); _ = plan.persist()
        ...     player = store.player("plan")
        ...     [turn.content for turn in player.input()], player.model().content
        (['Plan a trip'], 'Where to?')
        """
        from trails.session.recorded_calls import (  # noqa: PLC0415
            Player,
            Recording,
        )

        source = self.load(session)
        end = len(source) if upto is None else validation.index(upto, "upto")
        if end > len(source):
            raise InvalidInput(
                f"session {source.id!r} has {len(source)} turns, so it is played up to {len(source)}, not {end}"
            )
        return Player(Recording(source.id, source.turns[:end]), source.system)

    def __contains__(self, session: object) -> bool:
        """Tell whether a session with this id (or IRI) is stored: labels, tags and beginnings of ids do not count."""
        session_id = self.workspace.session_id(names.name_text(session))
        return session_id in self.reader.records([session_id])

    def __getitem__(self, session: Name) -> Session:
        """Return the session with this id (or IRI), as `load` does; other names it takes from `load` alone.

        Raises `SessionNotFound`, which is a `KeyError`.
        """
        if session not in self:
            raise names.not_an_id(self.workspace, names.name_text(session))
        return self.load(session)

    def __iter__(self) -> Iterator[SessionRecord]:
        """Yield the records of all sessions, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = self.list(limit=summaries.MAX_PAGE, cursor=cursor)
            yield from page
            if page.cursor is None:
                return
            cursor = page.cursor

    def __len__(self) -> int:
        """Return how many sessions are stored."""
        return len(self.reader.ids())

    def __bool__(self) -> bool:
        """A store is there, also without sessions."""
        return True

    record = verb(names.find_record)

    def branches(self, session: Name) -> Page[SessionRecord]:
        """Return the records of a session's direct forks, oldest first, all on one page."""
        return Page(self.reader.branches(self.record(session).id), None)

    resolve = verb(names.resolve_name)

    list = verb(summaries.list_sessions)

    find = verb(summaries.find_session)

    summaries = verb(summaries.list_summaries)

    set_label = verb(names.set_label)

    delete = verb(maintenance.delete_session)

    def detach(self, session: Name, *, by: str | None = None) -> None:
        """Copy to a fork what it inherits and cut it loose from its parent; a root is left as it is. `by` is as for `delete`."""
        with self.workspace.rewriting():
            detach.detach_session(self.store, self.reader, self.record(session).id, self.workspace.deed(by))

    flatten = verb(flatten_to_session)

    def diff(self, a: Session | SessionRecord | str, b: Session | SessionRecord | str) -> Diff:
        """Return what differs between two sessions: the prefix that they share, and their tails aligned turn by turn.

        `a` and `b` are names, see `resolve` (a tag: its turns), or such a name with `@` and an exclusive end: "plan@5" is
        the first five turns of plan; or sessions, pending turns and all. What they share is told from lineage and digests: none
        of its turns is read. Turns are equal that agree in role, content and tool calls, whenever they were written.

        Raises `SessionNotFound`, `InvalidInput` for an index past the end, and what `load` raises for the tails.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="plan"); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     written = s.persist(); found = store.diff("plan@1", "plan")
        ...     found.common, found.kinds, bool(store.diff("plan", "plan"))
        (1, {'equal': 0, 'changed': 0, 'left': 0, 'right': 1}, False)
        """
        from trails.session.diff import diff_of  # noqa: PLC0415 - only those who compare need it

        places = parse_place(a), parse_place(b)
        found = diff_of(self.workspace, *places)
        if self.workspace.reads.is_on:
            named = [
                names.parse_revision(self.workspace, each).session_id if isinstance(each, str) else each.record.id
                for each in places
            ]
            self.workspace.note_read("diff", *named)
        return found

    def align(self, sessions: Sequence[Session | SessionRecord | str]) -> Alignment:
        """Return 2 to 20 sessions beside each other: the turns that all share, then rows of turns, one a session.

        Each is given as to `diff`. The rows begin after the last turn that all share. Turns stand in one row that say the
        same, else those of one role that are most alike, in order. Each session is aligned with the rows of those before it.

        Raises `InvalidInput` for one session, more than 20, or one named twice, and what `diff` raises.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="plan"); _ = s.append("user", "Plan a trip")
        ...     for way in ("By train", "By bus", "By train"):
        ...         fork = s.fork(); _ = fork.append("assistant", way); _ = fork.persist()
        ...     found = store.align(s.branches())
        ...     found.common, [row.variants for row in found.rows]
        (1, [(0, 1, 0)])
        """
        from trails.session.diff import alignment_of  # noqa: PLC0415 - only those who compare need it

        places = [parse_place(each) for each in sessions]
        found = alignment_of(self.workspace, places)
        if self.workspace.reads.is_on:
            self.workspace.note_read("diff", *(side.session_id for side in found.sides))
        return found

    def context(
        self,
        session: Name,
        query: object = None,
        *,
        max_tokens: int | None = None,
        pinned_count: int = 1,
        brief: str | None = None,
        background: str | None = None,
        counter: Counter | None = None,
        cut: Literal["mark", "leave out"] = "mark",
    ) -> Context:
        """Return what a model is shown of a stored session, as `Session.context` does, reading only what is shown.

        `session` is any name of it, see `resolve`. After a compaction, or with `max_tokens`, the turns before those shown are not
        read, so this takes no longer for a long session than for a short one. Raises as `load` does for what it reads.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="plan", system="Be brief."); _ = s.append("user", "Plan a trip"); written = s.persist()
        ...     [message["content"] for message in store.context("plan", "To the Alps").openai()]
        ['Be brief.', 'Plan a trip', 'To the Alps']
        """
        from trails.context import Window, estimate  # noqa: PLC0415 - only those who ask for a context need it
        from trails.session import model_context  # noqa: PLC0415

        window = Window(max_tokens, pinned_count, counter or estimate, cut)
        chain = names.find_lineage(self.workspace, session)
        self.workspace.note_read("context", chain[0].id)
        return model_context.context_of_stored(
            self.reader, chain, window, query=query, brief=brief, background=background
        )

    # --- names, notes, finding

    @property
    def tags(self) -> Tags:
        """The tags: names for a session at an index that stay where they are until they are taken away."""
        return Tags(self.workspace)

    @property
    def refs(self) -> Refs:
        """The refs: names that move from one place to another, as git's branches do."""
        return Refs(self.workspace)

    @property
    def notes(self) -> Notes:
        """The notes on turns."""
        return Notes(self.workspace)

    @property
    def registers(self) -> Registers:
        """The registers: what those who answer for the store write down beside the sessions, such as incidents."""
        return Registers(self.workspace)

    @property
    def holds(self) -> Holds:
        """The legal holds: what they cover is not taken out of the store."""
        return Holds(self.workspace)

    @property
    def retention(self) -> Retention:
        """The standing rules of retention: which sessions go once they are old enough."""
        return Retention(self.workspace)

    score = verb(scoring.give_score)

    scores = verb(scoring.list_scores)

    def score_all(
        self,
        sessions: Iterable[Name],
        scorer: Scorer,
        *,
        name: str | None = None,
        by: str | None = None,
        version: str | None = None,
        workers: int = 1,
        again: bool = False,
        progress: Progress | bool | None = None,
    ) -> Scoring:
        """Score sessions with a function, each stored as soon as it is there, and return what came of it.

        `scorer` is called with a `Session` (a copy that it may append to) and returns a score's value, (value, reason), several
        by name as a mapping, or None for no score. `name` and `by` are the function's own name unless given: it scores as
        `agent:NAME`, and several by name are called `NAME.KEY`. `workers` sessions are scored at a time, on threads.

        A session that this scorer in this version has scored as it stands is skipped, so the same call again goes on where
        one was cut short; `again` scores all. Where the scorer raises, or returns what is no score, that session is named
        among `failed`, with nothing stored of it, and the others go on. `progress` is called with how many are done, how many
        there are and which was last, or True for a bar.

        Raises `SessionNotFound` for an unknown session and `InvalidInput` for what is no scorer, before anything is scored.

        >>> import trails
        >>> def length(session): return len(session)
        >>> with trails.open(":memory:") as store:
        ...     for text in ("Go", "Stay"):
        ...         with store.session(text.lower()) as chat: _ = chat.append("user", text)
        ...     first = store.score_all(["go", "stay"], length, version="1")
        ...     [(each.ref, each.name, each.value, each.by) for each in first.scores]
        ...     store.score_all(["go", "stay"], length, version="1").skipped
        [('go', 'length', 1, 'length'), ('stay', 'length', 1, 'length')]
        ('go', 'stay')
        """
        from trails.session import scoring  # noqa: PLC0415 - a pool of threads, needed only here

        by_whom = scoring.scored_by(self.workspace, scorer, name, by, version)
        return scoring.score_all(
            self.workspace, sessions, scorer, by_whom, workers=workers, again=again, progress=progress
        )

    def agreement(
        self,
        name: str,
        left: str,
        right: str,
        *,
        left_version: str | None = None,
        right_version: str | None = None,
        sessions: Iterable[Name] | None = None,
    ) -> Agreement:
        """Return how far two scorers agree on what both scored under a name: Cohen's kappa, or correlations.

        `left` and `right` name the scorers, as `by` does; of each the newest score counts, or that of a version. `sessions`
        limits it to those sessions and the turns of their transcripts. Texts and truth values are categories, the rest
        numbers.

        Raises `InvalidInput` for scores that are numbers and texts, and where both scored fewer than 2 of the same.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     with store.session("s") as chat: _ = [chat.append("user", text) for text in ("a", "b", "c", "d")]
        ...     for at, (one, other) in enumerate([("y", "y"), ("y", "n"), ("n", "n"), ("n", "n")]):
        ...         _ = store.score(("s", at), "ok", one, by="ann"), store.score(("s", at), "ok", other, by="ben")
        ...     found = store.agreement("ok", "ann", "ben"); found.n, found.same, found.kappa
        (4, 0.75, 0.5)
        """
        from trails.compare.agreement import agreement  # noqa: PLC0415 - needed only here

        refs: _Refs = [None] if sessions is None else list(sessions)
        sides = [
            (
                side if version is None else f"{side}/{version}",
                [score for ref in refs for score in self.scores(ref, name, by=side, version=version)],
            )
            for side, version in ((left, left_version), (right, right_version))
        ]
        return agreement(validation.name(name, "a score's name"), *sides)

    remove_score = verb(scoring.remove_score)

    search = verb(search.search_turns)

    # --- who follows

    def subscribe(
        self, callback: Callback, *, kinds: Collection[str] | None = None, session: str | None = None
    ) -> Subscription:
        """Call a function for new turns, forks and changes of state from now on, in the order of the commits.

        It gets a `Notice` once the commit is logged, on a thread of the feed; what it raises is logged and stops nothing.
        `kinds` (of `trails.history.watch.NOTICE_KINDS`) and `session`, an id or an IRI, say which; all by default.
        """
        session_id = None if session is None else self.workspace.session_id(session)
        return self._following().subscribe(callback, kinds=kinds, session_id=session_id)

    def changes(self, *, kinds: Collection[str] | None = None, session: str | None = None) -> Changes:
        """Return an async iterator over the same notices, until the store closes: `async for notice in store.changes():`."""
        from trails.history.watch import Changes  # noqa: PLC0415 - asyncio takes a while to import

        return Changes(
            self._following(), kinds=kinds, session_id=None if session is None else self.workspace.session_id(session)
        )

    def _following(self) -> Feed:
        from trails.history.watch import Feed  # noqa: PLC0415 - asyncio takes a while to import

        feed = self.workspace.feed = self.workspace.feed or Feed(self.store.log)
        if isinstance(self.store, EmbeddedStore):
            self.store.follow_others()
        return feed

    # --- questions

    def compare(
        self,
        root: Name | Iterable[Name],
        *,
        at: int | None = None,
        columns: str | Sequence[str] | None = None,
        group_by: str | Sequence[str] | None = None,
        sort_by: str | Sequence[str] | None = None,
        descending: bool = False,
        arms: Mapping[str, str] | Sequence[str] | None = None,
        identifiers: Sequence[str] | None = None,
    ) -> Comparison:
        """Return a session and all its forks, theirs too, side by side: a row a branch, read without any transcript.

        `root` is any name of it, see `resolve`, or several names: the samples of an evaluation, say, which
        `store.list(meta={"task": "sums"})` gives. Then each has its forks below it. With `at`, of one session, only the
        branches of that fork point have a row: the sessions whose transcript leaves the root's at that index. Columns are
        the names in `trails.compare.comparison.COLUMNS` and `meta.KEY` for each metadata key that a branch has, and
        `score.NAME` for each name of its own scores (the newest; truth values as 1 and 0), `score.NAME@SCORER/VERSION` where
        several scorers gave it. `turns` and what starts with `total_` count the whole transcript; tokens, cost, tools, models
        and the last answer are those of a branch's own turns. A turn that was picked counts in each branch that has it, as
        in what a branch was made of: what branches spent together tell the queries `token-usage-by-session` and `cost`,
        which count a call once. `columns` says which are shown (default: all). Rows come as in a tree unless `sort_by` names
        columns: smallest first, or greatest first where `descending`; missing values last. `group_by` puts rows with the same
        values together, in order of those values, with statistics of every numeric column; the root is a group of its own,
        named `(root)`; of several sessions, each is grouped by the values that it has, and is `(root)` only where it has
        none. `arms` are patterns of labels (of ids, where there is no label), by name or alone, and make the column `arm`, by
        which is grouped unless `group_by` says otherwise. Whole numbers of metadata that say which and not how much get no
        statistics: those whose key ends in id, seed, index or alike, or just the columns that `identifiers` names.

        Raises `SessionNotFound`; `InvalidInput` for an unknown column (it names those there are) or for an index that
        no branch leaves at; `IndexGap` where turns are missing.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="prompt"); _ = s.append("user", "Plan a trip")
        ...     for heat in (0.2, 0.9):
        ...         f = s.fork(meta={"temperature": heat}); _ = f.append("assistant", f"At {heat}"); _ = f.persist()
        ...     found = store.compare("prompt", at=1, columns=["meta.temperature", "own_turns", "last_answer"])
        ...     [tuple(row.values()) for row in found]
        [(0.2, 1, 'At 0.2'), (0.9, 1, 'At 0.9')]
        """
        from trails.compare import session_figures  # noqa: PLC0415 - needed only here, and `import trails` stays quick
        from trails.history.as_of import log_moment  # noqa: PLC0415

        fork_point = None if at is None else validation.index(at, "at")
        roots, as_of = self._compared(root, fork_point), log_moment.mark_of_log(self.store.log)
        self.workspace.note_read("compare", *roots)
        found = session_figures.compare_sessions(self.reader, roots, fork_point, as_of=as_of)
        if as_of != log_moment.mark_of_log(self.store.log):  # another thread wrote meanwhile
            found = at_one_moment(
                self.store,
                lambda: session_figures.compare_sessions(
                    self.reader, roots, fork_point, as_of=log_moment.mark_of_log(self.store.log)
                ),
            )
        return found.arranged(
            columns=columns,
            group_by=group_by,
            sort_by=sort_by,
            descending=descending,
            arms=arms,
            identifiers=identifiers,
        )

    def _compared(self, root: Name | Iterable[Name], at: int | None) -> Sequence[str]:
        """Return the ids of the sessions that are to be compared, each once."""
        is_one = isinstance(root, str | SessionRecord) or isinstance(getattr(root, "record", None), SessionRecord)
        if is_one or not isinstance(root, Iterable):
            return [self.resolve(cast("Name", root))]
        roots = list(dict.fromkeys(self.resolve(each) for each in cast("Iterable[Name]", root)))
        if not roots:
            raise InvalidInput("no session was given to compare; `store.list()` shows the sessions there are")
        if at is not None and len(roots) > 1:
            raise InvalidInput(
                f"a fork point is one session's, and {len(roots)} were given; compare one, or leave `at` out"
            )
        return roots

    def stats(
        self,
        by: By = "day",
        *,
        principal: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        meta: Mapping[str, Any] | None = None,
        model: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> Statistics:
        """Return how much was done by "day" (UTC), "model", "project", "principal" or "session": turns, calls, tokens, cost.

        A call counts once and where it was made, however often its turn was copied or picked, as in the catalogue's
        queries; so does a turn. `since` (inclusive) and `until` (exclusive) are of the turns' times: turns without one are
        left out then. `principal`, `agent`, `project` and `meta` say of which sessions, as in `list`, and `model` of which
        calls. The cost is what was reported; `unpriced` calls are left out of it (see `cost`).

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s"); _ = s.append("assistant", "Hi", model="m-1", usage={"input_tokens": 3}); _ = s.persist()
        ...     [(row.group, row.calls, row.input_tokens, row.unpriced) for row in store.stats(by="model")]
        [('m-1', 1, 3, 1)]
        """
        wanted = summaries.SummaryFilter(principal, agent, None, meta, project, since, until)
        return usage_statistics.usage_statistics(self.workspace, by, wanted, model=model)

    def cost(
        self,
        by: By = "model",
        *,
        prices: Mapping[str, Any] | str | PathLike[str] | None = None,
        principal: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        meta: Mapping[str, Any] | None = None,
        model: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> Statistics:
        """Return what model calls cost, as `stats` counts them: as reported, else by a price table, else by `genai-prices`.

        `prices` is a mapping of models to what a million tokens cost, `{"m-1": {"input": 3, "output": 15}}`, or a TOML or
        JSON file of it; by default the file that the environment's TRAILS_PRICES names. A model's name may end in `*`.
        Optional are `cache_read` and `cache_write` (else the price of input) and `cache_write_1h` (else that of
        `cache_write`). A model that is not in it has the price that the package `genai-prices` knows, in US dollars, where
        that is installed (`pip install "trails[prices]"`); nothing is fetched. A call that reports no cost, and no tokens or
        a model without a price, is in `unpriced`, its model in `unpriced_models`, and in no sum.

        Raises `InvalidInput` for prices that are none.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s"); _ = s.append("assistant", "Hi", model="m-1", usage={"input_tokens": 500_000})
        ...     _ = s.append("assistant", "Ho", model="m-2"); _ = s.persist()
        ...     found = store.cost(prices={"m-1": {"input": 3, "output": 15}}).total
        ...     found.cost, found.estimated, found.unpriced, found.unpriced_models
        (1.5, 1, 1, ('m-2',))
        """
        wanted = summaries.SummaryFilter(principal, agent, None, meta, project, since, until)
        return usage_statistics.usage_statistics(self.workspace, by, wanted, model=model, prices=prices_of(prices))

    def payload(self, payload: PayloadReference | str) -> bytes:
        """Return the bytes of a payload, given one of a turn's `payloads`, or its digest.

        Raises `InvalidInput` for a payload that was redacted or that the store has not, `IntegrityError` for bytes that are
        not those that the digest says.
        """
        return encryption.decrypted_bytes(self.store, payloads.read_payload(self.store, payload))

    def query(
        self,
        text: str,
        /,
        *,
        union: bool = True,
        fresh: bool = False,
        timeout: float | None = None,
        max_rows: int | None = None,
        **parameters: Any,
    ) -> Result:
        """Return the result of a SPARQL query, or of a query of the catalogue by name with its parameters.

        SELECT gives rows that hold RDF terms by name or position (`to_dicts()` gives Python values), ASK a bool,
        CONSTRUCT and DESCRIBE lists of triples. In a text of your own, patterns outside GRAPH match all graphs, unless
        `union` is False or the text says with FROM or FROM NAMED which graphs it is over (SPARQL 1.1, 13.2); queries of
        the catalogue say in full which graphs they read; some that would read every turn are answered by SQL over the rows of
        the store, with the same result. The prefixes trails, prov, rdf, rdfs and xsd are declared already. With
        `fresh`, `refresh` comes first, as for `load`, and what it raises.

        A text of your own runs in a process beside this one, over what was committed before the call. It is ended after
        `timeout` seconds (above 0; by default what `trails.open` was given, else 300; `math.inf`: never), and the answer is
        cut after `max_rows` rows or triples (1 or more): its `truncated` is True then. Whoever says one of these, here or at
        `trails.open`, also bounds the memory that it may take (`query_memory`, 128 MiB). Queries of the catalogue run in this
        process, without a limit; beside it only where one is given here.

        Raises `InvalidInput` for text over 64 KiB, nested deeper than 200, with more than 64 patterns in a group, using
        SERVICE or LOAD, or not SPARQL (the message says where, and whether it is an update), `QueryTimeout` and
        `QueryTooLarge` where it takes more than it may, `QueryEnded` where the store is closed or vacuumed meanwhile, and
        `TrailsError` where the query fails. Ctrl-C ends it at once.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     store.query("SELECT (COUNT(?s) AS ?n) { ?s a trails:Session }").to_dicts()
        [{'n': 0}]
        """
        validation.text(text, "the query")
        limits = QueryLimits(timeout, max_rows)
        self.workspace.refresh(fresh)
        self._note_query(text, parameters)
        if query_files.exists(text):
            return self._of_catalogue(query_files.find(text), limits, parameters)
        self._refuse_named(text, parameters)
        encryption.check_query(self.store, text)
        return user_queries.answer(self.store, text, limits.over(self.limits), union=union)

    def _note_query(self, text: str, parameters: Mapping[str, Any]) -> None:
        if not self.workspace.reads.is_on:
            return
        if not query_files.exists(text):
            self.workspace.note_read("query", text=text)
            return
        given = parameters.get("session", ())
        named = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else []
        sessions = [iris.session_id(each) if each.startswith(iris.session("")) else each for each in named]
        self.workspace.note_read("query", *sessions, query=text)

    def _of_catalogue(self, asked: query_files.QueryFile, limits: QueryLimits, parameters: dict[str, Any]) -> Result:
        bound = asked.bind(**parameters)
        encryption.check_query(self.store, bound, is_ours=True)
        if limits.is_set:
            return user_queries.answer(self.store, bound, limits.over(self.limits), is_ours=True)
        found = None if self.as_of is not None else query_twins.answer(self.workspace.rows.reading, asked, parameters)
        return self._asked(asked, bound) if found is None else found

    def _asked(self, query: query_files.QueryFile, bound: str) -> Result:
        """Return the result of a text of the catalogue, asked on a thread of its own."""
        return query_guard.on_thread(lambda: presentation.catalogue_answer(self.store, query, bound), len(bound))

    @staticmethod
    def _refuse_named(text: str, parameters: dict[str, Any]) -> None:
        """Raise `InvalidInput` for a name that no query has, and for parameters of a text that has none."""
        if text.replace("_", "").replace("-", "").isalnum():
            query_files.find(text)  # raises, naming what there is
        if parameters:
            raise InvalidInput("parameters go with queries of the catalogue; write the values into a text of your own")

    def select(self, text: str, /, **options: Any) -> Solutions:
        """Return the rows of a SELECT, as `query` does; raise `InvalidInput` for any other form, naming its method.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     store.select("SELECT ?s { ?s a trails:Session }").to_dicts(), store.ask("ASK { ?s a trails:Session }")
        ([], False)
        """
        return presentation.solution_rows(self.query(text, **options))

    def ask(self, text: str, /, **options: Any) -> bool:
        """Return the answer of an ASK, as `query` does; raise `InvalidInput` for any other form, naming its method."""
        return presentation.query_answer(self.query(text, **options))

    def construct(self, text: str, /, **options: Any) -> _Triples:
        """Return the triples of a CONSTRUCT or DESCRIBE, as `query` does; raise `InvalidInput` for any other form."""
        return presentation.triple_rows(self.query(text, **options))

    def rows(
        self,
        text: str,
        /,
        *,
        union: bool = True,
        fresh: bool = False,
        timeout: float | None = None,
        max_rows: int | None = None,
        **parameters: Any,
    ) -> Rows:
        """Return the rows of a SELECT one after the other, while they are found: memory holds a few of them at a time.

        What is asked, the limits and the errors are those of `query`; what the engine takes to sort or group counts as ever.
        The time runs from the call to the last row, your own between two rows included. Its `truncated` is known in the end.
        Read all rows, or leave it with `with` or `close`, which ends the query.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s"); _ = s.append("user", "Hello"); _ = s.persist()
        ...     with store.rows("SELECT ?text { ?t prov:value ?text }") as rows:
        ...         [row["text"].value for row in rows]
        ['Hello']
        """
        validation.text(text, "the query")
        limits = QueryLimits(timeout, max_rows).over(self.limits)
        self.workspace.refresh(fresh)
        self._note_query(text, parameters)
        if query_files.exists(text):
            bound = query_files.find(text).bind(**parameters)
            encryption.check_query(self.store, bound, is_ours=True)
            return user_queries.rows(self.store, bound, limits, is_ours=True)
        self._refuse_named(text, parameters)
        encryption.check_query(self.store, text)
        return user_queries.rows(self.store, text, limits, union=union)

    @overload
    def graph(self) -> StoreView: ...
    @overload
    def graph(self, session: Name) -> GraphView: ...
    def graph(self, session: Name | None = None) -> StoreView | GraphView:
        """Return the live store as an `rdflib.Dataset` to read, or the graph of a session's own turns as an `rdflib.Graph`.

        `session` is any name of it, see `resolve`. Nothing is copied: every read and every query is answered by the store, as it
        is then, and whole. What would write raises `TrailsError`. In the dataset, the default graph has the sessions, unless
        `default_union` is set, which makes it all graphs; a single graph sees nothing of the others.

        Raises `SessionNotFound`; after `close`, reading raises `StoreFailed`.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s"); _ = s.append("user", "Hello"); _ = s.persist()
        ...     view = store.graph("s")
        ...     [str(text) for text in view.objects(None, view.namespace_manager.expand_curie("prov:value"))]
        ['Hello']
        """
        from trails import rdflib_view  # noqa: PLC0415 - rdflib takes 150 ms to import and is needed only here

        if session is None:
            return rdflib_view.dataset_view(self.store)
        return rdflib_view.graph_view(self.store, iris.session(self.resolve(session)))

    def ui(self) -> Console:
        """Serve the console of this store on a thread, and return it: a notebook shows it as a link to open in a browser.

        It listens on a free port of this machine, and signs in whoever opens its link, which works once. It ends with the
        store, or with its own `close`. A second call returns the same console. Needs the extra `serve`.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     console = store.ui()
        ...     console.address.startswith("http://127.0.0.1:")
        True
        """
        if self._console is None or self._console.is_closed:
            try:
                started = import_module("trails.serve.ui").start_console(self)
            except ModuleNotFoundError as error:
                raise InvalidInput('what the console needs is not installed: pip install "trails[serve]"') from error
            self._console = Console(*started)
        return self._console

    @property
    def _principal(self) -> str:
        """For whom a session runs that is made for nobody in particular."""
        return DEFAULT_PRINCIPAL

    # --- erasure

    def redact(self, session: Name, index: int, *, by: str | None = None, reason: str | None = None) -> Redaction:
        """Take the content out of a turn and of all its copies for good; return what was done, and what may repeat it.

        `index` is of the session's transcript, inherited turns included. The turn keeps its place and digest, so the
        chain still verifies; tool calls lose their arguments, and the turn its metadata. `by` names who redacts,
        as for `delete`, and `reason` says why; both stay. A turn that is redacted stays as it is.
        The text stays in the store's files until `vacuum`, and in backups and exports; sessions that are loaded already
        keep it in memory.

        Raises `SessionNotFound`, or `InvalidInput` where there is no such turn.
        """
        wanted = self.resolve(session, exact=True)
        return redact_turn(self, wanted, validation.index(index, "index"), self.workspace.deed(by, reason))

    def erase(
        self,
        session: Name,
        index: int,
        *,
        near: float = 0.6,
        dry_run: bool = False,
        signer: str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> DerivedErasure:
        """Redact a turn and what was made from it; return what went, and what could not be reached.

        Copies go with the turn, in forks that were detached too; later summaries that stand for it, and what these were quoted
        in; turns of any session that hold its text, or were picked from it; and near copies: turns that repeat at least the
        share `near` (above 0, at most 1) of its runs of three words, in a text of at least six. Texts that say the same in
        other words are not found. Each goes as by `redact`, whose `by` and `reason` these are. With `dry_run`, nothing is
        changed, and the report names exactly the turns that would go.

        The report's receipt names turns by session, index and digest, and the backups and exports on record that hold them, and
        no content. With `signer`, the log's secret key, it is a signed note (extra `checkpoint`), which
        `trails.integrity.erasure_receipts.open_receipt` and `trails proof receipt` check without the store.

        Raises `OnHold` where a legal hold covers one of the turns: none goes then. Raises `SessionNotFound`, or `InvalidInput`
        where there is no such turn, or it was redacted before.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     for name in ("a", "b"):
        ...         s = store.create(id=name); _ = s.append("user", f"The code is 4711, says {name}"); _ = s.persist()
        ...     [(turn.session_id, turn.why) for turn in store.erase("a", 0, near=0.5, dry_run=True).turns]
        [('a', 'asked'), ('b', 'near copy')]
        """
        validation.flag(dry_run, "dry_run")
        share = near_copies.least_share(near, "near")
        if signer is not None:
            signer_key(signer)  # it is one, before anything is erased
        at, store, reader = validation.index(index, "index"), self.store, self.reader
        chain = reader.lineage(self.resolve(session, exact=True))
        turns = tuple(derived_erasure.plan_erasure(store, reader, chain, at, near=share).values())
        files = derived_erasure.kept_files(store, turns)
        deed = self.workspace.deed(by, reason)
        texts = redaction.long_texts(redaction.turn_at(reader, chain, at))
        derived_erasure.refuse_held(store, turns)
        if dry_run:
            kept = derived_erasure.kept_texts(store, texts, turns)
            return DerivedErasure(turns=turns, unreached=(*files, *kept), dry_run=True)
        check_size(turns)
        try:
            with self.workspace.erasing():
                reports = derived_erasure.erase(store, reader, turns, deed)
        finally:
            _flush_redaction(store)
        repeats = derived_erasure.kept_places(reports)
        named = {each.name for each in repeats}
        kept = derived_erasure.kept_texts(store, texts, turns)
        kept = [each for each in kept if not any(each.name.endswith(name) for name in named)]
        unreached = (*files, *repeats, *kept)
        size, root = store.log.root()
        receipt = ErasureReceipt(
            time=deed.time.isoformat(),
            by=iris.author_name(deed.by_iri),
            erased=turns,
            unreached=unreached,
            log_size=size,
            log_root=root.hex(),
        )
        signed = None if signer is None else sign_receipt(receipt, signer)
        return DerivedErasure(turns=turns, unreached=unreached, dry_run=False, receipt=receipt, signed=signed)

    def redact_matching(
        self, text: str, *, dry_run: bool = False, by: str | None = None, reason: str | None = None
    ) -> TextRedaction:
        """Take a text out wherever it stands, in one commit; return where it stood, and where it still does.

        It is looked for exactly (upper and lower case apart), in JSON in all its escaped forms: in turns and what is
        said with them, authors' names, system prompts, metadata, labels, tags, notes, keys, aliases, entries, ledgers,
        runs, reasons. A value that holds it goes whole: a turn loses its content, call arguments and metadata together, a
        name becomes `redacted`, a label goes, a key gets another word in the text's place. Ids of sessions and runs
        stay: see `left`. With `dry_run`, nothing is changed. `by` names who redacts, as for `delete`, and `reason` says
        why; both stay. The text is in the store's files until `vacuum`, in backups, dumps and exports whatever one does.

        What is proven afterwards: content, arguments and metadata leave their salted digests, so the turn's own digest
        proves the rest, as after `redact`. An author's name, a role and facts without a digest of their own (model, usage,
        stop reason, tool names, ids) enter that digest in clear, and whoever guesses them can still confirm them by it.
        Where a fact went, the digest over all facts stays and the turn's digest proves the rest. Where the author or the
        role went, the turn's own digest cannot be made again: the logged redaction carries a digest over the turn as it
        stands since, the turn before it included, and `verify` holds it against that.

        Raises `InvalidInput` for a text of fewer than 2 characters, or where `by` or `reason` hold it; `IntegrityError`
        where a turn that would lose more than its texts does not verify. Nothing is changed then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s", label="for Eve"); _ = s.append("user", "I am Eve"); _ = s.persist()
        ...     [(place.session_id, place.kind, place.index) for place in store.redact_matching("Eve").places]
        [('s', 'content', 0), ('s', 'label', None)]
        """
        validation.flag(dry_run, "dry_run")
        try:
            encryption.refuse_any_encrypted(
                self.store, "a text is found in plain turns alone", "redact the turns by index"
            )
            with nullcontext() if dry_run else self.workspace.erasing():
                return text_erasure.redact_matching(self.store, text, self.workspace.deed(by, reason), dry_run=dry_run)
        finally:
            if not dry_run:
                _flush_redaction(self.store)

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        keep_count: int | None = None,
        keep_bytes: int | None = None,
        meta: Mapping[str, Any] | None = None,
        expired: bool = False,
        dry_run: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> Pruning:
        """Delete sessions that nobody uses any more, the longest unused first; return which went, or would go.

        Sessions go whose last turn is older than `older_than`; then the oldest, until at most `keep_count` are left and
        the turns' texts have at most `keep_bytes` in UTF-8. With `expired`, sessions go whose time (`create(expires=...)`)
        is over. With `meta`, only sessions that have this metadata are looked at, as by `list`; all of them go if there is no
        other limit. A session that one which stays was forked from or spawned
        by stays, and one that a tag names; one whose times are all unknown stays too. `by` and `reason` are as for
        `delete`, and the limits stay with each tombstone as the rule. What `delete` says of the store's files holds here.

        Raises `InvalidInput` where no limit is given.
        """
        validation.flag(dry_run, "dry_run")
        with nullcontext() if dry_run else self.workspace.erasing():
            return deletion.prune_sessions(
                self.store,
                self.reader,
                older_than=older_than,
                keep_count=None if keep_count is None else validation.index(keep_count, "keep_count"),
                keep_bytes=None if keep_bytes is None else validation.index(keep_bytes, "keep_bytes"),
                expired=validation.flag(expired, "expired"),
                only=None if meta is None else summaries.sessions_with(self.workspace, meta),
                dry_run=dry_run,
                deed=self.workspace.deed(by, reason),
            )

    # --- facets: upkeep, and what can be proved

    @property
    def maintenance(self) -> Maintenance:
        """The upkeep of the store: vacuum, backup, dump."""
        return Maintenance(self.workspace)

    @property
    def proofs(self) -> Proofs:
        """What can be proved of the store: verifying it, checkpoints, proofs for others."""
        return Proofs(self.workspace)

    verify = verb(Proofs.verify, of="proofs")

    def info(self) -> dict[str, Any]:
        """Return counts and facts about the store: location, quads, sessions, forks, turns, tombstones.

        `older` is there where some of it was recorded in an older format: which, how many lines the log had when that
        ended, and when. Up to format 2, who did a thing may be the session's principal, who was not asked. `vectors` is there
        where the store keeps vectors for searches by meaning.
        """
        counts = self.store.query(query_files.find("counts").bind())
        row = counts.to_dicts()[0]  # type: ignore[union-attr] # a SELECT of one row
        older = self.store.older if isinstance(self.store, EmbeddedStore | ViewStore) else None
        told: dict[str, Any] = {} if older is None else {"older": older}
        if (kept := self.workspace.rows.vectors()) is not None:
            told["vectors"] = kept.to_dict()
        return {"location": self.store.location, "quads": len(self.store), **row, **told}


def _expiry(expires: datetime | timedelta | None, created: datetime) -> datetime | None:
    """Return when a session's time is over, given that or how long it is."""
    if isinstance(expires, timedelta):
        if expires <= timedelta(0):
            raise InvalidInput(f"expires is a time to live of more than nothing, not {expires}")
        try:
            expires = created + expires
        except OverflowError as error:
            raise InvalidInput(f"{expires} after the creation is past the year 9999") from error
    return None if expires is None else validation.time(expires, "expires")


def redact_turn(repository: Repository, session_id: str, index: int, deed: Deed) -> Redaction:
    """Redact a turn and all its copies, as done by whom the deed names."""
    store, reader = repository.store, repository.reader
    try:
        with repository.workspace.erasing():
            return redaction.redact_turn(store, reader, reader.lineage(session_id), index, deed)
    finally:
        _flush_redaction(store)


def _flush_redaction(store: QuadStore) -> None:
    """Let go of the record of the commit, which says what it took out, and of what readers who were killed have left."""
    store.flush()
    if isinstance(store, EmbeddedStore):
        store.sweep_readers()


def opened(store: object, what: str) -> Repository:
    """Return a store that something works on; raise `InvalidInput` for what is none, saying how to get one."""
    if isinstance(store, Repository):
        return store
    raise InvalidInput(
        f"a {what} works on an open store, not on {store!r:.80}: open one first, store = trails.open(path)"
    )
