"""Say what was found in an export, as plain values and as lines for people, and what no digest can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from trails.integrity.verifier.export import Export
from trails.integrity.verifier.sessions import Finding, Session
from trails.integrity.verifier.terms import SESSION

FORMAT = "trails-export-verification/1"


CANNOT_SHOW = (
    "that nothing was left out at the end of a session, or a whole one: hold heads against what was kept elsewhere (--head)",
    "that no system prompt was left out after the last one that is there",
    "that the file was not made anew from its start: whoever writes all of it can compute all digests",
    "what no digest of a turn covers, as the store's log does: sessions' names, labels, keys, states and times",
    "who tagged, noted or redacted, which session a copy or quotation came from, ledgers and runs: the log covers these too",
    "that recorded times, names and texts were true when they were written",
)


def report(export: Export, heads: Iterable[str] = ()) -> dict[str, Any]:
    """Return what was found, as plain values; `heads` are digests that must be in the file, as kept elsewhere."""
    digests = {turn.digest: (each.id, turn.index) for each in export.sessions.values() for turn in each.turns.values()}
    lost = [
        Finding("head-missing", None, None, f"no turn has the digest {each}") for each in heads if each not in digests
    ]
    findings = [*lost, *export.findings]
    bad = {each.session for each in findings}
    ordered = sorted(export.sessions.values(), key=lambda each: each.id)
    return {
        "format": FORMAT,
        "ok": not findings,
        "sessions": [_shown(export, each, holds=each.id not in bad) for each in ordered],
        "findings": [each._asdict() for each in findings],
        "cannot_show": list(CANNOT_SHOW),
    }


def _shown(export: Export, session: Session, *, holds: bool) -> dict[str, Any]:
    return {
        "session": session.id,
        "holds": holds,
        "parent": None if session.parent is None else unquote(session.parent[len(SESSION) :]),
        "forked_at": None if session.parent is None else session.start,
        "turns": session.length,
        "own_turns": len(session.turns),
        "head": session.head,
        "system_prompts": len(session.prompts),
        "redacted": session.redacted,
        "stands_by_redaction": session.stands,
        "not_covered": {what: count for (who, what), count in export.uncovered.items() if who == session.id},
    }


def printable(text: str) -> str:
    """Return a text on one line; what cannot be printed is escaped."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def answer_lines(said: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that tell people what was found."""
    for each in said["sessions"]:
        fork = "" if each["parent"] is None else f", a fork of {each['parent']} at {each['forked_at']}"
        verdict = "holds" if each["holds"] else "DOES NOT HOLD"
        yield f"{each['session']}{fork}: {verdict}: {each['turns']} turns, {each['own_turns']} its own, head {each['head']}"
        if each["redacted"]:
            yield f"  taken out, by what the file says, and not shown: of turns {_few(each['redacted'])}"
        if each["stands_by_redaction"]:
            where = _few(each["stands_by_redaction"])
            yield f"  cannot be shown by their own digests, as a name or role was taken out: turns {where}"
        for what, count in each["not_covered"].items():
            yield f"  no digest covers the name of the session here: {count} said to be {what}"
    for found in said["findings"]:
        where = "" if found["session"] is None else f"session {found['session']}: "
        where += "" if found["index"] is None else f"turn {found['index']} "
        yield f"{found['code']}: {where}{found['message']}"
    if said["cannot_show"]:
        yield "This cannot show:"
    yield from (f"- {each}" for each in said["cannot_show"])


def _few(indices: list[int]) -> str:
    more = f" and {len(indices) - 10} more" if len(indices) > 10 else ""
    return ", ".join(map(str, indices[:10])) + more
