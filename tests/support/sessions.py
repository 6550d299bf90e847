"""What is said in a session, and what stands in it then."""

from __future__ import annotations

from typing import Any

from trails import Repository, Session


def say(session: Session, *texts: str) -> Session:
    for text in texts:
        session.append("user", text)
    session.persist()
    return session


def introduce(store: Repository, *names: str) -> None:
    """Make sessions that say their names."""
    for name in names:
        say(store.create(id=name), f"I am {name}")


def introduced(store: Repository) -> tuple[list[str], list[str]]:
    """Return the sessions that the index tells of: by its figures, and by its texts."""
    return [each.id for each in store.summaries()], [hit.session_id for hit in store.search("i am")]


def contents(store: Repository, session_id: str = "main") -> list[Any]:
    return [turn.content for turn in store.load(session_id).turns]
