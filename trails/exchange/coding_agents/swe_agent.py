"""SWE-agent's trajectories: a `.traj` file is one run, as a JSON object.

`history` is the transcript: every message that is no demonstration makes a turn of its own role, with its tool calls and
the calls that it answers. Files without a history have only `trajectory`, the steps: each is a turn of the assistant and one
of the tool.

A file has no id of its own. A run is named after its problem, where the file tells it, and a hash of its opening (all up to the
model's first message), which a file that grows, or that is moved or renamed, keeps. A message's id is its place.

What a run submitted (`info.submission`, a patch) is metadata of the session, as its `exit_status` is, and of its last turn:
that one came with it, also to a session that was imported while the run went on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trails.exchange import format_detection, json_files, record_checks
from trails.exchange.record_checks import Reading
from trails.exchange.source_transcript import Piece, SourceSession, SourceTurn, Transcript, files_at

SOURCE: Final = "swe-agent"

_LISTS: Final = re.compile(rb'[{,]\s*"(?:history|trajectory)"\s*:\s*\[\s*[{\]]')
_SIGNS: Final = re.compile(rb'[{,]\s*"(?:role|action|observation|message_type)"\s*:')
_MESSAGE_OWN: Final = frozenset({"role", "content", "tool_calls", "tool_call_ids", "is_demo"})
_STEP_META: Final = ("execution_time", "state")
_SUBMISSION: Final = "submission"
_INFO_META: Final = (
    "exit_status",
    _SUBMISSION,
    "model_stats",
    "swe_agent_hash",
    "swe_agent_version",
    "swe_rex_version",
    "swe_rex_hash",
)

_Json = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is a trajectory of SWE-agent.

    >>> sniff(b'{"history": [{"role": "system", "content": "You'), sniff(b'{"history": "none"}')
    (True, False)
    """
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not begin.startswith(b"{") or not format_detection.outline_of_first(head).keys() & {"history", "trajectory"}:
        return False
    return bool(_LISTS.search(begin) and _SIGNS.search(begin))


