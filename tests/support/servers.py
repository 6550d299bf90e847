"""`trails serve` in a process of its own, and a client of its API that keeps its connection."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_PAUSE: Final = threading.Event()
_START_SECONDS: Final = 120.0
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

CONNECTION_ERRORS: Final = (OSError, http.client.HTTPException)
"""What a client gets if the server goes away in the middle of a request."""


def free_port() -> int:
    """Return a port of loopback that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Server:
    """A process that serves a store at a port; it may be killed and started anew at the same one."""

    def __init__(self, store: str | Path, log: Path, *options: str, port: int | None = None) -> None:
        """Serve a store, with the options of `trails serve`; what the process writes is appended to the file `log`."""
        self.port = port or free_port()
        self.log = log
        self._command = [sys.executable, "-m", "trails", "serve", str(store), "--port", str(self.port), *options]
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process, and return it once it answers."""
        with self.log.open("ab") as written:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=written, stderr=written)
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {self.log.read_text('utf-8')[-3000:]}")
            with closing(Client(self.port, timeout=5)) as client, suppress(*CONNECTION_ERRORS):
                if client.ask("GET", "/api").status == 200:
                    return self.process
            _PAUSE.wait(0.05)
        self.process.kill()
        raise AssertionError(f"the server does not answer: {self.log.read_text('utf-8')[-3000:]}")

    def kill(self) -> None:
        """End the process as a power cut of its own would (SIGKILL)."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask the process to end (SIGTERM) and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process and those of its children that live (Linux)."""
        return sum(_cpu_seconds(each) for each in self.family())

    def resident(self) -> int:
        """Return the bytes of the process and its children that are in memory (Linux)."""
        return sum(_resident(each) for each in self.family())

    def family(self) -> list[int]:
        """Return the ids of the process and all that it started (Linux)."""
        ids = [self.process.pid]
        for each in ids:
            ids.extend(_children(each))
        return ids


@contextmanager
def serving(store: str | Path, log: Path, *options: str) -> Iterator[Server]:
    """Serve a store until the block ends; then the server is asked to end, and must do so without an error."""
    server = Server(store, log, *options)
    try:
        yield server
        code = server.stop()
        assert code == 0, (code, log.read_text("utf-8")[-3000:])
    finally:
        if server.process.poll() is None:
            server.kill()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def head(self) -> str:
        """The head that the ETag names."""
        return self.headers["etag"].removeprefix("W/").strip('"')


class Client:
    """One connection to a server, for one thread; it is opened anew after an error."""

    def __init__(self, port: int, *, token: str | None = None, timeout: float = 60) -> None:
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def ask(self, method: str, path: str, value: object = None, **headers: str) -> Answer:
        """Send a request, with a value as its JSON, and return the answer; `_` in a header's name is sent as `-`."""
        body = None if value is None else json.dumps(value).encode()
        told = self._headers | {name.replace("_", "-"): text for name, text in headers.items()}
        if body is not None:
            told.setdefault("Content-Type", "application/json")
        try:
            self._connection.request(method, path, body, told)
            response = self._connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except CONNECTION_ERRORS:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    # --- the API

    def create(self, session: str, **fields: object) -> Answer:
        """Make a session."""
        return self.ask("POST", "/api/sessions", {"id": session, **fields})

    def head(self, session: str) -> str:
        """Return the head of a session."""
        answer = self.ask("GET", f"/api/sessions/{session}")
        assert answer.status == 200, answer
        return answer.head

    def append(
        self, session: str, turns: Sequence[Mapping[str, object]], *, head: str | None = None, key: str | None = None
    ) -> Answer:
        """Append turns to a session, if `head` is still its head."""
        headers = {} if head is None else {"If_Match": f'"{head}"'}
        return self.ask(
            "POST",
            f"/api/sessions/{session}/turns",
            {"turns": list(turns)},
            **headers,
            **({} if key is None else {"Idempotency_Key": key}),
        )

    def last_turns(self, session: str, count: int = 50) -> Answer:
        """Read the last turns of a session."""
        return self.ask("GET", f"/api/sessions/{session}/turns?last={count}")

    def fork(self, session: str, new: str, *, key: str) -> Answer:
        """Fork a session at its end."""
        return self.ask("POST", f"/api/sessions/{session}/forks", {"id": new}, Idempotency_Key=key)


def _children(process: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        return [int(each) for task in tasks for each in (task / "children").read_text().split()]
    except OSError:
        return []


def _cpu_seconds(process: int) -> float:
    """Return the CPU time of a process with all its threads, to the nanosecond; 0 for one that has ended."""
    try:
        return time.clock_gettime((~process << 3) | 2)  # the clock that clock_getcpuclockid names
    except OSError:
        return 0.0


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0
