"""A program as a scorer: for each session it is given a line of JSON, and answers with one, {} for no score.

Answers come in the order of what was asked, so a line too many would be taken for the next session's score. So the end of a
question is held back until the program has come to read it: what it wrote before is no answer. Then, or where two lines come
at once, the program has failed, and is started anew.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from trails.errors import InvalidInput, TrailsError
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
        self._is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = list(self._running)
        for pipes in running:
            pipes.close_input()  # of all, before the first is waited for
        for pipes in running:
            pipes.close()

    def stop(self) -> None:
        """End all that run, at once, and start no other: threads that wait for their answers wait no more."""
        self._is_stopped = True
        for pipes in list(self._running):
            pipes.kill()

    def finish(self) -> list[str]:
        """Let all that run end, and return what was wrong with how they did; call it when no session is being scored."""
        wrong = []
        for pipes in self._running:
            pipes.close_input()
        for pipes in self._running:
            try:
                pipes.finish()
            except TrailsError as error:
                wrong.append(error.message)
        return wrong

    def __call__(self, session: Session) -> Mapping[str, Verdict] | None:
        """Return the program's score of a session, by name; raise `TrailsError` where it gives none as it should."""
        pipes = self._pipes()
        try:
            _refuse_more(pipes)
            turns = [plain_turn(turn) for turn in session]
            end = pipes.offer({"session": session.id, "label": session.label, "turns": turns})
            _refuse_more(pipes)
            pipes.conclude(end)
            said = pipes.receive()
            if said is None:
                pipes.end(soon=True)
                raise InvalidInput("the program ended before it answered")
            _refuse_more(pipes)
            return _score(said, session.id)
        except BaseException:
            self._drop(pipes)
            raise

    def _pipes(self) -> Pipes:
        pipes: Pipes | None = getattr(self._here, "pipes", None)
        if self._is_stopped:
            raise InvalidInput("no program is started any more: scoring was broken off")
        if pipes is None:
            self._here.pipes = pipes = started(self._command, {})
            self._running.add(pipes)
            if self._is_stopped:  # meanwhile: `stop` did not see it
                pipes.kill()
        return pipes

    def _drop(self, pipes: Pipes) -> None:
        self._here.pipes = None
        self._running.discard(pipes)
        with suppress(OSError):
            pipes.close()


def _refuse_more(pipes: Pipes) -> None:
    if pipes.has_more():
        raise InvalidInput(
            "the program wrote more than the one line that answers: which session it is of, nobody can tell"
        )


def _score(said: Mapping[str, Any], session_id: str) -> Mapping[str, Verdict] | None:
    if said.get("session", session_id) != session_id:
        raise InvalidInput(f"the program was asked for this session, and answered for session {said['session']!r:.80}")
    if not said.keys() - {"session"}:
        return None
    if unknown := sorted(said.keys() - {"session", "name", "value", "reason"}):
        raise InvalidInput(f"a score has a name, a value and a reason, and no {unknown[0]!r:.80}")
    if said.get("value") is None or not isinstance(said.get("name"), str):
        raise InvalidInput(
            'a program answers with a name and a value: {"name": "accuracy", "value": 0.5}, or {} for no score'
        )
    reason = said.get("reason")
    return {said["name"]: said["value"] if reason is None else (said["value"], reason)}
