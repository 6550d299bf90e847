"""Decide when a conversation starts a new session: by the time of day, by idleness, or by a trigger such as `/new`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final, Literal, Self, cast

from trails.errors import InvalidInput
from trails.model.values import Value
from trails.runtime.config_values import Moment, Section, is_number, last_local_hour, lower, to_ms, trim, trim_start
from trails.runtime.keys.session_key import GROUP_MARKERS, is_thread_key

Mode = Literal["daily", "idle"]
ResetType = Literal["dm", "group", "thread"]

DEFAULT_AT_HOUR: Final = 4
DEFAULT_IDLE_MINUTES: Final = 60
"""Of the mode "idle"; in the mode "daily" idleness counts only if minutes are given."""
DEFAULT_TRIGGERS: Final = ("/new", "/reset")
_MINUTE: Final = 60_000
_HINTS: Final = {
    "hour": "the hour is atHour",
    "overrides": "rules for types stand in resetByType, for channels in resetByChannel",
}


class ResetRule(Value):
    """What one place of a configuration says.

    None if it says nothing.
    """

    mode: Mode | None = None
    at_hour: int | None = None
    idle_minutes: int | None = None

    @classmethod
    def from_json(cls, value: Any, path: str = "session.reset") -> Self:
        """Read `{mode, atHour, idleMinutes}`: an hour is floored and kept within 0 to 23, and is 4 if it is no number;
        minutes are floored and at least 1.

        >>> ResetRule.from_json({"mode": "idle", "atHour": "7", "idleMinutes": 0.2})
        ResetRule(mode='idle', at_hour=4, idle_minutes=1)
        """
        fields = Section(value, path, ("mode", "atHour", "idleMinutes"), _HINTS)
        return cls(
            mode=cast("Mode | None", fields.choice("mode", ("daily", "idle"))),
            at_hour=None if fields.get("atHour") is None else at_hour(fields.get("atHour")),
            idle_minutes=_idle_minutes(fields),
        )


def at_hour(value: object) -> int:
    """Return an hour of the day: floored, within 0 to 23.

    4 for what is no finite number.

    >>> at_hour(99), at_hour(-1), at_hour(5.9), at_hour("7")
    (23, 0, 5, 4)
    """
    return max(0, min(23, math.floor(value))) if is_number(value) else DEFAULT_AT_HOUR


def _idle_minutes(fields: Section) -> int | None:
    minutes = fields.number("idleMinutes")
    return None if minutes is None or not math.isfinite(minutes) else max(1, math.floor(minutes))


class ResetConfig(Value):
    """All that a configuration says of resets, under `session`."""

    reset: ResetRule | None = None
    by_type: tuple[tuple[ResetType, ResetRule], ...] | None = None
    by_channel: tuple[tuple[str, ResetRule], ...] = ()
    idle_minutes: int | None = None
    """The oldest setting, `session.idleMinutes`."""
    triggers: tuple[str, ...] = DEFAULT_TRIGGERS

    @classmethod
    def from_json(cls, session: Mapping[str, Any] | None) -> Self:
        """Read `reset`, `resetByType`, `resetByChannel`, `idleMinutes` and `resetTriggers` of a `session` section.

        Fields of other names in the section are others' business; in a rule, they raise `InvalidInput`.
        """
        fields = Section(session, "session")
        triggers = []
        for path, word in fields.items("resetTriggers"):
            if not isinstance(word, str):
                raise InvalidInput(f"{path} must be a text, not {type(word).__name__}")
            triggers += [word] if word else []
        return cls(
            reset=None if fields.get("reset") is None else ResetRule.from_json(fields.get("reset")),
            by_type=None if fields.get("resetByType") is None else _by_type(fields),
            by_channel=tuple(_rules(fields.section("resetByChannel"), lower)),
            idle_minutes=_idle_minutes(fields),
            triggers=tuple(triggers) or DEFAULT_TRIGGERS,
        )

    def for_channel(self, channel: str | None) -> ResetRule | None:
        """Return the rule that replaces all others on a channel, if there is one."""
        name = lower(channel)
        return next((rule for known, rule in self.by_channel if known == name), None)


def _by_type(session: Section) -> tuple[tuple[ResetType, ResetRule], ...]:
    fields = session.section("resetByType", ("dm", "direct", "group", "thread"))
    if {"dm", "direct"} <= fields.fields.keys():
        raise InvalidInput("session.resetByType names both dm and direct, which are the same; keep one")
    rules = _rules(fields, lambda name: "dm" if name == "direct" else name)
    return cast("tuple[tuple[ResetType, ResetRule], ...]", tuple(rules))


def _rules(section: Section, spell: Callable[[str], str]) -> Iterator[tuple[str, ResetRule]]:
    """Return the rules of an object, with their names as they are spelled in a policy."""
    names = set[str]()
    for name, rule in section.fields.items():
        if spell(name) in names:
            raise InvalidInput(f"{section.path} names {spell(name)} twice")
        names.add(spell(name))
        if rule is not None:
            yield spell(name), ResetRule.from_json(rule, section.path_of(name))


class ResetPolicy(Value):
    """The rule that holds for a session: the hour in the mode "daily", and after how many idle minutes, if at all."""

    mode: Mode
    at_hour: int = DEFAULT_AT_HOUR
    idle_minutes: int | None = None


def reset_type(session_key: str | None, *, is_group: bool = False, is_thread: bool = False) -> ResetType:
    """Return by which type of session a rule is chosen: a thread's before a group's before a direct chat's.

    >>> reset_type("agent:main:telegram:group:1:topic:2"), reset_type("agent:main:discord:channel:1"), reset_type("main")
    ('thread', 'group', 'dm')
    """
    if is_thread or is_thread_key(session_key):
        return "thread"
    key = (session_key or "").lower()
    return "group" if is_group or any(marker in key for marker in GROUP_MARKERS) else "dm"


def is_thread_message(
    session_key: str | None,
    *,
    message_thread_id: str | int | None = None,
    thread_label: str | None = None,
    thread_starter_body: str | None = None,
    parent_session_key: str | None = None,
) -> bool:
    """Return whether a message is of a thread, by anything that it says of one, or by its session's key.

    >>> is_thread_message("x", message_thread_id=0), is_thread_message("x")
    (True, False)
    """
    texts = (thread_label, thread_starter_body, parent_session_key)
    return message_thread_id is not None or any(trim(one) for one in texts) or is_thread_key(session_key)


def reset_policy(config: ResetConfig | None, kind: ResetType, *, override: ResetRule | None = None) -> ResetPolicy:
    """Return the rule for a type of session.

    A channel's rule (`override`) replaces all others. Else each field comes from the type's rule, then the general one,
    then the default; idle minutes also from the oldest setting. That setting alone makes the mode "idle".

    >>> reset_policy(ResetConfig.from_json({"idleMinutes": 240}), "dm")
    ResetPolicy(mode='idle', idle_minutes=240)
    >>> reset_policy(ResetConfig.from_json({"reset": {"mode": "idle"}}), "dm")
    ResetPolicy(mode='idle', idle_minutes=60)
    """
    known = config or ResetConfig()
    general = override or known.reset or ResetRule()
    special = ResetRule() if override else dict(known.by_type or ()).get(kind) or ResetRule()
    oldest = None if override else known.idle_minutes
    explicit = override is not None or known.reset is not None or known.by_type is not None
    mode: Mode = special.mode or general.mode or ("idle" if oldest is not None and not explicit else "daily")
    hour = next((hour for hour in (special.at_hour, general.at_hour) if hour is not None), DEFAULT_AT_HOUR)
    minutes = (
        special.idle_minutes or general.idle_minutes or oldest or (DEFAULT_IDLE_MINUTES if mode == "idle" else None)
    )
    return ResetPolicy(mode=mode, at_hour=hour, idle_minutes=minutes)


def policy_for(
    config: ResetConfig | None,
    session_key: str | None,
    *,
    channel: str | None = None,
    is_group: bool = False,
    is_thread: bool = False,
) -> ResetPolicy:
    """Return the rule for a session on a channel.

    >>> config = ResetConfig.from_json({"resetByChannel": {"discord": {"mode": "idle", "idleMinutes": 10080}}})
    >>> policy_for(config, "agent:main:discord:channel:1", channel="Discord").idle_minutes
    10080
    """
    kind = reset_type(session_key, is_group=is_group, is_thread=is_thread)
    return reset_policy(config, kind, override=config.for_channel(channel) if config else None)


class Freshness(Value):
    """Whether a conversation goes on, and the moments that decided, in milliseconds since 1970."""

    fresh: bool
    daily_reset_at: int | None = None
    """The last reset by the hour; who was active before it starts anew."""
    idle_expires_at: int | None = None
    """Until when, inclusive, a conversation goes on without a new message."""


def freshness(updated: Moment, now: Moment, policy: ResetPolicy, *, zone: str | tzinfo = "UTC") -> Freshness:
    """Return whether a conversation whose user was last active at `updated` goes on at `now`.

    It is stale if that is before the last reset of the day, or if more than the idle minutes have passed. Give the time of
    the last message of a user: what a session writes by itself must not keep it fresh. `zone` is where the hour is told.

    >>> at_four = ResetPolicy(mode="daily", at_hour=4)
    >>> freshness(1768705200000, 1768712400000, at_four).fresh  # 03:00, seen at 05:00
    False
    """
    active, moment = to_ms(updated), to_ms(now)
    daily = last_local_hour(moment, policy.at_hour, zone) if policy.mode == "daily" else None
    idle = None if policy.idle_minutes is None else active + policy.idle_minutes * _MINUTE
    stale = (daily is not None and active < daily) or (idle is not None and moment > idle)
    return Freshness(fresh=not stale, daily_reset_at=daily, idle_expires_at=idle)


class Trigger(Value):
    """A reset that a message asks for: by which word, and what is left of the message."""

    trigger: str
    remainder: str


def reset_trigger(body: str, *, authorised: bool, triggers: Sequence[str] = DEFAULT_TRIGGERS) -> Trigger | None:
    """Return the reset that a message asks for, or None: it is a trigger, in any case, or begins with one and a space.

    Only an authorised sender can ask. What follows the trigger keeps its case, and is the first message of the new session.

    >>> reset_trigger("/NEW Plan a Trip", authorised=True)
    Trigger(trigger='/new', remainder='Plan a Trip')
    >>> reset_trigger("/newer", authorised=True) is None, reset_trigger("/new", authorised=False) is None
    (True, True)
    """
    message = trim(body)
    for trigger in triggers if authorised else ():
        head, tail = message[: len(trigger)], message[len(trigger) :]
        if trigger and head.lower() == trigger.lower() and (not tail or tail.startswith(" ")):
            return Trigger(trigger=trigger, remainder=trim_start(tail))
    return None
