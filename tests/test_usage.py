"""What a usage of each source means: the counts of each row were added up by hand, from what the source documents."""

from __future__ import annotations

from typing import Any

import pytest

from trails.usage import SOURCES, Counts, cost_of, counts_of, source_of, with_source

REPORTED: tuple[tuple[str, dict[str, Any], Counts], ...] = (
    (
        "openai-chat",
        {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 900}},
        Counts(input=100, cache_read=900, output=50),
    ),
    (
        "openai-chat",  # as LiteLLM writes Claude's: all cached tokens are within the prompt
        {
            "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050, "cache_read_input_tokens": 700,
            "cache_creation_input_tokens": 200, "completion_tokens_details": {"reasoning_tokens": 20},
        },
        Counts(input=100, cache_read=700, cache_write=200, output=50, reasoning=20),
    ),
    (
        "openai-chat",  # the total shows that reasoning is not within the completion
        {
            "prompt_tokens": 10, "completion_tokens": 30, "total_tokens": 60,
            "completion_tokens_details": {"reasoning_tokens": 20},
        },
        Counts(input=10, output=50, reasoning=20),
    ),
    (
        "openai-responses",
        {
            "input_tokens": 1000, "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
            "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 40}, "total_tokens": 1050,
        },
        Counts(input=100, cache_read=600, cache_write=300, output=50, reasoning=40),
    ),
    (
        "codex",
        {
            "input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 50, "reasoning_output_tokens": 20,
            "total_tokens": 1050,
        },
        Counts(input=100, cache_read=900, output=50, reasoning=20),
    ),
    (
        "anthropic",
        {
            "input_tokens": 7, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 80, "output_tokens": 50,
            "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 50},
        },
        Counts(input=7, cache_read=900, cache_write=80, cache_write_1h=50, output=50),
    ),
    (
        "anthropic",  # the parts alone
        {"input_tokens": 7, "output_tokens": 5, "cache_creation": {"ephemeral_5m_input_tokens": 30}},
        Counts(input=7, cache_write=30, output=5),
    ),
    (
        "otel",
        {"input_tokens": 1000, "cache_read.input_tokens": 700, "cache_creation.input_tokens": 200, "output_tokens": 50,
         "reasoning.output_tokens": 10},
        Counts(input=100, cache_read=700, cache_write=200, output=50, reasoning=10),
    ),
    (
        "otel",  # a part is no larger than the whole: this writer leaves cached tokens out
        {"input_tokens": 3, "cache_read.input_tokens": 700, "output_tokens": 50},
        Counts(input=3, cache_read=700, output=50),
    ),
    (
        "gemini-cli",
        {"input": 1000, "output": 50, "cached": 900, "thoughts": 20, "tool": 5, "total": 1075},
        Counts(input=105, cache_read=900, output=70, reasoning=20),
    ),
    (
        "gemini",
        {"promptTokenCount": 1000, "candidatesTokenCount": 50, "cachedContentTokenCount": 900, "thoughtsTokenCount": 20},
        Counts(input=100, cache_read=900, output=70, reasoning=20),
    ),
    ("gemini", {"prompt_token_count": 10, "candidates_token_count": 5}, Counts(input=10, output=5)),
    ("ai-sdk", {"promptTokens": 10, "completionTokens": 5}, Counts(input=10, output=5)),
    (
        "langchain",
        {
            "input_tokens": 1000, "output_tokens": 50, "total_tokens": 1050, "output_token_details": {"reasoning": 20},
            "input_token_details": {"cache_read": 700, "cache_creation": 0, "ephemeral_1h_input_tokens": 200},
        },
        Counts(input=100, cache_read=700, cache_write=200, cache_write_1h=200, output=50, reasoning=20),
    ),
    (
        "inspect",
        {"input_tokens": 100, "input_tokens_cache_read": 900, "output_tokens": 50, "total_tokens": 1050},
        Counts(input=100, cache_read=900, output=50),
    ),
    (
        "inspect",  # the total shows that the provider's input includes what was cached
        {"input_tokens": 1000, "input_tokens_cache_read": 900, "output_tokens": 50, "total_tokens": 1050},
        Counts(input=100, cache_read=900, output=50),
    ),
    (
        "opencode",
        {"input": 100, "output": 30, "reasoning": 20, "cache": {"read": 900, "write": 40}},
        Counts(input=100, cache_read=900, cache_write=40, output=50, reasoning=20),
    ),
    (
        "pi",
        {"input": 100, "output": 50, "cacheRead": 900, "cacheWrite": 80, "cacheWrite1h": 30, "totalTokens": 1130},
        Counts(input=100, cache_read=900, cache_write=80, cache_write_1h=30, output=50),
    ),
    (
        "langfuse",
        {"input": 100, "output": 30, "input_cached_tokens": 900, "output_reasoning_tokens": 20, "total": 1050},
        Counts(input=100, cache_read=900, output=50, reasoning=20),
    ),
    (
        "langfuse",  # as it takes OpenInference's spans: the total shows what is within what
        {"input": 1000, "output": 50, "prompt_details.cache_read": 900, "completion_details.reasoning": 20, "total": 1050},
        Counts(input=100, cache_read=900, output=50, reasoning=20),
    ),
    (
        "bedrock",
        {"inputTokens": 100, "outputTokens": 50, "cacheReadInputTokens": 900, "totalTokens": 150},
        Counts(input=100, cache_read=900, output=50),
    ),
    (
        "copilot",
        {"inputTokens": 1000, "outputTokens": 50, "cacheReadTokens": 900, "cacheWriteTokens": 0},
        Counts(input=100, cache_read=900, cache_write=0, output=50),
    ),
    (
        "ai-sdk",
        {"inputTokens": 1000, "outputTokens": 50, "cachedInputTokens": 900, "reasoningTokens": 20},
        Counts(input=100, cache_read=900, output=50, reasoning=20),
    ),
    (
        "generic",
        {"input_tokens": 1000, "output_tokens": 50, "cache_read_tokens": 900},
        Counts(input=100, cache_read=900, output=50),
    ),
)  # fmt: skip


