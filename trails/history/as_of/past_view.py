"""Show a store as it was: everything in the store of now that the log does not place later.

Turns and forks never change, and the log's leaves prove them. What may change of a session (label, metadata, notes,
tags, scores) is stored only as it is now. So later changes are told by the times that are recorded with them, and by
how often the log says that the session changed. Such sessions are named in `AsOf.changed`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError
from trails.history import log_leaves, record_registry
from trails.history.as_of import log_moment
from trails.history.as_of.log_moment import Moment
from trails.history.as_of.past_facts import LINKS, Catalog, PastFacts, facts_at, has_type, one_text, time_of
from trails.history.reader import Reader
from trails.history.records import refs
from trails.history.removal import redaction
from trails.integrity import digests
from trails.model import iris
from trails.model.values import Value
from trails.rdf import vocab
from trails.rdf.codec import term_text
from trails.rdf.ref_records import move_quads, ref_quads
from trails.store.contract import QuadStore
from trails.store.embedded import at_one_moment
from trails.store.index.historical_store import Held, PastStore

_MARKS: Final = frozenset({vocab.UNFINISHED_COPY, *vocab.PENDING})
_MOST_VERSIONS: Final = 1000


class AsOf(Value):
    """Of when a store is that is shown as it was."""

    mark: str
    """The place of the log, which `at` takes again: how many lines, and the link of the last one."""
    lines: int
    """How many lines the log had."""
    time: datetime | None = None
    """The time that was asked for, if one was."""
    gone: tuple[str, ...] = ()
    """The ids of the sessions that were there then and are deleted now, or came back otherwise: they are not shown."""
    redacted: tuple[tuple[str, int], ...] = ()
    """The (session id, index) of the turns of then whose content is redacted now, and stays so."""
    changed: tuple[str, ...] = ()
    """The ids of the sessions of which something that may change (label, metadata, state, notes, tags, scores, records of its
    ledger) was changed since: that part is told by the times that are recorded, and not proven."""


def past_store(store: QuadStore, reader: Reader, moment: Moment) -> PastStore:
    """Return a store as it was at a place of its log; `said_of` tells what there is to say of it."""
    where = f"the store {store.location} as of line {len(moment.lines)} of its log"
    return PastStore(where, moment.lines, store, lambda: _held(store, reader, moment))


def as_of_store(past: PastStore) -> AsOf:
    """Return of when a store is, and what of then is not in it any more."""
    said = past.held.said
    assert isinstance(said, AsOf)  # noqa: S101 - `make` made it
    return said


def _held(store: QuadStore, reader: Reader, moment: Moment) -> Held:
    now = at_one_moment(store, lambda: _read(store, reader, moment))
    told, catalog, there, graphs = now.told, now.catalog, now.there, now.graphs
    past = _PastGraphs(store, told, catalog, there)
    kept = [graph for graph in graphs if past.had(graph)]
    _without_strangers(past, catalog)
    quads = [quad for each in catalog.subjects.values() for quad in each]
    redacted = _redacted(store, told)
    shown = {(each, index) for each, index in redacted if each in there and index is not None}
    as_of = AsOf(
        mark=moment.mark,
        lines=len(moment.lines),
        time=moment.time,
        gone=tuple(sorted(told.sessions.keys() - there)),
        redacted=tuple(sorted(shown)),
        changed=tuple(sorted(there & (told.changes.keys() | told.went_on | told.returned))),
    )
    return Held(
        as_of,
        quads,
        kept,
        past.graph,
        turns={iris.session(each): past.end(each) for each in there if each not in catalog.starts},
        changed=frozenset([*as_of.changed, *as_of.gone]),
        redacted=frozenset(redacted),
        went_on=frozenset(told.others),
        ledgers=frozenset(told.ledgers),
        returned=frozenset((told.returned - told.sessions.keys()) | now.otherwise),
    )


@dataclass(frozen=True, slots=True)
class _Now:
    """What a store holds at one moment, and what its log says of a place in it."""

    told: PastFacts
    catalog: Catalog
    """What stands in the catalog, less what came later."""
    graphs: list[str]
    there: set[str]
    """The ids of the sessions that were there then, and are there now."""
    otherwise: set[str]
    """The ids of those that were there then, and came back since as something else than they were."""


def _read(store: QuadStore, reader: Reader, moment: Moment) -> _Now:
    told = facts_at(store.log.lines(), len(moment.lines))
    catalog = Catalog.of(store)
    graphs = [row[0].value for row in reader.select("graphs")]
    stand = {each for each in told.sessions if has_type(catalog.subjects, iris.session(each), vocab.SESSION)}
    there = _as_they_were(catalog, told, stand)
    _leave_out(catalog, told, there, gone=told.sessions.keys() - stand)
    _move_refs_back(store, catalog, moment, there)
    for session_id in sorted(told.detached & there):
        _attach(store, reader, catalog, there, session_id)
    _as_dated(store, catalog, told, moment, there)
    return _Now(told, catalog, graphs, there, stand - there)


def _as_they_were(catalog: Catalog, told: PastFacts, stand: set[str]) -> set[str]:
    """Return those of the sessions that were there then and are there now that did not come back as something else.

    Another fork is one that was none, and one of a session that is not there as it was.
    """
    there = stand - told.otherwise
    while others := {each for each in there & told.returned if not _is_placed(catalog, told, there, each)}:
        there -= others
    return there


def _is_placed(catalog: Catalog, told: PastFacts, there: set[str], session_id: str) -> bool:
    """Tell whether a session is a fork only if it was one, and of a session that is there."""
    parent = one_text(catalog.subjects[iris.session(session_id)], vocab.PARENT_SESSION)
    return parent is None or (told.sessions[session_id].is_fork and iris.session_id(parent) in there)


def _redacted(store: QuadStore, told: PastFacts) -> set[tuple[str, int | None]]:
    """Return what of then was redacted since, or whose redaction was recorded anew: of sessions that are gone by now too.

    A copy that was made of a redacted turn has no record of its own: the one with its digest counts for it.
    """
    found = {(each, index) for each, index in told.redacted if told.had(each, index)}
    for digest, made in redaction.redactions_by_digest(store).items() if told.redacted else ():
        if any((iris.session_id(node.value), iris.turn_index(node.value)) in told.redacted for node, _ in made):
            turns = (term_text(quad.subject) for quad in store.quads((None, vocab.DIGEST, Literal(digest), None)))
            copies = {
                (iris.session_id(each), iris.turn_index(each)) for each in turns if not iris.is_turn_deletion(each)
            }
            found |= {(each, index) for each, index in copies if told.had(each, index)}
    return found


# --- the catalog


def _leave_out(catalog: Catalog, told: PastFacts, there: set[str], *, gone: set[str]) -> None:
    """Take out what belongs to sessions that were not there, and runs, turns and documents that came later."""
    every = {subject: catalog.owners(subject) for subject in catalog.subjects}
    for subject, owners in every.items():
        is_later = bool(owners & told.ever) and not owners & (there | gone)
        is_later = is_later and not _outlasts(catalog, subject, owners, told)
        if is_later or _is_later(subject, told):
            del catalog.subjects[subject]
        else:
            away = {iris.session(each) for each in owners - there - gone}
            catalog.subjects[subject] = [
                quad
                for quad in catalog.subjects[subject]
                if quad.object not in _MARKS
                and quad.predicate not in _MARKS
                and not (quad.predicate in LINKS and term_text(quad.object) in away)
            ]


def _move_refs_back(store: QuadStore, catalog: Catalog, moment: Moment, there: set[str]) -> None:
    """Let each ref be where it was then, by the log and the times of its moves."""
    for subject, quads in list(catalog.subjects.items()):
        if any(quad.object in (vocab.REF, vocab.REF_MOVE) for quad in quads):
            del catalog.subjects[subject]
    for ref, moves in refs.refs_at(store, moment.lines, moment.time):
        if ref.session_id in there:
            catalog.subjects[iris.tag(ref.name)] = ref_quads(ref)
            catalog.subjects.update({iris.ref_move(ref.name, each.number): move_quads(each) for each in moves})


def _outlasts(catalog: Catalog, subject: str, owners: set[str], told: PastFacts) -> bool:
    """Tell whether a subject tells of the deletion of a session that was deleted by then, or of a redaction in one."""
    home = iris.session(next(iter(owners), ""))
    if not owners or not owners <= told.known or not subject.startswith(home):
        return False
    return _is_redaction(subject) or has_type(catalog.subjects, home, vocab.TOMBSTONE)


def _is_redaction(subject: str) -> bool:
    return iris.is_turn_deletion(subject) or iris.is_redaction(subject)


def _is_later(subject: str, told: PastFacts) -> bool:
    document = iris.document_of_graph(subject)
    if subject in told.later or (document is not None and document in told.later):
        return True
    home, _, rest = subject.partition("/")
    if rest.startswith("run/"):
        return "/".join(subject.split("/")[:3]) in told.later
    place, dash, _ = rest.partition("-")
    if not (dash and place.isdecimal() and iris.is_session(home)):
        return False
    return not told.had(iris.session_id(home), int(place))


def _as_dated(store: QuadStore, catalog: Catalog, told: PastFacts, moment: Moment, there: set[str]) -> None:
    """Take out, of sessions that were changed since, what was said of them later, by the times that it bears."""
    of: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    sure: list[datetime | None] = []
    hidden = {each for each, _ in told.redacted}
    for subject, quads in catalog.subjects.items():
        owners = catalog.owners(subject) & there
        changed = [each for each in owners if told.changes[each]]
        time = catalog.changed_at(subject) if changed else time_of(quads)
        if time is not None and changed and subject not in map(iris.session, owners):
            of[changed[0]].append((time, subject))
        elif owners & hidden and _is_redaction(subject):
            continue  # it may have come since
        elif subject in map(iris.session, owners) or (owners and not changed and "/run/" not in subject):
            sure.append(time_of(quads))
    sure += [_turn_time(store, each, told.end(each)) for each in there]
    known = log_moment.latest_time(sure)
    for session_id, dated in of.items():
        late = {time for time, _ in dated if time > known}
        late = set(sorted(late)[-told.changes[session_id] :])
        if moment.time is not None:
            late |= {time for time, _ in dated if time > moment.time}
        doomed = [subject for time, subject in dated if time in late and not _made_copies(catalog, subject, session_id)]
        _label_back(catalog, session_id, [catalog.subjects[each] for each in doomed])
        for subject in doomed:
            del catalog.subjects[subject]


def _made_copies(catalog: Catalog, subject: str, session_id: str) -> bool:
    """Tell whether a subject is the act that detached a session which stays so: the copies that it made are there."""
    is_fork_again = session_id in catalog.starts
    return not is_fork_again and one_text(catalog.subjects[subject], vocab.WAS_FORK_OF) is not None


def _label_back(catalog: Catalog, session_id: str, doomed: Sequence[Sequence[Quad]]) -> None:
    """Give a session the label that it had before the first of some alterations."""
    altered = [
        (time_of(quads), one_text(quads, vocab.OLD_VALUE))
        for quads in doomed
        if one_text(quads, vocab.ALTERED_FIELD) == "label"
        and one_text(quads, vocab.DONE_TO) == iris.session(session_id)
    ]
    if not altered:
        return
    _, label = min(altered, key=lambda each: str(each[0]))
    iri = iris.session(session_id)
    row = [quad for quad in catalog.subjects[iri] if quad.predicate != vocab.LABEL]
    if label is not None:
        row.append(Quad(NamedNode(iri), vocab.LABEL, Literal(label), vocab.CATALOG))
    catalog.subjects[iri] = row


def _attach(store: QuadStore, reader: Reader, catalog: Catalog, there: set[str], session_id: str) -> None:
    """Make a session the fork again that it was, where its parent is there and the digest of its fork point proves it."""
    iri = iris.session(session_id)
    row = log_leaves.row_of(store, session_id)
    wanted = one_text(catalog.subjects[iri], vocab.FORK_DIGEST)
    for subject, quads in catalog.subjects.items():
        parent, at = one_text(quads, vocab.WAS_FORK_OF), one_text(quads, vocab.WAS_FORKED_AT)
        if not subject.startswith(f"{iri}/act/") or parent is None or at is None:
            continue
        if iris.session_id(parent) not in there:
            return
        head = reader.digest_at(session_id, int(at) - 1) if int(at) else digests.GENESIS
        point = [
            Quad(NamedNode(iri), vocab.PARENT_SESSION, NamedNode(parent), vocab.CATALOG),
            Quad(NamedNode(iri), vocab.FORKED_AT_INDEX, vocab.integer(int(at)), vocab.CATALOG),
            Quad(NamedNode(iri), vocab.FORK_HEAD, Literal(head or ""), vocab.CATALOG),
        ]
        versions = [version for _, version in reader.prompts([session_id])]
        for version in (0, *sorted(versions)[:_MOST_VERSIONS]):
            said = (
                [Quad(NamedNode(iri), vocab.SYSTEM_VERSION, vocab.integer(version), vocab.CATALOG)] if version else []
            )
            if term_text(row.fork_digest([*point, *said]).object) == wanted:
                kept = [quad for quad in catalog.subjects[iri] if quad.predicate != vocab.FORK_DIGEST]
                catalog.subjects[iri] = [*kept, *point, *said]
                catalog.starts[session_id] = int(at)
                for copied in range(1, version + 1):
                    catalog.subjects.pop(iris.system_prompt(iri, copied), None)
                return


def _without_strangers(past: _PastGraphs, catalog: Catalog) -> None:
    """Take out people, programs, tools and files of which nothing that is left speaks."""
    named = {term_text(quad.object) for quads in catalog.subjects.values() for quad in quads}
    for subject in list(catalog.subjects):
        if not catalog.owners(subject) and subject not in named and iris.document_of_graph(subject) is None:
            if not (iris.is_author(subject) or iris.is_tool(subject) or iris.file_digest(subject) is not None):
                continue
            if not past.speaks_of(NamedNode(subject)):
                del catalog.subjects[subject]


# --- the graphs


@dataclass(frozen=True, slots=True)
class _PastGraphs:
    """What the graphs of a store held then."""

    store: QuadStore
    told: PastFacts
    catalog: Catalog
    there: set[str]

    def had(self, graph: str) -> bool:
        """Tell whether there was anything in a graph that is there still."""
        if iris.is_session(graph):
            return iris.session_id(graph) in self.there
        found = record_registry.kinds_beside(graph)
        if found is not None:
            return iris.session_id(found[1]) in self.there
        if iris.payload_digest(graph) is not None:
            return self.speaks_of(NamedNode(graph))
        document = iris.document_of_graph(graph)
        return document is None or document not in self.told.later

    def graph(self, graph: NamedNode) -> Sequence[Quad]:
        """Return what a graph held; raise `IntegrityError` where the turns are not those that the log tells of."""
        quads = self.store.quads((None, None, None, graph))
        if iris.payload_digest(graph.value) is not None:
            return quads
        was: dict[object, bool] = {}
        for quad in quads:
            if quad.subject not in was:
                was[quad.subject] = self.was(graph.value, term_text(quad.subject))
        kept = [quad for quad in quads if was[quad.subject] and not self.leads_below(graph.value, quad)]
        if iris.is_session(graph.value):
            self._check(iris.session_id(graph.value), kept)
            return kept
        is_begun = any(quad.subject != graph for quad in kept)  # what names the graph alone came with its first record
        return kept if is_begun else []

    def speaks_of(self, node: NamedNode) -> bool:
        """Tell whether what a turn that was there says names something."""
        return any(
            isinstance(quad.graph_name, NamedNode)
            and self.had(quad.graph_name.value)
            and self.was(quad.graph_name.value, term_text(quad.subject))
            for quad in self.store.quads((None, None, node, None))
        )

    def was(self, graph: str, subject: str) -> bool:
        """Tell whether a subject of a graph was there."""
        if not iris.is_session(graph):
            return "/".join(subject.split("/")[:3]) not in self.told.later
        session_id = iris.session_id(graph)
        start, end = self.catalog.starts.get(session_id, 0), self.told.end(session_id) or 0
        return start <= _index(subject, graph) < end

    def leads_below(self, graph: str, quad: Quad) -> bool:
        """Tell whether a quad names a copy that a fork which was detached has only since."""
        if quad.predicate != vocab.ANSWERS_COPY or not iris.is_session(graph):
            return False
        start, call = self.catalog.starts.get(iris.session_id(graph), 0), term_text(quad.object)
        return call.startswith(f"{graph}/") and _index(call, graph) < start

    def end(self, session_id: str) -> tuple[int, str | None]:
        """Return how many turns a session's transcript had, and the digest of the last one if the session owned it."""
        count, head, _ = (self.told.sessions[session_id].heads or [(0, "", 0)])[-1]
        return count, head if count > _start(self.catalog, session_id) else None

    def _check(self, session_id: str, quads: Sequence[Quad]) -> None:
        found = {
            _index(term_text(quad.subject), iris.session(session_id)): term_text(quad.object)
            for quad in quads
            if quad.predicate == vocab.DIGEST
        }
        count, head = self.end(session_id)
        if head is not None and found.get(count - 1) != head:
            raise IntegrityError(
                f"session {session_id!r} had {count} turns then, and turn {count - 1} is gone, or another one: the store "
                "was altered or put back (`trails verify` says more); restore a backup"
            )


def _start(catalog: Catalog, session_id: str) -> int:
    return int(one_text(catalog.subjects[iris.session(session_id)], vocab.FORKED_AT_INDEX) or 0)


def _index(subject: str, graph: str) -> int:
    """Return the index of the turn that a subject of a session's graph belongs to."""
    place = subject[len(graph) + 1 :].partition("/")[0].partition("-")[0]
    return int(place) if place.isdecimal() else -1


# --- quads


def _turn_time(store: QuadStore, session_id: str, end: int | None) -> datetime | None:
    """Return when the last turn of a session was made, given how many there were."""
    graph = NamedNode(iris.session(session_id))
    for turn in store.quads((None, vocab.INDEX, vocab.integer((end or 0) - 1), graph)) if end else []:
        return time_of(store.quads((turn.subject, vocab.TIME, None, graph)))  # type: ignore[arg-type] # an IRI
    return None
