"""Define what a kind of record must implement; `record_registry.KINDS` lists them all.

A record belongs to a session. It stands in the catalog, or in a graph beside the session's own, and it is logged with
the session's row (`logged`) or has leaves of its own (`leaves`). What a kind does not say is nothing: one that is
logged with the row, and holds no text of its own, needs neither leaves nor checks. A record that is no session's (a PROV
document that was brought in) says which graphs it `owns`, and its leaves and checks tell of those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import NamedNode, Quad

from trails.history.records.text_matcher import Erasure
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.values import Finding, SessionRecord
from trails.rdf import vocab
from trails.rdf.activity_records import author_type
from trails.rdf.codec import subject_of, term_text
from trails.store.contract import Matching, QuadStore
from trails.store.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Beside:
    """A graph beside each session's own, in which the records of a kind stand."""

    name: str
    """What follows the session's IRI, and a slash, in the graph's."""
    orphan: str = "belongs to no session"
    """What is said of such a graph whose session is not there."""
    needs_key: bool = False
    """Whether only sessions with keys have it."""

    def of(self, session_iri: str) -> NamedNode:
        """Return the graph of a session."""
        return NamedNode(f"{session_iri}/{self.name}")

    def owner(self, graph: str) -> str | None:
        """Return the IRI of the session that a graph of this kind is beside; None for any other graph."""
        home, _, name = graph.rpartition("/")
        return home if name == self.name and iris.is_session(home) else None


# --- verifying


@dataclass(frozen=True, slots=True)
class Evidence:
    """What records are held against when a store is verified."""

    store: QuadStore
    lines: Sequence[str]
    """The lines of the store's log."""
    old: int
    """The number of the first line that no older version wrote."""
    since: int | None
    """How many lines a checkpoint covers; None without one."""
    taken: Collection[str]
    """The IRIs of all that logged redactions took a text out of."""
    is_redacted: Callable[[str], bool]
    """Whether the content of a turn, by its IRI, was redacted."""


