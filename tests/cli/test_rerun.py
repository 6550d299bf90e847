"""`trails rerun`: a program speaks JSON lines, and what agrees with the record is shared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import Run, ok, ok_json
from trails.replay import programs

AGENT = """
import json, os, sys
def ask(**what):
    print(json.dumps(what), flush=True)
    while True:
        said = json.loads(sys.stdin.readline())
        if "live" not in said:
            if "miss" in said:
                sys.exit(0)
            return said
        print(json.dumps(live(said)), flush=True)
def live(said):
    number = os.environ["TRAILS_RERUN_NUMBER"]
    if said["live"] == "tool":
        return {"answer": "Sun " + number, "is_error": False}
    return {"answer": "live %s after %d" % (number, len(said["messages"]))}
while ask(ask="input")["turns"]:
    turn = ask(ask="model")["turn"]
    while turn.get("tool_calls"):
        for call in turn["tool_calls"]:
            ask(ask="tool", **call)
        turn = ask(ask="model")["turn"]
print(os.environ["TRAILS_RERUN_SESSION"], file=sys.stderr)
"""


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with `plan`: 0 user, 1 calls the weather, 2 answers, 3 says so."""
    path = tmp_path_factory.mktemp("filled") / "store"
    with trails.open(path, create=True) as store:
        plan = store.create(id="plan", label="trip")
        plan.append("user", "Plan a trip")
        plan.append("assistant", "I look.", tool_calls=[{"id": "c", "name": "weather", "arguments": {"at": "Zermatt"}}])
        plan.append("tool", "Snow", tool_call_id="c")
        plan.append("assistant", "Take the train.")
        plan.persist()
    return path


@pytest.fixture
def agent(tmp_path: Path) -> list[str]:
    """A program that asks for everything there is."""
    return program(tmp_path, AGENT)


def program(folder: Path, text: str) -> list[str]:
    file = folder / "agent.py"
    file.write_text(text)
    return [sys.executable, "-S", str(file)]


def test_a_program_that_says_what_was_recorded_shares_it(run: Run, agent: list[str], place: Path) -> None:
    result = run("rerun", "trip", "--id", "again", "--", *agent)
    assert ok(result) == "again\n"
    assert result.stderr == "it shares 4 turns with plan, and nothing differs\n"
    with trails.open(place) as store:
        assert store.load("again").forked_at_index == 4
        assert store.verify().ok


def test_a_live_model_and_live_tools_are_the_programs_own(run: Run, agent: list[str], place: Path) -> None:
    told = ok_json(
        run("rerun", "plan", "--tools", "live", "--on-miss", "live", "--id", "sunny", "--json", "--", *agent)
    )
    assert (told["left_at"], told["agreed"], told["played"], told["live"]) == (2, 2, 1, 2)
    assert told["difference"] == {"index": 2, "what": "answer of weather", "recorded": '"Snow"', "found": '"Sun 0"'}
    model = ok_json(run("rerun", "plan", "--model", "live", "--id", "other", "--json", "--", *agent))
    assert (model["left_at"], model["outcome"]) == (1, "finished")
    with trails.open(place) as store:
        assert [turn.content for turn in store.load("sunny")[2:]] == ["Sun 0", "live 0 after 3"]
        assert [turn.content for turn in store.load("other")[1:]] == ["live 0 after 1"]


def test_a_miss_stops_the_program_and_the_exit_code_says_so(run: Run, agent: list[str]) -> None:
    result = run("rerun", "plan@2", "--json", "--", *agent)
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["outcome"], told["left_at"], told["difference"]["what"]) == (
        "stopped",
        2,
        "no answer to weather that could be read",
    )


def test_several_times_is_gone_on_with(run: Run, agent: list[str], place: Path) -> None:
    words = ["rerun", "plan", "--times", "3", "--name", "try", "--model", "live", "--json", "--", *agent]
    told = ok_json(run(*words))
    assert [each["session"] for each in told["reruns"]] == ["plan~try-0", "plan~try-1", "plan~try-2"]
    assert ok_json(run(*words))["reruns"][2]["left_at"] == 1
    with trails.open(place) as store:
        assert len(store) == 4
        assert [store.load(f"plan~try-{n}")[-1].content for n in range(3)] == [f"live {n} after 1" for n in range(3)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('hello')", "no JSON"),
        ("print('[1]')", "no JSON object"),
        ("print('{}')", "asks for input, model, tool, append or context, not for None"),
        ("print('{\"ask\": \"model\"', end='')", "has no end"),
        ("print('{\"a\":' * 3000 + '1' + '}' * 3000)", "nested too deep"),
        ("import sys; sys.stdout.buffer.write(bytes([255, 10]))", "no JSON"),
        ('print(\'{"ask": "tool"}\')', "tool's name"),
        ('print(\'{"ask": "tool", "name": "weather", "id": 3}\')', "id is a text"),
        ('print(\'{"ask": "append", "role": "user", "content": "x", "salt": "y"}\')', "has no 'salt'"),
        ('print(\'{"ask": "append", "content": "x"}\')', "role"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
    ],
)
def test_a_program_that_goes_wrong_fails_and_the_fork_says_how_far_it_came(
    run: Run, tmp_path: Path, place: Path, text: str, said: str
) -> None:
    result = run("rerun", "plan", "--id", "failed", "--json", "--", *program(tmp_path, text))
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["outcome"], told["agreed"]) == ("failed", 0)
    assert said in told["error"]
    with trails.open(place) as store:
        assert store.load("failed").forked_at_index == 0
        assert store.verify().ok


