"""Commands for refs: names that move from one place in the sessions to another."""

from __future__ import annotations

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import clean


@cli.command("ref", by=True)
@click.argument("name", metavar="NAME", type=cli.Named("tag"))
@click.argument("place", metavar="[REF]", required=False)
@cli.option("--from REF", "Move it only if it is there now; `none`: only make it.", name="expected")
@cli.option("--remove", "Take the ref away; the sessions stay, and so does a record of it.")
@cli.option("--history", "Show all its moves, the first one first.")
def ref(*, name: str, place: str | None, expected: str | None, remove: bool, history: bool) -> None:
    """Make a ref, or move it: a name for a session's turns.

    A ref stands for a session, or for the first turns of one. REF is a session (an id, an IRI or a label), whose end
    the ref follows, or such a name with @ and how many turns of it, or a tag or another ref. Without REF, the ref that
    is there is shown. A ref can stand wherever a REF can; what a ref names is not deleted. Each move stays on record.
    """
    if (place is not None) + remove + history > 1:
        cli.refuse("give one of REF, --remove and --history")
    if expected is not None and place is None:
        cli.refuse("--from goes with REF: where the ref is to be moved to")
    with cli.open_store(reading=place is None and not remove) as store:
        if history:
            draw = cli.table("move,turns,digest,by,moved (UTC)", _move_row, styles={"turns": "cyan"})
            cli.answer_list("moves", store.refs.history(name), draw, "")
            return
        if remove:
            found = store.refs.remove(name)
        elif place is None:
            found = store.refs.get(name)
        elif expected is None:
            found = store.refs.set(name, place)
        else:
            found = store.refs.set(name, place, expected=_expected(store, name, expected))
    shown = f"{clean(found.revision)}{'' if found.digest is None else ' ' + found.digest[:8]}"
    cli.answer({"ref": found}, shown, said=f"ref {name!r} is removed" if remove else None)


def _expected(store: trails.Repository, name: str, expected: str) -> trails.Ref | None:
    """Return the ref as it is if it is where it is expected; raise `HeadConflict` where it is elsewhere."""
    if expected == "none":
        return None
    from trails.history.lookup import names

    found, wanted = store.refs.get(name), names.parse_revision(store.workspace, expected)
    if (found.session_id, found.at) != (wanted.session_id, wanted.end):
        raise trails.HeadConflict(
            f"the ref {name!r} is at {found.revision!r}, not at {expected!r}; nothing was written",
            expected=expected,
            actual=found.revision,
        )
    return found


@cli.command("refs", pager=True, as_of=True, limit=True)
@click.argument("session", metavar="[SESSION]", required=False)
def list_refs(*, session: str | None) -> None:
    """List refs by name: all, or those that stand for one session.

    SESSION is an id, an IRI or a label.
    """
    with cli.open_store(reading=True) as store:
        every = store.refs.list(None if session is None else store.resolve(session))
    styles = {"ref": "bold yellow", "turns": "cyan"}
    draw = cli.table("ref,turns,digest,moves,by,moved (UTC)", _ref_row, fold=("turns",), styles=styles)
    cli.answer_list("refs", every, draw, "there are no refs")


def _ref_row(ref: trails.Ref) -> tuple[str, ...]:
    digest = "" if ref.digest is None else ref.digest[:8]
    return ref.name, ref.revision, digest, f"{ref.moves}", ref.author, cli.view.moment(ref.time)


def _move_row(move: trails.RefMove) -> tuple[str, ...]:
    digest = "" if move.digest is None else move.digest[:8]
    return f"{move.number}", move.revision, digest, move.author, cli.view.moment(move.time)
