"""Commands that create, change, redact and delete sessions."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

import trails
from trails import files
from trails.cli import options as cli
from trails.display.terminal_text import clean, count, one_line

if TYPE_CHECKING:
    from trails.history.removal.redaction import Redaction
    from trails.integrity.erasure_receipts import ErasureReceipt
    from trails.secrets import Found

_UNTIL_VACUUM: Final = f"the text is in the store's files until `trails store vacuum`; {cli.IN_OLDER_COPIES}"
_dry_run = cli.option("--dry-run", "Only show what would happen, and write nothing.")


# --- make, extend and fork


@cli.command("create", by=True)
@cli.id_option
@cli.label_option
@cli.option("--principal NAME", "Whom it runs for.")
@cli.option("--agent NAME", "What runs it.")
@cli.option("--system TEXT", "Its system prompt.")
@cli.meta_option
def create(**facts: Any) -> None:
    """Create a session without turns and print its id."""
    with cli.open_store() as store:
        session = store.create(**facts)
        session.persist()
    cli.answer({"session": session.record}, session.id)


@cli.command("append")
@cli.session_argument
@click.argument("role", metavar="ROLE")
@click.argument("text", metavar="[TEXT]", default="-")
@cli.option("--author NAME", "Who says it: a principal's name, or agent:NAME.")
@cli.option("--model NAME", "The model that generated it.")
@cli.option("--files DIR", "Say with it how the files in a folder differ from those recorded.", name="folder",
            type=click.Path(exists=True, file_okay=False, path_type=Path))  # fmt: skip
def append(*, session: str, role: str, text: str, folder: Path | None, **facts: Any) -> None:
    """Append a turn to a session and print its index.

    SESSION is an id, an IRI or a label. TEXT is read from stdin if it is left out or "-". What is in the folder of --files
    before any turn has recorded a file is nobody's; later changes are the turn's. What is left out is said on stderr.
    """
    with cli.open_store() as store:
        loaded = store.load(store.resolve(session))
        if folder is not None:
            facts["files"] = found = loaded.files.changes(folder)
            for each in found.left_out:
                cli.note(f"left out: {one_line(each.path)} {each.reason}")
        turn = loaded.append(role, cli.text_of(text), **facts)
        loaded.persist()
    said = f"{loaded.label or loaded.id} has {count(len(loaded), 'turn')}, head {turn.digest[:8]}"
    cli.answer({"turn": turn}, turn.index, said=said)


@cli.command("fork", by=True)
@click.argument("ref", metavar="REF")
@cli.option("--at INDEX", "Share the turns below this index; default: all of REF.", type=click.IntRange(min=0))
@cli.id_option
@cli.label_option
@cli.option("--principal NAME", "Whom it runs for; default: as its parent.")
@cli.meta_option
def fork(*, ref: str, at: int | None, **facts: Any) -> None:
    """Fork a session at an index and print the fork's id.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it. The fork shares
    the turns below INDEX and copies none; what it appends is its own.
    """
    with cli.open_store() as store:
        place = cli.place_of(store, ref)
        if at is not None and place.end is not None and at > place.end:
            cli.refuse(f"{ref!r} has {count(place.end, 'turn')}, so it cannot be forked at {at}")
        made = store.load(place.session_id).fork(place.end if at is None else at, **facts)
        made.persist()
    said = f"it shares {count(len(made), 'turn')} with {made.parent_session_id}"
    cli.answer({"session": made.record}, made.id, said=said)


@cli.command("detach", by=True, json=False)
@cli.session_argument
def detach(session: str) -> None:
    """Make a fork independent of its parent.

    SESSION is an id, an IRI or a label. What it inherits is copied into it; its head and its own forks stay as they
    are. A session that is no fork is left alone.
    """
    with cli.open_store() as store:
        session_id = store.resolve(session)
        parent = store.record(session_id).parent_session_id
        store.detach(session_id)
    cli.note(f"session {session_id!r} " + ("was no fork" if parent is None else f"no longer needs {parent!r}"))


@cli.command("flatten", by=True)
@cli.session_argument
@cli.id_option
@cli.label_option
def flatten(session: str, **names: Any) -> None:
    """Copy a transcript into a new root session and print its id.

    SESSION is an id, an IRI or a label; it stays as it is.
    """
    with cli.open_store() as store:
        made = store.flatten(store.resolve(session), **names)
    cli.answer({"session": made.record}, made.id, said=f"it holds a copy of {count(len(made), 'turn')}")


@cli.command("cherry-pick", by=True)
@click.argument("turns", metavar="SOURCE@TURNS")
@cli.option("--onto SESSION", "The session that gets the turns at its end.", required=True)
@cli.option("--whole-calls", "Pick the calls and answers too that belong to the turns.")
def cherry_pick(*, turns: str, onto: str, whole_calls: bool) -> None:
    """Repeat turns of one session at the end of another.

    The new turns say what they were quoted from. SOURCE and SESSION are ids, IRIs or labels; SOURCE may be a tag. TURNS
    is an index (3), a range with its end left out (2:5), or several in ascending order (1,3:5). A tool call and its
    answer are picked together or not at all. Prints the indices of the new turns.
    """
    from trails.history.lookup.names import split_turns

    name, wanted = split_turns(turns)
    if not cli.looks_like_turns(wanted):
        cli.refuse(
            f"{turns!r} says not which turns: write an index (SOURCE@3), a range with its end left out (SOURCE@2:5) or both"
        )
    with cli.open_store() as store:
        place = cli.place_of(store, name)
        source, target = store.load(place.session_id), store.load(store.resolve(onto))
        indexes = cli.indexes(wanted, len(source) if place.end is None else place.end)
        picked = target.cherry_pick(source, indexes, whole_calls=whole_calls)
        target.persist()
    said = f"{count(len(picked), 'turn')} of {source.label or source.id} repeated at the end of {target.label or target.id}"
    cli.answer({"session": target.id, "turns": picked}, [turn.index for turn in picked], said=said)


@cli.command("take", by=True)
@click.argument("parent", metavar="SESSION")
@click.argument("fork", metavar="FORK")
@cli.option("--summary TEXT", "What the turn says; default: the fork's last answer.")
@cli.option("--summary-from FILE", "A file with it; - is stdin.", type=click.File("r", encoding="utf-8"))
@cli.option("--role ROLE", "In which role the turn stands.", default="user")
@_dry_run
def take(
    *, parent: str, fork: str, summary: str | None, summary_from: IO[str] | None, role: str, dry_run: bool
) -> None:
    """Bring the outcome of a fork back as one turn.

    SESSION and FORK are ids, IRIs or labels. The turn stands at SESSION's end, says what came of FORK, and was derived
    from its head: `trails log` and `trails show` mark it. FORK stays as it is. If SESSION or FORK goes on meanwhile,
    nothing is written.
    """
    from trails.model import content_parts

    if summary is not None and summary_from is not None:
        cli.refuse("--summary and --summary-from say the same; give one of them")
    if summary_from is not None:
        try:
            summary = summary_from.read()
        except UnicodeDecodeError:
            cli.refuse("the summary is no UTF-8 text")
    with cli.open_store() as store:
        session = store.load(store.resolve(parent))
        turn = session.take(store.resolve(fork), summary, role=role, dry_run=dry_run)
        name = session.label or session.id
    said = f"turn {turn.index} of {name} {'would be ' if dry_run else ''}stored"
    value = {"session": session.id, "stored": not dry_run, "turn": turn}
    cli.answer(value, clean(content_parts.plain_text(turn.content)), said=said)


# --- delete

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES: Final = {"": 1, "b": 1} | {
    f"{prefix}{unit}": size**power
    for power, prefix in enumerate("kmgt", 1)
    for unit, size in (("b", 1000), ("ib", 1024))
}


def _amount(units: dict[str, int], digits: int, otherwise: str) -> Any:
    """Return the callback of an option that is a number with a unit."""

    def parse(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
        amount = re.fullmatch(rf"([0-9]{{1,{digits}}})([A-Za-z]*)", value or "")
        if value is not None and (amount is None or amount[2].lower() not in units):
            raise click.BadParameter(f"{value!r} is no {otherwise}", ctx, parameter)
        return None if amount is None else int(amount[1]) * units[amount[2].lower()]

    return parse


age_of = _amount(_SECONDS, 6, "age; write 90d, 12h, 30m, 45s or 8w")
_size = _amount(_BYTES, 15, "size; write 500MB, 1GB, 2GiB or a number of bytes")


@cli.command("prune", by=True, reason=True, yes=True)
@cli.option("--older-than AGE", "Delete sessions unused for longer: 90d, 12h, 8w.", callback=age_of)
@cli.option("--keep-count N", "Delete the oldest until N are left.", type=click.IntRange(min=0))
@cli.option("--keep-size SIZE", "Delete the oldest until their text fits: 1GB.", callback=_size)
@cli.option("--expired", "Delete sessions whose time to live is over.")
@cli.option("--meta NAME=VALUE", "Delete only sessions of which this is noted; may be repeated.", multiple=True)
@cli.option("--dry-run", "Only say what would be deleted.")
def prune(
    *,
    older_than: int | None,
    keep_count: int | None,
    keep_size: int | None,
    expired: bool,
    meta: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    reason: str | None,
) -> None:
    """Delete sessions that nobody uses any more; print their ids.

    A session's age is that of its last turn. One that others depend on stays while they do; tombstones stay, as with
    `trails delete`. At least one limit is needed, or --meta, with which all such sessions are deleted; all limits that are
    given are kept. It asks first on a terminal; elsewhere
    it needs --yes or --dry-run.
    """
    facts = dict(cli.pairs(meta, "--meta")) or None
    if not (expired or facts) and older_than is keep_count is keep_size is None:
        cli.refuse("say what may go: --older-than, --keep-count, --keep-size, --expired or --meta")
    age = None if older_than is None else timedelta(seconds=older_than)
    limits: Any = {"older_than": age, "keep_count": keep_count, "keep_bytes": keep_size, "reason": reason}
    limits |= {"expired": expired, "meta": facts}
    with cli.open_store(reading=dry_run) as store:
        if not dry_run and not yes and (doomed := len(store.prune(dry_run=True, **limits).sessions)):
            cli.confirm(f"Delete {count(doomed, 'session')}?", "pruning", "nothing was deleted")
        report = store.prune(dry_run=dry_run, **limits)
        if not dry_run:
            _note_backups(store)
    cli.answer(report, map(one_line, report.sessions))
    done = "would be deleted" if dry_run else "deleted"
    cli.note(f"{count(len(report.sessions), 'session')} {done}, with {report.text_bytes:,} bytes of text")
    if report.held:
        cli.note(f"kept by a legal hold: {count(len(report.held), 'session')}")
    if report.needed:
        kept = count(len(report.needed), "session")
        cli.note(f"kept all the same, as others depend on them or tags name them: {kept}")
    if report.sessions and not dry_run:
        cli.note(_UNTIL_VACUUM)


@cli.command("delete", by=True, reason=True, yes=True, json=False)
@cli.session_argument
@cli.option(
    "--children",
    "What to do with sessions that depend on it: refuse, delete them too, or make its forks independent first.",
    type=click.Choice(["refuse", "cascade", "detach"]),
    default="refuse",
)
def delete(*, session: str, children: Any, reason: str | None, yes: bool) -> None:
    """Delete a session; print the ids of all that were deleted.

    SESSION is an id, an IRI or a label. A tombstone stays. A session that a tag names is kept, unless --children
    cascade takes the tag too. It asks first on a terminal; elsewhere it needs --yes.
    """

    with cli.open_store() as store:
        session_id = store.resolve(session, exact=True)
        if not yes:
            below = {child for child, _ in store.reader.dependants(session_id)} if children == "cascade" else set()
            also = f" and the {count(len(below), 'session')} that depend on it" if below else ""
            cli.confirm(f"Delete session {session_id!r}{also}?", "deleting", "nothing was deleted")
        try:
            deleted = store.delete(session_id, children=children, reason=reason)
        except trails.HasChildren as error:
            raise trails.HasChildren(re.sub(r'children="(\w+)"', r"--children \1", f"{error}")) from error
    cli.echo_each(deleted)


# --- redact


@cli.command("redact", by=True, reason=True, yes=True)
@click.argument("session", metavar="[SESSION]", required=False)
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
@cli.option("--matching TEXT", "Remove this text wherever it stands; - reads it from stdin.")
@cli.option("--dry-run", "With --matching: list where it stands and change nothing.")
def redact(*, session: str | None, index: int | None, matching: str | None, dry_run: bool, **how: Any) -> None:
    """Remove a turn's content, or a text wherever it is, for good.

    Each place is printed. SESSION is an id, an IRI or a label, INDEX a turn of its transcript. All copies of the
    turn are redacted too, tool calls lose their arguments and the turn its metadata; its digest stays, and `trails
    verify` still succeeds. Turns that may repeat the text are named on stderr.

    With --matching there is neither: the text is removed from turns, names, prompts, metadata, labels, tags, notes,
    keys, ledgers and runs. Printed are the session, the kind of place and its index or number. A value that holds the
    text is removed whole. A place that must keep it (ids of sessions and runs) is named on stderr, and the exit status
    is 1.

    It asks first on a terminal; elsewhere it needs --yes.
    """
    if matching is not None:
        if session is not None:
            cli.refuse("--matching looks everywhere: leave out SESSION and INDEX")
        text = cli.text_of(matching).removesuffix("\n") if matching == "-" else matching
        _redact_text(text, dry_run=dry_run, **how)
        return
    if session is None or index is None:
        cli.refuse("name a SESSION and the INDEX of a turn, or a text with --matching")
    if dry_run:
        cli.refuse("--dry-run goes with --matching")
    _redact_turn(session, index, **how)


def _note_backups(store: trails.Repository) -> None:
    """Say which backups hold what was erased."""
    for state in store.registers.backups(holding_erased=True):
        cli.note(
            f"the backup {state.backup.token} at {one_line(state.backup.place)} still holds what was erased; destroy it, and "
            f"say so: `trails register destroyed {state.backup.token}`"
        )


@cli.command("erase", by=True, reason=True, yes=True)
@cli.session_argument
@click.argument("index", metavar="INDEX", type=click.IntRange(min=0))
@cli.option(
    "--near SHARE", "Share of a text that a near copy repeats.", type=click.FloatRange(0, 1, min_open=True), default=0.6
)
@cli.option("--dry-run", "Only list the turns that would go.")
@cli.option("--key FILE", "Sign the receipt with the log's secret key.", type=cli.EXISTING_FILE)
@cli.option("-o --output FILE", "Write the receipt to a new file.", type=cli.NEW_FILE)
def erase(
    *,
    session: str,
    index: int,
    near: float,
    dry_run: bool,
    key: Path | None,
    output: Path | None,
    reason: str | None,
    yes: bool,
) -> None:
    """Redact a turn and what was made from it, for good.

    SESSION is an id, an IRI or a label, INDEX a turn of its transcript. Copies go, summaries that stand for the turn, quotes
    of it, and near copies: each turn is printed, and why. The receipt names these and the backups and exports on record that
    may still hold the text, and no content. `trails proof receipt` checks it. With --key it is a signed note, or where FILE
    ends in .dsse an in-toto statement in a DSSE envelope.

    It asks first on a terminal; elsewhere it needs --yes or --dry-run.
    """
    in_envelope = output is not None and output.suffix == ".dsse"
    if in_envelope and key is None:
        cli.refuse("an envelope is signed; give --key KEY, or a name that does not end in .dsse")
    with cli.open_store(reading=dry_run) as store:
        session_id = store.resolve(session, exact=True)
        if not dry_run and not yes:
            turns = len(store.erase(session_id, index, near=near, dry_run=True).turns)
            cli.confirm(f"Remove the content of {count(turns, 'turn')}, for good?", "erasing", "nothing was erased")
        signer = None if key is None else cli.read_text(key).strip()
        report = store.erase(session_id, index, near=near, dry_run=dry_run, signer=signer, reason=reason)
    if output is not None and report.receipt is not None:
        files.write_new(output, _receipt_file(report.receipt, report.signed, signer if in_envelope else None))
        cli.note(f"wrote the receipt to {output}")
    cli.answer(report, [f"{one_line(each.session_id)} {each.index} {each.why}" for each in report.turns])
    cli.note_each("may still hold the text", [f"{each.kind} {one_line(each.name)}" for each in report.unreached])
    if not dry_run:
        cli.note(_UNTIL_VACUUM)


def _receipt_file(receipt: ErasureReceipt, note: str | None, signer: str | None) -> bytes:
    """Return what is written of a receipt: with a signer an envelope by it, else the signed note, else the plain text."""
    from trails.integrity.erasure_receipts import receipt_envelope

    return (note or receipt.text()).encode() if signer is None else receipt_envelope(receipt, signer)


def _redact_turn(session: str, index: int, *, reason: str | None, yes: bool) -> None:
    with cli.open_store() as store:
        session_id = store.resolve(session, exact=True)
        question = f"Remove the content of turn {index} of session {session_id!r} and all its copies, for good?"
        if not yes:
            cli.confirm(question, "redacting", "nothing was redacted")
        report = store.redact(session_id, index, reason=reason)
        _note_backups(store)
    cli.answer(report, [f"{one_line(each)} {at}" for each, at in report.turns])
    if not report.turns:
        cli.note("it was redacted before; nothing was changed")
    _note_traces(report)
    cli.note(_UNTIL_VACUUM)


def _redact_text(text: str, *, dry_run: bool, reason: str | None, yes: bool) -> None:
    with cli.open_store(reading=dry_run) as store:
        if not dry_run and not yes:
            places = len(store.redact_matching(text, dry_run=True, reason=reason).places)
            question = f"The text stands in {count(places, 'place')} (--dry-run lists them). Remove it for good?"
            cli.confirm(question, "redacting", "nothing was redacted")
        report = store.redact_matching(text, dry_run=dry_run, reason=reason)
        if not dry_run:
            _note_backups(store)
    lines = [
        f"{one_line(each.session_id or '-')} {each.kind}" + ("" if each.index is None else f" {each.index}")
        for each in report.places
    ]
    cli.answer(report, lines)
    for each in report.left:
        cli.note(f"it cannot be taken out of the {each.kind} {one_line(each.iri)}: {each.why}")
    if not report.places:
        cli.note("the text stands nowhere that it can be taken out of; nothing was changed")
    else:
        cli.note(f"{count(len(report.places), 'place')}; nothing was changed" if dry_run else _UNTIL_VACUUM)
    if report.left:
        cli.end(1)


def _note_traces(report: Redaction) -> None:
    """Say what else was redacted, and where the text may still stand."""
    for title, refs in (("summary that may repeat it", report.summaries), ("turn that quotes it", report.quotes)):
        for each, at in refs:
            cli.note(f"{title}: {each} {at}")
    for name, ids in (("note on", report.notes), ("score of", report.scores)):
        for each in ids:
            remove = f"`trails {name.split()[0]} --remove {each}`"
            cli.note(f"{name} it, or that holds its text: {each} ({remove} takes it away)")
    for title, names in (
        ("text taken out of", report.entries),
        ("ledger's entry that quotes it", report.ledger_quotes),
        ("task taken out of the run", report.runs),
        ("run whose task or error holds it", report.run_quotes),
    ):
        for each in names:
            cli.note(f"{title}: {each}")
    for each, name in report.fields:
        cli.note(f"field taken out of the entry of session {each}: {name}")


def described(found: Found) -> str:
    """Return a finding as one line: its kind, where it stands, and no more of it than a hint."""
    session = "no session" if found.session_id is None else one_line(str(found.to_dict()["session"]))
    turn = "" if found.index is None else f", turn {found.index}"
    taken = ", taken out" if found.redacted else ""
    return f"{found.kind:<18} {session}{turn}, {one_line(found.where)}: {one_line(found.hint)}{taken}"


@cli.command("scan", pager=True)
@click.argument("session", metavar="[SESSION]", required=False)
@cli.option("--all", "Look through the whole store.", name="whole")
def find_secrets(*, session: str | None, whole: bool) -> None:
    """Look for API keys, tokens and passwords in what is stored.

    It looks through a session, or with --all through the whole store. SESSION is an id, an IRI or a label; the turns
    that it shares are looked through too. Each secret is named by its kind, session, turn and place, and never shown.
    The exit code is 1 if any is found. `trails redact` removes the content of a turn; the extra `secrets` adds
    formats to those that are known without it.
    """
    from trails.history.lookup import session_quads

    if whole == (session is not None):
        cli.refuse("name a session, or give --all")
    with cli.open_store(reading=True) as store, cli.view.progress("scanning") as progress:
        if session is not None:
            report = session_quads.scan_session(store.workspace, session)
        else:
            report = session_quads.scan_sessions(store.workspace, progress)
    found = count(len(report.found), "secret") if report.found else "no secrets"
    said = f"{found} in {count(report.sessions, 'session')}"
    cli.answer(report, map(described, report.found), said=said)
    if report.found:
        cli.end(1)
