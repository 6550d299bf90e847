"""The owner of the disk rewrites all quads and appends any valid lines to the log: against a kept checkpoint each is found.

What the log lets change, and deletions and redactions, are no findings: they are told of as history.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import Repository
from trails.exchange.rdf_files import export_session, import_rdf
from trails.history import log_leaves as logbook
from trails.history.records import ledger_entries, subagent_runs
from trails.history.removal import deletion as removal
from trails.integrity import leaves
from trails.integrity.leaves import Kind, Leaf
from trails.integrity.signed_notes import new_key
from trails.model import iris
from trails.model.values import LogEvent
from trails.rdf import ledger_records, vocab
from trails.rdf import subagent_records as runentry
from trails.rdf.subagent_records import Run, RunContent
from trails.runtime.ledger import Ledger
from trails.store import Change

SIGNER, VERIFIER = new_key("example.com/trails")
MALLORY = NamedNode(iris.principal("mallory"))
MALLORY_IS = Quad(MALLORY, vocab.TYPE, vocab.PRINCIPAL, vocab.CATALOG)


def wrote(session: trails.Session, *texts: str) -> trails.Session:
    for text in texts:
        session.append("user", text)
    session.persist()
    return session


def findings(store: Repository, note: str) -> list[tuple[str, str | None]]:
    report = store.verify(checkpoint=note, verifiers=[VERIFIER])
    return [(finding.code, finding.session_id) for finding in report.findings]


def history(store: Repository, note: str) -> list[tuple[str, str, int]]:
    report = store.verify(checkpoint=note, verifiers=[VERIFIER])
    assert report.findings == ()
    return [(event.session_id, event.what, event.count) for event in report.history or ()]


def node(session_id: str) -> NamedNode:
    return NamedNode(iris.session(session_id))


def told(store: Repository, subject: NamedNode, predicate: NamedNode, graph: NamedNode = vocab.CATALOG) -> Quad:  # type: ignore[assignment] # the default graph
    [found] = store.store.quads((subject, predicate, None, graph))
    return found


def instead(quad: Quad, value: NamedNode | Literal) -> Quad:
    return Quad(quad.subject, quad.predicate, value, quad.graph_name)


def rewrite(store: Repository, old: Iterable[Quad], new: Iterable[Quad], *made: Leaf) -> None:
    """Do what an owner of the disk does: take quads out, put others in, and append lines to the log."""
    store.store.commit(Change(remove=list(old), add=list(new), leaves=list(made)))


def lines_of(store: Repository, session_id: str, *kinds: str) -> list[Leaf]:
    found = [leaves.parse_leaf(line)[0] for line in store.store.log.lines()]
    return [leaf for leaf in found if leaf.session_iri == iris.session(session_id) and leaf.kind in kinds]


def rest_leaf(store: Repository, session_id: str) -> Leaf:
    """The leaf that says that all that may change of a session is as it stands now."""
    return Leaf("change", iris.session(session_id), 0, logbook.row_of(store.store, session_id).rest or "-")


def first_leaf(store: Repository, session_id: str, kind: Kind, count: int = 0) -> Leaf:
    """The leaf that says that a session was made as it stands now."""
    return Leaf(kind, iris.session(session_id), count, logbook.row_of(store.store, session_id).made_with)


@pytest.fixture
def kept(memory: Repository) -> str:
    """A checkpoint of a store with alice's plan of two turns, its fork dinner at 1, and old, which she deleted."""
    plan = wrote(memory.create(id="plan", principal="alice", label="trip"), "pay 10", "done")
    wrote(plan.fork(at=1, id="dinner"), "a dinner")
    wrote(memory.create(id="old", principal="alice"), "gone")
    memory.delete("old", by="alice")
    return memory.proofs.checkpoint(SIGNER)


# --- transcripts


def evil_plan(other: Repository) -> list[Quad]:
    """A plan of the same length with another text, as it stands in a store of its own."""
    wrote(other.create(id="plan", principal="alice", label="trip"), "pay 10000", "done")
    graph, row = (None, None, None, node("plan")), (node("plan"), None, None, vocab.CATALOG)
    return [*other.store.quads(graph), *other.store.quads(row)]


def all_of(store: Repository, session_id: str) -> list[Quad]:
    graph, row = (None, None, None, node(session_id)), (node(session_id), None, None, vocab.CATALOG)
    return [*store.store.quads(graph), *store.store.quads(row)]


