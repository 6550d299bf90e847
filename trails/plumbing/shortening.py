"""The beginnings of ids that may stand for them: as in git, what a program made up may be shortened, a chosen name may not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_SHOWN: Final = 8
"""So many are shown, as they are of digests."""
SHORTEST: Final = 4
"""So many digits of an id that was made up must be given, as in git."""
MADE_UP: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,})(?![0-9A-Za-z])"
)


def may_be_short_for(beginning: str, session_id: str) -> bool:
    """Tell whether an id may be named by its beginning: that ends inside a part that was made up, 4 of its digits in.

    >>> made = "7f3a9c1e5b2d48f6a0c4e8d2b6f1a3c5"
    >>> [may_be_short_for(short, f"pi:{made}") for short in ("pi:7f3a", "pi:7f3", "pi:", f"pi:{made}")]
    [True, False, False, False]
    >>> may_be_short_for("user-1", "user-10"), may_be_short_for("claude", "claude-code:plan")
    (False, False)
    """
    if not session_id.startswith(beginning):
        return False
    return any(
        made.start() + SHORTEST <= len(beginning) < made.end() and any(letter in "abcdef" for letter in made[0])
        for made in MADE_UP.finditer(session_id)
    )


def short(session_id: str, near: Iterable[str]) -> str:
    """Return the beginning of an id, with 8 made-up digits or more, that none of those near it has; the id where none is.

    >>> short("pi:7f3a9c1e5b2d48f6", []), short("pi:7f3a9c1e5b2d48f6", ["pi:7f3a9c1e5bffffff"]), short("plan", [])
    ('pi:7f3a9c1e', 'pi:7f3a9c1e5b2', 'plan')
    """
    common = max((_shared(session_id, other) for other in near), default=0)
    for made in MADE_UP.finditer(session_id):
        end = max(made.start() + _SHOWN, common + 1)
        beginning = session_id[: end + 1] if session_id[end - 1 : end] == "-" else session_id[:end]
        if may_be_short_for(beginning, session_id):
            return beginning
    return session_id


def _shared(one: str, other: str) -> int:
    """Return with how many characters two texts begin alike."""
    ends = (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(ends, min(len(one), len(other)))
