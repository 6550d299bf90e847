"""Events of Google's Agent Development Kit as turns, and turns as events.

An event with content is the turns that its content makes: what was said with its calls, and each answer to a call. An event that
only changes state, or says something to the runner, is a turn in a role of its own. The event's JSON goes with the first of its
turns, the state after the event with each. If an event says something and changes state, a turn for the state follows: it stays
if a text is taken out of what was said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from google.adk.events.event import Event
from google.genai import types
from pydantic_core import from_json

from trails.adapters import message_turns, opened_store
from trails.errors import InvalidInput
from trails.model import sdk_messages
from trails.model.sdk_messages import Given
from trails.model.values import Payload, Turn
from trails.session.session import Session

ACTIONS: Final = "adk:event"
"""The role of an event without content."""
STATE: Final = "adk:state"
"""The role of a turn that sets state without an event: the state that a session is created with, state of an app or a user."""
SETS_STATE: Final = "(state)"
"""The content of a turn that only sets state. What it sets is metadata, of which a redaction takes single values."""
STATE_AFTER: Final = "state"
"""The name of the payload that is the whole state after a turn."""
_USER: Final = "user"
_REDACTED: Final = "redacted"
"""The role of a turn whose role was redacted."""
_ALWAYS: Final = frozenset({"id", "author", "timestamp"})
"""The keys that the JSON of each event has."""
State = dict[str, Any]


def event_json(event: Event) -> str:
    """Return the JSON from which an event is read again; raise `InvalidInput` if it has something that JSON cannot carry."""
    try:
        return event.model_dump_json(exclude_none=True)
    except ValueError as error:
        raise InvalidInput(f"the event {event.id!r} cannot be stored as JSON: {error}") from error


def given_turns(event: Event, data: Mapping[str, Any]) -> list[Given]:
    """Return the turns that an event makes; `data` is its JSON as plain data."""
    content = data.get("content") or {}
    if not content.get("parts"):
        kept = {key: value for key, value in data.get("actions", {}).items() if key != "state_delta"}
        actions = {key: value for key, value in kept.items() if value not in ({}, [], None)}
        error = {key: data[key] for key in ("error_code", "error_message") if key in data}
        says = {"type": "actions"} | actions | error
        return [Given(ACTIONS, [says] if len(says) > 1 else SETS_STATE, {})]
    shape = {"role": "user" if event.author == _USER else "model"} | content
    try:
        given = sdk_messages.history([shape])
    except InvalidInput:
        given = [Given(message_turns.UNREAD, content["parts"], {})]
    reply = {"model": data.get("model_version"), "usage": data.get("usage_metadata")}
    reply["stop_reason"] = data.get("finish_reason") or data.get("error_code")
    options = {name: value for name, value in reply.items() if value is not None}
    return [given[0]._replace(options=given[0].options | options), *given[1:]]


def append_event(session: Session, event: Event, state_json: bytes) -> None:
    """Append an event's turns to a session; `state_json` is the session's whole state after it."""
    exact = event_json(event)
    given = given_turns(event, json.loads(exact))
    options: dict[str, Any] = {"time": moment_of(event.timestamp)}
    is_answer = any(each.role == "tool" for each in given)  # which is its tool's
    if event.author != _USER and opened_store.is_name(event.author) and not is_answer:
        options["author"] = f"agent:{event.author}"
    message_turns.append_given(session, given, exact.encode(), beside=state_payloads(state_json), **options)
    if event.actions.state_delta and given[0].content != SETS_STATE:
        append_state(session, {}, state_json, options["time"])


def append_state(session: Session, delta: State, state_json: bytes, time: datetime | None) -> None:
    """Append a turn that says which state was set, if no event says it, with the whole state after it."""
    meta = {STATE_AFTER: delta} if delta else None
    session.append(STATE, SETS_STATE, time=time, meta=meta, payloads=state_payloads(state_json))


def state_payloads(state_json: bytes) -> list[Payload]:
    """Return the payload of a state; none for an empty one."""
    if state_json == b"{}":
        return []
    return [Payload(data=state_json, media_type=message_turns.JSON, name=STATE_AFTER)]


def moment_of(timestamp: float) -> datetime | None:
    """Return the time of a timestamp, in whole microseconds; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def says_state(turn: Turn) -> bool:
    """Tell whether the state after a turn is known from it: the service itself wrote it, and nothing was taken out."""
    if any(each.name == STATE_AFTER for each in turn.payloads):
        return message_turns.payload_of(turn, STATE_AFTER) is not None
    return turn.role == STATE or bool(turn.payloads) or message_turns.PART in turn.meta


def sets_state(turn: Turn) -> bool:
    """Tell whether a turn only sets state, and belongs to no event."""
    if turn.role != _REDACTED:
        return turn.role == STATE
    has_event = any(each.name == message_turns.MESSAGE for each in turn.payloads)
    return not has_event and (turn.content == SETS_STATE or (turn.redacted and bool(turn.payloads)))


def read_event(turns: Sequence[Turn], exact: bytes) -> Event:
    """Return an event from its JSON; from its turns, if a redaction took something out of the JSON that an event must have."""
    try:
        event = Event.model_validate_json(exact)
    except ValueError:
        return event_of_turns(turns)
    is_without_content = turns[0].role in (ACTIONS, _REDACTED)
    is_whole = from_json(exact).keys() >= _ALWAYS and (event.content is not None or is_without_content)
    return event if is_whole else event_of_turns(turns)


# --- turns that were not appended by the service


def event_of_turns(turns: Sequence[Turn]) -> Event:
    """Return an event for a turn that was appended without the service, or whose event was redacted."""
    first = turns[0]
    author = _USER if first.role in ("user", "human") else first.author
    parts = [part for turn in turns for part in _parts(turn)]
    role = _USER if author == _USER or first.tool_results else "model"
    content = types.Content(role=role, parts=parts) if parts else None
    made = Event(id=first.digest[:32], author=author, content=content, model_version=first.model)
    made.timestamp = 0.0 if first.time is None else first.time.timestamp()
    return made


def _parts(turn: Turn) -> Iterator[types.Part]:
    text = "(redacted)" if turn.redacted else content_text(turn)
    for answer in turn.tool_results:
        name = answer.tool or turn.author
        yield types.Part(
            function_response=types.FunctionResponse(id=answer.call_id, name=name, response={"result": text})
        )
    if text and not turn.tool_results and not (turn.role == ACTIONS and text == SETS_STATE):
        yield types.Part(text=text)
    for call in turn.tool_calls:
        asked = call.input if isinstance(call.input, dict) else {"input": call.input}
        yield types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=asked))


def content_text(turn: Turn) -> str:
    """Return the texts of a turn, in its own words."""
    content = turn.content
    if isinstance(content, str):
        return content
    texts = [part if isinstance(part, str) else part.get("text") for part in content if isinstance(part, str | dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
