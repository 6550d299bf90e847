"""The store as it was: by a checkpoint, a mark and a time, held against copies of the store that were made then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad

import trails
from tests.support.everything import everything
from tests.support.machines import Size
from tests.support.pasts import hold_against, mark_of, said, walk
from trails import Repository
from trails.integrity import leaves
from trails.integrity.signed_notes import new_key
from trails.model.values import Finding
from trails.rdf import vocab
from trails.store.contract import Change, Committed


def _plan(store: Repository) -> trails.Session:
    """Make plan, with two turns, and a fork of it at 1."""
    plan = store.create(id="plan", label="trip")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Where to?")
    plan.persist()
    other = plan.fork(at=1, id="other")
    other.append("assistant", "By train?")
    other.persist()
    return plan


# --- turns and forks


def test_turns_and_forks_are_those_of_then(store: Repository) -> None:
    plan = _plan(store)
    then = mark_of(store)
    plan.append("user", "To the Alps")
    plan.persist()
    plan.fork(id="later").persist()
    with store.at(then) as past:
        assert sorted(record.id for record in past.list()) == ["other", "plan"]
        assert [turn.content for turn in past.load("plan").turns] == ["Plan a trip", "Where to?"]
        assert [turn["content"] for turn in past.replay("other")] == ["Plan a trip", "By train?"]
        assert [record.id for record in past.load("plan").branches()] == ["other"]
        assert past.diff("plan", "other").common == 1
        assert [(row["session"], row["turns"]) for row in past.compare("plan")] == [("plan", 2), ("other", 2)]
        count = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?turn a trails:Turn } }"
        assert past.select(count).to_dicts() == [{"n": 3}]
        assert past.search("Alps") == []
        assert past.as_of is not None
        assert (past.as_of.changed, past.as_of.gone, past.as_of.redacted) == ((), (), ())
    assert store.as_of is None


def test_a_fork_that_was_detached_is_a_fork_again(store: Repository) -> None:
    plan = store.create(id="plan", system="Be brief.")
    plan.append("user", "Plan a trip")
    plan.persist()
    other = plan.fork(id="other")
    other.append("assistant", "By train?")
    other.persist()
    then = mark_of(store)
    store.detach("other")
    with store.at(then) as past:
        fork = past.load("other")
        assert (fork.parent_session_id, fork.forked_at_index) == ("plan", 1)
        assert [turn.session_id for turn in fork.turns] == ["plan", "other"]
        assert past.verify().ok


def test_a_detached_fork_stays_so_where_its_parent_is_gone(store: Repository) -> None:
    _plan(store)
    then = mark_of(store)
    store.delete("plan", children="detach")
    with store.at(then) as past:
        assert [turn.content for turn in past.load("other").turns] == ["Plan a trip", "By train?"]
        assert past.as_of is not None
        assert past.as_of.gone == ("plan",)
        assert past.verify().findings == ()
        with pytest.raises(trails.SessionNotFound, match="was deleted"):
            past.load("plan")


def test_what_is_redacted_now_stays_gone_and_is_named(store: Repository) -> None:
    _plan(store)
    then = mark_of(store)
    store.redact("plan", 1)
    with store.at(then) as past:
        assert [turn.content for turn in past.load("plan").turns] == ["Plan a trip", ""]
        assert past.as_of is not None
        assert past.as_of.redacted == (("plan", 1),)
        assert past.verify().ok


def _all_read(past: Repository) -> None:
    past.load("plan")
    past.load("other")
    past.select(_COUNT)
    past.search("train")


@pytest.mark.parametrize("read", [lambda past: None, lambda past: past.select(_COUNT), _all_read])
def test_what_is_taken_out_while_then_is_looked_at_is_not_seen_there_any_more(
    store: Repository, read: Callable[[Repository], object]
) -> None:
    _plan(store)
    with store.session("third") as third:
        third.append("user", "By train, too")
    then = mark_of(store)
    third.append("user", "Later")
    third.persist()
    with store.at(then) as past:
        read(past)
        store.redact("other", 1)
        store.delete("third")
        assert past.search("train") == []
        assert past.select(_COUNT).to_dicts() == [{"n": 3}]
        assert sorted(record.id for record in past.list()) == ["other", "plan"]
        assert [turn.content for turn in past.load("other").turns] == ["Plan a trip", ""]
        assert past.as_of is not None
        assert (past.as_of.redacted, past.as_of.gone) == ((("other", 1),), ("third",))
        assert past.verify().ok
        with pytest.raises(trails.SessionNotFound):
            past.load("third")


def test_what_is_detached_while_then_is_looked_at_is_a_fork_there(store: Repository) -> None:
    _plan(store)
    then = mark_of(store)
    with store.at(then) as past:
        store.load("other").detach()
        assert [record.id for record in past.load("plan").branches()] == ["other"]
        assert [turn.content for turn in past.load("other").turns] == ["Plan a trip", "By train?"]
        assert past.select(_COUNT).to_dicts() == [{"n": 3}]
        assert past.verify().ok


def test_what_is_deleted_while_a_graph_of_then_is_copied_is_gone_and_no_damage(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plan(memory)
    then = mark_of(memory)
    with memory.at(then) as past:
        held = past.store._held  # type: ignore[attr-defined] # of a store as it was

        def bring(graph: NamedNode) -> object:
            monkeypatch.undo()
            memory.delete("other")
            return held.bring(graph)

        monkeypatch.setattr(past.store, "_held", replace(held, bring=bring))
        assert past.select(_COUNT).to_dicts() == [{"n": 2}]
        with pytest.raises(trails.SessionNotFound):
            past.load("other")


_ROWS = """
SELECT id, live, created, principal, agent, branch, kind, label, key, parent, starts_at, title, project, prompt, prompt_at,
  activity, recorded, odd, own_turns, calls, unpriced, input, output, cost, by_created, by_activity, by_turns, by_tokens
  FROM sessions WHERE live;
