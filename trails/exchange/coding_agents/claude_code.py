"""Claude Code's session files: `~/.claude/projects/<folder>/<session>.jsonl`, and those of its sub-agents below."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from trails.exchange import format_detection, json_files
from trails.exchange.coding_agents import claude_code_records
from trails.exchange.coding_agents.claude_code_records import Chain, Record, find_branches, leftovers
from trails.exchange.json_files import Json, as_listed, as_object, as_text, without_keys
from trails.exchange.source_transcript import Piece, Problem, SourceSession, SourceTurn, Transcript, group_files
from trails.exchange.source_values import valid_name
from trails.model.content_parts import results_in
from trails.model.values import Compaction

SOURCE: Final = "claude-code"

REASONS: Final = {
    "attachment.": "the program used it or showed it to its user; no model was shown it",
    "snapshot.": "a backup of files, no part of the conversation",
    "data.": "progress that the program showed; messages of sub-agents come with their own files",
    "hookInfos": "what the program ran beside the conversation",
    "content": "a notice of the program, which no model was shown, or a prompt that waited and came later or never",
} | dict.fromkeys(
    ("lastPrompt", "agentName", "agentSetting", "prUrl", "prRepository", "worktreeSession"),
    "what the program's window shows of the session, written anew at each change",
)
"""Why fields are kept nowhere."""

_TRIGGERS: Final = {"manual": "manual", "auto": "threshold"}
_OVER: Final = frozenset({"turn_duration", "stop_hook_summary", "local_command"})
"""The program's own records that come only between two turns of its user."""
_CALLS: Final = "tool_use"
"""The stop reason of a message that ends in calls, and the type of the part that is one."""
_REFUSED: Final = "User rejected tool use"
"""What the program writes beside the result of a call that its user did not let run."""
_ROLES: Final = {"queued": "user"}
"""The roles of records whose kind is none."""
_ADDED: Final = frozenset({"link", "queued", "attachment"})
"""The kinds of records that come between the lines of a message, or of a compaction and its summary."""
_BOUNDARY: Final = "boundary"
"""The metadata key under which a summary turn keeps what the boundary before it said."""
_SIGNS: Final = frozenset({"parentUuid", "leafUuid"})
_SIGNING: Final = frozenset({"file-history-snapshot", "queue-operation", "custom-title", "ai-title"})
_NOTES: Final = {
    "no parent": "name no record that they follow; each was put after the record before it in the file",
    "missing": "follow a record that is not here; each was put after the record before it in the file",
    "circle": "follow each other in a circle, which was broken there",
    "elsewhere": "follow a record of another session that is not the one this session goes on from",
    "no time": "have no time that says its time zone; their turns have none",
}


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is one of Claude Code's; the last line may be cut.

    >>> sniff(b'{"parentUuid":null,"sessionId":"s","type":"user"'), sniff(b'{"type":"session","id":"1"}')
    (True, False)
    """
    return any(_SIGNS & each.keys() or each.get("type") in _SIGNING for each in format_detection.outline_of_lines(head))


MISFITS: Final = (*_NOTES.values(), "which is not here", "stand only in the queue")
"""Words of the notes which say that a record follows one that is not in the part of a file that was read."""


def begins_part(record: Json, before: Json | None) -> bool:
    """Tell whether the end of a file can be read from a record on: a prompt, or the first line of a new answer."""
    if not all(isinstance(record.get(key), str) for key in ("uuid", "parentUuid", "sessionId")) or before is None:
        return False
    message = as_object(record.get("message"))
    if record.get("type") == "user":
        is_result = any(as_object(part).get("type") == "tool_result" for part in as_listed(message.get("content")))
        return not is_result and not (record.get("isMeta") or record.get("isCompactSummary"))
    own = as_text(message.get("id"))
    return record.get("type") == "assistant" and own is not None and before.get("type") == "user"


def before_part(record: Json, _: str, meta: Mapping[str, Any]) -> Json:
    """Return a record that makes no turn and stands for all before a record: its id, and what the session repeats."""
    kept = {key: record[key] for key in ("sessionId", "agentId", "isSidechain", "timestamp") if key in record}
    common = {key: meta[key] for key in claude_code_records.COMMON if key in meta}
    return {"type": "progress", "uuid": record["parentUuid"], "parentUuid": None, **kept, **common}


def session_of(record: Json, _: Path) -> str | None:
    """Return the id of the session, or of the sub-agent, that a record is of."""
    session, agent = as_text(record.get("sessionId")), as_text(record.get("agentId"))
    if record.get("isSidechain") is not True or session is None:
        return session
    return None if agent is None else f"{session}:agent-{agent}"


def companions(path: Path) -> list[Path]:
    """Return a session's file with those of its sub-agents."""
    return [path, *sorted((path.with_suffix("") / "subagents").rglob("agent-*.jsonl"))]


