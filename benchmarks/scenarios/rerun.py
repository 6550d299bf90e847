"""Running an agent again over 500 recorded calls: what a call costs beside the agent, and fifty tails on one long prefix."""

from __future__ import annotations

from itertools import cycle

import trails
from benchmarks.data import messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Playing, Repository, Session

CALLS = 500
_ALONE = "the agent alone"
_PLAYED = "played from the record"
_LIVE = "live, saying what was recorded"
_MILLISECONDS = 1_000


def run(setting: Setting) -> list[Result]:
    """Measure a rerun with everything recorded, and one whose model and tools are asked and held against the record."""
    with trails.open(setting.folder / "store", create=True) as store:
        plan = _recorded(store, [each.text for each in messages(CALLS, setting.seed)])
        answers = [turn.content for turn in plan.turns]
        seconds = medians(
            [
                Contestant(_ALONE, lambda: timed(lambda: _alone(answers))),
                Contestant(_PLAYED, lambda: timed(lambda: _played(plan))),
                Contestant(_LIVE, lambda: timed(lambda: _live(plan))),
            ],
            setting.size.rounds,
        )
    each = {name: (seconds[name] - seconds[_ALONE]) / CALLS * _MILLISECONDS for name in (_PLAYED, _LIVE)}
    return [
        Result(
            name="rerun",
            title=f"rerun {CALLS} recorded calls, with the commit of the fork",
            baseline=_ALONE,
            medians=seconds,
            targets=[
                Target("a recorded call, beside the agent", each[_PLAYED], 1.0, "ms"),
                Target("a live call that agrees, beside the agent", each[_LIVE], 1.0, "ms"),
            ],
        )
    ]


def _recorded(store: Repository, texts: list[str]) -> Session:
    """Store a session of `CALLS` answers: of a model and its tool in turn, and the model's last word in each of two exchanges."""
    plan = store.create(id="plan")
    plan.append("user", "Go")
    for number, text in enumerate(texts[:-2]):
        if number % 2 == 0:
            calls = [{"id": f"c{number}", "name": "look", "arguments": {"at": text[:80], "n": number}}]
            plan.append("assistant", text, model="m-1", tool_calls=calls)
        else:
            plan.append("tool", text, tool_call_id=f"c{number - 1}")
    plan.append("assistant", texts[-2], model="m-1")
    plan.append("user", "And?")
    plan.append("assistant", texts[-1], model="m-1")
    plan.persist()
    return plan


def agent(run: Playing) -> None:
    """Ask for everything there is."""
    while run.input():
        answer = run.model()
        while answer.tool_calls:
            for call in answer.tool_calls:
                run.tool(call)
            answer = run.model()


def _alone(answers: list[str]) -> int:
    """Do what the agent does with answers that lie ready."""
    return sum(len(answer) for answer in answers)


def _played(plan: Session) -> None:
    done = trails.rerun(plan, agent)
    assert (done.left_at, done.played) == (None, CALLS)


def _live(plan: Session) -> None:
    turns = {turn.index: turn for turn in plan.turns}
    said = cycle(turn.content for turn in plan.turns if turn.tool_results)

    def model(run: Playing) -> object:
        turn = turns[len(run.turns)]
        asked = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.tool_calls
        ]
        return {"role": "assistant", "content": turn.content, "tool_calls": asked or None}

    done = trails.rerun(plan, agent, model=model, tools=lambda _: next(said))
    assert done.left_at is None, done.difference
