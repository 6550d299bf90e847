"""The small store whose answers were counted by hand: nine sessions, some of them forks of others."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import trails
from trails import Compaction, Repository
from trails.history import turn_builder


def day(number: int) -> datetime:
    return datetime(2026, 3, number, 12, tzinfo=UTC)


def fill(store: Repository) -> None:
    """Store nine sessions. Forks: plan <- dinner (at 3) <- solo (at 2, inside what dinner inherits) <- tail (at 4)."""
    plan = store.create(
        id="plan",
        principal="alice",
        agent="planner",
        label="trip",
        meta={"project": "alps"},
        system="Be brief",
        created=day(1),
    )
    plan.append("user", "Plan a trip to the Alps", time=day(1))
    call = {"id": "c1", "name": "weather", "arguments": {"place": "Zermatt"}}
    plan.append(
        "assistant",
        "I look.",
        model="m-1",
        usage={"input_tokens": 10, "output_tokens": 5, "cost": 0.01},
        tool_calls=[call],
    )
    plan.append("tool", "Snow", tool_call_id="c1")
    plan.append(
        "assistant",
        "Take the train",
        model="m-1",
        usage={"input_tokens": 20, "output_tokens": 7, "cache_read_input_tokens": 4},
    )
    plan.append("user", "Thanks")
    plan.set_system("Be very brief")  # version 2, from turn 5 on: after both forks
    plan.persist()

    dinner = plan.fork(at=3, id="dinner", principal="bob", label="evening", created=day(2))
    dinner.append("user", "Plan a dinner instead")
    calls = [{"id": "c2", "name": "tables", "arguments": {"for": 2}}, {"id": "c3", "name": "taxi", "arguments": {}}]
    dinner.append(
        "assistant",
        "One moment.",
        model="m-2",
        usage={"input_tokens": 30, "output_tokens": 9, "cost": 0.02},
        tool_calls=calls,
    )
    dinner.append("tool", "no tables left", tool_call_id="c2", is_error=True)
    dinner.persist()

    solo = dinner.fork(at=2, id="solo", created=day(3), meta={"project": "alps", "people": 1})
    solo.append("user", "Just me", author="carol")
    made = Compaction(summarised_through=1, first_kept=2, tokens_before=100, tokens_after=20, trigger="manual")
    solo.append("summary", "A trip was asked for.", compaction=made)
    solo.set_system("Be kind")  # the second version of solo's own lineage
    solo.persist()
    tail = solo.fork(id="tail", created=day(4))
    tail.append("assistant", "A walk, then.", model="m-2", usage={"input_tokens": 1, "output_tokens": 1})
    tail.persist()

    recipes = store.create(id="recipes", principal="carol", agent="cook", meta={"project": "soup"}, created=day(5))
    recipes.append("user", "A recipe with SNOW peas", time=day(5))
    recipes.append("assistant", [{"type": "text", "text": "Soup, then."}])
    recipes.persist()

    store.create(id="scout", spawned_by="plan", agent="scout", kind="worker", created=day(6)).persist()
    store.create(id="helper", spawned_by="scout", agent="scout", created=day(7)).persist()

    imported = store.create(id="pi:01", source_session="pi:01", created=day(8))
    imported.worktree.append(turn_builder.make_draft("user", "hello", source_ids=["aa", "ab"], timed=False))
    imported.worktree.append(turn_builder.make_draft("assistant", "hi", source_ids=["ac"], timed=False))
    imported.persist()
    branch = imported.fork(at=1, id="pi:01~b", source_session="pi:01", created=day(9))
    branch.worktree.append(turn_builder.make_draft("assistant", "good day", source_ids=["ad"], timed=False))
    branch.persist()

    store.create(id="gone", principal="alice", created=day(10)).persist()
    store.delete("gone", by="dave")
    _work_at_a_desk(store)
    _pick_and_mark(store)
    _send_out_scouts(store)
    _meet_in_the_hall(store)
    _enter_runs(store)


def _work_at_a_desk(store: Repository) -> None:
    """Entries of the desk's ledger: 1 message, 2 its exchange, 3 the answer, 4 and 5 deliveries of it; 6 message, 7 its
    exchange, which failed, 8 that taken up again; 9 a message that waits.
    """
    store.create(id="desk", principal="dana", agent="clerk", created=day(11)).persist()
    ledger = trails.Ledger(store, clock=lambda: day(12))
    to: dict[str, Any] = {"source": "mail", "channel": "smtp", "peer": "eve", "author": "eve"}
    ledger.receive("desk", "Is it open?", event_id="m-1", **to)
    ledger.process("desk", lambda running: "Until six.")
    answer = ledger.events("desk", direction="outbound")[0]
    ledger.delivered(answer, outcome="failed", reason="mailbox full")
    ledger.delivered(answer, text="Until 6 pm.", at=day(13))
    ledger.receive("desk", "On Sundays too?", event_id="m-2", **to)
    with pytest.raises(RuntimeError):
        ledger.process("desk", _no_model)
    ledger.retry("desk", 7)
    ledger.receive("desk", "Hello?", mode="collect", **to)


def _pick_and_mark(store: Repository) -> None:
    """A session with a turn picked from dinner, two tags (and one that was removed), and a note (and one removed)."""
    picks = store.create(id="picks", principal="dave", created=day(14))
    picks.cherry_pick("dinner", 3)
    picks.persist()
    store.tags.add("v1", "plan@3")
    store.tags.add("final", "tail", by="agent:cook")
    store.tags.add("oops", "plan")
    store.tags.remove("oops")
    store.notes.add("dinner", 1, "Which tool was that?", by="bob")
    store.notes.remove(store.notes.add("plan", 1, "Never mind").id)
    _score(store)


def _score(store: Repository) -> None:
    """An agent scored dinner twice and tail; bob scored dinner too, and a turn that it has from plan."""
    grader: Any = {"by": "agent:grader", "version": "1"}
    store.score("dinner", "accuracy", 0.5, time=day(27), **grader)
    store.score("dinner", "accuracy", 0.75, time=day(28), reason="It asks", **grader)
    store.score("tail", "accuracy", 1, time=day(27), **grader)
    store.score("dinner", "accuracy", 0.25, by="bob", time=day(28))
    store.score("dinner", "done", True, by="bob", time=day(28))
    store.score("dinner#1", "accuracy", 0, by="agent:grader", version="1", time=day(29))
    store.score("dinner#1", "tone", "warm", by="bob", time=day(28))


def _send_out_scouts(store: Repository) -> None:
    """Mains on two channels. On chat a branch is at work, whose worker is done, and one rests; on mail one outlives it."""
    now = [day(15)]
    tree = trails.Tree(store, clock=lambda: now[0])
    chat = tree.main("chief", "chat", id="chat", system="Lead.", principal="erin")
    scan = chat.spawn("branch", "Look at the coast", "A walk is meant", timedelta(days=9), "large", id="scan")
    count = scan.spawn("worker", "Count the steps", id="count", ttl=timedelta(days=2))
    now[0] = day(16)
    count.complete(
        "9,000 steps", artifacts=[("file:///steps.csv", "created", "ab" * 32), ("file:///old.csv", "deleted")]
    )
    tree.incorporate(scan.results()[0], "It has 9,000 steps")
    chat.spawn("branch", "Book beds", id="beds", by="erin").suspend()
    mail = tree.main("chief", "mail", id="mail")
    mail.spawn("branch", "Write to the hut", id="letters")
    mail.fail("no more mail")


def _meet_in_the_hall(store: Repository) -> None:
    """The hall is a main session: entry 1 and 3 of its ledger are gina's messages, 2 is henry's, 4 notes that it read the
    annex. The annex is a group's session: entry 1 of its ledger notes that it was not to send.
    """
    store.create(
        id="hall", key="agent:main:main", kind="main", principal="gina", agent="main", created=day(21)
    ).persist()
    store.create(id="annex", key="agent:main:discord:group:dev", kind="group", agent="main", created=day(22)).persist()
    rules = [{"action": "deny", "match": {"channel": "discord"}}]
    router = trails.Router(store, config={"session": {"sendPolicy": {"rules": rules}}}, clock=lambda: day(23))
    router.session("discord:group:dev")
    for name, text in (("gina", "Is anybody here?"), ("henry", "I am."), ("gina", "Welcome.")):
        with pytest.warns(trails.SharedSessionWarning) if name == "henry" else contextlib.nullcontext():
            router.route(trails.Inbound(channel="chat", peer=name, principal=name, content=text))
    assert not router.may_send("discord:group:dev", channel="discord")
    router.history("main", "discord:group:dev")


def _enter_runs(store: Repository) -> None:
    """Two runs: the hall asked for one, which ran in the annex and was announced; of the other no session is here."""

    def ms(number: int, minutes: int = 0) -> int:
        return int((day(number) + timedelta(minutes=minutes)).timestamp()) * 1000

    done = {
        "runId": "r1",
        "childSessionKey": "agent:main:discord:group:dev",
        "requesterSessionKey": "agent:main:main",
        "task": "Look around",
        "label": "look",
        "createdAt": ms(24),
        "startedAt": ms(24),
        "endedAt": ms(24, 5),
        "outcome": {"status": "ok"},
        "cleanupHandled": True,
        "cleanupCompletedAt": ms(24, 6),
    }
    silent = {
        "runId": "r2",
        "childSessionKey": "agent:ops:subagent:x",
        "requesterSessionKey": "agent:ops:main",
        "task": "Count the doors",
        "createdAt": ms(25),
        "startedAt": ms(25),
        "endedAt": ms(26),
        "outcome": {"status": "error", "error": "no doors"},
        "cleanupHandled": False,
    }
    trails.Runs(store).import_file({"version": 2, "runs": {"r1": done, "r2": silent}})


def _no_model(running: object) -> str:
    raise RuntimeError("no model")


def later(minutes: float) -> datetime:
    """A while after the sixteenth day's noon, when the scouts were sent."""
    return day(16) + timedelta(minutes=minutes)
