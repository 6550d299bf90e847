"""Make a session independent of its ancestors by copying what it inherits: detach and flatten.

A copy keeps everything that its digest covers, and its salt, so heads and proofs stay valid. Its IRI is new, with
`prov:alternateOf` the original. The copying generated it: no model and no tool was called again.

Copies are written in small batches that no loader reads, and the last commit makes them count. Until then a mark
(`trails:UnfinishedCopy`) says what is being copied. If the copying is refused or interrupted, the copies are deleted.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final
from weakref import WeakKeyDictionary

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.history import encryption, log_leaves, transaction
from trails.history.reader import Reader
from trails.history.records.payloads import payloads_of
from trails.history.transaction import Refusal, Transaction
from trails.history.transcript import Transcript
from trails.integrity import digests
from trails.integrity.leaves import Leaf
from trails.model import iris, lineage
from trails.model.values import MAIN, SealedTurn, SessionRecord, Turn
from trails.rdf import vocab
from trails.rdf.activity_records import Copying, Deed, activity_quads
from trails.rdf.session_records import prompt_quads, session_quads
from trails.rdf.turn_quads import Links, turn_quads
from trails.store.contract import Matching, PreconditionFailed, QuadStore
from trails.store.embedded import at_one_moment
from trails.store.pattern import Pattern

_BATCH = 200
"""Turns copied in one commit."""
_STEP: Final = 20
"""Subjects that one commit takes out again."""
_SWEEPING: Final = threading.Lock()
_RUNNING: Final[WeakKeyDictionary[QuadStore, set[tuple[str, object]]]] = WeakKeyDictionary()
"""The sessions into which this process copies turns just now, each with a token; what else is marked was cut short."""


# --- what is being copied


@contextmanager
def _copying(store: QuadStore, session_id: str, tx: Transaction, otherwise: Refusal) -> Iterator[Quad]:
    """Mark a session as one that turns are copied into, and give the mark, which the last commit takes away.

    Whatever ends it before that, refusal or Ctrl-C, takes the copies out again. `tx` is the commit of the mark; where it
    may not be, or somebody else copies into that session, the error is that one's or `otherwise`.
    """
    sweep_copies(store)
    running, token = _RUNNING.setdefault(store, set()), (session_id, object())
    mark = _mark(session_id)
    transaction.begin_work(store, [mark])
    try:
        running.add(token)  # before the mark is there: a sweep in another thread must find both or none
        tx.add([mark])
        tx.forbid(_pattern(mark))
        if not tx.commit(store, otherwise):  # the mark was there: another one is at it
            raise otherwise(PreconditionFailed(matched=[mark]))
        yield mark
    except BaseException:  # an interrupt too: no half copy stays
        running.discard(token)
        with suppress(TrailsError):  # a store that failed: they go when it is opened again
            sweep_copies(store)
            transaction.end_work(store, [mark])
        raise
    else:
        transaction.end_work(store, [mark])
    finally:
        running.discard(token)


def _mark(session_id: str) -> Quad:
    return Quad(NamedNode(iris.session(session_id)), vocab.TYPE, vocab.UNFINISHED_COPY, vocab.CATALOG)


def _pattern(mark: Quad) -> Pattern:
    return mark.subject, mark.predicate, mark.object, mark.graph_name  # type: ignore[return-value] # a mark's own terms


def sweep_copies(store: QuadStore) -> int:
    """Take out the copies that were cut short, and their marks; return the number of quads of copies removed."""
    with _SWEEPING:
        marked = store.quads((None, vocab.TYPE, vocab.UNFINISHED_COPY, vocab.CATALOG))
        running = {session_id for session_id, _ in list(_RUNNING.get(store, ()))} if marked else set()
        left = [mark for mark in marked if iris.session_id(str(mark.subject.value)) not in running]  # type: ignore[union-attr] # an IRI
        return sum(_take_out(store, mark) for mark in left)


def _take_out(store: QuadStore, mark: Quad) -> int:
    """Take out the copies that a mark speaks of, in small commits that need the mark; then the mark."""
    node = NamedNode(str(mark.subject.value))  # type: ignore[union-attr] # a session's IRI
    row = store.quads((node, None, None, vocab.CATALOG))
    start = next((int(q.object.value) for q in row if q.predicate == vocab.FORKED_AT_INDEX), None)  # type: ignore[union-attr] # a literal
    is_fork = any(quad.object == vocab.SESSION for quad in row)
    found: dict[str, list[Quad]] = {}
    for quad in store.quads((None, None, None, node)):
        turn = iris.turn_of(str(quad.subject.value))  # type: ignore[union-attr] # an IRI
        if not is_fork or iris.turn_index(turn) < (start or 0):
            found.setdefault(turn, []).append(quad)
    turns = list(found.values())
    with suppress(PreconditionFailed):  # the mark is gone: the copy was finished, or another sweep was quicker
        for first in range(0, len(turns), _STEP):
            doomed = [quad for turn in turns[first : first + _STEP] for quad in turn]
            _take_out_while(store, doomed, mark)
        _take_out_while(store, [mark], mark)
    return sum(map(len, turns))


def _take_out_while(store: QuadStore, quads: Sequence[Quad], mark: Quad) -> None:
    tx = Transaction()
    tx.remove(quads)
    tx.require([mark])
    tx.commit(store)


# --- copies


def copy_turns(
    store: Matching,
    copying: Copying,
    sealed: Sequence[SealedTurn],
    *,
    before: Sequence[Turn] = (),
    prompts: Mapping[int, str] | None = None,
) -> list[list[Quad]]:
    """Return the quads of copies of turns in another session's graph, in batches of commits.

    `before` are turns of the transcript that come before them and are not copied, and `prompts` the IRIs of those versions
    of the system prompt that are not, by number.
    """
    copied = [copy_turn(each.turn, copying.session_id) for each in sealed]
    made = before.followed_by(copied) if isinstance(before, Transcript) else [*before, *copied]
    batches: list[list[Quad]] = []
    for position, (original, copy) in enumerate(zip(sealed, copied, strict=True)):
        if position % _BATCH == 0:
            batches.append([])
        answers = lineage.answered_calls(made, copy) if copy.tool_results else {}
        links = _links(made, copy, prompts or {})
        sealed_copy = SealedTurn.trusted({"turn": copy, "salt": original.salt})
        batches[-1] += turn_quads(sealed_copy, answers, links=links, copied=True)
        batches[-1] += log_leaves.copy_quads(store, original.turn.iri, original.turn.digest, copy, copying)
    return batches


def copy_turn(turn: Turn, session_id: str) -> Turn:
    """Return a turn as it is where a session has a copy of it."""
    return turn.model_copy(update={"session_id": session_id})


def _links(made: Sequence[Turn], copy: Turn, prompts: Mapping[int, str]) -> Links:
    """Return the copies of the summary and the system prompt that the model call of a copy was told to be shown."""
    version = None if copy.call is None else copy.call.prompt
    own = None if version is None else iris.system_prompt(iris.session(copy.session_id), version)
    prompt = own if version is None else prompts.get(version, own)
    return Links(lineage.summary_shown(made, copy), prompt)


def _write_copies(store: QuadStore, copying: Copying, sealed: Sequence[SealedTurn], while_: Sequence[Quad]) -> None:
    """Write copies of turns, each batch only while some quads and its originals are there: none was redacted meanwhile."""
    gone = f"a turn of session {copying.session_id!r} was redacted or deleted meanwhile; try again"
    for number, batch in enumerate(copy_turns(store, copying, sealed)):
        originals = sealed[number * _BATCH : (number + 1) * _BATCH]
        tx = Transaction()
        tx.add(batch)
        tx.require([*while_, *(quad for each in originals for quad in original_quads(each))])
        tx.commit(store, otherwise=lambda _: InvalidInput(gone))


def original_quads(sealed: SealedTurn) -> list[Quad]:
    """Return the quads that are there while a turn is, and is not redacted, and while the bytes of its payloads are."""
    graph = NamedNode(iris.session(sealed.turn.session_id))
    return [Quad(NamedNode(sealed.turn.iri), vocab.SALT, Literal(sealed.salt), graph), *payloads_of(sealed.turn)]


def detach_session(store: QuadStore, reader: Reader, session_id: str, deed: Deed) -> None:
    """Copy the inherited turns into a fork below its fork index, then clear its parent and fork index in one commit.

    Raises `InvalidInput` where a turn was redacted, or the fork deleted or detached, meanwhile, and `IntegrityError` where
    turns stand there that Trails did not write: the fork is as it was.
    """
    sweep_copies(store)
    chain = reader.lineage(session_id)
    record = chain[0]
    if record.parent_session_id is None:
        return
    encryption.refuse_encrypted(chain[1:], *encryption.NO_COPIES)
    turns = reader.of_quads.turns(chain)
    _refuse_strangers(store, record)
    sealed = reader.sealed([turn for turn in turns if turn.index < record.starts_at])
    node = NamedNode(record.iri)
    remove = [
        quad for predicate in log_leaves.FORK_POINT for quad in store.quads((node, predicate, None, vocab.CATALOG))
    ]
    # No precondition but the row itself: a fork made of this one meanwhile works before and after.
    # As it was read first: of a fork that is deleted meanwhile there is nothing left to be found here.
    above = NamedNode(iris.session(record.parent_session_id))
    parent = [Quad(node, vocab.PARENT_SESSION, above, vocab.CATALOG)]
    copying = Copying(
        session_id=session_id,
        token=secrets.token_hex(8),
        by_iri=deed.by_iri,
        time=deed.time,
        action="detach",
        used=tuple(sorted({each.turn.session_id for each in sealed})),
        was_fork_of=record.parent_session_id,
        was_forked_at=record.forked_at_index,
    )
    add = [*prompt_copies(reader, chain, session_id), *activity_quads(copying)]
    moved_add, moved_remove = _moved_answers(store, turns, record)
    gone = f"session {session_id!r} was deleted or detached by another writer meanwhile, or is being detached"
    start, end = Transaction(), Transaction()
    start.require(parent)
    with _copying(store, session_id, start, lambda _: InvalidInput(gone)) as mark:
        _write_copies(store, copying, sealed, [mark, *parent])  # a deletion may not have seen the mark
        end.require(parent)
        end.take([mark])
        end.add([*add, *moved_add])
        end.remove([*remove, *moved_remove])
        end.log(lambda after: log_leaves.row_leaves(after, "detach", session_id, record.starts_at, remove))
        end.log(lambda after: _batch_leaf(after, session_id, turns))
        if not end.commit(store, otherwise=lambda _: InvalidInput(gone)):
            raise InvalidInput(gone)  # all that was to go is gone: with the fork


def _refuse_strangers(store: QuadStore, record: SessionRecord) -> None:
    """Raise `IntegrityError` where turns stand below a fork's index and nobody is copying them there."""
    if _first_below(store, record) is None:
        return
    node = NamedNode(record.iri)
    # What another thread copies goes or counts at once with the mark of it.
    row, index = at_one_moment(
        store, lambda: (store.quads((node, None, None, vocab.CATALOG)), _first_below(store, record))
    )
    is_fork = any(quad.predicate == vocab.FORKED_AT_INDEX for quad in row)
    if index is None or not is_fork or _mark(record.id) in row:
        return
    raise IntegrityError(
        f"session {record.id!r} holds a turn {index} of its own below its fork index {record.starts_at}, which Trails did "
        "not write; detached, it would have two. `trails verify` names what was put there; restore the session from an "
        "export or a backup"
    )


