"""A state folder of OpenClaw written from a store: what `openclaw.import_folder` reads, and OpenClaw itself.

Written are, agent by agent, all sessions with a key, those that a key named before a reset, and the transcripts that came
from such a folder without an entry; and the runs of sub-agents, as version 2. Entries hold what they held, and the id of
the session in them is that of the file that is written. Branches of an imported transcript go into its one file again;
a fork that was made here is a file only if it has a key.

Nothing is ever written outside the folder: an entry's `sessionFile` stays as it was, and its transcript goes beside the
others. Files appear whole, under their names only once they are synced, for their owner alone (0600).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from trails.errors import InvalidInput, StoreFailed
from trails.exchange.json_files import as_object, as_text
from trails.exchange.merge import imported_id
from trails.exchange.openclaw import openclaw_files, pi_export
from trails.exchange.openclaw.openclaw_files import META, RUNS, STORE, is_plain_name, place_of
from trails.files import as_path, write_whole
from trails.history.export_records import record_export
from trails.history.records import conversations
from trails.model import iris
from trails.model.values import SessionRecord
from trails.rdf import vocab
from trails.runtime import keys
from trails.runtime.routing.key_directory import HeldKey, Keyring
from trails.runtime.runs import Runs
from trails.session import Repository
from trails.suggestions import checked

_CLOSING: Final = frozenset({"label", "session_info"})
_MAX_NAME: Final = 200
_Json = dict[str, Any]


@dataclass(slots=True)
class ExportReport:
    """What was written."""

    agents: list[str] = field(default_factory=list)
    entries: int = 0
    transcripts: int = 0
    runs: int = 0
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return asdict(self)


@checked
def export_folder(
    repository: Repository,
    folder: str | os.PathLike[str],
    *,
    agents: Collection[str] | None = None,
    force: bool = False,
) -> ExportReport:
    """Write the sessions by key of some agents (of all unless given) as a state folder of OpenClaw.

    The folder is made if it is not there; one that holds anything is refused unless `force` is given, which replaces the
    files of the same names and leaves all others: not while an OpenClaw works in it, whose locks are not waited for. With
    `agents`, only the runs that one of them asked for or did are written.

    Raises `InvalidInput` for an agent without such sessions and for a folder that cannot be written to, `StoreFailed` where
    writing fails, and as `Repository.load` does where a transcript is not whole.
    """
    target = as_path(folder, "the folder to write")
    plan = _Plan(repository)
    wanted = sorted(plan.agents)
    if agents is not None:
        names = {keys.normalize_agent_id(name): name for name in agents}
        unknown = sorted(name for each, name in names.items() if each not in plan.agents)
        if unknown:
            there = f"there are {', '.join(wanted)}" if wanted else "there are none with sessions by key"
            raise InvalidInput(f"no agent {unknown[0]!r} to export; {there}")
        wanted = sorted(names)
    try:
        if target.exists() and not target.is_dir():
            raise InvalidInput(f"{target} is a file; name a folder")
        if target.is_dir() and any(target.iterdir()) and not force:
            raise InvalidInput(f"{target} is not empty; give --force to replace equal names, or name another folder")
        read = sorted({each for name in wanted for each in plan.agents[name].sessions})
        with record_export(repository.workspace, read, "openclaw") as made:
            report = _write(repository, target, plan, wanted, every=agents is None)
            made(None, None)
            return report
    except OSError as error:
        raise StoreFailed(f"{target} cannot be written: {error}") from error


def _write(repository: Repository, folder: Path, plan: _Plan, wanted: list[str], *, every: bool) -> ExportReport:
    report = ExportReport()
    for agent in wanted:
        here = plan.agents[agent]
        place = folder / "agents" / here.name / "sessions"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, data in here.transcripts(report.notes):
            _put(place / name, data)
            report.transcripts += 1
        entries = here.entries()
        _put(place / STORE, _as_json(entries))  # after what it names
        report.entries += len(entries)
        report.agents.append(here.name)
    runs = Runs(repository).export_file()
    if not every:
        kept = {run_id: run for run_id, run in runs["runs"].items() if _agents_of(run) & set(wanted)}
        runs = {**runs, "runs": kept}
    if runs["runs"]:
        (folder / "subagents").mkdir(mode=0o700, parents=True, exist_ok=True)
        _put(folder / "subagents" / RUNS, _as_json(runs))
        report.runs = len(runs["runs"])
    return report


def _agents_of(run: Mapping[str, Any]) -> set[str]:
    told = (run.get("childSessionKey"), run.get("requesterSessionKey"))
    return {keys.agent_id_from_key(key) for key in told if isinstance(key, str) and key}


def _as_json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
        return json.dumps(value, indent=2).encode()


def _put(path: Path, data: bytes) -> None:
    write_whole(path, lambda out: out.write(data))


# --- what goes where


@dataclass(slots=True)
class _Agent:
    """What is written of one agent."""

    plan: _Plan
    name: str
    """The name of its folder."""
    held: list[HeldKey] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    """By session id, the name of its file without the ending; of several sessions from one file, the main one only."""

    def entries(self) -> _Json:
        """Return the entries by key, as `sessions.json` has them."""
        made: _Json = {}
        for held in self.held:
            entry, stem = held.to_json(), self.sessions[held.session_id]
            named = str(entry["sessionId"])
            imported = place_of(self.plan.records[held.session_id].source_session) is not None
            if not imported and "sessionFile" not in entry and stem != openclaw_files.stem_of(named, held.key):
                entry["sessionFile"] = f"{stem}.jsonl"
            made[self.plan.raw_key(held, self.name)] = entry
        return made

    def transcripts(self, notes: list[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the transcripts with their files' names, one at a time."""
        current = {held.session_id: held for held in self.held}
        for session, stem in self.sessions.items():
            record = self.plan.records[session]
            data = self.plan.transcript(record, stem, current.get(session), self, notes)
            if data is not None:
                yield f"{stem}.jsonl", data


