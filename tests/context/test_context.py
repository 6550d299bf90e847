"""What a model is shown: assembly, its budget, the shapes of the model APIs, and pi's own contexts as upstream has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.entries import Listening, answered, asked, entries, said, transcripts
from trails import Compaction, IndexGap, InvalidInput, Repository
from trails.context import Context, Window, assemble, estimate
from trails.context.messages import Message, ShownTurn, messages_of
from trails.exchange.merge import merge
from trails.exchange.openclaw import pi_session_file
from trails.model.values import Facts
from trails.rdf import vocab
from trails.store.contract import Change

ONE = len  # a counter for which a token is a character: sums can be made by hand


def indices(context: Context) -> list[int]:
    return [turn.index for turn in context.turns]


# --- what is in it, and in which order


def test_a_context_is_system_summary_kept_turns_and_query() -> None:
    context = assemble(
        [said(3, "user", "And by train?"), said(4, "assistant", "Yes")],
        system="Be brief.",
        summary=ShownTurn(
            2, "summary", "A trip was asked for.", facts=Facts(compaction=Compaction(summarised_through=1))
        ),
        query="When?",
    )
    assert [part.kind for part in context.parts] == ["system", "summary", "turn", "turn", "query"]
    assert context.summarised_through == 1
    assert sent(context.openai()) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Summary of the conversation before this point:\n\nA trip was asked for."},
        {"role": "user", "content": "And by train?"},
        {"role": "assistant", "content": "Yes"},
        {"role": "user", "content": "When?"},
    ]


def test_a_spawned_session_is_shown_its_brief_and_background_before_its_own_turns() -> None:
    context = assemble(
        [said(0, "assistant", "I look.")], system="You scout.", brief="Find trains", background="Two travel."
    )
    assert [(m["role"], m["content"]) for m in sent(context.openai())] == [
        ("system", "You scout."),
        ("user", "Your task:\n\nFind trains"),
        ("user", "What is known so far:\n\nTwo travel."),
        ("assistant", "I look."),
    ]


def test_a_stored_brief_and_context_summary_are_shown_by_themselves(store: Repository) -> None:
    tree = trails.Tree(store)
    main = tree.main("planner", "chat", system="You plan.")
    branch = main.spawn("branch", "Find trains", "Two travel.", id="branch")
    branch.append("assistant", "I look.")
    branch.persist()
    expected = ["You plan.", "Your task:\n\nFind trains", "What is known so far:\n\nTwo travel.", "I look.", "Now?"]
    for context in (store.context("branch", "Now?"), store.load("branch").context("Now?"), branch.context("Now?")):
        assert [part.kind for part in context.parts] == ["system", "brief", "background", "turn", "query"]
        assert [part.text for part in context.parts] == expected
    fork = store.load("branch").fork(at=1, id="fork")
    fork.persist()
    for context in (store.context("fork"), fork.context()):
        assert [part.kind for part in context.parts] == ["system", "brief", "background", "turn"]
    other = store.context("branch", brief="Find buses")
    assert [part.text for part in other.parts if part.kind == "brief"] == ["Your task:\n\nFind buses"]
    worker = main.spawn("worker", "Count the words")
    assert [part.kind for part in worker.session.context("Now?").parts] == ["brief", "query"]
    assert [part.kind for part in store.context(main.id).parts] == ["system"]
    tree.withhold(branch)
    assert [part.kind for part in store.context("branch").parts] == ["system", "turn"]


def test_the_ledger_case_gives_summary_and_kept_turns_and_leaves_the_history_whole(
    store: Repository, shared: Path
) -> None:
    """Turns 1 to 5; 1 to 3 are summarised. The document counts from 1."""
    cases = json.loads((shared / "cases" / "nexus_agents_ledger.json").read_text())["cases"]
    case = next(each for each in cases if each["name"] == "compaction")
    names = case["tree"]
    session = store.create(id="s")
    for name in names:
        session.append("user", name)
    through, first = (names.index(case["compact"][key]) for key in ("summarized_through", "first_kept"))
    turn = session.compact(lambda _: "summary(1..3)", keep_turns=len(names) - first)
    assert turn.compaction is not None
    assert (turn.compaction.summarised_through, turn.compaction.first_kept) == (through, first)
    assert turn.index - 1 == names.index(case["expected"]["parent_of_compaction"])
    assert session.head == turn.digest
    shown = store.context("s")
    assert [shown.parts[0].text, *(part.text for part in shown.parts[1:])] == case["expected"]["context"]
    history = [each["content"] for each in store.replay("s")]
    assert history == [*names, "summary(1..3)"]
    assert len(history) == len(case["expected"]["full_history"])


def test_a_context_of_a_session_and_of_the_stored_session_show_the_same(store: Repository) -> None:
    session = store.create(id="s", system="Be brief.")
    for number in range(12):
        if number % 4 == 1:
            call = {"id": f"c{number}", "name": "look", "arguments": {"n": number}}
            session.append("assistant", "I look.", tool_calls=[call], model="m")
        elif number % 4 == 2:
            session.append("tool", "seen", tool_call_id=f"c{number - 1}", is_error=number == 6)
        else:
            session.append("user", [{"type": "text", "text": f"turn {number}"}])
    session.persist()
    assert sent(store.context("s", "go on").openai()) == sent(session.context("go on").openai())
    session.compact(lambda _: "so far", keep_turns=5)
    session.append("user", "more")
    session.persist()
    fork = session.fork(id="f")
    fork.append("assistant", "on a fork")
    fork.persist()
    for name, handle in (("s", session), ("f", fork)):
        for budget in (None, 10_000, 120, 60):
            stored, here = store.context(name, "go on", max_tokens=budget), handle.context("go on", max_tokens=budget)
            assert sent(stored.openai()) == sent(here.openai())
            assert sent(stored.anthropic()) == sent(here.anthropic())
            assert stored.to_dict() == here.to_dict()


def test_a_fork_below_a_compaction_is_shown_without_its_summary(store: Repository) -> None:
    session = store.create(id="s")
    for text in ("a", "b", "c"):
        session.append("user", text)
    session.compact(lambda _: "a and b", keep_turns=1)
    assert indices(session.fork(at=2).context()) == [0, 1]
    fork = session.fork(at=4, id="f")
    fork.append("user", "d")
    fork.persist()
    shown = store.context("f")
    assert shown.parts[0].text == "a and b"
    assert indices(shown) == [2, 4]


def test_only_the_latest_summary_is_shown_and_none_among_the_turns_that_it_kept(store: Repository) -> None:
    session = store.create(id="s")
    for text in ("a", "b"):
        session.append("user", text)
    session.append("summary", "S1", compaction=Compaction(first_kept=1))
    session.append("user", "c")
    session.append("summary", "S2", compaction=Compaction(first_kept=1))
    session.append("user", "e")
    session.persist()
    for context in (session.context(), store.context("s")):
        assert [part.text for part in context.parts] == ["S2", "b", "c", "e"]


def test_a_summary_that_kept_nothing_is_shown_with_what_comes_after_it(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "a")
    session.append("summary", "S", compaction=Compaction(summarised_through=0))
    session.append("user", "b")
    session.persist()
    assert [part.text for part in store.context("s").parts] == ["S", "b"]


def test_a_gap_among_the_turns_shown_raises_and_no_shorter_context_is_given(store: Repository) -> None:
    session = store.create(id="s")
    for text in "abcdef":
        session.append("user", text)
    session.compact(lambda _: "S", keep_turns=4)
    store.store.commit(Change(remove=store.store.quads((None, vocab.INDEX, ox.Literal(4), None))))
    with pytest.raises(IndexGap, match="session 's' cannot be read: turn 4, which 's' owns, is missing"):
        store.context("s")


# --- the budget


def test_the_oldest_turns_are_left_out_and_named_once_the_budget_is_full() -> None:
    """Each turn takes 4 for the message and its characters: 10, and the query 5."""
    turns = [said(index, "user", f"turn {index}") for index in range(6)]
    context = assemble(turns, Window(35, 0, ONE), query="?")
    assert indices(context) == [3, 4, 5]
    assert (context.tokens, context.within_budget, context.why) == (35, True, None)
    assert list(context.dropped) == [0, 1, 2]
    pinned = assemble(turns, Window(35, 1, ONE), query="?")
    assert indices(pinned) == [0, 4, 5]
    assert list(pinned.dropped) == [1, 2, 3]


def test_what_cannot_be_left_out_is_shown_and_the_context_says_why_it_is_too_much() -> None:
    turns = [said(index, "user", f"turn {index}") for index in range(3)]
    context = assemble(turns, Window(30, 1, ONE), system="Be brief.", query="And when?")
    assert [part.kind for part in context.parts] == ["system", "pinned", "query"]
    assert (context.tokens, context.within_budget) == (36, False)
    assert context.why == (
        "what cannot be left out takes 36 of 30 tokens (system prompt 13, pinned turns 10, query 13)"
    )
    assert list(context.dropped) == [1, 2]


def test_without_a_query_the_newest_turn_always_stays() -> None:
    turns = [said(0, "user", "first"), said(1, "user", "a question far too long")]
    context = assemble(turns, Window(10, 0, ONE))
    assert indices(context) == [1]
    assert not context.within_budget


def test_a_summary_stands_for_the_first_turns_so_none_are_pinned_beside_it() -> None:
    turns = [said(index, "user", f"turn {index}") for index in range(4, 8)]
    summary = ShownTurn(3, "summary", "S", facts=Facts(compaction=Compaction(first_kept=4)))
    context = assemble(turns, Window(70, 1, ONE), summary=summary, query="?")
    assert [part.kind for part in context.parts] == ["summary", "turn", "query"]
    assert indices(context) == [7]


def test_a_call_is_left_out_together_with_its_answers() -> None:
    turns = [said(0, "user", "go"), asked(1, "a", "b"), answered(2, "a"), answered(3, "b"), said(4, "user", "and?")]
    costs = [sum(message.tokens(ONE) for message in messages_of(turn)) for turn in turns]
    assert costs == [6, 15, 8, 8, 8]
    assert indices(assemble(turns, Window(38, 0, ONE))) == [4]
    assert indices(assemble(turns, Window(39, 0, ONE))) == [1, 2, 3, 4]


def test_made_up_answers_count_as_what_they_are() -> None:
    context = assemble([asked(0, "a")], Window(None, 0, ONE), query="?")
    shown = [message for part in context.parts for message in part.messages]
    made_up = next(message for message in context.repair.paired if message.synthetic)
    assert context.tokens == sum(message.tokens(ONE) for message in shown) + made_up.tokens(ONE)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_a_budget_is_a_number_of_tokens_from_1(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        assemble([], Window(wrong, 0))


def test_the_oldest_turns_are_not_even_looked_at_once_the_budget_is_full() -> None:
    turns = Listening([said(index, "user", f"turn {index:03}") for index in range(500)])
    context = assemble(turns, Window(60, 1, ONE), query="?", starts_at=0)
    assert indices(context) == [0, 497, 498, 499]
    assert context.dropped == range(1, 497)
    assert turns.looked_at == {0, 496, 497, 498, 499}


def paired(messages: tuple[Message, ...]) -> bool:
    """Whether after each message with calls stand the answers to just those, in order, and none anywhere else."""
    at = 0
    while at < len(messages):
        message = messages[at]
        if message.role == "tool":
            return False
        at += 1
        for call in message.calls:
            if at >= len(messages) or messages[at].role != "tool" or messages[at].call_id != call.id:
                return False
            at += 1
    return True


@given(transcripts, st.integers(1, 300), st.integers(0, 3), st.booleans(), st.booleans())
def test_a_context_is_within_its_budget_or_says_why_not(
    kinds: list[tuple[str, str, str]], budget: int, pinned: int, with_query: bool, with_summary: bool
) -> None:
    turns = entries(kinds)
    context = assemble(
        turns,
        Window(budget, pinned),
        system="Be brief.",
        summary=ShownTurn(99, "summary", "S") if with_summary else None,
        query="go on" if with_query else None,
    )
    assert context.within_budget == (context.why is None) == (context.tokens <= budget)
    shown = [turn.index for turn in context.turns]
    assert shown == sorted({*range(len(turns))} - {*context.dropped})
    if not context.within_budget:
        without = assemble([], Window(budget, 0), system="Be brief.", query="go on" if with_query else None)
        kept = [part for part in context.parts if part.kind == "turn"]
        assert not with_query or not kept, "turns that could be left out are, before the budget is passed"
        assert context.tokens >= without.tokens
    messages = context.repair.paired
    assert paired(messages)
    system = 4 + estimate("Be brief.")
    assert system + sum(message.tokens(estimate) for message in messages) <= context.tokens


@given(transcripts)
def test_both_shapes_pair_every_call_with_its_answer(kinds: list[tuple[str, str, str]]) -> None:
    context = assemble(entries(kinds))
    waiting: list[str] = []
    for message in sent(context.openai()):
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", [])]
    assert waiting == []
    messages = sent(context.anthropic())["messages"]
    assert [m["role"] for m in messages] == [("user", "assistant")[at % 2] for at in range(len(messages))]
    ids: list[str] = []
    for before, message in zip([None, *messages], messages, strict=False):
        asked_for = [b["id"] for b in blocks(before) if b["type"] == "tool_use"] if before else []
        results = [b["tool_use_id"] for b in blocks(message) if b["type"] == "tool_result"]
        assert results == asked_for
        assert [b["type"] for b in blocks(message)][: len(results)] == ["tool_result"] * len(results)
        ids += results
    assert len(ids) == len(set(ids))


# --- the shapes


def shown(*content: Any, role: str = "assistant") -> Context:
    with trails.open(":memory:") as store:
        session = store.create()
        session.append(role, list(content))
        session.append("user", "ok")
        context = session.context()
        session.discard_pending()
        return context


ANTHROPIC = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "/"}}
SAME_CALLS = [
    ANTHROPIC,
    {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "/"}},
    {"type": "toolUse", "id": "c1", "name": "ls", "arguments": {"path": "/"}},
    {"type": "functionCall", "id": "c1", "name": "ls", "arguments": {"path": "/"}},
    {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path":"/"}'},
    {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "/"}},
]


@pytest.mark.parametrize("part", SAME_CALLS, ids=lambda part: part["type"])
def test_a_call_in_any_shape_is_shown_in_both(part: dict[str, Any]) -> None:
    context = shown({"type": "text", "text": "I look."}, part)
    call = sent(context.openai())[0]
    assert (call["role"], call["content"]) == ("assistant", "I look.")
    (made,) = call["tool_calls"]
    assert (made["id"], made["type"], made["function"]["name"]) == ("c1", "function", "ls")
    assert json.loads(made["function"]["arguments"]) == {"path": "/"}
    first, *_ = sent(context.anthropic())["messages"][1:]
    assert first == {"role": "assistant", "content": [{"type": "text", "text": "I look."}, ANTHROPIC]}


def blocks(message: Any) -> list[dict[str, Any]]:
    """Return what an Anthropic message says as blocks: a text alone is one."""
    said = message["content"]
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def sent(made: Any) -> Any:
    """Return what goes to an API as plain data: the SDKs' own types are too many to look into."""
    return made


