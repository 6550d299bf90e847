"""Score sessions, turns and spans of turns, one at a time or many.

A score stands beside the chain and is never part of it. `score_all` scores many sessions on a pool of threads. It skips
what was scored before, and a session that fails does not stop the others.
"""

from __future__ import annotations

import inspect
import math
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal

from trails.display import tables, text_table
from trails.display.progress import Progress, moving
from trails.display.tables import Kind, PlainTable, Tabular, kind_of
from trails.display.terminal_text import count
from trails.errors import InvalidInput, StoreFailed, StoreReadOnly
from trails.history import annotation_kinds, log_leaves
from trails.history.lookup import names
from trails.history.lookup.names import Name
from trails.history.transaction import Refusal, Transaction
from trails.history.workspace import Workspace
from trails.integrity import digests
from trails.model import iris, validation
from trails.model.values import SessionRecord, Turn, Value
from trails.rdf import vocab
from trails.rdf.activity_records import author_type
from trails.rdf.score_records import Score, ScoreValue, score_quads, seal_score
from trails.rdf.turn_quads import turn_type
from trails.session import tags_notes
from trails.session.session import Session, load_session
from trails.workers import completed, hold_interrupts

ScoreRef = Name | Turn | tuple[Name, int] | tuple[Name, int, int]
"""What is scored: a session by its id, IRI or label, a tag, which is a span of turns from the first; a `Turn`; a name and an
index; a name, an index and an exclusive end. As a text, a turn is `plan#3` (or `plan@3`) and a span `plan#2:5`."""

MOST_EXACT: Final = 2**53
"""Whole numbers beyond this cannot be told apart once they are reckoned with."""
_TURN_IRI: Final = re.compile(r"urn:trails:session:[^/]+/[0-9]{1,12}-[0-9a-f]{16}")


class Scores(list[Score], Tabular):
    """A list of scores, which a notebook shows as a table and which can be taken as a data frame."""

    def __repr__(self) -> str:
        table = self.table()
        shown = PlainTable({name: table.kinds[name] for name in _SHOWN}, table.rows)
        return text_table.draw(f"<Scores: {count(len(self), 'score')}>", text_table.for_people(shown))

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


_SHOWN: Final = ("name", "session", "value", "start", "end", "by", "reason", "version", "time")
"""What people look for in a score, in this order."""


@dataclass(frozen=True, slots=True)
class ScoreTarget:
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


def score_target(workspace: Workspace, ref: ScoreRef) -> ScoreTarget:
    """Return what a reference names; raise `InvalidInput` or `SessionNotFound` where that is not stored."""
    name, start, end = _parted(workspace, ref)
    chain = names.find_lineage(workspace, name)
    reader = workspace.reader
    if start is None:
        last_index = reader.last_index(chain)
        last = None if last_index is None else annotation_kinds.annotated_turn(reader, chain, last_index)
        return ScoreTarget(chain, None, 0 if last_index is None else last_index + 1, last)
    if end <= start:
        raise InvalidInput(f"the turns {start} to {end} of session {chain[0].id!r} are none: the end is exclusive")
    last = annotation_kinds.annotated_turn(reader, chain, end - 1)
    _check_same(ref, last)
    return ScoreTarget(chain, start, end, last)


def _parted(workspace: Workspace, ref: object) -> tuple[Name, int | None, int]:
    if isinstance(ref, Turn):
        return ref.session_id, ref.index, ref.index + 1
    if isinstance(ref, tuple):
        if len(ref) not in (2, 3):
            raise InvalidInput(
                f"turns are (session, index) or (session, start, end), not a tuple of {len(ref)}: {ref!r:.80}"
            )
        start = validation.index(ref[1], "the index of a turn")
        return ref[0], start, validation.index(ref[2], "the end of the turns") if len(ref) == 3 else start + 1
    if isinstance(ref, str):
        return _read(workspace, ref)
    return ref, None, 0  # type: ignore[return-value] # `names` refuses what names no session


