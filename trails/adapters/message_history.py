"""A named history of a framework's messages: a ref of the store, whose session has the messages as turns.

Taking messages back, and saving a history that was rewritten, moves the ref; what was there stays in the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trails.adapters import message_turns, opened_store
from trails.adapters.message_turns import Record
from trails.adapters.opened_store import OpenedStore
from trails.errors import InvalidInput
from trails.model import validation
from trails.model.values import Turn
from trails.session.checkout import Checkout


class StoredMessage(NamedTuple):
    """A message as it is read: its exact JSON; None if somebody else appended its turns, or it was redacted."""

    exact: bytes | None
    turns: tuple[Turn, ...]


class NewMessage(NamedTuple):
    """A message to be stored: as plain data for the readers of message shapes, as exact JSON, and with options of `append`."""

    shape: Mapping[str, Any]
    exact: bytes
    options: Mapping[str, Any] = {}


class MessageHistory:
    """The messages under a name. Calls come from one thread at a time."""

    def __init__(self, store: OpenedStore, name: str, *, kind: str, **fields: Any) -> None:
        """Take the history with a name up, which is made by its first message; `fields` are of `Repository.checkout`.

        A name that no ref can have is replaced by one that stands for it, of the `kind` of history.
        """
        self._store = store
        self.ref = name if is_ref_name(name) else opened_store.joined_id(kind, name)
        """The name of the ref."""
        self._fields = fields
        self._checkout: Checkout | None = None

    def checkout(self) -> Checkout:
        """Return the ref as it is stored by now, to be read."""
        main = self._main()
        main.refresh()
        return main

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
        if newest is None:
            records = list(message_turns.read_records(main.turns))
        else:
            records = message_turns.last_records(main.tail, len(main), newest)
        payload = self._store.repository.payload
        return [StoredMessage(None if each.exact is None else payload(each.exact), each.turns) for each in records]

    # --- writing

    def extend(self, messages: Sequence[NewMessage]) -> None:
        """Store messages behind those there are by then, in one commit."""
        self._main().update(lambda main: _append(main, messages))

    def add(self, choose: Callable[[list[StoredMessage]], Sequence[NewMessage]], newest: int) -> None:
        """Store the messages that a function chooses, which sees the `newest` ones that are there by then, in one commit."""
        self._main().update(lambda main: _append(main, choose(self._read(main, newest))))

    def save(self, messages: Sequence[NewMessage]) -> int:
        """Let the history be these messages, in one commit; return how many are new.

        Those that it begins with already stay. If others follow there, these are taken back first.
        """

        def change(main: Checkout) -> int:
            records = list(message_turns.read_records(main.turns))
            digests = [hashlib.sha256(each.exact).hexdigest() for each in messages]
            known = 0
            while known < min(len(records), len(digests)) and _digest(records[known]) == digests[known]:
                known += 1
            if known < len(records):
                main.rewind(records[known].turns[0].index)
            _append(main, messages[known:])
            return len(messages) - known

        return self._main().update(change)

    def rewind(self, count: int) -> None:
        """Take all messages back from an index on."""

        def change(main: Checkout) -> None:
            records = list(message_turns.read_records(main.turns))
            if not 0 <= count <= len(records):
                raise InvalidInput(f"the history {self.ref!r} has {len(records)} messages, not {count}")
            if count < len(records):
                main.rewind(records[count].turns[0].index)

        self._main().update(change)

    def clear(self) -> None:
        """Take all messages back."""
        if len(self.checkout()):
            self._main().update(lambda main: main.clear())

    def fork(self, name: str, at: int | None = None) -> None:
        """Make another history that begins with the first `at` messages of this one, or with all; nothing is copied."""
        main = self.checkout()
        if main.ref is None:
            raise InvalidInput(f"the history {self.ref!r} has no message yet, so it cannot be forked")
        records = list(message_turns.read_records(main.turns))
        if at is not None and not 0 <= at <= len(records):
            raise InvalidInput(f"the history {self.ref!r} has {len(records)} messages: it cannot be forked at {at}")
        end = len(main) if at is None or at == len(records) else records[at].turns[0].index
        self._store.repository.refs.set(name, main.session_id, end, expected=None)


def _append(main: Checkout, messages: Sequence[NewMessage]) -> None:
    for each in messages:
        message_turns.append_message(main, each.shape, each.exact, **each.options)


def _digest(record: Record) -> str | None:
    return None if record.exact is None else record.exact.digest


def is_ref_name(name: str) -> bool:
    """Tell whether a ref can have a name."""
    try:
        return validation.ref_name(name) == name
    except InvalidInput:
        return False
