"""A store that holds what Trails never writes: whatever reads it answers or says so, with an error of Trails and no other."""

from __future__ import annotations

import io
import random
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

import trails
from tests.support.machines import Size
from trails import Compaction, Inbound, Ledger, Repository, Router, Runs, Tree, Turn
from trails.errors import IntegrityError, TrailsError
from trails.exchange.file_import import export_session
from trails.history import turn_builder
from trails.rdf import vocab
from trails.store.contract import Change

XSD = "http://www.w3.org/2001/XMLSchema#"
DEEP = "[" * 5000 + "]" * 5000
VALUES: list[Any] = [
    Literal(""), Literal("x"), Literal("-1"), Literal("²"), Literal("9" * 30), Literal("9" * 5000), Literal("NaN"),
    Literal(5), Literal(-5), Literal(2**62), Literal(True), Literal(1.5), Literal("Hallo", language="de"),
    Literal("1e400", datatype=NamedNode(XSD + "double")), Literal("2026-13-45", datatype=vocab.DATE_TIME),
    Literal("2026-01-01T00:00:00", datatype=vocab.DATE_TIME), Literal("-0044-03-15T00:00:00Z", datatype=vocab.DATE_TIME),
    Literal("99999-01-01T00:00:00Z", datatype=vocab.DATE_TIME), Literal("{", datatype=vocab.JSON),
    Literal("null", datatype=vocab.JSON), Literal('"text"', datatype=vocab.JSON), Literal("[1, null, {}]", datatype=vocab.JSON),
    Literal('{"a": {"b": 1}}', datatype=vocab.JSON), Literal(DEEP, datatype=vocab.JSON), Literal("", datatype=vocab.REDACTED),
    Literal("x", datatype=NamedNode("urn:no:type")), NamedNode("urn:x"), NamedNode("urn:trails:session:"),
    NamedNode("urn:trails:session:root/turn/x/y"), NamedNode("urn:trails:session:root/ledger/99999999999999999999"),
    NamedNode("urn:trails:agent:%FF"), NamedNode("urn:trails:session:root"),
]  # fmt: skip
"""What is put in the place of a value, or beside it."""


Read = tuple[str, Callable[[], object]]


def fill(store: Repository) -> None:
    """A little of everything that a store can hold."""
    root = store.create(
        id="root", principal="alice", agent="planner", system="Be brief", label="trip", meta={"k": 1, "n": {"a": [1]}}
    )
    root.append("user", "Plan a trip", meta={"m": 1})
    root.append(
        "assistant",
        [{"type": "tool_use", "id": "t", "name": "ls", "input": {"a": 1}}],
        model="m",
        usage={"input_tokens": 2, "cost": 0.5},
    )
    root.append("tool", "files", tool_call_id="t")
    root.append(
        "summary",
        "so far",
        compaction=Compaction(summarised_through=1, first_kept=2, tokens_before=9, trigger="manual"),
    )
    root.worktree.append(turn_builder.make_draft("user", "Go on", source_ids=["s1"]))
    root.persist()
    fork = root.fork(at=3, id="fork", principal="bob")
    fork.append("user", "Elsewhere")
    fork.persist()
    picked = store.create(id="picked")
    picked.cherry_pick("root", 0)
    picked.persist()
    store.tags.add("v1", "root@2")
    store.notes.add("root", 1, "odd answer", by="carol")
    store.redact("root", 4, reason="private")
    gone = store.create(id="gone")
    gone.append("user", "x")
    gone.persist()
    store.delete("gone")
    ledger = Ledger(store)
    ledger.receive("fork", "m1", source="chat", event_id="e1", channel="telegram", peer="5")
    ledger.process("fork", lambda running: "an answer")
    ledger.receive("fork", "m2")
    router = Router(store)
    router.route(Inbound(channel="telegram", peer="5", content="hi"))
    router.patch("agent:main:main", {"thinkingLevel": "high", "label": "desk"})
    router.alias("agent:main:desk", "agent:main:main")
    Runs(store, agent=lambda *_: "done").spawn("agent:main:main", "Look", label="trains")
    tree = Tree(store)
    main = tree.main("planner", "chat", id="main", system="Be brief.")
    main.spawn("worker", "Count", id="count").complete("three")
    main.spawn("branch", "Find", "All of it", id="find").cancel("enough")


