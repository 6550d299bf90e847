"""A store as PROV: what Trails records is valid, and what is put into a store by hand and cannot be is found."""

from __future__ import annotations

import pytest
from pyoxigraph import NamedNode, Quad

from tests.support.nine_sessions import fill
from trails import Repository
from trails.provenance import Statement, validate
from trails.provenance.rdf_mapping import recorded_statements
from trails.rdf import vocab
from trails.store.contract import Change


def test_a_store_with_forks_tools_summaries_and_deletions_is_valid(store: Repository) -> None:
    fill(store)
    store.delete("solo", children="cascade")
    verdict = validate(store)
    assert list(verdict.findings) == []
    assert verdict.statements > 50


def test_an_empty_store_is_valid(store: Repository) -> None:
    assert validate(store).to_dict() == {"valid": True, "statements": 0, "bundles": 0, "findings": [], "timed": None}


def test_a_model_call_is_an_activity_that_generated_its_turn_at_its_time(store: Repository) -> None:
    session = store.create(id="s", principal="alice", agent="planner")
    turn = session.append("assistant", "Hello", model="m-1")
    session.persist()
    said = recorded_statements(store.store).bundles[0].statements
    stored = session.turns[0]
    call = f"{stored.iri}/model"
    assert stored.time is not None
    assert ("activity", call, (None, None)) in [each[:3] for each in said]
    (generated,) = [each for each in said if each.kind == "wasGeneratedBy" and each.arguments[0] == stored.iri]
    assert generated.arguments[:2] == (stored.iri, call)
    assert Statement("wasAttributedTo", None, (stored.iri, "urn:trails:agent:planner")) in said
    assert turn.digest == stored.digest


def test_turns_of_two_sessions_that_come_from_each_other_are_found(store: Repository) -> None:
    iris = []
    for name in ("one", "two"):
        session = store.create(id=name, principal="alice", agent="planner")
        session.append("user", f"Hello {name}")
        session.persist()
        iris.append(session.turns[0].iri)
    first, second = map(NamedNode, iris)
    quads = [
        Quad(one, vocab.DERIVED_FROM, two, NamedNode(f"urn:trails:session:{graph}"))
        for one, two, graph in ((first, second, "one"), (second, first, "two"))
    ]
    assert validate(store).ok
    store.store.commit(Change(add=quads))
    (finding,) = validate(store).findings
    assert (finding.constraint, set(finding.nodes)) == (42, set(iris))


@pytest.mark.parametrize("term", ["wasGeneratedBy", "used"])
def test_a_literal_where_a_thing_belongs_is_an_error_that_says_so(store: Repository, term: str) -> None:
    from pyoxigraph import Literal

    from trails import TrailsError

    quad = Quad(NamedNode("urn:x"), NamedNode(vocab.PROV + term), Literal("text"))
    store.store.commit(Change(add=[quad]))
    with pytest.raises(TrailsError):
        validate(store)
