"""Describe a pack as an RO-Crate 1.2 by profiles of the Workflow Run Crate collection, version 0.5.

A model call is a `CreateAction` whose instrument is the model, a tool call one whose instrument is the tool, both as
`SoftwareApplication`: Process Run Crate. Where sessions had system prompts, `agents.json` has these, and is the workflow by which
each such session ran: Workflow Run Crate and Workflow RO-Crate. Without one no workflow was there before the session ran, and
these profiles are not claimed. Provenance Run Crate asks for the steps of a workflow, which instructions to a model do not have.

The crate holds no text of a turn: `records.nq` has them, and the crate names their IRIs and digests. Sources:
https://www.researchobject.org/ro-crate/specification/1.2, https://w3id.org/ro/wfrun/process/0.5,
https://w3id.org/ro/wfrun/workflow/0.5 and https://w3id.org/workflowhub/workflow-ro-crate/1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import trails
from trails.audit.agent_definitions import AGENTS
from trails.audit.report import Report
from trails.errors import TrailsError
from trails.model import iris
from trails.model.values import SessionRecord, ToolCall, ToolResult, Turn
from trails.provenance.crate_reader import CRATE, EXPORT
from trails.session import Repository

RO_CRATE: Final = "https://w3id.org/ro/crate/1.2"
RO_CRATE_BASE: Final = "https://w3id.org/ro/crate/1.1"
"""The version that Process Run Crate 0.5 builds on. The crate conforms to both."""
PROCESS_RUN: Final = "https://w3id.org/ro/wfrun/process/0.5"
WORKFLOW_RUN: Final = "https://w3id.org/ro/wfrun/workflow/0.5"
WORKFLOW: Final = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
_PROFILES: Final = {
    PROCESS_RUN: ("Process Run Crate", "0.5"),
    WORKFLOW_RUN: ("Workflow Run Crate", "0.5"),
    WORKFLOW: ("Workflow RO-Crate", "1.0"),
}
_FORMATS: Final = {
    ".json": "application/json", ".md": "text/markdown", ".html": "text/html", ".nq": "application/n-quads",
    ".py": "text/x-python", ".txt": "text/plain", ".proof": "application/json", ".checkpoint": "text/plain",
    ".note": "text/plain", ".tsr": "application/timestamp-reply",
}  # fmt: skip
_DESCRIPTIONS: Final = {
    "report.json": "The audit report, for programs",
    "report.md": "The audit report, as text",
    "report.html": "The audit report, as a page",
    "records.nq": "The sessions, exactly, with the texts of their turns",
    "provenance.json": "The sessions as W3C PROV, in PROV-JSON",
    AGENTS: "The system prompts of the sessions, which were there before the turns that were made under them",
    "verify_export.py": "A program that checks the pack with the log's public key and Python 3.9 alone",
    "README.txt": "What each file of the pack is",
    "kept.checkpoint": "The signed state of the log that the store was held against",
    "kept.checkpoint.tsr": "A time-stamp token over that state, RFC 3161",
    "report.checkpoint": "The signed state of the log that vouches for the report",
    "growth.proof": "The proof that the log only grew between the two states",
    "manifest.json": "The SHA-256 of each file, as an in-toto statement",
    "manifest.note": "The SHA-256 of the manifest, signed by the log",
}
_PROOF: Final = "The proof that the last turn of a session was in the log"
_RIGHTS: Final = "#rights"
_INSTRUCTIONS: Final = "#instructions"
_TRAILS: Final = "#trails"
Entity = dict[str, Any]


def run_crate(repository: Repository, report: Report, files: Mapping[str, bytes], later: Sequence[str]) -> bytes:
    """Return `ro-crate-metadata.json` of a pack; equal reports and stores give equal bytes.

    `later` are the names of files that are made after it, since they hold its digest.
    """
    entities: dict[str, Entity] = {}
    actions = []
    for session_id, _, _ in report.sessions:
        for entity in _session_entities(repository, session_id, has_agents=AGENTS in files):
            entities.setdefault(entity["@id"], entity)
            if entity["@type"] == "CreateAction":
                actions.append(entity["@id"])
    parts = {name: _file(name, files.get(name)) for name in sorted([*files, *later])}
    runs = any(entity.get("instrument") == _ref(AGENTS) for entity in entities.values())
    profiles = [*_PROFILES] if runs else [PROCESS_RUN]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": "Audit of the whole store" if report.subject is None else f"Audit of the session {report.subject}",
        "description": f"Agent sessions, their proofs and an audit report of {report.time}, made by Trails {report.version}",
        "datePublished": report.time,
        "license": _ref(_RIGHTS),
        "conformsTo": [_ref(each) for each in profiles] if runs else _ref(PROCESS_RUN),
        "hasPart": [_ref(each) for each in parts],
        "mentions": [_ref(each) for each in (_TRAILS, *dict.fromkeys(actions))],
    }
    graph: list[Entity] = [
        {
            "@id": CRATE,
            "@type": "CreativeWork",
            "conformsTo": [_ref(each) for each in (RO_CRATE, RO_CRATE_BASE, *([WORKFLOW] if runs else []))],
            "about": _ref("./"),
        },
        root,
        *(_profile(each) for each in profiles),
        {"@id": EXPORT, "@type": "CreativeWork", "name": "The Trails ontology"},
        {
            "@id": _RIGHTS,
            "@type": "CreativeWork",
            "name": "No licence",
            "description": "No licence is granted. Ask whoever gave you the pack.",
        },
        _software(_TRAILS, "Trails", version=trails.__version__, url="https://w3id.org/trails"),
        *parts.values(),
        *entities.values(),
    ]
    if runs:
        root["mainEntity"] = _ref(AGENTS)
        parts[AGENTS]["@type"] = ["File", "SoftwareSourceCode", "ComputationalWorkflow"]
        parts[AGENTS]["programmingLanguage"] = _ref(_INSTRUCTIONS)
        language = _software(_INSTRUCTIONS, "Instructions to a language model", url=f"{EXPORT}SystemPrompt")
        graph.append(language | {"@type": "ComputerLanguage"})
    return (
        json.dumps({"@context": f"{RO_CRATE}/context", "@graph": graph}, ensure_ascii=False, indent=1) + "\n"
    ).encode()


def _profile(iri: str) -> Entity:
    name, version = _PROFILES[iri]
    return {"@id": iri, "@type": ["CreativeWork", "Profile"], "name": name, "version": version}


def _ref(name: str) -> Entity:
    return {"@id": name}


def _file(name: str, data: bytes | None) -> Entity:
    ending = f".{name.rpartition('.')[2]}"
    entity: Entity = {"@id": name, "@type": "File", "name": name, "encodingFormat": _FORMATS[ending]}
    entity["description"] = _PROOF if name.startswith("proofs/") else _DESCRIPTIONS[name]
    if data is not None:
        entity["contentSize"] = str(len(data))
    if name == "records.nq":
        entity["conformsTo"] = _ref(EXPORT)
    return entity


def _software(name: str, label: str, *, version: str | None = None, url: str | None = None) -> Entity:
    """Return a model, an agent or a tool. RO-Crate 1.2 demands an address and a version, which sessions often do not record."""
    told = {"version": version or "not recorded", "url": url or name}
    return {"@id": name, "@type": "SoftwareApplication", "name": label, **told}


# --- sessions


def _session_entities(repository: Repository, session_id: str, *, has_agents: bool) -> Iterator[Entity]:
    """Yield what a crate says of a session: itself, who wrote in it, its own turns, and what made these."""
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
        loaded = repository.load(session_id)
        turns = loaded.turns
        answered = max((each.index for each in turns if each.role == "assistant"), default=-1)
        ran = has_agents and answered >= record.starts_at and loaded.worktree.prompt_at(answered) is not None
    except TrailsError as error:  # the report names what is wrong
        yield {**session, "description": f"Its turns cannot be read: {error}"}
        return
    yield session
    if ran:
        yield from _run(record, turns)
    calls: dict[str, tuple[Turn, ToolCall]] = {}
    before: Turn | None = None
    for turn in turns:
        if turn.index >= record.starts_at:
            yield from _turn_entities(turn, before, calls)
        calls |= {call.id: (turn, call) for call in turn.tool_calls}
        before = turn


def _run(record: SessionRecord, turns: Sequence[Turn]) -> Iterator[Entity]:
    """Yield that a session ran by the instructions that its agent had, and for whom."""
    principal = iris.principal(record.principal)
    yield _author(principal)
    yield {
        "@id": f"#run/{quote(record.id, safe='')}",
        "@type": "CreateAction",
        "name": f"run of {record.id}",
        "description": f"The agent {record.agent} answered in the session {record.id} by the system prompts in {AGENTS}",
        "instrument": _ref(AGENTS),
        "agent": _ref(principal),
        "result": _ref(record.iri),
    } | _times(record.created, turns[-1].time)


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
    name = f"model call of turn {turn.index} of {turn.session_id}"
    said = f"{instrument['name']} answered as turn {turn.index} of the session {turn.session_id}"
    action = _action(iris.model_call(turn.iri), name, instrument, turn) | {"description": said}
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
    said = f"{call.name} answered turn {asking.index} of the session {asking.session_id}"
    said += f", approved by {result.approved_by}" if result.approved_by else ""
    said += f", refused by {result.refused_by}" if result.refused_by else ""
    action |= {"agent": _ref(asking.author_iri), "object": _ref(asking.iri), "description": said}
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
    return {"actionStatus": status, **({"error": why or "it failed"} if failed else {})}
