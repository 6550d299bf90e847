"""A rerun shares what agrees with the record, says where it first left it, and marks what was played."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

import trails
from tests.support.machines import Size
from tests.support.rerun_records import recorded
from trails import ForkDepthExceeded, InvalidInput, Playing, RecordMiss, Repository, Session, ToolAnswer, ToolCall
from trails.history.records import activities
from trails.rdf import vocab
from trails.rdf.activity_records import Copying, Rerunning
from trails.store.contract import Change

CALLS = [
    {"id": "a", "name": "dice", "arguments": {}},
    {"id": "b", "name": "dice", "arguments": {}},
    {"id": "c", "name": "weather", "arguments": {"place": "Zermatt"}},
]
ANSWERS = {"dice": "five", "weather": "Snow"}


def fill(store: Repository, name: str = "plan") -> Session:
    """0 user, 1 calls dice twice and the weather, 2 to 4 answer c, a, b, 5 says so, 6 user, 7 the end."""
    plan = store.create(id=name, principal="alice", agent="planner", system="Be brief.")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Let me look.", tool_calls=CALLS, model="m-1", usage={"input_tokens": 3})
    plan.append("tool", "Snow", tool_call_id="c")
    plan.append("tool", "five", tool_call_id="a")
    plan.append("tool", "six", tool_call_id="b")
    plan.append("assistant", "Take the train.", model="m-1", usage={"input_tokens": 5})
    plan.append("user", "Thanks")
    plan.append("assistant", "Bye", model="m-1", usage={"input_tokens": 7})
    plan.persist()
    return plan


def agent(run: Playing) -> int:
    """Ask for input, models and tools until there is no more input; return how many answers the models gave."""
    answers = 0
    while run.input():
        answer = run.model()
        answers += 1
        while answer.tool_calls:
            for call in answer.tool_calls:
                run.tool(call)
            answer = run.model()
            answers += 1
    return answers


def own(session: Session, store: Repository) -> list[str]:
    return [turn.content for turn in store.load(session.id) if turn.session_id == session.id]


def test_a_run_that_says_what_was_recorded_shares_all_and_owns_nothing(store: Repository) -> None:
    plan = fill(store)
    done = trails.rerun(plan, agent, id="again")
    assert (done.outcome, done.agreed, done.left_at, done.difference) == ("finished", 8, None, None)
    assert (done.played, done.live, done.result) == (6, 0, 3)
    fork = store.load("again")
    assert (fork.parent_session_id, fork.forked_at_index, fork.head) == ("plan", 8, plan.head)
    assert own(fork, store) == []
    assert store.verify().ok


def test_another_answer_of_the_model_leaves_the_record_there(store: Repository) -> None:
    plan = fill(store)
    done = trails.rerun(plan, agent, id="other", model=lambda run: f"{len(run.turns)} turns", tools=lambda _: "")
    assert (done.outcome, done.left_at, done.agreed, done.live) == ("finished", 1, 1, 2)
    assert done.difference is not None
    assert (done.difference.what, done.difference.recorded) == ("number of tool calls", "3")
    assert own(done.session, store) == ["1 turns", "Thanks", "3 turns"]
    assert store.verify().ok


def test_tools_that_answer_the_same_agree_whatever_their_order(memory: Repository) -> None:
    said = iter(["five", "six", "Snow"])
    done = trails.rerun(fill(memory), agent, tools=lambda _: next(said))
    assert (done.left_at, done.live, done.played) == (None, 3, 3)


def test_one_tool_that_answers_otherwise_leaves_the_record_and_the_others_are_played(memory: Repository) -> None:
    plan = fill(memory)

    def partly(run: Playing) -> None:
        run.input()
        asked = run.model().tool_calls
        run.tool(asked[0])
        run.tool(asked[2])
        run.tool("taxi", {"to": "Zermatt"}, live=lambda call: f"no {call.name}")

    done = trails.rerun(plan, partly, id="other", on_miss="live")
    assert (done.left_at, done.played, done.live) == (4, 3, 1)
    assert own(done.session, memory) == ["no taxi"]
    assert memory.verify().ok


def test_played_answers_behind_the_difference_are_quotations_and_cost_nothing(store: Repository) -> None:
    plan = fill(store)

    def first_weather(call: ToolCall) -> str:
        return {"dice": "six", "weather": "Sun"}[call.name]

    done = trails.rerun(plan, agent, id="other", tools=first_weather, on_miss="stop")
    assert (done.outcome, done.left_at) == ("stopped", 2)
    turns = [turn for turn in store.load("other") if turn.session_id == "other"]
    assert [(turn.content, turn.quoted_from) for turn in turns] == [("six", None), ("six", None), ("Sun", None)]

    inputs = trails.rerun(plan, agent, id="inputs", model=lambda _: "Hm", tools=lambda _: "")
    quoted = [turn for turn in store.load("inputs") if turn.quoted_from is not None]
    assert [(turn.content, turn.quoted_from and turn.quoted_from.index) for turn in quoted] == [("Thanks", 6)]
    copying = next(act for act in activities.read_activities(store.store, inputs.id) if isinstance(act, Copying))
    assert (copying.action, copying.used) == ("rerun", ("plan",))
    spent = store.select("token-usage-by-model").to_dicts()
    assert [(row["calls"], row["input"]) for row in spent if row["model"] == "m-1"] == [(3, 15)]
    assert store.verify().ok


def test_a_rerun_is_on_record_as_what_it_was(memory: Repository) -> None:
    plan = fill(memory)
    trails.rerun(plan, agent, id="other", model=lambda _: "Hm", tools=lambda _: "", by="carol")
    [act] = [each for each in activities.read_activities(memory.store, "other") if isinstance(each, Rerunning)]
    assert (act.used, act.outcome, act.agreed, act.left_at) == (("plan",), "finished", 1, 1)
    assert (act.played, act.live, act.by_iri) == (0, 2, "urn:trails:principal:carol")
    assert act.started <= act.time


@pytest.mark.parametrize(
    ("predicate", "value", "code"),
    [(vocab.PLAYED_ANSWERS, 2, None), (vocab.AGREED_TURNS, 2, "false-rerun"), (vocab.LEFT_RECORD_AT, 7, "false-rerun")],
)
def test_a_changed_record_of_a_rerun_is_found_by_verify(
    memory: Repository, predicate: NamedNode, value: int, code: str | None
) -> None:
    trails.rerun(fill(memory), agent, id="other", model=lambda _: "Hm", tools=lambda _: "")
    [quad] = memory.store.quads((None, predicate, None, vocab.CATALOG))
    other = Quad(quad.subject, quad.predicate, vocab.integer(value), quad.graph_name)
    memory.store.commit(Change(remove=[quad], add=[other]))
    found = memory.verify().findings
    assert found
    assert [each.code for each in found if each.code == "false-rerun"] == ([] if code is None else [code])


def test_a_rerun_that_was_detached_stays_true(memory: Repository) -> None:
    done = trails.rerun(fill(memory), agent, id="other", model=lambda _: "Hm", tools=lambda _: "")
    done.session.detach()
    memory.delete("plan")
    assert memory.verify().ok
    assert [row["left_at"] for row in memory.select("reruns", source="plan").to_dicts()] == [1]


def test_a_miss_stops_the_run_and_what_was_said_until_then_is_kept(store: Repository) -> None:
    plan = fill(store)

    def curious(run: Playing) -> None:
        run.input()
        run.append("user", "By the way, be quick")
        run.model()

    done = trails.rerun(plan, curious, id="stopped")
    assert (done.outcome, done.left_at, done.result) == ("stopped", 1, None)
    assert isinstance(done.error, RecordMiss)
    assert own(done.session, store) == ["By the way, be quick"]


def test_an_agent_that_swallows_the_miss_gets_nothing_more(memory: Repository) -> None:
    plan = fill(memory)

    def stubborn(run: Playing) -> str:
        run.input()
        for _ in range(3):
            with pytest.raises(RecordMiss, match="no tool was called before"):
                run.tool("taxi")
        for later in (run.model, run.input, run.context, lambda: run.append("user", "More")):
            with pytest.raises(RecordMiss, match="no tool was called before"):
                later()
        return "on"

    done = trails.rerun(plan, stubborn)
    assert (done.outcome, done.left_at, done.played) == ("stopped", 1, 0)
    assert done.error is not None
    assert isinstance(done.error, RecordMiss)
    assert done.error.index == 1


def test_live_answers_go_on_where_the_record_ends(memory: Repository) -> None:
    plan = fill(memory)

    def live(run: Playing) -> None:
        run.input()
        answer = run.model(live=lambda _: "never")
        for call in answer.tool_calls:
            run.tool(call, live=lambda _: "never")
        run.model(live=lambda run: f"after {len(run.context().turns)} turns")

    done = trails.rerun(plan, live, upto=5, on_miss="live", id="live")
    assert (done.left_at, done.played, done.live) == (5, 4, 1)
    assert own(done.session, memory) == ["after 5 turns"]


def test_going_live_needs_something_to_ask(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="nothing to ask instead"):
        trails.rerun(fill(memory), agent, upto=1, on_miss="live", id="other")
    assert memory.load("other").forked_at_index == 1


def test_a_run_that_ends_early_says_where(memory: Repository) -> None:
    done = trails.rerun(fill(memory), lambda run: run.input())
    assert (done.outcome, done.left_at, done.agreed) == ("finished", 1, 1)
    assert done.difference is not None
    assert done.difference.what == "the run ends"


def test_an_agent_that_fails_keeps_what_it_said_and_its_error_goes_on(store: Repository) -> None:
    plan = fill(store)

    def failing(run: Playing) -> None:
        run.input()
        run.append("assistant", "I begin")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more") as raised:
        trails.rerun(plan, failing, id="failed")
    assert "stored as session 'failed'" in raised.value.__notes__[0]
    assert own(store.load("failed"), store) == ["I begin"]
    [act] = [each for each in activities.read_activities(store.store, "failed") if isinstance(each, Rerunning)]
    assert (act.outcome, act.left_at) == ("failed", 1)


def test_a_rerun_that_cannot_be_stored_any_more_says_so(memory: Repository) -> None:
    plan = fill(memory)

    def meanwhile(run: Playing) -> None:
        run.input()
        run.append("assistant", "Other")
        run.input()
        memory.redact("plan", 6)

    with pytest.raises(InvalidInput, match="redacted or deleted") as raised:
        trails.rerun(plan, meanwhile, id="gone")
    assert raised.value.__notes__ == ["What the agent said in this rerun of 'plan' is not stored."]
    assert "gone" not in memory
    assert memory.verify().ok
    lone = memory.create(id="lone")
    lone.append("user", "Go")
    lone.persist()

    def deleting(run: Playing) -> None:
        run.input()
        memory.delete("lone")

    with pytest.raises(trails.SessionNotFound):
        trails.rerun(lone, deleting)
    assert memory.verify().ok


def test_an_interrupt_stores_nothing(memory: Repository) -> None:
    plan = fill(memory)

    kept: list[Playing] = []

    def interrupted(run: Playing) -> None:
        kept.append(run)  # so that what is pending is not collected
        run.append("user", "Other")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trails.rerun(plan, interrupted, id="gone")
    assert "gone" not in memory
    assert len(memory) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left pending either
        memory.close()


def test_the_same_call_of_another_answer_is_not_played(memory: Repository) -> None:
    """What a tool answers may hang on all that was said before: only the same chain has its answers."""
    plan = fill(memory)
    asked = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in CALLS
    ]
    other = {"role": "assistant", "content": "Let me look twice.", "tool_calls": asked}
    done = trails.rerun(plan, agent, model=lambda _: other, id="other")
    assert (done.outcome, done.left_at, done.played) == ("stopped", 1, 0)
    assert own(done.session, memory) == ["Let me look twice."]
    assert isinstance(done.error, RecordMiss)
    assert (done.error.index, done.error.what) == (1, "text")


def test_a_call_id_of_the_live_model_makes_no_difference(memory: Repository) -> None:
    plan = fill(memory)
    asked = [
        {"id": f"x{n}", "type": "function", "function": {"name": call["name"], "arguments": '{"place": "Zermatt"}'}}
        for n, call in enumerate(CALLS)
    ]
    asked[0]["function"] = asked[1]["function"] = {"name": "dice", "arguments": "{}"}

    def model(run: Playing) -> Any:
        if len(run.turns) == 1:
            return {"role": "assistant", "content": "Let me look.", "tool_calls": asked}
        return plan.turns[len(run.turns)].content

    done = trails.rerun(plan, agent, model=model)
    assert (done.left_at, done.live, done.played) == (None, 3, 3)


def test_answers_in_one_message_of_parts_agree_as_a_whole(memory: Repository) -> None:
    s = memory.create(id="s")
    s.append("user", "Go")
    s.append("assistant", [{"type": "tool_use", "id": f"t{n}", "name": "ls", "input": {"n": n}} for n in range(2)])
    s.append("user", [{"type": "tool_result", "tool_use_id": f"t{n}", "content": f"file {n}"} for n in range(2)])
    s.append("assistant", "Two files")
    s.persist()
    assert trails.rerun(s, agent).left_at is None
    assert trails.rerun(s, agent, tools=lambda call: f"file {call.input['n']}").left_at is None
    other = trails.rerun(s, agent, id="other", tools=lambda call: f"no {call.input['n']}")
    assert (other.left_at, own(other.session, memory)) == (2, ["no 0", "no 1"])
    assert [result.call_id for turn in other.session[2:] for result in turn.tool_results] == ["t0", "t1"]


def test_an_error_of_a_tool_is_held_against_the_record_too(memory: Repository) -> None:
    plan = fill(memory)
    said = iter(["five", "six"])

    def tools(call: ToolCall) -> Any:
        return next(said) if call.name == "dice" else ToolAnswer("Snow", is_error=True)

    done = trails.rerun(plan, agent, tools=tools, id="other")
    assert (done.left_at, done.outcome) == (2, "stopped")
    assert done.difference is not None
    assert done.difference.found == 'error "Snow"'


def test_a_summary_is_given_again_and_what_is_redacted_is_not(memory: Repository) -> None:
    plan = fill(memory)
    plan.compact(lambda _: "A trip", keep_turns=1)
    plan.append("user", "More")
    plan.append("assistant", "No")
    plan.persist()
    assert trails.rerun(plan, agent).left_at is None
    other = trails.rerun(plan, agent, model=lambda _: "Hm", tools=lambda _: "", id="other")
    assert own(other.session, memory) == ["Hm", "Thanks", "Hm", "More", "Hm"]
    memory.redact("plan", 0)
    stopped = trails.rerun(memory.load("plan"), agent)
    assert (stopped.outcome, stopped.left_at) == ("stopped", 0)


def test_names_and_depth_are_refused_before_the_agent_is_called(memory: Repository) -> None:
    plan = fill(memory)

    def never(_: Playing) -> None:
        pytest.fail("the agent was called")

    with pytest.raises(InvalidInput, match="plan"):
        trails.rerun(plan, never, id="plan")
    for _ in range(32):
        plan = plan.fork()
        plan.persist()
    with pytest.raises(ForkDepthExceeded):
        trails.rerun(plan, never)


@pytest.mark.parametrize(
    "options", [{"model": "live"}, {"tools": 3}, {"on_miss": "guess"}, {"upto": 9}, {"upto": -1}, {"modle": "recorded"}]
)
def test_options_that_mean_nothing_are_refused(memory: Repository, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        trails.rerun(fill(memory), agent, **options)
    assert len(memory) == 1


def test_what_is_no_session_or_no_agent_is_refused(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="of a session"):
        trails.rerun("plan", agent)  # type: ignore[arg-type] # that is the test
    with pytest.raises(InvalidInput, match="a function"):
        trails.rerun(fill(memory), "agent")  # type: ignore[arg-type] # that is the test
    with pytest.raises(InvalidInput, match="gives one to the agent"):
        trails.Playing(None, None, None, {})  # type: ignore[arg-type] # that is the test


def test_a_store_that_is_only_read_is_refused_before_the_agent_is_called(place: Path) -> None:
    with trails.open(place, create=True) as store, trails.open(place, read_only=True) as view:
        fill(store)
        view.refresh()
        with pytest.raises(trails.StoreReadOnly):
            trails.rerun(view.load("plan"), lambda _: pytest.fail("the agent was called"))
        with pytest.raises(trails.StoreReadOnly):
            trails.rerun_many(view.load("plan"), lambda _: pytest.fail("the agent was called"), 2)


async def wait(*_: object) -> str:
    return "never"


def test_a_coroutine_is_refused_with_the_way_to_run_it(memory: Repository) -> None:
    plan = fill(memory)
    for ways in ({"model": wait}, {"tools": wait}):
        with pytest.raises(InvalidInput, match=r"trails\.aio\.rerun"):
            trails.rerun(plan, agent, **ways)  # type: ignore[arg-type] # that is the test
    with pytest.raises(InvalidInput, match=r"trails\.aio\.rerun"):
        trails.rerun(plan, wait)


def yields(_: object) -> Iterator[str]:
    yield "never asked for"


def test_a_function_that_yields_is_refused_since_nothing_of_it_would_run(memory: Repository) -> None:
    plan = fill(memory)
    for ways in ({"model": yields}, {"tools": yields}):
        with pytest.raises(InvalidInput, match="yields does not run"):
            trails.rerun(plan, agent, **ways)  # type: ignore[arg-type] # that is the test
    with pytest.raises(InvalidInput, match="yields does not run"):
        trails.rerun(plan, yields)


def test_a_model_that_answers_as_somebody_else_is_refused(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="answers as assistant, not as 'user'"):
        trails.rerun(fill(memory), agent, model=lambda _: {"role": "user", "content": "Thanks"})


def test_what_was_redacted_after_the_session_was_loaded_is_not_played(memory: Repository) -> None:
    plan = fill(memory)
    memory.redact("plan", 1)
    done = trails.rerun(plan, agent)
    assert (done.outcome, done.left_at, done.played) == ("stopped", 1, 0)
    [several] = trails.rerun_many(plan, agent, 1, name="try")
    assert (several.outcome, several.played) == ("stopped", 0)


def test_an_agent_that_asks_on_after_a_miss_meets_the_same_error_which_does_not_grow(memory: Repository) -> None:
    depths: list[int] = []

    def stubborn(run: Playing) -> None:
        for _ in range(5):
            with pytest.raises(RecordMiss) as raised:
                run.model()
            depths.append(len(list(walk_tb(raised.value.__traceback__))))

    trails.rerun(fill(memory), stubborn)
    assert depths[1] == depths[4]


def test_a_run_that_has_ended_takes_nothing_more(memory: Repository) -> None:
    kept: list[Playing] = []
    done = trails.rerun(fill(memory), kept.append, id="done")
    for late in (kept[0].input, kept[0].model, kept[0].context, lambda: kept[0].append("user", "late")):
        with pytest.raises(InvalidInput, match="has ended"):
            late()
    assert done.session.pending == 0


def test_tools_may_be_called_side_by_side_in_threads(memory: Repository) -> None:
    plan = memory.create(id="wide")
    plan.append("user", "Go")
    calls = [{"id": f"c{n}", "name": "look", "arguments": {"n": n % 5}} for n in range(40)]
    plan.append("assistant", "I look.", tool_calls=calls)
    for n in range(40):
        plan.append("tool", f"seen {n}", tool_call_id=f"c{n}")
    plan.append("assistant", "Done")
    plan.persist()

    def wide(run: Playing) -> list[str]:
        run.input()
        asked = run.model().tool_calls
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(run.tool, asked))
        run.model()
        return [answer.content for answer in answers]

    done = trails.rerun(plan, wide)
    assert (done.left_at, done.result) == (None, [f"seen {n}" for n in range(40)])


def test_ids_that_come_again_are_answered_by_their_own_turn_in_order(memory: Repository) -> None:
    s = memory.create(id="s")
    s.append("user", "Go")
    for n in range(2):
        s.append("assistant", "c", tool_calls=[{"id": "x", "name": "f", "arguments": {"k": k}} for k in range(2)])
        s.append("tool", f"first {n}", tool_call_id="x")
        s.append("tool", f"second {n}", tool_call_id="x")
    s.append("assistant", "end")
    s.persist()
    seen: list[str] = []

    def noting(run: Playing) -> None:
        run.input()
        for _ in range(2):
            seen.extend(run.tool(call).content for call in run.model().tool_calls)
        run.model()

    assert trails.rerun(s, noting).left_at is None
    assert seen == ["first 0", "second 0", "first 1", "second 1"]


def test_an_agent_that_reruns_something_itself_is_not_confused(memory: Repository) -> None:
    plan = fill(memory)

    def nested(run: Playing) -> int | None:
        inner = trails.rerun(plan, agent, model=lambda _: "Hm", tools=lambda _: "")
        agent(run)
        return inner.left_at

    done = trails.rerun(plan, nested)
    assert (done.left_at, done.result) == (None, 1)


def test_a_rerun_of_a_rerun_shares_what_both_share(memory: Repository) -> None:
    plan = fill(memory)
    other = trails.rerun(plan, agent, model=lambda _: "Hm", tools=lambda _: "", id="other")
    again = trails.rerun(other.session, agent, id="again")
    assert (again.left_at, again.agreed, again.session.parent_session_id) == (None, 4, "other")
    third = trails.rerun(other.session, agent, model=lambda _: "Oh", tools=lambda _: "", id="third")
    assert own(third.session, memory) == ["Oh", "Thanks", "Oh"]
    quoted = next(turn.quoted_from for turn in third.session if turn.quoted_from and turn.session_id == "third")
    assert (quoted.session_id, quoted.index) == ("other", 2)
    assert memory.verify().ok


def test_a_rerun_goes_with_its_fork_to_another_store(place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        trails.rerun(fill(store), agent, model=lambda _: "Hm", tools=lambda _: "", id="other")
        with trails.open(tmp_path / "there", create=True) as there:
            trails.push(store, ["other"], there)
            assert there.verify().ok
            found = [act for act in activities.read_activities(there.store, "other") if isinstance(act, Rerunning)]
            assert [act.left_at for act in found] == [1]


@pytest.mark.slow
def test_a_difference_is_found_where_it_was_planted_and_nowhere_else(memory: Repository, size: Size) -> None:
    """Random transcripts with tools; an answer of a model or a tool, a call's arguments, or nothing is changed."""
    cases = {"quick": 60, "all": 1000, "long": 10_000}[size]
    for seed in range(cases):
        chance = random.Random(seed)
        plan, script = recorded(memory, f"s{seed}", chance)
        planted = chance.choice([None, *script])
        done = trails.rerun(plan, agent, model=replaying(plan, planted), tools=answering(plan, planted), on_miss="stop")
        assert done.left_at == planted, seed


def replaying(plan: Session, planted: int | None) -> Callable[[Playing], Any]:
    """A model that says what was recorded, and something else at one index."""

    def model(run: Playing) -> Any:
        index = len(run.turns)
        if index >= len(plan) or plan.turns[index].role != "assistant":
            return "lost"
        turn = plan.turns[index]
        calls = [{"id": f"new-{call.id}", "name": call.name, "arguments": call.input} for call in turn.tool_calls]
        if index == planted and calls:
            calls[-1]["arguments"] = {"n": 1}
        text = f"{turn.content}!" if index == planted and not calls else turn.content
        asked = [{"id": c["id"], "type": "function", "function": c} for c in calls]
        return {"role": "assistant", "content": text, **({"tool_calls": asked} if asked else {})}

    return model


def answering(plan: Session, planted: int | None) -> Callable[[ToolCall], Any]:
    """Tools that answer what was recorded, by the ids of the calls, and something else at one index."""
    by_id = {turn.tool_results[0].call_id: turn for turn in plan.turns if turn.tool_results}

    def tools(call: ToolCall) -> Any:
        turn = by_id.get(call.id)
        return "lost" if turn is None else f"{turn.content}!" if turn.index == planted else turn.content

    return tools
