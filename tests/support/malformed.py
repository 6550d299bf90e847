"""Values with something wrong in them: what an importer is given that nobody meant to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

ODD: list[Any] = [
    None,
    0,
    -1,
    1e300,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    {"id": []},
    [[0, 10**9]],
    True,
    "\u0000",
    "a" * 300,
]


def replaced(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """Return a value of JSON with one thing in it, however deep, replaced by something else."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(ODD))
    if isinstance(value, dict):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: replaced(value[key], draw)}
    place = draw(st.integers(0, len(value) - 1))
    return [*value[:place], replaced(value[place], draw), *value[place + 1 :]]
