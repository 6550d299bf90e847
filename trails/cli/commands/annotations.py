"""Commands for labels, tags, notes and scores.

Commands that give names to sessions, and to a session at an index: label, tag, tags.

Commands about notes on turns: note, notes.

Commands about scores: score, scores, agreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trails.cli.options import (
    Named,
    answer,
    as_of_option,
    by_option,
    command,
    end,
    first_of,
    json_option,
    left_out,
    limit_option,
    note,
    open_store,
    read_stdin,
    reason_option,
    refuse,
    session_argument,
)
from trails.cli.terminal import clean, one_line

if TYPE_CHECKING:
    from trails.model.values import Note, Tag
    from trails.rdf.score_records import Score
    from trails.session.scoring import Scoring


@command("label")
@session_argument
@click.argument("label", metavar="[LABEL]", required=False)
@click.option("--clear", is_flag=True, help="Take the label away.")
@by_option
def set_label(session: str, label: str | None, clear: bool) -> None:
    """Give a session a label, or take it away with --clear.

    SESSION is an id, an IRI or the label it has. A label has up to 64 characters and belongs to one session.
    """
    if clear == (label is not None):
        refuse("give either a label or --clear")
    with open_store() as store:
        session_id = store.resolve(session)
        store.set_label(session_id, label)
    note(f"session {session_id!r} has no label" if clear else f"session {session_id!r} is labelled {label!r}")


@command("tag")
@click.argument("name", metavar="NAME", type=Named("tag"))
@click.argument("ref", metavar="[REF]", required=False)
@click.option("--remove", is_flag=True, help="Take the tag away; the turns stay, and so does a record of it.")
@by_option
@json_option
def tag(*, name: str, ref: str | None, remove: bool, as_json: bool) -> None:
    """Give a session at an index a name that stays where it is.

    A tag is not moved; its name stands for something else only after --remove, which is logged. REF is a session (an
    id, an IRI or a label), which stands for all its turns, or such a name with @ and how many turns of it. Making the
    same tag again is no error. Without REF, the tag that is there is shown. A tag can stand wherever a REF can; what a
    tag names is not deleted.
    """
    if remove and ref is not None:
        refuse("--remove takes the tag's name alone")
    with open_store() as store:
        if remove:
            found = store.tags.remove(name)
        elif ref is None:
            found = store.tags.get(name)
        else:
            found = store.tags.add(name, ref)
    shown = f"{clean(found.session_id)}@{found.length} {found.digest[:8]}"
    said = f"tag {name!r} is removed" if remove else None
    answer({"tag": found}, shown, click.echo, said=said, as_json=as_json)


@command("tags", pager=True)
@click.argument("session", metavar="[SESSION]", required=False)
@limit_option(None, most=1_000_000)
@as_of_option
@json_option
def list_tags(*, session: str | None, limit: int | None, as_json: bool) -> None:
    """List tags by name: all, or those of one session.

    SESSION is an id, an IRI or a label.
    """
    with open_store(reading=True) as store:
        every = store.tags.list(None if session is None else store.resolve(session))
    found, more = first_of(every, limit)
    value, said = {"tags": found, "more": more}, left_out(len(found), more)
    answer(value, found, _draw_tags, empty="there are no tags", said=said, as_json=as_json)


def _draw_tags(found: Sequence[Tag]) -> None:
    from rich.text import Text

    from trails.cli import drawing

    made = drawing.table("tag", "turns", "digest", "by", "made (UTC)", fold=("turns",))
    for each in found:
        place = f"{clean(each.session_id)}@{each.length}"
        made.add_row(
            Text(clean(each.name), style="bold yellow"),
            Text(place, style="cyan"),
            each.digest[:8],
            Text(clean(each.author)),
            drawing.moment(each.time),
        )
    drawing.screen().print(made)


@command("note")
@click.argument("session", metavar="[SESSION]", required=False)
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
@click.argument("text", metavar="[TEXT]", default="-")
@click.option("--remove", "gone", metavar="ID", help="Take a note away for good, in place of writing one.")
@by_option
@json_option
def write_note(*, session: str | None, index: int | None, text: str, gone: str | None, as_json: bool) -> None:
    """Write a note on a turn and print the note's id.

    SESSION is an id, an IRI or a label, INDEX a turn of its transcript; TEXT is read from stdin where it is left out or
    "-". The turn itself never changes: its notes stand beside it, and are seen from every session that has the turn.
    """
    if (gone is None) == (session is None) or (gone is not None and (index is not None or text != "-")):
        refuse("give SESSION, INDEX and TEXT to write a note, or --remove ID alone")
    if session is not None and index is None:
        refuse("say which turn the note is on: INDEX")
    with open_store() as store:
        if gone is not None:
            made = store.notes.remove(gone)
        else:
            session_id = store.resolve(session or "")
            made = store.notes.add(session_id, index or 0, read_stdin() if text == "-" else text)
    removed = "the note is removed; its text is in the store's files until `trails store vacuum`, and in older backups"
    answer({"note": made}, made.id, click.echo, said=None if gone is None else removed, as_json=as_json)


@command("notes", pager=True)
@click.argument("session", metavar="SESSION")
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
@limit_option(None, most=1_000_000)
@as_of_option
@json_option
def list_notes(*, session: str, index: int | None, limit: int | None, as_json: bool) -> None:
    """List the notes on a session's turns, or on one of them.

    SESSION is an id, an IRI or a label. Notes on turns that it inherits are listed too.
    """
    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        every = store.notes.list(session_id, index)
    found, more = first_of(every, limit)
    value = {"session": session_id, "notes": found, "more": more}
    none = f"there are no notes on {'its turns' if index is None else f'turn {index}'}"
    answer(value, found, _draw_notes, empty=none, said=left_out(len(found), more), as_json=as_json)


def _draw_notes(found: Sequence[Note]) -> None:
    from trails.cli import drawing

    columns = ("turn", "note", "by", "written (UTC)", "text")
    rows = [(str(n.index), n.id, n.author, drawing.moment(n.time), one_line(n.text)) for n in found]
    drawing.print_table(columns, rows, fold=("text",), right=("turn",))


@command("score")
@click.argument("ref", metavar="[REF]", required=False)
@click.argument("name", metavar="[NAME]", required=False)
@click.argument("value", metavar="[VALUE]", required=False)
@click.argument("rest", metavar="| -- PROGRAM", nargs=-1, type=click.UNPROCESSED)
@click.option("--all", "every", is_flag=True, help="Let PROGRAM score all sessions.")
@click.option(
    "--session", "sessions", multiple=True, metavar="SESSION", help="Let PROGRAM score this; may be given again."
)
@click.option("--again", is_flag=True, help="Also those that it scored before, as they stand.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N", help="So many at a time."
)
@click.option("--version", metavar="TEXT", help="The scorer's version.")
@click.option("--text", "as_text", is_flag=True, help="VALUE is a text, also where it reads as a number.")
@click.option("--remove", "gone", metavar="ID", help="Take a score away for good, in place of giving one.")
@reason_option
@by_option
@json_option
def give_score(
    *,
    ref: str | None,
    name: str | None,
    value: str | None,
    rest: tuple[str, ...],
    every: bool,
    sessions: tuple[str, ...],
    again: bool,
    workers: int,
    version: str | None,
    as_text: bool,
    gone: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Say what a session, a turn or a span of turns is worth.

    The score's id is printed. REF is a session by any name of it, a turn (plan#3) or a span of turns (plan#2:5, the end
    left out). VALUE is a number, true, false or a text, such as a category; put -- before a negative one. The scorer is
    who does it (--by).

    A score never changes: of several by one scorer in one version, the newest counts.

    With --all, or --session, PROGRAM scores sessions: of each it reads a line of JSON (session, label, turns), and answers
    with one: {"name": "accuracy", "value": 0.5, "reason": "..."}, or {}. With "session" in the answer it is refused for
    another one. It needs --by. What that scorer in that version scored as it stands is skipped, so the same command goes on
    where one was cut short. Where it fails on some, writes more than it was asked for or ends with another code than 0,
    the exit code is 1.
    """
    from trails.session.scoring import parse_score_value

    if every or sessions:
        if gone is not None or as_text or reason is not None:
            refuse(
                "a program that scores goes with --by, --version, --again and --workers, and says itself what and why"
            )
        program = tuple(word for word in (ref, name, value, *rest) if word is not None)
        _score_by(
            program, sessions if not every else None, version=version, again=again, workers=workers, as_json=as_json
        )
        return
    if rest or again or workers != 1:
        refuse("a program scores --all sessions, or those named by --session: trails score --all --by NAME -- PROGRAM")
    if (gone is None) == (value is None) or (gone is not None and ref is not None):
        refuse("give REF, NAME and VALUE to score something, or --remove ID alone")
    if gone is not None and (as_text or version is not None or reason is not None):
        refuse("--remove takes no other option than --by")
    with open_store() as store:
        if gone is not None:
            made = store.remove_score(gone)
        else:
            worth = (value or "") if as_text else parse_score_value(value or "")
            made = store.score(ref or "", name or "", worth, version=version, reason=reason)
    removed = (
        "the score is removed; its texts are in the store's files until `trails store vacuum`, and in older backups"
    )
    answer({"score": made}, made.id, click.echo, said=None if gone is None else removed, as_json=as_json)


