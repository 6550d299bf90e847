"""Which of the project's own queries are asked."""

from __future__ import annotations

from typing import Any

import pytest

from trails.history.reader import Reader
from trails.store.contract import Solutions


def asked_from_now_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each query that any reader asks, in order."""
    names: list[str] = []
    select = Reader.select

    def noted(reader: Reader, name: str, **values: Any) -> Solutions:
        names.append(name)
        return select(reader, name, **values)

    monkeypatch.setattr(Reader, "select", noted)
    return names
