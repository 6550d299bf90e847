"""The option `--as-of`: the commands that read, over the store as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run
from trails.history.as_of import log_moment
from trails.integrity.signed_notes import new_key


@pytest.fixture
def kept(place: Path, tmp_path: Path) -> Path:
    """A checkpoint of a store with plan and a fork of it, other; since then plan has a turn and another label."""
    with trails.open(place, create=True) as store:
        plan = store.create(id="plan", label="trip")
        plan.append("user", "Plan a trip")
        plan.persist()
        plan.fork(id="other").persist()
        note = tmp_path / "monday.checkpoint"
        note.write_text(store.proofs.checkpoint(new_key("example.com/log")[0]), "utf-8")
        plan.append("assistant", "To the Alps")
        plan.persist()
        store.set_label("plan", "journey")
        store.create(id="late").persist()
    return note


def test_lists_and_transcripts_are_those_of_then(run: Run, kept: Path) -> None:
    listed = json.loads(run("list", "--json", "--as-of", str(kept)).stdout)
    assert sorted(each["id"] for each in listed["sessions"]) == ["other", "plan"]
    shown = json.loads(run("show", "trip", "--json", "--as-of", str(kept)).stdout)
    assert [turn["content"] for turn in shown["turns"]] == ["Plan a trip"]
    assert len(json.loads(run("show", "plan", "--json").stdout)["turns"]) == 2
    replayed = json.loads(run("replay", "plan", "--json", "--as-of", str(kept)).stdout)
    assert [turn["content"] for turn in replayed["turns"]] == ["Plan a trip"]


def test_the_head_the_context_and_the_blame_are_those_of_then(run: Run, kept: Path) -> None:
    then = ("--json", "--as-of", str(kept))
    assert json.loads(run("head", "plan", *then).stdout)["head"]["content"] == "Plan a trip"
    assert "Alps" not in run("context", "plan", *then).stdout
    assert "Alps" in run("context", "plan", "--json").stdout
    assert len(json.loads(run("blame", "plan", *then).stdout)["turns"]) == 1
    assert len(json.loads(run("blame", "plan", "--json").stdout)["turns"]) == 2


def test_questions_are_asked_of_then(run: Run, kept: Path) -> None:
    count = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?turn a trails:Turn } }"
    rows = json.loads(run("query", count, "--json", "--as-of", str(kept)).stdout)["results"]["bindings"]
    assert [row["n"]["value"] for row in rows] == ["1"]
    assert run("search", "Alps", "--as-of", str(kept)).exit_code == 1
    assert run("diff", "plan", "other", "--exit-code", "--as-of", str(kept)).exit_code == 0
    assert run("diff", "plan", "other", "--exit-code").exit_code == 1
    assert "Alps" not in run("export", "plan", "--format", "nquads", "--as-of", str(kept)).stdout
    assert "Alps" not in run("log", "plan", "--as-of", str(kept)).stdout
    assert run("verify", "--as-of", str(kept)).exit_code == 0


def test_a_comparison_says_where_it_was_made_and_is_made_again_there(run: Run, kept: Path, place: Path) -> None:
    first = run("compare", "plan", "--json", "--as-of", str(kept)).stdout
    assert [row["turns"] for row in json.loads(first)["rows"]] == [1, 1]
    mark = json.loads(first)["as_of"]
    assert run("compare", "plan", "--json", "--as-of", mark).stdout == first
    assert run("compare", "plan", "--json", "--at", str(kept)).stdout == first
    with trails.open(place) as store:
        now = log_moment.mark_of_log(store.store.log)
    assert json.loads(run("compare", "plan", "--json").stdout)["as_of"] == now
    assert json.loads(run("compare", "plan", "--json", "--at", "1").stdout)["at"] == 1


def test_people_are_told_of_when_it_is_and_what_is_lost(run: Run, kept: Path) -> None:
    said = run("list", "--as-of", str(kept)).stderr
    assert said.startswith("as of 4-")  # create, change, turns; fork
    assert "1 changed" in said


def test_the_next_page_is_of_then_too(run: Run, kept: Path) -> None:
    assert f"--as-of {kept}" in run("list", "-n", "1", "--as-of", str(kept)).stderr


@pytest.mark.parametrize(
    ("moment", "code", "what"),
    [
        ("nope", 2, "is no file with a checkpoint"),
        ("2001-01-01", 2, "there was nothing"),
        ("2100-01-01", 2, "in the future"),
        ("3-0123456789abcdef", 1, "of no state of the log"),
        ("-1", 2, "is no file with a checkpoint"),
    ],
)
def test_what_is_no_moment_is_refused(run: Run, kept: Path, moment: str, code: int, what: str) -> None:
    result = run("list", f"--as-of={moment}")
    assert (result.exit_code, result.stdout) == (code, "")
    assert what in result.stderr


def test_a_file_that_is_no_checkpoint_is_refused(run: Run, kept: Path, tmp_path: Path) -> None:
    for content in (b"", b"hello", b"\xff\xfe\n\n", b"a\nb\nc\n\n"):
        other = tmp_path / "other"
        other.write_bytes(content)
        result = run("list", "--as-of", str(other))
        assert result.exit_code in (1, 2)
        assert result.stdout == ""
        assert "error:" in result.stderr
