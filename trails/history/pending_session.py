"""Hold a session with its pending turns, and commit them.

This is git's working tree: the stored turns in memory, the pending ones after them, and the commit that stores those.
`trails.session.Session` is what users hold of it. Turns that quote others are stored only while those stand as they
were read.
"""

from __future__ import annotations

import secrets
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import HeadConflict, InvalidInput, PendingTurnsWarning, StoreFailed
from trails.handles import Handle
from trails.history import encryption, log_leaves, turn_builder
from trails.history.reader import Reader
from trails.history.records.payloads import digest_of, keep_payloads, payloads_of, read_payload
from trails.history.transaction import (
    Proposal,
    Refusal,
    Transaction,
    check_free_names,
    id_in_use,
    is_mentioned,
    is_stored,
)
from trails.history.transcript import Transcript, Turns
from trails.history.turn_builder import Draft, Screening, screen_draft, screen_prompt
from trails.history.workspace import OneThread, Workspace
from trails.integrity import digests
from trails.integrity.key_ring import ALGORITHM, Cipher
from trails.integrity.leaves import Kind
from trails.model import iris, lineage, validation
from trails.model.values import (
    NO_FACTS,
    Call,
    Facts,
    ModelCall,
    PayloadReference,
    Quote,
    SealedTurn,
    SessionRecord,
    SystemPrompt,
    Turn,
)
from trails.rdf import vocab
from trails.rdf.activity_records import Activity, activity_quads
from trails.rdf.codec import subject_of
from trails.rdf.session_records import prompt_quads, row_names, session_quads, tools_named_in
from trails.rdf.turn_quads import NO_LINKS, Links, content_literal, turn_quads, turn_type
from trails.store.contract import Matching, PreconditionFailed, QuadStore
from trails.store.embedded import holds
from trails.store.pattern import Pattern
from trails.suggestions import calling_line

if TYPE_CHECKING:
    from trails.context import TokenWindow, Window
    from trails.history.squash import Copies


def quote_facts(turn: Turn) -> Facts:
    """Return what one that quotes a turn repeats of what was recorded with it: not where that came from."""
    quote = Quote(session_id=turn.session_id, index=turn.index, digest=turn.digest)
    update = {"source_ids": (), "quoted_from": quote, "withheld": None, "content_digest": None}
    update["model_call"] = _elsewhere(turn)
    return turn.facts.model_copy(update=update)


def _elsewhere(turn: Turn) -> ModelCall | None:
    """Return a turn's model call without what its own transcript's indices and versions of prompts say."""
    made_by = turn.facts.model_call
    if made_by is None or made_by.call is None:
        return made_by
    told = made_by.call.model_copy(update={"prompt": None, "context": None})
    return made_by.model_copy(update={"call": None if told == Call() else told})


def quote_sources(quoting: Iterable[Turn], reader: Reader, store: QuadStore) -> list[Quad]:
    """Return the quads by which the turns that new ones quote are as they were read: none was redacted meanwhile."""
    found = []
    for turn in quoting:
        if turn.quoted_from is not None:
            node, graph = NamedNode(turn.quoted_from.iri), NamedNode(iris.session(turn.quoted_from.session_id))
            stored = _quoted_as_stored(turn, turn.quoted_from, reader, store)
            found.append(Quad(node, vocab.VALUE, content_literal(stored), graph))
            found.append(Quad(node, vocab.ATTRIBUTED_TO, NamedNode(turn.author_iri), graph))
            found += payloads_of(turn)
    return found


def _quoted_as_stored(turn: Turn, quote: Quote, reader: Reader, store: QuadStore) -> Turn:
    """Return the turn that one quotes as it is stored; raise `InvalidInput` where it is encrypted and says another text."""
    if encryption.encryption_of(store) is None or not encryption.is_encrypted(store, quote.session_id):
        return turn
    record = reader.record(quote.session_id)
    for stored in reader.of_quads.turns_at(quote.session_id, [quote.index]):
        (plain,) = encryption.in_plain(store, [record], [stored])
        if (stored.iri, plain.text, plain.structured) == (
            quote.iri,
            turn.text,
            turn.structured,
        ) and not stored.redacted:
            return stored
    raise _gone(quote.iri)


