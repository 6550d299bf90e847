"""Keep the registers of a store: what those who answer for it write down beside the sessions."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta

from trails.errors import InvalidInput
from trails.history.lookup import names
from trails.history.records import registers
from trails.model import iris, validation
from trails.model.values import Value
from trails.rdf.register_records import (
    INCIDENT_DAYS,
    LEGAL_BASES,
    Backup,
    Closing,
    Export,
    HeldErasure,
    Incident,
    ProcessingPurpose,
    RecordReading,
    incident_deadline,
)
from trails.session.register_facet import RegisterFacet, plain_text


class IncidentState(Value):
    """An incident as it stands."""

    incident: Incident
    closing: Closing | None = None
    """None while it is open."""

    def is_past_due(self, now: datetime | None = None) -> bool:
        """Tell whether the deadline was over when the incident was closed; of an open one, whether it is over `now`."""
        moment = datetime.now(UTC) if now is None else validation.time(now)
        seen = moment if self.closing is None else self.closing.time
        return seen > self.incident.due

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, ready for JSON."""
        closing = None if self.closing is None else self.closing.to_dict()
        return self.incident.to_dict() | {"past_due": self.is_past_due(), "closed": closing}


class BackupState(Value):
    """A backup as the register has it."""

    backup: Backup
    destroyed: Closing | None = None
    """None while nobody said that it was destroyed."""
    erasures: tuple[str, ...] = ()
    """The IRIs of the deletions and redactions of what it holds."""

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, ready for JSON."""
        gone = None if self.destroyed is None else self.destroyed.to_dict()
        return self.backup.to_dict() | {"destroyed": gone, "erasures": list(self.erasures)}


class Registers(RegisterFacet, public=True, reached="store.registers"):
    """The registers of a store: `store.registers`.

    An entry says who made it and when. It is logged by a line of its own, covered by `verify`, never changes, and stays when
    the session that it names is deleted. What becomes of it is another entry.
    """

    # --- incidents

    def flag_incident(
        self,
        kind: str = "serious",
        session: names.Name | None = None,
        *,
        reason: str | None = None,
        aware: datetime | None = None,
        by: str | None = None,
    ) -> Incident:
        """Flag an incident that an authority is to be told of, and return it with its deadline; stored at once.

        `kind` is "serious" (15 days), "widespread" or "critical-infrastructure" (2 days) or "death" (10 days), as Art. 73 of
        the EU's AI Act tells them apart. `session` is where it happened, by any name of it; None means the whole store.
        `reason` says what happened. `aware` is when somebody became aware of it, now by default: the deadline is so many
        times 24 hours later. `by` is as for `Repository.delete`.

        Raises `InvalidInput` for another kind and for a time in the future, `SessionNotFound` for a session that is not there.

        >>> import trails
        >>> from datetime import UTC, datetime
        >>> with trails.open(":memory:") as store:
        ...     incident = store.registers.flag_incident("death", aware=datetime(2026, 1, 1, tzinfo=UTC), by="eve")
        ...     incident.due.isoformat(), incident.by, store.registers.incidents()[0].is_past_due()
        ('2026-01-11T00:00:00+00:00', 'eve', True)
        """
        if kind not in INCIDENT_DAYS:
            raise InvalidInput(f"an incident is {', '.join(INCIDENT_DAYS)}, not {kind!r:.80}")
        now = datetime.now(UTC)
        known = now if aware is None else validation.time(aware)
        if known > now:
            raise InvalidInput(
                f"nobody can be aware of an incident at {known.isoformat()} already: that is in the future"
            )
        where = None if session is None else names.find_record(self._workspace, session).id
        made = Incident(
            session_id=where,
            kind=kind,
            aware=known,
            due=incident_deadline(kind, known),
            reason=plain_text(reason, "what happened"),
            **self._made(by, now),
        )
        self._keep(made, () if where is None else [where])
        return made

    def close_incident(self, incident: str | Incident, reason: str | None = None, *, by: str | None = None) -> Closing:
        """Say that an incident was reported, or was none, and return that; it stays in the register.

        `incident` is its id, or the beginning of it that no other has. `reason` says what became of it. Raises `InvalidInput`
        where there is no such incident, or it was closed.
        """
        return self._close(Incident, incident, "incident", reason, by)

    def incidents(self, *, is_open: bool | None = None) -> list[IncidentState]:
        """Return the incidents that were flagged, by deadline: all, the open ones, or (`is_open=False`) the closed ones."""
        store = self._workspace.store
        closings = {each.closes: each for each in registers.read_entries(store, Closing)}
        found = [
            IncidentState(incident=each, closing=closings.get(each.token))
            for each in registers.read_entries(store, Incident)
        ]
        chosen = [each for each in found if is_open is None or (each.closing is None) is is_open]
        return sorted(chosen, key=lambda each: (each.incident.due, each.incident.token))

    # --- purposes of processing

    def set_purpose(
        self,
        purpose: str,
        basis: str | None = None,
        *,
        session: names.Name | None = None,
        agent: str | None = None,
        by: str | None = None,
    ) -> ProcessingPurpose:
        """Say what personal data are processed for, and on which legal basis, and return that; stored at once.

        It is said of a `session`, by any name of it, of all sessions of an `agent`, by its name, or, without both, of the
        whole store. What was said of the same before stays in the register as history. `purpose` is a text. `basis` is
        "consent", "contract", "legal-obligation", "vital-interests", "public-task" or "legitimate-interests", or its letter in
        Art. 6(1) of the GDPR, "a" to "f"; None where that is not known. `by` is as for `Repository.delete`.

        Raises `InvalidInput` for another basis and for both a session and an agent, `SessionNotFound` for no session.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     _ = store.create(id="plan", agent="planner").persist()
        ...     _ = store.registers.set_purpose("Booking trips", "b", agent="planner", by="eve")
        ...     found = store.registers.purpose("plan")
        ...     found.purpose, found.basis, found.by
        ('Booking trips', 'contract', 'eve')
        """
        of = self._purpose_of(session, agent)
        wanted = None if basis is None else LEGAL_BASES.get(basis, basis)
        if wanted is not None and wanted not in LEGAL_BASES.values():
            raise InvalidInput(f"a legal basis is {', '.join(LEGAL_BASES.values())}, or its letter, not {basis!r:.80}")
        if not validation.text(purpose, "a purpose").strip():
            raise InvalidInput("a purpose is more than spaces")
        earlier = [each.time for each in self._purposes() if each.of == of]
        now = max([datetime.now(UTC), *(each + timedelta(microseconds=1) for each in earlier)])
        made = ProcessingPurpose(of=of, purpose=purpose, basis=wanted, **self._made(by, now))
        self._keep(made, [iris.session_id(of)] if iris.is_session(of) else ())
        return made

    def purpose(self, session: names.Name) -> ProcessingPurpose | None:
        """Return the purpose in force in a session: its own, else its agent's, else the store's; None where it is unknown.

        What a session was forked from says nothing of it.
        """
        record = names.find_record(self._workspace, session)
        newest = {each.of: each for each in self._purposes()}
        wanted = (record.iri, iris.agent(record.agent), iris.STORE)
        return next((newest[each] for each in wanted if each in newest), None)

    def purposes(self, session: names.Name | None = None, agent: str | None = None) -> list[ProcessingPurpose]:
        """Return all that was said of purposes, oldest first: of a session itself, of an agent, or of all."""
        of = None if session is None and agent is None else self._purpose_of(session, agent)
        return [each for each in self._purposes() if of in (None, each.of)]

    def _purposes(self) -> list[ProcessingPurpose]:
        return registers.read_entries(self._workspace.store, ProcessingPurpose)

    def _purpose_of(self, session: names.Name | None, agent: str | None) -> str:
        if session is not None and agent is not None:
            raise InvalidInput("a purpose is of a session or of an agent's sessions, not of both: give one of them")
        if session is not None:
            return names.find_record(self._workspace, session).iri
        return iris.STORE if agent is None else iris.agent(validation.name(agent, "agent"))

    # --- exports

    def exports(self, session: names.Name | None = None) -> list[Export]:
        """Return the exports and packs that are on record, oldest first: all, or those of a session by itself.

        They are on record where the store was opened with `record_reads`, and where recipients were named. The export of a
        whole store names no session: it is in the list of all.
        """
        wanted = None if session is None else names.find_record(self._workspace, session).id
        every = registers.read_entries(self._workspace.store, Export)
        return [each for each in every if wanted is None or wanted in each.used]

    # --- reads

    def reads(self, session: names.Name | None = None) -> list[RecordReading]:
        """Return the reads that are on record, oldest first: all, or those for which a session was named.

        They are on record where the store was opened with `record_reads`. What was read within the last 2 seconds is written
        first. Exports and audits are not among them: see `exports`, and the query `history-reads`.
        """
        wanted = None if session is None else self._workspace.session_id(session)
        self._workspace.reads.write()
        every = registers.read_entries(self._workspace.store, RecordReading)
        return [each for each in every if wanted is None or wanted in each.used]

    # --- backups

    def backups(self, *, holding_erased: bool = False) -> list[BackupState]:
        """Return the backups of the register, oldest first, with what each of them holds that was erased since.

        `store.maintenance.backup` puts a backup there, and `add_backup` one that was made otherwise. With `holding_erased`,
        only those are returned that hold something, and that nobody said were destroyed.
        """
        store = self._workspace.store
        closings = {each.closes: each for each in registers.read_entries(store, Closing)}
        held: dict[str, list[str]] = {}
        for entry in registers.read_entries(store, HeldErasure):
            held.setdefault(entry.held_by, []).extend(entry.erasures)
        found = [
            BackupState(backup=each, destroyed=closings.get(each.token), erasures=tuple(held.get(each.token, ())))
            for each in registers.read_entries(store, Backup)
        ]
        return [each for each in found if not holding_erased or (each.erasures and each.destroyed is None)]

    def add_backup(self, place: str, sha256: str, *, size: int | None = None, by: str | None = None) -> Backup:
        """Put a backup into the register that was made just now by other means, as by pg_dump or a snapshot of the disk.

        `place` is where it is, or what it is called; `sha256` its digest in 64 hex digits, `size` its bytes. It is taken to hold
        all that the store has now.
        """
        if re.fullmatch("[0-9a-f]{64}", validation.text(sha256, "sha256")) is None:
            raise InvalidInput(f"a SHA-256 has 64 hex digits, not {sha256!r:.80}")
        reached = self._workspace.store.log.reached
        made = Backup(
            place=validation.text(place, "the place of a backup"),
            sha256=sha256,
            size=None if size is None else validation.index(size, "size"),
            log_size=reached.lines,
            log_head=reached.link,
            **self._made(by),
        )
        self._keep(made)
        return made

    def destroyed_backup(self, backup: str | Backup, reason: str | None = None, *, by: str | None = None) -> Closing:
        """Say that a backup was destroyed, and return that; it stays in the register. Trails deletes no file.

        `backup` is its id, the beginning of it that no other has, or the name of its folder, as long as only one of those that
        are there has it; `reason` says how, or why. Raises `InvalidInput` where there is no such backup, or that was said before.
        """
        token = backup.token if isinstance(backup, Backup) else validation.text(backup, "the backup's id")
        there = [each.backup for each in self.backups() if each.destroyed is None]
        named = [each for each in there if token in (each.place, os.path.basename(each.place))]  # noqa: PTH119 - no path need be
        if len(named) > 1:
            tokens = ", ".join(each.token for each in named)
            raise InvalidInput(f"{len(named)} backups are called {token!r}; give the id of one: {tokens}")
        token = named[0].token if named else token
        return self._close(Backup, token, "backup", reason, by)
