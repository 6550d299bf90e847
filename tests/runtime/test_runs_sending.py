"""Messages between sessions: who may send to whom, answers within a time, and the talk of two agents."""

from __future__ import annotations

from typing import Any

import pytest

import trails
from tests.support.clocks import Clock
from tests.support.runs import MAIN, counter
from trails import InvalidInput, Ledger, Repository, Runs, SessionNotFound, Step
from trails.runtime.message_exchanges import Running
from trails.runtime.runs import Outgoing, agent_tools
from trails.runtime.runs.agent_tools import ANNOUNCE_STEP

pytestmark = pytest.mark.any_store

GROUP = "agent:beta:slack:channel:c1"


class Desk:
    """A host whose agents answer in turn from lists, by session key, and which keeps what it was asked."""

    def __init__(self, clock: Clock, **answers: list[str]) -> None:
        self.clock = clock
        self.answers = {key.replace("_", ":"): list(said) for key, said in answers.items()}
        self.steps: list[tuple[str, str, str]] = []
        self.systems: list[str] = []
        self.sent: list[Outgoing] = []
        self.takes = 0.0

    def agent(self, step: Step) -> str:
        self.clock.pass_by(seconds=self.takes)
        self.steps.append((step.lane, step.session_key, str(step.session.turns[-1].content)))
        self.systems.append(step.system or "")
        waiting = self.answers.get(step.session_key)
        return waiting.pop(0) if waiting else "fine"

    def send(self, out: Outgoing) -> None:
        self.sent.append(out)


def open_runs(store: Repository, desk: Desk, turns: Any = None, **config: Any) -> Runs:
    whole: dict[str, Any] = {"tools": {"agentToAgent": {"enabled": True}}} | config
    if turns is not None:
        whole["session"] = {"agentToAgent": {"maxPingPongTurns": turns}}
    return Runs(store, agent=desk.agent, send=desk.send, config=whole, clock=desk.clock, new_id=counter())


def asked(desk: Desk) -> list[str]:
    return [key for _, key, _ in desk.steps]


# --- one message


def test_a_message_is_answered_within_its_time_in_the_nested_lane(store: Repository, clock: Clock) -> None:
    desk = Desk(clock, agent_main_other=["Yes, two."])
    answer = open_runs(store, desk).send(MAIN, "Any trains?", session_key="agent:main:other")
    assert answer.to_json() == {
        "runId": "id-1",
        "status": "ok",
        "reply": "Yes, two.",
        "sessionKey": "agent:main:other",
        "delivery": {"status": "pending", "mode": "announce"},
    }
    assert desk.steps == [("nested", "agent:main:other", "Any trains?")]
    assert "agent:main:main" in desk.systems[0]
    (turn, _) = store.load(trails.Router(store).session("agent:main:other").id).turns
    assert (turn.role, turn.author) == ("user", "main")
    assert store.verify().ok


def test_nobody_waits_where_the_time_is_none(store: Repository, clock: Clock) -> None:
    desk = Desk(clock)
    runs = open_runs(store, desk, turns=0)
    assert runs.send(MAIN, "Look", session_key="agent:main:other", timeout_seconds=0.9).status == "accepted"
    assert desk.steps == []
    assert runs.work() == 2
    assert [text for _, _, text in desk.steps] == ["Look", ANNOUNCE_STEP]


def test_an_answer_that_comes_too_late_is_a_time_out_and_no_talk_follows(store: Repository, clock: Clock) -> None:
    desk = Desk(clock)
    desk.takes = 30
    runs = open_runs(store, desk)
    answer = runs.send(MAIN, "Look", session_key="agent:main:other")
    assert (answer.status, answer.reply) == ("timeout", None)
    assert runs.work() == 0
    assert len(desk.steps) == 1


def test_a_message_to_a_session_that_is_at_work_waits_in_its_inbox(store: Repository, clock: Clock) -> None:
    store.create(id="desk", agent="main").persist()
    runs = Runs(store, clock=clock)
    assert runs.send(MAIN, "Look", session_key="desk").status == "timeout"
    assert [event.content for event in Ledger(store).inbox("desk")] == ["Look"]


