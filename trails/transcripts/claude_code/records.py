"""The lines of Claude Code's JSONL files as records: what a line is, whose it is, and whether it can be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trails import validate
from trails.errors import InvalidInput
from trails.transcripts.claude_code import attachments
from trails.usage import with_source

SPOKEN: Final = frozenset({"user", "assistant"})
STATES: Final = frozenset(
    {"last-prompt", "agent-name", "agent-color", "agent-setting", "tag", "mode", "permission-mode", "pr-link"}
    | {"worktree-state", "bridge-session"}
)
"""Records of what the program's window shows of a session: each is written anew whenever it changes."""
SILENT: Final = STATES | {"system", "progress", "file-history-snapshot", "queue-operation", "attachment"}
TITLES: Final = {"custom-title": "customTitle", "summary": "summary", "ai-title": "aiTitle"}
"""Records that name a session, by the key of the name; those that count more come first."""
COMMON: Final = ("cwd", "gitBranch", "version", "slug")
"""What every line repeats: kept once with the session, and with a turn where it differs."""

_STRUCTURE: Final = frozenset(
    {"uuid", "type", "subtype", "message", "timestamp", "sessionId", "isSidechain", "agentId", "userType", *COMMON}
    | {"attachment", "rendered"}
)
_COST: Final = "costUSD"
_TASK_NOTICE: Final = "<task-notification>"
"""How a notice of a task begins; older versions say of it nothing else."""
_MESSAGE_FIELDS: Final = frozenset({"id", "type", "role", "content", "model", "usage", "stop_reason"})


_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A line that has an id and belongs to a session."""

    file: str
    line: int
    raw: Mapping[str, Any]
    id: str
    session: str
    agent: str | None
    """The id of the sub-agent whose record it is; None for the session's own."""
    time: datetime | None
    defect: str | None
    """Why the record, which should be a message, cannot be a turn."""
    kind: str
    """`user`, `assistant`, `compact_boundary`, `queued` (a prompt typed meanwhile) and `attachment` make turns; `link` only
    connects others."""

    @property
    def parent(self) -> str | None:
        """The id of the record before: the logical one where a compaction cut the chain."""
        parent = self.raw.get("parentUuid")
        if parent is None and self.kind == "compact_boundary":
            parent = self.raw.get("logicalParentUuid")
        return None if parent is None else str(parent)

    @property
    def message(self) -> Mapping[str, Any]:
        """The message; empty where the record has none."""
        message = self.raw.get("message")
        return message if isinstance(message, dict) else {}

    @property
    def content(self) -> str | tuple[Any, ...]:
        """The content as a piece of a turn."""
        if (attachment := attachments.of(self.raw)) is not None:
            content = _attached(self.raw, attachment)
        else:
            content = self.message["content"]
        return content if isinstance(content, str) else tuple(content)

    @property
    def parts(self) -> list[Mapping[str, Any]]:
        """The structured parts of the content."""
        content = self.message.get("content")
        return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []

    @property
    def is_summary(self) -> bool:
        """Whether it is the text that a compaction put in place of what was before."""
        return self.kind == "user" and self.raw.get("isCompactSummary") is True

    @property
    def is_task_notice(self) -> bool:
        """Whether the program wrote it in the user's place, to tell the model how a task in the background came out."""
        origin, content = self.raw.get("origin"), self.message.get("content")
        from_task = isinstance(origin, dict) and origin.get("kind") == "task-notification"
        return self.kind == "user" and (from_task or (isinstance(content, str) and content.startswith(_TASK_NOTICE)))

    @property
    def is_error_notice(self) -> bool:
        """Whether the program wrote it in the model's place, to tell its user that a call failed: no model is shown it."""
        return self.raw.get("isApiErrorMessage") is True and self.message.get("model") in (None, "<synthetic>")

    @property
    def is_thought(self) -> bool:
        """Whether it is the model's thinking and nothing else: a message goes on from there."""
        content = self.message.get("content")
        kinds = [part.get("type") for part in self.parts]
        thinks = all(isinstance(kind, str) and kind in _THINKING for kind in kinds)
        return isinstance(content, list) and len(kinds) == len(content) > 0 and thinks

    @property
    def answers_tools(self) -> bool:
        """Whether it carries results of tools."""
        return any(part.get("type") == "tool_result" for part in self.parts)

    @property
    def is_prompt(self) -> bool:
        """Whether a user may have typed it: text, a command, what a command printed."""
        return self.kind == "user" and not self.answers_tools and not self.is_summary

    @property
    def original(self) -> str:
        """The id of the record that this one copies into another session (`/branch` names it), else its own."""
        forked = self.raw.get("forkedFrom")
        if isinstance(forked, dict) and forked.get("sessionId") != self.session:
            original = forked.get("messageUuid")
            return original if isinstance(original, str) and original else self.id
        return self.id

    def says_the_same(self, other: Record) -> bool:
        """Whether two records are the same thing, whatever was noted beside it."""
        mine, theirs = self.raw, other.raw
        return all(mine.get(key) == theirs.get(key) for key in ("type", "message", "attachment", "content"))

    def named(self, key: str) -> str | None:
        """Return a short name from the message (`model`, `stop_reason`), if what stands there can be one."""
        value = self.message.get(key)
        try:
            return None if value is None else validate.name(value, key)
        except InvalidInput:
            return None

    def usage(self) -> Mapping[str, Any] | None:
        """Return the token usage, as it stands, with the cost that versions up to 1.0 of Claude Code told beside it."""
        usage = self.message.get("usage")
        cost = self.raw.get(_COST)
        is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0
        if isinstance(usage, dict) and usage and is_cost:
            usage = usage | {"cost": cost}
        return with_source(usage, "anthropic") if isinstance(usage, dict) and usage else None