SELECT s.id, t.place, k.role, k.branch, k.author, k.form, t.time, t.counts, t.flags, t.text, t.digest, t.more
  FROM turns t JOIN sessions s ON s.number = t.session JOIN kinds k ON k.number = t.kind;
SELECT s.id, t.place, c.digest, c.rank, c.home, c.principal, c.author, c.model, c.time, c.input, c.output, c.cost, c.counts
  FROM calls c JOIN turns t ON t.number = c.turn JOIN sessions s ON s.number = t.session;
SELECT s.id, t.place, c.id, c.name, c.position
  FROM tool_calls c JOIN turns t ON t.number = c.turn JOIN sessions s ON s.number = c.session;
SELECT s.id, t.place, a.id, a.digest, a.failed, a.refused, o.id, a.call_place, a.call_position
  FROM tool_answers a JOIN turns t ON t.number = a.turn JOIN sessions s ON s.number = a.session
  LEFT JOIN sessions o ON o.number = a.call_session
"""


@pytest.mark.slow
def test_the_rows_of_then_that_are_copied_are_those_that_its_quads_give(memory: Repository) -> None:
    everything(memory)
    lines = memory.store.log.lines()
    counted = 0
    for size in range(len(lines), 0, -max(1, len(lines) // 12)):
        with memory.at(f"{size}-{leaves.link_leaf(lines[size - 1])}") as past:
            rows = past.workspace.rows
            found = []
            for later in (memory.workspace.rows, None):
                rows.later = later
                rows.start_anew()
                with rows.reading() as connection:
                    found.append([sorted(connection.execute(each).fetchall(), key=repr) for each in _ROWS.split(";")])
        assert found[0] == found[1]
        counted += sum(map(len, found[0]))
    assert counted > 500


def test_what_was_redacted_and_then_deleted_since_is_no_damage(memory: Repository) -> None:
    _plan(memory)
    then = mark_of(memory)
    memory.redact_matching("trip")
    memory.delete("plan", children="detach", by="carol")
    memory.redact_matching("carol")
    with memory.at(then) as past:
        assert past.verify().findings == ()
        assert past.as_of is not None
        assert (past.as_of.gone, past.as_of.redacted) == (
            ("plan",),
            (("other", 0),),
        )  # a copy, since the parent is gone


def test_a_session_that_was_redacted_and_deleted_by_then_is_no_damage(memory: Repository) -> None:
    plan = _plan(memory)
    memory.redact("plan", 1, by="bob")
    memory.delete("plan", children="detach")
    then = mark_of(memory)
    with memory.at(then) as past:
        assert past.verify().findings == ()
    memory.redact_matching("bob")
    with memory.at(then) as past:
        assert past.verify().findings == ()
    assert plan.id not in memory


def test_a_copy_of_a_turn_whose_redaction_was_recorded_anew_since_is_no_damage(memory: Repository) -> None:
    _plan(memory)
    memory.redact("plan", 0, reason="a home address")
    memory.flatten("plan", id="flat")
    then = mark_of(memory)
    memory.redact_matching("a home address")
    with memory.at(then) as past:
        assert past.verify().findings == ()


def test_a_redaction_that_was_forged_by_then_is_found_also_where_another_one_came_since(memory: Repository) -> None:
    _plan(memory)
    turn = NamedNode(memory.load("other").turns[1].iri)
    forged = [
        Quad(NamedNode(f"{turn.value}/deletion"), vocab.TYPE, vocab.DELETION, vocab.CATALOG),
        Quad(NamedNode(f"{turn.value}/deletion"), vocab.DELETED_TURN, turn, vocab.CATALOG),
    ]
    then = mark_of(memory)
    memory.redact_matching("trip")
    memory.store.commit(Change(add=forged, leaves=[]))
    memory.delete("plan", children="detach")
    with memory.at(then) as past:
        assert [(each.code, each.session_id, each.index) for each in past.verify().findings] == [
            ("unlogged", "other", 1)
        ]


# --- sessions that were deleted and came back


@pytest.fixture
def elsewhere(memory: Repository) -> Iterator[Repository]:
    """Return another store that has what `memory` has: plan, with two turns, and other, a fork of it at 1."""
    _plan(memory)
    with trails.open(":memory:") as other:
        trails.push(memory, ["plan", "other"], other)
        yield other


def _lost(past: Repository) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Return the sessions of then that are not shown, and what is found to be wrong with the others."""
    assert past.as_of is not None
    return past.as_of.gone, past.verify().findings


