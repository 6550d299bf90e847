"""Encode the runs of sub-agents as quads of the catalog, and decode them.

The texts of a run (its task, why it failed, other fields) can be redacted: the log covers one salted digest of them, so that
everything still verifies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic.alias_generators import to_camel
from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Quad

from trails.errors import IntegrityError
from trails.integrity import digests, leaves
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Value
from trails.rdf import vocab as v
from trails.rdf.codec import AGENT, IRI, SESSION, Codec, Kept, Properties, Table

Cleanup = Literal["delete", "keep"]
"""What becomes of a sub-agent's session once its run is announced."""
RunStatus = Literal["ok", "error", "timeout", "unknown"]
"""How a run ended."""
SpawnMode = Literal["steered", "queued", "direct"]
"""How an announcement reached the session that asked for the run."""
RunState = Literal["running", "ended", "announcing", "done"]
"""Where a run stands: not ended; ended and not announced; being announced; announced."""

RUN_TEXTS: Final = (v.TASK, v.RUN_ERROR, v.RUN_EXTRA)
_LOOSE: Final = frozenset({*RUN_TEXTS, v.SALT, v.TASK_SALT})
_REGISTERED: Final = frozenset({v.RUN_ID, v.REGISTERED_AT, v.TASK_DIGEST})


_JSON: Final = Codec(lambda text: RdfLiteral(text, datatype=v.JSON))
_THREAD: Final = Codec(lambda thread: v.integer(thread) if isinstance(thread, int) else RdfLiteral(thread))


class RunOrigin(Value):
    """Where the request for a run came from: what an answer goes back to."""

    model_config = Value.model_config | {"alias_generator": to_camel, "populate_by_name": True}

    channel: Annotated[str | None, Kept(v.REQUESTER_CHANNEL)] = None
    to: Annotated[str | None, Kept(v.REQUESTER_RECIPIENT)] = None
    account_id: Annotated[str | None, Kept(v.REQUESTER_ACCOUNT)] = None
    thread_id: Annotated[str | int | None, Kept(v.REQUESTER_THREAD, _THREAD)] = None

    def to_json(self) -> dict[str, Any]:
        """Return it as in a record of a run."""
        return self.model_dump(by_alias=True, exclude_none=True)


class RunContent(Value):
    """What a run says in words; with `withheld`, only the salted digest of it."""

    task: Annotated[str | None, Kept(v.TASK)] = None
    error: Annotated[str | None, Kept(v.RUN_ERROR)] = None
    extra_json: Annotated[str | None, Kept(v.RUN_EXTRA, _JSON)] = None
    """Everything else that an imported record held, as JSON."""
    salt: Annotated[str | None, Kept(v.SALT)] = None
    digest: Annotated[str, Kept(v.DIGEST)]
    withheld: bool = False

    @classmethod
    def of(cls, task: str | None, error: str | None = None, extra_json: str | None = None) -> Self:
        """Return texts, salted."""
        salt = digests.new_salt()
        made = digests.content_digest(_joined(task, error, extra_json), salt, structured=True)
        return cls(task=task, error=error, extra_json=extra_json, salt=salt, digest=made)

    def with_error(self, error: str | None) -> RunContent:
        """Return them with an error beside the rest; once they were taken out, nothing is added."""
        return self if self.withheld else RunContent.of(self.task, error, self.extra_json)

    def gone(self) -> RunContent:
        """Return what stays when the texts go."""
        return RunContent(digest=self.digest, withheld=True)

    def is_true(self) -> bool:
        """Tell whether texts that are there have the digest that they should have."""
        if self.withheld:
            return True
        joined = _joined(self.task, self.error, self.extra_json)
        return self.digest == digests.content_digest(joined, self.salt or "", structured=True)


def _joined(*texts: str | None) -> str:
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


