"""What the store says of a session and of its turns, as the index keeps it: read from quads, and nothing else."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.integrity.digests import StoredTurn
from trails.model import content_parts, iris
from trails.model.validation import decodes, stored_object
from trails.model.values import Facts, ModelCall, ToolResult
from trails.plumbing.index.moments import micros
from trails.plumbing.index.said import Said, strings
from trails.rdf import vocab
from trails.rdf.codec import parse_time
from trails.rdf.session_records import decode_records
from trails.store.contract import Matching
from trails.usage import Counts, cost_of, counts_of

PROMPT_LENGTH: Final = 200
"""Characters of a first prompt that are kept."""
_MADE: Final = (vocab.STARTED_AT, vocab.ENDED_AT)
_KEPT: Final = (vocab.KEPT_START, vocab.KEPT_END)
_RAN: Final = (vocab.TOOL_STARTED_AT, vocab.TOOL_ENDED_AT)
_ASKED: Final = (vocab.STARTED_BY, vocab.KEPT_WITH)
"""What leads from a call, or from a model call that is kept, to its turn."""
_BESIDE: Final = (vocab.GENERATED_BY, vocab.HAS_RESULT)
_ANSWERING: Final = (vocab.TOOL_RESULT_OF, vocab.ANSWERS_COPY)
_ASSISTANT: Final = "assistant"
_UNKNOWN: Final = Counts()
_SOME: Final = 50
"""Turns that are read at once where the first of a kind is looked for."""
_Said = Mapping[NamedNode, Sequence[Any]]
"""The objects of one subject, by predicate."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as its row in the catalog says it. Times are microseconds since 1970 in UTC, None where unknown."""

    id: str
    created: int | None
    principal: str
    agent: str
    branch: str
    state: str
    kind: str | None
    label: str | None
    key: str | None
    parent: str | None
    starts_at: int
    title: str | None
    project: str | None
    meta: str | None


@dataclass(frozen=True, slots=True)
class CallRow:
    """A model call as the catalogue's queries count it: once for each digest, and the one with the least rank counts."""

    digest: str
    rank: int
    """0 where the call was made, 1 what a copy says of where it was made, 2 a copy that does not."""
    home: str
    """The id of the session that the call was made in, or of the one that holds the copy."""
    principal: str
    author: str
    """The IRI of who made the call: the turn's author."""
    model: str
    time: int | None
    provider: str
    began: int | None
    ended: int | None
    """When the call began and ended, as it was told."""
    tokens: Counts
    cost: float | None


@dataclass(frozen=True, slots=True)
class AskRow:
    """A tool call that a turn asks for, made there or kept with a copy of the turn."""

    iri: str
    call_id: str
    name: str | None
    """None for what Trails never writes: no text."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A tool's answer that a turn brings, as the catalogue's queries count it: once for each digest and call id."""

    call_id: str
    digest: str
    """The digest of the first turn that brought it."""
    rank: int
    """0 where it was brought first, 2 in a copy of that turn."""
    is_error: bool
    is_refused: bool
    began: int | None
    ended: int | None
    """When the tool began and ended, as it was told."""
    call: str | None
    """The IRI of the call that it answers, where that is known."""


class TurnRow(NamedTuple):
    """A turn that a session owns, with what may be found in it. Made for each turn of a store: a dataclass takes longer."""

    iri: str
    place: int
    """The turn's index in its transcript."""
    role: str
    author: str
    time: int | None
    digest: str
    is_copy: bool
    is_redacted: bool
    said: Said
    stored: str | None
    """Its content as it is stored, where that is not just what is shown: JSON, or what is left of what is redacted."""
    calls: tuple[CallRow, ...]
    lacks: bool
    """Whether it lacks what others have: a time, an assistant's turn its model, a model call its usage."""
    length: int
    """Characters of its content as it is stored; 0 for what is redacted."""
    asks: tuple[AskRow, ...] = ()
    answers: tuple[AnswerRow, ...] = ()

    @property
    def prompt(self) -> str:
        """The beginning of what a person would read of it, on one line; nothing for what is redacted."""
        plain = "" if self.is_redacted else self.said.shown
        return one_line(plain[: 4 * PROMPT_LENGTH])[:PROMPT_LENGTH]


