"""Sub-agents' runs: started in one commit, followed to their end, announced once, and cleaned up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.clocks import START, Clock
from tests.support.runs import MAIN, counter
from trails import InvalidInput, Repository, RequestRefused, Runs, SessionNotFound, Step
from trails.rdf.ledger_records import Event
from trails.runtime.ledger import Ledger
from trails.runtime.message_exchanges import Running
from trails.runtime.policy.session_entry import ModelHost, ModelRef
from trails.runtime.runs import Announcement
from trails.runtime.runs.run_registry import Registry
from trails.store.contract import Solutions

pytestmark = pytest.mark.any_store


class Desk:
    """A host: an agent that answers from a script, and a list of what it was asked and told."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.answers: dict[str, Callable[[Step], Any]] = {}
        self.steps: list[tuple[str, str]] = []
        self.told: list[Announcement] = []

    def agent(self, step: Step) -> Any:
        text = str(step.session.turns[-1].content)
        self.steps.append((step.lane, text.splitlines()[0]))
        answer = self.answers.get(text)
        return f"re: {text.splitlines()[0]}" if answer is None else answer(step)

    def announce(self, word: Announcement) -> None:
        self.told.append(word)


@pytest.fixture
def desk(clock: Clock) -> Desk:
    return Desk(clock)


@pytest.fixture
def runs(store: Repository, desk: Desk) -> Iterator[Runs]:
    yield Runs(store, agent=desk.agent, announce=desk.announce, clock=desk.clock, new_id=counter())
    report = store.verify()
    assert report.ok, report.findings


def inbox(store: Repository, runs: Runs, key: str = MAIN) -> list[Event]:
    session_id = runs.session_of(key)
    return [] if session_id is None else Ledger(store).events(session_id, direction="inbound")


def only(store: Repository, runs: Runs, key: str = MAIN) -> Event:
    (event,) = inbox(store, runs, key)
    return event


# --- spawning


def test_a_spawn_answers_at_once_and_stores_session_task_and_run_together(store: Repository, runs: Runs) -> None:
    answer = runs.spawn(MAIN, "Look for trains", label="trains", cleanup="delete", run_timeout_seconds=90.9)
    assert answer.to_json() == {"status": "accepted", "childSessionKey": "agent:main:subagent:id-1", "runId": "id-2"}
    run = runs.get("id-2")
    assert (run.task, run.label, run.cleanup, run.run_timeout_seconds) == ("Look for trains", "trains", "delete", 90)
    assert (run.requester_session_key, run.requester_display_key, run.state) == (MAIN, "main", "running")
    assert (run.created, run.started, run.cleanup_handled) == (START, START, False)
    assert run.archive_at == START + timedelta(minutes=60)
    child = store.record(run.child_session or "")
    assert (child.key, child.agent, child.spawned_by) == (run.child_session_key, "main", runs.session_of(MAIN))
    (task,) = Ledger(store).inbox(child.id)
    assert (task.content, task.event_id, task.author_iri) == ("Look for trains", "id-2", "urn:trails:agent:main")
    assert store.resolve("trains") == child.id


def test_a_session_may_be_named_by_its_id_and_its_agent_runs_the_sub_agent(store: Repository, runs: Runs) -> None:
    store.create(id="desk", agent="planner", principal="alice").persist()
    answer = runs.spawn("desk", "Look")
    run = runs.get(answer.run_id or "")
    assert answer.child_session_key == "agent:planner:subagent:id-1"
    assert (run.requester_session_key, run.requester_session) == ("agent:planner:desk", "desk")
    assert store.record(run.child_session or "").principal == "alice"
    runs.work()
    assert [event.content.splitlines()[0] for event in Ledger(store).inbox("desk")] == [
        'A background task "Look" just completed successfully.'
    ]


@pytest.mark.parametrize("requester", ["agent:main:subagent:x", "subagent:x", "agent:main:telegram:group:1:subagent:x"])
def test_a_sub_agent_never_spawns_and_nothing_is_changed(store: Repository, runs: Runs, requester: str) -> None:
    answer = runs.spawn(requester, "Look")
    error = "sessions_spawn is not allowed from sub-agent sessions"
    assert answer.to_json() == {"status": "forbidden", "error": error}
    assert (len(store.store), runs.list(), runs.work()) == (0, [], 0)


def config(allow: list[str], **subagents: Any) -> dict[str, Any]:
    return {
        "agents": {"list": [{"id": "main", "subagents": {"allowAgents": allow}}], "defaults": {"subagents": subagents}}
    }


