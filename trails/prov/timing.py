"""Whether the times that are stated follow the order that the statements imply: a verdict of its own.

PROV-CONSTRAINTS orders events and never looks at a clock: what was read hours after its deletion passes it. Here each
order is held against the times of its two events. Where one has no time, the latest time before it stands in; where
there is none, the order stays open. Two clocks may differ by `skew` seconds; equal times are in order, because a clock
ticks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from trails.prov.cycles import components
from trails.prov.findings import Finding, broken
from trails.prov.ordering import Order, by_event, shown
from trails.prov.unification import Record, Unified, moment

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

    @classmethod
    def joined(cls, each: Sequence[Timing], skew: float) -> Timing:
        """Return the timing of all bundles together."""
        findings = [finding for timing in each for finding in timing.findings]
        return cls(findings, sum(timing.kept for timing in each), sum(timing.open for timing in each), skew)


@dataclass(frozen=True, slots=True)
class _Stated:
    """A time in seconds since 1970, its text, the event and the record that state it."""

    seconds: float
    text: str
    event: int
    record: Record


def timed(order: Order, unified: Unified, skew: float, bundle: str | None = None) -> Timing:
    """Return what the times of one bundle say about its order; `skew` is in seconds."""
    stated = _stated(order)
    findings = list(_doubled(order, stated, unified, skew))
    outgoing = order.edges.outgoing(len(order.events))
    component = components(order.edges, outgoing)
    latest: list[_Stated | None] = [None] * len(order.events)
    kept = open_ = 0
    for event in sorted(range(len(order.events)), key=component.__getitem__, reverse=True):
        times = stated.get(event)
        if times:
            latest[event] = max(times, key=lambda each: each.seconds)
        before = latest[event]
        for edge in outgoing[event]:
            target = order.edges.targets[edge]
            after = min(stated.get(target, ()), key=lambda each: each.seconds, default=None)
            if after is None or before is None:
                open_ += 1
            elif before.seconds > after.seconds + skew:
                findings.append(_backwards(order, edge, (before, after), unified))
            else:
                kept += 1
            known = latest[target]
            if before is not None and (known is None or before.seconds > known.seconds):
                latest[target] = before
    return Timing([replace(each, bundle=bundle) for each in findings], kept, open_, skew)


def _stated(order: Order) -> Mapping[int, list[_Stated]]:
    found: dict[int, list[_Stated]] = {}
    for event, times in by_event(order).items():
        for text, record in times:
            value = moment(text)
            if value is not None:
                found.setdefault(event, []).append(_Stated(value.timestamp(), text, event, record))
    return found


def _doubled(order: Order, stated: Mapping[int, Sequence[_Stated]], unified: Unified, skew: float) -> Iterator[Finding]:
    """Yield events that happened at two times (31, 32, 39, 40)."""
    for event, times in stated.items():
        first, last = (pick(times, key=lambda each: each.seconds) for pick in (min, max))
        rule = _ONE_MOMENT.get(order.events[event].what)
        if rule is not None and last.seconds > first.seconds + skew:
            said = f"the {shown(order.events[event])} is said to be at {first.text} and at {last.text}"
            clash = [*unified.sources(first.record), *unified.sources(last.record)]
            yield broken(rule, said, _nodes(order, [first]), clash)


def _backwards(order: Order, edge: int, times: tuple[_Stated, _Stated], unified: Unified) -> Finding:
    before, after = times
    late = timedelta(seconds=before.seconds - after.seconds)
    said = (
        f"the {shown(order.events[before.event])} at {before.text} comes {late} after the "
        f"{shown(order.events[after.event])} at {after.text}, and cannot"
    )
    records = (before.record, after.record, order.records[edge])
    clash = [each for record in records if record is not None for each in unified.sources(record)]
    return broken(order.rules[edge], said, _nodes(order, times), clash)


def _nodes(order: Order, times: Sequence[_Stated]) -> list[str]:
    nodes = [order.events[each.event].node for each in times]
    return list(dict.fromkeys(node for node in nodes if isinstance(node, str)))
