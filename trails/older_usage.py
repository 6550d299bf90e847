"""How versions up to 0.1.0 counted the usage of a model call: stores from then are known by it.

They took each count as it was reported, whatever the source includes in it, and knew fewer names.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from trails.usage import cost_of, tokens_of

_NAMES: Final = {
    "inputTokens": ("input_tokens", "prompt_tokens", "input"),
    "cacheReadTokens": (
        "cache_read_input_tokens",
        "cache_read_tokens",
        "cacheRead",
        "cached",
        "cached_input_tokens",
        "cache_read.input_tokens",
    ),
    "cacheWriteTokens": (
        "cache_creation_input_tokens",
        "cache_write_tokens",
        "cacheWrite",
        "cache_creation.input_tokens",
    ),
    "outputTokens": ("output_tokens", "completion_tokens", "output"),
    "totalTokens": ("total_tokens", "totalTokens", "total"),
}


def older_figures_of(usage: Mapping[str, Any]) -> dict[str, int | Decimal]:
    """Return what such a version stored of a usage beside it, by property.

    >>> older_figures_of({"input_tokens": 1000, "cached_input_tokens": 900})
    {'inputTokens': 1000, 'cacheReadTokens': 900}
    """
    flat = {name: value for name, value in usage.items() if not isinstance(value, Mapping)}
    counts = {name: tokens_of(flat, names) for name, names in _NAMES.items()}
    figures = counts | {"cost": cost_of({"cost": usage.get("cost")})}
    return {name: figure for name, figure in figures.items() if figure is not None}
