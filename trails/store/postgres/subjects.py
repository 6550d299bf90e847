"""What a record of the log is about, as keys by which the database finds the records of one session.

A key is a number of 64 bits that stands for a name: that of a session, a tag, a principal, with all that is named below it, or
that of a property with its value, where things are looked up by that. Two names may have the same key: whoever reads by a key
looks at the names themselves (`restricted`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import pyoxigraph as ox

from trails.errors import NeedsWholeStore
from trails.rdf import vocab
from trails.store.log import records
from trails.store.log.records import REWRITES, CommitRecord
from trails.store.pattern import NOTHING, Pattern

EVERYBODY: Final = 0
"""The key of records that all who read by keys must see: they say that earlier records were rewritten."""
_OF_SESSION: Final = frozenset(
    str(each).encode()
    for each in (
        vocab.PROMPT_OF, vocab.NOTE_ON, vocab.REMOVED_FROM, vocab.TAG_OF, vocab.SCORED, vocab.DONE_TO, vocab.SIGNATURE_OF,
    )
)  # fmt: skip
"""Properties of what belongs to the session that is their value."""
_BY_TEXT: Final = frozenset(str(each).encode() for each in (vocab.LABEL, vocab.SLOT, vocab.KEY, vocab.NAMED_DIGEST))
"""Properties whose values are texts by which something is looked up."""
_PARENT: Final = str(vocab.PARENT_SESSION).encode()
_OURS: Final = b"urn:trails:"
_SHARED: Final = (b"<urn:trails:principal:", b"<urn:trails:agent:", b"<urn:trails:tool:", b"<urn:trails:store")
"""What so many records mention that nothing is looked up by it."""
_NO_GRAPH: Final = 3
"""Spaces in a line of the default graph whose object is an IRI."""
_BLURRED: Final = "^"
"""What stands in the name of an erased property whose subject is not told any more."""


@lru_cache(maxsize=4096)
def _number(name: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), signed=True) or 1


def _stem(iri: bytes) -> int:
    """Return the key of an IRI, which is that of all IRIs below it."""
    return _number(iri.partition(b"/")[0] if iri.startswith(_OURS) else iri)


def key_of(iri: str) -> int:
    """Return the key of a session, or of whatever an IRI names.

    >>> key_of("urn:trails:session:a") == key_of("urn:trails:session:a/0-00ff") != key_of("urn:trails:session:b")
    True
    """
    return _stem(iri.encode())


def _by_value(predicate: bytes, value: bytes) -> int | None:
    """Return the key by which a statement of the catalog is found by its value; None if none is looked up by it."""
    if value.startswith(b"<"):
        if not value.startswith(b"<" + _OURS) or value.startswith(_SHARED):
            return None
        return _stem(value[1:-1]) if predicate in _OF_SESSION else _number(predicate + b" " + value)
    return _number(predicate + b" " + value) if predicate in _BY_TEXT else None


def _keys_of_line(line: bytes) -> tuple[int, ...]:
    """Return the keys of a quad, which is written as a line."""
    graph = records.graph_of(line)
    if graph:
        return (_stem(graph),)
    subject, predicate, rest = line.split(b" ", 2)
    own, other = _stem(subject[1:-1]), _by_value(predicate, rest.removesuffix(b"\n").removesuffix(b" ."))
    return (own,) if other is None or other == own else (own, other)


def _key_dropped(dropped: str) -> int | None:
    """Return the key of a graph or a property that a record drops; None if it does not tell what that was of."""
    graph, _, rest = dropped.partition(" ")
    subject = rest.partition(" ")[0]
    return key_of(graph) if graph else None if _BLURRED in subject else key_of(subject)


def _lines(part: bytes) -> list[bytes]:
    return part.split(b"\n")[:-1]


def subjects_of(record: CommitRecord) -> Mapping[int, int | None]:
    """Return the keys of all that a record is about, and with that of a fork the key of its parent.

    >>> made = CommitRecord(add=b"<urn:trails:session:a/0-ff> <urn:p> <urn:o> <urn:trails:session:a> .\\n")
    >>> list(subjects_of(made)) == [key_of("urn:trails:session:a")]
    True
    """
    if record.flags & REWRITES:
        return {EVERYBODY: None}
    found: dict[int, int | None] = {}
    graphs, catalog = _sorted_out((*_lines(record.remove), *_lines(record.quads_added)))
    for key in (*map(_stem, graphs), *(key for line in catalog for key in _keys_of_line(line))):
        found.setdefault(key)
    named = (*map(_key_dropped, record.drop), *map(_key_of_leaf, record.leaves))
    for key in filter(None, named):
        found.setdefault(key)
    for line in _lines(record.quads_added) if any(_PARENT in line for line in catalog) else ():
        subject, predicate, rest = line.split(b" ", 2)
        if predicate == _PARENT and not records.graph_of(line):
            found[_stem(subject[1:-1])] = _stem(rest.removesuffix(b" .")[1:-1])
    return found


def _sorted_out(lines: Iterable[bytes]) -> tuple[set[bytes], list[bytes]]:
    """Return the named graphs of quads, and the lines of those that are in the catalog."""
    graphs, catalog = set[bytes](), list[bytes]()
    end = b"\n"
    for line in lines:
        if line.endswith(end) and line.count(b" ", 0, -len(end)) > 1:
            continue  # in the graph of the one before: what comes before that has more than a subject and a predicate
        graph = records.graph_of(line)
        if graph:
            graphs.add(graph)
            end = b" <%b> ." % graph
        else:
            catalog.append(line)
    return graphs, catalog


def lacks(there: Mapping[int, int | None], record: CommitRecord) -> bool:
    """Tell whether keys, with those of parents, are not all that a record is about."""
    return not subjects_of(record).items() <= there.items()


def _key_of_leaf(line: str) -> int | None:
    """Return the key of the session that a leaf names; None if it is of something else."""
    fields = line.split(" ", 2)
    return key_of(fields[1]) if len(fields) > 1 and fields[1].startswith("urn:trails:session:") else None


def restricted(record: CommitRecord, keys: Collection[int]) -> CommitRecord:
    """Return what a record does to what some keys stand for.

    What an erased property was of is not always told: records from before do not hold it any more, so nothing is left to drop.
    """

    def kept(part: bytes) -> bytes:
        return b"".join(line + b"\n" for line in _lines(part) if any(key in keys for key in _keys_of_line(line)))

    drop = tuple(each for each in record.drop if _key_dropped(each) in keys)
    return CommitRecord(drop=drop, remove=kept(record.remove), add=kept(record.quads_added))


def key_of_value(predicate: ox.NamedNode, value: ox.NamedNode | ox.Literal) -> int | None:
    """Return the key of all statements of the catalog with a property and a value; None if there is no such key."""
    _, asked, rest = records.n_quads([ox.Quad(vocab.RUN, predicate, value)]).split(b" ", 2)
    return _by_value(asked, rest.removesuffix(b" .\n"))


def key_asked(pattern: Pattern) -> int | None:
    """Return the key of all that a pattern can match; None if that is nothing.

    Raises `NeedsWholeStore` if there is no such key.
    """
    if pattern == NOTHING:
        return None
    subject, predicate, value, graph = pattern
    if isinstance(graph, ox.NamedNode):
        return key_of(graph.value)
    if graph is not None and subject is not None:
        return key_of(subject.value)
    if graph is not None and predicate is not None and value is not None:
        key = key_of_value(predicate, value)
        if key is not None:
            return key
    raise NeedsWholeStore("this asks for what any session may hold")


def keys_of_quads(quads: Iterable[ox.Quad]) -> Iterator[int]:
    """Yield for each quad the key with which it is known whether a store has it."""
    for quad in quads:
        named = quad.graph_name if isinstance(quad.graph_name, ox.NamedNode) else quad.subject
        yield key_of(named.value)  # type: ignore[union-attr] # IRIs: there are no blank nodes
