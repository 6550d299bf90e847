"""What is stored never steers a terminal: no command prints a character that moves the cursor or turns the line around."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
import rdflib

import trails
from tests.support.commands import Run
from trails import Ledger, Runs
from trails.cli import main
from trails.cli.terminal import escaping
from trails.exchange.file_import import import_path

CONTROLS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
HOSTILE = f"first \x1b[2J\x9b1A{CONTROLS}\rover {TURNING} höher 🏔 last"
"""What a hostile transcript holds: every character that can move the cursor, and every one that can reverse a line."""
DAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
RUN = "run-1"
_GRAPH = f"CONSTRUCT {{ <urn:a> <urn:b\u061c> ?x . <urn:a{TURNING}> trails:a\u061cb 'x' }} WHERE {{ ?t prov:value ?x }}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store in which everything that people write is hostile."""
    path = tmp_path_factory.mktemp("terminal") / "store.trails"
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": HOSTILE, HOSTILE: 1}}
    with trails.open(path, create=True, durability="process") as store:
        plan = store.create(id="plan", label="plan", principal="alice", system=HOSTILE, meta={"topic": HOSTILE})
        plan.append("user", HOSTILE, time=DAY, meta={"said": HOSTILE})
        plan.append("assistant", [{"type": "text", "text": HOSTILE}, call], model="m-1", time=DAY)
        plan.append("tool", HOSTILE, tool_call_id="t1", time=DAY)
        plan.persist()
        fork = plan.fork(at=1, id="fork", meta={"topic": f"{HOSTILE} too"})
        fork.append("user", f"{HOSTILE} other", time=DAY)
        fork.append("assistant", [{"type": "text", "text": HOSTILE}, call], model="m-1", time=DAY)
        fork.persist()
        store.notes.add("plan", 0, HOSTILE)
        store.tags.add("kept", "plan@2")
        ledger = Ledger(store)
        ledger.receive("fork", HOSTILE, source="mail", event_id="1")
        ledger.process("fork", lambda running: HOSTILE)
        answer = ledger.events("fork", direction="outbound")[0]
        ledger.delivered(answer, channel="mail", outcome="failed", text=HOSTILE)
        ledger.receive("fork", HOSTILE, source="mail", event_id="2")
        with pytest.raises(RuntimeError):
            ledger.process("fork", _broken)
        ledger.receive("fork", HOSTILE, source="mail", event_id="3", mode="hold")
        main_session = trails.Tree(store).main("planner", "chat", id="top")
        main_session.spawn("branch", HOSTILE, HOSTILE, id="below").fail(HOSTILE, summary=HOSTILE)
        ids = iter(["child", RUN])
        runs = Runs(store, new_id=lambda: next(ids))
        runs.spawn("agent:main:main", HOSTILE)
        runs.ended(RUN, "error", error=HOSTILE)
    return path


def _broken(running: object) -> str:
    raise RuntimeError(HOSTILE)


def steering(text: str) -> set[str]:
    """Return the characters in a text that a terminal would obey, other than tabs and line ends."""
    plain = text.replace("\r\n", "\n").replace("\n", "").replace("\t", "")
    return {character for character in plain if character in CONTROLS + TURNING}


