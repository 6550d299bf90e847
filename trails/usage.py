"""Read the usage of model calls: tokens and cost.

Sources count differently. For some, the input includes the tokens that were read from the provider's cache; for others it does
not. The same holds for output and reasoning tokens. `SOURCES` says which is which, and `counts_of` reads a usage by it.

Versions up to 0.1.0 took each count as it was reported, and knew fewer names. The functions for older figures recognise stores
that they wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Context, Decimal
from functools import lru_cache, reduce
from itertools import product
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

Names = tuple[str, ...]

MAX_USAGE: Final = 10**12
"""The most tokens, and the highest cost, that one model call counts with: millions of calls can still be added up."""
_COST_DIGITS: Final = Decimal("1E-18")
"""The engine adds up decimals of 18 fractional digits, and nothing where one of them has more."""
EXACT: Final = Context(prec=64)
"""What costs are added up by: more digits than the engine has, whatever a program has set for sums of its own."""


class Source(NamedTuple):
    """How a source of usage counts, and under which names.

    A name with dots is a key as it stands, or leads into objects: `prompt_tokens_details.cached_tokens`.
    """

    input: Names
    output: Names
    cache_read: Names = ()
    cache_write: Names = ()
    """Tokens written to the provider's cache, for however long."""
    cache_write_5m: Names = ()
    cache_write_1h: Names = ()
    reasoning: Names = ()
    other_input: Names = ()
    """Tokens that are billed as input and that the input count leaves out."""
    input_includes_cache: bool = True
    output_includes_reasoning: bool = True
    total_decides: bool = True
    """Whether a total that fits another way to count proves that way: programs that write this usage do not agree."""


TOTAL_NAMES: Final = ("total_tokens", "totalTokens", "total", "totalTokenCount", "total_token_count")
"""What sources call all tokens of a call."""


def _source(read: str, written: str, **rest: str | bool) -> Source:
    """Return a row of the table; names stand with spaces between them."""
    fields: dict[str, Any] = {
        name: tuple(each.split()) if isinstance(each, str) else each for name, each in rest.items()
    }
    return Source(tuple(read.split()), tuple(written.split()), **fields)


