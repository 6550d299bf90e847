"""Prove that something was not recorded between two checkpoints: gather what `AbsenceProof` holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple, get_args

from trails.errors import IntegrityError, InvalidInput, SessionNotFound
from trails.history import log_history
from trails.history.reader import Reader
from trails.history.records.record_kind import about
from trails.history.verification.checkpoints import digests_of, log_tree
from trails.integrity import digests, leaves
from trails.integrity.absence_proofs import (
    OF_TURNS,
    WITH_FACTS,
    AbsenceProof,
    EarlierTurns,
    NotAbsent,
    OpenedTurns,
    Subject,
    name_trouble,
)
from trails.integrity.merkle import HashTree
from trails.integrity.proof_form import turns_leaf
from trails.integrity.signed_notes import claimed_checkpoint
from trails.model import iris, lineage, validation
from trails.model.values import SealedTurn, SessionRecord
from trails.rdf.codec import subject_of
from trails.store.contract import QuadStore

_EARLIER: Final = "a proof has to be made before that; give checkpoints that leave it out"


def prove_absence(
    store: QuadStore, reader: Reader, subject: Subject, name: str | None, *, old_note: str, new_note: str
) -> AbsenceProof:
    """Return the proof that nothing of a kind was recorded between two checkpoints of a store's log.

    Raises `InvalidInput` where something was, where it can no longer be told, and for checkpoints in the wrong order or of two
    logs; `IntegrityError` where one of them does not fit the log.
    """
    _check_asked(subject, name)
    old, new = claimed_checkpoint(old_note), claimed_checkpoint(new_note)
    if old.origin != new.origin or old.size > new.size:
        raise InvalidInput(
            f"the checkpoints are of {old.origin!r} at {old.size} lines and of {new.origin!r} at {new.size}: give the "
            "older and the newer one of one log"
        )
    lines = store.log.lines()
    tree = log_tree(lines, (old, new))
    between = lines[old.size : new.size]
    opener = _Opener(reader, lines[: old.size], tree, with_facts=subject in WITH_FACTS)
    proof = AbsenceProof(
        origin=new.origin,
        hashes=tuple(tree.edge(old.size)),
        checkpoint=new_note,
        since=old_note,
        subject=subject,
        name=name,
        old_size=old.size,
        new_size=new.size,
        lines=tuple(between),
        opened=tuple(opener.opened(between)) if subject in OF_TURNS else (),
        entries=_entries(store, between) if subject == "read" else {},
    )
    try:
        proof.check(old, new)
    except NotAbsent as present:
        raise InvalidInput(f"{present}; there is nothing to prove") from present
    except IntegrityError as wrong:
        raise IntegrityError(
            f"the store does not fit its log, so nothing can be proven: {wrong}; `trails verify` names what was altered"
        ) from wrong
    return proof


def _check_asked(subject: Subject, name: str | None) -> None:
    if subject not in get_args(Subject):
        raise InvalidInput(f"{subject!r} cannot be proven absent; say one of {', '.join(get_args(Subject))}")
    if name is not None:
        validation.text(name, f"the {subject} that is absent")
    if trouble := name_trouble(subject, name):
        raise InvalidInput(f"say what is absent: {trouble}")


def _entries(store: QuadStore, lines: Sequence[str]) -> dict[str, str]:
    """Return what the lines of entries of registers cover, by IRI."""
    entries: dict[str, str] = {}
    for line in lines:
        leaf, _ = leaves.parse_leaf(line)
        if leaf.kind != "register":
            continue
        own = [quad for quad in about(store, leaf.session_iri) if subject_of(quad) == leaf.session_iri]
        if leaves.row_digest(own) != leaf.digest:
            raise InvalidInput(
                f"the entry {leaf.session_iri} of a register is not what was logged first: something was taken out of it, "
                f"and whether it is a read can no longer be shown; {_EARLIER}"
            )
        entries[leaf.session_iri] = leaves.row_text(own)
    return entries


class _Batch(NamedTuple):
    """Turns of a session to be opened: the place of their line, the first index that is new, and where that is shown."""

    place: int
    start: int
    end: int
    previous: str
    before: EarlierTurns | None


class _Opener:
    """Opens the turns that lines of a log are the heads of."""

    def __init__(self, reader: Reader, earlier: Sequence[str], tree: HashTree, *, with_facts: bool) -> None:
        self._reader, self._tree, self._with_facts = reader, tree, with_facts
        self._earlier = earlier
        self._heads = {
            leaf.digest: place
            for place, leaf in enumerate(turns_leaf(line) if line.startswith("turns ") else None for line in earlier)
            if leaf is not None
        }
        self._logs = log_history.logs_by_session(earlier)
        self._known = {digests.GENESIS}
        self._digests: dict[str, list[str]] = {}
        self._chains: dict[str, tuple[SessionRecord, ...]] = {}

    def opened(self, lines: Sequence[str]) -> list[OpenedTurns]:
        """Return the turns of each line in order, but of those whose head was in the log before it."""
        batches: list[tuple[str, _Batch]] = []
        for place, line in enumerate(lines, len(self._earlier)):
            if line.startswith("turns "):
                leaf = turns_leaf(line)
                if leaf.digest not in self._known:
                    session_id = iris.session_id(leaf.session_iri)
                    batches.append((session_id, self._batch(session_id, place, leaf.count)))
        made: list[OpenedTurns] = []
        batches.sort(key=lambda each: each[0])  # stable: each session's stay in order, and it is read once
        for session_id, group in groupby(batches, key=lambda each: each[0]):
            made += self._read(session_id, [batch for _, batch in group])
        return sorted(made, key=lambda each: each.place)

    def _batch(self, session_id: str, place: int, count: int) -> _Batch:
        """Return which turns up to a count are new, and take note of them."""
        found = self._transcript(session_id)
        if len(found) < count:
            raise InvalidInput(
                f"session {session_id!r} has {len(found)} turns, and line {place} of the log is of {count}: what was recorded "
                f"with those that are gone can no longer be shown; {_EARLIER}"
            )
        start = count
        while start and found[start - 1] not in self._known and found[start - 1] not in self._heads:
            start -= 1
        start, before = self._inherited(session_id, start, count)
        previous = found[start - 1] if start else digests.GENESIS
        if before is None and previous not in self._known:
            before = self._before(self._heads[previous])
        self._known.update(found[max(start - 1, 0) : count])
        return _Batch(place, start, count, previous, before)

    def _transcript(self, session_id: str) -> list[str]:
        """Return the digests of a session's transcript, by index."""
        if session_id not in self._digests:
            try:
                chain = self._reader.lineage(session_id)
            except SessionNotFound as gone:
                raise InvalidInput(
                    f"session {session_id!r} was deleted, and the log has turns of it between the checkpoints: what they held "
                    f"can no longer be shown; {_EARLIER}"
                ) from gone
            self._chains[session_id] = chain
            runs = lineage.segments(chain)
            self._digests[session_id] = [digest for run in runs for _, digest in self._reader.digests(run)]
        return self._digests[session_id]

    def _inherited(self, session_id: str, start: int, count: int) -> tuple[int, EarlierTurns | None]:
        """Return from where on turns are new, given that a fork may begin between two heads of its ancestor."""
        for run in reversed(lineage.segments(self._chains[session_id])):
            if run.end is None or not start < run.end <= count or run.record.id not in self._logs:
                continue
            for turns, _, place in self._logs[run.record.id].heads:
                if turns >= run.end:
                    after = self._reader.of_quads.own_turns(lineage.Segment(run.record, run.end, turns))
                    links = [digests_of(each) for each in self._reader.sealed(after)]
                    return run.end, self._before(place).model_copy(update={"links": tuple(links)})
        return start, None

    def _before(self, place: int) -> EarlierTurns:
        hashes = tuple(self._tree.inclusion(place, len(self._earlier)))
        return EarlierTurns(leaf=self._earlier[place], leaf_index=place, hashes=hashes, links=())

    def _read(self, session_id: str, batches: Sequence[_Batch]) -> list[OpenedTurns]:
        first, end = min(batch.start for batch in batches), max(batch.end for batch in batches)
        chain, reader = self._chains[session_id], self._reader.of_quads
        if first >= chain[0].starts_at:
            turns = reader.own_turns(lineage.Segment(chain[0], first, end))
        else:
            turns = reader.turns(chain, end)[first:]
        sealed = self._reader.sealed(turns)
        for each in sealed:
            self._check_whole(session_id, each)
        covered = [digests_of(each) for each in sealed]
        facts = [digests.facts_json(each.turn.facts, each.salt) for each in sealed] if self._with_facts else []
        return [
            OpenedTurns(
                place=batch.place,
                previous=batch.previous,
                before=batch.before,
                turns=tuple(covered[batch.start - first : batch.end - first]),
                facts=tuple(facts[batch.start - first : batch.end - first]),
            )
            for batch in batches
        ]

    def _check_whole(self, session_id: str, sealed: SealedTurn) -> None:
        turn = sealed.turn
        is_unnamed = iris.is_unnamed(turn.author_iri) or turn.role == iris.UNNAMED
        if is_unnamed or (self._with_facts and turn.facts.withheld):
            raise InvalidInput(
                f"something was taken out of turn {turn.index} of session {session_id!r} that its digest covers in clear, "
                f"so what was recorded with it can no longer be shown; {_EARLIER}"
            )
