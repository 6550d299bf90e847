"""SPARQL servers for tests: Oxigraph's and Virtuoso's own programs, and a stand-in over the engine that can be made to fail."""

from __future__ import annotations

import base64
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyoxigraph as ox

OXIGRAPH_MISSING = "pip install oxigraph: the server of which mirrors are made"
VIRTUOSO_MISSING = "apt-get install virtuoso-opensource: a server of which mirrors are made"
_VIRTUOSO = """
[Database]
DatabaseFile = {place}/virtuoso.db
ErrorLogFile = {place}/virtuoso.log
LockFile = {place}/virtuoso.lck
TransactionFile = {place}/virtuoso.trx
xa_persistent_file = {place}/virtuoso.pxa
[TempDatabase]
DatabaseFile = {place}/temp.db
TransactionFile = {place}/temp.trx
[Parameters]
ServerPort = {sql}
DisableTcpSocket = 0
NumberOfBuffers = 10000
MaxDirtyBuffers = 6000
DirsAllowed = {place}
VADInstallDir = {place}
[HTTPServer]
ServerPort = 127.0.0.1:{port}
ServerRoot = {place}
ServerThreads = 4
[SPARQL]
ResultSetMaxRows = {rows}
{more}
"""


def program(name: str) -> str | None:
    """Return where a program is: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.is_file() else shutil.which(name)


def check_there(name: str, missing: str) -> None:
    """Skip the test where a program is missing, with what to install; in CI that is a failure."""
    import pytest  # benchmarks start servers without it

    if program(name) is None:
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def oxigraph(folder: Path) -> Iterator[str]:
    """Run Oxigraph's server over a folder, and give its address."""
    port = free_port()
    command = [str(program("oxigraph")), "serve", "--location", str(folder), "--bind", f"127.0.0.1:{port}"]
    with _running(command, f"http://127.0.0.1:{port}", folder.parent) as url:
        yield url


@contextmanager
def virtuoso(folder: Path, rows: int = 10_000, seconds: int | None = None) -> Iterator[str]:
    """Run Virtuoso in a folder, giving at most some rows a query, in some seconds; give its address, with name and password.

    It is killed at the end. In the folder of an earlier run it goes on with what that has brought to disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "virtuoso.lck").unlink(missing_ok=True)
    port = free_port()
    more = "" if seconds is None else f"MaxQueryExecutionTime = {seconds}"
    told = _VIRTUOSO.format(place=folder, sql=free_port(), port=port, rows=rows, more=more)
    (folder / "virtuoso.ini").write_text(told)
    command = [str(program("virtuoso-t")), "+foreground", "+configfile", str(folder / "virtuoso.ini")]
    with _running(command, f"http://127.0.0.1:{port}/sparql", folder):
        yield f"http://dba:dba@127.0.0.1:{port}/sparql"


@contextmanager
def _running(command: list[str], url: str, folder: Path) -> Iterator[str]:
    with (folder / "server.out").open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        _wait_for(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):  # noqa: S310 - http, ours
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not come up")


def wipe(url: str) -> None:
    """Take out all that an Oxigraph server holds."""
    asked = urllib.request.Request(f"{url}/update", b"DROP ALL", {"Content-Type": "application/sparql-update"})  # noqa: S310
    urllib.request.urlopen(asked, timeout=60).close()  # noqa: S310


class StandIn(ThreadingHTTPServer):
    """A server over the engine in memory, by the SPARQL Protocol, at a free port.

    With `rows` it gives at most so many of a query, and says so as Virtuoso does; with `sorts` it refuses, as that does, to
    give rows in order beyond so many; with `login` ("name:password") it wants to
    be told that; while `cut` is set its answers end halfway. After `fail_after` updates all others end without an answer:
    before they are carried out or, where `lose_answers` is set, after it; where `portal` is set, with a page of something that
    stands in front of the server. Those that are not carried out are `late`, and may be later.
    """

    def __init__(
        self, *, name: str = "oxigraph/0", rows: int | None = None, sorts: int | None = None, login: str | None = None
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name, self.rows, self.sorts, self.login = name, rows, sorts, login
        self.store = ox.Store()
        self.updates: list[str] = []
        self.late: list[str] = []
        self.cut = self.lose_answers = self.portal = False
        self.fail_after: int | None = None
        self.on_update: Callable[[], object] = lambda: None
        """Called with each update that comes, before it waits for its turn."""
        self.refuses = 0
        """What it answers to queries and updates, if not 0."""
        self.away = 0
        """How many requests something in front of it answers with 502, as where it is away."""
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.0"

    def version_string(self) -> str:
        return "nginx/1.18" if self.server.away else self.server.name

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        if self.server.away:
            self._answer(502, b"")
            self.server.away -= 1
        else:
            self._answer(200, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        wanted = None if self.server.login is None else base64.b64encode(self.server.login.encode()).decode()
        if self.server.refuses:
            self._answer(self.server.refuses, b"no such path")
        elif wanted is not None and self.headers.get("Authorization") != f"Basic {wanted}":
            self._answer(401, b"who are you?", ("WWW-Authenticate", 'Basic realm="x"'))
        elif self.headers.get("Content-Type") == "application/sparql-update":
            self._update(body.decode())
        else:
            fields = parse_qs(body.decode(), keep_blank_values=True)
            text = fields.get("update", fields.get("query", [""]))[0]
            self._query(text) if re.search(r"^SELECT\b", text, re.MULTILINE) else self._update(text)

    def _update(self, text: str) -> None:
        server = self.server
        server.on_update()
        with server.lock:
            failing = server.fail_after is not None and len(server.updates) >= server.fail_after
            if not failing or server.lose_answers:
                server.updates.append(text)
                server.store.update(text)
            else:
                server.late.append(text)
        if failing and server.portal:
            self._answer(200, b"<html>Please accept our terms</html>", ("Content-Type", "text/html"))
        elif failing:
            self.close_connection = True
        else:
            self._answer(204, b"")

    def _query(self, text: str) -> None:
        wanted = sum(int(number) for number in re.findall(r"^(?:LIMIT|OFFSET) ([0-9]+)", text, re.MULTILINE))
        if self.server.sorts is not None and "ORDER BY" in text and wanted > self.server.sorts:
            self._answer(500, f"Virtuoso 22023 Error SR353: Only {self.server.sorts} are allowed".encode())
            return
        with self.server.lock:
            found = self.server.store.query(text)
            assert isinstance(found, ox.QuerySolutions)
            names, rows = found.variables, list(found)
        if self.server.rows is not None:
            rows = rows[: self.server.rows]
        cells = "\n".join("\t".join("" if row[name] is None else str(row[name]) for name in names) for row in rows)
        head = "\t".join(str(name) for name in names)
        table = ox.parse_query_results(f"{head}\n{cells}\n" if rows else f"{head}\n", format=ox.QueryResultsFormat.TSV)
        assert isinstance(table, ox.QuerySolutions)
        body = table.serialize(format=ox.QueryResultsFormat.JSON) or b""
        extra = [("X-SPARQL-MaxRows", str(self.server.rows))] if self.server.rows is not None else []
        self._answer(200, body[: len(body) // 2] if self.server.cut else body, *extra)

    def _answer(self, code: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
