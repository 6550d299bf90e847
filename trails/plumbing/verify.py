"""`verify`: whether what is stored is whole and was not altered.

It reads raw rows, not sessions: what `load` would refuse is exactly what has to be named here. The common case is
quick (`as_written`): a graph that has all that its turns are written as, and no more quads, holds nothing else. Any
other graph is walked quad by quad and held against what its own turns would be written as.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.decoding import decodes
from trails.errors import TrailsError
from trails.integrity import chain, digests, leaves
from trails.integrity.chain import StoredTurn
from trails.integrity.leaves import Leaf
from trails.lineage import answered_calls, lineage, prompt_sent, segments, summary_shown
from trails.model import NO_FACTS, Facts, Finding, SessionRecord, Turn, VerifyReport
from trails.plumbing import as_written, copies, former, kinds, logged, redaction_records, slots, unfinished
from trails.plumbing.derived import Derived, Told
from trails.plumbing.kind import Checks, Evidence
from trails.plumbing.leaves import Row, redactions, row_of
from trails.plumbing.reader import Reader
from trails.progress import Progress
from trails.records.deeds import author_type
from trails.records.sessions import decode_records, prompt_quads, session_quads
from trails.records.terms import parse_time
from trails.records.tools import named_in, tool_quads
from trails.records.turns import Links, decode_facts, turn_quads
from trails.store import tsv
from trails.store.contract import QuadStore, Term

_DIGITS = 16
"""Of a turn's digest, as many stand in its IRI."""


@decodes
def verify(
    store: QuadStore,
    reader: Reader,
    session_id: str | None,
    progress: Progress | None = None,
    *,
    since: int | None = None,
    derived: Derived | None = None,
) -> tuple[VerifyReport, dict[str, Told]]:
    """Check one session and its ancestors, or (None) everything in the store, and report what is wrong.

    `since` is the number of the log's lines that a checkpoint covers. What these told of and what only a later redaction
    explains is a finding then: a redaction of a name or a fact can't prove what stands in its place. Also returned is by
    session id what `derived` found of it.
    """
    audit = _Audit(store, reader, progress, since, derived)
    if session_id is not None:
        audit.lineage_of(session_id)
    else:
        audit.everything()
    report = VerifyReport(
        sessions=audit.sessions,
        turns=audit.turns,
        records=audit.records,
        log_lines=audit.log_lines,
        findings=tuple(chain.first_by_index(audit.findings)),
    )
    return report, audit.told


