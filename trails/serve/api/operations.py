"""What the API can do, each operation one row of a table: it routes, checks and describes requests."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from trails.errors import InvalidInput
from trails.serve.access import (
    Caller,
    Forbidden,
    Right,
    remember_sent,
    require,
    sees,
    view_of,
)
from trails.serve.answers import MEDIA_TYPE, head_of, listed_tags, render, respond
from trails.serve.service import Service, service_of
from trails.session.repository import Repository

if TYPE_CHECKING:
    from starlette.requests import Request

Method = Literal["GET", "PUT", "POST", "DELETE"]
SLASH: Final = "\x1f"
"""Stands for a slash within an id, which is no part of the path; no id holds this character."""
_Model = TypeVar("_Model", bound=BaseModel)
_KEYS: Final = uuid.UUID("6f1a7c1e-58a5-5d3c-9a53-2f0b6a1b7c11")
"""The namespace of the ids of what is made by a request with a key."""
_TOO_DEEP: Final = "the body is nested too deep; keep it below 900 levels"
REPLAYED: Final = {"Idempotent-Replayed": "true"}
"""The header of an answer to a request that came before."""


class Shape(BaseModel):
    """The shape of what a request says; what has no field is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Body(Shape):
    """The shape of a body: JSON has types, so that `false` is no index and `"1"` is no number."""

    model_config = ConfigDict(strict=True)


class InvalidRequest(InvalidInput):
    """A request does not have the shape that the operation takes. `errors` says where, and what is wrong."""

    def __init__(self, message: str, *, errors: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.errors = errors or []


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was checked: what a handler works on."""

    service: Service
    view: Repository
    """The store as the caller may see it."""
    caller: Caller
    path: Mapping[str, str]
    query: Any
    body: Any
    headers: Mapping[str, str]

    @property
    def store(self) -> Repository:
        """The whole store: what is written goes there."""
        return self.service.store

    @property
    def session(self) -> str:
        """The id of the session that the path names and the caller may see."""
        return self.view.resolve(self.path["session"])

    @property
    def key(self) -> str | None:
        """The key by which the request is known when it is sent again; raises `InvalidRequest` for what is none."""
        return idempotency_key(self.headers)

    @property
    def id_by_key(self) -> str | None:
        """The id of what a request with a key makes: the same for the same request, whichever server it reaches."""
        key = self.key
        if key is None:
            return None
        return uuid.uuid5(_KEYS, f"{self.caller.principal}\n{sorted(self.path.items())}\n{key}").hex

    @property
    def digest(self) -> str:
        """The digest of the whole request: the key, who asks, and the body. It tells a repeat from another request.

        It stays in the store if a turn is redacted. The key is part of it, so that the content cannot be tested against it
        by who does not know the key.
        """
        asked = [self.key, self.caller.principal, type(self.body).__name__, self.body]
        try:
            return hashlib.sha256(json.dumps(asked, sort_keys=True, default=_plain).encode()).hexdigest()
        except RecursionError:
            raise InvalidRequest(_TOO_DEEP) from None

    @property
    def sees_all(self) -> bool:
        """Whether the caller sees the whole store."""
        return self.caller.sees_all

    def by(self, given: str | None = None) -> str | None:
        """Return who is on record as doing it: as `Caller.by`."""
        return self.caller.by(given)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered, where that is more than a value and status 200."""

    value: Any = None
    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Asked], Any]
"""Answers a request on a worker thread."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that the API does."""

    method: Method
    path: str
    """Below `/api`, with its parameters in braces."""
    name: str
    """Its `operationId`."""
    summary: str
    handler: Handler | None
    answer: Any
    """The type of what it answers, from which its schema is made."""
    query: type[Shape] | None = None
    body: type[Shape] | None = None
    status: int = HTTPStatus.OK
    right: Right = "read"
    has_tag: bool = False
    """Whether it answers with an ETag, and a 304 to an `If-None-Match`."""
    is_of_session: bool = False
    """Whether it looks at nothing but the session that its path names."""
    takes_match: bool = False
    """Whether it takes an `If-Match`."""
    media_type: str = MEDIA_TYPE
    endpoint: Callable[[Request], Awaitable[Response]] | None = None
    """Answers in the handler's place, on the event loop."""

    @property
    def takes_key(self) -> bool:
        """Whether it takes an `Idempotency-Key`."""
        return self.method == "POST"

    @property
    def tag(self) -> str:
        """The resource that it is about."""
        return self.path.split("/")[1]


def api_routes(operations: tuple[Operation, ...]) -> list[Route]:
    """Return a route for each path, which takes all methods of its operations."""
    paths: dict[str, dict[str, Operation]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method] = each
    return [Route(path, _endpoint(path, table), methods=list(table)) for path, table in paths.items()]


