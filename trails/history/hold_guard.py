"""Refuse every commit that would take something out of the store which a legal hold covers.

This is the one place. Each commit of `Transaction` comes by here, whoever makes it: deletion, redaction of a turn or of a text,
pruning, expiry, retention, what a server, a pull or an adapter does. What was looked at (which holds there are, whom sessions
belong to, which forks show a turn) joins what the commit was made from. So a hold that another writer places meanwhile makes the
commit be judged again inside the log's transaction.

A hold covers a session's row, its own turns and what is recorded beside it, and the turns that it inherits: an ancestor of a
fork on hold is kept, and the turns of it that the fork shows are not redacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import OnHold
from trails.integrity.key_ring import META_KEY
from trails.model import iris, validation
from trails.rdf import vocab
from trails.rdf.codec import meta_value, subject_of, term_text
from trails.rdf.register_records import Hold, entry_of
from trails.store.contract import Matching
from trails.store.pattern import Pattern, Preview

_CONTENT: Final = frozenset({vocab.VALUE, vocab.ARGUMENTS})
"""What no commit removes from a turn without taking text out of it."""


def holds_in_force(store: Matching, now: datetime | None = None) -> list[Hold]:
    """Return the holds that are neither lifted nor over, oldest first."""
    moment = now or datetime.now(UTC)
    every = []
    for quad in store.quads((None, vocab.TYPE, vocab.HOLD, vocab.CATALOG)):
        iri = subject_of(quad)
        if store.quads((NamedNode(f"{iri}/closing"), vocab.TYPE, vocab.CLOSING, vocab.CATALOG)):
            continue
        hold = entry_of(iri, store.quads((NamedNode(iri), None, None, vocab.CATALOG)))
        if isinstance(hold, Hold) and (hold.until is None or hold.until > moment):
            every.append(hold)
    return sorted(every, key=lambda each: (each.time, each.token))


def covers(store: Matching, hold: Hold, session_id: str) -> bool:
    """Tell whether a hold covers a session that is stored."""
    node = NamedNode(iris.session(session_id))

    def has(predicate: NamedNode, value: NamedNode | Literal) -> bool:
        return bool(store.quads((node, predicate, value, vocab.CATALOG)))

    if session_id in hold.sessions:
        return True
    if hold.principal is not None:
        return has(vocab.ATTRIBUTED_TO, NamedNode(iris.principal(hold.principal)))
    if hold.label is not None:
        return has(vocab.LABEL, Literal(hold.label))
    meta = hold.wanted_meta()
    return bool(meta) and all(_has_meta(store, node, key, value) for key, value in meta.items())


def _has_meta(store: Matching, node: NamedNode, key: str, value: Any) -> bool:
    """Tell whether a session has a metadata value; a text stands for a number that is written so, as in lists."""
    wanted = {validation.to_json(value, "meta"), *([value] if isinstance(value, str) else [])}
    if store.quads((node, NamedNode(iris.meta(META_KEY)), None, vocab.CATALOG)):
        return True  # encrypted, and nobody can say here what it says: what may be on hold is
    stored = store.quads((node, NamedNode(iris.meta(key)), None, vocab.CATALOG))
    return any(
        isinstance(quad.object, Literal) and validation.to_json(meta_value(quad.object), "meta") in wanted
        for quad in stored
    )


def showing(store: Matching, session_id: str, index: int | None) -> Iterator[str]:
    """Yield the sessions that show a session's own turn at an index (None: any of its turns): itself, and forks of it."""
    seen = {session_id}
    waiting = [session_id]
    while waiting:
        shown = waiting.pop()
        yield shown
        for quad in store.quads((None, vocab.PARENT_SESSION, NamedNode(iris.session(shown)), vocab.CATALOG)):
            fork = iris.session_id(subject_of(quad))
            if fork not in seen and (index is None or _start(store, fork) > index):
                seen.add(fork)
                waiting.append(fork)


def _start(store: Matching, session_id: str) -> int:
    found = store.quads((NamedNode(iris.session(session_id)), vocab.FORKED_AT_INDEX, None, vocab.CATALOG))
    return min((int(term_text(quad.object)) for quad in found), default=0)


def refuse_held(store: Matching, session_id: str, index: int | None = None) -> None:
    """Raise `OnHold` where a hold covers a session, or a fork that shows its turn at an index (None: any of its turns)."""
    _refuse(store, holds_in_force(store), session_id, index)


