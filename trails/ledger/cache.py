"""What an exchange leaves of its session's transcript for the next one, so that a long session is not read again each time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyoxigraph import NamedNode

from trails import iris, vocab
from trails.model import SessionRecord, Turn
from trails.plumbing.worktree import Worktree
from trails.session import Repository
from trails.session.session import Session

_SESSIONS: Final = 64
_TURNS: Final = 20_000
"""Turns that are kept in memory, of all sessions together; of one session as many as it has."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A session's transcript as it was stored: its lineage, its turns, and what had been rewritten in the store by then."""

    chain: tuple[SessionRecord, ...]
    turns: Sequence[Turn]
    rewrites: int

    def is_current(self, repository: Repository, chain: tuple[SessionRecord, ...]) -> bool:
        """Tell whether this is all that is stored: the last turn is still the last one, however many there are."""
        if self.chain != chain or self.rewrites != repository.workspace.rewrites:
            return False
        if repository.reader.owns(chain[0].id, len(self.turns)):
            return False
        if not self.turns:
            return True
        last = self.turns[-1]
        graph = NamedNode(iris.session(last.session_id))
        return bool(repository.store.quads((NamedNode(last.iri), vocab.TYPE, vocab.TURN, graph)))


class Keeper:
    """Transcripts of the sessions that exchanges were completed in last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def load(self, repository: Repository, session_id: str) -> tuple[Session, int]:
        """Return a handle of its own on all that is stored of a session, and `Workspace.rewrites` from before that."""
        rewrites = repository.workspace.rewrites
        with self._lock:
            kept = self._kept.pop(session_id, None)
        if kept is not None:
            chain = repository.reader.lineage(session_id)
            if kept.is_current(repository, chain):
                turns = list(kept.turns)
                made = Worktree(repository.workspace, chain[0], ancestors=chain[1:], turns=turns, stored=True)
                return Session(made), rewrites
        return repository.load(session_id), rewrites

    def keep(self, session: Session, turns: Sequence[Turn], rewrites: int) -> None:
        """Keep the turns of a session, all of them stored; `rewrites` is what `load` gave with it."""
        kept = Kept(session.worktree.chain, turns, rewrites)
        with self._lock:
            self._kept[session.id] = kept
            while len(self._kept) > 1 and self._is_too_much():
                self._kept.popitem(last=False)

    def _is_too_much(self) -> bool:
        return len(self._kept) > _SESSIONS or sum(len(kept.turns) for kept in self._kept.values()) > _TURNS
