"""Stores of quads: they know RDF and SPARQL, never sessions."""

from trails.store.contract import Change, Pattern, PreconditionFailed, QuadStore, Result, Solutions
from trails.store.embedded import EmbeddedStore

__all__ = ["Change", "EmbeddedStore", "Pattern", "PreconditionFailed", "QuadStore", "Result", "Solutions"]
