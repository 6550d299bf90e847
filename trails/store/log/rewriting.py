"""What the log says of records that were rewritten, and what is wrong with one that is not as it says.

Whoever rewrites records appends one that names them, each with the digest of what is left of it: no other body may stand there.
Version 0.1 appended none. Its records lack the flag `IS_STATED`, which the chain of digests covers, so no newer record can pass
for one of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trails.store.log.records import IS_STATED, REWRITES, Row, Unpacked

UNPROVEN: Final = bytes(32)
"""What is said of a record that was not as the log says when it was rewritten again: no body has this digest, so that `verify`
goes on naming the record."""


@dataclass(slots=True)
class Rewritings:
    """What records say of others, and what stands in those, as the log is read."""

    stated: dict[int, bytes] = field(default_factory=dict)
    there: dict[int, bytes] = field(default_factory=dict)
    older: set[int] = field(default_factory=set)
    """The records that version 0.1 may have rewritten."""

    def take(self, unpacked: Unpacked) -> None:
        """Note what one record says of others, and what is left of it if it was rewritten."""
        row = unpacked.row
        if row.flags & REWRITES:
            self.stated |= unpacked.record.rewrites
        if row.rewritten is not None:
            self.there[row.number] = unpacked.body_digest
            if _is_older(row):
                self.older.add(row.number)

    def trouble(self) -> str | None:
        """Return what is wrong with the first record that is not as the log says, to be read after "record" and its place."""
        differing = sorted(each for each, digest in self.there.items() if self.stated.get(each) != digest)
        if not differing:
            return None
        newer = (each for each in differing if each not in self.older or each in self.stated)
        wrong = next(newer, None)
        if wrong is None:
            wrong = differing[0]
            return (
                f"{wrong} was rewritten, and no later record says so, as version 0.1 of Trails did it: what stands there is not "
                "proven. If you redacted or deleted with that version, `trails store vacuum` says so in the log now; if not, "
                "restore a backup"
            )
        return f"{wrong} was rewritten, and no later record says so: restore a backup"


def stated_in(rows: Iterable[Row]) -> dict[int, bytes]:
    """Return what rows, in their order, say of records that were rewritten."""
    stated: dict[int, bytes] = {}
    for row in rows:
        stated |= row.unpack().record.rewrites
    return stated


def to_state(rewritten: Iterable[tuple[Row, bytes]], stated: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return what the log is to say of records: of each as it stood before with the digest of what is left of it.

    `stated` is what it says by now. Of a record that was not as that says, nothing becomes proven by being rewritten again.
    """
    return {
        row.number: digest if _is_proven(row, stated) else UNPROVEN
        for row, digest in rewritten
        if stated.get(row.number) != digest
    }


def is_unstated(row: Row) -> bool:
    """Tell whether version 0.1 may have rewritten a record, of which a vacuum is to say what stands there."""
    return row.rewritten is not None and _is_older(row)


def _is_proven(row: Row, stated: Mapping[int, bytes]) -> bool:
    known = stated.get(row.number)
    return row.rewritten is None or known == row.rewritten or (known is None and _is_older(row))


def _is_older(row: Row) -> bool:
    return not row.flags & IS_STATED
