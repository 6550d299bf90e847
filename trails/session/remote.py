"""The store of a server as its users see it: as any other, with each operation's reads in one request.

`perform` is the server's side: it does an operation, so that all is known that the operation reads. `ACTS` are what the server
does itself, because it takes text out of its store, or copies what nobody may take out meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar, cast

from trails.errors import InvalidInput
from trails.history.lookup.names import Name
from trails.history.removal.deletion import Pruning
from trails.history.removal.redaction import Redaction
from trails.history.removal.text_erasure import TextRedaction
from trails.history.transaction import check_free_names, is_mentioned
from trails.rdf.query_files import QueryFile
from trails.rdf.session_records import row_names
from trails.session.repository import Repository
from trails.session.session import Session
from trails.store.contract import Result
from trails.store.queries.query_pool import QueryLimits
from trails.store.remote.store import RemoteStore

_Method = TypeVar("_Method", bound=Callable[..., Any])
READS: Final = (
    "load", "replay", "diff", "list", "summaries", "search", "branches", "forest", "resolve", "record", "find",
    "compare", "context", "stats", "cost", "scores", "info",
)  # fmt: skip
"""The operations of `Repository` that are asked for ahead."""
WRITES: Final = ("score", "remove_score", "set_label")
"""Those that write are asked for, too: the server does them up to their commit, which it leaves to the client."""
REMOVALS: Final = ("redact", "redact_matching", "delete", "prune")
"""The operations that take text out of the store: the server does them, for an admin."""
ACTS: Final = (*REMOVALS, "detach", "flatten")
"""All that the server does: what copies many turns, too."""

_GREATEST: Final = 2**53
"""Whole numbers from here on are not sent."""


class RemoteRepository(Repository, public=True):
    """A store of sessions that a server keeps. Get one from `trails.open("https://...")`."""

    def _sweep(self) -> None:
        """Leave to the server what is half done in its store."""

    def _recover_streams(self) -> None:
        """Leave to the server what was streamed to its folder."""

    @property
    def _principal(self) -> str:
        return self._remote.principal or super()._principal

    @property
    def _remote(self) -> RemoteStore:
        return cast(RemoteStore, self.store)

    def rows(self, text: str, /, **options: Any) -> NoReturn:
        """Raise `InvalidInput`: an answer of a server comes whole, by `query`."""
        raise InvalidInput(
            f"the rows of {self.store.location} do not come one by one: use query(), with max_rows for a part"
        )

    def _following(self) -> NoReturn:
        """Raise `InvalidInput`: a server tells of commits in the events of its API."""
        raise InvalidInput(
            f"{self.store.location} tells nothing of commits to this handle: follow the events of its API, which /api describes"
        )

    def _of_catalogue(self, asked: QueryFile, limits: QueryLimits, parameters: dict[str, Any]) -> Result:
        """Have the server answer a query of the catalogue."""
        bounds = (limits.timeout, limits.max_rows, limits.memory)
        return self._remote.outside(asked.bind(**parameters), bounds)

    def redact(self, session: Name, index: int, *, by: str | None = None, reason: str | None = None) -> Redaction:
        """Take the content out of a turn and of all its copies, as `Repository.redact` does; the server does it."""
        done = self._act("redact", session=_name(session), index=index, by=by, reason=reason)
        return Redaction.model_validate(done)

    def redact_matching(
        self, text: str, *, dry_run: bool = False, by: str | None = None, reason: str | None = None
    ) -> TextRedaction:
        """Take a text out wherever it stands, as `Repository.redact_matching` does; the server does it."""
        done = self._act("redact_matching", text=text, dry_run=dry_run, by=by, reason=reason)
        return TextRedaction.model_validate(done)

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        keep_count: int | None = None,
        keep_bytes: int | None = None,
        meta: Mapping[str, Any] | None = None,
        expired: bool = False,
        dry_run: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> Pruning:
        """Delete sessions that nobody uses any more, as `Repository.prune` does; the server does it."""
        seconds = None if older_than is None else older_than.total_seconds()
        limits = {"older_than": seconds, "keep_count": keep_count, "keep_bytes": keep_bytes, "expired": expired}
        done = self._act(
            "prune", **limits, meta=None if meta is None else dict(meta), dry_run=dry_run, by=by, reason=reason
        )
        return Pruning.model_validate(done)

    def detach(self, session: Name, *, by: str | None = None) -> None:
        """Copy what a fork inherits into it, as `Repository.detach` does; the server does it."""
        self._act("detach", session=_name(session), by=by)

    def _act(self, act: str, *, by: str | None, **options: Any) -> Any:
        return self._remote.act(act, by=self.workspace.who(by), **options)


def _name(session: Name) -> str:
    """Return what a server takes for a session."""
    return (
        session if isinstance(session, str) else str(getattr(session, "value", None) or getattr(session, "id", session))
    )


def _ahead(method: _Method, operation: str) -> _Method:
    """Return a method of a repository before which all that it reads is asked for at once."""

    @wraps(method)
    def asked(self: RemoteRepository, *args: Any, **options: Any) -> Any:
        if not _is_json([list(args), options]):
            return method(self, *args, **options)  # what cannot be sent: it reads one thing after the other
        with self._remote.ahead(operation, *args, **options):
            return method(self, *args, **options)

    return cast(_Method, asked)


def _is_json(value: object) -> bool:
    """Tell whether a value is the same after it was sent."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_json(each) for name, each in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, str):
        return value.isprintable() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    return value is None or isinstance(value, bool) or (type(value) is int and abs(value) < _GREATEST)


for _each in (*READS, *WRITES):
    setattr(RemoteRepository, _each, _ahead(getattr(Repository, _each), _each))


# --- the server's side


def perform(repository: Repository, operation: str, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Do an operation for what it reads. Raises `InvalidInput` for one that there is not, and what the operation does."""
    if operation == "open":
        return  # the repository was opened for this, which read it
    if operation == "free_names":
        session_id, label = args
        check_free_names(repository.store, repository.reader, session_id, label)
    elif operation in READS or operation in WRITES:
        result = getattr(repository, operation)(*args, **options)
        if isinstance(result, Session):
            _prepare(result)
    else:
        raise InvalidInput(f"there is no operation {operation!r:.80} that can be asked for ahead")


def _prepare(session: Session) -> None:
    """Read what an append to a session and a fork of it will read."""
    tree = session.worktree
    tree.prompt_at(len(tree.turns))
    is_mentioned(tree.workspace.store, row_names(tree.record))


def act(repository: Repository, name: str, options: Mapping[str, Any]) -> Any:
    """Do one of `ACTS` in the store that the server keeps; return what that gave, as JSON. Raises what the operation does."""
    if name not in ACTS:
        raise InvalidInput(f"there is no act {name!r:.80}; there are: {', '.join(ACTS)}")
    given = dict(options)
    if given.get("older_than") is not None:
        given["older_than"] = timedelta(seconds=given["older_than"])
    done = getattr(repository, name)(**given)
    if isinstance(done, Session):
        return done.id
    return done.model_dump(mode="json") if hasattr(done, "model_dump") else done
