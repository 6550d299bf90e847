"""Commands for labels, tags, notes and scores."""

from __future__ import annotations

from typing import Any, Final

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import clean, one_line

_UNTIL_VACUUM: Final = "in the store's files until `trails store vacuum`, and in older backups"


@cli.command("label", by=True, json=False)
@cli.session_argument
@click.argument("label", metavar="[LABEL]", required=False)
@cli.option("--clear", "Take the label away.")
def set_label(session: str, label: str | None, clear: bool) -> None:
    """Give a session a label, or take it away with --clear.

    SESSION is an id, an IRI or the label it has. A label has up to 64 characters and belongs to one session.
    """
    if clear == (label is not None):
        cli.refuse("give either a label or --clear")
    with cli.open_store() as store:
        session_id = store.resolve(session)
        store.set_label(session_id, label)
    cli.note(f"session {session_id!r} has no label" if clear else f"session {session_id!r} is labelled {label!r}")


@cli.command("tag", by=True)
@click.argument("name", metavar="NAME", type=cli.Named("tag"))
@click.argument("ref", metavar="[REF]", required=False)
@cli.option("--remove", "Take the tag away; the turns stay, and so does a record of it.")
def tag(*, name: str, ref: str | None, remove: bool) -> None:
    """Give a session at an index a name that stays where it is.

    A tag is not moved; its name stands for something else only after --remove, which is logged. REF is a session (an
    id, an IRI or a label), which stands for all its turns, or such a name with @ and how many turns of it. Making the
    same tag again is no error. Without REF, the tag that is there is shown. A tag can stand wherever a REF can; what a
    tag names is not deleted.
    """
    if remove and ref is not None:
        cli.refuse("--remove takes the tag's name alone")
    with cli.open_store(reading=not remove and ref is None) as store:
        if remove:
            found = store.tags.remove(name)
        elif ref is None:
            found = store.tags.get(name)
        else:
            found = store.tags.add(name, ref)
    shown = f"{clean(found.session_id)}@{found.length} {found.digest[:8]}"
    cli.answer({"tag": found}, shown, said=f"tag {name!r} is removed" if remove else None)


@cli.command("tags", pager=True, as_of=True, limit=True)
@click.argument("session", metavar="[SESSION]", required=False)
def list_tags(*, session: str | None) -> None:
    """List tags by name: all, or those of one session.

    SESSION is an id, an IRI or a label.
    """
    with cli.open_store(reading=True) as store:
        every = store.tags.list(None if session is None else store.resolve(session))
    styles = {"tag": "bold yellow", "turns": "cyan"}
    draw = cli.table("tag,turns,digest,by,made (UTC)", _tag_row, fold=("turns",), styles=styles)
    cli.answer_list("tags", every, draw, "there are no tags")


def _tag_row(tag: trails.Tag) -> tuple[str, ...]:
    return tag.name, f"{tag.session_id}@{tag.length}", tag.digest[:8], tag.author, cli.view.moment(tag.time)


@cli.command("note", by=True)
@click.argument("session", metavar="[SESSION]", required=False)
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
@click.argument("text", metavar="[TEXT]", default="-")
@cli.option("--remove ID", "Take a note away for good, in place of writing one.", name="gone")
def write_note(*, session: str | None, index: int | None, text: str, gone: str | None) -> None:
    """Write a note on a turn and print the note's id.

    SESSION is an id, an IRI or a label, INDEX a turn of its transcript; TEXT is read from stdin where it is left out or
    "-". The turn itself never changes: its notes stand beside it, and are seen from every session that has the turn.
    """
    if (gone is None) == (session is None) or (gone is not None and (index is not None or text != "-")):
        cli.refuse("give SESSION, INDEX and TEXT to write a note, or --remove ID alone")
    if session is not None and index is None:
        cli.refuse("say which turn the note is on: INDEX")
    with cli.open_store() as store:
        if gone is not None:
            made = store.notes.remove(gone)
        else:
            session_id = store.resolve(session or "")
            made = store.notes.add(session_id, index or 0, cli.text_of(text))
    removed = f"the note is removed; its text is {_UNTIL_VACUUM}"
    cli.answer({"note": made}, made.id, said=None if gone is None else removed)


@cli.command("notes", pager=True, as_of=True, limit=True)
@click.argument("session", metavar="SESSION")
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
def list_notes(*, session: str, index: int | None) -> None:
    """List the notes on a session's turns, or on one of them.

    SESSION is an id, an IRI or a label. Notes on turns that it inherits are listed too.
    """
    with cli.open_store(reading=True) as store:
        session_id = store.resolve(session)
        every = store.notes.list(session_id, index)
    draw = cli.table("turn,note,by,written (UTC),text", _note_row, fold=("text",), right=("turn",))
    none = f"there are no notes on {'its turns' if index is None else f'turn {index}'}"
    cli.answer_list("notes", every, draw, none, session=session_id)


def _note_row(note: trails.Note) -> tuple[str, ...]:
    return str(note.index), note.id, note.author, cli.view.moment(note.time), one_line(note.text)


