"""A view of a store beside its owner: every window between two steps of a look is forced, and what is seen is of one moment."""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from tests.support.machines import Size
from trails.errors import InvalidInput, StoreFailed, StoreLocked, StoreReadOnly
from trails.integrity.leaves import Leaf
from trails.store import applying, capture, lockfile, look, maintenance, marker, position
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore
from trails.store.replay import drop_engine_log
from trails.store.view import ViewStore
from trails.testing import StoreConformance

GRAPH = NamedNode("https://example.org/graph")
BULK = 4_000
"""Quads that go through the engine's bulk loader (`committing.BULK_FROM`)."""


def quad(number: int) -> Quad:
    subject = NamedNode(f"https://example.org/s{number}")
    return Quad(subject, NamedNode("https://example.org/p"), Literal(f"v{number}"), GRAPH)


class Beside:
    """A store of which all that is read comes from a view beside the owner, refreshed just before."""

    def __init__(self, path: Path) -> None:
        self._owner = EmbeddedStore(path, create=True)
        self._view = ViewStore(path)

    def __getattr__(self, name: str) -> Any:
        if name in ("commit", "drop_graph", "hold", "flush", "token"):
            return getattr(self._owner, name)
        self._owner.hold()  # raises where it is closed
        self._view.refresh()
        return getattr(self._view, name)

    def __len__(self) -> int:
        self._owner.hold()
        self._view.refresh()
        return len(self._view)

    def close(self) -> None:
        self._view.close()
        self._owner.close()


