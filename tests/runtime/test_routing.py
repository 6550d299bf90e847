"""Sessions by key: made with the first message, found by key, id or label, renewed when that is due."""

from __future__ import annotations

import json
import threading
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode

import trails
from tests.support.clocks import START, Clock
from trails import (
    ForkDepthExceeded,
    Inbound,
    InvalidInput,
    Ledger,
    Repository,
    RequestRefused,
    Router,
    SharedSessionWarning,
)
from trails.model import iris
from trails.rdf import conversation_records, vocab
from trails.runtime.policy import ModelHost, ModelRef

pytestmark = pytest.mark.any_store

PER_PEER = {"session": {"dmScope": "per-channel-peer"}}


def answered(store: Repository, session_id: str, text: str = "Yes.") -> None:
    """Let the session's inbox be worked on."""
    Ledger(store, debounce=timedelta(0)).process(session_id, lambda running: text)


def said(peer: str, content: Any = "Hello", **more: Any) -> Inbound:
    return Inbound(**{"channel": "telegram", "peer": peer, "content": content} | more)


# --- made with the first message


def test_the_first_message_of_a_key_makes_its_session(store: Repository, clock: Clock) -> None:
    router = Router(store, config=PER_PEER, clock=clock)
    first = router.route(said("123", "Hello"))
    again = router.route(said("123", "Anybody?"))
    other = router.route(said("456", "Hi"))
    assert first.key == "agent:main:telegram:dm:123"
    assert (first.created, again.created) == (True, False)
    assert again.session_id == first.session_id != other.session_id
    assert [event.content for event in Ledger(store).inbox(first.session_id)] == ["Hello", "Anybody?"]
    record = store.record(first.session_id)
    assert (record.key, record.kind, record.agent, record.principal) == (first.key, "dm", "main", "telegram:123")
    assert store.verify().findings == ()


def test_an_inbound_turn_keeps_where_it_came_from(store: Repository) -> None:
    router = Router(store, config=PER_PEER)
    routed = router.route(said("123", "Hello", account="biz", sender="123"))
    answered(store, routed.session_id)
    [event] = Ledger(store).events(routed.session_id, direction="inbound")
    assert (event.channel, event.account, event.peer) == ("telegram", "biz", "123")
    assert event.turn_iris == (store.load(routed.session_id).turns[0].iri,)
    assert store.load(routed.session_id).turns[0].author == "telegram:123"


def test_a_message_that_comes_twice_is_one_even_where_it_asked_for_a_new_session(store: Repository) -> None:
    router = Router(store)
    router.route(said("1", "Hello", event_id="m-1"))
    renewed = router.route(said("1", "/new Plan a trip", event_id="m-2", authorised=True))
    again = router.route(said("1", "/new Plan a trip", event_id="m-2", authorised=True))
    assert (again.duplicate, again.session_id, again.created) == (True, renewed.session_id, False)
    assert router.route(said("1", "Hello", event_id="m-1")).session_id == renewed.previous
    assert len(router.sessions("main")) == 2


def test_two_writers_who_make_a_session_at_once_get_the_same(store: Repository) -> None:
    ready, found = threading.Barrier(4), list[str]()

    def make() -> None:
        router = Router(store)
        ready.wait()
        found.append(router.session("discord:group:dev").id)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert [record.id for record in store.list()] == [found[0]]


def test_messages_of_many_threads_all_arrive_while_the_session_is_renewed_under_them(store: Repository) -> None:
    router = Router(store)
    router.session("main")
    ready = threading.Barrier(3)

    def write(name: str) -> None:
        ready.wait()
        for number in range(5):
            router.route(said("1", f"{name}{number}", event_id=f"{name}{number}"))

    def renew() -> None:
        ready.wait()
        for _ in range(3):
            router.reset("main")

    threads = [threading.Thread(target=write, args=("a",)), threading.Thread(target=write, args=("b",))]
    threads.append(threading.Thread(target=renew))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = router.sessions("main")
    assert len(ids) == 4
    texts = [event.content for each in ids for event in Ledger(store).inbox(each)]
    assert sorted(texts) == [f"{name}{number}" for name in "ab" for number in range(5)]
    assert store.verify().findings == ()


