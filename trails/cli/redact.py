"""The command that takes texts out for good: redact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trails.cli.base import (
    IN_OLDER_COPIES,
    answer,
    by_option,
    command,
    confirmed,
    echo_each,
    end,
    json_option,
    note,
    open_store,
    read_stdin,
    reason_option,
    refuse,
    yes_option,
)
from trails.cli.terminal import count, one_line

if TYPE_CHECKING:
    from trails.plumbing.redaction import Redaction
    from trails.plumbing.taking import Place


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
