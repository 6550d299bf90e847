"""What each commit writes into the store's log, and holding the log against the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.errors import IntegrityError, StoreFailed
from trails.integrity import leaves
from trails.integrity.leaves import Kind, Leaf
from trails.session import conversations, ledgerbook, marks, runbook
from trails.session.reader import Reader
from trails.store.contract import QuadStore

_ROW_KINDS = frozenset({"create", "fork", "change", "delete"})
LeafMaker = Callable[[QuadStore], Sequence[Leaf]]


def row_of(store: QuadStore, session_id: str) -> list[Quad]:
    """Return everything that is said of a session and that no turn's digest covers.

    That is its row, its system prompts, its tags and notes, its deletion, which of its turns are copies of which, and for
    a session with a key its entry, its moves and, while it is the key's current one, the conversation with its aliases.
    Copies below a fork's own indices are those of a detach that is not done: they do not count yet, and those of a
    deleted session, which wait to be swept, do not count any more.
    """
    node = NamedNode(iris.session(session_id))
    quads = store.quads((node, None, None, vocab.CATALOG))
    for prompt in store.quads((None, vocab.PROMPT_OF, node, vocab.CATALOG)):
        quads += store.quads((prompt.subject, None, None, vocab.CATALOG))  # type: ignore[arg-type] # an IRI
    quads += store.quads((NamedNode(iris.deletion(node.value)), None, None, vocab.CATALOG))
    if any(quad.object == vocab.TOMBSTONE for quad in quads):
        return [quad for quad in quads if quad.predicate != vocab.PENDING_SWEEP]
    quads += marks.logged(store, node)
    if any(quad.predicate == vocab.KEY for quad in quads):
        quads += conversations.logged(store, node)
    start = next((int(quad.object.value) for quad in quads if quad.predicate == vocab.FORKED_AT_INDEX), 0)  # type: ignore[union-attr] # a literal
    copies = store.quads((None, vocab.ALTERNATE_OF, None, node))
    return quads + [quad for quad in copies if iris.turn_index(str(quad.subject.value)) >= start]  # type: ignore[union-attr] # an IRI


def row_leaf(store: QuadStore, kind: Kind, session_id: str, count: int = 0) -> Leaf:
    """Return the leaf for a session's row as it stands."""
    return Leaf(kind, iris.session(session_id), count, leaves.row_digest(row_of(store, session_id)))


def rows(kind: Kind, session_ids: Sequence[str]) -> LeafMaker:
    """Return a maker of leaves for the rows of sessions, as they stand after the commit."""
    return lambda store: [row_leaf(store, kind, session_id) for session_id in session_ids]


def turns(session_id: str, count: int, head: str) -> Leaf:
    """Return the leaf for a batch of turns: the transcript's length after it, and its head."""
    return Leaf("turns", iris.session(session_id), count, head)


@dataclass(slots=True)
class SessionLog:
    """What the log says of one session."""

    heads: list[tuple[int, str, int]] = field(default_factory=list)
    """(turns in the transcript, head digest, number of the leaf) after each batch."""
    row: str | None = None
    """The digest of its row; after a deletion, of its tombstone."""
    earlier_rows: set[str] = field(default_factory=set)
    """The digests that its row had before."""
    deleted: bool = False
    was_deleted: bool = False
    """Whether it was ever deleted; it may have been brought back since."""

    def set_row(self, digest: str, *, deleted: bool) -> None:
        """Take note of a leaf for the row; a deletion ends what was logged of the turns."""
        if self.row is not None:
            self.earlier_rows.add(self.row)
        self.was_deleted = self.was_deleted or deleted
        self.row, self.deleted = digest, deleted
        if deleted:
            self.heads.clear()


def by_session(lines: Sequence[str]) -> dict[str, SessionLog]:
    """Return what the log says of each session, by id; lines that are no leaves are left to `check_links`."""
    found: dict[str, SessionLog] = {}
    for number, line in enumerate(lines):
        # A log has a line for every commit: `leaves.parse` would take ten times as long.
        fields = line.split(" ")
        if len(fields) != 5 or not fields[2].isdecimal() or (fields[0] != "turns" and fields[0] not in _ROW_KINDS):
            continue
        kind, iri, count, digest, _ = fields
        log = found.get(iri)
        if log is None:
            log = found[iri] = SessionLog()
        if kind == "turns":
            log.heads.append((int(count), digest, number))
        else:
            log.set_row(digest, deleted=kind == "delete")
    return {iris.session_id(iri): log for iri, log in found.items() if iris.is_session(iri)}


