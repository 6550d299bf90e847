"""The benchmarks run: every scenario at a tiny size gives the documented JSON. Nothing here looks at a duration."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import trails
from benchmarks import __main__ as benchmarks
from benchmarks import asking, peers, rendering
from benchmarks.data import agent_messages
from benchmarks.harness import Result, Setting
from benchmarks.peers.lines import JsonLines
from benchmarks.peers.peer import Peer, sqlite_durability
from benchmarks.scenarios import SCENARIOS, scale
from tests.support import clusters, sparql_servers

KINDS_AND_SIZES = [f"{kind} {size}" for kind in ("plain", "agent-like") for size in (400, 4000, 40000)]
SCALE = [
    "append",
    "list",
    *(f"search {text}" for text in ("a rare word", "two letters", "no hit")),
    "opening",
    "catalogue",
]
RESULTS_OF = {
    "append": [*(f"append-disk {of}" for of in KINDS_AND_SIZES), "append-process plain 400"],
    "load": [f"{what} {of}" for of in KINDS_AND_SIZES for what in ("load", "last")],
    "imports": ["imports"],
    "inspect": ["inspect-long", "inspect-many"],
    "space": [f"space {what} {kind}" for kind in ("plain", "agent-like") for what in ("disk", "appending", "loading")],
    "forks": ["fork", "ten-forks", "fork-memory"],
    "depth": ["depth"],
    "branches": ["branches"],
    "compare": ["compare"],
    "listing": ["listing"],
    "readers": ["readers"],
    "scale": [f"scale {what}" for what in SCALE],
    "event-loop": ["event-loop"],
    "serve": [f"serve {what}" for what in ("last", "append", "beside queries", "hostile", "pages")],
    "startup": ["startup"],
    "diff": ["diff tails plain", "diff tails agent-like", "diff"],
    "tree": ["tree"],
    "ledger": ["ledger"],
    "rerun": ["rerun"],
    "durable": ["batches plain 1", "batches plain 10", "batches agent-like 1", "batches agent-like 10", "threads"],
    "opening": ["opening", "opening after a close", "opening after a kill"],
    "context": ["context-plain", "context-calls"],
    "prov": ["prov", "prov-validate"],
    "page": ["page"],
    "verify": ["verify plain", "verify agent-like"],
    "postgres": [f"postgres {what}" for what in ("append", "thin", "catching up", "load", "query", "writers")],
    "mirror": ["mirror once", "mirror following"],
}
KEYS = {*("name", "title", "baseline", "unit", "medians", "ratios", "durability", "missing", "counts", "targets")}

QUICK = ("branches", "listing")
"""The scenarios that `make test` runs; they differ in what they measure, and share what makes a report."""
SCENARIO_OR_SLOW = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in sorted(RESULTS_OF)]


@pytest.fixture(scope="module", params=SCENARIO_OR_SLOW)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """A scenario's name and the report of a tiny run of it alone, after a trip through JSON."""
    if request.param == "postgres":
        clusters.check_there()
    if request.param == "serve":
        pytest.importorskip("uvicorn")
    if request.param == "mirror":
        sparql_servers.check_there("oxigraph", sparql_servers.OXIGRAPH_MISSING)
    report = benchmarks.run("tiny", only=[request.param], seed=7, folder=tmp_path_factory.mktemp("bench"))
    return request.param, json.loads(json.dumps(report))


def test_every_scenario_is_tested_here() -> None:
    assert set(SCENARIOS) == set(RESULTS_OF)


@pytest.mark.slow
def test_a_report_says_when_where_and_with_what_it_was_measured(ran: tuple[str, dict[str, Any]]) -> None:
    _, report = ran
    assert set(report) == {"date", "command", "size", "seed", "machine", "versions", "results"}
    assert (report["size"], report["seed"]) == ("tiny", 7)
    assert set(report["machine"]) == {"python", "system", "cores", "load"}
    assert {"trails", "pyoxigraph"} <= set(report["versions"])


def test_a_scenario_gives_its_results_with_the_baseline_at_ratio_one(ran: tuple[str, dict[str, Any]]) -> None:
    name, report = ran
    assert [result["name"] for result in report["results"]] == RESULTS_OF[name]
    for result in report["results"]:
        assert set(result) == KEYS
        assert set(result["durability"]) <= set(result["medians"])
        assert set(result["ratios"]) == set(result["medians"])
        assert result["ratios"][result["baseline"]] == 1
        assert all(seconds > 0 for seconds in result["medians"].values())
        assert not set(result["missing"]) & set(result["medians"])
        for target in result["targets"]:
            assert set(target) == {"what", "value", "target", "unit", "met"}
            assert target["met"] is (target["value"] <= target["target"])


