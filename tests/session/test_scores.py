"""Scores stand beside the chain: of sessions, turns and spans, seen wherever those are, and covered by the log."""

from __future__ import annotations

import io
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped] # it ships no types
import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import Run, ok, ok_json
from tests.support.made_keys import MADE
from trails import InvalidInput, Repository, Score, SessionNotFound
from trails.exchange.rdf_files import export_session, import_rdf
from trails.model import iris
from trails.provenance import export, validate
from trails.rdf import vocab
from trails.rdf.score_records import score_quads, seal_score
from trails.store.contract import Change

pytestmark = pytest.mark.any_store

TOLD = "the launch code is swordfish"


def fill(store: Repository) -> None:
    """A root of three turns and its fork at 2 with one turn more."""
    plan = store.create(id="plan", principal="alice", agent="planner", label="trip")
    plan.append("user", "What is the code?")
    plan.append("assistant", TOLD)
    plan.append("user", "Thanks")
    plan.persist()
    fork = plan.fork(at=2, id="fork", principal="bob")
    fork.append("user", "And now?")
    fork.persist()


def seen(found: list[Score]) -> list[tuple[str, str, object]]:
    return [(score.ref, score.name, score.value) for score in found]


def everything(store: Repository) -> str:
    return "\n".join(str(quad) for quad in store.store.quads((None, None, None, None)))


# --- giving and reading


def test_a_session_a_turn_and_a_span_are_scored_by_whoever_is_named(store: Repository) -> None:
    fill(store)
    head = store.load("plan").head
    whole = store.score("trip", "accuracy", 0.5, by="agent:grader", version="1", reason="half of it")
    turn = store.score(("plan", 1), "tone", "polite", by="bob")
    span = store.score("plan#0:2", "useful", True)
    assert (whole.on, whole.session_id, whole.start, whole.end) == ("session", "plan", None, 3)
    assert (turn.on, turn.start, turn.end, turn.by_iri) == ("turn", 1, 2, "urn:trails:principal:bob")
    assert (span.on, span.start, span.end, span.by_iri) == ("span", 0, 2, "urn:trails:agent:unknown")
    assert (whole.by, whole.by_iri, whole.version, whole.reason) == (
        "grader",
        "urn:trails:agent:grader",
        "1",
        "half of it",
    )
    assert store.scores("plan") == [whole, span, turn] or store.scores("plan") == [whole, turn, span]
    assert store.scores("plan#1") == [turn]
    assert store.scores(("plan", 0, 2)) == [span]
    assert store.scores(name="useful") == [span]
    assert store.scores(by="agent:grader") == [whole]
    assert store.scores(version="2") == []
    assert store.load("plan").head == head
    assert store.verify().findings == ()


@pytest.mark.parametrize(
    "value", [0, 3, -(2**53), 0.1, 1 / 3, 5e-324, 1.7e308, True, False, "C", "3", "true", "1.10", " a\nb "]
)
def test_a_value_comes_back_as_it_was_given_and_of_its_type(memory: Repository, value: Any) -> None:
    fill(memory)
    memory.score("plan", "x", value)
    found = memory.scores("plan")[0].value
    assert (found, type(found)) == (value, type(value))
    assert memory.verify().ok


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, [1], 2**53 + 1, "", "  ", "\ud800", {}, b"x"])
def test_what_is_no_score_is_refused_and_nothing_is_written(memory: Repository, value: Any) -> None:
    fill(memory)
    before = everything(memory)
    with pytest.raises(InvalidInput):
        memory.score("plan", "x", value)
    assert everything(memory) == before


def test_what_is_not_there_gets_no_score(memory: Repository) -> None:
    fill(memory)
    memory.load("plan").append("user", "pending")
    refs: list[Any] = [
        "plan#3",
        ("plan", 3),
        ("plan", 2, 2),
        ("plan", 0, 9),
        ("plan", -1),
        ("plan", True),
        ("plan",),
        3,
    ]
    for ref in refs:
        with pytest.raises(InvalidInput):
            memory.score(ref, "x", 1)
    for unknown in ("plan@3", "nothing", "nothing#1"):
        with pytest.raises((SessionNotFound, InvalidInput)):
            memory.score(unknown, "x", 1)
    for name in ("", " x", "a\nb", "x" * 201):
        with pytest.raises(InvalidInput, match="a score's name"):
            memory.score("plan", name, 1)
    assert memory.scores() == []