def _read(workspace: Workspace, text: str) -> tuple[str, int | None, int]:
    if _TURN_IRI.fullmatch(text):
        index = iris.turn_index(text)
        return iris.session(iris.session_id(text)), index, index + 1
    (name, turns), whole = names.split_turns(text), names.whole_id(workspace, text)
    if whole is not None and turns and names.whole_id(workspace, name) is not None:
        raise InvalidInput(
            f"{text!r} names a session, and turns of {name!r}; give the session's IRI, or ({name!r}, INDEX)"
        )
    if whole is not None and whole[1] is not None:  # a tag, which stands for the first turns of its session
        return iris.session(whole[0]), 0, whole[1]
    if whole is not None or not turns:
        return names.resolve_name(workspace, text), None, 0
    start, _, end = turns.partition(":")
    if not start or not (end or turns).isdecimal():
        raise InvalidInput(f"a score is of a session, of a turn ({name}#3) or of a span ({name}#2:5), not of {text!r}")
    return names.resolve_name(workspace, name), int(start), int(end) if end else int(start) + 1


def _check_same(ref: object, turn: Turn) -> None:
    """Refuse a turn that is another one by now than the one that was named."""
    digest = (
        ref.digest if isinstance(ref, Turn) else ref[-16:] if isinstance(ref, str) and _TURN_IRI.fullmatch(ref) else ""
    )
    if not turn.digest.startswith(digest):
        raise InvalidInput(f"turn {turn.index} of session {turn.session_id!r} is stored with another digest")


# --- what it is worth