def refuse_redacted_quotes(quoting: Iterable[Turn], reader: Reader, store: Matching) -> list[Pattern]:
    """Raise `InvalidInput` where names were taken out of what turns quote, or that is gone; return what must match nothing.

    What no name was ever taken out of is held to that by a pattern until the commit.
    """
    told: dict[str, tuple[Quote, Turn]] = {
        turn.quoted_from.iri: (turn.quoted_from, turn) for turn in quoting if turn.quoted_from is not None
    }
    stored: dict[str, Turn] = {}
    for session_id in dict.fromkeys(quote.session_id for quote, _ in told.values()):
        indices = [quote.index for quote, _ in told.values() if quote.session_id == session_id]
        stored.update((turn.iri, turn) for turn in reader.turns_at(session_id, sorted({*indices})))
    clean: list[Pattern] = []
    for iri, (_, turn) in told.items():
        if iri not in stored or not _repeats(turn, stored[iri]):
            raise _gone(iri)
        taken_out: Pattern = (None, vocab.DELETED_TURN, NamedNode(iri), vocab.CATALOG)
        if not store.quads(taken_out):
            clean.append(taken_out)
    return clean


def _repeats(turn: Turn, quoted: Turn) -> bool:
    """Tell whether a turn has the author and the facts of the one that it quotes: the names in them may be taken out."""
    own, theirs = (digests.facts_digest(each, "") for each in (turn.facts, quote_facts(quoted)))
    return turn.author_iri == quoted.author_iri and own == theirs


def missing_source(failure: PreconditionFailed) -> InvalidInput:
    """Return the error for a quoted turn that is not there any more as it was when picked."""
    said = getattr(failure.missing, "subject", None) or getattr(failure.present, "object", None)
    return _gone(str(getattr(said, "value", "")))


def _gone(turn: str) -> InvalidInput:
    return InvalidInput(
        f"turn {iris.turn_index(turn)} of session {iris.session_id(turn)!r}, which was picked, was redacted or deleted "
        "meanwhile, or a name in it was; nothing was written. Give the picked turns up with discard_pending()"
    )


class _Given(NamedTuple):
    """A commit, and what of a handle's news is in it: so many pending turns, prompts and acts, the first ones."""

    change: Proposal
    turns: int
    prompts: int
    acts: int

    def is_in(self, store: QuadStore) -> bool:
        """Tell whether it was done: no answer came, or not yet, and others may have gone on since."""
        return all(holds(store, self.change.add))


class Step(NamedTuple):
    """The commit of a handle's news, with what the handle must know of it afterwards."""

    tx: Transaction
    given: _Given
    token: object
    """What the store gave before it."""
    writer: object
    moved_on: Refusal
    """Makes the error for a precondition that says nothing else."""

    @property
    def change(self) -> Proposal:
        """The commit itself."""
        return self.given.change

    def error(self, failure: PreconditionFailed) -> Exception:
        """Return the error that a precondition means which did not hold."""
        return self.tx.error(failure, otherwise=self.moved_on)


