"""Link Claude Code records to branches and make their turns.

The rules of where a user went back and began again come from counting real sessions: of 15,437 records with several
successors, two were forks that a user made. The others are the way the program writes: progress beside the message it reports
on, results of parallel tools, the replay of a compaction. So everything is linked first, and forks are looked for in the
links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from trails.exchange.coding_agents.claude_code_records import Record, leftovers
from trails.exchange.json_files import as_object, as_text, without_keys
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.model.content_parts import results_in
from trails.model.values import Compaction

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
