"""`trails tail` and the other commands that look at ledgers; also while another process has the store open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, invoke, ok_json
from tests.support.ledgers import echo, session_of
from tests.support.places import IMPORTED
from trails import Ledger, Repository

WAIT = 30.0


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which `main` (labelled front) has answered a message, whose delivery failed once; another one waits."""
    folder = tmp_path_factory.mktemp("filled") / "store"
    with trails.open(folder, create=True, durability="process") as store:
        session_of(store)
        store.set_label("main", "front")
        ledger = Ledger(store)
        ledger.receive("main", "Is it open?", source="mail", event_id="m-1", channel="smtp", peer="eve")
        ledger.process("main", lambda running: "Until six.")
        answer = ledger.events("main", direction="outbound")[0]
        ledger.delivered(answer, outcome="failed", reason="mailbox full")
        ledger.receive("main", "And \x1b[31mnow\x1b[0m?", source="mail", event_id="m-2")
        session_of(store, "alone", name="other")
    return folder


# --- the ledger's commands


def test_head_shows_the_last_turn_and_how_it_got_there(run: Run) -> None:
    result = run("head", "front", "--moves")
    assert "1 " in result.stdout
    assert "assistant: Until six." in result.stdout
    plain = ok_json(run("head", "front", "--moves", "--json"))
    assert plain["head"]["content"] == "Until six."
    assert [(move["length"], move["exchange"]) for move in plain["moves"]] == [(2, 2)]
    assert "moves" not in ok_json(run("head", "front", "--json"))


def test_inbox_shows_what_waits_and_nothing_steers_the_terminal(run: Run) -> None:
    result = run("inbox", "list", "front")
    assert "And ␛[31mnow␛[0m?" in result.stdout
    assert "\x1b" not in result.stdout
    (message,) = ok_json(run("inbox", "list", "front", "--json"))["messages"]
    assert (message["number"], message["event_id"], message["mode"]) == (5, "m-2", "followup")


def test_exchanges_shows_how_each_ended(run: Run) -> None:
    assert "completed" in run("inbox", "exchanges", "main").stdout
    (exchange,) = ok_json(run("inbox", "exchanges", "main", "--json"))["exchanges"]
    assert (exchange["state"], exchange["events"], exchange["interrupted"]) == ("completed", [1], False)
    assert ok_json(run("inbox", "exchanges", "main", "--state", "failed", "--json"))["exchanges"] == []


def test_events_shows_messages_answers_and_deliveries(run: Run) -> None:
    text = run("inbox", "events", "main").stdout
    for part in ("Is it open?", "Until six.", "attempt 1: failed: mailbox full", "mail smtp eve"):
        assert part in text
    plain = ok_json(run("inbox", "events", "main", "--json"))
    assert [(each["direction"], each["content"]) for each in plain["events"]] == [
        ("inbound", "Is it open?"),
        ("outbound", "Until six."),
        ("inbound", "And \x1b[31mnow\x1b[0m?"),
    ]
    assert [each["outcome"] for each in plain["deliveries"]] == ["failed"]


@pytest.mark.parametrize("name", ["head", "inbox list", "inbox exchanges", "inbox events"])
def test_a_session_without_a_ledger_says_so_on_stderr(run: Run, place: Path, name: str) -> None:
    with trails.open(place, durability="process") as store:
        store.create(id="empty").persist()
    result = run(*name.split(), "empty")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "'empty'" in result.stderr
    assert "'empty'" not in run(*name.split(), "empty", "--json").stderr


# --- tail


def test_tail_shows_the_last_lines_with_texts_where_the_store_is_free(run: Run, place: Path) -> None:
    assert run("tail", "-n", "4").stdout.splitlines() == [
        "main  delivery 4 noted",
        "main  message 5 received",
        "other  created",
        f"other  1 turn, head {head_of(place, 'other')[:8]}",
        "    user: alone",
    ]


def head_of(place: Path, session: str) -> str:
    with trails.open(place, durability="process") as store:
        return store.load(session).head


def test_tail_of_a_session_by_its_label_in_full(run: Run, place: Path) -> None:
    assert run("tail", "front", "-n", "99").stdout.splitlines() == [
        "main  created",
        "main  its row changed",
        "main  message 1 received",
        "main  exchange 2 pending",
        "main  exchange 2 streaming",
        f"main  2 turns, head {head_of(place, 'main')[:8]}",
        "    user: Is it open?",
        "    assistant: Until six.",
        "main  answer 3 made",
        "main  exchange 2 completed",
        "main  delivery 4 noted",
        "main  message 5 received",
    ]
    assert run("tail", "-n", "0").stdout == ""


def test_tail_as_json_is_an_object_a_line(run: Run) -> None:
    lines = [json.loads(line) for line in run("tail", "main", "-n", "2", "--json").stdout.splitlines()]
    assert [(line["kind"], line["session"], line["count"]) for line in lines] == [
        ("delivered", "main", 4),
        ("received", "main", 5),
    ]


def test_tail_of_a_store_that_is_open_elsewhere_shows_what_it_shows_of_a_closed_one(run: Run, place: Path) -> None:
    closed = [run("tail", name, "-n", "99").stdout for name in ("main", "front")]
    assert "    user" in closed[0]
    with trails.open(place, durability="process"):
        assert [run("tail", name, "-n", "99").stdout for name in ("main", "front")] == closed