@pytest.mark.parametrize("deletes", [True, False])
def test_a_whole_transcript_that_was_rewritten_with_valid_lines_is_found(
    memory: Repository, kept: str, deletes: bool
) -> None:
    memory.delete("dinner")
    kept = memory.proofs.checkpoint(SIGNER)
    with trails.open(":memory:") as other:
        evil = evil_plan(other)
        made = lines_of(other, "plan", "create", "change", "turns")
    gone = [Leaf("delete", iris.session("plan"), 0, "~" + "ab" * 32)] if deletes else []
    rewrite(memory, all_of(memory, "plan"), evil, *gone, *made)
    assert ("logged-twice", "plan") in findings(memory, kept)


def test_a_deleted_session_that_comes_back_as_it_was_made_but_with_other_turns_is_found(memory: Repository) -> None:
    wrote(memory.create(id="plan", principal="alice"), "pay 10", "done")
    kept = memory.proofs.checkpoint(SIGNER)
    [first] = lines_of(memory, "plan", "create")
    with trails.open(":memory:") as other:
        turns = [quad for quad in evil_plan(other) if quad.graph_name == node("plan")]
        [head] = lines_of(other, "plan", "turns")
    before = memory.store.quads((None, None, None, node("plan")))
    rewrite(memory, before, turns, Leaf("delete", first.session_iri, 0, "~" + "ab" * 32), first, head)
    assert findings(memory, kept) == [("logged-twice", "plan")]
    assert "came back with other turns" in memory.verify(checkpoint=kept, verifiers=[VERIFIER]).findings[0].message
    assert findings(memory, memory.proofs.checkpoint(SIGNER)) == [("logged-twice", "plan")]


def test_a_deleted_session_that_comes_back_from_its_own_export_is_history(memory: Repository, kept: str) -> None:
    file = io.BytesIO()
    export_session(memory, "plan", "nquads", file)
    memory.delete("plan", children="detach")
    import_rdf(memory, file.getvalue(), "nquads", restore=True)
    assert [turn.content for turn in memory.load("plan").turns] == ["pay 10", "done"]
    assert history(memory, kept) == [("dinner", "detached", 1), ("plan", "deleted", 1), ("plan", "returned", 1)]


def test_an_import_refuses_to_bring_back_a_deleted_session_with_other_turns_or_another_principal(
    memory: Repository,
) -> None:
    wrote(memory.create(id="plan", principal="alice"), "pay 10", "done")
    wrote(memory.create(id="trip", principal="alice"), "pay 10")
    files = []
    with trails.open(":memory:") as other:
        wrote(other.create(id="plan", principal="alice"), "pay 10000", "done")
        wrote(other.create(id="trip", principal="mallory"), "pay 10")
        for name in ("plan", "trip"):
            files.append(io.BytesIO())
            export_session(other, name, "nquads", files[-1])
    memory.delete("plan")
    memory.delete("trip")
    for file in files:
        report = import_rdf(memory, file.getvalue(), "nquads", restore=True)
        assert len(report.changed) == 1
        assert "was deleted here" in report.problems[0].reason
    assert "plan" not in memory
    assert memory.verify().ok


def test_turns_that_were_cut_off_or_that_a_shorter_head_was_logged_for_are_found(memory: Repository, kept: str) -> None:
    memory.delete("dinner")
    kept = memory.proofs.checkpoint(SIGNER)
    graph = node("plan")
    [last] = memory.store.quads((None, vocab.INDEX, Literal(1), graph))
    [first] = memory.store.quads((None, vocab.INDEX, Literal(0), graph))
    subject = NamedNode(str(last.subject.value))  # type: ignore[union-attr] # an IRI
    head = told(memory, NamedNode(str(first.subject.value)), vocab.DIGEST, graph).object  # type: ignore[union-attr] # an IRI
    short = Leaf("turns", graph.value, 1, str(head.value))  # type: ignore[union-attr] # a literal
    rewrite(memory, memory.store.quads((subject, None, None, graph)), [], short)
    assert findings(memory, kept) == [("rolled-back", "plan")]


def test_a_session_that_was_taken_out_without_a_deletion_is_found(memory: Repository, kept: str) -> None:
    rewrite(memory, all_of(memory, "dinner"), [])
    assert findings(memory, kept) == [("rolled-back", "dinner")]


# --- what a session was made with


WITH: dict[str, tuple[NamedNode, NamedNode | Literal]] = {
    "principal": (vocab.ATTRIBUTED_TO, MALLORY),
    "creation time": (vocab.TIME, Literal("2020-01-01T00:00:00Z", datatype=vocab.DATE_TIME)),
    "branch": (vocab.BRANCH, Literal("fork-00ff00ff")),
}


