"""An outcome comes back: one turn at a session's end that says what came of a fork of it, derived from the fork's head."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails import iris, parts, vocab
from trails.errors import HeadConflict, InvalidInput, TrailsError
from trails.model import Derivation, SessionRecord, Turn
from trails.plumbing import draft, names
from trails.plumbing.names import Name
from trails.plumbing.transaction import Proposal
from trails.plumbing.worktree import Worktree
from trails.records.turns import content_literal, turn_type
from trails.store.contract import PreconditionFailed

Summary = str | Callable[[tuple[Turn, ...]], str]
"""What a taken outcome says: a text, or what makes one of the fork's own turns."""
_SPOKEN: Final = "assistant"


def take(target: Worktree, fork: Name, summary: Summary | None, *, role: str, dry_run: bool, by: str | None) -> Turn:
    """Append the outcome of a fork to the session that it was forked from, and store it; see `Session.take`."""
    if isinstance(fork, Worktree):
        _refuse_unstored(target, fork)
    chain = names.lineage(target.workspace, fork)
    turns = target.workspace.reader.unpacked.turns(chain)
    tail = _own(target, chain, turns)
    head = tail[-1]
    _refuse_unready(target, head)
    text = _said(summary, tail, chain[0].id)
    if not text.strip():
        raise InvalidInput(f"the summary of fork {chain[0].id!r} is empty; say what came of it")
    made = draft.derived(
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


def _said(summary: Summary | None, tail: tuple[Turn, ...], fork_id: str) -> str:
    if isinstance(summary, str):
        return summary
    if summary is None:
        spoken = [parts.plain_text(turn.content) for turn in tail if turn.role == _SPOKEN and not turn.redacted]
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
