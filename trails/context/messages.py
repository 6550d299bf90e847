"""Messages of a transcript and their tokens.

A turn becomes one message, or several if it holds the answers to tool calls. Roles that model APIs do not have become the
user's: summaries and what a person ran are told to the model, not said by it. Tokens are estimated without a tokenizer, on
the long side for most text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from trails.errors import InvalidInput
from trails.model import content_parts
from trails.model.sdk_messages import API
from trails.model.validation import stored_json
from trails.model.values import NO_FACTS, Facts, ToolCall, ToolResult, Turn

Counter = Callable[[str], float]
"""Returns the number of tokens of a text, 0 or more; a fraction (`lambda text: len(text) / 4`) counts as the next whole number.
Give your model's own (`lambda text: len(encoding.encode(text))`) for exact figures."""

MESSAGE_TOKENS: Final = 4
"""What every message costs beside its text: its role, and what separates it from the next one."""
IMAGE_TOKENS: Final = 1200
"""What an image counts as, whatever its size."""


def estimate(text: str) -> int:
    """Return how many tokens a text has, roughly: a token for 4 bytes of ASCII, and for 3 bytes of UTF-8 of all else.

    So English and code count a token for four characters, Chinese, Japanese and Korean one for each, Cyrillic and Greek
    two for three. The common tokenizers give fewer for most text; dense code, digits and rare scripts may take up to
    half as many again, so leave a reserve.

    >>> from trails.context import estimate
    >>> estimate("Plan a trip to the Alps"), estimate("計画"), estimate("")
    (6, 2, 0)
    """
    if text.isascii():
        return -(-len(text) // 4)
    plain = len(text.encode("ascii", "ignore"))
    other = len(text.encode("utf-8", "surrogatepass")) - plain
    return -(-(3 * plain + 4 * other) // 12)


def count_tokens(counter: Counter, text: str) -> int:
    """Return how many tokens a text has by a counter, as a whole number; raise `InvalidInput` for what is no count.

    >>> count_tokens(lambda text: len(text) / 4, "Plan a trip"), count_tokens(estimate, "Plan a trip")
    (3, 3)
    """
    found = counter(text)
    if type(found) is int and found >= 0:  # nearly always
        return found
    if isinstance(found, Real) and not isinstance(found, bool) and math.isfinite(found) and found >= 0:
        return math.ceil(found)
    raise InvalidInput(f"a counter returns how many tokens a text has, a number from 0 on, not {found!r}")


class ShownTurn(NamedTuple):
    """A turn without what no model is shown: author, time, digest."""

    index: int  # type: ignore[assignment] # the tuple's own method of this name is not needed
    role: str
    text: str
    structured: bool = False
    redacted: bool = False
    facts: Facts = NO_FACTS

    @property
    def content(self) -> Any:
        """The text, or the list of parts (a fresh copy each time)."""
        return json.loads(self.text) if self.structured else self.text


TurnView = ShownTurn | Turn
"""A turn, as far as a model is shown it."""


Role = Literal["system", "user", "assistant", "tool"]

CUT_MARK: Final = "[cut off here: the turn broke off while it was written]"
"""What a model is shown behind the text of a turn that broke off."""
REDACTED: Final = "[redacted]"
"""What stands for content that was taken out."""
HEADINGS: Final = {
    "summary": "Summary of the conversation before this point:",
    "compaction_summary": "Summary of the conversation before this point:",
    "branch_summary": "Summary of a branch that this conversation came back from:",
    "attachment": "Added by the program, not typed by the user:",
}
"""The roles whose texts are told to the model under a heading."""
DELIVERY: Final = "delivery"
"""The role of a record of what was sent out over a channel: it repeats what was said."""
UNSHOWN: Final = frozenset({DELIVERY, "event", "error", "warning", "info"})
"""The roles that no model is shown, and that cost nothing: what a program noted, and what it told its user alone."""

_ROLES: Final[dict[str, Role]] = {
    **dict.fromkeys(("assistant", "model", "ai"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    "tool": "tool",
}
_AS_IS: Final = frozenset({"user", "assistant"})
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", "summary_text"})
_BESIDE_TEXT: Final = ("citations", "cache_control")
"""What Anthropic says of a text beside it."""
_BLOCKS: Final = frozenset(
    {
        *("document", "search_result", "container_upload"),  # Anthropic
        *("refusal", "file", "input_audio"),  # OpenAI's chat
        *("message", "input_file", "compaction", "item_reference"),  # OpenAI's responses
    }
)
"""The types of parts that are one provider's own, and shown to it as they are."""
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_SERVER_SIDE: Final = "server_tool_use"
"""Calls that the provider itself ran: they were answered in the same message, and are not repeated."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image: its data in base64 with its media type, or its address."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    part: Mapping[str, Any] | None = None
    """The part as its provider takes it, if that says more."""


@dataclass(frozen=True, slots=True)
class Thought:
    """A part that a model thought and did not say, as its provider wrote it."""

    part: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Block:
    """A part that one provider alone takes as it stands."""

    part: Mapping[str, Any]
    text: str = ""
    """What the others are shown of it."""


Piece = str | Picture | Thought | Block


NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def text_of(piece: Piece) -> str:
    """Return what every model can be shown of a piece as text: nothing of a picture or a thought."""
    return piece if isinstance(piece, str) else piece.text if isinstance(piece, Block) else ""


class Message(NamedTuple):
    """One message. One with the role "tool" answers the call `call_id`; only the assistant's have `calls`."""

    role: Role
    pieces: tuple[Piece, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    is_error: bool = False
    turn_index: int | None = None
    """The index of the turn that it comes from, if it comes from one."""
    synthetic: bool = False
    """Whether it was made up to answer a call that nothing answers."""
    placed: tuple[int, ...] = ()
    """How many pieces stand before each of its calls; empty if all calls come last."""
    raw: Mapping[str, Mapping[str, Any]] = NOTHING
    """The parts that make its calls or give its answer, as they are stored, by the call's id."""
    fields: Mapping[str, Any] = NOTHING
    """What the message that it was made from held beside (`replies.API`)."""
    is_text: bool = False
    """Whether all that it says was given as one text, not as parts."""

    @property
    def text(self) -> str:
        """Its texts, a line break between them."""
        return "\n".join(filter(None, map(text_of, self.pieces)))

    def tokens(self, counter: Counter) -> int:
        """Return what it costs, by a counter of the tokens of a text."""
        texts, pictures = [], 0
        for piece in self.pieces:
            if isinstance(piece, Picture):
                pictures += 1
            else:
                texts.append(_thought_text(piece) if isinstance(piece, Thought) else text_of(piece))
        texts += [f"{call.name} {call.arguments or '{}'}" for call in self.calls]
        return MESSAGE_TOKENS + count_tokens(counter, "\n".join(texts)) + IMAGE_TOKENS * pictures


def message_tokens(turn: TurnView, counter: Counter) -> int:
    """Return how many tokens a turn takes as a model is shown it."""
    if _is_plain(turn):
        return (
            MESSAGE_TOKENS + count_tokens(counter, turn.text) if turn.text else 0
        )  # as below, without making the message
    return sum(message.tokens(counter) for message in messages_of(turn))


def _is_plain(turn: TurnView) -> bool:
    return turn.role in _AS_IS and not turn.structured and not turn.redacted and turn.facts.is_empty()


def messages_of(turn: TurnView) -> list[Message]:
    """Return what a model is shown of a turn: none for one that has nothing to show.

    >>> from trails.context.messages import ShownTurn
    >>> [(m.role, m.text) for m in messages_of(ShownTurn(4, "summary", "A trip was planned."))]
    [('user', 'Summary of the conversation before this point:\\n\\nA trip was planned.')]
    """
    if _is_plain(turn):  # nearly all turns
        role = _ROLES.get(turn.role, "user")
        return [Message(role, (turn.text,), turn_index=turn.index, is_text=True)] if turn.text else []
    if turn.role in UNSHOWN:
        return []
    messages = _messages_of(turn)
    if messages and turn.facts.is_cut:
        last = messages[-1]
        text = "\n".join(filter(None, [*map(text_of, last.pieces), CUT_MARK])) if last.is_text else None
        messages[-1] = last._replace(pieces=(*last.pieces, CUT_MARK) if text is None else (text,))
    return messages


def _messages_of(turn: TurnView) -> list[Message]:
    facts = turn.facts
    if turn.redacted:
        calls = [call for call in facts.tool_calls if call.id]
        answers = [
            _answer(turn, result.call_id, (REDACTED,), is_error=result.is_error) for result in facts.tool_results
        ]
        return answers or [_said(turn, [REDACTED], calls)]
    if not turn.structured:
        extra = facts.tool_results
        if extra or _ROLES.get(turn.role) == "tool":
            return [_plain_answer(turn, (turn.text,) if turn.text else ())._replace(is_text=True)]
        shown = _shown_message(turn, [turn.text] if turn.text else [], list(facts.tool_calls))
        return [_with_fields(turn, each)._replace(is_text=not each.calls) for each in shown]
    return [_with_fields(turn, each) for each in _structured(turn)]


def _with_fields(turn: TurnView, message: Message) -> Message:
    """Return a message with what the one that its turn was made from held beside."""
    if turn.facts.meta_json is None or f'"{API}"' not in turn.facts.meta_json or message.role == "tool":
        return message
    fields = json.loads(turn.facts.meta_json).get(API)
    return message._replace(fields=fields) if isinstance(fields, dict) else message


def _structured(turn: TurnView) -> list[Message]:
    content: list[Any] = stored_json(turn.text)
    calls_there, results_there = content_parts.calls_in(content), content_parts.results_in(content)
    if _is_content(turn, calls_there, results_there):
        return _shown_message(turn, list(_pieces(content)), list(turn.facts.tool_calls))
    given_calls = turn.facts.tool_calls[len(calls_there) :]
    given_results = turn.facts.tool_results[len(results_there) :]
    if given_results or (_ROLES.get(turn.role) == "tool" and not results_there):
        return [_plain_answer(turn, tuple(_pieces(content)))]
    answers: list[Message] = []
    pieces: list[Piece] = []
    calls: list[ToolCall] = []
    placed: list[int] = []
    raw: dict[str, Mapping[str, Any]] = {}
    served = _served(content)
    for part in content:
        if isinstance(part, Mapping) and part.get("type") in content_parts.SERVED:
            pieces.append(Block(part, content_parts.plain_text([part])))
        elif isinstance(part, Mapping) and (calls_found := content_parts.calls_in([part])):
            if part.get("type") == _SERVER_SIDE:
                pieces += [Block(part)] if _names(part, "id", served) else []
                continue
            calls += calls_found
            placed += [len(pieces)] * len(calls_found)
            raw |= {call.id: part for call in calls_found}
        elif isinstance(part, Mapping) and (results := content_parts.results_in([part])):
            body = _pieces(_body(part))
            answers += [_answer(turn, each.call_id, tuple(body), is_error=each.is_error, raw=part) for each in results]
        elif isinstance(part, Mapping) and _names(part, "tool_use_id", served):
            pieces.append(Block(part))
        else:
            pieces += _pieces([part])
    spoken = _shown_message(turn, pieces, [*calls, *given_calls])
    placed += [len(pieces)] * len(given_calls)
    if calls and spoken and placed[0] < len(pieces):
        spoken = [spoken[0]._replace(placed=tuple(placed))]
    spoken = [each._replace(raw=raw) for each in spoken] if raw else spoken
    return [*spoken, *answers] if calls else [*answers, *spoken]  # some sources keep a call and its answer together


def _is_content(turn: TurnView, calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> bool:
    """Tell whether parts look like calls or answers and were appended as content: then the turn has none of them."""
    return not (
        {call.id for call in calls} <= {call.id for call in turn.facts.tool_calls}
        and {result.call_id for result in results} <= {result.call_id for result in turn.facts.tool_results}
    )


def _served(content: Iterable[Any]) -> set[str]:
    """Return the ids of the calls that the provider itself ran, and answered in the same message."""
    typed = [part for part in content if isinstance(part, Mapping)]
    ids = {part["id"] for part in typed if part.get("type") == _SERVER_SIDE and isinstance(part.get("id"), str)}
    return {part["tool_use_id"] for part in typed if is_served_result(part) and _names(part, "tool_use_id", ids)}


def _names(part: Mapping[str, Any], key: str, ids: Collection[str]) -> bool:
    """Tell whether a part names one of some ids; what stands there may be anything."""
    return isinstance(named := part.get(key), str) and named in ids


def is_served_result(part: Mapping[str, Any]) -> bool:
    """Tell whether a part is what a provider's own tool answered."""
    kind = part.get("type")
    return isinstance(kind, str) and kind.endswith("_tool_result")


def _shown_message(turn: TurnView, pieces: list[Piece], calls: list[ToolCall]) -> list[Message]:
    if turn.role == "bash":
        return _ran(turn, pieces)
    heading = HEADINGS.get(turn.role)
    if not any(pieces) and not calls:
        return []
    if heading is not None:
        text = "\n".join(piece for piece in pieces if isinstance(piece, str))
        pieces = [f"{heading}\n\n{text}", *(piece for piece in pieces if not isinstance(piece, str))]
    return [_said(turn, pieces, calls)]


def _ran(turn: TurnView, pieces: list[Piece]) -> list[Message]:
    """Return what a person ran beside the conversation, unless it was marked to be kept from the model (pi)."""
    noted = json.loads(turn.facts.meta_json or "{}").get("pi")
    message = noted.get("message") if isinstance(noted, dict) else None
    ran: Mapping[str, Any] = message if isinstance(message, dict) else {}
    if ran.get("excludeFromContext") is True:
        return []
    output = "\n".join(piece for piece in pieces if isinstance(piece, str))
    lines = [f"The user ran: {ran['command']}"] if isinstance(ran.get("command"), str) else ["The user ran a command."]
    lines.append(f"Output:\n{output}" if output else "It printed nothing.")
    if ran.get("cancelled") is True:
        lines.append("It was cancelled.")
    elif isinstance(code := ran.get("exitCode"), int) and code:
        lines.append(f"It ended with code {code}.")
    return [Message("user", ("\n".join(lines),), turn_index=turn.index)]


def _said(turn: TurnView, pieces: Iterable[Piece], calls: Iterable[ToolCall]) -> Message:
    own_calls = tuple(calls)
    role: Role = "assistant" if own_calls else _ROLES.get(turn.role, "user")
    return Message(role, tuple(pieces), own_calls, turn_index=turn.index)


def _answer(
    turn: TurnView,
    call_id: str | None,
    pieces: tuple[Piece, ...],
    *,
    is_error: bool,
    raw: Mapping[str, Any] | None = None,
) -> Message:
    raw_by_id = NOTHING if raw is None or call_id is None else {call_id: raw}
    is_text = raw is not None and isinstance(raw.get("content"), str)
    return Message(
        "tool", pieces, call_id=call_id, is_error=is_error, turn_index=turn.index, raw=raw_by_id, is_text=is_text
    )


def _plain_answer(turn: TurnView, pieces: tuple[Piece, ...]) -> Message:
    result = turn.facts.tool_results[-1] if turn.facts.tool_results else None
    return _answer(turn, result.call_id if result else None, pieces, is_error=result.is_error if result else False)


def _body(part: Mapping[str, Any]) -> list[Any]:
    body = part.get("content", part.get("output", part.get("response", part.get("tools"))))
    if isinstance(body, list):
        return body
    if body is None or body == "":
        return []
    return [body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)]


def _pieces(content: Iterable[Any]) -> Iterator[Piece]:
    yield from (piece for part in content if (piece := _piece(part)) != "")


def _piece(part: Any) -> Piece:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return json.dumps(part, ensure_ascii=False)
    kind = named if isinstance(named := part.get("type"), str) else None
    if kind == "text" and isinstance(part.get("text"), str) and any(part.get(name) for name in _BESIDE_TEXT):
        return Block(dict(part), part["text"])
    if kind in _TEXT_TYPES:
        return str(part.get("text", part.get("content", "")))  # OpenTelemetry calls a text part's text `content`
    if kind in _THOUGHTS:
        return Thought(dict(part))
    text = content_parts.plain_text([part])
    shown = Block(dict(part), text) if _names(part, "type", _BLOCKS) else _shown_picture(part) or text
    return "" if is_served_result(part) else shown


def _shown_picture(part: Mapping[str, Any]) -> Piece | None:
    if (picture := _picture(part)) is not None:
        return replace(picture, part=dict(part))
    is_image = part.get("type") == "image" and isinstance(part.get("source"), Mapping)
    return Block(dict(part), "[image]") if is_image else None


def _picture(part: Mapping[str, Any]) -> Picture | None:
    match part:
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}} | {
            "type": "image",
            "data": str(data),
            "mimeType": str(kind),
        }:
            return Picture(kind, data)
        case {"type": "blob", "mime_type": str(kind), "content": str(data)} if kind.startswith("image/"):
            return Picture(kind, data)
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return Picture(url=url)
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            return _from_url(url)
        case {"type": "uri", "uri": str(url), "modality": "image"}:
            return Picture(url=url)
    return None


def _from_url(url: str) -> Picture:
    head, separator, data = url.partition(";base64,")
    if separator and head.startswith("data:"):
        return Picture(head.removeprefix("data:"), data)
    return Picture(url=url)


def _thought_text(thought: Thought) -> str:
    for key in ("thinking", "text", "content", "data"):
        if isinstance(value := thought.part.get(key), str):
            return value
    return json.dumps(dict(thought.part), ensure_ascii=False)
