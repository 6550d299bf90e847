"""One session of opencode: its messages in order, what was undone, what was summed up, and which session it is a fork of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trails.model import Compaction
from trails.transcripts import checked
from trails.transcripts.checked import Reading
from trails.transcripts.opencode import later_messages, turns
from trails.transcripts.opencode.turns import META, Json, mapping, moment, named
from trails.transcripts.source import SourceSession, SourceTurn

SOURCE: Final = "opencode"
AFTER: Final = "after"
"""The key of a session's metadata for messages that no turn follows, and that make none."""
_INFO_OWN: Final = frozenset({"id", "title", "parentID"})
_SAID: Final = ("type", "text", "tool", "callID", "prompt", "url", "hash")

Message = tuple[dict[str, Any], list[dict[str, Any]]]
"""What a message says of itself, and its parts."""


@dataclass(slots=True)
class Session:
    """What is told of one session, before its turns are made."""

    id: str
    name: str
    """The file that it came from."""
    info: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    later: list[dict[str, Any]] = field(default_factory=list)
    """Messages as opencode writes them since it keeps them whole, in `session_message`."""
    beside: dict[str, Any] = field(default_factory=dict)
    """What else is told of it, such as its list of things to do."""

    @property
    def created(self) -> float:
        """When it was made, in milliseconds since 1970; 0 where it does not say."""
        told = mapping(self.info.get("time")).get("created")
        return told if isinstance(told, int | float) and not isinstance(told, bool) else 0


def source_session(session: Session, reading: Reading, origin: Session | None = None) -> SourceSession:
    """Return a session as one that can be merged; what cannot be used is a problem of the reading.

    `origin` is a session that it may be a fork of: the messages that both begin with are then its.
    """
    copied = shared(session, origin) if origin is not None else 0
    continues, skipped = None, 0
    if origin is not None and copied:
        before, mine = (_Reader(each).path(each.messages[:copied], with_later=False) for each in (origin, session))
        if before and len(before) == len(mine):
            continues, skipped = before[-1].source_ids[-1], len(mine)
    reader = _Reader(session, reading, skipped)
    paths = [reader.path(session.messages)]
    if (kept := _kept(session)) is not None:
        paths.insert(0, _Reader(session, Reading(), skipped).path(kept))
        reading.notes.append(f"session {session.id!r}: what was undone is kept as a fork")
    last = session.messages[-1] if session.messages and not session.later else None
    return SourceSession(
        source=SOURCE,
        id=session.id,
        paths=tuple(path[skipped:] for path in paths),
        title=named(session.info.get("title")),
        created=moment(session.created) if session.created else None,
        agent=SOURCE,
        system=reader.system,
        meta=reading.meta(0, checked.filled(_meta(session) | {AFTER: reader.waiting})),
        spawned_by=named(session.info.get("parentID")),
        continues=continues,
        open_turns=_open_turns(paths[-1][skipped:], last),
        open_in=session.name,
        files=(session.name,),
        forks_at_ends=kept is not None,
    )


def _meta(session: Session) -> dict[str, Any]:
    left = {key: value for key, value in session.info.items() if key not in _INFO_OWN}
    times = {key: value for key, value in mapping(left.get("time")).items() if key != "created"}
    return left | ({"time": times} if isinstance(left.get("time"), dict) else {}) | session.beside


def _open_turns(path: Sequence[SourceTurn], last: Message | None) -> int:
    """Return how many turns at the end come from the last message, where that may still get more."""
    if last is None or not turns.is_open(last[0]):
        return 0
    ids = {last[0]["id"], *(part["id"] for part in last[1])}
    ids |= {f"{each}/result" for each in ids}
    return sum(any(each in ids for each in turn.source_ids) for turn in path)


# --- what was undone


def _kept(session: Session) -> list[Message] | None:
    """Return the messages, and parts of the last one, before the place that a user went back to; None if nobody did."""
    told = mapping(session.info.get("revert"))
    place = next((n for n, (info, _) in enumerate(session.messages) if info["id"] == told.get("messageID")), None)
    if place is None or session.later:
        return None
    info, parts = session.messages[place]
    until = next((n for n, part in enumerate(parts) if part["id"] == told.get("partID")), 0)
    return [*session.messages[:place], *([(info, parts[:until])] if until else [])]


