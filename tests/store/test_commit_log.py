"""The commit log and the log of leaves, byte by byte: what is believed after an end without a close, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest

import trails
from trails import InvalidInput, Repository, StoreFailed
from trails.integrity import leaves
from trails.integrity.leaves import Leaf
from trails.model import validation
from trails.store import frames, manifest
from trails.store.commitlog import Leaves, RecordFiles
from trails.store.frames import CommitRecord
from trails.store.leaflog import NOTHING, LeafLog
from trails.store.replay import replay

ID = b"one store's id.."
OTHER = b"another store's."
SEGMENT = 256 * 1024
HEADER = 88
"""Bytes of a segment's header: 8 + 16 + 8 + 8 + 8 + 8 + 16 + 16."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new, empty commit log."""
    RecordFiles.make(tmp_path / "commits", ID, NOTHING)
    return tmp_path / "commits"


def written(folder: Path, *texts: str) -> None:
    """Append records with a leaf each, every one synced before the next."""
    log = RecordFiles(folder, ID)
    for text in texts:
        log.append([CommitRecord(leaves=(text,))], sync=True)
    log.close()


def found(folder: Path) -> list[str]:
    """Return the leaves of the records that a log holds, and see that opening it for writing changes none."""
    log = RecordFiles(folder, ID)
    texts = [leaf for each in log.records for leaf in each.record.leaves]
    log.secure()
    log.close()
    again = RecordFiles(folder, ID, read_only=True)
    assert [leaf for each in again.records for leaf in each.record.leaves] == texts
    again.close()
    return texts


def place_of(folder: Path, text: str, name: str = "0") -> int:
    """Return where the frame with a text begins: at the last frame's magic before it."""
    data = (folder / name).read_bytes()
    return data.rindex(b"TRr\n", 0, data.index(text.encode()))


