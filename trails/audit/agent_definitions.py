"""What was laid down before a session ran: the system prompts under which its turns were made.

They are the nearest that a session has to a workflow: instructions that were there first, by which a model decides what is called
next. What was called, and in which order, the records say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from trails.errors import TrailsError
from trails.model.values import SystemPrompt
from trails.session import Repository

AGENTS: Final = "agents.json"
"""What the file is called in a pack."""
_ABOUT: Final = (
    "The instructions that agents had, as the sessions record them: each version of a system prompt, from which turn on it was "
    "in force. Trails wrote this file after the sessions ran; the texts are those of records.nq."
)


def agent_definitions(repository: Repository, session_ids: Sequence[str]) -> bytes | None:
    """Return `agents.json` of some sessions, or None if none of them has a system prompt.

    A text that was redacted is null, and so is one that the records hold encrypted.
    """
    sessions = []
    for session_id in session_ids:
        record = repository.record(session_id)
        try:
            prompts = repository.workspace.reader.prompts([session_id]).values()
        except TrailsError:  # the report names what is wrong
            continue
        if prompts:
            plain = _plain(prompts, shown=record.encryption is None)
            sessions.append({"session": session_id, "agent": record.agent, "prompts": plain})
    if not sessions:
        return None
    value = {"format": "trails-agent-definitions/1", "about": _ABOUT, "sessions": sessions}
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _plain(prompts: Iterable[SystemPrompt], *, shown: bool) -> list[dict[str, Any]]:
    return [
        {
            "version": prompt.version,
            "effective_from": prompt.effective_from,
            "time": None if prompt.time is None else prompt.time.isoformat(),
            "digest": prompt.digest,
            "text": prompt.text if shown and not prompt.redacted else None,
        }
        for prompt in sorted(prompts, key=lambda each: each.version)
    ]
