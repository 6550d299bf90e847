"""Files that are read a part at a time, while they may be written to."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any, Final

from trails.plumbing import imports
from trails.transcripts.report import FileProblem

_CHANGED: Final = (
    "was changed while it was read, so that some of it may be missing, and the digest on record is that of the file before; "
    "what came in stays: import it again for the rest"
)


class Opened:
    """An open file as it is now: what is written behind its end meanwhile is not read."""

    def __init__(self, file: IO[bytes], name: str = "") -> None:
        """Read the file once, for its digest."""
        self.name = name
        self.found = imports.source_file(file, Path(name).name or None)
        self._file = file
        self.content: IO[bytes] = io.BufferedReader(_Beginning(file, self.found.size))
        self.content.seek(0)

    def problems(self) -> list[FileProblem]:
        """Return what is to be said where the file, as far as it was read, is not as it was."""
        self.content.seek(0)
        if imports.source_file(self.content, None).sha256 == self.found.sha256:
            return []
        return [FileProblem(file=self.name, line=0, reason=_CHANGED, text="")]


class _Beginning(io.RawIOBase):
    """The first bytes of a file, as a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file = file
        self._size = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += self._size
        return self._file.seek(offset, io.SEEK_CUR if whence == io.SEEK_CUR else io.SEEK_SET)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self._file.read(max(0, min(len(view), self._size - self._file.tell())))
        view[: len(data)] = data
        return len(data)
