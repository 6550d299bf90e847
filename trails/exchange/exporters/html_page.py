"""Export sessions as one HTML page that needs no other file.

It stands alone: it is readable without its script, and nothing in it comes from elsewhere.

Every text is escaped, and what would turn or hide its neighbours is shown as signs (`trails.display.terminal_text`). The page
forbids, by a Content-Security-Policy, all scripts and styles but its own two, told by their digests, and everything that is
fetched. Each turn stands once, in the section of the session that owns it: a branch is read with the turns of its ancestors.
Most of a page are turns, so that what each has beside its text is short: an end tag that a parser puts in itself, quotes that
are not needed, a direction that the style gives, and a day that is that of the turn before it are left out.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib import import_module
from importlib.resources import files
from typing import Any, BinaryIO, Final, NamedTuple

from markupsafe import Markup

from trails.compare.session_diff import align_turns
from trails.compare.text_diff import diff_words
from trails.compare.value_diff import EntryKind
from trails.display import markdown
from trails.display.html import THEME
from trails.display.terminal_text import clean, count, one_line, shorten
from trails.exchange.exporters.html_blocks import MOST_PART, Beside, BlockWriter, html, paragraph, said
from trails.exchange.exporters.session_family import Family, Member, SessionExport
from trails.history.annotation_kinds import newest_scores
from trails.history.lookup.forest import ForestNode
from trails.model import content_parts, iris, lineage
from trails.model.values import CUT, SessionRecord, Tag, ToolResult, Turn, VerifyReport
from trails.usage import total

_MOST_COMPARED: Final = 40
"""Turns of each side that are aligned; what comes later stands on the page, and is counted."""
_MOST_ROWS: Final = 10
_MOST_TEXT: Final = 120
"""Characters of a turn that are shown: the page has its text already, and a link leads to it."""
_MOST_WORDS: Final = 2000
"""Characters of a turn whose words are compared."""
_AROUND: Final = 20
"""Characters that stay of the words on each side of a difference."""
FORMAT: Final = "html"
_CLASSES: Final = {"user": "u", "human": "u", "assistant": "", "tool": "t", "summary": "m"}
"""The class of a turn by its role; the one that says most needs none."""
_MOST_SCORES: Final = 12
"""Names of scores that are columns of the table; more stand with their sessions."""
_LEFT_TO_RIGHT: Final = re.compile("[A-Za-z][A-Za-z0-9._-]*")
"""Names that need neither an escape nor a box: nothing in them, or beside them, is put in another order."""
_FEW_FORKS: Final = 12
"""More forks at one turn are folded."""
_LEFT_OUT: Final = (
    "salts, proofs, signatures, and what stands in ledgers",
    (
        "stop reasons, metadata of turns, usage beyond tokens, ids of calls, when and where they ran, who approved them, "
        "signatures of thoughts, payloads, and ids of the source"
    ),
)
_NO_MARKDOWN: Final = "how Markdown is laid out, which takes `pip install 'trails[html]'`: texts are shown as they are"
_TITLE: Final = 100


class PlacedTurn(NamedTuple):
    """A turn, and the anchor at which it stands on the page."""

    anchor: str
    turn: Turn


class Differences(NamedTuple):
    """What a fork and its parent say from the fork on: rows of a kind and two sides, and what is said of the others."""

    rows: list[tuple[EntryKind, list[tuple[PlacedTurn | None, Markup]]]]
    said: str


def title(member: Member) -> str:
    """Return what to call a session: its label, its title, what a user (else anybody) said first in it, or its id."""
    record = member.record
    if name := record.label or record.meta.get("title"):
        return shorten(str(name), _TITLE)
    texts = (
        (turn.role == "user", content_parts.plain_text(turn.content)) for turn in member.turns if not turn.redacted
    )
    said = [(by_user, text) for by_user, text in texts if text.strip()]
    first = next((text for by_user, text in said if by_user), said[0][1] if said else record.id)
    return shorten(first, _TITLE)


def fork_differences(above: Sequence[PlacedTurn], own: Sequence[PlacedTurn]) -> Differences:
    """Compare what a fork says with what its parent says from the fork on."""
    places = {each.turn.iri: each for each in (*above, *own)}
    sides = [[each.turn for each in side[:_MOST_COMPARED]] for side in (above, own)]
    entries = align_turns(sides[0], sides[1])
    rows = [entry for entry in entries if entry.kind != "equal"]
    shown: list[tuple[EntryKind, list[tuple[PlacedTurn | None, Markup]]]] = []
    for entry in rows[:_MOST_ROWS]:
        turns = (entry.left, entry.right)
        left, right = ("" if turn is None else _said(turn) for turn in turns)
        cells = _changed(left, right) if entry.kind == "changed" else (_short(left), _short(right))
        placed = [None if turn is None else places[turn.iri] for turn in turns]
        shown.append((entry.kind, list(zip(placed, cells, strict=True))))
    later = sum(max(0, len(side) - _MOST_COMPARED) for side in (above, own))
    told = {
        "equal": len(entries) - len(rows), "more that differ": max(0, len(rows) - _MOST_ROWS), "not compared here": later
    }  # fmt: skip
    return Differences(shown, ", ".join(f"{count(number, 'turn')} {what}" for what, number in told.items() if number))


def _said(turn: Turn) -> str:
    if turn.redacted:
        return "(redacted)"
    calls = (f"→ {call.name} {call.arguments or '(redacted)'}" for call in turn.tool_calls)
    end = f"[{CUT}]" if turn.is_cut else ""
    return " ".join(" ".join([content_parts.plain_text(turn.content), *calls, end]).split())


def _short(text: str) -> Markup:
    return _safe(shorten(text, _MOST_TEXT))


def _changed(left: str, right: str) -> tuple[Markup, Markup]:
    """Return two texts around what differs between them, with that marked."""
    found = diff_words(left[:_MOST_WORDS], right[:_MOST_WORDS])
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
    return html("".join(cells[0])), html("".join(cells[1]))


def _around(text: str, *, first: bool, last: bool) -> str:
    """Return what stays of words that both sides have: their ends that stand beside a difference."""
    if len(text) <= 2 * _AROUND + 1:
        return text
    return f"{'' if first else text[:_AROUND]}…{'' if last else text[-_AROUND:]}"


class Folder(NamedTuple):
    """What a page of a folder of pages knows of the others."""

    titles: Mapping[str, str]
    """What sessions are called, by their ids."""
    files: Mapping[str, str]
    """The names of their pages."""
    forks: Mapping[str, Sequence[ForestNode]]
    """The forks of each."""
    beside: Beside
    """Keeps a picture that is too large to stand within a page."""
    lost: Counter[str]
    """Counts what the pages leave out."""


def export(
    family: Family, out: BinaryIO, verdict: VerifyReport | None = None, folder: Folder | None = None
) -> SessionExport:
    """Write a family as one HTML file and return what was written; the same family gives the same bytes.

    The `verdict` of `verify` on its sessions stands on the page where it is given. A page of a `folder` has its style beside
    it, no script, and links to the other pages.
    """
    page = _Page(family, verdict, folder)
    pieces = template("page.html").stream(page=page)
    pieces.enable_buffering(100)
    out.writelines(piece.encode("utf-8", "backslashreplace") for piece in pieces)
    sessions = tuple(member.record.id for member in page.asked)
    return SessionExport(FORMAT, sessions, family.turns, left_out(page.blocks.left_out))


class _Own(NamedTuple):
    """A file of the page, and the source by which the page's policy allows it (its script, its style)."""

    text: str
    source: str


