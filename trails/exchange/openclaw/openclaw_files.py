"""Read the files and the database of an OpenClaw state folder.

An agent's database of OpenClaw since 2026.8: `agents/<agent>/agent/openclaw-agent.sqlite`.

    transcript_events(session_id, seq, event_json or event_zstd)    the lines of each transcript, as pi writes them
    session_nodes(session_key, current_session_id, entry_json)      the entries by session key
    session_entries(session_key, session_id, entry_json)            the same, in the first versions (2026.7.2)
    session_windows(session_id, session_key, ...)                   what each transcript followed, and why

Read in openclaw/openclaw's `openclaw-agent-schema.sql` (schemas to 23, 2026.9) and its page on database schemas. Its other
tables, which hold keys among other things, are not read. Before 2026.8 the file has none of these.

    <state>/agents/<agent>/sessions/sessions.json                       the entries, by session key
    <state>/agents/<agent>/sessions/<session id>.jsonl                  transcripts, as pi writes them
    <state>/agents/<agent>/sessions/<session id>-topic-<topic>.jsonl    a topic's own transcript
    <state>/agents/<agent>/agent/openclaw-agent.sqlite                  entries and transcripts since 2026.8
    <state>/subagents/runs.json                                         the sub-agents' runs

A session's id here is made of its agent and its file's name: nothing else tells apart a session and its topics, which
may all have the same id in their headers. A transcript of the database has its session's id for that name. Where a file has
a transcript or an entry too, the database counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final
from urllib.parse import quote

from trails import files
from trails.errors import InvalidInput
from trails.exchange import containers, json_files, text_coverage
from trails.exchange.containers import Database, Tables
from trails.exchange.json_files import as_text
from trails.exchange.openclaw import pi_session_file
from trails.exchange.source_transcript import FileProblem, Problem, SourceSession, Transcript
from trails.history import import_records
from trails.model import validation
from trails.rdf.activity_records import SourceFile
from trails.runtime import keys

DATABASE_NAME: Final = "openclaw-agent.sqlite"
_EVENTS: Final = "transcript_events"
_ENTRIES: Final = (("session_nodes", "current_session_id"), ("session_entries", "session_id"))
_WINDOWS: Final = "session_windows"
STORE: Final = "sessions.json"
RUNS: Final = "runs.json"
META: Final = "openclaw"
"""The key of a session's metadata for what its folder said of it: `agent` (the folder's name), `id` (the one in the header,
where that is not the file's name), `key` (the entry's, where it is kept under a fuller one), `missing` (there was no file)."""
_META_MISSING: Final = "missing"
_SOURCE: Final = "openclaw-"
_ENDING: Final = ".jsonl"
_URI_SAFE: Final = "!'()*-._~"
"""What JavaScript's `encodeURIComponent` leaves alone, beside letters and digits."""
_STANDARD: Final = re.compile(r"(?:^|/)agents/([^/]+)/sessions/([^/]+)$")
BARRED: Final = "lies outside of the folder (--allow-outside, `allow_outside=True`, reads it)"
_Json = dict[str, Any]


def is_state_database(tables: Tables) -> bool:
    """Tell whether a database with these tables holds transcripts of an OpenClaw agent."""
    return tables.get(_EVENTS, frozenset()) >= {"session_id", "seq"} and bool(
        tables[_EVENTS] & {"event_json", "event_zstd"} and tables.keys() & {name for name, _ in _ENTRIES}
    )


def database_agent(path: Path, database: Database) -> str:
    """Return the agent that a database is of: by the folder that it stands in, or what it says itself."""
    if path.parent.name == "agent" and path.parent.parent.name:
        return path.parent.parent.name
    if "agent_id" in database.tables.get("schema_meta", ()):
        for row in database.rows("SELECT agent_id FROM schema_meta WHERE agent_id IS NOT NULL"):
            return str(row["agent_id"])
    return "main"


# --- names


def source_of(agent: str) -> str:
    """Return the format's name for the sessions of one agent: `openclaw-AGENT`."""
    return _SOURCE + keys.normalize_agent_id(agent)


