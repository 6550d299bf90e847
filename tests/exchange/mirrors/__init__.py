"""Mirrors of a store in SPARQL servers."""
