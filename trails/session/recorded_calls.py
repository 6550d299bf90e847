"""Answer calls of models and tools from a recorded session; nothing is written.

The record finds an answer by the chain of turns before the call, by the call itself, and by how many equal calls came
before.

Two turns are compared by what they say: role, content, tool calls and the calls that they answer. Author, time and the
ids of calls do not count. The digest of a chain covers what each of its turns says, in order. It is not the turns' own
digest, which covers salts and times that no second run could have.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from trails.compare.session_diff import TurnTexts
from trails.compare.value_diff import call_key
from trails.errors import InvalidInput, RecordMiss
from trails.handles import Handle
from trails.history import turn_builder
from trails.history.turn_builder import ANSWERING
from trails.model import content_parts, sdk_messages, validation
from trails.model.values import SessionRecord, ToolCall, Turn
from trails.session.session import Session

RecordedPart = Literal["input", "model", "tool"]
"""Who speaks in a turn: whoever is outside, a model, or the tools that it called."""
_MODELS: Final = frozenset({"assistant", "model", "ai"})
_START: Final = hashlib.sha256(b"trails/said/1").hexdigest()
_SHOWN: Final = 60
"""How many characters of a text are shown where it differs."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answered: text, or what stands in its place in structured content; `turn` is the recorded turn."""

    content: Any
    is_error: bool = False
    turn: Turn | None = None
    """The turn of the record that says so; None for an answer that was not recorded."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, ready for JSON."""
        plain = {"content": self.content, "is_error": self.is_error}
        return plain if self.turn is None else plain | {"recorded": self.turn.index}


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two transcripts first differ: the index, what differs there, and what each says (None where it says nothing)."""

    index: int
    what: str
    recorded: str | None
    found: str | None

    @property
    def text(self) -> str:
        """The difference in words."""
        said = [
            f"{side} {value}" for side, value in (("recorded", self.recorded), ("now", self.found)) if value is not None
        ]
        return f"{self.what}: {', '.join(said)}" if said else self.what

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as plain values, ready for JSON."""
        return {"index": self.index, "what": self.what, "recorded": self.recorded, "found": self.found}


def part_of(turn: Turn) -> RecordedPart:
    """Return who speaks in a turn. A summary that a compaction made counts as input: no agent asked for it.

    >>> import trails
    >>> with trails.open(":memory:") as store, store.create() as s:
    ...     part_of(s.append("user", "Hi")), part_of(s.append("assistant", "Hello"))
    ('input', 'model')
    """
    if turn.tool_results or turn.role in ANSWERING:
        return "tool"
    if turn.compaction is not None:
        return "input"
    speaks = turn.role in _MODELS or turn.tool_calls or turn.facts.model_call is not None
    return "model" if speaks else "input"


class CallChain:
    """A transcript as it grows, and the digest of what it says."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.digests = [_START]
        """The digest of each beginning: of none of its turns, of the first, of the first two, and so on."""
        self._telling = TurnTexts(outcomes=False)

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def digest(self) -> str:
        """The digest of all of it."""
        return self.digests[-1]

    def add(self, turn: Turn) -> None:
        """Add a turn at the end."""
        digest = self._digest(self._telling.text(turn).key)
        self.turns.append(turn)
        self.digests.append(digest)

    def digest_with(self, turn: Turn) -> str:
        """Return the digest that the chain would have with another turn at the end."""
        return self._digest(self._telling.peek(turn).key)

    def _digest(self, said: str) -> str:
        return hashlib.sha256(self.digest.encode() + said.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an answer to a tool call stands: the turn that answers, and the call."""

    turn: int
    call_id: str
    is_error: bool