class Worktree(Handle):
    """The turns of one session: those that are stored, and those that are appended and not stored yet.

    What is appended stays in memory until `persist` writes it, all in one commit.
    """

    def __init__(
        self,
        workspace: Workspace,
        record: SessionRecord,
        *,
        ancestors: Sequence[SessionRecord] = (),
        turns: Transcript | None = None,
        stored: bool,
        prompt: SystemPrompt | None = None,
    ) -> None:
        """Take a session up: `stored` tells whether its row is in the store, `ancestors` is the lineage above it."""
        if not stored:
            record = _encrypted_row(workspace, record, ancestors)
        self.workspace = workspace
        self.record = record
        """The session's row, as it is or will be stored."""
        self._ancestors = tuple(ancestors)
        self.turns = Transcript() if turns is None else turns
        """All turns of the transcript, those inherited from ancestors first, pending ones last."""
        self.stored = stored
        self.alone = OneThread(record.id)
        self.held: str | None = None
        """What stores the turns of this handle in its own commit, so that nothing else may; None for nothing."""
        self.is_in_batch = False
        """Whether what stores its turns is a batch, which stores forks of it with them."""
        self.picker: str | None = None
        """The IRI of who picked the pending turns that quote others."""
        self.picking = "cherry-pick"
        """What the copying of those is called."""
        self.acts: list[Activity] = []
        """What was done to the session and goes into the next commit."""
        self._drafts: list[Draft] = []
        self._encrypted: dict[str, tuple[int, Draft]] = {}
        """Pending turns as they are to be stored, with their indices, by their salts; none of a session in plain."""
        self._made_at = calling_line()
        """Where the program last began something that is pending."""
        self._new_prompts: list[SystemPrompt] = [prompt] if prompt else []
        self.make_copies: Callable[[], Copies] | None = None
        """Makes copies of the turns before the pending ones that its first commit stores with these."""
        self.copies: Copies | None = None
        self.prompts_above: tuple[SystemPrompt, ...] = ()
        """What it inherits of sessions that were not stored when it was forked."""
        self._window: TokenWindow[Turn] | None = None
        self._as_turns: Turns | None = None
        self._tools: set[Quad] = set()
        self._new_tools: list[Quad] = []
        self._given_up = False
        """Whether its pending turns were discarded, so that a session which was never stored is not missed."""
        self._has_warned = False
        self._named: dict[str, Quad] | None = None
        """What the row said of the principal and the agent, by their IRIs, when the handle wrote turns of theirs first."""
        self._inherited: Sequence[Quad] = ()
        """What the parent's row must say when the session is made, whose names it takes over."""
        self._seen: object = None
        """The token that the store gave when the row and the last stored turn were last seen there."""
        self._writer = object()
        self._lost: _Given | None = None
        """A commit of which no answer came: it may have been done, or may be done yet."""
        workspace.holders.add(self)

    # --- what it is

    @property
    def id(self) -> str:
        """The session's id."""
        return self.record.id

    @property
    def depth(self) -> int:
        """How many ancestors by forks it has."""
        return len(self._ancestors)

    @property
    def chain(self) -> tuple[SessionRecord, ...]:
        """The session's record, and those of its ancestors, the nearest first."""
        return (self.record, *self._ancestors)

    @property
    def pending(self) -> int:
        """How many turns are appended and not persisted."""
        return len(self._drafts)

    @property
    def first_pending(self) -> int:
        """The index of the first turn that is not persisted: how many turns are stored."""
        return len(self.turns) - len(self._drafts)

    @property
    def drafts(self) -> tuple[Draft, ...]:
        """What is appended and not persisted, before it has its place."""
        return tuple(self._drafts)

    @property
    def next_turn(self) -> Pattern:
        """What matches the turn after the last stored one, if another writer appends it."""
        return None, vocab.INDEX, vocab.integer(self.first_pending), NamedNode(self.record.iri)

    @property
    def seen(self) -> object:
        """The token that the store gave when all that its next commit requires was last seen there."""
        return self._seen

    @property
    def has_news(self) -> bool:
        """Whether there is anything that `persist` would write."""
        return bool(not self.stored or self._drafts or self._new_prompts or self.acts)

    @property
    def has_new_prompts(self) -> bool:
        """Whether a system prompt was set and is not persisted."""
        return bool(self._new_prompts)

    @property
    def head(self) -> str:
        """The digest of the last turn, which commits to all turns before it; provisional while turns are pending."""
        return self.turns.head

    def all_turns(self) -> Turns:
        """Return all turns, as a value that does not change with what is appended later."""
        if self._as_turns is None or len(self._as_turns) != len(self.turns):
            self._as_turns = self.turns.as_turns()
        return self._as_turns

    # --- its window

    @property
    def window(self) -> TokenWindow[Turn] | None:
        """The window over its turns, where it has one; what is appended enters it."""
        window = self._window
        if window is not None:
            newest = self.turns[-1] if len(self.turns) else None
            if window.seen != len(self.turns) or (newest is not None and window.turns[-1] is not newest):
                window.fill(self.turns)  # turns were discarded, or made anew
        return window

    def give_window(self, limits: Window | None) -> None:
        """Give it a window of these limits; None gives none."""
        if limits is not None and limits.max_tokens is not None:
            from trails.context import TokenWindow  # noqa: PLC0415 - only sessions with a window need it

            self._window = TokenWindow(limits.max_tokens, limits.pinned_count, counter=limits.counter)
            self._window.fill(self.turns)

    # --- pending turns

    def append(self, made: Draft, scan: Screening | None = None) -> Turn:
        """Add a turn that `make_draft` has checked already and return it; it may be empty.

        Its secrets are refused or taken out as `scan` says, or else as the store was opened.
        """
        made = screen_draft(made, scan or self.workspace.scan, self.id)
        with self.alone:
            self.workspace.check_open(self.id)
            if made.facts is not NO_FACTS:
                made = turn_builder.settle_draft(made, self.turns, self._newest_prompt)
            turn = self._turn_of(made)
            if self._window is not None:
                self._window.append(turn)  # first: where the window's counter raises, nothing is appended
            if not self._drafts:
                self._made_at = calling_line()
            self._drafts.append(made)
            self.turns.append(turn)
            return turn

    def _turn_of(self, made: Draft) -> Turn:
        """Return the turn that a draft is at the end of the transcript."""
        index, head = len(self.turns), self.head
        turn = made.turn(self.record, index, head)
        if self.record.encryption is None:
            return turn
        return encryption.shown_turn(turn, self._stored_form(made, index).turn(self.record, index, head))

    def _stored_form(self, made: Draft, index: int) -> Draft:
        """Return a pending turn as it is stored at an index: encrypted, where the session is."""
        cipher = self._cipher()
        if cipher is None:
            return made
        kept = self._encrypted.get(made.salt)
        if kept is None or kept[0] != index:
            kept = self._encrypted[made.salt] = index, encryption.encrypted_draft(cipher, made, index)
        return kept[1]

    def _cipher(self) -> Cipher | None:
        """Return what encrypts the session's texts, None for one in plain; raise `KeyMissing` without its key."""
        if self.record.encryption is None:
            return None
        keys = self.workspace.encryption
        if keys is None:
            raise encryption.no_keys(self.id)
        return keys.cipher(self.id) if self.stored else keys.cipher_of_new(self.id)

    def payload(self, wanted: PayloadReference | str) -> bytes:
        """Return the bytes of a payload: of a pending turn, or of the store."""
        digest = digest_of(wanted)
        for index, made in enumerate(self._drafts, self.first_pending):
            for given, kept in zip(made.payloads, self._stored_form(made, index).payloads, strict=True):
                if digest in (given.digest, kept.digest):
                    return given.data
        return encryption.decrypted_bytes(self.workspace.store, read_payload(self.workspace.store, digest))

    def _newest_prompt(self) -> int:
        prompt = self.system_prompt
        return 0 if prompt is None else prompt.version

    def discard_pending(self) -> int:
        """Forget the turns that were appended and not persisted; return how many. One never stored is not missed then."""
        with self.alone:
            count = len(self._drafts)
            self.turns.drop(count)
            self._drafts.clear()
            self._encrypted.clear()
            self._as_turns = self._lost = None
            self._given_up = True
            return count

    def take_back(self) -> None:
        """Forget the last turn that was appended and not persisted, where there is one."""
        with self.alone:
            if self._drafts:
                self._drafts.pop()
                self.turns.drop(1)
            if self._lost is not None and self._lost.turns > len(self._drafts):
                self._lost = None
            self._as_turns = None

    def change_record(self, **changes: Any) -> None:
        """Change what the row will say, and make the pending turns anew, which are attributed by it."""
        self.record = self.record.model_copy(update=changes)
        self.turns.drop(self.pending)
        self._as_turns = self._lost = None
        for made in self._drafts:
            self.turns.append(self._turn_of(made))

    def check_names(self) -> None:
        """Raise `InvalidInput` where the id or the label that a session which is not stored yet is to have is in use."""
        with self.workspace.ahead("free_names", self.id, self.record.label):
            check_free_names(self.workspace.store, self.workspace.reader, self.id, self.record.label)

    def warn_if_pending(self) -> None:
        """Warn about what was never persisted, once: turns, a new session, a system prompt. A worker's is never stored."""
        if self._has_warned or self.record.kind == "worker" or self.workspace.is_forked:
            return
        if self._drafts:
            left = "1 turn that was" if len(self._drafts) == 1 else f"{len(self._drafts)} turns that were"
            what = f"is left with {left} appended and not persisted"
        elif not (self.stored or self._given_up):
            made = "a fork" if self.record.parent_session_id else "new"
            what = f"is {made} and was never persisted, so it is not stored"
        elif self.stored and self._new_prompts:
            what = "is left with a system prompt that was set and not persisted"
        else:
            return
        self._has_warned = True
        remedy = "call persist() before the session or its store goes, or use session(id, autopersist=True)"
        warnings.warn_explicit(f"session {self.id!r} {what}; {remedy}", PendingTurnsWarning, *self._made_at)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Warn of turns that nobody can persist any more; in memory, nothing would be kept in any case."""
        if not getattr(self, "_drafts", None) and not (getattr(self, "stored", False) and self._new_prompts):
            return
        if not is_finalizing() and self.workspace.store.location != ":memory:":
            self.warn_if_pending()

    # --- its system prompt

    def set_system(self, text: str, by: str | None = None) -> SystemPrompt:
        """Set the system prompt from the next turn on, as a new version; it is stored by the next `persist`."""
        self.workspace.check_open(self.id)
        current = self.system_prompt
        version = (current.version if current else 0) + 1
        who = self.workspace.who(by)
        text = validation.text(text, "the system prompt")
        made = new_prompt(self.workspace, self.id, text, version, len(self.turns), by_iri=who, cipher=self._cipher())
        self._new_prompts.append(made)
        self._made_at = calling_line()
        return made

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The version of the system prompt in force, own or inherited, or None."""
        if self._new_prompts:
            return self._new_prompts[-1]
        if not self.stored and not self.record.system_version:
            return None
        if self.prompts_above:
            return self.prompts_above[-1]
        with self.workspace.recalling():
            return self.workspace.reader.prompt(self.chain)

    def prompt_at(self, index: int) -> SystemPrompt | None:
        """Return the version of the system prompt in force at an index, own or inherited, stored or not; or None."""
        new = [prompt for prompt in (*self.prompts_above, *self._new_prompts) if prompt.effective_from <= index]
        return new[-1] if new else self.workspace.reader.prompt(self.chain, at=index)

    def share_prompts(self, fork: Worktree) -> None:
        """Give a fork the system prompt in force where it forks off, though that may not be stored yet."""
        index = fork.record.starts_at
        prompt = self.prompt_at(index)
        if prompt is not None:
            fork.record = fork.record.model_copy(update={"system_version": prompt.version})
        if self.is_in_batch:
            every = (*self.prompts_above, *self._new_prompts)
            fork.prompts_above = tuple(prompt for prompt in every if prompt.effective_from <= index)

    @property
    def system(self) -> str | None:
        """The text of the system prompt in force, or None."""
        prompt = self.system_prompt
        return prompt.text if prompt and not prompt.redacted else None

    # --- the commit

    def persist(self, also: Proposal | None = None) -> int:
        """Write what is new in one commit, all or nothing; return the number of turns written.

        `also` goes into the same commit, and its own preconditions are the caller's to explain.
        """
        with self.alone, self.workspace.recalling():
            if not self.has_news and also is None:
                return 0
            if also is None:
                self.check_free()
            step = self.begin_commit()
            try:
                (step.change if also is None else step.change.joined(also)).commit(self.workspace.store)
            except PreconditionFailed as failure:
                if (found := self.settle_lost()) is not None:
                    return found + self.persist(also)
                if also is not None and also.asked_for(failure):
                    raise
                raise step.error(failure) from failure
            except BaseException as error:
                self.note_failed(step, error, is_repeated=also is None or not also.add)
                raise
            return self.end_commit(step)

    def take_copies(self) -> None:
        """Put copies in the place of the turns that are to be copied, as they are now: no text may be taken out meanwhile."""
        if self.make_copies is None:
            return
        self.copies = copies = self.make_copies()
        self.acts[:] = [copies.act]
        self.turns = self.turns.below(self.record.starts_at).followed_by(copies.turns)
        self._as_turns = None
        for made in self._drafts:
            self.turns.append(self._turn_of(made))

    def begin_commit(self) -> Step:
        """Return the commit of what is new; `end_commit` or `note_failed` says what became of it."""
        if self._drafts and self.record.kind == "worker":
            raise InvalidInput(f"session {self.id!r} is a worker, and the turns of workers are never stored")
        token, first = self.workspace.store.token, self.first_pending
        new = self.turns[first:]
        quoted = quote_sources(new, self.workspace.reader, self.workspace.store)
        tx = self._transaction(new, quoted)
        # This handle's last turn was seen there by its last commit, quoted ones were not.
        change = tx.change(seen=None if quoted else self._seen, writer=self._writer)
        writer, self._writer = self._writer, object()  # an interrupted commit's outcome has to be looked up
        given = _Given(change, len(self._drafts), len(self._new_prompts), len(self.acts))
        return Step(tx, given, token, writer, lambda _: self._moved_on(first))

    def end_commit(self, step: Step) -> int:
        """Take what a commit wrote for stored; return how many turns that were."""
        self._seen, self._writer, self._lost = step.token, step.writer, None
        self._tools.update(self._new_tools)
        return self._note_done(step.given)

    def note_failed(self, step: Step, error: BaseException, *, is_repeated: bool = True) -> None:
        """Remember a commit that may have been done, or may be done yet, if the next one is to be like it but for what is new."""
        is_known = isinstance(error, Exception) and not isinstance(error, StoreFailed)
        self._lost = None if is_known or not is_repeated else step.given

    def settle_lost(self) -> int | None:
        """Take what a commit of which no answer came has written for stored, if it was done; return how many turns that were."""
        lost = self._lost
        if lost is None or not lost.is_in(self.workspace.store):
            return None
        self._lost = None
        return self._note_done(lost)

    def _note_done(self, done: _Given) -> int:
        self.stored = True
        for made in self._drafts[: done.turns]:
            self._encrypted.pop(made.salt, None)
        del self._drafts[: done.turns]
        del self._new_prompts[: done.prompts]
        del self.acts[: done.acts]
        self.copies = self.make_copies = None
        return done.turns

    def store_news(self) -> None:
        """Persist what is new, but for what something else stores (`held`), or nothing ever does: a worker's turns."""
        if self.held is None and self.record.kind != "worker" and self.has_news:
            self.persist()

    def note_unstored(self, error: BaseException, failure: Exception) -> None:
        """Chain to the error that ends a block what kept its turns from being stored; it goes on as it is."""
        error.add_note(f"Besides, what was appended to session {self.id!r} is not stored: {failure}")
        failure.__context__ = error.__context__
        error.__context__ = failure

    def check_free(self) -> None:
        """Raise `InvalidInput` while something else stores the turns of this handle in its own commit."""
        if self.held is not None:
            raise InvalidInput(
                f"the turns of session {self.id!r} are stored by {self.held} when that is completed, and not before: "
                "leave persist() and fork() to what comes after it, or load the session again for what is stored"
            )

    def _transaction(self, new: Sequence[Turn], quoted: Sequence[Quad]) -> Transaction:
        """Return the commit that stores what is new; `new` are the pending turns.

        `quoted` is what the turns that pending ones repeat must still say.
        """
        tx, first = Transaction(self.workspace.reader), self.first_pending
        self._new_tools.clear()
        if self.stored:
            tx.session(self.id)
            tx.require(self._said_by_row(new), lambda _: self._renamed())
        else:
            self._make_row(tx)
        self._go_on_from(tx, first)
        stored = [self._stored_form(made, index) for index, made in enumerate(self._drafts, first)]
        for made, turn in zip(stored, new, strict=True):
            answers = self._answers(turn)
            kept = turn if self.record.encryption is None else _stored_turn(turn, made)
            sealed = SealedTurn.trusted({"turn": kept, "salt": made.salt})
            links = NO_LINKS if turn.call is None else self._links(turn)
            quads = turn_quads(sealed, answers, links=links, of_copies=self._of_copies(answers) if answers else ())
            tx.add(quads)
            if turn.tool_results or iris.is_tool(turn.author_iri):
                tx.add(self._tools_in(quads))
        if quoted:
            self._quote(tx, new)
        if carried := [payload for made in stored for payload in made.payloads]:
            tx.log(keep_payloads(carried))
        for act in self.acts:
            tx.add(activity_quads(act))
        if self._drafts:
            tx.forbid(self.next_turn)
            tx.require(quoted, missing_source)
        cipher = self._cipher() if self._new_prompts else None
        for prompt in self._new_prompts:
            kept_prompt = prompt if cipher is None else encryption.encrypted_prompt(cipher, prompt)
            tx.new(prompt_quads(kept_prompt), None if self.stored else lambda _: self._taken())
        tx.log(self._leaves(quoting=bool(quoted)))
        return tx

    def _go_on_from(self, tx: Transaction, first: int) -> None:
        """Hold the commit to the turn before the new ones; copies that come before these are new themselves."""
        if self.copies is not None:
            tx.add(self.copies.quads)
            tx.require(self.copies.originals, missing_source)
            first = self.record.starts_at
        if first > 0:
            tx.require([turn_type(self.turns[first - 1])])

    def _quote(self, tx: Transaction, turns: Sequence[Turn]) -> None:
        """Add what stands beside turns that quote others, and hold the commit to nothing being taken out of those."""
        store, by = self.workspace.store, self.picker or self.workspace.who(None)
        for taken_out in refuse_redacted_quotes(turns, self.workspace.reader, store):
            tx.forbid(taken_out, missing_source)
        tx.add(log_leaves.picked_quads(store, turns, by, self.picking))

    def _make_row(self, tx: Transaction) -> None:
        record = self.record
        cipher = (
            self._cipher()
        )  # the key of an encrypted session is durable before its row is, also where that has no text
        tx.add(session_quads(record if cipher is None else encryption.stored_record(cipher, record)))
        tx.forbid_id(self.id)
        if record.label is not None:
            tx.label(record.label)
        if record.parent_session_id is not None:
            tx.session(record.parent_session_id)
            tx.require(self._inherited, lambda _: self._renamed())
        if record.spawned_by is not None:
            tx.require([is_stored(record.spawned_by)])

    def _said_by_row(self, turns: Sequence[Turn]) -> list[Quad]:
        """Return what the session's row must still say of the authors that turns have since it says so: names are taken out."""
        if self._named is None:
            told = is_mentioned(self.workspace.store, row_names(self.record))
            self._named = {quad.object.value: quad for quad in told}  # type: ignore[union-attr] # IRIs
        return [self._named[each] for each in {turn.author_iri for turn in turns} if each in self._named]

    def _renamed(self) -> HeadConflict:
        named = self.id if self.stored else self.record.parent_session_id
        return HeadConflict(
            f"the name of the principal or the agent of session {named!r} was taken out since this handle was made, which would "
            "write it again; nothing was written. Load the session again, and append there",
            expected=self.head,
            actual=self.head,
        )

    def _taken(self) -> InvalidInput:
        return id_in_use(self.workspace.reader, self.id)

    def _leaves(self, *, quoting: bool) -> log_leaves.LeafMaker:
        """Return the maker of the leaves for what is new."""
        batch = [log_leaves.turns_leaf(self.id, len(self.turns), self.head)] if self._drafts else []
        if self.stored and not self._new_prompts and not quoting and not self.acts:
            return lambda _: batch
        fork = self.record.parent_session_id is not None
        kind: Kind = "change" if self.stored else "fork" if fork else "create"
        start = 0 if self.stored else self.record.starts_at
        return lambda store: [*log_leaves.row_leaves(store, kind, self.id, start), *batch]

    def _answers(self, turn: Turn) -> dict[str, str]:
        """Return the IRIs of the tool calls that a turn answers, by call id: the latest call with that id before it."""
        if not turn.tool_results:
            return {}
        return lineage.answered_calls(self.turns, turn)

    def _tools_in(self, quads: Sequence[Quad]) -> list[Quad]:
        """Return what the catalog is to say of the tools that a turn names, but for what this handle wrote and is there."""
        if self._seen != self.workspace.store.token:
            self._tools.clear()
        rows = [quad for quad in tools_named_in(quads) if quad not in self._tools]
        self._new_tools += rows
        return rows

    def _links(self, turn: Turn) -> Links:
        """Return the IRIs of the summary and the system prompt that a turn's model call was told to be shown."""
        return Links(lineage.summary_shown(self.turns, turn), lineage.prompt_sent(self.chain, turn))

    def _of_copies(self, answers: Mapping[str, str]) -> set[str]:
        """Return those of the tool calls that are answered which stand with copied turns: nothing was called there."""
        found: set[str] = set()
        first = self.first_pending
        copied = range(0) if self.copies is None else range(self.record.starts_at, first)
        for call in answers.values():
            turn, graph = self.turns[iris.turn_index(call)], NamedNode(iris.session(iris.session_id(call)))
            kept = (NamedNode(call), vocab.TYPE, vocab.TOOL_CALL_COPY, graph)
            if turn.index >= first:
                is_copy = turn.quoted_from is not None
            else:
                is_copy = turn.index in copied or bool(self.workspace.store.quads(kept))
            if is_copy:
                found.add(call)
        return found

    def _moved_on(self, first: int) -> HeadConflict:
        """Return the error for a session to which another writer has added since this handle read it."""
        length, actual = self._stored_end()
        expected = self.turns[first - 1].digest if first else digests.GENESIS
        return HeadConflict(
            f"session {self.id!r} moved on while this handle held it: its head is {actual[:16]} after {length} turns, "
            f"expected {expected[:16]} after {first}; nothing was written. Load it again and append there, or keep this "
            "tail with keep_as_fork()",
            expected=expected,
            actual=actual,
        )

    def _stored_end(self) -> tuple[int, str]:
        """Return how many turns are stored by now, and the digest of the last one."""
        if not self.stored:
            return 0, digests.GENESIS
        reader = self.workspace.reader
        chain = reader.lineage(self.id)
        length = reader.length(chain)
        return length, reader.digest_in(lineage.segments(chain), length - 1) or digests.GENESIS

    def turn_of_source(self, source_id: str) -> Turn | None:
        """Return the turn of the transcript that has a source id, pending ones included; None if there is none.

        One that another writer appended is seen, with all that comes before it: pending turns go behind it.
        """
        for turn in self.turns[self.first_pending :]:
            if source_id in turn.source_ids:
                return turn
        wanted, store = Literal(source_id), self.workspace.store
        for run in (
            lineage.segments(self.chain) if self.stored else lineage.segments(self._ancestors, self.record.starts_at)
        ):
            for quad in store.quads((None, vocab.SOURCE_ID, wanted, NamedNode(run.record.iri))):
                index = iris.turn_index(subject_of(quad))
                if index < run.start or (run.end is not None and index >= run.end):
                    continue
                if index >= self.first_pending:
                    self.refresh()
                return self.turns[index]
        return None

    def refresh(self) -> int:
        """See what other writers appended, and what the row says by now; return how many turns came.

        Pending turns stay pending, behind those.
        """
        with self.alone:
            if not self.stored:
                return 0
            self.workspace.refresh()
            stored, record = self.first_pending, self.workspace.reader.record(self.id)
            if record == self.record and not self.workspace.store.quads(self.next_turn):
                return 0
            drafts = self.drafts
            self.turns.drop(len(drafts))
            self._drafts.clear()
            self.reload()
            self._seen = self._named = self._lost = None
            self.append_again(drafts)
            return self.first_pending - stored

    def append_again(self, drafts: Iterable[Draft]) -> None:
        """Append what was pending before, but for messages that another writer has stored meanwhile, by their source ids."""
        for each in drafts:
            if not any(self.turn_of_source(source_id) for source_id in each.facts.source_ids):
                self.append(each, scan="off")

    def reload(self) -> None:
        """Take the session up anew as it is stored by now; nothing may be pending."""
        self.record, *ancestors = self.workspace.reader.lineage(self.id)
        self._ancestors = tuple(ancestors)
        self.turns = self.workspace.reader.transcript(self.chain)
        self._as_turns = None

    # --- forks

    def child(
        self, index: int, *, turns: Transcript, session_id: str | None = None, by: str | None = None, **given: Any
    ) -> Worktree:
        """Return a fork at an index, whose first turns are given, with a window like this one's; nothing is stored.

        What is `given` of its row is checked by `record_fields`; its principal and agent are this one's otherwise.
        """
        branch = f"fork-{secrets.token_hex(4)}"
        own = self.record
        fields: dict[str, Any] = {
            "principal": own.principal,
            "agent": own.agent,
            "created": datetime.now(UTC),
        } | record_fields(**given)
        record = SessionRecord(
            id=branch_id(self.id, branch) if session_id is None else validation.session_id(session_id),
            parent_session_id=self.id,
            forked_at_index=index,
            fork_head=turns[-1].digest if turns else digests.GENESIS,
            forked_by=self.workspace.who(by),
            branch=branch,
            **fields,
        )
        made = Worktree(self.workspace, record, ancestors=self.chain, turns=turns, stored=False)
        taken_over = (given.get("principal") is None, given.get("agent") is None)
        inherited = list(compress(row_names(own), taken_over))
        made._inherited = is_mentioned(self.workspace.store, inherited)
        made.give_window(None if self._window is None else self._window.limits)
        return made

    def keep_as_fork(self, id: str | None) -> Worktree:  # noqa: A002 - the public name
        """Store the pending turns as a fork at the point where this handle last agreed with the store; return the fork."""
        with self.alone:
            first = self.first_pending
            fork = self.child(first, session_id=id, turns=self.turns.below(first))
            fork.picker = self.picker
            for made in self._drafts:
                fork.append(made)
            fork.persist()
            self._drafts = []
            self.turns.drop(len(self.turns) - first)
            self._as_turns = self._lost = None
            return fork


