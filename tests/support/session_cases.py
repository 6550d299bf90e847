"""The shared cases of session keys and policies, as parameters of tests with ids that can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.support.places import SHARED


def load(name: str) -> dict[str, Any]:
    """Return a file of cases, empty where the folder is not there (the fixture `shared` then skips, or fails under CI)."""
    path = SHARED / "cases" / f"{name}.json"
    return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else {}


def each(cases: Iterable[Any], describe: Callable[[Any], Any]) -> pytest.MarkDecorator:
    """Return a mark that runs a test for each case, which is its argument `case`."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=_short(describe(case))) for case in cases])


def _short(said: Any) -> str:
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=True)
    return text if len(text) <= 90 else f"{text[:70]}...{len(text)}"