def test_a_turn_is_scored_by_its_value_and_by_its_iri_and_another_one_in_its_place_is_not(memory: Repository) -> None:
    fill(memory)
    turn = memory.load("fork").turns[1]
    assert memory.score(turn, "x", 1).ref == "plan#1"
    assert memory.score(turn.iri, "x", 2).ref == "plan#1"
    with pytest.raises(InvalidInput, match="with another digest"):
        memory.score(turn.iri[:-16] + "0" * 16, "x", 3)
    assert seen(memory.scores(turn)) == [("plan#1", "x", 2)]


def test_a_name_that_could_mean_two_things_is_refused(memory: Repository) -> None:
    fill(memory)
    odd = memory.create(id="plan#1")
    odd.append("user", "I am odd")
    odd.persist()
    with pytest.raises(InvalidInput, match="names a session, and turns of 'plan'"):
        memory.score("plan#1", "x", 1)
    assert memory.score(iris.session("plan#1"), "x", 1).on == "session"
    assert memory.score(("plan", 1), "x", 1).on == "turn"


def test_a_session_without_turns_can_be_scored(memory: Repository) -> None:
    memory.create(id="empty").persist()
    assert (memory.score("empty", "x", 1).end, memory.verify().findings) == (0, ())


def test_a_tag_is_the_span_of_turns_that_it_stands_for(memory: Repository) -> None:
    fill(memory)
    memory.tags.add("v1", "plan@2")
    memory.tags.add("none", "plan@0")
    made = memory.score("v1", "x", 1)
    assert (made.ref, memory.scores("v1")) == ("plan#0:2", [made])
    with pytest.raises(InvalidInput, match="are none"):
        memory.score("none", "x", 1)


def test_numbers_and_texts_of_other_classes_are_kept_as_what_they_are(memory: Repository) -> None:
    class Grade(str, Enum):  # noqa: UP042 - unlike a StrEnum, it does not show itself as its text
        GOOD = "good"

    fill(memory)
    given: tuple[Any, ...] = (np.float32(0.5), np.int64(3), np.bool_(True), np.str_("x"), Grade.GOOD)
    kept = [memory.score("plan", "x", value).value for value in given]
    assert [(value, type(value)) for value in kept] == [(0.5, float), (3, int), (True, bool), ("x", str), ("good", str)]
    assert [score.value for score in memory.scores("plan", history=True)] == kept
    with pytest.raises(InvalidInput, match="ndarray"):
        memory.score("plan", "x", np.array([1]))  # type: ignore[arg-type] # no score


def test_what_could_be_no_name_or_version_is_refused_when_it_is_asked_for(memory: Repository) -> None:
    wrong: list[dict[str, Any]] = [{"name": 3}, {"name": ""}, {"version": ""}, {"by": ""}]
    for options in wrong:
        with pytest.raises(InvalidInput):
            memory.scores(**options)


def test_a_list_of_scores_is_a_table_too(memory: Repository) -> None:
    fill(memory)
    memory.score("plan#1", "x", 0.5, by="agent:grader", version="1", reason="<so>")
    memory.score("plan", "x", 1, by="bob")
    found = memory.scores("plan")
    assert found.table().column("value") == [1, 0.5]
    assert found.table().kinds["value"] == "number"
    frame = found.to_pandas()
    assert list(frame["by"]) == ["bob", "grader"]
    assert [None if start is pd.NA else start for start in frame["start"]] == [None, 1]
    assert "&lt;so&gt;" in found._repr_html_()
    assert repr(found).splitlines()[:3] == [
        "<Scores: 2 scores>",
        "name  session   value  start  end  by      reason  version  time",
        f"x     plan          1           3  bob                      {found[0].time:%Y-%m-%d %H:%M}",
    ]
    assert memory.scores("plan", "none").table().rows == []


# --- what counts


