"""A PostgreSQL server of the tests' own: an unprivileged cluster in a temporary folder, behind a Unix socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

MISSING = "PostgreSQL is not installed: apt-get install postgresql (Debian), and pip install 'trails[postgres]'"
_USER = "postgres"


def programs() -> Path | None:
    """Return the folder with PostgreSQL's programs, None where it is not installed, or its driver is not."""
    try:
        import psycopg  # noqa: F401 - looked for
    except ImportError:
        return None
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    return found[-1].parent if found else None


@dataclass(frozen=True)
class Cluster:
    """A running server; `url(name)` is the address of a store in it."""

    programs: Path
    folder: Path

    def url(self, name: str) -> str:
        return f"postgresql:///postgres?host={self.folder}&user={_USER}&store={name}"

    def start(self) -> None:
        self._control("start", "-o", f"-k {self.folder} -c listen_addresses= -c fsync=off -c max_connections=60")

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _control(self, *arguments: str) -> None:
        log = str(self.folder / "log")
        _run([f"{self.programs}/pg_ctl", "-w", "-D", str(self.folder / "data"), "-l", log, *arguments])


def make() -> Cluster:
    """Make a cluster in a temporary folder, and start it."""
    found = programs()
    assert found is not None, MISSING
    folder = Path(tempfile.mkdtemp(prefix="trails-pg-", dir="/tmp"))
    if os.getuid() == 0:
        shutil.chown(folder, _USER)
    made = Cluster(found, folder)
    _run([f"{found}/initdb", "-D", str(folder / "data"), "-U", _USER, "-A", "trust", "-N", "--no-instructions"])
    made.start()
    return made


def remove(cluster: Cluster) -> None:
    """Stop a cluster and delete it."""
    cluster.stop("immediate")
    shutil.rmtree(cluster.folder, ignore_errors=True)


def _run(command: list[str]) -> None:
    as_user = ["runuser", "-u", _USER, "--"] if os.getuid() == 0 else []  # PostgreSQL refuses to run as root
    subprocess.run([*as_user, *command], check=True, stdout=subprocess.DEVNULL, cwd="/")
