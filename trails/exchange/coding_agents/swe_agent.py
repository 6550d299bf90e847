"""Read SWE-agent's and mini-swe-agent's trajectories: one run per file.

`history` is the transcript: every message that is no demonstration makes a turn of its own role, with its tool calls and
the calls that it answers. Files without a history have only `trajectory`, the steps: each is a turn of the assistant and one
of the tool.

A file has no id of its own. A run is named after its problem, if the file has it, and a hash of its opening. A message's id is
its place.

mini-swe-agent's `.traj.json` files are runs, too, as a JSON object with `info` and `messages`. The messages are those of a chat
(see `messages`). What stands in a message's `extra` makes time, model, usage and cost of its turn; all else of it is metadata of
the turn, except what the message says itself. `info` (exit status, submission, configuration, statistics) is metadata of the
session. Bare arrays, as the first versions wrote, are read by `messages`.

What a run submitted (`info.submission`, a patch) is metadata of the session, as its `exit_status` is, and of its last turn:
that one came with it, also to a session that was imported while the run went on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from trails.exchange import source_values
from trails.exchange.chats import message_lists
from trails.exchange.format_detection import outline_of_first
from trails.exchange.json_files import as_list, as_listed, as_object, read_values, value_at, without_keys
from trails.exchange.record_checks import Reading, each_file, named_by_opening, turn_fault
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.exchange.source_values import as_content, base_name, epoch_time, leftover, valid_name, without_empty
from trails.usage import with_source

SOURCE: Final = "swe-agent"
MINI: Final = "mini-swe-agent"

_LISTS: Final = re.compile(rb'[{,]\s*"(?:history|trajectory)"\s*:\s*\[\s*[{\]]')
_SIGNS: Final = re.compile(rb'[{,]\s*"(?:role|action|observation|message_type)"\s*:')
_MESSAGE_OWN: Final = frozenset({"role", "content", "tool_calls", "tool_call_ids", "is_demo"})
_STEP_OWN: Final = frozenset({"response", "observation", "query", "messages"})
_RUN_OWN: Final = ("environment", "history", "trajectory", "info")
_INFO_META: Final = (
    *("exit_status", "submission", "model_stats"),
    *("swe_agent_hash", "swe_agent_version", "swe_rex_version", "swe_rex_hash"),
)
_MINI_INFO: Final = re.compile(rb'"info"\s*:\s*\{')
_MINI_SIGNS: Final = re.compile(rb'"(?:mini_version|model_stats|exit_status)"\s*:')


def sniff(head: bytes) -> bool:
    """Tell whether a file is a trajectory of SWE-agent.

    >>> sniff(b'{"history": [{"role": "system", "content": "You'), sniff(b'{"history": "none"}')
    (True, False)
    """
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not begin.startswith(b"{") or not outline_of_first(head).keys() & {"history", "trajectory"}:
        return False
    return bool(_LISTS.search(begin) and _SIGNS.search(begin))


def sniff_mini(head: bytes) -> bool:
    """Tell whether a file is a trajectory of mini-swe-agent.

    >>> sniff_mini(b'{"info": {"exit_status": "Submitted"}, "messages": [{"role"')
    True
    >>> sniff_mini(b'{"info": {"id": "ses_1"}, "messages": [{')
    False
    """
    first = outline_of_first(head)
    if (first.get("trajectory_format") or "").startswith(MINI) and "messages" in first:
        return True
    return first.get("info", "") is None and bool(_MINI_INFO.search(head) and _MINI_SIGNS.search(head))


def _trajectory(name: str, data: bytes, reading: Reading, program: str) -> tuple[int, dict[str, Any]] | None:
    """Return the one object that a file is, with its line."""
    values = reading.values(data)
    for line, value in values[1:]:
        reading.refuse(line, "stands after the trajectory, which is one object", value)
    if not values and not reading.problems:
        reading.refuse(0, f"is no trajectory of {program}: it holds no JSON object", name)
    return values[0] if values else None


def _read_file(name: str, data: bytes, reading: Reading) -> None:
    if (found := _trajectory(name, data, reading, "SWE-agent")) is not None:
        _Run(*found, reading).read(base_name(name))
    reading.notes = [f"{base_name(name)}: {note}" for note in reading.notes]


def _read_mini(name: str, data: bytes, reading: Reading) -> None:
    if (found := _trajectory(name, data, reading, MINI)) is not None:
        _mini_run(re.sub(r"\.(?:traj\.)?json$", "", base_name(name)), *found, reading)


parse: Final = each_file(_read_file)
parse_mini: Final = each_file(_read_mini)


class _Run:
    """One trajectory on its way to a session."""

    def __init__(self, line: int, data: Mapping[str, Any], reading: Reading) -> None:
        self._line = line
        self._data = data
        self._reading = reading
        self._info = as_object(data.get("info"))
        config = data.get("replay_config")
        if isinstance(config, str):
            read, _ = read_values(config.encode("utf-8", errors="surrogatepass"))
            config = read[0][1] if read else None
        self._config = as_object(config)
        self._model = valid_name(value_at(config, "agent", "model", "name"))

    def read(self, name: str) -> None:
        history, steps = self._data.get("history"), self._data.get("trajectory")
        if isinstance(history, list) and (history or not isinstance(steps, list)):
            turns = self._with_steps(list(self._history(history)), as_list(steps))
        elif isinstance(steps, list):
            self._reading.notes.append("has no history; its turns are the steps of the trajectory")
            turns = list(self._steps(steps))
        else:
            reason = "is no trajectory of SWE-agent: it has no history and no trajectory"
            self._reading.refuse(self._line, reason, self._data)
            return
        problem = valid_name(as_object(self._config.get("problem_statement")).get("id"))
        session_id, path = named_by_opening(problem, self._data.get("environment"), turns)
        paths, title = (self._with_submission(path),), name.removesuffix(".traj") or None
        self._reading.add_session(SOURCE, session_id, paths, self._meta(), self._line, title=title)

    def _with_submission(self, turns: tuple[SourceTurn, ...]) -> tuple[SourceTurn, ...]:
        """Return the turns, the last one with what the run submitted, if it did."""
        submitted = without_empty({"submission": self._info.get("submission")})
        if not turns or not submitted:
            return turns
        last = replace(turns[-1], meta={**turns[-1].meta, **submitted})
        return (*turns[:-1], last) if turn_fault(last) is None else turns  # `_meta` says why it cannot be kept

    def _meta(self) -> dict[str, Any]:
        """Return the run's metadata; note the fields that are not kept."""
        left = [f"info.{key}" for key in self._info if key not in _INFO_META]
        left += [key for key in self._data if key not in _RUN_OWN]
        if left:
            self._reading.notes.append(f"{', '.join(left)}: not kept")
        meta = {"environment": self._data.get("environment"), "model": self._model}
        return without_empty(meta | {key: self._info.get(key) for key in _INFO_META})

    # --- the history

    def _history(self, history: Sequence[Any]) -> Iterator[SourceTurn]:
        demos = 0
        for number, message in enumerate(history):
            role = as_object(message).get("role")
            if not isinstance(role, str):
                self._refuse(number, "is no message: it has no role", message)
                continue
            self._reading.count(role)
            if message.get("is_demo"):
                demos += 1
            elif (turn := self._turn(number, role, message)) is not None:
                yield turn
        if demos:
            self._reading.notes.append(f"{demos} message(s) of demonstrations are no part of the run and made no turn")

    def _turn(self, number: int, role: str, message: Mapping[str, Any]) -> SourceTurn | None:
        content = message.get("content")
        content = "" if content is None else content
        if not isinstance(content, str | list):
            self._refuse(number, "has content that is neither a text nor a list of parts", message)
            return None
        meta = leftover(message, _MESSAGE_OWN | ({"thought"} if message.get("thought") == content else set()))
        model = self._model if role == "assistant" else None
        turn = SourceTurn(role, (Piece(f"history/{number}", as_content(content)),), model=model, meta=meta)
        turn = self._with_calls(number, turn, message.get("tool_calls"))
        turn = self._with_answers(number, turn, message.get("tool_call_ids"))
        return turn if self._reading.keeps(turn, self._line, f"history[{number}]", message) else None

    def _with_calls(self, number: int, turn: SourceTurn, calls: object) -> SourceTurn:
        kept = []
        for call in as_listed(calls) if calls else []:
            if isinstance(call, dict) and turn_fault(replace(turn, tool_calls=(call,))) is None:
                kept.append(call)
            else:
                self._refuse(number, "has a tool call that cannot be read", call)
        return replace(turn, tool_calls=tuple(kept))

    def _with_answers(self, number: int, turn: SourceTurn, answers: object) -> SourceTurn:
        if not answers:
            return turn
        names = [name for each in as_listed(answers) if (name := valid_name(each))]
        if not names:
            self._refuse(number, "answers calls that have no id", {"tool_call_ids": answers})
            return turn
        if len(names) > 1:
            what = f"answers {len(names)} calls; it is linked to the first, its metadata names all"
            self._reading.notes.append(f"history[{number}] {what}")
            turn = replace(turn, meta={**turn.meta, "tool_call_ids": names})
        return replace(turn, tool_call_id=names[0])

    def _with_steps(self, turns: list[SourceTurn], steps: Sequence[Any]) -> list[SourceTurn]:
        """Return the turns, the model's with each step's duration and state."""
        spoken = [index for index, turn in enumerate(turns) if turn.role == "assistant"]
        if len(spoken) != len(steps):
            if steps:
                what = f"{len(steps)} steps do not match {len(spoken)} messages of the model: not used"
                self._reading.notes.append(what)
            return turns
        for number, (index, step) in enumerate(zip(spoken, steps, strict=True)):
            beside = without_empty({key: as_object(step).get(key) for key in ("execution_time", "state")})
            turn = replace(turns[index], meta={**turns[index].meta, **({"step": beside} if beside else {})})
            if turn_fault(turn) is None:
                turns[index] = turn
            else:
                self._reading.refuse(self._line, f"trajectory[{number}] has what cannot be kept", beside)
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
            answer = next((each for each in (step.get("response"), step.get("thought")) if isinstance(each, str)), "")
            rest = {key: value for key, value in leftover(step, _STEP_OWN).items() if value != answer}
            place, observation = f"trajectory/{number}", step.get("observation")
            turns = [SourceTurn("assistant", (Piece(place, answer),), model=self._model, meta=rest)]
            if isinstance(observation, str):
                turns.append(SourceTurn("tool", (Piece(f"{place}/observation", observation),)))
            where = f"trajectory[{number}]"
            yield from takewhile(lambda turn: self._reading.keeps(turn, self._line, where, step), turns)  # noqa: B023


