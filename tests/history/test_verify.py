"""`verify` is silent about a sound store and names what was altered in any other."""

from __future__ import annotations

import random

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from tests.support.machines import Size
from trails import Repository
from trails.model import iris
from trails.rdf import vocab
from trails.store import Change


def _sound(store: Repository) -> None:
    """Fill a store with everything that a session can hold."""
    root = store.create(id="root", principal="alice", agent="planner", system="Be brief")
    root.append("user", "Plan a trip")
    root.append("assistant", "Where?", model="m", usage={"input_tokens": 2, "output_tokens": 1}, meta={"k": [1]})
    root.append("assistant", [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": 1}}])
    root.append("tool", [{"type": "tool_result", "tool_use_id": "t1", "content": "files"}])
    root.persist()
    fork = root.fork(at=3, id="fork")
    fork.append("tool", "other files", tool_call_id="t1", is_error=True)
    fork.persist()
    deep = fork.fork(at=2, id="deep")
    deep.append("user", "Elsewhere")
    deep.persist()
    plain = store.create(id="plain")
    for number in range(5):
        plain.append("user", f"turn {number}")
    plain.persist()


def test_a_sound_store_has_no_findings_and_its_turns_are_counted(store: Repository) -> None:
    _sound(store)
    report = store.verify()
    assert (report.ok, report.sessions, report.turns) == (True, 4, 11)
    alone = store.verify("deep")
    assert (alone.ok, alone.sessions, alone.turns) == (True, 3, 6)


def test_what_was_held_against_what_is_counted(store: Repository) -> None:
    plan = store.create(id="plan", principal="alice", agent="planner")
    plan.append("user", "hi")
    plan.append("assistant", "yes")
    plan.persist()
    other = plan.fork(at=1, id="other", principal="bob")
    other.append("assistant", "no")
    other.persist()
    whole = store.verify()
    assert (whole.sessions, whole.turns) == (2, 3)
    assert whole.records == 6  # two sessions, alice and bob, the planner, and an agent that is not known
    assert whole.log_lines == 4  # each session's row and its turns
    assert (store.verify("other").records, store.verify("other").log_lines) == (0, 4)


def _altered(quad: Quad, chance: random.Random) -> Quad:
    if isinstance(quad.object, Literal):
        value = Literal(quad.object.value + chance.choice("19"), datatype=quad.object.datatype)
    else:
        value = NamedNode(quad.object.value + "x")  # type: ignore[assignment,union-attr] # an IRI
    return Quad(quad.subject, quad.predicate, value, quad.graph_name)


def _of_another_type(quad: Quad) -> Quad:
    """Return a quad whose object reads the same and is something else: another datatype, or a literal for an IRI."""
    text = str(getattr(quad.object, "value", quad.object))
    return Quad(quad.subject, quad.predicate, Literal(text, datatype=NamedNode("urn:example:type")), quad.graph_name)


def test_no_quad_of_turns_or_catalog_can_be_altered_removed_or_added_unnoticed(memory: Repository, size: Size) -> None:
    _sound(memory)
    memory.load("deep").flatten(id="flat", label="a copy")
    memory.load("fork").detach()
    memory.delete("deep")
    chance = random.Random(20261121)
    quads = memory.store.quads((None, None, None, None))
    assert len(quads) > 200
    for quad in quads if size == "long" else chance.sample(quads, 12 if size == "quick" else 80):
        for change in (
            Change(remove=[quad]),
            Change(add=[_altered(quad, chance)], remove=[quad]),
            Change(add=[_altered(quad, chance)]),
            Change(add=[_of_another_type(quad)], remove=[quad]),
        ):
            memory.store.commit(change)
            assert not memory.verify().ok, f"unnoticed: {change}"
            memory.store.commit(Change(add=change.remove, remove=change.add))
    assert memory.verify().ok


def test_a_turn_moved_to_another_index_and_two_turns_exchanged_are_noticed(memory: Repository) -> None:
    _sound(memory)
    graph = NamedNode(iris.session("plain"))
    first, second = (memory.store.quads((None, vocab.INDEX, Literal(n), graph))[0] for n in (1, 2))
    swapped = [
        Quad(first.subject, vocab.INDEX, Literal(2), graph),
        Quad(second.subject, vocab.INDEX, Literal(1), graph),
    ]
    memory.store.commit(Change(add=swapped, remove=[first, second]))
    bad = memory.verify().findings
    assert ("digest-mismatch", "plain", 1) in {(f.code, f.session_id, f.index) for f in bad}


def test_the_first_bad_turn_of_a_session_is_named_first(store: Repository) -> None:
    _sound(store)
    graph = NamedNode(iris.session("plain"))
    for index in (3, 1):
        [found] = store.store.quads((None, vocab.INDEX, Literal(index), graph))
        [role] = store.store.quads((found.subject, vocab.ROLE, None, graph))  # type: ignore[arg-type] # an IRI
        store.store.commit(Change(add=[Quad(role.subject, vocab.ROLE, Literal("robot"), graph)], remove=[role]))
    findings = [f for f in store.verify("plain").findings if f.code == "digest-mismatch"]
    assert [(f.session_id, f.index) for f in findings] == [("plain", 1), ("plain", 3)]
    assert "turn 1 was altered" in findings[0].message


@pytest.mark.parametrize(
    "stray",
    [
        Quad(NamedNode("urn:x"), NamedNode("urn:p"), Literal("v"), NamedNode("urn:some:graph")),
        Quad(NamedNode("urn:x"), NamedNode("urn:p"), Literal("v"), vocab.CATALOG),
        Quad(NamedNode("urn:x"), NamedNode("urn:p"), Literal("v"), NamedNode(iris.session("plain"))),
        Quad(NamedNode(iris.session("plain")), NamedNode("urn:p"), Literal("v"), vocab.CATALOG),
        Quad(NamedNode(iris.session("ghost")), vocab.INDEX, Literal(1), NamedNode(iris.session("ghost"))),
    ],
    ids=["graph", "catalog", "session graph", "row", "ghost"],
)
def test_a_quad_that_belongs_to_nothing_is_found_wherever_it_is(store: Repository, stray: Quad) -> None:
    _sound(store)
    store.store.commit(Change(add=[stray]))
    report = store.verify()
    assert not report.ok
    store.store.commit(Change(remove=[stray]))
    assert store.verify().ok


def test_an_altered_system_prompt_is_noticed(store: Repository) -> None:
    _sound(store)
    prompt = NamedNode(iris.system_prompt(iris.session("root"), 1))
    [text] = store.store.quads((prompt, vocab.VALUE, None, vocab.CATALOG))
    store.store.commit(Change(add=[Quad(prompt, vocab.VALUE, Literal("Be evil"), vocab.CATALOG)], remove=[text]))
    assert {f.code for f in store.verify().findings} == {"digest-mismatch", "row-altered"}


@pytest.mark.parametrize("author", ["urn:trails:principal:al%69ce", "principal:alice"])
def test_an_author_under_another_iri_that_means_the_same_name_is_noticed(store: Repository, author: str) -> None:
    """A digest covers the name. A query for what alice wrote goes by the IRI, and would miss the turn."""
    _sound(store)
    [first, *_] = store.store.quads((None, vocab.ATTRIBUTED_TO, None, NamedNode(iris.session("root"))))
    renamed = Quad(first.subject, first.predicate, NamedNode(author), first.graph_name)
    assert store.store.commit(Change(add=[renamed], remove=[first])).written
    assert {finding.code for finding in store.verify("root").findings} >= {"wrong-iri"}
