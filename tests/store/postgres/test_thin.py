"""Thin processes: they hold the sessions in use, without an index, and commit as exactly as those who have one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pyoxigraph import Quad

import trails
from tests.support.clusters import Cluster, log_of
from trails import HeadConflict, InvalidInput, NeedsWholeStore, Repository, Session, SessionNotFound, StoreFailed
from trails.integrity.signed_notes import new_principal_key
from trails.store.postgres import upkeep
from trails.store.postgres.thin import ThinStore


@pytest.fixture
def whole(url: str) -> Iterator[Repository]:
    """A store with the session `plan` of four turns and nine others, opened whole."""
    with trails.open(url, create=True) as store:
        for name in ("plan", *(f"other-{number}" for number in range(9))):
            session = store.create(id=name, label=f"label of {name}", principal="alice", system="Be brief")
            for text in "abcd":
                session.append("user", f"{text} of {name}")
                session.persist()
        yield store


def _sql(url: str, text: str, *values: object) -> list[tuple[object, ...]]:
    with psycopg.connect(url.rpartition("&store=")[0], autocommit=True) as owner:
        done = owner.execute(text, values)
        return done.fetchall() if done.description else []


def _statements(store: Repository, work: Callable[[], object]) -> int:
    """Return how often the server is asked during some work."""
    assert isinstance(store.store, ThinStore)
    before = store.store.trips
    work()
    return store.store.trips - before


def _append(session: Session, text: str) -> None:
    session.append("user", text)
    assert session.persist() == 1


def _held(store: Repository) -> list[Quad]:
    assert isinstance(store.store, ThinStore)
    return store.store.held()


def test_a_thin_process_appends_to_a_session_that_it_has_never_seen_with_two_statements(
    url: str, whole: Repository
) -> None:
    with trails.open(url, thin=True) as thin:
        assert _statements(thin, lambda: _append(thin.load("plan"), "e of plan")) == 2
        assert _statements(thin, lambda: _append(thin.session("other-1"), "e of other-1")) == 2
        assert isinstance(thin.store, ThinStore)
        assert thin.store.trips == 6, "two at opening"
        assert thin.store.folder is None
    whole.sync()
    assert [turn.content for turn in whole.load("plan")] == [f"{text} of plan" for text in "abcde"]
    assert whole.verify().ok


def test_a_thin_process_makes_no_files(
    url: str, whole: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    with trails.open(url, thin=True) as thin:
        assert len(thin.load("plan")) == 4
    assert not (tmp_path / "own").exists()


def test_a_fork_is_read_with_its_ancestors_in_one_statement(url: str, whole: Repository) -> None:
    fork = whole.load("plan").fork(at=2)
    fork.append("user", "x")
    fork.persist()
    further = fork.fork(id="further")
    further.append("user", "y")
    further.persist()
    with trails.open(url, thin=True) as thin:
        found: list[str] = []
        assert _statements(thin, lambda: found.extend(turn.text for turn in thin.load("further"))) == 1
        assert found == ["a of plan", "b of plan", "x", "y"]
        assert [each.id for each in thin.load("plan").branches()] == [fork.id]


def test_a_thin_process_makes_and_forks_sessions(url: str, whole: Repository) -> None:
    with trails.open(url, thin=True) as thin:
        new = thin.session("new", principal="bob")
        new.append("user", "one")
        new.persist()
        fork = new.fork(at=1, label="forked")
        fork.append("assistant", "two")
        fork.persist()
        with pytest.raises(InvalidInput, match="already"):
            thin.create(id="other-3")
        with pytest.raises(InvalidInput, match="belongs to session 'other-4'"):
            thin.create(label="label of other-4")
        assert thin.load("label of other-5").id == "other-5"
        assert thin.session("other-6").system == "Be brief"
        with pytest.raises(SessionNotFound):
            thin.load("nowhere")
    whole.sync()
    assert [turn.content for turn in whole.load("forked")] == ["one", "two"]
    assert whole.verify().ok


@pytest.mark.parametrize("is_quicker_thin", [False, True])
def test_whoever_comes_second_gets_a_head_conflict(url: str, whole: Repository, is_quicker_thin: bool) -> None:
    with trails.open(url, thin=True) as thin, trails.open(url, thin=True) as further:
        slow, quick = thin.load("plan"), (further if is_quicker_thin else whole).load("plan")
        for handle in (slow, quick):
            handle.append("user", "e of plan")
        quick.persist()
        with pytest.raises(HeadConflict) as told:
            slow.persist()
        assert (told.value.expected, told.value.actual) == (quick[3].digest, quick.head)
        assert slow.refresh() == 1
        assert slow.persist() == 1
        assert [turn.index for turn in further.load("plan", fresh=True)] == [0, 1, 2, 3, 4, 5]
    whole.sync()
    assert whole.load("plan").head == slow.head
    assert whole.verify().ok


def test_other_sessions_move_on_and_a_thin_commit_reads_nothing_of_them(url: str, whole: Repository) -> None:
    with trails.open(url, thin=True) as thin:
        plan = thin.load("plan")
        for number in range(9):
            other = whole.load(f"other-{number}")
            other.append("user", "e")
            other.persist()
        plan.append("user", "e of plan")
        plan.persist()
        assert not any("other-3" in str(quad) for quad in _held(thin))
    whole.sync()
    assert whole.verify().ok


def test_tags_refs_notes_labels_and_prompts_of_a_session_are_there(url: str, whole: Repository) -> None:
    whole.tags.add("before", "plan@2")
    whole.notes.add("plan", 1, "look here")
    with trails.open(url, thin=True) as thin:
        assert (thin.tags.get("before").length, thin.load("before").id) == (2, "plan")
        assert [note.text for note in thin.notes.list("plan")] == ["look here"]
        thin.refs.set("main", "plan")
        thin.tags.add("after", "plan@4")
        thin.notes.add("plan", 2, "and here")
        plan = thin.load("plan")
        plan.set_label("renamed")
        plan.set_system("Be long")
        plan.persist()
        with pytest.raises(InvalidInput, match="there is no tag"):
            thin.tags.get("nowhere")
        with pytest.raises(InvalidInput, match="name of a tag"):
            thin.create(id="before")
    whole.sync()
    assert [tag.name for tag in whole.tags.list()] == ["after", "before"]
    assert [note.text for note in whole.notes.list("plan")] == ["look here", "and here"]
    assert (whole.load("renamed").system, whole.refs["main"].session_id) == ("Be long", "plan")
    assert whole.verify().ok


def test_signatures_batches_diffs_and_contexts_of_the_sessions_in_use(url: str, whole: Repository) -> None:
    pytest.importorskip("cryptography")
    secret, public = new_principal_key("alice")
    with trails.open(url, thin=True) as thin:
        plan = thin.load("plan")
        first = plan.sign(secret)
        _append(plan, "e of plan")
        assert [said.index for said in (first, plan.sign(secret))] == [3, 4]
        with thin.commit() as batch:
            new, other = batch.add(thin.create(id="new")), batch.add(thin.load("other-2"))
            new.append("user", "one")
            other.append("user", "two")
        fork = plan.fork(at=2)
        _append(fork, "x")
        assert thin.diff(fork.id, "plan").common == 2
        assert thin.context("plan").turns == plan.turns
        thin.set_label("new", "renamed")
        assert thin.load("renamed").id == "new"
    whole.sync()
    assert (len(whole.load("new")), len(whole.load("other-2"))) == (1, 5)
    assert not whole.verify(signers=[public]).findings


def test_a_session_is_read_again_once_many_were_in_use(
    url: str, whole: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trails.store.postgres.thin._MOST", 60)
    with trails.open(url, thin=True) as thin:
        handles = [thin.load(f"other-{number}") for number in range(9)]
        assert len(_held(thin)) < 9 * 40
        for handle in handles:
            _append(handle, "e")
        assert [len(thin.load(handle.id)) for handle in handles] == [5] * 9
    whole.sync()
    assert whole.verify().ok


def test_payloads_are_kept_once_and_read(url: str, whole: Repository) -> None:
    data = os.urandom(10_000)
    with trails.open(url, thin=True) as thin:
        for name in ("plan", "other-1"):
            session = thin.load(name)
            session.append("tool", "done", payloads=[trails.Payload(data=data, name="state")])
            session.persist()
        assert thin.load("plan").payload(thin.load("plan")[4].payloads[0]) == data
    whole.sync()
    assert whole.payload(whole.load("other-1")[4].payloads[0]) == data
    assert whole.verify().ok


def test_what_needs_all_sessions_says_where_to_ask(url: str, whole: Repository) -> None:
    with trails.open(url, thin=True) as thin:
        plan = thin.load("plan")
        fork = plan.fork(at=1)
        for ask in (
            thin.list, thin.verify, thin.info, lambda: list(thin), lambda: len(thin), lambda: thin.query("ASK {}"),
            lambda: thin.search("a"), lambda: thin.delete("plan"), lambda: thin.redact("plan", 0), thin.tags.list,
            lambda: thin.load("abcdef0123"), fork.detach, plan.delete, lambda: thin.store.query("ASK {}"),
        ):  # fmt: skip
            with pytest.raises(NeedsWholeStore, match=r"without thin=True, or ask its server"):
                ask()
    whole.sync()
    assert whole.verify().ok
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        trails.open(":memory:", thin=True)


def test_what_is_redacted_and_deleted_leaves_a_thin_process(url: str, whole: Repository) -> None:
    with trails.open(url, thin=True) as thin:
        assert [turn.content for turn in thin.load("plan")][1] == "b of plan"
        whole.redact("plan", 1)
        whole.delete("other-1")
        thin.sync()
        assert thin.load("plan")[1].content == ""
        assert not any("b of plan" in str(quad) for quad in _held(thin))
        with pytest.raises(SessionNotFound, match="was deleted"):
            thin.load("other-1")
        plan = thin.load("plan")
        plan.append("user", "e of plan")
        plan.persist()
    with trails.open(url, thin=True) as new:
        assert [turn.content for turn in new.load("plan")] == ["a of plan", "", "c of plan", "d of plan", "e of plan"]
    whole.sync()
    whole.maintenance.vacuum()
    with trails.open(url, thin=True) as new:
        assert len(new.load("plan")) == 5
    assert whole.verify().ok


def test_an_altered_record_is_found_when_it_is_read(url: str, whole: Repository) -> None:
    _sql(
        url,
        "UPDATE trails_records SET body = (SELECT body FROM trails_records WHERE number = 3 LIMIT 1) WHERE number = 2",
    )
    with trails.open(url, thin=True) as thin:
        with pytest.raises(StoreFailed, match=r"record 2 .* is not the one that was written"):
            thin.load("plan")
        assert len(thin.load("other-8")) == 4


def test_a_store_of_before_is_indexed_by_whoever_opens_it_whole(url: str, whole: Repository) -> None:
    whole.close()
    _sql(url, "DROP TABLE trails_subjects")
    _sql(url, "ALTER TABLE trails_stores DROP COLUMN indexed")
    with pytest.raises(NeedsWholeStore, match="trails store upgrade"):
        trails.open(url, thin=True)
    assert [check.ok for check in upkeep.look(url) if check.name == "sessions"] == [False]
    with trails.open(url):
        pass
    with trails.open(url, thin=True) as thin:
        assert len(thin.load("plan")) == 4
    assert [check.ok for check in upkeep.look(url) if check.name == "sessions"] == [True]
    _sql(url, "DELETE FROM trails_subjects WHERE number > 7")
    _sql(url, "UPDATE trails_stores SET indexed = 7")
    with pytest.raises(NeedsWholeStore, match=r"records 8 to \d+"):
        trails.open(url, thin=True)
    assert upkeep.upgrade(url).steps == ("indexed all commits by session, so that thin=True opens the store",)
    with trails.open(url, thin=True) as thin:
        assert len(thin.load("other-8")) == 4


def test_commits_of_a_version_that_does_not_index_are_noticed(url: str, whole: Repository) -> None:
    log_of(whole.store).server.indexes = False
    plan = whole.load("plan")
    plan.append("user", "e of plan")
    plan.persist()
    log_of(whole.store).server.indexes = True
    plan.append("user", "f of plan")
    plan.persist()
    with pytest.raises(NeedsWholeStore, match="not indexed by session"):
        trails.open(url, thin=True)
    with trails.open(url):
        pass
    with trails.open(url, thin=True) as thin:
        assert len(thin.load("plan")) == 6


def test_a_thin_process_goes_on_when_the_server_was_away(url: str, whole: Repository, cluster: Cluster) -> None:
    with trails.open(url, thin=True) as thin:
        plan = thin.load("plan")
        cluster.restart()
        plan.append("user", "e of plan")
        assert plan.persist() == 1
    whole.sync()
    assert len(whole.load("plan")) == 5
