"""Import a state folder of OpenClaw (before: Clawdbot) whole: sessions by key, their transcripts, sub-agents' runs.

Of two states of an entry the later one counts, by `updatedAt`: an entry that is not older than what is kept here takes its
place, field by field, those that it has no more included; an older one changes nothing. So importing a folder again changes
nothing, and what was done here since the folder was written stays.

Every entry of every agent's `sessions.json` becomes a session by key with all its fields, those included that nobody
knows; its transcript becomes that session's turns. A topic's file is a session of its own. A transcript that no entry
names is a session without a key; an entry whose transcript is not there is kept with an empty session. A file that
cannot be read is refused and reported; the real system takes it for an empty one.

Delivery mirrors (messages of the model "delivery-mirror": what was sent out over a channel) are turns with the role
"delivery". Where they stand is kept, no model is shown them, and they count no tokens.

`openclaw_files` reads the folder, `openclaw_export` writes such a folder again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Quad

from trails.display.progress import Progress
from trails.errors import InvalidInput, TrailsError
from trails.exchange.import_secrets import SecretFilter
from trails.exchange.json_files import as_object
from trails.exchange.matching import match_turns
from trails.exchange.merge import begin_import, imported_id, merge, stored_family
from trails.exchange.openclaw import openclaw_files
from trails.exchange.openclaw.openclaw_files import Folder, FolderEntry, FolderLayout, find_layout, updated_at
from trails.exchange.record_checks import combine_parts
from trails.exchange.source_transcript import FileProblem, ImportReport, Problem, SourceSession, SourceTurn
from trails.files import as_path, in_words
from trails.history import encryption, import_records, log_leaves
from trails.history.import_records import ImportedFiles, ImportSource
from trails.history.records import conversations
from trails.history.transaction import Transaction
from trails.model import iris, validation
from trails.model.values import SessionRecord
from trails.rdf import conversation_records, vocab
from trails.rdf.conversation_records import Conversation, belongs_quad, current_quad
from trails.rdf.session_records import session_quads
from trails.rdf.subagent_records import Run
from trails.runtime import keys, policy
from trails.runtime.routing.key_directory import HeldKey, Keyring, begin_conversation, source_id
from trails.runtime.runs import Runs, run_registry
from trails.runtime.runs.run_registry import Registry
from trails.session import Repository
from trails.store.contract import PreconditionFailed

_TRIES: Final = 20
_LABEL: Final = "label"
_ID: Final = "sessionId"
BindingOutcome = Literal["new", "changed", "moved", "unchanged", "older", "refused"]
FORMAT: Final = "openclaw"
_PROGRESS = ("created", "started", "ended", "archive_at", "cleanup_completed", "cleanup_handled", "outcome")


class Binding(NamedTuple):
    """What became of an entry, and what is to be said of it."""

    outcome: BindingOutcome
    says: tuple[str, ...] = ()


class Binder:
    """Binds entries to the sessions of one store."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._store = repository.store
        self._keyring = Keyring(repository)

    def bind(self, key: str, session_id: str, entry: Mapping[str, Any]) -> Binding:
        """Let a key name a session, with exactly this entry, in one commit.

        Raises `InvalidInput` for an entry that cannot be kept, and where others change the key all the time.
        """
        for _ in range(_TRIES):
            with contextlib.suppress(PreconditionFailed):
                return self._bind(key, session_id, entry)
        raise InvalidInput(f"the key {key!r} is changed by others all the time; try again")

    def _bind(self, key: str, session_id: str, entry: Mapping[str, Any]) -> Binding:
        found = self._keyring.find(key)
        record = self._repository.reader.record(session_id)
        if record.key is not None and record.key != (key if found is None else found[0].key):
            return Binding("refused", (f"its session {session_id!r} has the key {record.key!r} here",))
        if found is None:
            label, says = self._label(entry, None)
            made = Conversation(key=key, session_id=session_id, label=label, created=_began(record, entry))
            tx = Transaction()
            tx.add(_missing_quads(self._store, belongs_quad(made.session_id, made.key)))
            begin_conversation(tx, made)
            self._write_entry(tx, record, entry, label)
            self._commit(tx, session_id)
            return Binding("new", says)
        held = self._keyring.held(found[0])
        return (self._change if held.session_id == session_id else self._move)(held, record, entry)

    def _change(self, held: HeldKey, record: SessionRecord, entry: Mapping[str, Any]) -> Binding:
        label, says = self._label(entry, held.conversation)
        before = held.to_json()
        if _canonical_json(before) == _canonical_json(entry) and label == held.conversation.label:
            return Binding("unchanged", says)
        if updated_at(entry) < updated_at(before):
            return Binding("older", ("it is older than the one here, which stays",))
        tx = Transaction()
        self._write_entry(tx, record, entry, label)
        conversations.relabel_conversation(tx, held.conversation, label)
        tx.require([current_quad(held.key, held.session_id)])
        self._commit(tx, held.session_id)
        was, now = ({(name, _canonical_json(value)) for name, value in each.items()} for each in (before, entry))
        names = sorted({name for name, _ in was ^ now})
        return Binding("changed", (f"changed: {', '.join(names) or _LABEL}", *says))

    def _move(self, held: HeldKey, record: SessionRecord, entry: Mapping[str, Any]) -> Binding:
        """Let a key name another session than before, as after a reset; the one before stays one of its sessions."""
        is_known = record.key is not None  # an earlier session of the key, as its folder still has it
        later = updated_at(held.to_json()) - updated_at(entry)
        if later > 0 or (is_known and later == 0):
            why = f"the key names the session {held.session_id!r} here, which is later"
            return Binding("older", () if is_known else (why,))
        label, says = self._label(entry, held.conversation)
        tx = Transaction()
        tx.add(_missing_quads(self._store, belongs_quad(record.id, held.key)))
        tx.move([current_quad(held.key, held.session_id)], [current_quad(held.key, record.id)])
        tx.log(log_leaves.row_states("change", [held.session_id]))
        self._write_entry(tx, record, entry, label)
        conversations.relabel_conversation(tx, held.conversation, label)
        self._commit(tx, record.id)
        moved = f"begun anew: it names {record.id!r} now, and named {held.session_id!r} before"
        return Binding("moved", (moved, *says))

    def _commit(self, tx: Transaction, session_id: str) -> None:
        tx.log(log_leaves.row_states("change", [session_id]))
        tx.commit(self._store)

    def _write_entry(self, tx: Transaction, record: SessionRecord, entry: Mapping[str, Any], label: str | None) -> None:
        """Let a session's entry say exactly this; a label that the conversation has is left out."""
        fields = {name: value for name, value in entry.items() if name != _LABEL or label is None}
        if fields.get(_ID) == source_id(record.id, record.source_session):
            del fields[_ID]
        before = self._repository.reader.entry(record.id)
        after = before.changed(fields)
        gone, come = conversation_records.overrides_difference(before, after)
        node, graph = NamedNode(record.iri), conversation_records.overrides_graph(record.id)
        tx.take(gone)
        tx.add(come)
        if not before.salt:
            tx.forbid((node, vocab.SALT, None, graph))

    def _label(self, entry: Mapping[str, Any], own: Conversation | None) -> tuple[str | None, tuple[str, ...]]:
        """Return the label that a conversation can have, and what is said of one that it cannot."""
        told = entry.get(_LABEL)
        if told is None:
            return None, ()
        try:
            label = validation.label(told)
        except InvalidInput as error:
            return None, (f"its label is kept in the entry only: {error}",)
        for quad in self._store.quads((None, vocab.LABEL, RdfLiteral(label), vocab.CATALOG)):
            if own is None or quad.subject != NamedNode(own.iri):
                holder = iris.conversation_key(str(getattr(quad.subject, "value", "")))
                whose = "a session" if holder is None else repr(holder)
                return None, (f"its label {label!r} belongs to {whose} already; it is kept in the entry only",)
        return label, ()

    # --- who spawned whom

    def link(self, session_id: str, spawner_key: str) -> str | None:
        """Say in a session's row which one spawned it; return what is to be said where that cannot be."""
        found = self._keyring.find(spawner_key)
        if found is None:
            return f"{spawner_key!r}, which spawned it, has no session here"
        record, spawner = self._repository.reader.record(session_id), found[0].session_id
        if record.spawned_by is not None:
            return None  # as it was when it was first said: the spawner may have begun anew since
        if record.parent_session_id is not None:
            return "it shares its parent's turns, and is kept as a fork of that"
        if self._descends(spawner, session_id):
            return f"{spawner_key!r}, which spawned it, comes from it itself"
        try:
            import_records.spawn_link(self._store, session_id, spawner)
        except PreconditionFailed:
            return f"{spawner_key!r}, which spawned it, was changed meanwhile; import the folder again"
        return None

    def _descends(self, session_id: str, ancestor: str) -> bool:
        seen: set[str] = set()
        waiting = {session_id}
        while waiting and ancestor not in waiting:
            seen |= waiting
            records = self._repository.reader.records(sorted(waiting)).values()
            above = {each for record in records for each in (record.spawned_by, record.parent_session_id) if each}
            waiting = above - seen
        return ancestor in waiting


