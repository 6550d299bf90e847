"""Commands that create, change, redact and delete sessions.

Commands that make a session and add to it: create, append.

Commands about forks: fork, detach, flatten.

The command that repeats turns in another session: cherry-pick.

The command by which the outcome of a fork comes back: take.

Commands that delete sessions: delete, prune.

The command that takes texts out for good: redact.

The command that looks for secrets in what is stored: scan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Final

import click

from trails.cli.options import (
    IN_OLDER_COPIES,
    answer,
    by_option,
    command,
    confirmed,
    echo_each,
    end,
    json_option,
    meta_option,
    note,
    open_store,
    pairs,
    read_stdin,
    reason_option,
    refuse,
    session_argument,
    yes_option,
)
from trails.cli.terminal import clean, count, one_line

if TYPE_CHECKING:
    from trails.history.records.erasure import Place
    from trails.history.removal.deletion import Pruning
    from trails.history.removal.redaction import Redaction
    from trails.secrets import Found


@command("create")
@click.option("--id", "id_", metavar="ID", help="The new session's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@click.option("--principal", metavar="NAME", help="Whom it runs for.")
@click.option("--agent", metavar="NAME", help="What runs it.")
@click.option("--system", metavar="TEXT", help="Its system prompt.")
@meta_option
@by_option
@json_option
def create(
    *,
    id_: str | None,
    label: str | None,
    principal: str | None,
    agent: str | None,
    system: str | None,
    meta: tuple[str, ...],
    as_json: bool,
) -> None:
    """Create a session without turns and print its id."""
    facts = dict(pairs(meta, "--meta")) or None
    with open_store() as store:
        made = store.create(id=id_, label=label, principal=principal, agent=agent, system=system, meta=facts)
        made.persist()
    answer({"session": made.record}, made.id, click.echo, as_json=as_json)


@command("append")
@session_argument
@click.argument("role", metavar="ROLE")
@click.argument("text", metavar="[TEXT]", default="-")
@click.option("--author", metavar="NAME", help="Who says it: a principal's name, or agent:NAME.")
@click.option("--model", metavar="NAME", help="The model that generated it.")
@json_option
def append(*, session: str, role: str, text: str, author: str | None, model: str | None, as_json: bool) -> None:
    """Append a turn to a session and print its index.

    SESSION is an id, an IRI or a label. TEXT is read from stdin where it is left out or "-".
    """
    with open_store() as store:
        loaded = store.load(store.resolve(session))
        turn = loaded.append(role, read_stdin() if text == "-" else text, author=author, model=model)
        loaded.persist()
    said = f"{loaded.label or loaded.id} has {count(len(loaded), 'turn')}, head {turn.digest[:8]}"
    answer({"turn": turn}, turn.index, click.echo, said=said, as_json=as_json)


@command("fork")
@click.argument("ref", metavar="REF")
@click.option(
    "--at", type=click.IntRange(min=0), metavar="INDEX", help="Share the turns below this index; default: all of REF."
)
@click.option("--id", "id_", metavar="ID", help="The fork's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@click.option("--principal", metavar="NAME", help="Whom it runs for; default: as its parent.")
@meta_option
@by_option
@json_option
def fork(
    *,
    ref: str,
    at: int | None,
    id_: str | None,
    label: str | None,
    principal: str | None,
    meta: tuple[str, ...],
    as_json: bool,
) -> None:
    """Fork a session at an index and print the fork's id.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it. The fork shares
    the turns below INDEX and copies none; what it appends is its own.
    """
    facts = dict(pairs(meta, "--meta")) or None
    from trails.history.lookup import names

    with open_store() as store:
        place = names.parse_revision(store.workspace, ref)
        if at is not None and place.end is not None and at > place.end:
            refuse(f"{ref!r} has {count(place.end, 'turn')}, so it cannot be forked at {at}")
        made = store.load(place.session_id).fork(
            place.end if at is None else at, id=id_, label=label, principal=principal, meta=facts
        )
        made.persist()
    said = f"it shares {count(len(made), 'turn')} with {made.parent_session_id}"
    answer({"session": made.record}, made.id, click.echo, said=said, as_json=as_json)


@command("detach")
@session_argument
@by_option
def detach(session: str) -> None:
    """Make a fork independent of its parent.

    SESSION is an id, an IRI or a label. What it inherits is copied into it; its head and its own forks stay as they
    are. A session that is no fork is left alone.
    """
    with open_store() as store:
        session_id = store.resolve(session)
        parent = store.record(session_id).parent_session_id
        store.detach(session_id)
    note(
        f"session {session_id!r} was no fork"
        if parent is None
        else f"session {session_id!r} no longer needs {parent!r}"
    )


@command("flatten")
@session_argument
@click.option("--id", "id_", metavar="ID", help="The new session's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@by_option
@json_option
def flatten(session: str, id_: str | None, label: str | None, as_json: bool) -> None:
    """Copy a transcript into a new root session and print its id.

    SESSION is an id, an IRI or a label; it stays as it is.
    """
    with open_store() as store:
        made = store.flatten(store.resolve(session), id=id_, label=label)
    said = f"it holds a copy of {count(len(made), 'turn')}"
    answer({"session": made.record}, made.id, click.echo, said=said, as_json=as_json)


@command("cherry-pick")
@click.argument("turns", metavar="SOURCE@TURNS")
@click.option("--onto", metavar="SESSION", required=True, help="The session that gets the turns at its end.")
@click.option("--whole-calls", is_flag=True, help="Pick the calls and answers too that belong to the turns.")
@by_option
@json_option
def cherry_pick(*, turns: str, onto: str, whole_calls: bool, as_json: bool) -> None:
    """Repeat turns of one session at the end of another.

    The new turns say what they were quoted from. SOURCE and SESSION are ids, IRIs or labels; SOURCE may be a tag. TURNS
    is an index (3), a range with its end left out (2:5), or several in ascending order (1,3:5). A tool call and its
    answer are picked together or not at all. Prints the indices of the new turns.
    """
    from trails.cli import options
    from trails.history.lookup import names

    name, at, wanted = turns.rpartition("@")
    if not at or not name or not options.looks_like_turns(wanted):
        refuse(
            f"{turns!r} says not which turns: write an index (SOURCE@3), a range with its end left out (SOURCE@2:5) or both"
        )
    with open_store() as store:
        place = names.parse_revision(store.workspace, name)
        source, target = store.load(place.session_id), store.load(store.resolve(onto))
        indexes = options.indexes(wanted, len(source) if place.end is None else place.end)
        made = target.cherry_pick(source, indexes, whole_calls=whole_calls)
        target.persist()
    names = source.label or source.id, target.label or target.id
    said = f"{count(len(made), 'turn')} of {names[0]} repeated at the end of {names[1]}"
    indices = [turn.index for turn in made]
    answer({"session": target.id, "turns": made}, indices, echo_each, said=said, as_json=as_json)


@command("take")
@click.argument("parent", metavar="SESSION")
@click.argument("fork", metavar="FORK")
@click.option("--summary", metavar="TEXT", help="What the turn says; default: the fork's last answer.")
@click.option(
    "--summary-from", type=click.File("r", encoding="utf-8"), metavar="FILE", help="A file with it; - is stdin."
)
@click.option("--role", default="user", show_default=True, metavar="ROLE", help="In which role the turn stands.")
@click.option("--dry-run", is_flag=True, help="Show the turn, and write nothing.")
@by_option
@json_option
def take(
    *,
    parent: str,
    fork: str,
    summary: str | None,
    summary_from: IO[str] | None,
    role: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Bring the outcome of a fork back as one turn.

    SESSION and FORK are ids, IRIs or labels. The turn stands at SESSION's end, says what came of FORK, and was derived
    from its head: `trails log` and `trails show` mark it. FORK stays as it is. Where SESSION or FORK goes on meanwhile,
    nothing is written.
    """
    if summary is not None and summary_from is not None:
        refuse("--summary and --summary-from say the same; give one of them")
    from trails.model import content_parts

    text = summary
    if summary_from is not None:
        try:
            text = summary_from.read()
        except UnicodeDecodeError:
            refuse("the summary is no UTF-8 text")
    with open_store() as store:
        session = store.load(store.resolve(parent))
        turn = session.take(store.resolve(fork), text, role=role, dry_run=dry_run)
        name = session.label or session.id
    said = f"turn {turn.index} of {name} would be stored" if dry_run else f"turn {turn.index} of {name} stored"
    value = {"session": session.id, "stored": not dry_run, "turn": turn}
    answer(
        value, turn, lambda each: click.echo(clean(content_parts.plain_text(each.content))), said=said, as_json=as_json
    )