SAME_ANSWERS = [
    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.txt"}], "is_error": True},
    {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt", "is_error": True},
]


@pytest.mark.parametrize("part", SAME_ANSWERS)
def test_an_answer_among_parts_stands_right_after_its_call(part: dict[str, Any]) -> None:
    with trails.open(":memory:") as store:
        session = store.create()
        session.append("user", "What is there?")
        session.append("assistant", [ANTHROPIC])
        session.append("user", [part, {"type": "text", "text": "And?"}])
        context = session.context()
        session.discard_pending()
    assert sent(context.openai())[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
        {"role": "user", "content": "And?"},
    ]
    assert sent(context.anthropic())["messages"][2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": part["content"], "is_error": True},
            {"type": "text", "text": "And?"},
        ],
    }
    assert not context.repair.added


def test_calls_given_beside_plain_text_and_their_answers_are_shown(memory: Repository) -> None:
    session = memory.create()
    session.append("user", "Weather?")
    session.append("assistant", "", tool_calls=[{"id": "c1", "name": "weather", "arguments": {"at": "Zermatt"}}])
    session.append("tool", "Snow", tool_call_id="c1")
    session.persist()
    assert sent(session.context().openai())[1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"at":"Zermatt"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Snow"},
    ]


def test_images_are_shown_in_both_shapes() -> None:
    parts = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "AAAA"},
    ]
    for part in parts:
        context = shown({"type": "text", "text": "See:"}, part, role="user")
        assert sent(context.openai())[0]["content"] == [
            {"type": "text", "text": "See:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]
        assert sent(context.anthropic())["messages"][0]["content"][1] == {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        }
        assert 1200 < context.tokens < 1220, "an image counts as such, not by its data"


def test_what_a_model_thought_goes_back_only_where_the_api_takes_it() -> None:
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "s1"}
    unsigned = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "s2"}
    context = shown(signed, unsigned, {"type": "text", "text": "Yes"})
    assert sent(context.openai())[0] == {"role": "assistant", "content": "Yes"}
    assert sent(context.anthropic())["messages"][1]["content"] == [signed, {"type": "text", "text": "Yes"}]