SOURCES: Final[Mapping[str, Source]] = MappingProxyType(
    {
        # https://github.com/openai/openai-python: completion_usage.py; OpenRouter, DeepSeek and LiteLLM add names to it.
        "openai-chat": _source("prompt_tokens", "completion_tokens",
            cache_read="prompt_tokens_details.cached_tokens prompt_cache_hit_tokens cached_tokens cache_read_input_tokens",
            cache_write="prompt_tokens_details.cache_write_tokens prompt_tokens_details.cache_creation_tokens "
            "cache_creation_input_tokens",
            cache_write_5m="prompt_tokens_details.cache_creation_token_details.ephemeral_5m_input_tokens "
            "cache_creation.ephemeral_5m_input_tokens",
            cache_write_1h="prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens "
            "cache_creation.ephemeral_1h_input_tokens",
            reasoning="completion_tokens_details.reasoning_tokens reasoning_tokens"),
        # Harbor's ATIF: `cached_tokens` are a part of `prompt_tokens`.
        "atif": _source("prompt_tokens", "completion_tokens", cache_read="cached_tokens cache_read_input_tokens",
            cache_write="cache_creation_input_tokens", cache_write_5m="cache_creation.ephemeral_5m_input_tokens",
            cache_write_1h="cache_creation.ephemeral_1h_input_tokens",
            reasoning="reasoning_tokens reasoning_output_tokens"),
        # Claude's API and Claude Code: `input_tokens` leaves out what was read from and written to the cache.
        "anthropic": _source("input_tokens", "output_tokens", cache_read="cache_read_input_tokens",
            cache_write="cache_creation_input_tokens", cache_write_5m="cache_creation.ephemeral_5m_input_tokens",
            cache_write_1h="cache_creation.ephemeral_1h_input_tokens",
            reasoning="output_tokens_details.thinking_tokens output_tokens_details.reasoning_tokens",
            input_includes_cache=False, total_decides=False),
        # https://github.com/openai/openai-python: response_usage.py
        "openai-responses": _source("input_tokens", "output_tokens", cache_read="input_tokens_details.cached_tokens",
            cache_write="input_tokens_details.cache_write_tokens",
            reasoning="output_tokens_details.reasoning_tokens"),
        "codex": _source("input_tokens", "output_tokens", cache_read="cached_input_tokens",
            cache_write="cache_write_input_tokens", reasoning="reasoning_output_tokens"),
        # OpenTelemetry's GenAI conventions, without `gen_ai.usage.`; what OpenInference tells is renamed to these.
        "otel": _source("input_tokens prompt_tokens", "output_tokens completion_tokens",
            cache_read="cache_read.input_tokens cache_read_input_tokens details.cache_read_tokens details.cached_tokens "
            "cached_tokens input_cached_tokens",
            cache_write="cache_creation.input_tokens cache_creation_input_tokens details.cache_write_tokens",
            reasoning="reasoning.output_tokens details.reasoning_tokens"),
        # LangChain's usage_metadata
        "langchain": _source("input_tokens", "output_tokens", cache_read="input_token_details.cache_read",
            cache_write="input_token_details.cache_creation",
            cache_write_5m="input_token_details.ephemeral_5m_input_tokens",
            cache_write_1h="input_token_details.ephemeral_1h_input_tokens",
            reasoning="output_token_details.reasoning"),
        # Inspect's ModelUsage: providers that include cached tokens show it in the total.
        "inspect": _source("input_tokens", "output_tokens", cache_read="input_tokens_cache_read",
            cache_write="input_tokens_cache_write", reasoning="reasoning_tokens", input_includes_cache=False),
        # https://ai.google.dev/api/generate-content: usageMetadata, and what Gemini CLI makes of it
        "gemini": _source("promptTokenCount prompt_token_count",
            "candidatesTokenCount candidates_token_count responseTokenCount response_token_count",
            cache_read="cachedContentTokenCount cached_content_token_count",
            reasoning="thoughtsTokenCount thoughts_token_count",
            other_input="toolUsePromptTokenCount tool_use_prompt_token_count", output_includes_reasoning=False),
        "gemini-cli": _source("input", "output", cache_read="cached", reasoning="thoughts", other_input="tool",
            output_includes_reasoning=False),
        # opencode: `cost` is told beside
        "opencode": _source("input", "output", cache_read="cache.read", cache_write="cache.write",
            reasoning="reasoning", input_includes_cache=False, output_includes_reasoning=False),
        "pi": _source("input", "output", cache_read="cacheRead", cache_write="cacheWrite",
            cache_write_1h="cacheWrite1h", reasoning="reasoning reasoningTokens", input_includes_cache=False,
            total_decides=False),
        # Langfuse: each key of usageDetails has a price of its own, so they exclude each other.
        "langfuse": _source("input input_tokens prompt_tokens", "output output_tokens completion_tokens",
            cache_read="input_cached_tokens input_cache_read input_cached input_cache_read_tokens cache_read_input_tokens "
            "cache_read.input_tokens prompt_details.cache_read input_cached_content_token_count cached_tokens",
            cache_write="input_cache_creation input_cache_write input_cache_write_tokens input_cache_creation_tokens "
            "cache_creation_input_tokens cache_creation.input_tokens prompt_details.cache_write",
            cache_write_5m="input_cache_creation_5m cache_creation.ephemeral_5m_input_tokens",
            cache_write_1h="input_cache_creation_1h cache_creation.ephemeral_1h_input_tokens",
            reasoning="output_reasoning_tokens output_reasoning completion_details.reasoning reasoning.output_tokens "
            "output_thoughts_token_count thoughts_token_count reasoning_tokens",
            other_input="input_audio input_audio_tokens input_tool_use_prompt_token_count",
            input_includes_cache=False, output_includes_reasoning=False),
        # Amazon Bedrock's Converse, and Strands
        "bedrock": _source("inputTokens", "outputTokens", cache_read="cacheReadInputTokens cacheReadInputTokenCount",
            cache_write="cacheWriteInputTokens cacheWriteInputTokenCount", input_includes_cache=False,
            total_decides=False),
        "copilot": _source("inputTokens", "outputTokens", cache_read="cacheReadTokens",
            cache_write="cacheWriteTokens", reasoning="reasoningTokens"),
        # Vercel's AI SDK
        "ai-sdk": _source("inputTokens promptTokens", "outputTokens completionTokens",
            cache_read="cachedInputTokens inputTokenDetails.cacheReadTokens",
            cache_write="inputTokenDetails.cacheWriteTokens",
            reasoning="reasoningTokens outputTokenDetails.reasoningTokens"),
        # All else, such as pydantic-ai's `cache_read_tokens`, which are a part of the input.
        "generic": _source("input_tokens prompt_tokens input inputTokens",
            "output_tokens completion_tokens output outputTokens",
            cache_read="cache_read_input_tokens cache_read_tokens cacheRead cached cached_input_tokens "
            "cache_read.input_tokens cached_tokens",
            cache_write="cache_creation_input_tokens cache_write_tokens cacheWrite cache_creation.input_tokens",
            cache_write_1h="cache_write_1h_tokens cacheWrite1h",
            reasoning="reasoning_tokens reasoningTokens thinking_tokens"),
    }
)  # fmt: skip
"""How each source counts, by its name; a usage may name it as its `source`. The first that a usage looks like is taken."""
_GENERIC: Final = SOURCES["generic"]
TOKEN_NAMES: Final = (
    *_GENERIC.input, *_GENERIC.output, *_GENERIC.cache_read, *_GENERIC.cache_write, *TOTAL_NAMES,
)  # fmt: skip
"""Names that only ever have counts of tokens."""


