"""Entries of a transcript as a context is made of them: said, asked, answered, and any of them drawn by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from trails.context.messages import ShownTurn
from trails.model.values import Facts, ToolCall, ToolResult


def said(index: int, role: str, text: str) -> ShownTurn:
    return ShownTurn(index, role, text)


def asked(index: int, *ids: str, text: str = "") -> ShownTurn:
    calls = tuple(ToolCall(id=each, name="ls", arguments="{}") for each in ids)
    return ShownTurn(index, "assistant", text, facts=Facts(tool_calls=calls))


def answered(index: int, call_id: str, text: str = "done") -> ShownTurn:
    return ShownTurn(index, "tool", text, facts=Facts(tool_results=(ToolResult(call_id=call_id),)))


class Listening(list[ShownTurn]):
    """A transcript that notes which turns are looked at."""

    def __init__(self, entries: list[ShownTurn]) -> None:
        super().__init__(entries)
        self.looked_at: set[int] = set()

    def __getitem__(self, index: Any) -> Any:
        self.looked_at.add(index)
        return super().__getitem__(index)


transcripts = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "call", "call2", "result", "summary", "bash"]),
        st.sampled_from(["a", "b", "c"]),
        st.text(max_size=30),
    ),
    max_size=25,
)


def entries(kinds: list[tuple[str, str, str]]) -> list[ShownTurn]:
    found: list[ShownTurn] = []
    for index, (kind, call_id, text) in enumerate(kinds):
        if kind == "call":
            found.append(asked(index, call_id, text=text))
        elif kind == "call2":
            found.append(asked(index, call_id, call_id + "2", text=text))
        elif kind == "result":
            found.append(answered(index, call_id, text))
        else:
            found.append(said(index, kind, text))
    return found
