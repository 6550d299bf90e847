"""Withhold one turn at a time, ask again, and see which turns an answer depends on: a leave-one-out."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from math import comb
from typing import Any, Final, Literal

from trails.display import tables
from trails.display.terminal_text import count
from trails.errors import InvalidInput
from trails.model import validation
from trails.model.values import Turn
from trails.session.session import Session, load_session

Answer = Callable[[list[Any]], str]
"""Asks a model: given messages as OpenAI's API has them, returns its text."""
Score = Callable[[str], float]
Effect = Literal["changed", "unchanged", "within noise", "failed"]
MAX_REPEATS: Final = 100
MAX_WORKERS: Final = 64
NOTHING: Final[tuple[int, ...]] = ()


@dataclass(frozen=True, slots=True)
class Withheld:
    """What came of withholding some turns: the answers, the forks that keep them, and what went wrong."""

    turns: tuple[int, ...]
    """The indices that were withheld together; none for the repeats with all turns."""
    answers: tuple[str, ...]
    sessions: tuple[str, ...]
    """The ids of the forks: each has the turns that were shown, as quotations, and the answer."""
    errors: tuple[BaseException, ...]
    effect: Effect
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Withholding(tables.Tabular):
    """Which turns an answer depends on. `baseline` are the repeats with all turns, whose spread is the noise."""

    session_id: str
    turn: int
    repeats: int
    baseline: Withheld
    withheld: tuple[Withheld, ...]

    @property
    def changed(self) -> list[tuple[int, ...]]:
        """The turns without which the answer is another."""
        return [each.turns for each in self.withheld if each.effect == "changed"]

    @property
    def chance(self) -> float:
        """How often scores change by chance alone, for each group of turns: 2 of all ways to part the repeats in two."""
        return 2 / comb(2 * self.repeats, self.repeats)

    def table(self) -> tables.PlainTable:
        """Return a row for each group of turns that was withheld."""
        kinds: dict[str, tables.Kind] = {
            "withheld": "text",
            "effect": "text",
            "answers": "integer",
            "failed": "integer",
        }
        kinds |= {"answer": "text"}
        rows = [
            {
                "withheld": ", ".join(map(str, each.turns)) or "nothing",
                "effect": "baseline" if each is self.baseline else each.effect,
                "answers": len(each.answers),
                "failed": len(each.errors),
                "answer": each.answers[0] if each.answers else None,
            }
            for each in (self.baseline, *self.withheld)
        ]
        return tables.PlainTable(kinds, rows)

    def __str__(self) -> str:
        from trails.display import text_table  # noqa: PLC0415 - only those who print need it

        heading = f"turn {self.turn} of {self.session_id!r}, with turns withheld, {count(self.repeats, 'time')} each"
        return text_table.draw(heading, self.table())


