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
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, BinaryIO, Final, NamedTuple

from trails.compare.session_diff import Entry, align_turns
from trails.compare.text_diff import diff_words
from trails.display.terminal_text import clean, count, one_line, shorten
from trails.exchange.exporters.session_family import Family, Member, SessionExport
from trails.history.annotation_kinds import newest_scores
from trails.model import content_parts, iris
from trails.model.values import CUT, Note, SessionRecord, Tag, Turn
from trails.rdf.score_records import Score
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
_LONG: Final = 3000
"""A text of more characters scrolls in a box of its own."""
_MOST_PART: Final = 2000
"""Characters of a part that is no text (an image, say) that are shown."""
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
        "signatures of thoughts, and ids of the source"
    ),
)
_THOUGHTS: Final = frozenset({"thinking", "reasoning"})
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal", *_THOUGHTS})


class PlacedTurn(NamedTuple):
    """A turn, and the anchor at which it stands on the page."""

    anchor: str
    turn: Turn


def fork_differences(above: Sequence[PlacedTurn], own: Sequence[PlacedTurn], name: str) -> Iterator[str]:
    """Yield a closed box with what a fork says and what its parent says from the fork on; nothing where the parent ends there.

    `name` is what the parent is called, as HTML.
    """
    if not above or not own:
        return
    anchors = {each.turn.iri: each.anchor for each in (*above, *own)}
    sides = [[each.turn for each in side[:_MOST_COMPARED]] for side in (above, own)]
    entries = align_turns(sides[0], sides[1])
    rows = [entry for entry in entries if entry.kind != "equal"]
    yield f"<details class=v><summary>Where it differs from {name}</summary>"
    for entry in rows[:_MOST_ROWS]:
        yield _difference_row(entry, anchors)
    later = sum(max(0, len(side) - _MOST_COMPARED) for side in (above, own))
    told = {
        "equal": len(entries) - len(rows), "more that differ": max(0, len(rows) - _MOST_ROWS), "not compared here": later
    }  # fmt: skip
    said = ", ".join(f"{count(number, 'turn')} {what}" for what, number in told.items() if number)
    yield f'<div class="e">{said}</div></details>\n' if said else "</details>\n"


def _difference_row(entry: Entry, anchors: dict[str, str]) -> str:
    left, right = ("" if turn is None else _said(turn) for turn in (entry.left, entry.right))
    cells = _changed(left, right) if entry.kind == "changed" else (_short(left), _short(right))
    shown = "".join(
        f"<p>{'' if turn is None else f'<a href=#{anchors[turn.iri]}>{turn.index} {_safe(turn.role)}</a> {cell}'}"
        for turn, cell in zip((entry.left, entry.right), cells, strict=True)
    )
    return f"<div class={entry.kind}>{shown}</div>"


def _said(turn: Turn) -> str:
    if turn.redacted:
        return "(redacted)"
    calls = (f"→ {call.name} {call.arguments or '(redacted)'}" for call in turn.tool_calls)
    end = f"[{CUT}]" if turn.is_cut else ""
    return " ".join(" ".join([content_parts.plain_text(turn.content), *calls, end]).split())


def _safe(text: str) -> str:
    return escape(clean(text), quote=False)


def _short(text: str) -> str:
    return _safe(shorten(text, _MOST_TEXT))


def _changed(left: str, right: str) -> tuple[str, str]:
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
    return "".join(cells[0]), "".join(cells[1])


def _around(text: str, *, first: bool, last: bool) -> str:
    """Return what stays of words that both sides have: their ends that stand beside a difference."""
    if len(text) <= 2 * _AROUND + 1:
        return text
    return f"{'' if first else text[:_AROUND]}…{'' if last else text[-_AROUND:]}"


def export(family: Family, out: BinaryIO) -> SessionExport:
    """Write a family as one HTML file and return what was written; the same family gives the same bytes."""
    page = _Page(family)
    out.writelines(piece.encode("utf-8", "backslashreplace") for piece in page.pieces())
    sessions = tuple(member.record.id for member in page.asked)
    cut = f"{count(page.cut, 'part')}: no text, and longer than the {_MOST_PART:,} characters that are shown"
    return SessionExport(FORMAT, sessions, family.turns, (*_LEFT_OUT, cut) if page.cut else _LEFT_OUT)


