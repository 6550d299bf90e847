"""What the turns of a thread say of its checkpoints: records in their metadata, and the channel values that these give.

A record holds the channels that changed since the checkpoint before it in its session (`base`), and every so often all of
them. A list of messages is the indices of their turns; any other value is the bytes of the user's serializer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from json import dumps
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from trails.adapters.langgraph.messages import KEY, is_messages, is_plain, message_record
from trails.adapters.langgraph.short_names import (
    packed_checkpoint,
    packed_kind,
    packed_number,
    read_checkpoint,
    read_kind,
    read_number,
)
from trails.model.iris import UNNAMED
from trails.model.values import Payload, Turn

ROLE: Final = "info"
"""The role of the turns that hold records: no model is shown them."""
STEPS_BETWEEN_WHOLE: Final = 16
"""How many records at least build on each other, before one that names all channels."""


class Blob(NamedTuple):
    """A value as the serializer wrote it: a payload of the turn at an index, or a plain value in the record itself."""

    at: int
    name: str
    kind: str
    data: bytes | None = None
    """Its bytes, if they are in memory."""
    plain: Any = None
    """The value, of the kind `json`."""


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
    value: Blob
    lane: str = ""
    """The id of the session whose turn holds it, once it is stored."""


JSON: Final = "json"
"""The kind of values that stand in a record as they are."""
MESSAGES: Final = "messages"
"""The kind of lists of messages that stand in a record as JSON."""
IN_RECORD: Final = (JSON, MESSAGES)
HERE: Final = -1
"""The index of a turn that is not appended yet."""
LONGEST_CHANNEL: Final = 512
"""How long the JSON of a channel's value may be to stand in records: those that name all channels say it again."""
LONGEST_WRITE: Final = 4096
"""How long the JSON of a write may be to stand in its record."""
_TEXTLESS: Final = (bool, int, float, type(None))


def blob(name: str, value: object, serde: SerializerProtocol, longest: int) -> Blob:
    """Return a value as a record is to hold it: as JSON up to a length, or as a payload; with 0, no text is in the record."""
    if value.__class__ in _TEXTLESS and is_plain(value):
        return Blob(HERE, name, JSON, None, value)
    if longest:
        kind, plain = (MESSAGES, _message_records(value)) if is_messages(value) else (JSON, value)
        if plain is not None and is_plain(plain) and len(dumps(plain)) <= longest:
            return Blob(HERE, name, kind, None, plain_copy(plain))
    return Blob(HERE, name, *serde.dumps_typed(value))


def _message_records(messages: Any) -> list[dict[str, Any]] | None:
    records = [record for message in messages if (record := message_record(message)) is not None]
    return records if len(records) == len(messages) else None


def payloads(blobs: Iterable[Blob]) -> list[Payload]:
    """Return the payloads that hold values."""
    return [
        Payload(data=each.data, media_type=f"application/x-{each.kind}", name=each.name)
        for each in blobs
        if each.kind not in IN_RECORD and each.data is not None
    ]


class Entry:
    """A checkpoint: its record, and where in its session that stands."""

    __slots__ = ("depth", "id", "index", "lane", "namespace", "newest", "parent", "record", "values", "writes")

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
        self.newest: str = record.get("newest", self.id)
        """The greatest id of a checkpoint up to here in its session."""
        self.values: Values | None = None
        """Its channels, once they were worked out."""
        self.writes: dict[tuple[str, int], Write] = {}
        """What was written on top of it, by task and position."""

    def add_writes(self, writes: Sequence[Write]) -> None:
        """Take writes in: of those at one place the first counts, and the last of errors, interrupts and their kind."""
        keep_writes(self.writes, writes)

    def let_go(self) -> None:
        """Let go of what is stored too, once this is not the last checkpoint."""
        self.values = None
        for key, write in self.writes.items():
            if write.value.data is not None:
                self.writes[key] = write._replace(value=write.value._replace(data=None))

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


def plain_copy(value: Any) -> Any:
    """Return a value of JSON that shares nothing with another one which can be changed."""
    if value.__class__ is dict:
        return {key: item if item.__class__ is str else plain_copy(item) for key, item in value.items()}
    return [plain_copy(item) for item in value] if value.__class__ is list else value


class About(NamedTuple):
    """What is said of a checkpoint beside its channels' values."""

    record: dict[str, Any]
    blobs: tuple[Blob, ...]
    """The parts of it that are no plain JSON."""


