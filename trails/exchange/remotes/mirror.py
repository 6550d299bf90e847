"""Feed a mirror, a SPARQL server that holds a store's data, from the log.

SPARQL 1.1 Update has no parameters, and what is inserted is of any length: a file of `queries/` with places to bind cannot
say it. So updates are written here, and from terms alone, each as the engine itself writes it, so that none can end the
place in which it stands. Statements come from `mirror_comparison`, which makes them of terms too.

`held` is a pattern without which an update does nothing, wherever it was meanwhile: that a process still feeds the mirror.

Feeding is idempotent, in order, and resumed by a position that the mirror itself keeps.
The mirror keeps, in a graph of its own, how many lines of the store's log it has, for each other graph what was written of
it, and for each subject of the catalogue a digest. What is noted is noted after it was written, so whatever is cut short
is written again. A graph whose session only grew gets its new turns; any other that changed is written anew as a whole.

Whoever feeds the mirror has a name of its own there, and each update does nothing once another's name stands there: one that
arrives late, of a process that was killed or did not wait for its answer, brings back nothing that was taken out meanwhile.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal, cast

import pyoxigraph as ox

from trails.errors import IntegrityError, InvalidInput, MirrorFailed
from trails.exchange.remotes import mirror_comparison
from trails.exchange.remotes.mirror_comparison import CATALOGUE, HAS_CATALOGUE, REFERENCE, STATE, MirrorReport
from trails.exchange.remotes.mirror_endpoint import Endpoint, Kind, pages
from trails.handles import Handle
from trails.integrity import leaves
from trails.model import iris
from trails.rdf import vocab
from trails.session.repository import Repository
from trails.store.contract import QuadStore

_Graph = ox.NamedNode | None
"""None is the default graph."""
AT_ONCE: Final = 500
"""Turns that are read by one query."""
Catalogue = Literal["default", "named"]
Progress = Callable[[int, int], object]
_POSITION: Final = ox.NamedNode(f"{STATE.value}:position")
_LINK: Final = ox.NamedNode(f"{STATE.value}:link")
_WRITER: Final = ox.NamedNode(f"{STATE.value}:writer")
_DONE: Final = ox.NamedNode(f"{STATE.value}:done")
"""By whom, and which of his requests, was carried out last: an answer alone may be of something else than the server."""
_WRITTEN: Final = ox.NamedNode(f"{STATE.value}:written")
_NEXT: Final = ox.NamedNode(f"{STATE.value}:next")
_SAID: Final = ox.NamedNode(f"{STATE.value}:said")
_REFERRING: Final = f"^^{REFERENCE} ."
_OURS: Final = "urn:trails:"
_JOIN: Final = " ;\n"
"""What stands between the updates of one request."""
_ALL: Final = "?s ?p ?o"
_UNKNOWN: Final = -1
"""The position of a mirror that cannot be gone on with, and the next or last turn of a session that is written as a whole."""
_MOST: Final = 8_000_000
"""Characters of a request from which on it is sent,"""
_FEW: Final = 2_000
"""and triples from which on it is sent to a server that waits for it."""
_OWN: Final[dict[str, threading.Event]] = {}
"""The names under which this process has fed mirrors, with whether what did so failed amid something."""


def insert_update(graph: _Graph, block: str, held: str = "") -> str:
    """Return the update that adds statements to a graph.

    >>> insert_update(ox.NamedNode("urn:g"), "<urn:a> <urn:b> 1", "<urn:a> <urn:is> 2")
    'INSERT { GRAPH <urn:g> { <urn:a> <urn:b> 1 } } WHERE { <urn:a> <urn:is> 2 }'
    """
    return f"INSERT {{ {within(graph, block)} }} WHERE {{ {held} }}"


def insert_updates(graph: _Graph, statements: Sequence[str], most: int, held: str) -> Iterator[tuple[str, int]]:
    """Give updates that add statements to a graph, each with how many it adds: from 1 to `most`."""
    for start in range(0, len(statements), most):
        part = statements[start : start + most]
        yield insert_update(graph, "\n".join(_by_subject(part)), held), len(part)


def _by_subject(statements: Sequence[str]) -> Iterator[str]:
    """Give statements, those that follow each other about one subject together: a third less to send, and to read there.

    >>> list(_by_subject(["<urn:a> <urn:b> 1 .", "<urn:a> <urn:c> 2 .", "<urn:b> <urn:c> 3 ."]))
    ['<urn:a> <urn:b> 1 ; <urn:c> 2 .', '<urn:b> <urn:c> 3 .']
    """
    for subject, about in groupby((each.partition(" ") for each in statements), itemgetter(0)):
        yield f"{subject} {' ; '.join(rest.removesuffix(' .') for _, _, rest in about)} ."


def delete_update(graph: _Graph, pattern: str, held: str = "") -> str:
    """Return the update that deletes what fits a pattern in a graph, which need not be there.

    >>> delete_update(None, "<urn:a> ?p ?o")
    'DELETE { <urn:a> ?p ?o } WHERE {  <urn:a> ?p ?o }'
    """
    what = within(graph, pattern)
    return f"DELETE {{ {what} }} WHERE {{ {held} {what} }}"


def within(graph: _Graph, block: str) -> str:
    """Return statements, or a pattern, as they stand in a graph."""
    return block if graph is None else f"GRAPH {graph} {{ {block} }}"


def turns_between(store: QuadStore, session: ox.NamedNode, start: int, end: int) -> Iterator[tuple[list[ox.Quad], int]]:
    """Yield all that a session's graph says of its turns from an index to another (exclusive), up to a first gap.

    Each time these are the quads of some turns with their parts, whose IRIs begin with the turn's, and the index after them.
    """
    found: list[ox.Quad] = []
    for index in range(start, end):
        turns = [quad.subject for quad in store.quads((None, vocab.INDEX, vocab.integer(index), session))]
        if not turns:
            end = index
            break
        for turn in cast("list[ox.NamedNode]", turns):
            own = store.quads((turn, None, None, session))
            answers = store.quads((None, None, turn, session))
            linked = [*(quad.object for quad in own), *(quad.subject for quad in answers)]
            parts = dict.fromkeys(each for each in linked if isinstance(each, ox.NamedNode))
            below = [part for part in parts if part.value.startswith(f"{turn.value}/")]
            found += [*own, *(quad for part in below for quad in store.quads((part, None, None, session)))]
        if index + 1 - start == AT_ONCE:
            yield found, index + 1
            found, start = [], index + 1
    if found:
        yield found, end


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What a mirror got in one go: how many lines of the log it has now, and what was written for that."""

    position: int
    """Lines of the store's log that the mirror has."""
    sessions: int
    """Graphs of sessions that were written, as a whole or on from where they were."""
    triples: int
    """Triples that were added, also those that were there."""
    dropped: int
    """Graphs that are gone."""
    references: int
    """Literals that the server cannot hold, for which a reference stands there."""