def place_of(source_session: str | None) -> tuple[str, str] | None:
    """Return the agent and the file's name (without its ending) that a session came from; None for one from elsewhere.

    >>> place_of("openclaw-main:s-1"), place_of("pi:s-1")
    (('main', 's-1'), None)
    """
    source, _, stem = (source_session or "").partition(":")
    return (source.removeprefix(_SOURCE), stem) if source.startswith(_SOURCE) and stem else None


def stem_of(session_id: str, key: str) -> str:
    """Return the name that the transcript of a session of a key has where its entry names no file, without its ending."""
    parsed = keys.parse_key(key)
    if parsed.thread_marker == "topic" and parsed.thread_id:
        return f"{session_id}-topic-{quote(parsed.thread_id, safe=_URI_SAFE)}"
    return session_id


# --- the folders


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """The `sessions` folder of one agent; with `only_named`, only the transcripts that its entries name are meant."""

    agent: str
    folder: Path
    state: Path | None = None
    """The state folder that it stands in, where that was named too."""
    only_named: bool = False
    database: Path | None = None
    """Its database, where there is one; it may hold no transcripts."""


@dataclass(frozen=True, slots=True)
class FolderLayout:
    """What a path holds of OpenClaw's."""

    agents: tuple[AgentFolder, ...] = ()
    runs: Path | None = None


def find_layout(path: Path) -> FolderLayout | None:
    """Return what of OpenClaw's a path is: a state folder, its `agents`, one agent's folder or `sessions`, or one of the files.

    None for any other path.
    """
    if path.is_file() and path.name == RUNS:
        return FolderLayout(runs=path.resolve())
    if path.is_file() and path.name == STORE:
        agent: AgentFolder | None = AgentFolder(_agent_of(path.parent), path.parent, only_named=True)
    else:
        agent = _of_database(path) if path.is_file() else _of_agent(path)
    if agent is not None or path.is_file():
        return None if agent is None else FolderLayout((agent,))
    for agents, state in ((path / "agents", path), (path, path.parent)):
        found = []
        for place in sorted(agents.glob("*")):
            held, sessions = _database_of(place), place / "sessions"
            has_loose = state == path and any(sessions.glob(f"*{_ENDING}"))
            if held is not None or (sessions / STORE).is_file() or has_loose:
                found.append(AgentFolder(place.name, sessions, state, database=held))
        if found:
            runs = [path / "subagents" / RUNS, path / RUNS] if state == path else []
            return FolderLayout(tuple(found), next(filter(Path.is_file, runs), None))
    runs_file = path / "subagents" / RUNS
    return FolderLayout(runs=runs_file) if runs_file.is_file() else None


def _of_agent(path: Path) -> AgentFolder | None:
    """Return the agent whose folder a path is: its own, its `sessions`, or its `agent`, where its database stands."""
    if (path / STORE).is_file():
        return AgentFolder(_agent_of(path), path, database=_database_of(path.resolve().parent))
    sessions, held = path / "sessions", _database_of(path)
    if (sessions / STORE).is_file() or held is not None:
        return AgentFolder(_agent_of(sessions), sessions, database=held)
    return _of_database(path / DATABASE_NAME) if (path / DATABASE_NAME).is_file() else None


def _database_of(agent: Path) -> Path | None:
    file = agent / "agent" / DATABASE_NAME
    return file if file.is_file() else None


def _of_database(path: Path) -> AgentFolder | None:
    """Return the agent that a file is the database of, told by its tables; None for any other."""
    with path.open("rb") as file:
        is_sqlite = containers.is_sqlite(file.read(len(containers.SQLITE_SIGNATURE)))
        if not is_sqlite or not is_state_database(containers.tables_of(file)):
            return None
    with containers.open_database(path) as found:
        agent = database_agent(path.resolve(), found)
    return AgentFolder(agent, path.parent / "sessions", database=path)


def _agent_of(sessions: Path) -> str:
    folder = sessions.resolve()
    return folder.parent.name if folder.name == "sessions" and folder.parent.name else keys.normalize_agent_id(None)


