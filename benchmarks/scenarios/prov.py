"""A store of 20,000 answers as PROV in every format, and checked by PROV-CONSTRAINTS; in seconds of CPU, not of the clock."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, cast

from prov.constants import PROV_N_MAP
from prov.identifier import QualifiedName
from prov.model import ProvBundle, ProvDocument

import trails
from benchmarks.data import messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians
from trails import Repository
from trails.provenance import Statement, export, validate
from trails.provenance.serializations import WRITERS
from trails.provenance.session_export import ExportScope, export_parts
from trails.provenance.statements import KINDS, QUALIFIED_NAME
from trails.rdf import query_files

_ROWS: Final = "the engine's rows alone"
_PEER: Final = "prov: building and writing the same"
_VALIDATING: Final = "reading the store and checking it"
_TYPES: Final = {name: type_ for type_, name in PROV_N_MAP.items()}
_TURNS: Final = 4
"""For every turn that the other scenarios store, so many are stored here: a turn is five statements."""


def run(setting: Setting) -> list[Result]:
    """Measure writing a whole store in each format, beside what the engine takes to give its rows; and validating it."""
    folder = setting.folder / "store"
    turns = _fill(folder, setting.size.turns * _TURNS, setting.seed)
    with trails.open(folder) as store:
        seconds, counts = _measured(store, min(setting.size.rounds, 5))
        checked = medians([Contestant(_VALIDATING, lambda: _cpu(lambda: validate(store)))], 3)
    return [
        Result(
            name="prov",
            title=f"{counts['statements']:,} statements of {turns:,} turns written as PROV; seconds of CPU",
            baseline=_ROWS,
            medians=seconds,
            counts=counts,
            targets=[Target("PROV-JSONLD of 100,000 statements, CPU", seconds["jsonld"], 2.0, "s")],
        ),
        Result(
            name="prov-validate",
            title=f"{turns:,} turns read and checked by PROV-CONSTRAINTS; seconds of CPU",
            baseline=_VALIDATING,
            medians=checked,
            targets=[Target("20,000 turns read and checked, CPU", checked[_VALIDATING], 10.0, "s")],
        ),
    ]


def _fill(folder: Path, turns: int, seed: int) -> int:
    texts = messages(turns, seed)
    with trails.open(folder, create=True, durability="process") as store:
        session = store.create(id="s", principal="alice", agent="planner")
        for number, message in enumerate(texts):
            session.append("assistant", message.text, model="m-1")
            if number % 1000 == 999:
                session.persist()
        session.persist()
    return len(texts)


def _measured(store: Repository, rounds: int) -> tuple[dict[str, float], dict[str, int]]:
    statements = [(part.name, list(part.statements)) for part in export_parts(store.workspace, ExportScope())]
    contestants = [
        Contestant(_ROWS, lambda: _cpu(lambda: _rows(store))),
        *(Contestant(name, partial(_cpu, partial(_written, store, name))) for name in WRITERS),
    ]
    seconds = medians(contestants, rounds)
    seconds |= medians([Contestant(_PEER, lambda: _cpu(lambda: _by_prov(statements)))], 1)
    out = _Nowhere()
    export(store, cast(BinaryIO, out), format="jsonld")
    return seconds, {"statements": sum(len(said) for _, said in statements), "bytes as jsonld": out.size}


def _cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _rows(store: Repository) -> None:
    query = query_files.find("prov_facts").bind(graph="urn:trails:session:s")
    for _ in store.store.rows(query):
        pass


class _Nowhere(io.RawIOBase):
    size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        written = len(cast(bytes, data))
        self.size += written
        return written


def _written(store: Repository, name: str) -> None:
    export(store, cast(BinaryIO, _Nowhere()), format=name)


def _by_prov(bundles: Iterable[tuple[str | None, Iterable[Statement]]]) -> None:
    """Build a document of the package `prov` from the same statements and let it write PROV-JSONLD."""
    document = ProvDocument()
    for prefix, iri in (("trails", "https://w3id.org/trails#"), ("t", "urn:trails:")):
        document.add_namespace(prefix, iri)
    for name, statements in bundles:
        bundle = document if name is None else document.bundle(_qualified(document, name))
        for statement in statements:
            _record(bundle, statement)
    document.serialize(io.StringIO(), format="jsonld")


def _qualified(bundle: ProvBundle, iri: str) -> QualifiedName:
    name = bundle.valid_qualified_name(iri)
    assert name is not None, iri
    return name


def _record(bundle: ProvBundle, statement: Statement) -> None:
    places = KINDS[statement.kind].places
    formal = [
        (f"prov:{place.name}", value if place.is_time else _qualified(bundle, value))
        for value, place in zip(statement.arguments, places, strict=True)
        if value is not None
    ]
    other = [
        (_qualified(bundle, name), _qualified(bundle, value.text) if value.type == QUALIFIED_NAME else value.text)
        for name, value in statement.attributes
    ]
    id_ = None if statement.id is None else _qualified(bundle, statement.id)
    bundle.new_record(_TYPES[statement.kind], id_, formal, other)
