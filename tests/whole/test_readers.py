"""Readers beside an owner in another process: what they see, what they touch, and what they leave when they are killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import trails
from tests.support import busy_owner
from tests.support.busy_owner import LARGE, SESSIONS, Told
from tests.support.machines import Size
from tests.support.places import ROOT
from trails import Repository

OPENS = {"quick": 20, "all": 30, "long": 1000}


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, for this test alone."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


@contextmanager
def working(place: Path, told: Path, seed: int = 1) -> Iterator[None]:
    """A process that owns a store and works with it all the while."""
    told.write_bytes(bytes(busy_owner.FORM.size))
    command = [sys.executable, "-m", "tests.support.busy_owner", str(place), str(told), str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.communicate("stop\n", timeout=120)
        assert process.returncode == 0


def check(view: Repository, acknowledged: Told, begun: Told, session: int) -> None:
    """Hold what is seen against what was acknowledged before the look, and begun when it ended."""
    turns = view.load(f"s{session}").turns
    assert acknowledged.turns[session] <= len(turns) <= begun.turns[session]
    for turn in turns:
        said = busy_owner.text(session, turn.index)
        if turn.index < acknowledged.redacted[session]:
            assert turn.content == ""
        elif turn.index >= begun.redacted[session]:
            assert turn.content == said
        else:
            assert turn.content in ("", said)
    sizes = view.query("SELECT ?g (COUNT(?t) AS ?n) { GRAPH ?g { ?t a trails:Turn } } GROUP BY ?g")
    counted = {row["g"].value.removeprefix("urn:trails:session:"): int(row["n"].value) for row in sizes}  # type: ignore[union-attr] # a SELECT
    for number in range(SESSIONS):
        assert acknowledged.turns[number] <= counted.get(f"s{number}", 0) <= begun.turns[number]
    there = {record.id for record in view.list(limit=1000)}
    for number in range(begun.deleted, acknowledged.brought):
        assert counted[f"large{number}"] == LARGE
        assert f"large{number}" in there
    for number in range(begun.brought):
        if f"large{number}" in there:
            assert counted[f"large{number}"] == LARGE
            assert number >= acknowledged.deleted


@pytest.mark.slow
def test_every_look_beside_an_owner_that_does_everything_is_right_and_leaves_nothing(
    tmp_path: Path, private: Path, size: Size
) -> None:
    place, told = tmp_path / "store", tmp_path / "told"
    with trails.open(tmp_path / "other", create=True) as other:
        other.query("ASK {}")  # starts a worker that the process keeps
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with working(place, told), trails.open(place, read_only=True) as kept:
        for number in range(OPENS[size]):
            _, acknowledged = busy_owner.read(told)
            with trails.open(place, read_only=True) as view:
                begun, _ = busy_owner.read(told)
                check(view, acknowledged, begun, number % SESSIONS)
                if number % 10 == 0:
                    report = view.verify()
                    assert report.findings == ()
                    assert report.up_to == view.store.number
            _, acknowledged = busy_owner.read(told)
            kept.refresh()
            begun, _ = busy_owner.read(told)
            check(kept, acknowledged, begun, number % SESSIONS)
    assert list(private.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".trails-view")] == []
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    with trails.open(place) as store:
        assert store.verify().findings == ()


READER = """
import sys, trails
view = trails.open(sys.argv[1], read_only=True)
assert view.load("s").turns[0].content == sys.argv[2]
print("seen", flush=True)
sys.stdin.read()
"""


def test_a_view_stays_at_the_moment_of_its_refresh_and_verifies_whatever_comes_after_it(tmp_path: Path) -> None:
    place = tmp_path / "store"
    with trails.open(place, create=True) as owner, owner.session("s") as session:
        session.append("user", "zero")
        session.persist()
        with trails.open(place, read_only=True) as view:
            session.append("user", "one")
            session.persist()
            assert view.refresh()
            session.append("user", "two")
            session.persist()
            assert [turn.content for turn in view.load("s").turns] == ["zero", "one"]
            owner.redact("s", 0)
            assert view.verify().findings == ()
            assert [turn.content for turn in view.load("s").turns] == ["zero", "one"]
            assert view.refresh()
            assert [turn.content for turn in view.load("s").turns] == ["", "one", "two"]
            assert view.verify().findings == ()