def withhold_turns(
    session: Session,
    turn: int,
    answer: Answer,
    *,
    groups: Iterable[int | Iterable[int]] | None = None,
    repeats: int = 3,
    score: Score | None = None,
    name: str = "without",
    workers: int = 4,
    by: str | None = None,
) -> Withholding:
    """Ask again for an answer with one earlier turn withheld at a time, and return on which turns it depends.

    `turn` is the index of a stored answer. `answer` gets the turns before it, without those withheld, as messages of OpenAI's
    API, and returns a text. It is called `repeats` times (1 to 100) for each of `groups`, and with all turns, in up to
    `workers` threads (1 to 64). A group is an index, or several that go together; by default, each earlier turn is one. A
    turn with tool calls and the turns that answer them are never parted: the group has them all.

    An answer is "changed" if none of the repeats gives a text that the repeats with all turns gave, "unchanged" if all give the
    only one that these gave, else "within noise". With `score`, a number for each text: "changed" if all lie above or all
    below those with all turns, which chance does for a group in the share `Withholding.chance`: 10% of 3 repeats, 3% of 4.

    Each answer is stored at once as a fork, with the turns that were shown as quotations (`prov:wasQuotedFrom`), and with the
    metadata `withheld`, `answer_turn` and `repeat`. Those that are stored are not asked for again, so a call that was
    interrupted is continued by the same call. An error of `answer` is kept in the result, and that one is asked again next time.

    Raises `InvalidInput` for an index without turns before it, one of no earlier turn, a fork of the same id that is no such
    rerun (give another `name`), and for what `cherry_pick` cannot quote: redacted turns and summaries, and for a `score` that
    is no finite number. An answer that is no text is an error of `answer`.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan")
    ...     for text in ("I hate planes.", "Hello", "How do I go?"):
    ...         _ = plan.append("user", text)
    ...     _ = plan.append("assistant", "By train.")
    ...     def model(messages):
    ...         return "By train." if "hate" in str(messages) else "By plane."
    ...     found = withhold_turns(plan, 3, model)
    ...     found.changed, [each.effect for each in found.withheld]
    ([(0,)], ['changed', 'unchanged', 'unchanged'])
    """
    session.persist()
    turns = session.turns
    index = validation.index(turn, "turn")
    if not 1 <= index < len(turns):
        raise InvalidInput(
            f"session {session.id!r} has no answer at {index} with turns before it; give 1 to {len(turns) - 1}"
        )
    if not 1 <= validation.index(repeats, "repeats") <= MAX_REPEATS or not 1 <= workers <= MAX_WORKERS:
        raise InvalidInput(f"repeats is 1 to {MAX_REPEATS} and workers 1 to {MAX_WORKERS}, not {repeats} and {workers}")
    shown = turns[:index]
    wanted = [NOTHING, *_whole_groups(shown, range(index) if groups is None else groups)]
    asked = _Asked(session, shown, validation.name(name, "name"), by)
    answers, errors = asked.all(wanted, repeats, answer, workers)
    scores = {key: _number(score(text)) for key, text in answers.items()} if score is not None else {}

    def of(group: tuple[int, ...], effect: Effect) -> Withheld:
        keys = [(group, number) for number in range(repeats)]
        there = [key for key in keys if key in answers]
        return Withheld(
            group,
            tuple(answers[key] for key in there),
            tuple(asked.id(*key) for key in there),
            tuple(errors[key] for key in keys if key in errors),
            effect,
            tuple(scores[key] for key in there if key in scores),
        )

    baseline = of(NOTHING, "unchanged")
    found = [of(group, "failed") for group in wanted[1:]]
    judged = tuple(of(each.turns, _effect(each, baseline, scored=score is not None)) for each in found)
    return Withholding(session.id, index, repeats, baseline, judged)


def _no_text(answer: object) -> InvalidInput | None:
    """Return the error for an answer that is no text; None for a text."""
    if isinstance(answer, str) and answer:
        return None
    if inspect.iscoroutine(answer):
        answer.close()
    what = "an empty text" if answer == "" else f"a value of type {type(answer).__name__}"
    return InvalidInput(f"the function that is asked for an answer returns a text, and returned {what}")


def _number(score: object) -> float:
    if isinstance(score, bool | int | float) and math.isfinite(score):
        return float(score)
    raise InvalidInput(f"`score` returns a number that can be compared, and returned {score!r:.80}")


def _effect(each: Withheld, baseline: Withheld, *, scored: bool) -> Effect:
    mine: Sequence[Any] = each.scores if scored else each.answers
    theirs: Sequence[Any] = baseline.scores if scored else baseline.answers
    if not mine or not theirs:
        return "failed"
    if len(set(theirs)) == 1 and set(mine) == set(theirs):
        return "unchanged"
    apart = min(mine) > max(theirs) or max(mine) < min(theirs) if scored else not set(mine) & set(theirs)
    return "changed" if apart else "within noise"


