"""The engine (pyoxigraph): filling it from records of the log, copying it, and telling what its errors mean."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Iterable, Sequence
from contextlib import suppress
from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC
from pathlib import Path
from typing import Final

import pyoxigraph as ox

from trails.errors import StoreFailed
from trails.rdf.derived_quads import derived_lines
from trails.store.log.records import CommitRecord

BULK_FROM: Final = 4_000
"""Quads from which on the engine's bulk loader is quicker than its transactions."""
_STEP: Final = 16 << 20
"""Bytes of N-Quads that are loaded at once: some 80,000 quads, for which the engine takes up to 150 MB of memory."""
_REMOVED: Final = 1_000
"""Quads that are removed in one update."""
_ARENA_MAX: Final = -8
"""`M_ARENA_MAX` of glibc's `mallopt`."""


def fill(engine: ox.Store, records: Iterable[CommitRecord]) -> int:
    """Let an engine hold what it holds after some records, in bounded memory.

    Returns how many quads came in, and one more for each thousand bytes of their text.
    Doing it twice is allowed: the engine may have any of the records before.
    """
    added: list[bytes] = []
    size = count = 0
    for record in records:
        if record.remove or record.drop:
            count += _add(engine, added)
            added, size = [], 0
            _remove(engine, record)
        if text := record.quads_added:
            added.append(text)
            size += len(text)
            if size >= _STEP:
                count += _add(engine, added)
                added, size = [], 0
    return count + _add(engine, added)


def _add(engine: ox.Store, lines: Sequence[bytes]) -> int:
    text = b"".join(lines)
    count = text.count(b"\n")
    if count:
        quads = ox.parse(text, format=ox.RdfFormat.N_QUADS)
        engine.bulk_extend(quads) if count >= BULK_FROM else engine.extend(quads)
    return count + len(text) // 1_000


def _remove(engine: ox.Store, record: CommitRecord) -> None:
    for dropped in record.drop:
        if " " not in dropped:
            engine.remove_graph(ox.NamedNode(dropped))
            continue
        from trails.store.log.erasing import is_of_property, property_pattern  # noqa: PLC0415 - erasing is seldom needed

        found = engine.quads_for_pattern(*property_pattern(dropped))
        _remove_quads(engine, [quad for quad in found if is_of_property(dropped, quad)])
    if record.remove:
        _remove_quads(engine, list(ox.parse(record.remove, format=ox.RdfFormat.N_QUADS)))


def _remove_quads(engine: ox.Store, quads: Sequence[ox.Quad]) -> None:
    for start in range(0, len(quads), _REMOVED):
        rows = (
            f"{quad.subject} {quad.predicate} {quad.object} ."
            if isinstance(quad.graph_name, ox.DefaultGraph)
            else f"GRAPH {quad.graph_name} {{ {quad.subject} {quad.predicate} {quad.object} }}"
            for quad in quads[start : start + _REMOVED]
        )
        engine.update(f"DELETE DATA {{ {' '.join(rows)} }}")


def spare_address_space() -> None:
    """Have the engine's threads share an allocation arena if this process may have so much address space only (`ulimit -v`).

    By default the C library reserves 64 MiB of it for each of eight arenas a core, and the engine ends the process if it gets
    none.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def copy_quads(engine: ox.Store, folder: Path) -> None:
    """Write all quads of an engine into new files: nothing that was deleted is in them."""
    folder.mkdir(mode=0o700)
    copy = ox.Store(str(folder))
    copy.bulk_extend(engine.quads_for_pattern(None, None, None, None))
    copy.flush()


def derive(folder: Path) -> None:
    """Add to the files of an engine what follows from its quads."""
    engine = ox.Store(str(folder))
    waiting: list[bytes] = []
    for lines in derived_lines(engine):
        waiting.append(lines)
        if sum(map(len, waiting)) >= _STEP:
            engine.bulk_load(b"".join(waiting), ox.RdfFormat.N_QUADS)
            waiting.clear()
    engine.bulk_load(b"".join(waiting), ox.RdfFormat.N_QUADS)
    engine.flush()


def keep_for_ever(engine: ox.Store | None) -> None:
    """Keep an engine from being ended in a forked child: that would wait for ever for threads that only the parent has."""
    if engine is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))


def is_damage(error: Exception) -> bool:
    """Tell whether an error says that the engine's files are damaged or gone."""
    return isinstance(error, OSError) or any(word in f"{error}" for word in ("Corruption", "IO error", "NotFound"))


def has_too_many_files(error: Exception) -> bool:
    """Tell whether an error says that this process may open no more files: no other files help then."""
    return getattr(error, "errno", None) in (EMFILE, ENFILE) or "Too many open files" in f"{error}"


def not_ours(location: str, first: int, last: int, error: Exception) -> StoreFailed:
    """Return the error for a log in which some record is as it was written, and holds no quads."""
    return StoreFailed(
        f"of the records {first} to {last} of the log of {location} one is as it was written, and says what no version of Trails "
        f"writes ({error!s:.200}); nothing was read from it. Find out who writes there, and restore a backup from before that"
    )


def unreadable(location: str, error: Exception) -> StoreFailed:
    """Return the error for a store whose engine cannot be had, with what to do."""
    if has_too_many_files(error):
        return StoreFailed(
            f"the store {location} cannot be opened: this process has too many files open; close stores that you read no more, "
            "or raise its limit (`ulimit -n`)"
        )
    if getattr(error, "errno", None) in (ENOSPC, EDQUOT, EFBIG) or "No space left on device" in f"{error}":
        return StoreFailed(
            f"the store {location} cannot be read: there is no room for its index; make room on that disk, nothing is lost"
        )
    return StoreFailed(
        f"the store {location} cannot be read: its index can neither be used nor made ({error}); check the disk, and delete its "
        "folder `index`, which is made anew from the log"
    )