class TestReadingBesideTheOwner(StoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: Beside(tmp_path / "store")


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, for this test alone."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore(tmp_path / "store", create=True)
    yield opened
    opened.close()


@pytest.fixture
def view(owner: EmbeddedStore) -> Iterator[ViewStore]:
    commit(owner, 1)
    opened = ViewStore(Path(owner.location))
    yield opened
    opened.close()


def commit(store: EmbeddedStore, *numbers: int, remove: Sequence[int] = ()) -> None:
    store.commit(Change(add=[quad(each) for each in numbers], remove=[quad(each) for each in remove]))


def seen(store: EmbeddedStore | ViewStore) -> set[Quad]:
    return set(store.quads((None, None, None, None)))


# --- what is seen


def test_a_view_sees_what_was_acknowledged_before_it_opened_and_the_rest_after_a_refresh(
    owner: EmbeddedStore, view: ViewStore
) -> None:
    assert seen(view) == {quad(1)}
    commit(owner, 2, remove=[1])
    assert seen(view) == {quad(1)}
    assert (view.number, view.refresh(), view.number) == (1, True, 2)
    assert seen(view) == {quad(2)}
    assert view.refresh() is False


def test_every_look_at_once_after_a_commit_sees_it(owner: EmbeddedStore, view: ViewStore) -> None:
    for number in range(2, 40):
        commit(owner, number)
        assert view.refresh()
        assert (view.number, len(view)) == (number, number)


def test_the_log_of_a_view_ends_where_its_quads_do(owner: EmbeddedStore, view: ViewStore) -> None:
    owner.commit(Change(add=[quad(2)], leaves=[Leaf("turns", "urn:trails:session:a", 1, "00" * 32)]))
    assert view.log.lines() == []
    view.refresh()
    owner.commit(Change(add=[quad(3)], leaves=[Leaf("turns", "urn:trails:session:a", 2, "11" * 32)]))
    assert len(view.log.lines()) == 1
    assert view.log.lines() == owner.log.lines()[:1]
    view.refresh()
    assert view.log.lines() == owner.log.lines()


def test_a_view_keeps_what_it_saw_while_the_owner_replaces_deletes_and_ends(
    owner: EmbeddedStore, view: ViewStore
) -> None:
    commit(owner, *range(2, 500))
    owner.flush()
    view.refresh()
    for number in range(4):  # several tables, which the engine then joins into one
        commit(owner, 1000 + number)
        owner.flush()
    owner.drop_graph(GRAPH)
    owner.vacuum()
    assert seen(view) == {quad(each) for each in range(1, 500)}
    owner.close()
    shutil.rmtree(owner.location)
    assert seen(view) == {quad(each) for each in range(1, 500)}
    assert view.query("ASK { GRAPH ?g { ?s ?p ?o } }") is True
    with pytest.raises(InvalidInput, match="no Trails store"):
        view.refresh()
    assert len(view) == 499


def test_a_refresh_lets_the_files_go_that_a_vacuum_replaced(owner: EmbeddedStore, view: ViewStore) -> None:
    owner.flush()
    view.refresh()
    owner.vacuum()
    assert any("quads.old" in each or each.endswith("(deleted)") for each in tables_of(owner))
    assert view.refresh() is False  # nothing was committed
    assert not any(each.endswith("(deleted)") for each in tables_of(owner))
    assert seen(view) == {quad(1)}


def tables_of(owner: EmbeddedStore) -> list[str]:
    """Return the open tables of one store: earlier tests may have left others open in this process."""
    return [each for each in open_files() if "sst" in each and each.startswith(owner.location)]


def wait_for(condition: Callable[[], bool]) -> None:
    """Look again until something holds that another thread is just doing."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline


def open_files() -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(each.readlink()))
    return found


def test_a_store_that_is_closed_is_seen_as_it_is_and_no_lock_is_taken(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(owner, 1, 2)
    owner.close()
    monkeypatch.setattr(lockfile, "_locked", lambda *_: pytest.fail("a reader locked"))
    view = ViewStore(Path(owner.location))
    assert (seen(view), view.number, view.is_beside_owner) == ({quad(1), quad(2)}, 1, False)
    view.close()


def test_an_owner_that_comes_later_is_seen_by_a_refresh(owner: EmbeddedStore) -> None:
    commit(owner, 1)
    owner.close()
    view = ViewStore(Path(owner.location))
    again = EmbeddedStore(Path(owner.location))
    commit(again, 2)
    assert (view.refresh(), seen(view)) == (True, {quad(1), quad(2)})
    again.close()
    assert view.refresh() is False
    view.close()


# --- nothing is touched


def test_looking_changes_nothing_in_the_stores_folder(owner: EmbeddedStore) -> None:
    commit(owner, 1, 2)
    folder = Path(owner.location)
    owner._settle()
    wait_for(lambda: position.read(folder / maintenance.POSITION, marker.store_id(folder)).applied == 1)  # type: ignore[union-attr] # it is there
    before = tree(folder)
    view = ViewStore(folder)
    assert seen(view) == {quad(1), quad(2)}
    view.close()
    assert tree(folder) == before
    assert "quads/LOCK" in before  # what is never opened: closing it would free the owner's lock


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path.relative_to(folder)): ((found := path.stat()).st_ino, found.st_mtime_ns, found.st_size)
        for path in (folder, *folder.rglob("*"))
    }


def test_what_a_view_needs_has_no_text_and_goes_with_it(owner: EmbeddedStore, private: Path) -> None:
    commit(owner, *range(100))
    owner.flush()
    commit(owner, 101)
    descriptors = len(open_files())
    view = ViewStore(Path(owner.location))
    (folder,) = private.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.is_symlink() for path in folder.iterdir())
    assert any(path.suffix == ".sst" for path in folder.iterdir())
    view.close()
    assert list(private.iterdir()) == []
    assert len(open_files()) == descriptors


def test_what_a_killed_reader_left_is_swept_and_a_living_readers_folder_stays(
    owner: EmbeddedStore, view: ViewStore, private: Path
) -> None:
    dead = private / "trails-view-dead_123"
    dead.mkdir()
    (dead / "000010.sst").symlink_to("/proc/self/fd/77")
    living = ViewStore(Path(owner.location))
    assert not dead.exists()
    ViewStore(Path(owner.location)).close()
    assert len(list(private.iterdir())) == 1
    assert seen(living) == {quad(1)}
    living.close()


@pytest.mark.parametrize("name", ["trails-view-notes", "trails-view-my_notes"])
def test_a_folder_that_only_has_such_a_name_is_nobodys_to_remove(
    owner: EmbeddedStore, view: ViewStore, private: Path, name: str
) -> None:
    """The second name is one that `tempfile` could make."""
    (private / name / "inner").mkdir(parents=True)
    (private / name / "thesis.txt").write_text("precious")
    os.utime(private / name, (0, 0))
    ViewStore(Path(owner.location)).close()
    assert (private / name / "thesis.txt").read_text() == "precious"
    (private / name / "thesis.txt").unlink()
    ViewStore(Path(owner.location)).close()
    assert (private / name / "inner").is_dir()


# --- the windows


STEPS = (
    (look, "_engine_folder"),
    (capture, "read"),
    (capture, "copy_list"),
    (capture, "names"),
    (capture, "copy_files"),
    (capture, "is_unchanged"),
    (look, "_check_place"),
    (look, "_records"),
    (look, "_having"),
    (look, "_log_up_to"),
)
"""The steps of a look: what comes between two of them comes after the first one."""


class Play:
    """An owner, what was there after each of its commits, and the things that it does beside a reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.states: dict[int, set[Quad]] = {0: set()}
        self.next = 0
        self.owner = EmbeddedStore(path, create=True)

    def commit(self, *, bulk: bool = False, remove: bool = False) -> None:
        before = self.states[self.owner.number]
        add = {quad(self.next + n) for n in range(BULK if bulk else 20)}
        self.next += len(add)
        gone = set(sorted(before, key=str)[:5]) if remove else set()
        self.states[self.owner.number + 1] = (before - gone) | add
        self.owner.commit(
            Change(
                add=list(add),
                remove=list(gone),
                leaves=[Leaf("turns", "urn:trails:session:a", self.owner.number, "00" * 32)],
            )
        )

    def several(self) -> None:
        for each in range(4):
            self.commit(remove=each == 2)

    def bulk(self) -> None:
        self.commit(bulk=True)

    def hold(self) -> None:
        """From now on commits that only add wait in the log until there are more to be loaded with them."""
        self.owner._backlog._loading = 1
        self.several()
        for _ in range(3):
            self.commit()

    def load(self) -> None:
        self.hold()
        for _ in range(2):
            self.commit(bulk=True)
        self.owner._settle()
        self.commit()

    def flush(self) -> None:
        self.commit()
        self.owner.flush()

    def recycle(self) -> None:
        for _ in range(3):
            self.flush()
        self.commit()

    def compact(self) -> None:
        self.recycle()
        assert self.owner._store is not None
        self.owner._store.optimize()

    def flush_alone(self) -> None:
        """As the engine does by itself when its memory is full: our own commit log stays as it is."""
        there = next(iter(self.states[self.owner.number]))
        for _ in range(3):
            self.owner._settle()
            assert self.owner._store is not None
            self.owner._store.flush()
            self.owner._store.extend([there])  # so that there is a new log, and an old one to be used again

    def vacuum(self) -> None:
        self.commit(remove=True)
        self.owner.vacuum()
        self.commit()

    def end(self) -> None:
        self.commit()
        self.owner.close()

    def begin_anew(self) -> None:
        self.commit()
        self.owner.close()
        self.owner = EmbeddedStore(self.path)
        self.commit()

    def die_and_begin_anew(self) -> None:
        """As after a kill: nothing is flushed, and the next owner recovers."""
        self.commit()
        self.owner._settle()
        self.owner._drop_engine()
        self.owner._release()
        self.owner = EmbeddedStore(self.path)

    def be_replaced(self) -> None:
        """Another copy of the store, with more in it, takes its place at once."""
        self.commit()
        self.owner.backup(self.path.with_name("copy"))
        self.owner.close()
        self.path.rename(self.path.with_name("away"))
        self.path.with_name("copy").rename(self.path)
        self.owner = EmbeddedStore(self.path)
        shutil.rmtree(self.path.with_name("away"))


EVENTS = (
    "several",
    "bulk",
    "hold",
    "load",
    "flush",
    "recycle",
    "compact",
    "flush_alone",
    "vacuum",
    "end",
    "begin_anew",
    "die_and_begin_anew",
    "be_replaced",
)


def forced(play: Play, event: str, step: tuple[Any, str], patch: pytest.MonkeyPatch) -> ViewStore:
    """Look while something happens after the first time that a step is done."""
    module, name = step
    real = getattr(module, name)
    waiting = [event]

    def step_then_event(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        if waiting:
            getattr(play, waiting.pop())()
        return result

    with patch.context() as patched:
        patched.setattr(module, name, step_then_event)
        view = ViewStore(play.path)
    assert not waiting, "the step was not passed"
    return view


@pytest.mark.parametrize("event", EVENTS)
def test_whatever_the_owner_does_between_two_steps_the_view_is_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, size: Size
) -> None:
    monkeypatch.setattr(applying, "_PATIENCE", 0.05)
    play = Play(tmp_path / "store")
    play.several()
    for step in STEPS[::3] if event in ("bulk", "load") and size == "quick" else STEPS:
        if event == "end":
            play.owner.close()
            play.owner = EmbeddedStore(play.path)
        acknowledged = play.owner.number
        view = forced(play, event, step, monkeypatch)
        assert view.number >= acknowledged, step
        assert seen(view) == play.states[view.number], step
        assert [line.split()[2] for line in view.log.lines()] == [str(n) for n in range(view.number)], step
        view.close()
    play.owner.close()


def in_two_parts(
    play: Play,
    patch: pytest.MonkeyPatch,
    step: tuple[Any, str],
    first: Callable[[], object],
    rest: Callable[[], object],
) -> ViewStore:
    """Look while the first part of something is done after a step, and the rest only once that look was given up."""
    module, name = step
    real_step, real_look = getattr(module, name), look._look_once
    done: list[str] = []

    def step_then_first(*args: Any, **kwargs: Any) -> Any:
        result = real_step(*args, **kwargs)
        if not done:
            done.append("first")
            first()
        return result

    def look_after_rest(*args: Any) -> look.Moment:
        if done == ["first"]:
            done.append("rest")
            rest()
        return real_look(*args)

    with patch.context() as patched:
        patched.setattr(module, name, step_then_first)
        patched.setattr(look, "_look_once", look_after_rest)
        view = ViewStore(play.path)
    assert done == ["first", "rest"], "the look was not given up"
    return view


def test_a_recovery_that_has_dropped_the_engines_log_and_not_begun_a_new_one_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "store")
    play.several()
    play.owner._settle()
    play.owner._drop_engine()
    play.owner._release()  # as after a kill

    def begin() -> None:
        position.Posted(play.path / maintenance.POSITION, marker.store_id(play.path), 4).close()
        drop_engine_log(play.path / maintenance.QUADS)

    def finish() -> None:
        play.owner = EmbeddedStore(play.path)

    view = in_two_parts(play, monkeypatch, (capture, "copy_list"), begin, finish)
    assert (view.number, seen(view)) == (4, play.states[4])
    view.close()
    play.owner.close()