def test_the_shared_cases_of_spawning_hold(shared: Path, clock: Clock) -> None:
    cases = json.loads((shared / "cases" / "openclaw_subagent_registry.json").read_text("utf-8"))["cases"]
    tried = 0
    for case in cases:
        given, wanted = case["input"], case["expected"]
        if "requester" not in given:
            continue
        with trails.open(":memory:") as store:
            runs = Runs(store, clock=clock, config=config(given.get("allowAgents", [])))
            answer = runs.spawn(given["requester"], "do it", agent_id=given.get("agentId"))
            assert answer.status == wanted["status"]
            assert answer.error == wanted.get("error")
            assert (answer.child_session_key or "").startswith(wanted.get("childKeyPrefix", ""))
        tried += 1
    assert tried == 3


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "task"),
        ({"task": "  "}, "task"),
        ({"task": 7}, "task"),
        ({"task": "\ud800"}, "surrogate"),
        ({"task": "x", "cleanup": "burn"}, "cleanup"),
        ({"task": "x", "runTimeoutSeconds": "soon"}, "runTimeoutSeconds"),
        ({"task": "x", "thinking": "wild"}, "thinking"),
        ({"task": "x", "agent": "beta"}, "agent"),
    ],
)
def test_parameters_that_cannot_be_read_are_refused_and_nothing_is_written(
    store: Repository, runs: Runs, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        runs.spawn_tool(MAIN, parameters)
    assert len(store.store) == 0


def test_a_session_that_is_not_there_and_no_key_spawns_nothing(store: Repository, runs: Runs) -> None:
    for name in ("nobody", "urn:trails:session:nobody"):
        with pytest.raises(SessionNotFound, match="nobody"):
            runs.spawn(name, "x")
    with pytest.raises(SessionNotFound, match="nobody"):
        runs.list(session="nobody")
    assert len(store.store) == 0


def models(text: str) -> ModelRef:
    if text != "openai/known":
        raise RequestRefused(f"model not allowed: {text}")
    return ModelRef("openai", "known")


def test_models_are_chosen_by_priority_and_a_wrong_one_is_a_warning(store: Repository, clock: Clock) -> None:
    host = ModelHost(default=ModelRef("anthropic", "usual"), resolve=models)
    chosen = []
    for asked, agents, default in [
        ("openai/known", "x", "y"),
        (None, "openai/known", "y"),
        (None, None, "openai/known"),
        (None, None, None),
        ("other/wrong", "openai/known", None),
    ]:
        settings = {
            "agents": {
                "list": [{"id": "main", "subagents": {"model": agents}}],
                "defaults": {"subagents": {"model": {"primary": default}}},
            }
        }
        runs = Runs(store, clock=clock, models=host, config=settings)
        answer = runs.spawn(MAIN, "x", model=asked)
        chosen.append((answer.model_applied, answer.warning, runs.get(answer.run_id or "").model))
    assert chosen == [
        (True, None, "openai/known"),
        (True, None, "openai/known"),
        (True, None, "openai/known"),
        (None, None, None),
        (False, "model not allowed: other/wrong", None),
    ]
    assert store.verify().ok


def test_a_label_in_use_stays_where_it_is_and_is_a_warning(store: Repository, runs: Runs) -> None:
    first, second = runs.spawn(MAIN, "one", label="look"), runs.spawn(MAIN, "two", label="look")
    assert (first.warning, second.warning) == (None, "label already in use: look")
    assert store.resolve("look") == runs.get(first.run_id or "").child_session
    assert runs.get(second.run_id or "").label == "look"


def test_the_sub_agents_prompt_has_its_parts_and_can_be_built_otherwise(store: Repository, clock: Clock) -> None:
    seen: list[str | None] = []

    def agent(step: Step) -> str:
        seen.append(step.system)
        return "done"

    runs = Runs(store, clock=clock, agent=agent)
    runs.spawn(MAIN, "Look\nfor trains", label="trains", origin={"channel": " Slack ", "to": "C1"})
    runs.work(1)
    for part in (
        "# Subagent Context",
        "You were created to handle: Look for trains",
        "## Rules",
        "- Label: trains",
        f"- Requester session: {MAIN}",
        "- Requester channel: slack",
        "- Your session: agent:main:subagent:",
    ):
        assert part in (seen[0] or "")
    other = Runs(store, clock=clock, prompt=lambda brief: f"only {brief.task}")
    answer = other.spawn(MAIN, "this")
    assert other.system_prompt(answer.run_id or "") == "only this"


def test_a_builder_of_prompts_that_fails_starts_nothing(store: Repository, clock: Clock) -> None:
    def broken(brief: object) -> str:
        raise RuntimeError("no template")

    runs = Runs(store, clock=clock, prompt=broken)
    with pytest.raises(RuntimeError):
        runs.spawn(MAIN, "x")
    assert len(store.store) == 0


# --- life


def slowly(clock: Clock, seconds: float) -> Callable[[Step], str]:
    """Return what answers after some time."""

    def answer(step: Step) -> str:
        clock.pass_by(seconds=seconds)
        return "late"

    return answer


def test_a_run_is_announced_with_findings_and_figures(store: Repository, runs: Runs, desk: Desk, clock: Clock) -> None:
    def answer(step: Step) -> None:
        clock.pass_by(seconds=83)
        usage = {"input_tokens": 1200, "output_tokens": 300, "cost": 0.0213}
        step.append("assistant", [{"type": "text", "text": "Two an hour."}], model="m-1", usage=usage)

    desk.answers["Look for trains"] = answer
    answered = runs.spawn(
        MAIN, "Look for trains", origin={"channel": "slack", "to": "C1", "accountId": "a", "threadId": 7}
    )
    assert runs.work() == 1
    run = runs.get(answered.run_id or "")
    assert (run.state, run.outcome, run.cleanup_completed) == ("done", "ok", clock.now)
    assert (run.started, run.ended) == (START, START + timedelta(seconds=83))
    event = only(store, runs)
    assert event.content.split("\n\n")[:3] == [
        'A background task "Look for trains" just completed successfully.',
        "Findings:\nTwo an hour.",
        "Stats: runtime 1m23s • tokens 1.5k (in 1.2k / out 300) • est $0.02",
    ]
    assert "Summarize this" in event.content
    assert (event.channel, event.peer, event.account) == ("slack", "C1", "a")
    assert (event.mode, event.author_iri, event.waiting) == ("followup", "urn:trails:agent:main", True)
    assert run.announced_as == event.iri
    (word,) = desk.told
    assert (word.how, word.text, word.origin.thread_id) == ("direct", event.content, 7)
    assert word.idempotency_key == f"announce:{run.child_session_key}:{run.run_id}" == event.event_id


def test_without_a_host_to_act_the_agent_answers_in_the_main_lane(store: Repository, desk: Desk, clock: Clock) -> None:
    runs = Runs(store, agent=desk.agent, clock=clock)
    runs.spawn(MAIN, "Look")
    assert runs.work() == 2
    first = 'A background task "Look" just completed successfully.'
    assert desk.steps == [("subagent", "Look"), ("main", first)]
    turns = store.load(runs.session_of(MAIN) or "").turns
    assert [turn.content.splitlines()[0] for turn in turns] == [first, f"re: {first}"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("no model"), ("error", "failed: RuntimeError: no model.")),
        (TimeoutError("too long"), ("timeout", "timed out.")),
    ],
)
def test_a_failed_agent_ends_its_run(
    store: Repository, runs: Runs, desk: Desk, error: Exception, told: tuple[str, str]
) -> None:
    def fail(step: Step) -> None:
        step.append("assistant", "half")
        raise error

    desk.answers["Look"] = fail
    answer = runs.spawn(MAIN, "Look")
    runs.work()
    run = runs.get(answer.run_id or "")
    assert (run.outcome, run.state) == (told[0], "done")
    text = only(store, runs).content
    assert text.startswith(f'A background task "Look" just {told[1]}')
    assert "Findings:\n(no output)" in text


