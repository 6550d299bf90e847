"""Scores, tags, refs and notes over the API."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, TypeVar

from pyoxigraph import Literal

from trails.errors import InvalidInput, SessionNotFound
from trails.history import annotation_kinds
from trails.history.lookup import names
from trails.model.values import Note
from trails.rdf import vocab
from trails.rdf.score_records import Score
from trails.serve.api import shapes
from trails.serve.api.operations import REPLAYED, Answer, Asked, Operation
from trails.serve.appends import KeyReused
from trails.session import scoring
from trails.session.repository import Repository

_Found = TypeVar("_Found")
_Mark = TypeVar("_Mark", Note, Score)


def read_scores(asked: Asked) -> dict[str, Any]:
    """Return scores of a session, a turn or the whole store."""
    query = asked.query
    found = asked.view.scores(query.ref, query.name, by=query.by, version=query.version, history=query.history)
    return {"scores": [each.to_dict() for each in found]}


def give_score(asked: Asked) -> Answer:
    """Give a score to a session, a turn or a span of turns."""
    body = asked.body
    name, turns = names.split_turns(body.ref)
    session_id = asked.view.resolve(name)
    ref = f"{session_id}#{turns}" if turns else session_id
    store, by = asked.store, asked.by(body.by)
    of = scoring.score_target(store.workspace, ref)
    wanted = (
        of.home,
        of.start,
        store.workspace.who(by),
        body.name,
        type(body.value),
        body.value,
        body.version,
        body.reason,
    )

    def is_same(stored: Score) -> bool:
        place = (stored.session_id, stored.start, stored.by_iri, stored.name)
        return wanted == (*place, type(stored.value), stored.value, stored.version, stored.reason) and (
            of.start is None or of.end == stored.end
        )  # a score of a session is of as much of it as there was when it was given

    return _once(
        asked,
        lambda score_id: annotation_kinds.find_score(store.store, score_id),
        lambda score_id: store.score(
            ref, body.name, body.value, by=by, version=body.version, reason=body.reason, id=score_id
        ),
        is_same,
    )


def remove_score(asked: Asked) -> dict[str, Any]:
    """Remove a score."""
    wanted = asked.path["score"]
    if not any(each.id == wanted for each in asked.view.scores(history=True)):
        raise SessionNotFound(f"there is no score {wanted!r:.200}; GET /api/scores lists them")
    return asked.store.remove_score(wanted, by=asked.by(asked.query.by)).to_dict()


def _there(get: Callable[[str], _Found], name: str) -> _Found:
    """Return what the path names; raise `SessionNotFound`, which is a 404, if it is not there."""
    try:
        return get(name)
    except InvalidInput as error:
        raise SessionNotFound(error.message) from None


def list_tags(asked: Asked) -> dict[str, Any]:
    """Return the tags of a session, or all."""
    return {"tags": [each.to_dict() for each in asked.view.tags.list(asked.query.session)]}


def add_tag(asked: Asked) -> dict[str, Any]:
    """Make a tag."""
    place = names.parse_revision(asked.view.workspace, asked.body.ref)
    ref = place.session_id if place.end is None else f"{place.session_id}@{place.end}"
    return asked.store.tags.add(asked.path["tag"], ref, by=asked.by(asked.body.by)).to_dict()


def remove_tag(asked: Asked) -> dict[str, Any]:
    """Remove a tag."""
    tag = _there(asked.view.tags.get, asked.path["tag"])
    return asked.store.tags.remove(tag.name, by=asked.by(asked.query.by)).to_dict()


def list_refs(asked: Asked) -> dict[str, Any]:
    """Return the refs of a session, or all."""
    return {"refs": [each.to_dict() for each in asked.view.refs.list(asked.query.session)]}


def set_ref(asked: Asked) -> dict[str, Any]:
    """Make a ref, or move it."""
    body, name = asked.body, asked.path["ref"]
    before = asked.store.refs.find(name)
    if before is not None and asked.view.refs.find(name) is None:
        raise SessionNotFound("there is nothing of that name; list what there is")
    options: dict[str, Any] = {"by": asked.by(body.by)}
    if "expected" in body.model_fields_set:
        is_there = before is not None and before.revision == body.expected
        options["expected"] = before if is_there or before is None else None
        if body.expected is not None and not is_there:
            from trails.errors import HeadConflict  # noqa: PLC0415 - only where a ref has moved

            actual = None if before is None else before.revision
            raise HeadConflict(
                f"the ref {name!r} is at {actual!r}, expected {body.expected!r}; nothing was written",
                expected=body.expected,
                actual=actual,
            )
    return asked.store.refs.set(name, asked.view.resolve(body.session), body.at, **options).to_dict()


def remove_ref(asked: Asked) -> dict[str, Any]:
    """Remove a ref."""
    ref = _there(asked.view.refs.get, asked.path["ref"])
    return asked.store.refs.remove(ref.name, expected=ref, by=asked.by(asked.query.by)).to_dict()


def list_notes(asked: Asked) -> dict[str, Any]:
    """Return the notes on a session's turns."""
    return {"notes": [each.to_dict() for each in asked.view.notes.list(asked.session)]}


