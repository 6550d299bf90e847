"""Inspect's logs: a session a sample and epoch, branches as forks that share, sub-agents as spawned sessions."""

from __future__ import annotations

import io
import json
import os
import sys
import tracemalloc
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.inspect_logs import HEADER, as_eval, as_json, as_zip, model_event, said, sample, span
from tests.support.machines import examples
from trails import Repository
from trails.errors import InvalidInput
from trails.exchange import containers
from trails.exchange.file_import import import_bytes, import_path
from trails.exchange.formats import format_named
from trails.exchange.source_transcript import SourceSession, Transcript
from trails.exchange.traces import inspect_log

LOGS = (
    "branches.json", "log_formats.eval", "log_formats.json", "log_message_deduplication.eval",
    "log_tool_call_error.json", "odd_samples.eval", "security-guide.eval", "sub_agents.json",
    "tools_epochs.chunked.eval", "tools_epochs.eval", "websearch.eval",
)  # fmt: skip
WITH_ZSTD = ("odd_samples.eval", "tools_epochs.eval", "tools_epochs.chunked.eval")


def need_zstd() -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("zstandard", reason="the package zstandard (extra zstd) is not installed")


def parsed(data: bytes, name: str = "log") -> Transcript:
    return format_named("inspect").read([(name, data)])


def only(data: bytes) -> SourceSession:
    [session] = parsed(data).sessions
    return session


def texts(path: Any) -> list[Any]:
    return [turn.content for turn in path]


# --- real logs