def _before_other_came_back(store: Repository, elsewhere: Repository) -> str:
    """Delete other, and have it come back; return the mark of before that."""
    then = mark_of(store)
    store.delete("other")
    trails.pull(store, "other", elsewhere, restore=True)
    return then


def test_what_was_deleted_by_then_and_came_back_since_is_not_there_and_no_damage(
    memory: Repository, elsewhere: Repository
) -> None:
    memory.delete("other")
    then = mark_of(memory)
    trails.pull(memory, "other", elsewhere, restore=True)
    with memory.at(then) as past:
        assert [record.id for record in past.list()] == ["plan"]
        assert _lost(past) == ((), ())
    memory.delete("other")  # and has another tombstone now
    with memory.at(then) as past:
        assert _lost(past) == ((), ())


def test_what_was_deleted_and_came_back_since_is_there_as_it_was(memory: Repository, elsewhere: Repository) -> None:
    then = mark_of(memory)
    memory.delete("plan", children="cascade")
    trails.pull(memory, ["plan", "other"], elsewhere, restore=True)
    other = memory.load("other")
    other.append("user", "At noon?")
    other.persist()
    with memory.at(then) as past:
        assert [turn.content for turn in past.load("other").turns] == ["Plan a trip", "By train?"]
        assert _lost(past) == ((), ())
        assert past.as_of is not None
        assert past.as_of.changed == ("other", "plan")


def test_what_came_back_with_fewer_turns_than_it_had_is_gone(memory: Repository, elsewhere: Repository) -> None:
    plan = memory.load("plan")
    plan.append("user", "To the Alps")
    plan.persist()
    then = mark_of(memory)
    memory.delete("plan", children="cascade")
    trails.pull(memory, ["plan", "other"], elsewhere, restore=True)
    with memory.at(then) as past:
        assert _lost(past) == (("other", "plan"), ())  # a fork is nothing without its parent


def test_what_came_back_with_a_name_that_was_redacted_by_then_is_gone(memory: Repository) -> None:
    plan = memory.create(id="plan", principal="carol")
    plan.append("user", "Plan a trip", author="ann")
    plan.persist()
    with trails.open(":memory:") as elsewhere:
        trails.push(memory, "plan", elsewhere)
        memory.redact_matching("carol")
        then = mark_of(memory)
        memory.delete("plan")
        trails.pull(memory, "plan", elsewhere, restore=True)
    with memory.at(then) as past:
        assert _lost(past) == (("plan",), ())


def test_what_was_no_fork_and_came_back_as_one_is_gone(memory: Repository, elsewhere: Repository) -> None:
    memory.delete("plan", children="detach")
    then = _before_other_came_back(memory, elsewhere)
    with memory.at(then) as past:
        assert _lost(past) == (("other",), ())