def test_a_session_that_was_made_with_a_key_by_other_means_is_taken_in(store: Repository) -> None:
    plain = store.create(id="plain", key="agent:main:main", label="desk")
    plain.append("user", "Hello")
    plain.persist()
    router = Router(store)
    assert router.session("main").id == "plain"
    assert router.route(said("1", "And now?")).session_id == "plain"
    assert store.resolve("desk") == "plain"
    renewed = router.reset("main").session_id
    assert store.resolve("desk") == renewed
    store.create(id="a", key="agent:main:slack:group:x").persist()
    store.create(id="b", key="agent:main:slack:group:x").persist()
    with pytest.raises(InvalidInput, match="2 sessions have the key"):
        router.session("slack:group:x")
    assert store.verify().findings == ()


def test_a_message_without_a_channel_or_a_key_belongs_nowhere(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="needs a channel, or a key"):
        Router(memory).route(Inbound(content="Hello"))
    assert memory.list() == []


def test_a_direct_chat_is_one_conversation_under_both_words_for_it(memory: Repository) -> None:
    router = Router(memory, config=PER_PEER)
    routed = router.route(said("U1"))
    assert router.session("agent:main:telegram:direct:U1").id == routed.session_id


def test_main_and_the_global_scope_lead_to_one_session(memory: Repository) -> None:
    router = Router(memory, config={"session": {"mainKey": "work"}, "agents": {"list": [{"id": "ops"}]}})
    assert router.session("main").id == router.session("work").id == router.session("agent:ops:main").id
    shared = Router(memory, config={"session": {"scope": "global"}})
    assert shared.key_of(said("1")) == shared.key_of(said("2")) == "global"
    assert shared.session("main").id == shared.route(said("1")).session_id


def test_in_the_global_scope_groups_and_threads_share_the_session_of_everybody(memory: Repository) -> None:
    router = Router(memory, config={"session": {"scope": "global", "dmScope": "per-peer"}})
    direct = router.route(said("1"))
    with pytest.warns(SharedSessionWarning, match="Set session.scope to per-sender"):
        group = router.route(Inbound(channel="discord", kind="group", peer="9", sender="2", content="All here"))
    with pytest.warns(SharedSessionWarning, match="slack:3"):
        thread = router.route(
            Inbound(channel="slack", kind="channel", peer="C1", sender="3", thread="7", content="In a thread")
        )
    assert (direct.key, group.key, thread.key) == ("global", "global", "global")
    assert direct.session_id == group.session_id == thread.session_id
    assert [session.id for session in memory.list()] == [direct.session_id]


def test_identity_links_make_one_session_of_a_persons_networks(memory: Repository) -> None:
    links = {"alice": ["telegram:111", "discord:222"]}
    router = Router(memory, config={"session": {"dmScope": "per-peer", "identityLinks": links}})
    one = router.route(said("111"))
    other = router.route(Inbound(channel="discord", peer="222", content="Me again"))
    assert (one.key, one.session_id) == ("agent:main:dm:alice", other.session_id)
    assert one.principal == other.principal == "alice"


def test_a_binding_sends_a_group_to_its_agent(memory: Repository) -> None:
    bindings = [{"agentId": "ops", "match": {"channel": "discord", "peer": {"kind": "group", "id": "dev"}}}]
    router = Router(memory, config={"bindings": bindings})
    routed = router.route(Inbound(channel="discord", kind="group", peer="dev", sender="7", content="Hi"))
    assert routed.key == "agent:ops:discord:group:dev"
    assert memory.record(routed.session_id).agent == "ops"