class Recording:
    """A transcript that was recorded, and what it answers. It never changes, and may be shared by threads."""

    def __init__(self, session_id: str, turns: Sequence[Turn]) -> None:
        """Read a transcript once."""
        chain = CallChain()
        for turn in turns:
            chain.add(turn)
        self.session_id = session_id
        self.turns: Sequence[Turn] = chain.turns
        self.digests: Sequence[str] = chain.digests
        self._after: Mapping[str, int] = {digest: index for index, digest in enumerate(self.digests)}
        self._answers = _answers(self.turns)
        self._answered_in: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for asked, place in self._answers.items():
            self._answered_in[place.turn].append(asked)

    def __len__(self) -> int:
        return len(self.turns)

    def place(self, digest: str) -> int | None:
        """Return how many turns of the record a chain with this digest is; None where it is none of its beginnings."""
        return self._after.get(digest)

    def agrees(self, index: int, digest: str) -> bool:
        """Tell whether a chain of `index` turns with this digest is the beginning of the record."""
        return index < len(self.digests) and self.digests[index] == digest

    def model(self, digest: str) -> Turn | None:
        """Return what the model answered after a chain; None where the record has no such chain, or no answer there."""
        index = self._after.get(digest)
        if index is None or index == len(self.turns):
            return None
        found = self.turns[index]
        return found if part_of(found) == "model" and not found.redacted else None

    def answer(self, asking: int, position: int) -> ToolAnswer | None:
        """Return the answer to the call at a position of a turn's calls; None where there is none, or it was redacted."""
        place = self._answers.get((asking, position))
        if place is None or self.turns[place.turn].redacted:
            return None
        turn = self.turns[place.turn]
        return ToolAnswer(content_parts.answer_in(turn.content, place.call_id), place.is_error, turn)

    def answered_in(self, turn: int) -> list[tuple[int, int]]:
        """Return the calls that a turn answers, as (index of the asking turn, position); empty for any other turn."""
        return self._answered_in.get(turn, [])

    def differs(self, chain: CallChain) -> Difference | None:
        """Return where a chain is first not as the record is; None where it is a beginning of it."""
        wrong = next((n for n in range(len(chain)) if not self.agrees(n + 1, chain.digests[n + 1])), None)
        if wrong is None:
            return None
        return call_difference(wrong, self.turns[wrong] if wrong < len(self) else None, chain.turns[wrong])


class OpenCalls:
    """The tool calls of the last turn that made any, and which of them were answered."""

    def __init__(self, asking: Turn | None) -> None:
        self.asking = asking
        self.answers: dict[int, ToolAnswer] = {}
        """The answers so far, by the position of their call."""
        self._places: dict[str, list[int]] = defaultdict(list)
        for position, call in enumerate(self.calls):
            self._places[call_key(call)].append(position)

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The calls, in order."""
        return () if self.asking is None else self.asking.tool_calls

    def pick(self, call: ToolCall) -> int | None:
        """Return the position of the call that is meant; None where no such call is left.

        Of equal calls it is the one with the id that is asked for, else the first that has no answer yet.
        """
        left = [n for n in self._places.get(call_key(call), ()) if n not in self.answers]
        return next((n for n in left if self.calls[n].id == call.id), left[0] if left else None)

    def missing(self, call: ToolCall, index: int) -> Difference:
        """Return what is different about a call that `pick` does not find; `index` is where its answer would stand."""
        if self.asking is None:
            return Difference(index, "no tool was called before", None, call.name)
        if equal := len(self._places.get(call_key(call), ())):
            return Difference(index, f"number of equal calls of {call.name}", str(equal), str(equal + 1))
        left = [each for n, each in enumerate(self.calls) if n not in self.answers]
        nearest = next((each for each in left if each.name == call.name), left[0] if left else None)
        return calls_differ(index, nearest, call)


def _answers(turns: Sequence[Turn]) -> dict[tuple[int, int], _Place]:
    """Return where each tool call is answered first, by the latest turn before the answer that called with its id."""
    open_calls: dict[str, list[tuple[int, int]]] = {}
    found: dict[tuple[int, int], _Place] = {}
    for index, turn in enumerate(turns):
        for result in turn.tool_results:
            asked = next((each for each in open_calls.get(result.call_id, ()) if each not in found), None)
            if asked is not None:
                found[asked] = _Place(index, result.call_id, bool(result.came_out))
        own: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, call in enumerate(turn.tool_calls):
            own[call.id].append((index, position))
        open_calls |= own
    return found


# --- what differs


def call_difference(index: int, recorded: Turn | None, found: Turn | None) -> Difference:
    """Return what differs between two turns that do not say the same; None stands for the end of a transcript."""
    if recorded is None:
        return Difference(index, "the record ends", None, None if found is None else _role_and_text(found))
    if recorded.redacted:
        return Difference(
            index, "the recorded turn was redacted", None, None if found is None else _role_and_text(found)
        )
    if found is None:
        return Difference(index, "the run ends", _role_and_text(recorded), None)
    return _between(index, recorded, found)


def _between(index: int, recorded: Turn, found: Turn) -> Difference:
    if recorded.role != found.role:
        return Difference(index, "role", recorded.role, found.role)
    if (told := _calls_differ(index, recorded.tool_calls, found.tool_calls)) is not None:
        return told
    old, new = content_parts.plain_text(recorded.content), content_parts.plain_text(found.content)
    if old != new:
        return Difference(index, "text", *_excerpts(old, new))
    return Difference(index, "parts", *_excerpts(recorded.text, found.text))


def _calls_differ(index: int, recorded: Sequence[ToolCall], found: Sequence[ToolCall]) -> Difference | None:
    for old, new in zip(recorded, found, strict=False):
        if call_key(old) != call_key(new):
            return calls_differ(index, old, new)
    if len(recorded) != len(found):
        return Difference(index, "number of tool calls", str(len(recorded)), str(len(found)))
    return None


def calls_differ(index: int, recorded: ToolCall | None, found: ToolCall) -> Difference:
    """Return what differs between a recorded call and another one: the tool's name, or its arguments."""
    if recorded is None:
        return Difference(index, "tool call", None, _cut(f"{found.name} {found.arguments}"))
    if recorded.name != found.name:
        return Difference(index, "tool", recorded.name, found.name)
    return Difference(index, f"arguments of {found.name}", *_excerpts(str(recorded.arguments), str(found.arguments)))