def test_a_fork_that_was_detached_is_none_again_where_its_parent_came_back_otherwise(
    memory: Repository, elsewhere: Repository
) -> None:
    plan = memory.load("plan")
    plan.append("user", "To the Alps")
    plan.persist()
    then = mark_of(memory)
    memory.delete("plan", children="detach")
    trails.pull(memory, "plan", elsewhere, restore=True)
    with memory.at(then) as past:
        assert past.load("other").parent_session_id is None
        assert _lost(past) == (("plan",), ())


def test_what_came_back_redacted_because_a_copy_of_later_was_is_no_damage(
    memory: Repository, elsewhere: Repository
) -> None:
    then = mark_of(memory)
    memory.flatten("plan", id="flat")
    memory.delete("plan", children="cascade")
    memory.redact("flat", 0)
    trails.pull(memory, "plan", elsewhere, restore=True)
    with memory.at(then) as past:
        assert _lost(past) == (("other",), ())
        assert past.as_of is not None
        assert past.as_of.redacted == (("plan", 0),)


def test_who_redacted_what_was_deleted_by_then_is_known_also_where_it_came_back_since(
    memory: Repository, elsewhere: Repository
) -> None:
    memory.redact("plan", 0)
    memory.flatten("plan", id="flat")
    memory.delete("plan", children="cascade")
    then = mark_of(memory)
    trails.pull(memory, "plan", elsewhere, restore=True)
    with memory.at(then) as past:
        assert [turn.redacted for turn in past.load("flat").turns] == [True, False]
        assert _lost(past) == ((), ())


def test_what_was_altered_past_the_log_is_found_also_in_what_came_back(
    memory: Repository, elsewhere: Repository
) -> None:
    then = _before_other_came_back(memory, elsewhere)
    [old] = memory.store.quads((None, vocab.VALUE, Literal("By train?"), None))
    memory.store.commit(
        Change(remove=[old], add=[Quad(old.subject, old.predicate, Literal("By bus?"), old.graph_name)])
    )
    with memory.at(then) as past:
        assert [(found.session_id, found.index) for found in past.verify().findings] == [("other", 1)]


def test_a_session_that_came_back_and_was_taken_out_past_the_log_is_found(
    memory: Repository, elsewhere: Repository
) -> None:
    then = _before_other_came_back(memory, elsewhere)
    graph = NamedNode("urn:trails:session:other")
    every = memory.store.quads((graph, None, None, vocab.CATALOG)) + memory.store.quads((None, None, None, graph))
    memory.store.commit(Change(remove=every))
    with memory.at(then) as past:
        assert ("rolled-back", "other") in [(found.code, found.session_id) for found in past.verify().findings]


def test_what_was_taken_out_past_the_log_is_found_also_of_what_was_deleted_by_then(memory: Repository) -> None:
    _plan(memory)
    memory.delete("other")
    then = mark_of(memory)
    tombstone = memory.store.quads((NamedNode("urn:trails:session:other"), None, None, vocab.CATALOG))
    memory.store.commit(Change(remove=tombstone))
    with memory.at(then) as past:
        assert ("rolled-back", "other") in [(found.code, found.session_id) for found in past.verify().findings]


# --- what may change


def test_labels_notes_and_tags_are_those_of_then(store: Repository) -> None:
    _plan(store)
    store.notes.add("plan", 0, "first")
    then = mark_of(store)
    store.notes.add("plan", 1, "second")
    store.set_label("plan", "journey")
    store.tags.add("done", "plan")
    with store.at(then) as past:
        assert past.load("trip").id == "plan"
        assert [note.text for note in past.notes.list("plan")] == ["first"]
        assert past.tags.list() == []
        assert past.as_of is not None
        assert past.as_of.changed == ("plan",)
        assert past.verify().ok


def test_scores_that_came_later_are_no_columns(store: Repository) -> None:
    _plan(store)
    store.score("plan", "accuracy", 0.5, by="ann")
    then = mark_of(store)
    store.score("plan", "tone", 1, by="ann")
    with store.at(then) as past:
        assert [name for name in past.compare("plan").kinds if name.startswith("score.")] == ["score.accuracy"]


def test_a_score_that_came_later_is_left_out_where_another_session_was_redacted_later_still(memory: Repository) -> None:
    plan = _plan(memory)
    with memory.session("word") as word:
        word.append("user", "secret")
    then = mark_of(memory)
    plan.append("user", "To the Alps")
    plan.persist()
    memory.score("plan", "accuracy", 1)
    memory.redact("word", 0)
    with memory.at(then) as past:
        assert list(past.scores()) == []
        assert past.verify().findings == ()


