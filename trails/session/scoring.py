"""Scoring many sessions with one function: by a pool of threads, going on where it stopped, one that fails alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from trails import iris, tables, validate
from trails.errors import InvalidInput, StoreFailed, StoreReadOnly
from trails.interrupts import held_back
from trails.model import Value
from trails.plumbing import names, scores
from trails.plumbing.names import Name
from trails.plumbing.workspace import Workspace
from trails.progress import Progress, moving
from trails.records.scores import Score, ScoreValue
from trails.session.scores import Target, keep, made, target
from trails.session.session import Session, load

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


class By(NamedTuple):
    """Who scores, in which version, and what its scores are called."""

    name: str | None
    """None for a scorer that names its scores itself: any score of its own tells that it scored a session."""
    iri: str
    version: str | None


def by_whom(workspace: Workspace, scorer: Scorer, name: str | None, by: str | None, version: str | None) -> By:
    """Return who scores: as named, else by the name of the function; raise `InvalidInput` where that has none."""
    given: object = scorer  # whoever calls may not check types
    if not callable(given) or inspect.iscoroutinefunction(given):
        raise InvalidInput(f"a scorer is a function that takes a Session and returns a score, not {scorer!r:.80}")
    own = getattr(scorer, "__name__", "<unnamed>")
    if "<" in own and (name is None or by is None):
        raise InvalidInput("a scorer without a name of its own needs name= and by=: what it looks at, and who it is")
    return By(
        validate.name(own if name is None else name, "a score's name"),
        iris.agent(own) if by is None else workspace.who(by),
        None if version is None else validate.name(version, "a scorer's version"),
    )


def score_all(
    workspace: Workspace,
    sessions: Iterable[Name],
    scorer: Scorer,
    by: By,
    *,
    workers: int,
    again: bool,
    progress: Progress | bool | None,
    stop: Callable[[], object] | None = None,
) -> Scoring:
    """Score sessions, as `Repository.score_all` says; `stop` is called where that is broken off: threads are waited for."""
    if isinstance(sessions, str):
        raise InvalidInput(f"give several sessions, not one text: [{sessions!r}]")
    if validate.index(workers, "workers") < 1:
        raise InvalidInput("a pool has at least one worker: workers=1")
    ids = list(dict.fromkeys(names.record(workspace, each).id for each in sessions))
    done: dict[str, list[Score] | Failed | None] = {}

    def one(session_id: str) -> list[Score] | Failed | None:
        return _one(workspace, session_id, scorer, by, again=again)

    with moving(progress, "scoring") as move, held_back(stop) as give_way:
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
    going: dict[Future[list[Score] | Failed | None], str] = {}
    try:
        for session_id in ids:
            if len(going) >= 2 * workers:  # not all at once: each holds a transcript
                yield from _ended(going)
            going[pool.submit(one, session_id)] = session_id
        while going:
            yield from _ended(going)
    except BaseException:
        if stop is not None:
            stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _ended(
    going: dict[Future[list[Score] | Failed | None], str],
) -> Iterator[tuple[str, list[Score] | Failed | None]]:
    for each in wait(going, return_when=FIRST_COMPLETED).done:
        yield going.pop(each), each.result()


def _one(workspace: Workspace, session_id: str, scorer: Scorer, by: By, *, again: bool) -> list[Score] | Failed | None:
    """Score one session and store what came of it, all in one commit."""
    try:
        if not again and _is_scored(workspace, target(workspace, iris.session(session_id)), by):
            return None
        session = load(workspace, iris.session(session_id))
        of = _as_seen(session)
        given = [made(workspace, of, name, value, by_iri=by.iri, version=by.version, reason=reason)
                 for name, value, reason in _verdicts(scorer(session), by.name)]  # fmt: skip
        if given:
            keep(workspace, [(of, score) for score in given])
    except (StoreFailed, StoreReadOnly):
        raise  # no other session could be scored either
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a scorer may raise anything, or call exit; others go on
        return Failed(session_id=session_id, error=f"{type(error).__name__}: {error}")
    return given


def _as_seen(session: Session) -> Target:
    """Return the transcript that a scorer is shown, which may have gone on in the store meanwhile."""
    turns = session.turns
    return Target(session.worktree.chain, None, len(turns), turns[-1] if turns else None)


def _is_scored(workspace: Workspace, of: Target, by: By) -> bool:
    """Tell whether a session was scored as it stands, by this scorer in this version, under this name."""
    return any(
        score.turn_digest == of.digest
        and (score.by_iri, score.version) == (by.iri, by.version)
        and (by.name is None or score.name == by.name or score.name.startswith(f"{by.name}."))
        for score in scores.of_itself(workspace.store, of.home)
    )


def _verdicts(said: object, name: str | None) -> list[tuple[str, object, str | None]]:
    """Return what a scorer returned as names, values and reasons."""
    if said is None:
        return []
    if isinstance(said, Mapping):
        given = {validate.name(key, "a score's name"): each for key, each in said.items() if each is not None}
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
