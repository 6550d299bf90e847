"""Messages of other frameworks in the shape of OpenAI's chat: told by their fields alone.

Known are LangChain's messages (plain, and as `messages_to_dict` and `dumpd` write them), pydantic-ai's, those of Microsoft's
Agent Framework, UI and model messages of Vercel's AI SDK, contents of Gemini, messages of Bedrock, and those with a `text`. A
message that holds calls and their results becomes several: the assistant's with the calls, one of the role `tool` for each
result, and what was said after. Other fields of a message stay beside it. Only empty fields and markers of steps are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trails.model import validation
from trails.usage import with_source

_Json = dict[str, Any]
_Fields = Mapping[str, Any]

_CONTENT: Final = ("content", "value", "text", "message")
"""Where a message has what it says; the first one that is there counts."""
LANGCHAIN: Final = frozenset(
    {"human", "ai", "system", "tool", "function", "chat", "HumanMessageChunk", "AIMessageChunk"}
)
"""The types of LangChain's messages."""
_WRAPPER: Final = frozenset({"lc", "type", "id", "kwargs", "data"})
"""What stands around a message as LangChain's `dumpd` and `messages_to_dict` write it."""
_ITEMS: Final[Mapping[str, frozenset[str]]] = {
    "message": frozenset({"role"}),
    "reasoning": frozenset({"summary", "encrypted_content"}),
    "compaction": frozenset({"encrypted_content"}),
}
"""Types of OpenAI's response items, beside those of calls, and what such an item has."""
_UI_CALLS: Final = ("tool-", "dynamic-tool")
_UI_OWN: Final = frozenset(
    {"type", "toolName", "toolCallId", "state", "input", "args", "rawInput", "output", "result", "errorText"}
)
_DENIED: Final = "output-denied"


def is_item(message: _Fields) -> bool:
    """Tell whether a mapping is an item of OpenAI's Responses API other than a message with a role."""
    kind, keys = message.get("type"), message.keys()
    if not isinstance(kind, str) or is_agent_framework(message):
        return False
    if kind in _ITEMS:
        return bool(keys & _ITEMS[kind])
    return kind.endswith(("_call", "_call_output")) and ("call_id" in keys or {"id", "status"} <= keys)


def is_reply(message: _Fields) -> bool:
    """Tell whether a mapping is a whole response of OpenAI's Responses API."""
    return message.get("object") == "response" and isinstance(message.get("output"), list)


def _reply(response: _Fields) -> _Json:
    own = {"role": "assistant", "content": response["output"], "stop_reason": response.get("status")}
    return own | {key: value for key, value in response.items() if key not in ("output", "status", "object")}


def is_message(value: object) -> bool:
    """Tell whether a value looks like a message in any shape that is known.

    >>> is_message({"role": "user", "parts": []}), is_message({"type": "ai", "content": "a"}), is_message({"messages": []})
    (True, True, False)
    """
    if not isinstance(value, Mapping):
        return False
    keys = value.keys()
    if is_agent_framework(value):
        return True
    if isinstance(value.get("role", value.get("from")), str) and "info" not in keys:
        return bool(keys & {*_CONTENT, "parts", "tool_calls", "function_call", "toolInvocations", "refusal"})
    return is_item(value) or is_reply(value) or _langchain(value) is not None or _is_pydantic(value)


def chat(message: _Fields) -> list[_Json]:
    """Return a message in OpenAI's shape, or as several of that; one that has the shape already is returned as it is.

    >>> chat({"type": "human", "content": "Hi"})
    [{'role': 'user', 'content': 'Hi'}]
    >>> ui = [{"type": "tool-ls", "toolCallId": "c1", "state": "output-available", "input": {}, "output": "a"}]
    >>> [each["role"] for each in chat({"role": "assistant", "parts": [*ui, {"type": "text", "text": "One file"}]})]
    ['assistant', 'tool', 'assistant']
    """
    if (lang := _langchain(message)) is not None:
        return [lang]
    if _is_pydantic(message):
        return _pydantic(message)
    if is_agent_framework(message):
        return _agent_framework(message)
    role = message.get("role", message.get("from"))
    given = {key: value for key, value in message.items() if key not in ("role", "from")}
    if (parts := _parts_of(message, given)) is not None:
        return _in_parts(role if isinstance(role, str) else "user", parts, given)
    if not isinstance(role, str):
        return [_reply(message) if is_reply(message) else dict(message)]
    name = next((name for name in _CONTENT if name in given), None)
    return [{"role": role, "content": given.pop(name) if name else None} | given]


