"""Verify a store, sign heads, and prove turns.

A head is signed in the commit that stores the session's new turns. A store is verified against its digests and against
signed checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyoxigraph import Quad

from trails.display.progress import Progress, moving
from trails.errors import InvalidInput, StoreFailed
from trails.history import annotation_kinds, log_leaves, transaction
from trails.history.as_of import past_facts
from trails.history.lookup import names
from trails.history.pending_session import Worktree
from trails.history.reader import Reader
from trails.history.transaction import Transaction
from trails.history.verification import checkpoints, verify
from trails.history.verification.absence import prove_absence
from trails.history.workspace import Facet, Workspace
from trails.integrity.absence_proofs import AbsenceProof, Subject
from trails.integrity.proofs import ConsistencyProof, TurnProof
from trails.integrity.signed_notes import HeadSignature, open_checkpoint, sign_head, verifier_of
from trails.integrity.verifier.notes import verifier_key
from trails.integrity.witnesses import check_timestamp, cosignatures
from trails.model import validation
from trails.model.values import VerifyReport
from trails.rdf.annotation_records import signature_quads
from trails.rows.store_rows import StoreRows
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore, ViewStore, at_one_moment, is_read_only
from trails.store.index.historical_store import PastStore
from trails.store.pattern import NOTHING


def persist_signed(tree: Worktree, signer: str) -> tuple[int, HeadSignature]:
    """Store what is new of a session with a signature of its head, in one commit; return how many turns, and that.

    A head that the same key signed before is not signed again. Raises `InvalidInput` for a session without turns and for
    what is no key, before anything is written.
    """
    tree.check_free()
    if not len(tree.turns):
        raise InvalidInput(f"session {tree.id!r} has no turns, so there is no head to sign: append one first")
    key, index = verifier_of(validation.text(signer, "a principal's secret key")), len(tree.turns) - 1
    if tree.stored and not tree.pending:  # a new head was never signed
        for known in annotation_kinds.read_signatures(tree.workspace.store, tree.id):
            if (known.key, known.index, known.head) == (key, index, tree.head):
                return tree.persist(), known
    made = sign_head(signer, tree.id, index, tree.head)
    tx = Transaction()
    tx.new(signature_quads(made))
    if tree.stored:  # else what is logged of the new row covers it
        tx.log(log_leaves.row_states("change", [tree.id]))
    return tree.persist(tx.change()), made


_PATIENCE: Final = 10.0
"""Seconds that an owner's unfinished work is waited for,"""
_LOOKS: Final = 3
"""How often a view is looked at that others keep from staying at one moment."""
_LOOK: Final = 0.05
"""with as many between two looks."""