def test_a_run_that_takes_as_long_as_it_may_ends_with_a_time_out(runs: Runs, desk: Desk, clock: Clock) -> None:
    desk.answers["Look"] = slowly(clock, 30)
    answer = runs.spawn(MAIN, "Look", run_timeout_seconds=30)
    runs.work()
    assert runs.get(answer.run_id or "").outcome == "timeout"
    assert "timed out" in (desk.told[0].text or "")


def test_the_clock_ends_a_run_while_its_agent_goes_on(store: Repository, runs: Runs, desk: Desk, clock: Clock) -> None:
    seen = []

    def answer(step: Step) -> str:
        clock.pass_by(seconds=31)
        seen.append((runs.tick().timed_out, step.cancelled.is_set(), runs.get("id-2").outcome))
        return "late"

    desk.answers["Look"] = answer
    runs.spawn(MAIN, "Look", run_timeout_seconds=30)
    runs.work()
    assert seen == [(("id-2",), True, "timeout")]
    assert len(inbox(store, runs)) == 1
    assert runs.get("id-2").outcome == "timeout"


def test_a_run_may_be_gone_when_its_agent_comes_back(store: Repository, runs: Runs, desk: Desk, clock: Clock) -> None:
    def answer(step: Step) -> str:
        clock.pass_by(seconds=30)
        runs.tick()
        return "late"

    desk.answers["Look"] = answer
    runs.spawn(MAIN, "Look", run_timeout_seconds=30, cleanup="delete")
    assert runs.work() == 1
    assert runs.list() == []
    assert "timed out" in only(store, runs).content


@pytest.mark.parametrize("seconds", [250_000_000_000, 10**12, 10**20, 10**300])
def test_a_time_beyond_the_calendar_stops_nothing(store: Repository, runs: Runs, clock: Clock, seconds: int) -> None:
    runs.spawn(MAIN, "Look", run_timeout_seconds=5)
    assert runs.spawn(MAIN, "Look elsewhere").run_id == "id-4"
    Registry(store).change("id-4", lambda run: {"run_timeout_seconds": seconds})
    assert runs.get("id-4").run_timeout_seconds == seconds
    clock.now = datetime(2036, 3, 1, tzinfo=UTC)
    assert runs.tick().timed_out == ("id-2",)
    runs.work()
    assert runs.get("id-4").outcome == "ok"


def test_whoever_follows_the_store_is_told_of_each_step_of_a_run(memory: Repository, desk: Desk) -> None:
    seen: list[tuple[str, int]] = []
    runs = Runs(memory, agent=desk.agent, announce=desk.announce, clock=desk.clock, new_id=counter())
    with memory.subscribe(lambda notice: seen.append((notice.session_id, notice.count)), kinds=["run"]) as following:
        runs.spawn(MAIN, "Look")
        runs.work()
        assert following.drain()
    # Registered, begun, ended, claimed, cleaned up.
    assert seen == [(runs.get("id-2").child_session, revision) for revision in (1, 2, 3, 4, 5)]


def test_a_run_that_nobody_begins_times_out_from_when_it_was_asked_for(runs: Runs, clock: Clock, desk: Desk) -> None:
    runs.spawn(MAIN, "Look", run_timeout_seconds=10)
    clock.pass_by(seconds=9.999)
    assert runs.tick().timed_out == ()
    clock.pass_by(seconds=0.001)
    assert runs.tick().timed_out == ("id-2",)
    assert (runs.get("id-2").outcome, runs.get("id-2").ended) == ("timeout", clock.now)
    runs.work()
    assert desk.steps == []  # its turn came too late
    assert [word.run.run_id for word in desk.told] == ["id-2"]


def test_a_run_that_waited_has_all_its_time_once_it_begins(runs: Runs, clock: Clock, desk: Desk) -> None:
    def answer(step: Step) -> str:
        clock.pass_by(seconds=9)
        assert runs.tick().timed_out == ()
        return "in time"

    desk.answers["Look"] = answer
    runs.spawn(MAIN, "Look", run_timeout_seconds=10)
    clock.pass_by(seconds=9)
    runs.work()
    assert (runs.get("id-2").outcome, runs.get("id-2").started) == ("ok", START + timedelta(seconds=9))


