"""Make turns and scores from the messages of an Inspect AI sample.

A model call is given a whole history. What of it a line does not have yet goes on that line; a call that leaves all lines
makes one of its own from where it leaves the nearest.

Scores are by scorer, by criterion where a scorer judges several, each with its edits.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from trails.exchange import source_values
from trails.exchange.json_files import Json, as_list, as_object, as_text, objects_in, without_keys
from trails.exchange.source_transcript import Piece, SourceScore, SourceTurn
from trails.exchange.source_values import as_content, named_calls, parse_time, score_id, valid_name, without_empty
from trails.model.values import Call
from trails.usage import with_source

_REFERENCE: Final = re.compile(r"attachment://([0-9a-f]{32}|[0-9]{1,9})(?![0-9a-zA-Z])")
_MOST_RESOLVED: Final = 256 << 20
"""Characters that the texts of one sample may get longer by: a short one may be named a million times."""
_MOST_GIVEN: Final = 1_000_000
"""Messages that one model call may name."""
_UNCHANGED: Final = "UNCHANGED"
"""What an edit says of a field that it leaves as it was."""
_SCORER: Final = "score"
"""What the one score of old logs is called, which names no scorer."""
_MESSAGE_OWN: Final = frozenset({"id", "role", "content", "tool_calls", "tool_call_id", "model"})
_CALL_NAMES: Final = {"id": "id", "name": "function", "arguments": "arguments"}
_OUTCOMES: Final = {"timeout": "timed-out", "approval": "refused"}
"""Of a tool's error, by its type; any other one is a failure."""


@dataclass(frozen=True, slots=True, eq=False)
class InspectMessage:
    """A message in a line, its references resolved, with the event that made it where one is known."""

    key: str
    """The same for messages that say the same."""
    message: Json
    event: Json | None = None


MessageLine = list[InspectMessage]


def message_key(message: Json) -> str:
    """Return what two messages have in common that say the same: ids are drawn anew when a branch replays its past.

    >>> message_key({"role": "user", "content": "a"}) == message_key({"role": "user", "content": "a", "id": "m1"})
    True
    """
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    calls = message.get("tool_calls")
    names = ("id", "function", "arguments")
    asked = [[call.get(name) for name in names] if isinstance(call, dict) else call for call in as_list(calls)]
    said = [message.get("role"), content or [], asked, message.get("tool_call_id")]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def common_length(one: MessageLine, other: MessageLine) -> int:
    """Return how many messages two lines begin with that say the same."""
    return source_values.common_length([said.key for said in one], [said.key for said in other])


@dataclass(slots=True)
class MessageLines:
    """Lines that model calls make, in the order in which they come; the first one is the main one."""

    base: MessageLine = field(default_factory=list)
    """What the calls may begin with: the line that they leave."""
    lines: list[MessageLine] = field(default_factory=list)

    def add(self, given: MessageLine, answers: Sequence[InspectMessage]) -> None:
        """Add what a call was given, and each of its answers: another one than the first is a line of its own."""
        line = self._line_for(given)
        length = len(line)
        line += answers[:1]
        self.lines += [[*line[:length], answer] for answer in answers[1:]]

    def _line_for(self, given: MessageLine) -> MessageLine:
        """Return the line that ends with what a call was given."""
        if not self.lines:
            at = common_length(self.base, given)
            self.lines.append([*self.base[:at], *map(replace, given[at:])])
            return self.lines[0]
        shared = [common_length(line, given) for line in self.lines]
        best = max(range(len(shared)), key=lambda n: (shared[n], shared[n] == len(self.lines[n]), n))
        line, at = self.lines[best], shared[best]
        if at < len(line):
            line = line[:at]
            self.lines.append(line)
        line += map(replace, given[at:])  # the same message of a pool is another one in each line
        return line


def given_scores(sample: Json) -> tuple[dict[str, Json], int]:
    """Return a sample's scores by the scorer's name, and how many of them are no objects, so that nobody can read them."""
    found, old = sample.get("scores"), sample.get("score")
    given: dict[str, Any] = found if isinstance(found, dict) else {_SCORER: old} if old or isinstance(old, dict) else {}
    read: dict[str, Json] = {name: score for name, score in given.items() if isinstance(score, dict)}
    return read, len(given) - len(read) + (bool(found) and not isinstance(found, dict))


def score_details(scores: Mapping[str, Json]) -> dict[str, Any]:
    """Return what scores say beside their value and their reason."""
    kept = {name: {key: score.get(key) for key in ("answer", "metadata")} for name, score in scores.items()}
    return without_empty({name: without_empty(each) for name, each in kept.items()})


def sample_scores(
    session: str, scores: Mapping[str, Json], times: Mapping[str, datetime | None]
) -> Iterator[SourceScore]:
    """Yield the scores of a sample; `times` says when a scorer scored, the name "" when any other did.

    An edited score comes once for each state of it, the newest last; an edit is by its author, for the author's reason.
    """
    for name, score in scores.items():
        when = times.get(name) or times.get("")
        states = objects_in(score.get("history"))
        value: Any = None
        for state in states or [dict(score)]:
            value = value if state.get("value", _UNCHANGED) == _UNCHANGED else state["value"]
            yield from _state_scores(session, name, value, state, when)
        if states and value != score.get("value"):
            yield from _state_scores(session, name, score.get("value"), score, when)


