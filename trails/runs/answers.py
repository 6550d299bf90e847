"""What a sub-agent's run brought: its last answer, and what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trails.context.messages import UNSHOWN
from trails.errors import SessionNotFound
from trails.model import Turn
from trails.policy.announcements import RunStats
from trails.records.run import Run
from trails.session import Repository
from trails.usage import total

_TEXTS: Final = frozenset({"text", "output_text"})


def answer_of(turns: Iterable[Turn]) -> str | None:
    """Return the text of the last turn where that is an assistant's; blank text is none.

    Tools' turns, and the mirrors of what was delivered, do not count.
    """
    silent = {"tool", *UNSHOWN}
    last = next((turn for turn in reversed(list(turns)) if turn.role not in silent and not turn.tool_results), None)
    if last is None or last.role != "assistant" or last.redacted:
        return None
    return text_of(last.content)


def text_of(content: Any) -> str | None:
    """Return the text of a turn's content, trimmed; None where there is none.

    >>> text_of([{"type": "text", "text": " Found "}, {"type": "tool_use", "id": "c", "name": "n", "input": {}}])
    'Found'
    """
    if isinstance(content, str):
        return content.strip() or None
    parts: Sequence[Any] = content if isinstance(content, Sequence) else ()
    texts = [part if isinstance(part, str) else _text(part) for part in parts]
    return "".join(texts).strip() or None


def _text(part: Any) -> str:
    is_text = isinstance(part, Mapping) and part.get("type") in _TEXTS
    return part["text"] if is_text and isinstance(part.get("text"), str) else ""


def turns_of(repository: Repository, session_id: str | None) -> Sequence[Turn]:
    """Return the transcript of a session; none of one that is not there."""
    if session_id is None:
        return ()
    try:
        return repository.load(session_id).turns
    except SessionNotFound:
        return ()


def stats_of(run: Run, turns: Iterable[Turn]) -> RunStats:
    """Return what a run took: its time, and the tokens and the cost that its turns report."""
    runtime = None
    if run.started is not None and run.ended is not None:
        runtime = (run.ended - run.started).total_seconds() * 1000
    calls = [turn.facts.model_call for turn in turns if turn.facts.model_call is not None]
    reported = [call.reported for call in calls]
    read, written = total(each[0] for each in reported), total(each[1] for each in reported)
    return RunStats(runtime, read, written, total((read, written)), total(each[2] for each in reported))