@pytest.mark.parametrize("held", [False, True], ids=["one commit", "one that could wait for more"])
def test_half_of_what_the_bulk_loader_brings_in_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    monkeypatch.setattr(applying, "_PATIENCE", 0.05)
    play = Play(tmp_path / "store")
    play.several()
    play.owner._backlog._loading = int(held)
    half, go = threading.Event(), threading.Event()

    def load_in_two(work: Callable[[], None]) -> None:
        assert play.owner._store is not None
        play.owner._store.bulk_extend([quad(play.next - 1)])
        half.set()
        assert go.wait(20)
        work()

    def begin() -> None:
        monkeypatch.setattr(play.owner._gate, "alone", load_in_two)
        play.bulk()
        assert half.wait(20)

    view = in_two_parts(play, monkeypatch, (look, "_engine_folder"), begin, go.set)
    assert (view.number, seen(view)) == (5, play.states[5])
    view.close()
    monkeypatch.undo()
    play.owner.close()


def test_what_waited_for_more_and_is_just_brought_in_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "_PATIENCE", 0.0)
    play = Play(tmp_path / "store")
    play.several()
    play.owner._settle()
    play.owner._backlog._loading = 1
    there, go = threading.Event(), threading.Event()
    real = play.owner._post_applied

    def post_later(number: int | None = None) -> None:
        there.set()
        assert go.wait(20)
        real(number)

    def begin() -> None:
        monkeypatch.setattr(play.owner, "_post_applied", post_later)
        play.commit()
        assert there.wait(20)

    view = in_two_parts(play, monkeypatch, (look, "_engine_folder"), begin, go.set)
    assert (view.number, seen(view)) == (5, play.states[5])
    view.close()
    play.owner.close()


