"""Import paths that the guide of version 0.1 showed: they still work, and lead to where the names are now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

PATHS: Final[dict[str, dict[str, str]]] = {
    "trails.diff": {"": "trails.compare"},
    "trails.keys": {"": "trails.runtime.keys"},
    "trails.moving": {},
    "trails.moving.copying": {"copy": "trails.exchange.remotes.store_copy:copy_store"},
    "trails.moving.origins": {"origins": "trails.exchange.remotes.push_plan:read_origins"},
    "trails.policy": {"": "trails.runtime.policy"},
    "trails.prov": {"": "trails.provenance"},
    "trails.ticking": {"": "trails.runtime.timer"},
    "trails.transcripts": {},
    "trails.transcripts.exporting": {},
    "trails.transcripts.exporting.parquet": {"": "trails.exchange.exporters.parquet_export"},
    "trails.transcripts.formats": {"": "trails.exchange.file_import"},
    "trails.transcripts.openclaw": {},
    "trails.transcripts.openclaw.export": {"": "trails.exchange.openclaw.openclaw_export"},
    "trails.vocab": {"": "trails.rdf.vocab"},
}
"""For each former module, where its names are: of one name `module:name`, of all others a module under the empty name."""


class FormerPaths(MetaPathFinder, Loader):
    """Finds the former modules. Each is empty and looks its names up when they are asked for."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Return a spec for a former module, and None for every other one."""
        return ModuleSpec(name, self, is_package=True) if name in PATHS else None

    def exec_module(self, module: ModuleType) -> None:
        """Let a former module ask the present one for its names."""
        names = PATHS[module.__name__]

        def lookup(name: str) -> Any:
            home, _, attribute = names.get(name, f"{names.get('', '')}:{name}").partition(":")
            if not home or name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return getattr(import_module(home), attribute)

        vars(module)["__getattr__"] = lookup


def install() -> None:
    """Let Python find the former modules, before any folder of that name that an upgrade left behind."""
    sys.meta_path.insert(0, FormerPaths())
