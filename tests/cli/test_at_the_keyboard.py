"""What people do at a terminal: pages they leave early, keys they press at the wrong time, words in the wrong place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

import trails
from tests.support.commands import Run, ok, ok_json
from tests.support.terminals import environment, on_terminal

LONG = "an-id-that-somebody-chose-and-that-no-beginning-can-stand-for-in-a-list"


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(place, create=True, durability="process") as store:
        for name in ("plan", "other", LONG):
            session = store.create(id=name)
            session.append("user", f"about {name}", author="ann")
            session.persist()
    return place


def spawn(place: Path, *words: str, **changes: str) -> pexpect.spawn[bytes]:
    """Start a command on a terminal of 24 lines and 80 columns."""
    return pexpect.spawn(
        sys.executable,
        ["-m", "trails", "--store", str(place), *words],
        env=environment({"TERM": "xterm-256color"} | changes),
        dimensions=(24, 80),
        timeout=20,
    )


# --- what comes next


def test_the_hint_of_what_to_type_next_names_the_store_that_was_named(place: Path, run: Run) -> None:
    hint = run("list", "-n", "1", store=place).stderr
    assert f"--store {place}" in hint
    words = hint.removeprefix("there is more: trails ").split()
    assert len(ok(run(*words)).splitlines()) == 2
    assert "--store" not in run("list", "-n", "1").stderr


@pytest.mark.parametrize("other", ["tokens", "turns", "activity"])
def test_a_cursor_of_a_list_in_another_order_is_refused(run: Run, other: str) -> None:
    cursor = ok_json(run("list", "-n", "1", "--json"))["cursor"]
    assert len(ok_json(run("list", "--json", "--cursor", cursor))["sessions"]) == 2
    for options in ([], ["--json"]):
        refused = run("list", *options, "--sort", other, "--cursor", cursor)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "another order" in refused.stderr


def test_tab_separated_values_that_were_cut_say_so_on_stderr(run: Run) -> None:
    cut = run("stats", "--by", "principal", "--tsv", "-n", "1")
    assert (len(ok(cut).splitlines()), cut.stderr) == (2, "")
    cut = run("stats", "--by", "session", "--tsv", "-n", "1")
    assert (len(ok(cut).splitlines()), cut.stderr) == (2, "there is more: 1 of 3 are shown; -n 3 shows all\n")


def test_two_formats_of_a_search_are_refused(run: Run) -> None:
    assert run("search", "about", "--tsv", "--json").exit_code == 2


def test_a_dump_to_stdout_is_refused_and_no_file_of_that_name_is_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("store", "dump", "-").exit_code == 2
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("age", ["0d", "0h", "0s"])
def test_all_that_is_older_than_now_may_be_pruned(run: Run, age: str) -> None:
    found = ok_json(run("store", "prune", "--older-than", age, "--dry-run", "--json"))
    assert sorted(found["sessions"]) == sorted(["plan", "other", LONG])


# --- pages


def test_what_is_said_beside_a_page_is_said_once_the_page_is_left(place: Path, tmp_path: Path) -> None:
    shown = spawn(place, "list", "-n", "2", TRAILS_PAGER="sh -c 'cat; echo LEFT'")
    shown.expect("LEFT")
    shown.expect("there is more")
    shown.expect(pexpect.EOF)
    shown.close()
    assert shown.exitstatus == 0


def test_a_pager_that_only_a_shell_can_read_is_run_by_one(place: Path) -> None:
    shown = on_terminal(place, "list", "-n", "1", TRAILS_PAGER="cat | wc -l")[1]
    assert shown.split()[0] == "3"  # a heading, the id on a line of its own, and its row


@pytest.mark.slow
def test_a_pager_is_not_started_for_nothing(place: Path, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    code, shown = on_terminal(place, "search", "nowhere to be found", TRAILS_PAGER=f"sh -c 'touch {mark}; cat'")
    assert (code, shown.strip()) == (1, "nothing found")
    assert not mark.exists()
    on_terminal(place, "list", TRAILS_PAGER=f"sh -c 'touch {mark}; cat'")
    assert mark.exists()


@pytest.mark.slow
def test_ctrl_c_while_a_query_computes_ends_it_with_one_line(place: Path) -> None:
    with trails.open(place) as store:
        session = store.create(id="many")
        for number in range(150):
            session.append("user", str(number))
        session.persist()
    slow = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
    shown = spawn(place, "query", slow, TRAILS_PAGER="less")
    with pytest.raises(pexpect.TIMEOUT):
        shown.expect("END", timeout=1.5)
    shown.sendintr()
    shown.expect("interrupted")
    shown.expect(pexpect.EOF)
    shown.close()
    assert shown.exitstatus == 130


def test_no_pager_may_be_said_on_either_side_of_the_command(run: Run) -> None:
    assert ok(run("list", "--no-pager")) == ok(run("--no-pager", "list"))
    assert "--no-pager" not in ok(run("list", "--help"))


# --- questions


@pytest.mark.parametrize(
    ("key", "code", "said"), [("\x03", 130, "error: interrupted"), ("\x04", 1, "nobody answered; nothing was done")]
)
def test_a_question_that_is_left_stays_on_its_line_and_nothing_is_done(
    place: Path, key: str, code: int, said: str
) -> None:
    shown = spawn(place, "delete", "plan")
    shown.expect(r"\[y/N\]: ")
    shown.send(key)
    shown.expect(pexpect.EOF)
    shown.close()
    before = shown.before
    assert isinstance(before, bytes)
    assert before.decode().replace("^C", "").replace("^D\b\b", "").splitlines()[1].endswith(said)
    assert shown.exitstatus == code
    with trails.open(place) as store:
        assert "plan" in store


# --- an owner that ended badly


def test_a_store_whose_owner_was_killed_is_verified_whole(place: Path, run: Run) -> None:
    kill = (
        "import os, signal, sys, trails\n"
        "store = trails.open(sys.argv[1]); store.create(id='last').persist(); store.store.flush()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", kill, str(place)], check=False, env=environment({}))
    verified = ok(run("verify"))
    assert "4 sessions" in verified
    assert "elsewhere" not in verified


# --- widths


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_list_fits_the_terminal_and_an_id_too_wide_for_its_column_stands_whole_on_its_own_line(
    place: Path, run: Run, width: int
) -> None:
    shown = on_terminal(place, "list", COLUMNS=str(width), NO_COLOR="1")[1]
    lines = shown.splitlines()
    assert LONG in [line.split("  ")[0] for line in lines]
    room = [line for line in lines if line.startswith("no room for ")]
    assert all(len(line) <= width for line in lines if line not in (LONG, *room))
    assert len(room) == (width == 40)
    assert lines[0].split()[:2] == ["session", "turns"]


# --- completion


def completed(*words: str, place: Path) -> list[str]:
    line = " ".join(["trails", *words])
    asked = {"_TRAILS_COMPLETE": "bash_complete", "COMP_LINE": line, "TRAILS_STORE": str(place)}
    found = subprocess.run(
        [sys.executable, "-m", "trails"], env=environment(asked), capture_output=True, text=True, check=False
    )
    return [each.removeprefix("plain,") for each in found.stdout.splitlines()]


def test_names_of_commands_complete_behind_help(place: Path) -> None:
    assert completed("help", "inbo", place=place) == ["inbox"]
    assert "receive" in completed("help", "inbox", "rec", place=place)


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="there is no bash here")  # noqa: PTH110 - one look
@pytest.mark.parametrize(
    ("typed", "reply"),
    [
        ('"my', "my label"),
        ('"my l', "my label"),
        ('"my ', "my label"),
        ("'my", "my label"),
        ("my", "my\\ label"),
        ('"a$', "a\\$b c"),
    ],
)
@pytest.mark.sample(2)
def test_bash_completes_within_quotes_what_they_leave_as_it_is(place: Path, typed: str, reply: str) -> None:
    with trails.open(place) as store:
        for label in ("my label", "a$b c"):
            store.create(label=label).persist()
    script = ok_script(place)
    line = f"trails show {typed}"
    ask = '_trails_completion trails; printf "%s\\n" "${COMPREPLY[@]}"'
    asked = f"{script}\nCOMP_LINE={quoted(line)}; COMP_POINT=${{#COMP_LINE}}; {ask}"
    bin_ = place.parent / "bin"
    bin_.mkdir()
    (bin_ / "trails").write_text(f'#!/bin/sh\nexec {sys.executable} -m trails "$@"\n')
    (bin_ / "trails").chmod(0o755)
    found = subprocess.run(
        ["/bin/bash", "--norc", "-c", asked],
        env=environment({"TRAILS_STORE": str(place), "PATH": f"{bin_}:{os.environ['PATH']}"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.splitlines() == [reply], found.stderr


def ok_script(place: Path) -> str:
    return subprocess.run(
        [sys.executable, "-m", "trails", "completion", "bash"],
        env=environment({"TRAILS_STORE": str(place)}),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.parametrize("width", ["0", "-3", "wide"])
def test_a_width_that_is_none_is_that_of_a_terminal_and_hides_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert "about" in ok(run("show", "plan"))


def test_a_fork_that_is_refused_says_so_on_one_line(place: Path) -> None:
    line = [sys.executable, "-m", "trails", "fork", "plan", "--id", "other"]
    asked = subprocess.run(
        line, check=False, env=environment({"TRAILS_STORE": str(place)}), capture_output=True, text=True
    )
    assert asked.returncode == 2
    assert [words.split(";")[0] for words in asked.stderr.splitlines()] == ["error: there is a session 'other' already"]
