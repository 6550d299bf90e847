"""What is said in a session, and what stands in it then."""

from __future__ import annotations

from typing import Any

from trails import Repository, Session


def say(session: Session, *texts: str) -> Session:
    for text in texts:
        session.append("user", text)
    session.persist()
    return session


def contents(store: Repository, session_id: str = "main") -> list[Any]:
    return [turn.content for turn in store.load(session_id).turns]