def owner(path: Path) -> Path:
    """Return the session's file of a sub-agent's file, if it is there; of any other file, the file itself."""
    session = next((each.parent for each in path.parents if each.name == "subagents"), None)
    main = None if session is None else session.with_name(f"{session.name}.jsonl")
    return main if main is not None and main.is_file() else path


def groups(files: Sequence[Path]) -> Iterable[Sequence[Path]]:
    """Return the files that are read together: those of a folder, with those of its sub-agents."""
    return group_files(
        files, lambda file: next((p.parent.parent for p in file.parents if p.name == "subagents"), file.parent)
    )


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files that belong together say: each is its name and its content.

    Every line is used, counted as one that makes no turn, or becomes a problem; nothing is raised, whatever the bytes.
    A session has one path, and one more for every time its user went back and typed something else. Sub-agents are
    sessions of their own. Where a record stands in several sessions, the earliest has it and the others go on from it.
    Indices of a summary turn count from the start of its path.
    """
    reading = _Reading(many=len(files) > 1)
    for name, data in files:
        reading.add(name, data)
    groups = _grouped(reading)
    owners = _share_out(groups)
    agents = _agent_types(groups)
    titles = _titles(reading, groups, owners)
    made = [_session(group, owners, reading, agents.get(group.id), titles.get(group.id, [])) for group in groups]
    sessions = _with_open_ends([each for each in made if each is not None], groups, reading)
    return Transcript(tuple(sessions), reading.problems(), reading.counts, tuple(reading.notes))


@dataclass(slots=True)
class _Reading:
    """All lines of all files, sorted into what they are."""

    many: bool
    """Whether there are several files: a problem then says in which it is."""
    found: list[Record] = field(default_factory=list)
    titles: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    unusable: list[tuple[str, Problem]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, data: bytes) -> None:
        """Read one file."""
        lines, problems = json_files.read_lines(data)
        unknown: Counter[str] = Counter()
        self.unusable += [(name, each) for each in problems]
        self.notes += [f"{name}: {note}" if self.many else note for note in json_files.shared_line_notes(lines)]
        self.counts.update(claude_code_records.kind_name(raw) for _, raw in lines)
        prompts, lost = claude_code_records.merge_queued_prompts(lines)
        if lost:
            self.notes.append(f"{name}: {lost} prompt(s) stand only in the queue, and were put where they left it")
        for line, raw in prompts:
            record = claude_code_records.read_record(raw, name, line)
            if isinstance(record, Record):
                self.found.append(record)
            reason = record.defect if isinstance(record, Record) else record
            if reason is not None:
                self.refuse(name, line, raw, reason)
            elif (kind := raw["type"]) in claude_code_records.TITLES:
                self.titles.append((self._at(name, line), raw))
            elif kind not in claude_code_records.SPOKEN | claude_code_records.SILENT:
                unknown[claude_code_records.kind_name(raw)] += 1
        self.notes += [f"{name}: {n} records of the unknown type {kind!r} made no turn" for kind, n in unknown.items()]

    def refuse(self, name: str, line: int, raw: Mapping[str, Any], reason: str) -> None:
        """Keep a line as a problem."""
        self.unusable.append((name, json_files.line_problem(line, reason, json.dumps(raw, ensure_ascii=False))))

    def problems(self) -> tuple[Problem, ...]:
        """Return the lines that could not be used, as they stand in the files."""
        names = list(dict.fromkeys(name for name, _ in self.unusable))
        found = sorted(self.unusable, key=lambda each: (names.index(each[0]), each[1].line))
        return tuple(replace(each, file=name) if self.many else each for name, each in found)

    def note(self, group: _SessionRecords, kind: str, ids: Sequence[str]) -> None:
        """Note how often something was found in a session, and where first."""
        first = group.all[ids[0]]
        where = self._at(first.file, first.line)
        self.notes.append(f"session {group.id}: {len(ids)} record(s), the first in {where}, {_NOTES[kind]}")

    def _at(self, name: str, line: int) -> str:
        return f"line {line} of {name}" if self.many else f"line {line}"


@dataclass(slots=True, eq=False)
class _SessionRecords:
    """The records of one session, or of one sub-agent of it, by id and in the order of the files."""

    session: str
    agent: str | None
    all: dict[str, Record] = field(default_factory=dict)
    own: dict[str, Record] = field(default_factory=dict)
    """Those that no earlier session has."""

    @property
    def id(self) -> str:
        """The session's id in the source."""
        return self.session if self.agent is None else f"{self.session}:agent-{self.agent}"