def _first_below(store: QuadStore, record: SessionRecord) -> int | None:
    """Return the first index below a fork's own at which a turn stands in its graph, or None."""
    found = store.quads((None, vocab.INDEX, None, NamedNode(record.iri)))
    indices = (str(getattr(quad.object, "value", "")) for quad in found)
    return min((int(each) for each in indices if each.isdecimal() and int(each) < record.starts_at), default=None)


def _batch_leaf(after: Matching, session_id: str, turns: Sequence[Turn]) -> list[Leaf]:
    """Return the leaf for the turns of a session, with those that were appended since they were read."""
    leaf = log_leaves.grown_leaf(after, session_id, len(turns), turns[-1].digest if turns else digests.GENESIS)
    return [leaf] if leaf.count else []


def _moved_answers(store: QuadStore, turns: Sequence[Turn], record: SessionRecord) -> tuple[list[Quad], list[Quad]]:
    """Return what to add and remove so that the fork's own results point to the copies of inherited calls too.

    The calls that they answer were made where they stood first, and stay named.
    """
    made = [
        turn.model_copy(update={"session_id": record.id}) if turn.index < record.starts_at else turn for turn in turns
    ]
    graph, own = NamedNode(record.iri), f"{record.iri}/"
    add: list[Quad] = []
    remove: list[Quad] = []
    for turn in turns[record.starts_at :]:
        answers = lineage.answered_calls(made, turn) if turn.tool_results else {}
        for position, result in enumerate(turn.tool_results):
            call = answers.get(result.call_id)
            if call is None or iris.turn_index(call) >= record.starts_at:
                continue
            node = NamedNode(iris.tool_result(turn.iri, position))
            old = store.quads((node, vocab.ANSWERS_COPY, None, graph))
            remove += [quad for quad in old if not str(getattr(quad.object, "value", "")).startswith(own)]
            add.append(Quad(node, vocab.ANSWERS_COPY, NamedNode(call), graph))
    return add, remove


