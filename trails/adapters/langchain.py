"""Keep a LangChain message history in Trails: `TrailsChatMessageHistory`. The extra is `langchain`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from trails.adapters import message_history
from trails.adapters.message_history import MessageHistory, NewMessage, StoredMessage
from trails.adapters.opened_store import OpenedStore
from trails.model.values import Turn
from trails.session.repository import Repository


class TrailsChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, each as one turn.

    What is cleared stays in the store: another history can be forked from it.

    >>> import trails
    >>> from trails.adapters.langchain import TrailsChatMessageHistory
    >>> with trails.open(":memory:") as store:
    ...     history = TrailsChatMessageHistory("trip", store)
    ...     history.add_user_message("Plan a trip"); history.add_ai_message("Where to?")
    ...     [message.content for message in history.messages], len(store.load("trip"))
    (['Plan a trip', 'Where to?'], 2)
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
        """Take a session's messages up; the first message makes it.

        `session_id` is the name of a ref of the store. `store` is an open store, or its location as for `trails.open`, where it
        is made if there is none; `close` closes it then. The other options are those of `Repository.create` for a new session.
        """
        super().__init__()
        message_history.check_name(session_id)
        self._store = OpenedStore.of(store)
        fields = {"principal": principal, "agent": agent, "meta": meta}
        self._history = MessageHistory(self._store, session_id, kind="langchain", **fields)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override] # a property, as the base class says it may be
        """All messages, the oldest first, as they are stored by now."""
        return self._store.call(self._read)

    async def aget_messages(self) -> list[BaseMessage]:
        """Return all messages, the oldest first, as they are stored by now."""
        return await self._store.run(self._read)

    def recent(self, count: int) -> list[BaseMessage]:
        """Return the last `count` messages, and read no others."""
        return self._store.call(lambda: self._read(count))

    def _read(self, newest: int | None = None) -> list[BaseMessage]:
        return [_message(each) for each in self._history.read(newest)]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, all in one commit. Raises `InvalidInput` for one that JSON cannot carry, or
        for something else; none is stored then.
        """
        new = _new_messages(messages)
        self._store.call(lambda: self._history.extend(new))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, all in one commit; see `add_messages`."""
        new = _new_messages(messages)
        await self._store.run(lambda: self._history.extend(new))

    def clear(self) -> None:
        """Take all messages back. They stay in the store; `delete` removes them."""
        self._store.call(self._history.clear)

    async def aclear(self) -> None:
        """Take all messages back; see `clear`."""
        await self._store.run(self._history.clear)

    def delete(self) -> None:
        """Remove the history and delete its sessions, with what was cleared; the next message begins it anew.

        Histories that were forked from it keep what they share with it. Raises `HasChildren` if another ref or a tag names one of
        its sessions, as the ref of a fork without messages of its own does; nothing is deleted then.
        """
        self._store.call(self._history.delete)

    async def adelete(self) -> None:
        """Remove the history and delete its sessions; see `delete`."""
        await self._store.run(self._history.delete)

    def fork(self, session_id: str, at: int | None = None) -> TrailsChatMessageHistory:
        """Return another history that begins with the first `at` messages of this one, or with all; nothing is copied."""
        other = TrailsChatMessageHistory(session_id, self._store.repository)
        self._store.call(lambda: self._history.fork(other._history.ref, at))
        return other

    def close(self) -> None:
        """Close the store, if the history opened it."""
        self._store.close()


def _new_messages(messages: Sequence[BaseMessage]) -> list[NewMessage]:
    return [_new_message(message) for message in message_history.check_messages(messages, (BaseMessage,), "LangChain")]


def _new_message(message: BaseMessage) -> NewMessage:
    exact = message_history.exact_json(message, _write, f"the message {message.id or message.type!r}")
    return NewMessage(json.loads(exact), exact)


def _message(stored: StoredMessage) -> BaseMessage:
    return message_history.message_of(stored, _read, _write, _message_of_turns)


def _read(exact: bytes) -> BaseMessage:
    return messages_from_dict([json.loads(exact)])[0]


def _write(message: BaseMessage) -> bytes:
    return json.dumps(message_to_dict(message), ensure_ascii=False, allow_nan=False).encode()


def _message_of_turns(turns: Sequence[Turn]) -> BaseMessage:
    """Return a message for a turn that was appended without LangChain, or whose message was redacted."""
    turn = turns[0]
    content = "(redacted)" if turn.redacted else turn.content
    said: dict[str, Any] = {"content": content, "id": turn.digest[:32]}
    if turn.role in ("user", "human"):
        return HumanMessage(**said)
    if turn.role in ("system", "developer", "summary"):
        return SystemMessage(**said)
    if turn.tool_results:
        answer = turn.tool_results[0]
        return ToolMessage(**said, tool_call_id=answer.call_id, status="error" if answer.is_error else "success")
    if turn.role == "assistant":
        calls = [
            {"id": call.id, "name": call.name, "args": call.input if isinstance(call.input, dict) else {}}
            for call in turn.tool_calls
        ]
        return AIMessage(**said, tool_calls=calls)
    return ChatMessage(**said, role=turn.role)