_Owners = dict[str, _SessionRecords]


def _grouped(reading: _Reading) -> list[_SessionRecords]:
    """Return the records by session and sub-agent; an id that is used twice for different things is a problem."""
    nameless = {r.id: r for r in reversed(reading.found) if r.agent == ""}
    groups: dict[tuple[str, str | None], _SessionRecords] = {}
    for record in reading.found:
        agent = record.agent if record.agent != "" else _first_of(record, nameless)
        group = groups.setdefault((record.session, agent), _SessionRecords(record.session, agent))
        known = group.all.get(record.id)
        if known is None or (record.defect is None and known.defect is not None):
            group.all.pop(record.id, None)
            group.all[record.id] = record
        elif record.defect is None and not record.says_the_same(known):
            reason = f"has the id {record.id!r} of line {known.line}, and says something else"
            reading.refuse(record.file, record.line, record.raw, reason)
    return list(groups.values())


def _first_of(record: Record, nameless: Mapping[str, Record]) -> str:
    """Return what names a sub-agent in files that do not: the id of its first record."""
    seen: set[str] = set()
    while (parent := record.parent) is not None and parent in nameless and parent not in seen:
        seen.add(record.id)
        record = nameless[parent]
    return min(seen) if record.id in seen else record.id


def _share_out(groups: Sequence[_SessionRecords]) -> _Owners:
    """Give every record to the earliest session that has it, and return whose each is."""
    counts = Counter(record.original for group in groups for record in group.all.values())
    latest = datetime.max.replace(tzinfo=UTC)

    def age(group: _SessionRecords) -> tuple[datetime, bool, datetime]:
        times = [(record.time, counts[record.original] == 1) for record in group.all.values() if record.time]
        is_copy = any(record.original != record.id for record in group.all.values())
        alone = min((time for time, is_alone in times if is_alone), default=latest)
        return min((time for time, _ in times), default=latest), is_copy, alone

    owners: _Owners = {}
    for group in sorted(groups, key=age):
        for record in group.all.values():
            owner = owners.get(record.original)
            if owner is None or owner is group or not record.says_the_same(owner.own[record.original]):
                group.own[record.id] = record
                owners.setdefault(record.id, group)
    return owners


def _agent_types(groups: Sequence[_SessionRecords]) -> dict[str, str]:
    """Return the kind of every sub-agent, by session id, from the call that started it: by its answer or its prompt."""
    spoken = [record for group in groups for record in group.all.values() if record.kind in claude_code_records.SPOKEN]
    by_call: dict[str, str] = {}
    by_prompt: dict[tuple[str, str], str] = {}
    for record, part in [(each, part) for each in spoken for part in each.parts]:
        wanted = as_object(part.get("input"))
        if part.get("type") == "tool_use" and valid_name(wanted.get("subagent_type")) is not None:
            by_call[str(part.get("id"))] = wanted["subagent_type"]
            by_prompt[record.session, str(wanted.get("prompt"))] = wanted["subagent_type"]
    by_agent = {
        (record.session, str(result.get("agentId"))): by_call[call]
        for record in spoken
        if isinstance(result := record.raw.get("toolUseResult"), dict)
        for part in record.parts
        if (call := str(part.get("tool_use_id"))) in by_call
    }
    agents = [(group, str(group.agent)) for group in groups if group.agent is not None]
    kinds = {
        group.id: by_agent.get((group.session, agent)) or by_prompt.get((group.session, _first_text(group)))
        for group, agent in agents
    }
    return {own: kind for own, kind in kinds.items() if kind}


def _first_text(group: _SessionRecords) -> str:
    prompts = (record for record in group.all.values() if record.is_prompt)
    if (prompt := next(prompts, None)) is None:
        return ""
    content = prompt.content
    return content if isinstance(content, str) else "".join(str(part.get("text")) for part in prompt.parts)


