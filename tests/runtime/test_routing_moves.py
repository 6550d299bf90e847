"""Other names for session keys, and sessions that move between them: reported, recorded, taken back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trails import Inbound, InvalidInput, Ledger, Repository, RequestRefused, Router, SharedSessionWarning
from trails.model import iris
from trails.rdf import vocab

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
PER_PEER = {"session": {"dmScope": "per-peer"}}


def said(peer: str | None, content: Any = "Hello", channel: str = "telegram", **more: Any) -> Inbound:
    return Inbound(channel=channel, peer=peer, content=content, **more)


def contents(store: Repository, session_id: str) -> list[Any]:
    return [event.content for event in Ledger(store).inbox(session_id)]


def everything(store: Repository) -> set[str]:
    """All that is stored, but the records of what was moved, how often a key got a label or an alias, and salts of rows."""
    quads = store.store.quads((None, None, None, None))
    passing = (vocab.REVISION, vocab.ROW_SALT)
    return {str(q) for q in quads if "urn:trails:move:" not in str(q.subject) and q.predicate not in passing}


# --- aliases


def test_a_key_is_looked_for_directly_then_as_an_alias_and_made_last(store: Repository) -> None:
    router = Router(store, config=PER_PEER)
    alice = router.route(said("alice"))
    router.alias("boss", alice.key, by="dave")
    assert router.session("boss").id == alice.session_id
    routed = router.route(Inbound(key="boss", content="Hi"))
    assert (routed.key, routed.alias, routed.session_id) == (alice.key, "agent:main:boss", alice.session_id)
    [alias] = router.aliases()
    assert (alias.alias, alias.key, alias.reason, alias.by) == ("agent:main:boss", alice.key, "manual", "dave")
    assert router.resolve(key="boss") == alice.key
    assert router.session("somebody").id != alice.session_id
    assert store.verify().findings == ()


def test_an_alias_can_be_taken_away_and_a_record_of_it_stays(store: Repository) -> None:
    router = Router(store)
    router.session("main")
    router.alias("boss", "main")
    assert router.alias("boss", "main") == router.aliases("main")[0]
    router.unalias("boss", by="dave")
    assert router.aliases() == []
    rows = store.query("SELECT ?key ?who { ?d trails:removedAlias ?key ; prov:wasAssociatedWith ?who }").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert rows == [{"key": "agent:main:boss", "who": iris.principal("dave")}]
    with pytest.raises(InvalidInput, match="there is no alias"):
        router.unalias("boss")
    router.alias("boss", "main")
    assert store.verify().findings == ()


def test_an_alias_that_is_a_sessions_key_or_anothers_alias_is_refused(memory: Repository) -> None:
    router = Router(memory)
    router.session("main"), router.session("slack:group:a"), router.session("slack:group:b")
    with pytest.raises(InvalidInput, match="merge it into"):
        router.alias("slack:group:a", "main")
    router.alias("boss", "slack:group:a")
    with pytest.raises(InvalidInput, match="is an alias of"):
        router.alias("boss", "slack:group:b")
    with pytest.raises(InvalidInput, match="names no session"):
        router.alias("x", "nothing")


def test_a_person_who_is_identified_gets_a_better_key_and_keeps_the_session(store: Repository) -> None:
    router = Router(store, config=PER_PEER)
    old = router.route(said("555", "Hello"))
    router.patch(old.key, {"label": "desk", "thinkingLevel": "low"})
    earlier = old.session_id
    current = router.reset(old.key).session_id
    entry = router.entry(old.key)
    done = router.promote(old.key, "agent:main:dm:alice")
    assert {(moved.session_id, moved.current) for moved in done.moved} == {(earlier, False), (current, True)}
    assert router.session("agent:main:dm:alice").id == current
    assert router.sessions("agent:main:dm:alice") == [earlier, current]
    assert router.entry("agent:main:dm:alice") == entry
    assert router.route(said("555", "Me again")).session_id == current
    assert store.resolve("desk") == current
    assert store.verify().findings == ()


def test_two_keys_of_one_person_are_merged_and_parted_again(store: Repository) -> None:
    router = Router(store, config=PER_PEER)
    one, other = router.route(said("555", "On telegram")), router.route(said("U1", "On slack", channel="slack"))
    router.patch(other.key, {"label": "slack desk"})
    router.alias("second", other.key)
    before = everything(store)
    done = router.merge_into(other.key, one.key)
    assert router.session(other.key).id == router.session("second").id == one.session_id
    assert contents(store, other.session_id) == ["On slack"]
    assert router.sessions(one.key) == [other.session_id, one.session_id]
    assert store.verify().findings == ()
    with pytest.raises(InvalidInput, match="name one session already"):
        router.merge_into(other.key, one.key)
    router.undo(done.operation)
    assert router.session(other.key).id == router.session("second").id == other.session_id
    assert store.resolve("slack desk") == other.session_id
    after = everything(store)
    assert before - after == set()
    assert all("removedAlias" in q or "deletion" in q or "agent:unknown" in q for q in after - before)
    assert [move.reason for move in router.moves(other.session_id)] == ["merge", "undo"]
    assert store.verify().findings == ()


def test_an_operation_is_taken_back_once(memory: Repository) -> None:
    router = Router(memory, config=PER_PEER)
    done = router.promote(router.route(said("555")).key, "agent:main:dm:alice")
    router.undo(done.operation)
    with pytest.raises(InvalidInput, match="was taken back before"):
        router.undo(done.operation)
    with pytest.raises(InvalidInput, match="no operation 'nothing'"):
        router.undo("nothing")


# --- a change of scope


@pytest.mark.filterwarnings("ignore::trails.SharedSessionWarning")
def test_a_change_of_scope_moves_what_is_one_persons_and_names_what_it_cannot_place(store: Repository) -> None:
    router = Router(store)
    shared = router.route(said("1", "Me"))
    router.route(said("2", "And me"))
    alone = router.reset("main")
    router.route(said("1", "Only me"))
    router.patch("main", {"label": "desk"})
    group = router.route(Inbound(channel="telegram", kind="group", peer="9", sender="1", content="Hi all"))
    plan = router.migrate("per-channel-peer", dry_run=True)
    assert router.key_of(said("1")) == "agent:main:main"
    done = router.migrate("per-channel-peer", by="dave")
    assert (done.moved, done.unplaced) == (plan.moved, plan.unplaced)
    assert [(m.session_id, m.from_key, m.to_key, m.current) for m in done.moved] == [
        (alone.session_id, "agent:main:main", "agent:main:telegram:dm:1", True)
    ]
    [left] = done.unplaced
    assert (left.session_id, left.reason) == (shared.session_id, "several people wrote to it")
    assert left.senders == ("telegram/-/1", "telegram/-/2")
    assert router.route(said("1", "Here?")).session_id == alone.session_id
    second = router.route(said("2", "Here?"))
    assert (second.created, second.key) == (True, "agent:main:telegram:dm:2")
    assert store.resolve("desk") == alone.session_id
    assert (
        router.route(Inbound(channel="telegram", kind="group", peer="9", content="Hi")).session_id == group.session_id
    )
    assert store.verify().findings == ()


def test_a_change_of_scope_is_taken_back_with_what_was_written_since(store: Repository) -> None:
    router = Router(store)
    router.route(said("1", "Me"))
    before = everything(store)
    done = router.migrate("per-peer")
    back = router.undo(done.operation)
    assert everything(store) == before | {q for q in everything(store) if "agent:unknown" in q}
    assert (back.undoes, [m.to_key for m in back.moved]) == (done.operation, ["agent:main:main"])
    assert router.key_of(said("1")) == "agent:main:main"
    again = router.migrate("per-peer")
    first = router.session("agent:main:dm:1").id
    new = router.reset("agent:main:dm:1").session_id
    main = router.session("main").id
    router.undo(again.operation)
    assert (router.session("main").id, router.session("agent:main:dm:1").id) == (main, new)
    assert router.sessions("main") == [first, main]
    assert store.verify().findings == ()


def test_sessions_that_come_together_go_on_with_the_one_in_use_last(store: Repository) -> None:
    times = iter(START + timedelta(minutes=n) for n in range(100))
    router = Router(store, config={"session": {"dmScope": "per-channel-peer"}}, clock=lambda: next(times))
    one = router.route(said("1", "On telegram"))
    other = router.route(said("U1", "On slack", channel="slack"))
    router.route(said("1", "And again"))
    done = router.migrate("main")
    assert router.session("main").id == one.session_id
    assert {moved.session_id: moved.current for moved in done.moved} == {one.session_id: True, other.session_id: False}
    assert set(router.sessions("main")) == {one.session_id, other.session_id}
    assert router.session("agent:main:slack:dm:U1").id == one.session_id  # its key became an alias
    router.undo(done.operation)
    assert router.session("agent:main:slack:dm:U1").id == other.session_id
    assert router.session("agent:main:telegram:dm:1").id == one.session_id
    with pytest.raises(RequestRefused):
        router.entry("main")
    assert store.verify().findings == ()


def test_turns_of_which_nobody_knows_the_sender_keep_their_session_where_it_is(memory: Repository) -> None:
    router = Router(memory)
    session = router.session("main")
    session.append("user", "Who am I?")
    session.persist()
    router.route(said("1"))
    [left] = router.migrate("per-peer").unplaced
    assert (left.reason, left.senders) == ("nobody knows who wrote to it", ("telegram/-/1", "unknown"))


def test_a_peers_own_key_says_who_wrote_and_a_link_whose_session_it_is(memory: Repository) -> None:
    links = {"alice": ["telegram:1", "slack:U1"]}
    config = {"session": {"dmScope": "per-channel-peer", "identityLinks": links}}
    router = Router(memory, config=config)
    session = router.session("agent:main:telegram:dm:1")
    session.append("user", "Hello")
    session.persist()
    router.session("agent:main:dm:somebody")
    done = router.migrate("per-peer")
    assert [(moved.from_key, moved.to_key) for moved in done.moved] == [
        ("agent:main:telegram:dm:1", "agent:main:dm:alice")
    ]
    back = router.migrate("per-channel-peer", dry_run=True)
    assert ("agent:main:dm:somebody", ("-/-/somebody",)) in {(each.key, each.senders) for each in back.unplaced}


@pytest.mark.filterwarnings("ignore::trails.SharedSessionWarning")
def test_a_thread_goes_with_its_senders_too(memory: Repository) -> None:
    router = Router(memory)
    router.route(said("1", "Hi"))
    thread = router.route(said("1", "In a thread", thread="7"))
    router.migrate("per-peer")
    assert router.route(said("1", "More", thread="7")).session_id == thread.session_id


def test_the_warning_of_a_shared_session_is_no_error_of_ours() -> None:
    assert issubclass(SharedSessionWarning, UserWarning)
