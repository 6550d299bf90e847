"""The roles of turns: those that Trails knows, and what other systems call them."""

from __future__ import annotations

import re
from typing import Final

from trails.errors import InvalidInput
from trails.nearest import did_you_mean

KNOWN: Final = frozenset(
    {
        *("user", "human", "assistant", "system", "developer", "tool", "toolResult"),
        *("summary", "compaction_summary", "branch_summary", "custom", "delivery"),
    }
)
"""The roles that Trails and the APIs of models know."""
OWN: Final = re.compile(r"\S+:\S+")
"""A role that is surely a program's own, as `game:narrator`: no typo of a known role looks so."""
_MAIN: Final = ("user", "assistant", "system", "developer", "tool", "summary")
"""The roles that a mistyped one is compared with."""
_NEAR: Final = 0.75
"""How similar to a known role, from 0 to 1, a name is taken for a typo of it."""
_NAMES: Final = {
    **dict.fromkeys(("user", "human", "humanmessage", "humanmessagechunk", "prompter"), "user"),
    **dict.fromkeys(
        ("assistant", "ai", "aimessage", "aimessagechunk", "gpt", "chatgpt", "bot", "chatbot"), "assistant"
    ),
    **dict.fromkeys(("model", "llm", "agent", "function_call", "tool_call"), "assistant"),
    **dict.fromkeys(("sys", "system", "systemmessage", "system_prompt"), "system"),
    **dict.fromkeys(("tool", "toolmessage", "function", "functionmessage", "ipython", "observation"), "tool"),
    **dict.fromkeys(("tool_result", "tool_response", "toolresult", "function_response"), "tool"),
    "developer": "developer",
}
"""What the roles are called elsewhere, in small letters: LangChain, ShareGPT, Gemini, Cohere, Llama, OpenAssistant."""


def known(name: object) -> str | None:
    """Return the role that any system's name stands for; None for a name that is not known.

    >>> known("human"), known("AI"), known("gpt"), known("Alice")
    ('user', 'assistant', 'assistant', None)
    """
    return _NAMES.get(name.strip().lower()) if isinstance(name, str) else None


def checked(role: object, content: object = "") -> object:
    """Return a role that a program may append in; raise `InvalidInput` for what looks like a mistake.

    A mistake is another system's name of a role, a name that is nearly a known one, a text, and a role and a content that
    changed places. Any other word is a role of the program's own, and so is one with a colon.

    >>> checked("user"), checked("critic"), checked("game:usr")
    ('user', 'critic', 'game:usr')
    """
    if not isinstance(role, str) or role in KNOWN or not role or OWN.fullmatch(role):
        return role  # what is no text is refused where every role is
    meant = known(role)
    near = did_you_mean(role, _MAIN, most=1, cutoff=_NEAR)
    is_swapped = isinstance(content, str) and content in KNOWN
    if not (meant or near or is_swapped or re.search(r"\s", role)):
        return role
    hint = f"; it is {meant!r} here" if meant else near
    shown = repr(role[:40]) + ("..." if len(role) > 40 else "")
    raise InvalidInput(
        f"{shown} is no known role{hint}. Known are {', '.join(_MAIN[:-1])} and {_MAIN[-1]}. The role comes before the content. "
        "A role of your own is one word; where it is nearly a known one, it holds a colon, as in 'game:usr'"
    )
