"""`fresh=True`: a read begins with what was committed anywhere, on every kind of store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import trails
from trails import Repository

_COUNT = "SELECT (COUNT(?s) AS ?n) { ?s a trails:Session }"
READS: dict[str, Callable[[Repository, bool], object]] = {
    "load": lambda store, fresh: [turn.content for turn in store.load("chat", fresh=fresh)],
    "load a part": lambda store, fresh: len(store.load("chat", last=1, fresh=fresh)),
    "list": lambda store, fresh: [record.id for record in store.list(fresh=fresh)],
    "summaries": lambda store, fresh: [(each.id, each.turns) for each in store.summaries(fresh=fresh)],
    "search": lambda store, fresh: [hit.snippet for hit in store.search("and?", fresh=fresh)],
    "query": lambda store, fresh: store.query(_COUNT, fresh=fresh).to_dicts(),  # type: ignore[union-attr] # a SELECT
    "query of the catalogue": lambda store, fresh: len(
        store.query("transcript", session="chat", fresh=fresh).to_dicts()  # type: ignore[union-attr] # a SELECT
    ),
    "select": lambda store, fresh: store.select(_COUNT, fresh=fresh).to_dicts(),
    "ask": lambda store, fresh: store.ask(
        "ASK { ?a a trails:Session . ?b a trails:Session FILTER(?a != ?b) }", fresh=fresh
    ),
    "construct": lambda store, fresh: len(
        store.construct("CONSTRUCT { ?s a ?t } WHERE { ?s a ?t FILTER(?t = trails:Session) }", fresh=fresh)
    ),
}
THEN = {
    "load": ["Hello"],
    "load a part": 1,
    "list": ["chat"],
    "summaries": [("chat", 1)],
    "search": [],
    "query": [{"n": 1}],
    "query of the catalogue": 1,
    "select": [{"n": 1}],
    "ask": False,
    "construct": 1,
}
NOW = {
    "load": ["Hello", "And?"],
    "load a part": 2,
    "list": ["late", "chat"],
    "summaries": [("late", 0), ("chat", 2)],
    "search": ["And?"],
    "query": [{"n": 2}],
    "query of the catalogue": 2,
    "select": [{"n": 2}],
    "ask": True,
    "construct": 2,
}


def begin(store: Repository) -> None:
    chat = store.create(id="chat")
    chat.append("user", "Hello")
    chat.persist()


def go_on(store: Repository) -> None:
    chat = store.load("chat")
    chat.append("user", "And?")
    chat.persist()
    store.create(id="late").persist()


@pytest.mark.parametrize("read", READS)
def test_a_store_of_one_process_answers_the_same_with_and_without(store: Repository, read: str) -> None:
    begin(store)
    assert READS[read](store, True) == THEN[read]
    go_on(store)
    assert READS[read](store, False) == READS[read](store, True) == NOW[read]


@pytest.mark.parametrize("read", READS)
def test_a_view_is_refreshed_first(place: Path, read: str) -> None:
    with trails.open(place, create=True) as owner:
        begin(owner)
        with trails.open(place, read_only=True) as view:
            go_on(owner)
            assert READS[read](view, False) == THEN[read]
            assert READS[read](view, True) == NOW[read]


@pytest.mark.parametrize("read", READS)
def test_a_process_with_an_index_of_its_own_brings_in_what_others_committed(url: str, read: str) -> None:
    with trails.open(url, create=True) as writer:
        begin(writer)
        with trails.open(url) as reader:
            go_on(writer)
            assert READS[read](reader, True) == NOW[read]


def test_a_store_as_it_was_stays_so(store: Repository) -> None:
    begin(store)
    then = store.compare("chat").as_of
    assert then is not None
    go_on(store)
    with store.at(then) as past:
        assert [turn.content for turn in past.load("chat", fresh=True)] == ["Hello"]
