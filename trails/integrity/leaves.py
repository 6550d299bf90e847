"""The leaves of a store's log: what each one says, how it is written, and whether a run of them is whole.

A leaf is a line of text: kind, session IRI, count, digest, and its link: the first 16 hex digits of the SHA-256 of the
link of the line before it, a space, and its own other fields. So every line vouches for itself and for all before it,
and the very same lines are the leaves of the Merkle tree (RFC 6962).

    create  the session's row, as stored with its first persist      count 0, digest of the row
    fork    the same for a fork                                      count: its fork index
    turns   a batch of turns                                         count: turns in the transcript, digest: the head
    change  the session's row, after it was changed                  count 0, digest of the row
    redact  a turn whose content was taken out                       count: its index, digest of its deletion
    delete  a deletion                                               count 0, digest of the tombstone
    received, sent, delivered             an entry of the session's ledger, as it stands after the commit: an event that
    pending, streaming, completed, failed came or went, a delivery, an exchange in that state; count: the entry's number,
                                          digest: of the entry without the texts that can be taken out of it
    brief, transition, cancel, result, artifact
                                          the same for an entry in the ledger of a session of the session tree: its task or
                                          context summary, a change of state, a request to end, its result, what that lists
    decision                              the same for a policy's decision in the ledger of the session that it is about
    run     a sub-agent's run as it stands after the commit; its IRI  count: its revision, digest: of the run without its
            stands in the session's place                            texts ("-": the run was removed from the registry)
    sync    all lines before this one are on disk                    session "-", count 0, digest "-"
    close   the store was closed in good order                       session "-", count 0, digest "-"
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pyoxigraph import Quad

from trails.errors import IntegrityError

Kind = Literal[
    "create", "fork", "turns", "change", "redact", "delete", "sync", "close",
    "received", "sent", "delivered", "pending", "streaming", "completed", "failed",
    "brief", "transition", "cancel", "result", "artifact", "run", "decision",
]  # fmt: skip
LEDGER_KINDS: Final[tuple[Kind, ...]] = (
    "received", "sent", "delivered", "pending", "streaming", "completed", "failed",
    "brief", "transition", "cancel", "result", "artifact", "decision",
)  # fmt: skip
"""The kinds of leaves that tell of an entry of a session's ledger."""
_NOTHING: Final = "-"
_LINE: Final = re.compile(
    rf"({'|'.join(get_args(Kind))}) (urn:trails:session:[^ ]+|-) ([0-9]+) ([0-9a-f]{{64}}|-) ([0-9a-f]{{16}})"
)
START: Final = "0" * 16
"""What stands for the link of the line before the first one."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """What one line of the log says, without its link to the line before it."""

    kind: Kind
    session_iri: str = _NOTHING
    count: int = 0
    digest: str = _NOTHING

    def line(self, previous: str) -> str:
        """Return the line (without a newline) after the line whose link is `previous`.

        >>> Leaf("turns", "urn:trails:session:a", 2, "ab" * 32).line(START)[:31]
        'turns urn:trails:session:a 2 ab'
        """
        fields = f"{self.kind} {self.session_iri} {self.count} {self.digest}"
        return f"{fields} {_made_link(previous, fields)}"


def link(line: str) -> str:
    """Return a line's link, on which the next line builds."""
    return line.rpartition(" ")[2]


def _made_link(previous: str, fields: str) -> str:
    return hashlib.sha256(f"{previous} {fields}".encode()).hexdigest()[:16]


def follows(line: str, before: str | None) -> bool:
    """Tell whether a line is whole and comes after the line `before` (None: is the first one).

    >>> first = Leaf("close").line(START)
    >>> follows(first, None), follows(first, first), follows(Leaf("sync").line(link(first)), first)
    (True, False, True)
    """
    fields, _, made = line.rpartition(" ")
    return made == _made_link(START if before is None else link(before), fields)


def parse(line: str) -> tuple[Leaf, str]:
    """Return (leaf, link) or raise `IntegrityError` for a line that Trails never writes."""
    found = _LINE.fullmatch(line)
    if found is None:
        shown = line if len(line) <= 120 else f"{line[:117]}..."
        raise IntegrityError(f"the log has a line that is no leaf: {shown!r}")
    kind, session_iri, count, digest, made = found.groups()
    return Leaf(kind, session_iri, int(count), digest), made  # type: ignore[arg-type] # matched above


def check_links(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return (line number from 1, what is wrong) for each line that is no leaf or does not follow the one before it."""
    wrong = []
    before = None
    for number, line in enumerate(lines, 1):
        try:
            parse(line)
        except IntegrityError as error:
            wrong.append((number, str(error)))
        else:
            if not follows(line, before):
                wrong.append(
                    (number, "the line does not follow the one before it: lines were altered, moved or taken out")
                )
        before = line
    return wrong


def row_digest(quads: Iterable[Quad]) -> str:
    """Return the digest of rows of the catalog: SHA-256 over their sorted N-Quads lines."""
    lines = sorted(f"{quad.subject} {quad.predicate} {quad.object} .\n" for quad in quads)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
