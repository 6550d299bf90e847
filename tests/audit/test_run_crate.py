"""A pack as an RO-Crate: who made what by which model and tool, and what roc-validator says of it."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import trails
from trails.audit import audit, evidence_pack
from trails.integrity.signed_notes import new_key
from trails.model.values import Call

NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
SIGNER, KEY = new_key("example.com/log")


def filled(store: trails.Repository) -> None:
    """Three turns of plan, one call of a model and one of a tool; one turn of a fork, by a model that is not named."""
    plan = store.create(id="plan", principal="alice", agent="planner", label="trip", created=NOON)
    plan.append("user", "A secret trip", time=NOON)
    calls = [{"id": "c1", "name": "weather", "arguments": {"place": "Zermatt"}}]
    started = datetime(2026, 4, 1, 11, 59, tzinfo=UTC)
    plan.append(
        "assistant", "I look.", model="m/1", tool_calls=calls, time=NOON, call=Call(started=started, ended=NOON)
    )
    plan.append("tool", "No answer", tool_results=[{"call_id": "c1", "is_error": True, "version": "2"}], time=NOON)
    plan.persist()
    fork = plan.fork(at=1, id="dinner", created=NOON)
    fork.append("assistant", "To dinner", time=NOON)
    fork.persist()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    with trails.open(":memory:") as store:
        filled(store)
        kept = store.proofs.checkpoint(SIGNER)
        report = audit(store, checkpoint=kept, verifiers=[KEY], time=NOON)
        first, second = (evidence_pack.make_pack(store, report, checkpoint=kept, signer=SIGNER) for _ in range(2))
        assert first == second
        return first


def entities(files: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    return {each["@id"]: each for each in json.loads(files["ro-crate-metadata.json"])["@graph"]}


def test_each_call_of_a_model_and_of_a_tool_is_an_action(files: dict[str, bytes]) -> None:
    graph = entities(files)
    actions = [each for each in graph.values() if each["@type"] == "CreateAction"]
    said = [
        (
            graph[each["instrument"]["@id"]]["name"],
            graph[each["object"]["@id"]]["position"],
            graph[each["result"]["@id"]]["name"],
            graph[each["agent"]["@id"]]["name"],
            each["actionStatus"]["@id"].rpartition("/")[2],
            each.get("startTime"),
            each["endTime"],
        )
        for each in actions
    ]
    noon = "2026-04-01T12:00:00+00:00"
    assert sorted(said, key=str) == [
        ("m/1", 0, "turn 1 of plan", "planner", "CompletedActionStatus", "2026-04-01T11:59:00+00:00", noon),
        ("planner", 0, "turn 1 of dinner", "planner", "CompletedActionStatus", None, noon),
        ("weather", 1, "turn 2 of plan", "planner", "FailedActionStatus", None, noon),
    ]
    assert {each["@id"] for each in graph["./"]["mentions"]} == {each["@id"] for each in actions}


def test_it_names_every_other_file_and_holds_no_text_of_a_turn(files: dict[str, bytes]) -> None:
    graph = entities(files)
    assert {each["@id"] for each in graph["./"]["hasPart"]} == files.keys() - {"ro-crate-metadata.json"}
    assert b"secret" not in files["ro-crate-metadata.json"]
    assert b"Zermatt" not in files["ro-crate-metadata.json"]
    assert graph["urn:trails:session:dinner"]["isBasedOn"] == {"@id": "urn:trails:session:plan"}


def test_every_name_in_it_that_is_not_an_address_is_described(files: dict[str, bytes]) -> None:
    graph = entities(files)
    named = set()
    for entity in graph.values():
        for value in entity.values():
            named |= {each["@id"] for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)}
    outside = {each for each in named if each.startswith(("http://schema.org/", "https://w3id.org/ro/crate/"))}
    assert named - outside <= graph.keys()


def test_roc_validator_finds_nothing_that_is_required(files: dict[str, bytes], tmp_path: Path) -> None:
    """RO-Crate 1.2 and Process Run Crate 0.5, in an environment of their own: `make crates`."""
    python = os.environ.get("TRAILS_CRATES")
    if python is None:
        pytest.skip("TRAILS_CRATES names no interpreter with roc-validator and rocrate: make crates")
    evidence_pack.write_pack(files, tmp_path / "pack", NOON.isoformat())
    program = Path(__file__).parents[1] / "support" / "validate_crate.py"
    done = subprocess.run([python, str(program), str(tmp_path / "pack")], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["issues"] == {"ro-crate-1.2": [], "process-run-crate-0.5": []}
    assert (len(said["actions"]), said["files"]) == (3, len(files) - 1)
