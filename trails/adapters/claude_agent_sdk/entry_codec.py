"""Turn Claude Code's transcript entries into turns, and turns into the same entries again.

What makes a turn of an entry is the importer's own reading (`trails.exchange.coding_agents.claude_code`): lines of one message
are one turn. The entries stand in the turn's metadata, without the content that is the turn's own. Entries that make no turn
(titles, snapshots, progress) stand with the turn before them in their batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from trails.adapters.json_objects import check_json
from trails.context.messages import messages_of
from trails.context.provider_messages import anthropic_messages
from trails.errors import InvalidInput
from trails.exchange import matching, record_checks
from trails.exchange.coding_agents import claude_code, claude_code_records
from trails.exchange.coding_agents.claude_code_records import Chain, Record
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.exchange.source_values import parse_time
from trails.history import turn_builder
from trails.history.turn_builder import Draft
from trails.model import validation
from trails.model.values import Turn

Entry = Mapping[str, Any]
KEPT: Final = "claudeEntries"
"""The metadata key under which a turn keeps its entries; the first turn of a batch also says when that was stored."""
EVENT: Final = "event"
"""The role of a turn for entries that make none: no model is shown it."""
_WHOLE: Final = "all"
"""Stands in a kept entry for its message's content, where that is all of its turn's; else the number of parts stands there,
or `_TEXT` for a text that became one part."""
_TEXT: Final = "text"
RECENT: Final = 20
"""How many turns are looked through for earlier lines of a message."""


@dataclass(slots=True)
class _Group:
    """A turn that is to be made, and what it keeps."""

    turn: SourceTurn
    kept: list[list[Any]] = field(default_factory=list)
    """Its entries: each one's place in the batch, itself, and what stands in it for the content."""
    ids: list[str] = field(default_factory=list)


def uuid_of(entry: Entry) -> str | None:
    """Return the id by which an entry is stored only once; None for one that may come several times."""
    found = entry.get("uuid")
    return found if isinstance(found, str) and found else None


# --- entries to turns


def check_entries(entries: object) -> None:
    """Raise `InvalidInput` for what is no list of JSON objects."""
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Sequence):
        raise InvalidInput(f"the entries are a list of mappings, not {type(entries).__name__}")
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise InvalidInput(f"an entry is a mapping, not {type(entry).__name__}: give it as Claude Code writes it")
        check_json(entry, "an entry")


def drafts_of(
    entries: Sequence[Entry], *, session_id: str, stored: datetime, start: int, before: Sequence[Turn]
) -> list[Draft]:
    """Return the turns of a batch of entries, in order; raise `InvalidInput` for an entry that is too long to be kept.

    `session_id` is that of entries that name none, `stored` is when the batch is stored, `start` the index of its first turn,
    and `before` are the turns before that, at least the last ones. A message that has lines there goes on in a turn that
    counts only the usage beyond theirs.
    """
    try:
        groups = _groups(entries, entries, session_id, is_tried=False)
        return _drafts(groups, stored, start, before)
    except InvalidInput:  # seldom: text with half a character, very deep nesting
        kept = [entry if _can_be_kept(entry) else json.dumps(entry) for entry in entries]
        readable = [entry if entry is own else _readable(entry) for entry, own in zip(entries, kept, strict=True)]
        return _drafts(_groups(readable, kept, session_id, is_tried=True), stored, start, before)


def _can_be_kept(entry: Entry) -> bool:
    try:
        validation.meta({KEPT: [entry]})
    except InvalidInput:
        return False
    return True


def _readable(entry: Entry) -> Entry:
    """Return an entry with U+FFFD for each half of a character that stands alone."""
    text = json.dumps(entry, ensure_ascii=False)
    found: Entry = json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    return found


