"""Read and write sessions as N-Quads or TriG, with every digest and salt.

A file holds a session and its ancestors whole: their rows, system prompts, tags and notes in the default graph, their
turns in one named graph each. What is derived of that stands in the default graph too, for whoever loads the file elsewhere,
and is left out where it comes in. There are no blank nodes, so sorted N-Quads is the canonical form: a session that is exported,
imported into another store and exported again gives the same bytes. Sessions beside or below it are not in the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyoxigraph as ox
from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput, ParentMissing, TrailsError
from trails.exchange.merge import begin_import
from trails.exchange.source_transcript import ImportReport
from trails.history import import_records, log_history, log_leaves, record_registry, transaction
from trails.history.import_records import ImportedFiles
from trails.history.lookup.session_quads import prompt_quads, session_quads
from trails.history.reader import Reader
from trails.history.records import payloads
from trails.history.removal import deletion, redaction
from trails.history.removal.redaction import keep_redacted
from trails.history.transaction import Transaction
from trails.integrity.leaves import Kind, Leaf
from trails.model import iris, validation
from trails.model.values import SessionRecord
from trails.rdf import vocab
from trails.rdf.derived_quads import with_derived, without_derived
from trails.rdf.session_records import tools_named_in
from trails.session import Repository
from trails.store.contract import Change, QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.pattern import Pattern, Preview

FORMATS: Final = {"nquads": ox.RdfFormat.N_QUADS, "trig": ox.RdfFormat.TRIG}
_PREFIXES: Final = {name: vocab.PREFIXES[name] for name in ("trails", "prov", "xsd", "rdf")}
_DELETIONS: Final = frozenset({vocab.TOMBSTONE, vocab.DELETION})
_REDACTIONS: Final = frozenset({vocab.DELETED_TURN, vocab.REDACTED_FROM})
_SHOWN: Final = 3
"""How many of a file's faults an error names."""


def export_session(repository: Repository, session_id: str, format: str, out: BinaryIO) -> None:  # noqa: A002
    """Write a session and its ancestors to a binary file as `nquads` (sorted lines) or `trig`.

    Raises as `Repository.load` does where the session is missing or its transcript is not whole; nothing is written
    then.
    """
    form = _form(format)
    record = repository.record(session_id)
    chain = repository.reader.lineage(record.id)
    repository.reader.as_stored.turns(
        chain
    )  # raises where anything is missing: no export promises what it does not hold
    quads = with_derived(quad for each in chain for quad in session_quads(repository.store, each))
    if form == ox.RdfFormat.N_QUADS:
        out.writelines(sorted(line(quad) for quad in quads))
    else:
        ordered = sorted(quads, key=lambda quad: (_graph_name(quad), line(quad)))
        ox.serialize(ordered, out, format=form, prefixes=_PREFIXES)


def line(quad: Quad) -> bytes:
    """Return a quad as a line of N-Quads, with its newline."""
    return ox.serialize([quad], format=ox.RdfFormat.N_QUADS) or b""


def _form(name: str) -> ox.RdfFormat:
    if name not in FORMATS:
        raise InvalidInput(f"{name!r} is no RDF format for sessions; there are: {', '.join(FORMATS)}")
    return FORMATS[name]


def _graph_name(quad: Quad) -> str:
    return quad.graph_name.value if isinstance(quad.graph_name, NamedNode) else ""


# --- in


