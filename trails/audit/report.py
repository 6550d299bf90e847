"""The report of an audit, as JSON, Markdown and HTML.

It has separate verdicts, each with its findings, and a digest over all of it. The HTML page has no script and loads nothing,
and nothing recorded is taken for markup. A log vouches for a report by a signed checkpoint that holds the report's digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, Literal

from markupsafe import Markup

from trails.display import html
from trails.display.tables import PlainTable, to_markdown
from trails.errors import IntegrityError, InvalidInput
from trails.integrity.signed_notes import Checkpoint, open_checkpoint
from trails.integrity.verifier.notes import to_base64
from trails.integrity.witnesses import cosignatures
from trails.model.values import Value

FORMAT: Final = "trails-audit-report/1"
EXTENSION: Final = "audit-report-sha256"
"""What stands before a report's digest in the line by which a signed checkpoint vouches for it."""

_AGAIN: Final = "get it again from whoever made it"

CANNOT_SHOW: Final = (
    "that recorded times, names and texts were true when they were written",
    "that everything that happened was recorded",
    "what was deleted or redacted: only that, when and, where it was said, by whom",
)
WITHOUT_CHECKPOINT: Final = (
    "that the store and its log were not rewritten together: no checkpoint that was kept elsewhere was given"
)
AFTER_CHECKPOINT: Final = (
    "that what was written after the checkpoint was not rewritten since: only a newer one shows it"
)

Name = Literal["validity", "completeness", "integrity", "findings"]


class Found(Value):
    """What one query, or one check that is no query, found.

    `query` is its name in the catalogue, or of the command whose check it is; `rows` are values as JSON holds them, a list
    each, in the order of `columns`.
    """

    query: str
    purpose: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


class Verdict(Value):
    """One of the four verdicts: whether it holds, in a sentence why, and what was found."""

    name: Name
    holds: bool
    said: str
    found: tuple[Found, ...] = ()


class Report(Value):
    """The report of an audit: of what and when, the state of the log then, and the verdicts.

    `subject` is the id of the session that was audited with its ancestors, None for the whole store. `root` is the Merkle
    root, in base64, over the first `lines` lines of the store's log.
    """

    subject: str | None
    time: str
    version: str
    lines: int
    root: str
    sessions: tuple[tuple[str, int, str], ...]
    """Of each session its id, the turns of its transcript and its head digest."""
    verdicts: tuple[Verdict, ...]
    cannot_show: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON; `digest` is over all the rest."""
        return {**self._said(), "digest": self.digest}

    def _said(self) -> dict[str, Any]:
        plain = self.model_dump(mode="json", exclude={"sessions"})
        heads = [dict(zip(("session", "turns", "head"), each, strict=True)) for each in self.sessions]
        return {"format": FORMAT, **plain, "sessions": heads}

    @property
    def digest(self) -> str:
        """SHA-256 over the report's canonical JSON: sorted keys, no spaces, UTF-8."""
        return report_digest(self._said())

    def fails(self, names: tuple[str, ...]) -> bool:
        """Tell whether one of the named verdicts does not hold."""
        return any(not each.holds for each in self.verdicts if each.name in names)


def report_digest(report: dict[str, Any]) -> str:
    """Return SHA-256, as hex digits, over a report's canonical JSON without its own digest.

    >>> report_digest({"b": 1, "a": "ü", "digest": "x"}) == hashlib.sha256('{"a":"ü","b":1}'.encode()).hexdigest()
    True
    """
    plain = {name: value for name, value in report.items() if name != "digest"}
    text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_report(text: str) -> dict[str, Any]:
    """Return a report that was written as JSON.

    InvalidInput if it is none, IntegrityError if its digest does not fit it.
    """
    try:
        report = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f"this is no audit report: {wrong}") from None
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise InvalidInput(f"this is no audit report: it does not name the format {FORMAT!r}")
    try:
        fits = report_digest(report) == report.get("digest")
    except UnicodeEncodeError:  # half a character, which Trails writes in no report
        fits = False
    if not fits:
        raise IntegrityError(f"the audit report was altered: its digest does not fit it; {_AGAIN}")
    return report


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a reader could take the first of two values of a name, and the digest is over the last."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise IntegrityError(f"the audit report was altered: it says something twice; {_AGAIN}")
    return fields


