"""Git for agent sessions, kept as a knowledge graph.

>>> import trails
>>> with trails.open(":memory:") as store:
...     s = store.create(principal="alice", agent="planner")
...     _ = s.append("user", "Plan a trip")
...     _ = s.append("assistant", "Where to?")
...     f = s.fork(at=1)
...     _ = f.append("assistant", "By train?")
...     (s.persist(), f.persist(), [turn.content for turn in store.load(f.id).turns])
(0, 1, ['Plan a trip', 'By train?'])
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trails import former_paths

__version__ = "0.2.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_MODULES = {
    "aio": "trails.aio",
    "diff": "trails.compare",
    "keys": "trails.runtime.keys",
    "policy": "trails.runtime.policy",
    "prov": "trails.provenance",
    "vocab": "trails.rdf.vocab",
}
"""The modules of functions that the guide names: there after `import trails`, too, and loaded when they are asked for."""
_HOMES = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as", _STUB, re.MULTILINE)}
"""Of each public name, the module that it comes from."""
__all__ = sorted(_HOMES.keys() - _MODULES)  # noqa: PLE0605 - `__init__.pyi` has it for type checkers

former_paths.install()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import trails` and the command line's help stay quick."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise _no_such_name(name)
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


_INSTEAD = {
    "Store": "trails.open(...) gives a store, a trails.Repository",
    "Client": "trails.open(...) gives a store, a trails.Repository",
    "Database": "trails.open(...) gives a store, a trails.Repository",
    "Trails": "trails.open(...) gives a store, a trails.Repository",
    "connect": "trails.open(...) gives a store, a trails.Repository",
    "create": "trails.open(path, create=True) makes a store, store.create() a session",
    "init": "trails.open(path, create=True) makes a store",
    "load": "store.load(id) gives a session, with store = trails.open(path)",
    "session": "store.create() makes a session, store.load(id) gives one, with store = trails.open(path)",
    "list": "store.list() gives the sessions, with store = trails.open(path)",
    "query": "store.query(...) asks a store, with store = trails.open(path)",
    "Message": "session.append(role, content) gives a trails.Turn",
    "AsyncStore": "trails.aio.open(...) opens a store in an event loop",
    "aopen": "trails.aio.open(...) opens a store in an event loop",
    "clone": "trails.push(store, sessions, other) copies sessions to another store, trails.pull from one",
    "start_run": "store.session(id) begins a session or goes on with it, with store = trails.open(path)",
    "read_sql": "store.select(query) asks a store in SPARQL, and its to_pandas() gives a data frame",
    "set_tracking_uri": "trails.open(path) opens a store, and all else is its methods",
}
"""What people look for in the package, and how it is had."""


def _no_such_name(name: str) -> AttributeError:
    """Return the error for a name that the package does not have, and that says what was probably meant."""
    if name.startswith("_"):
        return AttributeError(f"module 'trails' has no attribute {name!r}")
    from trails.errors import NoSuchName  # noqa: PLC0415 - `import trails` stays quick
    from trails.suggestions import did_you_mean  # noqa: PLC0415

    hint = f": {_INSTEAD[name]}" if name in _INSTEAD else _on_a_handle(name)
    hint = hint or did_you_mean(name, [*__all__, *_MODULES])
    hint = hint or ": trails.open(path) opens a store, and `trails guide python` says what it does"
    return NoSuchName(f"trails has no {name!r}{hint}")


_DONE_BY: Final = {
    **dict.fromkeys(
        [
            "ask",
            "branches",
            "checkout",
            "commit",
            "compare",
            "context",
            "cost",
            "delete",
            "redact",
            "replay",
            "search",
            "select",
            "stats",
        ],
        "store",
    ),
    **dict.fromkeys(["append", "append_message", "cherry_pick", "compact", "fork", "persist", "turns"], "session"),
}
"""What is looked for in the package and done by a handle; not asked of the handle itself, which loads half the package."""


def _on_a_handle(name: str) -> str:
    """Say which handle has a name that the package does not have; nothing where none is known to."""
    return f": write {_DONE_BY[name]}.{name}, with store = trails.open(path)" if name in _DONE_BY else ""


def __dir__() -> list[str]:
    """Return the public names, whether or not they were used yet."""
    return sorted(__all__)
