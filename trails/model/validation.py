"""Check values from outside, and decode stored values.

Every check of a value from outside is here and raises `InvalidInput` before anything is written. A stored value that
Trails never writes raises `IntegrityError`: the store's owner, another program or a failing disk may have put it there.
"""

from __future__ import annotations

import functools
import inspect
import json
import marshal
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, ParamSpec, TypeVar, cast

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.suggestions import did_you_mean
from trails.usage import COST_NAMES, MAX_USAGE, SOURCES, TOKEN_NAMES, cost_of, token_count

DECODING_ERRORS: Final = (
    *(ValueError, TypeError, LookupError, AttributeError),
    *(ArithmeticError, AssertionError, RecursionError),
)
"""What reading values raises that are not of the kind, the shape or the size that they should be of."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def corruption_error(error: Exception) -> IntegrityError:
    """Return the error for what Trails never writes."""
    return IntegrityError(
        f"the store holds values that Trails never writes ({type(error).__name__}: {f'{error}'[:200]}): it was altered; "
        "`trails verify` names them; restore the session from an export or a backup"
    )


class InvalidFields(InvalidInput):
    """A value's fields are not as they must be. Where what is stored is read, that becomes an `IntegrityError`."""


def _is_meant(error: Exception) -> bool:
    """Tell whether an error of a function that decodes is one of Trails that says what is wrong."""
    return isinstance(error, TrailsError) and not isinstance(error, InvalidFields)


