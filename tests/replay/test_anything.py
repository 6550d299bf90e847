"""Whatever an agent does, its fork shares exactly what agrees with the record, and says so."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal

import trails
from tests.support.machines import Size
from tests.support.rerun_records import recorded
from trails import Playing, Repository, Session, ToolCall, Turn

WORDS = ("say 0", "say 1", "go 0", "answer 0", "answer 1")


class Wild:
    """An agent that does anything, with a model that often says what was recorded, and tools that often answer so."""

    def __init__(self, plan: Session, chance: random.Random) -> None:
        self.plan, self.chance = plan, chance

    def __call__(self, run: Playing) -> None:
        for _ in range(self.chance.randrange(1, 40)):
            calls = run.turns[-1].tool_calls if run.turns else ()
            if calls and self.chance.random() < 0.9:
                self.answer(run, list(calls))
            else:
                self.chance.choice([self.take, self.take, self.ask, self.ask, self.say, self.call])(run)

    def answer(self, run: Playing, calls: list[ToolCall]) -> None:
        if self.chance.random() < 0.3:
            self.chance.shuffle(calls)
        for call in calls[: -1 if self.chance.random() < 0.1 else None]:
            run.tool(call, live=self.tool)

    def take(self, run: Playing) -> None:
        run.input()

    def ask(self, run: Playing) -> None:
        run.model(live=self.model)

    def say(self, run: Playing) -> None:
        run.append(self.chance.choice(["user", "assistant", "system"]), self.chance.choice(WORDS))

    def call(self, run: Playing) -> None:
        run.tool("dice", {"n": 0}, live=self.tool)

    def model(self, run: Playing) -> Any:
        index = len(run.turns)
        if index < len(self.plan) and self.plan[index].role == "assistant" and self.chance.random() < 0.8:
            turn = self.plan[index]
            return message(turn.content, [(call.name, str(call.arguments)) for call in turn.tool_calls], index)
        return message(self.chance.choice(WORDS), [("dice", "{}")] * self.chance.choice([0, 0, 1]), index)

    def tool(self, _: ToolCall) -> str:
        return f"answer {self.chance.randrange(3)}"


def message(text: str, calls: list[tuple[str, str]], index: int) -> dict[str, Any]:
    """A message as OpenAI's API has it, with ids that were never used before."""
    asked = [
        {"id": f"new-{index}-{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": asked} if asked else {})}


def says(turn: Turn) -> tuple[Any, ...]:
    """What a turn says. Ids of calls that are answered count: a run that agreed so far was given the record's own."""
    asked = tuple((call.name, str(call.input)) for call in turn.tool_calls)
    return turn.role, turn.content, asked, tuple(result.call_id for result in turn.tool_results)


def test_a_fork_shares_exactly_what_agrees(memory: Repository, size: Size) -> None:
    cases = {"quick": 10, "all": 1000, "long": 20_000}[size]
    for seed in range(cases):
        chance = random.Random(seed)
        plan, _ = recorded(memory, f"s{seed}", chance)
        wild = Wild(plan, chance)
        model: Literal["recorded"] | Callable[[Playing], Any] = chance.choice(["recorded", wild.model])
        tools: Literal["recorded"] | Callable[[ToolCall], Any] = chance.choice(["recorded", wild.tool])
        done = trails.rerun(
            plan, wild, model=model, tools=tools, on_miss=chance.choice(["stop", "live"]), id=f"f{seed}"
        )
        fork = memory.load(f"f{seed}")
        pairs = enumerate(zip(map(says, plan), map(says, fork), strict=False))
        common = next((n for n, (old, new) in pairs if old != new), min(len(plan), len(fork)))
        agrees = common == len(plan) == len(fork) and done.outcome == "finished"
        assert (done.agreed, fork.forked_at_index) == (common, common), seed
        assert done.left_at == (None if agrees else common), seed
        assert fork.turns[:common] == plan.turns[:common], seed
    assert memory.verify().ok
