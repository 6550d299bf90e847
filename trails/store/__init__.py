"""Stores of quads: they know RDF and SPARQL, never sessions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trails.store.contract import Change, Committed, PreconditionFailed, QuadStore, Result, Solutions
    from trails.store.embedded import EmbeddedStore
    from trails.store.pattern import Pattern

__all__ = ["Change", "Committed", "EmbeddedStore", "Pattern", "PreconditionFailed", "QuadStore", "Result", "Solutions"]
_HOMES = {"EmbeddedStore": "embedded", "Pattern": "pattern"}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: who reads a store's files beside the engine needs neither of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"trails.store.{_HOMES.get(name, 'contract')}"), name)
    globals()[name] = value
    return value