def reborn(memory: Repository, quad: Quad, value: NamedNode | Literal, how: str) -> None:
    """Alter something that a plan was made with, and append what lines may make that look right."""
    session_id = iris.session_id(str(quad.subject.value))  # type: ignore[union-attr] # an IRI
    rewrite(memory, [quad], [instead(quad, value), MALLORY_IS])
    kind: Kind = "fork" if session_id == "dinner" else "create"
    change, first = rest_leaf(memory, session_id), first_leaf(memory, session_id, kind, 1 if kind == "fork" else 0)
    turns = lines_of(memory, session_id, "turns")
    gone = Leaf("delete", iris.session(session_id), 0, "~" + "ab" * 32)
    made = {"change": [change], "again": [first, change], "return": [gone, first, change, *turns]}[how]
    rewrite(memory, [], [], *made)


@pytest.mark.parametrize("how", ["change", "again", "return"])
@pytest.mark.parametrize("what", WITH)
def test_what_a_session_was_made_with_cannot_be_rewritten(memory: Repository, kept: str, what: str, how: str) -> None:
    predicate, value = WITH[what]
    reborn(memory, told(memory, node("plan"), predicate), value, how)
    found = findings(memory, kept)
    assert ("row-altered" if how == "change" else "logged-twice", "plan") in found


@pytest.mark.parametrize("how", ["change", "again", "return"])
def test_a_fork_point_cannot_be_rewritten(memory: Repository, kept: str, how: str) -> None:
    reborn(memory, told(memory, node("dinner"), vocab.FORKED_AT_INDEX), Literal(0), how)
    assert {("row-altered" if how == "change" else "logged-twice", "dinner")} <= set(findings(memory, kept))


def test_a_detach_hides_no_other_principal_and_is_not_undone_to_another_parent(memory: Repository, kept: str) -> None:
    memory.load("dinner").detach()
    assert history(memory, kept) == [("dinner", "detached", 1)]
    kept = memory.proofs.checkpoint(SIGNER)
    old = told(memory, node("dinner"), vocab.ATTRIBUTED_TO)
    rewrite(memory, [old], [instead(old, MALLORY), MALLORY_IS])
    rewrite(memory, [], [], Leaf("detach", iris.session("dinner"), 1, rest_leaf(memory, "dinner").digest))
    assert ("row-altered", "dinner") in findings(memory, kept)
    rewrite(memory, [instead(old, MALLORY)], [old])
    parent = Quad(node("dinner"), vocab.PARENT_SESSION, node("plan"), vocab.CATALOG)
    at = Quad(node("dinner"), vocab.FORKED_AT_INDEX, Literal(0), vocab.CATALOG)
    rewrite(memory, [], [parent, at])
    rewrite(memory, [], [], first_leaf(memory, "dinner", "fork"), rest_leaf(memory, "dinner"))
    assert ("logged-twice", "dinner") in findings(memory, kept)


def test_salts_that_were_taken_out_make_no_session_one_of_an_older_version(memory: Repository, kept: str) -> None:
    old = told(memory, node("plan"), vocab.ATTRIBUTED_TO)
    salts = [quad for quad in all_of(memory, "plan") if quad.predicate in (vocab.LEAF_SALT, vocab.ROW_SALT)]
    assert len(salts) == 2
    rewrite(memory, [old, *salts], [instead(old, MALLORY), MALLORY_IS])
    whole = logbook.row_of(memory.store, "plan").whole
    for kind in ("change", "create"):
        rewrite(memory, [], [], Leaf(kind, iris.session("plan"), 0, whole))
        assert ("logged-twice", "plan") in findings(memory, kept)


# --- deletions and redactions


@pytest.mark.parametrize("how", ["delete", "return"])
def test_who_deleted_a_session_cannot_be_rewritten_but_by_a_second_deletion_that_is_told(
    memory: Repository, kept: str, how: str
) -> None:
    deletion = NamedNode(iris.deletion(iris.session("old")))
    old = told(memory, deletion, vocab.ASSOCIATED_WITH)
    rewrite(memory, [old], [instead(old, MALLORY), MALLORY_IS])
    gone = first_leaf(memory, "old", "delete")
    if how == "delete":
        rewrite(memory, [], [], gone)
        assert findings(memory, kept) == [("logged-twice", "old"), ("row-altered", "old")]
    else:
        rewrite(memory, [], [], *lines_of(memory, "old", "create"), gone)
        assert history(memory, kept) == [("old", "deleted", 1), ("old", "returned", 1)]


