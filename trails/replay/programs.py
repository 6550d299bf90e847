"""Run agents and scorers that are programs.

The agent of a rerun asks on its standard output and is answered on its standard input, a JSON object a line. It asks
`{"ask": "input"}`, `{"ask": "model"}`, `{"ask": "tool", "name": ..., "arguments": {...}, "id": ...}` (no `id`: the first such
call that is not answered yet), `{"ask": "append", "role": ..., "content": ...}` and `{"ask": "context"}`.

A scorer is given a line of JSON for each session, and answers with one, {} for no score. Answers come in the order of the
questions, so an extra line would be taken for the next session's score. Therefore the end of a question is held back until
the program has come to read it: what it wrote before is no answer. If there is such a line, or two lines come at once, the
program has failed and is started anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, Self

from trails.errors import InvalidInput, RecordMiss, TrailsError
from trails.model import content_parts, validation
from trails.model.values import ToolCall, Turn
from trails.replay.playback import OnMiss, Playing, ReplayOptions
from trails.session import Session
from trails.session.recorded_calls import ToolAnswer
from trails.session.scoring import Verdict

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of a line of the program; a longer one fails the run."""
_LOOK: Final = 100
"""Milliseconds after which a program that says nothing is looked at: it may have ended."""
_END: Final = len(b"}\n")
_PATIENCE: Final = 5.0
"""Seconds that a program has to end once its standard input was closed."""

From = Literal["recorded", "live"]


class _Running:
    """The running copies of a program: one a thread."""

    def __init__(self, command: Sequence[str], what: str) -> None:
        if not command:
            raise InvalidInput(f"{what} needs a program: name it, and its arguments")
        if shutil.which(command[0]) is None:
            raise InvalidInput(f"{command[0]!r} is no program that can be run; nothing was done")
        self._command = tuple(command)
        self._here = threading.local()
        self._running: set[Pipes] = set()
        self._is_stopped = False

    def stop(self) -> None:
        """End all that run, at once, and start no other: what waits for their answers fails."""
        self._is_stopped = True
        for pipes in list(self._running):
            pipes.kill()

    def _start(self, environment: Mapping[str, str]) -> Pipes:
        name, pipe = shlex.join(self._command), subprocess.PIPE
        try:
            process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, env={**os.environ, **environment})  # noqa: S603 - what was asked for
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{name} cannot be run: {getattr(error, 'strerror', None) or error}") from error
        pipes = Pipes(process, name)
        self._running.add(pipes)
        if self._is_stopped:  # meanwhile: `stop` did not see it
            pipes.kill()
        return pipes


