"""Validate statements by PROV-CONSTRAINTS (W3C, 2013).

A document is valid if each of its bundles is, if the statements outside them are, and if no two bundles have one name
(section 7.2). Each bundle is checked by itself. Statements are checked, not RDF: RDF cannot tell `-` from a value that is
left open.

PROV-CONSTRAINTS orders events and never looks at a clock: a file that was read hours after its deletion passes. So the times
get a verdict of their own. Each order is compared with the times of its two events. If one event has no time, the latest
time before it counts; if there is none, the order stays open. Two clocks may differ by `skew` seconds. Equal times are in
order, because a clock ticks.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from os import PathLike
from typing import Any, Protocol, runtime_checkable

from trails.errors import InvalidInput
from trails.history.workspace import Workspace
from trails.provenance.event_ordering import Edge, Order, impossible, order_cycles, shown
from trails.provenance.rdf_mapping import recorded_statements
from trails.provenance.serializations import read_prov, read_source
from trails.provenance.statements import Document
from trails.provenance.uniqueness import BUNDLE_RULE, Finding, Record, Unified, finding_of, moment

_ONE_MOMENT = {"generation": 39, "invalidation": 40, "start": 31, "end": 32}


@dataclass(frozen=True, slots=True)
class Timing:
    """What comparing times found: the orders that they contradict, how many they keep, and how many stay open."""

    findings: Sequence[Finding]
    kept: int
    open: int
    skew: float

    @property
    def verdict(self) -> str:
        """`invalid` where a time contradicts an order, `open` where some order has no times, else `valid`."""
        return "invalid" if self.findings else "open" if self.open else "valid"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "verdict": self.verdict,
            "kept": self.kept,
            "open": self.open,
            "skew": self.skew,
            "findings": [each.to_dict() for each in self.findings],
        }


@dataclass(frozen=True, slots=True)
class _Stated:
    """A time in seconds since 1970, its text, the event and the record that state it."""

    seconds: float
    text: str
    event: int
    record: Record


def read_timing(order: Order, unified: Unified, skew: float, bundle: str | None = None) -> Timing:
    """Return what the times of one bundle say about its order; `skew` is in seconds."""
    stated = _stated(order)
    findings = list(_doubled(order, stated, unified, skew))
    latest: list[_Stated | None] = [None] * len(order.events)
    kept = open_ = 0
    for event in sorted(range(len(order.events)), key=order.graph.component.__getitem__, reverse=True):
        times = stated.get(event)
        if times:
            latest[event] = max(times, key=lambda each: each.seconds)
        before = latest[event]
        for edge in order.graph.outgoing[event]:
            after = min(stated.get(edge.target, ()), key=lambda each: each.seconds, default=None)
            if after is None or before is None:
                open_ += 1
            elif before.seconds > after.seconds + skew:
                findings.append(_backwards(order, edge, (before, after), unified))
            else:
                kept += 1
            latest_time = latest[edge.target]
            if before is not None and (latest_time is None or before.seconds > latest_time.seconds):
                latest[edge.target] = before
    return Timing([replace(each, bundle=bundle) for each in findings], kept, open_, skew)


def _stated(order: Order) -> Mapping[int, list[_Stated]]:
    statements_by_event: dict[int, list[_Stated]] = defaultdict(list)
    for event, text, record in order.times:
        if (value := moment(text)) is not None:
            statements_by_event[event].append(_Stated(value.timestamp(), text, event, record))
    return statements_by_event


def _doubled(order: Order, stated: Mapping[int, Sequence[_Stated]], unified: Unified, skew: float) -> Iterator[Finding]:
    """Yield events that happened at two times (31, 32, 39, 40)."""
    for event, times in stated.items():
        first, last = (pick(times, key=lambda each: each.seconds) for pick in (min, max))
        rule = _ONE_MOMENT.get(order.events[event].what)
        if rule is not None and last.seconds > first.seconds + skew:
            message = f"the {shown(order.events[event])} is said to be at {first.text} and at {last.text}"
            clash = [*unified.sources(first.record), *unified.sources(last.record)]
            yield finding_of(rule, message, _timing_nodes(order, [first]), clash)


def _backwards(order: Order, edge: Edge, times: tuple[_Stated, _Stated], unified: Unified) -> Finding:
    before, after = times
    late = timedelta(seconds=before.seconds - after.seconds)
    message = (
        f"the {shown(order.events[before.event])} at {before.text} comes {late} after the "
        f"{shown(order.events[after.event])} at {after.text}, and cannot"
    )
    records = (before.record, after.record, edge.record)
    clash = [each for record in records if record is not None for each in unified.sources(record)]
    return finding_of(edge.rule, message, _timing_nodes(order, times), clash)


def _timing_nodes(order: Order, times: Sequence[_Stated]) -> list[str]:
    nodes = [order.events[each.event].node for each in times]
    return list(dict.fromkeys(node for node in nodes if isinstance(node, str)))


@dataclass(frozen=True, slots=True)
class Validation:
    """The verdict on a document: what breaks PROV-CONSTRAINTS and, if it was asked for, what its times say beside that."""

    statements: int
    bundles: int
    findings: Sequence[Finding]
    timing: Timing | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found: by W3C's constraints and, where times were compared, by those too."""
        return not self.findings and (self.timing is None or not self.timing.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {
            "valid": not self.findings,
            "statements": self.statements,
            "bundles": self.bundles,
            "findings": [each.to_dict() for each in self.findings],
            "timed": None if self.timing is None else self.timing.to_dict(),
        }


def check_constraints(document: Document, *, skew: float | None = None) -> Validation:
    """Return the verdict on a document.

    `skew` is the number of seconds by which clocks may differ, from 0; with None times are not compared. Whatever the
    times, they change nothing about validity by W3C's constraints, which look at the order that statements imply.

    >>> from trails.provenance.statements import Bundle, Statement
    >>> derived = Statement("wasDerivedFrom", None, ("urn:a", None, None, None, None))
    >>> check_constraints(Document([Bundle(None, [derived])])).findings[0].name
    'optional-placeholders'
    """
    findings: list[Finding] = list(_names(document))
    timings: list[Timing] = []
    for bundle in document.bundles:
        unified = Unified(bundle.statements)
        order = Order(unified)
        own = chain(unified.findings, impossible(unified), order_cycles(order, unified))
        findings += [replace(each, bundle=bundle.name) for each in own]
        if skew is not None:
            timings.append(read_timing(order, unified, skew, bundle.name))
    timing = None
    if skew is not None:
        late = [finding for each in timings for finding in each.findings]
        timing = Timing(late, sum(each.kept for each in timings), sum(each.open for each in timings), skew)
    return Validation(document.statements, sum(each.name is not None for each in document.bundles), findings, timing)


def _names(document: Document) -> Iterator[Finding]:
    seen: set[str] = set()
    for bundle in document.bundles:
        if bundle.name in seen:
            yield replace(
                finding_of(BUNDLE_RULE, f"two bundles are named {bundle.name}", [str(bundle.name)], []),
                bundle=bundle.name,
            )
        if bundle.name is not None:
            seen.add(bundle.name)


@runtime_checkable
class OpenStore(Protocol):
    """An open store, as `trails.open` returns it."""

    @property
    def workspace(self) -> Workspace:
        """What all handles on it share."""
        ...


def validate(
    source: str | PathLike[str] | bytes | OpenStore,
    *,
    format: str | None = None,  # noqa: A002 - the public name
    timed: bool = False,
    skew: float = 0.0,
) -> Validation:
    """Check whether PROV is valid by PROV-CONSTRAINTS (W3C, 2013), and say what clashes if it is not.

    `source` is a file (its path), a document (its bytes, which need `format`) or an open store. `format` is one of
    provn, json, jsonld, xml, turtle, trig, ntriples and nquads; by default the end of the file's name says which. With
    `timed`, the orders that the statements imply are compared by the times that are stated too, which W3C's constraints
    never do; clocks may differ by `skew` seconds, from 0. That is a verdict of its own, `Validation.timing`.

    The bundles of a file are checked one by one, as the Recommendation has it; the graphs of a store together, as the one
    history that they are. Nothing is written, and nothing fetched.

    Raises `InvalidInput` for what cannot be read as PROV, with the place.

    >>> validate(b"document endDocument", format="provn").ok
    True
    """
    if timed and not (math.isfinite(skew) and skew >= 0):
        raise InvalidInput(f"a clock skew of {skew} seconds cannot be; give a number from 0")
    if isinstance(source, str | PathLike | bytes):
        data, chosen, place = read_source(source, format)
        try:
            document = read_prov(data, chosen)
        except InvalidInput as error:
            if place is None:
                raise
            raise InvalidInput(f"{place}: {error}") from error
    else:
        document = recorded_statements(source.workspace.store)
    return check_constraints(document, skew=skew if timed else None)