def said(turn: Turn) -> list[Any]:
    """All that a turn says, of which much is read only when it is asked for."""
    calls = [call.input for call in turn.tool_calls]
    return [turn.content, turn.meta, turn.usage, calls, turn.tool_results, turn.time, turn.author, turn.source_ids]


def reads_of(store: Repository, s: str) -> list[Read]:
    """Every way to read one session."""
    ledger, tree = Ledger(store), Tree(store)
    return [
        ("load", lambda: [said(turn) for turn in store.load(s).turns]),
        ("lazy", lambda: [each.content for each in store.load(s, max_tokens=5).turns]),
        ("replay", lambda: store.replay(s)),
        ("replay to", lambda: store.replay(s, up_to_index=1)),
        ("system", lambda: store.load(s).system),
        ("record", lambda: (store.record(s).meta, store.record(s).model_dump_json(), store.branches(s))),
        ("context", lambda: store.context(s, max_tokens=1000)),
        ("verify one", lambda: store.verify(s)),
        ("blame", lambda: store.load(s).blame()),
        ("inbox", lambda: (ledger.inbox(s), ledger.due(s), ledger.head(s), ledger.head_moves(s))),
        ("events", lambda: [ledger.content(each) for each in ledger.events(s)]),
        ("exchanges", lambda: (ledger.exchanges(s), ledger.deliveries(s))),
        ("tree of", lambda: (tree.get(s).state, tree.get(s).depth, tree.get(s).task, tree.get(s).context_summary)),
        ("tree past", lambda: (tree.get(s).history, tree.get(s).result)),
        ("tree below", lambda: (tree.get(s).children(), tree.get(s).results(), tree.get(s).cancelled)),
        ("notes", lambda: (store.notes.list(s), store.tags.list(s))),
        ("pi", lambda: export_session(store, s, "pi", io.BytesIO())),
        ("nquads", lambda: export_session(store, s, "nquads", io.BytesIO())),
        ("entry", lambda: store.reader.entry(s)),
    ]  # fmt: skip


def reads(store: Repository) -> list[Read]:
    """Every way to read a store."""
    router, runs, tree = Router(store), Runs(store), Tree(store)
    key = "agent:main:main"
    found = [each for s in ("root", "fork", "main", "count") for each in reads_of(store, s)]
    found += [
        ("list", lambda: [record.model_dump() for record in store.list()]),
        ("list by", lambda: (store.list(principal="alice"), store.list(label="trip"), store.list(label="desk"))),
        ("resolve", lambda: (store.resolve("trip"), store.resolve("roo"))),
        ("diff", lambda: store.diff("root", "fork")),
        ("compare", lambda: store.compare("root", at=3, columns=["meta.k", "own_turns", "last_answer"])),
        ("search", lambda: (list(store.search("trip")), list(store.search(tool="ls")))),
        ("verify", store.verify),
        ("tags", lambda: (store.tags.list(), store.tags.get("v1"))),
        ("info", store.info),
        ("router", lambda: (router.list(), router.aliases(), router.moves())),
        ("router key", lambda: (router.session(key).turns, router.entry(key), router.sessions(key), router.check(key))),
        ("router history", lambda: (router.history(key, key), router.may_send(key), router.view(key))),
        ("runs", lambda: [run.model_dump() for run in runs.list()]),
        ("runs file", runs.export_file),
        ("runs of", lambda: (runs.list(session="main"), runs.session_of(key))),
        ("mains", lambda: (tree.mains(), tree.at_work("planner"))),
        ("deletions", lambda: store.query("deletions")),
    ]  # fmt: skip
    return found


