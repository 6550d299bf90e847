"""trails validate: exit codes, what it shows, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import trails
from trails.cli import main

CIRCLE = (
    "document prefix ex <http://example.org/> specializationOf(ex:a, ex:b) specializationOf(ex:b, ex:a) endDocument"
)
LATE = """document prefix ex <http://example.org/>
  wasInvalidatedBy(ex:e, ex:a, 2026-01-01T00:00:00Z) used(ex:b, ex:e, 2026-01-01T00:00:09Z) endDocument"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments])


@pytest.fixture
def circle(tmp_path: Path) -> str:
    path = tmp_path / "circle.provn"
    path.write_text(CIRCLE)
    return str(path)


def test_a_valid_file_ends_with_0(tmp_path: Path) -> None:
    path = tmp_path / "good.provn"
    path.write_text("document endDocument")
    result = run(str(path))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "valid: 0 statements\n")


def test_what_clashes_is_shown_and_ends_with_1(circle: str) -> None:
    result = run(circle)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "impossible-specialization-reflexive (52): http://example.org/b would be a specialization of itself",
        "    specializationOf(http://example.org/a, http://example.org/b)",
        "    specializationOf(http://example.org/b, http://example.org/a)",
    ]
    assert result.stderr == "not valid, 1 finding: 2 statements\n"


def test_json_has_the_whole_verdict(circle: str) -> None:
    value = json.loads(run(circle, "--json").stdout)
    assert (value["valid"], value["statements"], value["timed"]) == (False, 2, None)
    assert [(each["constraint"], each["name"]) for each in value["findings"]] == [
        (52, "impossible-specialization-reflexive")
    ]


def test_times_are_a_verdict_of_their_own_with_a_skew(tmp_path: Path) -> None:
    path = tmp_path / "late.provn"
    path.write_text(LATE)
    assert run(str(path)).exit_code == 0
    late = run(str(path), "--timed")
    assert late.exit_code == 1
    assert late.stdout.startswith("times: usage-precedes-invalidation (38): ")
    assert late.stderr == "valid: 2 statements; times invalid: 0 orders kept, 0 open, 1 broken\n"
    assert run(str(path), "--timed", "--skew", "9").exit_code == 0


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("bad.provn", "document\nnonsense", "line 2"),
        ("bad.xml", "<a/>", "its root is 'a'"),
        ("unknown.txt", "document endDocument", "says no PROV format"),
    ],
)
def test_what_cannot_be_read_ends_with_2_and_says_where(tmp_path: Path, name: str, text: str, reason: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    result = run(str(path))
    assert result.exit_code == 2
    assert reason in result.stderr


def test_the_format_can_be_said(tmp_path: Path, circle: str) -> None:
    path = tmp_path / "circle.txt"
    path.write_text(CIRCLE)
    assert run(str(path), "--format", "provn").exit_code == 1
    assert run(circle, "--skew", "1").exit_code == 2


def test_a_store_is_checked_by_its_folder_or_as_the_one_that_is_named(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s.trails", create=True) as store:
        session = store.create(principal="alice", agent="planner")
        session.append("user", "Hello")
        session.persist()
    folder = str(tmp_path / "s.trails")
    assert run(folder).stderr == run("--store", folder).stderr
    assert run(folder).exit_code == 0
    assert run(folder, "--format", "json").exit_code == 2
    assert run(str(tmp_path / "nowhere")).exit_code == 2


def test_shapes_are_checked_of_a_store_and_of_an_export(tmp_path: Path) -> None:
    pytest.importorskip("pyshacl", reason="pySHACL is not installed (the extra `shacl`)")
    with trails.open(tmp_path / "s.trails", create=True) as store:
        session = store.create(id="plan", principal="alice", agent="planner")
        session.append("user", "Hello")
        session.persist()
        fork = session.fork(id="fork")
        fork.append("user", "Or not")
        fork.persist()
    folder, export = str(tmp_path / "s.trails"), tmp_path / "fork.nq"
    exported = CliRunner().invoke(main, ["--store", folder, "export", "fork", "--format", "nquads", "-o", str(export)])
    assert exported.exit_code == 0
    for name in (folder, str(export)):
        result = run(name, "--shapes")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "as the ontology says\n")
    export.write_text(export.read_text().replace('<https://w3id.org/trails#role> "user"', '<urn:other> "user"'))
    result = run(str(export), "--shapes")
    assert result.exit_code == 1
    assert "Every turn has one trails:role. (Turn-role)" in result.stdout
    value = json.loads(run(str(export), "--shapes", "--json").stdout)
    assert value["valid"] is False
    assert {each["shape"] for each in value["findings"]} == {"Turn-role"}


def test_shapes_are_for_rdf_alone_and_go_without_times(tmp_path: Path, circle: str) -> None:
    assert "shapes are for RDF" in run(circle, "--shapes").stderr
    assert run(circle, "--shapes", "--timed").exit_code == 2
    broken = tmp_path / "broken.ttl"
    broken.write_text("<a")
    result = run(str(broken), "--shapes")
    assert (result.exit_code, "is not Turtle" in result.stderr) == (2, True)