def import_rdf(
    repository: Repository,
    data: bytes,
    format: str,  # noqa: A002 - the public name
    *,
    restore: bool = False,
    by: str | None = None,
    name: str | None = None,
) -> ImportReport:
    """Import the sessions of an export; importing it again adds nothing.

    The whole file is checked before anything is written: terms, rows, lineage (in the file or the store), indices,
    every digest. Then each session is written in one commit, parents first. A session that is there already gets what
    the file has beyond it; it is left alone where it has more, and reported as changed where it has other turns. A
    session that was deleted here stays deleted unless `restore` is set, which lifts its tombstone in the same commit.
    What is written says who imported it (`by` is as for `Repository.delete`), when, and from which bytes, called `name`; that
    is this store's, and in no export of the session.

    Raises `InvalidInput` for a file that does not hold whole, unaltered sessions and `ParentMissing` for one whose
    parents are neither in it nor in the store; nothing is written then.
    """
    read = ImportedFiles(begin_import(repository, format, by), {"": import_records.source_file(data, name)})
    file, records = check_sessions(repository, _parse(data, _form(format)), restore=restore)
    report = ImportReport()
    ordered = sorted(records, key=lambda record: (len(file.reader.lineage(record.id)), record.id))
    report.records = {
        "trails:Session": len(ordered),
        "trails:Turn": sum(len(file.store.quads(_turns_of(record))) for record in ordered),
    }
    for record in ordered:
        try:
            Arrival(repository, file, record, report, read, restore).run()
        except TrailsError as error:
            report.refuse("", f"session {record.id!r} was not imported: {error}")
    return report


def _turns_of(record: SessionRecord) -> Pattern:
    return (None, vocab.TYPE, vocab.TURN, NamedNode(record.iri))


def _parse(data: bytes, form: ox.RdfFormat) -> list[Quad]:
    """Return the quads of a file, but what is derived; raise if one can be in no export."""
    try:
        quads = list(ox.parse(data, format=form))
    except (SyntaxError, ValueError) as error:
        raise InvalidInput(f"the file is not valid {form.name}: {error}; nothing was imported") from error
    except MemoryError as error:
        what = f"the file holds a line that cannot be read, longer than the engine's parsers take: {error}"
        raise InvalidInput(f"{what}; nothing was imported") from error
    for quad in quads:
        if (fault := _fault_of(quad)) is not None:
            raise InvalidInput(f"{fault}; nothing was imported")
    return list(without_derived(quads))


def _fault_of(quad: Quad) -> str | None:
    """Return why a quad can be part of no export; None if it can."""
    value = quad.object
    if isinstance(value, Literal) and not validation.fits(value.value):
        longest = f"the {validation.MAX_TEXT:,} bytes that can be written and read again"
        return f"a text of the file is longer than {longest} ({quad.subject} {quad.predicate})"
    if isinstance(value, Literal) and value.datatype == vocab.JSON and validation.is_nested_too_deep(value.value):
        deepest = validation.MAX_JSON_DEPTH
        return f"a value of the file is nested deeper than {deepest} ({quad.subject} {quad.predicate})"
    if any(isinstance(term, ox.BlankNode | ox.Triple) for term in (quad.subject, value, quad.graph_name)):
        return f"blank nodes and quoted triples are in no export of Trails: {quad}"
    subject = str(getattr(quad.subject, "value", ""))
    is_redaction = value == vocab.DELETION and (iris.is_turn_deletion(subject) or iris.is_redaction(subject))
    if (value in _DELETIONS and not is_redaction) or quad.predicate in vocab.PENDING:
        return f"deletions of sessions are in no export of Trails: {quad}"
    return None


