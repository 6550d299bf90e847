"""Commands beside a process that has the store open: those that read answer, those that write do so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run
from trails import Repository
from trails.integrity.signed_notes import new_key

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
    "keys list",
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
def test_what_writes_does_so_beside_another_process(run: Run, owner: Repository, tmp_path: Path, line: str) -> None:
    result = run(*words(line, tmp_path))
    assert result.exit_code == 0, result.stderr
    assert owner.verify().ok


def test_verify_beside_an_owner_says_up_to_which_commit(run: Run, owner: Repository) -> None:
    assert "up to commit 1: the store is open elsewhere" in run("verify").stdout
    assert json.loads(run("verify", "--json").stdout)["up_to"] == 1
    owner.close()
    assert "up to commit" not in run("verify").stdout
    assert json.loads(run("verify", "--json").stdout)["up_to"] is None


def test_what_is_kept_on_record_is_written_beside_another_process(
    run: Run, owner: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAILS_RECORD_READS", "1")
    assert run("list").exit_code == 0  # that is not kept on record
    assert run("export", "chat", "--format", "pi").exit_code == 0
    assert "chat" in run("query", "history-reads").stdout