def decodes(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a function that reads what is stored raise `IntegrityError` where it is not what it should be.

    Errors of Trails pass as they are. A generator is watched as it goes on. Not for functions that call a caller's code.
    """
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def watched(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[Any]:
            try:
                yield from cast(Iterator[Any], function(*args, **kwargs))
            except (InvalidFields, *DECODING_ERRORS) as error:
                if _is_meant(error):
                    raise
                raise corruption_error(error) from error

        return cast(Callable[_P, _T], watched)

    @functools.wraps(function)
    def decoded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except (InvalidFields, *DECODING_ERRORS) as error:
            if _is_meant(error):
                raise
            raise corruption_error(error) from error

    return decoded


@decodes
def stored_json(text: str) -> Any:
    """Return the value of JSON text that is stored."""
    return json.loads(text)


@decodes
def stored_object(text: str | None) -> dict[str, Any]:
    """Return the object that JSON text is that is stored; an empty one where there is none."""
    return {} if text is None else dict(json.loads(text))


MAX_ID: Final = 200
MAX_LABEL: Final = 64
MAX_NAME: Final = 200
MAX_META_KEY: Final = 100
MAX_JSON_DEPTH: Final = 100
MAX_WHOLE: Final = 2**63 - 1
"""The greatest whole number that the engine compares: with a greater one, a query finds nothing and says nothing."""
MAX_TEXT: Final = 16_000_000
"""Bytes that one text may take as N-Quads and TriG write it: UTF-8 with escapes.

The engine's parsers give up at a line of 16 MiB (16,777,216 bytes), which holds the text, the terms before it and, in
TriG, other texts of the same property: a longer one could be stored and dumped, and never be loaded again.
"""
_COMMON_ROLES: Final = frozenset({"user", "assistant", "tool", "system"})

_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_BYTES: Final = 7
"""What one character takes at most: a control character, escaped in JSON, and that once more in N-Quads."""
_SHORT: Final = MAX_TEXT // _MOST_BYTES
_WITHOUT_REFERENCES: Final = 2
"""The version of marshal's format that writes a value again wherever it comes again, as JSON does."""
_MOST_TO_ONE: Final = 6
"""How many characters JSON takes at most for what is one byte there: those of "false" and what parts it from the next."""
_ESCAPED = bytes(c for c in b'\b\t\n\f\r"\\')
_AS_NUMBERS = bytes(c for c in (*range(0x20), 0x7F) if c not in _ESCAPED)
_NONCHARACTERS = ("\ufffe", "\uffff")
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(r"[\[{]|[\]}]")
_FORBIDDEN_IN_IDS = frozenset('<>"{}|\\^`')


def _show(value: object) -> str:
    try:
        shown = repr(value)
    except RecursionError:
        shown = f"a deeply nested {type(value).__name__}"
    except ValueError:  # Python writes no whole number of over 4,300 digits
        shown = f"a huge {type(value).__name__}"
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def written_size(text: str) -> int:
    """Return how many bytes the engine writes for a text in N-Quads or TriG, without the quotes around it.

    >>> written_size("a"), written_size("\\n"), written_size("é"), written_size("\\x01")
    (1, 2, 2, 6)
    """
    data = text.encode()
    escaped = len(data) - len(data.translate(None, _ESCAPED))
    numbers = len(data) - len(data.translate(None, _AS_NUMBERS))
    return len(data) + escaped + 5 * numbers + 3 * sum(map(text.count, _NONCHARACTERS))


def _fitting(text: str, what: str) -> str:
    if len(text) > _SHORT and (size := written_size(text)) > MAX_TEXT:
        raise InvalidInput(
            f"{what} is too long: {size:,} bytes of UTF-8 with escapes, and at most {MAX_TEXT:,} could be read again; "
            "keep it in a file and say where, or split it"
        )
    return text


def is_surely_short(value: object) -> bool:
    """Tell whether a value that JSON can carry is so short that no text of it can be over `MAX_TEXT`; a cheap estimate."""
    try:
        if _MOST_TO_ONE * len(marshal.dumps(value, _WITHOUT_REFERENCES)) <= _SHORT:  # type: ignore[arg-type] # else it raises
            return True
    except ValueError:  # it holds what is none of Python's own types, or is nested deeply
        pass
    waiting, room = [value], _SHORT
    while waiting and room >= 0:
        each = waiting.pop()
        if type(each) is str:
            room -= len(each) + 4
            continue
        room -= len(each) if isinstance(each, str | list | tuple | Mapping) else 8
        if isinstance(each, int) and not isinstance(each, bool):
            room -= each.bit_length()
        if isinstance(each, Mapping):
            waiting += [*each, *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each
        room -= 4
    return room >= 0


def fits(text: str) -> bool:
    """Tell whether a text that is to be written can be read again; see `MAX_TEXT`."""
    return len(text) <= _SHORT or written_size(text) <= MAX_TEXT


def text(value: object, what: str = "content") -> str:
    """Return `value` unchanged if it is a string that UTF-8 can carry (no lone surrogates), of at most `MAX_TEXT` bytes."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be a string, not {type(value).__name__}")
    if not value.isascii() and (found := _SURROGATE.search(value)):
        raise InvalidInput(f"{what} holds a lone surrogate ({found[0]!r} at {found.start()}), which UTF-8 cannot carry")
    return _fitting(value, what)


def source_id(value: object) -> str:
    """Return what a source calls one of its records: a text with something in it."""
    plain = text(value, "a source id")
    if not plain:
        raise InvalidInput("a source id is empty; leave it out, or give what the source calls the message")
    return plain


def source_ids(values: Iterable[object]) -> tuple[str, ...]:
    """Return the ids of a turn's source records, sorted, each once; together they take at most `MAX_TEXT` bytes."""
    found = sorted({text(value, "a source id") for value in values})
    if sum(map(len, found)) > _SHORT and (size := sum(written_size(each) + 8 for each in found)) > MAX_TEXT:
        raise InvalidInput(f"the source ids of a turn are too long: {size:,} bytes together, at most {MAX_TEXT:,}")
    return tuple(found)


_PLAIN_NAME: Final = {True: re.compile(r"[!-~](?:[ -~]*[!-~])?"), False: re.compile(r"[!-~]+")}
"""What names of ASCII are: with spaces inside, and without."""


def _plain_name(value: object, what: str, limit: int, *, spaces: bool) -> str:
    if isinstance(value, str) and len(value) <= limit and _PLAIN_NAME[spaces].fullmatch(value):
        return value
    name = text(value, what)
    if not 1 <= len(name) <= limit:
        raise InvalidInput(f"{what} must have 1 to {limit} characters, not {len(name)}: {_show(name)}")
    for character in name:
        category = unicodedata.category(character)
        if category[0] == "C" or category in ("Zl", "Zp"):
            raise InvalidInput(f"{what} holds a control or unassigned character ({character!r}): {_show(name)}")
        if not spaces and category == "Zs":
            raise InvalidInput(f"{what} holds a space: {_show(name)}")
    if name != name.strip():
        raise InvalidInput(f"{what} starts or ends with a space: {_show(name)}")
    return name


def session_id(value: object) -> str:
    """Return a session id: 1 to 200 characters; no spaces, no control characters, none of ``<>"{}|\\^` ``, no IRI of ours."""
    name = _plain_name(value, "session id", MAX_ID, spaces=False)
    if bad := _FORBIDDEN_IN_IDS & set(name):
        raise InvalidInput(f"session id holds {min(bad)!r}, which IRIs do not allow: {_show(name)}")
    if name.startswith("urn:trails:"):
        raise InvalidInput(f"session id {_show(name)} would be taken for an IRI of Trails; leave out urn:trails:")
    return name


def is_session_id(value: object) -> bool:
    """Tell whether a value could be a session's id.

    >>> is_session_id("plan-1"), is_session_id("plan 1")
    (True, False)
    """
    try:
        return session_id(value) == value
    except InvalidInput:
        return False


def label(value: object) -> str:
    """Return a session label: 1 to 64 characters, spaces allowed inside."""
    return _plain_name(value, "label", MAX_LABEL, spaces=True)


def tag_name(value: object) -> str:
    """Return a tag's name: 1 to 64 characters without spaces or "@", that could be no option and no IRI of ours."""
    plain = _plain_name(value, "a tag's name", MAX_LABEL, spaces=False)
    if "@" in plain or plain.startswith(("-", "urn:trails:")):
        raise InvalidInput(
            f"a tag's name has no '@' and starts with neither '-' nor urn:trails:, unlike {_show(plain)}"
        )
    return plain


def ref_name(value: object) -> str:
    """Return a ref's name: a text that could be a session's id, of 1 to 200 characters, and starts with no "-".

    What means something else where a ref may stand is refused: `none`, and the turns of a session, as in `plan@4`.
    """
    plain = session_id(_plain_name(value, "a ref's name", MAX_ID, spaces=False))
    if plain.startswith("-"):
        raise InvalidInput(f"a ref's name does not start with '-', unlike {_show(plain)}")
    if plain == "none" or ("@" in plain and plain.rpartition("@")[2].isdecimal()):
        raise InvalidInput(
            f"a ref is called neither `none` nor NAME@NUMBER, which means turns of NAME, unlike {_show(plain)}"
        )
    return plain


def name(value: object, what: str) -> str:
    """Return a name of a principal, agent, kind, model or tool: 1 to 200 characters, spaces allowed inside."""
    return _plain_name(value, what, MAX_NAME, spaces=True)


def role(value: object) -> str:
    """Return a role: 1 to 64 characters without spaces."""
    if isinstance(value, str) and value in _COMMON_ROLES:
        return value
    return _plain_name(value, "role", MAX_LABEL, spaces=False)


def time(value: object, what: str = "time") -> datetime:
    """Return an aware time in UTC, which keeps its microseconds; naive times are refused, never guessed."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{what} must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(f"{what} {value.isoformat()} has no time zone; give an aware time (datetime.now(UTC))")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{what} {value.isoformat()} is outside the years 1 to 9999 in UTC") from error


def index(value: object, what: str) -> int:
    """Return a turn index or count: a whole number from 0 (True and False are refused)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} must be a whole number, not {_show(value)}")
    if value < 0:
        raise InvalidInput(f"{what} must be 0 or more, not {_show(value)}")
    return value


def flag(value: object, what: str) -> bool:
    """Return True or False; nothing else stands for either."""
    if type(value) is not bool:
        raise InvalidInput(f"{what} is True or False, not {value!r:.80}")
    return value


def fork_index(value: object, length: int, session: str) -> int:
    """Return a fork point: `0 <= at <= length`, the exclusive end of the shared prefix."""
    if isinstance(value, str):
        raise InvalidInput(
            f"the fork index must be a whole number, not {value!r:.60}; a name goes as label={value!r:.60} or id="
        )
    at = index(value, "the fork index")
    if at > length:
        raise InvalidInput(
            f"cannot fork session {session!r} at {at}: it has {length} turns (0 to {length} is possible)"
        )
    return at


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _check_json(value: object, what: str, depth: int) -> None:
    if depth > MAX_JSON_DEPTH:
        raise InvalidInput(f"{what} is nested deeper than {MAX_JSON_DEPTH}")
    if isinstance(value, str):
        text(value, what)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            text(key, f"a key of {what}")
            _check_json(item, what, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_json(item, what, depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{what} holds {value}, which JSON cannot carry")
    elif not (value is None or isinstance(value, bool | int)):
        raise InvalidInput(f"{what} holds a {type(value).__name__}, which JSON cannot carry")


def _plain_json(value: object) -> str | None:
    """Return the JSON text of what surely may be kept: short, and of nothing but Python's own plain types; else None."""
    try:
        written = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):  # a value in a circle, too
        return None
    if len(written) > _SHORT or is_nested_too_deep(written):
        return None
    if not written.isascii() and _SURROGATE.search(written):
        return None
    return written if _has_plain_keys(value) else None


def _has_plain_keys(value: object) -> bool:
    """Tell whether all keys within a value are strings, and all in it is of plain types. It must not hold itself."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind is dict:
            for key in each:  # type: ignore[attr-defined] # a dict
                if type(key) is not str:
                    return False
            waiting += each.values()  # type: ignore[attr-defined] # as above
        elif kind is list or kind is tuple:
            waiting += each  # type: ignore[arg-type] # a list or a tuple
        elif kind not in _PLAIN:
            return False
    return True


def to_json(value: object, what: str) -> str:
    """Return the JSON text of a value, keys in the order given: strings, finite numbers, booleans, null, lists, mappings."""
    quickly = _plain_json(value)
    if quickly is not None:
        return quickly
    _check_json(value, what, 0)
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be written as JSON: {error}") from error
    return _fitting(written, what)


def json_text(value: object, what: str) -> str:
    """Return JSON text as it is, if it is nested no deeper than `MAX_JSON_DEPTH`; text that is no JSON raises, too."""
    plain = text(value, what)
    if is_nested_too_deep(plain):
        raise InvalidInput(f"{what} is nested deeper than {MAX_JSON_DEPTH}")
    try:
        json.loads(plain)
    except ValueError as error:
        raise InvalidInput(f"{what} is no JSON: {error}") from error
    return plain


def is_nested_too_deep(json_text: str) -> bool:
    """Tell whether a JSON text has more levels than `MAX_JSON_DEPTH`, without reading it: that might exhaust the stack.

    >>> is_nested_too_deep("[" * 101 + "]" * 101), is_nested_too_deep('"' + "[" * 101 + '"')
    (True, False)
    """
    if json_text.count("[") + json_text.count("{") <= MAX_JSON_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKETS.findall(_JSON_TEXT.sub("", json_text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_JSON_DEPTH:
            return True
    return False


def content(value: object) -> tuple[str, bool]:
    """Return content as stored: (text, False) for a string, (JSON text, True) for a list of parts.

    >>> content([{"type": "text", "text": "hi"}])
    ('[{"type":"text","text":"hi"}]', True)
    """
    if isinstance(value, str):
        return text(value), False
    check_parts(value)
    return to_json(value, "content"), True


def check_parts(value: object) -> None:
    """Accept content that is text, or a list of mappings and texts, whatever is in those."""
    if isinstance(value, str):
        return
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"content must be a string or a list of parts, not {type(value).__name__}")
    for part in value:
        if not isinstance(part, dict) and not isinstance(part, Mapping | str):
            raise InvalidInput(f"a content part must be a mapping or a string, not {type(part).__name__}")


def usage(value: object) -> str | None:
    """Return token usage as JSON text, or None for no usage."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidInput(f"usage must be a mapping of names to numbers, not {type(value).__name__}")
    return to_json(value, "usage") if value else None


def usage_counts(usage: object) -> None:
    """Accept a usage whose counts can be added up: under the common names whole numbers, for the cost any number.

    Both are from 0 to `MAX_USAGE`; None stands for what was not reported, and other names may have any value. A `source`
    is one of `trails.usage.SOURCES`.
    """
    if not isinstance(usage, Mapping):
        return  # `usage` says what is wrong
    for each in TOKEN_NAMES:
        if usage.get(each) is not None and token_count(usage[each]) is None:
            raise InvalidInput(
                f"usage has {_show(usage[each])} for {each!r}; give a whole number of tokens from 0 to {MAX_USAGE:,}, or "
                "leave it out"
            )
    name = next((each for each in COST_NAMES if usage.get(each) is not None), None)
    if name is not None and cost_of(usage) is None and _is_told(usage[name]):
        raise InvalidInput(
            f"usage has {_show(usage[name])} for {name!r}; give a number from 0 to {MAX_USAGE:,}, or leave it out"
        )
    source = usage.get("source")
    if isinstance(source, str) and source not in SOURCES:
        raise InvalidInput(f"usage names the source {_show(source)}; name one of {', '.join(SOURCES)}, or leave it out")


def _is_told(cost: object) -> bool:
    return not isinstance(cost, Mapping) or cost.get("total") is not None


def meta(value: object) -> str | None:
    """Return metadata as JSON text, or None for none: keys of 1 to 100 characters, values that JSON can carry."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidInput(f"meta must be a mapping, not {type(value).__name__}")
    for key in value:
        _plain_name(key, "a meta key", MAX_META_KEY, spaces=True)
    return to_json(value, "meta") if value else None


def decimal(value: int | float | Decimal) -> str:
    """Return a number's canonical xsd:decimal form, as the engine keeps it.

    >>> decimal(0.0220), decimal(3)
    ('0.022', '3')
    """
    plain = format(Decimal(str(value)), "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


KNOWN_ROLES: Final = frozenset(
    {
        *("user", "human", "assistant", "system", "developer", "tool", "toolResult"),
        *("summary", "compaction_summary", "branch_summary", "custom", "delivery"),
    }
)
"""The roles that Trails and the APIs of models know."""
OWN_ROLE: Final = re.compile(r"\S+:\S+")
"""A role that is surely a program's own, as `game:narrator`: no typo of a known role looks so."""
_MAIN: Final = ("user", "assistant", "system", "developer", "tool", "summary")
"""The roles that a mistyped one is compared with."""
_ROLE_CUTOFF: Final = 0.75
"""How similar to a known role, from 0 to 1, a name is taken for a typo of it."""
_ROLE_NAMES: Final = {
    **dict.fromkeys(("user", "human", "humanmessage", "humanmessagechunk", "prompter"), "user"),
    **dict.fromkeys(
        ("assistant", "ai", "aimessage", "aimessagechunk", "gpt", "chatgpt", "bot", "chatbot"), "assistant"
    ),
    **dict.fromkeys(("model", "llm", "agent", "function_call", "tool_call"), "assistant"),
    **dict.fromkeys(("sys", "system", "systemmessage", "system_prompt"), "system"),
    **dict.fromkeys(("tool", "toolmessage", "function", "functionmessage", "ipython", "observation"), "tool"),
    **dict.fromkeys(("tool_result", "tool_response", "toolresult", "function_response"), "tool"),
    "developer": "developer",
}
"""What the roles are called elsewhere, in small letters: LangChain, ShareGPT, Gemini, Cohere, Llama, OpenAssistant."""


def standard_role(name: object) -> str | None:
    """Return the role that any system's name stands for; None for a name that is not known.

    >>> standard_role("human"), standard_role("AI"), standard_role("gpt"), standard_role("Alice")
    ('user', 'assistant', 'assistant', None)
    """
    return _ROLE_NAMES.get(name.strip().lower()) if isinstance(name, str) else None


@functools.lru_cache(maxsize=256)
def _near_role(role: str) -> str:
    return did_you_mean(role, _MAIN, most=1, cutoff=_ROLE_CUTOFF)


def check_role(role: object, content: object = "") -> object:
    """Return a role that a program may append in; raise `InvalidInput` for what looks like a mistake.

    A mistake is another system's name of a role, a name that is nearly a known one, a text, and a role and a content that
    changed places. Any other word is a role of the program's own, and so is one with a colon.

    >>> check_role("user"), check_role("critic"), check_role("game:usr")
    ('user', 'critic', 'game:usr')
    """
    if not isinstance(role, str) or role in KNOWN_ROLES or not role or OWN_ROLE.fullmatch(role):
        return role  # what is no text is refused where every role is
    meant = standard_role(role)
    near = _near_role(role)
    is_swapped = isinstance(content, str) and content in KNOWN_ROLES
    if not (meant or near or is_swapped or re.search(r"\s", role)):
        return role
    hint = f"; it is {meant!r} here" if meant else near
    shown = repr(role[:40]) + ("..." if len(role) > 40 else "")
    raise InvalidInput(
        f"{shown} is no known role{hint}. Known are {', '.join(_MAIN[:-1])} and {_MAIN[-1]}. The role comes before the content. "
        "A role of your own is one word; where it is nearly a known one, it holds a colon, as in 'game:usr'"
    )
