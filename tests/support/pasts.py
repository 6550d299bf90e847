"""Random histories of a store, and what it said after each step: for holding the store as of then against it."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from trails import Repository, TrailsError
from trails.history.as_of import log_moment
from trails.rdf import vocab
from trails.rows.session_lists import SORTS


def mark_of(store: Repository) -> str:
    """Return the mark of where a store's log ends."""
    mark = log_moment.mark_of_log(store.store.log)
    assert mark is not None
    return mark


def _append(store: Repository, session_id: str, number: int, dice: random.Random) -> None:
    session = store.load(session_id)
    calls = [{"id": f"c{number}", "name": "look", "arguments": {"n": number}}] if dice.random() < 0.3 else None
    session.append("assistant", f"turn {number}", tool_calls=calls, model=dice.choice([None, "m-1"]))
    if calls:
        session.append("tool", "seen", tool_call_id=f"c{number}")
    session.persist()


def _create(store: Repository, number: int, dice: random.Random) -> None:
    made = store.create(id=f"s{number}", principal=dice.choice("ab"), meta={"n": number} if number % 2 else None)
    made.append("user", f"begin {number}")
    made.persist()


def _fork(store: Repository, session_id: str, number: int, dice: random.Random) -> None:
    parent = store.load(session_id)
    fork = parent.fork(at=dice.randint(0, len(parent)), id=f"f{number}")
    if dice.random() < 0.7:
        fork.append("user", f"own {number}")
    fork.persist()


def _note(store: Repository, session_id: str, number: int, dice: random.Random) -> None:
    if length := len(store.load(session_id)):
        store.notes.add(session_id, dice.randrange(length), f"note {number}")


def _step(store: Repository, dice: random.Random, number: int) -> None:
    """Do one thing to a store that adds to it or changes it, and takes nothing out of it."""
    ids = sorted(record.id for record in store)
    if not ids or dice.random() < 0.1:
        _create(store, number, dice)
        return
    steps: list[Callable[[str], object]] = [
        *[lambda one: _append(store, one, number, dice)] * 3,
        lambda one: _fork(store, one, number, dice),
        lambda one: _note(store, one, number, dice),
        lambda one: store.tags.add(f"tag{number}", one),
        lambda one: store.set_label(one, f"label{number}"),
        lambda one: store.score(one, "worth", number, by=dice.choice("ab")),
        store.detach,
    ]
    dice.choice(steps)(dice.choice(ids))


def said(store: Repository) -> set[str]:
    """Return all that a store says, without the salts that every change draws anew."""
    every = store.store.quads((None, None, None, None))
    return {str(quad) for quad in every if quad.predicate != vocab.ROW_SALT}


def walk(store: Repository, seed: int, steps: int) -> dict[str, set[str]]:
    """Do random things to a store; return by the mark of its log what it said after each."""
    dice = random.Random(seed)
    copies: dict[str, set[str]] = {}
    for number in range(steps):
        _step(store, dice, number)
        copies[mark_of(store)] = said(store)
    return copies


def hold_against(store: Repository, copies: dict[str, set[str]]) -> None:
    """Hold a store as of each mark against what it said then, and against its log."""
    for mark, then in copies.items():
        with store.at(mark) as past:
            assert said(past) == then, mark
            assert past.verify().findings == ()


def take_out(store: Repository, seed: int, steps: int) -> None:
    """Do random things that take something out of a store, each of which may be refused."""
    dice = random.Random(seed)
    for _ in range(steps):
        one = dice.choice(sorted(record.id for record in store) or ["none"])
        with suppress(TrailsError):
            if dice.random() < 0.5:
                store.redact(one, 0)
            else:
                store.delete(one, children=dice.choice(["refuse", "cascade", "detach"]))


def figures_of(store: Repository) -> list[object]:
    """Return what the index of a store says: lists, summaries, sums, and what is found by a text and by a tool."""
    return [
        *(store.summaries(sort=sort, limit=1000) for sort in SORTS),
        store.stats("model").to_dicts(),
        [record.id for record in store.list(active_since=datetime(2020, 1, 1, tzinfo=UTC), limit=1000)],
        store.search("turn", limit=1000),
        store.search(tool="look", limit=1000),
    ]