def _endpoint(path: str, table: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    route = f"/api{path}"

    async def endpoint(request: Request) -> Response:
        request.scope["trails.route"] = route
        operation = table["GET" if request.method == "HEAD" else request.method]
        if operation.endpoint is not None:
            return await operation.endpoint(request)
        return await answer(request, operation)

    return endpoint


async def ask(request: Request, operation: Operation) -> Asked:
    """Return a request, checked: who asks, what they may, and what they say."""
    caller = require(request, operation.right)
    query = None if operation.query is None else read_query(request, operation.query)
    if operation.query is None and request.query_params:
        _refuse_query(request)
    body = None if operation.body is None else read_body(await request.body(), request, operation.body)
    service, path = service_of(request), path_of(request)
    moment = getattr(query, "at", None)
    if moment is not None:
        if not caller.sees_all:
            raise Forbidden("the store as it was is shown to who may see all of it; leave out `at`")
        view = await service.run(service.past.view, service.store, moment)
    elif operation.is_of_session and not caller.sees_all and await sees(request, path["session"]):
        view = service.store  # no more of it is looked at than this session
    else:
        view = await view_of(request)
    return Asked(service, view, caller, path, query, body, request.headers)


async def answer(request: Request, operation: Operation) -> Response:
    """Check a request, have it handled on a worker thread, and answer it."""
    asked = await ask(request, operation)
    handler = operation.handler
    assert handler is not None  # noqa: S101 - else it has an endpoint
    return await asked.service.run(_handled, asked, operation, request)


def _handled(asked: Asked, operation: Operation, request: Request) -> Response:
    assert operation.handler is not None  # noqa: S101 - see above
    found = operation.handler(asked)
    told = found if isinstance(found, Answer) else Answer(found, operation.status)
    return respond(request, render(told.value), status=told.status, headers=told.headers)


# --- what a request says


def path_of(request: Request) -> dict[str, str]:
    """Return the parameters of the path."""
    return {name: value.replace(SLASH, "/") for name, value in request.path_params.items()}


def read_query(request: Request, shape: type[_Model]) -> _Model:
    """Return the parameters of a query; raise `InvalidRequest`."""
    given: dict[str, Any] = {}
    names = {each.alias or name: each.annotation for name, each in shape.model_fields.items()}
    for name, value in request.query_params.multi_items():
        is_list = name in names and get_origin(names[name]) is tuple
        if is_list:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InvalidRequest(f"the parameter {name!r} is given twice; give it once")
        else:
            given[name] = value
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        _refuse(error, "query")


def read_body(data: bytes, request: Request, shape: type[_Model]) -> _Model:
    """Return the body of a request, which is JSON; raise `InvalidRequest`."""
    kind = request.headers.get("content-type", MEDIA_TYPE).partition(";")[0].strip().lower()
    if kind != MEDIA_TYPE:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body is {MEDIA_TYPE} here, not {kind:.80}")
    given = read_json(data)
    remember_sent(request, given)
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        _refuse(error, "body")


def read_json(data: bytes) -> Any:
    """Return what JSON says, numbers of any size exactly; raise `InvalidRequest`."""
    try:
        return json.loads(data or b"null", parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidRequest(_TOO_DEEP) from None
    except ValueError as error:
        raise InvalidRequest(f"the body is no JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _refuse(error: ValidationError, where: str) -> NoReturn:
    found = error.errors(include_url=False, include_input=False, include_context=False)[:10]
    told = [{"where": where, "field": ".".join(map(str, each["loc"])), "message": each["msg"]} for each in found]
    words = "; ".join(f"{each['field'] or where}: {each['message']}" for each in told[:3])
    raise InvalidRequest(f"the {where} of the request is not as it must be: {words}", errors=told) from None


def _refuse_query(request: Request) -> NoReturn:
    raise InvalidRequest(f"this operation takes no query parameters, such as {next(iter(request.query_params))!r:.80}")


# --- heads and keys


def expected_head(headers: Mapping[str, str]) -> str | None:
    """Return the head that a request expects a session to have (`If-Match`); None for any."""
    given = headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    tags = listed_tags(given)
    if len(tags) != 1 or not tags[0].startswith('"'):
        raise InvalidRequest(f'If-Match takes one ETag, as "{"0" * 8}...", not {given!r:.80}')
    return head_of(tags[0])


def _plain(value: BaseModel | datetime) -> Any:
    """Return a part of a body as JSON has it, without the fields that say no more than if they were left out."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    fields = type(value).model_fields
    return {name: part for name in fields if (part := getattr(value, name)) != fields[name].default}


_MOST_OF_KEY: Final = 200


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """Return the key by which a request that is sent again is known; raise `InvalidRequest` for what is none."""
    key = headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= _MOST_OF_KEY or not key.isprintable() or not key.isascii():
        raise InvalidRequest(f"an Idempotency-Key has 1 to {_MOST_OF_KEY} printable ASCII characters, not {key!r:.80}")
    return key
