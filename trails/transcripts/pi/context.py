"""What pi itself would show its model of an imported session: at its leaf, or at any entry of its file.

The rules are pi's (`buildSessionContext` in session-manager.ts, MIT), in own words: the path from the root to the leaf; the
latest compaction on it stands for what came before the first entry that it kept; model and thinking level are those
last set on the whole path, by an assistant's message or by a change; an entry that is not there means the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyoxigraph import Literal

from trails import iris, vocab
from trails.context.assembling import Context, assemble
from trails.model import SessionRecord, Turn
from trails.plumbing.transcript import stored_length
from trails.session import Repository
from trails.session.assembly import since_summary
from trails.transcripts.pi import session_file

LAST: Final = ""
"""The leaf that a session goes on from: the last entry."""
_OFF: Final = "off"
_Json = dict[str, Any]
_Model = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PiContext:
    """A context, with the thinking level and the model (`provider` and `modelId`) that are set there."""

    context: Context
    thinking_level: str = _OFF
    model: _Model | None = None


def read(repository: Repository, session: str, leaf: str | None = LAST) -> PiContext:
    """Return what pi shows its model of an imported session.

    `session` is an id or an IRI. `leaf` is the id of an entry in the session's file, on any of its branches: None stands
    for the place before the first entry; one that is not known means the last entry of `session`, as pi reads it. A
    label or a name stands for the entry that it follows. Raises as `Repository.load` does.
    """
    record = repository.record(session)
    if leaf is None:
        return PiContext(assemble([]))
    found = _path_to(repository, record, leaf) or _path_to(repository, record, _last_line(repository, record))
    turns, between = found or _whole(repository, record.id)
    level, model = _settings(turns, between)
    summary, kept = since_summary(turns)
    shown = [turn for turn in kept if turn.text or turn.role != "branch_summary"]
    return PiContext(assemble(shown, summary=summary), level, model)


_Path = tuple[Sequence[Turn], Sequence[_Json]]
"""The turns of a path, and the entries without a turn after the last of them."""


def _whole(repository: Repository, session_id: str) -> _Path:
    loaded = repository.load(session_id)
    chain = repository.reader.lineage(session_id)
    return loaded.turns, session_file.entries_after(chain, loaded.turns[-1].source_ids if loaded.turns else ())


def _last_line(repository: Repository, record: SessionRecord) -> str:
    """Return the id of a file's last line where it stands in the middle of the session's turns, else `LAST`."""
    match record.meta.get(session_file.LEAF):
        case [str(leaf), int(turns)]:
            reader = repository.reader
            chains = [reader.lineage(session_id) for session_id in _family(repository, record)]
            if sum(stored_length(reader, chain) - chain[0].starts_at for chain in chains) == turns:
                return leaf
    return LAST


def _path_to(repository: Repository, record: SessionRecord, leaf: str) -> _Path | None:
    """Return the path to an entry, also to a label or a name; None where there is none."""
    if leaf == LAST:
        return None
    aside: dict[str, str] = {}
    for session_id in _family(repository, record):
        noted = repository.record(session_id).meta.get(session_file.ASIDE)
        aside |= noted if isinstance(noted, dict) else {}
    if leaf not in aside:
        return _before(repository, record, leaf)
    followed: set[str] = set()
    while leaf in aside and leaf not in followed:
        followed.add(leaf)
        leaf = aside[leaf]
    return _before(repository, record, leaf) or ((), ())


def _before(repository: Repository, record: SessionRecord, leaf: str) -> _Path | None:
    """Return the path to an entry, in any of the sessions that came from the same file; None where there is none."""
    family = _family(repository, record)
    if made := _turns_to(repository, family, leaf):
        return made, ()
    for session_id in family:
        turns, after = _whole(repository, session_id)
        for turn in turns:
            if (upto := _up_to(turn.meta.get("piBefore", ()), leaf)) is not None:
                return turns[: turn.index], upto
        if (upto := _up_to(after, leaf)) is not None:
            return turns, upto
    return _beside(repository, family, leaf)


def _beside(repository: Repository, family: Sequence[str], leaf: str) -> _Path | None:
    """Return the path to an entry at the end of a branch that has no turns of its own; None where there is none."""
    for session_id in family:
        noted = repository.record(session_id).meta.get(session_file.AFTER)
        for turn, entries in noted.items() if isinstance(noted, dict) else ():
            if (upto := _up_to(entries, leaf)) is not None:
                return _turns_to(repository, family, turn), upto
    return None


def _turns_to(repository: Repository, family: Sequence[str], entry: str) -> Sequence[Turn]:
    """Return the turns up to the one that an entry made; none where it made none."""
    for quad in repository.store.quads((None, vocab.SOURCE_ID, Literal(entry), None)):
        found = str(quad.subject.value)  # type: ignore[union-attr] # a turn's IRI
        if iris.session_id(found) in family:
            return repository.load(iris.session_id(found)).turns[: iris.turn_index(found) + 1]
    return ()


def _family(repository: Repository, record: SessionRecord) -> list[str]:
    """Return the ids of the sessions that came from the same file, the session itself first."""
    if record.source_session is None:
        return [record.id]
    quads = repository.store.quads((None, vocab.SOURCE_SESSION, Literal(record.source_session), vocab.CATALOG))
    found = sorted(iris.session_id(quad.subject.value) for quad in quads)  # type: ignore[union-attr] # sessions' IRIs
    return sorted(found, key=lambda each: each != record.id)


def _up_to(entries: object, leaf: str) -> list[_Json] | None:
    """Return the entries up to and with one, or None where it is not among them."""
    kept: list[_Json] = []
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            kept.append(entry)
            if entry.get("id") == leaf:
                return kept
    return None


def _settings(turns: Sequence[Turn], between: Sequence[_Json]) -> tuple[str, _Model | None]:
    """Return the thinking level and the model that were set last."""
    level: str = _OFF
    model: _Model | None = None
    for turn in turns:
        meta = turn.meta
        level, model = _changed(meta.get("piBefore", ()), level, model)
        if turn.role == "assistant":
            left = meta.get("pi")
            message = left.get("message") if isinstance(left, dict) else None
            provider = message.get("provider") if isinstance(message, dict) else None
            model = {"provider": provider, "modelId": turn.model}
    return _changed(between, level, model)


def _changed(entries: Iterable[Any], level: str, model: _Model | None) -> tuple[str, _Model | None]:
    for entry in entries:
        match entry:
            case {"type": "thinking_level_change", "thinkingLevel": str(set_to)}:
                level = set_to
            case {"type": "model_change", **change}:
                model = {"provider": change.get("provider"), "modelId": change.get("modelId")}
    return level, model
