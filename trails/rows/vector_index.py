"""Finding turns by meaning: vectors beside the rows of turns, in the same file, for stores that ask for them.

They are plain rows, which go with their text in the transaction that removes it, also by a process without the model: triggers
see to that, and to what is due. SQLite's own vector extension would not let such a process delete, and many builds of Python load
no extensions; a look through all vectors of 100,000 turns takes some tenths of a second.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from trails.errors import InvalidInput
from trails.model.values import Value
from trails.rows import text_index
from trails.rows.embedding import Embedder
from trails.rows.row_codec import REDACTED
from trails.rows.text_index import FoundTurn, Wanted
from trails.rows.turn_text import ENCRYPTED, TurnText
from trails.rows.vector_tables import model_of

_TEXTS: Final = "SELECT t.number, t.text, k.form, t.more FROM turns t JOIN kinds k ON k.number = t.kind"
_PIECE, _PIECES = 1000, 8
"""A vector stands for so many characters, and a turn has so many vectors at most: what comes later has none."""
_STEP: Final = 256
"""Turns that get their vectors together."""
_READ: Final = 8192
"""Turns whose vectors are compared together."""
_LOOKED: Final = 64, 4096
"""Of so many turns, nearest first, it is looked at once whether they are looked for: at first, and at most."""


class VectorIndex(Value):
    """The vectors that a store has of its turns."""

    model: str
    """The name of the model that made them."""
    path: str | None
    """The folder of the model; None where it came from a package."""
    digest: str
    """SHA-256 of the model: vectors of another model are never compared with these."""
    dimensions: int
    turns: int
    """How many turns have vectors."""
    due: int
    """How many turns wait for theirs; the next search by meaning makes them."""
    bytes: int
    """What the vectors take in the store's file, without the tables around them."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return self.model_dump()


class Near(NamedTuple):
    """A turn that a search by meaning found."""

    found: FoundTurn
    similarity: float
    """1 for the same direction, 0 for nothing in common."""
    piece: str
    """The part of its text that is nearest."""


# --- writing


_Text = tuple[int, str, int, str | None]
"""Number, stored text, form and statements of a turn."""


def due(connection: sqlite3.Connection) -> list[_Text]:
    """Return some turns that wait for their vectors."""
    asked = f"{_TEXTS} WHERE t.number IN (SELECT turn FROM vectors_due ORDER BY turn LIMIT {_STEP})"
    return connection.execute(asked).fetchall()


def waiting(connection: sqlite3.Connection) -> int:
    """Return how many turns wait for their vectors."""
    return int(connection.execute("SELECT count(*) FROM vectors_due").fetchone()[0])


def put(connection: sqlite3.Connection, embedder: Embedder, vectors: dict[_Text, bytes]) -> None:
    """Keep vectors of turns whose texts are still those that they were made of.

    Raises `InvalidInput` where the store keeps those of another model by now.
    """
    model = model_of(connection)
    if model is None or model.digest != embedder.digest:
        raise InvalidInput(
            "another process dropped the store's vectors, or makes them with another model: search again"
        )
    for text, joined in vectors.items():
        if connection.execute(f"{_TEXTS} WHERE t.number = ?", text[:1]).fetchone() == text:
            if joined:
                connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (text[0], joined))
            connection.execute("DELETE FROM vectors_due WHERE turn = ?", text[:1])


def vectors_of(embedder: Embedder, texts: Sequence[_Text]) -> dict[_Text, bytes]:
    """Return the vectors of each turn, one after the other; nothing for a turn whose text is redacted or encrypted."""
    parts = [pieces(text_index.text_of_turn(*text[1:]), text[2]) for text in texts]
    made = iter(embedder.vectors([piece for each in parts for piece in each]))
    return {text: b"".join(next(made) for _ in each) for text, each in zip(texts, parts, strict=True)}


def pieces(said: TurnText, form: int) -> list[str]:
    """Return the parts of what a turn says that get a vector each.

    >>> pieces(TurnText("I look.", None, (("weather", '{"town": "Bern"}'),)), 0)
    ['I look.\\nweather {"town": "Bern"}']
    """
    calls = [f"{name} {arguments}" for name, arguments in said.calls]
    if form == REDACTED or said.shown == ENCRYPTED or any(arguments == ENCRYPTED for _, arguments in said.calls):
        return []
    whole = "\n".join([said.shown, *calls]).strip()
    return [whole[at : at + _PIECE] for at in range(0, min(len(whole), _PIECE * _PIECES), _PIECE)]


