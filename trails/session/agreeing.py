"""Whether a stored session is what a caller who asks for it by its id says that it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trails.errors import InvalidInput
from trails.plumbing.worktree import Worktree


def check(tree: Worktree, said: Mapping[str, str | None], meta: Mapping[str, Any] | None) -> None:
    """Raise `InvalidInput` where a stored session says something else; what is None, or not given, is not compared.

    Of `meta`, each key that is given is compared, and others may stand there too.
    """
    for name, wanted in said.items():
        if wanted is not None:
            _compare(tree.id, name, tree.system if name == "system" else getattr(tree.record, name), wanted)
    stored = tree.record.meta
    for key, value in (meta or {}).items():
        _compare(tree.id, f"meta[{key!r}]", stored.get(key), value)


_REMEDIES = {
    "system": "give no system prompt, or change it with set_system()",
    "label": "give no label, or change it with set_label()",
}


def _compare(session_id: str, name: str, stored: object, wanted: object) -> None:
    if stored != wanted:
        remedy = _REMEDIES.get(name, f"give no {name}, or take another id")
        raise InvalidInput(
            f"session {session_id!r} is stored with {name}={_shown(stored)}, not {_shown(wanted)}: nothing is changed by "
            f"asking for it; {remedy}"
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}..."
