"""The names of records' fields and their numbers, as one letter each in what is stored.

A redaction of a text also renames keys of metadata that hold it. It looks for two letters or more, so that one of a word such
as "messages" or "step" finds no field of a record, and all threads stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Names = Mapping[str, str]

_RECORD: Final = {
    "id": "i", "parent": "p", "depth": "d", "newest": "n", "base": "b", "gone": "g", "loose": "l", "scattered": "s",
    "header": "h", "metadata": "m", "channels": "c",
}  # fmt: skip
_VALUE: Final = {"json": "j", "kind": "k", "payload": "p", "at": "a", "messages": "m", "keep": "e"}
_FRAMEWORK: Final = {
    "channel_versions": "c", "versions_seen": "s", "updated_channels": "u", "ts": "t", "pending_sends": "q",
    "step": "n", "source": "o", "parents": "p", "run_id": "r", "counters_since_delta_snapshot": "d",
}  # fmt: skip
"""LangGraph's names in the header and the metadata of a checkpoint."""
_KINDS: Final = {
    "json": "j", "messages": "m", "msgpack": "p", "null": "n", "bytes": "b", "bytearray": "a", "pickle": "k",
}  # fmt: skip
_LONG_KINDS: Final = {short: kind for kind, short in _KINDS.items()}
_ABOUT: Final = ("header", "metadata")
_NUMBERS: Final = ("depth", "base", "at", "keep", "messages", "loose")
_ZERO: Final = 0x10010
"""The letter of the number 0; some places of writes are a few below it."""


def packed_number(number: int) -> str | int:
    """Return a number as one letter, if it is below a million.

    >>> read_number(packed_number(12)), read_number(packed_number(-5)), len(packed_number(1234))
    (12, -5, 1)
    """
    return chr(_ZERO + number) if -0x10 <= number < 1_000_000 else number


def read_number(said: object) -> int | None:
    """Return the number of `packed_number`; None if a redaction took it."""
    if isinstance(said, str):
        return ord(said) - _ZERO if len(said) == 1 else None
    return said if isinstance(said, int) else None


def _packed_numbers(said: dict[str, Any]) -> dict[str, Any]:
    for name in _NUMBERS:
        if name in said:
            held = said[name]
            said[name] = list(map(packed_number, held)) if isinstance(held, list | tuple) else packed_number(held)
    return said


def _read_numbers(said: dict[str, Any]) -> dict[str, Any]:
    for name in _NUMBERS:
        if name in said:
            held = said[name]
            numbers = [read_number(each) for each in held] if isinstance(held, list) else [read_number(held)]
            kept = [number for number in numbers if number is not None]
            said[name] = kept if isinstance(held, list) else next(iter(kept), 0)
    return said


def packed(said: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return a mapping with short names; what could be taken for one gets a sign before it.

    >>> packed({"step": 1, "n": 2, "=": 3, "who": 4}, {"step": "n"})
    {'n': 1, '=n': 2, '==': 3, 'who': 4}
    """
    return {names.get(name) or ("=" + name if len(name) == 1 or name[:1] == "=" else name): said[name] for name in said}


def unpacked(said: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return a mapping with the names that it had before `packed`.

    >>> unpacked({"n": 1, "=n": 2, "==": 3, "who": 4}, {"step": "n"})
    {'step': 1, 'n': 2, '=': 3, 'who': 4}
    """
    long = {short: name for name, short in names.items()}
    return {long.get(name) or name.removeprefix("="): said[name] for name in said}


def packed_checkpoint(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's record with short names."""
    short = dict(record)
    for part in _ABOUT:
        about = _packed_value(record[part])
        if "j" in about:
            about["j"] = packed(about["j"], _FRAMEWORK)
        short[part] = about
    short["channels"] = {name: _packed_value(value) for name, value in record["channels"].items()}
    return packed(_packed_numbers(short), _RECORD)


def read_checkpoint(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of `packed_checkpoint`; what a redaction damaged is left out of it."""
    record = _read_numbers(unpacked(said, _RECORD))
    for part in _ABOUT:
        about = _read_value(record.get(part))
        if isinstance(about.get("json"), dict):
            about["json"] = unpacked(about["json"], _FRAMEWORK)
        record[part] = about
    if isinstance(record.get("channels"), dict):
        record["channels"] = {name: _read_value(value) for name, value in record["channels"].items()}
    return record


def _packed_value(value: Mapping[str, Any]) -> dict[str, Any]:
    short = packed(_packed_numbers(dict(value)), _VALUE)
    return short | {"k": packed_kind(short["k"])} if "k" in short else short


def _read_value(said: object) -> dict[str, Any]:
    value = _read_numbers(unpacked(said, _VALUE)) if isinstance(said, dict) else {}
    return value | {"kind": read_kind(value["kind"])} if "kind" in value else value


def packed_kind(kind: str) -> str:
    """Return the short name of a kind of bytes."""
    return _KINDS.get(kind, kind)


def read_kind(short: str) -> str:
    """Return the kind of bytes that a short name stands for."""
    return _LONG_KINDS.get(short, short)
