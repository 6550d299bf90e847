"""Read Cline's sessions: files of its SDK and CLI, and task folders.

    ~/.cline/data/sessions/<session>/<session>.messages.json    version 1 of its contract; sub-agents beside, in their own files
    .../tasks/<task>/api_conversation_history.json              the messages of a task, as Anthropic's API takes them
    .../tasks/<task>/ui_messages.json                           what a person was shown of it, with times and usage
    .../tasks/<task>/task_metadata.json                         the models and files that it used

A user's message that answers calls is a turn `tool`, and one of the user's where it says more. What `ui_messages.json` says
beyond the messages stands in the metadata `cline` of the turn that was next. A task's messages have no ids: they are named by
their place.

The contract is cline/cline's `messages-contract-v1.md`; the task folders are as its extension wrote them from 3.0 to 3.67. The
count of input tokens includes what was cached in the first, and leaves it out in the second.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from trails.exchange.format_detection import outline_of_first
from trails.exchange.json_files import Json, as_list, as_object, as_text, read_list, read_object, without_keys
from trails.exchange.record_checks import Reading, combine_files, unrepeated_records
from trails.exchange.source_transcript import Piece, Problem, SourceTurn, Transcript
from trails.exchange.source_values import as_content, epoch_time, leftover, valid_name, without_empty
from trails.model.values import Call
from trails.usage import with_source

SOURCE: Final = "cline"
META: Final = "cline"
"""The key of a turn's metadata for what its own fields do not hold."""
_TASK: Final = re.compile(rb'"text"\s*:\s*"\s*<(?:task|feedback|user_message)>')
_HISTORY, _UI, _METADATA = "api_conversation_history.json", "ui_messages.json", "task_metadata.json"
_BESIDE: Final = (_HISTORY, _UI, _METADATA)
_ENDING: Final = ".messages.json"
_OWN: Final = frozenset({"messages", "sessionId", "system_prompt", "version", "updated_at"})
_MESSAGE_OWN: Final = frozenset({"role", "content", "metrics", "ts"})
_COUNTS: Final = {
    "tokensIn": "input_tokens", "tokensOut": "output_tokens", "cacheReads": "cache_read_input_tokens",
    "cacheWrites": "cache_creation_input_tokens", "cost": "cost",
}  # fmt: skip
"""What a request's entry calls its counts, and Anthropic's API, which counts in the same way."""


def sniff(head: bytes) -> bool:
    """Tell whether a file is one of Cline's.

    >>> sniff(b'{"version": 1, "updated_at": "t", "agent": "lead", "sessionId": "s", "messages": ['), sniff(b'{"messages": [')
    (True, False)
    >>> sniff(b'[{"role": "user", "content": [{"type": "text", "text": "<task>\\\\nGo</task>"}]}]')
    True
    """
    first, begin = outline_of_first(head), head.lstrip()[:1]
    if begin == b"[" and first.get("role") == "user":
        return bool(_TASK.search(head[:8192]))
    if begin == b"[":
        return first.get("type") in ("say", "ask") and "ts" in first and str(first.get("type")) in first
    is_session = first.keys() >= {"version", "sessionId"} and bool(first.keys() & {"agent", "messages"})
    return (is_session and b'"updated_at"' in head) or first.keys() >= {"files_in_context", "model_usage"}


