"""The turns that have a text in them: told from the index of texts with the very rows of the query over all turns."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Quad

import trails
from tests.plumbing.index.test_figures import START, _over_turns
from tests.plumbing.index.test_texts import WORDS, filled
from tests.support.machines import examples
from trails import Repository, TrailsError
from trails.plumbing import worded
from trails.plumbing.index import texts
from trails.rdf import query_files, vocab
from trails.store import Change, Solutions

QUERY = query_files.find("search-text")
ODD = (
    "ı dotless",
    "K kelvin",
    "e\u0301 é",
    "nul\0byte",
    "ΟΔΟΣ",
    "ſharp",
    "\ttab",
    'type":"text',
    "n\\nstraße",
    "[]",
    "data",
    '"n":3',
)
"""Texts that case, Unicode and JSON have ways of their own with."""


def told(store: Repository, **values: Any) -> Solutions | None:
    return worded.answer(store.workspace, QUERY, values)


def _structured(random: Random) -> list[dict[str, Any]]:
    key, word = random.choice(WORDS), random.choice((*WORDS, *ODD))
    return [{"type": "text", "text": word}, {"type": word or "data", key: [random.choice([3, 2.5, True, None]), word]}]


def _more(store: Repository, random: Random) -> None:
    """Fork, append what is odd, structured in every way, and redact; some of it once the index is there."""
    for at in range(random.randint(1, 6)):
        session = store.load(random.choice(sorted(record.id for record in store.list(limit=100))))
        with suppress(TrailsError):
            if random.random() < 0.4:
                session = session.fork(at=random.randint(0, len(session)), created=START)
            said: Any = random.choice((*WORDS, *ODD)) if random.random() < 0.4 else _structured(random)
            session.append("user", said, time=START)
            session.persist()
            if random.random() < 0.2:
                store.redact(session.id, random.randrange(len(session)))
        if at == 1:
            store.search("before")


@given(seed=st.integers(0, 2**32))
@examples(80)
def test_the_rows_are_those_of_the_query_over_the_turns(seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(texts, "_FULL", random.choice([1, 2, 8]) * texts._LEAST)
        filled(store, random)
        _more(store, random)
        store.search("before")
        word = random.choice((*WORDS, *ODD))
        start = random.randrange(len(word))
        for text in (word, word.swapcase(), word[start : start + 3], word[start : start + 6], '"type', "ta"):
            found, expected = told(store, text=text), _over_turns(store, QUERY.name, text=text)
            assert (found is None) == (len(texts.indexed(text)) < 3), text
            if found is not None:
                assert [tuple(row) for row in found] == [tuple(row) for row in expected], text
                assert found.variables == expected.variables


def _with(store: Repository, *contents: Any) -> None:
    session = store.create(id="s")
    for content in contents:
        session.append("user", content, time=START)
    session.persist()
    store.search("before")


@pytest.mark.parametrize("text", ["ab", "ƛ and more", "\ua7dc and more", ["one", "other"]])
def test_what_the_index_may_not_find_all_of_is_asked_of_the_store(memory: Repository, text: Any) -> None:
    _with(memory, "ab ƛ and more", "\ua7dc and more", "one or other")
    assert told(memory, text=text) is None


def test_what_is_asked_of_some_sessions_is_asked_of_the_store(memory: Repository) -> None:
    _with(memory, "until six")
    assert told(memory, text="until six", session="s") is None


def test_without_an_index_the_store_is_asked(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("user", "until six")
    session.persist()
    assert told(memory, text="until six") is None


def test_a_key_within_structured_content_is_found_as_are_its_types(memory: Repository) -> None:
    _with(memory, [{"type": "opening hours", "until six": True}], "no")
    for text in ("opening hours", "until six", '"until six":true'):
        found = told(memory, text=text)
        assert found is not None
        assert [row["index"] for row in found.to_dicts()] == [0], text


def test_while_copies_are_made_the_store_is_asked(memory: Repository) -> None:
    _with(memory, "until six")
    begun = Quad(NamedNode(trails.model.iris.session("s")), vocab.TYPE, vocab.UNFINISHED_COPY, vocab.CATALOG)
    memory.store.commit(Change(add=[begun]))
    assert told(memory, text="until six") is None