def _score_by(
    program: tuple[str, ...],
    sessions: tuple[str, ...] | None,
    *,
    version: str | None,
    again: bool,
    workers: int,
    as_json: bool,
) -> None:
    from trails.cli import drawing
    from trails.model import validation
    from trails.replay.programs import ProgramScorer
    from trails.session import scoring

    with open_store() as store, ProgramScorer(program) as scorer, drawing.progress("scoring") as progress:
        if store.workspace.actor is None:
            refuse("a program that scores needs a name: --by NAME, or agent:NAME")
        said = None if version is None else validation.name(version, "a scorer's version")
        by = scoring.ScoredBy(None, store.workspace.who(None), said)
        chosen = list(store) if sessions is None else sessions
        done = scoring.score_all(
            store.workspace, chosen, scorer, by, workers=workers, again=again, progress=progress, stop=scorer.stop
        )
        wrong = scorer.finish()
    answer(done, done.scores, _draw, said="\n".join([_summed(done), *map(one_line, wrong)]), as_json=as_json)
    if done.failed or wrong:
        end(1)


def _summed(done: Scoring) -> str:
    told = {
        "scored": done.scores,
        "scored before": done.skipped,
        "without a score": done.unscored,
        "failed": done.failed,
    }
    lines = [", ".join(f"{len(found)} {what}" for what, found in told.items() if found) or "there are no sessions"]
    return "\n".join([*lines, *(one_line(f"{each.session_id}: {each.error}") for each in done.failed)])