def find_files(path: Path) -> list[Path]:
    """Return the file itself, or all `.traj` files in a folder and below; raise `InvalidInput` where there is neither."""
    return files_at(path, "*.traj")


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what trajectories (name and bytes of each) say; nothing that they hold raises."""
    return record_checks.combine_files([(name, _read_file(name, data)) for name, data in files])


def _read_file(name: str, data: bytes) -> Reading:
    reading = Reading()
    values, problems = json_files.read_values(data)
    reading.problems += problems
    for line, value in values[:1]:
        _Run(line, value, reading).read(_base(name))
    for line, value in values[1:]:
        reading.refuse(line, "stands after the trajectory, which is one object", value)
    if not values and not problems:
        reading.refuse(0, "is no trajectory of SWE-agent: it holds no JSON object", name)
    reading.notes = [f"{_base(name)}: {note}" for note in reading.notes]
    return reading


def _base(name: str) -> str:
    return re.split(r"[/\\]", name)[-1]


class _Run:
    """One trajectory on its way to a session."""

    def __init__(self, line: int, data: _Json, reading: Reading) -> None:
        self._line = line
        self._data = data
        self._reading = reading
        config = data.get("replay_config")
        if isinstance(config, str):
            read, _ = json_files.read_values(config.encode("utf-8", errors="surrogatepass"))
            config = read[0][1] if read else None
        self._config: _Json = config if isinstance(config, dict) else {}
        self._model = record_checks.valid_name(_at(self._config, "agent", "model", "name"))

    def read(self, name: str) -> None:
        history, steps = self._data.get("history"), self._data.get("trajectory")
        if isinstance(history, list) and (history or not isinstance(steps, list)):
            turns = list(self._history(history))
            turns = self._with_steps(turns, steps if isinstance(steps, list) else [])
        elif isinstance(steps, list):
            self._reading.notes.append("has no history; its turns are the steps of the trajectory")
            turns = list(self._steps(steps))
        else:
            self._reading.refuse(
                self._line, "is no trajectory of SWE-agent: it has no history and no trajectory", self._data
            )
            return
        session_id = self._id(turns)
        turns = self._with_submission(turns)
        path = tuple(
            replace(turn, pieces=(Piece(f"{session_id}/{turn.pieces[0].source_id}", turn.pieces[0].content),))
            for turn in turns
        )
        self._reading.sessions.append(
            SourceSession(
                source=SOURCE,
                id=session_id,
                paths=(path,),
                title=name.removesuffix(".traj") or None,
                agent=SOURCE,
                meta=self._reading.meta(self._line, self._meta()),
            )
        )

    def _id(self, turns: Sequence[SourceTurn]) -> str:
        first = next((index for index, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
        opening = [[turn.role, turn.content, list(turn.tool_calls)] for turn in turns[: first + 1]]
        hashed = hashlib.sha256(json.dumps([self._data.get("environment"), opening]).encode()).hexdigest()[:16]
        problem = record_checks.valid_name(_at(self._config, "problem_statement", "id"))
        return f"{problem}-{hashed}" if problem else hashed

    @property
    def _info(self) -> _Json:
        found = self._data.get("info")
        return found if isinstance(found, dict) else {}

    def _with_submission(self, turns: list[SourceTurn]) -> list[SourceTurn]:
        """Return the turns, the last one with what the run submitted, if it did."""
        submitted = record_checks.without_empty({_SUBMISSION: self._info.get(_SUBMISSION)})
        if not turns or not submitted:
            return turns
        last = replace(turns[-1], meta={**turns[-1].meta, **submitted})
        return (
            [*turns[:-1], last] if record_checks.turn_fault(last) is None else turns
        )  # `_meta` says why it cannot be kept

    def _meta(self) -> dict[str, Any]:
        """Return what is kept of the run; what repeats the turns, or holds them in another form, is left out and noted."""
        info = self._info
        meta = {"environment": self._data.get("environment"), "model": self._model}
        meta |= {key: info.get(key) for key in _INFO_META}
        left = [f"info.{key}" for key in info if key not in _INFO_META]
        left += [key for key in self._data if key not in ("environment", "history", "trajectory", "info")]
        if left:
            self._reading.notes.append(f"{', '.join(left)}: not kept")
        return record_checks.without_empty(meta)

    # --- the history

    def _history(self, history: Sequence[Any]) -> Iterator[SourceTurn]:
        demos = 0
        for number, message in enumerate(history):
            role = message.get("role") if isinstance(message, dict) else None
            if not isinstance(message, dict) or not isinstance(role, str):
                self._refuse(number, "is no message: it has no role", message)
                continue
            self._reading.count(role)
            if message.get("is_demo"):
                demos += 1
            elif (turn := self._turn(number, role, message)) is not None:
                yield turn
        if demos:
            self._reading.notes.append(f"{demos} message(s) of demonstrations are no part of the run and made no turn")

    def _turn(self, number: int, role: str, message: _Json) -> SourceTurn | None:
        left = {key: value for key, value in message.items() if key not in _MESSAGE_OWN}
        content = message.get("content")
        if content is None:
            content = ""
        if left.get("thought") == content:
            left.pop("thought", None)
        if not isinstance(content, str | list):
            self._refuse(number, "has content that is neither a text nor a list of parts", message)
            return None
        calls, answers = message.get("tool_calls"), message.get("tool_call_ids")
        turn = SourceTurn(
            role=role,
            pieces=(Piece(f"history/{number}", content if isinstance(content, str) else tuple(content)),),
            model=self._model if role == "assistant" else None,
            meta=record_checks.without_empty(left),
        )
        turn = self._with_answers(number, self._with_calls(number, turn, calls), answers)
        if (reason := record_checks.turn_fault(turn)) is not None:
            self._refuse(number, f"cannot be kept: {reason}", message)
            return None
        return turn

    def _with_calls(self, number: int, turn: SourceTurn, calls: object) -> SourceTurn:
        if not calls:
            return turn
        kept = []
        for call in calls if isinstance(calls, list) else [calls]:
            if isinstance(call, dict) and record_checks.turn_fault(replace(turn, tool_calls=(call,))) is None:
                kept.append(call)
            else:
                self._refuse(number, "has a tool call that cannot be read", call)
        return replace(turn, tool_calls=tuple(kept))

    def _with_answers(self, number: int, turn: SourceTurn, answers: object) -> SourceTurn:
        if not answers:
            return turn
        names = [
            name
            for each in (answers if isinstance(answers, list) else [answers])
            if (name := record_checks.valid_name(each))
        ]
        if not names:
            self._refuse(number, "answers calls that have no id", {"tool_call_ids": answers})
            return turn
        if len(names) > 1:
            self._reading.notes.append(
                f"history[{number}] answers {len(names)} calls; it is linked to the first, its metadata names all"
            )
            turn = replace(turn, meta={**turn.meta, "tool_call_ids": names})
        return replace(turn, tool_call_id=names[0])

    def _with_steps(self, turns: list[SourceTurn], steps: Sequence[Any]) -> list[SourceTurn]:
        """Return the turns, the model's with what the steps say beside: how long the action took, the state after it."""
        spoken = [index for index, turn in enumerate(turns) if turn.role == "assistant"]
        if len(spoken) != len(steps):
            if steps:
                self._reading.notes.append(
                    f"{len(steps)} steps do not match {len(spoken)} messages of the model: not used"
                )
            return turns
        for number, (index, step) in enumerate(zip(spoken, steps, strict=True)):
            said = (
                record_checks.without_empty({key: step[key] for key in _STEP_META if key in step})
                if isinstance(step, dict)
                else {}
            )
            turn = replace(turns[index], meta={**turns[index].meta, **({"step": said} if said else {})})
            if record_checks.turn_fault(turn) is None:
                turns[index] = turn
            else:
                self._reading.refuse(self._line, f"trajectory[{number}] has what cannot be kept", said)
        return turns

    def _refuse(self, number: int, reason: str, record: object) -> None:
        self._reading.refuse(self._line, f"history[{number}] {reason}", record)

    # --- steps alone

    def _steps(self, steps: Sequence[Any]) -> Iterator[SourceTurn]:
        for number, step in enumerate(steps):
            self._reading.count("step")
            if not isinstance(step, dict):
                self._reading.refuse(self._line, f"trajectory[{number}] is no step", step)
                continue
            left = {
                key: value for key, value in step.items() if key not in ("response", "observation", "query", "messages")
            }
            said, seen = step.get("response"), step.get("observation")
            text = next((each for each in (said, step.get("thought")) if isinstance(each, str)), "")
            made = [("assistant", f"trajectory/{number}", text, left)]
            if isinstance(seen, str):
                made.append(("tool", f"trajectory/{number}/observation", seen, {}))
            for role, place, text, meta in made:
                turn = SourceTurn(
                    role=role,
                    pieces=(Piece(place, text),),
                    model=self._model if role == "assistant" else None,
                    meta=record_checks.without_empty({key: value for key, value in meta.items() if value != text}),
                )
                if (reason := record_checks.turn_fault(turn)) is not None:
                    self._reading.refuse(self._line, f"trajectory[{number}] cannot be kept: {reason}", step)
                    break
                yield turn


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
