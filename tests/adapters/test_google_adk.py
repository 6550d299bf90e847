"""The session service for Google's ADK: its contract, what it stores as turns, and what several writers leave."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.machines import Size
from trails import Repository

pytest.importorskip("google.adk")

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from tests.support.adk_writers import EACH
from trails.adapters.google_adk import TrailsSessionService

_Result = TypeVar("_Result")
_ROUNDS = {"quick": 4, "all": 30, "long": 200}
_WRITERS = {"quick": 3, "all": 8, "long": 8}
WHO: dict[str, Any] = {"app_name": "travel", "user_id": "alice"}


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return what a coroutine gives."""
    return asyncio.run(work)


def said(text: str, author: str = "user", **more: Any) -> Event:
    """Return an event with a text."""
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)])
    return Event(author=author, content=content, **more)


def sets(**state: Any) -> Event:
    """Return an event that sets state, and says nothing."""
    return Event(
        author="planner",
        actions=EventActions(state_delta={key.replace("__", ":"): each for key, each in state.items()}),
    )


async def add(service: TrailsSessionService, session: Session, *events: Event) -> Session:
    """Append events, and return the session as it is stored then."""
    for event in events:
        await service.append_event(session, event)
    found = await service.get_session(**WHO, session_id=session.id)
    assert found is not None
    return found


@pytest.fixture
def service(store: Repository) -> TrailsSessionService:
    """A service over an empty store, of each kind."""
    return TrailsSessionService(store)


def test_an_event_comes_back_as_it_was(service: TrailsSessionService) -> None:
    event = Event(
        invocation_id="i1",
        author="planner",
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="Look", thought=True, thought_signature=b"\x00\xff"),
                types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png"),
                types.Part(function_call=types.FunctionCall(name="weather", args={"place": "Zermatt"})),
            ],
        ),
        actions=EventActions(state_delta={"n": 1, "user:m": [None, 2.5]}, artifact_delta={"map": 3}, escalate=True),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=30, candidates_token_count=6),
        model_version="m-1",
        long_running_tool_ids={"b", "a"},
        timestamp=1_700_000_000.1234567,
    )

    async def work() -> None:
        session = await service.create_session(**WHO)
        found = await add(service, session, event)
        assert found.events == [event]
        assert found == session

    run(work())


def test_what_an_event_says_is_a_turn_with_its_calls_model_and_usage(service: TrailsSessionService) -> None:
    def call(name: str) -> types.Part:
        return types.Part(function_call=types.FunctionCall(id=name, name="weather", args={"at": name}))

    def answer(name: str) -> types.Part:
        return types.Part(
            function_response=types.FunctionResponse(id=name, name="weather", response={"result": "Snow"})
        )

    asked = Event(
        author="planner",
        content=types.Content(role="model", parts=[types.Part(text="Let me look."), call("c1"), call("c2")]),
        model_version="m-1",
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=30, candidates_token_count=6),
    )
    answered = Event(author="planner", content=types.Content(role="user", parts=[answer("c1"), answer("c2")]))

    async def work() -> None:
        session = await service.create_session(**WHO, session_id="s1")
        found = await add(service, session, said("Plan a trip"), asked, answered, said("Take the train.", "planner"))
        assert [event.id for event in found.events] == [event.id for event in session.events]

    run(work())
    stored = service.store.load("adk:travel:alice:s1")
    assert [turn.role for turn in stored] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [turn.author for turn in stored] == ["alice", "planner", "weather", "weather", "planner"]
    assert [(call.id, call.input) for call in stored[1].tool_calls] == [("c1", {"at": "c1"}), ("c2", {"at": "c2"})]
    assert [[answer.call_id for answer in turn.tool_results] for turn in stored][2:4] == [["c1"], ["c2"]]
    assert (stored[1].model, stored.principal, stored.agent) == ("m-1", "alice", "travel")
    usage_rows = service.store.select("token-usage-by-model").to_dicts()
    assert [(row["model"], row["input"], row["output"]) for row in usage_rows] == [("m-1", 30, 6)]
    assert service.store.verify().ok