def companions(path: Path) -> list[Path]:
    """Return a file with those that belong to it."""
    if path.name in _BESIDE:
        return [path.parent / name for name in _BESIDE if (path.parent / name).is_file()]
    return sorted(path.parent.glob(f"*{_ENDING}")) if path.name.endswith(_ENDING) else [path]


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files (name and bytes of each) say, those of a task folder together; nothing that they hold raises."""
    made: list[tuple[str, Reading]] = []
    tasks: dict[str, _Task] = {}
    for name, data in files:
        if data.lstrip().removeprefix(b"\xef\xbb\xbf")[:1] == b"[" or outline_of_first(data).keys() >= {"model_usage"}:
            tasks.setdefault(re.sub(r"[^/\\]*$", "", name), _Task()).add(name, data)
        else:
            made.append((name, _session(name, data)))
    made += [(task.name, task.read()) for task in tasks.values()]
    return combine_files(made)


# --- the files of the SDK


def _session(name: str, data: bytes) -> Reading:
    reading = Reading()
    if (held := reading.one_object(data)) is None:
        return reading
    own, messages = as_text(held.get("sessionId")), held.get("messages")
    if own is None or not isinstance(messages, list):
        reading.refuse(0, "is no session of Cline: it has no sessionId, or no list of messages", held)
        return reading
    if (version := held.get("version")) != 1:
        reading.notes.append(f"has version {str(version)[:20]} of Cline's contract; it was read as version 1")
    *_, folder, file = ["", "", *re.split(r"[/\\]", name)]
    stem = file.removesuffix(_ENDING)
    spawned_by = None
    if held.get("agent") in ("subagent", "teammate") and file.endswith(_ENDING):
        spawned_by = own if stem != own else folder or None
        own = f"{own}/{stem}" if stem != own else own
    path = _path(reading, own, messages, [_Beside()] * len(messages))
    prompt = as_text(held.get("system_prompt"))
    meta = leftover(held, _OWN if prompt else _OWN - {"system_prompt"})
    spawned_by = spawned_by if spawned_by != own else None
    reading.add_session(SOURCE, own, (path,), meta, system=prompt, spawned_by=spawned_by, open_in=name)
    return reading


# --- task folders


@dataclass(slots=True)
class _Task:
    """The files of one task folder."""

    name: str = ""
    reading: Reading = field(default_factory=Reading)
    history: list[Any] | None = None
    shown: list[Any] = field(default_factory=list)
    """What a person was shown."""
    metadata: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, data: bytes) -> None:
        """Add a file, recognised by its content."""
        first = outline_of_first(data)
        if "model_usage" in first:
            self.metadata = self.reading.one_object(data) or self.metadata
            return
        listed = read_list(data, notes=self.reading.notes)
        if isinstance(listed, Problem):
            self.reading.refuse(0, f"{Path(name).name}: {listed.reason}", listed.text)
        elif "ts" in first and first.get("type") in ("say", "ask"):
            self.shown = listed
            self.name = self.name or name
        else:
            self.history, self.name = listed, name

    def read(self) -> Reading:
        """Return what the files say."""
        if self.history is None:
            told = self.shown[:3] or self.metadata
            self.reading.refuse(0, f"the messages of the task ({_HISTORY}) are not there", told)
            return self.reading
        *_, task, file = ["", "", *(part for part in re.split(r"[/\\]", self.name) if part)]
        if not task or file != _HISTORY:
            first = json.dumps(self.history[:1], sort_keys=True)
            task = f"task-{hashlib.sha256(first.encode()).hexdigest()[:16]}"
        beside = self._beside(self.history)
        turns = _path(self.reading, task, self.history, beside)
        created = _moment(int(task)) if task.isdecimal() and len(task) == 13 else None
        meta = {**self.metadata, "shown": [] if turns else beside[-1].shown}
        self.reading.add_session(SOURCE, task, (turns,), meta, created=created, open_in=self.name)
        return self.reading

    def _beside(self, history: Sequence[Any]) -> list[_Beside]:
        """Return each message's time, usage, and what a person was shown before it."""
        beside = [_Beside() for _ in range(len(history) + 1)]
        more = {id(each) for each in unrepeated_records(self.shown, history)}
        requests = [id(each) for each in self.shown if as_object(each).get("say") == "api_req_started"]
        answers = [n for n, each in enumerate(history) if as_object(each).get("role") == "assistant"]
        in_order = dict(zip(requests, answers, strict=False)) if len(requests) == len(answers) else {}
        last = len(history) - 1
        for shown in self.shown:
            entry = as_object(shown)
            self.reading.count(f"shown {entry.get('say') or entry.get('ask')}" if isinstance(shown, dict) else "shown")
            index = entry.get("conversationHistoryIndex")
            place = min(max(index + 1, 0), last) if type(index) is int else last
            request = _request(entry)
            answer = index + 2 if type(index) is int else in_order.get(id(shown), -1)
            if request and answer in answers:
                of = beside[answer]
                of.usage, of.time = request, _moment(entry.get("ts"))
                of.model = of.model or _model_of(entry.get("modelInfo"))
            if id(shown) in more or "conversationHistoryDeletedRange" in entry:
                beside[place].shown.append(shown)
        return beside


