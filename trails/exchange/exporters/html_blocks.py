"""What a turn shows, as HTML: Markdown laid out, long output folded, thoughts and calls set apart, pictures within the page.

Most of a page are turns, so that an end tag that a parser puts in itself is left out.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Final

from markupsafe import Markup

from trails.display import markdown
from trails.display.terminal_text import clean, count, one_line, shorten
from trails.exchange.exporters.turn_blocks import PICTURES, Block, Image, blocks_of, images_of
from trails.model.values import Turn

MOST_PART: Final = 2000
"""Characters of a part that is no text that are shown."""
_MOST_LINES: Final = 12
_MOST_CHARACTERS: Final = 1000
"""What a tool answered, a call and a thought are folded where they are longer."""
_MOST_TEXT: Final = 8000
"""Characters of what somebody said that are shown unfolded; what a model said is, however long."""
_LINE: Final = 80
_BEGINNING: Final = 60
"""Characters that are seen of a text that is folded."""
_SEPARATORS: Final = ((",", ":"), (", ", ": "))
_MOST_PICTURE: Final = 1 << 20
_MOST_PICTURES: Final = 8 << 20
"""Bytes of a picture, and of all pictures, that stand within a page."""

Beside = Callable[[Image], str]
"""Keeps a picture beside the page, and returns its address there."""


class BlockWriter:
    """Writes the turns of one page; counts what it leaves out."""

    def __init__(
        self, tools: Mapping[str, str], beside: Beside | None = None, left_out: Counter[str] | None = None
    ) -> None:
        self._tools, self._beside = tools, beside
        self._room = _MOST_PICTURES
        self.left_out = Counter[str]() if left_out is None else left_out

    def turn(self, turn: Turn) -> Markup:
        """Return what a turn shows."""
        pictures = images_of(turn)
        return html("".join(self._block(turn, block, pictures) for block in blocks_of(turn, self._tools)))

    def _block(self, turn: Turn, block: Block, pictures: list[Image | str]) -> str:
        match block.kind:
            case "text" if turn.role == "tool":
                made = _folded(block.text, "", "")
            case "text":
                made = said(block.text, always_open=turn.role == "assistant")
            case "thought":
                made = _folded(block.text, "h", "Thought") if block.text else ""
            case "call":
                made = _call(block)
            case "result":
                made = _folded(block.text, "y", block.title)
            case "image":
                made = self._picture(turn, block, None if block.text else pictures[block.number])
            case "data":
                self.left_out["part"] += len(block.text) > MOST_PART
                made = _folded(shown(block.text, MOST_PART), "y", "Data")
            case "redacted":
                made = paragraph("(redacted)")
        return made

    def _picture(self, turn: Turn, block: Block, picture: Image | str | None) -> str:
        name = f"Picture {block.number + 1} of turn {turn.index}"
        if not isinstance(picture, Image):
            return f'<p class="f">{name}, which is not kept here: {escape(one_line(block.text)[:300])}'
        kind, size = picture.media_type, len(picture.data)
        if kind in PICTURES and size <= min(_MOST_PICTURE, self._room):
            self._room -= size
            address = f"data:{kind};base64,{base64.b64encode(picture.data).decode()}"
        elif kind in PICTURES and self._beside is not None:
            address = self._beside(picture)
        else:
            self.left_out["picture"] += 1
            return f'<p class="f">{name} is not shown: {escape(shorten(kind, 60))}, {count(size, "byte")}'
        return f'<img loading="lazy" src="{address}" alt="{name}: {kind.partition("/")[2]}, {count(size, "byte")}">'


def html(text: str) -> Markup:
    """Return HTML as what a template does not escape again."""
    return Markup(text)  # noqa: S704 - whoever calls it has escaped what stands in it


def shown(text: str, most: int) -> str:
    """Return a text, or its beginning and an ellipsis where it is longer than that."""
    return text if len(text) <= most else f"{text[:most]}…"


def paragraph(text: str, kind: str = "") -> str:
    """Return a text with its line ends, which the style shows; a parser ends it where the next block begins."""
    return f"<p{f' class={kind}' if kind else ''}>{escape(clean(text), quote=False)}"


def said(text: str, *, always_open: bool = False) -> str:
    """Return a text in Markdown as what it means; a long one is folded unless it is always to be open."""
    made = markdown.render(text)
    inner = paragraph(text) if made is None else f"<div class=M>{made}</div>"
    if always_open or len(text) <= _MOST_TEXT:
        return inner
    return _details("", "", text, inner)


def _folded(text: str, kind: str, title: str) -> str:
    return paragraph(text, kind) if _is_short(text) else _details(kind, title, text, paragraph(text, kind))


def _is_short(text: str) -> bool:
    return text.count("\n") < _MOST_LINES and len(text) <= _MOST_CHARACTERS


def _details(kind: str, title: str, text: str, inner: str) -> str:
    lines = text.rstrip("\n").count("\n") + 1
    size = count(lines, "line") if lines > 1 else count(len(text), "character")
    name = f"<b>{escape(one_line(title), quote=False)}</b> " if title else ""
    told = f"<summary>{name}<bdi>{escape(shorten(text, _BEGINNING), quote=False)}</bdi> <i>{size}</i></summary>"
    return f"<details{f' class={kind}' if kind else ''}>{told}{inner}</details>"


def _call(block: Block) -> str:
    """Return a call: on one line where that is short, else an argument a line, its text as it is."""
    title, line = f"→ {block.title}", block.raw
    name = f"→ <b>{escape(one_line(block.title), quote=False)}</b>"
    given = _arguments(line) if len(line) > _LINE else None
    if given is None:
        return (
            f"<p class=c>{name} {escape(clean(line), quote=False)}"
            if _is_short(line)
            else _details("c", title, line, paragraph(line, "c"))
        )
    rows = list(_rows(given))
    text = "\n".join(value for _, value in rows)
    inner = "".join(
        f"<p class=a><b>{escape(one_line(key), quote=False)}</b> {escape(clean(value), quote=False)}"
        for key, value in rows
    )
    return f"<p class=c>{name}{inner}" if _is_short(text) else _details("c", title, text, inner)


def _arguments(text: str) -> dict[str, object] | None:
    """Return the arguments of a call, or None where not all of them would be seen there, such as one that is given twice."""
    try:
        given = json.loads(text)
        forms = {
            json.dumps(given, ensure_ascii=each, separators=pair) for each in (True, False) for pair in _SEPARATORS
        }
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) and text in forms else None


def _rows(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in given.items():
        yield key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