def test_the_newest_events_are_counted_as_events_not_as_turns(service: TrailsSessionService) -> None:
    answers = [
        types.Part(function_response=types.FunctionResponse(id=f"c{n}", name="ls", response={"n": n})) for n in range(9)
    ]
    events = [said("first"), Event(author="planner", content=types.Content(role="user", parts=answers)), said("last")]

    async def work() -> list[list[str]]:
        session = await service.create_session(**WHO, state={"a": 1})
        await add(service, session, *events)
        found = []
        for newest in (0, 1, 2, 3, 7):
            config = GetSessionConfig(num_recent_events=newest)
            got = await service.get_session(**WHO, session_id=session.id, config=config)
            assert got is not None
            found.append([event.id for event in got.events])
        return found

    ids = [event.id for event in events]
    assert run(work()) == [[], ids[2:], ids[1:], ids, ids]


def test_events_from_a_time_on_are_found_and_then_counted(service: TrailsSessionService) -> None:
    async def work() -> list[float]:
        session = await service.create_session(**WHO)
        await add(service, session, *(said(str(n), timestamp=float(n)) for n in range(1, 7)))
        config = GetSessionConfig(after_timestamp=3.0, num_recent_events=2)
        got = await service.get_session(**WHO, session_id=session.id, config=config)
        assert got is not None
        return [event.timestamp for event in got.events]

    assert run(work()) == [5.0, 6.0]


def test_state_is_the_sessions_the_users_or_the_apps(service: TrailsSessionService) -> None:
    async def work() -> None:
        first = await service.create_session(**WHO, state={"a": 1, "user:b": 2, "app:c": 3, "temp:d": 4})
        assert first.state == {"a": 1, "user:b": 2, "app:c": 3}
        await service.append_event(first, sets(a=None, user__b={"x": 1}, app__e=5, temp__f=6))
        assert first.state == {"a": None, "user:b": {"x": 1}, "app:c": 3, "app:e": 5, "temp:f": 6}
        second = await service.create_session(**WHO)
        other = await service.create_session(app_name="travel", user_id="bob")
        assert second.state == {"user:b": {"x": 1}, "app:c": 3, "app:e": 5}
        assert other.state == {"app:c": 3, "app:e": 5}
        assert await service.get_user_state(**WHO) == {"b": {"x": 1}}
        assert await service.get_user_state(app_name="other", user_id="alice") == {}
        listed = (await service.list_sessions(app_name="travel")).sessions
        assert {session.id: session.state for session in listed} == {
            first.id: {"a": None, "user:b": {"x": 1}, "app:c": 3, "app:e": 5},
            second.id: second.state,
            other.id: other.state,
        }

    run(work())


def test_what_a_caller_does_to_its_state_changes_nothing_stored(service: TrailsSessionService) -> None:
    async def work() -> dict[str, Any]:
        session = await service.create_session(**WHO, state={"a": [1], "user:b": [2]})
        session.state["a"].append(9)
        session.state["user:b"].append(9)
        (await service.get_user_state(**WHO))["b"].append(9)
        return (await add(service, session)).state

    assert run(work()) == {"a": [1], "user:b": [2]}


def test_an_event_with_all_its_state_is_one_commit(service: TrailsSessionService) -> None:
    async def work() -> int:
        session = await service.create_session(**WHO, state={"user:b": 1, "app:c": 1})
        before = service.store.store.number
        await service.append_event(session, sets(a=1, user__b=2, app__c=3))
        return service.store.store.number - before

    assert run(work()) == 1


def test_a_session_that_was_added_to_meanwhile_takes_no_event(service: TrailsSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**WHO)
        stale = session.model_copy(deep=True)
        await service.append_event(session, said("one"))
        with pytest.raises(StaleSessionError, match="get_session"):
            await service.append_event(stale, said("two"))
        fresh = await add(service, session)
        await service.append_event(fresh, said("three"))
        assert [event.content.parts[0].text for event in fresh.events if event.content] == ["one", "three"]  # type: ignore[index]

    run(work())


def test_a_session_that_another_service_made_is_told_by_its_last_event(service: TrailsSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**WHO)
        await service.append_event(session, said("one"))
        known = Session(id=session.id, app_name="travel", user_id="alice", events=list(session.events))
        await service.append_event(known, said("two"))
        unknown = Session(id=session.id, app_name="travel", user_id="alice")
        with pytest.raises(StaleSessionError):
            await service.append_event(unknown, said("three"))

    run(work())


def test_an_id_is_used_once_until_its_session_is_deleted(service: TrailsSessionService) -> None:
    async def work() -> None:
        for _ in range(3):
            session = await service.create_session(**WHO, session_id=" s 1\n", state={"n": 1})
            assert session.id == "s 1"
            with pytest.raises(AlreadyExistsError):
                await service.create_session(**WHO, session_id="s 1")
            await service.append_event(session, said("gone"))
            await service.delete_session(**WHO, session_id="s 1")
            assert await service.get_session(**WHO, session_id="s 1") is None
            with pytest.raises(SessionNotFoundError):
                await service.append_event(session, said("late"))
        await service.delete_session(**WHO, session_id="s 1")
        again = await service.create_session(**WHO, session_id="s 1")
        assert (again.events, again.state) == ([], {})

    run(work())
    assert service.store.verify().ok


