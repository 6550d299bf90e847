"""Derive what follows from stored quads and is stored nowhere: the turn before each turn, and forks in the words of Python.

It is put into the datasets of queries that name it, into dumps and into exports, and left out where these come in again. It
stands in the default graph: a path through the sessions' own graphs would end at each fork.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import IO, Final, NamedTuple, cast

from pyoxigraph import Literal, NamedNode, Quad, QueryResultsFormat, QuerySolutions, RdfFormat, Store

from trails.rdf import query_files
from trails.rdf import vocab as v

_SESSIONS: Final = 100
"""Sessions whose turns are read at once: memory holds those."""
_WORDS: Final = {v.PARENT_SESSION: v.PARENT_SESSION_ID, v.FORKED_AT_INDEX: v.FORKED_AT_INDEX_WORD}
"""What forks are stored with, and the words of Python for it."""
DERIVED: Final = frozenset({v.PREVIOUS_TURN, *_WORDS.values()})
"""The properties that are derived."""
DERIVED_NAMES: Final = tuple(sorted(each.value.removeprefix(v.TRAILS) for each in DERIVED))
"""Their names, without the namespace."""
_LINE: Final = re.compile(rb"<[^>]*> (?:" + b"|".join(re.escape(f"{each}".encode()) for each in DERIVED) + rb") ")


def are_named_in(text: str) -> bool:
    r"""Tell whether a query may name a derived property: by its name, or by escapes, which can spell any.

    >>> are_named_in("SELECT ?t { ?t trails:previousTurn+ ?earlier }"), are_named_in("SELECT ?t { ?t a trails:Turn }")
    (True, False)
    """
    return "\\u" in text.lower() or any(name in text.replace("\\", "") for name in DERIVED_NAMES)


def derived_lines(engine: Store) -> Iterator[bytes]:
    """Yield lines of N-Quads, many at a time, that say all that is derived of what an engine holds.

    A turn that a transcript does not show has no turn before it: one of a session that is deleted, or being copied.
    """
    sessions = [_subject(quad) for quad in engine.quads_for_pattern(None, v.TYPE, v.SESSION, v.CATALOG)]
    stored = {prop: list(engine.quads_for_pattern(None, prop, None, v.CATALOG)) for prop in _WORDS}
    for prop, quads in stored.items():
        yield "".join(f"{quad.subject} {_WORDS[prop]} {quad.object} .\n" for quad in quads).encode()
    lineage = _lineage(stored[v.PARENT_SESSION], stored[v.FORKED_AT_INDEX], sessions)
    for place in range(0, len(sessions), _SESSIONS):
        some = sessions[place : place + _SESSIONS]
        owned = _turns(engine, some)
        yield "".join(line for each in some for line in _edges(engine, each, owned[f"{each}"[:-1]], lineage)).encode()


def _edges(engine: Store, session: NamedNode, turns: dict[int, list[str]], lineage: _Lineage) -> Iterator[str]:
    """Yield a line for each turn that a session owns and each turn before that."""
    start = lineage.starts.get(session, 0)
    for index, later in turns.items():
        if index < start:
            continue
        earlier = turns.get(index - 1, []) if index > start else _inherited(engine, session, index - 1, lineage)
        yield from (f"{turn} {v.PREVIOUS_TURN} {before} .\n" for turn in later for before in earlier)


def dump_with_derived(engine: Store, out: IO[bytes]) -> None:
    """Write all that an engine holds, and what is derived of that, as N-Quads in no order."""
    engine.dump(out, RdfFormat.N_QUADS)
    for lines in derived_lines(engine):
        out.write(lines)


def with_derived(quads: Iterable[Quad]) -> set[Quad]:
    """Return quads, and what is derived of them."""
    engine = Store()
    engine.extend(quads)
    engine.load(b"".join(derived_lines(engine)), format=RdfFormat.N_QUADS)
    return set(engine)


def without_derived(quads: Iterable[Quad]) -> Iterator[Quad]:
    """Yield quads but those that are derived: what comes in is derived anew."""
    return (quad for quad in quads if quad.predicate not in DERIVED)


def is_derived_line(line: bytes) -> bool:
    """Tell whether a line of N-Quads, as the engine writes them, is of a derived property."""
    return _LINE.match(line) is not None


class _Lineage(NamedTuple):
    """By session: its parent, as far as that is there, and the first index that it owns."""

    parents: dict[NamedNode, NamedNode]
    starts: dict[NamedNode, int]


def _lineage(parents: Sequence[Quad], starts: Iterable[Quad], sessions: Collection[NamedNode]) -> _Lineage:
    counted = Counter(quad.subject for quad in parents)  # with two parents, a damaged session has no one transcript
    known = ((_subject(quad), cast(NamedNode, quad.object)) for quad in parents if counted[quad.subject] == 1)
    return _Lineage(
        {session: parent for session, parent in known if parent in sessions},
        {_subject(quad): _number(quad) for quad in starts},
    )


def _subject(quad: Quad) -> NamedNode:
    return cast(NamedNode, quad.subject)  # no store has blank nodes


def _number(quad: Quad) -> int:
    """Return an index; -1 where there is none to be read, at which no turn is."""
    text = quad.object.value if isinstance(quad.object, Literal) else ""
    return int(text) if text.isascii() and text.isdecimal() else -1


def _turns(engine: Store, sessions: Iterable[NamedNode]) -> dict[str, dict[int, list[str]]]:
    """Return the turns of sessions by `<` and the session's IRI, then by index; a damaged store may have several at one."""
    found: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    rows = engine.query(query_files.find("turn_iris").bind(sessions=list(sessions)))
    text = cast(QuerySolutions, rows).serialize(format=QueryResultsFormat.TSV) or b""
    for turn in text.decode().split("\n")[1:-1]:
        session, _, rest = turn.partition("/")
        number = rest.partition("-")[0]
        if number.isascii() and number.isdecimal():
            found[session][int(number)].append(turn)
    return found


def _inherited(engine: Store, session: NamedNode, index: int, lineage: _Lineage) -> list[str]:
    """Return the turn that a fork shows at an index before its own: of the nearest ancestor that owns that index."""
    passed, owner = {session}, lineage.parents.get(session)
    while owner is not None and owner not in passed:  # a cycle, made by hand, ends
        if lineage.starts.get(owner, 0) <= index:
            found = engine.quads_for_pattern(None, v.INDEX, v.integer(index), owner)
            return [f"{quad.subject}" for quad in found]
        passed.add(owner)
        owner = lineage.parents.get(owner)
    return []