def about_checkpoint(
    checkpoint: Checkpoint, metadata: CheckpointMetadata, parent: str | None, serde: SerializerProtocol
) -> About:
    """Return what a record is to say of a checkpoint."""
    record: dict[str, Any] = {"id": checkpoint["id"], "parent": parent}
    blobs: list[Blob] = []
    header = {name: value for name, value in checkpoint.items() if name not in ("id", "channel_values")}
    for name, said in (("header", header), ("metadata", dict(metadata))):
        if is_plain(said):
            record[name] = {"json": plain_copy(said)}
        else:
            made = Blob(HERE, f"/{name[0]}", *serde.dumps_typed(said))
            record[name] = {"kind": made.kind, "payload": made.name}
            blobs.append(made)
    return About(record, tuple(blobs))


def channels_record(values: Values, index: int, base: Entry | None, before: Values) -> dict[str, Any]:
    """Return what the record at an index says of the channels, given those of the checkpoint that it may build on."""
    sizes = [len(value.indices) for value in values.values() if isinstance(value, MessageList)]
    if base is None or base.depth >= max(STEPS_BETWEEN_WHOLE, max(sizes, default=0) // STEPS_BETWEEN_WHOLE):
        base, before = None, {}
    changed = {
        name: _value_record(value, index, before.get(name))
        for name, value in values.items()
        if value is not before.get(name)
    }
    record: dict[str, Any] = {"depth": 0, "channels": changed}
    if base is not None:
        record |= {"depth": base.depth + 1, "base": base.index}
        if gone := [name for name in before if name not in values]:
            record["gone"] = gone
    return record


def _value_record(value: Value, index: int, before: Value | None) -> dict[str, Any]:
    if isinstance(value, Blob):
        if value.kind == JSON:
            return {"json": value.plain}
        return {"kind": value.kind} | ({} if value.at == index else {"at": value.at})
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


def changed_values(entry: Entry, before: Values) -> Values:
    """Return the channels of a checkpoint, given those of the one that it builds on."""
    values: dict[str, Value] = dict(before)
    for name in entry.record.get("gone", ()):
        values.pop(name, None)
    for name, held in entry.record["channels"].items():
        if "messages" in held:
            earlier = before.get(name)
            kept = earlier.indices[: held.get("keep", 0)] if isinstance(earlier, MessageList) else ()
            values[name] = MessageList((*kept, *held["messages"]))
        elif "json" in held:
            values[name] = Blob(entry.index, name, JSON, None, held["json"])
        else:
            values[name] = Blob(held.get("at", entry.index), name, held["kind"])
    return values


def record_of(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a turn's metadata says for this adapter; empty if it is no turn of it."""
    said = meta.get(KEY) or meta.get(UNNAMED)  # if a redaction took the key's name
    return said if isinstance(said, dict) else {}


# --- turns


USUAL_CHANNEL: Final = "messages"
"""The channel that messages are in if no record says of which they are."""
MARK: Final = "\N{BULLET}"
"""The content of turns that hold records: one letter, which no redaction of a text can find."""


def checkpoint_meta(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a turn that holds a checkpoint's record."""
    return {KEY: {"p": packed_checkpoint(record)}}


def checkpoint_of(turn: Turn) -> dict[str, Any] | None:
    """Return the record of the checkpoint that a turn holds; None if it holds none, or a redaction took it."""
    said = record_of(turn.meta).get("p")
    record = read_checkpoint(said) if isinstance(said, dict) else {}
    channels = record.get("channels")
    if not isinstance(channels, dict):
        return None
    if "messages" in channels.get(UNNAMED, ()):  # whose name a redaction took
        channels.setdefault(USUAL_CHANNEL, channels.pop(UNNAMED))
    return record


def writes_meta(checkpoint_id: str, writes: Sequence[Write]) -> dict[str, Any]:
    """Return the metadata of a turn that holds what one task wrote."""
    values = [
        [packed_number(write.position), write.channel, packed_kind(write.value.kind), write.value.plain]
        for write in writes
    ]
    return {KEY: {"w": {"c": checkpoint_id, "t": writes[0].task_id, "p": writes[0].path, "v": values}}}


def write_name(position: int, channel: str) -> str:
    """Return the name of the payload that holds a write."""
    return f"{position} {channel}"


def writes_of(turn: Turn) -> tuple[str, list[Write]] | None:
    """Return the writes that a turn holds, and the id of the checkpoint that they are on; None if it holds none."""
    said = record_of(turn.meta).get("w")
    if not isinstance(said, dict):
        return None
    return said["c"], [
        Write(
            said["t"],
            position,
            channel,
            said["p"],
            Blob(turn.index, write_name(position, channel), read_kind(kind), None, plain),
            turn.session_id,
        )
        for place, channel, kind, plain in said["v"]
        if (position := read_number(place)) is not None
    ]