@command("scores", pager=True)
@click.argument("ref", metavar="[REF]", required=False)
@click.option("--name", metavar="NAME", help="Only scores with this name.")
@click.option("--scorer", metavar="NAME", help="Only those by a principal, or agent:NAME.")
@click.option("--version", metavar="TEXT", help="Only those by this version of the scorer.")
@click.option("--history", is_flag=True, help="Older ones by the same scorer in the same version, too.")
@limit_option(None, most=1_000_000)
@as_of_option
@json_option
def list_scores(
    *,
    ref: str | None,
    name: str | None,
    scorer: str | None,
    version: str | None,
    history: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    """List scores: all, or those of a session, a turn or a span.

    REF is as for `trails score`. Scores of turns that a session inherits are listed too.
    """
    with open_store(reading=True) as store:
        every = store.scores(ref, name, by=scorer, version=version, history=history)
    found, more = first_of(every, limit)
    value = {"scores": found, "more": more}
    answer(value, found, _draw, empty="there are no such scores", said=left_out(len(found), more), as_json=as_json)


def _draw(found: Sequence[Score]) -> None:
    from trails.cli import drawing

    columns = ("of", "name", "score", "by", "version", "id", "given (UTC)", "reason")
    rows = [
        (
            one_line(s.ref), one_line(s.name), one_line(shown(s.value)), one_line(s.by), one_line(s.version or "-"), s.id,
            drawing.moment(s.time), one_line(s.reason or ""),
        )
        for s in found
    ]  # fmt: skip
    drawing.print_table(columns, rows, fold=("reason", "score"))


def shown(value: float | str) -> str:
    """Return a score's value as people read it.

    >>> shown(0.25), shown(True), shown("good")
    ('0.25', 'true', 'good')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


@command("agreement")
@click.argument("name", metavar="NAME")
@click.argument("one", metavar="SCORER")
@click.argument("other", metavar="SCORER")
@click.option("--versions", nargs=2, metavar="LEFT RIGHT", help="Only what these versions of the two scored.")
@click.option(
    "--session", "sessions", multiple=True, metavar="SESSION", help="Only in this session; may be given again."
)
@json_option
def show_agreement(
    *, name: str, one: str, other: str, versions: tuple[str, str] | None, sessions: tuple[str, ...], as_json: bool
) -> None:
    """Say how far two scorers agree on what both scored under NAME.

    Texts and truth values are categories (Cohen's kappa), numbers are correlated (Pearson's r, Spearman's rho); both have
    Krippendorff's alpha. A SCORER is a principal, or agent:NAME; of each, the newest score of a thing counts.
    """
    first, second = versions or (None, None)
    with open_store(reading=True) as store:
        found = store.agreement(name, one, other, left_version=first, right_version=second, sessions=sessions or None)
    answer(found, found, lambda shown: click.echo(clean(str(shown))), as_json=as_json)
