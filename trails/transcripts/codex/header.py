"""What the header of a Codex thread says: who spawned it, which agent it is, and which of its lines are told again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from trails.transcripts import checked

SOURCE: Final = "codex"
_AGENT_THREADS: Final = frozenset({"subagent", "review", "guardian", "guardian_review"})
"""The sources of threads that another thread spawned."""

_Json = Mapping[str, Any]


def text_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def spawn_of(header: _Json) -> _Json:
    """Return what a header says of how its thread was spawned, empty for a thread of its own."""
    subagent = _subagent(header)
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    return spawn if isinstance(spawn, dict) else {}


def _subagent(header: _Json) -> object:
    source = header.get("source")
    return source.get("subagent", source.get("subAgent")) if isinstance(source, dict) else None


def spawner_of(header: _Json) -> str | None:
    """Return the thread that spawned this one, as an agent, a guardian or a review; None for a thread of its own."""
    root, own = text_of(header.get("session_id")), text_of(header.get("id"))
    is_agent = _subagent(header) is not None or str(header.get("thread_source")) in _AGENT_THREADS
    named = (spawn_of(header).get("parent_thread_id"), header.get("parent_thread_id"))
    others = (header.get("forked_from_id"), root if root != own else None) if is_agent else ()
    return next((found for each in (*named, *others) if (found := text_of(each)) not in (None, own)), None)


def agent_of(header: _Json, spawn: _Json) -> str:
    """Return the name of the agent of a thread: its role, or what it was spawned to be."""
    subagent = _subagent(header)
    other = subagent.get("other") if isinstance(subagent, dict) else subagent
    roles = (spawn.get("agent_role"), spawn.get("agent_type"), header.get("agent_role"), other)
    return next((name for each in roles if (name := checked.name(each)) is not None), SOURCE)


def is_replay(header: _Json, payload: _Json, line: _Json, time: datetime | None) -> bool:
    """Tell whether a line of a thread that was spawned is one of the thread that spawned it, told again."""
    if spawner_of(header) is None:
        return False
    start, ordinal = header.get("subagent_history_start_ordinal"), line.get("ordinal")
    if isinstance(start, int) and isinstance(ordinal, int):
        return ordinal < start
    created = checked.text_time(header.get("timestamp"))
    metadata = line.get("metadata")
    if isinstance(metadata, dict) and metadata.get("inherited_user_message") is True:
        return True
    passed = payload.get("internal_chat_message_metadata_passthrough")
    turn = payload.get("turn_id") or (passed.get("turn_id") if isinstance(passed, dict) else None)
    began, own = _made_at(turn), _made_at(header.get("id"))
    if began is not None and own is not None and began < own:  # also where each line has the time of its copy
        return True
    return time is not None and created is not None and time < created


def _made_at(identity: object) -> int | None:
    """Return when an id was made, in milliseconds since 1970: UUIDs of version 7 begin with it. None for any other id."""
    named = (
        re.fullmatch(r"([0-9a-f]{8})-([0-9a-f]{4})-7.{3}-.{4}-.{12}", identity) if isinstance(identity, str) else None
    )
    return int(named[1] + named[2], 16) if named else None


def base_instructions(header: _Json) -> str | None:
    found = header.get("base_instructions")
    return text_of(found.get("text") if isinstance(found, dict) else found)
