"""The verifier of exports as one file that needs nothing but Python: what it imports of Trails is written into it."""

from __future__ import annotations

from inspect import getsource
from typing import Final

from trails import older_usage, usage
from trails.integrity import verify_export

NAME: Final = "verify_export.py"
"""What the file is called where it goes out."""
_MODULES: Final = (usage, older_usage)
_HEAD: Final = ("from __future__", "from trails.")


def verifier() -> bytes:
    """Return `verify_export.py` as it goes out beside an export."""
    text = getsource(verify_export)
    for module in _MODULES:
        lines = [line for line in getsource(module).splitlines() if not line.startswith(_HEAD)]
        before, _, after = text.partition(f"from {module.__name__} import ")
        text = before + "\n".join(lines) + "\n" + after.partition("\n")[2]
    return text.encode()
