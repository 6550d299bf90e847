"""Sessions over the API: list, create, read, fork, label, delete, redact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyoxigraph import Literal

from trails.errors import InvalidInput
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.codec import subject_of
from trails.serve.access import Forbidden
from trails.serve.answers import entity_tag, render
from trails.serve.api import shapes
from trails.serve.api.operations import (
    REPLAYED,
    Answer,
    Asked,
    Operation,
    expected_head,
)
from trails.serve.api.turns import appended, turn_arguments
from trails.serve.appends import KeyReused, moved_on
from trails.serve.taken_names import check_free, check_label
from trails.serve.transcripts import head_at
from trails.session.repository import Repository
from trails.session.session import Session


def list_sessions(asked: Asked) -> dict[str, Any]:
    """Return a page of sessions with what tells them apart."""
    wanted = asked.query.model_dump(exclude={"at", "meta"}, exclude_none=True)
    page = asked.view.summaries(**wanted, meta=_pairs(asked.query.meta))
    return {"sessions": [each.to_dict() for each in page], "cursor": page.cursor}


def _pairs(given: Sequence[str]) -> dict[str, str] | None:
    pairs = [each.partition("=") for each in given]
    if not all(name and sign for name, sign, _ in pairs):
        raise InvalidInput(f"meta is KEY=VALUE, not {next(each for each in given if '=' not in each[1:])!r:.80}")
    return {name: value for name, _, value in pairs} or None


def get_session(asked: Asked) -> Answer:
    """Return a session's row, head and length."""
    return _described(asked.view, asked.session)


def _described(store: Repository, session_id: str, status: int = 200, **headers: str) -> Answer:
    chain = store.reader.lineage(session_id)
    length = store.reader.length(chain)
    value = chain[0].to_dict() | {"head": head_at(store, chain, length), "length": length}
    return Answer(value, status, {"ETag": entity_tag(value["head"], render(value)), **headers})


def create_session(asked: Asked) -> Answer:
    """Create a session with its first turns, in one commit."""
    body = asked.body
    session_id: str | None = body.id or asked.id_by_key
    if (repeat := _repeat(asked)) is not None:
        return repeat
    principal = _principal(asked, body.principal)
    if body.spawned_by is not None:
        asked.view.record(body.spawned_by)
    given = body.model_dump(include={"agent", "label", "kind", "meta", "system", "created", "spawned_by"})
    check_free(asked.store, session_id, body.label)
    try:
        made = asked.store.create(id=session_id, principal=principal, **given)
        return _stored(made, asked)
    except InvalidInput:
        if (repeat := _repeat(asked)) is None:
            raise
        return repeat  # it was sent twice at once


def fork_session(asked: Asked) -> Answer:
    """Fork a session and append the fork's first turns, in one commit."""
    body, parent_id = asked.body, asked.session
    fork_id: str | None = body.id or asked.id_by_key
    expected = expected_head(asked.headers)
    if (repeat := _repeat(asked)) is not None:
        return repeat
    parent = asked.store.load(parent_id, last=0)
    if expected is not None:
        check_head(parent, expected)
    given = body.model_dump(include={"agent", "label", "kind", "meta"})
    principal = None if body.principal is None else _principal(asked, body.principal)
    check_free(asked.store, fork_id, body.label)
    try:
        made = parent.fork(body.at, id=fork_id, principal=principal, by=asked.by(body.by), **given)
        return _stored(made, asked)
    except InvalidInput:
        if (repeat := _repeat(asked)) is None:
            raise
        return repeat  # it was sent twice at once


def check_head(session: Session, expected: str) -> None:
    """Raise `HeadConflict` for a session with another head than is expected."""
    if session.head != expected:
        raise moved_on(session, expected)


def _stored(made: Session, asked: Asked) -> Answer:
    if asked.key is not None:
        made.worktree.change_record(request_key=asked.id_by_key, request_digest=asked.digest)
    for turn in turn_arguments(asked.body.turns):
        made.append(**turn)
    made.persist()
    return _made(made, len(made))