def test_a_tag_that_came_later_is_left_out_where_a_redacted_turn_was_redacted_further_later_still(
    memory: Repository,
) -> None:
    plan = _plan(memory)
    with memory.session("word") as word:
        word.append("assistant", "secret", model="m-1")
    memory.redact("word", 0)
    then = mark_of(memory)
    plan.append("user", "To the Alps")
    plan.persist()
    memory.tags.add("late", "plan")
    memory.redact_matching("m-1")
    with memory.at(then) as past:
        assert past.tags.list() == []
        assert past.verify().findings == ()


def test_a_ledger_that_was_begun_later_is_not_there(store: Repository) -> None:
    _plan(store)
    copy, then = said(store), mark_of(store)
    trails.Ledger(store).receive("plan", "And the way back?")
    with store.at(then) as past:
        assert said(past) == copy


# --- which moment


def test_a_time_stands_for_what_was_recorded_by_then(store: Repository) -> None:
    start = datetime.now(UTC) - timedelta(days=3)
    plan = store.create(id="plan", created=start)
    for day in range(3):
        plan.append("user", f"day {day}", time=start + timedelta(days=day))
        plan.persist()
    late = store.create(id="late")
    late.persist()
    with store.at(start + timedelta(days=1, hours=1)) as past:
        assert [turn.content for turn in past.load("plan").turns] == ["day 0", "day 1"]
        assert "late" not in past
    with store.at(datetime.now(UTC)) as past:
        assert "late" in past


def test_a_label_that_was_changed_after_a_time_is_the_old_one(memory: Repository) -> None:
    _plan(memory)
    then = datetime.now(UTC)
    memory.set_label("plan", "journey")
    memory.set_label("plan", "way")
    with memory.at(then) as past:
        assert past.record("plan").label == "trip"


def test_a_turn_that_was_redacted_after_a_time_is_named(memory: Repository) -> None:
    _plan(memory)
    memory.redact("plan", 1)
    mark, then = mark_of(memory), datetime.now(UTC)
    memory.redact("plan", 0)
    with memory.at(then) as past:
        assert past.as_of is not None
        assert (past.as_of.mark, past.as_of.redacted) == (mark, (("plan", 0),))
        assert [turn.redacted for turn in past.load("plan").turns] == [True, True]


def test_a_message_that_was_received_after_a_time_is_not_there(memory: Repository) -> None:
    _plan(memory)
    ledger = trails.Ledger(memory)
    ledger.receive("plan", "And the way back?")
    mark, then = mark_of(memory), datetime.now(UTC)
    ledger.receive("plan", "In May?")
    with memory.at(then) as past:
        assert [event.number for event in trails.Ledger(past).events("plan")] == [1]
        assert past.as_of is not None
        assert past.as_of.mark == mark


def test_a_session_that_ended_after_a_time_is_named_as_changed(memory: Repository) -> None:
    worker = trails.Tree(memory).main("planner", "desk").spawn("branch", "Find a train", id="trains")
    mark, then = mark_of(memory), datetime.now(UTC)
    worker.complete("By the sea")
    with memory.at(then) as past:
        assert past.as_of is not None
        assert (past.as_of.mark, past.as_of.changed) == (mark, ("trains",))


@pytest.mark.parametrize(
    ("moment", "what"),
    [
        (datetime(2100, 1, 1, tzinfo=UTC), "in the future"),
        (datetime(2000, 1, 1, tzinfo=UTC), "there was nothing"),
        (datetime(2025, 1, 1), "no time zone"),  # noqa: DTZ001 - that is refused
        ("yesterday", "no moment of a store"),
        ("", "no moment of a store"),
        (412, "no moment of a store"),
        ("0-0000000000000000", "no moment of a store"),
    ],
)
def test_what_is_no_moment_of_the_store_is_refused(memory: Repository, moment: object, what: str) -> None:
    _plan(memory)
    with pytest.raises(trails.InvalidInput, match=what):
        memory.at(moment)  # type: ignore[arg-type] # that is what is refused


def test_what_was_is_asked_of_the_store_itself(memory: Repository) -> None:
    _plan(memory)
    with memory.at(mark_of(memory)) as past, pytest.raises(trails.InvalidInput, match="ask the store itself"):
        past.at(datetime.now(UTC))


