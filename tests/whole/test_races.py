"""Nothing is half done, whoever comes between: what another thread, a refusal or a kill does in the middle of an operation."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.machines import Size
from tests.support.sessions import contents, say
from trails import HasChildren, HeadConflict, IndexGap, InvalidInput, Repository, Session, SessionNotFound
from trails.exchange import rdf_files
from trails.history.removal import deletion, detach
from trails.rdf import vocab
from trails.session.maintenance import embedded_store
from trails.store import Change, Committed

PRIVATE = "swordfish-4711"
HOLDS_IT = f'ASK {{ GRAPH ?g {{ ?s ?p ?o FILTER(CONTAINS(STR(?o), "{PRIVATE}")) }} }}'


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy two turns in a commit, so that a short transcript takes several."""
    monkeypatch.setattr(detach, "_BATCH", 2)


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Repository]:
    """A store on disk: "root" of four turns, one with a secret, a label, and "fork", which inherits three of them."""
    with trails.open(tmp_path / "store", create=True, durability="process") as store:
        root = say(store.create(id="root", label="taken"), "a", PRIVATE, "c", "d")
        say(root.fork(at=3, id="fork"), "own")
        yield store


def at_each_commit(store: Repository, monkeypatch: pytest.MonkeyPatch, step: Callable[[int], None]) -> None:
    """Do something just before each commit, given its number."""
    commit, numbers = store.store.commit, itertools.count()

    def after_step(change: Change) -> Committed:
        step(next(numbers))
        return commit(change)

    monkeypatch.setattr(store.store, "commit", after_step)


def once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, step: Callable[[], object]) -> None:
    """Do something just after a method has returned for the first time: another writer that comes between."""
    method = getattr(owner, name)

    def then(*args: Any, **kwargs: Any) -> Any:
        found = method(*args, **kwargs)
        monkeypatch.setattr(owner, name, method)
        step()
        return found

    monkeypatch.setattr(owner, name, then)


def assert_sound(store: Repository) -> None:
    report = store.verify()
    assert report.ok, report.findings[:3]


# --- copies that do not come about


def test_a_flatten_that_is_refused_for_its_label_writes_nothing(filled: Repository) -> None:
    before = sorted(map(str, filled.store.quads((None, None, None, None))))
    with pytest.raises(InvalidInput, match="the label 'taken' is in use"):
        filled.flatten("fork", id="flat", label="taken")
    assert sorted(map(str, filled.store.quads((None, None, None, None)))) == before
    assert contents(filled, filled.flatten("fork", id="flat").id) == ["a", PRIVATE, "c", "own"]
    assert_sound(filled)


