"""Taking one text out of a store: where it stands, what is done about it, and what whoever goes through it may ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyoxigraph import Quad

from trails import iris, vocab
from trails.integrity.leaves import Leaf
from trails.model import Value
from trails.plumbing.needle import Needle
from trails.plumbing.substitution import Substitution

LOGGED_IDS: Final = {"session id": "ids of sessions are in the log, which nothing is taken out of: delete the session, or "
    "import its turns under another id", "run id": "ids of runs, and keys of runs without a session, are in the log, which "
    "nothing is taken out of"}  # fmt: skip
"""Why an id stays, by what it is of."""


class Place(Value):
    """One place where a text stands: of which session, what kind of place, at which index, in what."""

    session_id: str | None = None
    kind: str
    """`content`, `call arguments`, `author`, `note`, `ledger text`, and so on."""
    index: int | None = None
    """The turn's index, or the number of the ledger's entry; None elsewhere."""
    iri: str
    """What holds it, as it is called until the text is taken out."""
    why: str | None = None
    """Why it cannot be taken out there; None where it can."""


class ChangedTurn(NamedTuple):
    """A turn out of which something is taken."""

    iri: str
    digest: str
    kinds: tuple[str, ...]
    stands_as: str | None


@dataclass(slots=True)
class Changed:
    """What is to be done to take a text out, and where it stands."""

    places: dict[Place, None] = field(default_factory=dict)
    left: dict[Place, None] = field(default_factory=dict)
    remove: list[Quad] = field(default_factory=list)
    add: list[Quad] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    rows: set[str] = field(default_factory=set)
    """The sessions whose rows are logged again."""
    tombstones: set[str] = field(default_factory=set)
    """The same of those that were deleted."""
    turns: list[ChangedTurn] = field(default_factory=list)
    parts: dict[str, dict[str, None]] = field(default_factory=dict)
    """By session, the IRIs (as they are then) of all else that is changed."""

    def swap(self, before: Iterable[Quad], after: Iterable[Quad]) -> None:
        """Put quads in the place of others; what is in both stays."""
        old, new = dict.fromkeys(before), dict.fromkeys(after)
        self.remove += [quad for quad in old if quad not in new]
        self.add += [quad for quad in new if quad not in old]

    def note(self, session_id: str, part: str) -> None:
        """Remember what the record of a session's redaction is to name."""
        self.parts.setdefault(session_id, {})[part] = None


class Taking:
    """A text that is being taken out of a store, and what was worked out so far."""

    def __init__(self, needle: Needle, new: Substitution, found: Changed) -> None:
        self.needle = needle
        self.new = new
        """What stands in the place of what holds the text."""
        self.found = found
        self.about: dict[str, list[Quad]] = {}
        """What the catalog says, by subject."""

    def place(self, session_id: str | None, kind: str, iri: str, index: int | None = None) -> None:
        """Take note of a place out of which the text goes."""
        self.found.places[Place(session_id=session_id, kind=kind, iri=iri, index=index)] = None

    def leave(self, session_id: str | None, kind: str, iri: str, why: str, index: int | None = None) -> None:
        """Take note of a place where the text stays, and why."""
        self.found.left[Place(session_id=session_id, kind=kind, iri=iri, index=index, why=why)] = None

    def without(self, quads: Iterable[Quad]) -> list[Quad]:
        """Return quads with every value and name that holds the text replaced, or gone."""
        return [new for quad in quads if (new := self.new.quad(quad)) is not None]

    def is_live(self, session_id: str) -> bool:
        """Tell whether a session is there, and was not deleted."""
        about: Sequence[Quad] = self.about.get(iris.session(session_id), [])
        return any(quad.object == vocab.SESSION for quad in about)
