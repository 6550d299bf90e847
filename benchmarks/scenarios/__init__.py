"""One module a scenario; each has `run(setting)`, which returns its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.harness import Result, Setting
from benchmarks.scenarios import (
    append,
    branches,
    compare,
    context,
    depth,
    diff,
    durable,
    event_loop,
    forks,
    imports,
    inspect_logs,
    ledger,
    listing,
    load,
    mirror,
    opening,
    page,
    postgres,
    prov,
    readers,
    rerun,
    scale,
    serve,
    space,
    startup,
    tree,
    verify,
)

SCENARIOS: Final[dict[str, Callable[[Setting], list[Result]]]] = {
    "append": append.run,
    "durable": durable.run,
    "opening": opening.run,
    "load": load.run,
    "imports": imports.run,
    "inspect": inspect_logs.run,
    "space": space.run,
    "forks": forks.run,
    "depth": depth.run,
    "branches": branches.run,
    "compare": compare.run,
    "listing": listing.run,
    "scale": scale.run,
    "readers": readers.run,
    "startup": startup.run,
    "diff": diff.run,
    "tree": tree.run,
    "context": context.run,
    "ledger": ledger.run,
    "rerun": rerun.run,
    "event-loop": event_loop.run,
    "serve": serve.run,
    "prov": prov.run,
    "verify": verify.run,
    "page": page.run,
    "postgres": postgres.run,
    "mirror": mirror.run,
}
"""Every scenario by the name that `--only` takes."""