def test_a_live_program_that_gives_no_answer_fails(run: Run, tmp_path: Path) -> None:
    text = 'import sys\nprint(\'{"ask": "model"}\', flush=True)\nsys.stdin.readline()\n'
    result = run("rerun", "plan", "--model", "live", "--", *program(tmp_path, text))
    assert result.exit_code == 1
    assert "and gave none" in result.stderr


def test_a_program_that_reads_no_answer_and_ends_well_is_finished(run: Run, tmp_path: Path) -> None:
    text = 'import os\nos.close(0)\nfor n in range(20):\n    print(\'{"ask": "context"}\', flush=True)\n'
    told = ok_json(run("rerun", "plan", "--json", "--", *program(tmp_path, text)))
    assert (told["outcome"], told["agreed"]) == ("finished", 0)


def test_a_program_that_does_not_end_is_ended(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_PATIENCE", 0.01)
    text = 'import sys, time\nprint(\'{"ask": "model"}\', flush=True)\nsys.stdin.readline()\ntime.sleep(3600)\n'
    result = run("rerun", "plan", "--json", "--", *program(tmp_path, text))
    assert result.exit_code == 1
    assert json.loads(result.stdout)["outcome"] == "stopped"


def test_a_program_that_closes_its_output_has_ended_once_its_input_does(run: Run, tmp_path: Path) -> None:
    text = 'import os, sys\nos.write(1, b\'{"ask": "input"}\\n\')\nos.close(1)\nsys.stdin.read()\n'
    told = ok_json(run("rerun", "plan", "--json", "--", *program(tmp_path, text)))
    assert (told["outcome"], told["agreed"]) == ("finished", 1)


@pytest.mark.slow
def test_a_program_may_ask_on_before_it_reads_its_answers(run: Run, place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store, store.session("long") as session:
        session.append("user", "x" * 400_000)
    text = """
import os, sys
asks = [b'{"ask": "input"}'] + 3_000 * [b'{"ask": "context", "why": "%s"}' % (40 * b"y")]
os.write(1, b"".join(each + bytes([10]) for each in asks[:3]))  # answers that no pipe holds, and nobody reads yet
os.read(0, 1 << 16)
for each in asks[3:]:
    os.write(1, each + bytes([10]))
"""
    told = ok_json(run("rerun", "long", "--json", "--", *program(tmp_path, text)))
    assert (told["outcome"], told["agreed"]) == ("finished", 1)


def test_an_interrupt_ends_programs_that_hang_and_stores_nothing_of_them(place: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    hangs = f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(300)\n"
    line = ["--store", str(place), "rerun", "plan", "--times", "4", "--workers", "2", "--", *program(tmp_path, hangs)]
    with subprocess.Popen([sys.executable, "-m", "trails", *line], stderr=subprocess.PIPE, text=True) as process:
        begun.read_text()  # returns when one of them has begun
        process.send_signal(signal.SIGINT)  # to this one alone, as a supervisor sends it
        try:
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert (process.returncode, said.strip().splitlines()[-1]) == (130, "error: interrupted")
    assert "Traceback" not in said
    with trails.open(place) as store:
        assert store.load("plan").branches() == []


def test_what_a_program_appends_itself_is_held_against_the_record(run: Run, tmp_path: Path, place: Path) -> None:
    lines = [{"ask": "append", "role": "user", "content": text} for text in ("Plan a trip", "And be quick")]
    text = "import sys\n" + "".join(
        f"print({json.dumps(each)!r}, flush=True); sys.stdin.readline()\n" for each in lines
    )
    told = ok_json(run("rerun", "plan", "--id", "own", "--json", "--", *program(tmp_path, text)))
    assert (told["left_at"], told["turns"], told["difference"]["what"]) == (1, 1, "role")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["rerun", "plan"], 2),
        (["rerun", "plan", "--times", "2", "--id", "x", "--", "true"], 2),
        (["rerun", "plan", "--name", "x", "--", "true"], 2),
        (["rerun", "plan", "--workers", "2", "--", "true"], 2),
        (["rerun", "plan", "--model", "guess", "--", "true"], 2),
        (["rerun", "nobody", "--", "true"], 2),
        (["rerun", "plan@9", "--", "true"], 2),
        (["rerun", "plan", "--", "/no/such/program"], 2),
    ],
)
def test_wrong_usage_ends_as_everywhere(run: Run, place: Path, words: list[Any], code: int) -> None:
    assert run(*words).exit_code == code
    with trails.open(place) as store:
        assert len(store) == 1
