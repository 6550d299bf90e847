"""What Trails never writes is named by `verify`, whatever stumbles over it."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from trails import Repository
from trails.rdf import vocab
from trails.store.embedded import EmbeddedStore

_SESSION = ox.NamedNode("urn:trails:session:plan")


@pytest.mark.parametrize("graph", [vocab.CATALOG, _SESSION], ids=["the catalog", "the session's graph"])
@pytest.mark.parametrize(
    "link",
    [vocab.NOTE_ON, vocab.TAG_OF, vocab.CALLED_FOR, vocab.ALTERNATE_OF, vocab.PROMPT_OF, vocab.TYPE, vocab.INDEX],
    ids=lambda each: each.value.rpartition("#")[2],
)
def test_a_blank_node_is_named_and_nothing_raised(memory: Repository, link: ox.NamedNode, graph: ox.NamedNode) -> None:
    session = memory.create(id="plan")
    session.append("user", "Hello")
    session.persist()
    assert isinstance(memory.store, EmbeddedStore)
    stray = ox.Quad(ox.BlankNode("b"), link, _SESSION, graph)
    memory.store.settled_engine().add(stray)
    for report in (memory.verify(), memory.verify("plan")) if graph == _SESSION else (memory.verify(),):
        assert not report.ok
    memory.store.settled_engine().remove(stray)
    assert memory.verify().ok