def test_anthropic_gets_system_messages_apart_blank_texts_left_out_and_a_user_first(memory: Repository) -> None:
    session = memory.create(system="Be brief.")
    session.append("system", "Today is Monday.")
    session.append("assistant", "Hello")
    session.append("assistant", "  ")
    session.append("assistant", "again")
    session.persist()
    found = sent(session.context().anthropic())
    assert found["system"] == "Be brief.\n\nToday is Monday."
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"]
    assert [block["text"] for block in found["messages"][1]["content"]] == ["Hello", "again"]
    assert sent(session.context().openai())[1] == {"role": "system", "content": "Today is Monday."}


@pytest.mark.parametrize("system", [None, "", " \n"])
def test_anthropic_is_given_no_system_prompt_where_there_is_none(memory: Repository, system: str | None) -> None:
    session = memory.create(system=system) if system != " \n" else memory.create()
    session.append("user", "Hello")
    if system == " \n":
        session.append("system", system)
    session.persist()
    assert sent(session.context().anthropic()) == {"messages": [{"role": "user", "content": "Hello"}]}


def test_anthropic_gets_only_ids_that_it_takes_and_no_two_become_one(memory: Repository) -> None:
    session = memory.create()
    session.append("user", "go")
    calls: list[dict[str, Any]] = [
        {"id": "call|1", "name": "a", "arguments": {}},
        {"id": "call_1", "name": "b", "arguments": [1]},
    ]
    session.append("assistant", "", tool_calls=calls)
    session.append("tool", "one", tool_call_id="call|1")
    session.append("tool", "two", tool_call_id="call_1")
    session.persist()
    _, call, results = sent(session.context().anthropic())["messages"]
    assert [(block["id"], block["name"], block["input"]) for block in call["content"]] == [
        ("call_1", "a", {}),
        ("call_1_2", "b", {"arguments": [1]}),
    ]
    assert [(block["tool_use_id"], block["content"]) for block in results["content"]] == [
        ("call_1", "one"),
        ("call_1_2", "two"),
    ]


