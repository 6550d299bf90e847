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
from trails.audit.agent_definitions import agent_definitions
from trails.integrity.signed_notes import new_key
from trails.model.values import Call

NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
SIGNER, KEY = new_key("example.com/log")


def filled(store: trails.Repository, system: str | None = None) -> None:
    """Three turns of plan, one call of a model and one of a tool; one turn of a fork, by a model that is not named."""
    plan = store.create(id="plan", principal="alice", agent="planner", label="trip", created=NOON)
    plan.append("user", "A secret trip", time=NOON)
    if system is not None:
        plan.set_system(system)
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
    return packed(None)


@pytest.fixture(scope="module")
def prompted() -> dict[str, bytes]:
    """The same; plan had a system prompt from turn 1 on. Its fork began there, and had it, too."""
    return packed("Plan trips by train")


def packed(system: str | None) -> dict[str, bytes]:
    with trails.open(":memory:") as store:
        filled(store, system)
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
            each["actionStatus"].rpartition("/")[2],
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
    assert {each["@id"] for each in graph["./"]["mentions"]} == {"#trails", *(each["@id"] for each in actions)}


def test_it_names_every_other_file_and_holds_no_text_of_a_turn(files: dict[str, bytes]) -> None:
    graph = entities(files)
    assert {each["@id"] for each in graph["./"]["hasPart"]} == files.keys() - {"ro-crate-metadata.json"}
    assert b"secret" not in files["ro-crate-metadata.json"]
    assert b"Zermatt" not in files["ro-crate-metadata.json"]
    assert graph["urn:trails:session:dinner"]["isBasedOn"] == {"@id": "urn:trails:session:plan"}


def test_a_session_without_a_system_prompt_has_no_workflow(files: dict[str, bytes]) -> None:
    assert "agents.json" not in files
    root = entities(files)["./"]
    assert (root["conformsTo"], "mainEntity" in root) == ({"@id": "https://w3id.org/ro/wfrun/process/0.5"}, False)


def test_system_prompts_are_the_workflow_by_which_sessions_ran(prompted: dict[str, bytes]) -> None:
    [plan] = json.loads(prompted["agents.json"])["sessions"]
    assert (plan["session"], plan["agent"]) == ("plan", "planner")
    [prompt] = plan["prompts"]
    assert {name: prompt[name] for name in ("version", "effective_from", "text")} == {
        "version": 1, "effective_from": 1, "text": "Plan trips by train",
    }  # fmt: skip
    graph = entities(prompted)
    assert graph["./"]["mainEntity"] == {"@id": "agents.json"}
    assert [each["@id"].partition("/ro/")[2] or each["@id"] for each in graph["./"]["conformsTo"]] == [
        "wfrun/process/0.5", "wfrun/workflow/0.5", "https://w3id.org/workflowhub/workflow-ro-crate/1.0",
    ]  # fmt: skip
    runs = [each for each in graph.values() if each.get("instrument") == {"@id": "agents.json"}]
    assert [(each["name"], each["result"]["@id"], graph[each["agent"]["@id"]]["name"]) for each in runs] == [
        ("run of dinner", "urn:trails:session:dinner", "alice"),
        ("run of plan", "urn:trails:session:plan", "alice"),
    ]
    assert b"by train" not in prompted["ro-crate-metadata.json"]


def test_a_prompt_under_which_nothing_was_answered_is_no_workflow() -> None:
    with trails.open(":memory:") as store:
        plan = store.create(id="plan", created=NOON)
        plan.append("assistant", "Hello", time=NOON)
        plan.set_system("From now on")
        plan.persist()
        report = audit(store, time=NOON)
        graph = entities(evidence_pack.make_pack(store, report))
    assert (graph["agents.json"]["@type"], "mainEntity" in graph["./"]) == ("File", False)


def test_a_prompt_that_the_records_hold_encrypted_is_not_shown(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    with trails.open(tmp_path / "store", create=True, keys=keys) as store:
        store.create(id="plan", system="A secret trip").persist()
        made = agent_definitions(store, ["plan"]) or b""
    [prompt] = json.loads(made)["sessions"][0]["prompts"]
    assert (prompt["version"], prompt["text"], b"secret" in made) == (1, None, False)


def test_each_file_is_described_and_has_its_size_where_that_is_known(prompted: dict[str, bytes]) -> None:
    parts = [each for each in entities(prompted).values() if "File" in each["@type"]]
    assert all(each["description"] for each in parts)
    told = {each["@id"]: each.get("contentSize") for each in parts}
    made_later = {"manifest.json": None, "manifest.note": None}
    assert told == {name: str(len(data)) for name, data in prompted.items() if name in told} | made_later


def test_every_name_in_it_that_is_not_an_address_is_described(files: dict[str, bytes]) -> None:
    graph = entities(files)
    named = set()
    for entity in graph.values():
        for value in entity.values():
            named |= {each["@id"] for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)}
    outside = {each for each in named if each.startswith(("http://schema.org/", "https://w3id.org/ro/crate/"))}
    assert named - outside <= graph.keys()


@pytest.mark.parametrize(
    ("system", "profiles"),
    [
        (None, ("ro-crate-1.2", "process-run-crate-0.5")),
        ("By train", ("ro-crate-1.2", "workflow-run-crate-0.5")),
    ],
)
def test_roc_validator_finds_nothing_that_is_required(
    system: str | None, profiles: tuple[str, ...], tmp_path: Path
) -> None:
    """In an environment of its own: `make crates`. With a profile it checks all that this one builds upon."""
    python = os.environ.get("TRAILS_CRATES")
    if python is None:
        pytest.skip("TRAILS_CRATES names no interpreter with roc-validator and rocrate: make crates")
    files = packed(system)
    evidence_pack.write_pack(files, tmp_path / "pack", NOON.isoformat())
    program = Path(__file__).parents[1] / "support" / "validate_crate.py"
    command = [python, str(program), str(tmp_path / "pack"), *profiles]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["issues"] == {profile: [] for profile in profiles}
    assert (len(said["actions"]), said["files"]) == (3 if system is None else 5, len(files) - 1)
