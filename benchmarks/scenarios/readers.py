"""Opening a view beside the owner of a large store, with as much unflushed as the owner ever leaves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyoxigraph as ox

from benchmarks.data import raw_engine
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails.rdf import vocab
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore, ViewStore

UNFLUSHED = 4_990
"""Quads: with 5,000 the owner flushes."""
_TURN = 10
"""Quads of a plain turn."""
_QUADS_A_SESSION = 500
_BATCH = 50_000
_RAW = "raw engine, read only, of a backup"


def run(setting: Setting) -> list[Result]:
    """Measure views of 500 quads a session: 5,000,000 at the standard size."""
    path, backup = setting.folder / "store", setting.folder / "backup"
    quads = setting.size.sessions * _QUADS_A_SESSION
    with closing(EmbeddedStore(path, create=True)) as owner:
        _fill(owner, quads, setting.seed)
        owner.vacuum()  # into the tables that the engine has when it has come to rest
        owner.backup(backup)
        at_rest = medians([_opening("a view, nothing unflushed", path), _raw(backup)], setting.size.rounds)
        texts = list(_turns(random.Random(setting.seed + 1), UNFLUSHED, "urn:bench:tail"))
        for start in range(0, UNFLUSHED, _TURN):
            owner.commit(Change(add=texts[start : start + _TURN]))
        name = f"a view, {UNFLUSHED:,} quads unflushed"
        full = medians([_opening(name, path)], setting.size.rounds)
        with closing(ViewStore(path)) as view:
            unchanged = medians([Contestant("refresh, nothing new", lambda: timed(view.refresh))], setting.size.rounds)
    promised = f"opening a view of {quads:,} quads beside its owner, with {UNFLUSHED:,} unflushed"
    return [
        Result(
            name="readers",
            title=f"open a view beside the owner of {quads:,} quads",
            baseline=_RAW,
            medians={**at_rest, **full, **unchanged},
            targets=[Target(promised, full[name] * 1000, 100, "ms")],
        )
    ]


def _opening(name: str, path: Path) -> Contestant:
    def one() -> float:
        opened: list[ViewStore] = []
        seconds = timed(lambda: opened.append(ViewStore(path)))
        opened.pop().close()
        return seconds

    return Contestant(name, one)


def _raw(backup: Path) -> Contestant:
    return Contestant(_RAW, lambda: timed(lambda: raw_engine(backup)))


def _fill(owner: EmbeddedStore, quads: int, seed: int) -> None:
    chosen = random.Random(seed)
    for number in range(-(-quads // _BATCH)):
        count = min(_BATCH, quads - number * _BATCH)
        owner.commit(Change(add=list(_turns(chosen, count, f"urn:bench:{number}"))))


def _turns(chosen: random.Random, quads: int, name: str) -> Iterator[ox.Quad]:
    """Give the quads of plain turns: as many values, of such lengths, as those of sessions have."""
    graph = ox.NamedNode(name)
    for index in range(quads // _TURN):
        turn = ox.NamedNode(f"{name}:{index}:{chosen.getrandbits(64):016x}")
        text = " ".join(f"{chosen.getrandbits(30):x}" for _ in range(12))
        values: dict[ox.NamedNode, ox.Literal | ox.NamedNode] = {
            vocab.INDEX: ox.Literal(index),
            vocab.ROLE: ox.Literal("user"),
            vocab.BRANCH: ox.Literal("main"),
            vocab.VALUE: ox.Literal(text),
            vocab.DIGEST: ox.Literal(f"{chosen.getrandbits(256):064x}"),
            vocab.SALT: ox.Literal(f"{chosen.getrandbits(128):032x}"),
            vocab.ATTRIBUTED_TO: ox.NamedNode("urn:bench:agent"),
            vocab.TIME: ox.Literal(f"2026-05-01T12:00:{index % 60:02}Z", datatype=vocab.DATE_TIME),
        }
        yield from (ox.Quad(turn, predicate, value, graph) for predicate, value in values.items())
        for kind in (vocab.TURN, vocab.ENTITY):
            yield ox.Quad(turn, vocab.TYPE, kind, graph)
