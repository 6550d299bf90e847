"""What changed between two audits, counted by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import Run, ok, ok_json
from trails import Repository
from trails.audit import audit, evidence_pack

pytestmark = pytest.mark.any_store


@pytest.fixture
def audits(tmp_path: Path) -> Path:
    """Return a folder with two packs and two reports: between them plan grew, lost a text, and gone was deleted."""
    with trails.open(":memory:") as store:
        plan = store.create(id="plan", principal="ann")
        plan.append("assistant", "Yes", model="big-1", usage={"input_tokens": 1})
        plan.persist()
        store.create(id="gone", principal="ann").persist()
        _keep(store, tmp_path, "a", 1)
        store.delete("gone", by="ann")
        store.redact("plan", 0, by="ann")
        call = {"id": "c1", "name": "look", "arguments": {}}
        plan.append("assistant", "No", model="big-2", tool_calls=[call])  # without usage, and nothing answers the call
        plan.persist()
        store.create(id="new", principal="ann").persist()
        _keep(store, tmp_path, "b", 2)
        return tmp_path


def _keep(store: Repository, folder: Path, name: str, day: int) -> None:
    report = audit(store, time=datetime(2026, 1, day, tzinfo=UTC))
    (folder / f"{name}.json").write_text(json.dumps(report.to_dict()))
    evidence_pack.write_pack(evidence_pack.make_pack(store, report), folder / name, report.time)


def test_two_packs_tell_sessions_removals_models_tools_and_findings(run: Run, audits: Path) -> None:
    found: dict[str, Any] = ok_json(run("audit", "diff", audits / "a", audits / "b", "--json"))
    assert found["times"] == ["2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"]
    assert found["sessions"] == {"added": ["new"], "gone": ["gone"]}
    assert [(each["session"], each["turns"]) for each in found["changed"]] == [("plan", [1, 2])]
    assert found["models"] == {"added": ["big-2"], "gone": []}
    assert found["tools"] == {"added": ["look"], "gone": []}
    assert (len(found["removals"]["added"]), found["removals"]["gone"]) == (1, [])
    assert {each[1] for each in found["findings"]["added"]} >= {"incomplete-turns", "open-tool-calls"}
    assert found["findings"]["gone"] == []


def test_of_reports_models_tools_and_removals_are_unknown_and_not_none(run: Run, audits: Path) -> None:
    found = ok_json(run("audit", "diff", audits / "a.json", audits / "b", "--json"))
    assert (found["models"], found["tools"], found["removals"]) == (None, None, None)
    assert found["sessions"] == {"added": ["new"], "gone": ["gone"]}
    text = ok(run("audit", "diff", audits / "a.json", audits / "b"))
    assert "models: unknown, for a report has no records; compare two packs" in text
    assert "  ~ plan: 1 turns, then 2" in text


def test_the_same_audit_twice_has_no_change(run: Run, audits: Path) -> None:
    found = ok_json(run("audit", "diff", audits / "a", audits / "a", "--json"))
    assert found["changed"] == []
    assert all(
        found[name] == {"added": [], "gone": []} for name in ("sessions", "models", "tools", "removals", "findings")
    )


def test_audits_of_different_things_and_altered_reports_are_refused(run: Run, audits: Path) -> None:
    report = json.loads((audits / "a.json").read_text())
    (audits / "altered.json").write_text(json.dumps(report | {"lines": 99}))
    refused = run("audit", "diff", audits / "altered.json", audits / "b.json")
    assert (refused.exit_code, "was altered" in refused.stderr) == (1, True)
    with trails.open(":memory:") as store:
        store.create(id="plan").persist()
        (audits / "one.json").write_text(json.dumps(audit(store, "plan").to_dict()))
    other = run("audit", "diff", audits / "one.json", audits / "b.json")
    assert other.exit_code == 2
    assert "of different things, plan and the whole store" in other.stderr


def test_a_log_that_got_shorter_or_other_is_a_doubt_and_one_that_grew_is_none(run: Run, audits: Path) -> None:
    forth = ok_json(run("audit", "diff", audits / "a", audits / "b", "--json"))
    assert (forth["log_lines"][0] < forth["log_lines"][1], forth["doubt"]) == (True, None)
    assert "has fewer lines" in ok(run("audit", "diff", audits / "b", audits / "a"))
    for name in ("one", "two"):
        with trails.open(":memory:") as store:
            store.create(id="plan").persist()
            _keep(store, audits, name, 3)
    other = ok_json(run("audit", "diff", audits / "one", audits / "two", "--json"))
    assert other["log_lines"] == [1, 1]
    assert "has as many lines, and others" in other["doubt"]
