"""A connection that is given up where the server neither answers nor ends it: one that is stopped, a network that swallows.

One on which a pipeline failed is closed: the driver would end the pipeline on one that is lost, too, and print what came of that
(`error ignored terminating ...`) beside the error that is raised.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

SILENCE: Final = 60.0
"""Seconds without a byte after which no answer is waited for: longer than anything here waits for a lock."""


class Silent(psycopg.OperationalError):
    """The server has not answered for as long as is waited for it."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """psycopg's own, whose waiting ends after `silence` seconds with `Silent`, and which is closed where a pipeline fails."""

    silence: float | None = None
    """For how many seconds nothing may come, if that is less than `SILENCE`."""

    @contextmanager
    def pipeline(self) -> Iterator[psycopg.Pipeline]:
        """Do what the driver does; after an error the connection is closed.

        An interrupt (Ctrl-C) at the end is raised as what it is: the driver raises the error that came of it instead.
        """
        failed: BaseException | None = None
        try:
            with super().pipeline() as made:
                try:
                    yield made
                except BaseException as error:  # noqa: BLE001 - raised below, once the driver has seen the end of it
                    failed = error
                    self.close()
        except psycopg.Error as error:
            failed = failed or _interrupt_before(error)
            if failed is None:
                raise
            self.close()
        if failed is not None:
            raise failed

    def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
        """Do what the driver does, while the server is heard."""
        try:
            return super().wait(_while_heard(gen, min(SILENCE, self.silence or SILENCE)), *given, **named)
        except Silent:
            self.close()  # first, or the end of a pipeline would wait once more
            raise


def _interrupt_before(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt in whose handling an error was raised, None if there was none."""
    context = error.__context__
    if context is None or isinstance(context, KeyboardInterrupt):
        return context
    return _interrupt_before(context)


def _while_heard(asking: Generator[Any, Any, Any], silence: float) -> Generator[Any, Any, Any]:
    end = time.monotonic() + silence
    try:
        wanted = next(asking)
        while True:
            ready = yield wanted
            if ready:
                end = time.monotonic() + silence
            elif time.monotonic() > end:
                raise Silent(f"the server has not answered for {silence:.0f} seconds")
            wanted = asking.send(ready)
    except StopIteration as done:
        return done.value
