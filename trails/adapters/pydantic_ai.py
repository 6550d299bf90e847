"""Keep a pydantic-ai message history in Trails: `TrailsHistory`. The extra is `pydantic-ai`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from trails.adapters import message_history
from trails.adapters.message_history import MessageHistory, NewMessage, StoredMessage
from trails.adapters.opened_store import OpenedStore
from trails.model.values import Turn
from trails.session.repository import Repository

_NO_TIME: Final = datetime.fromtimestamp(0, UTC)
"""The time of a message whose turn has none."""


class TrailsHistory:
    """The messages of one conversation: what an agent's run takes as `message_history` and gives as `new_messages()`.

    A request that holds several prompts or answers is several turns; the message comes back whole. Each method has an async form,
    whose name begins with `a`.

    >>> import asyncio, trails
    >>> from pydantic_ai import Agent
    >>> from pydantic_ai.models.test import TestModel
    >>> from trails.adapters.pydantic_ai import TrailsHistory
    >>> with trails.open(":memory:") as store:
    ...     history, agent = TrailsHistory("trip", store), Agent(TestModel(custom_output_text="Where to?"))
    ...     result = asyncio.run(agent.run("Plan a trip", message_history=history.load()))
    ...     history.extend(result.new_messages())
    ...     history.load() == result.all_messages(), [turn.content for turn in store.load("trip")]
    (True, ['Plan a trip', 'Where to?'])
    """

    def __init__(
        self,
        session_id: str,
        store: Repository | str | os.PathLike[str],
        *,
        principal: str | None = None,
        agent: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Take a conversation up; the first message makes it.

        `session_id` is the name of a ref of the store. `store` is an open store, or its location as for `trails.open`, where it
        is made if there is none; `close` closes it then. The other options are those of `Repository.create` for a new session.
        """
        message_history.check_name(session_id)
        self._store = OpenedStore.of(store)
        fields = {"principal": principal, "agent": agent, "meta": meta}
        self._history = MessageHistory(self._store, session_id, kind="pydantic-ai", **fields)

    def load(self, newest: int | None = None) -> list[ModelMessage]:
        """Return the messages as they are stored by now, the oldest first: the `newest` ones, or all.

        The newest ones may begin with an answer to a call before them.
        """
        return self._store.call(lambda: self._load(newest))

    async def aload(self, newest: int | None = None) -> list[ModelMessage]:
        """Return the messages as they are stored by now; see `load`."""
        return await self._store.run(lambda: self._load(newest))

    def _load(self, newest: int | None) -> list[ModelMessage]:
        return [_message(each) for each in self._history.read(newest)]

    def extend(self, messages: Sequence[ModelMessage]) -> None:
        """Store new messages behind the others, in one commit: what `result.new_messages()` gives.

        Raises `InvalidInput` for one that JSON cannot carry, or for something else; none is stored then.
        """
        new = _new_messages(messages)
        self._store.call(lambda: self._history.extend(new))

    async def aextend(self, messages: Sequence[ModelMessage]) -> None:
        """Store new messages behind the others; see `extend`."""
        new = _new_messages(messages)
        await self._store.run(lambda: self._history.extend(new))

    def save(self, messages: Sequence[ModelMessage]) -> int:
        """Let the history be these messages, in one commit: what `result.all_messages()` gives; return how many are new.

        Those that it begins with already stay. A history that was rewritten, as by compaction, goes on from the last message that
        both have; what followed there stays in the store.
        """
        new = _new_messages(messages)
        return self._store.call(lambda: self._history.save(new, _exact))

    async def asave(self, messages: Sequence[ModelMessage]) -> int:
        """Let the history be these messages; see `save`."""
        new = _new_messages(messages)
        return await self._store.run(lambda: self._history.save(new, _exact))

    def rewind(self, count: int) -> None:
        """Keep the first `count` messages, and take the others back. They stay in the store."""
        self._store.call(lambda: self._history.rewind(count))

    async def arewind(self, count: int) -> None:
        """Keep the first `count` messages; see `rewind`."""
        await self._store.run(lambda: self._history.rewind(count))

    def delete(self) -> None:
        """Remove the history and delete its sessions, with what was taken back; the next message begins it anew.

        Histories that were forked from it keep what they share with it. Raises `HasChildren` if another ref or a tag names one of
        its sessions, as the ref of a fork without messages of its own does; nothing is deleted then.
        """
        self._store.call(self._history.delete)

    async def adelete(self) -> None:
        """Remove the history and delete its sessions; see `delete`."""
        await self._store.run(self._history.delete)

    def fork(self, session_id: str, at: int | None = None) -> TrailsHistory:
        """Return another history that begins with the first `at` messages of this one, or with all; nothing is copied."""
        other = TrailsHistory(session_id, self._store.repository)
        self._store.call(lambda: self._history.fork(other._history.ref, at))
        return other

    async def afork(self, session_id: str, at: int | None = None) -> TrailsHistory:
        """Return another history that begins with messages of this one; see `fork`."""
        other = TrailsHistory(session_id, self._store.repository)
        await self._store.run(lambda: self._history.fork(other._history.ref, at))
        return other

    def close(self) -> None:
        """Close the store, if the history opened it."""
        self._store.close()


