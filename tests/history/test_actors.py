"""Who did a thing is who was named for it, the process's own actor, or nobody that is known: never the data's owner."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from pyoxigraph import NamedNode

import trails
from trails import InvalidInput, Ledger, Repository, Router, Tree
from trails.history.records import activities
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.activity_records import Alteration

OWNER = "alice"
UNKNOWN = "urn:trails:agent:unknown"


@pytest.fixture(autouse=True)
def nobody_is_named_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAILS_ACTOR", raising=False)


def plan(store: Repository) -> None:
    made = store.create(id="plan", principal=OWNER)
    made.append("user", "Plan a trip to Zermatt")
    made.append("user", "Soon")
    made.persist()
    store.notes.add("plan", 1, "When?")
    store.tags.add("v1", "plan@1")


def drop(store: Repository, by: str | None) -> None:
    ledger = Ledger(store)
    event = ledger.receive("plan", "Hello", source="chat")
    ledger.drop("plan", event.number, by=by)


def suspend(store: Repository, by: str | None) -> None:
    tree = Tree(store)
    main = tree.main("planner", "chat", principal=OWNER, by="maker")
    tree.spawn(main.id, "branch", "look", by="maker").suspend(by=by)


def alias(store: Repository, by: str | None) -> None:
    router = Router(store)
    router.route(trails.Inbound(channel="telegram", peer="7", content="Hello", principal=OWNER))
    router.alias("agent:main:max", "main", by=by)


DEEDS: dict[str, Callable[[Repository, str | None], object]] = {
    "delete": lambda store, by: store.delete("plan", children="cascade", by=by),
    "prune": lambda store, by: (store.tags.remove("v1", by=by), store.prune(keep_count=0, by=by)),
    "redact": lambda store, by: store.redact("plan", 0, by=by),
    "redact_matching": lambda store, by: store.redact_matching("Zermatt", by=by),
    "tag": lambda store, by: store.tags.add("v2", "plan", by=by),
    "untag": lambda store, by: store.tags.remove("v1", by=by),
    "note": lambda store, by: store.notes.add("plan", 0, "Where?", by=by),
    "unnote": lambda store, by: store.notes.remove(store.notes.list("plan")[0].id, by=by),
    "drop": drop,
    "suspend": suspend,
    "alias": alias,
}


def doers(store: Repository) -> set[str]:
    """Whoever the store names for an activity, a tag, a note or an alias."""
    links = (vocab.ASSOCIATED_WITH, vocab.ATTRIBUTED_TO)
    quads = [quad for link in links for quad in store.store.quads((None, link, None, None))]
    kinds = {quad.subject: quad.object for quad in store.store.quads((None, vocab.TYPE, None, None))}
    wanted = {vocab.DELETION, vocab.TAG, vocab.NOTE, vocab.ALIAS, vocab.TRANSITION, vocab.ACTIVITY}
    return {str(quad.object.value) for quad in quads if kinds.get(quad.subject) in wanted}  # type: ignore[union-attr] # IRIs


@pytest.mark.parametrize("deed", DEEDS)
def test_who_is_named_did_it(deed: str) -> None:
    with trails.open(":memory:", actor="maker") as store:
        plan(store)
        DEEDS[deed](store, "agent:cleaner")
        assert iris.agent("cleaner") in doers(store)
        assert iris.principal(OWNER) not in doers(store)
        assert store.verify().ok


@pytest.mark.parametrize("deed", DEEDS)
def test_where_nobody_is_named_the_process_did_it(deed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILS_ACTOR", "agent:nightly")
    with trails.open(":memory:") as store:
        plan(store)
        DEEDS[deed](store, None)
        assert iris.agent("nightly") in doers(store)
        assert not doers(store) & {iris.principal(OWNER), UNKNOWN}


@pytest.mark.parametrize("deed", DEEDS)
def test_where_the_process_says_nothing_either_it_is_unknown_and_never_the_owner_of_the_data(deed: str) -> None:
    with trails.open(":memory:") as store:
        plan(store)
        DEEDS[deed](store, None)
        assert UNKNOWN in doers(store)
        assert iris.principal(OWNER) not in doers(store)
        assert store.verify().ok


def test_what_the_program_says_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILS_ACTOR", "agent:nightly")
    with trails.open(":memory:", actor="bob") as store:
        plan(store)
        assert store.tags.get("v1").author_iri == iris.principal("bob")


def test_an_empty_variable_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILS_ACTOR", "")
    with trails.open(":memory:") as store:
        plan(store)
        assert store.tags.get("v1").author_iri == UNKNOWN


@pytest.mark.parametrize("name", ["", "two\nlines", "urn:trails:session:a", "agent:"])
def test_a_name_that_cannot_be_kept_is_refused_before_the_store_is_opened(name: str) -> None:
    with pytest.raises(InvalidInput):
        trails.open(":memory:", actor=name)


def test_a_prune_names_its_limits_as_the_rule(memory: Repository) -> None:
    plan(memory)
    memory.delete("plan", children="cascade", by="bob", reason="asked for")
    other = memory.create(id="other", principal=OWNER)
    other.append("user", "Hello")
    other.persist()
    memory.prune(keep_count=0, by="bob")
    rows = memory.query("deletions").to_dicts()  # type: ignore[union-attr] # a SELECT
    told = {row["session"].rpartition(":")[2]: (row["by"], row["reason"], row["rule"]) for row in rows}
    assert told == {
        "plan": ("urn:trails:principal:bob", "asked for", None),
        "other": ("urn:trails:principal:bob", None, "prune: keep 0 sessions"),
    }


def test_a_session_whose_time_is_over_is_ended_by_the_program_and_by_that_rule(memory: Repository) -> None:
    tree = Tree(memory)
    main = tree.main("planner", "chat", principal=OWNER, by="maker")
    branch = tree.spawn(main.id, "branch", "look", ttl=timedelta(seconds=5), by="maker")
    assert branch.expires is not None
    tree.tick(branch.expires + timedelta(seconds=1))
    last = branch.history[-1]
    assert (last.by_iri, last.rule) == (iris.agent("trails"), "sweep: time to live")


def test_the_records_of_who_did_what_are_told_to_be_agents_or_principals(memory: Repository) -> None:
    plan(memory)
    memory.delete("plan", children="cascade")
    assert memory.store.quads((NamedNode(UNKNOWN), vocab.TYPE, vocab.AGENT, vocab.CATALOG))
    assert memory.verify().ok


def test_a_message_that_was_dropped_was_dropped_by_who_did_so_and_not_by_the_sessions_agent(memory: Repository) -> None:
    plan(memory)
    drop(memory, "bob")
    [exchange] = Ledger(memory).exchanges("plan")
    assert exchange.agent == "urn:trails:principal:bob"
    drop(memory, "agent:cleaner")
    assert Ledger(memory).exchanges("plan")[-1].agent == "cleaner"
    assert memory.verify().ok


def test_what_is_laid_over_an_entry_says_who_did_it_and_repeats_no_text(memory: Repository) -> None:
    router = Router(memory)
    router.route(trails.Inbound(channel="telegram", peer="7", content="Hello", principal=OWNER))
    router.merge("main", {"contextTokens": 7, "systemSent": True, "subject": "the PIN is 4711"}, by="bob")
    made = [
        act
        for act in activities.read_activities(memory.store, router.session("main").id)
        if isinstance(act, Alteration)
    ]
    assert {(act.field, act.old, act.new, act.by_iri) for act in made} == {
        ("contextTokens", None, "7", "urn:trails:principal:bob"),
        ("systemSent", None, "true", "urn:trails:principal:bob"),
        ("subject", None, None, "urn:trails:principal:bob"),
    }
    assert memory.verify().ok
