"""Diff two transcripts turn by turn, and patch one into the other.

Two turns say the same if role, content and tool calls agree, whoever wrote them and whenever: two branches that said the same
are equal, though their digests differ. The order of keys in structured content and arguments, and the ids of tool calls,
make no difference; which tool's call a result answers does. The content of a redacted turn is unknown, so it equals only a
copy of itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, Final, get_args

from trails.compare import text_diff, value_diff
from trails.compare.text_diff import Pair, Span
from trails.compare.value_diff import Ancestor, CallChange, Counts, Detail, Edit, End, EntryKind, call_key
from trails.display import html
from trails.display.tables import Kind as ColumnKind
from trails.display.tables import PlainTable, Tabular
from trails.display.terminal_text import OneLine, count, one_line
from trails.errors import InvalidInput
from trails.model import content_parts
from trails.model.values import CUT, Turn
from trails.usage import total
from trails.workers import collect_seldom

CONTEXT_LINES: Final = 3
"""How many lines of a patch stand before and after a difference, and equal turns elsewhere, as in git."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of an entry: what it is ("" for the text itself), and its spans."""

    label: str
    spans: tuple[Span, ...]


def blocks_of(entry: Entry) -> tuple[Block, ...]:
    """Return what an entry shows: a turn's text on one side, or all that differs between the two."""
    if entry.kind == "changed":
        return tuple(_changes(entry))
    turn = entry.left or entry.right
    side = entry.kind
    return (Block("", (Span(side, readable_blocks(turn)),)),) if turn else ()


def readable_blocks(turn: Turn) -> str:
    """Return what a person reads of a turn: its text, then the tool calls that do not stand in it."""
    if turn.redacted:
        return "(redacted)"
    content = turn.content
    inside = {call.id for call in content_parts.calls_in(content)} if turn.structured else set()
    calls = (
        f"[calls {call.name} {'(redacted)' if call.arguments is None else call.arguments}]"
        for call in turn.tool_calls
        if call.id not in inside
    )
    return "\n".join(filter(None, (content_parts.plain_text(content), *calls, f"[{CUT}]" if turn.is_cut else "")))


def _changes(entry: Entry) -> Iterator[Block]:
    detail = entry.detail
    if detail.withheld:
        yield Block("redacted, so not compared", _sides(*(_state(turn) for turn in (entry.left, entry.right))))
    if detail.text or not (detail.parts or detail.withheld):
        yield from _text_block(entry, detail.text)
    sides = [CUT if turn is not None and turn.is_cut else "" for turn in (entry.left, entry.right)]
    if any(sides):
        yield Block("broke off", _sides(*sides))
    for edit in detail.parts:
        yield Block(edit.path, _edit_spans(edit))
    for call in detail.calls:
        yield from _call_blocks(call)
    if detail.answers:
        yield Block("answers", _sides(*(", ".join(names) for names in detail.answers)))
    if detail.form and not detail.text:
        forms = ("parts" if turn and turn.structured else "plain text" for turn in (entry.left, entry.right))
        yield Block("form", _sides(*forms))


def _text_block(entry: Entry, text: tuple[Span, ...]) -> Iterator[Block]:
    """Yield the word diff, or the text that both turns have: what else differs is easier to read below it."""
    if not text and entry.left is not None:
        content = entry.left.content
        same = content if isinstance(content, str) else [part for part in content if not content_parts.calls_in([part])]
        text = (Span("equal", content_parts.plain_text(same)),)
    if text and text[0].text:
        yield Block("", text)


def _state(turn: Turn | None) -> str:
    if turn is None:
        return ""
    return "(redacted)" if turn.redacted else readable_blocks(turn)


def _sides(left: str, right: str) -> tuple[Span, ...]:
    if left == right:
        return (Span("equal", left),)
    return tuple(span for span in (Span("left", left), Span("right", right)) if span.text)


def _edit_spans(edit: Edit) -> tuple[Span, ...]:
    return edit.words or _sides(edit.left or "", edit.right or "")


def _call_blocks(call: CallChange) -> Iterator[Block]:
    title = f"calls {call.name}"
    if call.kind == "changed" and call.edits:
        for edit in call.edits:
            yield Block(f"{title} {edit.path}", _edit_spans(edit))
        return
    left, right = (None if each is None else each.arguments or "(redacted)" for each in (call.left, call.right))
    if call.kind == "equal":
        yield Block(title, (Span("equal", left or ""),))
    elif call.kind == "changed":
        yield Block(f"{title}, arguments", _sides(left or "", right or ""))
    else:
        yield Block(title, (Span(call.kind, left or right or ""),))