def _titles(reading: _Reading, groups: Sequence[_SessionRecords], owners: _Owners) -> dict[str, list[str]]:
    """Return the names of each session, the one that counts first: given by the user, a summary's, a generated one."""
    main = {group.session: group for group in groups if group.agent is None}
    found: dict[str, list[tuple[int, int, str]]] = {}
    ranks = {kind: rank for rank, kind in enumerate(claude_code_records.TITLES)}
    for order, (place, raw) in enumerate(reading.titles):
        kind = raw["type"]
        title, leaf, session = raw.get(claude_code_records.TITLES[kind]), raw.get("leafUuid"), raw.get("sessionId")
        of = owners.get(as_text(leaf) or "") or main.get(as_text(session) or "")
        if not isinstance(title, str) or not title or of is None:
            reading.notes.append(f"the {kind} in {place} is of no session here, or has no text: {str(title)[:200]!r}")
        else:
            found.setdefault(of.id, []).append((ranks[kind], -order, title))
    return {session: [title for _, _, title in sorted(titles)] for session, titles in found.items()}


def _session(
    group: _SessionRecords, owners: _Owners, reading: _Reading, agent_type: str | None, titles: Sequence[str]
) -> SourceSession | None:
    own = list(group.own.values())
    continues, roots = _beginning(group, owners, reading)
    held = [(key, record.raw.get(key)) for record in own or group.all.values() for key in claude_code_records.COMMON]
    first = dict(reversed([(key, value) for key, value in held if isinstance(value, str)]))
    common: dict[str, Any] = {key: first[key] for key in claude_code_records.COMMON if key in first}
    paths = _paths(group, own, roots, common, reading)
    has_message = any(turn.role != "attachment" for path in paths for turn in path)
    if not has_message and len(own) == len(group.all):
        reading.notes.append(f"session {group.id} has {len(own)} record(s) and no message: nothing to keep")
        return None
    agent = agent_type or valid_name(f"agent-{group.agent}") or "agent"
    return SourceSession(
        source=SOURCE,
        id=group.id,
        paths=paths,
        title=titles[0] if titles else None,
        created=next((record.time for record in (*own, *group.all.values()) if record.time), None),
        agent=SOURCE if group.agent is None else agent,
        system=_system_prompt(own),
        meta=common | ({"otherTitles": list(titles[1:])} if titles[1:] else {}),
        spawned_by=None if group.agent is None else group.session,
        continues=continues,
        files=tuple(dict.fromkeys(record.file for record in (group.own or group.all).values())),
    )


def _system_prompt(own: Sequence[Record]) -> str | None:
    """Return the system prompt of a session's first snapshot of it."""
    for record in own:
        attachment = claude_code_records.attachment_of(record.raw) or {}
        if attachment.get("type") == claude_code_records.SYSTEM_PROMPT:
            texts = [part for part in as_listed(attachment.get("systemPrompt")) if isinstance(part, str)]
            return "\n\n".join(texts) or None
    return None


def _with_open_ends(
    sessions: Sequence[SourceSession], groups: Sequence[_SessionRecords], reading: _Reading
) -> list[SourceSession]:
    """Return the sessions, each with how many turns at its end may still get more lines, and in which file."""
    by_id = {group.id: group for group in groups}
    goes_on = {session.continues for session in sessions} | {as_text(raw.get("leafUuid")) for _, raw in reading.titles}
    all_records = [record for group in groups for record in group.all.values()]
    results = [(record.session, as_object(record.raw.get("toolUseResult"))) for record in all_records]
    answered = {(session, str(result["agentId"])) for session, result in results if result.get("agentId") is not None}
    found = []
    for session in sessions:
        group = by_id[session.id]
        is_answered = group.agent is not None and (group.session, group.agent) in answered
        end = set() if is_answered else open_end(list(group.own.values()))
        first = next((n for n, turn in enumerate(session.paths[0]) if end & set(turn.source_ids)), None)
        if first is not None and not end & goes_on:
            surely = is_incomplete([group.own[each] for each in end])
            turns, file = len(session.paths[0]) - first, group.own[next(iter(end))].file
            session = replace(session, open_turns=turns, open_in=file, open_surely=surely)  # noqa: PLW2901
        found.append(session)
    return found


