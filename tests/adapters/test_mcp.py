"""A store served over the Model Context Protocol: tools, their limits and errors, resources, prompts, transports."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

import trails
from tests.support.commands import Run
from trails import InvalidInput, Repository
from trails.adapters.mcp import make_server, run_http
from trails.adapters.mcp.pages import MOST_CHARS

READING = {
    "list_sessions", "read_session", "read_turn", "search", "model_context", "list_branches", "diff_sessions",
    "compare_branches", "influences", "blame", "usage", "list_queries", "run_query", "sparql", "verify",
}  # fmt: skip
WRITING = {"create_session", "append_turn", "fork_session", "add_note", "add_tag", "add_score"}


def fill(store: Repository) -> None:
    with store.create(id="plan", label="trip", principal="alice", meta={"team": "search"}) as plan:
        plan.append("user", "Plan a trip to the Alps")
        plan.append(
            "assistant",
            "",
            model="m-1",
            usage={"input_tokens": 7},
            tool_calls=[{"id": "c1", "name": "weather", "arguments": {}}],
        )
        plan.append("tool", "Snow", tool_call_id="c1")
        plan.append("assistant", "x" * 50_000)
    with plan.fork(at=1, id="other") as other:
        other.append("assistant", "By train?")


@pytest.fixture
def filled(memory: Repository) -> Repository:
    fill(memory)
    return memory


@lru_cache(maxsize=1)
def server(store: Repository, write: bool) -> MCPServer[Any]:
    """A server over a store; the last one is kept, for it takes a while to describe all tools."""
    return make_server(store, write=write)


def call(store: Repository, tool: str, *, write: bool = False, **arguments: Any) -> Any:
    """Call a tool in memory: its answer, or the text of its error."""

    async def ask() -> Any:
        async with Client(server(store, write)) as client:
            answer: Any = await client.call_tool(tool, arguments)
            return answer.content[0].text if answer.is_error else answer.structured_content

    return asyncio.run(ask())


def test_a_server_offers_to_read_and_to_write_only_if_it_is_told_so(memory: Repository) -> None:
    async def tools(write: bool) -> dict[str, bool]:
        async with Client(make_server(memory, write=write)) as client:
            listed: Any = await client.list_tools()
            return {tool.name: tool.annotations.read_only_hint for tool in listed.tools}

    assert asyncio.run(tools(False)) == dict.fromkeys(READING, True)
    assert asyncio.run(tools(True)) == dict.fromkeys(READING, True) | dict.fromkeys(WRITING, False)


def test_each_tool_describes_its_limits(memory: Repository) -> None:
    async def texts() -> dict[str, str]:
        async with Client(make_server(memory)) as client:
            listed: Any = await client.list_tools()
            return {tool.name: tool.description for tool in listed.tools}

    for name, text in asyncio.run(texts()).items():
        assert "20,000 characters" in text or "At most" in text or "at most 50 findings" in text, name


def test_sessions_are_listed_and_read(filled: Repository) -> None:
    listed = call(filled, "list_sessions", meta={"team": "search"})
    assert [(each["id"], each["label"], each["turns"]) for each in listed["items"]] == [("plan", "trip", 4)]
    turns = call(filled, "read_session", session="trip")["items"]
    assert [(turn["index"], turn["role"], turn["author"]) for turn in turns] == [
        (0, "user", "alice"),
        (1, "assistant", "agent"),
        (2, "tool", "weather"),
        (3, "assistant", "agent"),
    ]
    assert turns[1]["calls"] == [{"id": "c1", "tool": "weather", "arguments": "{}"}]
    assert turns[2]["answers"] == ["c1"]


def test_a_long_text_is_cut_says_so_and_is_read_in_parts(filled: Repository) -> None:
    shown = call(filled, "read_session", session="plan", start=3)["items"][0]["content"]
    assert shown.startswith("x" * 4_000 + "\n[cut here: 4,000 of 50,000 characters; read_turn(session='plan', index=3)")
    text, offset = "", 0
    while offset is not None:
        part = call(filled, "read_turn", session="plan", index=3, offset=offset)
        assert len(part["text"]) <= MOST_CHARS
        text, offset = text + part["text"], part["next_offset"]
    assert text == "x" * 50_000
    assert json.loads(call(filled, "read_turn", session="plan", index=1, part="metadata")["text"])["usage"] == {
        "input_tokens": 7
    }


def test_a_list_that_does_not_fit_goes_on_at_its_cursor(memory: Repository) -> None:
    with memory.create(id="long") as session:
        for number in range(130):
            session.append("user", f"{number} " + "y" * 900)
    found: list[int] = []
    cursor = None
    pages = 0
    while True:
        page = call(memory, "read_session", session="long", limit=100, cursor=cursor)
        assert len(json.dumps(page["items"])) <= MOST_CHARS + 2
        found += [turn["index"] for turn in page["items"]]
        pages += 1
        cursor = page["cursor"]
        if cursor is None:
            break
        assert f"cursor={cursor}" in page["note"]
    assert found == list(range(130))
    assert pages > 6


@pytest.mark.parametrize("tool", ["list_sessions", "search"])
def test_what_the_store_pages_goes_on_at_its_cursor_too(memory: Repository, tool: str) -> None:
    for number in range(30):
        with memory.create(id=f"s{number:02}", meta={"note": "z" * 50}) as session:
            session.append("user", f"needle {number} " + "z" * 180)
    asked: dict[str, Any] = {"text": "needle"} if tool == "search" else {}
    found: list[str] = []
    cursor = None
    while True:
        page = call(memory, tool, limit=7, cursor=cursor, **asked)
        found += [each.get("id") or each["session"] for each in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert sorted(found) == [f"s{number:02}" for number in range(30)]


def test_an_item_that_no_answer_holds_is_cut_and_says_so(memory: Repository) -> None:
    with memory.create(id="s") as session:
        session.append("user", "a", meta={f"k{number}": "v" * 3_000 for number in range(20)})
    (row,) = call(memory, "sparql", query="SELECT (GROUP_CONCAT(?o) AS ?all) { GRAPH ?g { ?s ?p ?o } }")["items"]
    assert len(json.dumps(row)) < MOST_CHARS + 500


def test_a_page_past_the_end_says_how_many_there_are(filled: Repository) -> None:
    assert call(filled, "read_session", session="plan", start=9) == {
        "items": [],
        "cursor": None,
        "note": "there are 4 items, so none from 9",
    }


def test_branches_are_listed_diffed_and_compared(filled: Repository) -> None:
    assert [each["id"] for each in call(filled, "list_branches", session="plan")["items"]] == ["other"]
    kinds = [entry["kind"] for entry in call(filled, "diff_sessions", left="plan", right="other")["items"]]
    assert set(kinds) <= {"changed", "left", "right"}
    rows = call(filled, "compare_branches", session="plan", columns=["session", "own_turns"])["items"]
    assert rows == [{"session": "plan", "own_turns": 4}, {"session": "other", "own_turns": 1}]


def test_it_tells_what_influenced_an_answer(filled: Repository) -> None:
    rows = call(filled, "influences", session="trip", index=3)["items"]
    assert {"urn:trails:principal:alice", "m-1"} <= {row["influence"] for row in rows}
    owners = [row["session"] for row in call(filled, "blame", session="other")["items"]]
    assert owners == ["plan", "other"]


def test_figures_queries_and_verification_are_there(filled: Repository) -> None:
    assert [row["model"] for row in call(filled, "usage")["items"]] == ["m-1"]
    names = {row["name"] for row in call(filled, "list_queries", about="tool")["items"]}
    assert {"tool-calls", "open-tool-calls"} <= names
    assert len(call(filled, "run_query", name="transcript", parameters={"session": "other"})["items"]) == 2
    assert call(filled, "sparql", query="ASK { ?s a trails:Session }")["items"] == [{"answer": True}]
    verified = call(filled, "verify")
    assert (verified["ok"], verified["sessions"], verified["turns"]) == (True, 2, 5)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_session", {"session": "nope"}, "there is no session, label or tag 'nope'"),
        ("read_turn", {"session": "plan", "index": 99}, "its 4 turns are 0 to 3"),
        ("influences", {"session": "plan", "index": 99}, "its 4 turns are 0 to 3"),
        ("run_query", {"name": "transcrit"}, "did you mean 'transcript'"),
        ("sparql", {"query": "SELECT * WHERE { ?s ?p"}, "it ends too early"),
        ("sparql", {"query": "DELETE WHERE { ?s ?p ?o }"}, "begins an update"),
        ("list_sessions", {"cursor": "zz"}, "is no cursor"),
        ("blame", {"session": "plan", "cursor": "-1"}, "is no cursor of this tool"),
        ("search", {}, "a search needs a text"),
        ("list_sessions", {"limit": 1000}, "less than or equal to 100"),
    ],
)
def test_an_error_says_in_words_what_to_do(
    filled: Repository, tool: str, arguments: dict[str, Any], words: str
) -> None:
    answer = call(filled, tool, **arguments)
    assert isinstance(answer, str)
    assert words in answer
    assert "Traceback" not in answer


def test_what_a_model_writes_is_stored(store: Repository) -> None:
    made = call(store, "create_session", write=True, label="new", meta={"team": "search"})
    for _ in range(2):
        done = call(store, "append_turn", write=True, session="new", role="user", content="hello", source_id="m1")
        assert done["turns"] == 1
    fork = call(store, "fork_session", write=True, session="new", at=1, label="try")
    call(store, "add_note", write=True, session="new", index=0, text="look here")
    call(store, "add_tag", write=True, name="v1", session="new@1")
    call(store, "add_score", write=True, session="new", name="quality", value=0.5, index=0)
    assert [turn.content for turn in store.load(made["session"]).turns] == ["hello"]
    assert store.load("try").parent_session_id == made["session"]
    assert store.load("try").id == fork["session"]
    assert [note.text for note in store.notes.list("new")] == ["look here"]
    assert store.tags.get("v1").length == 1
    assert "belongs to session" in call(store, "create_session", write=True, label="new")
    assert store.proofs.verify().ok


def test_resources_give_transcripts_and_prompts_ask_for_reviews(filled: Repository) -> None:
    async def ask() -> tuple[str, str, str]:
        async with Client(make_server(filled)) as client:
            sessions: Any = await client.read_resource("trails://sessions")
            text: Any = await client.read_resource("trails://session/other")
            prompt: Any = await client.get_prompt("review_session", {"session": "other"})
            return sessions.contents[0].text, text.contents[0].text, prompt.messages[0].content.text

    sessions, text, prompt = asyncio.run(ask())
    assert "other  2 turns" in sessions
    assert text == "[0] user (alice): Plan a trip to the Alps\n\n[1] assistant (agent): By train?"
    assert prompt.endswith(text)


def test_the_settings_on_the_guide_s_page_start_the_command() -> None:
    page = (Path(trails.__file__).parent / "guide" / "mcp.md").read_text("utf-8")
    blocks = [(kind, text) for kind, text in re.findall(r"^```(json|toml)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    settings = [json.loads(text) if kind == "json" else tomllib.loads(text) for kind, text in blocks]
    entries = [entry for each in settings for servers in each.values() for entry in servers.values()]
    assert [(entry["command"], entry["args"]) for entry in entries] == [
        ("trails", ["mcp", "/home/ada/agents.trails"])
    ] * 3


# --- transports


@pytest.mark.slow
def test_a_client_starts_the_command_and_sees_what_others_write_meanwhile(place: Path) -> None:
    with trails.open(place, create=True) as store:
        fill(store)

    async def ask() -> list[int]:
        server = StdioServerParameters(command=sys.executable, args=["-m", "trails", "mcp", str(place)])
        lengths = []
        async with Client(server) as client:
            for _ in range(2):
                answer: Any = await client.call_tool("read_session", {"session": "other"})
                lengths.append(len(answer.structured_content["items"]))
                with trails.open(place) as writer:
                    session = writer.load("other")
                    session.append("user", "more")
                    session.persist()
            listed: Any = await client.list_tools()
            assert {tool.name for tool in listed.tools} == READING
        return lengths

    assert asyncio.run(ask()) == [2, 3]


@pytest.fixture(scope="module")
def served_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the store that is served."""
    return tmp_path_factory.mktemp("served") / "store.trails"