@pytest.mark.parametrize(
    "names", [("a:b", "c", "d"), ("a", "b:c", "d"), ("a", "b", "c:d"), ("", "", "x"), ("ä" * 300, "🙂", "a b")]
)
def test_any_names_are_told_apart(service: TrailsSessionService, names: tuple[str, str, str]) -> None:
    async def work() -> list[str]:
        app, user, session_id = names
        for other in ("plain", session_id):
            await service.create_session(app_name=app, user_id=user, session_id=other)
        return [each.id for each in (await service.list_sessions(app_name=app, user_id=user)).sessions]

    assert sorted(run(work())) == sorted(["plain", names[2]])


@pytest.mark.parametrize("name", ["app_name", "user_id", "session_id"])
@pytest.mark.parametrize("wrong", [5, b"x", "\ud800"])
def test_a_name_that_is_no_text_is_refused(service: TrailsSessionService, name: str, wrong: Any) -> None:
    names = WHO | {"session_id": "s1"} | {name: wrong}
    user = {key: each for key, each in names.items() if key != "session_id"}
    calls: list[Any] = [service.create_session, service.get_session, service.delete_session, service.fork_session]
    for call in calls:
        with pytest.raises(trails.InvalidInput):
            run(call(**names))
    for call in (service.list_sessions, service.get_user_state) if name != "session_id" else ():
        with pytest.raises(trails.InvalidInput):
            run(call(**user))
    with pytest.raises(trails.InvalidInput):
        run(service.create_session(app_name=None, user_id="alice"))  # type: ignore[arg-type]
    assert service.store.list() == []


@pytest.mark.parametrize(
    "state", [{1: 2}, {"\ud800": 1}, {"a": "\ud800"}, {"user:a": {"\ud800": 1}}, {"a": float("nan")}, ["a"], "a"]
)
def test_state_that_cannot_be_kept_is_refused(service: TrailsSessionService, state: Any) -> None:
    async def work() -> None:
        with pytest.raises(trails.InvalidInput):
            await service.create_session(**WHO, session_id="s1", state=state)
        session = await service.create_session(**WHO, session_id="s2")
        if isinstance(state, dict) and 1 not in state:
            with pytest.raises(trails.InvalidInput):
                await service.append_event(session, Event(author="x", actions=EventActions(state_delta=state)))
        with pytest.raises(trails.InvalidInput, match="the event"):
            await service.append_event(session, said("\ud800"))
        await service.append_event(session, said("on"))
        for events in ("1", 1.0, True, -1, 2):
            with pytest.raises(trails.InvalidInput):
                await service.fork_session(**WHO, session_id="s2", events=events)  # type: ignore[arg-type]
        assert [record.id for record in service.store.list()] == ["adk:travel:alice:s2"]

    run(work())


def test_a_partial_event_is_not_stored(service: TrailsSessionService) -> None:
    async def work() -> list[Event]:
        session = await service.create_session(**WHO)
        assert await service.append_event(session, said("Pl", partial=True)) is not None
        return [*session.events, *(await add(service, session)).events]

    assert run(work()) == []


def test_sessions_are_listed_by_when_they_were_last_added_to(service: TrailsSessionService) -> None:
    async def work() -> list[str]:
        sessions = [await service.create_session(**WHO, session_id=name) for name in "abc"]
        await service.append_event(sessions[0], said("later", timestamp=sessions[2].last_update_time + 1))
        listed = (await service.list_sessions(**WHO)).sessions
        assert all(each.events == [] for each in listed)
        return [each.id for each in listed]

    assert run(work()) == ["b", "c", "a"]


def test_a_turn_that_was_appended_without_the_service_is_an_event_and_keeps_the_state(
    service: TrailsSessionService,
) -> None:
    async def work() -> None:
        session = await service.create_session(**WHO, session_id="s1", state={"a": 1})
        await service.append_event(session, said("Plan a trip"))
        with service.store.load("adk:travel:alice:s1") as native:
            native.append("assistant", "Where to?", tool_calls=[{"id": "c", "name": "ask", "arguments": {"x": 1}}])
        found = await add(service, session)
        assert found.state == {"a": 1}
        event = found.events[1]
        assert event.author == "travel"
        assert event.content is not None
        assert next(part.text for part in event.content.parts or ()) == "Where to?"
        assert event.get_function_calls()[0].args == {"x": 1}
        await service.append_event(found, said("By train"))
        assert (await add(service, found)).state == {"a": 1}

    run(work())


