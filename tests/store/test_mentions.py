"""What an index knows of quads that it has not taken in yet: it may be wrong to the safe side alone."""

from __future__ import annotations

import pyoxigraph as ox

from trails.rdf import vocab
from trails.store.pattern import Mentions

GRAPH, OTHER, TURN = (ox.NamedNode(f"urn:trails:session:{name}") for name in ("plan", "other", "plan/0-00"))


def test_a_source_id_that_nobody_wrote_cannot_match_and_one_that_was_written_may() -> None:
    mentions = Mentions()
    mentions.add([ox.Quad(TURN, vocab.SOURCE_ID, ox.Literal("m1"), GRAPH)])
    assert mentions.may_match((None, vocab.SOURCE_ID, ox.Literal("m1"), GRAPH))
    assert not mentions.may_match((None, vocab.SOURCE_ID, ox.Literal("m2"), GRAPH))
    assert not mentions.may_match((None, vocab.SOURCE_ID, ox.Literal("m1"), OTHER))
    assert mentions.may_match((None, vocab.SOURCE_ID, None, GRAPH))
    assert mentions.may_match((None, None, ox.Literal("m2"), GRAPH))
    assert mentions.may_match((None, vocab.ROLE, ox.Literal("user"), GRAPH))
    assert mentions.may_match((None, None, None, None))
