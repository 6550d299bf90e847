"""The quick look at a session's graph: it reads what turns are written with, and sees whatever else stands there."""

from __future__ import annotations

import io
import re
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.everything import everything
from trails import Repository
from trails.history.verification import session_checks
from trails.model import iris
from trails.model.values import SessionRecord
from trails.rdf import query_files, session_records, vocab
from trails.store import Solutions, tsv
from trails.store.embedded import EmbeddedStore

_NUMBERED = re.compile(r"\((\S+) (-?\d+)\)")
_TERMS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])).map(ox.Literal),
    st.integers(-(10**17), 10**17).map(vocab.integer),
    st.booleans().map(ox.Literal),
    st.decimals(0, 10**6, places=6).map(lambda n: ox.Literal(f"{n:f}", datatype=vocab.DECIMAL)),
    st.sampled_from(["a", 'b "c"\n', "\x00\x0b\x1b"]).map(lambda text: ox.Literal(text, datatype=vocab.JSON)),
    st.sampled_from(["urn:x", "urn:trails:session:ß"]).map(ox.NamedNode),
    st.just(ox.Literal("hi", language="en")),
)


@given(term=_TERMS)
def test_a_term_is_written_as_the_engine_writes_it_and_read_back(term: ox.Literal | ox.NamedNode) -> None:
    engine = ox.Store()
    engine.add(ox.Quad(vocab.TURN, vocab.VALUE, term, ox.DefaultGraph()))
    (stored,) = engine
    out = io.BytesIO()
    found = engine.query("SELECT ?o { ?s ?p ?o }")
    assert isinstance(found, ox.QuerySolutions)
    found.serialize(out, format=ox.QueryResultsFormat.TSV)
    [[written]] = tsv.table(out.getvalue())
    assert tsv.text(stored.object) == written
    assert tsv.term(written) == stored.object


def test_the_query_counts_properties_and_types_as_they_are_read() -> None:
    text = query_files.find("beyond_turns").text
    prefixes = dict(re.findall(r"PREFIX (\w+:) <(\S+)>", text))
    numbered = {
        int(number): re.sub(r"^\w+:", lambda each: prefixes[each[0]], name) for name, number in _NUMBERED.findall(text)
    }
    wanted = {number: each.value for number, each in enumerate(session_checks.FACT_PROPERTIES, 1)}
    assert numbered == wanted | {-number: each.value for number, each in enumerate(session_checks.FACT_TYPES, 1)}


def engine_of(store: Repository) -> ox.Store:
    assert isinstance(store.store, EmbeddedStore)
    return store.store.settled_engine()


@pytest.mark.slow
def test_of_all_that_is_stored_only_copies_are_walked_quad_by_quad(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything(memory)
    written: dict[str, bool] = {}
    real = session_checks.is_as_written

    def is_as_written(record: SessionRecord, *arguments: Any) -> bool:
        written[record.id] = real(record, *arguments)
        return written[record.id]

    monkeypatch.setattr(session_checks, "is_as_written", is_as_written)
    assert memory.verify().ok
    walked = {session_id for session_id, is_written in written.items() if not is_written}
    rows = memory.query("SELECT ?g { GRAPH ?g { ?s trails:keptWith|prov:wasQuotedFrom|prov:alternateOf ?o } }")
    assert isinstance(rows, Solutions)
    assert walked <= {iris.session_id(row["g"].value) for row in rows}
    assert len(written) > len(walked) + 5


def test_a_quad_that_no_turn_is_written_with_is_seen_whatever_its_property(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("user", "hi")
    session.append("assistant", "yes", model="m", usage={"input_tokens": 1})
    session.persist()
    turn, graph = ox.NamedNode(session.turns[1].iri), ox.NamedNode("urn:trails:session:plan")
    for prop, value in (
        ("urn:other", ox.Literal("x")),
        (vocab.ROLE.value, ox.Literal("user")),
        (vocab.KEPT_WITH.value, turn),
        (vocab.TYPE.value, ox.NamedNode("urn:T")),
        (vocab.MODEL.value, ox.Literal("n")),
    ):
        stray = ox.Quad(turn, ox.NamedNode(prop), value, graph)
        engine = engine_of(memory)
        engine.add(stray)
        assert not memory.verify().ok, prop
        engine.remove(stray)
    assert memory.verify().ok


def test_a_count_of_tokens_that_is_not_that_of_the_usage_is_seen(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("assistant", "yes", model="m", usage={"input_tokens": 1})
    session.persist()
    engine = engine_of(memory)
    (found,) = engine.quads_for_pattern(None, vocab.INPUT_TOKENS, None, None)
    engine.remove(found)
    engine.add(ox.Quad(found.subject, found.predicate, vocab.integer(2), found.graph_name))
    assert {each.code for each in memory.verify().findings} == {"stray", "missing"}


def test_checking_asks_of_a_tool_once(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    session = memory.create(id="plan")
    for number in range(5):
        session.append("assistant", [{"type": "tool_use", "id": f"t{number}", "name": "ls", "input": {}}])
        session.append("tool", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "files"}])
    session.persist()
    asked: list[str] = []

    def noted(iri: str) -> tuple[ox.Quad, ...]:
        asked.append(iri)
        return session_records.tool_quads(iri)

    monkeypatch.setattr(session_checks, "tool_quads", noted)
    assert memory.verify().ok
    assert len(asked) == 1
