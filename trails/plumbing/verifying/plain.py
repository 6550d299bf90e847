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


class Plain(NamedTuple):
    """The turns of a session, from the first that it owns on: all that stand there, whole and as they were written."""

    rows: Sequence[Row]
    digests: Sequence[str]
    who: Sequence[Who]
    times: Sequence[int | None]
    """Microseconds since 1970 in UTC."""
    texts: Sequence[str]
    structured: Sequence[bool]

    @property
    def quads(self) -> int:
        """How many quads a session has that holds these turns and nothing else."""
        return (_OF_EVERY_TURN + 1) * len(self.rows) - self.times.count(None)

    def is_said_by(self, blocks: Sequence[Block]) -> bool:
        """Tell whether blocks of a pack, which go on from one another from its first turn on, say the same of these turns."""
        at = 0
        for block in blocks:
            within = slice(at, at + block.count)
            own = tuple(each[within] for each in (self.digests, self.who, self.times, self.texts, self.structured))
            told, who, times, texts, structured = block.columns()
            if not block.is_plain or (told, who, [micros(time) for time in times], texts, structured) != own:
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
    found = Plain(rows, [], [], [], [], [])
    iri, known, seconds = record.iri, dict[Who, tuple[Who, bytes] | None](), dict[str, int]()
    for wanted, (turn, index, role, value, author, digest, salt, branch, time) in enumerate(rows, record.starts_at):
        if index != f"{wanted}":
            return None
        said_by = role, branch, author
        if said_by not in known:
            known[said_by] = _known(record, said_by)
        if (who := known[said_by]) is None:
            return None
        text, structured, redacted = tsv.content(value)
        if redacted:
            return None
        when = _micros(time, seconds) if time else None
        content = digests.content_digest(text, tsv.string(salt), structured=structured)
        previous = digests.chained(previous, index, who[1], when, content)
        if digest != f'"{previous}"' or turn != f"<{iri}/{index}-{previous[:16]}>" or previous in named:
            return None
        found.digests.append(previous)  # type: ignore[attr-defined] # lists, as they were made above
        found.who.append(who[0])  # type: ignore[attr-defined]
        found.times.append(when)  # type: ignore[attr-defined]
        found.texts.append(text)  # type: ignore[attr-defined]
        found.structured.append(structured)  # type: ignore[attr-defined]
    return found


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
