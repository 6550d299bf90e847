"""Sub-agents' runs: records, restarts, announcements and prompts. The shared cases, and each rule by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.clocks import START
from tests.support.session_cases import load
from trails.errors import RequestRefused
from trails.runtime.policy import (
    NO_REPLY,
    Parties,
    RunOutcome,
    RunStats,
    SpawnRequest,
    SubagentBrief,
    announce_context,
    announce_route,
    announce_text,
    archive_time,
    count_words,
    duration_words,
    message_context,
    reply_context,
    stats_line,
    subagent_prompt,
    usd_words,
)
from trails.runtime.runs.agent_tools import whole_seconds

REGISTRY = load("openclaw_subagent_registry")
JSON = dict[str, Any]
CHILD, MAIN = "agent:main:subagent:test", "agent:main:main"


# --- the shared cases


# --- records


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (None, 3600),
        (0.5, 60),
        (2.9, 120),
        (0, None),
        (-1, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_a_run_is_archived_after_an_hour_or_as_configured(minutes: float | None, expected: int | None) -> None:
    assert archive_time(START, minutes) == (None if expected is None else START + timedelta(seconds=expected))


# --- the spawn's parameters


def test_a_spawns_parameters_are_read() -> None:
    read = SpawnRequest.from_json(
        {
            "task": " look ",
            "label": "l",
            "agentId": "Beta One",
            "model": " m ",
            "thinking": "MAX",
            "runTimeoutSeconds": 2.9,
            "cleanup": "delete",
        }
    )
    assert read.model_dump() == {
        "task": "look",
        "label": "l",
        "agent_id": "beta-one",
        "model": "m",
        "thinking": "high",
        "run_timeout_seconds": 2,
        "cleanup": "delete",
    }
    plain = SpawnRequest.from_json({"task": "look", "timeoutSeconds": -5})
    assert (plain.run_timeout_seconds, plain.cleanup, plain.agent_id) == (0, "keep", None)


# --- announcing


@pytest.mark.parametrize(
    ("mode", "active", "expected"),
    [
        ("steer", True, "steer"),
        ("steer", False, "direct"),
        ("steer+backlog", True, "steer"),
        ("steer-backlog", True, "steer"),
        ("followup", True, "queue"),
        ("collect", True, "queue"),
        ("interrupt", True, "queue"),
        ("collect", False, "direct"),
        (None, True, "direct"),
        ("queue", True, "steer"),
    ],
)
def test_an_announcement_goes_by_the_queue_mode(mode: str | None, active: bool, expected: str) -> None:
    assert announce_route(mode, active=active) == expected


def test_an_announcement_says_what_ended_how_with_what_and_what_to_do() -> None:
    text = announce_text(
        task="look for trains",
        label="trains",
        outcome=RunOutcome(status="ok"),
        findings="Take the 9:05.",
        stats=RunStats(runtime_ms=65_000, input_tokens=1200, output_tokens=34, cost=0.012),
    )
    assert text.splitlines()[:6] == [
        'A background task "trains" just completed successfully.',
        "",
        "Findings:",
        "Take the 9:05.",
        "",
        "Stats: runtime 1m5s • tokens 1.2k (in 1.2k / out 34) • est $0.01",
    ]
    assert "Summarize this naturally for the user" in text
    assert NO_REPLY in text
    empty = announce_text(task="look", outcome=RunOutcome(status="timeout"), findings=" \n")
    assert empty.startswith('A background task "look" just timed out.\n\nFindings:\n(no output)\n')


def test_figures_are_short() -> None:
    expected = ["n/a", "n/a", "0s", "1s", "2s", "1m0s", "1h0m"]
    assert [duration_words(ms) for ms in (None, -5, 400, 1499, 1500, 59_999, 3_600_000)] == expected
    expected = ["0", "12", "1000", "1.0k", "1.1k", "12.3k", "1.3m"]
    assert [count_words(count) for count in (0, 12, 999.5, 1000, 1050, 12_345, 1_250_000)] == expected
    assert [usd_words(cost) for cost in (0.5, 12.345, 0.01, 0.00999)] == ["$0.50", "$12.35", "$0.01", "$0.0100"]
    assert stats_line(RunStats()) == "Stats: runtime n/a • tokens n/a"
    assert stats_line(RunStats(total_tokens=5)) == "Stats: runtime n/a • tokens 5"
    assert stats_line(RunStats(input_tokens=5)) == "Stats: runtime n/a • tokens 5 (in 5 / out 0)"


# --- prompts


def test_the_prompt_of_a_sub_agent_has_all_its_parts() -> None:
    brief = SubagentBrief(
        task="Find\n trains",
        child_session_key=CHILD,
        requester_session_key=MAIN,
        requester_channel="slack",
        label="trains",
    )
    prompt = subagent_prompt(brief)
    for line in (
        "# Subagent Context",
        "You are a **subagent** spawned by the main agent.",
        "- You were created to handle: Find trains",
        "- Complete this task. That's your entire purpose.",
        "## Rules",
        "1. Stay focused - Do your assigned task, nothing else",
        "2. Complete the task - Your final message will be reported to the main agent",
        "3. Don't initiate - No heartbeats, no proactive actions, no side quests",
        "- You do not start sub-agents",
        "- Label: trains",
        "- Requester session: agent:main:main",
        "- Requester channel: slack",
        "- Your session: agent:main:subagent:test",
    ):
        assert line in prompt.splitlines(), line
    assert prompt.splitlines()[0] == "# Subagent Context"


def test_a_sub_agent_without_a_task_is_told_to_look_at_its_first_message() -> None:
    prompt = subagent_prompt(SubagentBrief(child_session_key=CHILD))
    assert "- You were created to handle: the task that you are given" in prompt


def test_two_agents_are_told_who_they_are_and_how_to_stop() -> None:
    exchange = Parties(
        target_session_key="agent:b:main",
        requester_session_key="agent:a:main",
        requester_channel="slack",
        target_channel="x",
    )
    first = message_context(exchange)
    assert "agent:a:main" in first
    assert "agent:b:main" in first
    turn = reply_context(exchange, role="requester", turn=1, turns=5)
    assert "agent 1 (requester)" in turn
    assert "turn 1 of 5" in turn
    assert '"REPLY_SKIP"' in turn
    last = announce_context(exchange, original="Hi", first_reply="Hello", latest_reply=" ")
    assert "Original request: Hi" in last
    assert "First reply: Hello" in last
    assert "Latest reply: (not available)" in last
    assert '"ANNOUNCE_SKIP"' in last


@pytest.mark.parametrize(
    ("given", "kept"), [(0, 0), (-1, 0), (-0.5, 0), (1e-9, 1), (0.5, 1), (1, 1), (2.9, 2), (315_360_000, 315_360_000)]
)
def test_a_runs_time_is_floored_and_a_fraction_of_a_second_is_not_without_end(given: float, kept: int) -> None:
    assert SpawnRequest.from_json({"task": "look", "runTimeoutSeconds": given}).run_timeout_seconds == kept


@pytest.mark.parametrize("given", [315_360_001, 315_360_000.5, 10**12, 10**20, 1e300])
def test_a_run_of_more_than_ten_years_is_refused(given: float) -> None:
    with pytest.raises(RequestRefused, match=r"at most 315,360,000 \(ten years\)"):
        SpawnRequest.from_json({"task": "look", "runTimeoutSeconds": given})


@pytest.mark.parametrize("minutes", [10**10, 10**20, 1e300])
def test_a_run_is_archived_at_the_end_of_the_calendar_at_the_latest(minutes: float) -> None:
    assert archive_time(START, minutes) == datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


@pytest.mark.parametrize("given", [10**400, -(10**400), float("inf"), float("nan")])
def test_what_javascript_takes_for_infinite_is_no_number_of_seconds(given: float) -> None:
    with pytest.raises(RequestRefused, match="runTimeoutSeconds must be a number"):
        SpawnRequest.from_json({"task": "look", "runTimeoutSeconds": given})
    with pytest.raises(RequestRefused, match="timeoutSeconds must be a number"):
        whole_seconds(given)
    assert archive_time(START, given) is None
