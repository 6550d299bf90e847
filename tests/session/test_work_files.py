"""Turns say what they did to files: what each was before and after, who did it, and what was left out."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal

import trails
from tests.history.test_encryption import HeldKeys
from tests.support.served import served
from trails import FileVersion, InvalidInput, Payload, Repository, Session
from trails.exchange.file_import import export_session
from trails.exchange.rdf_files import import_rdf
from trails.integrity.verifier.joined import standalone_verifier
from trails.model.file_versions import FILE_TYPE
from trails.rdf import vocab
from trails.store.contract import Change

pytestmark = pytest.mark.any_store

ONE, TWO = b"x = 1\n", b"x = 2\n"
DIGEST_OF_ONE = "9e26bf369911c45c243c684147b23fc9e1dcfcf257d299a1c632016a6fcd33f4"  # by sha256sum
DIGEST_OF_TWO = "4205c4809ab1b080fd32b6bf9640e5feaa6d1b69bf9fa684954ab710157ec141"


def write_two(store: Repository) -> Session:
    """plan: turn 0 asks, 1 writes a.py and b.py, 2 changes a.py and deletes b.py."""
    plan = store.create(id="plan", principal="alice", agent="coder")
    plan.append("user", "Write them")
    plan.append("assistant", "Written.", files={"src/a.py": ONE, "b.py": TWO})
    plan.append("assistant", "Changed.", model="m-1", files={"src/a.py": TWO, "b.py": None})
    plan.persist()
    return plan


def paths(session: Session, at: int | None = None) -> list[str]:
    return [file.path for file in session.files.list(at)]


def blobs(store: Repository) -> int:
    return len(store.store.quads((None, vocab.TYPE, vocab.PAYLOAD, None)))


def test_a_turn_says_what_each_file_was_before_and_after(store: Repository) -> None:
    write_two(store)
    found = store.load("plan").files.history()
    assert [(each.index, each.path, each.mode, each.before, each.after, each.outside) for each in found] == [
        (1, "src/a.py", "file", None, DIGEST_OF_ONE, False),
        (1, "b.py", "file", None, DIGEST_OF_TWO, False),
        (2, "src/a.py", "file", DIGEST_OF_ONE, DIGEST_OF_TWO, False),
        (2, "b.py", "deleted", DIGEST_OF_TWO, None, False),
    ]


def test_the_files_are_known_as_they_were_after_each_turn(store: Repository) -> None:
    plan = write_two(store)
    assert [paths(plan, at) for at in range(4)] == [[], [], ["b.py", "src/a.py"], ["src/a.py"]]
    assert (plan.files.read("src/a.py", at=2), plan.files.read("src/a.py")) == (ONE, TWO)
    with pytest.raises(InvalidInput, match=r"no file 'b\.py'"):
        plan.files.read("b.py")
    with pytest.raises(InvalidInput, match="has 3 turns, so there is nothing after 4"):
        plan.files.list(4)


def test_equal_contents_are_kept_once_and_turns_that_wait_to_be_stored_count(store: Repository) -> None:
    plan = write_two(store)
    assert blobs(store) == 3  # x = 1, x = 2, and the nothing of what was deleted
    plan.append("assistant", "Again.", files={"c.py": ONE})
    assert paths(plan) == ["c.py", "src/a.py"]
    assert plan.files.read("c.py") == ONE
    plan.persist()
    assert blobs(store) == 3


def test_a_fork_has_its_parents_files_up_to_its_fork_point_and_writes_only_its_own(store: Repository) -> None:
    plan = write_two(store)
    fork = plan.fork(at=2, id="fork")
    fork.append("assistant", "Otherwise.", files={"c.py": b"y"})
    plan.append("assistant", "Later.", files={"late.py": b"z"})
    fork.persist()
    plan.persist()
    assert paths(store.load("fork")) == ["b.py", "c.py", "src/a.py"]
    assert paths(store.load("plan")) == ["late.py", "src/a.py"]
    assert [(each.path, each.session_id) for each in store.load("fork").files.list()][1:] == [
        ("c.py", "fork"),
        ("src/a.py", "plan"),
    ]
    assert len(store.store.quads((None, vocab.PAYLOAD_NAME, None, None))) == 6  # 4 of plan, 1 later, 1 of the fork


def test_a_detached_fork_keeps_the_files_when_its_parent_is_deleted(store: Repository) -> None:
    fork = write_two(store).fork(at=2, id="fork")
    fork.persist()
    store.load("fork").detach()
    store.delete("plan")
    assert store.load("fork").files.read("src/a.py") == ONE
    assert blobs(store) == 2  # what only turn 2 had is gone
    assert store.verify().findings == ()


def test_redaction_takes_a_files_content_out_and_keeps_the_digests_valid(store: Repository) -> None:
    write_two(store)
    head = store.load("plan").head
    store.redact("plan", 1)
    store.maintenance.vacuum()
    plan = store.load("plan")
    assert (plan.head, store.verify().findings) == (head, ())
    first = plan.files.history("src/a.py")[0]
    assert (first.redacted, first.after, first.size, first.is_kept) == (True, None, None, False)
    assert plan.files.read("src/a.py") == TWO
    with pytest.raises(InvalidInput, match="too large, or redacted"):
        plan.files.read("src/a.py", at=2)


def test_a_text_is_erased_from_contents_and_paths(store: Repository) -> None:
    plan = store.create(id="plan")
    plan.append("assistant", "Written.", files={"Zenobia/a.py": b"by Zenobia\n", "b.py": b"Zenobia was here"})
    plan.persist()
    store.redact_matching("Zenobia")
    assert store.verify().findings == ()
    plan = store.load("plan")
    assert paths(plan) == ["b.py"]  # the other one has no path any more
    assert b"Zenobia" not in plan.files.read("b.py")


def test_an_export_carries_files_to_another_store(store: Repository, memory: Repository) -> None:
    write_two(store)
    out = io.BytesIO()
    export_session(store, "plan", "nquads", out)
    assert import_rdf(memory, out.getvalue(), "nquads").problems == []
    assert memory.load("plan").files.history() == store.load("plan").files.history()
    assert memory.load("plan").files.read("src/a.py", at=2) == ONE


def test_encrypted_sessions_have_files_with_the_digests_of_what_they_say() -> None:
    with trails.open(":memory:", keys=HeldKeys()) as store:
        write_two(store)
        plan = store.load("plan")
        assert [each.after for each in plan.files.history("src/a.py")] == [DIGEST_OF_ONE, DIGEST_OF_TWO]
        assert plan.files.history("src/a.py")[1].before == DIGEST_OF_ONE
        assert plan.files.read("src/a.py", at=2) == ONE
        assert store.verify().findings == ()


def test_verify_names_the_turn_whose_file_was_altered(memory: Repository) -> None:
    write_two(memory)
    (quad,) = [
        q
        for q in memory.store.quads((None, vocab.PAYLOAD_NAME, None, None))
        if q.object == Literal("src/a.py") and "/1-" in str(q.subject)
    ]
    memory.store.commit(Change(remove=[quad]))
    assert "digest-mismatch" in {finding.code for finding in memory.verify().findings}


def test_a_query_tells_which_turns_touched_a_file(store: Repository) -> None:
    write_two(store)
    with store.create(id="other") as other:
        other.append(
            "user", "x", files=[FileVersion(path="src/a.py", data=b'{"size": 9}', left_out="large", outside=True)]
        )
    columns = ("session", "index", "path", "mode", "known", "digest")
    found = [tuple(row[name] for name in columns) for row in store.select("file-changes", path="src/a.py").to_dicts()]
    assert found == [
        ("urn:trails:session:other", 0, "src/a.py", "100644", False, None),
        ("urn:trails:session:plan", 1, "src/a.py", "100644", True, DIGEST_OF_ONE),
        ("urn:trails:session:plan", 2, "src/a.py", "100644", True, DIGEST_OF_TWO),
    ]
    rows = store.select("file-changes", session="plan").to_dicts()
    assert [(row["index"], row["path"], row["mode"]) for row in rows][2:] == [
        (2, "b.py", "000000"),
        (2, "src/a.py", "100644"),
    ]


PATHS = {
    "": "is empty", "/etc/passwd": "not relative", "../a": r"'\.\.'", "a/../../b": r"'\.\.'",
    "a/./b": r"'\.'", "a//b": "empty name",
    "a/": "empty name", "a\\b": "backslash", "a\nb": "control character", "a\0b": "control character", "\udcff": "no UTF-8",
    "x" * 256: "longer", "/".join(["x" * 99] * 50): "longer",
    "/".join(["d"] * 201): "more than 200 names",
}  # fmt: skip


@pytest.mark.parametrize(("path", "fault"), PATHS.items())
def test_a_path_that_leads_elsewhere_is_refused_however_it_is_given(path: str, fault: str) -> None:
    with trails.open(":memory:") as store, store.session("plan") as plan:
        for given in ({path: b"x"}, [FileVersion(path=path)]):
            with pytest.raises(InvalidInput, match=fault):
                plan.append("assistant", "x", files=given)
        with pytest.raises(InvalidInput):
            plan.append(
                "assistant", "x", payloads=[Payload(data=b"", media_type=f"{FILE_TYPE}; mode=100644", name=path)]
            )
        assert plan.pending == 0


@pytest.mark.parametrize(
    "files", ["a.py", b"a.py", 3, [b"a.py"], {"a.py": "text"}, {3: b""}, [FileVersion(path="a"), FileVersion(path="a")]]
)
def test_what_names_no_files_is_refused(files: Any) -> None:
    with trails.open(":memory:") as store, store.session("plan") as plan:
        with pytest.raises(InvalidInput):
            plan.append("assistant", "x", files=files)
        assert plan.pending == 0


# --- a folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.py").write_bytes(ONE)
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/a.py")
    return folder


def test_what_is_in_a_folder_before_recording_is_nobodys_and_what_changes_then_is_the_turns(
    memory: Repository, work: Path
) -> None:
    plan = memory.session("plan", autopersist=True)
    plan.append("tool", "looked", files=plan.files.changes(work))
    assert [(each.path, each.mode, each.outside) for each in plan.files.list()] == [
        ("link", "symlink", True), ("run.sh", "executable", True), ("src/a.py", "file", True),
    ]  # fmt: skip
    assert plan.files.read("link") == b"src/a.py"
    assert plan.files.changes(work) == []
    (work / "src/a.py").write_bytes(TWO)
    (work / "run.sh").chmod(0o644)
    (work / "link").unlink()
    plan.append("tool", "worked", files=plan.files.changes(work))
    assert [(each.path, each.mode, each.outside) for each in plan.files.history()[3:]] == [
        ("run.sh", "file", False), ("src/a.py", "file", False), ("link", "deleted", False),
    ]  # fmt: skip
    assert plan.files.changes(work) == []
    (work / "new").write_bytes(b"")
    assert [each.outside for each in plan.files.changes(work, outside=True)] == [True]


def reasons(plan: Session, work: Path, **options: Any) -> dict[str, str]:
    return {each.path: each.reason for each in plan.files.changes(work, **options).left_out}


def test_what_is_left_out_of_a_folder_is_told(memory: Repository, work: Path) -> None:
    (work / ".gitignore").write_text("*.log\n/build/\n!kept.log\n")
    for name in ("x.log", "kept.log", "src/y.log", "src/kept.txt"):
        (work / name).write_text("z")
    (work / "src/.gitignore").write_text("*.txt\n!y.log\n")
    (work / "build").mkdir()
    (work / "build/out.o").write_text("o")
    subprocess.run(["git", "init", "-q", work], check=True)
    trails.open(work / "agent.trails", create=True).close()
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(work / "s"))
    (work / "big").write_bytes(b"b" * 31)
    Path(os.fsdecode(os.fsencode(work) + b"/\xff")).write_bytes(b"")
    plan = memory.session("plan", autopersist=True)
    assert reasons(plan, work, max_bytes=30) == {
        ".git": "is git's own",
        "agent.trails": "is a store of Trails",
        "big": "has more than 30 bytes: its content is not kept",
        "build": "is ignored by .gitignore",
        "pipe": "is no file: a pipe, a socket or a device",
        "s": "is no file: a pipe, a socket or a device",
        "src/kept.txt": "is ignored by .gitignore",
        "x.log": "is ignored by .gitignore",
        "\\xff": "its path has a control character in it, or bytes that are no UTF-8",
    }
    plan.append("tool", "x", files=plan.files.changes(work, max_bytes=30))
    assert paths(plan) == [".gitignore", "big", "kept.log", "link", "run.sh", "src/.gitignore", "src/a.py", "src/y.log"]
    big = next(each for each in plan.files.list() if each.path == "big")
    assert (big.left_out, big.size, big.is_kept) == (True, 31, False)
    assert big.after == "dd49266d07ccd59158e5b4bf49cb1046c0135e6d8b5993bc9eb1fa4fac356805"  # by sha256sum
    assert plan.files.changes(work, max_bytes=30) == []


def test_git_leaves_the_same_files_out(memory: Repository, tmp_path: Path) -> None:
    work = tmp_path / "work"
    for path in (
        "a/b/c.txt",
        "a/keep.txt",
        "d.txt",
        "a/d.txt",
        "e/f/g",
        "doc/x/y.md",
        "doc/z.md",
        "h i.txt",
        "#j",
        "k\\",
        "l",
    ):
        if "\\" not in path:
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text("x")
    (work / ".gitignore").write_text("/d.txt\n**/f/\ndoc/**\n!doc/z.md\n\\#j\na/*\n!a/keep.txt\nh\\ i.txt\n")
    subprocess.run(["git", "init", "-q", work], check=True)
    listed = subprocess.run(
        ["git", "-C", work, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    assert sorted(each.path for each in memory.session("plan", autopersist=True).files.changes(work)) == sorted(
        listed.stdout.split("\n")[:-1]
    )


def test_a_file_that_cannot_be_read_is_no_deleted_one(
    memory: Repository, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = memory.session("plan", autopersist=True)
    plan.append("tool", "x", files=plan.files.changes(work))
    (work / "src/a.py").write_bytes(TWO)
    opened: Callable[..., int] = os.open

    def refuse(path: Any, *args: Any, **options: Any) -> int:
        if str(path).endswith("a.py"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    found = plan.files.changes(work)
    assert (list(found), [(each.path, each.reason) for each in found.left_out]) == (
        [],
        [("src/a.py", "cannot be read: Permission denied")],
    )


def test_files_in_a_folder_that_cannot_be_read_are_no_deleted_ones(
    memory: Repository, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = memory.session("plan", autopersist=True)
    plan.append("tool", "x", files=plan.files.changes(work))
    scan, look = os.scandir, Path.lstat

    def refuse(path: Any) -> Any:
        if str(path).endswith("/src"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    def hide(self: Path) -> os.stat_result:
        if "src" in self.parts:
            raise PermissionError(13, "Permission denied")
        return look(self)

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(Path, "lstat", hide)
    found = plan.files.changes(work)
    assert (list(found), [(each.path, each.reason) for each in found.left_out]) == (
        [],
        [("src", "cannot be read: Permission denied")],
    )


def test_a_folder_that_is_none_is_refused(memory: Repository, work: Path) -> None:
    with pytest.raises(InvalidInput, match="is no folder"):
        memory.session("plan", autopersist=True).files.changes(work / "run.sh")


def test_in_postgresql_files_are_recorded_without_an_index_and_read_with_one(url: str, tmp_path: Path) -> None:
    with trails.open(url, create=True) as store:
        write_two(store)
        with trails.open(url, thin=True) as thin:
            plan = thin.load("plan")
            assert plan.files.history() == store.load("plan").files.history()
            plan.append("assistant", "More.", files={"c.py": ONE})
            plan.persist()
            assert plan.files.checkout(tmp_path / "out").files == 2
        store.sync()
        assert paths(store.load("plan")) == ["c.py", "src/a.py"]
        assert [(line.text, line.index) for line in store.load("plan").files.blame("c.py")] == [("x = 1", 3)]
        assert store.verify().findings == ()


def test_over_a_server_files_are_recorded_and_written_as_here(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s.trails", create=True) as store, served(store) as address:
        with trails.open(address) as far:
            write_two(far)
            plan = far.load("plan")
            assert paths(plan) == ["src/a.py"]
            assert plan.files.checkout(tmp_path / "out", at=2).files == 2
            assert [line.index for line in plan.files.blame("src/a.py")] == [2]
        assert store.verify().findings == ()


def test_in_an_event_loop_files_are_awaited(tmp_path: Path) -> None:
    async def work() -> list[str]:
        async with trails.aio.open(":memory:") as store:
            plan = await store.create(id="plan")
            plan.append("assistant", "Written.", files={"a.py": ONE})
            await plan.persist()
            await plan.files.checkout(tmp_path / "out")
            return [each.path for each in await plan.files.list()]

    assert asyncio.run(work()) == ["a.py"]
    assert (tmp_path / "out/a.py").read_bytes() == ONE


def test_an_export_with_files_is_checked_without_trails(memory: Repository, tmp_path: Path) -> None:
    write_two(memory)
    with (tmp_path / "plan.nq").open("wb") as out:
        export_session(memory, "plan", "nquads", out)
    verifier = tmp_path / "verify_export.py"
    verifier.write_bytes(standalone_verifier())
    done = subprocess.run([sys.executable, verifier, tmp_path / "plan.nq"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