class Run(Value):
    """A sub-agent's run as the registry has it. Times are aware and cut to milliseconds."""

    run_id: Annotated[str, Kept(v.RUN_ID)]
    revision: Annotated[int, Kept(v.REVISION, required=True)] = 1
    child_session_key: Annotated[str | None, Kept(v.CHILD_KEY)] = None
    requester_session_key: Annotated[str | None, Kept(v.REQUESTER_KEY)] = None
    requester_display_key: Annotated[str | None, Kept(v.REQUESTER_DISPLAY_KEY)] = None
    requester_origin: RunOrigin = RunOrigin()
    said: RunContent
    cleanup: Annotated[Cleanup | None, Kept(v.CLEANUP)] = None
    label: Annotated[str | None, Kept(v.RUN_LABEL)] = None
    created: Annotated[datetime | None, Kept(v.REGISTERED_AT)] = None
    started: Annotated[datetime | None, Kept(v.STARTED_AT)] = None
    ended: Annotated[datetime | None, Kept(v.ENDED_AT)] = None
    outcome: Annotated[RunStatus | None, Kept(v.RUN_OUTCOME)] = None
    archive_at: Annotated[datetime | None, Kept(v.ARCHIVE_AT)] = None
    cleanup_completed: Annotated[datetime | None, Kept(v.CLEANUP_COMPLETED_AT)] = None
    cleanup_handled: Annotated[bool | None, Kept(v.CLEANUP_HANDLED)] = None
    agent: Annotated[str | None, Kept(v.ASSOCIATED_WITH, AGENT)] = None
    """The agent that runs it."""
    child_session: Annotated[str | None, Kept(v.GENERATED, SESSION)] = None
    """The id of the session that it runs in; None where only its key is known."""
    requester_session: Annotated[str | None, Kept(v.STARTED_BY, SESSION)] = None
    """The id of the session that asked for it, as it was then."""
    model: Annotated[str | None, Kept(v.RUN_MODEL)] = None
    thinking: Annotated[str | None, Kept(v.RUN_THINKING)] = None
    run_timeout_seconds: Annotated[int, Kept(v.RUN_TIMEOUT, when=lambda run: run.run_timeout_seconds != 0)] = 0
    """How long it may take; 0 for as long as it likes."""
    announced_as: Annotated[str | None, Kept(v.ANNOUNCED_AS, IRI)] = None
    """The IRI of the message in the requester's inbox that says how it ended."""
    announced_how: Annotated[SpawnMode | None, Kept(v.ANNOUNCED_HOW)] = None
    kept_because: Annotated[str | None, Kept(v.KEPT_BECAUSE)] = None
    """Why its session was kept although it was to be deleted."""
    task_salt: Annotated[str | None, Kept(v.TASK_SALT)] = None
    task_digest: Annotated[str | None, Kept(v.TASK_DIGEST)] = None
    """The salted digest of the task that it was registered with, which stays when the task goes. None before that."""
    leaf_salt: Annotated[str | None, Kept(v.LEAF_SALT)] = None
    """What salts its newest leaf, drawn anew with every change. None for one that an older version wrote last."""

    @property
    def iri(self) -> str:
        """The run's IRI."""
        return iris.run(iris.session(self.child_session or self.child_session_key or "unknown"), self.run_id)

    @property
    def task(self) -> str | None:
        """What it was asked to do; None once that was taken out."""
        return self.said.task

    def with_task_sealed(self) -> Run:
        """Return the run with the digest of its task, once and for all."""
        salt = digests.new_salt()
        made = digests.salted_digest("task", salt, self.task or "")
        return self.model_copy(update={"task_salt": None if self.said.withheld else salt, "task_digest": made})

    def salted_anew(self) -> Run:
        """Return the run with other random bits for its leaf: with the old ones goes what could be guessed of older leaves."""
        return self.model_copy(update={"leaf_salt": digests.new_salt()})

    def has_true_task(self) -> bool:
        """Tell whether a task that is there is the one that the run was registered with."""
        if self.said.withheld or self.task_digest is None:
            return self.task_salt is None
        return self.task_digest == digests.salted_digest("task", self.task_salt or "", self.task or "")

    @property
    def error(self) -> str | None:
        """Why it failed; None where it did not, or where that was taken out."""
        return self.said.error

    @property
    def extra(self) -> dict[str, Any]:
        """What else a record of it held (a fresh copy each time)."""
        return {} if self.said.extra_json is None else dict(json.loads(self.said.extra_json))

    @property
    def state(self) -> RunState:
        """Where it stands."""
        if self.cleanup_completed is not None:
            return "done"
        if self.cleanup_handled:
            return "announcing"
        return "running" if self.ended is None else "ended"

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"said", "requester_origin", "task_salt", "task_digest", "leaf_salt"}) | {
            "iri": self.iri,
            "state": self.state,
            "requester_origin": self.requester_origin.to_json(),
            "task": self.task,
            "error": self.error,
            "extra": self.extra,
            "withheld": self.said.withheld,
        }
        return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in plain.items()}