def _no_findings(*_: object) -> Iterable[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class Checks:
    """What is wrong with the records of a kind, by evidence that was gathered already."""

    session: Callable[[str, Collection[str]], Iterable[tuple[str, str]]] = _no_findings
    """Given a session's id and the IRIs of its own turns: (code, what) for all that is wrong beside it."""
    store: Callable[[Mapping[str, SessionRecord], bool], Iterable[Finding]] = _no_findings
    """Given the sessions that are checked, and whether those are all that there are: all else that is wrong."""


# --- what becomes of records


@dataclass(frozen=True, slots=True)
class Leaving:
    """What becomes of records when sessions are deleted."""

    remove: Sequence[Quad] = ()
    add: Sequence[Quad] = ()
    forbid: Sequence[Pattern] = ()
    """What must not come in between."""
    rows: Sequence[str] = ()
    """The sessions to which records move: they must stay, and their rows are logged again."""
    leaves: Sequence[Leaf] = ()
    unless_used: Sequence[NamedNode] = ()
    """What goes with all that is said of it, unless something that stays uses it (prov:used)."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """What goes of records, and what comes, when turns are redacted whose texts they repeat."""

    remove: Sequence[Quad] = ()
    add: Sequence[Quad] = ()
    rows: Collection[str] = ()
    """The sessions whose rows are logged again."""
    parts: Sequence[str] = ()
    """The IRIs of records that the redaction is to name."""
    report: Mapping[str, Collection[Any]] = field(default_factory=dict)
    """What is reported of it, by the fields of `Redaction`."""


@dataclass(frozen=True, slots=True)
class Arriving:
    """What may come in of a session that is imported, and what is said of the rest."""

    quads: Sequence[Quad]
    said: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Growth:
    """What comes and goes of the records of a session that is there, when an export of it is imported."""

    add: Sequence[Quad] = ()
    remove: Sequence[Quad] = ()
    said: Sequence[str] = ()


# --- the kind


_Arriving = Callable[[QuadStore, str, Sequence[Quad]], Arriving]


def about(store: Matching, subject: str) -> list[Quad]:
    """Return all that the catalog says of a subject."""
    return store.quads((NamedNode(subject), None, None, vocab.CATALOG))


def with_authors(quads: Sequence[Quad], named_by: NamedNode) -> list[Quad]:
    """Return quads, and what those are whom they name by a property."""
    return [*quads, *map(author_type, sorted({term_text(q.object) for q in quads if q.predicate == named_by}))]


def unknown_of(types: Collection[NamedNode], is_gone: Callable[[QuadStore, str], bool] = lambda *_: False) -> _Arriving:
    """Return what leaves records of some types out of an arriving session that are here already, or were removed here."""

    def arriving(store: QuadStore, _: str, quads: Sequence[Quad]) -> Arriving:
        subjects = {subject_of(quad) for quad in quads if quad.object in types}
        known = {each for each in subjects if about(store, each) or is_gone(store, each)}
        return Arriving([quad for quad in quads if subject_of(quad) not in known])

    return arriving


def new_of(
    types: Collection[NamedNode], arriving: _Arriving, exported: Callable[[QuadStore, NamedNode], Sequence[Quad]]
) -> Callable[[QuadStore, QuadStore, str, bool], Growth]:
    """Return what gives the records of a file that are new to a session that is there."""

    def growing(store: QuadStore, file: QuadStore, session_id: str, _: bool) -> Growth:
        found = arriving(store, session_id, exported(file, NamedNode(iris.session(session_id))))
        is_new = any(quad.object in types for quad in found.quads)
        return Growth(add=found.quads if is_new else (), said=found.said)

    return growing


def _nothing(*_: object) -> list[Any]:
    return []


def _arrives_whole(_: QuadStore, __: str, quads: Sequence[Quad]) -> Arriving:
    return Arriving(quads)


def _kept_whole(_: QuadStore, quads: Sequence[Quad]) -> Sequence[Quad]:
    return quads


@dataclass(frozen=True, slots=True, eq=False)
class RecordKind:
    """What is logged of a kind of record, what verifying finds, what goes with texts and with sessions, what travels."""

    name: str
    types: frozenset[NamedNode] = frozenset()
    """The types of its records in the catalog."""
    links: frozenset[NamedNode] = frozenset()
    """The properties by which a record in the catalog names its session, or another record of the same session."""
    beside: Beside | None = None
    """The graph beside a session's that holds its records; None where the catalog does."""

    owns: Callable[[str], bool] = lambda _: False
    """Whether a graph, by its IRI, is one of its records' and beside no session's: its `checks` say what is wrong there, and
    its `purge` is for all of it."""

    # --- the log
    logged: Callable[[Matching, NamedNode, Sequence[Quad]], Sequence[Quad]] = _nothing
    """What the log covers with a session's row: given the session's node, and what else is said of it."""
    leaves: Callable[[Matching], Sequence[Leaf]] = _nothing
    """The leaves of all its records, for a log that begins with them."""
    leaves_of: Callable[[Matching, str, Sequence[Quad]], Sequence[Leaf]] = _nothing
    """The leaves of those records of a session that have quads among the ones that are written."""

    # --- verifying
    as_written: Callable[[str, Sequence[Quad]], Iterable[Quad]] = _nothing
    """The quads that a record in the catalog would have if it were written from what it says."""
    own_leaf: Callable[[Quad], bool] = lambda _: False
    """Whether a quad of the catalog says that its subject has a leaf of its own, to which `checks` hold it; else it is
    logged with its session's row."""
    removal: Callable[[str], frozenset[NamedNode]] = lambda _: frozenset()
    """What may be said of the removal of such a record, by the removal's IRI; nothing where that is none."""
    checks: Callable[[Evidence], Checks] = lambda _: Checks()

    # --- redacting
    withheld: Callable[[QuadStore, Sequence[NamedNode], Sequence[str]], Withheld] = lambda *_: Withheld()
    """What goes with the texts of turns: given the turns, and the texts that are looked for elsewhere."""
    repeated: Callable[[QuadStore, str, Sequence[str]], Mapping[str, Collection[str]]] = lambda *_: {}
    """What may repeat a turn and stays, by the fields of `Redaction`: given the turn's digest, and its texts."""
    text: str = ""
    """What the text of a record in the catalog is called; its salted digest is made with that."""
    places: Mapping[NamedNode, str] = field(default_factory=dict)
    """What the properties of such records are called where a text is taken out of them."""
    purges: Callable[[str], bool] = lambda _: False
    """Whether `purge` is for a subject of the catalog; else it is logged with its session's row."""
    purges_all: bool = False
    """Whether `purge` is for all records of its types."""
    purge: Callable[[Erasure, str, Sequence[Quad], Sequence[Quad]], None] = lambda *_: None
    """Take a text out of a record, or of a graph beside a session's: given its IRI, its quads, and those that hold it."""

    # --- deleting
    leaving: Callable[[QuadStore, Collection[str], set[str]], Leaving] = lambda *_: Leaving()
    """What becomes of records when sessions are deleted; the set is kept from one look to the next."""

    # --- travelling
    exported: Callable[[QuadStore, NamedNode], Sequence[Quad]] = _nothing
    """What an export of a session holds of its records."""
    arriving: Callable[[QuadStore, str, Sequence[Quad]], Arriving] = _arrives_whole
    """What may come in with a session that is new here, of all its quads."""
    growing: Callable[[QuadStore, QuadStore, str, bool], Growth] = lambda *_: Growth()
    """What a session that is here gets from an export: given the store, the file, the session's id, and whether the store
    has more turns."""
    repeating: Callable[[Sequence[Quad], Sequence[str]], Sequence[Quad]] = _nothing
    """What of arriving quads repeats the texts of a turn that was redacted here, and stays out."""
    kept_out: Callable[[QuadStore, Sequence[Quad]], Sequence[Quad]] = _kept_whole
    """Arriving quads without the texts that belong to turns that were redacted here."""