@dataclass(slots=True)
class _Beside:
    """What a task's other files have about one message."""

    usage: dict[str, Any] | None = None
    model: str | None = None
    time: datetime | None = None
    shown: list[Any] = field(default_factory=list)


def _request(entry: Json) -> dict[str, Any]:
    """Return the usage in a request's entry; empty for other entries."""
    if entry.get("say") != "api_req_started" or not isinstance(entry.get("text"), str):
        return {}
    held = as_object(read_object(entry["text"].encode("utf-8", errors="replace")))
    return {new: held[old] for old, new in _COUNTS.items() if type(held.get(old)) in (int, float)}


# --- messages


def _path(reading: Reading, own: str, messages: Sequence[Any], beside: Sequence[_Beside]) -> list[SourceTurn]:
    """Return the turns of messages that can be kept; report the others."""
    path: list[SourceTurn] = []
    for n, message in enumerate(messages):
        reading.count("message")
        place = f"{own}/{n}"
        where = f"the message {place[-60:]!r}"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            reading.refuse(0, f"{where} has no role", message)
            continue
        made = list(_turns(as_text(message.get("id")) or place, message, beside[n]))
        path += made if all(reading.keeps(turn, 0, where, message) for turn in made) else []
    return path


def _turns(own: str, message: Json, beside: _Beside) -> Iterator[SourceTurn]:
    role, content = message["role"], message.get("content")
    left = without_keys(message, *_MESSAGE_OWN)
    metrics, usage, is_model = message.get("metrics"), beside.usage, role == "assistant"
    if isinstance(metrics, dict) and "inputTokens" in metrics and is_model:
        usage = with_source(metrics, "copilot")  # which counts in the same way
    elif metrics is not None:
        left["metrics"] = metrics
    parts = as_list(content)
    if not isinstance(content, str | list) or not all(isinstance(each, dict) for each in parts):
        left["content"], parts, content = content, [], ""
    answers = [each for each in parts if each.get("type") == "tool_result"]
    others = [each for each in parts if each.get("type") != "tool_result"]
    time = _moment(message.get("ts")) or beside.time
    held = without_empty({"message": left, "shown": beside.shown})
    if answers and role == "user":
        meta = {} if others else {META: held}
        yield SourceTurn("tool", (Piece(f"{own}/results", tuple(answers)),), time=time, meta=meta)
        if not others:
            return
        content = others
    info = as_object(message.get("modelInfo"))
    provider = valid_name(info.get("provider") or info.get("providerId"))
    model: dict[str, Any] = {
        "model": _model_of(info) or beside.model,
        "usage": usage,
        "call": Call(provider=provider) if provider else None,
    }
    pieces = (Piece(own, as_content(content)),)
    yield SourceTurn(role, pieces, time=time, meta={META: held} if held else {}, **(model if is_model else {}))


def _model_of(info: object) -> str | None:
    return valid_name(as_object(info).get("id") or as_object(info).get("modelId"))


def _moment(milliseconds: object) -> datetime | None:
    is_time = type(milliseconds) in (int, float) and 0 < milliseconds < 1e14  # type: ignore[operator] # a number
    return epoch_time(milliseconds, 1000) if is_time else None
