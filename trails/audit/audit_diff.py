"""What changed between two audits: two reports, or two packs, or one of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from trails.audit.evidence_pack import read_pack
from trails.audit.report import read_report
from trails.errors import InvalidInput
from trails.files import read_whole
from trails.model.values import Value
from trails.rdf import vocab

_RECORDS: Final = "records.nq"


class Audited(Value):
    """What an audit says that another one is compared with. `models`, `tools` and `removals` are None where it has no records."""

    time: str
    subject: str | None
    log: tuple[int, str]
    """How many lines the store's log had, and the root over them."""
    sessions: dict[str, tuple[int, str]]
    """Of each session the turns of its transcript and its head digest."""
    findings: frozenset[tuple[str, str, str]]
    """Of each row that was found its verdict, its query and its values as JSON text."""
    models: frozenset[str] | None = None
    tools: frozenset[str] | None = None
    removals: frozenset[str] | None = None
    """The IRIs of the removals in the records: of turns, texts and marks. A pack has no record of a deleted session."""


class Changes(Value):
    """What of one kind the later audit has and the earlier has not (`added`), and the other way round (`gone`)."""

    added: tuple[Any, ...]
    gone: tuple[Any, ...]


class ChangedSession(Value):
    """A session of which the two audits say different things: its turns and its head, before and after."""

    session: str
    turns: tuple[int, int]
    heads: tuple[str, str]


class AuditDiff(Value):
    """What changed between two audits; of models, tools and removals None where one of the two has no records."""

    times: tuple[str, str]
    log_lines: tuple[int, int]
    """How many lines the logs had that the two audits saw."""
    doubt: str | None
    """Why the two cannot be audits of one log, the earlier first; None where nothing speaks against that."""
    sessions: Changes
    changed: tuple[ChangedSession, ...]
    findings: Changes
    models: Changes | None
    tools: Changes | None
    removals: Changes | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return self.model_dump(mode="json")


def read_audit(place: Path) -> Audited:
    """Return what a report (JSON) or a pack (a folder or a zip) says.

    Raises `InvalidInput` if it is neither, `IntegrityError` if a report does not fit its digest. Whether a log vouches for it
    is for `trails audit check` to say.
    """
    if not (place.is_dir() or place.suffix == ".zip"):
        return _audited(read_report(_text(read_whole(place), place)), None)
    files = read_pack(place).files
    missing = {"report.json", _RECORDS} - files.keys()
    if missing:
        raise InvalidInput(f"{place} is no audit pack: {', '.join(sorted(missing))} is not in it")
    return _audited(read_report(_text(files["report.json"], place)), files[_RECORDS])


def diff_audits(before: Audited, after: Audited) -> AuditDiff:
    """Return what changed from one audit to a later one.

    Raises `InvalidInput` if one is of a session and the other of another one or of the whole store: what is in one only
    would look as if it had come or gone.
    """
    if before.subject != after.subject:
        first, second = ("the whole store" if each.subject is None else each.subject for each in (before, after))
        raise InvalidInput(f"the two audits are of different things, {first} and {second}: compare audits of the same")
    both = sorted(before.sessions.keys() & after.sessions.keys())
    pairs = [(name, before.sessions[name], after.sessions[name]) for name in both]
    return AuditDiff(
        times=(before.time, after.time),
        log_lines=(before.log[0], after.log[0]),
        doubt=_doubt(before.log, after.log),
        sessions=_changes(before.sessions, after.sessions),
        changed=tuple(
            ChangedSession(session=name, turns=(old[0], new[0]), heads=(old[1], new[1]))
            for name, old, new in pairs
            if old != new
        ),
        findings=_changes(dict.fromkeys(before.findings), dict.fromkeys(after.findings)),
        models=_known_changes(before.models, after.models),
        tools=_known_changes(before.tools, after.tools),
        removals=_known_changes(before.removals, after.removals),
    )


def _doubt(before: tuple[int, str], after: tuple[int, str]) -> str | None:
    if after[0] > before[0] or after == before:
        return None
    how = "has fewer lines" if after[0] < before[0] else "has as many lines, and others"
    return (
        f"the log of the second audit {how}: they are of different stores, in the wrong order, or of a store that was loaded "
        "from a dump or rewritten between them"
    )


def _changes(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Changes:
    return Changes(added=tuple(sorted(after.keys() - before.keys())), gone=tuple(sorted(before.keys() - after.keys())))


def _known_changes(before: frozenset[str] | None, after: frozenset[str] | None) -> Changes | None:
    if before is None or after is None:
        return None
    return _changes(dict.fromkeys(before), dict.fromkeys(after))


def _audited(report: dict[str, Any], records: bytes | None) -> Audited:
    found = frozenset(
        (verdict["name"], each["query"], json.dumps(row, ensure_ascii=False))
        for verdict in report["verdicts"]
        for each in verdict["found"]
        for row in each["rows"]
    )
    sessions = {each["session"]: (each["turns"], each["head"]) for each in report["sessions"]}
    log = report["lines"], report["root"]
    told = Audited(time=report["time"], subject=report["subject"], log=log, sessions=sessions, findings=found)
    if records is None:
        return told
    quads = list(ox.parse(records, format=ox.RdfFormat.N_QUADS))
    return told.model_copy(
        update={
            "models": frozenset(each.object.value for each in quads if each.predicate == vocab.MODEL),
            "tools": frozenset(each.object.value for each in quads if each.predicate == vocab.TOOL_NAME),
            "removals": frozenset(
                each.subject.value for each in quads if (each.predicate, each.object) == (vocab.TYPE, vocab.DELETION)
            ),
        }
    )


def _text(content: bytes, place: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{place} is no audit report: it is not UTF-8") from None
