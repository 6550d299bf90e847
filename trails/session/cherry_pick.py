"""Quote turns of other sessions, and take the outcome of a fork.

A picked turn is a new turn at the end of a session, with its own index, time and digest. `prov:wasQuotedFrom` names the
turn that it repeats, and its digest covers that. Nothing is applied and no history is renumbered, unlike in git.

Taking an outcome adds one turn that says what came of a fork. It is derived from the fork's head.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails.errors import HeadConflict, InvalidInput, TrailsError
from trails.history import encryption, pending_session, turn_builder
from trails.history.lookup import names
from trails.history.lookup.names import Name
from trails.history.pending_session import Worktree
from trails.history.transaction import Proposal
from trails.history.turn_builder import Draft
from trails.integrity import digests
from trails.model import content_parts, iris, validation
from trails.model.values import Derivation, SessionRecord, Turn
from trails.rdf import vocab
from trails.rdf.turn_quads import content_literal, turn_type
from trails.store.contract import PreconditionFailed


def picked_turn(
    turns: Sequence[Turn], indexes: int | Iterable[int], *, whole_calls: bool, source_id: str
) -> list[Turn]:
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
        if validation.index(index, "the index of a turn") >= len(turns):
            raise InvalidInput(f"session {source_id!r} has {len(turns)} turns that are stored, so no turn {index}")
    if any(later <= earlier for earlier, later in pairwise(wanted)):
        raise InvalidInput(f"the turns must be given in ascending order, each once, not as {wanted}")
    chosen = whole_transcript(turns, wanted)
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


def whole_transcript(turns: Sequence[Turn], indexes: Iterable[int]) -> list[int]:
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


def quoted_drafts(turns: Iterable[Turn]) -> Iterator[Draft]:
    """Return drafts that repeat turns: text, role, author, and what was recorded with them but not where that came from."""
    now = datetime.now(UTC)
    for turn in turns:
        yield Draft(
            role=turn.role,
            text=turn.text,
            structured=turn.structured,
            time=now,
            author_iri=turn.author_iri,
            facts=pending_session.quote_facts(turn),
            salt=digests.new_salt(),
        )


def pick_turns(
    target: Worktree, source: Worktree | str, indexes: int | Iterable[int], *, whole_calls: bool, by: str | None
) -> tuple[Turn, ...]:
    """Append turns of another session, or of the target itself, to a session; see `Session.cherry_pick`."""
    workspace = target.workspace
    who = workspace.who(by)
    if isinstance(source, str):
        chain = names.find_lineage(workspace, source)
        name, turns = source, encryption.in_plain(workspace.store, chain, workspace.reader.of_quads.turns(chain))
    elif not isinstance(source, Worktree):
        raise InvalidInput(f"turns are picked from a session: give a Session or a name of one, not {source!r:.80}")
    elif source.workspace is not workspace:
        raise InvalidInput(f"session {source.id!r} is of another store; import an export of it here first")
    else:
        chain = source.chain
        name, turns = source.id, list(source.turns[: source.first_pending])
    _refuse_plain_copy(target, chain)
    found = picked_turn(turns, indexes, whole_calls=whole_calls, source_id=name)
    target.picker = who
    return tuple(target.append(made) for made in quoted_drafts(found))


def _refuse_plain_copy(target: Worktree, chain: Sequence[SessionRecord]) -> None:
    """Raise `InvalidInput` where the text of encrypted turns would stand in a session that is not encrypted."""
    if target.record.encryption is None:
        what = f"session {target.id!r}, which is to repeat its text, is not"
        encryption.refuse_encrypted(chain, what, "fork that one, and repeat the text there: new sessions are encrypted")


OutcomeSummary = str | Callable[[tuple[Turn, ...]], str]
"""What a taken outcome says: a text, or what makes one of the fork's own turns."""
_SPOKEN: Final = "assistant"


def take_outcome(
    target: Worktree, fork: Name, summary: OutcomeSummary | None, *, role: str, dry_run: bool, by: str | None
) -> Turn:
    """Append the outcome of a fork to the session that it was forked from, and store it; see `Session.take`."""
    if isinstance(fork, Worktree):
        _refuse_unstored(target, fork)
    chain = names.find_lineage(target.workspace, fork)
    _refuse_plain_copy(target, chain)
    turns = target.workspace.reader.of_quads.turns(chain)
    tail = _own(target, chain, turns)
    head = tail[-1]
    _refuse_unready(target, head)
    text = _said(summary, tuple(encryption.in_plain(target.workspace.store, chain, tail)), chain[0].id)
    if not text.strip():
        raise InvalidInput(f"the summary of fork {chain[0].id!r} is empty; say what came of it")
    made = turn_builder.check_derivation(
        role, text, Derivation(session_id=head.session_id, index=head.index, digest=head.digest), author=by
    )
    with target.alone:
        turn = target.append(made)
        if dry_run:
            target.take_back()
            return turn
        try:
            target.persist(_unmoved(chain[0], tail))
        except PreconditionFailed as failure:
            target.take_back()
            raise _moved(target, chain[0], head, failure) from failure
        except BaseException:  # an interrupt too: the turn must not be stored later, of a fork that went on
            target.take_back()
            raise
    return turn


