"""Record how sessions came in from files, which session spawned another, and who read sessions.

An import is recorded in the commit that stores what came. A link to the spawning session may be added after both are
stored. Reads are recorded only if the store was opened so, and before anything is given out.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from typing import IO, Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.files import readable_path
from trails.history import encryption, log_leaves, read_records
from trails.history.transaction import Transaction, is_stored
from trails.history.workspace import Workspace
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.activity_records import EXACT, Import, Reading, SourceFile, activity_quads, file_quads
from trails.rdf.codec import meta_literal
from trails.store.contract import Matching, QuadStore

_PART: Final = 1 << 20
"""Bytes of a file that are read at once."""
SPARSE: Final = 3600.0
"""Seconds for which one record of an import stands where files are followed as they grow."""


class ImportSource(NamedTuple):
    """That somebody reads files into a store."""

    importer: str
    """The format."""
    version: str
    """The version of Trails."""
    by_iri: str
    started: datetime


def source_file(data: bytes | IO[bytes], name: str | None) -> SourceFile:
    """Return what is recorded of a file that was read, given its bytes or the open file, which is then at its end.

    >>> source_file(b"abc", "a.jsonl").sha256[:16], source_file(b"abc", None).size
    ('ba7816bf8f01cfea', 3)
    """
    file = BytesIO(data) if isinstance(data, bytes) else data
    digest, size = hashlib.sha256(), 0
    while part := file.read(_PART):
        digest.update(part)
        size += len(part)
    return SourceFile(sha256=digest.hexdigest(), size=size, name=None if name is None else readable_path(name))


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """The files of an import, as its record names them."""

    source: ImportSource
    files: Mapping[str, SourceFile]
    """By the names that the parser was given."""
    refused_lines: int = 0
    origin: str | None = None
    """Where the session stands in the log of the store that it comes from, where it comes from one."""
    is_sparse: bool = False
    """For who follows files as they grow: one record stands for what comes into a session within `SPARSE` seconds after it."""

    def for_one(self, names: Iterable[str], refused_lines: int) -> ImportedFiles:
        """Return the record for one session, with its own files or the first one."""
        own = {name: self.files[name] for name in names if name in self.files}
        return replace(
            self, files=own or dict(islice(self.files.items(), 1)), refused_lines=self.refused_lines + refused_lines
        )

    def recorded(self, store: Matching, session_id: str, *, is_new: bool) -> Transaction:
        """Return what goes into the commit that brings a session in, or more of one, and says that it does.

        `is_new` is for a session whose row is logged by that commit anyhow. Where the very session comes in that was exported,
        it is not derived from the file.
        """
        node, tx = NamedNode(iris.session(session_id)), Transaction()
        if self.is_sparse and not is_new and was_just_recorded(store, session_id, self.source.started):
            return tx
        came = {file.iri: file for file in self.files.values()}
        read_as: set[str] = set()
        for file in came.values():
            known = store.quads((NamedNode(file.iri), None, None, vocab.CATALOG))
            if not known:
                tx.new(file_quads(file))
                continue
            tx.require(quad for quad in known if quad.predicate == vocab.TYPE)
            if file.name is not None and file.name not in {str(getattr(quad.object, "value", "")) for quad in known}:
                read_as.add(file.name)
        exact = self.source.importer in EXACT
        made = Import(
            session_id=session_id,
            token=secrets.token_hex(8) if exact else _next(store, node.value),
            by_iri=self.source.by_iri,
            time=datetime.now(UTC),
            started=self.source.started,
            importer=self.source.importer,
            version=self.source.version,
            refused_lines=self.refused_lines,
            files=tuple(sorted(came)),
            read_as=tuple(sorted(read_as)),
            origin=self.origin,
        )
        tx.new(activity_quads(made))
        if not exact:
            tx.add(Quad(node, vocab.DERIVED_FROM, NamedNode(file), vocab.CATALOG) for file in came)
        if not is_new:
            tx.log(log_leaves.row_states("change", [session_id]))
        return tx


def was_just_recorded(store: Matching, session_id: str, now: datetime) -> bool:
    """Tell whether a session's last import began within the last `SPARSE` seconds."""
    session_iri = iris.session(session_id)
    last = int(_next(store, session_iri)) - 1
    if not last:
        return False
    node = NamedNode(iris.session_import(session_iri, last))
    began = [quad.object for quad in store.quads((node, vocab.STARTED_AT, None, vocab.CATALOG))]
    ages = [(now - datetime.fromisoformat(each.value)).total_seconds() for each in began if isinstance(each, Literal)]
    return any(abs(age) < SPARSE for age in ages)


