"""Put what became of files in a folder on the turns that a watcher brings in.

A change is a turn's only where that follows from what is known: the file was changed while a tool ran, between the turn before
and the one that has the tool's answer. Everything else is said to be of unknown origin.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from trails.errors import TrailsError
from trails.exchange.source_transcript import SourceTurn
from trails.model import file_versions
from trails.model.file_versions import FileChange, FileVersion
from trails.session import Session
from trails.session.work_folder import FileLeftOut, WorkFolder

_SLACK: Final = 0.05
"""Seconds by which the clocks of a file system and of a transcript may differ."""
_TOGETHER: Final = 60.0
"""Seconds within which another session's turns make it doubtful which of the two changed a file."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What was recorded of the files in a session: with how many turns, and the digest of the last of them."""

    length: int = 0
    head: str = ""
    files: dict[str, FileChange] = field(default_factory=dict)
    is_begun: bool = False
    """Whether any turn has recorded a file: what is found before that was there before."""


@dataclass(slots=True)
class WorkRecorder:
    """Looks at folders in which agents work, whenever new turns of an agent come in that works there."""

    folders: Sequence[WorkFolder]
    began: float
    """Since when the folders are watched: what a session did before is not known."""
    left_out: dict[FileLeftOut, None] = field(default_factory=dict)
    """What was left out, in the order in which that was seen."""
    _known: dict[str, _Recorded] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)
    """When each session last got turns, by the turns' own times."""

    def attach(self, session: Session, turns: Sequence[SourceTurn]) -> list[SourceTurn]:
        """Return new turns of a session with what became of files while they were made."""
        made = list(turns)
        times = [_seconds(turn.time) for turn in made]
        last = max((time for time in times if time is not None), default=None)
        if not made or last is None or last < self.began:
            return made
        for folder in self.folders:
            if _works_in(session, folder.root):
                made = self._attached(session, made, times, folder)
        self._last[session.id] = last
        return made

    def _attached(
        self, session: Session, turns: list[SourceTurn], times: list[float | None], folder: WorkFolder
    ) -> list[SourceTurn]:
        left_out: list[FileLeftOut] = []
        known = self._recorded(session)
        try:
            found = folder.look([*known.files.values()], left_out)
        except (TrailsError, OSError) as error:  # the turns come in all the same
            self.left_out[FileLeftOut(str(folder.root), f"cannot be looked at: {error}")] = None
            return turns
        placed: dict[int, list[FileVersion]] = {}
        for version, changed in found:
            place = _place_of(changed, times) if known.is_begun else len(turns) - 1
            if place is None:
                continue  # it was changed after these turns: the next ones may explain it
            is_known = known.is_begun and self._is_explained(session, turns, place, changed, version.path)
            update = {"turns": _span(turns, place)} if is_known else {"outside": True}
            placed.setdefault(place, []).append(version.model_copy(update=update))
        self.left_out.update(dict.fromkeys(left_out))
        return [
            replace(turn, payloads=(*turn.payloads, *(each.payload for each in placed.get(number, ()))))
            for number, turn in enumerate(turns)
        ]

    def _recorded(self, session: Session) -> _Recorded:
        """Return what is recorded of files in a session; of its turns, only those that are new are read."""
        known, turns = self._known.get(session.id, _Recorded()), session.turns
        if known.length > len(turns) or (known.length and turns[known.length - 1].digest != known.head):
            known = _Recorded()
        tree, files = session.worktree, dict(known.files)
        is_encrypted = tree.record.encryption is not None
        for change in file_versions.file_changes(turns[known.length :], tree.payload, encrypted=is_encrypted):
            files[change.path] = change
        there = {path: change for path, change in files.items() if change.mode != "deleted"}
        head = turns[-1].digest if len(turns) else ""
        self._known[session.id] = _Recorded(len(turns), head, there, known.is_begun or bool(files))
        return self._known[session.id]

    def _is_explained(
        self, session: Session, turns: Sequence[SourceTurn], place: int, changed: float | None, path: str
    ) -> bool:
        """Tell whether turns up to a place are known to have changed a file: a tool ran then, and no other agent was there."""
        if not (_has_answer(turns[place]) if changed is not None else any(map(_has_answer, turns))):
            return False
        before = session.turns[-1].time if len(session.turns) else None
        if changed is not None and before is not None and changed < before.timestamp() - _SLACK:
            return False
        now = (
            changed if changed is not None else max(filter(None, (_seconds(turn.time) for turn in turns)), default=0.0)
        )
        tree = session.worktree
        kin = {tree.record.spawned_by, *(each.id for each in tree.chain)}
        others = [each for each, time in self._last.items() if each not in kin and abs(time - now) < _TOGETHER]
        if all(_spawner(session, each) == session.id for each in others):
            return True
        name = path.rpartition("/")[2]
        return any(name in json.dumps(turn.content, ensure_ascii=False) for turn in turns[: place + 1])


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def _place_of(changed: float | None, times: Sequence[float | None]) -> int | None:
    """Return the first turn that was made after a change; the last one where that is not known, None where none was."""
    if changed is None or None in times:
        return len(times) - 1
    return next((place for place, time in enumerate(times) if time is not None and time >= changed - _SLACK), None)


def _span(turns: Sequence[SourceTurn], place: int) -> int:
    """Return how many turns up to a place may have changed a file: from the first one on that has a tool's answer."""
    return place + 1 - next((number for number in range(place) if _has_answer(turns[number])), place)


def _has_answer(turn: SourceTurn) -> bool:
    """Tell whether a turn has a tool's answer: the tool ran before it."""
    return turn.role == "tool" or bool(turn.tool_results) or turn.tool_call_id is not None


def _works_in(session: Session, root: Path) -> bool:
    """Tell whether an agent is known to work in a folder, below it or above it."""
    said = (record.meta.get("cwd") for record in session.worktree.chain)
    cwd = next((each for each in said if isinstance(each, str) and each), None)
    if cwd is None:
        return False
    place = Path(cwd).resolve()
    return place.is_relative_to(root) or root.is_relative_to(place)


def _spawner(session: Session, other: str) -> str | None:
    """Return what spawned another session; None where nothing did, or it is not there any more."""
    with suppress(TrailsError):
        return session.worktree.workspace.reader.record(other).spawned_by
    return None