# --- other processes


def elsewhere(store: Repository, clock: Clock, desk: Desk, **more: Any) -> Runs:
    return Runs(store, announce=desk.announce, clock=clock, new_id=counter(), **more)


def lifecycle(run_id: str, phase: str, **data: Any) -> dict[str, Any]:
    return {"runId": run_id, "stream": "lifecycle", "data": {"phase": phase, **data}}


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def test_events_of_a_runs_life_start_and_end_it(store: Repository, clock: Clock, desk: Desk) -> None:
    runs = elsewhere(store, clock, desk)
    runs.spawn(MAIN, "Look")
    later = START + timedelta(seconds=5)
    assert runs.on_event(lifecycle("id-2", "start", startedAt=ms(later))) is True
    assert runs.on_event({"runId": "id-2", "stream": "assistant", "data": {"phase": "end"}}) is False
    assert runs.on_event(lifecycle("nobody", "end")) is False
    assert runs.get("id-2").started == later
    assert runs.on_event(lifecycle("id-2", "error", endedAt=ms(later) + 1000, error="no model")) is True
    assert runs.on_event(lifecycle("id-2", "end")) is False
    run = runs.get("id-2")
    assert (run.outcome, run.error, run.state) == ("error", "no model", "done")
    assert run.ended == later + timedelta(seconds=1)
    assert [word.how for word in desk.told] == ["direct"]
    assert store.verify().ok


def test_a_wait_for_another_process_that_times_out_changes_nothing(store: Repository, clock: Clock, desk: Desk) -> None:
    asked: list[tuple[str, float]] = []
    known: dict[str, Any] = {"status": "timeout"}

    def wait(run_id: str, timeout: float) -> dict[str, Any]:
        asked.append((run_id, timeout))
        return known

    runs = elsewhere(store, clock, desk, wait=wait)
    runs.spawn(MAIN, "Look")
    before = runs.get("id-2")
    assert runs.wait("id-2", timeout=9) == before
    assert runs.tick().waiting == ("id-2",)
    known = {"status": "ok", "startedAt": ms(START), "endedAt": ms(START) + 2000}
    assert runs.tick().ended == ("id-2",)
    assert asked == [("id-2", 9), ("id-2", 0), ("id-2", 0), ("id-2", 0)]
    assert (runs.get("id-2").outcome, runs.get("id-2").ended) == ("ok", START + timedelta(seconds=2))
    assert len(inbox(store, runs)) == 1


# --- announcing


def test_a_requester_at_work_is_told_by_its_queue_mode(store: Repository, clock: Clock, desk: Desk) -> None:
    ways = []
    for mode in ("steer", "steer+backlog", "followup", "collect", "interrupt", None):
        queue = {"messages": {"queue": {"mode": mode}}} if mode else {}
        runs = Runs(store, clock=clock, config=queue, active=lambda session_id: True)
        key = f"agent:main:{mode or 'none'}"
        run_id = runs.spawn(key, "Look").run_id or ""
        runs.ended(run_id, "ok")
        ways.append((runs.get(run_id).announced_how, only(store, runs, key).mode))
    assert ways == [
        ("steered", "steer"),
        ("steered", "steer"),
        ("queued", "followup"),
        ("queued", "collect"),
        ("queued", "followup"),
        ("queued", "collect"),
    ]


def test_what_is_steered_in_is_taken_up_by_the_exchange_under_way(store: Repository, clock: Clock) -> None:
    runs = Runs(store, clock=clock, config={"messages": {"queue": {"mode": "steer"}}})
    run_id = runs.spawn(MAIN, "Look").run_id or ""
    session_id, ledger = runs.session_of(MAIN) or "", Ledger(store, clock=clock)
    ledger.receive(session_id, "Hello")
    taken: list[Event] = []

    def handler(running: Running) -> str:
        runs.ended(run_id, "ok")
        taken.extend(running.steered())
        return "Hello; and the task is done."

    ledger.process(session_id, handler)
    assert [event.event_id for event in taken] == [f"announce:{runs.get(run_id).child_session_key}:{run_id}"]
    assert [turn.role for turn in store.load(session_id).turns] == ["user", "user", "assistant"]
    assert runs.get(run_id).announced_how == "steered"


@pytest.mark.parametrize("raises", [True, False])
def test_a_failed_announcement_is_tried_again_with_the_same_key(store: Repository, clock: Clock, raises: bool) -> None:
    tries: list[str] = []

    def announce(word: Announcement) -> object:
        tries.append(word.idempotency_key)
        if len(tries) < 3 and raises:
            raise ConnectionError("gateway down")
        return len(tries) >= 3

    runs = Runs(store, announce=announce, clock=clock, new_id=counter())
    runs.spawn(MAIN, "Look", cleanup="delete")
    runs.ended("id-2", "ok")
    assert (runs.get("id-2").state, runs.get("id-2").cleanup_handled) == ("ended", False)
    assert runs.tick().failed == ("id-2",)
    assert runs.sweep().announced == ("id-2",)
    assert runs.sweep().announced == ()
    assert (len(tries), len(set(tries)), len(inbox(store, runs)), runs.list()) == (3, 1, 1, [])
    assert store.verify().ok