@pytest.mark.parametrize("predicate", [vocab.ASSOCIATED_WITH, vocab.REASON, vocab.ENDED_AT])
def test_a_redaction_cannot_be_rewritten(memory: Repository, predicate: NamedNode) -> None:
    turn = wrote(memory.create(id="plan"), "secret").turns[0]
    memory.redact("plan", 0, by="alice", reason="asked for")
    kept = memory.proofs.checkpoint(SIGNER)
    subject = NamedNode(iris.turn_deletion(turn.iri))
    old = told(memory, subject, predicate)
    other: dict[NamedNode, NamedNode | Literal] = {vocab.ASSOCIATED_WITH: MALLORY, vocab.REASON: Literal("no reason")}
    value = other.get(predicate, Literal("2020-01-01T00:00:00Z", datatype=vocab.DATE_TIME))
    rewrite(memory, [old], [instead(old, value), MALLORY_IS])
    again = logbook.redaction_leaf(subject, memory.store.quads((subject, None, None, vocab.CATALOG)))
    rewrite(memory, [], [], again)
    assert findings(memory, kept) == [("row-altered", "plan")]


# --- ledgers and runs


def altered_entry(store: Repository, number: int, predicate: NamedNode, value: NamedNode | Literal) -> None:
    """Alter an entry of the plan's ledger and append the leaves that an entry like that would have."""
    graph = ledger_records.ledger_graph("plan")
    old = told(store, NamedNode(iris.ledger_entry(iris.session("plan"), number)), predicate, graph)
    rewrite(store, [old], [instead(old, value), MALLORY_IS])
    [entry] = [each for each in ledger_entries.read_entries(store.store, "plan") if each.number == number]
    rewrite(store, [], [], *ledger_records.entry_leaves(entry))


@pytest.fixture
def ledger(memory: Repository) -> str:
    """A checkpoint of a store whose plan has a received message (1), its exchange (2) and the answer (3)."""
    memory.create(id="plan", principal="alice").persist()
    made = Ledger(memory)
    made.receive("plan", "pay 10", author="alice", channel="mail")
    made.process("plan", lambda _: "done")
    return memory.proofs.checkpoint(SIGNER)


ENTRIES: dict[str, tuple[int, NamedNode, NamedNode | Literal]] = {
    "a received message's author": (1, vocab.ATTRIBUTED_TO, MALLORY),
    "a received message's channel": (1, vocab.CHANNEL, Literal("phone")),
    "an exchange's head": (2, vocab.HEAD_AFTER, Literal("ab" * 32)),
    "an answer's channel": (3, vocab.CHANNEL, Literal("phone")),
}


@pytest.mark.parametrize("what", ENTRIES)
def test_a_message_and_what_came_of_it_cannot_be_rewritten(memory: Repository, ledger: str, what: str) -> None:
    altered_entry(memory, *ENTRIES[what])
    assert ("logged-twice", "plan") in findings(memory, ledger)


def test_a_message_is_not_rewritten_with_a_deletion_and_a_return_either(memory: Repository, ledger: str) -> None:
    made = lines_of(memory, "plan", "create", "turns", "received", "said", "completed", "sent")
    rewrite(memory, [], [], Leaf("delete", iris.session("plan"), 0, "~" + "ab" * 32), *made)
    assert findings(memory, ledger) == []
    altered_entry(memory, 1, vocab.ATTRIBUTED_TO, MALLORY)
    assert ("logged-twice", "plan") in findings(memory, ledger)


def test_the_turn_that_says_a_message_cannot_be_another_one_without_a_word(memory: Repository, ledger: str) -> None:
    graph = ledger_records.ledger_graph("plan")
    old = told(memory, NamedNode(iris.ledger_entry(iris.session("plan"), 1)), vocab.RECORDED_AS, graph)
    answer = memory.load("plan").turns[1]
    rewrite(memory, [old], [instead(old, NamedNode(answer.iri))])
    assert findings(memory, ledger) == [("row-altered", "plan")]