def prompt_copies(reader: Reader, chain: Sequence[SessionRecord], session_id: str) -> list[Quad]:
    """Return copies of all versions of the system prompt that a session inherits."""
    newest, quads = chain[0].system_version, []
    owned = reader.prompts([record.id for record in chain[1:]])
    for record in chain[1:]:
        for (owner, version), prompt in owned.items():
            if owner == record.id and record.system_version < version <= newest:
                quads += prompt_quads(prompt.model_copy(update={"session_id": session_id}))
        newest = min(newest, record.system_version)
    return quads


def flatten_session(
    store: QuadStore, reader: Reader, chain: Sequence[SessionRecord], deed: Deed, *, new_id: str, label: str | None
) -> str:
    """Make a new root with a copy of a session's transcript; return its id.

    Raises `InvalidInput` where id or label are in use, or a turn was redacted meanwhile: nothing is left of it then.
    """
    sweep_copies(store)
    source = chain[0]
    encryption.refuse_encrypted(chain, *encryption.NO_COPIES)
    sealed = reader.sealed(reader.of_quads.turns(chain))
    node = NamedNode(iris.session(new_id))
    record = SessionRecord(
        id=new_id,
        principal=source.principal,
        agent=source.agent,
        created=deed.time,
        label=label,
        branch=MAIN,
        meta_json=source.meta_json,
    )
    prompts = prompt_copies(reader, (source.model_copy(update={"system_version": 2**31}), *chain), new_id)
    copying = Copying(
        session_id=new_id,
        token=secrets.token_hex(8),
        by_iri=deed.by_iri,
        time=deed.time,
        action="flatten",
        used=tuple(sorted({source.id, *(each.turn.session_id for each in sealed)})),
    )
    row = [
        *session_quads(record),
        *prompts,
        *activity_quads(copying),
        Quad(node, vocab.DERIVED_FROM, NamedNode(source.iri), vocab.CATALOG),
    ]
    if store.quads((node, vocab.TYPE, None, vocab.CATALOG)):
        raise InvalidInput(f"there is, or was, a session {new_id!r}; choose another id")
    turns = [each.turn for each in sealed]

    def taken(_: PreconditionFailed) -> InvalidInput:
        return InvalidInput(f"the id {new_id!r} or the label {label!r} is in use; choose another")

    start, end = Transaction(reader), Transaction(reader)
    start.session(source.id)
    start.forbid_id(new_id, taken)
    for tx in (start, end) if label is not None else ():
        tx.label(label or "", taken)
    # The mark is of a type, which all who make a session forbid: nobody takes the id meanwhile.
    with _copying(store, new_id, start, taken) as mark:
        _write_copies(store, copying, sealed, [mark])
        end.add(row)
        end.take([mark])
        end.log(lambda after: log_leaves.row_leaves(after, "create", new_id))
        end.log(lambda after: _batch_leaf(after, new_id, turns))
        end.commit(store, otherwise=taken)
    return new_id
