"""A player answers from the record by what came before, and never with an answer to something else."""

from __future__ import annotations

import random

import pytest

import trails
from tests.support.machines import Size
from trails import InvalidInput, RecordMiss, Repository, Session, ToolCall

CALLS = [
    {"id": "a", "name": "dice", "arguments": {}},
    {"id": "b", "name": "dice", "arguments": {}},
    {"id": "c", "name": "weather", "arguments": {"place": "Zermatt", "day": 1}},
]


def fill(store: Repository) -> Session:
    """0 user, 1 calls dice twice and the weather, 2 to 4 answer in another order, 5 says so, 6 user, 7 the end."""
    plan = store.create(id="plan", system="Be brief.")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Let me look.", tool_calls=CALLS)
    plan.append("tool", "Snow", tool_call_id="c", is_error=True)
    plan.append("tool", "five", tool_call_id="a")
    plan.append("tool", "six", tool_call_id="b")
    plan.append("assistant", "Take the train.", model="m-1")
    plan.append("user", "Thanks")
    plan.append("assistant", "Bye")
    plan.persist()
    return plan


def test_a_whole_session_is_played_in_order_and_nothing_is_written(store: Repository) -> None:
    plan = fill(store)
    player = store.player("plan")
    assert [turn.content for turn in player.input()] == ["Plan a trip"]
    assert [call.name for call in player.model().tool_calls] == ["dice", "dice", "weather"]
    assert [player.tool("dice").content, player.tool("dice").content] == ["five", "six"]
    answer = player.tool("weather", {"day": 1, "place": "Zermatt"})
    assert (answer.content, answer.is_error, answer.turn) == ("Snow", True, plan.turns[2])
    assert player.model() == plan.turns[5]
    assert [turn.index for turn in player.input()] == [6]
    assert (player.model().content, player.index, len(player)) == ("Bye", 8, 8)
    assert store.player("plan").input() == (plan.turns[0],)
    assert len(store) == 1


def test_equal_calls_are_answered_in_order_and_never_once_more(memory: Repository) -> None:
    fill(memory)
    player = memory.player("plan")
    player.input(), player.model()
    assert [player.tool("dice").content for _ in range(2)] == ["five", "six"]
    with pytest.raises(RecordMiss) as missed:
        player.tool("dice")
    assert (missed.value.index, missed.value.what) == (2, "number of equal calls of dice")
    assert (missed.value.recorded, missed.value.found) == ("2", "3")


def test_of_equal_calls_the_one_with_the_id_is_answered(memory: Repository) -> None:
    fill(memory)
    player = memory.player("plan")
    player.input(), player.model()
    assert player.tool(ToolCall(id="b", name="dice", arguments="{}")).content == "six"
    assert player.tool(ToolCall(id="new", name="dice", arguments="{}")).content == "five"


def test_a_call_with_other_arguments_names_them(memory: Repository) -> None:
    fill(memory)
    player = memory.player("plan")
    player.input(), player.model()
    with pytest.raises(RecordMiss, match=r"index 2: arguments of weather: .*Zermatt.*Davos.*fork\(at=2\)"):
        player.tool("weather", {"place": "Davos", "day": 1})
    with pytest.raises(RecordMiss, match="tool: recorded dice, now taxi"):
        player.tool("taxi")


def test_a_model_is_not_answered_before_the_tools_that_it_called(memory: Repository) -> None:
    fill(memory)
    player = memory.player("plan")
    player.input(), player.model(), player.tool("dice")
    with pytest.raises(RecordMiss, match="who speaks next: recorded tool, now model") as missed:
        player.model()
    assert missed.value.index == 2


def test_beyond_upto_the_record_ends(memory: Repository) -> None:
    plan = fill(memory)
    player = memory.player("plan", upto=5)
    with pytest.raises(RecordMiss, match="the record ends") as missed:
        player.model(plan.turns[:5])
    assert missed.value.index == 5
    assert memory.player("plan", upto=6).model(plan.turns[:5]).content == "Take the train."
    assert memory.player("plan", upto=0).input() == ()
    with pytest.raises(InvalidInput, match="8 turns, so it is played up to 8, not 9"):
        memory.player("plan", upto=9)


def test_a_transcript_of_messages_is_answered_by_what_it_says(memory: Repository) -> None:
    plan = fill(memory)
    messages = plan.context().openai()
    assert messages[0]["role"] == "system"
    player = memory.player("plan")
    assert player.model(messages[:2]).index == 1
    assert player.tool("dice", before=messages[:3]).content == "five"
    assert player.tool("dice", before=messages[:3]).content == "six"
    assert player.model(plan.turns[:7]).content == "Bye"
    with pytest.raises(RecordMiss, match=r"system prompt: recorded 'Be brief\.', now 'Be long\.'"):
        player.model([{"role": "system", "content": "Be long."}, *messages[1:2]])


