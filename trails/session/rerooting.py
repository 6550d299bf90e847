"""Making a session independent of its ancestors by copying what it inherits: detach and flatten.

A copy keeps everything that its digest covers, and its salt, so heads and proofs stay true; only its IRI is new, with
`prov:alternateOf` the original. Copies go in small batches where no loader looks, the last commit makes them count.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyoxigraph import Literal, NamedNode, Quad

from trails import history, iris, mapping, vocab
from trails.errors import InvalidInput
from trails.integrity.leaves import Leaf
from trails.model import MAIN, SealedTurn, SessionRecord, Turn
from trails.session import logbook
from trails.session.reader import Reader
from trails.store.contract import Change, PreconditionFailed, QuadStore

_BATCH = 200
"""Turns copied in one commit."""


def copy_turns(session_id: str, sealed: Sequence[SealedTurn]) -> list[list[Quad]]:
    """Return the quads of copies of turns in another session's graph, in batches of commits."""
    copies = [turn.turn.model_copy(update={"session_id": session_id}) for turn in sealed]
    graph = NamedNode(iris.session(session_id))
    batches: list[list[Quad]] = []
    for position, (original, copy) in enumerate(zip(sealed, copies, strict=True)):
        if position % _BATCH == 0:
            batches.append([])
        answers = history.answered_calls(copies, copy) if copy.tool_results else {}
        batches[-1] += mapping.turn_quads(SealedTurn.trusted({"turn": copy, "salt": original.salt}), answers)
        batches[-1].append(Quad(NamedNode(copy.iri), vocab.ALTERNATE_OF, NamedNode(original.turn.iri), graph))
    return batches


def _write_copies(store: QuadStore, session_id: str, sealed: Sequence[SealedTurn]) -> None:
    """Write copies of turns, each batch only while its originals are as they were read: none was redacted meanwhile."""
    for number, batch in enumerate(copy_turns(session_id, sealed)):
        originals = sealed[number * _BATCH : (number + 1) * _BATCH]
        try:
            store.commit(Change(add=batch, require=[_salt(each) for each in originals]))
        except PreconditionFailed as failure:
            what = f"a turn of session {session_id!r} was redacted or deleted meanwhile; try again"
            raise InvalidInput(what) from failure


def _salt(sealed: SealedTurn) -> Quad:
    graph = NamedNode(iris.session(sealed.turn.session_id))
    return Quad(NamedNode(sealed.turn.iri), vocab.SALT, Literal(sealed.salt), graph)


def detach(store: QuadStore, reader: Reader, session_id: str) -> None:
    """Copy the inherited turns into a fork below its fork index, then clear its parent and fork index in one commit."""
    chain = reader.lineage(session_id)
    record = chain[0]
    if record.parent_session_id is None:
        return
    turns = reader.turns(chain)
    inherited = [turn for turn in turns if turn.index < record.starts_at]
    _write_copies(store, session_id, reader.sealed(inherited))
    node = NamedNode(record.iri)
    remove = [
        quad
        for predicate in (vocab.PARENT_SESSION, vocab.FORKED_AT_INDEX, vocab.FORK_HEAD, vocab.SYSTEM_VERSION)
        for quad in store.quads((node, predicate, None, vocab.CATALOG))
    ]
    add = _prompt_copies(reader, chain, session_id)
    moved_add, moved_remove = _moved_answers(turns, record)
    # No precondition but the row itself: a fork made of this one meanwhile works before and after.
    parent = next(quad for quad in remove if quad.predicate == vocab.PARENT_SESSION)
    try:
        store.commit(
            Change(
                add=[*add, *moved_add],
                remove=[*remove, *moved_remove],
                require=[parent],
                leaves=lambda after: [logbook.row_leaf(after, "change", session_id), *_batch_leaf(session_id, turns)],
            )
        )
    except PreconditionFailed as failure:
        raise InvalidInput(f"session {session_id!r} was deleted or detached by another writer meanwhile") from failure


def _batch_leaf(session_id: str, turns: Sequence[Turn]) -> list[Leaf]:
    return [logbook.turns(session_id, len(turns), turns[-1].digest)] if turns else []


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
        old = set(mapping.turn_quads(blank, history.answered_calls(turns, turn)))
        new = set(mapping.turn_quads(blank, history.answered_calls(copies, turn)))
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
                quads += mapping.prompt_quads(prompt.model_copy(update={"session_id": session_id}))
        newest = min(newest, record.system_version)
    return quads


def flatten(store: QuadStore, reader: Reader, chain: Sequence[SessionRecord], *, new_id: str, label: str | None) -> str:
    """Make a new root with a copy of a session's transcript; return its id."""
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
        *mapping.session_quads(record),
        *prompts,
        Quad(node, vocab.DERIVED_FROM, NamedNode(source.iri), vocab.CATALOG),
    ]
    forbid = [(node, vocab.TYPE, None, vocab.CATALOG)]
    if label is not None:
        forbid.append((None, vocab.LABEL, Literal(label), vocab.CATALOG))  # type: ignore[arg-type] # a pattern's object
    if store.quads(forbid[0]):
        raise InvalidInput(f"there is, or was, a session {new_id!r}; choose another id")
    _write_copies(store, new_id, sealed)
    batch = _batch_leaf(new_id, [each.turn for each in sealed])
    try:
        store.commit(
            Change(
                add=row,
                forbid=forbid,
                leaves=lambda after: [logbook.row_leaf(after, "create", new_id), *batch],
            )
        )
    except PreconditionFailed as failure:
        raise InvalidInput(f"the id {new_id!r} or the label {label!r} is in use; choose another") from failure
    return new_id