@pytest.mark.parametrize("answer", [None, 0, "", [], True])
def test_only_false_says_that_an_announcement_failed(store: Repository, clock: Clock, answer: object) -> None:
    runs = Runs(store, announce=lambda word: answer, clock=clock, new_id=counter())
    runs.spawn(MAIN, "Look")
    runs.ended("id-2", "ok")
    assert runs.get("id-2").state == "done"


def test_an_announcement_goes_to_the_session_that_the_key_names_then(store: Repository, runs: Runs) -> None:
    answer = runs.spawn(MAIN, "Look")
    before = runs.session_of(MAIN)
    after = trails.Router(store).reset(MAIN).session_id
    runs.work()
    assert before != after
    assert runs.get(answer.run_id or "").announced_as == f"urn:trails:session:{after}/ledger/2"  # 1 is the reset


def test_a_run_that_nobody_can_be_told_of_stays_until_it_is_archived(
    store: Repository, clock: Clock, desk: Desk
) -> None:
    runs = elsewhere(store, clock, desk)
    runs.import_file(file_of(record(createdAt=ms(START), archiveAtMs=ms(START) + 120_000)))
    runs.ended("run-1", "ok")
    assert runs.sweep().unheard == ("run-1",)
    found = store.query("unannounced-runs")
    assert isinstance(found, Solutions)
    assert [row["run"].value for row in found] == [runs.get("run-1").iri]
    clock.pass_by(seconds=120)
    assert runs.sweep().archived == ("run-1",)
    assert runs.list() == []
    assert store.verify().ok


# --- cleaning up


def test_a_run_to_be_deleted_goes_with_its_session_once_announced(store: Repository, runs: Runs, desk: Desk) -> None:
    answer = runs.spawn(MAIN, "Look", cleanup="delete")
    child = runs.get(answer.run_id or "").child_session or ""
    runs.work()
    assert child not in store
    with pytest.raises(InvalidInput, match="cleaned up or archived"):
        runs.get(answer.run_id or "")
    assert "re: Look" in only(store, runs).content


def test_a_session_that_others_depend_on_is_kept_and_that_is_said(store: Repository, runs: Runs, clock: Clock) -> None:
    answer = runs.spawn(MAIN, "Look", cleanup="delete")
    child = runs.get(answer.run_id or "").child_session or ""
    store.load(child).fork(id="kept").persist()
    runs.work()
    run = runs.get(answer.run_id or "")
    assert (run.state, child in store) == ("done", True)
    assert "has 1 dependent sessions ('kept')" in (run.kept_because or "")
    clock.pass_by(seconds=3600)
    assert list(runs.tick().kept) == [run.run_id]
    store.delete("kept")
    assert runs.sweep().archived == (run.run_id,)
    assert child not in store


def test_a_kept_run_is_archived_by_the_first_sweep_after_an_hour(store: Repository, runs: Runs, clock: Clock) -> None:
    answer = runs.spawn(MAIN, "Look")
    child = runs.get(answer.run_id or "").child_session or ""
    runs.work()
    runs.tick()
    clock.pass_by(seconds=3599.999)
    assert runs.tick().archived == ()
    clock.pass_by(seconds=59.999)
    assert runs.tick().archived == ()
    clock.pass_by(seconds=0.001)
    assert runs.tick().archived == (answer.run_id,)
    assert child not in store
    assert len(inbox(store, runs)) == 1


def test_a_run_without_news_is_announced_before_it_is_archived(store: Repository, clock: Clock, desk: Desk) -> None:
    runs = elsewhere(store, clock, desk)
    runs.spawn(MAIN, "Look")
    clock.pass_by(seconds=3600)
    report = runs.sweep()
    assert (report.archived, runs.list()) == (("id-2",), [])
    assert "finished with unknown status" in only(store, runs).content


def test_what_still_goes_on_here_is_not_archived(runs: Runs, desk: Desk, clock: Clock) -> None:
    seen = []

    def answer(step: Step) -> str:
        clock.pass_by(seconds=7200)
        seen.append(runs.tick().archived)
        return "done"

    desk.answers["Look"] = answer
    runs.spawn(MAIN, "Look")
    runs.work()
    assert seen == [()]
    assert runs.sweep().archived == ("id-2",)


# --- after a restart


def test_a_restart_takes_up_what_waited_what_ended_and_what_was_being_announced(tmp_path: Path, clock: Clock) -> None:
    first = Desk(clock)
    with trails.open(tmp_path / "s", create=True, durability="process") as store:
        runs = Runs(store, agent=first.agent, announce=first.announce, clock=clock, new_id=counter())
        runs.spawn(MAIN, "never begun")
    desk = Desk(clock)
    with trails.open(tmp_path / "s", durability="process") as store:
        runs = Runs(store, agent=desk.agent, announce=desk.announce, clock=clock)
        report = runs.recover()
        assert report.requeued == ("id-2",)
        assert not runs.recover()
        runs.work()
        assert (runs.get("id-2").state, len(desk.told)) == ("done", 1)
        assert not runs.tick()
        assert store.verify().ok


def test_messages_that_waited_are_worked_on_after_a_restart(tmp_path: Path, clock: Clock, desk: Desk) -> None:
    with trails.open(tmp_path / "s", create=True, durability="process") as store:
        runs = Runs(store, agent=desk.agent, clock=clock)
        runs.spawn(MAIN, "Look")
        runs.work(1)  # the sub-agent's part; its announcement waits
        runs.send(MAIN, "Any news?", session_key="agent:main:other", timeout_seconds=0)
    desk.steps.clear()
    with trails.open(tmp_path / "s", durability="process") as store:
        runs = Runs(store, agent=desk.agent, clock=clock)
        runs.recover()
        runs.work()
        expected = [("main", 'A background task "Look" just completed successfully.'), ("nested", "Any news?")]
        assert desk.steps == expected
        assert store.verify().ok


