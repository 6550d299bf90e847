"""Merge transcripts into a store, by the same rules for all formats.

A session's id comes from its format and its id in the source, and every turn keeps the ids of the records that it came
from. So a transcript can be imported again at any time: what is there is left alone, a grown source goes on where it
ended, an earlier turn that changed in the source becomes a reported fork, and what was deleted here stays deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from itertools import takewhile
from typing import Any

from pyoxigraph import Literal, NamedNode

from trails.display.progress import Progress
from trails.errors import HeadConflict, InvalidInput, StoreFailed, StoreLocked, TrailsError
from trails.exchange import matching, record_checks
from trails.exchange.import_secrets import SESSION_ID, SecretFilter
from trails.exchange.source_transcript import FileProblem, ImportReport, SourceSession, SourceTurn, Transcript
from trails.files import readable_path
from trails.history import annotation_kinds, import_records, migrations
from trails.history.import_records import ImportedFiles, ImportSource
from trails.model import iris, validation
from trails.model.values import Turn
from trails.rdf import vocab
from trails.rdf.score_records import Score
from trails.secrets import Found, shown_id
from trails.session import Repository, Session, scoring
from trails.store.contract import Matching

Growing = Callable[[str, datetime | None], bool]
"""Called with the name of a file, and when what may not be whole was said, if known: whether it may still be written."""


class PartMisfitError(Exception):
    """A part of a source session cannot be put behind what is stored of it: the whole source tells."""


def merge(
    repository: Repository,
    transcript: Transcript,
    *,
    file: str = "",
    growing: Growing | None = None,
    progress: Progress | None = None,
    redact_secrets: bool = False,
    read: ImportedFiles | None = None,
    attach: Attach | None = None,
) -> ImportReport:
    """Store all sessions of a transcript, parents first.

    Turns at the end of a file that is still `growing` are kept back where they may not be whole; without it all are taken.
    A session that cannot be kept (a turn that the store refuses) is reported as a problem; the others are imported. Raises
    `StoreFailed` where the store cannot go on: the sessions before that are there, whole.
    The report names every secret in what came in; `redact_secrets` puts a mark in the place of each. Each session's import
    is recorded, with the files that were `read`. `attach` may put payloads on the turns that are new.
    """
    file = readable_path(file)
    read = read or ImportedFiles(begin_import(repository, "unknown"), {})
    lines = transcript.refused_lines
    if lines is None:
        lines = sum(problem.line > 0 for problem in transcript.problems)
    withholding = SecretFilter(out=redact_secrets or repository.workspace.scan == "redact")
    report = ImportReport(
        records=dict(transcript.records),
        notes=list(transcript.notes),
        left_out=list(transcript.left_out),
        problems=[
            FileProblem(file=readable_path(p.file) if p.file else file, line=p.line, reason=p.reason, text=p.text)
            for p in transcript.problems
        ],
    )
    ordered = _parents_first(transcript.sessions)
    for done, session in enumerate(ordered):
        if progress:
            progress(done, len(ordered), session.files[0] if session.files else shown_id(session.id))
        try:
            withholding.check_id(session.id)
            own = read.for_one(session.files, lines)
            with repository.workspace.merging(f"{session.source}:{session.id}"):
                try:
                    _Merge(repository, session, report, withholding, own, growing, file, attach).run()
                except HeadConflict:  # somebody else appended to it meanwhile: what they stored is seen now
                    _Merge(repository, session, report, withholding, own, growing, file, attach).run()
        except StoreFailed:  # no other session could be kept either; those that were are whole
            raise
        except StoreLocked as error:
            report.refuse(file, f"session {session.id!r}: {error}")
            report.locked.append(error.message)
        except TrailsError as error:
            report.refuse(file, f"session {session.id!r}: {error}")
    if progress:
        progress(len(ordered), len(ordered), "")
    return report


def begin_import(repository: Repository, importer: str, by: str | None = None) -> ImportSource:
    """Return who imports, and from when; `by` is as for `Repository.delete`."""
    # the package itself says its version: that names what stands above this module
    return ImportSource(
        importer, str(import_module("trails").__version__), repository.workspace.who(by), datetime.now(UTC)
    )


def imported_id(source: str, source_id: str) -> str:
    """Return the id of an imported session: `source:id`.

    It is percent-encoded if needed, and cut with a hash if too long.

    >>> imported_id("pi", "01-ab"), imported_id("pi", "a b")
    ('pi:01-ab', 'pi:a%20b')
    """
    encoded = iris.session(f"{source}:{source_id}").removeprefix(iris.session(""))
    if len(encoded) > validation.MAX_ID - 60:
        encoded = f"{encoded[:80]}~{hashlib.sha256(source_id.encode()).hexdigest()[:32]}"
    return encoded


def stored_family(store: Matching, source: str, source_id: str) -> list[str]:
    """Return the ids of the sessions stored from one session of a source, the main one first."""
    quads = store.quads((None, vocab.SOURCE_SESSION, Literal(f"{source}:{source_id}"), vocab.CATALOG))
    found = sorted(iris.session_id(quad.subject.value) for quad in quads)  # type: ignore[union-attr] # sessions' IRIs
    return sorted(found, key=lambda each: each != imported_id(source, source_id))


def _parents_first(sessions: Sequence[SourceSession]) -> list[SourceSession]:
    """Order sessions by dependency; sessions in a circle keep their order.

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
Attach = Callable[[Session, Sequence[SourceTurn]], Sequence[SourceTurn]]
"""Returns turns that are new to a session with payloads that somebody else has for them."""