def test_a_record_whose_lines_are_not_in_the_log_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path / "store")
    play.several()
    recorded, go = threading.Event(), threading.Event()
    real = play.owner._log.append

    def append_later(*args: Any) -> None:
        recorded.set()
        assert go.wait(20)
        real(*args)

    only_leaves = Change(leaves=[Leaf("turns", "urn:trails:session:a", 4, "00" * 32)])
    writer = threading.Thread(target=play.owner.commit, args=(only_leaves,))

    def begin() -> None:
        monkeypatch.setattr(play.owner._log, "append", append_later)
        writer.start()
        assert recorded.wait(20)

    view = in_two_parts(play, monkeypatch, (look, "_engine_folder"), begin, go.set)
    writer.join()
    assert len(view.log.lines()) == view.number
    view.close()
    play.owner.close()


@pytest.mark.parametrize("dropped", [True, False])
def test_without_the_check_of_the_list_of_files_the_same_windows_give_less_than_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropped: bool
) -> None:
    """What the test above is worth. Where our own flush comes between, the numbers of the commit log show it as well."""
    if dropped:
        monkeypatch.setattr(capture, "is_unchanged", lambda *_: True)
    wrong = 0
    for attempt, step in itertools.product(range(20 if dropped else 1), STEPS[1:4]):
        if wrong:  # the engine removes files in its own time, on a busy machine sometimes too late for all three
            break
        play = Play(tmp_path / f"{step[1]}-{attempt}")
        play.several()
        view = forced(play, "flush_alone", step, monkeypatch)
        wrong += seen(view) != play.states[view.number]
        view.close()
        play.owner.close()
    assert bool(wrong) is dropped