def _parts_of(message: _Fields, given: _Json) -> list[Any] | None:
    """Return the parts of a message that is told in them, and take them out of what is given; None for any other."""
    parts, content = message.get("parts"), message.get("content")
    has_role = isinstance(message.get("role", message.get("from")), str)
    if isinstance(parts, list) and (has_role or _has_gemini_parts(parts)):
        return parts
    if has_role and isinstance(message.get("toolInvocations"), list):
        old = [{"type": "tool-invocation", "toolInvocation": each} for each in given.pop("toolInvocations")]
        text = given.pop("content", "")
        return [*old, *([{"type": "text", "text": text}] if text else [])]
    if has_role and isinstance(content, list) and any(_is_foreign(part) for part in content):
        del given["content"]
        return content
    return None


# --- LangChain


def _langchain(message: _Fields) -> _Json | None:
    kind, held = message.get("type"), message
    if kind is None:
        return None
    if kind == "constructor" and isinstance(message.get("kwargs"), dict):
        names = message.get("id")
        held = message["kwargs"]
        kind = held.get("type") or (names[-1] if isinstance(names, list) and names else None)
    elif isinstance(message.get("data"), dict) and "content" in message["data"]:
        held = message["data"]
    if not isinstance(kind, str) or "content" not in held or (held is message and "role" in held and kind != "chat"):
        return None
    role = held.get("role") if kind in ("chat", "ChatMessage") else validation.standard_role(kind)
    if role is None or (held is message and kind not in LANGCHAIN):
        return None
    said = {key: value for key, value in held.items() if key not in ("type", "role")}
    made: _Json = {"role": role, "content": said.pop("content")}
    calls, extra = said.pop("tool_calls", None), said.get("additional_kwargs")
    if isinstance(extra, dict) and "tool_calls" in extra:
        calls = calls or extra["tool_calls"]
        said["additional_kwargs"] = {key: value for key, value in extra.items() if key != "tool_calls"}
    if isinstance(made["content"], list):
        made["content"] = _without(made["content"], calls)
    if calls:
        made["tool_calls"] = [_call_of(each) for each in calls] if isinstance(calls, list) else calls
    meta = said.get("response_metadata")
    about = meta if isinstance(meta, dict) else {}
    usage = said.pop("usage_metadata", None)
    made["usage"] = (
        with_source(usage, "langchain") if isinstance(usage, dict) else about.get("token_usage") or about.get("usage")
    )
    made["model"] = about.get("model_name") or about.get("model")
    made["stop_reason"] = about.get("finish_reason") or about.get("stop_reason")
    if said.get("status") == "error":
        made["is_error"] = True
    around = {} if held is message else {key: message[key] for key in message if key not in _WRAPPER}
    beside = {key: value for key, value in (around | said).items() if value not in (None, [], {}, False)}
    return {key: value for key, value in made.items() if value is not None or key == "content"} | beside