def block_place(entry: Entry) -> str:
    """Return an entry's indices: `4` if both sides have the same one, `4/6` if not."""
    indices = [turn.index for turn in (entry.left, entry.right) if turn is not None]
    return "/".join(str(index) for index in dict.fromkeys(indices))


def block_title(end: End) -> str:
    """Return a side's name, its length and its head, on one clean line."""
    head = f", {end.head[:8]}" if end.head and end.turns else ""
    return one_line(f"{end.name} ({count(end.turns, 'turn')}{head})")


def runs_of(entries: Sequence[Entry]) -> Iterator[tuple[Entry, ...] | int]:
    """Yield entries in order, one a tuple; a number stands for equal turns that are far from any difference."""
    differ = [number for number, entry in enumerate(entries) if entry.kind != "equal"]
    near = {close for number in differ for close in range(number - CONTEXT_LINES, number + CONTEXT_LINES + 1)}
    hidden = 0
    for number, entry in enumerate(entries):
        if number in near or len(entries) <= 2 * CONTEXT_LINES:
            if hidden:
                yield hidden
                hidden = 0
            yield (entry,)
        else:
            hidden += 1
    if hidden:
        yield hidden


def mark_spans(spans: Sequence[Span]) -> str:
    """Return spans as one text, with `[-...-]` around what is only left and `{+...+}` around what is only right."""
    marks = {"equal": ("", ""), "left": ("[-", "-]"), "right": ("{+", "+}")}
    return "".join(f"{marks[span.side][0]}{span.text}{marks[span.side][1]}" for span in spans)