def test_a_store_that_is_deleted_while_it_is_looked_at_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in STEPS[:-1]:
        play = Play(tmp_path / "store")
        play.several()
        play.owner.close()
        monkeypatch.setattr(Play, "delete", lambda self: shutil.rmtree(self.path), raising=False)
        try:
            view = forced(play, "delete", step, monkeypatch)
        except (InvalidInput, StoreFailed):
            continue
        assert seen(view) == play.states[view.number]
        view.close()


# --- what cannot be seen


def test_a_store_that_never_stands_still_is_given_up_with_advice(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, private: Path
) -> None:
    monkeypatch.setattr(look, "LIMIT", 0.05)
    monkeypatch.setattr(capture, "is_unchanged", lambda *_: False)
    with pytest.raises(StoreFailed, match=r"is being rewritten.*try again"):
        ViewStore(Path(owner.location))
    assert list(private.iterdir()) == []


@pytest.mark.parametrize("pid", ["of nobody", "of another process, in a container or by now"])
def test_commits_that_only_a_dead_owners_log_has_are_not_passed_over(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, pid: str
) -> None:
    monkeypatch.setattr(look, "_STALLED", 0.05)
    commit(owner, 1)
    owner._settle()
    assert owner._posted is not None
    owner._posted.recorded(2)  # as if it was killed between the record and the engine
    owner._release()
    owner._drop_engine()
    note = Path(owner.location) / "lock"
    note.write_text(note.read_text().replace(str(os.getpid()), str(2**22 - 1) if pid == "of nobody" else "1"))
    with pytest.raises(look.NeedsOwner, match="open it once to write"):
        ViewStore(Path(owner.location))
    again = EmbeddedStore(Path(owner.location))
    view = ViewStore(Path(owner.location))
    assert seen(view) == {quad(1)}
    view.close()
    again.close()