def left_out(lost: Counter[str]) -> tuple[str, ...]:
    """Return what pages leave out of their sessions; `lost` has what was counted on the way."""
    told = {
        "part": f"no text, and longer than the {MOST_PART:,} characters that are shown",
        "picture": "of a kind that is not shown, or too large to stand within a page",
    }
    counted = [f"{count(lost[noun], noun)}: {why}" for noun, why in told.items() if lost[noun]]
    return (*_LEFT_OUT, *counted, *([] if markdown.is_installed() else [_NO_MARKDOWN]))


@cache
def style() -> str:
    """Return the style of pages."""
    return THEME.read_text("utf-8") + files(__package__).joinpath("page.css").read_text("utf-8")


@cache
def template(name: str) -> Any:
    """Return a template of pages, in which every value is escaped that no filter has made HTML."""
    texts = {"css": style(), "js": files(__package__).joinpath("page.js").read_text("utf-8")}
    digests = {name: base64.b64encode(hashlib.sha256(text.encode()).digest()) for name, text in texts.items()}
    jinja = import_module("jinja2")
    options = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True, "autoescape": True}
    made = jinja.Environment(undefined=jinja.StrictUndefined, **options)
    made.filters |= {"plain": _plain, "head": _in_a_head, "text": _safe, "count": count}
    made.filters |= {
        "said": lambda text: html(said(text, always_open=True)),
        "paragraph": lambda text: html(paragraph(text)),
    }
    made.filters["short"] = lambda text, most: html(escape(shorten(text, most)))
    inline, script = (_Own(texts[name], f"'sha256-{digests[name].decode()}'") for name in ("css", "js"))
    own = {"style": inline, "script": script, "classes": _CLASSES, "few_forks": _FEW_FORKS, "cut": CUT}
    text = files(__package__).joinpath(name).read_text("utf-8")
    return made.from_string(text, {**own, "newest_scores": newest_scores, "tag_name": _tag_name})


