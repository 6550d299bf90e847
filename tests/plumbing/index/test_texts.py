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
from trails import Repository
from trails.history import turn_builder
from trails.plumbing.index import texts
from trails.plumbing.index.keeper import Index

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


def scanned(store: Repository, monkeypatch: pytest.MonkeyPatch, **wanted: Any) -> list[tuple[str, int, str]]:
    with monkeypatch.context() as patched:
        patched.setattr(Index, "has_texts", False)
        return hits(store, **wanted)


def hits(store: Repository, **wanted: Any) -> list[tuple[str, int, str]]:
    found, cursor = list[tuple[str, int, str]](), None
    while True:
        page = store.search(limit=3, cursor=cursor, **wanted)
        found += [(hit.session_id, hit.index, hit.snippet) for hit in page]
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
        monkeypatch.setattr(texts, "_FULL", random.choice([1, 2, 8]) * texts._LEAST)
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
            assert hits(store, **wanted) == scanned(store, monkeypatch, **wanted), wanted


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


def runs(store: Repository) -> list[int]:
    """How many turns stand together in each run, of those of all sessions in the order in which they were written."""
    asked = store.workspace.index.texts(lambda file: file.ask("SELECT turns FROM runs ORDER BY run"))
    return [len(texts.unpacked(turns)) for (turns,) in asked]


def test_turns_that_come_one_by_one_are_kept_together_as_those_that_come_at_once_are(memory: Repository) -> None:
    at_once = memory.create(id="at-once")
    for number in range(21):
        at_once.append("user", f"number {number}")
    at_once.persist()
    assert runs(memory) == [8, 8, 5]
    memory.delete("at-once")
    session = memory.create(id="s")
    lengths = []
    for number in range(21):
        session.append("user", f"number {number}")
        session.persist()
        lengths.append(runs(memory))
    assert lengths[:8] == [[1], [2], [2, 1], [4], [4, 1], [4, 2], [4, 2, 1], [8]]
    assert lengths[15:] == [[8, 8], [8, 8, 1], [8, 8, 2], [8, 8, 2, 1], [8, 8, 4], [8, 8, 4, 1]]
    assert [hit.index for hit in memory.search("number", limit=50)] == list(reversed(range(21)))


def test_a_full_run_is_not_written_again(memory: Repository) -> None:
    def first() -> int:
        ((run,),) = memory.workspace.index.texts(lambda file: file.ask("SELECT min(run) FROM runs"))
        return int(run)

    session = memory.create(id="s")
    for count in (8, 20):
        for number in range(count):
            session.append("user", f"number {number}")
        session.persist()
        assert first() == 1
    assert runs(memory) == [8, 8, 8, 4]


def test_a_long_turn_stands_alone_and_short_ones_after_it_together(memory: Repository) -> None:
    session = memory.create(id="s")
    for length in (10, 20_000, 10, 10):
        session.append("user", "x" * length)
    session.persist()
    assert runs(memory) == [2, 2]


def test_a_page_of_an_earlier_time_reads_no_run_that_is_later(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        session = memory.create(id=f"s{number}")
        session.append("user", "Hello", time=START + timedelta(seconds=number))
        session.persist()
    page = memory.search("hello", limit=20)
    read: list[bytes] = []
    plain = texts.unpacked

    def noted(data: bytes) -> list[texts.Kept]:
        read.append(data)
        return plain(data)

    monkeypatch.setattr(texts, "unpacked", noted)
    assert [hit.session_id for hit in memory.search("hello", limit=20, cursor=page.cursor)] == [
        f"s{number}" for number in reversed(range(10))
    ]
    assert len(read) == 11  # the one that the page before ended with, too
