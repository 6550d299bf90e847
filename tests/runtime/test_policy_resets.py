"""When conversations start anew: the shared cases in three time zones, each rule by hand, and what always holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.session_cases import each, load
from trails import InvalidInput
from trails.runtime.policy import (
    ResetConfig,
    ResetPolicy,
    ResetRule,
    Trigger,
    freshness,
    from_ms,
    is_thread_message,
    last_local_hour,
    policy_for,
    reset_policy,
    reset_trigger,
    reset_type,
    to_ms,
)

RULES = load("openclaw_reset_policy")
ZONES = [load(f"openclaw_freshness_{zone}") for zone in ("UTC", "Europe_Berlin", "America_Los_Angeles")]
MOMENTS = [{**case, "zone": zone["timezone"]} for zone in ZONES if zone for case in zone["cases"]]


def read(policy: dict[str, Any]) -> ResetPolicy:
    return ResetPolicy(mode=policy["mode"], at_hour=policy["atHour"], idle_minutes=policy.get("idleMinutes"))


def test_the_shared_cases_are_all_there(shared: Path) -> None:
    assert (shared / "cases" / "openclaw_reset_policy.json").is_file()
    assert len(RULES["policy"]) == 14
    assert len(MOMENTS) == 33


@each(RULES.get("policy", []), lambda case: f"{case['resetType']} {case['sessionCfg']} {case['resetOverride'] or ''}")
def test_a_shared_case_of_reset_policies_holds(case: Any) -> None:
    override = None if case["resetOverride"] is None else ResetRule.from_json(case["resetOverride"])
    found = reset_policy(ResetConfig.from_json(case["sessionCfg"]), case["resetType"], override=override)
    assert found == read(case["expected"])


@each(RULES.get("reset_type", []), lambda case: case["input"])
def test_a_shared_case_of_types_holds(case: Any) -> None:
    given = case["input"]
    flags = {"is_group": given.get("isGroup", False), "is_thread": given.get("isThread", False)}
    assert reset_type(given["sessionKey"], **flags) == case["expected"]


@each(RULES.get("thread_flag", []), lambda case: case["input"])
def test_a_shared_case_of_thread_messages_holds(case: Any) -> None:
    given = case["input"]
    found = is_thread_message(
        given["sessionKey"],
        message_thread_id=given.get("messageThreadId"),
        thread_label=given.get("threadLabel"),
        thread_starter_body=given.get("threadStarterBody"),
        parent_session_key=given.get("parentSessionKey"),
    )
    assert found is case["expected"]


@each(MOMENTS, lambda case: f"{case['zone']} {case['nowLocal']} after {case['updatedLocal']} {case['policy']}")
def test_a_shared_case_of_freshness_holds(case: Any) -> None:
    found = freshness(case["updatedMs"], case["nowMs"], read(case["policy"]), zone=case["zone"])
    expected = case["expected"]
    assert found.fresh is expected["fresh"]
    assert found.daily_reset_at == expected["dailyResetAtMs"]
    assert found.idle_expires_at == expected["idleExpiresAtMs"]
    place = ZoneInfo(case["zone"])
    local = [datetime.fromisoformat(case[name]).replace(tzinfo=place) for name in ("updatedLocal", "nowLocal")]
    assert freshness(local[0], local[1], read(case["policy"]), zone=place) == found


# --- the rules of a configuration


def test_a_types_rule_comes_before_the_general_one_and_a_channels_replaces_both() -> None:
    config = ResetConfig.from_json(
        {
            "reset": {"mode": "daily", "atHour": 6},
            "resetByType": {"group": {"mode": "idle", "idleMinutes": 30}, "direct": {"atHour": 9}},
            "resetByChannel": {"Discord": {"mode": "idle", "idleMinutes": 10080}},
            "idleMinutes": 500,
        }
    )
    assert policy_for(config, "agent:main:slack:group:1") == ResetPolicy(mode="idle", at_hour=6, idle_minutes=30)
    assert policy_for(config, "agent:main:main") == ResetPolicy(mode="daily", at_hour=9, idle_minutes=500)
    assert policy_for(config, "agent:main:slack:group:1:thread:2").at_hour == 6
    assert policy_for(config, "agent:main:discord:group:1", channel=" discord ") == ResetPolicy(
        mode="idle", at_hour=4, idle_minutes=10080
    )
    assert policy_for(None, None) == ResetPolicy(mode="daily", at_hour=4)


@pytest.mark.parametrize(
    ("session", "path"),
    [
        ({"reset": {"mode": "weekly"}}, "session.reset.mode"),
        ({"reset": {"hour": 4}}, "session.reset.hour"),
        ({"reset": {"overrides": {}}}, "resetByType"),
        ({"reset": []}, "session.reset"),
        ({"reset": {"idleMinutes": "30"}}, "session.reset.idleMinutes"),
        ({"resetByType": {"groups": {}}}, "session.resetByType.groups"),
        ({"resetByType": {"dm": {}, "direct": {}}}, "both dm and direct"),
        ({"resetByChannel": {"discord": {"mode": "x"}}}, "session.resetByChannel.discord.mode"),
        ({"resetByChannel": {"a": {}, " A ": {}}}, "twice"),
        ({"resetTriggers": "/new"}, "session.resetTriggers"),
        ({"resetTriggers": [1]}, "session.resetTriggers[0]"),
        ({"idleMinutes": True}, "session.idleMinutes"),
    ],
)
def test_a_bad_rule_is_refused_by_its_path(session: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ResetConfig.from_json(session)
    assert path in str(refused.value)


# --- the clocks of a place; the expected times are read off a calendar


@pytest.mark.parametrize(
    ("zone", "now", "hour", "expected"),
    [
        # 29 March 2026: 02:00 is skipped in Berlin, so that the day's 02:00 is 03:00 there.
        ("Europe/Berlin", "2026-03-29T05:00:00+02:00", 2, "2026-03-29T03:00:00+02:00"),
        # Before it, JavaScript goes a day back from 03:00, not from 02:00.
        ("Europe/Berlin", "2026-03-29T01:30:00+01:00", 2, "2026-03-28T03:00:00+01:00"),
        # 25 October 2026: 02:00 comes twice; the first one counts.
        ("Europe/Berlin", "2026-10-25T02:30:00+01:00", 2, "2026-10-25T02:00:00+02:00"),
        ("Europe/Berlin", "2026-10-25T02:00:00+02:00", 2, "2026-10-25T02:00:00+02:00"),
        ("Europe/Berlin", "2026-10-26T01:00:00+01:00", 4, "2026-10-25T04:00:00+01:00"),
        # Half an hour is skipped on Lord Howe Island; 02:00 becomes 02:30.
        ("Australia/Lord_Howe", "2026-10-04T09:00:00+11:00", 2, "2026-10-04T02:30:00+11:00"),
        # Samoa had no 30 December 2011: going back a day from the 31st lands after the gap, on the 31st.
        ("Pacific/Apia", "2011-12-31T03:00:00+14:00", 4, "2011-12-31T04:00:00+14:00"),
        ("Asia/Kathmandu", "2026-01-01T03:59:59+05:45", 4, "2025-12-31T04:00:00+05:45"),
    ],
)
def test_the_last_reset_is_that_of_a_local_javascript_date(zone: str, now: str, hour: int, expected: str) -> None:
    found = from_ms(last_local_hour(datetime.fromisoformat(now), hour, zone))
    assert found == datetime.fromisoformat(expected)


def test_moments_are_milliseconds_or_aware() -> None:
    assert to_ms(datetime(2026, 1, 18, 5, tzinfo=UTC)) == 1768712400000
    assert from_ms(1768712400000) == datetime(2026, 1, 18, 5, tzinfo=UTC)
    for wrong in (datetime(2026, 1, 1), 1.5, True, "now"):  # noqa: DTZ001
        with pytest.raises(InvalidInput):
            to_ms(wrong)  # type: ignore[arg-type]
    for far in (10**18, -(10**18)):
        with pytest.raises(InvalidInput):
            from_ms(far)
    with pytest.raises(InvalidInput):
        last_local_hour(to_ms(datetime(1, 1, 1, 1, tzinfo=UTC)), 4)
    for zone in ("Mars/Olympus", "../etc/passwd", ""):
        with pytest.raises(InvalidInput):
            last_local_hour(0, 4, zone)


def test_idleness_ends_one_moment_after_the_last_minute() -> None:
    idle = ResetPolicy(mode="idle", idle_minutes=60)
    assert freshness(0, 3_600_000, idle).fresh
    assert not freshness(0, 3_600_001, idle).fresh
    assert freshness(0, 10**13, ResetPolicy(mode="idle")).fresh


# --- triggers


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("/new", Trigger(trigger="/new", remainder="")),
        ("  /RESET \n", Trigger(trigger="/reset", remainder="")),
        ("/New  Plan a TRIP", Trigger(trigger="/new", remainder="Plan a TRIP")),
        ("/new\nPlan", None),
        ("/newer", None),
        ("new", None),
        ("please /new", None),
        ("", None),
    ],
)
def test_a_trigger_is_the_whole_message_or_followed_by_a_space(body: str, expected: Trigger | None) -> None:
    assert reset_trigger(body, authorised=True) == expected
    assert reset_trigger(body, authorised=False) is None


def test_triggers_can_be_configured() -> None:
    triggers = ResetConfig.from_json({"resetTriggers": ["Neustart", ""]}).triggers
    assert reset_trigger("NEUSTART los", authorised=True, triggers=triggers) == Trigger(
        trigger="Neustart", remainder="los"
    )
    assert reset_trigger("/new", authorised=True, triggers=triggers) is None
    assert ResetConfig.from_json({"resetTriggers": []}).triggers == ("/new", "/reset")


# --- what always holds

TIMES = st.integers(0, 4_000_000_000_000)
POLICIES = st.builds(
    ResetPolicy,
    mode=st.sampled_from(["daily", "idle"]),
    at_hour=st.integers(0, 23),
    idle_minutes=st.none() | st.integers(1, 20_000),
)
PLACES = st.sampled_from(["UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "America/Sao_Paulo"])


@given(now=TIMES, earlier=TIMES, later=TIMES, policy=POLICIES, zone=PLACES)
def test_later_activity_is_at_least_as_fresh(
    *, now: int, earlier: int, later: int, policy: ResetPolicy, zone: str
) -> None:
    first, second = sorted((earlier, later))
    assert freshness(first, now, policy, zone=zone).fresh <= freshness(second, now, policy, zone=zone).fresh


@given(now=TIMES, hour=st.integers(0, 23), zone=PLACES)
def test_the_last_reset_lies_within_the_last_day_and_an_hour_or_two(now: int, hour: int, zone: str) -> None:
    at = last_local_hour(now, hour, zone)
    assert timedelta(0) <= from_ms(now) - from_ms(at) < timedelta(hours=26)
    assert from_ms(at).astimezone(ZoneInfo(zone)).second == 0
