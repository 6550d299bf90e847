"""Every error that Trails raises on purpose. A message says what happened, to which session, and what to do about it.

Each class has a page in the guide, which the text names at its end: `trails guide errors/head-conflict`.
"""

from __future__ import annotations

import re
from typing import ClassVar


class _WithPage:
    """What has a page in the guide: an error or a warning, by the name of its public class."""

    page: ClassVar[str]
    """The page's name: `errors/head-conflict`."""

    def __init_subclass__(cls) -> None:
        """Name the page after the class; one that is not public has that of the class above it."""
        super().__init_subclass__()
        if cls.__module__ == __name__ and not cls.__name__.startswith("_"):
            cls.page = "errors/" + re.sub(r"(?<=.)(?=[A-Z])", "-", cls.__name__).lower()

    @property
    def message(self) -> str:
        """What happened, without the page's name at the end."""
        return BaseException.__str__(self)  # type: ignore[arg-type] # not a KeyError's own: it quotes

    def __str__(self) -> str:
        return f"{self.message} (trails guide {self.page})".lstrip()


class TrailsError(_WithPage, Exception):
    """The root of all errors raised on purpose by this package. `message` is its text without the page of the guide."""

    def __format__(self, spec: str) -> str:
        """In a text that quotes it, an error is its message alone: that one names a page of its own."""
        return format(self.message, spec)


class InvalidInput(TrailsError, ValueError):
    """An argument, id, text, query or file that cannot be accepted. Nothing was written."""


class SecretFound(InvalidInput):
    """A turn holds what looks like a secret, and such turns are refused. `kind` and `where` say what it is, and in what."""

    def __init__(self, message: str, *, kind: str, where: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.where = where


class WrongCall(InvalidInput, TypeError):
    """A call does not fit what is called: a parameter is misspelt, missing or one too many. Nothing was done."""


class NoSuchName(InvalidInput, AttributeError):
    """There is no such attribute, or none that can be set; the message says what there is."""


class SessionExists(InvalidInput):
    """The id for a new session is in use: another writer, or this one, has stored a session with it. Nothing was written."""


class RequestRefused(InvalidInput):
    """A rule of sessions refuses a request. `code` is its kind, and the text is what the systems of session keys answer.

    `code` is INVALID_REQUEST (the request is wrong), FORBIDDEN (it is right, and not allowed) or UNAVAILABLE (it cannot
    be answered now). `message` is that text; hosts pass it on as it is.
    """

    def __init__(self, message: str, *, code: str = "INVALID_REQUEST") -> None:
        super().__init__(message)
        self.code = code


class SessionNotFound(TrailsError, KeyError):
    """No session has the name that was asked for (it may be deleted: the message says so)."""


class TurnNotFound(InvalidInput, IndexError):
    """A transcript has no turn at the index that was asked for, as `session[9]`."""


class ParentMissing(TrailsError):
    """A session's parent is not in the store, so its shared prefix cannot be read."""


class ForkDepthExceeded(TrailsError):
    """A session has more than `MAX_FORK_DEPTH` ancestors by forks."""


class ForkCycle(TrailsError):
    """A session is its own ancestor: the lineage was altered by hand."""


class IndexGap(TrailsError):
    """A turn index is missing, doubled or out of order, so no true transcript can be given."""


class HasChildren(TrailsError):
    """A session cannot be deleted while forks or spawned sessions depend on it, or tags name it."""


class OnHold(TrailsError):
    """Something that a legal hold covers cannot be taken out of the store. Nothing was changed."""

    def __init__(self, message: str, *, session_id: str, hold: str) -> None:
        super().__init__(message)
        self.session_id = session_id
        """The session that the hold covers."""
        self.hold = hold
        """The id of the hold."""


class NothingToSummarise(InvalidInput):
    """A compaction was asked for where all turns are to be kept as they are. Nothing was written."""


class ContextOverflow(TrailsError):
    """What has to be shown does not fit a model's context window. A host's model call raises it to say so, too."""


class HeadConflict(TrailsError):
    """Another writer moved the session's head. `expected` and `actual` are the two head digests."""

    def __init__(self, message: str, *, expected: str | None = None, actual: str | None = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class ExchangeInterrupted(TrailsError):
    """A session's exchange was under way when its process died: it must be retried or failed before others begin."""


class LimitReached(TrailsError):
    """A session of the session tree would exceed a limit. Nothing was written.

    `limit` is its name, as in `Limits`; `allowed` is its value and `wanted` what there would have been.
    """

    def __init__(self, message: str, *, limit: str, allowed: int, wanted: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.allowed = allowed
        self.wanted = wanted


class IllegalTransition(TrailsError):
    """A session of the session tree cannot go from its state `before` to the state `after`. Nothing was written."""

    def __init__(self, message: str, *, before: str, after: str) -> None:
        super().__init__(message)
        self.before = before
        self.after = after


class RecordMiss(TrailsError):
    """A recorded session has no answer to a call: something before it, or the call itself, is not as it was recorded.

    `index` is the first place at which the two differ, `what` names what does, and `recorded` and `found` say how.
    """

    def __init__(self, message: str, *, index: int, what: str, recorded: str | None, found: str | None) -> None:
        super().__init__(message)
        self.index = index
        self.what = what
        self.recorded = recorded
        self.found = found


class StoreLocked(TrailsError):
    """Another process held the store for too long, or does there what only one can do at a time. Nothing was written."""


class MirrorFailed(TrailsError):
    """A mirror could not be reached, or refused what it was asked. What it holds stays, and mirroring goes on where it was."""


class NeedsWholeStore(TrailsError):
    """The store was opened with `thin=True`, and the call needs more than the sessions in use. Nothing was written."""


class StoreReadOnly(TrailsError):
    """The store was opened to be read only, and something would have written to it. Nothing was written."""


class StoreFailed(TrailsError):
    """The store cannot be used: it is closed, its disk refuses, its log is not what was written, or this process was forked."""


class QueryEnded(TrailsError):
    """A query was ended before it gave its answer: the store was closed, or its files were rebuilt, while it ran."""


class QueryTimeout(QueryEnded):
    """A query took longer than it may, and was ended. Nothing of its answer is given."""


class QueryTooLarge(QueryEnded):
    """A query took more memory than it may, or its answer is larger than may be held at once, and it was ended."""


class PendingTurnsWarning(_WithPage, UserWarning):
    """A session or its store went away while turns were appended to it and not persisted; they are not written."""


class SharedSessionWarning(_WithPage, UserWarning):
    """Another person than before writes to a main session, where all direct chats meet: each sees the other's messages."""


class ClockWarning(_WithPage, UserWarning):
    """A tick of a clock on its own thread failed (`Tree.ticking`, `Runs.ticking`); it is raised where its block ends, too."""


class KeyMissing(TrailsError):
    """A session is encrypted, and its key is not at hand, or is not its key. Nothing was read or written."""

    def __init__(self, message: str, *, session_id: str) -> None:
        super().__init__(message)
        self.session_id = session_id
        """The session that the key is for."""


class IntegrityError(TrailsError):
    """What is stored contradicts itself: it was altered, or written by something else."""
