"""Run an agent again over a recorded session: with the recorded answers, then with another model.

Prints:
finished None
finished 1
plan -> By bus.
"""

import trails


def agent(run: trails.Playing) -> None:
    run.append("user", "Plan a trip")
    run.model()


def other_model(run: trails.Playing) -> str:
    return "By bus." if run.context().turns else "By train."


with trails.open(":memory:") as store:
    plan = store.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "By train.", model="m-1")
    plan.persist()

    again = trails.rerun(plan, agent)
    print(again.outcome, again.left_at)
    other = trails.rerun(plan, agent, model=other_model, id="other")
    print(other.outcome, other.left_at)
    print(plan.id, "->", other.session[-1].text)
