"""Cherry-picked turns are new turns at the end that say what they repeat; a call is never parted from its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import invoke
from trails import Compaction, HeadConflict, InvalidInput, Repository, Session, SessionNotFound
from trails.history import turn_builder
from trails.model import iris
from trails.model.values import Quote
from trails.rdf import vocab
from trails.session.cherry_pick import whole_transcript
from trails.store.contract import Change

pytestmark = pytest.mark.any_store


def fill(store: Repository) -> Session:
    """0 user, 1 calls a and b, 2 answers b, 3 answers a, 4 says so, 5 a summary, 6 calls c (never answered), 7 the end."""
    plan = store.create(id="plan", principal="alice", agent="planner")
    plan.append("user", "Plan a trip")
    calls = [
        {"type": "tool_use", "id": "a", "name": "weather", "input": {"at": "Zermatt"}},
        {"type": "tool_use", "id": "b", "name": "trains", "input": {}},
    ]
    plan.append("assistant", calls, model="m-1", usage={"input_tokens": 3}, meta={"mood": "keen"})
    plan.append("tool", "at nine", tool_call_id="b")
    plan.append("tool", "Snow", tool_call_id="a", is_error=True)
    plan.append("assistant", "Take the train", author="agent:second")
    plan.append("summary", "A trip", compaction=Compaction(summarised_through=4))
    plan.append("assistant", "Wait", tool_calls=[{"id": "c", "name": "taxi", "arguments": {}}])
    plan.append("user", "Thanks")
    plan.persist()
    return plan


def other(store: Repository) -> Session:
    made = store.create(id="other", principal="bob", agent="second")
    made.append("user", "Hello")
    made.persist()
    return made


# --- what a pick is


def test_a_picked_turn_is_a_new_turn_that_says_what_it_repeats(store: Repository) -> None:
    plan, target = fill(store), other(store)
    [made] = target.cherry_pick(plan, 4)
    source = plan.turns[4]
    assert (made.index, made.session_id, made.branch) == (1, "other", "main")
    assert (made.role, made.content, made.author) == ("assistant", "Take the train", "second")
    assert made.quoted_from == Quote(session_id="plan", index=4, digest=source.digest)
    assert made.digest != source.digest
    assert made.time is not None
    assert source.time is not None
    assert made.time >= source.time
    assert (target.pending, len(store.load("other").turns)) == (1, 1)
    assert target.persist() == 1
    assert store.load("other").turns[1] == made
    assert plan.turns == store.load("plan").turns
    assert store.verify().findings == ()


def test_what_was_recorded_with_a_turn_is_repeated_but_not_where_it_was_imported_from(store: Repository) -> None:
    plan, target = fill(store), other(store)
    asked, at_nine, snow = target.cherry_pick(plan, [1, 2, 3])
    target.persist()
    loaded = store.load("other").turns
    assert loaded[1:] == (asked, at_nine, snow)
    assert (asked.model, asked.usage, asked.meta) == ("m-1", {"input_tokens": 3}, {"mood": "keen"})
    assert asked.text == plan.turns[1].text
    assert [(call.id, call.name, call.input) for call in asked.tool_calls] == [
        ("a", "weather", {"at": "Zermatt"}),
        ("b", "trains", {}),
    ]
    assert [result.is_error for result in snow.tool_results] == [True]
    imported = store.create(id="imported")
    imported.worktree.append(turn_builder.make_draft("user", "from elsewhere", source_ids=["x-1"]))
    imported.persist()
    [copy] = target.cherry_pick("imported", 0)
    target.persist()
    assert copy.source_ids == ()
    assert store.verify().findings == ()


def test_the_answer_is_linked_to_the_call_that_was_picked_with_it(store: Repository) -> None:
    plan, target = fill(store), other(store)
    asked, at_nine, _ = target.cherry_pick(plan, [1, 2, 3])
    target.persist()
    graph = NamedNode(iris.session("other"))
    [link] = store.store.quads((NamedNode(f"{at_nine.iri}/result/0"), vocab.ANSWERS_COPY, None, graph))
    assert link.object == NamedNode(f"{asked.iri}/call/1")


def test_the_quotation_is_prov_and_every_pick_of_a_pick_names_the_turn_it_was_picked_from(store: Repository) -> None:
    plan, target = fill(store), other(store)
    [first] = target.cherry_pick("plan", 7)
    target.persist()
    [second] = target.cherry_pick(target, 1)
    target.persist()
    graph = NamedNode(iris.session("other"))
    links = store.store.quads((None, vocab.QUOTED_FROM, None, graph))
    assert {(link.subject.value, link.object.value) for link in links} == {  # type: ignore[union-attr] # IRIs
        (first.iri, plan.turns[7].iri),
        (second.iri, first.iri),
    }
    assert second.content == "Thanks"
    assert store.verify().findings == ()


def test_picking_from_a_fork_names_the_owner_of_an_inherited_turn(store: Repository) -> None:
    plan = fill(store)
    fork = plan.fork(at=5, id="fork")
    fork.persist()
    target = other(store)
    [made] = target.cherry_pick("fork", 0)
    target.persist()
    assert made.quoted_from == Quote(session_id="plan", index=0, digest=plan.turns[0].digest)


def test_turns_can_be_picked_into_a_branch_that_is_not_stored_yet(store: Repository) -> None:
    plan = fill(store)
    fork = plan.fork(at=1, id="fork")
    fork.cherry_pick(plan, [4, 7])
    assert fork.persist() == 2
    assert [turn.content for turn in store.load("fork").turns] == ["Plan a trip", "Take the train", "Thanks"]
    assert store.verify().findings == ()


# --- what is refused


@pytest.mark.parametrize(
    ("indexes", "missing"),
    [([1], "[2, 3]"), ([2], "[1, 3]"), ([0, 3], "[1, 2]"), ([1, 2], "[3]"), (range(2, 5), "[1]")],
)
def test_a_call_is_not_parted_from_its_answers(store: Repository, indexes: list[int], missing: str) -> None:
    plan, target = fill(store), other(store)
    with pytest.raises(InvalidInput) as caught:
        target.cherry_pick(plan, indexes)
    assert f"and {missing} belong together" in str(caught.value)
    assert target.pending == 0
    made = target.cherry_pick(plan, indexes, whole_calls=True)
    assert {1, 2, 3} <= {turn.quoted_from.index for turn in made if turn.quoted_from}
    assert [turn.quoted_from.index for turn in made if turn.quoted_from] == sorted({1, 2, 3} | set(indexes))
    target.persist()


def test_a_call_that_nothing_answers_is_picked_alone(store: Repository) -> None:
    plan, target = fill(store), other(store)
    [made] = target.cherry_pick(plan, 6)
    target.persist()
    assert [call.name for call in made.tool_calls] == ["taxi"]


@pytest.mark.parametrize(
    ("indexes", "what"),
    [
        ([], "at least one turn"),
        (8, "has 8 turns that are stored, so no turn 8"),
        ([-1], "must be 0 or more"),
        ([7, 4], "ascending order"),
        ([4, 4], "ascending order"),
        (True, "whole number"),
        (5, "is a summary of turns of its own transcript"),
    ],
)
def test_turns_that_cannot_be_picked_are_refused_before_anything_is_added(
    store: Repository, indexes: int | list[int], what: str
) -> None:
    plan, target = fill(store), other(store)
    with pytest.raises(InvalidInput, match=what):
        target.cherry_pick(plan, indexes)
    assert (target.pending, len(target)) == (0, 1)


@pytest.mark.parametrize("indexes", [None, 1.0, object()])
def test_what_is_no_index_is_refused_by_name(memory: Repository, indexes: Any) -> None:
    plan, target = fill(memory), other(memory)
    with pytest.raises(InvalidInput, match="one index or several"):
        target.cherry_pick(plan, indexes)


def test_what_is_not_stored_or_was_redacted_or_is_elsewhere_is_not_picked(store: Repository) -> None:
    plan, target = fill(store), other(store)
    plan.append("user", "pending")
    with pytest.raises(InvalidInput, match="8 turns that are stored"):
        target.cherry_pick(plan, 8)
    plan.discard_pending()
    store.redact("plan", 4)
    with pytest.raises(InvalidInput, match="was redacted"):
        target.cherry_pick("plan", 4)
    with pytest.raises(SessionNotFound):
        target.cherry_pick("nobody", 0)
    with trails.open(":memory:") as elsewhere, pytest.raises(InvalidInput, match="is of another store"):
        target.cherry_pick(fill(elsewhere), 0)


@pytest.mark.parametrize("how", ["redact", "delete"])
def test_a_turn_that_was_taken_out_after_it_was_picked_is_not_written(store: Repository, how: str) -> None:
    plan, target = fill(store), other(store)
    target.cherry_pick(plan, 4)
    if how == "redact":
        store.redact("plan", 4)
    else:
        store.delete("plan")
    with pytest.raises(InvalidInput, match="turn 4 of session 'plan', which was picked, was redacted or deleted"):
        target.persist()
    assert target.discard_pending() == 1
    assert len(store.load("other")) == 1
    assert store.verify().findings == ()


def test_a_turn_that_was_taken_out_before_the_last_commit_is_not_written_from_a_handle_that_still_has_it(
    store: Repository,
) -> None:
    source, target = fill(store), store.create(id="target")
    store.redact(source.id, 0)
    target.append("user", "One more")
    target.persist()
    target.cherry_pick(source, [0])
    with pytest.raises(InvalidInput, match="was redacted or deleted"):
        target.persist()
    target.discard_pending()
    assert [turn.content for turn in store.load("target").turns] == ["One more"]


def test_a_pick_that_loses_a_race_is_kept_as_a_fork(store: Repository) -> None:
    plan, target = fill(store), other(store)
    second = store.load("other")
    second.append("user", "first come")
    second.persist()
    target.cherry_pick(plan, 0)
    with pytest.raises(HeadConflict):
        target.persist()
    kept = target.keep_as_fork(id="kept")
    assert [turn.quoted_from.index for turn in kept.turns if turn.quoted_from] == [0]
    assert store.verify().findings == ()


# --- afterwards


def test_a_redaction_names_what_was_picked_from_the_turn_however_short_its_text(store: Repository) -> None:
    plan = store.create(id="plan")
    plan.append("user", "ok")
    plan.persist()
    target = other(store)
    target.cherry_pick("plan", 0)
    target.persist()
    target.cherry_pick(target, 1)
    target.persist()
    assert store.redact("plan", 0).quotes == (("other", 1), ("other", 2))
    assert store.redact("other", 1).quotes == (("other", 2),)
    assert store.redact("plan", 0).quotes == (("other", 2),)
    assert store.load("other").turns[1].quoted_from is not None
    assert store.verify().findings == ()


def test_a_picked_turn_keeps_its_digest_and_its_source_through_detach_flatten_and_the_source_s_end(
    store: Repository,
) -> None:
    plan = fill(store)
    target = other(store)
    target.cherry_pick(plan, [1, 2, 3, 4])
    target.persist()
    fork = target.fork(id="fork")
    fork.persist()
    fork.detach()
    store.flatten("other", id="flat")
    store.delete("plan")
    for session_id in ("other", "fork", "flat"):
        turns = store.load(session_id).turns
        assert [turn.digest for turn in turns] == [turn.digest for turn in target.turns]
        assert [turn.quoted_from.index for turn in turns if turn.quoted_from] == [1, 2, 3, 4]
    assert store.verify().findings == ()


def test_turns_without_a_quotation_have_the_digests_that_they_always_had() -> None:
    """What a quotation adds to the facts is there only for picked turns."""
    from trails.integrity import digests
    from trails.model.values import Facts, ModelCall

    plain = Facts(model_call=ModelCall(model="m-1"))
    assert digests.facts_json(plain, "00") == '{"model":["m-1",null,null]}'
    quoting = plain.model_copy(update={"quoted_from": Quote(session_id="s", index=3, digest="ab")})
    assert digests.facts_json(quoting, "00") == '{"model":["m-1",null,null],"quote":[3,"ab"]}'


@pytest.mark.parametrize("predicate", [vocab.QUOTED_FROM, vocab.QUOTED_DIGEST])
@pytest.mark.parametrize("instead", [True, False])
def test_a_quotation_that_was_altered_or_taken_away_is_found(
    store: Repository, predicate: NamedNode, instead: bool
) -> None:
    plan, target = fill(store), other(store)
    target.cherry_pick(plan, 4)
    target.persist()
    [old] = store.store.quads((None, predicate, None, None))
    forged: NamedNode | Literal = (
        NamedNode(plan.turns[0].iri) if predicate == vocab.QUOTED_FROM else Literal(plan.turns[0].digest)
    )
    new = [Quad(old.subject, predicate, forged, old.graph_name)] if instead else []
    store.store.commit(Change(add=new, remove=[old]))
    assert {finding.session_id for finding in store.verify().findings} == {"other"}


# --- properties


turns_of = st.lists(st.sampled_from(["say", "ask x", "ask y", "answer x", "answer y", "ask both"]), max_size=12)


@given(turns_of, st.data())
def test_whole_calls_close_under_what_load_links(kinds: list[str], data: st.DataObject) -> None:
    with trails.open(":memory:") as store:
        session = store.create(id="s")
        for kind in kinds:
            verb, _, what = kind.partition(" ")
            names = ["x", "y"] if what == "both" else [what]
            if verb == "say":
                session.append("user", "hello")
            elif verb == "ask":
                session.append(
                    "assistant", "", tool_calls=[{"id": name, "name": "t", "arguments": {}} for name in names]
                )
            else:
                session.append("tool", "", tool_call_id=what)
        session.persist()
        picked = data.draw(st.sets(st.integers(0, max(0, len(kinds) - 1)), max_size=4)) if kinds else set()
        links = {  # (asking, answering) turns, as the store links them
            (iris.turn_index(quad.object.value), iris.turn_index(quad.subject.value))  # type: ignore[union-attr] # IRIs
            for quad in store.store.quads((None, vocab.TOOL_RESULT_OF, None, NamedNode(iris.session("s"))))
        }
        closed = set(whole_transcript(session.turns, picked))
        assert picked <= closed
        assert all((asked in closed) == (answered in closed) for asked, answered in links)
        touched = {index for link in links for index in link} | picked
        assert closed <= touched


# --- the command line


def test_the_command_picks_ranges_and_refuses_halves(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    with trails.open(place, create=True, durability="process") as store:
        fill(store)
        other(store)
        store.tags.add("v1", "plan@5")

    def run(*arguments: str) -> tuple[int, str, str]:
        result = invoke("cherry-pick", *arguments, "--onto", "other", "--store", place)
        return result.exit_code, result.stdout, result.stderr

    assert run("plan@0,7")[:2] == (0, "1\n2\n")
    code, out, err = run("plan@3:5")
    assert (code, out) == (2, "")
    assert "[1, 2] belong together" in err
    assert "--whole-calls" in err
    code, out, _ = run("plan@3:5", "--whole-calls", "--json")
    assert (code, [turn["quoted_from"]["index"] for turn in json.loads(out)["turns"]]) == (0, [1, 2, 3, 4])
    assert run("v1@4:")[:2] == (0, "7\n")  # the tag ends at 5
    for wrong in ("plan", "plan@", "plan@9", "plan@4:2", "plan@x", "v1@5", "@1"):
        assert run(wrong)[:2] == (2, "")
    with trails.open(place) as store:
        store.create(id="me@home").persist()
    assert "'me@home' says not which turns" in run("me@home")[2]
    with trails.open(place) as store:
        assert len(store.load("other")) == 8
        assert store.verify().ok
