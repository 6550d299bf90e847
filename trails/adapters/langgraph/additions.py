"""Append checkpoints and writes to the session of a lane: what the lane has already is referred to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from trails.adapters.langgraph.messages import KEY, message_turn, plain_turn, stored_message
from trails.adapters.langgraph.records import (
    HERE,
    ROLE,
    About,
    Blob,
    Entry,
    MessageList,
    Value,
    Values,
    Write,
    channels_record,
    payloads,
    writes_record,
)
from trails.adapters.langgraph.threads import Lane
from trails.errors import InvalidInput
from trails.model.values import Turn

_LONGEST_ID = 200


class Addition:
    """A checkpoint that is about to be appended to a lane: its messages' turns, and the values of its channels."""

    def __init__(self, lane: Lane, serde: SerializerProtocol, *, is_native: bool) -> None:
        """Begin behind what the lane has."""
        self.lane = lane
        self._serde = serde
        self._is_native = is_native
        self._session = lane.session
        self.base = lane.last
        self.before: Values = {} if lane.last is None else lane.values(lane.last)
        self._new: dict[str | None, list[int]] = {}

    def messages(self, name: str, messages: Sequence[BaseMessage]) -> MessageList:
        """Return a list of messages as turns: those that the lane has, and new ones for the others."""
        earlier = self.before.get(name)
        indices = earlier.indices if isinstance(earlier, MessageList) else ()
        lane, serde = self.lane, self._serde
        keep = 0
        while keep < len(indices) and keep < len(messages) and lane.message(indices[keep]).holds(messages[keep], serde):
            keep += 1
        if keep == len(messages) == len(indices):
            return earlier  # type: ignore[return-value] # it has indices
        others = self._by_id(self._elsewhere(name, indices[keep:])) if keep < len(messages) else {}
        return MessageList((*indices[:keep], *(self._index(each, others) for each in messages[keep:])))

    def _elsewhere(self, name: str, rest: Sequence[int]) -> Iterator[int]:
        """Yield the turns that may hold a message: the others of its list, then those of other channels."""
        yield from rest
        for other, value in self.before.items():
            if other != name and isinstance(value, MessageList):
                yield from value.indices

    def _by_id(self, indices: Iterator[int]) -> dict[str | None, list[int]]:
        known: dict[str | None, list[int]] = {}
        for index in indices:
            known.setdefault(self.lane.message(index).id, []).append(index)
        return known

    def _index(self, message: BaseMessage, others: Mapping[str | None, list[int]]) -> int:
        if message.id is not None:
            candidates: list[int] = [*others.get(message.id, ()), *self._new.get(message.id, ())]
            for known in candidates:
                if self.lane.message(known).holds(message, self._serde):
                    return known
        made = self._append(message)
        index: int = made.index
        self.lane.messages[index] = stored_message(made, self._session.payload)
        self._new.setdefault(message.id, []).append(index)
        return index

    def _append(self, message: BaseMessage) -> Turn:
        """Append a message as a turn, or return the turn that has it already, though the base's channels do not."""
        turn = message_turn(message, self._serde, is_native=self._is_native)
        end, session = len(self._session), self._session
        if source_id := _source_id(message):
            with suppress(InvalidInput):
                made = session.append(**turn, source_id=source_id)
                if made.index == end or self.lane.message(made.index).holds(message, self._serde):
                    return made
        try:
            return session.append(**turn)
        except InvalidInput:
            return session.append(**plain_turn(message, turn, self._serde))

    def finish(self, about: About, values: Values, loose: dict[str, Any]) -> Entry:
        """Append the checkpoint's record, and return the checkpoint; `loose` says where writes are that came before it."""
        index = len(self._session)
        new = [value for value in values.values() if isinstance(value, Blob) and value.at == HERE]
        placed: dict[str, Value] = {
            name: value._replace(at=index) if isinstance(value, Blob) and value.at == HERE else value
            for name, value in values.items()
        }
        record = about.record | channels_record(placed, index, self.base, self.before) | loose
        if self.base is not None and self.base.newest > record["id"]:
            record["newest"] = self.base.newest
        self._session.append(
            ROLE,
            f"checkpoint {record['id']}",
            meta={KEY: {"put": record}},
            payloads=payloads((*about.blobs, *new)),
        )
        entry = Entry(record, index, self.lane.namespace, self.lane.id)
        entry.values = placed
        return entry


def _source_id(message: BaseMessage) -> str | None:
    """Return a message's id if a turn may have it as the id of its source."""
    return message.id if message.id and len(message.id) <= _LONGEST_ID else None


def append_writes(lane: Lane, checkpoint_id: str, writes: Sequence[Write]) -> list[Write]:
    """Append the record of what a task wrote, and return the writes with their places."""
    index, record = len(lane.session), writes_record(checkpoint_id, writes)
    lane.session.append(
        ROLE,
        f"writes of task {writes[0].task_id}",
        meta={KEY: {"writes": record}},
        payloads=payloads(write.value for write in writes),
    )
    return [write._replace(value=write.value._replace(at=index), lane=lane.id) for write in writes]
