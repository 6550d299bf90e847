"""What becomes of values in a file of the index that Trails never writes: it is not believed, and the store is not to blame."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from trails.errors import TrailsError
from trails.model.validation import DECODING_ERRORS


class Untrue(sqlite3.DatabaseError):
    """A file holds what Trails never writes: somebody altered it."""


@contextmanager
def as_damaged() -> Iterator[None]:
    """Let whatever comes of values in a file that Trails never writes be raised as `Untrue`.

    Errors of Trails pass as they are.
    """
    try:
        yield
    except TrailsError:
        raise
    except DECODING_ERRORS as error:
        raise Untrue(f"it holds what Trails never writes: {type(error).__name__}: {error}") from error
