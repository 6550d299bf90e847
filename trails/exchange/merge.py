"""Bringing transcripts into a store: one set of rules for every format.

A session's id comes from its format and its id in the source, and every turn keeps the ids of the records that it came
from. So a transcript can be imported again at any time: what is there is left alone, a grown source goes on where it
ended, an earlier turn that changed in the source becomes a reported fork, and what was deleted here stays deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from itertools import takewhile
from typing import Any

from pyoxigraph import Literal, NamedNode

from trails.display.progress import Progress
from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.exchange import record_checks, source_scores, text_coverage
from trails.exchange.import_secrets import SESSION_ID, SecretFilter, same_but_redacted
from trails.exchange.source_transcript import FileProblem, ImportReport, Piece, SourceSession, SourceTurn, Transcript
from trails.exchange.usage_remainder import clamp_usage, usage_beyond, usage_numbers
from trails.history import import_records, migrations
from trails.history.import_records import ImportSource
from trails.history.transaction import Transaction
from trails.model import iris, validation
from trails.model.values import Compaction, Turn
from trails.rdf import vocab
from trails.rdf.activity_records import SourceFile
from trails.secrets import Found, shown_id
from trails.session import Repository, Session
from trails.store.contract import Matching

Growing = Callable[[str, datetime | None], bool]
"""Called with the name of a file, and when what may not be whole was said, if known: whether it may still be written."""


def merge(
    repository: Repository,
    transcript: Transcript,
    *,
    file: str = "",
    growing: Growing | None = None,
    progress: Progress | None = None,
    redact_secrets: bool = False,
    read: ImportedFiles | None = None,
    clean: Iterable[SourceTurn] = (),
) -> ImportReport:
    """Bring all sessions of a transcript into a store and return what was done; parents go before those that build on them.

    Turns at the end of a file that is still `growing` are kept back where they may not be whole; without it all are taken.
    A session that cannot be kept (a turn that the store refuses) is reported as a problem; the others are imported. Raises
    `StoreFailed` where the store cannot go on: the sessions before that are there, whole.
    The report names every secret in what came in; `redact_secrets` puts a mark in the place of each. Each session's import
    is recorded, with the files that were `read`. In those turns of the transcript that are `clean` no secret is looked for:
    they were looked through.
    """
    read = read or ImportedFiles(begin_import(repository, "unknown"), {})
    lines = transcript.refused_lines
    if lines is None:
        lines = sum(problem.line > 0 for problem in transcript.problems)
    withholding = SecretFilter(
        out=redact_secrets or repository.workspace.scan == "redact", clean=frozenset(map(id, clean))
    )
    report = ImportReport(
        records=dict(transcript.records), notes=list(transcript.notes), left_out=list(transcript.left_out)
    )
    report.problems += [
        FileProblem(file=file, line=problem.line, reason=problem.reason, text=problem.text)
        for problem in transcript.problems
    ]
    ordered = _parents_first(transcript.sessions)
    for done, session in enumerate(ordered):
        if progress:
            progress(done, len(ordered), session.files[0] if session.files else shown_id(session.id))
        try:
            withholding.check_id(session.id)
            own = read.for_one(session, lines)
            with repository.workspace.merging(f"{session.source}:{session.id}"):
                _Merge(repository, session, report, withholding, own, growing=growing, file=file).run()
        except StoreFailed:  # no other session could be kept either; those that were are whole
            raise
        except TrailsError as error:
            report.problems.append(FileProblem(file=file, line=0, reason=f"session {session.id!r}: {error}", text=""))
    if progress:
        progress(len(ordered), len(ordered), "")
    return report


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """That files were read, and which: what the record of an import says."""

    importing: ImportSource
    files: Mapping[str, SourceFile]
    """By the names that the parser was given."""
    refused_lines: int = 0
    origin: str | None = None
    """Where the session stands in the log of the store that it comes from, where it comes from one."""

    def for_one(self, session: SourceSession, refused_lines: int) -> ImportedFiles:
        """Return the same for one session: with the files that it came from, or the first one where nobody can tell."""
        own = {name: self.files[name] for name in session.files if name in self.files}
        return ImportedFiles(
            self.importing, own or dict(list(self.files.items())[:1]), self.refused_lines + refused_lines
        )

    def recorded(self, store: Matching, session_id: str, *, is_new: bool) -> Transaction:
        """Return what says in the commit of a session that it came in; see `trails.history.import_records.record`."""
        return import_records.record_import(
            store,
            session_id,
            self.importing,
            self.files.values(),
            refused_lines=self.refused_lines,
            is_new=is_new,
            origin=self.origin,
        )


def begin_import(repository: Repository, importer: str, by: str | None = None) -> ImportSource:
    """Return that somebody begins to read files now; `by` is as for `Repository.delete`."""
    return ImportSource(importer, _version(), repository.workspace.who(by), datetime.now(UTC))


def _version() -> str:
    """Return the version of Trails, which the package itself says: that names what stands above this module."""
    return str(import_module("trails").__version__)


def imported_id(source: str, source_id: str) -> str:
    """Return the id here of a source's session: `source:id`, percent-encoded where needed, cut with a hash if too long.

    >>> imported_id("pi", "01-ab"), imported_id("pi", "a b")
    ('pi:01-ab', 'pi:a%20b')
    """
    encoded = iris.session(f"{source}:{source_id}").removeprefix(iris.session(""))
    if encoded == f"{source}:{source_id}" and len(encoded) <= validation.MAX_ID - 60:
        return encoded
    if len(encoded) > validation.MAX_ID - 60:
        encoded = f"{encoded[:80]}~{hashlib.sha256(source_id.encode()).hexdigest()[:32]}"
    return encoded


def _parents_first(sessions: Sequence[SourceSession]) -> list[SourceSession]:
    """Order sessions so that what a session builds on comes before it; sessions in a circle keep their order.

    Several of one id (a file and a later copy of it) follow each other, each as it was given.
    """
    owner = {
        source_id: session.id
        for session in reversed(sessions)
        for path in session.paths
        for turn in path
        for source_id in turn.source_ids
    }
    by_id: dict[str, list[SourceSession]] = {}
    for session in sessions:
        by_id.setdefault(session.id, []).append(session)
    ordered: dict[str, list[SourceSession]] = {}
    for start in by_id:
        # An explicit stack: a chain of resumed sessions may be long.
        stack, seen = [start], set[str]()
        while stack:
            top = stack[-1]
            needs = (n for s in by_id[top] for n in (s.spawned_by, s.copied_from, owner.get(s.continues or "")))
            waiting = [n for n in needs if n and n in by_id and n not in ordered and n not in seen and n != top]
            seen.add(top)
            if waiting:
                stack.append(waiting[0])
            else:
                ordered[top] = by_id[stack.pop()]
    return [session for same in ordered.values() for session in same]


_Path = tuple[SourceTurn, ...]


@dataclass(frozen=True, slots=True)
class _Match:
    """How far a stored session and a path of the source agree."""

    length: int
    """Turns of the stored session's transcript that the path confirms, those before `offset` included."""
    rest: tuple[SourceTurn, ...]
    """What the path has beyond those turns: whole turns, or the later records of a turn that is there in part."""
    altered: bool
    """Whether the stored session's next turn comes from a record of this path that now says something else."""
    uncounted: int = 0
    """Turns that are there whole, and whose usage the source tells otherwise now, or only now."""
    continued: int = 0
    """Turns that are there in part."""


