"""Whoever owns the disk or the database edits single quads of records, digests and all: `verify` finds each, by any index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import trails
from tests.support import edited_records
from tests.support.clusters import log_of
from tests.support.edited_records import Edit, FolderLog, TableLog
from tests.support.machines import Size
from trails import Repository, StoreFailed
from trails.store.log import records
from trails.store.log.records import Row
from trails.store.postgres import server

Attacked = FolderLog | TableLog
ROWS = {"rows-differ"}
"""What only says that tables made from the records, as a whole, tell of more than what the records come to in the end."""


@pytest.fixture(params=["folder", "postgres"])
def attacked(request: pytest.FixtureRequest, tmp_path: Path) -> Attacked:
    """The log of a closed store that has something of most kinds, and was redacted and vacuumed."""
    if request.param == "folder":
        with trails.open(tmp_path / "store.trails", create=True, durability="process") as store:
            edited_records.fill(store)
        return FolderLog(tmp_path / "store.trails")
    url = request.getfixturevalue("url")
    with trails.open(url, create=True) as store:
        edited_records.fill(store)
    return TableLog(url, tmp_path / "cache")


@pytest.fixture(params=["old", "fresh"])
def codes(request: pytest.FixtureRequest, attacked: Attacked) -> Iterator[Callable[[], set[str]]]:
    """A function that gives the codes of what `verify` finds: by an index from before the attack, or a new one."""
    if request.param == "old":
        with attacked.open(anew=False) as store:
            assert store.verify().findings == ()
            yield lambda: _codes(store)
        return

    def anew() -> set[str]:
        with attacked.open(anew=True) as store:
            return _codes(store)

    yield anew


def _codes(store: Repository) -> set[str]:
    return {finding.code for finding in store.verify().findings}


def _some(attacked: Attacked, size: Size) -> list[Edit]:
    every = list(edited_records.edits(attacked.rows))
    assert len(every) > 600
    return edited_records.sample(every, {"quick": 12, "all": 100, "long": len(every)}[size])


def _is_new_to(codes: Callable[[], set[str]], attacked: Attacked, row: Row, old: Row) -> bool:
    attacked.put(row)
    found = codes()
    attacked.put(old)
    return bool(found)


@pytest.mark.parametrize("as_written", [lambda edit: edit.new, edited_records.as_older_versions], ids=["now", "before"])
@pytest.mark.sample(2)
def test_an_edit_of_any_quad_that_no_record_tells_of_is_found(
    attacked: Attacked, codes: Callable[[], set[str]], size: Size, as_written: Callable[[Edit], Row]
) -> None:
    assert not codes()
    unseen = [e.kind for e in _some(attacked, size) if not _is_new_to(codes, attacked, as_written(e), e.old)]
    assert unseen == []
    assert not codes()


@pytest.mark.slow
def test_an_old_index_finds_of_an_edit_that_a_forged_record_tells_of_what_a_fresh_one_finds(
    attacked: Attacked, size: Size
) -> None:
    differing, seen = [], 0
    for edit in _some(attacked, size):
        with attacked.open(anew=False) as old:
            assert old.verify().findings == ()
            attacked.put(edit.new)
            attacked.add(edited_records.statement_of(edit, attacked.head))
            here = _codes(old)
        with attacked.open(anew=True) as fresh:
            there = _codes(fresh)
        seen += bool(there)
        if (here <= ROWS) != (there <= ROWS):
            differing.append((edit.kind, here, there))
        attacked.restore(edit.old)
    assert differing == []
    assert seen


def test_a_log_that_says_that_it_ends_earlier_or_later_than_it_does_is_found(
    attacked: Attacked, codes: Callable[[], set[str]]
) -> None:
    before = attacked.rows[-2]
    for number, digest in ((before.number, before.digest), (attacked.head.number, before.digest)):
        attacked.say(number, digest)
        with suppress(StoreFailed):  # it may not even be opened
            assert "bad-log" in codes()
        attacked.say(attacked.head.number, attacked.head.digest)


def test_a_look_at_the_records_alone_finds_an_end_that_is_another(url: str, tmp_path: Path) -> None:
    with trails.open(url, create=True) as store:
        edited_records.fill(store)
        table = TableLog(url, tmp_path / "cache")
        assert log_of(store.store).trouble(store.store) is None  # type: ignore[arg-type] # a store with a log of its own
        table.say(table.head.number - 1, table.rows[-2].digest)
        trouble = log_of(store.store).trouble(store.store)  # type: ignore[arg-type]
        assert f"ends with record {table.head.number - 1}, and its last record is {table.head.number}" in f"{trouble}"


# --- what thin processes find records by


@pytest.mark.parametrize(
    "how",
    [
        "DELETE FROM trails_subjects WHERE store = %s AND number = 1",
        "DELETE FROM trails_subjects WHERE store = %s AND parent IS NOT NULL",
        "UPDATE trails_subjects SET parent = parent + 1 WHERE store = %s AND parent IS NOT NULL",
        "UPDATE trails_subjects SET number = number + 1 WHERE store = %s AND subject = 0",
    ],
)
@pytest.mark.sample(2)
def test_a_table_that_misleads_thin_processes_is_found_and_a_vacuum_mends_it(
    url: str, tmp_path: Path, how: str
) -> None:
    with trails.open(url, create=True) as store:
        edited_records.fill(store)
        with store.load("plan").fork(at=1, id="by-bus") as fork:
            fork.append("user", "By bus")
        TableLog(url, tmp_path / "cache").alter(how)
        [finding] = store.verify().findings
        assert "trails_subjects" in finding.message
        store.maintenance.vacuum()
        assert store.verify().findings == ()


# --- what is rewritten again


def _redacted(attacked: Attacked, edit: Row, turn: int) -> set[str]:
    """Put an edited record into a log, and redact a turn that it holds; return what `verify` finds then."""
    attacked.put(edit)
    with attacked.open(anew=True) as store:
        store.redact("plan", turn, by="dave")
        store.maintenance.vacuum()
        return _codes(store)


@pytest.mark.parametrize("as_written", [lambda edit: edit.new, edited_records.as_older_versions], ids=["now", "before"])
@pytest.mark.parametrize("at", [0, -1], ids=["rewritten before", "never rewritten"])
@pytest.mark.sample(4)
def test_a_redaction_and_a_vacuum_make_no_edit_look_right(
    attacked: Attacked, as_written: Callable[[Edit], Row], at: int
) -> None:
    edit = [each for each in edited_records.edits(attacked.rows) if each.kind == "altered: add graph model"][at]
    assert (edit.old.rewritten is None) == (at == -1)
    assert "bad-log" in _redacted(attacked, as_written(edit), turn=5 if at else 0)


def test_what_version_0_1_rewrote_is_not_proven_until_a_vacuum_says_so(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "IS_STATED", 0)
    monkeypatch.setattr(server, "to_state", lambda *_: {})  # that version rewrote, and did not say so
    with trails.open(url, create=True) as store:
        edited_records.fill(store)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    attacked = TableLog(url, tmp_path / "cache")
    for row in attacked.rows:
        attacked.put(edited_records.as_older_versions(Edit(row, row, "")))
    with attacked.open(anew=True) as store:
        [finding] = store.verify().findings
        assert "record 1 was rewritten" in finding.message
        assert "`trails store vacuum` says so in the log now" in finding.message
        assert len(store.load("plan").turns) == 6
        store.maintenance.vacuum()
        assert [f.message for f in store.verify().findings] == []
    with attacked.open(anew=True) as store:
        assert store.verify().findings == ()