def test_tail_shows_the_turns_of_a_deleted_session_without_their_texts(run: Run, place: Path) -> None:
    with trails.open(place, durability="process") as store:
        store.delete("other")
    lines = run("tail", "-n", "2").stdout.splitlines()
    assert lines[1:] == ["other  deleted"]
    assert lines[0].startswith("other  1 turn, head ")


def test_tail_where_there_is_no_store_says_so(tmp_path: Path) -> None:
    result = invoke("tail", store=tmp_path / "nothing")
    assert (result.exit_code, "no Trails store" in result.stderr) == (2, True)


class Follower:
    """A `trails tail -f` in a process of its own, whose lines can be waited for."""

    def __init__(self, place: Path, *arguments: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(IMPORTED), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "trails", "--store", str(place), "tail", "-f", *arguments]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, condition: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + WAIT
        while not condition(self.lines):
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            assert time.monotonic() < deadline, self.lines
            time.sleep(0.02)

    def interrupt(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(WAIT)
        self._reader.join(WAIT)
        assert self.process.stderr is not None
        return code, self.process.stderr.read()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def follow(place: Path) -> Iterator[Callable[..., Follower]]:
    made: list[Follower] = []

    def start(*arguments: str) -> Follower:
        made.append(Follower(place, *arguments))
        return made[-1]

    yield start
    for each in made:
        each.close()


def write(store: Repository) -> None:
    session = store.load("other")
    session.append("assistant", "no more")
    session.persist()
    session.fork(at=1, id="branch").persist()
    Ledger(store).process("main", echo)


def test_tail_follows_what_another_process_writes_and_ctrl_c_ends_it(
    place: Path, follow: Callable[..., Follower]
) -> None:
    with trails.open(place, durability="process") as store:
        follower = follow("-n", "1")
        follower.wait_for(lambda lines: len(lines) == 2)
        write(store)
        follower.wait_for(lambda lines: len(lines) == 12)
        other, main_head = store.load("other").head, store.load("main").head
        assert follower.lines[2:] == [
            f"other  2 turns, head {other[:8]}",
            "    assistant: no more",
            "branch  forked at 1",
            "main  exchange 6 pending",
            "main  exchange 6 streaming",
            f"main  4 turns, head {main_head[:8]}",
            "    user: And ␛[31mnow␛[0m?",
            "    assistant: re: And ␛[31mnow␛[0m?",
            "main  answer 7 made",
            "main  exchange 6 completed",
        ]
        assert store.verify().ok
    assert follower.interrupt() == (0, "")


def test_tail_follows_one_session_as_json(place: Path, follow: Callable[..., Follower]) -> None:
    with trails.open(place, durability="process") as store:
        follower = follow("other", "-n", "1", "--json")
        follower.wait_for(lambda lines: len(lines) == 1)
        write(store)
        follower.wait_for(lambda lines: len(lines) == 2)
        assert json.loads(follower.lines[1])["count"] == 2
    assert follower.interrupt() == (0, "")


_WRITER = """
import sys, trails
with trails.open(sys.argv[1], durability="process") as store:
    session = store.create(id=sys.argv[2])
    for number in range(20):
        session.append("user", f"{number}")
        session.persist()
    print(*[turn.digest for turn in session])
"""


@pytest.mark.slow
def test_tail_shows_each_commit_of_several_writers_once_and_in_order(
    place: Path, follow: Callable[..., Follower]
) -> None:
    follower = follow("-n", "1", "--json")
    follower.wait_for(lambda lines: len(lines) == 1)
    environment = os.environ | {"PYTHONPATH": str(IMPORTED)}
    command = [sys.executable, "-c", _WRITER, str(place)]
    writers = {
        name: subprocess.Popen([*command, name], env=environment, stdout=subprocess.PIPE, text=True) for name in "abc"
    }
    written = {name: writer.communicate(timeout=WAIT)[0].split() for name, writer in writers.items()}
    follower.wait_for(lambda lines: len(lines) >= 1 + 3 * 21)
    with trails.open(place, durability="process") as store:
        store.delete("other")
        follower.wait_for(lambda lines: json.loads(lines[-1])["kind"] == "delete")
        logged = [line.split(" ") for line in store.store.log.lines()]
    shown = [json.loads(line) for line in follower.lines[1:-1]]
    for name, digests in written.items():
        turns = [(each["kind"], each["count"], each["digest"]) for each in shown if each["session"] == name][1:]
        assert turns == [("turns", count, digest) for count, digest in enumerate(digests, 1)]
        assert len(digests) == 20
    order = [(fields[1].rpartition(":")[2], int(fields[2])) for fields in logged if fields[0] == "turns"]
    new = [(session, count) for session, count in order if session in written]
    assert [(each["session"], each["count"]) for each in shown if each["kind"] == "turns"] == new
    assert follower.interrupt() == (0, "")


@pytest.mark.parametrize(
    ("is_replaced", "message"), [(False, "was removed, or moved away"), (True, "another file was put in its place")]
)
def test_tail_ends_with_an_error_if_the_store_goes_away(
    place: Path, follow: Callable[..., Follower], is_replaced: bool, message: str
) -> None:
    follower = follow("-n", "1")
    follower.wait_for(lambda lines: len(lines) >= 1)
    place.rename(place.parent / "elsewhere")
    if is_replaced:
        trails.open(place, create=True).close()
    assert follower.process.wait(WAIT) == 1
    assert follower.process.stderr is not None
    assert message in follower.process.stderr.read()
