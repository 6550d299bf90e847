"""What was altered of a session stays on record with the old value, the new one, who and when; so does who set a prompt."""

from __future__ import annotations

from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import Repository, Router
from trails.history.records import activities
from trails.rdf import vocab
from trails.rdf.activity_records import Alteration
from trails.store import Change


def altered(store: Repository, session: str) -> list[tuple[str, str | None, str | None, str]]:
    found = [act for act in activities.read_activities(store.store, session) if isinstance(act, Alteration)]
    return [(act.field, act.old, act.new, act.by_iri) for act in found]


BOB, DORA = "urn:trails:principal:bob", "urn:trails:principal:dora"


def test_the_old_label_and_the_new_one_are_on_record_with_who(store: Repository) -> None:
    store.create(id="plan", label="trip").persist()
    store.set_label("plan", "journey", by="bob")
    store.set_label("plan", "journey", by="mallory")  # nothing is altered
    store.load("plan").set_label(None, by="dora")
    assert altered(store, "plan") == [("label", "trip", "journey", BOB), ("label", "journey", None, DORA)]
    assert store.verify().findings == ()


def test_a_patch_is_on_record_field_by_field_with_the_old_value(memory: Repository) -> None:
    router = Router(memory)
    named = router.route(trails.Inbound(channel="telegram", peer="7", content="Hello"))
    router.patch(named.key, {"thinkingLevel": "high"}, by="bob")
    router.patch(named.key, {"thinkingLevel": "low", "verboseLevel": "on"}, by="dora")
    assert set(altered(memory, named.session_id)) == {
        ("thinkingLevel", None, '"high"', BOB),
        ("thinkingLevel", '"high"', '"low"', DORA),
        ("verboseLevel", None, '"on"', DORA),
    }
    assert memory.verify().findings == ()


def test_who_set_a_system_prompt_is_on_record_and_who_made_a_fork() -> None:
    with trails.open(":memory:", actor="bob") as store:
        plan = store.create(id="plan", principal="alice", system="Be brief")
        plan.append("user", "Hello")
        plan.set_system("Be kind", by="dora")
        plan.persist()
        plan.fork(id="fork", by="dora").persist()
        plan.fork(id="other").persist()
        prompts = store.reader.prompts(["plan"])
        assert [prompts["plan", version].by_iri for version in (1, 2)] == [BOB, DORA]
        assert [store.record(name).forked_by for name in ("fork", "other")] == [DORA, BOB]
        assert store.verify().findings == ()


def test_an_alteration_cannot_be_changed_unseen_and_loses_a_text_that_is_redacted(memory: Repository) -> None:
    memory.create(id="plan", label="for Zenobia").persist()
    memory.set_label("plan", "trip", by="bob")
    [old] = memory.store.quads((None, vocab.OLD_VALUE, None, vocab.CATALOG))
    forged = Quad(old.subject, old.predicate, Literal("for Mallory"), vocab.CATALOG)
    memory.store.commit(Change(remove=[old], add=[forged]))
    assert [finding.code for finding in memory.verify().findings] == ["row-altered"]
    memory.store.commit(Change(remove=[forged], add=[old]))
    assert memory.verify().ok
    memory.redact_matching("Zenobia", by="dora")
    assert not any("Zenobia" in str(quad) for quad in memory.store.quads((None, None, None, None)))
    assert memory.verify().findings == ()


def test_what_was_done_to_a_session_goes_with_it(memory: Repository) -> None:
    memory.create(id="plan", label="trip").persist()
    memory.set_label("plan", "journey")
    memory.delete("plan")
    assert memory.store.quads((None, vocab.TYPE, NamedNode(vocab.TRAILS + "Alteration"), None)) == []
    assert memory.verify().findings == ()
