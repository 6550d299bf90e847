"""Clients that write through one server, which is killed at random: what they were told is written, and what is there."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import trails
from tests.support.servers import CONNECTION_ERRORS, Answer, Client, Server

SESSIONS: Final = ("a", "b", "c", "d", "e", "f", "g", "h")
_CLIENTS: Final = 8
_FORK_EVERY: Final = 40
_STAY: Final = 8
"""Turns that a client writes to a session before it goes to another one."""
_PATIENCE: Final = 120.0
"""Seconds that a client waits for a server to be there again."""


class Writer(threading.Thread):
    """A client that appends one turn after the other to sessions that others write to as well, and now and then forks one.

    It sends what was not answered again, with the same idempotency key, until it is answered.
    """

    def __init__(self, name: str, port: int, ended: threading.Event, through: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._port, self._ended, self._through = port, ended, through
        self._client = Client(port)
        self._heads = dict[str, str]()
        self.turns: list[str] = []
        """The texts whose append was answered well."""
        self.forks: list[str] = []
        """The sessions that this client asked for."""
        self.conflicts = 0
        self.resent = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Write until the end is signalled."""
        try:
            with closing(self._client):
                number, session, chance = 0, SESSIONS[0], random.Random(self.name)
                while not self._ended.is_set():
                    if number % _STAY == 0:
                        session = chance.choice(SESSIONS)
                    self._append(session, f"{self.name}-{number}")
                    if number % _FORK_EVERY == _FORK_EVERY - 1:
                        self._fork(session, f"fork-{self.name}-{number}")
                    number += 1
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def _append(self, session: str, text: str) -> None:
        while True:
            head = self._heads.get(session) or self._head(session)
            answer = self._until_answered(
                partial(self._client.append, session, [{"role": "user", "content": text}], head=head, key=text)
            )
            if answer.status == 201:
                self.turns.append(text)
                self._heads[session] = answer.head
                return
            assert answer.status == 409, answer  # another client was first
            self.conflicts += 1
            self._heads[session] = answer.json["actual"]

    def _head(self, session: str) -> str:
        answer = self._until_answered(partial(self._client.ask, "GET", f"/api/sessions/{session}"))
        assert answer.status == 200, answer
        return answer.head.partition("-")[0]

    def _fork(self, session: str, new: str) -> None:
        self.forks.append(new)
        answer = self._until_answered(partial(self._client.fork, session, new, key=new))
        assert answer.status == 201, answer

    def _until_answered(self, request: Callable[[], Answer]) -> Answer:
        while True:
            try:
                answer = request()
            except CONNECTION_ERRORS:
                self.resent += 1
                assert self._through.wait(_PATIENCE), "the server did not come back"
                continue
            if answer.status == 503:
                continue
            return answer


def write_and_kill(store: str | Path, folder: Path, turns: int, kills: int) -> dict[str, int]:
    """Have clients write until so many turns are acknowledged, kill the server in the middle, and look at what is there.

    Nothing acknowledged is missing, nothing is there twice, and no session is there that nobody asked for.
    """
    with trails.open(store, create=True) as opened:
        for name in SESSIONS:
            opened.create(id=name).persist()
    chance = random.Random(13)
    marks = sorted(chance.sample(range(turns // 10, turns), kills))
    ended, through = threading.Event(), threading.Event()
    server = Server(store, folder / "server.log")
    through.set()
    writers = [Writer(str(number), server.port, ended, through) for number in range(_CLIENTS)]
    try:
        for each in writers:
            each.start()
        _kill_at(server, writers, marks, turns, through)
        ended.set()
        for each in writers:
            each.join(_PATIENCE)
            assert each.error is None, each.error
            assert not each.is_alive(), "a client waits for ever"
        code = server.stop()
        assert code == 0, (folder / "server.log").read_text("utf-8")[-3000:]
    finally:
        ended.set()
        through.set()
        if server.process.poll() is None:
            server.kill()
    return _judged(store, writers)


def _kill_at(server: Server, writers: list[Writer], marks: list[int], turns: int, through: threading.Event) -> None:
    pause = threading.Event()
    while (done := sum(len(each.turns) for each in writers)) < turns:
        pause.wait(0.02)
        for each in writers:
            if each.error is not None:
                raise each.error
        if marks and done >= marks[0]:
            while marks and done >= marks[0]:
                marks.pop(0)
            through.clear()
            server.kill()
            server.start()
            through.set()


def _judged(store: str | Path, writers: list[Writer]) -> dict[str, int]:
    acknowledged = [text for each in writers for text in each.turns]
    forks = {name for each in writers for name in each.forks}
    with trails.open(store) as opened:
        count = Counter(turn.text for name in SESSIONS for turn in opened.load(name).turns)
        lost = [text for text in acknowledged if not count[text]]
        doubled = [text for text, times in count.items() if times > 1]
        sessions = {record.id for record in opened}
        assert not lost, f"lost: {lost[:5]}"
        assert not doubled, f"doubled: {doubled[:5]}"
        assert set(count) == set(acknowledged), "a turn is there that nobody was told of"
        assert sessions == {*SESSIONS, *forks}, "a fork is there that nobody asked for, or one is missing"
        assert opened.verify().ok
    return {
        "turns": len(acknowledged),
        "forks": len(forks),
        "conflicts": sum(each.conflicts for each in writers),
        "resent": sum(each.resent for each in writers),
    }