def record_fields(*, meta: Mapping[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    """Return what a caller says of a new session's row, checked; None says nothing."""
    fields = {name: _CHECKS[name](value, name) for name, value in given.items() if value is not None}
    return fields | {"meta_json": validation.meta(meta)}


_CHECKS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(("principal", "agent", "kind", "key"), validation.name),
    "created": validation.time,
    "source_session": validation.text,
    "label": lambda label, _: validation.label(label),
}


def branch_id(parent_id: str, branch: str) -> str:
    """Return the id that a fork gets when none is given: its root's name and its branch, never too long.

    >>> branch_id("plan", "fork-00ff00ff"), branch_id("plan~fork-00ff00ff", "fork-11111111")
    ('plan~fork-00ff00ff', 'plan~fork-11111111')
    """
    stem = parent_id.partition("~fork-")[0]
    return f"{stem[: validation.MAX_ID - len(branch) - 1]}~{branch}"


def new_prompt(
    workspace: Workspace,
    session_id: str,
    text: str,
    version: int,
    effective_from: int,
    *,
    by_iri: str,
    cipher: Cipher | None = None,
) -> SystemPrompt:
    """Return a version of a session's system prompt, salted and digested, its secrets treated as the store was opened.

    The digest covers what is stored: with a `cipher`, the text as that encrypts it.
    """
    made = SystemPrompt(
        session_id=session_id,
        version=version,
        text=screen_prompt(text, workspace.scan, session_id),
        effective_from=effective_from,
        time=datetime.now(UTC),
        digest="",
        salt=digests.new_salt(),
        by_iri=by_iri,
    )
    stored = made if cipher is None else encryption.encrypted_prompt(cipher, made)
    digest = digests.prompt_digest(stored.text, made.salt, version=version, effective_from=effective_from)
    return made.model_copy(update={"digest": digest})


def _encrypted_row(workspace: Workspace, record: SessionRecord, ancestors: Sequence[SessionRecord]) -> SessionRecord:
    """Return the row of a session that is not stored yet, which says that it is encrypted where the store has keys."""
    if workspace.encryption is not None:
        return record.model_copy(update={"encryption": ALGORITHM})
    if (hidden := next((each for each in ancestors if each.encryption is not None), None)) is not None:
        raise encryption.no_keys(hidden.id)
    return record


def _stored_turn(turn: Turn, made: Draft) -> Turn:
    """Return a pending turn with its texts as its draft has them: as it is stored."""
    return turn.model_copy(update={"text": made.text, "facts": made.facts})
