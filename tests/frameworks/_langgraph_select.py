"""A pytest plugin: of LangGraph's own tests, those that take a checkpointer, each once, and none that needs a server.

`LANGGRAPH_CHECKPOINTER` names the checkpointers that are kept: `memory`, in whose place Trails comes, or `sqlite`.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any
from unittest.mock import MagicMock

import pytest

_KEPT = {"memory": {"memory"}, "sqlite": {"sqlite", "sqlite_aio"}}[os.environ.get("LANGGRAPH_CHECKPOINTER", "sqlite")]
_SERVERS = ("redis", "psycopg", "psycopg_pool", "langgraph.checkpoint.postgres", "langgraph.store.postgres")

os.environ["NO_DOCKER"] = "true"
for _name in _SERVERS:  # the tests' conftest imports them, whether they are used or not
    if find_spec(_name) is None:
        for _part in (_name, f"{_name}.aio", f"{_name}.base"):
            sys.modules[_part] = MagicMock()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that take one of the checkpointers."""
    items[:] = [item for item in items if _is_kept(getattr(getattr(item, "callspec", None), "params", {}))]


def _is_kept(params: dict[str, Any]) -> bool:
    taken = [params[name] for name in ("sync_checkpointer", "async_checkpointer") if name in params]
    return bool(taken) and set(taken) <= _KEPT and params.get("cache", "memory") == "memory"