def _role_and_text(turn: Turn) -> str:
    return _cut(f"{turn.role} {content_parts.plain_text(turn.content)!r}")


def _excerpts(old: str, new: str) -> tuple[str, str]:
    """Return two texts from shortly before where they begin to differ."""
    same = next(
        (n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    start = max(0, same - 20)
    return _cut(repr(old[start : start + _SHOWN + 1])), _cut(repr(new[start : start + _SHOWN + 1]))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class Player(Handle, public=True):
    """Answers calls of models and tools from the record of a session. Get one from `Repository.player`.

    It is asked in the order of the record, or each time with the transcript that comes before the call.
    """

    def __init__(self, record: Recording, system: str | None = None) -> None:
        """Not for callers: `Repository.player` makes players."""
        if not isinstance(record, Recording):
            raise InvalidInput("a Player is not made by its class: store.player(session) makes one")
        self._record = record
        self._system = system
        self._index = 0
        self._open: dict[str, OpenCalls] = {}

    def __repr__(self) -> str:
        return f"<Player of {self.session_id!r}: {self._index} of {len(self._record)} turns>"

    @property
    def session_id(self) -> str:
        """The id of the session that is played."""
        return self._record.session_id

    @property
    def index(self) -> int:
        """How many turns of the record were played: where the next one stands, and where a fork goes on live."""
        return self._index

    def __len__(self) -> int:
        """Return how many turns the record has that are played."""
        return len(self._record)

    def input(self) -> tuple[Turn, ...]:
        """Return the turns from outside (of users, mostly) that stand next in the record; none where none do."""
        found = []
        while self._index < len(self) and part_of(turn := self._record.turns[self._index]) == "input":
            if turn.redacted:
                raise missed_call(self._record, "input", call_difference(self._index, turn, None))
            found.append(turn)
            self._index += 1
        return tuple(found)

    def model(self, before: Session | Iterable[object] | None = None) -> Turn:
        """Return the turn that the model answered next, or after `before`: a session, or a list of turns or messages.

        Messages are those of `Session.extend`, in the shape in which the session was recorded. A system message at their
        beginning must say what the session's system prompt says. An answer that is asked for again begins its tool calls anew.

        Raises `RecordMiss` where the record has no such transcript before an answer, naming where the two first differ.
        """
        if before is not None:
            self._index = self._place(self._chain(before), "a model")
        found = self._record.model(self._record.digests[self._index])
        if found is None:
            self._no_model()
        self._index += 1
        self._open.pop(self._record.digests[self._index], None)
        return found

    def tool(
        self, call: ToolCall | str, arguments: Any = None, *, before: Session | Iterable[object] | None = None
    ) -> ToolAnswer:
        """Return what a tool answered: `call` is a `ToolCall`, or the tool's name beside its `arguments` (none: {}).

        The call must be one of the last turn that called tools, with the same name and arguments as JSON, whatever the
        order of keys. Equal calls of one turn get their answers in order. With `before`, the turn is the last of that
        transcript that called tools.

        Raises `RecordMiss` where the record has no such call there, or no answer to it.
        """
        asked = named_call(call, arguments)
        open_calls = self._open_calls(None if before is None else self._chain(before))
        position = open_calls.pick(asked)
        if position is None or open_calls.asking is None:
            raise missed_call(self._record, f"tool {asked.name!r}", open_calls.missing(asked, self._index))
        answer = self._record.answer(open_calls.asking.index, position)
        if answer is None:
            raise missed_call(self._record, f"tool {asked.name!r}", unanswered_call(open_calls, position, self._index))
        open_calls.answers[position] = answer
        self._pass_answers()
        return answer

    def _open_calls(self, chain: CallChain | None) -> OpenCalls:
        """Return the calls of the last turn before the place that called tools, or of the last of a chain that did."""
        turns = self._record.turns[: self._index] if chain is None else chain.turns
        asking = next((n for n in range(len(turns) - 1, -1, -1) if turns[n].tool_calls), None)
        if asking is None:
            return OpenCalls(None)
        if chain is not None:
            if not self._record.agrees(asking + 1, chain.digests[asking + 1]):
                self._differs(chain, "a tool")
            self._index = asking + 1
        found = self._open.setdefault(self._record.digests[asking + 1], OpenCalls(self._record.turns[asking]))
        self._pass_answers()
        return found

    def _pass_answers(self) -> None:
        while self._index < len(self) and (asked := self._record.answered_in(self._index)):
            for asking, position in asked:
                known = self._open.get(self._record.digests[asking + 1])
                if known is None or position not in known.answers:
                    return
            self._index += 1

    def _chain(self, before: Session | Iterable[object]) -> CallChain:
        return chain_of(before, self._record, self._system)

    def _place(self, chain: CallChain, wanted: str) -> int:
        place = self._record.place(chain.digest)
        return self._differs(chain, wanted) if place is None else place

    def _differs(self, chain: CallChain, wanted: str) -> NoReturn:
        found = self._record.differs(chain)
        raise missed_call(self._record, wanted, found or call_difference(len(chain), None, None))

    def _no_model(self) -> NoReturn:
        raise missed_call(self._record, "a model", no_answer(self._record, self._index))


def no_answer(record: Recording, index: int) -> Difference:
    """Return why the record has no answer of a model at an index, where all before it agrees."""
    if index >= len(record):
        return call_difference(index, None, None)
    there = record.turns[index]
    if there.redacted:
        return call_difference(index, there, None)
    return Difference(index, "who speaks next", part_of(there), "model")


def unanswered_call(open_calls: OpenCalls, position: int, index: int) -> Difference:
    """Return why a call that was recorded has no answer; `index` is where that would stand."""
    return Difference(index, f"no answer to {open_calls.calls[position].name} that could be read", None, None)


def missed_call(record: Recording, wanted: str, found: Difference) -> RecordMiss:
    """Return the error for a call that the record does not answer."""
    at = min(found.index, len(record))
    return RecordMiss(
        f"the record of session {record.session_id!r} has no answer for {wanted} at index {found.index}: {found.text}. "
        f"To go on live from there: store.load({record.session_id!r}).fork(at={at})",
        index=found.index,
        what=found.what,
        recorded=found.recorded,
        found=found.found,
    )


def named_call(call: ToolCall | str, arguments: Any = None) -> ToolCall:
    """Return a tool call as a caller gives it: the call itself, or the tool's name and its arguments."""
    if isinstance(call, ToolCall):
        if arguments is not None:
            raise InvalidInput("a ToolCall has its arguments with it; give those only beside a tool's name")
        return call
    name = validation.name(call, "a tool's name")
    return ToolCall(id="", name=name, arguments=content_parts.arguments_json({} if arguments is None else arguments))


def chain_of(before: Session | Iterable[object], record: Recording, system: str | None) -> CallChain:
    """Return a transcript that a caller gives: a session, its turns, or messages as an API has them."""
    chain = CallChain()
    if isinstance(before, Session):
        given: Iterable[object] = before.turns
    elif isinstance(before, str | bytes | Mapping) or not isinstance(before, Iterable):
        raise InvalidInput(f"what comes before a call is a session or a list of turns or messages, not {before!r:.80}")
    else:
        given = before
    for number, each in enumerate(given):
        if isinstance(each, Turn):
            chain.add(each)
            continue
        message = sdk_messages.history([each])[0]
        if message.role in sdk_messages.SYSTEM_ROLES and not len(chain):
            if (prompt := sdk_messages.prompt_of(message)) != system:
                raise missed_call(record, "a model", Difference(0, "system prompt", _short(system), _short(prompt)))
            continue
        chain.add(turn_of(turn_builder.check_fields(record.session_id, *message), number))
    return chain


def turn_of(made: turn_builder.Draft, index: int) -> Turn:
    """Return a draft as a turn to compare by: it says what it says, and stands nowhere."""
    return made.turn(_NOWHERE, index, "0" * 64)


_NOWHERE = SessionRecord(id="nowhere", principal="anonymous", agent="agent")


def _short(text: str | None) -> str | None:
    return None if text is None else repr(text[:60])
