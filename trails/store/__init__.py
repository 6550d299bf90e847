"""Stores of quads: they know RDF and SPARQL, never sessions."""

from trails.store.contract import Change, PreconditionFailed, QuadStore, Result, Solutions
from trails.store.embedded import EmbeddedStore
from trails.store.pattern import Pattern

__all__ = ["Change", "EmbeddedStore", "Pattern", "PreconditionFailed", "QuadStore", "Result", "Solutions"]
