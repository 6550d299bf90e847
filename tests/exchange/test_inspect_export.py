"""A session with its forks as a log of Inspect AI: branches as its own events, no message twice, and back again."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.inspect_logs import as_json, said, sample
from tests.support.pages import grown
from trails import Repository
from trails.exchange.exporters.session_family import SessionExport
from trails.exchange.file_import import export_session, import_bytes, import_path

LOGS = (
    "branches.json",
    "log_formats.json",
    "log_message_deduplication.eval",
    "log_tool_call_error.json",
    "odd_samples.eval",
    "sub_agents.json",
    "tools_epochs.eval",
    "websearch.eval",
)
_KEPT = ("role", "text", "model", "usage", "time", "call", "tool_calls", "tool_results", "meta", "source_ids")


def log(store: Repository, session: str = "plan", *, forks: bool = True) -> tuple[Any, SessionExport]:
    out = io.BytesIO()
    report = export_session(store, session, "inspect", out, forks=forks)
    return json.loads(out.getvalue()), report


def asked(sample: Any) -> list[tuple[list[str], str]]:
    """What each model call of a sample was given and answered, as texts."""
    pool = sample["events_data"]["messages"]
    calls = [event for event in sample["events"] if event["event"] == "model"]
    given = [[pool[at]["content"] for first, end in call["input_refs"] for at in range(first, end)] for call in calls]
    return [(each, call["output"]["completion"]) for each, call in zip(given, calls, strict=True)]


def test_a_branch_is_a_span_after_an_anchor_at_the_last_message_that_it_shares(store: Repository) -> None:
    plan = store.create(id="plan", agent="planner")
    for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")):
        plan.append(role, text)
    plan.persist()
    other = plan.fork(at=2, id="other", label="second")
    other.append("user", "x")
    other.append("assistant", "y")
    other.persist()
    found, report = log(store)
    (sample,) = found["samples"]
    assert [message["content"] for message in sample["messages"]] == ["a", "b", "c", "d"]
    assert asked(sample) == [(["a"], "b"), (["a", "b", "c"], "d"), (["a", "b", "x"], "y")]
    assert len(sample["events_data"]["messages"]) == 6
    told = [(event["event"], event.get("type"), event.get("name")) for event in sample["events"]]
    assert told == [
        ("span_begin", "agent", "planner"),
        ("model", None, None),
        ("model", None, None),
        ("anchor", None, None),
        ("span_begin", "branch", "second"),
        ("branch", None, None),
        ("model", None, None),
        ("span_end", None, None),
        ("span_end", None, None),
    ]
    anchor, branch = sample["events"][3], sample["events"][5]
    assert anchor["anchor_id"] == branch["from_anchor"] == sample["messages"][1]["id"]
    assert (report.sessions, report.turns) == (("plan", "other"), 6)


def test_a_branch_that_begins_at_the_end_comes_in_as_a_fork_and_the_score_stays_with_what_it_is_of(
    memory: Repository,
) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "a")
    plan.append("assistant", "b")
    plan.persist()
    memory.score("plan", "accuracy", 0.5, by="agent:judge")
    later = plan
    for name in ("other", "further"):
        later = later.fork(id=name)
        later.append("user", name)
        later.append("assistant", f"{name} done")
        later.persist()
    told, _ = log(memory)
    with trails.open(":memory:") as there:
        import_bytes(there, json.dumps(told).encode())
        [root] = [record.id for record in there if record.parent_session_id is None]
        assert sorted([turn.text for turn in there.load(record.id).turns] for record in there) == [
            ["a", "b"],
            ["a", "b", "other", "other done"],
            ["a", "b", "other", "other done", "further", "further done"],
        ]
        assert [(score.name, score.value, len(there.load(root))) for score in there.scores(root)] == [
            ("accuracy", 0.5, 2)
        ]
        back, _ = log(there, root)
        assert [m["content"] for m in back["samples"][0]["messages"]] == ["a", "b"]


def test_what_no_model_answered_in_a_branch_stands_in_an_info_event_and_is_counted(memory: Repository) -> None:
    grown(memory)
    found, report = log(memory)
    (info,) = [event for event in found["samples"][0]["events"] if event["event"] == "info"]
    assert info["data"]["session"] == "deep"
    assert [message["content"] for message in info["data"]["unanswered"]] == ["y"]
    assert report.left_out[1:] == ("1 turn: of branches, no model answered, so in `info` events",)


def test_calls_scores_usage_and_the_system_prompt_stand_where_inspect_has_them(memory: Repository) -> None:
    session = memory.create(id="plan", system="Be terse.", label="weather")
    session.append("user", "Oslo?")
    call = {"id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    session.append("assistant", "I look.", tool_calls=[call], model="m/1", usage=usage)
    session.append("tool", "no", tool_call_id="c1", is_error=True)
    session.persist()
    memory.score("plan", "accuracy", 0.5, by="agent:judge", reason="half")
    found, _ = log(memory)
    (sample,) = found["samples"]
    assert (found["eval"]["task"], found["eval"]["model"]) == ("weather", "m/1")
    assert [(m["role"], m["content"]) for m in sample["messages"]] == [
        ("system", "Be terse."),
        ("user", "Oslo?"),
        ("assistant", "I look."),
        ("tool", "no"),
    ]
    assert sample["messages"][2]["tool_calls"] == [
        {"id": "c1", "function": "weather", "arguments": {"city": "Oslo"}, "type": "function"}
    ]
    assert sample["messages"][3]["error"] == {"type": "unknown", "message": "no"}
    (tool,) = [event for event in sample["events"] if event["event"] == "tool"]
    assert (tool["id"], tool["function"], tool["arguments"], tool["result"]) == (
        "c1",
        "weather",
        {"city": "Oslo"},
        "no",
    )
    assert sample["model_usage"] == {"m/1": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}}
    score = sample["scores"]["accuracy"]
    (state,) = score["history"]
    assert (score["value"], state["provenance"]["author"], state["provenance"]["reason"]) == (
        0.5,
        "agent:judge",
        "half",
    )


@pytest.mark.parametrize("name", LOGS)
def test_samples_that_came_in_go_back_and_come_in_again_the_same(shared: Path, memory: Repository, name: str) -> None:
    import_path(memory, shared / "data" / "research" / "inspect" / name)
    trees = memory.forest().trees
    assert trees
    for tree in trees:
        out = io.BytesIO()
        export_session(memory, tree.node.id, "inspect", out, forks=True)
        with trails.open(":memory:") as again:
            import_bytes(again, out.getvalue())
            assert kept(again, tree.node.id) == kept(memory, tree.node.id)


def kept(store: Repository, root: str) -> list[Any]:
    """Where each session of a tree stands, and what its turns say."""
    return [
        (
            twig.depth,
            twig.node.id,
            twig.node.relation,
            twig.node.forked_at,
            [[getattr(turn, name) for name in _KEPT] for turn in store.load(twig.node.id).turns],
            [(each.name, each.value, each.by, each.reason, each.time) for each in store.scores(twig.node.id)],
        )
        for twig in store.forest(root)
    ]


def test_inspects_own_reader_opens_it(memory: Repository, tmp_path: Path) -> None:
    logs = pytest.importorskip("inspect_ai.log", reason="pip install inspect_ai")
    grown(memory)
    file = tmp_path / "plan.json"
    with file.open("wb") as out:
        export_session(memory, "plan", "inspect", out, forks=True)
    read = logs.read_eval_log(str(file))
    assert [message.text for message in read.samples[0].messages] == ["a", "b", "c"]
    assert [[m.text for m in event.input] for event in read.samples[0].events if event.event == "model"] == [["a", "b"]]


def test_edits_of_a_score_and_its_criteria_come_back_with_their_authors(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("user", "a")
    session.append("assistant", "b")
    session.persist()
    memory.score("plan", "judge.tone", 0.5, by="agent:judge", reason="dry")
    memory.score("plan", "judge.tone", 0.75, by="alice", reason="not so dry")
    memory.score("plan", "kind", "short", by="bob")
    out = io.BytesIO()
    export_session(memory, "plan", "inspect", out)
    scores = json.loads(out.getvalue())["samples"][0]["scores"]
    assert {name: score["value"] for name, score in scores.items()} == {"judge": {"tone": 0.75}, "kind": "short"}
    with trails.open(":memory:") as again:
        (made,) = import_bytes(again, out.getvalue()).sessions_created
        found = [(each.name, each.value, each.by, each.reason) for each in again.scores(made)]
    assert sorted(found) == [
        ("judge.tone", 0.5, "judge", "dry"),
        ("judge.tone", 0.75, "alice", "not so dry"),
        ("kind", "short", "bob", None),
    ]


def test_an_answer_whose_call_a_log_names_oddly_goes_back_as_it_was(memory: Repository) -> None:
    answer = {"role": "tool", "id": "m2", "content": "2 C", "tool_call_id": ["c1"]}
    import_bytes(memory, as_json(sample([said("user", "hi", "m1"), answer])))
    found, _ = log(memory, "inspect:ev:1:1")
    assert found["samples"][0]["messages"][1]["tool_call_id"] == ["c1"]
