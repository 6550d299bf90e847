"""A redaction changes the rows of what it redacts, and leaves nothing of it in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trails
from trails import Repository
from trails.rows import text_index
from trails.store.log import sqlite

_CALL = {"id": "c1", "name": "weather", "arguments": {"town": "Chamonix"}}
_USAGE = {"input_tokens": 30, "output_tokens": 6}


@pytest.fixture
def filled(place: Path) -> Path:
    """Two sessions with calls, answers and a long text, a fork of the first that was detached, so it holds copies."""
    with trails.open(place, create=True, durability="process") as store:
        for name in ("long", "other"):
            session = store.create(id=name)
            session.append("user", f"First of {name}: plan a trip to the Alps")
            session.append("assistant", "I look.", model="m-1", usage=_USAGE, tool_calls=[_CALL])
            session.append("tool", "Snow in Chamonix", tool_call_id="c1")
            session.append("user", f"Second question of {name}")
            session.append(
                "assistant", [{"type": "text", "text": "Take the train " + "again and " * 2000}], model="m-1"
            )
            for index in range(30):
                session.append("user" if index % 2 else "assistant", f"word{index} in {name} " * 20)
            session.persist()
        fork = store.load("long").fork(at=20, id="fork")
        fork.append("user", "Something else")
        fork.persist()
        fork.detach()
        store.stats()
        assert len(store.search("Chamonix")) > 0
    return place


def _answers(store: Repository) -> tuple[Any, ...]:
    return (
        [(each.id, each.first_prompt, each.turns, each.calls, each.input_tokens) for each in store.summaries()],
        [(found.session_id, found.index) for found in store.search("chamonix")],
        [(found.session_id, found.index) for found in store.search("word3 in long")],
        list(store.stats()),
    )


@pytest.mark.parametrize("index", [0, 1, 2, 4, 7, 33])
def test_rows_after_a_redaction_are_those_that_are_made_anew(index: int, filled: Path) -> None:
    with trails.open(filled) as store:
        store.redact("long", index)
        found = _answers(store)
        report = store.verify()
        assert report.ok, report.findings
        store.workspace.rows.rebuild()
        assert _answers(store) == found


def test_the_first_prompt_is_the_next_one_once_it_is_redacted(filled: Path) -> None:
    with trails.open(filled) as store:
        store.redact("long", 0)
        assert {each.id: each.first_prompt for each in store.summaries()} == {
            "long": "Second question of long",
            "other": "First of other: plan a trip to the Alps",
            "fork": "Second question of long",
        }


def test_no_three_characters_of_a_redacted_text_stay_in_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "WAITING", 1)
    rare = "\ua66e" * 3
    held = rare[:2].encode()  # the file lists characters that begin alike by what differs
    with trails.open(place, create=True, durability="process") as store:
        session = store.create(id="s")
        for text in ("one", "two", "three"):
            session.append("user", f"{text} of several turns")
        session.append("user", f"Four {rare}")
        session.persist()
        assert len(store.search(rare)) == 1
        assert any(held in each.read_bytes() for each in place.glob(f"{sqlite.NAME}*"))
        store.redact("s", 3)
        assert not any(held in each.read_bytes() for each in place.glob(f"{sqlite.NAME}*"))


@pytest.mark.parametrize("waiting", [1, 256])
def test_no_author_of_a_redacted_or_deleted_turn_stays_in_the_file(
    place: Path, waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "WAITING", waiting)
    with trails.open(place, create=True, durability="process") as store:
        for name, author in (("kept", "Zenobia"), ("gone", "Quentin")):
            session = store.create(id=name)
            session.append("user", "Hello", author=author)
            session.append("user", "And goodbye")
            session.persist()
        store.redact_matching("Zenobia", by="dave")
        store.delete("gone")
        assert store.verify().ok
        files = b"".join(each.read_bytes() for each in place.glob(f"{sqlite.NAME}*"))
        assert not [author for author in (b"Zenobia", b"Quentin") if author in files]


def test_a_call_whose_turn_was_copied_within_its_session_counts_once_after_either_is_redacted(place: Path) -> None:
    with trails.open(place, create=True, durability="process") as store:
        session = store.create(id="s")
        session.append("user", "Plan a trip")
        session.append("assistant", "Take the train", model="m-1", usage=_USAGE)
        session.persist()
        session.cherry_pick(session, 1)
        session.persist()
        for index in (2, 1):
            assert [(each.calls, each.input_tokens) for each in store.summaries()] == [(1, 30)]
            store.redact("s", index)
        assert [(each.calls, each.input_tokens) for each in store.summaries()] == [(1, 30)]
        assert store.verify().ok
