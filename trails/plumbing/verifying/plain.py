"""A session of plain turns, held against its digests as it comes out of the engine: no value is made of any turn.

A plain turn has nothing recorded with it beyond its text, and nothing taken out of it. Whatever this look does not know or
finds wrong gets the long look of `verify`, which says what: so it may give up anywhere, and says no more than that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from trails import iris, vocab
from trails.errors import TrailsError
from trails.integrity import digests
from trails.model import SessionRecord
from trails.plumbing.index.moments import micros
from trails.plumbing.packs.block import Block
from trails.records.terms import parse_time
from trails.store import tsv

Row = list[str]
"""A row of `sealed_turns`."""
Who = tuple[str, str, str]
"""Role, branch and author."""
_IN_UTC: Final = f'Z"^^{vocab.DATE_TIME}'
_SECONDS: Final = len('"2026-01-01T00:00:00')
_OF_EVERY_TURN: Final = 9
"""How many quads every plain turn has, beside its time, which may be unknown: `sealed_turns` asks for each of them."""


Said = tuple[str, Who, int | None, str, bool]
"""Of a turn: its digest, who said it, when (microseconds since 1970 in UTC), its text, and whether that is JSON."""


class Plain(NamedTuple):
    """The turns of a session, from the first that it owns on: all that stand there, whole and as they were written."""

    rows: Sequence[Row]
    said: Sequence[Said]

    @property
    def quads(self) -> int:
        """How many quads a session has that holds these turns and nothing else."""
        return (_OF_EVERY_TURN + 1) * len(self.said) - sum(each[2] is None for each in self.said)

    def digests(self, start: int) -> dict[int, str]:
        """Return the digests by index, from the first one's index on."""
        return {index: each[0] for index, each in enumerate(self.said, start)}

    def iris(self) -> frozenset[str]:
        """Return the IRIs of the turns."""
        return frozenset([row[0][1:-1] for row in self.rows])

    def is_said_by(self, blocks: Sequence[Block]) -> bool:
        """Tell whether blocks of a pack, which go on from one another from its first turn on, say the same of these turns."""
        at = 0
        for block in blocks:
            told = [(digest, who, micros(time), text, whether) for digest, who, time, text, whether in block.plain()]
            if not block.is_plain or told != self.said[at : at + block.count]:
                return False
            at += block.count
        return True


def look(record: SessionRecord, rows: list[Row], previous: str, named: Collection[str]) -> Plain | None:
    """Return a session's turns, which are put in order, where each is plain and fits its digest; else None.

    `rows` are all that `sealed_turns` gives of it, `previous` is the digest before its first own turn, `named` are the
    digests of turns of which something is to be said even where they fit.
    """
    try:
        rows.sort(key=_index)
        return _looked(record, rows, previous, named)
    except (TrailsError, ValueError, AttributeError):  # values that Trails never writes
        return None


def _index(row: Row) -> int:
    return int(row[1])


def _looked(record: SessionRecord, rows: Sequence[Row], previous: str, named: Collection[str]) -> Plain | None:
    said: list[Said] = []
    start, known, seconds = f"<{record.iri}/", dict[Who, tuple[Who, bytes] | None](), dict[str, int]()
    content, chained, noted = digests.content_digest, digests.chained, said.append
    for wanted, (turn, index, role, value, author, digest, salt, branch, time) in enumerate(rows, record.starts_at):
        said_by = role, branch, author
        if said_by not in known:
            known[said_by] = _known(record, said_by)
        who = known[said_by]
        text, structured, redacted = tsv.content(value)
        if who is None or redacted or index != f"{wanted}":
            return None
        when = _micros(time, seconds) if time else None
        made = content(text, tsv.string(salt), structured=structured)
        previous = chained(previous, index, who[1], when, made)
        if digest != f'"{previous}"' or turn != f"{start}{index}-{previous[:16]}>" or previous in named:
            return None
        noted((previous, who[0], when, text, structured))
    return Plain(rows, said)


def _known(record: SessionRecord, row: Who) -> tuple[Who, bytes] | None:
    """Return role, branch and author of a turn as they are, and as its digest has them; None for ones to be looked at."""
    role, branch, author = tsv.string(row[0]), tsv.string(row[1]), tsv.iri(row[2])
    is_strange = iris.is_tool(author) or not iris.is_of_author(author)
    if is_strange or (record.parent_session_id is not None and branch != record.branch):
        return None
    return (role, branch, author), digests.names(branch, role, iris.author_key(author))


def _micros(term: str, seconds: dict[str, int]) -> int:
    """Return the microseconds since 1970 of a time; `seconds` keeps those of the whole seconds, which many turns share."""
    if term[:1] != '"' or not term.endswith(_IN_UTC):
        raise ValueError(f"{term} is no time in UTC")
    whole, fraction = term[1:_SECONDS], term[_SECONDS : -len(_IN_UTC)]
    if whole not in seconds:
        seconds[whole] = _of(f"{whole}Z")
    if not fraction:
        return seconds[whole]
    if fraction[0] != "." or not fraction.isascii() or not fraction[1:].isdecimal() or len(fraction) > len(".000000"):
        raise ValueError(f"{term} is no time to the microsecond")
    return seconds[whole] + int(fraction[1:].ljust(6, "0"))


def _of(lexical: str) -> int:
    when = micros(parse_time(lexical))
    assert when is not None  # noqa: S101 - a time has one
    return when
