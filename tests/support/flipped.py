"""Damage: a byte of a file that is another one."""

from __future__ import annotations

from pathlib import Path


def flip(file: Path, at: int) -> None:
    """Change a byte in its place, as an editor of bytes does; twice is as it was."""
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 1]))
