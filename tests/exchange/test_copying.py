"""Whole stores that are copied, cut short, gone on with, and held against their source."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import trails
from tests.support.machines import Size
from trails import IntegrityError, InvalidInput, Repository, StoreFailed
from trails.exchange.remotes import store_copy
from trails.exchange.remotes.store_copy import copy_store
from trails.history import transaction
from trails.rdf import vocab
from trails.store.contract import Change, Committed
from trails.store.embedded import EmbeddedStore
from trails.store.log.log_maintenance import Vacuumed


@pytest.fixture
def source(filled_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled_once, tmp_path / filled_once.name))


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a fork, a redaction and a deleted session."""
    place = tmp_path_factory.mktemp("filled") / "source.trails"
    with trails.open(place, create=True, durability="process") as store:
        plan = store.create(id="plan", label="trip")
        for number in range(20):
            plan.append("user", f"turn {number}")
        plan.persist()
        fork = plan.fork(at=3, id="other")
        fork.append("user", "another way")
        fork.persist()
        lost = store.create(id="lost")
        lost.append("user", "never mind")
        lost.persist()
        store.delete("lost")
        store.redact("plan", 1)
    return place


def held(place: Path) -> tuple[set[str], list[str]]:
    """Return all quads of a store and the lines of its log."""
    with trails.open(place) as store:
        return {str(quad) for quad in store.store.quads((None, None, None, None))}, store.store.log.lines()