class Program(_Running):
    """A program that is run as an agent, each time anew. Its standard error is left to whoever started this one."""

    def __init__(
        self, command: Sequence[str], *, model: From = "recorded", tools: From = "recorded", on_miss: OnMiss = "stop"
    ) -> None:
        """Name the program and its arguments; "live": the program itself is asked for each answer, and not the record."""
        super().__init__(command, "a rerun")
        self.ways = ReplayOptions(
            self._ask_model if model == "live" else "recorded",
            self._ask_tool if tools == "live" else "recorded",
            on_miss,
        )
        """What the rerun is to be given: who answers."""

    def __call__(self, run: Playing) -> None:
        """Run the program once; raise `TrailsError` if it does not ask as it should, or ends with another code than 0."""
        with self._started(run) as pipes:
            self._here.pipes = pipes
            try:
                while (question := pipes.receive()) is not None:
                    pipes.send(self._answer(run, question))
            except RecordMiss as miss:
                difference = {"index": miss.index, "what": miss.what, "recorded": miss.recorded, "found": miss.found}
                pipes.send({"miss": difference})
                raise
            except InvalidInput as error:
                pipes.send({"error": error.message})
                raise

    @contextmanager
    def _started(self, run: Playing) -> Iterator[Pipes]:
        if self._is_stopped:
            raise KeyboardInterrupt
        pipes = self._start({"TRAILS_RERUN_SESSION": run.session_id, "TRAILS_RERUN_NUMBER": str(run.number)})
        try:
            yield pipes
            pipes.end()
        except Exception as error:
            if self._is_stopped:  # it failed by being ended: nothing of it is stored, as of any that an interrupt meets
                raise KeyboardInterrupt from error
            raise
        finally:
            self._running.discard(pipes)
            pipes.close()

    def _answer(self, run: Playing, question: Mapping[str, Any]) -> dict[str, Any]:
        match question.get("ask"):
            case "input":
                return {"turns": [plain_turn(turn) for turn in run.input()]}
            case "model":
                return {"turn": plain_turn(run.model(live=self._ask_model))}
            case "tool":
                answer = run.tool(_call(question), live=self._ask_tool)
                return {"content": answer.content, "is_error": answer.is_error}
            case "append":
                return {"turn": plain_turn(_append(run, question))}
            case "context":
                return {"messages": run.context().openai()}
        raise InvalidInput(
            f"a program asks for input, model, tool, append or context, not for {question.get('ask')!r:.80} (trails guide rerun)"
        )

    def _ask_model(self, run: Playing) -> Any:
        return self._ask({"live": "model", "messages": run.context().openai()})["answer"]

    def _ask_tool(self, call: ToolCall) -> ToolAnswer:
        reply = self._ask({"live": "tool", "call": {"id": call.id, "name": call.name, "arguments": call.input}})
        is_error, answer = reply.get("is_error", False), reply["answer"]
        if not isinstance(is_error, bool) or not isinstance(answer, str | list):
            raise InvalidInput("a tool's answer is a text or a list of parts, and is_error true or false")
        return ToolAnswer(answer, is_error)

    def _ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        pipes: Pipes = self._here.pipes
        pipes.send(question)
        reply = pipes.receive()
        if reply is None or "answer" not in reply:
            raise InvalidInput(f"the program was asked for the answer of a {question['live']}, and gave none")
        return reply


