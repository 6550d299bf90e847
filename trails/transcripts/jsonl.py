"""Lines of JSON, read so that nothing is lost: what can be used, numbered, and what cannot, with the reason."""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from typing import Any, Final, NoReturn

from trails.transcripts.source import Problem

MAX_SHOWN: Final = 2_000
"""How many characters of a line that cannot be used are shown."""

MAX_DEPTH: Final = 200
"""How many objects and arrays within each other a line may have: twice what a turn can keep."""


def read_lines(data: bytes) -> tuple[list[tuple[int, dict[str, Any]]], list[Problem]]:
    r"""Return the JSON objects of a file of JSON lines, each with its line number, and the lines that are none.

    Lines are counted from 1 and end with LF or CRLF; blank ones are skipped; a UTF-8 byte order mark is accepted. A
    line becomes a `Problem` when it is not UTF-8, not JSON (RFC 8259: `NaN` and `Infinity` are not), not an object,
    nested deeper than `MAX_DEPTH`, or has what could not be written again: half of a surrogate pair, a number beyond
    the doubles.

    >>> objects, problems = read_lines(b'{"type": "user"}\r\n\n[1, 2]')
    >>> objects, [(problem.line, problem.reason) for problem in problems]
    ([(1, {'type': 'user'})], [(3, 'is not a JSON object but an array')])
    """
    objects: list[tuple[int, dict[str, Any]]] = []
    problems: list[Problem] = []
    for number, line in enumerate(data.removeprefix(BOM_UTF8).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            objects.append((number, _object(line)))
        except _UnusableError as error:
            problems.append(problem(number, str(error), line))
    return objects, problems


def problem(line: int, reason: str, raw: bytes | str) -> Problem:
    """Return the problem of a line, with its text cut at `MAX_SHOWN` characters where it is longer (and saying so)."""
    text = raw.decode("utf-8", errors="replace") if isinstance(raw, bytes) else raw
    text = text.rstrip("\r\n")
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}… ({len(text) - MAX_SHOWN:,} more characters)"
    return Problem(line=line, reason=reason, text=text)


class _UnusableError(Exception):
    """Why a line cannot be used."""


def _object(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _UnusableError(f"is not UTF-8 (byte {error.start + 1} of the line)") from None
    try:
        value: Any = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\u" in text:  # only an escape can name half of a surrogate pair: decoded UTF-8 has none
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise _UnusableError(f"is not JSON: {error.msg} (column {error.colno})") from None
    except UnicodeEncodeError:
        raise _UnusableError("has half of a surrogate pair, which no text can carry") from None
    except RecursionError:
        raise _UnusableError(_TOO_DEEP) from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise _UnusableError(f"is not JSON that can be read: {error}") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deeper_than_allowed(value):
        raise _UnusableError(_TOO_DEEP)
    if not isinstance(value, dict):
        raise _UnusableError(f"is not a JSON object but {_KINDS[type(value)]}")
    return value


def _is_deeper_than_allowed(value: object) -> bool:
    """Tell by levels, not by recursion: Python's own limit depends on who calls."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ())
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


_TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"
_KINDS: Final = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _UnusableError(f"has a number that is too large: {digits[:40]}")
    return number


def _refuse(constant: str) -> NoReturn:
    raise _UnusableError(f"is not JSON: {constant} is no JSON value")