READING = [
    *(["list"], ["show", "plan"], ["show", "plan", "--full"], ["show", "fork"], ["tree"], ["branches", "plan"]),
    *(["diff", "plan", "fork"], ["diff", "plan", "fork", "--side-by-side"], ["compare", "plan"], ["replay", "plan"]),
    *(["diff", "plan", "fork", "--full"], ["compare", "plan", "--group-by", "meta.topic"], ["context", "plan"]),
    *(["log"], ["log", "--graph"], ["blame", "plan"], ["tags"], ["notes", "plan"], ["tag", "kept"]),
    *(
        ["head", "fork"],
        ["inbox", "list", "fork"],
        ["inbox", "exchanges", "fork"],
        ["inbox", "events", "fork"],
        ["tail"],
        ["runs", "tree"],
    ),
    *(["runs", "list"], ["runs", "show", RUN], ["keys", "list"], ["keys", "policy", "check", "main"]),
    *(["search", "last"], ["search", "--tool", "look"], ["verify"], ["info"]),
    ["query", "SELECT ?x { ?t prov:value ?x }"],
]
"""Command lines that show what is stored."""


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_what_people_read_holds_nothing_that_a_terminal_obeys(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    assert done.stdout + done.stderr
    assert steering(done.stdout + done.stderr) == set()


@pytest.mark.parametrize("arguments", [each for each in READING if "--side-by-side" not in each], ids=" ".join)
def test_json_of_the_same_holds_nothing_that_a_terminal_obeys(run: Run, arguments: list[str]) -> None:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    assert [json.loads(line) for line in done.stdout.splitlines()] if arguments == ["tail"] else json.loads(done.stdout)
    assert steering(done.stdout) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["diff", "plan", "fork", "--format", form] for form in ("markdown", "html", "patch", "json")),
        *(["compare", "plan", "--format", form] for form in ("markdown", "csv", "json")),
        *(["compare", "plan", "--group-by", "meta.topic", "--groups-only", "--format", form] for form in ("csv",)),
        *(["context", "plan", "--format", form] for form in ("openai", "anthropic", "json")),
        *(["query", "SELECT ?x { ?t prov:value ?x }", "--format", form] for form in ("csv", "tsv", "json")),
        *(["query", _GRAPH, "--format", form] for form in ("turtle", "ntriples", "json", "table")),
    ],
    ids=" ".join,
)
def test_no_other_format_holds_anything_that_a_terminal_obeys(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    assert "last" in done.stdout
    assert steering(done.stdout) == set()


def test_the_hostile_texts_are_there_to_be_printed(place: Path, run: Run) -> None:
    """The control of the tests above: the store does hold them, and JSON gives each character back."""
    with trails.open(place) as store:
        assert store.load("plan").turns[0].content == HOSTILE
    turns = json.loads(run("replay", "plan", "--json").stdout)["turns"]
    assert [turns[0]["content"], turns[1]["content"][0]["text"]] == [HOSTILE, HOSTILE]
    assert turns[1]["content"][1]["input"] == {"at": HOSTILE, HOSTILE: 1}
    assert json.loads(run("show", "plan", "--json").stdout)["system"] == HOSTILE
    assert json.loads(run("notes", "plan", "--json").stdout)["notes"][0]["text"] == HOSTILE
    assert {event["content"] for event in json.loads(run("inbox", "events", "fork", "--json").stdout)["events"]} == {
        HOSTILE
    }
    assert json.loads(run("runs", "show", RUN, "--json").stdout)["task"] == HOSTILE


def test_json_escapes_what_a_terminal_obeys_and_nothing_else(run: Run) -> None:
    shown = run("replay", "plan", "--json").stdout
    for escaped in ("\\u001b", "\\u007f", "\\u0080", "\\u009f", "\\u202e", "\\u2069", "\\u200f", "\\u061c"):
        assert escaped in shown
    assert "höher 🏔 last" in shown


def test_rdf_gives_back_every_character_that_it_escapes(run: Run) -> None:
    for form in ("turtle", "ntriples"):
        graph = rdflib.Graph().parse(data=run("query", _GRAPH, "--format", form).stdout, format=form)
        assert rdflib.Literal(HOSTILE) in set(graph.objects(rdflib.URIRef("urn:a"), rdflib.URIRef("urn:b\u061c")))
        made = rdflib.URIRef("https://w3id.org/trails#a\u061cb")
        assert set(graph.objects(rdflib.URIRef(f"urn:a{TURNING}"), made)) == {rdflib.Literal("x")}


def test_json_of_a_query_gives_back_every_character(run: Run) -> None:
    found = json.loads(run("query", "SELECT ?x { ?t prov:value ?x }", "--json").stdout)["results"]["bindings"]
    assert HOSTILE in [binding["x"]["value"] for binding in found]


@pytest.mark.parametrize("form", ["nquads", "trig", "pi"])
def test_an_export_on_stdout_steers_no_terminal_and_imports_as_the_file_does(
    run: Run, tmp_path: Path, form: str
) -> None:
    done = run("export", "plan", "--format", form)
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    text = done.stdout_bytes.decode()
    assert steering(text) == set()
    assert not {"\u2028", "\u2029", "\r"} & set(text)
    assert "höher 🏔 last" in text
    end = {"nquads": "nq", "trig": "trig", "pi": "jsonl"}[form]
    shown, written = tmp_path / f"shown.{end}", tmp_path / f"written.{end}"
    shown.write_bytes(done.stdout_bytes)
    assert run("export", "plan", "--format", form, "-o", str(written)).exit_code == 0
    assert {"\u202e", "\u2066"} <= steering(written.read_text("utf-8"))  # a file holds them as they are
    held = []
    for file in (shown, written):
        with trails.open(":memory:") as store:
            (made,) = import_path(store, file).sessions_created
            turns = store.load(made).turns
            assert turns[0].content == HOSTILE
            held.append([(turn.role, turn.content, turn.meta, turn.tool_calls) for turn in turns])
    assert held[0] == held[1]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_character_that_is_written_in_pieces_is_escaped_all_the_same(size: int) -> None:
    data = '"\u202e 🏔 é \x9b \u2028"\n'.encode()
    out = io.BytesIO()
    escaping(out).writelines(data[at : at + size] for at in range(0, len(data), size))
    assert out.getvalue().decode() == '"\\u202e 🏔 é \\u009b \\u2028"\n'


def test_csv_shows_controls_as_pictures_and_keeps_its_rows_and_line_ends(run: Run) -> None:
    query = r'SELECT ?x ?y { VALUES (?x ?y) { ("a\u001Bb\u202Ec\rd" "one\ntwo\r\nthree\tfour, \"five\"") } }'
    text = run("query", query, "--format", "csv").stdout_bytes.decode()
    assert text.endswith("\r\n")
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["x", "y"],
        ["a␛b\\u202ec␍d", 'one\ntwo\r\nthree\tfour, "five"'],
    ]


