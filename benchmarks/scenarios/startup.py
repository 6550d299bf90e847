"""Starting: fresh processes that import the package, open a store, or print the command line's help."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed

_BARE = "python that does nothing"
_IMPORT = "import trails"
_HELP = "trails --help"
_COMMANDS = {
    _BARE: ["-c", "pass"],
    _IMPORT: ["-c", "import trails"],
    "import trails, and open in memory": ["-c", "import trails; trails.open(':memory:').close()"],
    _HELP: ["-m", "trails", "--help"],
}


def run(setting: Setting) -> list[Result]:
    """Measure whole processes, interpreter included."""
    contestants = [Contestant(name, _process(arguments)) for name, arguments in _COMMANDS.items()]
    seconds = medians(contestants, setting.size.starts)
    return [
        Result(
            name="startup",
            title="fresh processes",
            baseline=_BARE,
            medians=seconds,
            targets=[
                Target("import trails, a whole process", seconds[_IMPORT] * 1000, 150, "ms"),
                Target("trails --help, a whole process", seconds[_HELP] * 1000, 300, "ms"),
            ],
        )
    ]


def _process(arguments: list[str]) -> Callable[[], float]:
    command = [sys.executable, *arguments]
    return lambda: timed(lambda: subprocess.run(command, check=True, capture_output=True))
