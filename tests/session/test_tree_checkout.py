"""A checkout writes the files as they were after a turn: all or nothing, and never over or outside of anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, Quad

import trails
from trails import FileVersion, InvalidInput, Payload, Repository, Session, TrailsError
from trails.model.file_versions import FILE_TYPE
from trails.rdf import vocab
from trails.session import tree_writer
from trails.store.contract import Change

pytestmark = pytest.mark.any_store


def written(store: Repository, *turns: Any) -> Session:
    """plan, whose turns make of files what is given."""
    with store.create(id="plan") as plan:
        for files in turns:
            plan.append("assistant", "Written.", files=files)
    return plan


def tree(folder: Path) -> dict[str, bytes | str]:
    """What a folder holds: contents of files, and where links lead."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"-> {path.readlink()}"
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def left(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_the_tree_is_written_as_it_was_after_each_turn(store: Repository, tmp_path: Path) -> None:
    place = tmp_path / "at"
    place.mkdir()
    plan = written(
        store,
        [FileVersion(path="run.sh", data=b"#!", mode="executable"), FileVersion(path="src/a.py", data=b"one")],
        [FileVersion(path="src/link", data=b"a.py", mode="symlink"), FileVersion(path="src/a.py", data=b"two")],
        {"run.sh": None, "empty": b""},
    )
    assert plan.files.checkout(place / "1", at=1).files == 2
    assert plan.files.checkout(place / "2", at=2).files == 3
    assert plan.files.checkout(str(place / "3")).folder == str(place / "3")
    assert tree(place / "1") == {"run.sh": b"#!", "src/a.py": b"one"}
    assert tree(place / "2") == {"run.sh": b"#!", "src/a.py": b"two", "src/link": "-> a.py"}
    assert tree(place / "3") == {"empty": b"", "src/a.py": b"two", "src/link": "-> a.py"}
    assert stat.S_IMODE((place / "1/run.sh").stat().st_mode) & 0o100
    assert not stat.S_IMODE((place / "1/src/a.py").stat().st_mode) & 0o111
    assert left(place) == ["1", "2", "3"]  # no part of any stays


def test_an_empty_folder_is_filled_and_nothing_is_ever_written_over(memory: Repository, tmp_path: Path) -> None:
    plan = written(memory, {"a.py": b"x"})
    (tmp_path / "empty").mkdir()
    plan.files.checkout(tmp_path / "empty")
    assert tree(tmp_path / "empty") == {"a.py": b"x"}
    (tmp_path / "file").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("empty", "file", "link", "dangling"):
        with pytest.raises(InvalidInput, match="no empty folder"):
            plan.files.checkout(tmp_path / name)
    with pytest.raises(InvalidInput, match="cannot be written"):
        plan.files.checkout(tmp_path / "not/there")
    assert left(tmp_path) == ["dangling", "empty", "file", "link", "other"]
    assert (left(tmp_path / "other"), (tmp_path / "file").read_text()) == ([], "mine")


def test_a_session_without_files_says_so(memory: Repository, tmp_path: Path) -> None:
    plan = written(memory, {"a.py": b"x"}, {"a.py": None})
    for at in (0, 2):
        with pytest.raises(InvalidInput, match="has no files then"):
            plan.files.checkout(tmp_path / "out", at=at)
    assert left(tmp_path) == []


ATTACKS: dict[str, list[FileVersion]] = {
    "a file below a link that leads out": [
        FileVersion(path="d", data=b"/tmp", mode="symlink"), FileVersion(path="d/evil", data=b"x"),
    ],
    "a file below a file": [FileVersion(path="d", data=b"x"), FileVersion(path="d/e", data=b"x")],
    "git's configuration": [FileVersion(path=".git/config", data=b"[core]\nfsmonitor = evil")],
    "git's folder in capitals": [FileVersion(path="a/.GIT/hooks/post-checkout", data=b"x", mode="executable")],
    "git's folder by its short name": [FileVersion(path="GIT~1/config", data=b"x")],
    "git's folder with a character that HFS+ ignores": [FileVersion(path=".g\u200cit/config", data=b"x")],
    "git's folder with a dot that Windows ignores": [FileVersion(path=".git./config", data=b"x")],
    "git's folder as a stream of NTFS": [FileVersion(path=".git::$INDEX_ALLOCATION/config", data=b"x")],
}  # fmt: skip
DOUBTFUL: dict[str, list[FileVersion]] = {
    "a name that is turned around": [FileVersion(path="a\u202egnp.py", data=b"x")],
    "two names that differ in case": [FileVersion(path="README", data=b"1"), FileVersion(path="readme", data=b"2")],
    "two folders that differ in case": [FileVersion(path="A/x", data=b"1"), FileVersion(path="a/y", data=b"2")],
    "two forms of one letter": [FileVersion(path="\u00e9", data=b"1"), FileVersion(path="e\u0301", data=b"2")],
    "a device of Windows": [FileVersion(path="src/aux.c", data=b"x")],
    "another device": [FileVersion(path="COM1", data=b"x")],
    "a dot at the end": [FileVersion(path="a.", data=b"x")],
    "a space at the end": [FileVersion(path="a /b", data=b"x")],
    "a stream of NTFS": [FileVersion(path="a:b", data=b"x")],
    "a link to an absolute path": [FileVersion(path="l", data=b"/etc/passwd", mode="symlink")],
    "a link that leads up and out": [FileVersion(path="a/l", data=b"../../x", mode="symlink")],
    "links that lead out together": [
        FileVersion(path="s/t/u", data=b"../..", mode="symlink"), FileVersion(path="v", data=b"s/t/u/..", mode="symlink"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("what", ATTACKS)
def test_what_would_be_written_elsewhere_is_refused_whoever_is_trusted(
    what: str, trusted: bool, tmp_path: Path
) -> None:
    with trails.open(":memory:") as store:
        plan = written(store, ATTACKS[what])
        with pytest.raises(InvalidInput, match="nothing was written"):
            plan.files.checkout(tmp_path / "out", trusted=trusted)
        assert left(tmp_path) == []


@pytest.mark.parametrize("what", DOUBTFUL)
def test_what_would_be_another_tree_elsewhere_is_written_only_if_trusted(what: str, tmp_path: Path) -> None:
    with trails.open(":memory:") as store:
        plan = written(store, DOUBTFUL[what])
        with pytest.raises(InvalidInput, match="--trusted"):
            plan.files.checkout(tmp_path / "out")
        assert left(tmp_path) == []
        assert plan.files.checkout(tmp_path / "out", trusted=True).files == len(DOUBTFUL[what])
        assert len(tree(tmp_path / "out")) == len(DOUBTFUL[what])


def test_links_within_the_tree_are_no_attack(memory: Repository, tmp_path: Path) -> None:
    links = {"a/up": b"../b", "a/b/c": b"../../x/y", "here": b".", "down": b"a/b"}
    plan = written(memory, [FileVersion(path=path, data=data, mode="symlink") for path, data in links.items()])
    assert plan.files.checkout(tmp_path / "out").files == 4


@pytest.mark.parametrize("path", ["/etc/evil", "../evil", "a/../../evil", "a/./b", ""])
def test_a_path_that_leads_out_is_refused_in_a_store_that_was_altered(
    path: str, memory: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = written(memory, {"a.py": b"x"})
    bad = [each.model_copy(update={"path": path}) for each in plan.files.list()]
    with pytest.raises(InvalidInput, match="nothing was written"):
        tree_writer.check_tree(bad, lambda _: "", trusted=True)
    # nothing of such a payload is even read as a file
    monkeypatch.setattr("trails.history.turn_builder.is_file", lambda _: False)
    monkeypatch.setattr("trails.model.validation.name", lambda value, what: value)
    with memory.create(id="bad") as session:
        session.append("user", "x", payloads=[Payload(data=b"x", media_type=f"{FILE_TYPE}; mode=100644", name=path)])
    assert memory.load("bad").files.list() == []


def test_content_that_was_altered_is_not_written(memory: Repository, tmp_path: Path) -> None:
    plan = written(memory, {"a.py": b"x = 1", "b.py": b"fine"})
    (part,) = memory.store.quads((None, vocab.BYTES_PART, Literal("eCA9IDE="), None))  # x = 1
    memory.store.commit(
        Change(remove=[part], add=[Quad(part.subject, part.predicate, Literal("eCA9IDI="), part.graph_name)])
    )
    with pytest.raises(TrailsError, match="altered"):
        memory.load(plan.id).files.checkout(tmp_path / "out")
    assert left(tmp_path) == []


def test_a_file_that_is_not_kept_is_told_before_anything_is_written(memory: Repository, tmp_path: Path) -> None:
    plan = written(memory, {"a.py": b"x"}, {"b.py": b"y"})
    memory.redact("plan", 0)
    plan = memory.load("plan")
    with pytest.raises(InvalidInput, match=r"1 file is not kept \('a\.py'\)"):
        plan.files.checkout(tmp_path / "out")
    assert left(tmp_path) == []
    found = plan.files.checkout(tmp_path / "out", partial=True)
    assert (found.files, found.missing, tree(tmp_path / "out")) == (1, ("a.py",), {"b.py": b"y"})


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody act between the last look at the place and the move of the tree there."""
    rename = Path.rename

    def late(self: Path, target: Any) -> Path:
        act()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)


@pytest.mark.parametrize("there", ["full folder", "file", "link to a folder", "link to nothing"])
def test_who_puts_something_there_meanwhile_loses_nothing(
    there: str, memory: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = written(memory, {"a.py": b"x"})
    out, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()

    def act() -> None:
        match there:
            case "full folder":
                out.mkdir()
                (out / "mine").write_text("mine")
            case "file":
                out.write_text("mine")
            case "link to a folder":
                out.symlink_to("other")
            case _:
                out.symlink_to("nowhere")

    meanwhile(monkeypatch, act)
    with pytest.raises(TrailsError, match="cannot be written"):
        plan.files.checkout(out)
    assert (left(tmp_path), left(other)) == (["other", "out"], [])
    if there in ("full folder", "file"):
        assert (out / "mine" if out.is_dir() else out).read_text() == "mine"


def test_a_disk_that_fills_up_leaves_nothing_behind(
    memory: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = written(memory, {"a.py": b"x", "b.py": b"y"})
    opened, count = os.open, [0]

    def full(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_EXCL and str(path).endswith(".py"):
            count[0] += 1
            if count[0] == 2:
                raise OSError(28, "No space left on device", str(path))
        return opened(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(TrailsError, match="No space left"):
        plan.files.checkout(tmp_path / "out")
    assert left(tmp_path) == []
