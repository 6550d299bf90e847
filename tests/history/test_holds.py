"""Legal holds and retention rules: what a hold covers stays in the store, whichever way it was to go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode

import trails
from trails import InvalidInput, OnHold, Repository, SessionNotFound, StoreReadOnly
from trails.rdf import vocab

NOW = datetime.now(UTC)


@pytest.fixture
def family(memory: Repository) -> Repository:
    """plan has three turns; dinner is a fork at 2 with one turn of its own; side is another session."""
    plan = memory.create(id="plan", principal="alice", label="trip", meta={"case": "7"})
    for text in ("Plan a trip for Eve", "Where to?", "To the Alps"):
        plan.append("user", text)
    plan.persist()
    dinner = plan.fork(id="dinner", at=2)
    dinner.append("user", "Plan a dinner for Eve")
    dinner.persist()
    side = memory.create(id="side", principal="bob")
    side.append("user", "Buy bread for Eve")
    side.persist()
    return memory


def everything_of(store: Repository) -> set[str]:
    """Return all that the store says of sessions and turns."""
    return {str(quad) for quad in store.store.quads((None, None, None, None)) if "register" not in str(quad)}


REMOVALS: dict[str, Any] = {
    "delete": lambda store: store.delete("side"),
    "cascade": lambda store: store.delete("side", children="cascade"),
    "detach": lambda store: store.delete("side", children="detach"),
    "redact": lambda store: store.redact("side", 0),
    "redact_matching": lambda store: store.redact_matching("bread"),
    "redact_matching a name": lambda store: store.redact_matching("bob"),
}


@pytest.mark.parametrize("how", REMOVALS)
def test_a_hold_on_a_session_refuses_every_removal_and_names_itself(family: Repository, how: str) -> None:
    hold = family.holds.place("side", reason="Case 7", by="counsel")
    before = everything_of(family)
    with pytest.raises(OnHold, match=hold.token) as refused:
        REMOVALS[how](family)
    assert (refused.value.session_id, refused.value.hold) == ("side", hold.token)
    assert everything_of(family) == before
    family.holds.lift(hold)
    REMOVALS[how](family)
    assert family.verify().ok


COVERING: dict[str, dict[str, Any]] = {
    "principal": {"principal": "alice"},
    "label": {"label": "trip"},
    "meta": {"meta": {"case": "7"}},
    "query": {"query": 'SELECT ?session { ?session trails:label "trip" }'},
}


@pytest.mark.parametrize("how", COVERING)
def test_a_hold_covers_what_its_principal_label_metadata_or_query_says(family: Repository, how: str) -> None:
    family.holds.place(reason="Case 7", **COVERING[how])
    with pytest.raises(OnHold):
        family.redact("plan", 2)
    assert family.redact("side", 0).turns == (("side", 0),)
    assert [each.hold.reason for each in family.holds.list("plan")] == ["Case 7"]
    assert family.holds.list("side") == []


def test_a_hold_on_a_principal_covers_sessions_that_come_later(family: Repository) -> None:
    family.holds.place(principal="carol", reason="Case 8")
    later = family.create(id="later", principal="carol")
    later.append("user", "Hello")
    later.persist()
    with pytest.raises(OnHold):
        family.delete("later")


def test_another_label_does_not_take_a_session_out_of_a_hold(family: Repository) -> None:
    family.holds.place(label="trip", reason="Case 7")
    family.load("plan").set_label("other")
    with pytest.raises(OnHold):
        family.redact("plan", 2)


def test_what_a_fork_on_hold_shows_of_its_parent_is_kept_and_no_more(family: Repository) -> None:
    family.holds.place("dinner", reason="Case 7")
    for how in ("refuse", "cascade", "detach"):
        with pytest.raises(trails.TrailsError):
            family.delete("plan", children=how)
    with pytest.raises(OnHold, match="'dinner'"):
        family.delete("plan", children="detach")
    with pytest.raises(OnHold, match="'dinner'"):
        family.redact("plan", 1)
    assert family.redact("plan", 2).turns == (("plan", 2),)  # the fork begins there
    assert [turn.text for turn in family.load("dinner").turns] == [
        "Plan a trip for Eve",
        "Where to?",
        "Plan a dinner for Eve",
    ]


def test_a_fork_of_a_fork_shows_no_more_than_both_fork_points_allow(family: Repository) -> None:
    deep = family.load("dinner").fork(id="deep", at=1)
    deep.append("user", "Sleep")
    deep.persist()
    family.holds.place("deep", reason="Case 7")
    assert family.redact("plan", 1).turns == (("plan", 1),)
    with pytest.raises(OnHold, match="'deep'"):
        family.redact("plan", 0)


def test_a_hold_on_a_copy_keeps_the_turn_that_it_repeats(family: Repository) -> None:
    family.load("dinner").detach()
    family.holds.place("dinner", reason="Case 7")
    with pytest.raises(OnHold, match="'dinner'"):
        family.redact("plan", 0)


def test_detaching_a_fork_on_hold_loses_nothing_and_goes_on(family: Repository) -> None:
    family.holds.place("dinner", reason="Case 7")
    family.load("dinner").detach()
    assert len(family.load("dinner")) == 3


def test_a_hold_ends_at_its_time_and_is_on_record(family: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = family.holds.place("side", reason="Case 7", until=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(OnHold, match="until"):
        family.delete("side")

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(days=2)

    monkeypatch.setattr("trails.history.hold_guard.datetime", Later)
    assert family.delete("side") == ["side"]
    assert [each.hold for each in family.holds.list()] == [hold]


def test_a_hold_that_says_nothing_is_refused(family: Repository) -> None:
    quads = len(family.store)
    for wrong in (
        {"reason": "x"},
        {"reason": " ", "principal": "alice"},
        {"reason": "x", "principal": "alice", "label": "trip"},
        {"reason": "x", "principal": "alice", "until": NOW - timedelta(days=1)},
        {"reason": "x", "query": "SELECT ?session { ?session trails:label 'nobody' }"},
        {"reason": "x", "query": "SELECT ?s { ?s a trails:Session }"},
        {"reason": "x", "meta": {}},
    ):
        with pytest.raises(InvalidInput):
            family.holds.place(**wrong)
    with pytest.raises(SessionNotFound):
        family.holds.place("nobody", reason="x")
    with pytest.raises(InvalidInput, match="no hold"):
        family.holds.lift("abc")
    assert len(family.store) == quads


def test_a_hold_is_lifted_once(family: Repository) -> None:
    hold = family.holds.place("side", reason="Case 7", by="counsel")
    closing = family.holds.lift(hold.token[:6], "settled", by="judge")
    assert (closing.by, closing.reason) == ("judge", "settled")
    assert not family.holds.list()[0].is_in_force()
    with pytest.raises(InvalidInput, match="closed already"):
        family.holds.lift(hold)


def test_a_hold_that_was_taken_out_by_hand_is_a_finding(family: Repository) -> None:
    hold = family.holds.place("side", reason="Case 7")
    assert family.verify().ok
    family.store.commit(
        trails.store.contract.Change(remove=family.store.quads((NamedNode(hold.iri), None, None, vocab.CATALOG)))
    )
    assert "rolled-back" in {each.code for each in family.verify().findings}


# --- at the same time


def placing_when(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, store: Repository) -> None:
    """Let a hold be placed by another writer after a removal looked at the store and before its commit."""
    real = getattr(where, name)
    done: list[bool] = []

    def late(*args: Any, **how: Any) -> Any:
        answer = real(*args, **how)
        if not done:
            done.append(True)
            store.holds.place(principal="bob", reason="Case 9")
        return answer

    monkeypatch.setattr(where, name, late)


def test_a_hold_that_comes_between_the_look_and_the_commit_wins(
    family: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    placing_when(monkeypatch, trails.history.hold_guard, "check_commit", family)
    with pytest.raises(OnHold):
        family.delete("side")
    assert "side" in family


def test_a_hold_that_comes_while_a_turn_is_redacted_wins(family: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    placing_when(monkeypatch, trails.history.hold_guard, "check_commit", family)
    with pytest.raises(OnHold):
        family.redact("side", 0)
    assert family.load("side").turns[0].text == "Buy bread for Eve"


# --- pruning, expiry, retention


def test_pruning_and_expiry_keep_what_is_held_and_what_it_depends_on(memory: Repository) -> None:
    for name in ("old", "held"):
        session = memory.create(id=name, expires=timedelta(microseconds=1))
        session.append("user", "Hi")
        session.persist()
    fork = memory.load("old").fork(id="fork")
    fork.append("user", "More")
    fork.persist()
    memory.holds.place("held", "fork", reason="Case 7")
    report = memory.prune(expired=True, dry_run=True)
    assert (report.sessions, report.held, report.needed) == ((), ("held",), ("old",))
    assert memory.prune(expired=True).sessions == ()
    assert memory.prune(keep_count=0).held == ("fork", "held")
    assert len(memory) == 3
    everything = memory.prune(older_than=timedelta(0))
    assert (everything.sessions, everything.held, everything.needed) == ((), ("fork", "held"), ("old",))


def test_a_dry_run_of_retention_names_exactly_what_goes_and_what_a_hold_keeps(family: Repository) -> None:
    family.holds.place("side", reason="Case 7")
    everything = family.retention.add(keep_for=timedelta(days=30), reason="policy 4", by="dpo")
    by_query = family.retention.add(query="SELECT ?session { ?session a trails:Session }")
    runs = family.retention.apply(dry_run=True)
    assert [(each.rule, each.pruning.sessions, each.pruning.held) for each in runs] == [
        (everything.token, (), ()),
        (by_query.token, ("dinner", "plan"), ("side",)),
    ]
    assert len(family) == 3
    applied = family.retention.apply(by="janitor")
    assert [each.pruning.sessions for each in applied] == [each.pruning.sessions for each in runs]
    assert [each.id for each in family] == ["side"]
    rules = {row["rule"] for row in family.select("deletions").to_dicts() if "rule" in row}
    assert rules == {f"retention: {by_query.token}"}
    assert family.verify().ok


def test_what_one_rule_takes_is_not_named_again_by_a_later_one(family: Repository) -> None:
    family.retention.add(query="SELECT ?session { ?session trails:label 'nobody' }")
    family.retention.add(query="SELECT ?session { VALUES ?session { <urn:trails:session:side> } }")
    family.retention.add(query="SELECT ?session { ?session a trails:Session }")
    runs = family.retention.apply(dry_run=True)
    assert [each.pruning.sessions for each in runs] == [(), ("side",), ("dinner", "plan")]


def test_a_rule_looks_at_its_principal_kind_and_metadata_alone(family: Repository) -> None:
    every = "SELECT ?session { ?session a trails:Session }"
    family.retention.add(query=every, principal="bob")
    family.retention.add(query=every, meta={"case": "7"})
    family.retention.add(query=every, kind="branch")
    runs = family.retention.apply(dry_run=True)
    assert [(each.pruning.sessions, each.pruning.needed) for each in runs] == [
        (("side",), ()),
        ((), ("plan",)),
        ((), ()),
    ]


def test_a_rule_that_was_ended_deletes_nothing(family: Repository) -> None:
    rule = family.retention.add(query="SELECT ?session { ?session a trails:Session }")
    family.retention.end(rule, "replaced", by="dpo")
    assert family.retention.apply() == []
    assert len(family) == 3
    assert family.retention.rules(standing=True) == []
    assert [each.ended and each.ended.reason for each in family.retention.rules()] == ["replaced"]


def test_a_rule_by_which_everything_would_go_at_once_is_refused(family: Repository) -> None:
    for wrong in ({}, {"keep_for": timedelta(0)}, {"keep_for": 30}, {"query": "SELECT ?s { ?s a trails:Session }"}):
        with pytest.raises(InvalidInput):
            family.retention.add(**wrong)
    assert family.retention.rules() == []


# --- elsewhere


def test_a_pull_keeps_the_text_of_a_turn_that_is_held_here(tmp_path: Path) -> None:
    with trails.open(tmp_path / "there", create=True) as there, trails.open(tmp_path / "here", create=True) as here:
        plan = there.create(id="plan")
        plan.append("user", "For Eve")
        plan.persist()
        trails.pull(here, ["plan"], there)
        here.holds.place("plan", reason="Case 7")
        there.redact("plan", 0)
        moved = trails.pull(here, ["plan"], there)
        assert here.load("plan").turns[0].text == "For Eve"
        assert any("hold" in text for each in moved.sessions for text in each.said)


def test_a_vacuum_loses_nothing_that_is_held(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        plan = store.create(id="plan")
        plan.append("user", "For Eve")
        plan.persist()
        store.holds.place("plan", reason="Case 7")
        store.maintenance.vacuum()
        assert store.load("plan").turns[0].text == "For Eve"
        assert store.verify().ok


def test_no_hold_is_placed_in_a_store_that_is_read_only(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        store.create(id="plan").persist()
    with trails.open(tmp_path / "store", read_only=True) as store:
        with pytest.raises(StoreReadOnly):
            store.holds.place("plan", reason="Case 7")
        with pytest.raises(StoreReadOnly):
            store.retention.add(keep_for=timedelta(days=1))


def test_a_hold_keeps_what_it_goes_by_until_it_is_lifted(family: Repository) -> None:
    every = [
        family.holds.place(principal="carol", reason="Case carol"),
        family.holds.place(label="of carol", reason="Case 8"),
        family.holds.place(meta={"who": "carol"}, reason="Case 9"),
    ]
    report = family.redact_matching("carol")
    assert [each.iri for each in report.left] == sorted(each.iri for each in every)
    assert [each.hold.reason for each in family.holds.list()] == ["redacted", "Case 8", "Case 9"]
    matching: list[dict[str, Any]] = [{"principal": "carol"}, {"label": "of carol"}, {"meta": {"who": "carol"}}]
    for number, asked in enumerate(matching):
        session = family.create(id=f"later{number}", **asked)
        session.append("user", "Hello")
        session.persist()
        with pytest.raises(OnHold):
            family.delete(session.id)
    assert family.verify().ok
    for hold in every:
        family.holds.lift(hold)
    assert family.redact_matching("carol").left == ()
    assert [each.hold.to_dict()["meta"] for each in family.holds.list()] == [None, None, "redacted"]
    assert family.delete("later2") == ["later2"]
    assert family.verify().ok


def test_a_rule_keeps_what_it_goes_by_until_it_is_ended(family: Repository) -> None:
    rule = family.retention.add(keep_for=timedelta(days=1), meta={"who": "carol"})
    assert [each.kind for each in family.redact_matching("carol").left] == ["register"]
    assert family.retention.rules()[0].rule == rule
    family.retention.end(rule)
    assert family.redact_matching("carol").left == ()


def test_a_hold_on_a_text_in_metadata_covers_the_number_that_is_written_so_as_lists_do(family: Repository) -> None:
    for name, value in (("seven", 7), ("text", "7"), ("half", 7.5), ("true", True), ("eight", 8)):
        session = family.create(id=name, meta={"number": value})
        session.append("user", "Hello")
        session.persist()
    for text, wanted in (("7", {"seven", "text"}), ("7.5", {"half"}), ("true", {"true"}), (7, {"seven"})):
        hold = family.holds.place(meta={"number": text}, reason="Case 7")
        assert set(hold.sessions) == wanted == {each.id for each in family.list(meta={"number": text})}
    with pytest.raises(OnHold):
        family.delete("seven")
    assert family.delete("eight") == ["eight"]


def test_the_system_prompt_that_a_fork_on_hold_shows_stays(memory: Repository) -> None:
    plan = memory.create(id="plan", system="You are a zebra")
    plan.append("user", "Hello")
    plan.persist()
    dinner = plan.fork(id="dinner", at=1)
    dinner.append("user", "Eat")
    dinner.persist()
    memory.holds.place("dinner", reason="Case 7")
    with pytest.raises(OnHold, match="'dinner'"):
        memory.redact_matching("zebra")
    assert memory.load("dinner").system == "You are a zebra"


@pytest.mark.parametrize("how", ["delete", "withhold"])
def test_the_task_that_a_session_on_hold_gave_stays(memory: Repository, how: str) -> None:
    runs = trails.Runs(memory, agent=lambda _: "answer")
    run = runs.spawn("agent:main:main", "Look at the secret plan")
    runs.work()
    requester = runs.session_of("agent:main:main")
    (child,) = (each.id for each in memory.list() if each.id != requester)
    assert requester is not None
    assert run.run_id is not None
    memory.holds.place(requester, reason="Case 7")
    with pytest.raises(OnHold):
        memory.delete(child) if how == "delete" else runs.withhold(run.run_id)
    assert runs.get(run.run_id).task == "Look at the secret plan"


@pytest.mark.parametrize("limit", [{"keep_count": 0}, {"keep_bytes": 0}])
def test_pruning_by_number_or_size_names_what_a_hold_kept(family: Repository, limit: dict[str, Any]) -> None:
    family.holds.place("side", reason="Case 7")
    for dry_run in (True, False):
        pruning = family.prune(**limit, dry_run=dry_run)
        assert (set(pruning.sessions), pruning.held) == ({"dinner", "plan"}, ("side",))