def test_jobs_and_hooks_are_named_by_their_keys(memory: Repository) -> None:
    router = Router(memory)
    routed = router.route(Inbound(key="cron:daily", content="Check the mail", by_user=False))
    assert routed.key == "agent:main:cron:daily"
    [event] = Ledger(memory).inbox(routed.session_id)
    assert event.to_dict()["author"] == "main"
    assert iris.is_agent(event.author_iri or "")


# --- one main session, several people


def test_a_second_person_in_a_main_session_is_warned_of_once(store: Repository) -> None:
    router = Router(store)
    router.route(said("123"))
    with pytest.warns(SharedSessionWarning, match="'telegram:456' writes to 'agent:main:main', which telegram:123"):
        second = router.route(said("456"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        router.route(said("456", "Still me"))
        router.route(said("123", "And me"))
    assert len(second.warnings) == 1


def test_one_person_on_two_networks_is_no_second_one(memory: Repository) -> None:
    router = Router(memory, config={"session": {"identityLinks": {"alice": ["telegram:1", "discord:2"]}}})
    router.route(said("1"))
    assert router.route(Inbound(channel="discord", peer="2", content="Hi")).warnings == ()


# --- threads


def test_the_first_message_of_a_thread_forks_the_session_that_it_is_a_thread_of(store: Repository) -> None:
    router = Router(store)
    parent = router.route(Inbound(channel="slack", kind="channel", peer="C1", content="Plan a trip"))
    answered(store, parent.session_id, "Where to?")
    thread = router.route(Inbound(channel="slack", kind="channel", peer="C1", thread="77", content="By train?"))
    assert thread.key == "agent:main:slack:channel:C1:thread:77"
    assert thread.forked_from == parent.session_id
    answered(store, thread.session_id)
    expected = ["Plan a trip", "Where to?", "By train?", "Yes."]
    assert [turn.content for turn in store.load(thread.session_id).turns] == expected
    assert len(store.load(parent.session_id)) == 2
    again = router.route(Inbound(channel="slack", kind="channel", peer="C1", thread="77", content="Or bus?"))
    assert (again.session_id, again.forked_from) == (thread.session_id, None)
    assert store.verify().findings == ()


def test_a_topic_and_a_thread_of_nothing_begin_empty(memory: Repository) -> None:
    router = Router(memory)
    router.route(Inbound(channel="telegram", kind="group", peer="5", content="Hi"))
    topic = router.route(Inbound(channel="telegram", kind="group", peer="5", thread="9", topic=True, content="Topic"))
    assert (topic.key, topic.forked_from) == ("agent:main:telegram:group:5:topic:9", None)
    alone = router.route(Inbound(channel="slack", kind="channel", peer="C9", thread="1", content="First"))
    assert (alone.created, alone.forked_from) == (True, None)


def test_a_thread_can_name_the_session_that_it_was_started_from(memory: Repository) -> None:
    router = Router(memory)
    main = router.route(Inbound(key="main", content="Plan", by_user=True))
    thread = router.route(Inbound(channel="discord", kind="channel", peer="c", thread="t", parent="main", content="On"))
    assert thread.forked_from == main.session_id


def test_a_thread_beyond_the_fork_depth_is_refused_and_changes_nothing(memory: Repository) -> None:
    session = memory.create(id="root")
    session.persist()
    for depth in range(trails.MAX_FORK_DEPTH):
        session = session.fork(id=f"f{depth}", key="agent:main:slack:channel:C1" if depth == 31 else None)
        session.persist()
    router = Router(memory)
    assert router.session("slack:channel:C1").id == "f31"
    before = (router.entry("slack:channel:C1"), len(memory.store))
    with pytest.raises(ForkDepthExceeded, match="flatten"):
        router.route(Inbound(channel="slack", kind="channel", peer="C1", thread="1", content="Hi"))
    assert (router.entry("slack:channel:C1"), len(memory.store)) == before


# --- beginning anew


def test_a_session_begins_anew_if_its_user_was_last_active_before_the_hour(store: Repository, clock: Clock) -> None:
    router = Router(store, config=PER_PEER, clock=clock)
    first = router.route(said("1", "Good evening"))
    clock.pass_by(hours=15.9)  # 03:54
    assert router.route(said("1", "Still up")).reset is None
    clock.pass_by(minutes=10)  # 04:04
    renewed = router.route(said("1", "Good morning"))
    assert (renewed.reset, renewed.previous) == ("daily", first.session_id)
    assert router.sessions(first.key) == [first.session_id, renewed.session_id]
    assert [event.content for event in Ledger(store).inbox(first.session_id)] == ["Good evening", "Still up"]
    assert store.verify().findings == ()


def test_what_a_machine_writes_never_keeps_a_session_fresh_nor_renews_it(memory: Repository, clock: Clock) -> None:
    config = {"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}
    router = Router(memory, config=config, clock=clock)
    first = router.route(said("1"))
    for _ in range(5):
        clock.pass_by(minutes=30)
        beat = router.route(Inbound(key="main", content="Anything to do?", by_user=False))
        assert (beat.session_id, beat.reset) == (first.session_id, None)
        router.merge("main", {"lastHeartbeatText": "Nothing."})
    assert router.route(said("1", "Back")).reset == "idle"


@pytest.mark.parametrize(("minutes", "reset"), [(60, None), (60.001, "idle")])
def test_a_session_is_idle_after_its_minutes(memory: Repository, clock: Clock, minutes: float, reset: str) -> None:
    router = Router(memory, config={"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}, clock=clock)
    router.route(said("1"))
    clock.pass_by(minutes=minutes)
    assert router.route(said("1")).reset == reset


def test_types_and_channels_have_rules_of_their_own(memory: Repository, clock: Clock) -> None:
    session = {
        "resetByType": {"group": {"mode": "idle", "idleMinutes": 10}},
        "resetByChannel": {"discord": {"mode": "idle", "idleMinutes": 10080}},
    }
    router = Router(memory, config={"session": session}, clock=clock)
    telegram = Inbound(channel="telegram", kind="group", peer="5", content="Hi")
    discord = Inbound(channel="discord", kind="group", peer="5", content="Hi")
    router.route(telegram), router.route(discord)
    clock.pass_by(minutes=11)
    assert (router.route(telegram).reset, router.route(discord).reset) == ("idle", None)
    assert router.check("telegram:group:5").reset_rule == "session.resetByType.group"
    assert router.check("discord:group:5").reset_rule == "session.resetByChannel.discord"


def test_the_hour_is_told_where_the_user_is(memory: Repository, clock: Clock) -> None:
    router = Router(memory, config={"agents": {"defaults": {"userTimezone": "America/Los_Angeles"}}}, clock=clock)
    clock.now = datetime(2026, 3, 1, 11, 59, tzinfo=UTC)  # 03:59 there
    router.route(said("1"))
    clock.pass_by(minutes=2)
    assert router.route(said("1")).reset == "daily"


def test_turns_that_were_persisted_without_the_router_count_as_activity(memory: Repository, clock: Clock) -> None:
    router = Router(memory, config={"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}, clock=clock)
    session = router.session("main")
    session.append("user", "Hello", time=START + timedelta(minutes=30))
    session.append("user", "A heartbeat", time=START + timedelta(minutes=50), author="agent:main")
    session.persist()
    clock.pass_by(minutes=89)
    assert router.check("main").freshness.fresh  # type: ignore[union-attr] # there is a session
    clock.pass_by(minutes=2)
    assert not router.check("main").freshness.fresh  # type: ignore[union-attr] # there is a session


@pytest.mark.parametrize("text", ["/new", "/RESET"])
def test_an_authorised_sender_begins_anew_by_a_word(store: Repository, text: str) -> None:
    router = Router(store)
    first = router.route(said("1", "Hello"))
    renewed = router.route(said("1", text, authorised=True))
    assert (renewed.reset, renewed.previous, renewed.event) == ("asked", first.session_id, None)
    assert Ledger(store).inbox(renewed.session_id) == []


def test_what_follows_the_word_is_the_first_message_and_keeps_its_case(memory: Repository) -> None:
    router = Router(memory)
    router.route(said("1"))
    renewed = router.route(said("1", "/New  Plan A Trip", authorised=True))
    assert renewed.event is not None
    assert renewed.event.content == "Plan A Trip"


def test_whoever_is_not_authorised_only_says_the_word(memory: Repository) -> None:
    router = Router(memory)
    first = router.route(said("1"))
    plain = router.route(said("1", "/new Plan"))
    assert (plain.reset, plain.session_id) == (None, first.session_id)
    assert plain.event is not None
    assert plain.event.content == "/new Plan"


def test_a_reset_by_freshness_keeps_overrides_and_one_asked_for_drops_them(memory: Repository, clock: Clock) -> None:
    host = ModelHost(default=ModelRef("anthropic", "a"), resolve=lambda text: ModelRef("openai", text))
    router = Router(memory, clock=clock, models=host)
    router.route(said("1"))
    router.patch("main", {"model": "big", "thinkingLevel": "low", "label": "desk", "execHost": "node"})
    router.count("main", {"input_tokens": 10, "output_tokens": 4})
    clock.pass_by(days=1)
    router.route(said("1"))
    kept = router.entry("main")
    assert (kept["modelOverride"], kept["execHost"], kept["label"], kept["totalTokens"]) == ("big", "node", "desk", 0)
    router.count("main", {"input": 3})
    router.reset("main")
    entry = router.entry("main")
    assert {"modelOverride", "providerOverride", "execHost"}.isdisjoint(entry)
    assert (entry["thinkingLevel"], entry["label"], entry["inputTokens"]) == ("low", "desk", 0)


def test_a_reset_keeps_the_old_session_and_says_what_it_came_from(store: Repository) -> None:
    router = Router(store)
    first = router.route(said("1", "Hello"))
    answered(store, first.session_id)
    renewed = router.reset("main")
    assert [turn["content"] for turn in store.replay(first.session_id)] == ["Hello", "Yes."]
    asked = "SELECT ?session { ?session prov:specializationOf ?key . ?key a trails:Conversation ; trails:key 'agent:main:main' }"
    rows = {row["session"] for row in store.query(asked).to_dicts()}  # type: ignore[union-attr] # a SELECT
    assert rows == {iris.session(first.session_id), iris.session(renewed.session_id)}
    why = store.query("SELECT ?from ?rule { ?d a trails:Decision ; prov:used ?from ; trails:rule ?rule }").to_dicts()  # type: ignore[union-attr]
    assert why == [{"from": iris.session(first.session_id), "rule": "sessions.reset"}]


def test_a_key_that_names_nothing_cannot_be_reset(memory: Repository) -> None:
    with pytest.raises(RequestRefused, match="No session found: main"):
        Router(memory).reset("main")


# --- labels


def test_a_label_stands_on_the_conversation_and_survives_a_reset(store: Repository) -> None:
    router = Router(store)
    router.patch("main", {"label": "  Briefing "})
    renewed = router.reset("main")
    assert store.resolve("Briefing") == renewed.session_id
    assert [record.id for record in store.list(label="Briefing")] == [renewed.session_id]
    assert store.record(renewed.session_id).label == "Briefing"
    assert store.query("ASK { ?c a trails:Conversation ; trails:label 'Briefing' }")
    store.set_label(renewed.session_id, "Desk")
    assert router.resolve(label="Desk") == "agent:main:main"
    assert router.entry("main")["label"] == "Desk"
    assert store.verify().findings == ()


def test_a_label_is_unique_among_sessions_with_and_without_keys(memory: Repository) -> None:
    memory.create(id="plain", label="trip").persist()
    router = Router(memory)
    router.patch("main", {"label": "desk"})
    for key, label in (("main", "trip"), ("slack:group:a", "desk")):
        with pytest.raises(RequestRefused, match=f"label already in use: {label}"):
            router.patch(key, {"label": label})
    with pytest.raises(InvalidInput, match="belongs to session"):
        memory.set_label("plain", "desk")
    with pytest.raises(InvalidInput, match="belongs to session"):
        memory.create(id="new", label="desk").persist()
    router.patch("main", {"label": None})
    memory.set_label("plain", "desk")


# --- entries


def test_a_patch_changes_what_it_names_clears_what_is_none_and_refuses_as_a_whole(store: Repository) -> None:
    router = Router(store)
    router.patch("main", {"thinkingLevel": "low", "sendPolicy": "deny", "verboseLevel": "on"})
    router.patch("main", {"verboseLevel": None, "execHost": "node"})
    entry = router.entry("main")
    assert (entry["thinkingLevel"], entry["sendPolicy"], entry["execHost"]) == ("low", "deny", "node")
    assert "verboseLevel" not in entry
    with pytest.raises(RequestRefused, match="invalid label: empty"):
        router.patch("main", {"execHost": "gateway", "label": ""})
    assert router.entry("main") == entry
    assert store.verify().findings == ()


def test_a_refused_patch_of_a_new_key_makes_no_session(memory: Repository) -> None:
    with pytest.raises(RequestRefused):
        Router(memory).patch("main", {"execHost": "moon"})
    assert (memory.list(), len(memory.store)) == ([], 0)


def test_who_spawned_a_session_is_written_once_and_is_its_edge_in_the_graph(store: Repository) -> None:
    router = Router(store)
    main = router.session("main")
    router.patch("agent:main:subagent:1", {"spawnedBy": "agent:main:main"})
    child = router.session("agent:main:subagent:1")
    assert child.record.spawned_by == main.id
    with pytest.raises(RequestRefused, match="spawnedBy cannot be changed once set"):
        router.patch("agent:main:subagent:1", {"spawnedBy": "agent:other:main"})
    with pytest.raises(trails.HasChildren):
        router.delete(id=main.id, force=True)
    assert store.verify().findings == ()


def test_a_model_is_set_by_the_hosts_word_and_xhigh_falls_with_it(memory: Repository) -> None:
    router = Router(memory, models=ModelHost(default=ModelRef("anthropic", "opus")))
    with pytest.raises(RequestRefused, match="model catalog unavailable") as refused:
        router.patch("main", {"model": "openai/gpt-5.2"})
    assert refused.value.code == "UNAVAILABLE"
    host = ModelHost(default=ModelRef("anthropic", "opus"), resolve=lambda text: ModelRef(*text.split("/")))
    router = Router(memory, models=host)
    entry = router.patch("main", {"model": "openai/gpt-5.2", "thinkingLevel": "xhigh"})
    assert (entry["modelOverride"], entry["thinkingLevel"]) == ("gpt-5.2", "xhigh")
    assert router.patch("main", {"model": "anthropic/other"})["thinkingLevel"] == "high"


def test_a_router_without_a_catalogue_takes_any_well_formed_model(memory: Repository) -> None:
    router = Router(memory)
    key = "agent:main:telegram:group:12345"
    entry = router.patch(key, {"model": "openai/gpt-5.2", "thinkingLevel": "high"})
    assert [entry[each] for each in ("providerOverride", "modelOverride", "thinkingLevel")] == [
        "openai",
        "gpt-5.2",
        "high",
    ]
    for malformed in ("openai/", "/gpt-5.2", " ", "/"):
        with pytest.raises(RequestRefused, match="model"):
            router.patch(key, {"model": malformed})
    assert router.entry(key)["modelOverride"] == "gpt-5.2"
    assert "modelOverride" not in router.patch(key, {"model": "anthropic/claude-opus-4-5"})  # the default itself


def test_a_router_is_told_which_models_are_allowed(memory: Repository) -> None:
    router = Router(memory, models=["anthropic/claude-opus-4-5", "openai/gpt-5.2"])
    assert router.patch("main", {"model": "openai/gpt-5.2"})["modelOverride"] == "gpt-5.2"
    with pytest.raises(RequestRefused, match="model not allowed: openai/gpt-4"):
        router.patch("main", {"model": "openai/gpt-4"})
    for wrong in ("openai/gpt-5.2", ()):
        with pytest.raises(InvalidInput, match="provider/model"):
            Router(memory, models=wrong)


def test_a_patch_tells_of_every_field_that_it_changed_who_did_it_and_what_stood_there(store: Repository) -> None:
    host = ModelHost(default=ModelRef("anthropic", "opus"), resolve=lambda text: ModelRef(*text.split("/")))
    router = Router(store, models=host)
    router.patch("main", {"thinkingLevel": "low"})
    router.patch("main", {"model": "openai/gpt-5.2"}, by="dave")
    router.patch("main", {"model": "openai/gpt-5"}, by="erin")
    router.patch("main", {"model": None, "execHost": "node"}, by="dave")
    asked = """
        SELECT ?field ?old ?new ?by { ?act trails:alteredField ?field ; prov:wasAssociatedWith ?by ; prov:endedAtTime ?time
        OPTIONAL { ?act trails:oldValue ?old } OPTIONAL { ?act trails:newValue ?new } } ORDER BY ?time ?field
    """
    rows = store.query(asked, union=False).to_dicts()  # type: ignore[union-attr] # a SELECT
    dave, erin = "urn:trails:principal:dave", "urn:trails:principal:erin"
    assert [tuple(row.values()) for row in rows if row["field"] != "thinkingLevel"] == [
        ("modelOverride", None, '"gpt-5.2"', dave),
        ("providerOverride", None, '"openai"', dave),
        ("modelOverride", '"gpt-5.2"', '"gpt-5"', erin),
        ("execHost", None, '"node"', dave),
        ("modelOverride", '"gpt-5"', None, dave),
        ("providerOverride", '"openai"', None, dave),
    ]


def test_tokens_are_counted_exchange_by_exchange(memory: Repository) -> None:
    router = Router(memory)
    router.session("main")
    router.count("main", {"input_tokens": 10, "output_tokens": 5})
    router.count("main", {"prompt_tokens": 7, "completion_tokens": 1})
    entry = router.entry("main")
    assert (entry["inputTokens"], entry["outputTokens"], entry["totalTokens"]) == (17, 6, 23)
    assert router.list()[0].total_tokens == 23


def test_fields_are_typed_facts_that_a_query_finds_and_unknown_ones_come_back_as_they_were(store: Repository) -> None:
    router = Router(store)
    router.patch("main", {"thinkingLevel": "high"})
    router.merge("main", {"contextTokens": 200000, "systemSent": True, "myField": {"b": [1, 2.50], "a": None}})
    asked = """
        SELECT ?level ?size ?sent ?type { GRAPH ?entry { ?session trails:thinkingLevel ?level ; trails:contextTokens ?size ;
        trails:systemSent ?sent ; trails:updatedAt ?at } BIND(DATATYPE(?at) AS ?type) FILTER(?size > 100000 && ?sent) }
    """
    [row] = store.query(asked, union=False).to_dicts()  # type: ignore[union-attr] # a SELECT
    assert row == {"level": "high", "size": 200000, "sent": True, "type": vocab.DATE_TIME.value}
    session = router.session("main").id
    node = NamedNode("urn:trails:entry:myField")
    [quad] = store.store.quads((None, node, None, conversation_records.overrides_graph(session)))
    assert quad.object == Literal('{"b":[1,2.5],"a":null}', datatype=vocab.JSON)
    router.patch("main", {"thinkingLevel": None})
    assert store.store.quads((None, node, None, conversation_records.overrides_graph(session))) == [quad]


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
names = st.sampled_from(sorted(vocab.ENTRY_FIELDS)) | st.text(min_size=1, max_size=12)


@given(st.dictionaries(names, values, max_size=6))
def test_any_entry_comes_back_from_its_facts_as_it_went_in(fields: dict[str, Any]) -> None:
    texts = {name: json.dumps(value, ensure_ascii=True) for name, value in fields.items()}
    entry = conversation_records.SessionEntry(session_id="s", fields=texts, salt="ab")
    back = conversation_records.decode_overrides("s", conversation_records.override_quads(entry))
    assert {name: json.loads(text) for name, text in back.fields.items()} == fields
    unknown = {name for name in fields if name not in vocab.ENTRY_FIELDS}
    assert all(back.fields[name] == texts[name] for name in unknown)


# --- finding


@pytest.fixture
def four(memory: Repository, clock: Clock) -> Router:
    """The store of the shared cases: a main session, a group, a sub-agent with a label, and the global session."""
    router = Router(memory, clock=clock)
    router.session("main")
    clock.pass_by(seconds=1)
    router.session("discord:group:dev")
    clock.pass_by(seconds=1)
    router.patch("agent:main:subagent:one", {"spawnedBy": "agent:main:main", "label": "Briefing"})
    clock.pass_by(seconds=1)
    router.session("global")
    return router


def test_a_session_is_resolved_by_exactly_one_of_key_id_and_label(four: Router, memory: Repository) -> None:
    group = four.session("discord:group:dev").id
    assert four.resolve(key="main") == "agent:main:main"
    assert four.resolve(id=group) == "agent:main:discord:group:dev"
    assert four.resolve(label="Briefing", agent="main") == "agent:main:subagent:one"
    for given_names, message in (
        ({}, "Either key, sessionId, or label is required"),
        ({"key": "main", "label": "Briefing"}, "not multiple"),
        ({"label": "Nobody"}, "No session found with label: Nobody"),
        ({"id": "nobody"}, "No session found: nobody"),
        ({"key": "slack:group:x"}, "No session found: slack:group:x"),
        ({"id": four.session("global").id}, "No session found"),
        ({"label": "Briefing", "agent": "ops"}, "No session found with label"),
    ):
        with pytest.raises(RequestRefused, match=message):
            four.resolve(**given_names)  # type: ignore[arg-type] # names that do not belong together
    assert four.resolve(id=four.session("global").id, include_global=True) == "global"


def test_a_list_shows_what_is_asked_for_the_latest_first(four: Router, clock: Clock) -> None:
    def keys(**asked: Any) -> list[str]:
        return [info.key for info in four.list(**asked)]

    group, child, main = "agent:main:discord:group:dev", "agent:main:subagent:one", "agent:main:main"
    assert keys() == [child, group, main]
    assert keys(include_global=True, limit=1) == ["global"]
    assert keys(label="Briefing") == keys(spawned_by="main") == [child]
    assert keys(search="DEV") == [group]
    assert keys(agent="ops") == []
    clock.pass_by(minutes=15)
    four.merge("main", {})
    assert keys(active_minutes=5) == [main]
    assert keys() == [main, child, group]


def test_what_is_stored_is_found_again_when_the_store_is_opened_again(tmp_path: Path, clock: Clock) -> None:
    place = tmp_path / "a.trails"
    with trails.open(place, create=True) as store:
        router = Router(store, clock=clock)
        routed = router.route(said("1", "Hello"))
        router.patch("main", {"label": "desk", "thinkingLevel": "low"})
        entry = router.entry("main")
    with trails.open(place) as store:
        router = Router(store, clock=clock)
        assert router.entry("main") == entry
        assert router.route(said("1", "Again")).session_id == routed.session_id
        assert store.verify().findings == ()


# --- the shared cases
