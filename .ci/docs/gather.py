"""Gather the pages of the site: the guide as it is, and the documents that stand elsewhere in the repository.

A hook of MkDocs: `make docs` runs it. The pages of the guide come from its list in `trails/cli/help.py`, so that a new
page is on the site without a change here. The hook also writes `llms.txt`, `llms-full.txt` and each page as Markdown, in
the form of https://llmstxt.org.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import trails
from trails import errors
from trails.cli.help import PAGES, TUTORIALS, GuidePage, error_pages

ROOT: Final = Path(__file__).resolve().parents[2]
GUIDE: Final = "trails/guide"
PICTURES: Final = "trails/serve/console/static/queries"
SECTIONS: Final = {
    "install": "Basics",
    "branches": "Sessions",
    "messages": "Agents",
    "graph": "Graph and provenance",
    "transcripts": "Import and record",
    "proofs": "Trust and audit",
    "durability": "Stores and copies",
    "serve": "Server",
    "mcp": "Frameworks and models",
    "compared": "Other tools",
}
"""The first page of each section of the guide. A new page is in the section of the page before it."""
GATHERED: Final = {
    "README.md": "index.md",
    "queries/README.md": "queries.md",
    "ontology/README.md": "ontology.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks/index.md",
    "benchmarks/RESULTS.md": "benchmarks/results.md",
    "benchmarks/FRAMEWORKS.md": "benchmarks/frameworks.md",
    "benchmarks/TRUST.md": "benchmarks/trust.md",
    "benchmarks/AUDIT.md": "benchmarks/audit.md",
}
"""Where on the site a document of the repository stands."""
_REFERENCE: Final = {"Repository": ["open", "Repository"], "Session": ["Session"]}
"""The public names that have a page of the reference to themselves; all others stand on one."""
_LINK: Final = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
_QUERY: Final = re.compile(r"^### ([a-z-]+)\n(?:.*\n)*?(```mermaid\n(?:.*\n)*?```)$", re.MULTILINE)
_DIAGRAM: Final = re.compile(r"^```mermaid\n((?:.*\n)*?)```$", re.MULTILINE)
_ARROW: Final = re.compile(
    r'^ *(\w+)(?:\["(.+?)"\])? -(?:->\|(\w+)\||\. (is a) \.->) (\w+)(?:\["(.+?)"\])?$', re.MULTILINE
)
_NEXT_PAGE: Final = re.compile(r"(?<=\]\()(?!https?:)([^)#\s]+)\.md(?=[)#])")


# --- which pages there are


def sections() -> dict[str, list[str]]:
    """Return the pages of the guide by section, in the order in which one would read them."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        if page in SECTIONS:
            pages = found.setdefault(SECTIONS[page], [])
        pages.append(f"{page}.md")
    return found


def navigation() -> list[Any]:
    """Return the site's navigation, as MkDocs takes it."""
    benchmarks = [name for name in GATHERED.values() if name.startswith("benchmarks/")]
    return [
        {"Home": "index.md"},
        {"Tutorials": [f"{name}.md" for name in TUTORIALS]},
        {"Guide": [{title: pages} for title, pages in sections().items()]},
        {
            "Reference": [
                {"Python": list(reference())},
                {"Queries": "queries.md"},
                {"Vocabulary": "ontology.md"},
                {"Errors": [f"{name}.md" for name in error_pages()]},
            ]
        },
        {"Project": ["changelog.md", "contributing.md", {"Benchmarks": benchmarks}]},
    ]


def reference() -> dict[str, str]:
    """Return the pages of the public names, which mkdocstrings fills in from their docstrings."""
    alone = [*(name for names in _REFERENCE.values() for name in names), *vars(errors)]
    groups = _REFERENCE | {"Other names": [name for name in trails.__all__ if name not in alone]}
    return {
        f"reference/{title.lower().replace(' ', '-')}.md": f"# {title}\n"
        + "".join(f"\n::: trails.{name}\n" for name in names)
        for title, names in groups.items()
    }


# --- their text


def site_name(path: str) -> str:
    """Return where on the site a file of the repository stands; a file that has no place there keeps its name."""
    if path.startswith(f"{GUIDE}/"):
        return path.removeprefix(f"{GUIDE}/")
    return GATHERED.get(path, path)


def with_site_links(text: str, path: str) -> str:
    """Return a document of the repository whose links lead to the places on the site."""
    here = posixpath.dirname(site_name(path))

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1]))
        return posixpath.relpath(site_name(target), here or ".")

    return _LINK.sub(moved, text)


