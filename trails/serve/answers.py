"""Answers in JSON, and the ETags that go with them: a session's head."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request

MEDIA_TYPE: Final = "application/json"


def respond(request: Request, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer; a 304 without a body to who has it by its ETag already."""
    tag = (headers or {}).get("ETag")
    if (
        tag is not None
        and request.method in ("GET", "HEAD")
        and tag in listed_tags(request.headers.get("if-none-match"))
    ):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=dict(headers or {}))
    return Response(body, status_code=status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def render(value: Any) -> bytes:
    """Return a value as JSON."""
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:  # numbers beyond 64 bits, or nested too deep for it
        return json.dumps(value, ensure_ascii=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def entity_tag(head: str, body: bytes | None = None) -> str:
    """Return the ETag of what shows a session at a head; with a `body`, of just that.

    >>> entity_tag("ab12"), head_of('"ab12"'), head_of('"ab12-77777777"')
    ('"ab12"', 'ab12', 'ab12')
    """
    if body is None:
        return f'"{head}"'
    return f'"{head}-{hashlib.sha256(body).hexdigest()[:8]}"'


def head_of(tag: str) -> str:
    """Return the head that an ETag tells."""
    return tag.removeprefix("W/").strip('"').partition("-")[0]


def listed_tags(header: str | None) -> list[str]:
    """Return the ETags that a header lists."""
    return [] if header is None else [each.strip().removeprefix("W/") for each in header.split(",")]
