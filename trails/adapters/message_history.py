"""A named history of a framework's messages: a ref of the store, whose session has the messages as turns.

Taking messages back, and saving a history that was rewritten, moves the ref; what was there stays in the store.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from trails.adapters import message_turns, opened_store
from trails.adapters.message_turns import Record
from trails.adapters.opened_store import OpenedStore
from trails.errors import HasChildren, InvalidInput, SessionNotFound
from trails.model import validation
from trails.model.values import Turn
from trails.session.checkout import Checkout

_Message = TypeVar("_Message")
_Answer = TypeVar("_Answer")
_REDACTED: Final = re.compile(rb'"redacted(?:-\d+)?"')
"""What stands in a message's JSON for a text that was redacted, or for a key."""


class StoredMessage(NamedTuple):
    """A message as it is read: its exact JSON; None if somebody else appended its turns, or it was redacted."""

    exact: bytes | None
    turns: tuple[Turn, ...]


class NewMessage(NamedTuple):
    """A message to be stored: as plain data for the readers of message shapes, as exact JSON, and with options of `append`."""

    shape: Mapping[str, Any]
    exact: bytes
    options: Mapping[str, Any] = {}


def check_messages(messages: object, kinds: tuple[type[_Message], ...], framework: str) -> list[_Message]:
    """Return messages that are of some classes; raise `InvalidInput` for anything else."""
    names = " or ".join(kind.__name__ for kind in kinds)
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InvalidInput(f"messages are a list of {names} of {framework}, not {messages!r:.80}")
    given = list(messages)
    for each in given:
        if not isinstance(each, kinds):
            raise InvalidInput(f"a message is a {names} of {framework}, not {each!r:.80}")
    return given


def exact_json(message: _Message, write: Callable[[_Message], bytes], name: str) -> bytes:
    """Return the JSON that a framework writes of a message; raise `InvalidInput`, which names it, for what JSON cannot carry."""
    try:
        return write(message)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} holds what JSON cannot carry ({error}); keep it elsewhere, and give the message a reference to it"
        ) from error


def message_of(
    stored: StoredMessage,
    read: Callable[[bytes], _Message],
    write: Callable[[_Message], bytes],
    of_turns: Callable[[Sequence[Turn]], _Message],
) -> _Message:
    """Return a message as it was stored, by `read`, or made of its turns if a redaction took a word that the framework needs.

    `write` gives the JSON of a message: one that lacks a key of what it was read from is made of its turns, too.
    """
    if stored.exact is None:
        return of_turns(stored.turns)
    if not _REDACTED.search(stored.exact):
        return read(stored.exact)
    try:
        message = read(stored.exact)
        is_whole = _canonical(write(message)) == _canonical(stored.exact)
    except Exception:  # noqa: BLE001 - each framework raises its own errors for what it cannot read
        is_whole = False
    return message if is_whole else of_turns(stored.turns)


def _canonical(exact: bytes) -> str:
    return json.dumps(json.loads(exact), sort_keys=True)


