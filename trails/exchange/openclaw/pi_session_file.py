"""Import session files of the pi coding agent and of OpenClaw: JSON lines, versions 1 to 3.

A file is never changed. It is a header and a tree of entries. Some entries make a turn as the table says, all others hang between
turns. A field `trails` in an entry or a header is `pi_export`'s: what pi's own fields cannot say.

Rules of the format that are followed, and noted where they matter: the last line is the leaf that a session goes on
from; an entry whose parent is not in the file, or is the entry itself, starts a path of its own; version 1 is a chain in file
order.

==========================================  ====================  =====================================================
entry (and the role of its message)         role of the turn      what becomes of it
==========================================  ====================  =====================================================
message, user                               user                  content
message, assistant                          assistant             content; model, usage, stopReason
message, assistant, a delivery mirror       delivery              content; all else stays in the metadata: no model said it
message, toolResult                         tool                  content; toolCallId, isError
message, bashExecution                      bash                  output
message, custom; custom_message             custom                content
message, branchSummary; branch_summary      branch_summary        summary
message, compactionSummary                  compaction_summary    summary (no compaction of the chain: it drops nothing)
message, any other role                     that role             content
compaction                                  summary               summary; `Compaction` with indices of its own path
model_change, thinking_level_change, custom no turn               kept in the metadata of the next turn (`piBefore`), or
                                                                  of the session (`piAfter`) where no turn follows
label; session_info                         no turn               the session's metadata `labels`; its title; `piAside`
==========================================  ====================  =====================================================

What of an entry does not fit a turn's own fields stands in the turn's metadata `pi`: the entry, without what became the
turn's own. So `pi_export` can write the entry again. A field `trails` in an entry or a header is `pi_export`'s: what a
turn from elsewhere says that pi's own fields cannot.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import Field, ValidationError

from trails.context.messages import DELIVERY
from trails.errors import InvalidInput
from trails.exchange import json_files
from trails.exchange.json_files import as_object, as_text, objects_in, without_keys
from trails.exchange.record_checks import Reading, combine_files, make_draft
from trails.exchange.source_transcript import Piece, Problem, SourceSession, SourceTurn, Transcript, distinct_paths
from trails.exchange.source_values import base_name, parse_time
from trails.model import content_parts, validation
from trails.model.values import Call, Compaction, Payload, SessionRecord, ToolResult, Value
from trails.usage import with_source

_Json = dict[str, Any]

ROLES: Final = {
    "user": "user", "assistant": "assistant", "toolResult": "tool", "bashExecution": "bash", "custom": "custom",
    "branchSummary": "branch_summary", "compactionSummary": "compaction_summary",
}  # fmt: skip
"""The roles of messages and the turns' roles that they become."""
ENTRY_ROLES: Final = {"compaction": "summary", "branch_summary": "branch_summary", "custom_message": "custom"}
"""The types of entries that make a turn without being a message, and the turns' roles."""
CONTENT_KEYS: Final = {
    "bashExecution": "output", "branchSummary": "summary", "compactionSummary": "summary", "compaction": "summary",
    "branch_summary": "summary",
}  # fmt: skip
"""Where the text stands that becomes a turn's content, by message role or entry type; elsewhere it is `content`."""

BETWEEN: Final = frozenset({"model_change", "thinking_level_change", "custom"})
OF_SESSION: Final = frozenset({"label", "session_info"})
_MAX_NUMBER: Final = 2**53
_MIRROR: Final = "delivery-mirror"
SOURCE: Final = "pi"
VERSION: Final = 3
"""The newest version of the format that is read, and the one that is written."""
HEADER_META: Final = ("cwd", "version", "provider", "modelId", "thinkingLevel", "parentSession", "branchedFrom")
AFTER: Final = "piAfter"
"""The key of a session's metadata for entries that no turn follows: by the id of the turn before them."""
ASIDE: Final = "piAside"
"""The key of a session's metadata for labels and names, which no turn keeps: by their ids, the entry that each follows."""
LEAF: Final = "piLeaf"
"""The key of a session's metadata where the last line goes on no further than into the middle of a branch: the last
line's id, and how many turns the file has (once there are more, the line is the last one no longer)."""
_HEADER_OWN: Final = frozenset({"type", "id", "timestamp", "trails", *HEADER_META})
_STAMPED_NAME: Final = re.compile(r"\d{4}-\d\d-\d\dT[^_]*_(.+)", re.DOTALL)