class Proofs(Facet, public=True, reached="store.proofs"):
    """What can be proved of a store: `store.proofs`."""

    def verify(
        self,
        session: names.Name | None = None,
        *,
        checkpoint: str | None = None,
        since: str | None = None,
        verifiers: Iterable[str] = (),
        witnesses: Iterable[str] = (),
        quorum: int | None = None,
        timestamp: bytes | None = None,
        authorities: Iterable[str] = (),
        signers: Iterable[str] = (),
        require_signed: bool = False,
        progress: Progress | bool | None = None,
    ) -> VerifyReport:
        """Check digests, indices and lineage of one session (with its ancestors) or of all, and report what is wrong.

        With a `checkpoint` that was kept elsewhere, and the log's public keys in `verifiers`, also that nothing of what
        was stored when it was signed has been rewritten since; the report's `history` then says what of it was changed,
        deleted or redacted, as the log tells. Without one, whoever owns the disk can rewrite everything unnoticed. `since` is
        a checkpoint, too, of a store that was verified then: turns are read only of sessions of which the log tells later
        on, so that it takes as long as they are many; the log and the catalog are checked as a whole. What somebody altered
        past Trails in the turns, or the ledgers, of other sessions is not found so.
        `witnesses` are public keys of which `quorum` (all unless given) must have cosigned the checkpoint; the report's
        `witnessed` says which did, and when. `timestamp` is the response of a time-stamp authority (RFC 3161) over the
        checkpoint, which one of the certificates in `authorities`, as PEM, must stand behind; the report's `timestamped` says
        by when the checkpoint was there. Signatures of heads must hold in any case; `unsigned` in the report are the turns
        that none covers, of those by the public keys in `signers` where any are given; with `require_signed`, such turns are
        findings. Raises `IntegrityError` where none of the keys signed the checkpoint, too few
        witnesses did, or the token does not hold. Of a store that was opened to be read, while it is open elsewhere, what is
        checked is what was seen: `up_to` in the report is the number of the last commit of it. `progress` is called with how
        many turns are done and how many there are; True draws a bar, in a notebook or on a terminal's stderr.
        """
        store, reader = self._workspace.store, self._workspace.reader
        wanted = None if session is None else names.find_record(self._workspace, session).id
        keys, seen_by = list(verifiers), list(witnesses)
        if since is not None:
            if checkpoint is not None or wanted is not None:
                raise InvalidInput(
                    "what is new since a checkpoint is checked in the whole store, by that checkpoint alone"
                )
            checkpoint = since
        if checkpoint is None and (keys or seen_by):
            raise InvalidInput("verifier keys and witnesses are to check a checkpoint, and none was given")
        if quorum is not None and not seen_by:
            raise InvalidInput("a quorum is of witnesses, and none was given")
        kept = None if checkpoint is None else open_checkpoint(checkpoint, keys)
        witnessed = cosignatures(checkpoint, seen_by, quorum=quorum) if checkpoint is not None and seen_by else None
        stamped = check_timestamp(checkpoint, timestamp, list(authorities))
        rewritten = [] if kept is None else checkpoints.checkpoint_findings(store, kept)
        asked = _Asked(wanted, None if kept is None else kept.size, only_new=since is not None)
        with moving(progress, "verifying") as move:
            report = _verified(self._workspace, asked, move)
        if not _has_failed(store):
            report = self._with_unsigned(report, wanted, signers, required=require_signed)
        if kept is None:
            return report
        only = None if wanted is None else {record.id for record in reader.lineage(wanted)}
        told = () if rewritten else checkpoints.events_since(store, kept.size, only)
        findings = (*rewritten, *report.findings)
        said: dict[str, Any] = {"history": told, "witnessed": witnessed, "timestamped": stamped}
        said |= {"since": asked.since} if asked.only_new else {}
        return report.model_copy(update={"findings": findings, **said})

    def _with_unsigned(
        self, report: VerifyReport, wanted: str | None, signers: Iterable[str], *, required: bool
    ) -> VerifyReport:
        """Return a report with the turns that nobody signed, where signatures are asked for or there are any."""
        store, reader = self._workspace.store, self._workspace.reader
        if isinstance(signers, str):
            raise InvalidInput("give the signers' keys as a list, also when there is only one")
        keys = {each.strip() for each in signers}
        for each in keys:
            verifier_key(each)
        if not keys and not required and not annotation_kinds.has_signatures(store):
            return report
        within = None if wanted is None else [record.id for record in reader.lineage(wanted)]
        found = annotation_kinds.unsigned_sessions(store, reader, within, keys or None)
        more = annotation_kinds.missing_signatures(found) if required else []
        return report.model_copy(update={"unsigned": tuple(found), "findings": (*report.findings, *more)})

    def checkpoint(self, signer: str, extensions: Sequence[str] = ()) -> str:
        """Return a signed note of the log as it stands, once all of it is on disk: keep it where others own the disk.

        `signer` is the secret key of `trails.integrity.signed_notes.new_key`, whose name is the log's; `extensions` are
        lines that are signed with it. Needs `cryptography`.
        """
        return checkpoints.make_checkpoint(self._workspace.store, signer, extensions)

    def turn(self, session: names.Name, index: int, checkpoint_note: str, *, reveal: bool = True) -> TurnProof:
        """Return the proof, to be verified without the store, that a turn stood in a transcript at a checkpoint.

        With `reveal` False, the proof holds the content's digest instead of the content. Raises `InvalidInput` where
        there is no such turn or it was written after the checkpoint, `IntegrityError` where store and log disagree.
        """
        at = self._workspace
        session_id = names.find_record(at, session).id
        return checkpoints.prove_turn(at.store, at.reader, session_id, index, checkpoint_note, reveal=reveal)

    def growth(self, old_note: str, new_note: str) -> ConsistencyProof:
        """Return the proof that between two checkpoints the log only grew: nothing that the old one covers was changed."""
        return checkpoints.prove_growth(self._workspace.store, old_note, new_note)

    def absence(self, subject: Subject, name: str | None, old_note: str, new_note: str) -> AbsenceProof:
        """Return the proof that nothing of a kind was recorded between two checkpoints, to be verified without the store.

        `subject` says what `name` is: "session" (an id), "turn" (a digest), "tool", "model", "author" ("principal:NAME"
        or "agent:NAME"), or, with a session's id or None for any, "removal" and "read". The proof has each line of the log
        between the two checkpoints; for turns, also what their digests cover, without texts, and for tools and models what was
        recorded with them. Raises `InvalidInput` where something of the kind was recorded, and where it can no longer be told,
        as turns were deleted; `IntegrityError` where store, log and checkpoints disagree.
        """
        at = self._workspace
        return prove_absence(at.store, at.reader, subject, name, old_note=old_note, new_note=new_note)