def _refuse(store: Matching, holds: Sequence[Hold], session_id: str, index: int | None) -> None:
    for shown in showing(store, session_id, index) if holds else ():
        for hold in holds:
            if covers(store, hold, shown):
                raise _on_hold(hold, shown, session_id)


def _on_hold(hold: Hold, held: str, session_id: str) -> OnHold:
    until = "" if hold.until is None else f" until {hold.until:%Y-%m-%d %H:%M} UTC"
    what = f"session {held!r} is" if held == session_id else f"its fork {held!r}, which shows what it holds, is"
    return OnHold(
        f"nothing can be taken out of session {session_id!r}: {what} on legal hold {hold.token} by {hold.by}{until}; nothing was "
        f"changed (`trails hold list` says why; `trails hold lift {hold.token}` ends the hold, on record)",
        session_id=held,
        hold=hold.token,
    )


class _Before:
    """The store as it is before a commit; what is looked at joins what the commit was made from."""

    def __init__(self, after: Preview) -> None:
        self._after = after

    def quads(self, pattern: Pattern) -> list[Quad]:
        """Return all quads that match a pattern before the commit."""
        if pattern not in self._after.read:
            self._after.quads(pattern)
        return self._after.read[pattern]


def check_commit(after: Preview, add: Sequence[Quad], remove: Sequence[Quad]) -> None:
    """Raise `OnHold` for a commit, seen through what it leaves, that takes out something which a hold covers."""
    store = _Before(after)
    targets = dict.fromkeys(_targets(store, add, remove)) if remove else {}
    if not targets:
        return
    holds = holds_in_force(store)
    for session_id, index in targets if holds else ():
        node = NamedNode(iris.session(session_id))
        is_there = store.quads(
            (node, vocab.TYPE, vocab.SESSION, vocab.CATALOG)
        )  # else it arrives, or was deleted before
        if is_there and (index is None or not _is_copy_underway(store, node, index)):
            _refuse(store, holds, session_id, index)


def _targets(store: Matching, add: Iterable[Quad], remove: Iterable[Quad]) -> Iterator[tuple[str, int | None]]:
    """Yield (session, index of a turn or None) for all that a commit takes something out of."""
    for quad in set(remove).difference(add):
        if quad.object == vocab.SESSION and quad.predicate == vocab.TYPE:
            yield iris.session_id(subject_of(quad)), None
        elif quad.predicate in _CONTENT and iris.is_session(str(getattr(quad.graph_name, "value", ""))):
            yield iris.session_id(subject_of(quad)), iris.turn_index(subject_of(quad))
        elif quad.predicate == vocab.VALUE and iris.is_system_prompt(subject_of(quad)):
            yield iris.session_id(subject_of(quad)), _PROMPT
        elif quad.predicate == vocab.TASK:
            yield from ((each, _NO_TURN) for each in _sessions_of_run(store, quad))
    for quad in add:  # no redaction is without its record
        if quad.predicate == vocab.DELETED_TURN:
            yield iris.session_id(term_text(quad.object)), iris.turn_index(term_text(quad.object))
        elif quad.predicate == vocab.REDACTED_FROM:
            yield iris.session_id(term_text(quad.object)), _NO_TURN


def _sessions_of_run(store: Matching, task: Quad) -> list[str]:
    """Return the sessions that a run's task belongs to: the one that gave it, and the one that got it."""
    links = (vocab.STARTED_BY, vocab.GENERATED)
    run = NamedNode(subject_of(task))
    quads = (quad for link in links for quad in store.quads((run, link, None, vocab.CATALOG)))
    return [iris.session_id(term_text(quad.object)) for quad in quads]


_PROMPT: Final = -1
"""The index of a system prompt: every fork shows it."""
_NO_TURN: Final = 1 << 62
"""The index of what belongs to a session and is none of its turns: no fork shows it."""


def _is_copy_underway(store: Matching, node: NamedNode, index: int) -> bool:
    """Tell whether a turn of a fork's graph is a copy that a detaching has not finished: it is swept, and nothing is lost."""
    return bool(store.quads((node, vocab.PARENT_SESSION, None, vocab.CATALOG))) and index < _start(
        store, iris.session_id(node.value)
    )
