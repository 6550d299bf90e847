"""What a deleted session was, and the log of its store just before: looked up when it goes, held against the log later."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.integrity.merkle import leaf_hash, roots_at
from trails.plumbing import leaves
from trails.plumbing.logged import SessionLog
from trails.records.sessions import Former
from trails.store.contract import Matching


def look(store: Matching, session_id: str, rows: Sequence[Quad], log: tuple[int, bytes]) -> Former:
    """Return what a session is whose row is among `rows`: turns are looked up by index, few of them, for a lock is held."""
    node = NamedNode(iris.session(session_id))
    row = {quad.predicate: str(getattr(quad.object, "value", "")) for quad in rows if quad.subject == node}
    start = int(row.get(vocab.FORKED_AT_INDEX, "0"))
    end = _first_without(store, node, start)
    head = leaves.digest_at(store, session_id, end - 1) if end > start else row.get(vocab.FORK_HEAD)
    return Former(session_id, end - start, head, *log)


def _first_without(store: Matching, graph: NamedNode, start: int) -> int:
    """Return the first index from `start` on at which a graph has no turn: a transcript has no gaps."""
    step = 1
    while _has_turn(store, graph, start + step - 1):
        step *= 2
    low, high = start + step // 2, start + step - 1  # there is a turn before `low`, and none at `high`
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _has_turn(store, graph, middle) else (low, middle)
    return low


def _has_turn(store: Matching, graph: NamedNode, index: int) -> bool:
    return bool(store.quads((None, vocab.INDEX, vocab.integer(index), graph)))


def untrue(store: Matching, lines: Sequence[str], log: Mapping[str, SessionLog]) -> Iterator[tuple[str, str]]:
    """Yield (session id, what) for what deletions say of sessions and of the log that is not as the log has it.

    A deletion that the log does not tell of from the session's beginning on was made in another store, from which this one
    was loaded: what it says of the log is that one's.
    """
    said = {session_id: row for session_id, row in _said(store) if session_id in log and _was_here(log[session_id])}
    sizes = {int(size) for row in said.values() if (size := row[vocab.DELETED_AT_LOG_SIZE]).isdecimal()}
    roots = roots_at((leaf_hash(line.encode()) for line in lines), sizes) if sizes else {}
    shown = {str(size): base64.b64encode(root).decode() for size, root in roots.items()}
    for session_id, row in said.items():
        if shown.get(row[vocab.DELETED_AT_LOG_SIZE], "") != row.get(vocab.DELETED_AT_ROOT):
            yield session_id, "its deletion says that the log before it was another one"
        if (heads := log[session_id].heads) and heads[-1][1] != row.get(vocab.DELETED_HEAD):
            yield session_id, "its deletion says that it ended with another turn than was logged"


def _said(store: Matching) -> Iterator[tuple[str, dict[NamedNode, str]]]:
    """Yield (session id, what its deletion says) for each deletion of a session that says what the log was."""
    for quad in store.quads((None, vocab.DELETED_AT_LOG_SIZE, None, vocab.CATALOG)):
        subject = str(getattr(quad.subject, "value", ""))
        if iris.is_session(owner := subject.removesuffix("/deletion")):
            row = store.quads((NamedNode(subject), None, None, vocab.CATALOG))
            yield iris.session_id(owner), {each.predicate: str(getattr(each.object, "value", "")) for each in row}


def _was_here(log: SessionLog) -> bool:
    return log.began >= 0 and log.deleted
