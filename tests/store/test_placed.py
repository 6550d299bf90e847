"""Files of a store that are taken away, or replaced, while their owner has them open: he is told, and acknowledges nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import trails
from trails import Repository, StoreFailed
from trails.integrity.signed_notes import new_key


@pytest.fixture
def owned(place: Path) -> Iterator[Repository]:
    """A store that is open, with the turns "one" and "two" of session s; `log.old` in it is its log before the second."""
    with trails.open(place, create=True) as store:
        session = store.create(id="s")
        for text in ("one", "two"):
            (place / "log.old").write_bytes((place / "log").read_bytes())
            session.append("user", text)
            session.persist()
        yield store


def _codes(store: Repository, session: str | None = None, **options: object) -> list[str]:
    return [each.code for each in store.verify(session, **options).findings]  # type: ignore[arg-type]


def test_a_log_that_was_put_back_under_its_owner_is_found_by_him(owned: Repository, place: Path) -> None:
    secret, public = new_key("example.org/log")
    note = owned.proofs.checkpoint(secret)
    assert _codes(owned) == []
    (place / "log.old").rename(place / "log")
    assert _codes(owned) == ["bad-log"]
    assert _codes(owned, "s") == ["bad-log"]
    [found] = owned.verify(checkpoint=note, verifiers=[public]).findings
    assert found.message.startswith(f"{place / 'log'}: another file was put in its place")
    with pytest.raises(StoreFailed, match="another file was put in its place"):
        owned.proofs.checkpoint(secret)


def test_a_log_of_commits_that_was_removed_takes_no_turn_and_is_found(owned: Repository, place: Path) -> None:
    session = owned.load("s")
    session.append("user", "three")
    shutil.rmtree(place / "commits")
    assert _codes(owned) == ["bad-log"]
    with pytest.raises(StoreFailed, match="it was removed, or moved away, while the store is open"):
        session.persist()
    session.discard_pending()


def test_records_stay_where_the_log_of_leaves_was_replaced_and_nothing_is_lost_once_it_is_back(
    owned: Repository, place: Path
) -> None:
    (place / "log").rename(place / "log.new")
    (place / "log.old").rename(place / "log")
    with pytest.raises(StoreFailed, match="another file was put in its place"):
        owned.store.flush()
    owned.close()
    (place / "log.new").rename(place / "log")
    with trails.open(place) as again:
        assert [turn.content for turn in again.load("s").turns] == ["one", "two"]
        assert again.verify().ok


def test_a_folder_that_was_away_and_is_back_harms_nothing(owned: Repository, place: Path) -> None:
    owned.store.flush()  # an engine that writes a file in just that moment takes no more work, as it says
    place.rename(f"{place}.away")
    Path(f"{place}.away").rename(place)
    session = owned.load("s")
    session.append("user", "three")
    session.persist()
    owned.store.flush()
    assert _codes(owned) == []
