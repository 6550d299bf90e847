"""What became of what a checkpoint covers: changed, deleted, redacted, and logged. By whom and when, where the store knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.errors import TrailsError
from trails.integrity.leaves import LEDGER_KINDS
from trails.model import LogEvent
from trails.plumbing import leaves, logged
from trails.records.terms import parse_time
from trails.store.contract import QuadStore

_GROWING: Final = frozenset({*LEDGER_KINDS, "said"})
_RUN: Final = frozenset({"run", "remove"})


def since(store: QuadStore, size: int, only: Collection[str] | None = None) -> tuple[LogEvent, ...]:
    """Return what happened to what the first `size` lines of the log tell of, by session; `only` to some sessions."""
    lines = store.log.lines()
    found = [*_sessions(store, lines, size), *_redactions(store, lines, size), *_others(lines, size)]
    return tuple(sorted((event for event in found if only is None or event.session_id in only), key=_place))


def _place(event: LogEvent) -> tuple[str, str, int]:
    return event.session_id, event.what, -1 if event.index is None else event.index


def _sessions(store: QuadStore, lines: Sequence[str], size: int) -> Iterator[LogEvent]:
    for session_id, log in logged.by_session(lines).items():
        if log.began >= size:
            continue
        told = Counter(what for number, what in log.events if number >= size)
        by, time = _deleter(store, session_id) if told["deleted"] and log.deleted else (None, None)
        for what, count in told.items():
            who, when = (by, time) if what == "deleted" else (None, None)
            yield LogEvent(session_id=session_id, what=what, count=count, by=who, time=when)


def _deleter(store: QuadStore, session_id: str) -> tuple[str | None, datetime | None]:
    return _doer(store.quads((NamedNode(iris.deletion(iris.session(session_id))), None, None, vocab.CATALOG)))


def _doer(quads: Sequence[Quad]) -> tuple[str | None, datetime | None]:
    said = {quad.predicate: str(getattr(quad.object, "value", "")) for quad in quads}
    who, when = said.get(vocab.ASSOCIATED_WITH), said.get(vocab.ENDED_AT)
    try:
        return None if who is None else iris.author_name(who), None if when is None else parse_time(when)
    except (TrailsError, ValueError):
        return None, None  # an altered record, which is a finding


def _redactions(store: QuadStore, lines: Sequence[str], size: int) -> Iterator[LogEvent]:
    new = {leaf for leaf, number in logged.redactions(lines).items() if number >= size}
    for leaf, quads in leaves.redactions(store) if new else []:
        if leaf in new:
            by, time = _doer(quads)
            yield LogEvent(
                session_id=iris.session_id(leaf.session_iri), what="redacted", index=leaf.count, by=by, time=time
            )


def _others(lines: Sequence[str], size: int) -> Iterator[LogEvent]:
    """Give the runs and the entries of ledgers that went on, each with how often."""
    known: set[tuple[str, str]] = set()
    told: Counter[tuple[str, str]] = Counter()
    for number, line in enumerate(lines):
        kind = line.partition(" ")[0]
        if kind not in _GROWING and kind not in _RUN:
            continue
        fields = line.split(" ")
        if len(fields) != 5:
            continue  # no leaf: a finding
        subject = (fields[1], "" if kind in _RUN else fields[2])
        if number < size:
            known.add(subject)
        elif subject in known:
            told[fields[1], "run" if kind in _RUN else "ledger"] += 1
    for (iri, what), count in told.items():
        yield LogEvent(session_id=iris.session_id(iri), what="run" if what == "run" else "ledger", count=count)
