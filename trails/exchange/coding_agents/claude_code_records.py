"""Read the lines of Claude Code files as records, and link them to branches.

An `attachment` record has an object with a type of its own. Newer versions write beside it what the model was shown
(`rendered`); for the others the texts of the object stand here as they are. Read off files of versions 2.1.77 to 2.1.293.

A prompt that waited while Claude Code worked becomes one turn, however often the file tells it. It is told when it enters the
queue and when it leaves it (`queue-operation`), and again where it is delivered: as a user's line, or as a `queued_command`
attachment. Some versions lose the delivery (claude-code#30623).

The rules of where a user went back and began again come from counting real sessions: of 15,437 records with several
successors, two were forks that a user made. The others are the way the program writes: progress beside the message it reports
on, results of parallel tools, the replay of a compaction. So everything is linked first, and forks are looked for in the
links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from trails.errors import InvalidInput
from trails.exchange import json_files
from trails.exchange.json_files import as_list, as_listed, as_object, as_text, objects_in, value_at, without_keys
from trails.exchange.record_checks import turn_fault
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.exchange.source_values import image_part, parse_time, valid_name
from trails.model import validation
from trails.usage import with_source

SYSTEM_PROMPT: Final = "prompt_snapshot"
_LOCAL_COMMAND: Final = "local_command"
_PICTURE_DATA: Final = "base64"
"""The field of a mentioned image or document that holds its bytes."""
_QUEUED: Final = "queued_command"
_TYPED: Final = (None, "prompt")  # no sets: what stands there may be anything
_HUMAN: Final = (None, "human")
_NOT_SHOWN: Final = (
    SYSTEM_PROMPT, "command_permissions", "hook_cancelled", "hook_error_during_execution", "hook_non_blocking_error",
    "hook_permission_decision", "hook_system_message",
)  # fmt: skip
"""Types that are for the user or the program: no model is shown them."""
_HOOKS_THAT_SHOW: Final = ("SessionStart", "SubagentStart", "UserPromptExpansion", "UserPromptSubmit")
"""The events whose hooks' output the model is shown."""
_NO_TEXTS: Final = frozenset({
    "type", "hookName", "hookEvent", "toolUseID", "command", "stdout", "stderr", "filename", "filePath", "path",
    "displayPath", "planFilePath", "id", "uuid", "source_uuid", "timestamp", "status", "commandMode", "media_type",
    "data",
})  # fmt: skip
"""Fields that say what an attachment is; the texts of all others are shown."""
_PATHS: Final = ("path", "filename", "filePath", "planFilePath")
NumberedLine = tuple[int, Mapping[str, Any]]
_Waiting = tuple[int, Mapping[str, Any]]
"""An operation that put a prompt into the queue, after its place among the lines."""
_NOT_TYPED: Final = ("/", "<", "!")
"""How commands and notices of the program begin: they come back as lines of another text."""
_ABSORBED: Final = "absorbed_mid_turn"
"""The reason of a removal whose prompt the running turn took in."""
SPOKEN: Final = frozenset({"user", "assistant"})
STATES: Final = frozenset({
    "last-prompt", "agent-name", "agent-color", "agent-setting", "tag", "mode", "permission-mode", "pr-link",
    "worktree-state", "bridge-session",
})  # fmt: skip
"""Records of what the program's window shows of a session: each is written anew whenever it changes."""
SILENT: Final = STATES | {"system", "progress", "file-history-snapshot", "queue-operation", "attachment"}
TITLES: Final = {"custom-title": "customTitle", "summary": "summary", "ai-title": "aiTitle"}
"""Records that name a session, by the key of the name; those that count more come first."""
COMMON: Final = ("cwd", "gitBranch", "version", "slug")
"""What every line repeats: kept once with the session, and with a turn where it differs."""
_STRUCTURE: Final = {
    "uuid", "type", "subtype", "message", "timestamp", "sessionId", "isSidechain", "agentId", "userType", *COMMON,
    "attachment", "rendered",
}  # fmt: skip
_COST: Final = "costUSD"
_TASK_NOTICE: Final = "<task-notification>"
"""How a notice of a task begins; older versions say of it nothing else."""
_MESSAGE_FIELDS: Final = frozenset({"id", "type", "role", "content", "model", "usage", "stop_reason"})
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def attachment_of(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the attachment of a record; None where it is no record of one.

    What a command of the program printed (`local_command`) is one too: of all system records the model is shown this one.

    >>> attachment_of({"type": "system", "subtype": "local_command", "content": "Set model to m-2"})
    {'type': 'local_command', 'content': 'Set model to m-2'}
    """
    if is_local_command(raw):
        return {"type": _LOCAL_COMMAND, "content": raw.get("content")}
    found = raw.get("attachment") if raw.get("type") == "attachment" else None
    return found if isinstance(found, dict) else None


def is_local_command(raw: Mapping[str, Any]) -> bool:
    """Tell whether a record is a command that the program ran itself, or what it printed."""
    return raw.get("type") == "system" and raw.get("subtype") == _LOCAL_COMMAND


def typed_prompt(attachment: Mapping[str, Any]) -> str | list[Any] | None:
    """Return the prompt that a user typed while the model worked, a text or parts; None for any other attachment.

    >>> typed_prompt({"type": "queued_command", "prompt": "and the tests", "commandMode": "prompt"})
    'and the tests'
    """
    is_typed = attachment.get("type") == _QUEUED and attachment.get("commandMode") in _TYPED
    origin, prompt = as_object(attachment.get("origin")), attachment.get("prompt")
    return prompt if is_typed and origin.get("kind") in _HUMAN and isinstance(prompt, str | list) and prompt else None


def shown_parts(raw: Mapping[str, Any], attachment: Mapping[str, Any]) -> list[Any]:
    """Return what the model was shown of an attachment, as parts that name its type and its path; empty for nothing.

    >>> shown_parts({}, {"type": "nested_memory", "path": "/p/CLAUDE.md", "content": {"content": "Be brief."}})
    [{'type': 'text', 'text': 'Be brief.', 'attachment': 'nested_memory', 'path': '/p/CLAUDE.md'}]
    """
    kind = attachment.get("type")
    if isinstance(raw.get("rendered"), list):
        texts = [text for each in raw["rendered"] for text in _nested_texts(each)]
    elif kind in _NOT_SHOWN or (kind == "hook_success" and attachment.get("hookEvent") not in _HOOKS_THAT_SHOW):
        return []
    else:
        texts = list(_nested_texts(attachment))
    path = next((attachment[name] for name in _PATHS if isinstance(attachment.get(name), str)), None)
    about = {"attachment": str(kind)[:100]} | ({"path": path} if path else {})
    return [*({"type": "text", "text": text} | about for text in texts if text.strip()), *_pictures(attachment, about)]


def attachment_rest(raw: Mapping[str, Any], attachment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record of an attachment says beyond what its turn says, for the turn's metadata."""
    said = typed_prompt(attachment)
    parts = shown_parts(raw, attachment) if said is None else []
    texts = [part["source"]["data"] if part["type"] == "image" else part["text"] for part in parts]
    left = _without_texts(attachment, "\0".join(texts)) if said is None else without_keys(attachment, "prompt")
    kept = {"attachment": left} if left else {}
    if said is not None and raw.get("rendered"):
        kept["rendered"] = raw["rendered"]
    return kept


def _pictures(attachment: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the image of a file that a user mentioned."""
    content = as_object(attachment.get("content"))
    file = as_object(content.get("file")) if content.get("type") == "image" else {}
    if isinstance(file.get(_PICTURE_DATA), str):
        yield image_part(str(file.get("type") or "image/png"), file[_PICTURE_DATA]) | dict(about)


def _nested_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    within = [each for key, each in as_object(value).items() if key not in _NO_TEXTS and key != _PICTURE_DATA]
    for each in (*as_list(value), *within):
        yield from _nested_texts(each)


def _without_texts(value: Any, texts: str) -> Any:
    """Return a value without the texts that stand in others: what is empty then is left out."""
    if isinstance(value, str):
        return "" if len(value) > 1 and value in texts else value
    if isinstance(value, list):
        return [kept for each in value if (kept := _without_texts(each, texts)) not in ("", [], {})]
    if isinstance(value, dict):
        pairs = ((key, each if key in _NO_TEXTS else _without_texts(each, texts)) for key, each in value.items())
        return {key: each for key, each in pairs if each not in ("", [], {}, None)}
    return value


def merge_queued_prompts(lines: Sequence[NumberedLine]) -> tuple[list[NumberedLine], int]:
    """Return a file's lines with each waiting prompt once, and how many prompts only the queue has.

    An attachment that repeats a user's line loses its content. A prompt that left the queue and was delivered nowhere becomes
    an attachment where it left, if the model answered afterwards. A removed prompt was delivered if the removal says that
    the running turn took it in, or if the file has no attachment of a queued prompt: versions that write those remove
    what their user deleted.
    """
    prompts = [typed_prompt(attachment_of(raw) or {}) for _, raw in lines]
    writes_attachments = any(prompt is not None for prompt in prompts)
    if not writes_attachments and not any(raw.get("type") == "queue-operation" for _, raw in lines):
        return list(lines), 0
    spoken = [raw for _, raw in lines if raw.get("type") == "user"]
    spoken_ids = {raw["uuid"] for raw in spoken if isinstance(raw.get("uuid"), str)}
    spoken_texts = {
        _queue_text(value_at(raw, "message", "content")) for raw in spoken if raw.get("promptSource") == "queued"
    } - {""}
    delivering = zip(lines, prompts, strict=True)
    texts = [
        _queue_text(value_at(raw, "message", "content") if raw.get("type") == "user" else prompt)
        for (_, raw), prompt in delivering
    ]
    last_answer = max((at for at, (_, raw) in enumerate(lines) if raw.get("type") == "assistant"), default=-1)
    waiting: list[_Waiting] = []
    made: list[NumberedLine] = []
    before: str | None = None
    lost = 0
    for at, (number, raw) in enumerate(lines):
        for since, entry in _leave_queue(at, raw, waiting):
            text = _queue_text(entry.get("content"))
            was_sent = raw.get("operation") == "dequeue" or raw.get("reason") == _ABSORBED or not writes_attachments
            was_typed = bool(text) and not text.startswith(_NOT_TYPED)
            comes_later = any(f"\n{text}\n" in f"\n{each}\n" for each in texts[since + 1 :])
            if was_sent and was_typed and at < last_answer and not comes_later:
                prompt = _delivered_prompt(entry, raw, before)
                made.append((number, prompt))
                before, lost = prompt["uuid"], lost + 1
        repeats = prompts[at] is not None and (
            as_text((attachment_of(raw) or {}).get("source_uuid")) in spoken_ids or texts[at] in spoken_texts
        )
        made.append((number, {**raw, "attachment": None} if repeats else raw))
        if isinstance(raw.get("uuid"), str) and raw.get("isSidechain") is not True:
            before = raw["uuid"]
    return made, lost


def _leave_queue(at: int, raw: Mapping[str, Any], waiting: list[_Waiting]) -> Iterator[_Waiting]:
    """Yield the entry that an operation delivers, and change `waiting`, the queue. `popAll` hands all back.

    A removal that names a text which nothing enqueued is its own entry: it may have been delivered anywhere in the file.
    """
    operation = raw.get("operation") if raw.get("type") == "queue-operation" else None
    if operation == "enqueue":
        waiting.append((at, raw))
    elif operation == "popAll":
        waiting.clear()
    elif operation in ("dequeue", "remove"):
        text = _queue_text(raw.get("content"))
        queued = [_queue_text(each.get("content")) for _, each in waiting]
        if waiting and (not text or text in queued):
            yield waiting.pop(queued.index(text) if text else 0)
        elif text:
            yield -1, raw


def _delivered_prompt(entry: Mapping[str, Any], left: Mapping[str, Any], before: str | None) -> dict[str, Any]:
    """Return the attachment that a delivery would have written; its id follows from what the queue tells."""
    session, stamp = entry.get("sessionId"), entry.get("timestamp")
    digest = sha256(repr((session, stamp, entry.get("content"))).encode("utf-8", "replace")).hexdigest()
    attachment = {"type": "queued_command", "prompt": entry["content"], "commandMode": "prompt", "timestamp": stamp}
    own = {"type": "attachment", "uuid": f"queue-{digest[:32]}", "parentUuid": before, "sessionId": session}
    return own | {"timestamp": left.get("timestamp", stamp), "attachment": attachment}


def _queue_text(content: object) -> str:
    texts = (part.get("text") if isinstance(part, dict) else part for part in as_listed(content))
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


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
        parent = self.raw.get("logicalParentUuid") if parent is None and self.kind == "compact_boundary" else parent
        return None if parent is None else str(parent)

    @property
    def message(self) -> Mapping[str, Any]:
        """The message; empty where the record has none."""
        return as_object(self.raw.get("message"))

    @property
    def content(self) -> str | tuple[Any, ...]:
        """The content as a piece of a turn."""
        attachment = attachment_of(self.raw)
        content = self.message["content"] if attachment is None else _attached(self.raw, attachment)
        return content if isinstance(content, str) else tuple(content)

    @property
    def parts(self) -> Sequence[Mapping[str, Any]]:
        """The structured parts of the content."""
        return objects_in(self.message.get("content"))

    @property
    def is_added(self) -> bool:
        """Whether it makes a turn of what the program added: it stands in the branch of the prompt that follows it."""
        return self.kind in ("attachment", "queued")

    @property
    def is_summary(self) -> bool:
        """Whether it is the text that a compaction put in place of what was before."""
        return self.kind == "user" and self.raw.get("isCompactSummary") is True

    @property
    def is_task_notice(self) -> bool:
        """Whether the program wrote it in the user's place, to tell the model how a task in the background came out."""
        from_task = value_at(self.raw, "origin", "kind") == "task-notification"
        return self.kind == "user" and (
            from_task or (as_text(value_at(self.raw, "message", "content")) or "").startswith(_TASK_NOTICE)
        )

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
        forked = as_object(self.raw.get("forkedFrom"))
        is_copy = forked.get("sessionId") != self.session
        return (as_text(forked.get("messageUuid")) if is_copy else None) or self.id

    def says_the_same(self, other: Record) -> bool:
        """Whether two records are the same thing, whatever was noted beside it."""
        mine, theirs = self.raw, other.raw
        return all(mine.get(key) == theirs.get(key) for key in ("type", "message", "attachment", "content"))

    def named(self, key: str) -> str | None:
        """Return a short name from the message (`model`, `stop_reason`), if what stands there can be one."""
        return valid_name(self.message.get(key))

    def usage(self) -> Mapping[str, Any] | None:
        """Return the token usage, as it stands, with the cost that versions up to 1.0 of Claude Code told beside it."""
        usage, cost = as_object(self.message.get("usage")), self.raw.get(_COST)
        if usage and isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0:
            usage = usage | {"cost": cost}
        return with_source(usage, "anthropic") if usage else None


def read_record(raw: Mapping[str, Any], file: str, line: int, *, is_tried: bool = True) -> Record | str | None:
    """Return a line as a record; None if it is none on purpose (a title, a snapshot), or why it cannot be used.

    With `is_tried`, a turn is made of it to see whether it can be kept.
    """
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
    agent, own_kind = raw.get("agentId"), _kind(raw)
    agent = (agent if isinstance(agent, str) else "") if raw.get("isSidechain") is True else None
    time = parse_time(raw.get("timestamp"))
    record = Record(file, line, raw, raw["uuid"], raw["sessionId"], agent, time, None, own_kind)
    defect = _defect(record, is_tried=is_tried) if own_kind != "link" else None
    return record if defect is None else replace(record, defect=defect, kind="link")


def _kind(raw: Mapping[str, Any]) -> str:
    if raw["type"] in SPOKEN:
        return str(raw["type"])
    if raw["type"] == "system" and raw.get("subtype") == "compact_boundary":
        return "compact_boundary"
    attachment = attachment_of(raw)
    if attachment is None or not _attached(raw, attachment):
        return "link"
    return "attachment" if typed_prompt(attachment) is None else "queued"


def _attached(raw: Mapping[str, Any], attachment: Mapping[str, Any]) -> str | list[Any]:
    prompt = typed_prompt(attachment)
    return shown_parts(raw, attachment) if prompt is None else prompt


def kind_name(raw: Mapping[str, Any]) -> str:
    """Return a line's type as it is counted: `type`, or `type/subtype`.

    >>> kind_name({"type": "system", "subtype": "turn_duration"}), kind_name({})
    ('system/turn_duration', 'None')
    """
    subtype = raw.get("subtype")
    return f"{raw.get('type')}/{subtype}"[:100] if isinstance(subtype, str) and subtype else str(raw.get("type"))[:100]


def leftovers(record: Record, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a record says beyond what a turn has a field for, and beyond what its session repeats."""
    kept = without_keys(record.raw, *_STRUCTURE)
    if (attachment := attachment_of(record.raw)) is not None:
        kept |= attachment_rest(record.raw, attachment)
        if is_local_command(record.raw):
            kept.pop("content", None)
    kept |= {key: record.raw[key] for key in COMMON if key in record.raw and record.raw[key] != common.get(key)}
    message = record.message
    if message.get("id") is not None:
        kept["messageId"] = message["id"]
    rest = json_files.without_null(without_keys(message, *_MESSAGE_FIELDS))
    rest |= {
        key: message[key]
        for key in ("model", "stop_reason")
        if message.get(key) is not None and record.named(key) is None
    }
    if message.get("usage") and record.usage() is None:
        rest["usage"] = message["usage"]
    return kept | ({"message": rest} if rest else {})


def _defect(record: Record, *, is_tried: bool) -> str | None:
    """Return why a record cannot be a turn."""
    message = record.raw.get("message")
    if record.raw["type"] in SPOKEN:
        if message is None:
            return "has no message"
        if not isinstance(message, dict):
            return f"has a message that is no object but a {type(message).__name__}"
        if message.get("content") is None:
            return "has no content"
    try:
        validation.check_parts(as_object(message).get("content", ""))
    except InvalidInput as error:
        return f"cannot be kept: {error}"
    if not is_tried:
        return None
    content = "" if record.kind == "compact_boundary" else record.content
    turn = SourceTurn("user", (Piece(record.id, content),), usage=record.usage(), meta=leftovers(record, {}))
    fault = turn_fault(turn)
    return None if fault is None else f"cannot be kept: {fault}"


# --- how records follow each other


@dataclass(slots=True, eq=False)
class Chain:
    """Records that follow each other without a fork, in order; the first branch of a session has no parent."""

    parent: Chain | None
    ids: list[str] = field(default_factory=list)
    latest: Chain | None = None
    """The branch that left this one and got a record last; None while nothing has left it."""

    def growing(self) -> Chain:
        """Return where a further record of this branch goes: a branch that others have left is closed."""
        branch = self
        while branch.latest is not None:
            branch = branch.latest
        return branch

    def add(self, entry_id: str) -> None:
        """Put a record at the end."""
        self.ids.append(entry_id)
        child = self
        while child.parent is not None:
            child.parent.latest = child
            child = child.parent

    def lineage(self) -> list[Chain]:
        """Return the branches from the first one to this one."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found[::-1]


def find_branches(
    entries: Sequence[Record], roots: Collection[str], note: Callable[[str, str], None]
) -> tuple[list[Chain], Chain | None]:
    """Return all branches of a session, earlier ones first, and the one that holds the session's last record.

    `roots` are ids of records elsewhere that these entries may follow. `note(kind, id)` is called for every entry
    whose link was not used as it stands: kind "no parent", "missing" or "circle".
    """
    if not entries:
        return [], None
    parents = _parents(entries, roots, note)
    ordered = _file_order(entries, parents)
    heard = _heard_parents(ordered, parents)
    begins = _fork_children(ordered, heard, parents)
    home: dict[str, Chain] = {}
    made = [Chain(None)]
    for entry in ordered:
        parent, before = parents[entry.id], heard[entry.id]
        twin = begins.get(entry.id)
        if twin == entry.id:
            branch = Chain(made[0] if before is None else home[before])
            made.append(branch)
        else:
            branch = (home[twin] if twin is not None else made[0] if parent is None else home[parent]).growing()
        home[entry.id] = branch
        branch.add(entry.id)
    return made, home[entries[-1].id]


def _parents(
    entries: Sequence[Record], roots: Collection[str], note: Callable[[str, str], None]
) -> dict[str, str | None]:
    """Return what each entry follows: what it names if that is here, else the entry before it in the file."""
    known = {entry.id for entry in entries}
    parents: dict[str, str | None] = {}
    previous: str | None = None
    for entry in entries:
        is_told = entry.parent in known or entry.parent in roots
        parents[entry.id] = previous if not is_told else entry.parent if entry.parent in known else None
        if not is_told and previous is not None:
            note("no parent" if entry.parent is None else "missing", entry.id)
        previous = entry.id
    _break_circles(parents, note)
    return parents


def _break_circles(parents: dict[str, str | None], note: Callable[[str, str], None]) -> None:
    """Let the earliest entry of a circle follow the one before it in the file, or nothing if that one hangs on it."""
    order = {entry_id: position for position, entry_id in enumerate(parents)}
    before = dict(zip([*order][1:], order, strict=False))
    safe: set[str] = set()
    for start in order:
        walk: list[str] = []
        on_walk: set[str] = set()
        current: str | None = start
        while current is not None and current not in safe and current not in on_walk:
            walk.append(current)
            on_walk.add(current)
            current = parents[current]
        if current is not None and current in on_walk:
            first = min(walk[walk.index(current) :], key=order.__getitem__)
            parents[first] = None
            if first in before and not _hangs_on(before[first], first, parents):
                parents[first] = before[first]
            note("circle", first)
        safe |= on_walk


def _hangs_on(entry_id: str, other: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    current: str | None = entry_id
    while current is not None and current not in seen and current != other:
        seen.add(current)
        current = parents[current]
    return current == other


def _file_order(entries: Sequence[Record], parents: Mapping[str, str | None]) -> list[Record]:
    """Return the entries in the order of the file, but none before the one that it follows."""
    position = {entry.id: place for place, entry in enumerate(entries)}
    key: dict[str, tuple[int, int]] = {}  # (place in the file, steps since the entry that stands there)
    for entry in entries:
        walk = [entry.id]
        while walk[-1] not in key and (parent := parents[walk[-1]]) is not None:
            walk.append(parent)
        for entry_id in reversed(walk):
            if entry_id not in key:
                parent = parents[entry_id]
                place, steps = (-1, 0) if parent is None else key[parent]
                key[entry_id] = (position[entry_id], 0) if position[entry_id] > place else (place, steps + 1)
    return sorted(entries, key=lambda entry: key[entry.id])


def _heard_parents(ordered: Sequence[Record], parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the nearest entry before each that makes a turn: silent ones are looked through."""
    silent = {entry.id for entry in ordered if entry.is_added or entry.kind == "link"}
    heard: dict[str, str | None] = {}
    for entry in ordered:
        parent = parents[entry.id]
        heard[entry.id] = heard[parent] if parent is not None and parent in silent else parent
    return heard


def _fork_children(
    ordered: Sequence[Record], heard: Mapping[str, str | None], parents: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the entries with which branches begin, and for replays of their prompts (of the same time) the one they repeat.

    A branch begins with its prompt, or with what the program added before it for this prompt alone.
    """
    prompts: dict[str | None, dict[datetime, list[str]]] = {}
    for entry in ordered:
        if entry.is_prompt and entry.time is not None:
            prompts.setdefault(heard[entry.id], {}).setdefault(entry.time, []).append(entry.id)
    forks = [same_time for by_time in prompts.values() if len(by_time) > 1 for same_time in by_time.values()]
    if not forks:
        return {}
    children = Counter(parents.values())
    alone = {entry.id for entry in ordered if entry.is_added and children[entry.id] == 1}
    begins: dict[str, str] = {}
    for first, *replays in forks:
        start = first
        while (before := parents[start]) is not None and before in alone:
            start = before
        begins[start] = start
        begins |= dict.fromkeys(replays, first)
    return begins
