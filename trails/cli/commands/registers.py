"""Commands for the registers of a store: what those who answer for it write down beside the sessions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from trails.cli import options as cli
from trails.display.terminal_text import clean, one_line
from trails.rdf.register_records import INCIDENT_DAYS

if TYPE_CHECKING:
    from trails.rdf.register_records import Export, ProcessingPurpose, RecordReading
    from trails.session.registers import BackupState, IncidentState


_session_option = cli.option("--session SESSION", "Of this session.")
_agent_option = cli.option("--agent NAME", "Of all sessions of this agent.")


@cli.command("set", by=True)
@click.argument("purpose", metavar="PURPOSE")
@cli.option("--basis BASIS", "Consent, contract and so on, or its letter in Art. 6(1).")
@_session_option
@_agent_option
def set_purpose(*, purpose: str, basis: str | None, session: str | None, agent: str | None) -> None:
    """Say what personal data are processed for.

    It is said of a session, of all sessions of an agent, or of the whole store. --basis is consent, contract,
    legal-obligation, vital-interests, public-task or legitimate-interests, or a to f as Art. 6(1) of the GDPR counts them.
    What was said before stays on record.
    """
    with cli.open_store() as store:
        found = store.registers.set_purpose(purpose, basis, session=session, agent=agent)
    cli.answer({"purpose": found}, found.token)


@cli.command("list", pager=True, as_of=True, limit=True)
@_session_option
@_agent_option
def list_purposes(*, session: str | None, agent: str | None) -> None:
    """List what was said of purposes of processing, oldest first.

    `trails query purposes` says which is in force in each session.
    """
    with cli.open_store(reading=True) as store:
        every = store.registers.purposes(session, agent)
    draw = cli.table("purpose,legal basis,of,by,said (UTC)", _purpose_row, fold=("purpose",))
    cli.answer_list("purposes", every, draw, "nothing is known of purposes")


def _purpose_row(each: ProcessingPurpose) -> tuple[str, ...]:
    of = clean(each.of.removeprefix("urn:trails:"))
    return one_line(each.purpose), each.basis or "unknown", of, clean(each.by), cli.view.moment(each.time)


@cli.command("reads", pager=True, as_of=True, limit=True)
@click.argument("session", metavar="[SESSION]", required=False)
def list_reads(*, session: str | None) -> None:
    """List who read records: what, when, and through what.

    Reads are on record where TRAILS_RECORD_READS is 1. SESSION is an id or an IRI, also of a session that was deleted.
    """
    with cli.open_store(reading=True) as store:
        every = store.registers.reads(session)
    draw = cli.table("last (UTC),by,through,what,sessions,query,times", _read_row, fold=("sessions", "what"))
    cli.answer_list("reads", every, draw, "there are no reads on record")


def _read_row(each: RecordReading) -> tuple[str, ...]:
    query = each.query or ("" if each.query_digest is None else each.query_digest[:16])
    sessions = ", ".join(map(clean, each.used))
    when = cli.view.moment(each.time)
    return when, clean(each.by), each.through, one_line(each.action), sessions, query, str(each.count)


@cli.command("exports", pager=True, as_of=True, limit=True)
@click.argument("session", metavar="[SESSION]", required=False)
def list_exports(*, session: str | None) -> None:
    """List exports and packs: who made which, when, and for whom.

    They are on record where TRAILS_RECORD_READS is 1, and where --recipient named somebody.
    """
    with cli.open_store(reading=True) as store:
        every = store.registers.exports(session)
    draw = cli.table("made (UTC),by,format,of,sha256,for", _export_row, fold=("of", "for"))
    cli.answer_list("exports", every, draw, "there are no exports on record")


def _export_row(each: Export) -> tuple[str, ...]:
    of, recipients = (", ".join(map(clean, names)) for names in (each.used or ("(all)",), each.recipients))
    digest = "" if each.sha256 is None else each.sha256[:16]
    return cli.view.moment(each.time), clean(each.by), each.form, of, digest, recipients


@cli.command("backups", pager=True, as_of=True, limit=True)
@cli.option("--holding-erased", "Only those that hold what was erased since.")
def list_backups(*, holding_erased: bool) -> None:
    """List backups: when each was made, and what it still holds.

    A backup holds what was deleted or redacted after it was made, until it is destroyed.
    """
    with cli.open_store(reading=True) as store:
        every = store.registers.backups(holding_erased=holding_erased)
    draw = cli.table("backup,made (UTC),by,place,sha256,holds,state", _backup_row, fold=("place",))
    cli.answer_list("backups", every, draw, "there are no such backups on record")


def _backup_row(state: BackupState) -> tuple[str, ...]:
    made, stands = state.backup, "there" if state.destroyed is None else "destroyed"
    holds = f"{len(state.erasures)} erased" if state.erasures else ""
    when = cli.view.moment(made.time)
    return made.token, when, clean(made.by), one_line(made.place), made.sha256[:16], holds, stands


@cli.command("destroyed", reason=True, by=True)
@click.argument("backup", metavar="ID")
def destroyed_backup(*, backup: str, reason: str | None) -> None:
    """Say that a backup was destroyed; Trails deletes no file.

    ID is the backup's, the beginning of it, or the name of its folder. The backup stays on record.
    """
    with cli.open_store() as store:
        closing = store.registers.destroyed_backup(backup, reason)
    cli.answer({"closing": closing}, None, said=f"the backup {closing.closes} counts as destroyed")


@cli.command("add", reason=True, by=True)
@click.argument("kind", metavar="KIND", type=click.Choice(list(INCIDENT_DAYS)))
@click.argument("session", metavar="[SESSION]", required=False)
@cli.time_option("--aware", "When somebody became aware of it; default: now.")
def add_incident(*, kind: str, session: str | None, reason: str | None, aware: datetime | None) -> None:
    """Flag an incident, and say by when it is to be reported.

    KIND is serious (15 days), widespread or critical-infrastructure (2 days) or death (10 days), as Art. 73 of the EU's AI
    Act tells them apart. SESSION is where it happened, by any name of it; without one it is of the whole store. --reason
    says what happened. The incident's id is printed.
    """
    with cli.open_store() as store:
        found = store.registers.flag_incident(kind, session, reason=reason, aware=aware)
    cli.answer({"incident": found}, found.token, said=f"it is to be reported by {found.due:%Y-%m-%d %H:%M} UTC")


@cli.command("list", pager=True, as_of=True, limit=True)
@cli.option("--open", "Only those that are not closed.", name="is_open")
def list_incidents(*, is_open: bool) -> None:
    """List incidents by deadline, with whether that is past due."""
    with cli.open_store(reading=True) as store:
        every = store.registers.incidents(is_open=True if is_open else None)
    draw = cli.table("incident,kind,session,due (UTC),state,by,what happened", _incident_row, fold=("what happened",))
    cli.answer_list("incidents", every, draw, "there are no incidents")


def _incident_row(state: IncidentState) -> tuple[str, ...]:
    incident = state.incident
    where = "(all)" if incident.session_id is None else clean(incident.session_id)
    stands = "open" if state.closing is None else "closed"
    due = f"{stands}, past due" if state.is_past_due() else stands
    told = one_line(incident.reason or "")
    return incident.token, incident.kind, where, cli.view.moment(incident.due), due, clean(incident.by), told


@cli.command("close", reason=True, by=True)
@click.argument("incident", metavar="ID")
def close_incident(*, incident: str, reason: str | None) -> None:
    """Say that an incident was reported, or was none.

    ID is the incident's, or the beginning of it. --reason says what became of it. The incident stays on record.
    """
    with cli.open_store() as store:
        closing = store.registers.close_incident(incident, reason)
    cli.answer({"closing": closing}, None, said=f"the incident {closing.closes} is closed")
