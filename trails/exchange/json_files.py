"""Read JSON files without losing anything: values, and problems with their lines."""

from __future__ import annotations

import codecs
import json
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import IO, Any, Final, NamedTuple, NoReturn

from trails.exchange.source_transcript import Problem

Json = Mapping[str, Any]
"""An object of JSON, which is only read."""

MAX_SHOWN: Final = 2_000
"""How many characters of a line that cannot be used are shown."""

_ENDS: Final = re.compile("[\x85\u2028\u2029]")
"""What ends a line for `str.splitlines` and Node's `readline`, and may stand in JSON as it is."""

_CHUNK: Final = 1 << 18
"""Bytes of a file that are read at once."""
_OF_NUMBERS: Final = "0123456789+-.eE"
_LONGEST: Final = 16
"""More characters than a word or an escape of JSON has: so near the end of what was read, one may be cut."""

MAX_DEPTH: Final = 200
"""How many objects and arrays within each other a line may have: twice what a turn can keep."""


def read_lines(data: bytes) -> tuple[list[tuple[int, dict[str, Any]]], list[Problem]]:
    r"""Return the objects of a JSON lines file, and the problems.

    Lines are counted from 1 and end with LF or CRLF; blank ones are skipped; a UTF-8 byte order mark is accepted. A
    line becomes a `Problem` when it is not UTF-8, not JSON (RFC 8259: `NaN` and `Infinity` are not), not an object,
    nested deeper than `MAX_DEPTH`, or has a number beyond the doubles. Of a line that holds several objects (a writer
    ended before it could end its line) each is read, with the same number; `shared_line_notes` tells of it. A line is read and
    is a `Problem` too where an object has a name twice (the last one is read), or a text has half of a surrogate pair
    (U+FFFD takes its place).

    >>> objects, problems = read_lines(b'{"type": "user"}\r\n\n[1, 2]')
    >>> objects, [(problem.line, problem.reason) for problem in problems]
    ([(1, {'type': 'user'})], [(3, 'is not a JSON object but an array')])
    """
    objects: list[tuple[int, dict[str, Any]]] = []
    problems: list[Problem] = []
    decoder = _Decoder()
    for number, line in enumerate(data.removeprefix(BOM_UTF8).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            objects.append((number, _read_object(line, decoder)))
        except _UnusableError as error:
            decoder.told()
            whole, rest, reason = _split_glued(line, decoder)
            objects += [(number, each) for each in whole]
            if not whole:
                problems.append(line_problem(number, f"{error}", line))
            elif rest:
                problems.append(line_problem(number, f"{reason}, after {len(whole)} record(s) on its line", rest))
        if decoder.has_remarks:
            problems.append(line_problem(number, decoder.told(), line))
    return objects, problems


def json_line(value: object) -> bytes:
    r"""Return a value as one line of JSON that every reader splits alike.

    >>> json_line({"a": "x\u2028y"})
    b'{"a":"x\\u2028y"}\n'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _ENDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n"


def shared_line_notes(objects: Sequence[tuple[int, object]]) -> list[str]:
    """Return a note for each line that holds several objects.

    >>> shared_line_notes(read_lines(b'{"a": 1}{"a": 2}')[0])
    ['line 1 holds 2 records; each was read']
    """
    counts = Counter(number for number, _ in objects)
    return [f"line {number} holds {count} records; each was read" for number, count in counts.items() if count > 1]


def read_object(data: bytes, *, constants: bool = False, notes: list[str] | None = None) -> dict[str, Any] | Problem:
    """Return the object that a whole file is, or a problem at line 0.

    With `constants`, for sources that write them, `NaN`, `Infinity` and `-Infinity` are read as texts. That a name stands
    twice in an object is added to `notes`.

    >>> read_object(b'{"a": 1}'), read_object(b"[]").reason
    ({'a': 1}, 'is not a JSON object but an array')
    >>> read_object(b'{"a": NaN}', constants=True)
    {'a': 'NaN'}
    """
    decoder = _Decoder(constants=constants)
    try:
        found = _read_object(data.removeprefix(BOM_UTF8), decoder)
    except _UnusableError as error:
        return line_problem(0, f"{error}", b"")
    if decoder.has_remarks and notes is not None:
        notes.append(decoder.told())
    return found


def read_list(data: bytes, *, constants: bool = False, notes: list[str] | None = None) -> list[Any] | Problem:
    """Return the array that a whole file is; otherwise as `read_object`.

    >>> read_list(b"[1, 2]"), read_list(b"{}").reason
    ([1, 2], 'is not a JSON array')
    """
    if not data.removeprefix(BOM_UTF8).lstrip().startswith(b"["):
        return line_problem(0, "is not a JSON array", data[:MAX_SHOWN])
    held = read_object(b'{"all":' + data.removeprefix(BOM_UTF8) + b"}", constants=constants, notes=notes)
    if isinstance(held, Problem):
        return held
    is_list = held.keys() == {"all"} and isinstance(held["all"], list)
    return held["all"] if is_list else line_problem(0, "is not a JSON array", b"")


def read_values(data: bytes) -> tuple[list[tuple[int, dict[str, Any]]], list[Problem]]:
    r"""Return the objects of a file in any layout with their lines, and the problems.

    The objects stand in one array, or one after the other (on lines of their own, or over several lines each). The rules
    are those of `read_lines`. What cannot be read is one `Problem`; reading goes on at the next line that begins with
    `{`, and not at all within an array, where nothing says where the next object begins.

    >>> read_values(b'[{"a": 1},\n {"b": [2]}]')[0]
    [(1, {'a': 1}), (2, {'b': [2]})]
    >>> objects, [cut] = read_values(b'[{"a": 1}, {"b"')
    >>> objects, cut.reason
    ([(1, {'a': 1})], "is not JSON: Expecting ':' delimiter, and the rest of the file cannot be read")
    """
    found = list(iter_elements(BytesIO(data)))
    objects = [(each.line, each.value) for each in found if isinstance(each, Element)]
    return objects, [each for each in found if isinstance(each, Problem)]


class Element(NamedTuple):
    """An object of a file, or with `lists` an array within an array."""

    line: int
    value: Any
    array: int
    """The number of the file's array that it stands in, from 1; 0 where it stands in none."""


def iter_elements(source: IO[bytes], *, lists: bool = False) -> Iterator[Element | Problem]:
    """Yield what `read_values` returns in the file's order, with each one's array.

    Of what can be read, only one object is in memory at a time. With `lists`, arrays within an array are yielded too.
    """
    buffer, in_array, line, arrays = _Buffer(source), False, 1, 0
    buffer.skip(_BLANK)
    while not buffer.is_at_end:
        line = buffer.line
        if buffer.text[buffer.at] == ("]" if in_array else "["):
            in_array = not in_array
            arrays += in_array
            buffer.at += 1
            buffer.skip(_BLANK)
            continue
        try:
            value, end = buffer.decoded()
        except (ValueError, RecursionError, _UnusableError) as error:
            end = buffer.end_of_all() if in_array else buffer.next_object()
            reason = _json_fault(error) + (", and the rest of the file cannot be read" if in_array else "")
            yield line_problem(line, reason, buffer.text[buffer.at : end])
            in_array = False
        else:
            try:
                is_list = lists and in_array and isinstance(value, list)
                held = _checked_object({"": value} if is_list else value, buffer.text, buffer.at, end, buffer.decoder)
                yield Element(line, held[""] if is_list else held, arrays if in_array else 0)
            except _UnusableError as error:
                yield line_problem(line, f"{error}", buffer.text[buffer.at : end])
            if buffer.decoder.has_remarks:
                yield line_problem(line, buffer.decoder.told(), buffer.text[buffer.at : end])
            del value
        buffer.at = end
        buffer.skip(_BETWEEN if in_array else _BLANK)
    if in_array:
        yield line_problem(line, "is an array that has no end: the file is cut", "")


class _Buffer:
    """A window of a file's text that moves on as it is read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
        self.text = ""
        self.at = 0
        """Where it goes on."""
        self._line, self._counted = 1, 0
        self._has_ended = False
        self.decoder = _Decoder()
        while not self.text and self._more():
            pass
        self.text = self.text.removeprefix("\ufeff")

    @property
    def line(self) -> int:
        """The number of the line at the current place."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    @property
    def is_at_end(self) -> bool:
        """Whether nothing follows; only after `skip`."""
        return self.at == len(self.text)

    def _more(self) -> bool:
        """Read more of the file; tell whether there was any."""
        if self._has_ended:
            return False
        data = self._source.read(max(_CHUNK, len(self.text) - self.at))
        self._has_ended = not data
        self._line, self._counted = self.line, 0
        self.text = self.text[self.at :] + self._decoder.decode(data, final=not data)
        self.at = 0
        return True

    def skip(self, pattern: re.Pattern[str]) -> None:
        """Go to the end of what a pattern, which fits nothing too, has here."""
        while (end := _after(pattern, self.text, self.at)) == len(self.text) and self._more():
            pass
        self.at = end

    def decoded(self) -> tuple[Any, int]:
        """Return the value at the current place, and its end; raise if there is none."""
        while True:
            self.decoder.told()
            try:
                value, end = self.decoder.raw_decode(self.text, self.at)
            except (ValueError, _UnusableError) as error:
                if not (self._may_be_cut(error) and self._more()):
                    raise
            else:
                # a number that stands alone may go on
                if isinstance(value, dict | list) or end + _LONGEST < len(self.text) or not self._more():
                    return value, end

    def _may_be_cut(self, error: Exception) -> bool:
        """Tell whether what could not be read may only not be here yet."""
        if not isinstance(
            error, json.JSONDecodeError
        ):  # a number that is too large, unless it has a fraction or goes on
            return self.text[-1] in _OF_NUMBERS
        return error.msg.startswith("Unterminated string") or error.pos + _LONGEST > len(self.text)

    def next_object(self) -> int:
        """Return the place of the next line that begins an object, or the end."""
        while (found := self.text.find("\n{", self.at)) < 0 and self._more():
            pass
        return len(self.text) if found < 0 else found

    def end_of_all(self) -> int:
        """Return the end of the file, which is read until there."""
        while self._more():
            pass
        return len(self.text)


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def line_problem(line: int, reason: str, raw: bytes | str) -> Problem:
    """Return the problem of a line, its text cut at `MAX_SHOWN` characters."""
    text = raw.decode("utf-8", errors="replace") if isinstance(raw, bytes) else raw
    text = text.rstrip("\r\n")
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}… ({len(text) - MAX_SHOWN:,} more characters)"
    return Problem(line=line, reason=reason, text=text.encode("utf-8", errors="replace").decode("utf-8"))