def test_of_several_by_one_scorer_in_one_version_the_newest_counts_and_the_others_are_history(
    store: Repository,
) -> None:
    fill(store)
    for value in (1, 2, 3):
        store.score("plan", "x", value, by="agent:grader", version="1")
    store.score("plan", "x", 4, by="agent:grader", version="2")
    store.score("plan", "x", 5, by="bob")
    assert [score.value for score in store.scores("plan")] == [3, 4, 5]
    assert [score.value for score in store.scores("plan", history=True)] == [1, 2, 3, 4, 5]
    times = [score.time for score in store.scores("plan", by="agent:grader", version="1", history=True)]
    assert times == sorted(set(times))


def test_a_turn_and_a_span_that_ends_with_it_are_two_things(memory: Repository) -> None:
    fill(memory)
    memory.score("plan#1", "x", 1, by="bob")
    memory.score("plan#0:2", "x", 2, by="bob")
    assert {score.value for score in memory.scores("plan")} == {1, 2}


def test_zero_has_no_sign(memory: Repository) -> None:
    fill(memory)
    assert math.copysign(1, float(memory.score("plan", "x", -0.0).value)) == 1
    assert memory.verify().ok


def test_a_score_given_now_counts_though_one_says_that_it_is_from_tomorrow(memory: Repository) -> None:
    fill(memory)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    memory.score("plan", "x", "then", time=tomorrow)
    memory.score("plan", "x", "now")
    assert seen(memory.scores("plan")) == [("plan", "x", "now")]


def test_the_same_id_again_writes_nothing_and_another_score_by_it_is_refused(memory: Repository) -> None:
    fill(memory)
    first = memory.score("plan", "x", 1, id="inspect/7", by="bob")
    before = everything(memory)
    assert memory.score("plan", "x", 1, id="inspect/7", by="bob") == first
    with pytest.raises(InvalidInput, match="there is a score 'inspect/7' already, and it is another one"):
        memory.score("plan", "x", 2, id="inspect/7", by="bob")
    assert everything(memory) == before


def test_the_id_of_a_score_that_was_removed_is_not_used_again(memory: Repository) -> None:
    fill(memory)
    memory.score("plan", "x", 1, id="a/b c")
    memory.remove_score("a/b c")
    with pytest.raises(InvalidInput, match="was removed, and its id is not used again"):
        memory.score("plan", "x", 1, id="a/b c")
    assert memory.scores() == []


# --- with forks and copies


def test_a_score_of_a_turn_is_seen_from_every_session_that_has_it_and_one_of_a_session_from_no_other(
    store: Repository,
) -> None:
    fill(store)
    store.score("fork#1", "inherited", 1)  # the turn is the root's
    store.score("plan#2", "after", 2)
    store.score("fork#0:3", "span", 3)  # it ends with the fork's own turn
    store.score("plan", "whole", 4)
    store.load("fork").flatten(id="flat")
    assert {name for _, name, _ in seen(store.scores("plan"))} == {"inherited", "after", "whole"}
    assert {name for _, name, _ in seen(store.scores("fork"))} == {"inherited", "span"}
    assert {name for _, name, _ in seen(store.scores("flat"))} == {"inherited", "span"}
    assert store.verify().findings == ()


def test_a_deleted_session_takes_its_scores_along_and_leaves_those_of_turns_that_another_has(store: Repository) -> None:
    fill(store)
    store.load("fork").flatten(id="flat")
    store.score("fork#2", "moves", 1)
    store.score("fork", "goes", 2)
    store.delete("fork")
    assert seen(store.scores()) == [("flat#2", "moves", 1)]
    assert store.verify().findings == ()
    store.delete("flat")
    assert store.scores() == []
    assert store.verify().findings == ()


def test_a_score_that_moved_on_is_not_brought_back_a_second_time(store: Repository) -> None:
    fill(store)
    store.load("fork").flatten(id="flat")
    store.score("fork#2", "moves", 1)
    file = io.BytesIO()
    export_session(store, "fork", "nquads", file)
    store.delete("fork")
    import_rdf(store, file.getvalue(), "nquads", restore=True)
    assert seen(store.scores("fork")) == seen(store.scores("flat")) == [("flat#2", "moves", 1)]
    assert store.verify().findings == ()


# --- the log


def alter(store: Repository, remove: list[Quad], add: list[Quad]) -> None:
    """Write past the session layer, as the disk's owner could."""
    store.store.commit(Change(add=add, remove=remove))


