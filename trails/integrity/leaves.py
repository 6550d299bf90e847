"""The leaves of a store's log: what each one says, how it is written, and whether a run of them is whole.

A leaf is a line of text: kind, session IRI, count, digest, and its link: the first 16 hex digits of the SHA-256 of the
link of the line before it, a space, and its own other fields. So every line vouches for itself and for all before it,
and the very same lines are the leaves of the Merkle tree (RFC 6962).

    create   what a session was made with: id, principal, agent,     count 0
             kind, creation time, source, what it is a copy of
    fork     the same for a fork, with parent, fork index, fork head count: its fork index
             and the version of the system prompt that it inherits
    change   all else that is said of a session: state, label, key,  count 1 with `create` or `fork`, 0 later
             metadata, who spawned it, system prompts, tags, notes,
             what is a copy; with a key its entry, its moves, its
             conversation and that one's aliases
    detach   the same, when a fork was cut loose from its parent     count: the fork index that it had
    turns    a batch of turns                                        count: turns in the transcript, digest: the head
    redact   a turn whose content was taken out: who, when, why      count: the turn's index
             (of what is not a turn, the redaction's own IRI stands in the session's place, and count is 0)
    delete   a deletion: the tombstone, who, when                    count 0
    received, sent, delivered             an entry of the session's ledger: an event that came or went, a delivery, an
    pending, streaming, completed, failed exchange in that state; count: the entry's number, digest: of the entry without
                                          the texts that can be taken out of it, whose salted digest it covers
    said                                  the turns that say an inbound event; count: the event's number
    brief, transition, cancel, result, artifact
                                          the same for an entry in the ledger of a session of the session tree: its task or
                                          context summary, a change of state, a request to end, its result, what that lists
    decision                              the same for a policy's decision in the ledger of the session that it is about
    run      a sub-agent's run as it stands after the commit; its    count: its revision, digest: of the run without its
             IRI stands in the session's place                       texts
    task     what a run was registered with: its id, its task, when  count 1
    document a PROV document that was brought in: its record, with    count 0
             the digest of all that stands in its graphs; its IRI
             stands in the session's place
    discard  the record that such a document was taken out again     count 0
    ref      a ref (a name that moves) after a move; an IRI of its   count: of its moves, digest: over all of them, and random
             own, without its name, stands in the session's place    bits; of a ref that was removed, -
    register an entry of a register: an incident, a purpose of        count 0
             processing, an export, that something is over; its IRI
             stands in the session's place
    remove   the record that a run was taken out of the registry     count: its revision
    sync, close  no more written: an older version noted with them what was on disk

What a leaf covers cannot be guessed from it: every digest covers random bits that are stored beside what it covers, or a
salted digest of a text, and they go with that. A `change`, a `run` and a `delete` draw new ones, and so does whatever is
logged again because a text was taken out of it. A `~` before the digest of a session's row
says so: an older version's `create`, `fork`, `change` and `delete` have none, cover the whole row, and no salt.

What never changes has one leaf: create or fork, delete, redact, received, sent, delivered, brief, transition, cancel,
result, artifact, decision, task, remove, register; an exchange ends once. A second one is a finding. `change`, `detach`,
`said` and `run` are followed by others, of which the last holds: they are history. A session that was deleted may
come back (an import does that) as what it was made with before, with the turns and entries that it had, or the first of them.
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
    "create", "fork", "turns", "change", "detach", "redact", "delete", "sync", "close",
    "received", "sent", "delivered", "pending", "streaming", "completed", "failed", "said",
    "brief", "transition", "cancel", "result", "artifact", "run", "task", "remove", "decision", "document", "discard", "ref",
    "register",
]  # fmt: skip
LEDGER_KINDS: Final[tuple[Kind, ...]] = (
    "received", "sent", "delivered", "pending", "streaming", "completed", "failed",
    "brief", "transition", "cancel", "result", "artifact", "decision",
)  # fmt: skip
"""The kinds of leaves that tell of an entry of a session's ledger, except for the turns that say it."""
SALTED: Final = "~"
"""What stands before the digest of a session's row that covers a salt."""
_NOTHING: Final = "-"
_LINE: Final = re.compile(
    rf"({'|'.join(get_args(Kind))}) (urn:trails:(?:session|prov|ref|register):[^ \n]+|-) ([0-9]{{1,19}}) "
    r"(~?[0-9a-f]{64}|-) ([0-9a-f]{16})"
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


def link_leaf(line: str) -> str:
    """Return a line's link, on which the next line builds."""
    return line.rpartition(" ")[2]


def _made_link(previous: str, fields: str) -> str:
    return hashlib.sha256(f"{previous} {fields}".encode()).hexdigest()[:16]


def follows(line: str, before: str | None) -> bool:
    """Tell whether a line is whole and comes after the line `before` (None: is the first one).

    >>> first = Leaf("close").line(START)
    >>> follows(first, None), follows(first, first), follows(Leaf("sync").line(link_leaf(first)), first)
    (True, False, True)
    """
    fields, _, digest = line.rpartition(" ")
    return digest == _made_link(START if before is None else link_leaf(before), fields)


def parse_leaf(line: str) -> tuple[Leaf, str]:
    """Return (leaf, link) or raise `IntegrityError` for a line that Trails never writes."""
    match = _LINE.fullmatch(line)
    if match is None:
        shown = line if len(line) <= 120 else f"{line[:117]}..."
        raise IntegrityError(f"the log has a line that is no leaf: {shown!r}")
    kind, session_iri, count, digest, made = match.groups()
    return Leaf(kind, session_iri, int(count), digest), made  # type: ignore[arg-type] # matched above


def check_links(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return (line number from 1, what is wrong) for each line that is no leaf or does not follow the one before it."""
    wrong = []
    before = None
    for number, line in enumerate(lines, 1):
        try:
            parse_leaf(line)
        except IntegrityError as error:
            wrong.append((number, f"{error}"))
        else:
            if not follows(line, before):
                what = "the line does not follow the one before it: lines were altered, moved or taken out"
                wrong.append((number, what))
        before = line
    return wrong


def row_digest(quads: Iterable[Quad]) -> str:
    """Return the digest of rows of the catalog: SHA-256 over `row_text`."""
    return hashlib.sha256(row_text(quads).encode()).hexdigest()


def row_text(quads: Iterable[Quad]) -> str:
    """Return rows of the catalog as sorted lines of N-Triples."""
    return "".join(sorted(f"{quad.subject} {quad.predicate} {quad.object} .\n" for quad in quads))