class Pipes:
    """The lines to and from a program that runs."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        assert process.stdout is not None  # noqa: S101 - a pipe
        assert process.stdin is not None  # noqa: S101 - a pipe
        self._process, self._name = process, name
        self._out, self._unread, self._is_over = process.stdout.fileno(), bytearray(), False
        self._in, self._was_heard = process.stdin.fileno(), False
        os.set_blocking(self._in, False)

    def receive(self) -> Mapping[str, Any] | None:
        """Return the next line's object; None if the program has nothing more to say."""
        line = self._line()
        if not line:
            return None
        if len(line) > MAX_LINE or not line.endswith(b"\n"):
            raise InvalidInput(f"{self._name} wrote a line that is longer than {MAX_LINE} bytes, or has no end")
        try:
            text = line.decode("utf-8")
            if validation.is_nested_too_deep(text):
                raise InvalidInput(f"{self._name} wrote a line that is nested too deep")
            fields = json.loads(text)
        except ValueError as error:
            if isinstance(error, TrailsError):
                raise
            raise InvalidInput(f"{self._name} wrote what is no JSON on a line: {line[:80]!r}") from error
        if not isinstance(fields, dict):
            raise InvalidInput(f"{self._name} wrote a line that is no JSON object: {line[:80]!r}")
        return fields

    def _line(self) -> bytes:
        """Return the next line; what is left where none ends, at the program's end or beyond `MAX_LINE`.

        What the program started and left running may hold its output open: the program's own end counts.
        """
        looked = 0
        while (end := self._unread.find(b"\n", looked)) < 0 and len(self._unread) <= MAX_LINE:
            looked, ended = len(self._unread), self._process.poll() is not None
            if self._is_over or (not self._read_on(0 if ended else _LOOK) and ended):
                break
        size = len(self._unread) if end < 0 else end + 1
        self._was_heard = True
        line = bytes(self._unread[:size])
        del self._unread[:size]
        return line

    def _read_on(self, patience: int) -> bool:
        """Take in what the program has written, or writes within so many milliseconds; tell whether there was anything."""
        if self._is_over or not _ready({self._out: select.POLLIN}, patience):
            return False
        self._unread += (more := os.read(self._out, 1 << 16))
        self._is_over = not more
        return True

    def has_more(self) -> bool:
        """Tell whether the program has written anything that nobody has received."""
        if not self._unread:
            self._read_on(0)
        return bool(self._unread)

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a line to the program; one that has ended needs none, and how it ended is seen by `end`.

        What it writes meanwhile is taken in: each would wait for the other, if both have more to say than a pipe holds.
        """
        self.write(_line(message))

    def offer(self, message: Mapping[str, Any]) -> bytes:
        """Write a line but for its end, and return that, for `write`, once the program has come to read the line.

        What it has written by then is no answer to it: nobody can answer an object before its end. A program that was not
        heard yet is not waited for, nor one whose system does not tell what it has read.
        """
        line = _line(message)
        if not self._was_heard:
            return line
        self.write(line[:-_END])
        patience = 1
        while not self.has_more() and not self._is_over and self._process.poll() is None and _waiting(self._in):
            self._read_on(patience)
            patience = min(2 * patience, _LOOK)
        return line[-_END:]

    def write(self, line: bytes) -> None:
        """Write bytes to the program, and take in what it writes meanwhile."""
        rest = memoryview(line)
        with suppress(BrokenPipeError):
            while rest:
                pipes = {self._in: select.POLLOUT} | ({} if self._is_over else {self._out: select.POLLIN})
                ready = _ready(pipes, _LOOK)
                if self._out in ready and self._read_on(0) and len(self._unread) > MAX_LINE:
                    raise InvalidInput(f"{self._name} wrote more than {MAX_LINE} bytes before it read its input")
                if self._in in ready:
                    with suppress(BlockingIOError):
                        rest = rest[os.write(self._in, rest[: 1 << 16]) :]
                elif not ready and self._process.poll() is not None:
                    break  # what it left running may hold its input open

    def end(self, *, soon: bool = False) -> None:
        """Close the program's input and wait for its end, or, `soon`, end it; raise `TrailsError` if its code is not 0."""
        self.close_input()
        try:
            code = self._process.wait(_PATIENCE if soon else None)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise TrailsError(f"{self._name} went on after its input and output were closed, and was ended") from error
        if code:
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise TrailsError(f"{self._name} ended with {ended}")

    def finish(self) -> None:
        """Let the program end; raise `TrailsError` if it has more to say than it was asked for, or its code is not 0."""
        self.close_input()
        until = time.monotonic() + _PATIENCE
        while not self._unread and not self._is_over and self._process.poll() is None and time.monotonic() < until:
            self._read_on(_LOOK)
        if self.has_more():
            raise TrailsError(f"{self._name} wrote more than it was asked for: {bytes(self._unread[:80])!r}")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until - time.monotonic()))
            self.end()

    def kill(self) -> None:
        """End the program at once."""
        self._process.kill()

    def close_input(self) -> None:
        """Let the program see that nothing more comes."""
        if self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.close()

    def close(self) -> None:
        """Let the program end, or end it."""
        self.close_input()
        if self._process.stdout is not None:
            self._process.stdout.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        except BaseException:  # an interrupt while waiting
            self._process.kill()
            raise


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _waiting(pipe: int) -> bool:
    """Tell whether what was written to a pipe waits to be read, where the system tells it of the end that writes."""
    if sys.platform != "linux":
        return False
    return bool(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0])


def _ready(wanted: Mapping[int, int], patience: int) -> set[int]:
    """Return which pipes can be read or written within so many milliseconds, or have their other end closed."""
    waiting = select.poll()
    for pipe, what in wanted.items():
        waiting.register(pipe, what)
    return {pipe for pipe, _ in waiting.poll(patience)}