# --- mini-swe-agent


def _mini_run(name: str, line: int, data: Mapping[str, Any], reading: Reading) -> None:
    # `exit` is the role of the message that ends a run: what was submitted
    turns = message_lists.turns_of(as_list(data.get("messages")), line, reading, frozenset({"exit"}))
    if not turns:
        reading.refuse(line, "is no trajectory of mini-swe-agent: it has no message that can be read", data)
        return
    info, instance = as_object(data.get("info")), valid_name(data.get("instance_id"))
    model = valid_name(value_at(info, "config", "model", "model_name"))
    identity, path = named_by_opening(instance, instance, turns)
    meta = {"model": model, **leftover(data, ("messages", "info")), "info": data.get("info")}
    meta = {**meta, "info": None, **info} if info else meta
    title = instance or name or None
    reading.add_session(MINI, identity, ([_with_extra(turn, model) for turn in path],), meta, line, title=title)


def _with_extra(turn: SourceTurn, model: str | None) -> SourceTurn:
    """Return a turn with time, model, usage, cost and stop reason of `extra`."""
    meta = dict(turn.meta)
    extra = meta.pop("extra", None)
    held = as_object(extra)
    answer = as_object(held.get("response"))
    choice = as_object(next(iter(as_list(answer.get("choices"))), None))
    usage = dict(as_object(answer.get("usage")))
    if type(cost := held.get("cost")) in (int, float):
        usage["cost"] = cost
    raw = held.get("raw_output")
    is_repeated = isinstance(raw, str) and isinstance(turn.content, str) and raw in turn.content
    rest = without_keys(held, "timestamp", "cost", "response", *(["raw_output"] if is_repeated else []))
    rest["response"] = _response_beside(answer, turn) if answer else held.get("response")
    is_model = turn.role == "assistant"
    made = replace(
        turn,
        time=turn.time or epoch_time(held.get("timestamp", meta.get("timestamp"))),
        model=turn.model or source_values.first_name(answer.get("model"), model) if is_model else None,
        usage=with_source({**(turn.usage or {}), **usage}, "openai-chat") if is_model and usage else turn.usage,
        stop_reason=turn.stop_reason or (valid_name(choice.get("finish_reason")) if is_model else None),
        meta=without_empty({**meta, "extra": without_empty(rest) if isinstance(extra, dict) else extra}),
    )
    return made if turn_fault(made) is None else turn


def _response_beside(response: Mapping[str, Any], turn: SourceTurn) -> dict[str, Any]:
    """Return a response without its usage and what the turn has."""
    left = without_keys(response, "usage")
    if isinstance(choices := left.get("choices"), list):
        left["choices"] = [_choice_beside(choice, turn) for choice in choices]
    return left


def _choice_beside(choice: Any, turn: SourceTurn) -> Any:
    message = as_object(choice).get("message")
    if not isinstance(message, dict):
        return choice
    ours = {**turn.meta, "content": turn.content, "role": turn.role, "tool_calls": list(turn.tool_calls)}
    rest = {key: value for key, value in message.items() if value != ours.get(key) and value not in (None, "", [])}
    return without_keys(choice, "message") | ({"message": rest} if rest else {})
