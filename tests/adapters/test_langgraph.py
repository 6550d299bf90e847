"""The LangGraph checkpointer: its contract, what it stores as turns and forks, and what several writers leave."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

import trails
from trails import InvalidInput, Repository

pytest.importorskip("langgraph.checkpoint.base")

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph

from trails.adapters.langgraph import TrailsSaver, rewriting
from trails.adapters.langgraph.messages import are_equal, message_turn, stored_message

CHAT: RunnableConfig = {"configurable": {"thread_id": "chat", "checkpoint_ns": ""}}


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Repository]:
    """A store of each kind."""
    with trails.open(":memory:" if request.param == "memory" else tmp_path / "store", create=True) as opened:
        yield opened


def checkpoint(**channels: Any) -> Checkpoint:
    """Return a new checkpoint with these channels, all of them of a new version."""
    made = empty_checkpoint()
    made["id"] = str(uuid6(clock_seq=0))
    made["channel_values"] = channels
    made["channel_versions"] = dict.fromkeys(channels, made["id"])
    return made


def put(saver: TrailsSaver, config: Any, **channels: Any) -> Any:
    """Put a checkpoint with these channels, and return its config."""
    made = checkpoint(**channels)
    return saver.put(config, made, {"source": "loop", "step": 0, "parents": {}}, made["channel_versions"])


def chat_graph(saver: TrailsSaver) -> Any:
    """Return a graph whose model asks for the weather, and answers then."""

    def agent(state: MessagesState) -> dict[str, Any]:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage("Take the train.", response_metadata={"model_name": "m-1"})]}
        usage = {"input_tokens": 30, "output_tokens": 6, "total_tokens": 36}
        call = {"name": "weather", "args": {"place": "Zermatt"}, "id": "c1"}
        return {
            "messages": [AIMessage("", tool_calls=[call], usage_metadata=usage, response_metadata={"model": "m-1"})]
        }

    def tool(state: MessagesState) -> dict[str, Any]:
        return {"messages": [ToolMessage("Snow", tool_call_id="c1")]}

    def after(state: MessagesState) -> str:
        return "tool" if state["messages"][-1].tool_calls else "__end__"  # type: ignore[union-attr]

    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_node("tool", tool)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", after)
    builder.add_edge("tool", "agent")
    return builder.compile(checkpointer=saver)


def said(session: Any) -> list[tuple[str, str]]:
    """Return role and text of the turns that are messages."""
    return [(turn.role, turn.content) for turn in session.turns if turn.role != "info"]


# --- the contract


def test_the_frameworks_conformance_kit_passes(tmp_path: Path) -> None:
    @checkpointer_test(name="TrailsSaver")
    async def saver() -> Any:
        with trails.open(tmp_path, create=True, durability="process") as store:
            yield TrailsSaver(store)

    results = asyncio.run(validate(saver)).results.values()

    assert sum(each.tests_passed for each in results) == 81
    assert [failure for each in results for failure in each.failures] == []


def test_another_handle_reads_the_same(store: Repository) -> None:
    saver = TrailsSaver(store)
    graph = chat_graph(saver)
    graph.invoke({"messages": [HumanMessage("Plan a trip", id="h1")]}, CHAT)

    assert TrailsSaver(store).get_tuple(CHAT) == saver.get_tuple(CHAT)
    assert list(TrailsSaver(store).list(CHAT)) == list(saver.list(CHAT))
    assert len(list(saver.list(CHAT))) == 5  # the input, and the four steps after it


def test_a_checkpoint_is_found_in_a_part_that_was_not_read(store: Repository) -> None:
    saver, config = TrailsSaver(store), CHAT
    configs = [config := put(saver, config, step=step) for step in range(100)]
    saver.put_writes(configs[7], [("step", "late")], "task")

    cold = TrailsSaver(store)
    newest, early = cold.get_tuple(CHAT), cold.get_tuple(configs[7])

    assert newest is not None
    assert newest.checkpoint["channel_values"] == {"step": 99}
    assert early is not None
    assert early.checkpoint["channel_values"] == {"step": 7}
    assert early.pending_writes == [("task", "step", "late")]


def test_writes_that_come_before_their_checkpoint_are_its_writes(store: Repository) -> None:
    saver = TrailsSaver(store)
    first = put(saver, CHAT, step=0)
    made = checkpoint(step=1)
    saver.put_writes({"configurable": CHAT["configurable"] | {"checkpoint_id": made["id"]}}, [("step", 2)], "task")
    saver.put(first, made, {"step": 1}, made["channel_versions"])

    for reader in (saver, TrailsSaver(store)):
        found = reader.get_tuple(CHAT)
        assert found is not None
        assert found.pending_writes == [("task", "step", 2)]


def test_what_is_read_can_be_changed_without_changing_what_is_kept(store: Repository) -> None:
    saver = TrailsSaver(store)
    put(saver, CHAT, messages=[HumanMessage("a", id="1", additional_kwargs={"k": [1]})], notes={"n": [1]})

    first = saver.get_tuple(CHAT)
    assert first is not None
    first.checkpoint["channel_values"]["messages"][0].additional_kwargs["k"].append(2)
    first.checkpoint["channel_values"]["notes"]["n"].append(2)
    first.checkpoint["channel_versions"]["messages"] = "changed"
    second = saver.get_tuple(CHAT)

    assert second is not None
    assert second.checkpoint["channel_values"]["messages"][0].additional_kwargs == {"k": [1]}
    assert second.checkpoint["channel_values"]["notes"] == {"n": [1]}
    assert second.checkpoint["channel_versions"]["messages"] != "changed"


def test_an_event_loop_reads_what_it_wrote(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with TrailsSaver.afrom_path(tmp_path / "store") as saver:
            graph = chat_graph(saver)
            await graph.ainvoke({"messages": [HumanMessage("Plan a trip")]}, CHAT)
            state = await graph.aget_state(CHAT)
            return [message.content for message in state.values["messages"]]

    assert asyncio.run(run()) == ["Plan a trip", "", "Snow", "Take the train."]


# --- turns


def test_each_message_is_one_turn_with_what_is_known_of_it(store: Repository) -> None:
    chat_graph(TrailsSaver(store)).invoke({"messages": [HumanMessage("Plan a trip", id="h1")]}, CHAT)

    session = store.load("chat")
    user, asking, answer, _ = [turn for turn in session.turns if turn.role != "info"]
    assert said(session) == [
        ("user", "Plan a trip"),
        ("assistant", ""),
        ("tool", "Snow"),
        ("assistant", "Take the train."),
    ]
    assert user.source_ids == ("h1",)
    assert (asking.tool_calls[0].name, asking.tool_calls[0].input, asking.model) == (
        "weather",
        {"place": "Zermatt"},
        "m-1",
    )
    assert answer.tool_results[0].call_id == "c1"
    assert store.stats(by="model").total.input_tokens == 30
    assert [session[hit.index].content for hit in store.search("train")] == ["Take the train."]


def test_no_record_is_shown_to_a_model(store: Repository) -> None:
    chat_graph(TrailsSaver(store)).invoke({"messages": [HumanMessage("Plan a trip")]}, CHAT)

    shown = store.context("chat").openai()
    assert [message["role"] for message in shown] == ["user", "assistant", "tool", "assistant"]


def test_a_long_thread_grows_by_its_new_messages_alone(store: Repository) -> None:
    saver, config = TrailsSaver(store), CHAT
    messages: list[AnyMessage] = []
    for step in range(60):
        messages = [*messages, HumanMessage(f"message {step}", id=str(step))]
        config = put(saver, config, messages=messages)

    session = store.load("chat")
    sizes = [len(turn.facts.meta_json or "") for turn in session.turns if turn.role == "info"]
    assert len([turn for turn in session.turns if turn.role == "user"]) == 60
    assert max(sizes[50:]) < 2 * max(sizes[:10])
    read = TrailsSaver(store).get_tuple(CHAT)
    assert read is not None
    assert read.checkpoint["channel_values"]["messages"] == messages


def test_messages_that_are_removed_or_changed_are_read_back_so(store: Repository) -> None:
    saver = TrailsSaver(store)
    states: list[list[AnyMessage]] = [
        [HumanMessage("a", id="1"), AIMessage("b", id="2"), HumanMessage("c", id="3")],
        [HumanMessage("a", id="1"), HumanMessage("c", id="3")],
        [HumanMessage("a", id="1"), HumanMessage("changed", id="3")],
        [HumanMessage("changed", id="3"), HumanMessage("a", id="1"), AIMessage("b", id="2")],
        [],
        [AIMessage("b", id="2")],
    ]
    config, configs = CHAT, []
    for state in states:
        config = put(saver, config, messages=state)
        configs.append(config)

    for reader in (saver, TrailsSaver(store)):
        found = [reader.get_tuple(each) for each in configs]
        assert [each and each.checkpoint["channel_values"]["messages"] for each in found] == states
    assert said(store.load("chat")) == [("user", "a"), ("assistant", "b"), ("user", "c"), ("user", "changed")]


def test_a_message_that_is_changed_in_place_is_stored_changed(store: Repository) -> None:
    saver = TrailsSaver(store)
    message = HumanMessage("a", id="1", additional_kwargs={"seen": False})
    config = put(saver, CHAT, messages=[message])
    message.additional_kwargs["seen"] = True
    put(saver, config, messages=[message])

    found = TrailsSaver(store).get_tuple(CHAT)
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"][0].additional_kwargs == {"seen": True}


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXTS, inner, max_size=2),
    max_leaves=4,
)
_EXTRA = st.dictionaries(_TEXTS, _PLAIN | st.tuples(_PLAIN), max_size=2)
_CALLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.text("abc", min_size=1, max_size=5), "id": st.text("0123", min_size=1, max_size=4)}
        | {"args": st.dictionaries(_TEXTS, _PLAIN, max_size=2)}
    ),
    max_size=2,
)
_PARTS = st.lists(st.builds(lambda text: {"type": "text", "text": text}, _TEXTS), min_size=1, max_size=2)
_MESSAGES = st.one_of(
    st.builds(
        HumanMessage, content=_TEXTS | _PARTS, id=st.none() | _TEXTS, additional_kwargs=_EXTRA, name=st.none() | _TEXTS
    ),
    st.builds(SystemMessage, content=_TEXTS),
    st.builds(AIMessage, content=_TEXTS | _PARTS, tool_calls=_CALLS, response_metadata=_EXTRA),
    st.builds(ToolMessage, content=_TEXTS, tool_call_id=_TEXTS, artifact=_PLAIN | st.tuples(_PLAIN)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(_MESSAGES, min_size=1, max_size=3))
def test_any_messages_come_back_as_they_were(messages: list[AnyMessage]) -> None:
    with trails.open(":memory:") as store:
        put(TrailsSaver(store), CHAT, messages=messages)
        found = TrailsSaver(store).get_tuple(CHAT)
        assert found is not None
        read = found.checkpoint["channel_values"]["messages"]
        exact = JsonPlusSerializer()
        assert [exact.dumps_typed(each) for each in read] == [exact.dumps_typed(each) for each in messages]


def test_an_encrypting_serializer_leaves_no_text_in_turns(store: Repository) -> None:
    pytest.importorskip("cryptography")

    class Cipher:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "reverse", bytes(255 - byte for byte in plaintext)

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return bytes(255 - byte for byte in ciphertext)

    saver = TrailsSaver(store, serde=EncryptedSerializer(Cipher()))
    messages = [HumanMessage("my secret plan", id="1")]
    config = put(saver, CHAT, messages=messages, notes={"n": "my secret plan"})
    saver.put_writes(config, [("notes", "my secret plan")], "task")

    found = saver.get_tuple(CHAT)
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == messages
    turns = store.load("chat").turns
    assert not any("secret" in turn.text or "secret" in (turn.facts.meta_json or "") for turn in turns)


# --- forks


def test_an_invocation_from_an_older_checkpoint_is_a_fork_that_shares_the_prefix(store: Repository) -> None:
    graph = chat_graph(TrailsSaver(store))
    graph.invoke({"messages": [HumanMessage("Plan a trip")]}, CHAT)
    first = graph.get_state(CHAT)
    graph.invoke({"messages": [HumanMessage("By car")]}, CHAT)
    graph.invoke({"messages": [HumanMessage("By bike")]}, first.config)

    fork = next(record for record in store.list() if record.parent_session_id == "chat")
    words = [text for _, text in said(store.load(fork.id)) if text]
    assert words == ["Plan a trip", "Snow", "Take the train.", "By bike", "Snow", "Take the train."]
    assert len(store.list()) == 2
    assert [message.content for message in graph.get_state(CHAT).values["messages"]][4] == "By bike"
    assert store.diff("chat", fork.id).common == fork.forked_at_index


def test_more_forks_of_forks_than_may_be_are_read_back_whole(store: Repository) -> None:
    saver = TrailsSaver(store)
    config = put(saver, CHAT, messages=[HumanMessage("0", id="0")])
    messages: list[AnyMessage] = [HumanMessage("0", id="0")]
    for number in range(1, 40):
        put(saver, config, messages=[*messages, HumanMessage("aside", id=f"aside {number}")])
        messages = [*messages, HumanMessage(str(number), id=str(number))]
        config = put(saver, config, messages=messages)

    found = TrailsSaver(store).get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == messages
    assert store.verify().ok


# --- removing


def text_in_files(folder: Path, text: str) -> bool:
    """Tell whether a file under a folder holds a text."""
    return any(text.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_the_text_of_a_deleted_run_is_in_no_file(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        saver = TrailsSaver(store)
        kept = checkpoint(messages=[HumanMessage("kept words", id="1")])
        config = saver.put(CHAT, kept, {"run_id": "a"}, kept["channel_versions"])
        gone = checkpoint(messages=[HumanMessage("kept words", id="1"), HumanMessage("gone words", id="2")])
        config = saver.put(config, gone, {"run_id": "b"}, gone["channel_versions"])
        saver.put_writes(config, [("notes", "gone words")], "task")
        assert text_in_files(tmp_path, "gone words")

        saver.delete_for_runs(["b"])
        store.maintenance.vacuum()

        found = TrailsSaver(store).get_tuple(CHAT)
        assert found is not None
        assert found.checkpoint["channel_values"] == kept["channel_values"]
        assert store.verify().ok
    assert text_in_files(tmp_path, "kept words")
    assert not text_in_files(tmp_path, "gone words")


def test_a_deletion_of_runs_that_was_cut_short_is_finished_by_the_next(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = TrailsSaver(store)
    config: RunnableConfig = CHAT
    for run in ("a", "b", "c"):
        made = checkpoint(messages=[HumanMessage(f"words of {run}", id=run)])
        config = saver.put(config, made, {"run_id": run}, made["channel_versions"])
    with monkeypatch.context() as patch:
        patch.setattr(rewriting, "_delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            saver.delete_for_runs(["b"])

    assert len(list(TrailsSaver(store).list(CHAT))) == 3
    TrailsSaver(store).delete_for_runs(["b"])
    assert [each.metadata["run_id"] for each in TrailsSaver(store).list(CHAT)] == ["c", "a"]
    assert [hit.snippet for hit in store.search("words of b")] == []
    assert store.verify().ok


def test_pruning_keeps_what_a_delta_channel_is_worked_out_from(store: Repository) -> None:
    saver = TrailsSaver(store)
    first = checkpoint(log=["seed"])
    config = saver.put(CHAT, first, {"step": 0}, first["channel_versions"])
    for step in (1, 2, 3):
        saver.put_writes(config, [("log", [str(step)])], f"task {step}")
        made = checkpoint()
        made["channel_versions"] = {"log": made["id"]}
        config = saver.put(config, made, {"step": step, "counters_since_delta_snapshot": {"log": (step, step)}}, {})
    before = saver.get_delta_channel_history(config=config, channels=["log"])
    saver.prune(["chat"])

    assert TrailsSaver(store).get_delta_channel_history(config=config, channels=["log"]) == before
    assert before["log"]["seed"] == ["seed"]
    assert [write[2] for write in before["log"]["writes"]] == [["1"], ["2"], ["3"]]


def test_a_thread_that_was_deleted_can_begin_again(store: Repository) -> None:
    saver = TrailsSaver(store)
    put(saver, CHAT, step=1)
    saver.delete_thread("chat")
    assert saver.get_tuple(CHAT) is None
    assert list(store.list()) == []
    put(saver, CHAT, step=2)

    found = TrailsSaver(store).get_tuple(CHAT)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"step": 2}


def test_a_thread_that_is_deleted_elsewhere_is_gone_here(tmp_path: Path) -> None:
    with trails.open(tmp_path, create=True) as one, trails.open(tmp_path) as other:
        saver = TrailsSaver(one)
        put(saver, CHAT, step=1)
        TrailsSaver(other).delete_thread("chat")

        assert saver.get_tuple(CHAT) is None


def test_a_text_that_is_redacted_leaves_a_thread_that_goes_on(store: Repository) -> None:
    saver = TrailsSaver(store)
    first = put(saver, CHAT, messages=[HumanMessage("my number is 5551234", id="1")], notes={"n": "5551234"}, step=1)
    saver.put_writes(first, [("notes", {"n": "5551234"})], "task")

    store.redact_matching("5551234")
    config = put(saver, first, messages=[HumanMessage("hello", id="2")], step=2)

    for reader in (saver, TrailsSaver(store)):
        old, new = reader.get_tuple(first), reader.get_tuple(config)
        assert old is not None
        assert new is not None
        assert "5551234" not in repr((old, new))
        assert new.checkpoint["channel_values"] == {"messages": [HumanMessage("hello", id="2")], "step": 2}


WORDS = (
    "messages", "message", "langgraph", "thread", "channel", "channels", "checkpoint", "json", "msgpack", "kind", "class",
    "step", "loop", "source", "versions", "channel_versions", "00000000", "HumanMessage", "human", "fields", "user", "base",
    "task", "path", "writes", "agent", "branch", "put", "header", "metadata", "depth", "info", "keep", "configurable",
)  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.sample(8)
def test_a_thread_is_read_and_goes_on_after_a_redaction_of_any_word(word: str) -> None:
    with trails.open(":memory:") as store:
        saver = TrailsSaver(store)
        graph = chat_graph(saver)
        graph.invoke({"messages": [HumanMessage("Plan a trip", id="h1")]}, CHAT)
        store.redact_matching(word)

        for reader in (saver, TrailsSaver(store)):
            texts = [each.content for each in chat_graph(reader).get_state(CHAT).values["messages"]]
            assert texts == ["Plan a trip", "", "Snow", "Take the train."]
            assert len(list(chat_graph(reader).get_state_history(CHAT))) == 5
        graph = chat_graph(TrailsSaver(store))
        graph.invoke({"messages": [ToolMessage("Rain", tool_call_id="c1")]}, CHAT)
        texts = [each.content for each in graph.get_state(CHAT).values["messages"]]
        assert texts == ["Plan a trip", "", "Snow", "Take the train.", "Rain", "Take the train."]
        assert saver.thread_ids() == ["chat"]
        saver.delete_thread("chat")
        assert len(store.list()) == 0


def test_a_redaction_of_a_number_finds_no_place_in_a_thread(store: Repository) -> None:
    messages, config = list[AnyMessage](), CHAT
    saver = TrailsSaver(store)
    for index in range(20):
        messages.append(HumanMessage(f"message {chr(97 + index)}", id=f"m{chr(97 + index)}"))
        config = put(saver, config, messages=[*messages])
    for number in range(10, 40):
        store.redact_matching(str(number))

    newest = TrailsSaver(store).get_tuple(CHAT)
    assert newest is not None
    assert newest.checkpoint["channel_values"] == {"messages": messages}


@pytest.mark.parametrize("number", range(5))
def test_a_checkpoint_whose_id_is_redacted_keeps_its_place(store: Repository, number: int) -> None:
    saver, config = TrailsSaver(store), CHAT
    configs = [config := put(saver, config, step=step) for step in range(5)]
    store.redact_matching(configs[number]["configurable"]["checkpoint_id"])

    assert [each.checkpoint["channel_values"]["step"] for each in TrailsSaver(store).list(CHAT)] == [4, 3, 2, 1, 0]
    newest = TrailsSaver(store).get_tuple(CHAT)
    assert newest is not None
    saver.put(newest.config, made := checkpoint(step=5), {"step": 5}, made["channel_versions"])
    for reader in (saver, TrailsSaver(store)):
        assert [each.checkpoint["channel_values"]["step"] for each in reader.list(CHAT)] == [5, 4, 3, 2, 1, 0]
        latest = reader.get_tuple(CHAT)
        assert latest is not None
        assert latest.parent_config == newest.config


def test_no_redaction_of_one_turn_takes_another_message_away() -> None:
    index, count = 0, 1
    while index < count:
        with trails.open(":memory:") as store:
            chat_graph(TrailsSaver(store)).invoke({"messages": [HumanMessage("Plan a trip")]}, CHAT)
            chat_graph(TrailsSaver(store)).invoke({"messages": [ToolMessage("Rain", tool_call_id="c1")]}, CHAT)
            turns = list(store.load("chat"))
            messages = [turn for turn in turns if turn.role != "info"]
            store.redact("chat", index)

            texts = [each.content for each in chat_graph(TrailsSaver(store)).get_state(CHAT).values["messages"]]
            expected = ["" if turn.index == index else turn.content or "" for turn in messages]
            assert texts == expected[: len(texts)]
            assert len(texts) >= (5 if index >= len(turns) - 3 else 6)
        index, count = index + 1, len(turns)
    assert count > 10


def test_the_error_of_a_task_reads_redacted(store: Repository) -> None:
    said = 'I said "hi"\nto Bob'

    def fail(state: MessagesState) -> dict[str, Any]:
        raise ValueError(said)

    graph: Any = StateGraph(MessagesState).add_node("fail", fail).add_edge(START, "fail")
    app = graph.compile(checkpointer=TrailsSaver(store))
    with pytest.raises(ValueError, match="I said"):
        app.invoke({"messages": [HumanMessage("hello")]}, CHAT)
    store.redact_matching(said)

    assert [task.error for task in app.get_state(CHAT).tasks] == ["redacted"]


@pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"thread_id": None}}, None])
def test_a_config_without_a_thread_is_refused(store: Repository, config: Any) -> None:
    saver = TrailsSaver(store)
    with pytest.raises(InvalidInput, match="thread"):
        saver.get_tuple(config)
    with pytest.raises(InvalidInput, match="thread"):
        put(saver, config, step=1)
    with pytest.raises(InvalidInput, match="checkpoint_id"):
        saver.put_writes(CHAT, [("step", 1)], "task")
    assert len(store.list()) == 0


# --- several writers


class Count(TypedDict):
    value: Annotated[int, operator.add]


def test_threads_that_put_on_one_thread_lose_and_double_nothing(store: Repository) -> None:
    saver = TrailsSaver(store)

    def work(worker: int) -> list[str]:
        config, ids = CHAT, []
        for step in range(5):
            config = put(
                saver, config, messages=[HumanMessage(f"{worker}-{at}", id=f"{worker}-{at}") for at in range(step + 1)]
            )
            saver.put_writes(config, [("messages", f"{worker}-{step}")], f"task {worker}")
            ids.append(config["configurable"]["checkpoint_id"])
        return ids

    with ThreadPoolExecutor(8) as pool:
        ids = [each for some in pool.map(work, range(8)) for each in some]

    found = list(TrailsSaver(store).list(CHAT))
    assert sorted(each.checkpoint["id"] for each in found) == sorted(ids)
    assert all(len(each.pending_writes or ()) == 1 for each in found)
    sources = [
        turn.source_ids[0]
        for record in store.list()
        for turn in store.load(record.id)
        if turn.session_id == record.id and turn.source_ids
    ]
    assert store.verify().ok
    assert {f"{worker}-{at}" for worker in range(8) for at in range(5)} == set(sources)


@pytest.mark.slow
def test_processes_that_put_on_one_thread_lose_nothing(tmp_path: Path) -> None:
    place = tmp_path / "store"
    trails.open(place, create=True).close()
    program = (
        "import sys, trails\n"
        "from langgraph.checkpoint.base import empty_checkpoint\n"
        "from trails.adapters.langgraph import TrailsSaver\n"
        "config = {'configurable': {'thread_id': 'chat', 'checkpoint_ns': ''}}\n"
        "with trails.open(sys.argv[1]) as store:\n"
        "    saver = TrailsSaver(store)\n"
        "    for step in range(5):\n"
        "        made = empty_checkpoint() | {'channel_values': {'step': f'{sys.argv[2]}-{step}'}}\n"
        "        config = saver.put(config, made, {'step': step}, {'step': 1})\n"
        "        saver.put_writes(config, [('step', step)], sys.argv[2])\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(place), str(number)]) for number in range(2)]
    assert [each.wait(60) for each in running] == [0, 0]

    with trails.open(place) as store:
        found = list(TrailsSaver(store).list(CHAT))
        steps = sorted(each.checkpoint["channel_values"]["step"] for each in found)
        assert steps == sorted(f"{worker}-{step}" for worker in range(2) for step in range(5))
        assert all(len(each.pending_writes or ()) == 1 for each in found)
        assert store.verify().ok


def test_a_message_is_read_from_its_turn(store: Repository) -> None:
    message = AIMessage("Hello", id="1", additional_kwargs={"at": datetime(2026, 1, 2)})  # noqa: DTZ001 - JSON has no times
    session = store.create()
    turn = session.append(**message_turn(message, JsonPlusSerializer(), is_native=True))

    read = stored_message(turn, session.payload)
    session.discard_pending()
    assert read.exact is not None
    assert are_equal(read.fresh(JsonPlusSerializer()), message)


def test_removed_messages_stay_in_their_turns(store: Repository) -> None:
    graph = chat_graph(TrailsSaver(store))
    graph.invoke({"messages": [HumanMessage("Plan a trip", id="h1")]}, CHAT)
    graph.update_state(CHAT, {"messages": [RemoveMessage(id="h1")]})

    assert "Plan a trip" not in [each.content for each in graph.get_state(CHAT).values["messages"]]
    assert ("user", "Plan a trip") in said(store.load("chat"))
