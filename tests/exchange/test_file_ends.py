"""Files of which only the end is read when they grow: what comes of them is what the whole file alone would be."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.exchange.test_growing import contents, imported
from tests.support.live_transcripts import claude_records, codex_header, codex_records, pi_records, write_records
from trails import Repository
from trails.exchange import formats
from trails.exchange.recording import file_end, growth
from trails.exchange.recording.watcher import Watcher, WatchEvent

FOR_EVER = 1e9
"""Seconds for which a file's last message is held back: as `import_path(final=False)` does."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agents" / "S.jsonl"


@pytest.fixture
def whole_reads(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The files that were read whole, as they come."""
    read: list[list[str]] = []
    record = growth._record_whole

    def counted(how: Any, form: Any, paths: list[str], known: Any) -> Any:
        read.append(paths)
        return record(how, form, paths, known)

    monkeypatch.setattr(growth, "_record_whole", counted)
    return read


def looked(watcher: Watcher, file: Path) -> list[WatchEvent]:
    os.utime(file, (time.time() - 60,) * 2)
    return list(watcher.look())


def test_of_a_file_that_grew_only_the_end_is_read(
    store: Repository, file: Path, monkeypatch: pytest.MonkeyPatch, whole_reads: list[list[str]]
) -> None:
    write_records(file, claude_records("S", 400))
    watcher = Watcher(store, [file.parent])
    looked(watcher, file)
    lines: list[int] = []
    read = formats.Format.read

    def counted(form: formats.Format, files: list[tuple[str, bytes]]) -> Any:
        lines.append(sum(data.count(b"\n") for _, data in files))
        return read(form, files)

    monkeypatch.setattr(formats.Format, "read", counted)
    for start in range(400, 440, 4):
        write_records(file, claude_records("S", 4, start=start))
        assert [(event.kind, event.turns) for event in looked(watcher, file)] == [("recorded", 4)]
    assert (len(lines), max(lines) <= file_end.OVERLAP + 8, len(whole_reads)) == (10, True, 1)
    turns = store.load("claude-code:S").turns
    assert [each for turn in turns for each in turn.source_ids] == [f"S-{number}" for number in range(440)]
    assert all("cwd" not in turn.meta for turn in turns)  # what the session repeats stands with it alone
    assert store.verify().ok


def test_a_file_that_was_read_in_ends_is_as_if_it_came_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch, whole_reads: list[list[str]]
) -> None:
    monkeypatch.setattr(file_end, "OVERLAP", 8)
    chance, records = random.Random(31), claude_records("S", 200)
    for record in records[61:]:
        record["version"] = "2.1.201"
    file.parent.mkdir()
    with trails.open(":memory:") as store:
        watcher, at = Watcher(store, [file.parent], settle=FOR_EVER), 0
        while at < len(records):
            step = chance.randint(1, 9)
            write_records(file, records[at : at + step])
            at += step
            looked(watcher, file)
        found = contents(store)
        assert store.verify().ok
    assert found == imported(file, file.read_bytes(), final=False)
    assert len(whole_reads) < 10


THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"


@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_a_rollout_of_codex_that_was_read_in_ends_is_as_if_it_came_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_reads: list[list[str]], *, is_rolled_back: bool
) -> None:
    monkeypatch.setattr(file_end, "OVERLAP", 8)
    chance, records = random.Random(31), [codex_header(THREAD), *codex_records(THREAD, 40)]
    if is_rolled_back:
        back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 2}}
        records[201:201] = [{"timestamp": records[200]["timestamp"], **back}]
    file = tmp_path / "agents" / f"rollout-2026-05-01T10-00-00-{THREAD}.jsonl"
    file.parent.mkdir()
    with trails.open(":memory:") as store:
        watcher, at = Watcher(store, [file.parent], settle=FOR_EVER), 0
        while at < len(records):
            step = chance.randint(1, 25)
            write_records(file, records[at : at + step])
            at += step
            looked(watcher, file)
        found = contents(store)
        assert store.verify().ok
    assert found == imported(file, file.read_bytes(), final=False)
    assert len(whole_reads) < 12


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_session_file_of_pi_that_was_read_in_ends_is_as_if_it_came_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch, whole_reads: list[list[str]], *, is_compacted: bool
) -> None:
    monkeypatch.setattr(file_end, "OVERLAP", 8)
    chance, records = random.Random(31), pi_records("01-s", 60)
    if is_compacted:
        told = {"type": "compaction", "summary": "So far.", "firstKeptEntryId": records[40]["id"], "tokensBefore": 9}
        records[61:61] = [{**records[60], **told, "id": "c0", "parentId": records[60]["id"]}]
        records[62]["parentId"] = "c0"
    file.parent.mkdir()
    with trails.open(":memory:") as store:
        watcher, at = Watcher(store, [file.parent], settle=FOR_EVER), 0
        while at < len(records):
            step = chance.randint(1, 9)
            write_records(file, records[at : at + step])
            at += step
            looked(watcher, file)
        found = contents(store)
        assert store.verify().ok
    assert found == imported(file, file.read_bytes(), final=False)
    assert len(whole_reads) < 14


@pytest.mark.slow
def test_a_long_file_comes_in_parts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_end, "PART", 40_000)
    write_records(file, claude_records("S", 1_000))
    with trails.open(":memory:") as store:
        watcher = Watcher(store, [file.parent], settle=FOR_EVER)
        assert sum(event.turns for event in looked(watcher, file) if event.kind == "recorded") == 1_000
        assert len(looked(watcher, file)) == 0
        found = contents(store)
    assert found == imported(file, file.read_bytes(), final=False)


_LATER = "2099-01-01T00:00:00.000Z"
"""What is written in the millisecond of the record before goes on from that."""


def test_a_user_who_goes_back_far_makes_a_fork_as_an_import_does(file: Path, whole_reads: list[list[str]]) -> None:
    records = claude_records("S", 300)
    again = [
        {**record, "uuid": f"again-{n}", "parentUuid": f"again-{n - 1}" if n else "S-39", "timestamp": _LATER}
        for n, record in enumerate(claude_records("S", 4, start=300))
    ]
    write_records(file, records)
    with trails.open(":memory:") as store:
        watcher = Watcher(store, [file.parent], settle=FOR_EVER)
        looked(watcher, file)
        write_records(file, again)
        looked(watcher, file)
        assert {(record.forked_at_index, len(store.load(record.id))) for record in store.list()} == {
            (None, 300),
            (40, 44),
        }
        found = contents(store)
    assert len(whole_reads) == 2
    before = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    assert found == imported(file, before, file.read_bytes(), final=False)


def test_a_line_that_cannot_be_used_is_told_with_its_number_in_the_file(memory: Repository, file: Path) -> None:
    write_records(file, claude_records("S", 200))
    watcher = Watcher(memory, [file.parent])
    looked(watcher, file)
    with file.open("ab") as out:
        out.write(b"no record\n")
    assert [(event.kind, event.line) for event in looked(watcher, file)] == [("problem", 201)]
    write_records(file, claude_records("S", 1, start=200))
    assert [(event.kind, event.turns) for event in looked(watcher, file)] == [("recorded", 1)]


def real_files(shared: Path) -> Iterator[Path]:
    for folder in ("claude-code-jsonl", "codex-rollout", "pi-session-jsonl"):
        for file in sorted((shared / "data" / folder).glob("*.jsonl")):
            if file.stat().st_size < 300_000:
                yield file


@pytest.mark.slow
def test_a_real_file_that_grew_is_as_if_it_came_whole(
    shared: Path, tmp_path: Path, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_end, "OVERLAP", 6)
    chance = random.Random(31)
    for number, real in enumerate(real_files(shared)):
        lines = real.read_bytes().splitlines(keepends=True)
        file = tmp_path / str(number) / real.name
        file.parent.mkdir()
        with trails.open(":memory:") as store:
            watcher, at = Watcher(store, [file.parent], settle=FOR_EVER), 0
            while at < len(lines):
                step = 1 if long else chance.randint(1, max(2, len(lines) // 6))
                with file.open("ab") as out:
                    out.writelines(lines[at : at + step])
                at += step
                looked(watcher, file)
            found = contents(store)
        whole = imported(file, b"".join(lines), final=False)
        assert [row for row in found if row not in whole] == [] or len(found) == len(whole), real.name
        assert sorted(repr(turn[:2]) for row in found for turn in row) == sorted(
            repr(turn[:2]) for row in whole for turn in row
        ), real.name
