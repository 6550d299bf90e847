"""Put exports and packs on record in a store's register: who made one, when, of what, to which digest, and for whom.

That is done where the store keeps a record of reads, and for every export for which recipients are named.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from trails.errors import InvalidInput
from trails.history import import_records
from trails.history.records import registers
from trails.history.workspace import Workspace
from trails.integrity import digests
from trails.model import iris, lineage, validation
from trails.rdf.register_records import Export

Made = Callable[[str | None, int | None], None]
"""Is given the SHA-256 of what was made, and how many bytes that has; None for what is no single file."""


class _Digesting(io.RawIOBase):
    """A file that is written, and reckons the digest of it on the way."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._out = out
        self._sha256 = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._sha256.update(data)
        self.size += len(data)
        self._out.write(data)
        return len(data)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()


@contextmanager
def record_export(
    workspace: Workspace, session_ids: Sequence[str] | None, form: str, recipients: Sequence[str] = ()
) -> Iterator[Made]:
    """Note that sessions (None: all that there are) are read whole, and what is made of them once that is called.

    Nothing is noted of what another export makes on its way. Raises `StoreReadOnly` where recipients are named and the store
    cannot take that down.
    """
    if isinstance(recipients, str):
        raise InvalidInput(f"give several recipients, not one text: [{recipients!r}]")
    given = tuple(sorted({validation.name(each, "a recipient") for each in recipients}))
    is_recorded = (workspace.record_reads or bool(given)) and not import_records.is_within_reading()
    if is_recorded:
        workspace.check_writable()

    def made(sha256: str | None, size: int | None) -> None:
        if is_recorded:
            _keep(workspace, session_ids, form=form, recipients=given, sha256=sha256, size=size)

    with import_records.record_reading(workspace, session_ids, "export"):
        yield made


@contextmanager
def recorded_file(
    workspace: Workspace,
    session_ids: Sequence[str] | None,
    form: str,
    out: BinaryIO,
    recipients: Sequence[str] = (),
) -> Iterator[BinaryIO]:
    """Do what `record_export` does for an export that is one file, and give the file to write it to."""
    with record_export(workspace, session_ids, form, recipients) as made:
        digesting = _Digesting(out)
        yield cast("BinaryIO", digesting)
        made(digesting.sha256, digesting.size)


def _keep(workspace: Workspace, session_ids: Sequence[str] | None, **what: Any) -> None:
    """Write down an export. Its own record is not in it: the heads and the place in the log are those before."""
    reader, reached = workspace.reader, workspace.store.log.reached
    heads = []
    for session_id in session_ids or ():
        chain = reader.lineage(session_id)
        length = reader.length(chain)
        head = reader.digest_in(lineage.segments(chain, length), length - 1) if length else None
        heads.append(f"{iris.session(session_id)} {length} {head or digests.GENESIS}")
    deed = workspace.deed(None)
    entry = Export(
        token=registers.new_token(),
        by_iri=deed.by_iri,
        time=deed.time,
        leaf_salt=digests.new_salt(),
        used=tuple(sorted(session_ids or ())),
        heads=tuple(sorted(heads)),
        log_size=reached.lines,
        log_head=reached.link,
        **what,
    )
    registers.keep_entries(workspace.store, reader, [entry])
