"""Store, verify and redact the entries of ledgers, and what a spawned session was told by its parent.

The operations on ledgers (inbox, exchanges, deliveries) are in `trails.runtime.ledger`. This module has what deletion,
redaction, import and verification of a session must know of its ledger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import TrailsError
from trails.history.log_history import record_number
from trails.history.records.record_kind import Beside, Checks, Evidence, Growth, RecordKind, Withheld
from trails.history.records.text_matcher import Erasure
from trails.integrity.leaves import LEDGER_KINDS, Leaf
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import SessionRecord
from trails.rdf import ledger_records, vocab
from trails.rdf.codec import subject_of
from trails.rdf.ledger_records import (
    ENDED,
    ArtifactEntry,
    Brief,
    Delivery,
    Entry,
    Event,
    Exchange,
    Result,
    Transition,
)
from trails.store.contract import Matching, QuadStore

_KINDS: Final = frozenset({*LEDGER_KINDS, "said"})
_OPEN: Final = frozenset({"pending", "streaming"})
"""The kinds of leaves after which an entry may change."""
_TEXTS: Final = (vocab.VALUE, vocab.ERROR)
_LINKS: Final = (vocab.RECORDED_AS, vocab.DERIVED_FROM, vocab.GENERATED)
"""What ties an entry of a ledger to a turn."""


@dataclass(slots=True)
class EntryLog:
    """What the log says of one entry of a ledger."""

    digest: str = ""
    """The digest of the entry as it was logged last."""
    number: int = -1
    """The number of that leaf."""
    first: int = -1
    """The number of its first leaf."""
    final: str | None = None
    """The digest of an entry that never changes again: from its first leaf on, or an exchange's from its end on."""
    ended: bool = False
    gone: bool = False
    """Whether its session was deleted, and did not come back with it."""
    said: str | None = None
    """The digest of the turns that say it, as they were logged last."""
    faults: list[str] = field(default_factory=list)
    """What the log says of it that Trails never logs."""

    def take(self, kind: str, digest: str, number: int) -> None:
        """Take note of a leaf."""
        self.first = number if self.first < 0 else self.first
        if kind == "said":
            self.said = digest
            return
        if kind in _OPEN:
            if self.ended and not self.gone:
                self.faults.append(f"leaf {number} goes on with it after its last leaf")
            self.ended = False
        else:
            if self.final not in (None, digest):
                what = "came back as another one with its session" if self.gone else "was logged again"
                self.faults.append(f"leaf {number}: it never changes, and {what}")
            self.final, self.ended = self.final or digest, True
        self.digest, self.number, self.gone = digest, number, False


LoggedEntry = dict[str, dict[int, EntryLog]]
"""By session IRI and entry number, what the log says of the entry."""


# --- reading


@decodes
def read_entries(store: Matching, session_id: str) -> list[Entry]:
    """Return all entries of a session's ledger, in order; raise `IntegrityError` for what is none."""
    return ledger_records.decode_ledger(
        session_id, store.quads((None, None, None, ledger_records.ledger_graph(session_id)))
    )


@decodes
def read_entry(store: QuadStore, session_id: str, node: NamedNode) -> Entry | None:
    """Return one entry by its IRI, or None where there is none."""
    quads = store.quads((node, None, None, ledger_records.ledger_graph(session_id)))
    return next(iter(ledger_records.decode_ledger(session_id, quads)), None)


@decodes
def read_entries_where(
    store: QuadStore, session_id: str, predicate: NamedNode, value: NamedNode | Literal | None = None
) -> list[Entry]:
    """Return the entries with a property (and value), in order: looked up, however long the ledger is."""
    graph = ledger_records.ledger_graph(session_id)
    nodes = {quad.subject for quad in store.quads((None, predicate, value, graph))}
    found = [read_entry(store, session_id, node) for node in nodes if isinstance(node, NamedNode)]
    return sorted((entry for entry in found if entry is not None), key=lambda entry: entry.number)


# --- the log


def logged_entries(lines: Iterable[str]) -> LoggedEntry:
    """Return what the log says of the entries of ledgers; lines that are no leaves are left to `check_links`."""
    found: LoggedEntry = {}
    for number, line in enumerate(lines):
        kind = line.partition(" ")[0]
        if kind == "delete":
            for entry in found.get(line.split(" ")[1], {}).values():
                entry.gone, entry.said = True, None
        elif kind in _KINDS:
            fields = line.split(" ")
            if len(fields) == 5 and fields[2].isdecimal():
                found.setdefault(fields[1], {}).setdefault(int(fields[2]), EntryLog()).take(kind, fields[3], number)
    return found


