"""Whatever a program writes, its run ends as a rerun does, with an error that Trails documents."""

from __future__ import annotations

import json
import os
import random
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.machines import Size
from trails import InvalidInput, Repository, TrailsError
from trails.replay.programs import Program
from trails.replay.rerun import attempt

LINES: Final[tuple[dict[str, Any], ...]] = (
    {"ask": "input"},
    {"ask": "model"},
    {"ask": "context"},
    {"ask": ["model"]},
    {"ask": "tool", "name": "f", "arguments": {"a": 1}},
    {"ask": "tool", "name": "f", "arguments": "{bad", "id": ""},
    {"ask": "tool", "name": "f", "arguments": {"a": float("nan")}},
    {"ask": "tool", "name": "", "arguments": None},
    {"ask": "append", "role": "user", "content": "x"},
    {"ask": "append", "role": "assistant", "content": "", "tool_calls": [{"id": "q", "name": "f", "arguments": {}}]},
    {"ask": "append", "role": 3, "content": None},
    {"ask": "append", "role": "user", "content": {"a": 1}},
    {"ask": "append", "role": "user", "content": "\ud800"},
    {"ask": "append", "role": "user", "content": "x", "usage": "lots", "meta": [1]},
    {"ask": "append", "role": "user", "content": "x", "tool_calls": 3},
    {"ask": "append", "role": "tool", "content": "x", "tool_call_id": 7},
    {"ask": "append", "role": "user", "content": "x", "model": {"a": 1}, "stop_reason": 4, "author": 5},
    {"answer": "x"},
    {"answer": {"role": "assistant", "content": "z"}},
    {"answer": None},
    {"answer": "x", "is_error": "no"},
)


def written(chance: random.Random) -> bytes:
    """Some lines, at times with bytes that are none of theirs."""
    data = bytearray(b"".join(json.dumps(chance.choice(LINES)).encode() + b"\n" for _ in range(chance.randrange(1, 9))))
    for _ in range(chance.choice([0, 0, 1, 3])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def test_any_lines_end_a_run_with_a_documented_error_or_none(memory: Repository, tmp_path: Path, size: Size) -> None:
    s = memory.create(id="s")
    s.append("user", "go")
    s.append("assistant", "c", tool_calls=[{"id": "i", "name": "f", "arguments": {"a": 1}}])
    s.append("tool", "r", tool_call_id="i")
    s.append("assistant", "end")
    s.persist()
    outcomes = set()
    for seed in range({"quick": 60, "all": 600, "long": 10_000}[size]):
        chance = random.Random(seed)
        (tmp_path / "lines").write_bytes(written(chance))
        agent = Program(
            ["cat", str(tmp_path / "lines")],
            model=chance.choice(["recorded", "live"]),
            tools=chance.choice(["recorded", "live"]),
            on_miss=chance.choice(["stop", "live"]),
        )
        done = attempt(s, agent, ways=agent.ways, upto=None)
        outcomes.add(done.outcome)
        assert done.error is None or isinstance(done.error, TrailsError), (seed, done.error)
    assert outcomes == {"finished", "stopped", "failed"}
    assert memory.verify().ok


@pytest.mark.parametrize("command", [[], ["/no/such/program"], ["no-such-program-anywhere"]])
def test_what_is_no_program_is_refused_at_once(command: list[str]) -> None:
    with pytest.raises(InvalidInput):
        Program(command)


def test_a_run_ends_with_its_program_whatever_that_left_running(memory: Repository, tmp_path: Path) -> None:
    s = memory.create(id="s")
    s.append("user", "go")
    s.persist()
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    agent = Program(["sh", "-c", f'cat "{fifo}" & echo \'{{"ask": "input"}}\'; read -r said'])
    release = threading.Timer(20, lambda: fifo.write_text("let go\n"))  # so that a run that waits ends too
    release.start()
    done = attempt(s, agent, ways=agent.ways, upto=None)
    assert release.is_alive()
    release.cancel()
    fifo.write_text("")
    assert (done.outcome, done.agreed) == ("finished", 1)


def test_a_long_line_comes_in_pieces_and_lines_come_together(memory: Repository, tmp_path: Path) -> None:
    s = memory.create(id="s")
    s.append("user", "go")
    s.persist()
    long = json.dumps({"ask": "append", "role": "assistant", "content": "x" * 300_000})
    (tmp_path / "lines").write_text(f'{{"ask": "input"}}\n{long}\n{{"ask": "input"}}\n')
    agent = Program(["cat", str(tmp_path / "lines")])
    done = attempt(s, agent, ways=agent.ways, upto=None)
    assert (done.outcome, [len(turn.content) for turn in done.session]) == ("finished", [2, 300_000])
