"""What the turns of a thread say of its checkpoints: records in their metadata, and the channel values that these give.

A record holds the channels that changed since the checkpoint before it in its session (`base`), and every so often all of
them. A list of messages is the indices of their turns; any other value is the bytes of the user's serializer.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from trails.adapters.langgraph.messages import KEY, is_plain

ROLE: Final = "info"
"""The role of the turns that hold records: no model is shown them."""
STEPS_BETWEEN_WHOLE: Final = 16
"""How many records at least build on each other, before one that names all channels."""


class Blob(NamedTuple):
    """A channel's value as the serializer wrote it, in the record at an index of the transcript."""

    at: int
    kind: str
    data: bytes


class MessageList(NamedTuple):
    """A channel's value as the indices of the turns that are its messages."""

    indices: tuple[int, ...]


Value = Blob | MessageList
Values = Mapping[str, Value]


class Write(NamedTuple):
    """A value that a task wrote to a channel: not yet in a checkpoint."""

    task_id: str
    position: int
    channel: str
    path: str
    kind: str
    data: bytes


class Entry:
    """A checkpoint: its record, and where in its session that stands."""

    __slots__ = ("depth", "id", "index", "lane", "namespace", "parent", "record", "values", "writes")

    def __init__(self, record: Mapping[str, Any], index: int, namespace: str, lane: str) -> None:
        """Take the record that the turn at an index holds; `lane` is the id of the session that owns it."""
        self.id: str = record["id"]
        self.parent: str | None = record["parent"]
        self.depth: int = record["depth"]
        """How many records this one builds on."""
        self.record = record
        self.index = index
        self.namespace = namespace
        self.lane = lane
        self.values: Values | None = None
        """Its channels, once they were worked out."""
        self.writes: dict[tuple[str, int], Write] = {}
        """What was written on top of it, by task and position."""

    def add_writes(self, writes: Sequence[Write]) -> None:
        """Take writes in: of those at one place the first counts, and the last of errors, interrupts and their kind."""
        keep_writes(self.writes, writes)

    @property
    def ordered_writes(self) -> list[Write]:
        """The writes in the order in which they are applied."""
        return sorted(self.writes.values(), key=lambda write: (write.path, write.task_id, write.position))


def keep_writes(kept: dict[tuple[str, int], Write], writes: Sequence[Write]) -> list[Write]:
    """Add writes to those that are kept, and return the ones that were new."""
    new = [write for write in writes if write.position < 0 or (write.task_id, write.position) not in kept]
    kept.update({(write.task_id, write.position): write for write in new})
    return new


# --- checkpoints


def packed(value: object, serde: SerializerProtocol) -> Any:
    """Return a value as JSON holds it: as it is, or with the serializer's bytes."""
    if is_plain(value):
        return {"json": value}
    kind, data = serde.dumps_typed(value)
    return {"kind": kind, "data": b64encode(data).decode()}


def unpacked(held: Mapping[str, Any], serde: SerializerProtocol) -> Any:
    """Return what `packed` was given."""
    return held["json"] if "json" in held else serde.loads_typed((held["kind"], b64decode(held["data"])))


def checkpoint_record(
    checkpoint: Checkpoint, metadata: CheckpointMetadata, parent: str | None, serde: SerializerProtocol
) -> dict[str, Any]:
    """Return what is said of a checkpoint beside its channels' values."""
    header = {name: value for name, value in checkpoint.items() if name not in ("id", "channel_values")}
    return {
        "id": checkpoint["id"],
        "parent": parent,
        "header": packed(header, serde),
        "metadata": packed(dict(metadata), serde),
    }


def channels_record(values: Values, index: int, base: Entry | None, before: Values) -> dict[str, Any]:
    """Return what the record at an index says of the channels, given those of the checkpoint that it may build on."""
    sizes = [len(value.indices) for value in values.values() if isinstance(value, MessageList)]
    if base is None or base.depth >= max(STEPS_BETWEEN_WHOLE, max(sizes, default=0) // STEPS_BETWEEN_WHOLE):
        base, before = None, {}
    changed = {
        name: _value_record(value, index, before.get(name))
        for name, value in values.items()
        if value is not before.get(name) and value != before.get(name)
    }
    record: dict[str, Any] = {"depth": 0, "channels": changed}
    if base is not None:
        record |= {"depth": base.depth + 1, "base": base.index}
        if gone := [name for name in before if name not in values]:
            record["gone"] = gone
    return record


def _value_record(value: Value, index: int, before: Value | None) -> dict[str, Any]:
    if isinstance(value, Blob):
        if value.at != index:
            return {"at": value.at}
        return {"kind": value.kind, "data": b64encode(value.data).decode()}
    if not isinstance(before, MessageList):
        return {"messages": list(value.indices)}
    keep = shared_length(before.indices, value.indices)
    return {"keep": keep, "messages": list(value.indices[keep:])}


def shared_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many items two sequences have in common at their beginning.

    >>> shared_length((1, 2, 3), (1, 2, 4)), shared_length((1, 2), (1, 2, 3)), shared_length((), (1,))
    (2, 2, 0)
    """
    shortest = min(len(one), len(other))
    if one[:shortest] == other[:shortest]:
        return shortest
    return next(at for at in range(shortest) if one[at] != other[at])


def changed_values(entry: Entry, before: Values) -> dict[str, Value | int]:
    """Return the channels that a record gives, over those of the one it builds on; an index names the record to look in."""
    values: dict[str, Value | int] = dict(before)
    for name in entry.record.get("gone", ()):
        values.pop(name, None)
    for name, held in entry.record["channels"].items():
        if "messages" in held:
            earlier = before.get(name)
            kept = earlier.indices[: held.get("keep", 0)] if isinstance(earlier, MessageList) else ()
            values[name] = MessageList((*kept, *held["messages"]))
        elif "at" in held:
            values[name] = held["at"]
        else:
            values[name] = Blob(entry.index, held["kind"], b64decode(held["data"]))
    return values


def record_of(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a turn's metadata says for this adapter; empty if it is no turn of it."""
    said = meta.get(KEY)
    return said if isinstance(said, dict) else {}


# --- writes


def writes_record(checkpoint_id: str, writes: Sequence[Write]) -> dict[str, Any]:
    """Return the record of what one task wrote."""
    return {
        "checkpoint": checkpoint_id,
        "task": writes[0].task_id,
        "path": writes[0].path,
        "values": [[write.position, write.channel, write.kind, b64encode(write.data).decode()] for write in writes],
    }


def writes_of(record: Mapping[str, Any]) -> list[Write]:
    """Return the writes of a record."""
    return [
        Write(record["task"], position, channel, record["path"], kind, b64decode(data))
        for position, channel, kind, data in record["values"]
    ]
