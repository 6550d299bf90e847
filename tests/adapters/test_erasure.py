"""One redaction takes a text out of what every framework stored; after a vacuum it is in no file, however it was written."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from agent_framework import Message as AgentMessage
from google.adk.events import Event
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai.messages import ModelRequest, UserPromptPart

import trails
from trails import Repository
from trails.adapters.agent_framework import TrailsHistoryProvider
from trails.adapters.claude_agent_sdk import TrailsSessionStore
from trails.adapters.google_adk import TrailsSessionService
from trails.adapters.langchain import TrailsChatMessageHistory
from trails.adapters.langgraph import TrailsSaver, TrailsStore
from trails.adapters.openai_agents import TrailsSession
from trails.adapters.opentelemetry import TrailsSpanExporter, TrailsSpanProcessor, in_conversation
from trails.adapters.pydantic_ai import TrailsHistory
from trails.store.log.records import _DICTIONARY

NEEDLE = "Rosamunde-Pilcher-4711"
KEPT = "What stays of it"


class State(MessagesState):
    """A state with the text in a message, in a mapping, in bytes and in a list."""

    notes: dict[str, Any]
    raw: bytes
    names: Annotated[list[str], lambda old, new: [*old, *new]]


def langgraph(store: Repository) -> None:
    def node(_: State) -> dict[str, Any]:
        told = {"who": NEEDLE, "also": KEPT}
        return {
            "messages": [AIMessage(f"Hello {NEEDLE}")],
            "notes": told,
            "raw": f"<{NEEDLE}>".encode(),
            "names": [NEEDLE],
        }

    graph: Any = StateGraph(State)
    graph.add_node(node)
    graph.add_edge(START, "node")
    app = graph.compile(checkpointer=TrailsSaver(store), store=TrailsStore(store))
    for text in (f"I am {NEEDLE}", KEPT):
        app.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": "t1"}})
    TrailsStore(store).put(("people",), "one", {"name": NEEDLE, "also": KEPT})


def openai_agents(store: Repository) -> None:
    items: list[Any] = [
        {"role": "user", "content": f"I am {NEEDLE}"},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": json.dumps({"name": NEEDLE})},
        {"type": "function_call_output", "call_id": "c1", "output": f"{NEEDLE} was found"},
        {"role": "user", "content": KEPT},
    ]
    asyncio.run(TrailsSession("chat", store).add_items(items))


def claude_agent_sdk(store: Repository) -> None:
    key: Any = {"project_key": "-home", "session_id": "c"}
    entries: list[Any] = [
        {
            "type": "user",
            "uuid": "u1",
            "cwd": f"/home/{NEEDLE}",
            "message": {"role": "user", "content": f"I am {NEEDLE}"},
        },
        {"type": "summary", "summary": f"About {NEEDLE}", "leafUuid": "u1"},
        {"type": "user", "uuid": "u2", "parentUuid": "u1", "message": {"role": "user", "content": KEPT}},
    ]
    asyncio.run(TrailsSessionStore(store).append(key, entries))


def google_adk(store: Repository) -> None:
    async def say() -> None:
        service = TrailsSessionService(store)
        session = await service.create_session(
            app_name="app", user_id="u", session_id="s", state={"user:name": NEEDLE, "also": KEPT}
        )
        content = types.Content(role="user", parts=[types.Part(text=f"I am {NEEDLE}")])
        await service.append_event(session, Event(author="user", content=content))
        await service.append_event(session, Event(author="user", content=types.Content(parts=[types.Part(text=KEPT)])))

    asyncio.run(say())


def histories(store: Repository) -> None:
    TrailsChatMessageHistory("lc", store).add_messages(
        [HumanMessage(f"I am {NEEDLE}", additional_kwargs={"who": NEEDLE}), HumanMessage(KEPT)]
    )
    TrailsHistory("pa", store).extend([ModelRequest(parts=[UserPromptPart(f"I am {NEEDLE}"), UserPromptPart(KEPT)])])

    async def save() -> None:
        await TrailsHistoryProvider(store).save_messages(
            "af", [AgentMessage("user", [f"I am {NEEDLE}"]), AgentMessage("user", [KEPT])]
        )

    asyncio.run(save())


def opentelemetry(store: Repository) -> None:
    provider = TracerProvider()
    provider.add_span_processor(TrailsSpanProcessor(TrailsSpanExporter(store)))
    asked = [{"role": "user", "parts": [{"type": "text", "content": text}]} for text in (f"I am {NEEDLE}", KEPT)]
    told = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m", "gen_ai.input.messages": json.dumps(asked)}
    with in_conversation("spans"), provider.get_tracer("app").start_as_current_span("chat", attributes=told):
        pass
    assert provider.force_flush()
    provider.shutdown()


def attachments(store: Repository) -> None:
    """A file with the text in base64, in a message of each framework, in a state and in a long-term store."""
    data = base64.b64encode(f"name,iban\n{NEEDLE},DE1234567890\n".encode()).decode()
    url = f"data:text/csv;base64,{data}"
    message = HumanMessage([{"type": "text", "text": "See"}, {"type": "file", "base64": data, "mime_type": "text/csv"}])

    def node(_: State) -> dict[str, Any]:
        return {"messages": [AIMessage(KEPT)], "notes": {"file": data}, "raw": url.encode(), "names": [url]}

    graph: Any = StateGraph(State)
    graph.add_node(node)
    graph.add_edge(START, "node")
    graph.compile(checkpointer=TrailsSaver(store)).invoke(
        {"messages": [message]}, {"configurable": {"thread_id": "files"}}
    )
    TrailsStore(store).put(("files",), "one", {"file": data})
    TrailsChatMessageHistory("lc", store).add_messages([message])
    attached: Any = {"role": "user", "content": [{"type": "input_file", "filename": "a.csv", "file_data": url}]}
    asyncio.run(TrailsSession("chat", store).add_items([attached]))
    source = {"type": "base64", "media_type": "text/csv", "data": data}
    entry: Any = {
        "type": "user",
        "uuid": "u1",
        "message": {"role": "user", "content": [{"type": "document", "source": source}]},
    }
    asyncio.run(TrailsSessionStore(store).append({"project_key": "-home", "session_id": "c"}, [entry]))


WRITERS: tuple[Callable[[Repository], None], ...] = (
    langgraph, openai_agents, claude_agent_sdk, google_adk, histories, opentelemetry, attachments,
)  # fmt: skip


IN_BYTES = (langgraph, google_adk, histories, attachments)
"""Those that keep it in payloads, too."""


def unpacked(data: bytes) -> Iterator[bytes]:
    """Yield what zlib can decompress anywhere among bytes: records of the log are compressed, free pages may hold old ones."""
    for at in range(len(data) - 1):
        if data[at] & 15 == 8 and (data[at] << 8 | data[at + 1]) % 31 == 0:  # a header of zlib (RFC 1950)
            try:
                yield zlib.decompressobj(zdict=_DICTIONARY).decompress(data[at:])
            except zlib.error:
                continue


def decoded(data: bytes) -> Iterator[bytes]:
    """Yield what the texts in base64 among bytes stand for."""
    for text in re.findall(rb"[A-Za-z0-9+/]{24,}={0,2}", data):
        for shift in range(4):
            yield base64.b64decode(text[shift : shift + (len(text) - shift) // 4 * 4])


def holds(folder: Path, wanted: str) -> list[str]:
    """Return how the files of a folder hold a text: as it is, compressed, in base64, or in base64 within that."""
    needle = wanted.encode()
    found = set()
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        for what in (data, *unpacked(data)):
            found |= {f"{path.name} as it is"} if needle in what else set()
            for inner in decoded(what):
                if needle in inner or any(needle in again for again in decoded(inner)):
                    found.add(f"{path.name} in base64")
    return sorted(found)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_a_text_that_a_framework_stored_is_erased_everywhere(write: Callable[[Repository], None], place: Path) -> None:
    with trails.open(place, create=True) as store:
        write(store)
    assert holds(place, NEEDLE), "the search of files finds what is there"
    assert write not in IN_BYTES or any("base64" in each for each in holds(place, NEEDLE))
    with trails.open(place) as store:
        store.redact_matching(NEEDLE)
        assert store.proofs.verify().ok
        assert store.search(NEEDLE) == []
        assert store.search(KEPT)
        store.maintenance.vacuum()
        assert store.proofs.verify().ok
    assert holds(place, NEEDLE) == []
    assert holds(place, KEPT), "the rest stays"


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_every_framework_stores_in_postgresql_too(write: Callable[[Repository], None], url: str) -> None:
    with trails.open(url, create=True) as store:
        write(store)
        store.redact_matching(NEEDLE)
        assert store.search(NEEDLE) == []
        assert store.search(KEPT)
        assert store.proofs.verify().ok
