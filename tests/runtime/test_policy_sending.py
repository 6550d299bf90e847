"""Who may send, answer, and talk to whom: the shared cases, each rule by hand, and what always holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.session_cases import each, load
from trails.errors import InvalidInput, RequestRefused
from trails.runtime.policy import (
    AgentToAgentPolicy,
    SendPolicy,
    SendRule,
    SpawnSettings,
    choose_model,
    ends_ping_pong,
    explain_send_policy,
    is_announce_skip,
    is_messaging_tool,
    is_reply_skip,
    ping_pong_order,
    ping_pong_turns,
    resolve_send_policy,
    should_respond,
    spawn_target,
)

SEND, A2A = load("openclaw_send_policy"), load("openclaw_a2a")
JSON = dict[str, Any]


def policy_of(config: JSON) -> SendPolicy | None:
    return SendPolicy.from_json((config.get("session") or {}).get("sendPolicy"))


def test_the_shared_cases_are_all_there(shared: Path) -> None:
    assert (shared / "cases" / "openclaw_send_policy.json").is_file()
    assert (len(SEND["cases"]), len(A2A["policy"]), len(A2A["ping_pong_turns"])) == (16, 13, 5)


@each(SEND.get("cases", []), lambda case: {name: case[name] for name in case if name not in ("origin", "expected")})
def test_a_shared_case_of_send_policies_holds(case: Any) -> None:
    found = resolve_send_policy(
        policy_of(case["cfg"]),
        entry=case.get("entry"),
        session_key=case.get("sessionKey"),
        channel=case.get("channel"),
        chat_type=case.get("chatType"),
    )
    assert found == case["expected"]


@each(A2A.get("policy", []), lambda case: f"{case['requester']} to {case['target']} {case['cfg']}")
def test_a_shared_case_of_agents_that_talk_holds(case: Any) -> None:
    policy = AgentToAgentPolicy.from_json((case["cfg"].get("tools") or {}).get("agentToAgent"))
    assert policy.allows(case["requester"], case["target"]) is case["expected"]


@each(A2A.get("ping_pong_turns", []), lambda case: case["maxPingPongTurns"])
def test_a_shared_case_of_turns_holds(case: Any) -> None:
    assert ping_pong_turns(case["maxPingPongTurns"]) == case["expected"]


# --- sending

DENY_DISCORD: JSON = {"rules": [{"action": "deny", "match": {"channel": "discord"}}]}


@pytest.mark.parametrize(
    "key",
    [
        "discord:group:dev",
        "agent:main:discord:group:dev",
        "agent:main:discord:channel:dev:thread:7",
        "agent:main:discord:dm:u1",
        "agent:main:discord:direct:u1",
        "agent:main:discord:work:dm:u1",
        "discord:dm:u1",
    ],
)
def test_a_deny_of_a_channel_fires_on_every_form_of_key(key: str) -> None:
    assert resolve_send_policy(SendPolicy.from_json(DENY_DISCORD), session_key=key) == "deny"
    direct = SendPolicy.from_json({"rules": [{"action": "deny", "match": {"channel": "discord", "chatType": "dm"}}]})
    assert (resolve_send_policy(direct, session_key=key) == "deny") is ("dm:" in key or "direct:" in key)


@pytest.mark.parametrize(
    "key", ["agent:main:main", "agent:main:slack:group:discord", "cron:discord", "agent:discord:main"]
)
def test_a_deny_of_a_channel_leaves_other_sessions_alone(key: str) -> None:
    assert resolve_send_policy(SendPolicy.from_json(DENY_DISCORD), session_key=key) == "allow"


def test_what_is_told_of_a_channel_comes_before_what_the_key_says() -> None:
    policy, key = SendPolicy.from_json(DENY_DISCORD), "agent:main:discord:group:dev"
    assert resolve_send_policy(policy, session_key=key, channel="Slack") == "allow"
    assert resolve_send_policy(policy, session_key=key, entry={"lastChannel": "slack"}) == "allow"
    assert resolve_send_policy(policy, session_key=key, entry={"channel": " ", "lastChannel": None}) == "deny"


def test_an_allow_of_a_channel_is_not_read_into_a_key_with_an_agent() -> None:
    policy = SendPolicy.from_json({"default": "deny", "rules": [{"action": "allow", "match": {"channel": "discord"}}]})
    assert resolve_send_policy(policy, session_key="discord:group:dev") == "allow"
    assert resolve_send_policy(policy, session_key="agent:main:discord:group:dev") == "deny"


def test_a_prefix_fits_the_whole_key_and_where_asked_the_one_without_its_agent() -> None:
    policy = SendPolicy.from_json({"rules": [{"action": "deny", "match": {"keyPrefix": "CRON:"}}]})
    assert resolve_send_policy(policy, session_key="cron:daily") == "deny"
    assert resolve_send_policy(policy, session_key="agent:main:cron:daily") == "allow"
    assert resolve_send_policy(policy, session_key="agent:main:cron:daily", strip_agent=True) == "deny"
    assert resolve_send_policy(policy, session_key="Cron:daily") == "allow"
    raw = SendPolicy.from_json({"rules": [{"action": "deny", "match": {"rawKeyPrefix": "agent:main:"}}]})
    assert resolve_send_policy(raw, session_key="agent:main:main") == "deny"
    assert resolve_send_policy(raw, session_key="main", strip_agent=True) == "allow"


def test_the_decision_says_what_decided() -> None:
    rules = [{"action": "allow"}, {"action": "deny", "match": {"chatType": "group"}}]
    policy = SendPolicy.from_json({"default": "deny", "rules": rules})
    assert explain_send_policy(policy, chat_type="GROUP") == ("deny", "rule", 1)
    assert explain_send_policy(policy) == ("allow", "rule", 0)
    assert explain_send_policy(policy, entry={"sendPolicy": "DENY"}) == ("deny", "override", None)
    assert explain_send_policy(policy, entry={"sendPolicy": "maybe"}) == ("allow", "rule", 0)
    assert explain_send_policy(SendPolicy(default="deny")) == ("deny", "default", None)
    assert explain_send_policy(None) == ("allow", "no policy", None)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"rules": {}}, "session.sendPolicy.rules"),
        ({"rules": ["deny"]}, "session.sendPolicy.rules[0]"),
        ({"rules": [{"action": "deny", "matches": {}}]}, "session.sendPolicy.rules[0].matches"),
        ({"rules": [{"action": "deny", "match": {"chanel": "x"}}]}, "session.sendPolicy.rules[0].match.chanel"),
        (
            {"rules": [{"action": "allow", "match": {"chatType": "crowd"}}]},
            "session.sendPolicy.rules[0].match.chatType",
        ),
        ({"rules": [{"action": "deny", "match": {"channel": 7}}]}, "session.sendPolicy.rules[0].match.channel"),
        ({"standard": "deny"}, "session.sendPolicy.standard"),
    ],
)
def test_a_mistyped_rule_is_refused_and_never_half_a_rule(value: JSON, path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        SendPolicy.from_json(value)
    assert path in refused.value.message


RULES = st.builds(
    SendRule,
    action=st.sampled_from(["allow", "deny"]),
    channel=st.none() | st.sampled_from(["discord", "slack"]),
    chat_type=st.none() | st.sampled_from(["direct", "group", "channel"]),
    key_prefix=st.none() | st.sampled_from(["agent:main", "cron:", "discord:"]),
)
POLICIES = st.builds(
    SendPolicy, default=st.sampled_from(["allow", "deny"]), rules=st.lists(RULES, max_size=4).map(tuple)
)
SESSIONS = st.fixed_dictionaries(
    {
        "session_key": st.sampled_from(
            ["agent:main:discord:group:1", "discord:channel:1", "cron:1", "agent:a:slack:dm:1", "agent:main:main", None]
        ),
        "channel": st.none() | st.sampled_from(["discord", "slack", " "]),
        "chat_type": st.none() | st.sampled_from(["dm", "group", "crowd"]),
        "strip_agent": st.booleans(),
    }
)


@given(policy=POLICIES, session=SESSIONS, rule=RULES, place=st.integers(0, 4))
def test_no_other_rule_undoes_one_that_denies(policy: SendPolicy, session: JSON, rule: SendRule, place: int) -> None:
    before = explain_send_policy(policy, **session)
    more = policy.model_copy(update={"rules": (*policy.rules[:place], rule, *policy.rules[place:])})
    after = explain_send_policy(more, **session)
    if (before.decision, before.by) == ("deny", "rule"):
        assert after.decision == "deny"
    if rule.action == "deny" and (before.decision, before.by) != ("deny", "rule"):
        assert (after.decision, after.by) in {(before.decision, before.by), ("deny", "rule")}


# --- answering in groups


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"chat_type": "direct"}, True),
        ({"chat_type": None}, True),
        ({"chat_type": "group"}, False),
        ({"chat_type": "channel"}, False),
        ({"chat_type": "group", "was_mentioned": True}, True),
        ({"chat_type": "group", "implicit_mention": True}, True),
        ({"chat_type": "group", "activation": " ALWAYS "}, True),
        ({"chat_type": "group", "activation": "never"}, False),
        ({"chat_type": "group", "default": "always"}, True),
        ({"chat_type": "group", "default": "always", "activation": "mention"}, False),
        ({"chat_type": "group", "can_detect_mention": False}, True),
        ({"chat_type": "group", "control_command": True, "command_authorised": True}, True),
        ({"chat_type": "group", "control_command": True}, False),
        ({"chat_type": "group", "control_command": True, "command_authorised": True, "has_any_mention": True}, False),
    ],
)
def test_an_agent_answers_in_a_group_as_its_activation_says(facts: JSON, expected: bool) -> None:
    assert should_respond(**facts) is expected


# --- tools


def test_messages_are_sent_by_core_tools_and_by_those_of_channels() -> None:
    assert [is_messaging_tool(name) for name in ("sessions_send", "message", " Telegram ", "exec", "Message")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert is_messaging_tool("matrix", channels=["matrix"])
    assert not is_messaging_tool("slack", channels=["matrix"])


# --- agents


def test_a_pattern_is_exact_or_has_runs_and_a_blank_one_names_nobody() -> None:
    policy = AgentToAgentPolicy.from_json({"enabled": True, "allow": ["", "  ", "Ops", "*-Bot", "a*b*c"]})
    names = ("Ops", "ops", "x-bot", "-BOT", "abc", "aXbXc", "acb", "anything")
    assert [policy.matches(name) for name in names] == [True, False, True, True, True, True, False, False]
    assert not AgentToAgentPolicy.from_json({"enabled": True, "allow": [" "]}).allows("a", "b")
    assert AgentToAgentPolicy.from_json({"enabled": True, "allow": "a"}).allows("a", "b")
    assert not AgentToAgentPolicy.from_json({"enabled": True, "allow": ["ab*bc"]}).matches("abc")


SPAWN = SpawnSettings.from_json(
    {
        "agents": {
            "defaults": {"subagents": {"model": {"primary": "small"}, "archiveAfterMinutes": 30, "maxConcurrent": 2}},
            "list": [
                {"id": "Main", "subagents": {"allowAgents": [" Alpha ", "beta"]}},
                {"id": "beta", "subagents": {"allowAgents": ["*"], "model": "large", "thinking": "low"}},
            ],
        }
    }
)


def test_another_agents_sub_agent_needs_leave() -> None:
    assert spawn_target("agent:main:main", settings=SPAWN) == "main"
    assert spawn_target("agent:main:main", " MAIN ", settings=SPAWN) == "main"
    assert spawn_target("agent:main:main", "alpha", settings=SPAWN) == "alpha"
    assert spawn_target("agent:beta:main", "anyone", settings=SPAWN) == "anyone"
    with pytest.raises(RequestRefused) as refused:
        spawn_target("agent:main:main", "gamma", settings=SPAWN)
    assert refused.value.message == "agentId is not allowed for sessions_spawn (allowed: alpha, beta)"
    assert refused.value.code == "FORBIDDEN"
    with pytest.raises(RequestRefused, match=r"\(allowed: none\)"):
        spawn_target("main", "beta")


@pytest.mark.parametrize("key", ["agent:main:subagent:1", "subagent:1", "agent:beta:dm:subagent:x"])
def test_a_sub_agent_starts_no_other(key: str) -> None:
    with pytest.raises(RequestRefused, match=r"^sessions_spawn is not allowed from sub-agent sessions \(trails guide"):
        spawn_target(key, settings=SPAWN)


def test_a_model_is_what_was_asked_for_then_the_agents_then_the_default() -> None:
    assert SPAWN.model_for("beta", " huge ") == "huge"
    assert SPAWN.model_for("beta") == "large"
    assert SPAWN.model_for("main") == "small"
    assert choose_model(None, None, None) is None
    expected = (30, 2, "low")
    assert (SPAWN.defaults.archive_after_minutes, SPAWN.defaults.max_concurrent, SPAWN.of("beta").thinking) == expected


@pytest.mark.parametrize(
    ("config", "path"),
    [
        (
            {"agents": {"list": [{"id": "a", "subagents": {"allowAgents": "b"}}]}},
            "agents.list[0].subagents.allowAgents",
        ),
        ({"agents": {"list": [{"id": "a", "subagents": {"allowAgents": [1]}}]}}, "allowAgents[0]"),
        ({"agents": {"defaults": {"subagents": {"model": {"primary": 1}}}}}, "agents.defaults.subagents.model.primary"),
        ({"agents": {"defaults": {"subagents": {"maxConcurrent": "2"}}}}, "agents.defaults.subagents.maxConcurrent"),
    ],
)
def test_bad_settings_of_sub_agents_are_refused_by_their_path(config: JSON, path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        SpawnSettings.from_json(config)
    assert path in refused.value.message


# --- two agents that answer each other


def test_the_requester_answers_first_and_roles_swap() -> None:
    order = ping_pong_order("agent:a:main", "agent:b:main", 3)
    assert [(turn.number, turn.role, turn.session_key, turn.partner_key) for turn in order] == [
        (1, "requester", "agent:a:main", "agent:b:main"),
        (2, "target", "agent:b:main", "agent:a:main"),
        (3, "requester", "agent:a:main", "agent:b:main"),
    ]
    assert len(ping_pong_order("agent:a:main", "agent:b:main", 99)) == 5
    for nobody in (None, "", "agent:b:main"):
        assert ping_pong_order(nobody, "agent:b:main", 5) == ()
    assert ping_pong_order("agent:a:main", "agent:b:main", 0) == ()


def test_only_the_exact_word_ends_or_silences() -> None:
    assert (is_reply_skip(" REPLY_SKIP\n"), is_reply_skip("reply_skip"), is_reply_skip(None)) == (True, False, False)
    assert (is_announce_skip("ANNOUNCE_SKIP"), is_announce_skip("ANNOUNCE_SKIP.")) == (True, False)
    expected = [True, True, True, False, False]
    assert [ends_ping_pong(reply) for reply in (None, " ", "REPLY_SKIP", "ANNOUNCE_SKIP", "yes")] == expected
