"""Bringing an engine to where the commit log says it is, after an end without a close."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pyoxigraph as ox

from trails.store.frames import CommitRecord, Frame
from trails.store.syncing import sync_folder

_STEP: Final = 1_000
"""Quads that are removed in one update."""


def drop_engine_log(engine_folder: Path) -> None:
    """Delete the engine's own write-ahead log, which must not be open: everything since its last flush is in the records.

    Nobody syncs that log. A power cut may keep more of it than of the records; and less of it than of what the engine
    was just bringing into its files: it then refuses to open, or opens with a quad in some of its indexes only.
    """
    for file in engine_folder.glob("*.log"):
        file.unlink()
    sync_folder(engine_folder)


def replay(engine: ox.Store, found: Sequence[Frame]) -> None:
    """Let an engine hold what it holds after all records, whichever of them it already has; twice is once.

    A power cut within a flush leaves quads that stand in some of the engine's indexes and not in others, so what the
    engine says of them is not asked: all are written, or removed, which the engine (0.5.13) does in every index.
    """
    net: dict[bytes, bool] = {}
    for frame in found:
        if frame.record.drop:
            _settle(engine, net)
            net.clear()
            for graph in frame.record.drop:
                engine.remove_graph(ox.NamedNode(graph))
        _gather(net, frame.record)
    _settle(engine, net)


def _gather(net: dict[bytes, bool], record: CommitRecord) -> None:
    for line in _lines(record.remove):
        net[line] = False
    for line in _lines(record.add):
        net[line] = True


def _lines(part: bytes) -> list[bytes]:
    return part.split(b"\n")[:-1]


def _settle(engine: ox.Store, net: dict[bytes, bool]) -> None:
    """Add and remove what the records come to; a quad is here as its line."""
    engine.extend(_parsed(line for line, kept in net.items() if kept))
    _remove(engine, _parsed(line for line, kept in net.items() if not kept))


def _parsed(lines: Iterable[bytes]) -> list[ox.Quad]:
    text = b"".join(line + b"\n" for line in lines)
    return list(ox.parse(text, format=ox.RdfFormat.N_QUADS)) if text else []


def _remove(engine: ox.Store, quads: Sequence[ox.Quad]) -> None:
    for start in range(0, len(quads), _STEP):
        engine.update(update_text((), quads[start : start + _STEP]))


def update_text(add: Sequence[ox.Quad], remove: Sequence[ox.Quad]) -> str:
    """Return one SPARQL update that removes quads and adds others. Terms are rendered by the engine, which escapes them."""
    parts = []
    for verb, quads in (("DELETE DATA", remove), ("INSERT DATA", add)):
        if quads:
            rows = (
                f"{quad.subject} {quad.predicate} {quad.object} ."
                if isinstance(quad.graph_name, ox.DefaultGraph)
                else f"GRAPH {quad.graph_name} {{ {quad.subject} {quad.predicate} {quad.object} }}"
                for quad in quads
            )
            parts.append(f"{verb} {{ {' '.join(rows)} }}")
    return " ; ".join(parts)