def _refuse_unstored(target: Worktree, fork: Worktree) -> None:
    if fork.workspace is not target.workspace:
        raise InvalidInput(f"session {fork.id!r} is of another store; push it here first")
    if fork.pending or not fork.stored:
        raise InvalidInput(f"fork {fork.id!r} holds what is not stored; persist it first, then take its outcome")


def _own(target: Worktree, chain: Sequence[SessionRecord], turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the turns of a fork's transcript that its origin's does not have; raise `InvalidInput` where there are none."""
    fork = chain[0]
    below = [record.id for record in chain].index(target.id) if any(each.id == target.id for each in chain[1:]) else 0
    if not below:
        raise InvalidInput(
            f"session {fork.id!r} is no fork of {target.id!r}, so it has no outcome to take; cherry-pick turns of it instead"
        )
    tail = tuple(turns[min(record.starts_at for record in chain[:below]) :])
    if not tail or tail[-1].session_id != fork.id:
        raise InvalidInput(f"fork {fork.id!r} has no turns of its own: there is no outcome to take")
    return tail


def _refuse_unready(target: Worktree, head: Turn) -> None:
    target.check_free()
    if target.has_news:
        raise InvalidInput(f"session {target.id!r} holds what is not stored; persist it first, then take the outcome")
    if head.old_iri is not None:
        raise InvalidInput(
            f"turn {head.index} of {head.session_id!r} is from before turns had digests, so nothing can say what was taken"
        )
    iri = head.iri
    for turn in target.turns:
        if turn.derived_from is not None and turn.derived_from.iri == iri:
            raise InvalidInput(
                f"session {target.id!r} took the outcome of {head.session_id!r} at that turn before: it is turn {turn.index}"
            )


def _said(summary: OutcomeSummary | None, tail: tuple[Turn, ...], fork_id: str) -> str:
    if isinstance(summary, str):
        return summary
    if summary is None:
        spoken = [content_parts.plain_text(turn.content) for turn in tail if turn.role == _SPOKEN and not turn.redacted]
        text = next((each for each in reversed(spoken) if each.strip()), None)
        if text is None:
            raise InvalidInput(f"fork {fork_id!r} has no answer of its own to take; say in `summary` what came of it")
        return text
    if not callable(summary):
        raise InvalidInput(f"a summary is a text, or a function of the fork's own turns, not {summary!r:.80}")
    made: object = summary(tail)
    if inspect.iscoroutine(made):
        made.close()
        raise InvalidInput("a coroutine was given as summary; in an event loop use the sessions of trails.aio")
    if not isinstance(made, str):
        raise InvalidInput(f"the function given as summary returned {made!r:.80}, and a text is wanted")
    return made


def _unmoved(fork: SessionRecord, tail: Sequence[Turn]) -> Proposal:
    """Return the condition that a fork's head is there, no turn after it, and all that was told from as it was read."""
    head = tail[-1]
    after = (None, vocab.INDEX, vocab.integer(head.index + 1), NamedNode(fork.iri))
    said = [
        Quad(NamedNode(turn.iri), vocab.VALUE, content_literal(turn), NamedNode(iris.session(turn.session_id)))
        for turn in tail
        if turn.old_iri is None
    ]
    return Proposal(require=[turn_type(head), *said], forbid=[after])


def _moved(target: Worktree, fork: SessionRecord, head: Turn, failure: PreconditionFailed) -> TrailsError:
    missing = failure.missing
    if missing is not None and missing.predicate == vocab.VALUE:
        turn = str(getattr(missing.subject, "value", ""))
        return InvalidInput(
            f"turn {iris.turn_index(turn)} of session {iris.session_id(turn)!r} was redacted or deleted while the outcome of "
            f"fork {fork.id!r} was taken; nothing was written to {target.id!r}. Take it again"
        )
    if failure.present is None:
        return InvalidInput(
            f"fork {fork.id!r} was deleted while its outcome was taken; nothing was written to {target.id!r}"
        )
    turns = target.workspace.reader.turns(target.workspace.reader.lineage(fork.id))
    return HeadConflict(
        f"fork {fork.id!r} moved on while its outcome was taken: its head is {turns[-1].digest[:16]} after {len(turns)} turns, "
        f"expected {head.digest[:16]}; nothing was written to {target.id!r}. Take it again",
        expected=head.digest,
        actual=turns[-1].digest,
    )