def _new_messages(messages: Sequence[ModelMessage]) -> list[NewMessage]:
    kinds = (ModelRequest, ModelResponse)
    given: list[ModelRequest | ModelResponse] = message_history.check_messages(messages, kinds, "pydantic-ai")
    new = []
    for message in given:
        exact = message_history.exact_json(message, _write, f"a {message.kind}")
        shape = json.loads(exact)[0]
        time = _moment(getattr(message, "timestamp", None) or _part_time(message))
        new.append(NewMessage(shape, exact, {} if time is None else {"time": time}))
    return new


def _part_time(message: ModelMessage) -> datetime | None:
    return next((time for part in message.parts if (time := getattr(part, "timestamp", None)) is not None), None)


def _moment(time: datetime | None) -> datetime | None:
    """Return a time that a turn can have: pydantic-ai's are in UTC, some of them without saying so."""
    return time if time is None or time.tzinfo is not None else time.replace(tzinfo=UTC)


def _message(stored: StoredMessage) -> ModelMessage:
    return message_history.message_of(stored, _read, _write, _message_of_turns)


def _exact(stored: StoredMessage) -> bytes:
    return _write(_message(stored))


def _read(exact: bytes) -> ModelMessage:
    return ModelMessagesTypeAdapter.validate_json(exact)[0]


def _write(message: ModelMessage) -> bytes:
    return ModelMessagesTypeAdapter.dump_json([message])


def _message_of_turns(turns: Sequence[Turn]) -> ModelMessage:
    """Return a message for turns that were appended without pydantic-ai, or whose message was redacted; always the same one."""
    if turns[0].role == "assistant":
        parts = [part for turn in turns for part in _response_parts(turn)]
        return ModelResponse(parts=parts, model_name=turns[0].model, timestamp=_time(turns[0]))
    return ModelRequest(parts=[part for turn in turns for part in _request_parts(turn)])


def _time(turn: Turn) -> datetime:
    return turn.time or _NO_TIME


def _text(turn: Turn) -> str:
    return "(redacted)" if turn.redacted else turn.content if isinstance(turn.content, str) else turn.text


def _request_parts(turn: Turn) -> Iterator[ModelRequestPart]:
    if turn.tool_results:
        for answer in turn.tool_results:
            name = answer.tool or turn.author
            yield ToolReturnPart(
                tool_name=name, content=_text(turn), tool_call_id=answer.call_id, timestamp=_time(turn)
            )
    elif turn.role in ("system", "developer", "summary"):
        yield SystemPromptPart(content=_text(turn), timestamp=_time(turn))
    else:
        yield UserPromptPart(content=_text(turn), timestamp=_time(turn))


def _response_parts(turn: Turn) -> Iterator[ModelResponsePart]:
    if turn.text or turn.redacted:
        yield TextPart(content=_text(turn))
    for call in turn.tool_calls:
        yield ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id)
