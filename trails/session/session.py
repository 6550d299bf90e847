"""The handle on one session: append, persist, fork, replay, and what else a single session can do."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode

from trails import lineage, validate, vocab
from trails.errors import HeadConflict, InvalidInput, PendingTurnsWarning
from trails.integrity import digests
from trails.integrity.leaves import Kind
from trails.model import MAX_FORK_DEPTH, Compaction, SealedTurn, SessionRecord, SystemPrompt, ToolCall, Turn
from trails.plumbing import leaves
from trails.plumbing.transaction import Transaction, id_in_use, there
from trails.records import turns as mapping
from trails.session import cherry_pick, draft
from trails.session.draft import Draft
from trails.session.thread_guard import OneThread
from trails.session.verbs import SessionVerbs
from trails.store.contract import Change, PreconditionFailed

if TYPE_CHECKING:
    from trails.diff import Diff
    from trails.session.repository import Repository


class Session(SessionVerbs):
    """A session: an editable chain of immutable turns. Made by `Repository.create`, `Repository.load` and `fork`.

    What is appended stays in memory until `persist` writes it, all in one commit.
    """

    def __init__(
        self,
        repository: Repository,
        record: SessionRecord,
        *,
        ancestors: Sequence[SessionRecord] = (),
        turns: Sequence[Turn] = (),
        stored: bool,
        prompt: SystemPrompt | None = None,
    ) -> None:
        """Not for callers: `stored` tells whether the session's row is in the store, `ancestors` its lineage above it."""
        self._repository = repository
        self._record = record
        self._ancestors = tuple(ancestors)
        self._turns: MutableSequence[Turn] = turns if isinstance(turns, MutableSequence) else list(turns)
        self._drafts: list[Draft] = []
        self._stored = stored
        self._new_prompts: list[SystemPrompt] = [prompt] if prompt else []
        self._as_tuple: tuple[Turn, ...] | None = None
        self._alone = OneThread(record.id)
        self._held: str | None = None
        """What stores the turns of this handle in its own commit, so that nothing else may; None for nothing."""
        self._seen: int | None = None
        self._writer = object()
        """What the store had removed when the row and the last stored turn were last seen there."""
        repository._watch(self)

    # --- what it is

    @property
    def id(self) -> str:
        """The session's id."""
        return self._record.id

    @property
    def iri(self) -> str:
        """The session's IRI, which is its graph's IRI too."""
        return self._record.iri

    @property
    def record(self) -> SessionRecord:
        """The session's row, as it is or will be stored."""
        return self._record

    @property
    def parent_session_id(self) -> str | None:
        """The id of the session that this one was forked from; None for a root."""
        return self._record.parent_session_id

    @property
    def forked_at_index(self) -> int | None:
        """The first index that the fork owns itself; None for a root."""
        return self._record.forked_at_index

    @property
    def branch(self) -> str:
        """`main`, or `fork-` and 8 hex digits."""
        return self._record.branch

    @property
    def label(self) -> str | None:
        """The session's unique label, where it has one."""
        return self._record.label

    @property
    def agent(self) -> str:
        """The agent that runs the session."""
        return self._record.agent

    @property
    def meta(self) -> dict[str, Any]:
        """The session's metadata (a fresh copy each time)."""
        return dict(self._record.meta)

    @property
    def principal(self) -> str:
        """Whom the session runs for. It can be assigned until the session is first persisted."""
        return self._record.principal

    @principal.setter
    def principal(self, name: str) -> None:
        if self._stored:
            raise InvalidInput(
                f"session {self.id!r} is stored with the principal {self.principal!r}, which its turns are attributed to; "
                "fork it with another principal instead"
            )
        self._record = self._record.model_copy(update={"principal": validate.name(name, "principal")})
        self._redo_pending()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns of the transcript, those inherited from ancestors first, pending ones last."""
        if self._as_tuple is None or len(self._as_tuple) != len(self._turns):
            self._as_tuple = tuple(self._turns)
        return self._as_tuple

    def __len__(self) -> int:
        return len(self._turns)

    def __bool__(self) -> bool:
        """A session is there, also without turns."""
        return True

    def __repr__(self) -> str:
        pending = f", {len(self._drafts)} pending" if self._drafts else ""
        return f"<Session {self.id!r} {self.branch}: {len(self)} turns{pending}>"

    @property
    def pending(self) -> int:
        """How many turns are appended and not persisted."""
        return len(self._drafts)

    @property
    def holds_anything(self) -> bool:
        """Whether there is anything in this handle that `persist` would write."""
        return bool(not self._stored or self._drafts or self._new_prompts)

    @property
    def head(self) -> str:
        """The digest of the last turn, which commits to all turns before it; provisional while turns are pending."""
        return self._turns[-1].digest if self._turns else digests.GENESIS

    # --- writing

    def append(
        self,
        role: str,
        content: str | Sequence[Any],
        *,
        author: str | None = None,
        time: datetime | None = None,
        model: str | None = None,
        usage: Mapping[str, Any] | None = None,
        stop_reason: str | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        tool_call_id: str | None = None,
        is_error: bool = False,
        compaction: Compaction | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Turn:
        """Add a turn at the end and return it; nothing is stored until `persist`.

        `content` is text or a list of parts (mappings or strings). Parts that call a tool or answer a call are found in
        Anthropic's, OpenAI's, pi's and OpenTelemetry's shapes; for plain text, `tool_calls` gives the calls and
        `tool_call_id` (with `is_error`) the call that is answered. `author` defaults to the principal for the roles
        "user" and "human" and to the agent for all others; `agent:NAME` names another agent. `time` is aware; it
        defaults to now. `usage` is kept as reported; token counts and cost are queryable under their common names.

        Raises `InvalidInput` for anything that cannot be kept exactly (lone surrogates, NaN, naive times, empty roles) and
        for an empty text or parts with nothing in them (`[]`, `[{"type": "text", "text": ""}]`), unless the turn calls
        tools, answers a call (or is in the role "tool"), or has the usage or stop reason of a model that said nothing;
        `StoreFailed` once the store is closed.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create()
        ...     turn = s.append("user", "Plan a trip")
        ...     turn.index, turn.role, turn.content, s.persist()
        (0, 'user', 'Plan a trip', 1)
        """
        made = draft.make(
            role,
            content,
            author=author,
            time=time,
            model=model,
            usage=usage,
            stop_reason=stop_reason,
            tool_calls=tool_calls,
            tool_call_id=tool_call_id,
            is_error=is_error,
            compaction=compaction,
            meta=meta,
        )
        if made.says_nothing(content):
            raise InvalidInput(
                f"the turn for session {self.id!r} is empty: give it a text, parts, or the tool calls that it makes"
            )
        return self.append_draft(made)

    def append_draft(self, made: Draft) -> Turn:
        """Add a turn that `draft.make` has checked already (what importers use) and return it; it may be empty."""
        with self._alone:
            self._repository.check_open(self.id)
            turn = made.turn(self._record, len(self._turns), self.head)
            self._entered(turn)  # first: where the window's counter raises, nothing is appended
            self._drafts.append(made)
            self._turns.append(turn)
            return turn

    def discard_pending(self) -> int:
        """Forget the turns that were appended and not persisted; return how many."""
        with self._alone:
            count = len(self._drafts)
            if count:
                del self._turns[-count:]
            self._drafts.clear()
            self._as_tuple = None
            return count

    def take_back(self) -> None:
        """Forget the last turn that was appended and not persisted, where there is one."""
        with self._alone:
            if self._drafts:
                self._drafts.pop()
                self._turns.pop()
            self._as_tuple = None

    def _redo_pending(self) -> None:
        """Make the pending turns anew, after what they chain to or are attributed to has changed."""
        del self._turns[len(self._turns) - len(self._drafts) :]
        self._as_tuple = None
        for made in self._drafts:
            self._turns.append(made.turn(self._record, len(self._turns), self.head))

    def set_system(self, text: str) -> SystemPrompt:
        """Set the system prompt from the next turn on, as a new version; it is stored by the next `persist`."""
        self._repository.check_open(self.id)
        current = self.system_prompt
        made = new_prompt(
            self.id, validate.text(text, "the system prompt"), (current.version if current else 0) + 1, len(self)
        )
        self._new_prompts.append(made)
        return made

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The version of the system prompt in force, own or inherited, or None."""
        if self._new_prompts:
            return self._new_prompts[-1]
        if not self._stored and not self._record.system_version:
            return None
        return self._repository.reader.prompt((self._record, *self._ancestors))

    @property
    def system(self) -> str | None:
        """The text of the system prompt in force, or None."""
        prompt = self.system_prompt
        return prompt.text if prompt and not prompt.redacted else None

    def persist(self, also: Change | None = None) -> int:
        """Write what is new in one commit, all or nothing; return the number of turns written.

        Raises `HeadConflict` when another writer moved the head: nothing is written, and nothing here is lost.
        Repeating a `persist` whose outcome is unknown is safe. `also` is for this package: what goes into the same commit.
        """
        with self._alone:
            if self._stored and not self._drafts and not self._new_prompts and also is None:
                return 0
            if self._held is not None and also is None:
                raise InvalidInput(
                    f"the turns of session {self.id!r} are stored by {self._held} when that is completed, and not before: "
                    "leave persist() and fork() to what comes after it, or load the session again for what is stored"
                )
            if self._drafts and self._record.kind == "worker":
                raise InvalidInput(f"session {self.id!r} is a worker, and the turns of workers are never stored")
            first = len(self._turns) - len(self._drafts)
            removals = self._repository.store.removals
            tx = self._transaction(first)
            # This handle's last turn was seen there by its last commit, quoted ones were not.
            quotes = any(turn.quoted_from is not None for turn in self._turns[first:])
            change = tx.change(seen=None if quotes else self._seen, writer=self._writer)
            writer, self._writer = self._writer, object()  # an interrupted commit's outcome has to be looked up
            try:
                self._repository.commit(change if also is None else change.joined(also))
            except PreconditionFailed as failure:
                if also is not None and also.asked_for(failure):
                    raise
                raise tx.error(failure, otherwise=lambda _: self._moved_on(first)) from failure
            self._seen, self._writer = removals, writer
            written = len(self._drafts)
            self._stored = True
            self._drafts.clear()
            self._new_prompts.clear()
            return written

    def _transaction(self, first: int) -> Transaction:
        """Return the commit that stores what is new; `first` is the index of the first pending turn."""
        tx = Transaction(self._repository.reader)
        if self._stored:
            tx.session(self.id)
        else:
            self._make_row(tx)
        if first > 0:
            tx.require([mapping.turn_type(self._turns[first - 1])])
        for made, turn in zip(self._drafts, self._turns[first:], strict=True):
            tx.add(mapping.turn_quads(SealedTurn.trusted({"turn": turn, "salt": made.salt}), self._answers(turn)))
        if self._drafts:
            tx.forbid((None, vocab.INDEX, vocab.integer(first), NamedNode(self.iri)))
            tx.require(cherry_pick.sources(self._turns[first:]), cherry_pick.source_gone)
        for prompt in self._new_prompts:
            tx.new(mapping.prompt_quads(prompt), None if self._stored else lambda _: self._taken())
        tx.log(self._leaves())
        return tx

    def _make_row(self, tx: Transaction) -> None:
        record = self._record
        tx.add(mapping.session_quads(record))
        tx.forbid_id(self.id)
        if record.label is not None:
            tx.label(record.label)
        if record.parent_session_id is not None:
            tx.session(record.parent_session_id)
        if record.spawned_by is not None:
            tx.require([there(record.spawned_by)])

    def _taken(self) -> InvalidInput:
        return id_in_use(self._repository.reader, self.id)

    def _leaves(self) -> leaves.LeafMaker:
        """Return the maker of the leaves for what is new."""
        batch = [leaves.turns(self.id, len(self._turns), self.head)] if self._drafts else []
        if self._stored and not self._new_prompts:
            return lambda _: batch
        fork = self._record.parent_session_id is not None
        kind: Kind = "change" if self._stored else "fork" if fork else "create"
        start = 0 if self._stored else self._record.starts_at
        return lambda store: [*leaves.row_leaves(store, kind, self.id, start), *batch]

    def _answers(self, turn: Turn) -> dict[str, str]:
        """Return the IRIs of the tool calls that a turn answers, by call id: the latest call with that id before it."""
        if not turn.tool_results:
            return {}
        return lineage.answered_calls(self._turns, turn)

    def _moved_on(self, first: int) -> HeadConflict:
        """Return the error for a session to which another writer has added since this handle read it."""
        reader = self._repository.reader
        stored = reader.turns(reader.lineage(self.id)) if self._stored else []
        expected = self._turns[first - 1].digest if first else digests.GENESIS
        actual = stored[-1].digest if stored else digests.GENESIS
        return HeadConflict(
            f"session {self.id!r} moved on while this handle held it: its head is {actual[:16]} after {len(stored)} turns, "
            f"expected {expected[:16]} after {first}; nothing was written. Load it again and append there, or keep this "
            "tail with keep_as_fork()",
            expected=expected,
            actual=actual,
        )

    def keep_as_fork(self, *, id: str | None = None) -> Session:  # noqa: A002 - the public name
        """Store the pending turns as a fork at the point where this handle last agreed with the store; return the fork.

        This is the remedy for `HeadConflict`: nothing that either writer wrote is lost. This handle then holds no
        pending turns; load the session again to go on with what the other writer wrote.
        """
        with self._alone:
            first = len(self._turns) - len(self._drafts)
            drafts = self._drafts
            fork = self._child(first, id=id, turns=self._turns[:first])
            for made in drafts:
                fork.append_draft(made)
            fork.persist()
            self._drafts = []
            del self._turns[first:]
            self._as_tuple = None
            return fork

    # --- forks

    def fork(
        self,
        at: int | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the public name
        principal: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        meta: Mapping[str, Any] | None = None,
        created: datetime | None = None,
        source_session: str | None = None,
        key: str | None = None,
        kind: str | None = None,
    ) -> Session:
        """Return a new session that shares this one's turns below `at` and copies none of them.

        `at` runs from 0 to `len(self)` and is the exclusive end of the shared prefix; the default is the end. Pending
        turns are persisted first; the fork's own row is stored by its first `persist`, which may be without turns. The
        fork has this session's principal and agent unless given, and the system prompt that was in force at `at`; it
        never has this session's key.

        Raises `InvalidInput` for a fork index out of range and `ForkDepthExceeded` for a 33rd ancestor, both before
        anything is written.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     f = s.fork(at=1); _ = f.append("assistant", "How long?"); written = f.persist()
        ...     written, [t.content for t in f.turns], f.forked_at_index
        (1, ['Plan a trip', 'How long?'], 1)
        """
        index = validate.fork_index(len(self._turns) if at is None else at, len(self._turns), self.id)
        if len(self._ancestors) >= MAX_FORK_DEPTH:
            raise lineage.depth_exceeded(f"a fork of {self.id}")
        made = self._child(
            index,
            turns=self._turns[:index],
            id=id,
            principal=principal,
            agent=agent,
            label=label,
            meta=meta,
            created=created,
            source_session=source_session,
            key=key,
            kind=kind,
        )
        self.persist()
        prompt = self._repository.reader.prompt((self._record, *self._ancestors), at=index)
        if prompt is not None:
            made._record = made._record.model_copy(update={"system_version": prompt.version})
        return made

    def _child(
        self,
        index: int,
        *,
        turns: Sequence[Turn],
        id: str | None = None,  # noqa: A002 - the public name
        principal: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        meta: Mapping[str, Any] | None = None,
        created: datetime | None = None,
        source_session: str | None = None,
        key: str | None = None,
        kind: str | None = None,
    ) -> Session:
        branch = f"fork-{secrets.token_hex(4)}"
        record = SessionRecord(
            id=branch_id(self.id, branch) if id is None else validate.session_id(id),
            parent_session_id=self.id,
            forked_at_index=index,
            fork_head=turns[-1].digest if turns else digests.GENESIS,
            branch=branch,
            principal=self.principal if principal is None else validate.name(principal, "principal"),
            agent=self.agent if agent is None else validate.name(agent, "agent"),
            created=datetime.now(UTC) if created is None else validate.time(created, "created"),
            source_session=None if source_session is None else validate.text(source_session, "source_session"),
            label=None if label is None else validate.label(label),
            key=None if key is None else validate.name(key, "key"),
            kind=None if kind is None else validate.name(kind, "kind"),
            meta_json=validate.meta(meta),
        )
        above = (self._record, *self._ancestors)
        return Session(self._repository, record, ancestors=above, turns=turns, stored=False)._windowed_as(self)

    def branches(self) -> list[SessionRecord]:
        """Return the records of the direct forks of this session, oldest first."""
        return self._repository.reader.branches(self.id)

    def diff(self, other: Session | str) -> Diff:
        """Return what differs between this session and another: the prefix they share, and their tails turn by turn.

        `other` is a session, or a reference as for `Repository.diff`. Pending turns count; nothing is written.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     f = s.fork(at=1); _ = f.append("assistant", "Where to go?"); found = f.diff(s); written = f.persist()
        ...     found.common, [(span.side, span.text) for span in found.entries[0].detail.text]
        (1, [('equal', 'Where to'), ('left', ' go'), ('equal', '?')])
        """
        from trails.session.diff import diff_of  # noqa: PLC0415 - only those who compare need it

        return diff_of(self._repository, self, other)

    def detach(self) -> Session:
        """Copy the inherited turns into this fork and cut it loose from its parent; return the fork itself.

        Pending turns are persisted first. Digests, salts, authors, times, indices and branch names stay, so the head
        and anything that was proved about it stay true; copies have new IRIs, with `prov:alternateOf` the original.
        A root is left as it is.
        """
        self.persist()
        self._repository.detach(self.id)
        self._reload()
        return self

    def flatten(self, *, id: str | None = None, label: str | None = None) -> Session:  # noqa: A002 - the public name
        """Return a new root with a copy of this session's whole transcript; this session is left alone.

        Pending turns are persisted first. Copies are made as by `detach`.
        """
        self.persist()
        return self._repository.flatten(self.id, new_id=id, label=label)

    def _reload(self) -> None:
        fresh = self._repository.load(self.id)
        self._record, self._ancestors, self._turns = fresh._record, fresh._ancestors, fresh._turns
        self._as_tuple = None
        self._repository._forget(fresh)

    def replay(self, up_to_index: int | None = None) -> list[dict[str, Any]]:
        """Return what is stored of this session as plain dicts (role, content, index, branch), below `up_to_index`."""
        return self._repository.replay(self.id, up_to_index=up_to_index)

    def set_label(self, label: str | None) -> None:
        """Give the session a label that no other session has, or take it away with None; stored at once if it is."""
        if self._stored:
            self._repository.label(self.id, label)
        wanted = None if label is None else validate.label(label)
        self._record = self._record.model_copy(update={"label": wanted})

    def warn_if_pending(self) -> None:
        """Warn about turns that were appended and never persisted."""
        if self._drafts and self._record.kind != "worker":  # a worker's turns are never stored
            warnings.warn(
                f"session {self.id!r} is left with {len(self._drafts)} turns that were appended and not persisted; "
                "call persist() before the store closes",
                PendingTurnsWarning,
                stacklevel=3,
            )


def branch_id(parent_id: str, branch: str) -> str:
    """Return the id that a fork gets when none is given: its root's name and its branch, never too long.

    >>> branch_id("plan", "fork-00ff00ff"), branch_id("plan~fork-00ff00ff", "fork-11111111")
    ('plan~fork-00ff00ff', 'plan~fork-11111111')
    """
    stem = parent_id.partition("~fork-")[0]
    return f"{stem[: validate.MAX_ID - len(branch) - 1]}~{branch}"


def new_prompt(session_id: str, text: str, version: int, effective_from: int) -> SystemPrompt:
    """Return a version of a session's system prompt, salted and digested."""
    salt = digests.new_salt()
    return SystemPrompt(
        session_id=session_id,
        version=version,
        text=text,
        effective_from=effective_from,
        time=datetime.now(UTC),
        digest=digests.prompt_digest(text, salt, version=version, effective_from=effective_from),
        salt=salt,
    )
