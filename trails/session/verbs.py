"""Git's other verbs on the two handles: tags, notes, search; cherry-pick, blame, bisect. The work is done in modules below.

`Repository` and `Session` take them in from here: their own modules hold what the rest is built on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from trails.model import Turn
from trails.plumbing import search as searching
from trails.plumbing.search import Hits
from trails.session import bisect as bisecting
from trails.session import blame as blaming
from trails.session import cherry_pick as quoting
from trails.session.bisect import Bisection, Predicate
from trails.session.blame import Blame
from trails.session.contextual import RepositoryContexts, SessionContexts
from trails.session.notes import Notes
from trails.session.tags import Tags

if TYPE_CHECKING:
    from trails.session.repository import Repository
    from trails.session.session import Session


class RepositoryVerbs(RepositoryContexts):
    """What a store does beside keeping sessions: names for their turns, notes on them, finding them."""

    @property
    def tags(self) -> Tags:
        """The tags: names for a session at an index that never come to name anything else."""
        return Tags(cast("Repository", self))

    @property
    def notes(self) -> Notes:
        """The notes on turns."""
        return Notes(cast("Repository", self))

    def search(
        self,
        text: str | None = None,
        *,
        tool: str | None = None,
        session: str | None = None,
        role: str | None = None,
        author: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Hits:
        """Return one page of the stored turns that hold a text, newest first; those without a time come last.

        `text` is looked for as it is, upper and lower case alike ("ß" and "SS" too), in what the content says, not in how
        its JSON is written, and in the arguments of tool calls.
        `tool` is the exact name of a tool that the turn calls; with both, the text stands in the content or in that
        call's arguments. `session` (an id or an IRI) limits the search to its transcript, inherited turns included;
        without it, a turn that was copied is found once. `author` is a principal or an agent, `agent:NAME` an agent.
        `limit` is 1 to 1,000; `cursor` is the `cursor` of the page before: turns added meanwhile do not shift the pages.

        Raises `InvalidInput` where nothing is asked for, or for a cursor that no page gave.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip to the Alps"); written = plan.persist()
        ...     [(hit.session_id, hit.index, hit.snippet) for hit in store.search("alps")]
        [('plan', 0, 'Plan a trip to the Alps')]
        """
        wanted = searching.Wanted(text=text, tool=tool, session=session, role=role, author=author)
        return searching.search(cast("Repository", self), wanted, limit=limit, cursor=cursor)


class SessionVerbs(SessionContexts):
    """What a session does with turns of its own and others' transcripts."""

    def cherry_pick(
        self, source: Session | str, indexes: int | Iterable[int], *, whole_calls: bool = False
    ) -> tuple[Turn, ...]:
        """Add turns of another session's transcript at the end as new turns and return them; stored by `persist`.

        `source` is a session of the same store, its id or IRI; `indexes` is one index of its stored transcript or
        several in ascending order. Text, author, model and tool calls are repeated; index, time and digest are new, and
        `prov:wasQuotedFrom` names the turn that is repeated. A tool call and its answer are picked together or not at
        all: where one is missing this is refused, or with `whole_calls` that one is picked too.

        Raises `InvalidInput` for turns that are not there, redacted, summaries, or parted; nothing is added then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.append("user", "By train")
        ...     written = plan.persist()
        ...     other = store.create(id="other")
        ...     [(turn.index, turn.content, turn.quoted_from.index) for turn in other.cherry_pick("plan", 1)]
        ...     other.persist()
        [(0, 'By train', 1)]
        1
        """
        return quoting.pick(cast("Session", self), source, indexes, whole_calls=whole_calls)

    def blame(self, start: int = 0, end: int | None = None) -> list[Blame]:
        """Return where the turns from `start` to `end` (exclusive; default all) come from, one entry a turn.

        Each names the session that owns the turn, its principal, the author, model and time, the session that a copy
        was made from, and the turn that a cherry-picked one repeats. Raises `InvalidInput` for a range that is not there.
        """
        return blaming.blame_session(cast("Session", self), start, end)

    def bisect(self, predicate: Predicate, *, good: int = 0, bad: int | None = None) -> Bisection:
        """Return with which turn of the transcript an outcome flips, in about log2(n) calls of the predicate.

        `predicate` gets the first n turns and returns True (good), False (bad) or None (cannot be told: skip). `good`
        and `bad` are numbers of turns, the first shorter; the defaults are none and all. Both ends are tried first.

        Raises `InvalidInput` where the ends are not what they are said to be.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create()
        ...     turns = [s.append("user", text) for text in ("a", "b", "oops", "c")]
        ...     found = s.bisect(lambda prefix: all(turn.content != "oops" for turn in prefix))
        ...     s.persist(), found.turn.index, found.turn.content
        (4, 2, 'oops')
        """
        turns = cast("Session", self).turns
        return bisecting.bisect(turns, predicate, good=good, bad=len(turns) if bad is None else bad)
