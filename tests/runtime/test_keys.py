"""Session keys: every shared case of the systems that use them, the taxonomy by hand, and what always holds."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.session_cases import each, load
from trails import InvalidInput
from trails.runtime import config_values as js
from trails.runtime import keys, policy
from trails.runtime.keys import KeySettings, build_key, build_peer_key, parse_key

Config = dict[str, Any]
KEYS, RPC, A2A = load("openclaw_session_keys"), load("openclaw_sessions_rpc"), load("openclaw_a2a")


# --- the shared cases; folding of opaque ids is what the systems of the cases did


def of_peer(given: Any) -> str:
    return keys.build_peer_key(
        agent_id=given["agentId"],
        channel=given["channel"],
        account_id=given.get("accountId"),
        peer_kind=given.get("peerKind"),
        peer_id=given.get("peerId"),
        main_key=given.get("mainKey"),
        dm_scope=given.get("dmScope"),
        identity_links=given.get("identityLinks"),
        fold_case=True,
    )


def of_thread(given: Any) -> Config:
    made = keys.thread_keys(
        given["baseSessionKey"],
        given.get("threadId"),
        parent_session_key=given.get("parentSessionKey"),
        use_suffix=given.get("useSuffix", True),
        fold_case=True,
    )
    return {"sessionKey": made.session_key, "parentSessionKey": made.parent_session_key}


def of_agent_key(given: Any) -> Config | None:
    found = keys.parse_agent_key(given)
    return None if found is None else {"agentId": found.agent_id, "rest": found.rest}


def of_group(given: Any) -> Config | None:
    found = keys.resolve_group_key(given, fold_case=True)
    if found is None:
        return None
    return {"key": found.key, "channel": found.channel, "id": found.id, "chatType": found.chat_type}


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "build_peer_key": of_peer,
    "normalize_agent_id": keys.normalize_agent_id,
    "normalize_account_id": keys.normalize_account_id,
    "normalize_main_key": keys.normalize_main_key,
    "is_subagent_key": keys.is_subagent_key,
    "is_acp_key": keys.is_acp_key,
    "parse_agent_key": of_agent_key,
    "thread_parent_key": keys.thread_parent_key,
    "thread_keys": of_thread,
    "to_store_key": lambda given: keys.to_store_key(
        given.get("requestKey"), agent_id=given["agentId"], main_key=given.get("mainKey"), fold_case=True
    ),
    "to_request_key": keys.to_request_key,
    "agent_id_from_key": keys.agent_id_from_key,
    "group_history_key": lambda given: keys.group_history_key(
        channel=given["channel"],
        account_id=given.get("accountId"),
        peer_kind=given["peerKind"],
        peer_id=given["peerId"],
        fold_case=True,
    ),
    "canonicalize_main_alias": lambda given: keys.canonicalize_main_alias(
        given["sessionKey"], agent_id=given["agentId"], config=given["cfg"]
    ),
    "main_session_key": keys.main_session_key,
    "resolve_group_key": of_group,
    "group_display_name": lambda given: keys.group_display_name(
        key=given["key"],
        provider=given.get("provider"),
        subject=given.get("subject"),
        group_channel=given.get("groupChannel"),
        space=given.get("space"),
        group_id=given.get("id"),
    ),
    "derive_session_key": lambda given: keys.derive_session_key(given["scope"], given["ctx"], fold_case=True),
    "resolve_session_key": lambda given: keys.resolve_session_key(
        given["scope"], given["ctx"], main_key=given.get("mainKey"), fold_case=True
    ),
}


def test_the_shared_cases_are_all_there(shared: Path) -> None:
    assert (shared / "cases" / "openclaw_session_keys.json").is_file()
    assert len(KEYS["cases"]) == 105
    assert {case["fn"] for case in KEYS["cases"]} <= set(FUNCTIONS)


@each(KEYS.get("cases", []), lambda case: f"{case['fn']} of {case['input']}")
def test_a_shared_case_of_session_keys_holds(case: Any) -> None:
    assert FUNCTIONS[case["fn"]](case["input"]) == case["expected"]


@each(RPC.get("canonical", []), lambda case: f"{case['input']} where {case['cfg']['session']}")
def test_a_shared_case_of_canonical_keys_holds(case: Any) -> None:
    assert keys.canonical_key(case["input"], case["cfg"]) == case["expected"]


@each(RPC.get("parse_group_key", []), lambda case: case[0])
def test_a_shared_case_of_group_keys_holds(case: Any) -> None:
    key, expected = case
    found = keys.parse_group_key(key)
    assert (None if found is None else found.model_dump()) == expected


@each(RPC.get("classify_key", []), lambda case: f"{case[0]} {case[1] or ''}")
def test_a_shared_case_of_kinds_in_lists_holds(case: Any) -> None:
    key, entry, expected = case
    assert keys.classify_key(key, entry) == expected


@each(A2A.get("session_kind", []), lambda case: case["key"])
def test_a_shared_case_of_kinds_for_tools_holds(case: Any) -> None:
    listed = case.get("gatewayKind")
    found = keys.session_kind(case["key"], alias=case["alias"], main_key=case["mainKey"], listed_kind=listed)
    assert found == case["expected"]


@each(A2A.get("session_ref_shape", []), lambda case: case["input"] or "nothing")
def test_a_shared_case_of_references_holds(case: Any) -> None:
    text, expected = case["input"], case["expected"]
    assert keys.looks_like_session_id(text) is expected["looksLikeSessionId"]
    assert keys.looks_like_session_key(text) is expected["looksLikeSessionKey"]
    assert keys.resolves_as_session_id(text) is expected["resolveAsSessionId"]


# --- building


def test_ids_that_differ_in_case_alone_are_two_people_unless_folding_is_asked_for() -> None:
    given: Config = {"channel": "signal", "peer_kind": "group"}
    assert build_peer_key(**given, peer_id="AbC=") != build_peer_key(**given, peer_id="abc=")
    assert build_peer_key(**given, peer_id="AbC=", fold_case=True) == "agent:main:signal:group:abc="
    links = {"alice": ["u1"]}
    assert build_peer_key(peer_id="U1", dm_scope="per-peer", identity_links=links) == "agent:main:dm:U1"
    assert (
        build_peer_key(peer_id="U1", dm_scope="per-peer", identity_links=links, fold_case=True) == "agent:main:dm:alice"
    )


def test_the_first_identity_link_in_order_of_declaration_wins() -> None:
    links = {"first": ["telegram:1"], "second": ["1"]}
    assert keys.linked_identity(links, "telegram", "1") == "first"
    assert keys.linked_identity(links, "signal", "1") == "second"
    assert keys.linked_identity(links, "signal", "2") is None
    assert build_peer_key(channel="telegram", peer_id="1", dm_scope="main", identity_links=links) == "agent:main:main"


def test_a_direct_chat_can_be_written_with_either_word() -> None:
    made = build_peer_key(channel="slack", peer_id="U1", dm_scope="per-channel-peer", direct_word="direct")
    assert made == "agent:main:slack:direct:U1"
    assert build_peer_key(peer_kind="direct", peer_id="U1", dm_scope="per-peer") == "agent:main:dm:U1"
    expected = ("agent:main:slack:direct:U1:thread:5", "agent:main:slack:dm:U1:thread:5")
    assert keys.spellings("agent:main:slack:direct:U1:thread:5") == expected


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: build_peer_key(peer_id="1", dm_scope="per-planet"),
        lambda: build_peer_key(peer_id="1", peer_kind="crowd"),
        lambda: keys.subagent_key("main", "  "),
        lambda: keys.cron_key(""),
        lambda: keys.hook_key(""),
        lambda: keys.group_history_key(channel="x", peer_kind="dm", peer_id="1"),
        lambda: keys.provider_key("whatsapp", "planet", "1"),
        lambda: keys.provider_key("cron", "dm", "1"),
        lambda: keys.provider_key("whatsapp", "main", "1"),
        lambda: keys.provider_key("internal", "dm", "1"),
        lambda: keys.provider_key("whatsapp", "dm", " "),
        lambda: keys.provider_to_session_key(keys.provider_key("internal", "main", "work")),
    ],
)
def test_a_key_that_would_say_nothing_is_refused(wrong: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput):
        wrong()


# --- parsing


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("agent:main:main", {"kind": "main", "agent_id": "main"}),
        ("main", {"kind": "main"}),
        ("global", {"kind": "global"}),
        ("unknown", {"kind": "unknown"}),
        ("agent:main:unknown", {"kind": "other", "agent_id": "main", "id": "unknown"}),
        (
            "agent:main:telegram:group:12345",
            {"kind": "group", "agent_id": "main", "channel": "telegram", "id": "12345"},
        ),
        ("discord:channel:C9", {"kind": "channel", "channel": "discord", "id": "C9"}),
        ("agent:a:dm:Bob", {"kind": "dm", "agent_id": "a", "id": "Bob", "direct_word": "dm"}),
        (
            "agent:a:slack:direct:x:y",
            {"kind": "dm", "agent_id": "a", "channel": "slack", "id": "x:y", "direct_word": "direct"},
        ),
        (
            "agent:a:slack:work:dm:Bob",
            {"kind": "dm", "agent_id": "a", "channel": "slack", "account_id": "work", "id": "Bob", "direct_word": "dm"},
        ),
        ("agent:a:dm:::1", {"kind": "dm", "agent_id": "a", "id": "::1", "direct_word": "dm"}),
        ("agent:a:subagent:p:subagent:c", {"kind": "subagent", "agent_id": "a", "id": "p:subagent:c", "depth": 2}),
        ("subagent:p", {"kind": "subagent", "id": "p"}),
        ("cron:daily", {"kind": "cron", "id": "daily"}),
        ("agent:ops:cron:daily:run:1", {"kind": "cron", "agent_id": "ops", "id": "daily:run:1"}),
        ("hook:github", {"kind": "hook", "id": "github"}),
        ("node-1", {"kind": "node", "id": "1"}),
        ("agent:main:acp:1", {"kind": "acp", "agent_id": "main", "id": "1"}),
        ("custom", {"kind": "other", "id": "custom"}),
        (
            "agent:m:slack:channel:c:thread:t",
            {
                "kind": "channel",
                "agent_id": "m",
                "channel": "slack",
                "id": "c",
                "thread_marker": "thread",
                "thread_id": "t",
                "parent": "agent:m:slack:channel:c",
            },
        ),
        (
            "agent:m:x:group:g:topic:1:thread:2",
            {
                "kind": "group",
                "agent_id": "m",
                "channel": "x",
                "id": "g",
                "thread_marker": "thread",
                "thread_id": "2",
                "parent": "agent:m:x:group:g:topic:1",
            },
        ),
    ],
)
def test_a_key_is_taken_apart(key: str, expected: Config) -> None:
    found = parse_key(key).model_dump(exclude_none=True)
    assert {"depth": 0, **expected, "text": key} == found
    assert build_key(parse_key(key)) == key


def test_the_name_of_the_main_session_is_read_as_one() -> None:
    assert parse_key("agent:ops:work").kind == "other"
    assert parse_key("agent:ops:work", main_key="Work").kind == "main"
    assert build_key(parse_key("agent:ops:main"), main_key="Work") == "agent:ops:work"


def test_structure_is_read_in_any_case_and_ids_are_kept() -> None:
    assert build_key(parse_key("agent:Ops:Telegram:GROUP:AbC")) == "agent:ops:telegram:group:AbC"
    assert keys.canonical_key("agent:Ops:main", {"session": {"mainKey": "work"}}) == "agent:ops:work"


@pytest.mark.parametrize(
    ("key", "depth", "may"),
    [
        ("agent:main:main", 0, True),
        ("agent:main:subagent:1", 1, False),
        ("agent:main:SUBAGENT:1:subagent:2", 2, False),
        ("subagent:1", 0, False),
        ("agent:main:dm:subagent:x", 1, False),
        (None, 0, True),
    ],
)
def test_no_sub_agent_spawns_at_any_depth(key: str | None, depth: int, may: bool) -> None:
    assert (keys.subagent_depth(key), keys.may_spawn(key)) == (depth, may)


def test_later_systems_read_the_word_agent_in_any_case() -> None:
    assert keys.parse_agent_key("AGENT:main:x") is None
    found = keys.parse_agent_key("AGENT:main:x", any_case=True)
    assert found is not None
    assert (found.agent_id, found.rest) == ("main", "x")


# --- names of keys


def test_names_of_the_main_session_lead_to_one_key() -> None:
    config = {"session": {"mainKey": "Work"}, "agents": {"list": [{"id": "a"}, {"id": "Ops", "default": True}]}}
    for name in ("main", "work", "agent:ops:main", "agent:ops:work", " main "):
        assert keys.canonical_key(name, config) == "agent:ops:work", name
    assert keys.is_main_key("main", config)
    assert keys.is_main_key("agent:a:main", config)
    assert not keys.is_main_key("agent:a:cron:main", config)
    everyone = {"session": {"scope": "global", "mainKey": "work"}}
    assert keys.canonical_key("work", everyone) == "global"
    assert keys.is_main_key("global", everyone)


def test_the_word_main_is_shown_for_the_main_session_and_understood_for_it() -> None:
    settings = KeySettings.from_json({"session": {"mainKey": "work"}})
    assert keys.display_key("work", alias=settings.alias, main_key=settings.main_key) == "main"
    assert keys.display_key("agent:x:y:z", alias=settings.alias, main_key=settings.main_key) == "agent:x:y:z"
    assert KeySettings(scope="global").alias == "global"


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"session": []}, "session"),
        ({"session": {"scope": "galaxy"}}, "session.scope"),
        ({"session": {"dmScope": "per-planet"}}, "session.dmScope"),
        ({"session": {"mainKey": 7}}, "session.mainKey"),
        ({"session": {"identityLinks": ["a"]}}, "session.identityLinks"),
        ({"agents": {"list": {"id": "a"}}}, "agents.list"),
        ({"agents": {"list": [{"id": 1}]}}, "agents.list[0].id"),
        ({"bindings": [{"agentId": "a", "match": {"peer": "x"}}]}, "bindings[0].match.peer"),
        ({"bindings": [{"agentId": "a", "match": {"channel": 1}}]}, "bindings[0].match.channel"),
    ],
)
def test_bad_configuration_names_its_field(config: Config, path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        KeySettings.from_json(config)
    assert path in str(refused.value)


# --- keys of providers


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ("whatsapp:dm:+1234567890", "agent:main:whatsapp:dm:+1234567890"),
        ("telegram:group:123456", "agent:main:telegram:group:123456"),
        ("discord:channel:987654", "agent:main:discord:channel:987654"),
        ("internal:main:main", "agent:main:main"),
        ("telegram:group:1:topic:7", "agent:main:telegram:group:1:topic:7"),
        ("internal:main:main:thread:7", "agent:main:main:thread:7"),
    ],
)
def test_a_providers_key_and_an_agents_key_name_the_same(short: str, whole: str) -> None:
    found = keys.parse_provider_key(short)
    assert found is not None
    assert str(found) == short
    assert keys.provider_to_session_key(found) == whole
    assert str(keys.session_to_provider_key(whole)) == short


def test_what_has_no_network_has_no_providers_key() -> None:
    for key in ("agent:main:dm:alice", "agent:main:subagent:1", "cron:x", "global", "agent:main:custom"):
        assert keys.session_to_provider_key(key) is None, key
    for text in ("agent:main:main", "main", "whatsapp:dm", "whatsapp:planet:1", "cron:dm:x", ""):
        assert keys.parse_provider_key(text) is None, text
    assert keys.session_to_provider_key("agent:a:slack:work:direct:U1") == keys.provider_key("slack", "dm", "U1")


# --- who answers

BINDINGS = [
    {"agentId": "everyone", "match": {"channel": "discord", "accountId": "*"}},
    {"agentId": "account", "match": {"channel": "discord"}},
    {"agentId": "team", "match": {"channel": "discord", "teamId": "T1"}},
    {"agentId": "guild", "match": {"channel": "discord", "guildId": "G1"}},
    {"agentId": "peer", "match": {"channel": "discord", "peer": {"kind": "channel", "id": "C1"}}},
    {"agentId": "biz", "match": {"channel": "discord", "accountId": "biz"}},
]


@pytest.mark.parametrize(
    ("message", "agent", "rule"),
    [
        ({"peer_kind": "channel", "peer_id": "C1", "guild_id": "G1", "team_id": "T1"}, "peer", "binding.peer"),
        ({"peer_kind": "channel", "peer_id": "C2", "guild_id": "G1", "team_id": "T1"}, "guild", "binding.guild"),
        ({"peer_kind": "channel", "peer_id": "C2", "team_id": "T1"}, "team", "binding.team"),
        ({"peer_kind": "channel", "peer_id": "C2"}, "account", "binding.account"),
        ({"account_id": "biz", "guild_id": "G1"}, "biz", "binding.account"),
        ({"account_id": "other", "guild_id": "G1"}, "everyone", "binding.channel"),
        ({"peer_kind": "group", "peer_id": "C1"}, "account", "binding.account"),
    ],
)
def test_the_most_special_binding_decides(message: Config, agent: str, rule: str) -> None:
    route = keys.resolve_route({"bindings": BINDINGS}, channel=" Discord ", **message)
    assert (route.agent_id, route.matched_by) == (agent, rule)


def test_without_a_binding_the_default_agent_answers() -> None:
    config = {"agents": {"list": [{"id": "home", "default": True}]}, "bindings": BINDINGS}
    route = keys.resolve_route(config, channel="slack", peer_kind="group", peer_id="X")
    assert (route.agent_id, route.matched_by, route.session_key) == ("home", "default", "agent:home:slack:group:X")
    bound = keys.resolve_route(config, channel="discord")
    assert (bound.agent_id, bound.matched_by) == ("home", "binding.account")


def test_a_route_follows_the_dm_scope_and_the_links() -> None:
    session = {"dmScope": "per-peer", "identityLinks": {"alice": ["telegram:1"]}}
    route = keys.resolve_route({"session": session}, channel="telegram", peer_kind="dm", peer_id="1")
    assert (route.session_key, route.main_session_key) == ("agent:main:dm:alice", "agent:main:main")
    nobody = keys.resolve_route({"session": session}, channel="telegram", peer_kind="dm", peer_id=" ")
    assert nobody.session_key == "agent:main:dm:unknown"
    assert keys.resolve_route({"session": session}, channel="telegram").session_key == "agent:main:main"


# --- text as JavaScript has it


def test_white_space_is_javascripts() -> None:
    assert js.trim("\ufeff\u2003x\u00a0") == "x"
    assert js.trim("\x1cx\x85") == "\x1cx\x85"
    assert js.single_spaced(" a \n\ufeff b\tc ") == "a b c"
    assert (js.utf16_length("a\U0001f600"), js.first_utf16("a\U0001f600b", 2), js.first_utf16("a\U0001f600b", 3)) == (
        3,
        "a",
        "a\U0001f600",
    )
    values: list[object] = ["x", 1, 1.0, 0.5, True, None, []]
    assert [js.js_text(value) for value in values] == ["x", "1", "1", "0.5", "true", None, None]


# --- what always holds

TEXTS = st.text(max_size=12)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name not in {"dm", "direct", "group", "channel", "cron", "hook", "acp", "node", "subagent", "main"}
)
IDS = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=10).filter(
    lambda text: js.trim(text) == text and not any(mark in f":{text}:".lower() for mark in (":thread:", ":topic:"))
)


@given(TEXTS)
def test_normalising_twice_changes_nothing(text: str) -> None:
    for normal in (keys.normalize_agent_id, keys.normalize_account_id, keys.normalize_main_key):
        once = normal(text)
        assert normal(once) == once
    once = keys.canonical_key(text)
    assert keys.canonical_key(once) == once


@given(TEXTS)
def test_a_normal_id_is_short_and_plain(text: str) -> None:
    found = keys.normalize_agent_id(text)
    assert 1 <= len(found) <= 64
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")


@given(
    agent=NAMES,
    channel=NAMES,
    account=NAMES,
    peer=IDS,
    scope=st.sampled_from(keys.DM_SCOPES),
    word=st.sampled_from(["dm", "direct"]),
)
def test_a_direct_chats_key_says_what_it_was_built_from(
    *, agent: str, channel: str, account: str, peer: str, scope: Any, word: Any
) -> None:
    key = build_peer_key(
        agent_id=agent, channel=channel, account_id=account, peer_id=peer, dm_scope=scope, direct_word=word
    )
    found = parse_key(key)
    assert found.agent_id == agent
    assert build_key(found) == key
    if scope == "main":
        assert found.kind == "main"
    else:
        assert (found.kind, found.id, found.direct_word) == ("dm", peer, word)
        assert found.channel == (None if scope == "per-peer" else channel)
        assert found.account_id == (account if scope == "per-account-channel-peer" else None)


@given(
    agent=NAMES,
    channel=NAMES,
    peer=IDS,
    kind=st.sampled_from(["group", "channel"]),
    thread=IDS,
    marker=st.sampled_from(["thread", "topic"]),
)
def test_a_threads_key_parses_back(*, agent: str, channel: str, peer: str, kind: str, thread: str, marker: Any) -> None:
    base = build_peer_key(agent_id=agent, channel=channel, peer_kind=kind, peer_id=peer)
    key = keys.thread_keys(base, thread, marker=marker).session_key
    found = parse_key(key)
    assert (found.kind, found.channel, found.id) == (kind, channel, peer)
    assert (found.thread_marker, found.thread_id, found.parent) == (marker, thread, base)
    assert keys.thread_parent_key(key) == base
    assert build_key(found) == key
    short = keys.session_to_provider_key(key)
    assert short is not None
    assert keys.provider_to_session_key(short, agent_id=agent) == key
    assert keys.parse_provider_key(str(short)) == short


@given(TEXTS)
def test_taking_apart_never_fails_and_building_again_settles(text: str) -> None:
    once = build_key(parse_key(text))
    assert build_key(parse_key(once)) == once


@given(
    st.lists(
        st.sampled_from(["agent", "main", "dm", "group", "Thread", "topic", "x", " ", "", "subagent", "cron"]),
        max_size=8,
    )
)
def test_taking_apart_settles_for_keys_of_known_words(words: list[str]) -> None:
    once = build_key(parse_key(":".join(words)))
    assert build_key(parse_key(once)) == once


@pytest.mark.parametrize(
    "module",
    ["trails.runtime.config_values", "trails.runtime.tree_state", "trails.runtime.runs.agent_tools"]
    + [f"{each.__name__}.{name}" for each in (keys, policy) for _, name, _ in pkgutil.iter_modules(each.__path__)],
)
def test_the_examples_of_the_docstrings_give_what_they_show(module: str) -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(importlib.import_module(module), optionflags=options).failed == 0