@decodes
def session_row(store: Matching, session_id: str) -> SessionRow | None:
    """Return what the catalog says of a session, or None where there is no such session."""
    node = NamedNode(iris.session(session_id))
    quads = store.quads((node, None, None, vocab.CATALOG))
    found = decode_records((node.value, quad.predicate.value, quad.object) for quad in quads).get(session_id)
    if found is None:
        return None
    meta = dict(found.meta)
    return SessionRow(
        id=session_id,
        created=micros(found.created),
        principal=found.principal,
        agent=found.agent,
        branch=found.branch,
        state=found.state,
        kind=found.kind,
        label=found.label,
        key=found.key,
        parent=found.parent_session_id,
        starts_at=found.starts_at,
        title=_first_text(meta, "title"),
        project=_first_text(meta, "project", "cwd"),
        meta=found.meta_json,
    )


def tags(store: Matching) -> list[str]:
    """Return the names of the tags that there are."""
    found = store.quads((None, vocab.TYPE, vocab.TAG, vocab.CATALOG))
    return [iris.tag_name(quad.subject.value) or "" for quad in found]  # type: ignore[union-attr] # IRIs


def _first_text(meta: Mapping[str, Any], *keys: str) -> str | None:
    found = (meta.get(key) for key in keys)
    return next((one_line(text) for text in found if isinstance(text, str) and text.strip()), None)


def one_line(text: str) -> str:
    """Return a text with every run of white space as one space.

    >>> one_line(" a\\n  b ")
    'a b'
    """
    return " ".join(text.split())


def all_turns(store: Matching, row: SessionRow) -> list[TurnRow]:
    """Return all turns that a session owns, in order of index; copies that a detach has begun to make are none."""
    graph = NamedNode(iris.session(row.id))
    said = _by_subject(store.quads((None, None, None, graph)))
    return _turns_of(row, said)


def turns_from(store: Matching, row: SessionRow, index: int) -> list[TurnRow]:
    """Return the turns that a session owns from an index on, as far as there is one at each, reading nothing else."""
    graph = NamedNode(iris.session(row.id))
    quads: dict[Any, list[Quad]] = {}
    while _read_at(store, graph, index, quads):
        index += 1
    return _turns_of(row, _by_subject(chain.from_iterable(quads.values())))


def turns_at(store: Matching, row: SessionRow, indices: Iterable[int]) -> list[TurnRow]:
    """Return the turns that a session owns at some indices, reading nothing else."""
    graph = NamedNode(iris.session(row.id))
    quads: dict[Any, list[Quad]] = {}
    for index in indices:
        _read_at(store, graph, index, quads)
    wanted = set(indices)
    return [turn for turn in _turns_of(row, _by_subject(chain.from_iterable(quads.values()))) if turn.place in wanted]


def first_asked(store: Matching, row: SessionRow) -> tuple[str, int] | None:
    """Return what a user first asked in a session's own turns, and the index of that, reading no more than it must."""
    index = row.starts_at
    while turns := turns_at(store, row, range(index, index + _SOME)):
        asked = next(((turn.prompt, turn.place) for turn in turns if turn.role == "user" and turn.prompt), None)
        if asked is not None:
            return asked
        index += _SOME
    return None


def _read_at(store: Matching, graph: NamedNode, index: int, quads: dict[Any, list[Quad]]) -> bool:
    """Read the turns at an index into quads by subject; tell whether there is any."""
    found = [
        quad
        for quad in store.quads((None, vocab.INDEX, vocab.integer(index), graph))
        if getattr(quad.object, "value", None) == str(index)
    ]
    for turn in found:
        _read_turn(store, turn.subject, graph, quads)
    return bool(found)