def _without(parts: list[Any], calls: object) -> list[Any]:
    """Return parts without those that repeat calls, as LangChain keeps Anthropic's beside its own."""
    asked = [each.get("id") for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []
    return [
        part
        for part in parts
        if not (
            isinstance(part, dict)
            and part.get("type") in ("tool_use", "tool_call", "function_call")
            and (part.get("id") or part.get("call_id")) in asked
        )
    ]


def _call_of(call: object) -> object:
    """Return a call of LangChain's or the AI SDK's in OpenAI's shape; any other as it is."""
    if not isinstance(call, dict) or "function" in call or "args" not in call:
        return call
    beside = {key: value for key, value in call.items() if key not in ("name", "args", "id", "type")}
    return _asked(call.get("id"), call.get("name"), call["args"]) | beside


def _asked(identity: object, name: object, arguments: object) -> _Json:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


# --- messages that are told in parts


@dataclass(slots=True)
class _Said:
    """A message in parts, on its way to several."""

    role: str
    beside: _Json
    """What stands beside the first of them."""
    made: list[_Json] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    calls: list[_Json] = field(default_factory=list)
    answers: list[_Json] = field(default_factory=list)

    def part(self, part: Any, role: str | None = None) -> None:
        """Add a part that is said; what stands after an answer, or is said by somebody else, is a message of its own."""
        if self.answers or (role is not None and role != self.role):
            self.step()
        self.role = role or self.role
        self.parts.append(part)

    def call(self, identity: object, name: object, arguments: object, beside: _Json) -> None:
        self.calls.append(_asked(identity, name, arguments) | beside)

    def answer(self, identity: object, content: object, beside: _Json, *, is_error: bool) -> None:
        failed = {"is_error": True} if is_error else {}
        if isinstance(content, str):
            named = {} if identity is None else {"tool_call_id": identity}
            self.answers.append({"role": "tool", "content": content} | named | failed | beside)
        else:
            part = {"type": "tool_call_response", "id": identity, "response": content} | failed
            self.answers.append({"role": "tool", "content": [part]} | beside)

    def step(self) -> None:
        """End the message with its answers."""
        if self.parts or self.calls:
            only = self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], dict) else {}
            is_text = only.keys() == {"type", "text"} and only["type"] == "text"
            message = {"role": self.role, "content": only["text"] if is_text else self.parts or ""}
            self.made.append(message | ({"tool_calls": self.calls} if self.calls else {}))
        self.made += self.answers
        self.parts, self.calls, self.answers = [], [], []

    def messages(self) -> list[_Json]:
        """Return them all: one without content where nothing was said."""
        self.step()
        if not self.made:
            self.made.append({"role": self.role, "content": ""})
        self.made[0] = self.made[0] | {key: value for key, value in self.beside.items() if key not in self.made[0]}
        return self.made


def _is_foreign(part: object) -> bool:
    """Tell whether a part of a message's content is the AI SDK's or Bedrock's."""
    if not isinstance(part, dict):
        return False
    return part.get("type") in ("tool-call", "tool-result") or (
        "type" not in part and bool(part.keys() & _BEDROCK.keys())
    )


def _has_gemini_parts(parts: list[Any]) -> bool:
    return any(isinstance(part, dict) and "type" not in part and part.keys() & _GEMINI.keys() for part in parts)


def _in_parts(role: str, parts: Sequence[Any], given: _Json) -> list[_Json]:
    texts = "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
    beside = {key: value for key, value in given.items() if key not in ("parts", "toolInvocations")}
    if beside.get("content") in (None, "", [], texts):
        beside.pop("content", None)  # older SDKs say it again beside the parts
    elif "content" in beside:
        beside["text"] = beside.pop("content")
    said = _Said(role, beside)
    for part in parts:
        if not isinstance(part, dict):
            said.part({"type": "text", "text": part} if isinstance(part, str) else part)
        elif (take := _taker(part)) is not None:
            take(said, part)
        else:
            said.part(_plain_part(part))
    return said.messages()


def _taker(part: _Fields) -> Callable[[_Said, _Json], None] | None:
    """Return what reads a part that calls, answers or parts steps; None for any other."""
    kind = part.get("type")
    if kind is None:
        return next((take for name, take in (_GEMINI | _BEDROCK).items() if isinstance(part.get(name), dict)), None)
    if not isinstance(kind, str):
        return None
    if kind == "step-start":
        return lambda said, _: said.step()
    if kind in _TYPED:
        return _TYPED[kind]
    if kind.startswith(_UI_CALLS) and ("toolCallId" in part or "state" in part):
        return _ui_call
    return None


def _plain_part(part: _Json) -> _Json:
    """Return a part of text, thought or picture as OpenAI's parts are; any other as it is."""
    kind = part.get("type")
    if kind is None and isinstance(part.get("text"), str):
        is_thought = part.get("thought") is True
        more = {key: value for key, value in part.items() if key not in ("text", "thought")}
        return {"type": "reasoning" if is_thought else "text", "text": part["text"]} | more
    if kind in ("text", "reasoning"):
        done = {key: value for key, value in part.items() if (key, value) != ("state", "done")}
        if kind == "reasoning" and "text" not in done and isinstance(said := done.pop("reasoning", None), str):
            done = {"type": kind, "text": said} | done
            if done.get("details") == [{"type": "text", "text": said}]:
                del done["details"]
        return done
    media = part.get("mediaType", part.get("mimeType"))
    if kind == "file" and isinstance(media, str) and media.startswith("image/") and isinstance(part.get("url"), str):
        more = {key: value for key, value in part.items() if key not in ("type", "url")}
        return {"type": "image_url", "image_url": {"url": part["url"]}} | more
    return part


