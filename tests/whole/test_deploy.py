"""The files that the guide ships for a server: pinned, without secrets, and their command lines do what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import trails

DEPLOY = Path(trails.__file__).parent / "guide" / "deploy"
PROGRAM = "/opt/trails/bin/trails"


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


def script_of(name: str) -> str:
    """Return what a shell gets to run the mirror: the last quoted line with the program, its dollars as the shell sees them."""
    found = re.findall(rf"'([^'\n]*{PROGRAM} mirror[^'\n]*)'", text_of(name))
    return str(found[-1]).replace("$$", "$")


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
    assert set(found["services"]) == {"db", "trails", "mirror"}
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


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "trails-mirror.service"
    unit.write_text(text_of(unit.name))
    ran = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in ran.stderr.splitlines() if unit.name in line] == []
