"""Branches side by side: what is read of them, and the tables, plots and layouts made of it."""
