"""The command that runs a program again over a recorded session: rerun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from trails.cli.base import (
    answer,
    by_option,
    command,
    echo_each,
    end,
    json_option,
    meta_option,
    note,
    open_store,
    pairs,
    refuse,
)
from trails.cli.terminal import count

if TYPE_CHECKING:
    from trails.reruns.rerun import Rerun

_WORKERS: Final = 4
_from = click.Choice(["recorded", "live"])


@command("rerun")
@click.argument("ref", metavar="REF")
@click.argument("program", metavar="-- PROGRAM", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--model", type=_from, default="recorded", show_default=True, help="Who answers for the model.")
@click.option("--tools", type=_from, default="recorded", show_default=True, help="Who answers for tools.")
@click.option(
    "--on-miss",
    type=click.Choice(["stop", "live"]),
    default="stop",
    show_default=True,
    help="What a call does that was not recorded.",
)
@click.option(
    "--times", type=click.IntRange(1, 100_000), metavar="N", help="Run it N times, and go on where that was cut short."
)
@click.option("--name", metavar="NAME", help="What the forks of --times are called; default: rerun.")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="So many of --times at a time; default: 4.")
@click.option("--id", "id_", metavar="ID", help="The fork's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@meta_option
@by_option
@json_option
def rerun(*, ref: str, program: tuple[str, ...], meta: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Run a program again over a recorded session.

    A fork is stored that shares what agrees with the record; its id is printed. REF is a session (an id, an IRI or a label), a
    tag, or such a name with @ and how many turns of it are the record. PROGRAM asks on stdout and is answered on stdin, a JSON
    object a line: `trails guide rerun` shows how. "live" has the program itself asked. The exit code is 1 where the run was
    stopped by what is not recorded, or failed.
    """
    facts = dict(pairs(meta, "--meta")) or None
    from trails.plumbing import refs
    from trails.reruns.many import planned, ran
    from trails.reruns.programs import Program
    from trails.reruns.rerun import attempt

    times = given["times"]
    if times is not None and (given["id_"] or given["label"]):
        refuse("--times makes several forks, whose ids follow from --name; leave out --id and --label")
    if times is None and (given["name"] or given["workers"]):
        refuse("--name and --workers are of --times; one fork is named by --id or --label")
    agent = Program(program, model=given["model"], tools=given["tools"], on_miss=given["on_miss"])
    with open_store() as store:
        place = refs.place(store.workspace, ref)
        source = store.load(place.session_id)
        if times is None:
            names = {"id": given["id_"], "label": given["label"], "meta": facts}
            found = [attempt(source, agent, ways=agent.ways, upto=place.end, **names)]
        else:
            workers, options = given["workers"] or _WORKERS, {"meta": facts, "principal": None, "by": None}
            pool, places = planned(
                source, times, workers, name=given["name"] or "rerun", ways=agent.ways, upto=place.end, options=options
            )
            found = ran(pool, places, agent, workers, progress=_tell, stop=agent.stop)
        value: Any = [each.to_dict() for each in found]
    answer(
        value[0] if times is None else {"reruns": value},
        [each.id for each in found],
        echo_each,
        said=_said(found[0]) if times is None else None,
        as_json=as_json,
    )
    if any(each.outcome != "finished" for each in found):
        end(1)


def _tell(done: Rerun) -> None:
    note(f"{done.id}: {_said(done)}")


def _said(done: Rerun) -> str:
    """Return what came of a rerun in a line."""
    shared = f"it shares {count(done.agreed, 'turn')} with {done.source_id}"
    if done.outcome == "failed":
        return f"the program failed: {done.error}; {shared}"
    if done.left_at is None:
        return f"{shared}, and nothing differs"
    why = "" if done.difference is None else f": {done.difference.text}"
    return f"{shared}, and {'was stopped' if done.outcome == 'stopped' else 'left it'} at {done.left_at}{why}"