@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning")  # what is tried is not persisted
@pytest.mark.parametrize(("interrupted", "outcome"), [("fail", "error"), ("retry", "ok")])
def test_work_that_was_under_way_when_its_process_died_fails_or_is_done_again(
    store: Repository, clock: Clock, desk: Desk, interrupted: Any, outcome: str
) -> None:
    class DiedError(BaseException):
        """Stands for the end of the process: nothing after it is done."""

    def die(step: Step) -> str:
        raise DiedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Running, "fail", lambda *_, **__: (_ for _ in ()).throw(DiedError()))
        runs = Runs(store, agent=die, clock=clock, new_id=counter())
        runs.spawn(MAIN, "Look")
        with pytest.raises(DiedError):
            runs.work()
    again = Runs(store, agent=desk.agent, announce=desk.announce, clock=clock, interrupted=interrupted)
    assert again.recover().requeued == ("id-2",)
    again.work()
    assert (again.get("id-2").outcome, len(inbox(store, again))) == (outcome, 1)


def test_runs_elsewhere_are_asked_for_again_after_a_restart(store: Repository, clock: Clock, desk: Desk) -> None:
    elsewhere(store, clock, desk).spawn(MAIN, "Look")
    runs = elsewhere(store, clock, desk, wait=lambda run_id, timeout: {"status": "error", "error": "lost"})
    assert runs.recover().ended == ("id-2",)
    assert (runs.get("id-2").error, len(desk.told)) == ("lost", 1)


# --- files


def record(**fields: Any) -> dict[str, Any]:
    return {
        "runId": "run-1",
        "childSessionKey": "agent:main:subagent:test",
        "requesterSessionKey": MAIN,
        "requesterDisplayKey": "main",
        "task": "do the thing",
        "cleanup": "keep",
        "createdAt": 1000,
    } | fields


def file_of(*records: dict[str, Any], version: int = 2) -> dict[str, Any]:
    return {"version": version, "runs": {each["runId"]: each for each in records}}


def test_the_shared_cases_of_the_registrys_file_hold(shared: Path, clock: Clock, desk: Desk) -> None:
    cases = json.loads((shared / "cases" / "openclaw_subagent_registry.json").read_text("utf-8"))["cases"]
    by_name = {case["name"]: case for case in cases}
    given = by_name["persist + resume"]["input"]["register"] | {"createdAt": 1000}
    with trails.open(":memory:") as store:
        store.create(id="main", key=MAIN).persist()
        runs = elsewhere(store, clock, desk)
        assert runs.import_file(file_of(given)).added == ("run-1",)
        wanted = by_name["persist + resume"]["expected"]
        assert runs.export_file()["runs"]["run-1"]["requesterOrigin"] == wanted["requesterOrigin"]
        again = elsewhere(store, clock, desk, wait=lambda run_id, timeout: {"status": "ok"})
        again.recover()
        (word,) = desk.told
        assert word.run.child_session_key == given["childSessionKey"]
        assert word.origin.to_json() == wanted["requesterOrigin"]
        assert store.verify().ok
    case = by_name["v1 legacy mapping"]
    with trails.open(":memory:") as store:
        runs = elsewhere(store, clock, desk)
        runs.import_file({"version": case["input"]["version"], "runs": {"run-legacy": case["input"]["record"]}})
        made, wanted = runs.export_file(), case["expected"]
        assert made["version"] == wanted["file_version_after"]
        for name in ("cleanupHandled", "cleanupCompletedAt", "requesterOrigin"):
            assert made["runs"]["run-legacy"][name] == wanted[name]
        assert "announceHandled" not in made["runs"]["run-legacy"]
        assert runs.recover().announced == ()


def test_every_field_of_a_record_comes_out_as_it_came_in(store: Repository, runs: Runs) -> None:
    whole = record(
        requesterOrigin={"channel": "slack", "to": "C1", "accountId": "a", "threadId": 7, "extra": [1]},
        label="trains",
        startedAt=1001,
        endedAt=2002,
        outcome={"status": "error", "error": "no model", "code": 5},
        archiveAtMs=3003,
        cleanupCompletedAt=4004,
        cleanupHandled=True,
        model="m-1",
        nested={"a": [None, 1.5, "ü"]},
    )
    odd = record(runId="run-2", label=7, startedAt="soon", cleanupHandled=False)
    assert runs.import_file(file_of(whole, odd)).added == ("run-1", "run-2")
    assert runs.export_file() == file_of(whole, odd)
    again = runs.import_file(file_of(whole))
    assert (again.added, again.known, again.dropped) == ((), ("run-1",), ())


@pytest.mark.parametrize("version", [3, None, "2", True])
def test_a_file_of_an_unknown_version_has_no_runs_and_says_so(runs: Runs, version: Any) -> None:
    report = runs.import_file({"version": version, "runs": {"a": record()}})
    assert report.dropped == (f"version {version!r} is unknown; 1 and 2 are read",)
    assert runs.list() == []


