"""Cherry-picking: turns of one transcript as new turns at the end of another, which say what they were quoted from.

Git's word for it fits only half: nothing is applied, and no history is renumbered. A picked turn is a turn of its own,
with its own index, time and digest; `prov:wasQuotedFrom` names the one that it repeats, and its digest covers that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from trails import validate
from trails.errors import InvalidInput
from trails.integrity import digests
from trails.model import Turn
from trails.plumbing import names, quotes
from trails.plumbing.draft import Draft
from trails.plumbing.worktree import Worktree


def picked(turns: Sequence[Turn], indexes: int | Iterable[int], *, whole_calls: bool, source_id: str) -> list[Turn]:
    """Return the turns of a transcript that are to be picked, or raise `InvalidInput`.

    With `whole_calls`, the turns that belong to the tool calls and answers among them are picked too; without, a call
    that would be parted from its answer is refused.
    """
    given: object = indexes  # whoever calls may not check types
    if not isinstance(given, Iterable | int):
        raise InvalidInput(f"what is picked is one index or several, not {given!r:.80}")
    wanted = [indexes] if isinstance(indexes, int) else list(indexes)
    if not wanted:
        raise InvalidInput("a cherry-pick needs at least one turn")
    for index in wanted:
        if validate.index(index, "the index of a turn") >= len(turns):
            raise InvalidInput(f"session {source_id!r} has {len(turns)} turns that are stored, so no turn {index}")
    if any(later <= earlier for earlier, later in pairwise(wanted)):
        raise InvalidInput(f"the turns must be given in ascending order, each once, not as {wanted}")
    chosen = whole(turns, wanted)
    if chosen != wanted and not whole_calls:
        more = [index for index in chosen if index not in set(wanted)]
        raise InvalidInput(
            f"turns {wanted} of session {source_id!r} and {more} belong together: they call tools and answer the calls, "
            "and a call is never parted from its answer; pick them too, or let whole_calls (--whole-calls) do it"
        )
    found = [turns[index] for index in chosen]
    for turn in found:
        _refuse_unfit(turn, source_id)
    return found


def whole(turns: Sequence[Turn], indexes: Iterable[int]) -> list[int]:
    """Return indexes with those of all turns that call the tools that they answer, or answer the calls that they make."""
    partners: dict[int, set[int]] = {}
    latest: dict[str, int] = {}
    for turn in turns:
        for result in turn.tool_results:
            if (asked := latest.get(result.call_id)) is not None:
                partners.setdefault(asked, set()).add(turn.index)
                partners.setdefault(turn.index, set()).add(asked)
        latest |= {call.id: turn.index for call in turn.tool_calls}
    chosen, open_ends = set(indexes), list(indexes)
    while open_ends:
        new = partners.get(open_ends.pop(), set()) - chosen
        chosen |= new
        open_ends += new
    return sorted(chosen)


def _refuse_unfit(turn: Turn, source_id: str) -> None:
    what = f"turn {turn.index} of session {source_id!r}"
    if turn.redacted:
        raise InvalidInput(f"{what} was redacted: there is nothing left to pick")
    if turn.old_iri is not None:
        raise InvalidInput(f"{what} is from before turns had digests, so nothing can say that it was quoted from it")
    if turn.compaction is not None:
        raise InvalidInput(f"{what} is a summary of turns of its own transcript; pick those turns instead")


def drafts(turns: Iterable[Turn]) -> Iterator[Draft]:
    """Return drafts that repeat turns: text, role, author, and what was recorded with them but not where that came from."""
    now = datetime.now(UTC)
    for turn in turns:
        yield Draft(
            role=turn.role,
            text=turn.text,
            structured=turn.structured,
            time=now,
            author_iri=turn.author_iri,
            facts=quotes.facts(turn),
            salt=digests.new_salt(),
        )


def pick(
    target: Worktree, source: Worktree | str, indexes: int | Iterable[int], *, whole_calls: bool, by: str | None
) -> tuple[Turn, ...]:
    """Append turns of another session, or of the target itself, to a session; see `Session.cherry_pick`."""
    workspace = target.workspace
    who = workspace.who(by)
    if isinstance(source, str):
        name, turns = source, workspace.reader.unpacked.turns(names.lineage(workspace, source))
    elif not isinstance(source, Worktree):
        raise InvalidInput(f"turns are picked from a session: give a Session or a name of one, not {source!r:.80}")
    elif source.workspace is not workspace:
        raise InvalidInput(f"session {source.id!r} is of another store; import an export of it here first")
    else:
        name, turns = source.id, list(source.turns[: source.first_pending])
    found = picked(turns, indexes, whole_calls=whole_calls, source_id=name)
    target.picker = who
    return tuple(target.append(made) for made in drafts(found))