def for_reading(text: str) -> str:
    """Return a page as the site shows it: sessions of Python are coloured as such, queries have their pictures."""
    text = text.replace("```python\n>>> ", "```pycon\n>>> ")

    def pictured(section: re.Match[str]) -> str:
        image = f"![The pattern of {section[1]}](queries/{section[1]}.svg){{ .pattern loading=lazy }}"
        return section[0].replace(section[2], image)

    return _DIAGRAM.sub(lambda diagram: as_table(diagram[1]), _QUERY.sub(pictured, text))


def as_table(diagram: str) -> str:
    """Return a Mermaid flowchart as a table of its arrows: drawing one takes a program from another host.

    >>> print(as_table("flowchart LR\\n  Turn -. is a .-> E[\\"prov:Entity\\"]\\n  Tag -->|tagOf| Turn\\n"))
    | from | arrow | to |
    |---|---|---|
    | Turn | is a | prov:Entity |
    | Tag | tagOf | Turn |
    """
    rows = ["| from | arrow | to |", "|---|---|---|"]
    for arrow in _ARROW.finditer(diagram):
        start, start_label, label, above, end, end_label = arrow.groups()
        rows.append(f"| {start_label or start} | {label or above} | {end_label or end} |")
    if len(rows) - 2 != sum("->" in line for line in diagram.splitlines()):
        raise ValueError(f"an arrow of this diagram was not understood:\n{diagram}")
    return "\n".join(rows)


# --- for models


class Document(GuidePage):
    """A page as Markdown: where it stands on the site, and its text."""

    __slots__ = ()

    @property
    def summary(self) -> str:
        """The first paragraph below the heading."""
        return " ".join(self.text.partition("\n")[2].strip().partition("\n\n")[0].split())

    @property
    def markdown(self) -> str:
        """Where the page stands as Markdown."""
        return f"{self.name.removesuffix('.md')}.html.md"


def documents() -> dict[str, list[Document]]:
    """Return the pages that models read, by section. What is optional for a model comes last."""
    tutorials = [_document(f"{GUIDE}/{name}.md") for name in TUTORIALS]
    guide = {title: [_document(f"{GUIDE}/{name}") for name in names] for title, names in sections().items()}
    errors_ = [_document(f"{GUIDE}/{name}.md") for name in error_pages()]
    others = [_document(path) for path in GATHERED if path != "README.md"]
    return {"Start": [_document("README.md"), *tutorials], **guide, "Errors": errors_, "Optional": others}


def _document(path: str) -> Document:
    text = re.sub(r"\A<!--.*?-->\s*", "", (ROOT / path).read_text("utf-8"))
    return Document(site_name(path), _NEXT_PAGE.sub(r"\1.html.md", with_site_links(text, path)))


def index_for_models(pages: dict[str, list[Document]], description: str) -> str:
    """Return `llms.txt`: what the project is, and a link with a line for each page."""
    parts = [f"# Trails\n\n> {description}\n"]
    for title, documents_ in pages.items():
        lines = "".join(f"- [{each.title}]({each.markdown}): {each.summary}\n" for each in documents_)
        parts.append(f"\n## {title}\n\n{lines}")
    return "".join(parts)


# --- what MkDocs calls


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give the site its navigation."""
    config.nav = navigation()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what stands outside of the guide."""
    for path, name in GATHERED.items():
        text = with_site_links((ROOT / path).read_text("utf-8"), path)
        files.append(File.generated(config, name, content=text))
    for name, text in reference().items():
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "site.css", abs_src_path=str(Path(__file__).with_name("site.css"))))
    for file in sorted((ROOT / "ontology").glob("*.ttl")):
        files.append(File.generated(config, f"ontology/{file.name}", abs_src_path=str(file)))
    for file in sorted((ROOT / PICTURES).glob("*.svg")):
        files.append(File.generated(config, f"queries/{file.name}", abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show a page as people read it."""
    return for_reading(markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages for models."""
    folder, pages = Path(config.site_dir), documents()
    texts = [each for group in pages.values() for each in group]
    for each in texts:
        (folder / each.markdown).write_text(each.text, "utf-8")
    (folder / "llms.txt").write_text(index_for_models(pages, config.site_description or ""), "utf-8")
    (folder / "llms-full.txt").write_text("\n\n".join(each.text.strip() for each in texts) + "\n", "utf-8")
