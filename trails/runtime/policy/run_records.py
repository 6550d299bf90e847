"""Records of sub-agent runs: what to do with them, and how their ends are announced."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, Literal, NamedTuple, Self, cast

from trails.errors import InvalidInput, RequestRefused
from trails.model.values import Value
from trails.runtime.config_values import NEVER, Moment, Section, is_number, to_ms, trim
from trails.runtime.keys.session_key import normalize_agent_id
from trails.runtime.policy.session_entry import delivery_context, queue_mode, thinking_level
from trails.usage import EXACT

Cleanup = Literal["delete", "keep"]
Status = Literal["ok", "error", "timeout", "unknown"]
VERSION: Final = 2
DEFAULT_ARCHIVE_MINUTES: Final = 60
SWEEP_SECONDS: Final = 60
MAX_TIMEOUT: Final = 315_360_000
"""The longest time that a run may be given, in seconds: ten years of 365 days."""
_MINUTE: Final = 60_000


class RunOutcome(Value):
    """How a run ended, and the error if it failed."""

    status: Status
    error: str | None = None


class RunRecord(Value):
    """All that is kept of a run; moments in milliseconds since 1970."""

    run_id: str
    child_session_key: str
    requester_session_key: str
    requester_display_key: str = ""
    task: str = ""
    cleanup: Cleanup = "keep"
    created_at: int = 0
    requester_origin: Mapping[str, Any] | None = None
    """Where the requester was heard of: `channel`, `to`, `accountId`, `threadId`."""
    label: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    outcome: RunOutcome | None = None
    archive_at_ms: int | None = None
    cleanup_completed_at: int | None = None
    cleanup_handled: bool | None = None
    extra: Mapping[str, Any] = {}
    """Fields of a file that nobody knows, under their own names."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as `runs.json` (version 2) holds it; what is not known is left out."""
        values: dict[str, Any] = {name: getattr(self, field) for field, name in RUN_FIELDS.items()}
        if self.outcome is not None:
            values["outcome"] = self.outcome.model_dump(exclude_none=True)
        if self.requester_origin is not None:
            values["requesterOrigin"] = dict(self.requester_origin)
        return {**self.extra, **{name: value for name, value in values.items() if value is not None}}


RUN_FIELDS: Final[Mapping[str, str]] = {
    "run_id": "runId",
    "child_session_key": "childSessionKey",
    "requester_session_key": "requesterSessionKey",
    "requester_origin": "requesterOrigin",
    "requester_display_key": "requesterDisplayKey",
    "task": "task",
    "cleanup": "cleanup",
    "label": "label",
    "created_at": "createdAt",
    "started_at": "startedAt",
    "ended_at": "endedAt",
    "outcome": "outcome",
    "archive_at_ms": "archiveAtMs",
    "cleanup_completed_at": "cleanupCompletedAt",
    "cleanup_handled": "cleanupHandled",
}
"""Each field's name here and in `runs.json`."""
_OLD_FIELDS: Final = frozenset({"announceCompletedAt", "announceHandled", "requesterChannel", "requesterAccountId"})
_KNOWN: Final = frozenset(RUN_FIELDS.values()) | _OLD_FIELDS


class RunsFile(NamedTuple):
    """What a file of runs holds: the records by id, the version that it had, and what could not be read, with the reason."""

    runs: dict[str, RunRecord]
    version: int
    dropped: tuple[str, ...] = ()


def read_runs(value: Any) -> RunsFile:
    """Read a file `runs.json` of version 1 or 2.

    As in the systems, an unknown version has no runs, and a record without an id is dropped; both are told in `dropped`.

    >>> old = {"runId": "r", "childSessionKey": "c", "requesterSessionKey": "q", "announceHandled": True,
    ...        "requesterChannel": "whatsapp"}
    >>> record = read_runs({"version": 1, "runs": {"r": old}}).runs["r"]
    >>> record.cleanup_handled, record.requester_origin
    (True, {'channel': 'whatsapp'})
    """
    fields = Section(value, "runs.json").fields
    version = fields.get("version")
    if version not in (1, VERSION) or isinstance(version, bool):
        return RunsFile({}, 0, (f"version {version!r} is unknown; 1 and 2 are read",))
    runs: dict[str, RunRecord] = {}
    dropped: list[str] = []
    for name, one in Section(fields.get("runs"), "runs.json: runs").fields.items():
        try:
            record = run_record(one, legacy=version == 1)
        except InvalidInput as wrong:
            dropped.append(f"{name}: {wrong}")
        else:
            runs[record.run_id] = record
    return RunsFile(runs, version, tuple(dropped))


def write_runs(runs: Mapping[str, RunRecord]) -> dict[str, Any]:
    """Return a file `runs.json` of version 2."""
    return {"version": VERSION, "runs": {name: record.to_json() for name, record in runs.items()}}