class _Merge:
    """The import of one source session."""

    def __init__(
        self,
        repository: Repository,
        source: SourceSession,
        report: ImportReport,
        withholding: SecretFilter,
        read: ImportedFiles,
        *,
        growing: Growing | None = None,
        file: str = "",
    ) -> None:
        self._read = read
        self._repository = repository
        self._report = report
        self._growing = growing
        self._file = file
        self._withholding = withholding
        self._given, problems = record_checks.drop_oversized(source)
        report.problems += [FileProblem(file=file, line=0, reason=said, text="") for said in problems]
        self._source = withholding.session(self._given)
        source = self._given
        self._repeats_alone = False
        """Whether the turns that it repeats of its spawner are not shared with that."""
        self._homes: list[Session] = []
        """The sessions that paths were placed in."""
        self._id = imported_id(source.source, source.id)
        self._name = f"{source.source}:{source.id}"

    def run(self) -> None:
        if self._repository.reader.is_deleted(self._id):
            self._report.deleted.append(self._id)
            return
        family = [self._repository.load(each) for each in self._stored_family()]
        start = self._start()
        source = self._source
        main, *others = self._own_paths(family) or ((),)
        self._place(self._whole(main, family, start), family, start, main=True)
        for path in others:
            self._place(path, family, start, main=False)
        if source.scores and (scored := self._stored(family)) is not None:
            source_scores.keep_scores(
                self._repository,
                scored,
                source.scores,
                withholding=self._withholding,
                report=self._report,
                file=self._file,
            )

        self._link_spawns(family)

    def _own_paths(self, family: list[Session]) -> tuple[_Path, ...]:
        """Return the paths of the source as they are to be stored: what repeats the spawner's turns counts no usage again.

        The repeated turns are shared where the spawner has them all; left out where it has them in other places; and kept
        without their usage, which is the spawner's, where it is not there.
        """
        paths, repeated = self._source.paths, self._source.repeats
        if not repeated:
            return paths
        main = paths[0]
        stored = next((session for session in family if session.id == self._id), None)
        if stored is not None and stored.parent_session_id is not None:
            return paths
        if stored is None and (shared := self._copied(main)) is not None and shared[1] >= repeated:
            return paths
        self._repeats_alone = True
        is_left = (
            stored.turns[0].source_ids != main[0].source_ids
            if stored is not None and len(stored)
            else self._are_spawners(main[:repeated])
        )
        if is_left:
            self._report.notes.append(
                f"{self._id}: its first {repeated} turn(s) are its spawner's, told again; they are stored with that alone"
            )
            return tuple(tuple(shift_summaries(path[repeated:], -repeated)) for path in paths)
        return tuple((*map(text_coverage.without_usage, path[:repeated]), *path[repeated:]) for path in paths)

    def _are_spawners(self, turns: _Path) -> bool:
        """Tell whether the spawner, as it is stored, says all that some turns say."""
        spawner = imported_id(self._source.source, self._source.spawned_by or "")
        if spawner not in self._repository:
            return False
        return text_coverage.are_repeats_of(turns, self._repository.load(spawner).turns)

    def _link_spawns(self, family: list[Session]) -> None:
        """Link the session to its spawner, and to it those that it spawned, where they came in before."""
        stored = next((session for session in family if session.id == self._id), None)
        if stored is None:
            return
        store, spawner = self._repository.store, self._source.spawned_by
        record = self._repository.record(self._id)
        if spawner is not None and record.spawned_by is None:
            above = imported_id(self._source.source, spawner)
            if above != self._id and record.parent_session_id in (None, above) and above in self._repository:
                import_records.spawn_link(store, self._id, above)
        for child in import_records.sessions_awaiting(store, self._id):
            if child != self._id:
                import_records.spawn_link(store, child, self._id)

    def _stored(self, family: list[Session]) -> Session | None:
        """Return the session of its own id, as it is stored now: the handle that wrote it knows that without asking."""
        mine = next((session for session in family if session.id == self._id), None)
        return self._repository.load(self._id) if mine is None and self._id in self._repository else mine

    def _whole(self, path: _Path, family: list[Session], start: tuple[Session, int] | None) -> _Path:
        """Return a path without the turns that may not be whole, where its file is still growing; the report says so."""
        source = self._source
        if not source.open_turns or self._growing is None:
            return path
        if not self._growing(source.open_in, None if source.open_surely else path[-1].time):
            return path
        best = self._best(path, family, start)
        if (best and not best[0].rest) or (source.saved is not None and _holder(family, path) is not None):
            return path  # it is here already
        self._report.turns_held += source.open_turns
        self._report.notes.append(
            f"{self._id}: {source.open_turns} turn(s) at the end of {source.open_in} were kept back: the file was just "
            "written, and nothing in it says yet that they are whole. They come with a later import; --final "
            "(`final=True`) takes them as they are"
        )
        return path[: -source.open_turns]

    def _stored_family(self) -> list[str]:
        """Return the ids of the stored sessions that came from this source session, the main one first."""
        store = self._repository.store
        quads = store.quads((None, vocab.SOURCE_SESSION, Literal(self._name), vocab.CATALOG))
        found = sorted(iris.session_id(quad.subject.value) for quad in quads)  # type: ignore[union-attr] # sessions' IRIs
        return sorted(found, key=lambda each: each != self._id)

    def _start(self) -> tuple[Session, int] | None:
        """Return the stored session, and the index in it, that this source session goes on from; None for a root."""
        if self._source.continues is not None:
            for turn in self._turns_from(self._source.continues):
                owner = self._repository.load(turn[0])
                return owner, turn[1] + 1
            self._report.notes.append(
                f"{self._id}: the record {self._source.continues!r} that it goes on from is not in the store; "
                "imported as a root"
            )
        return None

    def _turns_from(self, source_id: str) -> list[tuple[str, int]]:
        """Return (session id, index) of the stored turns that came from a record, of this source's sessions."""
        quads = self._repository.store.quads((None, vocab.SOURCE_ID, Literal(source_id), None))
        found = [quad.subject.value for quad in quads]  # type: ignore[union-attr] # turns' IRIs
        prefix = f"{self._source.source}:"
        return sorted((iris.session_id(i), iris.turn_index(i)) for i in found if iris.session_id(i).startswith(prefix))

    def _place(self, path: _Path, family: list[Session], start: tuple[Session, int] | None, *, main: bool) -> None:
        """Find where a path belongs: in a session as it is, at the end of one, or as a new session or fork."""
        best = self._best(path, family, start)
        if best is None:
            self._homes.append(self._create(path, family, start))
            return
        match, session = best
        if self._source.saved is not None:
            beside = _holder(family, path) if match.rest else session if match.length < len(session) else None
            if beside is not None:
                self._note_earlier(beside)
                return
        self._note_in_clear(session, match.length)
        self._recount(session, session.turns[: match.length])
        if match.uncounted:
            self._report.notes.append(
                f"{session.id}: the source tells the usage of {match.uncounted} turn(s) otherwise than they were imported; "
                "turns never change, so it counts here as it did then"
            )
        if match.continued:
            self._report.notes.append(
                f"{session.id}: {match.continued} turn(s) had been imported in part; turns never change, so what the source "
                "has more of them are turns of their own, which count only what its usage tells beyond the part"
            )
        if not match.rest:
            self._note_unchanged(session)
        elif match.length == len(session) and not (self._source.forks_at_ends and session in self._homes):
            self._grow(session, match.rest)
        elif main and self._was_read_before(session):
            self._note_unchanged(session)
            self._report.notes.append(
                f"{session.id}: this file was imported before, when turn {match.length} was read otherwise; the session stays as "
                "it is. To have it as it is read now, delete the session and import the file again"
            )
        else:
            session = self._branch(session, match, path, family, main=main) or session
        self._homes.append(session)

    def _was_read_before(self, session: Session) -> bool:
        """Tell whether a session came from these very files: what differs then is how they are read, not what they say."""
        node = NamedNode(iris.session(session.id))
        files = [NamedNode(file.iri) for file in self._read.files.values()]
        store = self._repository.store
        return bool(files) and all(store.quads((node, vocab.DERIVED_FROM, file, vocab.CATALOG)) for file in files)

    def _best(
        self, path: _Path, family: list[Session], start: tuple[Session, int] | None
    ) -> tuple[_Match, Session] | None:
        """Return the stored session that has most of a path, with how much; None where none is stored.

        In all of them, forks too, the path begins where the source session goes on from another one, or at 0 where it was
        imported before that one was.
        """
        best: tuple[_Match, Session] | None = None
        offsets = {0, start[1] if start else 0}
        for session in family:
            for offset in offsets:
                match = match_turns(session.turns, path, offset)
                if best is None or (match.length, -len(match.rest)) > (best[0].length, -len(best[0].rest)):
                    best = match, session
        return best

    def _note_in_clear(self, session: Session, length: int) -> None:
        """Say which turns hold secrets that were to be taken out: they were imported before, and turns never change."""
        if not self._withholding.out:
            return
        found = [each for turn in session.turns[:length] for each in self._withholding.in_stored(turn)]
        new = [each for each in found if each not in self._report.secrets]
        self._report.secrets += new
        if new:
            self._report.notes.append(
                f"{session.id}: {len(new)} secret(s) were imported before without taking them out, and turns never change; "
                "`trails redact` takes the content out of such a turn"
            )

    def _recount(self, session: Session, turns: Sequence[Turn]) -> None:
        """Count the usage of turns that are here already as it is counted now, where an earlier version counted it otherwise."""
        store = self._repository.store
        gone, come = migrations.recount_changes(store, turns)
        if not come:
            return
        tx = self._read.recorded(store, session.id, is_new=False)
        tx.take(gone)
        tx.add(come)
        tx.commit(store)
        self._report.notes.append(
            f"{session.id}: an earlier version counted the tokens of {len({quad.subject for quad in come})} turn(s) otherwise; "
            "they are counted as their source counts them now"
        )

    def _note_unchanged(self, session: Session) -> None:
        if session.id not in (*self._report.unchanged, *self._report.sessions_created, *self._report.grown):
            self._report.unchanged.append(session.id)

    def _note_earlier(self, session: Session) -> None:
        self._note_unchanged(session)
        saved = self._source.saved
        when = f" (saved {saved.isoformat()})" if saved is not None and saved.year > 1 else ""
        self._report.notes.append(
            f"{session.id}: a state of the source{when} holds nothing that is not here; nothing was added"
        )

    def _grow(self, session: Session, rest: Iterable[SourceTurn]) -> None:
        self._append(session, rest)
        if session.id not in (*self._report.grown, *self._report.sessions_created):
            self._report.grown.append(session.id)

    def _create(
        self, path: tuple[SourceTurn, ...], family: list[Session], start: tuple[Session, int] | None
    ) -> Session:
        """Make the session itself: a fork of what it goes on from or repeats, else a root."""
        source = self._source
        rest: Iterable[SourceTurn] = path
        shared = start or (None if self._repeats_alone else self._copied(path))
        spawner = self._spawner()
        meta = dict(source.meta) | ({"title": source.title} if source.title else {})
        if source.spawned_by is not None and spawner is None:
            meta[import_records.AWAITED_PARENT] = imported_id(source.source, source.spawned_by)
        created = source.created or next((turn.time for turn in path if turn.time), None)
        if shared is not None:
            parent, at = shared
            rest = shift_summaries(path, at) if start else match_turns(parent.turns, path, 0).rest
            session = parent.fork(
                at,
                id=self._id,
                principal=source.principal,
                agent=source.agent,
                meta=meta,
                created=created,
                source_session=self._name,
            )
            self._report.forks_created.append(session.id)
            if spawner == parent.id:  # one that shares another session's turns hangs from that one alone
                session.worktree.change_record(spawned_by=spawner)
            if source.spawned_by is not None:
                self._report.notes.append(
                    f"{self._id}: was spawned with its parent's turns, and is kept as a fork of it"
                )
        else:
            session = self._repository.create(
                id=self._id,
                principal=source.principal,
                agent=source.agent,
                meta=meta,
                created=created,
                system=source.system,
                spawned_by=spawner,
                source_session=self._name,
            )
            self._report.sessions_created.append(session.id)
        try:
            self._append(session, rest)
        except TrailsError:
            made = self._report.forks_created if shared else self._report.sessions_created
            made.remove(session.id)
            session.discard_pending()
            raise
        found = list(self._withholding.in_session(self._given, session.id))
        self._report.secrets += found
        if any(each.where == SESSION_ID for each in found):
            self._report.notes.append(
                f"{self._id}: the session's id itself holds a secret, and an id cannot be taken out of what is stored: "
                "purge the session, change the id in the file and import it again"
            )
        family.append(session)
        return session

    def _append(self, session: Session, turns: Iterable[SourceTurn]) -> None:
        """Write turns at the end of a session, and report them with the secrets in them."""
        added, found = append_turns(session, turns, self._withholding)
        tree = session.worktree
        if tree.has_news:
            tx = self._read.recorded(tree.workspace.store, session.id, is_new=not tree.stored)
            tree.persist(tx.change())
        self._report.turns_added += added
        self._report.secrets += found

    def _spawner(self) -> str | None:
        if self._source.spawned_by is None:
            return None
        spawner = imported_id(self._source.source, self._source.spawned_by)
        if spawner in self._repository:
            return spawner
        self._report.notes.append(f"{self._id}: {spawner!r}, which spawned it, is not in the store")
        return None

    def _copied(self, path: Sequence[SourceTurn]) -> tuple[Session, int] | None:
        """Return the session whose first turns this one repeats, and how many of them; None if it repeats none."""
        if self._source.copied_from is None:
            return None
        parent_id = imported_id(self._source.source, self._source.copied_from)
        family = (
            [parent_id, *(r.id for r in self._repository.branches(parent_id))] if parent_id in self._repository else []
        )
        best: tuple[Session, int] | None = None
        for candidate in family:
            session = self._repository.load(candidate)
            shared = match_turns(session.turns, path, 0).length
            if shared and (best is None or shared > best[1]):
                best = session, shared
        if not self._source.is_surely_copied:  # equal instructions alone are no history: an answer that both have is
            return best if best and any(turn.role == "assistant" for turn in path[: best[1]]) else None
        if best is None and not self._source.repeats:
            self._report.notes.append(
                f"{self._id}: {parent_id!r}, which it names as its parent, shares no turn with it here"
            )
        return best

    def _branch(
        self, session: Session, match: _Match, path: Sequence[SourceTurn], family: list[Session], *, main: bool
    ) -> Session | None:
        """Make a fork of a stored session for a path that leaves it."""
        first_new = self._withholding.turn(match.rest[0])
        fork_id = branch_id(self._id, [first_new])
        if fork_id in self._repository:  # the same turn was imported before, after turns that the source has changed
            before = takewhile(lambda turn: first_new.source_ids[0] not in turn.source_ids, path)
            fork_id = branch_id(self._id, [*map(self._withholding.turn, before), first_new])
        other = branch_id(self._id, [self._withholding.otherwise(match.rest[0])])  # as imported the other way before
        for each in (fork_id, other):
            if self._repository.reader.is_deleted(each):
                self._report.deleted.append(each)
                return None
        first = next((turn.time for turn in match.rest if turn.time), None)
        meta = {name: self._source.meta[name] for name in self._source.fork_meta if name in self._source.meta}
        fork = session.fork(match.length, id=fork_id, meta=meta or None, created=first, source_session=self._name)
        try:
            self._append(fork, match.rest)
        except TrailsError:
            fork.discard_pending()
            raise
        family.append(fork)
        (self._report.changed if match.altered else self._report.forks_created).append(fork.id)
        if match.altered:
            self._report.notes.append(
                f"{fork.id}: the source's turn {match.length} differs from the one imported before into {session.id!r}; "
                "both are kept"
            )
        elif main and session.id == self._id:
            self._report.notes.append(
                f"{fork.id}: holds the source's main branch now; {session.id!r} was left as it was"
            )
        return fork


