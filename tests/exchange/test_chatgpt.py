"""ChatGPT's export: every message a turn, every edit a fork; the path to the current node is the main one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.machines import examples
from trails import Repository
from trails.exchange.chats import chatgpt
from trails.exchange.file_import import import_path
from trails.exchange.merge import merge
from trails.exchange.source_transcript import SourceTurn, Transcript
from trails.model.content_parts import plain_text


def node(node_id: str, parent: str | None, text: Any = None, *, role: str = "user", **message: Any) -> dict[str, Any]:
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text or f"text of {node_id}"]}
    said = {"id": node_id, "author": {"role": role}, "create_time": 1704067200.25, "content": content}
    return {"id": node_id, "parent": parent, "children": [], "message": said | message}


def silent(node_id: str, parent: str | None) -> dict[str, Any]:
    return {"id": node_id, "parent": parent, "children": [], "message": None}


def conversation(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> dict[str, Any]:
    mapping = {each["id"]: dict(each) for each in nodes}
    for each in nodes:
        if each["parent"] in mapping:
            mapping[each["parent"]]["children"] = [*mapping[each["parent"]]["children"], each["id"]]
    made = {"conversation_id": "C", "title": "Plan", "create_time": 1704067200.5, "mapping": mapping}
    return made | ({} if current is None else {"current_node": current}) | more


def parsed(*conversations: Any) -> Transcript:
    return chatgpt.parse([("conversations.json", json.dumps(list(conversations)).encode())])


def ids(path: Sequence[SourceTurn]) -> list[str]:
    return [turn.source_ids[0] for turn in path]


def paths(transcript: Transcript) -> list[list[str]]:
    return [ids(path) for path in transcript.sessions[0].paths]


def test_an_error_in_the_models_place_is_not_the_models_words() -> None:
    failed = {"content_type": "system_error", "name": "NetworkError", "text": "the connection was lost"}
    data = conversation(node("q", None), node("e", "q", failed, role="assistant"), node("t", "e", failed, role="tool"))
    assert [turn.role for turn in parsed(data).sessions[0].paths[0]] == ["user", "error", "tool"]


BRANCHED = (
    silent("root", None),
    node("q", "root"),
    node("a1", "q", role="assistant"),
    node("a2", "q", role="assistant"),
    node("q2", "a1"),
)


# --- turns


def test_a_message_becomes_a_turn_with_its_time_model_and_what_else_it_says() -> None:
    answer = node(
        "a",
        "q",
        "Hello",
        role="assistant",
        status="finished",
        weight=1.0,
        metadata={"model_slug": "gpt-x", "finish_details": {"type": "stop"}},
    )
    [session] = parsed(conversation(node("q", None, "Hi"), answer, current="a")).sessions
    [[question, reply]] = session.paths
    assert (question.role, question.content, question.model) == ("user", "Hi", None)
    assert question.time == datetime(2024, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
    assert (reply.role, reply.content, reply.model, reply.stop_reason) == ("assistant", "Hello", "gpt-x", "stop")
    assert reply.meta["status"] == "finished"
    assert (session.id, session.title, session.agent) == ("C", "Plan", "chatgpt")
    assert session.created == datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "kept", "read"),
    [
        ({"content_type": "text", "parts": ["one"]}, "one", "one"),
        ({"content_type": "text", "parts": ["one", "two"]}, ["one", "two"], "one\ntwo"),
        ({"content_type": "text", "parts": []}, [], ""),
        (
            {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "see"]},
            [{"content_type": "image_asset_pointer"}, "see"],
            "[image_asset_pointer]\nsee",
        ),
        (
            {"content_type": "code", "language": "python", "text": "print(1)"},
            [{"content_type": "code", "language": "python", "text": "print(1)"}],
            "print(1)",
        ),
        (
            {"content_type": "execution_output", "text": "1"},
            [{"content_type": "execution_output", "text": "1"}],
            "1",
        ),
        (
            {"content_type": "tether_quote", "url": "u", "text": "quoted"},
            [{"content_type": "tether_quote", "url": "u", "text": "quoted"}],
            "quoted",
        ),
        (
            {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "hm"}]},
            [{"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "hm"}]}],
            "hm",
        ),
    ],
)
def test_content_of_every_type_is_kept_as_it_stands_and_can_be_read(content: Any, kept: Any, read: str) -> None:
    transcript = parsed(conversation(node("q", None, content)))
    [[turn]] = transcript.sessions[0].paths
    assert turn.content == kept
    assert plain_text(turn.content) == read
    assert transcript.problems == ()


def test_hidden_and_empty_messages_are_kept_and_noted_and_nodes_without_one_only_connect() -> None:
    hidden = node("h", "root", role="system", metadata={"is_visually_hidden_from_conversation": True})
    empty = node("e", "h", {"content_type": "text", "parts": [""]}, role="system")
    transcript = parsed(conversation(silent("root", None), hidden, empty, node("q", "e")))
    assert paths(transcript) == [["h", "e", "q"]]
    assert transcript.records == {"no message": 1, "system/text": 2, "user/text": 1}
    assert transcript.notes == (
        "conversation 'C': 1 message(s) are hidden in ChatGPT; they are kept, and marked in their metadata",
        "conversation 'C': 1 message(s) are empty; they are kept",
    )


def test_a_time_that_is_none_is_left_out_and_what_stood_there_is_kept() -> None:
    [[turn]] = parsed(conversation(node("q", None, create_time=1e300))).sessions[0].paths
    assert (turn.time, turn.meta["create_time"]) == (None, 1e300)


# --- the tree


def test_every_edit_and_every_other_answer_is_a_fork_and_the_path_to_the_current_node_is_the_main_one(
    store: Repository,
) -> None:
    transcript = parsed(conversation(*BRANCHED, current="a2"))
    assert paths(transcript) == [["q", "a2"], ["q", "a1", "q2"]]
    report = merge(store, transcript)
    assert report.sessions_created == ["chatgpt:C"]
    [fork] = report.forks_created
    assert [turn.source_ids for turn in store.load("chatgpt:C").turns] == [("q",), ("a2",)]
    assert store.load(fork).forked_at_index == 1
    assert report.turns_added == 4
    assert merge(store, transcript).turns_added == 0
    assert store.verify().ok


def test_without_a_current_node_the_last_child_is_on_the_main_path_and_the_report_says_so() -> None:
    transcript = parsed(conversation(*BRANCHED))
    assert paths(transcript) == [["q", "a2"], ["q", "a1", "q2"]]
    assert transcript.notes == (
        "conversation 'C' has no current_node; its main path takes the last child at every fork",
    )
    elsewhere = parsed(conversation(*BRANCHED, current="gone"))
    assert paths(elsewhere) == paths(transcript)
    assert "has a current_node that is not there ('gone')" in elsewhere.notes[0]


def test_a_current_node_that_others_follow_goes_on_along_the_last_ones_and_the_report_says_so() -> None:
    transcript = parsed(conversation(*BRANCHED, current="a1"))
    assert paths(transcript) == [["q", "a1", "q2"], ["q", "a2"]]
    assert "other nodes follow its current_node 'a1'" in transcript.notes[0]


def test_a_node_without_a_parent_stands_where_one_lists_it_and_circles_are_problems() -> None:
    lost = conversation(node("q", None), node("a", "q"), current="a")
    lost["mapping"]["a"]["parent"] = "gone"
    assert paths(parsed(lost)) == [["q", "a"]]
    circle = conversation(node("q", None), node("x", "y"), node("y", "x"), current="q")
    transcript = parsed(circle)
    assert paths(transcript) == [["q"]]
    assert [problem.reason for problem in transcript.problems] == [
        "node 'x' of conversation 'C' has parents that run in a circle",
        "node 'y' of conversation 'C' has parents that run in a circle",
    ]


def test_a_message_that_cannot_be_kept_is_a_problem_and_what_follows_it_stays() -> None:
    nodes = (node("q", None), node("bad", "q", role="no role"), node("worse", "bad", content=None), node("a", "worse"))
    transcript = parsed(conversation(*nodes, current="a"))
    assert paths(transcript) == [["q", "a"]]
    assert [problem.line for problem in transcript.problems] == [1, 1]
    assert "node 'bad' of conversation 'C' cannot be kept" in transcript.problems[0].reason


# --- files


def test_a_conversation_without_an_id_is_named_after_its_time_and_first_node_and_keeps_the_name_as_it_grows(
    store: Repository,
) -> None:
    small = conversation(node("q", None), current="q", conversation_id=None)
    grown = conversation(node("q", None), node("a", "q"), current="a", conversation_id=None, title="Renamed")
    first = merge(store, parsed(small))
    report = merge(store, parsed(grown))
    assert report.grown == first.sessions_created
    assert "has no id" in report.notes[0]


def test_a_single_conversation_and_the_zip_of_an_export_are_read_too(store: Repository, tmp_path: Path) -> None:
    one = conversation(node("q", None), current="q")
    (tmp_path / "one.json").write_text(json.dumps(one))
    assert import_path(store, tmp_path / "one.json").sessions_created == ["chatgpt:C"]
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as made:
        made.writestr("chat.html", "<html>")
        made.writestr("conversations.json", json.dumps([one, conversation(node("r", None), conversation_id="D")]))
    report = import_path(store, tmp_path / "export.zip")
    assert (report.sessions_created, report.unchanged) == (["chatgpt:D"], ["chatgpt:C"])
    assert report.notes[0].startswith("1 other files of the zip")


def test_an_export_folder_is_read_and_its_other_files_are_named_in_one_note(store: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations.json").write_text(json.dumps([conversation(node("q", None))]))
    (folder / "user.json").write_text("{}")
    (folder / "message_feedback.json").write_text("[]")
    report = import_path(store, folder)
    assert (report.sessions_created, report.problems) == (["chatgpt:C"], [])
    assert report.notes[0] == "2 file(s) are no transcripts of a known format: message_feedback.json, user.json"


@pytest.mark.parametrize("data", [b"PK\x03\x04 and no more", b"PK\x03\x04"])
def test_a_zip_that_cannot_be_read_is_a_problem(data: bytes) -> None:
    transcript = chatgpt.parse([("x.zip", data)])
    assert transcript.sessions == ()
    assert "is a zip that cannot be read" in transcript.problems[0].reason


def test_a_zip_without_conversations_is_no_export() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("readme.txt", "")
    [problem] = chatgpt.parse([("x.zip", held.getvalue())]).problems
    assert "holds no conversations.json" in problem.reason


def test_of_an_export_that_is_cut_the_whole_conversations_are_read_and_the_rest_is_a_problem() -> None:
    whole = json.dumps([conversation(node("q", None)), conversation(node("r", None), conversation_id="D")])
    transcript = chatgpt.parse([("c", whole[:-40].encode())])
    assert [session.id for session in transcript.sessions] == ["C"]
    [problem] = transcript.problems
    assert problem.line == 1
    assert "the rest of the file cannot be read" in problem.reason


# --- real and random files


def test_the_sample_exports_have_the_trees_that_were_counted_independently(shared: Path, store: Repository) -> None:
    cases = json.loads((shared / "cases" / "data_other_expectations.json").read_text())["chatgpt-export"]
    for name, conversations in cases.items():
        data = (shared / "data" / "chatgpt-export" / name).read_bytes()
        assert chatgpt.sniff(data[:65536])
        transcript = chatgpt.parse([(name, data)])
        assert transcript.problems == ()
        assert len(transcript.sessions) == len(conversations)
        for session, facts in zip(transcript.sessions, conversations, strict=True):
            assert session.title == facts["title"]
            assert sorted(ids(path)[-1] for path in session.paths) == sorted(facts["leaves"])
            assert {each for path in session.paths for each in ids(path)} == {f"msg{n}" for n in _numbers(facts)}
            if facts["current_path"]:
                assert ids(session.paths[0]) == facts["current_path"]
        report = merge(store, transcript)
        assert len(report.forks_created) == sum(len(each["leaves"]) - 1 for each in conversations)
        assert merge(store, transcript).turns_added == 0
    assert store.verify().ok


def _numbers(facts: dict[str, Any]) -> list[str]:
    if facts["nodes"] == 2:
        last = int(facts["leaves"][0].removeprefix("msg"))
        return [str(last - 1), str(last)]
    return [f"-{n}" for n in range(1, facts["nodes"] + 1)]


@st.composite
def _trees(draw: Any) -> list[dict[str, Any]]:
    parents = [draw(st.integers(-1, n - 1)) for n in range(draw(st.integers(1, 9)))]
    made = []
    for n, parent in enumerate(parents):
        make = silent if draw(st.integers(0, 5)) == 0 else node
        made.append(make(f"n{n}", f"n{parent}" if parent >= 0 else None))
    return made


@given(tree=_trees(), grows=st.integers(0, 9), current=st.integers(0, 12))
@examples(40)
def test_however_a_tree_grows_every_path_of_it_is_held_and_each_message_stands_once(
    tree: list[dict[str, Any]], grows: int, current: int
) -> None:
    with trails.open(":memory:") as store:
        for nodes in (tree[: max(1, grows)], tree):
            transcript = parsed(conversation(*nodes, current=f"n{current}"))
            merge(store, transcript)
        held = [ids_of(store, record.id) for record in store.list()]
        for path in paths(transcript):
            assert any(each[: len(path)] == path for each in held)
        assert store.info()["turns"] == sum(each["message"] is not None for each in tree)
        assert merge(store, transcript).turns_added == 0
        assert store.verify().ok


def ids_of(store: Repository, session: str) -> list[str]:
    return [turn.source_ids[0] for turn in store.load(session).turns]
