"""What a shell is offered in the place of a name that is not whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

import trails
from tests.support.commands import invoke, ok
from tests.support.terminals import environment
from trails.cli import main
from trails.cli.completion import _FIXED, Bash
from trails.compare.comparison import COLUMNS
from trails.exchange.file_import import EXPORT_FORMATS
from trails.exchange.formats import all_formats
from trails.rdf import query_files
from trails.rows.session_lists import MOST_NAMES

Offered = Callable[..., list[str]]


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two sessions, one of a label with a space and of an id with a colon, and a tag."""
    path = tmp_path_factory.mktemp("filled") / "store"
    with trails.open(path, create=True, durability="process") as store:
        plan = store.create(id="pi:plan", label="my trip", principal="alice", agent="planner", meta={"project": "alps"})
        plan.append("assistant", "Where to?", model="m-1", usage={"input_tokens": 1})
        plan.persist()
        store.create(id="other", principal="bob").persist()
        store.tags.add("start", "pi:plan@1")
    return path


@pytest.fixture
def offered(place: Path, monkeypatch: pytest.MonkeyPatch) -> Offered:
    monkeypatch.setenv("TRAILS_STORE", str(place))

    def ask(*words: str) -> list[str]:
        return [each.value for each in Bash(main, {}, "trails", "_").get_completions([*words[:-1]], words[-1])]

    return ask


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("show", ""), ["my trip", "other", "pi:plan", "start"]),
        (("show", "pi:"), ["pi:plan"]),
        (("diff", "other", "st"), ["start"]),
        (("verify", ""), ["my trip", "other", "pi:plan"]),
        (("tag", ""), ["start"]),
        (("list", "--principal", ""), ["alice", "bob"]),
        (("list", "--agent", "pl"), ["planner"]),
        (("query", "token-usage-by-m"), ["token-usage-by-model"]),
        (
            ("compare", "pi:plan", "--columns", "turns,to"),
            [f"turns,{name}" for name in COLUMNS if name.startswith("to")],
        ),
        (("import", "--format", "ch"), ["chatgpt"]),
        (("query", "--format", "c"), ["csv"]),
        (("sho",), ["show"]),
    ],
)
def test_names_of_what_there_is_are_offered(offered: Offered, words: tuple[str, ...], names: list[str]) -> None:
    assert offered(*words) == names


def test_what_came_since_is_offered_too(place: Path, offered: Offered) -> None:
    assert offered("show", "n") == []
    with trails.open(place) as store:
        store.create(id="new").persist()
    assert offered("show", "n") == ["new"]


def test_a_store_that_another_process_has_open_offers_what_there_is(place: Path, offered: Offered) -> None:
    assert offered("show", "o") == ["other"]
    holder = "import sys, trails\nstore = trails.open(sys.argv[1]); store.create(id='odd').persist()\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment({})
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert offered("show", "o") == ["odd", "other"]
        process.communicate(b"\n")


def test_nothing_is_offered_and_made_where_no_store_is(offered: Offered, tmp_path: Path) -> None:
    assert offered("--store", str(tmp_path / "none"), "show", "") == []
    assert not (tmp_path / "none").exists()


def test_of_many_the_first_and_the_last_are_offered_so_that_no_more_is_inserted_than_all_share(
    place: Path, offered: Offered
) -> None:
    with trails.open(place) as store:
        for number in range(150):
            store.create(id=f"run-{number:03}").persist()
    names = offered("show", "run")
    assert len(names) == MOST_NAMES + 1  # the 100 latest, of which the last is one, and the first
    assert (names[0], names[1], names[-1]) == ("run-000", "run-050", "run-149")


def test_names_that_are_written_down_are_those_that_there_are() -> None:
    assert set(_FIXED["import-format"]) == {*all_formats(), "prov", "ro-crate"}
    assert set(_FIXED["export-format"]) == set(EXPORT_FORMATS)
    assert list(_FIXED["column"]) == list(COLUMNS)
    assert query_files.names() == list(query_files.catalogue())


BASH = """
trails() { "$PYTHON" -m trails "$@"; }
eval "$(trails completion bash)"
COMP_LINE="trails show $1" COMP_POINT=1000 COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
_trails_completion trails
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(("typed", "reply"), [("oth", "other"), ("pi:pl", "plan"), ("my\\ t", "my\\ trip")])
@pytest.mark.sample(1)
def test_bash_leaves_what_stands_before_a_colon_and_quotes_spaces(place: Path, typed: str, reply: str) -> None:
    changes = {"TRAILS_STORE": str(place), "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", typed],
        capture_output=True,
        text=True,
        check=False,
        env=environment(changes),
    )
    assert (done.stdout.split("\n"), done.stderr) == ([reply, ""], "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_offers_names(place: Path, tmp_path: Path) -> None:
    program = tmp_path / "trails"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m trails "$@"\n')
    program.chmod(0o700)
    changes = {"TRAILS_STORE": str(place), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = 'trails completion fish | source; complete -C "trails show pi:"'
    command = ["fish", "--no-config", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(changes))
    assert done.stdout == "pi:plan\n"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(("typed", "reply"), [("oth", "other"), ("pi:", "pi:plan"), ("my", r"my\\ trip")])
def test_zsh_completes_names(place: Path, tmp_path: Path, typed: str, reply: str) -> None:
    program = tmp_path / "trails"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m trails "$@"\n')
    program.chmod(0o700)
    changes = {"TRAILS_STORE": str(place), "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "dumb"}
    shell = pexpect.spawn("zsh", ["-f"], env=environment(changes), timeout=20, dimensions=(24, 120), encoding="utf-8")
    shell.sendline('autoload -Uz compinit && compinit -u -D; eval "$(trails completion zsh)"; echo READ""Y')
    shell.expect("READY\r")
    shell.send(f"trails show {typed}\t")
    shell.expect(reply)
    shell.close(force=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_one_that_it_reads(shell: str) -> None:
    text = ok(invoke("completion", shell))
    assert "_TRAILS_COMPLETE" in text
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=text, text=True, check=False, capture_output=True).stderr == ""