@pytest.fixture(scope="module")
def served(served_store: Path) -> Iterator[int]:
    """The port of a store that is served over HTTP, by a process of its own."""
    with trails.open(served_store, create=True) as store:
        fill(store)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "trails", "mcp", str(served_store), "--write", "--http", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        server.terminate()
        server.wait(10)


def test_several_clients_read_and_write_over_http(served: int, served_store: Path) -> None:
    async def append(number: int) -> None:
        async with Client(f"http://127.0.0.1:{served}/mcp") as client:
            await client.call_tool("create_session", {"label": f"s{number}"})
            for turn in range(3):
                answer: Any = await client.call_tool(
                    "append_turn", {"session": f"s{number}", "role": "user", "content": f"{turn}"}
                )
                assert not answer.is_error, answer.content

    async def all_of_them() -> None:
        await asyncio.gather(*(append(number) for number in range(4)))

    asyncio.run(all_of_them())
    with trails.open(served_store) as store:
        assert {number: len(store.load(f"s{number}")) for number in range(4)} == dict.fromkeys(range(4), 3)


@pytest.mark.parametrize("header", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_requests_of_other_hosts_and_origins_are_refused(served: int, header: dict[str, str]) -> None:
    def status(more: dict[str, str]) -> int:
        kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        request = urllib.request.Request(f"http://127.0.0.1:{served}/mcp", data=b"{}", headers=kinds | more)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)  # noqa: S310
        refused.value.close()
        return refused.value.code

    assert status({}) == 400  # it is no message of the protocol
    assert status(header) in (403, 421)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "example.org", "::"])  # noqa: S104
def test_an_address_that_other_machines_reach_is_refused(memory: Repository, host: str) -> None:
    with pytest.raises(InvalidInput, match="no login"):
        run_http(memory, host, 8000)


@pytest.mark.slow
def test_the_command_says_what_is_wrong_with_its_arguments(run: Run, place: Path) -> None:
    trails.open(place, create=True).close()
    assert run("mcp", "--http", "nowhere").exit_code == 2
    assert "no login" in run("mcp", "--http", "0.0.0.0:8000").stderr
    assert "there is no Trails store" in run("mcp", str(place) + "-none").stderr
