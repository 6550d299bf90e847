"""Prompts that waited while Claude Code worked: each becomes one turn, however often the file tells it.

A waiting prompt is told when it enters the queue and when it leaves it (`queue-operation`), and again where it is delivered: as
a user's line, or as a `queued_command` attachment. Some versions lose the delivery (claude-code#30623).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from trails.transcripts.claude_code import attachments

Line = tuple[int, Mapping[str, Any]]
_Waiting = tuple[int, Mapping[str, Any]]
"""An operation that put a prompt into the queue, after its place among the lines."""

_NOT_TYPED: Final = ("/", "<", "!")
"""How commands and notices of the program begin: they come back as lines of another text."""
_ABSORBED: Final = "absorbed_mid_turn"
"""The reason of a removal whose prompt the running turn took in."""


def told_once(lines: Sequence[Line]) -> tuple[list[Line], int]:
    """Return a file's lines with each waiting prompt once, and how many prompts only the queue tells.

    An attachment that repeats a user's line loses its content. A prompt that left the queue and was delivered nowhere becomes
    an attachment where it left, if the model answered afterwards. A removed prompt was delivered where the removal says that
    the running turn took it in, and where the file has no attachment of a queued prompt: versions that write those remove
    what their user deleted.
    """
    if not any(raw.get("type") == "queue-operation" or _queued(raw) is not None for _, raw in lines):
        return list(lines), 0
    spoken = [raw for _, raw in lines if raw.get("type") == "user"]
    again = _Repeats(spoken)
    told = [(at, _told(raw)) for at, (_, raw) in enumerate(lines)]
    writes_attachments = any(_queued(raw) is not None for _, raw in lines)
    last_answer = max((at for at, (_, raw) in enumerate(lines) if raw.get("type") == "assistant"), default=-1)
    waiting: list[_Waiting] = []
    made: list[Line] = []
    before: str | None = None
    lost = 0
    for at, (number, raw) in enumerate(lines):
        for since, entry in _leaving(at, raw, waiting):
            text = _text(entry.get("content"))
            sent = raw.get("operation") == "dequeue" or raw.get("reason") == _ABSORBED or not writes_attachments
            typed = bool(text) and not text.startswith(_NOT_TYPED)
            again_later = any(since < place and f"\n{text}\n" in f"\n{each}\n" for place, each in told)
            if sent and typed and at < last_answer and not again_later:
                prompt = _delivered(entry, raw, before)
                made.append((number, prompt))
                before, lost = prompt["uuid"], lost + 1
        made.append((number, {**raw, "attachment": None} if again.has(raw) else raw))
        if isinstance(raw.get("uuid"), str) and raw.get("isSidechain") is not True:
            before = raw["uuid"]
    return made, lost


class _Repeats:
    """The user's lines that deliver a prompt from the queue."""

    def __init__(self, spoken: Sequence[Mapping[str, Any]]) -> None:
        self._ids = {raw["uuid"] for raw in spoken if isinstance(raw.get("uuid"), str)}
        self._texts = {_text(_content(raw)) for raw in spoken if raw.get("promptSource") == "queued"} - {""}

    def has(self, raw: Mapping[str, Any]) -> bool:
        """Tell whether a record is an attachment whose prompt is one of these lines."""
        prompt, attachment = _queued(raw), attachments.of(raw)
        if prompt is None or attachment is None:
            return False
        source = attachment.get("source_uuid")
        return (isinstance(source, str) and source in self._ids) or _text(prompt) in self._texts


def _leaving(at: int, raw: Mapping[str, Any], waiting: list[_Waiting]) -> Iterator[_Waiting]:
    """Yield the entry that an operation delivers; `waiting` is the queue, which it changes. `popAll` hands all back.

    A removal that names a text which nothing enqueued is its own entry: it may have been delivered anywhere in the file.
    """
    operation = raw.get("operation") if raw.get("type") == "queue-operation" else None
    if operation == "enqueue":
        waiting.append((at, raw))
    elif operation == "popAll":
        waiting.clear()
    elif operation in ("dequeue", "remove"):
        text = _text(raw.get("content"))
        same = next((n for n, (_, each) in enumerate(waiting) if text and _text(each.get("content")) == text), None)
        if same is not None or (waiting and not text):
            yield waiting.pop(same or 0)
        elif text:
            yield -1, raw


def _told(raw: Mapping[str, Any]) -> str:
    """Return the text that a record delivers: a user's line, or an attachment of a queued prompt."""
    return _text(_content(raw) if raw.get("type") == "user" else _queued(raw))


def _delivered(entry: Mapping[str, Any], left: Mapping[str, Any], before: str | None) -> dict[str, Any]:
    """Return the attachment that a delivery would have written; its id follows from what the queue tells."""
    session, stamp = entry.get("sessionId"), entry.get("timestamp")
    digest = sha256(repr((session, stamp, entry.get("content"))).encode("utf-8", "replace")).hexdigest()
    attachment = {"type": "queued_command", "prompt": entry["content"], "commandMode": "prompt", "timestamp": stamp}
    return {
        "type": "attachment",
        "uuid": f"queue-{digest[:32]}",
        "parentUuid": before,
        "sessionId": session,
        "timestamp": left.get("timestamp", stamp),
        "attachment": attachment,
    }


def _queued(raw: Mapping[str, Any]) -> str | list[Any] | None:
    attachment = attachments.of(raw)
    return None if attachment is None else attachments.typed(attachment)


def _content(raw: Mapping[str, Any]) -> object:
    message = raw.get("message")
    return message.get("content") if isinstance(message, dict) else None


def _text(content: object) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str)).strip()