def test_a_fork_has_the_events_and_the_state_of_where_it_was_forked(service: TrailsSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**WHO, session_id="s1")
        await add(service, session, sets(a=1), said("one"), sets(a=2), said("two"))
        fork = await service.fork_session(**WHO, session_id="s1", new_session_id="s2", events=2)
        assert fork.state == {"a": 1}
        assert [event.id for event in fork.events] == [event.id for event in session.events[:2]]
        await service.append_event(fork, said("other"))
        assert len((await add(service, session)).events) == 4
        assert len((await service.list_sessions(**WHO)).sessions) == 2

    run(work())
    assert service.store.load("adk:travel:alice:s2").parent_session_id == "adk:travel:alice:s1"


def test_a_redacted_text_is_in_no_event_and_the_session_goes_on(service: TrailsSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**WHO, session_id="s1", state={"note": "my pin is 4711, keep it"})
        await add(service, session, said("my pin is 4711, keep it"), said("Fine.", "planner"))
        service.store.redact_matching("my pin is 4711", reason="asked to")
        found = await add(service, session)
        assert "4711" not in found.model_dump_json()
        assert len(found.events) == 2
        await service.append_event(found, said("on"))
        assert len((await add(service, found)).events) == 3

    run(work())
    assert service.store.verify().ok


def test_a_redaction_takes_single_values_out_of_state_and_nothing_else(service: TrailsSessionService) -> None:
    state = {"who": "Carol", "plan": "keep", "app:who": "Carol", "app:n": 7, "user:who": "Carol", "user:lang": "de"}

    async def work() -> None:
        await service.create_session(**WHO, session_id="s1", state=state)
        session = await service.create_session(**WHO, session_id="s2")
        await service.append_event(session, said("Hello Carol", "planner", actions=EventActions(state_delta=state)))
        service.store.redact_matching("Carol")
        for session_id in ("s1", "s2"):
            found = await service.get_session(**WHO, session_id=session_id)
            assert found is not None
            assert found.state == {key: "redacted" if value == "Carol" else value for key, value in state.items()}
            await service.append_event(found, sets(a=1))
        assert all(each.state["plan"] == "keep" for each in (await service.list_sessions(**WHO)).sessions)

    run(work())
    assert service.store.verify().ok


@pytest.mark.parametrize(
    "word",
    ["id", "author", "timestamp", "content", "parts", "role", "text", "type", "message", "user", "adk", "args", "json",
     "state", "event", "function_call", "response", "actions", "result", "tool"],
)  # fmt: skip
def test_a_redaction_of_a_word_of_the_adapters_own_leaves_every_event(word: str) -> None:
    def weather(**said: Any) -> types.Part:
        return types.Part(**{key: kind(id="c1", name="weather", **more) for key, (kind, more) in said.items()})

    call = weather(function_call=(types.FunctionCall, {"args": {"at": "Zermatt"}}))
    answer = weather(function_response=(types.FunctionResponse, {"response": {"at": "Snow"}}))
    events = [
        said("Hello"),
        Event(author="planner", content=types.Content(role="model", parts=[types.Part(text="Look"), call])),
        Event(author="planner", content=types.Content(role="user", parts=[answer])),
        sets(b=2, user__c=3),
        said("Bye", "planner", actions=EventActions(state_delta={"d": 4})),
    ]

    async def work() -> None:
        async with TrailsSessionService(":memory:") as service:
            session = await service.create_session(**WHO, session_id="s1", state={"a": 1})
            await add(service, session, *events)
            service.store.redact_matching(word)
            found = await add(service, session)
            assert found == await add(service, session), "each reading gives the same"
            assert len(found.events) == 5
            parts = [part for event in found.events if event.content for part in event.content.parts or ()]
            assert [part.text for part in parts if part.text and part.text != "(redacted)"] == ["Hello", "Look", "Bye"]
            assert [part.function_call.name for part in parts if part.function_call] == ["weather"]
            assert [part.function_response.name for part in parts if part.function_response] == ["weather"]
            if word != "state":
                assert found.state == {"a": 1, "b": 2, "d": 4, "user:c": 3}
            await service.append_event(found, sets(z=1))
            assert (await add(service, found)).state["z"] == 1
            assert service.store.verify().ok

    run(work())


