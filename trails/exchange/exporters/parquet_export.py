"""Sessions as Parquet files in a folder, for pandas, DuckDB, Spark and their like: a row a session, a turn, a
tool call, a score.

Each turn is a row once, under the session that owns it. A session's transcript is its own rows and, of each ancestor, those below
the lowest fork index on the way down; `sessions.parquet` has what that takes.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, cast

from trails.display import tables
from trails.display.tables import Kind, PlainTable
from trails.errors import InvalidInput
from trails.exchange.exporters import session_family
from trails.exchange.exporters.session_family import Family, Member, SessionExport
from trails.files import PRIVATE, as_path, in_words, part_folder
from trails.history.annotation_kinds import newest_scores
from trails.history.export_records import record_export
from trails.history.lookup.names import Name
from trails.model.values import ToolResult, Turn
from trails.session import Repository
from trails.suggestions import checked

FORMAT: Final = "parquet"
_LEFT_OUT: Final = ("salts, proofs, signatures, tags, notes, system prompts, and what stands in ledgers",)
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "sessions": {
        "session": "text record.id", "label": "text record.label", "branch": "text record.branch",
        "parent": "text record.parent_session_id", "forked_at": "place record.forked_at_index",
        "fork_head": "text record.fork_head", "depth": "integer", "root": "text", "spawned_by": "text record.spawned_by",
        "turns": "integer", "own_turns": "integer", "principal": "text record.principal", "agent": "text record.agent",
        "kind": "text record.kind", "state": "text record.state", "created": "time record.created",
        "source": "text record.source_session", "meta": "text record.meta_json",
    },
    "turns": {
        "session": "text", "index": "place index", "role": "text role", "content": "text",
        "structured": "boolean structured", "redacted": "boolean redacted", "author": "text author", "time": "time time",
        "model": "text model", "input_tokens": "integer", "output_tokens": "integer", "cost": "number",
        "stop_reason": "text facts.model_call.stop_reason", "answers": "names",
        "summarised_through": "place compaction.summarised_through", "usage": "text facts.model_call.usage_json",
        "meta": "text facts.meta_json", "source_ids": "names", "digest": "text digest",
    },
    "calls": {
        "session": "text", "index": "place", "position": "place", "call": "text", "name": "text", "arguments": "text",
        "answered_at": "place", "is_error": "boolean is_error", "outcome": "text outcome", "started": "time started",
        "ended": "time ended", "server": "text server", "version": "text version",
    },
    "scores": {
        "score": "text id", "session": "text session_id", "on": "text on", "start": "place start", "end": "place end",
        "name": "text name", "value": "text", "number": "number number", "by": "text by", "version": "text version",
        "reason": "text reason", "time": "time time", "counts": "boolean", "turn_digest": "text turn_digest",
    },
}  # fmt: skip
"""The columns of each table: the kind of each, and where in what the row is about its value stands, unless it is computed."""
_TABLES: Final = {
    table: {name: cast("Kind", said.split()[0]) for name, said in columns.items()}
    for table, columns in _COLUMNS.items()
}
_PATHS: Final = {
    table: {name: said.partition(" ")[2].split(".") for name, said in columns.items()}
    for table, columns in _COLUMNS.items()
}


@checked
def export_tables(
    repository: Repository,
    folder: str | os.PathLike[str],
    session: Name | None = None,
    *,
    forks: bool = False,
    force: bool = False,
) -> SessionExport:
    """Write `sessions`, `turns`, `calls` and `scores` (each `.parquet`) into a folder, and return what was written.

    Without a `session`, all sessions of the store are written, one family in memory at a time; with `forks` all forks of the
    session, theirs too. Ancestors come with the turns that are inherited from them. The folder is made where it is not there.

    Needs pyarrow: raises `TrailsError` that names the extra without it. Raises `InvalidInput` where one of the files is there
    and `force` is not given, and what reading a transcript raises; nothing is there then that was not before.
    """
    parquet = tables.optional("pyarrow.parquet", "arrow", "a Parquet file")
    place = as_path(folder, "the folder of tables")
    asked = None if session is None else repository.resolve(session)
    if asked is None and forks:
        raise InvalidInput("without a session all of them are written, forks too: leave `forks` out")
    with in_words(place, "written"):
        there = [name for name in _TABLES if (place / _file(name)).exists()]
        if there and not force:
            taken = place / _file(there[0])
            raise InvalidInput(f"{taken} is there already; give force to replace it, or name another folder")
        if place.exists() and not place.is_dir():
            raise InvalidInput(f"{place} is a file; name a folder")
        with part_folder(place) as part:
            report = _write(repository, part, asked, forks=forks, parquet=parquet)
            place.mkdir(exist_ok=True, mode=0o700)
            for name in _TABLES:
                (part / _file(name)).replace(place / _file(name))
    return report


def _file(name: str) -> str:
    return f"{name}.parquet"


def _write(repository: Repository, folder: Path, asked: str | None, *, forks: bool, parquet: Any) -> SessionExport:
    written: list[str] = []
    turns = 0
    scored: set[str] = set()
    with ExitStack() as stack:
        writers = {}
        for name, kinds in _TABLES.items():
            opened = os.open(folder / _file(name), os.O_WRONLY | os.O_CREAT, PRIVATE)
            file = stack.enter_context(os.fdopen(opened, "wb"))
            stack.callback(os.fsync, opened)
            stack.callback(file.flush)
            schema = tables.to_arrow(PlainTable(kinds, [])).schema
            writers[name] = stack.enter_context(parquet.ParquetWriter(file, schema, compression="zstd"))
        for found in _families(repository, asked, forks=forks):
            made = _rows(found)  # a copied turn's score is its original's, too
            made["scores"] = [row for row in made["scores"] if row["score"] not in scored]
            scored |= {row["score"] for row in made["scores"]}
            for name, rows in made.items():
                if rows:
                    writers[name].write_table(tables.to_arrow(PlainTable(_TABLES[name], rows)))
            written += [member.record.id for member in found.asked()]
            turns += found.turns
    return SessionExport(FORMAT, tuple(written), turns, _LEFT_OUT)


def _families(repository: Repository, asked: str | None, *, forks: bool) -> Iterator[Family]:
    """Yield what is asked for; all sessions of a store are those of its roots, and any that no root leads to."""
    if asked is not None:
        ids = session_family.family_ids(repository, asked, forks=forks)
        with record_export(repository.workspace, ids, FORMAT) as made:
            yield session_family.read_family(repository, asked, forks=forks)
            made(None, None)
        return
    with record_export(repository.workspace, None, FORMAT) as made:
        seen: set[str] = set()
        for twig in repository.forest():
            node = twig.node
            if node.status == "stored" and node.id not in seen and (node.parent is None or node.parent not in seen):
                found = session_family.read_family(repository, node.id, forks=True)
                seen |= {member.record.id for member in found.members}
                yield found
        made(None, None)


def _rows(found: Family) -> dict[str, list[Mapping[str, Any]]]:
    return {
        "sessions": [_session(member) for member in found.members],
        "turns": [_turn(member.record.id, turn) for member in found.members for turn in member.turns],
        "calls": [row for member in found.members for row in _calls(member.record.id, member.turns)],
        "scores": list(_scores(found)),
    }


def _row(table: str, source: object, **values: Any) -> dict[str, Any]:
    """Return a row: the values that are given, and for all other columns what the table says of the source."""
    row = {}
    for name, path in _PATHS[table].items():
        found = values.get(name, source)
        for part in () if name in values else path:
            found = None if found is None else getattr(found, part)
        row[name] = found
    return row


def _session(member: Member) -> dict[str, Any]:
    sizes = {"turns": member.record.starts_at + len(member.turns), "own_turns": len(member.turns)}
    return _row("sessions", member, depth=len(member.chain) - 1, root=member.chain[-1].id, **sizes)


def _scores(found: Family) -> Iterator[dict[str, Any]]:
    """Yield a row for each score; of those of one thing, name, scorer and version the newest one counts."""
    scored = [score for member in found.members for score in member.scores]
    scored += [score for turn_scores in found.scores.values() for score in turn_scores]
    counting = {score.id for score in newest_scores(scored)}
    for score in scored:
        yield _row("scores", score, value=str(score.value), counts=score.id in counting)


def _turn(session_id: str, turn: Turn) -> dict[str, Any]:
    call = turn.facts.model_call
    read, written, cost = call.reported if call else (None, None, None)
    lists = {"answers": [result.call_id for result in turn.tool_results], "source_ids": list(turn.source_ids)}
    used = {"input_tokens": read, "output_tokens": written, "cost": cost}
    return _row("turns", turn, session=session_id, content=None if turn.redacted else turn.text, **lists, **used)


def _calls(session_id: str, turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """Yield a row for each call, with the first answer that the same session gives after it."""
    answers: dict[str, list[tuple[int, ToolResult]]] = defaultdict(list)
    for turn in turns:
        for result in turn.tool_results:
            answers[result.call_id].append((turn.index, result))
    for turn in turns:
        for position, call in enumerate(turn.tool_calls):
            later = (each for each in answers[call.id] if each[0] >= turn.index)
            place, answer = next(later, (None, None))
            own = {"session": session_id, "index": turn.index, "position": position, "answered_at": place}
            yield _row("calls", answer, **own, call=call.id, name=call.name, arguments=call.arguments)