# --- asking


def describe(connection: sqlite3.Connection) -> VectorIndex | None:
    """Return what there is of vectors; None where none are kept."""
    if (model := model_of(connection)) is None:
        return None
    turns, size = connection.execute("SELECT count(*), ifnull(sum(length(vectors)), 0) FROM vectors").fetchone()
    return VectorIndex(
        model=model.name,
        path=model.path,
        digest=model.digest,
        dimensions=model.dimensions,
        turns=turns,
        due=waiting(connection),
        bytes=size,
    )


def has_strays(connection: sqlite3.Connection) -> bool:
    """Tell whether there are vectors of a turn that is not there, or whose text is redacted."""
    if model_of(connection) is None:
        return False
    held = f"SELECT t.number FROM turns t JOIN kinds k ON k.number = t.kind WHERE k.form <> {REDACTED}"
    (found,) = connection.execute(f"SELECT EXISTS (SELECT 1 FROM vectors WHERE turn NOT IN ({held}))").fetchone()
    return bool(found)


def find(
    connection: sqlite3.Connection, embedder: Embedder, question: str, wanted: Wanted, session_ids: Sequence[str] = ()
) -> Iterator[Near]:
    """Yield turns by meaning, the nearest first, among those that are looked for; of copies one, without `session_ids`.

    Turns without vectors of this model get them for this once: nothing is written.
    """
    condition, values = "t.counts", list[Any]()
    if session_ids:
        condition, values = f"s.id IN ({', '.join('?' * len(session_ids))})", list(session_ids)
    nearest, (count, most) = _nearest(connection, embedder, question), _LOOKED
    while block := {each[0]: each for each in islice(nearest, count)}:
        count = min(2 * count, most)
        among = f"{condition} AND t.number IN ({', '.join(map(str, block))})"
        found = {each.number: each for each in text_index.look(connection, wanted._replace(text=None), among, values)}
        for turn, similarity, piece in block.values():
            if turn in found:
                parts = pieces(found[turn].text, found[turn].row.kind.form)
                yield Near(found[turn], similarity, parts[piece] if piece < len(parts) else "")


_Nearest = tuple[int, float, int]
"""A turn, how near it is, and which piece of it is."""


def _nearest(connection: sqlite3.Connection, embedder: Embedder, question: str) -> Iterator[_Nearest]:
    import numpy as np  # noqa: PLC0415 - of an extra

    asked = np.frombuffer(embedder.vectors([question])[0], np.int8).astype(np.float32)
    near, turns, places = list[Any](), list[Any](), list[Any]()
    for rows in _vectors(connection, embedder):
        numbers = np.frombuffer(b"".join(joined for _, joined in rows), np.int8).reshape(-1, len(asked))
        counts = [len(joined) // len(asked) for _, joined in rows]
        numbers = numbers.astype(np.float32)
        near.append(numbers @ asked / np.maximum(np.sqrt(np.einsum("ij,ij->i", numbers, numbers)), 1))
        turns.append(np.repeat([turn for turn, _ in rows], counts))
        places.append(np.concatenate([np.arange(count) for count in counts]))
    if not near:
        return
    nearness, of_turn, at = (np.concatenate(each) for each in (near, turns, places))
    nearness = nearness / max(float(np.linalg.norm(asked)), 1.0)
    seen = set[int]()
    for each in np.argsort(-nearness, kind="stable"):
        if nearness[each] <= 0:  # these have nothing in common with it
            return
        if (turn := int(of_turn[each])) not in seen:
            seen.add(turn)
            yield turn, float(nearness[each]), int(at[each])


def _vectors(connection: sqlite3.Connection, embedder: Embedder) -> Iterator[list[tuple[int, bytes]]]:
    """Yield turns with their vectors, some at a time: those that are kept, then those that are made now."""
    model = model_of(connection)
    is_kept = model is not None and model.digest == embedder.digest
    if is_kept:
        kept = connection.execute("SELECT turn, vectors FROM vectors")
        yield from _blocks(lambda: kept.fetchmany(_READ))
    lacking = connection.execute(f"{_TEXTS} WHERE t.number IN (SELECT turn FROM vectors_due)" if is_kept else _TEXTS)
    for texts in _blocks(lambda: lacking.fetchmany(_STEP)):
        made = [(text[0], joined) for text, joined in vectors_of(embedder, texts).items() if joined]
        if made:
            yield made


def _blocks(read: Callable[[], list[Any]]) -> Iterator[list[Any]]:
    while block := read():
        yield block