def check_score_value(value: object) -> ScoreValue:
    """Return a score's value as it is kept; raise `InvalidInput` for what is none.

    >>> check_score_value(0.5), check_score_value("good"), check_score_value(True)
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
        return validation.text(
            str.__str__(value), "a score"
        )  # what a text of another class says, not how it shows itself
    raise InvalidInput(f"a score is a number, a truth value or a text, not a value of type {type(value).__name__}")


def make_score(
    workspace: Workspace,
    of: ScoreTarget,
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
        id=secrets.token_hex(8) if id is None else validation.name(id, "a score's id"),
        session_id=of.home,
        start=of.start,
        end=of.end,
        turn_digest=of.digest,
        name=validation.name(name, "a score's name"),
        value=check_score_value(value),
        by_iri=by_iri,
        version=None if version is None else validation.name(version, "a scorer's version"),
        reason=None if reason is None else validation.text(reason, "reason"),
        time=datetime.now(UTC) if time is None else validation.time(time),
        digest="",
    )
    return seal_score(_after_earlier(workspace, of, made, told=time is not None))


def _after_earlier(workspace: Workspace, of: ScoreTarget, made: Score, *, told: bool) -> Score:
    """Return a score that is later than all earlier ones of the same, also where the clock stood still or went back.

    One whose time was `told` is later only than one of that very time: which of two is the newer, they do not say, and the
    one that comes in later counts.
    """
    store = workspace.store
    near = (
        annotation_kinds.session_scores(store, of.home)
        if of.start is None
        else annotation_kinds.turn_scores(store, of.digest)
    )
    times = {each.time for each in near if annotation_kinds.is_same_score(each, made)}
    time = made.time
    if times and not told:
        time = max(time, max(times) + timedelta(microseconds=1))
    while time in times:
        time += timedelta(microseconds=1)
    return made if time == made.time else made.model_copy(update={"time": time})


# --- kept


def _refusal(message: str) -> Refusal:
    return lambda _: InvalidInput(message)


def keep_score(workspace: Workspace, given: Sequence[tuple[ScoreTarget, Score]]) -> None:
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
    tx.log(log_leaves.row_states("change", list(homes)))
    tx.commit(workspace.store)


def give_score(
    workspace: Workspace,
    ref: ScoreRef,
    name: str,
    value: ScoreValue,
    *,
    by: str | None = None,
    version: str | None = None,
    reason: str | None = None,
    time: datetime | None = None,
    id: str | None = None,  # noqa: A002 - the public name
) -> Score:
    """Say what a session, a turn or a span of turns is worth, and return the score; stored at once.

    `ref` is a session by any name of it, a `Turn`, (name, index), or (name, start, end) with an exclusive end; as a
    text, a turn is `plan#3` and a span `plan#2:5`. A tag is the span of turns that it stands for. What is scored must
    be stored, inherited turns included. A score of a session is of its transcript as it stands then; one of turns is
    seen from every session that has them or a copy. `name` says what was looked at (1 to 200 characters). `value` is a
    finite number, a truth value or a text, such as a category. `by` names the scorer, as for `delete`, `agent:NAME` for
    a program, and `version` which one of it. `reason` is kept with the score. `time` is now, or when it was given
    elsewhere; `id` is made up, or what tells the score from all others: giving the same one again then writes nothing.

    A score never changes: one more by the same scorer in the same version stands beside it, and the newer counts.

    Raises `InvalidInput` for turns that are not stored, for values that are no scores, and for an id in use.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
    ...     first = store.score("plan", "accuracy", 0.5, by="agent:grader", version="1")
    ...     tone = store.score("plan#0", "tone", "polite", by="bob")
    ...     [(score.ref, score.name, score.value, score.by) for score in store.scores("plan")]
    [('plan', 'accuracy', 0.5, 'grader'), ('plan#0', 'tone', 'polite', 'bob')]
    """
    of = score_target(workspace, ref)
    who = workspace.who(by)
    new = make_score(workspace, of, name, value, by_iri=who, version=version, reason=reason, time=time, id=id)
    if id is not None and (stored := annotation_kinds.find_score(workspace.store, new.id)) is not None:
        alike = new if time is not None else seal_score(new.model_copy(update={"time": stored.time}))
        if stored != alike:
            raise InvalidInput(f"there is a score {new.id!r} already, and it is another one; choose another id")
        return stored
    keep_score(workspace, [(of, new)])
    return new


def list_scores(
    workspace: Workspace,
    ref: ScoreRef | None = None,
    name: str | None = None,
    *,
    by: str | None = None,
    version: str | None = None,
    history: bool = False,
) -> Scores:
    """Return the scores of a session and of the turns of its transcript, or of a turn or span, or all in the store.

    `ref` is as for `score`; `name`, `by` and `version` limit them. Of several scores of the same by one scorer in one
    version only the newest is there, unless `history` asks for all. They come in order of session, place
    and time, in a list that is a table too (`to_pandas`, a notebook).

    Raises as `score` does for what is not stored.
    """
    store, reader = workspace.store, workspace.reader
    if ref is None:
        found = annotation_kinds.all_scores(store)
    else:
        of = score_target(workspace, ref)
        if of.start is None:
            found = annotation_kinds.transcript_scores(store, reader, of.chain)
        else:
            found = [score for score in annotation_kinds.turn_scores(store, of.digest) if score.start == of.start]
    wanted = None if by is None else workspace.who(by)
    for each, what in ((name, "a score's name"), (version, "a scorer's version")):
        if each is not None:
            validation.name(each, what)
    found = [
        score
        for score in found
        if name in (None, score.name) and wanted in (None, score.by_iri) and version in (None, score.version)
    ]
    return Scores(found if history else annotation_kinds.newest_scores(found))


def remove_score(workspace: Workspace, score_id: str, *, by: str | None = None) -> Score:
    """Remove a score and return what it was; a record stays of who removed it when, and nothing of what it said.

    Its texts stay in the store's files until `vacuum`, and in backups. `by` is as for `delete`. Raises `InvalidInput`
    where there is no such score.
    """
    found = annotation_kinds.find_score(workspace.store, validation.text(score_id, "the score's id"))
    if found is None:
        raise InvalidInput(f"there is no score {score_id!r}; `trails scores` lists them")
    tags_notes.remove_annotation(workspace, found, by)
    return found


def parse_score_value(text: str) -> ScoreValue:
    """Return what a text of a command line means as a score: a number or a truth value where it reads as one in JSON.

    Raises `InvalidInput` for what is one elsewhere, as `nan`, `.5`, `1_000` or `True`: it is taken for neither.

    >>> parse_score_value("0.5"), parse_score_value("3"), parse_score_value("true"), parse_score_value("good")
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


