"""A store in which forks leave a fork: within its own turns, and within those that it inherits."""

from __future__ import annotations

from trails import Repository


def fill(store: Repository) -> Repository:
    """Store a session, a fork of it, and two forks of that: one within its own turns, one within those that it inherits."""
    root = store.create(id="root", principal="alice", agent="planner")
    for text in "abcdefgh":
        root.append("user", text)
    root.persist()
    middle = root.fork(at=3, id="middle")
    for text in "xyz":
        middle.append("user", text)
    middle.persist()
    for name, at in (("late", 5), ("early", 2)):
        fork = middle.fork(at=at, id=name)
        fork.append("user", "own")
        fork.persist()
    return store