def check_sessions(
    target: Repository, quads: Sequence[Quad], *, restore: bool
) -> tuple[Repository, list[SessionRecord]]:
    """Return a store that holds the sessions of some quads, and their records; raise `InvalidInput` for what is not whole.

    Ancestors that only the target has are in that store, too.
    """
    sessions = {
        str(quad.subject.value)  # type: ignore[union-attr] # no blank nodes and triples here
        for quad in quads
        if quad.predicate == vocab.TYPE and quad.object == vocab.SESSION and quad.graph_name == vocab.CATALOG
    }
    if not sessions:
        raise InvalidInput("the file holds no session (no row of the type trails:Session); nothing was imported")
    if restore:
        deletion.sweep_pending(target.store)
    scratch = EmbeddedStore(None)
    # Who spawned a session is not part of its history, and need not be at hand: the row keeps it, the check skips it.
    scratch.commit(Change(add=[quad for quad in quads if quad.predicate != vocab.SPAWNED_BY]))
    _check_owners(scratch, sessions, quads)
    ids = sorted(iris.session_id(iri) for iri in sessions)
    try:
        records = Reader(scratch).records(ids)
        for session_id in records:
            validation.session_id(session_id)
        _borrow_ancestors(target, scratch, records)
        _join_leftovers(target, scratch, records)
        log_leaves.begin_session(scratch)
        file = Repository(scratch)
        report = file.verify()
    except (ValueError, AttributeError) as error:
        raise _refused([f"{error}"]) from error
    if not report.ok:
        raise _refused([finding.message for finding in report.findings])
    scratch.commit(Change(add=[quad for quad in quads if quad.predicate == vocab.SPAWNED_BY]))
    return file, list(file.reader.records(ids).values())


def _refused(faults: Sequence[str]) -> InvalidInput:
    more = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
    what = f"the file does not hold whole, unaltered sessions: {'; '.join(faults[:_SHOWN])}{more}"
    return InvalidInput(f"{what}; nothing was imported. Export the session again, or restore it from a backup")


def _check_owners(scratch: QuadStore, sessions: set[str], quads: Iterable[Quad]) -> None:
    """Raise unless every quad belongs to one of the sessions."""
    named = set(sessions)
    for iri in sessions:
        node = NamedNode(iri)
        versions, turns = prompt_quads(scratch, node), scratch.quads((None, None, None, node))
        agents = [(version, vocab.ATTRIBUTED_TO) for version in versions]
        agents += [(node, predicate) for predicate in (vocab.ATTRIBUTED_TO, vocab.SESSION_AGENT, vocab.FORKED_BY)]
        objects = [quad.object for pair in agents for quad in scratch.quads((*pair, None, vocab.CATALOG))]
        beside = [quad for kind in record_registry.KINDS for quad in kind.exported(scratch, node)]
        records = [quad for quad in beside if quad.graph_name == vocab.CATALOG]
        records += [*tools_named_in(turns), *redaction.records_with_digests(scratch, turns)]
        records += redaction.redactions_of_session(scratch, node)
        named |= {each.value for each in (*versions, *objects) if isinstance(each, NamedNode)}
        named |= {str(quad.subject.value) for quad in records}  # type: ignore[union-attr] # IRIs
    carried = {*payloads.payloads_among(quads)}
    for quad in quads:
        graph = quad.graph_name
        home = graph.value if isinstance(graph, NamedNode) else str(quad.subject.value)  # type: ignore[union-attr] # IRIs
        kind_and_owner = record_registry.kinds_beside(home)
        owner = home if kind_and_owner is None else kind_and_owner[1]
        if isinstance(graph, NamedNode) and graph in carried:
            continue
        if owner not in sessions if isinstance(graph, NamedNode) else home not in named:
            raise _refused([f"this belongs to no session in it: {quad}"])
        if quad.predicate == vocab.SPAWNED_BY and not (
            isinstance(quad.object, NamedNode) and iris.is_session(quad.object.value)
        ):
            raise _refused([f"this names no session: {quad}"])


def _borrow_ancestors(target: Repository, scratch: EmbeddedStore, records: dict[str, SessionRecord]) -> None:
    """Add the ancestors that only the target store has."""
    for record in records.values():
        parent = record.parent_session_id
        if parent is None or parent in records:
            continue
        try:
            chain = target.reader.lineage(parent)
        except TrailsError as error:
            what = f"the parent {parent!r} of session {record.id!r} is not in the file and not readable in the store"
            how = "import an export that holds both. Nothing was imported"
            raise ParentMissing(f"{what} ({error}); {how}") from error
        borrowed = [quad for each in chain if each.id not in records for quad in session_quads(target.store, each)]
        scratch.commit(Change(add=[quad for quad in borrowed if quad.predicate != vocab.SPAWNED_BY]))


