"""Keep a chain of forks short: a new fork takes copies of the last runs of its transcript instead of being one fork deeper.

Runs are merged as in a log-structured merge tree: those from the first that is no longer than all after it together. So a turn is
copied about log2(n) times while n turns are appended, and a long run at the beginning is not copied at all. Copies are those
of `detach`: they keep digest, salt, author, time, index and branch, with `prov:alternateOf` the original.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyoxigraph import Quad

from trails.history import encryption
from trails.history.removal import detach
from trails.history.transcript import Transcript
from trails.history.workspace import Workspace
from trails.model import iris, lineage
from trails.model.lineage import Segment
from trails.model.values import MAX_FORK_DEPTH, SessionRecord, Turn
from trails.rdf.activity_records import Copying

_MOST: Final = 16
"""Runs that are merged where each is longer than all after it together."""


@dataclass(frozen=True, slots=True)
class ForkPlace:
    """Where a fork is made: of which session, given with its ancestors, and from which index on it owns its turns."""

    above: tuple[SessionRecord, ...]
    start: int
    merged: tuple[SessionRecord, ...] = ()
    """The sessions whose turns from there on are copied, and what they inherit prompts of, the nearest first."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of turns that a fork stores with its first turns."""

    turns: list[Turn]
    quads: list[Quad]
    originals: list[Quad]
    """What is there while no turn that is copied was redacted or deleted."""
    act: Copying


def find_fork_place(chain: Sequence[SessionRecord], at: int) -> ForkPlace:
    """Return where a fork of the first `at` turns of a transcript is made, given its session's lineage.

    That is the session that owns the last of them; but one further up, where the chain would become too long.
    """
    runs = lineage.segments(chain, at)
    root = chain[-1]
    owner = runs[-1].record if runs else root
    above = tuple(chain[list(chain).index(owner) :])
    if len(above) <= MAX_FORK_DEPTH:
        return ForkPlace(above, at)
    if runs[0].record is not root:
        runs = [Segment(root, 0, 0), *runs]
    first = first_merged([(run.end or 0) - run.start for run in runs])
    parent = above.index(runs[first - 1].record)
    return ForkPlace(above[parent:], runs[first].start, above[:parent])


def first_merged(sizes: Sequence[int]) -> int:
    """Return the first of several runs that is merged with all after it, given their lengths: never the first one.

    >>> first_merged([5000, 3, 1, 1, 1]), first_merged([5000, 9, 4, 1, 1]), first_merged([1, 1])
    (1, 3, 1)
    """
    left = sum(sizes[1:])
    for number, size in enumerate(sizes[1:], 1):
        left -= size
        if size <= left:
            return number
    return max(1, len(sizes) - _MOST)


def make_copies(workspace: Workspace, place: ForkPlace, kept: Transcript, session_id: str, prompt: int) -> Copies:
    """Return copies of the last of the turns that a fork has, and of the versions of the system prompt up to one.

    No text may be taken out of the store meanwhile: `Workspace.rewriting`.
    """
    store, reader = workspace.store, workspace.reader
    encryption.refuse_encrypted(place.merged, *encryption.NO_COPIES)
    sealed = reader.of_quads.sealed(kept[place.start :])
    copying = Copying(
        session_id=session_id,
        token=secrets.token_hex(8),
        by_iri=workspace.who(None),
        time=datetime.now(UTC),
        action="squash",
        used=tuple(sorted({each.turn.session_id for each in sealed})),
    )
    inherited = place.merged[-1].system_version
    owned = reader.prompts([record.id for record in place.above])
    prompts = {
        version: iris.system_prompt(iris.session(owner), version) for owner, version in owned if version <= inherited
    }
    batches = detach.copy_turns(store, copying, sealed, before=kept.below(place.start), prompts=prompts)
    newest = place.merged[0].model_copy(update={"system_version": prompt})
    return Copies(
        turns=[detach.copy_turn(each.turn, session_id) for each in sealed],
        quads=[
            *(quad for batch in batches for quad in batch),
            *detach.prompt_copies(reader, (newest, *place.merged), session_id),
        ],
        originals=[quad for each in sealed for quad in detach.original_quads(each)],
        act=copying,
    )