def test_an_empty_store_has_no_past(memory: Repository) -> None:
    with pytest.raises(trails.InvalidInput, match="there was nothing"):
        memory.at(datetime.now(UTC))


def test_a_checkpoint_stands_for_the_lines_that_it_covers(store: Repository) -> None:
    plan = _plan(store)
    secret, public = new_key("example.com/log")
    kept = store.proofs.checkpoint(secret)
    plan.append("user", "To the Alps")
    plan.persist()
    with store.at(kept, verifiers=[public]) as past:
        assert len(past.load("plan")) == 2
        assert past.as_of is not None
        assert past.as_of.lines == 5  # create, change, turns; fork, turns
    other_key = new_key("example.com/log")[1]
    with pytest.raises(trails.IntegrityError):
        store.at(kept, verifiers=[other_key])


def test_a_checkpoint_and_a_mark_of_another_store_are_refused(memory: Repository) -> None:
    _plan(memory)
    with trails.open(":memory:") as other:
        _plan(other)
        kept, mark = other.proofs.checkpoint(new_key("example.com/log")[0]), mark_of(other)
    for moment in (kept, mark, f"99{mark}"):
        with pytest.raises(trails.IntegrityError, match="of no state of the log"):
            memory.at(moment)


def test_a_comparison_names_the_place_of_the_log_that_it_was_made_at(store: Repository) -> None:
    plan = _plan(store)
    made = store.compare("plan")
    plan.append("user", "To the Alps")
    plan.persist()
    assert made.as_of is not None
    with store.at(made.as_of) as past:
        assert past.compare("plan").to_dict() == made.to_dict()
    assert store.compare("plan").as_of != made.as_of


# --- read only, and proven


def test_nothing_is_written_to_what_was(store: Repository) -> None:
    _plan(store)
    before = set(store.store.quads((None, None, None, None)))
    with store.at(mark_of(store)) as past:
        assert past.read_only
        for write in (
            lambda: past.set_label("plan", "way"),
            lambda: past.delete("other"),
            lambda: past.redact("plan", 0),
            lambda: past.create(id="new").persist(),
            lambda: past.score("plan", "accuracy", 1),
            past.maintenance.vacuum,
        ):
            with pytest.raises(trails.TrailsError):
                write()
    assert set(store.store.quads((None, None, None, None))) == before


def test_a_turn_that_was_altered_past_the_log_is_not_shown(memory: Repository) -> None:
    _plan(memory)
    then = mark_of(memory)
    graph = NamedNode("urn:trails:session:plan")
    [last] = memory.store.quads((None, vocab.INDEX, vocab.integer(1), graph))
    [old] = memory.store.quads((last.subject, vocab.DIGEST, None, graph))  # type: ignore[arg-type] # an IRI
    memory.store.commit(Change(remove=[old], add=[Quad(old.subject, old.predicate, Literal("0" * 64), graph)]))
    with memory.at(then) as past, pytest.raises(trails.IntegrityError, match="is gone, or another one"):
        past.load("plan")


# --- at every place of random histories


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_at_every_place_of_a_history_it_says_what_a_copy_made_then_says(
    opener: Callable[[str], Repository], size: Size, seed: int
) -> None:
    with opener("s") as store:
        hold_against(store, walk(store, seed, {"quick": 25, "all": 60, "long": 300}[size]))


def test_a_reader_beside_the_owner_looks_back_too(place: Path) -> None:
    with trails.open(place, create=True, durability="process") as store:
        copies = walk(store, 7, 12)
        with trails.open(place, read_only=True) as view:
            hold_against(view, copies)
    with trails.open(place) as again:
        hold_against(again, copies)


def test_what_was_is_what_a_backup_of_then_holds(place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True, durability="process") as store:
        walk(store, 8, 12)
        then = mark_of(store)
        store.maintenance.backup(tmp_path / "backup")
        with trails.open(tmp_path / "backup") as copy:
            copied, listed = said(copy), [record.model_dump() for record in copy.list()]
        plan = store.create(id="plan")
        plan.append("user", "later")
        plan.persist()
        for record in store.list():
            store.load(record.id).fork().persist()
        with store.at(then) as past:
            assert said(past) == copied
            assert [record.model_dump() for record in past.list()] == listed


