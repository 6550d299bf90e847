"""What the log alone tells of a session that was deleted and came back."""

from __future__ import annotations

import pytest

from trails.history import log_history
from trails.model import iris

_PLAN = iris.session("plan")


def _log(*leaves: str) -> log_history.SessionLog:
    """Return what the log says of a session, given leaves as a kind, a count and a digest."""
    return log_history.logs_by_session(
        [f"{kind} {_PLAN} {rest} 00" for kind, rest in (each.split(" ", 1) for each in leaves)]
    )["plan"]


_MADE, _GONE = "create 0 ~aa", "delete 0 ~aa"
_LONG = [_MADE, "turns 2 two", "turns 5 five", _GONE, _MADE]


@pytest.mark.parametrize(
    ("since", "now", "altered"),
    [
        (["turns 5 five"], {1: "two", 4: "five"}, False),
        (["turns 2 two"], {1: "two"}, False),
        (
            ["turns 2 two", "turns 6 new"],
            {1: "two", 4: "other", 5: "new"},
            False,
        ),  # it went on after it came back shorter
        (["turns 3 odd", "turns 5 five"], {1: "two", 2: "odd", 4: "five"}, False),  # it came in two batches
        (["turns 9 more"], {1: "two", 4: "five", 8: "more"}, False),
        ([], {}, False),
        (["turns 5 other"], {1: "two", 4: "other"}, True),
        (["turns 5 five"], {1: "other", 4: "five"}, True),
        (["turns 9 more"], {1: "two", 4: "other", 8: "more"}, True),
        (["turns 3 odd"], {1: "two", 2: "odd"}, True),  # it never ended there
        (["turns 2 other", "turns 4 odd"], {1: "other", 3: "odd"}, True),
    ],
)
def test_it_comes_back_as_it_was_or_as_it_was_after_an_earlier_commit(
    since: list[str], now: dict[int, str], altered: bool
) -> None:
    assert _log(*_LONG, *since).came_back_with_others(now, 0) is altered


def test_what_came_back_altered_is_told_after_it_was_deleted_and_came_back_so_again() -> None:
    again = _log(*_LONG, "turns 5 other", _GONE, _MADE, "turns 5 other")
    assert again.came_back_with_others({1: "two", 4: "other"}, 0)


def test_what_went_on_after_it_came_back_shorter_comes_back_as_that() -> None:
    again = _log(*_LONG, "turns 2 two", "turns 3 new", _GONE, _MADE, "turns 3 new")
    assert not again.came_back_with_others({1: "two", 2: "new"}, 0)
    assert again.would_come_back_with_others({1: "two", 2: "c", 3: "d", 4: "five"}, 0)
