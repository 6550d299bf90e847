"""`--json=FIELDS` gives the fields that are asked for; `--json` alone gives all, and never takes an argument for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trails
from tests.cli.test_terminal import READING, place  # noqa: F401 - a store with something for each command
from tests.support.commands import Run, invoke, ok_json


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder of a store with a session of two turns, the second with a call of a model and of a tool."""
    path = tmp_path / "fields.trails"
    with trails.open(path, create=True, durability="process") as opened:
        plan = opened.create(id="plan", principal="alice", agent="planner", label="trip")
        plan.append("user", "Where to?")
        calls = [{"id": "c1", "name": "weather", "arguments": {"place": "Zermatt"}}]
        plan.append("assistant", "Let me look.", model="m-1", tool_calls=calls)
        plan.persist()
        opened.tags.add("first", "plan@1")
    return path


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["list", "--json=id,turns"], {"sessions": [{"id": "plan", "turns": 2}], "cursor": None}),
        (["list", "--json", "label"], {"sessions": [{"label": "trip"}], "cursor": None}),
        (["list", "--json", " id , turns ", "-n", "1"], {"sessions": [{"id": "plan", "turns": 2}], "cursor": None}),
        (["list", "--json=cursor"], {"cursor": None}),
        (["list", "--json=sessions.id"], {"sessions": [{"id": "plan"}]}),
        (["show", "plan", "--json=session.id"], {"session": {"id": "plan"}}),
        (["info", "--json=turns,sessions"], {"turns": 2, "sessions": 1}),
        (
            ["show", "--json=role,text", "plan"],
            {"turns": [{"role": "user", "text": "Where to?"}, {"role": "assistant", "text": "Let me look."}]},
        ),
        (
            ["show", "plan", "--json=index,model,tool_calls.name"],
            {
                "turns": [
                    {"index": 0, "model": None, "tool_calls": None},
                    {"index": 1, "model": "m-1", "tool_calls": [{"name": "weather"}]},
                ]
            },
        ),
        (["show", "plan", "--range", "0", "--json=model"], {"turns": [{"model": None}]}),
        (["tag", "first", "--json=tag.name"], {"tag": {"name": "first"}}),
        (["verify", "--json=ok,findings.code"], {"ok": True, "findings": []}),
        (["list", "--label", "none", "--json=id"], {"sessions": [], "cursor": None}),
    ],
)
def test_an_answer_has_the_fields_that_are_named_and_no_others(store: Path, words: list[str], answer: object) -> None:
    assert ok_json(invoke(*words, store=store)) == answer


@pytest.mark.parametrize(
    "words",
    [["show", "--json", "plan"], ["show", "plan", "--json"], ["show", "--json", "--range", ":", "plan"]],
    ids=" ".join,
)
def test_json_alone_never_takes_an_argument_for_fields(store: Path, words: list[str]) -> None:
    answer = ok_json(invoke(*words, store=store))
    assert [*answer] == ["session", "system", "turns"]
    assert [turn["content"] for turn in answer["turns"]] == ["Where to?", "Let me look."]


def test_json_alone_may_stand_anywhere_in_a_command_without_arguments(store: Path) -> None:
    answers = [ok_json(invoke("list", *words, store=store)) for words in (["--json"], ["--json", "-n", "5"])]
    assert answers[0] == answers[1]
    assert answers[0]["sessions"][0]["agent"] == "planner"


def test_a_text_that_looks_like_the_option_stays_a_text(store: Path) -> None:
    assert invoke("append", "plan", "--", "user", "--json=id", store=store).exit_code == 0
    assert invoke("create", "--label", "--json", store=store).exit_code == 0
    assert ok_json(invoke("list", "--json=label", store=store))["sessions"] == [{"label": "--json"}, {"label": "trip"}]
    assert ok_json(invoke("show", "plan", "--range", "2", "--json=text", store=store)) == {
        "turns": [{"text": "--json=id"}]
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["show", "--json", "id,title"], "no session, label or tag 'id,title'"),
        (["show", "--json", "id,title", "plan"], "unexpected extra argument (plan)"),
    ],
)
def test_fields_without_an_equals_sign_are_told_how_to_be_written(store: Path, words: list[str], problem: str) -> None:
    done = invoke(*words, store=store)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert "write --json=id,title" in done.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["list", "--json=id,titel"], "no field 'titel' (did you mean 'title'"),
        (["list", "--json=id,titel"], "there are: id, parent_session_id, "),
        (["verify", "--json=code"], "there are: ok, sessions, "),
        (["list", "--json="], "names no field"),
        (["list", "--json=id,,turns"], "names no field"),
        (["list", "--json=agent.name"], "'planner' has no field 'name'"),
        (["show", "plan", "--json=facts"], "no field 'facts'"),
        (["show", "plan", "--json=to_dict"], "no field 'to_dict'"),
        (["query", "sessions", "--json=id"], "after its SELECT"),
        (["append", "plan", "user", "new", "--json=turn"], "only read"),
    ],
)
def test_fields_that_cannot_be_given_are_refused(store: Path, words: list[str], problem: str) -> None:
    with trails.open(store) as opened:
        before = len(opened.load("plan"))
    done = invoke(*words, store=store)
    assert done.exit_code == 2
    assert problem in done.stderr
    with trails.open(store) as opened:
        assert len(opened.load("plan")) == before


@pytest.mark.parametrize("words", [each for each in READING if not {"query", "--side-by-side"} & {*each}], ids=" ".join)
def test_every_command_that_reads_refuses_a_field_that_it_does_not_have(run: Run, words: list[str]) -> None:
    done = run(*words, "--json=no-such-field")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no field 'no-such-field'" in done.stderr


def test_each_line_of_a_tail_has_the_fields(store: Path) -> None:
    done = invoke("tail", "--json=kind,texts", store=store)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [
        {"kind": "create", "texts": None},
        {"kind": "turns", "texts": ["user: Where to?", "assistant: Let me look."]},
        {"kind": "change", "texts": None},
    ]