def test_an_owner_that_lives_is_waited_for_also_where_its_pid_is_unknown_here(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "_STALLED", 0.05)
    monkeypatch.setattr(look, "LIMIT", 0.2)
    commit(owner, 1)
    owner._settle()
    assert owner._posted is not None
    owner._posted.recorded(2)  # as if it was between the record and the engine
    note = Path(owner.location) / "lock"
    note.write_text(note.read_text().replace(str(os.getpid()), str(2**22 - 1)))
    with pytest.raises(StoreFailed, match="close it there"):
        ViewStore(Path(owner.location))


def test_a_lock_that_is_asked_about_is_still_had_by_whoever_takes_it_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lockfile.unlocked(tmp_path / "lock"):
        assert not lockfile.is_held(tmp_path / "lock")
        monkeypatch.setattr(lockfile, "sleep", lambda _: None)
        with pytest.raises(StoreLocked):
            lockfile.LockFile(tmp_path / "lock")
    asked = lockfile.unlocked(tmp_path / "lock")
    asked.__enter__()
    monkeypatch.setattr(lockfile, "sleep", lambda _: asked.__exit__(None, None, None))
    held = lockfile.LockFile(tmp_path / "lock")
    assert lockfile.is_held(tmp_path / "lock")
    (tmp_path / "lock").unlink()
    assert lockfile.is_held(tmp_path / "lock")  # its folder is locked, too
    held.release()
    assert not lockfile.is_held(tmp_path / "lock")


def test_a_store_that_another_took_the_place_of_is_new_also_with_as_many_commits(tmp_path: Path) -> None:
    for name, number in (("a", 1), ("b", 2)):
        store = EmbeddedStore(tmp_path / name, create=True)
        leaf = Leaf("turns", "urn:trails:session:s", number, "ab" * 32)
        store.commit(Change(add=[quad(number)], leaves=[leaf]))
        store.close()
    view = ViewStore(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "old")
    (tmp_path / "b").rename(tmp_path / "a")
    assert view.refresh() is True
    assert seen(view) == {quad(2)}
    assert view.refresh() is False
    view.close()


def test_what_another_machine_or_another_start_of_it_wrote_is_not_believed(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position, "_boot", lambda: b"another boot. ..")
    with pytest.raises(look.NeedsOwner, match="another machine"):
        ViewStore(Path(owner.location))