@pytest.mark.usefixtures("small_batches")
def test_a_flatten_whose_label_is_taken_meanwhile_takes_its_copies_out_again(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_the_label(number: int) -> None:
        if number == 2:  # the mark and a batch are written, another batch and the row are not
            monkeypatch.undo()
            filled.set_label("fork", "wanted")

    before = len(filled.store)
    at_each_commit(filled, monkeypatch, take_the_label)
    with pytest.raises(InvalidInput, match="the label 'wanted' is in use"):
        filled.flatten("root", id="flat", label="wanted")
    assert len(filled.store) == before + 9  # the label, the salt of what may change, and seven that say who set it
    assert "flat" not in filled
    assert_sound(filled)
    assert contents(filled, filled.flatten("root", id="flat").id) == ["a", PRIVATE, "c", "d"]
    assert_sound(filled)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("what", ["flatten", "detach"])
def test_a_copy_that_is_killed_between_any_two_commits_is_gone_when_the_store_is_opened_again(
    filled: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    cuts: list[Path] = []

    def cut(number: int) -> None:
        cuts.append(tmp_path / f"cut-{number}")
        embedded_store(filled.store, "back up").backup(cuts[-1])  # what a kill would leave between two commits

    before = len(filled.store)
    at_each_commit(filled, monkeypatch, cut)
    if what == "flatten":
        filled.flatten("root", id="copy")
    else:
        filled.detach("fork")
    monkeypatch.undo()
    assert len(cuts) == 4  # the mark, two batches (of two turns and two, or two and one), the row
    for place in cuts:
        with trails.open(place) as store:
            assert len(store.store) == before, place
            assert_sound(store)
            assert contents(store, "fork") == ["a", PRIVATE, "c", "own"]
            store.delete("root", children="cascade")
            assert store.query(HOLDS_IT) is False
            assert contents(store, say(store.create(id="copy"), "mine").id) == ["mine"]
            assert_sound(store)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("interrupted_at", range(4))
@pytest.mark.parametrize("what", ["flatten", "detach"])
def test_a_copy_that_is_interrupted_takes_itself_out_again(
    filled: Repository, monkeypatch: pytest.MonkeyPatch, what: str, interrupted_at: int
) -> None:
    def interrupt(number: int) -> None:
        if number == interrupted_at:
            raise KeyboardInterrupt

    before = sorted(map(str, filled.store.quads((None, None, None, None))))
    at_each_commit(filled, monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        filled.flatten("root", id="copy") if what == "flatten" else filled.detach("fork")
    monkeypatch.undo()
    assert sorted(map(str, filled.store.quads((None, None, None, None)))) == before
    filled.flatten("root", id="copy") if what == "flatten" else filled.detach("fork")
    assert_sound(filled)


@pytest.mark.usefixtures("small_batches")
def test_while_a_copy_is_made_nobody_takes_its_id_and_verify_deletions_and_vacuums_leave_it_alone(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(filled.create(id="other"), "x")

    def meddle(number: int) -> None:
        if number == 2:
            monkeypatch.undo()
            assert_sound(filled)
            with pytest.raises(InvalidInput, match="'flat'"):
                filled.create(id="flat").persist()
            with pytest.raises(InvalidInput, match="'flat'"):
                filled.flatten("fork", id="flat")
            filled.delete("other")
            filled.maintenance.vacuum()

    at_each_commit(filled, monkeypatch, meddle)
    filled.flatten("root", id="flat")
    assert contents(filled, "flat") == ["a", PRIVATE, "c", "d"]
    assert_sound(filled)


@pytest.mark.usefixtures("small_batches")
def test_a_fork_that_is_deleted_while_it_is_detached_leaves_nothing(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(number: int) -> None:
        if number == 2:
            monkeypatch.undo()
            filled.delete("fork")

    at_each_commit(filled, monkeypatch, delete)
    with pytest.raises(InvalidInput, match="deleted meanwhile"):
        filled.detach("fork")
    assert filled.query("ASK { GRAPH <urn:trails:session:fork> { ?s ?p ?o } }") is False
    assert_sound(filled)
    filled.delete("root")
    assert filled.query(HOLDS_IT) is False
    assert_sound(filled)


def test_a_session_that_is_deleted_while_it_is_read_is_not_read_in_part(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, filled.reader, "lineage", lambda: filled.delete("fork"))
    with pytest.raises(SessionNotFound, match="'fork' was deleted"):
        filled.replay("fork")


def test_a_fork_whose_parent_goes_while_it_is_read_is_read_whole(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, filled.reader, "lineage", lambda: filled.delete("root", children="detach"))
    assert [turn["content"] for turn in filled.replay("fork")] == ["a", PRIVATE, "c", "own"]


@pytest.mark.parametrize("step", ["lineage", "turns", "sealed"])
def test_a_session_that_is_deleted_while_it_is_flattened_is_not_copied_in_part(
    filled: Repository, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    read = filled.reader.of_quads if step == "turns" else filled.reader
    once(monkeypatch, read, step, lambda: filled.delete("fork"))
    with pytest.raises(SessionNotFound, match="'fork' was deleted"):
        filled.flatten("fork", id="flat")
    assert "flat" not in filled
    assert_sound(filled)


@pytest.mark.usefixtures("small_batches")
def test_a_fork_that_is_deleted_by_one_who_looked_before_it_was_being_detached_leaves_nothing_either(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = deletion._rows

    def delete(number: int) -> None:
        if number == 1:  # the mark is there
            monkeypatch.undo()
            marked = [quad for quad in look(filled.store, ["fork"]) if quad.object == vocab.UNFINISHED_COPY]
            with monkeypatch.context() as patched:
                patched.setattr(deletion, "_rows", lambda *a, **more: [q for q in look(*a, **more) if q not in marked])
                filled.delete("fork")

    at_each_commit(filled, monkeypatch, delete)
    with pytest.raises(InvalidInput, match="deleted meanwhile"):
        filled.detach("fork")
    assert filled.query("ASK { GRAPH <urn:trails:session:fork> { ?s ?p ?o } }") is False
    assert_sound(filled)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("step", ["lineage", "turns", "sealed", "prompts"])
def test_a_fork_that_is_deleted_while_it_is_read_to_be_detached_leaves_nothing(
    filled: Repository, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    read = filled.reader.of_quads if step == "turns" else filled.reader
    once(monkeypatch, read, step, lambda: filled.delete("fork"))
    with pytest.raises((InvalidInput, SessionNotFound), match="deleted"):
        filled.detach("fork")
    assert filled.query("ASK { GRAPH <urn:trails:session:fork> { ?s ?p ?o } }") is False
    assert_sound(filled)


@pytest.mark.usefixtures("small_batches")
def test_a_fork_that_is_deleted_just_before_its_detach_is_done_was_not_detached(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(number: int) -> None:
        if number == 3:
            monkeypatch.undo()
            filled.delete("fork")

    at_each_commit(filled, monkeypatch, delete)
    with pytest.raises(InvalidInput, match="deleted or detached"):
        filled.detach("fork")
    assert_sound(filled)


# --- what is appended, forked, spawned or tagged meanwhile


def test_what_is_appended_while_a_fork_is_detached_is_in_the_log_and_verify_accuses_nobody(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, filled.reader, "sealed", lambda: say(filled.load("fork"), "meanwhile"))
    filled.detach("fork")
    assert contents(filled, "fork") == ["a", PRIVATE, "c", "own", "meanwhile"]
    assert_sound(filled)


def _forked(store: Repository) -> Session:
    return say(store.load("fork").fork(id="late"), "x")


def _spawned(store: Repository) -> Session:
    return say(store.create(id="late", spawned_by="fork"), "x")


def _tagged(store: Repository) -> object:
    return store.tags.add("late", "fork")


@pytest.mark.parametrize("come", [_forked, _spawned, _tagged])
def test_what_comes_to_depend_on_a_session_while_it_goes_with_all_of_its_own_goes_too_by_name(
    filled: Repository, monkeypatch: pytest.MonkeyPatch, come: Callable[[Repository], object]
) -> None:
    once(monkeypatch, filled.reader, "dependants", lambda: come(filled))
    gone = filled.delete("root", children="cascade")
    assert sorted(gone) == (["fork", "root"] if come is _tagged else ["fork", "late", "root"])
    assert filled.tags.list() == []
    assert_sound(filled)


@pytest.mark.parametrize("come", [_spawned, _tagged])
def test_what_comes_to_depend_on_a_session_that_is_deleted_alone_keeps_it(
    filled: Repository, monkeypatch: pytest.MonkeyPatch, come: Callable[[Repository], object]
) -> None:
    once(monkeypatch, filled.reader, "dependants", lambda: come(filled))
    with pytest.raises(HasChildren, match="late"):
        filled.delete("fork")
    assert contents(filled, "fork") == ["a", PRIVATE, "c", "own"]
    assert_sound(filled)


def test_all_forks_that_came_while_a_session_was_deleted_are_named(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def come() -> None:
        for name in ("late-b", "late-a"):
            say(filled.load("fork").fork(id=name), "x")

    once(monkeypatch, filled.reader, "dependants", come)
    with pytest.raises(HasChildren, match=r"2 dependent sessions \('late-a', 'late-b'\)"):
        filled.delete("fork")
    assert_sound(filled)


def test_a_fork_that_comes_while_the_children_are_detached_is_detached_too(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, filled.reader, "branches", lambda: say(filled.load("root").fork(at=2, id="late"), "x"))
    assert filled.delete("root", children="detach") == ["root"]
    assert contents(filled, "late") == ["a", PRIVATE, "x"]
    assert contents(filled, "fork") == ["a", PRIVATE, "c", "own"]
    assert_sound(filled)


def test_a_dependant_that_another_writer_deletes_meanwhile_is_no_reason_to_say_that_the_session_is_gone(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, filled.reader, "dependants", lambda: filled.delete("fork"))
    assert filled.delete("root", children="cascade") == ["root"]
    assert_sound(filled)


# --- two threads, again and again


class Rounds:
    """Two threads that do something each to one family of sessions, at once, round after round.

    Each round has its own sessions: "N" of three turns, "N-fork", which inherits two of them, and what the two make.
    """

    def __init__(self, store: Repository, seed: str) -> None:
        self._store = store
        self._chance = random.Random(seed)
        self._pool = ThreadPoolExecutor(2)
        self.known: dict[str, list[str]] = {}
        """By session, the texts that were acknowledged."""
        self.gone: set[str] = set()
        """The sessions that a deletion named as gone."""
        self.tags: dict[str, str] = {}
        self.done: list[tuple[str, str]] = []

    def run(self, number: int) -> None:
        root = say(self._store.create(id=f"{number}"), *(f"{number}-{n}" for n in range(3)))
        say(root.fork(at=2, id=f"{number}-fork"), f"{number}-own")
        self.known |= {
            f"{number}": [f"{number}-0", f"{number}-1", f"{number}-2"],
            f"{number}-fork": [f"{number}-0", f"{number}-1", f"{number}-own"],
        }
        steps = self._chance.choices(STEPS, k=2)
        barrier = threading.Barrier(2)
        ran = [self._pool.submit(self._step, step, number, who, barrier) for who, step in enumerate(steps)]
        outcome = [each.result() for each in ran]
        self.done.append((f"{steps[0].__name__} {outcome[0]}", f"{steps[1].__name__} {outcome[1]}"))

    def _step(self, step: Step, number: int, who: int, barrier: threading.Barrier) -> str:
        work = step(self, f"{number}", f"{number}-{who}")
        barrier.wait()
        try:
            work()
        except (HasChildren, HeadConflict, InvalidInput, SessionNotFound, IndexGap) as error:
            return type(error).__name__
        return "done"

    def check(self) -> None:
        """Hold the store against everything that was acknowledged."""
        report = self._store.verify()
        assert report.ok, (report.findings[:3], self.done)
        for name, expected in self.known.items():
            if name in self.gone:
                assert name not in self._store, name
            else:
                assert contents(self._store, name)[: len(expected)] == expected, name
        tags = {tag.name: tag.session_id for tag in self._store.tags.list()}
        assert tags == {tag: name for tag, name in self.tags.items() if name not in self.gone}

    # Each gets ready, and returns what is done at the same time as the other's.

    def fork(self, base: str, mine: str) -> Callable[[], object]:
        made = self._store.load(f"{base}-fork").fork(at=3, id=f"{mine}-new")
        made.append("user", f"{mine}-new")

        def work() -> None:
            made.persist()
            self.known[made.id] = [f"{base}-0", f"{base}-1", f"{base}-own", f"{mine}-new"]

        return work

    def append(self, base: str, mine: str) -> Callable[[], object]:
        fork = self._store.load(f"{base}-fork")
        fork.append("user", f"{mine}-more")

        def work() -> None:
            fork.persist()
            self.known[fork.id] = [f"{base}-0", f"{base}-1", f"{base}-own", f"{mine}-more"]

        return work

    def keep(self, base: str, mine: str) -> Callable[[], object]:
        fork = self._store.load(f"{base}-fork")
        fork.append("user", f"{mine}-kept")

        def work() -> None:
            kept = fork.keep_as_fork(id=f"{mine}-kept")
            self.known[kept.id] = [f"{base}-0", f"{base}-1", f"{base}-own", f"{mine}-kept"]

        return work

    def pick(self, base: str, mine: str) -> Callable[[], object]:
        made = self._store.create(id=f"{mine}-picked")
        made.cherry_pick(f"{base}-fork", [0, 2])

        def work() -> None:
            made.persist()
            self.known[made.id] = [f"{base}-0", f"{base}-own"]

        return work

    def spawn(self, base: str, mine: str) -> Callable[[], object]:
        made = self._store.create(id=f"{mine}-spawned", spawned_by=f"{base}-fork")
        made.append("user", f"{mine}-spawned")

        def work() -> None:
            made.persist()
            self.known[made.id] = [f"{mine}-spawned"]

        return work

    def detach(self, base: str, mine: str) -> Callable[[], object]:
        return lambda: self._store.detach(f"{base}-fork")

    def flatten(self, base: str, mine: str) -> Callable[[], object]:
        def work() -> None:
            made = self._store.flatten(f"{base}-fork", id=f"{mine}-flat", label=f"{base}-label")
            self.known[made.id] = [f"{base}-0", f"{base}-1", f"{base}-own"]

        return work

    def name(self, base: str, mine: str) -> Callable[[], object]:
        return lambda: self._store.set_label(f"{base}-fork", f"{base}-label")

    def tag(self, base: str, mine: str) -> Callable[[], object]:
        def work() -> None:
            self.tags[self._store.tags.add(f"{mine}-tag", f"{base}-fork").name] = f"{base}-fork"

        return work

    def delete(self, base: str, mine: str) -> Callable[[], object]:
        return lambda: self.gone.update(self._store.delete(f"{base}", children="cascade"))

    def delete_fork(self, base: str, mine: str) -> Callable[[], object]:
        return lambda: self.gone.update(self._store.delete(f"{base}-fork"))

    def delete_root(self, base: str, mine: str) -> Callable[[], object]:
        return lambda: self.gone.update(self._store.delete(f"{base}", children="detach"))

    def bring(self, base: str, mine: str) -> Callable[[], object]:
        """Import a fork that was made in another store."""
        data, theirs = BytesIO(), BytesIO()
        rdf_files.export_session(self._store, f"{base}-fork", "nquads", theirs)
        with trails.open(":memory:") as other:
            rdf_files.import_rdf(other, theirs.getvalue(), "nquads")
            made = say(other.load(f"{base}-fork").fork(id=f"{mine}-brought"), f"{mine}-brought")
            rdf_files.export_session(other, made.id, "nquads", data)

        def work() -> None:
            report = rdf_files.import_rdf(self._store, data.getvalue(), "nquads")
            if report.forks_created:
                self.known[made.id] = [f"{base}-0", f"{base}-1", f"{base}-own", f"{mine}-brought"]

        return work


Step = Callable[[Rounds, str, str], Callable[[], object]]
STEPS: list[Step] = [
    *(Rounds.fork, Rounds.append, Rounds.keep, Rounds.pick, Rounds.spawn, Rounds.detach, Rounds.flatten, Rounds.name),
    *(Rounds.tag, Rounds.bring, Rounds.delete, Rounds.delete, Rounds.delete_fork, Rounds.delete_root),
]


def test_a_row_that_grows_while_its_session_is_deleted_goes_whole_and_is_logged_as_deleted_once(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(store.create(id="s"), "one")
    once(monkeypatch, deletion, "_rows", lambda: store.set_label("s", "late"))  # between the look and the commit
    assert store.delete("s") == ["s"]
    assert store.verify().findings == ()
    assert [leaf.split()[0] for leaf in store.store.log.lines() if leaf.split()[1].endswith(":s")].count("delete") == 1
    assert store.resolve(say(store.create(id="t", label="late"), "two").id) == "t"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning")  # forks of sessions that were deleted
def test_whatever_two_threads_do_at_once_what_was_acknowledged_is_there_or_was_deleted_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: Size
) -> None:
    rounds = {"quick": 20, "all": 60, "long": 10_000}[size]
    monkeypatch.setattr(detach, "_BATCH", 1)  # a commit for each turn: more moments for the other thread
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for first in range(0, rounds, 500):
            with trails.open(tmp_path / f"store-{first}", create=True, durability="process") as store:
                work = Rounds(store, f"rounds from {first}")
                for number in range(first, min(first + 500, rounds)):
                    work.run(number)
                work.check()
    finally:
        sys.setswitchinterval(interval)