@pytest.mark.parametrize("words", [["ann@x.org", "bob@x.org"], ["travel"], ["adk"], ["user"], ["app"], ["session"]])
def test_sessions_stay_listed_and_can_be_deleted_if_their_names_are_redacted(words: list[str]) -> None:
    async def work() -> None:
        async with TrailsSessionService(":memory:") as service:
            await service.create_session(app_name="travels", user_id="ann@x.org", session_id="other")
            for user in ("ann@x.org", "bob@x.org"):
                for _ in range(2):
                    await service.delete_session(app_name="travel", user_id=user, session_id="s:1")
                    await service.create_session(
                        app_name="travel", user_id=user, session_id="s:1", state={"n": 1, "user:n": 2, "app:n": 3}
                    )
            for word in words:
                service.store.redact_matching(word)
            wanted = [(user, "s:1", {"n": 1, "user:n": 2, "app:n": 3}) for user in ("ann@x.org", "bob@x.org")]
            listed = (await service.list_sessions(app_name="travel")).sessions
            assert sorted((each.user_id, each.id, each.state) for each in listed) == wanted
            for each in listed:
                mine = (await service.list_sessions(app_name="travel", user_id=each.user_id)).sessions
                assert [(one.id, one.state) for one in mine] == [("s:1", wanted[0][2])]
                await service.delete_session(app_name="travel", user_id=each.user_id, session_id=each.id)
            assert (await service.list_sessions(app_name="travel")).sessions == []

    run(work())


def test_an_event_after_a_redaction_does_not_bring_the_text_back(service: TrailsSessionService) -> None:
    async def work() -> None:
        session = await service.create_session(**WHO, state={"note": "my pin is 4711", "user:note": "my pin is 4711"})
        await service.append_event(session, said("one"))
        service.store.redact_matching("my pin is 4711")
        await service.append_event(session, sets(a=1, user__b=2))
        found = await service.get_session(**WHO, session_id=session.id)
        assert found is not None
        assert "4711" not in found.model_dump_json()
        assert (found.state["a"], found.state["user:b"]) == (1, 2)
        listed = (await service.list_sessions(**WHO)).sessions
        assert "4711" not in listed[0].model_dump_json()

    run(work())


def test_rewinding_with_the_runners_own_function_works(service: TrailsSessionService) -> None:
    from google.adk.sessions._rewind_utils import rewind_session

    async def work() -> dict[str, Any]:
        session = await service.create_session(**WHO)
        changes = (({"a": 1}, "i1"), ({"a": 2, "b": 3}, "i2"))
        for delta, invocation in changes:
            event = Event(author="planner", invocation_id=invocation, actions=EventActions(state_delta=delta))
            await service.append_event(session, event)
        await rewind_session(session_service=service, session=session, rewind_before_invocation_id="i2")
        return (await add(service, session)).state

    assert run(work()) == {"a": 1, "b": None}


def test_a_session_that_another_writer_makes_meanwhile_is_added_to(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, real, made = TrailsSessionService(store), store.create, list[str]()

    def create(**fields: Any) -> Any:
        if fields["id"] not in made:
            made.append(fields["id"])
            if len(made) == 2:  # that of the app's state
                real(**fields).persist()
        return real(**fields)

    monkeypatch.setattr(store, "create", create)
    run(service.create_session(**WHO, session_id="a", state={"app:x": 1}))
    assert len(made) == 2
    assert run(service.get_session(**WHO, session_id="a")).state == {"app:x": 1}  # type: ignore[union-attr] # it is there
    assert len(store) == 2


def test_eight_threads_on_one_session_lose_and_double_nothing(service: TrailsSessionService) -> None:
    session = run(service.create_session(**WHO, session_id="s1"))
    each = 5

    async def work(number: int) -> None:
        for turn in range(each):
            while True:
                found = await service.get_session(
                    **WHO, session_id=session.id, config=GetSessionConfig(num_recent_events=1)
                )
                assert found is not None
                try:
                    await service.append_event(found, said(f"{number}-{turn}", timestamp=float(turn)))
                    break
                except StaleSessionError:
                    continue

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: asyncio.run(work(number)), range(8)))
    texts = [turn.content for turn in service.store.load("adk:travel:alice:s1")]
    assert sorted(texts) == sorted(f"{number}-{turn}" for number in range(8) for turn in range(each))


