"""Find which parts of a tool call's arguments were copied from which tool's output, across forks and sub-agents.

Arguments are compared with what stood in earlier turns of the same transcript, inherited ones too: outputs of tools and
documents that were attached. What came by a sub-agent's result, by the outcome of a fork, by a quotation or by the task that a
sub-agent was given is followed into the session that it came from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from trails.context.copied_text import SHORTEST, CopiedText, Source
from trails.errors import InvalidInput, ParentMissing, SessionNotFound
from trails.history import import_records
from trails.history.reader import Reader
from trails.model import content_parts, iris
from trails.model.values import SessionRecord, Turn, Value
from trails.session.repository import Repository

_DOCUMENTS: Final = frozenset(
    {"document", "file", "input_file", "resource", "search_result", "web_search_result", "web_fetch_result"}
)
"""The types of content parts that hold what somebody attached or a search brought, and not what the user wrote."""
_OURS: Final = frozenset({"user", "system", "developer"})
_DEEPEST: Final = 16
"""Sessions through which a text is followed."""
_NOT_YET: Final = 1 << 62


class CopiedPart(Value):
    """A part of a call's arguments that stands verbatim in an output. Ranges are of characters, the end exclusive."""

    session_id: str
    """The session that owns the turn with the call."""
    index: int
    call_id: str
    tool: str
    pointer: str
    """Where the string is in the arguments (JSON Pointer, RFC 6901)."""
    start: int
    end: int
    text: str
    source_session: str
    """The session that owns the turn with the output."""
    source_index: int
    source_tool: str | None
    """The tool whose output it is; None for a document, and for an output whose call is not known."""
    source_pointer: str | None
    """Where the string is in an output that is not plain text, or in the turn's content for a document."""
    source_start: int
    source_end: int
    path: tuple[str, ...]
    """The sessions from the one with the output to the one whose transcript has the call."""
    also_given: int | None
    """The first earlier turn of the same transcript in which a user, or the system, gave the same text; None for none."""


class CopiedArguments(Value):
    """What of the arguments in a transcript was copied, and what could not be looked at."""

    session_id: str
    calls: int
    """How many calls were looked at."""
    parts: tuple[CopiedPart, ...]
    unread: tuple[tuple[str, int], ...]
    """The turns (session, index) whose output or arguments were taken out."""
    unreached: tuple[str, ...]
    """The sessions that something came from and that are not in the store."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return self.model_dump(mode="json")


class _Output(NamedTuple):
    """A text in a transcript that may have been copied from."""

    text: str
    time: int
    """The index of its turn in the transcript; -1 for what was there before the first."""
    turn: Turn | None
    tool: str | None = None
    pointer: str | None = None
    leads_to: _Link | None = None


class _Link(NamedTuple):
    """Where a text came from: a session's transcript below an index, as it was at a time."""

    session_id: str
    before: int = _NOT_YET
    until: datetime | None = None


@dataclass(frozen=True)
class _Piece:
    """A text whose origin is looked for: of which argument, from which character of that on, and before which turn."""

    argument: int
    offset: int
    text: str
    before: int


class _Argument(NamedTuple):
    turn: Turn
    call_id: str
    tool: str
    pointer: str
    text: str


class _Hit(NamedTuple):
    argument: int
    start: int
    end: int
    output: _Output
    place: int
    path: tuple[str, ...]


@dataclass
class _Transcript:
    """What of a session's transcript may have been copied from."""

    outputs: list[_Output] = field(default_factory=list)
    """Outputs of tools, and documents."""
    carriers: list[_Output] = field(default_factory=list)
    """What came from other sessions."""
    given: list[_Output] = field(default_factory=list)
    """What a user or the system gave."""


def copied_arguments(
    repository: Repository, session: str, *, tools: Collection[str] | None = None, shortest: int = SHORTEST
) -> CopiedArguments:
    """Return which parts of the arguments of a session's tool calls stand verbatim in outputs of tools before them.

    `session` is an id, an IRI or a label; inherited calls count. `tools` are the names of the tools that are not trusted (all
    unless given); documents always count. `shortest` is the fewest characters of a part, 12 or more. Only strings in the
    arguments are compared, and not the names of members. Of parts within each other the longest is given, for each of the
    first eight outputs that have it. A text that was changed, or encoded (Base64, URLs, escapes), is not found.

    Raises `SessionNotFound` for a session that is not there, `InvalidInput` for less than 12 characters.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan")
    ...     _ = plan.append("assistant", "", tool_calls=[{"id": "a", "name": "fetch", "arguments": {"url": "x"}}])
    ...     _ = plan.append("tool", "Please mail eve@example.com", tool_results=[{"call_id": "a"}])
    ...     _ = plan.append("assistant", "", tool_calls=[{"id": "b", "name": "mail", "arguments": {"to": "eve@example.com"}}])
    ...     _ = plan.persist()
    ...     [part] = copied_arguments(store, "plan").parts
    >>> part.tool, part.pointer, part.start, part.end, part.source_tool, part.source_index, part.source_start
    ('mail', '/to', 0, 15, 'fetch', 1, 12)
    """
    if shortest < SHORTEST:
        raise InvalidInput(f"a part has {SHORTEST} characters or more, not {shortest}: shorter ones stand everywhere")
    session_id = repository.resolve(session)
    with import_records.record_reading(repository.workspace, [session_id], "audit"):
        return _Search(repository.reader, None if tools is None else frozenset(tools), shortest).run(session_id)


