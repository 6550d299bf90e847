"""Messages of frameworks without a dependency on them: objects by their attributes, dataclasses, and plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from trails import InvalidInput, Repository

USAGE = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13, "input_token_details": {"cache_read": 8}}


class LangChain:
    """A stand-in for a message of LangChain: its type is a default, which a dump of what was set leaves out."""

    def __init__(self, kind: str, content: Any, **more: Any) -> None:
        self.type, self.content, self.more = kind, content, more

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"content": self.content, "additional_kwargs": {}, **self.more}


@dataclass
class Part:
    """A stand-in for a part of a message of pydantic-ai."""

    part_kind: str
    content: Any = None
    tool_name: str | None = None
    args: Any = None
    tool_call_id: str | None = None


@dataclass
class Spent:
    """A stand-in for its usage."""

    input_tokens: int = 10
    cache_read_tokens: int = 8
    output_tokens: int = 3


@dataclass
class Request:
    """A stand-in for what a model is asked."""

    parts: list[Part]
    kind: str = "request"


@dataclass
class Response:
    """A stand-in for what it answers."""

    parts: list[Part]
    model_name: str = "m-1"
    usage: Spent = field(default_factory=Spent)
    kind: str = "response"


class Attributes:
    """An object of a framework that nobody here knows."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


class Slots:
    """One that has no `__dict__`."""

    __slots__ = ("content", "role")

    def __init__(self) -> None:
        self.role, self.content = "assistant", "look"


CALL = {"name": "ls", "args": {"path": "/"}, "id": "c1"}
FUNCTION = {"name": "ls", "arguments": '{"path":"/"}'}
ASKS: dict[str, Any] = {
    "langchain": LangChain("ai", "look", tool_calls=[CALL]),
    "langchain, as a dict": {"type": "ai", "content": "look", "tool_calls": [CALL]},
    "pydantic-ai": Response(
        [Part("text", "look"), Part("tool-call", tool_name="ls", args={"path": "/"}, tool_call_id="c1")]
    ),
    "namespace": SimpleNamespace(
        role="assistant", content="look", tool_calls=[SimpleNamespace(id="c1", function=SimpleNamespace(**FUNCTION))]
    ),
    "attributes": Attributes(
        role="assistant", content="look", tool_calls=[Attributes(id="c1", function=Attributes(**FUNCTION))]
    ),
    "role ai": {"role": "ai", "content": "look", "tool_calls": [{"id": "c1", "function": FUNCTION}]},
}


@pytest.mark.parametrize("shape", ASKS)
def test_an_answer_with_a_call_is_an_assistants_turn_with_it(memory: Repository, shape: str) -> None:
    session = memory.create()
    turn = session.append_message(ASKS[shape])
    assert (turn.role, turn.text) == ("assistant", "look")
    assert [(call.id, call.name, call.arguments) for call in turn.tool_calls] == [("c1", "ls", '{"path":"/"}')]
    session.discard_pending()


SAYS: dict[str, tuple[Any, str]] = {
    "human": (LangChain("human", "look"), "user"),
    "human, as a dict": ({"type": "human", "content": "look"}, "user"),
    "human, as messages_to_dict writes it": ({"type": "human", "data": {"content": "look"}}, "user"),
    "role human": ({"role": "human", "content": "look"}, "user"),
    "a text": ({"role": "model", "text": "look"}, "assistant"),
    "slots": (Slots(), "assistant"),
    "a request": (Request([Part("user-prompt", "look")]), "user"),
    "an answer": (LangChain("tool", "look", tool_call_id="c1", status="error"), "tool"),
    "an answer of pydantic-ai": (Request([Part("tool-return", "look", "ls", tool_call_id="c1")]), "tool"),
}


@pytest.mark.parametrize("shape", SAYS)
def test_a_message_is_a_turn_of_its_role(memory: Repository, shape: str) -> None:
    message, role = SAYS[shape]
    session = memory.create()
    turn = session.append_message(message)
    assert (turn.role, turn.content) == (role, "look")
    assert [each.call_id for each in turn.tool_results] == (["c1"] if role == "tool" else [])
    session.discard_pending()


def test_usage_model_and_stop_reason_of_a_framework_are_the_turns(memory: Repository) -> None:
    about = {"model_name": "m-1", "finish_reason": "stop"}
    session = memory.create()
    for message in (
        LangChain("ai", "look", usage_metadata=USAGE, response_metadata=about),
        Response([Part("text", "look")]),
    ):
        turn = session.append_message(message)
        assert turn.model == "m-1"
        assert turn.facts.model_call is not None
        assert turn.facts.model_call.counts[:2] == (2, 8)
    session.discard_pending()


def test_a_history_may_hold_messages_that_make_several_turns(memory: Repository) -> None:
    session = memory.create()
    ui = {"type": "tool-ls", "toolCallId": "c1", "state": "output-available", "input": {}, "output": "a.py"}
    session.extend(
        [
            Request([Part("system-prompt", "Be brief"), Part("user-prompt", "hi")]),
            {"role": "assistant", "parts": [ui, {"type": "text", "text": "One file"}]},
        ]
    )
    assert session.system == "Be brief"
    assert [turn.role for turn in session.turns] == ["user", "assistant", "tool", "assistant"]
    session.discard_pending()


REFUSED: dict[str, tuple[Any, str]] = {
    "an object without a message": (object(), "with the attributes role and content, not object"),
    "a class": (LangChain, "with the attributes role and content, not type"),
    "a typo": ({"role": "usr", "content": "a"}, "did you mean 'user'"),
    "no role": ({"content": "a"}, "has a role"),
    "content that is no text": (SimpleNamespace(role="user", content=object()), "text or a list of parts"),
    "two in one": (
        Request([Part("system-prompt", "a"), Part("user-prompt", "b")]),
        r"not one message but 2 \(system, user\)",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_not_be_a_turn_says_what_would_be(memory: Repository, what: str) -> None:
    message, why = REFUSED[what]
    session = memory.create()
    with pytest.raises(InvalidInput, match=why):
        session.append_message(message)
    assert not len(session)


def test_a_part_that_has_a_type_alone_is_content(memory: Repository) -> None:
    session = memory.create()
    assert session.append("assistant", [{"type": "divider"}]).content == [{"type": "divider"}]
    with pytest.raises(InvalidInput, match="is empty"):
        session.append("assistant", [{"type": "text"}])
    session.discard_pending()
