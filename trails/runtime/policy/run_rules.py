"""Rules of sub-agent runs: what a spawn may ask for, and how the end of a run is announced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, Literal, NamedTuple, Self

from trails.errors import RequestRefused
from trails.model.values import Value
from trails.runtime.config_values import Json, Section, from_ms, is_number, time_after, to_ms, trim
from trails.runtime.keys.session_key import normalize_agent_id
from trails.runtime.policy.session_entry import queue_mode, thinking_level
from trails.usage import EXACT

Cleanup = Literal["delete", "keep"]
Status = Literal["ok", "error", "timeout", "unknown"]
DEFAULT_ARCHIVE_MINUTES: Final = 60
SWEEP_SECONDS: Final = 60
MAX_TIMEOUT: Final = 315_360_000
"""The longest time that a run may be given, in seconds: ten years of 365 days."""


class RunOutcome(Value):
    """How a run ended, and the error if it failed."""

    status: Status
    error: str | None = None


def archive_time(now: datetime, minutes: object = None) -> datetime | None:
    """Return when a run is archived: so many minutes after `now`.

    None for never.

    Without minutes it is 60. Nothing above 0, or no finite number, is never; else they are floored, and at least 1. The
    calendar's end, with the year 9999, is the latest.

    >>> from datetime import UTC
    >>> archive_time(datetime(2026, 3, 1, tzinfo=UTC), 2.9).isoformat()
    '2026-03-01T00:02:00+00:00'
    >>> archive_time(datetime(2026, 3, 1, tzinfo=UTC), 0) is None
    True
    """
    wanted = DEFAULT_ARCHIVE_MINUTES if minutes is None else minutes
    if not is_number(wanted) or wanted <= 0:
        return None
    return from_ms(to_ms(time_after(now, max(1, int(wanted)) * 60)))


class SpawnRequest(Value):
    """The parameters of a spawn, checked."""

    task: str
    label: str | None = None
    agent_id: str | None = None
    model: str | None = None
    thinking: str | None = None
    run_timeout_seconds: int = 0
    """0 is without end."""
    cleanup: Cleanup = "keep"

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Read the parameters of `sessions_spawn`.

        Wrong and unknown ones raise `RequestRefused`.

        Seconds are floored, and at least 0 (without end) or, for a fraction of one, 1. More than `MAX_TIMEOUT` is refused.
        `timeoutSeconds` is an old name of `runTimeoutSeconds`.

        >>> SpawnRequest.from_json({"task": "look", "runTimeoutSeconds": 2.9, "thinking": "HIGH"}).run_timeout_seconds
        2
        """
        fields = Section(value, "sessions_spawn").fields
        texts = tool_texts("sessions_spawn", fields, _SPAWN_TEXTS, ("runTimeoutSeconds", "timeoutSeconds", "cleanup"))
        if not texts["task"]:
            raise RequestRefused("task required")
        thinking = texts["thinking"]
        if thinking and thinking_level(thinking) is None:
            allowed = "off, minimal, low, medium, high, xhigh"
            raise RequestRefused(f'Invalid thinking level "{thinking}". Use one of: {allowed}.')
        cleanup = fields.get("cleanup")
        seconds = _seconds(fields.get("runTimeoutSeconds", fields.get("timeoutSeconds")))
        if cleanup not in (None, "keep", "delete"):
            raise RequestRefused('cleanup must be "delete" or "keep"')
        return cls(
            task=texts["task"],
            label=texts["label"],
            agent_id=normalize_agent_id(texts["agentId"]) if texts["agentId"] else None,
            model=texts["model"],
            thinking=thinking_level(thinking) if thinking else None,
            run_timeout_seconds=seconds,
            cleanup=cleanup or "keep",
        )


_SPAWN_TEXTS: Final = ("task", "label", "agentId", "model", "thinking")


def tool_texts(tool: str, fields: Json, texts: Sequence[str], others: Sequence[str]) -> dict[str, str | None]:
    """Return the parameters of a tool's call that are texts, trimmed, None for an empty one.

    Raise `RequestRefused` for another type, and for a parameter that is neither in `texts` nor in `others`.
    """
    for name, value in fields.items():
        if name not in (*texts, *others):
            raise RequestRefused(f"{tool} has no parameter {name}; it has {', '.join((*texts, *others))}")
        if name in texts and value is not None and not isinstance(value, str):
            raise RequestRefused(f"{name} must be a string")
    return {name: trim(fields.get(name)) or None for name in texts}


def _seconds(value: Any) -> int:
    if value is None:
        return 0
    if not is_number(value):
        raise RequestRefused("runTimeoutSeconds must be a number")
    if value > MAX_TIMEOUT:
        raise RequestRefused(f"runTimeoutSeconds must be at most {MAX_TIMEOUT:,} (ten years), or 0 for without end")
    return max(1, int(value)) if value > 0 else 0