def _beginning(group: _SessionRecords, owners: _Owners, reading: _Reading) -> tuple[str | None, set[str]]:
    """Return the record of another session that this one goes on from, and all records there that its own follow."""
    copies = {record.id: record.original for record in group.all.values() if record.id not in group.own}
    first = next(iter(group.own.values()), None)
    before = next(reversed(copies), None) if first is None else first.parent
    if first is not None and before is None and copies:
        earlier = [each for each in takewhile(first.id.__ne__, group.all) if each in copies]
        before = earlier[-1] if earlier else None
    if before is None or before in group.own:
        return None, set(copies)
    original = copies.get(before, before)
    roots = {*copies, before}
    owner = owners.get(original)
    if owner is None:
        what = "which may be in the store" if group.agent is None else "and begins there"
        reading.notes.append(f"session {group.id} follows the record {original!r}, which is not here, {what}")
        return (original if group.agent is None else None), roots
    if group.agent is not None and owner.agent is None:
        return None, roots
    continues = _audible(original, owners)
    following = [record for record in group.own.values() if record.parent in copies]
    if astray := [r.id for r in following if _audible(copies[str(r.parent)], owners) != continues]:
        reading.note(group, "elsewhere", astray)
    return continues, roots


def _audible(record_id: str, owners: _Owners) -> str | None:
    """Return the nearest record, from this one back, that makes a turn."""
    seen: set[str] = set()
    current: str | None = record_id
    while current is not None and current in owners and current not in seen:
        seen.add(current)
        record = owners[current].own[current]
        if record.kind != "link":
            return current
        current = record.parent
    return None


def _paths(
    group: _SessionRecords, own: Sequence[Record], roots: set[str], common: Mapping[str, Any], reading: _Reading
) -> tuple[tuple[SourceTurn, ...], ...]:
    """Return the turns of every branch to its end, those of the branch with the last record first."""
    noted: dict[str, list[str]] = {}
    made, main = find_branches(own, roots, lambda kind, entry_id: noted.setdefault(kind, []).append(entry_id))
    timeless = [record.id for record in own if record.time is None and record.kind != "link"]
    for kind, ids in (*noted.items(), *([("no time", timeless)] if timeless else [])):
        reading.note(group, kind, ids)
    if main is None:
        return ((),)
    turns = turns_of(made, group.own, common)

    def path(branch: Chain) -> tuple[SourceTurn, ...]:
        return tuple(turn for each in branch.lineage() for turn in turns[each])

    others = [branch for branch in made if branch.latest is None and branch is not main]
    return (path(main), *(path(branch) for branch in others))


# --- turns


@dataclass(slots=True, eq=False)
class _BranchTurns:
    """The records of the turns of one branch, as they come together."""

    before: int
    """How many turns the branches before this one have."""
    messages: dict[str, list[Record]] = field(default_factory=dict)
    """The assistant's messages that may still get more lines, by their id."""
    groups: list[list[Record]] = field(default_factory=list)

    def place(self, record: Record) -> None:
        """Put a record into the turn that it belongs to: one that is there, or a new one."""
        message_id = as_text(record.message.get("id")) if record.kind == "assistant" else None
        last = self.groups[-1] if self.groups else []
        if message_id in self.messages:
            self.messages[message_id].append(record)
        elif record.is_summary and len(last) == 1 and last[0].kind == "compact_boundary":
            last.append(record)
        else:
            self.groups.append([record])
            if record.kind == "compact_boundary" or record.is_summary:
                self.messages.clear()  # what comes again after a compaction is a copy, not more of the same message
            elif message_id is not None:
                self.messages[message_id] = self.groups[-1]


def turns_of(
    branches: Sequence[Chain], records: Mapping[str, Record], common: Mapping[str, Any]
) -> dict[Chain, tuple[SourceTurn, ...]]:
    """Return the turns of each branch; parents come before the branches that leave them.

    An assistant's message is one turn where its first line stands, however many lines it has. `common` is what the
    session keeps once: a turn keeps only what differs.
    """
    spoken: dict[Chain, _BranchTurns] = {}
    for branch in branches:
        above = _BranchTurns(0) if branch.parent is None else spoken[branch.parent]
        spoken[branch] = mine = _BranchTurns(above.before + len(above.groups), dict(above.messages))
        for record in (records[each] for each in branch.ids):
            if record.kind != "link":
                mine.place(record)
    return {
        branch: tuple(_turn(group, common, index) for index, group in enumerate(each.groups, each.before))
        for branch, each in spoken.items()
    }