def test_what_cannot_be_read_of_a_file_is_told_and_the_rest_is_taken(runs: Runs) -> None:
    bad = {"a": {"runId": 5}, "b": record(task="\ud800"), "d": [], "e": record(runId="e", childSessionKey=7)}
    report = runs.import_file({"version": 2, "runs": bad | {"c": record()}})
    assert [text.split(":")[0] for text in report.dropped] == ["a", "b", "d", "e"]
    assert (report.added, [run.run_id for run in runs.list()]) == (("run-1",), ["run-1"])
    with pytest.raises(InvalidInput):
        runs.import_file([])


@pytest.mark.parametrize(
    ("version", "fields", "handled"),
    [
        (1, {"announceCompletedAt": 9}, True),
        (1, {"announceCompletedAt": 9, "announceHandled": False}, False),
        (1, {}, False),
        (1, {"cleanupHandled": False, "announceHandled": True}, False),
        (2, {"announceHandled": True}, None),
    ],
)
def test_a_completed_run_of_version_1_is_handled(
    runs: Runs, version: int, fields: dict[str, Any], handled: bool | None
) -> None:
    runs.import_file(file_of(record(**fields), version=version))
    assert runs.get("run-1").cleanup_handled is handled


def test_a_run_has_every_field_of_the_shared_list(shared: Path, runs: Runs) -> None:
    names = json.loads((shared / "cases" / "openclaw_subagent_registry.json").read_text("utf-8"))["record_fields"]
    every = {name.split("(")[0].split("{")[0] for kind in ("required", "optional") for name in names[kind]}
    whole = record(
        requesterOrigin={"channel": "slack"},
        label="trains",
        startedAt=1001,
        endedAt=2002,
        outcome={"status": "ok"},
        archiveAtMs=3003,
        cleanupCompletedAt=4004,
        cleanupHandled=True,
    )
    assert whole.keys() == every
    runs.import_file(file_of(whole))
    assert (runs.export_file(), runs.get("run-1").extra) == (file_of(whole), {})


def test_an_imported_claim_is_left_alone_and_a_completed_run_too(store: Repository, runs: Runs, desk: Desk) -> None:
    runs.import_file(
        file_of(
            record(runId="claimed", endedAt=5, cleanupHandled=True),
            record(runId="done", endedAt=5, cleanupHandled=True, cleanupCompletedAt=6),
            record(runId="open", endedAt=5, cleanupHandled=False),
        )
    )
    store.create(id="main", key=MAIN).persist()
    assert runs.recover().announced == ("open",)
    assert [word.run.run_id for word in desk.told] == ["open"]


# --- texts that must be reached


def test_redacting_the_task_in_the_sub_agents_turn_takes_it_out_of_the_registry(store: Repository, runs: Runs) -> None:
    answer = runs.spawn(MAIN, "The password is swordfish")
    runs.work()
    run = runs.get(answer.run_id or "")
    report = store.redact(run.child_session or "", 0)
    assert report.runs == (run.run_id,)
    after = runs.get(run.run_id)
    assert (after.task, after.said.withheld) == (None, True)
    assert "swordfish" in only(store, runs).content
    assert report.ledger_quotes == (run.announced_as,)


def test_redacting_a_turn_lists_runs_with_its_text_which_can_be_withheld(store: Repository, runs: Runs) -> None:
    session = store.create(id="desk")
    session.append("user", "swordfish")
    session.persist()
    answer = runs.spawn("desk", "Check swordfish")
    report = store.redact("desk", 0)
    assert (report.runs, report.run_quotes) == ((), (answer.run_id,))
    assert runs.withhold(answer.run_id or "") is True
    assert runs.withhold(answer.run_id or "") is False
    assert runs.get(answer.run_id or "").task is None
    runs.ended(answer.run_id or "", "error", error="swordfish was wrong")
    assert runs.get(answer.run_id or "").error is None


def test_deleting_the_sub_agents_session_takes_the_texts_of_its_run_with_it(store: Repository, runs: Runs) -> None:
    answer = runs.spawn(MAIN, "The password is swordfish")
    runs.work()
    runs.tick()
    run = runs.get(answer.run_id or "")
    session_id = runs.session_of(MAIN) or ""
    store.delete(session_id, children="cascade")
    assert run.child_session not in store
    assert runs.get(run.run_id).task is None
    assert not [quad for quad in store.store.quads((None, None, None, None)) if "swordfish" in str(quad.object)]


def words(store: Repository, secrets: list[str]) -> list[str]:
    """Return which texts stand anywhere in a store."""
    every = "\n".join(map(str, store.store.quads((None, None, None, None))))
    return [secret for secret in secrets if secret in every]


SAID_OF_RUNS = [
    "Look after Ada",
    "Ada's trip",
    "+15550001",
    "account-of-ada",
    "topic-ada",
    "private-ada",
    "dm:ada",
    "/ada-1",
]


def a_run_for_ada(store: Repository, desk: Desk) -> tuple[Runs, str, str]:
    """Return the registry, the run's id and the requester's session; all of `SAID_OF_RUNS` stands in the store."""
    host = ModelHost(default=ModelRef("house", "a"), resolve=lambda text: ModelRef("house", text.rpartition("/")[2]))
    runs = Runs(store, agent=desk.agent, clock=desk.clock, new_id=counter(), models=host)
    key = "agent:main:dm:ada/ada-1"
    origin = {"channel": "whatsapp", "to": "+15550001", "accountId": "account-of-ada", "threadId": "topic-ada"}
    made = runs.spawn(key, "Look after Ada", label="Ada's trip", model="house/private-ada", origin=origin)
    assert made.status == "accepted", made
    assert words(store, SAID_OF_RUNS) == SAID_OF_RUNS
    return runs, made.run_id or "", runs.get(made.run_id or "").requester_session or ""


