"""LangChain's messages as turns, and back.

A message becomes a turn with its role, content, tool calls, usage and model; its other fields are the turn's metadata. What
would not come back exactly so is kept as the bytes of the user's serializer beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from math import isfinite
from typing import Any, Final, NamedTuple

from langchain_core import messages as kinds
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from trails.adapters.langgraph.short_names import packed, unpacked
from trails.model.iris import UNNAMED
from trails.model.values import Payload, PayloadReference, Turn

KEY: Final = "langgraph"
"""The key of a turn's metadata under which everything of this adapter is."""
_CLASSES: Final[dict[str, type[BaseMessage]]] = {
    kind.__name__: kind
    for kind in (
        kinds.HumanMessage, kinds.HumanMessageChunk, kinds.AIMessage, kinds.AIMessageChunk, kinds.SystemMessage,
        kinds.SystemMessageChunk, kinds.ToolMessage, kinds.ToolMessageChunk, kinds.ChatMessage, kinds.ChatMessageChunk,
    )
}  # fmt: skip
_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
REDACTED: Final = UNNAMED.encode()
"""What the bytes of a payload are after a redaction that could not take a text alone out of them."""
_EMPTY_PART: Final = {"type": "empty"}
_HIDDEN_PART: Final = {"type": "encrypted"}
_PAYLOAD: Final = "m"
_NAMES: Final = {
    "class": "c", "id": "i", "fields": "f", "extra": "e", "kind": "k", "content": "t", "tool_calls": "l", "usage": "u",
}  # fmt: skip
"""The names of what is said of a message, as they are stored."""
_CONTAINERS: Final = (dict, list)


class StoredMessage(NamedTuple):
    """A message as a turn keeps it: the message itself, which nobody else holds, or a serializer's bytes of it."""

    id: str | None
    message: BaseMessage | None
    exact: tuple[str, bytes] | None

    def holds(self, message: BaseMessage, serde: SerializerProtocol) -> bool:
        """Tell whether a message is just this one."""
        if self.message is not None:
            return are_equal(self.message, message)
        return serde.dumps_typed(message) == self.exact

    def fresh(self, serde: SerializerProtocol) -> BaseMessage:
        """Return the message as a value of its own, which its holder may change."""
        if self.message is not None:
            return copy_message(self.message)
        assert self.exact is not None  # noqa: S101 - one of the two
        message: BaseMessage = serde.loads_typed(self.exact)
        return message


def are_equal(one: BaseMessage, other: BaseMessage) -> bool:
    """Tell whether two messages are of one class and equal in all fields.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> are_equal(HumanMessage("a", id="1"), HumanMessage("a", id="1")), are_equal(HumanMessage("a"), AIMessage("a"))
    (True, False)
    """
    if one.__class__ is not other.__class__:
        return False
    try:
        return bool(one.__dict__ == other.__dict__ and one.__pydantic_extra__ == other.__pydantic_extra__)
    except (TypeError, ValueError):  # values that cannot be compared, such as arrays
        return False


def unchanged_length(kept: Sequence[StoredMessage], messages: Sequence[BaseMessage], serde: SerializerProtocol) -> int:
    """Return how many messages at the beginning are just those that are kept: all are looked at with every checkpoint."""
    count = 0
    try:
        for stored, message in zip(kept, messages, strict=False):
            own = stored.message
            if own is None or own.__class__ is not message.__class__:
                if not stored.holds(message, serde):
                    break
            elif own.__dict__ != message.__dict__ or own.__pydantic_extra__ != message.__pydantic_extra__:
                break
            count += 1
    except (TypeError, ValueError):  # values that cannot be compared, such as arrays
        pass
    return count


def copy_message(message: BaseMessage) -> BaseMessage:
    """Return a message that shares nothing with another one which can be changed."""
    copied = message.__copy__()
    fields = copied.__dict__
    for name, value in fields.items():
        if value.__class__ in _CONTAINERS:
            fields[name] = deepcopy(value) if value else value.copy()
    if extra := copied.__pydantic_extra__:
        copied.__pydantic_extra__ = deepcopy(extra)
    return copied


def is_messages(value: object) -> bool:
    """Tell whether a channel's value is a list of messages."""
    if value.__class__ is not list or not value:
        return False
    return all(issubclass(kind, BaseMessage) for kind in set(map(type, value)))