@dataclass(slots=True)
class _State:
    """What the mirror keeps of itself."""

    position: int = 0
    link: str = ""
    catalogue: str = ""
    written: dict[str, str] = field(default_factory=dict)
    """By graph, the digest with which it was written as a whole; "" if more was added since."""
    following: dict[str, int] = field(default_factory=dict)
    """By graph of a session, the index of its next turn."""
    said: dict[str, str] = field(default_factory=dict)
    """By subject of the catalogue, the digest of what is said of it."""

    @classmethod
    def of(cls, notes: Mapping[ox.NamedNode, dict[str, str]]) -> _State:
        """Return the state that a mirror's notes tell: by predicate, and by what each is about."""
        own = {what: about[STATE.value] for what, about in notes.items() if STATE.value in about}
        return cls(
            position=_number(own.get(_POSITION, "0")),
            link=own.get(_LINK, ""),
            catalogue=own.get(HAS_CATALOGUE, ""),
            written=notes.get(_WRITTEN, {}),
            following={graph: _number(index) for graph, index in notes.get(_NEXT, {}).items()},
            said=notes.get(_SAID, {}),
        )


class Displaced(MirrorFailed):
    """Another process feeds the mirror now."""


class Mirror(Handle, public=True):
    """What a store holds, in somebody's SPARQL server, to be read there. One process at a time feeds it.

    `sync` brings it up to date, `follow` goes on doing so, `verify` holds it against the store.
    """

    def __init__(
        self,
        store: Repository,
        url: str,
        *,
        server: Kind | None = None,
        update_url: str | None = None,
        catalogue: Catalogue | None = None,
        anew: bool = False,
        timeout: float = 300.0,
    ) -> None:
        """Take a store and the server that mirrors it. Nothing is sent yet, but for who feeds it now.

        `url` is the server's base or where it takes queries, `update_url` where it takes updates (default: as its kind has
        it), `server` its kind (default: what it calls itself in its answers). A name and a password stand in the address, else
        in the environment's TRAILS_MIRROR_USER and TRAILS_MIRROR_PASSWORD. With `catalogue` "default" the catalogue is the
        server's default graph, with "named" the graph <urn:trails:catalog>; by default the first where the server has one.
        With `anew`, whatever it holds of a store is taken out first. `timeout` is how many seconds a server may be silent,
        before its answer and within it.

        Raises `InvalidInput` for an address that is none, and where the server mirrors another store, or this one before it
        was put back to an earlier state; `MirrorFailed` where it does not answer.
        """
        endpoint = Endpoint(url, server=server, update=update_url, timeout=timeout)
        self._store, self._to = store, endpoint
        self._writer = self._held = ""
        self._sent = 0
        """How many requests were sent under this name."""
        wanted = catalogue or ("default" if endpoint.server.has_default_graph else "named")
        if wanted == "default" and not endpoint.server.has_default_graph:
            raise InvalidInput(f"{endpoint.location} has no default graph of its own; its catalogue is a named graph")
        self._catalogue = None if wanted == "default" else CATALOGUE
        self._pending: list[str] = []
        self._sending: Future[None] | None = None
        self._is_checked = False
        """Whether what was sent last was found to be carried out."""
        self._unsure = threading.Event()
        """Whether it failed amid something, so that the mirror itself must be asked what it has."""
        self._has: object = None
        """What the store said of where it was when the mirror got all of it; None where it may lack something."""
        self._pending_triples = self._pending_size = self._triples = self._references = 0
        with self._failing_noted():
            self._begin(wanted, anew=anew)

    @contextmanager
    def _failing_noted(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._unsure.set()
            raise

    def __repr__(self) -> str:
        return f"<Mirror of {self._store.store.location} at {self.location}>"

    @property
    def location(self) -> str:
        """The server's address, without a name or password in it."""
        return self._to.location

    @property
    def kind(self) -> Kind:
        """The kind of server that it is taken for."""
        return self._to.kind

    @property
    def position(self) -> int:
        """How many lines of the store's log the mirror has."""
        return self._state.position

    def follow(self, interval: float = 0.5) -> Iterator[Mirrored]:
        """Bring the mirror up to date, give what was written, and go on so for ever, `interval` seconds after each beginning.

        A round that takes longer than that, since much came, is followed by the next one at once. Only rounds that wrote
        something are given. A store that is read only is refreshed first, one in PostgreSQL too.
        Raises what `sync` does; another call goes on from there.
        """
        if not 0 < interval <= threading.TIMEOUT_MAX:
            raise InvalidInput(f"the interval is a number of seconds above 0 that can be waited, not {interval!r:.80}")
        while True:
            begun = time.monotonic()
            self._store.refresh()
            if (done := self.sync()).triples or done.dropped:
                yield done
            time.sleep(max(0.0, begun + interval - time.monotonic()))

    def verify(self, progress: Progress | None = None) -> MirrorReport:
        """Hold every triple of the mirror against what the store holds now, and return where they differ, by graph."""
        return mirror_comparison.compare_mirror(self._store, self._to, progress)

    def _begin(self, wanted: Catalogue, *, anew: bool) -> None:
        self._state = self._read_head()
        was = self._state.catalogue
        if not anew:
            if was not in ("", wanted):
                raise InvalidInput(f"{self.location} has the catalogue as its {was} graph; say so, or begin it anew")
            self._know_history()
        self._note_writer(wanted)
        self._state = self._read_state()  # not before: until then, what another process sent may still arrive
        if anew:
            self._take_out(is_named=was == "named")
            self._note_writer(wanted)

    def _know_history(self) -> None:
        """Refuse the mirror of another history, once this process sees all that the store has: another one may be ahead."""
        while True:
            lines, at = self._store.store.log.lines(), self._state.position
            try:
                self._check_history(lines)
                return
            except InvalidInput:
                self._store.refresh()
                self._state = self._read_head()
                if len(self._store.store.log.lines()) == len(lines) and self._state.position == at:
                    raise

    # --- what the mirror says of itself

    def _read_head(self) -> _State:
        """Return how far the mirror is, and how it has the catalogue, without what it notes of each graph."""
        notes = {each: mirror_comparison.mirror_notes(self._to, each) for each in (_POSITION, _LINK, HAS_CATALOGUE)}
        return _State.of({each: {STATE.value: values[-1]} for each, values in notes.items() if values})

    def _read_state(self) -> _State:
        notes: dict[ox.NamedNode, dict[str, str]] = defaultdict(dict)
        for row in pages(self._to, "mirror_triples", graph=STATE):
            notes[row["property"]][row["subject"].value] = row["value"].value
        return _State.of(notes)

    def _check_history(self, lines: Sequence[str]) -> None:
        """Refuse to go on with the mirror of another store, or of this one before it was put back."""
        at = self._state.position
        if at == 0:
            return
        if at < 0:
            why = "does not say how far it is: beginning it anew was cut short, or somebody altered it"
        elif at > len(lines) or leaves.link_leaf(lines[at - 1]) != self._state.link:
            why = f"mirrors another store, or {self._store.store.location} was put back to an earlier state"
        else:
            return
        raise InvalidInput(f"{self._to.location} {why}. Nothing was sent; begin it anew to replace it")

    def _note_writer(self, catalogue: str) -> None:
        """Have this process feed the mirror, under a new name: what anybody sent before does nothing from then on."""
        name = ox.Literal(secrets.token_hex(8))
        _OWN[name.value] = self._unsure
        self._writer, self._sent = name.value, 0
        made = [
            *_note_updates(STATE, _WRITER, name, ""),
            insert_update(STATE, f"{STATE} {HAS_CATALOGUE} {ox.Literal(catalogue)}"),
            *_note_updates(STATE, _DONE, ox.Literal(self._receipt), ""),
        ]
        self._held = within(STATE, f"{STATE} {_WRITER} {name}")
        self._state.catalogue = catalogue
        self._to.update(_JOIN.join(made))
        if not self._is_done():
            raise self._lost()

    @property
    def _receipt(self) -> str:
        """What stands in the mirror once what was sent last is carried out."""
        return f"{self._writer} {self._sent}"

    def _is_done(self) -> bool:
        """Tell whether what was sent last is carried out; then it is not asked again until more is sent."""
        self._is_checked = mirror_comparison.mirror_notes(self._to, _DONE) == [self._receipt]
        return self._is_checked

    def _check_done(self) -> None:
        """Raise where what was sent last was not carried out, whatever the answer was, or another process feeds the mirror."""
        if self._is_done():
            return
        if self._found_writer() == self._writer:
            raise self._lost()
        what = f"{self._to.location} got late what this process had sent and given up"
        raise MirrorFailed(f"{what}; the next `sync` or `trails mirror` goes on")

    def _lost(self) -> MirrorFailed:
        what = f"{self._to.location} was sent something that was answered and not carried out"
        how = "see whether a proxy answers there. The next `sync` or `trails mirror` writes it again"
        return MirrorFailed(f"{what}: {how}")

    def _found_writer(self) -> str:
        """Return under which of this process's names the mirror is fed; raise `Displaced` where another one feeds it.

        What told of this object, or of one that failed, may come after what told of it anew.
        """
        found = mirror_comparison.mirror_notes(self._to, _WRITER)
        feeding = _OWN.get(found[0]) if len(found) == 1 else None
        if feeding is None or not (feeding is self._unsure or feeding.is_set()):
            raise self._displaced()
        return found[0]

    def _displaced(self) -> Displaced:
        return Displaced(f"another process feeds {self._to.location} now; this one has stopped")

    def _take_out(self, *, is_named: bool) -> None:
        """Take out all that is Trails' by its name, also what a mirror that was altered does not note."""
        graphs, subjects = dict.fromkeys(self._state.written), dict.fromkeys(self._state.said)
        graphs |= _ours(row["graph"] for row in pages(self._to, "mirror_graphs"))
        if is_default := not is_named and self._to.server.has_default_graph:
            subjects |= _ours(row["subject"] for row in pages(self._to, "mirror_subjects"))
        self._note(STATE, _POSITION, str(_UNKNOWN))  # cut short, it is no mirror of the graphs that are left
        for graph in graphs:
            if graph != STATE.value:
                self._send(delete_update(ox.NamedNode(graph), _ALL, self._held), 0)
        for subject in subjects if is_default else ():  # the named graph of a catalogue went with the others
            self._send(delete_update(None, f"{ox.NamedNode(subject)} ?p ?o", self._held), 1)
        self._send(delete_update(STATE, _ALL, self._held), 0)
        self._flush()
        self._wait()
        if mirror_comparison.mirror_notes(self._to, _WRITER):
            self._check_done()
            raise self._displaced()
        self._state = _State()

    # --- sending

    def _send(self, update: str, triples: int) -> None:
        """Take an update to be sent after those before it, as soon as there is enough for a request."""
        is_full = self._pending_triples + triples > self._to.server.triples or self._pending_size > _MOST
        if self._pending and is_full:
            self._flush()
        self._pending.append(update)
        self._pending_triples += max(1, triples)
        self._pending_size += len(update)
        if self._pending_triples >= _FEW and self._is_idle:
            self._flush()

    def _flush(self) -> None:
        """Send what is pending, after what was sent before it; this thread goes on reading meanwhile."""
        if self._pending:
            self._wait()
            if not self._is_checked:
                self._check_done()  # what was read before another process wrote it would stand in place of what that wrote
            self._is_checked = False
            self._sent += 1
            receipt = _note_updates(STATE, _DONE, ox.Literal(self._receipt), self._held)
            request = _JOIN.join([*self._pending, *receipt])
            self._sending = _begun(partial(self._to.update, request))
        self._pending, self._pending_triples, self._pending_size = [], 0, 0

    @property
    def _is_idle(self) -> bool:
        """Whether the server has nothing to do."""
        return self._sending is None or self._sending.done()

    def _wait(self) -> None:
        """Wait for what was sent last; raise what came of it."""
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.result()

    def _add(self, graph: ox.NamedNode | None, lines: Sequence[str]) -> None:
        for update, count in insert_updates(graph, lines, self._to.server.triples, self._held):
            self._send(update, count)
            self._triples += count
        self._references += sum(line.endswith(_REFERRING) for line in lines)

    def _note(self, subject: ox.NamedNode, predicate: ox.NamedNode, value: str | None) -> None:
        """Note something of the mirror in place of what was noted; nothing for None."""
        for update in _note_updates(subject, predicate, None if value is None else ox.Literal(value), self._held):
            self._send(update, 1)

    # --- one round

    def sync(self, progress: Progress | None = None) -> Mirrored:
        """Bring the mirror up to what the store holds now, and return what was written. `progress` gets (graphs, of).

        Raises `MirrorFailed` where the server fails or another process feeds the mirror: what was sent until then stays, and
        another call goes on from there. Raises `InvalidInput` where the store was put back to an earlier state meanwhile.
        """
        with self._failing_noted():
            return self._brought_up(progress)

    def _brought_up(self, progress: Progress | None) -> Mirrored:
        has, self._has = self._has, None
        if self._unsure.is_set():
            # what is still on its way of a round that was cut short does nothing any more
            self._found_writer()
            self._note_writer(self._state.catalogue)
            self._state = self._read_state()
        else:
            self._check_done()
        store = self._store.store  # asked before anything is read: what comes meanwhile may be missing
        now = store.number, store.token, store.log.reached
        done = self._round(progress) if has != now else Mirrored(self._state.position, 0, 0, 0, 0)
        self._unsure.clear()
        self._has = now
        return done

    def _round(self, progress: Progress | None) -> Mirrored:
        self._pending, self._pending_triples, self._pending_size, self._sending = [], 0, 0, None
        self._triples = self._references = 0
        lines = self._store.store.log.lines()
        self._check_history(lines)
        touched = _touched(lines[self._state.position :])
        graphs = mirror_comparison.named_graphs(self._store)
        known = self._state.written
        behind = [each for each in graphs if touched is None or each not in known or _owner(each) in touched]
        for number, graph in enumerate(behind):
            self._write(graph, touched)
            if progress is not None:
                progress(number + 1, len(behind))
        gone = [each for each in self._state.written if each not in set(graphs)]
        for graph in gone:
            node = ox.NamedNode(graph)
            self._send(delete_update(node, _ALL, self._held), 0)
            self._note(node, _WRITTEN, None)
            self._note(node, _NEXT, None)
            del self._state.written[graph]
            self._state.following.pop(graph, None)
        self._write_catalogue()
        self._reach(lines)
        sessions = sum(map(iris.is_session, behind))
        return Mirrored(len(lines), sessions, self._triples, len(gone), self._references)

    def _write(self, graph: str, touched: dict[str, int] | None) -> None:
        start = self._state.following.get(graph, _UNKNOWN)
        end = _UNKNOWN if touched is None else touched.get(_owner(graph), _UNKNOWN)
        if start >= 0 and end >= 0 and graph in self._state.written:
            self._grow(graph, start, end)
        else:
            self._write_whole(graph)

    def _write_whole(self, graph: str) -> None:
        node = ox.NamedNode(graph)
        quads = self._store.store.quads((None, None, None, node))
        lines = mirror_comparison.statements(quads, self._to.server)
        mark = mirror_comparison.statements_digest(lines)
        if self._state.written.get(graph) == mark:
            return
        self._note(node, _WRITTEN, None)
        self._send(delete_update(node, _ALL, self._held), 0)
        self._add(node, lines)
        self._note(node, _WRITTEN, mark)
        if iris.is_session(graph):
            places = [int(cast("ox.Literal", quad.object).value) for quad in quads if quad.predicate == vocab.INDEX]
            following = max(places, default=-1) + 1
            self._note(node, _NEXT, str(following))
            self._state.following[graph] = following
        self._state.written[graph] = mark

    def _grow(self, graph: str, start: int, end: int) -> None:
        """Add the turns of a session from an index to another."""
        node, index = ox.NamedNode(graph), start
        for quads, index in turns_between(self._store.store, node, start, end):  # noqa: B007
            self._add(node, mirror_comparison.statements(quads, self._to.server))
        if index == start:
            return
        if self._state.written[graph]:
            self._note(node, _WRITTEN, "")
            self._state.written[graph] = ""
        self._note(node, _NEXT, str(index))
        self._state.following[graph] = index

    def _write_catalogue(self) -> None:
        by_subject: dict[str, list[ox.Quad]] = defaultdict(list)
        for quad in self._store.store.quads((None, None, None, vocab.CATALOG)):
            held = mirror_comparison.mirror_term(quad.subject, self._to.server)
            by_subject[str(held)[1:-1]].append(quad)
        said = self._state.said
        for subject in [*(each for each in said if each not in by_subject), *by_subject]:
            lines = mirror_comparison.statements(by_subject.get(subject, ()), self._to.server)
            mark = mirror_comparison.statements_digest(lines) if lines else None
            if said.get(subject) == mark:
                continue
            node = ox.NamedNode(subject)
            self._send(delete_update(self._catalogue, f"{node} ?p ?o", self._held), 1)
            self._add(self._catalogue, lines)
            self._note(node, _SAID, mark)
            if mark is None:
                del said[subject]
            else:
                said[subject] = mark

    def _reach(self, lines: Sequence[str]) -> None:
        """Note how far the mirror is, after all that was sent."""
        if len(lines) != self._state.position:
            link = leaves.link_leaf(lines[-1])
            self._note(STATE, _POSITION, str(len(lines)))
            self._note(STATE, _LINK, link)
            self._state.position, self._state.link = len(lines), link
        self._flush()
        self._wait()
        if not self._is_checked:
            self._check_done()


def _note_updates(subject: ox.NamedNode, predicate: ox.NamedNode, value: ox.Literal | None, held: str) -> list[str]:
    """Return the updates that let a mirror note something in place of what it noted; nothing for None."""
    gone = delete_update(STATE, f"{subject} {predicate} ?o", held)
    return [gone] if value is None else [gone, insert_update(STATE, f"{subject} {predicate} {value}", held)]


def _begun(work: Callable[[], None]) -> Future[None]:
    """Return what comes of something that is begun on a thread of its own.

    That ends with the process: one of a pool would be waited for at its end, and for ever where Ctrl-C came as it began.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="trails-mirror", daemon=True).start()
    return done


def _number(noted: str) -> int:
    """Return a number that a mirror notes; what somebody put there instead is unknown."""
    return int(noted) if noted.isascii() and noted.isdigit() else _UNKNOWN


def _ours(terms: Iterable[object]) -> dict[str, None]:
    """Return the IRIs among terms that Trails makes."""
    named = [each.value for each in terms if isinstance(each, ox.NamedNode)]
    return dict.fromkeys(each for each in named if each.startswith(_OURS))


def _owner(graph: str) -> str:
    """Return what lines of a log call the session that a graph is of, or the graph itself."""
    return iris.session(iris.session_id(graph)) if graph.startswith("urn:trails:session:") else graph


def _touched(lines: Sequence[str]) -> dict[str, int] | None:
    """Return what lines of a log tell of, by IRI; None where it may be anything.

    Of what only got more turns, it is how many its transcript has then; of all else, `_UNKNOWN`.
    """
    found: dict[str, int] = {}
    for line in lines:
        try:
            leaf, _ = leaves.parse_leaf(line)
        except IntegrityError:
            return None
        if leaf.session_iri == "-":
            return None
        about = _owner(leaf.session_iri)
        only_grew = leaf.kind == "turns" and found.get(about) != _UNKNOWN
        found[about] = leaf.count if only_grew else _UNKNOWN
        if leaf.kind == "redact" and not iris.is_session(leaf.session_iri):
            return None
    return found
