"""Find turns that repeat a text with few changes, such as one that was redacted: candidates, for a person to judge."""

from __future__ import annotations

from trails.errors import InvalidInput
from trails.history import near_copies
from trails.history.removal import derived_erasure
from trails.model import validation
from trails.model.values import Value
from trails.session.repository import Repository


class NearCopy(Value):
    """A turn that may repeat a text."""

    session_id: str
    index: int
    share: float
    """Which share of the text's runs of three words stands in the turn, from 0 to 1."""


def find_near_copies(store: Repository, text: str, *, share: float = 0.3) -> tuple[NearCopy, ...]:
    """Find the turns of a store that may repeat a text, the likeliest first.

    A turn is a candidate where at least `share` (above 0, at most 1) of the text's runs of three words stand in it, whatever
    their case, spaces and punctuation. The text has at least six words; of a redacted turn somebody has it elsewhere. The
    turn itself is one of the candidates where it is stored. A text that says the same in other words is not found, and one
    that shares a phrase of everyday words may be.

    Raises `InvalidInput` for a text of fewer words, and for a share out of range.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     s = store.create(id="s"); _ = s.append("user", "So: the code of the SAFE in the hall is 4712."); _ = s.persist()
    ...     find_near_copies(store, "The code of the safe in the hall is 4711")
    (NearCopy(session_id='s', index=0, share=0.875),)
    """
    wanted = validation.text(text, "the text")
    least = near_copies.least_share(share, "share")
    runs = near_copies.word_runs(wanted)
    if len(runs) < near_copies.FEWEST:
        raise InvalidInput("the text has too few words to tell a copy from chance; give at least six")
    found = [
        NearCopy(session_id=session_id, index=index, share=round(each, 3))
        for (session_id, index), said in derived_erasure.turn_texts(store.store, store.reader)
        if (each := near_copies.share_of(runs, said)) >= least
    ]
    return tuple(sorted(found, key=lambda each: (-each.share, each.session_id, each.index)))