def add_note(asked: Asked) -> Answer:
    """Write a note on a turn."""
    body, store, by = asked.body, asked.store, asked.by(asked.body.by)
    session_id = asked.session

    def is_same(stored: Note) -> bool:
        on_turn = {each.id for each in store.notes.list(session_id, body.index)}
        return stored.id in on_turn and (stored.text, stored.author_iri) == (body.text, store.workspace.who(by))

    return _once(
        asked,
        store.notes.find,
        lambda note_id: store.notes.add(session_id, body.index, body.text, by=by, id=note_id),
        is_same,
    )


def _once(
    asked: Asked,
    find: Callable[[str], _Mark | None],
    make: Callable[[str | None], _Mark],
    is_same: Callable[[_Mark], bool],
) -> Answer:
    """Return the mark that a request makes, or the one that it made when it came with its key before.

    Raises `KeyReused` if another request came with the key, or if its mark was removed since.
    """
    mark_id = asked.id_by_key
    stored = None if mark_id is None else find(mark_id)
    if mark_id is None or stored is None:
        if mark_id is not None and _is_removed(asked.store, mark_id):
            raise KeyReused(
                f"what came with the Idempotency-Key {asked.key!r} was removed; use a new key for each request"
            )
        try:
            return Answer(make(mark_id).to_dict(), HTTPStatus.CREATED)
        except InvalidInput:
            stored = None if mark_id is None else find(mark_id)
            if stored is None:
                raise  # else it was sent twice at once
    if not is_same(stored):
        raise KeyReused(
            f"the Idempotency-Key {asked.key!r} was used for another request; use a new key for each request"
        )
    return Answer(stored.to_dict(), HTTPStatus.CREATED, REPLAYED)


def _is_removed(store: Repository, mark_id: str) -> bool:
    kinds = (vocab.REMOVED_NOTE, vocab.REMOVED_SCORE)
    return any(store.store.quads((None, kind, Literal(mark_id), vocab.CATALOG)) for kind in kinds)


def remove_note(asked: Asked) -> dict[str, Any]:
    """Remove a note."""
    note = _there(asked.view.notes.get, asked.path["note"])
    return asked.store.notes.remove(note.id, by=asked.by(asked.query.by)).to_dict()


_WRITES: Final[dict[str, Any]] = {"right": "write"}
OPERATIONS: Final = (
    Operation("GET", "/scores", "readScores", "Read scores.", read_scores, shapes.Scores, query=shapes.ReadScores),
    Operation(
        "POST", "/scores", "giveScore", "Give a score to a session, a turn or a span of turns.", give_score,
        shapes.Plain, body=shapes.NewScore, status=201, **_WRITES,
    ),
    Operation(
        "DELETE", "/scores/{score}", "removeScore", "Remove a score.", remove_score, shapes.Plain, query=shapes.By,
        **_WRITES,
    ),
    Operation("GET", "/tags", "listTags", "List tags.", list_tags, shapes.Tags, query=shapes.OfSession),
    Operation("PUT", "/tags/{tag}", "addTag", "Make a tag.", add_tag, shapes.Plain, body=shapes.NewTag, **_WRITES),
    Operation(
        "DELETE", "/tags/{tag}", "removeTag", "Remove a tag.", remove_tag, shapes.Plain, query=shapes.By, **_WRITES,
    ),
    Operation("GET", "/refs", "listRefs", "List refs.", list_refs, shapes.Refs, query=shapes.OfSession),
    Operation("PUT", "/refs/{ref}", "setRef", "Make a ref, or move it.", set_ref, shapes.Plain, body=shapes.SetRef, **_WRITES),
    Operation(
        "DELETE", "/refs/{ref}", "removeRef", "Remove a ref.", remove_ref, shapes.Plain, query=shapes.By, **_WRITES,
    ),
    Operation(
        "GET", "/sessions/{session}/notes", "listNotes", "List the notes on a session's turns.", list_notes, shapes.Notes,
    ),
    Operation(
        "POST", "/sessions/{session}/notes", "addNote", "Write a note on a turn.", add_note, shapes.Plain,
        body=shapes.NewNote, status=201, **_WRITES,
    ),
    Operation(
        "DELETE", "/notes/{note}", "removeNote", "Remove a note.", remove_note, shapes.Plain, query=shapes.By, **_WRITES,
    ),
)  # fmt: skip