class _Audit:
    def __init__(
        self, store: QuadStore, reader: Reader, progress: Progress | None, since: int | None, derived: Derived | None
    ) -> None:
        self._derived = derived
        self.told: dict[str, Told] = {}
        self._progress = progress
        self._since = since
        self._store = store
        self._reader = reader
        self.sessions = 0
        self.turns = 0
        self.records = 0
        self.log_lines = 0
        self.findings: list[Finding] = []
        self._quads = 0
        self._records: dict[str, SessionRecord] = {}
        self._log: dict[str, logged.SessionLog] = {}
        self._checks: list[Checks] = []
        """What is wrong with the records of each kind."""
        self._redacted: set[str] = set()
        self._stands_as: dict[str, str] = {}
        self._stands_anew: set[str] = set()
        self._numbers: dict[Leaf, int] = {}
        self._starts: set[str] = set()
        self._taken: set[str] = set()
        self._tools: dict[str, bool] = {}
        self._covered: set[str] = set()
        """The subjects of the catalog that a leaf of the log is about."""
        self._named: set[str] = set()
        """Those that were found to be wrong as they stand."""

    def lineage_of(self, session_id: str) -> None:
        """Check a session and its ancestors."""
        self._records = {record.id: record for record in self._reader.lineage(session_id)}
        self._read_log()
        self._check_sessions()
        self._records_of_kinds(every=False)

    def everything(self) -> None:
        """Check the catalog, all sessions, and that there is nothing else."""
        catalog = self._store.quads((None, None, None, vocab.CATALOG))
        subjects: dict[str, list[Quad]] = defaultdict(list)
        for quad in catalog:
            subjects[_name(quad)].append(quad)
        self.records = len(subjects)
        for subject, quads in subjects.items():
            self._subject(subject, quads)
        self._agents(catalog)
        self._read_log()
        self._redactions()
        for record in self._records.values():
            self._lineage(record)
        self._check_sessions()
        self._records_of_kinds(every=True)
        for code, owner, what in slots.findings(self._records.values()):
            self._add(code, owner, what)
        self._graphs(subjects, len(catalog))
        self._gone(subjects)
        for session_id, what in former.untrue(self._store, self._store.log.lines(), self._log):
            self._add("rolled-back", session_id, what)
        self._unexplained(subjects)

    def _check_sessions(self) -> None:
        """Check the turns of all sessions: the engine reads for one while another's digests are computed."""
        with ThreadPoolExecutor(max_workers=3, thread_name_prefix="trails-verify") as pool:
            for done, (turns, quads) in enumerate(pool.map(self._session, list(self._records.values())), 1):
                self.sessions, self.turns, self._quads = done, self.turns + turns, self._quads + quads
                if self._progress:
                    self._progress(done, len(self._records), "")

    def _records_of_kinds(self, *, every: bool) -> None:
        for checks in self._checks:
            self.findings += checks.store(self._records, every)

    # --- the log

    def _read_log(self) -> None:
        lines = self._store.log.lines()
        self.log_lines = len(lines)
        if self._store.log.trouble is not None:
            self._add("bad-log", None, self._store.log.trouble)
        for number, what in leaves.check_links(lines):
            self._add("bad-log", None, f"line {number} of the log: {what}")
        self._log = logged.by_session(lines)
        self._numbers = numbers = logged.redactions(lines)
        self._logged = numbers.keys()
        self._made = dict(redactions(self._store))
        for quads in self._made.values():
            self._cover(quads)
        self._redacted = {_digest_of(quads) for leaf, quads in self._made.items() if leaf in self._logged}
        self._starts = {digest[:_DIGITS] for digest in self._redacted if digest}
        self._stands_as = redaction_records.standing(self._store, self._logged)
        self._taken = redaction_records.taken(self._store, self._logged)
        if self._since is not None:
            before = [leaf for leaf, number in numbers.items() if number < self._since]
            then = redaction_records.standing(self._store, before)
            self._stands_anew = {digest for digest, said in self._stands_as.items() if then.get(digest) != said}
        evidence = Evidence(
            store=self._store,
            lines=lines,
            old=logged.first_of_this_version(lines),
            since=self._since,
            taken=self._taken,
            is_redacted=self._is_redacted,
        )
        self._checks = [kind.checks(evidence) for kind in kinds.KINDS]

    def _redactions(self) -> None:
        """Hold the redactions that the catalog knows against those that were logged."""
        rewritten = redaction_records.rewritten(self._store, self._numbers)
        differing = self._logged ^ self._made.keys()
        for leaf in sorted(differing, key=lambda leaf: self._numbers.get(leaf, -1)):  # as they were rewritten
            gone = leaf in self._logged
            if gone and (when := rewritten.get((leaf.session_iri, leaf.count))):
                rewritten_at = when.pop(0)
                if self._since is not None and self._numbers[leaf] < self._since <= rewritten_at:
                    self._unproven(iris.session_id(leaf.session_iri), "the record of a redaction was redacted")
                continue
            code, what = "unlogged", "has a redaction that was not logged"
            if gone:
                code, what = "row-altered", "was redacted, and the record of who did it was altered"
            of_turn = iris.is_session(leaf.session_iri)
            where = f"turn {leaf.count} " if of_turn else ""
            self._add(code, iris.session_id(leaf.session_iri), where + what, leaf.count if of_turn else None)

    def _against_log(self, record: SessionRecord, rows: Sequence[StoredTurn]) -> None:
        """Hold a session against what the log says of it: its row, and its head after every batch of turns."""
        log = self._log.get(record.id)
        stands = row_of(self._store, record.id)
        self._cover(stands.quads)
        if log is None or log.deleted or log.made_with is None:
            self._add("unlogged", record.id, "is in the store and not in its log")
            return
        self._row_against_log(record, log, stands)
        digest_at = {row.index: row.digest for row in rows}
        covered = max((count for count, _, number in log.heads if number < (self._since or 0)), default=0)
        for row in rows:
            if row.digest in self._stands_anew and row.index < covered:
                self._unproven(record.id, f"a name or a fact was taken out of turn {row.index}", row.index)
        for count, head, _ in log.heads:
            if digest_at.get(count - 1) != head:
                what = "is gone" if count - 1 not in digest_at else "is another one"
                self._add("rolled-back", record.id, f"turn {count - 1}, which was logged, {what}", count - 1)
                return
        own = {index: digest for index, digest in digest_at.items() if index >= record.starts_at}
        if log.came_back_with_others(own, record.starts_at):
            self._add("logged-twice", record.id, "was deleted and came back with other turns")
        known = log.heads[-1][0] if log.heads else record.starts_at
        if rows and rows[-1].index >= known:
            self._add("unlogged", record.id, f"turn {known} is in the store and not in its log", known)

    def _faults(self, session_id: str, log: logged.SessionLog) -> None:
        for fault in log.faults:
            if not (fault.endswith(logged.AGAIN) and self._was_renamed(session_id)):
                self._add("logged-twice", session_id, fault)
            elif self._is_newer(fault, log.began):
                self._unproven(session_id, fault)
        if log.redone_at is not None and self._since is not None and log.began < self._since <= log.redone_at:
            self._unproven(session_id, f"leaf {log.redone_at}: what it was made with was logged anew")

    def _is_newer(self, fault: str, began: int = -1) -> bool:
        """Tell whether a fault of something that a checkpoint covers came after it."""
        return self._since is not None and began < self._since <= logged.number_of(fault)

    def _unproven(self, session_id: str, what: str, index: int | None = None) -> None:
        why = "since the checkpoint, so what stands there now is not proven by it; sign a new one"
        self._add("unproven", session_id, f"{what} {why}", index)

    def _was_renamed(self, session_id: str) -> bool:
        """Tell whether a logged redaction took a name out of what never changes of a session otherwise."""
        iri = iris.session(session_id)
        return iri in self._taken or iris.deletion(iri) in self._taken

    def _row_against_log(self, record: SessionRecord, log: logged.SessionLog, row: Row) -> None:
        self._faults(record.id, log)
        if log.is_old:
            if row.whole != log.row:
                self._add("row-altered", record.id, "its row in the catalog is not the one that was logged last")
        else:
            if row.made_with != log.made_with:
                what = "what it was made with (its id, principal, agent, kind, time, source, fork point) is not as it was logged"
                self._add("row-altered", record.id, what)
            if row.rest != log.row:
                self._add("row-altered", record.id, "its row in the catalog is not the one that was logged last")
        if log.redone and record.source_session is None and not self._was_renamed(record.id):
            self._add("logged-twice", record.id, "what it was made with was logged again, and it was not imported")

    def _gone(self, subjects: dict[str, list[Quad]]) -> None:
        """Find sessions that the log knows and the store does not, and tombstones that were altered."""
        for session_id, log in self._log.items():
            if session_id in self._records:
                continue
            self._faults(session_id, log)
            if not any(quad.object == vocab.TOMBSTONE for quad in subjects.get(iris.session(session_id), [])):
                self._add("rolled-back", session_id, "is in the log and neither in the store nor deleted")
                continue
            row = row_of(self._store, session_id)
            self._cover(row.quads)
            stands = row.made_with if row.is_salted else row.whole
            wanted = log.renamed if log.renamed and self._was_renamed(session_id) else log.made_with
            if wanted != stands or not log.deleted:
                self._add("row-altered", session_id, "its tombstone is not the one that was logged")

    def _cover(self, quads: Iterable[Quad]) -> None:
        self._covered.update(_name(quad) for quad in quads)

    def _unexplained(self, subjects: dict[str, list[Quad]]) -> None:
        """Find what stands in the catalog and belongs to nothing that was logged: all but the names of people and agents."""
        for subject in (
            subjects.keys() - self._covered - self._named - {record.iri for record in self._records.values()}
        ):
            quads = subjects[subject]
            if iris.is_author(subject) or all(unfinished.is_known(self._store, quad) for quad in quads):
                continue
            if any(kind.own_leaf(quad) for kind in kinds.KINDS for quad in quads):
                continue
            home = subject.partition("/")[0]
            owner = iris.session_id(home) if iris.is_session(home) else None
            shown = "its tombstone" if subject == home and owner is not None else subject
            self._add("unlogged", owner, f"{shown} is in the store, and no line of the log tells of it")

    # --- the catalog

    def _subject(self, subject: str, quads: list[Quad]) -> None:
        types = {quad.object for quad in quads if quad.predicate == vocab.TYPE}
        try:
            expected = self._expected(subject, quads, types)
        except (TrailsError, ValueError) as error:
            self._add("bad-row", iris.session_id(subject) if iris.is_session(subject) else None, f"{error}")
            self._named.add(subject)
            return
        if set(quads) != expected:
            self._named.add(subject)
        for quad in set(quads) - expected:
            self._stray(quad)
        for quad in expected - set(quads):
            self._missing(quad)

    def _expected(self, subject: str, quads: list[Quad], types: set[Term]) -> set[Quad]:
        """Return the quads that a subject of the catalog would have if it were written from what it says."""
        rows = [(subject, quad.predicate.value, quad.object) for quad in quads]
        about = {quad for quad in quads if quad.predicate in _BESIDE_RECORD}
        begun = {quad for quad in quads if unfinished.is_known(self._store, quad)}
        if vocab.SESSION in types:
            record = decode_records(rows)[iris.session_id(subject)]
            self._records[record.id] = record
            return {q for q in session_quads(record) if q.subject == NamedNode(subject)} | about | begun
        if vocab.TOMBSTONE in types:
            return {q for q in quads if q.predicate in _TOMBSTONE and not unfinished.is_mark(q)} | begun
        if vocab.SYSTEM_PROMPT in types:
            return self._prompt(subject)
        if (kind := kinds.of_types(types)) is not None:
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
                self._add("digest-mismatch", owner, f"version {prompt.version} of the system prompt was altered")
            return {quad for quad in prompt_quads(prompt) if quad.subject == NamedNode(subject)}
        return set()

    def _agents(self, catalog: Iterable[Quad]) -> None:
        """Check that the catalog says what whoever it names is: a principal or an agent."""
        named = {quad.object for quad in catalog if quad.predicate in _NAMING}
        said = {quad.subject: quad for quad in catalog if quad.object in (vocab.PRINCIPAL, vocab.AGENT)}
        for who in named - said.keys():
            self._missing(author_type(str(getattr(who, "value", who))))

    def _graphs(self, subjects: dict[str, list[Quad]], in_catalog: int) -> None:
        """Find graphs that belong to no session; those of deleted ones may still wait to be swept."""
        known = in_catalog + self._quads
        for (graph,) in self._reader.select("graphs"):
            if iris.is_session(graph.value) and iris.session_id(graph.value) in self._records:
                continue
            quads = len(self._store.quads((None, None, None, graph)))
            known += quads
            if kinds.owner(graph.value) is not None:
                continue
            found = kinds.beside(graph.value)
            place, home = (None, graph.value) if found is None else (found[0].beside, found[1])
            owner = self._records.get(iris.session_id(home)) if iris.is_session(home) else None
            if place is not None and owner is not None and (owner.key is not None or not place.needs_key):
                continue
            if quads and not any(unfinished.is_known(self._store, quad) for quad in subjects.get(home, [])):
                what = "belongs to no session" if place is None else place.orphan
                self._add("stray-graph", None, f"the graph {graph.value} {what}")
        if len(self._store) != known:
            self._add("stray", None, f"{len(self._store) - known} quads stand in graphs that the store does not list")

    # --- sessions

    def _lineage(self, record: SessionRecord) -> None:
        try:
            lineage(record.id, self._records)
        except TrailsError as error:
            self._add("bad-lineage", record.id, f"{error}")
        if record.spawned_by is not None and record.spawned_by not in self._records:
            self._add("bad-lineage", record.id, f"{record.spawned_by!r}, which spawned it, is not in the store")

    def _session(self, record: SessionRecord) -> tuple[int, int]:
        """Check one session's turns; return how many turns and how many quads its graph has."""
        rows, beyond = self._rows(record.id)
        own = [row for row in rows if row.index >= record.starts_at]
        below = [row for row in rows if row.index < record.starts_at]
        before = self._digest_before(record)
        if before is not None and record.fork_head is not None and before != record.fork_head:
            at = record.starts_at - 1
            self._add(
                "fork-head", record.id, f"was forked from a turn {at} with another digest: the parent was altered", at
            )
        self.findings += chain.check_run(record, own, before or record.fork_head or digests.GENESIS, self._stands_as)
        self._copies(record, below)
        self._against_log(record, rows)
        for row in rows:
            if row.redacted and row.digest not in self._redacted:
                what = f"turn {row.index} lost its content, and no redaction was logged"
                self._add("unlogged", record.id, what, row.index)
        [(count,)] = self._reader.select("quad_count", session=record.id)
        quads = int(count.value)
        seen = as_written.Seen(record, rows, beyond, quads)
        is_written = as_written.is_as_written(seen, lambda: self._inherited(record), self._is_said)
        if not is_written:
            self._walk(record, rows)
        if self._derived is not None:
            self.told[record.id] = self._derived.of(seen, is_written=is_written)
        turns = {row.iri for row in rows}
        for checks in self._checks:
            for code, what in checks.session(record.id, turns):
                self._add(code, record.id, what)
        return len(rows), quads

    def _is_redacted(self, turn: str) -> bool:
        """Tell whether the content of a turn, or of what it is a copy of, was redacted: by the digest in its IRI."""
        return turn.rpartition("-")[2] in self._starts

    def _rows(self, session_id: str) -> tuple[list[StoredTurn], list[as_written.Row] | None]:
        """Return a session's turns in order of index, and what stands in its graph beside what every turn has."""
        beyond = as_written.rows_of(self._reader.table("beyond_turns", session=session_id))
        try:
            facts = self._reader.facts(session_id) if beyond is None else decode_facts(as_written.of_facts(beyond))
        except (TrailsError, ValueError, AttributeError) as error:
            self._add("unreadable", session_id, f"what is recorded with its turns cannot be read: {error}")
            facts = {}
        rows = []
        for row in self._reader.table("sealed_turns", session=session_id):
            try:
                rows.append(_stored_turn(row, facts))
            except (TrailsError, ValueError, AttributeError) as error:
                self._add("unreadable", session_id, f"{row[0]} holds values that Trails never writes: {error}")
        rows.sort(key=lambda row: row.index)
        return rows, beyond

    def _digest_before(self, record: SessionRecord) -> str | None:
        """Return the digest of the turn just before a session's own first one; None where it cannot be found."""
        at = record.forked_at_index
        if record.parent_session_id is None or not at:
            return digests.GENESIS
        try:
            ancestors = lineage(record.parent_session_id, self._records)
        except TrailsError:
            return None  # named by the check of the lineage
        owner = next(run for run in segments(ancestors, at) if run.end == at).record
        found = self._reader.digest_at(owner.id, at - 1)
        if found is None:
            self._add("index-gap", owner.id, f"has no turn {at - 1}, after which {record.id!r} was forked", at - 1)
        return found

    def _copies(self, record: SessionRecord, below: Sequence[StoredTurn]) -> None:
        """Find what lies below a fork's own indices: only what a detach is copying there just now may."""
        marks = self._store.quads((NamedNode(record.iri), vocab.TYPE, vocab.UNFINISHED_COPY, vocab.CATALOG))
        if any(unfinished.is_known(self._store, mark) for mark in marks):
            return
        for row in below:
            what = f"has a turn {row.index} below its fork index {record.starts_at}, which was not logged"
            self._add("unlogged", record.id, what, row.index)

    # --- nothing else

    def _walk(self, record: SessionRecord, rows: Sequence[StoredTurn]) -> None:
        """Hold every quad of a session's graph against what its turns would be written as."""
        sealed = [row.sealed(record.id) for row in rows]
        before = self._inherited(record) if any(_looks_back(row.facts) for row in rows) else []
        turns: list[Turn] = [*before, *(each.turn for each in sealed if each.turn.index >= len(before))]
        expected: set[Quad] = set()
        found = self._store.quads((None, None, None, NamedNode(record.iri)))
        actual = {_comparable(quad) for quad in found}
        copied = _copied(found)
        for each in sealed:
            answers = answered_calls(turns, each.turn) if each.turn.tool_results else {}
            again = self._of_copies(answers.values(), copied, record)
            try:
                links = Links(summary_shown(turns, each.turn), prompt_sent([record], each.turn))
                quads = turn_quads(each, answers, links=links, copied=each.turn.iri in copied, of_copies=again)
                expected |= (written := {_comparable(quad) for quad in quads})
                tools = named_in(quads)
                expected |= set(tools)
                actual |= {q for q in tools if self._store.quads((q.subject, q.predicate, q.object, q.graph_name))}  # type: ignore[arg-type] # IRIs and literals
                if again and each.turn.iri not in copied:
                    # What a fork had before it was detached names the calls where they stood first too: wholly, or not.
                    named = {_comparable(quad) for quad in turn_quads(each, answers, links=links)} - written
                    expected |= named if named & actual else set()
            except (TrailsError, ValueError) as error:
                self._add("unreadable", record.id, f"turn {each.turn.index} cannot be read: {error}", each.turn.index)
        own = {each.turn.iri for each in sealed}
        for quad in actual - expected:
            if not self._stands_beside(quad, record, own):
                self._stray(quad)
        for quad in expected - actual:
            self._missing(quad)

    def _stands_beside(self, quad: Quad, record: SessionRecord, turns: Collection[str]) -> bool:
        """Tell whether a quad says that a turn of the session is a copy, so that the log has it with the session's row."""
        turn, act = iris.turn_of(_iri(quad.subject)), _iri(quad.object)
        if not copies.is_beside(quad) or turn not in turns:
            return False
        if quad.predicate != vocab.GENERATED_BY or iris.turn_index(turn) < record.starts_at:  # see `_copies`
            return True
        known = (NamedNode(act), vocab.TYPE, vocab.COPYING, vocab.CATALOG)
        return act.startswith(f"{record.iri}/act/") and bool(self._store.quads(known))

    def _of_copies(self, calls: Iterable[str], copied: Collection[str], record: SessionRecord) -> set[str]:
        """Return those calls that stand with copied turns: of this session, or of one that it inherits from."""
        found: set[str] = set()
        for call in calls:
            graph = NamedNode(iris.session(iris.session_id(call)))
            kept = (NamedNode(call), vocab.TYPE, vocab.TOOL_CALL_COPY, graph)
            if iris.turn_of(call) in copied if graph.value == record.iri else self._store.quads(kept):
                found.add(call)
        return found

    def _is_said(self, tool_iri: str) -> bool:
        """Tell whether the catalog says what it has to of a tool."""
        if tool_iri not in self._tools:
            self._tools[tool_iri] = all(
                self._store.quads((q.subject, q.predicate, q.object, q.graph_name))  # type: ignore[arg-type] # IRIs and literals
                for q in tool_quads(tool_iri)
            )
        return self._tools[tool_iri]

    def _inherited(self, record: SessionRecord) -> list[Turn]:
        if record.parent_session_id is None or not record.starts_at:
            return []
        try:
            ancestors = lineage(record.parent_session_id, self._records)
            return self._reader.turns(ancestors, record.starts_at)
        except TrailsError:
            return []  # named by the checks of lineage and indices

    def _stray(self, quad: Quad) -> None:
        self._add("stray", _owner(quad), f"a quad that belongs to nothing: {quad}")

    def _missing(self, quad: Quad) -> None:
        self._add("missing", _owner(quad), f"a quad is missing: {quad}")

    def _add(self, code: str, session_id: str | None, what: str, index: int | None = None) -> None:
        where = f"session {session_id!r}: " if session_id is not None else ""
        self.findings.append(Finding(code=code, session_id=session_id, index=index, message=where + what))