def test_a_store_that_was_closed_can_be_seen_by_every_machine(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(owner, 1)
    owner.close()
    monkeypatch.setattr(position, "_boot", lambda: b"another boot. ..")
    view = ViewStore(Path(owner.location))
    assert seen(view) == {quad(1)}
    view.close()


def test_a_store_that_an_older_version_had_open_must_be_opened_once(owner: EmbeddedStore) -> None:
    commit(owner, 1)
    owner.close()
    folder = Path(owner.location)
    (folder / maintenance.POSITION).unlink()
    (folder / maintenance.LOCK).write_text('{"pid": 1, "host": "here", "since": "2026-01-01"}')
    with pytest.raises(look.NeedsOwner, match="older version"):
        ViewStore(folder)
    (folder / maintenance.LOCK).unlink()  # as in a backup, which nobody has opened yet
    view = ViewStore(folder)
    assert seen(view) == {quad(1)}
    view.close()


@pytest.mark.parametrize("left", [b"", b"TRAILSP\0 and no more"])
def test_a_store_of_which_nothing_says_how_far_it_was_written_must_be_opened_once(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    monkeypatch.setattr(look, "_STALLED", 0.05)
    commit(owner, 1)
    owner.close()
    folder = Path(owner.location)
    file = folder / maintenance.POSITION
    file.write_bytes(left) if left else file.unlink()
    with pytest.raises(look.NeedsOwner, match=r"'position'.*is missing or damaged; open it once to write"):
        ViewStore(folder)
    EmbeddedStore(folder).close()
    view = ViewStore(folder)
    assert seen(view) == {quad(1)}
    view.close()


def test_a_store_whose_process_was_killed_while_it_was_made_must_be_opened_once(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "_STALLED", 0.05)
    owner._release()
    owner._drop_engine()
    folder = Path(owner.location)
    (folder / maintenance.LOG).unlink()  # made after the position, which says that it is open
    with pytest.raises(look.NeedsOwner, match=r"was killed before it could be read; open it once to write"):
        ViewStore(folder)
    EmbeddedStore(folder).close()
    view = ViewStore(folder)
    assert seen(view) == set()
    view.close()


def test_a_damaged_commit_log_is_said_to_be_one(owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "_STALLED", 0.05)
    commit(owner, 1)
    commit(owner, 2)
    file = Path(owner.location) / maintenance.COMMITS / "0"
    data = bytearray(file.read_bytes())
    data[140] ^= 0xFF  # within the first record
    file.write_bytes(data)
    with pytest.raises(StoreFailed, match=r"commit log.*damaged"):
        ViewStore(Path(owner.location))


def test_a_folder_that_is_no_store_is_none_to_a_view_either(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no Trails store"):
        ViewStore(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


# --- other ways to keep a copy


@pytest.mark.parametrize("way", ["links", "copies", "few descriptors"])
def test_where_descriptors_cannot_be_held_links_and_then_copies_do(
    owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    commit(owner, *range(50))
    owner.flush()
    commit(owner, 51)
    if way == "few descriptors":
        monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    else:
        monkeypatch.setattr(capture, "can_hold", lambda: False)
    if way == "copies":
        monkeypatch.setattr(os, "link", refused)
    folder = Path(owner.location)
    view = ViewStore(folder)
    (kept,) = capture.readers_beside(folder)
    links = {path.stat().st_nlink for path in kept.glob("*.sst")}
    assert links == ({1} if way == "copies" else {2})
    owner.vacuum()
    assert seen(view) == {quad(each) for each in (*range(50), 51)}
    view.close()
    assert capture.readers_beside(folder) == []


def refused(*_: Any, **__: Any) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.fixture
def another_user(allowed: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """What lets root, for whom nothing is denied, read as somebody else, with a place for temporary files."""
    (allowed.parent / "tmp").mkdir()
    (allowed.parent / "tmp").chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(allowed.parent / "tmp"))
    return as_another


@contextmanager
def as_another() -> Iterator[None]:
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def allowed() -> Iterator[Path]:
    """The folder of a store that everybody may read; it stands where others may look."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "allowed.trails"
        owner = EmbeddedStore(place, create=True)
        commit(owner, 1, 2)
        owner.close()
        for each in (place, *place.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)
        yield place


@pytest.mark.parametrize(
    "what", [".", "trails.json", "position", "log", "commits", "commits/0", "quads", "quads/*.sst"]
)
def test_a_file_that_this_user_may_not_read_is_named_at_once(
    allowed: Path, another_user: Callable[[], AbstractContextManager[None]], what: str
) -> None:
    with another_user():
        view = ViewStore(allowed)
        assert seen(view) == {quad(1), quad(2)}
        view.close()
    denied = min(allowed.glob(what)) if what != "." else allowed
    denied.chmod(0)
    with another_user(), pytest.raises(StoreFailed, match=f"{denied} is for its owner alone"):
        ViewStore(allowed)
    denied.chmod(0o700)  # so that it can be removed


def test_copies_are_not_made_where_there_is_no_space(owner: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(owner, 1)
    owner.flush()
    monkeypatch.setattr(capture, "can_hold", lambda: False)
    monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1})())
    with pytest.raises(StoreFailed, match="too few for the copy of a table"):
        ViewStore(Path(owner.location))
    assert capture.readers_beside(Path(owner.location)) == []


@pytest.mark.parametrize("name", ["plain", "with [brackets] and * and ?"])
def test_a_vacuum_sweeps_the_links_of_readers_that_were_killed_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    owner = EmbeddedStore(tmp_path / name, create=True)
    commit(owner, 1)
    owner.flush()
    monkeypatch.setattr(capture, "can_hold", lambda: False)
    folder = Path(owner.location)
    living = ViewStore(folder)
    dead, other = (folder.with_name(f".{each}.1.dead_123.trails-view") for each in (name, "plainly another"))
    for each in (dead, other):
        each.mkdir()
        (each / "000010.sst").write_bytes(b"text")
    assert len(capture.readers_beside(folder)) == 2
    owner.vacuum()
    assert not dead.exists()
    assert other.exists()
    assert seen(living) == {quad(1)}
    living.close()
    owner.close()


# --- handles


def test_whatever_writes_is_refused_before_the_engine_is_asked(
    view: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ViewStore, "_engine", lambda _: pytest.fail("the engine was asked"))
    for change in (Change(add=[quad(9)]), Change(drop=[GRAPH])):
        with pytest.raises(StoreReadOnly, match="read_only=True"):
            view.commit(change)


def test_a_closed_view_refuses_everything_and_closes_twice(view: ViewStore) -> None:
    view.close()
    view.close()
    uses: list[Callable[[], object]] = [lambda: view.query("ASK {}"), lambda: len(view), lambda: view.number]
    uses += [view.refresh, lambda: view.commit(Change(add=[quad(1)]))]
    for use in uses:
        with pytest.raises(StoreFailed, match="closed"):
            use()


def test_many_views_in_one_process_each_keep_their_moment(owner: EmbeddedStore) -> None:
    views = []
    for number in range(12):
        commit(owner, number)
        views.append(ViewStore(Path(owner.location)))
    assert [len(each) for each in views] == list(range(1, 13))
    for each in views:
        each.close()


def test_a_view_is_refreshed_under_queries_that_run(owner: EmbeddedStore, view: ViewStore, size: Size) -> None:
    commits = 10 if size == "quick" else 29
    done = threading.Event()
    wrong: list[object] = []

    def ask() -> None:
        least = 0
        while not done.is_set():
            count = len(view.quads((None, None, None, None)))
            rows = view.table("SELECT ?s { GRAPH ?g { ?s ?p ?o } }")
            if not least <= count <= len(rows):
                wrong.append((least, count, len(rows)))
            least = count

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(2, commits + 1):
        commit(owner, number)
        assert view.refresh()
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(view) == commits


def test_a_forked_child_is_told_to_open_the_store_itself_and_takes_nothing_from_its_parent(
    view: ViewStore, owner: EmbeddedStore
) -> None:
    child = os.fork()
    if not child:  # pragma: no cover - another process
        code = 1
        try:
            view.quads((None, None, None, None))
        except StoreFailed as error:
            code = 0 if "forked" in str(error) else 2
        view.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert seen(view) == {quad(1)}
    commit(owner, 2)
    assert view.refresh()


@pytest.mark.slow
def test_where_no_more_files_can_be_opened_the_error_says_so_and_nothing_is_left(
    owner: EmbeddedStore, private: Path
) -> None:
    commit(owner, 1)
    owner.flush()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    for spare in (0, 2, 4, 8, 12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + spare, hard))
        try:
            view = ViewStore(Path(owner.location))
        except (StoreFailed, InvalidInput):
            pass
        else:
            view.close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert list(private.iterdir()) == []
        assert capture.readers_beside(Path(owner.location)) == []
    assert marker.read(Path(owner.location))["format"] == 3