def _join_leftovers(target: Repository, scratch: EmbeddedStore, records: dict[str, SessionRecord]) -> None:
    """Add turns that the target still has of sessions without rows."""
    stored = target.reader.records(list(records))
    for record in records.values():
        if record.id not in stored and not target.reader.is_deleted(record.id):
            left = target.store.quads((None, None, None, NamedNode(record.iri)))
            scratch.commit(Change(add=[*left, *payloads.exported(target.store, NamedNode(record.iri))]))


def transcript_digests(repository: Repository, session_id: str) -> list[str]:
    """Return the digests of a whole transcript, inherited turns included."""
    reader = repository.reader
    return [turn.digest for turn in reader.as_stored.turns(reader.lineage(session_id))]


@dataclass(slots=True)
class Arrival:
    """The import of one session, after its parents."""

    target: Repository
    file: Repository
    record: SessionRecord
    report: ImportReport
    read: ImportedFiles
    restore: bool
    fork_of: str | None = None
    """The session that it is to be a fork of in the target, where that is another one than in the file."""

    @property
    def _parent(self) -> str | None:
        return self.fork_of or self.record.parent_session_id

    @property
    def _node(self) -> NamedNode:
        return NamedNode(self.record.iri)

    def run(self) -> None:
        deleted = self.target.reader.is_deleted(self.record.id)
        if deleted and not self.restore:
            self.report.deleted.append(self.record.id)
        elif self.record.id in self.target:
            self._continue()
        elif self._parent_fits() and (not deleted or self._is_as_it_was()):
            self._create(deleted=deleted)

    def _parent_fits(self) -> bool:
        """Tell whether the store has the inherited turns; report if not."""
        parent, at = self._parent, self.record.starts_at
        if parent is None:
            return True
        if parent not in self.target:
            self._say(
                f"was not imported: its parent {parent!r} is not in the store (restore brings back a deleted one)"
            )
            return False
        mine, theirs = transcript_digests(self.file, self.record.id), transcript_digests(self.target, parent)
        if mine[:at] == theirs[:at]:
            return True
        self._differs(f"its parent {parent!r} has other turns here below index {at}")
        return False

    def _is_as_it_was(self) -> bool:
        """Tell whether a deleted session comes back unchanged; report if not."""
        known = log_history.logs_by_session(self.target.store.log.lines()).get(self.record.id)
        if known is None:
            return True
        digests, start = transcript_digests(self.file, self.record.id), self.record.starts_at
        if known.first not in (None, log_leaves.row_of(self.file.store, self.record.id).made_with):
            self._differs("it was deleted here, and had another principal, agent, time or origin, or its file is older")
        elif known.returning().would_come_back_with_others(dict(enumerate(digests[start:], start)), start):
            self._differs("it was deleted here, and had other turns")
        else:
            return True
        return False

    def _differs(self, what: str) -> None:
        self.report.changed.append(self.record.id)
        self._say(f"was not imported: {what}, and nothing of it was written")

    def _say(self, what: str) -> None:
        self.report.refuse("", f"session {self.record.id!r} {what}")

    def _create(self, *, deleted: bool) -> None:
        """Write a session that is not there, its tombstone lifted in the same commit."""
        store, scratch = self.target.store, self.file.store
        every: Sequence[Quad] = self._below_parent(session_quads(scratch, self.record))
        for kind in record_registry.KINDS:
            arriving = kind.arriving(store, self.record.id, every)
            every = arriving.quads
            self.report.refuse("", *arriving.said)
        tx = Transaction()
        gone = transaction.names_in(_tombstone(self.target.store, self._node)) if deleted else set()
        self._claim(tx, deleted=deleted)
        add = self._without_clashes(tx, self._arriving(every))
        self._add(tx, add)
        tx.log(self._leaves(add, new=True))
        self._commit(tx)
        transaction.sweep_names(self.target.store, gone)
        made = self.report.sessions_created if self.record.parent_session_id is None else self.report.forks_created
        made.append(self.record.id)
        self.report.turns_added += len(scratch.quads(_turns_of(self.record)))

    def _below_parent(self, quads: Sequence[Quad]) -> list[Quad]:
        """Return the session's quads with its parent here."""
        if self._parent is None:
            return list(quads)
        said = Quad(self._node, vocab.PARENT_SESSION, NamedNode(iris.session(self._parent)), vocab.CATALOG)
        is_said = (self._node, vocab.PARENT_SESSION)
        return [said if (quad.subject, quad.predicate) == is_said else quad for quad in quads]

    def _claim(self, tx: Transaction, *, deleted: bool) -> None:
        """Require that the session's id is free, or deleted, and its parent is stored."""
        if deleted:
            tx.require([Quad(self._node, vocab.TYPE, vocab.TOMBSTONE, vocab.CATALOG)])
            tx.forbid((self._node, vocab.TYPE, vocab.SESSION, vocab.CATALOG))
            tx.remove(_tombstone(self.target.store, self._node))
        else:
            tx.forbid_id(self.record.id)
        if self._parent is not None:
            tx.session(self._parent)

    def _without_clashes(self, tx: Transaction, add: list[Quad]) -> list[Quad]:
        """Return the quads without a label and slot that others have here."""
        if (label := self.record.label) is not None:
            taken = self.target.reader.labelled(label)
            if taken is None:
                tx.label(label)
            else:
                add = [quad for quad in add if quad.predicate != vocab.LABEL or quad.graph_name != vocab.CATALOG]
                self._say(f"was imported without its label {label!r}, which {taken!r} has here")
        if (slot := self.record.slot) is not None:
            holder = transaction.slot_holder(self.target.store, slot)
            if holder is None:
                tx.forbid(transaction.take_slot(slot))
            else:
                add = [quad for quad in add if quad.predicate != vocab.SLOT]
                self._say(f"was imported without its slot of the session tree, which {holder!r} takes here")
        return add

    def _continue(self) -> None:
        """Add to a session that is there what the file has beyond it."""
        mine = self.file.reader.as_stored.turns(self.file.reader.lineage(self.record.id))
        theirs = transcript_digests(self.target, self.record.id)
        digests = [turn.digest for turn in mine]
        is_behind = len(theirs) > len(mine) and theirs[: len(mine)] == digests
        if not is_behind and (digests[: len(theirs)] != theirs or len(theirs) < self.record.starts_at):
            self._differs("it is in the store with other turns")
            return
        new = mine[len(theirs) :]
        add, gone = self._grown(is_behind=is_behind)
        if not is_behind:
            scratch = self.file.store
            turns = self._quads_of({turn.iri for turn in new})
            turns += redaction.records_belonging(scratch, turns) + redaction.redactions_of_session(scratch, self._node)
            add = self._missing_prompts() + self._arriving(turns, add)
            add += tools_named_in(add)
        if not add and not gone:
            self.report.unchanged.append(self.record.id)
            return
        tx = Transaction()
        tx.session(self.record.id)
        if new:
            tx.forbid((None, vocab.INDEX, vocab.integer(len(theirs)), self._node))
        self._add(tx, add)
        tx.remove(gone)
        if is_behind:
            tx.log(log_leaves.row_states("change", [self.record.id]))
            tx.log(lambda after: self._own_leaves(after, add))
        else:
            tx.log(self._leaves(add, new=False))
        self._commit(tx)
        self.report.grown.append(self.record.id)
        self.report.turns_added += len(new)

    def _grown(self, *, is_behind: bool) -> tuple[list[Quad], list[Quad]]:
        """Return the added and removed records of a stored session."""
        stores = self.target.store, self.file.store
        growths = [kind.growing(*stores, self.record.id, is_behind) for kind in record_registry.KINDS]
        self.report.refuse("", *(reason for growth in growths for reason in growth.said))
        return [quad for each in growths for quad in each.add], [quad for each in growths for quad in each.remove]

    def _missing_prompts(self) -> list[Quad]:
        store, scratch = self.target.store, self.file.store
        return [
            quad
            for version in prompt_quads(scratch, self._node)
            if not store.quads((version, None, None, vocab.CATALOG))
            for quad in scratch.quads((version, None, None, vocab.CATALOG))
        ]

    def _quads_of(self, turn_iris: set[str]) -> list[Quad]:
        by_turn: dict[str, list[Quad]] = defaultdict(list)
        for quad in self.file.store.quads((None, None, None, self._node)):
            by_turn[iris.turn_of(str(quad.subject.value))].append(quad)  # type: ignore[union-attr] # IRIs, as verified
        return [quad for iri in turn_iris for quad in by_turn[iri]]

    def _arriving(self, quads: Sequence[Quad], records: Sequence[Quad] = ()) -> list[Quad]:
        """Return the file's quads to add; what was redacted here stays redacted."""
        store = self.target.store
        kept: Sequence[Quad] = [*keep_redacted(store, quads), *records]
        for kind in record_registry.KINDS:
            kept = kind.kept_out(store, kept)
        known = {
            quad.subject
            for quad in kept
            if quad.predicate in _REDACTIONS and store.quads((quad.subject, None, None, vocab.CATALOG))  # type: ignore[arg-type] # an IRI
        }
        return [quad for quad in kept if quad.subject not in known]

    def _leaves(self, add: Sequence[Quad], *, new: bool) -> log_leaves.LeafMaker:
        """Return the maker of the log's leaves: row, head and redactions."""
        record = self.record
        kind: Kind = "change" if not new else "create" if record.parent_session_id is None else "fork"
        turns = self.file.reader.as_stored.turns(self.file.reader.lineage(record.id))
        has_own = len(turns) > record.starts_at
        batch = [log_leaves.turns_leaf(record.id, len(turns), turns[-1].digest)] if has_own else []
        redacted = [
            log_leaves.redaction_leaf(node, [each for each in add if each.subject == node])
            for node in (quad.subject for quad in add if quad.predicate in _REDACTIONS)
            if isinstance(node, NamedNode)
        ]
        row = record.starts_at if new else 0

        def made(store: Preview) -> list[Leaf]:
            rows = log_leaves.row_leaves(store, kind, record.id, row)
            return [*rows, *batch, *redacted, *self._own_leaves(store, add)]

        return made

    def _own_leaves(self, after: Preview, add: Sequence[Quad]) -> list[Leaf]:
        """Return the leaves of records that have their own."""
        return [leaf for kind in record_registry.KINDS for leaf in kind.leaves_of(after, self.record.id, add)]

    def _add(self, tx: Transaction, quads: Sequence[Quad]) -> None:
        """Let a commit add quads, with the bytes of the payloads to which they refer that the store has not."""
        turns = payloads.without_payloads(quads)
        tx.add(turns)
        payloads.bring_payloads(tx, self.file.store, turns)

    def _commit(self, tx: Transaction) -> None:
        tx.join(self.read.recorded(self.target.store, self.record.id, is_new=True))
        changed = "another writer changed it, its parent or its label meanwhile; import again"
        tx.commit(self.target.store, otherwise=lambda _: InvalidInput(changed))


def _tombstone(store: QuadStore, node: NamedNode) -> list[Quad]:
    """Return a deleted session's tombstone and deletion."""
    return [
        *store.quads((node, None, None, vocab.CATALOG)),
        *store.quads((NamedNode(iris.deletion(node.value)), None, None, vocab.CATALOG)),
    ]