def test_a_score_that_was_altered_is_found(store: Repository) -> None:
    fill(store)
    node = NamedNode(iris.score(store.score("plan", "x", 1).id))
    old, new = (Quad(node, vocab.SCORE_VALUE, Literal(value), vocab.CATALOG) for value in (1, 2))
    alter(store, [old], [new])
    assert not store.verify().ok


def test_a_score_that_vanished_is_found(store: Repository) -> None:
    fill(store)
    node = NamedNode(iris.score(store.score("plan", "x", 1).id))
    alter(store, store.store.quads((node, None, None, vocab.CATALOG)), [])
    assert not store.verify().ok


def test_a_score_of_turns_that_are_not_there_is_found(store: Repository) -> None:
    fill(store)
    node = NamedNode(iris.score(store.score("plan#1", "x", 1).id))
    (old,) = store.store.quads((node, vocab.SCORED_UP_TO, None, vocab.CATALOG))
    alter(store, [old], [Quad(node, vocab.SCORED_UP_TO, Literal(9), vocab.CATALOG)])
    assert "bad-score" in {finding.code for finding in store.verify().findings}


def test_a_score_with_a_digest_of_its_own_that_names_another_turn_is_found(store: Repository) -> None:
    fill(store)
    made = store.score("plan#1", "x", 1)
    moved = seal_score(made.model_copy(update={"start": 0, "end": 1}))
    alter(store, score_quads(made), score_quads(moved))
    assert "bad-score" in {finding.code for finding in store.verify().findings}


# --- taking away


def test_a_score_that_is_removed_leaves_who_did_it_and_none_of_its_words(store: Repository) -> None:
    fill(store)
    gone = store.score("plan", "tone", "sly", by="bob", reason="he winked")
    assert store.remove_score(gone.id, by="carol") == gone
    assert store.scores(history=True) == []
    assert "sly" not in everything(store)
    assert "winked" not in everything(store)
    (removal,) = store.store.quads((None, vocab.REMOVED_SCORE, Literal(gone.id), vocab.CATALOG))
    who = Quad(removal.subject, vocab.ASSOCIATED_WITH, NamedNode(iris.principal("carol")), vocab.CATALOG)
    assert who in store.store.quads((None, vocab.ASSOCIATED_WITH, None, vocab.CATALOG))
    with pytest.raises(InvalidInput, match="there is no score"):
        store.remove_score(gone.id)
    assert store.verify().findings == ()


def test_a_redaction_names_the_scores_that_may_repeat_the_turn_and_a_text_is_taken_out_of_them(
    store: Repository,
) -> None:
    fill(store)
    about = store.score("plan#1", "safe", False, reason="it tells")
    holds = store.score("plan", "leak", TOLD)
    store.score("plan#1", "length", 5)
    assert set(store.redact("plan", 1).scores) == {about.id, holds.id}
    assert {place.kind for place in store.redact_matching(TOLD).places} == {"score"}
    assert "swordfish" not in everything(store)
    assert len(store.scores("plan")) == 3
    assert store.verify().findings == ()


def test_a_scorer_a_version_and_a_name_are_taken_out_too(store: Repository) -> None:
    fill(store)
    given: dict[str, Any] = {"by": "mallory", "version": "by mallory", "reason": "mallory said so"}
    store.score("plan", "what mallory likes", "mallory", **given)
    store.score("plan", "x", 1, by="mallory")
    kinds = {place.kind for place in store.redact_matching("mallory").places}
    assert kinds >= {"name", "reason", "score", "score name", "scorer version"}
    assert "mallory" not in everything(store)
    assert len(store.scores("plan")) == 2
    assert store.verify().findings == ()


def test_a_secret_in_a_score_is_found(memory: Repository) -> None:
    from trails.history.lookup.session_quads import scan_session

    fill(memory)
    memory.score("plan#1", "leak", True, reason=f"it says {MADE['aws-access-key'](3)} aloud")
    assert [(each.where, each.index) for each in scan_session(memory.workspace, "plan").found] == [("score", 1)]


# --- travelling


