"""When what is committed is brought into the engine's files."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from trails.store import flushing
from trails.store.flushing import Backlog

_FILES: Any = cast("Any", SimpleNamespace(is_filling=False, used=0))
"""Records of which there is room for more."""


def test_quads_are_flushed_by_5000_once_a_second_and_by_20000_where_more_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now, flushed = [100.0], list[float]()
    monkeypatch.setattr(flushing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    backlog = Backlog(lambda: flushed.append(now[0]), lambda **_: None)

    def grew(at: float, quads: int) -> list[float]:
        now[0] = at
        backlog.grew(quads, _FILES)
        backlog.join()
        return flushed

    assert grew(100.0, 4_999) == []
    assert grew(100.0, 1) == [100.0]
    assert grew(100.5, 19_999) == [100.0]
    assert grew(100.5, 1) == [100.0, 100.5]
    assert grew(101.4, 5_000) == [100.0, 100.5]
    assert grew(101.5, 1) == [100.0, 100.5, 101.5]


def test_records_that_fill_their_file_are_flushed_however_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = list[bool]()
    monkeypatch.setattr(flushing, "time", SimpleNamespace(monotonic=lambda: 100.0))
    backlog = Backlog(lambda: flushed.append(True), lambda **_: None)
    for _ in range(3):
        backlog.grew(1, cast("Any", SimpleNamespace(is_filling=True, used=0)))
        backlog.join()
    assert flushed == [True, True, True]