@pytest.mark.slow
def test_with_something_of_every_kind_it_is_whole_at_every_commit(
    memory: Repository, size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: list[str] = []
    real = memory.store.commit

    def commit(change: Change) -> Committed:
        done = real(change)
        if memory.store.log.reached.lines:
            marks.append(mark_of(memory))
        return done

    with monkeypatch.context() as patched:
        patched.setattr(memory.store, "commit", commit)
        everything(memory)
    assert len(marks) > 100
    for mark in marks[:: {"quick": 24, "all": 3, "long": 1}[size]]:
        with memory.at(mark) as past:
            assert past.verify().findings == (), mark
            assert all(past.load(record.id).id == record.id for record in past)


def test_what_was_altered_past_the_log_is_found_in_what_was_too(memory: Repository) -> None:
    plan = _plan(memory)
    then = mark_of(memory)
    memory.set_label("plan", "journey")
    plan.append("user", "more")
    plan.persist()
    [old] = memory.store.quads((None, vocab.VALUE, Literal("Where to?"), None))
    new = Quad(old.subject, old.predicate, Literal("Nowhere"), old.graph_name)
    memory.store.commit(Change(remove=[old], add=[new]))
    with memory.at(then) as past:
        assert [(found.session_id, found.index) for found in past.verify().findings] == [("plan", 1)]


# --- a query over all graphs

_COUNT = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?turn a trails:Turn } }"


def test_what_comes_to_the_store_while_it_is_read_is_not_seen(store: Repository) -> None:
    plan = _plan(store)
    with store.at(mark_of(store)) as past:
        assert past.select(_COUNT).to_dicts() == [{"n": 3}]
        plan.append("user", "To the Alps")
        plan.persist()
        assert past.select(_COUNT).to_dicts() == [{"n": 3}]


def test_what_the_log_does_not_know_of_a_session_is_not_shown(store: Repository) -> None:
    _plan(store)
    then = mark_of(store)
    with store.at(then) as past:
        honest = said(past)
    graph = NamedNode("urn:trails:session:plan")
    later = NamedNode(f"{graph.value}/3-00ff00ff00ff00ff")
    subjects: list[NamedNode | BlankNode] = [graph, later, NamedNode("urn:x"), BlankNode("b")]
    forged = [Quad(each, NamedNode("urn:said"), Literal("forged"), graph) for each in subjects]
    forged.append(Quad(NamedNode("urn:x"), vocab.TYPE, vocab.TURN, NamedNode("urn:trails:session:nobody")))
    store.store.commit(Change(add=forged))
    with store.at(then) as past:
        assert said(past) == honest
        graphs = past.store.table("SELECT ?g { GRAPH ?g {} }")
        assert sorted(graphs) == [[f"<urn:trails:session:{name}>"] for name in ("other", "plan")]


def test_a_fork_that_was_detached_since_answers_the_call_of_its_parent_again(store: Repository) -> None:
    plan = store.create(id="plan")
    plan.append("assistant", "Looking", tool_calls=[{"id": "c", "name": "look", "arguments": {}}])
    plan.persist()
    fork = plan.fork(id="fork")
    fork.append("tool", "Seen", tool_call_id="c")
    fork.persist()
    then, honest = mark_of(store), said(store)
    store.detach("fork")
    assert any("answersCopy" in text for text in said(store) - honest)
    with store.at(then) as past:
        assert said(past) == honest


def test_a_query_of_all_is_refused_where_a_last_turn_was_altered_past_the_log(memory: Repository) -> None:
    _plan(memory)
    graph = NamedNode("urn:trails:session:plan")
    [last] = memory.store.quads((None, vocab.INDEX, vocab.integer(1), graph))
    [old] = memory.store.quads((last.subject, vocab.DIGEST, None, graph))  # type: ignore[arg-type] # an IRI
    memory.store.commit(Change(remove=[old], add=[Quad(old.subject, old.predicate, Literal("0" * 64), graph)]))
    with memory.at(mark_of(memory)) as past, pytest.raises(trails.IntegrityError, match="is gone, or another one"):
        past.select(_COUNT)


def _brought(past: Repository, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the graphs that are copied from now on for a store as it was."""
    read: list[str] = []
    held = past.store._held  # type: ignore[attr-defined] # of a store as it was

    def bring(graph: NamedNode) -> object:
        read.append(graph.value)
        return held.bring(graph)

    monkeypatch.setattr(past.store, "_held", replace(held, bring=bring))
    return read
