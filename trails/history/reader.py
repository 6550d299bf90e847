"""Reading sessions out of a store: rows, lineages and transcripts, each in as few queries as it takes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice, pairwise
from operator import attrgetter
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad, QuerySolution

from trails.errors import IndexGap, IntegrityError, SessionNotFound, TrailsError
from trails.history.log_history import LENGTH_PAUSES, TranscriptLengths, shorten_lengths
from trails.history.records import conversations, ledger_entries
from trails.history.records.ledger_entries import SpawnContext
from trails.integrity import digests
from trails.model import iris, lineage
from trails.model.lineage import Forebear, Owner, Segment
from trails.model.validation import decodes
from trails.model.values import Facts, SealedTurn, SessionRecord, SystemPrompt, Turn
from trails.plumbing.packed import Part, Prefix, Transcript
from trails.plumbing.packs.block import Block
from trails.plumbing.packs.keeper import Packs
from trails.plumbing.recent import Recent
from trails.rdf import query_files, vocab
from trails.rdf.codec import parse_time
from trails.rdf.conversation_records import Conversation, SessionEntry
from trails.rdf.session_records import decode_records
from trails.rdf.turn_quads import decode_facts, decode_turn
from trails.store import nearby
from trails.store.contract import QuadStore, Solutions
from trails.workers import collect_seldom

_WIDE: Final = 1
_FEW: Final = 30
"""A run is read by scanning whole columns, unless its session owns this much more before it, or after it, than it has."""
_STEPS: Final = [2**power for power in range(1, 31)]
_OPEN_END: Final = 2**53


FAR_PAST: Final = datetime(1, 1, 1, tzinfo=UTC)
FAR_FUTURE: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class Reader:
    """Everything that is read from a store of sessions. It holds no state but the store, and the packs of transcripts."""

    def __init__(self, store: QuadStore, packs: Packs | None = None) -> None:
        """Read from a store; turns from its packs, too, where they are given."""
        self._store = store
        self._packs = packs
        self._recent = None if packs is None else Recent(store, packs)
        self.lengths = TranscriptLengths(store)
        """How long transcripts are by the log."""
        self.unpacked: Reader = self if packs is None else Reader(store)
        """A reader of the store alone: for what is held against it, or written out of it again."""

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
        return found

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
    def ancestry(self, session_id: str) -> tuple[SessionRecord, tuple[Owner, ...]]:
        """Return a session, and its ancestors by forks, of which no more is read than what they give to its transcript.

        That takes a third of the time of `lineage`, which says what is wrong where anything is not as it should be.
        """
        own = self.record(session_id)
        if own.parent_session_id is None:
            return own, ()
        rows = self.select("ancestors", session=session_id)
        named = iris.session_id
        forks = [Forebear(named(fork.value), named(parent.value), int(at.value)) for fork, parent, at in rows]
        found = {each.id: each for each in forks}
        roots = {each.parent_session_id for each in found.values()} - found.keys()
        if (
            len(found) == len(forks)
            and found.get(session_id) == (session_id, own.parent_session_id, own.forked_at_index)
            and len(roots) == 1
        ):
            root = Forebear(roots.pop() or "")
            found[root.id] = root
            if self._are_sessions(found.values()) and not self._is_forked(root):
                return own, lineage.lineage(session_id, found)[1:]
        whole = self.lineage(session_id)
        return whole[0], whole[1:]

    def _are_sessions(self, owners: Iterable[Owner]) -> bool:
        """Tell whether all of some sessions are there, as such."""
        types = [Quad(NamedNode(each.iri), vocab.TYPE, vocab.SESSION, vocab.CATALOG) for each in owners]
        return all(nearby.holds(self._store, types))

    def _is_forked(self, owner: Owner) -> bool:
        node = NamedNode(owner.iri)
        forked = (vocab.PARENT_SESSION, vocab.FORKED_AT_INDEX)
        return any(self._store.quads((node, each, None, vocab.CATALOG)) for each in forked)

    def known(self, session_id: str, ancestors: Sequence[Owner]) -> tuple[SessionRecord, ...]:
        """Return the rows of a session's ancestors, read by now where they were not; as they are by now where one is gone."""
        wanted = [each.id for each in ancestors if isinstance(each, Forebear)]
        records = self.records(wanted)  # no question where there are none
        if len(records) < len(wanted):  # the session was detached, and an ancestor deleted
            return self.lineage(session_id)[1:]
        return tuple(records[each.id] if isinstance(each, Forebear) else each for each in ancestors)

    @decodes
    def branches(self, session_id: str) -> list[SessionRecord]:
        """Return the direct forks of a session, oldest first."""
        found = self._records(self.select("branches", session=session_id)).values()
        return sorted(found, key=lambda record: (record.created is not None, record.created, record.id))

    @decodes
    def page(
        self,
        *,
        limit: int,
        since: datetime = FAR_PAST,
        until: datetime = FAR_FUTURE,
        after: tuple[datetime, str] = (FAR_FUTURE, "~"),
        principal: str | None = None,
        agent: str | None = None,
    ) -> list[SessionRecord]:
        """Return up to `limit` records by creation, newest first, after a (time, session IRI) where a page ended."""
        common = {"since": since, "until": until, "before": after[0], "last": after[1], "limit": limit}
        if principal is None and agent is None:
            rows = self.select("page", **common)
        else:
            rows = self.select("page_by", principal=principal, agent=agent, **common)
        ids = [iris.session_id(row[0].value) for row in rows]
        found = self.records(ids)
        return [found[session_id] for session_id in ids if session_id in found]  # one may be deleted meanwhile

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

    def turns(self, chain: Sequence[Owner], up_to: int | None = None) -> list[Turn]:
        """Return a session's whole transcript, in order of index, or raise where anything is missing or doubled.

        `chain` is the session's lineage; `up_to` (exclusive) cuts the transcript. Raises `SessionNotFound` for a session
        that was deleted while it was read: turns at its end may have been gone already.
        """
        for pause in LENGTH_PAUSES:
            with suppress(IndexGap):  # a commit may be in the log, and not in the engine yet
                return self._turns(chain, up_to)
            time.sleep(pause)  # whoever holds the store may wait for this thread: it is not held
            chain = self.lineage(chain[0].id)
        return self._turns(chain, up_to)

    def _turns(self, chain: Sequence[Owner], up_to: int | None) -> list[Turn]:
        own = chain[0]
        assert isinstance(own, SessionRecord)  # noqa: S101 - of the session itself, the row was read
        session_id = own.id
        runs = lineage.segments(chain, up_to)
        recorded = self.lengths.recorded([session_id]).get(session_id, 0)
        turns: list[Turn] = []
        for run in runs:
            turns += self.own_turns(run)
        if self.is_deleted(session_id):
            raise self.not_found(session_id)
        try:
            lineage.check_dense(session_id, turns, runs)
            self._refuse_cut(own, len(turns), recorded, runs, up_to)
            lineage.check_fork_head(own, turns)
        except TrailsError:
            if not any(self.is_deleted(record.id) for record in chain[1:]):
                raise
            return self.turns(self.lineage(session_id), up_to)  # it was detached meanwhile, and the ancestor deleted
        return turns

    def transcript(self, own: SessionRecord, ancestors: Sequence[Owner], up_to: int | None = None) -> Transcript:
        """Return a session's whole transcript as `turns` does; turns that packs hold are made when they are touched."""
        session_id = own.id
        runs = lineage.segments((own, *ancestors), up_to)
        recorded = self.lengths.recorded([session_id]).get(session_id, 0)
        parts: list[Part] = []
        tail: list[Turn] = []
        for run, (packed, rest) in zip(runs, self._of_runs(runs), strict=True):
            if not tail and run.start == (parts[-1].end if parts else 0):
                parts += packed
                tail += rest
            else:
                tail += self._joined(packed, rest)
        if self.is_deleted(session_id):
            raise self.not_found(session_id)
        try:
            lineage.check_dense(session_id, tail, runs, parts[-1].end if parts else 0)
            made = Transcript(Prefix(parts), tail)
            self._refuse_cut(own, len(made), recorded, runs, up_to)
            at = own.forked_at_index
            if at and own.fork_head and len(made) >= at and made.digest_at(at - 1) != own.fork_head:
                lineage.check_fork_head(own, made)
        except TrailsError:  # the store says why, or that it is not so: an ancestor may have been deleted meanwhile
            return Transcript(tail=self.unpacked.turns(self.lineage(session_id), up_to))
        return made

    def _of_runs(self, runs: Sequence[Segment]) -> list[tuple[Sequence[Part], Sequence[Turn]]]:
        """Return of each run what packs hold of its beginning, and the turns after that. The last one may be known by now."""
        recent = self._recent
        if recent is None or not runs or runs[-1].end is not None:
            return self._read(runs, self._packed(runs))
        last = runs[-1]
        if (known := recent.of(last.record)) is not None:
            return [*self._read(runs, [*self._packed(runs[:-1]), []], len(runs) - 1), known]
        now = recent.now()
        found = self._read(runs, self._packed(runs))
        recent.put(last.record, now, *found[-1])
        return found

    def known_end(self, record: Owner) -> tuple[int, str] | None:
        """Return the index and the digest of the last turn that a session owns, where these are known without the engine.

        None, too, where it owns no turn.
        """
        parts, rest = (self._recent and self._recent.of(record)) or ((), ())
        if rest:
            return rest[-1].index, rest[-1].digest
        return (parts[-1].end - 1, parts[-1].block.digest(parts[-1].end - 1)) if parts else None

    def _read(
        self, runs: Sequence[Segment], held: Sequence[list[Part]], most: int | None = None
    ) -> list[tuple[Sequence[Part], Sequence[Turn]]]:
        """Return this of runs, or of the first ones, that is read by now; packs hold what is given of each."""
        counts = self._counts(runs, held)
        return [self._with_rest(*each) for each in islice(zip(runs, held, counts, strict=True), most)]

    def _refuse_cut(
        self, own: SessionRecord, length: int, recorded: int, runs: Sequence[Segment], up_to: int | None
    ) -> None:
        """Raise `IndexGap` where a transcript is shorter than it was asked for, and its session owns turns further on.

        They are there, or the log has them on record: `recorded` is how long the transcript was when it began to be read.
        """
        if up_to is not None and length >= up_to:
            return
        if up_to is not None and self.select("last_index", session=own.id, start=length, end=_OPEN_END):
            raise lineage.gap(own.id, length, runs)
        if length < (recorded if up_to is None else min(recorded, up_to)):
            raise shorten_lengths(own.id, length, recorded)

    def _packed(self, runs: Sequence[Segment]) -> list[list[Part]]:
        """Return the parts of blocks that each of some runs of sessions' own begins with, as far as packs hold it."""
        if self._packs is None:
            return [[] for _ in runs]
        return [self._parts(run, blocks) for run, blocks in zip(runs, self._packs.blocks(runs), strict=True)]

    def _parts(self, run: Segment, blocks: Sequence[Block]) -> list[Part]:
        """Return the parts of a run that blocks hold."""
        if not blocks:
            return []

        def stored(start: int, end: int) -> list[Turn]:
            found = self._stored(wanted := Segment(run.record, start, end))
            if len(found) != end - start:
                raise lineage.gap(run.record.id, start + len(found), [wanted])
            return found

        end = blocks[-1].end if run.end is None else min(run.end, blocks[-1].end)
        return [Part(max(run.start, each.start), min(end, each.end), each, stored) for each in blocks]

    def own_turns(self, run: Segment) -> list[Turn]:
        """Return the turns that a session owns in a run of indices, in order of index."""
        return self._joined(*self._own(run))

    def quick_parts(self, run: Segment) -> tuple[list[Part], list[Turn]] | None:
        """Return what packs hold of a run, and the turns after it, where a pack holds the first of them; else None.

        Those that the packs hold are counted in the store, which looks through all of the session: once, until something
        is removed from the store. Turns are only ever added behind the last one; whether there are any is asked again once
        something was committed.
        """
        (packed,) = self._packed([run])
        if self._packs is None or not packed:
            return None
        end = packed[-1].end
        held = Segment(run.record, run.start, end)
        token, number = (
            self._store.token,
            self._store.number,
        )  # before the turns are counted: what comes or goes shows next time
        if self._packs.were_counted(held, token):
            if end == run.end or self._packs.were_all(held, number):
                return packed, []
            rest = self._noted(Segment(run.record, end, run.end)) if self.goes_on(run.record.id, end) else []
        else:
            packed, rest = self._with_rest(run, packed)
        if packed:
            self._packs.note_count(held, token, number if run.end is None and not rest else None)
        return packed, rest

    def packed_turns(self, run: Segment) -> list[Turn] | None:
        """Return the turns of a run where a pack holds all of them; else None. That the store has the last one is enough."""
        (packed,) = self._packed([run])
        if not packed or packed[-1].end != run.end:
            return None
        return self._joined(packed, [])

    @staticmethod
    def _joined(packed: Iterable[Part], rest: Iterable[Turn]) -> list[Turn]:
        with collect_seldom():
            return [*(turn for part in packed for turn in part.turns(part.start, part.end)), *rest]

    def _own(self, run: Segment) -> tuple[list[Part], list[Turn]]:
        """Return the turns of a run: those that a pack holds, where the store has as many, and those that come after."""
        (packed,) = self._packed([run])
        return self._with_rest(run, packed)

    def _with_rest(self, run: Segment, packed: list[Part], count: int | None = None) -> tuple[list[Part], list[Turn]]:
        if packed:
            end = packed[-1].end
            left = (self._count(run) if count is None else count) - (end - run.start)
            rest = self._noted(Segment(run.record, end, run.end)) if left > 0 else []
            if left == len(rest):
                return packed, rest
        return [], self._noted(run)

    def _count(self, run: Segment) -> int:
        """Return how many turns the store has of a run."""
        if run.end is None and run.start == 0:  # without bounds in two thirds of the time
            ((count,),) = self.select("turns_owned", session=run.record.id)
        else:
            end = _OPEN_END if run.end is None else run.end
            ((count,),) = self.select("turns_between", session=run.record.id, start=run.start, end=end)
        return int(count.value)

    def _counts(self, runs: Sequence[Segment], found: Sequence[list[Part]]) -> list[int | None]:
        """Return how many turns the store has of each run, None for those that are to be counted singly.

        One query counts those that packs hold, and that end where the session of the next run was forked off; where packs
        know of no more turns of a session, another one that needs no bounds.
        """
        counted = self._counts_of_ended(runs, found)
        forks = [
            after.record.id
            for (run, after), packed in zip(pairwise(runs), found, strict=False)
            if packed
            and run.record.id not in counted
            and (after.record.parent_session_id, after.record.forked_at_index) == (run.record.id, run.end)
        ]
        before = dict.fromkeys(forks, 0)
        for fork, turns in self.select_each("turns_before_forks", "forks", forks):
            before[iris.session_id(fork.value)] = int(turns.value)
        return [
            *(counted.get(run.record.id, before.get(after.record.id)) for run, after in pairwise(runs)),
            *(counted.get(run.record.id) for run in runs[-1:]),
        ]

    def _counts_of_ended(self, runs: Sequence[Segment], found: Sequence[list[Part]]) -> dict[str, int | None]:
        """Return how many turns sessions have, by id, of those that packs hold and that end with their run.

        That is None for one that has turns before its run, too: copies that a detach has begun to make. All are counted
        together first, which takes less than to tell them apart: where they have as many turns as packs hold, and the sum of
        their indices is that of those, too, nothing is missing and nothing came.
        """
        ended = {
            run.record.id: (run, packed[-1].end)
            for run, packed in zip(runs, found, strict=True)
            if packed and self._ends(run, packed[-1].block.end, is_fork=len(runs) > 1)
        }
        if ended and self._have(ended, [range(run.start, end) for run, end in ended.values()]):
            return {session_id: end - run.start for session_id, (run, end) in ended.items()}
        counted: dict[str, int | None] = {}
        for session, turns, first, last in self.select_each("turns_of_each", "sessions", ended):
            session_id = iris.session_id(session.value)
            run, _ = ended[session_id]
            if int(first.value) < run.start:
                counted[session_id] = None
            elif run.end is not None and int(last.value) < run.end:  # else it went on, and packs do not know it yet
                counted[session_id] = int(turns.value)
        return counted

    def _ends(self, run: Segment, end: int, *, is_fork: bool) -> bool:
        """Tell whether a session ends within its run, as far as is known: a pack holds its turns up to an index."""
        if run.end is not None:
            return end <= run.end
        return is_fork and not self.owns(run.record.id, end)  # without forks, one count without bounds is quicker

    def _have(self, session_ids: Collection[str], indices: Sequence[range]) -> bool:
        """Tell whether sessions have together as many turns as there are indices, and at indices of that sum."""
        (row,) = self.select("turns_of_all", sessions=[NamedNode(iris.session(each)) for each in session_ids])
        total = sum(len(each) * (each[0] + each[-1]) // 2 for each in indices)
        return [None if term is None else term.value for term in row] == [str(sum(map(len, indices))), str(total)]

    def _noted(self, run: Segment) -> list[Turn]:
        """Return the turns of a run as the engine has them, and have them packed when there is time."""
        if self._packs is None:
            return self._stored(run)
        now = self._packs.now()
        turns = self._stored(run)
        if turns and turns[-1].index - turns[0].index == len(turns) - 1:
            self._packs.note(run.record, turns, now)
        return turns

    def last_packed(self, record: Owner) -> Block | None:
        """Return the block with the last turns that a session owns and a pack holds; None where there is none."""
        return None if self._packs is None else self._packs.last(record)

    def goes_on(self, session_id: str, index: int) -> bool:
        """Tell whether a session owns turns from an index on: then, where it owns none there, one is missing in between.

        Looks at the places 0, 1, 3, 7, 15... after `index`, so a gap is found unless it is longer than all that follows it.
        """
        return self.owns(session_id, index) or bool(
            self.select("places_owned", session=session_id, indices=[index + step - 1 for step in _STEPS])
        )

    @decodes
    def _stored(self, run: Segment) -> list[Turn]:
        """Return the turns that a session owns in a run of indices as the engine has them."""
        session_id = run.record.id
        end = _OPEN_END if run.end is None else run.end
        if end <= run.start:
            return []
        narrow = self._is_small(run)
        rows = self.select("turns_narrow" if narrow else "turns_wide", session=session_id, start=run.start, end=end)
        if not rows:
            return []
        try:
            facts = self._facts_between(session_id, run.start, end) if narrow else self.facts(session_id)
            turns = [decode_turn(session_id, row, facts) for row in rows]
        except (ValueError, AttributeError) as error:  # an IRI for a literal, or a literal of another kind
            raise self._strange(session_id, error) from error
        turns.sort(key=attrgetter("index"))
        return turns if all(turn.digest for turn in turns) else self._with_digests(turns)

    @decodes
    def turns_at(self, session_id: str, indices: Sequence[int]) -> list[Turn]:
        """Return the turns that a session itself owns at some indices, in order of index, reading nothing else of it.

        An index at which it owns no turn is left out; two turns at one index both come.
        """
        rows = self.select_each("turns_at", "indices", indices, session=session_id)
        if not rows:
            return []
        try:
            owner = iris.session(session_id)
            written = [iris.turn(owner, int(row[0].value), row[4].value) for row in rows if row[4] is not None]
            found = self.select_each("facts_of", "turns", written, session=session_id)
            facts = decode_facts((row[0].value, row[1].value, row[2]) for row in found)
            turns = [decode_turn(session_id, row, facts) for row in rows]
        except (ValueError, AttributeError) as error:
            raise self._strange(session_id, error) from error
        turns.sort(key=attrgetter("index"))
        return turns if all(turn.digest for turn in turns) else self._with_digests(turns)

    def _strange(self, session_id: str, error: Exception) -> IntegrityError:
        return IntegrityError(
            f"session {session_id!r} holds values that Trails never writes ({error}): the store was altered; "
            "`trails verify` names them; restore the session from an export or a backup"
        )

    def _with_digests(self, turns: list[Turn]) -> list[Turn]:
        """Give turns from before digests existed one that later turns can chain to: of their content with an empty salt."""
        previous, whole = digests.GENESIS, []
        for turn in turns:
            made = turn
            if not turn.digest:
                made = turn.model_copy(
                    update={
                        "old_iri": self._iri_at(turn.session_id, turn.index),
                        "digest": digests.turn_digest(
                            previous=previous,
                            index=turn.index,
                            branch=turn.branch,
                            role=turn.role,
                            author=iris.author_key(turn.author_iri),
                            time=turn.time,
                            content=digests.content_digest(turn.text, "", structured=turn.structured),
                            facts=digests.facts_digest(turn.facts, ""),
                        ),
                    }
                )
            whole.append(made)
            previous = made.digest
        return whole

    @decodes
    def _iri_at(self, session_id: str, index: int) -> str:
        quads = self._store.quads((None, vocab.INDEX, vocab.integer(index), NamedNode(iris.session(session_id))))
        return str(quads[0].subject.value)  # type: ignore[union-attr] # an IRI

    def _is_small(self, run: Segment) -> bool:
        """Tell whether a session owns much more before or after a run: then looking turns up beats scanning whole columns."""
        before = run.start - run.record.starts_at
        if run.end is None:
            return before > _FEW and not self.owns(run.record.id, run.start + before // _WIDE)
        wide = _WIDE * (run.end - run.start) + _FEW
        return before > wide or self.owns(run.record.id, run.end + wide)

    def ids(self) -> list[str]:
        """Return the ids of all sessions, in order."""
        rows = self._store.quads((None, vocab.TYPE, vocab.SESSION, vocab.CATALOG))
        return sorted(iris.session_id(str(getattr(quad.subject, "value", ""))) for quad in rows)

    def last_index(self, chain: Sequence[SessionRecord]) -> int | None:
        """Return the index of the last turn of a transcript, given with its lineage; None where it has no turn."""
        own = chain[0]

        def count() -> int:
            rows = self.select("last_index", session=own.id, start=own.starts_at, end=_OPEN_END)
            return int(rows[0][0].value) + 1 if rows else own.starts_at

        length = self.lengths.checked(own.id, count)
        return length - 1 if length else None

    @decodes
    def facts(self, session_id: str) -> dict[str, Facts]:
        """Return what is recorded with a session's own turns beyond their text, by turn IRI."""
        rows = self.select("facts", session=session_id)
        return decode_facts((row[0].value, row[1].value, row[2]) for row in rows) if rows else {}

    def _facts_between(self, session_id: str, start: int, end: int) -> dict[str, Facts]:
        rows = self.select("facts_between", session=session_id, start=start, end=end)
        return decode_facts((row[0].value, row[1].value, row[2]) for row in rows) if rows else {}

    @decodes
    def digest_at(self, session_id: str, index: int) -> str | None:
        """Return the digest of the turn that a session itself owns at an index, or None."""
        graph = NamedNode(iris.session(session_id))
        for turn in self._store.quads((None, vocab.INDEX, vocab.integer(index), graph)):
            for digest in self._store.quads((turn.subject, vocab.DIGEST, None, graph)):  # type: ignore[arg-type] # an IRI
                return str(digest.object.value)  # type: ignore[union-attr] # a literal
        return None

    @decodes
    def digests(self, run: Segment) -> list[tuple[int, str]]:
        """Return the index and the digest of each turn that a session owns in a run of indices; nothing else is read."""
        graph = NamedNode(run.record.iri)
        known = {quad.subject: quad.object for quad in self._store.quads((None, vocab.DIGEST, None, graph))}
        found = [
            (int(quad.object.value), str(known[quad.subject].value))  # type: ignore[union-attr] # literals
            for quad in self._store.quads((None, vocab.INDEX, None, graph))
            if quad.subject in known
        ]
        return sorted(each for each in found if run.start <= each[0] and (run.end is None or each[0] < run.end))

    def owns(self, session_id: str, index: int) -> bool:
        """Tell whether a session itself owns a turn at an index (or a copy that a detach has begun to make there)."""
        return bool(self._store.quads((None, vocab.INDEX, vocab.integer(index), NamedNode(iris.session(session_id)))))

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
            found[session_id, version] = SystemPrompt(
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
        return found

    def _has_prompts(self, session_id: str) -> bool:
        node = NamedNode(iris.session(session_id))
        return bool(self._store.quads((None, vocab.PROMPT_OF, node, vocab.CATALOG)))

    def prompt(self, chain: Sequence[Owner], at: int | None = None) -> SystemPrompt | None:
        """Return the system prompt in force for a session: the newest, or the newest in force at index `at`.

        A session owns the versions above the one that it inherited; the inherited one is the nearest ancestor's.
        """
        owned = self.prompts([record.id for record in chain]).values()
        newest: int | None = None
        for record in self._read_on(chain):
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

    def _read_on(self, chain: Sequence[Owner]) -> Iterator[SessionRecord]:
        """Yield the rows of the sessions of a lineage; those that were not read are, once the first of them is come to."""
        rows: dict[str, SessionRecord] | None = None
        for each in chain:
            if isinstance(each, SessionRecord):
                yield each
                continue
            if rows is None:
                rows = self.records([other.id for other in chain if isinstance(other, Forebear)])
            if each.id not in rows:
                raise self.not_found(each.id)
            yield rows[each.id]

    @decodes
    def dependants(self, session_id: str) -> list[tuple[str, str]]:
        """Return (session, parent) ids of everything forked from or spawned by a session, directly or not."""
        rows = self.select("descendants", session=session_id)
        return [(iris.session_id(row[0].value), iris.session_id(row[1].value)) for row in rows]
