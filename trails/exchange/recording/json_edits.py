"""Change a JSON text at one place and leave all other bytes as they are. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trails.errors import InvalidInput

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object, or an element of an array (without a key), with its place in the text."""

    key: str
    value: Any
    start: int
    """Where the member begins: its key, or its value if it has none."""
    value_start: int
    end: int


@dataclass(frozen=True, slots=True)
class Container:
    """An object or an array in a text: where its bracket opens and closes, and what is between."""

    start: int
    end: int
    """Where its closing bracket stands."""
    members: tuple[Member, ...]

    def named(self, key: str) -> Member | None:
        """Return the member with a key."""
        return next((each for each in self.members if each.key == key), None)


def read_container(text: str, start: int = 0) -> Container:
    """Return the object or array that begins at a place, or at white space before it.

    Raises `InvalidInput` if there is none, if it is no JSON, or if an object has a name twice.

    >>> [(each.key, each.value) for each in read_container('{"a": 1, "b": [2]}').members]
    [('a', 1), ('b', [2])]
    """
    at = _skip(text, start)
    opening = text[at : at + 1]
    if opening not in ("{", "["):
        raise InvalidInput("is no JSON object or array")
    closing, members, place = "}" if opening == "{" else "]", list[Member](), _skip(text, at + 1)
    while text[place : place + 1] != closing:
        if members:
            if text[place : place + 1] != ",":
                raise InvalidInput(f"is not JSON: a comma is missing at character {place + 1}")
            place = _skip(text, place + 1)
        member = _read_member(text, place, has_key=opening == "{")
        if member.key and any(each.key == member.key for each in members):
            raise InvalidInput(f"has the name {member.key!r} twice in one object")
        members.append(member)
        place = _skip(text, member.end)
    return Container(at, place, tuple(members))


def _read_member(text: str, start: int, *, has_key: bool) -> Member:
    try:
        key, value_start = "", start
        if has_key:
            key, after = _DECODER.raw_decode(text, start)
            colon = _skip(text, after)
            if not isinstance(key, str) or text[colon : colon + 1] != ":":
                raise InvalidInput(f"is not JSON: a name and a colon are missing at character {start + 1}")
            value_start = _skip(text, colon + 1)
        value, end = _DECODER.raw_decode(text, value_start)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidInput(f"is not JSON: {error}") from error
    return Member(key, value, start, value_start, end)


def _skip(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


def insert_last(text: str, container: Container, value: Any, key: str | None = None) -> str:
    r"""Return a text with a value added at the end of an object (with its key) or an array.

    It is laid out as what stands before it.

    >>> text = '{\n  "a": 1\n}'
    >>> print(insert_last(text, read_container(text), [2], "b"))
    {
      "a": 1,
      "b": [
        2
      ]
    }
    """
    end = _line_end(text)
    inner = text[container.start + 1 : container.end]
    is_compact = "\n" not in inner and (bool(container.members) or "\n" not in text.strip())
    if is_compact:
        added = json.dumps(value, ensure_ascii=False)
        added = added if key is None else f"{json.dumps(key, ensure_ascii=False)}: {added}"
        place = container.members[-1].end if container.members else container.start + 1
        return text[:place] + (", " if container.members else "") + added + text[place:]
    outer, step = _indent_at(text, container.start), _step(text)
    margin = _indent_at(text, container.members[-1].start) if container.members else outer + step
    added = json.dumps(value, ensure_ascii=False, indent=step or 2)
    added = added if key is None else f"{json.dumps(key, ensure_ascii=False)}: {added}"
    added = added.replace("\n", end + margin)
    if container.members:
        place = container.members[-1].end
        return f"{text[:place]},{end}{margin}{added}{text[place:]}"
    return f"{text[: container.start + 1]}{end}{margin}{added}{end}{outer}{text[container.end :]}"


def remove_member(text: str, container: Container, member: Member) -> str:
    """Return a text without a member, and without the comma that it needed.

    >>> text = '{"a": 1, "b": 2}'
    >>> whole = read_container(text)
    >>> remove_member(text, whole, whole.members[1])
    '{"a": 1}'
    """
    at = container.members.index(member)
    if len(container.members) == 1:
        return text[: container.start + 1] + text[container.end :]
    if at:
        return text[: container.members[at - 1].end] + text[member.end :]
    return text[: member.start] + text[container.members[1].start :]


def container_at(text: str, path: Sequence[str | int]) -> Container | None:
    """Return the object or array at a path of names and indices; None if there is nothing at it."""
    found = read_container(text)
    for step in path:
        member = (
            found.named(step) if isinstance(step, str) else found.members[step] if step < len(found.members) else None
        )
        if member is None:
            return None
        found = read_container(text, member.value_start)
    return found


def _indent_at(text: str, place: int) -> str:
    """Return the white space at the beginning of the line of a place."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _step(text: str) -> str:
    """Return what a text indents with: the first indented line says it."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
