"""Find who wrote each turn (blame), and which turn changes an outcome (bisect).

Bisect tries prefixes of a transcript. It is given a good prefix and a bad one, and each try halves the range between
them, as `git bisect` does. A try may skip; then another prefix near the middle is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pyoxigraph import NamedNode

from trails.errors import InvalidInput
from trails.history.pending_session import Worktree
from trails.model import iris, validation
from trails.model.validation import decodes
from trails.model.values import Quote, SessionRecord, Turn, Value
from trails.rdf import vocab
from trails.store.contract import QuadStore


class Blame(Value):
    """Where one turn of a transcript comes from."""

    index: int
    session_id: str
    """The session that owns the turn: the one that was asked about, or an ancestor."""
    principal: str
    """Whom that session runs for."""
    author: str
    role: str
    model: str | None
    time: datetime | None
    digest: str
    copied_from: str | None = None
    """The session that the turn was first written in, where the owner holds a copy (of detach or flatten)."""
    quoted_from: Quote | None = None
    """The turn that this one was cherry-picked from."""
    pending: bool = False
    """Whether the turn is not stored yet."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"session_id", "time"})
        return plain | {"session": self.session_id, "time": self.time.isoformat() if self.time else None}


def blame_worktree(tree: Worktree, start: int, end: int | None) -> list[Blame]:
    """Return where turns of a session come from, pending ones too; see `Session.blame`."""
    length = len(tree.turns)
    last = length if end is None else validation.index(end, "end")
    if not validation.index(start, "start") <= last <= length:
        raise InvalidInput(f"session {tree.id!r} has {length} turns, so no range from {start} to {last}")
    return blame(tree.workspace.store, tree.chain, tree.turns[start:last], stored=tree.first_pending)


@decodes
def blame(store: QuadStore, chain: Sequence[SessionRecord], turns: Sequence[Turn], *, stored: int) -> list[Blame]:
    """Return where turns of a transcript come from, given its session's lineage; those from index `stored` on are pending."""
    owners = {record.id: record for record in chain}
    originals = {owner: _originals(store, owner) for owner in {turn.session_id for turn in turns}}
    return [
        Blame(
            index=turn.index,
            session_id=turn.session_id,
            principal=owners[turn.session_id].principal,
            author=turn.author,
            role=turn.role,
            model=turn.model,
            time=turn.time,
            digest=turn.digest,
            copied_from=_first(store, originals, turn.iri),
            quoted_from=turn.quoted_from,
            pending=turn.index >= stored,
        )
        for turn in turns
    ]


def _originals(store: QuadStore, session_id: str) -> dict[str, str]:
    """Return which turn each copy in a session's graph is a copy of."""
    graph = NamedNode(iris.session(session_id))
    quads = store.quads((None, vocab.ALTERNATE_OF, None, graph))
    return {str(quad.subject.value): str(quad.object.value) for quad in quads}  # type: ignore[union-attr] # IRIs


def _first(store: QuadStore, originals: dict[str, dict[str, str]], turn_iri: str) -> str | None:
    """Return the session in which a turn stood first, following copies of copies; None for a turn that is no copy."""
    seen = {turn_iri}
    while True:
        owner = iris.session_id(turn_iri)
        if owner not in originals:
            originals[owner] = _originals(store, owner)
        original = originals[owner].get(turn_iri)
        if original is None or original in seen:
            return owner if len(seen) > 1 else None
        seen.add(original)
        turn_iri = original


Predicate = Callable[[Sequence[Turn]], bool | None]
"""Tells of a prefix of a transcript whether it is good (True), bad (False), or cannot be told (None)."""


class Bisection(Value):
    """What `bisect` found out."""

    good: int
    """The longest prefix that is known to be good, as a number of turns."""
    bad: int
    """The shortest longer prefix that is known to be bad: where nothing was skipped, one turn more."""
    turn: Turn | None
    """The turn with which the outcome flips; None where skipped prefixes leave several to choose from."""
    candidates: tuple[Turn, ...]
    """The turns that it may be: that one, or those between the two prefixes."""
    tried: tuple[tuple[int, bool | None], ...]
    """What was tried, in order: the prefix's number of turns, and what the predicate said."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, ready for JSON."""
        return {
            "good": self.good,
            "bad": self.bad,
            "turn": self.turn.to_dict() if self.turn else None,
            "candidates": [turn.to_dict() for turn in self.candidates],
            "tried": [{"turns": length, "good": answer} for length, answer in self.tried],
        }


def bisect(turns: Sequence[Turn], predicate: Predicate, *, good: int, bad: int) -> Bisection:
    """Return with which turn a transcript turns from good to bad, between a prefix that is good and one that is bad.

    Raises `InvalidInput` where the ends are out of order or range, or are not what they are said to be.
    """
    if not callable(predicate):
        raise InvalidInput(f"bisect needs a function that tells of turns whether they are good, not {predicate!r}")
    if not validation.index(good, "good") < validation.index(bad, "bad") <= len(turns):
        raise InvalidInput(
            f"bisect needs a good prefix that is shorter than the bad one, within {len(turns)} turns; good is {good}, "
            f"bad is {bad}"
        )
    tried: list[tuple[int, bool | None]] = []

    def ask(length: int) -> bool | None:
        answer = predicate(turns[:length])
        if answer is not None and not isinstance(answer, bool):
            raise InvalidInput(f"the predicate gave {answer!r}; it must give True (good), False (bad) or None (skip)")
        tried.append((length, answer))
        return answer

    _require(ask(good), True, good)
    _require(ask(bad), False, bad)
    low, high = narrowed(good, bad, ask)
    return Bisection(
        good=low,
        bad=high,
        turn=turns[low] if high == low + 1 else None,
        candidates=tuple(turns[low:high]),
        tried=tuple(tried),
    )


def _require(answer: bool | None, wanted: bool, length: int) -> None:
    if answer is not wanted:
        said = "good" if wanted else "bad"
        found = "could not be told" if answer is None else "they are not"
        raise InvalidInput(
            f"the first {length} turns were said to be {said}, and {found}; give other ends with `good` and `bad`"
        )


def narrowed(good: int, bad: int, ask: Callable[[int], bool | None]) -> tuple[int, int]:
    """Return a good and a bad length with nothing between them but what was skipped.

    >>> narrowed(0, 100, lambda length: length < 73)
    (72, 73)
    """
    skipped: set[int] = set()
    misses = 0
    while open_lengths := [length for length in range(good + 1, bad) if length not in skipped]:
        # After a skip, the next try is not beside the skipped one: what breaks one prefix often breaks its neighbours.
        length = open_lengths[int(_spread(misses) * len(open_lengths))]
        answer = ask(length)
        if answer is None:
            skipped.add(length)
            misses += 1
        else:
            misses = 0
            good, bad = (length, bad) if answer else (good, length)
    return good, bad


def _spread(number: int) -> float:
    """Return places between 0 and 1 that lie apart from all before: 1/2, 1/4, 3/4, 1/8, 5/8 and so on (van der Corput).

    >>> [_spread(number) for number in range(5)]
    [0.5, 0.25, 0.75, 0.125, 0.625]
    """
    number += 1
    place, step = 0.0, 0.5
    while number:
        place += step * (number & 1)
        number >>= 1
        step /= 2
    return place