_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PREFIXES: Final = ("k", "m", "g", "t")
_BYTES: Final[dict[str, int]] = (
    {"b": 1}
    | {f"{prefix}b": int(1000**power) for power, prefix in enumerate(_PREFIXES, 1)}
    | {f"{prefix}ib": int(1024**power) for power, prefix in enumerate(_PREFIXES, 1)}
)


def _parse_age(ctx: click.Context, parameter: click.Parameter, value: str | None) -> timedelta | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", value)
    if not found:
        raise click.BadParameter(f"{value!r} is no age; write 90d, 12h, 30m, 45s or 8w", ctx, parameter)
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def _parse_size(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,15})([A-Za-z]*)", value)
    factor = _BYTES.get(found[2].lower() or "b") if found else None
    if found is None or factor is None:
        raise click.BadParameter(f"{value!r} is no size; write 500MB, 1GB, 2GiB or a number of bytes", ctx, parameter)
    return int(found[1]) * factor


@command("prune")
@click.option(
    "--older-than", metavar="AGE", callback=_parse_age, help="Delete sessions unused for longer: 90d, 12h, 8w."
)
@click.option("--keep-count", metavar="N", type=click.IntRange(min=0), help="Delete the oldest until N are left.")
@click.option("--keep-size", metavar="SIZE", callback=_parse_size, help="Delete the oldest until their text fits: 1GB.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@by_option
@reason_option
@yes_option
@json_option
def prune(
    *,
    older_than: timedelta | None,
    keep_count: int | None,
    keep_size: int | None,
    dry_run: bool,
    reason: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete sessions that nobody uses any more; print their ids.

    A session's age is that of its last turn. One that others depend on stays while they do; tombstones stay, as with
    `trails delete`. At least one limit is needed; all that are given are kept. It asks first on a terminal; elsewhere
    it needs --yes or --dry-run.
    """
    if older_than is None and keep_count is None and keep_size is None:
        refuse("say what may go: --older-than, --keep-count or --keep-size")
    with open_store(reading=dry_run) as store:

        def run(dry: bool) -> Pruning:
            return store.prune(
                older_than=older_than, keep_count=keep_count, keep_bytes=keep_size, dry_run=dry, reason=reason
            )

        if not dry_run and not yes:
            doomed = len(run(True).sessions)
            if doomed and not confirmed(f"Delete {count(doomed, 'session')}?", "pruning"):
                note("nothing was deleted")
                end(1)
        report = run(dry_run)
    answer(report, map(one_line, report.sessions), echo_each, as_json=as_json)
    done = "would go" if dry_run else "went"
    note(f"{count(len(report.sessions), 'session')} {done}, with {report.text_bytes:,} bytes of text")
    if report.needed:
        kept = count(len(report.needed), "session")
        note(f"kept all the same, as others depend on them or tags name them: {kept}")
    if report.sessions and not dry_run:
        note(f"the text is in the store's files until `trails store vacuum`; {IN_OLDER_COPIES}")


@command("delete")
@session_argument
@click.option(
    "--children",
    type=click.Choice(["refuse", "cascade", "detach"]),
    default="refuse",
    show_default=True,
    help="What to do with sessions that depend on it: refuse, delete them too, or make its forks independent first.",
)
@by_option
@reason_option
@yes_option
def delete(*, session: str, children: str, reason: str | None, yes: bool) -> None:
    """Delete a session; print the ids of all that were deleted.

    SESSION is an id, an IRI or a label. A tombstone stays. A session that a tag names is kept, unless --children
    cascade takes the tag too. It asks first on a terminal; elsewhere it needs --yes.
    """
    from trails import HasChildren

    with open_store() as store:
        session_id = store.resolve(session, exact=True)
        if not yes:
            below = {child for child, _ in store.reader.dependants(session_id)} if children == "cascade" else set()
            also = f" and the {count(len(below), 'session')} that depend on it" if below else ""
            if not confirmed(f"Delete session {session_id!r}{also}?", "deleting"):
                note("nothing was deleted")
                end(1)
        try:
            deleted: Sequence[str] = store.delete(session_id, children=children, reason=reason)  # type: ignore[arg-type] # one of the choices
        except HasChildren as error:
            advice = f"{error}".replace('children="cascade"', "--children cascade")
            raise HasChildren(advice.replace('children="detach"', "--children detach")) from error
    echo_each(deleted)


@command("redact")
@click.argument("session", metavar="[SESSION", required=False)
@click.argument("index", metavar="INDEX]", type=click.IntRange(min=0), required=False)
@click.option("--matching", metavar="TEXT", help="Take this text out wherever it stands; - reads it from stdin.")
@click.option("--dry-run", is_flag=True, help="With --matching: list where it stands and change nothing.")
@by_option
@reason_option
@yes_option
@json_option
def redact(
    *,
    session: str | None,
    index: int | None,
    matching: str | None,
    dry_run: bool,
    reason: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Take a turn's content, or a text wherever it is, out for good.

    Where that was is printed. SESSION is an id, an IRI or a label, INDEX a turn of its transcript. All copies of the
    turn are redacted too, tool calls lose their arguments and the turn its metadata; its digest stays, and `trails
    verify` goes on to hold. Turns that may repeat the text are named on stderr.

    With --matching there is neither: the text is taken out of turns, names, prompts, metadata, labels, tags, notes,
    keys, ledgers and runs. Printed are the session, the kind of place and its index or number. What holds the text goes
    whole. Where it cannot go (ids of sessions and runs) is named on stderr, and the exit status is 1.

    It asks first on a terminal; elsewhere it needs --yes.
    """
    if matching is None:
        if session is None or index is None:
            refuse("name a SESSION and the INDEX of a turn, or a text with --matching")
        if dry_run:
            refuse("--dry-run goes with --matching")
        _one_turn(session, index, reason=reason, yes=yes, as_json=as_json)
    else:
        if session is not None:
            refuse("--matching looks everywhere: leave out SESSION and INDEX")
        text = read_stdin().removesuffix("\n") if matching == "-" else matching
        _a_text(text, dry_run=dry_run, reason=reason, yes=yes, as_json=as_json)


def _one_turn(session: str, index: int, *, reason: str | None, yes: bool, as_json: bool) -> None:
    with open_store() as store:
        session_id = store.resolve(session, exact=True)
        question = f"Take the content out of turn {index} of session {session_id!r} and all its copies, for good?"
        if not yes and not confirmed(question, "redacting"):
            note("nothing was redacted")
            end(1)
        report = store.redact(session_id, index, reason=reason)
    lines = [f"{one_line(each)} {at}" for each, at in report.turns]
    answer(report, lines, echo_each, as_json=as_json)
    if not report.turns:
        note("it was redacted before; nothing was changed")
    _tell(report)
    note(f"the text is in the store's files until `trails store vacuum`; {IN_OLDER_COPIES}")


def _a_text(text: str, *, dry_run: bool, reason: str | None, yes: bool, as_json: bool) -> None:
    with open_store(reading=dry_run) as store:
        if not dry_run and not yes:
            found = len(store.redact_matching(text, dry_run=True, reason=reason).places)
            question = f"The text stands in {count(found, 'place')} (--dry-run lists them). Take it out for good?"
            if not confirmed(question, "redacting"):
                note("nothing was redacted")
                end(1)
        report = store.redact_matching(text, dry_run=dry_run, reason=reason)
    answer(report, [_place_line(each) for each in report.places], echo_each, as_json=as_json)
    for each in report.left:
        note(f"it cannot be taken out of the {each.kind} {one_line(each.iri)}: {each.why}")
    if not report.places:
        note("the text stands nowhere that it can be taken out of; nothing was changed")
    elif dry_run:
        note(f"{count(len(report.places), 'place')}; nothing was changed")
    else:
        note(f"the text is in the store's files until `trails store vacuum`; {IN_OLDER_COPIES}")
    if report.left:
        end(1)


def _place_line(place: Place) -> str:
    at = "" if place.index is None else f" {place.index}"
    return f"{one_line(place.session_id or '-')} {place.kind}{at}"


def _tell(report: Redaction) -> None:
    """Say what went with a redaction, and where the text may still stand."""
    for title, refs in (("summary that may repeat it", report.summaries), ("turn that quotes it", report.quotes)):
        for each, at in refs:
            note(f"{title}: {each} {at}")
    for each in report.notes:
        note(f"note on it, or that holds its text: {each} (`trails note --remove {each}` takes it away)")
    for each in report.scores:
        note(f"score of it, or that holds its text: {each} (`trails score --remove {each}` takes it away)")
    for title, names in (
        ("text taken out of", report.entries),
        ("ledger's entry that quotes it", report.ledger_quotes),
        ("task taken out of the run", report.runs),
        ("run whose task or error holds it", report.run_quotes),
    ):
        for each in names:
            note(f"{title}: {each}")
    for each, name in report.fields:
        note(f"field taken out of the entry of session {each}: {name}")


def described(found: Found) -> str:
    """Return a finding as one line: its kind, where it stands, and no more of it than a hint."""
    session = "no session" if found.session_id is None else one_line(str(found.to_dict()["session"]))
    turn = "" if found.index is None else f", turn {found.index}"
    taken = ", taken out" if found.redacted else ""
    return f"{found.kind:<18} {session}{turn}, {one_line(found.where)}: {one_line(found.hint)}{taken}"


@command("scan", pager=True)
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--all", "whole", is_flag=True, help="Look through the whole store.")
@json_option
def find_secrets(*, session: str | None, whole: bool, as_json: bool) -> None:
    """Look for API keys, tokens and passwords in what is stored.

    It looks through a session, or with --all through the whole store. SESSION is an id, an IRI or a label; the turns
    that it shares are looked through too. Each secret is named by its kind, session, turn and place, and never shown.
    The exit code is 1 where any is found. `trails redact` takes the content of a turn out; the extra `secrets` adds
    formats to those that are known without it.
    """
    from trails.cli import drawing
    from trails.history.lookup import session_quads

    if whole == (session is not None):
        refuse("name a session, or give --all")
    with open_store(reading=True) as store:
        if session is not None:
            report = session_quads.scan_session(store.workspace, session)
        else:
            with drawing.progress("scanning") as progress:
                report = session_quads.scan_sessions(store.workspace, progress)
    found = count(len(report.found), "secret") if report.found else "no secrets"
    said = f"{found} in {count(report.sessions, 'session')}"
    answer(report, map(described, report.found), echo_each, said=said, as_json=as_json)
    if report.found:
        end(1)