# --- taking out


def run_without_texts(run: Run) -> Run:
    """Return a run without what it says in words, whose digest stays."""
    return run.model_copy(update={"said": run.said.gone(), "task_salt": None})


def run_without_sessions(run: Run, *, child: bool, requester: bool) -> Run:
    """Return a run without all that people may have put there, where its own session is gone, or the requester's, or both.

    The IRI of a run without a session is made from its key, which therefore stays.
    """
    gone: dict[str, Any] = {"label": None}
    if child:
        gone |= {"model": None, "kept_because": None}
        if run.child_session is not None:
            gone["child_session_key"] = None
    if requester:
        origin = RunOrigin(channel=run.requester_origin.channel)
        gone |= {"requester_session_key": None, "requester_display_key": None, "requester_origin": origin}
    return run_without_texts(run).model_copy(update=gone)


# --- kept


_ORIGIN: Final = Table.of(RunOrigin)
_SAID: Final = Table.of(RunContent)
_RUN: Final = Table.of(Run, v.RUN, v.ACTIVITY)


# --- to quads


def run_quads(run: Run) -> list[Quad]:
    """Return the quads of a run, in the catalog."""
    node = NamedNode(run.iri)
    parts = ((_RUN, run), (_ORIGIN, run.requester_origin), (_SAID, run.said))
    quads = [quad for table, part in parts for quad in table.quads(part, node, v.CATALOG)]
    if run.said.withheld:
        quads.append(Quad(node, v.TASK, RdfLiteral("", datatype=v.REDACTED), v.CATALOG))
    return quads


def agent_quads(run: Run) -> list[Quad]:
    """Return the quad that says that a run's agent is one."""
    return [] if run.agent is None else [Quad(NamedNode(iris.agent(run.agent)), v.TYPE, v.AGENT, v.CATALOG)]


def run_row_digest(run: Run) -> str:
    """Return the digest of a run without its texts: what its newest leaf holds."""
    return leaves.row_digest(quad for quad in run_quads(run) if quad.predicate not in _LOOSE)


def run_leaf(run: Run) -> Leaf:
    """Return the leaf for a run as it stands."""
    return Leaf("run", run.iri, run.revision, run_row_digest(run))


def registration_digest(run: Run) -> str | None:
    """Return the digest of what a run was registered with; None for one that an older version registered."""
    if run.task_digest is None:
        return None
    return leaves.row_digest(quad for quad in run_quads(run) if quad.predicate in _REGISTERED)


def task_leaf(run: Run) -> Leaf:
    """Return the leaf for what a run is registered with, which never changes."""
    return Leaf("task", run.iri, 1, registration_digest(run) or "-")


# --- from quads


@decodes
def decode_runs(iri: str, found: Iterable[Quad]) -> Run:
    """Return the run that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    properties: dict[NamedNode, list[Any]] = {}
    for quad in found:
        properties.setdefault(quad.predicate, []).append(quad.object)
    try:
        return Run.model_validate(_values(properties))
    except (ValueError, IntegrityError) as error:
        raise IntegrityError(
            f"the run {iri} cannot be read ({error}): the store was altered; restore it from a backup"
        ) from error


def _values(properties: Properties) -> Mapping[str, Any]:
    fields, origin = _RUN.values(properties), _ORIGIN.values(properties)
    if "thread_id" in origin and getattr(properties[v.REQUESTER_THREAD][0], "datatype", None) == v.INTEGER:
        origin["thread_id"] = int(origin["thread_id"])
    texts = _SAID.values(properties)
    if any(getattr(each, "datatype", None) == v.REDACTED for each in properties.get(v.TASK, [])):
        texts = {"digest": texts["digest"], "withheld": True}
    return fields | {"requester_origin": RunOrigin(**origin), "said": RunContent(**texts)}
