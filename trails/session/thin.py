"""A store in PostgreSQL as a worker sees it that holds no more of it than the sessions that it works on."""

from __future__ import annotations

from typing import Any, Final, NoReturn, cast

from trails.session.repository import Repository
from trails.store.postgres.thin import ThinStore

_ANSWERED: Final = frozenset(
    {
        "branches", "checkout", "close", "commit", "context", "create", "diff", "load", "notes", "payload", "record", "refresh",
        "refs", "replay", "resolve", "session", "set_label", "sync", "tags",
        "as_of", "limits", "reader", "read_only", "store", "workspace",
    }
)  # fmt: skip
"""What a thin store has of `Repository`: all that needs no more than the sessions that are named."""


class ThinRepository(Repository, public=True):
    """A store of sessions in PostgreSQL that was opened with `thin=True`. Get one from `trails.open`.

    Sessions are made, loaded, replayed, forked and appended to as in any store; tags, refs and notes are there, too. What needs
    all sessions, or takes text out of the store, raises `NeedsWholeStore`.
    """

    def _sweep(self) -> None:
        """Leave what is half done in the store to those who open it whole."""

    def _recover_streams(self) -> None:
        """There is no folder in which anything was streamed."""

    @property
    def _thin(self) -> ThinStore:
        return cast(ThinStore, self.store)


def _refusing(name: str) -> Any:
    def refuse(self: ThinRepository, *_: Any, **__: Any) -> NoReturn:
        raise self._thin.needs_whole(f"{name}()")

    refuse.__name__ = name
    refuse.__doc__ = "Raise `NeedsWholeStore`: this needs all sessions, or takes text out of the store."
    return refuse


for _name, _member in [(each, getattr(Repository, each)) for each in dir(Repository)]:
    if (_name.startswith("_") and _name not in ("__iter__", "__len__")) or _name in _ANSWERED:
        continue
    _made = _refusing(_name)
    setattr(ThinRepository, _name, property(_made) if isinstance(_member, property) else _made)