def test_a_player_goes_on_behind_what_it_was_asked_with(memory: Repository) -> None:
    plan = fill(memory)
    player = memory.player("plan")
    for call in plan[1].tool_calls:
        player.tool(call, before=plan.turns[:2])
    assert player.index == 5
    assert player.model().content == "Take the train."
    assert player.model(plan.turns[:1]).index == 1
    assert [player.tool("dice").content for _ in range(2)] == ["five", "six"]


def test_ids_times_and_salts_of_another_run_make_no_difference(memory: Repository) -> None:
    fill(memory)
    again = memory.create(id="again")
    again.append("user", "Plan a trip")
    again.append("assistant", "Let me look.", tool_calls=[call | {"id": f"new-{call['id']}"} for call in CALLS])
    again.append("tool", "Snow", tool_call_id="new-c")
    again.append("tool", "five", tool_call_id="new-a")
    again.append("tool", "six", tool_call_id="new-b")
    assert memory.player("plan").model(again).content == "Take the train."
    again.discard_pending()


def test_answers_that_changed_places_are_another_transcript(memory: Repository) -> None:
    plan = fill(memory)
    turns = list(plan.turns[:5])
    turns[3], turns[4] = turns[4], turns[3]
    with pytest.raises(RecordMiss) as missed:
        memory.player("plan").model(turns)
    assert missed.value.index == 3


def test_a_fork_goes_on_live_where_the_record_was_left(memory: Repository) -> None:
    plan = fill(memory)
    with pytest.raises(RecordMiss) as missed:
        memory.player("plan").model([*plan.turns[:6], {"role": "user", "content": "And back?"}])
    live = plan.fork(at=missed.value.index)
    live.append("user", "And back?")
    assert (live.persist(), len(live), live.forked_at_index) == (1, 7, 6)


def test_an_answer_among_the_parts_of_a_message_is_found_there(memory: Repository) -> None:
    s = memory.create(id="s")
    s.append("user", "Go")
    asked = [{"type": "tool_use", "id": f"t{n}", "name": "ls", "input": {"n": n}} for n in range(2)]
    s.append("assistant", asked)
    said = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": f"file {n}"} for n in range(2)]
    s.append("user", said)
    s.append("assistant", "Two files")
    s.persist()
    player = memory.player("s")
    player.input(), player.model()
    assert [player.tool("ls", {"n": n}).content for n in (1, 0)] == ["file 1", "file 0"]
    assert player.model().content == "Two files"


def test_what_was_redacted_is_not_played(memory: Repository) -> None:
    fill(memory)
    memory.redact("plan", 5)
    memory.redact("plan", 3)
    player = memory.player("plan")
    player.input(), player.model()
    with pytest.raises(RecordMiss, match="no answer to dice"):
        player.tool("dice")
    with pytest.raises(RecordMiss, match="redacted"):
        memory.player("plan").model(memory.load("plan").turns[:5])


@pytest.mark.parametrize("before", ["text", 3, {"role": "user", "content": "Go"}, [{"no": "role"}], [3]])
def test_what_is_no_transcript_is_refused(memory: Repository, before: object) -> None:
    fill(memory)
    with pytest.raises(InvalidInput):
        memory.player("plan").model(before)  # type: ignore[arg-type] # that is the test


def test_a_player_is_made_by_the_store_alone() -> None:
    with pytest.raises(InvalidInput, match=r"store\.player"):
        trails.Player("plan")  # type: ignore[arg-type] # that is the test


def test_a_planted_difference_is_found_where_it_was_planted(memory: Repository, size: Size) -> None:
    cases = {"quick": 100, "all": 1000, "long": 10_000}[size]
    chance = random.Random(20_240_501)
    s = memory.create(id="s")
    for n in range(60):
        s.append("user" if n % 2 == 0 else "assistant", f"turn {n % 7}")
    s.persist()
    messages = [{"role": turn.role, "content": turn.content} for turn in s.turns]
    player = memory.player("s")
    for _ in range(cases):
        length = 2 * chance.randrange(30) + 1
        assert player.model(messages[:length]).index == length
        planted = chance.randrange(length)
        other = {**messages[planted], "content": messages[planted]["content"] + chance.choice([" ", "!", "\n"])}
        with pytest.raises(RecordMiss) as missed:
            player.model([*messages[:planted], other, *messages[planted + 1 : length]])
        assert missed.value.index == planted