def run_record(value: Any, *, legacy: bool = False) -> RunRecord:
    """Read one record; `legacy` maps the names of version 1. A record without a `runId` raises `InvalidInput`."""
    fields = Section(value, "run").fields
    texts = {field: fields.get(name) for field, name in RUN_FIELDS.items() if field in _IDS}
    for field, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise InvalidInput(f"a run's {RUN_FIELDS[field]} must be a text, not {text!r}")
    if not texts["run_id"]:
        raise InvalidInput("a run needs a runId, a text")
    completed, handled = _moment(fields, "cleanupCompletedAt"), fields.get("cleanupHandled")
    origin = fields.get("requesterOrigin")
    if legacy:
        completed = completed or _moment(fields, "announceCompletedAt")
        origin = origin or {"channel": fields.get("requesterChannel"), "accountId": fields.get("requesterAccountId")}
        if not isinstance(handled, bool):
            announced = fields.get("announceHandled")
            handled = bool(completed if announced is None else announced)
    return RunRecord(
        **{field: text or "" for field, text in texts.items()},
        requester_display_key=_text(fields, "requesterDisplayKey") or "",
        task=_text(fields, "task") or "",
        cleanup="delete" if fields.get("cleanup") == "delete" else "keep",
        created_at=_moment(fields, "createdAt") or 0,
        requester_origin=delivery_context(origin),
        label=_text(fields, "label"),
        started_at=_moment(fields, "startedAt"),
        ended_at=_moment(fields, "endedAt"),
        outcome=run_outcome(fields.get("outcome")),
        archive_at_ms=_moment(fields, "archiveAtMs"),
        cleanup_completed_at=completed,
        cleanup_handled=handled if isinstance(handled, bool) else None,
        extra={name: found for name, found in fields.items() if name not in _KNOWN},
    )


