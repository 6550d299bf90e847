"""Read sessions out of a store: rows, lineages and transcripts, each in as few queries as possible."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, QuerySolution

from trails.errors import IndexGap, IntegrityError, SessionNotFound, TrailsError
from trails.history import encryption
from trails.history.encryption import DecryptingTurns, decrypted_prompt
from trails.history.log_history import LENGTH_PAUSES, shorten_lengths
from trails.history.records import conversations, ledger_entries
from trails.history.records.ledger_entries import SpawnContext
from trails.history.transcript import StoredTurns, SummaryMark, Transcript, check_fork_head
from trails.history.turn_reader import QuadTurns, RowTurns, TurnReader
from trails.model import iris, lineage
from trails.model.lineage import Segment
from trails.model.validation import decodes
from trails.model.values import SealedTurn, SessionRecord, SystemPrompt, Turn
from trails.rdf import query_files, vocab
from trails.rdf.codec import parse_time
from trails.rdf.conversation_records import Conversation, SessionEntry
from trails.rdf.session_records import decode_records
from trails.rows.store_rows import StoreRows
from trails.store.contract import QuadStore, Solutions

_OPEN_END: Final = 2**53


class Reader:
    """Everything that is read from a store of sessions. It holds no state but the store and its rows."""

    def __init__(self, store: QuadStore, rows: StoreRows | None = None, *, decrypts: bool = False) -> None:
        """Read from a store; turns from its rows, if they are given; with `decrypts`, those of encrypted sessions in plain."""
        self._store = store
        self._decrypts = decrypts
        quads = QuadTurns(store, rows)
        turns = quads if rows is None else RowTurns(rows, quads)
        self.turn_reader: TurnReader = DecryptingTurns(turns, store) if decrypts else turns
        self.as_stored = Reader(store, rows) if decrypts else self
        """A reader of what is stored as it is: for what needs no text, and so no key."""
        self.of_quads = self
        """A reader of the quads alone, as they are stored: for what is held against them, or written out of them again."""
        if rows is not None or decrypts:
            self.of_quads = Reader(store)
            self.of_quads.turn_reader = quads

    def select(self, name: str, **values: Any) -> Solutions:
        """Return the rows of one of the project's own queries."""
        result = self._store.query(query_files.find(name).bind(**values))
        assert isinstance(result, Solutions)  # noqa: S101 - the core queries are all SELECT
        return result

    def table(self, name: str, **values: Any) -> list[list[str]]:
        """Return the rows of one of the project's own queries, each term as text: `trails.store.tsv` reads them."""
        return self._store.table(query_files.find(name).bind(**values))

    def select_each(self, name: str, parameter: str, wanted: Collection[Any], **others: Any) -> list[QuerySolution]:
        """Return the rows of one of the project's own queries for many values of a parameter, asked in batches.

        Each of its rows must come from one of the values alone. No values give no rows.
        """
        found: list[QuerySolution] = []
        for batch in query_files.batches(list(wanted)):
            found += self.select(name, **{parameter: batch}, **others)
        return found

    @decodes
    def _records(self, rows: Iterable[QuerySolution]) -> dict[str, SessionRecord]:
        found = decode_records((row[0].value, row[1].value, row[2]) for row in rows)
        for record in found.values():
            if record.key is not None and (label := self._label_of_key(record)) is not None:
                found[record.id] = record.model_copy(update={"label": label})
        return self.in_plain(found)

    def in_plain(self, records: dict[str, SessionRecord]) -> dict[str, SessionRecord]:
        """Return stored rows with the metadata of encrypted sessions in plain, as far as there are keys."""
        if not self._decrypts:
            return records
        return {name: encryption.shown_record(self._store, record) for name, record in records.items()}

    def _label_of_key(self, record: SessionRecord) -> str | None:
        """Return the label that a session has by its key: it is the conversation's, and survives a reset."""
        found = conversations.conversations_of_session(self._store, NamedNode(record.iri))
        return None if found is None else found.label

    @decodes
    def records(self, session_ids: Sequence[str]) -> dict[str, SessionRecord]:
        """Return the records of those of the sessions that exist, by id."""
        return self._records(self.select_each("records", "sessions", session_ids))

    def record(self, session_id: str) -> SessionRecord:
        """Return a session's record, or raise `SessionNotFound` (which says so if it was deleted)."""
        found = self.records([session_id]).get(session_id)
        if found is None:
            raise self.not_found(session_id)
        return found

    def not_found(self, session_id: str) -> SessionNotFound:
        """Return the error for a session that is not there."""
        if self.is_deleted(session_id):
            return SessionNotFound(
                f"session {session_id!r} was deleted; import an export of it with --restore, or restore a backup"
            )
        return SessionNotFound(f"there is no session {session_id!r}; `trails list` shows the ids there are")

    def is_deleted(self, session_id: str) -> bool:
        """Tell whether a session's tombstone stands."""
        node = NamedNode(iris.session(session_id))
        return bool(self._store.quads((node, vocab.TYPE, vocab.TOMBSTONE, vocab.CATALOG)))

    @decodes
    def lineage(self, session_id: str) -> tuple[SessionRecord, ...]:
        """Return a session and its ancestors by forks, itself first: one query."""
        records = self._records(self.select("lineage", session=session_id))
        if session_id not in records:
            raise self.not_found(session_id)
        return lineage.lineage(session_id, records)

    @decodes
    def branches(self, session_id: str) -> list[SessionRecord]:
        """Return the direct forks of a session, oldest first."""
        found = self._records(self.select("branches", session=session_id)).values()
        return sorted(found, key=lambda record: (record.created is not None, record.created, record.id))

    @decodes
    def labelled(self, label: str) -> str | None:
        """Return the id of the session that has a label, or None."""
        for quad in self._store.quads((None, vocab.LABEL, Literal(label), vocab.CATALOG)):
            subject = str(quad.subject.value)  # type: ignore[union-attr] # an IRI
            key = iris.conversation_key(subject)
            named = None if key is None else conversations.find_conversation(self._store, key)
            return iris.session_id(subject) if named is None else named.session_id
        return None

    def entry(self, session_id: str) -> SessionEntry:
        """Return what is kept about a session with a key beside its turns; an empty entry where that is nothing."""
        return conversations.read_overrides(self._store, session_id)

    def told(self, chain: Sequence[SessionRecord]) -> SpawnContext:
        """Return what a session was told by the one that spawned it, given with its ancestors by forks."""
        return ledger_entries.spawn_context(self._store, chain)

    def conversation(self, session_id: str) -> Conversation | None:
        """Return the conversation whose current session it is: that has its label, too."""
        return conversations.conversations_of_session(self._store, NamedNode(iris.session(session_id)))

    # --- turns: see `turn_reader`

    def turns(self, chain: Sequence[SessionRecord], up_to: int | None = None) -> list[Turn]:
        """Return a session's whole transcript, in order of index; raise if anything is missing or doubled.

        `chain` is the session's lineage; `up_to` (exclusive) cuts the transcript.
        """
        return list(self.transcript(chain, up_to))

    def transcript(self, chain: Sequence[SessionRecord], up_to: int | None = None) -> Transcript:
        """Return a session's whole transcript, of which turns are made when they are touched; raise as `turns` does.

        Raises `SessionNotFound` for a session that was deleted while it was read: turns at its end may have been gone already.
        """
        for pause in LENGTH_PAUSES:
            with suppress(IndexGap):  # a commit may be in the log, and not in the engine yet
                return self._transcript(chain, up_to)
            time.sleep(pause)  # whoever holds the store may wait for this thread: it is not held
            chain = self.lineage(chain[0].id)
        return self._transcript(chain, up_to)

    def _transcript(self, chain: Sequence[SessionRecord], up_to: int | None) -> Transcript:
        own = chain[0]
        runs = lineage.segments(chain, up_to)
        recorded = self.turn_reader.recorded(own.id)  # before the turns: others may append meanwhile
        made = Transcript(StoredTurns([self.turn_reader.run(run) for run in runs]))
        if self.is_deleted(own.id):
            raise self.not_found(own.id)
        try:
            made.stored.check_dense(own.id, runs)
            if up_to is None or len(made) < up_to:
                self._refuse_cut(own, len(made), recorded, runs, up_to)
            check_fork_head(own, made)
        except TrailsError:
            if not any(self.is_deleted(record.id) for record in chain[1:]):
                raise
            return self._transcript(self.lineage(own.id), up_to)  # it was detached meanwhile, and the ancestor deleted
        return made

    def _refuse_cut(
        self, own: SessionRecord, length: int, recorded: int, runs: Sequence[Segment], up_to: int | None
    ) -> None:
        """Raise `IndexGap` if a transcript is shorter than it is by the log, or turns of its session stand further on."""
        if up_to is not None and self.turn_reader.end(own.id, length) > length:
            raise lineage.gap(own.id, length, runs)
        if length < (recorded if up_to is None else min(recorded, up_to)):
            raise shorten_lengths(own.id, length, recorded)

    def own_turns(self, run: Segment) -> list[Turn]:
        """Return the turns that a session owns in a run of indices, in order of index."""
        found = self.turn_reader.run(run)
        return found.turns(0, len(found))

    def turns_at(self, session_id: str, indices: Sequence[int]) -> list[Turn]:
        """Return the turns that a session itself owns at some indices, in order of index.

        An index at which it owns no turn is left out; two turns at one index both come.
        """
        return self.turn_reader.at(session_id, indices)

    def encrypted_turns(self) -> Iterator[Turn]:
        """Yield the own turns of all encrypted sessions in plain; raise `KeyMissing` without the key of one."""
        for session_id in encryption.encrypted_sessions(self._store):
            record = self.record(session_id)
            yield from self.own_turns(Segment(record, record.starts_at, None))

    def length(self, chain: Sequence[SessionRecord]) -> int:
        """Return how many turns a session's stored transcript has; raise `IndexGap` if the log has more on record."""
        own = chain[0]
        for pause in LENGTH_PAUSES:
            recorded = self.turn_reader.recorded(own.id)
            length = self.turn_reader.end(own.id, own.starts_at)
            if length >= recorded:
                return length
            time.sleep(pause)
        raise shorten_lengths(own.id, length, recorded)

    def last_index(self, chain: Sequence[SessionRecord]) -> int | None:
        """Return the index of the last turn of a transcript, given with its lineage; None where it has no turn."""
        length = self.length(chain)
        return length - 1 if length else None

    def digest_at(self, session_id: str, index: int) -> str | None:
        """Return the digest of the turn that a session itself owns at an index, or None."""
        return next((digest or None for _, digest in self.turn_reader.digests(session_id, index, index + 1)), None)

    def digest_in(self, runs: Sequence[Segment], index: int) -> str | None:
        """Return the digest of the turn at an index of a transcript; None if there is none."""
        owner = lineage.owner_at(runs, index)
        return None if owner is None else self.digest_at(owner, index)

    def length_of(self, runs: Sequence[Segment]) -> int:
        """Return how many turns the runs of a transcript have."""
        if not runs:
            return 0
        last = runs[-1]
        if last.end is None:
            return self.length([last.record])
        return min(last.end, self.turn_reader.end(last.record.id, last.start))

    def tail(self, runs: Sequence[Segment], start: int, session_id: str, end: int | None = None) -> list[Turn]:
        """Return the turns of a transcript from an index on, up to another if that is given.

        Raises `IndexGap` if one is missing or doubled. What comes before `start` is neither read nor checked.
        """
        turns: list[Turn] = []
        for run in runs:
            if run.end is None or run.end > start:
                turns += self.own_turns(Segment(run.record, max(run.start, start), run.end))
        lineage.check_dense(session_id, turns, runs, start, end or 0)
        if end is None and runs and runs[-1].end is None:
            self.length([runs[-1].record])
        return turns

    def part_of_transcript(self, chain: Sequence[SessionRecord], length: int) -> Transcript:
        """Return a session's stored transcript, of so many turns, of which parts are read when they are touched."""
        own = chain[0]
        assert isinstance(own, SessionRecord)  # noqa: S101 - of the session itself, the row was read

        def read(start: int, end: int) -> list[Turn]:
            runs = lineage.segments(chain, end)
            turns = self.tail(runs, start, own.id, end)
            forked = (own.forked_at_index or 0) - 1
            if own.fork_head and start <= forked < end and turns[forked - start].digest != own.fork_head:
                lineage.check_fork_head(own, self.turns(chain, forked + 1))
            return turns

        return Transcript(StoredTurns(length=length, read=read))

    @decodes
    def summaries(self, run: Segment) -> list[SummaryMark]:
        """Return the summary turns in a run of a transcript, in order: one query, however long it is."""
        end = _OPEN_END if run.end is None else run.end
        rows = self.select("summary_turns", session=run.record.id, start=run.start, end=end)
        return [SummaryMark(*(None if term is None else int(term.value) for term in row)) for row in rows]  # type: ignore[arg-type] # the index is never None

    def latest_summary(self, runs: Sequence[Segment]) -> SummaryMark | None:
        """Return the last summary turn of a transcript, or None; nothing older is looked at."""
        for run in reversed(runs):
            if found := self.summaries(run):
                return found[-1]
        return None

    def digests(self, run: Segment) -> list[tuple[int, str]]:
        """Return the index and the digest of each turn that a session owns in a run of indices."""
        return self.turn_reader.digests(run.record.id, run.start, run.end)

    def owns(self, session_id: str, index: int) -> bool:
        """Tell whether a session itself owns a turn at an index (or a copy that a detach has begun to make there)."""
        return bool(self.turn_reader.digests(session_id, index, index + 1))

    def ids(self) -> list[str]:
        """Return the ids of all sessions, in order."""
        rows = self._store.quads((None, vocab.TYPE, vocab.SESSION, vocab.CATALOG))
        return sorted(iris.session_id(str(getattr(quad.subject, "value", ""))) for quad in rows)

    @decodes
    def salts(self, session_id: str) -> dict[str, str]:
        """Return the salts of a session's own turns, by turn IRI."""
        quads = self._store.quads((None, vocab.SALT, None, NamedNode(iris.session(session_id))))
        return {quad.subject.value: quad.object.value for quad in quads}  # type: ignore[union-attr] # IRIs and literals

    def sealed(self, turns: Sequence[Turn]) -> list[SealedTurn]:
        """Return turns with the salts that belong to them."""
        salts: dict[str, str] = {}
        for session_id in {turn.session_id for turn in turns}:
            salts |= self.salts(session_id)
        missing = next((turn for turn in turns if turn.iri not in salts), None)
        if missing is not None:
            if self.is_deleted(missing.session_id):
                raise self.not_found(missing.session_id)
            raise IntegrityError(
                f"turn {missing.index} of session {missing.session_id!r} has no salt, so its digest cannot be checked or "
                "copied: the store was altered; restore the session from an export or a backup"
            )
        return [SealedTurn(turn=turn, salt=salts[turn.iri]) for turn in turns]

    @decodes
    def prompts(self, session_ids: Sequence[str]) -> dict[tuple[str, int], SystemPrompt]:
        """Return the versions of the system prompt that sessions own, by (session id, version)."""
        found: dict[tuple[str, int], SystemPrompt] = {}
        owners = [session_id for session_id in session_ids if self._has_prompts(session_id)]
        if not owners:  # the common case, and every fork asks: a look-up takes a hundredth of a query's time
            return found
        for row in self.select_each("prompt", "sessions", owners):
            session_id, version, time = iris.session_id(row["session"].value), int(row["version"].value), row["time"]
            prompt = SystemPrompt(
                session_id=session_id,
                version=version,
                text=row["text"].value,
                effective_from=int(row["from"].value),
                digest=row["digest"].value,
                salt=row["salt"].value,
                time=None if time is None else parse_time(time.value),
                redacted=row["text"].datatype == vocab.REDACTED,
                by_iri=None if row["by"] is None else row["by"].value,
            )
            found[session_id, version] = decrypted_prompt(self._store, prompt) if self._decrypts else prompt
        return found

    def _has_prompts(self, session_id: str) -> bool:
        node = NamedNode(iris.session(session_id))
        return bool(self._store.quads((None, vocab.PROMPT_OF, node, vocab.CATALOG)))

    def prompt(self, chain: Sequence[SessionRecord], at: int | None = None) -> SystemPrompt | None:
        """Return the system prompt in force for a session: the newest, or the newest in force at index `at`.

        A session owns the versions above the one that it inherited; the inherited one is the nearest ancestor's.
        """
        until = next((at for at, record in enumerate(chain, 1) if record.system_version == 0), None)
        owned = self.prompts([record.id for record in chain[:until]]).values()  # one that inherits none ends it
        newest: int | None = None
        for record in chain:
            usable = [
                prompt
                for prompt in owned
                if prompt.session_id == record.id
                and (newest is None or prompt.version <= newest)
                and (at is None or prompt.effective_from <= at)
            ]
            if usable:
                return max(usable, key=lambda prompt: prompt.version)
            newest = record.system_version if newest is None else min(newest, record.system_version)
            if newest == 0:
                return None
        raise IntegrityError(
            f"session {chain[0].id!r} inherits version {newest} of its system prompt, which no ancestor has: "
            "the store was altered; restore the session from an export or a backup"
        )

    @decodes
    def dependants(self, session_id: str) -> list[tuple[str, str]]:
        """Return (session, parent) ids of everything forked from or spawned by a session, directly or not."""
        rows = self.select("descendants", session=session_id)
        return [(iris.session_id(row[0].value), iris.session_id(row[1].value)) for row in rows]
