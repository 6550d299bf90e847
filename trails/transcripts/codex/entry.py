"""A turn of a Codex thread in the making."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trails.model import Compaction
from trails.transcripts.source import Piece, SourceTurn

_Json = Mapping[str, Any]
_PLAIN: Final = {"assistant": "output_text"}
_CONTEXTS: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<skill>",
    "<subagent_notification>",
    "<agent_message_board_notification>",
    "<user_shell_command>",
    "<recommended_plugins>",
)
"""How messages begin that have the user's role and are not the user's."""


@dataclass(slots=True, eq=False)
class Entry:
    """A turn in the making."""

    role: str
    content: str | tuple[Any, ...]
    time: datetime | None
    model: str | None
    meta: dict[str, Any]
    texts: frozenset[str] = frozenset()
    """What an event that repeats it may say."""
    is_event: bool = False
    waits: bool = False
    """Whether it makes a turn only once it is sure that no item repeats it: reasoning, which events tell in pieces."""
    generation: int = 0
    usage: _Json | None = None
    compaction: Compaction | None = None
    author: str | None = None
    """The agent that said it, where another one did."""

    @property
    def by_model(self) -> bool:
        """Whether the model generated it."""
        return self.role == "assistant"

    @property
    def by_user(self) -> bool:
        """Whether the user typed it, or another agent sent it, and no program put it in the user's name."""
        if self.role != "user" or self.author is not None:
            return self.author is not None
        passed = self.meta.get("internal_chat_message_metadata_passthrough")
        kinds = passed.get("content_item_kinds") if isinstance(passed, dict) else None
        if isinstance(kinds, list) and kinds:
            return any(str(kind).startswith("user.") or kind == "unknown" for kind in kinds)
        return not any(text.startswith(_CONTEXTS) for text in self.texts)

    def turn(self, index: int) -> SourceTurn:
        """Return the turn at an index of its path. Its id is its place: a fork's copy of it has the same one."""
        compaction = self.compaction
        if compaction is not None and index:
            compaction = compaction.model_copy(update={"summarised_through": index - 1})
        place = f"item-{index}" + (f"~{self.generation}" if self.generation else "")
        return SourceTurn(
            role=self.role,
            pieces=(Piece(place, self.content),),
            time=self.time,
            author=self.author,
            model=self.model if self.by_model or self.usage is not None else None,
            usage=self.usage,
            compaction=compaction,
            meta=self.meta,
        )


def content_of(role: str, content: Any) -> str | tuple[Any, ...]:
    """Return a message's content: the text where it is all there is, so that an event gives the same turn; else the parts."""
    match content:
        case [{"type": kind, "text": str(text)} as part] if len(part) == 2 and kind == _PLAIN.get(role, "input_text"):
            return text
        case str():
            return content
    return tuple(content)