COST_NAMES: Final = ("cost", "total_cost", "cost_usd")
"""What sources call what a call cost."""


class Counts(NamedTuple):
    """What a model call read and wrote, in tokens, counted one way for all sources; None for what was not reported."""

    input: int | None = None
    """Neither read from the provider's cache nor written to it."""
    cache_read: int | None = None
    cache_write: int | None = None
    """All that was written to the cache,"""
    cache_write_1h: int | None = None
    """and of it what was written to be kept for an hour."""
    output: int | None = None
    """All that the model wrote,"""
    reasoning: int | None = None
    """and of it what was reasoning."""

    @property
    def prompt(self) -> int | None:
        """All that the model was shown, cached or not; None where no input was reported."""
        if self.input is None:
            return None
        return self.input + (self.cache_read or 0) + (self.cache_write or 0)


def counts_of(usage: Mapping[str, Any]) -> Counts:
    """Return what a usage says, counted as its source counts: the one that it names, or the first that it looks like.

    >>> counts_of({"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 900}})
    Counts(input=100, cache_read=900, cache_write=None, cache_write_1h=None, output=50, reasoning=None)
    >>> counts_of({"input": 1000, "output": 50, "cached": 900, "thoughts": 20})[-2:]
    (70, 20)
    """
    source = SOURCES[source_of(usage)]
    read, written = tokens_of(usage, source.cache_read), tokens_of(usage, source.cache_write)
    short, long = tokens_of(usage, source.cache_write_5m), tokens_of(usage, source.cache_write_1h)
    if short is not None or long is not None:
        written = max(written or 0, (short or 0) + (long or 0))
    told = Counts(
        input=tokens_of(usage, source.input),
        cache_read=read,
        cache_write=written,
        cache_write_1h=long,
        output=tokens_of(usage, source.output),
        reasoning=tokens_of(usage, source.reasoning),
    )
    other = tokens_of(usage, source.other_input) or 0
    within, also, beside = _way(source, told, other, tokens_of(usage, TOTAL_NAMES))
    cached = (read or 0) + (written or 0)
    given, made = told.input, told.output
    if given is not None:
        given = given - cached * within + other * beside
    if made is not None and not also:
        made += told.reasoning or 0
    return told._replace(input=given, output=made)