NO_OUTPUT: Final = "(no output)"
NO_REPLY: Final = "NO_REPLY"
"""What a requester answers when nothing is to be told."""
SUMMARY_REQUEST: Final = (
    "Summarize this naturally for the user, in one or two sentences that follow from the conversation. "
    "Leave out technical details such as tokens and statistics, and that this was a background task. "
    f"Reply {NO_REPLY} if there is nothing that the user needs to hear."
)

Route = Literal["steer", "queue", "direct"]


class RunStats(NamedTuple):
    """What a run took: its time in milliseconds, its tokens, and its cost in US dollars; None is not known."""

    runtime_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | Decimal | None = None


def announce_route(mode: str | None, *, active: bool) -> Route:
    """Return how an announcement goes to its requester, by its session's queue mode.

    A running requester takes it at once if the mode steers; else it waits in the queue. A requester that is not running
    gets it directly.

    >>> announce_route("steer", active=True), announce_route("collect", active=True), announce_route("steer", active=False)
    ('steer', 'queue', 'direct')
    """
    known = queue_mode(mode)
    if not active or known is None:
        return "direct"
    return "steer" if known in ("steer", "steer-backlog") else "queue"


def outcome_words(outcome: RunOutcome | None) -> str:
    """Return how a sentence tells an outcome.

    >>> outcome_words(RunOutcome(status="error", error="no model")), outcome_words(None)
    ('failed: no model', 'finished with unknown status')
    """
    match outcome.status if outcome else "unknown":
        case "ok":
            return "completed successfully"
        case "timeout":
            return "timed out"
        case "error":
            return f"failed: {(outcome.error if outcome else None) or 'unknown error'}"
    return "finished with unknown status"


def announce_text(
    *,
    task: str,
    label: str | None = None,
    outcome: RunOutcome | None = None,
    findings: str | None = None,
    stats: RunStats | None = None,
) -> str:
    """Return the message that tells a requester how a run ended, and asks it to tell its user.

    `findings` is the sub-agent's last answer.

    >>> text = announce_text(task="look", outcome=RunOutcome(status="ok"), findings="Nothing new.")
    >>> print(text.rpartition("\\n\\n")[0])
    A background task "look" just completed successfully.
    <BLANKLINE>
    Findings:
    Nothing new.
    <BLANKLINE>
    Stats: runtime n/a • tokens n/a
    """
    name = trim(label) or trim(task) or "background task"
    output = findings if findings and trim(findings) else NO_OUTPUT
    parts = (
        f'A background task "{name}" just {outcome_words(outcome)}.',
        f"Findings:\n{output}",
        stats_line(stats or RunStats()),
        SUMMARY_REQUEST,
    )
    return "\n\n".join(parts)


def stats_line(stats: RunStats) -> str:
    """Return a run's figures as one line.

    >>> stats_line(RunStats(runtime_ms=83_000, input_tokens=1200, output_tokens=300, cost=0.0213))
    'Stats: runtime 1m23s • tokens 1.5k (in 1.2k / out 300) • est $0.02'
    """
    parts = [f"runtime {duration_words(stats.runtime_ms)}", _tokens(stats)]
    if stats.cost is not None:
        parts.append(f"est {usd_words(stats.cost)}")
    return f"Stats: {' • '.join(parts)}"


def _tokens(stats: RunStats) -> str:
    known = [count for count in (stats.input_tokens, stats.output_tokens) if count is not None]
    total = stats.total_tokens if stats.total_tokens is not None else sum(known) if known else None
    if total is None:
        return "tokens n/a"
    split = (
        f" (in {count_words(stats.input_tokens or 0)} / out {count_words(stats.output_tokens or 0)})" if known else ""
    )
    return f"tokens {count_words(total)}{split}"


def duration_words(milliseconds: float | None) -> str:
    """Return a duration as its two greatest units.

    >>> duration_words(3_723_000), duration_words(61_000), duration_words(499), duration_words(None)
    ('1h2m', '1m1s', '0s', 'n/a')
    """
    if milliseconds is None or not math.isfinite(milliseconds) or milliseconds <= 0:
        return "n/a"
    minutes, seconds = divmod(math.floor(milliseconds / 1000 + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def count_words(count: float) -> str:
    """Return a count, in thousands or millions with one place from a thousand on.

    >>> count_words(999), count_words(1250), count_words(2_000_000), count_words(-1)
    ('999', '1.3k', '2.0m', '0')
    """
    if not math.isfinite(count) or count <= 0:
        return "0"
    for size, letter in ((1_000_000, "m"), (1_000, "k")):
        if count >= size:
            return f"{_rounded(count / size, '0.1')}{letter}"
    return str(math.floor(count + 0.5))


def usd_words(cost: float | Decimal) -> str:
    """Return a cost in dollars: in cents, and in hundredths of one below a cent.

    >>> usd_words(1.5), usd_words(0.0042), usd_words(0)
    ('$1.50', '$0.0042', '$0.0000')
    """
    return f"${_rounded(cost, '0.01' if cost >= Decimal('0.01') else '0.0001')}"


def _rounded(value: float | Decimal, place: str) -> Decimal:
    return Decimal(value).quantize(Decimal(place), ROUND_HALF_UP, EXACT)
