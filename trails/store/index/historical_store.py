"""A store as it was at an earlier place of its log: read only, each graph copied into memory when it is asked for."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NoReturn, TypeVar

import pyoxigraph as ox

from trails.errors import IntegrityError, QueryEnded, StoreFailed, StoreReadOnly
from trails.rdf.derived_quads import are_named_in
from trails.store.contract import Change, Committed, QuadStore, Result
from trails.store.index.reading import EngineReader, Gate
from trails.store.leaflog import KeptLines, LeafLog
from trails.store.pattern import Pattern
from trails.store.queries import query_pool
from trails.store.queries.query_pool import Source

_Answer = TypeVar("_Answer")
_TAKES_OUT: Final = frozenset({"redact", "delete", "detach", "discard", "remove"})
"""What the log says where something that was there is taken out, or is elsewhere since."""


@dataclass(frozen=True, slots=True)
class Held:
    """What there was, as a store that went on tells it at one moment."""

    said: object
    """What there is to say of it, for whoever asked."""
    catalog: Sequence[ox.Quad]
    graphs: Collection[str]
    bring: Callable[[ox.NamedNode], Sequence[ox.Quad]]
    """Gives what one of these graphs held, by its IRI; asked once."""
    turns: Mapping[str, tuple[int, str | None]] = field(default_factory=dict)
    """By the IRI of a session that had the turns that it has now below an index: that, and the last one's digest if known."""
    changed: frozenset[str] = frozenset()
    """The ids of the sessions of which the catalog may say something else than it did then."""
    redacted: frozenset[tuple[str, int | None]] = frozenset()
    """The (session id, index) of the turns that were redacted since; no index where it was no turn."""
    went_on: frozenset[str] = frozenset()
    """What records of no session are called that were changed or taken out since."""
    ledgers: frozenset[str] = frozenset()
    """The ids of the sessions whose ledgers' records went on since."""
    returned: frozenset[str] = frozenset()
    """The ids of the sessions that came back since, and of which what was there then, a tombstone or turns, is nowhere."""


