"""The documents are true: what they show runs and gives what they show, and what they list is what there is."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from tests.test_queries import lint
from trails import queries, vocab
from trails.transcripts.formats import TRANSCRIPTS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def sample() -> Path:
    """A transcript that ships with the package."""
    found = sorted((Path(trails.__file__).parent / "_samples").rglob("*.jsonl"))
    return next(path for path in found if "subagents" not in path.parts)


# --- Python


def test_the_python_blocks_of_the_readme_give_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(sample(), tmp_path / "conversation.jsonl")
    source = "\n".join(blocks(README, "python"))
    test = doctest.DocTestParser().get_doctest(source, {}, "README.md", "README.md", 0)
    assert len(test.examples) > 40
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_a_python_block_has_nothing_that_is_not_run() -> None:
    for block in blocks(README, "python"):
        shown = [line for line in block.splitlines() if line.strip()]
        assert shown[0].startswith(">>> ")
    assert "```py\n" not in README


def test_a_store_that_was_put_back_to_an_earlier_state_is_found_by_its_log(tmp_path: Path) -> None:
    place, earlier = tmp_path / "a.trails", tmp_path / "earlier"
    with trails.open(place, create=True) as store:
        session = store.create(id="plan")
        session.append("user", "Plan a trip")
        session.persist()
    shutil.copytree(place / "quads", earlier)
    with trails.open(place) as store:
        session = store.load("plan")
        session.append("assistant", "Where to?")
        session.persist()
        assert store.verify().ok
    shutil.rmtree(place / "quads")
    shutil.copytree(earlier, place / "quads")
    with trails.open(place) as store:
        assert [finding.session_id for finding in store.verify().findings] == ["plan"]


def test_a_rewritten_session_passes_verify_and_has_another_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit that the README names: salts and times are fixed here, so that only the text can make a difference."""
    monkeypatch.setattr("trails.integrity.digests.new_salt", lambda: "00" * 16)
    moment, heads = datetime(2026, 3, 1, tzinfo=UTC), []
    for text in ("Plan a trip", "Plan a trip", "Plan a heist"):
        with trails.open(":memory:") as store:
            session = store.create(id="plan", created=moment)
            session.append("user", text, time=moment)
            session.append("assistant", "Where to?", time=moment)
            session.persist()
            assert store.verify().ok
            heads.append(session.head)
    assert heads[0] == heads[1] != heads[2]


# --- the command line


def commands_in(text: str) -> list[str]:
    return [
        line[2:] for block in blocks(text, "console") for line in block.splitlines() if line.startswith("$ trails ")
    ]


def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path: Path) -> None:
    commands = commands_in(README)
    if find_spec("cryptography") is None:  # the extra that the README names for these
        commands = [line for line in commands if not re.search(r"checkpoint|proof", line)]
    if find_spec("matplotlib") is None:
        commands = [line for line in commands if "--plot" not in line]
    script = "\n".join(["set -eu -o pipefail", f'trails() {{ "{sys.executable}" -m trails "$@"; }}', *commands])
    environment = {name: value for name, value in os.environ.items() if name != "TRAILS_STORE"}
    environment["PYTHONPATH"] = str(Path(trails.__file__).parents[1])
    done = subprocess.run(
        ["bash", "-xc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_readme_shows_every_command() -> None:
    import click

    from trails.cli import main

    shown = {line.split()[1] for line in commands_in(README)}
    assert shown == set(main.list_commands(click.Context(main)))


# --- the graph


def normal(quads: set[tuple[str, str, str, str]]) -> set[tuple[str, str, str, str]]:
    """Return quads as text without what is drawn by lot: digests, salts and the digest's part of a turn's IRI."""
    plain = set()
    for subject, predicate, value, graph in quads:
        drawn = predicate in (str(vocab.DIGEST), str(vocab.SALT), str(vocab.LEAF_SALT))
        plain.add((re.sub(r"/0-[0-9a-f]{16}>$", "/0>", subject), predicate, "" if drawn else value, graph))
    return plain


def as_text(quads: list[ox.Quad]) -> set[tuple[str, str, str, str]]:
    return {(str(q.subject), str(q.predicate), str(q.object), str(q.graph_name)) for q in quads}


def test_the_triples_of_the_readme_are_those_that_are_written() -> None:
    (shown,) = blocks(README, "trig")
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with trails.open(":memory:") as store:
        session = store.create(id="plan", principal="alice", agent="planner", created=moment)
        session.append("user", "Plan a trip", time=moment)
        session.persist()
        written = store.store.quads((None, None, None, None))
    assert normal(as_text(list(ox.parse(shown, format=ox.RdfFormat.TRIG)))) == normal(as_text(written))


def test_the_readme_lists_the_catalogue() -> None:
    (table,) = re.findall(
        r"^\| query \| parameters \| what it answers \|\n\|[-|]+\|\n((?:\|.*\n)+)", README, re.MULTILINE
    )
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) == len(table.splitlines())
    expected = []
    for query in queries.catalogue().values():
        names = [f"[{p.name}]" if p.optional else p.name for p in query.parameters]
        expected.append((query.name, ", ".join(names), query.purpose))
    assert rows == expected


def test_the_readme_lists_the_formats_that_can_be_imported() -> None:
    listed = re.findall(
        r"^- `([a-z-]+)`: .+$", README.partition("## Import and export")[2].partition("```")[0], re.MULTILINE
    )
    assert listed == [*(known.name for known in TRANSCRIPTS), "openclaw"]


# --- how the house is laid out


def layers_of_the_contract() -> list[set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = [each for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    return [set(re.split(r"\s*[|:]\s*", layer)) for layer in contract["layers"]]


def test_the_layers_of_contributing_are_those_of_the_contract() -> None:
    table = re.findall(r"^\| (`.*?`) \|", CONTRIBUTING, re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in table] == layers_of_the_contract()


def test_every_layer_of_the_contract_is_there() -> None:
    package = Path(trails.__file__).parent
    for layer in layers_of_the_contract():
        for name in layer:
            assert (package / name).is_dir() or (package / f"{name}.py").is_file(), name


def test_the_example_of_a_query_file_keeps_the_rules_and_answers() -> None:
    (text,) = blocks(CONTRIBUTING, "sparql")
    query = queries.parse("example", "catalogue", text)
    assert lint(query) == []
    with trails.open(":memory:") as store:
        for name in ("one", "two", "three"):
            session = store.create(id=name)
            session.append("user", "hello")
            session.append("assistant", "hi")
            session.persist()
        rows: Any = store.store.query(query.bind(session="two", role="assistant"))
        assert [int(row["index"].value) for row in rows] == [1]
        rows = store.store.query(query.bind(session="two"))
        assert [int(row["index"].value) for row in rows] == [0, 1]


# --- files


@pytest.mark.parametrize("document", [README, CONTRIBUTING, CHANGELOG], ids=["README", "CONTRIBUTING", "CHANGELOG"])
def test_a_document_names_no_make_target_that_is_not_there(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^\$ )make ([a-z-]+)", document, re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("document", [README, CONTRIBUTING, CHANGELOG], ids=["README", "CONTRIBUTING", "CHANGELOG"])
def test_a_document_links_only_to_files_that_are_there(document: str) -> None:
    shipped = {"ontology/trails.ttl": queries.folder().parent / "ontology" / "trails.ttl"}
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document):
        assert shipped.get(target, ROOT / target).is_file(), target


def test_the_changelog_has_the_version_that_is_installed() -> None:
    assert re.search(rf"^## {re.escape(trails.__version__)}\b", CHANGELOG, re.MULTILINE)


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(trails.__file__).parent / "py.typed").is_file()
