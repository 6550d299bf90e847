"""What a statement rests on: that it was recorded when it happened, imported from a file, or derived by a rule from facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from trails import vocab
from trails.prov.statements import Attribute, Value

Evidence = Literal["recorded", "imported", "derived"]

EVIDENCE: Final = vocab.EVIDENCE.value
SOURCE: Final = vocab.EVIDENCE_SOURCE.value
FILE: Final = vocab.EVIDENCE_FILE.value
RULE: Final = vocab.EVIDENCE_RULE.value

RECORDED: Final[tuple[Attribute, ...]] = ((EVIDENCE, Value("recorded")),)
UNATTRIBUTED: Final = frozenset({"alternateOf", "specializationOf", "mentionOf", "hadMember"})
"""The kinds that PROV-DM gives no attributes: what they rest on cannot be said."""


def imported(source: str, files: Sequence[str] = ()) -> tuple[Attribute, ...]:
    """Return the attributes of what came from a record of another system, given the IRIs of the files that it stood in."""
    return ((EVIDENCE, Value("imported")), (SOURCE, Value(source)), *((FILE, Value(each)) for each in files))


def derived(rule: str) -> tuple[Attribute, ...]:
    """Return the attributes of what follows by a rule, the name of a query file."""
    return ((EVIDENCE, Value("derived")), (RULE, Value(rule)))
