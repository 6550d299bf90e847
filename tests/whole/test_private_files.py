"""What Trails writes of people's words is for its owner alone, also where the umask would show it to everybody."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run
from trails.session.store_restore import load_dump, restore_store


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "store.trails"
    with trails.open(path, create=True, durability="process") as store:
        plan = store.create(id="plan", principal="alice")
        plan.append("user", "Plan a trip")
        plan.persist()
        fork = plan.fork(id="fork")
        fork.append("assistant", "Where to?")
        fork.persist()
        keyed = trails.Router(store).session("telegram:dm:1")
        keyed.append("user", "a secret")
        keyed.persist()
    return path


@pytest.fixture
def exposed(umask: int) -> Iterator[None]:
    """Let new files be as open as the umask makes them while a test runs."""
    before = os.umask(umask)
    yield
    assert os.umask(before) == umask, "a command changed the umask for good"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_documents_and_copies_are_for_their_owner_alone(run: Run, tmp_path: Path, exposed: None) -> None:
    there = tmp_path
    run("proof", "checkpoint", "--new-key", "example.com/t", "--key", there / "key")
    run("proof", "checkpoint", "--key", there / "key", "-o", there / "checkpoint")
    run("proof", "make", "plan", "0", "--checkpoint", there / "checkpoint", "-o", there / "proof.json")
    for form in ("pi", "nquads", "trig"):
        run("export", "fork", "--format", form, "-o", there / f"export.{form}")
    for form in ("markdown", "html", "patch", "json"):
        run("diff", "plan", "fork", "--format", form, "-o", there / f"diff.{form}")
    run("store", "dump", there / "dump.nq.gz")
    run("compare", "plan", "--plot", there / "plot.svg")
    private = ["key", "proof.json", "export.pi", "export.nquads", "export.trig", "dump.nq.gz", "plot.svg"]
    private += ["diff.markdown", "diff.html", "diff.patch", "diff.json"]
    assert {name: oct(mode(there / name)) for name in private} == dict.fromkeys(private, "0o600")
    assert [each.name for each in there.iterdir() if each.name.startswith(".")] == []


def test_what_replaces_an_open_file_is_private_all_the_same(run: Run, tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    plot.write_text("an older one")
    plot.chmod(0o644)
    run("compare", "plan", "--plot", plot, "--force")
    assert (oct(mode(plot)), plot.read_text().startswith("<?xml")) == ("0o600", True)


@pytest.mark.parametrize("umask", [0o000, 0o022], ids=["umask 000", "umask 022"])
def test_the_folder_of_a_backup_is_for_its_owner_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exposed: None
) -> None:
    run("store", "backup", tmp_path / "backup")
    monkeypatch.setenv("TRAILS_STORE", str(tmp_path / "restored"))
    run("store", "restore", tmp_path / "backup")
    for name in ("backup", "restored"):
        folders = [tmp_path / name, *(each for each in (tmp_path / name).rglob("*") if each.is_dir())]
        assert {oct(mode(each)) for each in folders} == {"0o700"}


@pytest.mark.parametrize("umask", [0o000, 0o022], ids=["umask 000", "umask 022"])
def test_the_files_of_a_backup_and_what_is_made_of_it_are_for_their_owner_alone(tmp_path: Path, exposed: None) -> None:
    backup, again = tmp_path / "backup", tmp_path / "restored"
    with trails.open(tmp_path / "store", create=True) as store:
        store.create(id="plan", system="x" * 1000).persist()
        store.maintenance.backup(backup)
        assert len(files_of(backup)) == 1
        assert exposed_in(backup) == []
        for file in files_of(backup):
            file.chmod(0o644)  # as one that an older version made
        restore_store(backup, again)
        assert exposed_in(again) == []
        store.maintenance.vacuum()
        store.maintenance.dump(tmp_path / "dump.gz")
        load_dump(tmp_path / "dump.gz", tmp_path / "loaded")
        assert exposed_in(tmp_path / "loaded") == []
        store.maintenance.backup(tmp_path / "second")
        assert exposed_in(tmp_path / "second") == []
    assert exposed_in(tmp_path / "store") == []


def files_of(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def exposed_in(folder: Path) -> list[str]:
    return [f"{mode(each):o} {each.name}" for each in files_of(folder) if mode(each) != 0o600]


@pytest.mark.parametrize("umask", [0o000, 0o022], ids=["umask 000", "umask 022"])
def test_all_of_an_exported_state_folder_is_for_its_owner_alone(run: Run, tmp_path: Path, exposed: None) -> None:
    run("export", "--format", "openclaw", "-o", tmp_path / "state")
    every = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert {oct(mode(each)) for each in every if each.is_dir()} == {"0o700"}
    assert {oct(mode(each)) for each in every if each.is_file()} == {"0o600"}
    assert len([each for each in every if each.is_dir()]) >= 4  # state, agents, main, sessions


def test_public_keys_and_checkpoints_can_be_given_out(run: Run, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        run("proof", "checkpoint", "--new-key", "example.com/t", "--key", tmp_path / "key")
        run("proof", "checkpoint", "--key", tmp_path / "key", "-o", tmp_path / "checkpoint")
    finally:
        os.umask(before)
    assert [oct(mode(tmp_path / name)) for name in ("key", "key.pub", "checkpoint")] == ["0o600", "0o644", "0o644"]
