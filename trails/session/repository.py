"""The open store as its users see it: sessions made, found, replayed, queried, deleted and verified."""

from __future__ import annotations

import atexit
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from uuid import uuid4

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Quad

from trails import iris, outside, queries, validate, vocab
from trails.errors import HasChildren, InvalidInput, SessionNotFound, StoreFailed
from trails.model import SessionRecord
from trails.plumbing import conversations, deletion, leaves
from trails.plumbing import detach as rerooting
from trails.plumbing.reader import Reader
from trails.plumbing.transaction import Transaction, there
from trails.records import turns
from trails.session.session import Session, new_prompt
from trails.session.upkeep import RepositoryUpkeep
from trails.session.verbs import RepositoryVerbs
from trails.store.contract import Change, QuadStore, Result

if TYPE_CHECKING:
    from trails.compare.comparison import Comparison
    from trails.diff import Diff
    from trails.plumbing.watch import Callback, Changes, Feed, Subscription

_FAR_PAST: Final = datetime(1, 1, 1, tzinfo=UTC)
_FAR_FUTURE: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
MAX_PAGE: Final = 1000

Children = Literal["refuse", "cascade", "detach"]
_Ids = list[str]  # inside the class, `list` is the method


class Page(list[SessionRecord]):
    """One page of session records, newest first. `cursor` continues after it and is None at the end."""

    def __init__(self, records: list[SessionRecord], cursor: str | None) -> None:
        super().__init__(records)
        self.cursor = cursor


_OPEN: Final[weakref.WeakSet[Repository]] = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    """Close what the program left open: everything persisted is flushed, what is pending warns."""
    for repository in list(_OPEN):
        repository.close()