def place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/trails/" in frame.filename]
    return " < ".join(
        f"{frame.filename.rpartition('/trails/')[2]}:{frame.name}:{frame.lineno}" for frame in frames[::-1][:4]
    )


def poisons(quads: list[Quad], chance: random.Random) -> list[tuple[list[Quad], list[Quad]]]:
    """What goes and what comes: each predicate of each kind of subject, with each value in its place, beside it, or gone."""
    kinds: dict[tuple[str, str], list[Quad]] = {}
    types = {(q.subject, q.graph_name): str(q.object) for q in quads if q.predicate == vocab.TYPE}
    for quad in quads:
        kinds.setdefault((types.get((quad.subject, quad.graph_name), ""), quad.predicate.value), []).append(quad)
    made: list[tuple[list[Quad], list[Quad]]] = []
    for alike in kinds.values():
        for value in VALUES:
            quad = chance.choice(alike)
            other = Quad(quad.subject, quad.predicate, value, quad.graph_name)
            made.append(([quad], [other]) if chance.random() < 0.7 else ([], [other]))
        quad = chance.choice(alike)
        made += [([quad], []), ([quad], [Quad(quad.subject, NamedNode("urn:odd"), quad.object, quad.graph_name)])]
        if isinstance(quad.graph_name, NamedNode):
            made.append(([quad], [Quad(quad.subject, quad.predicate, quad.object, DefaultGraph())]))
    return made


@pytest.mark.slow
def test_whatever_a_poisoned_store_is_asked_it_answers_or_raises_an_error_of_trails(size: Size) -> None:
    chance = random.Random(20261122)
    wrong: dict[str, str] = {}
    tried = refused = 0
    with trails.open(":memory:") as store:
        fill(store)
        assert store.verify().ok
        for name, read in reads(store):
            if not name.startswith(("tree", "resolve", "compare")):  # some ask for what is not there, and are told so
                read()
        cases = poisons(store.store.quads((None, None, None, None)), chance)
        for gone, come in cases if size == "long" else chance.sample(cases, {"quick": 40, "all": 120}[size]):
            try:
                store.store.commit(Change(add=come, remove=gone))
            except ValueError:  # the engine takes no such literal
                continue
            every = reads(store)
            for name, read in every if size == "long" else chance.sample(every, 12):
                tried += 1
                try:
                    read()
                except TrailsError:
                    refused += 1
                except Exception as error:  # noqa: BLE001 - any other error is what is looked for
                    told = f"{type(error).__name__} in {name}: {place(error)}: {str(error)[:80]}"
                    wrong.setdefault(told, str(come or gone)[:200])
            store.store.commit(Change(add=gone, remove=[quad for quad in come if quad not in gone]))
    assert not wrong, f"{len(wrong)} of {tried} reads: " + "\n".join(
        f"{told}: {quads}" for told, quads in list(wrong.items())[:40]
    )
    assert refused > tried // 200


def test_a_session_that_owns_no_turn_is_loaded_with_a_window_too(memory: Repository) -> None:
    memory.create(id="empty", system="Be brief").persist()
    assert list(memory.load("empty", max_tokens=100).turns) == []
    assert memory.context("empty", max_tokens=100).dropped == range(0)


def test_what_is_raised_for_a_poisoned_value_says_what_to_do(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("assistant", "x", usage={"input_tokens": 1})
    session.persist()
    [usage] = memory.store.quads((None, vocab.USAGE, None, None))
    broken = Quad(usage.subject, usage.predicate, Literal("{", datatype=vocab.JSON), usage.graph_name)
    memory.store.commit(Change(add=[broken], remove=[usage]))
    with pytest.raises(IntegrityError, match=r"values that Trails never writes .*`trails verify` names them"):
        memory.load("s").turns[0].usage  # noqa: B018 - it is read when it is asked for