def _made(session: Session, length: int) -> Answer:
    turns = session[len(session) if length == 0 else session.record.starts_at : length]
    head = turns[-1].digest if turns else session.worktree.turns.below(length).head
    value = session.record.to_dict() | appended(session.id, head, length, turns)
    place = f"/api/sessions/{_quoted(session.id)}"
    return Answer(value, 201, {"ETag": entity_tag(head), "Location": place})


def _quoted(session_id: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - needed only here

    return quote(session_id, safe="")


def _repeat(asked: Asked) -> Answer | None:
    """Return what the request that came with this key before was answered; None if there was none.

    Raises `KeyReused` if it was another request.
    """
    key = asked.id_by_key
    if key is None:
        return None
    rows = asked.store.store.quads((None, vocab.REQUEST_KEY, Literal(key), vocab.CATALOG))
    if not rows:
        return None
    session = asked.view.load(iris.session_id(subject_of(rows[0])))
    if session.record.request_digest != asked.digest:
        raise KeyReused(
            f"the Idempotency-Key {asked.key!r} was used for another request; use a new key for each request"
        )
    start, turns = session.record.starts_at, asked.body.turns
    named = {each.source_id for each in turns} - {None}
    own = [
        turn for each in named if (turn := session.worktree.turn_of_source(each)) is not None and turn.index >= start
    ]
    length = start + sum(each.source_id is None for each in turns) + len(own)
    answer = _made(session, length)
    return Answer(answer.value, answer.status, {**answer.headers, **REPLAYED})


def _principal(asked: Asked, given: str | None) -> str | None:
    """Return for whom a session is made; raise `Forbidden` for one that its maker would not see."""
    own = asked.caller.principal
    if given is None or asked.sees_all or given == own:
        return own if given is None else given
    raise Forbidden(f"{own!r} cannot make sessions for {given!r}; leave `principal` out, or ask for a token for all")


def set_label(asked: Asked) -> Answer:
    """Give a session a label, or take it away."""
    session_id = asked.session
    check_label(asked.store, session_id, asked.body.label)
    asked.store.set_label(session_id, asked.body.label, by=asked.by(asked.body.by))
    return _described(asked.store, session_id)


def delete_session(asked: Asked) -> dict[str, Any]:
    """Delete a session."""
    wanted = asked.query
    deleted = asked.store.delete(
        asked.path["session"], children=wanted.children, by=asked.by(wanted.by), reason=wanted.reason
    )
    return {"deleted": list(deleted)}


def redact_turn(asked: Asked) -> Mapping[str, Any]:
    """Redact a turn and all its copies."""
    body = asked.body
    return asked.store.redact(asked.path["session"], body.index, by=asked.by(body.by), reason=body.reason).to_dict()


OPERATIONS: Final = (
    Operation(
        "GET", "/sessions", "listSessions", "List sessions, a page at a time.", list_sessions, shapes.SessionPage,
        query=shapes.ListSessions,
    ),
    Operation(
        "POST", "/sessions", "createSession", "Create a session with its first turns, in one commit.", create_session,
        shapes.Session, body=shapes.NewSession, status=201, right="write",
    ),
    Operation(
        "GET", "/sessions/{session}", "getSession", "Read a session's row, head and length.", get_session, shapes.Session,
        query=shapes.AsOf, has_tag=True,
    ),
    Operation(
        "DELETE", "/sessions/{session}", "deleteSession", "Delete a session; its tombstone stays.", delete_session,
        shapes.Deleted, query=shapes.Delete, right="admin",
    ),
    Operation(
        "POST", "/sessions/{session}/forks", "forkSession", "Fork a session, and append the fork's first turns.",
        fork_session, shapes.Session, body=shapes.NewFork, status=201, right="write", takes_match=True,
    ),
    Operation(
        "PUT", "/sessions/{session}/label", "setLabel", "Give a session a label, or take it away.", set_label,
        shapes.Session, body=shapes.SetLabel, right="write",
    ),
    Operation(
        "POST", "/sessions/{session}/redactions", "redactTurn", "Take the content out of a turn for good.", redact_turn,
        shapes.Plain, body=shapes.NewRedaction, right="admin",
    ),
)  # fmt: skip
