"""Text made fit to be looked at: nothing that a transcript or a file name holds may steer what shows it."""

from __future__ import annotations

from typing import Final

PICTURES: Final = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {
    127: "\N{SYMBOL FOR DELETE}"
}
_TURNING: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
STEERING: Final = (*range(0x80, 0xA0), 0x2028, 0x2029, *_TURNING)
HARMLESS: Final = PICTURES | {code: f"\\u{code:04x}" for code in STEERING}


def clean(text: str) -> str:
    """Return text with control characters and direction overrides made visible; tabs and line ends stay.

    >>> clean("a\\x1b[31mb\\r\\n")
    'a␛[31mb\\n'
    """
    return text.replace("\r\n", "\n").translate(HARMLESS)


def one_line(text: str) -> str:
    """Return text as one clean line.

    >>> one_line("two\\n  lines")
    'two lines'
    """
    return clean(" ".join(text.split()))


def shorten(text: str, limit: int) -> str:
    """Return text as one clean line of at most `limit` characters, with an ellipsis where it was cut.

    >>> shorten("a long line", 7)
    'a long…'
    """
    line = one_line(text if len(text) <= 4 * limit else text[: 4 * limit])
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is due.

    >>> count(1, "turn"), count(2, "turn"), count(2, "branch")
    ('1 turn', '2 turns', '2 branches')
    """
    plural = f"{noun}es" if noun.endswith(("ch", "s")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