def _groups(entries: Sequence[Entry], kept: Sequence[Entry | str], session_id: str, *, is_tried: bool) -> list[_Group]:
    """Return the turns of a batch, each with its entries as they are `kept`; what cannot be a turn makes none if it is tried."""
    records = _records(entries, session_id, is_tried=is_tried)
    chain = Chain(None, [record.id for record in records.values()])
    turns = claude_code.turns_of([chain], {record.id: record for record in records.values()}, {})[chain]
    groups = [_Group(turn) for turn in turns] or [_Group(_event(entries))]
    homes = {source_id: group for group in groups for source_id in group.turn.source_ids}
    home = groups[0]
    for place, (entry, own) in enumerate(zip(entries, kept, strict=True)):
        record = records.get(place)
        home = home if record is None else homes[record.id]
        if uuid := uuid_of(entry):
            home.ids.append(uuid)
        if record is None or record.kind not in claude_code_records.SPOKEN or isinstance(own, str):
            home.kept.append([place, own])
        else:
            mark = _mark(home.turn, record)
            home.kept.append([place, {**own, "message": {**own["message"], "content": None}}, mark])
    return groups


def _records(entries: Sequence[Entry], session_id: str, *, is_tried: bool) -> dict[int, Record]:
    """Return the entries that make turns as the importer reads them, by their places."""
    lines = [(place, {"sessionId": session_id, **entry}) for place, entry in enumerate(entries)]
    prompts, _ = claude_code_records.merge_queued_prompts(lines)
    read = {
        place: claude_code_records.read_record(raw, "", place, is_tried=is_tried)
        for place, raw in dict(prompts).items()
    }
    return {place: each for place, each in read.items() if isinstance(each, Record) and each.kind != "link"}


def _event(entries: Sequence[Entry]) -> SourceTurn:
    kinds = dict.fromkeys(claude_code_records.kind_name(entry) for entry in entries)
    time = next((time for entry in entries if (time := parse_time(entry.get("timestamp")))), None)
    return SourceTurn(EVENT, (Piece("", ", ".join(kinds)),), time=time)


def _mark(turn: SourceTurn, record: Record) -> str | int:
    """Return what stands for the content of a record."""
    if len(turn.pieces) == 1:
        return _WHOLE
    return _TEXT if isinstance(record.content, str) else len(record.content)


def _drafts(groups: Sequence[_Group], stored: datetime, start: int, before: Sequence[Turn]) -> list[Draft]:
    counted = _counted_usage(before[-RECENT:])
    drafts = []
    for group in groups:
        turn = group.turn
        message_ids = (_message_id(each[1]) for each in group.kept)
        earlier = next((counted[each] for each in message_ids if each in counted), None)
        if earlier is not None:
            turn = matching.rest_of(turn, earlier)
        (turn,) = matching.shift_summaries([turn], start)
        kept: dict[str, Any] = {"entries": group.kept}
        if group is groups[0]:
            kept["stored"] = milliseconds(stored)
        turn = replace(turn, time=turn.time or stored, meta={KEPT: kept})
        if turn.role == EVENT:
            text, time, meta = turn.content, turn.time, turn.meta
            drafts.append(turn_builder.make_draft(EVENT, text, time=time, source_ids=group.ids, meta=meta))
        else:
            drafts.append(record_checks.make_draft(turn, group.ids))
    return drafts


def _message_id(entry: Any) -> str | None:
    message = entry.get("message") if isinstance(entry, Mapping) and entry.get("type") == "assistant" else None
    found = message.get("id") if isinstance(message, Mapping) else None
    return found if isinstance(found, str) else None


def _counted_usage(turns: Iterable[Turn]) -> dict[str, list[dict[str, Any]]]:
    """Return the usages that turns count, by the ids of their messages."""
    counted: dict[str, list[dict[str, Any]]] = {}
    for turn in turns:
        for message_id in {_message_id(each[1]) for each in _kept(turn).get("entries", ())} - {None}:
            counted.setdefault(str(message_id), []).append(turn.usage)
    return counted


def milliseconds(moment: datetime) -> int:
    """Return a time as milliseconds since 1970."""
    return int(moment.timestamp() * 1000)


# --- turns to entries


def stored_at(turns: Sequence[Turn]) -> int:
    """Return when the last batch of some turns was stored, in milliseconds since 1970; 0 if they have none."""
    for turn in reversed(turns):
        if (stored := _kept(turn).get("stored")) is not None:
            return int(stored)
    return 0


