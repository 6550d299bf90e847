"""The command that repeats turns in another session: cherry-pick."""

from __future__ import annotations

import click

from trails.cli.base import answer, by_option, command, echo_each, json_option, open_store, refuse
from trails.cli.terminal import count


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
    from trails.cli import ranges
    from trails.plumbing import refs

    name, at, wanted = turns.rpartition("@")
    if not at or not name or not ranges.looks_like_turns(wanted):
        refuse(
            f"{turns!r} says not which turns: write an index (SOURCE@3), a range with its end left out (SOURCE@2:5) or both"
        )
    with open_store() as store:
        place = refs.place(store.workspace, name)
        source, target = store.load(place.session_id), store.load(store.resolve(onto))
        indexes = ranges.indexes(wanted, len(source) if place.end is None else place.end)
        made = target.cherry_pick(source, indexes, whole_calls=whole_calls)
        target.persist()
    names = source.label or source.id, target.label or target.id
    said = f"{count(len(made), 'turn')} of {names[0]} repeated at the end of {names[1]}"
    indices = [turn.index for turn in made]
    answer({"session": target.id, "turns": made}, indices, echo_each, said=said, as_json=as_json)