def test_a_redacted_turn_is_shown_as_such_and_its_call_is_still_answered(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "my password is hunter2")
    session.append("assistant", "", tool_calls=[{"id": "c1", "name": "login", "arguments": {"p": "hunter2"}}])
    session.append("tool", "hunter2 accepted", tool_call_id="c1")
    session.persist()
    for index in range(3):
        store.redact("s", index)
    for context in (store.load("s").context(), store.context("s")):
        assert "hunter2" not in json.dumps(sent(context.openai())) + json.dumps(sent(context.anthropic()))
        assert [message["role"] for message in sent(context.openai())] == ["user", "assistant", "tool"]
        assert sent(context.openai())[1]["tool_calls"][0]["function"] == {"name": "login", "arguments": "{}"}


def test_a_context_writes_nothing_and_repairs_only_what_is_shown(store: Repository) -> None:
    session = store.create(id="s")
    session.append("assistant", "", tool_calls=[{"id": "c1", "name": "ls", "arguments": {}}])
    session.append("user", "later")
    session.persist()
    before = set(store.store.quads((None, None, None, None)))
    context = store.context("s")
    assert [message["role"] for message in sent(context.openai())] == ["assistant", "tool", "user"]
    assert context.repair.added == ("c1",)
    assert set(store.store.quads((None, None, None, None))) == before
    assert [turn["role"] for turn in store.replay("s")] == ["assistant", "user"]


