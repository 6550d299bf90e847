"""Read messages, notices, calls and token counts in the records of a Codex rollout.

An `Entry` is a turn of a thread in the making, a `UsageMeter` tells what single model calls used, and a `CallBook` knows
which calls items tell, which events, and which both.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from trails.errors import InvalidInput
from trails.exchange.json_files import Json, as_list, as_object, as_text, objects_in, without_keys
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.exchange.source_values import valid_name, without_empty
from trails.model import content_parts, validation
from trails.model.values import Compaction
from trails.usage import token_count, with_source

_PLAIN: Final = {"assistant": "output_text"}
_CONTEXTS: Final = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>", "<skill>",
    "<subagent_notification>", "<agent_message_board_notification>", "<user_shell_command>", "<recommended_plugins>",
)  # fmt: skip
"""How messages begin that have the user's role and are not the user's."""
NOTICES: Final = {
    "error": "error", "stream_error": "error", "warning": "warning", "guardian_warning": "warning",
    "deprecation_notice": "warning", "background_event": "info",
}  # fmt: skip
"""Events that the program showed to its user, and no model saw: the role of the turn of each."""
_NOTICE_TEXTS: Final = ("message", "summary", "details", "additional_details")
EVENT: Final = "event"
"""The role of a turn that holds a call which the model did not ask for by an item: a command within code, for one."""
_IDS: Final = ("call_id", "callId", "id")
_FAILED: Final = frozenset({"failed", "declined", "error", "errored", "cancelled"})
_LAST_USAGE: Final = "last_token_usage"
_TOTAL_USAGE: Final = "total_token_usage"
SERVED: Final = frozenset(content_parts.SERVED)
"""Items of calls that the provider itself answered: some versions wrote them without their ids."""
_CALL_ITEMS: Final = dict.fromkeys(("web_search_end", "WebSearch"), "web_search_call") | dict.fromkeys(
    ("image_generation_end", "ImageGeneration"), "image_generation_call"
)
"""Events that tell more of such an item, before it or after it, with its id or another one."""


@dataclass(slots=True, eq=False)
class Entry:
    """A turn in the making."""

    role: str
    content: str | tuple[Any, ...]
    time: datetime | None
    model: str | None
    meta: dict[str, Any]
    texts: frozenset[str] = frozenset()
    """What an event that repeats it may say."""
    is_event: bool = False
    waits: bool = False
    """Whether it makes a turn only once it is sure that no item repeats it: reasoning, which events tell in pieces."""
    generation: int = 0
    usage: Json | None = None
    compaction: Compaction | None = None
    author: str | None = None
    """The agent that said it, where another one did."""

    @property
    def by_model(self) -> bool:
        """Whether the model generated it."""
        return self.role == "assistant"

    @property
    def by_user(self) -> bool:
        """Whether the user typed it, or another agent sent it, and no program put it in the user's name."""
        if self.role != "user" or self.author is not None:
            return self.author is not None
        passed = as_object(self.meta.get("internal_chat_message_metadata_passthrough"))
        if kinds := as_list(passed.get("content_item_kinds")):
            return any(str(kind).startswith("user.") or kind == "unknown" for kind in kinds)
        return not any(text.startswith(_CONTEXTS) for text in self.texts)

    def become(self, item: Entry) -> None:
        """Take the content of the item that repeats an event."""
        self.content, self.is_event, self.meta = item.content, False, self.meta | item.meta

    def turn(self, index: int) -> SourceTurn:
        """Return the turn at an index of its path. Its id is its place: a fork's copy of it has the same one."""
        compaction = self.compaction
        if compaction is not None and index:
            compaction = compaction.model_copy(update={"summarised_through": index - 1})
        place = f"item-{index}" + (f"~{self.generation}" if self.generation else "")
        model = self.model if self.by_model or self.usage is not None else None
        about: dict[str, Any] = {"time": self.time, "author": self.author, "usage": self.usage, "meta": self.meta}
        return SourceTurn(self.role, (Piece(place, self.content),), model=model, compaction=compaction, **about)


def message_content(role: str, content: Any) -> str | tuple[Any, ...]:
    """Return a message's content: the text where it is all there is, so that an event gives the same turn; else the parts."""
    match content:
        case [{"type": kind, "text": str(text)} as part] if len(part) == 2 and kind == _PLAIN.get(role, "input_text"):
            return text
        case str():
            return content
    return tuple(content)


class AgentMessage(NamedTuple):
    """What one agent said to another."""

    author: str
    content: str | tuple[Any, ...]
    text: str
    meta: dict[str, Any]


