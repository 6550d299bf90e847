"""What a model is shown of a long session after a compaction, against loading a session of just the turns kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trails
from benchmarks.data import Message, messages
from benchmarks.harness import Contestant, Result, Setting, Stopwatch, Target, medians
from trails import Repository, Session

_KEPT = 300
"""Turns after the cut: of 400 bytes each, the 30,000 tokens that are kept by default."""
_BASELINE = "load of the kept turns alone"
_UNTOUCHED = "the same, no turn touched"
"""A load makes a turn when it is touched. A context has made all that it shows."""
_CONTEXT = "context"
_MESSAGES = "context, as messages"
_BUDGET = "context within a budget"
_FORK = "context of a fork after the cut"
_TARGET = 1.2


def run(setting: Setting) -> list[Result]:
    """Measure plain turns, and turns of which half are tool calls and their answers."""
    texts = messages(setting.size.turns, setting.seed)
    kept = min(_KEPT, len(texts) // 4)
    with trails.open(setting.folder / "store", create=True, durability="process") as store:
        for kind, fill in _KINDS.items():
            _fill(store, f"long-{kind}", texts, fill, kept)
            _fill(store, f"kept-{kind}", texts[-kept:], fill, 0)
    with trails.open(setting.folder / "store") as store:
        return [_measured(store, kind, kept, setting) for kind in _KINDS]


def _plain(session: Session, number: int, message: Message) -> None:
    session.append(message.role, message.text)


def _calling(session: Session, number: int, message: Message) -> None:
    match number % 4:
        case 1:
            call = {"id": f"c{number}", "name": "look", "arguments": {"at": number}}
            session.append("assistant", message.text, model="m-1", usage={"input_tokens": 9}, tool_calls=[call])
        case 2:
            session.append("tool", message.text, tool_call_id=f"c{number - 1}")
        case _:
            session.append(message.role, message.text)


_KINDS = {"plain": _plain, "calls": _calling}


def _fill(
    store: Repository, name: str, texts: Sequence[Message], fill: Callable[[Session, int, Message], None], kept: int
) -> None:
    session = store.create(id=name)
    for number, message in enumerate(texts):
        fill(session, number, message)
    session.persist()
    if kept:
        session.compact(lambda _: "What was said so far.", keep_turns=kept)
        session.fork(id=f"{name}-fork").persist()


def _measured(store: Repository, kind: str, kept: int, setting: Setting) -> Result:
    long, short = f"long-{kind}", f"kept-{kind}"
    found = store.context(long)
    assert kept <= len(found.turns) <= kept + 2  # a call is kept with its answer
    budget = store.context(long, "And now?").tokens
    seconds = medians(
        [
            Contestant(_BASELINE, _timed(lambda: list(store.load(short).turns))),
            Contestant(_UNTOUCHED, _timed(lambda: store.load(short))),
            Contestant(_CONTEXT, _timed(lambda: store.context(long, "And now?"))),
            Contestant(_MESSAGES, _timed(lambda: store.context(long, "And now?").openai())),
            Contestant(_BUDGET, _timed(lambda: store.context(long, "And now?", max_tokens=budget))),
            Contestant(_FORK, _timed(lambda: store.context(f"{long}-fork", "And now?"))),
        ],
        setting.size.rounds * 5,  # a few milliseconds each
    )
    title = "plain turns" if kind == "plain" else "turns, half of them tool calls and answers"
    return Result(
        name=f"context-{kind}",
        title=f"context of {setting.size.turns:,} {title}, of which a summary keeps {kept}",
        baseline=_BASELINE,
        medians=seconds,
        counts={"turns shown": len(found.turns), "tokens": budget},
        targets=[
            Target(f"{name}, {kind}, against the {_BASELINE}", seconds[name] / seconds[_BASELINE], _TARGET, "x")
            for name in (_CONTEXT, _FORK)
        ],
    )


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    def one_round() -> float:
        watch = Stopwatch()
        with watch.timed():
            made = work()
        del made
        return watch.seconds

    return one_round