# --- what a folder says


def updated_at(entry: Mapping[str, Any]) -> float:
    """Return when an entry changed last, in milliseconds since 1970; 0 if it does not say."""
    value = entry.get("updatedAt")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


@dataclass(slots=True)
class FolderEntry:
    """One entry of `sessions.json`, checked as far as its own text goes."""

    raw: str
    """Its key as it stands there."""
    key: str
    """Its key as it is among all agents' keys."""
    entry: _Json
    session_id: str
    stem: str = ""
    """The name of its transcript, without the ending."""
    file: Path = Path()
    """Where it stands."""

    @property
    def updated(self) -> float:
        """When it changed last, in milliseconds since 1970; 0 if it does not say."""
        return updated_at(self.entry)


@dataclass(slots=True)
class Folder:
    """All that one agent's folder says."""

    place: AgentFolder
    allow_outside: bool = False
    named: list[FolderEntry] = field(default_factory=list)
    transcripts: list[Transcript] = field(default_factory=list)
    sessions: dict[str, SourceSession] = field(default_factory=dict)
    """The transcripts that could be read, and empty ones for entries without a file, by name."""
    problems: list[FileProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    read: dict[str, SourceFile] = field(default_factory=dict)
    """The transcripts' files, by name."""
    barred: set[str] = field(default_factory=set)
    """The names of transcripts that lie outside and were not read."""

    def holds(self, file: Path) -> bool:
        """Tell whether a file lies in the folder that was named (the state folder, or this one), links followed."""
        root = self.place.state or self.place.folder
        if file == self.place.database:  # it was named with its agent, or by itself
            root = file.parent
        return file.resolve().is_relative_to(root.resolve())

    def may_read(self, file: Path) -> bool:
        """Tell whether a file is inside, or any may be read."""
        return self.allow_outside or self.holds(file)

    @property
    def store_file(self) -> Path:
        """The file of entries."""
        return self.place.folder / STORE

    def refuse(self, file: Path | str, reason: str, text: str = "") -> None:
        """Note what cannot be used."""
        shown = json_files.line_problem(0, reason, text)
        self.problems.append(FileProblem(file=shown_path(file), line=0, reason=shown.reason, text=shown.text))


def shown_path(file: Path | str) -> str:
    """Return a path that can be printed, whatever bytes its name has."""
    return str(file).encode("utf-8", errors="replace").decode("utf-8")


def read_json(file: Path) -> _Json | Problem:
    """Return the JSON object that a file is, or why it is none."""
    try:
        return json_files.read_object(file.read_bytes())
    except OSError as error:
        return Problem(0, f"cannot be read: {error.strerror or error}", "")


def read_folder(place: AgentFolder, *, allow_outside: bool = False) -> Folder:
    """Read an agent's folder. What cannot be used is a problem of its own, and costs nothing else.

    Files outside of the folder that was named, to which a `sessionFile` or a link leads, are read only with
    `allow_outside`; what they hold is never shown in a problem or a note.
    """
    folder = Folder(place, allow_outside)
    if place.database is not None:
        _read_database(folder, place.database)
    _read_entries(folder)
    files = {} if place.only_named or not place.folder.is_dir() else dict(_transcripts(folder))
    for named in folder.named:
        if named.session_id in folder.sessions and not named.stem:
            named.stem = named.session_id
        elif not named.stem:
            _place(named, folder, files)
    for stem, file in files.items():
        if stem in folder.sessions:
            folder.notes.append(f"{shown_path(file)}: the database has this transcript too, and counts")
        else:
            _read_transcript(folder, stem, file)
    for named in folder.named:
        if named.stem not in folder.sessions or _META_MISSING in folder.sessions[named.stem].meta[META]:
            _stand_in(folder, named, is_there=named.stem in files)
    return folder


def _read_entries(folder: Folder) -> None:
    file = folder.store_file
    if not file.is_file():
        if not folder.named:
            folder.notes.append(f"{shown_path(file)} is not there: transcripts only")
        return
    if not folder.may_read(file):
        folder.refuse(file, f"{BARRED}; none of its entries was imported")
        return
    found = read_json(file)
    if isinstance(found, Problem):
        folder.refuse(file, f"{found.reason}; none of its entries was imported")
        return
    known, repeated = {named.raw for named in folder.named}, 0
    for raw, entry in found.items():
        if raw in known:
            repeated += 1
        else:
            _add_entry(folder, file, raw, entry)
    if repeated:
        folder.notes.append(f"{shown_path(file)}: the database has {repeated} of its entries too, and counts")


def _add_entry(folder: Folder, file: Path, raw: str, entry: Any) -> None:
    """Add an entry to the folder's, or report why it is none."""
    try:
        if not isinstance(entry, dict):
            raise InvalidInput("is not an object")
        try:
            validation.to_json(entry, "it")
            key = validation.name(keys.store_key_of_agent(raw, folder.place.agent), "its key")
        except InvalidInput as error:
            raise InvalidInput(f"cannot be kept: {error}") from error
        session_id = as_text(entry.get("sessionId"))
        if session_id is None or not is_plain_name(session_id):
            what = "no sessionId" if session_id is None else "a sessionId that cannot be the name of a file"
            raise InvalidInput(f"has {what}")
        folder.named.append(FolderEntry(raw, key, entry, session_id, file=file))
    except InvalidInput as error:
        folder.refuse(file, f"the entry {raw!r} {error}", str(entry)[:200] if folder.holds(file) else "")


def _read_database(folder: Folder, file: Path) -> None:
    """Read the entries and the transcripts of a database; one that has none, as before 2026.8, says nothing."""
    if not folder.may_read(file):
        folder.refuse(file, f"{BARRED}; it was not read")
        return
    try:
        with containers.open_database(file, file.name) as found:
            if not is_state_database(found.tables):
                return
            folder.read |= found.files
            _read_database_entries(folder, file, found)
            windows = {}
            if "session_id" in found.tables.get(_WINDOWS, ()):
                windows = {str(row["session_id"]): row for row in found.rows(f"SELECT * FROM {_WINDOWS}")}  # noqa: S608
            for row in list(found.rows(f"SELECT DISTINCT session_id FROM {_EVENTS} ORDER BY 1")):  # noqa: S608
                own = row["session_id"]
                window = {k: v for k, v in windows.get(str(own), {}).items() if v not in (None, "", own)}
                _read_events(folder, file, found, own, window)
    except InvalidInput as error:
        folder.refuse(file, f"{error}; what could be read of it came in")


def _read_database_entries(folder: Folder, file: Path, database: Database) -> None:
    for table, current in _ENTRIES:
        if database.tables.get(table, frozenset()) >= {"session_key", current, "entry_json"}:
            break
    else:
        return
    for row in database.rows(f"SELECT * FROM {table} ORDER BY session_key"):  # noqa: S608 - one of two names
        held = json_files.read_object(str(row["entry_json"]).encode("utf-8", errors="replace"))
        if isinstance(held, Problem):
            folder.refuse(file, f"the entry {str(row['session_key'])!r} {held.reason}")
            continue
        held.setdefault("sessionId", row[current])
        if isinstance(row.get("spawned_by"), str):
            held.setdefault("spawnedBy", row["spawned_by"])
        _add_entry(folder, file, str(row["session_key"]), held)


def _read_events(folder: Folder, file: Path, database: Database, own: Any, window: _Json) -> None:
    """Read one transcript of a database, by the rules of a session file."""
    lines = []
    for row in database.rows(f"SELECT * FROM {_EVENTS} WHERE session_id = ? ORDER BY seq", own):  # noqa: S608
        line = _line(row)
        if isinstance(line, bytes):
            lines.append(line)
        else:
            folder.refuse(file, f"the event {row['seq']} of the session {own!r} {line}")
    stem = str(own)
    if is_plain_name(stem):
        _add_transcript(folder, file, stem, b"\n".join(lines), whose=f"session {stem}: ")
    else:
        folder.refuse(file, f"the session {stem[:80]!r} has an id that cannot be the name of a file")
    if (made := folder.sessions.get(stem)) is not None:
        noted = made.meta[META] | ({"window": window} if window else {})
        folder.sessions[stem] = replace(made, files=tuple(database.files), meta={**made.meta, META: noted})


def _line(row: _Json) -> bytes | str:
    """Return the line that a row holds, or why it holds none."""
    packed, data = row.get("event_zstd"), b""
    if isinstance(row.get("event_json"), str):
        data = row["event_json"].encode("utf-8", errors="replace")
    elif isinstance(packed, bytes):
        try:
            data = containers.unpack_zstd(packed, files.unpack_limit(len(packed)))
        except InvalidInput as error:
            return f"cannot be unpacked: {error}"
    if not data.strip():
        return "holds no text"
    return b" ".join(data.splitlines())  # within JSON a line break is a blank


def is_plain_name(name: str) -> bool:
    """Tell whether a text can be the name of a file, and of no other folder's."""
    return name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"} and name.isprintable()


def _transcripts(folder: Folder) -> Iterator[tuple[str, Path]]:
    others: list[str] = []
    try:
        there = sorted(folder.place.folder.iterdir())
    except OSError as error:
        folder.refuse(folder.place.folder, f"cannot be read: {error.strerror or error}")
        return
    for file in there:
        if file.name == STORE or not file.is_file():
            continue
        if file.suffix == _ENDING and not folder.may_read(file):
            folder.refuse(file, f"{BARRED}; it was not read")
        elif file.suffix == _ENDING:
            yield file.name.removesuffix(_ENDING), file
        else:
            others.append(shown_path(file.name))
    if others:
        folder.notes.append(f"{shown_path(folder.place.folder)}: no transcripts, left alone: {list_names(others)}")


def list_names(names: list[str], most: int = 5) -> str:
    """Return a few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# --- which file is an entry's


def _place(named: FolderEntry, folder: Folder, files: dict[str, Path]) -> None:
    """Find the transcript of an entry, and add it to the files to read."""
    told, usual = named.entry.get("sessionFile"), stem_of(named.session_id, named.key)
    if isinstance(told, str) and told.strip():
        stem, file = _told_file(told.strip(), folder)
    else:
        here = [each for each in (usual, named.session_id) if _is_file(folder.place.folder / f"{each}{_ENDING}")]
        stem = here[0] if here else usual
        file = folder.place.folder / f"{stem}{_ENDING}"
    named.stem = stem if is_plain_name(stem) else usual
    if stem == named.stem and _is_file(file):
        if folder.may_read(file):
            files.setdefault(stem, file)
        else:
            folder.barred.add(stem)


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except (OSError, ValueError):  # a name that is too long, or none
        return False


def _told_file(told: str, folder: Folder) -> tuple[str, Path]:
    """Return the name and the place of a transcript that an entry names by its path.

    A path in some state folder means the file of that name in this one, which may be a copy. Any other path is taken as
    told, and where nothing is there, as the name of a file in this folder.
    """
    here, state = folder.place.folder, folder.place.state
    posix = PureWindowsPath(told).as_posix()
    name = PurePosixPath(posix).name
    stem = name.removesuffix(_ENDING)
    apart = f"{stem}~{hashlib.sha256(told.encode()).hexdigest()[:8]}"
    standard, outside = _STANDARD.search(posix), here / told
    if standard is not None and keys.normalize_agent_id(standard[1]) == keys.normalize_agent_id(folder.place.agent):
        return stem, here / name
    if standard is not None and state is not None:
        outside = state / "agents" / standard[1] / "sessions" / name
    elif not _is_file(outside) or outside.parent.resolve() == here.resolve():
        is_apart = _is_file(here / f"{apart}{_ENDING}")
        return (apart, here / f"{apart}{_ENDING}") if is_apart else (stem, here / name)
    # a file of another folder has another name if a file of this folder has its own
    return (apart if _is_file(here / f"{stem}{_ENDING}") else stem), outside


# --- transcripts


def _read_transcript(folder: Folder, stem: str, file: Path) -> None:
    if shown_path(stem) != stem:
        folder.refuse(file, "has a name that is not UTF-8; it was not imported")
        return
    try:
        data = file.read_bytes()
    except OSError as error:
        folder.refuse(file, f"cannot be read: {error.strerror or error}")
        return
    folder.read[file.name] = import_records.source_file(data, file.name)
    _add_transcript(folder, file, stem, data)


def _add_transcript(folder: Folder, file: Path, stem: str, data: bytes, *, whose: str = "") -> None:
    """Add a transcript to the folder's, with its problems and notes, which begin with `whose` it is.

    Of a file outside of the folder, they say that there are some, and no word of it.
    """
    read = text_coverage.parse_and_account(pi_session_file.parse, [(stem if whose else file.name, data)])
    shown, counts = shown_path(file), read.records
    if folder.holds(file):
        folder.notes += [f"{shown}: {whose}{note}" for note in read.notes]
        told = [(each.line, f"{whose}{each.reason}", each.text if each.line else "") for each in read.problems]
    else:
        hidden = "cannot be used (the file is outside of the folder, so what it holds is not shown)"
        told = [(each.line, hidden, "") for each in read.problems]
        counts = {"outside": sum(counts.values())}  # types are the file's words
        if read.notes:
            folder.notes.append(f"{shown}: {len(read.notes)} note(s) on a file outside of the folder, not shown")
    folder.problems += [FileProblem(file=shown, line=line, reason=why, text=text) for line, why, text in told]
    folder.transcripts.append(replace(read, sessions=(), problems=(), notes=(), records=counts))
    for session in read.sessions:
        folder.sessions[stem] = _as_agents(session, stem, folder)


def _as_agents(session: SourceSession, stem: str, folder: Folder) -> SourceSession:
    own = folder.place.agent
    noted = {"agent": own, **({"id": session.id} if session.id != stem else {}), **_raw_key(folder, stem)}
    agent = own if session.agent in (None, pi_session_file.SOURCE) else session.agent
    return replace(session, source=source_of(own), id=stem, agent=agent, meta={**session.meta, META: noted})


def _raw_key(folder: Folder, stem: str) -> Mapping[str, str]:
    found = next((each for each in folder.named if each.stem == stem and each.raw != each.key), None)
    return {} if found is None else {"key": found.raw}


def _stand_in(folder: Folder, named: FolderEntry, *, is_there: bool) -> None:
    """Let an entry without a transcript have an empty session."""
    what = "cannot be read" if is_there else "is not there"
    if named.stem in folder.barred and not is_there:
        what = f"{BARRED}; it was not read"
    name = f"{named.stem}{_ENDING}"
    folder.refuse(named.file, f"the entry {named.raw!r}: its transcript {name} {what}; the entry is kept")
    if named.stem in folder.sessions:
        return
    noted = {"agent": folder.place.agent, _META_MISSING: True, **_raw_key(folder, named.stem)}
    folder.sessions[named.stem] = SourceSession(
        source=source_of(folder.place.agent), id=named.stem, paths=((),), agent=folder.place.agent, meta={META: noted}
    )


def linked_source(sessions: Mapping[str, SourceSession]) -> list[SourceSession]:
    """Return sessions with the one that each was forked from, found by its file's name or by the id in its header."""
    by_id: dict[str, str] = {}
    for stem, session in sessions.items():
        by_id.setdefault(str(session.meta[META].get("id", stem)), stem)
    return [replace(session, copied_from=_parent(session, sessions, by_id)) for session in sessions.values()]


def _parent(session: SourceSession, sessions: Mapping[str, SourceSession], by_id: Mapping[str, str]) -> str | None:
    window = session.meta[META].get("window", {})
    forked = window.get("previous_session_id") if window.get("reason") in ("fork", "rewind") else None
    told = as_text(session.meta.get("parentSession", session.meta.get("branchedFrom", forked)))
    if told is None:
        return None
    name = PurePosixPath(PureWindowsPath(told).as_posix()).name.removesuffix(_ENDING)
    for found in (name if name in sessions else None, by_id.get(name), by_id.get(told)):
        if found is not None and found != session.id:
            return found
    return name or None