Verdict = ScoreValue | tuple[ScoreValue, str]
"""A score's value, or with it the reason."""
Scorer = Callable[[Session], Verdict | Mapping[str, Verdict] | None]
"""What looks at a session and says what it is worth: one verdict, several by name, or None where it has none."""


class Failed(Value):
    """A session that could not be scored."""

    session_id: str
    error: str
    """The class of the error and what it says."""


class Scoring(tables.Tabular, Value):
    """What came of scoring many sessions."""

    scores: tuple[Score, ...]
    """The scores that were stored now, in the order of the sessions."""
    skipped: tuple[str, ...]
    """The ids of sessions that the scorer had scored before, as they stand."""
    unscored: tuple[str, ...]
    """The ids of those for which it had no score."""
    failed: tuple[Failed, ...]
    """Those for which it, or the reading of the session, raised; the next call tries them again."""

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values, ready for JSON."""
        return {
            "scores": [score.to_dict() for score in self.scores],
            "skipped": list(self.skipped),
            "unscored": list(self.unscored),
            "failed": [each.model_dump() for each in self.failed],
        }

    def table(self) -> tables.PlainTable:
        """Return the scores as a table of plain values."""
        rows = [{"session": each.session_id, "name": each.name, "value": each.value} for each in self.scores]
        kinds: dict[str, tables.Kind] = {"session": "text", "name": "text"}
        return tables.PlainTable(kinds | {"value": tables.kind_of(each.value for each in self.scores)}, rows)


class ScoredBy(NamedTuple):
    """Who scores, in which version, and what its scores are called."""

    name: str | None
    """None for a scorer that names its scores itself: any score of its own tells that it scored a session."""
    iri: str
    version: str | None


def scored_by(workspace: Workspace, scorer: Scorer, name: str | None, by: str | None, version: str | None) -> ScoredBy:
    """Return who scores: as named, else by the name of the function; raise `InvalidInput` where that has none."""
    given: object = scorer  # whoever calls may not check types
    if not callable(given) or inspect.iscoroutinefunction(given):
        raise InvalidInput(f"a scorer is a function that takes a Session and returns a score, not {scorer!r:.80}")
    own = getattr(scorer, "__name__", "<unnamed>")
    if "<" in own and (name is None or by is None):
        raise InvalidInput("a scorer without a name of its own needs name= and by=: what it looks at, and who it is")
    return ScoredBy(
        validation.name(own if name is None else name, "a score's name"),
        iris.agent(own) if by is None else workspace.who(by),
        None if version is None else validation.name(version, "a scorer's version"),
    )


def score_all(
    workspace: Workspace,
    sessions: Iterable[Name],
    scorer: Scorer,
    by: ScoredBy,
    *,
    workers: int,
    again: bool,
    progress: Progress | bool | None,
    stop: Callable[[], object] | None = None,
) -> Scoring:
    """Score sessions, as `Repository.score_all` says; `stop` is called where that is broken off: threads are waited for."""
    if isinstance(sessions, str):
        raise InvalidInput(f"give several sessions, not one text: [{sessions!r}]")
    if validation.index(workers, "workers") < 1:
        raise InvalidInput("a pool has at least one worker: workers=1")
    ids = list(dict.fromkeys(names.find_record(workspace, each).id for each in sessions))
    done: dict[str, list[Score] | Failed | None] = {}

    def one(session_id: str) -> list[Score] | Failed | None:
        return _one(workspace, session_id, scorer, by, again=again)

    with moving(progress, "scoring") as move, hold_interrupts(stop) as give_way:
        for number, (session_id, outcome) in enumerate(_outcomes(ids, one, workers, stop), 1):
            give_way()
            done[session_id] = outcome
            if move:
                move(number, len(ids), session_id)
    return _summed(ids, done)


def _summed(ids: list[str], done: Mapping[str, list[Score] | Failed | None]) -> Scoring:
    kept = [score for each in ids if isinstance(found := done[each], list) for score in found]
    return Scoring(
        scores=tuple(kept),
        skipped=tuple(each for each in ids if done[each] is None),
        unscored=tuple(each for each in ids if done[each] == []),
        failed=tuple(found for each in ids if isinstance(found := done[each], Failed)),
    )


def _outcomes(
    ids: Iterable[str],
    one: Callable[[str], list[Score] | Failed | None],
    workers: int,
    stop: Callable[[], object] | None,
) -> Iterator[tuple[str, list[Score] | Failed | None]]:
    """Yield each session with its scores, None where it had them, or what went wrong; as they come."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="trails-scoring")
    try:
        going = {pool.submit(one, session_id): session_id for session_id in ids}
        for each in completed(going):
            yield going[each], each.result()
    except BaseException:
        if stop is not None:
            stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one(
    workspace: Workspace, session_id: str, scorer: Scorer, by: ScoredBy, *, again: bool
) -> list[Score] | Failed | None:
    """Score one session and store what came of it, all in one commit."""
    try:
        if not again and _is_scored(workspace, score_target(workspace, iris.session(session_id)), by):
            return None
        workspace.check_writable()  # before the scorer is called: a verdict that cannot be stored may have cost money
        session = load_session(workspace, iris.session(session_id))
        of = _as_seen(session)
        given = [make_score(workspace, of, name, value, by_iri=by.iri, version=by.version, reason=reason)
                 for name, value, reason in _verdicts(scorer(session), by.name)]  # fmt: skip
        if given:
            keep_score(workspace, [(of, score) for score in given])
    except (StoreFailed, StoreReadOnly):
        raise  # no other session could be scored either
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a scorer may raise anything, or call exit; others go on
        return Failed(session_id=session_id, error=f"{type(error).__name__}: {error}")
    return given


