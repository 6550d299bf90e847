"""Make checkpoints of a store's log, make proofs from it, and compare it with a checkpoint that was kept elsewhere.

The log's lines (without their newlines) are the leaves of the Merkle tree. There are three levels of proof. Digests prove that a
transcript is as its head says. The log proves that the store is as it was written and not rolled back, if the log itself was not
changed. A checkpoint that is kept elsewhere proves that neither was changed since it was signed.

The report says what became of what a checkpoint covers: changed, deleted, redacted, with who did it and when, if the store
knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.history import log_history, log_leaves
from trails.history.reader import Reader
from trails.integrity import digests, leaves
from trails.integrity.leaves import LEDGER_KINDS
from trails.integrity.merkle import HashTree, root_of
from trails.integrity.proof_form import TurnDigests
from trails.integrity.proofs import ConsistencyProof, Revealed, TurnProof
from trails.integrity.signed_notes import Checkpoint, claimed_checkpoint, sign_checkpoint, verifier_of
from trails.integrity.verifier.merkle_checks import leaf_hash
from trails.model import iris, lineage, validation
from trails.model.values import Finding, LogEvent, SealedTurn, Turn
from trails.rdf import vocab
from trails.rdf.codec import parse_time
from trails.store.contract import QuadStore


def log_state(store: QuadStore, origin: str = "-", extensions: Sequence[str] = ()) -> Checkpoint:
    """Return what a checkpoint of the log as it stands would say, unsigned.

    A note at the very end that all before it is on disk is left out: it may itself be lost to a power cut, and a
    checkpoint that covered it would then accuse an honest store. Raises `IntegrityError` where a line of the log does not
    follow the one before it.
    """
    lines = store.log.lines()
    while lines and lines[-1].startswith("sync "):
        lines.pop()
    for number, what in leaves.check_links(lines):
        raise IntegrityError(
            f"line {number} of the log of {store.location}: {what}; a checkpoint would vouch for it. "
            "`trails verify` says what else is wrong; restore a backup"
        )
    return Checkpoint(origin=origin, size=len(lines), root=_root(lines), extensions=tuple(extensions))


def make_checkpoint(store: QuadStore, signer: str, extensions: Sequence[str] = ()) -> str:
    """Return a signed checkpoint of the log as it stands, once the log, and the store that it speaks of, are on disk.

    `extensions` are lines that are signed with it: what else the signer vouches for.
    """
    made = log_state(store, verifier_of(signer).partition("+")[0], extensions)
    store.flush()
    return sign_checkpoint(made, signer)


def checkpoint_findings(store: QuadStore, kept: Checkpoint) -> list[Finding]:
    """Hold the log against a checkpoint that was kept: its first lines must still be those that were signed then."""
    lines = store.log.lines()
    if len(lines) < kept.size:
        what = (
            f"the log has {len(lines)} lines, and had {kept.size} when the checkpoint of {kept.origin!r} was signed: it "
            "was cut short or rolled back, or the checkpoint is another store's"
        )
    elif _root(lines[: kept.size]) != kept.root:
        what = (
            f"the first {kept.size} lines of the log are not those of the checkpoint of {kept.origin!r}: the history "
            "before the checkpoint was rewritten, or the checkpoint is another store's"
        )
    else:
        return []
    return [Finding(code="checkpoint", message=what)]


def prove_growth(store: QuadStore, old_note: str, new_note: str) -> ConsistencyProof:
    """Return the proof that the log of the newer checkpoint begins with all that the older one stands for.

    Raises `InvalidInput` where the two are in the wrong order or of two logs, `IntegrityError` where one of them does
    not fit the log.
    """
    old, new = claimed_checkpoint(old_note), claimed_checkpoint(new_note)
    if old.origin != new.origin:
        raise InvalidInput(f"the checkpoints are of two logs, {old.origin!r} and {new.origin!r}: give two of one log")
    if old.size > new.size:
        raise InvalidInput(
            f"the older checkpoint is of {old.size} lines and the newer one of {new.size}: give them the other way round"
        )
    tree = log_tree(store.log.lines(), (old, new))
    hashes = tree.consistency(old.size, new.size)
    return ConsistencyProof(
        origin=new.origin, old_size=old.size, new_size=new.size, hashes=tuple(hashes), checkpoint=new_note
    )


def prove_turn(
    store: QuadStore, reader: Reader, session_id: str, index: int, note: str, *, reveal: bool = True
) -> TurnProof:
    """Return the proof that a turn of a session's transcript is in the log that a checkpoint was signed for.

    An inherited turn is proven as its owner's. With `reveal` False, or after a redaction, the proof holds the content's
    digest and not the text. Raises `InvalidInput` where there is no such turn or the checkpoint was signed before it
    was written, `IntegrityError` where the store or the checkpoint do not fit the log.
    """
    checkpoint = claimed_checkpoint(note)
    chain = reader.lineage(session_id)
    turns = reader.of_quads.turns(chain, validation.index(index, "the index of the turn") + 1)
    if len(turns) <= index:
        raise InvalidInput(f"session {session_id!r} has {len(turns)} turns, so no turn {index}")
    owner = next(record for record in chain if record.id == turns[index].session_id)
    lines = store.log.lines()
    tree = log_tree(lines, (checkpoint,))
    count, leaf_index = _leaf_of(lines[: checkpoint.size], owner.id, index, checkpoint)
    after = reader.of_quads.own_turns(lineage.Segment(owner, index + 1, count))
    sealed, *following = reader.sealed([turns[index], *after])
    proof = TurnProof(
        origin=checkpoint.origin,
        turn=digests_of(sealed),
        previous=turns[index - 1].digest if index else digests.GENESIS,
        content=_content_of(sealed) if reveal else None,
        facts=None if sealed.turn.facts.withheld else digests.facts_json(sealed.turn.facts, sealed.salt),
        links=tuple(map(digests_of, following)),
        leaf=lines[leaf_index],
        leaf_index=leaf_index,
        size=checkpoint.size,
        hashes=tuple(tree.inclusion(leaf_index, checkpoint.size)),
        checkpoint=note,
    )
    _check(proof, owner.id, [sealed.turn, *(each.turn for each in following)])
    return proof


def _leaf_of(lines: Sequence[str], owner: str, index: int, checkpoint: Checkpoint) -> tuple[int, int]:
    """Return the turns counted by, and the place of, the first leaf of a session that covers a turn."""
    log = log_history.logs_by_session(lines).get(owner, log_history.SessionLog())
    for count, _, number in log.heads:
        if count > index:
            return count, number
    raise InvalidInput(
        f"turn {index} of session {owner!r} was written after this checkpoint of {checkpoint.origin!r} "
        f"({checkpoint.size} lines) was signed: make a new one with `trails proof checkpoint`"
    )


def _check(proof: TurnProof, owner: str, turns: Iterable[Turn]) -> None:
    """Refuse to give out a proof that does not hold, or that a name which was taken out is needed for."""
    try:
        proof.check_chain()
    except IntegrityError as wrong:
        for turn in turns:
            if iris.is_unnamed(turn.author_iri) or turn.role == iris.UNNAMED:
                raise InvalidInput(
                    f"the name of the author or the role of turn {turn.index} of session {owner!r} was taken out, and its "
                    "digest cannot be made again without it: nothing can be proven of it, nor of the turns before it that "
                    "were written with it; a proof that was made before holds"
                ) from wrong
        raise IntegrityError(
            f"session {owner!r} does not fit its log, so nothing can be proven of it: {wrong}; `trails verify` names what "
            "was altered, and a backup or an export restores it"
        ) from wrong


def digests_of(sealed: SealedTurn) -> TurnDigests:
    """Return what a turn's digest covers."""
    turn = sealed.turn
    return TurnDigests(
        index=turn.index,
        branch=turn.branch,
        role=turn.role,
        author=iris.author_key(turn.author_iri),
        time=turn.time,
        content=turn.facts.content_digest or (sealed.salt if turn.redacted else _content_digest(turn, sealed.salt)),
        facts=digests.facts_digest(turn.facts, sealed.salt),
    )


