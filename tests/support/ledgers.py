"""A session with a ledger, what stands in it, and a handler that answers."""

from __future__ import annotations

import trails
from trails import Repository
from trails.runtime.message_exchanges import Running


def session_of(store: Repository, *contents: str, name: str = "main") -> trails.Session:
    session = store.create(id=name, agent="clerk")
    for content in contents:
        session.append("user", content)
    session.persist()
    return session


def echo(running: Running) -> str:
    return f"re: {running.messages[-1].content}"