class MessageHistory:
    """The messages under a name. Calls come from one thread at a time."""

    def __init__(self, store: OpenedStore, name: str, *, kind: str, **fields: Any) -> None:
        """Take the history with a name up, which is made by its first message; `fields` are of `Repository.checkout`.

        A name that no ref can have is replaced by one that stands for it, of the `kind` of history.
        """
        self._store = store
        check_name(name)
        self.ref = name if is_ref_name(name) else opened_store.joined_id(kind, name)
        """The name of the ref."""
        self._fields = fields
        self._checkout: Checkout | None = None

    def checkout(self) -> Checkout:
        """Return the ref as it is stored by now, to be read."""
        return self._on_ref(_refresh)

    def _on_ref(self, work: Callable[[Checkout], _Answer]) -> _Answer:
        """Return what a function gives for the ref; a history that somebody deleted begins anew."""
        main = self._main()
        try:
            return work(main)
        except InvalidInput:
            if main.ref is None or self.ref in self._store.repository.refs:
                raise
        self._checkout = None
        return work(self._main())

    def _update(self, change: Callable[[Checkout], _Answer]) -> _Answer:
        return self._on_ref(lambda main: main.update(change))

    def _main(self) -> Checkout:
        """Return the ref as it was last seen: `update` refreshes it."""
        if self._checkout is None:
            self._checkout = self._store.repository.checkout(self.ref, create=True, **self._fields)
        return self._checkout

    # --- reading

    def read(self, newest: int | None = None) -> list[StoredMessage]:
        """Return the messages, the oldest first: the `newest` ones, or all."""
        return self._read(self.checkout(), newest)

    def _read(self, main: Checkout, newest: int | None) -> list[StoredMessage]:
        if newest is not None:
            validation.index(newest, "the number of messages")
        if newest is None:
            records = list(message_turns.read_records(main.turns))
        else:
            records = message_turns.last_records(main.tail, len(main), newest)
        return [self._stored(each) for each in records]

    def _stored(self, record: Record) -> StoredMessage:
        exact = None if record.exact is None else self._store.repository.payload(record.exact)
        return StoredMessage(exact, record.turns)

    # --- writing

    def extend(self, messages: Sequence[NewMessage]) -> None:
        """Store messages behind those there are by then, in one commit."""
        self._update(lambda main: _append(main, messages))

    def add(self, choose: Callable[[list[StoredMessage]], Sequence[NewMessage]], newest: int) -> None:
        """Store the messages that a function chooses, which sees the `newest` ones that are there by then, in one commit."""
        self._update(lambda main: _append(main, choose(self._read(main, newest))))

    def save(self, messages: Sequence[NewMessage], write: Callable[[StoredMessage], bytes]) -> int:
        """Let the history be these messages, in one commit; return how many are new.

        Those that it begins with already stay. If others follow there, these are taken back first. `write` gives the JSON of a
        message as it is read: by that, one is known that was redacted, or that somebody else appended.
        """

        def is_stored(record: Record, message: NewMessage) -> bool:
            if _digest(record) == hashlib.sha256(message.exact).hexdigest():
                return True
            return write(self._stored(record)) == message.exact

        def change(main: Checkout) -> int:
            records = list(message_turns.read_records(main.turns))
            known = 0
            while known < min(len(records), len(messages)) and is_stored(records[known], messages[known]):
                known += 1
            if known < len(records):
                main.rewind(records[known].turns[0].index)
            _append(main, messages[known:])
            return len(messages) - known

        return self._update(change)

    def rewind(self, count: int) -> None:
        """Take all messages back from an index on."""

        def change(main: Checkout) -> None:
            records = list(message_turns.read_records(main.turns))
            if validation.index(count, "the number of messages") > len(records):
                raise InvalidInput(f"the history {self.ref!r} has {len(records)} messages, not {count}")
            if count < len(records):
                main.rewind(records[count].turns[0].index)

        self._update(change)

    def clear(self) -> None:
        """Take all messages back."""
        if len(self.checkout()):
            self._update(lambda main: main.clear())

    def fork(self, name: str, at: int | None = None) -> None:
        """Make another history that begins with the first `at` messages of this one, or with all; nothing is copied."""
        main = self.checkout()
        if main.ref is None:
            raise InvalidInput(f"the history {self.ref!r} has no message yet, so it cannot be forked")
        records = list(message_turns.read_records(main.turns))
        if at is not None and validation.index(at, "the number of messages") > len(records):
            raise InvalidInput(f"the history {self.ref!r} has {len(records)} messages: it cannot be forked at {at}")
        end = len(main) if at is None or at == len(records) else records[at].turns[0].index
        if name in self._store.repository.refs:
            raise InvalidInput(f"there is a history {name!r} already: choose another name, or delete that one first")
        self._store.repository.refs.set(name, main.session_id, end, expected=None)

    def delete(self) -> list[str]:
        """Remove the ref and delete the sessions that were made under it; return their ids, none if there is no ref.

        Histories that were forked from it get what they share with it as turns of their own. Raises `HasChildren` if another ref
        or a tag names one of the sessions; nothing is removed then.
        """
        store = self._store.repository
        ref = store.refs.find(self.ref)
        if ref is None:
            return []
        moves = reversed(store.refs.history(ref.name))
        own = [each for each in dict.fromkeys(move.session_id for move in moves if move.at is None) if each in store]
        tags = [tag.name for tag in store.tags.list() if tag.session_id in own]
        names = tags + [each.name for each in store.refs if each.session_id in own and each.name != ref.name]
        if names:
            shown = ", ".join(repr(each) for each in names[:5])
            raise HasChildren(f"the history {self.ref!r} is kept by what names its turns ({shown}): remove that first")
        store.refs.remove(ref.name, expected=ref)
        self._checkout = None
        for each in own:
            with suppress(SessionNotFound):  # deleted meanwhile
                store.delete(each, children="detach")
        return own


def _refresh(main: Checkout) -> Checkout:
    main.refresh()
    return main


def _append(main: Checkout, messages: Sequence[NewMessage]) -> None:
    for each in messages:
        message_turns.append_message(main, each.shape, each.exact, **each.options)


def _digest(record: Record) -> str | None:
    return None if record.exact is None else record.exact.digest


def check_name(name: object) -> None:
    """Raise `InvalidInput` for what cannot be the name of a history: it is text in Unicode."""
    if not isinstance(name, str):
        raise InvalidInput(f"the name of a history is text, not {name!r:.80}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the name of a history is text in Unicode, which {name!r:.80} is not") from error


def is_ref_name(name: str) -> bool:
    """Tell whether a ref can have a name."""
    try:
        return validation.ref_name(name) == name
    except InvalidInput:
        return False
