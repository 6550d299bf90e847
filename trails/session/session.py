"""The handle on one session: append, persist, fork, replay, and what else a single session can do."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast, overload
from uuid import uuid4

from trails.display import html
from trails.display.tables import PlainTable, Tabular
from trails.errors import InvalidInput, NoSuchName
from trails.handles import Handle
from trails.history import annotation_kinds, turn_builder
from trails.history.lookup import names
from trails.history.lookup.summaries import Page
from trails.history.pending_session import Worktree
from trails.history.removal import detach
from trails.history.transcript import Turns
from trails.history.workspace import Workspace
from trails.model import lineage, sdk_messages, validation
from trails.model.file_versions import FileContents, file_payloads
from trails.model.validation import stored_json
from trails.model.values import (
    MAX_FORK_DEPTH,
    Call,
    Compaction,
    Payload,
    PayloadReference,
    SessionRecord,
    SystemPrompt,
    ToolCall,
    ToolResult,
    Turn,
)
from trails.session import blame, cherry_pick, maintenance, presentation, proofs
from trails.session.registers import Registers
from trails.session.work_files import WorkFiles
from trails.store.remote.store import RemoteStore

if TYPE_CHECKING:
    from prov.model import ProvDocument

    from trails.compare import Diff
    from trails.context import CompactionPolicy, Context, TokenWindow, Window
    from trails.context.compaction import Keep, MaxTokens
    from trails.context.messages import Counter
    from trails.history.turn_builder import Screening
    from trails.integrity.signed_notes import HeadSignature
    from trails.model.sdk_messages import Dumped
    from trails.rdf.register_records import Incident, ProcessingPurpose
    from trails.session.blame import Bisection, Blame, Predicate
    from trails.session.cherry_pick import OutcomeSummary
    from trails.session.model_context import IsOverflow, Summarise
    from trails.session.streaming import Streaming

_Answer = TypeVar("_Answer")


class Session(Handle, Tabular, public=True, reached="store.load(id)"):
    """A session: an editable chain of immutable turns. Made by `Repository.create`, `Repository.load` and `fork`.

    What is appended stays in memory until `persist` writes it, all in one commit. Used with `with`, it is persisted where
    the block ends, also by an error.
    """

    def __init__(self, worktree: Worktree, *, autopersist: bool = False) -> None:
        """Not for callers: `Repository.create`, `Repository.load` and `fork` make sessions."""
        if not isinstance(worktree, Worktree):
            raise InvalidInput(
                "a Session is not made by its class: store.create(...) makes one, store.load(id) gives a stored one"
            )
        self.worktree = worktree
        """The session as the other parts of this package work on it (internal)."""
        self.autopersist = autopersist
        """Whether what is appended is stored at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Persist what is new, also where the block raises; its error goes on, with what kept the turns from being stored."""
        if error is None:
            self.worktree.store_news()
            return
        try:
            self.worktree.store_news()
        except Exception as failure:  # noqa: BLE001 - the block's own error is the one that its caller waits for
            self.worktree.note_unstored(error, failure)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse what would be lost: nothing of a session is changed by setting it but its principal."""
        if name not in ("worktree", "principal", "autopersist") and not name.startswith("_"):
            raise NoSuchName(
                f"a session's {name!r} cannot be set; set_label() and set_system() change a session, "
                "create(meta=...) and fork(meta=...) say more of a new one"
            )
        super().__setattr__(name, value)

    # --- what it is

    @property
    def id(self) -> str:
        """The session's id."""
        return self.worktree.record.id

    @property
    def iri(self) -> str:
        """The session's IRI, which is its graph's IRI too."""
        return self.worktree.record.iri

    @property
    def record(self) -> SessionRecord:
        """The session's row, as it is or will be stored."""
        return self.worktree.record

    @property
    def parent_session_id(self) -> str | None:
        """The id of the session that this one was forked from; None for a root."""
        return self.worktree.record.parent_session_id

    @property
    def forked_at_index(self) -> int | None:
        """The first index that the fork owns itself; None for a root."""
        return self.worktree.record.forked_at_index

    @property
    def branch(self) -> str:
        """`main`, or `fork-` and 8 hex digits."""
        return self.worktree.record.branch

    @property
    def label(self) -> str | None:
        """The session's unique label, where it has one."""
        return self.worktree.record.label

    @property
    def agent(self) -> str:
        """The agent that runs the session."""
        return self.worktree.record.agent

    @property
    def meta(self) -> dict[str, Any]:
        """The session's metadata (a fresh copy each time)."""
        return dict(self.worktree.record.meta)

    @property
    def principal(self) -> str:
        """Whom the session runs for. It can be assigned until the session is first persisted."""
        return self.worktree.record.principal

    @principal.setter
    def principal(self, name: str) -> None:
        if self.worktree.stored:
            raise InvalidInput(
                f"session {self.id!r} is stored with the principal {self.principal!r}, which its turns are attributed to; "
                "fork it with another principal instead"
            )
        self.worktree.change_record(principal=validation.name(name, "principal"))

    @property
    def turns(self) -> Turns:
        """All turns of the transcript, those inherited from ancestors first, pending ones last, as they are now.

        A sequence that never changes, equal to a tuple of the same turns. Those of a long session are made when they are
        touched.
        """
        return self.worktree.all_turns()

    # --- as a sequence of turns

    def __len__(self) -> int:
        return len(self.worktree.turns)

    def __iter__(self) -> Iterator[Turn]:
        """Yield the turns, as they are now: what is appended meanwhile is not among them."""
        return iter(self.turns)

    def __reversed__(self) -> Iterator[Turn]:
        return reversed(self.turns)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        """Return the turn at an index, counted from the end where it is negative, or the turns of a slice.

        Raises `TurnNotFound`, an `IndexError`, for an index past an end.
        """
        return presentation.turn_at(self.worktree.turns, index, self.id)

    def __contains__(self, turn: object) -> bool:
        """Tell whether the transcript has a turn: the same message at the same place, by its digest, copies included."""
        return isinstance(turn, Turn) and presentation.has_turn(self.worktree.turns, turn)

    def tail(self, count: int = 10) -> tuple[Turn, ...]:
        """Return the last `count` turns (0 or more; all where there are fewer), and read no others where none was read yet.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(); turns = [s.append("user", text) for text in ("a", "b", "c")]; written = s.persist()
        ...     [turn.content for turn in s.tail(2)], s[-1].content, [turn.content for turn in s[:2]], turns[0] in s
        (['b', 'c'], 'c', ['a', 'b'], True)
        """
        last = validation.index(count, "count")
        return tuple(self.worktree.turns[max(0, len(self) - last) :])

    def __bool__(self) -> bool:
        """A session is there, also without turns."""
        return True

    def __repr__(self) -> str:
        pending = f", {self.pending} pending" if self.pending else ""
        return f"<Session {self.id!r} {self.branch}: {len(self)} turns{pending}>"

    def table(self) -> PlainTable:
        """Return the transcript as a table, a row a turn: its place, who said what, when, and what it cost."""
        return presentation.turn_table(self.turns)

    @html.safe
    def _repr_html_(self) -> str:
        return presentation.transcript_html(self.worktree)

    @property
    def pending(self) -> int:
        """How many turns are appended and not persisted."""
        return self.worktree.pending

    @property
    def head(self) -> str:
        """The digest of the last turn, which commits to all turns before it; provisional while turns are pending."""
        return self.worktree.head

    @property
    def window(self) -> TokenWindow[Turn] | None:
        """The window that the session was created or loaded with (`max_tokens`); what is appended enters it."""
        return self.worktree.window

    # --- writing

    def append(
        self,
        role: str,
        content: str | Sequence[Any] | Mapping[str, Any] | Dumped | None = None,
        *,
        author: str | None = None,
        time: datetime | None = None,
        model: str | None = None,
        usage: Mapping[str, Any] | Dumped | None = None,
        stop_reason: str | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any] | Dumped] | None = (),
        tool_call_id: str | None = None,
        is_error: bool = False,
        tool_results: Iterable[ToolResult | Mapping[str, Any]] = (),
        call: Call | None = None,
        compaction: Compaction | None = None,
        meta: Mapping[str, Any] | None = None,
        as_content: bool = False,
        payloads: Iterable[Payload] = (),
        files: FileContents = (),
        source_id: str | Sequence[str] | None = None,
        scan: Screening | None = None,
    ) -> Turn:
        """Add a turn at the end and return it; nothing is stored until `persist`.

        `content` is text, a list of parts (mappings, strings, an SDK's objects), or what a model's SDK returned, as
        `append_message` takes it: `role` must be its role then. None is no content, as beside tool calls. Parts that call a
        tool or answer a call are found in Anthropic's, OpenAI's, pi's and OpenTelemetry's shapes; for plain text,
        `tool_calls` gives the calls and `tool_call_id` (with `is_error`) the call that is answered. `tool_results`
        (`ToolResult` values, or mappings of their fields) tells more of the calls that are answered: when they ran, how they
        came out, who let them run, on which server; `call` the same of the model call, and which turns the model was shown.
        `author` defaults to the principal
        for the roles "user" and "human", for the role "tool" to the tool that is answered for, where it is one, and to the
        agent for all others; `agent:NAME` names another agent. `time` is aware; it defaults to when the model call or the
        tool ended, where that is told, else to now. `usage` is kept as reported; token counts and cost are queryable under
        their common names (`input_tokens`, `prompt_tokens`, ..., `cost`), where they are numbers from 0 to 10**12.
        `source_id` is what its source calls this message: if the transcript has a turn with it, that is returned as it is, and
        nothing is added. It is found without reading the transcript, also if another writer was quicker. A turn may have
        several: it is known by the first one.
        With `as_content`, the parts are content whatever they look like: no call, no answer and no reply is read out of
        them, and parts with nothing in them are no mistake. One part may then be given without its list.
        `payloads` are bytes that the turn carries beside its content (`trails.Payload`, at most 256 MiB each): kept once for
        equal bytes, in no search, read by redactions and scans for secrets. `files` says what the turn made of files: their
        contents by path, None for one that was deleted, or `trails.FileVersion` values, as `files.changes` gives them.
        `scan` says what becomes of a turn that holds what looks like a key or a password: "refuse" raises `SecretFound`,
        "redact" puts a mark in its place, "off" appends it as it is; by default as the store was opened.

        Raises `InvalidInput` for a role that looks like a mistake (`trails.model.validation`), for
        anything that cannot be kept exactly (lone surrogates, NaN, naive times), for
        token counts and costs that could not be added up, for a call that ends before it starts or does not span the turn's
        time, for a context or a system prompt that are not there, and
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
        sources = source_id if isinstance(source_id, list | tuple) else () if source_id is None else (source_id,)
        if sources and (turn := self.worktree.turn_of_source(validation.source_id(sources[0]))) is not None:
            return turn
        if isinstance(role, Mapping):
            raise InvalidInput(
                "a message as an API has it is appended with append_message(message), not append(message)"
            )
        if files != ():
            payloads = [*turn_builder.check_payloads(payloads), *file_payloads(files)]
        options: dict[str, Any] = {
            "author": author,
            "time": time,
            "model": model,
            "usage": usage,
            "stop_reason": stop_reason,
            "tool_calls": tool_calls,
            "tool_call_id": tool_call_id,
            "is_error": validation.flag(is_error, "is_error"),
            "tool_results": tool_results,
            "call": call,
            "compaction": compaction,
            "meta": meta,
            "payloads": payloads,
        }
        if sources:
            options["source_ids"] = sources
        if validation.flag(as_content, "as_content"):
            options["as_content"] = True
            content = [content] if isinstance(content, Mapping) else content
        if not isinstance(content, str) or tool_calls != () or usage is not None:
            content, options = sdk_messages.taken(role, content, options)
        return self._append_all([turn_builder.check_fields(self.id, role, content, options)], scan)[0]

    def append_message(
        self,
        message: object,
        *,
        author: str | None = None,
        time: datetime | None = None,
        model: str | None = None,
        call: Call | None = None,
        meta: Mapping[str, Any] | None = None,
        payloads: Iterable[Payload] = (),
        source_id: str | None = None,
        scan: Screening | None = None,
    ) -> Turn:
        """Add one message as a turn: a whole reply of OpenAI's or Anthropic's SDK, a message of it, or one of a history.

        Messages of LangChain, pydantic-ai and others (`trails.model.message_shapes`), dataclasses, and objects with
        the attributes
        `role` and `content` are taken too. A chat completion, a response or an Anthropic message gives content, tool calls,
        model, usage and stop reason; a response's items are the turn's parts. What a turn has no place for (ids, annotations,
        unknown fields) is kept in its metadata under `api`. The options are those of `append` and stand before what the
        message says. `source_id` is as for `append`.

        Raises `InvalidInput` for what is no message, for several choices, for one that makes several turns (give it to
        `extend`), and for a system message before the first turn,
        which is the session's system prompt; else as `append`.

        >>> import trails
        >>> with trails.open(":memory:") as store, store.create() as s:
        ...     asked = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        ...     turn = s.append_message({"role": "assistant", "content": None, "tool_calls": [asked]})
        ...     turn.role, turn.content, turn.tool_calls[0].name
        ('assistant', '', 'weather')
        """
        if (
            source_id is not None
            and (turn := self.worktree.turn_of_source(validation.source_id(source_id))) is not None
        ):
            return turn
        given = sdk_messages.read(message)
        if given.role in sdk_messages.SYSTEM_ROLES and not len(self):
            raise InvalidInput(
                f"the system prompt is session {self.id!r}'s own: give it to create() or set_system(), or hand the whole "
                "history to extend()"
            )
        said: dict[str, Any] = {
            "author": author,
            "time": time,
            "model": model,
            "call": call,
            "meta": meta,
            "payloads": payloads,
        }
        if source_id is not None:
            said["source_ids"] = (source_id,)
        return self._append_all(
            [turn_builder.check_fields(self.id, given.role, given.content, sdk_messages.merged(given.options, said))],
            scan,
        )[0]

    def extend(self, messages: Iterable[object], *, scan: Screening | None = None) -> tuple[Turn, ...]:
        """Add a history, each message as one turn, and return the turns: all of them, or none where one is refused.

        `messages` are those of OpenAI's chat, of Anthropic's messages, or the items of OpenAI's responses, a response's
        `output` too; each as `append_message` takes it. A system message at the beginning is the session's system prompt: it
        is set where the session has neither one nor turns, and must say the same as the one in force elsewhere.

        Raises `InvalidInput` for another system prompt than the one in force, and for a message that cannot be kept, naming
        its place.

        >>> import trails
        >>> with trails.open(":memory:") as store, store.create() as s:
        ...     turns = s.extend([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Plan a trip"}])
        ...     s.system, [turn.content for turn in s.turns]
        ('Be brief.', ['Plan a trip'])
        """
        given = sdk_messages.history(messages)
        prompt = None
        while given and given[0].role in sdk_messages.SYSTEM_ROLES:
            prompt = "\n".join(filter(None, (prompt, sdk_messages.prompt_of(given.pop(0)))))
        in_force = self.system
        if prompt is not None and prompt != in_force and (in_force is not None or len(self)):
            raise InvalidInput(
                f"the history's system prompt is not that of session {self.id!r}: leave it out, or change the session's with "
                "set_system() first"
            )
        made = [turn_builder.check_fields(self.id, *each) for each in given]
        if prompt is not None and in_force is None:
            self.set_system(prompt)
        return self._append_all(made, scan)

    @property
    def files(self) -> WorkFiles:
        """The files that its turns worked on: what became of them, and how they were after any turn."""
        return WorkFiles(self.worktree)

    def payload(self, payload: PayloadReference | str) -> bytes:
        """Return the bytes of a payload, of a pending turn's too: given one of a turn's `payloads`, or its digest.

        Raises `InvalidInput` for a payload that was redacted or that the store has not, `IntegrityError` for bytes that are
        not those that the digest says.

        >>> import trails
        >>> with trails.open(":memory:") as store, store.create() as s:
        ...     turn = s.append("assistant", "Done.", payloads=[trails.Payload(data=b"x = 1", name="state")])
        ...     turn.payloads[0].name, turn.payloads[0].size, s.payload(turn.payloads[0])
        ('state', 5, b'x = 1')
        """
        return self.worktree.payload(payload)

    def streaming(
        self,
        role: str,
        *,
        author: str | None = None,
        time: datetime | None = None,
        model: str | None = None,
        call: Call | None = None,
        meta: Mapping[str, Any] | None = None,
        scan: Screening | None = None,
    ) -> Streaming:
        """Return a turn to write piece by piece in a `with` block, which stores it as one turn where the block ends.

        `write` takes texts, or the chunks of a model's SDK. Without a block, `finish()` stores the turn.

        Pending turns are persisted first. Until it ends, a store on disk keeps what is written in a file beside its engine:
        where the process is killed, the next to open the store finds it as a turn with the stop reason `failed-partial`.
        (Where its secrets are looked for, with `scan`, that is done at the end, and there is no such file.)
        An error in the block makes it one at once, and goes on. What a power cut takes is what the system had not written
        yet. `usage`, `model`, `stop_reason` and `tool_calls` can be assigned before the end, or `finish` takes the SDK's
        whole reply. The options are those of `append`. Where another writer was quicker, the turn stays pending
        (`HeadConflict`), and what is recovered becomes a fork.

        Raises `InvalidInput` for what `append` does not take, at once; where nothing was written, at the end.

        >>> import trails
        >>> with trails.open(":memory:") as store, store.session("chat") as s:
        ...     with s.streaming("assistant", model="m-1") as turn:
        ...         for chunk in ("Take ", "the train."):
        ...             turn.write(chunk)
        ...         turn.usage = {"input_tokens": 12, "output_tokens": 4}
        ...     turn.turn.content, s.pending
        ('Take the train.', 0)
        """
        from trails.session.streaming import Streaming  # noqa: PLC0415 - only those who stream need it

        said = {"author": author, "time": time, "model": model, "call": call, "meta": meta}
        return Streaming(self.worktree, role, {name: value for name, value in said.items() if value is not None}, scan)

    def _append_all(self, made: Iterable[turn_builder.Draft], scan: Screening | None) -> tuple[Turn, ...]:
        """Append turns, all or none, and store them where the session stores at once."""
        turns: list[Turn] = []
        scan = turn_builder.check_screening(scan)
        try:
            for each in made:
                turns.append(self.worktree.append(each, scan))  # noqa: PERF401 - those before one that is refused are taken back
        except BaseException:
            for _ in turns:
                self.worktree.take_back()
            raise
        if self.autopersist:
            self.worktree.store_news()
        return tuple(turns)

    def refresh(self) -> int:
        """See what other writers appended since this handle read the session; return how many turns that are.

        Pending turns stay pending, behind those: after a `HeadConflict`, `refresh` and `persist` store them. If nothing came,
        this reads no turn. Raises `SessionNotFound` if the session was deleted, and what `Repository.refresh` raises.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s"); _ = s.persist()
        ...     other = store.load("s"); _ = other.append("user", "a"); written = other.persist()
        ...     turn = s.append("user", "b"); s.refresh(), [turn.content for turn in s.turns], s.persist()
        (1, ['a', 'b'], 1)
        """
        return self.worktree.refresh()

    def discard_pending(self) -> int:
        """Forget the turns that were appended and not persisted; return how many."""
        return self.worktree.discard_pending()

    def set_system(self, text: str, *, by: str | None = None) -> SystemPrompt:
        """Set the system prompt from the next turn on, as a new version; it is stored by the next `persist`.

        `by` names who sets it, as for `Repository.delete`.
        """
        return self.worktree.set_system(text, by)

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The version of the system prompt in force, own or inherited, or None."""
        return self.worktree.system_prompt

    @property
    def system(self) -> str | None:
        """The text of the system prompt in force, or None."""
        return self.worktree.system

    def persist(self, *, sign: str | None = None) -> int:
        """Write what is new in one commit, all or nothing; return the number of turns written.

        With a principal's secret key in `sign`, the head is signed in the same commit, see there.

        Raises `HeadConflict` when another writer moved the head: nothing is written, and nothing here is lost.
        Repeating a `persist` whose outcome is unknown is safe.
        """
        return self.worktree.persist() if sign is None else proofs.persist_signed(self.worktree, sign)[0]

    def sign(self, key: str) -> HeadSignature:
        """Sign the head, and with it all turns of the transcript, as the principal whose secret key is given.

        Pending turns are persisted in the same commit. `key` is of `trails.integrity.signed_notes.new_principal_key`, and
        bears the principal's name. `verify` checks it; a head that the key signed before is not signed again. Needs
        `cryptography`. Raises `InvalidInput` for a session without turns, `HeadConflict` as `persist` does.

        >>> import trails
        >>> from trails.integrity.signed_notes import new_principal_key
        >>> secret, public = new_principal_key("alice")
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan", principal="alice"); _ = plan.append("user", "Plan a trip")
        ...     signed = plan.sign(secret); _ = plan.append("assistant", "Where to?"); _ = plan.persist()
        ...     (signed.principal, signed.index), store.verify(signers=[public]).unsigned[0].first
        (('alice', 0), 1)
        """
        return proofs.persist_signed(self.worktree, key)[1]

    def signatures(self) -> list[HeadSignature]:
        """Return what was signed of this session itself, in order of index and time; `verify` says whether it holds."""
        return annotation_kinds.read_signatures(self.worktree.workspace.store, self.id)

    def flag_incident(
        self,
        kind: str = "serious",
        *,
        reason: str | None = None,
        aware: datetime | None = None,
        by: str | None = None,
    ) -> Incident:
        """Flag an incident that happened in this session, which must be stored, and return it with its deadline.

        See `Registers.flag_incident`.
        """
        store = self.worktree.workspace
        return Registers(store).flag_incident(kind, self.id, reason=reason, aware=aware, by=by)

    def set_purpose(self, purpose: str, basis: str | None = None, *, by: str | None = None) -> ProcessingPurpose:
        """Say what personal data are processed for in this session, which must be stored, and on which legal basis.

        See `Registers.set_purpose`.
        """
        return Registers(self.worktree.workspace).set_purpose(purpose, basis, session=self.id, by=by)

    def keep_as_fork(self, *, id: str | None = None) -> Session:  # noqa: A002 - the public name
        """Store the pending turns as a fork at the point where this handle last agreed with the store; return the fork.

        This is the remedy for `HeadConflict`: nothing that either writer wrote is lost. This handle then holds no
        pending turns; load the session again to go on with what the other writer wrote.
        """
        return Session(self.worktree.keep_as_fork(id))

    def set_label(self, label: str | None, *, by: str | None = None) -> None:
        """Give the session a label that no other session has, or take it away with None; stored at once if it is.

        `by` names who does it, as for `Repository.delete`; it is on record with the old label.
        """
        tree = self.worktree
        if tree.stored:
            names.set_label(tree.workspace, self.id, label, by=by)
        wanted = None if label is None else validation.label(label)
        tree.record = tree.record.model_copy(update={"label": wanted})

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
        by: str | None = None,
    ) -> Session:
        """Return a new session that shares this one's turns below `at` and copies none of them.

        `at` runs from 0 to `len(self)` and is the exclusive end of the shared prefix; the default is the end. Pending
        turns are persisted first, unless a batch stores them (`Repository.commit`); the fork's own row is stored by its first
        `persist`, which may be without turns. The fork has this session's principal and agent unless given, and the system
        prompt that was in force at `at`; it never has this session's key. `by` names who forks, as for `Repository.delete`.

        Raises `InvalidInput` for a fork index out of range or an id or label in use, and `ForkDepthExceeded` for a 33rd
        ancestor, all before anything is written.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     f = s.fork(at=1); _ = f.append("assistant", "How long?"); written = f.persist()
        ...     written, [t.content for t in f.turns], f.forked_at_index
        (1, ['Plan a trip', 'How long?'], 1)
        """
        tree, length = self.worktree, len(self)
        tree.workspace.check_open(self.id)
        index = validation.fork_index(length if at is None else at, length, self.id)
        if tree.depth >= MAX_FORK_DEPTH:
            raise lineage.depth_exceeded(f"a fork of {self.id}")
        given: dict[str, Any] = {
            "principal": principal,
            "agent": agent,
            "label": label,
            "meta": meta,
            "key": key,
            "kind": kind,
        }
        given |= {"created": created, "source_session": source_session}
        with tree.workspace.recalling():
            made = tree.child(index, turns=tree.turns.below(index), session_id=id, by=by, **given)
            try:
                if id is not None or label is not None:
                    made.check_names()
                if not tree.is_in_batch:
                    self.persist()
                tree.share_prompts(made)
            except BaseException:
                made.discard_pending()  # nobody got it, so that nobody is warned of it
                raise
        return Session(made)

    def branches(self) -> Page[SessionRecord]:
        """Return the records of the direct forks of this session, oldest first, all on one page."""
        return Page(self.worktree.workspace.reader.branches(self.id), None)

    def diff(self, other: Session | SessionRecord | str) -> Diff:
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

        return diff_of(self.worktree.workspace, self.worktree, parse_place(other))

    def delete(
        self, *, children: maintenance.ChildPolicy = "refuse", by: str | None = None, reason: str | None = None
    ) -> list[str]:
        """Delete the stored session, as `Repository.delete` does; return the ids of all sessions that were deleted.

        Turns that are pending here go with it. Raises `HasChildren` where others depend on it and `children` is "refuse":
        nothing is changed then, here neither. A session that was never persisted raises `InvalidInput`.
        """
        if not self.worktree.stored:
            raise InvalidInput(f"session {self.id!r} was never persisted, so there is nothing to delete: let go of it")
        gone = maintenance.delete_session(self.worktree.workspace, self.id, children=children, by=by, reason=reason)
        self.discard_pending()
        return gone

    def detach(self, *, by: str | None = None) -> Session:
        """Copy the inherited turns into this fork and cut it loose from its parent; return the fork itself.

        Pending turns are persisted first. Digests, salts, authors, times, indices and branch names stay, so the head
        and anything that was proved about it stay true; copies have new IRIs, with `prov:alternateOf` the original.
        `by` names who does it, as for `Repository.delete`. A root is left as it is.
        """
        workspace = self.worktree.workspace
        deed = workspace.deed(by)
        self.persist()
        if isinstance(workspace.store, RemoteStore):
            workspace.store.act("detach", session=self.id, by=workspace.who(by))
        else:
            with workspace.rewriting():
                detach.detach_session(workspace.store, workspace.reader, self.id, deed)
        self.worktree.reload()
        return self

    def flatten(
        self,
        *,
        id: str | None = None,  # noqa: A002 - the public name
        label: str | None = None,
        by: str | None = None,
    ) -> Session:
        """Return a new root with a copy of this session's whole transcript; this session is left alone.

        Pending turns are persisted first. Copies are made as by `detach`.
        """
        make = _flattening(self.worktree.workspace, self.id, id, label, by)
        self.persist()
        return make()

    def prov(self, *, recorded_only: bool = False) -> ProvDocument:
        """Return what is stored of the session in W3C PROV, as a document of the package `prov`.

        Its turns and those that it inherits are in bundles, and each statement says what it rests on (`trails:evidence`);
        with `recorded_only`, what only follows by a rule is left out. It is held in memory: `trails.provenance.export` writes a
        stream. Pending turns are not in it.
        """
        from trails.provenance import session_export  # noqa: PLC0415 - readers and writers of five formats take long to import

        return session_export.export_document(self.worktree, self.iri, recorded_only=recorded_only)

    def replay(self, up_to_index: int | None = None) -> list[dict[str, Any]]:
        """Return what is stored of this session as plain dicts (role, content, index, branch), below `up_to_index`."""
        return replay_session(self.worktree.workspace, self.id, up_to_index=up_to_index)

    # --- turns of its own and others' transcripts

    def cherry_pick(
        self,
        source: Session | SessionRecord | str,
        indexes: int | Iterable[int],
        *,
        whole_calls: bool = False,
        by: str | None = None,
    ) -> tuple[Turn, ...]:
        """Add turns of another session's transcript at the end as new turns and return them; stored by `persist`.

        `source` is a session of the same store, its id or IRI; `indexes` is one index of its stored transcript or
        several in ascending order. Text, author, model and tool calls are repeated; index, time and digest are new, and
        `prov:wasQuotedFrom` names the turn that is repeated. A tool call and its answer are picked together or not at
        all: where one is missing this is refused, or with `whole_calls` that one is picked too. `by` names who picks, as
        for `Repository.delete`.

        Raises `InvalidInput` for turns that are not there, redacted, summaries, or parted; nothing is added then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.append("user", "By train")
        ...     written = plan.persist()
        ...     other = store.create(id="other")
        ...     [(turn.index, turn.content, turn.quoted_from.index) for turn in other.cherry_pick("plan", 1)]
        ...     other.persist()
        [(0, 'By train', 1)]
        1
        """
        return cherry_pick.pick_turns(self.worktree, parse_place(source), indexes, whole_calls=whole_calls, by=by)

    def take(
        self,
        fork: Session | SessionRecord | str,
        summary: OutcomeSummary | None = None,
        *,
        role: str = "user",
        dry_run: bool = False,
        by: str | None = None,
    ) -> Turn:
        """Store one turn at the end that says what came of a fork of this session, and return it.

        `fork` is a fork of it, or a fork of that, or its id, IRI or label. `summary` is the text, or a function that makes one
        of the turns that the fork has and this session has not; by default it is the fork's last answer. The turn was derived
        from the fork's head (`turn.derived_from`, prov:wasDerivedFrom), whose digest its own covers. `role` is in which role
        it stands, `by` who takes, as for `Repository.delete`. With `dry_run` nothing is stored, and the turn is returned as
        it would be.

        Raises `InvalidInput` for what is no fork of this session, has no turns of its own, or was taken before as it stands,
        where turns here or in a fork's handle are not persisted, and where the fork was deleted, or a turn of it redacted,
        meanwhile; `HeadConflict` where this session or the fork went on meanwhile. Then nothing is written.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
        ...     with plan.fork(id="try") as trial: _ = trial.append("assistant", "The train takes five hours.")
        ...     turn = plan.take("try")
        ...     turn.index, turn.content, (turn.derived_from.session_id, turn.derived_from.index)
        (1, 'The train takes five hours.', ('try', 1))
        """
        return cherry_pick.take_outcome(self.worktree, parse_place(fork), summary, role=role, dry_run=dry_run, by=by)

    def blame(self, start: int = 0, end: int | None = None) -> list[Blame]:
        """Return where the turns from `start` to `end` (exclusive; default all) come from, one entry a turn.

        Each names the session that owns the turn, its principal, the author, model and time, the session that a copy
        was made from, and the turn that a cherry-picked one repeats. Raises `InvalidInput` for a range that is not there.
        """
        return blame.blame_worktree(self.worktree, start, end)

    def bisect(self, predicate: Predicate, *, good: int = 0, bad: int | None = None) -> Bisection:
        """Return with which turn of the transcript an outcome flips, in about log2(n) calls of the predicate.

        `predicate` gets the first n turns and returns True (good), False (bad) or None (cannot be told: skip). `good`
        and `bad` are numbers of turns, the first shorter; the defaults are none and all. Both ends are tried first.

        Raises `InvalidInput` where the ends are not what they are said to be.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create()
        ...     turns = [s.append("user", text) for text in ("a", "b", "oops", "c")]
        ...     found = s.bisect(lambda prefix: all(turn.content != "oops" for turn in prefix))
        ...     s.persist(), found.turn.index, found.turn.content
        (4, 2, 'oops')
        """
        return blame.bisect(self.turns, predicate, good=good, bad=len(self) if bad is None else bad)

    # --- what a model is shown

    def context(
        self,
        query: object = None,
        *,
        max_tokens: int | None = None,
        pinned_count: int | None = None,
        brief: str | None = None,
        background: str | None = None,
        counter: Counter | None = None,
        cut: Literal["mark", "leave out"] = "mark",
    ) -> Context:
        """Return what a model is shown of the session: system prompt, latest summary, the turns since, and the query.

        Pending turns are shown too. After a compaction, turns are shown from the first that the latest summary kept.
        `query` is text, a list of parts or a turn that is not appended yet. `max_tokens` (default: the window's, else
        no limit) leaves out the oldest turns, after the first `pinned_count` (default 1; none beside a summary), and a
        tool call always together with its answers; what is left out, and why it may still be too much, stands in the
        context. A session that another one spawned, and a fork of it, is shown its task and what it was told beside it
        as they are stored, after the system prompt; `brief` and `background` are shown in their place.
        `counter` counts the tokens of a text; the default estimates. `cut` says whether a turn that broke off (`is_cut`) is
        shown with a mark behind its text ("mark") or not at all ("leave out").

        `openai()` and `anthropic()` give the messages in those APIs' shapes, with every tool call answered once, right
        after it. Nothing that is stored changes by that.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     shown = s.context("To the Alps"); written = s.persist()
        ...     [(message["role"], message["content"]) for message in shown.openai()], shown.tokens
        ([('user', 'Plan a trip'), ('assistant', 'Where to?'), ('user', 'To the Alps')], 21)
        """
        from trails.session import model_context  # noqa: PLC0415 - only those who ask for a context need it

        window = model_context.context_window(self.worktree, max_tokens, pinned_count, counter, cut)
        return model_context.context_of_worktree(self.worktree, window, query=query, brief=brief, background=background)

    def compact(
        self,
        summarise: Summarise,
        *,
        keep_tokens: int | None = None,
        keep_turns: int | None = None,
        keep: Keep | None = None,
        trigger: str = "manual",
        request: str | None = None,
        model: str | None = None,
        max_summary_tokens: MaxTokens = None,
        counter: Counter | None = None,
        author: str | None = None,
        clock: Callable[[], float] = clocks.monotonic,
    ) -> Turn:
        """Let older turns be summarised, add the summary as a turn at the end, persist it and return it.

        `summarise` is called with a `SummaryRequest` (the request, the turns to summarise and the summary before, the
        greatest length) and returns text, or a `trails.context.Summary` that also names model and usage. Nothing is
        written until it has returned; turns that are appended meanwhile, here or by another writer, are kept. All turns
        stay in the history; from now on `context` shows the summary in their place.

        Kept as they are: the newest turns of up to `keep_tokens` (default 30,000), or the newest `keep_turns`, or as many
        as `keep` returns for the turns that could be summarised; a tool call never without its answer. A later summary
        is made from the one before and the turns since. `max_summary_tokens` is a number, "dynamic" (a tenth of what is
        summarised, 256 to 8,192) or a function of its tokens. `trigger` is overflow (or context_limit), threshold,
        manual or periodic. `clock` gives seconds. Request, limit and duration are recorded with the turn.

        Raises `NothingToSummarise` where all turns are kept; what `summarise` raises; and `HeadConflict` where this
        handle has pending turns and another writer was quicker: those and the summary then stay pending.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     turn = s.compact(lambda asked: f"{len(asked.turns)} turn: a trip is wanted", keep_turns=1)
        ...     turn.index, turn.content, turn.compaction.first_kept, [t.index for t in s.context().turns]
        (2, '1 turn: a trip is wanted', 1, [1])
        """
        from trails.session import model_context  # noqa: PLC0415 - only those who compact need it

        options = model_context.CompactionOptions(
            keep_tokens, keep_turns, keep, trigger, request, model, max_summary_tokens, counter, author, clock
        )
        return model_context.run_compaction(model_context.compact_session(self.worktree, summarise, options))

    def run_with_compaction(
        self,
        call: Callable[[Context], _Answer],
        summarise: Summarise,
        *,
        query: object = None,
        policy: CompactionPolicy | None = None,
        overflow: IsOverflow | None = None,
        max_tokens: int | None = None,
        **options: Any,
    ) -> _Answer:
        """Call a model with the session's context and return its answer, compacting where that is needed to fit.

        `call` gets the context (with `query`). Where `policy` says that a compaction is due, it comes first. Where the
        call raises what `overflow` names (types of errors, or a function of an error; the default is `ContextOverflow` and
        what OpenAI's and Anthropic's SDKs raise, see `trails.context.is_overflow`), the session is compacted, and the same
        message is tried once more. `options` are those of `compact`; with a policy's window, what is kept is at
        most half of it. Nothing but the summary is written: append the answer yourself.

        Raises `ContextOverflow` where the second try overflows too or nothing is left to summarise; any other error of
        `call` or `summarise` as it is.
        """
        from trails.session import model_context  # noqa: PLC0415 - only those who compact need it

        steps = model_context.call_with_compaction(
            self.worktree, call, summarise, query, max_tokens, policy=policy, overflow=overflow, **options
        )
        return cast("_Answer", model_context.run_compaction(steps))


def parse_place(given: Session | SessionRecord | str) -> Worktree | str:
    """Return what the parts below take in the place of a session: what is worked on, or the reference as it is."""
    if isinstance(given, SessionRecord):
        return given.iri
    return given.worktree if isinstance(given, Session) else given


def context_window_of(max_tokens: int | None, pinned_count: int, counter: Counter | None) -> Window | None:
    """Return the window that a session is to have, None where no `max_tokens` is given."""
    if max_tokens is None:
        return None
    from trails.context import Window, estimate  # noqa: PLC0415 - only sessions with a window need it

    return Window(max_tokens, pinned_count, counter or estimate)


def load_session(
    workspace: Workspace, session: names.Name, limits: Window | None = None, last: int | None = None
) -> Session:
    """Return a stored session with its transcript, and a window over it where limits are given; see `Repository.load`."""
    reader = workspace.reader
    chain = names.find_lineage(workspace, session)
    workspace.note_read("load", chain[0].id)
    if limits is None and last is None:
        turns = reader.transcript(chain)
    else:
        turns = reader.part_of_transcript(chain, reader.length(chain))
    if last is not None:
        turns.stored.between(max(0, len(turns) - validation.index(last, "last")), len(turns), block=0)
    made = Worktree(workspace, chain[0], ancestors=chain[1:], turns=turns, stored=True)
    made.give_window(limits)
    return Session(made)


def replay_session(
    workspace: Workspace, session: names.Name, *, up_to_index: int | None = None
) -> list[dict[str, Any]]:
    """Return a session's stored transcript as plain dicts with role, content, index and branch; write nothing.

    `session` is any name of it, see `resolve`; `up_to_index` is exclusive.
    """
    end = None if up_to_index is None else min(validation.index(up_to_index, "up_to_index"), validation.MAX_WHOLE)
    chain = names.find_lineage(workspace, session)
    workspace.note_read("replay", chain[0].id)
    return [
        {"role": role, "content": stored_json(text) if structured else text, "index": index, "branch": branch}
        for index, role, branch, text, structured in workspace.reader.transcript(chain, end).said()
    ]


def flatten_to_session(
    workspace: Workspace,
    session: names.Name,
    *,
    id: str | None = None,  # noqa: A002 - the public name
    label: str | None = None,
    by: str | None = None,
) -> Session:
    """Return a new root session with a copy of a session's whole transcript; `by` is as for `delete`."""
    return _flattening(workspace, session, id, label, by)()


def _flattening(
    workspace: Workspace, session: names.Name, new_id: str | None, label: str | None, by: str | None
) -> Callable[[], Session]:
    """Check how a session is to be flattened, and return the function that does it."""
    deed = workspace.deed(by)
    new_id = uuid4().hex if new_id is None else validation.session_id(new_id)
    label = None if label is None else validation.label(label)

    def flatten() -> Session:
        store, reader = workspace.store, workspace.reader
        if isinstance(store, RemoteStore):
            wanted = names.find_record(workspace, session).id
            store.act("flatten", session=wanted, id=new_id, label=label, by=workspace.who(by))
            return load_session(workspace, new_id)
        with workspace.rewriting():
            chain = names.find_lineage(workspace, session)
            made = detach.flatten_session(store, reader, chain, deed, new_id=new_id, label=label)
        return load_session(workspace, made)

    return flatten
