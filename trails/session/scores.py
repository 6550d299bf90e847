"""Scores: what a session, a turn or a span of turns is found to be worth, beside the chain and never in it."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pyoxigraph import Literal

from trails import iris, validate, vocab
from trails.errors import InvalidInput
from trails.integrity import digests
from trails.legible import count
from trails.model import SessionRecord, Turn
from trails.plumbing import leaves, marks, names, scores
from trails.plumbing.names import Name
from trails.plumbing.transaction import Refusal, Transaction
from trails.plumbing.workspace import Workspace
from trails.records.deeds import author_type
from trails.records.scores import Score, ScoreValue, score_quads, sealed
from trails.records.turns import turn_type
from trails.session import unmarking
from trails.tables import Kind, PlainTable, Tabular, kind_of

ScoreRef = Name | Turn | tuple[Name, int] | tuple[Name, int, int]
"""What is scored: a session by its id, IRI or label, a tag, which is a span of turns from the first; a `Turn`; a name and an
index; a name, an index and an exclusive end. As a text, a turn is `plan#3` and a span `plan#2:5`."""

MOST_EXACT: Final = 2**53
"""Whole numbers beyond this cannot be told apart once they are reckoned with."""
_PLACE: Final = re.compile(r"(.+)#([0-9]{1,12})(?::([0-9]{1,12}))?", re.DOTALL)
_TURN_IRI: Final = re.compile(r"urn:trails:session:[^/]+/[0-9]{1,12}-[0-9a-f]{16}")


class Scores(list[Score], Tabular):
    """A list of scores, which a notebook shows as a table and which can be taken as a data frame."""

    def __repr__(self) -> str:
        return f"<Scores: {count(len(self), 'score')}>"

    def table(self) -> PlainTable:
        """Return them as a table: of what, name, value, scorer, version, reason and time."""
        cells = [
            {
                "session": score.session_id, "on": score.on, "start": score.start, "end": score.end, "name": score.name,
                "value": score.value, "by": score.by, "version": score.version, "reason": score.reason,
                "time": score.time, "id": score.id,
            }
            for score in self
        ]  # fmt: skip
        return PlainTable(_KINDS | {"value": kind_of(score.value for score in self)}, cells)


_KINDS: Final[dict[str, Kind]] = {
    "session": "text", "on": "text", "start": "place", "end": "place", "name": "text", "value": "json", "by": "text",
    "version": "text", "reason": "text", "time": "time", "id": "text",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """What is scored: a session (`start` is None) or turns of its transcript, and the last of them, if any."""

    chain: tuple[SessionRecord, ...]
    start: int | None
    end: int
    last: Turn | None

    @property
    def home(self) -> str:
        """The id of the session that the score names."""
        return self.chain[0].id if self.start is None or self.last is None else self.last.session_id

    @property
    def digest(self) -> str:
        """The digest of the last turn."""
        return digests.GENESIS if self.last is None else self.last.digest


# --- what is scored


def target(workspace: Workspace, ref: ScoreRef) -> Target:
    """Return what a reference names; raise `InvalidInput` or `SessionNotFound` where that is not stored."""
    name, start, end = _parted(workspace, ref)
    chain = names.lineage(workspace, name)
    reader = workspace.reader
    if start is None:
        last_index = reader.last_index(chain)
        last = None if last_index is None else marks.turn_at(reader, chain, last_index)
        return Target(chain, None, 0 if last_index is None else last_index + 1, last)
    if end <= start:
        raise InvalidInput(f"the turns {start} to {end} of session {chain[0].id!r} are none: the end is exclusive")
    last = marks.turn_at(reader, chain, end - 1)
    if last is None:
        raise InvalidInput(f"session {chain[0].id!r} has no turn {end - 1} that is stored")
    _check_same(ref, last)
    return Target(chain, start, end, last)


def _parted(workspace: Workspace, ref: object) -> tuple[Name, int | None, int]:
    if isinstance(ref, Turn):
        return ref.session_id, ref.index, ref.index + 1
    if isinstance(ref, tuple):
        if len(ref) not in (2, 3):
            raise InvalidInput(
                f"turns are (session, index) or (session, start, end), not a tuple of {len(ref)}: {ref!r:.80}"
            )
        start = validate.index(ref[1], "the index of a turn")
        return ref[0], start, validate.index(ref[2], "the end of the turns") if len(ref) == 3 else start + 1
    if isinstance(ref, str):
        return _read(workspace, ref)
    return ref, None, 0  # type: ignore[return-value] # `names` refuses what names no session


def _read(workspace: Workspace, text: str) -> tuple[str, int | None, int]:
    if _TURN_IRI.fullmatch(text):
        index = iris.turn_index(text)
        return iris.session(iris.session_id(text)), index, index + 1
    place, whole = _PLACE.fullmatch(text), names.whole(workspace, text)
    if whole is not None and place is not None and names.whole(workspace, place[1]) is not None:
        raise InvalidInput(
            f"{text!r} names a session, and turns of {place[1]!r}; give the session's IRI, or ({place[1]!r}, INDEX)"
        )
    if whole is not None and whole[1] is not None:  # a tag, which stands for the first turns of its session
        return iris.session(whole[0]), 0, whole[1]
    if whole is not None or place is None:
        return names.resolve(workspace, text), None, 0
    start = int(place[2])
    return names.resolve(workspace, place[1]), start, int(place[3]) if place[3] else start + 1


def _check_same(ref: object, turn: Turn) -> None:
    """Refuse a turn that is another one by now than the one that was named."""
    digest = (
        ref.digest if isinstance(ref, Turn) else ref[-16:] if isinstance(ref, str) and _TURN_IRI.fullmatch(ref) else ""
    )
    if not turn.digest.startswith(digest):
        raise InvalidInput(f"turn {turn.index} of session {turn.session_id!r} is stored with another digest")


# --- what it is worth


def checked_value(value: object) -> ScoreValue:
    """Return a score's value as it is kept; raise `InvalidInput` for what is none.

    >>> checked_value(0.5), checked_value("good"), checked_value(True)
    (0.5, 'good', True)
    """
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()  # type: ignore[attr-defined] # numpy's numbers and truth values have it
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > MOST_EXACT:
            raise InvalidInput(
                "a score that is a whole number is at most 2**53 away from 0; give a greater one as a float"
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"a score is a finite number, not {value}; leave out what could not be scored")
        return float(value) + 0.0  # no negative zero
    if isinstance(value, str):
        if not value.strip():
            raise InvalidInput("a score that is a text has more than spaces")
        return validate.text(
            str.__str__(value), "a score"
        )  # what a text of another class says, not how it shows itself
    raise InvalidInput(f"a score is a number, a truth value or a text, not a value of type {type(value).__name__}")


def made(
    workspace: Workspace,
    of: Target,
    name: str,
    value: object,
    *,
    by_iri: str,
    version: str | None = None,
    reason: str | None = None,
    time: datetime | None = None,
    id: str | None = None,  # noqa: A002 - the public name
) -> Score:
    """Return a score that is not stored yet; raise `InvalidInput` for what cannot be kept."""
    made = Score(
        id=secrets.token_hex(8) if id is None else validate.name(id, "a score's id"),
        session_id=of.home,
        start=of.start,
        end=of.end,
        turn_digest=of.digest,
        name=validate.name(name, "a score's name"),
        value=checked_value(value),
        by_iri=by_iri,
        version=None if version is None else validate.name(version, "a scorer's version"),
        reason=None if reason is None else validate.text(reason, "reason"),
        time=datetime.now(UTC) if time is None else validate.time(time),
        digest="",
    )
    return sealed(_after_earlier(workspace, of, made, told=time is not None))


def _after_earlier(workspace: Workspace, of: Target, made: Score, *, told: bool) -> Score:
    """Return a score that is later than all earlier ones of the same, also where the clock stood still or went back.

    One whose time was `told` is later only than one of that very time: which of two is the newer, they do not say, and the
    one that comes in later counts.
    """
    store = workspace.store
    near = scores.of_itself(store, of.home) if of.start is None else scores.on_turns(store, of.digest)
    times = {each.time for each in near if scores.same(each, made)}
    time = made.time
    if times and not told:
        time = max(time, max(times) + timedelta(microseconds=1))
    while time in times:
        time += timedelta(microseconds=1)
    return made if time == made.time else made.model_copy(update={"time": time})


# --- kept


def _refusal(message: str) -> Refusal:
    return lambda _: InvalidInput(message)


def keep(workspace: Workspace, given: Sequence[tuple[Target, Score]]) -> None:
    """Store scores, all in one commit; raise `InvalidInput` where the turns that they are of are gone by now."""
    tx = Transaction(workspace.reader)
    homes: dict[str, None] = {}
    for of, score in given:
        tx.session(score.session_id)
        if of.last is not None:
            tx.require([turn_type(of.last)], _refusal(f"{score.ref} was deleted meanwhile"))
        tx.new(score_quads(score), _refusal(f"there is a score {score.id!r} already"))
        gone = (None, vocab.REMOVED_SCORE, Literal(score.id), vocab.CATALOG)
        tx.forbid(gone, _refusal(f"the score {score.id!r} was removed, and its id is not used again; choose another"))
        tx.add([author_type(score.by_iri)])
        homes[score.session_id] = None
    tx.log(leaves.rows("change", list(homes)))
    tx.commit(workspace.store)


def score(
    workspace: Workspace,
    ref: ScoreRef,
    name: str,
    value: ScoreValue,
    *,
    by: str | None,
    version: str | None,
    reason: str | None,
    time: datetime | None,
    id: str | None,  # noqa: A002 - the public name
) -> Score:
    """Store a score, as `Repository.score` says."""
    of = target(workspace, ref)
    who = workspace.who(by)
    new = made(workspace, of, name, value, by_iri=who, version=version, reason=reason, time=time, id=id)
    if id is not None and (stored := scores.find(workspace.store, new.id)) is not None:
        alike = new if time is not None else sealed(new.model_copy(update={"time": stored.time}))
        if stored != alike:
            raise InvalidInput(f"there is a score {new.id!r} already, and it is another one; choose another id")
        return stored
    keep(workspace, [(of, new)])
    return new


def listed(
    workspace: Workspace,
    ref: ScoreRef | None,
    name: str | None,
    *,
    by: str | None,
    version: str | None,
    history: bool,
) -> Scores:
    """Return stored scores, as `Repository.scores` says."""
    store, reader = workspace.store, workspace.reader
    if ref is None:
        found = scores.every(store)
    else:
        of = target(workspace, ref)
        if of.start is None:
            found = scores.in_transcript(store, reader, of.chain)
        else:
            found = [score for score in scores.on_turns(store, of.digest) if score.start == of.start]
    wanted = None if by is None else workspace.who(by)
    for each, what in ((name, "a score's name"), (version, "a scorer's version")):
        if each is not None:
            validate.name(each, what)
    found = [
        score
        for score in found
        if name in (None, score.name) and wanted in (None, score.by_iri) and version in (None, score.version)
    ]
    return Scores(found if history else scores.newest(found))


def remove(workspace: Workspace, score_id: str, by: str | None) -> Score:
    """Remove a score, as `Repository.remove_score` says."""
    found = scores.find(workspace.store, validate.text(score_id, "the score's id"))
    if found is None:
        raise InvalidInput(f"there is no score {score_id!r}; `trails scores` lists them")
    unmarking.take_away(workspace, found, by)
    return found


def parsed_value(text: str) -> ScoreValue:
    """Return what a text of a command line means as a score: a number or a truth value where it reads as one in JSON.

    Raises `InvalidInput` for what is one elsewhere, as `nan`, `.5`, `1_000` or `True`: it is taken for neither.

    >>> parsed_value("0.5"), parsed_value("3"), parsed_value("true"), parsed_value("good")
    (0.5, 3, True, 'good')
    """
    if text in ("true", "false"):
        return text == "true"
    if text.lower() in ("true", "false"):
        raise InvalidInput(f"{text!r} may be a truth value or a text; write {text.lower()}, or say --text")
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", text):
        return int(text) if len(text) < 20 else float(text)
    if re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", text):
        return float(text)
    try:
        float(text)
    except ValueError:
        return text
    raise InvalidInput(f"{text!r} may be a number or a text; write a number as 0.5, -3 or 1e6, or say --text")
