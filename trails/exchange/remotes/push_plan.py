"""Plan a push by reading both stores, before anything is written, and prove where a session that was moved came from.

A proof of origin is the newest line of the source's log that tells of the session's turns, its place, and the way from there
to the root of the Merkle tree over the log as it was (RFC 6962). Whoever has a checkpoint that the source signed can hold it
against that: the line names the head, and the head stands for the whole transcript. None of it is needed to read the session.

Two transcripts are compared by their digests. One that is the beginning of the other goes on there; where both went on, the
tail that comes has a fork of its own, whose name follows from the session and from the first turn that differs. So the same
tail has the same name whoever pushes it, and however often.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

from trails.errors import ForkDepthExceeded, IntegrityError, InvalidInput
from trails.exchange.rdf_files import transcript_digests
from trails.history import encryption
from trails.history.lookup.names import Name
from trails.history.records import activities
from trails.integrity import leaves
from trails.integrity.merkle import HashTree
from trails.integrity.signed_notes import open_checkpoint
from trails.integrity.verifier.merkle_checks import leaf_hash, verify_inclusion
from trails.model import validation
from trails.model.values import MAX_FORK_DEPTH, SessionRecord, Value
from trails.rdf.activity_records import MOVED, Import
from trails.session import Repository
from trails.session.repository import opened

Outcome = Literal["created", "forwarded", "forked", "unchanged", "behind", "deleted", "refused"]
"""`created`: it was not there. `forwarded`: it was there, and got the turns that it lacked. `forked`: both had gone on, and
what came stands in a fork. `unchanged`: all was there. `behind`: all was there, and more. `deleted`: it was deleted there, and
`restore` was not said. `refused`: see what is said of it."""
WRITES: Final = frozenset({"created", "forwarded", "forked"})
_NAME: Final = 8
"""Hex digits of a digest in the name of a tail."""


class SourceLog:
    """The log of a store from which sessions go, as it is now."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._places: dict[str, int] = {}
        for number, line in enumerate(lines):
            kind, iri, _ = line.split(" ", 2)
            if kind in ("turns", "create", "fork"):
                self._places[iri] = number
        self._tree: HashTree | None = None

    def evidence(self, session_iri: str) -> str | None:
        """Return, as JSON, where the newest line about a session's turns stands; None where no line tells of it."""
        number = self._places.get(session_iri)
        if number is None:
            return None
        self._tree = self._tree or HashTree(leaf_hash(line.encode()) for line in self._lines)
        place = {"leaf": self._lines[number], "number": number, "size": len(self._lines)}
        way = {"root": self._tree.root().hex(), "hashes": [each.hex() for each in self._tree.inclusion(number)]}
        return json.dumps(place | way, separators=(",", ":"))


class Origin(Value):
    """That a session, or more of one, came from another store, and what that store's log said of it."""

    session_id: str
    by_iri: str
    """Who pushed or pulled it."""
    time: datetime
    how: str
    """`push` or `pull`."""
    leaf: str
    """The line of the source's log."""
    number: int
    """Its place, from 0."""
    size: int
    """How many lines that log had."""
    root: str
    """The root of the Merkle tree over them, in hex."""
    turns: int
    """How many turns the transcript had by that line, 0 where it tells of none."""
    head: str | None
    """The digest of the last of them."""
    holds: bool
    """Whether the line is in the log with that root, and its head is in the transcript as it stands here."""
    checked: bool = False
    """Whether a checkpoint of the source, signed by a key that was given, has that root."""


def read_origins(
    store: Repository, session: Name, *, checkpoint: str | None = None, verifiers: Iterable[str] = ()
) -> list[Origin]:
    """Return what is known of where a session was pushed or pulled from, oldest first; none for one that was made here.

    With a `checkpoint` that the source signed when its log had as many lines, and its public keys in `verifiers`, what holds
    against it is `checked`.

    Raises `SessionNotFound`; `IntegrityError` for a checkpoint that none of the keys signed.

    >>> import trails
    >>> from trails.exchange.remotes.push_plan import read_origins
    >>> with trails.open(":memory:") as laptop, trails.open(":memory:") as team:
    ...     plan = laptop.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
    ...     _ = trails.push(laptop, "plan", team, by="alice")
    ...     [(each.how, each.by_iri, each.turns, each.holds) for each in read_origins(team, "plan")]
    [('push', 'urn:trails:principal:alice', 1, True)]
    """
    at = opened(store, "proof of origin")
    session_id = at.resolve(session)
    kept = None if checkpoint is None else open_checkpoint(checkpoint, verifiers)
    digests = transcript_digests(at, session_id)
    found = []
    for act in activities.read_activities(at.store, session_id):
        if isinstance(act, Import) and act.importer in MOVED and act.origin is not None:
            origin = _origin(act, act.origin, digests)
            same = kept is not None and (kept.size, kept.root.hex()) == (origin.size, origin.root)
            found.append(origin.model_copy(update={"checked": same and origin.holds}))
    return found


