"""Playing a recorded session: calls of models and tools are answered as they were, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from trails import parts, replies, validate
from trails.errors import InvalidInput, RecordMiss
from trails.handles import Handle
from trails.model import SessionRecord, ToolCall, Turn
from trails.plumbing import draft
from trails.session.recorded import Difference, OpenCalls, Recording, SaidChain, ToolAnswer, difference, part_of
from trails.session.session import Session


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
                raise missed(self._record, "input", difference(self._index, turn, None))
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
        self,
        call: ToolCall | str,
        arguments: Any = None,
        *,
        before: Session | Iterable[object] | None = None,
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
            raise missed(self._record, f"tool {asked.name!r}", open_calls.missing(asked, self._index))
        answer = self._record.answer(open_calls.asking.index, position)
        if answer is None:
            raise missed(self._record, f"tool {asked.name!r}", unanswered(open_calls, position, self._index))
        open_calls.answers[position] = answer
        self._pass_answers()
        return answer

    def _open_calls(self, chain: SaidChain | None) -> OpenCalls:
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

    def _chain(self, before: Session | Iterable[object]) -> SaidChain:
        return chain_of(before, self._record, self._system)

    def _place(self, chain: SaidChain, wanted: str) -> int:
        place = self._record.place(chain.digest)
        return self._differs(chain, wanted) if place is None else place

    def _differs(self, chain: SaidChain, wanted: str) -> NoReturn:
        found = self._record.differs(chain)
        raise missed(self._record, wanted, found or difference(len(chain), None, None))

    def _no_model(self) -> NoReturn:
        raise missed(self._record, "a model", no_answer(self._record, self._index))


def no_answer(record: Recording, index: int) -> Difference:
    """Return why the record has no answer of a model at an index, where all before it agrees."""
    if index >= len(record):
        return difference(index, None, None)
    there = record.turns[index]
    if there.redacted:
        return difference(index, there, None)
    return Difference(index, "who speaks next", part_of(there), "model")


def unanswered(open_calls: OpenCalls, position: int, index: int) -> Difference:
    """Return why a call that was recorded has no answer; `index` is where that would stand."""
    return Difference(index, f"no answer to {open_calls.calls[position].name} that could be read", None, None)


def missed(record: Recording, wanted: str, found: Difference) -> RecordMiss:
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
    name = validate.name(call, "a tool's name")
    return ToolCall(id="", name=name, arguments=parts.arguments_json({} if arguments is None else arguments))


def chain_of(before: Session | Iterable[object], record: Recording, system: str | None) -> SaidChain:
    """Return a transcript that a caller gives: a session, its turns, or messages as an API has them."""
    chain = SaidChain()
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
        message = replies.history([each])[0]
        if message.role in replies.SYSTEM_ROLES and not len(chain):
            if (prompt := replies.prompt_of(message)) != system:
                raise missed(record, "a model", Difference(0, "system prompt", _short(system), _short(prompt)))
            continue
        chain.add(turn_of(draft.checked(record.session_id, *message), number))
    return chain


def turn_of(made: draft.Draft, index: int) -> Turn:
    """Return a draft as a turn to compare by: it says what it says, and stands nowhere."""
    return made.turn(_NOWHERE, index, "0" * 64)


_NOWHERE = SessionRecord(id="nowhere", principal="anonymous", agent="agent")


def _short(text: str | None) -> str | None:
    return None if text is None else repr(text[:60])
