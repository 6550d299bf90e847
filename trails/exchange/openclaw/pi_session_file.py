"""Import session files of the pi coding agent and of OpenClaw: JSON lines, versions 1 to 3.

A file is never changed. It is a header and a tree of entries. Some entries make a turn (`pi_entries` has the table), all others hang between
turns. A field `trails` in an entry or a header is `pi_export`'s: what pi's own fields cannot say.

Rules of the format that are followed, and noted where they matter: the last line is the leaf that a session goes on
from; an entry whose parent is not in the file, or is the entry itself, starts a path of its own; version 1 is a chain in file
order.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trails.errors import InvalidInput
from trails.exchange import json_files
from trails.exchange.json_files import as_object, as_text, objects_in, without_keys
from trails.exchange.openclaw.pi_entries import NotedHeader, read_entry, read_noted, write_time
from trails.exchange.record_checks import Reading, combine_files, parse_time
from trails.exchange.source_transcript import Problem, SourceSession, SourceTurn, Transcript, distinct_paths
from trails.model import validation
from trails.model.values import SessionRecord

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
_ASIDE: Final = frozenset({"label", "session_info"})
_STAMPED_NAME: Final = re.compile(r"\d{4}-\d\d-\d\dT[^_]*_(.+)", re.DOTALL)

_Json = dict[str, Any]


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
    ids |= {_base_name(name): session_id for name, session_id in ids.items()}
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
    parent = header.get("parentSession", header.get("branchedFrom"))
    file.parent = as_text(parent)
    file.aside = {each.id: each.parent or "" for each in entries.values() if each.data["type"] in _ASIDE}
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
            file.notes.append(
                f"line {entry.line}: the parent {entry.parent!r} is not in the file; its path stands alone"
            )
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
    return distinct_paths([_noted_path(_to_root(leaf, entries), made, file) for leaf in leaves])


def _to_root(leaf: str, entries: Mapping[str, _Entry]) -> list[_Entry]:
    path: list[_Entry] = []
    here: str | None = leaf
    while here is not None and here in entries:
        path.append(entries[here])
        here = entries[here].parent
    return path[::-1]


def _noted_path(
    entries: Sequence[_Entry], made: dict[str, SourceTurn | _Json | None], file: _SessionFile
) -> tuple[SourceTurn, ...]:
    """Return the turns of a path, and note what hangs after the last of them, by its id."""
    turns, after = _path(entries, made, file)
    if after:
        file.after["".join(turns[-1].source_ids) if turns else ""] = after
    return turns


def _path(
    entries: Sequence[_Entry], made: dict[str, SourceTurn | _Json | None], file: _SessionFile
) -> tuple[tuple[SourceTurn, ...], list[_Json]]:
    """Return the turns of a path, and the entries after the last of them that would be kept with a next one.

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
                made[entry.id] = read_entry(entry.data, before, places, turns)
            except InvalidInput as error:
                file.refuse(entry.line, f"{error}", entry.data)
                made[entry.id] = None
            turn = made[entry.id]
            if isinstance(turn, SourceTurn) and turn.compaction and turn.compaction.first_kept is None:
                what = "the compaction keeps nothing of what stands before it on its path"
                file.notes.append(f"line {entry.line}: {what}")
        found = made[entry.id]
        if isinstance(found, SourceTurn):
            turns.append(found)
            before = []
        elif found is not None:
            before.append(found)
    return tuple(turns), before


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
    return _path(chain, {}, _SessionFile())[0]


# --- the session


def _session(
    header: Mapping[str, Any], entries: Iterable[_Entry], paths: tuple[tuple[SourceTurn, ...], ...], file: _SessionFile
) -> SourceSession:
    noted = NotedHeader(agent=SOURCE)
    try:
        noted = read_noted(NotedHeader, {"agent": SOURCE} | dict(header.get("trails") or {}))
    except (InvalidInput, ValueError, TypeError) as error:
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
    return SourceSession(
        source=SOURCE,
        id=header["id"],
        paths=paths,
        title=title,
        created=time,
        principal=noted.principal,
        agent=noted.agent,
        system=noted.system,
        meta=meta,
    )


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


def _base_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _parent_id(parent: str | None, ids: Mapping[str, str]) -> str | None:
    """Return the id of the session that a header names by path or id: a file at hand, else by the file's name."""
    if parent is None:
        return None
    base = _base_name(parent)
    found = ids.get(parent) or ids.get(base)
    if found or not base.endswith(".jsonl"):
        return found or parent
    stem = base.removesuffix(".jsonl")
    stamped = _STAMPED_NAME.fullmatch(stem)
    return stamped[1] if stamped else stem or parent