def _state_scores(session: str, name: str, value: Any, state: Json, when: datetime | None) -> Iterator[SourceScore]:
    provenance = as_object(state.get("provenance"))
    author, edited = valid_name(provenance.get("author")), parse_time(provenance.get("timestamp"))
    reason = as_text(provenance.get("reason") or state.get("explanation"))
    for criterion, each in _score_parts(name, value):
        yield SourceScore(
            id=score_id("inspect", session, criterion, each, author, edited.isoformat() if edited else None),
            name=criterion,
            value=each,
            by=author or f"agent:{name}",
            reason=None if reason == _UNCHANGED else reason,
            time=edited or when,
        )


def _score_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict | list):
        yield name, value
    for key, each in value.items() if isinstance(value, dict) else enumerate(as_list(value)):
        yield f"{name}.{key}", each


def inspect_turn(said: InspectMessage, source_id: str, model: str | None) -> SourceTurn:
    """Return the turn that a message makes; `model` is who spoke where neither the message nor its event says so."""
    message, event = said.message, said.event or {}
    role, content = message.get("role"), message.get("content")
    calls, extras = named_calls(message.get("tool_calls"), _CALL_NAMES, {"type": "function"})
    meta = without_keys(message, *_MESSAGE_OWN) | {"tool_calls": extras}
    answers = valid_name(message.get("tool_call_id")) if role == "tool" else None
    if role == "tool" and answers is None:
        meta["tool_call_id"] = message.get("tool_call_id")
    start, end = parse_time(event.get("timestamp")), parse_time(event.get("completed"))
    end = None if start and end and end < start else end
    ran = {"started": start, "ended": end} if start and end else {}
    spoke, error = role == "assistant", message.get("error")
    output = as_object(event.get("output")) if spoke else {}
    usage = as_object(output.get("usage"))
    return SourceTurn(
        role=role if isinstance(role, str) else "",
        pieces=(Piece(source_id, as_content(content)),),  # checking the turn tells what is neither a text nor a list
        time=end or start,
        model=(valid_name(message.get("model") or event.get("model")) or model) if spoke else None,
        usage=with_source(usage, "inspect") if usage else None,
        stop_reason=_stop_reason(output, message.get("id")),
        tool_call_id=answers,
        is_error=role == "tool" and error is not None,
        tool_calls=calls,
        tool_results=({"call_id": answers, **_outcome(error), **ran},) if answers else (),
        call=Call(started=start, ended=end) if spoke and ran else None,
        meta=without_empty(meta),
    )


def _outcome(error: object) -> dict[str, Any]:
    kind = as_text(as_object(error).get("type")) or ""
    return {} if error is None else {"is_error": True, "outcome": _OUTCOMES.get(kind, "failed")}


def _stop_reason(output: Json, message_id: object) -> str | None:
    choices = objects_in(output.get("choices"))
    fitting = (each for each in choices if len(choices) == 1 or as_object(each.get("message")).get("id") == message_id)
    return valid_name(next(fitting, {}).get("stop_reason"))


class Attachments:
    """The texts that a sample refers to."""

    def __init__(self, texts: object) -> None:
        self._texts: Json = as_object(texts)
        self._left = _MOST_RESOLVED
        self.missing: dict[str, None] = {}
        """References to what is not there."""
        self.is_full = False
        """Whether some were left as they are, since the texts would grow without bound."""

    def put_in(self, value: Any) -> Any:
        """Return a value with each reference in its texts replaced by what it refers to; one to nothing stays."""
        if isinstance(value, str):
            return _REFERENCE.sub(self._text, value) if "attachment://" in value else value
        if isinstance(value, dict):
            return {key: self.put_in(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.put_in(each) for each in value]
        return value

    def _text(self, found: re.Match[str]) -> str:
        text = self._texts.get(found[1])
        if not isinstance(text, str):
            self.missing.setdefault(found[0])
            return found[0]
        self._left -= len(text)
        if self._left < 0:
            self.is_full = True
            return found[0]
        return text


class Pool:
    """Messages by their index; of a chunked sample some may be missing."""

    def __init__(self, messages: object) -> None:
        held: dict[Any, Any] = dict(enumerate(messages)) if isinstance(messages, list) else as_object(messages)
        self._messages: Mapping[int, Any] = held if all(type(index) is int for index in held) else {}
        self._indices = sorted(self._messages)

    def __getitem__(self, index: int) -> Any:
        return self._messages[index]

    def indices(self, ranges: object) -> list[int] | None:
        """Return the indices that half-open ranges name, in their order; None for what are no ranges, or name too much."""
        if not isinstance(ranges, list):
            return None
        found: list[int] = []
        for each in ranges:
            if not (isinstance(each, list) and len(each) == 2 and all(type(end) is int for end in each)):
                return None
            first, last = (bisect_left(self._indices, end) for end in each)
            if each[0] < 0 or last - first != each[1] - each[0] or len(found) + last - first > _MOST_GIVEN:
                return None
            found += self._indices[first:last]
        return found


def join_pools(chunks: Sequence[tuple[int, object]]) -> dict[int, Any]:
    """Return the items of chunks, each a list that begins at an index, by index."""
    return {start + place: item for start, chunk in chunks for place, item in enumerate(as_list(chunk))}


def answers_of(event: Json) -> list[Json]:
    """Return the messages with which a model call was answered."""
    choices = objects_in(as_object(event.get("output")).get("choices"))
    return [message for each in choices if isinstance(message := each.get("message"), dict)]


def text_of(message: Json) -> str:
    """Return a message's texts, one after the other."""
    content = message.get("content")
    texts = (str(part.get("text")) for part in objects_in(content) if part.get("type") == "text")
    return "".join(texts) if isinstance(content, list) else str(content)