class NotedPayload(Value):
    """A payload of a turn, its bytes in base64."""

    data: str
    media_type: str
    name: str | None = None

    def payload(self) -> Payload:
        """Return the payload; raise `InvalidInput` for what is no base64."""
        try:
            data = base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise InvalidInput(f"has a field `trails` with a payload that is no base64: {error}") from error
        return Payload(data=data, media_type=self.media_type, name=self.name)


class Noted(Value):
    """What `pi_export` notes in an entry, in the field `trails`: values that pi's own fields cannot give."""

    part_of: str | None = None
    """The id of the entry that the whole turn is read from; this one repeats a part of it where pi needs it."""
    plain: bool = False
    """The content is the text of the only part, or an empty one where there is none beside the calls."""
    beside: int = Field(default=0, ge=0)
    """How many parts, the last ones, are calls that were given beside the content and are no part of it."""
    tool_calls: tuple[dict[str, Any], ...] = ()
    content: str | tuple[dict[str, Any] | str, ...] = ""
    role: str = ""
    author: str | None = None
    time: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None
    tool_call_id: str | None = None
    is_error: bool = False
    tool_results: tuple[ToolResult, ...] = ()
    call: Call | None = None
    compaction: Compaction | None = None
    meta: dict[str, Any] = Field(default_factory=dict)
    payloads: tuple[NotedPayload, ...] = ()


class NotedHeader(Value):
    """What `pi_export` notes in a header, in the field `trails`."""

    principal: str | None = None
    agent: str | None = None
    system: str | None = None


CHANGING: Final = (b'"compaction"',)
"""Words of entries that name earlier ones: the end of a file that has one does not tell enough."""
_LONGEST_HEADER: Final = 1 << 20


