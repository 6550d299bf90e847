"""Exports and audits are on record where a store was opened to keep them, and nowhere else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Quad

import trails
from tests.support.commands import invoke, ok
from trails import Repository, SessionNotFound
from trails.audit import audit
from trails.audit.evidence_pack import make_pack
from trails.exchange.exporters.parquet_export import export_tables
from trails.exchange.file_import import export_session
from trails.history.records import activities
from trails.provenance import export
from trails.rdf import vocab
from trails.rdf.activity_records import Reading


def family(store: Repository) -> None:
    """A root of three turns, a fork at 2 with one, and a session without turns."""
    root = store.create(id="root")
    for text in ("a", "b", "c"):
        root.append("user", text)
    root.persist()
    fork = root.fork(at=2, id="fork")
    fork.append("user", "d")
    fork.persist()
    store.create(id="empty").persist()


def everything(store: Repository) -> set[Quad]:
    return set(store.store.quads((None, None, None, None)))


def rows(store: Repository, *columns: str) -> list[tuple[Any, ...]]:
    found = store.query("history-reads").to_dicts()  # type: ignore[union-attr] # a SELECT
    return [tuple(row[each] for each in columns) for row in found]


def test_by_default_no_read_changes_a_quad(store: Repository) -> None:
    family(store)
    before, log = everything(store), store.store.log.lines()
    export_session(store, "fork", "nquads", io.BytesIO())
    export_session(store, "fork", "pi", io.BytesIO())
    export(store, io.BytesIO(), format="provn")
    audit(store)
    assert everything(store) == before
    assert store.store.log.lines() == log


@pytest.mark.parametrize("form", ["nquads", "trig", "pi", "html", "messages", "inspect"])
def test_an_export_says_who_read_which_session_through_which_index(tmp_path: Path, form: str) -> None:
    with trails.open(tmp_path / "s", create=True, actor="eve", record_reads=True) as store:
        family(store)
        export_session(store, "fork", form, io.BytesIO())
        export_session(store, "empty", form, io.BytesIO())
        eve, session = "urn:trails:principal:eve", "urn:trails:session:"
        assert rows(store, "agent", "target", "action", "from", "through", "allowed") == [
            (eve, f"{session}fork", "export", 0, 2, True),
            (eve, f"{session}empty", "export", None, None, True),
        ]
        [reading] = activities.read_activities(store.store, "fork")
        assert isinstance(reading, Reading)
        assert reading.used == ("fork", "root")
        assert store.verify().ok


def test_what_a_page_or_tables_show_of_other_sessions_is_on_record_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pip install 'trails[arrow]'")
    with trails.open(":memory:", actor="eve", record_reads=True) as store:
        family(store)
        export_session(store, "root", "html", io.BytesIO(), forks=True)
        assert sorted(target.rpartition(":")[2] for (target,) in rows(store, "target")) == ["fork", "root"]
        export_tables(store, tmp_path / "tables")
        assert len(rows(store, "target")) == 5


def test_prov_of_one_session_and_of_all_is_on_record(tmp_path: Path) -> None:
    with trails.open(":memory:", actor="eve", record_reads=True) as store:
        family(store)
        export(store, io.BytesIO(), format="provn", session="root")
        assert [target.rpartition(":")[2] for (target,) in rows(store, "target")] == ["root"]
        export(store, io.BytesIO(), format="provn")
        assert sorted(target.rpartition(":")[2] for (target,) in rows(store, "target")) == [
            "empty", "fork", "root", "root",
        ]  # fmt: skip


def test_an_audit_is_on_record_once(tmp_path: Path) -> None:
    with trails.open(":memory:", actor="agent:auditor", record_reads=True) as store:
        family(store)
        audit(store, "fork")
        assert rows(store, "agent", "target", "action", "through") == [
            ("urn:trails:agent:auditor", "urn:trails:session:fork", "audit", 2)
        ]


def test_a_pack_for_an_auditor_is_one_export_of_each_session() -> None:
    with trails.open(":memory:", record_reads=True) as store:
        family(store)
        make_pack(store, audit(store, "fork"))
        found = [(target.rpartition(":")[2], action) for target, action in rows(store, "target", "action")]
        assert sorted(found) == [("fork", "audit"), ("fork", "export"), ("root", "export")]


def test_what_was_read_before_is_in_no_export(tmp_path: Path) -> None:
    with trails.open(":memory:", record_reads=True) as store:
        family(store)
        first, second = io.BytesIO(), io.BytesIO()
        export_session(store, "fork", "nquads", first)
        export_session(store, "fork", "nquads", second)
        assert first.getvalue() == second.getvalue()
        assert len(rows(store, "time")) == 2


def test_what_cannot_be_read_leaves_no_record() -> None:
    with trails.open(":memory:", record_reads=True) as store:
        family(store)
        with pytest.raises(SessionNotFound):
            export_session(store, "nowhere", "nquads", io.BytesIO())
        assert rows(store, "time") == []


def test_the_environment_says_it_for_the_command_line(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(place, create=True) as store:
        family(store)
    for value, recorded in ((None, 0), ("0", 0), ("1", 1)):
        if value is not None:
            monkeypatch.setenv("TRAILS_RECORD_READS", value)
        ok(invoke("export", "root", "--format", "nquads", "-o", tmp_path / f"{value}.nq", store=place))
        with trails.open(place, record_reads=False) as store:
            assert len(rows(store, "time")) == recorded


def test_a_read_that_is_taken_off_the_record_is_missed() -> None:
    with trails.open(":memory:", record_reads=True) as store:
        family(store)
        export_session(store, "root", "nquads", io.BytesIO())
        from trails.store import Change

        for said in store.store.quads((None, vocab.READ_THROUGH, None, vocab.CATALOG)):
            store.store.commit(Change(remove=[said]))
        assert not store.verify().ok