def plain_turn(turn: Turn) -> dict[str, Any]:
    """Return what a program is told of a turn."""
    plain = {"index": turn.index, "role": turn.role, "content": turn.content}
    if turn.tool_calls:
        plain["tool_calls"] = [{"id": call.id, "name": call.name, "arguments": call.input} for call in turn.tool_calls]
    return plain


def _call(question: Mapping[str, Any]) -> ToolCall:
    call_id, arguments = question.get("id", ""), question.get("arguments")
    if not isinstance(call_id, str):
        raise InvalidInput(f"a tool call's id is a text, not {call_id!r:.80}")
    return ToolCall(
        id=call_id,
        name=validation.name(question.get("name"), "a tool's name"),
        arguments=content_parts.arguments_json({} if arguments is None else arguments),
    )


def _append(run: Playing, question: Mapping[str, Any]) -> Turn:
    options = {key: value for key, value in question.items() if key not in ("ask", "role", "content")}
    names = {"author", "model", "usage", "stop_reason", "tool_calls", "tool_call_id", "meta"}
    if unknown := sorted(options.keys() - names):
        raise InvalidInput(f"a turn that a program appends has no {unknown[0]!r}")
    return run.append(question.get("role"), question.get("content"), **options)  # type: ignore[arg-type] # append checks it


class ProgramScorer(_Running):
    """A program that scores sessions: started once a thread, and anew after it failed; leaving the block ends it."""

    def __init__(self, command: Sequence[str]) -> None:
        """Name the program and its arguments; raise `InvalidInput` if there is none that can be run."""
        super().__init__(command, "scoring")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        running = list(self._running)
        for pipes in running:
            pipes.close_input()  # of all, before the first is waited for
        for pipes in running:
            pipes.close()

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
        """Return the program's score of a session, by name; raise `TrailsError` if it gives none as it should."""
        pipes = self._pipes()
        try:
            _refuse_more(pipes)
            turns = [plain_turn(turn) for turn in session]
            end = pipes.offer({"session": session.id, "label": session.label, "turns": turns})
            _refuse_more(pipes)
            pipes.write(end)
            reply = pipes.receive()
            if reply is None:
                pipes.end(soon=True)
                raise InvalidInput("the program ended before it answered")
            _refuse_more(pipes)
            return _score(reply, session.id)
        except BaseException:
            self._drop(pipes)
            raise

    def _pipes(self) -> Pipes:
        pipes: Pipes | None = getattr(self._here, "pipes", None)
        if self._is_stopped:
            raise InvalidInput("no program is started any more: scoring was broken off")
        if pipes is None:
            self._here.pipes = pipes = self._start({})
        return pipes

    def _drop(self, pipes: Pipes) -> None:
        self._here.pipes = None
        self._running.discard(pipes)
        with suppress(OSError):
            pipes.close()


def _refuse_more(pipes: Pipes) -> None:
    if pipes.has_more():
        raise InvalidInput("the program wrote more than the one line that answers: its session cannot be told")


def _score(reply: Mapping[str, Any], session_id: str) -> Mapping[str, Verdict] | None:
    if reply.get("session", session_id) != session_id:
        raise InvalidInput(f"the program was asked for this session, and answered for session {reply['session']!r:.80}")
    if not reply.keys() - {"session"}:
        return None
    if unknown := sorted(reply.keys() - {"session", "name", "value", "reason"}):
        raise InvalidInput(f"a score has a name, a value and a reason, and no {unknown[0]!r:.80}")
    if reply.get("value") is None or not isinstance(reply.get("name"), str):
        raise InvalidInput(
            'a program answers with a name and a value: {"name": "accuracy", "value": 0.5}, or {} for no score'
        )
    reason = reply.get("reason")
    return {reply["name"]: reply["value"] if reason is None else (reply["value"], reason)}
