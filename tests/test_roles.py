"""The roles of turns: known ones and a program's own may be appended, anything else names the nearest right one."""

from __future__ import annotations

import pytest

from trails import InvalidInput, Repository
from trails.model import validation


@pytest.mark.parametrize(
    "role", [*sorted(validation.KNOWN_ROLES), "critic", "customer", "tester", "game:narrator", "game:usr"]
)
def test_a_known_role_and_one_of_a_programs_own_are_appended(memory: Repository, role: str) -> None:
    session = memory.create()
    assert session.append(role, "text").role == role
    session.discard_pending()


WRONG = (
    ("usr", "did you mean 'user'"),
    ("assisstant", "did you mean 'assistant'"),
    ("User", "it is 'user' here"),
    ("ai", "it is 'assistant' here"),
    ("model", "it is 'assistant' here"),
    ("function", "it is 'tool' here"),
    ("Plan a trip", "The role comes before the content"),
    ("note: see below", "The role comes before the content"),
    ("Hello", "The role comes before the content"),
    ("sys", "it is 'system' here"),
)


@pytest.mark.parametrize(("role", "why"), WRONG)
def test_another_role_is_refused_wherever_a_turn_is_written(memory: Repository, role: str, why: str) -> None:
    session = memory.create()
    for write in (
        lambda: session.append(role, "user"),
        lambda: session.streaming(role),
    )[: 1 if role == "Hello" else 2]:
        with pytest.raises(InvalidInput, match=why):
            write()
    assert not len(session)


@pytest.mark.parametrize(
    ("name", "role"),
    [("human", "user"), ("HumanMessage", "user"), ("AI", "assistant"), ("bot", "assistant"), ("observation", "tool")],
)
def test_other_systems_names_of_roles_are_known(name: str, role: str) -> None:
    assert validation.standard_role(name) == role


def test_a_name_that_no_system_has_is_not_known() -> None:
    assert [validation.standard_role(name) for name in ("Alice", "", 7, None)] == [None] * 4
