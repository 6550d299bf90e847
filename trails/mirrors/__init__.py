"""Mirrors: what a store holds, kept in anybody's SPARQL server, to be read there."""
