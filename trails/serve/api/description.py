"""The OpenAPI document, made of the table that routes requests and of the models that check them."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from pydantic import TypeAdapter

from trails.serve.api.operations import Operation, Shape
from trails.serve.api.shapes import Problem

_REFS: Final = "#/components/schemas/{model}"
_ANY: Final = (400, 401, 403, 404, 429, 500, 503)
_OF_WRITES: Final = (409, 413, 415, 422)
_KEY: Final = {
    "name": "Idempotency-Key", "in": "header", "required": False,
    "description": "The same request with the same key is answered as the first one was, and writes nothing more.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}  # fmt: skip
_MATCH: Final = {
    "name": "If-Match", "in": "header", "required": False,
    "description": "The ETag of the session as it was read; another head is a 409 with both.",
    "schema": {"type": "string", "pattern": '^("[0-9a-f]{64}"|\\*)$'},
}  # fmt: skip


def describe(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of operations."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(f"/api{each.path}", {})[each.method.lower()] = _operation(each, schemas)
    _schema(Problem, schemas, "serialization")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Trails",
            "version": version,
            "description": "One store of agent sessions. `trails guide serve` says how it is used.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(each: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    names = [part[1:-1] for part in each.path.split("/") if part.startswith("{")]
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]
    parameters += [] if each.query is None else _query(each.query, schemas)
    parameters += [_KEY] if each.takes_key else []
    parameters += [_MATCH] if each.takes_match else []
    told: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "tags": [each.tag],
        "parameters": parameters,
        "responses": _responses(each, schemas),
    }
    if each.body is not None:
        content = {"application/json": {"schema": _schema(each.body, schemas, "validation")}}
        told["requestBody"] = {"required": True, "content": content}
    return told


def _query(shape: type[Shape], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    whole = shape.model_json_schema(ref_template=_REFS)
    schemas.update(whole.pop("$defs", {}))
    required = whole.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(schema)}
        for name, schema in whole.get("properties", {}).items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter: what is left out is not there, and never null."""
    others = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "title", "default")}
    default = {} if schema.get("default") in (None, []) else {"default": schema["default"]}
    if len(others) == 1:
        rest |= others[0]
        others = []
    return rest | ({"anyOf": others} if others else {}) | default


def _responses(each: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any] = {
        "description": HTTPStatus(each.status).phrase,
        "content": {each.media_type: {"schema": _answer(each.answer, schemas)}},
    }
    if each.has_tag or each.takes_match:
        reply["headers"] = {"ETag": {"schema": {"type": "string"}, "description": "The session's head."}}
    found = {str(int(each.status)): reply}
    if each.has_tag:
        found["304"] = {"description": "What the client has is as it is."}
    problem = {"application/problem+json": {"schema": {"$ref": _REFS.format(model="Problem")}}}
    for status in (*_ANY, *(() if each.method == "GET" else _OF_WRITES)):
        found[str(status)] = {"description": HTTPStatus(status).phrase, "content": problem}
    return found


def _answer(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    return {"type": "string"} if kind is str else _schema(kind, schemas, "serialization")


def _schema(kind: Any, schemas: dict[str, Any], mode: Any) -> dict[str, Any]:
    """Return a reference to the schema of a type, which is kept among the schemas."""
    whole = TypeAdapter(kind).json_schema(ref_template=_REFS, mode=mode)
    schemas.update(whole.pop("$defs", {}))
    schemas[kind.__name__] = whole
    return {"$ref": _REFS.format(model=kind.__name__)}