def _content_digest(turn: Turn, salt: str) -> str:
    return digests.content_digest(turn.text, salt, structured=turn.structured)


def _content_of(sealed: SealedTurn) -> Revealed | None:
    if sealed.turn.redacted or sealed.turn.facts.content_digest:  # by another salt, the digest cannot be made again
        return None
    return Revealed(text=sealed.turn.text, salt=sealed.salt, structured=sealed.turn.structured)


def log_tree(lines: Sequence[str], checkpoints: Iterable[Checkpoint]) -> HashTree:
    """Return the tree over the log; raise `IntegrityError` where a checkpoint is not one of its states."""
    tree = HashTree(leaf_hash(line.encode()) for line in lines)
    for checkpoint in checkpoints:
        if checkpoint.size > tree.size or tree.root(checkpoint.size) != checkpoint.root:
            raise IntegrityError(
                f"the checkpoint of {checkpoint.origin!r} at {checkpoint.size} lines is of no state of this log, which has "
                f"{tree.size} lines: it is another store's, or the log was rewritten (`trails verify --checkpoint`)"
            )
    return tree


def _root(lines: Sequence[str]) -> bytes:
    return root_of(leaf_hash(line.encode()) for line in lines)


_GROWING: Final = frozenset({*LEDGER_KINDS, "said"})
_RUN: Final = frozenset({"run", "remove"})