def branch_id(base: str, turns: Sequence[SourceTurn]) -> str:
    """Return the id of a fork that some turns stand for: the same whenever they come again."""
    hasher = hashlib.sha256()
    for turn in turns:
        text, structured = validation.content(turn.content)
        for part in (*turn.source_ids, turn.role, str(structured), text):
            hasher.update(f"{len(part)}:".encode() + part.encode())
    return f"{base}~{hasher.hexdigest()[:16]}"


def append_turns(session: Session, turns: Iterable[SourceTurn], withholding: SecretFilter) -> tuple[int, list[Found]]:
    """Append source turns to a session; return how many, and the secrets in them."""
    count, found = 0, list[Found]()
    for turn in turns:
        found += withholding.in_turn(turn, session.id, len(session))
        session.worktree.append(record_checks.make_draft(withholding.turn(turn)))
        count += 1
    return count, found


def match_turns(stored: Sequence[Turn], path: Sequence[SourceTurn], offset: int) -> _Match:
    """Compare a stored transcript, from index `offset` on, with a path of the source.

    A stored turn is confirmed when one source turn holds all its records and says the same with those alone: what a
    message got from records that came later is then the rest of it, and goes on the end as a turn of its own.
    """
    place = {source_id: (i, turn) for i, turn in enumerate(path) for source_id in turn.source_ids}
    confirmed: set[str] = set()
    counted: dict[int, list[dict[str, Any]]] = {}
    """The usages that the stored parts of a source turn carry: its rest must not count them again."""
    length, reached, altered = offset, -1, False
    for turn in stored[offset:]:
        position, source = place.get(turn.source_ids[0], (-1, None)) if turn.source_ids else (-1, None)
        ids = frozenset(turn.source_ids)
        if source is None or not ids <= frozenset(source.source_ids):
            break
        if not _same(turn, source.restricted(ids)) or _skipped(path, reached, position, confirmed):
            altered = True
            break
        confirmed |= ids
        counted.setdefault(position, []).append(turn.usage)
        reached = max(reached, position)
        length += 1
    rest, uncounted, continued = [], 0, 0
    for position, source in enumerate(path):
        missing = [source_id for source_id in source.source_ids if source_id not in confirmed]
        if len(missing) == len(source.source_ids):
            rest.append(source)
        elif missing:
            rest.append(_rest_of(source.restricted(frozenset(missing)), counted.get(position, [])))
            continued += 1
        elif source.usage and position in counted and any(usage_numbers(usage_beyond(source.usage, counted[position]))):
            uncounted += 1
    rest = shift_summaries(rest, offset)
    return _Match(length, tuple(rest), altered, uncounted, continued)


