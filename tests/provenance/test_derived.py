"""What follows from what is recorded, and is not stored: redacted contents, who acted on whose behalf, whose a result is."""

from __future__ import annotations

import io
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

import trails
from tests.support.everything import everything
from trails import Repository
from trails.history.records import subagent_runs
from trails.provenance import export, serializations, validate
from trails.provenance.statements import Statement
from trails.rdf import vocab
from trails.rdf.subagent_records import Run, RunContent
from trails.store import Change


def derived(store: Repository, rule: str, **which: Any) -> list[Statement]:
    """The statements of an export that follow by a rule."""
    out = io.BytesIO()
    export(store, out, format="provn", **which)
    found = [each for bundle in serializations.read_prov(out.getvalue(), "provn").bundles for each in bundle.statements]
    wanted = (vocab.EVIDENCE_RULE.value, rule)
    return [each for each in found if wanted in {(name, value.text) for name, value in each.attributes}]


def arguments(found: list[Statement], kind: str) -> list[tuple[str | None, ...]]:
    return sorted(each.arguments for each in found if each.kind == kind)


# --- redactions


def test_the_content_of_a_redacted_turn_was_invalidated_by_the_redaction(store: Repository) -> None:
    session = store.create(id="s")
    for text in ("kept", "secret", "kept too"):
        session.append("user", text)
    session.persist()
    store.redact("s", 1, by="eve")
    turn = session.turns[1].iri
    found = derived(store, "derived_redacted_content")
    assert arguments(found, "wasInvalidatedBy") == [(f"{turn}/content", f"{turn}/deletion", None)]
    assert [each.id for each in found if each.kind == "entity"] == [f"{turn}/content"]
    assert derived(store, "derived_redacted_content", session="s") == found
    assert derived(store, "derived_redacted_content", session="s", turn=0) == []


def test_a_second_redaction_of_a_turn_invalidates_nothing_twice(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "secret of Zenobia", author="Zenobia")
    session.append("user", "I am Zenobia", author="Kim")
    session.append("user", "Hello", author="Zenobia")
    session.persist()
    store.redact("s", 0)
    store.redact_matching("Zenobia")
    first, second, third = session.turns
    found = derived(store, "derived_redacted_content")
    assert [pair[0] for pair in arguments(found, "wasInvalidatedBy")] == [
        f"{first.iri}/content",
        f"{second.iri}/content",
    ]
    assert arguments(found, "wasInvalidatedBy")[0][1] == f"{first.iri}/deletion"
    assert third.iri not in str(found)
    assert validate_export(store)


def test_a_name_that_was_taken_out_first_is_not_what_took_the_content(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "secret", author="Zenobia")
    session.persist()
    store.redact_matching("Zenobia")
    store.redact("s", 0)
    turn = session.turns[0].iri
    found = arguments(derived(store, "derived_redacted_content"), "wasInvalidatedBy")
    assert found == [(f"{turn}/content", f"{turn}/deletion/2", None)]


def validate_export(store: Repository) -> bool:
    out = io.BytesIO()
    export(store, out, format="provn")
    verdict = validate(out.getvalue(), format="provn", timed=True)
    assert verdict.findings == []
    assert verdict.timing is not None
    return not verdict.timing.findings


def test_an_export_of_a_store_of_everything_with_what_follows_is_valid(memory: Repository) -> None:
    everything(memory)
    out = io.BytesIO()
    export(memory, out, format="provn")
    assert validate(out.getvalue(), format="provn").findings == []


# --- on whose behalf


def test_the_agent_of_a_run_acts_on_behalf_of_the_one_who_asked_in_that_run(store: Repository) -> None:
    asking = store.create(id="asking", agent="planner")
    asking.persist()
    store.create(id="doing", agent="clerk").persist()
    run = Run(run_id="r1", child_session="doing", requester_session="asking", said=RunContent.of("task"), agent="clerk")
    subagent_runs.register_run(run).commit(store.store)
    found = derived(store, "derived_child_for_requester")
    clerk, planner = "urn:trails:agent:clerk", "urn:trails:agent:planner"
    assert arguments(found, "actedOnBehalfOf") == [(clerk, planner, "urn:trails:session:doing/run/r1")]
    assert derived(store, "derived_child_for_requester", session="doing") == found
    assert derived(store, "derived_child_for_requester", session="asking") == []


def test_an_agent_does_not_act_on_its_own_behalf(store: Repository) -> None:
    store.create(id="asking", agent="clerk").persist()
    store.create(id="doing", agent="clerk", spawned_by="asking").persist()
    run = Run(run_id="r1", child_session="doing", requester_session="asking", said=RunContent.of("task"), agent="clerk")
    subagent_runs.register_run(run).commit(store.store)
    assert derived(store, "derived_child_for_requester") == []


def test_a_session_that_was_spawned_without_a_run_acts_on_behalf_of_its_spawner(store: Repository) -> None:
    store.create(id="asking", agent="planner").persist()
    store.create(id="doing", agent="clerk", spawned_by="asking").persist()
    found = arguments(derived(store, "derived_child_for_requester"), "actedOnBehalfOf")
    assert found == [("urn:trails:agent:clerk", "urn:trails:agent:planner", None)]


def test_in_the_session_tree_the_spawning_is_the_activity_and_the_result_the_agents(memory: Repository) -> None:
    lead = trails.Tree(memory).main("chief", "phone", id="phone")
    lead.spawn("branch", "Look it up", id="looker").complete("done")
    looker = "urn:trails:session:looker"
    assert derived(memory, "derived_spawned_for_spawner") == []  # one agent runs both
    found = arguments(derived(memory, "derived_result_by_agent"), "wasAttributedTo")
    assert found == [(f"{looker}/ledger/4", "urn:trails:agent:chief")]


@pytest.mark.parametrize("which", [{}, {"session": "looker"}])
def test_a_spawned_session_with_another_agent_names_the_transition_that_made_it_active(
    memory: Repository, which: dict[str, str]
) -> None:
    lead = trails.Tree(memory).main("chief", "phone", id="phone")
    branch = lead.spawn("branch", "Look it up", id="looker")
    branch.suspend()
    branch.resume()
    node = NamedNode("urn:trails:session:looker")
    [old] = memory.store.quads((node, vocab.SESSION_AGENT, None, vocab.CATALOG))
    new = Quad(node, vocab.SESSION_AGENT, NamedNode("urn:trails:agent:scout"), vocab.CATALOG)
    memory.store.commit(Change(add=[new], remove=[old]))
    found = arguments(derived(memory, "derived_spawned_for_spawner", **which), "actedOnBehalfOf")
    assert found == [("urn:trails:agent:scout", "urn:trails:agent:chief", "urn:trails:session:looker/ledger/1")]