@pytest.mark.parametrize(("source", "usage", "counts"), REPORTED, ids=range(len(REPORTED)))
def test_a_usage_is_told_by_its_names_and_counted_as_its_source_counts(
    source: str, usage: dict[str, Any], counts: Counts
) -> None:
    assert (source_of(usage), counts_of(usage)) == (source, counts)
    assert with_source(usage, source) == usage
    assert counts_of(usage | {"source": source}) == counts


def test_a_cached_prompt_of_a_trajectory_is_a_part_of_its_prompt() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "cached_tokens": 900, "cost": 0.5}
    assert counts_of(with_source(usage, "atif")) == Counts(input=100, cache_read=900, output=50)


def test_each_source_is_read_by_some_usage_above() -> None:
    assert {source for source, _, _ in REPORTED} | {"atif"} == set(SOURCES)


def test_a_source_that_is_named_is_believed_over_the_names_of_its_counts() -> None:
    usage = {"input_tokens": 1000, "output_tokens": 50, "cache_read_input_tokens": 900}
    assert counts_of(usage).input == 1000
    named = with_source(usage, "otel")
    assert named == usage | {"source": "otel"}
    assert counts_of(named).input == 100
    assert counts_of(usage | {"source": "no such source"}).input == 1000


def test_what_is_not_reported_is_unknown_and_not_nothing() -> None:
    assert counts_of({}) == Counts()
    assert counts_of({"output_tokens": 5, "cache_read_input_tokens": 9}) == Counts(cache_read=9, output=5)
    assert counts_of({"output_tokens": 5, "cache_read_input_tokens": 9}).prompt is None


def test_a_price_is_taken_from_where_a_source_puts_it() -> None:
    assert [str(cost_of({name: 0.25})) for name in ("cost", "total_cost", "cost_usd")] == ["0.25"] * 3
    assert cost_of({"input_tokens": 5}) is None
