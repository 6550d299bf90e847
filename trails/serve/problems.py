"""Errors as problem documents (RFC 9457): what happened, which page of the guide says more, and the error's own fields."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response

from trails import errors
from trails.serve.appends import KeyReused
from trails.serve.callers import Forbidden, Unauthorized
from trails.store.contract import PreconditionFailed

if TYPE_CHECKING:
    from starlette.requests import Request

STATUSES: Final[dict[type[Exception], HTTPStatus]] = {
    Unauthorized: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    errors.SessionNotFound: HTTPStatus.NOT_FOUND,
    errors.HeadConflict: HTTPStatus.CONFLICT,
    PreconditionFailed: HTTPStatus.CONFLICT,
    errors.HasChildren: HTTPStatus.CONFLICT,
    errors.OnHold: HTTPStatus.CONFLICT,
    errors.ForkDepthExceeded: HTTPStatus.CONFLICT,
    KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.SecretFound: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidInput: HTTPStatus.BAD_REQUEST,
    errors.QueryTimeout: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.QueryTooLarge: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.QueryEnded: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreReadOnly: HTTPStatus.FORBIDDEN,
    errors.NeedsWholeStore: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreLocked: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreFailed: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""The status of each error; that of the nearest class counts, else 500."""
MEDIA_TYPE: Final = "application/problem+json"


def status_of(error: BaseException) -> HTTPStatus:
    """Return the status that an error is answered with."""
    return next((STATUSES[each] for each in type(error).__mro__ if each in STATUSES), HTTPStatus.INTERNAL_SERVER_ERROR)


def problem(status: int, title: str, detail: str, *, kind: str = "about:blank", **fields: Any) -> Response:
    """Return a problem document."""
    body = {"type": kind, "title": title, "status": int(status), "detail": detail} | fields
    return Response(orjson.dumps(body, default=str), status_code=int(status), media_type=MEDIA_TYPE)


async def on_trails_error(request: Request, error: Exception) -> Response:
    """Answer an error of Trails."""
    assert isinstance(error, errors.TrailsError)  # noqa: S101 - it is registered for these
    said = {key: value for key, value in vars(error).items() if key != "args" and key[0] != "_"} | {
        "message": error.message
    }
    told = {key: await told_to(request, error, value) for key, value in said.items()}
    detail = told.pop("message")
    return problem(status_of(error), type(error).__name__, detail, kind=f"urn:trails:guide:{error.page}", **told)


async def told_to(request: Request, error: errors.TrailsError, said: Any) -> Any:
    """Return what an error says to whoever asks: no name of a session that they may not see.

    What is not found is called as it was asked for: else what is there could be told from what is not.
    """
    if isinstance(error, errors.SessionNotFound):
        return said
    return await request.app.state.access.told(request, said)


async def on_fault(request: Request, error: Exception) -> Response:
    """Answer an error that nobody raised on purpose; what it says stays in the server's log."""
    return problem(500, "Internal Server Error", "the server failed on this request; its log says why")


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer what no route takes."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these
    answer = problem(error.status_code, HTTPStatus(error.status_code).phrase, error.detail)
    answer.headers.update(error.headers or {})
    return answer


HANDLERS: Final[dict[Any, Any]] = {
    errors.TrailsError: on_trails_error,
    HTTPException: on_http_error,
    Exception: on_fault,
}
"""What answers each kind of error."""
