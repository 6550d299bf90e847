"""Command lines that are refused: with one line, the exit code for what was wrong, and what to do instead."""

from __future__ import annotations

import shlex
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
    # --- words of other programs, and arguments that are left out or too many
    ("foo", "`trails help` lists all"),
    ("lst", "did you mean 'list'?"),
    ("status", "did you mean 'info'"),
    ("clone x y", "did you mean 'copy' or 'pull'?"),
    ("reset --hard", "did you mean 'fork'?"),
    ("sql 'select 1'", "did you mean 'query'"),
    ("mv a b", "did you mean 'label'?"),
    ("gui", "did you mean 'ui'?"),
    ("version", "did you mean '--version'?"),
    ("-v", "did you mean '--version'?"),
    ("--json list", "before a command: it goes after its name"),
    ("--limit 3 list", "before a command: it goes after its name"),
    ("inbox ls", "trails inbox has no command 'ls' (did you mean 'list'?)"),
    ("show", "it is used as `trails show trip`"),
    ("show plan@9", "@0 to @2 is possible"),
    ("show --turns 1 plan", "did you mean '--range'?"),
    ("list plan", "it is used as `trails list`"),
    ("list --limt 3", "did you mean '--limit'?"),
    ("list --max-count 3", "did you mean '--limit'?"),
    ("list --limit 0", "0 is not in the range 1<=x<=1000"),
    ("list --limit many", "'many' is not a valid integer"),
    ("list --since 2026-13-01", "write 2026-05-01"),
    ("list --since 7days", "how long ago: 30m, 12h, 7d, 2w"),
    ("list --store", "requires an argument"),
    ("search", "needs a text, a tool, a role, an author or a model"),
    ("search ''", "is empty; leave it out to find every turn"),
    ("search a b", "it is used as `trails search 'alias'`"),
    ("fork", "it is used as `trails fork trip`"),
    ("fork plan 1", "`trails fork trip`"),
    ("fork plan@9", "@0 to @2 is possible"),
    ("fork plan --at two", "'two' is not a valid integer"),
    ("fork plan --at 9", "9"),
    ("append plan", "it is used as `trails append trip user 'Plan a trip'`"),
    ("append plan user", "is empty: give it a text"),
    ("append plan usr hello", "did you mean 'user'?"),
    ("append plan 'Hello there' user", "The role comes before the content"),
    ("create a b", "it is used as `trails create --id trip --label trip`"),
    ("create --id plan", "plan"),
    ("label plan", "give either a label or --clear"),
    ("label plan ''", "label must have 1 to 64 characters"),
    ("delete", "it is used as"),
    ("delete plam", "did you mean 'plan'?"),
    ("diff plan", "it is used as"),
    ("show plan plan", "it is used as"),
    ("diff plan plan plan", "names each session once"),
    ("compare", "name a session, or --meta NAME=VALUE"),
    ("compare plan --metric x", "did you mean '--method'?"),
    ("tag", "it is used as"),
    ("score plan", "give REF, NAME and VALUE"),
    ("redact plan", "name a SESSION and the INDEX of a turn"),
    ("redact plan first", "first"),
    ("query", "it is used as"),
    ("query nosuch", "--search finds one by what it answers"),
    ("query transcripts", "did you mean 'transcript' or"),
    ("query 'SELECT * WHERE {'", "it ends too early, at line 1"),
    ("query 'DELETE WHERE { ?s ?p ?o }'", "begins an update, and queries only read"),
    ("export plan", "Missing option '--format'; it is used as"),
    ("export plan --format docx", "there are: pi"),
    ("import", "it is used as"),
    ("import nosuch.jsonl", "'nosuch.jsonl' does not exist"),
    ("init .", "is not empty; name another"),
    ("push plan", "it is used as `trails push trip --to"),
    ("pull", "it is used as"),
    ("store backup", "it is used as `trails store backup"),
    ("backup", "`trails store backup"),
    ("replay plan --to 1", "did you mean '--up-to'?"),
    ("rerun plan", "it is used as"),
    ("serve --port 99999", "99999 is not in the range 0<=x<=65535"),
    ("guide pyhton", "did you mean 'python'?"),
    ("help frok", "did you mean 'fork'?"),
    ("verify --fats", "No such option '--fats'"),
    ("doctor now", "it is used as `trails doctor`"),
    ("blame README.md:1", "no session has a file 'README.md' on record"),
    ("push plan --to nowhere", "(`trails init --store` makes one)"),
    ("files plan nosuch.py", "has no file 'nosuch.py' then"),
    ("list --format json", "did you mean '--json'?"),
    ("--store k.pub list", "is a file, not a Trails store; name a folder"),
    ("--store nosuch list", "`trails init` makes one"),
)


@pytest.mark.parametrize(("line", "told"), LINES)
def test_wrong_input_ends_with_2_and_says_what_is_wrong_with_it(run: Run, line: str, told: str) -> None:
    ended = run(*shlex.split(line))
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