def is_plain(value: object) -> bool:
    """Tell whether a value comes back from JSON as it is.

    >>> is_plain({"a": [1, True, None, 0.5]}), is_plain({1: "a"}), is_plain(("a",)), is_plain(float("nan"))
    (True, False, False, False)
    """
    kind = value.__class__
    if kind is str:
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)  # type: ignore[attr-defined]
    if kind is float:
        return isfinite(value)  # type: ignore[arg-type]
    if kind is dict:
        return all(key.__class__ is str and is_plain(key) and is_plain(item) for key, item in value.items())  # type: ignore[attr-defined]
    if kind is list:
        return all(map(is_plain, value))  # type: ignore[call-overload]
    return value is None or kind is bool or (kind is int and -(2**63) <= value < 2**63)  # type: ignore[operator]


# --- writing


def message_turn(message: BaseMessage, serde: SerializerProtocol, *, is_native: bool) -> dict[str, Any]:
    """Return what `Session.append` is to be given for a message; if it is not `is_native`, only its role can be read."""
    role = _ROLES.get(message.type.removesuffix("MessageChunk").lower(), "assistant")
    if role == "tool" and not isinstance(message, ToolMessage):
        role = "assistant"
    if not is_native:
        return {"role": role, "content": [_HIDDEN_PART], **_exact(message, serde)}
    turn = _native_turn(message, role)
    about = _fields(message, turn)
    given = {"class": type(message).__name__, **about}
    if is_plain(given) and _comes_back(message, turn, given):
        turn["meta"] = {KEY: {"m": packed(given, _NAMES)}}
    else:
        turn |= _exact(message, serde)
    return turn


def message_record(message: BaseMessage) -> dict[str, Any] | None:
    """Return a message as JSON, for what is no turn yet; None if it would not come back exactly."""
    turn = _native_turn(message, "user")
    record = {"class": type(message).__name__, **_fields(message, turn)}
    if not (is_plain(record) and _comes_back(message, turn, record)):
        return None
    said = {name: turn[name] for name in ("content", "tool_calls", "usage") if turn.get(name)}
    return deepcopy(packed(record | said, _NAMES))


def message_of(record: Mapping[str, Any]) -> BaseMessage:
    """Return the message that a record says, as a value of its own."""
    said = unpacked(deepcopy(dict(record)), _NAMES)
    calls = [
        (call.get("id"), call.get("name", UNNAMED), call.get("arguments", {})) for call in said.get("tool_calls", ())
    ]
    return _readable(said, "assistant" if calls else "user", said.get("content", ""), calls, said.get("usage"))


def plain_turn(message: BaseMessage, turn: Mapping[str, Any], serde: SerializerProtocol) -> dict[str, Any]:
    """Return what to append instead of a turn that is refused: the message's text, and its bytes beside it."""
    return {"role": turn["role"], "content": str(message.text) or [_EMPTY_PART], **_exact(message, serde)}


def _exact(message: BaseMessage, serde: SerializerProtocol) -> dict[str, Any]:
    """Return the metadata and the payload of a turn that keeps a message as the serializer's bytes."""
    kind, data = serde.dumps_typed(message)
    payload = Payload(data=data, media_type=f"application/x-{kind}", name=_PAYLOAD)
    return {"meta": {KEY: {"m": packed({"id": message.id, "kind": kind}, _NAMES)}}, "payloads": [payload]}


def _native_turn(message: BaseMessage, role: str) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": role, "content": message.content}
    if isinstance(message.content, list):
        turn["as_content"] = True  # its calls are those that the message names
    if isinstance(message, AIMessage):
        if message.tool_calls and all(map(_is_native_call, message.tool_calls)):
            turn["tool_calls"] = [
                {"id": call["id"], "name": call["name"], "arguments": call["args"]} for call in message.tool_calls
            ]
        if message.usage_metadata and is_plain(message.usage_metadata):
            turn["usage"] = message.usage_metadata
        about = message.response_metadata
        for name, keys in (("model", ("model_name", "model")), ("stop_reason", ("finish_reason", "stop_reason"))):
            told = next((about[key] for key in keys if about.get(key)), None)
            if isinstance(told, str) and 0 < len(told) <= 200:
                turn[name] = told
    elif isinstance(message, ToolMessage) and message.tool_call_id:
        turn |= {"tool_call_id": message.tool_call_id, "is_error": message.status == "error"}
    if not turn["content"] and not turn.keys() & {"tool_calls", "usage", "stop_reason", "tool_call_id"}:
        turn["content"] = [_EMPTY_PART]
    return turn


def _is_native_call(call: Mapping[str, Any]) -> bool:
    return bool(call["id"] and call["name"]) and is_plain(call["args"]) and call.get("type") == "tool_call"


