"""Tool calls and their answers, put in the order that model APIs accept. Only what a model is shown changes.

`repair` follows the rules of OpenClaw (clawdbot, src/agents/session-transcript-repair.ts, MIT), in own words: after each
assistant's message with calls stands one answer for each call, in the order of the calls. An answer is looked for up to
the next assistant's message; where there is none, one that says so is made up. A second answer to a call is dropped,
and so is an answer to no call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trails.context.messages import Message, Piece

MISSING: Final = "[no result was recorded for this call]"
"""What a made-up answer says."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What `repair` did."""

    messages: tuple[Message, ...]
    """The messages: as they were given, where nothing was changed."""
    paired: tuple[Message, ...]
    """The messages with each call's answers right after it, in the order of the calls, nothing doubled."""
    added: tuple[str, ...] = ()
    """The ids of the calls whose answers were made up."""
    dropped_duplicate: int = 0
    dropped_orphan: int = 0
    changed: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the counts as plain values, ready for JSON."""
        return {
            "added": list(self.added),
            "dropped_duplicate": self.dropped_duplicate,
            "dropped_orphan": self.dropped_orphan,
            "changed": self.changed,
        }


def missing_answer(call_id: str) -> Message:
    """Return the answer that stands in for one that was never recorded."""
    return Message("tool", (MISSING,), call_id=call_id, is_error=True, synthetic=True)


def repair(messages: Sequence[Message]) -> Repair:
    """Return messages whose calls are all answered, right after them and once; and what had to be done for it.

    >>> from trails.model import ToolCall
    >>> asked = Message("assistant", calls=(ToolCall(id="c1", name="ls", arguments="{}"),))
    >>> done = repair([asked, Message("user", ("later",))])
    >>> [message.role for message in done.messages], done.added, done.changed
    (['assistant', 'tool', 'user'], ('c1',), True)
    """
    state = _State()
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.role == "tool":
            state.drop_orphan()
        elif message.role != "assistant" or not message.calls:
            state.out.append(message)
        else:
            end = at
            while end < len(messages) and messages[end].role != "assistant":
                end += 1
            state.pair(message, messages[at:end])
            at = end
    paired = tuple(state.out)
    return Repair(
        messages=paired if state.changed else tuple(messages),
        paired=paired,
        added=tuple(state.added),
        dropped_duplicate=state.duplicates,
        dropped_orphan=state.orphans,
        changed=state.changed,
    )


class _State:
    def __init__(self) -> None:
        self.out: list[Message] = []
        self.added: list[str] = []
        self.seen: set[str] = set()
        self.duplicates = 0
        self.orphans = 0
        self.changed = False

    def drop_orphan(self) -> None:
        self.orphans += 1
        self.changed = True

    def _push(self, answer: Message, call_id: str) -> None:
        if call_id in self.seen:
            self.duplicates += 1
            self.changed = True
            return
        self.seen.add(call_id)
        self.out.append(answer)

    def pair(self, asked: Message, span: Sequence[Message]) -> None:
        """Take an assistant's message with calls, and everything up to the next assistant's message."""
        wanted = {call.id for call in asked.calls}
        found: dict[str, Message] = {}
        rest: list[Message] = []
        for message in span:
            if message.role != "tool":
                rest.append(message)
            elif message.call_id is None or message.call_id not in wanted:
                self.drop_orphan()
            elif message.call_id in self.seen:
                self.duplicates += 1
                self.changed = True
            else:
                found.setdefault(message.call_id, message)
        self.out.append(asked)
        if found and rest:
            self.changed = True
        for call in asked.calls:
            if call.id in found:
                self._push(found[call.id], call.id)
            else:
                self.added.append(call.id)
                self.changed = True
                self._push(missing_answer(call.id), call.id)
        self.out += rest


# --- before the repair: what would make it lose more than it must


def told_alone(messages: Iterable[Message]) -> list[Message]:
    """Return messages in which each answer to a call that none before it makes is told by the user, and says so.

    Only for messages from the beginning on: where some were left out, the call may stand among those.

    >>> told_alone([Message("tool", ("Snow",), call_id="c9")])[0].text
    '[answer to the call c9, which is not on record]\\nSnow'
    """
    asked: set[str] = set()
    out: list[Message] = []
    for message in messages:
        asked |= {call.id for call in message.calls}
        if message.role == "tool" and message.call_id not in asked:
            named = f"the call {message.call_id}" if message.call_id else "a call"
            heading = f"[answer to {named}, which is not on record]"
            out.append(Message("user", (heading, *message.pieces), turn_index=message.turn_index))
        else:
            out.append(message)
    return out


def prepared(messages: Iterable[Message]) -> list[Message]:
    """Return messages with parallel calls in one message, and with every call's id used once.

    Some sources write each of several parallel calls as a message of its own, before all the answers; others give the
    ids of earlier calls to later ones. Neither is a fault of the transcript, and `repair` alone would drop the answers.
    """
    return _with_own_ids(_joined(list(messages)))


def _joined(messages: list[Message]) -> list[Message]:
    """Join adjacent assistant's messages where the answers to the first one's calls come after the last."""
    out: list[Message] = []
    at = 0
    while at < len(messages):
        end = at
        while end < len(messages) and messages[end].role == "assistant":
            end += 1
        if end - at < 2:
            out.append(messages[at])
            at += 1
            continue
        answered = _answered_after(messages, end)
        run = messages[at:end]
        first = next((n for n, m in enumerate(run[:-1]) if any(call.id in answered for call in m.calls)), None)
        out += run if first is None else [*run[:first], _one(run[first:])]
        at = end
    return out


def _answered_after(messages: Sequence[Message], start: int) -> set[str]:
    found: set[str] = set()
    for message in messages[start:]:
        if message.role == "assistant":
            break
        if message.call_id is not None:
            found.add(message.call_id)
    return found


def _one(run: Sequence[Message]) -> Message:
    pieces: list[Piece] = []
    placed: list[int] = []
    raw: dict[str, Mapping[str, Any]] = {}
    for message in run:
        at = message.placed or [len(message.pieces)] * len(message.calls)
        placed += [len(pieces) + place for place in at]
        pieces += message.pieces
        raw |= message.raw
    calls = tuple(call for message in run for call in message.calls)
    return run[-1]._replace(pieces=tuple(pieces), calls=calls, placed=tuple(placed), raw=raw, is_text=False)


def _with_own_ids(messages: Iterable[Message]) -> list[Message]:
    taken: set[str] = set()
    given: dict[str, list[str]] = {}
    """The new ids of the calls asked for last, by their own ids, in order; those answered already are gone."""
    out: list[Message] = []
    for message in messages:
        made = message
        if message.role == "assistant":
            given = {}
            calls = []
            for call in message.calls:
                new, number = call.id, 2
                while new in taken:
                    new, number = f"{call.id}-{number}", number + 1
                taken.add(new)
                given.setdefault(call.id, []).append(new)
                calls.append(call if new == call.id else call.model_copy(update={"id": new}))
            made = message._replace(calls=tuple(calls))
        elif message.call_id is not None and message.call_id in given:
            waiting = given[message.call_id]
            new = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            made = message._replace(call_id=new)
        out.append(made)
    return out
