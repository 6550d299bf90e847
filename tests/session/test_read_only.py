"""A store that is opened to be read, as its users see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import trails
from trails import InvalidInput, Repository, StoreFailed, StoreReadOnly
from trails.history.removal import deletion
from trails.integrity.signed_notes import new_key
from trails.session import proofs


@pytest.fixture
def owner(place: Path) -> Iterator[Repository]:
    with trails.open(place, create=True) as store:
        session = store.create(id="chat", label="front")
        session.append("user", "Where is Paris?")
        session.persist()
        session.fork(id="branch").persist()
        yield store


@pytest.fixture
def view(owner: Repository, place: Path) -> Iterator[Repository]:
    with trails.open(place, read_only=True) as opened:
        yield opened


def test_a_view_says_that_it_is_one_and_sees_what_is_there(owner: Repository, view: Repository) -> None:
    assert (view.read_only, owner.read_only) == (True, False)
    assert view.load("chat").turns[0].content == "Where is Paris?"
    assert view.resolve("front") == "chat"
    assert view.info() == owner.info()
    assert [record.id for record in view.list()] == [record.id for record in owner.list()]
    assert [hit.session_id for hit in view.search("paris")] == ["chat"]


def test_a_refresh_says_whether_there_is_something_new_and_an_owner_always_sees_everything(
    owner: Repository, view: Repository
) -> None:
    assert view.refresh() is False
    session = owner.load("chat")
    session.append("assistant", "In France.")
    session.persist()
    assert len(view.load("chat").turns) == 1
    assert (view.refresh(), len(view.load("chat").turns)) == (True, 2)
    assert owner.refresh() is False


def test_a_view_keeps_what_is_redacted_until_it_is_refreshed(owner: Repository, view: Repository) -> None:
    owner.redact("chat", 0)
    owner.maintenance.vacuum()
    assert view.load("chat").turns[0].content == "Where is Paris?"
    assert view.refresh()
    assert view.load("chat").turns[0].content == ""
    assert view.verify().findings == ()


WRITES: dict[str, Callable[[Repository, Path], object]] = {
    "create": lambda view, _: view.create(id="new").persist(),
    "delete": lambda view, _: view.delete("branch"),
    "detach": lambda view, _: view.detach("branch"),
    "fork": lambda view, _: view.load("chat").fork(id="other").persist(),
    "label": lambda view, _: view.set_label("chat", "newer"),
    "redact": lambda view, _: view.redact("chat", 0),
    "redact matching": lambda view, _: view.redact_matching("Paris"),
    "prune": lambda view, _: view.prune(keep_count=0),
    "tag": lambda view, _: view.tags.add("first", "chat@1"),
    "vacuum": lambda view, _: view.maintenance.vacuum(),
    "backup": lambda view, path: view.maintenance.backup(path / "backup"),
}


@pytest.mark.parametrize("name", WRITES)
def test_whatever_writes_is_refused_and_changes_nothing(
    owner: Repository, view: Repository, tmp_path: Path, name: str
) -> None:
    before = set(owner.store.quads((None, None, None, None)))
    with pytest.raises(StoreReadOnly, match="read_only=True"):
        WRITES[name](view, tmp_path)
    assert set(owner.store.quads((None, None, None, None))) == before
    assert not (tmp_path / "backup").exists()


BEGINS: dict[str, Callable[[Repository], object]] = {
    "append": lambda view: view.load("chat").append("user", "more"),
    "append_message": lambda view: view.load("chat").append_message({"role": "user", "content": "more"}),
    "extend": lambda view: view.load("chat").extend([{"role": "user", "content": "more"}]),
    "streaming": lambda view: view.load("chat").streaming("assistant"),
    "create": lambda view: view.create(),
    "session": lambda view: view.session("new"),
    "fork": lambda view: view.load("chat").fork(),
    "set_system": lambda view: view.load("chat").set_system("Be brief."),
}


@pytest.mark.parametrize("begin", BEGINS.values(), ids=BEGINS)
def test_what_could_never_be_persisted_is_refused_at_once_on_a_view(
    view: Repository, begin: Callable[[Repository], object]
) -> None:
    with pytest.raises(StoreReadOnly, match="read_only=True"):
        begin(view)
    assert view.load("chat").pending == 0


def test_what_cannot_be_read_so_is_refused(place: Path, owner: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="give one of the two"):
        trails.open(place, read_only=True, create=True)
    with pytest.raises(InvalidInput, match="in memory"):
        trails.open(":memory:", read_only=True)
    with pytest.raises(InvalidInput, match="reads are to be recorded"):
        trails.open(place, read_only=True, record_reads=True)
    monkeypatch.setenv("TRAILS_RECORD_READS", "1")
    with pytest.raises(InvalidInput, match="reads are to be recorded"):
        trails.open(place, read_only=True)
    trails.open(place, read_only=True, record_reads=False).close()


def test_a_dump_a_checkpoint_and_a_proof_can_be_made_of_a_view(
    owner: Repository, view: Repository, tmp_path: Path
) -> None:
    secret, public = new_key("log.example/a")
    note = view.proofs.checkpoint(secret)
    assert view.proofs.turn("chat", 0, note).size == len(owner.store.log.lines())
    assert owner.verify(checkpoint=note, verifiers=[public]).findings == ()
    assert view.maintenance.dump(tmp_path / "view.gz") == owner.maintenance.dump(tmp_path / "owner.gz")
    assert (tmp_path / "view.gz").read_bytes() == (tmp_path / "owner.gz").read_bytes()


def test_a_deletion_that_the_owner_is_sweeping_is_no_finding(
    owner: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(deletion, "sweep_pending", lambda _: 0)
        owner.delete("chat", children="cascade")
    with trails.open(place, read_only=True) as view:
        real = proofs._have_gone

        def swept_meanwhile(*arguments: object) -> bool:
            deletion.sweep_pending(owner.store)
            return real(*arguments)  # type: ignore[arg-type] # as they were given

        monkeypatch.setattr(proofs, "_have_gone", swept_meanwhile)
        assert view.verify().findings == ()


def test_a_deletion_that_nobody_finishes_is_neither_accused_nor_passed_over(
    owner: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "_PATIENCE", 0.1)
    monkeypatch.setattr(deletion, "sweep_pending", lambda _: 0)
    owner.delete("chat", children="cascade")
    with trails.open(place, read_only=True) as view, pytest.raises(StoreFailed, match="is not finished"):
        view.verify()
