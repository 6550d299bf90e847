"""Blame says of each line of a file which turn wrote it, as `git blame` does for commits, and nothing where that is not known."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trails
from tests.support.machines import Size
from trails import FileVersion, InvalidInput, Repository, Session

pytestmark = pytest.mark.any_store


def wrote(session: Session, path: str = "a.py", at: int | None = None) -> list[tuple[str, int | None]]:
    return [(line.text, line.index) for line in session.files.blame(path, at)]


def test_each_line_is_the_turns_that_wrote_it(store: Repository) -> None:
    with store.create(id="plan", agent="coder") as plan:
        plan.append("user", "Write it")
        plan.append("assistant", "Written.", model="m-1", files={"a.py": b"one\ntwo\nthree"})
        plan.append("assistant", "Changed.", files={"a.py": b"zero\none\nTWO\nthree"})
    fork = plan.fork(at=2, id="fork")
    fork.append("assistant", "Otherwise.", files={"a.py": b"one\ntwo\nthree\n"})
    assert wrote(store.load("plan")) == [("zero", 2), ("one", 1), ("TWO", 2), ("three", 1)]
    assert wrote(plan, at=2) == [("one", 1), ("two", 1), ("three", 1)]
    fork.persist()
    first, _, last = store.load("fork").files.blame("a.py")
    assert (first.session_id, first.index, first.model, first.author, first.line) == ("plan", 1, "m-1", "coder", 1)
    assert (last.session_id, last.index) == ("fork", 2)  # it got an end, which makes it another line, as in git


def test_what_was_there_before_and_what_others_wrote_is_nobodys(memory: Repository) -> None:
    with memory.create() as plan:
        plan.append("tool", "found", files=[FileVersion(path="a.py", data=b"old\n", outside=True)])
        plan.append("tool", "wrote", files={"a.py": b"old\nmine\n"})
        plan.append("user", "And now?", files=[FileVersion(path="a.py", data=b"old\ntheirs\nmine\n", outside=True)])
        plan.append("tool", "wrote", files=[FileVersion(path="a.py", data=b"old\ntheirs\nmine\nlast\n", turns=2)])
    assert wrote(plan) == [("old", None), ("theirs", None), ("mine", 1), ("last", 3)]
    assert [line.turns for line in plan.files.blame("a.py")] == [1, 1, 1, 2]


def test_lines_are_nobodys_where_a_version_between_is_not_kept(memory: Repository) -> None:
    with memory.create(id="plan") as plan:
        for data in (b"1\n", b"1\n2\n", b"1\n2\n3\n", b"1\n2\n3\n4\n"):
            plan.append("tool", "wrote", files={"a.py": data})
    memory.redact("plan", 1)
    assert wrote(memory.load("plan")) == [("1", 0), ("2", None), ("3", None), ("4", 3)]
    with pytest.raises(InvalidInput, match="redacted at turn 1"):
        memory.load("plan").files.blame("a.py", at=2)


def test_a_file_that_is_written_again_after_it_was_deleted_is_new(memory: Repository) -> None:
    with memory.create() as plan:
        for data in (b"1\n", None, b"1\n"):
            plan.append("tool", "wrote", files={"a.py": data})
    assert wrote(plan) == [("1", 2)]
    with pytest.raises(InvalidInput, match="no such file after these turns"):
        plan.files.blame("a.py", at=2)
    with pytest.raises(InvalidInput, match="no such file after these turns"):
        plan.files.blame("b.py")


def test_what_is_no_text_has_no_lines(memory: Repository) -> None:
    with memory.create() as plan:
        plan.append("tool", "wrote", files={"a.bin": b"\0\n"})
        plan.append("tool", "wrote", files=[FileVersion(path="link", data=b"a.bin", mode="symlink")])
    for path in ("a.bin", "link"):
        with pytest.raises(InvalidInput, match="is no text"):
            plan.files.blame(path)
    plan.append("tool", "wrote", files={"latin": b"caf\xe9\r\n"})
    assert wrote(plan, "latin") == [("caf\ufffd\r", 2)]
    plan.persist()


# --- beside git


def edited(seed: int, edits: int) -> list[list[str]]:
    """Versions of a file, each made of the one before by an edit: a hunk of common lines too, or several of new ones alone."""
    chance = random.Random(seed)
    versions = [[f"first {number}\n" for number in range(chance.randrange(40))]]
    for edit in range(edits):
        lines = list(versions[-1])
        is_one = chance.random() < 0.5
        for hunk in range(1 if is_one else chance.randrange(1, 4)):
            start = chance.randrange(len(lines) + 1)
            gone = min(chance.randrange(4), len(lines) - start) if len(lines) < 80 else 12
            new = [f"line {edit}.{hunk}.{number}\n" for number in range(chance.randrange(5))]
            if is_one:
                new = [chance.choice(["\n", "}\n", "return\n"]) if chance.random() < 0.4 else line for line in new]
            lines[start : start + gone] = new
        versions.append(lines)
    return versions


def git_owners(folder: Path, versions: list[list[str]]) -> list[int]:
    """Which version each line of the last one comes from, as git says."""
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    told = []
    for number, lines in enumerate(versions):
        data, who = "".join(lines), f"v{number} <v@x> {1_700_000_000 + number} +0000"
        told.append(f"commit refs/heads/main\nmark :{number + 1}\nauthor {who}\ncommitter {who}\ndata 0\n")
        told.append(f"M 100644 inline a.py\ndata {len(data)}\n{data}\n")
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "fast-import", "--quiet"], input="".join(told).encode(), check=True)
    found = subprocess.run([*git, "blame", "--line-porcelain", "main", "--", "a.py"], check=True, capture_output=True)
    return [int(line.split(" v")[1]) for line in found.stdout.decode().splitlines() if line.startswith("author v")]


def check_beside_git(folder: Path, seed: int, edits: int) -> int:
    """Hold blame against git on a history, turns of others among it; return how many lines were compared."""
    versions = edited(seed, edits)
    with trails.open(":memory:") as store, store.create() as plan:
        for number, lines in enumerate(versions):
            data = "".join(lines).encode()
            plan.append("tool", "x", files=[FileVersion(path="a.py", data=data, outside=number % 5 == 4)])
        found = wrote(plan)
        plan.persist()
    assert "".join(f"{text}\n" for text, _ in found) == "".join(versions[-1])
    compared = 0
    for (text, index), owner in zip(found, git_owners(folder, versions), strict=True):
        if text.startswith(("first", "line")):  # of the others, which came several times, git may take another one
            compared += 1
            assert index == (None if owner % 5 == 4 else owner), (seed, text)
    return compared


def test_git_names_the_same_owners_after_200_random_edits(tmp_path: Path, size: Size) -> None:
    compared = [check_beside_git(tmp_path / str(seed), seed, 200) for seed in range(1 if size == "quick" else 10)]
    assert min(compared) > 10


@pytest.mark.slow
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), edits=st.integers(200, 260))
def test_git_names_the_same_owners_whatever_the_edits(
    seed: int, edits: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert check_beside_git(tmp_path_factory.mktemp("git"), seed, edits) >= 0
