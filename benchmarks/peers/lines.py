"""A file of JSON lines for each conversation: what nobody needs a library for."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.data import Message


class JsonLines:
    """A file of JSON lines; to fork is to copy the file."""

    rewrites = False

    def __init__(self, folder: Path, *, synced: bool = True) -> None:
        self._folder = folder
        self._synced = synced
        self.durability = "synced (fdatasync)" if synced else "not synced"
        self._path = folder / "main.jsonl"
        self._file = self._path.open("ab")
        self._forks = 0

    def _write(self, file: Any, messages: Sequence[Message]) -> None:
        file.write(b"".join(json.dumps(message.plain()).encode() + b"\n" for message in messages))
        file.flush()
        if self._synced:
            os.fdatasync(file.fileno())

    def append(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._write(self._file, [message])

    def fill(self, messages: Sequence[Message]) -> None:
        self._write(self._file, messages)

    def load(self) -> Sequence[Any]:
        return [json.loads(line) for line in self._path.read_bytes().splitlines()]

    def last(self, count: int) -> Sequence[Any]:
        return [json.loads(line) for line in self._path.read_bytes().splitlines()[-count:]]

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        self._forks += 1
        lines = self._path.read_bytes().splitlines(keepends=True)
        with (self._folder / f"fork-{self._forks}.jsonl").open("wb") as file:
            file.writelines(lines[:at])
            for message in tail:
                self._write(file, [message])

    def close(self) -> None:
        self._file.close()