def _missing_quads(store: Any, quads: Iterable[Quad]) -> list[Quad]:
    return [q for q in quads if not store.quads((q.subject, q.predicate, q.object, q.graph_name))]


def _canonical_json(value: Any) -> str:
    """Return a value as text, equal for equal JSON values: 1, 1.0 and true are not."""
    return json.dumps(value, sort_keys=True)


def _began(record: SessionRecord, entry: Mapping[str, Any]) -> datetime:
    """Return when a conversation is said to have begun."""
    if record.created is not None:
        return record.created
    try:
        return policy.from_ms(int(updated_at(entry)))
    except (InvalidInput, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def import_folder(
    repository: Repository,
    path: str | os.PathLike[str],
    *,
    allow_outside: bool = False,
    progress: Progress | None = None,
    redact_secrets: bool = False,
    by: str | None = None,
) -> ImportReport:
    """Import a state folder, one agent's folder, its `sessions` folder, one `sessions.json` or one `runs.json`.

    Importing again adds nothing; transcripts that grew go on, and entries that changed are changed here, unless they are
    older than what is here (`updatedAt`). All that could not be used is in the report's problems, with the reason.
    `redact_secrets` takes secrets out of transcripts, entries and runs, as in `import_path`.

    An entry's `sessionFile`, or a link in the folder, may lead anywhere: files outside of the folder are read only with
    `allow_outside`, and what they hold is then shown in no problem and no note.

    Raises `InvalidInput` where the path is none of these.

    >>> import json, tempfile, trails
    >>> header = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-28T10:00:00.000Z", "cwd": "/"}
    >>> with tempfile.TemporaryDirectory() as state, trails.open(":memory:") as store:
    ...     folder = Path(state, "agents", "main", "sessions")
    ...     folder.mkdir(parents=True)
    ...     _ = (folder / "sessions.json").write_text('{"agent:main:main": {"sessionId": "s1", "updatedAt": 5}}')
    ...     _ = (folder / "s1.jsonl").write_text(json.dumps(header))
    ...     report = import_folder(store, Path(state))
    ...     report.sessions_created, trails.Router(store).session("agent:main:main").id
    (['openclaw-main:s1'], 'openclaw-main:s1')
    """
    place = as_path(path, "what to import")
    with in_words(place, "read"):
        layout = find_layout(place)
        if layout is None:
            why = f"it has no agents/AGENT/sessions/{openclaw_files.STORE}, and is none itself"
            raise InvalidInput(f"{place} is no state folder of OpenClaw: {why}")
        secrets = SecretFilter(out=redact_secrets or repository.workspace.scan == "redact")
        began = begin_import(repository, FORMAT, by)
        return _FolderImport(repository, layout, progress, secrets, began, allow_outside).run()


@dataclass(slots=True)
class _FolderImport:
    """One import."""

    _repository: Repository
    _layout: FolderLayout
    _progress: Progress | None
    _secrets: SecretFilter
    _began: ImportSource
    _allow_outside: bool
    _report: ImportReport = field(default_factory=ImportReport)
    _spawned: list[tuple[Folder, FolderEntry, str]] = field(default_factory=list)
    """Entries with a `spawnedBy`, and the ids of their sessions."""

    def run(self) -> ImportReport:
        folders = self._folders()
        total = len(folders) + (self._layout.runs is not None)
        for done, folder in enumerate(folders):
            self._tell(done, total, folder.place.agent)
            self._sessions(folder)
        kept, lost = _without_rivals(folders)
        for _, named, rival in lost:
            what = "key" if named.key == rival.key else "key or transcript"
            later = f"{rival.raw!r} of the session {rival.session_id!r} has the same {what} and is later"
            self._problem(named.file, f"the entry {named.raw!r} was not imported: {later}")
        for folder, named in kept:
            self._entry(folder, named)
        for folder, named, session in self._spawned:
            self._link(folder, named, session)
        for folder in folders:
            self._loose(folder, {named.stem for place, named in kept if place is folder})
        if self._layout.runs is not None:
            self._tell(total - 1, total, "runs")
            self._runs(self._layout.runs)
        self._sum_up()
        self._tell(total, total, "")
        return self._report

    def _tell(self, done: int, total: int, what: str) -> None:
        if self._progress:
            self._progress(done, total, what)

    def _sum_up(self) -> None:
        """Say what became of the entries and of the runs."""
        records = self._report.records
        for what, several in (("entry", "entries"), ("run", "runs")):
            if total := records.get(what):
                split = [(*name.partition(" "), number) for name, number in records.items() if number]
                told = ", ".join(f"{number} {outcome}" for of, _, outcome, number in split if of == what and outcome)
                self._report.notes.append(f"{total} {what if total == 1 else several}: {told or 'none changed'}")

    def _count(self, what: str, number: int = 1) -> None:
        self._report.records[what] = self._report.records.get(what, 0) + number

    def _problem(self, file: Path, reason: str) -> None:
        shown = openclaw_files.shown_path(file)
        self._report.problems.append(FileProblem(file=shown, line=0, reason=reason, text=""))

    # --- transcripts

    def _folders(self) -> list[Folder]:
        folders: dict[str, Folder] = {}
        for place in self._layout.agents:
            source = openclaw_files.source_of(place.agent)
            if source in folders:
                other = folders[source].place.folder
                self._problem(place.folder, f"is the folder of the same agent as {other}; it was not imported")
                continue
            folders[source] = openclaw_files.read_folder(place, allow_outside=self._allow_outside)
        return list(folders.values())

    def _sessions(self, folder: Folder) -> None:
        """Bring the transcripts of a folder in, as transcripts of any format."""
        for session in folder.sessions.values():
            self._fill_in(self._secrets.session(session))
        whole = replace(
            combine_parts(folder.transcripts),
            sessions=tuple(openclaw_files.linked_source(folder.sessions)),
            left_out=[row for transcript in folder.transcripts for row in transcript.left_out],
        )
        where = openclaw_files.shown_path(folder.place.folder)
        refused = sum(problem.line > 0 for problem in folder.problems)
        named = {}
        with contextlib.suppress(OSError):  # a session comes from the entries' file if its transcript is not there
            data = folder.store_file.read_bytes()
            named[folder.store_file.name] = import_records.source_file(data, folder.store_file.name)
        read = ImportedFiles(self._began, named | folder.read, refused)
        report = merge(self._repository, whole, file=where, redact_secrets=self._secrets.out, read=read)
        report.problems = [*folder.problems, *report.problems]
        report.notes = [*folder.notes, *report.notes]
        report.files = len(folder.read) + folder.store_file.is_file()
        self._report.add(report)

    def _fill_in(self, source: SourceSession) -> None:
        """Let a session whose transcript was missing have what the transcript's header says, now that it is there."""
        name = imported_id(source.source, source.id)
        record = self._repository.reader.records([name]).get(name)
        if record is None or not _is_missing(record.meta) or _is_missing(source.meta):
            return
        encryption.refuse_encrypted(
            [record], "its row is not filled in later", "delete it, and import it again with its file"
        )
        meta = {**source.meta, **({"title": source.title} if source.title else {})}
        changes = {"meta_json": validation.meta(meta), "created": source.created or record.created}
        filled = record.model_copy(update=changes)
        tx = Transaction()
        tx.move(session_quads(record), session_quads(filled))
        tx.log(log_leaves.row_states("create", [name]))
        with contextlib.suppress(PreconditionFailed):  # another import does the same
            tx.commit(self._repository.store)

    def _loose(self, folder: Folder, named: set[str]) -> None:
        loose = [f"{stem}.jsonl" for stem in folder.sessions if stem not in named]
        if loose:
            where = openclaw_files.shown_path(folder.place.folder)
            what = f"{where}: {len(loose)} transcript(s) that no entry names, kept as sessions without a key"
            self._report.notes.append(f"{what}: {openclaw_files.list_names(loose, 20)}")

    # --- entries

    def _entry(self, folder: Folder, named: FolderEntry) -> None:
        file, where = named.file, f"the entry {named.raw!r}"
        self._count("entry")
        try:
            session = self._session_of(folder, named)
            if session is None:
                self._problem(file, f"{where}: its session is not here, so it was not imported")
                return
            if self._repository.reader.is_deleted(session):
                self._report.notes.append(f"{where}: its session {session!r} was deleted here, so it was not imported")
                return
            bound = Binder(self._repository).bind(named.key, session, self._secrets.value(named.entry))
        except (TrailsError, ValueError) as error:
            self._problem(file, f"{where} cannot be kept: {error}")
            return
        self._count(f"entry {bound.outcome}")
        if bound.outcome in ("new", "changed"):
            self._report.secrets += self._secrets.place(session).value("entry", named.entry)
        for text in bound.says:
            if bound.outcome == "refused" or "label" in text.split(" ", 2)[:2]:
                self._problem(file, f"{where}: {text}")
            else:
                self._report.notes.append(f"{named.key}: {text}")
        if bound.outcome != "refused" and isinstance(named.entry.get("spawnedBy"), str):
            self._spawned.append((folder, named, session))

    def _session_of(self, folder: Folder, named: FolderEntry) -> str | None:
        """Return the id of the session that holds the main path of an entry's transcript; None where there is none."""
        source = openclaw_files.source_of(folder.place.agent)
        first = imported_id(source, named.stem)
        family = stored_family(self._repository.store, source, named.stem)
        if len(family) > 1 and named.stem in folder.sessions:
            path: Sequence[SourceTurn] = next(iter(folder.sessions[named.stem].paths), ())
            for each in family:
                turns = self._repository.load(each).turns
                match = match_turns(turns, path, 0)
                if not match.rest and match.length == len(turns):
                    return each
        if first in family or self._repository.reader.is_deleted(first):
            return first
        return family[0] if family else None

    def _link(self, folder: Folder, named: FolderEntry, session: str) -> None:
        spawner = keys.store_key_of_agent(named.entry["spawnedBy"], folder.place.agent)
        try:
            said = Binder(self._repository).link(session, spawner)
        except (TrailsError, ValueError) as error:
            said = f"{spawner!r}, which spawned it, cannot be looked up: {error}"
        if said is not None:
            self._problem(named.file, f"the entry {named.raw!r}: {said}")

    # --- runs

    def _runs(self, file: Path) -> None:
        self._report.files += 1
        if not self._allow_outside and not file.resolve().is_relative_to(file.parent.parent.resolve()):
            self._problem(file, f"{openclaw_files.BARRED}; no run was imported")
            return
        found = openclaw_files.read_json(file)
        if isinstance(found, Problem):
            self._problem(file, f"{found.reason}; no run was imported")
            return
        registry = Registry(self._repository)
        kept = self._secrets.runs(found)
        try:
            done = Runs(self._repository).import_file(kept)
            records, _ = run_registry.read_file(kept)
        except InvalidInput as error:
            self._problem(file, f"{error}; no run was imported")
            return
        for text in done.dropped:
            self._problem(file, f"a run was left out: {text}")
        for run_id in done.added:
            made = registry.find(run_id)
            place = self._secrets.place(made.child_session if made else None)
            self._report.secrets += place.value(f"run {run_id}", found["runs"].get(run_id))
        further = [run_id for run_id in done.known if _goes_on(registry, records[run_id])]
        self._count("run", len(done.added) + len(done.known))
        self._count("run new", len(done.added))
        self._count("run changed", len(further))


def _is_missing(meta: Mapping[str, Any]) -> bool:
    return as_object(meta.get(openclaw_files.META)).get("missing") is True


def _without_rivals(
    folders: Sequence[Folder],
) -> tuple[list[tuple[Folder, FolderEntry]], list[tuple[Folder, FolderEntry, FolderEntry]]]:
    """Return the entries to bind, and those that are not, each with the one that was later.

    Of entries with one key, or with one transcript, the latest counts (`updatedAt`; of equals the first).
    """
    every = [(folder, named) for folder in folders for named in folder.named]
    taken: dict[tuple[str, ...], FolderEntry] = {}
    lost: dict[int, FolderEntry] = {}
    for folder, named in sorted(every, key=lambda each: -each[1].updated):
        # what only one entry may have: its key (under any spelling), and its transcript
        claims: list[tuple[str, ...]] = [
            ("key", min(keys.spellings(named.key))),
            ("file", folder.place.agent, named.stem),
        ]
        rival = next((taken[claim] for claim in claims if claim in taken), None)
        if rival is not None:
            lost[id(named)] = rival
        else:
            taken |= dict.fromkeys(claims, named)
    kept = [each for each in every if id(each[1]) not in lost]
    return kept, [(folder, named, lost[id(named)]) for folder, named in every if id(named) in lost]


def _goes_on(registry: Registry, later: Run) -> bool:
    """Let a known run go on as far as its record says; return whether anything changed. Nothing ever goes back."""

    def step(run: Run) -> dict[str, Any] | None:
        if _progress_of(later) <= _progress_of(run):
            return None
        changed = {name: value for name in _PROGRESS if (value := getattr(later, name)) != getattr(run, name)}
        return changed | ({"said": run.said.with_error(later.error)} if later.error != run.error else {})

    return registry.change(later.run_id, step) is not None


def _progress_of(run: Run) -> tuple[bool, bool, bool, bool]:
    return (
        run.cleanup_completed is not None,
        run.ended is not None,
        run.cleanup_handled is True,
        run.started is not None,
    )