def test_a_markdown_cell_shows_controls_as_pictures(run: Run) -> None:
    text = run("compare", "plan", "--format", "markdown", "--columns", "session,meta.topic").stdout
    row = next(line for line in text.splitlines() if line.startswith("| plan "))
    assert "first ␛\\[2J" in row
    assert "\\u202e" in row
    assert row.count(" | ") == 1


def test_a_diff_written_to_a_file_as_json_is_escaped_too(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "diff.json"
    assert run("diff", "plan", "fork", "--json", "-o", str(file)).exit_code == 0
    assert steering(file.read_text("utf-8")) == set()
    assert json.loads(file.read_text("utf-8")) == json.loads(run("diff", "plan", "fork", "--json").stdout)


# --- every command that reads has --json

WITHOUT_JSON = {
    "init",
    "label",
    "detach",
    "delete",
    "demo",
    "completion",
    "help",
    "hook",
    "mcp",
    "ontology",
    "serve",
    "tui",
    "ui",
}
"""Commands that change something or print no data: all others print JSON where they are asked to."""


def commands(group: click.Group, before: str = "") -> dict[str, click.Command]:
    """Return all commands by name, those of groups below it too."""
    found: dict[str, click.Command] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            found |= commands(command, f"{before}{name} ")
        elif command is not None:
            found[before + name] = command
    return found


def test_every_command_that_reads_prints_json() -> None:
    every = commands(main)
    without = {name for name, each in every.items() if "--json" not in {o for p in each.params for o in p.opts}}
    assert without == WITHOUT_JSON


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            ["export", "fork", "--format", "pi", "-o", "FILE"],
            {
                "session": "fork",
                "format": "pi",
                "output": "FILE",
                "sessions": ["fork"],
                "turns": 5,
                "left_out": [
                    "salts, labels, keys, tags, notes, scores, signatures, ledgers, and that something was redacted",
                    "the version of the system prompt that a call was sent, and which turns and results others repeat",
                ],
            },
        ),
        (["dump", "FILE"], {"output": "FILE", "quads": "?"}),
        (["backup", "FILE"], {"output": "FILE"}),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_what_writes_a_copy_says_in_json_what_it_wrote(
    run: Run, place: Path, tmp_path: Path, arguments: list[str], wanted: dict[str, Any]
) -> None:
    file = str(tmp_path / "copy")
    with trails.open(place) as store:
        quads = len(store.store)
    done = run(*(file if each == "FILE" else each for each in arguments), "--json")
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    derived = 6 + 2  # turns with one before them, and the words for the one fork
    values: dict[str, object] = {"FILE": file, "?": quads + derived}
    assert json.loads(done.stdout) == {
        name: value if isinstance(value, list) else values.get(value, value) for name, value in wanted.items()
    }
    assert Path(file).exists()


def test_an_export_to_stdout_is_the_data_itself_and_takes_no_json(run: Run) -> None:
    done = run("export", "fork", "--format", "pi", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "-o" in done.stderr