class Repository(RepositoryVerbs, RepositoryUpkeep):
    """A store of sessions. Get one from `trails.open`, and close it with `with` or `close`."""

    def __init__(self, store: QuadStore) -> None:
        """Wrap a store of quads; `trails.open` does this for the stores that ship."""
        self._store = store
        self.reader = Reader(store)
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._closed = False
        self._feed: Feed | None = None
        _OPEN.add(self)
        try:
            deletion.sweep_pending(store)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Repository {self._store.location}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store. Turns that were appended and not persisted warn (`PendingTurnsWarning`); they are not written."""
        if not self._closed:
            self._closed = True
            try:
                for session in list(self._sessions):
                    session.warn_if_pending()
                if self._feed is not None:
                    self._feed.close()
            finally:
                self._store.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._store.location != ":memory:":
            warnings.warn(f"{self!r} was not closed; use `with trails.open(...)`", ResourceWarning, stacklevel=2)
            self._closed = True
            self._store.close()

    @property
    def store(self) -> QuadStore:
        """The store of quads below: the place to read raw quads; writing past the session layer breaks its promises."""
        return self._store

    def _watch(self, session: Session) -> None:
        self._sessions.add(session)

    def _forget(self, session: Session) -> None:
        self._sessions.discard(session)

    def check_open(self, session_id: str) -> None:
        """Raise `StoreFailed` where the store is closed: nothing more of a session could be kept (internal)."""
        if self._closed:
            raise StoreFailed(
                f"session {session_id!r} takes nothing more: its store {self._store.location} is closed; open that again "
                "and load the session"
            )

    def commit(self, change: Change) -> bool:
        """Write a change made by this package (internal)."""
        return self._store.commit(change)

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
        source_session: str | None = None,
        max_tokens: int | None = None,
        pinned_count: int = 1,
        counter: Callable[[str], float] | None = None,
    ) -> Session:
        """Return a new session; nothing is stored until its first `persist`.

        `id` is made up unless given (1 to 200 characters without spaces). `principal` is whom it runs for and `agent`
        what runs it. `label` (1 to 64 characters) is unique in the store. `meta` holds typed facts that queries can
        find. `system` is the system prompt. `created` defaults to now. `spawned_by` is the id of the stored session that
        started this one, which shares nothing with it. `source_session` names the session that this one is imported from.
        `max_tokens`, `pinned_count` and `counter` give it a window, as for `load`.

        Raises `InvalidInput` for values that cannot be kept, at once; for an id or label in use, at `persist`.
        """
        session_id = uuid4().hex if id is None else validate.session_id(id)
        record = SessionRecord(
            id=session_id,
            principal=turns.DEFAULT_PRINCIPAL if principal is None else validate.name(principal, "principal"),
            agent=turns.DEFAULT_AGENT if agent is None else validate.name(agent, "agent"),
            kind=None if kind is None else validate.name(kind, "kind"),
            key=None if key is None else validate.name(key, "key"),
            created=datetime.now(UTC) if created is None else validate.time(created, "created"),
            label=None if label is None else validate.label(label),
            spawned_by=None if spawned_by is None else self.record(spawned_by).id,
            source_session=None if source_session is None else validate.text(source_session, "source_session"),
            meta_json=validate.meta(meta),
        )
        prompt = None if system is None else new_prompt(session_id, validate.text(system, "system"), 1, 0)
        return Session(self, record, stored=False, prompt=prompt)._windowed(max_tokens, pinned_count, counter)

    def replay(self, session: str, *, up_to_index: int | None = None) -> list[dict[str, Any]]:
        """Return a session's stored transcript as plain dicts with role, content, index and branch; write nothing.

        `session` is an id or a graph IRI; `up_to_index` is exclusive.
        """
        end = None if up_to_index is None else validate.index(up_to_index, "up_to_index")
        chain = self.reader.lineage(self._id_of(session))
        return [
            {"role": turn.role, "content": turn.content, "index": turn.index, "branch": turn.branch}
            for turn in self.reader.turns(chain, up_to=end)
        ]

    def _id_of(self, session: object) -> str:
        if isinstance(session, NamedNode):
            session = session.value
        if isinstance(session, str) and session.startswith("urn:trails:"):
            if not iris.is_session(session):
                raise InvalidInput(f"{session!r} is not the IRI of a session")
            return iris.session_id(session)
        return validate.session_id(session)

    def __contains__(self, session: object) -> bool:
        """Tell whether a session with this id is stored."""
        session_id = self._id_of(session)
        return session_id in self.reader.records([session_id])

    def record(self, session: str) -> SessionRecord:
        """Return a session's record without its turns; raise `SessionNotFound` where there is none."""
        return self.reader.record(self._id_of(session))

    def branches(self, session: str) -> list[SessionRecord]:
        """Return the records of a session's direct forks, oldest first."""
        return self.reader.branches(self.record(session).id)

    def resolve(self, name: str) -> str:
        """Return the id of the session that an id, a session IRI or a label names; raise `SessionNotFound` for none."""
        if name.startswith("urn:trails:"):
            return self.record(name).id
        found = self.reader.labelled(validate.text(name, "the name"))
        try:
            session_id = self._id_of(name)
        except InvalidInput:
            if found is None:
                raise
            return found
        if session_id in self.reader.records([session_id]):
            if found not in (None, session_id):
                raise InvalidInput(f"{name!r} is the id of one session and the label of {found!r}; name it by its IRI")
            return session_id
        if found is None:
            raise self.reader.not_found(session_id)
        return found

    def list(
        self,
        *,
        principal: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """Return one page of session records by creation, newest first.

        `since` is inclusive, `until` exclusive, both aware; `limit` is 1 to 1,000; `cursor` is the `cursor` of the page
        before. Sessions made while one pages through do not shift the pages.

        Raises `InvalidInput` for a cursor that no page gave.
        """
        if not 1 <= validate.index(limit, "limit") <= MAX_PAGE:
            raise InvalidInput(f"limit must be 1 to {MAX_PAGE}, not {limit}")
        start = _FAR_PAST if since is None else validate.time(since, "since")
        end = _FAR_FUTURE if until is None else validate.time(until, "until")
        if label is not None:
            return self._labelled_page(validate.label(label), principal, agent, start, end)
        records = self.reader.page(
            limit=limit + 1,
            since=start,
            until=end,
            after=(_FAR_FUTURE, "~") if cursor is None else _parse_cursor(cursor),
            principal=None if principal is None else validate.name(principal, "principal"),
            agent=None if agent is None else validate.name(agent, "agent"),
        )
        if len(records) <= limit:
            return Page(records, None)
        last = records[limit - 1]
        return Page(records[:limit], f"{(last.created or _FAR_PAST).isoformat()} {last.iri}")

    def _labelled_page(
        self, label: str, principal: str | None, agent: str | None, since: datetime, until: datetime
    ) -> Page:
        found = self.reader.labelled(label)
        records = [] if found is None else [self.reader.record(found)]
        return Page(
            [
                record
                for record in records
                if principal in (None, record.principal)
                and agent in (None, record.agent)
                and since <= (record.created or _FAR_PAST) < until
            ],
            None,
        )

    def label(self, session: str, label: str | None) -> None:
        """Give a session a label that no other session has, or take its label away with None."""
        wanted = None if label is None else validate.label(label)
        record = self.record(session)
        if record.label == wanted:
            return
        node = NamedNode(record.iri)
        tx = Transaction(self.reader)
        if (named := self.reader.conversation(record.id)) is not None:
            conversations.relabel(tx, named, wanted)
        else:
            tx.require([there(record.id)])
            if record.label is not None:
                tx.take([Quad(node, vocab.LABEL, RdfLiteral(record.label), vocab.CATALOG)])
            if wanted is not None:
                tx.add([Quad(node, vocab.LABEL, RdfLiteral(wanted), vocab.CATALOG)])
                tx.label(wanted)
        tx.log(leaves.rows("change", [record.id]))
        changed = f"session {record.id!r} was changed by another writer; try again"
        tx.commit(self, otherwise=lambda _: InvalidInput(changed))

    def delete(self, session: str, *, children: Children = "refuse", by: str | None = None) -> _Ids:
        """Delete a session, leaving a tombstone; return the ids of all sessions that were deleted.

        While sessions depend on it (forks or spawned ones), `children` says what happens: "refuse" raises
        `HasChildren`, "cascade" deletes them too, "detach" first copies to its forks what they inherit. A session that
        a tag names is kept, unless "cascade" takes the tag too; notes go with the last copy of their turn. The rows go in
        one commit, the turns are swept afterwards. `by` names the principal who deletes; it defaults to the session's.
        Deleted text stays in the store's files until `vacuum`, and in backups.
        """
        if children not in ("refuse", "cascade", "detach"):
            raise InvalidInput(f'children is "refuse", "cascade" or "detach", not {children!r}')
        record = self.record(session)
        who = record.principal if by is None else validate.name(by, "by")
        while True:
            if children == "detach":
                deletion.refuse_tagged(self._store, record.id)
                for branch in self.reader.branches(record.id):
                    with suppress(SessionNotFound):  # deleted meanwhile
                        self.detach(branch.id)
            try:
                deleted = deletion.delete(self._store, self.reader, record.id, by=who, cascade=children == "cascade")
                break
            except HasChildren:
                if children != "detach" or not self.reader.branches(record.id):
                    raise  # else another fork was made meanwhile
        deletion.sweep_pending(self._store)
        self.rewrites += 1
        return deleted

    def detach(self, session: str) -> None:
        """Copy to a fork what it inherits and cut it loose from its parent; a root is left as it is."""
        rerooting.detach(self._store, self.reader, self.record(session).id)

    def flatten(self, session: str, *, new_id: str | None = None, label: str | None = None) -> Session:
        """Return a new root session with a copy of a session's whole transcript."""
        chain = self.reader.lineage(self._id_of(session))
        made = rerooting.flatten(
            self._store,
            self.reader,
            chain,
            new_id=uuid4().hex if new_id is None else validate.session_id(new_id),
            label=None if label is None else validate.label(label),
        )
        return self.load(made)

    def diff(self, a: Session | str, b: Session | str) -> Diff:
        """Return what differs between two sessions: the prefix that they share, and their tails aligned turn by turn.

        `a` and `b` are ids, labels, IRIs or tags, or such a name with `@` and an exclusive end: "plan@5" is the first
        five turns of plan; or sessions, pending turns and all. What they share is told from lineage and digests: none
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

        return diff_of(self, a, b)

    # --- who follows

    def subscribe(
        self, callback: Callback, *, kinds: Collection[str] | None = None, session: str | None = None
    ) -> Subscription:
        """Call a function for new turns, forks and changes of state from now on, in the order of the commits.

        It gets a `Notice` once the commit is logged, on a thread of the feed; what it raises is logged and stops nothing.
        `kinds` (of `trails.plumbing.watch.KINDS`) and `session`, an id or an IRI, say which; all by default.
        """
        session_id = None if session is None else self._id_of(session)
        return self._following().subscribe(callback, kinds=kinds, session_id=session_id)

    def changes(self, *, kinds: Collection[str] | None = None, session: str | None = None) -> Changes:
        """Return an async iterator over the same notices, until the store closes: `async for notice in store.changes():`."""
        from trails.plumbing.watch import Changes  # noqa: PLC0415 - asyncio takes a while to import

        return Changes(self._following(), kinds=kinds, session_id=None if session is None else self._id_of(session))

    def _following(self) -> Feed:
        from trails.plumbing.watch import Feed  # noqa: PLC0415 - asyncio takes a while to import

        self._feed = self._feed or Feed(self._store.log)
        return self._feed

    # --- questions

    def compare(
        self,
        root: str,
        *,
        at: int | None = None,
        columns: str | Sequence[str] | None = None,
        group_by: str | Sequence[str] | None = None,
        sort_by: str | Sequence[str] | None = None,
        descending: bool = False,
    ) -> Comparison:
        """Return a session and all its forks, theirs too, side by side: a row a branch, read without any transcript.

        `root` is an id, a session IRI or a label. With `at`, only the branches of that fork point have a row: the
        sessions whose transcript leaves the root's at that index. Columns are the names in
        `trails.compare.comparison.COLUMNS` and `meta.KEY` for each metadata key that a branch has. `turns` and what
        starts with `total_` count the whole transcript; tokens, cost, tools, models and the last answer are those of a
        branch's own turns. `columns` says which are shown (default: all). Rows come as in a tree unless `sort_by` names
        columns: smallest first, or greatest first where `descending`; missing values last. `group_by` puts rows with
        the same values together, in order of those values, with mean, least and greatest of every numeric column shown.

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
        from trails.compare import gather  # noqa: PLC0415 - needed only here, and `import trails` stays quick

        fork_point = None if at is None else validate.index(at, "at")
        found = gather.compare(self.reader, self.resolve(validate.text(root, "root")), fork_point)
        return found.arranged(columns=columns, group_by=group_by, sort_by=sort_by, descending=descending)

    def query(self, text: str, /, *, union: bool = True, **parameters: Any) -> Result:
        """Return the result of a SPARQL query, or of a query of the catalogue by name with its parameters.

        SELECT gives rows that hold RDF terms by name or position (`to_dicts()` gives Python values), ASK a bool,
        CONSTRUCT and DESCRIBE lists of triples. In a text of your own, patterns outside GRAPH match all graphs unless
        `union` is False; queries of the catalogue say in full which graphs they read. The prefixes trails, prov, rdf,
        rdfs and xsd are declared already.

        Raises `InvalidInput` for text over 64 KiB, nested deeper than 200, using SERVICE or LOAD, or not SPARQL (the
        message says where, and whether it is an update), and `TrailsError` where the query fails. It runs on a thread of
        its own: Ctrl-C ends the waiting at once, and the query with its next row.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     store.query("SELECT (COUNT(?s) AS ?n) { ?s a trails:Session }").to_dicts()
        [{'n': 0}]
        """
        if validate.text(text, "the query") in queries.load_all():
            bound = queries.find(text).bind(**parameters)
            return outside.on_thread(lambda: self._store.query(bound), len(bound))
        if text.replace("_", "").replace("-", "").isalnum():
            queries.find(text)  # raises, naming what there is
        if parameters:
            raise InvalidInput("parameters go with queries of the catalogue; write the values into a text of your own")
        return outside.answer(text, lambda: self._store.query(text, union=union))


def _parse_cursor(cursor: str) -> tuple[datetime, str]:
    time, _, iri = str(cursor).partition(" ")
    try:
        moment = validate.time(datetime.fromisoformat(time))
    except (ValueError, InvalidInput) as error:
        raise InvalidInput(f"{cursor!r} is no cursor; use the `cursor` of the page before") from error
    if not iris.is_session(iri):
        raise InvalidInput(f"{cursor!r} is no cursor; use the `cursor` of the page before")
    return moment, iri