def open_end(records: Sequence[Record]) -> set[str]:
    """Return the ids of the records, of those of a session in the order of its file, of a turn that may still get more.

    An assistant's message comes in several lines. It is whole once something follows it that can only follow it: another
    message, a prompt, a compaction, the word that the turn is over. Results of its own tools do not: they come while its
    further calls are still being written. A line's stop reason ends it where that is no call and more than a thought is
    said: some versions write the message's reason into all its lines. Whether another last message is whole, no line
    says. A compaction's boundary waits for its summary.
    """
    message: list[Record] = []
    boundary: Record | None = None
    for record in records:
        if record.kind == "assistant":
            message_id = record.message.get("id")
            same = bool(message) and message[-1].message.get("id") == message_id
            message = [*message, record] if same else [record] if isinstance(message_id, str) and message_id else []
        elif (
            (record.is_prompt and record.raw.get("isMeta") is not True)
            or (record.raw["type"] == "system" and str(record.raw.get("subtype")) in _OVER)
            or record.is_summary
            or record.kind == "compact_boundary"
        ):
            message = []
        if record.kind == "compact_boundary":
            boundary = record
        elif record.kind not in _ADDED:
            boundary = None
    if boundary is not None:
        return {boundary.id}
    if any(record.message.get("stop_reason") not in (None, _CALLS) for record in message) and not _only_thinks(message):
        return set()
    return {record.id for record in message}


def is_incomplete(end: Sequence[Record]) -> bool:
    """Tell whether a turn of these records lacks something for sure: it only thinks, calls nothing, or has no summary."""
    calls = any(part.get("type") == _CALLS for record in end for part in record.parts)
    to_call = any(record.message.get("stop_reason") == _CALLS for record in end)
    return _only_thinks(end) or end[0].kind == "compact_boundary" or (to_call and not calls)


def _only_thinks(records: Sequence[Record]) -> bool:
    return all(record.is_thought for record in records)


def _turn(records: Sequence[Record], common: Mapping[str, Any], index: int) -> SourceTurn:
    first = records[0]
    if first.kind == "compact_boundary" or first.is_summary:
        return _summary(records, common, index)

    def last(values: Iterable[Any]) -> Any:
        return next((value for value in reversed([*values]) if value is not None), None)

    meta: dict[str, Any] = {}
    for record in records:  # if lines of one message differ, the first one counts
        spent = meta.keys() if record is first else {*meta, "parentUuid"}
        meta |= without_keys(leftovers(record, common), *spent)
    return SourceTurn(
        role=_role(first),
        pieces=tuple(Piece(record.id, record.content) for record in records),
        time=first.time,
        model=last(record.named("model") for record in records),
        usage=last(record.usage() for record in records),
        stop_reason=last(record.named("stop_reason") for record in records),
        tool_results=tuple(result for record in records for result in _tool_outcomes(record)),
        meta=meta,
    )


def _role(record: Record) -> str:
    if record.kind == "user" and record.answers_tools:
        return "tool"
    if record.is_task_notice and not record.is_summary:
        return "attachment"  # as the notice that comes while the model works is
    return "error" if record.is_error_notice else _ROLES.get(record.kind, record.kind)


def _tool_outcomes(record: Record) -> Iterator[dict[str, Any]]:
    """Yield how a tool call ended if the user refused it or broke it off; the line has one result then."""
    answers = results_in(record.content) if isinstance(record.content, tuple) else ()
    result = record.raw.get("toolUseResult")
    outcome = "cancelled" if as_object(result).get("interrupted") is True else None
    outcome = "refused" if result == _REFUSED else outcome
    if len(answers) == 1 and outcome:
        yield {"call_id": answers[0].call_id, "outcome": outcome}


def _summary(records: Sequence[Record], common: Mapping[str, Any], index: int) -> SourceTurn:
    """Return the turn of a summary: its text; what the boundary said is metadata."""
    first = records[0]
    boundary = first.raw if first.kind == "compact_boundary" else {}
    details = as_object(boundary.get("compactMetadata"))
    trigger, tokens = details.get("trigger"), details.get("preTokens")
    return SourceTurn(
        role="summary",
        pieces=tuple(Piece(r.id, () if r.kind == "compact_boundary" else r.content) for r in records),
        time=first.time,
        compaction=Compaction(
            summarised_through=index - 1 if index else None,
            tokens_before=tokens if type(tokens) is int and 0 <= tokens < 2**63 else None,
            trigger=_TRIGGERS.get(trigger, trigger) if isinstance(trigger, str) else None,
        ),
        meta=leftovers(records[-1], common) | ({_BOUNDARY: leftovers(first, common)} if boundary else {}),
    )
