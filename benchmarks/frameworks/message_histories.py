"""Message histories: LangChain's, pydantic-ai's, and that of Microsoft's Agent Framework beside its file provider.

LangChain and pydantic-ai have no store of their own on disk. The file provider writes a file without waiting for the disk.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

from agent_framework import FileHistoryProvider, HistoryProvider, Message
from langchain_core.messages import AIMessage, HumanMessage
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

import trails
from benchmarks.frameworks import Figure
from trails.adapters.agent_framework import TrailsHistoryProvider
from trails.adapters.langchain import TrailsChatMessageHistory
from trails.adapters.pydantic_ai import TrailsHistory

_MESSAGES, _ROUNDS = 2_000, 20


def measure(messages: int = _MESSAGES) -> list[Figure]:
    """Return the figures of one run; each history has so many messages before."""
    with tempfile.TemporaryDirectory() as place, trails.open(Path(place) / "store.trails", create=True) as store:
        langchain, pydantic = TrailsChatMessageHistory("langchain", store), TrailsHistory("pydantic", store)
        langchain.add_messages([HumanMessage(f"message {number}") for number in range(messages)])
        pydantic.extend([_request(number) for number in range(messages)])
        pair: list[ModelMessage] = [_request(0), ModelResponse(parts=[TextPart("Take the train.")])]
        alone = {
            f"LangChain: add 2 to {messages:,}": lambda: langchain.add_messages([HumanMessage("a"), AIMessage("b")]),
            f"LangChain: the last 20 of {messages:,}": lambda: langchain.recent(20),
            f"pydantic-ai: add 2 to {messages:,}": lambda: pydantic.extend(pair),
            f"pydantic-ai: load the last 20 of {messages:,}": lambda: pydantic.load(20),
        }
        figures = [Figure(work, _median(call), None, "-") for work, call in alone.items()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file provider is an experiment of the framework
            file = FileHistoryProvider(Path(place) / "files")
        return [*figures, *asyncio.run(_beside_files(TrailsHistoryProvider(store), file, messages))]


async def _beside_files(ours: HistoryProvider, own: HistoryProvider, messages: int) -> list[Figure]:
    both = {"trails": ours, "own": own}
    for provider in both.values():
        given = [Message("user", [f"message {number}"], message_id=f"m{number}") for number in range(messages)]
        await provider.save_messages("trip", given)
    spent: dict[str, list[float]] = {name: [] for name in both}
    for number in range(_ROUNDS):
        for name, provider in both.items():
            pair = [
                Message("user", ["a"], message_id=f"a{number}"),
                Message("assistant", ["b"], message_id=f"b{number}"),
            ]
            start = time.perf_counter()
            await provider.save_messages("trip", pair)
            spent[name].append((time.perf_counter() - start) * 1e3)
    work = f"Agent Framework: save 2 to {messages:,}"
    return [Figure(work, median(spent["trails"]), median(spent["own"]), "1.0x")]


def _request(number: int) -> ModelMessage:
    return ModelRequest(parts=[UserPromptPart(f"message {number}")])


def _median(call: Callable[[], object]) -> float:
    spent = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        call()
        spent.append((time.perf_counter() - start) * 1e3)
    return median(spent)
