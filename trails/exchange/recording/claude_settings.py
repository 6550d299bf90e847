"""Put the hooks that record sessions into Claude Code's settings, and take them out again. Pure, but for finding the file.

All that others wrote stays as it is, byte by byte: hooks are added behind theirs.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from trails.errors import InvalidInput
from trails.exchange.recording import json_edits
from trails.exchange.recording.json_edits import Container

EVENTS: Final = (
    "UserPromptSubmit",
    "PostToolUse",
    "SubagentStop",
    "Stop",
    "PreCompact",
    "SessionEnd",
)
"""The events after which a transcript has something new."""
_FLAG: Final = "--claude-code"
"""What tells our hooks from all others."""
_TIMEOUT: Final = 10
"""Seconds after which Claude Code ends the command: it only starts what records, and returns."""


def settings_file(*, project: Path | None) -> Path:
    """Return the settings file of a project, those that are for this machine alone, or of the user.

    The user's stand in `$CLAUDE_CONFIG_DIR`, or `~/.claude`. The command has paths of this machine, so a project's settings
    that are shared (`settings.json`) are no place for it.
    """
    if project is not None:
        return project / ".claude" / "settings.local.json"
    base = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(base) if base else Path.home() / ".claude") / "settings.json"


def hook_command(program: Sequence[str], store: str) -> str:
    """Return the command that a hook runs. It never fails: an exit code of 2 would hold the agent up.

    >>> hook_command(["/opt/trails"], "/home/alice/my store")
    "/opt/trails --store '/home/alice/my store' hook --claude-code 2>/dev/null || true"
    """
    return f"{shlex.join([*program, '--store', store, 'hook', _FLAG])} 2>/dev/null || true"


def is_ours(hook: object) -> bool:
    """Tell whether a hook is one that records into a store of Trails."""
    if not isinstance(hook, dict) or not isinstance(command := hook.get("command"), str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return ("hook", _FLAG) in pairwise(words) and any("trails" in word for word in words)


def with_hooks(text: str, command: str) -> str:
    r"""Return settings with a hook for each event that runs a command; what is there already stays.

    Raises `InvalidInput` for what is no JSON object, and for hooks of another shape than Claude Code's.

    >>> print(with_hooks('{"model": "m-1"}', "trails --store s hook --claude-code")[:60])
    {"model": "m-1", "hooks": {"UserPromptSubmit": [{"hooks": [{
    """
    settings = _checked(text)
    hooks = settings.get("hooks", {})
    if all(_ours_in(hooks.get(event, [])) == [command] for event in EVENTS) and not _elsewhere(hooks):
        return text
    text = without_hooks(text)
    if not text.strip():
        text = "{\n}\n"
    group = {"hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT}]}
    if json_edits.container_at(text, ["hooks"]) is None:
        return json_edits.insert_last(
            text, json_edits.read_container(text), {event: [group] for event in EVENTS}, "hooks"
        )
    for event in EVENTS:
        whole = _container(text, ["hooks"])
        if whole.named(event) is None:
            text = json_edits.insert_last(text, whole, [group], event)
        else:
            text = json_edits.insert_last(text, _container(text, ["hooks", event]), group)
    return text


def without_hooks(text: str) -> str:
    """Return settings without our hooks, and without what would be empty then and was not before."""
    hooks = _checked(text).get("hooks", {})
    for event in hooks:
        text = _without_event(text, event)
    whole = json_edits.container_at(text, ["hooks"]) if hooks else None
    if whole is not None and not whole.members:
        outer = json_edits.read_container(text)
        member = outer.named("hooks")
        if member is not None:
            return json_edits.remove_member(text, outer, member)
    return text


def _without_event(text: str, event: str) -> str:
    groups = _container(text, ["hooks", event])
    changed = False
    for at in range(len(groups.members) - 1, -1, -1):
        hooks = groups.members[at].value["hooks"]
        for inner in range(len(hooks) - 1, -1, -1):
            if is_ours(hooks[inner]):
                changed = True
                held = _container(text, ["hooks", event, at, "hooks"])
                text = json_edits.remove_member(text, held, held.members[inner])
        if changed and not _container(text, ["hooks", event, at, "hooks"]).members and any(map(is_ours, hooks)):
            outer = _container(text, ["hooks", event])
            text = json_edits.remove_member(text, outer, outer.members[at])
    if changed and not _container(text, ["hooks", event]).members:
        outer = _container(text, ["hooks"])
        member = outer.named(event)
        return text if member is None else json_edits.remove_member(text, outer, member)
    return text


def _container(text: str, path: Sequence[str | int]) -> Container:
    found = json_edits.container_at(text, path)
    assert found is not None  # noqa: S101 - `_checked` has seen it
    return found


def _ours_in(groups: Sequence[dict[str, Any]]) -> list[str]:
    return [hook["command"] for group in groups for hook in group["hooks"] if is_ours(hook)]


def _elsewhere(hooks: dict[str, Any]) -> bool:
    """Tell whether another event than those wanted has a hook of ours."""
    return any(_ours_in(groups) for event, groups in hooks.items() if event not in EVENTS)


def _checked(text: str) -> dict[str, Any]:
    """Return settings as values, and raise `InvalidInput` if they are none that hooks can be put into."""
    if not text.strip():
        return {}
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"is not JSON ({error}); mend it first") from error
    if not isinstance(settings, dict):
        raise InvalidInput("holds no JSON object")
    hooks = settings.get("hooks", {})
    json_edits.read_container(text)
    if not isinstance(hooks, dict):
        raise InvalidInput("has `hooks` that are no object")
    if hooks:
        json_edits.container_at(text, ["hooks"])
    for event, groups in hooks.items():
        is_fine = isinstance(groups, list) and all(
            isinstance(group, dict) and isinstance(group.get("hooks"), list) for group in groups
        )
        if not is_fine:
            raise InvalidInput(f"has hooks for {event!r} of a shape that is not known")
    return settings
