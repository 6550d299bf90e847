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
"""The roles that a program may append in. Importers keep other systems' roles beside these."""
OWN: Final = re.compile(r"\S+:\S+")
"""What a role of a program's own looks like, as `game:narrator`: no typo of a known role does."""
_NAMES: Final = {
    **dict.fromkeys(("user", "human", "humanmessage", "humanmessagechunk", "prompter"), "user"),
    **dict.fromkeys(
        ("assistant", "ai", "aimessage", "aimessagechunk", "gpt", "chatgpt", "bot", "chatbot"), "assistant"
    ),
    **dict.fromkeys(("model", "llm", "agent", "function_call", "tool_call"), "assistant"),
    **dict.fromkeys(("system", "systemmessage", "system_prompt"), "system"),
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


def checked(role: object) -> object:
    """Return a role that a program may append in; raise `InvalidInput` for another, naming the nearest right one.

    >>> checked("user"), checked("game:narrator")
    ('user', 'game:narrator')
    """
    if not isinstance(role, str) or role in KNOWN or not role:
        return role  # what is no text is refused where every role is
    if OWN.fullmatch(role):
        return role
    meant = known(role)
    hint = f"; it is {meant!r} here" if meant else did_you_mean(role, sorted(KNOWN))
    shown = repr(role[:40]) + ("..." if len(role) > 40 else "")
    raise InvalidInput(
        f"{shown} is no known role{hint}. Known are user, assistant, system, developer, tool and summary; a role of your own "
        "holds a colon, as in 'game:narrator'. The role comes before the content"
    )
