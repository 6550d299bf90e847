"""The tables of vectors beside the rows of turns, for stores that ask for them, and which model makes the vectors."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS vectors (turn INTEGER PRIMARY KEY, vectors BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS vectors_due (turn INTEGER PRIMARY KEY);
CREATE TRIGGER IF NOT EXISTS vectors_of_new AFTER INSERT ON turns BEGIN
  INSERT OR IGNORE INTO vectors_due VALUES (new.number); END;
CREATE TRIGGER IF NOT EXISTS vectors_of_changed AFTER UPDATE OF text, more, kind ON turns
  WHEN old.text IS NOT new.text OR old.more IS NOT new.more OR old.kind <> new.kind BEGIN
  DELETE FROM vectors WHERE turn = old.number; INSERT OR IGNORE INTO vectors_due VALUES (new.number); END;
CREATE TRIGGER IF NOT EXISTS vectors_of_gone AFTER DELETE ON turns BEGIN
  DELETE FROM vectors WHERE turn = old.number; DELETE FROM vectors_due WHERE turn = old.number; END;
INSERT OR IGNORE INTO vectors_due SELECT number FROM turns WHERE number NOT IN (SELECT turn FROM vectors)"""
_MODEL: Final = (
    "CREATE TABLE vector_model (name TEXT NOT NULL, path TEXT, digest TEXT NOT NULL, dimensions INTEGER NOT NULL)"
)


class Model(NamedTuple):
    """The model that makes a store's vectors, as the store names it."""

    name: str
    path: str | None
    digest: str
    dimensions: int


def model_of(connection: sqlite3.Connection) -> Model | None:
    """Return the model whose vectors are kept; None where none are."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'vector_model'").fetchone() is None:
        return None
    return Model(*connection.execute("SELECT name, path, digest, dimensions FROM vector_model").fetchone())


def start(connection: sqlite3.Connection, model: Model) -> None:
    """Keep vectors of a model from now on, and none of another."""
    kept = model_of(connection)
    if kept is None or kept.digest != model.digest:
        drop(connection)
        connection.execute(_MODEL)
        connection.execute("INSERT INTO vector_model VALUES (?, ?, ?, ?)", model)
        create_tables(connection)
    else:  # the same model, perhaps elsewhere
        connection.execute("UPDATE vector_model SET name = ?, path = ?", model[:2])


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and triggers where vectors are kept: all turns that are there are due."""
    if model_of(connection) is not None:
        for statement in _TABLES.split(";\n"):
            connection.execute(statement)


def drop_tables(connection: sqlite3.Connection) -> None:
    """Remove all vectors; which model makes them stays."""
    for name in ("new", "changed", "gone"):
        connection.execute(f"DROP TRIGGER IF EXISTS vectors_of_{name}")
    for name in ("vectors", "vectors_due"):
        connection.execute(f"DROP TABLE IF EXISTS {name}")


def drop(connection: sqlite3.Connection) -> bool:
    """Remove all vectors and keep none from now on; return whether there were any."""
    was_there = model_of(connection) is not None
    drop_tables(connection)
    connection.execute("DROP TABLE IF EXISTS vector_model")
    return was_there
