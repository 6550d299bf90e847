"""Sessions as an export says them: their place among forks, whose turn stands where, and what was redacted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trails.integrity.verifier.digest_rules import GENESIS
from trails.integrity.verifier.quads import (
    INTEGER,
    PROV,
    TRAILS,
    TYPE,
    Properties,
    first_number,
    first_value,
    index_of,
    typed_value,
)
from trails.integrity.verifier.terms import session_id_of
from trails.integrity.verifier.turns import Turn


class Finding(NamedTuple):
    """What does not hold: a word for it, the session, the index of the turn where there is one, and a sentence."""

    code: str
    session: str | None
    index: int | None  # type: ignore[assignment] # hides tuple.index, which nobody calls here
    message: str


class Session:
    """A session as the file says it: its place among forks, its own turns by index, and its system prompts."""

    def __init__(self, iri: str, row: Properties) -> None:
        self.iri, self.id = iri, session_id_of(iri)
        parent = row.get(TRAILS + "parentSession")
        self.parent = typed_value(row, "parentSession", "") if parent else None
        at = row.get(TRAILS + "forkedAtIndex")
        self.start = index_of(typed_value(row, "forkedAtIndex", INTEGER)) if at else 0
        if bool(parent) != bool(at):
            raise ValueError("it has a parent or a fork index and not both")
        self.fork_head = typed_value(row, "forkHead") if parent else None
        self.branch = first_value(row, TRAILS + "branch") or "main"
        self.turns: dict[int, Turn] = {}
        self.copies: list[Turn] = []
        """Turns below its fork index, which a detach that was cut short left."""
        self.redacted: list[int] = []
        self.stands: list[int] = []
        """Turns that only a redaction's own statement vouches for: a name or a role was taken out."""
        self.prompts: set[int] = set()
        self.system_version = first_number(row, TRAILS + "systemVersion") or 0
        self.head = GENESIS
        self.length = 0


class Redactions:
    """What the file says of redactions: the digests of turns, what these stand as since, and the IRIs of the rest."""

    def __init__(self) -> None:
        self.turns: set[str] = set()
        self.standing: dict[str, str] = {}
        self.parts: set[str] = set()

    def read(self, subjects: dict[str, Properties]) -> None:
        """Take in all redactions of a catalog, oldest first: the newest says what a turn stands as."""
        made = [each for each in subjects.items() if (TRAILS + "Deletion", "") in each[1].get(TYPE, [])]
        for iri, said in sorted(made, key=lambda each: (first_value(each[1], PROV + "endedAtTime") or "", each[0])):
            self.parts |= {part for part, _ in said.get(TRAILS + "redactedPart", [])}
            turn, digest = first_value(said, TRAILS + "deletedTurn"), first_value(said, TRAILS + "digest")
            if turn is not None and digest is not None and iri.partition("/deletion")[0] == turn:
                self.turns.add(digest)
                stands = first_value(said, TRAILS + "standsAs")
                if stands is not None:
                    self.standing[digest] = stands


def owner_at(lineage: list[Session], index: int) -> Session | None:
    """Return whose turn stands at an index of a transcript: the nearest whose own turns begin at or before it."""
    return next((each for each in lineage if each.start <= index), None)


def inherited_turns(lineage: list[Session]) -> Iterator[Turn]:
    """Yield the turns that a session inherits, from the oldest ancestor on."""
    ends = [min(each.start for each in lineage[:place]) for place in range(1, len(lineage))]
    for ancestor, end in reversed(list(zip(lineage[1:], ends))):  # noqa: B905 - `strict` came with 3.10
        yield from (ancestor.turns[index] for index in sorted(ancestor.turns) if index < end)