def test_a_context_says_how_many_answers_are_left_out_because_their_calls_are_not_shown(memory: Repository) -> None:
    session = memory.create(id="s")
    for role, text in (("user", "a"), ("user", "b" * 400), ("assistant", "c"), ("tool", "d"), ("user", "e")):
        session.append(role, text, tool_call_id="gone" if role == "tool" else None)
    session.persist()
    whole, cut = memory.context("s"), memory.context("s", max_tokens=60)
    assert "left out" not in repr(whole)  # an answer to no call is shown as a text, where the whole transcript is
    assert repr(cut).endswith("; 1 turn and 1 unpaired answer left out>")
    assert "unpaired answers left out" in cut._repr_html_()


def test_a_context_says_that_a_second_answer_to_a_call_is_left_out(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("assistant", "", tool_calls=[{"id": "c1", "name": "ls", "arguments": {}}])
    session.append("tool", "one", tool_call_id="c1")
    session.append("tool", "two", tool_call_id="c1")
    session.persist()
    assert repr(memory.context("s")).endswith("; 1 unpaired answer left out>")


# --- pi


HEADER = {"type": "session", "version": 3, "id": "S", "timestamp": "2025-01-01T00:00:00Z", "cwd": "/tmp"}


def pi_read(store: Repository, entries: list[dict[str, Any]]) -> None:
    lines = [HEADER, *entries]
    merge(store, pi_session_file.parse([("s.jsonl", "\n".join(map(json.dumps, lines)).encode())]))


def chain(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    common = {"timestamp": "2025-01-01T00:00:00Z"}
    return [
        {"id": str(at), "parentId": str(at - 1) if at > 1 else None} | common | entry
        for at, entry in enumerate(entries, 1)
    ]


def pi_message(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": text, "timestamp": 1} | more}


def test_entries_after_the_last_turn_come_back_with_an_export(memory: Repository) -> None:
    from trails.exchange.openclaw.pi_export import export_session

    entries = chain(pi_message("user", "hello"), {"type": "thinking_level_change", "thinkingLevel": "low"})
    pi_read(memory, entries)
    lines = [json.loads(line) for line in export_session(memory, "pi:S").splitlines()]
    assert [(line["type"], line.get("thinkingLevel")) for line in lines[1:]] == [
        ("message", None),
        ("thinking_level_change", "low"),
    ]


def test_what_a_person_ran_is_told_to_the_model_unless_it_was_kept_from_it(memory: Repository) -> None:
    ran = pi_message("bashExecution", "", command="ls", output="a.txt", exitCode=1)
    hidden = pi_message("bashExecution", "", command="env", output="SECRET", excludeFromContext=True)
    pi_read(memory, chain(ran, hidden))
    assert [turn.role for turn in memory.load("pi:S").turns] == ["bash", "bash"]
    expected = [{"role": "user", "content": "The user ran: ls\nOutput:\na.txt\nIt ended with code 1."}]
    assert sent(memory.context("pi:S").openai()) == expected
