"""trails prov: what it writes where, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import trails
from trails.cli import main
from trails.cli.commands.import_export import FORMATS, PICTURES
from trails.provenance import validate
from trails.provenance.serializations import WRITERS


@pytest.fixture
def folder(tmp_path: Path) -> str:
    with trails.open(tmp_path / "s.trails", create=True) as store:
        session = store.create(id="plan", principal="alice", agent="planner", label="trip")
        session.append("user", "Hello")
        session.append("assistant", "Hi", model="m-1")
        session.persist()
    return str(tmp_path / "s.trails")


def run(folder: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--store", folder, "prov", *arguments])


def test_the_formats_are_those_that_there_are_writers_for() -> None:
    assert tuple(WRITERS) == FORMATS


@pytest.mark.parametrize("format_", FORMATS)
def test_a_session_goes_to_stdout_and_is_valid_prov(folder: str, format_: str) -> None:
    result = run(folder, "trip", "--format", format_)
    assert (result.exit_code, result.stderr) == (0, "")
    assert validate(result.stdout_bytes, format=format_).statements >= 10


def test_a_file_is_written_whole_and_not_over_another(folder: str, tmp_path: Path) -> None:
    target = tmp_path / "all.provn"
    done = run(folder, "--all", "--format", "provn", "-o", str(target), "--json")
    assert json.loads(done.stdout) == {"format": "provn", "output": str(target), "bytes": target.stat().st_size}
    assert target.stat().st_mode & 0o777 == 0o600
    again = run(folder, "--all", "--format", "provn", "-o", str(target))
    assert (again.exit_code, "--force" in again.stderr) == (2, True)
    assert run(folder, "--all", "--format", "provn", "-o", str(target), "--force").exit_code == 0


def test_one_turn_is_named_by_its_index_or_its_iri(folder: str) -> None:
    by_index = run(folder, "plan", "--turn", "1", "--format", "provn").stdout
    assert "/1-" in by_index
    assert "/0-" not in by_index
    with trails.open(folder) as store:
        iri = store.load("plan").turns[1].iri
    assert run(folder, iri, "--format", "provn").stdout == by_index


@pytest.mark.parametrize("format_", PICTURES)
def test_a_picture_is_drawn_the_same_each_time(folder: str, format_: str) -> None:
    first = run(folder, "plan", "--format", format_)
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout_bytes.startswith({"svg": b"<?xml", "png": b"\x89PNG", "mermaid": b"flowchart BT"}[format_])
    assert run(folder, "plan", "--format", format_).stdout_bytes == first.stdout_bytes


def test_the_tree_of_forks_is_drawn_without_turns(folder: str) -> None:
    with trails.open(folder) as store:
        fork = store.load("plan").fork(at=1, id="other")
        fork.append("user", "Else")
        fork.persist()
    drawn = run(folder, "other", "--forks", "--format", "mermaid").stdout
    assert '(["other<br/>Session"])' in drawn
    assert '(["plan<br/>Session"])' in drawn
    assert "wasDerivedFrom" in drawn
    assert "Turn" not in drawn
    assert run(folder, "other", "--forks", "--format", "provn").exit_code == 2


def test_what_is_derived_can_be_left_out(folder: str) -> None:
    assert "derived" in run(folder, "plan", "--format", "provn").stdout
    assert "derived" not in run(folder, "plan", "--format", "provn", "--recorded-only").stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--format", "provn"], "name a session or a turn, or give --all"),
        (["plan", "--all", "--format", "provn"], "name a session or a turn, or give --all"),
        (["plan", "--format", "provn", "--json"], "give -o FILE too"),
        (["plan", "--format", "provn", "--turn", "9"], "no turn 9"),
        (["--all", "--format", "provn", "--turn", "1"], "of which session"),
    ],
)
def test_what_makes_no_sense_ends_with_2(folder: str, arguments: list[str], reason: str) -> None:
    result = run(folder, *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr


# --- documents of others

CHART = "document prefix ex <http://example.org/> wasDerivedFrom(ex:chart, ex:table) endDocument"
WRONG = "document prefix ex <http://example.org/> specializationOf(ex:a, ex:a) endDocument"


def trails_(folder: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--store", folder, *arguments])


@pytest.fixture
def chart(tmp_path: Path) -> str:
    (tmp_path / "chart.provn").write_text(CHART)
    return str(tmp_path / "chart.provn")


def test_a_document_is_brought_in_listed_written_again_and_deleted(folder: str, chart: str) -> None:
    made = trails_(folder, "import", "--format", "prov", chart, "--by", "alice", "--json")
    assert made.exit_code == 0
    (told,) = json.loads(made.stdout)["documents"]
    assert {key: told[key] for key in ("name", "size", "format", "statements", "valid", "broken", "by")} == {
        "name": "chart.provn",
        "size": len(CHART),
        "format": "provn",
        "statements": 1,
        "valid": True,
        "broken": [],
        "by": "alice",
    }
    assert json.loads(trails_(folder, "documents", "--json").stdout)["documents"] == [told]
    assert "chart.provn, provn, 1 statement, valid; by alice" in trails_(folder, "documents").stdout
    for format_ in FORMATS:
        written = run(folder, told["iri"], "--format", format_)
        assert (written.exit_code, written.stderr) == (0, "")
        assert validate(written.stdout_bytes, format=format_).statements == 1
    assert "example.org" not in run(folder, "--all", "--format", "provn").stdout
    assert trails_(folder, "delete-document", "chart.provn").exit_code == 2  # it would ask, and there is no terminal
    gone = trails_(folder, "delete-document", told["sha256"][:10], "--reason", "old", "--yes", "--json")
    assert json.loads(gone.stdout) == {"document": told}
    assert json.loads(trails_(folder, "documents", "--json").stdout) == {"documents": [], "more": 0}
    assert trails_(folder, "verify").exit_code == 0


def test_a_document_that_is_not_valid_needs_to_be_kept_on_purpose(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "without an end that says it"
    file.write_text(WRONG)
    refused = trails_(folder, "import", "--format", "prov-provn", str(file))
    assert (refused.exit_code, "impossible-specialization-reflexive" in refused.stderr) == (2, True)
    kept = trails_(folder, "import", "--format", "prov-provn", str(file), "--keep-invalid")
    assert (kept.exit_code, "not valid (impossible-specialization-reflexive)" in kept.stdout) == (0, True)


def test_what_came_before_a_file_that_cannot_be_read_is_told(folder: str, chart: str, tmp_path: Path) -> None:
    (tmp_path / "bad.provn").write_text("no PROV")
    done = trails_(folder, "import", "--format", "prov", chart, str(tmp_path / "bad.provn"), "--json")
    assert done.exit_code == 2
    assert [each["name"] for each in json.loads(done.stdout)["documents"]] == ["chart.provn"]
    assert "bad.provn" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["import", "--format", "prov", "--final", "FILE"], "--keep-invalid, --create and --by alone"),
        (["import", "--format", "prov-word", "FILE"], "is no format of PROV documents"),
        (["import", "--keep-invalid", "FILE"], "goes with --format prov"),
        (["prov", "urn:trails:prov:00", "--format", "provn"], "there is no PROV document"),
        (["prov", "urn:trails:prov:00", "--format", "svg"], "no picture is drawn"),
        (["prov", "urn:trails:prov:00", "--format", "provn", "--turn", "1"], "as it is"),
        (["delete-document", "nothing", "--yes"], "there is no PROV document"),
    ],
)
def test_what_makes_no_sense_of_a_document_ends_with_2(
    folder: str, chart: str, arguments: list[str], reason: str
) -> None:
    result = trails_(folder, *(chart if each == "FILE" else each for each in arguments))
    assert result.exit_code == 2
    assert reason in result.stderr
