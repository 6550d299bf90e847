"""The command line: what it prints, where, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pyoxigraph as ox
import pytest
from click.testing import Result
from hypothesis import example, given
from hypothesis import strategies as st

import trails
from tests.support.commands import Run, invoke, ok, ok_json
from tests.support.machines import Size, examples
from tests.support.sessions import say
from tests.support.terminals import environment, on_terminal
from trails import Repository
from trails.cli import main
from trails.cli.program import MEANT
from trails.display.terminal_text import clean, one_line, shorten
from trails.model import iris
from trails.model.values import Finding, VerifyReport
from trails.rdf import vocab
from trails.store.contract import Change

REQUIRED = {
    *("demo", "init", "import", "export", "list", "show", "tree", "branches", "replay"),
    *("fork", "label", "detach", "flatten", "delete", "query", "verify", "info"),
}
COMMANDS = sorted(main.every())
CATALOG = vocab.CATALOG


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store: `plan` (s1) with three turns, its fork `alt` (s2) at 1, and s3, which s1 spawned."""
    path = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(path, create=True, durability="process") as store:
        plan = store.create(id="s1", label="plan", principal="alice", agent="planner", system="Be brief")
        plan.append("user", "Plan a trip")
        plan.append(
            "assistant", [{"type": "text", "text": "Let me look."}, _call("t1", "look", {"at": "map"})], model="m-1"
        )
        plan.append("tool", "mountains", tool_call_id="t1")
        plan.persist()
        alt = plan.fork(at=1, id="s2", label="alt", principal="bob")
        alt.append("assistant", "How long?")
        alt.append("user", "A week")
        alt.persist()
        helper = store.create(id="s3", spawned_by="s1", agent="helper")
        helper.append("user", "Find a map")
        helper.persist()
    return path


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@pytest.fixture
def opened(place: Path) -> Iterator[Repository]:
    with trails.open(place) as store:
        yield store


