"""Messages of a framework as turns: native ones, with the exact JSON of each message beside the first.

The readers of message shapes (`trails.model`) say which turns a message makes. What was stored is read back from its JSON, so it
comes back exactly; a turn that somebody else appended has no JSON, and the adapter makes a message from the turn itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trails.errors import InvalidInput
from trails.model import sdk_messages
from trails.model.sdk_messages import Given
from trails.model.values import Payload, PayloadReference, Turn
from trails.session.checkout import Checkout
from trails.session.session import Session

MESSAGE: Final = "message"
"""The name of the payload that is a message's exact JSON."""
JSON: Final = "application/json"
PART: Final = "message_part"
"""The key in the metadata of a message's second turn, and of those after it."""
UNREAD: Final = "message:unread"
"""The role of a message that no reader knows, or that cannot be a turn of its own role."""
EMPTY: Final = [{"type": "empty"}]
"""The content of a message that says nothing."""
_UNNAMED: Final = "redacted"
"""The name of a payload after a redaction that took its name."""
_LONGEST_BLOB: Final = 100_000
"""Characters of a picture or a file that a turn has itself; a longer one is in the message's JSON alone."""
_MAX_NAME: Final = 200


class Record(NamedTuple):
    """A message as it is stored: its turns, and its exact JSON; None if somebody else appended the turn, or it was redacted."""

    turns: tuple[Turn, ...]
    exact: PayloadReference | None


def append_message(
    session: Session | Checkout,
    shape: Mapping[str, Any],
    exact: bytes,
    *,
    beside: Sequence[Payload] = (),
    **options: Any,
) -> tuple[Turn, ...]:
    """Append a message as turns, and return them; they are stored when the session is.

    `shape` is the message as plain data, `exact` the JSON from which it is to be read again. `beside` are payloads that each of
    its turns has; `options` are those of its turns, as for `Session.append`, and stand before what the message says.
    """
    try:
        given = sdk_messages.history([shape])
    except InvalidInput:
        given = [Given(UNREAD, [dict(shape)], {})]
    return append_given(session, given, exact, beside=beside, **options)


def append_given(
    session: Session | Checkout, given: Sequence[Given], exact: bytes, *, beside: Sequence[Payload] = (), **options: Any
) -> tuple[Turn, ...]:
    """Append the turns that a message makes, as `append_message` does."""
    turns: list[Turn] = []
    for number, each in enumerate(given):
        payloads = [Payload(data=exact, media_type=JSON, name=MESSAGE), *beside] if number == 0 else beside
        said = {name: value for name, value in each.options.items() if name != "meta"} | options
        if number:
            said["meta"] = {PART: number}
        turns.append(_append(session, _whole(each, number), said, payloads))
    return tuple(turns)


def _append(session: Session | Checkout, given: Given, options: dict[str, Any], payloads: Sequence[Payload]) -> Turn:
    try:
        return session.append(given.role, given.content, **options, payloads=payloads)
    except InvalidInput:
        names = ("author", "time", "meta", "source_id")
        kept = {name: value for name, value in options.items() if name in names}
        content = [{"type": "unread", "role": given.role, "content": given.content}]
        return session.append(UNREAD, content, **kept, payloads=payloads)


def _whole(given: Given, number: int) -> Given:
    """Return a turn that can be kept: with content, with an id for each call, and without long pictures and files."""
    calls = [_with_id(call, f"call-{number}-{at}") for at, call in enumerate(given.options.get("tool_calls", ()))]
    options = given.options | ({"tool_calls": calls} if calls else {})
    content = given.content if isinstance(given.content, str) else [_light(part) for part in given.content]
    says_nothing = not content and not calls and "tool_call_id" not in options and given.role != "tool"
    return Given(given.role, EMPTY if says_nothing else content, options)


def _with_id(call: Any, made_up: str) -> Any:
    identity = call.get("id") if isinstance(call, Mapping) else call
    is_name = isinstance(identity, str) and 0 < len(identity) <= _MAX_NAME
    return call if not isinstance(call, Mapping) or is_name else {**call, "id": made_up}


def _light(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: _light(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_light(each, key) for each in value]
    if isinstance(value, str) and key not in ("text", "content") and len(value) > _LONGEST_BLOB:
        return f"({len(value)} characters, in the payload {MESSAGE!r})"
    return value


# --- reading


def read_records(turns: Iterable[Turn]) -> Iterator[Record]:
    """Yield the messages that turns are of; turns of a message that began before them are left out."""
    record: list[Turn] = []
    for turn in turns:
        if _is_later_part(turn):
            if record:
                record.append(turn)
            continue
        if record:
            yield _record(record)
        record = [turn]
    if record:
        yield _record(record)


def _is_later_part(turn: Turn) -> bool:
    """Tell whether a turn is the second of a message, or one after it, also if a redaction took its metadata."""
    meta = turn.meta
    if PART in meta:
        return True
    is_taken = turn.facts.meta_withheld is not None or any(name.startswith(_UNNAMED) for name in meta)
    return is_taken and not turn.payloads


def _record(turns: Sequence[Turn]) -> Record:
    return Record(tuple(turns), payload_of(turns[0], MESSAGE) or payload_of(turns[0], _UNNAMED))


def payload_of(turn: Turn, name: str) -> PayloadReference | None:
    """Return the payload of a turn that has a name, unless it was redacted; None if there is none."""
    return next((each for each in turn.payloads if each.name == name and each.digest is not None), None)


def last_records(
    tail: Callable[[int], Sequence[Turn]], length: int, count: int, *, wanted: Callable[[Record], bool] = lambda _: True
) -> list[Record]:
    """Return the last `count` messages that are wanted, the oldest first; `tail(n)` gives the last n of `length` turns.

    No more turns are read than that takes: `count` and a few, then twice as many.
    """
    size = count
    while True:
        turns = tail(min(size, length))
        records = [each for each in read_records(turns) if wanted(each)]
        if len(records) >= count or len(turns) >= length:
            return records[max(0, len(records) - count) :]
        size = 2 * size + 2
