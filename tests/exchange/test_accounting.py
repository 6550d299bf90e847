"""No silent loss: each text of a file is in the store, or the import report counts it with its place and a reason."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.commands import Run
from tests.support.machines import Size, examples
from trails import Repository
from trails.exchange.file_import import import_bytes, import_path
from trails.exchange.source_transcript import ImportReport
from trails.exchange.text_coverage import REFUSED_REASON

LONG = 20
CLAUDE = {
    "type": "user",
    "uuid": "u1",
    "parentUuid": None,
    "sessionId": "s1",
    "timestamp": "2026-01-02T03:04:05.000Z",
    "message": {"role": "user", "content": "Plan a trip to the mountains"},
}


def texts_in(value: Any) -> Iterator[str]:
    """All texts of 20 characters and more with a space, wherever they stand; JSON in texts is read as well."""
    if isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, str) and len(value) >= LONG and " " in value.strip():
        try:
            inner = json.loads(value)
        except ValueError:
            inner = None
        if isinstance(inner, dict | list | str):
            yield from texts_in(inner)
        else:
            yield value


def values_of(file: Path) -> Iterator[Any]:
    """What a JSON file or the lines of one hold; nothing for other files."""
    data = file.read_bytes()
    try:
        yield json.loads(data)
        return
    except ValueError:
        pass
    for line in data.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def stored_texts(store: Repository) -> str:
    """All literals of a store, those of JSON unescaped."""
    literals = [str(row[0].value) for row in store.select("SELECT ?o { ?s ?p ?o FILTER isLiteral(?o) }")]
    literals += [str(row[0].value) for row in store.select("SELECT ?o { GRAPH ?g { ?s ?p ?o FILTER isLiteral(?o) } }")]
    plain: list[str] = []
    for literal in literals:
        plain += _strings(literal)
    return "\0".join(plain)


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for each in value.values() for text in _strings(each))]
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    if not isinstance(value, str):
        return []
    try:
        inner = json.loads(value)
    except ValueError:
        inner = None
    return [value, *(_strings(inner) if isinstance(inner, dict | list | str) else [])]


def lost(store: Repository, report: ImportReport, values: list[Any]) -> list[str]:
    """The texts of a file that are neither in the store nor among those that the report counts."""
    stored = stored_texts(store)
    absent = [text for value in values for text in texts_in(value) if text.strip() not in stored]
    counted = sum(row.count for row in report.left_out)
    named = "\0".join(problem.text for problem in report.problems)
    return [text for text in absent if text not in named][counted:]


def test_each_text_of_the_real_files_is_stored_or_counted(shared: Path, size: Size) -> None:
    largest = 120_000 if size == "quick" else 10_000_000
    files = [
        file
        for folder in (shared / "data", shared / "cases" / "field")
        for file in sorted(folder.rglob("*.json*"))
        if file.stat().st_size <= largest and "expect" not in file.name
    ]
    imported = 0
    for file in files:
        with trails.open(":memory:") as store:
            try:
                report = import_path(store, file, final=True)
            except trails.InvalidInput:
                continue
            assert lost(store, report, list(values_of(file))) == [], file.name
            imported += 1
    assert imported >= 40


@given(data=st.data())
@examples(60)
def test_a_text_in_a_field_that_no_parser_knows_is_stored_or_counted(shared: Path, data: st.DataObject) -> None:
    names = [
        "claude-code-jsonl/entire-tiny-summary.jsonl",
        "codex-rollout/ccl-canonical.jsonl",
        "gemini-cli-json/entire-12-cbfeaa512b-0.json",
        "pi-session-jsonl/specstory-sample.jsonl",
        "swe-agent-traj/function_calling_simple.traj",
        "research/messages/openai_tools.jsonl",
    ]
    name = data.draw(st.sampled_from(names))
    values = list(values_of(shared / "data" / name))
    objects = [each for value in values for each in _objects(value)]
    chosen = data.draw(st.lists(st.sampled_from(range(len(objects))), min_size=1, max_size=4, unique=True))
    for number in chosen:
        objects[number]["unheard_of"] = f"a text number {number} that nobody knows"
    content = "\n".join(json.dumps(value) for value in values).encode()
    with trails.open(":memory:") as store:
        report = import_bytes(store, content, format=_format(name), final=True)
        assert lost(store, report, values) == []


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _objects(each)
    elif isinstance(value, list):
        for each in value:
            yield from _objects(each)


def _format(name: str) -> str:
    folder = name.split("/")[-2]
    return next(
        known for known in ("claude-code", "codex", "gemini-cli", "pi", "swe-agent", "messages") if known in folder
    )


def test_the_report_names_place_line_and_number_of_what_is_left_out(memory: Repository) -> None:
    second = {"type": "unheard-of", "strange": [{"deep": "what no parser reads, one"}] * 2}
    data = b"\n".join(json.dumps(line).encode() for line in (CLAUDE, second))
    report = import_bytes(memory, data, format="claude-code", final=True)
    rows = [(row.place, row.line, row.count, row.characters, row.is_prose) for row in report.left_out]
    assert rows == [("strange[].deep", 2, 2, 50, True)]


def test_a_text_inside_of_a_longer_one_and_json_in_a_text_are_kept(memory: Repository) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q": "where do the trains go?"}'}}
    record = {
        "messages": [
            {"role": "user", "content": "Where do the trains go, please?"},
            {"role": "assistant", "tool_calls": [call]},
        ]
    }
    report = import_bytes(memory, json.dumps(record).encode(), format="messages", final=True)
    assert report.left_out == []


def test_what_stands_on_a_refused_line_is_counted_as_refused(memory: Repository) -> None:
    broken = {**CLAUDE, "uuid": "u2", "message": {"role": "user", "content": 7, "note": "left on a refused line"}}
    data = b"\n".join(json.dumps(line).encode() for line in (CLAUDE, broken))
    report = import_bytes(memory, data, format="claude-code", final=True)
    assert [problem.line for problem in report.problems] == [2]
    assert {row.reason for row in report.left_out} <= {REFUSED_REASON}


def test_each_member_of_a_zip_is_accounted_for(memory: Repository, shared: Path) -> None:
    source = next((shared / "data" / "chatgpt-export").glob("mitkury*.json"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("conversations.json", source.read_bytes())
        archive.writestr("more.json", json.dumps({"unheard_of": "a text that nobody knows of"}))
    report = import_bytes(memory, packed.getvalue(), format="chatgpt", final=True)
    assert [(row.place, row.count) for row in report.left_out if row.is_prose] == [("more.json.unheard_of", 1)]


def test_the_command_says_where_texts_are_kept_nowhere(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    strange = {"type": "unheard-of", "strange": "what no parser reads, one"}
    file.write_text("\n".join(map(json.dumps, (CLAUDE, strange))))
    plain = run("import", "--create", str(file))
    assert plain.stdout.endswith("1 text kept nowhere (-v lists all)\n")
    assert plain.stderr == ""
    result = run("import", "-v", str(file))
    assert result.exit_code == 0, result.stderr
    assert f"not kept: 1 text at strange ({file}, line 2): no turn and no metadata has this field" in result.stderr
    assert "1 text kept nowhere" in result.stdout