def test_nothing_that_people_said_is_left_in_a_run_whose_sessions_are_deleted(store: Repository, desk: Desk) -> None:
    runs, run_id, requester = a_run_for_ada(store, desk)
    runs.work()
    runs.tick()
    before = runs.get(run_id)
    store.delete(requester, children="cascade")
    assert words(store, SAID_OF_RUNS) == []
    after = runs.get(run_id)
    assert (after.requester_origin.channel, after.outcome, after.revision) == ("whatsapp", "ok", before.revision + 1)
    assert (after.child_session, after.requester_session) == (before.child_session, requester)
    report = store.verify()
    assert report.ok, report.findings


def test_what_belongs_to_the_requester_stays_in_a_run_until_its_own_session_goes(store: Repository, desk: Desk) -> None:
    runs, run_id, requester = a_run_for_ada(store, desk)
    before = runs.get(run_id)
    store.delete(before.child_session or "")
    after = runs.get(run_id)
    assert (after.task, after.label, after.model, after.child_session_key) == (None, None, None, None)
    assert after.requester_session_key == before.requester_session_key
    assert after.requester_origin == before.requester_origin
    assert store.verify().ok
    runs.ended(run_id, "error", error="its session is gone")
    (word,) = Ledger(store).events(requester, direction="inbound")
    assert word.author_iri == "urn:trails:agent:main"
    store.delete(requester)
    assert words(store, SAID_OF_RUNS) == []
    assert store.verify().ok


def test_a_run_of_a_deleted_session_that_lost_its_label_otherwise_is_found(memory: Repository, desk: Desk) -> None:
    import pyoxigraph as ox

    from trails.rdf import vocab
    from trails.store.contract import Change

    runs, run_id, requester = a_run_for_ada(memory, desk)
    memory.delete(requester, children="cascade")
    node = ox.NamedNode(runs.get(run_id).iri)
    memory.store.commit(Change(add=[ox.Quad(node, vocab.RUN_LABEL, ox.Literal("Another"), vocab.CATALOG)]))
    assert {finding.code for finding in memory.verify().findings} == {"row-altered"}


def test_the_key_of_a_run_without_a_session_stays_as_its_iri_is_made_from_it(store: Repository, clock: Clock) -> None:
    session = store.create(id="asked", key="agent:main:dm:ada")
    session.append("user", "Look")
    session.persist()
    record = {"runId": "old", "childSessionKey": "agent:main:subagent:x", "requesterSessionKey": "agent:main:dm:ada"}
    record |= {"requesterDisplayKey": "Ada", "task": "Look after Ada", "label": "Ada's trip", "cleanup": "keep"}
    runs = Runs(store, clock=clock)
    assert runs.import_file({"version": 2, "runs": {"old": record}}).added == ("old",)
    before = runs.get("old")
    store.delete("asked")
    after = runs.get("old")
    assert (after.iri, after.child_session_key) == (before.iri, "agent:main:subagent:x")
    assert (after.requester_session_key, after.requester_display_key, after.label, after.task) == (None,) * 4
    assert store.verify().ok


def test_a_dump_brings_runs_back_with_a_log_of_their_own(tmp_path: Path, clock: Clock) -> None:
    from trails.session import store_restore

    with trails.open(tmp_path / "a", create=True) as store:
        runs = Runs(store, clock=clock, new_id=counter(), agent=lambda step: "done", announce=lambda word: None)
        for task, cleanup in (("one", "keep"), ("two", "delete"), ("three", "keep")):
            runs.spawn(MAIN, task, cleanup=cleanup)  # type: ignore[arg-type] # as above
        runs.work(2)
        kept = runs.export_file()
        store.maintenance.dump(tmp_path / "a.nq.gz")
    store_restore.load_dump(tmp_path / "a.nq.gz", tmp_path / "b")
    with trails.open(tmp_path / "b") as store:
        report = store.verify()
        assert report.ok, report.findings
        assert Runs(store, clock=clock).export_file() == kept
        assert len(kept["runs"]) == 2


# --- tampering


def test_a_run_that_was_altered_or_vanished_is_found(memory: Repository, clock: Clock) -> None:
    import pyoxigraph as ox

    from trails.rdf import vocab
    from trails.store.contract import Change

    runs = Runs(memory, clock=clock, new_id=counter())
    runs.spawn(MAIN, "Look")
    run = runs.get("id-2")
    node = ox.NamedNode(run.iri)

    def codes(add: list[ox.Quad], remove: list[ox.Quad]) -> set[str]:
        memory.store.commit(Change(add=add, remove=remove))
        found = {finding.code for finding in memory.verify().findings}
        memory.store.commit(Change(add=remove, remove=add))
        return found

    def quad(predicate: ox.NamedNode, text: Any) -> ox.Quad:
        return ox.Quad(node, predicate, ox.Literal(text), vocab.CATALOG)

    every = memory.store.quads((node, None, None, vocab.CATALOG))
    assert codes([], every) == {"rolled-back"}
    assert codes([quad(vocab.TASK, "Lie")], [quad(vocab.TASK, "Look")]) == {"digest-mismatch"}
    assert codes([quad(vocab.CLEANUP, "delete")], [quad(vocab.CLEANUP, "keep")]) == {"row-altered"}
    assert codes([quad(vocab.TOOL_NAME, "x")], []) == {"stray"}
    assert "bad-row" in codes([quad(vocab.CLEANUP, "delete")], [])
    assert memory.verify().ok
