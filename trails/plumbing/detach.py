"""Making a session independent of its ancestors by copying what it inherits: detach and flatten.

A copy keeps everything that its digest covers, and its salt, so heads and proofs stay true; only its IRI is new, with
`prov:alternateOf` the original. Copies go in small batches where no loader looks, the last commit makes them count. Until
then a mark (`trails:UnfinishedCopy`) says what is being copied: where it is refused or cut short, the copies go again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final
from weakref import WeakKeyDictionary

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, lineage, vocab
from trails.errors import InvalidInput, TrailsError
from trails.integrity import digests
from trails.integrity.leaves import Leaf
from trails.model import MAIN, SealedTurn, SessionRecord, Turn
from trails.plumbing import leaves
from trails.plumbing.reader import Reader
from trails.plumbing.transaction import Refusal, Transaction
from trails.records.sessions import prompt_quads, session_quads
from trails.records.turns import turn_quads
from trails.store.contract import Matching, PreconditionFailed, QuadStore
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
    try:
        running.add(token)  # before the mark is there: a sweep in another thread must find both or none
        tx.add([mark])
        tx.forbid(_pattern(mark))
        tx.commit(store, otherwise)
        yield mark
    except BaseException:
        running.discard(token)
        with suppress(TrailsError):  # a store that failed: they go when it is opened again
            sweep_copies(store)
        raise
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


def copy_turns(session_id: str, sealed: Sequence[SealedTurn]) -> list[list[Quad]]:
    """Return the quads of copies of turns in another session's graph, in batches of commits."""
    copies = [turn.turn.model_copy(update={"session_id": session_id}) for turn in sealed]
    graph = NamedNode(iris.session(session_id))
    batches: list[list[Quad]] = []
    for position, (original, copy) in enumerate(zip(sealed, copies, strict=True)):
        if position % _BATCH == 0:
            batches.append([])
        answers = lineage.answered_calls(copies, copy) if copy.tool_results else {}
        batches[-1] += turn_quads(SealedTurn.trusted({"turn": copy, "salt": original.salt}), answers)
        batches[-1].append(Quad(NamedNode(copy.iri), vocab.ALTERNATE_OF, NamedNode(original.turn.iri), graph))
    return batches


def _write_copies(store: QuadStore, session_id: str, sealed: Sequence[SealedTurn], while_: Sequence[Quad]) -> None:
    """Write copies of turns, each batch only while some quads and its originals are there: none was redacted meanwhile."""
    gone = f"a turn of session {session_id!r} was redacted or deleted meanwhile; try again"
    for number, batch in enumerate(copy_turns(session_id, sealed)):
        originals = sealed[number * _BATCH : (number + 1) * _BATCH]
        tx = Transaction()
        tx.add(batch)
        tx.require([*while_, *(_salt(each) for each in originals)])
        tx.commit(store, otherwise=lambda _: InvalidInput(gone))


def _salt(sealed: SealedTurn) -> Quad:
    graph = NamedNode(iris.session(sealed.turn.session_id))
    return Quad(NamedNode(sealed.turn.iri), vocab.SALT, Literal(sealed.salt), graph)


