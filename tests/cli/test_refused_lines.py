"""Command lines that are refused: with one line, the exit code for what was wrong, and what to do instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the session `plan` of two turns; its log is signed by `k`, whose public key is in `k.pub`."""
    path = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(path, create=True, durability="process") as store:
        plan = store.create(id="plan")
        plan.append("user", "Plan a trip")
        plan.append("assistant", "Where to?")
        plan.persist()
        store.create(id="gone").persist()
        store.delete("gone")
    return path


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.pub").write_text("example.com/trails+0123abcd+AAAA\n", "utf-8")
    Path("no.keys").write_text("\n", "utf-8")


LINES = (
    ("compact plan --summary nofile", "nofile cannot be read: No such file"),
    ("query nosuch.rq", "nosuch.rq cannot be read: No such file"),
    ("proof make plan 0 --checkpoint k.pub", "k.pub is no checkpoint (the note is malformed"),
    ("verify --checkpoint k.pub --verifier k.pub", "`trails proof checkpoint -o FILE` writes one"),
    ("cosign k.pub --key k.pub --verifier no.keys", "'no.keys' holds no verifier key"),
    ("verify --witness no.keys", "'no.keys' holds no verifier key"),
    ("show nosuch", "there is no session, label or tag 'nosuch'"),
    ("tag nosuch", "there is no tag 'nosuch'"),
    ("note --remove nosuch", "nosuch"),
    ("spawn-tree --stuck nan", "'nan' is no number that can be compared"),
    ("keys list --active nan", "'nan' is no number that can be compared"),
    ("keys list --active inf", "'inf' is no number that can be compared"),
    ("import --final --growing k.pub", "--final and --growing exclude each other"),
    ("compare plan --json --format csv", "--json and --format csv are two formats; give one"),
    ("query forks-of -p session=plan --json --format csv", "--json and --format csv are two formats; give one"),
    ("query forks-of -p session=nosuch", "nosuch"),
    ("query forks-of -p index=9223372036854775808", "no parameter 'index'"),
    ("query influences -p session=plan -p index=9223372036854775808", "it is over 9,223,372,036,854,775,807"),
    ("dump store.trails/in.gz", "store.trails/in.gz lies in the store's own folder"),
    ("export plan --format trig -o store.trails/x.trig", "store.trails/x.trig lies in the store's own folder"),
    ("init --store k.pub/x", "part of that path is a file; name a folder"),
)


@pytest.mark.parametrize(("line", "told"), LINES)
def test_wrong_input_ends_with_2_and_says_what_is_wrong_with_it(run: Run, line: str, told: str) -> None:
    ended = run(*line.split())
    assert (ended.exit_code, ended.stdout) == (2, ""), ended.stderr
    (error,) = [each for each in ended.stderr.splitlines() if each.startswith("error:")]
    assert told in error


def test_a_session_that_was_deleted_may_still_be_asked_about(run: Run) -> None:
    assert ok(run("query", "forks-of", "-p", "session=gone", "--format", "csv")).count("\n") == 1


def test_a_diff_that_goes_to_a_dash_goes_to_stdout(run: Run, tmp_path: Path) -> None:
    written = ok(run("diff", "plan@1", "plan", "--format", "markdown", "-o", "-"))
    assert written.startswith("#")
    assert not (tmp_path / "-").exists()


def test_a_store_that_is_not_there_is_not_told_of_options_that_the_command_has_not(run: Run) -> None:
    ended = run("list", store="nowhere")
    assert ended.exit_code == 2
    assert "--create" not in ended.stderr
    assert "`trails init` makes one" in ended.stderr


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("list >&-", 1, "error: stdout is closed"),
        ("verify >&-", 1, "error: stdout is closed"),
        ("append plan user <&-", 2, "error: stdin is closed"),
        ("query - <&-", 2, "error: stdin is closed"),
        ("delete plan <&-", 2, "error: "),
        ("show nosuch 2>&-", 2, ""),
        ("list 2>&-", 0, ""),
    ],
)
@pytest.mark.sample(3)
def test_a_closed_stream_ends_in_one_line(place: Path, line: str, code: int, told: str) -> None:
    command = f"{sys.executable} -m trails --store {place} {line}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.startswith(told)
    assert len(ended.stderr.splitlines()) == (1 if told else 0)
