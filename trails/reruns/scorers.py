"""A program as a scorer: for each session it is given a line of JSON, and answers with one, {} for no score."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from trails.errors import InvalidInput
from trails.reruns.programs import Pipes, plain_turn, runnable, started
from trails.session import Session
from trails.session.scoring import Verdict


class ProgramScorer:
    """A program that scores sessions: started once a thread, and anew after it failed; leaving the block ends it."""

    def __init__(self, command: Sequence[str]) -> None:
        """Name the program and its arguments; raise `InvalidInput` where there is none that can be run."""
        self._command = runnable(command, "scoring")
        self._here = threading.local()
        self._running: set[Pipes] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipes in self._running:
            pipes.close()

    def __call__(self, session: Session) -> Mapping[str, Verdict] | None:
        """Return the program's score of a session, by name; raise `TrailsError` where it gives none as it should."""
        pipes = self._pipes()
        try:
            pipes.send({"session": session.id, "label": session.label, "turns": [plain_turn(turn) for turn in session]})
            said = pipes.receive()
            if said is None:
                pipes.end()
                raise InvalidInput("the program ended before it answered")
            return _score(said)
        except BaseException:
            self._drop(pipes)
            raise

    def _pipes(self) -> Pipes:
        pipes: Pipes | None = getattr(self._here, "pipes", None)
        if pipes is None:
            self._here.pipes = pipes = started(self._command, {})
            self._running.add(pipes)
        return pipes

    def _drop(self, pipes: Pipes) -> None:
        self._here.pipes = None
        self._running.discard(pipes)
        with suppress(OSError):
            pipes.close()


def _score(said: Mapping[str, Any]) -> Mapping[str, Verdict] | None:
    if not said:
        return None
    if unknown := sorted(said.keys() - {"name", "value", "reason"}):
        raise InvalidInput(f"a score has a name, a value and a reason, and no {unknown[0]!r:.80}")
    if said.get("value") is None or not isinstance(said.get("name"), str):
        raise InvalidInput(
            'a program answers with a name and a value: {"name": "accuracy", "value": 0.5}, or {} for no score'
        )
    reason = said.get("reason")
    return {said["name"]: said["value"] if reason is None else (said["value"], reason)}