def _stored_turn(row: Sequence[str], facts: Mapping[str, Facts]) -> StoredTurn:
    turn, index, role, value, author, digest, salt, branch, time = row
    iri, when = tsv.iri(turn), tsv.date_time(time)
    text, structured, redacted = tsv.content(value)
    return StoredTurn(
        iri=iri,
        index=tsv.integer(index),
        role=tsv.string(role),
        text=text,
        structured=structured,
        redacted=redacted,
        author_iri=tsv.iri(author),
        digest=tsv.string(digest),
        salt=tsv.string(salt),
        branch=tsv.string(branch),
        time=None if when is None else parse_time(when),
        facts=facts.get(iri, NO_FACTS),
    )


def _author_quads(subject: str, quads: Iterable[Quad]) -> set[Quad]:
    """Return those of the quads of a principal, an agent or a tool that say what it is."""
    return set(quads) & set(tool_quads(subject) if iris.is_tool(subject) else [author_type(subject)])


def _said_of(deletion: str) -> frozenset[NamedNode]:
    """Return the properties of a deletion: of a turn's content, of a record, or of a session."""
    removal: frozenset[NamedNode] = frozenset().union(*(kind.removal(deletion) for kind in kinds.KINDS))
    if removal:
        return removal
    if iris.is_redaction(deletion):
        return redaction_records.RECORD
    return redaction_records.OF_TURN if iris.is_turn_deletion(deletion) else _DELETION