def _as_seen(session: Session) -> ScoreTarget:
    """Return the transcript that a scorer is shown, which may have gone on in the store meanwhile."""
    turns = session.turns
    return ScoreTarget(session.worktree.chain, None, len(turns), turns[-1] if turns else None)


def _is_scored(workspace: Workspace, of: ScoreTarget, by: ScoredBy) -> bool:
    """Tell whether a session was scored as it stands, by this scorer in this version, under this name."""
    return any(
        score.turn_digest == of.digest
        and (score.by_iri, score.version) == (by.iri, by.version)
        and (by.name is None or score.name == by.name or score.name.startswith(f"{by.name}."))
        for score in annotation_kinds.session_scores(workspace.store, of.home)
    )


def _verdicts(said: object, name: str | None) -> list[tuple[str, object, str | None]]:
    """Return what a scorer returned as names, values and reasons."""
    if said is None:
        return []
    if isinstance(said, Mapping):
        given = {validation.name(key, "a score's name"): each for key, each in said.items() if each is not None}
        before = "" if name is None else f"{name}."
        return [(f"{before}{key}", *_value_and_reason(each)) for key, each in given.items()]
    if name is None:
        raise InvalidInput(f"a scorer that names its scores itself returns them by name, not {said!r:.80}")
    return [(name, *_value_and_reason(said))]


def _value_and_reason(said: object) -> tuple[object, str | None]:
    if not isinstance(said, tuple):
        return said, None
    if len(said) != 2:
        raise InvalidInput(f"a scorer returns a value, or (value, reason), not a tuple of {len(said)}")
    return said[0], said[1]