def test_a_report_reads_as_tables(ran: tuple[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    _, report = ran
    text = rendering.markdown(report)
    assert text.startswith("# Results\n")
    assert all(f"## {result['title']}\n" in text for result in report["results"])
    rendering.show(report)
    assert "baseline" in capsys.readouterr().out


@pytest.mark.slow
def test_ten_forks_of_one_turn_write_ten_turns_and_a_fork_at_most_twelve_quads(tmp_path: Path) -> None:
    report = benchmarks.run("tiny", only=["forks"], folder=tmp_path)
    counts = {name: count for result in report["results"] for name, count in result["counts"].items()}
    assert counts["turns written by ten forks of one turn"] == 10
    assert counts["quads of a fork's row"] <= 12


def test_a_peer_that_is_not_installed_is_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(folder: Path) -> Peer:
        raise ModuleNotFoundError("No module named 'absent'", name="absent")

    monkeypatch.setattr(peers, "PEERS", {peers.JSON_LINES: JsonLines, "somebody else": absent})
    found, missing = peers.installed(tmp_path)
    found[peers.JSON_LINES].close()
    assert missing == ["somebody else"]


@pytest.mark.slow
def test_the_command_writes_the_report_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = benchmarks.run("tiny", only=["branches"], folder=tmp_path)
    monkeypatch.setattr(benchmarks, "run", lambda *_, **__: fake)
    monkeypatch.setattr(benchmarks, "_RESULTS", tmp_path / "RESULTS.md")
    benchmarks.main(["--quick", "--only", "branches", "--json", str(tmp_path / "report.json"), "--record"])
    assert json.loads((tmp_path / "report.json").read_text()) == fake
    assert (tmp_path / "RESULTS.md").read_text() == rendering.markdown(fake)
    assert "branches()" in capsys.readouterr().out


@pytest.mark.parametrize("name", [peers.OURS, peers.JSON_LINES, "sqlite3, a table by hand"])
def test_who_takes_part_gives_back_all_turns_the_last_ones_and_none_of_a_forks(name: str, tmp_path: Path) -> None:
    peer = peers.reopened(name, tmp_path)
    texts = agent_messages(6, seed=1)
    peer.append(texts[:2])
    peer.fill(texts[2:])
    peer.fork(2, texts[:1])
    peer.close()
    again = peers.reopened(name, tmp_path)
    assert [said["content"] for said in again.load()] == [message.text for message in texts]
    last = [said["content"] if isinstance(said, dict) else said.content for said in again.last(2)]
    assert last == [texts[4].text, texts[5].text]
    again.close()


def test_a_commit_that_sqlite_leaves_to_the_system_is_called_not_synced(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "some.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        assert sqlite_durability(connection) == "synced (journal wal, synchronous full)"
        connection.execute("PRAGMA synchronous=NORMAL")
        assert sqlite_durability(connection) == "not synced (journal wal, synchronous normal)"


def test_agent_like_turns_are_half_calls_and_answers_with_model_and_usage_for_everybody() -> None:
    said = [message.plain() for message in agent_messages(8, seed=1, size=4_000)]
    assert ["tool_calls" in one or "tool_call_id" in one for one in said] == [False, True, True, False] * 2
    assert ["usage" in one for one in said] == [False, True, False, True] * 2
    assert {len(one["content"]) for one in said} == {4_000}


def test_a_query_that_is_given_up_counts_as_the_patience_and_the_others_are_asked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []

    def ended_at_b(folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        rounds.append(sorted(given))
        return {name: {"seconds": 0.5} for name in given if name < "b" or "b" not in given}

    monkeypatch.setattr(asking, "_answers", ended_at_b)
    assert asking.ask(tmp_path, {"a": {}, "b": {}, "c": {}}) == {"a": 0.5, "b": asking.PATIENCE, "c": 0.5}
    assert rounds == [["a", "b", "c"], ["c"]]


def test_a_large_store_that_is_given_is_copied_and_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    with trails.open(made, create=True) as store:
        store.create(id="one").persist()
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    seen: list[list[str]] = []

    def looked_at(setting: Setting, store: trails.Repository, what: str) -> Result:
        seen.append([record.id for record in store.list()])
        raise LookupError(what)

    monkeypatch.setattr(scale, "_appending", looked_at)
    with pytest.raises(LookupError, match="0 turns in 1 sessions"):
        benchmarks.run("tiny", only=["scale"], folder=tmp_path, large=made)
    assert seen == [["one"]]
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_partitions_are_measured_at_any_size(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import partitions

    clusters.check_there()
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # it sets it, and this sets it back
    partitions.main(["--rows", "300"])
    figures = dict(line.rsplit(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert len(figures) == 9
    assert 400 < float(figures["bytes a record"].replace(",", "")) < 1500
    assert 0.2 < float(figures["append, against an empty store"]) < 5
