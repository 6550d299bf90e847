"""An answer that is made from a sub-agent's result names that sub-agent, its model and its tools, and the path."""

from __future__ import annotations

from typing import Any

import trails
from trails import Repository

MAIN, WEB = "urn:trails:session:main", [{"id": "c", "name": "web", "arguments": {}}]


def rows(store: Repository, **parameters: Any) -> set[tuple[object, ...]]:
    found = store.query("influences", **parameters).to_dicts()  # type: ignore[union-attr] # a SELECT
    return {(row["kind"], row["influence"], row["path"], row["first"]) for row in found}


def test_what_a_sub_agent_and_its_own_were_influenced_by_comes_with_its_result(memory: Repository) -> None:
    tree = trails.Tree(memory)
    main = tree.main("chief", "chat", principal="alice", system="Lead", id="main")
    main.append("user", "Go")
    scan = main.spawn("branch", "look", id="scan")
    scan.append("assistant", "I look", model="m-scan", tool_calls=WEB)
    scan.spawn("worker", "count", id="count").complete("9")
    tree.incorporate(scan.results()[0], "nine")
    scan.complete("ok")
    tree.incorporate(main.results()[0], "found")  # turn 1
    main.append("assistant", "Done", model="m-main")  # turn 2
    unused = main.spawn("branch", "write", id="unused")
    unused.append("assistant", "A letter", model="m-unused")
    unused.complete("written")
    found = rows(memory, session="main", index=2)
    result = "result of urn:trails:session:"
    assert {
        ("model", "m-main", "transcript", 2),
        ("session", "urn:trails:session:scan", "result", 1),
        ("session", "urn:trails:session:count", "result", 1),
        ("model", "m-scan", f"{result}scan", 1),
        ("tool", "web", f"{result}scan", 1),
        ("author", "urn:trails:agent:chief", f"{result}count", 1),
        ("prompt", f"{MAIN}/system/1", "system prompt", 0),
    } <= found
    assert not any("unused" in str(part) for row in found for part in row)
    before = rows(memory, session="main", index=0)
    assert {kind for kind, *_ in before} == {"author", "prompt"}


def test_the_brief_the_quotation_and_the_event_are_paths_too(memory: Repository) -> None:
    tree = trails.Tree(memory)
    main = tree.main("chief", "chat", principal="alice", id="main")
    child = main.spawn("branch", "look", id="child", by="dora")
    other = memory.create(id="other", principal="bob")
    other.append("user", "Once said")
    other.persist()
    child.session.cherry_pick("other", 0)
    child.persist()
    ledger = trails.Ledger(memory)
    ledger.receive("other", "A message", source="chat", author="erin")
    ledger.process("other", lambda running: "answered")
    assert {
        ("author", "urn:trails:principal:dora", "brief", 0),
        ("session", "urn:trails:session:other", "quotation", 0),
    } <= rows(memory, session="child", index=0)
    assert ("author", "urn:trails:principal:erin", "event", 1) in rows(memory, session="other", index=2)