def figures_of(usage: Mapping[str, Any]) -> dict[str, int | Decimal]:
    """Return what is stored of a usage beside it, so that queries can add it up, by property; nothing for what is unknown.

    >>> figures_of({"input": 100, "output": 50, "cacheRead": 900, "cost": {"total": 0.5}})
    {'inputTokens': 100, 'cacheReadTokens': 900, 'outputTokens': 50, 'cost': Decimal('0.5')}
    """
    counts = counts_of(usage)
    figures = {
        "inputTokens": counts.input,
        "cacheReadTokens": counts.cache_read,
        "cacheWriteTokens": counts.cache_write,
        "cacheWriteHourTokens": counts.cache_write_1h,
        "outputTokens": counts.output,
        "reasoningTokens": counts.reasoning,
        "totalTokens": tokens_of(usage, TOTAL_NAMES),
        "cost": cost_of(usage),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _way(source: Source, told: Counts, other: int, total: int | None) -> tuple[bool, bool, bool]:
    """Tell whether input includes cached tokens, whether output includes reasoning, and whether other input is beside it.

    As the source's row says, but where that cannot be: a part is no larger than its whole, and parts add up to the total.
    """
    given, made = told.input or 0, told.output or 0
    cached, reasoned = (told.cache_read or 0) + (told.cache_write or 0), told.reasoning or 0
    usual = (
        source.input_includes_cache and cached <= given,
        source.output_includes_reasoning and reasoned <= made,
        True,
    )

    def summed(way: tuple[bool, bool, bool]) -> int:
        within, also, beside = way
        return given + made + cached * (not within) + reasoned * (not also) + other * beside

    if total is None or not source.total_decides or summed(usual) == total:
        return usual
    told_otherwise = product((True, False), (True, False), (True, False))
    fitting = [way for way in told_otherwise if summed(way) == total]
    possible = [way for way in fitting if not (way[0] and cached > given) and not (way[1] and reasoned > made)]
    return max(possible, key=lambda way: sum(map(bool.__eq__, way, usual)), default=usual)


def source_of(usage: Mapping[str, Any]) -> str:
    """Return the name of the source in `SOURCES` that a usage names, or else of the first that it looks like.

    >>> source_of({"input_tokens": 3, "cache_read_input_tokens": 900}), source_of({"input": 3, "source": "langfuse"})
    ('anthropic', 'langfuse')
    """
    named = usage.get("source")
    if isinstance(named, str) and named in SOURCES:
        return named
    return _source_like(frozenset(_counted_names(usage)))


@lru_cache(maxsize=1000)
def _source_like(counted: frozenset[str]) -> str:
    """Return the first source that a usage with these names looks like."""
    fitting = [name for name, source in SOURCES.items() if not counted.isdisjoint(source.input)]
    signs: tuple[Callable[[Source], Names], ...] = (
        lambda row: row.cache_read + row.cache_write + row.cache_write_5m + row.cache_write_1h,
        lambda row: row.reasoning + row.other_input,
    )
    for sign in signs:
        for name in fitting:
            if not counted.isdisjoint(sign(SOURCES[name])):
                return name
    return fitting[0] if fitting and counted.isdisjoint(_GENERIC.input) else "generic"


def _counted_names(usage: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the names under which a usage has a count of tokens, those of nested values with dots."""
    for key, value in usage.items():
        if isinstance(value, Mapping):
            yield from (name for name in _counted_names(value, f"{above}{key}.") if name not in usage)
        elif token_count(value) is not None:
            yield f"{above}{key}"


def with_source(usage: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return a usage that is counted as a source counts: it names the source only where it looks like another one's.

    It stays as it is where it names a source already, or has no input under the source's names.

    >>> with_source({"input_tokens": 9, "output_tokens": 1}, "otel")
    {'input_tokens': 9, 'output_tokens': 1}
    >>> with_source({"input_tokens": 9, "cache_read_input_tokens": 8}, "otel")
    {'input_tokens': 9, 'cache_read_input_tokens': 8, 'source': 'otel'}
    """
    plain, named = dict(usage), {**usage, "source": source}
    is_other = usage.get("source") in SOURCES or tokens_of(usage, SOURCES[source].input) is None
    return plain if is_other or counts_of(plain) == counts_of(named) else named


def token_count(value: object) -> int | None:
    """Return a count of tokens as it is added up: a whole number from 0 to `MAX_USAGE`; None for anything else.

    >>> token_count(12), token_count("12"), token_count(10**30)
    (12, None, None)
    """
    return value if type(value) is int and 0 <= value <= MAX_USAGE else None


def tokens_of(usage: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """Return how many tokens a usage reports under one of some names; None where none of them has a count."""
    return next((count for name in names if (count := token_count(_at(usage, name))) is not None), None)


def _at(usage: Mapping[str, Any], name: str) -> Any:
    """Return what stands under a key, or under the keys that a name with dots leads along."""
    if name in usage or "." not in name:
        return usage.get(name)
    first, _, rest = name.partition(".")
    within = usage.get(first)
    return _at(within, rest) if isinstance(within, Mapping) else None


def cost_of(usage: Mapping[str, Any]) -> Decimal | None:
    """Return the cost that a usage reports, a number or the `total` of several, to 18 digits; None where it has none.

    >>> cost_of({"cost": {"input": 0.01, "total": 0.03}}), cost_of({"cost": 1e308})
    (Decimal('0.03'), None)
    """
    price = _cost(usage)
    if type(price) not in (int, float) or not 0 <= price <= MAX_USAGE:
        return None
    exact = Decimal(str(price))
    if exact < 1 and exact != (kept := EXACT.quantize(exact, _COST_DIGITS)):
        return kept
    return exact


_Number = TypeVar("_Number", int, float, Decimal)


def total(amounts: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of the amounts that are known; None where none is.

    >>> total([3, None, 4]), total([None]), total([Decimal("0.1")] * 3)
    (7, None, Decimal('0.3'))
    """
    known = [amount for amount in amounts if amount is not None]
    return reduce(_plus, known) if known else None


def _plus(one: Any, other: Any) -> Any:
    return EXACT.add(one, other) if isinstance(one, Decimal) else one + other


def _cost(usage: Mapping[str, Any]) -> Any:
    cost = next((usage[name] for name in COST_NAMES if usage.get(name) is not None), None)
    return cost.get("total") if isinstance(cost, Mapping) else cost


_OLDER_NAMES: Final = {
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
    counts = {name: tokens_of(flat, names) for name, names in _OLDER_NAMES.items()}
    figures = counts | {"cost": cost_of({"cost": usage.get("cost")})}
    return {name: figure for name, figure in figures.items() if figure is not None}
