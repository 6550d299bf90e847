"""What validation finds: the rule that is broken, what it is about, and the statements that clash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trails.prov.statements import Statement

NAMES: Final[Mapping[int, str]] = {
    4: "optional-placeholders",
    22: "key-object",
    23: "key-properties",
    24: "unique-generation",
    25: "unique-invalidation",
    26: "unique-wasStartedBy",
    27: "unique-wasEndedBy",
    28: "unique-startTime",
    29: "unique-endTime",
    30: "start-precedes-end",
    31: "start-start-ordering",
    32: "end-end-ordering",
    33: "usage-within-activity",
    34: "generation-within-activity",
    35: "wasInformedBy-ordering",
    36: "generation-precedes-invalidation",
    37: "generation-precedes-usage",
    38: "usage-precedes-invalidation",
    39: "generation-generation-ordering",
    40: "invalidation-invalidation-ordering",
    41: "derivation-usage-generation-ordering",
    42: "derivation-generation-generation-ordering",
    43: "wasStartedBy-ordering",
    44: "wasEndedBy-ordering",
    45: "specialization-generation-ordering",
    46: "specialization-invalidation-ordering",
    47: "wasAssociatedWith-ordering",
    48: "wasAttributedTo-ordering",
    49: "actedOnBehalfOf-ordering",
    50: "typing",
    51: "impossible-unspecified-derivation-generation-use",
    52: "impossible-specialization-reflexive",
    53: "impossible-property-overlap",
    54: "impossible-object-property-overlap",
    55: "entity-activity-disjoint",
    56: "membership-empty-collection",
}
"""The names that PROV-CONSTRAINTS (W3C, 2013) gives to its constraints, and to its Definition 4."""

ATTRIBUTE: Final = "reserved-attributes"
"""PROV-DM 5.7.2: in PROV's namespace there are five attributes and no more."""
MENTION: Final = "unique-mention"
"""PROV-LINKS, Constraint 2: an entity is a mention of one entity in one bundle."""
BUNDLE: Final = "unique-bundle"
"""PROV-CONSTRAINTS 7.2: no two bundles of a document have the same name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation: the rule by its name, and its number in PROV-CONSTRAINTS where it has one there.

    `nodes` are the IRIs that it is about and `statements` those that clash; for an order that runs in a circle they
    follow the circle, the shortest there is. `bundle` is the name of the bundle, None for the document's own statements.
    """

    constraint: int | None
    name: str
    message: str
    nodes: tuple[str, ...]
    statements: tuple[Statement, ...]
    bundle: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values, its statements in PROV-N."""
        return {
            "constraint": self.constraint,
            "name": self.name,
            "message": self.message,
            "nodes": list(self.nodes),
            "statements": [each.to_provn() for each in self.statements],
            "bundle": self.bundle,
        }


def broken(rule: int | str, message: str, nodes: Sequence[str], statements: Iterable[Statement]) -> Finding:
    """Return a finding of a rule, by its number or, where it has none, by its name; a statement is told once."""
    number = rule if isinstance(rule, int) else None
    name = NAMES[rule] if isinstance(rule, int) else rule
    return Finding(number, name, message, tuple(nodes), tuple(dict.fromkeys(statements)))
