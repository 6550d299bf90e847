"""Where a fork differs from what it was forked from, for the page of sessions: short texts with links to the turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from trails import parts
from trails.diff.align import align
from trails.diff.result import Entry
from trails.diff.words import spans
from trails.legible import clean, count, shorten
from trails.model import CUT, Turn

_MOST_COMPARED: Final = 40
"""Turns of each side that are aligned; what comes later stands on the page, and is counted."""
_MOST_ROWS: Final = 10
_MOST_TEXT: Final = 120
"""Characters of a turn that are shown: the page has its text already, and a link leads to it."""
_MOST_WORDS: Final = 2000
"""Characters of a turn whose words are compared."""
_AROUND: Final = 20
"""Characters that stay of the words on each side of a difference."""


class Placed(NamedTuple):
    """A turn, and the anchor at which it stands on the page."""

    anchor: str
    turn: Turn


def differences(above: Sequence[Placed], own: Sequence[Placed], name: str) -> Iterator[str]:
    """Yield a closed box with what a fork says and what its parent says from the fork on; nothing where the parent ends there.

    `name` is what the parent is called, as HTML.
    """
    if not above or not own:
        return
    anchors = {each.turn.iri: each.anchor for each in (*above, *own)}
    sides = [[each.turn for each in side[:_MOST_COMPARED]] for side in (above, own)]
    entries = align(sides[0], sides[1])
    rows = [entry for entry in entries if entry.kind != "equal"]
    yield f"<details class=v><summary>Where it differs from {name}</summary>"
    for entry in rows[:_MOST_ROWS]:
        yield _row(entry, anchors)
    later = sum(max(0, len(side) - _MOST_COMPARED) for side in (above, own))
    told = {
        "equal": len(entries) - len(rows), "more that differ": max(0, len(rows) - _MOST_ROWS), "not compared here": later
    }  # fmt: skip
    said = ", ".join(f"{count(number, 'turn')} {what}" for what, number in told.items() if number)
    yield f'<div class="e">{said}</div></details>\n' if said else "</details>\n"


def _row(entry: Entry, anchors: dict[str, str]) -> str:
    left, right = ("" if turn is None else _said(turn) for turn in (entry.left, entry.right))
    cells = _changed(left, right) if entry.kind == "changed" else (_short(left), _short(right))
    shown = "".join(
        f"<p>{'' if turn is None else _cell(turn, anchors[turn.iri], cell)}"
        for turn, cell in zip((entry.left, entry.right), cells, strict=True)
    )
    return f"<div class={entry.kind}>{shown}</div>"


def _cell(turn: Turn, anchor: str, text: str) -> str:
    return f"<a href=#{anchor}>{turn.index} {_safe(turn.role)}</a> {text}"


def _said(turn: Turn) -> str:
    if turn.redacted:
        return "(redacted)"
    calls = (f"→ {call.name} {call.arguments or '(redacted)'}" for call in turn.tool_calls)
    end = f"[{CUT}]" if turn.is_cut else ""
    return " ".join(" ".join([parts.plain_text(turn.content), *calls, end]).split())


def _safe(text: str) -> str:
    return escape(clean(text), quote=False)


def _short(text: str) -> str:
    return _safe(shorten(text, _MOST_TEXT))


def _changed(left: str, right: str) -> tuple[str, str]:
    """Return two texts around what differs between them, with that marked."""
    found = spans(left[:_MOST_WORDS], right[:_MOST_WORDS])
    if all(span.side == "equal" for span in found):  # what differs comes later, or is no text
        return _short(left), _short(right)
    cells: tuple[list[str], list[str]] = ([], [])
    room = [_MOST_TEXT, _MOST_TEXT]
    for number, span in enumerate(found):
        equal = span.side == "equal"
        text = _around(span.text, first=number == 0, last=number == len(found) - 1) if equal else span.text
        for side in (0, 1) if equal else (0,) if span.side == "left" else (1,):
            if room[side] <= 0:
                continue
            shown = _safe(text if len(text) <= room[side] else f"{text[: room[side] - 1]}…")
            tag = "" if equal else ("del", "ins")[side]
            cells[side].append(f"<{tag}>{shown}</{tag}>" if tag else shown)
            room[side] -= len(text)
    return "".join(cells[0]), "".join(cells[1])


def _around(text: str, *, first: bool, last: bool) -> str:
    """Return what stays of words that both sides have: their ends that stand beside a difference."""
    if len(text) <= 2 * _AROUND + 1:
        return text
    return f"{'' if first else text[:_AROUND]}…{'' if last else text[-_AROUND:]}"
