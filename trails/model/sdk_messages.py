"""What model APIs and their SDKs give, read as turns: replies, messages and whole histories, by shape alone.

Known are OpenAI's chat completions and responses and Anthropic's messages, and the shapes of
`trails.model.message_shapes`, as the
SDKs' objects or as plain data. No SDK is imported: an object is what its `model_dump`, its dataclass fields or its attributes
say. What a turn has no place for (ids, annotations, unknown fields) goes into its metadata under `api`, so that nothing is
lost; what a request only echoes is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import wraps
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, TypeVar, runtime_checkable

from trails.errors import InvalidInput
from trails.model import message_shapes, validation
from trails.model.values import ToolCall

API: Final = "api"
"""The key of a turn's metadata for what its message held beside content, calls, usage, model and stop reason."""
SYSTEM_ROLES: Final = frozenset({"system", "developer"})

_P = ParamSpec("_P")
_R = TypeVar("_R")
_ECHOED: Final = frozenset({"type", "index", "object", "parsed", "parsed_output", "parsed_arguments"})
"""What says nothing of its own: kinds, places in a list, and what an SDK derived from the text."""
_OF_A_RESPONSE: Final = (
    "id", "service_tier", "error", "incomplete_details", "previous_response_id", "conversation", "metadata",
    "moderation", "completed_at",
)  # fmt: skip
"""What a response says of itself; all else in it repeats the request."""


@runtime_checkable
class Dumped(Protocol):
    """An object of an SDK: `model_dump` gives it as plain data."""

    def model_dump(self) -> dict[str, Any]:
        """Return it as plain data."""
        ...


class Given(NamedTuple):
    """A message as `Session.append` takes it."""

    role: str
    content: str | list[Any]
    options: dict[str, Any]
    """Those of append's options that the message gives."""


