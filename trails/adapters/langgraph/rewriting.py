"""Write the sessions of a thread anew without some of its checkpoints, or for another thread.

What is left of a thread is written first and the old sessions are deleted then: if the process is killed in between, both are
there, and say the same. Whoever does the same again finishes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from langgraph.checkpoint.serde.base import SerializerProtocol

from trails.adapters.langgraph.additions import Addition, append_turn, append_writes
from trails.adapters.langgraph.messages import turn_again
from trails.adapters.langgraph.records import HERE, IN_RECORD, About, Blob, Entry, MessageList, Value, Write
from trails.adapters.langgraph.threads import THREAD, Lane, Thread, session_records
from trails.errors import SessionNotFound
from trails.session.repository import Repository


def delete_sessions(store: Repository, thread: Thread) -> None:
    """Delete all sessions of a thread."""
    _delete(store, [record.id for record in session_records(store, {THREAD: thread.thread_id})])
    thread.forget()


def _delete(store: Repository, session_ids: Sequence[str]) -> None:
    for session_id in session_ids:
        with suppress(SessionNotFound):  # it went with its parent
            store.delete(session_id, children="cascade")


def rewrite(store: Repository, thread: Thread, kept: Sequence[Entry]) -> None:
    """Store a thread with some of its checkpoints alone."""
    old = list(thread.lanes)
    copied = Thread(store, thread.thread_id, thread.options)
    _write(store, thread, kept, copied)
    _delete(store, old)
    thread.forget()


def copy(store: Repository, source: Thread, target: Thread) -> None:
    """Store all checkpoints of a thread in another one."""
    _write(store, source, source.in_order(), target)


def latest(thread: Thread, serde: SerializerProtocol) -> list[Entry]:
    """Return the newest checkpoint of each namespace, and those before it that its delta channels are worked out from."""
    kept: list[Entry] = []
    thread.read_all()
    for namespace in list(thread.checkpoints):
        entry = thread.find(namespace, None)
        wanted: set[str] | None = None
        while entry is not None and entry not in kept:
            kept.append(entry)
            lane = thread.lanes[entry.lane]
            values = lane.values(entry)
            if wanted is None:
                header, metadata = (lane.about(entry, name, serde) for name in ("header", "metadata"))
                deltas = metadata.get("counters_since_delta_snapshot", {}).keys()
                wanted = {name for name in header["channel_versions"] if name in deltas and name not in values}
            else:
                wanted -= values.keys()
            entry = thread.find(namespace, entry.parent) if wanted and entry.parent else None
    return sorted(kept, key=lambda entry: entry.id)


def _write(store: Repository, source: Thread, entries: Sequence[Entry], target: Thread) -> None:
    """Append checkpoints of a thread to new sessions of another one, in one commit."""
    with store.commit() as batch:
        for entry in entries:
            lane = target.lane_after(entry.namespace, entry.parent)
            if lane.id not in target.lanes:
                batch.add(lane.session)
                target.lanes[lane.id] = lane
            copied = _append(source.lanes[entry.lane], entry, lane)
            target.add(lane, copied)
            for writes in _by_task(source, entry):
                append_writes(lane, entry.id, writes)
    target.forget()


def _append(source: Lane, entry: Entry, lane: Lane) -> Entry:
    addition = Addition(lane, None, is_native=True)  # type: ignore[arg-type] # nothing is serialized
    values: dict[str, Value] = {}
    for name, value in source.values(entry).items():
        if isinstance(value, MessageList):
            values[name] = MessageList(tuple(_copied(source, index, lane) for index in value.indices))
        else:
            with suppress(LookupError):  # redacted
                values[name] = _held(source, value)
    record = {name: entry.record[name] for name in ("id", "parent", "header", "metadata")}
    parts = [
        Blob(entry.index, said["payload"], said["kind"])
        for said in (record["header"], record["metadata"])
        if "payload" in said
    ]
    return addition.finish(About(record, tuple(_held(source, part) for part in parts)), values, {})


def _held(source: Lane, blob: Blob) -> Blob:
    """Return a value with its bytes, to be stored in another turn."""
    return blob._replace(at=HERE, data=None if blob.kind in IN_RECORD else source.data(blob))


def _copied(source: Lane, index: int, lane: Lane) -> int:
    """Return the index that a message of a session has in another one, to which it is appended if it is not there."""
    turn = source.session[index]
    origin = turn.iri
    known = lane.copies.get(origin)
    if known is None:
        made = append_turn(lane.session, turn_again(turn, source.session.payload), turn.source_ids)
        lane.keep_message(made)
        known = lane.copies[origin] = made.index
    return known


def _by_task(source: Thread, entry: Entry) -> list[list[Write]]:
    tasks: dict[tuple[str, str], list[Write]] = {}
    for write in entry.ordered_writes:
        with suppress(LookupError):  # redacted
            held = write._replace(value=_held(source.lanes[write.lane], write.value))
            tasks.setdefault((write.path, write.task_id), []).append(held)
    return list(tasks.values())