@dataclass(frozen=True, repr=False)
class Entry(OneLine):
    """One line of an alignment: a turn of each side, or of one of them.

    `answers` are the tool calls that each turn answers, by tool and position, as far as they can be told.
    """

    kind: EntryKind
    left: Turn | None
    right: Turn | None
    answers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def role(self) -> str:
        """The role of the turn, which both sides share."""
        turn = self.left or self.right
        return turn.role if turn else ""

    @cached_property
    def detail(self) -> Detail:
        """What differs inside a changed entry, worked out when it is first asked for; empty for other kinds."""
        if self.kind != "changed" or self.left is None or self.right is None:
            return Detail()
        return value_diff.detail_between(self.left, self.right, self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values, ready for JSON."""
        sides = {"left": self.left, "right": self.right, "detail": self.detail if self.kind == "changed" else None}
        plain_sides = {name: value.to_dict() for name, value in sides.items() if value is not None}
        return {"kind": self.kind, "role": self.role} | plain_sides


@dataclass(frozen=True, repr=False)
class Diff(Tabular):
    """What differs between two transcripts: the prefix that they share, and their two tails aligned turn by turn.

    A diff is true in a condition if the two sides differ: `if store.diff(a, b): ...`.
    """

    left: End
    right: End
    ancestor: Ancestor | None
    entries: tuple[Entry, ...]

    @property
    def common(self) -> int:
        """How many turns the two share at their beginning; none of them is an entry."""
        return self.ancestor.turns if self.ancestor else 0

    @property
    def is_empty(self) -> bool:
        """Tell that nothing differs: both are the same, or two tails say the same."""
        return all(entry.kind == "equal" for entry in self.entries)

    def __repr__(self) -> str:
        left, right = (f"{end.name[:30]!r}" for end in (self.left, self.right))
        return f"<Diff {left} {right}: {self.common} in common, {len(self.entries)} entries>"

    def __bool__(self) -> bool:
        """Tell that something differs."""
        return not self.is_empty

    @property
    def kinds(self) -> dict[str, int]:
        """How many entries there are of each kind (a fresh copy each time)."""
        counts = Counter(entry.kind for entry in self.entries)
        return {kind: counts[kind] for kind in get_args(EntryKind)}

    def table(self) -> PlainTable:
        """Return the entries as a table: their kind, role, and the index and the text of each side."""
        return PlainTable(_COLUMNS, [_row(entry) for entry in self.entries])

    @html.safe
    def _repr_html_(self) -> str:
        figures = {"in common": self.common, **{kind: number for kind, number in self.kinds.items() if number}}
        names = f"{html.inline(self.left.name)} and {html.inline(self.right.name)}"
        return html.box(
            f"diff of {names}", chain([html.facts(figures)], map(_shown_entry, islice(runs_of(self.entries), _MOST)))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the diff as plain values, ready for JSON."""
        return {
            "differs": not self.is_empty,
            "left": self.left.to_dict(),
            "right": self.right.to_dict(),
            "ancestor": self.ancestor.to_dict() if self.ancestor else None,
            "entries_by_kind": self.kinds,
            "entries": [entry.to_dict() for entry in self.entries],
        }


_MOST: Final = 200
_COLUMNS: Final[dict[str, ColumnKind]] = {
    "kind": "text",
    "role": "text",
    "left_index": "place",
    "right_index": "place",
    "left_text": "text",
    "right_text": "text",
}


def _row(entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": entry.kind, "role": entry.role}
    for side, turn in (("left", entry.left), ("right", entry.right)):
        row[f"{side}_index"] = None if turn is None else turn.index
        row[f"{side}_text"] = None if turn is None or turn.redacted else readable_blocks(turn)
    return row


def _shown_entry(run: tuple[Entry, ...] | int) -> str:
    """Return an entry as HTML, or a line for equal turns that are far from any difference."""
    if isinstance(run, int):
        return html.note(count(run, "equal turn"))
    (entry,) = run
    turn = entry.left or entry.right
    if entry.kind == "changed":
        pieces = [(block.label, [(span.side, span.text) for span in block.spans]) for block in blocks_of(entry)]
        body = "".join((html.note(label) if label else "") + html.spans(texts) for label, texts in pieces)
    else:
        body = html.block("" if turn is None else readable_blocks(turn), shade=html.shaded(entry.kind))
    words = {"left": "only left", "right": "only right"}
    return html.said(
        entry.role, (block_place(entry), words.get(entry.kind, entry.kind)), body, faint=entry.kind == "equal"
    )


BLOCK: Final = 32
MAX_LIKENESSES: Final = 16_384
"""Runs of unequal turns (128 by 128, say) are paired by likeness; larger ones in blocks of `BLOCK` turns a side."""
_READ: Final = 20_000
"""How many characters of a text count when the likeness of two turns is judged."""
_SAME_ROLE: Final = 0.1
"""What it is worth to pair two turns of one role that have no word in common: a little."""
_WORD: Final = re.compile(r"\w+")
_APART: Final = {number: " " for number in range(128) if not (chr(number).isalnum() or chr(number) == "_")}


@dataclass(frozen=True, slots=True)
class Tail:
    """One side's turns after the shared prefix: `start` is the index of the first, `head` the digest of the last."""

    name: str
    session_id: str
    start: int
    turns: Sequence[Turn]
    head: str | None

    def end(self) -> End:
        """Return the side of a diff that this tail belongs to."""
        return End(self.name, self.session_id, self.start + len(self.turns), self.head, count_entries(self.turns))


def diff(left: Sequence[Turn], right: Sequence[Turn], *, names: tuple[str, str] = ("left", "right")) -> Diff:
    """Return what differs between two whole transcripts; the turns with equal digests at the beginning are shared.

    `names` is what the two are called in the output.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.append("assistant", "Where?")
    ...     other = plan.fork(at=1); _ = other.append("assistant", "Where to?")
    ...     found, written = diff(plan.turns, other.turns), other.persist()
    >>> found.common, [entry.kind for entry in found.entries]
    (1, ['changed'])
    """
    shorter = min(len(left), len(right))
    common = next((n for n in range(shorter) if left[n].digest != right[n].digest), shorter)
    ancestor = Ancestor(common, left[common - 1].digest, left[common - 1].session_id, "digests") if common else None
    return diff_tails(_tail(names[0], left, common), _tail(names[1], right, common), ancestor)


def _tail(name: str, turns: Sequence[Turn], common: int) -> Tail:
    last = turns[-1] if turns else None
    return Tail(name, last.session_id if last else name, common, turns[common:], last.digest if last else None)


def diff_tails(left: Tail, right: Tail, ancestor: Ancestor | None) -> Diff:
    """Return the diff of two transcripts of which only the tails after their common ancestor are given."""
    with collect_seldom():
        return Diff(left.end(), right.end(), ancestor, align_turns(left.turns, right.turns))


def patch(turns: Sequence[Turn], diff: Diff) -> list[Turn]:
    """Return the right side's transcript: `turns` up to the common ancestor, then what the diff makes of the rest.

    `turns` must say what the diff's left side says, and share its prefix. Nothing is stored.

    Raises `InvalidInput` if the diff does not fit, naming the first turn that is different.

    >>> patch([], diff([], []))
    []
    """
    expected = [entry.left for entry in diff.entries if entry.left is not None]
    if len(turns) != diff.common + len(expected):
        raise InvalidInput(
            f"the diff of {diff.left.name!r} and {diff.right.name!r} is for {diff.common + len(expected)} turns, "
            f"not {len(turns)}; make a new one"
        )
    if diff.ancestor and diff.ancestor.digest not in ("", turns[diff.common - 1].digest):
        raise InvalidInput(
            f"the diff of {diff.left.name!r} and {diff.right.name!r} starts after the turn with the digest "
            f"{diff.ancestor.digest[:16]}, but turn {diff.common - 1} has {turns[diff.common - 1].digest[:16]}; make a new one"
        )
    tail = turns[diff.common :]
    wrong = next(
        (n for n, pair in enumerate(zip(turn_words(tail), turn_words(expected), strict=True)) if pair[0] != pair[1]),
        None,
    )
    if wrong is not None:
        raise InvalidInput(
            f"turn {diff.common + wrong} does not say what it says on the left of the diff of {diff.left.name!r} and "
            f"{diff.right.name!r}; make a new one"
        )
    return [*turns[: diff.common], *(entry.right for entry in diff.entries if entry.right is not None)]


# --- what a turn says


@dataclass(frozen=True, slots=True)
class TurnText:
    """What a turn says, as one text to compare by, and the tool calls that it answers."""

    key: str
    answers: tuple[str, ...]


def turn_words(turns: Sequence[Turn]) -> list[TurnText]:
    """Return what each turn of a tail says."""
    texts = TurnTexts()
    return [texts.text(turn) for turn in turns]


class TurnTexts:
    """Tells what turns say, given one after the other; with `outcomes`, how the calls that they answer came out too."""

    def __init__(self, *, outcomes: bool = True) -> None:
        self._calls: dict[str, str] = {}
        self._outcomes = outcomes

    def text(self, turn: Turn) -> TurnText:
        """Return what the next turn says."""
        turn_text = self.peek(turn)
        seen: Counter[str] = Counter()
        for call in turn.tool_calls:
            seen[call.name] += 1
            self._calls[call.id] = call.name if seen[call.name] == 1 else f"{call.name} {seen[call.name]}"
        return turn_text

    def peek(self, turn: Turn) -> TurnText:
        """Return what a turn would say if it were the next one."""
        calls = self._calls
        answers = tuple(
            f"{calls.get(result.call_id, result.call_id)} {result.came_out if self._outcomes else ''}".rstrip()
            for result in turn.tool_results
        )
        return TurnText(_key(turn, answers), answers)


def _key(turn: Turn, answers: tuple[str, ...]) -> str:
    if turn.redacted:
        return f"{turn.role}\0redacted\0{turn.digest}"
    if not (turn.structured or turn.facts.tool_calls or answers):
        return f"{turn.role}\0text\0{turn.text}"
    content = [content_parts.without_call(part) for part in turn.content] if turn.structured else turn.text
    return f"{turn.role}\0" + value_diff.canonical([content, [call_key(call) for call in turn.tool_calls], answers])


def count_entries(turns: Sequence[Turn]) -> Counts:
    """Return what turns amount to: how many they are, tokens and cost as reported, and the tools called."""
    reported = [turn.facts.model_call.reported for turn in turns if turn.facts.model_call is not None]
    tools = Counter(call.name for turn in turns for call in turn.tool_calls)
    return Counts(
        turns=len(turns),
        calls=len(reported),
        calls_without_usage=sum(each[0] is None and each[1] is None for each in reported),
        input_tokens=total(each[0] for each in reported),
        output_tokens=total(each[1] for each in reported),
        cost=total(each[2] for each in reported),
        tool_counts=tuple(sorted(tools.items())),
    )


# --- alignment


def align_turns(left: Sequence[Turn], right: Sequence[Turn]) -> tuple[Entry, ...]:
    """Return two tails side by side, in order; the answer for (right, left) is the mirror of that for (left, right)."""
    old, new = turn_words(left), turn_words(right)
    entries: list[Entry] = []
    i = j = 0
    for row, column in (*_pairs(left, right, old, new), (len(left), len(right))):
        entries += [Entry("left", left[n], None, (old[n].answers, ())) for n in range(i, row)]
        entries += [Entry("right", None, right[n], ((), new[n].answers)) for n in range(j, column)]
        if row < len(left):
            kind: EntryKind = "equal" if old[row].key == new[column].key else "changed"
            entries.append(Entry(kind, left[row], right[column], (old[row].answers, new[column].answers)))
        i, j = row + 1, column + 1
    return tuple(entries)


def _pairs(left: Sequence[Turn], right: Sequence[Turn], old: Sequence[TurnText], new: Sequence[TurnText]) -> list[Pair]:
    """Return the places that stand side by side: turns that say the same, and between them those most alike."""
    keys, others = [each.key for each in old], [each.key for each in new]
    if (len(keys), keys) > (len(others), others):
        return [(i, j) for j, i in _pairs(right, left, new, old)]
    pairs: list[Pair] = []
    i = j = 0
    for row, column in (*text_diff.match_sequences(keys, others), (len(left), len(right))):
        pairs += _alike(left, right, (i, row), (j, column))
        if row < len(left):
            pairs.append((row, column))
        i, j = row + 1, column + 1
    return pairs


def _alike(left: Sequence[Turn], right: Sequence[Turn], rows: Pair, columns: Pair) -> list[Pair]:
    """Pair two runs of unequal turns, block by block if there are many."""
    pairs: list[Pair] = []
    longer = max(rows[1] - rows[0], columns[1] - columns[0])
    size = longer if (rows[1] - rows[0]) * (columns[1] - columns[0]) <= MAX_LIKENESSES else BLOCK
    for n in range(0, longer, max(1, size)):
        i, j = rows[0] + n, columns[0] + n
        block = left[i : min(i + size, rows[1])], right[j : min(j + size, columns[1])]
        pairs += [(i + row, j + column) for row, column in _likest(*block)]
    return pairs


def _likest(left: Sequence[Turn], right: Sequence[Turn]) -> list[Pair]:
    """Return the pairs of turns of one role, in order on both sides, that are most alike all in all."""
    if not left or not right:
        return []
    numbers: dict[str, int] = {}
    old, new = [_bits(turn, numbers) for turn in left], [_bits(turn, numbers) for turn in right]
    worth = [_worth(turn, mine, right, new) for turn, mine in zip(left, old, strict=True)]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        row, below, score = best[i], best[i + 1], 0.0
        for j in range(len(right) - 1, -1, -1):
            score = max(score, below[j])
            if (mine := worth[i][j]) and mine + below[j + 1] > score:
                score = mine + below[j + 1]
            row[j] = score
    return _walk(best, worth)


def _worth(turn: Turn, words: int, others: Sequence[Turn], their_words: Sequence[int]) -> list[float]:
    """Return how alike a turn is to each of some others, by the words that both have; 0 for one of another role."""
    role, count = turn.role, words.bit_count()
    return [
        _SAME_ROLE + 2 * (words & theirs).bit_count() / (count + theirs.bit_count() or 1) if other.role == role else 0.0
        for other, theirs in zip(others, their_words, strict=True)
    ]


def _walk(best: list[list[float]], worth: list[list[float]]) -> list[Pair]:
    """Return the pairs on the best way through the table."""
    pairs: list[Pair] = []
    i = j = 0
    while i < len(worth) and j < len(worth[0]):
        if worth[i][j] and best[i][j] == worth[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _words_of(text: str) -> list[str]:
    """Return the words of a text; of ASCII in half the time.

    >>> _words_of("a_1, b-c"), _words_of("ä_1, b-c")
    (['a_1', 'b', 'c'], ['ä_1', 'b', 'c'])
    """
    return text.translate(_APART).split() if text.isascii() else _WORD.findall(text)


def _bits(turn: Turn, numbers: dict[str, int]) -> int:
    """Return a turn's words as a set of bits: `numbers` gives each word its own, and new ones the next."""
    words = set(_words_of(turn.text[:_READ]))
    for call in turn.tool_calls:
        words.update((call.name, *_words_of((call.arguments or "")[:_READ])))
    bits = bytearray(len(numbers) // 8 + len(words) // 8 + 2)
    for word in words:
        number = numbers.setdefault(word, len(numbers))
        bits[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bits, "little")
