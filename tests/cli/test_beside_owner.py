"""Commands beside a process that has the store open: those that read answer, those that write say who has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run
from trails import Repository
from trails.integrity.signed_notes import new_key
from trails.store import lockfile, position

READING = (
    "audit report chat",
    "audit pack chat -o {out}/pack",
    "blame chat",
    "branches chat",
    "checkpoint --key {out}/key",
    "compare chat",
    "context chat",
    "documents",
    "dump {out}/dump.nq.gz",
    "events chat",
    "exchanges chat",
    "export chat --format pi",
    "export chat --format pi -o {out}/chat.jsonl",
    "head chat",
    "inbox list chat",
    "info",
    "list",
    "log",
    "log chat",
    "notes chat",
    "prov chat --format provn",
    "prune --keep-count 1 --dry-run",
    "query lineage -p session=chat",
    "redact --matching Paris --dry-run",
    "replay chat",
    "runs list",
    "scan --all",
    "search Paris",
    "sessions",
    "show chat",
    "spawn-tree chat",
    "tags",
    "tail",
    "tree",
    "validate",
    "verify",
)
WRITING = (
    "append chat user hello",
    "create --id new",
    "delete chat --yes",
    "fork chat --at 1",
    "label chat newer",
    "redact chat 0 --yes",
    "tag first chat@1",
    "vacuum",
)


@pytest.fixture
def owner(place: Path) -> Iterator[Repository]:
    with trails.open(place, create=True, durability="process") as store:
        session = store.create(id="chat")
        session.append("user", "Where is Paris?")
        session.append("assistant", "In France.")
        session.persist()
        yield store


def words(line: str, out: Path) -> list[str]:
    return line.format(out=out).split()


@pytest.mark.parametrize("line", READING)
def test_what_reads_answers_as_when_nobody_has_the_store_open(
    run: Run, owner: Repository, tmp_path: Path, line: str
) -> None:
    for each in ("open", "closed"):
        (tmp_path / each).mkdir()
        (tmp_path / each / "key").write_text(new_key("log.example/a")[0])
    beside = run(*words(line, tmp_path / "open"))
    assert not beside.stderr.startswith("error"), beside.stderr
    owner.close()
    alone = run(*words(line, tmp_path / "closed"))
    assert beside.exit_code == alone.exit_code
    if line.split(maxsplit=1)[0] not in ("verify", "checkpoint", "audit", "info", "prov", "export"):
        assert beside.stdout.replace("/open/", "/closed/") == alone.stdout


@pytest.mark.parametrize("line", WRITING)
def test_what_writes_says_who_has_the_store_open(run: Run, owner: Repository, tmp_path: Path, line: str) -> None:
    result = run(*words(line, tmp_path))
    assert (result.exit_code, "is in use by process" in result.stderr) == (1, True), result.stderr
    assert len(owner.load("chat").turns) == 2


def test_what_writes_waits_for_whoever_has_the_store_open(
    run: Run, owner: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAILS_TIMEOUT", "5")
    monkeypatch.setattr(lockfile, "sleep", lambda _: owner.close())
    assert run("label", "chat", "newer").exit_code == 0


def test_verify_beside_an_owner_says_up_to_which_commit(run: Run, owner: Repository) -> None:
    assert "up to commit 1: the store is open elsewhere" in run("verify").stdout
    assert json.loads(run("verify", "--json").stdout)["up_to"] == 1
    owner.close()
    assert "up to commit" not in run("verify").stdout
    assert json.loads(run("verify", "--json").stdout)["up_to"] is None


def test_what_reads_takes_no_lock_where_nobody_has_the_store_open(
    run: Run, owner: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.close()
    monkeypatch.setattr(lockfile, "_locked", lambda *_: pytest.fail("the lock was taken"))
    assert run("show", "chat").exit_code == 0


def test_a_store_that_another_start_of_the_machine_left_open_is_recovered_first(
    run: Run, owner: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.close()
    file = place / "position"
    data = bytearray(file.read_bytes())
    data[24:40] = b"another boot id."
    file.write_bytes(data)
    assert "France" in run("show", "chat").stdout
    found = position.read(file, bytes(data[8:24]))
    assert found is not None
    assert found.is_closed  # whoever recovered it let go of it
    assert run("show", "chat").exit_code == 0


def test_a_store_that_is_open_on_another_machine_is_not_read(
    run: Run, owner: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position, "_boot", lambda: b"another boot id.")
    result = run("show", "chat")
    assert (result.exit_code, "is in use by process" in result.stderr) == (1, True)


def test_what_is_kept_on_record_takes_the_owner(run: Run, owner: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILS_RECORD_READS", "1")
    assert run("list").exit_code == 0  # that is not kept on record
    assert "is in use by process" in run("export", "chat", "--format", "pi").stderr
    owner.close()
    assert run("export", "chat", "--format", "pi").exit_code == 0
    assert "chat" in run("query", "history-reads").stdout
