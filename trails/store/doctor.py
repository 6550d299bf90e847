"""What is wrong with this machine or with a store, and what to do about it.

It can be asked while the store is open elsewhere: the engine is then left alone, and its LOCK file always is (closing
it would free the lock of the process that holds it).
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from trails.errors import StoreFailed, StoreLocked
from trails.files import as_path, in_words
from trails.integrity import leaves
from trails.store import capture, commitlog, maintenance, marker, staging
from trails.store.lockfile import describe_holder, unlocked

_FILES: Final = 1024
"""Files that a process should be able to open: the engine keeps all of a store's files open."""
_FREE_BYTES: Final = 500 * 1024 * 1024
_FREE_SHARE: Final = 0.05
_ENGINE: Final = ((0, 5, 13), (0, 6))
"""The versions of the engine that this package was tested with: from, and up to but not including."""

_EXTRAS: Final = {
    "checkpoint": "cryptography",
    "timestamps": "rfc3161_client",
    "pandas": "pandas",
    "arrow": "pyarrow",
    "plot": "matplotlib",
    "shacl": "pyshacl",
    "aio": "anyio",
    "stats": "scipy",
    "postgres": "psycopg",