def test_scores_travel_with_an_export_once_and_stay_away_where_they_were_removed(store: Repository) -> None:
    fill(store)
    store.score("plan", "x", 0.5, by="agent:grader", version="1", reason="so")
    store.score("plan#1", "y", "b", by="bob")
    file = io.BytesIO()
    export_session(store, "plan", "nquads", file)
    with trails.open(":memory:") as other:
        for _ in range(2):
            import_rdf(other, file.getvalue(), "nquads")
            assert other.scores("plan") == store.scores("plan")
        assert other.verify().findings == ()
        other.remove_score(other.scores("plan", "x")[0].id)
        import_rdf(other, file.getvalue(), "nquads")
        assert seen(other.scores("plan")) == [("plan#1", "y", "b")]


def test_scores_are_pushed_also_when_nothing_else_is_new(memory: Repository) -> None:
    fill(memory)
    memory.score("plan", "x", 1)
    with trails.open(":memory:") as other:
        trails.push(memory, ["plan"], other)
        memory.score("plan", "x", 2)
        trails.push(memory, ["plan"], other)
        assert seen(other.scores("plan")) == [("plan", "x", 2)]
        assert other.verify().findings == ()


def test_a_backup_holds_the_scores(place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        fill(store)
        store.score("plan", "x", 1)
        store.maintenance.backup(tmp_path / "copy")
    with trails.open(tmp_path / "copy") as copy:
        assert seen(copy.scores()) == [("plan", "x", 1)]
        assert copy.verify().findings == ()


# --- the commands


def test_the_commands_give_list_and_remove_scores(place: Path, run: Run) -> None:
    with trails.open(place, create=True) as store:
        fill(store)
    line = ("score", "plan#1", "accuracy", "0.5", "--by", "agent:grader", "--version", "2", "--json")
    made = ok_json(run(*line))["score"]
    assert (made["on"], made["start"], made["value"], made["by"], made["version"]) == ("turn", 1, 0.5, "grader", "2")
    ok(run("score", "plan", "passed", "true"))
    ok(run("score", "plan", "grade", "7", "--text", "--reason", "a seven"))
    ok(run("score", "plan", "loss", "--", "-3"))
    listed = ok_json(run("scores", "plan", "--json"))["scores"]
    assert {each["name"]: each["value"] for each in listed} == {
        "accuracy": 0.5,
        "passed": True,
        "grade": "7",
        "loss": -3,
    }
    assert "a seven" in ok(run("scores", "plan", "--name", "grade"))
    ok(run("score", "--remove", made["id"]))
    assert len(ok_json(run("scores", "--json"))["scores"]) == 3


@pytest.mark.parametrize(
    "line",
    [
        ["plan"],
        ["plan", "x"],
        ["plan", "x", "1", "--remove", "y"],
        ["--remove", "y"],
        ["plan#9", "x", "1"],
        ["plan", "x", "NaN"],
        ["plan", "x", "inf"],
        ["plan", "x", ".5"],
        ["plan", "x", "1_000"],
        ["plan", "x", "1e400"],
        ["plan", "x", "True"],
        ["plan", "x", "FALSE"],
    ],
)
def test_a_command_that_scores_nothing_is_refused(place: Path, run: Run, line: list[str]) -> None:
    with trails.open(place, create=True) as store:
        fill(store)
    assert run("score", *line).exit_code != 0
    assert ok_json(run("scores", "--json"))["scores"] == []


def test_in_prov_a_score_is_an_activity_that_used_the_session_and_its_scorer_is_associated(memory: Repository) -> None:
    fill(memory)
    made = memory.score("plan", "x", 0.5, by="agent:grader", version="1")
    out = io.BytesIO()
    export(memory, out, format="provn", session="plan", recorded_only=True)
    said = [line for line in out.getvalue().decode().splitlines() if made.id in line]
    assert [line.partition("(")[0] for line in said] == ["activity", "wasAssociatedWith", "used"]
    assert "agent:grader" in said[1]
    assert "session:plan" in said[2]
    assert validate(memory).findings == []


def test_scores_that_are_given_at_once_are_all_kept(store: Repository) -> None:
    fill(store)

    def give(number: int) -> str:
        return store.score("plan#1", "x", number, by="agent:grader").id

    with ThreadPoolExecutor(4) as pool:
        given = set(pool.map(give, range(20)))
    assert {score.id for score in store.scores("plan#1", history=True)} == given
    assert len(given) == 20
    assert len(store.scores("plan#1")) == 1
    assert store.verify().findings == ()
