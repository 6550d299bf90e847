"""`trails score --all -- PROGRAM`: a line of JSON a session in, a score a line out, and going on where it stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok, ok_json
from trails.replay import programs

SCORER = """
import json, sys
seen = open(sys.argv[1], "a")
for line in sys.stdin:
    asked = json.loads(line)
    seen.write(asked["session"] + "\\n")
    seen.flush()
    text = asked["turns"][0]["content"] if asked["turns"] else ""
    if text == "die":
        sys.exit(3)
    answers = {"nothing": {}, "text": "no JSON", "odd": {"name": "n", "value": 1, "more": 2}, "valueless": {"name": "n"}}
    said = answers.get(text, {"name": "turns", "value": len(asked["turns"]), "reason": text})
    print(said if isinstance(said, str) else json.dumps(said), flush=True)
"""


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a (1 turn: go), b (2 turns: stay, on) and c (1 turn: nothing)."""
    path = tmp_path_factory.mktemp("filled") / "store"
    with trails.open(path, create=True) as store:
        for name, texts in (("a", ["go"]), ("b", ["stay", "on"]), ("c", ["nothing"])):
            session = store.create(id=name, label=f"the-{name}")
            for text in texts:
                session.append("user", text)
            session.persist()
    return path


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """A file in which the program writes a line for each session that it was given."""
    return tmp_path / "seen"


@pytest.fixture
def program(tmp_path: Path, seen: Path) -> list[str]:
    file = tmp_path / "scorer.py"
    file.write_text(SCORER)
    return ["--", sys.executable, str(file), str(seen)]


def test_a_program_scores_every_session_and_the_next_time_only_what_went_on(
    place: Path, run: Run, program: list[str], seen: Path
) -> None:
    line = ("score", "--all", "--by", "agent:counter", "--version", "1", "--json", *program)
    made = ok_json(run(*line))
    assert [
        (each["session"], each["name"], each["value"], each["by"], each["version"], each["reason"])
        for each in made["scores"]
    ] == [
        ("b", "turns", 2, "counter", "1", "stay"),
        ("a", "turns", 1, "counter", "1", "go"),
    ]
    assert (made["skipped"], made["unscored"], made["failed"]) == ([], ["c"], [])
    with trails.open(place) as store, store.session("a") as a:
        a.append("user", "more")
    again = ok_json(run(*line))
    assert [(each["session"], each["value"]) for each in again["scores"]] == [("a", 2)]
    assert again["skipped"] == ["b"]
    assert seen.read_text().split() == ["c", "b", "a", "c", "a"]  # the newest first
    assert len(ok_json(run(*line[: -len(program)], "--again", *program))["scores"]) == 2


