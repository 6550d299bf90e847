"""A message with a source id is stored once, and a handle sees what others appended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import HeadConflict, InvalidInput, Repository, SessionNotFound


def contents(store: Repository, session_id: str = "s") -> list[object]:
    return [turn.content for turn in store.load(session_id).turns]


def test_a_message_that_comes_again_is_not_stored_again(store: Repository) -> None:
    with store.create(id="s") as session:
        first = session.append("user", "hello", source_id="m1")
        assert session.append("user", "hello", source_id="m1") == first
        session.append("assistant", "hi", source_id="m2")
    again = store.load("s")
    assert again.append("user", "hello again", source_id="m1") == first
    assert again.append_message({"role": "assistant", "content": "hi"}, source_id="m2").content == "hi"
    assert again.append_message({"role": "user", "content": "new"}, source_id="m3").index == 2
    assert again.persist() == 1
    assert contents(store) == ["hello", "hi", "new"]
    assert [turn.source_ids for turn in store.load("s").turns] == [("m1",), ("m2",), ("m3",)]
    assert store.proofs.verify().ok


def test_what_a_fork_inherits_is_not_stored_again_and_what_its_parent_got_later_is(store: Repository) -> None:
    with store.create(id="s") as session:
        session.append("user", "a", source_id="a")
        session.append("user", "b", source_id="b")
    fork = session.fork(at=1, id="f")
    assert fork.append("user", "a", source_id="a").index == 0
    assert fork.append("user", "b", source_id="b").index == 1
    assert fork.persist() == 1
    assert contents(store, "f") == ["a", "b"]
    assert store.load("f").append("user", "b", source_id="b").session_id == "f"


def test_a_message_that_another_writer_stored_meanwhile_is_found(store: Repository) -> None:
    with store.create(id="s") as session:
        session.append("user", "a", source_id="a")
    late = store.load("s")
    late.append("user", "mine", source_id="mine")
    session.append("user", "b", source_id="b")
    session.persist()
    assert late.append("user", "b", source_id="b").index == 1
    assert late.persist() == 1
    assert contents(store) == ["a", "b", "mine"]


def test_a_message_is_found_without_reading_the_transcript(store: Repository) -> None:
    with store.create(id="s") as session:
        for number in range(300):
            session.append("user", f"text {number}", source_id=f"m{number}")
    loaded = store.load("s", last=1)
    assert loaded.append("user", "again", source_id="m7").content == "text 7"


@pytest.mark.parametrize("source_id", ["", 3, b"x", "\ud800"])
def test_what_is_no_source_id_is_refused(memory: Repository, source_id: object) -> None:
    with pytest.raises(InvalidInput):
        memory.create().append("user", "a", source_id=source_id)  # type: ignore[arg-type]


def test_a_handle_sees_what_others_appended_and_keeps_what_is_pending(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "a")
    session.persist()
    assert session.refresh() == 0
    other = store.load("s")
    other.append("user", "b")
    other.append("user", "c")
    other.persist()
    session.append("user", "mine")
    with pytest.raises(HeadConflict):
        session.persist()
    assert session.refresh() == 2
    assert [(turn.index, turn.content) for turn in session.turns] == [(0, "a"), (1, "b"), (2, "c"), (3, "mine")]
    assert session.refresh() == 0
    assert session.persist() == 1
    assert contents(store) == ["a", "b", "c", "mine"]


def test_a_handle_sees_a_new_label_and_that_its_session_is_gone(store: Repository) -> None:
    session = store.create(id="s")
    session.persist()
    store.set_label("s", "trip")
    assert session.refresh() == 0
    assert session.label == "trip"
    store.delete("s")
    with pytest.raises(SessionNotFound):
        session.refresh()


def test_a_new_session_has_nothing_to_refresh(memory: Repository) -> None:
    session = memory.create()
    session.append("user", "a")
    assert (session.refresh(), session.pending) == (0, 1)
    session.discard_pending()


_WRITER = """
import sys, trails
with trails.open(sys.argv[1]) as store:
    session = store.load("s")
    for number in range(15):
        while True:
            session.append("user", f"m{number}", source_id=f"m{number}")
            try:
                session.persist()
                break
            except trails.HeadConflict:
                session.discard_pending()
                session.refresh()
"""


@pytest.mark.slow
def test_processes_that_deliver_the_same_messages_store_each_once(place: Path) -> None:
    with trails.open(place, create=True) as store:
        store.create(id="s").persist()
        writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(place)]) for _ in range(4)]
        assert [writer.wait(60) for writer in writers] == [0] * 4
        assert contents(store) == [f"m{number}" for number in range(15)]


@pytest.mark.parametrize("kind", ["session", "checkout"])
def test_a_message_that_was_stored_meanwhile_is_not_stored_again_after_a_refresh(store: Repository, kind: str) -> None:
    store.create(id="s").persist()
    store.refs.set("main", "s")
    one: Any = store.load("s") if kind == "session" else store.checkout("main")
    other: Any = store.load("s") if kind == "session" else store.checkout("main")
    for handle in (one, other):
        handle.append("user", "m", source_id="m")
    other.append("user", "mine", source_id="mine")
    one.persist()
    with pytest.raises(HeadConflict):
        other.persist()
    assert other.refresh() == 1
    assert other.persist() == 1
    assert contents(store) == ["m", "mine"]
