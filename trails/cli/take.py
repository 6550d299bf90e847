"""The command by which the outcome of a fork comes back: take."""

from __future__ import annotations

from typing import IO

import click

from trails.cli.base import answer, by_option, command, json_option, open_store, refuse
from trails.cli.terminal import clean


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
    from trails import parts

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
    answer(value, turn, lambda each: click.echo(clean(parts.plain_text(each.content))), said=said, as_json=as_json)
