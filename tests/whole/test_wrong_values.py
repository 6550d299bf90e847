"""Every parameter of every public function gets values of a wrong type: the answer is an error of Trails, or none."""

from __future__ import annotations

import gc
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from pkgutil import walk_packages
from types import FunctionType
from typing import Any

import pytest

import trails
from trails import Repository, TrailsError
from trails.display.tables import Tabular
from trails.handles import Handle

WRONG: tuple[object, ...] = (None, -1, 3.5, [], object())
FUNCTIONS = {
    "trails": "open push pull rerun rerun_many",
    "trails.exchange.file_import": "import_path import_bytes export_session",
    "trails.exchange.exporters.parquet_export": "export_tables",
    "trails.exchange.exporters.html_folder": "export_pages",
    "trails.exchange.openclaw.openclaw_export": "export_folder",
    "trails.exchange.remotes.store_copy": "copy_store",
    "trails.exchange.remotes.mirror": "Mirror",
    "trails.audit": "audit find_near_copies",
    "trails.provenance": "validate export delete_document document_bytes documents import_document read_document",
    "trails.policy": "",
    "trails.keys": "",
}
"""The functions that the guide shows, by their module; an empty text stands for all that a module offers."""
HANDLES: dict[str, Callable[[Repository], Any]] = {
    "Repository": lambda store: store,
    "Session": lambda store: store.load("plan"),
    "Tags": lambda store: store.tags,
    "Notes": lambda store: store.notes,
    "Refs": lambda store: store.refs,
    "Registers": lambda store: store.registers,
    "Holds": lambda store: store.holds,
    "WorkFiles": lambda store: store.load("plan").files,
    "Retention": lambda store: store.retention,
    "Checkout": lambda store: store.checkout("main", create=True),
    "Batch": lambda store: store.commit(),
    "Maintenance": lambda store: store.maintenance,
    "Proofs": lambda store: store.proofs,
    "Ledger": trails.Ledger,
    "Router": trails.Router,
    "Runs": trails.Runs,
    "Tree": trails.Tree,
    "Comparison": lambda store: store.compare("plan"),
    "Diff": lambda store: store.diff("plan", "fork"),
    "Page": lambda store: store.list(),
    "Forest": lambda store: store.forest(),
    "Statistics": lambda store: store.stats(),
    "Scores": lambda store: store.scores(),
    "Context": lambda store: store.context("plan"),
    "Solutions": lambda store: store.select("SELECT ?s { ?s ?p ?o } LIMIT 3"),
}
NOT_WALKED = {"Node", "Running", "Playing", "Player", "View", "Mirror"}
"""Handles that only a tree, a queue, a rerun, a key or a server gives. They are checked by the same code as all others."""
GIVEN = {
    "session": "plan", "sessions": ["plan"], "ref": "plan@1", "a": "plan", "b": "fork", "fork": "fork", "source": "fork",
    "other": "fork", "role": "user", "content": "hello", "query": "SELECT ?s { ?s ?p ?o } LIMIT 1", "index": 1, "by": "bob",
    "value": 1.0, "turns": [1], "config": {}, "limit": 3, "data": b"{}", "location": ":memory:", "meta": {"a": 1},
    "message": {"role": "user", "content": "hello"},
}  # fmt: skip


@pytest.fixture
def filled(memory: Repository) -> Repository:
    plan = memory.create(id="plan", label="trip")
    for number in range(3):
        plan.append("user", f"question {number}")
        plan.append("assistant", "answer", model="m-1", usage={"input_tokens": 3, "cost": 0.1})
    plan.persist()
    for name in ("fork", "other"):
        fork = plan.fork(2, id=name)
        fork.append("user", name)
        fork.persist()
        memory.score(name, "ok", 1.0, by="bob")
    memory.tags.add("v1", "plan@2")
    memory.notes.add("plan", 1, "hm", by="bob")
    return memory


def public_methods(kind: type) -> Iterator[str]:
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        is_ours = isinstance(member, FunctionType) and member.__module__.startswith("trails.")
        if is_ours and not name.startswith("_") and name not in vars(kind).get("__dataclass_fields__", ()):
            yield name


