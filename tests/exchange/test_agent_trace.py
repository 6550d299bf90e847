"""An export in the form of Agent Trace says for each line of a session's files which session wrote it, and with which model."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, datetime
from typing import Any

import jsonschema  # type: ignore[import-untyped] # its stubs are a package of their own
import pytest

from tests.support.commands import Run, ok
from trails import Call, FileVersion, Repository
from trails.exchange.exporters.session_family import SessionExport
from trails.exchange.file_import import export_session

pytestmark = pytest.mark.any_store


def _record(required: str, optional: str = "", **properties: Any) -> dict[str, Any]:
    """A schema of objects that have some fields, may have others, and have no more."""
    names = [*required.split(), *optional.split()]
    fields = {name: properties.get(name, {"type": "string"}) for name in names}
    return {"type": "object", "required": required.split(), "properties": fields, "additionalProperties": False}


_LINE = {"type": "integer", "minimum": 1}
_URL = {"type": "string", "format": "uri", "pattern": "^[a-z]+:"}
_CONTRIBUTOR = _record(
    "type",
    "model_id",
    type={"enum": ["human", "ai", "mixed", "unknown"]},
    model_id={"type": "string", "maxLength": 250},
)
_RANGE = _record(
    "start_line end_line", "content_hash contributor", start_line=_LINE, end_line=_LINE, contributor=_CONTRIBUTOR
)
_CONVERSATION = _record(
    "ranges", "url contributor related", ranges={"type": "array", "items": _RANGE}, url=_URL, contributor=_CONTRIBUTOR,
    related={"type": "array", "items": _record("type url", url=_URL)},
)  # fmt: skip
SCHEMA = _record(
    "version id timestamp files",
    "vcs tool metadata",
    version={"type": "string", "pattern": "^[0-9]+\\.[0-9]+$"},
    id={"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"},
    timestamp={"type": "string", "pattern": "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?Z$"},
    tool=_record("name version"),
    vcs=_record("type revision"),
    metadata={"type": "object"},
    files={
        "type": "array",
        "items": _record("path conversations", conversations={"type": "array", "items": _CONVERSATION}),
    },
)
"""What the specification's schema (0.1.0, trace-record.json) asks of a record, in our words."""


def when(second: int) -> datetime:
    return datetime(2026, 2, 3, 4, 5, second, tzinfo=UTC)


def fill(store: Repository) -> None:
    """plan: 0 finds a.py, 1 is a model's call and 2 its answer, which changes it, 3 a person's; fork, at 3, adds a line."""
    with store.create(id="plan", principal="alice") as plan:
        plan.append("tool", "found", time=when(0), files=[FileVersion(path="a.py", data=b"old\n", outside=True)])
        plan.append("assistant", "I write.", model="m-1", call=Call(provider="acme"), time=when(1))
        plan.append("tool", "done", time=when(2), files={"a.py": b"old\ntwo\nthree\n", "bin": b"\0"})
        plan.append("user", "mine", time=when(3), files={"a.py": b"old\ntwo\nmine\nthree\n"})
    fork = plan.fork(at=3, id="fork")
    fork.append("assistant", "more", model="other/m-2", time=when(4), files={"a.py": b"old\ntwo\nthree\nfour"})
    fork.persist()


def trace(store: Repository, session: str) -> tuple[Any, SessionExport]:
    out = io.BytesIO()
    report = export_session(store, session, "agent-trace", out)
    (line,) = out.getvalue().splitlines()
    record = json.loads(line)
    jsonschema.validate(record, SCHEMA)
    return record, report


def short(record: Any) -> list[tuple[Any, ...]]:
    """url, contributor and ranges of each conversation of the one file."""
    (file,) = record["files"]
    return [
        (each.get("url"), each["contributor"], [(one["start_line"], one["end_line"]) for one in each["ranges"]])
        for each in file["conversations"]
    ]


def test_each_line_names_who_wrote_it(store: Repository) -> None:
    fill(store)
    record, report = trace(store, "plan")
    plan, model = "urn:trails:session:plan", {"type": "ai", "model_id": "acme/m-1"}
    assert short(record) == [
        (None, {"type": "unknown"}, [(1, 1)]),
        (plan, model, [(2, 2), (4, 4)]),  # what a tool did is the work of the model that called it
        (plan, {"type": "human"}, [(3, 3)]),
    ]
    assert (record["version"], record["timestamp"], record["tool"]["name"]) == ("0.1", "2026-02-03T04:05:03Z", "trails")
    turns = store.load("plan").turns
    conversations = record["files"][0]["conversations"]
    assert [each.get("related") for each in conversations] == [
        None, [{"type": "turn", "url": turns[2].iri}], [{"type": "turn", "url": turns[3].iri}],
    ]  # fmt: skip
    digest = hashlib.sha256(b"two\n").hexdigest()
    assert conversations[1]["ranges"][0]["content_hash"] == f"sha256:{digest}"
    assert report.left_out[-1] == "1 files: they are no text, or their content is not kept"


def test_a_fork_names_the_session_that_each_line_comes_from(store: Repository) -> None:
    fill(store)
    record, _ = trace(store, "fork")
    assert short(record) == [
        (None, {"type": "unknown"}, [(1, 1)]),
        ("urn:trails:session:plan", {"type": "ai", "model_id": "acme/m-1"}, [(2, 3)]),
        ("urn:trails:session:fork", {"type": "ai", "model_id": "other/m-2"}, [(4, 4)]),
    ]
    assert trace(store, "fork")[0]["id"] == record["id"] != trace(store, "plan")[0]["id"]


def test_a_session_without_files_has_a_record_without_any(memory: Repository) -> None:
    with memory.create(id="plan") as plan:
        plan.append("user", "Hello")
    assert trace(memory, "plan")[0]["files"] == []


def test_the_command_writes_it(run: Run, place: Any) -> None:
    import trails

    with trails.open(place, create=True) as store:
        fill(store)
    assert json.loads(ok(run("export", "plan", "--format", "agent-trace")))["files"][0]["path"] == "a.py"