def plain(value: Any) -> Any:
    """Return a value with each object of an SDK in it as plain data; what has another type stays as it is."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, type) else _object(value)


def _object(value: Any) -> Any:
    """Return an object whose class says what its fields are as plain data; any other as it is."""
    if isinstance(value, Dumped):
        try:
            made = value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)  # type: ignore[call-arg]
        except TypeError:  # one that takes no options
            made = value.model_dump()
        kind = getattr(value, "type", None)  # LangChain's messages have it by default, which is unset
        return plain({"type": kind, **made} if isinstance(kind, str) and isinstance(made, Mapping) else made)
    if isinstance(value, SimpleNamespace):
        return plain(vars(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if each.name[:1] != "_"}
    return value.isoformat() if isinstance(value, datetime) else value


def of_attributes(value: Any) -> Any:
    """Return an object that has its fields as attributes as plain data, with those that it holds; any other as it is."""
    if isinstance(value, list | tuple):
        return [of_attributes(each) for each in value]
    if isinstance(value, Mapping):
        return {key: of_attributes(each) for key, each in value.items()}
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict) or isinstance(value, type) or callable(value):
        return plain(value)
    return {key: of_attributes(each) for key, each in held.items() if key[:1] != "_"}


def _not_too_deep(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse what is nested deeper than Python goes."""

    @wraps(function)
    def refusing(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise InvalidInput("the message is nested too deeply: it cannot be kept as JSON") from None

    return refusing


@_not_too_deep
def read(message: object) -> Given:
    """Return one message, or one reply with all that stands around it, as a turn takes it.

    Raises `InvalidInput` for what is no message, for several choices, for a chunk of a stream and for former shapes.

    >>> read({"role": "assistant", "content": None, "refusal": "No."}).content
    [{'type': 'refusal', 'refusal': 'No.'}]
    """
    given = _read_all(message)
    if len(given) != 1:
        raise InvalidInput(
            f"this is not one message but {len(given)} ({', '.join(each.role for each in given)}): give [message] to extend()"
        )
    return given[0]


def _read_all(message: object) -> list[Given]:
    """Return one message as the turns that it makes: one, or several where it holds calls and their results."""
    value = _fields(message)
    if isinstance(value.get("choices"), list):
        return [_completion(value)]
    if isinstance(value.get("message"), Mapping) and "role" not in value:
        return [_choice(value, {})]
    if isinstance(value.get("output"), list) and "role" not in value and "call_id" not in value:
        return [_response(value)]
    is_item = value.get("type") == "message" and "role" in value and not _is_reply(value)
    is_item = is_item and not message_shapes.is_agent_framework(value)
    if not is_item and message_shapes.is_message(value) and not message_shapes.is_item(value):
        return [_message(each) for each in message_shapes.chat(value)]
    if "role" in value and not is_item:
        return [_message(value)]
    if isinstance(value.get("type"), str) and value["type"] not in validation.KNOWN_ROLES:
        return [_item(value)]
    raise InvalidInput(f"a message has a role, or is an item with a type; this has {_names(value)}")


def _fields(message: object) -> Mapping[str, Any]:
    """Return a message as plain data; raise `InvalidInput` for what is none."""
    value = plain(message)
    if isinstance(value, Mapping):
        return value
    if isinstance(getattr(value, "role", None), str) or isinstance(getattr(value, "content", None), str | list):
        names = ("role", "type", "content", "tool_calls", "tool_call_id", "name")
        held = of_attributes(value)
        told = held if isinstance(held, dict) else {}
        return {name: each for name in names if (each := of_attributes(getattr(value, name, None))) is not None} | told
    hint = ": a list of them goes to extend()" if isinstance(value, list) else ""
    raise InvalidInput(
        f"a message must be a mapping, an object of an SDK, or one with the attributes role and content, not "
        f"{type(value).__name__}{hint}"
    )


@_not_too_deep
def history(messages: object) -> list[Given]:
    """Return each message of a list as a turn takes it; raise `InvalidInput` for what is no list of messages."""
    if isinstance(messages, str | bytes | Mapping | Dumped) or not isinstance(messages, Iterable):
        raise InvalidInput(
            f"a history is a list of messages, not {type(messages).__name__}; one goes to append_message()"
        )
    made = []
    for number, message in enumerate(messages):
        try:
            made += _read_all(message)
        except InvalidInput as error:
            raise InvalidInput(f"message {number} of the history cannot be taken: {error}") from error
    return made


@_not_too_deep
def taken(role: object, content: object, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return content and options of a turn as `Session.append` was given them, with what a reply among them says.

    An option that the caller gives stands before what the reply says. Raises `InvalidInput` where role, calls or the call
    that is answered contradict the reply.
    """
    if isinstance(options["usage"], Dumped):
        options["usage"] = plain(options["usage"])
    calls = options["tool_calls"]
    if isinstance(calls, Iterable):
        calls = tuple(call if isinstance(call, ToolCall) else plain(call) for call in calls)
    options["tool_calls"] = () if calls is None else calls
    if content is None:
        return "", options
    if isinstance(content, list | tuple):
        return [_cleaned(plain(part)) if isinstance(part, Dumped) else part for part in content], options
    if not isinstance(content, Mapping | Dumped):
        return content, options
    given = read(content)
    if given.role != role:
        raise InvalidInput(
            f"the message is one of role {given.role!r}, not {role!r}; append_message() takes it as it is"
        )
    for name in ("tool_calls", "tool_call_id"):
        if options[name] and given.options.get(name):
            raise InvalidInput(f"the message has {name} of its own; leave the option out")
    return given.content, merged(given.options, options)


def merged(said: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a message says, with what a caller gives in its place; metadata stands side by side."""
    made = {**said, **{name: value for name, value in given.items() if value not in (None, (), False)}}
    if said.get("meta") and given.get("meta"):
        made["meta"] = {**said["meta"], **given["meta"]}
    return made


def prompt_of(given: Given) -> str:
    """Return the text of a system message; raise `InvalidInput` for one that holds anything else."""
    if isinstance(given.content, str):
        return given.content
    texts = [part if isinstance(part, str) else part.get("text") for part in given.content]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput("a system prompt is text; this one has other parts")
    return "\n".join(str(text) for text in texts)


# --- replies: what stands around a message


def _completion(value: Mapping[str, Any]) -> Given:
    choices = value["choices"]
    if len(choices) != 1:
        raise InvalidInput(
            f"a completion with {len(choices)} choices is not one message; append the `.message` of one of its choices"
        )
    if "delta" in choices[0]:
        raise InvalidInput(
            "this is a chunk of a stream: write its text to session.streaming(), or append the whole message"
        )
    said = {key: each for key, each in value.items() if key not in ("choices", "model", "usage", "created")}
    return _choice(choices[0], said | {"model": value.get("model"), "usage": value.get("usage")})


def _choice(choice: Mapping[str, Any], said: Mapping[str, Any]) -> Given:
    around = {key: each for key, each in choice.items() if key not in ("message", "finish_reason")}
    return _message({**said, **around, **choice["message"], "stop_reason": choice.get("finish_reason")})


def _response(value: Mapping[str, Any]) -> Given:
    why = value.get("incomplete_details")
    reason = why.get("reason") if isinstance(why, Mapping) else None
    said = {name: value.get(name) for name in _OF_A_RESPONSE}
    options = _options(said, value.get("model"), value.get("usage"), reason or value.get("status"))
    return Given("assistant", [_cleaned(item) for item in value["output"]], options)


def _item(value: Mapping[str, Any]) -> Given:
    """Return an item of a response, or of what a response is asked for."""
    kind = value["type"]
    if kind == "message":
        role = value.get("role")
        return Given(role if isinstance(role, str) else "assistant", [_cleaned(value)], {})
    if kind.endswith("_output"):
        return Given("tool", [_cleaned(value)], {})
    return Given("user" if kind == "mcp_approval_response" else "assistant", [_cleaned(value)], {})


# --- messages

_TAKEN: Final = frozenset(
    {
        *("role", "content", "tool_calls", "tool_call_id", "refusal", "model", "usage", "stop_reason", "function_call"),
        "is_error",
    }
)


def _is_reply(value: Mapping[str, Any]) -> bool:
    """Tell a reply of Anthropic's from a message among a response's items, which has the same type."""
    return "usage" in value or "stop_reason" in value


def _message(value: Mapping[str, Any]) -> Given:
    role = value["role"]
    if role == "function" or value.get("function_call"):
        raise InvalidInput("functions are OpenAI's former shape; give `tool_calls`, and answers in the role 'tool'")
    if not isinstance(role, str):
        raise InvalidInput(f"a message's role must be text, not {type(role).__name__}")
    said = {key: each for key, each in value.items() if key not in _TAKEN}
    content = value.get("content")
    if content is not None and not isinstance(content, str | list):
        raise InvalidInput(f"a message's content must be text or a list of parts, not {type(content).__name__}")
    parts = _parts(content) if isinstance(content, list) else []
    extra = [{"type": "refusal", "refusal": value["refusal"]}] if value.get("refusal") else []
    calls, customs, said["calls"] = _calls(value.get("tool_calls") or ())
    if extra or customs:
        parts = [*(parts or ([{"type": "text", "text": content}] if content else [])), *extra, *customs]
    options = _options(said, value.get("model"), value.get("usage"), value.get("stop_reason"))
    if calls:
        options["tool_calls"] = calls
    if value.get("tool_call_id") is not None:
        options["tool_call_id"] = value["tool_call_id"]
        if value.get("is_error") is True:
            options["is_error"] = True
    role = validation.standard_role(role) or role
    if (
        role == "user"
        and parts
        and all(part.get("type") == "tool_result" for part in parts if isinstance(part, Mapping))
    ):
        role = "tool"
    return Given(role, parts if parts or isinstance(content, list) else content or "", options)


def _calls(given: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Return calls of functions, or all calls as parts where one is of a custom tool, and what else is said of each, by id."""
    calls, as_parts, extras, custom = [], [], {}, False
    for call in given:
        if not isinstance(call, Mapping):
            raise InvalidInput(f"a tool call must be a mapping, not {type(call).__name__}")
        if isinstance(call.get("custom"), Mapping):
            custom = True
            as_parts.append({"type": "custom_tool_call", "call_id": call.get("id"), **call["custom"]})
            continue
        calls.append(call)
        as_parts.append({"type": "function_call", "call_id": call.get("id"), **(call.get("function") or {})})
        extra = {key: each for key, each in call.items() if key not in ("id", "type", "function", "index") and each}
        if extra and "function" in call:
            extras[str(call.get("id"))] = extra
    return ([], as_parts, extras) if custom else (calls, [], extras)


def _options(said: Mapping[str, Any], model: Any, usage: Any, stop_reason: Any) -> dict[str, Any]:
    made = {"model": model, "usage": usage, "stop_reason": stop_reason}
    options = {name: value for name, value in made.items() if value is not None}
    kept = {key: each for key, each in said.items() if key not in _ECHOED and each not in (None, [], {})}
    return options | ({"meta": {API: kept}} if kept else {})


def _parts(parts: Iterable[Any]) -> list[Any]:
    return [part if isinstance(part, str) else _cleaned(plain(part)) for part in parts]


def _cleaned(part: Any) -> Any:
    """Return a part without empty fields that an SDK's object has, and without what the SDK derived."""
    if not isinstance(part, Mapping):
        return part
    return {
        key: _within(each) for key, each in part.items() if each is not None and key not in _ECHOED - {"type", "index"}
    }


def _within(value: Any) -> Any:
    """Return the parts of a message among a response's items without what the SDK derived."""
    if not isinstance(value, list) or not any(isinstance(each, Mapping) and "parsed" in each for each in value):
        return value
    return [_cleaned(each) for each in value]


def _names(value: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, list(value)[:6])) or "nothing"
