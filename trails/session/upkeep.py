"""What keeps a store sound, as methods of the open store: erasing, saving, verifying, proving."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trails import queries, validate
from trails.errors import InvalidInput
from trails.integrity.proofs import ConsistencyProof, TurnProof
from trails.model import VerifyReport
from trails.plumbing import checkpoints, deletion, log_events, pruning, purge, redaction, sweep
from trails.plumbing import verify as audit
from trails.plumbing.pruning import Pruning
from trails.plumbing.purge import TextRedaction
from trails.plumbing.reader import Reader
from trails.plumbing.redaction import Redaction
from trails.store import dumping
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.maintenance import Vacuumed


class RepositoryUpkeep:
    """What an open store does to stay sound."""

    reader: Reader
    rewrites = 0
    """How often stored text was taken out since the store was opened: turns that were read before may hold it."""
    if TYPE_CHECKING:

        @property
        def store(self) -> QuadStore:
            """The store of quads below."""
            ...

        def _id_of(self, session: object) -> str: ...

    # --- erasure

    def redact(self, session: str, index: int, *, by: str | None = None, reason: str | None = None) -> Redaction:
        """Take the content out of a turn and of all its copies for good; return what was done, and what may repeat it.

        `index` is of the session's transcript, inherited turns included. The turn keeps its place and digest, so the
        chain still verifies; tool calls lose their arguments, and the turn its metadata. `by` names the principal who
        redacts (the session's unless given) and `reason` says why; both stay. A turn that is redacted stays as it is.
        The text stays in the store's files until `vacuum`, and in backups and exports; sessions that are loaded already
        keep it in memory.

        Raises `SessionNotFound`, or `InvalidInput` where there is no such turn.
        """
        chain = self.reader.lineage(self._id_of(session))
        try:
            return redaction.redact(
                self.store,
                self.reader,
                chain,
                validate.index(index, "index"),
                by=chain[0].principal if by is None else validate.name(by, "by"),
                reason=None if reason is None else validate.text(reason, "reason"),
            )
        finally:
            self.rewrites += 1  # after the commit: what was read before it is told from what is read now
            self.store.flush()  # the record of the commit says what it took out

    def redact_matching(
        self, text: str, *, dry_run: bool = False, by: str | None = None, reason: str | None = None
    ) -> TextRedaction:
        """Take a text out wherever it stands, in one commit; return where it stood, and where it still does.

        It is looked for exactly (upper and lower case apart), in JSON in all its escaped forms: in turns and what is
        said with them, authors' names, system prompts, metadata, labels, tags, notes, keys, aliases, entries, ledgers,
        runs, reasons. A value that holds it goes whole: a turn loses its content, call arguments and metadata together, a
        name becomes `redacted`, a label goes, a key gets another word in the text's place. Ids of sessions and runs
        stay: see `left`. With `dry_run`, nothing is changed. `by` names the principal who redacts and `reason` says why;
        both stay. The text is in the store's files until `vacuum`, in backups, dumps and exports whatever one does.

        What is proven afterwards: content, arguments and metadata leave their salted digests, so the turn's own digest
        proves the rest, as after `redact`. An author's name, a role and facts without a digest of their own (model, usage,
        stop reason, tool names, ids) enter that digest in clear, and whoever guesses them can still confirm them by it.
        Where a fact went, the digest over all facts stays and the turn's digest proves the rest. Where the author or the
        role went, the turn's own digest cannot be made again: the logged redaction carries a digest over the turn as it
        stands since, the turn before it included, and `verify` holds it against that.

        Raises `InvalidInput` for a text of fewer than 2 characters, or where `by` or `reason` hold it; `IntegrityError`
        where a turn that would lose more than its texts does not verify. Nothing is changed then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s", label="for Eve"); _ = s.append("user", "I am Eve"); _ = s.persist()
        ...     [(place.session_id, place.kind, place.index) for place in store.redact_matching("Eve").places]
        [('s', 'content', 0), ('s', 'label', None)]
        """
        try:
            return purge.purge(
                self.store,
                text,
                by=None if by is None else validate.name(by, "by"),
                reason=None if reason is None else validate.text(reason, "reason"),
                dry_run=dry_run,
            )
        finally:
            self.rewrites += 1
            if not dry_run:
                self.store.flush()  # the record of the commit says what it took out

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        keep_count: int | None = None,
        keep_bytes: int | None = None,
        dry_run: bool = False,
        by: str | None = None,
    ) -> Pruning:
        """Delete sessions that nobody uses any more, the longest unused first; return which went, or would go.

        Sessions go whose last turn is older than `older_than`; then the oldest, until at most `keep_count` are left and
        the turns' texts have at most `keep_bytes` in UTF-8. A session that one which stays was forked from or spawned
        by stays, and one that a tag names; one whose times are all unknown stays too. `by` names the principal who
        deletes (else each session's own). What `delete` says of tombstones and of the store's files holds here.

        Raises `InvalidInput` where no limit is given.
        """
        return pruning.prune(
            self.store,
            self.reader,
            older_than=older_than,
            keep_count=None if keep_count is None else validate.index(keep_count, "keep_count"),
            keep_bytes=None if keep_bytes is None else validate.index(keep_bytes, "keep_bytes"),
            dry_run=dry_run,
            by=None if by is None else validate.name(by, "by"),
        )

    # --- upkeep

    def vacuum(self) -> Vacuumed:
        """Rebuild the store's files so that nothing deleted or redacted is in any of them; return their sizes.

        Takes as much free space again as the store has; other threads read on meanwhile. Backups, dumps and exports
        that were made before still hold the text. In memory there is nothing to do.
        """
        deletion.sweep_pending(self.store)
        sweep.sweep_names(self.store)
        return self._embedded("vacuum").vacuum()

    def backup(self, destination: str | os.PathLike[str]) -> None:
        """Write a whole copy of the store as it is now into a new folder, while other threads go on.

        A backup is a store: `trails.session.restore.restore` copies it back, and it can be opened where it stands.
        Raises `InvalidInput` where something stands at `destination`, or for a store in memory.
        """
        self._embedded("back up").backup(Path(destination))

    def dump(
        self, file: str | os.PathLike[str], *, replace: bool = False, progress: dumping.Progress | None = None
    ) -> int:
        """Write everything to a gzip file of sorted N-Quads and return how many; equal stores give equal files.

        `trails.session.restore.load` makes a store of it. The log is not in it: see `backup`. Raises `InvalidInput`
        where the file is there and `replace` is False.
        """
        return dumping.dump(self._embedded("dump"), Path(file), progress, replace=replace)

    def _embedded(self, what: str) -> EmbeddedStore:
        if not isinstance(self.store, EmbeddedStore):
            raise InvalidInput(f"{self.store.location} is no store of this process: {what} it where it is kept")
        return self.store

    # --- what can be proved

    def verify(
        self, session: str | None = None, *, checkpoint: str | None = None, verifiers: Iterable[str] = ()
    ) -> VerifyReport:
        """Check digests, indices and lineage of one session (with its ancestors) or of all, and report what is wrong.

        With a `checkpoint` that was kept elsewhere, and the log's public keys in `verifiers`, also that nothing of what
        was stored when it was signed has been rewritten since; the report's `history` then says what of it was changed,
        deleted or redacted, as the log tells. Without one, whoever owns the disk can rewrite everything unnoticed.
        Raises `IntegrityError` where none of the keys signed the checkpoint.
        """
        wanted = None if session is None else self._id_of(session)
        keys = list(verifiers)
        if checkpoint is None and keys:
            raise InvalidInput("verifier keys are to check a checkpoint, and none was given")
        kept = None if checkpoint is None else checkpoints.opened(checkpoint, keys)
        rewritten = [] if kept is None else checkpoints.findings(self.store, kept)
        since = None if kept is None else kept.size
        report = audit.verify(self.store, self.reader, wanted, since=since)
        if not report.ok:
            with self.store.hold():  # half of what another thread was writing looks like damage: what stays is real
                report = audit.verify(self.store, self.reader, wanted, since=since)
        if kept is None:
            return report
        only = None if wanted is None else {record.id for record in self.reader.lineage(wanted)}
        told = () if rewritten else log_events.since(self.store, kept.size, only)
        return report.model_copy(update={"findings": (*rewritten, *report.findings), "history": told})

    def info(self) -> dict[str, Any]:
        """Return counts and facts about the store: location, quads, sessions, forks, turns, tombstones."""
        counts = self.store.query(queries.find("counts").bind())
        row = counts.to_dicts()[0]  # type: ignore[union-attr] # a SELECT of one row
        return {"location": self.store.location, "quads": len(self.store), **row}

    # --- proofs for others

    def checkpoint(self, signer: str) -> str:
        """Return a signed note of the log as it stands, once all of it is on disk: keep it where others own the disk.

        `signer` is the secret key of `trails.integrity.note.new_key`, whose name is the log's. Needs `cryptography`.
        """
        return checkpoints.make(self.store, signer)

    def prove_turn(self, session: str, index: int, checkpoint_note: str, *, reveal: bool = True) -> TurnProof:
        """Return the proof, to be verified without the store, that a turn stood in a transcript at a checkpoint.

        With `reveal` False, the proof holds the content's digest instead of the content. Raises `InvalidInput` where
        there is no such turn or it was written after the checkpoint, `IntegrityError` where store and log disagree.
        """
        session_id = self._id_of(session)
        return checkpoints.prove_turn(self.store, self.reader, session_id, index, checkpoint_note, reveal=reveal)

    def prove_growth(self, old_note: str, new_note: str) -> ConsistencyProof:
        """Return the proof that between two checkpoints the log only grew: nothing that the old one covers was changed."""
        return checkpoints.prove_growth(self.store, old_note, new_note)