@pytest.mark.slow
def test_a_kill_leaves_each_event_whole_or_not_at_all_and_writers_at_once_lose_none(size: Size, tmp_path: Path) -> None:
    rounds, writers = _ROUNDS[size], _WRITERS[size]
    command = [sys.executable, "-m", "tests.support.adk_writers", str(tmp_path / "store"), str(rounds), str(writers)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines: list[dict[str, Any]] = [json.loads(line) for line in run.stdout.splitlines()]
    assert [line["error"] for line in lines if "error" in line] == []
    assert len(lines) == rounds + 1
    stored = 0
    for line in lines[:-1]:
        count = len(line["texts"])
        assert line["texts"] == [f"n-{number}" for number in range(count)]
        assert stored + line["acknowledged"] <= count <= stored + line["acknowledged"] + 1
        assert line["state"] == dict.fromkeys(("n", "user:n", "app:n"), count - 1)
        assert line["ok"]
        stored = count
    last = lines[-1]
    wanted = [f"w{writer}-{number}" for writer in range(writers) for number in range(EACH)]
    assert sorted(last["texts"][stored:]) == sorted(wanted)
    names = ["n", *(f"w{writer}" for writer in range(writers))]
    values = [stored - 1, *[EACH - 1] * writers]
    assert last["state"] == {
        scope + name: value for scope in ("", "user:", "app:") for name, value in zip(names, values, strict=True)
    }
    assert last["ok"]


def test_two_services_on_one_store_see_each_others_state(store: Repository) -> None:
    one, two = TrailsSessionService(store), TrailsSessionService(store)

    async def work() -> None:
        a = await one.create_session(**WHO, session_id="a")
        b = await two.create_session(**WHO, session_id="b")
        for number in range(4):
            await one.append_event(a, sets(**{f"app__a{number}": number}))
            await two.append_event(b, sets(**{f"app__b{number}": number}))
        found = await one.get_session(**WHO, session_id="b")
        assert found is not None
        assert found.state == {f"app:{who}{number}": number for who in "ab" for number in range(4)}

    run(work())


def test_a_service_opens_the_store_at_a_location_and_closes_it(tmp_path: Any) -> None:
    async def work() -> int:
        for _ in range(2):
            async with TrailsSessionService(tmp_path / "store.trails") as service:
                await service.create_session(**WHO)
                found = len((await service.list_sessions(**WHO)).sessions)
        with pytest.raises(trails.TrailsError):
            service.store.load("adk:travel:alice:s1")
        return found

    assert run(work()) == 2


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_PART = st.one_of(
    st.builds(lambda text: types.Part(text=text), _TEXT),
    st.builds(lambda data: types.Part.from_bytes(data=data, mime_type="image/png"), st.binary(max_size=20)),
    st.builds(
        lambda name, args, call: types.Part(function_call=types.FunctionCall(name=name, args=args, id=call)),
        _TEXT,
        st.dictionaries(_TEXT, _VALUE, max_size=3),
        st.none() | _TEXT,
    ),
    st.builds(
        lambda name, answer, call: types.Part(
            function_response=types.FunctionResponse(name=name, response=answer, id=call)
        ),
        _TEXT,
        st.dictionaries(_TEXT, _VALUE, max_size=3),
        st.none() | _TEXT,
    ),
)
_EVENT = st.builds(
    Event,
    author=_TEXT,
    invocation_id=_TEXT,
    content=st.none()
    | st.builds(types.Content, role=st.sampled_from(["user", "model", None]), parts=st.lists(_PART, max_size=3)),
    actions=st.builds(EventActions, state_delta=st.dictionaries(st.text("abc:", max_size=5), _VALUE, max_size=3)),
    timestamp=st.floats(0, 4e9),
    model_version=st.none() | _TEXT,
    finish_reason=st.none() | st.sampled_from([types.FinishReason.STOP, types.FinishReason.SAFETY]),
    custom_metadata=st.none() | st.dictionaries(_TEXT, _VALUE, max_size=3),
    branch=st.none() | _TEXT,
)


@given(st.lists(_EVENT, max_size=4))
def test_any_events_come_back_as_they_were(events: list[Event]) -> None:
    async def work() -> None:
        async with TrailsSessionService(":memory:") as service:
            session = await service.create_session(**WHO)
            wanted = [json.loads(event.model_dump_json(exclude_none=True)) for event in events]
            found = await add(service, session, *events)
            assert [json.loads(event.model_dump_json(exclude_none=True)) for event in found.events] == wanted
            assert service.store.verify().ok

    run(work())