# --- forks


def shared(session: Session, origin: Session) -> int:
    """Return how many messages a session begins with that it has from another one: equal, and said at the same moment."""
    count = 0
    for mine, theirs in zip(session.messages, origin.messages, strict=False):
        if gist(mine) != gist(theirs):
            break
        count += 1
    return count


def gist(message: Message) -> object:
    """Return what of a message stays as it is where a fork copies it: all ids are new there."""
    info, parts = message
    created = mapping(info.get("time")).get("created")
    said = [[part.get(key) for key in _SAID] + [mapping(part.get("state")).get("input")] for part in parts]
    return [info["role"], created, info.get("modelID"), said] if created is not None else object()


# --- turns


class _Reader:
    """Makes the turns of a session's messages."""

    def __init__(self, session: Session, reading: Reading | None = None, skipped: int = 0) -> None:
        self._session = session
        self._reading = Reading() if reading is None else reading
        self._skipped = skipped
        """How many turns at its beginning are another session's: indices count from there."""
        self.waiting: list[Any] = []
        """Messages that make no turn, and go with the next one."""
        self.system: str | None = None
        self._trigger: tuple[str | None, str | None] = (None, None)
        """How the compaction came about that is going on, and the first message that it keeps."""

    def path(self, messages: Sequence[Message], *, with_later: bool = True) -> tuple[SourceTurn, ...]:
        """Return the turns of some of its messages."""
        made: list[SourceTurn] = []
        places: dict[str, int] = {}
        for info, parts in messages:
            places[info["id"]] = len(made)
            self._add(made, places, info, parts)
        for message in self._session.later if with_later else ():
            self._keep(made, later_messages.turns_of(message, len(made) - self._skipped), message)
        return tuple(made)

    def _add(self, made: list[SourceTurn], places: Mapping[str, int], info: Json, parts: Sequence[Json]) -> None:
        found = turns.turns_of(self._without_system(info), parts)
        for part in parts:
            if part.get("type") == "compaction":
                auto = part.get("auto")
                trigger = ("auto" if auto else "manual") if isinstance(auto, bool) else None
                self._trigger = trigger, named(part.get("tail_start_id"))
        if found and turns.is_summary(info):
            trigger, kept = self._trigger
            first_kept = places.get(kept or "")
            summed = compaction(len(made), first_kept, trigger, self._skipped)
            found[0] = replace(found[0], compaction=summed)
            self._trigger = None, None
        self._keep(made, found, {"message": dict(info), "parts": [dict(part) for part in parts]})

    def _keep(self, made: list[SourceTurn], found: list[SourceTurn], record: Json) -> None:
        if not found:
            if self._reading.meta(0, {"record": record}):
                self.waiting.append(record)
            return
        if self.waiting:
            found[0] = replace(found[0], meta=_with(found[0], self.waiting))
        for turn in found:
            if (reason := checked.fault(turn)) is not None:
                own = str(mapping(record.get("message")).get("id") or record.get("id"))
                self._reading.refuse(0, f"message {own[:80]!r} cannot be kept: {reason}", record)
                return
        self.waiting = []
        made += found

    def _without_system(self, info: Json) -> Json:
        """Return a message without the prompt of its session, which early versions repeat in each."""
        told = info.get("system")
        if not isinstance(told, list) or not told or not all(isinstance(each, str) for each in told):
            return info
        self.system = self.system or "\n".join(told)
        return (
            {key: value for key, value in info.items() if key != "system"} if self.system == "\n".join(told) else info
        )


def _with(turn: SourceTurn, waiting: Sequence[object]) -> dict[str, Any]:
    return {**turn.meta, META: {**mapping(turn.meta.get(META)), "before": list(waiting)}}


def compaction(index: int, first_kept: int | None, trigger: str | None, skipped: int = 0) -> Compaction:
    """Return what a summary at an index stands for: all before it, or all before the first turn that is kept."""
    kept = first_kept if first_kept is not None and first_kept < index else None
    through = (kept if kept is not None else index) - 1
    return Compaction(
        summarised_through=through - skipped if through >= 0 else None,
        first_kept=None if kept is None else kept - skipped,
        trigger=trigger,
    )
