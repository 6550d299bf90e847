"""The texts that every contestant stores, and the raw engine work that Trails is held against."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

import trails
from trails import Repository, Session, queries, vocab
from trails.store import Change, EmbeddedStore

TEXT_BYTES: Final = 400
_WORDS: Final = (
    "plan",
    "trip",
    "sea",
    "train",
    "two",
    "friends",
    "one",
    "dog",
    "likes",
    "rain",
    "more",
    "than",
    "sun",
    "by",
    "to",
)
_COLUMNS: Final = (vocab.INDEX, vocab.ROLE, vocab.VALUE, vocab.ATTRIBUTED_TO, vocab.DIGEST, vocab.TIME, vocab.BRANCH)


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as every contestant is given it."""

    role: str
    text: str

    def plain(self) -> dict[str, Any]:
        """Return the message in the shape of the chat APIs."""
        return {"role": self.role, "content": self.text}


def messages(count: int, seed: int) -> list[Message]:
    """Return messages of 400 bytes each, user and assistant by turns; the same ones for the same seed."""
    chance = random.Random(seed)
    return [Message("assistant" if n % 2 else "user", _text(n, chance)) for n in range(count)]


def _text(number: int, chance: random.Random) -> str:
    return f"{number} {' '.join(chance.choices(_WORDS, k=200))}"[:TEXT_BYTES]


def add(session: Session, batch: Iterable[Message]) -> None:
    """Append messages and persist them in one commit."""
    for message in batch:
        session.append(message.role, message.text)
    session.persist()


def filled(store: Repository, session_id: str, batch: Sequence[Message]) -> Session:
    """Return a new stored session with these messages."""
    session = store.create(id=session_id, principal="alice", agent="planner")
    add(session, batch)
    return session


class Recording(EmbeddedStore):
    """A store that keeps the quads of each commit, for the raw engine to write the very same."""

    def __init__(self, path: Path | None, **options: Any) -> None:
        self.written: list[list[ox.Quad]] = []
        super().__init__(path, **options)

    def commit(self, change: Change) -> bool:
        """Note what is added, and commit."""
        self.written.append(list(change.add))
        return super().commit(change)


@cache
def _scan() -> queries.QueryFile:
    return queries.parse("scan", "benchmarks", (Path(__file__).parent / "scan.rq").read_text("utf-8"))


def scan_columns(engine: ox.Store, session_id: str) -> list[list[str]]:
    """Return every column of a session's turns, one scan each and not joined: the floor under any reader."""
    return [[row[0].value for row in _select(engine, session_id, column)] for column in _COLUMNS]


def _select(engine: ox.Store, session_id: str, column: ox.NamedNode) -> Iterable[Any]:
    solutions = engine.query(_scan().bind(session=session_id, property=column))
    assert isinstance(solutions, ox.QuerySolutions)
    return solutions


def raw_engine(folder: Path) -> ox.Store:
    """Return the engine under a closed store's folder, opened without Trails."""
    return ox.Store(str(folder / "quads"))


def closed_store(folder: Path, session_id: str, batch: Sequence[Message]) -> Path:
    """Return the folder of a new store that holds one session, closed again."""
    with trails.open(folder, create=True, durability="process") as store:
        filled(store, session_id, batch)
    return folder
