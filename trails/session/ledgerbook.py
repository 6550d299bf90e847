"""What the rules of sessions say of ledgers: reading entries, their leaves, verifying, redacting, importing, sweeping.

The ledger's own doings (inbox, exchanges, deliveries) are `trails.ledger`'s; this is what deleting, redacting and
verifying a session must know of its ledger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.errors import TrailsError
from trails.integrity.leaves import LEDGER_KINDS, Leaf
from trails.session import entries, treeentries
from trails.session.entries import Delivery, Entry, Event, Exchange
from trails.session.entrybase import LedgerEntry
from trails.session.policyentries import Decision
from trails.store.contract import QuadStore

_KINDS: Final = frozenset(LEDGER_KINDS)
_TEXTS: Final = (vocab.VALUE, vocab.ERROR)
_LINKS: Final = (vocab.RECORDED_AS, vocab.DERIVED_FROM, vocab.GENERATED)
"""What ties an entry of a ledger to a turn."""

Logged = dict[str, dict[int, list[str]]]
"""By session IRI and entry number, the digests that the log has of the entry, in order."""


# --- reading


def read(store: QuadStore, session_id: str) -> list[Entry]:
    """Return all entries of a session's ledger, in order; raise `IntegrityError` for what is none."""
    graph = entries.graph_of(session_id)
    subjects = entries.by_subject(store.quads((None, None, None, graph)))
    found = [entries.decode(session_id, iri, each) for iri, each in subjects.items() if iri != graph.value]
    return sorted(found, key=lambda entry: entry.number)


def read_one(store: QuadStore, session_id: str, node: NamedNode) -> Entry | None:
    """Return one entry by its IRI, or None where there is none."""
    found = store.quads((node, None, None, entries.graph_of(session_id)))
    return entries.decode(session_id, node.value, entries.by_subject(found)[node.value]) if found else None


def read_where(
    store: QuadStore, session_id: str, predicate: NamedNode, value: NamedNode | Literal | None = None
) -> list[Entry]:
    """Return the entries with a property (and value), in order: looked up, however long the ledger is."""
    graph = entries.graph_of(session_id)
    nodes = {quad.subject for quad in store.quads((None, predicate, value, graph))}
    found = [read_one(store, session_id, node) for node in nodes if isinstance(node, NamedNode)]
    return sorted((entry for entry in found if entry is not None), key=lambda entry: entry.number)


# --- the log


def logged(lines: Iterable[str]) -> Logged:
    """Return what the log says of the entries of ledgers; lines that are no leaves are left to `check_links`."""
    found: Logged = {}
    for line in lines:
        kind = line.partition(" ")[0]
        if kind == "delete":
            found.pop(line.split(" ")[1], None)
        elif kind in _KINDS:
            fields = line.split(" ")
            if len(fields) == 5 and fields[2].isdecimal():
                found.setdefault(fields[1], {}).setdefault(int(fields[2]), []).append(fields[3])
    return found


def missing_leaves(store: QuadStore, log_text: str) -> list[Leaf]:
    """Return the leaves that a crash kept from the log (and all, for a log that is new)."""
    ledgers = store.quads((None, vocab.LEDGER_OF, None, None))
    if not ledgers:
        return []
    known, missing = logged(log_text.split("\n")), []
    for quad in ledgers:
        session_iri = str(quad.object.value)  # type: ignore[union-attr] # an IRI
        if not store.quads((NamedNode(session_iri), vocab.TYPE, vocab.SESSION, vocab.CATALOG)):
            continue  # deleted, and still to be swept
        log = known.get(session_iri, {})
        missing += [
            entries.leaf(entry)
            for entry in read(store, iris.session_id(session_iri))
            if entries.row_digest(entry) not in log.get(entry.number, [])  # an earlier one: rolled back, for `verify`
        ]
    return missing


# --- verifying


