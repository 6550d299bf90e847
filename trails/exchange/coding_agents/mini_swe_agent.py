"""mini-swe-agent's trajectories: a `.traj.json` file is one run, as a JSON object with `info` and `messages`.

The messages are those of a chat (see `messages`). What stands in a message's `extra` makes time, model, usage and cost of its
turn; all else of it is metadata of the turn, but what the message says itself. `info` (exit status, submission, configuration,
statistics) is metadata of the session. Bare arrays, as the first versions wrote, are read by `messages`.

A run is named after its instance and a hash of its opening (all up to the model's first message), which a file that grows, or
that is moved or renamed, keeps. A message's id is its place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trails.exchange import format_detection, json_files, record_checks
from trails.exchange.chats import message_lists
from trails.exchange.record_checks import Reading
from trails.exchange.source_transcript import Piece, SourceSession, SourceTurn, Transcript, files_at
from trails.usage import with_source

SOURCE: Final = "mini-swe-agent"

_INFO: Final = re.compile(rb'"info"\s*:\s*\{')
_SIGNS: Final = re.compile(rb'"(?:mini_version|model_stats|exit_status)"\s*:')
_ENDING: Final = re.compile(r"\.(?:traj\.)?json$")
_ROLES: Final = frozenset({"exit"})
"""The role of the message that ends a run: what was submitted."""
_USED: Final = ("timestamp", "cost")
"""What of a message's `extra` stands in its turn otherwise."""

_Json = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is a trajectory of mini-swe-agent.

    >>> sniff(b'{"info": {"exit_status": "Submitted"}, "messages": [{"role"'), sniff(b'{"info": {"id": "ses_1"}, "messages": [{')
    (True, False)
    """
    first = format_detection.outline_of_first(head)
    if (first.get("trajectory_format") or "").startswith(SOURCE) and "messages" in first:
        return True
    return first.get("info", "") is None and bool(_INFO.search(head) and _SIGNS.search(head))


def find_files(path: Path) -> list[Path]:
    """Return the file itself, or all `.json` files in a folder and below; raise `InvalidInput` where there is neither."""
    return files_at(path, "*.json")


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what trajectories (name and bytes of each) say; nothing that they hold raises."""
    return record_checks.combine_files([(name, _read_file(name, data)) for name, data in files])


def _read_file(name: str, data: bytes) -> Reading:
    reading = Reading()
    values, problems = json_files.read_values(data)
    reading.problems += problems
    for line, value in values[:1]:
        _run(_ENDING.sub("", re.split(r"[/\\]", name)[-1]), line, value, reading)
    for line, value in values[1:]:
        reading.refuse(line, "stands after the trajectory, which is one object", value)
    if not values and not problems:
        reading.refuse(0, "is no trajectory of mini-swe-agent: it holds no JSON object", name)
    return reading


def _run(name: str, line: int, data: _Json, reading: Reading) -> None:
    given = data.get("messages")
    turns = message_lists.turns_of(given, line, reading, _ROLES) if isinstance(given, list) else []
    if not turns:
        reading.refuse(line, "is no trajectory of mini-swe-agent: it has no message that can be read", data)
        return
    held = data.get("info")
    info = held if isinstance(held, dict) else {}
    instance = record_checks.valid_name(data.get("instance_id"))
    identity = _identity(instance, turns)
    model = _model_of(info)
    made = [_with_extra(turn, model) for turn in turns]
    path = tuple(
        replace(turn, pieces=(Piece(f"{identity}/{turn.pieces[0].source_id}", turn.pieces[0].content),))
        for turn in made
    )
    beside = {key[:100]: value for key, value in data.items() if key not in ("info", "messages")}
    left = {} if isinstance(held, dict) else {"info": held}
    reading.sessions.append(
        SourceSession(
            source=SOURCE,
            id=identity,
            paths=(path,),
            title=instance or name or None,
            agent=SOURCE,
            meta=reading.meta(line, record_checks.without_empty({"model": model, **beside, **left, **info})),
        )
    )


def _identity(instance: str | None, turns: Sequence[SourceTurn]) -> str:
    first = next((index for index, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
    opening = [[turn.role, turn.content, list(turn.tool_calls)] for turn in turns[: first + 1]]
    hashed = hashlib.sha256(json.dumps([instance, opening]).encode()).hexdigest()[:16]
    return f"{instance}-{hashed}" if instance else hashed


def _model_of(info: _Json) -> str | None:
    config = info.get("config")
    model = config.get("model") if isinstance(config, dict) else None
    return record_checks.valid_name(model.get("model_name")) if isinstance(model, dict) else None


def _with_extra(turn: SourceTurn, model: str | None) -> SourceTurn:
    """Return a turn with what its message's `extra` says of time, model, usage, cost and stop reason."""
    extra = turn.meta.get("extra")
    meta = {key: value for key, value in turn.meta.items() if key != "extra"}
    told = extra if isinstance(extra, dict) else {}
    response = told.get("response")
    answer = response if isinstance(response, dict) else {}
    usage = answer.get("usage")
    usage = dict(usage) if isinstance(usage, dict) else {}
    cost = told.get("cost")
    if type(cost) in (int, float):
        usage["cost"] = cost
    said = turn.content if isinstance(turn.content, str) else ""
    left = {key: value for key, value in told.items() if key not in (*_USED, "response")}
    left = {
        key: value
        for key, value in left.items()
        if not (key == "raw_output" and isinstance(value, str) and value in said)
    }
    left["response"] = _unsaid(answer, turn) if isinstance(response, dict) else response
    kept = record_checks.without_empty(left) if isinstance(extra, dict) else extra
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    is_model = turn.role == "assistant"
    made = replace(
        turn,
        time=turn.time or record_checks.epoch_time(told.get("timestamp", meta.get("timestamp"))),
        model=(turn.model or record_checks.valid_name(answer.get("model")) or model) if is_model else None,
        usage=with_source({**(turn.usage or {}), **usage}, "openai-chat") if is_model and usage else turn.usage,
        stop_reason=turn.stop_reason or (record_checks.valid_name(choice.get("finish_reason")) if is_model else None),
        meta=record_checks.without_empty({**meta, "extra": kept}),
    )
    return made if record_checks.turn_fault(made) is None else turn


def _unsaid(response: _Json, turn: SourceTurn) -> dict[str, Any]:
    """Return what a model's response holds beside its usage, and beside what the turn says itself."""
    left = {key: value for key, value in response.items() if key != "usage"}
    if isinstance(choices := left.get("choices"), list):
        left["choices"] = [_without_message(choice, turn) for choice in choices]
    return left


def _without_message(choice: Any, turn: SourceTurn) -> Any:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return choice
    ours = {**turn.meta, "content": turn.content, "role": turn.role, "tool_calls": list(turn.tool_calls)}
    rest = {key: value for key, value in message.items() if value != ours.get(key) and value not in (None, "", [])}
    return {key: value for key, value in choice.items() if key != "message"} | ({"message": rest} if rest else {})