class _Plan:
    """Which sessions are written, and where."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.agents: dict[str, _Agent] = {}
        self._families: dict[str, list[str]] = defaultdict(list)
        """By what they were imported from, the ids of sessions that came from one file."""
        held = Keyring(repository).every()
        earlier = {each.key: self._of_key(each) for each in held}
        wanted = {each.session_id for each in held} | {each for ids in earlier.values() for each in ids}
        self.records = repository.reader.records(sorted(wanted | self._imported()))
        for record in self.records.values():
            if place_of(record.source_session) is not None:
                self._families[record.source_session or ""].append(record.id)
        ordered = sorted(held, key=lambda one: one.key)
        folders = {each.key: self._agent(self._folder_of(each, earlier[each.key])) for each in ordered}
        for each in ordered:
            folders[each.key].held.append(each)
            self._add(folders[each.key], each.session_id, each)
        for each in held:
            for session in sorted(earlier[each.key]):
                self._add(folders[each.key], session, None)
        for record in self.records.values():
            if (folder := self._own_folder(record)) is not None:
                self._add(self._agent(folder), record.id, None)

    def _of_key(self, held: HeldKey) -> set[str]:
        return set(conversations.sessions_in(self.repository.store, held.key)) - {held.session_id}

    def _imported(self) -> set[str]:
        found = self.repository.store.quads((None, vocab.SOURCE_SESSION, None, vocab.CATALOG))
        return {
            iris.session_id(str(getattr(quad.subject, "value", "")))
            for quad in found
            if place_of(str(getattr(quad.object, "value", ""))) is not None
        }

    def _agent(self, name: str) -> _Agent:
        return self.agents.setdefault(keys.normalize_agent_id(name), _Agent(self, name))

    def _own_folder(self, record: SessionRecord) -> str | None:
        """Return the name of the folder that a session came from; None for one that came from none."""
        if (place := place_of(record.source_session)) is None:
            return None
        name = as_text(as_object(record.meta.get(META)).get("agent"))
        return name if name is not None and is_plain_name(name) else place[0]

    def _folder_of(self, held: HeldKey, earlier: Iterable[str]) -> str:
        """Return the name of the folder of a key: where its sessions came from, else its agent's."""
        for session in (held.session_id, *sorted(earlier)):
            record = self.records.get(session)
            if record is not None and (folder := self._own_folder(record)) is not None:
                return folder
        parsed = keys.parse_agent_key(held.key)
        record = self.records[held.session_id]
        return keys.normalize_agent_id(record.agent if parsed is None else parsed.agent_id)

    def _add(self, agent: _Agent, session: str, held: HeldKey | None) -> None:
        """Give a session a file; one that came from the same file as another one goes into that one's."""
        record = self.records.get(session)
        if record is None or session in agent.sessions:
            return
        if held is None and place_of(record.source_session) is not None:
            family = self._families[record.source_session or ""]
            if any(each in agent.sessions for each in family):
                return
            source, _, stem = (record.source_session or "").partition(":")
            base = imported_id(source, stem)
            session = base if base in family else min(family)
            record = self.records[session]
        agent.sessions[session] = self._stem(record, held, set(agent.sessions.values()))

    def _stem(self, record: SessionRecord, held: HeldKey | None, taken: set[str]) -> str:
        place = place_of(record.source_session)
        stem = record.id if place is None else place[1]
        if held is not None and place is None:
            stem = openclaw_files.stem_of(held.source_id, held.key)
        if not is_plain_name(stem) or len(stem.encode()) > _MAX_NAME:
            stem = quote(stem, safe="")[:_MAX_NAME].lstrip(".") or "session"
        return f"{stem}~{hashlib.sha256(record.id.encode()).hexdigest()[:8]}" if stem in taken else stem

    def raw_key(self, held: HeldKey, agent: str) -> str:
        """Return a key as the folder that it came from had it."""
        for session in (held.session_id, *sorted(self._of_key(held))):
            record = self.records.get(session)
            raw = as_object(record.meta.get(META) if record is not None else None).get("key")
            if isinstance(raw, str) and keys.store_key_of_agent(raw, agent) == held.key:
                return raw
        return held.key

    # --- transcripts

    def transcript(
        self, record: SessionRecord, stem: str, held: HeldKey | None, agent: _Agent, notes: list[str]
    ) -> bytes | None:
        """Return a transcript as it is written; None for one that never was a file and has no turns."""
        lines = _lines(pi_export.export_session(self.repository, record.id))
        own = as_object(record.meta.get(META))
        if own.get("missing") is True and len(lines) == 1:
            return None
        header = lines[0]
        told = own.get("id")
        header["id"] = told if isinstance(told, str) else held.source_id if held is not None else stem
        above = agent.sessions.get(record.parent_session_id or "")
        if above is not None and header.get("parentSession") != record.meta.get("parentSession"):
            header["parentSession"] = f"{above}.jsonl"  # the file that it was forked from, if that was done here
        if (noted := as_object(header.get("trails"))).get("agent") == agent.name:  # the folder tells it anyway
            del noted["agent"]
            if not noted:
                del header["trails"]
        for other in sorted(self._families.get(record.source_session or "", ())):
            if other != record.id and other not in agent.sessions:
                self._add_branch(lines, other, notes)
        return b"".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for line in lines)

    def _add_branch(self, lines: list[_Json], session: str, notes: list[str]) -> None:
        """Put what a branch has of its own before the last line, which stays the leaf that the session goes on from."""
        there = {line["id"]: line for line in lines[1:]}
        branch = _lines(pi_export.export_session(self.repository, session))[1:]
        entries = [line for line in branch if line["type"] not in _CLOSING]
        if any(there[line["id"]] != line for line in entries if line["id"] in there):
            notes.append(f"{session}: differs from what it is a branch of in what they share, so it is not in its file")
            return
        lines[-1:-1] = [line for line in entries if line["id"] not in there]


def _lines(data: bytes) -> list[_Json]:
    return [json.loads(line) for line in data.split(b"\n") if line]
