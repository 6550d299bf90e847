"""Workers behind a load balancer, each with an index of its own: each goes on from what the others wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import Repository, SessionExists

Workers = list[Repository]
ROUNDS = 3


@pytest.fixture
def workers(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Two processes' views of one store: what one commits, the other has not before it asks."""
    opened: Workers = []
    for name in ("one", "two"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        opened.append(trails.open(url, create=True))
    yield opened
    for each in opened:
        each.close()


def by_turns(write: Callable[[int, str], Coroutine[Any, Any, Any]]) -> list[str]:
    """Let the workers write, one after the other, each `ROUNDS` times; return all that they wrote."""

    async def work() -> list[str]:
        texts = [f"{number}" for number in range(2 * ROUNDS)]
        for number, text in enumerate(texts):
            await write(number % 2, text)
        return texts

    return asyncio.run(work())


@pytest.mark.parametrize("autopersist", [True, False])
def test_each_request_goes_on_in_the_session_that_it_asks_for(workers: Workers, autopersist: bool) -> None:
    async def write(worker: int, text: str) -> None:
        with workers[worker].session("chat", autopersist=autopersist) as chat:
            chat.append("user", text)

    texts = by_turns(write)
    assert [turn.content for turn in workers[0].session("chat").turns] == texts


def test_two_handles_that_are_held_at_once_are_never_merged(workers: Workers) -> None:
    first, second = (worker.session("chat") for worker in workers)
    first.append("user", "By train")
    second.append("user", "By bus")
    assert first.persist() == 1
    with pytest.raises(trails.HeadConflict):
        second.persist()
    second.discard_pending()


def test_a_new_session_with_the_label_of_the_one_that_another_made_is_that_one(workers: Workers) -> None:
    made = [worker.session("chat", label="trip") for worker in workers]
    assert [each.record.label for each in made] == ["trip", "trip"]


def test_an_id_that_another_worker_took_is_said_by_the_class_of_the_error(workers: Workers) -> None:
    made = [worker.create(id="chat") for worker in workers]
    made[0].persist()
    with pytest.raises(SessionExists, match="there is a session 'chat' already"):
        made[1].persist()
    with pytest.raises(SessionExists):
        workers[1].create(id="chat")
    made[1].discard_pending()
    workers[0].delete("chat")
    with pytest.raises(trails.InvalidInput, match="was deleted") as refused:
        workers[0].create(id="chat")
    assert not isinstance(refused.value, SessionExists)


def test_a_view_that_is_only_read_stays_as_it_is(workers: Workers, url: str) -> None:
    workers[0].session("chat", autopersist=True).append("user", "Hello")
    with trails.open(url, read_only=True) as view:
        workers[0].session("chat", autopersist=True).append("user", "Again")
        assert len(view.session("chat")) == 1


def test_the_claude_agent_sdk(workers: Workers) -> None:
    pytest.importorskip("claude_agent_sdk")
    from trails.adapters.claude_agent_sdk import TrailsSessionStore

    stores = [TrailsSessionStore(worker) for worker in workers]
    key: Any = {"project_key": "p", "session_id": "s"}
    agent: Any = {**key, "subpath": "subagents/agent-1"}
    resumed: list[int] = []

    async def write(worker: int, text: str) -> None:
        entry: Any = {"type": "user", "uuid": text, "message": {"role": "user", "content": text}}
        resumed.append(len(await stores[worker].load(key) or []))
        await stores[worker].append(key, [entry])
        await stores[worker].append(agent, [entry])

    texts = by_turns(write)
    assert resumed == list(range(2 * ROUNDS))
    for each in (key, agent):
        stored: Any = asyncio.run(stores[0].load(each))
        assert [entry["uuid"] for entry in stored] == texts


def test_the_agent_development_kit(workers: Workers) -> None:
    pytest.importorskip("google.adk")
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.events.event import Event
    from google.genai import types

    from trails.adapters.google_adk import TrailsSessionService

    services = [TrailsSessionService(worker) for worker in workers]
    name: Any = {"app_name": "travel", "user_id": "alice", "session_id": "s"}

    async def write(worker: int, text: str) -> None:
        session = await services[worker].get_session(**name)
        if session is None:
            session = await services[worker].create_session(**name, state={"app:seen": 1})
            with pytest.raises(AlreadyExistsError):
                await services[1 - worker].create_session(**name)
        said = types.Content(role="user", parts=[types.Part(text=text)])
        await services[worker].append_event(session, Event(author="user", content=said))

    texts = by_turns(write)
    session: Any = asyncio.run(services[0].get_session(**name))
    assert [event.content.parts[0].text for event in session.events] == texts
    assert session.state == {"app:seen": 1}


def test_langgraph(workers: Workers) -> None:
    pytest.importorskip("langgraph")
    from langchain_core.messages import HumanMessage
    from langgraph.graph import START, MessagesState, StateGraph

    from trails.adapters.langgraph import TrailsSaver

    def graph(worker: Repository) -> Any:
        made = StateGraph(MessagesState)
        made.add_node("agent", lambda _: {"messages": []})
        made.add_edge(START, "agent")
        return made.compile(checkpointer=TrailsSaver(worker))

    graphs: list[Any] = [graph(worker) for worker in workers]
    thread: Any = {"configurable": {"thread_id": "t"}}

    async def write(worker: int, text: str) -> None:
        graphs[worker].invoke({"messages": [HumanMessage(text)]}, thread)

    texts = by_turns(write)
    assert [message.content for message in graphs[0].get_state(thread).values["messages"]] == texts
    assert [record.id for record in workers[0].list()] == ["t"]


def test_the_openai_agents_sdk(workers: Workers) -> None:
    pytest.importorskip("agents")
    from trails.adapters.openai_agents import TrailsSession

    sessions = [TrailsSession("chat", worker) for worker in workers]
    read: list[int] = []

    async def write(worker: int, text: str) -> None:
        read.append(len(await sessions[worker].get_items()))
        await sessions[worker].add_items([{"role": "user", "content": text}])

    texts = by_turns(write)
    assert read == list(range(2 * ROUNDS))
    items: Any = asyncio.run(sessions[0].get_items())
    assert [item["content"] for item in items] == texts


def test_langchain_and_with_it_the_other_histories(workers: Workers) -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.messages import HumanMessage

    from trails.adapters.langchain import TrailsChatMessageHistory

    histories = [TrailsChatMessageHistory("chat", worker) for worker in workers]
    read: list[int] = []

    async def write(worker: int, text: str) -> None:
        read.append(len(histories[worker].messages))
        histories[worker].add_messages([HumanMessage(text)])

    texts = by_turns(write)
    assert read == list(range(2 * ROUNDS))
    assert [message.content for message in histories[0].messages] == texts
