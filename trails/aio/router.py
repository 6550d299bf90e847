"""The await forms of sessions by key."""

from __future__ import annotations

from typing import Any

from trails.aio.session import session_of
from trails.aio.workers import Twin, here, in_thread
from trails.runtime.routing import Router
from trails.runtime.routing.access_rules import View


class AsyncView(Twin[View]):
    """What a sandboxed session may see: itself and what it spawned, to be asked in SPARQL."""

    @property
    def sessions(self) -> tuple[str, ...]:
        """The ids of the sessions that it sees, in order."""
        return self.sync.sessions

    query = in_thread(View.query, leave=True)
    select = in_thread(View.select, leave=True)
    ask = in_thread(View.ask, leave=True)
    construct = in_thread(View.construct, leave=True)


def _view(twin: Twin[Any], made: View) -> AsyncView:
    return AsyncView(made, twin.workers)


class AsyncRouter(Twin[Router]):
    """The sessions of a store by key. Get one by `await store.router(config=...)`."""

    @classmethod
    def of(cls, twin: Twin[Any], made: Router) -> AsyncRouter:
        """Not for callers: see `AsyncRepository.router`."""
        return cls(made, twin.workers)

    key = here(Router.key)
    key_of = in_thread(Router.key_of)
    route = in_thread(Router.route)
    session = in_thread(Router.session, session_of)
    reset = in_thread(Router.reset)
    resolve = in_thread(Router.resolve)
    list = in_thread(Router.list)
    sessions = in_thread(Router.sessions)
    entry = in_thread(Router.entry)
    patch = in_thread(Router.patch)
    merge = in_thread(Router.merge)
    count = in_thread(Router.count)
    alias = in_thread(Router.alias)
    unalias = in_thread(Router.unalias)
    aliases = in_thread(Router.aliases)
    promote = in_thread(Router.promote)
    merge_into = in_thread(Router.merge_into)
    moves = in_thread(Router.moves)
    migrate = in_thread(Router.migrate)
    undo = in_thread(Router.undo)
    may_send = in_thread(Router.may_send)
    should_respond = in_thread(Router.should_respond)
    may_message = in_thread(Router.may_message)
    history = in_thread(Router.history)
    view = in_thread(Router.view, _view)
    query = in_thread(Router.query, leave=True)
    check = in_thread(Router.check)
    delete = in_thread(Router.delete)