def _rest_of(turn: SourceTurn, counted: Sequence[dict[str, Any]]) -> SourceTurn:
    """Return what came later of a turn that is there in part: what is counted with its parts is not counted again."""
    left = usage_beyond(turn.usage or {}, counted)
    if any(number > 0 for number in usage_numbers(left)) or not any(counted):
        return replace(turn, usage=clamp_usage(left) or None)
    said = {} if turn.stop_reason is None else {"stop_reason": turn.stop_reason}
    return replace(turn, model=None, usage=None, stop_reason=None, call=None, meta=said | dict(turn.meta))


def _holder(family: Sequence[Session], path: Sequence[SourceTurn]) -> Session | None:
    """Return a stored session that says all that an earlier state of its source says, in that order; None for none."""
    return next((session for session in family if _holds(session.turns, path)), None)


def _holds(stored: Sequence[Turn], path: Sequence[SourceTurn]) -> bool:
    homes = {source_id: turn for turn in stored for source_id in turn.source_ids}
    reached = -1
    for source in path:
        for piece in source.pieces:
            home = homes.get(piece.source_id)
            if home is None or home.index < reached or not _has_role(home, source) or not _contains(home, piece):
                return False
            reached = home.index
    return True


def _contains(home: Turn, piece: Piece) -> bool:
    """Tell whether a stored turn says what one of its records says now: all that it says, or a run of its parts."""
    if home.redacted:
        return True
    if len(home.source_ids) == 1:
        content = piece.content if isinstance(piece.content, str) else list(piece.content)
        return bool(home.content == content)
    said = [{"type": "text", "text": piece.content}] if isinstance(piece.content, str) else list(piece.content)
    parts = home.content if isinstance(home.content, list) else []
    return any(parts[at : at + len(said)] == said for at in range(len(parts) - len(said) + 1))