class _Asked(NamedTuple):
    """What is to be verified."""

    session_id: str | None
    since: int | None
    """The number of the log's lines that a checkpoint covers."""
    only_new: bool

    @property
    def is_whole(self) -> bool:
        """Whether all of the store is."""
        return self.session_id is None and not self.only_new


def _has_failed(store: QuadStore) -> bool:
    """Tell whether a store can be read no more."""
    return isinstance(store, EmbeddedStore) and store.has_failed


def _verified(at: Workspace, asked: _Asked, move: Progress | None) -> VerifyReport:
    store, reader = at.store, at.reader.of_quads
    if is_read_only(store):
        for _ in range(_LOOKS):
            store.quads(NOTHING)  # if others rewrote records that it had yet to read, that brings it to a later moment
            number = store.number
            report = at_one_moment(store, lambda: _looked_in_view(at, asked, move))
            report = report if report.ok else _judged_beside(store, reader, asked, report)
            if report.ok or store.number == number:
                break
        has_owner = isinstance(store, ViewStore) and store.has_living_owner
        return report.model_copy(update={"up_to": store.number}) if has_owner else report
    report = _looked(store, reader, asked, move, at.rows)
    if isinstance(store, PastStore):
        return past_facts.judge_past(store, report)
    if not report.ok:
        # Half of what another thread or process was writing looks like damage: what stays is real.
        try:
            with at.rewriting():
                if isinstance(store, EmbeddedStore) and store.commits.is_remote:
                    at.sweep()  # whoever was at it is dead
                return at_one_moment(store, lambda: _looked(store, reader, asked, None, at.rows))
        except StoreFailed:
            if not _has_failed(store):
                raise
            # of a log that this process cannot go on from, what the first look found stays
    return report


def _looked_in_view(at: Workspace, asked: _Asked, move: Progress | None) -> VerifyReport:
    with at.rows.reading():  # pinned by this thread, which may bring in records: others wait for it
        pass
    return _looked(at.store, at.reader.of_quads, asked, move, at.rows)


def _looked(
    store: QuadStore, reader: Reader, asked: _Asked, move: Progress | None, rows: StoreRows | None
) -> VerifyReport:
    session_id, since, only_new = asked
    return verify.verify(store, reader, session_id, move, since=since, only_new=only_new, rows=rows)


def _judged_beside(store: QuadStore, reader: Reader, asked: _Asked, report: VerifyReport) -> VerifyReport:
    """Return what stays of a report once it is known which marks of unfinished work are the owner's own: those that go.

    Raises `StoreFailed` where all depends on marks that stay: no verdict is better than a wrong one.
    """
    marks = transaction.work_marks(store)
    if not marks:
        return report
    with transaction.believed_marks(store, marks):
        found = at_one_moment(store, lambda: _looked(store, reader, asked, None, None))
    if not found.ok or _have_gone(marks, store):
        return found
    raise StoreFailed(
        f"the store {store.location} cannot be judged: a deletion, or a copy of turns, was begun in it and is not finished. "
        "Verify it again later where it is open; where nobody has it open, open it once to write, and that is finished"
    )


def _have_gone(marks: set[Quad], store: QuadStore) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while True:
        left, may_go = _left(store)
        if not marks & left:
            return True
        if not may_go or time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)


def _left(store: QuadStore) -> tuple[set[Quad], bool]:
    """Return the marks that a store has by now, and whether there may be somebody who takes them away."""
    if isinstance(store, EmbeddedStore):
        store.sync()
        return transaction.work_marks(store), True
    with closing(ViewStore(Path(store.location))) as later:
        return transaction.work_marks(later), later.has_living_owner
