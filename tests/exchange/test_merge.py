"""Importing: nothing twice, grown sources go on, changed ones become reported forks, deleted ones stay deleted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode

import trails
from tests.support.importing import merged_at_once
from tests.support.machines import examples
from tests.support.sessions import contents
from trails import InvalidInput, Repository, StoreFailed
from trails.exchange.coding_agents import claude_code_records
from trails.exchange.file_import import import_path
from trails.exchange.merge import imported_id, merge
from trails.exchange.source_transcript import Piece, SourceScore, SourceSession, SourceTurn, Transcript
from trails.model import iris, validation
from trails.model.values import Compaction
from trails.store import EmbeddedStore
from trails.store.contract import Change, Committed

pytestmark = pytest.mark.any_store

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _turn(source_id: str, text: str | None = None, *more: tuple[str, str], role: str = "user") -> SourceTurn:
    pieces = [Piece(source_id, text if text is not None else f"text of {source_id}")]
    pieces += [Piece(other, ({"type": "text", "text": words},)) for other, words in more]
    return SourceTurn(role=role, pieces=tuple(pieces), time=_START + timedelta(seconds=len(source_id)))


def _path(*ids: str) -> tuple[SourceTurn, ...]:
    return tuple(_turn(each) for each in ids)


def _source(*paths: tuple[SourceTurn, ...], id: str = "S", **more: Any) -> Transcript:  # noqa: A002 - as the field's name
    return Transcript(sessions=(SourceSession(source="t", id=id, paths=paths, **more),))


def test_a_session_and_its_branches_become_a_session_and_forks_that_share_its_turns(store: Repository) -> None:
    report = merge(store, _source(_path("a", "b", "c"), _path("a", "d"), _path("a", "b", "e", "f")))
    assert report.sessions_created == ["t:S"]
    assert len(report.forks_created) == 2
    assert report.turns_added == 6
    assert contents(store, "t:S") == ["text of a", "text of b", "text of c"]
    assert sorted(contents(store, fork)[-1] for fork in report.forks_created) == ["text of d", "text of f"]
    assert [turn.source_ids for turn in store.load("t:S").turns] == [("a",), ("b",), ("c",)]
    assert store.verify().ok


def test_a_path_that_goes_on_from_the_end_of_another_is_a_fork_and_makes_no_session_longer(store: Repository) -> None:
    paths = (_path("a", "b"), _path("a", "b", "c"), _path("a", "b", "c", "d"), _path("a", "b", "e"))
    transcript = _source(*paths, forks_at_ends=True)
    report = merge(store, transcript)
    assert (report.sessions_created, len(report.forks_created), report.grown) == (["t:S"], 3, [])
    texts = sorted("".join(text[-1] for text in contents(store, record.id)) for record in store)
    assert texts == ["ab", "abc", "abcd", "abe"]
    again = merge(store, transcript)
    assert (again.turns_added, again.forks_created, again.grown) == (0, [], [])
    paths = (_path("a", "b", "x"), _path("a", "b", "c", "y"), _path("a", "b", "c", "d"), _path("a", "b", "e"))
    grown = merge(store, _source(*paths, forks_at_ends=True))
    assert (grown.turns_added, len(grown.grown), grown.forks_created) == (2, 2, [])
    assert store.verify().ok


def test_a_session_that_goes_on_from_another_and_has_forks_adds_nothing_when_it_comes_again_and_grows_once(
    store: Repository,
) -> None:
    def resumed(*ends: str) -> Transcript:
        older = SourceSession(source="t", id="older", paths=(_path("o"),))
        paths = (_path("a", "b", "c", *ends), _path("a", "d", "e", "f"))
        return Transcript(sessions=(older, SourceSession(source="t", id="S", paths=paths, continues="o")))

    assert merge(store, resumed()).turns_added == 7
    for _ in range(2):
        again = merge(store, resumed())
        assert (again.turns_added, again.forks_created, again.changed, again.problems) == (0, [], [], [])
    grown = merge(store, resumed("g"))
    assert (grown.turns_added, grown.problems, len(store.list())) == (1, [], 3)
    assert contents(store, "t:S") == [f"text of {each}" for each in "oabcg"]


def test_importing_the_same_again_adds_nothing(store: Repository) -> None:
    transcript = _source(_path("a", "b", "c"), _path("a", "d"))
    merge(store, transcript)
    before = sorted(map(str, store.store.quads((None, None, None, None))))
    report = merge(store, transcript)
    assert (report.turns_added, report.sessions_created, report.forks_created, report.changed) == (0, [], [], [])
    assert len(report.unchanged) == 2
    assert sorted(map(str, store.store.quads((None, None, None, None)))) == before


@pytest.mark.parametrize(("part", "where"), [("model", "model"), ("stop_reason", "stop reason")])
def test_a_key_in_the_name_of_a_model_or_in_a_reason_to_stop_is_named_and_taken_out(
    memory: Repository, part: str, where: str
) -> None:
    key = "AKIAIOSFODNN7EXAMPL2"
    told: dict[str, Any] = {"model": "m", part: f"x {key}"}
    turn = replace(_turn("a", role="assistant"), **told)
    report = merge(memory, _source((turn,), id="clear"))
    assert [(found.session_id, found.index, found.where) for found in report.secrets] == [("t:clear", 0, where)]
    assert key in str(list(memory.store.quads((None, None, None, NamedNode(iris.session("t:clear"))))))
    merge(memory, _source((turn,), id="out"), redact_secrets=True)
    assert key not in str(list(memory.store.quads((None, None, None, NamedNode(iris.session("t:out"))))))
    assert memory.verify().ok


def test_two_imports_of_the_same_at_once_make_each_fork_once(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = _source(_path("a", "b", "c"), _path("a", "d"), _path("a", "b", "e"))
    reports = merged_at_once(monkeypatch, (store, store), transcript)
    assert sorted(report.turns_added for report in reports) == [0, 5]
    assert [problem for report in reports for problem in report.problems] == []
    assert len(store.list()) == 3
    assert store.verify().ok


def test_scores_of_a_session_and_of_a_turn_are_of_the_transcript_as_it_is_then(store: Repository) -> None:
    def scored(*ids: str) -> Transcript:
        of_turn = SourceScore(id="one", name="tone", value=0.5, by="ada", of="b")
        return _source(
            _path(*ids), scores=(of_turn, SourceScore(id=f"all-{len(ids)}", name="whole", value=1, by="ada"))
        )

    merge(store, scored("a", "b"))
    grown = merge(store, scored("a", "b", "c"))
    assert (grown.scores_added, grown.problems) == (1, [])
    found = {score.id: (score.session_id, score.start, score.end) for score in store.scores("t:S", history=True)}
    assert found == {"one": ("t:S", 1, 2), "all-2": ("t:S", None, 2), "all-3": ("t:S", None, 3)}
    heads = {score.id: score.turn_digest for score in store.scores("t:S", history=True)}
    turns = store.load("t:S").turns
    assert heads == {"one": turns[1].digest, "all-2": turns[1].digest, "all-3": turns[2].digest}
    assert store.verify().ok


def test_a_grown_source_goes_on_where_it_ended(store: Repository) -> None:
    merge(store, _source(_path("a", "b")))
    report = merge(store, _source(_path("a", "b", "c", "d")))
    assert (report.grown, report.turns_added, report.forks_created) == (["t:S"], 2, [])
    assert contents(store, "t:S") == ["text of a", "text of b", "text of c", "text of d"]


def test_a_message_that_was_half_written_gets_its_rest_as_a_turn_of_its_own_and_no_fork(store: Repository) -> None:
    half, whole = _turn("m1", "first part"), _turn("m1", "first part", ("m2", "second part"))
    merge(store, _source((_turn("a"), half)))
    report = merge(store, _source((_turn("a"), whole, _turn("b"))))
    assert (report.grown, report.forks_created, report.changed) == (["t:S"], [], [])
    expected = ["text of a", "first part", [{"type": "text", "text": "second part"}], "text of b"]
    assert contents(store, "t:S") == expected
    again = merge(store, _source((_turn("a"), whole, _turn("b"))))
    assert (again.turns_added, again.unchanged) == (0, ["t:S"])


def test_an_earlier_turn_that_changed_in_the_source_becomes_a_reported_fork_and_nothing_is_lost(
    store: Repository,
) -> None:
    merge(store, _source(_path("a", "b", "c")))
    changed = (_turn("a"), _turn("b", "rewritten"), _turn("c"))
    report = merge(store, _source(changed))
    [fork] = report.changed
    assert contents(store, "t:S") == ["text of a", "text of b", "text of c"]
    assert contents(store, fork) == ["text of a", "rewritten", "text of c"]
    assert store.load(fork).forked_at_index == 1
    assert any("differs from the one imported before" in note for note in report.notes)
    again = merge(store, _source(changed))
    assert (again.turns_added, again.changed) == (0, [])


def test_a_branch_after_a_turn_that_changed_is_kept_beside_the_one_that_was_imported_before(store: Repository) -> None:
    merge(store, _source(_path("a", "b", "c"), _path("a", "b", "d")))
    changed = (_turn("a", "another a"), _turn("b"))
    report = merge(store, _source((*changed, _turn("c")), (*changed, _turn("d"))))
    assert (report.turns_added, len(report.changed), len(report.forks_created), list(report.problems)) == (4, 1, 1, [])
    ends = sorted(contents(store, record.id) for record in store.list())
    assert ends == [
        [first, "text of b", last] for first in ("another a", "text of a") for last in ("text of c", "text of d")
    ]
    again = merge(store, _source((*changed, _turn("c")), (*changed, _turn("d"))))
    assert (again.turns_added, again.forks_created, again.changed) == (0, [], [])
    assert store.verify().ok


def test_a_turn_that_appears_in_the_middle_is_a_change_too(store: Repository) -> None:
    merge(store, _source(_path("a", "c")))
    report = merge(store, _source(_path("a", "b", "c")))
    [fork] = report.changed
    assert contents(store, fork) == ["text of a", "text of b", "text of c"]


def test_when_the_sources_main_branch_moves_the_stored_session_stays_and_the_new_one_is_a_fork(
    store: Repository,
) -> None:
    merge(store, _source(_path("a", "b")))
    report = merge(store, _source(_path("a", "c"), _path("a", "b")))
    [fork] = report.forks_created
    assert (contents(store, "t:S"), contents(store, fork)) == (["text of a", "text of b"], ["text of a", "text of c"])
    assert any("holds the source's main branch now" in note for note in report.notes)


def test_a_shorter_source_takes_nothing_away(store: Repository) -> None:
    merge(store, _source(_path("a", "b", "c")))
    report = merge(store, _source(_path("a", "b")))
    assert (report.unchanged, report.turns_added) == (["t:S"], 0)
    assert len(contents(store, "t:S")) == 3


def test_what_was_said_here_after_an_import_is_kept_when_the_source_grows(store: Repository) -> None:
    merge(store, _source(_path("a")))
    session = store.load("t:S")
    session.append("user", "said here")
    session.persist()
    report = merge(store, _source(_path("a", "b")))
    [fork] = report.forks_created
    assert contents(store, "t:S") == ["text of a", "said here"]
    assert contents(store, fork) == ["text of a", "text of b"]


def test_a_deleted_session_stays_deleted_and_is_reported(store: Repository) -> None:
    merge(store, _source(_path("a", "b"), _path("a", "c")))
    [fork] = [record.id for record in store.branches("t:S")]
    store.delete(fork)
    report = merge(store, _source(_path("a", "b"), _path("a", "c")))
    assert (report.deleted, report.turns_added, report.unchanged) == ([fork], 0, ["t:S"])
    store.delete("t:S")
    report = merge(store, _source(_path("a", "b"), _path("a", "c")))
    assert (report.deleted, report.turns_added) == (["t:S"], 0)
    assert store.list() == []


def test_a_session_that_goes_on_from_a_record_of_another_becomes_its_fork_also_in_a_later_import(
    store: Repository,
) -> None:
    merge(store, _source(_path("a", "b", "c"), id="old"))
    summary = SourceTurn(
        role="summary", pieces=(Piece("s", "so far"),), compaction=Compaction(summarised_through=0, first_kept=1)
    )
    resumed = _source((_turn("x"), summary), id="new", continues="b")
    report = merge(store, resumed)
    assert report.forks_created == ["t:new"]
    loaded = store.load("t:new")
    assert (loaded.parent_session_id, loaded.forked_at_index) == ("t:old", 2)
    assert [turn.content for turn in loaded.turns] == ["text of a", "text of b", "text of x", "so far"]
    assert loaded.turns[3].compaction == Compaction(summarised_through=2, first_kept=3)
    assert merge(store, resumed).unchanged == ["t:new"]
    grown = merge(store, _source((_turn("x"), summary, _turn("y")), id="new", continues="b"))
    assert (grown.grown, grown.turns_added) == (["t:new"], 1)


def test_a_session_that_repeats_its_parents_first_turns_shares_them(store: Repository) -> None:
    merge(store, _source(_path("a", "b", "c"), id="old"))
    report = merge(store, _source(_path("a", "b", "d"), id="new", copied_from="old"))
    assert (report.forks_created, report.turns_added) == (["t:new"], 1)
    assert store.load("t:new").forked_at_index == 2
    alone = merge(store, _source(_path("q"), id="other", copied_from="old"))
    assert alone.sessions_created == ["t:other"]
    assert any("shares no turn" in note for note in alone.notes)


def test_parents_and_spawners_are_imported_before_what_builds_on_them_in_any_order(store: Repository) -> None:
    sessions = (
        SourceSession(source="t", id="worker", paths=(_path("w"),), spawned_by="boss"),
        SourceSession(source="t", id="resumed", paths=(_path("r"),), continues="b"),
        SourceSession(source="t", id="boss", paths=(_path("a", "b"),)),
    )
    report = merge(store, Transcript(sessions=sessions))
    assert report.problems == []
    assert store.record("t:worker").spawned_by == "t:boss"
    assert store.record("t:resumed").parent_session_id == "t:boss"


def test_sessions_that_name_each_other_as_parents_do_not_hang(store: Repository) -> None:
    sessions = tuple(
        SourceSession(source="t", id=one, paths=(_path(one),), copied_from=other)
        for one, other in (("a", "b"), ("b", "a"))
    )
    assert sorted(merge(store, Transcript(sessions=sessions)).sessions_created) == ["t:a", "t:b"]


def test_a_session_with_a_turn_that_cannot_be_kept_is_reported_and_the_others_are_imported(store: Repository) -> None:
    bad = SourceTurn(role="no role", pieces=(Piece("x", "text"),))
    sessions = (
        SourceSession(source="t", id="bad", paths=((*_path("a"), bad),)),
        SourceSession(source="t", id="good", paths=(_path("b"),)),
    )
    report = merge(store, Transcript(sessions=sessions))
    assert report.sessions_created == ["t:good"]
    [problem] = report.problems
    assert "session 'bad'" in problem.reason
    assert "t:bad" not in store


def test_ids_of_any_kind_make_session_ids_that_are_accepted_and_distinct() -> None:
    odd = ["a b", "a/b", "a%20b", "\u00e9", "x" * 500, "x" * 501, "<>", "\n"]
    made = [imported_id("t", each) for each in odd]
    assert len(set(made)) == len(odd)
    for each in made:
        assert validation.session_id(each) == each


@st.composite
def _histories(draw: Any) -> list[list[tuple[SourceTurn, ...]]]:
    """States of a source file over time: a tree of records that only grows, its leaves as paths, the newest first."""
    parents: list[int] = []
    states = []
    for _ in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(0, 4))):
            parents.append(draw(st.integers(-1 if not parents else 0, len(parents) - 1)))
        leaves = [n for n in range(len(parents)) if n not in parents] or []
        paths = []
        for leaf in sorted(leaves, reverse=True):
            ids, node = [], leaf
            while node >= 0:
                ids.append(f"r{node}")
                node = parents[node]
            paths.append(_path(*reversed(ids)))
        states.append(paths)
    return states


@given(states=_histories())
@examples(30)
def test_however_a_source_grows_every_path_of_it_is_held_once_and_importing_again_adds_nothing(
    states: list[list[tuple[SourceTurn, ...]]],
) -> None:
    with trails.open(":memory:") as store:
        for paths in states:
            if paths:
                merge(store, _source(*paths))
        held = [[turn.source_ids[0] for turn in store.load(record.id).turns] for record in store.list()]
        for path in states[-1]:
            assert [turn.source_ids[0] for turn in path] in held
        distinct = {turn.source_ids[0] for path in states[-1] for turn in path}
        assert store.info()["turns"] == len(distinct)
        if states[-1]:
            assert merge(store, _source(*states[-1])).turns_added == 0
        assert store.verify().ok


# --- files and folders


def _claude(session: str, *texts: str) -> str:
    lines = []
    parent = None
    for number, text in enumerate(texts):
        uuid = f"{session}-{number}"
        lines.append(
            json.dumps(
                {
                    "type": "user",
                    "uuid": uuid,
                    "parentUuid": parent,
                    "sessionId": session,
                    "isSidechain": False,
                    "timestamp": f"2026-01-01T00:00:{number:02}Z",
                    "message": {"role": "user", "content": text},
                }
            )
        )
        parent = uuid
    return "\n".join(lines) + "\n"


def test_a_folder_is_imported_whole_with_foreign_files_reported(store: Repository, tmp_path: Path) -> None:
    (tmp_path / "p1").mkdir()
    (tmp_path / "p2").mkdir()
    (tmp_path / "p1" / "one.jsonl").write_text(_claude("one", "a", "b"))
    (tmp_path / "p2" / "two.jsonl").write_text(_claude("two", "c"))
    (tmp_path / "p2" / "strange.jsonl").write_text('{"what": "ever"}\n')
    (tmp_path / "p2" / "notes.txt").write_text("no transcript")
    seen: list[tuple[int, int]] = []
    report = import_path(store, tmp_path, progress=lambda done, total, _: seen.append((done, total)))
    assert sorted(report.sessions_created) == ["claude-code:one", "claude-code:two"]
    assert [Path(problem.file).name for problem in report.problems] == ["strange.jsonl"]
    assert seen[-1] == (2, 2)
    assert report.files == 2


def test_a_folder_of_files_that_belong_together_moves_file_by_file(memory: Repository, tmp_path: Path) -> None:
    for name in ("one", "two", "three", "four"):
        (tmp_path / f"{name}.jsonl").write_text(_claude(name, f"first of {name}"))
    seen: list[tuple[int, int, str]] = []
    import_path(memory, tmp_path, progress=lambda *told: seen.append(told))
    assert [(done, total) for done, total, _ in seen[4:]] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert [Path(what).name for _, _, what in seen[:4]] == ["four.jsonl", "one.jsonl", "three.jsonl", "two.jsonl"]
    assert all(what.endswith(f"({number} of 4)") for number, (_, _, what) in enumerate(seen[4:8], 1))


@pytest.mark.parametrize(("content", "what"), [("", "is empty"), ("hello\n", "no transcript of a known format")])
def test_an_empty_file_and_a_file_that_is_no_transcript_are_refused(
    memory: Repository, tmp_path: Path, content: str, what: str
) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(content)
    with pytest.raises(InvalidInput, match=what):
        import_path(memory, file)
    with pytest.raises(InvalidInput, match="there is no file"):
        import_path(memory, tmp_path / "missing.jsonl")
    with pytest.raises(InvalidInput, match="no format to import"):
        import_path(memory, file, format="word")


@pytest.mark.slow
def test_a_line_of_15_megabytes_is_imported_and_one_that_could_not_be_read_again_is_a_problem(
    memory: Repository, tmp_path: Path
) -> None:
    file = tmp_path / "big.jsonl"
    file.write_text(_claude("big", "small", "x" * 15_000_000, "y" * 50_000_000, "small again"))
    report = import_path(memory, file)
    assert report.turns_added == 3
    assert [problem.line for problem in report.problems] == [3]
    assert "50,000,000 bytes" in report.problems[0].reason
    assert [len(turn.content) for turn in memory.load("claude-code:big").turns] == [5, 15_000_000, 11]


def test_the_real_claude_code_transcripts_have_the_counts_that_were_taken_independently(
    shared: Path, store: Repository
) -> None:
    expected = json.loads((shared / "cases" / "data_other_expectations.json").read_text())["claude-code-jsonl"]
    for name, facts in expected.items():
        if len(facts["sessions"]) > 1:
            continue  # shares a session with another of these files
        report = import_path(store, shared / "data" / "claude-code-jsonl" / name)
        assert report.sessions_created[0] == f"claude-code:{facts['sessions'][0]}", name
        ids = [*report.sessions_created, *report.forks_created]
        own = [turn for each in ids for turn in store.load(each).turns if turn.session_id == each]
        assert len(report.forks_created) == facts["candidate_user_rewinds"], name
        assert sum(turn.role == "assistant" for turn in own) == facts["assistant_api_messages"], name
        assert len({call.id for turn in own for call in turn.tool_calls}) == facts["tool_use"], name
        assert len({result.call_id for turn in own for result in turn.tool_results}) == facts["tool_result"], name
        assert sum(turn.role == "summary" for turn in own) == facts["compact_summaries"], name
        assert report.records == facts["types"], name
        again = import_path(store, shared / "data" / "claude-code-jsonl" / name)
        assert (again.turns_added, again.forks_created, again.changed) == (0, [], []), name
    assert store.verify().ok


@pytest.mark.slow
def test_the_real_pi_transcripts_have_the_counts_that_were_taken_independently(shared: Path, store: Repository) -> None:
    expected = json.loads((shared / "cases" / "data_pi_expectations.json").read_text())["files"]
    roles = {
        "toolResult": "tool",
        "bashExecution": "bash",
        "branchSummary": "branch_summary",
        "compactionSummary": "compaction_summary",
    }
    for name, facts in expected.items():
        file = shared / "data" / "pi-session-jsonl" / name
        report = import_path(store, file)
        main = f"pi:{facts['sessionId']}"
        assert report.sessions_created == [main], name
        assert len(report.forks_created) == facts["leaves"] - 1, name
        assert store.record(main).source_session == f"pi:{facts['sessionId']}"
        held = Counter(turn.role for turn in store.load(main).turns)
        if "compaction" not in facts["types"]:  # a compaction hides earlier turns from the model, not from the store
            assert held == {roles.get(r, r): n for r, n in facts["contextFromLastEntry"]["roles"].items()}, name
        else:
            assert held.total() == facts["types"]["message"] + facts["types"]["compaction"], name
        again = import_path(store, file)
        assert again.turns_added == 0, name
    assert store.verify().ok


def test_a_store_that_cannot_go_on_ends_the_import_at_once_and_the_next_one_brings_the_rest(
    memory: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "talks.jsonl"
    talks = [{"messages": [{"role": "user", "content": f"Talk {number}"}]} for number in range(5)]
    file.write_text("\n".join(map(json.dumps, talks)))
    commit, tried = EmbeddedStore.commit, list[Change]()

    def until_the_disk_is_full(store: EmbeddedStore, change: Change) -> Committed:
        tried.append(change)
        if any("Talk 2" in str(quad.object) for quad in change.add):
            raise StoreFailed("no space left")
        return commit(store, change)

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "commit", until_the_disk_is_full)
        with pytest.raises(StoreFailed, match="no space left"):
            import_path(memory, file)
        assert not any("Talk 3" in str(quad.object) for change in tried for quad in change.add)
    assert sorted(turn.content for each in memory.list() for turn in memory.load(each.id).turns) == ["Talk 0", "Talk 1"]
    assert len(import_path(memory, file).sessions_created) == 3
    assert memory.verify().ok


def test_a_file_that_is_read_otherwise_than_before_makes_no_fork(
    memory: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.jsonl"
    said = {"type": "hook_additional_context", "content": ["remember all of X"], "hookEvent": "SessionStart"}
    common = {"sessionId": "s1", "timestamp": "2026-01-02T03:04:05.000Z"}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "go"}},
        {"type": "attachment", "uuid": "h1", "parentUuid": "u1", "attachment": said},
        {"type": "user", "uuid": "u2", "parentUuid": "h1", "message": {"role": "user", "content": "on"}},
    ]
    file.write_text("".join(json.dumps(line | common) + "\n" for line in lines))
    with monkeypatch.context() as earlier:
        earlier.setattr(claude_code_records, "shown_parts", lambda raw, attachment: [])  # as an earlier version read it
        import_path(memory, file, final=True)
    report = import_path(memory, file, final=True)
    assert (report.unchanged, report.changed, report.turns_added) == (["claude-code:s1"], [], 0)
    assert "turn 1 was read otherwise; the session stays as it is" in report.notes[0]
    file.write_text(file.read_text().replace('"go"', '"went"'))
    assert len(import_path(memory, file, final=True).changed) == 1