def entry_leaves(store: Matching) -> list[Leaf]:
    """Return the leaves of all entries of ledgers, for a log that begins with them."""
    leaves: list[Leaf] = []
    for quad in sorted(store.quads((None, vocab.LEDGER_OF, None, None)), key=str):
        node = quad.object
        if isinstance(node, NamedNode) and store.quads((node, vocab.TYPE, vocab.SESSION, vocab.CATALOG)):
            for entry in read_entries(store, iris.session_id(node.value)):  # of a deleted session it waits to be swept
                leaves += ledger_records.entry_leaves(entry)
    return leaves


# --- verifying


@decodes
def check_entries(
    evidence: Evidence, session_id: str, turns: Collection[str], log: Mapping[int, EntryLog]
) -> Iterator[tuple[str, str]]:
    """Give (code, what) for everything that is wrong with a session's ledger; `turns` are the IRIs of its own turns.

    An older version wrote no leaves for the turns that say a message. An entry that a redaction took a text out of was
    logged again; one that was so after the line of the log to which a checkpoint reaches is not proven by it any more.
    """
    store = evidence.store
    graph = ledger_records.ledger_graph(session_id)
    actual = set(store.quads((None, None, None, graph)))
    found: dict[int, Entry] = {}
    expected: set[Quad] = set(ledger_records.head_quads(session_id)) if actual else set()
    for iri, properties in ledger_records.entries_by_subject(actual).items():
        if iri == graph.value:
            continue
        try:
            entry = ledger_records.decode_entries(session_id, iri, properties)
        except TrailsError as error:
            expected |= {quad for quad in actual if quad.subject == NamedNode(iri)}
            yield "bad-row", f"{error}"
        else:
            found[entry.number] = entry
            expected |= set(ledger_records.entry_quads(entry))
    for quad in actual - expected:
        yield "stray", f"a quad that belongs to nothing: {quad}"
    for quad in expected - actual:
        yield "missing", f"a quad is missing: {quad}"
    renamed = {number for number, entry in found.items() if entry.iri in evidence.taken}
    yield from _against_log(found, log, evidence.old, renamed)
    yield from _unproven(log, renamed, evidence.since)
    for entry in found.values():
        for what in _faults(entry, found, turns):
            yield "bad-row", f"entry {entry.number} of its ledger {what}"
        if entry.withheld and not _is_explained(evidence, entry, found):
            yield "unlogged", f"entry {entry.number} of its ledger lost its text, and no redaction was logged"


def _unproven(log: Mapping[int, EntryLog], renamed: Collection[int], since: int | None) -> Iterator[tuple[str, str]]:
    """Give the entries that a checkpoint covers and that were logged again after it, because of a redaction."""
    for number in renamed if since is not None else ():
        logged = log.get(number, EntryLog())
        if 0 <= logged.first < (since or 0) and any(record_number(each) >= (since or 0) for each in logged.faults):
            what = "was redacted since the checkpoint, so what stands there now is not proven by it; sign a new one"
            yield "unproven", f"entry {number} of its ledger {what}"


def _against_log(
    found: Mapping[int, Entry], log: Mapping[int, EntryLog], old: int, renamed: Collection[int]
) -> Iterator[tuple[str, str]]:
    for number, entry in found.items():
        logged = log.get(number)
        if logged is None or logged.gone:
            yield "unlogged", f"entry {number} of its ledger is in the store and not in its log"
            continue
        if logged.digest != ledger_records.entry_row_digest(entry):
            yield "row-altered", f"entry {number} of its ledger is not as it was logged last"
        if logged.said != _said(entry) and not (logged.said is None and _was_taken_up(number, found, log, old)):
            yield "row-altered", f"the turns that say entry {number} of its ledger are not those that were logged last"
        if entry.words is not None and not entry.words.is_true():
            yield "digest-mismatch", f"the text of entry {number} of its ledger was altered"
    for number, logged in log.items():
        for fault in () if number in renamed else logged.faults:
            yield "logged-twice", f"entry {number} of its ledger: {fault}"
        if number not in found and not logged.gone:
            yield "rolled-back", f"entry {number} of its ledger, which was logged, is gone"


def _said(entry: Entry) -> str | None:
    leaf = ledger_records.content_leaf(entry)
    return None if leaf is None else leaf.digest


