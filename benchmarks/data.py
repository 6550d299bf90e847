"""The texts that every contestant stores, and the raw engine work that Trails is held against."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

import trails
from trails import Repository, Session
from trails.rdf import query_files, vocab
from trails.store import Change, Committed, EmbeddedStore

TEXT_BYTES: Final = 400
USAGE: Final = {"input_tokens": 1200, "output_tokens": 90}
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
    call: str | None = None
    """The id of the tool call that it is, or that it answers."""

    model: str | None = None
    """The model that said it; its usage is the same for all."""

    def plain(self) -> dict[str, Any]:
        """Return the message in the shape of the chat APIs, with all that Trails is told of it."""
        said: dict[str, Any] = {"role": self.role, "content": self.text}
        if self.model is not None:
            said |= {"model": self.model, "usage": USAGE}
        if self.call is None:
            return said
        if self.role == "tool":
            return said | {"tool_call_id": self.call}
        function = {"name": "weather", "arguments": self.arguments}
        return said | {"tool_calls": [{"id": self.call, "type": "function", "function": function}]}

    @property
    def arguments(self) -> str:
        """What the tool is called with, as JSON."""
        return '{"place": "Zermatt", "day": "Monday"}'


def messages(count: int, seed: int, size: int = TEXT_BYTES) -> list[Message]:
    """Return messages of `size` bytes each, user and assistant by turns; the same ones for the same seed."""
    chance = random.Random(seed)
    return [Message("assistant" if n % 2 else "user", _text(n, size, chance)) for n in range(count)]


def agent_messages(count: int, seed: int, size: int = TEXT_BYTES) -> list[Message]:
    """Return as many of the same size, of which half are tool calls and their answers; the same ones for the same seed.

    What an assistant says has a model and its usage.
    """
    chance = random.Random(seed)
    return [_of_an_agent(n, _text(n, size, chance)) for n in range(count)]


def _of_an_agent(number: int, text: str) -> Message:
    role = ("user", "assistant", "tool", "assistant")[number % 4]
    call = f"c{number // 4}" if number % 4 in (1, 2) else None
    return Message(role, text, call, "m-1" if role == "assistant" else None)


def _text(number: int, size: int, chance: random.Random) -> str:
    return f"{number} {' '.join(chance.choices(_WORDS, k=size // 2))}"[:size]


KINDS: Final[dict[str, Callable[[int, int, int], list[Message]]]] = {"plain": messages, "agent-like": agent_messages}
"""What makes messages of each kind: so many, by a seed, of so many bytes."""


def add(session: Session, batch: Iterable[Message]) -> None:
    """Append messages and persist them in one commit."""
    for message in batch:
        _append(session, message)
    session.persist()


def _append(session: Session, message: Message) -> None:
    if message.role == "tool":
        session.append("tool", message.text, tool_call_id=message.call)
    elif message.model is None:
        session.append(message.role, message.text)
    else:
        call = {"id": message.call, "name": "weather", "arguments": message.arguments}
        calls = [call] if message.call is not None else None
        session.append(message.role, message.text, model=message.model, usage=USAGE, tool_calls=calls)


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

    def commit(self, change: Change) -> Committed:
        """Note what is added, and commit."""
        self.written.append(list(change.add))
        return super().commit(change)


@cache
def _scan() -> query_files.QueryFile:
    return query_files.parse("scan", "benchmarks", (Path(__file__).parent / "scan.rq").read_text("utf-8"))


def scan_columns(engine: ox.Store, session_id: str) -> list[list[str]]:
    """Return every column of a session's turns, one scan each and not joined: the floor under any reader."""
    return [[row[0].value for row in _select(engine, session_id, column)] for column in _COLUMNS]


def _select(engine: ox.Store, session_id: str, column: ox.NamedNode) -> Iterable[Any]:
    solutions = engine.query(_scan().bind(session=session_id, property=column))
    assert isinstance(solutions, ox.QuerySolutions)
    return solutions


def raw_engine(folder: Path) -> ox.Store:
    """Return the engine of a closed store, opened without Trails: its newest snapshot, which is made for that."""
    with closing(EmbeddedStore(folder)) as store:
        store.snapshot()
    (snapshot,) = (folder / "index").glob("*.snapshot")
    return ox.Store.read_only(str(snapshot))


def closed_store(folder: Path, session_id: str, batch: Sequence[Message]) -> Path:
    """Return the folder of a new store that holds one session, closed again."""
    with trails.open(folder, create=True, durability="process") as store:
        filled(store, session_id, batch)
    return folder