class _UnusableError(Exception):
    """Why a line cannot be used."""


def _read_object(line: bytes, decoder: _Decoder) -> dict[str, Any]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _UnusableError(f"is not UTF-8 (byte {error.start + 1} of the line)") from None
    try:
        value: Any = decoder.decode(text)
    except json.JSONDecodeError as error:
        raise _UnusableError(f"{_json_fault(error)} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise _UnusableError(_json_fault(error)) from None
    return _checked_object(value, text, 0, len(text), decoder)


def _split_glued(line: bytes, decoder: _Decoder) -> tuple[list[dict[str, Any]], str, str]:
    """Return the objects that a line begins with, the rest, and its fault."""
    whole: list[dict[str, Any]] = []
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return [], "", ""
    at = _after(_BLANK, text, 0)
    while text.startswith("{", at):
        told = len(decoder.twice)
        try:
            value, end = decoder.raw_decode(text, at)
            whole.append(_checked_object(value, text, at, end, decoder))
        except (ValueError, RecursionError, _UnusableError) as error:
            del decoder.twice[told:]
            return whole, text[at:], _json_fault(error)
        at = _after(_BLANK, text, end)
    return ([], "", "") if at < len(text) else (whole, "", "")


def _json_fault(error: Exception) -> str:
    """Return why a text could not be read as JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON: {error.msg}"
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if isinstance(error, ValueError):  # an integer of more digits than Python reads
        return f"is not JSON that can be read: {error}"
    return f"{error}"


def _checked_object(value: Any, text: str, start: int, end: int, decoder: _Decoder) -> dict[str, Any]:
    """Return an object without half surrogates; raise if it cannot be kept."""
    if text.count("{", start, end) + text.count("[", start, end) > MAX_DEPTH and _is_deeper_than_allowed(value):
        raise _UnusableError(_TOO_DEEP)
    try:
        if text.find("\\u", start, end) >= 0:  # only an escape can name half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        elif not text.isascii():  # bytes that were no UTF-8 stand as such halves too
            text[start:end].encode("utf-8")
    except UnicodeEncodeError as error:
        if "\udc80" <= error.object[error.start] <= "\udcff" and text.find(error.object[error.start], start, end) >= 0:
            raise _UnusableError("is not UTF-8") from None
        value = _with_whole_characters(value)
        decoder.has_halves = True
    except RecursionError:
        raise _UnusableError(_TOO_DEEP) from None
    if not isinstance(value, dict):
        raise _UnusableError(f"is not a JSON object but {_KINDS.get(type(value), 'a number')}")
    return value


def _with_whole_characters(value: Any) -> Any:
    """Return a value with U+FFFD for each half of a surrogate pair."""
    if isinstance(value, str):
        return _HALF.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_with_whole_characters(each) for each in value]
    if isinstance(value, dict):
        return {_with_whole_characters(key): _with_whole_characters(each) for key, each in value.items()}
    return value


def _is_deeper_than_allowed(value: object) -> bool:
    """Tell by levels, not by recursion: Python's own limit depends on who calls."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each if isinstance(each, list) else () for each in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
    return bool(level)


_HALF: Final = re.compile("[\ud800-\udfff]")
_TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"
_KINDS: Final = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _UnusableError(f"has a number that is too large: {digits[:40]}")
    return number


def _refuse(constant: str) -> NoReturn:
    raise _UnusableError(f"is not JSON: {constant} is no JSON value")


class _Decoder(json.JSONDecoder):
    """A JSON decoder that collects remarks for the report."""

    def __init__(self, *, constants: bool = False) -> None:
        self.twice: list[str] = []
        """The names that stood twice in an object."""
        self.has_halves = False
        """Whether a text had half of a surrogate pair."""
        super().__init__(
            parse_constant=str if constants else _refuse,
            parse_float=_finite,
            object_pairs_hook=partial(_object_from_pairs, self.twice),
        )

    @property
    def has_remarks(self) -> bool:
        return bool(self.twice) or self.has_halves

    def told(self) -> str:
        """Return what a reader should know, and forget it."""
        remarks = []
        if self.twice:
            names = ", ".join(f"{name[:50]!r}" for name in list(dict.fromkeys(self.twice))[:5])
            remarks.append(f"has an object in which a name stands more than once ({names}); the last one was read")
        if self.has_halves:
            remarks.append("has half of a surrogate pair; U+FFFD was read in its place")
        self.twice.clear()
        self.has_halves = False
        return ", and ".join(remarks)


def _object_from_pairs(twice: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice += [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    return made


_BLANK: Final = re.compile(r"[ \t\r\n]*")
_BETWEEN: Final = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")


# --- parts of values that may be anything


def as_object(value: object) -> dict[str, Any]:
    """Return a value that is an object; an empty one for any other."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a value that is a list; an empty one for any other."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """Return a text that is not empty; None for any other value."""
    return value if isinstance(value, str) and value else None


def as_listed(value: object) -> list[Any]:
    """Return a value that is a list; a list of it for any other."""
    return value if isinstance(value, list) else [value]


def value_at(record: object, *path: str) -> Any:
    """Return what stands in objects within each other; None for what is not there.

    >>> value_at({"usage": {"output": 3}}, "usage", "output"), value_at({"usage": "none"}, "usage", "output")
    (3, None)
    """
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; none for any other value."""
    return [each for each in as_list(value) if isinstance(each, dict)]


def without_keys(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a record without some of its fields.

    >>> without_keys({"id": 1, "text": "a"}, "id")
    {'text': 'a'}
    """
    return {name: value for name, value in record.items() if name not in names}


def without_null(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without the fields that are null."""
    return {name: value for name, value in record.items() if value is not None}


def parse_json(value: object) -> Any:
    """Parse a JSON text, None if it is none; return other values as they are.

    >>> parse_json('[1, 2]'), parse_json("a text"), parse_json(3)
    ([1, 2], None, 3)
    """
    if not isinstance(value, str):
        return value
    read = read_object(b'{"value":' + value.encode("utf-8", errors="surrogatepass") + b"}")
    return read["value"] if isinstance(read, dict) and read.keys() == {"value"} else None
