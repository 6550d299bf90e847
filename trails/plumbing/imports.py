"""How a session came in from a file: recorded in the commit that stores what came, and read again."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from io import BytesIO
from typing import IO, Final, NamedTuple

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.plumbing import leaves
from trails.plumbing.transaction import Transaction
from trails.records.acts import EXACT, Import, SourceFile, act_quads, file_quads
from trails.store.contract import Matching

_PART: Final = 1 << 20
"""Bytes of a file that are read at once."""


class Importing(NamedTuple):
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
    return SourceFile(sha256=digest.hexdigest(), size=size, name=name)


def record(
    store: Matching,
    session_id: str,
    importing: Importing,
    files: Iterable[SourceFile],
    *,
    refused_lines: int,
    is_new: bool,
    origin: str | None = None,
) -> Transaction:
    """Return what goes into the commit that brings a session in, or more of one, and says that it does.

    `is_new` is for a session whose row is logged by that commit anyhow. Where the very session comes in that was exported, it
    is not derived from the file. `origin` is where it stands in the log of the store that it comes from.
    """
    node, tx = NamedNode(iris.session(session_id)), Transaction()
    came = {file.iri: file for file in files}
    read_as: set[str] = set()
    for file in came.values():
        known = store.quads((NamedNode(file.iri), None, None, vocab.CATALOG))
        if not known:
            tx.new(file_quads(file))
            continue
        tx.require(quad for quad in known if quad.predicate == vocab.TYPE)
        if file.name is not None and file.name not in {str(getattr(quad.object, "value", "")) for quad in known}:
            read_as.add(file.name)
    exact = importing.importer in EXACT
    made = Import(
        session_id=session_id,
        token=secrets.token_hex(8) if exact else _next(store, node.value),
        by_iri=importing.by_iri,
        time=datetime.now(UTC),
        started=importing.started,
        importer=importing.importer,
        version=importing.version,
        refused_lines=refused_lines,
        files=tuple(sorted(came)),
        read_as=tuple(sorted(read_as)),
        origin=origin,
    )
    tx.new(act_quads(made))
    if not exact:
        tx.add(Quad(node, vocab.DERIVED_FROM, NamedNode(file), vocab.CATALOG) for file in came)
    if not is_new:
        tx.log(leaves.rows("change", [session_id]))
    return tx


def _next(store: Matching, session_iri: str) -> str:
    number = 1
    while store.quads((NamedNode(iris.session_import(session_iri, number)), None, None, vocab.CATALOG)):
        number += 1
    return str(number)
