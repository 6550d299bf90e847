"""The collector looks less often while much is made, and then as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from trails.workers import collect_seldom


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_it_looks_as_often_as_before_once_the_last_block_has_ended() -> None:
    first, second = collect_seldom(), collect_seldom()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == (20_000, 10, 10)
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (20_000, 10, 10)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


def test_it_looks_as_often_as_before_after_an_error() -> None:
    with pytest.raises(LookupError), collect_seldom():
        raise LookupError
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (50_000, 20, 20)])
def test_who_has_it_look_as_seldom_or_not_at_all_is_left_alone(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with collect_seldom():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_somebody_sets_meanwhile_stays() -> None:
    with collect_seldom():
        gc.set_threshold(1_000, 5, 5)
    assert gc.get_threshold() == (1_000, 5, 5)
