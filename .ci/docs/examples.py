"""Show the examples of docstrings as sessions of Python: in Markdown, `>>>` would be a quotation.

An extension of Griffe, which reads the docstrings for mkdocstrings.
"""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_EXAMPLE: Final = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def with_fences(text: str) -> str:
    """Return a docstring whose examples stand between fences.

    >>> with_fences("Add.\\n\\n>>> 1 + 1\\n2\\n\\nThen more.")
    'Add.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n\\nThen more.'
    """
    return _EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)


class Examples(griffe.Extension):
    """Puts fences around examples."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Do so for the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = with_fences(obj.docstring.value)