_IDS: Final = ("run_id", "child_session_key", "requester_session_key")


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _moment(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return int(value) if is_number(value) else None


def run_outcome(value: Any) -> RunOutcome | None:
    """Return how a run ended: a status among ok, error and timeout; any other is unknown. None for no outcome.

    >>> run_outcome({"status": "error", "error": "no model"}).error, run_outcome({"status": "lost"}).status
    ('no model', 'unknown')
    """
    if not isinstance(value, Mapping):
        return None
    status = value.get("status")
    known = cast("Status", status) if status in ("ok", "error", "timeout") else "unknown"
    return RunOutcome(status=known, error=_text(value, "error"))


def archive_at(now: Moment, minutes: object = None) -> int | None:
    """Return when a run is archived: so many minutes after `now`, in milliseconds since 1970; None for never.

    Without minutes it is 60. Nothing above 0, or no finite number, is never; else they are floored, and at least 1. The
    calendar's end, with the year 9999, is the latest.

    >>> archive_at(0), archive_at(0, 0.5), archive_at(0, 2.9), archive_at(0, 0)
    (3600000, 60000, 120000, None)
    """
    wanted = DEFAULT_ARCHIVE_MINUTES if minutes is None else minutes
    if not is_number(wanted) or wanted <= 0:
        return None
    return min(to_ms(now) + max(1, int(wanted)) * _MINUTE, to_ms(NEVER))


def new_run(
    *,
    now: Moment,
    requester_origin: Mapping[str, Any] | None = None,
    archive_after_minutes: object = None,
    **fields: Any,
) -> RunRecord:
    """Return the record of a run that starts now.

    >>> run = new_run(run_id="r", child_session_key="c", requester_session_key="q", task="look", now=0)
    >>> run.started_at, run.archive_at_ms, run.cleanup_handled
    (0, 3600000, False)
    """
    moment = to_ms(now)
    return RunRecord(
        **fields,
        requester_origin=delivery_context(requester_origin),
        created_at=moment,
        started_at=moment,
        archive_at_ms=archive_at(moment, archive_after_minutes),
        cleanup_handled=False,
    )


def resume_action(record: RunRecord) -> Literal["nothing", "announce", "wait"]:
    """Return what a restart does with a run: nothing once all is done, announce an end, else wait for it again.

    A run whose announcing was begun and not finished is left alone while `cleanup_handled` stands; what failed clears it.
    """
    if record.cleanup_completed_at is not None:
        return "nothing"
    if record.ended_at is not None and record.ended_at > 0:
        return "nothing" if record.cleanup_handled else "announce"
    return "wait"


def end_run(record: RunRecord, outcome: Any, *, now: Moment) -> RunRecord:
    """Return a run as an end leaves it; a status other than ok and error changes nothing, as the run may still end.

    A first end stands: a second one is not written over it.
    """
    found = run_outcome(outcome)
    if found is None or found.status not in ("ok", "error") or record.ended_at is not None:
        return record
    return record.model_copy(update={"ended_at": to_ms(now), "outcome": found})


def time_out_run(record: RunRecord, *, now: Moment) -> RunRecord:
    """Return a run that its time-out ended, with the outcome "timeout"; one that has ended stays."""
    if record.ended_at is not None:
        return record
    return record.model_copy(update={"ended_at": to_ms(now), "outcome": RunOutcome(status="timeout")})


def begin_cleanup(record: RunRecord) -> RunRecord | None:
    """Return a run whose announcing is claimed, or None if another path has claimed it: store it only if nobody else did."""
    if record.cleanup_completed_at is not None or record.cleanup_handled:
        return None
    return record.model_copy(update={"cleanup_handled": True})


def finish_cleanup(record: RunRecord, *, announced: bool, now: Moment) -> RunRecord | None:
    """Return a run after its announcing, or None if the record goes.

    `cleanup="delete"` removes it. A kept run is complete once announced; if that failed, the claim is given back, so
    that the next start tries again.
    """
    if record.cleanup == "delete":
        return None
    if not announced:
        return record.model_copy(update={"cleanup_handled": False})
    return record.model_copy(update={"cleanup_completed_at": to_ms(now)})


def is_due(record: RunRecord, now: Moment) -> bool:
    """Return whether the sweeper archives a run now: deletes its record, its session and its transcript."""
    return record.archive_at_ms is not None and record.archive_at_ms <= to_ms(now)


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
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the parameters of `sessions_spawn`; wrong and unknown ones raise `RequestRefused`.

        Seconds are floored, and at least 0 (without end) or, for a fraction of one, 1. More than `MAX_TIMEOUT` is refused.
        `timeoutSeconds` is an old name of `runTimeoutSeconds`.

        >>> SpawnRequest.from_json({"task": "look", "runTimeoutSeconds": 2.9, "thinking": "HIGH"}).run_timeout_seconds
        2
        """
        fields = Section(value, "sessions_spawn").fields
        for name in fields:
            if name not in _SPAWN_FIELDS:
                raise RequestRefused(f"sessions_spawn has no parameter {name}; it has {', '.join(_SPAWN_FIELDS)}")
        texts: dict[str, str | None] = {}
        for name in _SPAWN_FIELDS[:5]:
            text = fields.get(name)
            if text is not None and not isinstance(text, str):
                raise RequestRefused(f"{name} must be a string")
            texts[name] = trim(text) or None
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


_SPAWN_FIELDS: Final = (
    *("task", "label", "agentId", "model", "thinking"),
    *("runTimeoutSeconds", "timeoutSeconds", "cleanup"),
)


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


def announce_route(mode: str | None, *, active: bool, can_steer: bool | None = None) -> Route:
    """Return how an announcement goes to its requester, by its session's queue mode.

    A running requester takes it at once if the mode steers and the run can take it (`can_steer`, by default as it is
    active); else it waits in the queue. A requester that is not running gets it directly.

    >>> announce_route("steer", active=True), announce_route("collect", active=True), announce_route("steer", active=False)
    ('steer', 'queue', 'direct')
    """
    known = queue_mode(mode)
    if known in ("steer", "steer-backlog") and (active if can_steer is None else can_steer):
        return "steer"
    return "queue" if active and known is not None else "direct"


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
    request: str = SUMMARY_REQUEST,
) -> str:
    """Return the message to a requester: what ended and how, its findings or "(no output)", its figures, and what to do.

    >>> text = announce_text(task="look", outcome=RunOutcome(status="ok"), findings="Nothing new.", request="Tell the user.")
    >>> print(text)
    A background task "look" just completed successfully.
    <BLANKLINE>
    Findings:
    Nothing new.
    <BLANKLINE>
    Stats: runtime n/a • tokens n/a
    <BLANKLINE>
    Tell the user.
    """
    name = trim(label) or trim(task) or "background task"
    return "\n".join(
        [
            f'A background task "{name}" just {outcome_words(outcome)}.',
            "",
            "Findings:",
            findings if findings and trim(findings) else NO_OUTPUT,
            "",
            stats_line(stats or RunStats()),
            "",
            request,
        ]
    )


def stats_line(stats: RunStats, details: Collection[str] = ()) -> str:
    """Return a run's figures as one line, with further details at its end.

    >>> stats_line(RunStats(runtime_ms=83_000, input_tokens=1200, output_tokens=300, cost=0.0213))
    'Stats: runtime 1m23s • tokens 1.5k (in 1.2k / out 300) • est $0.02'
    """
    parts = [f"runtime {duration_words(stats.runtime_ms)}", _tokens(stats)]
    if stats.cost is not None:
        parts.append(f"est {usd_words(stats.cost)}")
    return f"Stats: {' • '.join([*parts, *details])}"


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
