"""Small logs of Inspect, made by hand: as one JSON object, as a zip, and as a zip of chunks."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def said(role: str, content: Any, identity: str | None = None, **more: Any) -> Json:
    """Return a message."""
    return {"role": role, "content": content, **({"id": identity} if identity else {}), **more}


def model_event(span: str, given: Sequence[Sequence[int]], *answers: Json, **more: Any) -> Json:
    """Return a model call that was given ranges of the pool, with its answers."""
    choices = [{"message": answer, "stop_reason": "stop"} for answer in answers]
    return {
        "event": "model",
        "span_id": span,
        "model": "mockllm/model",
        "input": [],
        "input_refs": given,
        "output": {"choices": choices, "usage": {"input_tokens": 7, "output_tokens": 3}},
        "timestamp": "2026-01-02T03:04:05+00:00",
        "completed": "2026-01-02T03:04:07+00:00",
        **more,
    }


def span(identity: str, kind: str, name: str, parent: str | None = None) -> Json:
    """Return the begin of a span."""
    return {"event": "span_begin", "span_id": identity, "id": identity, "type": kind, "name": name, "parent_id": parent}


def sample(messages: Sequence[Json], *, events: Sequence[Json] = (), pool: Sequence[Json] = (), **more: Any) -> Json:
    """Return a sample with the id 1 and the epoch 1."""
    return {"id": 1, "epoch": 1, "messages": list(messages), "events": list(events)} | {
        "events_data": {"messages": list(pool), "calls": []},
        **more,
    }


HEADER: Json = {
    "version": 2,
    "status": "success",
    "eval": {
        "eval_id": "ev",
        "run_id": "run",
        "created": "2026-01-02T03:04:05+00:00",
        "task": "sums",
        "model": "mockllm/model",
        "dataset": {"name": "numbers"},
    },
}


def as_json(*samples: Json, **header: Any) -> bytes:
    """Return a log in JSON."""
    return json.dumps({**HEADER, **header, "samples": samples}).encode()


def as_zip(members: Mapping[str, Any], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip with members, each bytes, or a value that is written as JSON."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as opened:
        for name, value in members.items():
            opened.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return made.getvalue()


def as_eval(*samples: Json, **members: Any) -> bytes:
    """Return an `.eval` file; a member that is given as None is left out."""
    named = {f"samples/{each['id']}_epoch_{each['epoch']}.json": each for each in samples}
    every = {"_journal/start.json": {"version": 2, "eval": HEADER["eval"]}, **named, "header.json": HEADER, **members}
    return as_zip({name: value for name, value in every.items() if value is not None})
