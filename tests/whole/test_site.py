"""The site of the documents: every page of the guide is on it, its links hold, and it loads nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.places import ROOT
from trails.cli.help import PAGES, TUTORIALS, error_pages

CONFIGURATION = ROOT / ".ci" / "docs" / "mkdocs.yml"
if not os.environ.get("CI"):  # which must have it
    pytest.importorskip("mkdocs", reason="the group docs is not installed")


def loaded(name: str) -> ModuleType:
    """Return a module that MkDocs loads by its path, too."""
    found = importlib.util.spec_from_file_location(name, CONFIGURATION.with_name(f"{name}.py"))
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


gather = loaded("gather")


def test_every_page_of_the_guide_is_in_the_navigation_once_and_in_order() -> None:
    assert [name for names in gather.sections().values() for name in names] == [f"{page}.md" for page in PAGES]


def test_a_new_page_is_in_the_section_of_the_page_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "PAGES", ("branches", "new", "messages", "newer"))
    assert gather.sections() == {"Sessions": ["branches.md", "new.md"], "Agents": ["messages.md", "newer.md"]}


def test_each_section_begins_with_a_page_that_there_is() -> None:
    assert set(gather.SECTIONS) <= set(PAGES)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("README.md", "[turns](trails/guide/python.md#turns)", "[turns](python.md#turns)"),
        ("README.md", "![log](trails/guide/pictures/terminal.svg)", "![log](pictures/terminal.svg)"),
        ("README.md", "[changes](CHANGELOG.md)", "[changes](changelog.md)"),
        ("benchmarks/README.md", "[audits](AUDIT.md)", "[audits](audit.md)"),
        ("benchmarks/README.md", "[all](../README.md)", "[all](../index.md)"),
        ("ontology/README.md", "[terms](trails.ttl)", "[terms](ontology/trails.ttl)"),
        ("README.md", "[PROV](https://www.w3.org/TR/prov-o/)", "[PROV](https://www.w3.org/TR/prov-o/)"),
        ("README.md", "[below](#the-idea)", "[below](#the-idea)"),
    ],
)
def test_a_link_leads_to_the_place_on_the_site(path: str, text: str, expected: str) -> None:
    assert gather.with_site_links(text, path) == expected


def test_a_query_has_its_picture_and_another_diagram_a_table() -> None:
    other = 'flowchart LR\n  Turn -. is a .-> prov_Entity["prov:Entity"]\n  Tag -->|tagOf| Turn\n'
    text = f"### forest\n\nWhich?\n\n```mermaid\nA --> B\n```\n\n## Other\n\n```mermaid\n{other}```\n"
    shown = gather.for_reading(text)
    assert "(queries/forest.svg)" in shown
    assert "A --> B" not in shown
    assert "| Turn | is a | prov:Entity |\n| Tag | tagOf | Turn |\n" in shown
    assert "mermaid\n" not in shown  # whose program would be fetched


def test_a_diagram_with_an_arrow_that_is_not_understood_is_refused() -> None:
    with pytest.raises(ValueError, match="an arrow of this diagram was not understood"):
        gather.as_table("flowchart LR\n  Tag ==> Turn -> Session\n")


def test_a_python_session_is_coloured_as_one() -> None:
    assert gather.for_reading("```python\n>>> 1\n1\n```\n") == "```pycon\n>>> 1\n1\n```\n"


def test_the_index_for_models_has_the_form_of_llms_txt() -> None:
    page = gather.Document("errors/on-hold.md", "# OnHold\n\nIt is\nkept.\n\n```python\n")
    assert gather.index_for_models({"Errors": [page]}, "Git for sessions.") == (
        "# Trails\n\n> Git for sessions.\n\n## Errors\n\n- [OnHold](errors/on-hold.html.md): It is kept.\n"
    )


def test_an_example_of_a_docstring_stands_between_fences() -> None:
    shown = loaded("examples").with_fences("Add.\n\n>>> 1 + 1\n2\n>>> 3\n3\n\nThen more.")
    assert shown == "Add.\n\n```pycon\n>>> 1 + 1\n2\n>>> 3\n3\n```\n\nThen more."


def build(configuration: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build a site with the options that the Makefile has."""
    (options,) = re.findall(r"-m mkdocs (build .*) --config-file", (ROOT / "Makefile").read_text("utf-8"))
    command = [sys.executable, "-m", "mkdocs", *options.split(), "-f", str(configuration), "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Trails\n\n[a](nowhere.md) [b](#nothing) [c](/index.md)\n", "utf-8")
    own = f"INHERIT: {CONFIGURATION}\ndocs_dir: docs\nhooks: []\nplugins: []\n"
    (tmp_path / "mkdocs.yml").write_text(own, "utf-8")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "'nowhere.md', but the target is not found" in done.stderr
    assert "'#nothing', but there is no such anchor" in done.stderr
    assert "absolute link '/index.md'" in done.stderr
    assert "Aborted with 3 warnings in strict mode!" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    if not (ROOT / "trails").is_dir():
        pytest.skip("the sources are not beside these tests")
    folder = tmp_path_factory.mktemp("site")
    done = build(CONFIGURATION, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES) + len(error_pages())
    for page in pages:
        text = page.read_text("utf-8")
        tags = re.findall(r"<(?:script|link|img|iframe|source|object)\b[^>]*>", text)
        assert [tag for tag in tags if re.search(r"(?:src|href|data)=\"?(?:https?:)?//", tag)] == [], page
        assert 'class="mermaid"' not in text
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text("utf-8")), style


@pytest.mark.slow
def test_the_search_has_the_texts_of_all_pages(site: Path) -> None:
    entries = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    found = {entry["location"].partition("#")[0] for entry in entries if "bisect" in entry["text"]}
    assert {"index.html", "branches.html"} <= found
    assert {f"{page}.html" for page in PAGES} <= {entry["location"].partition("#")[0] for entry in entries}


@pytest.mark.slow
def test_the_links_for_models_lead_to_pages_in_markdown(site: Path) -> None:
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): .+$", (site / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert {f"{page}.html.md" for page in (*PAGES, *TUTORIALS, *error_pages())} <= set(links)
    whole = (site / "llms-full.txt").read_text("utf-8")
    for link in links:
        text = (site / link).read_text("utf-8")
        assert text.strip() in whole
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (site / link).parent.joinpath(target).is_file(), (link, target)
