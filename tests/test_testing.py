"""The conformance suite serves whoever writes a home of the log, and finds what is wrong with one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.third_home import lose, open_third, open_wrong
from trails.session.repository import Repository
from trails.store import QuadStore
from trails.testing import LogConformance


class TestAThirdHome(LogConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], QuadStore]:
        return partial(open_third, tmp_path / "log.sqlite")

    @pytest.mark.slow
    def test_of_eight_processes_exactly_one_wins_each_round(self, open_store: Callable[[], QuadStore]) -> None:
        """Slow: that of PostgreSQL's store, where processes share a log, is in `make test`."""
        super().test_of_eight_processes_exactly_one_wins_each_round(open_store)

    @pytest.fixture(params=["a row", "the end", "the end, unseen"])
    def cut_log(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], bool]:
        return partial(lose, str(request.param), tmp_path / "log.sqlite")


def test_sessions_of_a_third_home_are_written_by_two_and_read_by_both(tmp_path: Path) -> None:
    with Repository(open_third(tmp_path / "log")) as one, Repository(open_third(tmp_path / "log")) as two:
        session = one.create(id="chat")
        session.append("user", "Hello")
        session.persist()
        assert two.refresh()
        answer = two.load("chat")
        answer.append("assistant", "Good day")
        answer.persist()
        assert one.refresh()
        assert [turn.content for turn in one.load("chat").turns] == ["Hello", "Good day"]
        assert one.verify().ok


def test_a_home_that_says_too_early_that_it_has_written_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        LogConformance().test_what_a_killed_process_was_not_told_is_written_once_when_it_is_repeated(
            partial(open_wrong, "late", tmp_path / "log")
        )


@pytest.mark.parametrize("what", ["a row", "the end"])
def test_a_home_that_does_not_notice_what_is_missing_is_found_out(tmp_path: Path, what: str) -> None:
    with pytest.raises(AssertionError):
        LogConformance().test_a_log_that_lost_its_end_is_refused_or_is_what_it_was_before(
            partial(open_wrong, "careless", tmp_path / "log"), partial(lose, what, tmp_path / "log")
        )
