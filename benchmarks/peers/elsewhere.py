"""A peer in a process of its own, because it takes the place of `sqlite3` there; that process times the peer's work."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks.data import Message
from benchmarks.harness import Stopwatch, child_environment
from benchmarks.peers.tables import Versions

_SERVE = "import doltlite, sys; from benchmarks.peers import elsewhere; elsewhere.serve(sys.argv[1])"


class Elsewhere:
    """DoltLite, asked over a pipe; `spent` are the seconds that opening it and its work have taken, without the pipe's."""

    rewrites = False

    def __init__(self, folder: Path) -> None:
        if find_spec("doltlite") is None:
            raise ModuleNotFoundError("No module named 'doltlite'", name="doltlite")
        self.spent = 0.0
        command = [sys.executable, "-c", _SERVE, str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment()
        )
        self._answer()
        self.durability: str = self._ask("durability")

    def _ask(self, name: str, *arguments: object) -> Any:
        assert self._process.stdin is not None
        pickle.dump((name, arguments), self._process.stdin)
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        seconds, answer = pickle.load(self._process.stdout)  # noqa: S301 - our own process wrote it
        if isinstance(answer, Exception):
            raise answer
        self.spent += seconds
        return answer

    def append(self, messages: Sequence[Message]) -> None:
        self._ask("append", messages)

    def fill(self, messages: Sequence[Message]) -> None:
        self._ask("fill", messages)

    def load(self) -> Sequence[Any]:
        found: Sequence[Any] = self._ask("load")
        return found

    def last(self, count: int) -> Sequence[Any]:
        found: Sequence[Any] = self._ask("last", count)
        return found

    @property
    def process_id(self) -> int:
        """The number of the process in which it works."""
        return self._process.pid

    def hold(self) -> Sequence[Any]:
        """Load all messages and keep them there, without sending them here."""
        self._ask("hold")
        return ()

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        self._ask("fork", at, tail)

    def close(self) -> None:
        self._ask("close")
        self._process.communicate()

    def kill(self) -> None:
        """End its process as a crash does."""
        self._process.kill()
        self._process.wait()


def serve(folder: str) -> None:
    """Answer what is asked on the standard input, until it ends, with the seconds that it took."""
    watch, asked, answers = Stopwatch(), sys.stdin.buffer, sys.stdout.buffer
    with watch.timed():
        peer = _Serving(Path(folder))
    _say(answers, watch.seconds, None)
    while (question := _read(asked)) is not None:
        name, arguments = question
        gc.collect()  # as before each round where the others are measured
        with watch.timed():
            answer = _answered(peer, name, arguments)
        _say(answers, watch.seconds, answer)


def _say(answers: BinaryIO, seconds: float, answer: object) -> None:
    pickle.dump((seconds, answer), answers)
    answers.flush()


def _read(asked: BinaryIO) -> Any:
    try:
        return pickle.load(asked)  # noqa: S301 - our own process wrote it
    except EOFError:
        return None


class _Serving(Versions):
    """DoltLite in the process that is asked."""

    def hold(self) -> None:
        self._held = self.load()


def _answered(peer: object, name: str, arguments: Sequence[object]) -> Any:
    try:
        found = getattr(peer, name)
        return found(*arguments) if callable(found) else found
    except Exception as error:  # noqa: BLE001 - it is raised again where it was asked
        return error
