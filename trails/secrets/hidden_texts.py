"""Read and replace texts in bytes of any format: in text and JSON, in binary formats, and in base64 within any of them.

What is JSON stays JSON: each string that holds what is looked for is replaced, and all else stays byte for byte. In other
formats the bytes of the text are overwritten in place, so lengths and offsets stay right. Compressed bytes are not read.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Final

from trails.secrets.detection import Detector, mark, redact_json, secrets_in_json
from trails.secrets.rules import Secret

_DEEPEST: Final = 4
"""How often base64 is decoded within what was decoded."""
_WINDOW: Final = 8 << 20
_OVERLAP: Final = 1 << 20
"""Bytes that are read at once, and that two such pieces share: a longer text that lies across them is not found."""
_RUN: Final = re.compile(rb"[A-Za-z0-9+/_-]{8,}={0,2}")
"""What may be base64, with either of its alphabets."""
_TOKEN: Final = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|-?\d[\d.eE+-]*')
"""A string of JSON, and whether it is a key; or a number."""
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")

Holds = Callable[[str], bool]
"""Tells whether a text holds what is looked for."""
Overwrite = Callable[[bytes], bytes]
"""Overwrites what is looked for in bytes that are not read any further, and keeps their length."""


def hidden_texts(data: bytes, depth: int = 0) -> Iterator[str]:
    """Yield the texts in bytes: all of it as UTF-8, as far as it is, and what stands there in base64.

    >>> "secret word" in hidden_texts(b'{"a": "c2VjcmV0IHdvcmQ="}')
    True
    """
    for window in _windows(data):
        yield window.decode(errors="replace")
        if depth < _DEEPEST:
            for run in _RUN.finditer(window):
                for _, decoded in _decodings(run[0]):
                    yield from hidden_texts(decoded, depth + 1)


def _windows(data: bytes) -> Iterator[bytes]:
    """Yield bytes in pieces that overlap, where they are many: a text of them takes several times their memory."""
    if len(data) <= _WINDOW:
        yield data
        return
    for start in range(0, len(data) - _OVERLAP, _WINDOW - _OVERLAP):
        yield data[start : start + _WINDOW]


def _decodings(run: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield what a run may stand for, with where its base64 begins: in binary formats, letters may come before it."""
    plain = run.translate(_URL_SAFE).rstrip(b"=")
    for start in range(4):
        digits = plain[start:]
        digits = digits[: len(digits) - (len(digits) % 4 == 1)]
        if digits:
            yield start, base64.b64decode(digits + b"=" * (-len(digits) % 4))


def holds_hidden(data: bytes, holds: Holds) -> bool:
    """Tell whether bytes hold what is looked for."""
    return any(map(holds, hidden_texts(data)))


def without_hidden(data: bytes, holds: Holds, overwrite: Overwrite, stand_in: str) -> bytes:
    """Return bytes without what is looked for: strings of JSON that hold it are replaced by `stand_in`.

    Where it can be told that it is there, and not where, nothing but `stand_in` is left.
    """
    if not holds_hidden(data, holds):
        return data
    made = _without(data, holds, overwrite, stand_in, 0)
    return stand_in.encode() if holds_hidden(made, holds) else made


def _without(data: bytes, holds: Holds, overwrite: Overwrite, stand_in: str, depth: int) -> bytes:
    text = _json_text(data)
    if text is not None:
        made = _in_json(text, holds, overwrite, stand_in, depth).encode()
        if not holds_hidden(made, holds):
            return made
        data = made
    return _overwritten(data, holds, overwrite, depth)


def _json_text(data: bytes) -> str | None:
    """Return bytes that are JSON as text; None for any other."""
    try:
        text = data.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return text


def _in_json(text: str, holds: Holds, overwrite: Overwrite, stand_in: str, depth: int) -> str:
    keys = 0

    def replaced(found: re.Match[str]) -> str:
        nonlocal keys
        token, colon = found[1], found[2]
        if token is None:
            return json.dumps(stand_in) if holds(found[0]) else found[0]
        value = json.loads(token, strict=False)
        if not holds_hidden(value.encode(errors="replace"), holds):
            return found[0]
        if colon is None:
            return json.dumps(_in_string(value, holds, overwrite, stand_in, depth), ensure_ascii=False)
        keys += 1  # of two keys neither is lost
        return json.dumps(stand_in if keys == 1 else f"{stand_in}-{keys}") + colon

    return _TOKEN.sub(replaced, text)


def _in_string(value: str, holds: Holds, overwrite: Overwrite, stand_in: str, depth: int) -> str:
    """Return a string without what it holds: of JSON in it, and of base64, the rest stays."""
    data = value.encode(errors="replace")
    if value[:1] in ("{", "[") and depth < _DEEPEST and _json_text(data) is not None:
        made = _without(data, holds, overwrite, stand_in, depth + 1)
    elif not holds(value):
        made = _overwritten(data, holds, overwrite, depth)
    else:
        return stand_in
    return stand_in if holds_hidden(made, holds) else made.decode(errors="replace")


def _overwritten(data: bytes, holds: Holds, overwrite: Overwrite, depth: int) -> bytes:
    """Return bytes of the same length in which what is looked for is overwritten, in base64 too."""
    made = overwrite(data)
    return made if depth >= _DEEPEST else _RUN.sub(lambda run: _run_without(run[0], holds, overwrite, depth), made)


def _run_without(run: bytes, holds: Holds, overwrite: Overwrite, depth: int) -> bytes:
    for start, decoded in _decodings(run):
        if not holds_hidden(decoded, holds):
            continue
        made = base64.b64encode(_overwritten(decoded, holds, overwrite, depth + 1)).rstrip(b"=")
        if b"-" in run or b"_" in run:
            made = made.translate(bytes.maketrans(b"+/", b"-_"))
        return run[:start] + made + run[start + len(made) :]
    return run


# --- secrets


def secrets_hidden(data: bytes, look: Detector) -> Iterator[tuple[str, Secret]]:
    """Yield every secret in bytes, with the text that holds it."""
    for text in hidden_texts(data):
        yield from secrets_in_json(text, look)


def without_secrets(data: bytes, look: Detector) -> bytes:
    """Return bytes without their secrets: of JSON, strings are replaced, in other formats secrets are overwritten.

    >>> from trails.secrets import builtin
    >>> without_secrets(b'{"password": "hunter-2-hunter"}', builtin)
    b'{"password":"[redacted: password]"}'
    """

    def holds(text: str) -> bool:
        return any(True for _ in secrets_in_json(text, look))

    def overwrite(given: bytes) -> bytes:
        text = given.decode("latin-1")
        for secret in look(text):
            text = text[: secret.start] + "*" * (secret.end - secret.start) + text[secret.end :]
        return text.encode("latin-1")

    if not holds_hidden(data, holds):
        return data
    text = _json_text(data)
    made = data if text is None else redact_json(text, look).encode()
    return without_hidden(made, holds, overwrite, mark("secret"))
