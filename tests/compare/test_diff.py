"""What differs between two transcripts: alignment, words, structures, patches. Nothing here reads a store."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from trails import InvalidInput, Turn
from trails.compare import Diff, diff, patch, session_diff, text_diff, value_diff
from trails.history.turn_builder import make_draft

Said = tuple[str, Any, Sequence[dict[str, Any]]]


def transcript(*said: tuple[Any, ...], salt: str = "a") -> list[Turn]:
    """Turns that say (role, content, tool calls or a dict of more); those of another salt have other digests."""
    made = []
    for index, (role, content, *more) in enumerate(said):
        extra: dict[str, Any] = more[0] if more else {}
        draft = make_draft(role, content, timed=False, **extra)
        made.append(
            Turn(
                session_id=salt,
                index=index,
                role=role,
                branch="main",
                author_iri="urn:trails:agent:a",
                time=None,
                text=draft.text,
                structured=draft.structured,
                redacted=False,
                digest=f"{salt}{index}",
                facts=draft.facts,
            )
        )
    return made


def kinds(found: Diff) -> list[str]:
    return [entry.kind for entry in found.entries]


def call(name: str, arguments: Any, call_id: str = "c1") -> dict[str, Any]:
    return {"tool_calls": [{"id": call_id, "name": name, "arguments": arguments}]}


# --- sequences


def length_of_common(left: str, right: str) -> int:
    """The textbook table, cell by cell."""
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, mine in enumerate(left):
        for j, other in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if mine == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


letters = st.text("abcd", max_size=20)


@given(letters, letters)
def test_matches_are_a_longest_common_subsequence(left: str, right: str) -> None:
    found = text_diff.match_sequences(left, right)
    assert all(left[i] == right[j] for i, j in found)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(found))
    assert len(found) == length_of_common(left, right)


@given(letters, letters)
def test_matches_mirror_when_the_sides_change_places(left: str, right: str) -> None:
    assert text_diff.match_sequences(right, left) == [(j, i) for i, j in text_diff.match_sequences(left, right)]


@given(st.text("abcdefghijklmnop", max_size=30), st.text("abcdefghijklmnop", max_size=30))
def test_beyond_the_bound_matches_are_still_in_order_and_true(left: str, right: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text_diff, "MAX_CELLS", 12)
        found = text_diff.match_sequences(left, right)
    assert all(left[i] == right[j] for i, j in found)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(found))


def test_beyond_the_bound_unique_elements_are_the_anchors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_diff, "MAX_CELLS", 8)
    assert text_diff.match_sequences("xxAxxBxx", "yyAyyByy") == [(2, 2), (5, 5)]


# --- words

texts = st.lists(st.sampled_from(["a ", "a_1", "plan", " b", ".", "\n", "  ", "日本", "wörter", "\r\n", "\x00"])).map(
    "".join
)


@given(texts, texts)
def test_spans_hold_both_texts_whole(left: str, right: str) -> None:
    found = text_diff.diff_words(left, right)
    assert "".join(span.text for span in found if span.side != "right") == left
    assert "".join(span.text for span in found if span.side != "left") == right
    assert all(span.text for span in found)


@given(texts, texts)
def test_spans_hold_both_texts_whole_by_lines_too(left: str, right: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text_diff, "MAX_TEXT", 0)
        found = text_diff.diff_words(left, right)
    assert "".join(span.text for span in found if span.side != "right") == left
    assert "".join(span.text for span in found if span.side != "left") == right


@given(texts | st.text(st.characters(max_codepoint=127)) | st.text())
def test_the_words_by_which_turns_are_alike_are_runs_of_letters_digits_and_underscores(text: str) -> None:
    apart = "".join(each if each.isalnum() or each == "_" else " " for each in text)
    if text.isascii():
        assert session_diff._words_of(text) == apart.split()
    assert session_diff._words_of(text) == re.findall(r"\w+", text)


def test_a_word_put_in_is_all_that_differs() -> None:
    found = text_diff.diff_words("Take the train from Bern to Visp.", "Take the early train from Bern to Visp.")
    assert [(span.side, span.text) for span in found] == [
        ("equal", "Take the"),
        ("right", " early"),
        ("equal", " train from Bern to Visp."),
    ]


def test_texts_about_different_things_do_not_share_their_commas() -> None:
    found = text_diff.diff_words("Rain, wind and the cold of winter", "Sunshine, breeze and the warmth in summer")
    assert [span.side for span in found] == ["left", "right"]


def test_a_script_without_spaces_is_compared_by_character() -> None:
    found = text_diff.diff_words("東京へ行きます", "京都へ行きます")
    assert ("equal", "へ行きます") in [(span.side, span.text) for span in found]


def test_long_texts_are_compared_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_diff, "MAX_TEXT", 40)
    found = text_diff.diff_words("one two\nthree four\nfive six\n", "one two\nthree 4\nfive six\n")
    assert [(span.side, span.text) for span in found] == [
        ("equal", "one two\n"),
        ("left", "three four\n"),
        ("right", "three 4\n"),
        ("equal", "five six\n"),
    ]


def test_huge_texts_of_other_words_are_compared_at_all() -> None:
    left = "\n".join(f"line {n} of the left" for n in range(60_000))
    right = "\n".join(f"line {n} of the right" for n in range(60_000))
    found = text_diff.diff_words(left, right)
    assert "".join(span.text for span in found if span.side != "right") == left


# --- structures

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "two words"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(json_values, json_values)
def test_structures_differ_nowhere_only_where_they_are_the_same(left: Any, right: Any) -> None:
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert (value_diff.compare_values(left, right) == ()) is same


@given(json_values, json_values)
def test_structures_seen_from_the_other_side_differ_in_as_many_places(left: Any, right: Any) -> None:
    mirrored = {"added": "removed", "removed": "added", "changed": "changed"}
    there, back = value_diff.compare_values(left, right), value_diff.compare_values(right, left)
    assert sorted(mirrored[edit.kind] for edit in there) == sorted(edit.kind for edit in back)


def test_the_order_of_keys_is_no_difference_and_the_order_of_items_is() -> None:
    assert value_diff.compare_values({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}) == ()
    assert value_diff.compare_values([1, 2], [2, 1]) != ()


def test_an_item_put_in_front_changes_one_place() -> None:
    found = value_diff.compare_values({"to": ["Bern", "Visp"]}, {"to": ["Basel", "Bern", "Visp"]})
    assert [(edit.kind, edit.path, edit.right) for edit in found] == [("added", "$.to[0]", '"Basel"')]


def test_numbers_booleans_and_texts_that_look_alike_differ() -> None:
    for left, right in ((1, True), (0, False), (1, 1.0), ("1", 1), (None, "null"), ([], {})):
        assert [edit.kind for edit in value_diff.compare_values(left, right)] == ["changed"]


def test_a_path_names_odd_keys_unmistakably() -> None:
    (edit,) = value_diff.compare_values({"a b": {'"': 1}}, {"a b": {'"': 2}})
    assert edit.path == '$["a b"]["\\""]'


def test_a_changed_text_inside_a_structure_has_its_words() -> None:
    (edit,) = value_diff.compare_values({"q": "trains to Bern today"}, {"q": "trains to Basel today"})
    assert [(span.side, span.text) for span in edit.words] == [
        ("equal", "trains to "),
        ("left", "Bern"),
        ("right", "Basel"),
        ("equal", " today"),
    ]


def test_structures_of_any_depth_are_compared() -> None:
    left: Any = 1
    right: Any = 2
    for _ in range(150):
        left, right = [left], [right]
    assert [edit.kind for edit in value_diff.compare_values(left, right)] == ["changed"]


# --- turns


def test_turns_that_say_the_same_are_equal_whatever_their_digests_times_and_call_ids() -> None:
    left = transcript(
        ("assistant", "Let me look.", {**call("weather", '{"a":1,"b":2}', "x"), "model": "m-1"}),
        ("tool", "Snow", {"tool_call_id": "x"}),
        (
            "assistant",
            [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "t", "name": "ls", "input": {"p": 1, "q": 2}}],
        ),
    )
    right = transcript(
        ("assistant", "Let me look.", {**call("weather", '{"b": 2, "a": 1}', "y"), "model": "m-2"}),
        ("tool", "Snow", {"tool_call_id": "y"}),
        (
            "assistant",
            [{"text": "Hi", "type": "text"}, {"type": "tool_use", "id": "u", "name": "ls", "input": {"q": 2, "p": 1}}],
        ),
        salt="b",
    )
    found = diff(left, right)
    assert kinds(found) == ["equal", "equal", "equal"]
    assert found.is_empty
    assert not found


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("user", "a"), ("user", "b")),
        (("user", "a"), ("user", "a ")),
        (("user", ""), ("user", [])),
        (("user", "hi"), ("user", [{"type": "text", "text": "hi"}])),
        (("assistant", "", call("ls", {})), ("assistant", "")),
        (("assistant", "", call("ls", {})), ("assistant", "", call("cat", {}))),
        (("assistant", "", call("ls", {"a": 1})), ("assistant", "", call("ls", {"a": True}))),
        (("tool", "x", {"tool_call_id": "c"}), ("tool", "x", {"tool_call_id": "d"})),
        (("tool", "x", {"tool_call_id": "c"}), ("tool", "x", {"tool_call_id": "c", "is_error": True})),
        (("user", [{"type": "image", "data": "1"}]), ("user", [{"type": "image", "data": "2"}])),
    ],
)
def test_turns_that_do_not_say_the_same_are_one_changed_entry_that_shows_something(
    left: tuple[Any, ...], right: tuple[Any, ...]
) -> None:
    found = diff(transcript(left), transcript(right, salt="b"))
    assert kinds(found) == ["changed"]
    assert found.entries[0].detail.to_dict() != {}


def test_turns_of_different_roles_are_never_one_changed_entry() -> None:
    found = diff(transcript(("user", "hello")), transcript(("assistant", "hello"), salt="b"))
    assert kinds(found) == ["left", "right"]


def test_unequal_turns_are_paired_with_those_most_like_them() -> None:
    left = transcript(("user", "Plan a trip to the Alps"), ("assistant", "Take the train to Visp"))
    right = transcript(
        ("user", "Good morning"),
        ("assistant", "What can I do?"),
        ("user", "Plan a trip to the Andes"),
        ("assistant", "Take the plane to Lima"),
        salt="b",
    )
    assert kinds(diff(left, right)) == ["right", "right", "changed", "changed"]
    assert kinds(diff(right, left)) == ["left", "left", "changed", "changed"]


def test_turns_put_in_the_middle_leave_the_others_equal() -> None:
    left = transcript(("user", "a"), ("assistant", "b"), ("user", "c"))
    right = transcript(("user", "a"), ("assistant", "b"), ("user", "x"), ("assistant", "y"), ("user", "c"), salt="b")
    assert kinds(diff(left, right)) == ["equal", "equal", "right", "right", "equal"]


def test_a_changed_turn_shows_text_arguments_and_answers_apart() -> None:
    left = transcript(
        ("assistant", "I ask for Bern.", call("weather", {"place": "Bern", "days": 2}, "x")),
        ("tool", "Snow", {"tool_call_id": "x"}),
    )
    right = transcript(
        ("assistant", "I ask for Basel.", call("weather", {"days": 2, "place": "Basel"}, "y")),
        ("tool", "Snow", {"tool_call_id": "z"}),
        salt="b",
    )
    first, second = diff(left, right).entries
    assert [(span.side, span.text) for span in first.detail.text][1:3] == [("left", "Bern"), ("right", "Basel")]
    (changed,) = first.detail.calls
    assert (changed.kind, changed.name) == ("changed", "weather")
    assert [(edit.path, edit.left, edit.right) for edit in changed.edits] == [("$.place", '"Bern"', '"Basel"')]
    assert second.detail.answers == (("weather",), ("z",))
    assert second.detail.text == ()


def test_calls_are_matched_before_they_are_paired() -> None:
    left = transcript(
        ("assistant", "", {"tool_calls": [_plain("1", "ls", {"p": "/"}), _plain("2", "cat", {"f": "a"})]})
    )
    right = transcript(
        (
            "assistant",
            "",
            {"tool_calls": [_plain("3", "ls", {"p": "/tmp"}), _plain("4", "ls", {"p": "/"}), _plain("5", "rm", {})]},
        ),
        salt="b",
    )
    (entry,) = diff(left, right).entries
    assert [(change.kind, change.name) for change in entry.detail.calls] == [
        ("right", "ls"),
        ("equal", "ls"),
        ("left", "cat"),
        ("right", "rm"),
    ]


def _plain(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}


def test_parts_are_compared_by_their_places_and_calls_among_them_once() -> None:
    left = transcript(
        (
            "assistant",
            [{"type": "tool_use", "id": "a", "name": "ls", "input": {"p": 1}}, {"type": "text", "text": "one two"}],
        )
    )
    right = transcript(
        (
            "assistant",
            [{"type": "tool_use", "id": "b", "name": "ls", "input": {"p": 2}}, {"type": "text", "text": "one three"}],
        ),
        salt="b",
    )
    detail = diff(left, right).entries[0].detail
    assert [edit.path for edit in detail.parts] == ["$[1].text"]
    assert [edit.path for edit in detail.calls[0].edits] == ["$.p"]


def test_redacted_turns_equal_only_copies_of_themselves_and_show_nothing() -> None:
    (one,) = transcript(("user", ""))
    gone = one.model_copy(update={"redacted": True})
    other = gone.model_copy(update={"digest": "b0"})
    assert (
        session_diff.turn_words([gone])[0].key
        == session_diff.turn_words([gone.model_copy(update={"session_id": "copy"})])[0].key
    )
    found = diff([gone], [other])
    assert kinds(found) == ["changed"]
    assert found.entries[0].detail.withheld
    assert kinds(diff([gone], [one.model_copy(update={"digest": "b0"})])) == ["changed"]


def test_counts_are_of_the_tails_and_add_up_usage_under_its_many_names() -> None:
    shared = transcript(("user", "hello", {"usage": {"input_tokens": 1000}, "model": "m"}))
    left = shared + [
        turn.model_copy(update={"index": 1 + n})
        for n, turn in enumerate(
            transcript(
                ("assistant", "a", {**call("ls", {}), "usage": {"input_tokens": 10, "output_tokens": 2, "cost": 0.1}}),
                ("assistant", "b", {**call("ls", {"p": 1}), "usage": {"prompt_tokens": 5, "completion_tokens": 1}}),
                ("assistant", "c", {**call("cat", {}), "usage": {"input": 7, "output": 3, "cost": {"total": 0.2}}}),
                ("assistant", "d", {"model": "m"}),
                salt="l",
            )
        )
    ]
    found = diff(left, shared)
    assert found.common == 1
    counts = found.left.counts
    assert (counts.turns, counts.calls, counts.calls_without_usage) == (4, 4, 1)
    assert (counts.input_tokens, counts.output_tokens) == (22, 6)
    assert counts.cost == Decimal("0.3")
    assert counts.tools == {"cat": 1, "ls": 2}
    unknown = {"input_tokens": None, "output_tokens": None, "cost": None}
    assert found.right.counts.to_dict() == {"turns": 0, "calls": 0, "calls_without_usage": 0, **unknown, "tools": {}}


def test_long_runs_of_unequal_turns_are_paired_in_blocks() -> None:
    left = transcript(*(("user", f"left {n}") for n in range(200)))
    right = transcript(*(("user", f"right {n}") for n in range(150)), salt="b")
    found = diff(left, right)
    assert found.kinds == {"equal": 0, "changed": 150, "left": 50, "right": 0}


def test_a_diff_is_frozen_and_goes_through_json() -> None:
    found = diff(transcript(("user", "a"), ("user", "b")), transcript(("user", "x"), salt="b"), names=("one", "two"))
    with pytest.raises(FrozenInstanceError):
        found.left = found.right  # type: ignore[misc]
    plain = json.loads(json.dumps(found.to_dict()))
    assert set(plain) == {"differs", "left", "right", "ancestor", "entries_by_kind", "entries"}
    assert (plain["differs"], plain["ancestor"], plain["left"]["name"]) == (True, None, "one")
    assert trails.Diff is Diff


# --- patches and symmetry

contents = st.sampled_from(["", "yes", "no", "Plan a trip", "Plan a dinner", [{"type": "text", "text": "yes"}]])
calls = st.lists(st.tuples(st.sampled_from(["ls", "cat"]), st.integers(0, 2), st.sampled_from("xyz")), max_size=2)
one_turn = st.tuples(st.sampled_from(["user", "assistant"]), contents, calls)


def built(said: list[tuple[str, Any, list[tuple[str, int, str]]]], salt: str) -> list[Turn]:
    return transcript(
        *(
            (role, content, {"tool_calls": [_plain(call_id, name, {"n": n}) for name, n, call_id in made]})
            for role, content, made in said
        ),
        salt=salt,
    )


@given(st.lists(one_turn, max_size=3), st.lists(one_turn, max_size=7), st.lists(one_turn, max_size=7))
def test_a_patched_left_side_is_the_right_side(shared: Any, left: Any, right: Any) -> None:
    common = built(shared, "s")
    mine = common + built(left, "l")
    other = common + built(right, "r")
    found = diff(mine, other)
    assert patch(mine, found) == other
    assert found.common == len(common)


@given(st.lists(one_turn, max_size=7))
def test_nothing_differs_from_itself(said: Any) -> None:
    mine = built(said, "l")
    assert diff(mine, mine).entries == ()
    again = diff(mine, built(said, "r"))
    assert again.is_empty
    assert again.kinds["equal"] == len(said)


@given(st.lists(one_turn, max_size=7), st.lists(one_turn, max_size=7))
def test_the_diff_from_the_other_side_is_the_mirror(left: Any, right: Any) -> None:
    mine, other = built(left, "l"), built(right, "r")
    there, back = diff(mine, other), diff(other, mine)
    assert (there.left.counts, there.right.counts) == (back.right.counts, back.left.counts)
    swap = {"left": "right", "right": "left", "equal": "equal", "changed": "changed"}
    assert sorted(swap[kind] for kind in kinds(there)) == sorted(kinds(back))
    pairs = {(e.left.index, e.right.index) for e in there.entries if e.left and e.right}
    assert pairs == {(e.right.index, e.left.index) for e in back.entries if e.left and e.right}


def test_a_patch_refuses_turns_that_it_was_not_made_for() -> None:
    left, right = transcript(("user", "a"), ("user", "b")), transcript(("user", "a"), ("user", "c"), salt="b")
    found = diff(left, right)
    with pytest.raises(InvalidInput, match="is for 2 turns, not 1"):
        patch(left[:1], found)
    with pytest.raises(InvalidInput, match="turn 1 does not say"):
        patch(transcript(("user", "a"), ("user", "z")), found)
    shared = diff(left, left)
    with pytest.raises(InvalidInput, match="starts after the turn with the digest"):
        patch(transcript(("user", "a"), ("user", "b"), salt="other"), shared)
