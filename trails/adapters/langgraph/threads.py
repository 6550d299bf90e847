"""The sessions of one thread: its checkpoints in memory, brought up to what is stored, and what is added to them.

Each namespace of a thread has a session, and each invocation from an older checkpoint a fork of it. A checkpoint's records
stand in the session that owns it, so the checkpoints of a thread are those of all its sessions together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol

from trails.adapters.langgraph.mending import is_damaged, mended, whole_header, whole_metadata
from trails.adapters.langgraph.messages import (
    REDACTED,
    StoredMessage,
    message_of,
    payload_named,
    stored_message,
)
from trails.adapters.langgraph.records import (
    JSON,
    MESSAGES,
    ROLE,
    USUAL_CHANNEL,
    Blob,
    Entry,
    MessageList,
    Values,
    Write,
    changed_values,
    checkpoint_of,
    keep_writes,
    plain_copy,
    writes_of,
)
from trails.errors import InvalidInput, SessionNotFound
from trails.history.lookup.summaries import sessions_with
from trails.model.iris import UNNAMED
from trails.model.values import MAX_FORK_DEPTH, SessionRecord, Turn
from trails.session.repository import Repository
from trails.session.session import Session

THREADS: Final = {"langgraph": "thread"}
"""What the metadata of all sessions of threads says."""
THREAD: Final = "langgraph_thread"
"""The key of a session's metadata that names its thread."""
NAMESPACE: Final = "langgraph_namespace"
"""The key of a session's metadata that names its checkpoint namespace."""
_GONE: Final[dict[str, Any]] = {"id": "", "parent": None, "depth": 0, "channels": {}}
"""The record of a checkpoint that was redacted."""


class Moment(NamedTuple):
    """What stands for all that is committed in a store."""

    number: int
    removals: object
    """What changes when something stored is removed or redacted."""

    @classmethod
    def of(cls, store: Repository) -> Moment:
        """Return the moment that a store is at."""
        return cls(store.store.number, store.store.token)

    def follows(self, earlier: Moment) -> bool:
        """Tell whether one commit, which removed nothing, lies between an earlier moment and this one."""
        return self == earlier._replace(number=earlier.number + 1)


