"""What is given out is whole: the source distribution has all that the Makefile needs, the lock file pins all of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.places import ROOT
from trails.cli.help import PAGES, TUTORIALS, error_pages
from trails.rdf import query_files

NEEDED = {
    *("pyproject.toml", "Makefile", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "PKG-INFO"),
    *(".ci/run", ".ci/requirements.txt", ".ci/docs/mkdocs.yml", ".ci/docs/gather.py", "trails/__init__.py"),
    *("trails/cli/__init__.py", "trails/py.typed"),
    *("trails/integrity/verifier/program.py", "trails/integrity/digest-vectors.json", "trails/secrets/formats.toml"),
    *("trails/_samples/release-plan.jsonl", "ontology/trails.ttl", "queries/catalogue/forest.rq"),
    *("queries/audit/incomplete-turns.rq", "trails/guide/audit.md"),
    *("trails/guide/graph.md", "trails/guide/python.md"),
    *(f"trails/exchange/exporters/{part}" for part in ("page.css", "page.js", "page.html", "page_index.html")),
    "trails/display/theme.css",
    *("queries/core/lineage.rq", "tests/__init__.py", "tests/conftest.py", "tests/cli/test_cli.py"),
    *("tests/support/writer.py", "tests/support/session_cases.py", "tests/support/formats/make.py"),
    *("tests/support/formats/format-2.tar.gz", "tests/whole/test_packaging.py"),
    *("benchmarks/__main__.py", "benchmarks/scan.rq", "benchmarks/README.md", "benchmarks/RESULTS.md"),
    *("benchmarks/TRUST.md", "benchmarks/scenarios/append.py"),
}
"""Some of each kind of file that `make demo`, `make test`, `make lint` and `make bench` read, named by hand."""


@pytest.fixture(scope="module")
def distributed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of the files in a source distribution that is built here."""
    if not (ROOT / "trails").is_dir():
        pytest.skip("the sources are not beside these tests")
    if os.environ.get("CI"):
        import_module("hatchling")  # CI must have it
    sdist = pytest.importorskip("hatchling.builders.sdist", reason="the build backend is not installed")
    folder = tmp_path_factory.mktemp("sdist")
    (built,) = sdist.SdistBuilder(str(ROOT)).build(directory=str(folder))
    with tarfile.open(built) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


@pytest.mark.slow
def test_the_source_distribution_has_what_the_makefile_needs(distributed: set[str]) -> None:
    assert NEEDED - distributed == set()


def test_the_source_distribution_is_the_checkout(distributed: set[str]) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are no checkout")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert distributed == {name for name in found if (ROOT / name).exists()} | {"PKG-INFO"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of these sources."""
    if not (ROOT / "trails").is_dir():
        pytest.skip("the sources are not beside these tests")
    if os.environ.get("CI"):
        import_module("hatchling")  # CI must have it
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="the build backend is not installed")
    (path,) = wheel.WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]
    )
    return Path(path)


def test_the_wheel_has_every_page_of_the_guide_and_every_query(built: Path) -> None:
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
    pages = {f"trails/guide/{page}.md" for page in (*PAGES, *TUTORIALS, *error_pages())}
    assert {name for name in names if name.endswith(".md")} == {*pages, "trails/_data/ontology/README.md"}
    asked = {f"trails/_data/queries/{each.folder}/{each.name}.rq" for each in query_files.load_all().values()}
    assert {name for name in names if name.endswith(".rq")} == asked
    units = ("trails-mirror.service", "trails-serve.service", "trails-backup.service", "trails-backup.timer")
    deploy = {f"trails/guide/deploy/{each}" for each in ("Dockerfile", "compose.yaml", *units)}
    assert {name for name in names if "/deploy/" in name} == deploy
    parts = ("page.css", "page.js", "page.html", "page_index.html")
    exporter = (f"trails/exchange/exporters/{part}" for part in parts)
    page = {
        "trails/display/theme.css",
        "trails/audit/report.html",
        "trails/compare/diff_page.css",
        "trails/compare/diff_page.html",
        *exporter,
    }
    served = {name for name in names if name.startswith("trails/serve/")}
    assert {name for name in names if name.endswith((".css", ".js", ".html"))} - served == page
    own = {
        str(each.relative_to(ROOT)) for each in (ROOT / "trails/serve").rglob("*.*") if "__pycache__" not in each.parts
    }
    assert served == own


def test_the_wheel_says_what_it_is_and_has_the_licences_of_what_it_contains(built: Path) -> None:
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    licences = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    console = "trails/serve/console/static"
    assert licences == {"LICENSE", f"{console}/htmx-LICENSE.txt", f"{console}/yasqe-LICENSE.txt"}
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert "\nClassifier: Operating System :: POSIX :: Linux\n" in metadata
    assert "\nProject-URL:" not in metadata  # there is none that leads anywhere


def test_an_editors_tasks_run_what_the_makefile_has() -> None:
    file = ROOT / ".vscode" / "tasks.json"
    if not file.is_file():
        pytest.skip("the tasks are not beside these tests")
    tasks = json.loads(file.read_text("utf-8"))["tasks"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    made = {task["args"][0] for task in tasks if task["command"] == "make"}
    assert {"test", "lint", "docs"} <= made <= targets


# --- what continuous integration installs


def locked(lock: str = "requirements.txt") -> dict[str, list[str]]:
    """Return the hashes that the lock file gives for each `name==version`."""
    file = ROOT / ".ci" / lock
    if not file.is_file():
        pytest.skip("the lock file is not beside these tests")
    found: dict[str, list[str]] = {}
    for entry in re.sub(r"^#.*\n", "", file.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", "").splitlines():
        name, *hashes = entry.split()
        found[name] = hashes
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", ["requirements.txt", "crates.txt", "sbom.txt"])
def test_every_package_of_continuous_integration_is_pinned_by_its_hashes(lock: str) -> None:
    assert len(locked(lock)) > 30
    for name, hashes in locked(lock).items():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", name)
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), name
    assert "://" not in (ROOT / ".ci" / lock).read_text("utf-8")


def test_all_that_the_project_names_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = project["dependency-groups"]
    named = [*project["build-system"]["requires"], *project["project"]["dependencies"], "pip"]
    named += [each for group in ("test", "lint", "docs", "dev") for each in groups[group] if isinstance(each, str)]
    pinned = {normal(name.partition("==")[0]) for name in locked()}
    assert {normal(re.split(r"[<>=!~ \[]", each)[0]) for each in named} - pinned == set()