def shift_summaries(path: Sequence[SourceTurn], offset: int) -> list[SourceTurn]:
    """Return turns of a path that starts at an index other than 0, the indices that its summaries name moved along."""
    return [
        replace(turn, compaction=_moved(turn.compaction, offset)) if offset and turn.compaction else turn
        for turn in path
    ]


def _moved(compaction: Compaction, offset: int) -> Compaction:
    places = ("summarised_through", "first_kept", "summarised_from")
    at = {name: getattr(compaction, name) for name in places}
    moved = {name: None if index is None or index + offset < 0 else index + offset for name, index in at.items()}
    return compaction.model_copy(update=moved)


def _skipped(path: Sequence[SourceTurn], reached: int, position: int, confirmed: set[str]) -> bool:
    """Tell whether the source has a whole turn, between those confirmed and a next one, that is not stored."""
    return any(not confirmed & set(turn.source_ids) for turn in path[reached + 1 : position])


def _same(turn: Turn, source: SourceTurn) -> bool:
    if turn.redacted:  # what it said is gone on purpose: its records are known, and that is all that can be compared
        return True
    try:
        text, structured = validation.content(source.content)
    except InvalidInput:
        return False
    return _has_role(turn, source) and turn.structured == structured and same_but_redacted(turn.text, text)


def _has_role(turn: Turn, source: SourceTurn) -> bool:
    """Tell whether roles agree; earlier versions took the program's own error notices for the assistant's words."""
    return turn.role == source.role or (turn.role, source.role) == ("assistant", "error")