def test_an_agent_that_fails_is_the_answers_error(store: Repository, clock: Clock) -> None:
    def fail(step: Step) -> str:
        raise RuntimeError("no model")

    answer = Runs(store, agent=fail, clock=clock).send(MAIN, "Look", session_key="agent:main:other")
    assert (answer.status, answer.error) == ("error", "RuntimeError: no model")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "message required"),
        ({"message": 7}, "message must be a string"),
        ({"message": "x", "label": 7}, "label must be a string"),
        ({"message": "x", "timeoutSeconds": "soon"}, "timeoutSeconds must be a number"),
        ({"message": "x", "timeoutSeconds": float("nan")}, "timeoutSeconds must be a number"),
        ({"message": "x", "session": MAIN}, "no parameter session"),
        ({"message": "\ud800", "sessionKey": MAIN}, "surrogate"),
    ],
)
def test_parameters_that_cannot_be_read_are_refused_and_nothing_is_written(
    store: Repository, clock: Clock, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        open_runs(store, Desk(clock)).send_tool(MAIN, parameters)
    assert len(store.store) == 0


def test_the_schemas_name_the_parameters_that_are_read() -> None:
    assert list(agent_tools.SPAWN_TOOL["parameters"]["properties"]) == [
        *("task", "label", "agentId", "model", "thinking", "runTimeoutSeconds", "cleanup")
    ]
    assert list(agent_tools.SEND_TOOL["parameters"]["properties"]) == [
        *("sessionKey", "label", "agentId", "message", "timeoutSeconds")
    ]


# --- to whom


def test_a_target_is_named_by_key_by_label_or_by_label_and_agent(store: Repository, clock: Clock) -> None:
    router = trails.Router(store)
    router.patch("agent:beta:main", {"label": "desk"})
    store.create(id="loose", label="notes", agent="beta").persist()
    runs = open_runs(store, Desk(clock))
    names: list[dict[str, Any]] = [
        {"session_key": "agent:beta:main"},
        {"label": " desk "},
        {"label": "desk", "agent_id": "Beta"},
        {"label": "notes"},
        {"session_key": "loose"},
    ]
    found = [runs.send(MAIN, "x", **named).session_key for named in names]
    assert found == ["agent:beta:main"] * 3 + ["agent:beta:loose"] * 2


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({}, "Either sessionKey or label is required"),
        ({"session_key": "agent:main:x", "label": "y"}, "Provide either sessionKey or label (not both)."),
        ({"label": "nobody"}, "No session found with label: nobody"),
        ({"session_key": "nobody"}, "No session found: nobody"),
    ],
)
def test_an_unclear_target_writes_nothing(store: Repository, clock: Clock, named: dict[str, Any], words: str) -> None:
    answer = open_runs(store, Desk(clock)).send(MAIN, "x", **named)
    assert (answer.status, answer.error, len(store.store)) == ("error", words, 0)


def test_a_requester_that_is_not_there_is_refused(store: Repository, clock: Clock) -> None:
    with pytest.raises(SessionNotFound):
        open_runs(store, Desk(clock)).send("nobody", "x", session_key=MAIN)


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ({}, "Agent-to-agent messaging is disabled. Set tools.agentToAgent.enabled=true to allow cross-agent sends."),
        ({"enabled": True, "allow": ["main"]}, "Agent-to-agent messaging denied by tools.agentToAgent.allow."),
    ],
)
def test_sending_to_another_agent_needs_leave(
    store: Repository, clock: Clock, tools: dict[str, Any], words: str
) -> None:
    trails.Router(store).patch("agent:beta:main", {"label": "desk"})
    before = len(store.store)
    runs = open_runs(store, Desk(clock), tools={"agentToAgent": tools})
    for named in ({"session_key": "agent:beta:main"}, {"label": "desk"}, {"label": "desk", "agent_id": "beta"}):
        answer = runs.send(MAIN, "x", **named)  # type: ignore[arg-type] # names of the target
        assert (answer.status, answer.error) == ("forbidden", words)
    assert len(store.store) == before


def test_a_sandboxed_session_sends_only_to_what_it_spawned(store: Repository, clock: Clock) -> None:
    router = trails.Router(store)
    router.patch("agent:main:other", {"label": "other"})
    runs = open_runs(store, Desk(clock))
    child = runs.spawn(MAIN, "Look", label="mine").child_session_key
    hidden = "Session not visible from this sandboxed agent session"
    names: list[dict[str, Any]] = [
        {"session_key": child},
        {"label": "mine"},
        {"session_key": "agent:main:other"},
        {"label": "other"},
        {"label": "other", "agent_id": "beta"},
    ]
    answers = [runs.send(MAIN, "x", sandboxed=True, **named) for named in names]
    assert [(answer.status, answer.error) for answer in answers] == [
        ("ok", None),
        ("ok", None),
        ("forbidden", f"{hidden}: agent:main:other"),
        ("forbidden", f"{hidden}."),
        ("forbidden", "Sandboxed sessions_send label lookup is limited to this agent"),
    ]


# --- the talk


def test_the_two_answer_each_other_and_the_target_tells_its_channel(store: Repository, clock: Clock) -> None:
    desk = Desk(clock, agent_beta_slack_channel_c1=["b0", "b2", "b4", "all in all"], agent_main_main=["a1", "a3", "a5"])
    runs = open_runs(store, desk)
    assert runs.send(MAIN, "begin", session_key=GROUP).reply == "b0"
    assert runs.work() == 6
    assert desk.steps[1:] == [
        ("nested", MAIN, "b0"),
        ("nested", GROUP, "a1"),
        ("nested", MAIN, "b2"),
        ("nested", GROUP, "a3"),
        ("nested", MAIN, "b4"),
        ("nested", GROUP, ANNOUNCE_STEP),
    ]
    assert "turn 2 of 5" in desk.systems[2]
    assert "REPLY_SKIP" in desk.systems[2]
    for part in ("begin", "b0", "a5", "ANNOUNCE_SKIP"):
        assert part in desk.systems[6]
    (out,) = desk.sent
    assert (out.channel, out.to, out.text, out.idempotency_key) == ("slack", "channel:c1", "all in all", "send:id-1")
    (sent,) = Ledger(store).deliveries(runs.session_of(GROUP) or "")
    assert (sent.channel, sent.outcome) == ("slack", "sent")
    assert store.verify().ok


