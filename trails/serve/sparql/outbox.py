"""Send long answers from their files: no more bytes together than may be held, and to no client that stops reading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
from starlette.responses import Response, StreamingResponse

from trails.serve.service import Service
from trails.serve.sparql.answers import Written
from trails.serve.sparql.turnstile import Busy

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

_PART: Final = 1 << 18
PATIENCE: Final = 60.0
"""Seconds in which a client takes the next part of an answer."""


class Outbox:
    """The long answers that are being sent."""

    def __init__(self, service: Service) -> None:
        """Hold none yet."""
        self._service = service
        self._held = 0

    def response(self, answer: Written, headers: Mapping[str, str]) -> Response:
        """Return a response that sends an answer; raise `Busy` where too many bytes wait to be read already."""
        most = self._service.settings.query_max_held
        if self._held + answer.size > most:
            answer.file.close()
            raise Busy(
                f"answers of {self._held:,} bytes wait for their clients to read them, and {most:,} may (query_max_held): "
                "ask again later, or ask for less"
            )
        return _Sent(self, self._service, answer, headers)

    def take(self, size: int) -> None:
        """Count some bytes more, or less."""
        self._held += size


class _Sent(StreamingResponse):
    """A response that is counted while it is sent."""

    def __init__(self, outbox: Outbox, service: Service, answer: Written, headers: Mapping[str, str]) -> None:
        super().__init__(self._parts(), headers=headers)
        self._outbox, self._service, self._answer = outbox, service, answer

    async def _parts(self) -> AsyncIterator[bytes]:
        while part := await self._service.run(self._answer.file.read, _PART):
            yield part

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_soon(message: Message) -> None:
            with anyio.fail_after(PATIENCE):
                await send(message)

        self._outbox.take(self._answer.size)
        try:
            with suppress(TimeoutError):  # the server closes the connection, so that it is not taken for a whole answer
                await super().__call__(scope, receive, send_soon)
        finally:
            self._outbox.take(-self._answer.size)
            self._answer.file.close()
