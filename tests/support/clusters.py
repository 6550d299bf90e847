"""A PostgreSQL server of the tests' own: an unprivileged cluster in a temporary folder, behind a Unix socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from trails.store import EmbeddedStore, QuadStore
from trails.store.postgres.log import PostgresLog

MISSING = "PostgreSQL is not installed: apt-get install postgresql (Debian), and pip install 'trails[postgres]'"
_USER = "postgres"


def programs() -> Path | None:
    """Return the folder with PostgreSQL's programs, None where it is not installed, or its driver is not."""
    try:
        import psycopg  # noqa: F401 - looked for
    except ImportError:
        return None
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    on_path = shutil.which("initdb")  # Debian has most of the programs in no folder of the path
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


def check_there() -> None:
    """Skip the test where PostgreSQL is missing, with what to install; in CI that is a failure."""
    import pytest  # benchmarks start servers without it

    if programs() is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)


@dataclass(frozen=True)
class Cluster:
    """A running server; `url(name)` is the address of a store in it."""

    programs: Path
    folder: Path
    settings: tuple[str, ...] = ("fsync=off",)

    def url(self, name: str) -> str:
        return f"postgresql:///postgres?host={self.folder}&user={_USER}&store={name}"

    def start(self) -> None:
        told = " ".join(f"-c {each}" for each in (*self.settings, "listen_addresses=", "max_connections=60"))
        self._control("start", "-o", f"-k {self.folder} {told}")

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def promote(self) -> None:
        self._control("promote")

    def wait_for_standby(self, *, synchronous: bool = True) -> None:
        """Return once every commit waits for a standby that is there."""
        import psycopg

        with psycopg.connect(f"host={self.folder} user={_USER} dbname=postgres", autocommit=True) as owner:
            if synchronous:
                owner.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                owner.execute("SELECT pg_reload_conf()")
            wanted = "sync" if synchronous else "async"
            while owner.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != [(wanted,)]:
                pass

    def restart(self) -> None:
        self.stop()
        self.start()

    def _control(self, *arguments: str) -> None:
        log = str(self.folder / "log")
        _run([f"{self.programs}/pg_ctl", "-w", "-D", str(self.folder / "data"), "-l", log, *arguments])


def make(*settings: str) -> Cluster:
    """Make a cluster in a temporary folder, and start it; by default it syncs nothing, which tests have no use for."""
    found = programs()
    assert found is not None, MISSING
    folder = _folder()
    made = Cluster(found, folder, settings) if settings else Cluster(found, folder)
    _run([f"{found}/initdb", "-D", str(folder / "data"), "-U", _USER, "-A", "trust", "-N", "--no-instructions"])
    made.start()
    return made


def standby_of(primary: Cluster) -> Cluster:
    """Make a standby that streams from a primary, and start it."""
    made = Cluster(primary.programs, _folder())
    backup = [
        f"{primary.programs}/pg_basebackup",
        "-h",
        str(primary.folder),
        "-U",
        _USER,
        "-D",
        str(made.folder / "data"),
    ]
    _run([*backup, "-R", "-X", "stream", "-c", "fast"])
    made.start()
    return made


def remove(cluster: Cluster) -> None:
    """Stop a cluster and delete it."""
    with suppress(subprocess.CalledProcessError):  # it was stopped by its test
        cluster.stop("immediate")
    shutil.rmtree(cluster.folder, ignore_errors=True)


@contextmanager
def database(cluster: Cluster) -> Iterator[str]:
    """Make a further database in a cluster, give its name, and drop it in the end."""
    name = f"d{uuid4().hex}"
    tool = ["-h", str(cluster.folder), "-U", _USER]
    _run([f"{cluster.programs}/createdb", *tool, name])
    try:
        yield name
    finally:
        _run([f"{cluster.programs}/dropdb", "--force", *tool, name])


def log_of(store: QuadStore) -> PostgresLog:
    """Return the log of a store in PostgreSQL."""
    assert isinstance(store, EmbeddedStore)
    assert isinstance(store.commits, PostgresLog)
    return store.commits


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="trails-pg-", dir="/tmp"))
    if os.getuid() == 0:
        shutil.chown(folder, _USER)
    return folder


def _run(command: list[str]) -> None:
    as_user = ["runuser", "-u", _USER, "--"] if os.getuid() == 0 else []  # PostgreSQL refuses to run as root
    subprocess.run([*as_user, *command], check=True, stdout=subprocess.DEVNULL, cwd="/")