def _ui_call(said: _Said, part: _Json) -> None:
    """Take a tool part of a UI message: its call, and its result where it has one."""
    kind, state, identity = part["type"], part.get("state"), part.get("toolCallId")
    name = part.get("toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")
    beside = {key: value for key, value in part.items() if key not in _UI_OWN and value is not None}
    said.call(identity, name, part.get("input", part.get("rawInput")), beside)
    if state == "output-error" or (state is None and part.get("errorText")):
        said.answer(identity, part.get("errorText") or "", {}, is_error=True)
    elif state == _DENIED:
        approval = part.get("approval")
        why = approval.get("reason") if isinstance(approval, dict) else None
        said.answer(identity, why or "", {}, is_error=True)
    elif state == "output-available" or (state is None and "output" in part):
        said.answer(identity, part.get("output"), {}, is_error=False)


def _ui_invocation(said: _Said, part: _Json) -> None:
    """Take a call as UI messages had it before: its own object, with the number of its step."""
    held = part.get("toolInvocation")
    if not isinstance(held, dict):
        said.part(part)
        return
    if said.answers and isinstance(step := held.get("step"), int) and step != said.answers[-1].get("step"):
        said.step()
    identity = held.get("toolCallId")
    beside = {key: value for key, value in held.items() if key not in _UI_OWN}
    said.call(identity, held.get("toolName"), held.get("args"), beside)
    if "result" in held:
        step_of = {"step": held["step"]} if "step" in held else {}
        said.answer(identity, held["result"], step_of, is_error=False)


def _sdk_call(said: _Said, part: _Json) -> None:
    beside = {key: value for key, value in part.items() if key not in _UI_OWN}
    said.call(part.get("toolCallId"), part.get("toolName"), part.get("input", part.get("args")), beside)


def _sdk_result(said: _Said, part: _Json) -> None:
    output = part.get("output", part.get("result"))
    failed = part.get("isError") is True
    if isinstance(output, dict) and "value" in output and isinstance(output.get("type"), str):
        failed = failed or output["type"].startswith("error")
        output = output["value"]
    beside = {"name": part["toolName"]} if isinstance(part.get("toolName"), str) else {}
    more = {key: value for key, value in part.items() if key not in {*_UI_OWN, "isError"}}
    said.answer(part.get("toolCallId"), output, beside | more, is_error=failed)


def _gemini_call(said: _Said, part: _Json) -> None:
    held = part["functionCall"] if "functionCall" in part else part["function_call"]
    beside = {key: value for key, value in part.items() if key not in ("functionCall", "function_call")}
    arguments = {} if held.get("args") is None else held["args"]
    said.call(held.get("id"), held.get("name"), arguments, beside)


def _gemini_answer(said: _Said, part: _Json) -> None:
    held = part["functionResponse"] if "functionResponse" in part else part["function_response"]
    beside = {key: value for key, value in part.items() if key not in ("functionResponse", "function_response")}
    said.answer(held.get("id"), held.get("response"), {"name": held.get("name")} | beside, is_error=False)


def _bedrock_call(said: _Said, part: _Json) -> None:
    held = part["toolUse"]
    said.call(held.get("toolUseId"), held.get("name"), held.get("input"), {})


def _bedrock_answer(said: _Said, part: _Json) -> None:
    held = part["toolResult"]
    content = held.get("content")
    only = content[0] if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) else {}
    body = only["text"] if only.keys() == {"text"} else content
    said.answer(held.get("toolUseId"), body, {}, is_error=held.get("status") == "error")


_GEMINI: Final[dict[str, Callable[[_Said, _Json], None]]] = {
    "functionCall": _gemini_call,
    "function_call": _gemini_call,
    "functionResponse": _gemini_answer,
    "function_response": _gemini_answer,
}
_BEDROCK: Final[dict[str, Callable[[_Said, _Json], None]]] = {"toolUse": _bedrock_call, "toolResult": _bedrock_answer}
_TYPED: Final[dict[str, Callable[[_Said, _Json], None]]] = {
    "tool-invocation": _ui_invocation,
    "tool-call": _sdk_call,
    "tool-result": _sdk_result,
}


# --- pydantic-ai


