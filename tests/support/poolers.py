"""PgBouncer before a server of the tests: in transaction mode, with fewer connections than it has clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.clusters import Cluster

MISSING = "PgBouncer is not installed: apt-get install pgbouncer (Debian)"
_PORT = 6432
_SETTINGS = """
[databases]
* = host={server}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = {port}
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
server_login_retry = 1
auth_type = trust
auth_file = {folder}/users
logfile = {folder}/log
"""


def check_there() -> None:
    """Skip the test where PgBouncer is missing, with what to install; in CI that is a failure."""
    if _program() is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)


def _program() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass(frozen=True)
class Pooler:
    """A running pooler."""

    folder: Path
    server: Cluster

    def url(self, address: str) -> str:
        """Return the address, through the pooler, of the store that an address of the server names."""
        return address.replace(f"host={self.server.folder}", f"host={self.folder}&port={_PORT}")


@contextmanager
def pgbouncer(server: Cluster, size: int = 3) -> Iterator[Pooler]:
    """Give a pooler that has so many connections to the server for one user of a database."""
    program = _program()
    assert program is not None, MISSING
    folder = Path(tempfile.mkdtemp(prefix="trails-pool-", dir="/tmp"))
    settings = folder / "settings.ini"
    settings.write_text(_SETTINGS.format(server=server.folder, folder=folder, port=_PORT, size=size))
    (folder / "users").write_text('"postgres" ""\n')
    as_user = []
    if os.getuid() == 0:  # it refuses to run as root
        as_user = ["runuser", "-u", "postgres", "--"]
        for each in (folder, *folder.iterdir()):
            shutil.chown(each, "postgres")
    with subprocess.Popen([*as_user, program, "-q", str(settings)], cwd="/", stderr=subprocess.DEVNULL) as running:
        try:
            end = time.monotonic() + 20
            while not (folder / f".s.PGSQL.{_PORT}").exists():
                assert running.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end
                time.sleep(0.02)
            yield Pooler(folder, server)
        finally:
            running.terminate()
    shutil.rmtree(folder, ignore_errors=True)
