"""An outcome comes back: one turn at a session's end, derived from the head of its fork, and nothing where either moved."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok
from trails import HeadConflict, InvalidInput, Repository, Session, Turn, aio
from trails.integrity import digests
from trails.integrity.verifier import answers, export
from trails.model.values import Derivation, Facts

pytestmark = pytest.mark.any_store


@pytest.fixture
def plan(store: Repository) -> Session:
    """plan (2 turns) <- try (at 1, own turns 1 to 3) <- deeper (at 3, own turn 3); plan <- bare (at 2, no turn of its own)."""
    plan = store.create(id="plan", label="trip", principal="alice", agent="planner")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Where to?")
    plan.persist()
    trial = plan.fork(at=1, id="try")
    trial.append("assistant", "By train?")
    trial.append("user", "Yes")
    trial.append("assistant", "It takes five hours.")
    trial.persist()
    deeper = trial.fork(at=3, id="deeper")
    deeper.append("assistant", "It takes six.")
    deeper.persist()
    plan.fork(id="bare").persist()
    return store.load("plan")


def test_the_last_answer_of_a_fork_comes_back_as_one_turn(plan: Session, store: Repository) -> None:
    head = store.load("try")[3]
    turn = plan.take("try")
    assert (turn.index, turn.role, turn.content, turn.author) == (2, "user", "It takes five hours.", "alice")
    assert turn.derived_from == Derivation(session_id="try", index=3, digest=head.digest)
    assert turn.derived_from.iri == head.iri
    again = store.load("plan")
    assert [each.content for each in again] == ["Plan a trip", "Where to?", "It takes five hours."]
    assert again[2].derived_from == turn.derived_from
    assert len(store.load("try")) == 4
    assert store.ask(f"ASK {{ GRAPH <urn:trails:session:plan> {{ ?t prov:wasDerivedFrom <{head.iri}> }} }}")
    assert store.verify().ok


def test_a_function_is_given_the_forks_own_turns_and_says_what_came_of_them(plan: Session) -> None:
    given: list[tuple[int, ...]] = []

    def summarise(turns: tuple[trails.Turn, ...]) -> str:
        given.append(tuple(turn.index for turn in turns))
        return f"{len(turns)} turns"

    assert plan.take("try", summarise).content == "3 turns"
    assert given == [(1, 2, 3)]


def test_the_outcome_of_a_forks_fork_is_of_all_that_the_session_has_not(plan: Session) -> None:
    seen: list[str] = []

    def summarise(turns: tuple[trails.Turn, ...]) -> str:
        seen.extend(f"{each.session_id}:{each.index}" for each in turns)
        return "Six"

    turn = plan.take("deeper", summarise)
    assert seen == ["try:1", "try:2", "deeper:3"]
    assert turn.derived_from is not None
    assert (turn.derived_from.session_id, turn.derived_from.index) == ("deeper", 3)


def test_a_dry_run_shows_the_turn_and_stores_nothing(plan: Session, store: Repository) -> None:
    before = len(store.store), store.store.log.lines()
    turn = plan.take("try", "Five hours", dry_run=True)
    assert (turn.index, turn.content, turn.derived_from is not None) == (2, "Five hours", True)
    assert (len(plan), plan.pending, len(store.load("plan"))) == (2, 0, 2)
    assert (len(store.store), store.store.log.lines()) == before
    assert plan.take("try", "Five hours").index == 2


def test_who_takes_is_the_author_and_the_role_may_be_another(plan: Session) -> None:
    turn = plan.take("try", "Five hours", role="system", by="agent:summariser")
    assert (turn.role, turn.author) == ("system", "summariser")


# --- what is refused


@pytest.mark.parametrize(
    ("fork", "said"),
    [("plan", "is no fork"), ("other", "is no fork"), ("bare", "no turns of its own"), ("try", "took the outcome")],
)
def test_what_has_no_outcome_to_take_is_refused(plan: Session, store: Repository, fork: str, said: str) -> None:
    store.create(id="other").persist()
    plan.take("try", "Once")
    with pytest.raises(InvalidInput, match=said):
        plan.take(fork, "Twice")
    assert len(store.load("plan")) == 3


def test_a_fork_that_went_on_can_be_taken_again(plan: Session, store: Repository) -> None:
    plan.take("try")
    with store.load("try") as trial:
        trial.append("assistant", "Four, as it turns out.")
    assert plan.take("try").content == "Four, as it turns out."
    assert store.verify().ok


def test_what_is_pending_is_stored_first(plan: Session) -> None:
    plan.append("user", "Wait")
    with pytest.raises(InvalidInput, match="persist it first"):
        plan.take("try")
    assert plan.pending == 1
    plan.discard_pending()


@pytest.mark.parametrize("summary", [3, lambda turns: None, lambda turns: 3, ["a"]])
def test_what_is_no_summary_is_refused(plan: Session, store: Repository, summary: object) -> None:
    with pytest.raises(InvalidInput):
        plan.take("try", summary)  # type: ignore[arg-type]
    assert len(store.load("plan")) == 2


def test_a_fork_without_an_answer_wants_a_summary(plan: Session) -> None:
    with plan.fork(id="asks") as asks:
        asks.append("user", "Anybody?")
    with pytest.raises(InvalidInput, match="no answer of its own"):
        plan.take("asks")
    assert plan.take("asks", "Nobody").content == "Nobody"


def test_a_session_of_another_store_is_refused(plan: Session) -> None:
    with (
        trails.open(":memory:") as other,
        other.create(id="try") as elsewhere,
        pytest.raises(InvalidInput, match="another store"),
    ):
        plan.take(elsewhere)


# --- who else writes


def test_a_fork_that_goes_on_while_its_outcome_is_told_is_noticed(plan: Session, store: Repository) -> None:
    def summarise(turns: tuple[trails.Turn, ...]) -> str:
        with store.load("try") as trial:
            trial.append("assistant", "Four!")
        return "Five"

    old = store.load("try").head
    with pytest.raises(HeadConflict, match="fork 'try' moved on") as told:
        plan.take("try", summarise)
    assert (told.value.expected, told.value.actual) == (old, store.load("try").head)
    assert (len(plan), len(store.load("plan"))) == (2, 2)


@pytest.mark.parametrize("index", [1, 3])
def test_what_is_redacted_while_an_outcome_is_told_does_not_come_back_in_it(
    plan: Session, store: Repository, index: int
) -> None:
    def summarise(turns: tuple[trails.Turn, ...]) -> str:
        store.redact("try", index)
        return " ".join(str(turn.content) for turn in turns)

    with pytest.raises(InvalidInput, match=f"turn {index} of session 'try' was redacted or deleted while the outcome"):
        plan.take("try", summarise)
    assert (len(plan), plan.pending, len(store.load("plan"))) == (2, 0, 2)
    assert plan.take("try", "It takes hours.").index == 2


def test_a_session_that_went_on_meanwhile_is_a_conflict_of_heads(plan: Session, store: Repository) -> None:
    with store.load("plan") as other:
        other.append("user", "I was first")
    with pytest.raises(HeadConflict) as told:
        plan.take("try")
    assert told.value.actual == store.load("plan").head
    assert len(store.load("plan")) == 3
    assert store.load("plan").take("try").index == 3


def test_a_function_that_fails_leaves_nothing(plan: Session, store: Repository) -> None:
    def broken(turns: tuple[trails.Turn, ...]) -> str:
        raise RuntimeError("the model is away")

    with pytest.raises(RuntimeError, match="away"):
        plan.take("try", broken)
    assert (plan.pending, len(store.load("plan"))) == (0, 2)


# --- what becomes of it


def test_redaction_deletion_and_exports_leave_a_taken_outcome_verifiable(
    plan: Session, store: Repository, tmp_path: Path
) -> None:
    from trails.exchange.file_import import export_session, import_path

    turn = plan.take("try", "The secret is five")
    file = tmp_path / "plan.nq"
    with file.open("wb") as out:
        export_session(store, "plan", "nquads", out)
    assert answers.report(export.Export(io.BytesIO(file.read_bytes())))["findings"] == []
    with trails.open(":memory:") as other:
        import_path(other, file)
        assert other.load("plan")[2].derived_from == turn.derived_from
        assert other.verify().ok
    store.redact("try", 3, by="alice")
    store.redact("plan", 2, by="alice")
    assert store.verify().ok
    store.delete("try", by="alice", children="cascade")
    assert store.verify().ok
    assert store.load("plan")[2].derived_from == turn.derived_from


def test_a_head_that_is_not_the_one_that_was_taken_is_found(plan: Session, store: Repository) -> None:
    turn = plan.take("try")
    wrong = f"urn:trails:session:try/2-{store.load('try')[2].digest[:16]}"
    swap = f"DELETE {{ GRAPH ?g {{ ?t prov:wasDerivedFrom ?h }} }} INSERT {{ GRAPH ?g {{ ?t prov:wasDerivedFrom <{wrong}> }} }}"
    assert store.store is not None
    engine = getattr(store.store, "settled_engine")()  # noqa: B009 - past Trails, as the owner of the disk
    engine.update(
        f"PREFIX prov: <http://www.w3.org/ns/prov#> {swap} WHERE {{ GRAPH ?g {{ ?t prov:wasDerivedFrom ?h }} }}"
    )
    assert turn.derived_from is not None
    assert not store.verify().ok


def test_the_digest_covers_the_head_that_was_taken_and_old_ones_are_as_they_were() -> None:
    of_a_result = Facts(derived_from=Derivation(session_id="r", number=7, digest="cd" * 32))
    taken = Facts(derived_from=Derivation(session_id="r", index=7, digest="cd" * 32))
    assert digests.facts_json(of_a_result, "") == '{"result":[7,"' + "cd" * 32 + '"]}'
    assert digests.facts_json(taken, "") == '{"taken":[7,"' + "cd" * 32 + '"]}'


# --- elsewhere


def test_the_command_takes_an_outcome_and_the_log_shows_it(run: Run, place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        plan = store.create(id="plan")
        plan.append("user", "Plan a trip")
        plan.persist()
        with plan.fork(id="try") as trial:
            trial.append("assistant", "Five hours.")
    dry = json.loads(ok(run("take", "plan", "try", "--dry-run", "--json")))
    assert (dry["stored"], dry["turn"]["content"]) == (False, "Five hours.")
    file = tmp_path / "summary.txt"
    file.write_text("It takes five hours.", "utf-8")
    made = json.loads(ok(run("take", "plan", "try", "--summary-from", str(file), "--json")))
    assert (made["stored"], made["turn"]["index"], made["turn"]["content"]) == (True, 1, "It takes five hours.")
    assert made["turn"]["derived_from"]["session_id"] == "try"
    assert "outcome of try" in ok(run("show", "plan"))
    assert "outcome of try@1" in ok(run("log", "plan"))
    both = run("take", "plan", "try", "--summary", "a", "--summary-from", str(file))
    assert (both.exit_code, "give one of them" in both.stderr) == (2, True)
    assert run("take", "plan", "try").exit_code == 2


def test_an_outcome_is_taken_in_an_event_loop_too() -> None:
    async def work() -> tuple[int, str]:
        async with await aio.open(":memory:") as store, store.session("plan") as plan:
            plan.append("user", "Plan a trip")
            await plan.persist()
            trial = await plan.fork(id="try")
            trial.append("assistant", "Five hours.")
            await trial.persist()
            turn = await plan.take(trial)
            return turn.index, str(turn.content)

    assert asyncio.run(work()) == (1, "Five hours.")


def test_a_fork_that_is_deleted_while_its_outcome_is_told_is_noticed(plan: Session, store: Repository) -> None:
    before = len(store.load("plan"))
    with plan.fork(id="gone") as gone:
        gone.append("assistant", "By air.")

    def summary(_: Sequence[Turn]) -> str:
        store.delete("gone")
        return "By air."

    with pytest.raises(InvalidInput, match="'gone' was deleted while its outcome was taken"):
        plan.take("gone", summary)
    assert (len(plan), plan.pending, len(store.load("plan"))) == (before, 0, before)


def test_a_handle_of_a_fork_with_turns_that_are_not_stored_is_refused(plan: Session) -> None:
    with plan.fork(id="half") as half:
        half.append("assistant", "By air.")
        half.persist()
        half.append("assistant", "No, by sea.")
        with pytest.raises(InvalidInput, match="'half' holds what is not stored"):
            plan.take(half)
    assert plan.take(half).content == "No, by sea."


def test_a_forks_fork_without_turns_of_its_own_has_no_outcome(plan: Session) -> None:
    with plan.fork(id="middle") as middle:
        middle.append("assistant", "By air.")
    middle.fork(id="unsaid").persist()
    with pytest.raises(InvalidInput, match="'unsaid' has no turns of its own"):
        plan.take("unsaid", "By air.")


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_summary_is_refused(plan: Session, text: str) -> None:
    for summary in (text, lambda _: text):
        with pytest.raises(InvalidInput, match="summary of fork 'try' is empty"):
            plan.take("try", summary)
    assert len(plan) == 2


def test_a_coroutine_is_refused_where_nothing_awaits_it(plan: Session) -> None:
    async def summary(_: Sequence[Turn]) -> str:
        return "never"

    with pytest.raises(InvalidInput, match=r"trails\.aio"):
        plan.take("try", summary)  # type: ignore[arg-type] # what a stranger gives
