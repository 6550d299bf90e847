"""Prices that the package genai-prices knows: taken for calls without a cost whose model no table has; never over the network."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from typing import Any

import pytest

from trails import Repository
from trails.history.lookup import model_prices
from trails.history.lookup.model_prices import Price

pytest.importorskip("genai_prices")

MILLION = 1_000_000
# Anthropic's price list of 2025-11: Opus 4.5, dollars a million tokens.
OPUS = Price(input=5, output=25, cache_read=0.5, cache_write=6.25, cache_write_1h=10)


def called(store: Repository, model: str, usage: dict[str, Any], **more: Any) -> None:
    session = store.create()
    session.append("assistant", "a", model=model, usage=usage, **more)
    session.persist()


def test_a_known_model_costs_what_its_provider_lists(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    usage = {
        "input_tokens": MILLION, "cache_read_input_tokens": MILLION, "cache_creation_input_tokens": 2 * MILLION,
        "cache_creation": {"ephemeral_1h_input_tokens": MILLION}, "output_tokens": MILLION,
    }  # fmt: skip
    called(memory, "claude-opus-4-5", usage)
    called(memory, "anthropic/claude-opus-4-5-20251101", usage)
    called(memory, "no-such-model", usage)
    found = memory.cost().total
    assert found.cost == pytest.approx(2 * (5 + 0.5 + 6.25 + 10 + 25))
    assert (found.estimated, found.unpriced, found.unpriced_models) == (2, 1, ("no-such-model",))


def test_a_long_prompt_costs_more_call_by_call(memory: Repository) -> None:
    """Gemini 2.5 Pro: 1.25 and 10 dollars up to 200,000 tokens of a prompt, cached ones included; 2.50 and 15 above."""
    for tokens in (200_000, 200_001):
        called(memory, "gemini-2.5-pro", {"promptTokenCount": tokens, "candidatesTokenCount": 100_000})
    called(memory, "gemini-2.5-pro", {"promptTokenCount": 300_000, "cachedContentTokenCount": 150_000})
    short, long, cached = 0.25 + 1.0, 0.5000025 + 1.5, 150_000 * 2.5 / MILLION + 150_000 * 0.25 / MILLION
    assert memory.cost().total.cost == pytest.approx(short + long + cached)


def test_a_table_goes_before_the_package_and_a_reported_cost_before_both(memory: Repository) -> None:
    usage = {"input_tokens": MILLION, "output_tokens": 0}
    called(memory, "claude-opus-4-5", usage)
    called(memory, "claude-haiku-4-5", usage)
    called(memory, "claude-opus-4-5", usage | {"cost": 0.125})
    found = memory.cost(prices={"claude-opus-*": {"input": 7, "output": 0}}).total
    assert found.cost == pytest.approx(7 + 1 + 0.125)  # Haiku 4.5: a dollar
    assert (found.reported, found.estimated) == (1, 2)


def test_a_call_of_which_nobody_told_the_tokens_has_no_price(memory: Repository) -> None:
    called(memory, "claude-opus-4-5", {"service_tier": "standard"})
    found = memory.cost().total
    assert (found.cost, found.unpriced, found.input_tokens) == (None, 1, None)


def test_statistics_price_nothing(memory: Repository) -> None:
    called(memory, "claude-opus-4-5", {"input_tokens": MILLION, "output_tokens": 0})
    assert memory.stats("model").total.cost is None


def test_the_package_is_asked_for_the_provider_that_served_the_model() -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    assert model_prices.package_price("claude-opus-4-5", "anthropic", when, 0) == OPUS
    assert model_prices.package_price("claude-opus-4-5", "somebody", when, 0) == OPUS
    assert model_prices.package_price("", "anthropic", when, 0) is None
    assert model_prices.package_price("m-1", "", None, 0) is None


def test_without_the_package_known_models_are_unpriced(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_prices, "has_price_package", lambda: False)
    called(memory, "claude-opus-4-5", {"input_tokens": MILLION, "output_tokens": 0})
    assert memory.cost().total.unpriced_models == ("claude-opus-4-5",)
