"""Which format a file is of: told by what stands at the top of its records, never by what they repeat deep within."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.machines import Size
from trails import Repository
from trails.errors import InvalidInput
from trails.exchange import formats
from trails.exchange.file_import import export_session, import_bytes, import_path
from trails.exchange.formats import Format, all_formats
from trails.exchange.source_transcript import Piece, SourceSession, SourceTurn, Transcript

REAL = {
    "claude-code-jsonl": "claude-code",
    "pi-session-jsonl": "pi",
    "codex-rollout": "codex",
    "gemini-cli-json": "gemini-cli",
    "chatgpt-export": "chatgpt",
    "swe-agent-traj": "swe-agent",
}
SIGNS: list[dict[str, Any]] = [
    {"parentUuid": None, "uuid": "u", "type": "user"},
    {"type": "file-history-snapshot"},
    {"type": "session_meta", "payload": {"id": "t"}},
    {"sessionId": "s", "projectHash": "p", "messages": []},
    {"mapping": {"n": {"id": "n", "parent": None, "children": []}}},
    {"history": [{"role": "user", "content": "q"}]},
    {"resourceSpans": [{"scopeSpans": []}]},
    {"trace_id": "t", "span_id": "s", "attributes": {}},
]
"""What tells each other format, where it stands at the top."""


def told(data: bytes) -> list[str]:
    """All formats that take a file's beginning for one of theirs."""
    return [known.name for known in all_formats().values() if known.sniff(data[: 1 << 16])]


def test_every_real_file_is_taken_for_its_own_format_and_for_no_other(shared: Path) -> None:
    files = [(file, name) for folder, name in REAL.items() for file in sorted((shared / "data" / folder).iterdir())]
    assert len([file for file, _ in files if file.is_file()]) >= 20
    for file, name in files:
        if file.is_file():
            assert told(file.read_bytes()) == [name], file.name


@pytest.mark.slow
def test_a_session_of_any_format_is_pis_once_it_is_exported_as_pi(shared: Path, tmp_path: Path, size: Size) -> None:
    exported, largest = 0, 400_000 if size == "quick" else math.inf
    for folder, name in REAL.items():
        for file in sorted((shared / "data" / folder).iterdir()):
            if not file.is_file() or file.stat().st_size > largest:
                continue
            with trails.open(":memory:") as store:
                report = import_path(store, file, format=name)
                for session in [*report.sessions_created, *report.forks_created]:
                    out = io.BytesIO()
                    export_session(store, session, "pi", out)
                    assert told(out.getvalue()) == ["pi"], (file.name, session)
                    copy = tmp_path / f"{exported}.jsonl"
                    copy.write_bytes(out.getvalue())
                    exported += 1
    with trails.open(":memory:") as store:
        again = import_path(store, tmp_path)
        assert again.records["session"] == exported
        assert again.problems == []
    assert exported >= 24


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: next(iter(sign)))
def test_what_tells_another_format_tells_nothing_where_a_pi_session_repeats_it(sign: dict[str, Any]) -> None:
    header = {
        "type": "session",
        "version": 3,
        "id": "S",
        "timestamp": "2025-01-01T00:00:00Z",
        "cwd": "/",
        "pi": sign,
    }
    entry = {
        "type": "message",
        "id": "a",
        "parentId": None,
        "message": {"role": "user", "content": "q"},
        "trails": {"meta": sign},
    }
    said = {"type": "message", "id": "b", "parentId": "a", "message": {"role": "user", "content": json.dumps(sign)}}
    assert told(b"\n".join(json.dumps(each).encode() for each in (header, entry, said))) == ["pi"]


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: next(iter(sign)))
def test_a_file_is_told_though_its_first_record_is_cut_or_laid_out_over_lines(sign: dict[str, Any]) -> None:
    whole = told(json.dumps(sign).encode())
    assert len(whole) == 1
    assert told(json.dumps(sign | {"text": "x" * 70_000}).encode()) == whole
    assert told(b"\xef\xbb\xbf \n" + json.dumps(sign).encode()) == whole


def test_a_text_that_repeats_a_record_with_its_quotes_escaped_or_cut_off_tells_nothing() -> None:
    for said in ('{"parentUuid":null', '\\", "parentUuid": null', 'a\\\\", "uuid'):
        line = json.dumps({"type": "other", "text": said})
        assert told(line.encode()) == []
        assert told(line.encode()[:-6]) == []


GLUED: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("samples").joinpath("glued_lines.json").read_text("utf-8")
)
"""The records of a file of each format that is written line by line, with two messages last."""


@pytest.mark.parametrize("name", GLUED)
def test_records_that_share_a_line_are_all_imported_and_the_report_says_so(name: str, tmp_path: Path) -> None:
    lines = [json.dumps(each) for each in GLUED[name]]
    file = tmp_path / "s.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines[:-2]) + "".join(lines[-2:]) + "\n")
    with trails.open(":memory:") as store:
        report = import_path(store, file)
        assert [turn.content for turn in store.load(f"{name}:S").turns] == ["one", "two"]
    assert report.problems == []
    assert f"line {len(lines) - 1} holds 2 records; each was read" in report.notes


def test_a_file_that_no_importer_knows_is_named_with_what_it_seems_to_be(memory: Repository, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text('{"id": "r", "chat_messages": [], "uuid": "u"}\n')
    with pytest.raises(InvalidInput, match=r"it seems to be the data export of claude\.ai"):
        import_path(memory, tmp_path / "runs.jsonl")
    (tmp_path / "table.eval").write_bytes(b"PAR1 and more")
    (tmp_path / "calls.json").write_text('{"op_name": "f", "inputs": {}}')
    report = import_path(memory, tmp_path)
    reasons = [problem.reason for problem in report.problems]
    assert [reason.partition("; ")[2] for reason in reasons] == [
        "it seems to be the data export of claude.ai",
        "it seems to be a Parquet file: export it as JSON lines",
    ]
    assert report.notes == ["1 file(s) are no transcripts of a known format: calls.json; it seems to be Weave's calls"]


# --- formats of other packages

FOREIGN = Format(
    "shouting",
    sniff=lambda head: head.startswith(b"SHOUTING\n"),
    parse=lambda files: Transcript(
        sessions=tuple(
            SourceSession("shouting", name or "s", ((SourceTurn("user", (Piece("1", data.decode()[9:]),)),),))
            for name, data in files
        )
    ),
)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points of packages that add formats."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(formats, "entry_points", lambda group: found if group == "trails.formats" else [])
    formats.all_formats.cache_clear()
    yield found
    formats.all_formats.cache_clear()


def test_a_package_adds_a_format_as_an_entry_point(memory: Repository, installed: list[EntryPoint]) -> None:
    installed.append(EntryPoint("shouting", f"{__name__}:FOREIGN", "trails.formats"))
    report = import_bytes(memory, b"SHOUTING\nHELLO")
    assert [turn.text for turn in memory.load(report.sessions_created[0]).turns] == ["HELLO"]
    assert report.sessions_created == ["shouting:s"]


@pytest.mark.parametrize("value", ["no.such.module:FORMAT", f"{__name__}:REAL", "trails.exchange.formats:_LAST"])
def test_an_entry_point_that_is_no_new_format_is_refused_and_named(installed: list[EntryPoint], value: str) -> None:
    installed += [EntryPoint("strange", value, "trails.formats")] * 2
    with pytest.raises(InvalidInput, match="'strange'"):
        formats.all_formats()
