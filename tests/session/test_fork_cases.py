"""Every case of an independent full-copy simulator: what load must give after a series of creates, appends and forks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trails import MAX_FORK_DEPTH, ForkDepthExceeded, Repository, Session

pytestmark = pytest.mark.any_store


def _run(store: Repository, ops: list[list[Any]]) -> dict[str, Session | None]:
    """Do a case's operations; a session that the depth guard refuses, and what builds on it, is None."""
    sessions: dict[str, Session | None] = {}
    for op, name, *rest in ops:
        if op == "create":
            sessions[name] = store.create(id=name)
        elif op == "append":
            if (session := sessions[name]) is not None:
                session.append("user", rest[0])
                session.persist()
        else:
            child, at = rest
            parent = sessions[name]
            try:
                sessions[child] = parent.fork(at, id=child) if parent is not None else None
            except ForkDepthExceeded:
                sessions[child] = None
    for session in sessions.values():
        if session is not None:
            session.persist()
    return sessions


def test_every_session_of_every_case_loads_as_the_full_copy_simulator_says(shared: Path, store: Repository) -> None:
    model = json.loads((shared / "cases" / "fork_chain_model.json").read_text())
    for number, case in enumerate(model["cases"]):
        ops = [
            [op, *(f"{number}-{name}" if _is_name(op, i) else name for i, name in enumerate(rest))]
            for op, *rest in case["ops"]
        ]
        made = _run(store, ops)
        for name, expected in case["expected"]["sessions"].items():
            session_id = f"{number}-{name}"
            if expected["ancestors"] > MAX_FORK_DEPTH:
                assert made[session_id] is None, f"{case['name']}: {name} is too deep and must be refused"
                continue
            loaded = store.load(session_id)
            transcript = [
                {"index": t.index, "owner": t.session_id.partition("-")[2], "text": t.content} for t in loaded.turns
            ]
            assert transcript == expected["load"], f"{case['name']}: {name}"
            parent = expected["parent_session_id"]
            assert loaded.parent_session_id == (None if parent is None else f"{number}-{parent}")
            assert loaded.forked_at_index == expected["forked_at_index"]
            own = [t.index for t in loaded.turns if t.session_id == session_id]
            assert own == expected["own_row_indices"], f"{case['name']}: {name}"
        if all(session is not None for session in made.values()):
            rows = store.query(
                f'SELECT ?t {{ GRAPH ?g {{ ?t a trails:Turn }} FILTER(STRSTARTS(STR(?g), "urn:trails:session:{number}-")) }}'
            )
            assert len(rows) == case["expected"]["total_rows_share"], case["name"]  # type: ignore[arg-type] # rows of a SELECT


def _is_name(op: str, position: int) -> bool:
    return position == 0 or (op == "fork" and position == 1)


@pytest.mark.parametrize("depth", [MAX_FORK_DEPTH])
def test_a_chain_of_32_ancestors_loads_and_the_33rd_is_refused_with_flatten_as_the_remedy(
    store: Repository, depth: int
) -> None:
    session = store.create(id="s0")
    session.append("user", "0")
    for level in range(1, depth + 1):
        session = session.fork(id=f"s{level}")
        session.append("user", str(level))
    session.persist()
    assert [t.content for t in store.load("s32").turns] == [str(n) for n in range(33)]
    with pytest.raises(ForkDepthExceeded, match="flatten"):
        session.fork(id="s33")
    assert "s33" not in store
    flat = session.flatten(id="flat")
    child = flat.fork(id="s33")
    child.persist()
    assert [t.content for t in store.load("s33").turns] == [str(n) for n in range(33)]