def functions() -> Iterator[tuple[str, str]]:
    for module, names in FUNCTIONS.items():
        offered = vars(importlib.import_module(module))
        every = [name for name, value in offered.items() if isinstance(value, FunctionType) and name[0] != "_"]
        for name in names.split() or every:
            yield module, name


def calls(function: Callable[..., Any], given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each call of a function in which one parameter has a wrong value, and the others, if they are needed, a right one."""
    parameters = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    needed = {each.name: given.get(each.name, "x") for each in parameters if each.default is each.empty}
    for parameter in parameters:
        for value in WRONG:
            yield f"{parameter.name}={value!r}", needed | {parameter.name: value}


def failures(function: Callable[..., Any], given: dict[str, Any], store: Repository) -> list[str]:
    """Return the calls with a wrong value that end in an error that is not one of Trails, or in one after a commit."""
    by_place = [
        each.name for each in inspect.signature(function).parameters.values() if each.kind is each.POSITIONAL_ONLY
    ]
    found = []
    for what, arguments in calls(function, given):
        before = store.store.number
        try:
            result = function(*[arguments.pop(name) for name in by_place], **arguments)
            if isinstance(result, Repository):
                result.close()
        except TrailsError as error:
            if store.store.number != before:
                found.append(f"{what}: {error!r}, and something was written")
        except Exception as error:  # noqa: BLE001 - which these are is the result
            found.append(f"{what}: {error!r}")
    return found


@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning", "ignore:.*never awaited")
@pytest.mark.parametrize("name", HANDLES)
@pytest.mark.sample(1)
def test_a_wrong_value_for_a_handle_is_refused(
    filled: Repository, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = GIVEN | dict.fromkeys(("program", "agent", "scorer", "handler", "call", "summarise"), lambda *_: "x")
    found = {}
    for method in public_methods(type(HANDLES[name](filled))):
        if method != "close":
            found[method] = failures(getattr(HANDLES[name](filled), method), given, filled)
    assert {method: wrong for method, wrong in found.items() if wrong} == {}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a mirror's socket that takes no such timeout
@pytest.mark.parametrize(("module", "name"), list(functions()))
@pytest.mark.sample(3)
def test_a_wrong_value_for_a_function_is_refused(
    filled: Repository, module: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = GIVEN | dict.fromkeys(("store", "repository", "there", "target"), filled)
    given |= {"agent": lambda _: None, "url": "http://127.0.0.1:9/"}
    if name.startswith("rerun"):
        given["session"] = filled.load("plan")
    assert failures(getattr(importlib.import_module(module), name), given, filled) == []
    gc.collect()  # while the warning of that socket is ignored


def test_every_handle_and_every_table_is_walked_or_named() -> None:
    for module in walk_packages(trails.__path__, "trails."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    every = {
        kind
        for base in (Handle, Tabular)
        for kind in base.__subclasses__()
        if kind.__module__.startswith("trails.") and kind.__module__ != "trails.aio.handles"
    }
    named = {
        kind.__name__ for kind in every if hasattr(vars(kind).get("__init__"), "is_checked") or Tabular in kind.__mro__
    }
    assert named - NOT_WALKED - set(HANDLES) == {
        "Agreement",
        "Alignment",
        "ArmTest",
        "NoiseFloor",
        "PlainTable",
        "Scoring",
        "Triples",
        "Withholding",
    }  # made by these


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("store.verify(verifiers=None)", r"verify\(\): 'verifiers' must be Iterable\[str\], not None"),
        ("store.compare('plan').arranged(columns=-1)", r"'columns' must be str \| Sequence\[str\] \| None, not -1"),
        ("store.list().to_pandas(misspelt=1)", r"to_pandas\(\) has no parameter 'misspelt'"),
        ("trails.Router(store).route(None)", "'inbound' must be Inbound, not None"),
        ("store.load('plan').compact(lambda _: 'x', keep=-1)", "'keep' must be Callable"),
        ("trails.policy.single_spaced(3)", "'text' must be str, not 3"),
    ],
)
def test_the_error_names_the_parameter_and_its_type(filled: Repository, call: str, says: str) -> None:
    with pytest.raises(trails.InvalidInput, match=says):
        eval(call, {"store": filled, "trails": trails})  # noqa: S307 - the calls above
