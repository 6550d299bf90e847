"""SPARQL over HTTP: the endpoint `/sparql`, graphs to read at `/graphs`, and the queries of the catalogue at `/queries`."""

from __future__ import annotations

from trails.serve.sparql.endpoints import routes

__all__ = ["routes"]
