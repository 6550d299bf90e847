"""The files that the guide ships for a server: pinned, without secrets, and their command lines do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import trails
from tests.support import clusters
from tests.support.clusters import Cluster
from tests.support.commands import invoke, ok, ok_json

DEPLOY = Path(trails.__file__).parent / "guide" / "deploy"
PROGRAM = "/opt/trails/bin/trails"


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


def script_of(name: str, command: str = f"{PROGRAM} mirror") -> str:
    """Return what a shell gets to run a command: the last quoted line with it, its dollars and percents as the shell has them."""
    found = re.findall(rf"'([^'\n]*{command}[^'\n]*)'", text_of(name))
    return str(found[-1]).replace("$$", "$").replace("%%", "%")


def test_every_image_is_pinned_to_a_version() -> None:
    images = re.findall(r"^(?:FROM|\s*image:)\s*(\S+)", text_of("Dockerfile") + text_of("compose.yaml"), re.MULTILINE)
    assert len(images) == 4
    assert [each for each in images if not re.search(r":\d+\.\d+", each)] == []


def test_no_file_holds_a_password() -> None:
    for file in DEPLOY.iterdir():
        text = text_of(file.name)
        assert not re.search(r"://[^/\s]*:[^/@\s]*@", text)
        assert [
            each
            for each in re.findall(r"PASSWORD\w*[:=] *(\S+)", text)
            if not each.startswith(('"$', "${TRAILS_", "/run", "..."))
        ] == []


def test_the_compose_file_is_yaml_whose_services_have_what_they_name() -> None:
    yaml = pytest.importorskip("yaml", reason="no reader of YAML is installed")
    found = yaml.safe_load(text_of("compose.yaml"))
    assert set(found["services"]) == {"db", "trails", "serve", "mirror"}
    for service in found["services"].values():
        assert set(service["secrets"]) <= set(found["secrets"])
        assert {each.partition(":")[0] for each in service["volumes"]} <= set(found["volumes"])
    build = found["services"]["trails"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


@pytest.mark.parametrize(
    ("name", "secret"), [("compose.yaml", "/run/secrets/db"), ("trails-mirror.service", "$CREDENTIALS_DIRECTORY/db")]
)
def test_a_mirror_is_started_with_the_password_in_its_environment_alone(name: str, secret: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nprintf \'%s\\n\' "$PGPASSWORD" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "db").write_text("it's $5 & more\n")
    script = script_of(name)
    assert secret in script
    script = script.replace(secret, str(tmp_path / "db")).replace(PROGRAM, str(program))
    store = "postgresql://reader@h/agents?store=team&sslmode=verify-full"
    environment = {"TRAILS_STORE": store, "TRAILS_MIRROR": "http://sparql:7878", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["it's $5 & more", "mirror", "--follow", store, "http://sparql:7878"]


UNITS = sorted(file.name for file in DEPLOY.glob("trails-*"))


def test_there_is_a_unit_for_each_thing_that_runs() -> None:
    assert UNITS == ["trails-backup.service", "trails-backup.timer", "trails-mirror.service", "trails-serve.service"]


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_one_that_systemd_takes(name: str, tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    for each in UNITS:
        (tmp_path / each).write_text(text_of(each))
    command = ["systemd-analyze", "verify", str(tmp_path / name)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert [line for line in ran.stderr.splitlines() if "trails" in line] == []


# --- the same commands, started by hand


@pytest.fixture
def place(cluster: Cluster, url: str) -> Iterator[str]:
    """The URL of a store as the role `trails_serve` opens it, which was granted as the files say."""
    with trails.open(url, create=True) as store:
        session = store.create(id="plan", principal="alice")
        session.append("user", "Plan a trip")
        session.persist()
    granted = ok(invoke("store", "grants", "redactor", "trails_serve", store=url))
    psql = [f"{cluster.programs}/psql", "-qX", "-v", "ON_ERROR_STOP=1", "-h", str(cluster.folder), "-U", "postgres"]
    subprocess.run(psql, input=granted, text=True, check=True, capture_output=True)
    yield url.replace("user=postgres", "user=trails_serve")
    subprocess.run([*psql, "-c", "DROP OWNED BY trails_serve", "-c", "DROP ROLE trails_serve"], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "secret", "more"),
    [
        ("compose.yaml", "/run/secrets/serve", {"--host 0.0.0.0": "--host 127.0.0.1"}),
        ("trails-serve.service", "$CREDENTIALS_DIRECTORY/db", {}),
    ],
)
def test_the_server_that_a_file_starts_answers_and_stops(
    name: str, secret: str, more: dict[str, str], place: str, tmp_path: Path
) -> None:
    httpx = pytest.importorskip("httpx")
    tokens = tmp_path / "tokens.json"
    token = ok_json(invoke("token", "make", "laptop", "--principal", "alice", "--tokens", tokens, "--json"))["token"]
    (tmp_path / "db").write_text("secret\n")
    script = script_of(name, f"{PROGRAM} serve")
    own = {
        PROGRAM: f"{sys.executable} -m trails",
        secret: str(tmp_path / "db"),
        "/var/lib/trails/tokens.json": str(tokens),
    }
    for there, here in (own | more).items():
        assert there in script
        script = script.replace(there, here)
    environment = {**os.environ, "TRAILS_STORE": place, "TRAILS_HOST": "trails.example.org"}
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{script} --port 0"], env=environment, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stderr is not None
            said = next(line for line in running.stderr if "serving" in line)
            address = re.findall(r" at (http://\S+)", said)[0].rstrip("/")
            assert httpx.get(f"{address}/health").json() == {"status": "ok"}
            sent = {"Host": "trails.example.org"}
            assert httpx.get(f"{address}/api/sessions/plan", headers=sent).status_code == 401
            sent["Authorization"] = f"Bearer {token}"
            found = httpx.get(f"{address}/api/sessions/plan", headers=sent)
            assert (found.status_code, found.json()["length"]) == (200, 1)
            running.terminate()
            assert running.wait(60) == 0
        finally:
            running.kill()


def test_the_dump_of_the_unit_is_one_that_can_be_restored(
    cluster: Cluster, place: str, url: str, tmp_path: Path
) -> None:
    (tmp_path / "db").write_text("secret\n")
    database = url.rpartition("&store=")[0]
    environment = {**os.environ, "STATE_DIRECTORY": str(tmp_path), "CREDENTIALS_DIRECTORY": str(tmp_path)}
    environment |= {"TRAILS_DATABASE": database, "PATH": f"{cluster.programs}:{os.environ['PATH']}"}
    script = script_of("trails-backup.service", "pg_dump")
    subprocess.run(["/bin/sh", "-c", script], env=environment, check=True)
    (dump,) = set(tmp_path.iterdir()) - {tmp_path / "db", tmp_path / "cache"}
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d{6}\.dump", dump.name)
    with clusters.database(cluster) as name:
        restoring = [f"{cluster.programs}/pg_restore", "-h", str(cluster.folder), "-U", "postgres", "-d", name]
        subprocess.run([*restoring, "--exit-on-error", str(dump)], check=True)
        restored = url.replace("///postgres?", f"///{name}?")
        ok(invoke("store", "clone", store=restored))
        with trails.open(restored) as store:
            assert [turn.text for turn in store.load("plan")] == ["Plan a trip"]
            assert store.verify().ok


def test_old_dumps_are_removed_and_others_stay(tmp_path: Path) -> None:
    for name, days in (("old.dump", 20), ("new.dump", 13), ("old.txt", 20)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - days * 86_400,) * 2)
    subprocess.run(
        ["/bin/sh", "-c", script_of("trails-backup.service", "exec find")],
        env={**os.environ, "STATE_DIRECTORY": str(tmp_path)},
        check=True,
    )
    assert {file.name for file in tmp_path.iterdir()} == {"new.dump", "old.txt"}
