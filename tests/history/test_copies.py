"""A copied turn keeps what was recorded of it, and nothing is on record that happened but once: calls, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import Repository
from trails.history.records import activities
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.activity_records import Copying
from trails.store import Change

CALLS = [{"id": "c1", "name": "pay", "arguments": {"amount": 5}}]


def paid(store: Repository, session: str = "plan", principal: str = "alice") -> None:
    """One question, one call of a tool by a model, its answer, and what the model made of it: two calls of a model."""
    made = store.create(id=session, principal=principal, agent="planner")
    made.append("user", "Pay the bill")
    made.append(
        "assistant",
        "I pay.",
        model="m-1",
        usage={"input_tokens": 10, "output_tokens": 2, "cost": 1.5},
        tool_calls=CALLS,
    )
    made.append("tool", "Done", tool_call_id="c1")
    made.append("assistant", "Paid.", model="m-1", usage={"input_tokens": 20, "output_tokens": 3, "cost": 0.25})
    made.persist()


def detached(store: Repository) -> str:
    store.load("plan").fork(id="copy", principal="bob").persist()
    store.detach("copy", by="carol")
    return "copy"


def flat(store: Repository) -> str:
    return store.flatten("plan", id="copy", by="carol").id


def picked(store: Repository) -> str:
    made = store.create(id="copy", principal="bob")
    made.cherry_pick("plan", [0, 1, 2, 3], by="carol")
    made.persist()
    return made.id


def picked_from_a_copy(store: Repository) -> str:
    store.flatten("plan", id="between")
    made = store.create(id="copy", principal="bob")
    made.cherry_pick("between", [0, 1, 2, 3], by="carol")
    made.persist()
    store.delete("between")
    return made.id


WAYS: list[Callable[[Repository], str]] = [detached, flat, picked, picked_from_a_copy]


def of_type(store: Repository, kind: NamedNode) -> int:
    return len(store.store.quads((None, vocab.TYPE, kind, None)))


def rows(store: Repository, name: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in store.query(name).to_dicts()]  # type: ignore[union-attr] # a SELECT


BILL = [("urn:trails:principal:alice", "urn:trails:agent:planner", "m-1", 2, 0, Decimal("1.75"))]
BY_SESSION = [("urn:trails:session:plan", 2, 0, 0, 30, 5, None, None, Decimal("1.75"))]
BY_MODEL = [("m-1", 2, 0, 0, 30, 5, None, None, Decimal("1.75"))]


@pytest.mark.parametrize("copy", WAYS)
def test_a_copy_calls_no_model_and_no_tool_again(store: Repository, copy: Callable[[Repository], str]) -> None:
    paid(store)
    copy(store)
    assert (of_type(store, vocab.MODEL_CALL), of_type(store, vocab.TOOL_CALL)) == (2, 1)
    assert store.verify().findings == ()


@pytest.mark.parametrize("copy", WAYS)
def test_a_copied_turn_keeps_its_facts_and_says_what_it_repeats_and_by_what_it_came(
    store: Repository, copy: Callable[[Repository], str]
) -> None:
    paid(store)
    before = [(t.role, t.content, t.model, t.usage, t.tool_calls, t.tool_results) for t in store.load("plan").turns]
    name = copy(store)
    assert [
        (t.role, t.content, t.model, t.usage, t.tool_calls, t.tool_results) for t in store.load(name).turns
    ] == before
    graph = NamedNode(iris.session(name))
    [done] = [act for act in activities.read_activities(store.store, name) if isinstance(act, Copying)]
    assert done.by_iri == "urn:trails:principal:carol"
    for turn in store.load(name).turns:
        said = {q.predicate for q in store.store.quads((NamedNode(turn.iri), None, None, graph))}
        assert said & {vocab.ALTERNATE_OF, vocab.QUOTED_FROM}
        made = store.store.quads((NamedNode(turn.iri), vocab.GENERATED_BY, None, graph))
        assert [quad.object for quad in made] == [NamedNode(done.iri)]


@pytest.mark.parametrize("copy", WAYS)
def test_a_bill_is_the_same_after_a_copy_and_after_the_original_or_the_copy_is_deleted(
    store: Repository, copy: Callable[[Repository], str]
) -> None:
    paid(store)
    name = copy(store)
    for gone in ((), ("plan",)):
        for each in gone:
            store.delete(each)
        assert (rows(store, "cost"), rows(store, "token-usage-by-session")) == (BILL, BY_SESSION)
        assert rows(store, "token-usage-by-model") == BY_MODEL
    again = store.flatten(name, id="again")
    store.delete(name)
    assert (rows(store, "cost"), rows(store, "token-usage-by-session")) == (BILL, BY_SESSION)
    assert again.head == store.load("again").head


def test_what_a_detached_fork_was_a_fork_of_is_known_when_its_parent_is_gone(store: Repository) -> None:
    paid(store)
    detached(store)
    store.delete("plan")
    [done] = activities.read_activities(store.store, "copy")
    assert isinstance(done, Copying)
    assert (done.action, done.was_fork_of, done.was_forked_at, done.used) == ("detach", "plan", 4, ("plan",))
    assert store.verify().findings == ()


@pytest.mark.parametrize("copy", WAYS)
@pytest.mark.parametrize("predicate", [vocab.CALL_DIGEST, vocab.CALLED_FOR, vocab.ASSOCIATED_WITH, vocab.KEPT_WITH])
def test_what_stands_beside_a_copy_is_logged(
    memory: Repository, copy: Callable[[Repository], str], predicate: NamedNode
) -> None:
    paid(memory)
    name = copy(memory)
    graph = vocab.CATALOG if predicate == vocab.ASSOCIATED_WITH else NamedNode(iris.session(name))
    old = memory.store.quads((None, predicate, None, graph))[0]
    value = Literal("00") if isinstance(old.object, Literal) else NamedNode("urn:trails:principal:mallory")
    memory.store.commit(Change(remove=[old], add=[Quad(old.subject, predicate, value, old.graph_name)]))
    assert memory.verify().findings


@pytest.mark.parametrize("copy", WAYS)
def test_no_other_turn_is_said_to_come_by_a_copying(memory: Repository, copy: Callable[[Repository], str]) -> None:
    paid(memory)
    name = copy(memory)
    (act,) = {
        quad.object for quad in memory.store.quads((None, vocab.GENERATED_BY, None, NamedNode(iris.session(name))))
    }
    assert isinstance(act, NamedNode)
    plan = NamedNode(memory.load("plan").turns[0].iri)
    copied = NamedNode(memory.load(name).turns[0].iri)
    invented = NamedNode(iris.act(iris.session(name), "0123456789abcdef"))
    nothing = NamedNode(f"{iris.session(name)}/0-0123456789abcdef")
    for turn, by in ((plan, act), (copied, invented), (nothing, act)):
        forged = Quad(turn, vocab.GENERATED_BY, by, NamedNode(iris.session(iris.session_id(turn.value))))
        memory.store.commit(Change(add=[forged]))
        assert memory.verify().findings, forged
        memory.store.commit(Change(remove=[forged]))
        assert memory.verify().ok


def test_an_export_brings_the_copying_along_and_comes_back_the_same() -> None:
    import io

    from trails.exchange.rdf_files import export_session, import_rdf

    with trails.open(":memory:") as store, trails.open(":memory:") as other:
        paid(store)
        flat(store)
        out, back = io.BytesIO(), io.BytesIO()
        export_session(store, "copy", "nquads", out)
        import_rdf(other, out.getvalue(), "nquads")
        export_session(other, "copy", "nquads", back)
        assert back.getvalue() == out.getvalue()
        assert other.verify().findings == ()
        made = [act.by_iri for act in activities.read_activities(other.store, "copy") if isinstance(act, Copying)]
        assert made == ["urn:trails:principal:carol"]
        assert rows(other, "cost") == BILL