def report_extension(digest: str) -> str:
    """Return the line of a checkpoint that vouches for a report."""
    return f"{EXTENSION} {digest}"


_GOOD: Final = {"validity": "valid", "completeness": "complete", "integrity": "holds", "findings": "none"}
_BAD: Final = {"validity": "NOT VALID", "completeness": "INCOMPLETE", "integrity": "DOES NOT HOLD", "findings": "SOME"}


def verdict_word(verdict: Verdict) -> str:
    """Return a verdict in a word or two.

    >>> verdict_word(Verdict(name="validity", holds=True, said="")), verdict_word(Verdict(name="integrity", holds=False, said=""))
    ('valid', 'DOES NOT HOLD')
    """
    return (_GOOD if verdict.holds else _BAD)[verdict.name]


def report_title(report: Report) -> str:
    """Return what was audited, on one line."""
    return (
        "Audit of the whole store" if report.subject is None else f"Audit of the session {shown_cell(report.subject)}"
    )


def report_facts(report: Report) -> list[str]:
    """Return when it was audited, by what, in which state of the log, and the report's digest."""
    return [
        f"made {report.time} with Trails {report.version}",
        f"the log had {report.lines} lines, with the Merkle root {report.root}",
        f"digest of this report (SHA-256): {report.digest}",
    ]


def shown_cell(value: Any) -> str:
    """Return a cell as text on one line; what cannot be printed is escaped, and nothing is an empty cell.

    >>> shown_cell(None), shown_cell("a\\x1b"), shown_cell(["a", 1])
    ('', 'a\\\\u001b', '["a", 1]')
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)


# --- documents


def report_markdown(report: Report) -> str:
    """Return the report as Markdown."""
    return _rendered(report, "report.markdown")


def report_html(report: Report) -> str:
    """Return the report as one page."""
    return _rendered(report, "report.html")


def _rendered(report: Report, name: str) -> str:
    filters = {"literal": _literal, "cell": lambda value: Markup(escape(shown_cell(value)))}  # noqa: S704 - it is escaped
    page = html.template(Path(__file__).with_name(name), filters, autoescape=name.endswith(".html"))
    facts = {"title": report_title(report), "facts": report_facts(report), "word": verdict_word}
    return str(page.render(report=report, markdown_table=_markdown_table, **facts))


def _markdown_table(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> str:
    cells = [dict(zip(columns, map(shown_cell, row), strict=True)) for row in rows]
    return to_markdown(PlainTable(dict.fromkeys(columns, "text"), cells))


def _literal(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return to_markdown(PlainTable({text: "text"}, [])).splitlines()[0][2:-2]


def check_signed_report(
    text: str, checkpoint: str, verifiers: Sequence[str], *, witnesses: Sequence[str] = (), quorum: int | None = None
) -> Checkpoint:
    """Return the checkpoint that vouches for a report, given as JSON, if the log signed it with one of the given keys.

    Raises `InvalidInput` for a text that is no report, `IntegrityError` if the report was altered, if the signature
    does not hold, if too few witnesses cosigned it, or if the checkpoint is not of this report and its state of the log.
    """
    report, state = read_report(text), open_checkpoint(checkpoint, verifiers)
    if witnesses:
        cosignatures(checkpoint, witnesses, quorum=quorum)
    if report_extension(report["digest"]) not in state.extensions:
        raise IntegrityError(f"the checkpoint of {state.origin!r} does not vouch for this report: it is of another one")
    if (report["lines"], report["root"]) != (state.size, to_base64(state.root)):
        raise IntegrityError(f"the report was made at another state of the log {state.origin!r} than the checkpoint")
    return state
