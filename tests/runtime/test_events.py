"""Events and deliveries: linked in PROV, out of the chain, and in reach of redacting, deleting, verifying and copying."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.clocks import START, Clock
from tests.support.ledgers import echo, session_of
from tests.support.sessions import contents
from trails import InvalidInput, Ledger, Repository, SessionNotFound
from trails.exchange.rdf_files import export_session, import_rdf
from trails.model import iris
from trails.rdf import vocab
from trails.runtime.message_exchanges import Running
from trails.session import store_restore
from trails.store.contract import Change

pytestmark = pytest.mark.any_store

MAIN = "urn:trails:session:main"


def entry(number: int) -> NamedNode:
    return NamedNode(f"{MAIN}/ledger/{number}")


def answered(store: Repository, *, clock: Clock | None = None) -> Ledger:
    """Entries of the ledger of `main`: 1 a message, 2 its exchange, 3 the answer; turns: the message and the answer."""
    session_of(store)
    ledger = Ledger(store, clock=clock)
    ledger.receive("main", "Is it open?", source="mail", event_id="m-1", channel="smtp", peer="eve")
    ledger.process("main", lambda running: "Until six.")
    return ledger


def everything(store: Repository) -> str:
    return "\n".join(str(quad) for quad in store.store.quads((None, None, None, None)))


# --- provenance


def test_event_exchange_and_answer_are_linked_in_prov_and_the_turns_are_not_touched(store: Repository) -> None:
    answered(store)
    said, answer = (NamedNode(turn.iri) for turn in store.load("main").turns)
    graph = NamedNode(f"{MAIN}/ledger")
    links = {
        (quad.subject, quad.predicate, quad.object)
        for quad in store.store.quads((None, None, None, graph))
        if quad.predicate in (vocab.USED, vocab.GENERATED, vocab.GENERATED_BY, vocab.DERIVED_FROM, vocab.RECORDED_AS)
    }
    assert links == {
        (entry(2), vocab.USED, entry(1)),
        (entry(2), vocab.GENERATED, said),
        (entry(2), vocab.GENERATED, answer),
        (entry(1), vocab.RECORDED_AS, said),
        (entry(3), vocab.DERIVED_FROM, answer),
        (entry(3), vocab.GENERATED_BY, entry(2)),
    }
    assert len(store.store.quads((None, None, None, NamedNode(MAIN)))) == 2 * 10  # two plain turns


def test_a_text_stands_in_the_store_once(store: Repository) -> None:
    ledger = answered(store)
    ledger.delivered(ledger.events("main", direction="outbound")[0], text="Until six.")
    assert everything(store).count("Is it open?") == 1
    assert everything(store).count("Until six.") == 1
    inbound, outbound = ledger.events("main")
    assert (inbound.content, outbound.content) == (None, None)
    assert (ledger.content(inbound), ledger.content(outbound)) == ("Is it open?", "Until six.")


def test_the_answer_goes_back_to_where_the_message_came_from(store: Repository) -> None:
    ledger = answered(store, clock=Clock())
    (outbound,) = ledger.events("main", direction="outbound")
    assert (outbound.channel, outbound.peer, outbound.exchange, outbound.time) == ("smtp", "eve", 2, START)
    assert outbound.turn_iris == (store.load("main").turns[1].iri,)


def test_the_answer_is_the_last_turn_that_is_neither_a_message_nor_a_tools(ledger: Ledger) -> None:
    ledger.receive("main", "m1")

    def handler(running: Running) -> None:
        running.append("assistant", "the answer")
        running.append("tool", "a result", tool_call_id="c1")

    ledger.process("main", handler)
    (outbound,) = ledger.events("main", direction="outbound")
    assert ledger.content(outbound) == "the answer"


def test_the_ledger_is_out_of_transcripts_token_counts_and_the_session_graph(store: Repository) -> None:
    ledger = answered(store)
    ledger.delivered(store.load("main").turns[1], channel="smtp", text="Until 6.")
    assert [turn["content"] for turn in store.replay("main")] == ["Is it open?", "Until six."]
    assert store.query("token-usage-by-session").to_dicts() == []  # type: ignore[union-attr] # a SELECT
    assert store.info()["turns"] == 2


# --- deliveries


def test_deliveries_are_counted_by_turn_and_channel(store: Repository) -> None:
    ledger = answered(store)
    (outbound,) = ledger.events("main", direction="outbound")
    turn = store.load("main").turns[1]
    made = [
        ledger.delivered(outbound, outcome="failed", reason="mailbox full", at=START),
        ledger.delivered(turn, channel="chat"),
        ledger.delivered(turn.iri, channel="smtp", text="Until 6 pm."),
    ]
    expected = [("smtp", 1, "failed"), ("chat", 1, "sent"), ("smtp", 2, "sent")]
    assert [(each.channel, each.attempt, each.outcome) for each in made] == expected
    assert [each.event for each in made] == [3, 3, 3]
    assert [each.text for each in made] == [None, None, "Until 6 pm."]
    assert (made[0].reason, made[0].time) == ("mailbox full", START)
    assert ledger.deliveries("main") == made
    assert ledger.deliveries("main", turn=turn) == made
    assert ledger.deliveries("main", turn=store.load("main").turns[0]) == []
    assert store.verify().ok


def test_a_turn_that_no_exchange_made_can_be_delivered_too(store: Repository) -> None:
    session = session_of(store, "hello")
    ledger = Ledger(store)
    made = ledger.delivered(session.turns[0], channel="chat")
    assert (made.event, made.number) == (None, 1)
    assert store.verify().ok


def test_a_turn_that_a_fork_inherits_is_delivered_in_its_owners_ledger(store: Repository) -> None:
    fork = session_of(store, "hello").fork(at=1, id="fork")
    fork.persist()
    ledger = Ledger(store)
    assert ledger.delivered(fork.turns[0], channel="chat").session_id == "main"


def test_a_delivery_of_nothing_that_is_stored_is_refused(store: Repository) -> None:
    ledger = answered(store)
    inbound, outbound = ledger.events("main")
    pending = store.load("main")
    wrong: list[Callable[[], object]] = [
        lambda: ledger.delivered(inbound),
        lambda: ledger.delivered(pending.append("user", "not stored"), channel="chat"),
        lambda: ledger.delivered(f"{MAIN}/9-0000000000000000", channel="chat"),
        lambda: ledger.delivered("http://example.org/", channel="chat"),
        lambda: ledger.delivered(f"{MAIN}/ 9", channel="chat"),
        lambda: ledger.delivered(store.load("main").turns[0]),  # over which channel?
        lambda: ledger.delivered(outbound, outcome="lost"),  # type: ignore[arg-type] # the point of it
        lambda: ledger.delivered(outbound, reason=""),
        lambda: ledger.delivered(outbound, text="\ud800"),
    ]
    before = len(store.store)
    for call in wrong:
        with pytest.raises((InvalidInput, SessionNotFound)):
            call()
    assert len(store.store) == before
    pending.discard_pending()


# --- redacting, deleting


def test_redacting_a_turn_takes_out_what_repeats_it_in_the_ledger(store: Repository) -> None:
    ledger = answered(store)
    (outbound,) = ledger.events("main", direction="outbound")
    ledger.delivered(outbound, text="We close at six o'clock.")
    waiting = ledger.receive("main", "You said: Until six.")
    report = store.redact("main", 1)
    assert report.entries == (entry(4).value,)
    assert report.ledger_quotes == (waiting.iri,)
    assert "six o'clock" not in everything(store)
    (delivery,) = ledger.deliveries("main")
    assert delivery.text is None
    assert delivery.words is not None
    assert delivery.words.withheld
    later = ledger.delivered(outbound, text="We close at six o'clock.")
    assert later.words is not None
    assert later.words.withheld
    assert "six o'clock" not in everything(store)
    assert store.verify().ok


def test_redacting_a_message_takes_out_the_errors_of_earlier_tries(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "my password is hunter2")

    def handler(running: Running) -> None:
        raise ValueError(f"cannot parse {running.messages[0].content}")

    with pytest.raises(ValueError, match="hunter2"):
        ledger.process("main", handler)
    ledger.retry("main", 2)
    ledger.process("main", lambda running: "ok")
    store.redact("main", 0)
    assert "hunter2" not in everything(store)
    (failed,) = ledger.exchanges("main", state="failed")
    assert failed.error is None
    assert store.verify().ok


def test_vacuum_leaves_nothing_of_a_redacted_message_in_the_files(tmp_path: Path) -> None:
    text = "a-text-of-some-length-that-nothing-else-holds"
    with trails.open(tmp_path / "s", create=True) as store:
        session_of(store)
        ledger = Ledger(store)
        ledger.receive("main", text)
        ledger.process("main", lambda running: "ok")
        ledger.delivered(store.load("main").turns[0], channel="chat", text=f"quoting {text}")
        store.redact("main", 0)
        store.maintenance.vacuum()
        assert store.verify().ok
    assert not [path for path in (tmp_path / "s").rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_deleting_a_session_takes_its_ledger_and_leaves_the_tombstone(store: Repository) -> None:
    ledger = answered(store)
    ledger.receive("main", "still waiting")
    store.delete("main")
    assert store.store.quads((None, None, None, NamedNode(f"{MAIN}/ledger"))) == []
    for text in ("Is it open?", "still waiting", "m-1"):
        assert text not in everything(store)
    assert store.verify().ok
    with pytest.raises(SessionNotFound, match="deleted"):
        ledger.receive("main", "more")


def test_a_session_that_is_deleted_during_an_exchange_ends_it(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "m1")

    def handler(running: Running) -> str:
        store.delete("main")
        return "too late"

    with pytest.raises(SessionNotFound, match="deleted"):
        ledger.process("main", handler)
    assert "too late" not in everything(store)
    assert store.verify().ok


def test_a_session_with_a_new_message_is_not_pruned_for_its_old_turns(store: Repository) -> None:
    session = store.create(id="main", created=START - timedelta(days=400))
    session.append("user", "long ago", time=START - timedelta(days=400))
    session.persist()
    ledger = Ledger(store)
    ledger.receive("main", "are you there?")
    assert store.prune(older_than=timedelta(days=300)).sessions == ()


# --- verifying


def alter(store: Repository, remove: list[Quad], add: list[Quad]) -> None:
    assert store.store.commit(Change(add=add, remove=remove)).written


def changed(quad: Quad, value: Any) -> Quad:
    return Quad(quad.subject, quad.predicate, value, quad.graph_name)


def the(store: Repository, node: NamedNode, predicate: NamedNode) -> Quad:
    (found,) = store.store.quads((node, predicate, None, None))
    return found


@pytest.mark.parametrize(
    ("number", "predicate", "value", "code"),
    [
        (2, vocab.STATE, Literal("failed"), "row-altered"),
        (1, vocab.SOURCE, Literal("chat"), "row-altered"),
        (4, vocab.OUTCOME, Literal("failed"), "row-altered"),
        (4, vocab.VALUE, Literal("Until seven."), "digest-mismatch"),
        (5, vocab.VALUE, Literal("Or not?"), "digest-mismatch"),
        (3, vocab.DERIVED_FROM, NamedNode(f"{MAIN}/1-0000000000000000"), "row-altered"),
        (1, vocab.RECORDED_AS, NamedNode(f"{MAIN}/1-0000000000000000"), "bad-row"),
        (2, vocab.STATE, Literal("done"), "bad-row"),
    ],
)
def test_an_altered_entry_is_named(store: Repository, number: int, predicate: NamedNode, value: Any, code: str) -> None:
    ledger = answered(store)
    ledger.delivered(ledger.events("main", direction="outbound")[0], text="Until 6.")
    ledger.receive("main", "And now?")
    assert store.verify().ok
    quad = the(store, entry(number), predicate)
    alter(store, [quad], [changed(quad, value)])
    findings = store.verify().findings
    assert code in {finding.code for finding in findings}
    assert {finding.session_id for finding in findings} == {"main"}
    assert code in {finding.code for finding in store.verify("main").findings}


def test_an_entry_that_vanished_or_was_smuggled_in_is_named(store: Repository) -> None:
    ledger = answered(store)
    ledger.delivered(ledger.events("main", direction="outbound")[0])
    graph = NamedNode(f"{MAIN}/ledger")
    gone = store.store.quads((entry(4), None, None, graph))
    alter(store, gone, [])
    assert [finding.code for finding in store.verify().findings] == ["rolled-back"]
    alter(store, [], gone)
    assert store.verify().ok
    copy = [Quad(entry(5), q.predicate, Literal(5) if q.predicate == vocab.NUMBER else q.object, graph) for q in gone]
    alter(store, [], copy)
    assert [finding.code for finding in store.verify().findings] == ["unlogged"]


def test_a_stray_quad_in_a_ledger_and_a_message_that_nothing_holds_are_named(store: Repository) -> None:
    ledger = answered(store)
    ledger.receive("main", "And now?")
    graph = NamedNode(f"{MAIN}/ledger")
    stray = Quad(entry(1), vocab.LABEL, Literal("x"), graph)
    alter(store, [], [stray])
    assert [finding.code for finding in store.verify().findings] == ["stray"]
    alter(store, [stray, the(store, entry(4), vocab.WAITING)], [])
    (finding,) = store.verify().findings
    assert "a message is lost" in finding.message


def test_a_ledger_of_a_session_that_is_not_there_is_named(store: Repository) -> None:
    answered(store)
    ghost = NamedNode("urn:trails:session:ghost/ledger")
    alter(store, [], [Quad(ghost, vocab.TYPE, vocab.LEDGER, ghost)])
    (finding,) = store.verify().findings
    expected = ("stray-graph", True)
    assert (finding.code, "ghost/ledger is the ledger of a session that is not there" in finding.message) == expected


# --- copying


def test_a_ledger_survives_dump_and_load_and_backup(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True, durability="process") as store:
        ledger = answered(store)
        ledger.receive("main", "still waiting")
        before = ledger.events("main")
        store.maintenance.dump(tmp_path / "dump.nq.gz")
        store.maintenance.backup(tmp_path / "backup")
    assert store_restore.load_dump(tmp_path / "dump.nq.gz", tmp_path / "loaded").ok
    for place in ("loaded", "backup"):
        with trails.open(tmp_path / place, durability="process") as copy:
            assert Ledger(copy).events("main") == before
            Ledger(copy).process("main", echo)
            assert contents(copy)[-2:] == ["still waiting", "re: still waiting"]
            assert [move.length for move in Ledger(copy).head_moves("main")] == [2, 4]
            assert copy.verify().ok


@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_an_export_has_the_ledger_and_comes_out_the_same_again(opener: Callable[[str], Repository], form: str) -> None:
    def exported(store: Repository) -> bytes:
        out = io.BytesIO()
        export_session(store, "main", form, out)
        return out.getvalue()

    with opener("one") as one, opener("two") as two:
        ledger = answered(one)
        ledger.receive("main", "still waiting")
        first = exported(one)
        assert import_rdf(two, first, form).problems == []
        assert exported(two) == first
        assert two.verify().ok
        assert import_rdf(two, first, form).unchanged == ["main"]
        ledger.process("main", echo)  # it goes on in the first store
        second = exported(one)
        report = import_rdf(two, second, form)
        assert (report.grown, report.problems) == (["main"], [])
        assert exported(two) == second
        assert Ledger(two).inbox("main") == []
        assert two.verify().ok
        assert import_rdf(one, first, form).unchanged == ["main"]  # what is older adds nothing
        assert exported(one) == second


def test_ledgers_that_went_two_ways_are_not_mixed(opener: Callable[[str], Repository]) -> None:
    with opener("one") as one, opener("two") as two:
        ledger = answered(one)
        out = io.BytesIO()
        export_session(one, "main", "nquads", out)
        import_rdf(two, out.getvalue(), "nquads")
        ledger.receive("main", "here")
        Ledger(two).receive("main", "there")
        out = io.BytesIO()
        export_session(one, "main", "nquads", out)
        (problem,) = import_rdf(two, out.getvalue(), "nquads").problems
        assert "other entries" in problem.reason
        assert [event.content for event in Ledger(two).inbox("main")] == ["there"]
        assert two.verify().ok


def test_what_was_redacted_here_does_not_come_back_with_an_old_export(opener: Callable[[str], Repository]) -> None:
    with opener("one") as one, opener("two") as two:
        ledger = answered(one)
        ledger.delivered(ledger.events("main", direction="outbound")[0], text="We close at six o'clock.")
        out = io.BytesIO()
        export_session(one, "main", "nquads", out)
        import_rdf(two, out.getvalue(), "nquads")
        two.redact("main", 1)
        two.delete("main")
        report = import_rdf(two, out.getvalue(), "nquads", restore=True)
        assert (report.sessions_created, report.problems) == (["main"], [])
        assert "six" not in everything(two)
        assert two.verify().ok


def test_a_graph_that_only_looks_like_a_ledger_is_refused_in_an_import(memory: Repository) -> None:
    session_of(memory, "hello")
    out = io.BytesIO()
    export_session(memory, "main", "nquads", out)
    line = f'<{MAIN}/ledger/1> <{vocab.VALUE.value}> "x" <{MAIN}/ledger> .\n'
    with trails.open(":memory:") as other, pytest.raises(InvalidInput, match="ledger"):
        import_rdf(other, out.getvalue() + line.encode(), "nquads")
    assert iris.is_ledger(f"{MAIN}/ledger")