def _next(store: Matching, session_iri: str) -> str:
    number = 1
    while store.quads((NamedNode(iris.session_import(session_iri, number)), None, None, vocab.CATALOG)):
        number += 1
    return str(number)


AWAITED_PARENT: Final = encryption.AWAITED_PARENT
"""The metadata of a session that names its spawner while that is not stored."""


def add_spawn_links(tx: Transaction, session_id: str, spawner: str) -> None:
    """Say in a session's row which one spawned it."""
    node, parent = NamedNode(iris.session(session_id)), NamedNode(iris.session(spawner))
    tx.require([is_stored(spawner)])
    tx.add([Quad(node, vocab.SPAWNED_BY, parent, vocab.CATALOG)])
    tx.forbid((node, vocab.SPAWNED_BY, None, vocab.CATALOG))


def spawn_link(store: QuadStore, session_id: str, spawner: str) -> None:
    """Link a stored session that has no spawner to a stored one, in a commit of its own."""
    tx = Transaction()
    tx.require([is_stored(session_id)])
    add_spawn_links(tx, session_id, spawner)
    tx.log(log_leaves.row_states("change", [session_id]))
    tx.commit(store)


def sessions_awaiting(store: Matching, spawner: str) -> list[str]:
    """Return the ids of the stored sessions that name a session as their spawner and have no link."""
    named = (None, NamedNode(iris.meta(AWAITED_PARENT)), meta_literal(spawner), vocab.CATALOG)
    nodes = [quad.subject for quad in store.quads(named)]
    waiting = [
        node
        for node in nodes
        if isinstance(node, NamedNode) and not store.quads((node, vocab.SPAWNED_BY, None, vocab.CATALOG))
    ]
    return sorted(iris.session_id(node.value) for node in waiting)


RECORD_READS: Final = "TRAILS_RECORD_READS"
"""The variable of the environment that says, as "1", that reads are kept on record, where the program does not say."""


def reads_are_recorded() -> bool:
    """Tell whether the environment says that reads are kept on record."""
    return os.environ.get(RECORD_READS) == "1"


def is_within_reading() -> bool:
    """Tell whether something is read for a reading that is on record as a whole."""
    return read_records.WITHIN.get()


@contextmanager
def record_reading(workspace: Workspace, session_ids: Sequence[str] | None, action: str) -> Iterator[None]:
    """Note that sessions (None: all that there are) are read whole, where the store keeps a record of reads.

    What reads them again on the way, as an audit does that is packed, is not noted once more.
    """
    if not workspace.record_reads or read_records.WITHIN.get():
        yield
        return
    _note(workspace, workspace.reader.ids() if session_ids is None else session_ids, action)
    token = read_records.WITHIN.set(True)
    try:
        yield
    finally:
        read_records.WITHIN.reset(token)


def _note(workspace: Workspace, session_ids: Sequence[str], action: str) -> None:
    deed, reader, tx = workspace.deed(None), workspace.reader, Transaction(workspace.reader)
    for session_id in session_ids:
        chain = reader.lineage(session_id)
        last = reader.last_index(chain)
        made = Reading(
            session_id=session_id,
            token=secrets.token_hex(8),
            by_iri=deed.by_iri,
            time=deed.time,
            action=action,
            used=tuple(sorted(record.id for record in chain)),
            read_from=None if last is None else 0,
            read_through=last,
        )
        tx.session(session_id)
        tx.add(activity_quads(made))
    tx.log(log_leaves.row_states("change", session_ids))
    tx.commit(workspace.store)
