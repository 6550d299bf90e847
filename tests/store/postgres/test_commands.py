"""The command line works on a store in PostgreSQL as on a folder, and says what is wrong with a server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import trails
from tests.support.clusters import Cluster
from tests.support.commands import Run, invoke
from trails.store.postgres import upkeep
from trails.store.postgres.figures import Settings
from trails.store.postgres.server import Server


@pytest.fixture
def run(url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("TRAILS_STORE", url)
    return invoke


def test_a_store_is_made_by_its_url_filled_read_and_upgraded(run: Run, url: str) -> None:
    assert "holds 0 sessions" in run("init", url).stderr
    assert run("create", "--id", "plan").exit_code == 0
    assert run("append", "plan", "user", "Plan a trip").exit_code == 0
    assert "plan" in run("list", "--json").stdout
    assert "plan" in run("search", "trip", "--json").stdout
    assert run("verify").exit_code == 0
    assert json.loads(run("store", "upgrade", "--json").stdout)["after"] == 1


def test_a_name_that_is_no_store_yet_is_told_with_how_to_make_one(run: Run) -> None:
    for command in (["list"], ["store", "upgrade"]):
        done = run(*command)
        assert (done.exit_code, "trails init" in done.stderr) == (2, True)


def test_doctor_says_what_is_well_and_what_is_not(run: Run, url: str, cluster: Cluster) -> None:
    run("init", url)
    checks = {each["name"]: each for each in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert {name for name, each in checks.items() if each["ok"]} >= {"server", "clock", "tables", "log", "cache"}
    # The server of the tests runs without fsync.
    assert "fsync is off" in checks["durability"]["message"]
    assert run("doctor").exit_code == 1


@pytest.mark.parametrize("words", [("doctor",), ("init",), ("list",), ("store", "upgrade"), ("tail",)])
@pytest.mark.parametrize("given", ["postgresql+psycopg://me:hunter2@h/db?store=a", "me:hunter2@h/db"])
def test_no_command_shows_the_password_of_an_address_that_is_none_or_makes_a_folder_of_it(
    given: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke(*words, store=given)
    assert (done.exit_code, "hunter2" in done.stdout + done.stderr, list(tmp_path.iterdir())) == (2, False, [])


def test_doctor_says_that_a_server_is_away_and_shows_no_password(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILS_STORE", "postgresql://me:hunter2@localhost:1/x?store=a")
    done = run("doctor")
    assert done.exit_code == 1
    assert "hunter2" not in done.stdout + done.stderr
    assert "start the server" in done.stdout


def test_doctor_says_that_a_clock_is_wrong_and_that_an_erasure_is_not_ended(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(url, create=True) as store:
        session = store.create(id="chat")
        session.append("user", "secret")
        session.persist()
        with monkeypatch.context() as patch:
            patch.setattr(Server, "rewrite", lambda *_, **__: 0)
            store.redact("chat", 0)
    late = datetime.now(UTC) - timedelta(minutes=2)
    monkeypatch.setattr(upkeep, "settings_of", lambda _: Settings("15", True, True, True, late))
    checks = {each.name: each for each in upkeep.look(url)}
    assert [name for name, each in checks.items() if not each.ok] == ["clock", "log"]
    assert "120." in checks["clock"].message


def test_tail_follows_what_another_process_commits(run: Run, url: str) -> None:
    run("init", url)
    run("create", "--id", "plan")
    command = [sys.executable, "-m", "trails", "tail", "-f", "--json"]
    environment = {**os.environ, "TRAILS_STORE": url}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["kind"] == "create"
        run("append", "plan", "user", "Plan a trip")
        assert json.loads(tail.stdout.readline())["kind"] == "turns"
        tail.send_signal(signal.SIGINT)
        try:
            assert tail.wait(30) == 0
        finally:
            tail.kill()