def _is_pydantic(message: _Fields) -> bool:
    parts = message.get("parts")
    return (
        message.get("kind") in ("request", "response")
        and isinstance(parts, list)
        and all(isinstance(part, dict) and isinstance(part.get("part_kind"), str) for part in parts)
    )


_PYDANTIC_OWN: Final = frozenset({"part_kind", "content", "tool_name", "args", "tool_call_id"})


def _pydantic(message: _Fields) -> list[_Json]:
    named = {"model_name": "model", "usage": "usage", "finish_reason": "stop_reason"}
    beside = {named.get(key, key): value for key, value in message.items() if key not in ("parts", "kind")}
    beside = {key: value for key, value in beside.items() if value not in (None, [], {})}
    said = _Said("assistant" if message["kind"] == "response" else "user", beside)
    for part in message["parts"]:
        _pydantic_part(said, part)
    return said.messages()


def _pydantic_part(said: _Said, part: _Json) -> None:
    kind, content = part["part_kind"], part.get("content")
    more = {key: value for key, value in part.items() if key not in _PYDANTIC_OWN and value is not None}
    if more.get("scope") == "conversation":  # what is not said of a prompt
        del more["scope"]
    identity = part.get("tool_call_id")
    if kind.endswith("tool-call"):
        said.call(identity, part.get("tool_name"), part.get("args"), more)
    elif kind.endswith("tool-return"):
        failed = more.get("outcome", "success") != "success"
        said.answer(identity, content, {"name": part.get("tool_name")} | more, is_error=failed)
    elif kind == "retry-prompt" and part.get("tool_name") is not None:
        said.answer(identity, content, {"name": part["tool_name"]} | more, is_error=True)
    else:
        role = "system" if kind == "system-prompt" else said.role if said.role == "assistant" else "user"
        for each in _pydantic_contents(kind, content, part, more):
            said.part(each, role)


def _pydantic_contents(kind: str, content: object, part: _Json, more: _Json) -> Iterator[Any]:
    if kind != "thinking" and isinstance(content, str):
        yield {"type": "text", "text": content} | {key: value for key, value in more.items() if key != "timestamp"}
    elif kind == "thinking":
        yield {"type": "reasoning", "text": content or ""} | more
    elif kind == "user-prompt" and isinstance(content, list):
        for each in content:
            yield {"type": "text", "text": each} if isinstance(each, str) else each
    else:
        yield {"type": kind} | {key: value for key, value in part.items() if key != "part_kind"}


# --- Microsoft's Agent Framework


def is_agent_framework(message: _Fields) -> bool:
    """Tell whether a mapping is a message of Microsoft's Agent Framework, whose type is that of an item of OpenAI's too."""
    contents = message.get("contents")
    return isinstance(message.get("role"), str) and isinstance(contents, list) and "content" not in message


_FRAMEWORK_OWN: Final = frozenset({"type", "text", "call_id", "name", "arguments", "result", "items", "usage_details"})


def _agent_framework(message: _Fields) -> list[_Json]:
    beside = {key: value for key, value in message.items() if key not in ("type", "role", "contents")}
    said = _Said(message["role"], {key: value for key, value in beside.items() if value not in (None, [], {})})
    for content in message["contents"]:
        _framework_content(said, content)
    return said.messages()


def _framework_content(said: _Said, content: Any) -> None:
    kind = content.get("type") if isinstance(content, dict) else None
    if kind is None:
        said.part({"type": "text", "text": content} if isinstance(content, str) else content)
        return
    more = {
        key: value for key, value in content.items() if key not in _FRAMEWORK_OWN and value not in (None, {}, False)
    }
    if kind == "function_call":
        said.call(content.get("call_id"), content.get("name"), content.get("arguments"), more)
    elif kind == "function_result":
        result = content.get("exception") if content.get("result") is None else content["result"]
        said.answer(content.get("call_id"), result, {}, is_error=content.get("exception") is not None)
    elif kind == "usage" and isinstance(counts := content.get("usage_details"), dict):
        said.beside["usage"] = {name.replace("_token_count", "_tokens"): count for name, count in counts.items()}
    elif kind in ("text", "text_reasoning"):
        said.part({"type": "text" if kind == "text" else "reasoning", "text": content.get("text") or ""} | more)
    else:
        said.part({key: value for key, value in content.items() if value not in (None, {}, False)})
