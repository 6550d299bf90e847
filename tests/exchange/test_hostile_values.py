"""Whatever stands in a field, reading a file raises nothing but errors of ours, in every format."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.machines import Size
from trails import TrailsError
from trails.exchange.file_import import import_bytes
from trails.exchange.formats import format_named
from trails.exchange.merge import merge

pytestmark = pytest.mark.slow

HOSTILE: list[Any] = [None, True, -1, 10**30, "", "x", [], [[]], {}, {"type": []}, ["text"], [{"type": "text"}]]


FILES: dict[str, list[Any]] = json.loads(
    Path(__file__).with_name("samples").joinpath("every_format.json").read_text("utf-8")
)
"""The lines of files of each format; what follows a comma tells two of one format apart."""


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


@pytest.mark.parametrize("name", FILES)
def test_any_value_in_any_field_is_read_or_reported(name: str, size: Size) -> None:
    lines, form = FILES[name], name.partition(",")[0]
    count = sum(1 for _ in _places(lines))
    assert count > 25
    with trails.open(":memory:") as store:
        whole = import_bytes(store, _written(lines), format=form)
        assert whole.turns_added >= 3
    step = {"quick": 37, "all": 5, "long": 1}[size]
    for number in range(count * len(HOSTILE)):
        if number % step:
            continue
        changed = copy.deepcopy(lines)
        holder, key = list(_places(changed))[number // len(HOSTILE)]
        cost = 1 + sum(1 for _ in _places([holder[key]]))
        holder[key] = copy.deepcopy(HOSTILE[number % len(HOSTILE)])
        with trails.open(":memory:") as store:
            try:
                report = import_bytes(store, _written(changed), format=form)
                is_told = report.problems or report.notes != whole.notes or report.left_out != whole.left_out
                assert is_told or report.turns_added >= whole.turns_added - cost, changed  # its turn and what is in it
                assert import_bytes(store, _written(changed), format=form).turns_added == 0
                for record in store.list():
                    store.context(record.id, "next", max_tokens=5_000).openai()
            except TrailsError:
                continue


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_or_garbled_anywhere_raises_nothing_and_is_not_lost_in_silence(
    name: str, size: Size
) -> None:
    whole = _written(FILES[name])
    for at in range(1, len(whole), {"quick": 199, "all": 31, "long": 3}[size]):
        garbled = whole[:at] + bytes([at * 7 % 256]) + whole[at + 1 :]
        for data in (whole[:at], garbled, garbled[: len(whole) - at]):
            found = format_named(name.partition(",")[0]).read([("file", data)])
            assert found.sessions or found.problems or found.notes or found.records
            with trails.open(":memory:") as store:
                merge(store, found)
                assert store.verify().ok


def _written(lines: list[Any]) -> bytes:
    return b"\n".join(json.dumps(line).encode() for line in lines)
