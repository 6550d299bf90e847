"""The commands `trails ref` and `trails refs`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("once") / "store.trails"
    with trails.open(place, create=True) as store, store.session("plan") as plan:
        plan.append("user", "a")
        plan.append("user", "b")
    return place


def test_a_ref_is_made_moved_shown_listed_and_removed(run: Run, place: Path) -> None:
    made = json.loads(ok(run("ref", "main", "plan", "--by", "alice", "--json")))["ref"]
    assert (made["session"], made["at"], made["moves"], made["by"]) == ("plan", None, 1, "alice")
    moved = json.loads(ok(run("ref", "main", "plan@1", "--from", "plan", "--json")))["ref"]
    assert (moved["at"], moved["moves"]) == (1, 2)
    assert ok(run("ref", "main")).startswith("plan@1 ")
    moves = json.loads(ok(run("ref", "main", "--history", "--json")))["moves"]
    assert [(move["number"], move["at"]) for move in moves] == [(1, None), (2, 1)]
    listed = json.loads(ok(run("refs", "--json")))["refs"]
    assert [(each["name"], each["session"]) for each in listed] == [("main", "plan")]
    assert "plan@1" in ok(run("refs", "plan"))
    assert "ref 'main' is removed" in run("ref", "main", "--remove").stderr
    assert json.loads(ok(run("refs", "--json")))["refs"] == []


def test_a_log_shows_where_refs_are(run: Run) -> None:
    ok(run("ref", "main", "plan"))
    ok(run("ref", "draft", "plan@1"))
    turns = json.loads(ok(run("log", "plan", "--json")))["turns"]
    assert [(turn["index"], turn["refs"]) for turn in turns] == [(1, ["main"]), (0, ["draft"])]
    assert "ref: draft" in ok(run("log", "plan"))


def test_a_ref_that_is_elsewhere_is_not_moved(run: Run) -> None:
    ok(run("ref", "main", "plan"))
    refused = run("ref", "main", "plan@1", "--from", "plan@2")
    assert refused.exit_code != 0
    assert "is at 'plan', not at 'plan@2'" in refused.stderr
    refused = run("ref", "main", "plan@1", "--from", "none")
    assert "moved by another writer" in refused.stderr
    assert ok(run("ref", "main")).strip() == "plan"


@pytest.mark.parametrize("given", [["plan", "--remove"], ["--history", "--remove"], ["--from", "plan"]])
def test_what_does_not_go_together_is_refused(run: Run, given: list[str]) -> None:
    assert run("ref", "main", *given).exit_code == 2