def _digest_of(quads: Iterable[Quad]) -> str:
    return next((str(q.object.value) for q in quads if q.predicate == vocab.DIGEST), "")  # type: ignore[union-attr] # a literal


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


def _iri(term: object) -> str:
    return str(getattr(term, "value", ""))


def _copied(quads: Iterable[Quad]) -> set[str]:
    """Return the turns that keep what belongs to the activities of others, and say that they are copies of those.

    Up to format 2 a copy had activities of its own: such a one is none of these.
    """
    kept: set[str] = set()
    copies_of: set[str] = set()
    for quad in quads:
        if quad.predicate in (vocab.KEPT_WITH, vocab.ANSWERS_COPY):
            kept.add(iris.turn_of(_iri(quad.subject)))
        elif quad.predicate in (vocab.ALTERNATE_OF, vocab.QUOTED_FROM):
            copies_of.add(_iri(quad.subject))
    return kept & copies_of


def _looks_back(facts: Facts) -> bool:
    """Tell whether what a turn is written as depends on the turns before it."""
    return bool(facts.tool_results) or (facts.model_call is not None and facts.model_call.call is not None)


def _comparable(quad: Quad) -> Quad:
    """Return a quad in which a link names what it leads to without its session: see `as_written.comparable`."""
    named = as_written.comparable(quad.predicate.value, quad.object)
    return quad if named is None else Quad(quad.subject, quad.predicate, NamedNode(named), quad.graph_name)


def _name(quad: Quad) -> str:
    return str(getattr(quad.subject, "value", quad.subject))


def _owner(quad: Quad) -> str | None:
    for node in (quad.graph_name, quad.subject):
        name = str(getattr(node, "value", ""))
        if iris.is_session(name):
            return iris.session_id(name)
    return None
