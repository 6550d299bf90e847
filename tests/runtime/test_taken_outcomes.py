"""A turn that says what came of a fork is influenced by the fork's own turns, and the principals behind these are behind it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import ENGINES, Answer, Engines, answered
from trails import Repository

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

ALICE, BOB, DORA, PLANNER, GUIDE = "principal:alice", "principal:bob", "principal:dora", "agent:planner", "agent:guide"
DEEPER, TRY = (f"outcome of urn:trails:session:{fork}" for fork in ("deeper", "try"))
WEB = [{"id": "c", "name": "web", "arguments": {}}]

ANSWERS: list[Answer] = [
    # plan: 0 alice, 1 planner, 2 the outcome of try (alice took it), 3 planner; of try: 1 to 4, for 5 and 6 came later
    ("influences", {"session": "plan", "index": 3}, "kind influence path turns first last", [
        ("author", GUIDE, DEEPER, 1, 2, 2),
        ("author", PLANNER, TRY, 1, 2, 2),
        ("author", PLANNER, "transcript", 2, 1, 3),
        ("author", ALICE, TRY, 1, 2, 2),
        ("author", ALICE, "transcript", 2, 0, 2),
        ("author", BOB, TRY, 1, 2, 2),
        ("author", "tool:web", TRY, 1, 2, 2),
        ("model", "m-deep", DEEPER, 1, 2, 2),
        ("model", "m-try", TRY, 1, 2, 2),
        ("prompt", "try/system/1", TRY, 1, 2, 2),
        ("session", "deeper", "outcome", 1, 2, 2),
        ("session", "try", "outcome", 1, 2, 2),
        ("tool", "web", TRY, 1, 2, 2),
    ]),
    ("influences", {"session": "plan", "index": 1}, "kind influence path", [
        ("author", PLANNER, "transcript"),
        ("author", ALICE, "transcript"),
    ]),
    # the fork itself knows nothing of what its parent took from it
    ("influences", {"session": "other", "index": 2}, "kind influence path", [
        ("author", PLANNER, "transcript"),
        ("author", ALICE, "transcript"),
        ("author", DORA, "transcript"),
    ]),
    # heir was forked from plan behind the outcome, and inherits it
    ("influences", {"session": "heir", "index": 3}, "kind influence path turns", [
        ("author", GUIDE, DEEPER, 1),
        ("author", PLANNER, TRY, 1),
        ("author", PLANNER, "transcript", 1),
        ("author", ALICE, TRY, 1),
        ("author", ALICE, "transcript", 2),
        ("author", BOB, TRY, 1),
        ("author", DORA, "transcript", 1),
        ("author", "tool:web", TRY, 1),
        ("model", "m-deep", DEEPER, 1),
        ("model", "m-try", TRY, 1),
        ("prompt", "try/system/1", TRY, 1),
        ("session", "deeper", "outcome", 1),
        ("session", "try", "outcome", 1),
        ("tool", "web", TRY, 1),
    ]),
    # of try: 1 (bob), 2 (planner, for alice), 3 (the tool), 4 (alice: the outcome of deeper); of deeper: 4 (guide, for bob)
    ("principals-behind", {"session": "plan", "index": 3}, "principal how place path things", [
        (ALICE, "delegated", "try", "outcome", 2),
        (ALICE, "delegated", "plan", "transcript", 2),
        (ALICE, "prompted", "try", "outcome", 1),
        (ALICE, "wrote", "try", "outcome", 1),
        (ALICE, "wrote", "plan", "transcript", 2),
        (BOB, "approved", "try", "outcome", 1),
        (BOB, "delegated", "deeper", "outcome", 1),
        (BOB, "wrote", "try", "outcome", 1),
    ]),
    # leaf was forked from middle before that took the outcome of late
    ("influences", {"session": "top", "index": 1}, "kind influence path turns", [
        ("author", ALICE, "transcript", 2),
        ("author", BOB, "outcome of urn:trails:session:middle", 1),
        ("author", "principal:carol", "outcome of urn:trails:session:leaf", 1),
        ("session", "leaf", "outcome", 1),
        ("session", "middle", "outcome", 1),
    ]),
    ("principals-behind", {"session": "top", "index": 1}, "principal how place path things", [
        (ALICE, "wrote", "top", "transcript", 2),
        (BOB, "wrote", "middle", "outcome", 1),
        ("principal:carol", "wrote", "leaf", "outcome", 1),
    ]),
    ("principals-behind", {"session": "plan", "index": 1}, "principal how place things", [
        (ALICE, "delegated", "plan", 1),
        (ALICE, "wrote", "plan", 1),
    ]),
]  # fmt: skip


@pytest.fixture(scope="module")
def engines() -> Any:
    """plan <- try (at 1) <- deeper (at 4), taken into try, that into plan; plan <- other, heir; top <- middle <- leaf, late."""
    import trails

    with trails.open(":memory:") as store:
        fill(store)
        yield Engines(store)


def fill(store: Repository) -> None:
    plan = store.create(id="plan", principal="alice", agent="planner")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Where to?")
    plan.persist()
    trial = plan.fork(at=1, id="try")
    trial.append("user", "By train?", author="bob")  # 1
    trial.append("assistant", "I look.", model="m-try", tool_calls=WEB)  # 2
    trial.append("tool", "Five hours", tool_results=[{"call_id": "c", "approved_by": "bob"}])  # 3
    trial.persist()
    deeper = trial.fork(id="deeper", principal="bob", agent="guide")
    deeper.append("assistant", "It takes six.", model="m-deep")  # 4
    deeper.persist()
    trial.set_system("Be brief", by="alice")
    trial.persist()
    trial.take("deeper")  # 4, by alice
    other = plan.fork(id="other")
    other.append("user", "By bus?", author="dora")
    other.persist()
    plan.take("try", "Six hours")  # 2
    plan.append("assistant", "Done.")  # 3
    plan.persist()
    heir = plan.fork(at=3, id="heir")
    heir.append("user", "Really?", author="dora")
    heir.persist()
    top = store.create(id="top", principal="alice", agent="planner")
    top.append("user", "Go", author="alice")
    top.persist()
    middle = top.fork(id="middle")
    middle.append("user", "North", author="bob")  # 1
    middle.persist()
    leaf = middle.fork(id="leaf")
    leaf.append("user", "Left", author="carol")  # 2
    leaf.persist()
    late = middle.fork(id="late")
    late.append("user", "South", author="dora")
    late.persist()
    middle.take("late", "South")  # 2, which leaf does not share
    top.take("leaf", "Left")
    trial.append("user", "Too late", author="dora")  # 5
    trial.append("assistant", "Too late", model="m-late")
    trial.persist()


@pytest.mark.parametrize(
    "answer", ANSWERS, ids=lambda answer: f"{answer[0]} {answer[1]['session']} {answer[1]['index']}"
)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_fork_was_influenced_by_comes_with_its_outcome(engines: Engines, engine: str, answer: Answer) -> None:
    found, expected = answered(engines, engine, answer)
    assert found == expected


def test_a_tool_that_was_used_in_a_taken_fork_is_told_also_where_its_call_is_not_known(memory: Repository) -> None:
    root = memory.create(id="root", principal="alice", agent="planner")
    root.append("user", "Go")
    root.persist()
    side = root.fork(id="side")
    side.append("tool", "So", tool_results=[{"call_id": "lost"}])  # 1
    side.persist()
    inner = side.fork(id="inner")
    inner.append("assistant", "I look.", tool_calls=WEB)  # 2
    inner.append("tool", "Six hours", tool_results=[{"call_id": "c"}])  # 3
    inner.append("tool", "So", tool_results=[{"call_id": "gone"}])  # 4
    inner.persist()
    side.take("inner", "Six hours")
    side.persist()
    root.take("side", "Six hours")
    root.persist()
    rows = memory.select("influences", session="root", index=1).to_dicts()
    expected = [("", "inner"), ("", "side"), ("web", "inner")]
    assert [(row["influence"], row["path"].rpartition(":")[2]) for row in rows if row["kind"] == "tool"] == expected
