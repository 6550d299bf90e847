"""The commands that write into ledgers: messages in, a program that answers them, deliveries, and what went wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import Run
from tests.support.ledgers import session_of
from tests.support.sessions import contents
from trails import Ledger
from trails.runtime.ledger import Running


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the sessions `main`, labelled front, and `other`."""
    folder = tmp_path_factory.mktemp("filled") / "store"
    with trails.open(folder, create=True, durability="process") as store:
        session_of(store, "hello")
        store.set_label("main", "front")
        session_of(store, name="other")
    return folder


def answer(script: str) -> tuple[str, ...]:
    return "--", sys.executable, "-c", f"import json, sys; asked = json.load(sys.stdin); {script}"


def test_a_message_is_put_in_once_and_answered_by_a_program(run: Run, place: Path) -> None:
    given = ("--source", "mail", "--event-id", "m-1", "--channel", "smtp", "--peer", "eve", "--author", "eve")
    assert run("inbox", "receive", "front", "Is it open?", *given).stdout == "1\n"
    again = run("inbox", "receive", "other", "-", *given, stdin="Is it open?")
    assert (again.stdout, "in session 'main' already; nothing was added" in again.stderr) == ("1\n", True)
    script = "print(asked['session'], asked['exchange'], asked['events'][0]['peer'], asked['messages'])"
    done = run("inbox", "process", "front", *answer(script))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "2\n", "1 exchange completed\n")
    shown = [{"role": "user", "content": "hello"}, {"role": "user", "content": "Is it open?"}]
    with trails.open(place) as store:
        assert contents(store) == ["hello", "Is it open?", f"main 2 eve {shown}"]
        assert store.load("main").turns[1].author == "eve"
    late = run("inbox", "receive", "front", "Is it open?", *given)
    assert (late.stdout, "taken up already" in late.stderr) == ("1\n", True)


def test_deliveries_are_noted_and_counted(run: Run) -> None:
    run("inbox", "receive", "main", "Is it open?", "--channel", "smtp")
    run("inbox", "process", "main", *answer("print('Until six.')"))
    failed = run("inbox", "delivered", "main", "3", "--outcome", "failed", "--reason", "mailbox full")
    assert failed.stdout == "4\n"
    sent: Any = json.loads(run("inbox", "delivered", "main", "3", "--text", "-", "--json", stdin="6 p.m.").stdout)
    assert (sent["attempt"], sent["channel"], sent["outcome"], sent["text"]) == (2, "smtp", "sent", "6 p.m.")
    for entry in ("2", "9"):
        refused = run("inbox", "delivered", "main", entry)
        assert (refused.exit_code, "is no answer" in refused.stderr) == (2, True)


def test_an_exchange_whose_program_fails_is_retried_failed_and_dropped(run: Run, place: Path) -> None:
    run("inbox", "receive", "main", "first")
    failed = run("inbox", "process", "main", *answer("sys.exit(3)"))
    assert (failed.exit_code, "ended with code 3" in failed.stderr) == (1, True)
    assert run("inbox", "retry", "main", "2").stdout == "3\n"
    assert run("inbox", "fail", "main", "3", "--error", "nobody is there").stdout == "3\n"
    again = run("inbox", "retry", "main", "2")
    assert (again.exit_code, "taken up again before" in again.stderr) == (2, True)
    unasked = run("inbox", "drop", "main", "1")
    assert (unasked.exit_code, "give --yes" in unasked.stderr) == (2, True)
    dropped: Any = json.loads(run("inbox", "drop", "main", "1", "--yes", "--reason", "spam", "--json").stdout)
    assert (dropped["content"], dropped["withheld"]) == (None, True)
    with trails.open(place) as store:
        assert contents(store) == ["hello"]
        assert [exchange.state for exchange in Ledger(store).exchanges("main")] == ["failed", "failed"]
        assert store.verify().ok


def test_a_program_that_is_not_there_fails_the_exchange_by_name(run: Run) -> None:
    run("inbox", "receive", "main", "first")
    missing = run("inbox", "process", "main", "--", "no-such-program")
    assert (missing.exit_code, "'no-such-program' cannot be run" in missing.stderr) == (1, True)


@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning")  # a process that dies
def test_limit_and_interrupted_say_what_process_takes_up(run: Run, place: Path) -> None:
    for text in ("first", "second"):
        run("inbox", "receive", "main", text)
    done = run("inbox", "process", "main", "--limit", "1", "--json", *answer("print('ok')"))
    assert [exchange["events"] for exchange in json.loads(done.stdout)["exchanges"]] == [[1]]
    with trails.open(place) as store:
        ledger = Ledger(store)
        exchange = ledger._claim("main")
        assert exchange is not None
        Running(store, ledger._book, ledger._now, exchange, ledger.events("main")[1:2]).begin()  # and its process dies
    refused = run("inbox", "process", "main", *answer("print('ok')"))
    assert (refused.exit_code, "was under way when its process died" in refused.stderr) == (1, True)
    assert run("inbox", "process", "main", "--interrupted", "retry", *answer("print('ok')")).exit_code == 0
    with trails.open(place) as store:
        assert contents(store) == ["hello", "first", "ok", "second", "ok"]
