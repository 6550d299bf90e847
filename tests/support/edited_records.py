"""A store with something of most kinds, and what the owner of its log's table can write over single quads of its records."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyoxigraph as ox

import trails
from tests.support.clusters import log_of
from trails import Repository
from trails.store.log import records
from trails.store.log.records import REWRITES, Row, parts_of
from trails.store.log.sqlite import NAME, Head, SqliteHome
from trails.store.postgres.statements import ADD


def fill(store: Repository) -> None:
    """Store sessions, forks, tools, usage, notes, scores, tags, refs, redactions of texts and names; and vacuum it."""
    plan = store.create(
        id="plan", principal="alice", agent="planner", label="trip", meta={"for": "two"}, system="Be brief"
    )
    plan.append("user", "Plan a trip", author="alice")
    call = {"id": "c1", "name": "weather", "arguments": {"place": "Zermatt"}}
    plan.append("assistant", "I look.", model="m-1", usage={"input_tokens": 10, "output_tokens": 5}, tool_calls=[call])
    plan.append("tool", "Snow", tool_call_id="c1")
    plan.append("user", "The code is 1234", author="alice")
    plan.persist()
    fork = plan.fork(at=3, id="dinner", principal="bob", label="evening")
    fork.append("user", "Dinner, then", author="zarathustra")
    fork.append("assistant", "Where?", model="m-2", usage={"input_tokens": 3, "output_tokens": 2})
    fork.persist()
    store.notes.add("plan", 0, "a good start", by="carol")
    store.score("plan", "length", 4, by="agent:counter")
    store.tags.add("first", "plan@2", by="carol")
    store.refs.set("draft", "plan@1", by="dave")
    store.refs.set("draft", "plan@2", by="dave")
    gone = store.create(id="gone", principal="erin", agent="helper")
    gone.append("user", "Never mind")
    gone.persist()
    store.delete("gone", by="dave")
    store.redact("plan", 3, by="dave", reason="a secret")
    store.redact_matching("zarathustra", by="dave")
    store.set_label("dinner", "late evening")
    plan.append("user", "And back", author="alice")
    plan.persist()
    store.load("dinner").detach()
    store.maintenance.vacuum()
    plan.append("assistant", "By train", model="m-1")
    plan.persist()


@dataclass(frozen=True)
class Edit:
    """A record with one quad that is another, or is gone."""

    old: Row
    new: Row
    kind: str
    """What was done to which property."""


def edits(rows: Sequence[Row]) -> Iterator[Edit]:
    """Yield all single-quad edits of records: each quad added with another object, and without it; each one removed, left out."""
    for row in rows:
        unpacked = row.unpack()
        record = unpacked.record
        if row.flags & REWRITES:
            continue
        for part in ("add", "remove"):
            lines = parts_of(getattr(record, part))
            for at, line in enumerate(lines):
                name = f"{part} {_named(line)}"
                for how, other in (("altered", [_altered(line)]), ("left out", [])):
                    left = b"".join([*lines[:at], *other, *lines[at + 1 :]])
                    changed = replace(record, add=left) if part == "add" else replace(record, remove=left)
                    yield Edit(row, records.rewritten(unpacked, changed), f"{how}: {name}")


def sample(every: Sequence[Edit], count: int, seed: int = 33) -> list[Edit]:
    """Return so many edits: of each kind in turn."""
    chosen = random.Random(seed)
    kinds: dict[str, list[Edit]] = {}
    for each in every:
        kinds.setdefault(each.kind, []).append(each)
    for found in kinds.values():
        chosen.shuffle(found)
    picked: list[Edit] = []
    while len(picked) < count and any(kinds.values()):
        picked += [found.pop() for found in kinds.values() if found]
    return picked[:count]


def as_older_versions(edit: Edit) -> Row:
    """Return the row with its leaves apart, as version 0.1 wrote rows."""
    row = edit.new
    record = row.unpack().record
    leaves = "\n".join(record.leaves).encode()
    return records.rewritten(replace(row, leaves=leaves).unpack(), record)


def statement_of(edit: Edit, head: Head) -> Row:
    """Return a record that says, in its place in the chain, that a record was rewritten as it was."""
    assert edit.new.rewritten is not None
    record = records.CommitRecord.of_rewriting({edit.new.number: edit.new.rewritten})
    return records.row_of(record, hashlib.sha256(edit.new.body).hexdigest()[:16], head.number + 1, head.digest)


def _named(line: bytes) -> str:
    quad = next(iter(ox.parse(line, format=ox.RdfFormat.N_QUADS)))
    graph = str(getattr(quad.graph_name, "value", "")).rpartition(":")[2].rpartition("#")[2]
    said = f" {quad.object}" if quad.predicate.value.endswith("#type") else ""
    return f"{'catalog' if graph == 'CATALOG' else 'graph'} {quad.predicate.value.rpartition('#')[2]}{said}"


def _altered(line: bytes) -> bytes:
    quad = next(iter(ox.parse(line, format=ox.RdfFormat.N_QUADS)))
    return records.n_quads([ox.Quad(quad.subject, quad.predicate, _other(quad.object), quad.graph_name)])


def _other(term: object) -> ox.NamedNode | ox.Literal:
    if isinstance(term, ox.NamedNode):
        return ox.NamedNode(term.value + "x")
    assert isinstance(term, ox.Literal)
    text = term.value
    if term.datatype.value.endswith(("integer", "decimal")):
        return ox.Literal(str(int(float(text)) + 1), datatype=term.datatype)
    if term.datatype.value.endswith("dateTime"):
        return ox.Literal(text.replace("20", "19", 1), datatype=term.datatype)
    other = text[:-1] + ("0" if text[-1:] != "0" else "1")
    return ox.Literal(other, datatype=term.datatype)


class FolderLog:
    """The table of records in the file of a folder, as whoever owns the disk writes to it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._kept = shutil.copytree(place, place.with_name(f"{place.name}.kept"))
        with closing(SqliteHome(place / NAME, is_read_only=True)) as home:
            self.head, self.rows = home.head(), home.tail(0, 10_000)

    def open(self, *, anew: bool) -> Repository:
        """Open the store; with `anew` by an index that is made of the records as they are."""
        if anew:
            shutil.rmtree(self.place / "index", ignore_errors=True)
        return trails.open(self.place)

    def put(self, row: Row) -> None:
        """Put a row in the place of the one with its number."""
        self._write(
            "UPDATE trails_records SET leaves = ?, body = ?, body_digest = ?, rewritten = ? WHERE number = ?",
            (row.leaves, row.body, row.body_digest, row.rewritten, row.number),
        )

    def say(self, number: int, digest: bytes) -> None:
        """Let the store say that its log ends with a record."""
        self._write("UPDATE trails_stores SET head = ?, digest = ?", (number, digest))

    def add(self, row: Row) -> None:
        """Append a row, at which the log is to end."""
        self._write(
            "INSERT INTO trails_records SELECT ?, ?, ?, ?, ?, ?, ?, ?, lines FROM trails_records WHERE number = ?",
            (*row.values(), row.number - 1),
        )
        self.say(row.number, row.digest)

    def restore(self, _: Row) -> None:
        """Put the closed store back to what it was."""
        shutil.rmtree(self.place)
        shutil.copytree(self._kept, self.place)

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        with closing(sqlite3.connect(self.place / NAME, isolation_level=None)) as file:
            file.execute(statement, values)