def _whole_groups(turns: Sequence[Turn], groups: Iterable[int | Iterable[int]]) -> list[tuple[int, ...]]:
    """Return groups of indices, each once, with the answers of the tool calls that are in them, and the other way round."""
    asking = {call.id: turn.index for turn in turns for call in turn.tool_calls}
    together: dict[int, set[int]] = {turn.index: {turn.index} for turn in turns}
    for turn in turns:
        for result in turn.tool_results:
            if result.call_id in asking:
                joined = together[turn.index] | together[asking[result.call_id]]
                together.update(dict.fromkeys(joined, joined))
    whole: dict[tuple[int, ...], None] = {}
    if not isinstance(groups, Iterable):
        raise InvalidInput(f"groups are several: write [{groups!r}]")
    for group in groups:
        indices = [group] if isinstance(group, int) else list(group)
        if not indices or any(type(each) is not int or each not in together for each in indices):
            raise InvalidInput(f"{group!r} is no earlier turn or turns; give indices from 0 to {len(turns) - 1}")
        whole[tuple(sorted(set().union(*(together[each] for each in indices))))] = None
    return list(whole)


_Key = tuple[tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of one session: `shown` are the turns before the answer."""

    session: Session
    shown: Sequence[Turn]
    name: str
    by: str | None

    def id(self, group: tuple[int, ...], number: int) -> str:
        """Return the id of the fork that keeps an answer."""
        what = "-".join(map(str, group[:8])) or "nothing"
        tail = f"~{self.name}-{what}-of-{len(self.shown)}-{number}"
        return validation.session_id(self.session.id[: validation.MAX_ID - len(tail)] + tail)

    def _meta(self, group: tuple[int, ...], number: int) -> dict[str, Any]:
        return {"withheld": list(group), "answer_turn": len(self.shown), "repeat": number}

    def _stored(self, group: tuple[int, ...], number: int) -> str | None:
        """Return an answer that was stored before; None if there is none."""
        workspace, fork_id = self.session.worktree.workspace, self.id(group, number)
        record = workspace.reader.records([fork_id]).get(fork_id)
        if record is None:
            return None
        meta: Mapping[str, Any] = record.meta
        if record.parent_session_id != self.session.id or any(
            meta.get(key) != value for key, value in self._meta(group, number).items()
        ):
            raise InvalidInput(f"session {fork_id!r} is there, and keeps no such answer; give another name")
        return load_session(workspace, fork_id)[-1].text

    def _fork(self, group: tuple[int, ...], number: int) -> Session:
        """Return a fork, not stored, whose transcript is what is shown: what stands behind a gap is quoted."""
        at = group[0] if group else len(self.shown)
        fork = self.session.fork(at=at, id=self.id(group, number), meta=self._meta(group, number))
        if rest := [turn.index for turn in self.shown[at:] if turn.index not in group]:
            fork.cherry_pick(self.session.id, rest, by=self.by)
        return fork

    def _keep(
        self, future: Future[str], key: _Key, answers: dict[_Key, str], errors: dict[_Key, BaseException]
    ) -> None:
        """Store an answer, or note the error that there was in its place; an interrupt is raised."""
        error = future.exception()
        if error is None:
            error = _no_text(future.result())
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            errors[key] = error
            return
        fork = self._fork(*key)
        fork.append("assistant", future.result())
        fork.persist()
        answers[key] = future.result()

    def all(
        self, groups: Sequence[tuple[int, ...]], repeats: int, answer: Answer, workers: int
    ) -> tuple[dict[_Key, str], dict[_Key, BaseException]]:
        """Return the answers and the errors by group and repeat; each answer is stored as it comes, by this thread alone."""
        answers: dict[_Key, str] = {}
        errors: dict[_Key, BaseException] = {}
        with ThreadPoolExecutor(workers, thread_name_prefix="trails-withhold") as threads:
            waiting: dict[Future[str], _Key] = {}
            try:
                for group in groups:
                    keys = [(group, number) for number in range(repeats)]
                    answers |= {key: text for key in keys if (text := self._stored(*key)) is not None}
                    missing = [key for key in keys if key not in answers]
                    if missing:
                        probe = self._fork(*missing[0])
                        messages = probe.context().openai()
                        probe.discard_pending()
                        waiting |= {threads.submit(answer, list(messages)): key for key in missing}
                for future in as_completed(waiting):
                    self._keep(future, waiting[future], answers, errors)
            except BaseException:
                threads.shutdown(wait=True, cancel_futures=True)
                for future, key in waiting.items():  # what was answered until then is kept
                    if not future.cancelled() and future.exception() is None and key not in answers:
                        self._keep(future, key, answers, errors)
                raise
        return answers, errors
