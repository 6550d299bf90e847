"""Texts at the limit: what goes in comes back by every way out, and what could not is refused at the door."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from trails import InvalidInput, Repository, Session, ToolCall
from trails.exchange.file_import import export_session, import_path
from trails.exchange.merge import merge
from trails.exchange.source_transcript import Piece, SourceSession, SourceTurn, Transcript
from trails.history import turn_builder
from trails.model.validation import MAX_TEXT, is_nested_too_deep, is_surely_short, written_size
from trails.rdf import vocab
from trails.session import store_restore
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore

_LIMIT = 16_000_000
_ENGINE = 16 * 1024 * 1024
"""Bytes of a line at which the engine's parsers give up."""
_NODE = ox.NamedNode("urn:x")


def _written(text: str) -> int:
    """Return how many bytes the engine itself writes for a text."""
    one, none = (
        len(ox.serialize([ox.Quad(_NODE, _NODE, ox.Literal(each))], format=ox.RdfFormat.N_QUADS) or b"")
        for each in (text, "")
    )
    return one - none


_LARGEST = {
    "letters": "a" * _LIMIT,
    "escapes and letters of several bytes": ('"\n\\é😀\x01\x7f\t' * (_LIMIT // 26 + 1))[: (_LIMIT // 26) * 8]
    + "a" * (_LIMIT % 26),
}


def test_the_limit_is_what_the_documents_say_and_well_under_the_engine_s() -> None:
    assert MAX_TEXT == _LIMIT < _ENGINE - 700_000
    assert [_written(text) for text in _LARGEST.values()] == [_LIMIT, _LIMIT]


def test_the_size_of_every_character_is_what_the_engine_writes() -> None:
    for start in (0x00, 0x2000, 0xD700, 0xE000, 0xFE00, 0xFFF0, 0x10FFF0):
        for code in range(start, min(start + 0x200, 0x110000)):
            if not 0xD800 <= code < 0xE000:
                assert written_size(chr(code)) == _written(chr(code)), hex(code)


@given(st.text(max_size=200))
def test_the_size_of_a_text_is_what_the_engine_writes(text: str) -> None:
    assert written_size(text) == _written(text)


@pytest.fixture(params=["letters", "escapes and letters of several bytes"])
def largest(request: pytest.FixtureRequest, *, long: bool) -> str:
    if request.param != "letters" and not long:
        pytest.skip("one largest text is enough; --long tries the other too")
    return _LARGEST[request.param]


@pytest.mark.slow
def test_the_largest_text_comes_back_from_a_dump(tmp_path: Path, largest: str) -> None:
    with trails.open(tmp_path / "a", create=True, durability="process") as store:
        session = store.create(id="s")
        session.append("user", largest)
        session.persist()
        store.maintenance.dump(tmp_path / "dump.nq")
    store_restore.load_dump(tmp_path / "dump.nq", tmp_path / "b")
    with trails.open(tmp_path / "b") as store:
        assert store.load("s").turns[0].content == largest


@pytest.mark.slow
@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_the_largest_text_comes_back_from_an_export(tmp_path: Path, form: str, largest: str) -> None:
    file = tmp_path / f"s.{'nq' if form == 'nquads' else 'trig'}"
    with trails.open(":memory:") as store:
        session = store.create(id="s")
        session.append("user", largest)
        session.persist()
        with file.open("wb") as out:
            export_session(store, "s", form, out)
    with trails.open(":memory:") as store:
        report = import_path(store, file)
        assert (report.sessions_created, report.problems) == (["s"], [])
        assert store.load("s").turns[0].content == largest


def test_the_largest_text_goes_through_an_update_and_a_query(largest: str) -> None:
    store = EmbeddedStore(None)
    quad = ox.Quad(_NODE, _NODE, ox.Literal(largest), _NODE)
    store.commit(Change(add=[quad]))
    short = ox.Quad(_NODE, _NODE, ox.Literal("short"), _NODE)
    store.commit(Change(add=[short], remove=[quad]))
    store.commit(Change(add=[quad], remove=[short]))
    assert store.quads((_NODE, None, None, None)) == [quad]
    (row,) = store.table("SELECT ?o { GRAPH <urn:x> { ?s ?p ?o } }")
    assert row == [str(quad.object)] or largest[:1000] in row[0]


# --- one byte more


def _parts(size: int) -> list[Any]:
    """Return one part whose JSON text takes so many bytes: its frame is what is left without the text."""
    frame = _written(json.dumps([{"type": "text", "text": ""}], separators=(",", ":")))
    return [{"type": "text", "text": "a" * (size - frame)}]


_DOORS: dict[str, Callable[[Session, int], object]] = {
    "content": lambda s, size: s.append("user", "a" * size),
    "content with escapes": lambda s, size: s.append("user", "\n" * (size // 2) + "a" * (size % 2)),
    "parts": lambda s, size: s.append("user", _parts(size)),
    "arguments that are text": lambda s, size: s.append(
        "assistant", "x", tool_calls=[ToolCall(id="c", name="n", arguments='"' + "a" * (size - 4) + '"')]
    ),
    "arguments that are values": lambda s, size: s.append(
        "assistant", "x", tool_calls=[{"id": "c", "name": "n", "arguments": ["a" * (size - 6)]}]
    ),
    "arguments that are no JSON": lambda s, size: s.append(
        "assistant", "x", tool_calls=[{"id": "c", "name": "n", "arguments": "a" * (size - 4)}]
    ),
    "metadata": lambda s, size: s.append("user", "x", meta={"k": "a" * (size - _written('{"k":""}'))}),
    "a system prompt": lambda s, size: s.set_system("a" * size),
}


@pytest.mark.parametrize("door", _DOORS)
@pytest.mark.sample(2)
def test_one_byte_more_than_the_limit_is_refused_and_nothing_is_written(memory: Repository, door: str) -> None:
    session = memory.create(id="s")
    session.persist()
    before = len(memory.store)
    with pytest.raises(InvalidInput, match="at most 16,000,000"):
        _DOORS[door](session, _LIMIT + 1)
    session.persist()
    assert len(memory.store) == before
    _DOORS[door](session, _LIMIT)
    session.persist()
    longest = max(
        _written(str(getattr(quad.object, "value", ""))) for quad in memory.store.quads((None, None, None, None))
    )
    assert longest == _LIMIT


def test_notes_messages_and_the_ids_of_records_have_the_limit_too(memory: Repository) -> None:
    session = memory.create(id="s", system=None)
    session.append("user", "x")
    session.persist()
    too_long = "a" * (_LIMIT + 1)
    for refused in (
        lambda: memory.notes.add("s", 0, too_long),
        lambda: trails.Ledger(memory).receive("s", too_long, source="mail"),
        lambda: memory.create(id="t", meta={"k": too_long}),
        lambda: memory.create(id="t", system=too_long),
        lambda: turn_builder.make_draft("user", "x", source_ids=["a" * 9_000_000, "b" * 9_000_000]),
    ):
        with pytest.raises(InvalidInput, match="16,000,000"):
            refused()
    assert "t" not in memory


def test_a_store_refuses_what_it_could_not_read_again_whoever_writes_it(memory: Repository) -> None:
    quad = ox.Quad(_NODE, _NODE, ox.Literal("a" * (_LIMIT + 1)))
    with pytest.raises(InvalidInput, match="too long to be read again"):
        memory.store.commit(Change(add=[quad]))
    assert len(memory.store) == 0
    memory.create(id="s")  # the store goes on


# --- imports


def _line(uuid: str, parent: str | None, role: str, message: dict[str, Any]) -> bytes:
    record = {"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "S", "timestamp": "2026-01-01T00:00:00Z"}
    return json.dumps({**record, "message": {"role": role, **message}}).encode() + b"\n"


def test_a_record_that_is_too_long_is_a_problem_and_the_others_are_imported(memory: Repository, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(
        _line("a", None, "user", {"content": "before"})
        + _line("b", "a", "user", {"content": "x" * (_LIMIT + 1)})
        + _line("c", "b", "user", {"content": "after"})
    )
    report = import_path(memory, file)
    assert [turn.content for turn in memory.load("claude-code:S").turns] == ["before", "after"]
    assert len(report.problems) == 1
    assert "16,000,000" in report.problems[0].reason
    again = import_path(memory, file)
    assert (again.turns_added, again.forks_created, again.changed, len(again.problems)) == (0, [], [], 1)


def test_a_message_that_is_too_long_only_as_a_whole_is_a_problem(memory: Repository) -> None:
    half = ({"type": "text", "text": "x" * 9_000_000},)
    path = (
        SourceTurn("user", (Piece("a", "before"),)),
        SourceTurn("assistant", (Piece("b", half), Piece("c", half))),
        SourceTurn("user", (Piece("d", "after"),)),
    )
    source = Transcript(sessions=(SourceSession("t", "S", (path,), title="y" * (_LIMIT + 1), meta={"k": 1}),))
    for added in (2, 0):
        report = merge(memory, source)
        assert (report.turns_added, report.forks_created, report.changed) == (added, [], [])
        reasons = [problem.reason for problem in report.problems]
        assert len(reasons) == 2
        assert "the turn of the record 'b' and 1 more cannot be kept" in reasons[0]
        assert "its title is too long" in reasons[1]
    assert [turn.content for turn in memory.load("t:S").turns] == ["before", "after"]
    assert memory.record("t:S").meta == {"k": 1}


@pytest.mark.parametrize(
    "value",
    [
        "\x01" * 2_400_000,
        ["\uffff" * 2_700_000],
        {"\x7f" * 2_700_000: 1},
        [[]] * 5_500_000,
        '"' * 4_200_000,
    ],
    ids=["control characters", "noncharacters", "a key", "empty lists", "quotes"],
)
def test_nothing_that_is_too_long_is_taken_for_short(value: Any) -> None:
    assert _written(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) > _LIMIT
    assert not is_surely_short(value)


def test_what_is_of_a_usual_length_is_told_to_be_short_without_being_written() -> None:
    assert is_surely_short([{"type": "text", "text": "x" * 1_000_000, "n": [1, 2.5, None, True]}] * 2)


# --- files that hold what cannot be read


def test_a_line_that_the_engine_cannot_read_is_an_error_and_no_traceback(tmp_path: Path, memory: Repository) -> None:
    line = f'<urn:a> <urn:b> "{"a" * _ENGINE}" .\n'.encode()
    for name in ("s.nq", "s.trig"):
        (tmp_path / name).write_bytes(line)
        with pytest.raises(InvalidInput, match="16777216; nothing was imported"):
            import_path(memory, tmp_path / name)
    (tmp_path / "dump.nq.gz").write_bytes(gzip.compress(line, 1))
    with pytest.raises(InvalidInput, match="16777216; nothing was loaded"):
        store_restore.load_dump(tmp_path / "dump.nq.gz", tmp_path / "store")
    assert not (tmp_path / "store").exists()
    assert len(memory.store) == 0


def test_a_text_over_the_limit_that_the_engine_reads_is_refused_with_its_file(
    tmp_path: Path, memory: Repository
) -> None:
    (tmp_path / "s.nq").write_text(f'<urn:a> <urn:b> "{"a" * (_LIMIT + 1)}" .\n')
    with pytest.raises(InvalidInput, match="16,000,000 bytes"):
        import_path(memory, tmp_path / "s.nq")


@pytest.mark.parametrize("depth", [101, 100_000])
def test_json_that_is_nested_too_deep_is_refused_and_a_models_text_of_it_is_kept_as_text(
    tmp_path: Path, memory: Repository, depth: int
) -> None:
    deep = "[" * depth + "]" * depth
    session = memory.create(id="s")
    for arguments in (deep, {"a": deep}):  # as text it is kept as it is
        turn = session.append("assistant", "x", tool_calls=[{"id": "c", "name": "n", "arguments": arguments}])
        assert turn.tool_calls[0].input == arguments
    part = {"type": "function_call", "call_id": "d", "name": "n", "arguments": deep}
    assert session.append("assistant", [part]).tool_calls[0].input == deep
    with pytest.raises(InvalidInput, match="nested deeper than 100"):
        session.append("assistant", "x", tool_calls=[ToolCall(id="c", name="n", arguments=deep)])
    session.discard_pending()
    (tmp_path / "s.nq").write_text(f'<urn:a> <urn:b> "{deep}"^^<{vocab.JSON.value}> <urn:g> .\n')
    with pytest.raises(InvalidInput, match="nested deeper than 100"):
        import_path(memory, tmp_path / "s.nq")


def test_a_hundred_levels_are_kept_and_brackets_in_texts_are_no_levels() -> None:
    assert not is_nested_too_deep("[" * 100 + "]" * 100)
    assert is_nested_too_deep('{"a":' * 101 + "1" + "}" * 101)
    assert not is_nested_too_deep(json.dumps({"a": "[{" * 500, 'b"\\': ["]"] * 300}))
    assert not is_nested_too_deep("[" + "[],{}," * 1000 + "[]]")
