"""A search through the index finds what a search through every text finds, in the same order and pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.machines import examples
from trails import Repository, Turn
from trails.history import turn_builder
from trails.rows import text_index
from trails.rows.turn_text import turn_text

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORDS = (
    "Alps",
    "straße",
    "STRASSE",
    "ab",
    'a "b" c',
    "İstanbul",
    "x\ny",
    "日本語",
    "%_*",
    "aaaa",
    "alp",
    "train\\n",
    "ﬁn",
)


def read_through(store: Repository, **wanted: Any) -> list[tuple[str, int]]:
    """The session and index of each turn that is looked for, found by reading every turn."""
    text, role, author, tool = (wanted.get(name) for name in ("text", "role", "author", "tool"))
    ids = [record.id for record in store.list(limit=1000)]
    copies = {(turn.session_id, turn.index) for turn in _copies(store)}
    found = []
    for session_id in ids if wanted.get("session") is None else [wanted["session"]]:
        for turn in store.load(session_id).turns:
            if wanted.get("session") is None and (turn.session_id != session_id or (session_id, turn.index) in copies):
                continue
            said = turn_text(turn.text, 2 if turn.redacted else int(turn.structured), _calls(turn))
            fits = said.says(text, tool) and (tool is None or tool in said.tools)
            if fits and role in (None, turn.role) and author in (None, turn.author):
                found.append((turn.time or datetime.min.replace(tzinfo=UTC), turn.session_id, turn.index))
    found.sort(key=lambda each: (-(each[0] - datetime.min.replace(tzinfo=UTC)), each[1], -each[2]))
    return [each[1:] for each in found]


def _calls(turn: Turn) -> tuple[tuple[str, str], ...]:
    return tuple((call.name, call.arguments or "") for call in turn.tool_calls)


def _copies(store: Repository) -> list[Turn]:
    """The turns of `copy` of which `a` still has the original."""
    ids = {record.id for record in store.list(limit=1000)}
    return list(store.load("copy").turns) if {"a", "copy"} <= ids else []


def hits(store: Repository, **wanted: Any) -> list[tuple[str, int]]:
    found, cursor = list[tuple[str, int]](), None
    while True:
        page = store.search(limit=3, cursor=cursor, **wanted)
        found += [(hit.session_id, hit.index) for hit in page]
        if (cursor := page.cursor) is None:
            return found


def filled(store: Repository, random: Random) -> None:
    for name in ("a", "b", "c"):
        session = store.create(id=name, principal=random.choice(["alice", "bob"]))
        for _ in range(random.randint(0, 6)):
            text = " ".join(random.choices(WORDS, k=random.randint(1, 3)))
            when = START + timedelta(microseconds=random.choice([0, 1, 1_000_000]))
            kind = random.random()
            if kind < 0.2:
                session.worktree.append(turn_builder.make_draft("user", text, timed=False))
            elif kind < 0.5:
                session.append("assistant", [{"type": "text", "text": text}, {"type": "data", "n": 3}], time=when)
            elif kind < 0.7:
                call = {"id": f"c{len(session)}", "name": random.choice(["look", "find"]), "arguments": {"q": text}}
                session.append("assistant", "", tool_calls=[call], time=when)
            else:
                session.append("user", text, time=when)
        session.persist()
    if random.random() < 0.5:
        store.flatten("a", id="copy")
        if random.random() < 0.5:
            store.delete("a")
    if random.random() < 0.5 and len(store.load("b")):
        store.redact("b", 0)


@given(seed=st.integers(0, 2**32))
@examples(60)
def test_the_index_finds_what_reading_every_text_finds(seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(text_index, "WAITING", random.choice([1, 3, 256]))
        monkeypatch.setattr(text_index, "_FEW", random.choice([1, 256]))
        monkeypatch.setattr(text_index, "_SCANNED", random.choice([0, 4]))
        if random.random() < 0.5:
            filled(store, random)
            store.search("before")
            session = store.load("c")
            session.append("user", "Alps again")
            session.persist()
        else:
            filled(store, random)
        word = random.choice(WORDS)
        start = random.randrange(len(word))
        for wanted in (
            {"text": word},
            {"text": word[start : start + random.randint(1, 4)]},
            {"text": word.upper(), "role": "user"},
            {"text": word, "tool": "look"},
            {"tool": "find"},
            {"author": "alice"},
            {"role": "assistant", "session": "c"},
            {"text": word[:2], "session": "c"},
        ):
            assert hits(store, **wanted) == read_through(store, **wanted), wanted


def test_a_hit_says_where_in_its_snippet_the_text_stands(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "To the Alps, the ALPS! Die Straße führt hin.")
    session.persist()
    [hit] = store.search("alps")
    assert [hit.snippet[start:end] for start, end in hit.matches] == ["Alps", "ALPS"]
    [hit] = store.search("STRASSE")
    assert [hit.snippet[start:end] for start, end in hit.matches] == ["Straße"]
    [hit] = store.search(role="user")
    assert hit.matches == ()


def test_a_text_of_more_than_a_thousand_letters_is_found(memory: Repository) -> None:
    text = "".join(chr(97 + number * number % 26) for number in range(5000))
    session = memory.create(id="s")
    session.append("user", text)
    session.persist()
    assert [hit.index for hit in memory.search(text[7:4000])] == [0]
    assert memory.search(text[7:4000] + "!") == []