def events_since(store: QuadStore, size: int, only: Collection[str] | None = None) -> tuple[LogEvent, ...]:
    """Return what happened to what the first `size` lines of the log tell of, by session; `only` to some sessions."""
    lines = store.log.lines()
    found = [*_sessions(store, lines, size), *_redactions(store, lines, size), *_others(lines, size)]
    return tuple(sorted((event for event in found if only is None or event.session_id in only), key=_place))


def _place(event: LogEvent) -> tuple[str, str, int]:
    return event.session_id, event.what, -1 if event.index is None else event.index


def _sessions(store: QuadStore, lines: Sequence[str], size: int) -> Iterator[LogEvent]:
    for session_id, log in log_history.logs_by_session(lines).items():
        if log.began >= size:
            continue
        told = Counter(what for number, what in log.events if number >= size)
        by, time = _deleter(store, session_id) if told["deleted"] and log.deleted else (None, None)
        for what, count in told.items():
            who, when = (by, time) if what == "deleted" else (None, None)
            yield LogEvent(session_id=session_id, what=what, count=count, by=who, time=when)


def _deleter(store: QuadStore, session_id: str) -> tuple[str | None, datetime | None]:
    return _doer(store.quads((NamedNode(iris.deletion(iris.session(session_id))), None, None, vocab.CATALOG)))


def _doer(quads: Sequence[Quad]) -> tuple[str | None, datetime | None]:
    said = {quad.predicate: str(getattr(quad.object, "value", "")) for quad in quads}
    who, when = said.get(vocab.ASSOCIATED_WITH), said.get(vocab.ENDED_AT)
    try:
        return None if who is None else iris.author_name(who), None if when is None else parse_time(when)
    except (TrailsError, ValueError):
        return None, None  # an altered record, which is a finding


def _redactions(store: QuadStore, lines: Sequence[str], size: int) -> Iterator[LogEvent]:
    new = {leaf for leaf, number in log_history.logged_redactions(lines).items() if number >= size}
    for leaf, quads in log_leaves.redaction_leaves(store) if new else []:
        if leaf in new:
            by, time = _doer(quads)
            yield LogEvent(
                session_id=iris.session_id(leaf.session_iri), what="redacted", index=leaf.count, by=by, time=time
            )


def _others(lines: Sequence[str], size: int) -> Iterator[LogEvent]:
    """Give the runs and the entries of ledgers that went on, each with how often."""
    known: set[tuple[str, str]] = set()
    told: Counter[tuple[str, str]] = Counter()
    for number, line in enumerate(lines):
        kind = line.partition(" ")[0]
        if kind not in _GROWING and kind not in _RUN:
            continue
        fields = line.split(" ")
        if len(fields) != 5:
            continue  # no leaf: a finding
        subject = (fields[1], "" if kind in _RUN else fields[2])
        if number < size:
            known.add(subject)
        elif subject in known:
            told[fields[1], "run" if kind in _RUN else "ledger"] += 1
    for (iri, what), count in told.items():
        yield LogEvent(session_id=iris.session_id(iri), what="run" if what == "run" else "ledger", count=count)
