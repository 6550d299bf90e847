"""The store protocol: what `trails.open("https://...")` asks (`trails.store.remote`).

It is for callers who see the whole store. Others have the API. Each request has the version of the protocol in a header, and
each answer has it, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.model.validation import DECODING_ERRORS
from trails.serve import problems
from trails.serve.access import Caller, Forbidden, require, view_of
from trails.serve.service import Service, service_of
from trails.serve.store_answers import StoreAnswers
from trails.store.remote import wire

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

_VERSION: Final = {wire.HEADER: str(wire.VERSION)}
_Work = Callable[[Caller, dict[str, Any]], dict[str, Any]]


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the store protocol."""
    answers = StoreAnswers(service.store, service.settings)
    return [
        Route("/store/read", _endpoint("read", answers.read), methods=["POST"]),
        Route("/store/commit", _endpoint("write", answers.commit), methods=["POST"]),
        Route("/store/act", _endpoint("write", answers.act), methods=["POST"]),
    ]


def _endpoint(right: Any, work: _Work) -> Any:
    """Return the endpoint that does some work for a caller who has a right and sees the whole store."""

    async def endpoint(request: Request) -> Response:
        try:
            _check_version(request)
            caller = require(request, right)
            service = service_of(request)
            if await view_of(request) is not service.store:
                raise Forbidden(
                    "this token sees a part of the store, and the store protocol is for those who see all of it: use the API at "
                    "/api, or ask for a token that sees all (`trails token make --all`)"
                )
            body = await _body(request, service.settings.max_body)
            answer = await service.run(work, caller, body)
        except TrailsError as error:
            return _refusal(error)
        except (SyntaxError, *DECODING_ERRORS) as error:
            logging.getLogger("trails.serve").info("a request of the store protocol", exc_info=error)
            return _refusal(
                InvalidInput(f"the body of the request cannot be read ({type(error).__name__}: {error!s:.200})")
            )
        return Response(orjson.dumps(answer), media_type="application/json", headers=_VERSION)

    return endpoint


def _check_version(request: Request) -> None:
    given = request.headers.get(wire.HEADER, "none")
    if given != str(wire.VERSION):
        raise StoreFailed(
            f"this server speaks version {wire.VERSION} of the store protocol, and the client version {given[:20]}: use the same "
            "version of Trails on both sides"
        )


async def _body(request: Request, most: int) -> dict[str, Any]:
    """Return the JSON object of a request's body; raise `InvalidInput` for what is none, or is too long."""
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise InvalidInput(f"the body of a request has at most {most:,} bytes: write less in one commit")
        parts.append(part)
    try:
        found = orjson.loads(b"".join(parts))
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"the body of the request is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput("the body of the request is no JSON object")
    return found


def _refusal(error: TrailsError) -> Response:
    """Return a problem document that also holds the error as a client makes it again."""
    answer = problems.problem(
        problems.status_of(error), type(error).__name__, error.message, kind=f"urn:trails:guide:{error.page}",
        error=wire.error_out(error),
    )  # fmt: skip
    answer.headers.update(_VERSION)
    return answer
