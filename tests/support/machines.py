"""How far properties and state machines go, in which a store and a model go through the same random steps."""

from __future__ import annotations

from typing import Literal

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

Size = Literal["quick", "all", "long"]
"""Which figures a run asks for: of `make test`, of `make test-all`, or of `make long`."""


def examples(usual: int) -> settings:
    """Return the settings of a property whose examples take long each: so many of them, for `make test` a sixth."""
    quick = settings.get_current_profile_name() == "quick"
    return settings(max_examples=max(usual // 6, 1) if quick else usual)


def walk(machine: type[RuleBasedStateMachine], size: Size, **runs: tuple[int, int]) -> None:
    """Take a machine through so many runs of so many steps each, given for each size; `long` draws other ones each time."""
    examples, steps = runs[size]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=size != "long",
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
