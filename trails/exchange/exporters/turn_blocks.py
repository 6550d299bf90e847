"""Part a turn into what a page shows of it: texts, reasoning, tool calls and their answers, images, and what is none of these.

Pure functions: what stands in a block is text, and stays text until a template escapes it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from trails.model import content_parts
from trails.model.values import ToolCall, ToolResult, Turn

Kind = Literal["text", "thought", "call", "result", "image", "data", "redacted"]
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_IMAGES: Final = frozenset({"image", "image_url", "input_image"})
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types that a browser shows as a picture and nothing else; SVG may hold a script."""
_DATA_URL: Final = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,", re.IGNORECASE)
_CALL_LINE: Final = 160


@dataclass(frozen=True, slots=True)
class Block:
    """One thing that a turn says. `title` is a tool's name; `number` is an image's place among the turn's images."""

    kind: Kind
    text: str = ""
    title: str = ""
    outcome: str = ""
    left_out: int = 0
    """Characters of the text that are not shown here."""
    number: int = 0
    raw: str = ""
    """The arguments of a call as they are stored, all of them."""

    @property
    def line(self) -> str:
        """The beginning of the text, for what is folded."""
        return self.text[: 4 * _CALL_LINE]


class Image(NamedTuple):
    """The bytes of a picture that stands in a turn, and their media type."""

    media_type: str
    data: bytes


def blocks_of(turn: Turn, tools: Mapping[str, str], limit: int | None = None) -> list[Block]:
    """Return what a turn shows, in order; a text is cut to `limit` characters. `tools` has names of tools by id of call."""
    if turn.redacted:
        return [Block("redacted"), *(_call(call, limit) for call in turn.tool_calls)]
    content = turn.content
    calls = {call.id: call for call in turn.tool_calls}
    shown: list[Block] = []
    if isinstance(content, str):
        if turn.tool_results:
            shown = [_result(result, content, tools, limit) for result in turn.tool_results]
        elif content:
            shown = [_block("text", content, limit)]
    else:
        results = {result.call_id: result for result in turn.tool_results}
        images = 0
        for part in content:
            for block in _part(part, calls, results, tools, limit):
                shown.append(block if block.kind != "image" else Block("image", block.text, number=images))
                images += block.kind == "image"
    return shown + [_call(call, limit) for call in calls.values()]


def _part(
    part: Any,
    calls: dict[str, ToolCall],
    results: Mapping[str, ToolResult],
    tools: Mapping[str, str],
    limit: int | None,
) -> Iterator[Block]:
    """Yield what a part shows, and take the calls that it asks for out of `calls`."""
    asked, answers = content_parts.calls_in([part]), content_parts.results_in([part])
    for call in asked:
        yield _call(calls.pop(call.id, call), limit)
    for answer in answers:
        yield _result(results.get(answer.call_id, answer), content_parts.plain_text([part]), tools, limit)
        yield from (_image(each) for each in _images([part]))
    if asked or answers:
        return
    kind = part.get("type") if isinstance(part, Mapping) else None
    if content_parts.is_thought(part):
        said = content_parts.plain_text([part])
        yield _block("thought", said, limit)
    elif isinstance(part, str) or (isinstance(kind, str) and kind in _TEXTS):
        yield _block("text", content_parts.plain_text([part]), limit)
    elif isinstance(kind, str) and kind in _IMAGES:
        yield _image(part)
    else:
        yield _block("data", json.dumps(part, ensure_ascii=False, indent=1, default=str), limit)


def _block(kind: Kind, text: str, limit: int | None, title: str = "", outcome: str = "") -> Block:
    kept = text if limit is None else text[:limit]
    return Block(kind, kept, title, outcome, len(text) - len(kept))


def _call(call: ToolCall, limit: int | None) -> Block:
    if call.arguments is None:
        return Block("call", "(redacted)", call.name, raw="(redacted)")
    try:
        pretty = json.dumps(json.loads(call.arguments), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        pretty = call.arguments
    return replace(_block("call", pretty, limit, call.name), raw=call.arguments)


def _result(result: ToolResult, text: str, tools: Mapping[str, str], limit: int | None) -> Block:
    name = result.tool or tools.get(result.call_id, result.call_id)
    return _block("result", text, limit, name, result.came_out)


# --- images


def images_of(turn: Turn) -> list[Image | str]:
    """Return the pictures that stand in a turn's content, in order: what it holds, or the address of one that it only names."""
    return [_read_image(part) for part in _images(turn.content)] if turn.structured and not turn.redacted else []


def _images(parts: Any) -> Iterator[Mapping[str, Any]]:
    for part in parts if isinstance(parts, list) else []:
        if not isinstance(part, Mapping):
            continue
        if isinstance(part.get("type"), str) and part["type"] in _IMAGES:
            yield part
        elif content_parts.results_in([part]):
            yield from _images(part.get("content", part.get("output")))


def _image(part: Mapping[str, Any]) -> Block:
    image = _read_image(part)
    return Block("image", image if isinstance(image, str) else "")


def _read_image(part: Mapping[str, Any]) -> Image | str:
    """Return the picture of a part as providers write them: base64 in `source` or `data`, or a URL, which may hold the data."""
    source = part.get("source", part)
    if isinstance(source, Mapping) and isinstance(source.get("data"), str):
        media_type = source.get("media_type") or source.get("mediaType") or source.get("mimeType")
        return _decoded(str(media_type), source["data"])
    url = part.get("image_url") or part.get("url") or (source.get("url") if isinstance(source, Mapping) else None)
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str) and (found := _DATA_URL.match(url)):
        return _decoded(found[1].lower(), url[found.end() :])
    return str(url) if url else "an image that is not kept here"


def _decoded(media_type: str, data: str) -> Image | str:
    try:
        return Image(media_type, base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return "an image that cannot be read"
