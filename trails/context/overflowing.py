"""Whether a model's API refused a request because it was too long for the model."""

from __future__ import annotations

import re
from typing import Final

from trails.errors import ContextOverflow

_CODE: Final = "context_length_exceeded"
_STATUSES: Final = frozenset({400, 413, 422})
_WORDS: Final = re.compile(
    r"context_length_exceeded|maximum context length|prompt is too long|request_too_large"
    r"|exceeds? (the |this model's )?(maximum )?context (limit|window|length)",
    re.IGNORECASE,
)
"""What OpenAI, Anthropic and servers that speak like them say of it."""


def is_overflow(error: BaseException) -> bool:
    """Tell whether an error says that a request was too long: `ContextOverflow`, or one of a model SDK's errors, by its shape.

    An error of OpenAI's SDK has the code `context_length_exceeded`; others have an HTTP status of 400, 413 or 422 and say so
    in words.

    >>> is_overflow(ContextOverflow("too long")), is_overflow(ValueError("prompt is too long"))
    (True, False)
    """
    if isinstance(error, ContextOverflow) or getattr(error, "code", None) == _CODE:
        return True
    return getattr(error, "status_code", None) in _STATUSES and _WORDS.search(str(error)) is not None