def put(file: Path, position: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(data)


# --- which frames are believed


def test_a_torn_frame_at_the_end_is_dropped_and_the_next_record_takes_its_place(folder: Path) -> None:
    written(folder, "first", "second", "third")
    third = place_of(folder, "third")
    put(folder / "0", third + 40, b"torn")
    assert found(folder) == ["first", "second"]
    assert (folder / "0").read_bytes()[third:] == bytes(SEGMENT - third)
    written(folder, "another third")
    assert found(folder) == ["first", "second", "another third"]


def test_a_damaged_frame_before_synced_ones_is_refused_and_named(folder: Path) -> None:
    written(folder, "first", "second", "third")
    put(folder / "0", place_of(folder, "first") + 60, b"!")
    before = (folder / "0").read_bytes()
    with pytest.raises(StoreFailed, match=r"record 1 was altered or torn out after it was synced.*restore a backup"):
        RecordFiles(folder, ID)
    assert (folder / "0").read_bytes() == before


def test_frames_that_an_earlier_use_of_the_segment_left_never_follow(folder: Path) -> None:
    written(folder, "old first", "old second", "old third")
    old = (folder / "0").read_bytes()
    shutil.rmtree(folder)
    RecordFiles.make(folder, ID, NOTHING, first=4)
    written(folder, "new first")
    second = place_of(folder, "new first") + length_of("new first")
    assert second == HEADER + length_of("old first")  # the frames of both uses have the same lengths
    put(folder / "0", second, old[second:])
    assert b"old second" in (folder / "0").read_bytes()
    assert found(folder) == ["new first"]


def length_of(text: str) -> int:
    """Return the bytes of a frame: 48 for its head, the payload with two lengths, up to the next multiple of 8."""
    payload = 4 + len(json.dumps({"leaves": [text], "drop": []})) + 8
    return 48 + payload + -payload % 8


def test_the_log_of_another_store_is_refused(folder: Path) -> None:
    with pytest.raises(StoreFailed, match="it is another store's"):
        RecordFiles(folder, OTHER)


@pytest.mark.parametrize("name", ["0", "1"])
def test_a_log_that_lacks_a_file_is_refused_and_the_file_is_not_made(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(StoreFailed, match=f"commits/{name} is missing; restore a backup"):
        RecordFiles(folder, ID)
    assert not (folder / name).exists()


def test_a_log_without_a_header_is_refused(folder: Path) -> None:
    put(folder / "0", 0, bytes(HEADER))
    with pytest.raises(StoreFailed, match="it has no header"):
        RecordFiles(folder, ID)


# --- two segments


def switched(folder: Path) -> RecordFiles:
    """A log with two records in one segment and one in the other, not wiped yet."""
    log = RecordFiles(folder, ID)
    log.append([CommitRecord(leaves=("first",)), CommitRecord(leaves=("second",))], sync=True)
    log.switch(Leaves(2, 20, "0" * 16))
    log.append([CommitRecord(leaves=("third",))], sync=True)
    return log


def test_before_the_wipe_both_segments_count_in_their_order(folder: Path) -> None:
    switched(folder).close()
    assert found(folder) == ["first", "second", "third"]


def test_after_the_wipe_nothing_of_the_old_segment_is_left_and_the_rest_begins_where_the_leaves_had_come(
    folder: Path,
) -> None:
    log = switched(folder)
    log.wipe()
    log.close()
    assert (folder / "0").read_bytes() == bytes(SEGMENT)
    log = RecordFiles(folder, ID)
    assert ([each.number for each in log.records], log.base) == ([3], Leaves(2, 20, "0" * 16))
    log.close()


def test_the_header_is_wiped_and_synced_before_anything_behind_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = switched(folder)
    done: list[tuple[str, int, int]] = []
    write, sync = os.pwrite, os.fdatasync

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        done.append(("write", position, len(data)))
        return write(descriptor, data, position)

    def fdatasync(descriptor: int) -> None:
        done.append(("sync", 0, 0))
        sync(descriptor)

    monkeypatch.setattr("os.pwrite", pwrite)
    monkeypatch.setattr("os.fdatasync", fdatasync)
    log.wipe()
    monkeypatch.undo()
    log.close()
    assert done[:2] == [("write", 0, HEADER), ("sync", 0, 0)]
    assert [each[0] for each in done[2:]] == ["write", "sync"]
    assert done[2][2] > HEADER


def test_a_wipe_that_was_cut_short_after_the_header_is_finished_at_the_next_opening(folder: Path) -> None:
    switched(folder).close()
    put(folder / "0", 0, bytes(HEADER))
    assert found(folder) == ["third"]
    assert (folder / "0").read_bytes() == bytes(SEGMENT)


@pytest.mark.parametrize("before", [0, 2], ids=["first records", "later ones"])
def test_a_switch_that_was_interrupted_once_its_header_was_written_counts_for_nothing(
    folder: Path, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RecordFiles(folder, ID)
    log.append([CommitRecord(leaves=(f"early {number}",)) for number in range(before)], sync=True)

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RecordFiles, "sync", lambda _: None)
        patch.setattr("trails.store.commitlog.sync_data", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.switch(Leaves(2, 20, "0" * 16))
    assert (folder / "1").read_bytes().startswith(b"TRAILS")
    log.append([CommitRecord(leaves=("after",))], sync=True)
    log.close()
    assert found(folder) == [*(f"early {number}" for number in range(before)), "after"]
    assert (folder / "1").read_bytes() == bytes(SEGMENT)
    written(folder, "on")
    log = RecordFiles(folder, ID)
    log.switch(Leaves(3, 30, "0" * 16))
    log.close()
    assert found(folder)[-2:] == ["after", "on"]


def test_records_missing_between_the_segments_are_refused(folder: Path) -> None:
    switched(folder).close()
    put(folder / "0", place_of(folder, "second") + 60, b"!")
    with pytest.raises(StoreFailed, match="record"):
        RecordFiles(folder, ID)


def test_a_flush_that_takes_up_one_cut_short_syncs_the_newer_records_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched(folder).close()
    log = RecordFiles(folder, ID)
    log.append([CommitRecord(leaves=("fourth",))], sync=False)
    synced: list[int] = []
    monkeypatch.setattr("trails.store.commitlog.sync_data", synced.append)
    log.switch(Leaves(4, 40, "0" * 16))
    log.close()
    assert len(synced) == 1


def test_the_first_record_of_a_segment_is_synced_also_where_records_are_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RecordFiles(folder, ID)
    synced: list[int] = []
    monkeypatch.setattr("trails.store.commitlog.sync_data", synced.append)
    log.append([CommitRecord(leaves=("first",))], sync=False)
    assert len(synced) == 1
    log.append([CommitRecord(leaves=("second",))], sync=False)
    assert len(synced) == 1
    log.append([CommitRecord(leaves=("x" * SEGMENT,))], sync=False)  # the engine may bring so much to disk by itself
    assert len(synced) == 2
    log.close()


def test_a_huge_record_makes_its_segment_grow_and_the_wipe_shrinks_it_to_4_mib(folder: Path) -> None:
    log = RecordFiles(folder, ID)
    huge = "x" * (5 * 1024 * 1024)
    log.append([CommitRecord(leaves=(huge,))], sync=True)
    assert (folder / "0").stat().st_size > 5 * 1024 * 1024
    log.close()
    assert found(folder) == [huge]
    log = RecordFiles(folder, ID)
    log.switch(Leaves(1, 9, "0" * 16))
    assert (folder / "1").stat().st_size == 4 * 1024 * 1024  # as large as may be, since much was written
    log.wipe()
    assert (folder / "0").read_bytes() == bytes(4 * 1024 * 1024)
    log.append([CommitRecord(leaves=("small",))], sync=True)
    log.switch(Leaves(2, 15, "0" * 16))
    assert (folder / "0").stat().st_size == SEGMENT
    log.close()


def test_segments_that_grew_shrink_where_nothing_waits_in_them(folder: Path) -> None:
    log = RecordFiles(folder, ID)
    log.append([CommitRecord(leaves=("x" * SEGMENT,))], sync=True)
    log.switch(Leaves(1, 9, "0" * 16))
    grown = [(folder / name).stat().st_size for name in "01"]
    log.shrink()
    assert [(folder / name).stat().st_size for name in "01"] == grown, "a record waits"
    log.wipe()
    log.shrink()
    assert [(folder / name).stat().st_size for name in "01"] == [SEGMENT, SEGMENT]
    log.append([CommitRecord(leaves=("next",))], sync=True)
    log.close()
    assert found(folder) == ["next"]


# --- what a store makes of it


def test_a_store_that_was_closed_takes_the_least_for_its_log_and_goes_on(place: Path) -> None:
    for number in range(2):
        with trails.open(place, create=True, durability="process") as store:
            session = store.load("s") if number else store.create(id="s")
            session.append("user", f"{number}" * 3 * SEGMENT)
            session.persist()
        assert [(place / "commits" / name).stat().st_size for name in "01"] == [SEGMENT, SEGMENT]
    with trails.open(place) as store:
        assert [turn.content[0] for turn in store.load("s")] == ["0", "1"]


def contents(store: Repository, name: str = "s") -> list[str]:
    return [turn["content"] for turn in store.replay(name)]


_WRITE = """
import os, sys, trails
store = trails.open(sys.argv[1], create=True)
session = store.create(id="s")
for number in range(5):
    session.append("user", f"turn {number}")
    session.persist()
    if number == 1:
        store.store.flush()
os._exit(0)
"""
_OPEN = "import os, sys, trails; trails.open(sys.argv[1]); os._exit(0)"


def run(code: str, place: Path) -> None:
    """Let another process do something to a store and end without closing it."""
    subprocess.run([sys.executable, "-c", code, str(place)], check=True, timeout=60)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as a process leaves it that ended without closing it: two turns flushed, three in the commit log only."""
    place = tmp_path_factory.mktemp("left") / "store"
    run(_WRITE, place)
    return place


@pytest.fixture
def killed(left: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    return Path(shutil.copytree(left, tmp_path / "killed"))


ALL = [f"turn {number}" for number in range(5)]


def test_a_killed_store_opens_with_everything_also_without_the_engines_own_log(killed: Path) -> None:
    logs = list((killed / "quads").glob("*.log"))
    assert logs
    for log in logs:
        log.write_bytes(bytes(100))
    with trails.open(killed) as store:
        assert contents(store) == ALL
        assert store.verify().ok


def test_the_log_of_leaves_is_made_again_from_the_records(killed: Path) -> None:
    whole = (killed / "log").read_bytes()
    lines = whole.split(b"\n")
    assert len(lines) == 7  # create, five times turns, and what follows the last newline
    (killed / "log").write_bytes(b"\n".join(lines[:3]) + b"\n" + bytes(30) + b"garbage\nmore")
    with trails.open(killed) as store:
        assert (killed / "log").read_bytes() == whole
        assert store.verify().ok


def test_replaying_twice_is_replaying_once_and_needs_no_index_to_be_right() -> None:
    def quad(number: int) -> ox.Quad:
        return ox.Quad(ox.NamedNode("urn:s"), ox.NamedNode("urn:p"), ox.Literal(str(number)), ox.NamedNode("urn:g"))

    parts = [
        CommitRecord.of(add=[quad(1), quad(2)]),
        CommitRecord.of(remove=[quad(1)], add=[quad(3)]),
        CommitRecord(drop=("urn:g",)),
        CommitRecord.of(add=[quad(1), quad(4)]),
        CommitRecord.of(remove=[quad(4)]),
    ]
    made = [frames.Frame(number, 0, b"", 0, part) for number, part in enumerate(parts, 1)]
    for upto, wanted in ((1, {1, 2}), (2, {2, 3}), (3, set()), (5, {1})):
        engine = ox.Store()
        for _ in range(2):
            replay(engine, made[:upto])
            assert set(engine) == {quad(number) for number in wanted}
    for before in range(6):  # an engine that has some of it already comes to the same
        engine = ox.Store()
        replay(engine, made[:before])
        replay(engine, made)
        assert set(engine) == {quad(1)}


def test_a_store_opened_again_and_again_without_a_close_stays_as_it_is(killed: Path) -> None:
    for _ in range(2):
        run(_OPEN, killed)
    with trails.open(killed) as store:
        assert contents(store) == ALL
        assert store.verify().ok


def test_a_store_without_its_commit_log_is_refused(killed: Path) -> None:
    (killed / "commits" / "1").unlink()
    with pytest.raises(StoreFailed, match=r"commits/1 is missing; restore a backup"):
        trails.open(killed)


def test_the_commit_log_of_another_store_is_refused(killed: Path, tmp_path: Path) -> None:
    trails.open(tmp_path / "other", create=True).close()
    shutil.rmtree(killed / "commits")
    shutil.copytree(tmp_path / "other" / "commits", killed / "commits")
    with pytest.raises(StoreFailed, match="it is another store's"):
        trails.open(killed)


def test_a_text_that_could_not_be_read_back_is_refused_and_the_store_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        session = store.create(id="s")
        session.append("user", "x" * 3_000)
        monkeypatch.setattr(frames, "LONGEST_LINE", 2_000)
        monkeypatch.setattr(validation, "MAX_TEXT", 2_000)
        with pytest.raises(InvalidInput, match=r"too long to be read again: at most 2,000 bytes"):
            session.persist()
        session.discard_pending()
        other = store.create(id="other")
        other.append("user", "x" * 1_000)
        other.persist()
        assert [record.id for record in store.list()] == ["other"]
    with trails.open(tmp_path / "store") as store:
        assert contents(store, "other") == ["x" * 1_000]
        assert store.verify().ok


def test_the_longest_line_is_below_what_the_engines_parser_takes() -> None:
    line = f'<urn:s> <urn:p> "{"x" * (frames.LONGEST_LINE - 40)}" .\n'.encode()
    assert len(line) <= frames.LONGEST_LINE
    assert len(list(ox.parse(line, format=ox.RdfFormat.N_QUADS))) == 1


def test_one_altered_byte_anywhere_in_a_killed_stores_commit_log_is_never_accepted_in_silence(
    killed: Path, long: bool
) -> None:
    """It is refused; or it stands behind the records; or the last one, of which no later one says that it was synced, goes."""
    files = {name: (killed / "commits" / name).read_bytes() for name in ("0", "1")}
    places = [
        (name, position)
        for name, data in files.items()
        for position in range(0, len(data.rstrip(b"\0")) + 64, 1 if long else 13)
    ]
    whole = leaves_of(killed)
    assert [line.split()[2] for line in whole] == ["3", "4", "5"]
    refused = lost = untouched = 0
    for name, position in places:
        data = bytearray(files[name])
        data[position] ^= 0x41
        (killed / "commits" / name).write_bytes(data)
        try:
            after = leaves_of(killed)
        except StoreFailed:
            refused += 1
        else:
            assert after in (whole, whole[:-1])
            lost += after != whole
            untouched += after == whole
        finally:
            (killed / "commits" / name).write_bytes(files[name])
    assert min(refused, lost, untouched) > 0


def leaves_of(place: Path) -> list[str]:
    """Return the leaves of the records that wait in a store's commit log."""
    note = json.loads((place / "trails.json").read_text())
    log = RecordFiles(place / "commits", bytes.fromhex(note["id"]), read_only=True)
    try:
        return [leaf for each in log.records for leaf in each.record.leaves]
    finally:
        log.close()


# --- the engine's list of its files


_DATA = b"\x07" * 40
LATER = struct.pack("<IHB", manifest._masked(manifest._crc(b"\x01" + _DATA)), len(_DATA), 1) + _DATA
"""A whole record of the engine's list, whatever it says."""


def the_manifest(place: Path) -> Path:
    return place / "quads" / (place / "quads" / "CURRENT").read_text().strip()


def test_the_checksum_is_crc_32c() -> None:
    # RFC 3720, B.4: 32 bytes of zeros, of ones, and 0 to 31; there in the order of the wire.
    assert manifest._crc(bytes(32)).to_bytes(4, "little").hex() == "aa36918a"
    assert manifest._crc(b"\xff" * 32).to_bytes(4, "little").hex() == "43aba862"
    assert manifest._crc(bytes(range(32))).to_bytes(4, "little").hex() == "4e79dd46"


@pytest.mark.parametrize(
    "torn",
    [
        # 224 bytes of which the head says 221 and type 8: over such an end the engine itself never finishes opening
        bytes.fromhex("05910a0bdd0008") + bytes(range(217)),
        bytes.fromhex("05910a0b200001") + b"x" * 32,
        bytes.fromhex("05910a0b200001") + b"x" * 3,
        bytes(4096),
        b"\xff" * 5,
    ],
)
def test_an_unfinished_record_at_the_end_of_the_engines_list_of_files_is_cut_off(killed: Path, torn: bytes) -> None:
    whole = the_manifest(killed).read_bytes()
    the_manifest(killed).write_bytes(whole + torn)
    manifest.trim(killed / "quads")
    assert the_manifest(killed).read_bytes() == whole
    with trails.open(killed) as store:
        assert contents(store) == ALL
        assert store.verify().ok


def test_a_group_of_changes_that_a_power_cut_kept_by_halves_is_cut_off(killed: Path) -> None:
    whole = the_manifest(killed).read_bytes()
    lost = bytes(-len(whole) % 4096 + 8192)  # pages of the group that never came to disk, and then one that did
    the_manifest(killed).write_bytes(whole + lost + LATER)
    with trails.open(killed) as store:
        assert contents(store) == ALL
        assert store.verify().ok


def test_without_a_note_a_list_with_records_after_damage_is_refused(killed: Path) -> None:
    whole = the_manifest(killed).read_bytes()
    the_manifest(killed).write_bytes(whole + bytes(4096) + LATER)
    note = killed / "quads" / "manifest.note"
    note.write_bytes(note.read_bytes()[:-20])
    note.write_bytes(b"0" + note.read_bytes()[1:])
    with pytest.raises(StoreFailed, match="restore a backup"):
        trails.open(killed)


def test_a_list_of_files_that_is_damaged_before_its_end_is_refused_and_stays(killed: Path) -> None:
    spoilt = bytearray(the_manifest(killed).read_bytes())
    spoilt[len(spoilt) // 2] ^= 1
    the_manifest(killed).write_bytes(spoilt)
    with pytest.raises(StoreFailed, match=r"MANIFEST-\d+ was altered at byte \d+: .*restore a backup"):
        trails.open(killed)
    assert the_manifest(killed).read_bytes() == spoilt


# --- the log of leaves


def test_the_name_of_a_new_log_of_leaves_is_brought_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("trails.store.leaflog.sync_folder", synced.append)
    LeafLog(tmp_path / "log").close()
    LeafLog(tmp_path / "log").close()
    assert synced == [tmp_path]


@pytest.mark.parametrize("believe", [True, False])
def test_whole_lines_after_the_last_record_stay_unless_records_were_not_synced(tmp_path: Path, believe: bool) -> None:
    log = LeafLog(tmp_path / "log")
    made = [Leaf("create", "urn:trails:session:a"), Leaf("change", "urn:trails:session:a")]
    lines, after = log.lines_for(made)
    log.append(lines, NOTHING, after)
    log.close()
    torn = b"change urn:trails:session:a 0 - "
    (tmp_path / "log").write_bytes((tmp_path / "log").read_bytes() + torn)
    first = Leaves(1, len(lines[0]) + 1, leaves.link_leaf(lines[0]))
    opened = LeafLog(tmp_path / "log", first, believe=believe)
    kept = lines if believe else lines[:1]
    assert (opened.lines(), opened.went_on) == (kept, believe)
    assert (tmp_path / "log").read_text() == "".join(f"{line}\n" for line in kept)
    opened.close()


@pytest.mark.parametrize("spoil", [b"create urn:trails:session:x", b""])
def test_a_log_of_leaves_altered_or_cut_before_its_records_is_in_trouble_and_stays(
    tmp_path: Path, spoil: bytes
) -> None:
    log = LeafLog(tmp_path / "log")
    made = [Leaf("create", "urn:trails:session:a")]
    lines, after = log.lines_for(made)
    log.append(lines, NOTHING, after)
    log.close()
    (tmp_path / "log").write_bytes(spoil)
    opened = LeafLog(tmp_path / "log", after)
    opened.close()
    assert opened.trouble is not None
    assert "cut short or altered before its line 2" in opened.trouble


def test_a_store_rolled_back_to_before_its_last_leaf_is_caught_also_after_a_crash(tmp_path: Path) -> None:
    for closed in (True, False):
        place, old = tmp_path / f"store{closed}", tmp_path / f"old{closed}"
        with trails.open(place, create=True) as store:
            session = store.create(id="s")
            session.append("user", "kept")
            session.persist()
        shutil.copytree(place / "quads", old, ignore=shutil.ignore_patterns("LOCK"))
        store = trails.open(place)
        session = store.load("s")
        session.append("user", "gone")
        session.persist()
        store.store.flush()
        rolled = tmp_path / f"rolled{closed}"
        if closed:
            store.close()
        shutil.copytree(place, rolled, ignore=shutil.ignore_patterns("quads", "lock"))
        store.close()
        shutil.copytree(old, rolled / "quads")
        with trails.open(rolled) as back:
            assert {(f.code, f.session_id, f.index) for f in back.verify().findings} >= {("rolled-back", "s", 1)}