def _safe(text: str) -> Markup:
    return html(escape(clean(text), quote=False))


def _plain(value: object) -> Markup:
    text = str(value).lower() if isinstance(value, bool) else str(value)  # true, as a score is written and listed
    return html(f"<bdi>{escape(one_line(text))}</bdi>")


def _in_a_head(value: str) -> Any:
    """Return a name; one that only reads from left to right needs no box of its own, which each turn would pay for twice."""
    return value if _LEFT_TO_RIGHT.fullmatch(value) else _plain(value)


def _tag_name(tag: Tag) -> str:
    return iris.tag_name(tag.name) or tag.name


class _Spent(NamedTuple):
    """What the model calls of turns used."""

    read: int | None
    written: int | None
    tokens: str | None
    models: str


class _Tags(NamedTuple):
    """The tags of a session: those at no turn of its own, and those of its turns by their index."""

    before: list[Tag]
    of_turns: dict[int, list[Tag]]


class _Page:
    """What the template asks of the sessions on the page."""

    def __init__(self, family: Family, verdict: VerifyReport | None, folder: Folder | None) -> None:
        self.family, self.verdict, self.folder = family, verdict, folder
        everyone = list(family.everyone())
        self.members = [member for _, member in everyone]
        self._order = {member.record.id: number for number, member in enumerate(self.members)}
        self.family_of = {member.record.id: each for each, member in everyone}
        self.asked = [member for member in self.members if member.asked]
        self.notes = {digest: notes for each, _ in everyone for digest, notes in each.notes.items()}
        self.scores = {digest: found for each, _ in everyone for digest, found in each.scores.items()}
        self.scored = sorted({score.name for member in self.asked for score in member.scores})[:_MOST_SCORES]
        first = sorted(self.members, key=lambda member: not member.asked) if folder else self.members
        self.places = {member.record.id: f"b{number}" for number, member in enumerate(first)}
        self.titles = folder.titles if folder else {member.record.id: title(member) for member in self.members}
        self.title = self.titles[next(family.asked()).record.id]
        self.forks = self._forks()
        names = {call.id: call.name for member in self.members for turn in member.turns for call in turn.tool_calls}
        self.calls = names.keys()
        self.blocks = BlockWriter(names, folder.beside, folder.lost) if folder else BlockWriter(names)

    def _forks(self) -> dict[tuple[str, int], list[str]]:
        """Return the ids of forks by the last turn that they share: the session that owns it and its index; -1 for none."""
        found: dict[tuple[str, int], list[str]] = defaultdict(list)
        if self.folder:
            (member,) = self.asked
            for node in self.folder.forks.get(member.record.id, ()):
                last = (node.forked_at or 0) - 1
                found[member.record.id, last if last >= member.record.starts_at else -1].append(node.id)
            return found
        for member in self.asked:
            at, parent = member.record.forked_at_index, member.record.parent_session_id
            if at is None or parent is None or parent not in self.places:
                continue
            owner = self.owner_before(member) or member.chain[1]
            found[owner.id, at - 1].append(member.record.id)
        return found

    def address(self, session_id: str) -> str | None:
        """Return where a session stands: on this page, on its own, or nowhere."""
        if self.folder and session_id in self.folder.files and session_id != self.asked[0].record.id:
            return self.folder.files[session_id]
        return f"#{self.places[session_id]}" if session_id in self.places else None

    def head(self, member: Member) -> str | None:
        """Return the digest of a session's last turn, which stands for the whole transcript."""
        turns = self.family_of[member.record.id].transcript(member)
        return turns[-1].digest if turns else None

    def member(self, session_id: str) -> Member:
        """Return a session of the page."""
        return self.members[self._order[session_id]]

    def depth(self, member: Member) -> int:
        """Return how deep a session stands: below what it was forked from, and below what spawned the first of these."""
        above = [record for record in member.chain[1:] if record.id in self.places]
        own = self._order[member.record.id]
        spawners = (record.spawned_by for record in (*above[::-1], member.record))
        numbers = [self._order[each] for each in spawners if each in self._order]
        before = next((number for number in numbers if number < own), None)
        return len(above) if before is None else len(above) + 1 + self.depth(self.members[before])

    def spent(self, member: Member) -> _Spent:
        """Return what the model calls of a session's own turns used."""
        calls = [turn.facts.model_call for turn in member.turns if turn.facts.model_call]
        reported = [call.reported for call in calls]
        models = dict.fromkeys(call.model for call in calls if call.model)
        read, written = total(each[0] for each in reported), total(each[1] for each in reported)
        shown = ["-" if number is None else f"{number:,}" for number in (read, written)]
        unknown = sum(each[0] is None and each[1] is None for each in reported)
        tokens = None if read is None and written is None else f"{shown[0]} in, {shown[1]} out"
        if unknown:
            tokens = f"{tokens or 'unknown'} ({count(unknown, 'call')} without usage)"
        return _Spent(read, written, tokens, ", ".join(models))

    def last_said(self, member: Member) -> str | None:
        """Return the beginning of what a session's model said last."""
        said = (turn for turn in reversed(member.turns) if turn.role == "assistant" and not turn.redacted)
        last = next(said, None)
        return None if last is None else shorten(content_parts.plain_text(last.content), 120)

    def tags(self, member: Member) -> _Tags:
        """Return the tags of a session."""
        found: dict[int, list[Tag]] = defaultdict(list)
        for tag in member.tags:
            found[tag.length - 1].append(tag)
        beside = sorted(found.keys() - {turn.index for turn in member.turns})
        return _Tags([tag for index in beside for tag in found[index]], found)

    def meta(self, record: SessionRecord) -> str:
        """Return a session's metadata as JSON."""
        return json.dumps(record.meta, ensure_ascii=False, indent=1, default=str)

    def outcomes(self, results: Sequence[ToolResult]) -> str:
        """Return how calls came out."""
        return "; ".join(f"{result.call_id}: {result.came_out}" for result in results)

    def differences(self, member: Member) -> Differences | None:
        """Return where a fork differs from its parent, if that stands on the page as a whole and goes on after the fork."""
        parent, at = member.record.parent_session_id, member.record.starts_at
        if parent not in self.places or not self.member(parent).asked:
            return None
        above, own = (list(self._after(chain, at)) for chain in (self.member(parent).chain, member.chain))
        return fork_differences(above, own) if above and own else None

    def _after(self, chain: Sequence[SessionRecord], start: int) -> Iterator[PlacedTurn]:
        """Yield the turns of a transcript from an index on, each where the session that owns it stands."""
        for run in lineage.segments(chain):
            place = self.places.get(run.record.id)
            for turn in () if place is None else self.member(run.record.id).turns:
                if turn.index >= max(start, run.start) and (run.end is None or turn.index < run.end):
                    yield PlacedTurn(f"{place}-{turn.index}", turn)

    def owner_before(self, member: Member) -> SessionRecord | None:
        """Return the session that owns the last turn that a fork inherits; None if it inherits none."""
        return next((above for above in member.chain[1:] if above.starts_at < member.record.starts_at), None)
