"""Write which turns wrote the lines of a session's files, as a record of Agent Trace.

Agent Trace (https://github.com/cursor/agent-trace, version 0.1.0 of January 2026) tells for the lines of files which conversation
wrote them, with which model. A record is a line of JSON, as in `.agent-trace/traces.jsonl`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from itertools import groupby
from typing import Any, BinaryIO, Final
from uuid import NAMESPACE_URL, uuid5

from trails.errors import InvalidInput
from trails.exchange.exporters.session_family import SessionExport
from trails.model import iris
from trails.model.values import Turn
from trails.session import Repository, Session
from trails.session.file_blame import LineBlame
from trails.session.work_files import blame_versions, versions_by_path

FORMAT: Final = "agent-trace"
VERSION: Final = "0.1"
"""The version of the specification: its schema takes a major and a minor number."""
_KINDS: Final = {"user": "human", "human": "human", "assistant": "ai", "tool": "ai"}
_ALWAYS: Final = ("turns, but for which lines they wrote; contents of files, and lines that are there no more",)

_Json = dict[str, Any]
_Author = tuple[str | None, str, str | None]
"""A session, the kind of a contributor, and a model."""


def export(repository: Repository, session_id: str, out: BinaryIO) -> SessionExport:
    """Write the record of a session's files as they are after its last turn, and return what was written."""
    session = repository.load(session_id)
    lost = Counter[str]()
    files = []
    versions = versions_by_path(session.files.history())
    for change in session.files.list():
        try:
            lines = blame_versions(session.worktree, versions[change.path])
        except InvalidInput:  # it has no lines, or they are not kept
            lost[change.path] += 1
            continue
        files.append({"path": change.path, "conversations": _conversations(lines, session)})
    head = f"{session.iri}@{session.head}"
    times = [turn.time for turn in session.turns if turn.time is not None]
    made = max(times, default=session.worktree.record.created) or datetime.now(UTC)
    record: _Json = {
        "version": VERSION,
        "id": str(uuid5(NAMESPACE_URL, head)),
        "timestamp": made.isoformat().replace("+00:00", "Z"),
        "tool": {"name": "trails", "version": str(import_module("trails").__version__)},
        "files": files,
        "metadata": {"org.w3id.trails": {"session": session.iri, "turns": len(session), "head": session.head}},
    }
    out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    left_out = (f"{len(lost)} files: they are no text, or their content is not kept",) if lost else ()
    return SessionExport(FORMAT, (session.id,), len(session), (*_ALWAYS, *left_out))


def _conversations(lines: Sequence[LineBlame], session: Session) -> list[_Json]:
    """Return who wrote a file: for each session and model its ranges of lines, and the turns."""
    ranges: dict[_Author, list[_Json]] = {}
    turns: dict[_Author, dict[str, None]] = {}
    for author, run in groupby(lines, key=lambda line: _author(line, session.turns)):
        some = list(run)
        ranges.setdefault(author, []).append(
            {"start_line": some[0].line, "end_line": some[-1].line, "content_hash": _hash(some)}
        )
        for line in some:
            if line.index is not None:
                turns.setdefault(author, {})[session.turns[line.index].iri] = None
    return [_conversation(author, found, turns.get(author, ())) for author, found in ranges.items()]


def _conversation(author: _Author, ranges: list[_Json], turns: Iterable[str]) -> _Json:
    session_id, kind, model = author
    contributor = {"type": kind} | ({"model_id": model[:250]} if model else {})
    made: _Json = {} if session_id is None else {"url": iris.session(session_id)}
    made |= {"contributor": contributor, "ranges": ranges}
    related = [{"type": "turn", "url": each} for each in turns]
    return made | ({"related": related} if related else {})


def _author(line: LineBlame, turns: Sequence[Turn]) -> _Author:
    """Return who wrote a line: a tool's answer is the work of the model that asked for it."""
    if line.index is None:
        return None, "unknown", None
    kind = _KINDS.get(line.role or "", "unknown")
    asked = (turns[index] for index in range(line.index, -1, -1))
    caller = next((turn for turn in asked if turn.model is not None), None) if kind == "ai" else None
    if caller is None:
        return line.session_id, kind, None
    call = caller.facts.model_call
    provider = None if call is None or call.call is None else call.call.provider
    model = caller.model or ""
    return line.session_id, kind, model if provider is None or "/" in model else f"{provider}/{model}"


def _hash(lines: Sequence[LineBlame]) -> str:
    """Return the digest of lines, each with a newline at its end."""
    text = "".join(f"{line.text}\n" for line in lines)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