def check(
    store: QuadStore, session_id: str, turns: set[str], log: Mapping[int, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Give (code, what) for everything that is wrong with a session's ledger; `turns` are the IRIs of its own turns."""
    graph = entries.graph_of(session_id)
    actual = set(store.quads((None, None, None, graph)))
    found: dict[int, Entry] = {}
    expected: set[Quad] = set(entries.head_quads(session_id)) if actual else set()
    for iri, properties in entries.by_subject(actual).items():
        if iri == graph.value:
            continue
        try:
            entry = entries.decode(session_id, iri, properties)
        except TrailsError as error:
            expected |= {quad for quad in actual if quad.subject == NamedNode(iri)}
            yield "bad-row", str(error)
        else:
            found[entry.number] = entry
            expected |= set(entries.quads(entry))
    for quad in actual - expected:
        yield "stray", f"a quad that belongs to nothing: {quad}"
    for quad in expected - actual:
        yield "missing", f"a quad is missing: {quad}"
    yield from _against_log(found, log)
    for entry in found.values():
        for what in _faults(entry, found, turns):
            yield "bad-row", f"entry {entry.number} of its ledger {what}"


def _against_log(found: Mapping[int, Entry], log: Mapping[int, Sequence[str]]) -> Iterator[tuple[str, str]]:
    for number, entry in found.items():
        if number not in log:
            yield "unlogged", f"entry {number} of its ledger is in the store and not in its log"
        elif log[number][-1] != entries.row_digest(entry):
            yield "row-altered", f"entry {number} of its ledger is not as it was logged last"
        if entry.words is not None and not entry.words.is_true():
            yield "digest-mismatch", f"the text of entry {number} of its ledger was altered"
    for number in log.keys() - found.keys():
        yield "rolled-back", f"entry {number} of its ledger, which was logged, is gone"


def _faults(entry: Entry, found: Mapping[int, Entry], turns: set[str]) -> Iterator[str]:
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
        case Event() | Exchange() | Delivery() | Decision():
            return
        case _:
            yield from treeentries.faults(entry, found)


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


# --- redacting


def quads_of(store: QuadStore, entry: LedgerEntry) -> list[Quad]:
    """Return the quads of an entry as they are stored."""
    return store.quads((NamedNode(entry.iri), None, None, entries.graph_of(entry.session_id)))


def withhold(found: Iterable[Quad]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when the texts of entries, given with all their quads, are taken out."""
    by_node: dict[object, list[Quad]] = defaultdict(list)
    for quad in found:
        by_node[quad.subject].append(quad)
    remove: list[Quad] = []
    add: list[Quad] = []
    for quads in by_node.values():
        texts = [quad for quad in quads if quad.predicate in _TEXTS and _datatype(quad) != vocab.REDACTED]
        if texts:
            remove += [*texts, *(quad for quad in quads if quad.predicate == vocab.SALT)]
            add += [Quad(q.subject, q.predicate, Literal("", datatype=vocab.REDACTED), q.graph_name) for q in texts]
    return remove, add


def withhold_with(store: QuadStore, turns: Iterable[NamedNode]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes in ledgers when turns are redacted.

    The texts of the messages that the turns say, of the errors of the exchanges that took those up, of what was really
    sent in the turns' place, and of the results of spawned sessions that the turns were made from.
    """
    remove: list[Quad] = []
    add: list[Quad] = []
    for turn in turns:
        for link in _LINKS:
            for quad in store.quads((None, link, turn, None)):
                graph = quad.graph_name
                if isinstance(graph, NamedNode) and iris.is_ledger(graph.value) and isinstance(quad.subject, NamedNode):
                    old, new = withhold(_with_attempts(store, quad.subject, graph))
                    remove += old
                    add += new
        for quad in store.quads((turn, vocab.DERIVED_FROM, None, None)):
            old, new = withhold(_with_reason(store, quad.object))
            remove += old
            add += new
    return list(dict.fromkeys(remove)), list(dict.fromkeys(add))


def _with_attempts(store: QuadStore, node: NamedNode, graph: NamedNode) -> list[Quad]:
    """Return the quads of an entry and, for a message, of all exchanges that took it up."""
    users = [quad.subject for quad in store.quads((None, vocab.USED, node, graph))]
    nodes = [node, *(user for user in users if isinstance(user, NamedNode))]
    return [quad for each in nodes for quad in store.quads((each, None, None, graph))]


def _with_reason(store: QuadStore, result: object) -> list[Quad]:
    """Return the quads of a session's result, and of the transition that it came with."""
    if not isinstance(result, NamedNode) or iris.entry_number(result.value) is None:
        return []
    graph = entries.graph_of(iris.session_id(result.value))
    found = store.quads((result, None, None, graph))
    ends = [quad.object for quad in found if quad.predicate == vocab.GENERATED_BY]
    return [*found, *(q for end in ends if isinstance(end, NamedNode) for q in store.quads((end, None, None, graph)))]


def _datatype(quad: Quad) -> NamedNode | None:
    return quad.object.datatype if isinstance(quad.object, Literal) else None


# --- bringing in


def keep_withheld(store: QuadStore, quads: Iterable[Quad]) -> list[Quad]:
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
    remove, add = withhold(quad for quad in book if quad.subject in linked)
    gone = set(remove)
    return [*(quad for quad in every if quad not in gone), *add]


def _is_said_redacted(store: QuadStore, result: Quad) -> bool:
    """Tell whether a turn here that was made from a session's result was redacted."""
    says = store.quads((None, vocab.DERIVED_FROM, result.subject, None))  # type: ignore[arg-type] # an IRI
    return any(_is_redacted(store, quad.subject) for quad in says)


def _is_redacted(store: QuadStore, turn: object) -> bool:
    gone = Literal("", datatype=vocab.REDACTED)
    return isinstance(turn, NamedNode) and bool(store.quads((turn, vocab.VALUE, gone, None)))


def grown(session_id: str, here: Iterable[Quad], there: Iterable[Quad]) -> tuple[list[Quad], list[Quad]] | None:
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
    after = set(entries.head_quads(session_id))
    for entry in (new | kept).values():
        after |= set(entries.quads(entry))
    before = set(here)
    return list(after - before), list(before - after)


def _by_number(session_id: str, quads: Iterable[Quad]) -> dict[int, Entry]:
    head = entries.graph_of(session_id).value
    found = (entries.decode(session_id, iri, p) for iri, p in entries.by_subject(quads).items() if iri != head)
    return {entry.number: entry for entry in found}


def _continues(old: Entry, new: Entry | None) -> bool:
    if new is None:
        return False
    if isinstance(old, Exchange) and isinstance(new, Exchange):
        same = old.queued == new.queued and set(old.events) <= set(new.events)
        return same and (old.ended is None or entries.row_digest(old) == entries.row_digest(new))
    return entries.row_digest(old) == entries.row_digest(new)


def leaves_of(session_id: str, quads: Iterable[Quad], changed: Iterable[Quad]) -> list[Leaf]:
    """Return the leaves of those entries of a ledger that have quads among the changed ones."""
    touched = {getattr(quad.subject, "value", "") for quad in changed}
    found = _by_number(session_id, quads).values()
    return [entries.leaf(entry) for entry in sorted(found, key=lambda e: e.number) if entry.iri in touched]