class Lane:
    """One session of a thread, with the checkpoints that it owns."""

    def __init__(self, session: Session) -> None:
        """Take a session up; nothing of it is read yet."""
        self.session = session
        self.namespace = str(session.meta[NAMESPACE])
        self.entries: dict[int, Entry] = {}
        """The checkpoints that were read, by the index of their record; inherited ones too."""
        self.last: Entry | None = None
        """The last checkpoint in the transcript."""
        self.messages: dict[int, StoredMessage] = {}
        """The messages that were read or appended, by the index of their turn."""
        self._places: dict[str, list[int]] = {}
        """The indices of these by the messages' ids."""
        self.copies: dict[str, int] = {}
        """The indices of copied messages, by the IRI of the turn that was copied."""
        self.end = 0
        """Up to where its records were read."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    def message(self, index: int) -> StoredMessage:
        """Return the message that the turn at an index keeps."""
        return self.messages.get(index) or self.keep_message(self.session[index])

    def keep_message(self, turn: Turn) -> StoredMessage:
        """Read the message that a turn keeps, and hold it in memory."""
        return self._hold(turn.index, stored_message(turn, self.session.payload))

    def _hold(self, index: int, kept: StoredMessage) -> StoredMessage:
        self.messages[index] = kept
        if kept.id is not None:
            self._places.setdefault(kept.id, []).append(index)
        return kept

    def places(self, message_id: str) -> Sequence[int]:
        """Return the indices of the turns in memory that keep a message with an id."""
        return self._places.get(message_id, ())

    def share(self, other: Lane, end: int) -> None:
        """Let a fork hold what this lane holds below an index."""
        other.entries = {index: each for index, each in self.entries.items() if index < end}
        other.copies = {iri: index for iri, index in self.copies.items() if index < end}
        for index, kept in self.messages.items():
            if index < end:
                other._hold(index, kept)

    def entry(self, index: int) -> Entry:
        """Return the checkpoint whose record the turn at an index holds; one without channels if that was redacted."""
        entry = self.entries.get(index)
        if entry is None:
            turn = self.session[index]
            record = checkpoint_of(turn) or self._rebuilt(index)
            entry = self.entries[index] = Entry(record, index, self.namespace, turn.session_id)
        return entry

    def _rebuilt(self, index: int) -> dict[str, Any]:
        """Return a record in the place of one that was redacted: the one before it, with the messages that came since."""
        new: list[int] = []
        for at in range(index - 1, -1, -1):
            turn = self.session[at]
            if turn.role != ROLE:
                new.insert(0, at)
            elif checkpoint_of(turn) is not None:
                before = self.values(self.entry(at))
                lists = {name: value.indices for name, value in before.items() if isinstance(value, MessageList)}
                lists = lists or {USUAL_CHANNEL: ()}
                added = {name: {"keep": len(held), "messages": [*new]} for name, held in lists.items() if new}
                return _GONE | {"base": at, "channels": added}
        return _GONE | {"channels": {USUAL_CHANNEL: {"messages": new}} if new else {}}

    def values(self, entry: Entry) -> Values:
        """Return what the channels of a checkpoint hold."""
        steps = [entry]
        while steps[-1].values is None and "base" in steps[-1].record:
            steps.append(self.entry(steps[-1].record["base"]))
        values: Values = {}
        if (known := steps[-1].values) is not None:
            values = known
            steps.pop()
        for step in reversed(steps):
            values = changed_values(step, values)
        if entry is self.last:
            entry.values = values
        return values

    def load(self, blob: Blob, serde: SerializerProtocol) -> Any:
        """Return a value that a record of this session holds; raise `LookupError` if it was redacted."""
        if blob.kind == JSON:
            return plain_copy(blob.plain)
        if blob.kind == MESSAGES:
            return [message_of(record) for record in blob.plain]
        data = self.data(blob)
        return UNNAMED if data == REDACTED else serde.loads_typed((blob.kind, data))

    def data(self, blob: Blob) -> bytes:
        """Return the bytes of a value; raise `LookupError` if they were redacted."""
        if blob.data is not None:
            return blob.data
        payload = payload_named(self.session[blob.at], blob.name)
        if payload is None:
            raise LookupError(blob.name)
        data: bytes = self.session.payload(payload)
        return data

    def about(self, entry: Entry, name: str, serde: SerializerProtocol) -> Any:
        """Return the header or the metadata of a checkpoint."""
        said, value = entry.record.get(name, {}), None
        if "json" in said:
            value = plain_copy(said["json"])
        elif "payload" in said:
            with suppress(LookupError):  # redacted
                value = self.load(Blob(entry.index, said["payload"], said["kind"]), serde)
        return whole_header(value) if name == "header" else whole_metadata(value)


class Thread:
    """The checkpoints of one thread, of all its namespaces."""

    def __init__(self, store: Repository, thread_id: str, options: Mapping[str, Any]) -> None:
        """Take a thread up; `options` are those of `Repository.create` for its sessions."""
        self.store = store
        self.thread_id = thread_id
        self.options = options
        self.lock = RLock()
        self.lanes: dict[str, Lane] = {}
        self.checkpoints: dict[str, dict[str, Entry]] = {}
        """By namespace and id."""
        self._orphans: dict[tuple[str, str], list[Write]] = {}
        """Writes on checkpoints that are not stored yet, by namespace and id."""
        self._seen: Moment | None = None
        self._is_whole = False
        """Whether all checkpoints were read; else the last ones of each session, with what was written on them."""

    # --- what is stored

    def sync(self, moment: Moment) -> None:
        """Bring in what others committed, unless that was done at this moment of the store."""
        if self._seen == moment:
            return
        if self._seen is not None and self._seen.removals != moment.removals:
            self.forget()  # texts may have been redacted
        ids = sessions_with(self.store.workspace, {THREAD: self.thread_id})
        if self.lanes.keys() - ids:
            self.forget()
        new = self.store.reader.records(sorted(ids - self.lanes.keys())).values()
        by_age = sorted(new, key=lambda record: str(record.created))
        for session_id in (*self.lanes, *(record.id for record in by_age)):
            self._bring_in(session_id)
        self._seen = moment

    def note_commit(self, moment: Moment) -> None:
        """Take the moment of the store after a commit of one's own for one that was seen, if nobody else committed meanwhile."""
        if self._seen is not None and moment.follows(self._seen):
            self._seen = moment

    def forget(self) -> None:
        """Let go of all that was read."""
        self.lanes.clear()
        self.checkpoints.clear()
        self._orphans.clear()
        self._seen, self._is_whole = None, False

    def _bring_in(self, session_id: str) -> None:
        lane = self.lanes.get(session_id)
        try:
            if lane is None:
                lane = Lane(self.store.load(session_id, last=0))
                self.lanes[session_id] = lane
                if not self._is_whole:
                    self._read_end(lane)
                    return
                lane.end = lane.session.forked_at_index or 0
            else:
                lane.session.refresh()
        except SessionNotFound:  # deleted meanwhile
            return
        self._read(lane)

    def _read_end(self, lane: Lane) -> None:
        """Read the last checkpoint of a lane, and what was written on it or is not claimed by a checkpoint."""
        session, later = lane.session, list[Turn]()
        for index in range(len(session) - 1, -1, -1):
            turn = session[index]
            if turn.role != ROLE:
                continue
            if (record := checkpoint_of(turn)) is not None:
                if is_damaged(record):
                    self.read_all()
                    return
                self.add(lane, Entry(record, index, lane.namespace, turn.session_id))
                later += [session[at] for at in reversed(record.get("loose", ()))]
                break
            later.append(turn)
        for turn in reversed(later):
            self._read_turn(lane, turn)
        lane.end = len(session)
        if lane.last is not None and "scattered" in lane.last.record:
            self.read_all()

    def read_all(self) -> None:
        """Read all checkpoints, unless that was done."""
        if self._is_whole:
            return
        self._is_whole = True
        self.checkpoints.clear()
        self._orphans.clear()
        for lane in self.lanes.values():
            lane.entries.clear()
            lane.last, lane.end = None, lane.session.forked_at_index or 0
        for lane in self.lanes.values():
            self._read(lane)

    def _read(self, lane: Lane) -> None:
        """Read the records after those that were read."""
        for turn in lane.session.turns[lane.end :]:
            if turn.role == ROLE:
                self._read_turn(lane, turn)
        lane.end = len(lane.session)

    def _read_turn(self, lane: Lane, turn: Turn) -> None:
        if (record := checkpoint_of(turn)) is not None:
            if is_damaged(record):
                record = mended(record, lane.last)
            self.add(lane, Entry(record, turn.index, lane.namespace, turn.session_id))
        elif (writes := writes_of(turn)) is not None:
            self.add_writes(lane.namespace, *writes)

    def add(self, lane: Lane, entry: Entry) -> None:
        """Take in a checkpoint that is stored."""
        entries = self.checkpoints.setdefault(lane.namespace, {})
        if (earlier := entries.get(entry.id)) is not None:
            entry.writes = earlier.writes
        entries[entry.id] = lane.entries[entry.index] = entry
        if lane.last is not None:
            lane.last.let_go()
        lane.last = entry
        if orphans := self._orphans.pop((lane.namespace, entry.id), None):
            entry.add_writes(orphans)

    def add_writes(self, namespace: str, checkpoint_id: str, writes: Sequence[Write]) -> None:
        """Take in writes that are stored."""
        entry = self.checkpoints.get(namespace, {}).get(checkpoint_id)
        if entry is not None:
            entry.add_writes(writes)
        else:
            self._orphans.setdefault((namespace, checkpoint_id), []).extend(writes)

    def loose_writes(self, lane: Lane, checkpoint_id: str) -> dict[str, Any]:
        """Return what a new checkpoint's record says of writes that no checkpoint had claimed: where in its lane they are."""
        loose: set[int] = set()
        is_scattered = False
        for (namespace, wanted), writes in self._orphans.items():
            if namespace == lane.namespace:
                loose |= {write.value.at for write in writes if write.lane == lane.id}
                is_scattered |= wanted == checkpoint_id and any(write.lane != lane.id for write in writes)
        return ({"loose": sorted(loose)} if loose else {}) | ({"scattered": True} if is_scattered else {})

    def find(self, namespace: str, checkpoint_id: str | None) -> Entry | None:
        """Return a checkpoint, or without an id the newest one; None if there is none."""
        newest = self._newest(namespace)
        wanted = checkpoint_id or newest
        if wanted is None:
            return None
        entry = self.checkpoints.get(namespace, {}).get(wanted)
        if entry is None and not self._is_whole and newest is not None and wanted <= newest:
            self.read_all()
            entry = self.checkpoints.get(namespace, {}).get(wanted)
        return entry

    def _newest(self, namespace: str) -> str | None:
        """Return the greatest id of a namespace's checkpoints."""
        ends = [lane.last for lane in self.lanes.values() if lane.namespace == namespace]
        return max((entry.newest for entry in ends if entry is not None), default=None)

    def in_order(self) -> list[Entry]:
        """Return all checkpoints, each after its parent."""
        self.read_all()
        return [
            entry
            for lane in self.lanes.values()
            for _, entry in sorted(lane.entries.items())
            if entry.lane == lane.id and self.checkpoints[lane.namespace].get(entry.id) is entry
        ]

    def writes_on(self, namespace: str, checkpoint_id: str) -> dict[tuple[str, int], Write]:
        """Return what was written on top of a checkpoint, which may not be stored yet."""
        entry = self.find(namespace, checkpoint_id)
        if entry is not None:
            return dict(entry.writes)
        kept: dict[tuple[str, int], Write] = {}
        keep_writes(kept, self._orphans.get((namespace, checkpoint_id), ()))
        return kept

    # --- where something goes

    def lane_after(self, namespace: str, parent: str | None) -> Lane:
        """Return the lane whose session goes on from a checkpoint: the one that ends with it, or a fork.

        A checkpoint without a parent that is stored goes to the end of the namespace's first session.
        """
        entry = self.find(namespace, parent) if parent else None
        if entry is None:
            return self._first(namespace)
        lane = self.lanes[entry.lane]
        if lane.last is entry:
            return lane
        return self._fork(lane, entry)

    def lane_of(self, namespace: str, checkpoint_id: str) -> Lane:
        """Return the lane that writes on a checkpoint go to: for one that is not stored yet, that of the newest one."""
        entry = self.find(namespace, checkpoint_id) or self.find(namespace, None)
        return self._first(namespace) if entry is None else self.lanes[entry.lane]

    def _first(self, namespace: str) -> Lane:
        lane = next((each for each in self.lanes.values() if each.namespace == namespace), None)
        return lane or Lane(self.new_session(namespace))

    def new_session(self, namespace: str) -> Session:
        """Return a new session for a namespace, with the thread's own id where that is free; it is not stored."""
        about = dict(self.options) | {"meta": self._meta(namespace)}
        if not namespace:
            try:
                return self.store.create(id=self.thread_id, **about)
            except InvalidInput:  # no id of a session, or one that is or was in use
                pass
        return self.store.create(**about)

    def _meta(self, namespace: str) -> dict[str, str]:
        return THREADS | {THREAD: self.thread_id, NAMESPACE: namespace}

    def _fork(self, lane: Lane, entry: Entry) -> Lane:
        if lane.session.worktree.depth >= MAX_FORK_DEPTH:
            return Lane(self.new_session(lane.namespace))
        fork = Lane(lane.session.fork(entry.index + 1, meta=self._meta(lane.namespace)))
        fork.last = entry
        lane.share(fork, entry.index + 1)
        return fork

    def arrive(self, lane: Lane) -> None:
        """Take in the lane to which something was just stored."""
        self.lanes[lane.id] = lane
        lane.end = len(lane.session)


def session_records(store: Repository, meta: Mapping[str, Any]) -> Iterator[SessionRecord]:
    """Yield the records of the sessions that have some metadata, the newest first."""
    cursor: str | None = None
    while True:
        page = store.list(meta=meta, limit=1000, cursor=cursor)
        yield from page
        if page.cursor is None:
            return
        cursor = page.cursor
