"""A session held against its digests as it comes out of the engine: no value is made of any turn.

It knows what most turns have: a text, a model call, tool calls and answers, source ids, metadata, and what a redaction leaves
of these. Whatever this look does not know or finds wrong gets the long look of `verify`, which says what: so it may give up
anywhere, and says no more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from trails.errors import TrailsError
from trails.integrity import digests
from trails.model import iris
from trails.model.values import SessionRecord, Turn
from trails.plumbing.index.moments import micros
from trails.plumbing.packs.block import Block, Damaged
from trails.plumbing.verifying.beyond import Beyond
from trails.rdf import vocab
from trails.rdf.codec import parse_time
from trails.store import tsv

Row = list[str]
"""A row of `sealed_turns`, or of `beyond_turns`."""
Who = tuple[str, str, str]
"""Role, branch and author."""
_IN_UTC: Final = f'Z"^^{vocab.DATE_TIME}'
_SECONDS: Final = len('"2026-01-01T00:00:00')
_OF_EVERY_TURN: Final = 9
"""How many quads every turn has, beside its time, which may be unknown: `sealed_turns` asks for each of them."""


Said = tuple[str, Who, int | None, str, bool, bool, Any]
"""Of a turn: its digest, who said it, when (microseconds since 1970 in UTC), its text, whether that is JSON, whether it was
taken out, and what is recorded with it, in short: see `trails.plumbing.packs.facts`."""


class Around(NamedTuple):
    """What is to be known around a session's turns."""

    named: Collection[str]
    """The digests of turns of which something is to be said even where they fit,"""
    redacted: Collection[str]
    """and of those whose content may be gone."""
    is_said: Callable[[str], bool]
    """Whether the catalog says what it has to of a tool."""
    beyond: Callable[[], Sequence[Row]]
    """What `beyond_turns` gives of the session: asked where a turn has more than its text."""
    inherited: Callable[[], Iterable[Turn]]
    """The turns of the sessions that this one was forked from: asked where calls of those are answered."""


class Direct(NamedTuple):
    """The turns of a session, from the first that it owns on: all that stand there, whole and as they were written."""

    rows: Sequence[Row]
    said: Sequence[Said]
    beyond: Sequence[Row] = ()
    """What stands there beside what every turn has."""

    @property
    def quads(self) -> int:
        """How many quads a session has that holds these turns and nothing else."""
        return (_OF_EVERY_TURN + 1) * len(self.said) - sum(each[2] is None for each in self.said) + len(self.beyond)

    def digests(self, start: int) -> dict[int, str]:
        """Return the digests by index, from the first one's index on."""
        return {index: each[0] for index, each in enumerate(self.said, start)}

    def iris(self) -> frozenset[str]:
        """Return the IRIs of the turns."""
        return frozenset([row[0][1:-1] for row in self.rows])

    def is_said_by(self, blocks: Sequence[Block]) -> bool:
        """Tell whether blocks of a pack, which go on from one another from its first turn on, say the same of these turns.

        False also where that is not clear: blocks keep what is rare otherwise.
        """
        at = 0
        for block in blocks:
            try:
                told = [(digest, who, micros(time), *more) for digest, who, time, *more in block.said_in_short()]
            except Damaged:
                return False
            if told != self.said[at : at + block.count]:
                return False
            at += block.count
        return True


def look(record: SessionRecord, rows: list[Row], previous: str, around: Around) -> Direct | None:
    """Return a session's turns, which are put in order, where each fits its digest and nothing else stands there; else None.

    `rows` are all that `sealed_turns` gives of it, `previous` is the digest before its first own turn.
    """
    try:
        rows.sort(key=_index)
        return _looked(record, rows, previous, around)
    except (TrailsError, ValueError, AttributeError, KeyError):  # values that Trails never writes
        return None


def _index(row: Row) -> int:
    return int(row[1])


def _looked(record: SessionRecord, rows: Sequence[Row], previous: str, around: Around) -> Direct | None:
    said: list[Said] = []
    start, known, seconds = f"<{record.iri}/", dict[Who, tuple[Who, bytes] | None](), dict[str, int]()
    content, chained, noted, table = digests.content_digest, digests.chain_digests, said.append, list[Row]()
    beyond: Beyond | None = None
    for wanted, (turn, index, role, value, author, digest, salt, branch, time) in enumerate(rows, record.starts_at):
        said_by = role, branch, author
        if said_by not in known:
            known[said_by] = _known(record, said_by, around)
        who = known[said_by]
        text, structured, redacted = tsv.content(value)
        if who is None or index != f"{wanted}" or (redacted and (text or digest[1:-1] not in around.redacted)):
            return None
        when, salted = _micros(time, seconds) if time else None, tsv.string(salt)
        made = salted if redacted else content(text, salted, structured=structured)
        before, recorded = previous, 0
        if beyond is None:
            previous = chained(before, index, who[1], when, made)
            if digest != f'"{previous}"':  # the first turn with more than its text
                beyond = Beyond(table := list(around.beyond()), around.inherited)
        if beyond is not None:
            facts, recorded = beyond.take(turn, author, salted)
            previous = chained(before, index, who[1], when, made, facts=facts)
        if digest != f'"{previous}"' or turn != f"{start}{index}-{previous[:16]}>" or previous in around.named:
            return None
        noted((previous, who[0], when, text, structured, redacted, recorded))
    if beyond is not None and not beyond.is_taken():
        return None
    return Direct(rows, said, table)


def _known(record: SessionRecord, row: Who, around: Around) -> tuple[Who, bytes] | None:
    """Return role, branch and author of a turn as they are, and as its digest has them; None for ones to be looked at."""
    role, branch, author = tsv.string(row[0]), tsv.string(row[1]), tsv.iri(row[2])
    is_strange = not iris.is_of_author(author) or (iris.is_tool(author) and not around.is_said(author))
    if is_strange or (record.parent_session_id is not None and branch != record.branch):
        return None
    return (role, branch, author), digests.digest_names(branch, role, iris.author_key(author))


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
