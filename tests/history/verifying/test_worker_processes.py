"""Sessions that are checked in processes beside this one are checked as they are in this one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from tests.support import tampering
from tests.support.everything import everything
from trails import workers
from trails.history.verification import verify
from trails.model import iris
from trails.rdf import vocab
from trails.store.embedded import EmbeddedStore


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Any store has many turns; the list gets how many pieces of work processes were asked to do."""
    asked: list[int] = []
    each = workers.each

    def counted(begin: str, given: Any, pieces: Sequence[Any], processes: int) -> Iterator[tuple[Any, Any]]:
        asked.append(len(pieces))
        return each(begin, given, pieces, processes)

    monkeypatch.setattr(verify, "MANY_TURNS", 1)
    monkeypatch.setattr(workers, "count", lambda: 2)
    monkeypatch.setattr(workers, "each", counted)
    return asked


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(place, create=True, durability="process") as store:
        everything(store)
    return place


def altered(place: Path, digest: str) -> None:
    """Write another text into the turn of a digest, past Trails."""
    with tampering.altered(place) as engine:
        (found,) = engine.quads_for_pattern(None, vocab.DIGEST, ox.Literal(digest), None)
        (text,) = engine.quads_for_pattern(found.subject, vocab.VALUE, None, found.graph_name)
        engine.remove(text)
        engine.add(ox.Quad(text.subject, text.predicate, ox.Literal("something else"), text.graph_name))


@pytest.mark.slow
def test_a_sound_store_is_found_sound_with_as_many_sessions_and_turns(place: Path, many: list[int]) -> None:
    for read_only in (True, False):
        with trails.open(place, read_only=read_only) as store:
            by_others = store.verify()
        with trails.open(place, read_only=read_only) as store, pytest.MonkeyPatch.context() as patch:
            patch.setattr(verify, "MANY_TURNS", 1 << 60)
            alone = store.verify()
        assert by_others == alone
        assert by_others.ok, by_others.findings
    assert len(many) == 2


def test_an_altered_turn_is_named(place: Path, many: list[int]) -> None:
    with trails.open(place) as store:
        turn = store.load("plan").turns[4]
    altered(place, turn.digest)
    with trails.open(place, read_only=True) as store:
        found = store.verify().findings
    assert ("digest-mismatch", turn.session_id, turn.index) in {(f.code, f.session_id, f.index) for f in found}
    assert many


def test_an_owner_finds_what_was_altered_in_its_open_engine(tmp_path: Path, many: list[int]) -> None:
    with trails.open(tmp_path / "plan.trails", create=True, durability="process") as store:
        session = store.create(id="plan")
        session.append("user", "hi")
        session.persist()
        store.create(id="other").persist()
        graph, turn = ox.NamedNode(iris.session("plan")), ox.NamedNode(session.turns[0].iri)
        stray = ox.Quad(turn, vocab.ROLE, ox.Literal("system"), graph)
        assert isinstance(store.store, EmbeddedStore)
        store.store.settled_engine().add(stray)
        found = store.verify().findings
    assert {f.session_id for f in found} == {"plan"}
    assert many


@pytest.mark.slow
def test_where_a_process_ends_at_once_this_one_does_its_work(
    place: Path, many: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(place, read_only=True) as store:
        whole = store.verify()
        monkeypatch.setattr(workers, "_START", "raise SystemExit(3)")
        assert store.verify() == whole
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        assert store.verify() == whole
    assert len(many) == 3


def test_progress_is_told_by_turns_to_the_last_one(place: Path, many: list[int]) -> None:
    told: list[tuple[int, int, str]] = []
    with trails.open(place, read_only=True) as store:
        report = store.verify(progress=lambda *each: told.append(each))
    assert told[-1][0] == report.turns
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert len(told) == many[0]


@pytest.mark.slow
def test_the_main_module_of_whoever_verifies_is_not_run_again(place: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, trails\n"
        "from trails.history.verification import verify\n"
        "print('run', flush=True)\n"
        "verify.MANY_TURNS = 1\n"
        "verify.workers.count = lambda: 2\n"
        "print(trails.open(sys.argv[1], read_only=True).verify().ok)\n"
    )

    done = subprocess.run([sys.executable, script, place], check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["run", "True"], done.stderr


def test_nothing_is_left_running_or_lying_about(place: Path, many: list[int]) -> None:
    before = files(place)
    others = children()  # servers that other tests go on with
    with trails.open(place, read_only=True) as store:
        store.verify()
        assert set(children()) <= set(others)
    assert files(place) == before


def files(place: Path) -> list[str]:
    """Return the files of a store but those in which SQLite lets processes know of each other."""
    found = (f"{path.relative_to(place)}" for path in place.rglob("*") if path.is_file())
    return sorted(each for each in found if not each.endswith(("-wal", "-shm")))


def children() -> list[str]:
    """Return the processes that this one started and that did not end, where the system tells."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        return []
    return [child for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def test_the_longest_sessions_are_begun_first_and_short_ones_share_a_piece() -> None:
    turns: dict[str | int, int] = {"a": 100, "b": 700, "c": 499, "d": 0, "e": 500, "f": 1}
    assert verify._pieces(turns) == [["b"], ["e"], ["c", "a"], ["f", "d"]]
    assert verify._pieces({}) == []