def read(raw: Mapping[str, Any], file: str, line: int) -> Record | str | None:
    """Return a line as a record; None if it is none on purpose (a title, a snapshot), or why it cannot be used."""
    kind = raw.get("type")
    if not isinstance(kind, str):
        return "has no type" if kind is None else "has a type that is no text"
    for key, name in (("uuid", "id (uuid)"), ("sessionId", "session (sessionId)")):
        value = raw.get(key)
        if isinstance(value, str) and value:
            continue
        if kind in SPOKEN:
            return f"has no {name}"
        return None if value is None else f"has an {name} that is no text"
    agent = raw.get("agentId")
    own_kind = _kind(raw)
    is_turn = own_kind != "link"
    defect = _defect(raw) if is_turn else None
    return Record(
        file=file,
        line=line,
        raw=raw,
        id=raw["uuid"],
        session=raw["sessionId"],
        agent=(agent if isinstance(agent, str) else "") if raw.get("isSidechain") is True else None,
        time=time_of(raw),
        defect=defect,
        kind="link" if defect is not None else own_kind,
    )


def _kind(raw: Mapping[str, Any]) -> str:
    if raw["type"] in SPOKEN:
        return str(raw["type"])
    if raw["type"] == "system" and raw.get("subtype") == "compact_boundary":
        return "compact_boundary"
    attachment = attachments.of(raw)
    if attachment is None:
        return "link"
    if attachments.typed(attachment) is not None:
        return "queued"
    return "attachment" if attachments.shown(raw, attachment) else "link"


def _attached(raw: Mapping[str, Any], attachment: Mapping[str, Any]) -> str | list[Any]:
    prompt = attachments.typed(attachment)
    return attachments.shown(raw, attachment) if prompt is None else prompt


def time_of(raw: Mapping[str, Any]) -> datetime | None:
    """Return a line's time in UTC; None where it has none, or one that does not say its time zone."""
    stamp = raw.get("timestamp")
    if not isinstance(stamp, str):
        return None
    try:
        return validate.time(datetime.fromisoformat(stamp))
    except ValueError:  # InvalidInput is one too
        return None


def kind_name(raw: Mapping[str, Any]) -> str:
    """Return a line's type as it is counted: `type`, or `type/subtype`.

    >>> kind_name({"type": "system", "subtype": "turn_duration"}), kind_name({})
    ('system/turn_duration', 'None')
    """
    subtype = raw.get("subtype")
    return f"{raw.get('type')}/{subtype}"[:100] if isinstance(subtype, str) and subtype else str(raw.get("type"))[:100]


def leftovers(record: Record, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a record says beyond what a turn has a field for, and beyond what its session repeats."""
    kept = {key: value for key, value in record.raw.items() if key not in _STRUCTURE}
    if (attachment := attachments.of(record.raw)) is not None:
        kept |= attachments.rest(record.raw, attachment)
        if attachments.is_local_command(record.raw):
            kept.pop("content", None)
    kept |= {key: record.raw[key] for key in COMMON if key in record.raw and record.raw[key] != common.get(key)}
    message = record.message
    if message.get("id") is not None:
        kept["messageId"] = message["id"]
    rest = {key: value for key, value in message.items() if key not in _MESSAGE_FIELDS and value is not None}
    for key in ("model", "stop_reason"):
        if message.get(key) is not None and record.named(key) is None:
            rest[key] = message[key]
    if message.get("usage") and record.usage() is None:
        rest["usage"] = message["usage"]
    return kept | ({"message": rest} if rest else {})


def _defect(raw: Mapping[str, Any]) -> str | None:
    """Return why a record cannot be a turn: everything that a store would refuse is found here."""
    try:
        message = raw.get("message")
        if raw["type"] in SPOKEN:
            if message is None:
                return "has no message"
            if not isinstance(message, dict):
                return f"has a message that is no object but a {type(message).__name__}"
            if message.get("content") is None:
                return "has no content"
            validate.check_parts(message["content"])
        attachment = attachments.of(raw)
        if attachment is not None:
            validate.content(_attached(raw, attachment))
            validate.meta(attachments.rest(raw, attachment) or None)
        # Text that was read from UTF-8 can be kept anywhere; keys, and how deep values go, are what to look at.
        if validate.is_surely_kept(raw):
            validate.check_meta_keys(k for k, v in raw.items() if k not in _STRUCTURE)
            return None
        if raw["type"] in SPOKEN:
            validate.content(_dict(message)["content"])
            usage = _dict(message).get("usage")
            validate.usage(usage if isinstance(usage, dict) else None)
        validate.meta({k: v for k, v in raw.items() if k not in _STRUCTURE or (k in COMMON and not isinstance(v, str))})
        nested = {k: v for k, v in _dict(raw.get("message")).items() if k != "content" and isinstance(v, dict | list)}
        validate.meta({"message": nested} if nested else None)
    except InvalidInput as error:
        return f"cannot be kept: {error}"
    return None


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
