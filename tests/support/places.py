"""Where the tests find things: the sources beside them, the stored databases, the folder of shared cases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import trails

ROOT: Final = Path(__file__).resolve().parents[2]
"""The checkout, or the copy of it in which the wheel is tested."""

FORMATS: Final = Path(__file__).with_name("formats")
"""A stored database of every released format."""

SHARED: Final = Path(os.environ.get("TRAILS_SHARED") or ROOT.parent / "shared")
"""The independent cases and real transcripts; the fixture `shared` says so where they are missing."""

IMPORTED: Final = Path(trails.__file__).parents[1]
"""What a process that is started puts into its PYTHONPATH, so that it imports the package that is tested."""