def latest_by_session(text: str) -> dict[str, SessionLog]:
    """Return the same with only the last head of each session: after a crash a log of any length is read, and quickly."""
    text = f"\n{text}"  # searching for line starts in a pattern is six times slower
    found: dict[str, SessionLog] = {}
    for kind, iri, digest in _ROW_LINE.findall(text):
        found.setdefault(iri, SessionLog()).set_row(digest, deleted=kind == "delete")
    if any(
        not log.deleted and log.was_deleted for log in found.values()
    ):  # brought back: which heads came before that?
        return by_session(text.split("\n"))
    heads = {iri: (count, digest) for iri, count, digest in _TURNS_LINE.findall(text)}
    for iri, (count, digest) in heads.items():
        log = found.setdefault(iri, SessionLog())
        if not log.deleted:
            log.heads.append((int(count), digest, 0))
    return {iris.session_id(iri): log for iri, log in found.items() if iris.is_session(iri)}


_ROW_LINE = re.compile(rf"\n({'|'.join(sorted(_ROW_KINDS))}) ([^ ]+) [0-9]+ ([^ ]+) ")
_TURNS_LINE = re.compile(r"\nturns ([^ ]+) ([0-9]+) ([^ ]+) ")


def redaction_leaf(deletion: NamedNode, quads: Sequence[Quad]) -> Leaf:
    """Return the leaf for a redaction, given its Deletion's IRI and all that the catalog says of that."""
    owner = iris.session(iris.session_id(deletion.value))
    return Leaf("redact", owner, iris.turn_index(deletion.value), leaves.row_digest(quads))


def redactions(store: QuadStore) -> list[tuple[Leaf, str]]:
    """Return (leaf, digest of the turn) for each redaction that the catalog knows."""
    found = []
    for quad in store.quads((None, vocab.DELETED_TURN, None, vocab.CATALOG)):
        node = NamedNode(str(quad.subject.value))  # type: ignore[union-attr] # an IRI
        if iris.is_turn_deletion(node.value):
            quads = store.quads((node, None, None, vocab.CATALOG))
            digest = next((str(q.object.value) for q in quads if q.predicate == vocab.DIGEST), "")  # type: ignore[union-attr] # a literal
            found.append((redaction_leaf(node, quads), digest))
    return found


def logged_redactions(lines: Sequence[str]) -> set[Leaf]:
    """Return the leaves of redactions in the log; lines that are no leaves are left to `check_links`."""
    found = set()
    for line in lines:
        if line.startswith("redact "):
            with suppress(IntegrityError):
                found.add(leaves.parse(line)[0])
    return found


def catch_up(store: QuadStore) -> int:
    """Write the leaves that a crash kept from the log; return how many. A log that was closed well misses none.

    A commit's leaf is written once its quads are as safe as they are promised to be, and is on disk only at the next
    flush: after a crash the store may be ahead of its log. A store that is behind it has lost what was acknowledged.
    """
    if store.log.ended_well and not store.log.is_empty:
        return 0
    text = store.log.text()
    known = latest_by_session(text)
    missing: list[Leaf] = []
    for quad in store.quads((None, vocab.TYPE, None, vocab.CATALOG)):
        if quad.object not in (vocab.SESSION, vocab.TOMBSTONE):
            continue
        session_id = iris.session_id(str(quad.subject.value))  # type: ignore[union-attr] # an IRI
        missing += _missing(
            store, session_id, known.get(session_id, SessionLog()), deleted=quad.object == vocab.TOMBSTONE
        )
    logged = logged_redactions(re.findall("^redact .*", text, re.MULTILINE))
    missing += [leaf for leaf, _ in redactions(store) if leaf not in logged]
    missing += ledgerbook.missing_leaves(store, text)
    missing += runbook.missing_leaves(store, text)
    if missing:
        try:
            store.log.append(missing)
            store.log.sync()
        except OSError as error:
            raise StoreFailed(f"the log of the store {store.location} cannot be written: {error}") from error
    return len(missing)


def _missing(store: QuadStore, session_id: str, log: SessionLog, *, deleted: bool) -> list[Leaf]:
    row = row_leaf(store, "delete" if deleted else "create" if log.row is None else "change", session_id)
    if row.digest != log.row and row.digest in log.earlier_rows:
        return []  # a store that was rolled back, not a leaf that is missing: for `verify` to find
    made = [row] if row.digest != log.row else []
    if deleted:
        return made
    count = log.heads[-1][0] if log.heads else _first_own(store, session_id)
    reader, head, length = Reader(store), None, count
    while (digest := reader.digest_at(session_id, length)) is not None:
        head, length = digest, length + 1
    if head is not None:
        made.append(turns(session_id, length, head))
    return made


def _first_own(store: QuadStore, session_id: str) -> int:
    quads = store.quads((NamedNode(iris.session(session_id)), vocab.FORKED_AT_INDEX, None, vocab.CATALOG))
    return int(quads[0].object.value) if quads else 0  # type: ignore[union-attr] # a literal
