"""SPARQL from users, in processes that can be ended."""
