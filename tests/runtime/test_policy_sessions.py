"""Entries of sessions: patched, listed, found by one name, entitled, reset. The shared cases, and each rule by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.session_cases import each, load
from trails.errors import InvalidInput, RequestRefused
from trails.rdf import vocab
from trails.runtime.keys import KeySettings
from trails.runtime.policy import (
    KEPT_ON_RESET,
    PATCHABLE,
    ListQuery,
    ModelHost,
    ModelRef,
    apply_patch,
    check_deletable,
    check_label,
    combined_entries,
    is_visible,
    list_sessions,
    merge_entry,
    model_ref,
    renew_entry,
    reset_entry,
    resolve_session,
    session_title,
    thinking_level,
    total_tokens,
)

PATCH, LABELS, RPC = load("openclaw_sessions_patch"), load("openclaw_labels"), load("openclaw_sessions_rpc")
JSON = dict[str, Any]
OPUS = ModelRef("anthropic", "claude-opus-4-5")
HOST = ModelHost(default=OPUS, resolve=lambda text: model_ref(text, "anthropic"))
UNREACHABLE = ModelHost(default=OPUS)
MAIN = "agent:main:main"
FIELDS = ("sessionId", "label", *vocab.ENTRY_FIELDS)


def patched(patch: JSON, entry: JSON | None = None, *, key: str = MAIN, host: ModelHost = HOST) -> JSON:
    """Return what a patch makes of one entry, without the time."""
    entries = {} if entry is None else {key: {"sessionId": "s", "updatedAt": 1, **entry}}
    found = apply_patch(entries, key, patch, now=5, new_id="new", models=host)
    return {name: value for name, value in found.items() if name != "updatedAt"}


def refusal(patch: JSON, entry: JSON | None = None, *, key: str = MAIN, host: ModelHost = HOST) -> str:
    with pytest.raises(RequestRefused) as refused:
        patched(patch, entry, key=key, host=host)
    return refused.value.message


def test_the_shared_cases_are_all_there(shared: Path) -> None:
    assert (shared / "cases" / "openclaw_sessions_patch.json").is_file()
    assert (len(PATCH["cases"]), len(LABELS["cases"]), len(RPC["title"])) == (48, 12, 6)


# --- patches


@each(PATCH.get("cases", []), lambda case: case["name"])
def test_a_shared_case_of_patches_holds(case: Any) -> None:
    host = HOST if case.get("modelCatalogAvailable", True) else UNREACHABLE
    before = {key: dict(entry) for key, entry in case["store"].items()}
    expected = case["expected"]

    def run() -> JSON:
        return apply_patch(case["store"], case["storeKey"], case["patch"], now=5, new_id="<new-uuid>", models=host)

    if expected["ok"]:
        assert run() == {**expected["entry"], "updatedAt": 5}
    else:
        with pytest.raises(RequestRefused) as refused:
            run()
        assert (refused.value.code, refused.value.message) == (expected["code"], expected["message"])
    assert case["store"] == before


@each(LABELS.get("cases", []), lambda case: f"label {case['input']}")
def test_a_shared_case_of_labels_holds(case: Any) -> None:
    expected = case["expected"]
    if expected["ok"]:
        assert check_label(case["input"]) == expected["label"]
    else:
        with pytest.raises(RequestRefused) as refused:
            check_label(case["input"])
        assert refused.value.message == expected["error"]


def test_a_label_has_64_utf_16_units_at_most() -> None:
    assert check_label("\U0001f600" * 32) == "\U0001f600" * 32
    with pytest.raises(RequestRefused, match="too long"):
        check_label("\U0001f600" * 32 + "a")


def test_names_may_be_pythons_and_unknown_fields_stay_and_cannot_be_patched() -> None:
    expected = {"sessionId": "s", "myField": [1], "thinkingLevel": "low"}
    assert patched({"thinking_level": "low"}, {"myField": [1]}) == expected
    assert refusal({"myField": 1}).startswith("myField cannot be patched; what can is ")
    assert refusal({"sessionId": "x"}).startswith("sessionId cannot be patched")
    assert refusal({"thinkingLevel": "low", "thinking_level": "low"}) == "thinkingLevel is in the patch twice"


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("verboseLevel", {"off": "off", "NO": "off", "1": "on", "minimal": "on", "everything": "full"}),
        ("reasoningLevel", {"show": "on", "Streaming": "stream", "hidden": None, "0": None}),
        ("responseUsage", {"on": "tokens", "min": "tokens", "session": "full", "disabled": None}),
        ("elevatedLevel", {"off": "off", "auto": "full", "approve": "ask", "yes": "on"}),
        ("thinkingLevel", {"off": None, "on": "low", "think-hard": "low", "think": "minimal", "harder": "medium"}),
        ("execHost", {" GATEWAY ": "gateway"}),
        ("execSecurity", {"Deny": "deny", "full": "full"}),
        ("execAsk", {"ON-MISS": "on-miss"}),
        ("execNode", {" node-1 ": "node-1"}),
        ("sendPolicy", {" Deny ": "deny"}),
        ("groupActivation", {"Mention": "mention"}),
    ],
)
def test_words_are_brought_to_what_is_stored(field: str, words: dict[str, str | None]) -> None:
    for word, stored in words.items():
        expected = {"sessionId": "s"} if stored is None else {"sessionId": "s", field: stored}
        assert patched({field: word}, {field: "PREV"}) == expected, word


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"verboseLevel": "loud"}, 'invalid verboseLevel (use "on"|"off")'),
        ({"verboseLevel": True}, 'invalid verboseLevel (use "on"|"off")'),
        ({"reasoningLevel": []}, 'invalid reasoningLevel (use "on"|"off"|"stream")'),
        ({"elevatedLevel": "high"}, 'invalid elevatedLevel (use "on"|"off"|"ask"|"full")'),
        ({"execHost": "moon"}, 'invalid execHost (use "sandbox"|"gateway"|"node")'),
        ({"execAsk": "never"}, 'invalid execAsk (use "off"|"on-miss"|"always")'),
        ({"execNode": {}}, "invalid execNode: must be a string"),
        ({"sendPolicy": "maybe"}, 'invalid sendPolicy (use "allow"|"deny")'),
        ({"model": "  "}, "invalid model: empty"),
        ({"model": "/x"}, "invalid model: /x"),
        ({"spawnedBy": MAIN}, "spawnedBy is only supported for subagent:* sessions"),
    ],
)
def test_what_is_wrong_is_refused_in_the_systems_own_words(patch: JSON, message: str) -> None:
    assert refusal(patch) == message
    assert refusal({"thinkingLevel": "low", **patch}) == message


def test_a_parent_is_written_once() -> None:
    key = "agent:main:subagent:one"
    child = {"spawnedBy": MAIN}
    assert patched({"spawnedBy": f" {MAIN} "}, child, key=key)["spawnedBy"] == MAIN
    assert refusal({"spawnedBy": None}, child, key=key) == "spawnedBy cannot be cleared once set"
    assert refusal({"spawnedBy": "agent:other:main"}, child, key=key) == "spawnedBy cannot be changed once set"


def test_a_label_is_free_for_its_own_session_and_after_it_was_cleared() -> None:
    entries = {MAIN: {"label": "Trip"}, "agent:main:cron:1": {"label": "Other"}}
    assert apply_patch(entries, MAIN, {"label": " Trip "}, now=5, new_id="n")["label"] == "Trip"
    with pytest.raises(RequestRefused, match=r"^label already in use: Other \(trails guide"):
        apply_patch(entries, MAIN, {"label": "Other"}, now=5, new_id="n")
    cleared = apply_patch(entries, "agent:main:cron:1", {"label": None}, now=5, new_id="n")
    assert apply_patch({**entries, "agent:main:cron:1": cleared}, MAIN, {"label": "Other"}, now=5, new_id="n")


def test_the_default_model_is_no_override_and_credentials_go_with_any_choice() -> None:
    before = {"providerOverride": "openai", "modelOverride": "gpt-5.2", "authProfileOverride": "p"}
    assert patched({"model": "claude-opus-4-5"}, before) == {"sessionId": "s"}
    expected = {"sessionId": "s", "providerOverride": "openai", "modelOverride": "gpt-5.2"}
    assert patched({"model": "openai/gpt-5.2"}, before) == expected


def test_a_host_may_refuse_a_model_in_its_own_words() -> None:
    def never(text: str) -> ModelRef:
        raise InvalidInput(f"model not allowed: {text}")

    assert refusal({"model": "openai/x"}, host=ModelHost(default=OPUS, resolve=never)) == "model not allowed: openai/x"
    with pytest.raises(RequestRefused) as refused:
        patched({"model": "openai/x"}, host=UNREACHABLE)
    assert refused.value.code == "UNAVAILABLE"
    assert patched({"model": None}, {"modelOverride": "m"}, host=UNREACHABLE) == {"sessionId": "s"}


def test_xhigh_is_for_models_that_have_it() -> None:
    codex = {"providerOverride": "openai", "modelOverride": "gpt-5.2"}
    assert patched({"thinkingLevel": "xhigh"}, codex)["thinkingLevel"] == "xhigh"
    assert patched({"thinkingLevel": "x-high", "model": "openai/gpt-5.2"}, {})["thinkingLevel"] == "xhigh"
    assert refusal({"thinkingLevel": "loud"}, codex) == "invalid thinkingLevel (use off|minimal|low|medium|high|xhigh)"
    only = ModelHost(default=OPUS, resolve=HOST.resolve, xhigh_models=("a/b",))
    assert refusal({"thinkingLevel": "xhigh"}, codex, host=only) == 'thinkingLevel "xhigh" is only supported for a/b'
    assert patched({"model": None}, {**codex, "thinkingLevel": "xhigh"})["thinkingLevel"] == "high"


WORDS = st.sampled_from(
    ["off", "on", "high", "xhigh", "deny", "allow", "full", "sandbox", "", "x", " a ", None, 1, True]
)


@given(patch=st.dictionaries(st.sampled_from(PATCHABLE), WORDS), key=st.sampled_from([MAIN, "agent:main:subagent:1"]))
def test_a_patch_is_taken_whole_or_not_at_all(patch: JSON, key: str) -> None:
    entry: JSON = {"sessionId": "s", "updatedAt": 1, "label": "mine", "unknown": {"kept": True}}
    entries: dict[str, JSON] = {key: entry, "other": {"label": "a"}}
    try:
        found = apply_patch(entries, key, patch, now=5, new_id="n", models=HOST)
    except RequestRefused:
        assert entries == {key: entry, "other": {"label": "a"}}
        return
    assert found["unknown"] == {"kept": True}
    assert all(name not in found for name, value in patch.items() if value is None and name != "model")
    again = apply_patch(
        {**entries, key: found},
        key,
        {name: value for name, value in patch.items() if name != "spawnedBy"},
        now=5,
        new_id="n",
        models=HOST,
    )
    assert again == found


# --- the table of fields


def test_a_patch_may_name_these_fields() -> None:
    assert set(PATCHABLE) == {
        "label",
        "spawnedBy",
        "model",
        "thinkingLevel",
        "verboseLevel",
        "reasoningLevel",
        "responseUsage",
        "elevatedLevel",
        "execHost",
        "execSecurity",
        "execAsk",
        "execNode",
        "sendPolicy",
        "groupActivation",
    }


def test_the_stored_fields_are_those_that_the_shared_facts_name(shared: Path) -> None:
    facts = (shared / "upstream-facts.md").read_text("utf-8")
    (line,) = (line for line in facts.splitlines() if "SessionEntry full field list" in line)
    expected = {"authProfileOverrideSource", "authProfileOverrideCompactionCount", "groupActivationNeedsSystemIntro"}
    assert {name for name in FIELDS if name not in line} == expected


# --- resets and merges


def test_a_reset_that_was_asked_for_keeps_what_the_shared_case_says(shared: Path) -> None:
    told = RPC["reset"]
    assert set(KEPT_ON_RESET) == set(told["keeps"])
    before = dict.fromkeys(FIELDS, "x") | {"updatedAt": 99, "inputTokens": 7}
    after = reset_entry(before, now=5, new_id="new")
    assert after["sessionId"] == "new"
    assert all(after[name] == "x" for name in told["keeps"])
    assert all(name not in after for name in told["drops_notably"])
    assert all(after[name] == 0 for name in told["zeroes"])
    assert (after["systemSent"], after["abortedLastRun"]) == (False, False)
    assert reset_entry(None, now=5, new_id="new")["sessionId"] == "new"


def test_a_reset_by_the_hour_keeps_overrides() -> None:
    before = {
        "sessionId": "old",
        "modelOverride": "m",
        "spawnedBy": "k",
        "compactionCount": 3,
        "sessionFile": "f",
        "mine": 1,
    }
    after = renew_entry(before, now=5, new_id="new")
    assert {name: after[name] for name in ("sessionId", "modelOverride", "spawnedBy", "compactionCount", "mine")} == {
        "sessionId": "new",
        "modelOverride": "m",
        "spawnedBy": "k",
        "compactionCount": 0,
        "mine": 1,
    }
    assert "sessionFile" not in after


def test_a_merge_keeps_the_session_and_the_latest_time() -> None:
    assert merge_entry({"sessionId": "s", "updatedAt": 7, "a": 1}, {"updatedAt": 9, "a": 2}, now=5, new_id="n") == {
        "sessionId": "s",
        "updatedAt": 9,
        "a": 2,
    }
    assert merge_entry(None, {}, now=5, new_id="n") == {"sessionId": "n", "updatedAt": 5}


# --- lists

NOW = 1_700_000_000_000
MINUTE = 60_000
STORE = {
    "main": {"sessionId": "sess-main", "updatedAt": NOW - MINUTE, "inputTokens": 10, "outputTokens": 20},
    "discord:group:dev": {"sessionId": "sess-group", "updatedAt": NOW - 15 * MINUTE, "totalTokens": 50},
    "agent:main:subagent:one": {
        "sessionId": "sess-subagent",
        "updatedAt": NOW - 15 * MINUTE,
        "spawnedBy": MAIN,
        "label": "Briefing",
    },
    "global": {"sessionId": "sess-global", "updatedAt": NOW},
}


@each((RPC.get("list") or {}).get("cases", []), lambda case: case["opts"])
def test_a_shared_case_of_lists_holds(case: Any) -> None:
    assert [row.key for row in list_sessions(STORE, ListQuery.from_json(case["opts"]), now=NOW)] == case["expected"]


def test_a_list_is_sorted_and_says_what_it_derives() -> None:
    rows = list_sessions(STORE, ListQuery(include_global=True), now=NOW)
    assert [(row.key, row.kind, row.total_tokens) for row in rows] == [
        ("global", "global", 0),
        (MAIN, "direct", 30),
        ("agent:main:discord:group:dev", "group", 50),
        ("agent:main:subagent:one", "direct", 0),
    ]
    assert [(row.display_name, row.channel) for row in rows[2:]] == [("discord:g-dev", "discord"), ("Briefing", None)]
    assert (rows[1].session_id, rows[3].label) == ("sess-main", "Briefing")
    assert total_tokens({}) == 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"search": " BRIEF "}, ["agent:main:subagent:one"]),
        ({"search": "g-dev"}, ["agent:main:discord:group:dev"]),
        ({"search": "sess-"}, [MAIN, "agent:main:discord:group:dev", "agent:main:subagent:one"]),
        ({"search": "nothing"}, []),
        ({"search": "sess-", "limit": 1}, [MAIN]),
        ({"limit": 0}, [MAIN]),
        ({"agent_id": "OPS"}, []),
        ({"agent_id": "Main", "include_global": True, "active_minutes": 0.1}, [MAIN]),
        ({"label": " Briefing "}, ["agent:main:subagent:one"]),
        ({"label": "briefing"}, []),
        ({"spawned_by": "main"}, []),
    ],
)
def test_a_list_can_be_narrowed_down(query: JSON, expected: list[str]) -> None:
    assert [row.key for row in list_sessions(STORE, ListQuery(**query), now=NOW)] == expected


@pytest.mark.parametrize(
    "wrong", [{"limit": "1"}, {"includeGlobal": 1}, {"limit": True}, {"order": "asc"}, {"search": 5}]
)
def test_a_list_takes_no_parameter_of_the_wrong_kind(wrong: JSON) -> None:
    with pytest.raises(InvalidInput, match=r"sessions\.list\."):
        ListQuery.from_json(wrong)


def test_the_newer_of_two_entries_for_one_session_wins() -> None:
    entries = {
        MAIN: {"sessionId": "new", "updatedAt": 9, "spawnedBy": "main"},
        "main": {"sessionId": "old", "updatedAt": 5, "label": "kept"},
    }
    assert combined_entries(entries) == {
        MAIN: {"sessionId": "new", "updatedAt": 9, "label": "kept", "spawnedBy": "agent:main:main"}
    }


# --- one session by one name


@each((RPC.get("resolve") or {}).get("cases", []), lambda case: case["params"] or "nothing")
def test_a_shared_case_of_resolving_holds(case: Any) -> None:
    told, params = RPC["resolve"], case["params"]
    given = {
        "key": "key",
        "sessionId": "session_id",
        "label": "label",
        "agentId": "agent_id",
        "spawnedBy": "spawned_by",
    }
    named: JSON = {given[name]: value for name, value in params.items() if name in given}
    named |= {"include_global": params.get("includeGlobal", False)}
    if "expected" in case:
        assert resolve_session(told["store"], **named) == case["expected"]
    else:
        with pytest.raises(RequestRefused) as refused:
            resolve_session(told["store"], **named)
        text = told["errors"][case["expected_error"].split()[0]].split(" | ")[0]
        assert refused.value.message == text.replace("<x>", str(params.get("sessionId")))


def test_a_name_that_fits_two_sessions_is_refused_with_both() -> None:
    entries: JSON = {
        "agent:main:a": {"sessionId": "same", "label": "twice", "updatedAt": 1},
        "agent:main:b": {"sessionId": "same", "label": "twice", "updatedAt": 3},
        "agent:ops:c": {"sessionId": "other", "label": "twice", "updatedAt": 2},
    }
    with pytest.raises(RequestRefused) as refused:
        resolve_session(entries, session_id="same")
    assert refused.value.message == "Multiple sessions found for sessionId: same (agent:main:b, agent:main:a)"
    with pytest.raises(RequestRefused) as refused:
        resolve_session(entries, label="twice")
    assert refused.value.message == "Multiple sessions found with label: twice (agent:main:b, agent:ops:c)"
    assert resolve_session(entries, label="twice", agent_id="ops") == "agent:ops:c"
    assert resolve_session(entries, session_id="agent:main:a") == "agent:main:a"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"key": "nobody"}, "No session found: nobody"),
        ({"session_id": "nobody"}, "No session found: nobody"),
        ({"label": "nobody"}, "No session found with label: nobody"),
        ({"label": "x" * 65}, "invalid label: too long (max 64)"),
        ({"key": " ", "label": ""}, "Either key, sessionId, or label is required"),
        ({"session_id": "a", "label": "b"}, "Provide either key, sessionId, or label (not multiple)"),
        ({"key": "main", "agent_id": "ops"}, "No session found: main"),
        ({"key": "discord:group:dev", "spawned_by": MAIN}, "No session found: discord:group:dev"),
    ],
)
def test_a_name_that_fits_none_is_refused(named: JSON, message: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        resolve_session(STORE, **named)
    assert refused.value.message == message


def test_a_sandboxed_session_finds_itself_and_what_it_spawned() -> None:
    assert resolve_session(STORE, key="main", spawned_by=MAIN) == MAIN
    assert resolve_session(STORE, key="agent:main:subagent:one", spawned_by=MAIN) == "agent:main:subagent:one"
    assert resolve_session(STORE, label="Briefing", spawned_by=MAIN) == "agent:main:subagent:one"
    with pytest.raises(RequestRefused):
        resolve_session(STORE, session_id="sess-group", spawned_by=MAIN)
    assert is_visible("a", None, "a")
    assert not is_visible("b", None, "a")


def test_a_name_is_found_under_the_main_key_of_the_settings() -> None:
    settings = KeySettings(main_key="work", default_agent="ops")
    assert resolve_session({"agent:ops:work": {"sessionId": "s"}}, key="main", settings=settings) == "agent:ops:work"
    assert resolve_session({"global": {"sessionId": "s"}}, key="main", settings=KeySettings(scope="global")) == "global"
    assert resolve_session(STORE, session_id="sess-global", include_global=True) == "global"


def test_the_main_session_is_not_deleted_under_any_name() -> None:
    settings = KeySettings(main_key="work", default_agent="ops")
    for name in ("main", "work", "agent:ops:main", "agent:ops:work"):
        with pytest.raises(RequestRefused) as refused:
            check_deletable(name, settings)
        assert refused.value.message == "Cannot delete the main session (agent:ops:work)."
    assert check_deletable("agent:ops:cron:1", settings) == "agent:ops:cron:1"
    with pytest.raises(RequestRefused, match="key required"):
        check_deletable(" ", settings)


# --- titles


@each(RPC.get("title", []), lambda case: case[2])
def test_a_shared_case_of_titles_holds(case: Any) -> None:
    entry, message, expected = case
    assert session_title(entry, message) == expected


def test_a_long_first_message_is_cut_at_a_space_near_the_end() -> None:
    assert session_title({"sessionId": "s"}, "word " * 20) == "word " * 10 + "word…"
    assert session_title({"sessionId": "s"}, "x" * 61) == "x" * 59 + "…"
    assert session_title({"sessionId": "s"}, "x" * 60) == "x" * 60
    assert session_title({"sessionId": "s"}, "a" + "\U0001f600" * 30) == "a" + "\U0001f600" * 29 + "…"
    assert session_title({"sessionId": "s"}, "x" * 36 + " " + "y" * 40) == "x" * 36 + " " + "y" * 22 + "…"
    assert session_title({"sessionId": "s"}, "x" * 37 + " " + "y" * 40) == "x" * 37 + "…"


def test_what_has_no_name_has_no_title() -> None:
    assert session_title(None) is None
    assert session_title({"displayName": " "}, " \n ") is None
    with pytest.raises(InvalidInput, match="is no time"):
        session_title({"sessionId": "s", "updatedAt": "yesterday"})


@given(st.text())
def test_a_title_never_splits_a_character(message: str) -> None:
    found = session_title({"sessionId": "s"}, message)
    assert found is not None
    assert not any("\ud800" <= character <= "\udfff" for character in found) or any(
        "\ud800" <= character <= "\udfff" for character in message
    )
    assert thinking_level(message) in (None, "off", "minimal", "low", "medium", "high", "xhigh")