class PastStore(EngineReader):
    """The quads that a store had when its log had fewer lines. What writes raises `StoreReadOnly`.

    The catalog is there from the beginning. A session's graph is copied out of the store when something asks for it. What is
    taken out of the store goes from here, too: before anything is read it is told anew what there was.
    """

    def __init__(self, location: str, lines: Sequence[str], now: QuadStore, tell: Callable[[], Held]) -> None:
        """`now` is the store that went on, and `tell` what tells what it had when its log had these lines."""
        self.origin: object = None
        """What must not be closed before this, because it is read through that."""
        self._location = location
        self._gate = Gate()
        self._lock = threading.RLock()
        self._store = now
        self._tell = tell
        self._follower: Callable[[], None] = lambda: None
        self._number = 0
        """How often it was told anew what there was."""
        kept = KeptLines(lines, now.log.record_of(len(lines)))
        self._log = LeafLog(kept, kept.number)
        self._seen = now.log.reached
        """How far the log was read for what was taken out."""
        self._memory: ox.Store | None = None
        self._hold(tell())

    def _hold(self, held: Held) -> None:
        memory = ox.Store()
        memory.extend(held.catalog)
        self._held, self._memory, self._waiting = held, memory, dict.fromkeys(held.graphs)

    @property
    def held(self) -> Held:
        """What there was, less what was taken out until now."""
        self._bring_up()
        return self._held

    def follow(self, told: Callable[[], None]) -> None:
        """Call this each time when something was taken out: what was read before may hold it."""
        self._follower = told

    def _bring_up(self) -> bool:
        """Have it told anew what there was, if something was taken out of the store since; return whether that was so."""
        self._engine()
        if self._store.log.reached == self._seen:
            return False
        with self._lock:
            lines, reached = self._store.log.since(self._seen)
            is_less = any(line.partition(" ")[0] in _TAKES_OUT for line in lines)
            if is_less:
                self._hold(self._tell())
                self._number += 1
            self._seen = reached
        if is_less:
            self._follower()  # nothing is held now that whoever is told may be waiting for
        return is_less

    def _asked(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return what is answered; asked again where something that is missed was taken out meanwhile."""
        self._bring_up()
        while True:
            try:
                return ask()
            except IntegrityError:
                if not self._bring_up():
                    raise

    @property
    def location(self) -> str:
        return self._location

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def log(self) -> LeafLog:
        return self._log

    @property
    def number(self) -> int:
        return self._number

    @property
    def token(self) -> object:
        return 0

    def _engine(self) -> ox.Store:
        if self._memory is None:
            raise StoreFailed(f"the store {self._location} is closed; ask for it again")
        return self._memory

    # --- what is copied when it is asked for

    def _have(self, graphs: Collection[str] | None) -> None:
        """Copy graphs that are not here yet; None for all of them."""
        self._engine()
        with self._lock:
            wanted = list(self._waiting) if graphs is None else [each for each in graphs if each in self._waiting]
            for graph in wanted:
                self._engine().extend(self._held.bring(ox.NamedNode(graph)))
                del self._waiting[graph]

    def _settle(self, pattern: Pattern | None = None) -> None:
        if pattern is not None:
            graph = pattern[3]
            if not isinstance(graph, ox.DefaultGraph):
                self._have(None if graph is None else [graph.value])

    def query(
        self, text: str, *, union: bool = False, graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None = None
    ) -> Result:
        return self._asked(lambda: self._query(text, union, graph))

    def _query(self, text: str, union: bool, graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None) -> Result:
        self._have_for(text, union, graph)
        return super().query(text, union=union, graph=graph)

    def _have_for(self, text: str, union: bool, graph: object = None) -> None:
        """Copy the graphs that a query is over, before it is asked."""
        if isinstance(graph, ox.NamedNode):
            self._have([graph.value])
        else:
            self._have(None if union else graphs_of(text))

    def source(self, text: str, *, graph: ox.NamedNode | ox.BlankNode | None = None, union: bool = False) -> Source:
        derives = are_named_in(text)
        self._asked(lambda: self._have(None) if derives else self._have_for(text, union, graph))
        with self._lock:
            return self._quads_of((self._number, len(self._waiting), derives), derives=derives)

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        return self._asked(lambda: super(PastStore, self).quads(pattern))

    def table(self, text: str) -> list[list[str]]:
        self._asked(lambda: self._have_for(text, union=False))
        return super().table(text)

    def rows(self, text: str) -> Iterator[list[str]]:
        self._asked(lambda: self._have_for(text, union=False))
        return super().rows(text)

    def __len__(self) -> int:
        self._asked(lambda: self._have(None))
        return super().__len__()

    def dump(self, out: IO[bytes], *, derives: bool = False) -> None:
        self._asked(lambda: self._have(None))
        super().dump(out, derives=derives)

    def _unchanged(self) -> AbstractContextManager[object]:
        return self._lock

    # --- what writes

    def commit(self, change: Change) -> Committed:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreReadOnly(
            f"this is {self._location}, and what was is only read; write to the store itself, or fork there what you found"
        )

    def flush(self) -> None:
        self._engine()

    def close(self) -> None:
        query_pool.end(self, QueryEnded(f"the query in {self._location} was ended: the store was closed"))
        with self._lock:
            self._memory = None
            self._waiting.clear()


_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
      | (?P<iri><[^<>"{}|^`\\\s]*>)
      | (?P<text>\"{3}(?:(?:\"|\"\")?(?:[^"\\]|\\.))*\"{3}|'{3}(?:(?:'|'')?(?:[^'\\]|\\.))*'{3}
          |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<variable>[?$]\w+)
      | (?P<word>[^\W\d][\w:.-]*)
      | (?P<other>[^\\])""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORD: Final = re.compile(r"graph|from|service", re.IGNORECASE)


def graphs_of(text: str) -> Collection[str] | None:
    """Return the IRIs of the named graphs that a query can read; None for all that there are.

    >>> graphs_of("SELECT ?s { ?s ?p ?o }"), graphs_of("SELECT ?s { GRAPH <urn:a> { ?s ?p ?o } }")
    ([], ['urn:a'])
    >>> graphs_of("SELECT ?s { VALUES ?g { <urn:a> <urn:b> } GRAPH ?g { ?s ?p ?o } }")
    ['urn:a', 'urn:b']
    >>> graphs_of("SELECT ?g { GRAPH ?g { ?s ?p ?o } }") is None
    True
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    found: list[str] = []
    groups: list[_Group] = [_Group()]
    for place, (kind, word) in enumerate(tokens):
        if word == "{" and kind == "other":
            groups.append(_Group())
        elif word == "}" and kind == "other":
            if len(groups) == 1 or not groups[-1].is_told:
                return None
            found += groups.pop().graphs
        elif kind == "word" and word.upper() == "VALUES":
            groups[-1].values.update(_values(tokens[place + 1 :]))
        elif kind == "word" and _KEYWORD.search(word.partition(":")[0]):  # what follows a colon is the rest of a name
            after = tokens[place + 1] if place + 1 < len(tokens) else ("", "")
            if word.upper() != "GRAPH" or after[0] not in ("iri", "variable"):
                return None
            groups[-1].named.append(after[1])
    return found if len(groups) == 1 and not groups[0].named else None


@dataclass(slots=True)
class _Group:
    """What stands between two braces: a GRAPH beside a VALUES of its variable reads the graphs that this lists, and no more."""

    named: list[str] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_told(self) -> bool:
        return all(each.startswith("<") or each in self.values for each in self.named)

    @property
    def graphs(self) -> list[str]:
        return [iri[1:-1] for each in self.named for iri in self.values.get(each, [each])]


def _values(tokens: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the IRIs that a list binds one variable to, given what follows the word VALUES; nothing for any other list."""
    if len(tokens) < 3 or tokens[0][0] != "variable" or tokens[1][1] != "{":
        return {}
    found: list[str] = []
    for kind, word in tokens[2:]:
        if word == "}":
            return {tokens[0][1]: found}
        if kind != "iri":
            return {}
        found.append(word)
    return {}


def _tokens(text: str) -> list[tuple[str, str]] | None:
    """Return the (kind, text) of what a query is made of, or None where that is not plain."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        kind = match.lastgroup or ""
        if kind == "other" and match[0] in "\"'":
            return None  # a text that does not end
        if kind != "skip":
            found.append((kind, match[0]))
        at = match.end()
    return found