def error_line(result: Result, code: int) -> str:
    """The one line on stderr with which a failed run ends."""
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def program(*arguments: str, cwd: Path, **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line as a program of its own."""
    command = [sys.executable, "-m", "trails", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, env=environment(changes))


# --- names


def test_a_turn_is_one_word_with_a_number_sign_or_an_at_or_two_words(run: Run) -> None:
    for turn in (["plan#1"], ["plan@1"], ["plan", "1"]):
        assert run("note", *turn, f"see {turn[-1]}#2", "--by", "bob#3").exit_code == 0
    assert [(note["index"], note["text"]) for note in ok_json(run("notes", "plan@1", "--json"))["notes"]] == [
        (1, "see plan#1#2"),
        (1, "see plan@1#2"),
        (1, "see 1#2"),
    ]
    assert "there are no notes on turn 2" in run("notes", "plan#2").stderr
    assert run("redact", "plan#2", "--yes").exit_code == 0
    assert "(redacted)" in ok(run("show", "plan", "--range", "2"))


def test_an_id_that_ends_in_an_at_and_a_number_stays_an_id_where_an_index_stands_behind_it(run: Run) -> None:
    for name in ("plan@2", "desk@2"):
        ok(run("create", "--id", name))
        ok(run("append", name, "user", "Hello"))
        ok(run("note", name, "0", "A desk"))
    assert "A desk" in ok(run("notes", "plan@2", "0"))


def test_turns_are_picked_by_either_sign(run: Run) -> None:
    ok(run("cherry-pick", "plan#0", "--onto", "alt"))
    ok(run("cherry-pick", "plan@0", "--onto", "alt"))
    assert [turn["content"] for turn in ok_json(run("show", "alt", "--json"))["turns"]] == [
        *("Plan a trip", "How long?", "A week", "Plan a trip", "Plan a trip")
    ]


# --- help


def test_the_first_screen_shows_what_people_use_most_and_fits_a_terminal() -> None:
    lines = ok(invoke("--help")).splitlines()
    text = " ".join(map(str.strip, lines))
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    listed = " ".join(line.split()[0] for line in lines if re.match(r"  [a-z]+ {2,}[A-Z]", line))
    assert listed == "init import create append list show log search fork diff compare query verify"
    assert "inbox, runs, keys, proof, purpose, register, incident, hold, retention, token, store" in text


def test_help_by_itself_lists_every_command() -> None:
    text = ok(invoke("help"))
    assert [name for name in COMMANDS if not re.search(rf"(?m)^  {name}  ", text)] == []
    assert set(COMMANDS) >= REQUIRED


def test_help_explains_a_command_as_its_own_option_does() -> None:
    assert ok(invoke("help", "fork")) == ok(invoke("fork", "--help"))
    assert ok(invoke("help", "inbox", "receive")) == ok(invoke("inbox", "receive", "--help"))
    assert "no command 'frok' (did you mean 'fork'?)" in error_line(invoke("help", "frok"), 2)


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("grep", "'search'"),
        ("sessions", "'list'"),
        ("LS", "'list'"),
        ("cat", "'show'"),
        ("rm", "'delete'"),
        ("save", "'append' or 'import'"),
        ("commit", "'append' or 'import'"),
        ("branch", "'branches' or 'fork'"),
        ("status", "'info' or 'verify'"),
        ("clone", "'copy' or 'pull'"),
        ("fetch", "'copy' or 'pull'"),
        ("gc", "'store vacuum'"),
        ("vacum", "'vacuum'"),  # which says where it is now
        ("version", "'--version'"),
    ],
)
def test_a_word_of_another_program_is_answered_with_the_command_that_does_the_same(word: str, command: str) -> None:
    assert f"there is no command {word!r} (did you mean {command}?)" in error_line(invoke(word), 2)


def test_words_of_other_programs_name_commands_that_there_are_and_are_none_themselves() -> None:
    words = {each for words in MEANT.values() for each in words}
    assert words - {*main.every(), *main.places} == {"--version"}
    assert set(MEANT) & set(main.places) == set()


def test_a_group_takes_words_of_other_programs_for_its_own_commands() -> None:
    assert "trails inbox has no command 'ls' (did you mean 'list'?); it has: list" in error_line(
        invoke("inbox", "ls"), 2
    )


def test_help_writes_a_man_page_for_each_command_and_group(tmp_path: Path) -> None:
    said = invoke("help", "--man", str(tmp_path)).stderr
    pages = {file.name: file.read_text() for file in (tmp_path / "man1").iterdir()}
    assert f"wrote {len(pages)} pages" in said
    assert set(pages) >= {f"trails-{name.replace(' ', '-')}.1" for name in COMMANDS} | {"trails.1", "trails-inbox.1"}
    fork = pages["trails-fork.1"].splitlines()
    assert fork[2:5] == [
        "trails\\-fork \\- Fork a session at an index and print the fork's id",
        ".SH SYNOPSIS",
        "\\fBtrails fork\\fR [OPTIONS] REF",
    ]
    assert (
        fork[fork.index("\\fB\\-\\-at INDEX\\fR") + 1]
        == "Share the turns below this index; default: all of REF. [x>=0]"
    )
    assert fork[fork.index(".SH EXAMPLES") + 3] == "  trails fork trip"
    macros = {line.split()[0] for page in pages.values() for line in page.splitlines() if line.startswith((".", "'"))}
    assert macros == {".TH", ".SH", ".PP", ".TP", ".nf", ".fi"}  # no text is taken for one


def test_a_command_that_is_in_a_group_now_works_by_its_old_name_and_says_where_it_went(place: Path, run: Run) -> None:
    done = run("receive", "s3", "Hello")
    assert (done.exit_code, done.stdout) == (0, "1\n")
    assert done.stderr == "note: `trails receive` is now `trails inbox receive`\n"
    assert "Hello" in ok(run("inbox", "list", "s3"))
    assert "trails inbox has no command 's'; it has: list, receive" in error_line(run("inbox", "s"), 2)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_a_command_fits_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = main.every()[name]
    shown = [
        line.strip() for line in ok(invoke(*name.split(), "--help")).partition("Examples:")[2].splitlines() if line
    ]
    assert len(shown) >= 2
    for line in shown:
        words = shlex.split(re.sub(r" < \S+$", "", line))
        start = words[3:] if words[1] == "--store" else words[1:]
        assert start[: len(name.split())] == name.split()
        context = click.Context(command, info_name=name)
        _, rest, _ = command.make_parser(context).parse_args(start[len(name.split()) :])
        assert rest == [] or isinstance(command, click.Group), line


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_has_help(name: str) -> None:
    command = main.every()[name]
    assert command.help
    assert ok(invoke(*name.split(), "--help")).startswith("Usage: ")
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


@pytest.mark.parametrize(
    "name",
    sorted(
        set(COMMANDS)
        - {"audit", "completion", "copy", "guide", "help", "keys policy", "ontology", "store discard"}
        - {"proof check", "proof cosign", "proof receipt", "proof timestamp"}
    ),
)
def test_every_command_that_opens_a_store_takes_its_place(name: str) -> None:
    assert "--store PATH" in ok(invoke(*name.split(), "--help"))


def test_the_help_of_import_and_export_names_every_format() -> None:
    from trails.exchange.file_import import EXPORT_FORMATS
    from trails.exchange.formats import all_formats

    for name, there in (("import", all_formats()), ("export", EXPORT_FORMATS)):
        text = ok(invoke(name, "--help"))
        assert [each for each in there if each not in text] == []


def test_the_help_loads_neither_the_engine_nor_rich(tmp_path: Path) -> None:
    code = (
        "import sys; from trails.cli import main; main(['--help'], standalone_mode=False); "
        "sys.exit(str({'rich', 'pyoxigraph', 'pydantic', 'rdflib'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=environment({}))
    assert done.stderr.decode().strip() == "set()"


def test_the_version_is_the_package_s_and_tells_what_it_runs_on_without_loading_the_engine() -> None:
    code = "import sys; from trails.cli import main; main(['--version'], standalone_mode=False); "
    code += "assert 'pyoxigraph' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment({}))
    first, second = done.stdout.splitlines()
    assert first == f"trails {trails.__version__}"
    assert re.fullmatch(rf"Python 3\.1[\d.]+\S*, pyoxigraph {version('pyoxigraph')}, SQLite 3\.[\d.]+", second)


def test_no_command_shows_the_help_and_is_wrong_usage() -> None:
    result = invoke()
    assert result.exit_code == 2
    assert "Usage: trails" in result.stderr.replace("main", "trails")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_shell_s_script(shell: str) -> None:
    assert "_TRAILS_COMPLETE" in ok(invoke("completion", shell))


# --- where the store is


def test_a_missing_store_is_an_error_and_is_not_created(tmp_path: Path, run: Run) -> None:
    line = error_line(run("list", "--store", str(tmp_path / "typo")), 2)
    assert "there is no Trails store at" in line
    assert "trails init" in line
    assert not (tmp_path / "typo").exists()


def test_a_file_is_no_store(tmp_path: Path, run: Run) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file, not a Trails store" in error_line(run("info", "--store", str(tmp_path / "file")), 2)


def test_init_creates_the_store_that_is_named(tmp_path: Path, run: Run) -> None:
    ok(run("init", "--store", str(tmp_path / "new")))
    assert ok_json(run("list", "--store", str(tmp_path / "new"), "--json")) == {"sessions": [], "cursor": None}


def test_the_command_line_goes_before_the_environment_and_the_command_s_option_before_the_program_s(
    tmp_path: Path, run: Run
) -> None:
    for name in ("a", "b"):
        ok(run("init", "--store", str(tmp_path / name)))
    assert ok_json(run("info", "--json"))["sessions"] == 3
    assert ok_json(run("--store", str(tmp_path / "a"), "info", "--json"))["location"] == str(tmp_path / "a")
    both = run("--store", str(tmp_path / "a"), "info", "--store", str(tmp_path / "b"), "--json")
    assert ok_json(both)["location"] == str(tmp_path / "b")


def test_without_any_word_of_it_the_store_is_dot_trails_here(tmp_path: Path) -> None:
    assert program("init", cwd=tmp_path).returncode == 0
    assert (tmp_path / ".trails" / "trails.db").is_file()


# --- looking


def test_list_prints_a_line_a_session_newest_first(run: Run) -> None:
    lines = ok(run("list")).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["s3", "1"], ["s2", "3"], ["s1", "3"]]
    assert [line.split("\t")[-1] for line in lines[1:]] == ["Find a map", "alt: A week", "plan: Plan a trip"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--principal", "bob"], ["s2"]),
        (["--agent", "helper"], ["s3"]),
        (["--label", "plan"], ["s1"]),
        (["--since", "2020-01-01"], ["s3", "s2", "s1"]),
        (["--until", "2020-01-01T00:00+01:00"], []),
    ],
)
def test_list_filters(run: Run, options: list[str], expected: list[str]) -> None:
    assert [record["id"] for record in ok_json(run("list", "--json", *options))["sessions"]] == expected


def test_a_page_of_the_list_says_how_to_get_the_next_one(run: Run) -> None:
    first = run("list", "--limit", "2")
    assert "s1" not in [line.split()[0] for line in ok(first).splitlines()]
    command = first.stderr.partition("there is more: trails ")[2].strip()
    lines = ok(run(*shlex.split(command))).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["s1"]
    assert [line.split()[0] for line in ok(run("list", "-n", "1", "--page", "2")).splitlines()[1:]] == ["s2"]
    assert "there is no page 4: the list ends with page 3" in error_line(run("list", "-n", "1", "--page", "4"), 2)


def test_the_list_as_json_holds_records_and_a_cursor(run: Run, opened: Repository) -> None:
    expected = [record.to_dict() for record in opened.list()]
    opened.close()
    found = ok_json(run("list", "--json"))
    assert found["cursor"] is None
    assert [
        {name: each[name] for name in record} for each, record in zip(found["sessions"], expected, strict=True)
    ] == expected
    assert [(each["first_prompt"], each["turns"]) for each in found["sessions"][1:]] == [
        ("A week", 3),
        ("Plan a trip", 3),
    ]


def test_a_time_without_a_zone_is_refused(run: Run) -> None:
    assert "has no time zone; write 2026-05-01T12:00Z" in error_line(run("list", "--since", "2026-05-01T12:00"), 2)
    assert "is no time; write 2026-05-01, " in error_line(run("list", "--since", "tomorrow"), 2)


@pytest.mark.parametrize(("when", "expected"), [("1h", 3), ("today", 3), ("7d", 3), ("0m", 0)])
def test_a_time_may_be_how_long_ago(run: Run, when: str, expected: int) -> None:
    assert len(ok_json(run("list", "--since", when, "--json"))["sessions"]) == expected


def test_show_prints_the_transcript_and_names_the_owner_of_inherited_turns(run: Run) -> None:
    text = ok(run("show", "alt"))
    turns = [
        line.split()
        for line in text.splitlines()
        if line.strip()[:1] in ("0", "1", "2") and not line.startswith("  2 0")
    ]
    assert [turn[:2] for turn in turns] == [["0", "user"], ["1", "assistant"], ["2", "user"]]
    assert ["from s1" in " ".join(turn) for turn in turns] == [True, False, False]
    assert "Be brief" in text
    assert "     A week" in text.splitlines()


def test_show_writes_tool_calls_and_their_answers_as_such(run: Run) -> None:
    lines = ok(run("show", "plan")).splitlines()
    assert '     -> look {"at":"map"}' in lines
    assert lines[lines.index("     <- look") + 1] == "     mountains"


def test_show_as_json_holds_the_record_and_whole_turns(run: Run, opened: Repository) -> None:
    loaded = opened.load("s2")
    expected = {
        "session": loaded.record.to_dict(),
        "system": "Be brief",
        "turns": [turn.to_dict() for turn in loaded.turns],
    }
    opened.close()
    assert ok_json(run("show", "alt", "--json")) == json.loads(json.dumps(expected))


def test_show_cuts_long_texts_unless_full(run: Run) -> None:
    ok(run("append", "plan", "user", "\n".join(f"line {number:02}" for number in range(40))))
    ok(run("append", "plan", "user", "x" * 3000))
    short, full = ok(run("show", "plan")), ok(run("show", "plan", "--full"))
    assert "     line 11\n     … 28 more lines; --full shows them\n" in short
    assert "line 12" not in short
    assert f"     {'x' * 2000}\n     … 1,000 more characters; --full shows them\n" in short
    assert "     line 39" in full.splitlines()
    assert f"     {'x' * 3000}" in full.splitlines()


def test_show_sets_thoughts_apart_and_leaves_out_empty_parts(run: Run, opened: Repository) -> None:
    parts = [
        {"type": "text", "text": "\n\n"},
        {"type": "thinking", "thinking": "Two ways.\nThe pass is shut."},
        {"type": "text", "text": "Take the train."},
    ]
    session = opened.load("plan")
    session.append("assistant", parts)
    session.persist()
    opened.close()
    lines = ok(run("show", "plan", "--range", "3")).splitlines()
    assert lines[-3:] == ["     │ Two ways.", "     │ The pass is shut.", "     Take the train."]
    assert lines[-4].startswith("  3  assistant")


def test_show_draws_markdown_on_a_terminal_and_loses_no_word_and_no_line_end(run: Run, place: Path) -> None:
    text = "# Plan\n\nTake **the train**, see <map> and [it](https://a.example)\nor ![a map](b.png)\n\n```python\nx = 1\n```"
    ok(run("append", "plan", "assistant", text))
    ok(run("append", "plan", "tool", "# no heading", "--author", "agent:look"))
    code, shown = on_terminal(place, "--no-pager", "show", "plan", "--range", "3:", COLUMNS="60")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert code == 0
    assert "\x1b[1mthe train\x1b[0m" in shown
    assert "**" not in shown
    assert "```" not in shown
    lines = [line.strip() for line in plain.splitlines()]
    assert "Take the train, see <map> and it (https://a.example)" in lines
    assert "or !a map (b.png)" in lines
    assert "x = 1" in lines
    assert "# no heading" in lines
    assert "     Take **the train**, see <map> and [it](https://a.example)" in ok(run("show", "plan")).splitlines()


def test_show_says_how_many_lines_it_leaves_out_on_a_terminal_too(run: Run, place: Path) -> None:
    ok(run("append", "plan", "tool", "\n".join(f"line {number:02}" for number in range(14)), "--author", "agent:look"))
    shown = on_terminal(place, "--no-pager", "show", "plan", "--range", "3:", NO_COLOR="1")[1]
    assert "line 11" in shown
    assert "line 12" not in shown
    assert "… 2 more lines; --full shows them" in shown


def test_what_a_transcript_holds_cannot_steer_the_terminal(run: Run) -> None:
    ok(run("append", "plan", "user", "red \x1b[31m bell \x07 c1 \x9b2J over \u202e [bold]x[/bold]"))
    for command in ("show", "replay"):
        text = ok(run(command, "plan"))
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
        assert "red ␛[31m bell ␇" in text
        assert "[bold]x[/bold]" in text


def test_tree_draws_forks_and_spawned_sessions(run: Run, opened: Repository) -> None:
    heads = {name: opened.load(name).head[:8] for name in ("s1", "s2", "s3")}
    opened.load("s2").fork(id="s4").persist()
    opened.close()
    assert ok(run("tree")).splitlines() == [
        f"plan (s1)  3 turns  {heads['s1']}  Plan a trip",
        f"├── @1 alt (s2)  3 turns, 2 own  {heads['s2']}  A week",
        f"│   └── @3 s4  3 turns, 0 own  {heads['s2']}  Plan a trip",
        f"└── spawned s3  1 turn  {heads['s3']}  Find a map",
    ]


@pytest.mark.parametrize("width", [30, 40, 60, 90])
def test_a_tree_shows_a_title_behind_a_session_or_below_it_at_any_width(
    run: Run, opened: Repository, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    title = "Find the way over the pass, in snow and in rain"
    say(opened.create(id="over", meta={"title": title}), "Which way?").fork(at=1, id="by-night").persist()
    opened.close()
    monkeypatch.setenv("COLUMNS", str(width))
    lines = ok(run("tree", "over")).splitlines()
    assert max(map(len, lines)) <= width
    shown = " ".join(line.split("  ")[-1].strip("│└─ ") for line in lines)
    assert "Find the way" in shown
    assert ("…" in shown) == (width < 90)


def test_tree_of_a_session_draws_it_and_what_is_below(run: Run, opened: Repository) -> None:
    head = opened.load("s2").head
    opened.close()
    assert ok(run("tree", "alt")).splitlines() == [f"@1 alt (s2)  3 turns, 2 own  {head[:8]}  of s1  A week"]
    assert ok_json(run("tree", "alt", "--json")) == {
        "sessions": [
            {
                "id": "s2",
                "label": "alt",
                "branch": ok_json(run("show", "alt", "--json"))["session"]["branch"],
                "relation": "fork",
                "status": "stored",
                "parent_session_id": "s1",
                "forked_at_index": 1,
                "spawned_by": None,
                "turns": 3,
                "own_turns": 2,
                "head": head,
                "depth": 0,
                "again": False,
            }
        ]
    }


def _node(session_id: str) -> ox.NamedNode:
    return ox.NamedNode(iris.session(session_id))


def test_tree_draws_parents_that_were_deleted_or_are_missing(run: Run, opened: Repository) -> None:
    store = opened.store
    store.commit(Change(remove=store.quads((_node("s1"), vocab.TYPE, vocab.SESSION, CATALOG))))
    opened.close()
    assert ok(run("tree")).splitlines()[0] == "s1  missing"
    with trails.open(str(store.location)) as again:
        again.store.commit(Change(add=[ox.Quad(_node("s1"), vocab.TYPE, vocab.TOMBSTONE, CATALOG)]))
    rows = ok_json(run("tree", "--json"))["sessions"]
    assert [(row["id"], row["status"], row["depth"]) for row in rows] == [
        ("s1", "deleted", 0),
        ("s2", "stored", 1),
        ("s3", "stored", 1),
    ]


def test_tree_draws_sessions_whose_lineage_goes_in_a_circle(run: Run, opened: Repository) -> None:
    circle = [
        ox.Quad(_node("s1"), vocab.PARENT_SESSION, _node("s2"), CATALOG),
        ox.Quad(_node("s1"), vocab.FORKED_AT_INDEX, ox.Literal(0), CATALOG),
    ]
    opened.store.commit(Change(add=circle))
    opened.close()
    rows = ok_json(run("tree", "--json"))["sessions"]
    assert sorted(row["id"] for row in rows if not row["again"]) == ["s1", "s2", "s3"]
    assert [row["id"] for row in rows if row["again"]] == ["s1"]
    assert "goes in a circle" in ok(run("tree"))


def test_branches_lists_the_direct_forks(run: Run) -> None:
    assert [record["id"] for record in ok_json(run("branches", "plan", "--json"))["branches"]] == ["s2"]
    assert ok(run("branches", "alt")) == ""


def test_replay_stops_before_the_index_given(run: Run) -> None:
    turns = ok_json(run("replay", "alt", "--up-to", "2", "--json"))["turns"]
    assert [(turn["index"], turn["role"], turn["content"]) for turn in turns] == [
        (0, "user", "Plan a trip"),
        (1, "assistant", "How long?"),
    ]
    assert "A week" not in ok(run("replay", "alt", "--up-to", "2"))


@pytest.mark.parametrize("name", ["s1", "urn:trails:session:s1", "plan"])
def test_a_session_is_named_by_id_iri_or_label(run: Run, name: str) -> None:
    assert ok_json(run("replay", name, "--json"))["session"] == "s1"


def test_an_unknown_session_is_one_line_with_the_remedy(run: Run) -> None:
    assert "trails list" in error_line(run("show", "nobody"), 2)


# --- changing


def test_create_and_append_print_the_id_and_the_index(run: Run) -> None:
    session_id = ok(run("create", "--label", "new", "--meta", "topic=a=b")).strip()
    assert ok(run("append", "new", "user", "hello")) == "0\n"
    assert ok(run("append", "new", "assistant", stdin="from stdin")) == "1\n"
    shown = ok_json(run("show", "new", "--json"))
    assert shown["session"]["id"] == session_id
    assert shown["session"]["meta"] == {"topic": "a=b"}
    assert [turn["content"] for turn in shown["turns"]] == ["hello", "from stdin"]


@examples(5)
@example("\r\n \x00\u2028 \x1b[31m")
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_any_text_that_goes_in_comes_out(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = ("--store", f"{folder}/s")
        ok(invoke("init", *store))
        ok(invoke("create", "--id", "x", *store))
        ok(invoke("append", "x", "user", *store, stdin=text.encode()))
        turns = ok_json(invoke("replay", "x", "--json", *store))["turns"]
        assert [turn["content"] for turn in turns] == [text]


def test_an_empty_turn_is_refused(run: Run) -> None:
    for arguments in (["append", "plan", "user", ""], ["append", "plan", "user"]):
        assert "empty" in error_line(run(*arguments, stdin=""), 2)
    assert len(ok_json(run("replay", "plan", "--json"))["turns"]) == 3


def test_stdin_that_is_no_utf_8_is_refused(run: Run) -> None:
    assert "stdin is not UTF-8 text" in error_line(run("append", "plan", "user", stdin=b"\xff"), 2)


def test_fork_prints_the_fork_s_id(run: Run) -> None:
    fork_id = ok(run("fork", "plan", "--at", "2", "--principal", "carol", "--meta", "why=test")).strip()
    record = ok_json(run("show", fork_id, "--json"))["session"]
    assert (record["parent_session_id"], record["forked_at_index"]) == ("s1", 2)
    assert (record["principal"], record["meta"]) == ("carol", {"why": "test"})
    assert ok_json(run("fork", "plan", "--json"))["session"]["forked_at_index"] == 3


@pytest.mark.parametrize("at", ["4", "-1", "one"])
def test_a_fork_index_out_of_range_is_wrong_usage_and_makes_nothing(run: Run, at: str) -> None:
    error_line(run("fork", "plan", "--at", at), 2)
    assert ok_json(run("info", "--json"))["sessions"] == 3


def test_a_session_gets_a_label_and_loses_it(run: Run) -> None:
    ok(run("label", "s3", "map finder"))
    assert ok_json(run("replay", "map finder", "--json"))["session"] == "s3"
    ok(run("label", "s3", "--clear"))
    error_line(run("replay", "map finder"), 2)
    error_line(run("label", "s3"), 2)
    assert "belongs to session 's1'" in error_line(run("label", "s3", "plan"), 2)


def test_detach_and_flatten_keep_the_transcript(run: Run) -> None:
    before = ok_json(run("replay", "alt", "--json"))["turns"]
    flat_id = ok(run("flatten", "alt")).strip()
    ok(run("detach", "alt"))
    for name in ("alt", flat_id):
        shown = ok_json(run("show", name, "--json"))
        assert shown["session"]["parent_session_id"] is None
        assert [turn["content"] for turn in shown["turns"]] == [turn["content"] for turn in before]


def test_delete_needs_a_yes_where_nobody_can_be_asked(run: Run) -> None:
    assert "--yes" in error_line(run("delete", "s3"), 2)
    assert ok(run("delete", "s3", "--yes")) == "s3\n"
    assert "was deleted" in error_line(run("show", "s3"), 2)


def test_delete_is_refused_while_others_depend_and_says_what_to_do(run: Run) -> None:
    line = error_line(run("delete", "plan", "--yes"), 1)
    assert "--children cascade" in line
    assert "--children detach" in line
    assert sorted(ok(run("delete", "plan", "--yes", "--children", "cascade")).split()) == ["s1", "s2", "s3"]


# --- asking

_ROLES = (
    "SELECT ?i ?role { GRAPH <urn:trails:session:s1> { ?t trails:index ?i ; trails:role ?role } } ORDER BY DESC(?i)"
)


def test_query_keeps_the_order_of_rows_in_every_format(run: Run) -> None:
    assert run("query", _ROLES, "--format", "csv").stdout_bytes == b"i,role\r\n2,tool\r\n1,assistant\r\n0,user\r\n"
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    found = ok_json(run("query", _ROLES, "--format", "json"))
    assert found["head"] == {"vars": ["i", "role"]}
    assert found["results"]["bindings"][0] == {
        "i": {"type": "literal", "value": "2", "datatype": integer},
        "role": {"type": "literal", "value": "tool"},
    }
    assert [row["role"]["value"] for row in found["results"]["bindings"]] == ["tool", "assistant", "user"]
    assert ok(run("query", _ROLES, "--format", "tsv")).splitlines() == [
        "?i\t?role",
        f'"2"^^<{integer}>\t"tool"',
        f'"1"^^<{integer}>\t"assistant"',
        f'"0"^^<{integer}>\t"user"',
    ]
    assert [line.split("\t") for line in ok(run("query", _ROLES)).splitlines()[1:]] == [
        ["2", "tool"],
        ["1", "assistant"],
        ["0", "user"],
    ]


_VALUES = 'SELECT ?x ?y { VALUES (?x ?y) { (<urn:a> "a,\\"b\\"\\n\\tc"@en) (UNDEF true) } }'


def test_csv_and_tsv_and_json_are_the_standard_s(run: Run) -> None:
    rows = list(csv.reader(io.StringIO(ok(run("query", _VALUES, "--format", "csv")))))
    assert rows == [["x", "y"], ["urn:a", 'a,"b"\n\tc'], ["", "true"]]
    tsv = ok(run("query", _VALUES, "--format", "tsv"))
    assert tsv == '?x\t?y\n<urn:a>\t"a,\\"b\\"\\n\\tc"@en\n\t"true"^^<http://www.w3.org/2001/XMLSchema#boolean>\n'
    bindings = ok_json(run("query", _VALUES, "--json"))["results"]["bindings"]
    assert bindings == [
        {"x": {"type": "uri", "value": "urn:a"}, "y": {"type": "literal", "value": 'a,"b"\n\tc', "xml:lang": "en"}},
        {"y": {"type": "literal", "value": "true", "datatype": "http://www.w3.org/2001/XMLSchema#boolean"}},
    ]


def test_only_the_table_shortens_terms(run: Run) -> None:
    text = "SELECT ?type { <urn:trails:session:s1> a ?type }"
    assert "trails:Session" in ok(run("query", text)).split()
    assert "https://w3id.org/trails#Session" in ok(run("query", text, "--format", "csv")).split()


def test_ask_and_construct_have_their_own_forms(run: Run) -> None:
    assert ok(run("query", "ASK { ?s a trails:Session }")) == "true\n"
    no = run("query", "ASK { ?s a trails:Nothing }", "--json")
    assert (no.exit_code, json.loads(no.stdout)) == (1, {"head": {}, "boolean": False})
    assert run("query", "ASK { ?s a trails:Nothing }").exit_code == 1
    assert run("query", "SELECT ?s { ?s a trails:Nothing }").exit_code == 0
    triple = "CONSTRUCT { <urn:a> trails:role 'x' } WHERE {}"
    assert ok(run("query", triple, "--format", "ntriples")) == '<urn:a> <https://w3id.org/trails#role> "x" .\n'
    assert '<urn:a> trails:role "x"' in ok(run("query", triple))
    assert json.loads(ok(run("query", triple, "--json")))
    assert "gives triples" in error_line(run("query", triple, "--format", "csv"), 2)
    assert "gives rows" in error_line(run("query", _ROLES, "--format", "turtle"), 2)


def test_a_query_comes_from_a_file_or_stdin_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.rq").write_text(_ROLES)
    direct = ok(run("query", _ROLES))
    assert ok(run("query", str(tmp_path / "mine.rq"))) == direct
    assert ok(run("query", "-", stdin=_ROLES)) == direct
    assert "no-such.rq cannot be read: No such file" in error_line(run("query", "no-such.rq"), 2)


def test_a_ready_made_query_takes_parameters_also_by_label(run: Run) -> None:
    found = ok_json(run("query", "branches", "-p", "session=plan", "--json"))["results"]["bindings"]
    assert {row["session"]["value"] for row in found} == {"urn:trails:session:s2"}
    assert "needs the parameter 'session'" in error_line(run("query", "branches"), 2)
    assert "has no parameter 'sesion'" in error_line(run("query", "branches", "-p", "sesion=s1"), 2)
    assert "takes NAME=VALUE" in error_line(run("query", "branches", "-p", "s1"), 2)
    assert "no query named" in error_line(run("query", "brances"), 2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT * { SERVICE <http://localhost:1/> { ?s ?p ?o } }", "SERVICE"),
        ("SELECT * {" + "{" * 300 + "}" * 300 + "}", "nested deeper"),
        ("SELECT * { ?s ?p '" + "x" * 70_000 + "' }", "65,536"),
        ("SELECT * {", "not valid SPARQL"),
        ("DELETE WHERE { ?s ?p ?o }", "not valid SPARQL"),
    ],
)
def test_a_query_that_may_not_run_is_refused_in_one_line(run: Run, text: str, reason: str) -> None:
    assert reason in error_line(run("query", "-", stdin=text), 2)


def test_queries_lists_the_catalogue_and_prints_a_query(run: Run) -> None:
    from trails.rdf import query_files

    listed = ok_json(run("queries", "--json"))["queries"]
    assert {each["name"] for each in listed} == set(query_files.catalogue())
    assert all(each["purpose"] for each in listed)
    assert ok(run("queries", "lineage")) == query_files.find("lineage").text


def test_verify_prints_the_verdict_and_exits_with_1_on_findings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ok(run("verify")).startswith("ok: 3 sessions, 6 turns, ")
    assert ok(run("verify")).endswith(" log lines read; nothing is wrong\n")
    assert ok_json(run("verify", "plan", "--json"))["ok"] is True
    finding = Finding(code="digest", message="turn 1 was altered", session_id="s1", index=1)
    bad = VerifyReport(sessions=3, turns=6, findings=(finding,))
    monkeypatch.setattr(Repository, "verify", lambda *_, **__: bad)
    result = run("verify")
    assert result.exit_code == 1
    assert "1 finding" in result.stdout
    assert "turn 1 was altered" in result.stdout
    as_json = run("verify", "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (1, json.loads(json.dumps(bad.to_dict())))


def test_verify_finds_a_turn_whose_text_was_altered(run: Run, opened: Repository) -> None:
    store, graph = opened.store, _node("s2")
    (old,) = store.quads((None, vocab.VALUE, ox.Literal("A week"), graph))
    store.commit(Change(remove=[old], add=[ox.Quad(old.subject, old.predicate, ox.Literal("A year"), graph)]))
    opened.close()
    result = run("verify", "--json")
    assert result.exit_code == 1
    findings = json.loads(result.stdout)["findings"]
    assert ("s2", 2) in [(finding["session_id"], finding["index"]) for finding in findings]
    assert run("verify", "s3").exit_code == 0


def test_info_counts(run: Run, place: Path) -> None:
    facts = ok_json(run("info", "--json"))
    assert (facts["sessions"], facts["forks"], facts["turns"], facts["deleted"]) == (3, 1, 6, 0)
    assert facts["location"] == str(place)
    assert str(place) in ok(run("info"))


# --- moving


def test_the_sample_imports_as_a_session_a_given_up_path_and_a_sub_agent(run: Run, tmp_path: Path) -> None:
    sample = ok(run("demo", "--sample-path")).strip()
    new = str(tmp_path / "new")
    report = ok_json(run("import", sample, "--store", new, "--create", "--json"))
    # 13 records, two of them one message: 12 turns (10 on the main path, 2 on the other); and 4 of the sub-agent
    assert (report["turns_added"], report["files"], report["problems"]) == (16, 2, [])
    assert len(report["sessions_created"]) == 2
    assert len(report["forks_created"]) == 1
    again = ok_json(run("import", sample, "--store", new, "--json"))
    assert (again["turns_added"], again["sessions_created"], again["forks_created"]) == (0, [], [])


def test_import_does_not_create_a_store_by_itself(run: Run, tmp_path: Path) -> None:
    sample = ok(run("demo", "--sample-path")).strip()
    assert "--create" in error_line(run("import", sample, "--store", str(tmp_path / "new")), 2)


def test_lines_that_cannot_be_used_are_told_and_the_import_succeeds(run: Run, tmp_path: Path) -> None:
    sample = Path(ok(run("demo", "--sample-path")).strip()) / "release-plan.jsonl"
    damaged = tmp_path / "release-plan.jsonl"
    damaged.write_text(sample.read_text("utf-8") + '{"type": "user", "uuid": \n', "utf-8")
    result = run("import", str(damaged))
    assert result.exit_code == 0
    assert f"\n{damaged}, line 15: " in f"\n{result.stderr}"


def test_a_file_with_nothing_to_import_fails(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "odd.json").write_text('{"x": 1}')
    assert "is empty" in error_line(run("import", str(tmp_path / "empty.jsonl")), 1)
    assert "is no transcript" in error_line(run("import", str(tmp_path / "odd.json")), 1)
    assert "does not exist" in error_line(run("import", str(tmp_path / "none.jsonl")), 2)


@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_an_export_is_a_file_that_imports_the_same_session(run: Run, tmp_path: Path, form: str) -> None:
    file = tmp_path / {"nquads": "alt.nq", "trig": "alt.trig"}[form]
    ok(run("export", "alt", "--format", form, "-o", str(file)))
    assert run("export", "alt", "--format", form).stdout_bytes == file.read_bytes()
    assert run("export", "alt", "--format", form, "-o", "-").stdout_bytes == file.read_bytes()
    ok(run("import", str(file), "--store", str(tmp_path / "copy"), "--create"))
    copied = ok_json(run("show", "alt", "--json", "--store", str(tmp_path / "copy")))
    assert copied == ok_json(run("show", "alt", "--json"))


def test_an_export_replaces_no_file_unless_forced(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "alt.jsonl"
    file.write_text("mine")
    assert "--force" in error_line(run("export", "alt", "--format", "pi", "-o", str(file)), 2)
    assert file.read_text() == "mine"
    ok(run("export", "alt", "--format", "pi", "-o", str(file), "--force"))
    assert json.loads(file.read_text().splitlines()[0])["type"] == "session"


def test_an_export_goes_out_with_the_program_that_checks_it(run: Run, tmp_path: Path) -> None:
    file, program = tmp_path / "alt.nq", tmp_path / "verify_export.py"
    how = ("export", "alt", "--format", "nquads", "-o", str(file), "--with-verifier")
    assert ok_json(run(*how, "--json"))["verifier"] == str(program)
    answer = subprocess.run([sys.executable, "-I", program, file], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout.count(": holds: ")) == (0, 2)
    ok(run(*how, "--force"))
    program.write_text("mine")
    file.unlink()
    assert "--force" in error_line(run(*how), 2)
    assert (program.read_text(), file.exists()) == ("mine", False)
    for wrong in (("--format", "trig", "-o", str(file)), ("--format", "nquads")):
        assert "--with-verifier goes with" in error_line(run("export", "alt", *wrong, "--with-verifier"), 2)


def test_an_export_that_fails_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    assert "no-such" in error_line(run("export", "alt", "--format", "pi", "-o", str(tmp_path / "no-such" / "x")), 1)
    assert "no format to export" in error_line(run("export", "alt", "--format", "pdf", "-o", str(tmp_path / "x")), 2)
    assert [file.name for file in tmp_path.iterdir()] == ["store.trails"]


# --- the demo


@pytest.mark.slow
def test_the_demo_runs_every_step_and_leaves_nothing(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = program("demo", cwd=tmp_path, TMPDIR=str(temporary), TRAILS_STORE=str(tmp_path / "untouched"))
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    for command in (
        "import",
        "label",
        "list",
        "tree",
        "show",
        "fork",
        "append",
        "diff",
        "compare",
        "log",
        "query",
        "verify",
        "guide",
    ):
        assert f"$ trails {command} " in text.replace("\n", " \n")
    assert "ok: 4 sessions" in text
    assert "\x1b" not in text
    assert [each.name for each in tmp_path.iterdir()] == ["tmp"]
    assert list(temporary.iterdir()) == []


def test_the_demo_keeps_a_store_that_is_named_and_runs_in_it_once(run: Run, tmp_path: Path) -> None:
    named = str(tmp_path / "demo")
    assert "--create" in error_line(run("demo", "--store", named), 2)
    ok(run("demo", "--store", named, "--create"))
    assert ok_json(run("replay", "what-if", "--store", named, "--json"))["turns"][5]["role"] == "assistant"
    assert "already" in error_line(run("demo", "--store", named), 2)


# --- how runs end


def test_a_reader_that_goes_away_ends_the_run_quietly(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        plan = store.load("s1")
        for _ in range(40):
            plan.append("user", "x" * 20_000)
        plan.persist()
    for arguments in (["show", "plan", "--json"], ["show", "plan", "--full"]):
        with subprocess.Popen(
            [sys.executable, "-m", "trails", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment({"TRAILS_STORE": str(place)}),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 141


def test_an_interrupt_ends_the_run_with_130_and_one_line(place: Path, tmp_path: Path) -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from trails.cli import main; print('up', flush=True); main(['append', 'plan', 'user'], prog_name='trails')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment({"TRAILS_STORE": str(place)}),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        time.sleep(1.5)  # it reads stdin while it has the store open
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().decode().split("\n") == ["", "error: interrupted", ""]
        assert process.wait() == 130


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["show"], ["list", "--limit", "0"], ["list", "--nonsense"], ["delete", "s1", "--children", "eat"]],
)
def test_wrong_usage_is_one_line_that_points_to_the_help(run: Run, arguments: list[str]) -> None:
    assert "--help`" in error_line(run(*arguments), 2)


def test_a_terminal_without_utf_8_gets_escapes_and_valid_json(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        store.load("s1")
        store.set_label("s3", "Wanderführer 🏔")
    environment = {"TRAILS_STORE": str(place), "PYTHONIOENCODING": "ascii"}
    done = program("list", cwd=tmp_path, **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Wanderf\\xfchrer" in done.stdout
    found = program("list", "--json", cwd=tmp_path, **environment)
    assert json.loads(found.stdout)["sessions"][0]["label"] == "Wanderführer 🏔"


# --- on a terminal


@pytest.mark.slow
def test_colours_are_for_terminals_and_no_color_turns_them_off(place: Path, run: Run) -> None:
    coloured = re.compile("\x1b\\[[0-9;]*3[0-9]")
    assert coloured.search(on_terminal(place, "tree")[1])
    assert not coloured.search(on_terminal(place, "tree", NO_COLOR="1")[1])
    assert "\x1b" not in ok(run("tree"))


def test_the_option_for_colours_beats_the_environment(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = re.compile("\x1b\\[[0-9;]*3[0-9]")
    assert coloured.search(ok(run("tree", "--color", "always")))
    assert not coloured.search(on_terminal(place, "--color", "never", "tree")[1])
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert coloured.search(ok(run("tree")))
    assert "\x1b" not in ok(run("--color=never", "tree"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ok(run("tree"))
    assert coloured.search(ok(run("--color=always", "tree")))
    assert "--color" in run("tree", "--color", "often").stderr


def test_colours_change_no_word_of_what_is_printed(run: Run) -> None:
    for words in (["list"], ["show", "plan"], ["log"], ["diff", "plan", "plan"]):
        plain, coloured = ok(run(*words)), ok(run(*words, "--color", "always"))
        lines = re.sub("\x1b\\[[0-9;]*m", "", coloured).splitlines()
        assert [line.rstrip() for line in lines] == [line.rstrip() for line in plain.splitlines()]


@pytest.mark.slow
def test_lines_keep_to_the_width_of_the_terminal(place: Path, run: Run, size: Size) -> None:
    ok(run("append", "plan", "user", "words and " * 100))
    for command in ("show", "list") if size == "quick" else ("show", "replay", "list", "tree"):
        shown = on_terminal(place, command, *(["plan"] if command != "list" else []), NO_COLOR="1")[1]
        lines = re.sub("\x1b\\[[0-9;]*m", "", shown).splitlines()
        assert max(map(len, lines)) <= 80


@pytest.mark.slow
def test_a_progress_bar_is_drawn_on_a_terminal_only(place: Path, run: Run) -> None:
    sample = ok(run("demo", "--sample-path")).strip()
    code, shown = on_terminal(place, "import", sample)
    assert code == 0
    assert "importing" in shown
    piped = program("import", sample, cwd=place.parent, TRAILS_STORE=str(place))
    assert (piped.returncode, piped.stderr) == (0, b"")


@pytest.mark.slow
def test_delete_asks_on_a_terminal_and_keeps_the_session_without_a_yes(place: Path, run: Run) -> None:
    code, shown = on_terminal(place, "delete", "s3", typed=b"n\n")
    assert code == 1
    assert "Delete session 's3'? [y/N]" in shown
    assert ok_json(run("info", "--json"))["sessions"] == 3
    assert on_terminal(place, "delete", "s3", typed=b"y\n")[0] == 0
    assert ok_json(run("info", "--json"))["sessions"] == 2


def test_an_import_is_summed_up_in_a_line_and_each_file_has_one_where_it_is_asked_for(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    for number in range(23):
        line: dict[str, Any] = {"type": "user", "uuid": f"u{number}", "parentUuid": None, "sessionId": f"n{number:02}"}
        line |= {"timestamp": "2026-05-01T12:00:00.000Z", "message": {"role": "user", "content": "hello"}}
        (folder / f"n{number:02}.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "bad.jsonl").write_text(json.dumps(line | {"sessionId": "bad", "uuid": "b"}) + "\nnonsense\n")
    done = run("import", str(folder))
    assert ok(done) == "imported 24 turns from 24 files: 24 sessions (24 new); 1 problem (-v lists all)\n"
    assert done.stderr.startswith(f"{folder / 'bad.jsonl'}, line 2: ")
    assert done.stderr.count("\n") == 1
    *files, last = ok(run("import", str(folder), "-v")).splitlines()
    expected = [("bad", "bad"), *((f"n{number:02}", f"n{number:02}") for number in range(23))]
    assert files == [f"{name}.jsonl: unchanged claude-code:{session}" for name, session in expected]
    assert last == "imported 0 turns from 24 files: 24 sessions (24 unchanged); 1 problem"


# --- text


@given(st.text())
def test_clean_text_holds_no_character_that_steers(text: str) -> None:
    assert not [
        c
        for c in clean(text)
        if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E
    ]
    assert "\n" not in one_line(text)


@given(st.text(), st.integers(min_value=2, max_value=50))
def test_shortened_text_keeps_to_its_limit(text: str, limit: int) -> None:
    assert len(shorten(text, limit)) <= limit or "\\u" in shorten(text, limit)