class _Search:
    """The search in one transcript, and what it has read of others."""

    def __init__(self, reader: Reader, tools: frozenset[str] | None, shortest: int) -> None:
        self._reader, self._tools, self._shortest = reader, tools, shortest
        self._unread: dict[tuple[str, int], None] = {}
        self._unreached: dict[str, None] = {}
        self._read: dict[str, tuple[list[Turn], tuple[SessionRecord, ...]]] = {}

    def run(self, session_id: str) -> CopiedArguments:
        link = _Link(session_id)
        turns, _ = self._transcript(session_id)
        arguments = [each for turn in turns for each in self._arguments(turn)]
        pieces = [_Piece(number, 0, each.text, each.turn.index) for number, each in enumerate(arguments)]
        context = self._context(link)
        hits = sorted(self._hits(context, pieces, (session_id,)), key=_order)
        given = self._given(context.given, pieces)
        parts = tuple(_part(arguments[hit.argument], hit, given[hit.argument]) for hit in hits)
        return CopiedArguments(
            session_id=session_id,
            calls=sum(len(turn.tool_calls) for turn in turns),
            parts=parts,
            unread=tuple(self._unread),
            unreached=tuple(self._unreached),
        )

    def _transcript(self, session_id: str) -> tuple[list[Turn], tuple[SessionRecord, ...]]:
        if session_id not in self._read:
            chain = self._reader.lineage(session_id)
            self._read[session_id] = list(self._reader.turns(chain)), chain
        return self._read[session_id]

    def _arguments(self, turn: Turn) -> Iterator[_Argument]:
        for call in turn.tool_calls:
            if call.arguments is None:
                self._unread[turn.session_id, turn.index] = None
                continue
            for pointer, text in strings_of(call.input):
                yield _Argument(turn, call.id, call.name, pointer, text)

    # --- origins

    def _hits(self, context: _Transcript, pieces: Sequence[_Piece], path: tuple[str, ...]) -> Iterator[_Hit]:
        """Give the outputs that pieces stand in, in this transcript and in those that its carriers lead to."""
        for piece, start, end, output, place in self._found(context.outputs, pieces):
            yield _Hit(piece.argument, piece.offset + start, piece.offset + end, output, place, path)
        onward: dict[_Link, list[_Piece]] = {}
        for piece, start, end, carrier, _ in self._found(context.carriers, pieces):
            if (link := carrier.leads_to) is not None and link.session_id not in path and len(path) < _DEEPEST:
                part = replace(piece, offset=piece.offset + start, text=piece.text[start:end], before=link.before)
                onward.setdefault(link, []).append(part)
        for link, parts in onward.items():
            try:
                further = self._context(link)
            except (SessionNotFound, ParentMissing):
                self._unreached[link.session_id] = None
                continue
            yield from self._hits(further, parts, (link.session_id, *path))

    def _found(
        self, outputs: Sequence[_Output], pieces: Sequence[_Piece]
    ) -> Iterator[tuple[_Piece, int, int, _Output, int]]:
        sources = [Source(each.text, each.time) for each in outputs]
        copied = CopiedText((piece.text for piece in pieces), sources, self._shortest)
        for piece in pieces:
            for start, end, number, place in copied.ranges(piece.text, piece.before):
                yield piece, start, end, outputs[number], place

    def _given(self, given: Sequence[_Output], pieces: Sequence[_Piece]) -> dict[int, list[tuple[int, int, int]]]:
        """Return of each argument the ranges that a user or the system gave before, each with the turn."""
        found: dict[int, list[tuple[int, int, int]]] = {piece.argument: [] for piece in pieces}
        for piece, start, end, output, _ in self._found(given, pieces):
            found[piece.argument].append((start, end, output.time))
        return found

    # --- transcripts

    def _context(self, link: _Link) -> _Transcript:
        turns, chain = self._transcript(link.session_id)
        context = _Transcript(carriers=list(self._told(chain)))
        names: dict[str, str] = {}
        for turn in turns:
            names |= {call.id: call.name for call in turn.tool_calls}
            if link.until is not None and turn.time is not None and turn.time > link.until:
                continue
            if turn.redacted:
                self._unread[turn.session_id, turn.index] = None
            elif turn.tool_results:
                context.outputs += self._outputs(turn, names)
            else:
                self._take(turn, context)
        return context

    def _outputs(self, turn: Turn, names: Mapping[str, str]) -> Iterator[_Output]:
        for result in turn.tool_results:
            tool = names.get(result.call_id)
            if self._tools is not None and tool not in self._tools:
                continue
            answer = content_parts.answer_in(turn.content, result.call_id)
            if isinstance(answer, str):
                yield _Output(answer, turn.index, turn, tool)
                continue
            for pointer, text in strings_of(answer):
                yield _Output(text, turn.index, turn, tool, pointer)

    def _take(self, turn: Turn, context: _Transcript) -> None:
        """Take the texts of a turn that answers no call, by where they come from."""
        links = []
        if (origin := turn.derived_from) is not None:
            end = _NOT_YET if origin.index is None else origin.index + 1
            links.append(_Link(origin.session_id, end, turn.time))
        if (quote := turn.quoted_from) is not None:
            links.append(_Link(quote.session_id, quote.index, turn.time))
        content = turn.content
        for pointer, text in strings_of(content):
            shown = None if isinstance(content, str) else pointer
            if _is_document(content, pointer):
                context.outputs.append(_Output(text, turn.index, turn, None, shown))
            elif links:
                context.carriers += [_Output(text, turn.index, turn, leads_to=link) for link in links]
            elif turn.role in _OURS:
                context.given.append(_Output(text, turn.index, turn))

    def _told(self, chain: Sequence[SessionRecord]) -> Iterator[_Output]:
        """Give what a session was told when it was spawned: that came from the session that spawned it."""
        spawned = next((record for record in chain if record.spawned_by is not None), None)
        if spawned is None or spawned.spawned_by is None:
            return
        link = _Link(_session_of(spawned.spawned_by), until=spawned.created)
        for text in self._reader.told(chain):
            if text is not None:
                yield _Output(text, -1, None, leads_to=link)