def read_agent_message(payload: Json) -> AgentMessage | None:
    """Return the message that a record or a response item holds; None where it has no content.

    >>> read_agent_message({"author": "/root", "recipient": "/root/w", "content": "look"}).meta
    {'recipient': '/root/w'}
    """
    content, encrypted = payload.get("content"), payload.get("encrypted_content")
    parts = as_list(content)
    if as_text(encrypted):
        held = [{"type": "input_text", "text": content}] if as_text(content) else parts
        parts = [*held, {"type": "encrypted_content", "encrypted_content": encrypted}]
    if not parts and not as_text(content):
        return None
    beside = without_keys(payload, "type", "author", "content", "encrypted_content")
    author = payload.get("author")
    name = valid_name(f"agent:{author}") if as_text(author) else None
    if name is None:
        beside |= {"author": author}
    texts = texts_of(parts) if parts else [str(content)]
    plain = texts[0] if len(texts) == 1 and len(parts) < 2 else tuple(parts)
    return AgentMessage(name or "agent:unknown", plain, "\n".join(texts), without_empty(beside))


def agent_message_in(content: object) -> AgentMessage | None:
    """Return the message between agents that an assistant's message holds as JSON, as versions of early 2026 wrote it."""
    texts = [content] if isinstance(content, str) else texts_of(content)
    if len(texts) != 1 or not texts[0].lstrip().startswith("{"):
        return None
    try:
        value = as_object(json.loads(texts[0]))
    except ValueError:
        return None
    return read_agent_message(value) if {"author", "recipient", "content"} <= value.keys() else None


def notice_text(payload: Json) -> str:
    """Return what a notice says, its texts a line each."""
    return "\n".join(text for key in _NOTICE_TEXTS if (text := as_text(payload.get(key))))


# --- calls that events tell


class EventCall(NamedTuple):
    """A call, its answer, or both, as an event tells them."""

    id: str
    name: str | None
    """None where the event tells the answer alone."""
    arguments: Any
    answer: dict[str, Any] | None
    is_error: bool


class _Shape(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    """The keys that hold the arguments; the only one that is an object is taken as they are."""
    answers: bool = True


_SHELL: Final = _Shape("exec_command", ("command", "cwd", "workdir"))
_PATCH: Final = _Shape("apply_patch", ("changes",))
_SEARCH: Final = _Shape("web_search", ("query", "action"))
_NAMED_CALL: Final = _Shape("", ("arguments",))
_IMAGE: Final = _Shape("image_generation", ("revised_prompt",))
_SHAPES: Final = {
    "exec_command_end": _SHELL, "CommandExecution": _SHELL, "patch_apply_end": _PATCH, "FileChange": _PATCH,
    "web_search_end": _SEARCH, "WebSearch": _SEARCH, "mcp_tool_call_end": _NAMED_CALL, "McpToolCall": _NAMED_CALL,
    "dynamic_tool_call_request": _Shape("", ("arguments",), answers=False), "dynamic_tool_call": _NAMED_CALL,
    "dynamic_tool_call_response": _NAMED_CALL, "DynamicToolCall": _NAMED_CALL,
    "view_image_tool_call": _Shape("view_image", ("path",)), "ImageView": _Shape("view_image", ("path",)),
    "image_generation_end": _IMAGE, "ImageGeneration": _IMAGE, "CollabAgentToolCall": _Shape("", ("prompt", "model")),
    "FunctionCallOutput": _Shape("", ()),
}  # fmt: skip
"""How events and completed items tell a call, and what it gave."""


def read_event_call(payload: Json) -> EventCall | None:
    """Return the call that an event, or the item that it completed, tells; None for any other event.

    >>> read_event_call({"type": "exec_command_end", "call_id": "c", "command": ["ls"], "exit_code": 1}).is_error
    True
    """
    kind = payload.get("type")
    shape = _SHAPES.get(as_text(kind) or "")
    if kind == "Extension" and isinstance(payload.get("kind"), str):
        shape = _Shape(payload["kind"].replace(".", "_"), ("query", "action", "arguments"))
    call_id = next((found for key in _IDS if (found := as_text(payload.get(key)))), None)
    if shape is None or call_id is None:
        return None
    held = {**payload, **as_object(payload.get("invocation"))}
    named = [as_text(held.get(key)) for key in ("server", "namespace", "tool")]
    name = shape.name or ".".join(filter(None, named)) or None
    arguments = {key: held[key] for key in shape.arguments if held.get(key) is not None}
    given = arguments["arguments"] if shape.arguments == ("arguments",) and len(arguments) == 1 else arguments
    spent = {"type", "invocation", "tool", "server", "namespace", "arguments", *shape.arguments, *_IDS}
    rest = without_keys(held, *spent) if shape.answers else None
    return EventCall(call_id, name, given, rest, rest is not None and has_failed(rest))


def has_failed(answer: Json) -> bool:
    """Tell whether what a call gave says that it failed."""
    result = as_object(answer.get("result"))
    inner = as_object(result.get("Ok", result))
    says_so = inner.get("isError") is True or inner.get("is_error") is True or "Err" in result
    ended = answer.get("success") is False or answer.get("exit_code") not in (None, 0)
    return says_so or ended or as_text(answer.get("status")) in _FAILED


def call_part(call: EventCall) -> dict[str, Any]:
    """Return the part of a turn that makes such a call."""
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}


