"""Every public method of a handle has an await form: nothing is forgotten where a handle grows."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.support import async_types
from trails import Ledger, Playing, Repository, Router, Runs, Session, Tree, aio
from trails.runtime.message_exchanges import Running
from trails.runtime.routing.access_rules import View
from trails.runtime.tree_node import Node
from trails.session.holds import Holds
from trails.session.maintenance import Maintenance
from trails.session.proofs import Proofs
from trails.session.registers import Registers
from trails.session.retention import Retention
from trails.session.tags_notes import Notes, Tags
from trails.session.work_files import WorkFiles

TWINS: dict[type, type] = {
    Repository: aio.AsyncRepository,
    Session: aio.AsyncSession,
    Ledger: aio.AsyncLedger,
    Running: aio.AsyncRunning,
    Tree: aio.AsyncTree,
    Node: aio.AsyncNode,
    Runs: aio.AsyncRuns,
    Router: aio.AsyncRouter,
    View: aio.AsyncView,
    Tags: aio.AsyncTags,
    Notes: aio.AsyncNotes,
    Registers: aio.AsyncRegisters,
    Holds: aio.AsyncHolds,
    WorkFiles: aio.AsyncWorkFiles,
    Retention: aio.AsyncRetention,
    Maintenance: aio.AsyncMaintenance,
    Proofs: aio.AsyncProofs,
    Playing: aio.AsyncPlaying,
}
EXEMPT = {
    "Repository.store": "the quads below, internal",
    "Repository.sync": "the synchronous handle has that name here: `refresh` is the same",
    "Repository.graph": "rdflib reads while it is iterated: `store.run` is for what is done with a view",
    "Running.begin": "the ledger's own",
    "Running.complete": "the ledger's own",
    "Running.fail": "the ledger's own",
    **dict.fromkeys(
        (
            f"Playing.{name}"
            for name in ("refuse_early", "give_up", "end", "begin_model", "end_model", "begin_tool", "end_tool")
        ),
        "the rerun's own",
    ),
    "Repository.__len__": "it reads the store: `info` counts",
    "Repository.__iter__": "it reads the store: `list` gives the pages",
    "Repository.__getitem__": "it reads the store: `load` is its await form",
    "Repository.__bool__": "a store is there in any case",
    "Tree.ticking": "a thread of its own already: `with tree.sync.ticking():`",
    "Runs.ticking": "a thread of its own already: `with runs.sync.ticking():`",
    "Tree.store": "the one that it was made with",
    "Runs.threads": "`work` has threads, and the event loop",
    "Runs.work_wide": "`work` is its await form",
}
SPECIAL = {"__len__", "__getitem__", "__iter__", "__bool__"}
"""What works in memory, and has to be there too."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} | (SPECIAL & vars(kind).keys())


@pytest.mark.parametrize("kind", TWINS)
def test_every_public_method_has_an_await_form(kind: type) -> None:
    missing = public(kind) - public(TWINS[kind])
    assert {f"{kind.__name__}.{name}" for name in missing} <= EXEMPT.keys()


def test_what_is_exempt_is_there_and_has_no_await_form() -> None:
    named = {f"{kind.__name__}.{name}": (kind, name) for kind in TWINS for name in public(kind)}
    for name in EXEMPT:
        kind, attribute = named[name]
        assert attribute not in public(TWINS[kind]), name


@pytest.mark.parametrize("kind", TWINS)
def test_an_await_form_has_the_parameters_and_the_text_of_what_it_awaits(kind: type) -> None:
    for name in public(kind) & public(TWINS[kind]):
        below, above = getattr(kind, name), getattr(TWINS[kind], name)
        if not callable(below) or name.startswith("_") or "as `" in (above.__doc__ or ""):
            continue  # one of a few that are written out, because they take handles
        if name not in {"close", "process", "work"}:
            assert names(above)[1:] == names(below)[1:], name
            assert above.__doc__ == below.__doc__, name


def names(method: Any) -> list[str]:
    return list(inspect.signature(method).parameters)


@pytest.mark.slow
def test_the_types_of_the_await_forms_are_those_of_the_handles() -> None:
    assert async_types.STUB.read_text("utf-8") == async_types.stub(), "run `python -m tests.support.async_types`"