class TableLog:
    """The table of records in PostgreSQL, as whoever owns the database writes to it."""

    def __init__(self, url: str, cache: Path) -> None:
        self.url, self._cache = url, cache
        with trails.open(url) as store:
            server = log_of(store.store).server
            self._id, self._conninfo = server.id, server.address.conninfo
            (self.head, _), self.rows = server.since(0, 0), server.tail(0, 10_000)

    def open(self, *, anew: bool) -> Repository:
        """Open the store; with `anew` on a machine that never saw it."""
        if anew:
            shutil.rmtree(self._cache, ignore_errors=True)
        return trails.open(self.url)

    def put(self, row: Row) -> None:
        """Put a row in the place of the one with its number."""
        self._write(
            "UPDATE trails_records SET leaves = %s, body = %s, body_digest = %s, rewritten = %s"
            " WHERE store = %s AND number = %s",
            (row.leaves, row.body, row.body_digest, row.rewritten, self._id, row.number),
        )

    def say(self, number: int, digest: bytes) -> None:
        """Let the store say that its log ends with a record."""
        self._write("UPDATE trails_stores SET head = %s, digest = %s WHERE id = %s", (number, digest, self._id))

    def add(self, row: Row) -> None:
        """Append a row, at which the log is to end."""
        self._write(ADD, (self._id, *row.values()))
        self.say(row.number, row.digest)

    def restore(self, row: Row) -> None:
        """Put the log back to what it was, but for a row that was put there, which is given as it was."""
        self.put(row)
        self._write("DELETE FROM trails_records WHERE store = %s AND number > %s", (self._id, self.head.number))
        self.say(self.head.number, self.head.digest)

    def alter(self, statement: str) -> None:
        """Carry out a statement whose one parameter is the id of the store."""
        self._write(statement, (self._id,))

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        import psycopg

        with psycopg.connect(self._conninfo, autocommit=True) as owner:
            owner.execute(statement.encode(), values)