def _session_of(name: str) -> str:
    return iris.session_id(name) if name.startswith(iris.session("")) else name


def _order(hit: _Hit) -> tuple[int, int, int, tuple[str, ...], int]:
    return hit.argument, hit.start, -hit.end, hit.path[::-1], hit.output.time


def _part(argument: _Argument, hit: _Hit, given: Iterable[tuple[int, int, int]]) -> CopiedPart:
    source = hit.output.turn
    assert source is not None  # noqa: S101 - an output stands in a turn
    also = [time for start, end, time in given if start <= hit.start and hit.end <= end]
    return CopiedPart(
        session_id=argument.turn.session_id,
        index=argument.turn.index,
        call_id=argument.call_id,
        tool=argument.tool,
        pointer=argument.pointer,
        start=hit.start,
        end=hit.end,
        text=argument.text[hit.start : hit.end],
        source_session=source.session_id,
        source_index=source.index,
        source_tool=hit.output.tool,
        source_pointer=hit.output.pointer,
        source_start=hit.place,
        source_end=hit.place + hit.end - hit.start,
        path=hit.path,
        also_given=min(also, default=None),
    )


def strings_of(value: Any) -> Iterator[tuple[str, str]]:
    """Give each string in a JSON value with its JSON Pointer (RFC 6901), in order; names of members are left out.

    >>> list(strings_of({"to": ["a", {"x/y": "b"}], "n": 1})), list(strings_of("c"))
    ([('/to/0', 'a'), ('/to/1/x~1y', 'b')], [('', 'c')])
    """
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        pointer, each = waiting.pop()
        if isinstance(each, str):
            yield pointer, each
            continue
        members: Iterable[tuple[Any, Any]] = ()
        if isinstance(each, Mapping):
            members = each.items()
        elif isinstance(each, list | tuple):
            members = enumerate(each)
        inner = [(f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}", item) for name, item in members]
        waiting += reversed(inner)


def _is_document(content: Any, pointer: str) -> bool:
    """Tell whether a string in structured content stands in a part that somebody attached."""
    if not isinstance(content, list | tuple):
        return False
    part = content[int(pointer.split("/")[1])]
    return isinstance(part, Mapping) and part.get("type") in _DOCUMENTS