def test_a_run_s_task_cannot_be_rewritten(memory: Repository) -> None:
    run = Run(
        run_id="r1", child_session="plan", said=RunContent.of("buy milk"), created=datetime(2026, 3, 1, tzinfo=UTC)
    )
    memory.create(id="plan").persist()
    subagent_runs.register_run(run).commit(memory.store)
    kept = memory.proofs.checkpoint(SIGNER)
    stored = subagent_runs.read_run(memory.store, "r1")
    assert stored is not None
    fields = {"said": stored.said.with_error("no milk"), "ended": datetime(2026, 3, 2, tzinfo=UTC)}
    ended, change = subagent_runs.change_run(stored, stored.model_copy(update=fields))
    change.commit(memory.store)
    assert history(memory, kept) == [("plan", "run", 1)]
    evil = ended.model_copy(update={"said": RunContent.of("buy wine", "no milk"), "revision": 3})
    sealed = evil.with_task_sealed()
    for forged, again in ((sealed, False), (evil.model_copy(update={"revision": 4}), False), (sealed, True)):
        now = subagent_runs.read_run(memory.store, "r1")
        assert now is not None
        before, after = set(runentry.run_quads(now)), set(runentry.run_quads(forged))
        made = [runentry.task_leaf(forged), runentry.run_leaf(forged)] if again else [runentry.run_leaf(forged)]
        rewrite(memory, before - after, after - before, *made)
        assert findings(memory, kept) != []


def test_a_run_that_was_taken_out_stays_so_and_when_cannot_be_rewritten(memory: Repository) -> None:
    run = Run(run_id="r1", child_session="plan", said=RunContent.of("buy milk"))
    memory.create(id="plan").persist()
    subagent_runs.register_run(run).commit(memory.store)
    stored = subagent_runs.read_run(memory.store, "r1")
    assert stored is not None
    subagent_runs.remove_run(stored, memory.workspace.deed("dave")).commit(memory.store)
    kept = memory.proofs.checkpoint(SIGNER)
    assert history(memory, kept) == []
    subject = NamedNode(iris.run_removal(run.iri))
    old = told(memory, subject, vocab.ENDED_AT)
    rewrite(memory, [old], [instead(old, Literal("2020-01-01T00:00:00Z", datatype=vocab.DATE_TIME))])
    digest = leaves.row_digest(memory.store.quads((subject, None, None, vocab.CATALOG)))
    rewrite(memory, [], [], Leaf("remove", run.iri, 3, digest))
    assert ("logged-twice", None) in findings(memory, kept)


# --- what may change


def test_what_may_change_is_told_with_how_often_and_deletions_and_redactions_with_who_and_when(
    memory: Repository, kept: str
) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    memory.set_label("plan", "journey")
    memory.set_label("plan", None)
    memory.tags.add("v1", "plan@1")
    memory.create(id="new", label="nobody covered it").persist()
    memory.redact("plan", 1, by="bob")
    memory.delete("dinner", by="carol")
    report = memory.verify(checkpoint=kept, verifiers=[VERIFIER])
    assert report.ok
    shown = [(e.session_id, e.what, e.count, e.index, e.by) for e in report.history or ()]
    assert shown == [
        ("dinner", "deleted", 1, None, "carol"),
        ("plan", "changed", 3, None, None),
        ("plan", "redacted", 1, 1, "bob"),
    ]
    times = [event.time for event in report.history or () if event.time is not None]
    assert len(times) == 2
    assert all(before <= time <= datetime.now(UTC) for time in times)
    alone = memory.verify("plan", checkpoint=kept, verifiers=[VERIFIER])
    assert [event.what for event in alone.history or ()] == ["changed", "redacted"]
    assert memory.verify().history is None
    assert report.to_dict()["history"][2]["time"] == times[1].isoformat()


def test_nothing_is_told_where_nothing_that_is_covered_changed(memory: Repository, kept: str) -> None:
    wrote(memory.load("plan"), "more")
    wrote(memory.load("plan").fork(id="late"), "x")
    assert history(memory, kept) == []
    assert isinstance(memory.verify(checkpoint=kept, verifiers=[VERIFIER]).history, tuple)


Act = Callable[[Repository], object]


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.load("plan").set_label("x"),
        lambda store: store.load("plan").flatten(id="flat"),
        lambda store: store.load("dinner").detach(),
        lambda store: store.delete("plan", children="cascade"),
        lambda store: removal.sweep_pending(store.store),
        lambda store: store.notes.add("plan", 0, "true?"),
    ],
    ids=["label", "flatten", "detach", "delete", "sweep", "note"],
)
def test_honest_use_is_never_a_finding(memory: Repository, kept: str, act: Act) -> None:
    act(memory)
    assert findings(memory, kept) == []


def test_an_event_of_the_history_is_plain_json() -> None:
    event = LogEvent(session_id="a", what="changed", count=2)
    assert event.to_dict() == {
        "session_id": "a", "what": "changed", "count": 2, "index": None, "by": None, "time": None
    }  # fmt: skip
