"""Verify a whole store, in worker processes if it is large.

It reads raw rows, not sessions: it has to name exactly what `load` would refuse. Sessions are checked in worker processes if
there are many, else in threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain as chain_of
from pathlib import Path
from typing import Final, NamedTuple

from pyoxigraph import NamedNode, Quad

from trails import workers
from trails.display.progress import Progress
from trails.errors import StoreFailed, TrailsError
from trails.history import log_history, record_registry, transaction
from trails.history.log_leaves import row_of
from trails.history.reader import Reader
from trails.history.removal import deletion, redaction
from trails.history.verification.findings import Findings, log_state
from trails.history.verification.session_checks import (
    CheckBasis,
    CheckResult,
    Part,
    catalog_statements,
    check_parts,
    check_session_rows,
    note_log_faults,
    recorded,
)
from trails.integrity import digests, leaves
from trails.model import iris
from trails.model.lineage import lineage
from trails.model.validation import decodes
from trails.model.values import Finding, SessionRecord, VerifyReport
from trails.rdf import vocab
from trails.rdf.activity_records import author_type
from trails.rdf.codec import subject_of
from trails.rdf.session_records import decode_records, prompt_quads, session_quads, tool_quads
from trails.rows import row_faults
from trails.rows.row_faults import RowFault
from trails.rows.store_rows import StoreRows
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore, ViewStore
from trails.store.index.index_folder import IndexFolder
from trails.store.tsv import Term

MANY_TURNS: Final = 20_000
"""Turns from which on processes are started: that takes as long as some thousand turns."""
MANY_PLAIN_TURNS: Final = 400_000
"""The same if turns are plain: the engine works for most of that time, and threads keep two cores busy."""
_PLAIN: Final = 12
"""Quads a turn, of all that a store has, up to which most turns are plain: such a one has ten."""
_FEW_QUADS: Final = 100_000
"""Quads that a process soon has read from the log."""
_PIECE: Final = 500
"""Turns that a process is given at a time, at least."""


class ProcessTask(NamedTuple):
    """What a process is told at its beginning."""

    location: str
    records: Mapping[str, SessionRecord]
    since: int | None
    has_rows: bool


def check_in_parallel(basis: CheckBasis, turns: Mapping[Part, int]) -> Iterator[CheckResult]:
    """Yield what comes of parts of a store, some at a time; `turns` is by part about how many it has."""
    left, total = dict(turns), sum(turns.values())
    place, is_plain = basis.store.folder, len(basis.store) <= _PLAIN * total
    many = MANY_PLAIN_TURNS if is_plain else MANY_TURNS
    if left and place is not None and total >= many and _is_soon_open(place, basis) and (processes := workers.count()):
        with suppress(workers.WorkersFailed):  # what they did not come to is done here
            for piece, done in workers.each(_BEGIN, _given(basis, place), _pieces(left), processes):
                for part in piece:
                    del left[part]
                yield done
    with ThreadPoolExecutor(max_workers=3, thread_name_prefix="trails-verify") as pool:
        # the engine reads for one while another's digests are computed
        yield from pool.map(lambda part: check_parts(basis, [part]), left)


def _is_soon_open(place: Path, basis: CheckBasis) -> bool:
    """Tell whether another process can open a store without reading all of its log, which takes longer than to verify it."""
    return len(basis.store) < _FEW_QUADS or bool(IndexFolder(place).snapshots())


def _pieces(turns: Mapping[Part, int]) -> list[Sequence[Part]]:
    """Return parts as pieces of work, the longest first: else all might wait for one that is begun last."""
    pieces, piece, size = list[Sequence[Part]](), list[Part](), 0
    for part in sorted(turns, key=turns.__getitem__, reverse=True):
        piece.append(part)
        size += turns[part]
        if size >= _PIECE:
            pieces.append(piece)
            piece, size = [], 0
    return [*pieces, piece] if piece else pieces


_BEGIN: Final = f"{__name__}:begin_checking"


def _given(basis: CheckBasis, place: Path) -> ProcessTask:
    return ProcessTask(str(place), basis.records, basis.known.since, basis.rows is not None)


def begin_checking(given: ProcessTask) -> Callable[[Sequence[Part]], CheckResult]:
    """Return what checks sessions, in a process of its own, by a look at the store that is no older than this process."""
    store = ViewStore(Path(given.location))
    rows = StoreRows(store) if given.has_rows else None
    basis = CheckBasis(store, Reader(store), given.records, log_state(store, given.since), rows)
    return lambda parts: check_parts(basis, parts)


@decodes
def verify(
    store: QuadStore,
    reader: Reader,
    session_id: str | None,
    progress: Progress | None = None,
    *,
    since: int | None = None,
    only_new: bool = False,
    rows: StoreRows | None = None,
) -> VerifyReport:
    """Check one session and its ancestors, or (None) everything in the store, and report what is wrong.

    `since` is the number of the log's lines that a checkpoint covers. What these told of and what only a later redaction
    explains is a finding then: a redaction of a name or a fact can't prove what stands in its place. With `only_new`, turns
    are read only of sessions of which a later line tells; of all others the rows in the catalog are checked. `rows` are held
    against the quads, too.
    """
    if session_id is None and isinstance(store, EmbeddedStore):
        store.refuse_failed()
        try:
            store.read_rewritten()
        except StoreFailed as error:
            return VerifyReport(sessions=0, turns=0, findings=(Finding(code="bad-log", message=error.message),))
    faults: list[RowFault] = []
    if rows is not None:
        with rows.reading() as connection:
            faults += row_faults.schema_faults(connection) if row_faults.is_stored(connection) else []
            rows = rows if row_faults.is_stored(connection) and not faults else None
    audit = _Audit(store, reader, progress, since, rows)
    audit.found.rows += faults
    if session_id is not None:
        audit.lineage_of(session_id)
    else:
        audit.everything(only_new=only_new)
    audit.found.note_rows()
    return VerifyReport(
        sessions=audit.sessions,
        turns=audit.turns,
        records=audit.records,
        log_lines=audit.log_lines,
        findings=tuple(digests.first_by_index(audit.found.all)),
    )


class _Audit:
    def __init__(
        self, store: QuadStore, reader: Reader, progress: Progress | None, since: int | None, rows: StoreRows | None
    ) -> None:
        self._rows = rows
        self._progress = progress
        self._store = store
        self._reader = reader
        self.sessions = 0
        self.turns = 0
        self.records = 0
        self.found = Findings()
        self._quads = 0
        self._records: dict[str, SessionRecord] = {}
        self._known = log_state(store, since)
        self.log_lines = len(self._known.lines)
        self._named: set[str] = set()
        """The subjects of the catalog that were found to be wrong as they stand."""

    def lineage_of(self, session_id: str) -> None:
        """Check a session and its ancestors."""
        self._records = {record.id: record for record in self._reader.lineage(session_id)}
        self._check_log()
        self._check_sessions(shards=False)
        self._records_of_kinds(every=False)

    def everything(self, *, only_new: bool) -> None:
        """Check the catalog, all sessions or those with something new, and that there is nothing else."""
        catalog = self._store.quads((None, None, None, vocab.CATALOG))
        subjects: dict[str, list[Quad]] = defaultdict(list)
        for quad in catalog:
            subjects[subject_of(quad)].append(quad)
        self.records = len(subjects)
        for subject, quads in subjects.items():
            self._subject(subject, quads)
        self._agents(catalog)
        self._check_log()
        self._check_source()
        self._redactions()
        for record in self._records.values():
            self._lineage(record)
        changed = log_history.changed_sessions(self._known.lines[self._known.since or 0 :]) if only_new else None
        self._check_sessions(changed, shards=changed is None)
        self._records_of_kinds(every=True)
        for code, owner, what in transaction.slot_findings(self._records.values()):
            self.found.add(code, owner, what)
        self._graphs(subjects, None if changed is not None else len(catalog))
        self._gone(subjects)
        for session_id, what in deletion.false_tombstone(self._store, self._known.lines, self._known.sessions):
            self.found.add("rolled-back", session_id, what)
        self._unexplained(subjects)
        if changed is None:
            self._other_rows(subjects)

    def _other_rows(self, subjects: dict[str, list[Quad]]) -> None:
        """Compare the rows of what is no session in the store, and the tables as a whole."""
        if self._rows is None:
            return
        tags = {
            iris.tag_name(iri)
            for iri, quads in subjects.items()
            if any(q.object in (vocab.TAG, vocab.REF) for q in quads)
        }
        with self._rows.reading() as connection:
            sessions = {iris.session_id(iri) for iri in subjects if iris.is_session(iri)}
            for session_id in (sessions | row_faults.session_ids(connection)) - self._records.keys():
                statements = catalog_statements(subjects.get(iris.session(session_id), []))
                length = recorded(self._known.sessions.get(session_id))
                self.found.rows += row_faults.session_faults(connection, session_id, statements, length)
            self.found.rows += row_faults.store_faults(connection, {tag for tag in tags if tag}, self._store.number)

    @property
    def _basis(self) -> CheckBasis:
        return CheckBasis(self._store, self._reader, self._records, self._known, self._rows)

    def _check_sessions(self, changed: Collection[str] | None = None, *, shards: bool) -> None:
        """Check the turns of all sessions, or of those that changed, in processes beside this one where there are many.

        With `shards`, the index of all texts is compared with them, too.
        """
        basis = self._basis
        wanted: dict[Part, int] = {
            name: self._logged_turns(each) for name, each in self._records.items() if changed is None or name in changed
        }
        total = sum(wanted.values())
        if shards and self._rows is not None:
            with self._rows.reading() as connection:
                wanted.update(row_faults.shards(connection))
        rows = [check_session_rows(basis, self._records.keys() - wanted)]
        for checked in chain_of(rows, check_in_parallel(basis, wanted)):
            self.sessions += checked.sessions
            self.turns += checked.turns
            self._quads += checked.quads
            self.found.all += checked.findings
            self.found.rows += checked.rows
            self.found.covered.update(checked.covered)
            if self._progress and checked.sessions:
                self._progress(self.turns, max(self.turns, total), "")

    def _logged_turns(self, record: SessionRecord) -> int:
        log = self._known.sessions.get(record.id)
        return max(0, log.heads[-1][0] - record.starts_at) if log is not None and log.heads else 0

    def _records_of_kinds(self, *, every: bool) -> None:
        for checks in self._known.checks:
            self.found.all += checks.store(self._records, every)

    # --- the log

    def _check_log(self) -> None:
        if self._store.log.trouble is not None:
            self.found.add("bad-log", None, self._store.log.trouble)
        for number, what in leaves.check_links(self._known.lines):
            self.found.add("bad-log", None, f"line {number} of the log: {what}")
        for quads in self._known.made.values():
            self.found.cover(quads)

    def _check_source(self) -> None:
        """Look at the log where its truth is, if that is elsewhere: it may have been altered since it was read."""
        read = self._store.log.source
        if read is not None and (trouble := read()) is not None:
            self.found.add("bad-log", None, trouble)

    def _redactions(self) -> None:
        """Hold the redactions that the catalog knows against those that were logged."""
        rewritten = redaction.rewritten_records(self._store, self._known.numbers)
        differing = self._known.numbers.keys() ^ self._known.made.keys()
        for leaf in sorted(differing, key=lambda leaf: self._known.numbers.get(leaf, -1)):  # as they were rewritten
            gone = leaf in self._known.numbers
            if gone and (when := rewritten.get((leaf.session_iri, leaf.count))):
                rewritten_at = when.pop(0)
                if self._known.since is not None and self._known.numbers[leaf] < self._known.since <= rewritten_at:
                    self.found.unproven(iris.session_id(leaf.session_iri), "the record of a redaction was redacted")
                continue
            code, what = "unlogged", "has a redaction that was not logged"
            if gone:
                code, what = "row-altered", "was redacted, and the record of who did it was altered"
            of_turn = iris.is_session(leaf.session_iri)
            where = f"turn {leaf.count} " if of_turn else ""
            self.found.add(code, iris.session_id(leaf.session_iri), where + what, leaf.count if of_turn else None)

    def _gone(self, subjects: dict[str, list[Quad]]) -> None:
        """Find sessions that the log knows and the store does not, and tombstones that were altered."""
        for session_id, log in self._known.sessions.items():
            if session_id in self._records:
                continue
            note_log_faults(self.found, self._known, session_id, log)
            if not any(quad.object == vocab.TOMBSTONE for quad in subjects.get(iris.session(session_id), [])):
                self.found.add("rolled-back", session_id, "is in the log and neither in the store nor deleted")
                continue
            row = row_of(self._store, session_id)
            self.found.cover(row.quads)
            stands = row.made_with if row.is_salted else row.whole
            wanted = log.renamed if log.renamed and self._known.was_renamed(session_id) else log.made_with
            if wanted != stands or not log.deleted:
                self.found.add("row-altered", session_id, "its tombstone is not the one that was logged")

    def _unexplained(self, subjects: dict[str, list[Quad]]) -> None:
        """Find what stands in the catalog and belongs to nothing that was logged: all but the names of people and agents."""
        for subject in (
            subjects.keys() - self.found.covered - self._named - {record.iri for record in self._records.values()}
        ):
            quads = subjects[subject]
            if iris.is_author(subject) or all(transaction.is_known_mark(self._store, quad) for quad in quads):
                continue
            if any(kind.own_leaf(quad) for kind in record_registry.KINDS for quad in quads):
                continue
            home = subject.partition("/")[0]
            owner = iris.session_id(home) if iris.is_session(home) else None
            shown = "its tombstone" if subject == home and owner is not None else subject
            self.found.add("unlogged", owner, f"{shown} is in the store, and no line of the log tells of it")

    # --- the catalog

    def _subject(self, subject: str, quads: list[Quad]) -> None:
        types = {quad.object for quad in quads if quad.predicate == vocab.TYPE}
        try:
            expected = self._expected(subject, quads, types)
        except (TrailsError, ValueError) as error:
            self.found.add("bad-row", iris.session_id(subject) if iris.is_session(subject) else None, f"{error}")
            self._named.add(subject)
            return
        if set(quads) != expected:
            self._named.add(subject)
        for quad in set(quads) - expected:
            self.found.stray(quad)
        for quad in expected - set(quads):
            self.found.missing(quad)

    def _expected(self, subject: str, quads: list[Quad], types: set[Term]) -> set[Quad]:
        """Return the quads that a subject of the catalog would have if it were written from what it says."""
        rows = [(subject, quad.predicate.value, quad.object) for quad in quads]
        about = {quad for quad in quads if quad.predicate in _BESIDE_RECORD}
        begun = {quad for quad in quads if transaction.is_known_mark(self._store, quad)}
        if vocab.SESSION in types:
            record = decode_records(rows)[iris.session_id(subject)]
            self._records[record.id] = record
            return {q for q in session_quads(record) if q.subject == NamedNode(subject)} | about | begun
        if vocab.TOMBSTONE in types:
            return {q for q in quads if q.predicate in _TOMBSTONE and not transaction.is_work_mark(q)} | begun
        if vocab.SYSTEM_PROMPT in types:
            return self._prompt(subject)
        if (kind := record_registry.kinds_of_types(types)) is not None:
            return set(kind.as_written(subject, quads))
        if vocab.DELETION in types:  # the log says whether what it says is as it was
            return {q for q in quads if q.predicate in _said_of(subject)}
        return begun | _author_quads(subject, quads)

    def _prompt(self, subject: str) -> set[Quad]:
        owner = iris.session_id(subject)
        for prompt in self._reader.prompts([owner]).values():
            if iris.system_prompt(iris.session(owner), prompt.version) != subject:
                continue
            right = digests.prompt_digest(
                prompt.text,
                prompt.salt,
                version=prompt.version,
                effective_from=prompt.effective_from,
                redacted=prompt.redacted,
            )
            if right != prompt.digest:
                self.found.add("digest-mismatch", owner, f"version {prompt.version} of the system prompt was altered")
            return {quad for quad in prompt_quads(prompt) if quad.subject == NamedNode(subject)}
        return set()

    def _agents(self, catalog: Iterable[Quad]) -> None:
        """Check that the catalog says what whoever it names is: a principal or an agent."""
        named = {quad.object for quad in catalog if quad.predicate in _NAMING}
        said = {quad.subject: quad for quad in catalog if quad.object in (vocab.PRINCIPAL, vocab.AGENT)}
        for who in named - said.keys():
            self.found.missing(author_type(str(getattr(who, "value", who))))

    def _graphs(self, subjects: dict[str, list[Quad]], in_catalog: int | None) -> None:
        """Find graphs that belong to no session; those of deleted ones may still wait to be swept.

        `in_catalog` is how many quads the catalog has; None where not all graphs were read, so that nothing can be summed up.
        """
        known = in_catalog or 0
        for (graph,) in self._reader.select("graphs"):
            if iris.is_session(graph.value) and iris.session_id(graph.value) in self._records:
                continue
            quads = len(self._store.quads((None, None, None, graph)))
            known += quads
            if record_registry.owner_of(graph.value) is not None:
                continue
            found = record_registry.kinds_beside(graph.value)
            place, home = (None, graph.value) if found is None else (found[0].beside, found[1])
            owner = self._records.get(iris.session_id(home)) if iris.is_session(home) else None
            if place is not None and owner is not None and (owner.key is not None or not place.needs_key):
                continue
            if quads and not any(transaction.is_known_mark(self._store, quad) for quad in subjects.get(home, [])):
                what = "belongs to no session" if place is None else place.orphan
                self.found.add("stray-graph", None, f"the graph {graph.value} {what}")
        if in_catalog is None:
            return
        if len(self._store) != known + self._quads:  # worker processes read the log: this engine holds something else
            result = check_parts(self._basis, self._records)
            self.found.all += [each for each in result.findings if each not in self.found.all]
            self._quads = result.quads
        if more := len(self._store) - known - self._quads:
            self.found.add("stray", None, f"{more} quads stand in graphs that the store does not list")

    # --- sessions

    def _lineage(self, record: SessionRecord) -> None:
        try:
            lineage(record.id, self._records)
        except TrailsError as error:
            self.found.add("bad-lineage", record.id, f"{error}")
        if record.spawned_by is not None and record.spawned_by not in self._records:
            self.found.add("bad-lineage", record.id, f"{record.spawned_by!r}, which spawned it, is not in the store")

    # --- nothing else


def _author_quads(subject: str, quads: Iterable[Quad]) -> set[Quad]:
    """Return what the quads of a tool have to be; and those of a principal or an agent that say what it is."""
    return set(tool_quads(subject)) if iris.is_tool(subject) else set(quads) & {author_type(subject)}


def _said_of(deletion: str) -> frozenset[NamedNode]:
    """Return the properties of a deletion: of a turn's content, of a record, or of a session."""
    removal: frozenset[NamedNode] = frozenset().union(*(kind.removal(deletion) for kind in record_registry.KINDS))
    if removal:
        return removal
    if iris.is_redaction(deletion):
        return redaction.RECORD_PREDICATES
    return redaction.TURN_RECORD_PREDICATES if iris.is_turn_deletion(deletion) else _DELETION


_NAMING = frozenset({vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH, vocab.SESSION_AGENT, vocab.FORKED_BY})
"""What of the catalog names principals and agents."""
_BESIDE_RECORD = frozenset(
    {vocab.DERIVED_FROM, vocab.SPECIALIZATION_OF, vocab.LEAF_SALT, vocab.ROW_SALT, vocab.FORK_DIGEST}
)
"""What a session's row holds beside its record; the log says whether it is as it was."""
_DELETION = frozenset({vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REASON, vocab.RULE}) | {
    *(vocab.DELETED_TURNS, vocab.DELETED_HEAD, vocab.DELETED_AT_LOG_SIZE, vocab.DELETED_AT_ROOT)
}
_TOMBSTONE = frozenset({vocab.TYPE, vocab.DELETED_AT, vocab.INVALIDATED_BY, vocab.LEAF_SALT})
