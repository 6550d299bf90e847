"""Have Schemathesis send requests made from the OpenAPI document to a server: `python -m tests.serve.schemathesis_run`.

Schemathesis is a program of its own (`pipx install schemathesis`, or `--program FILE`). It fails for an answer that the document
does not name, a body that is not as its schema says, and any status of 500 and more that is not in the document.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import trails
from tests.support.servers import serving

_CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "400", "404", "409", "422"]

[parameters]
"path.session" = "a"
"query.session" = "a"
"query.left" = "a"
"query.right" = "a-fork"

[[operations]]
include-method = "DELETE"
parameters = { "path.session" = "b" }

[[operations]]
include-path-regex = "/events"
enabled = false
"""
"""Sessions that are there, so that requests get beyond a 404. What a shape cannot say is refused with 400: a time
that is none, a name that is taken. A stream of events has no end to wait for."""


def main() -> int:
    """Serve a small store, run Schemathesis against it, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="schemathesis", help="the program (default: schemathesis)")
    parser.add_argument("--examples", type=int, default=50, help="requests for each operation (default: 50)")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("rest", nargs="*", help="more options for `schemathesis run`, after --")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trails-schemathesis-") as place:
        folder = Path(place)
        fill(folder / "store")
        (folder / "schemathesis.toml").write_text(_CONFIG, "utf-8")
        with serving(folder / "store", folder / "server.log") as server:
            command = [asked.program, "--config-file", str(folder / "schemathesis.toml"), "run"]
            command += [f"http://127.0.0.1:{server.port}/api", "--url", f"http://127.0.0.1:{server.port}"]
            command += [
                "--max-examples",
                str(asked.examples),
                "--seed",
                str(asked.seed),
                "--checks",
                "all",
                *asked.rest,
            ]
            return subprocess.run(command, check=False, cwd=folder).returncode


def fill(folder: Path) -> None:
    with trails.open(folder, create=True) as store:
        for name in ("a", "b"):
            session = store.create(id=name, principal="alice", agent="planner")
            session.append("user", "Where to?")
            session.append("assistant", "To the sea.", model="m-1", usage={"input_tokens": 9, "output_tokens": 3})
            session.append("user", "And then?")
            session.persist()
        fork = store.load("a").fork(at=2, id="a-fork")
        fork.append("user", "Not to the sea.")
        fork.persist()


if __name__ == "__main__":
    sys.exit(main())
