"""A block of a pack gives back the turns that it was made of, and never other ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trails.model.values import (
    NO_FACTS,
    Call,
    Compaction,
    ContextUsed,
    Derivation,
    Facts,
    ModelCall,
    Quote,
    ToolCall,
    ToolResult,
    Turn,
)
from trails.plumbing.packs.block import MOST, Block, Damaged, encode, head
from trails.store.leaflog import Leaves

PLACE = Leaves(7, 700, "ab" * 32)
TIME = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
EVERY_KIND = (
    NO_FACTS,
    Facts(source_ids=("a", "b"), meta_json='{"k": "ü"}'),
    Facts(model_call=ModelCall(model="m", usage_json='{"input_tokens": 1}', stop_reason="stop")),
    Facts(model_call=ModelCall()),
    Facts(
        tool_calls=(
            ToolCall(id="c", name="look", arguments="{}"),
            ToolCall(id="d", name="", arguments=None, withheld="0f"),
        )
    ),
    Facts(tool_results=(ToolResult(call_id="c"), ToolResult(call_id="d", is_error=True))),
    Facts(
        tool_results=(ToolResult(call_id="c", started=TIME, outcome="refused", refused_by="urn:trails:principal:a"),)
    ),
    Facts(model_call=ModelCall(call=Call(started=TIME, prompt=2, context=ContextUsed(through=3, left_out=(1,))))),
    Facts(compaction=Compaction(first_kept=2, summarised_through=4, request_withheld="0f")),
    Facts(compaction=Compaction()),
    Facts(quoted_from=Quote(session_id="s", index=1, digest="0f" * 32), meta_withheld="aa"),
    Facts(derived_from=Derivation(session_id="s", number=4, digest="0f" * 32), withheld="bb"),
    Facts(derived_from=Derivation(session_id="s", index=4, digest="0f" * 32)),
)


def turn(index: int, text: str = "Hello", **more: object) -> Turn:
    values = {
        "session_id": "s", "index": index, "role": "user", "branch": "main", "author_iri": "urn:trails:principal:a",
        "time": TIME, "text": text, "structured": False, "redacted": False, "digest": f"{index:064x}",
    }  # fmt: skip
    return Turn(**(values | more))  # type: ignore[arg-type] # each its own


def back(turns: list[Turn]) -> list[Turn]:
    block = Block(encode("s", 0, turns, PLACE))
    return list(block.turns(block.start, block.end))


@pytest.mark.parametrize("facts", EVERY_KIND, ids=range(len(EVERY_KIND)))
def test_all_that_is_recorded_with_a_turn_comes_back(facts: Facts) -> None:
    turns = [turn(0), turn(1, facts=facts), turn(2)]
    assert back(turns) == turns
    assert [each.facts for each in back(turns)] == [NO_FACTS, facts, NO_FACTS]


def test_a_turn_says_what_one_says_that_was_validated() -> None:
    turns = [turn(index, facts=facts) for index, facts in enumerate(EVERY_KIND)]
    assert [each.model_dump() for each in back(turns)] == [each.model_dump() for each in turns]
    assert [repr(each) for each in back(turns)] == [repr(each) for each in turns]


@given(
    st.lists(
        st.builds(
            dict,
            text=st.text(st.characters(exclude_categories=["Cs"])),
            role=st.sampled_from(["user", "assistant", "ß"]),
            branch=st.sampled_from(["main", "a b"]),
            time=st.none() | st.datetimes(timezones=st.just(UTC)),
            structured=st.booleans(),
            redacted=st.booleans(),
            facts=st.sampled_from(EVERY_KIND),
        ),
        min_size=1,
        max_size=12,
    ),
    st.data(),
)
def test_turns_come_back_as_they_were_all_and_some(said: list[dict[str, object]], data: st.DataObject) -> None:
    turns = [turn(index, **each) for index, each in enumerate(said, 3)]  # type: ignore[arg-type] # the text is one
    block = Block(encode("s", 1, turns, PLACE))
    assert (block.session_id, block.starts_at, block.place) == ("s", 1, PLACE)
    assert (block.start, block.end) == (3, 3 + len(turns))
    start = data.draw(st.integers(3, block.end))
    end = data.draw(st.integers(start, block.end))
    assert list(block.turns(start, end)) == turns[start - 3 : end - 3]
    assert list(block.spoken(start, end)) == [
        (each.index, each.role, each.text, each.structured, each.redacted, each.facts)
        for each in turns[start - 3 : end - 3]
    ]
    assert [each.time and each.time.utcoffset() for each in block.turns(3, block.end)] == [
        each.time and timedelta(0) for each in turns
    ]
    assert [block.digest(each.index) for each in turns] == [each.digest for each in turns]


def test_a_block_with_any_byte_altered_or_missing_is_damaged() -> None:
    data = encode("s", 0, [turn(0, "Plan"), turn(1, "ü", facts=EVERY_KIND[4])], PLACE)
    for at in range(len(data)):
        with pytest.raises(Damaged):
            Block(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(Damaged):
            Block(data[:at])


def test_the_head_of_a_block_says_where_the_next_one_begins() -> None:
    one, two = encode("s", 0, [turn(0)], PLACE), encode("s", 0, [turn(1)], PLACE)
    first = head((one + two)[:24])
    assert first is not None
    assert (first.size, first.start, first.length) == (len(one), 0, 1)
    assert head(b"x" * 24) is None
    assert head(one[:23]) is None
    assert Block(one + two, len(one)).turns(1, 2)[0] == turn(1)


def test_a_turn_from_before_digests_is_not_packed() -> None:
    with pytest.raises(ValueError, match="digest"):
        encode("s", 0, [turn(0, digest="")], PLACE)


def test_a_full_block_has_as_many_roles_as_turns() -> None:
    turns = [turn(index, role=f"r{index}", branch=f"b{index}") for index in range(MOST)]
    assert back(turns) == turns


def test_equal_facts_stand_in_a_block_once() -> None:
    model = ModelCall(model="m-17", usage_json='{"input_tokens": 12345}')
    said = [Facts(model_call=model), Facts(model_call=model, source_ids=("a",)), Facts(model_call=model)]
    turns = [turn(index, facts=facts) for index, facts in enumerate(said)]
    data = encode("s", 0, turns, PLACE)
    assert (data.count(b"m-17"), data.count(b"12345")) == (1, 1)
    assert back(turns) == turns


def test_the_earliest_and_the_latest_time_come_back() -> None:
    turns = [
        turn(0, time=datetime(1, 1, 1, tzinfo=UTC)),
        turn(1, time=datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        turn(2, time=datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
    ]
    assert [str(each.time) for each in back(turns)] == [
        "0001-01-01 00:00:00+00:00", "9999-12-31 23:59:59.999999+00:00", "2026-05-01 12:00:00+00:00",
    ]  # fmt: skip


def test_turns_of_one_block_are_made_apart() -> None:
    block = Block(encode("s", 0, [turn(0, "a"), turn(1, "b")], PLACE))
    first, second = block.turns(0, 2)
    assert first.model_copy(update={"text": "c"}).text == "c"
    assert [each.text for each in (first, second, *block.turns(0, 2))] == ["a", "b", "a", "b"]
