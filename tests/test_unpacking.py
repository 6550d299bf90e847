"""Files that unpack to far more than they are, and values nested without end: refused before they take the memory."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import struct
import tracemalloc
import zipfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import trails
from trails import InvalidInput, Repository, files
from trails.exchange.chats import chatgpt
from trails.exchange.file_import import import_path
from trails.session import store_restore
from trails.store import dumping
from trails.store.embedded import EmbeddedStore

MESSAGE = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["hi"]}}
NODE: dict[str, Any] = {"id": "n", "parent": None, "children": [], "message": MESSAGE}
CONVERSATION: dict[str, Any] = {"id": "c1", "title": "Plan", "mapping": {"n": NODE}}


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members.items():
            packed.writestr(f"{name.replace('_', '-')}.json", data)
    return out.getvalue()


@cache
def zipped_blanks() -> bytes:
    """An archive that unpacks to 200 MB."""
    return zipped(conversations=b"[" + b" " * (200 << 20) + b"]")


def blanks(megabytes: int) -> bytes:
    return b"[" + b" " * (megabytes << 20) + b"]"


@pytest.mark.slow
def test_an_archive_that_unpacks_to_a_thousand_times_its_size_is_refused_and_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "export.zip"
    file.write_bytes(zipped_blanks())
    assert file.stat().st_size < 1 << 20
    with trails.open(":memory:") as store:
        tracemalloc.start()
        try:
            with pytest.raises(InvalidInput, match=r"export\.zip is not read: it unpacks to more than [\d,]+ bytes"):
                import_path(store, file)
            assert tracemalloc.get_traced_memory()[1] < 100 << 20
        finally:
            tracemalloc.stop()
        assert store.list() == []


def test_files_of_an_archive_count_together() -> None:
    members = {f"conversations_{n}": blanks(6) for n in range(4)}
    chatgpt.parse([("two.zip", zipped(conversations_0=blanks(6), conversations_1=blanks(6)))])
    with pytest.raises(InvalidInput, match="unpacks to more than"):
        chatgpt.parse([("four.zip", zipped(**members))])


def test_an_archive_that_lies_about_its_sizes_is_refused_too() -> None:
    data = bytearray(zipped_blanks())
    for signature, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.find(signature) + place
        data[at : at + 4] = struct.pack("<I", 10)
    transcript = chatgpt.parse([("lies.zip", bytes(data))])
    assert transcript.sessions == ()
    assert "zip that cannot be read" in transcript.problems[0].reason


def test_an_archive_of_an_ordinary_size_is_read_and_one_in_a_folder_costs_the_others_nothing(tmp_path: Path) -> None:
    many = json.dumps([CONVERSATION | {"id": f"c{n}"} for n in range(200)]).encode()
    assert len(many) > 10 * len(zipped(conversations=many))  # text that repeats itself, as exports do
    assert len(chatgpt.parse([("export.zip", zipped(conversations=many))]).sessions) == 200
    (tmp_path / "a.json").write_bytes(zipped_blanks())
    (tmp_path / "b.json").write_bytes(zipped(conversations=json.dumps([CONVERSATION]).encode()))
    with trails.open(":memory:") as store:
        report = import_path(store, tmp_path)
        assert report.sessions_created == ["chatgpt:c1"]
        assert ["unpacks to more than" in problem.reason for problem in report.problems] == [True]


@pytest.mark.parametrize(
    ("packed", "allowed"),
    [
        (0, 16 << 20),
        (1000, 16 << 20),
        (1 << 20, 40 << 20),
        (12 << 20, 480 << 20),
        (13 << 20, 512 << 20),
        (1 << 40, 512 << 20),
    ],
)
def test_the_bound_grows_with_the_file_and_ends(packed: int, allowed: int) -> None:
    assert files.unpack_limit(packed) == allowed


@pytest.mark.parametrize("size", [-1, 1, 7, 4096])
def test_a_bounded_stream_gives_all_up_to_its_bound_and_nothing_beyond(size: int) -> None:
    whole = files.BoundedReader(io.BytesIO(b"x" * 100), 100)
    assert b"".join(iter(lambda: whole.read(size), b"")) == b"x" * 100
    cut = files.BoundedReader(io.BytesIO(b"x" * 101), 100)
    with pytest.raises(InvalidInput, match="more than 100 bytes"):
        b"".join(iter(lambda: cut.read(size), b""))


@pytest.mark.slow
def test_a_dump_of_texts_that_compress_well_comes_back(tmp_path: Path) -> None:
    with trails.open(tmp_path / "a", create=True) as store:
        session = store.create(id="s")
        session.append("user", "0" * 12_000_000)
        session.append("assistant", "0" * 12_000_000)
        session.persist()
        store.maintenance.dump(tmp_path / "dump.nq.gz")
    assert (tmp_path / "dump.nq.gz").stat().st_size * 200 < 24_000_000
    store_restore.load_dump(tmp_path / "dump.nq.gz", tmp_path / "b")
    with trails.open(tmp_path / "b") as store:
        assert [turn.content == "0" * 12_000_000 for turn in store.load("s").turns] == [True, True]
        assert store.verify().ok


@pytest.mark.parametrize("piece", [1, 31, 100])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_dump_that_is_loaded_in_pieces_is_loaded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, end: str
) -> None:
    monkeypatch.setattr(dumping, "_BATCH", piece)
    lines = sorted(f'<urn:a> <urn:b> "{n:>5}" <urn:d> .' for n in range(8))
    (tmp_path / "dump.nq.gz").write_bytes(gzip.compress(("\n".join(lines) + end).encode()))
    dumping.load(tmp_path / "dump.nq.gz", tmp_path / "store")
    with contextlib.closing(EmbeddedStore(tmp_path / "store")) as made:
        assert sorted(f"{quad} ." for quad in made.quads((None, None, None, None))) == lines


def test_a_dump_that_unpacks_to_more_than_the_disk_holds_is_stopped_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dumping, "_BATCH", 1 << 20)
    left = iter([700_000_000, 500_000_000, 499_999_999])
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=next(left)))
    dump = tmp_path / "dump.nq.gz"
    dump.write_bytes(gzip.compress(b"<urn:a> <urn:b> <urn:c> <urn:d> .\n" * 400_000))
    with pytest.raises(InvalidInput, match=r"dump\.nq\.gz: .*499,999,999 bytes are left.*; nothing was loaded"):
        store_restore.load_dump(dump, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_bad_line_after_a_batch_that_was_loaded_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dumping, "_BATCH", 100)
    dump = tmp_path / "dump.nq"
    dump.write_bytes(b"<urn:a> <urn:b> <urn:c> <urn:d> .\n" * 3 + b"nonsense\n")
    with pytest.raises(InvalidInput, match=r"no whole dump: .*; nothing was loaded"):
        store_restore.load_dump(dump, tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("depth", [102, 2_000, 100_000])
def test_arguments_nested_without_end_are_kept_as_the_text_they_are(store: Repository, depth: int) -> None:
    text = "[" * depth + "]" * depth
    session = store.create(id="s")
    session.append("assistant", "x", tool_calls=[{"id": "c", "name": "f", "arguments": text}])
    part: dict[str, Any] = {"type": "function_call", "call_id": "c", "name": "f", "arguments": text}
    session.append("assistant", [part])
    session.persist()
    assert [call.input for turn in store.load("s").turns for call in turn.tool_calls] == [text, text]


def test_arguments_of_a_depth_that_can_be_kept_are_kept_as_they_stand(store: Repository) -> None:
    text = "[" * 100 + " 1.50" + "]" * 100
    session = store.create(id="s")
    session.append("assistant", "x", tool_calls=[{"id": "c", "name": "f", "arguments": text}])
    session.persist()
    assert store.load("s").turns[0].tool_calls[0].arguments == text
