"""The session service for Google's ADK beside the kit's SQLite service: append an event, get the last 20, list."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from benchmarks.frameworks import Figure
from trails.adapters.google_adk import TrailsSessionService

_LONG: dict[str, Any] = {"app_name": "long", "user_id": "alice", "session_id": "trip"}
_EVENTS, _SESSIONS, _ROUNDS = 5_000, 200, 60
_NEWEST = GetSessionConfig(num_recent_events=20)
_Services = Mapping[str, BaseSessionService]


def measure(events: int = _EVENTS) -> list[Figure]:
    """Return the figures of one run in which both services take turns; the last 20 are of so many events."""
    return asyncio.run(_measure(events))


async def _measure(events: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as place:
        own = SqliteSessionService(str(Path(place) / "own.db"))
        await own.create_session(app_name="warm", user_id="up")
        with closing(sqlite3.connect(Path(place) / "own.db")) as file:  # synchronous=FULL is the default
            file.execute("PRAGMA journal_mode=WAL")
        trails = TrailsSessionService(Path(place) / "store.trails")
        services: _Services = {"trails": trails, "own": own}
        figures = [*await _append_and_get(services, events), await _list(services)]
        await trails.close()
    return figures


async def _append_and_get(services: _Services, events: int) -> list[Figure]:
    sessions = {name: await service.create_session(**_LONG) for name, service in services.items()}
    spent: dict[str, list[float]] = {name: [] for name in services}
    for number in range(events):
        for name, service in services.items():
            event = _event(number)
            spent[name].append(await _timed(lambda: service.append_event(sessions[name], event)))  # noqa: B023
    got = await _in_turn(services, lambda service: service.get_session(**_LONG, config=_NEWEST))
    return [
        Figure("append an event", median(spent["trails"]), median(spent["own"]), "0.2x"),
        Figure(f"get the last 20 of {events:,}", got["trails"], got["own"], "0.8x"),
    ]


async def _list(services: _Services) -> Figure:
    for number in range(_SESSIONS):
        for service in services.values():
            state = {"number": number, "note": "x" * 100}
            session = await service.create_session(app_name="list", user_id=f"user {number % 10}", state=state)
            await service.append_event(session, _event(number))
    listed = await _in_turn(services, lambda service: service.list_sessions(app_name="list"))
    return Figure(f"list {_SESSIONS} sessions", listed["trails"], listed["own"], "1.0x")


async def _in_turn(services: _Services, work: Callable[[Any], Awaitable[object]]) -> dict[str, float]:
    spent: dict[str, list[float]] = {name: [] for name in services}
    for _ in range(_ROUNDS):
        for name, service in services.items():
            spent[name].append(await _timed(lambda: work(service)))  # noqa: B023 - called at once
    return {name: median(each) for name, each in spent.items()}


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await work()
    return (time.perf_counter() - start) * 1e3


def _event(number: int) -> Event:
    is_asked = number % 2 == 0
    content = types.Content(role="user" if is_asked else "model", parts=[types.Part(text=f"turn {number} " * 40)])
    actions = EventActions(state_delta={"last": number}) if number % 10 == 0 else EventActions()
    return Event(author="user" if is_asked else "planner", invocation_id="i", content=content, actions=actions)