def _was_taken_up(event: int, found: Mapping[int, Entry], log: Mapping[int, EntryLog], old: int) -> bool:
    """Tell whether an older version took a message up: the last leaf of an exchange with it is below the number `old`."""
    return any(
        isinstance(each, Exchange) and event in each.events and number in log and log[number].number < old
        for number, each in found.items()
    )


def _faults(entry: Entry, found: Mapping[int, Entry], turns: Collection[str]) -> Iterator[str]:
    """Give what of an entry does not fit the other entries or the session's turns."""
    own = f"{iris.session(entry.session_id)}/"
    yield from (
        f"names {turn}, which is not there" for turn in _turns_of(entry) if turn.startswith(own) and turn not in turns
    )
    match entry:
        case Event(direction="inbound"):
            yield from _message_faults(entry, found)
        case Event() if not isinstance(found.get(entry.exchange or 0), Exchange):
            yield "went out, and no exchange made it"
        case Exchange() if not all(isinstance(found.get(number), Event) for number in entry.events):
            yield "took up an event that is not there"
        case Transition():
            yield from _transition_faults(entry, found)
        case Result() | ArtifactEntry():
            end = found.get(entry.transition)
            if not isinstance(end, Transition) or end.after not in ENDED:
                yield "came with no transition to an end"
            if isinstance(entry, ArtifactEntry) and not isinstance(found.get(entry.result), Result):
                yield "belongs to no result"


def _transition_faults(entry: Transition, found: Mapping[int, Entry]) -> Iterator[str]:
    earlier = [each for each in found.values() if isinstance(each, Transition) and each.number < entry.number]
    before = max(earlier, key=lambda each: each.number, default=None)
    if entry.before != (None if before is None else before.after):
        stood = "no state" if before is None else before.after
        yield f"leaves the state {entry.before}, and the session was in {stood}"
    if not all(isinstance(found.get(number), Brief) for number in entry.used):
        yield "names a task or context summary that is not there"
    results = [each for each in found.values() if isinstance(each, Result) and each.transition == entry.number]
    if len(results) != (entry.after in ENDED):
        yield f"has {len(results)} results: a result is lost or doubled"


def _message_faults(event: Event, found: Mapping[int, Entry]) -> Iterator[str]:
    taken = any(isinstance(each, Exchange) and event.number in each.events for each in found.values())
    if event.waiting == taken:
        yield "waits and was taken up" if taken else "neither waits nor was taken up: a message is lost"
    words = event.words
    if words is None or (words.text is None and not words.withheld and not event.turn_iris):
        yield "has no text, and no turn says it"


def _turns_of(entry: Entry) -> tuple[str, ...]:
    match entry:
        case Delivery():
            return (entry.turn_iri,)
        case Event() | Exchange():
            return entry.turn_iris
        case _:
            return ()


def _is_explained(evidence: Evidence, entry: Entry, found: Mapping[int, Entry]) -> bool:
    """Tell whether a logged redaction names an entry that lost its text, or what says it, or was made from it."""
    others: list[Entry] = []
    match entry:
        case Exchange():
            others = [found[number] for number in entry.events if number in found]
        case Transition():
            others = [each for each in found.values() if isinstance(each, Result) and each.transition == entry.number]
    for each in (entry, *others):
        made = evidence.store.quads((None, vocab.DERIVED_FROM, NamedNode(each.iri), None))
        turns = [*_turns_of(each), *map(subject_of, made)]
        if each.iri in evidence.taken or any(map(evidence.is_redacted, turns)):
            return True
    return False


def _checks(evidence: Evidence) -> Checks:
    log = logged_entries(evidence.lines)

    def findings(session_id: str, turns: Collection[str]) -> Iterator[tuple[str, str]]:
        return check_entries(evidence, session_id, turns, log.get(iris.session(session_id), {}))

    return Checks(session=findings)


# --- redacting