def test_a_copy_has_every_quad_and_every_line_of_the_log(source: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.trails"
    done = copy_store(source, there)
    assert held(there) == held(source)
    assert done.written
    assert done.report is not None
    assert done.report.ok
    assert done.quads == len(held(source)[0])


def test_a_checkpoint_of_the_source_holds_for_the_copy(source: Path, tmp_path: Path) -> None:
    from trails.integrity.signed_notes import new_key

    secret, public = new_key("work")
    with trails.open(source) as store:
        note = store.proofs.checkpoint(secret)
    copy_store(source, tmp_path / "there.trails")
    with trails.open(tmp_path / "there.trails") as store:
        assert store.verify(checkpoint=note, verifiers=[public]).ok


def test_a_copy_that_is_there_and_equal_is_left_alone(source: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.trails"
    copy_store(source, there)
    assert not copy_store(source, there).written


def test_a_store_goes_into_a_dump_and_back_with_its_log(source: Path, tmp_path: Path) -> None:
    file, there = tmp_path / "all.nq.gz", tmp_path / "there.trails"
    assert copy_store(source, file).written
    assert not copy_store(source, file).written
    copy_store(file, there)
    assert held(there) == held(source)


def test_a_dump_without_a_log_begins_one(source: Path, tmp_path: Path) -> None:
    file, there = tmp_path / "all.nq.gz", tmp_path / "there.trails"
    with trails.open(source) as store:
        store.maintenance.dump(file)
    done = copy_store(file, there)
    assert done.log_root is None
    assert held(there)[0] == held(source)[0]
    assert done.report is not None
    assert done.report.ok


def test_a_store_that_is_open_is_copied_as_it_is(source: Path, tmp_path: Path) -> None:
    with trails.open(source) as store:
        plan = store.load("plan")
        plan.append("user", "just now")
        plan.persist()
        copy_store(source, tmp_path / "there.trails")
    assert held(tmp_path / "there.trails") == held(source)


def test_nothing_is_copied_over_another_store(source: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.trails"
    with trails.open(there, create=True) as store:
        store.create(id="mine").persist()
    before = held(there)
    with pytest.raises(InvalidInput, match="no copy of"):
        copy_store(source, there)
    assert held(there) == before


def test_a_dump_that_is_cut_short_or_altered_is_refused(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.nq"
    copy_store(source, file)
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in (whole[: len(whole) // 2], b"".join(lines[:20]), b"".join(lines[:-1]), whole[: len(lines[0])]):
        file.write_bytes(cut)
        with pytest.raises(InvalidInput, match="cut short"):
            copy_store(file, tmp_path / "other.trails")
    file.write_bytes(whole.replace(b"turn 5", b"turn 6"))
    with pytest.raises(InvalidInput, match="altered"):
        copy_store(file, tmp_path / "other.trails")
    unframed = [line for line in lines[2:] if not line.startswith(b"# trails log ")]
    file.write_bytes(b"".join(unframed))
    with pytest.raises(InvalidInput, match="altered"):
        copy_store(file, tmp_path / "other.trails")
    assert not (tmp_path / "other.trails").exists()


@pytest.mark.parametrize("name", ["all.nq", "all.nq.gz"])
def test_an_empty_file_is_no_dump(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    with pytest.raises(InvalidInput, match="holds nothing: it was cut short"):
        copy_store(file, tmp_path / "other.trails")
    assert not (tmp_path / "other.trails").exists()


def test_an_empty_store_goes_into_a_dump_and_back(tmp_path: Path) -> None:
    trails.open(tmp_path / "empty.trails", create=True).close()
    copy_store(tmp_path / "empty.trails", tmp_path / "all.nq")
    copy_store(tmp_path / "all.nq", tmp_path / "there.trails")
    assert held(tmp_path / "there.trails") == held(tmp_path / "empty.trails")


def test_a_dump_whose_log_was_altered_is_said_to_be_before_anything_is_written(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.nq"
    copy_store(source, file)
    lines = file.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith(b"# turns "))
    other = lines[first].replace(b"session:plan 20 ", b"session:plan 21 ")
    assert other != lines[first]
    for altered in (
        [*lines[:first], other, *lines[first + 1 :]],
        [*lines[:first], lines[first + 1], lines[first], *lines[first + 2 :]],
        [*lines[:-2], lines[-1]],
    ):
        file.write_bytes(b"".join(altered))
        with pytest.raises(InvalidInput, match=r"all\.nq (is cut short or|was) altered"):
            copy_store(file, tmp_path / "other.trails")
    assert not (tmp_path / "other.trails").exists()


@pytest.mark.parametrize("name", ["there.trails", "there.nq"])
def test_a_copy_that_was_finished_before_its_source_went_on_is_named_as_that(
    source: Path, tmp_path: Path, name: str
) -> None:
    there = tmp_path / name
    copy_store(source, there)
    lines = len(held(source)[1])
    with trails.open(source) as store, store.session("plan") as plan:
        plan.append("user", "just now")
    with pytest.raises(
        InvalidInput, match=f"is an earlier copy of .*, with {lines} of now {lines + 1} lines .* remove it"
    ):
        copy_store(source, there)


def test_a_store_is_not_copied_into_itself(source: Path, tmp_path: Path) -> None:
    before = held(source)
    (tmp_path / "link").symlink_to(source)
    for place in (source, tmp_path / "link"):
        with pytest.raises(InvalidInput, match="the store itself"):
            copy_store(source, place)
    for place in (source / "inside", tmp_path / "link" / "deep" / "inside.nq", source / "index"):
        with pytest.raises(InvalidInput, match="lies in the folder"):
            copy_store(source, place)
    assert held(source) == before


def test_a_store_that_does_not_verify_is_not_finished_as_a_copy(source: Path, tmp_path: Path) -> None:
    with trails.open(source) as store:
        [quad] = [q for q in store.store.quads((None, None, None, None)) if getattr(q.object, "value", "") == "turn 5"]
        store.store.commit(Change(remove=[quad]))
    with pytest.raises(IntegrityError, match="does not verify"):
        copy_store(source, tmp_path / "there.trails")
    with pytest.raises(StoreFailed, match="not finished"):
        trails.open(tmp_path / "there.trails")


def test_a_quad_that_did_not_arrive_is_found_before_the_copy_counts(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quads = store_copy._quads
    monkeypatch.setattr(store_copy, "_quads", lambda lines, where: quads(lines, where)[:-1])
    with pytest.raises(IntegrityError, match="does not hold what was read"):
        copy_store(source, tmp_path / "there.trails")
    with pytest.raises(StoreFailed, match="not finished"):
        trails.open(tmp_path / "there.trails")


class Cut(Exception):
    """What cuts a copy short."""


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """A function that lets copies end at the commit of a number, just before it; none where that is None."""
    commit = EmbeddedStore.commit
    left: list[int | None] = [None]

    def cut_short(store: EmbeddedStore, change: Change) -> Committed:
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise Cut
        return commit(store, change)

    monkeypatch.setattr(EmbeddedStore, "commit", cut_short)
    monkeypatch.setattr(store_copy, "_BATCH", 40)

    def set_cut(at: int | None) -> None:
        left[0] = at

    return set_cut


def test_a_copy_that_was_cut_short_is_no_store_and_goes_on(
    source: Path, tmp_path: Path, cut: Callable[[int | None], None]
) -> None:
    there = tmp_path / "there.trails"
    for at in range(1, 20):
        cut(at)
        try:
            copy_store(source, there)
        except Cut:
            cut(None)
            for read_only in (False, True):
                with pytest.raises(StoreFailed, match="not finished"):
                    trails.open(there, read_only=read_only)
        else:
            break
    cut(None)
    assert held(there) == held(source)
    assert not copy_store(source, there).written


def test_a_half_copy_of_one_store_is_not_gone_on_with_from_another(
    source: Path, tmp_path: Path, cut: Callable[[int | None], None]
) -> None:
    there, other = tmp_path / "there.trails", tmp_path / "other.trails"
    with trails.open(other, create=True) as store:
        store.create(id="else").persist()
    for _ in range(30):  # a commit each time, until the log had arrived
        cut(1)
        with pytest.raises(Cut):
            copy_store(source, there)
        cut(None)
        with contextlib.closing(EmbeddedStore(there)) as half:
            if not half.log.is_empty:
                break
    with pytest.raises(InvalidInput, match="half of a copy of another store"):
        copy_store(other, there)
    copy_store(source, there)
    assert held(there) == held(source)


def test_what_was_redacted_since_a_copy_was_cut_short_goes_out_of_its_files_too(
    source: Path, tmp_path: Path, cut: Callable[[int | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, rebuilt = tmp_path / "there.trails", list[str]()
    vacuum = EmbeddedStore.vacuum

    def counted(store: EmbeddedStore) -> Vacuumed:
        rebuilt.append(store.location)
        return vacuum(store)

    monkeypatch.setattr(EmbeddedStore, "vacuum", counted)
    cut(5)
    with pytest.raises(Cut):
        copy_store(source, there)
    with contextlib.closing(EmbeddedStore(there)) as half:
        had = {str(quad.object.value) for quad in half.quads((None, vocab.VALUE, None, None))}  # type: ignore[union-attr] # literals
    cut(None)
    with trails.open(source) as store:
        for index in range(2, 20):
            store.redact("plan", index)
    copy_store(source, there)
    assert had & {f"turn {index}" for index in range(2, 20)}
    assert rebuilt == [str(there)]  # a file of the engine is compressed, and what is in it cannot be looked for
    assert held(there) == held(source)


_KILLED = """
import os, signal, sys
from trails.exchange.remotes import store_copy
from trails.store.embedded import EmbeddedStore
from trails.store.log.log_maintenance import Vacuumed
commit, left = EmbeddedStore.commit, [int(sys.argv[3])]
def counted(store, change):
    left[0] -= 1
    if left[0] == 0 and sys.argv[4] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = commit(store, change)
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
EmbeddedStore.commit = counted
store_copy._BATCH = 40
store_copy.copy_store(sys.argv[1], sys.argv[2])
"""


def test_a_copy_whose_process_is_killed_goes_on_and_ends_equal(source: Path, tmp_path: Path, size: Size) -> None:
    wanted = held(source)
    every = {"quick": 7, "all": 2, "long": 1}[size]
    for at in range(1, 13, every):
        there = tmp_path / f"there{at}.trails"
        killed = ["before", "after"][at % 2]
        done = subprocess.run([sys.executable, "-c", _KILLED, str(source), str(there), str(at), killed], check=False)
        if done.returncode != 0 and there.exists() and (at > 1 or killed == "after"):
            with pytest.raises(StoreFailed, match="not finished"):
                trails.open(there)
        copy_store(source, there)
        assert held(there) == wanted, at
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(f".there{at}.trails.")] == []


def test_a_copy_into_a_dump_that_is_cut_short_leaves_no_file(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise Cut

    monkeypatch.setattr(gzip.GzipFile, "write", full)
    with pytest.raises(Cut):
        copy_store(source, tmp_path / "all.nq.gz")
    monkeypatch.undo()
    assert not (tmp_path / "all.nq.gz").exists()
    assert copy_store(source, tmp_path / "all.nq.gz").written


def test_progress_is_told_to_the_end(source: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    done = copy_store(source, tmp_path / "there.trails", progress=lambda *moved: told.append(moved))
    assert (done.quads, done.quads, "copying") in told


def test_a_store_in_memory_has_no_place_to_be_copied_from(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        copy_store(":memory:", tmp_path / "there.trails")


def test_an_opened_store_is_refused_as_what_it_is(memory: Repository) -> None:
    memory.store.commit(Change(add=[transaction.STORE_COPY]))
    with pytest.raises(StoreFailed, match="not finished"):
        Repository(memory.store)