@pytest.mark.parametrize("last", [" REPLY_SKIP\n", "   "])
def test_either_ends_the_talk_and_the_announcement_comes_at_once(store: Repository, clock: Clock, last: str) -> None:
    desk = Desk(clock, agent_main_main=["a1", last], agent_beta_slack_channel_c1=["b0", "b2", "told"])
    runs = open_runs(store, desk)
    runs.send(MAIN, "begin", session_key=GROUP)
    runs.work()
    assert asked(desk) == [GROUP, MAIN, GROUP, MAIN, GROUP]
    assert [out.text for out in desk.sent] == ["told"]


def test_what_only_begins_like_a_skip_is_said(store: Repository, clock: Clock) -> None:
    desk = Desk(clock, agent_main_main=["REPLY_SKIP it"], agent_beta_slack_channel_c1=["b0", "REPLY_SKIP", "x"])
    runs = open_runs(store, desk)
    runs.send(MAIN, "begin", session_key=GROUP)
    runs.work()
    assert asked(desk) == [GROUP, MAIN, GROUP, GROUP]


@pytest.mark.parametrize(
    ("last", "session", "outcome"),
    [
        ("ANNOUNCE_SKIP ", {}, ("skipped", "ANNOUNCE_SKIP")),
        ("told", {"sendPolicy": {"default": "deny"}}, ("skipped", "the send policy denies it")),
        (
            "told",
            {"sendPolicy": {"rules": [{"action": "deny", "match": {"keyPrefix": "slack:channel:"}}]}},
            ("skipped", "the send policy denies it"),
        ),
    ],
)
def test_the_target_may_be_silent(
    store: Repository, clock: Clock, last: str, session: dict[str, Any], outcome: tuple[str, str]
) -> None:
    desk = Desk(clock, agent_beta_slack_channel_c1=["b0", last])
    runs = open_runs(store, desk, session={"agentToAgent": {"maxPingPongTurns": 0}} | session)
    runs.send(MAIN, "begin", session_key=GROUP)
    runs.work()
    assert desk.sent == []
    (kept,) = Ledger(store).deliveries(runs.session_of(GROUP) or "")
    assert (kept.outcome, kept.reason) == outcome


def test_a_channel_that_cannot_be_reached_is_noted(store: Repository, clock: Clock) -> None:
    def send(out: Outgoing) -> None:
        raise ConnectionError("slack is down")

    runs = Runs(store, agent=lambda step: "x", send=send, clock=clock)
    runs.send("agent:beta:main", "begin", session_key=GROUP)
    runs.work()
    (kept,) = Ledger(store).deliveries(runs.session_of(GROUP) or "")
    assert (kept.outcome, kept.reason) == ("failed", "ConnectionError")


def test_there_is_no_talk_with_oneself_nor_without_a_requester(store: Repository, clock: Clock) -> None:
    desk = Desk(clock)
    runs = open_runs(store, desk)
    runs.send(GROUP, "x", session_key=GROUP)
    runs.send(None, "y", session_key=MAIN)
    runs.work()
    assert [text for _, _, text in desk.steps] == ["x", ANNOUNCE_STEP, "y", ANNOUNCE_STEP]


def test_a_target_is_heard_where_its_entry_says(store: Repository, clock: Clock) -> None:
    router = trails.Router(store)
    router.session("agent:beta:main")
    router.merge("agent:beta:main", {"lastChannel": "telegram", "lastTo": "42", "lastAccountId": "a"})
    desk = Desk(clock)
    runs = open_runs(store, desk, turns=0)
    runs.send(MAIN, "x", session_key="agent:beta:main")
    runs.work()
    assert [(out.channel, out.to, out.account_id) for out in desk.sent] == [("telegram", "42", "a")]


def test_a_step_that_nothing_comes_of_is_given_up_by_the_clock(store: Repository, clock: Clock) -> None:
    desk = Desk(clock)
    runs = open_runs(store, desk)
    session_id = trails.Router(store).session(MAIN).id
    other = Ledger(store, clock=clock)
    other.receive(session_id, "at work")
    worked = []

    def at_work(running: Running) -> str:
        runs.send(MAIN, "begin", session_key=GROUP, timeout_seconds=10)
        worked.append(runs.work())  # the requester is at work: its step waits
        clock.pass_by(seconds=10)
        runs.tick()
        worked.append(runs.work())
        return "done"

    other.process(session_id, at_work, limit=1)
    assert worked == [1, 1]
    assert [text for _, _, text in desk.steps] == ["begin", ANNOUNCE_STEP]