def _origin(act: Import, proof: str, digests: Sequence[str]) -> Origin:
    try:
        plain: dict[str, Any] = json.loads(proof)
        leaf, _ = leaves.parse_leaf(plain["leaf"])
        hashes = [bytes.fromhex(each) for each in plain["hashes"]]
        root = bytes.fromhex(plain["root"])
        number, size = int(plain["number"]), int(plain["size"])
    except (ValueError, KeyError, TypeError) as error:
        what = f"the proof of origin of session {act.session_id!r} cannot be read ({error})"
        raise IntegrityError(f"{what}: the store was altered; restore it from a backup") from error
    is_turns = leaf.kind == "turns"
    holds = not is_turns or (0 < leaf.count <= len(digests) and digests[leaf.count - 1] == leaf.digest)
    try:
        verify_inclusion(leaf_hash(plain["leaf"].encode()), number, size, hashes, root)
    except IntegrityError:
        holds = False
    made = {"session_id": act.session_id, "by_iri": act.by_iri, "time": act.time, "how": act.importer}
    said = {"leaf": plain["leaf"], "number": number, "size": size, "root": root.hex()}
    head = {"turns": leaf.count, "head": leaf.digest} if is_turns else {"turns": 0, "head": None}
    return Origin.model_validate({**made, **said, **head, "holds": holds})


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one session that goes to another store."""

    record: SessionRecord
    """The session where it comes from."""
    outcome: Outcome
    there: str
    """The id of the session that has its turns at the other side."""
    parent: str | None
    """The id there of the session that it inherits from."""
    start: int
    """How many of its turns are there already."""
    turns: int
    """How many it has."""
    head: str | None
    """The digest of the last one."""
    is_asked: bool
    """Whether it was asked for, and does not only come as an ancestor."""
    said: tuple[str, ...] = ()

    @property
    def is_tail(self) -> bool:
        """Whether its turns stand in a fork of the session there."""
        return self.there != self.record.id


def tail_name(session_id: str, digest: str) -> str:
    """Return the id of the fork that gets a tail, given the session and the digest of the first turn that differs.

    >>> tail_name("plan", "0123456789abcdef")
    'plan.01234567'
    """
    return f"{session_id[: validation.MAX_ID - _NAME - 1]}.{digest[:_NAME]}"


def common_length(mine: Sequence[str], theirs: Sequence[str]) -> int:
    """Return how many turns two transcripts share from the start.

    >>> common_length(["a", "b", "c"], ["a", "b", "d"]), common_length([], ["a"])
    (2, 0)
    """
    return next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))


class PushPlan:
    """What becomes of sessions of one store, and of the ancestors that they need, at another."""

    def __init__(self, source: Repository, target: Repository, *, restore: bool) -> None:
        self._source = source
        self._target = target
        self._restore = restore
        self._steps: dict[str, Step] = {}
        self._known: dict[str, list[str]] = {}
        """The transcripts that the target will have, by session."""
        self._parents: dict[str, str | None] = {}
        """What sessions that it does not have yet will be forks of."""

    def steps(self, wanted: Iterable[str]) -> list[Step]:
        """Return a step for each session and each ancestor that it needs, ancestors first.

        Raises as `Repository.load` does where a session is missing at the source or its transcript is not whole.
        """
        asked = list(dict.fromkeys(wanted))
        needed: dict[str, tuple[SessionRecord, int]] = {}
        for session_id in asked:
            below: int | None = None
            for record in self._source.reader.lineage(session_id):
                before = needed.get(record.id, (record, 0))[1]
                needed[record.id] = record, max(before, 0 if below is None else below)
                below = record.starts_at if below is None else min(below, record.starts_at)
        depth = {each: len(self._source.reader.lineage(each)) for each in needed}
        for session_id in sorted(needed, key=lambda each: (depth[each], each)):
            record, need = needed[session_id]
            self._steps[session_id] = self._step(record, need, is_asked=session_id in asked)
        return list(self._steps.values())

    def _step(self, record: SessionRecord, need: int, *, is_asked: bool) -> Step:
        mine = transcript_digests(self._source, record.id)
        parent = None if record.parent_session_id is None else self._parent(record, record.parent_session_id, mine)
        above = None if parent is None else self._steps.get(record.parent_session_id or "")
        made = Step(record, "unchanged", record.id, parent, len(mine), len(mine), (mine or [None])[-1], is_asked)  # type: ignore[list-item] # None where there is no turn
        if above is not None and above.outcome in ("deleted", "refused"):
            why = f"its parent {above.record.id!r} is not there (a deleted one comes back with restore)"
            return replace(made, outcome="refused", said=(why,))
        if (name := self._home_of_tail(record, mine)) is not None:
            return replace(made, outcome="unchanged", there=name)
        return self._compared(made, mine, len(mine) if is_asked else need)

    def _parent(self, record: SessionRecord, parent: str, mine: Sequence[str]) -> str:
        """Return which session there has the turns that a fork inherits: the parent, or a fork that got a tail of it."""
        name = parent
        while name in self._known or name in self._target:
            shared = common_length(mine, self._transcript(name))
            if shared >= record.starts_at:
                return name
            name = tail_name(name, mine[shared])
        return self._steps[parent].there

    def _home_of_tail(self, record: SessionRecord, mine: Sequence[str]) -> str | None:
        """Return the session whose tail a session is by its name, where the target has all of that in it."""
        parent, at = record.parent_session_id, record.starts_at
        if parent is None or len(mine) <= at or record.id != tail_name(parent, mine[at]) or record.id in self._target:
            return None
        if parent not in self._target:
            return None
        return parent if self._transcript(parent)[: len(mine)] == list(mine) else None

    def _compared(self, made: Step, mine: list[str], need: int) -> Step:
        there, parent = made.there, made.parent
        while True:
            if self._target.reader.is_deleted(there) and not self._restore:
                return replace(made, outcome="deleted", there=there, parent=parent)
            if there not in self._target and there not in self._known:
                return self._arriving(made, there, parent, mine)
            theirs = self._transcript(there)
            shared = common_length(mine, theirs)
            if shared == len(mine):
                is_behind = len(theirs) > len(mine)
                return replace(made, outcome="behind" if is_behind else "unchanged", there=there, parent=parent)
            if shared >= need:
                # an ancestor, and what is needed is there
                return replace(made, outcome="unchanged", there=there, parent=parent)
            if shared == len(theirs):
                self._known[there] = mine
                return replace(made, outcome="forwarded", there=there, parent=parent, start=shared)
            there, parent = tail_name(there, mine[shared]), there
            made = replace(made, start=shared)

    def _arriving(self, made: Step, there: str, parent: str | None, mine: list[str]) -> Step:
        if there != made.record.id:
            encryption.refuse_encrypted([made.record], *encryption.NO_COPIES)
            self._known[there] = mine
            reader = self._source.reader
            turns = reader.as_stored.turns(reader.lineage(made.record.id))[made.start :]
            if len({turn.branch for turn in turns}) != 1:  # a fork's own turns are of one branch
                why = f"it stands as {there!r} with its whole transcript: its turns are of several branches"
                return replace(made, outcome="forked", there=there, parent=None, start=0, said=(why,))
            self._check_depth(there, parent)
            return replace(made, outcome="forked", there=there, parent=parent)
        if parent is not None:
            start = made.record.starts_at
            if self._transcript(parent)[:start] != mine[:start]:
                why = f"its parent {parent!r} has other turns there below index {start}"
                return replace(made, outcome="refused", said=(why,))
            self._check_depth(there, parent)
        self._known[there] = mine
        return replace(made, outcome="created", start=made.record.starts_at)

    def _transcript(self, session_id: str) -> list[str]:
        if session_id not in self._known:
            self._known[session_id] = transcript_digests(self._target, session_id)
        return self._known[session_id]

    def _check_depth(self, session_id: str, parent: str | None) -> None:
        """Take note of whose fork a session will be; raise `ForkDepthExceeded` where that has too many ancestors then."""
        self._parents[session_id] = parent
        depth, name = 0, session_id
        while (above := self._parents.get(name)) is not None:
            depth, name = depth + 1, above
        if name in self._target:
            depth += len(self._target.reader.lineage(name)) - 1
        if depth > MAX_FORK_DEPTH:
            what = f"session {session_id!r} would have {depth} ancestors at {self._target.store.location}"
            how = "flatten it first (`trails flatten`), and push the flat session"
            raise ForkDepthExceeded(f"{what}, and {MAX_FORK_DEPTH} are allowed; {how}")


def refuse_same(source: Repository, target: Repository) -> None:
    """Raise `InvalidInput` where two stores are one."""
    here, there = source.store.location, target.store.location
    if source.store is target.store or (here != ":memory:" and os.path.realpath(here) == os.path.realpath(there)):
        raise InvalidInput(f"{there} is the store itself; name another one")
