"""What waits: messages that come once, in which order they are taken up, and how they get out unprocessed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.clocks import START, Clock
from tests.support.ledgers import echo, session_of
from tests.support.sessions import contents
from trails import Event, InvalidInput, Ledger, Repository
from trails.rdf.ledger_records import EntryTexts
from trails.runtime.inbox import next_messages
from trails.runtime.message_exchanges import Running

pytestmark = pytest.mark.any_store

# --- coming in


def test_a_message_waits_until_it_is_processed_also_over_a_restart(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True, durability="process") as store:
        session_of(store)
        Ledger(store).receive("main", "m1", source="mail", channel="smtp", account="us", peer="eve", author="eve")
    with trails.open(tmp_path / "s", durability="process") as store:
        (event,) = Ledger(store).inbox("main")
        assert (event.content, event.number, event.waiting, event.mode) == ("m1", 1, True, "followup")
        assert (event.source, event.channel, event.account, event.peer) == ("mail", "smtp", "us", "eve")
        Ledger(store).process("main", echo)
        assert Ledger(store).inbox("main") == []
        assert [turn.author for turn in store.load("main").turns] == ["eve", "clerk"]


def test_a_message_with_a_known_id_adds_nothing(ledger: Ledger, store: Repository) -> None:
    first = ledger.receive("main", "m1", source="mail", event_id="1")
    assert ledger.receive("main", "m1", source="mail", event_id="1") == first
    ledger.process("main", echo)
    before = len(store.store)
    again = ledger.receive("main", "m1", source="mail", event_id="1")
    assert (again.number, again.waiting) == (1, False)
    assert len(store.store) == before
    assert ledger.process("main", echo) == []


def test_a_handler_that_cannot_be_called_is_refused_before_a_message_is_taken_up(ledger: Ledger) -> None:
    ledger.receive("main", "m1")
    with pytest.raises(InvalidInput, match="cannot be called"):
        ledger.process("main", 7)  # type: ignore[arg-type] # as a program without types may
    assert [event.content for event in ledger.inbox("main")] == ["m1"]


def test_an_id_is_its_sources_own_and_without_a_source_its_sessions(store: Repository) -> None:
    session_of(store)
    session_of(store, name="other")
    ledger = Ledger(store)
    events = [
        ledger.receive("main", "one", source="mail", event_id="1"),
        ledger.receive("main", "two", source="chat", event_id="1"),
        ledger.receive("main", "three", event_id="1"),
        ledger.receive("other", "four", event_id="1"),
        ledger.receive("main", "no id"),
        ledger.receive("main", "no id"),
    ]
    expected = [("main", 1), ("main", 2), ("main", 3), ("other", 1), ("main", 4), ("main", 5)]
    assert [(event.session_id, event.number) for event in events] == expected


def test_a_message_that_another_session_has_is_not_put_in_twice(store: Repository) -> None:
    session_of(store)
    session_of(store, name="other")
    ledger = Ledger(store)
    first = ledger.receive("main", "m1", source="mail", event_id="1")
    ledger.process("main", echo)
    again = ledger.receive("other", "m1", source="mail", event_id="1")
    assert (again.session_id, again.number) == ("main", first.number)
    assert ledger.process("other", echo) == []
    with pytest.raises(InvalidInput, match="session 'main' has another message with the id '1' of 'mail'"):
        ledger.receive("other", "something else", source="mail", event_id="1")
    store.delete("main")
    assert ledger.receive("other", "m1", source="mail", event_id="1").session_id == "other"


def test_of_threads_that_put_one_message_into_many_sessions_one_does(store: Repository) -> None:
    names = [f"s{number}" for number in range(12)]
    for name in names:
        session_of(store, name=name)
    ledger = Ledger(store)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda name: ledger.receive(name, "m1", source="mail", event_id="1"), names))
    assert len({event.iri for event in made}) == 1
    assert sum(len(ledger.inbox(name)) for name in names) == 1


@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning")  # what is tried is not persisted
def test_a_fork_with_a_known_message_is_the_one_that_was_made_with_it(store: Repository) -> None:
    session_of(store)
    session_of(store, name="other").append("user", "hello")
    main = store.load("main")
    main.append("user", "hello")
    main.persist()
    ledger = Ledger(store)
    fork = ledger.fork_from(("main", 0), "And on Sundays?", source="mail", event_id="7")
    assert ledger.fork_from(("main", 0), "And on Sundays?", source="mail", event_id="7").id == fork.id
    assert [record.id for record in main.branches()] == [fork.id]
    ledger.receive("other", "m1", source="mail", event_id="8")
    with pytest.raises(InvalidInput, match="nothing was forked"):
        ledger.fork_from(("main", 0), "m1", source="mail", event_id="8")
    assert [record.id for record in main.branches()] == [fork.id]


@pytest.mark.parametrize("processed", [False, True])
def test_another_content_under_a_known_id_is_refused(ledger: Ledger, processed: bool) -> None:
    ledger.receive("main", "m1", source="mail", event_id="1")
    if processed:
        ledger.process("main", echo)
    for other in ("m2", [{"type": "text", "text": "m1"}]):
        with pytest.raises(InvalidInput, match="'1' of 'mail'"):
            ledger.receive("main", other, source="mail", event_id="1")


def test_after_a_redaction_an_id_is_still_known(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "a secret", source="mail", event_id="1")
    ledger.process("main", lambda running: None)
    store.redact("main", 0)
    assert ledger.receive("main", "a secret", source="mail", event_id="1").number == 1
    assert len(ledger.events("main")) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"content": 1},
        {"content": "\ud800"},
        {"content": [1]},
        {"source": ""},
        {"channel": "a\nb"},
        {"event_id": ""},
        {"event_id": "x" * 1001},
        {"mode": "interrupt"},
        {"time": datetime(2026, 3, 1)},  # noqa: DTZ001 - the point of it
        {"author": " eve"},
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_written(store: Repository, wrong: dict[str, Any]) -> None:
    session_of(store)
    before = len(store.store)
    with pytest.raises(InvalidInput):
        Ledger(store).receive("main", **({"content": "m1"} | wrong))
    assert len(store.store) == before


def test_a_clock_without_a_zone_and_a_negative_debounce_are_refused(store: Repository) -> None:
    session_of(store)
    with pytest.raises(InvalidInput, match="time zone"):
        Ledger(store, clock=lambda: datetime(2026, 3, 1)).receive("main", "m1")  # noqa: DTZ001 - the point of it
    with pytest.raises(InvalidInput, match="debounce"):
        Ledger(store, debounce=timedelta(seconds=-1))


def test_the_turn_of_a_message_has_its_sources_time(store: Repository) -> None:
    session_of(store)
    ledger = Ledger(store, clock=Clock())
    ledger.receive("main", "m1", time=datetime(2026, 2, 28, tzinfo=UTC))
    (event,) = ledger.inbox("main")
    assert (event.time, event.received) == (datetime(2026, 2, 28, tzinfo=UTC), START)
    ledger.process("main", echo)
    assert store.load("main").turns[0].time == datetime(2026, 2, 28, tzinfo=UTC)


# --- modes


def test_followups_are_an_exchange_each_in_their_order(ledger: Ledger) -> None:
    for text in ("m1", "m2"):
        ledger.receive("main", text)
    assert [each.events for each in ledger.process("main", echo)] == [(1,), (2,)]


def test_messages_to_be_collected_are_joined_within_the_debounce(store: Repository) -> None:
    session_of(store)
    clock = Clock()
    ledger = Ledger(store, clock=clock, debounce=timedelta(seconds=10))
    ledger.receive("main", "m1", mode="collect", source="t", event_id="1")
    clock.pass_by(seconds=10)
    ledger.receive("main", "m2", mode="collect", source="t", event_id="2")
    assert ledger.process("main", echo) == []
    assert ledger.due("main") == START + timedelta(seconds=20)
    clock.pass_by(seconds=9.999)
    assert ledger.process("main", echo) == []
    clock.pass_by(seconds=0.001)
    assert ledger.due("main") == clock.now
    (done,) = ledger.process("main", echo)
    assert contents(store) == ["m1", "m2", "re: m2"]
    assert done.events == (1, 2)
    turns = store.load("main").turns
    expected = [(turns[0].iri,), (turns[1].iri,)]
    assert [event.turn_iris for event in ledger.events("main", direction="inbound")] == expected
    assert ledger.due("main") is None


def test_a_debounce_longer_than_the_calendar_is_waited_for_to_its_end(store: Repository) -> None:
    session_of(store)
    ledger = Ledger(store, clock=Clock(), debounce=timedelta.max)
    ledger.receive("main", "m1", mode="collect", source="t", event_id="1")
    assert ledger.process("main", echo) == []
    assert ledger.due("main") == datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)


def test_a_message_after_the_debounce_is_an_exchange_of_its_own(store: Repository) -> None:
    session_of(store)
    clock = Clock()
    ledger = Ledger(store, clock=clock, debounce=timedelta(seconds=10))
    ledger.receive("main", "m1", mode="collect")
    clock.pass_by(seconds=10.001)
    ledger.receive("main", "m2", mode="collect")
    assert [each.events for each in ledger.process("main", echo)] == [(1,)]
    clock.pass_by(seconds=10)
    assert [each.events for each in ledger.process("main", echo)] == [(2,)]


def test_only_messages_from_one_address_are_joined(store: Repository) -> None:
    session_of(store)
    clock = Clock()
    ledger = Ledger(store, clock=clock, debounce=timedelta(seconds=10))
    ledger.receive("main", "m1", mode="collect", channel="chat", peer="a")
    ledger.receive("main", "m2", mode="collect", channel="chat", peer="b")
    clock.pass_by(seconds=10)
    assert [each.events for each in ledger.process("main", echo)] == [(1,), (2,)]


def test_what_is_collected_while_an_exchange_is_at_work_becomes_one(store: Repository) -> None:
    session_of(store)
    clock = Clock()
    ledger = Ledger(store, clock=clock, debounce=timedelta(seconds=10))
    ledger.receive("main", "m1")

    def handler(running: Running) -> str:
        if len(running.messages) == 1:
            ledger.receive("main", "m2", mode="collect")
            ledger.receive("main", "m3", mode="collect")
            clock.pass_by(seconds=20)
        return echo(running)

    assert len(ledger.process("main", handler)) == 2
    assert contents(store) == ["m1", "re: m1", "m2", "m3", "re: m3"]


def test_a_message_is_steered_into_the_exchange_that_asks(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "m1")

    def handler(running: Running) -> str:
        assert running.steered() == ()
        running.append("assistant", "first step")
        ledger.receive("main", "not now")
        ledger.receive("main", "also this", mode="steer")
        assert [event.content for event in running.steered()] == ["also this"]
        assert [event.content for event in ledger.inbox("main")] == ["not now"]
        return "second step"

    (done,) = ledger.process("main", handler, limit=1)
    assert contents(store) == ["m1", "first step", "also this", "second step"]
    assert done.events == (1, 4)  # 2 is the exchange itself, 3 the message that was not steered
    assert store.verify().ok


def test_a_message_that_was_not_steered_in_becomes_a_followup(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "m1")

    def handler(running: Running) -> str:
        if running.messages[0].content == "m1":
            ledger.receive("main", "also this", mode="steer")
        return echo(running)

    assert len(ledger.process("main", handler)) == 2
    assert contents(store) == ["m1", "re: m1", "also this", "re: also this"]


def test_with_nothing_at_work_a_steer_is_a_followup(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "m1", mode="steer")
    ledger.process("main", echo)
    assert contents(store) == ["m1", "re: m1"]


def test_a_steered_message_of_a_failed_exchange_is_taken_up_again_with_it(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "m1")

    def handler(running: Running) -> None:
        ledger.receive("main", "also this", mode="steer")
        running.steered()
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        ledger.process("main", handler)
    ledger.retry("main", 2)
    ledger.process("main", echo)
    assert contents(store) == ["m1", "also this", "re: also this"]
    assert store.verify().ok


# --- the pure rule


def waiting(number: int, second: float, mode: str, peer: str = "a") -> Event:
    moment = START + timedelta(seconds=second)
    return Event(
        session_id="s",
        number=number,
        direction="inbound",
        mode=mode,  # type: ignore[arg-type] # drawn
        peer=peer,
        time=moment,
        received=moment,
        waiting=True,
        words=EntryTexts(text="x", digest=""),
    )


@given(
    gaps=st.lists(
        st.tuples(st.floats(0, 20), st.sampled_from(["followup", "collect", "steer"]), st.sampled_from("ab")),
        min_size=1,
        max_size=12,
    )
)
def test_messages_come_up_once_in_order_within_the_debounce(gaps: list[tuple[float, str, str]]) -> None:
    moments, at = [], 0.0
    for gap, mode, peer in gaps:
        at += gap
        moments.append((at, mode, peer))
    left = [waiting(number, *moment) for number, moment in enumerate(moments, 1)]
    debounce, taken = timedelta(seconds=10), []
    now = START + timedelta(seconds=at)
    while left:
        events, due = next_messages(left, now, debounce)
        if not events:
            assert due is not None
            assert now < due <= now + debounce
            now = due
            continue
        assert all(later.received - earlier.received <= debounce for earlier, later in pairwise(events))  # type: ignore[operator] # set
        assert len(events) == 1 or {event.mode for event in events} == {"collect"}
        assert len({event.peer for event in events}) == 1
        taken += [event.number for event in events]
        left = left[len(events) :]
    assert taken == list(range(1, len(gaps) + 1))
    assert next_messages([], now, debounce) == ((), None)


# --- out of it


def test_a_message_that_is_dropped_is_gone_and_not_processed(ledger: Ledger, store: Repository) -> None:
    event = ledger.receive("main", "a secret")
    gone = ledger.drop("main", event.number, reason="by mistake")
    assert (gone.content, gone.waiting) == (None, False)
    assert gone.words is not None
    assert gone.words.withheld
    assert ledger.process("main", echo) == []
    (exchange,) = ledger.exchanges("main")
    assert (exchange.state, exchange.error) == ("failed", "dropped: by mistake")
    with pytest.raises(InvalidInput, match="taken out"):
        ledger.retry("main", exchange.number)
    assert "a secret" not in str(store.store.quads((None, None, None, None)))
    assert store.verify().ok


def test_dropping_the_message_of_a_failed_exchange_removes_its_error_too(ledger: Ledger, store: Repository) -> None:
    event = ledger.receive("main", "a secret")

    def handler(running: Running) -> None:
        raise ValueError(f"cannot read {running.messages[0].content}")

    with pytest.raises(ValueError, match="a secret"):
        ledger.process("main", handler)
    ledger.drop("main", event.number)
    assert "a secret" not in str(store.store.quads((None, None, None, None)))
    assert store.verify().ok


def test_a_message_that_a_turn_says_or_that_is_in_the_works_cannot_be_dropped(ledger: Ledger) -> None:
    event = ledger.receive("main", "m1")

    def handler(running: Running) -> None:
        with pytest.raises(InvalidInput, match="open exchange"):
            ledger.drop("main", event.number)

    (done,) = ledger.process("main", handler)
    with pytest.raises(InvalidInput, match="redact"):
        ledger.drop("main", event.number)
    with pytest.raises(InvalidInput, match="is no event"):
        ledger.drop("main", done.number)


def test_a_message_redacted_before_its_retry_keeps_no_other_waiting(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "the secret")

    def failing(running: Running) -> None:
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"):
        ledger.process("main", failing, keep_partial=True)
    (failed,) = ledger.exchanges("main")
    again = ledger.retry("main", failed.number)
    assert failed.kept_as is not None
    store.redact(failed.kept_as, 0)
    ledger.receive("main", "another")
    assert [exchange.events for exchange in ledger.process("main", echo)] == [(4,)]
    assert contents(store) == ["another", "re: another"]
    (left,) = [exchange for exchange in ledger.exchanges("main", state="failed") if exchange.number == again.number]
    assert left.error == "the text of message 1 was taken out"
    assert store.verify().ok


# --- nothing said


@pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}]])
def test_a_message_with_nothing_in_it_is_refused(store: Repository, content: Any) -> None:
    store.create(id="desk").persist()
    with pytest.raises(InvalidInput, match="the message for session 'desk' is empty"):
        Ledger(store).receive("desk", content)
    assert Ledger(store).inbox("desk") == []


@pytest.mark.parametrize("answer", ["", [], [{"type": "text", "text": ""}], None])
def test_a_handler_that_answers_nothing_completes_its_exchange(store: Repository, answer: Any) -> None:
    store.create(id="desk").persist()
    ledger = Ledger(store)
    ledger.receive("desk", "Is it open?")
    (done,) = ledger.process("desk", lambda _: answer)
    assert done.state == "completed"
    assert [turn.content for turn in store.load("desk").turns] == ["Is it open?"]
    assert [event.direction for event in ledger.events("desk")] == ["inbound"]


def test_two_who_have_one_store_open_put_messages_into_one_ledger_in_turn(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as one, trails.open(tmp_path / "s") as other:
        session_of(one)
        ledgers = (Ledger(one), Ledger(other))
        events = [ledgers[number % 2].receive("main", f"m{number}") for number in range(6)]
        assert [event.number for event in events] == [1, 2, 3, 4, 5, 6]
        assert [event.content for event in ledgers[0].inbox("main")] == ["m0", "m1", "m2", "m3", "m4", "m5"]
        ledgers[1].process("main", echo, limit=1)
        assert contents(one) == ["m0", "re: m0"]
        assert ledgers[0].receive("main", "m6").number == 9  # the exchange and its answer are 7 and 8