def detach(store: QuadStore, reader: Reader, session_id: str) -> None:
    """Copy the inherited turns into a fork below its fork index, then clear its parent and fork index in one commit.

    Raises `InvalidInput` where a turn was redacted, or the fork deleted or detached, meanwhile: the fork is as it was.
    """
    chain = reader.lineage(session_id)
    record = chain[0]
    if record.parent_session_id is None:
        return
    turns = reader.turns(chain)
    sealed = reader.sealed([turn for turn in turns if turn.index < record.starts_at])
    node = NamedNode(record.iri)
    remove = [quad for predicate in leaves.FORK_POINT for quad in store.quads((node, predicate, None, vocab.CATALOG))]
    # No precondition but the row itself: a fork made of this one meanwhile works before and after.
    # As it was read first: of a fork that is deleted meanwhile there is nothing left to be found here.
    above = NamedNode(iris.session(record.parent_session_id))
    parent = [Quad(node, vocab.PARENT_SESSION, above, vocab.CATALOG)]
    add = _prompt_copies(reader, chain, session_id)
    moved_add, moved_remove = _moved_answers(turns, record)
    gone = f"session {session_id!r} was deleted or detached by another writer meanwhile, or is being detached"
    start, end = Transaction(), Transaction()
    start.require(parent)
    with _copying(store, session_id, start, lambda _: InvalidInput(gone)) as mark:
        _write_copies(store, session_id, sealed, [mark, *parent])  # a deletion may not have seen the mark
        end.require(parent)
        end.take([mark])
        end.add([*add, *moved_add])
        end.remove([*remove, *moved_remove])
        end.log(lambda after: leaves.row_leaves(after, "detach", session_id, record.starts_at, remove))
        end.log(lambda after: _batch_leaf(after, session_id, turns))
        if not end.commit(store, otherwise=lambda _: InvalidInput(gone)):
            raise InvalidInput(gone)  # all that was to go is gone: with the fork


def _batch_leaf(after: Matching, session_id: str, turns: Sequence[Turn]) -> list[Leaf]:
    """Return the leaf for the turns of a session, with those that were appended since they were read."""
    leaf = leaves.grown(after, session_id, len(turns), turns[-1].digest if turns else digests.GENESIS)
    return [leaf] if leaf.count else []


def _moved_answers(turns: Sequence[Turn], record: SessionRecord) -> tuple[list[Quad], list[Quad]]:
    """Return what to add and remove so that the fork's own results point to the copies of inherited calls."""
    copies = [
        turn.model_copy(update={"session_id": record.id}) if turn.index < record.starts_at else turn for turn in turns
    ]
    add: list[Quad] = []
    remove: list[Quad] = []
    for turn in turns[record.starts_at :]:
        if not turn.tool_results:
            continue
        blank = SealedTurn.trusted({"turn": turn, "salt": ""})
        old = set(turn_quads(blank, lineage.answered_calls(turns, turn)))
        new = set(turn_quads(blank, lineage.answered_calls(copies, turn)))
        add += new - old
        remove += old - new
    return add, remove


def _prompt_copies(reader: Reader, chain: Sequence[SessionRecord], session_id: str) -> list[Quad]:
    """Return copies of all versions of the system prompt that a session inherits."""
    newest, quads = chain[0].system_version, []
    owned = reader.prompts([record.id for record in chain[1:]])
    for record in chain[1:]:
        for (owner, version), prompt in owned.items():
            if owner == record.id and record.system_version < version <= newest:
                quads += prompt_quads(prompt.model_copy(update={"session_id": session_id}))
        newest = min(newest, record.system_version)
    return quads


def flatten(store: QuadStore, reader: Reader, chain: Sequence[SessionRecord], *, new_id: str, label: str | None) -> str:
    """Make a new root with a copy of a session's transcript; return its id.

    Raises `InvalidInput` where id or label are in use, or a turn was redacted meanwhile: nothing is left of it then.
    """
    sweep_copies(store)
    source = chain[0]
    sealed = reader.sealed(reader.turns(chain))
    node = NamedNode(iris.session(new_id))
    record = SessionRecord(
        id=new_id,
        principal=source.principal,
        agent=source.agent,
        created=datetime.now(UTC),
        label=label,
        branch=MAIN,
        meta_json=source.meta_json,
    )
    prompts = _prompt_copies(reader, (source.model_copy(update={"system_version": 2**31}), *chain), new_id)
    row = [
        *session_quads(record),
        *prompts,
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
        _write_copies(store, new_id, sealed, [mark])
        end.add(row)
        end.take([mark])
        end.log(lambda after: leaves.row_leaves(after, "create", new_id))
        end.log(lambda after: _batch_leaf(after, new_id, turns))
        end.commit(store, otherwise=taken)
    return new_id