def _read_turn(store: Matching, turn: Any, graph: NamedNode, quads: dict[Any, list[Quad]]) -> None:
    """Read a turn, and what stands beside it, into quads by subject: a call is beside its own turn and that which answers."""
    own = quads[turn] = store.quads((turn, None, None, graph))
    beside: set[Any] = {quad.object for quad in own if quad.predicate in _BESIDE}
    for link in _ASKED:
        beside |= {quad.subject for quad in store.quads((None, link, turn, graph))}
    for each in beside:
        if each not in quads:
            quads[each] = store.quads((each, None, None, graph))


def _by_subject(quads: Iterable[Quad]) -> dict[NamedNode, dict[NamedNode, list[Any]]]:
    found: dict[NamedNode, dict[NamedNode, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for quad in quads:
        if isinstance(quad.subject, NamedNode):
            found[quad.subject][quad.predicate].append(quad.object)
    return found


def plain_turn(
    *,
    iri: str,
    place: int,
    role: str,
    author: str,
    time: int | None,
    digest: str,
    text: str,
    structured: bool,
    redacted: bool,
) -> TurnRow:
    """Return a turn of a graph that holds what turns are written as, of which no more is recorded than is given here."""
    said, stored = _said(text, (), structured=structured, redacted=redacted), text if structured or redacted else None
    lacks = time is None or role == _ASSISTANT
    return TurnRow(iri, place, role, author, time, digest, False, redacted, said, stored, (), lacks, len(text))


@decodes
def written_turns(row: SessionRow, turns: Iterable[StoredTurn], answered: Mapping[str, str]) -> list[TurnRow]:
    """Return all turns that a session owns, as `all_turns` does, of a graph that was seen to hold what turns are written as.

    None of them may be a copy of another session's. `answered` has by the IRI of a tool's answer that of the call.
    """
    return [_written_turn(row, turn, answered) for turn in turns if turn.index >= row.starts_at]


def _written_turn(row: SessionRow, turn: StoredTurn, answered: Mapping[str, str]) -> TurnRow:
    plain = plain_turn(
        iri=turn.iri,
        place=turn.index,
        role=turn.role,
        author=turn.author_iri,
        time=micros(turn.time),
        digest=turn.digest,
        text=turn.text,
        structured=turn.structured,
        redacted=turn.redacted,
    )
    return with_facts(row, plain, turn.facts, answered)


def with_facts(row: SessionRow, turn: TurnRow, facts: Facts, answered: Mapping[str, str]) -> TurnRow:
    """Return what `plain_turn` gives of a turn with what is recorded with it; `answered` is as `written_turns` has it."""
    if facts.is_empty():
        return turn
    asked, brought = enumerate(facts.tool_calls), enumerate(facts.tool_results)
    return turn._replace(
        said=turn.said._replace(calls=tuple((call.name, call.arguments or "") for call in facts.tool_calls)),
        calls=() if facts.model_call is None else (_made_call(row, turn, facts.model_call),),
        lacks=turn.time is None or _lacks(turn.role, facts.model_call),
        asks=tuple(AskRow(iris.tool_call(turn.iri, at), call.id, call.name) for at, call in asked),
        answers=tuple(
            _written_answer(turn, result, answered.get(iris.tool_result(turn.iri, at))) for at, result in brought
        ),
    )


def _written_answer(turn: TurnRow, result: ToolResult, call: str | None) -> AnswerRow:
    return AnswerRow(
        call_id=result.call_id,
        digest=turn.digest,
        rank=0,
        is_error=result.is_error,
        is_refused=result.refused_by is not None,
        began=micros(result.started),
        ended=micros(result.ended),
        call=call,
    )


def _lacks(role: str, call: ModelCall | None) -> bool:
    has_model = call is not None and call.model is not None
    return (role == _ASSISTANT and not has_model) or (has_model and call is not None and call.usage_json is None)


def _made_call(row: SessionRow, turn: TurnRow, call: ModelCall) -> CallRow:
    made, told = (row.id, row.principal, turn.author), call.call
    began, ended = (None, None) if told is None else (micros(told.started), micros(told.ended))
    provider = "" if told is None else told.provider or ""
    spent = (_UNKNOWN, None) if call.usage_json is None else _reported(call.usage_json)
    return CallRow(turn.digest, 0, *made, call.model or "", turn.time, provider, began, ended, *spent)


@lru_cache(maxsize=512)
def _reported(usage_json: str) -> tuple[Counts, float | None]:
    """Return the tokens and the cost that a model call's usage reports."""
    usage = stored_object(usage_json)
    cost = cost_of(usage)
    return counts_of(usage), None if cost is None else float(cost)


@decodes
def _turns_of(row: SessionRow, said: Mapping[NamedNode, _Said]) -> list[TurnRow]:
    """Return the turns among what is said in a session's graph."""
    beside: dict[NamedNode, list[NamedNode]] = defaultdict(list)
    for subject, facts in said.items():
        for link in _ASKED:
            for turn in facts.get(link, ()):
                beside[turn].append(subject)
    found = [
        _turn(row, node, facts, said, beside.get(node, []))
        for node, facts in said.items()
        if vocab.INDEX in facts and vocab.ROLE in facts and vocab.VALUE in facts
    ]
    return sorted((turn for turn in found if turn.place >= row.starts_at), key=lambda turn: turn.place)


def _turn(
    row: SessionRow, node: NamedNode, facts: _Said, said: Mapping[NamedNode, _Said], beside: Iterable[NamedNode]
) -> TurnRow:
    tools = sorted((each for each in beside if "/call/" in each.value), key=lambda each: iris.position(each.value))
    content = facts[vocab.VALUE][0]
    what = said_in(
        content, [(_text(said[each], vocab.TOOL_NAME), _text(said[each], vocab.ARGUMENTS)) for each in tools]
    )
    time = _when(facts, vocab.TIME)
    return TurnRow(
        iri=node.value,
        place=int(facts[vocab.INDEX][0].value),
        role=facts[vocab.ROLE][0].value,
        author=facts[vocab.ATTRIBUTED_TO][0].value,
        time=time,
        digest=_text(facts, vocab.DIGEST),
        is_copy=vocab.ALTERNATE_OF in facts,
        is_redacted=content.datatype == vocab.REDACTED,
        said=what,
        stored=None if what.within is None else content.value,
        calls=tuple(_calls(row, node, said, beside, time)),
        lacks=time is None or _lacks_in(facts, said),
        length=len(content.value),
        asks=tuple(_asks(tools, said)),
        answers=tuple(_answers(node, facts, said)),
    )


def _lacks_in(facts: _Said, said: Mapping[NamedNode, _Said]) -> bool:
    calls = [said.get(each, {}) for each in facts.get(vocab.GENERATED_BY, ())]
    named = [call for call in calls if vocab.MODEL in call]
    if not named and facts[vocab.ROLE][0].value == _ASSISTANT:
        return True
    return any(vocab.USAGE not in call for call in named)


def said_in(content: Literal, calls: Iterable[tuple[str, str]]) -> Said:
    """Return what a turn with a content says, and calls; of a redacted one nothing is found, and its digest is shown."""
    kind = content.datatype
    return _said(content.value, tuple(calls), structured=kind == vocab.JSON, redacted=kind == vocab.REDACTED)


def _said(text: str, calls: tuple[tuple[str, str], ...], *, structured: bool, redacted: bool) -> Said:
    if redacted:
        return Said(text, (), calls)
    if not structured:
        return Said(text, None, calls)
    value = json.loads(text)
    return Said(content_parts.plain_text(value), tuple(strings(value)), calls)


def _text(facts: _Said, predicate: NamedNode) -> str:
    for each in facts.get(predicate, ()):
        if isinstance(each, Literal) and each.datatype != vocab.REDACTED:
            return each.value
    return ""


# --- tools


def _asks(tools: Iterable[NamedNode], said: Mapping[NamedNode, _Said]) -> Iterator[AskRow]:
    for each in tools:
        for call_id, name in product(said[each].get(vocab.CALL_ID, ()), said[each].get(vocab.TOOL_NAME, ())):
            is_text = isinstance(name, Literal) and name.datatype == vocab.STRING
            yield AskRow(each.value, call_id.value, name.value if is_text else None)


def _answers(node: NamedNode, facts: _Said, said: Mapping[NamedNode, _Said]) -> Iterator[AnswerRow]:
    quoted = _text(facts, vocab.QUOTED_DIGEST)
    is_copy = bool(quoted) or vocab.ALTERNATE_OF in facts
    digest = quoted or _text(facts, vocab.DIGEST) or node.value
    for result in sorted(facts.get(vocab.HAS_RESULT, ()), key=lambda each: each.value):
        told = said.get(result, {})
        if vocab.TOOL_RESULT not in told.get(vocab.TYPE, ()):
            continue
        calls = [call.value for link in _ANSWERING for call in told.get(link, ())] or [None]
        for call_id, call in product(told.get(vocab.CALL_ID, ()), calls):
            yield AnswerRow(
                call_id=call_id.value,
                digest=digest,
                rank=2 if is_copy else 0,
                is_error=_text(told, vocab.IS_ERROR) == "true",
                is_refused=vocab.REFUSED_BY in told,
                began=_when(told, _RAN[0]),
                ended=_when(told, _RAN[1]),
                call=call,
            )


# --- what was called for it


def _calls(
    row: SessionRow, node: NamedNode, said: Mapping[NamedNode, _Said], beside: Iterable[NamedNode], time: int | None
) -> Iterator[CallRow]:
    """Give the model calls that a turn tells of: those that it came of, and what a copy keeps of one made elsewhere."""
    facts = said[node]
    author = facts[vocab.ATTRIBUTED_TO][0].value
    quoted = _text(facts, vocab.QUOTED_DIGEST)
    is_copy = bool(quoted) or vocab.ALTERNATE_OF in facts
    for each in facts.get(vocab.GENERATED_BY, ()):
        call = said.get(each, {})
        if vocab.MODEL_CALL in call.get(vocab.TYPE, ()):
            digest = quoted or _text(facts, vocab.DIGEST) or node.value
            made = (row.id, row.principal, author)
            yield CallRow(
                digest, 2 if is_copy else 0, *made, _text(call, vocab.MODEL), time, *_lasted(call, _MADE), *_spent(call)
            )
    for each in beside:
        call = said[each]
        for digest, place in product(call.get(vocab.CALL_DIGEST, ()), call.get(vocab.CALLED_IN, ())):
            whom = next((iris.author_name(p.value) for p in call.get(vocab.CALLED_FOR, ())), row.principal)
            made = (iris.session_id(place.value), whom, author)
            yield CallRow(digest.value, 1, *made, _text(call, vocab.MODEL), time, *_lasted(call, _KEPT), *_spent(call))


def _lasted(call: _Said, ends: tuple[NamedNode, NamedNode]) -> tuple[str, int | None, int | None]:
    """Return who served a call, and when it began and ended, as far as that was told."""
    began, ended = (_when(call, each) for each in ends)
    return _text(call, vocab.PROVIDER), began, ended


def _when(facts: _Said, predicate: NamedNode) -> int | None:
    return next((micros(parse_time(each.value)) for each in facts.get(predicate, ())), None)


def _spent(call: _Said) -> tuple[Counts, float | None]:
    """Return what a call spent by the usage that it reports: an earlier version may have counted that otherwise."""
    usage = next((each.value for each in call.get(vocab.USAGE, ()) if each.datatype == vocab.JSON), None)
    return (_UNKNOWN, None) if usage is None else _reported(usage)
