"""A report as Markdown and as one HTML page: no script, nothing from elsewhere, and nothing recorded is taken for markup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any, Final

from trails.audit.report import Found, Report, Verdict
from trails.tables import PlainTable, to_markdown

_GOOD: Final = {"validity": "valid", "completeness": "complete", "integrity": "holds", "findings": "none"}
_BAD: Final = {"validity": "NOT VALID", "completeness": "INCOMPLETE", "integrity": "DOES NOT HOLD", "findings": "SOME"}
_STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1200px; padding: 24px 16px; font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: 8px 0 24px; }
th, td { padding: 3px 16px 3px 0; border-bottom: 1px solid #8886; text-align: left; vertical-align: top; }
"""


def word(verdict: Verdict) -> str:
    """Return a verdict in a word or two.

    >>> word(Verdict(name="validity", holds=True, said="")), word(Verdict(name="integrity", holds=False, said=""))
    ('valid', 'DOES NOT HOLD')
    """
    return (_GOOD if verdict.holds else _BAD)[verdict.name]


def title(report: Report) -> str:
    """Return what was audited, on one line."""
    return "Audit of the whole store" if report.subject is None else f"Audit of the session {shown(report.subject)}"


def facts(report: Report) -> list[str]:
    """Return when it was audited, by what, in which state of the log, and the report's digest."""
    return [
        f"made {report.time} with Trails {report.version}",
        f"the log had {report.lines} lines, with the Merkle root {report.root}",
        f"digest of this report (SHA-256): {report.digest}",
    ]


def shown(value: Any) -> str:
    """Return a cell as text on one line; what cannot be printed is escaped, and nothing is an empty cell.

    >>> shown(None), shown("a\\x1b"), shown(["a", 1])
    ('', 'a\\\\u001b', '["a", 1]')
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)


# --- Markdown


def markdown(report: Report) -> str:
    """Return the report as Markdown."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: Report) -> Iterator[str]:
    yield from (f"# {_literal(title(report))}", "", *(f"- {_literal(each)}" for each in facts(report)), "")
    yield _markdown_table(("session", "turns", "head"), report.sessions)
    for verdict in report.verdicts:
        yield from (f"## {verdict.name.capitalize()}: {word(verdict)}", "", f"{_literal(verdict.said)}.", "")
        for found in verdict.found:
            yield from (
                f"### `{found.query}`: {_literal(found.purpose)}",
                "",
                _markdown_table(found.columns, found.rows),
            )
    yield from ("## What this cannot show", "", *(f"- {_literal(each)}" for each in report.cannot_show))


def _markdown_table(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> str:
    cells = [dict(zip(columns, map(shown, row), strict=True)) for row in rows]
    return to_markdown(PlainTable(dict.fromkeys(columns, "text"), cells))


def _literal(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return to_markdown(PlainTable({text: "text"}, [])).splitlines()[0][2:-2]


# --- HTML


def html(report: Report) -> str:
    """Return the report as one page."""
    return "\n".join(_html(report)) + "\n"


def _html(report: Report) -> Iterator[str]:
    name = escape(title(report))
    yield from ("<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">', f"<title>{name}</title>")
    yield from (f"<style>{_STYLE}</style>", "</head>", "<body>", f"<h1>{name}</h1>")
    yield from _html_list(facts(report))
    yield from _html_table(Found(query="", purpose="", columns=("session", "turns", "head"), rows=report.sessions))
    for verdict in report.verdicts:
        yield from (f"<h2>{verdict.name.capitalize()}: {word(verdict)}</h2>", f"<p>{escape(shown(verdict.said))}.</p>")
        for found in verdict.found:
            yield f"<h3><code>{escape(found.query)}</code>: {escape(found.purpose)}</h3>"
            yield from _html_table(found)
    yield "<h2>What this cannot show</h2>"
    yield from _html_list(report.cannot_show)
    yield from ("</body>", "</html>")


def _html_list(items: list[str] | tuple[str, ...]) -> Iterator[str]:
    yield from ("<ul>", *(f"<li>{escape(shown(each))}</li>" for each in items), "</ul>")


def _html_table(found: Found) -> Iterator[str]:
    yield from ("<table>", f"<tr>{''.join(f'<th>{escape(each)}</th>' for each in found.columns)}</tr>")
    for row in found.rows:
        yield f"<tr>{''.join(f'<td>{escape(shown(each))}</td>' for each in row)}</tr>"
    yield "</table>"