def _fields(message: BaseMessage, turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message that its turn does not say."""
    said = {"type"} | turn.keys() & {"tool_calls"}
    if turn["content"] is message.content:
        said.add("content")
    if "usage" in turn:
        said.add("usage_metadata")
    fields = {name: value for name, value in message.__dict__.items() if name not in said and not _says_nothing(value)}
    if isinstance(message, ToolMessage) and message.status == "success":
        del fields["status"]
    given: dict[str, Any] = {"id": fields.pop("id", None), "fields": fields}
    if extra := message.__pydantic_extra__:
        given["extra"] = extra
    return given


def _says_nothing(value: object) -> bool:
    return value is None or (value.__class__ in _CONTAINERS and not value)


def _comes_back(message: BaseMessage, turn: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    if type(message) is not _CLASSES.get(type(message).__name__) or not is_plain(message.content):
        return False
    calls = [(call["id"], call["name"], call["arguments"]) for call in turn.get("tool_calls", ())]
    try:
        return are_equal(message, _message(given, turn["content"], calls, turn.get("usage")))
    except (TypeError, ValueError):
        return False


# --- reading


def stored_message(turn: Turn, read: Callable[[PayloadReference], bytes]) -> StoredMessage:
    """Return the message that a turn keeps, whose payload `read` reads; of a redacted turn, what is left of it."""
    record = turn.meta.get(KEY) or turn.meta.get(UNNAMED)  # if a redaction took the key's name
    stored = record.get("m") if isinstance(record, dict) else None
    given = unpacked(stored, _NAMES) if isinstance(stored, dict) else {}
    if "kind" in given and (payload := payload_named(turn, _PAYLOAD)) is not None and read(payload) != REDACTED:
        return StoredMessage(given["id"], None, (given["kind"], read(payload)))
    calls = [(call.id, call.name, call.input) for call in turn.tool_calls]
    usage = turn.usage or None
    content: Any = "" if turn.content is None else turn.content
    answers = turn.tool_results[0].call_id if turn.tool_results else ""
    message = _readable(given, turn.role, content, calls, usage, answers=answers)
    return StoredMessage(message.id, message, None)


def payload_named(turn: Turn, name: str) -> PayloadReference | None:
    """Return a turn's payload of a name; None if it has none, or that was redacted."""
    return next((each for each in turn.payloads if each.name == name and each.digest is not None), None)


def _message(given: Mapping[str, Any], content: Any, calls: list[tuple[str, str, Any]], usage: Any) -> BaseMessage:
    kind = _CLASSES.get(given.get("class", ""))
    if kind is None:
        raise ValueError("the metadata names no class of message")
    others = [each for each in (given.get("fields"), given.get("extra")) if isinstance(each, dict)]
    fields = {"content": content, "id": given.get("id")} | {name: each[name] for each in others for name in each}
    if issubclass(kind, AIMessage):
        fields.setdefault(
            "tool_calls", [{"name": name, "args": args, "id": id_, "type": "tool_call"} for id_, name, args in calls]
        )
        fields.setdefault("usage_metadata", usage)
    return kind(**fields)


def _readable(
    given: Mapping[str, Any],
    role: str,
    content: Any,
    calls: list[tuple[str, str, Any]],
    usage: Any,
    *,
    answers: str = "",
) -> BaseMessage:
    """Return the message that is said; if a redaction damaged its metadata, what its turn says of it."""
    try:
        return _message(given, content, calls, usage)
    except (TypeError, ValueError):
        kind = {"user": "HumanMessage", "tool": "ToolMessage", "system": "SystemMessage"}.get(role, "AIMessage")
    said: dict[str, Any] = {"class": kind, "id": given.get("id")}
    said["fields"] = {"tool_call_id": answers} if kind == "ToolMessage" else {}
    try:
        return _message(said, content, calls, usage)
    except (TypeError, ValueError):  # the counts of its usage, or its calls
        return _message(said, content, [], None)


def turn_again(turn: Turn, read: Callable[[PayloadReference], bytes]) -> dict[str, Any]:
    """Return what `Session.append` is to be given for a copy of a message's turn, whose payloads `read` reads."""
    given: dict[str, Any] = {
        "role": turn.role,
        "content": turn.content or ("" if turn.tool_calls or turn.tool_results else [_EMPTY_PART]),
        "time": turn.time,
        "model": turn.model,
        "usage": turn.usage or None,
        "stop_reason": turn.stop_reason,
        "meta": dict(turn.meta),
        "payloads": [
            Payload(data=read(each), media_type=each.media_type, name=each.name)
            for each in turn.payloads
            if each.digest is not None
        ],
    }
    if not isinstance(given["content"], str):
        given["as_content"] = True
    given["tool_calls"] = turn.tool_calls
    if turn.tool_results:
        given |= {"tool_call_id": turn.tool_results[0].call_id, "is_error": turn.tool_results[0].is_error}
    return given
