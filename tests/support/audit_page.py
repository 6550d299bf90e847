"""The lists of queries in the guide's page for auditors: `python -m tests.support.audit_page` writes them again."""

from __future__ import annotations

import re
import sys

from tests.support.places import ROOT
from trails.rdf import query_files

PAGE = ROOT / "trails" / "guide" / "audit.md"
_FIRST = "## The queries\n"
_INTRODUCTION = (
    "\nParameters in brackets are optional. `trails queries NAME` prints a query, after a paragraph "
    "in plain words and what its columns are. The console shows a picture of its pattern.\n"
)


def section() -> str:
    """Return the last section of the page, from its heading on: a table of the queries of each theme."""
    parts = [_FIRST, _INTRODUCTION]
    for theme, about in query_files.THEMES.items():
        found = query_files.by_theme(theme).values()
        if found:
            parts.append(
                f"\n### {theme.capitalize()}: {about}\n\n| query | parameters | what it answers |\n|---|---|---|\n"
            )
        for query in found:
            names = ", ".join(f"[{each.name}]" if each.optional else each.name for each in query.parameters)
            parts.append(f"| `{query.name}` | {names} | {query.purpose} |\n")
    return "".join(parts)


def with_section(page: str) -> str:
    """Return the page with that section as the files are now."""
    return re.sub(rf"^{_FIRST}.*\Z", lambda _: section(), page, count=1, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_section(PAGE.read_text("utf-8")), "utf-8")
    sys.stdout.write(f"{PAGE}\n")