@cache
def _own(name: str) -> tuple[str, str]:
    """Return a file of the page and the source by which the page's policy allows it (its script, its style)."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).digest()
    return text, f"'sha256-{base64.b64encode(digest).decode()}'"


def _plain(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)  # true, as a score is written and listed
    return f"<bdi>{escape(one_line(text))}</bdi>"


def _in_a_head(value: str) -> str:
    """Return a name; one that only reads from left to right needs no box of its own, which each turn would pay for twice."""
    return value if _LEFT_TO_RIGHT.fullmatch(value) else _plain(value)


def _block(text: str, kind: str = "") -> str:
    """Return a text with its line ends, which the style shows; a parser ends it where the next block begins."""
    shown = escape(clean(text), quote=False)
    classes = " ".join(filter(None, (kind, "l" if len(text) > _LONG else "")))
    named = f' class="{classes}"' if classes else ""
    scrolls = ' tabindex="0"' if len(text) > _LONG else ""
    return f"<p{named}{scrolls}>{shown}"


def _name(record: SessionRecord) -> str:
    return f"{record.label} ({record.id})" if record.label else record.id


@dataclass(frozen=True, slots=True)
class _Spent:
    """What the model calls of turns used."""

    read: int | None
    written: int | None
    models: tuple[str, ...]

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> _Spent:
        calls = [turn.facts.model_call for turn in turns if turn.facts.model_call]
        reported = [call.reported for call in calls]
        models = dict.fromkeys(call.model for call in calls if call.model)
        return cls(total(each[0] for each in reported), total(each[1] for each in reported), tuple(models))


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


class _Page:
    """One page, as it is put together."""

    def __init__(self, family: Family) -> None:
        self.family = family
        everyone = list(family.everyone())
        self.members = [member for _, member in everyone]
        self.asked = [member for member in self.members if member.asked]
        self.calls = {call.id for member in self.members for turn in member.turns for call in turn.tool_calls}
        self.notes = {digest: notes for each, _ in everyone for digest, notes in each.notes.items()}
        self.scores = {digest: found for each, _ in everyone for digest, found in each.scores.items()}
        self.places = {member.record.id: f"b{number}" for number, member in enumerate(self.members)}
        self.forks = self._forks()
        self.cut = 0

    def _forks(self) -> dict[tuple[str, int], list[Member]]:
        """Return the forks by the last turn that they share: the session that owns it and its index; -1 for none."""
        found: dict[tuple[str, int], list[Member]] = defaultdict(list)
        for member in self.asked:
            at, parent = member.record.forked_at_index, member.record.parent_session_id
            if at is None or parent is None or parent not in self.places:
                continue
            above = [each for each in member.chain[1:] if each.starts_at < at] or [*member.chain[1:], member.record]
            found[above[0].id, at - 1].append(member)
        return found

    def pieces(self) -> Iterator[str]:
        """Yield the page from top to bottom."""
        (style, style_source), (script, script_source) = _own("page.css"), _own("page.js")
        first = next(self.family.asked())
        title = _name(first.record)
        values = {
            "style_source": style_source,
            "script_source": script_source,
            "title": escape(shorten(title, 120)),
            "heading": _plain(title),
            "style": style,
            "script": script,
            "first": self.places[first.record.id],
            "size": f"{count(len(self.asked), 'session')}, {count(self.family.turns, 'turn')}",
        }
        top, _, rest = _own("page.html")[0].partition("<!-- navigation -->\n")
        main, _, end = rest.partition("<!-- sessions -->\n")
        yield Template(top).substitute(values)
        yield from self._navigation()
        yield main
        if len(self.asked) > 1:
            yield from self._overview()
        for member in self.members:
            yield from self._section(member)
        yield Template(end).substitute(values)

    # --- what there is

    def _navigation(self) -> Iterator[str]:
        yield '<nav aria-label="Sessions">\n<ol>'
        depth = 0
        for number, member in enumerate(self.members):
            wanted = self._depth(member)
            if number:
                yield "<ol>" * max(0, wanted - depth) if wanted > depth else "</li>" + "</ol></li>" * (depth - wanted)
            depth = wanted
            where = f"@{member.record.starts_at} · " if member.record.parent_session_id else ""
            yield f'<li><a href="#{self._place(member)}">{_plain(member.record.label or member.record.id)}</a>'
            yield f"<small> {where}{count(len(member.turns), 'turn')}</small>"
        yield "</li>" + "</ol></li>" * depth + "</ol>\n</nav>\n"

    def _depth(self, member: Member) -> int:
        """Return how deep a session stands: below what it was forked from, and below what spawned the first of these."""
        above = [record for record in member.chain[1:] if record.id in self.places]
        own = self._number(member.record.id)
        spawners = (record.spawned_by for record in (*above[::-1], member.record))
        numbers = [self._number(each) for each in spawners if each in self.places]
        before = next((number for number in numbers if number < own), None)
        return len(above) if before is None else len(above) + 1 + self._depth(self.members[before])

    def _number(self, session_id: str | None) -> int:
        return int(self.places[str(session_id)][1:])

    def _place(self, member: Member) -> str:
        return self.places[member.record.id]

    def _overview(self) -> Iterator[str]:
        members = self.asked
        yield f'<details id="overview"{" open" if len(members) <= _FEW_FORKS else ""}><summary>All sessions as a table</summary>'
        scored = sorted({score.name for member in members for score in member.scores})[:_MOST_SCORES]
        fixed = ("session", "leaves", "at", "turns", "own", "input tokens", "output tokens")
        names = (*fixed, *map(_plain, scored), "models", "last said")
        yield f'<div class="w"><table><thead><tr>{"".join(f"<th>{name}</th>" for name in names)}</tr></thead><tbody>\n'
        for member in members:
            record, spent = member.record, _Spent.of(member.turns)
            said = (turn for turn in reversed(member.turns) if turn.role == "assistant" and not turn.redacted)
            last = next(said, None)
            parent = "" if record.parent_session_id is None else self._link(record.parent_session_id)
            numbers = (record.starts_at + len(member.turns), len(member.turns), spent.read or "", spent.written or "")
            yield f"<tr><td>{self._link(record.id)}</td><td>{parent}</td>"
            yield f'<td class="r">{"" if record.forked_at_index is None else record.forked_at_index}</td>'
            yield "".join(f'<td class="r">{number}</td>' for number in numbers)
            values = {score.name: score.value for score in newest_scores(member.scores)}
            yield "".join(f'<td class="r">{_plain(values[name]) if name in values else ""}</td>' for name in scored)
            yield f"<td>{_plain(', '.join(spent.models))}</td>"
            yield f"<td>{'' if last is None else _plain(shorten(content_parts.plain_text(last.content), 120))}</td></tr>\n"
        yield "</tbody></table></div></details>\n"

    def _link(self, session_id: str) -> str:
        if session_id not in self.places:
            return _plain(session_id)
        return f'<a href="#{self.places[session_id]}">{_plain(session_id)}</a>'

    # --- a session

    def _section(self, member: Member) -> Iterator[str]:
        record, place = member.record, self._place(member)
        parent, at = record.parent_session_id, record.forked_at_index
        above = f' data-p="{self.places[parent]}"' if parent in self.places else ""
        leaves = "" if at is None else f' data-at="{at}"'
        shown = escape(shorten(record.label or record.id, 80))
        yield f'<section id="{place}"{above}{leaves} data-n="{shown}">\n<h2>{_plain(_name(record))}</h2>\n'
        yield from self._facts(member)
        if at is not None and parent is not None:
            inherited = f"the first {count(at, 'turn')} of" if at else "nothing but the start of"
            yield f'<p class="f">A fork of {self._link(parent)}; it shares {inherited} it{self._before(member)}.</p>\n'
            yield from self._differences(member, parent, at)
        if record.spawned_by is not None:
            yield f'<p class="f">Spawned by {self._link(record.spawned_by)}.</p>\n'
        if not member.asked:
            yield '<p class="f">Only the turns that are inherited stand here.</p>\n'
        for prompt in member.prompts:
            text = "(redacted)" if prompt.redacted else prompt.text
            yield f"<details><summary>System prompt, version {prompt.version}, from turn {prompt.effective_from}</summary>"
            yield f"{_block(text)}</details>\n"
        yield from self._forked_here(record.id, -1)
        tags: dict[int, list[Tag]] = defaultdict(list)
        for tag in member.tags:
            tags[tag.length - 1].append(tag)
        yield from (_tag(tag) for tag in tags.pop(-1, ()))
        own = {turn.index for turn in member.turns}
        yield from (_tag(tag) for index in sorted(tags.keys() - own) for tag in tags[index])
        yield from self._turns(record.id, place, member.turns, tags)
        yield "</section>\n"

    def _turns(
        self, session_id: str, place: str, turns: Sequence[Turn], tags: Mapping[int, Sequence[Tag]]
    ) -> Iterator[str]:
        if not turns:
            return
        yield f"<ol start={turns[0].index}>"
        day: date | None = None
        for turn in turns:
            yield self._turn(place, turn, tags.get(turn.index, ()), day)
            yield from self._forked_here(session_id, turn.index)
            day = day if turn.time is None else turn.time.date()
        yield "</ol>\n"

    def _differences(self, member: Member, parent: str, at: int) -> Iterator[str]:
        """Yield where a fork differs from its parent, which stands on the page as a whole."""
        if parent not in self.places or not self.members[self._number(parent)].asked:
            return
        chains = self.members[self._number(parent)].chain, member.chain
        above, own = (list(self._after(chain, at)) for chain in chains)
        yield from fork_differences(above, own, _plain(chains[0][0].label or parent))

    def _after(self, chain: Sequence[SessionRecord], start: int) -> Iterator[PlacedTurn]:
        """Yield the turns of a transcript from an index on, each where the session that owns it stands."""
        ends = [None, *(min(each.starts_at for each in chain[: place + 1]) for place in range(len(chain) - 1))]
        for record, end in reversed(list(zip(chain, ends, strict=True))):
            if (end is None or end > start) and record.id in self.places:
                owned = self.members[self._number(record.id)].turns
                place = self.places[record.id]
                yield from (PlacedTurn(f"{place}-{turn.index}", turn) for turn in owned
                            if turn.index >= start and (end is None or turn.index < end))  # fmt: skip

    def _before(self, member: Member) -> str:
        """Return a link to the last turn that a fork inherits, where it stands on the page."""
        at = member.record.starts_at
        owner = next((above for above in member.chain[1:] if above.starts_at < at), None)
        if owner is None or owner.id not in self.places:
            return ""
        return f', to <a href="#{self.places[owner.id]}-{at - 1}">turn {at - 1}</a>'

    def _facts(self, member: Member) -> Iterator[str]:
        record, spent = member.record, _Spent.of(member.turns)
        told = {
            "branch": record.branch,
            "principal": record.principal,
            "agent": record.agent,
            "kind": record.kind,
            "state": record.state,
            "created": None if record.created is None else f"{record.created:%Y-%m-%d %H:%M:%S} UTC",
            "own turns": len(member.turns),
            "models": ", ".join(spent.models) or None,
            "tokens": f"{_count(spent.read)} in, {_count(spent.written)} out" if spent.read or spent.written else None,
        }
        yield f'<p class="f">{" · ".join(f"{name} {_plain(value)}" for name, value in told.items() if value is not None)}</p>\n'
        yield from (_score(score) for score in newest_scores(member.scores))
        if record.meta_json:
            shown = json.dumps(record.meta, ensure_ascii=False, indent=1, default=str)
            yield f"<details><summary>Metadata</summary>{_block(shown)}</details>\n"

    def _forked_here(self, owner: str, index: int) -> Iterator[str]:
        forks = self.forks.get((owner, index))
        if not forks:
            return
        said = f"{count(len(forks), 'fork')} from here"
        links = " ".join(
            f'<a href="#{self._place(fork)}">{_plain(fork.record.label or fork.record.id)}</a>' for fork in forks
        )
        if len(forks) > _FEW_FORKS:
            yield f"<details class=k><summary>{said}</summary>{links}</details>"
        else:
            yield f"<div class=k>{said}: {links}</div>"

    # --- a turn

    def _turn(self, place: str, turn: Turn, tags: Sequence[Tag], day: date | None) -> str:
        """Return a turn as an item of its session's list; `day` is that of the turn before it, which is not said again."""
        anchor = f"{place}-{turn.index}"
        kind = _CLASSES.get(turn.role, "o")
        named = f" class={kind}" if kind else ""
        model = "" if turn.model is None else f", {_in_a_head(turn.model)}"
        head = f"<a href=#{anchor}>{turn.index} {_in_a_head(turn.role)}</a> {_in_a_head(turn.author)}{model}{_when(turn, day)}"
        notes = "".join(_note(note) for note in self.notes.get(turn.digest, ()))
        scored = "".join(map(_score, newest_scores(self.scores.get(turn.digest, ()))))
        beside = "".join(map(_tag, tags)) + scored + notes
        body = "".join(self._body(turn)) + (_block(CUT, "f") if turn.is_cut else "")
        return f"<li\nid={anchor}{named}>{head}{body}{beside}"  # a line a turn, at no cost

    def _body(self, turn: Turn) -> Iterator[str]:
        if turn.redacted:
            yield _block("(redacted)")
        elif isinstance(turn.content, str):
            yield _block(turn.content)
        else:
            yield from filter(None, map(self._part, turn.content))
        for call in turn.tool_calls:
            yield _block(f"→ {call.name} {'(redacted)' if call.arguments is None else call.arguments}", "c")
        if failed := [f"{result.call_id}: {result.came_out}" for result in turn.tool_results if result.came_out]:
            yield f'<div class="f">{_plain("; ".join(failed))}</div>'
        for result in turn.tool_results:
            if result.call_id not in self.calls:
                yield f'<div class="f">Answers {_plain(result.call_id)}, which no turn calls.</div>'
        if made := turn.compaction:
            through = (
                "what came before" if made.summarised_through is None else f"turns up to {made.summarised_through}"
            )
            yield f'<div class="f">Stands for {through}.</div>'
        if turn.quoted_from:
            yield f'<div class="f">Picked from {_plain(f"{turn.quoted_from.session_id}, turn {turn.quoted_from.index}")}.</div>'
        if turn.derived_from:
            what = "The result of" if turn.derived_from.index is None else "Taken from"
            yield f'<div class="f">{what} {self._link(turn.derived_from.session_id)}.</div>'

    def _part(self, part: Any) -> str:
        """Return a part of structured content; calls stand below the turn, so they are none here."""
        if content_parts.calls_in([part]):
            return ""
        named = part.get("type") if isinstance(part, Mapping) else None
        kind = named if isinstance(named, str) else None
        if isinstance(part, str) or kind in _TEXTS or content_parts.results_in([part]):
            return _block(text, "h" if kind in _THOUGHTS else "") if (text := content_parts.plain_text([part])) else ""
        shown = json.dumps(part, ensure_ascii=False, default=str)
        self.cut += len(shown) > _MOST_PART
        return _block(shown if len(shown) <= _MOST_PART else f"{shown[:_MOST_PART]}…")


def _when(turn: Turn, day: date | None) -> str:
    if turn.time is None:
        return ""
    return f", {turn.time:%H:%M:%S}" if turn.time.date() == day else f", {turn.time:%Y-%m-%d %H:%M:%S}"


def _note(note: Note) -> str:
    said = "(redacted)" if note.redacted else note.text
    return f'<div class="n">Note by {_plain(note.author)}, {note.time:%Y-%m-%d %H:%M:%S}{_noted(said)}</div>'


def _noted(text: str) -> str:
    return f'<div dir="auto">{escape(clean(text), quote=False)}</div>'


def _score(score: Score) -> str:
    of = f", turns {score.start} to {score.end - 1}" if score.on == "span" else ""
    version = f" {_plain(score.version)}" if score.version else ""
    reason = _noted(score.reason) if score.reason else ""
    said = f"Score {_plain(score.name)}: <b>{_plain(score.value)}</b> by {_plain(score.by)}{version}{of}"
    return f'<div class="n">{said}{reason}</div>'


def _tag(tag: Tag) -> str:
    return f'<div class="n">Tag {_plain(iris.tag_name(tag.name) or tag.name)} at {count(tag.length, "turn")}</div>'