def withhold_entry(found: Iterable[Quad]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when the texts of entries, given with all their quads, are taken out."""
    remove: list[Quad] = []
    add: list[Quad] = []
    for quads in _by_subject(found).values():
        texts = [quad for quad in quads if quad.predicate in _TEXTS and _datatype(quad) != vocab.REDACTED]
        if texts:
            remove += [*texts, *(quad for quad in quads if quad.predicate == vocab.SALT)]
            add += [Quad(q.subject, q.predicate, Literal("", datatype=vocab.REDACTED), q.graph_name) for q in texts]
    return remove, add


def _by_subject(quads: Iterable[Quad]) -> dict[str, list[Quad]]:
    by_subject: dict[str, list[Quad]] = defaultdict(list)
    for quad in quads:
        by_subject[subject_of(quad)].append(quad)
    return by_subject


def _withheld(store: QuadStore, turns: Sequence[NamedNode], _: Sequence[str]) -> Withheld:
    """Return what goes and what comes in ledgers when turns are redacted.

    The texts of the messages that the turns say, of the errors of the exchanges that took those up, of what was really
    sent in the turns' place, and of the results of spawned sessions that the turns were made from.
    """
    affected: list[Quad] = []
    for turn in turns:
        for link in _LINKS:
            for quad in store.quads((None, link, turn, None)):
                graph = quad.graph_name
                if isinstance(graph, NamedNode) and iris.is_ledger(graph.value) and isinstance(quad.subject, NamedNode):
                    affected += _with_attempts(store, quad.subject, graph)
        for quad in store.quads((turn, vocab.DERIVED_FROM, None, None)):
            affected += _with_reason(store, quad.object)
    remove, add = withhold_entry(dict.fromkeys(affected))
    parts = list(map(subject_of, add))
    return Withheld(remove, add, parts=parts, report={"entries": parts})


def _with_attempts(store: QuadStore, node: NamedNode, graph: NamedNode) -> list[Quad]:
    """Return the quads of an entry and, for a message, of all exchanges that took it up."""
    users = [quad.subject for quad in store.quads((None, vocab.USED, node, graph))]
    nodes = [node, *(user for user in users if isinstance(user, NamedNode))]
    return [quad for each in nodes for quad in store.quads((each, None, None, graph))]


def _with_reason(store: QuadStore, result: object) -> list[Quad]:
    """Return the quads of a session's result, and of the transition that it came with."""
    if not isinstance(result, NamedNode) or iris.entry_number(result.value) is None:
        return []
    graph = ledger_records.ledger_graph(iris.session_id(result.value))
    found = store.quads((result, None, None, graph))
    ends = [quad.object for quad in found if quad.predicate == vocab.GENERATED_BY]
    return [*found, *(q for end in ends if isinstance(end, NamedNode) for q in store.quads((end, None, None, graph)))]


def _datatype(quad: Quad) -> NamedNode | None:
    return quad.object.datatype if isinstance(quad.object, Literal) else None


def _purge(taking: Erasure, graph: str, quads: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take a text out of the entries of a ledger that hold it."""
    session_id = iris.session_id(graph)
    by_entry = _by_subject(quads)
    for iri, mine in _by_subject(hits).items():
        _purge_entry(taking, session_id, iri, by_entry[iri], mine)


def _purge_entry(taking: Erasure, session_id: str, iri: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
    for quad in hits:
        kind = "ledger text" if quad.predicate in _TEXTS else "ledger field"
        taking.place(session_id, kind, iri, iris.entry_number(iri))
    after = list(before)
    if any(quad.predicate in _TEXTS for quad in hits):
        remove, add = withhold_entry(before)
        after = [*(quad for quad in before if quad not in set(remove)), *add]
    after = taking.without(after)
    was, made = (ledger_records.decode_ledger(session_id, each)[0] for each in (before, after))
    if ledger_records.entry_row_digest(was) != ledger_records.entry_row_digest(made):
        old, made = set(ledger_records.entry_quads(made)), made.salted_anew()
        after = [*(quad for quad in after if quad not in old), *ledger_records.entry_quads(made)]
        if taking.is_live(session_id):
            taking.found.leaves += ledger_records.entry_leaves(made)
    taking.found.swap(before, after)
    taking.found.note(session_id, iri)


# --- bringing in


def keep_withheld_entries(store: QuadStore, quads: Iterable[Quad]) -> list[Quad]:
    """Return quads of a session and its ledger with the texts taken out that belong to turns redacted there or here."""
    every = list(quads)
    hidden = {quad.subject for quad in every if quad.predicate == vocab.VALUE and _datatype(quad) == vocab.REDACTED}
    book = [quad for quad in every if isinstance(quad.graph_name, NamedNode) and iris.is_ledger(quad.graph_name.value)]
    links = [quad for quad in book if quad.predicate in _LINKS]
    hidden |= {quad.object for quad in links if _is_redacted(store, quad.object)}  # type: ignore[misc] # turns' IRIs
    linked: set[object] = {quad.subject for quad in links if quad.object in hidden}
    linked |= {quad.subject for quad in book if quad.predicate == vocab.USED and quad.object in linked}
    results = {quad.subject for quad in book if quad.object == vocab.SESSION_RESULT and _is_said_redacted(store, quad)}
    linked |= results
    linked |= {q.object for q in book if q.predicate == vocab.GENERATED_BY and q.subject in results}
    remove, add = withhold_entry(quad for quad in book if quad.subject in linked)
    gone = set(remove)
    return [*(quad for quad in every if quad not in gone), *add]


def _is_said_redacted(store: QuadStore, result: Quad) -> bool:
    """Tell whether a turn here that was made from a session's result was redacted."""
    says = store.quads((None, vocab.DERIVED_FROM, result.subject, None))  # type: ignore[arg-type] # an IRI
    return any(_is_redacted(store, quad.subject) for quad in says)


def _is_redacted(store: QuadStore, turn: object) -> bool:
    gone = Literal("", datatype=vocab.REDACTED)
    return isinstance(turn, NamedNode) and bool(store.quads((turn, vocab.VALUE, gone, None)))


def grown_entries(session_id: str, here: Iterable[Quad], there: Iterable[Quad]) -> tuple[list[Quad], list[Quad]] | None:
    """Return what to add and to remove so that a ledger becomes one that went on from it; None where that did not.

    What was taken out here stays so.
    """
    old, new = _by_number(session_id, here), _by_number(session_id, there)
    kept: dict[int, Entry] = {}
    for number, entry in old.items():
        if not _continues(entry, new.get(number)):
            return None
        if entry.words is not None and entry.words.withheld:
            kept[number] = new[number].model_copy(update={"words": entry.words})
    if not new:
        return ([], [])
    after = set(ledger_records.head_quads(session_id))
    for entry in (new | kept).values():
        after |= set(ledger_records.entry_quads(entry))
    before = set(here)
    return list(after - before), list(before - after)


def _by_number(session_id: str, quads: Iterable[Quad]) -> dict[int, Entry]:
    return {entry.number: entry for entry in ledger_records.decode_ledger(session_id, quads)}


def _continues(old: Entry, new: Entry | None) -> bool:
    if new is None:
        return False
    if isinstance(old, Exchange) and isinstance(new, Exchange):
        if old.queued != new.queued or not set(old.events) <= set(new.events):
            return False
        if old.ended is None:
            return True
    return ledger_records.entry_row_digest(old) == ledger_records.entry_row_digest(new)


def _leaves_of(store: Matching, session_id: str, written: Sequence[Quad]) -> list[Leaf]:
    touched = set(map(subject_of, written))
    entries = [entry for entry in read_entries(store, session_id) if entry.iri in touched]
    return [leaf for entry in entries for leaf in ledger_records.entry_leaves(entry)]


def _exported(store: QuadStore, node: NamedNode) -> list[Quad]:
    return store.quads((None, None, None, NamedNode(iris.ledger(node.value))))


def _growing(store: QuadStore, file: QuadStore, session_id: str, is_behind: bool) -> Growth:
    """Return what comes to the ledger that is there, and what goes of it; nothing where it went another way."""
    if is_behind:
        return Growth()
    node = NamedNode(iris.session(session_id))
    here, there = _exported(store, node), _exported(file, node)
    found = grown_entries(session_id, here, there)
    if found is None and grown_entries(session_id, there, here) is None:
        return Growth(said=[f"the ledger of session {session_id!r} was not imported: it has other entries here"])
    return Growth() if found is None else Growth(*found)


ENTRIES: Final = RecordKind(
    name="entries of ledgers",
    beside=Beside("ledger", orphan="is the ledger of a session that is not there"),
    leaves=entry_leaves,
    leaves_of=_leaves_of,
    checks=_checks,
    withheld=_withheld,
    purge=_purge,
    exported=_exported,
    growing=_growing,
    kept_out=keep_withheld_entries,
)


class SpawnContext(NamedTuple):
    """The texts that a session was told; None for one that it was not told, or that was taken out."""

    task: str | None = None
    context: str | None = None


@decodes
def spawn_context(store: QuadStore, chain: Sequence[SessionRecord]) -> SpawnContext:
    """Return what a session was told, given with its ancestors by forks: a fork was told what its nearest ancestor was."""
    for record in chain:
        if record.kind is None and record.spawned_by is None:
            continue  # nobody spawned it: nearly all sessions, and nothing is looked up for them
        found: list[Brief] = []
        for kind in (vocab.TASK_BRIEF, vocab.CONTEXT_SUMMARY):
            entries = read_entries_where(store, record.id, vocab.TYPE, kind)
            found += [entry for entry in entries if isinstance(entry, Brief)]
        if found:
            texts = {entry.what: None if entry.words is None else entry.words.text for entry in found}
            return SpawnContext(texts.get("task"), texts.get("context"))
    return SpawnContext()