def begins_part(entry: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Tell whether the end of a file can be read from an entry on: a message that follows the entry before it."""
    is_linked = before is not None and isinstance(entry.get("parentId"), str) and before.get("id") == entry["parentId"]
    return is_linked and entry.get("type") == "message" and isinstance(entry.get("id"), str)


def session_of(_: Mapping[str, Any], path: Path) -> str | None:
    """Return the session of a file by its header; None for a version whose entries would need to be migrated."""
    with path.open("rb") as file:
        header = json_files.read_object(file.readline(_LONGEST_HEADER))
    is_whole = isinstance(header, dict) and _is_header(header) and header.get("version") == VERSION
    return str(header["id"]) if isinstance(header, dict) and is_whole else None


def before_part(entry: Mapping[str, Any], session: str, _: Mapping[str, Any]) -> _Json:
    """Return a header to read in the place of all before an entry."""
    return {"type": "session", "version": VERSION, "id": session, "timestamp": entry.get("timestamp")}


def read_entry(
    data: Mapping[str, Any], before: Sequence[_Json], places: Mapping[str, int], turns: Sequence[SourceTurn]
) -> SourceTurn | _Json | None:
    """Return the turn that an entry makes, the entry if it is kept with the next turn, or None for neither.

    `before` are the entries kept since the turn before, `turns` the path's turns so far, and `places` says which index
    the first turn at or after an entry of the path has. Raises `InvalidInput` for an entry that cannot be used.
    """
    kind, noted = data["type"], Noted()
    if "trails" in data:
        noted = read_noted(Noted, data["trails"])
    if kind in OF_SESSION or noted.part_of is not None:
        return None
    if kind in BETWEEN:
        kept = without_keys(data, "parentId")
        validation.meta({"piBefore": [kept]})
        return kept
    if kind != "message" and kind not in ENTRY_ROLES:
        raise InvalidInput(f"has a type that is not known: {kind[:80]!r}")
    turn = _apply(noted, _read_turn(data, before, places, turns))
    make_draft(turn)  # raises for what no store would keep
    return turn


_NotedKind = TypeVar("_NotedKind", Noted, NotedHeader)


def read_noted(kind: type[_NotedKind], value: object) -> _NotedKind:
    """Return what `pi_export` noted, or raise `InvalidInput`."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(f"has a field `trails` that cannot be read: {error.errors()[0]['msg']}") from error


def _apply(noted: Noted, turn: SourceTurn) -> SourceTurn:
    """Return a turn with what was noted in its entry in the place of what pi's own fields gave."""
    given = noted.model_fields_set
    fields: _Json = {name: getattr(noted, name) for name in given - {"part_of", "plain", "beside", "content", "time"}}
    if "time" in given:
        fields["time"] = parse_time(noted.time)
    if "payloads" in given:
        fields["payloads"] = tuple(each.payload() for each in noted.payloads)
    content: str | list[Any] = turn.content
    if noted.beside:
        calls = content[-noted.beside :] if isinstance(content, list) else []
        if len(content_parts.calls_in(calls)) != noted.beside:
            raise InvalidInput("has a field `trails` that counts calls beside its content, and they are not there")
        content = content[: -noted.beside]
        fields.setdefault("tool_calls", tuple(calls))
    if "content" in given:
        fields["pieces"] = (Piece(turn.pieces[0].source_id, noted.content),)
    elif noted.plain or noted.beside:
        plain = only_text(content) if noted.plain else content
        if plain is None:
            raise InvalidInput("has a field `trails` that calls its content plain, and it is not a single text")
        fields["pieces"] = (Piece(turn.pieces[0].source_id, plain if isinstance(plain, str) else tuple(plain)),)
    return replace(turn, **fields) if fields else turn


def only_text(content: str | list[Any]) -> str | None:
    """Return the text of content's only part, an empty one of no parts, None for any other content."""
    match content:
        case []:
            return ""
        case [{"type": "text", "text": str(text), **more}] if not more:
            return text
    return None


def _read_turn(
    data: Mapping[str, Any], before: Sequence[_Json], places: Mapping[str, int], turns: Sequence[SourceTurn]
) -> SourceTurn:
    left = without_keys(data, "id", "parentId", "trails")
    is_message = left["type"] == "message"
    if is_message:
        if not isinstance(left.get("message"), dict):
            raise InvalidInput("has no message")
        left["message"] = holder = dict(left["message"])
        kind = validation.role(holder.get("role"))
        role = DELIVERY if _is_mirror(holder) else ROLES.get(kind, kind)
    else:
        holder, kind = left, left["type"]
        role = ENTRY_ROLES[kind]
    content = _take_content(holder, CONTENT_KEYS.get(kind, "content"))
    fields: _Json = {"time": _take_time(left)}
    if is_message and role == "assistant":
        fields |= {"model": _take_name(holder, "model"), "stop_reason": _take_name(holder, "stopReason")}
        if isinstance(usage := holder.get("usage"), dict) and usage:
            fields["usage"] = with_source(holder.pop("usage"), "pi")
    elif is_message and kind == "toolResult":
        fields["tool_call_id"] = _take_name(holder, "toolCallId")
        if fields["tool_call_id"] is not None and isinstance(holder.get("isError"), bool):
            fields["is_error"] = holder.pop("isError")
    elif kind == "compaction" and not is_message:
        fields["compaction"] = _take_compaction(left, places, turns)
    meta: _Json = {"pi": left} | ({"piBefore": list(before)} if before else {})
    if levels := [level for e in before if isinstance(level := e.get("thinkingLevel"), str)]:
        meta["thinkingLevel"] = levels[-1]
    return SourceTurn(role=role, pieces=(Piece(data["id"], content),), meta=meta, **fields)


def _is_mirror(message: Mapping[str, Any]) -> bool:
    """Tell whether a message is OpenClaw's record of what it sent out over a channel."""
    kind = message.get("role"), message.get("model")
    return kind == ("assistant", _MIRROR) and message.get("provider") in ("clawdbot", "openclaw")


def _take_content(holder: _Json, key: str) -> str | tuple[Any, ...]:
    """Return a message's text or parts, taken out of it; what is neither stays in place, beside an empty text."""
    value = holder.get(key)
    if isinstance(value, str):
        return str(holder.pop(key))
    if isinstance(value, list) and all(isinstance(part, dict | str) for part in value):
        return tuple(holder.pop(key))
    return ""


def _take_name(holder: _Json, key: str) -> str | None:
    try:
        name = validation.name(holder.get(key), key)
    except InvalidInput:
        return None  # it stays where it is, in the turn's metadata
    del holder[key]
    return name


def _take_time(holder: _Json) -> datetime | None:
    """Return an entry's time; its text stays where writing the time again would give another text, or none."""
    time = parse_time(holder.get("timestamp"))
    if time is not None and write_time(time) == holder["timestamp"]:
        del holder["timestamp"]
    return time


def write_time(time: datetime) -> str:
    """Return a time as pi writes it: UTC, milliseconds (microseconds only where there are any), `Z`."""
    precision = "microseconds" if time.microsecond % 1000 else "milliseconds"
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _take_compaction(left: _Json, places: Mapping[str, int], turns: Sequence[SourceTurn]) -> Compaction:
    """Return what a compaction stands for. Everything before the first entry kept is summarised; if that entry is not
    on the path before it, nothing is kept, as pi reads it.
    """
    index, kept_id, tokens = len(turns), left.get("firstKeptEntryId"), left.get("tokensBefore")
    first_kept = places.get(kept_id, index) if isinstance(kept_id, str) else index
    if first_kept < index and turns[first_kept].source_ids == (kept_id,):
        del left["firstKeptEntryId"]
    if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < _MAX_NUMBER:
        del left["tokensBefore"]
    else:
        tokens = None
    return Compaction(
        summarised_through=first_kept - 1 if first_kept > 0 else None,
        first_kept=first_kept if first_kept < index else None,
        tokens_before=tokens,
    )


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is a pi session: its first JSON object is a header.

    >>> sniff(b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}')
    True
    """
    entries, _ = json_files.read_lines(head)
    return bool(entries) and _is_header(entries[0][1])


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what session files (name and bytes of each) say; nothing that they hold raises.

    A file that is no pi session gives no `SourceSession` but a problem at line 0. Sessions come in the files' order.
    """
    read = [(name, _read_file(name, data)) for name, data in files]
    ids = {name: session.id for name, file in read for session in file.sessions}
    ids |= {base_name(name): session_id for name, session_id in ids.items()}
    for _, file in read:
        file.sessions = [replace(each, copied_from=_parent_id(file.parent, ids)) for each in file.sessions]
    return combine_files(read)


# --- versions


def migrate(entries: Sequence[Mapping[str, Any]]) -> list[_Json]:
    """Return entries, header first, as version 3 has them; the ones given are not changed.

    Version 1 has no ids: entries become a chain in file order, each with 8 hex digits made from the session's id and
    its place (so a file that has grown gives the same ids again), and `firstKeptEntryIndex`, which counts the header as
    0, becomes `firstKeptEntryId`. Up to version 2, messages of extensions have the role `hookMessage`, now `custom`.
    """
    migrated = [dict(entry) for entry in entries]
    version = migrated[0].get("version") or 1
    if version < 2:
        _give_ids(migrated)
    if version < VERSION:
        for entry in migrated:
            message = entry.get("message")
            if entry.get("type") == "session":
                entry["version"] = VERSION
            elif entry.get("type") == "message" and isinstance(message, dict) and message.get("role") == "hookMessage":
                entry["message"] = message | {"role": "custom"}
    return migrated


def _give_ids(entries: list[_Json]) -> None:
    session_id, previous, taken = entries[0].get("id"), None, set[str]()
    for position, entry in enumerate(entries):
        if entry.get("type") == "session":
            continue
        made, salt = "", 0
        while not made or made in taken:
            made = hashlib.sha256(f"{session_id}:{position}:{salt}".encode()).hexdigest()[:8]
            salt += 1
        taken.add(made)
        entry["id"], entry["parentId"], previous = made, previous, made
    for entry in entries:
        kept = entry.get("firstKeptEntryIndex")
        if entry.get("type") == "compaction" and isinstance(kept, int) and not isinstance(kept, bool):
            del entry["firstKeptEntryIndex"]
            if 0 <= kept < len(entries) and entries[kept].get("type") != "session":
                entry["firstKeptEntryId"] = entries[kept]["id"]


def _is_header(entry: Mapping[str, Any]) -> bool:
    return entry.get("type") == "session" and isinstance(entry.get("id"), str) and entry["id"] != ""


def _header_fault(entry: Mapping[str, Any]) -> str | None:
    """Return why an entry is no header that can be read, or None."""
    if not _is_header(entry):
        return "is no pi session: its first entry is not a header (type `session`, with an id)"
    version = entry.get("version")
    if version is not None and (isinstance(version, bool) or version not in range(1, VERSION + 1)):
        return f"is a pi session of version {str(version)[:40]}; versions 1 to {VERSION} can be read"
    return None


# --- one file


@dataclass(frozen=True, slots=True)
class _Entry:
    line: int
    data: _Json
    id: str
    parent: str | None


@dataclass(slots=True)
class _SessionFile(Reading):
    """What is found in a file, filled in step by step."""

    parent: str | None = None
    after: dict[str, list[_Json]] = field(default_factory=dict)
    """The entries without a turn at the end of a path, by the id of the path's last turn ("" for a path without any)."""
    aside: dict[str, str] = field(default_factory=dict)
    leaf: list[str | int] = field(default_factory=list)


def _read_file(name: str, data: bytes) -> _SessionFile:
    lines, problems = json_files.read_lines(data)
    file = _SessionFile(problems=problems, notes=json_files.shared_line_notes(lines))
    fault = _header_fault(lines[0][1]) if lines else "is no pi session: it holds no JSON object"
    if fault is not None:
        file.problems.insert(0, Problem(line=0, reason=fault, text=name))
        return file
    migrated = migrate([entry for _, entry in lines])
    numbered = [(line, entry) for (line, _), entry in zip(lines, migrated, strict=True)]
    header = lines[0][1]
    entries = _in_tree(_entries(numbered, file), file)
    paths = _paths(entries, file)
    file.parent = as_text(header.get("parentSession", header.get("branchedFrom")))
    file.aside = {each.id: each.parent or "" for each in entries.values() if each.data["type"] in OF_SESSION}
    if any(len(path) > len(paths[0]) and path[: len(paths[0])] == paths[0] for path in paths[1:]):
        file.leaf = [next(reversed(entries)), len({turn.source_ids for path in paths for turn in path})]
    file.sessions.append(_session(header, entries.values(), paths, file))
    return file


def _entries(numbered: Iterable[tuple[int, _Json]], file: _SessionFile) -> dict[str, _Entry]:
    """Return the usable entries by id, in file order."""
    entries: dict[str, _Entry] = {}
    for position, (line, data) in enumerate(numbered):
        kind, entry_id, parent = data.get("type"), data.get("id"), data.get("parentId")
        if not isinstance(kind, str):
            file.refuse(line, "has no type", data)
            continue
        file.records[kind] += 1
        try:
            validation.to_json(data, "the entry")
        except InvalidInput as error:
            file.refuse(line, f"{error}", data)
            continue
        if kind == "session":
            if position > 0:
                file.notes.append(f"line {line} is a second header; the first one counts")
        elif not isinstance(entry_id, str) or not entry_id:
            file.refuse(line, "has no id", data)
        elif not (parent is None or isinstance(parent, str)):
            file.refuse(line, "has a parentId that is not an id", data)
        elif entry_id not in entries:
            entries[entry_id] = _Entry(line, data, entry_id, parent or None)
        elif entries[entry_id].data != data:
            file.refuse(line, f"has the id {entry_id!r} of line {entries[entry_id].line}, which is kept", data)
        else:
            file.notes.append(f"line {line} repeats line {entries[entry_id].line}")
    return entries


def _in_tree(entries: dict[str, _Entry], file: _SessionFile) -> dict[str, _Entry]:
    """Return the entries whose parents lead to a root; those whose parents run in a circle are problems.

    An entry that names itself as its parent is a root.
    """
    for own in [entry for entry in entries.values() if entry.parent == entry.id]:
        file.notes.append(f"line {own.line} names itself as its parent; it is a root, and its path stands alone")
        entries[own.id] = replace(own, parent=None)
    rooted: dict[str, bool] = {}
    for start in entries:
        chain: list[str] = []
        here: str | None = start
        walked: set[str] = set()
        while here in entries and here not in rooted and here not in walked:
            chain.append(here)
            walked.add(here)
            here = entries[here].parent
        reaches = rooted.get(here, here not in walked) if here is not None else True
        rooted |= dict.fromkeys(chain, reaches)
    for entry in entries.values():
        if not rooted[entry.id]:
            file.refuse(entry.line, "has parents that run in a circle", entry.data)
        elif entry.parent is not None and entry.parent not in entries:
            what = f"line {entry.line}: the parent {entry.parent!r} is not in the file"
            file.notes.append(f"{what}; its path stands alone")
    return {entry.id: entry for entry in entries.values() if rooted[entry.id]}


def _paths(entries: dict[str, _Entry], file: _SessionFile) -> tuple[tuple[SourceTurn, ...], ...]:
    """Return the turns of every path to a leaf, the one to the last line first."""
    if not entries:
        return ((),)
    main = next(reversed(entries))
    parents = {entry.parent for entry in entries.values()}
    leaves = [main, *(entry_id for entry_id in entries if entry_id not in parents and entry_id != main)]
    if len(leaves) > 1:
        file.notes.append(f"there are {len(leaves)} leaves; the last line ({main!r}) is the main one, as pi reads it")
    made: dict[str, SourceTurn | _Json | None] = {}
    return distinct_paths([_path(_to_root(leaf, entries), made, file) for leaf in leaves])


def _to_root(leaf: str, entries: Mapping[str, _Entry]) -> list[_Entry]:
    path: list[_Entry] = []
    here: str | None = leaf
    while here is not None and here in entries:
        path.append(entries[here])
        here = entries[here].parent
    return path[::-1]


def _path(
    entries: Sequence[_Entry], made: dict[str, SourceTurn | _Json | None], file: _SessionFile
) -> tuple[SourceTurn, ...]:
    """Return the turns of a path; the file notes the entries after the last of them, by its id.

    `made` holds those of paths before: a turn depends only on what comes before it.
    """
    turns: list[SourceTurn] = []
    before: list[_Json] = []
    places: dict[str, int] = {}
    """The index of the first turn at or after an entry, by the entry's id."""
    for entry in entries:
        places[entry.id] = len(turns)
        if entry.id not in made:
            try:
                made[entry.id] = turn = read_entry(entry.data, before, places, turns)
            except InvalidInput as error:
                file.refuse(entry.line, f"{error}", entry.data)
                made[entry.id] = turn = None
            if isinstance(turn, SourceTurn) and turn.compaction and turn.compaction.first_kept is None:
                what = "the compaction keeps nothing of what stands before it on its path"
                file.notes.append(f"line {entry.line}: {what}")
        found = made[entry.id]
        if isinstance(found, SourceTurn):
            turns.append(found)
            before = []
        elif found is not None:
            before.append(found)
    if before:
        file.after["".join(turns[-1].source_ids) if turns else ""] = before
    return tuple(turns)


def entries_after(chain: Sequence[SessionRecord], source_ids: Sequence[str]) -> list[_Json]:
    """Return the entries that no turn follows, after the turn with these source ids; `chain` is the session's lineage."""
    for record in chain:
        found = as_object(record.meta.get(AFTER)).get("".join(source_ids))
        if isinstance(found, list):
            return [entry for entry in objects_in(found) if isinstance(entry.get("id"), str)]
    return []


def read_chain(entries: Sequence[Mapping[str, Any]]) -> tuple[SourceTurn, ...]:
    """Return the turns of entries of version 3 that follow each other, without a header; unusable ones are left out."""
    chain = [_Entry(0, dict(data), data["id"], None) for data in entries]
    return _path(chain, {}, _SessionFile())


# --- the session


def _session(
    header: Mapping[str, Any], entries: Iterable[_Entry], paths: tuple[tuple[SourceTurn, ...], ...], file: _SessionFile
) -> SourceSession:
    noted = NotedHeader(agent=SOURCE)
    try:
        noted = read_noted(NotedHeader, {"agent": SOURCE} | dict(header.get("trails") or {}))
    except (ValueError, TypeError) as error:  # InvalidInput is a ValueError
        file.refuse(1, f"the header {error}", header)
    title, labels = _title_and_labels(entries, file)
    time = parse_time(header.get("timestamp"))
    left = without_keys(header, *_HEADER_OWN)
    if "timestamp" in header and (time is None or write_time(time) != header["timestamp"]):
        left["timestamp"] = header["timestamp"]
    meta = {key: header[key] for key in HEADER_META if header.get(key) is not None}
    meta["version"] = header.get("version", 1)
    noted_places = {"labels": labels, "pi": left, AFTER: file.after, ASIDE: file.aside, LEAF: file.leaf}
    meta |= {key: value for key, value in noted_places.items() if value}
    try:
        validation.meta(meta)
    except InvalidInput as error:
        file.refuse(1, f"the header's {error}", header)
        meta = {}
    own = {"title": title, "created": time, **noted.model_dump()}
    return SourceSession(source=SOURCE, id=header["id"], paths=paths, meta=meta, **own)


def _title_and_labels(entries: Iterable[_Entry], file: _SessionFile) -> tuple[str | None, dict[str, str]]:
    """Return the session's name and the labels of its entries; the last ones in the file count, no label clears one."""
    title: str | None = None
    labels: dict[str, str] = {}
    for entry in entries:
        data = entry.data
        if data["type"] == "session_info" and isinstance(data.get("name"), str):
            title = data["name"] or None
        elif data["type"] == "label":
            target, label = data.get("targetId"), data.get("label")
            if not isinstance(target, str) or not (label is None or isinstance(label, str)):
                file.refuse(entry.line, "is a label without a target, or not a text", data)
            elif label:
                labels[target] = label
            else:
                labels.pop(target, None)
    return title, labels


def _parent_id(parent: str | None, ids: Mapping[str, str]) -> str | None:
    """Return the id of the session that a header names by path or id: a file at hand, else by the file's name."""
    if parent is None:
        return None
    base = base_name(parent)
    found = ids.get(parent) or ids.get(base)
    if found or not base.endswith(".jsonl"):
        return found or parent
    stem = base.removesuffix(".jsonl")
    stamped = _STAMPED_NAME.fullmatch(stem)
    return stamped[1] if stamped else stem or parent
