"""Turns that are written as they come: whole, broken off, and after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import trails
from trails import HeadConflict, InvalidInput, Repository, Session, aio

KILLED = """
import os, signal, sys, trails
store = trails.open(sys.argv[1], create=True)
chat = store.session("chat", principal="alice")
chat.append("user", "How?")
with chat.streaming("assistant", model="m-1") as turn:
    for chunk in ("Take ", "the \\ud83d\\ude80 train"[:4] + "train"):
        turn.write(chunk)
    if sys.argv[2] == "moved on":
        with store.load("chat") as other:
            other.append("user", "Quick!")
    if sys.argv[2] == "completed":
        turn._drop = lambda gone: os.kill(os.getpid(), signal.SIGKILL)
    elif sys.argv[2] == "deleted":
        store.delete("chat")
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def kill(place: Path, how: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(place), how], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def left(place: Path) -> list[str]:
    return [file.name for file in (place / "streams").iterdir()]


def contents(session: Session) -> list[tuple[str, object]]:
    return [(turn.role, turn.content) for turn in session.turns]


def stop_reason(session: Session) -> str | None:
    call = session.turns[-1].facts.model_call
    return None if call is None else call.stop_reason


def test_what_is_written_in_pieces_is_one_turn(store: Repository) -> None:
    with store.session("chat") as chat:
        chat.append("user", "How?")
        with chat.streaming("assistant", model="m-1", meta={"n": 1}) as turn:
            for chunk in ("Take ", None, "", "the train."):
                turn.write(chunk)
            turn.usage = {"input_tokens": 3, "output_tokens": 4}
            turn.stop_reason = "stop"
    again = store.load("chat")
    assert contents(again) == [("user", "How?"), ("assistant", "Take the train.")]
    assert (again[-1].model, again[-1].usage, again[-1].meta) == (
        "m-1",
        {"input_tokens": 3, "output_tokens": 4},
        {"n": 1},
    )
    assert stop_reason(again) == "stop"
    assert store.verify().ok


def test_a_whole_reply_at_the_end_stands_before_what_was_written(memory: Repository) -> None:
    reply = {
        "role": "assistant",
        "content": "Whole.",
        "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}],
    }
    with memory.session("chat") as chat, chat.streaming("assistant") as turn:
        turn.write("Who")
        turn.finish(reply)
    assert turn.turn is not None
    assert (turn.turn.content, turn.turn.tool_calls[0].name) == ("Whole.", "look")


def broken(chat: Session) -> None:
    with chat.streaming("assistant", model="m-1") as turn:
        turn.write("Take ")
        raise ConnectionError


def test_an_error_in_the_block_makes_it_a_failed_partial_turn_and_goes_on(store: Repository) -> None:
    chat = store.session("chat")
    with pytest.raises(ConnectionError):
        broken(chat)
    again = store.load("chat")
    assert contents(again) == [("assistant", "Take ")]
    assert (stop_reason(again), again[-1].model, again[-1].meta) == (
        "failed-partial",
        "m-1",
        {"failed": "ConnectionError"},
    )


def test_nothing_is_left_on_disk_by_a_stream_that_ended(tmp_path: Path) -> None:
    place = tmp_path / "s"
    with trails.open(place, create=True) as store, store.session("streamed") as chat:
        with pytest.raises(ConnectionError):
            broken(chat)
        with chat.streaming("assistant") as turn:
            turn.write("Whole")
            assert len(left(place)) == 1
        assert left(place) == []


def test_what_a_killed_process_streamed_is_a_failed_partial_turn(tmp_path: Path) -> None:
    kill(tmp_path / "s", "")
    with trails.open(tmp_path / "s") as store:
        chat = store.load("chat")
        assert contents(chat) == [("user", "How?"), ("assistant", "Take the train")]
        assert (stop_reason(chat), chat[-1].model, chat[-1].meta) == (
            "failed-partial",
            "m-1",
            {"failed": "the process ended"},
        )
        assert store.verify().ok
    assert left(tmp_path / "s") == []
    with trails.open(tmp_path / "s") as store:
        assert len(store.load("chat")) == 2


def test_a_process_killed_right_after_it_stored_the_turn_leaves_it_once(tmp_path: Path) -> None:
    kill(tmp_path / "s", "completed")
    with trails.open(tmp_path / "s") as store:
        chat = store.load("chat")
        assert (contents(chat)[1:], stop_reason(chat)) == ([("assistant", "Take the train")], None)
        assert chat.branches() == []
    assert left(tmp_path / "s") == []


def test_what_was_streamed_beside_a_quicker_writer_is_recovered_as_a_fork(tmp_path: Path) -> None:
    kill(tmp_path / "s", "moved on")
    with trails.open(tmp_path / "s") as store:
        assert contents(store.load("chat")) == [("user", "How?"), ("user", "Quick!")]
        (fork,) = store.branches("chat")
        assert contents(store.load(fork.id)) == [("user", "How?"), ("assistant", "Take the train")]


def test_what_was_streamed_to_a_deleted_session_is_gone(tmp_path: Path) -> None:
    kill(tmp_path / "s", "deleted")
    with trails.open(tmp_path / "s") as store:
        assert list(store.list()) == []
    assert left(tmp_path / "s") == []


def test_a_line_that_a_kill_cut_is_left_out(tmp_path: Path) -> None:
    kill(tmp_path / "s", "")
    (file,) = (tmp_path / "s" / "streams").iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    with trails.open(tmp_path / "s") as store:
        assert store.load("chat")[-1].content == "Take "


def test_a_conflict_leaves_the_streamed_turn_pending(memory: Repository) -> None:
    chat = memory.session("chat")
    turn = chat.streaming("assistant").__enter__()
    turn.write("Slow")
    with memory.load("chat") as other:
        other.append("user", "Quick")
    with pytest.raises(HeadConflict):
        turn.__exit__(None, None, None)
    assert chat.keep_as_fork(id="kept")[-1].content == "Slow"


def test_what_cannot_be_said_of_a_stream_loses_none_of_its_text(memory: Repository) -> None:
    chat = memory.session("chat")
    turn = chat.streaming("assistant").__enter__()
    turn.write("Said")
    turn.usage = {"input_tokens": -1}
    with pytest.raises(InvalidInput, match="-1"):
        turn.__exit__(None, None, None)
    assert (contents(memory.load("chat")), stop_reason(chat)) == ([("assistant", "Said")], "failed-partial")


def test_what_is_no_text_is_refused(memory: Repository) -> None:
    with memory.session("chat") as chat, chat.streaming("assistant") as turn:
        turn.write("Said")
        with pytest.raises(InvalidInput, match="give the text of the chunk"):
            turn.write({"delta": "a"})
    with pytest.raises(InvalidInput, match="is complete"):
        turn.write("more")
    with pytest.raises(InvalidInput, match="meta"):
        chat.streaming("assistant", meta=7)  # type: ignore[arg-type]


def test_an_awaited_stream_is_written_without_waiting() -> None:
    async def talk() -> list[object]:
        async with trails.aio.open(":memory:") as store, await store.session("chat") as chat:
            chat.append("user", "How?")
            async with chat.streaming("assistant") as turn:
                turn.write("By ")
                turn.write("train.")
            return [each.content for each in chat.turns]

    assert aio is trails.aio
    assert anyio.run(talk) == ["How?", "By train."]
