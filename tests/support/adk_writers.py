"""Writers of one session of Google's ADK in processes of their own: `python -m tests.support.adk_writers STORE ROUNDS WRITERS`.

A child appends events until it is killed, and another one then looks at what is there, ROUNDS times. Then WRITERS children append
at once. Each result is a line of JSON. All are forked from a process that has the framework loaded, and no store open.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types

from trails.adapters.google_adk import TrailsSessionService

WHO: dict[str, Any] = {"app_name": "travel", "user_id": "alice", "session_id": "trip"}
EACH = 8


def numbered(number: int, prefix: str) -> Event:
    """Return an event that sets the same number in all scopes."""
    state: dict[str, Any] = {f"{scope}{prefix}": number for scope in ("", "user:", "app:")}
    content = types.Content(role="user", parts=[types.Part(text=f"{prefix}-{number}")])
    return Event(author="user", content=content, actions=EventActions(state_delta=state))


async def _read(service: TrailsSessionService) -> Session:
    found = await service.get_session(**WHO)
    assert found is not None
    return found


async def append_until_killed(place: str, acknowledged: int) -> None:
    """Append events, each one higher, and write a byte for each that was acknowledged."""
    service = TrailsSessionService(place)
    session = await _read(service)
    while True:
        await service.append_event(session, numbered(len(session.events), "n"))
        os.write(acknowledged, b".")


async def append_beside_others(place: str, writer: int) -> None:
    """Append some events while others do, reading the session anew after each of theirs."""
    async with TrailsSessionService(place) as service:
        for number in range(EACH):
            while True:
                try:
                    await service.append_event(await _read(service), numbered(number, f"w{writer}"))
                    break
                except StaleSessionError:
                    await asyncio.sleep(random.random() * 0.01)


async def look(place: str) -> dict[str, Any]:
    """Return what is stored."""
    async with TrailsSessionService(place) as service:
        session = await _read(service)
        report = service.store.verify()
        texts = [event.content.parts[0].text for event in session.events if event.content and event.content.parts]
        return {"texts": texts, "state": session.state, "ok": report.ok}


async def _make(place: str) -> None:
    async with TrailsSessionService(place) as service:
        await service.create_session(**WHO)


def _forked(work: Callable[[], Any]) -> int:
    """Do some work in a child; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - told to who waits
        _say({"error": repr(error)})
        os._exit(1)
    os._exit(0)


def _say(result: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def _tell(place: str, **more: Any) -> None:
    def work() -> None:
        _say(asyncio.run(look(place)) | more)

    os.waitpid(_forked(work), 0)


def main() -> None:
    """Kill and look as often as asked, then let writers write at once."""
    place, rounds, writers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(rounds)
    os.waitpid(_forked(lambda: asyncio.run(_make(place))), 0)
    for _ in range(rounds):
        reading, writing = os.pipe()
        child = _forked(lambda ack=writing: asyncio.run(append_until_killed(place, ack)))  # type: ignore[misc] # its default
        os.close(writing)
        first = os.read(reading, 1)
        time.sleep(chance.random() * 0.03)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        acknowledged = len(first)
        while got := os.read(reading, 4096):
            acknowledged += len(got)
        os.close(reading)
        _tell(place, acknowledged=acknowledged)
    for child in [_forked(lambda who=n: asyncio.run(append_beside_others(place, who))) for n in range(writers)]:  # type: ignore[misc]
        os.waitpid(child, 0)
    _tell(place)


if __name__ == "__main__":
    main()