@pytest.mark.parametrize("name", LOGS)
def test_a_real_log_has_the_samples_messages_roles_and_events_that_were_counted(shared: Path, name: str) -> None:
    if name in WITH_ZSTD:
        need_zstd()
    expected = json.loads((shared / "data/research/data_research_expectations.json").read_text())
    counted = expected[f"inspect/{name.replace('.chunked', '')}"]
    found = parsed((shared / "data/research/inspect" / name).read_bytes())
    samples = [session for session in found.sessions if session.spawned_by is None]
    assert not found.problems
    assert len(samples) == counted["samples"]
    assert sum(len(session.paths[0]) for session in samples) == counted["messages"]
    assert Counter(turn.role for session in samples for turn in session.paths[0]) == counted["roles"]
    calls = Counter(call["name"] for session in samples for turn in session.paths[0] for call in turn.tool_calls)
    assert calls == counted["tool_calls"]
    by_sample = {(session.meta["sample_id"], session.meta["epoch"]): session for session in samples}
    for one in counted["per_sample"]:
        session = by_sample[one["id"], one["epoch"]]
        assert len(session.paths[0]) == one["messages"]
        answers = [turn for turn in session.paths[0] if turn.role == "tool"]
        told = [[turn.tool_call_id, turn.meta.get("function")] for turn in answers]
        assert told == [each[:2] for each in one["tool_results"]]
        assert [turn.is_error for turn in answers] == [each[2] is not None for each in one["tool_results"]]
        assert ("error" in session.meta) == (one["error"] is not None)
        values: dict[str, Any] = {}
        for name_, value in one["scores"].items():
            values |= (
                {f"{name_}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name_: value}
            )
        assert {score.name: score.value for score in session.scores} == values
        forks = session.paths[1:]
        assert [len(path) for path in forks] == [each["length_with_prefix"] for each in one.get("branch_spans", [])]


def test_branches_fork_where_they_leave_the_line_above_and_share_what_is_before(
    store: Repository, shared: Path
) -> None:
    report = import_path(store, shared / "data/research/inspect/branches.json")
    assert (len(report.sessions_created), len(report.forks_created), report.problems) == (2, 6, [])
    root = "inspect:C47LkvZPv2xdvEZvoGyHdf:hello:1"
    forks = [store.load(each) for each in report.forks_created if each.startswith(f"{root}~")]
    named = {
        own[0].meta["branch"]: fork for fork in forks if (own := [t for t in fork.turns if t.session_id == fork.id])
    }
    at = {name: fork.forked_at_index for name, fork in named.items()}
    assert at == {"branch-a": 2, "branch-b": 2, "branch-b-a": 4}
    assert named["branch-b-a"].turns[3].session_id == named["branch-b"].id
    assert named["branch-a"].turns[-1].text == "Bonjour."
    assert {fork.meta["task"] for fork in forks} == {"branches"}


def test_a_sub_agent_is_a_session_that_the_samples_spawned_and_a_hand_off_is_not(
    store: Repository, shared: Path
) -> None:
    report = import_path(store, shared / "data/research/inspect/sub_agents.json")
    sample_id, agent_id = report.sessions_created
    agent = store.load(agent_id)
    assert [turn.role for turn in agent.turns] == ["system", "user", "assistant", "tool", "assistant"]
    assert (agent.agent, store.record(agent_id).spawned_by) == ("researcher", sample_id)
    assert agent.turns[-1].text == "The fox is quick and brown."
    assert len(store.load(sample_id)) == 10


def test_importing_a_log_again_adds_nothing(store: Repository, shared: Path) -> None:
    first = import_path(store, shared / "data/research/inspect/branches.json")
    again = import_path(store, shared / "data/research/inspect/branches.json")
    assert (again.turns_added, again.sessions_created, again.forks_created, again.changed) == (0, [], [], [])
    assert first.turns_added == 2 * (4 + 2 + 4 + 2)


def test_chunks_and_whole_samples_say_the_same(shared: Path) -> None:
    need_zstd()
    folder = shared / "data/research/inspect"
    one, other = (parsed((folder / f"tools_epochs{each}.eval").read_bytes()) for each in ("", ".chunked"))
    whole, chunked = ({session.id: session.paths for session in each.sessions} for each in (one, other))
    assert chunked == whole


# --- a sample


HI = said("user", "hi", "m1")
HELLO = said("assistant", "hello", "m2")


def test_a_sample_is_a_session_named_by_its_log_its_id_and_its_epoch_with_what_it_was_run_with() -> None:
    one = sample(
        [HI, HELLO], target="hello", error={"message": "broke"}, limit={"type": "time"}, metadata={"hard": True}
    )
    session = only(as_eval(one))
    assert session.id == "ev:1:1"
    kept = {
        name: session.meta[name] for name in ("task", "model", "epoch", "sample_id", "dataset", "target", "eval_id")
    }
    assert kept == {
        "task": "sums",
        "model": "mockllm/model",
        "epoch": 1,
        "sample_id": 1,
        "dataset": "numbers",
        "target": "hello",
        "eval_id": "ev",
    }
    assert session.meta["error"] == {"message": "broke"}
    assert session.meta["limit"] == {"type": "time"}
    assert session.meta["sample_metadata"] == {"hard": True}


def test_epochs_are_sessions_of_their_own(memory: Repository) -> None:
    report = import_bytes(memory, as_json(sample([HI, HELLO]), {**sample([HI, HELLO]), "epoch": 2}))
    assert report.sessions_created == ["inspect:ev:1:1", "inspect:ev:1:2"]
    assert report.forks_created == []
    assert [memory.load(each).meta["epoch"] for each in report.sessions_created] == [1, 2]


def test_the_ids_three_and_the_text_three_are_two_samples() -> None:
    found = parsed(as_json(sample([HI]), {**sample([HI]), "id": "1"}))
    assert [session.id for session in found.sessions] == ["ev:1:1", 'ev:"1":1']


def test_a_message_gets_time_usage_and_reason_from_the_event_that_made_it() -> None:
    answer = said(
        "assistant", "", "m2", tool_calls=[{"id": "c", "function": "add", "arguments": {"x": 1}, "type": "function"}]
    )
    result = said("tool", "", "m3", tool_call_id="c", function="add", error={"type": "timeout", "message": "too slow"})
    ran = {
        "event": "tool",
        "id": "c",
        "message_id": "m3",
        "timestamp": "2026-01-02T03:05:00+00:00",
        "completed": "2026-01-02T03:05:09+00:00",
    }
    _, call, answered = only(
        as_json(sample([HI, answer, result], events=[model_event("s", [[0, 1]], answer), ran], pool=[HI]))
    ).paths[0]
    assert call.time is not None
    assert call.time.second == 7
    assert (call.model, call.usage, call.stop_reason) == (
        "mockllm/model",
        {"input_tokens": 7, "output_tokens": 3},
        "stop",
    )
    assert call.tool_calls == ({"id": "c", "name": "add", "arguments": {"x": 1}},)
    [told] = answered.tool_results
    assert isinstance(told, dict)
    assert (answered.is_error, told["outcome"], told["ended"].second) == (True, "timed-out", 9)
    assert answered.meta["error"] == {"type": "timeout", "message": "too slow"}


def test_texts_kept_beside_the_sample_are_put_in_anywhere_and_missing_ones_are_reported() -> None:
    one, none = "a" * 32, "b" * 32
    content = [{"type": "text", "text": f"see attachment://{one} and attachment://{none}"}]
    found = parsed(as_json(sample([said("user", content, "m1")], attachments={one: "the long text"})))
    assert found.sessions[0].paths[0][0].content == [
        {"type": "text", "text": f"see the long text and attachment://{none}"}
    ]
    assert any("1 attachment(s) are not in the log" in note for note in found.notes)


BRANCH = [
    span("b", "branch", "other"),
    {"event": "branch", "span_id": "b", "from_anchor": "m2"},
]


def test_a_branch_that_replays_its_past_makes_no_turn_for_it_and_forks_where_its_first_call_leaves() -> None:
    again, more, done = said("assistant", "hello", "x2"), said("user", "more", "x3"), said("assistant", "done", "x4")
    events = [
        model_event("s", [[0, 1]], HELLO),
        BRANCH[0],
        model_event("b", [[0, 1]], again),
        BRANCH[1],
        model_event("b", [[0, 3]], done),
    ]
    trunk = [HI, HELLO, said("user", "bye", "m3")]
    found = parsed(as_json(sample(trunk, events=events, pool=[HI, again, more])))
    main, fork = found.sessions[0].paths
    assert texts(main) == ["hi", "hello", "bye"]
    assert texts(fork) == ["hi", "hello", "more", "done"]
    assert fork[:2] == main[:2]
    assert any("1 model call(s) replay" in note for note in found.notes)


def test_two_branches_that_begin_with_the_same_words_fork_at_the_same_turn(memory: Repository) -> None:
    go = said("user", "go on", "m3")
    events = [
        *BRANCH,
        model_event("b", [[0, 3]], said("assistant", "left", "x1")),
        span("c", "branch", "third"),
        {"event": "branch", "span_id": "c", "from_anchor": "m2"},
        model_event("c", [[0, 3]], said("assistant", "right", "x2")),
    ]
    report = import_bytes(memory, as_json(sample([HI, HELLO], events=events, pool=[HI, HELLO, go])))
    forks = [memory.load(each) for each in report.forks_created]
    assert [[turn.text for turn in fork.turns] for fork in forks] == [
        ["hi", "hello", "go on", "left"],
        ["hi", "hello", "go on", "right"],
    ]
    assert len(memory.load("inspect:ev:1:1")) == 2


def test_a_branch_span_without_a_branch_event_is_ordinary_content() -> None:
    events = [BRANCH[0], model_event("b", [[0, 1]], HELLO)]
    found = parsed(as_json(sample([HI, HELLO], events=events, pool=[HI])))
    assert len(found.sessions[0].paths) == 1
    assert not any("replay" in note for note in found.notes)


def test_an_agent_that_was_handed_the_conversation_speaks_in_it() -> None:
    events = [
        span("h", "handoff", "writer"),
        span("t", "tool", "transfer_to_writer", "h"),
        span("g", "agent", "writer", "t"),
        model_event("g", [[0, 1]], HELLO),
    ]
    assert len(parsed(as_json(sample([HI, HELLO], events=events, pool=[HI]))).sessions) == 1


def test_chunks_are_ordered_by_their_numbers_and_not_as_texts() -> None:
    fillers = [{"event": "info", "data": n} for n in range(9)]
    events = [*fillers, *BRANCH, model_event("b", [[0, 1]], said("assistant", "other", "x1"))]
    whole = sample([], events=[], pool=[])
    shell = {key: whole[key] for key in ("id", "epoch")} | {"message_refs": [[0, 2]]}
    folder = "samples/1_epoch_1"
    chunks = {f"{folder}/events/{n}.json": [event] for n, event in enumerate(events)}
    data = as_eval(**{f"{folder}/sample.json": shell, f"{folder}/messages/0.json": [HI, HELLO], **chunks})
    assert [texts(path) for path in only(data).paths] == [["hi", "hello"], ["hi", "other"]]


def test_calls_that_no_message_tells_are_counted_and_those_of_an_agent_are_a_session() -> None:
    aside, inner = said("assistant", "aside", "a1"), said("assistant", "inner", "a2")
    events = [
        model_event("s", [[0, 1]], HELLO),
        model_event("s", [[0, 1]], aside),
        span("g", "agent", "helper"),
        model_event("g", [[0, 1]], inner),
        span("j", "scorer", "judge"),
        model_event("j", [[0, 1]], aside),
    ]
    found = parsed(as_json(sample([HI, HELLO], events=events, pool=[HI])))
    assert [(session.id, session.spawned_by) for session in found.sessions] == [
        ("ev:1:1", None),
        ("ev:1:1:agent-g", "ev:1:1"),
    ]
    assert "log: 1 model call(s) have an answer that is in no message of the conversation; not kept" in found.notes
    assert any("1 model call(s) of the scorer judge" in note for note in found.notes)


def test_what_of_a_log_is_not_kept_is_said() -> None:
    found = parsed(as_json(sample([HI], timelines=[{"name": "t"}]), results={"scores": [1]}))
    assert "log: 1 sample(s) have timelines, which is not kept" in found.notes
    assert "log: results: figures over all samples, not kept" in found.notes


def test_a_message_that_cannot_be_kept_costs_itself() -> None:
    found = parsed(as_json(sample([HI, {"content": "no role"}, HELLO])))
    assert texts(found.sessions[0].paths[0]) == ["hi", "hello"]
    assert "message 1 cannot be kept" in found.problems[0].reason


# --- scores


SCORED = {
    "match": {"value": "C", "explanation": "equal", "answer": "hello"},
    "rubric": {"value": {"tone": 0.5, "ok": True}},
}


def test_scores_come_with_their_scorer_and_reason_and_again_add_nothing(store: Repository) -> None:
    log_ = as_json(sample([HI, HELLO], scores=SCORED, completed_at="2026-01-02T03:04:09+00:00"))
    first, again = import_bytes(store, log_), import_bytes(store, log_)
    assert (first.scores_added, again.scores_added) == (3, 0)
    found = {score.name: score for score in store.scores("inspect:ev:1:1")}
    assert {name: score.value for name, score in found.items()} == {"match": "C", "rubric.tone": 0.5, "rubric.ok": True}
    assert (found["match"].by, found["match"].reason) == ("match", "equal")
    assert found["match"].time.second == 9
    assert store.load("inspect:ev:1:1").meta["score_details"] == {"match": {"answer": "hello"}}
    assert store.verify().ok


def test_a_score_that_says_the_same_at_another_time_is_the_same(memory: Repository) -> None:
    for minute in (4, 5):
        done = f"2026-01-02T03:0{minute}:00+00:00"
        report = import_bytes(memory, as_json(sample([HI], scores={"match": {"value": "C"}}, completed_at=done)))
    assert report.scores_added == 0
    assert len(memory.scores("inspect:ev:1:1", history=True)) == 1


def test_an_edited_score_comes_with_its_author_and_reason_and_the_first_one_stays() -> None:
    edit = {"author": "ann", "reason": "a typo", "timestamp": "2026-02-03T00:00:00+00:00"}
    history = [{"value": "I", "explanation": "differs"}, {"value": "C", "explanation": "UNCHANGED", "provenance": edit}]
    found = only(as_json(sample([HI], scores={"match": {"value": "C", "history": history}}))).scores
    assert [(score.value, score.by, score.reason) for score in found] == [
        ("I", "agent:match", "differs"),
        ("C", "ann", "a typo"),
    ]


@pytest.mark.parametrize("values", [("C", "I"), ("I", "C")])
def test_of_two_scores_of_one_time_the_one_that_came_in_later_counts(
    memory: Repository, values: tuple[str, str]
) -> None:
    for value in values:
        scored = sample([HI], scores={"match": {"value": value}}, completed_at="2026-01-02T03:04:05+00:00")
        import_bytes(memory, as_json(scored))
    assert [score.value for score in memory.scores("inspect:ev:1:1")] == [values[1]]
    assert len(memory.scores("inspect:ev:1:1", history=True)) == 2


def test_a_score_that_was_removed_here_does_not_come_back(memory: Repository) -> None:
    data = as_json(sample([HI], scores={"match": {"value": "C"}}))
    import_bytes(memory, data)
    [score] = memory.scores("inspect:ev:1:1")
    memory.remove_score(score.id)
    again = import_bytes(memory, data)
    assert (again.scores_added, again.problems) == (0, [])
    assert memory.scores("inspect:ev:1:1") == []


def test_a_score_that_cannot_be_kept_is_reported_and_the_others_are_kept(memory: Repository) -> None:
    report = import_bytes(memory, as_json(sample([HI], scores={"none": {"value": None}, "match": {"value": 1}})))
    assert report.scores_added == 1
    assert [problem.reason for problem in report.problems if "the score 'none' cannot be kept" in problem.reason]


# --- the file


def test_a_run_that_broke_off_is_read_by_what_its_journal_says_of_the_start() -> None:
    found = parsed(as_eval(sample([HI]), **{"header.json": None}))
    assert found.sessions[0].meta["task"] == "sums"
    assert any("the run broke off" in note for note in found.notes)


def test_of_two_members_of_one_name_the_last_one_counts(recwarn: pytest.WarningsRecorder) -> None:
    name = "samples/1_epoch_1.json"
    first = as_zip({"header.json": HEADER, name: sample([HI])})
    made = io.BytesIO(first)
    with zipfile.ZipFile(made, "a") as opened:
        opened.writestr(name, json.dumps(sample([HI, HELLO])))
    assert [len(session.paths[0]) for session in parsed(made.getvalue()).sessions] == [2]
    recwarn.clear()


def test_a_sample_whose_id_has_slashes_is_read_as_any_other() -> None:
    found = parsed(as_eval(sample([HI]), sample([HI, HELLO], id="swe/astropy/1")))
    assert [(each.id, len(each.paths[0])) for each in found.sessions] == [("ev:1:1", 1), ("ev:swe/astropy/1:1", 2)]
    assert not found.problems


def test_a_chunked_sample_whose_id_has_slashes_is_put_together() -> None:
    folder = "samples/swe/1_epoch_1"
    shell = {"id": "swe/1", "epoch": 1, "message_refs": [[0, 2]]}
    chunks = {f"{folder}/sample.json": shell, f"{folder}/messages/0.json": [HI, HELLO]}
    [session] = parsed(as_zip({"header.json": HEADER, **chunks})).sessions
    assert (session.id, len(session.paths[0])) == ("ev:swe/1:1", 2)


def test_what_stands_among_the_samples_and_is_none_is_named() -> None:
    found = parsed(as_eval(sample([HI]), **{"samples/2_epoch_1/messages/0.json": [HI]}))
    assert [each.reason for each in found.problems] == [
        "samples/2_epoch_1/messages/0.json is no sample, nor a part of one, and is not read"
    ]


def test_scores_that_are_no_objects_are_counted() -> None:
    notes = parsed(as_json(sample([HI], scores={"a": 1, "b": {"value": 1}}), sample([HI], id=2, scores=[1]))).notes
    assert "log: 2 score(s) that no log of Inspect has like this; not kept" in notes


def test_a_pool_whose_places_are_no_numbers_names_nothing_and_raises_nothing() -> None:
    events = [model_event("s", [[0, 1]], HELLO), *BRANCH, model_event("b", [[0, 1]], said("assistant", "no", "x1"))]
    found = parsed(as_json(sample([HI, HELLO], events=events, events_data={"messages": {"a": HI}})))
    assert texts(found.sessions[0].paths[0]) == ["hi", "hello"]
    assert any("name messages that are not there; not kept" in note for note in found.notes)


def test_a_zip_is_told_by_its_names(memory: Repository, tmp_path: Path) -> None:
    file = tmp_path / "renamed.zip"
    file.write_bytes(as_eval(sample([HI])))
    assert import_path(memory, file).sessions_created == ["inspect:ev:1:1"]
    (tmp_path / "other.zip").write_bytes(as_zip({"a.txt": b"a"}))
    with pytest.raises(InvalidInput, match="no transcript of a known format"):
        import_path(memory, tmp_path / "other.zip")


def test_numbers_that_are_none_are_read_as_texts() -> None:
    data = as_json(sample([HI], store={"loss": 1.5})).replace(b"1.5", b"NaN")
    assert only(data).meta["store"] == {"loss": "NaN"}


def test_a_log_without_samples_says_so() -> None:
    assert "holds no samples" in parsed(as_json()).problems[0].reason
    assert "holds no samples" in parsed(as_eval()).problems[0].reason


def test_a_member_that_unpacks_to_more_than_it_may_is_refused(memory: Repository) -> None:
    bomb = as_eval(**{"samples/1_epoch_1.json": b'{"id": 1, "x": "' + b" " * (65 << 20) + b'"}'})
    assert len(bomb) < 100_000
    with pytest.raises(InvalidInput, match="unpacks to more than"):
        import_bytes(memory, bomb, format="inspect")
    assert memory.list() == []


def test_a_zstd_bomb_is_refused_and_frames_follow_each_other(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_zstd()
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.ZstdCompressor().compress(b"a" * 1000) + zstandard.ZstdCompressor().compress(b"b")
    assert containers.unpack_zstd(packed, 2000) == b"a" * 1000 + b"b"
    with pytest.raises(InvalidInput, match="unpacks to more than"):
        containers.unpack_zstd(zstandard.ZstdCompressor().compress(b"a" * 100_000), 50_000)


def test_without_the_package_for_zstd_the_log_is_refused_with_the_extra_that_brings_it(
    memory: Repository, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InvalidInput, match=r"pip install 'trails\[zstd\]'"):
        import_path(memory, shared / "data/research/inspect/tools_epochs.eval")


def test_samples_are_read_one_at_a_time() -> None:
    def peak(samples: int) -> int:
        data = as_eval(*({**sample([said("user", "x" * 100_000, "m1")]), "id": n} for n in range(samples)))
        tracemalloc.start()
        try:
            count = sum(len(part.sessions) for part in inspect_log.stream([("log", io.BytesIO(data))]))
            return tracemalloc.get_traced_memory()[1] * (count == samples)
        finally:
            tracemalloc.stop()

    assert 0 < peak(80) < 1.5 * peak(20)


WHOLE = as_eval(sample([HI, HELLO], events=[model_event("s", [[0, 1]], HELLO), *BRANCH], pool=[HI]))


@given(data=st.data())
@examples(60)
def test_a_log_cut_anywhere_is_a_problem_and_raises_nothing(data: st.DataObject) -> None:
    cut = WHOLE[: data.draw(st.integers(0, len(WHOLE)))]
    found = parsed(cut)
    assert found.sessions or found.problems
