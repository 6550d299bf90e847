"""Append checkpoints and writes to the session of a lane: what the lane has already is referred to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from trails.adapters.langgraph.messages import message_turn, plain_turn, unchanged_length
from trails.adapters.langgraph.records import (
    HERE,
    MARK,
    ROLE,
    About,
    Blob,
    Entry,
    MessageList,
    Value,
    Values,
    Write,
    channels_record,
    checkpoint_meta,
    payloads,
    writes_meta,
)
from trails.adapters.langgraph.threads import Lane
from trails.errors import InvalidInput
from trails.history.turn_builder import check_fields
from trails.model.values import Turn
from trails.session.session import Session


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

    def messages(self, name: str, messages: Sequence[BaseMessage]) -> MessageList:
        """Return a list of messages as turns: those that the lane holds, and new ones for the others."""
        earlier = self.before.get(name)
        indices = earlier.indices if isinstance(earlier, MessageList) else ()
        held, lane = self.lane.messages, self.lane
        keep = unchanged_length([held.get(index) or lane.message(index) for index in indices], messages, self._serde)
        if isinstance(earlier, MessageList) and keep == len(messages) == len(indices):
            return earlier
        return MessageList((*indices[:keep], *map(self._index, messages[keep:])))

    def _index(self, message: BaseMessage) -> int:
        if message.id is not None:
            for known in self.lane.places(message.id):
                if self.lane.messages[known].holds(message, self._serde):
                    return known
        made = self._append(message)
        self.lane.keep_message(made)
        index: int = made.index
        return index

    def _append(self, message: BaseMessage) -> Turn:
        turn = message_turn(message, self._serde, is_native=self._is_native)
        sources = (message.id,) if message.id else ()
        try:
            return append_turn(self._session, turn, sources)
        except InvalidInput:
            return append_turn(self._session, plain_turn(message, turn, self._serde), sources)

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
            MARK,
            meta=checkpoint_meta(record),
            payloads=payloads((*about.blobs, *new)),
        )
        entry = Entry(record, index, self.lane.namespace, self.lane.id)
        entry.values = placed
        return entry


def append_turn(session: Session, turn: Mapping[str, Any], sources: Sequence[str]) -> Turn:
    """Append a turn as `Session.append` does; that no turn has these ids of sources yet is known."""
    options = {name: value for name, value in turn.items() if name not in ("role", "content")}
    draft = check_fields(session.id, turn["role"], turn["content"], options | {"source_ids": sources})
    return session.worktree.append(draft)


def append_writes(lane: Lane, checkpoint_id: str, writes: Sequence[Write]) -> list[Write]:
    """Append the record of what a task wrote, and return the writes with their places."""
    index = len(lane.session)
    lane.session.append(
        ROLE,
        MARK,
        meta=writes_meta(checkpoint_id, writes),
        payloads=payloads(write.value for write in writes),
    )
    return [write._replace(value=write.value._replace(at=index), lane=lane.id) for write in writes]