@cli.command("score", reason=True, by=True)
@click.argument("ref", metavar="[REF]", required=False)
@click.argument("name", metavar="[NAME]", required=False)
@click.argument("value", metavar="[VALUE]", required=False)
@click.argument("rest", metavar="| -- PROGRAM", nargs=-1, type=click.UNPROCESSED)
@cli.option("--all", "Let PROGRAM score all sessions.", name="every")
@cli.option("--session SESSION", "Let PROGRAM score this; may be given again.", name="sessions", multiple=True)
@cli.option("--again", "Also those that it scored before, as they stand.")
@cli.option("--workers N", "So many at a time.", type=click.IntRange(1, 64), default=1)
@cli.option("--version TEXT", "The scorer's version.")
@cli.option("--text", "VALUE is a text, also where it reads as a number.", name="as_text")
@cli.option("--remove ID", "Take a score away for good, in place of giving one.", name="gone")
def give_score(
    *,
    ref: str | None,
    name: str | None,
    value: str | None,
    rest: tuple[str, ...],
    every: bool,
    sessions: tuple[str, ...],
    version: str | None,
    as_text: bool,
    gone: str | None,
    reason: str | None,
    **how: Any,
) -> None:
    """Say what a session, a turn or a span of turns is worth.

    The score's id is printed. REF is a session by any name of it, a turn (plan#3 or plan@3) or a span of turns (plan#2:5, the end
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
            cli.refuse(
                "a program that scores goes with --by, --version, --again and --workers, and says itself what and why"
            )
        program = tuple(word for word in (ref, name, value, *rest) if word is not None)
        _score_by(program, None if every else sessions, version, **how)
        return
    if rest or how != {"again": False, "workers": 1}:
        cli.refuse(
            "a program scores --all sessions, or those named by --session: trails score --all --by NAME -- PROGRAM"
        )
    if (gone is None) == (value is None) or (gone is not None and ref is not None):
        cli.refuse("give REF, NAME and VALUE to score something, or --remove ID alone")
    if gone is not None and (as_text or version is not None or reason is not None):
        cli.refuse("--remove takes no other option than --by")
    said = None
    with cli.open_store() as store:
        if gone is not None:
            score = store.remove_score(gone)
            said = f"the score is removed; its texts are {_UNTIL_VACUUM}"
        else:
            worth = (value or "") if as_text else parse_score_value(value or "")
            score = store.score(ref or "", name or "", worth, version=version, reason=reason)
    cli.answer({"score": score}, score.id, said=said)


def _score_by(program: tuple[str, ...], sessions: tuple[str, ...] | None, version: str | None, **how: Any) -> None:
    from trails.model import validation
    from trails.replay.programs import ProgramScorer
    from trails.session import scoring

    with cli.open_store() as store, ProgramScorer(program) as scorer, cli.view.progress("scoring") as progress:
        if store.workspace.actor is None:
            cli.refuse("a program that scores needs a name: --by NAME, or agent:NAME")
        checked = None if version is None else validation.name(version, "a scorer's version")
        by = scoring.ScoredBy(None, store.workspace.who(None), checked)
        chosen = list(store) if sessions is None else sessions
        done = scoring.score_all(store.workspace, chosen, scorer, by, progress=progress, stop=scorer.stop, **how)
        wrong = scorer.finish()
    cli.answer(done, done.scores, _scores, said="\n".join([_summed(done), *map(one_line, wrong)]))
    if done.failed or wrong:
        cli.end(1)


def _summed(done: trails.Scoring) -> str:
    told = {
        "scored": done.scores,
        "scored before": done.skipped,
        "without a score": done.unscored,
        "failed": done.failed,
    }
    lines = [", ".join(f"{len(found)} {what}" for what, found in told.items() if found) or "there are no sessions"]
    return "\n".join([*lines, *(one_line(f"{each.session_id}: {each.error}") for each in done.failed)])


@cli.command("scores", pager=True, as_of=True, limit=True)
@click.argument("ref", metavar="[REF]", required=False)
@cli.option("--name NAME", "Only scores with this name.")
@cli.option("--scorer NAME", "Only those by a principal, or agent:NAME.")
@cli.option("--version TEXT", "Only those by this version of the scorer.")
@cli.option("--history", "Older ones by the same scorer in the same version, too.")
def list_scores(*, ref: str | None, name: str | None, scorer: str | None, **which: Any) -> None:
    """List scores: all, or those of a session, a turn or a span.

    REF is as for `trails score`. Scores of turns that a session inherits are listed too.
    """
    with cli.open_store(reading=True) as store:
        every = store.scores(ref, name, by=scorer, **which)
    cli.answer_list("scores", every, _scores, "there are no such scores")


def _score_row(score: trails.Score) -> tuple[str, ...]:
    value = str(score.value).lower() if isinstance(score.value, bool) else str(score.value)
    texts = map(one_line, (score.ref, score.name, value, score.by, score.version or "-"))
    return (*texts, one_line(score.reason or ""), cli.view.moment(score.time), score.id)


_scores: Final = cli.table(
    "of,name,score,by,version,reason,given (UTC),id",
    _score_row,
    main=("of", "name", "score"),
    fold=("of", "score", "reason"),
)


@cli.command("agreement")
@click.argument("name", metavar="NAME")
@click.argument("one", metavar="SCORER")
@click.argument("other", metavar="SCORER")
@cli.option("--versions LEFT RIGHT", "Only what these versions of the two scored.", nargs=2)
@cli.option("--session SESSION", "Only in this session; may be given again.", name="sessions", multiple=True)
def show_agreement(
    *, name: str, one: str, other: str, versions: tuple[str, str] | None, sessions: tuple[str, ...]
) -> None:
    """Say how far two scorers agree on what both scored under NAME.

    Texts and truth values are categories (Cohen's kappa), numbers are correlated (Pearson's r, Spearman's rho); both have
    Krippendorff's alpha. A SCORER is a principal, or agent:NAME; of each, the newest score of a thing counts.
    """
    first, second = versions or (None, None)
    with cli.open_store(reading=True) as store:
        found = store.agreement(name, one, other, left_version=first, right_version=second, sessions=sessions or None)
    cli.answer(found, clean(str(found)))
