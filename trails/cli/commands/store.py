"""Commands for the store itself: upkeep, verification, backups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import trails
from trails.cli import options as cli
from trails.cli.commands.moving import verify_mirror
from trails.cli.commands.proofs import evidence_options, note_option, signature_options
from trails.display.terminal_text import count, one_line, shorten
from trails.errors import IntegrityError, InvalidInput
from trails.files import read_whole

if TYPE_CHECKING:
    from trails.integrity.proofs import TurnProof
    from trails.integrity.signed_notes import Checkpoint
    from trails.store.doctor import Check


@cli.command("init", json=False, yes=True)
@click.argument("place", required=False)
@cli.option("--claude-code", "Let Claude Code record its sessions into the store.")
@cli.option("--user", "With --claude-code: for all projects, in ~/.claude/settings.json. This is the default.")
@cli.option("--project", "With --claude-code: for the project in this folder, in .claude/settings.local.json.")
@cli.option("--remove", "With --claude-code: take that out of the settings again.")
def init(*, place: str | None, claude_code: bool, user: bool, project: bool, remove: bool, yes: bool) -> None:
    """Create an empty store, and let an agent record into it.

    PLACE is a folder, or postgresql://HOST/DATABASE?store=NAME; without it, what --store or TRAILS_STORE names. A store that
    is there already is left as it is.

    --claude-code adds hooks to Claude Code's settings that run `trails hook`. It shows what changes and asks first; elsewhere
    than on a terminal it needs --yes. All other settings stay as they are, and a copy of the file is kept beside it.
    """
    cli.check_options(
        (user and project, "--user and --project exclude each other"),
        (
            (user or project or remove or yes) and not claude_code,
            "--user, --project, --remove and --yes go with --claude-code",
        ),
    )
    given = cli.store_location() or "" if place is None else place
    if not remove:
        with cli.open_store(create=True) if place is None else cli.open_at(place, create=True) as store:
            sessions, place = store.info()["sessions"], store.store.location
        cli.note(f"the store {place} is ready and holds {count(sessions, 'session')}")
    if claude_code:
        from trails.cli import agent_settings

        folder = Path.cwd() if project else None
        agent_settings.change_claude_code(None if remove else agent_settings.lasting(given), folder, yes=yes)


@cli.command("info")
@cli.option("--format", "Describe it in RDF (VoID and DCAT) instead.", type=click.Choice(cli.TRIPLE_FORMATS))
@cli.option("--licence IRI", "With --format: under which licence it is.")
@cli.option("--publisher NAME", "With --format: who publishes it.")
@cli.option("--download URL", "With --format: where a dump of it can be had. Repeatable.", multiple=True)
def info(*, licence: str | None, publisher: str | None, download: tuple[str, ...], **how: str | None) -> None:
    """Say where the store is and what it holds.

    --format describes the store as a dataset: how many things of each class and triples of each property it holds, and
    of the licence, the publisher and the dumps what you say here.
    """
    from trails.store.dataset_description import describe

    form = how["format"]
    cli.check_options(
        (
            form is None and bool(licence or publisher or download),
            "--licence, --publisher and --download go with --format",
        )
    )
    with cli.open_store(reading=True) as store:
        if form is not None:
            described = describe(store.store, form, licence=licence, publisher=publisher, downloads=download)
            click.echo(described, nl=False)
            return
        facts = store.info()
    cli.answer(facts, {name: f"{n:,}" if type(n) is int else n for name, n in facts.items()}, cli.view.print_grid)


@cli.command("vacuum")
def vacuum() -> None:
    """Rebuild the store without what was deleted or redacted.

    Then no file of it holds any of that. It needs as much free space again as the store has. Cut short, it leaves the
    store as it was or rebuilt.
    """
    with cli.open_store() as store, cli.view.working("rebuilding"):
        report = store.maintenance.vacuum()
    sizes = f"{report.bytes_before:,} bytes before, {report.bytes_after:,} after"
    cli.answer(report, sizes)
    if not report.behind:
        cli.note(f"what was deleted or redacted is in no file of the store any more; {cli.IN_OLDER_COPIES}")
        return
    cli.note(f"what was deleted or redacted is in the store no more; {cli.IN_OLDER_COPIES}")
    for each in report.behind:
        cli.note(f"it may still be in the files of {each}")
    cli.note("close it or let it refresh, and vacuum again; of PostgreSQL, `sync` there (`trails guide postgres`)")


@cli.command("vectors")
@cli.option("--embedder DIR", "The folder of a model; default: the one in use, or that of trails[semantic].")
@cli.option("--drop", "Remove all vectors instead, and make none from now on.")
def make_vectors(*, embedder: str | None, drop: bool) -> None:
    """Make the vectors for `trails search --semantic`.

    That search makes what is missing by itself; this does it beforehand, for instance after a large import. Vectors of another
    model are removed first. They leave with their text, where it is deleted or redacted.
    """
    cli.check_options((drop and embedder is not None, "--drop removes all vectors; leave --embedder out"))
    with cli.open_store() as store:
        if drop:
            dropped = store.maintenance.drop_vectors()
            cli.answer({"dropped": dropped}, "the vectors are removed" if dropped else "there are no vectors")
            return
        made = store.maintenance.make_vectors(embedder, progress=True)
    cli.answer(
        made, f"{count(made.turns, 'turn')} {'has' if made.turns == 1 else 'have'} vectors, made by {made.model}"
    )


@cli.command("snapshot")
def make_snapshot() -> None:
    """Make a snapshot of this machine's index now.

    The next process on this machine opens the store on the snapshot, and reads only what was committed since. Processes make
    snapshots by themselves, by bytes and by time; call this after a large import, or while an image is built. What the log
    holds and the index lacks is brought in first; cut short, it goes on when it is run again.
    """
    from trails.store import EmbeddedStore

    with cli.open_store() as store, cli.view.working("making a snapshot"):
        if not isinstance(store.store, EmbeddedStore):
            raise InvalidInput(f"{store.store.location} has no index on this machine; run this where its store is")
        number = store.store.snapshot()
        facts = {"store": store.store.location, "commits": number}
    cli.answer(facts, f"the index of {facts['store']} has a snapshot with all {number:,} commits")


@cli.command("upgrade")
@cli.option(
    "--backup FOLDER", "Where the backup goes; default: beside.", name="backup_folder", type=click.Path(path_type=Path)
)
def upgrade_store(backup_folder: Path | None) -> None:
    """Bring a store of an older format up to this version's.

    A backup is made first. A store that is there already is left as it is. Cut short, it goes on when it is run again.
    """
    from trails.store.postgres.address import is_address
    from trails.store.upgrade import upgrade

    if is_address(place := cli.store_location() or ""):
        from trails.store.postgres.upkeep import upgrade as upgrade_tables

        report = upgrade_tables(place)
    else:
        with cli.view.working("upgrading"):
            report = upgrade(cli.store_folder(), backup=backup_folder)
    said = f"the store has format {report.after} now; as it was, it is at {report.backup}"
    if report.backup is None and report.steps:
        said = f"the store has format {report.after}; its sessions are as they were"
    elif report.backup is None:
        said = f"the store has format {report.before}, the newest; nothing was to do"
    cli.answer(report, (*report.steps, *report.notes), said=said)


@cli.command("doctor")
def check_machine() -> None:
    """Say what is wrong with this machine or the store.

    It says what to do about it too. It changes nothing, and may run while the store is open elsewhere, which it then
    tells as what is wrong: the store cannot be used here. The exit code is 1 where something is wrong.
    """
    from trails.history import migrations
    from trails.history.lookup import vectors
    from trails.store import folders
    from trails.store.doctor import doctor
    from trails.store.postgres.address import is_address
    from trails.store.remote.channel import is_address as is_served

    if is_address(location := cli.store_location() or ""):
        from trails.store.postgres.upkeep import look as look_at_server

        _tell(look_at_server(location))
        return
    if is_served(location):
        raise InvalidInput(
            f"{location} is a server: run `trails doctor` where its store is kept, or look at its /health"
        )
    place = cli.store_folder()
    checks = doctor(place)
    if folders.is_store(place) and any(check.ok and check.name == "opens" for check in checks):
        checks.append(migrations.find_miscounted(place))
        checks += filter(None, [vectors.check(place)])
    _tell(checks)


def _tell(checks: Sequence[Check]) -> None:
    well = all(check.ok for check in checks)
    cli.answer({"ok": well, "checks": checks}, checks, _draw_checks)
    if not well:
        cli.end(1)


def _draw_checks(checks: Iterable[Check]) -> None:
    for check in checks:
        click.echo(f"{'ok' if check.ok else 'wrong':<6} {check.name:<12} {one_line(check.message)}")
        if check.remedy:
            click.echo(f"{'':<6} {'':<12} -> {one_line(check.remedy)}")


@cli.command("verify", as_of=True)
@click.argument("session", metavar="[SESSION]", required=False)
@note_option("--checkpoint", "A checkpoint that was kept elsewhere: find what was rewritten since.")
@note_option(
    "--since", "A checkpoint of a store that was verified then: read turns only of sessions that changed since."
)
@signature_options
@cli.option("--mirror URL", "Hold a mirror in a SPARQL server against the store.")
def verify(*, session: str | None, mirror: str | None, **how: Any) -> None:
    """Check that what is stored is whole and was not altered.

    All sessions, or SESSION (an id, an IRI or a label) with its ancestors. The exit code is 1 where something was
    found. Whoever owns the disk can rewrite everything so that nothing is found; with --checkpoint (and --verifier, the
    log's public key) that is found too: what the checkpoint covers is as it was, but for what is then listed as changed,
    detached, deleted, brought back or redacted since. What may change of a session is its label, key, metadata, state,
    spawner, system prompts, tags, notes, signatures and entry.

    With --since, which takes a checkpoint as --checkpoint does, turns are read only of sessions of which the log tells later on:
    what somebody altered past Trails in the turns, or the ledgers, of others is not found so.

    With --witness, that many of the witnesses as --quorum says (all unless given) must have cosigned the checkpoint.
    With --timestamp and --tsa-cert, a time-stamp authority must have said that the checkpoint was there, and by when is shown.

    With --mirror, every triple that `trails mirror` brought to a SPARQL server is compared with the store instead.

    Signatures of heads (`trails proof sign`) must hold. The turns that none covers are listed, with --signers of those by these
    keys alone; with --require-signed they are findings.
    """
    if mirror is not None:
        if session is not None or any(how.values()) or cli.is_as_of():
            cli.refuse("--mirror compares a whole mirror with the store, and nothing else; leave the others out")
        with cli.open_store(reading=True) as store:
            verify_mirror(store, mirror)
        return
    with cli.open_store(reading=True) as store, cli.view.working("verifying"):
        report = store.verify(None if session is None else store.resolve(session), **how)
    answer_report(report)


def answer_report(report: trails.VerifyReport) -> None:
    """Answer with what was verified; the exit code is 1 where something was found."""
    cli.answer(report, report, cli.view.verdict)
    if not report.ok:
        cli.end(1)


@cli.command("check", store=False)
@click.argument("file", metavar="FILE", type=cli.EXISTING_FILE)
@evidence_options
@note_option("--kept", "For a proof of growth or absence: the older checkpoint, as it was kept.")
def verify_proof(*, file: Path, verifiers: list[str], kept: str | None, **demanded: Any) -> None:
    """Check a proof, without any store.

    FILE is what `trails proof make` or `trails proof absence` wrote. The exit code is 0 where the proof holds, 1 where it does
    not, 2 for wrong usage. A proof holds if the log's own key signed its checkpoint, and the checkpoint covers what is proven.
    It says nothing of whether the times and names that were recorded are true.
    """
    if not verifiers:
        cli.refuse("without the log's public key no signature can be trusted; give --verifier KEY")
    try:
        data = read_whole(file)
        shown = _verified(data, verifiers, kept) | _vouched(data, **demanded)
    except IntegrityError as wrong:
        why = str(wrong)
        cli.answer({"valid": False, "reason": why}, f"not valid: {one_line(why)}")
        cli.end(1)
    cli.answer({"valid": True} | shown, shown, _draw_proven)


def _vouched(
    data: bytes, witnesses: list[str], quorum: int | None, timestamp: bytes | None, authorities: list[str]
) -> dict[str, Any]:
    """Return who cosigned the checkpoint of a proof and by when it was there, or raise `IntegrityError`."""
    from trails.integrity.proofs import read_proof
    from trails.integrity.witnesses import check_timestamp, cosignatures

    vouched: dict[str, Any] = {}
    if witnesses:
        found = cosignatures(read_proof(data).checkpoint, witnesses, quorum=quorum)
        vouched["witnessed"] = [each.to_dict() for each in found]
    elif quorum is not None:
        cli.refuse("--quorum says how many of the witnesses must have cosigned; give --witness KEY")
    if (stamp := check_timestamp(read_proof(data).checkpoint, timestamp, authorities)) is not None:
        vouched["timestamped"] = stamp.to_dict()
    return vouched


def _draw_proven(shown: Mapping[str, Any]) -> None:
    click.echo("valid")
    said = {name.replace("_", " "): shorten(str(value), 500) for name, value in shown.items() if value is not None}
    if withheld := shown.get("withheld"):
        said["withheld"] = (
            f"{' and '.join(withheld)}: the turn has more than this proof shows, and only its digest is proven"
        )
    else:
        said.pop("withheld", None)
    cli.view.print_grid(said)


def _verified(data: bytes, verifiers: list[str], kept: str | None) -> dict[str, Any]:
    """Return what a proof proves, or raise IntegrityError where it does not hold."""
    from trails.integrity.absence_proofs import ABSENT, AbsenceProof
    from trails.integrity.proofs import ConsistencyProof, TurnProof, read_proof

    try:
        found = read_proof(data)
    except InvalidInput as wrong:  # a proof with a byte altered may be no JSON any more: it is not valid either way
        raise IntegrityError(str(wrong)) from wrong
    if isinstance(found, ConsistencyProof):
        if kept is None:
            cli.refuse("this proves growth since an older checkpoint; give the one that was kept with --kept FILE")
        state = found.verify(kept, verifiers)
        return {"proves": "growth", "log": state.origin, "old_size": found.old_size, "size": state.size}
    if isinstance(found, AbsenceProof):
        state = found.verify(verifiers, kept)
        absent = {"absent": ABSENT[found.subject], "subject": found.subject, "name": found.name}
        sizes = {
            "old_size": found.old_size,
            "size": state.size,
            "since_is": "as kept" if kept else "as the proof has it",
        }
        return {"proves": "absence", "log": state.origin} | absent | sizes
    if kept is not None:
        cli.refuse("--kept goes with a proof of growth or absence, and this is none; leave it out")
    state = found.verify(verifiers)
    if isinstance(found, TurnProof):
        return _turn_shown(found, state)
    leaf = found.leaf.decode(errors="replace")
    return {"proves": "leaf", "leaf": leaf, "leaf_index": found.index, "log": state.origin, "size": state.size}


def _turn_shown(proof: TurnProof, state: Checkpoint) -> dict[str, Any]:
    turn, said = proof.turn, proof.content
    return {
        "proves": "turn",
        "session": proof.session_id,
        "index": turn.index,
        "branch": turn.branch,
        "role": turn.role,
        "author": turn.author,
        "time": turn.time and turn.time.isoformat(),
        "content": said and said.text,
        "structured": said and said.structured,
        "facts": proof.facts or None,
        "withheld": list(proof.withheld),
        "digest": proof.digest,
        "leaf_index": proof.leaf_index,
        "log": state.origin,
        "size": state.size,
    }


@cli.command("backup")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
def backup(folder: Path) -> None:
    """Write a whole copy of the store into a new folder.

    The copy is a store: `trails store restore` brings it back. On the store's own disk it takes hardly any space or time.
    """
    with cli.open_store() as store:
        store.maintenance.backup(folder)
    cli.answer({"output": str(folder)}, None)
    cli.note(f"backed up to {folder}")


@cli.command("restore")
@click.argument("backup_folder", metavar="BACKUP", type=click.Path(exists=True, file_okay=False, path_type=Path))
@cli.option(
    "--original STORE",
    "The store that the backup is of: what it erased since is known.",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@cli.option("--with-erased", "Also where that brings back what was erased since.")
def restore_backup(backup_folder: Path, original: Path | None, with_erased: bool) -> None:
    """Make a new store from a backup, and verify it.

    The store that --store or TRAILS_STORE names must not be there yet. The exit code is 1 where something was found.

    A backup that holds what was deleted or redacted since is refused without --with-erased, where that is known: by the notice
    that the erasing store left beside the backup, or by the log of the store that --original names.
    """
    from trails.session import store_restore

    with cli.view.working("restoring"):
        report = store_restore.restore_store(
            backup_folder, cli.store_folder(), original=original, with_erased=with_erased
        )
    answer_report(report)


@cli.command("dump")
@click.argument("file", metavar="FILE", type=cli.NEW_FILE)
@cli.option("--force", "Replace the file if it is there.")
def dump(file: Path, force: bool) -> None:
    """Write everything that the store holds to a file.

    The file holds sorted N-Quads, compressed with gzip. `trails store load` makes a store of it, in this version or another.
    Equal stores give equal files. The log is not in it: only a backup can be held against older checkpoints.
    """
    if str(file) == "-":
        cli.refuse("a dump is compressed, and never written to stdout; name a file")
    cli.refuse_in_store(file)
    with cli.open_store(reading=True) as store, cli.view.progress("dumping") as progress:
        quads = store.maintenance.dump(file, replace=force, progress=progress)
    cli.answer({"output": str(file), "quads": quads}, None)
    cli.note(f"wrote {count(quads, 'quad')} to {file}")


@cli.command("load")
@click.argument("file", metavar="FILE", type=cli.EXISTING_FILE)
def load_dump(file: Path) -> None:
    """Make a new store from a dump, and verify it.

    The store that --store or TRAILS_STORE names must not be there yet, or be empty. A file that does not hold a whole,
    unaltered store leaves nothing behind.
    """
    from trails.session import store_restore

    with cli.view.progress("loading") as progress:
        report = store_restore.load_dump(file, cli.store_folder(), progress)
    answer_report(report)
