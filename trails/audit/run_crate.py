"""Describe a pack as an RO-Crate 1.2 by the profile Process Run Crate 0.5, of the Workflow Run Crate collection.

A model call is a `CreateAction` whose instrument is the model, a tool call one whose instrument is the tool, both as
`SoftwareApplication`. A session has no workflow that was written before it ran, so the profiles that need one do not apply.
The crate holds no text of a turn: `records.nq` has them, and the crate names their IRIs and digests. Sources:
https://www.researchobject.org/ro-crate/specification/1.2 and https://w3id.org/ro/wfrun/process/0.5.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import trails
from trails.audit.report import Report
from trails.errors import TrailsError
from trails.model import iris
from trails.model.values import ToolCall, ToolResult, Turn
from trails.provenance.crate_reader import CRATE, EXPORT
from trails.session import Repository

RO_CRATE: Final = "https://w3id.org/ro/crate/1.2"
RO_CRATE_BASE: Final = "https://w3id.org/ro/crate/1.1"
"""The version that Process Run Crate 0.5 builds on. The crate conforms to both."""
PROCESS_RUN: Final = "https://w3id.org/ro/wfrun/process/0.5"
_FORMATS: Final = {
    ".json": "application/json", ".md": "text/markdown", ".html": "text/html", ".nq": "application/n-quads",
    ".py": "text/x-python", ".txt": "text/plain", ".proof": "application/json", ".checkpoint": "text/plain",
    ".note": "text/plain", ".tsr": "application/timestamp-reply",
}  # fmt: skip
_RIGHTS: Final = "#rights"
_TRAILS: Final = "#trails"
Entity = dict[str, Any]


def run_crate(repository: Repository, report: Report, names: Sequence[str]) -> bytes:
    """Return `ro-crate-metadata.json` of a pack with the files of these names; equal reports and stores give equal bytes."""
    entities: dict[str, Entity] = {}
    actions = []
    for session_id, _, _ in report.sessions:
        for entity in _session_entities(repository, session_id):
            entities.setdefault(entity["@id"], entity)
            if entity["@type"] == "CreateAction":
                actions.append(entity["@id"])
    files = [_file(name) for name in sorted(names)]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": "Audit of the whole store" if report.subject is None else f"Audit of the session {report.subject}",
        "description": f"Agent sessions, their proofs and an audit report of {report.time}, made by Trails {report.version}",
        "datePublished": report.time,
        "license": _ref(_RIGHTS),
        "conformsTo": _ref(PROCESS_RUN),
        "hasPart": [_ref(each["@id"]) for each in files],
        "mentions": [_ref(each) for each in actions],
    }
    graph = [
        {
            "@id": CRATE,
            "@type": "CreativeWork",
            "conformsTo": [_ref(RO_CRATE), _ref(RO_CRATE_BASE)],
            "about": _ref("./"),
        },
        root,
        {"@id": PROCESS_RUN, "@type": ["CreativeWork", "Profile"], "name": "Process Run Crate", "version": "0.5"},
        {"@id": EXPORT, "@type": "CreativeWork", "name": "The Trails ontology"},
        {
            "@id": _RIGHTS,
            "@type": "CreativeWork",
            "name": "No licence",
            "description": "No licence is granted. Ask whoever gave you the pack.",
        },
        _software(_TRAILS, "Trails", version=trails.__version__, url="https://w3id.org/trails"),
        *files,
        *entities.values(),
    ]
    return (
        json.dumps({"@context": f"{RO_CRATE}/context", "@graph": graph}, ensure_ascii=False, indent=1) + "\n"
    ).encode()


def _ref(name: str) -> Entity:
    return {"@id": name}


def _file(name: str) -> Entity:
    ending = f".{name.rpartition('.')[2]}"
    entity: Entity = {"@id": name, "@type": "File", "name": name, "encodingFormat": _FORMATS[ending]}
    if name == "records.nq":
        entity["conformsTo"] = _ref(EXPORT)
    return entity


def _software(name: str, label: str, *, version: str | None = None, url: str | None = None) -> Entity:
    """Return a model, an agent or a tool. RO-Crate 1.2 demands an address and a version, which sessions often do not record."""
    told = {"version": version or "not recorded", "url": url or name}
    return {"@id": name, "@type": "SoftwareApplication", "name": label, **told}


# --- sessions


def _session_entities(repository: Repository, session_id: str) -> Iterator[Entity]:
    """Yield what a crate says of a session: itself, who wrote in it, its own turns, and the calls that made these."""
    record = repository.record(session_id)
    session: Entity = {
        "@id": iris.session(session_id),
        "@type": "CreativeWork",
        "name": record.label or session_id,
        "identifier": session_id,
        "isPartOf": _ref("records.nq"),
    }
    if record.created is not None:
        session["dateCreated"] = record.created.isoformat()
    if record.parent_session_id is not None:
        session["isBasedOn"] = _ref(iris.session(record.parent_session_id))
    try:
        turns = repository.load(session_id).turns
    except TrailsError as error:  # the report names what is wrong
        yield {**session, "description": f"Its turns cannot be read: {error}"}
        return
    yield session
    calls: dict[str, tuple[Turn, ToolCall]] = {}
    before: Turn | None = None
    for turn in turns:
        if turn.index >= record.starts_at:
            yield from _turn_entities(turn, before, calls)
        calls |= {call.id: (turn, call) for call in turn.tool_calls}
        before = turn


def _turn_entities(turn: Turn, before: Turn | None, calls: Mapping[str, tuple[Turn, ToolCall]]) -> Iterator[Entity]:
    author = _author(turn.author_iri)
    yield author
    yield {
        "@id": turn.iri,
        "@type": "CreativeWork",
        "name": f"turn {turn.index} of {turn.session_id}",
        "position": turn.index,
        "identifier": turn.digest,
        "additionalType": turn.role,
        "author": _ref(author["@id"]),
        "isPartOf": _ref(iris.session(turn.session_id)),
        **({} if turn.time is None else {"dateCreated": turn.time.isoformat()}),
    }
    if turn.model is not None or turn.role == "assistant":
        yield from _model_call(turn, before)
    for number, result in enumerate(turn.tool_results):
        if result.call_id in calls:
            yield from _tool_call(turn, number, result, *calls[result.call_id])


def _author(iri: str) -> Entity:
    name = iris.author_name(iri)
    return (
        _software(iri, name)
        if iris.is_agent(iri) or iris.is_tool(iri)
        else {"@id": iri, "@type": "Person", "name": name}
    )


def _model_call(turn: Turn, before: Turn | None) -> Iterator[Entity]:
    """Yield the call of a model that generated a turn. A model that is not named is the agent that wrote the turn."""
    call = turn.call
    if turn.model is None:
        instrument = _software(turn.author_iri, turn.author)
    else:
        instrument = _software(f"#model/{quote(turn.model, safe='')}", turn.model, url=f"{EXPORT}model")
        yield instrument
    ended = turn.time if call is None or call.ended is None else call.ended
    action = _action(
        iris.model_call(turn.iri), f"model call of turn {turn.index} of {turn.session_id}", instrument, turn
    )
    if before is not None:
        action["object"] = _ref(before.iri)
    yield (
        action
        | _times(None if call is None else call.started, ended)
        | _status(failed=turn.is_cut, why=turn.stop_reason)
    )


def _tool_call(turn: Turn, number: int, result: ToolResult, asking: Turn, call: ToolCall) -> Iterator[Entity]:
    instrument = _software(iris.tool(call.name, result.server, result.version), call.name, version=result.version)
    yield instrument
    name = f"tool call {call.id} of turn {asking.index} of {asking.session_id}"
    action = _action(iris.tool_result(turn.iri, number), name, instrument, turn)
    action |= {"agent": _ref(asking.author_iri), "object": _ref(asking.iri)}
    if result.approved_by or result.refused_by:
        action["description"] = (
            f"approved by {result.approved_by}" if result.approved_by else f"refused by {result.refused_by}"
        )
    ended = result.ended or turn.time
    yield action | _times(result.started, ended) | _status(failed=result.is_error, why=result.outcome)


def _action(name: str, label: str, instrument: Entity, result: Turn) -> Entity:
    return {
        "@id": name,
        "@type": "CreateAction",
        "name": label,
        "instrument": _ref(instrument["@id"]),
        "agent": _ref(result.author_iri),
        "result": _ref(result.iri),
    }


def _times(started: datetime | None, ended: datetime | None) -> Entity:
    told = {"startTime": started, "endTime": ended}
    return {name: time.isoformat() for name, time in told.items() if time is not None}


def _status(*, failed: bool, why: str | None) -> Entity:
    status = f"http://schema.org/{'Failed' if failed else 'Completed'}ActionStatus"
    return {"actionStatus": _ref(status), **({"error": why or "it failed"} if failed else {})}