def test_only_the_sessions_that_are_named_are_scored(run: Run, program: list[str], seen: Path) -> None:
    done = run("score", "--session", "the-b", "--by", "ann", *program)
    assert "turns" in ok(done)
    assert "1 scored" in done.stderr
    assert seen.read_text().split() == ["b"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("die", "exit code 3"),
        ("text", "no JSON"),
        ("odd", "no 'more'"),
        ("valueless", "answers with a name and a value"),
    ],
)
def test_a_session_on_which_the_program_fails_is_named_and_the_others_are_scored(
    place: Path, run: Run, program: list[str], text: str, error: str
) -> None:
    with trails.open(place) as store:
        for name, said in (("bad", text), ("good", "last")):
            with store.session(name) as session:
                session.append("user", said)
    done = run("score", "--all", "--by", "agent:counter", "--json", *program)
    assert done.exit_code == 1
    made = json.loads(done.stdout)
    assert [each["session_id"] for each in made["failed"]] == ["bad"]
    assert error in made["failed"][0]["error"]
    assert sorted(each["session"] for each in made["scores"]) == ["a", "b", "good"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["score", "--all", "--by", "ann"], "scoring needs a program"),
        (["score", "--all", "--by", "ann", "--", "no-such-program-anywhere"], "no program that can be run"),
        (["score", "--all", "--", "cat"], "needs a name: --by"),
        (["score", "--all", "--by", "ann", "--reason", "why", "--", "cat"], "says itself what and why"),
        (["score", "a", "x", "1", "more"], "a program scores --all sessions"),
        (["score", "--session", "nowhere", "--by", "ann", "--", "cat"], "nowhere"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_scored(run: Run, line: list[str], said: str) -> None:
    done = run(*line)
    assert done.exit_code in (1, 2)
    assert said in " ".join(done.stderr.split())
    assert ok_json(run("scores", "--json"))["scores"] == []


def big(place: Path) -> None:
    """Add a session that no pipe holds at once: 400,000 characters."""
    with trails.open(place) as store, store.session("big") as session:
        session.append("user", "x" * 400_000)


PYTHON = ["--", sys.executable, "-c"]


def test_a_program_that_writes_before_it_reads_is_told_so_and_does_not_hang(place: Path, run: Run) -> None:
    big(place)
    done = run("score", "--session", "big", "--by", "ann", "--json", "--", "cat")  # writes back what it is asked
    assert done.exit_code == 1
    assert "no 'label'" in json.loads(done.stdout)["failed"][0]["error"]
    writes = "import sys; sys.stdout.write('[' * 300_000 + chr(10)); sys.stdout.flush(); sys.stdin.read()"
    done = run("score", "--session", "big", "--by", "ann", "--json", *PYTHON, writes)
    assert "nested too deep" in json.loads(done.stdout)["failed"][0]["error"]


def test_what_a_program_writes_and_nobody_can_use_is_not_kept_for_ever(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    big(place)
    monkeypatch.setattr(programs, "MAX_LINE", 10_000)
    writes = "import sys\nwhile True: sys.stdout.write('{}' + chr(10))"  # it reads nothing
    done = run("score", "--session", "big", "--by", "ann", "--json", *PYTHON, writes)
    assert "before it read its input" in json.loads(done.stdout)["failed"][0]["error"]


def test_a_program_that_goes_on_without_input_and_output_is_ended(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_PATIENCE", 0.01)
    done = run("score", "--session", "a", "--by", "ann", "--json", "--", "sh", "-c", "exec >&-; exec sleep 3600")
    assert "was ended" in json.loads(done.stdout)["failed"][0]["error"]


@pytest.mark.parametrize("after", ["cat > {kept}", "cat > {kept}; exit 3"])
def test_a_program_that_closes_its_output_has_ended_for_a_scorer(
    place: Path, run: Run, tmp_path: Path, after: str
) -> None:
    done = run(
        "score", "--all", "--by", "ann", "--json", "--", "sh", "-c", "exec >&-; " + after.format(kept=tmp_path / "kept")
    )
    assert done.exit_code == 1
    failed = json.loads(done.stdout)["failed"]
    assert [each["session_id"] for each in failed] == ["c", "b", "a"]
    said = "exit code 3" if "exit" in after else "ended before it answered"
    assert all(said in each["error"] for each in failed)


TWICE = """
import json, os, sys
for line in sys.stdin:
    turns = len(json.loads(line)["turns"])
    lines = [json.dumps({"name": name, "value": turns}) + chr(10) for name in ("turns", "more")]
    os.write(1, "".join(lines).encode())
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_answer_is_never_given_to_the_next_session(place: Path, run: Run, workers: int) -> None:
    done = run("score", "--all", "--by", "ann", "--json", "--workers", workers, *PYTHON, TWICE)
    assert done.exit_code == 1
    made = json.loads(done.stdout)
    assert made["scores"] == []
    assert [each["session_id"] for each in made["failed"]] == ["c", "b", "a"]
    assert all("more than the one line" in each["error"] for each in made["failed"])


LATE = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    time.sleep(0.05)
    print(json.dumps({"name": "turns", "value": len(asked["turns"])}), flush=True)
    time.sleep(0.05)
    print(json.dumps({"name": "turns", "value": 99}), flush=True)
"""


def test_a_line_that_comes_late_is_an_error_and_never_the_next_session_s_answer(place: Path, run: Run) -> None:
    done = run("score", "--all", "--by", "ann", "--json", *PYTHON, LATE)
    assert done.exit_code == 1
    made = json.loads(done.stdout)
    assert [(each["session"], each["value"]) for each in made["scores"]] == [("c", 1), ("a", 1)]
    (failed,) = made["failed"]
    assert failed["session_id"] == "b"
    assert "more than the one line" in failed["error"]


def test_a_program_that_reads_its_questions_late_or_without_line_ends_is_waited_for(place: Path, run: Run) -> None:
    reads = """
import json, os, time
said = b""
while more := os.read(0, 7):
    said += more
    try:
        asked = json.loads(said)
    except ValueError:
        continue
    os.write(1, json.dumps({"name": "turns", "value": len(asked["turns"])}).encode() + bytes([10]))
    said = b""
    time.sleep(0.1)
"""
    made = ok_json(run("score", "--all", "--by", "ann", "--json", *PYTHON, reads))
    assert [(each["session"], each["value"]) for each in made["scores"]] == [("c", 1), ("b", 2), ("a", 1)]


NAMING = """
import json, sys
late = sys.argv[1:]
for line in sys.stdin:
    asked = json.loads(line)
    said = {"session": "a" if late else asked["session"], "name": "turns", "value": len(asked["turns"])}
    print(json.dumps(said), flush=True)
"""


def test_an_answer_may_name_its_session_and_is_refused_for_another(place: Path, run: Run) -> None:
    made = ok_json(run("score", "--all", "--by", "ann", "--json", *PYTHON, NAMING))
    assert [(each["session"], each["value"]) for each in made["scores"]] == [("c", 1), ("b", 2), ("a", 1)]
    done = run("score", "--all", "--by", "bob", "--json", *PYTHON, NAMING, "late")
    made = json.loads(done.stdout)
    assert [(each["session"], each["value"]) for each in made["scores"]] == [("a", 1)]
    assert [each["session_id"] for each in made["failed"]] == ["c", "b"]
    assert all("answered for session 'a'" in each["error"] for each in made["failed"])


LATER = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"name": "n", "value": 1}), flush=True)
{then}
"""


@pytest.mark.parametrize(
    ("then", "said"),
    [("print('{}')", "wrote more than it was asked for"), ("sys.exit(5)", "ended with exit code 5")],
)
def test_how_a_program_ends_after_its_last_answer_is_told(place: Path, run: Run, then: str, said: str) -> None:
    done = run("score", "--all", "--by", "ann", *PYTHON, LATER.replace("{then}", then))
    assert done.exit_code == 1
    assert "3 scored" in done.stderr
    assert said in done.stderr


def test_an_interrupt_ends_programs_that_hang(place: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    hangs = f"import time; open({str(begun)!r}, 'w').close(); time.sleep(300)"
    line = ["--store", str(place), "score", "--all", "--by", "ann", "--workers", "2", *PYTHON, hangs]
    with subprocess.Popen([sys.executable, "-m", "trails", *line], stderr=subprocess.PIPE, text=True) as process:
        begun.read_text()  # returns when one of them has begun
        process.send_signal(signal.SIGINT)  # to this one alone, as a supervisor sends it
        try:
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert (process.returncode, said.strip().splitlines()[-1]) == (130, "error: interrupted")
    assert "Traceback" not in said
