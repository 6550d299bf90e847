"""Quoted turns at the commit that stores what quotes them: they must still stand there as they were read."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.errors import InvalidInput
from trails.integrity import digests
from trails.model import Call, Facts, ModelCall, Quote, Turn
from trails.plumbing.reader import Reader
from trails.records.turns import content_literal
from trails.store.contract import Matching, PreconditionFailed
from trails.store.pattern import Pattern


def facts(turn: Turn) -> Facts:
    """Return what one that quotes a turn repeats of what was recorded with it: not where that came from."""
    quote = Quote(session_id=turn.session_id, index=turn.index, digest=turn.digest)
    update = {"source_ids": (), "quoted_from": quote, "withheld": None, "model_call": _elsewhere(turn)}
    return turn.facts.model_copy(update=update)


def _elsewhere(turn: Turn) -> ModelCall | None:
    """Return a turn's model call without what its own transcript's indices and versions of prompts say."""
    made_by = turn.facts.model_call
    if made_by is None or made_by.call is None:
        return made_by
    told = made_by.call.model_copy(update={"prompt": None, "context": None})
    return made_by.model_copy(update={"call": None if told == Call() else told})


def sources(quoting: Iterable[Turn]) -> list[Quad]:
    """Return the quads by which the turns that new ones quote are as they were read: none was redacted meanwhile."""
    found = []
    for turn in quoting:
        if turn.quoted_from is not None:
            node, graph = NamedNode(turn.quoted_from.iri), NamedNode(iris.session(turn.quoted_from.session_id))
            found.append(Quad(node, vocab.VALUE, content_literal(turn), graph))
            found.append(Quad(node, vocab.ATTRIBUTED_TO, NamedNode(turn.author_iri), graph))
    return found


def refuse_redacted(quoting: Iterable[Turn], reader: Reader, store: Matching) -> list[Pattern]:
    """Raise `InvalidInput` where names were taken out of what turns quote, or that is gone; return what must match nothing.

    What no name was ever taken out of is held to that by a pattern until the commit.
    """
    told: dict[str, tuple[Quote, Turn]] = {
        turn.quoted_from.iri: (turn.quoted_from, turn) for turn in quoting if turn.quoted_from is not None
    }
    stored: dict[str, Turn] = {}
    for session_id in dict.fromkeys(quote.session_id for quote, _ in told.values()):
        indices = [quote.index for quote, _ in told.values() if quote.session_id == session_id]
        stored.update((turn.iri, turn) for turn in reader.turns_at(session_id, sorted({*indices})))
    clean: list[Pattern] = []
    for iri, (_, turn) in told.items():
        if iri not in stored or not _repeats(turn, stored[iri]):
            raise _gone(iri)
        taken_out: Pattern = (None, vocab.DELETED_TURN, NamedNode(iri), vocab.CATALOG)
        if not store.quads(taken_out):
            clean.append(taken_out)
    return clean


def _repeats(turn: Turn, quoted: Turn) -> bool:
    """Tell whether a turn has the author and the facts of the one that it quotes: the names in them may be taken out."""
    own, theirs = (digests.facts_digest(each, "") for each in (turn.facts, facts(quoted)))
    return turn.author_iri == quoted.author_iri and own == theirs


def source_gone(failure: PreconditionFailed) -> InvalidInput:
    """Return the error for a quoted turn that is not there any more as it was when picked."""
    said = getattr(failure.missing, "subject", None) or getattr(failure.present, "object", None)
    return _gone(str(getattr(said, "value", "")))


def _gone(turn: str) -> InvalidInput:
    return InvalidInput(
        f"turn {iris.turn_index(turn)} of session {iris.session_id(turn)!r}, which was picked, was redacted or deleted "
        "meanwhile, or a name in it was; nothing was written. Give the picked turns up with discard_pending()"
    )