def entries_of(turns: Iterable[Turn], session_id: str, own_id: str) -> list[dict[str, Any]]:
    """Return the entries that turns were made from, as they were; of a turn that was made otherwise, or redacted, one like it.

    `session_id` is Claude's, `own_id` that of the session here: entries of turns that it inherits say Claude's instead of
    their own.
    """
    entries: list[dict[str, Any]] = []
    batch: list[tuple[int, dict[str, Any]]] = []

    def end_batch() -> None:
        entries.extend(entry for _, entry in sorted(batch, key=lambda each: each[0]))
        batch.clear()

    for turn in turns:
        kept = _kept(turn)
        if not kept or _begins_a_batch(kept):
            end_batch()
        if not kept:
            before: Entry = next((each for each in reversed(entries) if uuid_of(each)), {})
            entries.append(_substitute(turn, before, session_id))
        else:
            inherited = turn.session_id != own_id
            restored = _restored(turn, kept["entries"], session_id)
            batch += [(at, _renamed(entry, session_id) if inherited else entry) for at, entry in restored]
    end_batch()
    return entries


def _kept(turn: Turn) -> dict[str, Any]:
    meta_json = turn.facts.meta_json
    if meta_json is None or KEPT not in meta_json:
        return {}
    found = turn.meta.get(KEPT)
    return found if isinstance(found, dict) and isinstance(found.get("entries"), list) else {}


def _begins_a_batch(kept: Mapping[str, Any]) -> bool:
    """Tell whether a turn is the first of its batch; a redaction may have erased the word that says so."""
    return "stored" in kept or ("redacted" in kept and kept["entries"][0][0] == 0)


def _restored(turn: Turn, kept: Sequence[Sequence[Any]], session_id: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield a turn's entries with their places, their contents put back."""
    used = 0
    for place, entry, *mark in kept:
        if isinstance(entry, str):
            try:
                yield place, json.loads(entry)
            except ValueError:  # a text in it was redacted, and with it all of it
                yield place, _substitute(turn, {}, session_id)
            continue
        if mark:
            content, step = _content(turn, used, mark[0])
            used += step
            entry = _spoken(entry, turn)  # noqa: PLW2901 - the same entry
            entry["message"]["content"] = content
        yield place, entry


def _content(turn: Turn, used: int, mark: object) -> tuple[Any, int]:
    """Return the content of an entry, and of how many parts of its turn it was made, after those that are `used`."""
    parts = turn.content
    if isinstance(mark, int) and isinstance(parts, list):
        return parts[used : used + mark], mark
    part = parts[used] if mark != _WHOLE and isinstance(parts, list) and used < len(parts) else None
    if isinstance(part, dict) and (mark == _TEXT or part.get("type") == _TEXT):  # a redaction may erase the mark
        return part.get("text", "redacted"), 1
    return parts, 0


def _spoken(entry: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    """Return an entry as one that speaks, if a redaction erased the words that say so."""
    role = "assistant" if turn.role == "assistant" else "user"
    message = entry.get("message")
    if entry.get("type") not in claude_code_records.SPOKEN:
        entry = {name: value for name, value in entry.items() if name != "redacted"} | {"type": role}
    if not isinstance(message, dict):
        message = {"role": role}
    elif "redacted" in message or message.get("role") == "redacted":
        message = {name: value for name, value in message.items() if name != "redacted"} | {"role": role}
    return {**entry, "message": {**message}}


def _renamed(entry: dict[str, Any], session_id: str) -> dict[str, Any]:
    return entry | {"sessionId": session_id} if "sessionId" in entry else entry


def _substitute(turn: Turn, before: Mapping[str, Any], session_id: str) -> dict[str, Any]:
    """Return an entry for a turn that has none, after the entry before it."""
    shown = anthropic_messages(None, messages_of(turn))["messages"]
    role = "assistant" if turn.role == "assistant" else "user"
    content = next((each["content"] for each in shown if each["role"] == role), "")
    return {
        "parentUuid": uuid_of(before),
        "isSidechain": before.get("isSidechain", False),
        "sessionId": session_id,
        "type": role,
        "message": {"role": role, "content": content},
        "uuid": turn.source_ids[0] if turn.source_ids else str(uuid5(NAMESPACE_OID, turn.iri)),
        "timestamp": (turn.time or datetime.fromtimestamp(0, UTC)).isoformat().replace("+00:00", "Z"),
    }
