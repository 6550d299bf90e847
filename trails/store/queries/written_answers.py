"""Write an answer in one of the engine's formats, and count its rows while that is done.

The engine writes bytes and tells nothing of rows, so they are counted in what it writes: each format has a mark that stands
once a row, and never in a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final, cast

import pyoxigraph as ox

from trails.rdf import vocab

Formats = tuple[str | None, str | None]
"""The media types for the rows of a SELECT and the answer of an ASK, and for triples; None where that form is not wanted."""
QueryAnswer = ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples


class Full(Exception):
    """There are as many rows as were wanted, and more."""


def write(answer: QueryAnswer, formats: Formats, send: Callable[[bytes], object], most: int | None) -> None:
    """Send an answer in the format for its form, in parts; nothing where there is none.

    Raises `Full` where there are more than `most` rows or triples.
    """
    rows, triples = formats
    if isinstance(answer, ox.QueryTriples):
        if triples is not None:
            _write_triples(answer, _rdf_format(triples), _Sink(send, None, None), most)
    elif rows is not None:
        form = ox.QueryResultsFormat.from_media_type(rows)
        assert form is not None  # noqa: S101 - whoever asks gives one of the engine's
        counts = _COUNTS[form.file_extension]() if isinstance(answer, ox.QuerySolutions) else None
        answer.serialize(cast(IO[bytes], _Sink(send, counts, most)), format=form)


def _rdf_format(media_type: str) -> ox.RdfFormat:
    form = ox.RdfFormat.from_media_type(media_type)
    assert form is not None  # noqa: S101 - whoever asks gives one of the engine's
    return form


def _write_triples(triples: ox.QueryTriples, form: ox.RdfFormat, sink: _Sink, most: int | None) -> None:
    counted = triples if most is None else _counted(triples, most)
    ox.serialize(counted, cast(IO[bytes], sink), format=form, prefixes=vocab.PREFIXES)


def _counted(triples: Iterable[ox.Triple], most: int) -> Iterator[ox.Triple]:
    for count, triple in enumerate(triples, 1):
        if count > most:
            raise Full
        yield triple


class _Sink:
    """What the engine writes to: it sends on what comes, and raises `Full` once there are too many rows."""

    def __init__(self, send: Callable[[bytes], object], count: _Count | None, most: int | None) -> None:
        self._send, self._count, self._most = send, count, most

    def write(self, data: bytes) -> int:
        """Send some of an answer."""
        data = bytes(data)
        if self._count is not None and self._most is not None and self._count.add(data) > self._most:
            raise Full
        if data:
            self._send(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits here."""


class _Count:
    """How many rows there are in what was written so far."""

    def __init__(self) -> None:
        self.rows = 0

    def add(self, data: bytes) -> int:
        """Return the number of rows with some more of the answer."""
        raise NotImplementedError


class _XmlCount(_Count):
    """Counts `<result>`: in a value, `<` is `&lt;`."""

    _MARK: Final = b"<result>"

    def __init__(self) -> None:
        super().__init__()
        self._tail = b""

    def add(self, data: bytes) -> int:
        data = self._tail + data
        self.rows += data.count(self._MARK)
        self._tail = data[-len(self._MARK) + 1 :]
        return self.rows


class _TsvCount(_Count):
    """Counts the lines after the first: in a value, a line break is `\\n`."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = -1

    def add(self, data: bytes) -> int:
        self._lines += data.count(b"\n")
        self.rows = max(0, self._lines)
        return self.rows


class _CsvCount(_TsvCount):
    """Counts the lines after the first: in a value, a line break stands between quotes, and a quote is two."""

    def __init__(self) -> None:
        super().__init__()
        self._is_quoted = False

    def add(self, data: bytes) -> int:
        parts = data.split(b'"')
        outside = b"".join(parts[int(self._is_quoted) :: 2])
        self._is_quoted ^= len(parts) % 2 == 0
        return super().add(outside)


class _JsonCount(_Count):
    """Counts the objects of the list: outside of strings, `},{` stands between two of them and nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self._is_quoted = False
        self._tail = b""
        self._escape = b""

    def add(self, data: bytes) -> int:
        data = self._escape + data
        slashes = len(data) - len(data.rstrip(b"\\"))
        cut = len(data) - slashes % 2  # half of an escape waits for the other one
        data, self._escape = data[:cut], data[cut:]
        parts = data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = self._tail + b"".join(parts[int(self._is_quoted) :: 2])
        self._is_quoted ^= len(parts) % 2 == 0
        self.rows += outside.count(b"},{") + outside.count(b"[{")
        self._tail = outside[-2:]
        if self._tail.endswith(b"[{"):
            self._tail = b"{"  # it was counted
        return self.rows


_COUNTS: Final[dict[str, type[_Count]]] = {"srj": _JsonCount, "srx": _XmlCount, "csv": _CsvCount, "tsv": _TsvCount}