def answer_part(call_id: str, answer: Json, *, is_error: bool) -> dict[str, Any]:
    """Return the part of a turn that answers a call."""
    made = {"type": "tool_call_response", "id": call_id, "response": dict(answer)}
    return made | {"is_error": True} if is_error else made


def texts_of(parts: object) -> list[str]:
    """Return the texts of parts, in order.

    >>> texts_of([{"type": "input_text", "text": "a"}, {"type": "input_image"}])
    ['a']
    """
    return [part["text"] for part in objects_in(parts) if isinstance(part.get("text"), str)]


@dataclass(slots=True)
class UsageMeter:
    """The counts of a thread as they come: each tells the last call, and all calls together."""

    window: int | None = None
    """How many tokens the last call had in its window."""
    astray: int = 0
    """How many counts belong to no turn."""
    _total: object = None
    _spare: dict[str, Any] | None = None
    """The last count that belonged to no turn: that of the call that made the summary which comes next."""

    def take(self, info: object) -> dict[str, Any] | None:
        """Return the usage of the call that a count tells; None where it tells none, or one that was told before."""
        if not isinstance(info, dict):
            return None
        last, total = info.get(_LAST_USAGE), info.get(_TOTAL_USAGE)
        if total is not None and total == self._total:
            return None
        last = as_object(last) or _usage_difference(total, self._total)
        self._total = total if total is not None else self._total
        if not last or not _is_usage(last):
            return None
        self.window, self._spare = token_count(last.get("total_tokens")), None
        return with_source(last, "codex")

    def lose(self, usage: dict[str, Any]) -> None:
        """Note that a usage belongs to no turn that is there yet."""
        self.astray += 1
        self._spare = usage

    def spare(self) -> dict[str, Any] | None:
        """Return the usage that belongs to the summary that is made now; None for none."""
        usage, self._spare = self._spare, None
        self.astray -= usage is not None
        return usage


def _usage_difference(total: object, before: object) -> dict[str, Any] | None:
    """Return what one count of all calls has more than the count before; the count itself where that was greater."""
    if not isinstance(total, dict):
        return None
    counts = {key: value for key, value in total.items() if token_count(value) is not None}
    more = {key: value - (token_count(as_object(before).get(key)) or 0) for key, value in counts.items()}
    return counts if any(value < 0 for value in more.values()) else more


def _is_usage(value: Json) -> bool:
    try:
        validation.usage(value)
    except InvalidInput:
        return False
    return True


class HeldCall(NamedTuple):
    """An event that tells a call of which the item may come next."""

    line: int
    payload: Json
    time: datetime | None
    call: EventCall


@dataclass(slots=True)
class CallBook:
    """The calls of a thread so far."""

    told: dict[str, bool] = field(default_factory=dict)
    """The ids of the calls that only events tell: whether they were answered."""
    held: list[HeldCall] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)
    """The ids of the calls that items ask for."""
    _silent: Counter[str] = field(default_factory=Counter)
    """How many items of a type no event has told yet."""

    def asked(self, item: Json, name: str) -> tuple[Json, HeldCall | None]:
        """Take an item; return it with an id, and the event before it that tells the same call.

        An item of `SERVED` without an id has that of the event, or else the name that is given.
        """
        kind = item["type"]
        call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
        event = None
        if kind in SERVED:
            event = next((each for each in self.held if _CALL_ITEMS[each.payload["type"]] == kind), None)
            if event is not None:
                self.held.remove(event)
            else:
                self._silent[kind] += 1
            told = event.payload.get("call_id", event.payload.get("id")) if event is not None else None
            call_id = call_id or (told if isinstance(told, str) else name)
            item = {**item, "id": item.get("id") or call_id}
        if call_id is not None:
            self._asked.add(call_id)
        return item, event

    def is_told(self, call: EventCall, event: Json) -> bool:
        """Tell whether an item, or another event, tells the call of an event with its answer."""
        kind = _CALL_ITEMS.get(event["type"], "")
        if is_silent := self._silent[kind] > 0:
            self._silent[kind] -= 1
        return is_silent or call.id in self._asked or bool(self.told.get(call.id))

    def may_be_asked(self, event: Json) -> bool:
        """Tell whether the item of an event's call may come after it."""
        return event["type"] in _CALL_ITEMS
