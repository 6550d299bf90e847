"""Aligning two tails turn by turn, and the patch that makes one of the other.

Two turns say the same when role, content and tool calls agree, whoever wrote them and whenever: two branches that said
the same are equal, though their digests differ. The order of keys in structured content and arguments, and the ids of
tool calls, which are drawn anew each time, make no difference; which tool's call a result answers does. The content of
a redacted turn is not known, so it equals only a copy of itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trails import parts
from trails.diff import sequences, structures
from trails.diff.details import call_key
from trails.diff.result import Diff, Entry
from trails.diff.sequences import Pair
from trails.diff.values import Ancestor, Counts, End, Kind
from trails.errors import InvalidInput
from trails.garbage import seldom_collected
from trails.model import Turn
from trails.usage import total

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
        return End(self.name, self.session_id, self.start + len(self.turns), self.head, counts(self.turns))


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
    return of_tails(_tail(names[0], left, common), _tail(names[1], right, common), ancestor)


def _tail(name: str, turns: Sequence[Turn], common: int) -> Tail:
    last = turns[-1] if turns else None
    return Tail(name, last.session_id if last else name, common, turns[common:], last.digest if last else None)


def of_tails(left: Tail, right: Tail, ancestor: Ancestor | None) -> Diff:
    """Return the diff of two transcripts of which only the tails after their common ancestor are given."""
    with seldom_collected():
        return Diff(left.end(), right.end(), ancestor, align(left.turns, right.turns))


def patch(turns: Sequence[Turn], diff: Diff) -> list[Turn]:
    """Return the right side's transcript: `turns` up to the common ancestor, then what the diff makes of the rest.

    `turns` must say what the diff's left side says, and share its prefix. Nothing is stored.

    Raises `InvalidInput` where the diff does not fit, naming the first turn that is different.

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
    wrong = next((n for n, pair in enumerate(zip(said(tail), said(expected), strict=True)) if pair[0] != pair[1]), None)
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


def said(turns: Sequence[Turn]) -> list[TurnText]:
    """Return what each turn of a tail says."""
    telling = Telling()
    return [telling.text(turn) for turn in turns]


class Telling:
    """Tells what turns say, given one after the other; with `outcomes`, how the calls that they answer came out too."""

    def __init__(self, *, outcomes: bool = True) -> None:
        self._calls: dict[str, str] = {}
        self._outcomes = outcomes

    def text(self, turn: Turn) -> TurnText:
        """Return what the next turn says."""
        said = self.peek(turn)
        seen: Counter[str] = Counter()
        for call in turn.tool_calls:
            seen[call.name] += 1
            self._calls[call.id] = call.name if seen[call.name] == 1 else f"{call.name} {seen[call.name]}"
        return said

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
    content = [parts.without_call(part) for part in turn.content] if turn.structured else turn.text
    return f"{turn.role}\0" + structures.canonical([content, [call_key(call) for call in turn.tool_calls], answers])


def counts(turns: Sequence[Turn]) -> Counts:
    """Return what turns amount to: how many they are, tokens and cost as reported, and the tools called."""
    reported = [turn.facts.model_call.reported for turn in turns if turn.facts.model_call is not None]
    tools = Counter(call.name for turn in turns for call in turn.tool_calls)
    return Counts(
        turns=len(turns),
        input_tokens=total(each[0] for each in reported),
        output_tokens=total(each[1] for each in reported),
        cost=total(each[2] for each in reported),
        tool_counts=tuple(sorted(tools.items())),
    )


# --- alignment


def align(left: Sequence[Turn], right: Sequence[Turn]) -> tuple[Entry, ...]:
    """Return two tails side by side, in order; the answer for (right, left) is the mirror of that for (left, right)."""
    old, new = said(left), said(right)
    entries: list[Entry] = []
    i = j = 0
    for row, column in (*_pairs(left, right, old, new), (len(left), len(right))):
        entries += [Entry("left", left[n], None, (old[n].answers, ())) for n in range(i, row)]
        entries += [Entry("right", None, right[n], ((), new[n].answers)) for n in range(j, column)]
        if row < len(left):
            kind: Kind = "equal" if old[row].key == new[column].key else "changed"
            entries.append(Entry(kind, left[row], right[column], (old[row].answers, new[column].answers)))
        i, j = row + 1, column + 1
    return tuple(entries)


def _pairs(left: Sequence[Turn], right: Sequence[Turn], old: Sequence[TurnText], new: Sequence[TurnText]) -> list[Pair]:
    """Return the places that stand side by side: turns that say the same, and between them those most alike."""
    keys, others = [each.key for each in old], [each.key for each in new]
    if (len(keys), keys) > (len(others), others):
        return [(i, j) for j, i in _pairs(right, left, new, old)]
    found: list[Pair] = []
    i = j = 0
    for row, column in (*sequences.matches(keys, others), (len(left), len(right))):
        found += _alike(left, right, (i, row), (j, column))
        if row < len(left):
            found.append((row, column))
        i, j = row + 1, column + 1
    return found


def _alike(left: Sequence[Turn], right: Sequence[Turn], rows: Pair, columns: Pair) -> list[Pair]:
    """Pair two runs of unequal turns, block by block where they are long."""
    found: list[Pair] = []
    longer = max(rows[1] - rows[0], columns[1] - columns[0])
    size = longer if (rows[1] - rows[0]) * (columns[1] - columns[0]) <= MAX_LIKENESSES else BLOCK
    for n in range(0, longer, max(1, size)):
        i, j = rows[0] + n, columns[0] + n
        block = left[i : min(i + size, rows[1])], right[j : min(j + size, columns[1])]
        found += [(i + row, j + column) for row, column in _likest(*block)]
    return found


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
    found: list[Pair] = []
    i = j = 0
    while i < len(worth) and j < len(worth[0]):
        if worth[i][j] and best[i][j] == worth[i][j] + best[i + 1][j + 1]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return found


def _words(text: str) -> list[str]:
    """Return the words of a text; of ASCII in half the time.

    >>> _words("a_1, b-c"), _words("ä_1, b-c")
    (['a_1', 'b', 'c'], ['ä_1', 'b', 'c'])
    """
    return text.translate(_APART).split() if text.isascii() else _WORD.findall(text)


def _bits(turn: Turn, numbers: dict[str, int]) -> int:
    """Return a turn's words as a set of bits: `numbers` gives each word its own, and new ones the next."""
    found = set(_words(turn.text[:_READ]))
    for call in turn.tool_calls:
        found.update((call.name, *_words((call.arguments or "")[:_READ])))
    bits = bytearray(len(numbers) // 8 + len(found) // 8 + 2)
    for word in found:
        number = numbers.setdefault(word, len(numbers))
        bits[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bits, "little")
