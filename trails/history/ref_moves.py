"""Make and move refs: each move is one commit, while the ref is where it was seen."""

from __future__ import annotations

import secrets

from pyoxigraph import Literal, NamedNode

from trails.errors import HeadConflict, InvalidInput
from trails.history import log_leaves
from trails.history.reader import Reader
from trails.history.records import refs
from trails.history.transaction import Refusal, Transaction
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.activity_records import Deed, author_type
from trails.rdf.annotation_records import removal_quads
from trails.rdf.ref_records import Ref, move_quads, moved_ref, ref_leaf, ref_quads, removal_leaf, state_quad
from trails.store.contract import QuadStore


def move_transaction(
    reader: Reader,
    store: QuadStore,
    before: Ref | None,
    place: tuple[str, int | None, str | None],
    deed: Deed,
    *,
    name: str,
    is_new: bool = False,
) -> tuple[Transaction, Ref]:
    """Return the commit that moves a ref, or makes it where there was none (`before`), and the ref as it is then.

    `place` is the session's id, how many of its turns (None: all), and the digest of the last of these. `is_new` says that the
    session is stored by the same commit.
    """
    session_id, at, digest = place
    after = moved_ref(name, before, session_id, at, digest, by_iri=deed.by_iri, time=deed.time)
    tx = Transaction(reader)
    moved_on = conflict(store, before, name)
    if not is_new:
        tx.session(session_id)
    if before is None:
        tx.new(ref_quads(after), moved_on)
        _forbid_name(tx, name)
    else:
        tx.move(ref_quads(before), ref_quads(after), moved_on)
    tx.add([*move_quads(after.last_move), author_type(deed.by_iri)])
    tx.log_leaves([ref_leaf(after)])
    return tx, after


def stay_transaction(store: QuadStore, ref: Ref) -> Transaction:
    """Return what a commit needs that goes on where a ref is: that it is still there."""
    tx = Transaction()
    tx.require([state_quad(ref)], conflict(store, ref, ref.name))
    return tx


def removal_transaction(store: QuadStore, ref: Ref, deed: Deed) -> Transaction:
    """Return the commit that takes a ref and its moves out, leaving word of who did it and when."""
    tx = Transaction()
    tx.take(ref_quads(ref), conflict(store, ref, ref.name))
    tx.remove(refs.move_records(store, NamedNode(iris.tag(ref.name))))
    tx.add([*removal_quads(ref, deed.by_iri, deed.time, secrets.token_hex(4)), author_type(deed.by_iri)])
    tx.log_leaves([removal_leaf(ref)])
    tx.log(log_leaves.row_states("change", [ref.session_id]))
    return tx


def conflict(store: QuadStore, before: Ref | None, name: str) -> Refusal:
    """Return what makes the error for a ref that is not where it was seen, once a commit is refused for that."""
    return lambda _: conflict_error(store, before, name)


def conflict_error(store: QuadStore, before: Ref | None, name: str) -> HeadConflict | InvalidInput:
    """Return the error for a ref that is not where it was seen (None: nowhere)."""
    actual = refs.find_ref(store, name)
    if actual is None and before is None:
        return InvalidInput(f"{name!r} is the name of a tag; choose another name for the ref")
    seen = "nowhere" if before is None else f"at {before.revision!r}"
    stands = "is not there any more" if actual is None else f"is at {actual.revision!r} now"
    return HeadConflict(
        f"the ref {name!r} was moved by another writer: it was {seen}, and {stands}; nothing was written. Call refresh() and "
        "do it again",
        expected=None if before is None else before.revision,
        actual=None if actual is None else actual.revision,
    )


def _forbid_name(tx: Transaction, name: str) -> None:
    """Let a commit happen only while no session has the name."""
    taken = InvalidInput(f"{name!r} is the id or the label of a session; choose another name for the ref")
    tx.forbid((None, vocab.LABEL, Literal(name), vocab.CATALOG), lambda _: taken)
    tx.forbid((NamedNode(iris.session(name)), vocab.TYPE, vocab.SESSION, vocab.CATALOG), lambda _: taken)
