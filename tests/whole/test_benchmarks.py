"""The benchmarks run: every scenario at a tiny size gives the documented JSON. Nothing here looks at a duration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import peers, rendering
from benchmarks.scenarios import SCENARIOS

RESULTS_OF = {
    "append": ["append-disk", "append-process"],
    "load": ["load plain", "last plain", "load agent-like", "last agent-like"],
    "forks": ["fork", "ten-forks", "fork-memory"],
    "depth": ["depth"],
    "branches": ["branches"],
    "compare": ["compare"],
    "listing": ["listing"],
    "readers": ["readers"],
    "event-loop": ["event-loop"],
    "startup": ["startup"],
    "diff": ["diff"],
    "tree": ["tree"],
    "ledger": ["ledger"],
    "durable": ["batches", "threads", "opening"],
    "context": ["context-plain", "context-calls"],
    "prov": ["prov", "prov-validate"],
}


QUICK = ("branches", "listing", "load")
"""The scenarios that `make test` runs; they differ in what they measure, and share what makes a report."""
SCENARIO_OR_SLOW = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in sorted(RESULTS_OF)]


@pytest.fixture(scope="module", params=SCENARIO_OR_SLOW)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """A scenario's name and the report of a tiny run of it alone, after a trip through JSON."""
    report = benchmarks.run("tiny", only=[request.param], seed=7, folder=tmp_path_factory.mktemp("bench"))
    return request.param, json.loads(json.dumps(report))


def test_every_scenario_is_tested_here() -> None:
    assert set(SCENARIOS) == set(RESULTS_OF)


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
        assert set(result) == {"name", "title", "baseline", "medians", "ratios", "missing", "counts", "targets"}
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
    def absent(folder: Path) -> peers.Peer:
        raise ModuleNotFoundError("No module named 'absent'", name="absent")

    monkeypatch.setattr(peers, "PEERS", {peers.JSON_LINES: peers.JsonLines, "somebody else": absent})
    found, missing = peers.installed(tmp_path)
    found[peers.JSON_LINES].close()
    assert missing == ["somebody else"]


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