@dataclass(slots=True)
class _Merge:
    """The import of one source session."""

    _repository: Repository
    _given: SourceSession
    _report: ImportReport
    _withholding: SecretFilter
    _read: ImportedFiles
    _growing: Growing | None
    _file: str
    _attach: Attach | None = None
    _source: SourceSession = field(init=False)
    """The source session as it is stored."""
    _repeats_alone: bool = False
    """Whether the turns that it repeats of its spawner are not shared with that."""
    _homes: list[Session] = field(default_factory=list)
    """The sessions that paths were placed in."""
    _family: list[Session] = field(default_factory=list)
    """The stored sessions that came from this source session, the main one first."""
    _begin: tuple[Session, int] | None = None
    """The stored session, and the index in it, that this source session goes on from; None for a root."""

    def __post_init__(self) -> None:
        self._given, problems = record_checks.drop_oversized(self._given)
        self._report.refuse(self._file, *problems)
        self._source = self._withholding.session(self._given)

    @property
    def _id(self) -> str:
        return self._imported_id(self._source.id)

    @property
    def _name(self) -> str:
        return f"{self._source.source}:{self._source.id}"

    def _note(self, session_id: str, text: str) -> None:
        self._report.notes.append(f"{session_id}: {text}")

    def run(self) -> None:
        if self._repository.reader.is_deleted(self._id):
            self._report.deleted.append(self._id)
            return
        if self._source.is_part:
            self._go_on()
            return
        family = stored_family(self._repository.store, self._source.source, self._source.id)
        self._family = [self._repository.load(each) for each in family]
        self._begin = self._start()
        main, *others = self._own_paths() or ((),)
        self._place(self._whole(main), main=True)
        for path in others:
            self._place(path, main=False)
        if self._source.scores and (scored := self._stored() or self._loaded(self._id)) is not None:
            self._keep_scores(scored)
        self._link_spawns()

    def _go_on(self) -> None:
        """Store the end of a source session: it begins with turns that a stored session ends with."""
        (path, *others), source = self._source.paths, self._source
        if others or source.scores or not path:
            raise PartMisfitError
        match, session = self._placed_part(path)
        if match.rest and source.open_turns and self._growing is not None:
            is_open = self._growing(source.open_in, None if source.open_surely else path[-1].time)
            if is_open:
                self._note_held()
                match, session = self._placed_part(path[: -source.open_turns])
        if match.rest:
            self._grow(session, match.rest)
        else:
            self._note_unchanged(session)

    def _placed_part(self, path: _Path) -> tuple[matching.Match, Session]:
        """Return the stored session that ends with the beginning of a path, and what comes after that."""
        found: list[tuple[matching.Match, Session]] = []
        for each in stored_family(self._repository.store, self._source.source, self._source.id):
            session = self._repository.load(each, last=len(path) + 1)
            tail = session.tail(len(path) + 1)
            begin = next((at for at, turn in enumerate(tail) if path and turn.source_ids == path[0].source_ids), None)
            if begin is None:
                continue
            match = matching.match_turns(tail[begin:], path, 0)
            if match.altered or begin + match.length < len(tail):
                raise PartMisfitError  # it leaves what is stored
            rest = tuple(matching.shift_summaries(match.rest, tail[begin].index))
            found.append((replace(match, rest=rest), session))
        if len(found) != 1:
            raise PartMisfitError
        return found[0]

    def _note_held(self) -> None:
        """Note that turns at the end are kept back."""
        source = self._source
        self._report.turns_held += source.open_turns
        what = f"{source.open_turns} turn(s) at the end of {source.open_in} were kept back: they may not be whole yet"
        self._note(self._id, f"{what}. A later import brings them; --final (`final=True`) takes them as they are")

    def _keep_scores(self, session: Session) -> None:
        """Store the scores that are new and were not removed here, in one commit."""
        workspace, filtered, turns = self._repository.workspace, self._withholding, session.turns
        new: dict[str, tuple[scoring.ScoreTarget, Score]] = {}
        for each in self._source.scores:
            found = annotation_kinds.find_score(workspace.store, each.id)
            if found is not None or annotation_kinds.is_removed_score(workspace.store, each.id):
                continue
            # of the turn that came from a record, if that is in the session, else of the session
            scored = next((turn for turn in turns if each.of in turn.source_ids), None)
            start, last = (scored.index if scored else None), scored or (turns[-1] if len(turns) else None)
            target = scoring.ScoreTarget(session.worktree.chain, start, last.index + 1 if last else 0, last)
            value, reason = filtered.value(each.value), filtered.value(each.reason)
            told: dict[str, Any] = {"version": each.version, "reason": reason, "time": each.time, "id": each.id}
            try:
                by = workspace.who(each.by)
                new[each.id] = target, scoring.make_score(workspace, target, each.name, value, by_iri=by, **told)
            except InvalidInput as error:
                reason = f"session {session.id!r}: the score {each.name[:80]!r} cannot be kept: {error}"
                self._report.refuse(self._file, reason)
            else:
                place = filtered.place(session.id)
                self._report.secrets += [*place.value("score", each.value), *place.text("score", each.reason)]
        if new:
            scoring.keep_score(workspace, list(new.values()))
            self._report.scores_added += len(new)

    def _stored(self) -> Session | None:
        """Return the stored session of its own id."""
        return next((session for session in self._family if session.id == self._id), None)

    def _loaded(self, session_id: str) -> Session | None:
        return self._repository.load(session_id) if session_id in self._repository else None

    def _imported_id(self, source_id: str | None) -> str:
        return imported_id(self._source.source, source_id or "")

    def _own_paths(self) -> tuple[_Path, ...]:
        """Return the paths as they are stored, without counting the spawner's usage again.

        The repeated turns are shared where the spawner has them all; left out where it has them in other places; and kept
        without their usage, which is the spawner's, where it is not there.
        """
        paths, repeated = self._source.paths, self._source.repeats
        if not repeated:
            return paths
        main = paths[0]
        stored = self._stored()
        if stored is not None and stored.parent_session_id is not None:
            return paths
        if stored is None and (shared := self._copied(main)) is not None and shared[1] >= repeated:
            return paths
        self._repeats_alone = True
        if stored is not None and len(stored):
            is_left = stored.turns[0].source_ids != main[0].source_ids
        else:  # whether the spawner, as it is stored, says all that they say
            spawner = self._loaded(self._imported_id(self._source.spawned_by))
            is_left = spawner is not None and matching.are_repeats_of(main[:repeated], spawner.turns)
        if is_left:
            self._note(
                self._id, f"its first {repeated} turn(s) are its spawner's, told again; they are stored with that alone"
            )
            return tuple(tuple(matching.shift_summaries(path[repeated:], -repeated)) for path in paths)
        return tuple((*map(matching.without_usage, path[:repeated]), *path[repeated:]) for path in paths)

    def _link_spawns(self) -> None:
        """Link the session with its spawner and its spawned sessions, if stored."""
        if self._stored() is None:
            return
        store, record = self._repository.store, self._repository.record(self._id)
        if self._source.spawned_by is not None and record.spawned_by is None:
            above = self._imported_id(self._source.spawned_by)
            if above != self._id and record.parent_session_id in (None, above) and above in self._repository:
                import_records.spawn_link(store, self._id, above)
        for child in import_records.sessions_awaiting(store, self._id):
            if child != self._id:
                import_records.spawn_link(store, child, self._id)

    def _whole(self, path: _Path) -> _Path:
        """Return a path without turns that may still grow; the report counts them."""
        source = self._source
        if not source.open_turns or self._growing is None:
            return path
        if not self._growing(source.open_in, None if source.open_surely else path[-1].time):
            return path
        best = self._best(path)
        if (best and not best[0].rest) or (source.saved is not None and self._holder(path) is not None):
            return path  # it is here already
        self._note_held()
        return path[: -source.open_turns]

    def _start(self) -> tuple[Session, int] | None:
        """Return the session and index that this one continues; None for a root."""
        if self._source.continues is not None:
            for session_id, index in self._turns_from(self._source.continues):
                return self._repository.load(session_id), index + 1
            what = f"the record {self._source.continues!r} that it goes on from is not in the store"
            self._note(self._id, f"{what}; imported as a root")
        return None

    def _turns_from(self, source_id: str) -> list[tuple[str, int]]:
        """Return (session id, index) of the turns stored from a record."""
        quads = self._repository.store.quads((None, vocab.SOURCE_ID, Literal(source_id), None))
        found = [quad.subject.value for quad in quads]  # type: ignore[union-attr] # turns' IRIs
        prefix = f"{self._source.source}:"
        return sorted((iris.session_id(i), iris.turn_index(i)) for i in found if iris.session_id(i).startswith(prefix))

    def _place(self, path: _Path, *, main: bool) -> None:
        """Store a path: in a session, at its end, or as a new session or fork."""
        best = self._best(path)
        if best is None:
            self._homes.append(self._create(path))
            return
        match, session = best
        if self._source.saved is not None:
            beside = self._holder(path) if match.rest else session if match.length < len(session) else None
            if beside is not None:
                self._note_earlier(beside)
                return
        self._note_in_clear(session, match.length)
        self._recount(session, session.turns[: match.length])
        if match.uncounted:
            what = f"the source tells the usage of {match.uncounted} turn(s) otherwise than they were imported"
            self._note(session.id, f"{what}; the imported usage counts")
        if match.continued:
            what = f"{match.continued} turn(s) had been imported in part; the rest of each is a turn of its own"
            self._note(session.id, f"{what}, which counts only the usage beyond the part")
        if not match.rest:
            self._note_unchanged(session)
        elif match.length == len(session) and not (self._source.forks_at_ends and session in self._homes):
            self._grow(session, match.rest)
        elif main and self._was_read_before(session):
            self._note_unchanged(session)
            what = f"this file was imported before, when turn {match.length} was read otherwise"
            how = "To replace it, delete the session and import the file again"
            self._note(session.id, f"{what}; the session stays as it is. {how}")
        else:
            session = self._branch(session, match, path, main=main) or session
        self._homes.append(session)

    def _was_read_before(self, session: Session) -> bool:
        """Tell whether a session was imported from these very files."""
        node = NamedNode(iris.session(session.id))
        files = [NamedNode(file.iri) for file in self._read.files.values()]
        store = self._repository.store
        return bool(files) and all(store.quads((node, vocab.DERIVED_FROM, file, vocab.CATALOG)) for file in files)

    def _holder(self, path: _Path) -> Session | None:
        """Return a stored session that holds a whole path; None for none."""
        return next((session for session in self._family if matching.holds_path(session.turns, path)), None)

    def _best(self, path: _Path) -> tuple[matching.Match, Session] | None:
        """Return the best match of a path, with its session; None for none.

        In all of them, forks too, the path begins where the source session goes on from another one, or at 0 where it was
        imported before that one was.
        """
        offsets = {0, self._begin[1] if self._begin else 0}
        found = ((matching.match_turns(session.turns, path, at), session) for session in self._family for at in offsets)
        return max(found, key=lambda each: (each[0].length, -len(each[0].rest)), default=None)

    def _note_in_clear(self, session: Session, length: int) -> None:
        """Note the secrets that an earlier import stored."""
        if not self._withholding.out:
            return
        found = [each for turn in session.turns[:length] for each in self._withholding.in_stored(turn)]
        new = [each for each in found if each not in self._report.secrets]
        self._report.secrets += new
        if new:
            self._note(session.id, f"{len(new)} secret(s) were imported before; `trails redact` redacts such a turn")

    def _recount(self, session: Session, turns: Sequence[Turn]) -> None:
        """Correct the token counts that an earlier version stored."""
        store = self._repository.store
        gone, come = migrations.recount_changes(store, turns)
        if not come:
            return
        tx = replace(self._read, is_sparse=False).recorded(store, session.id, is_new=False)
        tx.take(gone)
        tx.add(come)
        tx.commit(store)
        turns_changed = len({quad.subject for quad in come})
        what = f"an earlier version counted the tokens of {turns_changed} turn(s) otherwise"
        self._note(session.id, f"{what}; now they are counted as in the source")

    def _note_unchanged(self, session: Session) -> None:
        if session.id not in (*self._report.unchanged, *self._report.sessions_created, *self._report.grown):
            self._report.unchanged.append(session.id)

    def _note_earlier(self, session: Session) -> None:
        self._note_unchanged(session)
        saved = self._source.saved
        when = f" (saved {saved.isoformat()})" if saved is not None and saved.year > 1 else ""
        self._note(session.id, f"a state of the source{when} holds nothing that is not here; nothing was added")

    def _grow(self, session: Session, rest: Iterable[SourceTurn]) -> None:
        self._append(session, rest)
        if session.id not in (*self._report.grown, *self._report.sessions_created):
            self._report.grown.append(session.id)

    def _create(self, path: _Path) -> Session:
        """Create the session: a fork of what it continues or repeats, else a root."""
        source = self._source
        rest: Iterable[SourceTurn] = path
        shared = self._begin or (None if self._repeats_alone else self._copied(path))
        spawner = self._spawner()
        meta = dict(source.meta) | ({"title": source.title} if source.title else {})
        if source.spawned_by is not None and spawner is None:
            meta[import_records.AWAITED_PARENT] = self._imported_id(source.spawned_by)
        created = source.created or next((turn.time for turn in path if turn.time), None)
        own: dict[str, Any] = {"principal": source.principal, "agent": source.agent, "meta": meta, "created": created}
        own |= {"id": self._id, "source_session": self._name}
        if shared is not None:
            parent, at = shared
            rest = (
                matching.shift_summaries(path, at) if self._begin else matching.match_turns(parent.turns, path, 0).rest
            )
            session = parent.fork(at, **own)
            if spawner == parent.id:  # one that shares another session's turns hangs from that one alone
                session.worktree.change_record(spawned_by=spawner)
            if source.spawned_by is not None:
                self._note(self._id, "was spawned with its parent's turns, and is kept as a fork of it")
        else:
            session = self._repository.create(**own, system=source.system, spawned_by=spawner)
        self._append(session, rest)
        (self._report.forks_created if shared else self._report.sessions_created).append(session.id)
        found = list(self._withholding.in_session(self._given, session.id))
        self._report.secrets += found
        if any(each.where == SESSION_ID for each in found):
            how = "purge the session, change the id in the file and import it again"
            self._note(self._id, f"the session's id itself holds a secret, and an id cannot be redacted: {how}")
        self._family.append(session)
        return session

    def _append(self, session: Session, turns: Iterable[SourceTurn]) -> None:
        """Append turns to a session, and report them and their secrets."""
        count, found = 0, list[Found]()
        try:
            for turn in turns if self._attach is None else self._attach(session, list(turns)):
                found += self._withholding.in_turn(turn, session.id, len(session))
                session.worktree.append(record_checks.make_draft(self._withholding.turn(turn)))
                count += 1
            tree = session.worktree
            if tree.has_news:
                tx = self._read.recorded(tree.workspace.store, session.id, is_new=not tree.stored)
                tree.persist(tx.change())
        except TrailsError:
            session.discard_pending()
            raise
        self._report.turns_added += count
        self._report.secrets += found

    def _spawner(self) -> str | None:
        if self._source.spawned_by is None:
            return None
        spawner = self._imported_id(self._source.spawned_by)
        if spawner in self._repository:
            return spawner
        self._note(self._id, f"{spawner!r}, which spawned it, is not in the store")
        return None

    def _copied(self, path: Sequence[SourceTurn]) -> tuple[Session, int] | None:
        """Return the session whose first turns this one repeats, and their number."""
        if self._source.copied_from is None:
            return None
        parent_id, best = self._imported_id(self._source.copied_from), None
        family = (
            [parent_id, *(each.id for each in self._repository.branches(parent_id))]
            if parent_id in self._repository
            else []
        )
        for session in map(self._repository.load, family):
            shared = matching.match_turns(session.turns, path, 0).length
            if shared and (best is None or shared > best[1]):
                best = session, shared
        if not self._source.is_surely_copied:  # equal instructions alone are no history: an answer that both have is
            return best if best and any(turn.role == "assistant" for turn in path[: best[1]]) else None
        if best is None and not self._source.repeats:
            self._note(self._id, f"{parent_id!r}, which it names as its parent, shares no turn with it here")
        return best

    def _branch(self, session: Session, match: matching.Match, path: _Path, *, main: bool) -> Session | None:
        """Fork a stored session for a path that leaves it."""
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
        self._append(fork, match.rest)
        self._family.append(fork)
        (self._report.changed if match.altered else self._report.forks_created).append(fork.id)
        if match.altered:
            what = f"the source's turn {match.length} differs from the one imported before into {session.id!r}"
            self._note(fork.id, f"{what}; both are kept")
        elif main and session.id == self._id:
            self._note(fork.id, f"holds the source's main branch now; {session.id!r} was left as it was")
        return fork


def branch_id(base: str, turns: Sequence[SourceTurn]) -> str:
    """Return the id of a fork, derived from its turns."""
    hasher = hashlib.sha256()
    for turn in turns:
        text, structured = validation.content(turn.content)
        for part in (*turn.source_ids, turn.role, str(structured), text):
            hasher.update(f"{len(part)}:".encode() + part.encode())
    return f"{base}~{hasher.hexdigest()[:16]}"
