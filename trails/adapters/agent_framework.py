"""Keep the history of Microsoft's Agent Framework in Trails: `TrailsHistoryProvider`. The extra is `agent-framework`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from agent_framework import Content, HistoryProvider, Message
from agent_framework._sessions import filter_new_messages

from trails.adapters import message_history
from trails.adapters.message_history import MessageHistory, NewMessage, StoredMessage
from trails.adapters.opened_store import OpenedStore
from trails.model.values import Turn
from trails.session.repository import Repository

_DEFAULT = "default"
"""The history of runs without a session."""
_MOST_HELD = 128


class TrailsHistoryProvider(HistoryProvider):
    """Load the messages of a session before an agent's run, and store those of the run after it.

    >>> import asyncio, trails
    >>> from agent_framework import Message
    >>> from trails.adapters.agent_framework import TrailsHistoryProvider
    >>> async def main(store):
    ...     history = TrailsHistoryProvider(store)
    ...     await history.save_messages("trip", [Message("user", ["Plan a trip"]), Message("assistant", ["Where to?"])])
    ...     return [message.text for message in await history.get_messages("trip")]
    >>> with trails.open(":memory:") as store:
    ...     asyncio.run(main(store)), [turn.role for turn in store.load("trip")]
    (['Plan a trip', 'Where to?'], ['user', 'assistant'])
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "trails_history"

    def __init__(
        self,
        store: Repository | str | os.PathLike[str],
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
        newest: int | None = None,
        principal: str | None = None,
        agent: str | None = None,
    ) -> None:
        """Keep histories in `store`: an open store, or its location as for `trails.open`, where it is made if there is none.

        With `skip_excluded`, messages that a compaction left out are not loaded. `newest` is how many messages are loaded at
        most, the last ones; by default all. `principal` and `agent` are those of new sessions. The other options are those of the
        base class.
        """
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self.newest = newest
        self._store = OpenedStore.of(store)
        self._fields = {"principal": principal, "agent": agent}
        self._histories: dict[str, MessageHistory] = {}

    @property
    def store(self) -> Repository:
        """The store, to be asked, searched, forked and verified."""
        return self._store.repository

    def close(self) -> None:
        """Close the store, if the provider opened it."""
        self._store.close()

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, the oldest first, as they are stored by now."""
        messages = await self._store.run(lambda: self._read(session_id, self.newest))
        if self.skip_excluded:
            return [each for each in messages if not each.additional_properties.get("_excluded", False)]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Store messages in one commit, without those that the session has already.

        Raises `InvalidInput` for a message that JSON cannot carry, or for something else; none is stored then.
        """
        given = message_history.check_messages(messages, (Message,), "the framework")

        def new(known: list[StoredMessage]) -> list[NewMessage]:
            return [_new_message(each) for each in filter_new_messages([_message(each) for each in known], given)]

        if given:
            await self._store.run(lambda: self._history(session_id).add(new, max(2 * len(given), 8)))

    async def fork(self, session_id: str, new_session_id: str, at: int | None = None) -> None:
        """Let another session begin with the first `at` messages of one, or with all; nothing is copied."""
        await self._store.run(lambda: self._history(session_id).fork(self._history(new_session_id).ref, at))

    async def rewind(self, session_id: str, count: int) -> None:
        """Keep the first `count` messages of a session, and take the others back. They stay in the store."""
        await self._store.run(lambda: self._history(session_id).rewind(count))

    async def delete(self, session_id: str) -> None:
        """Delete the history of a session, with what was taken back; the next message begins it anew.

        Histories that were forked from it keep what they share with it. Raises `HasChildren` if another ref or a tag names one of
        its stored sessions, as the ref of a fork without messages of its own does; nothing is deleted then.
        """
        await self._store.run(lambda: self._history(session_id).delete())

    def _history(self, session_id: str | None) -> MessageHistory:
        name = session_id or _DEFAULT
        made = self._histories.pop(name, None) or MessageHistory(
            self._store, name, kind="agent-framework", **self._fields
        )
        self._histories[name] = made
        if len(self._histories) > _MOST_HELD:
            del self._histories[next(iter(self._histories))]
        return made

    def _read(self, session_id: str | None, newest: int | None) -> list[Message]:
        return [_message(each) for each in self._history(session_id).read(newest)]


def _new_message(message: Message) -> NewMessage:
    exact = message_history.exact_json(message, _write, f"a message in the role {message.role!r}")
    return NewMessage(json.loads(exact), exact)


def _message(stored: StoredMessage) -> Message:
    return message_history.message_of(stored, _parse, _write, _message_of_turns)


def _parse(exact: bytes) -> Message:
    return Message.from_dict(json.loads(exact))


def _write(message: Message) -> bytes:
    return json.dumps(message.to_dict(), ensure_ascii=False, allow_nan=False).encode()


def _message_of_turns(turns: Sequence[Turn]) -> Message:
    """Return a message for turns that were appended without the framework, or whose message was redacted."""
    roles = {"human": "user", "developer": "system", "summary": "system"}
    contents = [content for turn in turns for content in _contents(turn)]
    return Message(roles.get(turns[0].role, turns[0].role), contents, message_id=turns[0].digest[:32])


def _contents(turn: Turn) -> Iterator[Content]:
    text = "(redacted)" if turn.redacted else turn.content if isinstance(turn.content, str) else turn.text
    for answer in turn.tool_results:
        yield Content.from_function_result(call_id=answer.call_id, result=text)
    if text and not turn.tool_results:
        yield Content.from_text(text)
    for call in turn.tool_calls:
        yield Content.from_function_call(call_id=call.id, name=call.name, arguments=call.arguments)
