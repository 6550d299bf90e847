"""The tools that write, which `trails mcp --write` offers: nothing that is stored is changed or deleted by them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from trails.adapters.mcp.reading import Session
from trails.session.repository import Repository

SetMeta = Annotated[dict[str, str | int | float | bool] | None, Field(description="Facts to find the session by")]


class Written(TypedDict):
    """What was stored."""

    session: str
    turns: int
    """How many turns the session has now."""
    head: str
    """The digest of its last turn."""


class Noted(TypedDict):
    """What was noted beside the turns."""

    id: str
    session: str


class WritingTools:
    """What a model can add to a store. Each method is a tool; its docstring is what the model reads."""

    def __init__(self, store: Repository) -> None:
        self._store = store

    def create_session(
        self,
        label: Annotated[str | None, Field(description="A name that no other session has")] = None,
        principal: Annotated[str | None, Field(description="Whom the session runs for")] = None,
        agent: Annotated[str | None, Field(description="What runs the session")] = None,
        meta: SetMeta = None,
    ) -> Written:
        """Begin a session."""
        session = self._store.create(label=label, principal=principal, agent=agent, meta=meta)
        session.persist()
        return _written(session)

    def append_turn(
        self,
        session: Session,
        role: Annotated[str, Field(description="user, assistant, tool, ...")],
        content: str,
        source_id: Annotated[
            str | None, Field(description="Your own id of the message: with it, a second call adds nothing")
        ] = None,
    ) -> Written:
        """Add a turn at the end of a session."""
        loaded = self._store.load(session, last=0)
        loaded.append(role, content, source_id=source_id)
        loaded.persist()
        return _written(loaded)

    def fork_session(
        self,
        session: Session,
        at: Annotated[int | None, Field(ge=0, description="How many turns the fork shares; default all")] = None,
        label: str | None = None,
        meta: SetMeta = None,
    ) -> Written:
        """Begin a fork: a session that shares the first turns of another, and goes on by itself."""
        fork = self._store.load(session, last=0).fork(at=at, label=label, meta=meta)
        fork.persist()
        return _written(fork)

    def add_note(self, session: Session, index: Annotated[int, Field(ge=0)], text: str) -> Noted:
        """Write a note on a turn, which stands beside the transcript."""
        note = self._store.notes.add(session, index, text)
        return Noted(id=note.id, session=note.session_id)

    def add_tag(
        self,
        name: str,
        session: Annotated[str, Field(description="A session, or session@N for its first N turns")],
    ) -> Noted:
        """Name a session's transcript as it is now, for good."""
        tag = self._store.tags.add(name, session)
        return Noted(id=tag.name, session=tag.session_id)

    def add_score(
        self,
        session: Session,
        name: str,
        value: float | bool | str,
        index: Annotated[int | None, Field(ge=0, description="One turn; default the whole session")] = None,
        reason: str | None = None,
    ) -> Noted:
        """Score a session, or one turn of it."""
        target: Any = session if index is None else (session, index)
        score = self._store.score(target, name, value, reason=reason)
        return Noted(id=score.id, session=score.session_id)


def _written(session: Any) -> Written:
    return Written(session=session.id, turns=len(session), head=session.head)
